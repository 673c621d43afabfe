"""Inner products, sums of rows with factors, and one coefficient: where most of the time is spent."""

from functools import partial

from snn._kernels.compiling import inlined, inner, uncounted
from solvers._kernels.precision import LONGEST_SUM


@partial(inlined, fastmath={"reassoc", "contract"})
def dot(left, right):
    """Return an inner product."""
    total = 0.0
    for i in range(left.shape[0]):
        total += left[i] * right[i]
    return total


@partial(inner, fastmath={"reassoc", "contract"})
def four_dots(first, second, third, fourth, vector):
    """Return the inner products of four rows with one vector, which is read once."""
    a = b = c = d = 0.0
    for j in range(vector.shape[0]):
        a += first[j] * vector[j]
        b += second[j] * vector[j]
        c += third[j] * vector[j]
        d += fourth[j] * vector[j]
    return a, b, c, d


@inner
def long_dot(left, right):
    """Return an inner product, added up part by part."""
    total = dot(left[:LONGEST_SUM], right[:LONGEST_SUM])
    for begin in range(LONGEST_SUM, left.shape[0], LONGEST_SUM):
        total += dot(left[begin : begin + LONGEST_SUM], right[begin : begin + LONGEST_SUM])
    return total


@inner
def correlate(array, residual, correlations):
    """Write array @ residual, added up part by part; rows are read four at a time."""
    n_atoms, n_features = array.shape
    whole = n_atoms - n_atoms % 4
    for begin in range(0, n_features, LONGEST_SUM):
        end = min(begin + LONGEST_SUM, n_features)
        vector = residual[begin:end]
        for i in range(0, whole, 4):
            rows = array[i : i + 4, begin:end]
            products = four_dots(rows[0], rows[1], rows[2], rows[3], vector)
            for k in range(4):
                if begin == 0:
                    correlations[i + k] = products[k]
                else:
                    correlations[i + k] += products[k]
    for i in range(whole, n_atoms):
        correlations[i] = long_dot(array[i], residual)


@partial(inlined, fastmath={"contract"})
def subtract(target, factor, source):
    """Subtract a multiple of a vector from another, in place."""
    for i in range(target.shape[0]):
        target[i] -= factor * source[i]


@inlined
def copy(target, source):
    """Copy the first entries of a vector."""
    for i in range(target.shape[0]):
        target[i] = source[i]


@uncounted
def have_equal_bits(one, other):
    """Return whether two vectors of 64-bit integers are equal, which takes half the time of `array_equal`."""
    difference = 0
    for i in range(one.shape[0]):
        difference |= one[i] ^ other[i]
    return difference == 0


@inlined
def minimised(stepped, l1_weight, diagonal, positive):
    """Return argmin over a of ``diagonal / 2 a^2 - stepped a + l1_weight |a|``; 0 without a drive."""
    if stepped > l1_weight:
        return (stepped - l1_weight) / diagonal
    if not positive and stepped < -l1_weight:
        return (stepped + l1_weight) / diagonal
    return 0.0

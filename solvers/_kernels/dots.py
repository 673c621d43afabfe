"""The innermost loops of solvers: inner products, multiples of rows, and the minimum in one coefficient."""

from functools import partial

from snn._kernels.compiling import inlined, inner
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


@partial(inlined, fastmath={"reassoc", "contract"})
def weighted_square(row, weights):
    """Return sum_j w_j d_j^2."""
    total = 0.0
    for j in range(row.shape[0]):
        total += weights[j] * row[j] * row[j]
    return total


@partial(inner, fastmath={"reassoc", "contract"})
def write_weighted_squares(array, weights, squares):
    """Write `weighted_square` of each row; rows are read four at a time."""
    n_rows, n_columns = array.shape
    whole = n_rows - n_rows % 4
    for i in range(0, whole, 4):
        a = b = c = d = 0.0
        for j in range(n_columns):
            weight = weights[j]
            a += weight * array[i, j] * array[i, j]
            b += weight * array[i + 1, j] * array[i + 1, j]
            c += weight * array[i + 2, j] * array[i + 2, j]
            d += weight * array[i + 3, j] * array[i + 3, j]
        squares[i], squares[i + 1], squares[i + 2], squares[i + 3] = a, b, c, d
    for i in range(whole, n_rows):
        squares[i] = weighted_square(array[i], weights)


@inner
def long_dot(left, right):
    """Return an inner product, computed as a sum of partial sums of LONGEST_SUM products."""
    total = dot(left[:LONGEST_SUM], right[:LONGEST_SUM])
    for begin in range(LONGEST_SUM, left.shape[0], LONGEST_SUM):
        total += dot(left[begin : begin + LONGEST_SUM], right[begin : begin + LONGEST_SUM])
    return total


@inner
def correlate(array, residual, correlations):
    """Write array @ residual, in partial sums of LONGEST_SUM products; rows are read four at a time."""
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
    """Copy the first entries of `source` to `target`."""
    for i in range(target.shape[0]):
        target[i] = source[i]


@inlined
def minimised(stepped, l1_weight, diagonal, positive):
    """Return the a that minimises ``diagonal / 2 a^2 - stepped a + l1_weight |a|``."""
    if stepped > l1_weight:
        return (stepped - l1_weight) / diagonal
    if not positive and stepped < -l1_weight:
        return (stepped + l1_weight) / diagonal
    return 0.0

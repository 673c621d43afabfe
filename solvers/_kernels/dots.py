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


@partial(inlined, fastmath={"reassoc", "contract"})
def weighted_square(row, weights):
    """Return sum_j w_j d_j^2."""
    total = 0.0
    for j in range(row.shape[0]):
        total += weights[j] * row[j] * row[j]
    return total


@partial(inner, fastmath={"reassoc", "contract"})
def write_weighted_squares(array, weights, squares):
    """Write `weighted_square` of each row."""
    for i in range(array.shape[0]):
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
    """Write array @ residual, in partial sums of LONGEST_SUM products."""
    for i in range(array.shape[0]):
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

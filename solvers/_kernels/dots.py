"""Inner products, and sums of rows with factors: the loops in which most of the time is spent."""

from functools import partial

from snn._kernels.compiling import inlined, inner


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
    a = 0.0
    b = 0.0
    c = 0.0
    d = 0.0
    for j in range(vector.shape[0]):
        a += first[j] * vector[j]
        b += second[j] * vector[j]
        c += third[j] * vector[j]
        d += fourth[j] * vector[j]
    return a, b, c, d

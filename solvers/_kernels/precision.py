"""Constants of floating point and bounds on rounding, for certificates in kernels and in NumPy.

In the standard model of floating point, the relative error of an operation is at most u = 2^-53.  A product
that underflows has an absolute error of at most the smallest positive number.  The error of a sum of k
products is then at most ``gamma(k) sum |x_i y_i|``, for additions in any order, with or without fused
operations.

References
----------
Higham (2002), Accuracy and Stability of Numerical Algorithms, 2nd edition, sections 2.2, 3.1 and 3.5.
"""

from typing import Any

import numpy as np

# u: the largest relative error of one operation.
UNIT_ROUNDOFF = 2.0**-53
# The smallest positive number.  The error of a product that underflows is smaller than this number.
QUANTUM = 2.0**-1074
# The smallest norm of an atom or a signal that is accepted, and its square.  Relative to smaller norms,
# duality gaps would be denormal numbers.
SMALLEST_SQUARED_NORM = 2.0**-970
SMALLEST_NORM = 2.0**-485
# Largest product of two norms for which an inner product cannot overflow.  Norms of atoms are below 2^512.
LARGEST = 2.0**1000
# The number that replaces zero in denominators.
SMALLEST = 2.0**-1022
# Number of operations that are added to the operations of a sum, for products with a multiple, differences
# and norms.
SPARE_OPERATIONS = 8
# Factor on bounds that accounts for the rounding of the bounds themselves.
SLACK = 1.01
# Number of products in a partial sum.  A long sum adds up partial sums, so that its error bound grows slowly.
LONGEST_SUM = 1024
# Number of bits in the high part of an atom's entries, relative to its largest entry, and number of bits in
# an exact sum.
KEPT_BITS = 20
EXACT_BITS = 53
# Factor on the multiple of a residual, so that the result is a dual point in spite of rounding.
WITHIN = 1.0 - 8.0 * UNIT_ROUNDOFF


def gamma(n_operations: Any) -> Any:
    """Return a bound on the relative error of `n_operations` + SPARE_OPERATIONS operations."""
    return (SLACK * UNIT_ROUNDOFF) * (n_operations + SPARE_OPERATIONS)


def operations_of_sum(n_products: int) -> int:
    """Return the largest number of operations on one product in a sum of `n_products` by partial sums."""
    return min(n_products, LONGEST_SUM) + (n_products - 1) // LONGEST_SUM


def high_part(values: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return values rounded to KEPT_BITS bits relative to the largest of their row; remainders are exact."""
    _, exponent = np.frexp(largest)
    return np.rint(np.ldexp(1.0, KEPT_BITS - exponent) * values) * np.ldexp(1.0, exponent - KEPT_BITS)

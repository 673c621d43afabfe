"""Numbers that certificates are made of, compiled or not, and bounds on rounding.

The standard model of floating point: the result of an operation is off by at most u = 2^-53 of it, and of a
product that underflows by the smallest number there is.  A sum of k products is then off by at most
``gamma(k) sum |x_i y_i|``, whatever the order of the additions, and with or without fused operations.

References
----------
Higham (2002), Accuracy and Stability of Numerical Algorithms, 2nd edition, sections 2.2, 3.1 and 3.5.
"""

from typing import Any

import numpy as np

# u: the largest relative error of one operation.
UNIT_ROUNDOFF = 2.0**-53
# The smallest positive number: more than the error of a product that underflows.
QUANTUM = 2.0**-1074
# Norms of atoms and signals.  Smaller ones are refused: relative to them, duality gaps would sink into
# denormal numbers.
SMALLEST_SQUARED_NORM = 2.0**-970
SMALLEST_NORM = 2.0**-485
# A sum of products may overflow if the product of two norms is larger; norms of atoms are below 2^512.
LARGEST = 2.0**1000
# Replaces zero in denominators.
SMALLEST = 2.0**-1022
# Counted besides the operations of a sum: products with a multiple, differences, norms.
SPARE_OPERATIONS = 8
# Bounds are computed in floating point, too.
SLACK = 1.01
# Products that are added up before their sums are, so that the bound of a long sum grows slowly.
LONGEST_SUM = 1024
# Bits of the larger part of an atom's numbers, beside the largest of them; bits of a sum that is exact.
KEPT_BITS = 20
EXACT_BITS = 53
# Factor on the largest multiple of a residual that is a dual point: it must be one without rounding, too.
WITHIN = 1.0 - 8.0 * UNIT_ROUNDOFF


def gamma(n_operations: Any) -> Any:
    """Return the bound on the relative error of a number of operations, and of a few more."""
    return (SLACK * UNIT_ROUNDOFF) * (n_operations + SPARE_OPERATIONS)


def operations_of_sum(n_products: int) -> int:
    """Return the most operations that one of some products goes through where they are added part by part."""
    return min(n_products, LONGEST_SUM) + (n_products - 1) // LONGEST_SUM


def high_part(values: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return values rounded to `KEPT_BITS` bits beside the largest of their row; what is left is exact."""
    _, exponent = np.frexp(largest)
    return np.rint(np.ldexp(1.0, KEPT_BITS - exponent) * values) * np.ldexp(1.0, exponent - KEPT_BITS)

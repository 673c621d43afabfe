"""Bounds on rounding: how far computed sums are from exact ones.

The standard model of floating point: the result of an operation is off by at most u = 2^-53 of it, and of a
product that underflows by the smallest number there is.  A sum of k products is then off by at most
``gamma(k) sum |x_i y_i|``, whatever the order of the additions, and with or without fused operations.

References
----------
Higham (2002), Accuracy and Stability of Numerical Algorithms, 2nd edition, sections 2.2, 3.1 and 3.5.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

UNIT_ROUNDOFF = 2.0**-53
"""u: the largest relative error of one operation."""
QUANTUM = 2.0**-1074
"""The smallest positive number: more than the error of a product that underflows."""
SMALLEST_SQUARED_NORM = np.finfo(np.float64).tiny / np.finfo(np.float64).eps
"""Smaller squared norms are refused: relative to them, duality gaps would sink into denormal numbers."""
SMALLEST_NORM = float(np.sqrt(SMALLEST_SQUARED_NORM))
# Besides the operations that are counted: products with a multiple, differences, norms.
SPARE_OPERATIONS = 8
# The bounds are computed in floating point, too.
SLACK = 1.01
# Bits of the larger part of an atom's entries, beside the largest entry.
KEPT_BITS = 20
# Products that are added up before their sums are, so that the bound of a long sum grows slowly.
LONGEST_SUM = 1024

Count = TypeVar("Count", int, np.ndarray)


def gamma(n_operations: Count) -> Count:
    """Return the bound on the relative error of so many operations, and of a few more."""
    return (SLACK * UNIT_ROUNDOFF) * (n_operations + SPARE_OPERATIONS)


def operations_of_sum(n_products: int) -> int:
    """Return the most operations that a product goes through where so many are added up part by part."""
    return min(n_products, LONGEST_SUM) + (n_products - 1) // LONGEST_SUM


def high_part(values: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Return values rounded to `KEPT_BITS` bits beside the largest of their row.

    What is left, ``values - high_part``, is exact.
    """
    _, exponent = np.frexp(largest)
    return np.rint(np.ldexp(1.0, KEPT_BITS - exponent) * values) * np.ldexp(1.0, exponent - KEPT_BITS)

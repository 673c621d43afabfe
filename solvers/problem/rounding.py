"""Bounds on rounding: how far computed sums are from exact ones.

The standard model of floating point: the result of an operation is off by at most u = 2^-53 of it, and of a
product that underflows by the smallest number there is.  A sum of k products is then off by at most
``gamma(k) sum |x_i y_i|``, whatever the order of the additions, and with or without fused operations.

References
----------
Higham (2002), Accuracy and Stability of Numerical Algorithms, 2nd edition, sections 2.2, 3.1 and 3.5.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from solvers._kernels.precision import KEPT_BITS, LONGEST_SUM, SLACK, SPARE_OPERATIONS, UNIT_ROUNDOFF


@overload
def gamma(n_operations: int) -> float: ...
@overload
def gamma(n_operations: np.ndarray) -> np.ndarray: ...
def gamma(n_operations: Any) -> Any:
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

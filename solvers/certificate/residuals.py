"""Residuals r = s - a D of codes, and w r with weights w of features, with bounds on rounding errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from solvers._kernels.precision import (
    EXACT_BITS,
    KEPT_BITS,
    LONGEST_SUM,
    QUANTUM,
    SLACK,
    SMALLEST_NORM,
    UNIT_ROUNDOFF,
    gamma,
    high_part,
    operations_of_sum,
)
from solvers.problem.atoms import Atoms, in_full
from solvers.problem.lasso import LassoProblem

# Least share of nonzero entries for which a product of dense matrices is faster than a sparse one.
LEAST_DENSITY = 0.04


class Residuals(NamedTuple):
    """Residuals, with bounds on their errors."""

    # The residuals r, shape (n_signals, n_features), with zeros in features that do not count.
    values: np.ndarray
    # The residuals times the weights, w r; `weighted` is the array `values` itself without weights or with a
    # mask.
    weighted: np.ndarray
    # Bounds on the norm of the error of r, or of sqrt(w) r with weights, shape (n_signals,).
    errors: np.ndarray
    # Bounds on the errors of correlations d_i.(w r) for atoms whose norm in the weighted features is one,
    # shape (n_signals,).
    correlation_errors: np.ndarray
    # The squared norms sum_j w_j r_j^2, shape (n_signals,).
    squared_norms: np.ndarray


def residuals_of(
    atoms: Atoms,
    signals: np.ndarray,
    codes: sparse.csr_array,
    weights: np.ndarray | None = None,
    *,
    together: bool = False,
) -> Residuals:
    """Return the residuals of codes, with weights w of features, accurate to about their own rounding."""
    # With `together`, products of matrices are used, which are faster, but whose rounding depends on other
    # codes.
    n_features, n_terms = signals.shape[1], atoms.overlaps(codes)
    exact, rest, largest_rest = _split_product(atoms, codes, n_terms, together=together)
    values = np.subtract(signals, exact, out=exact)
    values -= rest
    largest_weight: float | np.ndarray = 1.0
    weighted, n_more, seen = values, 0, values
    if weights is not None:
        # Entries of weight zero are set to zero, not multiplied by zero, because the entries may have
        # overflowed.
        values[~np.broadcast_to(weights != 0, values.shape)] = 0.0
        if weights.dtype != np.bool_:
            weighted, seen = weights * values, np.sqrt(weights) * values
            # A product with a weight is one more operation.
            largest_weight, n_more = weights.max(axis=-1), 1
    relative = SLACK * UNIT_ROUNDOFF
    rest_error = relative * (2.0 * n_terms + 4.0) * n_terms * largest_rest + n_terms * QUANTUM
    squared_norms = np.einsum("ij,ij->i", values, weighted)
    n_products = atoms.features_of_atom
    return Residuals(
        values,
        weighted,
        relative * 2.0 * np.sqrt(squared_norms) + np.sqrt(n_features * largest_weight) * rest_error,
        gamma(operations_of_sum(n_products) + 2 + n_more) * atoms.covered_norms(seen)
        + SLACK * np.sqrt(n_products * largest_weight) * rest_error
        + n_products * QUANTUM / SMALLEST_NORM,
        squared_norms,
    )


def _split_product(
    atoms: Atoms, codes: sparse.csr_array, n_terms: np.ndarray, *, together: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a D as an exact part plus a rest, and for each code the largest |low d| + |high low(d)|."""
    # A residual may be much smaller than the signal and the terms of the code, and would inherit the rounding
    # errors of these terms.  Therefore, codes and atoms are split into high and low parts.  The high parts
    # are multiples of powers of two with so few bits that all sums of their products are exact.  The low
    # parts, and the errors of products with low parts, are smaller by a factor of about 2^-20.
    # Ozaki, Ogita, Oishi and Rump (2012), Numerical Algorithms 59, section 3.
    n_signals = codes.shape[0]
    row = np.arange(n_signals).repeat(codes.indptr[1:] - codes.indptr[:-1])
    used, which = np.unique(codes.indices, return_inverse=True)
    rows = atoms.matrix[used] if atoms.is_matrix else atoms.take(used)
    largest = in_full(abs(rows).max(axis=1)).ravel()
    _, atom_exponent = np.frexp(largest.take(which))
    _, exponent = np.frexp(codes.data)
    term_exponent = np.full(n_signals, np.iinfo(np.int32).min // 2)
    np.maximum.at(term_exponent, row, exponent + atom_exponent)
    # Counted in `unit`, the sum of n_terms terms of about 2^term_exponent has at most 53 bits.
    _, carry = np.frexp(n_terms)
    unit = (term_exponent + carry + 1 - EXACT_BITS).take(row) - atom_exponent + KEPT_BITS
    high = np.ldexp(np.rint(np.ldexp(codes.data, -unit)), unit)
    low = codes.data - high
    high_rows = rows.copy()
    if isinstance(rows, np.ndarray):
        high_rows[:] = high_part(rows, largest[:, np.newaxis])
    else:
        high_rows.data = high_part(rows.data, largest.repeat(np.diff(rows.indptr)))
    of_high, of_low = (
        sparse.csr_array((part, which, codes.indptr), (n_signals, len(used))) for part in (high, low)
    )
    if together and LEAST_DENSITY * of_high.shape[0] * of_high.shape[1] < len(codes.data):
        of_high, of_low = of_high.toarray(), of_low.toarray()
    exact = in_full(of_high @ high_rows)
    rest = in_full(of_low @ rows) + in_full(of_high @ (rows - high_rows))
    rests = np.ldexp(np.abs(high), atom_exponent - KEPT_BITS) + np.ldexp(np.abs(low), atom_exponent)
    largest_rest = np.zeros(n_signals)
    np.maximum.at(largest_rest, row, rests)
    return exact, rest, largest_rest


class Correlated(NamedTuple):
    """Residuals r of codes, and their correlations d_i.(w r) with all atoms, shape (n_signals, n_atoms)."""

    residuals: Residuals
    correlations: np.ndarray

    def of(self, which: Any) -> Correlated:
        """Return the residuals and correlations of some codes."""
        return Correlated(Residuals(*(rows[which] for rows in self.residuals)), self.correlations[which])


def correlated_residuals(problem: LassoProblem, codes: sparse.csr_array) -> Correlated:
    """Return the residuals of codes and their correlations; for a path, use products of matrices."""
    atoms, together = problem.atoms, problem.penalty.is_stack and problem.atoms.rows is not None
    signals, weights = problem.dense_signals(), problem.feature_weights
    residuals = residuals_of(atoms, signals, codes, weights, together=together)
    if not together:
        return Correlated(residuals, atoms.correlate(residuals.weighted))
    parts = [slice(first, first + LONGEST_SUM) for first in range(0, problem.n_features, LONGEST_SUM)]
    return Correlated(residuals, sum(residuals.weighted[:, part] @ atoms.array[:, part].T for part in parts))

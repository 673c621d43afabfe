"""Certificates, which say how far codes are from the optimum.

This module uses NumPy, SciPy and constants (`solvers._kernels.precision`).  The module calls no solver, and
uses no result of a solver except the codes.  Contracts in pyproject.toml forbid imports of solvers, also in
compiled certificates, and `make lint` checks the contracts.

Each function starts from the residual r = s - a D of the codes and its correlations with the atoms.  With
weights w of features (a mask means weights of 1 and 0), correlations are d_i.(w r), squared norms are
sum_j w_j r_j^2 and sum_j w_j d_ij^2, and the dual point is z = kappa sqrt(w) r.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from solvers._kernels.precision import QUANTUM
from solvers.certificate.corrected import BLOCK_ENTRIES, corrected_gaps, gaps_at
from solvers.certificate.residuals import correlated_residuals
from solvers.problem.lasso import LassoProblem, in_blocks, zero_code_multiples
from solvers.problem.parts import in_groups, seen_norms


@dataclass(frozen=True, eq=False)
class Optimality:
    """Three figures of merit of each code, which the functions with the same names define."""

    objective: np.ndarray
    duality_gap: np.ndarray
    kkt_violation: np.ndarray


def objective(problem: LassoProblem, codes: ArrayLike) -> np.ndarray:
    """Return E(a) of each code, ``1/2 ||s - a D||^2 + sum_i h_i(a_i)``, shape (n_signals,).

    ``h_i(a) = lambda_i |a|`` for the LASSO, and ``lambda_i |a| + m_i / 2 a^2`` for the elastic net.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : array_like or sparse matrix, shape (n_signals, n_atoms)
        A code for each signal, not negative for atoms that are `positive`.
    """
    return measure(problem, codes).objective


def duality_gap(problem: LassoProblem, codes: ArrayLike) -> np.ndarray:
    """Return an upper bound on E(a) - min E of each code, shape (n_signals,).

    With h_i* the conjugate of h_i (`solvers.problem.penalty`), the dual of the problem is to maximise
    ``s.z - 1/2 ||z||^2 - sum_i h_i*(d_i.z)`` over z.  Every z gives a lower bound on min E.  This function
    uses z = kappa r with the best kappa >= 0.  The gap, E(a) minus the lower bound, is then::

        1/2 (1 - kappa)^2 ||r||^2 + sum_i (h_i(a_i) + h_i*(kappa d_i.r) - kappa a_i d_i.r)

    This is a sum of terms that cannot be negative, whereas the difference of the two objectives would lose
    every digit of a small gap.  Bounds on all rounding errors are added, so that the result is never below
    the exact gap of the code at the dual point z (`docs/theory.md`, section 8).

    For the LASSO, kappa scales the residual so that no ``kappa |d_i.r|`` exceeds lambda_i (``kappa d_i.r`` if
    codes must not be negative).  Then h_i* is zero, and the terms are ``lambda_i |a_i| - kappa a_i d_i.r``.
    For the elastic net the terms are, with the soft threshold e_i = T(kappa d_i.r, lambda_i)::

        lambda_i |a_i| - a_i (kappa d_i.r - e_i) + (m_i a_i - e_i)^2 / (2 m_i)

    Parameters
    ----------
    problem, codes
        See `objective`.
    """
    return measure(problem, codes).duality_gap


def kkt_violation(problem: LassoProblem, codes: ArrayLike) -> np.ndarray:
    """Return the largest violation of the optimality conditions of each code, shape (n_signals,).

    The conditions say that each a_i is a fixed point of a gradient step followed by soft thresholding, which
    is one-sided if codes must not be negative::

        (||d_i||^2 + m_i) a_i = T(||d_i||^2 a_i + d_i.r, lambda_i)

    The violation is the largest difference of the two sides, in the units of the correlations.  The violation
    is continuous in the code, and zero only at the optimum.

    Parameters
    ----------
    problem, codes
        See `objective`.
    """
    return measure(problem, codes).kkt_violation


def measure(problem: LassoProblem, codes: ArrayLike | sparse.csr_array) -> Optimality:
    """Return objective, duality gap and KKT violation of each code from one pass over the data."""
    # The bits of the figures of a code do not depend on other codes, unless the problem is `stacked`.
    checks.instance_of("problem", problem, LassoProblem)
    codes = checked_codes(problem, codes)
    figures = np.empty((3, problem.n_signals))
    for group, same in in_groups(problem):
        for block, part in in_blocks(same, BLOCK_ENTRIES // max(problem.n_atoms, problem.n_features)):
            figures[:, group[block]] = _figures(part, codes if part is problem else codes[group[block]])
    return Optimality(*figures)


def penalty_max(
    dictionary: ArrayLike,
    signals: ArrayLike,
    *,
    positive: bool | ArrayLike = False,
    mask: ArrayLike | None = None,
) -> np.ndarray:
    """Return the smallest l1 penalty at which the code of each signal is zero, shape (n_signals,).

    The smallest penalty is ``max_i |d_i.s|``, or ``max_i max(d_i.s, 0)`` if codes must not be negative.

    Parameters
    ----------
    dictionary, signals, positive, mask
        See `LassoProblem`.
    """
    return zero_code_multiples(LassoProblem(dictionary, signals, 1.0, positive=positive, mask=mask))


def checked_codes(problem: LassoProblem, codes: Any, *, name: str = "codes") -> sparse.csr_array:
    """Check codes and return them as compressed rows with unique entries; errors call them `name`."""
    shape = (problem.n_signals, problem.n_atoms)
    if not sparse.issparse(codes):
        codes = sparse.csr_array(checks.real_array(name, codes, shape=shape, meaning="(n_signals, n_atoms)"))
    if codes.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, (n_signals, n_atoms); got shape {codes.shape}")
    if codes.dtype != np.float64:
        raise TypeError(f"{name} must hold float64 numbers if they are sparse; got dtype {codes.dtype}")
    codes = codes if isinstance(codes, sparse.csr_array) else sparse.csr_array(codes)
    checks.require_finite(name, codes.data)
    if not codes.has_canonical_format:
        codes = codes.copy()
        codes.sum_duplicates()
    wrong = codes.data[(codes.data < 0.0) & problem.positive.take(codes.indices)]
    if len(wrong):
        raise ValueError(f"{name} must not be negative for atoms that are positive; got {wrong[0]}")
    return codes


@np.errstate(over="ignore", invalid="ignore")
def _figures(problem: LassoProblem, codes: sparse.csr_array) -> np.ndarray:
    """Return the figures of checked codes of signals that have equal weights, shape (3, n_signals)."""
    penalty, weights, signals = problem.penalty, problem.feature_weights, problem.dense_signals()
    residuals, correlations = products = correlated_residuals(problem, codes)
    reach = penalty.reach(correlations)

    # The sums over the entries of a code are computed in the order of its atoms.
    n_signals, n_atoms = codes.shape
    row, atom = np.arange(n_signals).repeat(np.diff(codes.indptr)), codes.indices
    place = row * n_atoms + atom
    penalty_of_entry = penalty.of_entries(codes)
    if weights is None:
        squared_norms = problem.atoms.squared_norms.take(atom)
    else:
        squared_norms = problem.atoms.weighted_squared_norms(weights)[0, atom]
    violations = reach - penalty.l1
    violations.put(place, penalty_of_entry.violation(codes.data, correlations.take(place), squared_norms))
    kkt_violation = violations.max(axis=1, initial=0.0)
    costs = np.bincount(row, penalty_of_entry.value(codes.data), n_signals)

    # All values below, and every term of the gap, are rounded up.
    errors = np.multiply(residuals.correlation_errors[:, np.newaxis], seen_norms(problem), out=violations)
    squared_residual = residuals.squared_norms
    along_signal = np.einsum("ij,ij->i", signals, residuals.weighted)
    reach = reach + errors
    kappa = penalty.dual_multiple(reach, along_signal, squared_residual)
    residual_norm = np.sqrt(squared_residual + (problem.n_features + n_atoms) * QUANTUM) + residuals.errors
    gaps = gaps_at(problem, codes, correlations, errors, reach, kappa, (1.0 - kappa) * residual_norm)
    # If figures overflow, the gap is infinite, because sums of these figures might be NaN.
    gaps[~np.isfinite(kkt_violation)] = np.inf
    figures = [0.5 * squared_residual + costs, corrected_gaps(problem, codes, gaps, products), kkt_violation]
    return np.fmin(figures, np.inf)

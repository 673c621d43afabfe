"""Certificates: how far codes are from the optimum.

NumPy and SciPy only, beside a file of numbers, `solvers._kernels.precision`.  This module calls no solver and
uses nothing that a solver has computed but the codes themselves.  The contracts on imports in pyproject.toml
say so, of compiled certificates too, and `make lint` checks them.

Each function starts from the residual r = s - a D of the codes and its correlations with the atoms.  With
weights w of features, those of a mask among them, correlations are d_i.(w r) and squared norms
sum_j w_j r_j^2 and sum_j w_j d_ij^2; z = kappa sqrt(w) r is the dual point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from solvers._kernels.precision import QUANTUM, gamma, operations_of_sum
from solvers.certificate.corrected import corrected_gaps
from solvers.certificate.residuals import residuals_of
from solvers.problem.lasso import LassoProblem

# Codes measured together: a few buffers of 8 MB, however many signals there are.
BLOCK_ENTRIES = 2**20


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimality:
    """The three figures of merit of each code.

    Attributes
    ----------
    objective, duality_gap, kkt_violation : ndarray, shape (n_signals,)
        What the functions of these names return.
    """

    objective: np.ndarray
    duality_gap: np.ndarray
    kkt_violation: np.ndarray


def objective(problem: LassoProblem, codes: ArrayLike) -> np.ndarray:
    """Return E(a) of each code, shape (n_signals,).

    ``E(a) = 1/2 ||s - a D||^2 + sum_i h_i(a_i)``, with ``h_i(a) = lambda_i |a|`` for the LASSO and
    ``lambda_i |a| + m_i / 2 a^2`` for the elastic net.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : array_like, shape (n_signals, n_atoms)
        The codes; not negative where the problem is `positive`.
    """
    return measure(problem, codes).objective


def duality_gap(problem: LassoProblem, codes: ArrayLike) -> np.ndarray:
    """Return an upper bound on E(a) - min E of each code, shape (n_signals,).

    With h_i* the conjugate of h_i (`solvers.problem.penalties`), the dual of the problem is to maximise
    ``s.z - 1/2 ||z||^2 - sum_i h_i*(d_i.z)`` over z.  Every z gives a lower bound on min E; this one is
    z = kappa r with the best kappa >= 0.  The difference of the two objectives is then the sum::

        1/2 (1 - kappa)^2 ||r||^2 + sum_i (h_i(a_i) + h_i*(kappa d_i.r) - kappa a_i d_i.r)

    of terms that cannot be negative.  It is evaluated in that form because the difference itself would
    lose every digit of a small gap.  Bounds on all rounding errors are part of the result, so that it is not
    below the exact gap of the code at this z (`docs/theory.md`, section 8).

    For the LASSO, h_i* is zero where ``|d_i.z| <= lambda_i`` (``d_i.z <= lambda_i`` if the problem is
    `positive`) and infinite elsewhere.  There kappa scales the residual into this set, and the terms of the
    sum are ``lambda_i |a_i| - kappa a_i d_i.r``.  For the
    elastic net they are, with the soft threshold e_i = T(kappa d_i.r, lambda_i)::

        lambda_i |a_i| - a_i (kappa d_i.r - e_i) + (m_i a_i - e_i)^2 / (2 m_i)

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : array_like, shape (n_signals, n_atoms)
        The codes; not negative where the problem is `positive`.
    """
    return measure(problem, codes).duality_gap


def kkt_violation(problem: LassoProblem, codes: ArrayLike) -> np.ndarray:
    """Return the largest violation of the optimality conditions of each code, shape (n_signals,).

    The conditions, per atom, say that a_i is a fixed point of a gradient step followed by soft
    thresholding::

        (||d_i||^2 + m_i) a_i = T(||d_i||^2 a_i + d_i.r, lambda_i)       T: one-sided if `positive`

    With weights of features ||d_i||^2 is sum_j w_j d_ij^2.

    The violation is the largest difference of the two sides, in the units of the correlations.  It
    is continuous in the code, and zero exactly at the optimum.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : array_like, shape (n_signals, n_atoms)
        The codes; not negative where the problem is `positive`.
    """
    return measure(problem, codes).kkt_violation


def measure(problem: LassoProblem, codes: np.ndarray | sparse.csr_array) -> Optimality:
    """Return objective, duality gap and KKT violation of each code from one pass over the data.

    The figures of a code are the same to the last bit whatever codes are measured with it.

    Parameters
    ----------
    problem : LassoProblem
        What the codes are codes of.
    codes : array_like or sparse matrix, shape (n_signals, n_atoms)
        One code for each signal.
    """
    checks.instance_of("problem", problem, LassoProblem)
    codes = checked_codes(problem, codes)
    size = max(1, BLOCK_ENTRIES // max(problem.n_atoms, problem.n_features))
    if size >= problem.n_signals:
        return _figures(problem, codes)
    blocks = [slice(start, start + size) for start in range(0, problem.n_signals, size)]
    figures = [_figures(problem.subset(block), codes[block]) for block in blocks]
    return Optimality(
        objective=np.concatenate([part.objective for part in figures]),
        duality_gap=np.concatenate([part.duality_gap for part in figures]),
        kkt_violation=np.concatenate([part.kkt_violation for part in figures]),
    )


def penalty_max(
    dictionary: ArrayLike, signals: ArrayLike, *, positive: bool = False, mask: ArrayLike | None = None
) -> np.ndarray:
    """Return the smallest l1 penalty at which the code of each signal is zero, shape (n_signals,).

    ``max_i |d_i.s|``, or ``max(max_i d_i.s, 0)`` for codes that must not be negative.

    Parameters
    ----------
    dictionary : array_like or sparse matrix, shape (n_atoms, n_features)
    signals : array_like, shape (n_signals, n_features)
    positive : bool, default False
    mask : array_like of bool, shape (n_features,) or (n_signals, n_features), optional
        True where a feature is known.
    """
    return LassoProblem(dictionary, signals, 1.0, positive=positive, mask=mask).zero_code_multiples()


def checked_codes(problem: LassoProblem, codes: np.ndarray | sparse.csr_array) -> sparse.csr_array:
    """Return codes in compressed rows, each entry once, as certificates take them.

    Parameters
    ----------
    problem : LassoProblem
        What the codes are codes of.
    codes : array_like or sparse matrix, shape (n_signals, n_atoms)
        One code for each signal.
    """
    shape = (problem.n_signals, problem.n_atoms)
    if sparse.issparse(codes):
        if codes.shape != shape:
            raise ValueError(f"codes must have shape {shape}, (n_signals, n_atoms); got shape {codes.shape}")
        if codes.dtype != np.float64:
            raise TypeError(f"codes must hold float64 numbers where they are sparse; got {codes.dtype}")
        rows = sparse.csr_array(codes)
        checks.require_finite("codes", rows.data)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        codes = rows
    else:
        codes = sparse.csr_array(
            checks.real_array("codes", codes, shape=shape, meaning="(n_signals, n_atoms)")
        )
    if problem.is_positive and codes.data.min(initial=0.0) < 0.0:
        raise ValueError(f"codes must not be negative for a positive problem; got {codes.data.min()}")
    return codes


def _figures(problem: LassoProblem, codes: sparse.csr_array) -> Optimality:
    """Return the figures of codes that were checked."""
    penalty, positive = problem.penalty, problem.is_positive
    signals, weights = problem.dense_signals(), problem.feature_weights
    residuals = residuals_of(problem.atoms, signals, codes, weights)
    correlations = problem.atoms.correlate(residuals.weighted)
    reach = correlations if positive else np.abs(correlations)
    squared_residual = np.einsum("ij,ij->i", residuals.values, residuals.weighted)
    along_signal = np.einsum("ij,ij->i", signals, residuals.weighted)

    # Sums over the entries of a code, in the order of its atoms.
    n_signals, n_atoms = codes.shape
    n_entries = codes.indptr[1:] - codes.indptr[:-1]
    signal = np.arange(n_signals).repeat(n_entries)
    atom, value = codes.indices, codes.data
    place = signal * n_atoms + atom
    correlation = correlations.take(place)
    penalty_of_entry = penalty.at(atom)
    costs = penalty_of_entry.value(value)
    if weights is None:
        squared_norms = problem.squared_norms.take(atom)
    else:
        squared_norms = problem.atoms.weighted_squared_norms(weights, signal, atom)

    # Of the coefficients that are zero; the others follow.
    violations = np.subtract(reach, penalty.l1, out=np.empty_like(reach) if positive else correlations)
    violations.put(place, penalty_of_entry.violation(value, correlation, squared_norms, positive=positive))
    kkt_violation = violations.max(axis=1, initial=0.0)

    # From here on, `reach` is the largest that rounding allows, and so is every term of the gap.
    # The arrays of the largest problems take hundreds of megabytes each: one that is done with is used again.
    errors = np.sqrt(np.broadcast_to(problem.squared_norms, reach.shape), out=violations)
    errors *= residuals.correlation_errors[:, np.newaxis]
    reach += errors
    kappa = penalty.dual_multiple(reach, along_signal, squared_residual)
    slacks = penalty_of_entry.slack(
        value,
        correlation,
        kappa.take(signal),
        positive=positive,
        errors=errors.take(place),
    )
    lost = (problem.n_features + n_atoms) * QUANTUM
    residual_norm = np.sqrt(squared_residual + lost) + residuals.errors
    gap = (
        0.5 * ((1.0 - kappa) * residual_norm) ** 2
        + np.bincount(signal, slacks, n_signals)
        + penalty.conjugate(reach, kappa, without=place)
        + lost
    )
    gap *= 1.0 + gamma(operations_of_sum(problem.n_features) + n_atoms)
    # Nothing is rounded where signal and code are zero.
    gap[(problem.energies == 0.0) & (n_entries == 0)] = 0.0
    return Optimality(
        objective=0.5 * squared_residual + np.bincount(signal, costs, n_signals),
        duality_gap=corrected_gaps(problem, codes, gap),
        kkt_violation=kkt_violation,
    )

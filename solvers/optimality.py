"""The judge: how far codes are from the optimum.

NumPy only.  It calls no solver and takes nothing a solver has computed but the codes themselves.
Each function starts from the residual r = s - a D of the codes and its correlations with the atoms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snn import checks
from solvers.problem import LassoProblem

# Judged together: a few buffers of 8 MB, however many signals there are.
BLOCK_ENTRIES = 2**20


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimality:
    """The three figures of merit of each code, shape (n_signals,) each."""

    objective: np.ndarray
    duality_gap: np.ndarray
    kkt_violation: np.ndarray


def objective(problem: LassoProblem, codes: np.ndarray) -> np.ndarray:
    """Return E(a) of each code, shape (n_signals,).

    ``E(a) = 1/2 ||s - a D||^2 + sum_i lambda_i |a_i|``

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : array_like, shape (n_signals, n_atoms)
        The codes; not negative where the problem is `positive`.

    Raises
    ------
    TypeError, ValueError
        If the codes are of the wrong kind or shape, not finite, or not feasible.
    """
    return judge(problem, codes).objective


def duality_gap(problem: LassoProblem, codes: np.ndarray) -> np.ndarray:
    """Return an upper bound on E(a) - min E of each code, shape (n_signals,).

    The dual of the problem is to maximise ``s.z - 1/2 ||z||^2`` over z with ``|d_i.z| <= lambda_i``
    (``d_i.z <= lambda_i`` where the problem is `positive`).  The residual, scaled by the best feasible
    kappa >= 0, is such a z.  The difference of the two objectives is then the sum::

        1/2 (1 - kappa)^2 ||r||^2 + sum_i (lambda_i |a_i| - kappa a_i d_i.r)

    of terms that cannot be negative, evaluated in that form because the difference itself would
    lose every digit of a small gap.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : array_like, shape (n_signals, n_atoms)
        The codes; not negative where the problem is `positive`.

    Raises
    ------
    TypeError, ValueError
        If the codes are of the wrong kind or shape, not finite, or not feasible.
    """
    return judge(problem, codes).duality_gap


def kkt_violation(problem: LassoProblem, codes: np.ndarray) -> np.ndarray:
    """Return the largest violation of the optimality conditions of each code, shape (n_signals,).

    The conditions, per atom, say that a_i is a fixed point of a gradient step followed by soft
    thresholding::

        ||d_i||^2 a_i = T_i(||d_i||^2 a_i + d_i.r)       T_i: by lambda_i, one-sided if `positive`

    The violation is the largest difference of the two sides, in the units of the correlations.  It
    is continuous in the code, and zero exactly at the optimum.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : array_like, shape (n_signals, n_atoms)
        The codes; not negative where the problem is `positive`.

    Raises
    ------
    TypeError, ValueError
        If the codes are of the wrong kind or shape, not finite, or not feasible.
    """
    return judge(problem, codes).kkt_violation


def judge(problem: LassoProblem, codes: np.ndarray) -> Optimality:
    """Return objective, duality gap and KKT violation of each code from one pass over the data.

    The figures of a code are the same to the last bit whatever codes are judged with it.  Parameters
    and errors as `objective`.
    """
    checks.instance_of("problem", problem, LassoProblem)
    codes = checks.real_array(
        "codes", codes, shape=(problem.n_signals, problem.n_atoms), meaning="(n_signals, n_atoms)"
    )
    if problem.positive and codes.min() < 0.0:
        raise ValueError(f"codes must not be negative for a positive problem; got {codes.min()}")

    size = max(1, BLOCK_ENTRIES // max(problem.n_atoms, problem.n_features))
    blocks = [slice(start, start + size) for start in range(0, problem.n_signals, size)]
    figures = [_figures(problem.subset(block), codes[block]) for block in blocks]
    objectives, gaps, violations = (np.concatenate(column) for column in zip(*figures, strict=True))
    return Optimality(objective=objectives, duality_gap=gaps, kkt_violation=violations)


def penalty_max(dictionary: np.ndarray, signals: np.ndarray, *, positive: bool = False) -> np.ndarray:
    """Return the smallest penalty at which the code of each signal is zero, shape (n_signals,).

    ``max_i |d_i.s|``, or ``max(max_i d_i.s, 0)`` for codes that must not be negative.

    Parameters
    ----------
    dictionary : array_like, shape (n_atoms, n_features)
    signals : array_like, shape (n_signals, n_features)
    positive : bool, default False

    Raises
    ------
    TypeError, ValueError
        As `LassoProblem`.
    """
    problem = LassoProblem(dictionary, signals, 1.0, positive=positive)
    correlations = problem.correlations if problem.positive else np.abs(problem.correlations)
    return np.maximum(correlations.max(axis=1), 0.0)


def _figures(problem: LassoProblem, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return objective, duality gap and KKT violation, unchecked."""
    residuals = problem.signals - problem.reconstruct(codes)
    correlations = problem.correlate(residuals)
    squared_residual = np.einsum("ij,ij->i", residuals, residuals)
    costs = np.abs(codes) * problem.penalty

    kappa = _dual_scale(problem, residuals, correlations, squared_residual)
    slacks = costs - kappa[:, np.newaxis] * codes * correlations
    gap = 0.5 * (1.0 - kappa) ** 2 * squared_residual + slacks.sum(axis=1)

    scaled = problem.squared_norms * codes
    stepped = scaled + correlations
    lower = -np.inf if problem.positive else -problem.penalty
    fixed_point = stepped - np.clip(stepped, lower, problem.penalty)
    violation = np.abs(scaled - fixed_point).max(axis=1)
    return 0.5 * squared_residual + costs.sum(axis=1), gap, violation


def _dual_scale(
    problem: LassoProblem, residuals: np.ndarray, correlations: np.ndarray, squared_residual: np.ndarray
) -> np.ndarray:
    """Return kappa: of the feasible multiples of the residual, the one with the largest dual objective."""
    reach = correlations if problem.positive else np.abs(correlations)
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = 1.0 / np.maximum((reach / problem.penalty).max(axis=1), 0.0)
        unconstrained = np.einsum("ij,ij->i", problem.signals, residuals) / squared_residual
    unconstrained[squared_residual == 0.0] = 0.0
    return np.clip(unconstrained, 0.0, largest)

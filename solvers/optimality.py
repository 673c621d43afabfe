"""The judge: how far codes are from the optimum.

NumPy and SciPy only.  It calls no solver and takes nothing a solver has computed but the codes themselves.
Each function starts from the residual r = s - a D of the codes and its correlations with the atoms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from snn import checks
from solvers.problem import LassoProblem

# Judged together: a few buffers of 8 MB, however many signals there are.
BLOCK_ENTRIES = 2**20
# Stands for zero in denominators.
SMALLEST = np.finfo(np.float64).tiny


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


def judge(problem: LassoProblem, codes: np.ndarray | sparse.csr_array) -> Optimality:
    """Return objective, duality gap and KKT violation of each code from one pass over the data.

    The figures of a code are the same to the last bit whatever codes are judged with it.  Parameters
    and errors as `objective`; codes may also be a `scipy.sparse.csr_array`.
    """
    checks.instance_of("problem", problem, LassoProblem)
    codes = _checked_codes(problem, codes)
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


def _checked_codes(problem: LassoProblem, codes: np.ndarray | sparse.csr_array) -> sparse.csr_array:
    """Return the codes with their non-zero entries alone, each once."""
    shape = (problem.n_signals, problem.n_atoms)
    if sparse.issparse(codes):
        if not isinstance(codes, sparse.csr_array):
            raise TypeError(f"codes must be an array or a csr_array; got a {type(codes).__name__}")
        if codes.shape != shape:
            raise ValueError(f"codes must have shape {shape}, (n_signals, n_atoms); got shape {codes.shape}")
        if codes.dtype != np.float64:
            raise TypeError(f"codes must hold float64 numbers where they are sparse; got {codes.dtype}")
        checks.require_finite("codes", codes.data)
        if not codes.has_canonical_format:
            codes = codes.copy()
            codes.sum_duplicates()
    else:
        codes = sparse.csr_array(
            checks.real_array("codes", codes, shape=shape, meaning="(n_signals, n_atoms)")
        )
    if problem.positive and codes.data.min(initial=0.0) < 0.0:
        raise ValueError(f"codes must not be negative for a positive problem; got {codes.data.min()}")
    return codes


def _figures(problem: LassoProblem, codes: sparse.csr_array) -> Optimality:
    """Return the figures of codes that were checked."""
    residuals = problem.reconstruct(codes)
    np.subtract(problem.signals, residuals, out=residuals)
    correlations = problem.correlate(residuals)
    reach = correlations if problem.positive else np.abs(correlations)
    squared_residual = np.einsum("ij,ij->i", residuals, residuals)
    kappa = _dual_scale(problem, residuals, reach, squared_residual)

    # Sums over the entries of a code, in the order of its atoms.
    n_signals, n_atoms = codes.shape
    signal = np.arange(n_signals).repeat(codes.indptr[1:] - codes.indptr[:-1])
    atom, value = codes.indices, codes.data
    place = signal * n_atoms + atom
    correlation, penalty = correlations.take(place), problem.penalty.take(atom)
    costs = np.abs(value) * penalty
    slacks = costs - kappa.take(signal) * value * correlation
    gap = 0.5 * (1.0 - kappa) ** 2 * squared_residual + np.bincount(signal, slacks, n_signals)

    # At an entry that is zero, thresholding leaves what exceeds the penalty.
    violations = np.subtract(reach, problem.penalty, out=reach)
    scaled = problem.squared_norms.take(atom) * value
    stepped = scaled + correlation
    thresholded = stepped - np.minimum(stepped, penalty)
    if not problem.positive:
        thresholded += np.minimum(stepped + penalty, 0.0)
    violations.put(place, np.abs(scaled - thresholded))
    return Optimality(
        objective=0.5 * squared_residual + np.bincount(signal, costs, n_signals),
        duality_gap=gap,
        kkt_violation=violations.max(axis=1, initial=0.0),
    )


def _dual_scale(
    problem: LassoProblem, residuals: np.ndarray, reach: np.ndarray, squared_residual: np.ndarray
) -> np.ndarray:
    """Return kappa: of the feasible multiples of the residual, the one with the largest dual objective."""
    projection = np.einsum("ij,ij->i", problem.signals, residuals)
    # Where the residual is zero, so is every multiple of it.
    unconstrained = projection / np.maximum(squared_residual, SMALLEST)
    largest = 1.0 / (reach / problem.penalty).max(axis=1, initial=SMALLEST)
    return np.minimum(np.maximum(unconstrained, 0.0), largest)

"""What every solver returns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache

import numpy as np
from scipy import sparse

from snn import checks
from solvers._kernels.batch import nonzero_entries
from solvers.optimality import Optimality, measure
from solvers.problem import LassoProblem

# Of the 32-bit indices of sparse matrices.
LARGEST_INDEX = np.iinfo(np.int32).max


class Status(IntEnum):
    """How the solution of one signal ended."""

    CONVERGED = 0
    """duality_gap <= tol * 1/2 ||signal||^2, by the judge's reckoning."""
    LIMIT_REACHED = 1
    """The solver stopped at its limit of steps or time with a larger gap."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseCodingResult:
    """Codes, and what the independent judge says of them.

    Attributes
    ----------
    method : str
        Who solved it.
    tol : float
        What was asked for: ``duality_gap <= tol * 1/2 ||signal||^2``.
    sparse_codes : scipy.sparse.csr_array, shape (n_signals, n_atoms)
        The codes, their non-zero entries alone, sorted by atom.
    objective : ndarray, shape (n_signals,)
        E(a).
    duality_gap : ndarray, shape (n_signals,)
        Upper bound on E(a) - min E.
    kkt_violation : ndarray, shape (n_signals,)
        Largest violation of the optimality conditions, in the units of the correlations.
    status : ndarray of int, shape (n_signals,)
        A `Status` each.
    n_steps : ndarray of int, shape (n_signals,)
        Spikes of the spiking solver, iterations of the others.
    """

    method: str
    tol: float
    sparse_codes: sparse.csr_array
    objective: np.ndarray
    duality_gap: np.ndarray
    kkt_violation: np.ndarray
    status: np.ndarray
    n_steps: np.ndarray

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            elif isinstance(value, sparse.csr_array):
                for array in (value.data, value.indices, value.indptr):
                    array.flags.writeable = False

    @cached_property
    def codes(self) -> np.ndarray:
        """The codes as a dense array, shape (n_signals, n_atoms)."""
        return checks.read_only(self.sparse_codes.toarray())

    @property
    def converged(self) -> bool:
        """Whether every signal did."""
        return bool((self.status == Status.CONVERGED).all())

    @property
    def support_size(self) -> np.ndarray:
        """Number of non-zero entries of each code, shape (n_signals,)."""
        return np.diff(self.sparse_codes.indptr)


def as_sparse(rows: np.ndarray | sparse.csr_array) -> sparse.csr_array:
    """Return the entries of each row that are not zero, in order."""
    if isinstance(rows, sparse.csr_array):
        return rows
    if rows.size > LARGEST_INDEX:
        return sparse.csr_array(rows)
    # The same, ten times faster: entries that are known to be right are not checked.
    matrix = object.__new__(sparse.csr_array)
    vars(matrix).update(vars(_without_entries(rows.shape)))
    matrix.indptr = np.empty(len(rows) + 1, dtype=np.int32)
    matrix.data, matrix.indices = nonzero_entries(checks.read_only(np.ascontiguousarray(rows)), matrix.indptr)
    return matrix


@lru_cache(maxsize=64)
def _without_entries(shape: tuple[int, int]) -> sparse.csr_array:
    matrix = sparse.csr_array(shape)
    matrix.has_canonical_format = True
    return matrix


def judged(
    problem: LassoProblem,
    codes: np.ndarray | sparse.csr_array,
    /,
    *,
    method: str,
    tol: float,
    n_steps: np.ndarray,
    limit: str,
    optimality: Optimality | None = None,
    kind: type[SparseCodingResult] = SparseCodingResult,
    **more: object,
) -> SparseCodingResult:
    """Return the result for `codes`; warn of signals that missed `tol` at the `limit` named.

    `optimality` is what the judge said of these codes, where it was asked before.
    """
    codes = as_sparse(codes)
    if optimality is None:
        optimality = measure(problem, codes)
    # Written so that a gap that is not a number has missed.
    missed = ~(optimality.duality_gap <= tol * problem.energies)
    if missed.any():
        from sklearn.exceptions import ConvergenceWarning  # here, because it takes scikit-learn a second

        with np.errstate(divide="ignore", invalid="ignore"):
            worst = np.max((optimality.duality_gap / problem.energies)[missed])
        warnings.warn(
            f"{method}: {int(missed.sum())} of {problem.n_signals} signals did not reach "
            f"duality_gap <= {tol:g} * 1/2 ||signal||^2 within {limit}; the worst has {worst:.2g}",
            ConvergenceWarning,
            stacklevel=3,
        )
    return kind(
        method=method,
        tol=tol,
        sparse_codes=codes,
        objective=optimality.objective,
        duality_gap=optimality.duality_gap,
        kkt_violation=optimality.kkt_violation,
        status=np.where(missed, int(Status.LIMIT_REACHED), int(Status.CONVERGED)),
        n_steps=n_steps,
        **more,
    )

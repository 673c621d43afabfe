"""The result of every solver: codes and their certificates."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy import sparse

from snn.base import checks
from snn.base.caller_warnings import warn_caller
from snn.base.drawn import Drawn
from snn.base.html import counted, number, value_range
from solvers._kernels.batch import CompressedRows, nonzero_entries
from solvers.certificate.compiled import certify
from solvers.certificate.optimality import Optimality
from solvers.problem.conditioning import warn_if_all_zero
from solvers.problem.lasso import LassoProblem
from solvers.results.joining import LARGEST_INDEX
from solvers.results.operations import (
    CERTIFICATE,
    DRIVE,
    SIGNS,
    OperationLedger,
    Work,
    certificate_work,
    drive_work,
    ledger_of,
)

Result = TypeVar("Result", bound="SparseCodingResult")


class Status(IntEnum):
    """How the solution of one signal ended."""

    CONVERGED = 0
    """duality_gap <= tol * 1/2 ||signal||^2, as `solvers.certificate.optimality` measures it."""
    LIMIT_REACHED = 1
    """The solver stopped at its limit of steps or time with a larger gap."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SparseCodingResult(Drawn):
    """Codes with their certificates, the figures of `solvers.certificate.optimality`, whatever the solver.

    Attributes
    ----------
    method : str
        The solver.
    tol : float
        The tolerance: ``duality_gap <= tol * 1/2 ||signal||^2``.
    sparse_codes : scipy.sparse.csr_array, shape (n_signals, n_atoms)
        The non-zero entries of the codes, sorted by atom.
    objective : ndarray, shape (n_signals,)
        E(a).
    duality_gap : ndarray, shape (n_signals,)
        Upper bound on E(a) - min E.
    energies : ndarray, shape (n_signals,)
        1/2 ||signal||^2, the unit of `tol`; of the known features, with their weights.
    kkt_violation : ndarray, shape (n_signals,)
        Largest violation of the optimality conditions, in the units of the correlations.
    status : ndarray of int, shape (n_signals,)
        The `Status` of each signal.
    n_steps : ndarray of int, shape (n_signals,)
        Spikes of the spiking solver, rounds of the active-set solver, iterations of the others.
    work : Work or None
        What `operations` is made of; None of a solver that does not count.
    """

    method: str
    tol: float
    sparse_codes: sparse.csr_array
    objective: np.ndarray
    duality_gap: np.ndarray
    energies: np.ndarray
    kkt_violation: np.ndarray
    status: np.ndarray
    n_steps: np.ndarray
    work: Work | None = None

    STEPS: ClassVar[str] = "iterations"
    """What `n_steps` counts."""

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            elif isinstance(value, sparse.csr_array):
                for array in (value.data, value.indices, value.indptr):
                    array.flags.writeable = False
            elif isinstance(value, CompressedRows):
                for array in value:
                    array.flags.writeable = False

    @cached_property
    def codes(self) -> np.ndarray:
        """The codes as a dense array, shape (n_signals, n_atoms)."""
        return checks.read_only(self.sparse_codes.toarray())

    @cached_property
    def operations(self) -> OperationLedger | None:
        """What each signal took, part by part; None of a solver that does not count."""
        return None if self.work is None else ledger_of(self.work)

    @property
    def relative_gap(self) -> np.ndarray:
        """`duality_gap` in the unit of `tol`, shape (n_signals,): of 1/2 ||signal||^2; 0 where both are 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.duality_gap == 0.0, 0.0, self.duality_gap / self.energies)

    @property
    def converged(self) -> bool:
        """True if every signal reached `tol`."""
        return bool((self.status == Status.CONVERGED).all())

    def start_currents(self, squared_norms: np.ndarray) -> sparse.csr_array:
        """Return what `solve_active_set` starts from, ||d_i||^2 a_i, shape (n_signals, n_atoms).

        Parameters
        ----------
        squared_norms : ndarray, shape (n_atoms,)
            ||d_i||^2.
        """
        codes = self.sparse_codes
        currents = codes.data * squared_norms[codes.indices]
        return sparse.csr_array((currents, codes.indices, codes.indptr), codes.shape)

    @property
    def support_size(self) -> np.ndarray:
        """Number of non-zero entries of each code, shape (n_signals,)."""
        return np.diff(self.sparse_codes.indptr)

    def _facts(self) -> dict[str, str]:
        n_signals, n_atoms = self.sparse_codes.shape
        n_converged = int(np.count_nonzero(self.status == Status.CONVERGED))
        work = {}
        if self.work is not None:
            total = sum(int(np.sum(counts)) for counts in self.work.multiply_adds.values())
            work = {"multiply-adds": SIGNS[self.work.bound] + number(total)}
        return {
            "method": self.method,
            "converged": f"{n_converged:,} of {counted(n_signals, 'signal')}, tol {self.tol:g}",
            "certified gap": f"{value_range(self.relative_gap)} of 1/2 ||signal||²",
            "objective": value_range(self.objective),
            "support": f"{value_range(self.support_size)} of {counted(n_atoms, 'atom')}",
            self.STEPS: number(int(self.n_steps.sum())),
            **work,
        }


def as_sparse(rows: np.ndarray | sparse.csr_array) -> sparse.csr_array:
    """Return the entries of each row that are not zero, in order.

    Parameters
    ----------
    rows : ndarray or scipy.sparse.csr_array, shape (n_rows, n_columns)
        Compressed rows are returned as they are.
    """
    if isinstance(rows, sparse.csr_array):
        return rows
    if rows.size > LARGEST_INDEX:
        return sparse.csr_array(rows)
    return compressed_rows(rows.shape, entries_of(rows))


def entries_of(rows: np.ndarray) -> CompressedRows:
    """Return the entries of each row that are not zero, in order.

    Parameters
    ----------
    rows : ndarray, shape (n_rows, n_columns)
        Of less than 2^31 numbers.
    """
    pointers = np.empty(len(rows) + 1, dtype=np.int32)
    values, columns = nonzero_entries(checks.read_only(np.ascontiguousarray(rows)), pointers)
    return CompressedRows(pointers, columns, values)


def compressed_rows(shape: tuple[int, int], rows: CompressedRows) -> sparse.csr_array:
    """Return a `csr_array` of entries that are right by construction; it takes ownership of the arrays.

    Parameters
    ----------
    shape : (int, int)
        (n_rows, n_columns).
    rows : CompressedRows
        The entries.
    """
    # A copy of an empty array takes a microsecond, the constructor with its checks nine: a tenth of a small
    # problem.
    matrix = copy(_empty_rows(shape))
    matrix.indptr, matrix.indices, matrix.data = rows
    return matrix


@lru_cache(maxsize=64)
def _empty_rows(shape: tuple[int, int]) -> sparse.csr_array:
    matrix = sparse.csr_array(shape)
    matrix.has_canonical_format = True
    return matrix


def convergence_warning() -> type[Warning]:
    """Return the class of the warning that a signal missed `tol`."""
    from sklearn.exceptions import ConvergenceWarning  # scikit-learn takes a second to import

    return ConvergenceWarning


def certified_result(
    problem: LassoProblem,
    codes: np.ndarray | sparse.csr_array,
    /,
    *,
    method: str,
    tol: float,
    n_steps: np.ndarray,
    limit: str | None,
    optimality: Optimality | None = None,
    kind: type[Result],
    work: Work | None = None,
    **more: Any,
) -> Result:
    """Return the result for `codes`; warn of signals that missed `tol` within the `limit` named, and if all
    codes are zero.

    Parameters
    ----------
    problem, codes
        What was solved, and the codes found.
    method, tol, n_steps
        As in the result.
    limit : str or None
        What ended the solver, for the warning; None where there is to be no warning at all.
    optimality : Optimality, optional
        The certificates of these codes, where they were measured before.
    kind : type
        Class of the result: `SparseCodingResult`, or one that adds to it.
    work : Work, optional
        The multiply-adds of the solver; those of the drive are added, and those of the certificates that are
        measured here.
    **more
        Further fields of that class.
    """
    codes = as_sparse(codes)
    if work is not None:
        work = _with_drive(work, problem)
    if optimality is None:
        optimality = certify(problem, codes)
        if work is not None:
            work = _with_certificates(work, problem, codes)
    if limit is not None:
        warn_if_all_zero(problem, codes)
    # A gap that is not a number misses `tol`, too.
    missed = ~(optimality.duality_gap <= tol * problem.energies)
    if limit is not None and missed.any():
        with np.errstate(divide="ignore", invalid="ignore"):
            worst = np.max((optimality.duality_gap / problem.energies)[missed])
        warn_caller(
            f"{method}: {int(missed.sum())} of {problem.n_signals} signals did not reach "
            f"duality_gap <= {tol:g} * 1/2 ||signal||^2 within {limit}; the worst has {worst:.2g}",
            convergence_warning(),
        )
    return kind(
        method=method,
        tol=tol,
        sparse_codes=codes,
        objective=optimality.objective,
        duality_gap=optimality.duality_gap,
        energies=problem.energies,
        kkt_violation=optimality.kkt_violation,
        status=np.where(missed, int(Status.LIMIT_REACHED), int(Status.CONVERGED)),
        n_steps=n_steps,
        work=work,
        **more,
    )


def _with_drive(work: Work, problem: LassoProblem) -> Work:
    drive = np.full(problem.n_signals, drive_work(problem))
    return work._replace(multiply_adds={DRIVE: drive, **work.multiply_adds})


def _with_certificates(work: Work, problem: LassoProblem, codes: sparse.csr_array) -> Work:
    before = np.asarray(work.multiply_adds.get(CERTIFICATE, 0))
    certificates = before + certificate_work(problem, np.diff(codes.indptr))
    return work._replace(multiply_adds={**work.multiply_adds, CERTIFICATE: certificates})

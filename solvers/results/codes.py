"""Codes with their certificates, as methods find them and as results store them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from snn.base import checks
from snn.base.value import replaced
from solvers._kernels.certificate import RowEntries, count_entries, read_entries
from solvers.certificate.compiled import certificates_of, optimality_of
from solvers.certificate.optimality import Optimality
from solvers.problem.lasso import LassoProblem

# The names of the parts of operations; docs/operations.md says what each part counts.
DRIVE, GRAM, NETWORK, READ_OUT, METHOD, POLISH, START, CERTIFICATE = PARTS = (
    "drive", "gram", "network", "read-out", "method", "polish", "start", "certificate",
)  # fmt: skip
FIGURES = tuple(figure.name for figure in fields(Optimality))


class Status(IntEnum):
    """Why the search that found the best code of a signal ended.

    Attributes
    ----------
    REACHED
        The gap of the code is within `tol`.
    AT_LIMIT
        The method used up its time, rounds or iterations.  The codes in a result of `certify` also have the
        status AT_LIMIT.
    RAN_AWAY
        The network was stopped, because neurons excited each other without end.
    AT_PRECISION
        The method ended because only rounding errors are left in the gap.
    INFEASIBLE, UNBOUNDED
        A quadratic program has no solution, which its multipliers or a direction prove.
    """

    REACHED = 0
    AT_LIMIT = 1
    RAN_AWAY = 2
    AT_PRECISION = 3
    INFEASIBLE = 4
    UNBOUNDED = 5


# Arrays of status are filled with NumPy scalars.  To convert a `Status`, NumPy would run Python code, in
# which it loses Ctrl-C.
TOL_REACHED, AT_LIMIT, RAN_AWAY, AT_PRECISION, *_ = (np.int8(status.value) for status in Status)


@dataclass(eq=False)
class Codes:
    """Codes of some signals: a row, or an entry, for each signal."""

    values: sparse.csr_array  # nonzero entries, sorted
    steps: np.ndarray  # the number of steps; `Method.steps` is their unit
    certificate: Optimality | None = None  # None if the certificate has not been computed
    # Multiply-adds of each part of the work; the parts have the names in `OperationLedger`.
    work: dict[str, np.ndarray] = field(default_factory=dict)
    # Further figures: arrays and sparse rows have an entry for each signal, and other objects belong to all.
    info: dict[str, Any] = field(default_factory=dict)
    # The `Status` of each signal, without REACHED, because the result compares gaps with `tol` itself.  If
    # `status` is None, all signals have AT_LIMIT.
    status: np.ndarray | None = None

    def reach(self, problem: LassoProblem, tol: float) -> bool:
        """Return whether the certificate of the only code reaches `tol`."""
        gap = self.certificate is not None and self.certificate.duality_gap[0]
        return bool(gap <= tol * problem.energies[0])

    def at(self, signals: np.ndarray | slice) -> Codes:
        """Return the codes of some signals, in their order."""
        chosen: Codes = _combined(lambda values: values[0][signals], [self])
        return chosen


# A tuple of signals and their codes.  The codes are a matrix, or a `Codes` object with further figures.
Found: TypeAlias = tuple[np.ndarray, Codes | np.ndarray | sparse.csr_array]


def joined(batches: Sequence[Codes]) -> Codes:
    """Return the codes of several batches as one record."""
    return batches[0] if len(batches) == 1 else _combined(_stacked, batches)


def _combined(combine: Callable[[list[Any]], Any], parts: Sequence[Any]) -> Any:
    """Combine several records into one record: apply `combine` to the arrays of each field."""
    first = parts[0]
    if isinstance(first, dict):
        return {name: _combined(combine, [part[name] for part in parts]) for name in first}
    if isinstance(first, (Codes, Optimality)):
        return type(first)(**_combined(combine, [vars(part) for part in parts]))
    return combine(list(parts)) if isinstance(first, (np.ndarray, sparse.csr_array)) else first


def _stacked(values: list[Any]) -> Any:
    return sparse.vstack(values, format="csr") if sparse.issparse(values[0]) else np.concatenate(values)


class BestCodes:
    """The best codes of a batch so far; a method adds codes of signals until `active` is empty."""

    def __init__(self, problem: LassoProblem, tol: float, start: Codes | None = None) -> None:
        n_signals = problem.n_signals
        self.problem, self.tol, self.start = problem, tol, start
        # The signals whose gaps are above tol * 1/2 ||signal||^2.
        self.active = np.arange(n_signals)
        # The fields of the `Codes` to be returned.  The counts of a new part of the work start at zero.
        self.steps = np.zeros(n_signals, dtype=np.int64)
        self.info: dict[str, Any] = {}
        self.work: dict[str, np.ndarray] = defaultdict(partial(np.zeros, n_signals, dtype=np.int64))
        self.status = np.full(n_signals, AT_LIMIT)
        self._certificate = Optimality(**{name: np.full(n_signals, np.inf) for name in FIGURES})
        # Blocks of codes that were kept, and for each signal the row of the best code in all stacked blocks.
        self._kept: list[sparse.csr_array] = []
        self._rows = np.zeros(n_signals, dtype=np.int64)
        self._all_rows = self.active
        self._has_fallen_back = False

    def parts(self, batches: Sequence[np.ndarray | slice]) -> list[BestCodes]:
        """Return the initial best codes of each batch; the batches contain all signals."""
        if len(batches) == 1:
            return [self]
        subset, start = self.problem.subset, self.start
        return [BestCodes(subset(batch), self.tol, start and start.at(batch)) for batch in batches]

    def keep(self, search: Iterable[Found]) -> Codes:
        """Certify the codes of a search, the start and zero; return the best code of each signal."""
        for signals, found in search:
            self.put(signals, found)
        self.fall_back()
        return Codes(self.values, self.steps, self._certificate, dict(self.work), self.info, self.status)

    def fall_back(self) -> None:
        """Certify the starting code and the zero code of active signals, and keep the best codes."""
        if len(self.active) and not self._has_fallen_back:
            self._has_fallen_back = True
            if self.start is not None:
                self.put(self.active, self.start.values[self.active])
            if len(self.active):
                self.put(self.active, sparse.csr_array((len(self.active), self.problem.n_atoms)))

    def put(self, signals: np.ndarray, found: Codes | np.ndarray | sparse.csr_array) -> None:
        """Certify codes of some signals if necessary, count their work, and keep the better codes."""
        is_all = len(signals) == self.problem.n_signals
        certificate = None
        if isinstance(found, Codes):
            values, certificate = found.values, found.certificate
            self.steps[signals] += found.steps
            for part, counts in found.work.items():
                self.work[part][signals] += counts
        else:
            values = as_sparse(found)
        if certificate is None:
            certificate = certificates_of(self.problem if is_all else self.problem.subset(signals), values)
        self.work[CERTIFICATE][signals] += certificate_work(self.problem, np.diff(values.indptr))
        before = self.gaps[signals]
        # A signal without a code, or with an infinite gap, takes any new code.
        kept = (certificate.duality_gap < before) | ~(before < np.inf)
        chosen = signals[kept]
        if is_all and kept.all():
            self._kept, self._rows, self._certificate = [values], self._all_rows, certificate
        elif len(chosen):
            self._rows = self._rows.copy()
            self._rows[chosen] = sum(part.shape[0] for part in self._kept) + np.flatnonzero(kept)
            self._kept.append(values)
            for name in FIGURES:
                getattr(self._certificate, name)[chosen] = getattr(certificate, name)[kept]
        if isinstance(found, Codes):
            self.status[chosen] = AT_LIMIT if found.status is None else found.status[kept]
            for name, figures in found.info.items():
                self.info.setdefault(name, np.zeros(self.problem.n_signals, figures.dtype))
                self.info[name][chosen] = figures[kept]
        self.active = self.missed(self.active)

    def missed(self, signals: np.ndarray) -> np.ndarray:
        """Return the signals among `signals` whose gaps are above `tol`."""
        return signals[~(self.gaps[signals] <= self.tol * self.problem.energies[signals])]

    @property
    def gaps(self) -> np.ndarray:
        """Duality gap of the best code of each signal; infinite for signals without a code."""
        return self._certificate.duality_gap

    @property
    def values(self) -> sparse.csr_array:
        """The best codes, shape (n_signals, n_atoms)."""
        if self._rows is self._all_rows:
            return self._kept[0]
        return sparse.vstack(self._kept, format="csr")[self._rows]


def drive_work(problem: LassoProblem) -> int:
    """Return the multiply-adds of the correlations of one signal with all atoms."""
    return problem.n_atoms * problem.atoms.features_of_atom


def certificate_work(problem: LassoProblem, support_size: Any) -> Any:
    """Return the multiply-adds of a certificate for a support size, or for an array of sizes."""
    # The residual takes three products for each entry of the code: one exact product, and two for its
    # rounding error.  The correlations of all atoms with the residual, and two inner products, are added.
    if type(support_size) is not int:
        # Pointers of sparse codes have 32 bits, so that products of their differences would overflow.
        support_size = support_size.astype(np.int64)
    n_products = (3 * support_size + problem.n_atoms) * problem.atoms.features_of_atom
    return n_products + 2 * problem.n_features


def code_of_kernel(
    problem: LassoProblem, atoms: np.ndarray, values: np.ndarray, figures: np.ndarray, steps: np.ndarray
) -> Codes:
    """Return the code of a single signal with its `figures`, which a kernel computed, shape (3, 1)."""
    code = one_row(problem.n_atoms, atoms.copy(), values.copy())  # copied, so that larger arrays are freed
    return Codes(code, steps, optimality_of(problem, code, figures))


def one_row(n_columns: int, columns: np.ndarray, values: np.ndarray) -> sparse.csr_array:
    """Return a matrix of one row with sorted entries."""
    pointers = np.array([0, len(columns)], dtype=np.int32)
    return compressed_rows((1, n_columns), RowEntries(pointers, columns, values))


def as_sparse(rows: np.ndarray | sparse.csr_array) -> sparse.csr_array:
    """Return the nonzero entries of each row, in order."""
    if isinstance(rows, sparse.csr_array):
        return rows
    pointers, array = np.empty(len(rows) + 1, dtype=np.int32), checks.read_only(np.ascontiguousarray(rows))
    count_entries(array, pointers)
    columns, values = np.empty(pointers[-1], dtype=np.int32), np.empty(pointers[-1], array.dtype)
    read_entries(array, columns, values)
    return compressed_rows(rows.shape, RowEntries(pointers, columns, values))


def rows_of(matrix: sparse.csr_array) -> RowEntries:
    """Return a sparse matrix as kernels take it, with indices of type int32."""
    return RowEntries(matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data.copy())


def compressed_rows(shape: tuple[int, int], rows: RowEntries) -> sparse.csr_array:
    """Return a `csr_array` of the entries `rows`, without copies or checks."""
    # The constructor of SciPy and its checks take nine microseconds, a tenth of a small problem.
    matrix = replaced(_empty_rows(shape))
    matrix.indptr, matrix.indices, matrix.data = rows
    return matrix


@lru_cache(maxsize=64)
def _empty_rows(shape: tuple[int, int]) -> sparse.csr_array:
    matrix = sparse.csr_array(shape)
    matrix.has_canonical_format = True
    return matrix

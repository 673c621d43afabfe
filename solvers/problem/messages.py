"""Rows of numbers as they are accepted, and warnings of problems that are ill-posed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from snn.base import checks
from snn.base.caller_warnings import warn_caller
from solvers._kernels.precision import SMALLEST_SQUARED_NORM

if TYPE_CHECKING:
    from solvers.problem.lasso import LassoProblem

# A penalty within this share of the smallest at which all codes are zero is that one.
EQUAL = 1e-6

_PENALTY_NAME: ContextVar[str | None] = ContextVar("penalty_name", default="penalty")


class IllPosedWarning(UserWarning):
    """The dictionary or the penalty does not suit the signals, or atoms depend on each other."""


@contextmanager
def penalty_called(name: str) -> Iterator[None]:
    """Say what the caller calls the penalty of the problems that are solved within; of this thread alone."""
    with _penalty_name(name), checks.called(penalty=name):
        yield


def zeros_expected() -> AbstractContextManager[None]:
    """Leave out warnings that all codes are zero, where that is no surprise; of this thread alone."""
    return _penalty_name(None)


@contextmanager
def _penalty_name(name: str | None) -> Iterator[None]:
    token = _PENALTY_NAME.set(name)
    try:
        yield
    finally:
        _PENALTY_NAME.reset(token)


def warn_if_ill_posed(problem: LassoProblem) -> None:
    """Warn in one sentence where a problem is ill-posed, whatever its penalty: `Dictionary.complaint`."""
    complaint = problem.atoms.complaint(problem.signals)
    if complaint is not None:
        warn_caller(complaint, IllPosedWarning)


def warn_if_all_zero(problem: LassoProblem, codes: sparse.csr_array) -> None:
    """Warn if the codes of all signals are zero, of which one is not.

    Nothing is said where the penalty is the smallest at which they are, as at the beginning of a path, and of
    single signals that come one after the other.  Of batches of signals that share their dictionary the same
    is said of each, so that it is shown once.
    """
    if (problem.n_signals == 1 and problem.is_prepared) or codes.nnz or not problem.energies.any():
        return
    name = _PENALTY_NAME.get()
    if name is None:
        return
    factor = float(problem.zero_code_multiples().max())
    if factor > 1.0 - EQUAL:
        return
    if factor == 0.0:
        why = ": no correlation of a signal with an atom is positive, which positive=True requires"
    elif problem.is_prepared:
        why = f": {name} is too large for all signals of a batch; penalty_max says from where on it is"
    else:
        why = f" at this {name}; some are not below {factor:.3g} times it"
    warn_caller(f"all codes are zero{why}", IllPosedWarning)


def warn_if_intercept_is_cut(problem: LassoProblem, codes: sparse.csr_array) -> None:
    """Warn if a constant atom without penalty, an intercept, has the code zero because it is `positive`."""
    if not (problem.penalty.has_zeros and problem.positive.any() and problem.atoms.is_matrix):
        return
    unpenalised = np.flatnonzero(problem.positive & (problem.l1_weights + problem.curvatures == 0.0))
    atoms = problem.atoms.take(unpenalised)
    constant = unpenalised[(atoms == atoms[:, :1]).all(axis=1) & (atoms[:, 0] != 0.0)]
    cut = constant[(codes[:, constant].toarray() == 0.0).any(axis=0)]
    if len(cut):
        warn_caller(
            f"positive holds for atom {cut[0]} as well, a constant without penalty: an intercept below zero "
            "becomes zero; pass a bool for each atom, False for that one",
            IllPosedWarning,
        )


def compressed_rows(name: str, value: Any, *, meaning: str, hint: str = "") -> sparse.csr_array:
    """Return a read-only copy with each entry that is not zero once, in order, as float64."""
    kind = type(value).__name__
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers; got dtype {value.dtype}")
    if value.ndim != 2:
        raise ValueError(f"{name} must be 2-D, {meaning}; got shape {value.shape}")
    if 0 in value.shape:
        raise ValueError(f"{name} must not be empty; got shape {value.shape}")
    try:
        rows = sparse.csr_array(
            (value.data.astype(np.float64), value.indices.copy(), value.indptr.copy()), value.shape
        )
        rows.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name} must be valid compressed rows; got a {kind} of which {error}") from None
    rows.sum_duplicates()
    rows.eliminate_zeros()
    lost = np.flatnonzero(~np.isfinite(rows.data))
    if len(lost):
        row = int(np.searchsorted(rows.indptr, lost[0], side="right")) - 1
        raise ValueError(
            f"{name} must be finite; got {rows.data[lost[0]]} at [{row}, {rows.indices[lost[0]]}]{hint}"
        )
    for array in (rows.data, rows.indices, rows.indptr):
        array.flags.writeable = False
    return rows


def squared_norms_of(rows: np.ndarray | sparse.csr_array) -> np.ndarray:
    """Return the squared norm of each row."""
    if isinstance(rows, np.ndarray):
        return np.einsum("ij,ij->i", rows, rows)
    number = np.arange(rows.shape[0]).repeat(np.diff(rows.indptr))
    return np.bincount(number, rows.data * rows.data, rows.shape[0])


def checked_squared_norms(name: str, row: str, rows: Any, *, hint: str = "") -> np.ndarray:
    """Return the squared norm of each row; refuse what is not finite, or a norm that is out of range.

    `hint` says what to do about a number that is not finite.
    """
    # The rows are read once, unless something is wrong with them.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squared_norms = squared_norms_of(rows)
    # False also where one is not a number.
    if squared_norms.min() >= SMALLEST_SQUARED_NORM and squared_norms.max() < np.inf:
        return squared_norms
    if isinstance(rows, np.ndarray) and not np.isfinite(squared_norms).all():
        checks.require_finite(name, rows, hint=hint)
    lost = ~(squared_norms >= SMALLEST_SQUARED_NORM) | np.isinf(squared_norms)
    small = np.flatnonzero(lost)
    lost[small] = np.diff(rows.indptr)[small] > 0 if sparse.issparse(rows) else rows[small].any(axis=1)
    if lost.any():
        first = int(np.argmax(lost))
        raise ValueError(
            f"{name} must have rows of squared norm between {SMALLEST_SQUARED_NORM:.1g} and "
            f"{np.finfo(float).max:.1g}; got {squared_norms[first]:.3g} for {row} {first}: rescale"
        )
    return squared_norms

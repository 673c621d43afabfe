"""Warnings of problems that are ill-posed, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from scipy import sparse

from snn.caller_warnings import warn_caller
from solvers.problem import LassoProblem
from solvers.setup import ProblemSetup

# Norms are equal within this share of the largest.
EQUAL = 1e-6

_PENALTY_NAME: ContextVar[str | None] = ContextVar("penalty_name", default="penalty")


class IllPosedWarning(UserWarning):
    """The dictionary or the penalty does not suit the signals, or atoms depend on each other."""


@contextmanager
def penalty_called(name: str | None) -> Iterator[None]:
    """Say what the caller calls the penalty of the problems that are solved within; of this thread alone.

    Parameters
    ----------
    name : str or None
        For warnings.  None where codes of zeros are no surprise, and there is to be no warning of them: along
        a path of penalties, say, or of batches of the caller's signals.
    """
    token = _PENALTY_NAME.set(name)
    try:
        yield
    finally:
        _PENALTY_NAME.reset(token)


def warn_if_ill_posed(problem: LassoProblem) -> None:
    """Warn in one sentence where a problem is ill-posed, whatever its penalty.

    Of an array of atoms it is said where it seems to be transposed: it is square, and its columns have one
    norm, but its rows, which are the atoms, several.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    """
    complaint = problem.atoms.complaint(problem.signals)
    if complaint is None:
        complaint = problem.setup.once(_transposed)
    if complaint is not None:
        warn_caller(complaint, IllPosedWarning)


def warn_if_all_zero(problem: LassoProblem, codes: sparse.csr_array) -> None:
    """Warn if the codes of two signals or more, which are not zero, are all zero.

    Nothing is said where the penalty is the smallest at which they are, as at the beginning of a path.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : scipy.sparse.csr_array, shape (n_signals, n_atoms)
        Its codes.
    """
    name = _PENALTY_NAME.get()
    if name is None or codes.nnz or np.count_nonzero(problem.energies) < 2:
        return
    reach = problem.correlations if problem.positive else np.abs(problem.correlations)
    factor = float(problem.penalty.maximum(reach).max())
    if factor > 1.0 - EQUAL:
        return
    if factor > 0.0:
        remedy = f"{name} must be multiplied by less than {factor:.3g} for any code that is not zero"
    else:
        remedy = "no correlation of a signal with an atom is positive, which positive=True requires"
    warn_caller(f"all codes are zero: {remedy}", IllPosedWarning)


def _transposed(setup: ProblemSetup) -> str | None:
    rows = setup.atoms.rows
    if rows is None or rows.shape[0] != rows.shape[1] or len(rows) == 1:
        return None
    of_rows, of_columns = setup.squared_norms, np.einsum("ij,ij->j", rows, rows)
    if np.ptp(of_columns) > EQUAL * of_columns.max() or np.ptp(of_rows) <= 1000.0 * EQUAL * of_rows.max():
        return None
    low, high = np.sqrt([of_rows.min(), of_rows.max()])
    return (
        "dictionary is square and its columns have one norm, but its rows, which are the atoms, have "
        f"norms from {low:.3g} to {high:.3g}: if atoms are columns, pass dictionary.T"
    )

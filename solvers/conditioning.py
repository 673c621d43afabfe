"""Warnings of problems that are ill-posed, with what to do about it."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from snn.caller_warnings import warn_caller
from solvers.problem import LassoProblem

# Norms are equal within this share of the largest.
EQUAL = 1e-6


class IllPosedWarning(UserWarning):
    """The dictionary or the penalty does not suit the signals, or atoms depend on each other."""


def warn_if_ill_posed(problem: LassoProblem) -> None:
    """Warn in one sentence where a problem is ill-posed; of arrays of atoms nothing is said.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    """
    complaint = problem.atoms.complaint(problem.signals)
    if complaint is not None:
        warn_caller(complaint, IllPosedWarning)


def warn_if_all_zero(problem: LassoProblem, codes: sparse.csr_array, *, penalty_name: str) -> None:
    """Warn if the codes of two signals or more, which are not zero, are all zero.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : scipy.sparse.csr_array, shape (n_signals, n_atoms)
        Its codes.
    penalty_name : str
        What the caller calls the penalty.
    """
    if codes.nnz or np.count_nonzero(problem.energies) < 2:
        return
    reach = problem.correlations if problem.positive else np.abs(problem.correlations)
    factor = float(problem.penalty.maximum(reach).max())
    if factor > 0.0:
        remedy = f"{penalty_name} must be multiplied by less than {factor:.3g} for any code that is not zero"
    else:
        remedy = "no correlation of a signal with an atom is positive, which positive=True requires"
    warn_caller(f"all codes are zero: {remedy}", IllPosedWarning)


def warn_if_transposed(problem: LassoProblem) -> None:
    """Warn if a square dictionary has columns of one norm and rows, the atoms, of several.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    """
    rows = problem.atoms.rows
    if rows is None or problem.n_atoms != problem.n_features or problem.n_atoms == 1:
        return
    of_rows, of_columns = problem.squared_norms, np.einsum("ij,ij->j", rows, rows)
    if np.ptp(of_columns) <= EQUAL * of_columns.max() and np.ptp(of_rows) > 1000.0 * EQUAL * of_rows.max():
        low, high = np.sqrt([of_rows.min(), of_rows.max()])
        warn_caller(
            "dictionary is square and its columns have one norm, but its rows, which are the atoms, have "
            f"norms from {low:.3g} to {high:.3g}: if atoms are columns, pass dictionary.T",
            IllPosedWarning,
        )

"""Warnings of problems that are ill-posed, with what to do about it."""

from __future__ import annotations

import warnings

from solvers.problem import LassoProblem


class IllPosedWarning(UserWarning):
    """The dictionary does not suit the signals, or its atoms depend on each other."""


def warn_if_ill_posed(problem: LassoProblem, *, stacklevel: int = 3) -> None:
    """Warn in one sentence where a problem is ill-posed; of arrays of atoms nothing is said.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    stacklevel : int, default 3
        As of `warnings.warn`: by default the caller of the function that calls this one.
    """
    complaint = problem.atoms.complaint(problem.signals)
    if complaint is not None:
        warnings.warn(complaint, IllPosedWarning, stacklevel=stacklevel)

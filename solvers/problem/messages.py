"""Warnings about ill-posed problems."""

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers.problem.atoms import in_full
from solvers.problem.lasso import LassoProblem, zero_code_multiples

# A penalty within this share of penalty_max counts as equal to it.
EQUAL_PENALTIES = 1e-6


class IllPosedWarning(UserWarning):
    """The dictionary or the penalty does not suit the signals, or atoms depend on each other."""


class ZeroCodesWarning(IllPosedWarning):
    """The codes of all signals are zero."""


def warn_if_ill_posed(problem: LassoProblem) -> None:
    """Warn if the dictionary does not suit the signals; the message is `Atoms.complaint`."""
    complaint = problem.atoms.complaint(problem.signals)
    if complaint is not None:
        checks.warn_caller(complaint, IllPosedWarning)


def warn_if_all_zero(problem: LassoProblem, codes: sparse.csr_array) -> None:
    """Warn if every code is zero although some signal is not."""
    # There is no warning at penalty_max (the start of a path), nor for a single signal, for which a zero code
    # is a normal result.  The message has no numbers, so that Python shows it once for the batches of a loop.
    if problem.n_signals == 1 or codes.nnz or not problem.energies.any():
        return
    factor = float(zero_code_multiples(problem).max())
    if factor > 1.0 - EQUAL_PENALTIES:
        return
    if factor == 0.0 and problem.positive.all():
        why = "no correlation of a signal with an atom is positive, which positive=True requires"
    else:
        why = (
            "the penalty is too large for every signal; penalty_max returns the smallest such penalty of each"
        )
    checks.warn_caller(f"all codes are zero: {why}", ZeroCodesWarning)


def warn_if_intercept_is_cut(problem: LassoProblem, codes: sparse.csr_array) -> None:
    """Warn if an intercept (a constant atom without penalty) is zero because its atom is `positive`."""
    if not (problem.penalty.has_zeros and problem.positive.any() and problem.atoms.is_matrix):
        return
    unpenalised = np.flatnonzero(problem.positive & (problem.l1_weights + problem.curvatures == 0.0))
    atoms = in_full(problem.dictionary[unpenalised])
    constant = unpenalised[(atoms == atoms[:, :1]).all(axis=1) & (atoms[:, 0] != 0.0)]
    cut = constant[(codes[:, constant].toarray() == 0.0).any(axis=0)]
    if len(cut):
        checks.warn_caller(
            f"positive holds for atom {cut[0]}, a constant without penalty, so that an intercept below zero "
            "becomes zero: pass a bool for each atom, False for that atom",
            IllPosedWarning,
        )

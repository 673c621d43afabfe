"""Codes of anybody's, certified."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from solvers.certificate.optimality import checked_codes
from solvers.problem.lasso import LassoProblem
from solvers.results.result import SparseCodingResult
from solvers.results.solved import Solved, certified_result


def certify(
    problem: LassoProblem, codes: ArrayLike | sparse.csr_array, *, tol: float = 1e-6
) -> SparseCodingResult:
    """Return codes with their certificates, whoever has found them: how far each is from the best.

    The codes of a greedy pursuit, of a trained encoder or of another program get the figures that solvers
    give theirs: objective, an upper bound on what the best code would gain, and the violation of the
    optimality conditions.  For many atoms this takes one product of the residuals with the dictionary.

    Parameters
    ----------
    problem : LassoProblem
        The problem: its penalty says what the best code is.
    codes : array_like or sparse matrix, shape (n_signals, n_atoms)
        One code for each signal, of SciPy in any format; not negative where the problem is `positive`.
    tol : float, default 1e-6
        `status` says of which signals ``duality_gap <= tol * 1/2 ||signal||^2``.

    Returns
    -------
    SparseCodingResult
        With `n_steps` zero, and no warning of codes that are not optimal.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import LassoProblem, certify
    >>> problem = LassoProblem(np.eye(2), [[3.0, 0.5]], 1.0)
    >>> certify(problem, [[2.0, 0.0]]).relative_gap.round(12)
    array([0.])
    >>> certify(problem, [[2.2, 0.0]]).duality_gap.round(3)
    array([0.22])
    """
    checks.instance_of("problem", problem, LassoProblem)
    tol = checks.positive_number("tol", tol)
    given = checked_codes(problem, codes)
    given = given.copy()
    given.eliminate_zeros()
    solved = Solved(given, np.zeros(problem.n_signals, dtype=np.int64), {}).certified(problem)
    return certified_result(
        problem, solved, method="given", tol=tol, limit=None, kind=SparseCodingResult, steps="steps"
    )

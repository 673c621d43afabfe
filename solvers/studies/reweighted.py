"""Concave penalties, solved as a sequence of LASSO problems whose weights depend on the previous code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from snn.base import checks
from snn.base.describe import Drawn
from snn.base.value import Value, cached_property
from solvers.methods.method import Method, named_method
from solvers.problem.lasso import LassoProblem
from solvers.problem.penalty import ElasticNet
from solvers.results.result import SparseCodingResult, certify, convergence_warning

# The slope p'(u) / p'(0) of each penalty p, as a function of u = |a_i| / scale; all slopes fall from 1.
SLOPES = {
    "log": lambda u: 1.0 / (1.0 + u),
    "exponential": lambda u: np.exp(-u),
    "mcp": lambda u: np.maximum(1.0 - u, 0.0),
    "scad": lambda u: np.clip((3.7 - u) / 2.7, 0.0, 1.0),
}
# The smallest slope, which is positive because some methods refuse zero weights.
LEAST_SLOPE = 1e-6
# The default scale, as a share of the mean nonzero entry of the LASSO's code.
USUAL_SCALE = 0.1


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ReweightedResult(Value, Drawn):
    """Codes of a concave penalty, with the certified LASSO codes of each round.

    Attributes
    ----------
    rounds : tuple of tuples of SparseCodingResult
        For each signal, the results of its rounds.  The first result is the solution of the LASSO itself.
    is_stationary : ndarray of bool, shape (n_signals,)
        True if the last code of a signal solves the LASSO whose weights are computed from this code.
        "Solves" means that the gap is at most `tol` times the objective.
    """

    rounds: tuple[tuple[SparseCodingResult, ...], ...]
    is_stationary: np.ndarray

    _shown: ClassVar = ("codes", "is_stationary")

    @cached_property
    def codes(self) -> np.ndarray:
        """The codes of the last round, shape (n_signals, n_atoms)."""
        return checks.read_only(np.concatenate([results[-1].codes for results in self.rounds]))


def reweighted(
    problem: LassoProblem,
    penalty: str = "log",
    *,
    scale: float | None = None,
    max_rounds: int = 100,
    method: str | Method = "active_set",
    tol: float | None = None,
) -> ReweightedResult:
    """Solve for a concave penalty, which shrinks large entries less than the LASSO does.

    The penalty is ``sum_i lambda_i p(|a_i|)``, with the problem's weights lambda_i.  Each round solves a
    LASSO problem whose weights are ``lambda_i p'(|a_i|)`` at the previous code: the more a neuron fired in
    the previous round, the lower is its penalty.

    Parameters
    ----------
    problem : LassoProblem
        The problem.  A quadratic penalty of the problem is not changed.
    penalty : {"log", "exponential", "mcp", "scad"}, default "log"
        The slope p' as a function of u = |a| / scale: 1 / (1 + u), exp(-u), max(1 - u, 0), or, for "scad", 1
        up to u = 1 and then a line down to 0 at u = 3.7.  Slopes below 1e-6 are replaced by 1e-6.
    scale : float, optional
        The size from which entries are penalised less; by default a tenth of the mean nonzero entry of the
        LASSO's code of the same signal.
    max_rounds : int, default 100
        The most LASSO problems for each signal.  There is a warning if the last code is not stationary.
    method : str or Method, default "active_set"
        A method, or its name in `METHODS`.
    tol : float, optional
        A round has converged if ``duality_gap <= tol * 1/2 ||signal||^2``; by default `Method.usual_tol`.

    Returns
    -------
    ReweightedResult

    Notes
    -----
    Each round is certified.  A round raises the concave objective at most by the round's gap.  A concave
    problem has many stationary points, and the certificate proves only that the last code is a stationary
    point.

    References
    ----------
    Zou and Li (2008), Annals of Statistics 36(4), 1509-1533: local linear approximation.

    Examples
    --------
    >>> import numpy as np
    >>> result = reweighted(LassoProblem(np.eye(2), [[3.0, 0.5]], 1.0), "mcp", scale=2.0)
    >>> result.codes.round(5), result.is_stationary
    (array([[3., 0.]]), array([ True]))
    """
    checks.instance_of("problem", problem, LassoProblem)
    slope = SLOPES[checks.one_of("penalty", penalty, tuple(SLOPES))]
    if scale is not None:
        scale = checks.positive_number("scale", scale)
    max_rounds = checks.positive_integer("max_rounds", max_rounds)
    solver = named_method(method)
    rounds, is_stationary = [], []
    problem = problem.with_more_to_follow()
    for k in range(problem.n_signals):
        results: list[SparseCodingResult] = []
        part, unit = problem.subset([k]), scale
        for _ in range(max_rounds):
            start = results[-1] if results and "start" in solver.takes else None
            results.append(solver(part, start=start, tol=tol))
            entries = np.abs(results[-1].codes[0])
            unit = unit or USUAL_SCALE * (entries[entries > 0.0].mean() if entries.any() else 1.0)
            l1 = problem.l1_weights * np.maximum(slope(entries / unit), LEAST_SLOPE)
            part = results[-1].problem.with_penalty(ElasticNet(l1, problem.curvatures))
            judged = certify(part, results[-1].sparse_codes)
            ends = bool(judged.duality_gap[0] <= results[-1].tol * judged.objective[0])
            if ends:
                break
        rounds.append(tuple(results))
        is_stationary.append(ends)
    if not all(is_stationary):
        checks.warn_caller(
            f"reweighted: {is_stationary.count(False)} of {problem.n_signals} codes are not stationary after "
            f"max_rounds={max_rounds}: raise max_rounds",
            convergence_warning(),
        )
    return ReweightedResult(rounds=tuple(rounds), is_stationary=np.array(is_stationary))

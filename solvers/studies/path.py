"""The codes of one problem at many falling penalties; each solution starts from the previous one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from snn.base import checks
from snn.base.describe import Drawn
from snn.base.value import Value, cached_property
from solvers import plan
from solvers.certificate.optimality import measure
from solvers.certificate.residuals import residuals_of
from solvers.methods.active_set import solve_active_set
from solvers.methods.method import Method, named_method, require_taken
from solvers.problem.atoms import in_full
from solvers.problem.lasso import LassoProblem, unit_atoms_of, zero_code_multiples
from solvers.problem.matrix import atoms_of
from solvers.problem.messages import warn_if_ill_posed
from solvers.problem.parts import stacked, with_shared_mask
from solvers.problem.penalty import Penalty
from solvers.results.codes import CERTIFICATE, Codes, certificate_work
from solvers.results.result import SparseCodingResult, convergence_warning
from solvers.workers.blas import one_blas_thread


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PathResult(Value, Drawn):
    """Codes at each multiple of a penalty, with their certificates.

    Attributes
    ----------
    multiples : ndarray, shape (n_multiples,)
        Multiples of the problem's penalty, the largest first.  For a penalty of 1, the multiples are the
        penalties.
    results : tuple of SparseCodingResult
        The result at each multiple.
    """

    multiples: np.ndarray
    results: tuple[SparseCodingResult, ...]

    _shown: ClassVar = ("multiples", "objective", "converged")

    @cached_property
    def codes(self) -> np.ndarray:
        """The codes as a dense array, shape (n_multiples, n_signals, n_atoms)."""
        return checks.read_only(np.stack([result.codes for result in self.results]))

    @property
    def objective(self) -> np.ndarray:
        """E(a) at each multiple, shape (n_multiples, n_signals)."""
        return np.stack([result.objective for result in self.results])

    @property
    def converged(self) -> bool:
        """True if every code reached `tol`."""
        return all(result.converged for result in self.results)

    @cached_property
    def degrees_of_freedom(self) -> np.ndarray:
        """Degrees of freedom of each code, shape (n_multiples, n_signals).

        For the LASSO this is the size of the support; for an `ElasticNet`, the trace of the fit.
        """
        return checks.read_only(self._degrees_of(np.arange(self.results[0].problem.n_signals)))

    def _degrees_of(self, signals: np.ndarray) -> np.ndarray:
        sizes = np.stack([result.support_size for result in self.results])[:, signals].astype(np.float64)
        for row, result in zip(sizes, self.results, strict=True):
            for k in np.flatnonzero(row) if not result.problem.penalty.is_flat else ():
                problem = result.problem.subset([signals[k]])
                problem = with_shared_mask(problem) if problem.has_own_weights else problem
                support = result.sparse_codes[[signals[k]]].indices
                atoms = in_full(problem.seen_atoms.take(support))
                gram = atoms @ atoms.T
                row[k] = np.trace(np.linalg.lstsq(gram + np.diag(problem.curvatures[support]), gram)[0])
        return sizes

    def aic(self, noise_variance: float | None = None, *, n_observations: float | None = None) -> np.ndarray:
        """Return Akaike's information criterion: `bic` with 2 instead of log n.  The least value is best."""
        return self._criterion(lambda n: 2.0, noise_variance, n_observations, self.degrees_of_freedom)

    def bic(self, noise_variance: float | None = None, *, n_observations: float | None = None) -> np.ndarray:
        """Return the Bayesian information criterion, shape (n_multiples, n_signals).

        The least value is best.  The criterion is ``n log(2 pi v) + R / v + log(n) degrees_of_freedom``, with
        n the number of observations, R the squared norm of the residual, and v the variance of the noise in
        each observation.

        Without `noise_variance`, v is ``R / n`` at each penalty.  With this estimate of v, compare only
        penalties that have far fewer degrees of freedom than observations.  By default, n is the number of
        features, without features of weight zero.  Pass `n_observations` for a problem from statistics, in
        which n is unknown.  Also pass `n_observations`, the sum of the weights, if the feature weights are
        counts.

        References
        ----------
        Zou, Hastie and Tibshirani (2007), Annals of Statistics 35(5), 2173-2192.
        """
        return self._criterion(np.log, noise_variance, n_observations, self.degrees_of_freedom)

    def _least_bic_of(self, signal: int) -> int | None:
        """Return the index of the penalty with the least `bic` of one signal; None if n is unknown."""
        if self.results[0].problem._factor is not None:  # n is unknown in a problem from statistics
            return None
        degrees = self._degrees_of(np.array([signal]))
        return int(self._criterion(np.log, None, None, degrees)[:, signal].argmin())

    def _criterion(
        self,
        price: Callable[[Any], Any],
        noise_variance: float | None,
        n_observations: float | None,
        degrees: np.ndarray,
    ) -> np.ndarray:
        problem = self.results[0].problem
        weights = problem.feature_weights
        n: Any = problem.n_features
        if n_observations is not None:
            n = checks.positive_number("n_observations", n_observations)
        elif problem._factor is not None:
            raise ValueError(
                "n_observations must be given for a problem from statistics; got None: pass the number of "
                "observations that were summed"
            )
        elif weights is not None:
            n = np.maximum(np.count_nonzero(weights, axis=-1), 1)
        costs = [result.problem.penalty.value(result.codes).sum(axis=1) for result in self.results]
        squares = np.maximum(2.0 * (self.objective - np.stack(costs)), np.finfo(np.float64).tiny)
        variance: Any = squares / n
        if noise_variance is not None:
            variance = checks.positive_number("noise_variance", noise_variance)
        return n * np.log(2.0 * np.pi * variance) + squares / variance + price(n) * degrees


def path(
    problem: LassoProblem,
    multiples: ArrayLike | None = None,
    *,
    n_multiples: int = 100,
    smallest: float = 1e-3,
    method: str | Method = "active_set",
    tol: float = 1e-6,
    n_jobs: int | None = None,
    progress: bool = False,
) -> PathResult:
    """Solve a problem at falling penalties; each solution starts from the codes of the previous one.

    Each penalty is a multiple of the problem's penalty.  Both the weights lambda_i and the quadratic penalty
    of an `ElasticNet` are multiplied.  If the problem has ``penalty=1.0``, the multiples are the penalties.
    The Gram matrix and the correlations are computed once.

    Parameters
    ----------
    problem : LassoProblem
        The problem, dense or convolutional.
    multiples : array_like, shape (n_multiples,), optional
        Positive, falling numbers; by default `n_multiples` numbers with equal ratios.  By default, the first
        multiple is the smallest multiple at which all codes of penalised atoms are zero.
    n_multiples : int, default 100
        The number of multiples, if `multiples` is None.
    smallest : float, default 1e-3
        The last multiple as a share of the first, if `multiples` is None.
    method : str or Method, default "active_set"
        A method that takes a `start`, or its name in `METHODS`.  The active set carries its support from
        penalty to penalty.
    tol : float, default 1e-6
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.
    n_jobs : int, optional
        See `solve`.
    progress : bool, default False
        Show a progress bar that counts penalties.

    Notes
    -----
    If the Gram matrix saves time, the active set solves up to 16 signals in one thread, and certifies the
    codes at all penalties together.  The rounding of a gap then depends on the other penalties.

    scikit-learn's `lasso_path` divides the objective by n_features.  The alphas of `lasso_path` are therefore
    ``multiples * penalty / n_features``.  By default, `path` and `lasso_path` use the same penalties.

    References
    ----------
    Friedman, Hastie and Tibshirani (2010), Journal of Statistical Software 33(1), section 2.5.

    Examples
    --------
    >>> import numpy as np
    >>> result = path(LassoProblem(np.eye(2), [[3.0, 1.0]], 1.0), [3.0, 2.0, 0.5])
    >>> result.codes[:, 0].round(6)
    array([[0. , 0. ],
           [1. , 0. ],
           [2.5, 0.5]])
    """
    checks.instance_of("problem", problem, LassoProblem)
    solver = named_method(method, with_start=True)
    tol = checks.positive_number("tol", tol)
    progress = checks.flag("progress", progress)
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    asked, n_asked = problem, n_multiples if multiples is None else np.size(multiples)
    problem = _shared(problem, n_asked)
    is_cut = problem.feature_weights is not asked.feature_weights
    if multiples is None:
        multiples = default_multiples(problem, n_multiples, smallest)
    else:
        multiples = _checked_multiples(multiples)

    penalties = [problem.penalty.rescaled(1.0, 1.0 / multiple) for multiple in multiples]
    for penalty in (penalties[0], penalties[-1]):  # all other penalties lie between these
        require_taken(problem.with_penalty(penalty), solver, None)
    results: list[SparseCodingResult] = []
    warn_if_ill_posed(problem)
    # BLAS is limited only once for all penalties.  Warnings at single penalties are suppressed, because
    # `path` warns once for all penalties.
    with (
        checks.without_warnings(),
        one_blas_thread(),
        tqdm(total=len(multiples), desc="path", unit="penalty", disable=not progress) as bar,
    ):
        along = _along(problem, solver, penalties)
        for k, penalty in enumerate(penalties):
            here = asked._with_penalty(penalty)
            if along:
                result = solver.result(here, along[k], solver.name, tol, solver.steps, solver.bound)
            if not along or not result.converged:
                start = results[-1] if results else None
                result = solver(problem._with_penalty(penalty), start=start, tol=tol, n_jobs=n_jobs)
            results.append(replace(result, problem=here) if is_cut else result)
            bar.update()
    missed = np.stack([~result.reached for result in results])
    if missed.any():
        checks.warn_caller(
            f"path: {int(missed.sum())} of {missed.size} codes did not reach "
            f"duality_gap <= {tol:g} * 1/2 ||signal||^2; the first at the multiple "
            f"{multiples[np.argmax(missed.any(axis=1))]:.3g}",
            convergence_warning(),
        )
    return PathResult(multiples=multiples, results=tuple(results))


def _shared(problem: LassoProblem, n_multiples: int) -> LassoProblem:
    """Return the problem without hidden features; compute products that all penalties share."""
    mask = problem.feature_weights
    # Features that a mask hides from all signals are cut out once for all penalties.
    if mask is not None and mask.ndim == 1 and mask.dtype == np.bool_ and problem.atoms.is_matrix:
        problem = problem.ordinary()
    if n_multiples >= plan.COSTS.fewest_sharing:
        problem = problem.with_more_to_follow()
    if plan.shares_products(problem):
        problem.cached(unit_atoms_of, any_penalty=True)
    elif 8 * problem.n_signals * problem.n_atoms <= problem.memory_limit:
        _ = problem.correlations
    return problem


def _along(problem: LassoProblem, method: Method, penalties: Sequence[Penalty]) -> list[Codes]:
    """Return the codes at each penalty; an empty list if each penalty has to be solved separately."""
    n_signals = problem.n_signals
    codes = method.along(problem, penalties) if plan.solves_along(problem, len(penalties)) else None
    if codes is None:
        return []
    codes.certificate = measure(stacked(problem, penalties), codes.values)
    codes.work[CERTIFICATE] = certificate_work(problem, np.diff(codes.values.indptr))
    return [codes.at(slice(first, first + n_signals)) for first in range(0, len(codes.steps), n_signals)]


def default_multiples(
    problem: LassoProblem, n_multiples: int, smallest: float, largest: float = 0.0
) -> np.ndarray:
    """Return falling multiples at equal ratios; the first is the least with zero codes, or `largest`."""
    n_multiples = checks.positive_integer("n_multiples", n_multiples)
    smallest = checks.positive_number("smallest", smallest)
    if smallest >= 1.0:
        raise ValueError(f"smallest must be less than 1; got {smallest}")
    if problem.penalty.has_zeros:
        problem = _without_unpenalised(problem)
    first = float(zero_code_multiples(problem).max())
    largest = first if first * smallest > 0.0 else largest
    if largest == 0.0:
        raise ValueError(
            "multiples must be given if all codes are zero at every penalty; got None: pass positive numbers"
        )
    return np.geomspace(largest, largest * smallest, n_multiples)


def _without_unpenalised(problem: LassoProblem) -> LassoProblem:
    """Return a problem with the residuals of a fit by unpenalised atoms, which then have zero codes."""
    penalty = problem.penalty
    chosen = penalty.l1 == 0.0
    if chosen.all() or penalty.l2[chosen].any():
        why = "no atom has an l1 penalty, or an atom has only an l2 penalty"
        raise ValueError(f"multiples must be given if {why}; got None: pass positive numbers")
    atoms = atoms_of(problem.dictionary[chosen])
    entries = {"dictionary": atoms.matrix, "atoms": atoms, "_cache": {}, "_cache_of_atoms": {}}
    fit = problem._changed(**entries, penalty=penalty.at(np.flatnonzero(chosen)), without=("correlations",))
    with checks.without_warnings():
        codes = solve_active_set(fit).sparse_codes
    residuals = residuals_of(atoms, problem.dense_signals(), codes, problem.feature_weights)
    l1 = np.where(chosen, np.finfo(np.float64).max, penalty.l1)
    rest = Penalty(l1, penalty.l2, penalty.positive)
    return problem._changed(signals=residuals.values, penalty=rest, without=("correlations",))


def _checked_multiples(multiples: ArrayLike) -> np.ndarray:
    multiples = checks.real_array("multiples", multiples, shape=(None,), meaning="one number a penalty")
    if multiples.min() <= 0.0:
        raise ValueError(f"multiples must be positive; got {multiples.min()}")
    rising = np.flatnonzero(np.diff(multiples) >= 0.0)
    if len(rising):
        one, other = multiples[rising[0] :][:2]
        raise ValueError(
            f"multiples must fall; got {one} before {other}: pass them sorted, the largest first"
        )
    return multiples.copy()

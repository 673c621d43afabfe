"""The common interface of solvers, `Method`, and the driver `solve`, which runs a method on a problem.

The driver checks arguments, refuses problems that the method does not take, and warns.  The driver divides
the signals into batches (and, if necessary, into groups with equal masks), runs the batches on workers and
joins the codes of all batches.  For each batch, one loop takes codes from the method, certifies these codes
and keeps the best.  To add a method, write a subclass of `Method`, and a line in `solvers.methods`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from inspect import cleandoc
from typing import Any, ClassVar, TypeVar

import numpy as np
from tqdm import tqdm

from snn.base import checks
from snn.base.describe import Closed
from snn.digital.digital_network import warn_of_narrow_currents
from solvers.certificate.corrected import signal_of_dependent_atoms
from solvers.plan import batches_in_cache, solves_alone
from solvers.problem.lasso import LassoProblem
from solvers.problem.messages import warn_if_all_zero, warn_if_ill_posed, warn_if_intercept_is_cut
from solvers.problem.parts import groups_of, knows_atoms_alike, with_shared_mask
from solvers.problem.penalty import Penalty
from solvers.results.codes import CERTIFICATE, BestCodes, Codes, Found, Status, certificate_work, joined
from solvers.results.result import EXACT, SparseCodingResult, Start, convergence_warning, start_codes
from solvers.workers.blas import one_blas_thread
from solvers.workers.spread import spread

# The beginning of a section of a numpydoc docstring.
SECTION = re.compile(r"\n\n(?=\w+\n-+\n)")
F = TypeVar("F", bound=Callable[..., Any])
# The indices of the signals in a problem with one signal.
ONLY = np.zeros(1, dtype=np.int64)


# Features of a problem that a method may not take, and the error of such a method: the rule, and what came.
REFUSALS: dict[str, tuple[type[Exception], str, str]] = {
    "start": (ValueError, "start must be None", "a start"),
    "weights_with_convolution": (
        TypeError,
        "problem must have an array of atoms if features are masked or weighted",
        "a ConvolutionalDictionary",
    ),
    "convolution": (
        TypeError,
        "problem must have an array of atoms",
        "a ConvolutionalDictionary, whose toarray() is such an array for a small image",
    ),
    "mixed_signs": (TypeError, "positive must be one bool for all atoms", "both True and False"),
    "zero_penalties": (ValueError, "penalty must be positive", "0"),
    "signed_zero_penalties": (ValueError, "penalty must be positive for codes that may be negative", "0"),
    "own_weights": (TypeError, "problem must have one mask for all signals", "one for each signal"),
}


class Method(Closed, ABC):
    """A solver with its options, as a frozen dataclass.

    A method searches for the codes of a batch of signals.  The generator `search` yields codes.  The loop
    that calls `search` certifies these codes, keeps the best, and removes finished signals from
    `BestCodes.active`.

    Attributes
    ----------
    name : str
        The name in results, tables and `METHODS`.
    takes : tuple of str
        Names of features in `solvers.methods.method.REFUSALS`: the method takes problems with these features.
        The driver refuses a problem that has a feature of `REFUSALS` without its name in `takes`.
    together : {"never", "alike", "always"}, default "never"
        Whether a batch may have signals with different masks: never, only if the masks leave enough of each
        atom ("alike", see `knows_atoms_alike`), or always.  If a batch must have one mask, signals are
        grouped by mask, and each group has its own Gram matrix.
    steps : str, default "iterations"
        The unit of the method's steps.
    usual_tol : float, default 1e-3
        The default tolerance.
    finest_tol : float, default 1e-8
        The finest tolerance that the method reaches in reasonable time if atoms are linearly independent.
    bound : {"exact", "at most"}, default "exact"
        "exact" if multiply-adds are counted, "at most" if only an upper bound is known because the method
        calls a library that does not count.
    workers : {"threads", "processes"}, default "threads"
        The kind of workers on which the method is fastest.
    result : type
        The class of the method's results.
    """

    name: ClassVar[str] = ""
    takes: ClassVar[tuple[str, ...]] = ()
    together: ClassVar[str] = "never"
    steps: ClassVar[str] = "iterations"
    usual_tol: ClassVar[float] = 1e-3
    finest_tol: ClassVar[float] = 1e-8
    bound: ClassVar[str] = EXACT
    workers: ClassVar[str] = "threads"
    result: ClassVar[type[SparseCodingResult]] = SparseCodingResult

    def prepare(self, problem: LassoProblem) -> Any:
        """Return what all batches of a problem share, such as a Gram matrix, a network or a step length.

        The signals of the problem have different masks only if the method solves them `together`.
        """
        return None

    @abstractmethod
    def search(self, best: BestCodes, prepared: Any) -> Iterator[Found]:
        """Yield codes of signals, until no signal is active or the method has reached its limit.

        Each item is a tuple of signals (an ndarray of int) and their codes: an ndarray or a csr_array with a
        row for each signal, or `Codes`.  `best` has the problem, the tolerance, the start, and the active
        signals.  `prepared` is the object that `prepare` returned.  The method returns steps, multiply-adds
        and further figures in `Codes`, or writes them to `best`.
        """

    def along(self, problem: LassoProblem, penalties: Sequence[Penalty]) -> Codes | None:
        """Return uncertified codes of all signals at all of the falling penalties; None if not supported."""
        return None

    def reason(self, status: Status) -> str:
        """Return the reason why signals missed `tol`, as a part of the warning."""
        if status == Status.AT_PRECISION:
            return "within the precision of the method"
        limits = {name: value for name, value in vars(self).items() if name.startswith("max_")}
        named = (f"within {name}={value}" for name, value in limits.items() if value is not None)
        return next(named, "within its limit")

    def batches(self, problem: LassoProblem, prepared: Any, n_workers: int) -> list[slice]:
        """Return batches of signals that are solved together; by default each batch fits into the cache."""
        return batches_in_cache(problem, n_workers)

    def solve_alone(self, problem: LassoProblem, start: Codes | None, tol: float) -> Codes | None:
        """Return the certified code of a single signal, computed by one kernel from atoms and Gram matrix.

        The result is None if the code misses `tol` and `search` may find a better code.
        """
        return None

    def __call__(self, problem: LassoProblem, **options: Any) -> Any:
        """Solve a problem; see `solve`."""
        return solve(problem, self, **options)


METHODS: dict[str, Method] = {}
"""The methods by their names, filled by `solvers.methods`.

The names serve `compare`, `path`, `SpikingSparseCoder`, benchmarks and tests.  A method with "spiking" in its
name uses only spikes.  A method with "active_set" in its name ends with the classical active-set method.
`DigitalOneWindow`, integers without refinement, is not in the list.
"""


def named_method(method: str | Method, *, name: str = "method", with_start: bool = False) -> Method:
    """Return the method of this name, or the method that was passed."""
    known = {name: each for name, each in METHODS.items() if "start" in each.takes or not with_start}
    if not isinstance(method, Method):
        return known[checks.one_of(name, method, tuple(known))]
    if with_start and "start" not in method.takes:
        raise ValueError(
            f"method must take a start; got {method.name}: pass one of {', '.join(map(repr, known))}"
        )
    return method


def solve(
    problem: LassoProblem,
    method: Method,
    *,
    start: Start = None,
    tol: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Any:
    """Solve a problem by a method.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    method : Method
        The method with its options: a method of `METHODS`, or any other `Method`.
    start : array_like or scipy.sparse.csr_array of shape (n_signals, n_atoms), or result, optional
        The codes from which the method starts, or the result of a solver; by default codes of zero.
    tol : float, default `Method.usual_tol`
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.  With weights w of features, the
        norm is that of ``sqrt(w) * signal``, so that large weights allow a larger gap.
    n_jobs : int, optional
        The number of joblib workers that share the signals.  None means one worker, unless a
        `joblib.parallel_config` sets another number; -1 means one worker for each processor.
    progress : bool, default False
        Show a progress bar that counts signals.

    Returns
    -------
    SparseCodingResult
        A `SpikingCodingResult` if the method uses spikes.

    Warns
    -----
    IllPosedWarning
        If the dictionary or the penalty does not suit the signals.
    sklearn.exceptions.ConvergenceWarning
        If a signal does not reach `tol`.  The result then has the signal's best code so far, with the true
        gap of that code.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import METHODS, LassoProblem, solve
    >>> solve(LassoProblem(np.eye(2), [[3.0, 0.5]], 1.0), METHODS["fista"]).codes
    array([[2., 0.]])
    """
    checks.instance_of("problem", problem, LassoProblem)
    checks.instance_of("method", method, Method)
    codes = start_codes(problem, start)
    tol = method.usual_tol if tol is None else checks.positive_number("tol", tol)
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    progress = checks.flag("progress", progress)
    require_taken(problem, method, codes)
    warn_if_ill_posed(problem)
    solved = None if progress else _solved_alone(problem, method, codes, tol)
    if solved is None:
        # A process that forks while BLAS uses several threads may hang in BLAS.
        with one_blas_thread():
            solved = _solved(problem, method, codes, tol, n_jobs, progress)
    result = method.result(problem, solved, method.name, tol, method.steps, method.bound)
    warn_if_all_zero(problem, result.sparse_codes)
    warn_if_intercept_is_cut(problem, result.sparse_codes)
    if "saturations" in result.info:
        warn_of_narrow_currents(result.info["saturations"])
    missed = ~result.reached
    if np.count_nonzero(missed):
        checks.warn_caller(
            f"{method.name}: {int(missed.sum())} of {problem.n_signals} signals did not reach "
            f"duality_gap <= {tol:g} * 1/2 ||signal||^2{_reasons(method, result.status[missed])}; the worst "
            f"has {np.max(result.relative_gap[missed]):.2g}",
            convergence_warning(),
        )
    return result


def _reasons(method: Method, status: np.ndarray) -> str:
    """Return the reasons why signals missed `tol`; several reasons are listed with the counts of signals."""
    outcomes, counts = np.unique(status, return_counts=True)
    reasons = [method.reason(Status(outcome)) for outcome in outcomes]
    if len(reasons) == 1:
        return f" {reasons[0]}"
    return ": " + "; ".join(f"{count} {reason}" for count, reason in zip(counts, reasons, strict=True))


def documented(method: type[Method]) -> Callable[[F], F]:
    """Return a decorator that adds the docstrings of a method and of `solve` to a function's summary."""
    if method.__doc__ is None:  # python -OO removes docstrings
        return lambda function: function
    text, options, *sections = SECTION.split(cleandoc(method.__doc__))
    _, shared, *outcome = SECTION.split(cleandoc(solve.__doc__ or ""))[:-1]
    shared = re.sub(r"\nmethod : .*\n .*", "", shared).replace("`Method.usual_tol`", f"{method.usual_tol:g}")
    parameters = "\n".join([shared, *options.split("\n")[2:]])

    def whole(function: F) -> F:
        parts = (function.__doc__ or "", text.partition("\n\n")[2], parameters, *outcome, *sections)
        function.__doc__ = "\n\n".join(filter(None, parts))
        return function

    return whole


def _solved_alone(problem: LassoProblem, method: Method, start: Codes | None, tol: float) -> Codes | None:
    """Return the code of a single signal from `Method.solve_alone`; None if `search` has to find the code."""
    code = method.solve_alone(problem, start, tol) if solves_alone(problem) else None
    if code is None:
        return None
    if not code.reach(problem, tol):
        best = BestCodes(problem, tol, start)
        best.info = code.info
        return best.keep([(ONLY, replace(code, info={}))])
    code.work[CERTIFICATE] = np.array([certificate_work(problem, len(code.values.data))])
    return code


def _solved(
    problem: LassoProblem, method: Method, start: Codes | None, tol: float, n_jobs: int | None, progress: bool
) -> Codes:
    """Return the codes of all signals."""
    from joblib import effective_n_jobs  # imported here because the import takes long

    n_workers = effective_n_jobs(n_jobs) if problem.n_signals > 1 else 1
    whole = BestCodes(problem, tol, start)
    groups: Sequence[Any]
    is_alike = method.together == "always" or (method.together == "alike" and knows_atoms_alike(problem))
    if problem.has_own_weights and not is_alike:
        groups, run = groups_of(problem), partial(_solve_group, method=method)
    else:
        prepared = method.prepare(problem)
        groups = method.batches(problem, prepared, n_workers)
        run = partial(_solve_batch, method=method, prepared=prepared)
    name, parts = method.name.replace("_", " "), {}
    with tqdm(total=problem.n_signals, unit="signal", desc=name) if progress else nullcontext() as bar:
        for number, part in spread(
            run, whole.parts(groups), n_jobs, n_workers, common=problem.model, prefer=method.workers
        ):
            parts[number] = part
            if bar is not None:
                bar.update(len(part.steps))
    solved = joined([parts[number] for number in range(len(parts))])
    return solved if isinstance(groups[0], slice) else solved.at(np.argsort(np.concatenate(groups)))


def _solve_batch(best: BestCodes, method: Method, prepared: Any) -> Codes:
    """Return the best codes of a batch that the search of a method yields."""
    return best.keep(method.search(best, prepared))


def _solve_group(best: BestCodes, method: Method) -> Codes:
    """Return the codes of signals whose masks are equal."""
    # The Gram matrix of a group is freed with the group: there may be thousands of groups.
    best = BestCodes(with_shared_mask(best.problem), best.tol, best.start)
    prepared = method.prepare(best.problem)
    batches = method.batches(best.problem, prepared, 1)
    return joined([_solve_batch(part, method, prepared) for part in best.parts(batches)])


def require_taken(problem: LassoProblem, method: Method, start: Codes | None) -> None:
    """Raise an error if a method does not take a problem or a start, or no certificate would be finite."""
    has_zeros, is_array = problem.penalty.has_zeros, problem.atoms.is_matrix
    needed = {
        "start": start is not None,
        "weights_with_convolution": not is_array and problem.feature_weights is not None,
        "convolution": not is_array,
        "mixed_signs": problem.penalty.has_mixed_signs,
        "zero_penalties": has_zeros,
        "signed_zero_penalties": has_zeros and not problem.penalty.is_positive,
        "own_weights": problem.has_own_weights,
    }
    wanted = [feature for feature, is_needed in needed.items() if is_needed]
    for feature in wanted:
        if feature not in method.takes:
            error, rule, came = REFUSALS[feature]
            takers = [repr(name) for name, other in METHODS.items() if set(wanted) <= set(other.takes)]
            hint = f": {', '.join(takers)} {'take' if len(takers) > 1 else 'takes'} it" if takers else ""
            raise error(f"{rule} for {method.name}; got {came}{hint}")
    signal = signal_of_dependent_atoms(problem) if has_zeros else None
    if signal is not None:
        n_free = int(np.count_nonzero(problem.penalty.is_free))
        seen = f" that signal {signal} knows" if problem.has_own_weights else ""
        raise ValueError(
            "penalty must be positive, or the atoms without a penalty must be proved linearly independent; "
            f"got {n_free} atoms of penalty 0 in {problem.n_features} features{seen}, and no code could be "
            "certified: subtract the means of atoms that are far from zero (such as powers of years), leave "
            "some atoms out, or pass a penalty, an ElasticNet, or positive=True"
        )

"""A solver is a value that says what it takes, and one driver does the rest.

The driver `solve` checks arguments, refuses what a method does not take, warns, forms groups of signals with
equal masks, cuts batches, spreads them over workers, joins and certifies their codes, and counts operations.
A method solves a batch.  A new one is a subclass of `Method`, and a line in `solvers.methods.registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, cast

import numpy as np

from snn.base import checks
from solvers.certificate.corrected import signal_of_dependent_atoms
from solvers.problem.lasso import LassoProblem, groups_of, with_shared_mask
from solvers.problem.messages import warn_if_ill_posed
from solvers.results.operations import EXACT
from solvers.results.result import SparseCodingResult
from solvers.results.solved import Result, Solved, certified_result, joined
from solvers.results.start import Start, StartPoint, start_point
from solvers.workers.progress import progress_bar
from solvers.workers.spread import batch_slices, spread

# Three ways for signals with different masks, or weights of features: all in one batch; in groups of equal
# masks, each a problem with one Gram matrix; an error.
TOGETHER, BY_MASK, REFUSED = "together", "by mask", "refused"
# Atoms without an l1 weight: in any problem, or where codes must not be negative; otherwise an error.
TAKEN, NOT_NEGATIVE = "taken", "not negative"


class Takes(NamedTuple):
    """What a method takes; the driver refuses the rest.

    Attributes
    ----------
    start : bool, default False
        Codes to start from.
    convolution : bool, default False
        Convolutional dictionaries.
    weights_with_convolution : bool, default False
        Convolutional dictionaries together with masks or feature weights.
    own_weights : str, default "by mask"
        How signals with weights of their own are solved.
    zero_penalties : str, default "refused"
        Whether atoms may have an l1 penalty of zero: "taken", "not negative" or "refused".
    """

    start: bool = False
    convolution: bool = False
    weights_with_convolution: bool = False
    own_weights: str = BY_MASK
    zero_penalties: str = REFUSED


class Method(ABC, Generic[Result]):
    """A solver, with its options: a frozen dataclass.

    Attributes
    ----------
    name : str
        What results, tables and `METHODS` call it.
    takes : Takes
        What it takes.
    steps : str, default "iterations"
        What it counts.
    usual_tol : float, default 1e-3
        The tolerance where none is asked for.
    finest_tol : float, default 1e-8
        The finest tolerance that it reaches in reasonable time, where atoms do not depend on each other.
    bound : {"exact", "at least", "at most"}, default "exact"
        Whether it counts its multiply-adds, or bounds those of a library.
    workers : {"threads", "processes"}, default "threads"
        The kind of workers it is best spread over.
    blas_threads : bool, default False
        Whether products of matrices use all threads of BLAS where there is one worker.  Codes then depend on
        the number of workers, by rounding.
    result : type
        The class of its results.
    """

    name: str
    takes: Takes
    steps: ClassVar[str] = "iterations"
    usual_tol: ClassVar[float] = 1e-3
    finest_tol: ClassVar[float] = 1e-8
    bound: ClassVar[str] = EXACT
    workers: ClassVar[str] = "threads"
    blas_threads: ClassVar[bool] = False
    result: ClassVar[type[SparseCodingResult]] = SparseCodingResult

    def prepare(self, problem: LassoProblem) -> Any:
        """Return what all batches of a problem share, such as a Gram matrix, a network or a step length.

        Parameters
        ----------
        problem : LassoProblem
            The problem; its signals have different masks only if `Takes.own_weights` is "together".
        """

    @abstractmethod
    def solve(self, problem: LassoProblem, prepared: Any, start: StartPoint | None, tol: float) -> Solved:
        """Return the codes of a batch of signals, and what they took.

        Parameters
        ----------
        problem : LassoProblem
            The problem of these signals.
        prepared : object
            From `prepare`.
        start : StartPoint or None
            Where these signals start.
        tol : float
            A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.
        """

    def limit(self, stopped: np.ndarray | None) -> str:
        """Return what ended the signals that did not reach `tol`, for the warning.

        Parameters
        ----------
        stopped : ndarray of bool, or None
            Which signals stopped before the limit: `Solved.stopped` of all.
        """
        return "its limit"

    def batches(self, problem: LassoProblem, prepared: Any, n_workers: int) -> list[slice]:
        """Return which signals are solved together; by default as many as memory close by can hold."""
        return batch_slices(problem.n_signals, problem.n_atoms, n_workers)

    def of_batch(self, prepared: Any, problem: LassoProblem) -> Any:
        """Return what the signals of a problem have of what `prepare` returned; by default all of it."""
        return prepared

    def solve_alone(self, problem: LassoProblem, start: StartPoint | None, tol: float) -> Solved | None:
        """Return the code of a single signal if there is a shorter way for it, with its certificate.

        It returns None where that does not reach `tol` and could go on, and `solve` is called.
        """
        return None

    def shared_fields(self, problem: LassoProblem, prepared: Any) -> dict[str, Any]:
        """Return fields of the result that are not in every result, and that all signals share."""
        return {}

    def context(self) -> AbstractContextManager[object]:
        """Return a context in which all batches are solved, in the thread of the caller."""
        return nullcontext()

    def __call__(self, problem: LassoProblem, **options: Any) -> Result:
        """Solve a problem: `solve`."""
        return solve(problem, self, **options)


METHODS: dict[str, Method[Any]] = {}
"""The methods by their names; `solvers.methods.registry` fills it.

It serves `compare`, `path`, `SpikingSparseCoder`, benchmarks and tests.  A name with "spiking" is a method of
spikes alone.  A name with "active_set" is a method that ends with that classical one, wherever it starts.
Not in it are the methods of `solve_digital` without refinement, "digital_one_window" and "digital_rate".
"""


def solve(
    problem: LassoProblem,
    method: Method[Result],
    *,
    start: Start = None,
    tol: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Result:
    """Solve a problem by a method.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    method : Method
        The method, with its options: one of `METHODS`, or another one.
    start : array_like or scipy.sparse.csr_array of shape (n_signals, n_atoms), or result, optional
        Where to start: codes, or the result of a solver; by default zero.
    tol : float, optional
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``; by default `Method.usual_tol`.
    n_jobs : int, optional
        Signals are spread over so many joblib workers.  None is one, unless a `joblib.parallel_config` says
        otherwise; -1 is one for each processor.
    progress : bool, default False
        Show a progress bar, in signals.

    Returns
    -------
    SparseCodingResult
        Or what the method adds to it.

    Warns
    -----
    IllPosedWarning
        If dictionary or penalty do not suit the signals.
    sklearn.exceptions.ConvergenceWarning
        If a signal does not reach `tol`.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import METHODS, LassoProblem, solve
    >>> solve(LassoProblem(np.eye(2), [[3.0, 0.5]], 1.0), METHODS["fista"]).codes
    array([[2., 0.]])
    """
    checks.instance_of("problem", problem, LassoProblem)
    checks.instance_of("method", method, Method)
    point = start_point(problem, start)
    tol = method.usual_tol if tol is None else checks.positive_number("tol", tol)
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    progress = checks.flag("progress", progress)
    _require_taken(problem, method, point)
    warn_if_ill_posed(problem)
    prepared, solved = None, None
    if problem.n_signals == 1 and not progress:
        solved = method.solve_alone(problem, point, tol)
    if solved is None:
        prepared, solved = _solved(problem, method, point, tol, n_jobs, progress)
    return certified_result(
        problem,
        solved,
        method=method.name,
        tol=tol,
        limit=method.limit,
        kind=cast("type[Result]", method.result),
        bound=method.bound,
        steps=method.steps,
        **method.shared_fields(problem, prepared),
    )


def _solved(
    problem: LassoProblem,
    method: Method[Any],
    start: StartPoint | None,
    tol: float,
    n_jobs: int | None,
    progress: bool,
) -> tuple[Any, Solved]:
    """Return what the batches share, and what is said of all signals."""
    from joblib import effective_n_jobs  # here, as in `workers.spread`

    n_workers = effective_n_jobs(n_jobs) if problem.n_signals > 1 else 1
    prepared, groups = None, None
    run: Callable[[Any], Solved]
    if problem.has_own_weights and method.takes.own_weights == BY_MASK:
        groups = groups_of(problem)
        run = partial(_solve_group, method=method, tol=tol)
        batches = [(problem.subset(group), start and start.at(group)) for group in groups]
    else:
        prepared = method.prepare(problem)
        run = partial(_solve_batch, method=method, prepared=prepared, tol=tol)
        batches = _batches(problem, method, prepared, start, n_workers)
    per_batch = -(-problem.n_signals // len(batches))
    name = method.name.replace("_", " ")
    with (
        method.context(),
        progress_bar(
            problem.n_signals, unit="signal", description=name, shown=progress, per_batch=per_batch
        ) as bar,
    ):
        parts = spread(
            run,
            batches,
            n_jobs,
            n_workers,
            bar,
            common=problem.model,
            prefer=method.workers,
            count=lambda part: len(part.n_steps),
            blas_threads=method.blas_threads,
        )
    solved = joined(parts)
    if groups is not None:
        solved = solved.at(np.argsort(np.concatenate(groups)))
    return prepared, solved


def _batches(
    problem: LassoProblem, method: Method[Any], prepared: Any, start: StartPoint | None, n_workers: int
) -> list[tuple[LassoProblem, StartPoint | None]]:
    parts = method.batches(problem, prepared, n_workers)
    if len(parts) == 1:
        return [(problem, start)]
    return [(problem.subset(part), start and start.at(part)) for part in parts]


def _solve_batch(
    batch: tuple[LassoProblem, StartPoint | None], method: Method[Any], prepared: Any, tol: float
) -> Solved:
    problem, start = batch
    return method.solve(problem, method.of_batch(prepared, problem), start, tol).certified(problem)


def _solve_group(batch: tuple[LassoProblem, StartPoint | None], method: Method[Any], tol: float) -> Solved:
    """Solve the problem of signals whose masks are equal.

    Its Gram matrix is kept no longer: there may be thousands of groups.
    """
    problem, start = batch
    problem = with_shared_mask(problem)
    prepared = method.prepare(problem)
    with method.context():
        return joined(
            [
                _solve_batch(part, method, prepared, tol)
                for part in _batches(problem, method, prepared, start, 1)
            ]
        )


def _require_taken(problem: LassoProblem, method: Method[Any], start: StartPoint | None) -> None:
    """Raise TypeError or ValueError where a method does not take a problem or a start."""
    takes, name = method.takes, method.name
    if start is not None and not takes.start:
        raise ValueError(f"start must be None for {name}: {_takers('start')}")
    if not problem.atoms.is_matrix:
        kind = type(problem.atoms).__name__
        if problem.feature_weights is not None and not takes.weights_with_convolution:
            raise TypeError(
                f"problem must have an array of atoms for {name} where features are masked or weighted; got "
                f"a {kind}: {_takers('weights_with_convolution')}"
            )
        if not takes.convolution:
            raise TypeError(
                f"problem must have an array of atoms for {name}; got a {kind}: for a small image, pass its "
                f"toarray(); {_takers('convolution')}"
            )
    if problem.penalty.has_zeros:
        _require_zeros_taken(problem, method)
    if takes.own_weights == REFUSED and problem.has_own_weights:
        raise TypeError(
            f"problem must have one mask for all signals for {name}; got one for each signal: solve the "
            "signals of each mask apart"
        )


def _require_zeros_taken(problem: LassoProblem, method: Method[Any]) -> None:
    """Raise ValueError where a method takes no l1 penalty of zero, or no certificate would be finite."""
    atom = int(np.argmin(problem.l1_weights))
    taken = (TAKEN, NOT_NEGATIVE) if problem.positive else (TAKEN,)
    if method.takes.zero_penalties not in taken:
        whose = "" if method.takes.zero_penalties == REFUSED else " where codes may be negative"
        raise ValueError(
            f"penalty must be positive for {method.name}{whose}; got 0 for atom {atom}: "
            f"{_takers('zero_penalties', taken)}"
        )
    signal = None if problem.positive else signal_of_dependent_atoms(problem)
    if signal is not None:
        n_free = int(np.count_nonzero(problem.penalty.is_free))
        seen = f" that signal {signal} knows" if problem.has_own_weights else ""
        raise ValueError(
            f"penalty must be positive, or atoms without one linearly independent; got {n_free} atoms of "
            f"penalty 0 in {problem.n_features} features{seen} that are not, or not far enough to prove it: "
            "no code could be certified; subtract the means of atoms that are far from zero, such as powers "
            "of years, leave some out, or pass a penalty, an ElasticNet, or positive=True"
        )


def _takers(field: str, values: tuple[object, ...] = (True,)) -> str:
    """Return which methods take something, for the end of a sentence."""
    names = [repr(name) for name, method in METHODS.items() if getattr(method.takes, field) in values]
    return f"{', '.join(names)} {'take' if len(names) > 1 else 'takes'} it"

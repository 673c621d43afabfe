"""The methods by name, and a function for each that users call.  A new method is a line of `ALL`."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import Parameter, cleandoc, signature
from typing import Any, TypedDict, TypeVar, Unpack

from snn.base import checks
from snn.digital import Digital
from snn.run.run import Time
from solvers.methods.active_set import ActiveSet
from solvers.methods.analog import Analog
from solvers.methods.fista import Fista
from solvers.methods.method import METHODS, Method, solve
from solvers.methods.reference import CoordinateDescent
from solvers.methods.spiking import (
    QUARTER_STEPS,
    ActiveSetFromSpikes,
    AverageCurrents,
    OneWindow,
    Rates,
    Stages,
)
from solvers.problem.lasso import LassoProblem
from solvers.results.result import SparseCodingResult, Start
from solvers.spiking.result import SpikingCodingResult
from solvers.spiking.stages import EXACT_TIME

ALL: tuple[Method, ...] = (
    Stages(),
    OneWindow(),
    AverageCurrents(),
    Rates(),
    ActiveSet(),
    ActiveSetFromSpikes(),
    Fista(),
    CoordinateDescent(),
    Analog(),
    Stages(how=QUARTER_STEPS),
)
METHODS.update({method.name: method for method in ALL})


def named_method(method: str | Method, *, name: str = "method", with_start: bool = False) -> Method:
    """Return the method that has a name, or the method that was passed."""
    known = {name: each for name, each in METHODS.items() if each.takes.start or not with_start}
    if not isinstance(method, Method):
        return known[checks.one_of(name, method, tuple(known))]
    if with_start and not method.takes.start:
        raise ValueError(f"method must take a start; got {method.name}: {', '.join(map(repr, known))} do")
    return method


class Common(TypedDict, total=False):
    """The arguments of all solvers."""

    start: Start
    tol: float
    n_jobs: int | None
    progress: bool


COMMON = {
    "problem": """problem : LassoProblem
    The problem.""",
    "start": """start : array_like or csr_array of shape (n_signals, n_atoms), or result, optional
    Where to start: codes, or the result of a solver; by default zero.""",
    "tol": """tol : float, default {tol:g}
    A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.""",
    "n_jobs": """n_jobs : int, optional
    The number of joblib workers that share the signals.  None is one, unless a `joblib.parallel_config` says
    otherwise; -1 is one for each processor.""",
    "progress": """progress : bool, default False
    Show a progress bar, in signals.""",
}
RETURNS = """Returns
-------
{result}
    `n_steps` counts {steps}.

Warns
-----
sklearn.exceptions.ConvergenceWarning
    If a signal does not reach `tol`.  Its code is the best one found, with its true gap."""
SECTION = re.compile(r"\n\n(?=\w+\n-+\n)")
ENTRY = re.compile(r"\n(?=\w+ : )")
F = TypeVar("F", bound=Callable[..., Any])


def _made_of(method: type[Method]) -> Callable[[F], F]:
    """Return a decorator that gives a function the documentation of a method, and the whole signature.

    The docstring of the function has a summary.
    """
    text, options, *sections = SECTION.split(cleandoc(method.__doc__ or ""))
    defaults = {"start": None, "tol": method.usual_tol, "n_jobs": None, "progress": False}
    shared = {
        name: Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=kind.__forward_arg__)
        for name, kind in Common.__annotations__.items()
        if name != "start" or method.takes.start
    }

    def documented(function: F) -> F:
        entries = ENTRY.split(options.split("\n", 2)[2])
        texts = COMMON | {entry.partition(" : ")[0]: entry for entry in entries}
        problem, *more, _ = signature(function).parameters.values()
        last = [shared.pop(name) for name in ("n_jobs", "progress")]
        parameters = [problem, *shared.values(), *more, *last]
        listed = "\n".join(texts[parameter.name] for parameter in parameters).format(tol=method.usual_tol)
        returned = RETURNS.format(result=method.result.__name__, steps=method.steps)
        parts = (text.partition("\n\n")[2], f"Parameters\n----------\n{listed}", returned, *sections)
        function.__doc__ = "\n\n".join([cleandoc(function.__doc__ or ""), *filter(None, parts)])
        described: Any = function
        described.__signature__ = signature(function).replace(parameters=parameters)
        return function

    return documented


@_made_of(Stages)
def solve_spiking(
    problem: LassoProblem,
    *,
    max_duration: float = 10_000.0,
    how: Time[Any] = EXACT_TIME,
    **common: Unpack[Common],
) -> SpikingCodingResult:
    """Solve a LASSO with a network of spiking neurons, one (positive) or two for each atom."""
    result: SpikingCodingResult = solve(problem, Stages(max_duration, how), **common)
    return result


@_made_of(Stages)
def solve_digital(
    problem: LassoProblem,
    *,
    max_duration: float = 10_000.0,
    how: Time[Any] = QUARTER_STEPS,
    **common: Unpack[Common],
) -> SpikingCodingResult:
    """Solve a LASSO with a network of digital neurons, one (positive) or two for each atom."""
    checks.instance_of("how", how, Digital)
    result: SpikingCodingResult = solve(problem, Stages(max_duration, how), **common)
    return result


@_made_of(ActiveSet)
def solve_active_set(
    problem: LassoProblem, *, max_rounds: int | None = None, **common: Unpack[Common]
) -> SparseCodingResult:
    """Solve a LASSO by an active-set method: optimality equations on a support that is corrected."""
    result: SparseCodingResult = solve(problem, ActiveSet(max_rounds), **common)
    return result


@_made_of(Fista)
def solve_fista(
    problem: LassoProblem, *, max_iter: int = 10_000, **common: Unpack[Common]
) -> SparseCodingResult:
    """Solve a LASSO by accelerated proximal gradient steps (FISTA) with adaptive restart."""
    result: SparseCodingResult = solve(problem, Fista(max_iter), **common)
    return result


@_made_of(Analog)
def solve_analog(
    problem: LassoProblem, *, max_duration: float = 10_000.0, **common: Unpack[Common]
) -> SparseCodingResult:
    """Solve a LASSO by the analog flow of the locally competitive algorithm (LCA)."""
    result: SparseCodingResult = solve(problem, Analog(max_duration), **common)
    return result


@_made_of(CoordinateDescent)
def solve_coordinate_descent(
    problem: LassoProblem, *, max_iter: int = 10_000, **common: Unpack[Common]
) -> SparseCodingResult:
    """Solve a LASSO by cyclic coordinate descent, scikit-learn's `Lasso` with a precomputed Gram matrix."""
    result: SparseCodingResult = solve(problem, CoordinateDescent(max_iter), **common)
    return result

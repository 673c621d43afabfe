"""The solvers as values, methods with their options; and a function for each that users call."""

import re
from collections.abc import Callable
from inspect import cleandoc
from typing import Any, TypeVar

from snn.run.simulate import EXACT
from snn.run.time import Time, is_digital
from solvers.methods.active_set import ActiveSet
from solvers.methods.analog import Analog
from solvers.methods.fista import Fista
from solvers.methods.method import METHODS, Method, solve
from solvers.methods.reference import CoordinateDescent
from solvers.methods.spiking import (
    QUARTER_STEPS,
    ActiveSetFromSpikes,
    AverageCurrents,
    DigitalOneWindow,
    OneWindow,
    Rates,
    Stages,
)
from solvers.problem.lasso import LassoProblem
from solvers.results.result import SparseCodingResult, Start
from solvers.spiking import SpikingCodingResult

__all__ = [
    "ActiveSet",
    "ActiveSetFromSpikes",
    "Analog",
    "AverageCurrents",
    "CoordinateDescent",
    "DigitalOneWindow",
    "Fista",
    "OneWindow",
    "Rates",
    "Stages",
]

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

SECTION = re.compile(r"\n\n(?=\w+\n-+\n)")
F = TypeVar("F", bound=Callable[..., Any])


def _documented(method: type[Method]) -> Callable[[F], F]:
    """Return a decorator that adds the documentation of a method and of `solve` to a summary."""
    text, options, *sections = SECTION.split(cleandoc(method.__doc__ or ""))
    _, shared, *outcome = SECTION.split(cleandoc(solve.__doc__ or ""))[:-1]
    shared = re.sub(r"\nmethod : .*\n .*", "", shared).replace("`Method.usual_tol`", f"{method.usual_tol:g}")
    parameters = "\n".join([shared, *options.split("\n")[2:]])

    def documented(function: F) -> F:
        parts = (function.__doc__ or "", text.partition("\n\n")[2], parameters, *outcome, *sections)
        function.__doc__ = "\n\n".join(filter(None, parts))
        return function

    return documented


@_documented(Stages)
def solve_spiking(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    max_duration: float = 10_000.0,
    how: Time = EXACT,
) -> SpikingCodingResult:
    """Solve a LASSO with a network of spiking neurons, one (positive) or two for each atom."""
    return solve(problem, Stages(max_duration, how), start=start, tol=tol, n_jobs=n_jobs, progress=progress)


@_documented(Stages)
def solve_digital(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    max_duration: float = 10_000.0,
    how: Time = QUARTER_STEPS,
) -> SpikingCodingResult:
    """Solve a LASSO with a network of digital neurons, one (positive) or two for each atom."""
    if not is_digital(how):
        raise TypeError(f"how must be a Clock with a DigitalFormat; got {how}")
    return solve(problem, Stages(max_duration, how), start=start, tol=tol, n_jobs=n_jobs, progress=progress)


@_documented(ActiveSet)
def solve_active_set(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    max_rounds: int | None = None,
) -> SparseCodingResult:
    """Solve a LASSO by an active-set method: optimality equations on a support that is corrected."""
    return solve(problem, ActiveSet(max_rounds), start=start, tol=tol, n_jobs=n_jobs, progress=progress)


@_documented(Fista)
def solve_fista(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    max_iter: int = 10_000,
) -> SparseCodingResult:
    """Solve a LASSO by accelerated proximal gradient steps (FISTA) with adaptive restart."""
    return solve(problem, Fista(max_iter), start=start, tol=tol, n_jobs=n_jobs, progress=progress)

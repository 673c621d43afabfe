"""The methods by name, and a function for each that users call.  A new method is a line of `ALL`."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import cleandoc, signature
from typing import Any, TypedDict, TypeVar, Unpack

from snn.base import checks
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
from solvers.spiking.network import EXACT_TIME
from solvers.spiking.runs import SpikingCodingResult

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


SECTION = re.compile(r"\n\n(?=\w+\n-+\n)")
ENTRY = re.compile(r"\n(?=\w+ : )")
F = TypeVar("F", bound=Callable[..., Any])


def _made_of(method: type[Method]) -> Callable[[F], F]:
    """Return a decorator that gives a function the options of `solve`, and the documentation of a method.

    The docstring of the function has a summary.
    """
    text, options, *sections = SECTION.split(cleandoc(method.__doc__ or ""))
    _, shared, *outcome = SECTION.split(cleandoc(solve.__doc__ or ""))[:-1]
    entries = [entry for listed in (shared, options) for entry in ENTRY.split(listed.split("\n", 2)[2])]
    texts = {entry.partition(" : ")[0]: entry for entry in entries}
    texts["tol"] = texts["tol"].replace("`Method.usual_tol`", f"{method.usual_tol:g}")

    def documented(function: F) -> F:
        common = dict(signature(solve).parameters)
        common["tol"] = common["tol"].replace(default=method.usual_tol)
        own = dict(signature(function).parameters)
        names = ["problem", *["start"][: method.takes.start], "tol", *list(own)[1:-1], "n_jobs", "progress"]
        listed = "\n".join(texts[name] for name in names)
        parts = (text.partition("\n\n")[2], f"Parameters\n----------\n{listed}", *outcome, *sections)
        function.__doc__ = "\n\n".join([cleandoc(function.__doc__ or ""), *filter(None, parts)])
        parameters = [(common | own)[name] for name in names]
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
    return solve(problem, Stages(max_duration, how), **common)


@_made_of(Stages)
def solve_digital(
    problem: LassoProblem,
    *,
    max_duration: float = 10_000.0,
    how: Time[Any] = QUARTER_STEPS,
    **common: Unpack[Common],
) -> SpikingCodingResult:
    """Solve a LASSO with a network of digital neurons, one (positive) or two for each atom."""
    if not getattr(how, "is_digital", False):
        raise TypeError(f"how must be a Clock with a DigitalFormat; got {how}")
    return solve(problem, Stages(max_duration, how), **common)


@_made_of(ActiveSet)
def solve_active_set(
    problem: LassoProblem, *, max_rounds: int | None = None, **common: Unpack[Common]
) -> SparseCodingResult:
    """Solve a LASSO by an active-set method: optimality equations on a support that is corrected."""
    return solve(problem, ActiveSet(max_rounds), **common)


@_made_of(Fista)
def solve_fista(
    problem: LassoProblem, *, max_iter: int = 10_000, **common: Unpack[Common]
) -> SparseCodingResult:
    """Solve a LASSO by accelerated proximal gradient steps (FISTA) with adaptive restart."""
    return solve(problem, Fista(max_iter), **common)


@_made_of(Analog)
def solve_analog(
    problem: LassoProblem, *, max_duration: float = 10_000.0, **common: Unpack[Common]
) -> SparseCodingResult:
    """Solve a LASSO by the analog flow of the locally competitive algorithm (LCA)."""
    return solve(problem, Analog(max_duration), **common)


@_made_of(CoordinateDescent)
def solve_coordinate_descent(
    problem: LassoProblem, *, max_iter: int = 10_000, **common: Unpack[Common]
) -> SparseCodingResult:
    """Solve a LASSO by cyclic coordinate descent, scikit-learn's `Lasso` with a precomputed Gram matrix."""
    return solve(problem, CoordinateDescent(max_iter), **common)

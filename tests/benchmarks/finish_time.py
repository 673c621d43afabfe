"""Where should the active-set method start?  From nothing, from ten FISTA steps, or from how many spikes?"""

from collections.abc import Callable
from unittest import mock

from matplotlib.figure import Figure

from solvers import METHODS, LassoProblem, SparseCodingResult, solve_active_set, solve_spiking
from solvers.methods import spiking
from tests.benchmarks.problems import (
    again,
    correlated_dictionary,
    patch_problem,
    planted_problems,
    random_dictionary,
)
from tests.benchmarks.report import Target
from tests.benchmarks.timing import milliseconds, table, timed, verify

TITLE = "Where the active-set method starts"
FINISH_TIMES = (1.0, 2.0, 4.0, 8.0, 16.0)
GAP = 1e-6
# The constant of `solvers.methods.spiking` that says when.
NAME = "POLISH_TIME"


def problems(*, quick: bool) -> dict[str, LassoProblem]:
    if quick:
        (small,) = planted_problems(random_dictionary(32, 64), support=3, n_signals=1)
        return {"random, 32 x 64": small, "50 patches": patch_problem(50, 32, 500)}
    found = {}
    for n_features, n_atoms, support in ((64, 256, 6), (256, 1024, 25), (1024, 4096, 100)):
        atoms = random_dictionary(n_features, n_atoms)
        (found[f"random, {n_features} x {n_atoms}"],) = planted_problems(atoms, support=support, n_signals=1)
    atoms = correlated_dictionary(256, 1024)
    (found["correlated (rho 0.9), 256 x 1024"],) = planted_problems(atoms, support=25, n_signals=1)
    return {**found, "1,000 patches": patch_problem(1000)}


def starts() -> dict[str, Callable[[LassoProblem], SparseCodingResult]]:
    """Return the method from each start."""

    def after(finish_time: float) -> Callable[[LassoProblem], SparseCodingResult]:
        def solve(problem: LassoProblem) -> SparseCodingResult:
            with mock.patch.object(spiking, NAME, finish_time):
                return solve_spiking(again(problem), polish=True, tol=GAP)

        return solve

    return {
        "nothing": lambda problem: solve_active_set(again(problem), tol=GAP),
        "ten FISTA steps": lambda problem: METHODS["active_set_from_fista"](again(problem), tol=GAP),
        **{f"spikes to t = {finish_time:g}": after(finish_time) for finish_time in FINISH_TIMES},
    }


def run(*, quick: bool) -> dict:
    found = {}
    for name, problem in problems(quick=quick).items():
        points = {}
        for start, solve in starts().items():
            result = solve(problem)
            verify(problem, result.codes, GAP, f"the active set from {start}")
            points[start] = {"n_corrections": float(result.n_corrections.mean())}
        times = timed(
            {start: lambda solve=solve, problem=problem: solve(problem) for start, solve in starts().items()},
            quick=quick,
            seconds=0.3,
        )
        for start, timing in times.items():
            points[start]["seconds"] = timing.median
        found[name] = points
    return {"problems": found}


def targets(data: dict) -> list[Target]:
    return []


def markdown(data: dict) -> str:
    names = list(starts())
    rows = [
        [
            name,
            *(f"{milliseconds(points[k]['seconds'])}, {points[k]['n_corrections']:.1f}" for k in names),
        ]
        for name, points in data["problems"].items()
    ]
    return (
        f"Time of a whole solve to a gap of {GAP:g}, and atoms that the method added to its start or removed "
        "from it, mean over the signals.  The answer is the method's, wherever it starts; the spikes "
        "are those to t = 2.\n\n" + table(["problem", *(f"from {k}" for k in names)], rows)
    )


def plot(data: dict) -> Figure | None:
    return None

"""When should `polish` leave the network?  Time of a solve against the time simulated before."""

from unittest import mock

from matplotlib.figure import Figure

from solvers import LassoProblem, solve_spiking, spiking
from tests.benchmarks.problems import (
    again,
    correlated_dictionary,
    patch_problem,
    planted_problems,
    random_dictionary,
)
from tests.benchmarks.report import Target
from tests.benchmarks.timing import milliseconds, table, timed, verify

TITLE = "When to leave the network for the active-set method"
FINISH_TIMES = (1.0, 2.0, 4.0, 8.0, 16.0)
GAP = 1e-6
# The constant of `solvers.spiking` that says when.
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


def run(*, quick: bool) -> dict:
    found = {}
    for name, problem in problems(quick=quick).items():
        points = []
        for finish_time in FINISH_TIMES:
            with mock.patch.object(spiking, NAME, finish_time):
                result = solve_spiking(problem, polish=True, tol=GAP)
                verify(problem, result.codes, GAP, f"the finish at {finish_time:g}")
                timing = timed(
                    {"": lambda problem=problem: solve_spiking(again(problem), polish=True, tol=GAP)},
                    quick=quick,
                    seconds=0.5,
                )[""]
            points.append({"seconds": timing.median, "n_corrections": float(result.n_corrections.mean())})
        found[name] = points
    return {"problems": found}


def targets(data: dict) -> list[Target]:
    return []


def markdown(data: dict) -> str:
    rows = [
        [name, *(f"{milliseconds(point['seconds'])}, {point['n_corrections']:.1f}" for point in points)]
        for name, points in data["problems"].items()
    ]
    return "Time of a solve, mean corrections a signal.\n\n" + table(
        ["problem", *(f"t = {finish_time:g}" for finish_time in FINISH_TIMES)], rows
    )


def plot(data: dict) -> Figure | None:
    return None

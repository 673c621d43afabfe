"""Random dictionaries: how soon is a code right to 1 %, by spikes alone, and how soon to 1e-6?"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from examples._common import BLUE, GREEN, GREY, ORANGE, figure
from snn import NetworkState, SpikingNetwork, simulate
from snn.event_driven import EventDrivenRun
from solvers import LassoProblem, lasso_network, objective, solve_spiking
from tests.benchmarks import peers
from tests.benchmarks.contest import best_of, contest, contest_table, faster
from tests.benchmarks.lean_fista import largest_eigenvalue, lean_fista
from tests.benchmarks.problems import planted_problems, random_dictionary
from tests.benchmarks.report import Target, at_least
from tests.benchmarks.timing import WrongAnswerError, milliseconds, table, timed

ENTRANTS = (peers.OURS, *peers.CLASSICAL)
TITLE = "Random dictionaries, a tenth as many atoms active as features"
SIZES = ((64, 256, 6), (256, 1024, 25), (1024, 4096, 100))
QUICK_SIZES = ((32, 64, 4),)
# Beside the optimum.
COARSE = 0.01
GAP = 1e-6
# Durations tried: no solver runs more than a twentieth too long.
DURATIONS = 0.5 * 2.0 ** (np.arange(300) / 14.0)


class Reading(NamedTuple):
    """How a network is run, and its code read out of it."""

    scale: float
    """The value of a unit of rate, beside the rate of the busiest neuron alone."""
    head_start: float
    """Potentials at first, in thresholds."""
    begin: float
    """The average is over the time from this part of the run on; -1 for spikes over time."""


READINGS = {
    "spikes, rate": Reading(1.0, 0.0, -1.0),
    "spikes, average current": Reading(1.0, 0.0, 0.5),
    "spikes, head start, average current": Reading(2.0, 0.5, 0.25),
}
SPIKES = tuple(READINGS)
FISTAS = ("FISTA, lean", "FISTA, dense products")


def run(*, quick: bool) -> dict:
    sizes = []
    for n_features, n_atoms, support in QUICK_SIZES if quick else SIZES:
        problems = planted_problems(
            random_dictionary(n_features, n_atoms), support=support, n_signals=1 if quick else 5
        )
        sizes.append(
            {
                "n_features": n_features,
                "n_atoms": n_atoms,
                "preparation": preparation(problems[0], quick=quick),
                "coarse": coarse_race(problems, quick=quick),
                "certified": contest(
                    problems,
                    (peers.CURRENT, peers.RATE, peers.OURS, peers.LEAN_FISTA, peers.DENSE_FISTA, peers.FISTA),
                    COARSE,
                    quick=quick,
                    required=(peers.CURRENT, peers.RATE),
                ),
                "precise": contest(problems, ENTRANTS, GAP, quick=quick, required=(peers.OURS,)),
            }
        )
    return {"sizes": sizes}


def preparation(problem: LassoProblem, *, quick: bool) -> dict[str, float]:
    """Return the seconds of what is done before any solver starts."""
    calls = {
        "Gram matrix": lambda: problem.dictionary @ problem.dictionary.T,
        "LassoProblem, Gram given": lambda: LassoProblem(
            problem.dictionary,
            problem.signals,
            problem.l1_weights,
            positive=problem.positive,
            gram=problem.gram,
        ),
        "correlations": lambda: problem.correlate(problem.signals),
        "largest eigenvalue": lambda: largest_eigenvalue(problem.dictionary),
    }
    return {name: timing.median for name, timing in timed(calls, quick=quick, seconds=0.3).items()}


# -- to 1 %, by an oracle that knows when ------------------------------------------------------------


def coarse_race(problems: list[LassoProblem], *, quick: bool) -> dict:
    """Return the time of the shortest run, and of the fewest iterations, whose objective is within 1 %.

    Correlations are given to both; the oracle is outside the clock.
    """
    record = {name: {"seconds": [], "needed": []} for name in (*SPIKES, *FISTAS)}
    n_spikes = []
    for problem in problems:
        best = solve_spiking(problem, tol=1e-10, polish=True)
        limit = (1.0 + COARSE) * best.objective[0]
        calls = {}
        for name in SPIKES:
            duration, calls[name] = _shortest_run(problem, READINGS[name], limit)
            record[name]["needed"].append(duration)
        for name in FISTAS:
            iterations, calls[name] = _fewest_iterations(problem, sparse=name == FISTAS[0], limit=limit)
            record[name]["needed"].append(iterations)
        for name, call in calls.items():
            require_objective(problem, call(), limit, name)
        for name, timing in timed(calls, quick=quick, seconds=0.5).items():
            record[name]["seconds"].append(timing.median)
        best_way = min(SPIKES, key=lambda name: record[name]["seconds"][-1])
        n_spikes.append(n_spikes_of(problem, READINGS[best_way], record[best_way]["needed"][-1]))
    return {"within": COARSE, "methods": record, "n_spikes": n_spikes}


def require_objective(problem: LassoProblem, code: np.ndarray, limit: float, name: str) -> None:
    """Raise WrongAnswerError unless the objective of the code is at most `limit`."""
    reached = float(objective(problem, code[np.newaxis])[0])
    if not reached <= limit:
        raise WrongAnswerError(f"{name} must reach an objective of {limit:.6g}; got {reached:.6g}")


def _start(problem: LassoProblem, reading: Reading) -> tuple[SpikingNetwork, NetworkState, float]:
    """Return a network, where it starts, and the scale of its rates."""
    scale = reading.scale * float(
        ((problem.correlations[0] - problem.l1_weights) / problem.squared_norms).max()
    )
    network = lasso_network(problem, scale=scale)
    state = NetworkState(
        membrane_potential=reading.head_start * network.firing_threshold,
        synaptic_current=np.zeros(network.n_neurons),
    )
    return network, state, scale


def n_spikes_of(problem: LassoProblem, reading: Reading, duration: float) -> int:
    """Return the number of spikes in a run."""
    network, state, _ = _start(problem, reading)
    return simulate(network, duration, state=state).n_spikes


def _shortest_run(problem: LassoProblem, reading: Reading, limit: float) -> tuple[float, Callable]:
    network, state, scale = _start(problem, reading)
    threshold = network.firing_threshold

    def rate(duration: float) -> np.ndarray:
        run = EventDrivenRun(network, network.soma_bias[np.newaxis], state)
        run.advance(duration)
        return run.spike_counts[0] * (scale / duration)

    def current(duration: float) -> np.ndarray:
        run = EventDrivenRun(network, network.soma_bias[np.newaxis], state)
        run.advance(reading.begin * duration)
        before = threshold * run.spike_counts + run.membrane_potential
        run.advance(duration)
        charge = threshold * run.spike_counts + run.membrane_potential - before
        return np.maximum(charge[0], 0.0) * (scale / ((1.0 - reading.begin) * duration)) / threshold

    read = rate if reading.begin < 0.0 else current
    for duration in DURATIONS:
        if objective(problem, read(duration)[np.newaxis])[0] <= limit:
            return float(duration), partial(read, duration)
    raise WrongAnswerError(
        f"{reading} must come within {COARSE:g} of the optimum; it has not by {duration:g}"
    )


def _fewest_iterations(problem: LassoProblem, *, sparse: bool, limit: float) -> tuple[int, Callable]:
    eigenvalue = largest_eigenvalue(problem.dictionary)
    correlations = problem.correlations[0]

    def solve(iterations: int) -> np.ndarray:
        code = np.empty(problem.n_atoms)
        lean_fista(
            problem.gram, correlations, problem.l1_weights, problem.positive, eigenvalue, problem.energies[0],
            0.0, iterations, sparse, code,
        )  # fmt: skip
        return code

    for iterations in range(1, 2000):
        if objective(problem, solve(iterations)[np.newaxis])[0] <= limit:
            return iterations, partial(solve, iterations)
    raise WrongAnswerError(f"FISTA must come within {COARSE:g} of the optimum; it has not by {iterations}")


def spikes_over(size: dict, fista: str, *, eigenvalue: bool = False) -> float:
    """Return the time of FISTA over that of the best read-out, the median over the problems."""
    methods = size["coarse"]["methods"]
    spikes = np.min([methods[name]["seconds"] for name in SPIKES], axis=0)
    extra = size["preparation"]["largest eigenvalue"] if eigenvalue else 0.0
    return float(np.median((np.array(methods[fista]["seconds"]) + extra) / spikes))


# -- what is read --------------------------------------------------------------------------------


def targets(data: dict) -> list[Target]:
    found = []
    rivals = [peer.name for peer in peers.CLASSICAL]
    spams = [peer.name for peer in peers.SPAMS]
    for size in data["sizes"]:
        work = f"random {size['n_features']} x {size['n_atoms']}"
        if size["n_features"] == 64:
            value = faster(size["precise"], peers.OURS.name, spams)
            found.append(at_least(f"{work}, gap {GAP:g}", 1.0, value, ">= 1x SPAMS"))
            continue
        for fista in FISTAS:
            found.append(
                at_least(f"{work}, to 1 % by spikes alone", 30.0, spikes_over(size, fista), f">= 30x {fista}")
            )
        value = faster(size["precise"], peers.OURS.name, rivals)
        found.append(
            at_least(
                f"{work}, gap {GAP:g}", 2.0, value, f">= 2x the best ({best_of(size['precise'], rivals)})"
            )
        )
    return found


def markdown(data: dict) -> str:
    parts = [
        "One signal at a time, codes not negative, penalty a tenth of its maximum; times are medians "
        "over the signals.  *To 1 %*: the shortest simulation, and the fewest iterations, whose objective "
        "is within "
        "1 % of the optimum, found beforehand; correlations are given to both, and to FISTA the largest "
        "eigenvalue.  Lean FISTA skips the zeros of the code; the other multiplies by the Gram matrix as "
        "BLAS does.  Neither checks or certifies anything.  *Head start*: potentials start at half their "
        "thresholds, so that spikes are rounded, not cut off; the busiest neuron, alone, would fire once in "
        "two time constants; currents are averaged from a quarter of the run on."
    ]
    for size in data["sizes"]:
        parts.append(f"### {size['n_features']} features, {size['n_atoms']} atoms")
        rows = [
            [
                name,
                milliseconds(float(np.median(entry["seconds"]))),
                f"{'t = ' if name in SPIKES else ''}{np.median(entry['needed']):.3g}"
                f"{'' if name in SPIKES else ' iterations'}",
            ]
            for name, entry in size["coarse"]["methods"].items()
        ]
        parts += [
            f"**To 1 % of the optimum.**  Spikes: {np.median(size['coarse']['n_spikes']):,.0f}.  Lean FISTA "
            f"takes {spikes_over(size, FISTAS[0]):.3g} times the time of the better read-out, with the "
            f"cost of "
            f"the eigenvalue {spikes_over(size, FISTAS[0], eigenvalue=True):.3g} times.",
            table(["method", "time", "needed"], rows),
            f"**To a certified gap of {COARSE:g}.**  Whole solvers, with their certificates.",
            contest_table(size["certified"], peers.CURRENT.name),
            f"**To a certified gap of {GAP:g}.**",
            contest_table(size["precise"], peers.OURS.name),
            "Before any solver starts: "
            + ", ".join(f"{name} {milliseconds(value)}" for name, value in size["preparation"].items())
            + ".",
        ]
    return "\n\n".join(parts)


def plot(data: dict) -> Figure | None:
    picture = figure(11.0, 1.2 + 0.28 * 10 * len(data["sizes"]))
    axes = picture.subplots(len(data["sizes"]), 2, squeeze=False)
    for row, size in zip(axes, data["sizes"], strict=True):
        title = f"{size['n_features']} x {size['n_atoms']}"
        coarse = {name: entry["seconds"] for name, entry in size["coarse"]["methods"].items()}
        precise = {name: entry["seconds"] for name, entry in size["precise"]["peers"].items()}
        horizontal_bars(row[0], coarse, f"{title}: to 1 % of the optimum")
        horizontal_bars(row[1], precise, f"{title}: certified to {GAP:g}")
    return picture


def horizontal_bars(ax, seconds: dict[str, list[float]], title: str) -> None:
    """Draw the median time of each method, fastest on top, and its range over the problems."""
    times = {name: np.array(values, dtype=float) for name, values in seconds.items()}
    reached = {name: 1e3 * values for name, values in times.items() if np.isfinite(values).all()}
    names = sorted(reached, key=lambda name: -np.median(reached[name]))
    medians = [float(np.median(reached[name])) for name in names]
    ranges = [
        [median - reached[name].min(), reached[name].max() - median]
        for name, median in zip(names, medians, strict=True)
    ]
    colours = [
        BLUE if "spikes" in name else ORANGE if "FISTA" in name else GREEN if "SPAMS" in name else GREY
        for name in names
    ]
    bars = ax.barh(names, medians, color=colours, xerr=np.array(ranges).T, ecolor="black", capsize=2)
    ax.bar_label(
        bars,
        [f"{median:.3g}" if median < 1000 else f"{median:,.0f}" for median in medians],
        padding=6,
        fontsize="small",
    )
    ax.set(xscale="log", xlabel="milliseconds", title=title)
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.margins(x=0.2)

"""What the step of a clock that keeps charge costs, and what it saves."""

from functools import partial

import numpy as np
from matplotlib.figure import Figure

from snn import RunawayError, simulate, simulate_clocked
from solvers import LassoProblem, lasso_network, solve_spiking
from tests.benchmarks.peers import quiet
from tests.benchmarks.problems import (
    correlated_dictionary,
    learned_dictionary,
    photograph_patches,
    planted_problems,
    random_dictionary,
    single_problems,
)
from tests.benchmarks.report import Target, at_most
from tests.benchmarks.timing import relative_gaps, table, timed

TITLE = "A clock that keeps charge, by its step"
STEPS = {"events": None, "1/32": 1 / 32, "1/16": 1 / 16, "1/8": 1 / 8, "1/4": 1 / 4, "1/2": 1 / 2, "1": 1.0}
TIMES, QUICK_TIMES = (80.0, 1280.0), (20.0, 80.0)
TOLS = (1e-3, 1e-6)
# Steps with which rates do not swing on any of these designs.
SOLVED = ("events", "1/16", "1/8", "1/4")
WANTED_GAP = 1e-5


def sharing_dictionary(n_features: int, n_atoms: int, *, cosine: float) -> np.ndarray:
    """Return atoms of norm one that share a direction: any two have about this cosine."""
    atoms = random_dictionary(n_features, n_atoms)
    shared, atoms = atoms[0], atoms[1:]
    atoms = atoms - np.outer(atoms @ shared, shared)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    return np.sqrt(cosine) * shared + np.sqrt(1.0 - cosine) * atoms


def designs(*, quick: bool) -> dict[str, list[LassoProblem]]:
    """Return the problems of each design, one signal each."""
    n_features, n_atoms, support, n_signals = (16, 32, 3, 1) if quick else (64, 256, 6, 7)
    planted = partial(planted_problems, support=support, n_signals=n_signals)
    found = {
        f"random, {n_features} x {n_atoms}": planted(random_dictionary(n_features, n_atoms)),
        f"neighbours correlate (rho 0.9), {n_features} x {n_atoms}": planted(
            correlated_dictionary(n_features, n_atoms)
        ),
        f"one direction shared (cosine 0.5), {n_features} x {n_atoms}": planted(
            sharing_dictionary(n_features, n_atoms + 1, cosine=0.5)
        ),
        f"one direction shared (cosine 0.9), {n_features} x {n_atoms}": planted(
            sharing_dictionary(n_features, n_atoms + 1, cosine=0.9)
        ),
        f"patches, 64 x {n_atoms} learned": single_problems(
            learned_dictionary(n_atoms, 500 if quick else 10_000),
            photograph_patches(n_signals),
            0.1,
            positive=True,
        ),
    }
    if not quick:
        found["random, 256 x 1024"] = planted_problems(random_dictionary(256, 1024), support=25, n_signals=3)
    return found


def one_run(
    problem: LassoProblem, time_step: float | None, times: tuple[float, ...]
) -> list[list[float]] | None:
    """Return the certified gap, smooth window, and the spikes at each time; None if the network runs away."""
    network = lasso_network(problem)
    read = []
    for time in times:
        if time_step is None:
            run = simulate(network, time)
        else:
            try:
                run = simulate_clocked(network, time, time_step=time_step)
            except RunawayError:
                return None
        currents = network.soma_bias + network.weights.transpose_product(run.smooth_rate)
        codes = np.array([run.smooth_rate, np.maximum(currents, 0.0) / network.firing_threshold])
        read.append([float(relative_gaps(problem.subset([0, 0]), codes).min()), run.n_spikes])
    return read


def solved(problem: LassoProblem, tol: float, *, quick: bool) -> dict[str, list[float]]:
    """Return spikes and seconds of the whole solver for each step with which `tol` is reached."""
    calls = {
        name: partial(solve_spiking, problem, tol=tol, time_step=STEPS[name], n_jobs=1) for name in SOLVED
    }
    spikes = {}
    for name, call in calls.items():
        result = call()
        if result.converged:
            spikes[name] = int(result.n_steps.sum())
    timings = timed({name: calls[name] for name in spikes}, quick=quick, seconds=0.2)
    return {name: [spikes[name], timings[name].median] for name in spikes}


def run(*, quick: bool) -> dict:
    times = QUICK_TIMES if quick else TIMES
    outcomes = {}
    with quiet():
        for name, problems in designs(quick=quick).items():
            gram = problems[0].gram
            runs = {}
            for step, time_step in STEPS.items():
                read = [one_run(problem, time_step, times) for problem in problems]
                runs[step] = None if None in read else np.median(read, axis=0).tolist()
            outcomes[name] = {
                "coherence": float(np.abs(gram - np.diag(np.diagonal(gram))).max()),
                "runs": runs,
                "solved": {
                    f"{tol:g}": [solved(problem, tol, quick=quick) for problem in problems]
                    for tol in ((TOLS[0],) if quick else TOLS)
                },
            }
    return {"times": times, "designs": outcomes}


def targets(data: dict) -> list[Target]:
    first = next(iter(data["designs"]))
    gap = data["designs"][first]["runs"]["1/4"][-1][0]
    return [
        at_most(
            f"{first}, clock of 1/4, t = {data['times'][-1]:,g}: certified gap",
            WANTED_GAP,
            gap,
            f"<= {WANTED_GAP:g}",
            "",
        )
    ]


def ratios(outcome: list[dict], step: str) -> tuple[float, float] | None:
    """Return spikes and seconds beside those of events, medians; None if a signal was not solved."""
    if not all(step in signal and "events" in signal for signal in outcome):
        return None
    pairs = [np.array(signal[step]) / np.array(signal["events"]) for signal in outcome]
    return tuple(np.median(pairs, axis=0).tolist())


def gap_after(run: list[list[float]] | None, k: int) -> str:
    return "runs away" if run is None else f"{run[k][0]:.1e}"


def gaps_tables(data: dict) -> str:
    """Return a table for each time: gaps of one run, by design and step."""
    parts = []
    for k, time in enumerate(data["times"]):
        rows = [
            [name, f"{outcome['coherence']:.2f}", *(gap_after(outcome["runs"][step], k) for step in STEPS)]
            for name, outcome in data["designs"].items()
        ]
        head = [step if step == "events" else f"step {step}" for step in STEPS]
        parts.append(table([f"t = {time:,g}", "coherence", *head], rows))
    return "\n\n".join(parts)


def solver_tables(data: dict) -> str:
    """Return a table for each gap: spikes and time of the solver on a clock, as multiples."""
    parts = []
    for tol in next(iter(data["designs"].values()))["solved"]:
        rows = []
        for name, outcome in data["designs"].items():
            found = [ratios(outcome["solved"][tol], step) for step in SOLVED[1:]]
            rows.append([name, *("-" if pair is None else f"{pair[0]:.2f}, {pair[1]:.2f}" for pair in found)])
        parts.append(table([f"gap {tol}", *(f"step {step}: spikes, time" for step in SOLVED[1:])], rows))
    return "\n\n".join(parts)


def markdown(data: dict) -> str:
    return "\n\n".join(
        [
            "Exact steps, threshold subtracted.  One run from rest, read through the smooth window: "
            "certified gap, medians over the signals; penalties a tenth of the maximum.  A network runs away "
            "if one of its signals makes it.",
            gaps_tables(data),
            "`solve_spiking` to a certified gap, with refinement: spikes and time of the whole solver on a "
            "clock, as multiples of those from event to event, medians.  A dash: not all signals got there "
            "by t = 10,000.",
            solver_tables(data),
        ]
    )


def plot(data: dict) -> Figure | None:
    return None

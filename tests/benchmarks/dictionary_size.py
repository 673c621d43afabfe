"""What does a spike cost as the dictionary grows, and the support does not?"""

import itertools
import time
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from examples._common import BLUE, GREEN, GREY, ORANGE, figure
from snn import Exact, SpikingNetwork, simulate
from solvers import LassoProblem, lasso_network, solve_spiking
from tests.benchmarks.problems import random_dictionary
from tests.benchmarks.report import Target, at_most
from tests.benchmarks.timing import WrongAnswerError, summary, table, verify

TITLE = "Cost of a spike against the size of the dictionary"
# (features, atoms planted among the first 1,024)
SERIES = ((256, 25), (1024, 100))
N_ATOMS = (1024, 2048, 4096, 8192, 16384)
QUICK_SERIES, QUICK_N_ATOMS = ((32, 3),), (64, 128)
# What is timed is one run, from each of these times on to the next.
MARKS = (0.0, 100.0, 300.0, 1000.0)
NEEDED = 1.5


def run(*, quick: bool) -> dict:
    series = []
    for n_features, planted in QUICK_SERIES if quick else SERIES:
        sizes = QUICK_N_ATOMS if quick else N_ATOMS
        atoms = random_dictionary(n_features, sizes[-1] + sizes[-1] // 8)
        signal, penalty = planted_signal(atoms[: sizes[0]], planted)
        atoms = without_use(atoms, sizes[0], signal, penalty)
        points = []
        for n_atoms in sizes:
            # One at a time: the largest Gram matrix has 2.1 GB.
            points.append(cost_of_spikes(atoms[:n_atoms], signal, penalty, quick=quick))
        if len({point["support"] for point in points}) != 1:
            supports = [point["support"] for point in points]
            raise WrongAnswerError(f"the support must be the same for every size; got {supports}")
        series.append({"n_features": n_features, "planted": planted, "points": points})
    return {"series": series}


def planted_signal(atoms: np.ndarray, planted: int, *, seed: int = 1) -> tuple[np.ndarray, float]:
    """Return a signal made of some of the atoms, and a tenth of its largest penalty."""
    rng = np.random.default_rng(seed)
    code = np.zeros(len(atoms))
    code[rng.choice(len(atoms), planted, replace=False)] = rng.uniform(0.5, 1.5, planted)
    signal = code @ atoms + 0.01 * rng.standard_normal(atoms.shape[1])
    return signal[np.newaxis], 0.1 * float((atoms @ signal).max())


def without_use(atoms: np.ndarray, n_first: int, signal: np.ndarray, penalty: float) -> np.ndarray:
    """Return the first atoms, and those of the others that leave the optimum of the first as it is.

    That is so if their correlation with its residual is below the penalty; most are.
    """
    first = LassoProblem(atoms[:n_first], signal, penalty, positive=True)
    residual = signal - first.reconstruct(solve_spiking(first, tol=1e-9, polish=True).codes)
    useful = (atoms @ residual[0] >= penalty) & (np.arange(len(atoms)) >= n_first)
    return atoms[~useful]


def cost_of_spikes(atoms: np.ndarray, signal: np.ndarray, penalty: float, *, quick: bool) -> dict:
    """Return spikes and seconds of the parts of a run."""
    problem = LassoProblem(atoms, signal, penalty, positive=True)
    network = lasso_network(problem)
    first = simulate(network, MARKS[1])
    # Right spikes: what the network tends to is the optimum.
    verify(problem, first.spike_rate[np.newaxis], 0.1, "the spike rate")
    best = solve_spiking(problem, tol=1e-6, polish=True)
    verify(problem, best.codes, 1e-6, "the active-set method")
    spikes, seconds = [], []
    begin = time.perf_counter()
    while len(seconds) < 3 or (not quick and time.perf_counter() - begin < 2.0):
        spikes, taken = _parts(network)
        seconds.append(taken)
    if spikes[0] != first.n_spikes:
        raise WrongAnswerError(f"a run must fire what simulate does, {first.n_spikes}; got {spikes[0]}")
    return {
        "n_atoms": len(atoms),
        "support": int(best.support_size[0]),
        "n_fired": int(np.count_nonzero(first.spike_counts)),
        "spikes": spikes,
        "times": [summary(part)._asdict() for part in zip(*seconds, strict=True)],
    }


def _parts(network: SpikingNetwork) -> tuple[list[int], list[float]]:
    """Run once, through all marks; return spikes and seconds of each part."""
    totals, moments = [0], [time.perf_counter()]
    run = Exact().start(network, network.soma_bias[np.newaxis])
    for mark in MARKS[1:]:
        run.advance(mark)
        moments.append(time.perf_counter())
        totals.append(int(run.spike_counts.sum()))
    return np.diff(totals).tolist(), np.diff(moments).tolist()


def part_names() -> list[str]:
    """Return what the parts of a run are called."""
    return [f"from {start:g} to {stop:g}" for start, stop in itertools.pairwise(MARKS)]


def microseconds(point: dict, part: int) -> float:
    """Return the cost of a spike in a part of the run."""
    return 1e6 * point["times"][part]["median"] / point["spikes"][part]


def growth(series: dict, part: int) -> float:
    """Return how many times a spike in a part of the run costs more in the largest dictionary."""
    return microseconds(series["points"][-1], part) / microseconds(series["points"][0], part)


def targets(data: dict) -> list[Target]:
    found = []
    for series in data["series"]:
        first, last = series["points"][0], series["points"][-1]
        for part, words in enumerate(part_names()):
            found.append(
                at_most(
                    f"cost of a spike {words}, N from {first['n_atoms']:,} to {last['n_atoms']:,}, "
                    f"{series['planted']} planted",
                    NEEDED,
                    growth(series, part),
                    f"grows <= {NEEDED:g}x",
                    "x",
                )
            )
    return found


def points_table(points: Sequence[dict]) -> str:
    """Return the figures of runs."""
    rows = [
        [
            f"{point['n_atoms']:,}",
            f"{point['support']:,}",
            f"{point['n_fired']:,}",
            *(
                f"{spikes:,}, {microseconds(point, part):.3g} us each"
                for part, spikes in enumerate(point["spikes"])
            ),
            f"{1e3 * sum(timing['median'] for timing in point['times']):.3g} ms",
        ]
        for point in points
    ]
    header = ["atoms", "support of the optimum", "neurons that fired"]
    header += [f"spikes {words}" for words in part_names()]
    return table([*header, "in all"], rows)


def markdown(data: dict) -> str:
    parts = [
        f"Random CLASSO.  The signal is made of atoms among the first "
        f"{data['series'][0]['points'][0]['n_atoms']:,}; "
        "others are added that the optimal code has no use for: signal, penalty and support stay."
    ]
    for series in data["series"]:
        parts += [
            f"### {series['n_features']} features, {series['planted']} atoms planted",
            points_table(series["points"]),
        ]
    return "\n\n".join(parts)


def plot(data: dict) -> Figure | None:
    picture = figure(7.0, 4.2)
    ax = picture.subplots()
    for series, colour in zip(data["series"], (BLUE, ORANGE, GREEN), strict=False):
        sizes = [point["n_atoms"] for point in series["points"]]
        for part, (style, words) in enumerate(zip(("-", "--", "-."), part_names(), strict=True)):
            costs = [microseconds(point, part) for point in series["points"]]
            ax.plot(
                sizes, costs, style, color=colour, marker="o",
                label=f"{series['n_features']} features, {series['planted']} planted, {words}",
            )  # fmt: skip
    sizes = np.array([point["n_atoms"] for point in data["series"][0]["points"]], dtype=float)
    first = microseconds(data["series"][0]["points"][0], 0)
    ax.plot(sizes, first * sizes / sizes[0], ":", color=GREY, label="in proportion to the atoms")
    ax.set(xscale="log", yscale="log", xlabel="atoms", ylabel="microseconds a spike", title=TITLE)
    ax.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
    ax.minorticks_off()
    ax.set_yticks([0.2, 0.5, 1.0, 2.0, 5.0], ["0.2", "0.5", "1", "2", "5"])
    ax.legend(frameon=False, fontsize="small")
    return picture

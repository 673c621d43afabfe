"""What spikes do alone: how many take a code to a certified gap, in what time, and what FISTA does beside."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, figure
from snn import Exact
from solvers import LassoProblem, solve_spiking
from solvers.gram.gram import gram_of
from solvers.spiking.network import LassoNetwork
from solvers.spiking.stages import RefinedCodes
from tests.benchmarks import peers
from tests.benchmarks.contest import contest, median_seconds
from tests.benchmarks.lean_fista import largest_eigenvalue, lean_fista
from tests.benchmarks.problems import (
    again,
    correlated_dictionary,
    patch_problem,
    planted_problems,
    random_dictionary,
)
from tests.benchmarks.report import Target, at_least, at_most, number
from tests.benchmarks.timing import WrongAnswerError, milliseconds, relative_gaps, table

TITLE = "Spikes alone"
GAPS = (1e-3, 1e-4, 1e-6)
ENTRANTS = (*peers.ALONE, peers.PREPARED_SPIKES, peers.FISTA, peers.LEAN_FISTA, peers.DENSE_FISTA)
SIZES = ((64, 256, 6), (256, 1024, 25), (1024, 4096, 100))
QUICK_SIZES = ((32, 64, 4),)
# How each way of reading is asked for.
OPTIONS = {
    peers.SPIKES.name: {},
    peers.ONE_WINDOW.name: {"refine": False},
    peers.CURRENT.name: {"readout": "current"},
    peers.RATE.name: {"readout": "rate"},
}
# Products with the Gram matrix: of a look, at both codes; and of a stage, at the code and its offset.
PRODUCTS_OF_A_LOOK, PRODUCTS_OF_A_STAGE = 2, 2
COLOURS = (BLUE, GREEN, PURPLE, ORANGE, "deepskyblue", GREY, RED, "black")


def designs(*, quick: bool) -> dict[str, list[LassoProblem]]:
    """Return the problems of each design, one signal each."""
    found = {}
    for n_features, n_atoms, support in QUICK_SIZES if quick else SIZES:
        found[f"random, {n_features} x {n_atoms}"] = planted_problems(
            random_dictionary(n_features, n_atoms),
            support=support,
            n_signals=2 if quick else 3 if n_atoms > 1024 else 5,
        )
    patches = patch_problem(3, 32, 500) if quick else patch_problem(15)
    found["patches"] = [patches.subset([k]) for k in range(patches.n_signals)]
    n_features, n_atoms, support = QUICK_SIZES[0] if quick else SIZES[1]
    found[f"correlated (rho 0.9), {n_features} x {n_atoms}"] = planted_problems(
        correlated_dictionary(n_features, n_atoms), support=support, n_signals=2 if quick else 5
    )
    return found


def run(*, quick: bool) -> dict:
    found = {}
    for name, problems in designs(quick=quick).items():
        found[name] = []
        for gap in GAPS:
            found[name].append(
                {
                    "gap": gap,
                    "n_spikes": {way: n_spikes(problems, gap, options) for way, options in OPTIONS.items()},
                    "control": control(problems, gap),
                    # Patches are many; the others are few and slow.
                    "contest": contest(
                        problems, ENTRANTS, gap, quick=quick, required=(peers.SPIKES,),
                        seconds=0.5 / len(problems),
                    ),
                }
            )  # fmt: skip
    return {"designs": found}


def n_spikes(problems: Sequence[LassoProblem], gap: float, options: dict) -> list[float]:
    """Return the spikes that each problem takes to a certified gap, NaN where it is not reached."""
    found = []
    for problem in problems:
        with peers.quiet():
            result = solve_spiking(again(problem), tol=gap, **options)
        reached = float(relative_gaps(problem, result.codes).max()) <= gap
        found.append(float(result.n_steps[0]) if reached else np.nan)
    return found


# -- is it the spikes, or the products that go with them? --------------------------------------------


def control(problems: Sequence[LassoProblem], gap: float) -> dict[str, list[float]]:
    """Return the products with the Gram matrix that refined codes take, and what FISTA does with as many.

    fista : the gap of FISTA after as many products.
    fista_needs : the products that FISTA needs to reach the gap.
    """
    products = [n_products(problem, gap) for problem in problems]
    return {
        "products": products,
        "fista": [fista_gap(problem, count) for problem, count in zip(problems, products, strict=True)],
        "fista_needs": [fista_products(problem, gap) for problem in problems],
    }


def n_products(problem: LassoProblem, gap: float) -> int:
    """Return the products with the Gram matrix that it takes to look at refined codes, and to set offsets."""
    network = LassoNetwork(gram_of(problem), positive=problem.positive)
    refined = RefinedCodes(problem, network, how=Exact(), tol=gap, max_duration=10_000.0, refine=True)
    looks = 0
    while len(refined.active):
        refined.advance()
        looks += 1
    return PRODUCTS_OF_A_LOOK * looks + PRODUCTS_OF_A_STAGE * int(refined.n_stages[0])


def fista_gap(problem: LassoProblem, iterations: int) -> float:
    """Return the relative gap of FISTA after some iterations, a product each."""
    return float(relative_gaps(problem, _fista_code(problem, 0.0, iterations)[0])[0])


def fista_products(problem: LassoProblem, gap: float) -> int:
    """Return the iterations of FISTA to a gap, as it finds by a look at every fifth."""
    code, iterations = _fista_code(problem, gap, peers.MOST_ITERATIONS)
    if not relative_gaps(problem, code)[0] <= 1.001 * gap:
        raise WrongAnswerError(f"FISTA must reach a gap of {gap:g}")
    return iterations


def _fista_code(problem: LassoProblem, tol: float, iterations: int) -> tuple[np.ndarray, int]:
    code = np.empty(problem.n_atoms)
    done = lean_fista(
        problem.gram, problem.correlations[0], problem.l1_weights, problem.positive,
        largest_eigenvalue(problem.dictionary), problem.energies[0], tol, iterations, True, code,
    )  # fmt: skip
    return code[np.newaxis], done


# -- what is read --------------------------------------------------------------------------------


def seconds_of(entry: dict, peer: peers.Peer) -> float:
    """Return the median time of a peer to the gap of an entry."""
    return median_seconds(entry["contest"], peer.name)


def targets(data: dict) -> list[Target]:
    found = []
    for name, entries in data["designs"].items():
        at = {entry["gap"]: entry for entry in entries}
        if name in ("random, 64 x 256", "patches"):
            spikes = median(at[1e-3]["n_spikes"][peers.SPIKES.name])
            found.append(at_most(f"spikes alone, {name}, to 1e-3", 200.0, spikes, "<= 200 spikes", " spikes"))
        # Times of FISTA over that of spikes: half, one and three times.
        needed = {"random, 64 x 256": 0.5, "random, 256 x 1024": 1.0, "random, 1024 x 4096": 3.0}.get(name)
        ours = seconds_of(at[1e-4], peers.PREPARED_SPIKES)
        if needed is not None:
            ratio = seconds_of(at[1e-4], peers.LEAN_FISTA) / ours
            found.append(
                at_least(
                    f"spikes alone, prepared, {name}, to 1e-4", needed, ratio, f">= {needed:g}x FISTA, lean"
                )
            )
        if name in ("random, 256 x 1024", "random, 1024 x 4096"):
            ratio = seconds_of(at[1e-4], peers.DENSE_FISTA) / ours
            found.append(
                at_least(
                    f"spikes alone, prepared, {name}, to 1e-4", 10.0, ratio, ">= 10x FISTA, dense products"
                )
            )
        worst = max(number(gap) for gap in [at[1e-6]["contest"]["peers"][peers.SPIKES.name]["gap"]])
        seconds = seconds_of(at[1e-6], peers.SPIKES)
        found.append(
            Target(
                f"spikes alone, {name}, to 1e-6",
                "reached",
                f"{worst:.1e} in {milliseconds(seconds)}",
                bool(worst <= 1e-6),
            )
        )
    return found


def median(values: Sequence[float | None]) -> float:
    """Return the median, where those that are not there count as the largest; NaN if most are not."""
    middle = float(np.median([np.nan_to_num(number(value), nan=np.inf) for value in values]))
    return middle if np.isfinite(middle) else np.nan


def count(value: float) -> str:
    """Return a number of spikes; a dash where the gap was not reached."""
    return "-" if np.isnan(value) else f"{value:,.0f}"


def duration(value: float) -> str:
    """Return a time; a dash where the gap was not reached."""
    return "-" if np.isnan(value) else milliseconds(value)


def spikes_table(data: dict) -> str:
    """Return the spikes that each way of reading takes to each gap."""
    header = ["design", "gap", *OPTIONS]
    rows = [
        [name if k == 0 else "", f"{entry['gap']:g}", *(count(median(n)) for n in entry["n_spikes"].values())]
        for name, entries in data["designs"].items()
        for k, entry in enumerate(entries)
    ]
    return table(header, rows)


def times_table(data: dict) -> str:
    """Return the time of each whole solver to each gap."""
    header = ["design", "gap", *(peer.name for peer in ENTRANTS)]
    rows = [
        [
            name if k == 0 else "",
            f"{entry['gap']:g}",
            *(duration(seconds_of(entry, peer)) for peer in ENTRANTS),
        ]
        for name, entries in data["designs"].items()
        for k, entry in enumerate(entries)
    ]
    return table(header, rows)


def control_table(data: dict) -> str:
    """Return what FISTA does with as many products with the Gram matrix."""
    header = ["design", "gap", "products beside the spikes", "FISTA's gap after as many", "FISTA needs"]
    rows = []
    for name, entries in data["designs"].items():
        for k, entry in enumerate(entries):
            found = entry["control"]
            rows.append(
                [
                    name if k == 0 else "",
                    f"{entry['gap']:g}",
                    f"{median(found['products']):,.0f}",
                    f"{median(found['fista']):.1e}",
                    f"{median(found['fista_needs']):,.0f}",
                ]
            )
    return table(header, rows)


def markdown(data: dict) -> str:
    return "\n\n".join(
        [
            "The network and nothing else: no active-set method.  One signal at a time, codes not negative; "
            "medians over the signals; each code certified by the independent judge.  *Spikes alone* is "
            "`solve_spiking` as it comes: read through the smooth window, and refined in stages.  *One "
            "window* is the same without stages.  A dash: not reached by a simulated time of 10,000.",
            "**Spikes needed.**",
            spikes_table(data),
            "**Time of the whole solver**, correlations and certificates included; the Gram matrix is given "
            "to all.  *Prepared*: dictionary and Gram matrix were checked before (`PreparedLasso`).  Lean "
            "FISTA skips the zeros of the code, checks nothing and is given the largest eigenvalue; the "
            "other one multiplies by the Gram matrix as BLAS does; *FISTA* is `solve_fista`.",
            times_table(data),
            "**Is it the spikes, or the products that go with them?**  A look at codes takes two products "
            "with the Gram matrix, and a stage two more.  As many products, spent on iterations of FISTA, "
            "lead here:",
            control_table(data),
        ]
    )


def plot(data: dict) -> Figure | None:
    picture = figure(3.0 * len(data["designs"]) + 2.0, 4.2)
    axes = picture.subplots(1, len(data["designs"]), squeeze=False, sharey=True)[0]
    for ax, (name, entries) in zip(axes, data["designs"].items(), strict=True):
        for peer, colour in zip(ENTRANTS, COLOURS, strict=True):
            times = [1e3 * seconds_of(entry, peer) for entry in entries]
            ax.plot(
                [entry["gap"] for entry in entries], times, "-" if peer.name.startswith("spikes") else "--",
                color=colour, marker="o", linewidth=2.0 if peer is peers.SPIKES else 1.2, label=peer.name,
            )  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel="certified gap / (1/2 ||signal||²)", title=name)
        ax.invert_xaxis()
    axes[0].set_ylabel("milliseconds, whole solver")
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize="small")
    return picture

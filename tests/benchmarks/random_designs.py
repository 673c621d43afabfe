"""Random dictionaries to a certified gap of 1e-6: spikes alone, the active-set method, and all peers."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, figure
from solvers import LassoProblem
from tests.benchmarks import peers
from tests.benchmarks.contest import best_of, contest, contest_table, faster
from tests.benchmarks.lean_fista import largest_eigenvalue
from tests.benchmarks.problems import planted_problems, random_dictionary
from tests.benchmarks.report import Target, at_least
from tests.benchmarks.timing import milliseconds, timed

ENTRANTS = (
    peers.SPIKES,
    peers.PREPARED_SPIKES,
    *peers.ACTIVE_SETS,
    peers.PREPARED_ACTIVE_SET,
    peers.LEAN_FISTA,
    *peers.CLASSICAL,
)
TITLE = "Random dictionaries, a tenth as many atoms active as features"
SIZES = ((64, 256, 6), (256, 1024, 25), (1024, 4096, 100))
QUICK_SIZES = ((32, 64, 4),)
GAP = 1e-6


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
                "precise": contest(
                    problems, ENTRANTS, GAP, quick=quick, seconds=0.2,
                    required=(peers.SPIKES, *peers.ACTIVE_SETS, peers.PREPARED_ACTIVE_SET),
                ),
            }
        )  # fmt: skip
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


# -- what is read --------------------------------------------------------------------------------


def targets(data: dict) -> list[Target]:
    found = []
    rivals = [peer.name for peer in peers.CLASSICAL]
    spams = [peer.name for peer in peers.SPAMS]
    for size in data["sizes"]:
        work = f"random {size['n_features']} x {size['n_atoms']}, active set, prepared, gap {GAP:g}"
        needed = {64: 0.7, 256: 1.0}.get(size["n_features"])
        if needed is not None:
            value = faster(size["precise"], peers.PREPARED_ACTIVE_SET.name, spams)
            found.append(at_least(work, needed, value, f">= {needed:g}x SPAMS"))
        else:
            value = faster(size["precise"], peers.PREPARED_ACTIVE_SET.name, rivals)
            best = best_of(size["precise"], rivals)
            found.append(at_least(work, 1.0, value, f">= 1x the best ({best})"))
    return found


def markdown(data: dict) -> str:
    parts = [
        f"To a certified gap of {GAP:g}.  One signal at a time, codes not negative, penalty a tenth of its "
        "maximum; times are medians over the signals, of whole solvers with their certificates.  *Spikes "
        "alone* is the network and what is read out of it.  *Active set* is a classical method, started from "
        "nothing, from ten FISTA steps, or from the first spikes of the network.  "
        "*Prepared*: dictionary and Gram matrix were checked before (`PreparedLasso`)."
    ]
    for size in data["sizes"]:
        parts += [
            f"### {size['n_features']} features, {size['n_atoms']} atoms",
            contest_table(size["precise"], peers.SPIKES.name),
            "Before any solver starts: "
            + ", ".join(f"{name} {milliseconds(value)}" for name, value in size["preparation"].items())
            + ".",
        ]
    return "\n\n".join(parts)


def plot(data: dict) -> Figure | None:
    picture = figure(5.6 * len(data["sizes"]), 4.2)
    axes = picture.subplots(1, len(data["sizes"]), squeeze=False)[0]
    for ax, size in zip(axes, data["sizes"], strict=True):
        seconds = {name: entry["seconds"] for name, entry in size["precise"]["peers"].items()}
        horizontal_bars(ax, seconds, f"{size['n_features']} x {size['n_atoms']}: certified to {GAP:g}")
    return picture


def colour_of(name: str) -> str:
    """Return the colour of a method: by who does the work."""
    families = {"spikes alone": BLUE, "active set": PURPLE, "FISTA": ORANGE, "SPAMS": GREEN}
    return next((colour for family, colour in families.items() if name.startswith(family)), GREY)


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
    colours = [colour_of(name) for name in names]
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

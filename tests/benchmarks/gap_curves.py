"""Duality gap against the seconds of every method, from coarse to 1e-12."""

import time

import numpy as np
from matplotlib.figure import Figure

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, figure, progress_line
from solvers import LassoProblem
from tests.benchmarks import peers
from tests.benchmarks.peers import Peer, missing, present, quiet
from tests.benchmarks.problems import planted_problems, random_dictionary
from tests.benchmarks.report import Target
from tests.benchmarks.timing import WrongAnswerError, milliseconds, relative_gaps, table

TITLE = "Gap against time"
SIZES = ((256, 1024, 25), (1024, 4096, 100))
QUICK_SIZES = ((32, 64, 4),)
ENTRANTS = (
    *peers.ALONE,
    peers.ACTIVE_SET,
    peers.LEAN_FISTA,
    peers.FISTA,
    peers.SKLEARN[0],
    peers.CELER,
    peers.SKGLM[1],
    peers.SPAMS[1],
)
TOLS = 10.0 ** -np.arange(0.5, 15.0, 0.5)
MARKS = (1e-2, 1e-4, 1e-6, 1e-9, 1e-12)
# Seconds after which a method is not followed any further.
LONGEST, QUICK_LONGEST = 0.3, 0.05
# A gap below this is rounding.
LEAST = 1e-14
DECENT = 1e-12
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY, "black", "olive", "cyan", "brown", "magenta", "gold")


def run(*, quick: bool) -> dict:
    sizes = []
    for n_features, n_atoms, support in QUICK_SIZES if quick else SIZES:
        (problem,) = planted_problems(random_dictionary(n_features, n_atoms), support=support, n_signals=1)
        curves = {peer.name: curve(peer, problem, quick=quick) for peer in present(ENTRANTS)}
        lowest = min(curves[peers.ACTIVE_SET.name]["gap"])
        if not lowest <= DECENT:
            raise WrongAnswerError(f"the active-set method must reach a gap of {DECENT:g}; got {lowest:.3g}")
        sizes.append({"n_features": n_features, "n_atoms": n_atoms, "curves": curves})
    return {"sizes": sizes, "missing": missing(ENTRANTS)}


def curve(peer: Peer, problem: LassoProblem, *, quick: bool) -> dict[str, list[float]]:
    """Return times and the gaps reached in them, as the tolerance falls; only what improves on the last."""
    solve = peer.ask(problem)
    longest = QUICK_LONGEST if quick else LONGEST
    seconds, gaps = [], []
    with quiet():
        solve(TOLS[0])
        for tol in TOLS[::4] if quick else TOLS:
            if gaps and gaps[-1] <= (LEAST if peer.own_scale else tol):
                # Reached already, by a method that ends where it ends.
                continue
            taken = []
            for _ in range(3 if quick else 5):
                begin = time.perf_counter()
                codes = solve(tol)
                taken.append(time.perf_counter() - begin)
                if sum(taken) > longest:
                    break
            gap = float(relative_gaps(problem, codes).max())
            if not gaps or gap < 0.9 * gaps[-1]:
                seconds.append(float(np.median(taken)))
                gaps.append(gap)
            if taken[-1] > longest:
                break
    return {"seconds": seconds, "gap": gaps}


def time_to(points: dict, gap: float) -> float:
    """Return the least time in which a gap was reached; NaN if it was not."""
    reached = [s for s, g in zip(points["seconds"], points["gap"], strict=True) if g <= gap]
    return min(reached, default=np.nan)


def targets(data: dict) -> list[Target]:
    return []


def markdown(data: dict) -> str:
    parts = [
        "Each point is a run of its own, from nothing, with a tolerance of its own; the table reads off "
        "them. Lines join the runs that none with less time came nearer than; the others are pale."
    ]
    for size in data["sizes"]:
        rows = []
        for name, points in size["curves"].items():
            times = [time_to(points, mark) for mark in MARKS]
            rows.append(
                [name, *("-" if np.isnan(t) else milliseconds(t) for t in times), f"{min(points['gap']):.1e}"]
            )
        parts += [
            f"### {size['n_features']} features, {size['n_atoms']} atoms",
            table(["method", *(f"gap {mark:g}" for mark in MARKS), "least gap met"], rows),
        ]
    if data["missing"]:
        parts.append(f"Not installed, and so not here: {', '.join(data['missing'])}.")
    return "\n\n".join(parts)


def plot(data: dict) -> Figure | None:
    picture = figure(6.5 * len(data["sizes"]) + 1.5, 5.0)
    axes = picture.subplots(1, len(data["sizes"]), squeeze=False)[0]
    for ax, size in zip(axes, data["sizes"], strict=True):
        for k, (name, points) in enumerate(size["curves"].items()):
            progress_line(
                ax,
                1e3 * np.array(points["seconds"]),
                np.maximum(points["gap"], 1e-17),
                color=COLOURS[k],
                marker="*" if name == peers.ACTIVE_SET.name else "o" if len(points["gap"]) > 1 else "s",
                markersize=10 if name == peers.ACTIVE_SET.name else 4,
                linewidth=2.0 if "spikes" in name else 1.2,
                linestyle="-" if "spikes" in name else "--",
                label=name,
            )
        ax.axhline(1e-6, color=GREY, linestyle=":", linewidth=1.0, label="1e-6")
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="milliseconds",
            ylabel="duality gap / (1/2 ||signal||²)",
            title=f"{size['n_features']} features, {size['n_atoms']} atoms",
        )
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize="small")
    return picture

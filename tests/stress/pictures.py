"""Draw what the programs on problems, kills and threads have found.

python -m tests.stress.pictures --output docs/figures
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure

from examples._common import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, figure


def problems(results: dict[str, Any]) -> Figure:
    """Exact gaps beside tolerances, of all codes: those that converged, and those that did not."""
    picture = figure(9.0, 4.2)
    axes = picture.subplots(1, 2, sharex=True, sharey=True)
    for axis, status, colour in zip(axes, ("converged", "not converged"), (BLUE, ORANGE), strict=True):
        _densities(axis, results["picture"], status, colour)
        axis.set_title(f'reported as "{status}"')
        axis.set_xlabel("tol")
        axis.set_xlim(1e-14, 1.0)
        axis.set_ylim(1e-20, 1e3)
    axes[0].set_ylabel("exact gap / exact energy of the signal")
    axes[0].annotate("tol", (1e-12, 3e-12), rotation=33, ha="center", color=GREY)
    return picture


def _densities(axis: Axes, found: dict[str, Any], status: str, colour: str) -> None:
    (first_tol, step_tol), (first_gap, step_gap) = found["decades of tol"], found["decades of gap"]
    cells = np.array(found[status]).reshape(-1, 3)
    counts = np.full((cells[:, 1].max() + 1, cells[:, 0].max() + 1), np.nan)
    counts[cells[:, 1], cells[:, 0]] = cells[:, 2]
    rows, columns = counts.shape
    shades = np.linspace(0.15, 1.0, 64)[:, np.newaxis]
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    colours = 1.0 - shades * (1.0 - np.array([[red, green, blue]]))
    mesh = axis.pcolormesh(
        10.0 ** (first_tol + step_tol * np.arange(columns + 1)),
        10.0 ** (first_gap + step_gap * np.arange(rows + 1)),
        counts,
        norm=LogNorm(1, max(np.nanmax(counts), 2)),
        cmap=ListedColormap(colours),
    )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.plot([1e-16, 10.0], [1e-16, 10.0], color=GREY, linewidth=1.0)
    axis.figure.colorbar(mesh, ax=axis, label="codes")


def kills(results: dict[str, Any]) -> Figure:
    """How far each job was when its process had been killed."""
    jobs = results["jobs"]
    picture = figure(9.0, 1.2 * len(jobs))
    axes = picture.subplots(len(jobs), 1, sharex=True)
    for axis, (name, tally), colour in zip(
        axes, jobs.items(), (BLUE, GREEN, SKY, ORANGE, PURPLE), strict=True
    ):
        reached = np.array(tally["reached"], dtype=float)
        rounds = np.arange(1, len(reached) + 1)
        axis.vlines(rounds, 0.0, reached / reached.max(), color=colour, linewidth=0.8)
        axis.set_ylim(0.0, 1.05)
        axis.set_yticks([0, 1])
        axis.set_title(f"{name}: {tally['kills']:,} kills", fontsize=9, loc="left", pad=2)
    axes[-1].set_xlabel("child process")
    picture.supylabel("saved, as a share of the job", fontsize=9)
    return picture


def threads(results: dict[str, Any]) -> Figure:
    """How long after a signal the solver or learner has ended."""
    picture = figure(5.0, 3.0)
    axis = picture.subplots()
    seconds = np.maximum(results["interrupted"]["seconds to stop"], 1e-4)
    axis.hist(seconds, bins=np.geomspace(1e-4, max(seconds.max(), 1.0), 40), color=BLUE)
    axis.set_xscale("log")
    axis.set_xlabel("seconds from the signal to the end of the call")
    axis.set_ylabel("interrupts")
    return picture


PICTURES = {"problems": problems, "kills": kills, "threads": threads}
"""What draws the figure ``reliability_NAME.png`` of the page."""

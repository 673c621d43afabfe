"""A spiking network that finds a sparse code, animated: a minute, most of it for the atoms.

A piece of a photograph, 12 x 12 pixels, drives a network of 144 neurons, one for each of the atoms that
another network has learned from photographs.  Neurons fire, and inhibit neurons with similar atoms.  Spikes
give a code, and the code gives a picture.  At every moment, a certificate bounds the distance of the code
from the optimum.  Every spike shown is a spike of the solver's run.

    python -m examples.animate_network [--output DIR] [--piece NAME] [--penalty SHARE] [--tol TOL]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from examples._animation import save_animation
from examples._common import BLUE as POSITIVE
from examples._common import RED as NEGATIVE
from examples._common import at_least, parser
from examples._history import CodeHistory, code_history
from examples._small_patches import N_SAMPLES, PIECES, SIDE, learned_atoms, network_problem, piece
from snn.pictures import TIME_LABEL

GREY = "0.5"
FIGURE_SIZE = (6.4, 4.3)
TEXT, SMALL = 9.5, 8
# TICK is half the height of a spike of the first stage, in rows.  Later stages have smaller scales: their
# spikes are lower by the factor (scale / first scale) ** TICK_POWER, which is at least LEAST_TICK.
TICK, TICK_POWER, LEAST_TICK = 0.4, 0.15, 0.3


class HistoryPicture:
    """The panels of the `CodeHistory` of an image; spikes have at most `n_atoms` rows."""

    def __init__(
        self,
        history: CodeHistory,
        *,
        image_shape: tuple[int, int],
        n_atoms: int = 12,
        title: str = "A spiking network codes an image",
    ) -> None:
        self._history = history
        self._shape = image_shape
        self._reconstructions = history.problem.reconstruct(history.codes)
        self._n_spikes = history.n_spikes
        spikes = history.spikes
        self._atom_of_spike = spikes.neurons % history.problem.n_atoms
        self._order_atoms(n_atoms)
        self.figure = Figure(figsize=FIGURE_SIZE)
        self.figure.suptitle(title, fontsize=13)
        self._make_panels(top=0.855)

    def _order_atoms(self, n_atoms: int) -> None:
        """Choose the atoms to show: first by the largest optimal entries, then by the most spikes."""
        counts = np.bincount(self._atom_of_spike, minlength=self._history.problem.n_atoms)
        size = np.abs(self._history.optimum)
        self._n_fired = int(np.count_nonzero((counts > 0) | (size > 0.0)))
        self.atoms = np.lexsort((-counts, -size))[: max(min(n_atoms, self._n_fired), 1)]
        self._row_of_atom = np.full(len(counts), -1)
        self._row_of_atom[self.atoms] = np.arange(len(self.atoms))

    def _make_panels(self, top: float) -> None:
        # Panels have fixed places: a layout that depends on texts would move from frame to frame.
        signals = self.figure.add_gridspec(1, 2, left=0.015, right=0.4, bottom=0.56, top=top, wspace=0.06)
        gaps = self.figure.add_gridspec(1, 1, left=0.115, right=0.4, bottom=0.115, top=0.43)
        atoms = self.figure.add_gridspec(
            1, 3, left=0.43, right=0.98, bottom=0.115, top=top, width_ratios=(0.13, 1.0, 0.55), wspace=0.04
        )
        self._make_signal(signals)
        self._make_gap(self.figure.add_subplot(gaps[0]))
        raster = self.figure.add_subplot(atoms[1])
        self._make_atoms(self.figure.add_subplot(atoms[0]), raster)
        self._make_raster(raster)
        self._make_code(self.figure.add_subplot(atoms[2], sharey=raster))

    def _make_signal(self, grid: GridSpec) -> None:
        signal = self._history.problem.dense_signals()[0]
        limits = {"vmin": signal.min(), "vmax": signal.max(), "cmap": "gray"}
        original, coded = (self.figure.add_subplot(grid[k]) for k in (0, 1))
        original.imshow(signal.reshape(self._shape), **limits)
        self._coded = coded.imshow(np.zeros(self._shape), **limits)
        for ax, title in ((original, "signal"), (coded, "coded by spikes")):
            ax.set_title(title, fontsize=TEXT)
            ax.set(xticks=[], yticks=[])

    def _make_gap(self, ax: Axes) -> None:
        history = self._history
        gaps = history.relative_gap
        lowest = gaps[gaps > 0.0].min(initial=1.0)
        ax.set(yscale="log", xlim=(0.0, history.times[-1] or 1.0), ylim=(lowest / 3.0, max(3.0, gaps[0])))
        ax.set_xlabel("time", fontsize=TEXT)
        ax.set_ylabel("share of 1/2 ||signal||²", fontsize=SMALL)
        ax.set_title("certified gap to the optimum", fontsize=TEXT)
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.tick_params(labelsize=SMALL)
        ax.grid(alpha=0.25)
        (self._gap,) = ax.plot([], [], color=POSITIVE, linewidth=1.8)
        (self._gap_now,) = ax.plot([], [], "o", color=POSITIVE, markersize=5, clip_on=False)
        self._gap_text = ax.text(0.96, 0.93, "", transform=ax.transAxes, ha="right", va="top", fontsize=11)

    def _make_atoms(self, ax: Axes, raster: Axes) -> None:
        ax.set_axis_off()
        raster.set_yticks([])
        one_atom_each = np.zeros((len(self.atoms), self._history.problem.n_atoms))
        one_atom_each[np.arange(len(self.atoms)), self.atoms] = 1.0
        for row, atom in enumerate(self._history.problem.reconstruct(one_atom_each)):
            largest = np.abs(atom).max() or 1.0
            half = 0.45
            ax.imshow(
                atom.reshape(self._shape), cmap="gray", vmin=-largest, vmax=largest, aspect="auto",
                extent=(-half, half, row + half, row - half),
            )  # fmt: skip
        ax.set(xlim=(-0.5, 0.5), ylim=(len(self.atoms) - 0.5, -0.5))

    def _make_raster(self, ax: Axes) -> None:
        history = self._history
        spikes = history.spikes
        rows = self._row_of_atom[self._atom_of_spike]
        shown = np.flatnonzero(rows >= 0)
        self._shown_spikes = shown
        scales = np.array([stage.scale for stage in history.stages])
        heights = TICK * np.maximum((scales / scales[:1]) ** TICK_POWER, LEAST_TICK)
        half = np.repeat(heights, [len(stage.spikes) for stage in history.stages])[shown]
        times, rows = spikes.times[shown], rows[shown]
        ends = [np.column_stack([times, rows + sign * half]) for sign in (-1.0, 1.0)]
        self._ticks = np.stack(ends, axis=1)
        self._tick_colours = np.where(spikes.neurons[shown] < history.problem.n_atoms, POSITIVE, NEGATIVE)
        self._raster = LineCollection([], linewidths=1.0)
        ax.add_collection(self._raster)
        self._stage_lines = [
            ax.axvline(stage.start, color=GREY, linewidth=0.8, linestyle=":") for stage in history.stages[1:]
        ]
        self._now = ax.axvline(0.0, color=GREY, linewidth=0.8)
        ax.set(xlim=(0.0, history.times[-1] or 1.0), ylim=(len(self.atoms) - 0.5, -0.5))
        ax.set_xlabel(TIME_LABEL, fontsize=TEXT)
        ax.tick_params(labelsize=SMALL)
        ax.xaxis.set_major_locator(MaxNLocator(5, prune="upper"))
        self._raster_title = ax.set_title("", fontsize=TEXT)

    def _make_code(self, ax: Axes) -> None:
        optimum = self._history.optimum[self.atoms]
        rows = np.arange(len(self.atoms))
        self._bars = ax.barh(rows, np.zeros(len(rows)), height=0.62, color=POSITIVE)
        ax.plot(optimum, rows, "|", color="black", markersize=9, markeredgewidth=1.6)
        largest = max(np.abs(optimum).max(), np.abs(self._history.codes[:, self.atoms]).max()) or 1.0
        ax.set_xlim(-1.15 * largest if (optimum < 0.0).any() else 0.0, 1.15 * largest)
        ax.tick_params(labelsize=SMALL, labelleft=False, left=False)
        ax.xaxis.set_major_locator(MaxNLocator(3, prune="lower"))
        ax.set_xlabel("entry", fontsize=TEXT)
        ax.set_title("code", fontsize=TEXT)
        mark = Line2D([], [], color="black", marker="|", linestyle="", markeredgewidth=1.6, label="optimum")
        ax.legend(handles=[mark], loc="lower right", frameon=False, fontsize=SMALL, handletextpad=0.0)

    def draw(self, k: int) -> None:
        """Draw the state of the network at the k-th time."""
        history = self._history
        time, gaps = history.times[k], history.relative_gap
        self._coded.set_data(self._reconstructions[k].reshape(self._shape))
        n_spikes = self._n_spikes[k]
        n_shown = np.searchsorted(self._shown_spikes, n_spikes)
        self._raster.set(segments=self._ticks[:n_shown], color=self._tick_colours[:n_shown])
        self._now.set_xdata([time, time])
        n_begun = sum(stage.start < time for stage in history.stages)
        self._raster_title.set_text(f"{n_spikes} spikes, stage {max(n_begun, 1)}")
        for number, line in enumerate(self._stage_lines, start=2):
            line.set_visible(number <= n_begun)
        for bar, value in zip(self._bars, history.codes[k, self.atoms], strict=True):
            bar.set(width=value, color=POSITIVE if value >= 0.0 else NEGATIVE)
        self._gap.set_data(history.times[: k + 1], gaps[: k + 1])
        self._gap_now.set_data([time], [gaps[k]])
        self._gap_text.set_text(f"{gaps[k]:.0e}")


def main(arguments: Sequence[str] | None = None) -> int:
    command = parser(__doc__.splitlines()[0])
    command.add_argument("--piece", choices=list(PIECES), default="smile", help="of a photograph")
    command.add_argument(
        "--penalty", type=at_least(1e-3, 0.999, float), default=0.1, help="in units of the largest"
    )
    command.add_argument("--tol", type=float, default=1e-4, help="certified gap at which the run ends")
    command.add_argument("--frames", type=at_least(2), default=96, help="pictures, 12 a second")
    command.add_argument("--samples", type=at_least(1000), default=N_SAMPLES, help="to learn atoms from")
    options = command.parse_args(arguments)
    problem = network_problem(learned_atoms(options.samples), piece(options.piece).ravel(), options.penalty)
    history = code_history(problem, tol=options.tol, n_times=options.frames)
    print("A spiking network that finds a sparse code")
    print(
        f"{len(history.spikes)} spikes in {history.times[-1]:.0f} time constants and {len(history.stages)} "
        f"stages; {np.count_nonzero(history.codes[-1])} atoms; certified gap {history.relative_gap[-1]:.1e}"
    )
    title = "A spiking network codes a piece of a photograph"
    picture = HistoryPicture(history, image_shape=(SIDE, SIDE), title=title)
    save_animation(picture.figure, picture.draw, options.frames, options.output, "network.webp")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Pictures of atoms, of images and of learning; see `snn.pictures`."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from dictlearn.evaluation import FOUND, AtomMatch
from dictlearn.images.denoise import DenoisingResult
from dictlearn.images.frame import CodedImage, PreparedImage, as_size
from dictlearn.images.kernels import KernelLearner
from dictlearn.sizes import SizeComparison
from dictlearn.two_phase.history import RECORD_EVERY
from dictlearn.two_phase.learner import TwoPhaseLearner
from dictlearn.two_phase.phases import Phase
from snn.base import checks
from snn.base.describe import counted, plot, size
from snn.pictures import axes_of, stems

__all__ = ["plot_atoms"]


def plot_atoms(
    dictionary: ArrayLike,
    patch_size: int | tuple[int, int] | None = None,
    *,
    ax: Axes | None = None,
    columns: int | None = None,
) -> Axes:
    """Draw atoms as curves or, for kernels or with a `patch_size`, as a mosaic of patches.

    Each patch or curve is scaled by its own largest magnitude.  In patches, white is positive, black is
    negative and grey is zero, for colour in each channel.  The grey line behind a curve marks zero.

    Parameters
    ----------
    dictionary : array_like, shape (n_atoms, n_features) or (n_kernels, height, width[, n_channels])
        Atoms, one per row, or kernels of one or three channels.  In the row of a colour atom, the channels of
        each pixel stand next to each other.
    patch_size : int or (int, int), optional
        Side of a square patch, or (height, width), in pixels; None for kernels.
    ax : Axes, optional
        The axes to draw in; by default axes of a new figure.
    columns : int, optional
        Number of patches or curves side by side; by default the mosaic is about square.
    """
    meaning = "(n_atoms, n_features) or (n_kernels, height, width[, n_channels])"
    shape = (None,) * min(max(np.ndim(dictionary), 2), 4)
    atoms = checks.real_array("dictionary", dictionary, shape=shape, meaning=meaning)
    if atoms.ndim == 2:
        if patch_size is None:
            return _curves(atoms[:, :, np.newaxis], columns, ax)
        height, width = as_size("patch_size", patch_size)
        n_pixels = height * width
        if atoms.shape[1] not in (n_pixels, 3 * n_pixels):
            raise ValueError(
                f"patch_size must fit atoms of {atoms.shape[1]} numbers; got {patch_size} for {n_pixels} "
                f"numbers, or {3 * n_pixels} in colour"
            )
        atoms = atoms.reshape(len(atoms), height, width, -1)
    elif patch_size is not None:
        raise ValueError(f"patch_size must be None for kernels, which have their own; got {patch_size}")
    atoms = atoms.reshape(*atoms.shape[:3], -1)
    n_atoms, height, width, n_channels = atoms.shape
    if n_channels not in (1, 3):
        raise ValueError(f"dictionary must have kernels of 1 or 3 channels; got {n_channels}")
    columns = _columns(columns, n_atoms, height / width)
    rows = math.ceil(n_atoms / columns)
    # Atoms are one empty pixel apart, and there is no border.
    tiles = np.full((rows * columns, height + 1, width + 1, n_channels), np.nan)
    tiles[:n_atoms, :-1, :-1] = _scaled(atoms)
    mosaic = tiles.reshape(rows, columns, height + 1, width + 1, n_channels).swapaxes(1, 2)
    mosaic = mosaic.reshape(rows * (height + 1), columns * (width + 1), n_channels)[:-1, :-1]
    shown = np.nan_to_num(0.5 + 0.5 * mosaic, nan=1.0) if n_channels == 3 else mosaic
    ax = axes_of(ax)
    ax.imshow(shown, cmap="gray", vmin=-1.0, vmax=1.0, interpolation="nearest")
    ax.set_title(counted(n_atoms, "atom"))
    ax.set_axis_off()
    return ax


def _curves(atoms: np.ndarray, columns: int | None, ax: Axes | None) -> Axes:
    """Draw atoms, shape (n_atoms, length, n_channels), as curves; each channel has a colour."""
    n_atoms, length, n_channels = atoms.shape
    row, column = np.divmod(np.arange(n_atoms), _columns(columns, n_atoms, 1.0))
    # A cell has width and height 1, and an atom takes 0.9 of both.
    x = column[:, np.newaxis] + np.linspace(0.05, 0.95, length)
    y = 0.45 * _scaled(atoms) - row[:, np.newaxis, np.newaxis]
    nothing = np.full((n_atoms, 1), np.nan)
    ax = axes_of(ax)
    ax.hlines(-row, column + 0.05, column + 0.95, color="#BBBBBB", linewidth=0.5)
    for channel in range(n_channels):
        # Draw one line, with gaps (NaN) between atoms.
        curves = (np.hstack([values, nothing]).ravel() for values in (x, y[:, :, channel]))
        ax.plot(*curves, linewidth=1.0, color=f"C{channel}")
    ax.set_title(counted(n_atoms, "atom"))
    ax.set_axis_off()
    return ax


def _columns(columns: int | None, n_atoms: int, ratio: float) -> int:
    """Return the number of atoms in a row of the picture; by default the picture is about square."""
    if columns is None:
        columns = math.ceil(math.sqrt(n_atoms * ratio))
    return min(checks.positive_integer("columns", columns), n_atoms)


def _scaled(atoms: np.ndarray) -> np.ndarray:
    """Return the atoms, each divided by its largest magnitude."""
    largest = np.abs(atoms).max(axis=tuple(range(1, atoms.ndim)), keepdims=True)
    return atoms / np.where(largest > 0.0, largest, 1.0)


@plot.register
def denoised_image(result: DenoisingResult, *, ax: Axes | None = None) -> Axes:
    """Draw the denoised image."""
    title = (
        f"denoised, {result.nonzeros_per_patch:.3g} atoms a patch\n"
        f"certified gaps up to {result.relative_gap:.1e} of ½‖patch‖²"
    )
    return _image_or_curve(result.image, title, result.image.ndim == 1, ax)


@plot.register
def prepared_image(prepared: PreparedImage, *, ax: Axes | None = None) -> Axes:
    """Draw the signal as an image in which zero is grey, or as a curve."""
    is_signal = prepared.frame.is_signal
    detail = prepared.detail[0] if is_signal else prepared.detail
    title = f"{size(detail.shape)}, without background"
    return _image_or_curve(detail, title, is_signal, ax, signed=True)


@plot.register
def coded_image(coded: CodedImage, *, ax: Axes | None = None) -> Axes:
    """Draw the image reconstructed from the code and the background."""
    title = (
        f"{counted(int(coded.result.support_size[0]), 'coefficient')}\n"
        f"certified gap {coded.result.relative_gap[0]:.1e} of ½‖signal‖²"
    )
    return _image_or_curve(coded.image, title, coded.prepared.frame.is_signal, ax)


def _image_or_curve(
    values: np.ndarray, title: str, is_signal: bool, ax: Axes | None, *, signed: bool = False
) -> Axes:
    """Draw an image, with zero as grey if `signed`, or a signal with a line for each channel."""
    ax = axes_of(ax)
    ax.set_title(title)
    if is_signal:
        ax.plot(values, linewidth=0.8)
        ax.set(xlabel="place", ylabel="value")
        return ax
    largest = float(np.abs(values).max()) or 1.0
    if values.shape[2:] == (3,):
        shown = 0.5 + 0.5 * values / largest if signed else values / (largest if largest > 2.0 else 1.0)
        ax.imshow(np.clip(shown, 0.0, 1.0), interpolation="nearest")
    else:
        low, high = (-largest, largest) if signed else (None, None)
        ax.imshow(values, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
    ax.set_axis_off()
    return ax


@plot.register
def kernels(learner: KernelLearner, *, columns: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the present kernels, with `columns` kernels in each row; kernels of signals are curves."""
    atoms = learner.kernels
    if atoms.shape[1] == 1 < atoms.shape[2]:
        ax = _curves(atoms.reshape(*atoms.shape[::2], -1), columns, ax)
    else:
        ax = plot_atoms(atoms, ax=ax, columns=columns)
    ax.set_title(f"{counted(len(atoms), 'kernel')} after {counted(learner.n_samples, 'image')}")
    return ax


@plot.register
def learning(
    learner: TwoPhaseLearner, *, quantity: str = "objective", ax: Axes | None = None, **line_kwargs: Any
) -> Axes:
    """Draw a quantity of the history of learning against the number of samples."""
    history = learner.history
    quantity = checks.one_of("quantity", quantity, tuple(history)[1:])
    if not len(history["n_samples"]):
        raise ValueError(
            f"the history has an entry for every {RECORD_EVERY:,} samples; got {learner.n_samples:,} samples "
            "in all: learn from more (raise max_iter)"
        )
    n_samples, name = history["n_samples"], quantity.replace("_", " ")
    ax = axes_of(ax)
    style = {"marker": "o" if len(n_samples) < 30 else None, "markersize": 3.0, **line_kwargs}
    (line,) = ax.plot(n_samples, history[quantity], **style)
    if len(n_samples) >= 30:  # means over batches fluctuate, so draw a moving mean too
        line.set_alpha(0.3)
        window = np.full(len(n_samples) // 15, 1.0 / (len(n_samples) // 15))
        means = (np.convolve(values, window, mode="valid") for values in (n_samples, history[quantity]))
        ax.plot(*means, color=line.get_color())
    ax.set(xlabel="samples", ylabel=name, title=f"{name} while learning")
    ax.locator_params(axis="x", nbins=6)
    ax.grid(alpha=0.3)
    if "label" in line_kwargs:
        ax.legend(fontsize="small")
    return ax


@plot.register
def cosines(match: AtomMatch, *, ax: Axes | None = None) -> Axes:
    """Draw the cosines of given atoms with the atoms of a dictionary, in descending order."""
    best, assigned = match.best_cosine, match.assigned_cosine
    ax = axes_of(ax)
    places = np.arange(1, len(best) + 1)
    ax.plot(places, np.sort(best)[::-1], "o-", markersize=3.0, label="best atom")
    ax.plot(places, np.sort(assigned)[::-1], "s--", markersize=3.0, label="assigned atom, each once")
    ax.set(
        xlabel="given atoms, best found first",
        ylabel="cosine with an atom of the dictionary",
        ylim=(min(0.0, float(best.min()), float(assigned.min())), 1.03),
        title=f"{int((best >= FOUND).sum()):,} of {counted(len(best), 'atom')} found to {FOUND} or more",
    )
    ax.locator_params(axis="x", integer=True)
    ax.legend(fontsize="small")
    return ax


@plot.register
def coding_rates(phase: Phase, *, signal: int = 0, ax: Axes | None = None) -> Axes:
    """Draw the rates of the coding neurons in one phase, for one signal."""
    signal = checks.integer("signal", signal, 0, len(phase.coding_rate) - 1)
    ax = axes_of(ax)
    rates = phase.coding_rate[signal]
    fired = np.flatnonzero(rates)
    stems(ax, fired, rates[fired], len(rates))
    ax.set(
        xlabel="coding neuron",
        ylabel="spike rate (per time constant)",
        title=f"signal {signal}: {len(fired):,} of {counted(len(rates), 'coding neuron')}, "
        f"T = {phase.duration:g}",
    )
    return ax


@plot.register
def sizes(comparison: SizeComparison, *, ax: Axes | None = None) -> Axes:
    """Draw the objective against the number of atoms, with the range over seeds, and shares of the atoms."""
    n_atoms, objective = comparison.sizes, comparison.objective
    ax = axes_of(ax)
    shares = ax.twinx()
    for name, style in (("agreement", "C2s--"), ("similar", "C1^:"), ("unused", "C3v:")):
        share = getattr(comparison, name)
        if share.size:  # with one seed there is no agreement to draw
            shares.plot(n_atoms, 100.0 * share.mean(axis=1), style, label=name, markersize=3.0, linewidth=1.0)
    ax.plot(n_atoms, objective.mean(axis=1), "C0o-", markersize=4.0, label="objective")
    range_over_seeds = objective.min(axis=1), objective.max(axis=1)
    ax.fill_between(n_atoms, *range_over_seeds, alpha=0.3, color="C0", linewidth=0.0)
    ax.set(xlabel="number of atoms", ylabel="held-out objective")
    ax.set_title(f"{counted(objective.shape[1], 'seed')} for each number of atoms", pad=24.0)
    ax.set_xscale("log", base=2)
    ax.set_xticks(n_atoms, [f"{n:,}" for n in n_atoms])
    ax.minorticks_off()
    shares.set(ylabel="share of the atoms (%)", ylim=(-3.0, 103.0))
    lines = [*ax.get_lines(), *shares.get_lines()]
    labels = [str(line.get_label()) for line in lines]
    ax.legend(
        lines, labels, fontsize="small", ncols=len(lines), loc="lower center", bbox_to_anchor=(0.5, 1.0),
        frameon=False,
    )  # fmt: skip
    return ax

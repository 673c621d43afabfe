"""Pictures of atoms and of audits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dictlearn.audit import LAYERS, GradientAudit
from dictlearn.patches import as_patch_size
from snn import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#E69F00", "#0072B2")  # Okabe and Ito's orange and blue, for `rules.READOUTS`


def plot_atoms(
    dictionary: np.ndarray,
    patch_size: int | tuple[int, int],
    *,
    ax: Axes | None = None,
    columns: int | None = None,
) -> Axes:
    """Draw atoms as a mosaic of patches.

    Each is scaled by its own largest magnitude: white is positive, black negative, grey zero.

    Parameters
    ----------
    dictionary : array_like, shape (n_atoms, height * width)
        One atom a row.
    patch_size : int or (int, int)
        Side of a square patch, or (height, width), in pixels.
    ax : Axes, optional
        Where to draw; by default the current axes.
    columns : int, optional
        Atoms side by side; by default as many as make the mosaic about square.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.
    """
    height, width = as_patch_size(patch_size)
    dictionary = checks.real_array(
        "dictionary", dictionary, shape=(None, height * width), meaning="(n_atoms, height * width)"
    )
    n_atoms = len(dictionary)
    if columns is None:
        columns = math.ceil(math.sqrt(n_atoms * height / width))
    columns = min(checks.positive_integer("columns", columns), n_atoms)
    if ax is None:
        import matplotlib.pyplot as plt  # here: it costs a third of a second, and most callers never draw

        ax = plt.gca()

    rows = math.ceil(n_atoms / columns)
    largest = np.abs(dictionary).max(axis=1, keepdims=True)
    tiles = np.full((rows * columns, height, width), np.nan)
    tiles[:n_atoms] = (dictionary / np.where(largest > 0.0, largest, 1.0)).reshape(-1, height, width)
    # One pixel of nothing between atoms, and none around them.
    framed = np.pad(tiles, ((0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    mosaic = framed.reshape(rows, columns, height + 1, width + 1).transpose(0, 2, 1, 3)
    mosaic = mosaic.reshape(rows * (height + 1), columns * (width + 1))[:-1, :-1]
    ax.imshow(np.ma.masked_invalid(mosaic), cmap="gray", vmin=-1.0, vmax=1.0, interpolation="nearest")
    ax.set_axis_off()
    return ax


def plot_audit(audit: GradientAudit, *, axes: np.ndarray | None = None) -> np.ndarray:
    """Draw errors and cosines against the duration of the phases; F and B, which are alike, on the left.

    Lines are medians over the signals, bands reach from quartile to quartile, and dashed lines are of the
    updates of all signals together.

    Parameters
    ----------
    audit : GradientAudit
        What to draw.
    axes : ndarray of Axes, shape (2, 2), optional
        Where to draw: errors above, cosines below.  By default new ones in the current figure.

    Returns
    -------
    ndarray of Axes, shape (2, 2)

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or shape.
    """
    checks.instance_of("audit", audit, GradientAudit)
    if axes is None:
        import matplotlib.pyplot as plt  # here: it costs a third of a second, and most callers never draw

        axes = plt.gcf().subplots(2, 2, sharex=True)
    if np.shape(axes) != (2, 2):
        raise ValueError(f"axes must have shape (2, 2); got {np.shape(axes)}")
    for column, layer, name in zip(np.transpose(axes), ("feedback", "lateral"), ("F, B", "H"), strict=True):
        _draw_layer(audit, layer, name, *column)
    return axes


def _draw_layer(audit: GradientAudit, layer: str, name: str, above: Axes, below: Axes) -> None:
    durations, index = audit.durations, LAYERS.index(layer)
    for r, (readout, colour) in enumerate(zip(audit.readouts, COLOURS, strict=True)):
        for panel, measure, together in (
            (above, "error", audit.mean_error[r, index]),
            (below, "cosine", audit.mean_cosine[r, index]),
        ):
            low, median, high = audit.quartiles(measure, readout, layer)
            panel.fill_between(durations, low, high, color=colour, alpha=0.2, linewidth=0.0)
            panel.plot(durations, median, color=colour, marker="o", markersize=3.0, label=readout)
            panel.plot(durations, together, color=colour, linestyle="--", linewidth=1.0)
    above.set(xscale="log", yscale="log", title=f"{name}: error of updates", ylabel="relative error")
    below.set(
        xscale="log",
        ylim=(-0.25, 1.05),
        title=f"{name}: direction of updates",
        xlabel="duration of a phase, T",
        ylabel="cosine with the gradient",
    )
    for panel in (above, below):
        panel.grid(alpha=0.3)
    if np.isnan(audit.error[:, index]).all():
        for panel in (above, below):
            panel.text(0.5, 0.5, "no gradient", transform=panel.transAxes, ha="center", va="center")
        return
    last = audit.quartiles("error", audit.readouts[0], layer)[1, -1]
    above.plot(durations, last * durations[-1] / durations, color="#666666", linestyle=":", label="1 / T")
    above.legend(fontsize="small")

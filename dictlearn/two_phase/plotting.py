"""Pictures of gradient checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dictlearn.two_phase.gradient_check import LAYERS, GradientCheck
from snn import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#E69F00", "#0072B2")  # Okabe and Ito's orange and blue, for `rules.READOUTS`


def plot_gradient_check(check: GradientCheck, *, axes: np.ndarray | None = None) -> np.ndarray:
    """Draw errors and cosines against the duration of the phases; F and B, which are alike, on the left.

    Lines are medians over the signals, bands reach from quartile to quartile, and dashed lines are of the
    updates of all signals together.

    Parameters
    ----------
    check : GradientCheck
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
    checks.instance_of("check", check, GradientCheck)
    if axes is None:
        import matplotlib.pyplot as plt  # here: it costs a third of a second, and most callers never draw

        axes = plt.gcf().subplots(2, 2, sharex=True)
    if np.shape(axes) != (2, 2):
        raise ValueError(f"axes must have shape (2, 2); got {np.shape(axes)}")
    for column, layer, name in zip(np.transpose(axes), ("feedback", "lateral"), ("F, B", "H"), strict=True):
        _draw_layer(check, layer, name, *column)
    return axes


def _draw_layer(check: GradientCheck, layer: str, name: str, above: Axes, below: Axes) -> None:
    durations, index = check.durations, LAYERS.index(layer)
    for r, (readout, colour) in enumerate(zip(check.readouts, COLOURS, strict=True)):
        for panel, measure, together in (
            (above, "error", check.mean_error[r, index]),
            (below, "cosine", check.mean_cosine[r, index]),
        ):
            low, median, high = check.quartiles(measure, readout, layer)
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
    if np.isnan(check.error[:, index]).all():
        for panel in (above, below):
            panel.text(0.5, 0.5, "no gradient", transform=panel.transAxes, ha="center", va="center")
        return
    last = check.quartiles("error", check.readouts[0], layer)[1, -1]
    above.plot(durations, last * durations[-1] / durations, color="#666666", linestyle=":", label="1 / T")
    above.legend(fontsize="small")

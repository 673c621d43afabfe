"""Pictures of gradient checks, of learning and of phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dictlearn.two_phase.gradient_check import LAYERS, GradientCheck
from dictlearn.two_phase.phases import Phase
from snn.base import checks
from snn.base.html import counted
from snn.drawing import current_axes, require_increasing, stems

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

COLOURS = ("#E69F00", "#0072B2")  # Okabe and Ito's orange and blue, for `rules.READOUTS`
LAYER_NAMES = {"feedforward": "F", "feedback": "F, B", "lateral": "H"}
MEASURES = {
    "error": ("error of updates", "relative error"),
    "cosine": ("direction of updates", "cosine with the gradient"),
}
LABELS = {
    "objective": "mean objective",
    "nonzeros": "non-zero entries of a code",
    "spikes": "spikes a sample",
    "disturbance": "disturbance by the feedback",
    "consistency": "consistency of H and F B",
    "symmetry": "symmetry of F and B",
    "least_norm": "least norm of an atom",
    "median_norm": "median norm of an atom",
    "largest_norm": "largest norm of an atom",
}
"""Figures of the history of learning, and how pictures call them."""


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
    for k, measure in enumerate(MEASURES):
        for j, layer in enumerate(("feedback", "lateral")):
            gradient_panel(check, layer=layer, measure=measure, ax=axes[k, j])
            if k == 0:
                axes[k, j].set_xlabel("")
            # The names are the same in all four.
            legend = axes[k, j].get_legend()
            if legend is not None and (k, j) != (0, 0):
                legend.remove()
    return axes


def gradient_panel(
    check: GradientCheck, *, layer: str = "feedback", measure: str = "error", ax: Axes | None = None
) -> Axes:
    """Draw one measure of one layer against the duration of the phases.

    Parameters
    ----------
    check : GradientCheck
        What to draw.
    layer : {"feedforward", "feedback", "lateral"}, default "feedback"
        F, B or H.
    measure : {"error", "cosine"}, default "error"
        Norm of the difference of update and gradient, or the cosine between them.
    ax : Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or value.
    """
    checks.instance_of("check", check, GradientCheck)
    layer = checks.one_of("layer", layer, LAYERS)
    measure = checks.one_of("measure", measure, tuple(MEASURES))
    ax = current_axes(ax)
    title, of_measure = MEASURES[measure]
    durations, index = require_increasing("durations", check.durations), LAYERS.index(layer)
    for r, (readout, colour) in enumerate(zip(check.readouts, COLOURS, strict=True)):
        low, median, high = check.quartiles(measure, readout, layer)
        together = (check.mean_error if measure == "error" else check.mean_cosine)[r, index]
        quartiles = "quartiles" if r == 0 else None
        ax.fill_between(durations, low, high, color=colour, alpha=0.2, linewidth=0.0, label=quartiles)
        ax.plot(durations, median, color=colour, marker="o", markersize=3.0, label=readout)
        label = f"{readout}, all together"
        ax.plot(durations, together, color=colour, linestyle="--", linewidth=1.0, label=label)
    ax.set(
        xscale="log",
        title=f"{LAYER_NAMES[layer]}: {title}",
        xlabel="duration of a phase, T (synaptic time constants)",
        ylabel=of_measure,
    )
    ax.grid(alpha=0.3)
    has_gradient = not np.isnan(check.error[:, index]).all()
    if measure == "cosine":
        ax.set_ylim(-0.25, 1.05)
    elif has_gradient:
        ax.set_yscale("log")
        last = check.quartiles("error", check.readouts[0], layer)[1, -1]
        ax.plot(durations, last * durations[-1] / durations, color="#666666", linestyle=":", label="1 / T")
    if has_gradient:
        ax.legend(fontsize="small")
    else:
        ax.text(0.5, 0.5, "no gradient", transform=ax.transAxes, ha="center", va="center")
    return ax


def learning_line(
    n_samples: np.ndarray, values: np.ndarray, *, quantity: str, ax: Axes | None = None, **line_kwargs: Any
) -> Line2D:
    """Draw a figure of learning against the samples learned from, and return its line.

    Parameters
    ----------
    n_samples : ndarray of int, shape (n_entries,)
        Increasing.
    values : ndarray, shape (n_entries,)
        The figure.
    quantity : str
        What it is, one of `LABELS`.
    ax : Axes, optional
        Where to draw; by default the current axes.
    **line_kwargs
        Of `Axes.plot`.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or value.
    """
    quantity = checks.one_of("quantity", quantity, tuple(LABELS))
    require_increasing("n_samples", n_samples)
    ax = current_axes(ax)
    style = {"marker": "o" if len(values) < 30 else None, "markersize": 3.0, **line_kwargs}
    (line,) = ax.plot(n_samples, values, **style)
    ax.set(xlabel="samples", ylabel=LABELS[quantity], title=f"{LABELS[quantity]} while learning")
    ax.locator_params(axis="x", nbins=6)
    ax.grid(alpha=0.3)
    if "label" in line_kwargs:
        ax.legend(fontsize="small")
    return line


def coding_rates(phase: Phase, *, signal: int = 0, ax: Axes | None = None) -> Axes:
    """Draw the rates of the coding neurons in one phase, for one signal.

    Parameters
    ----------
    phase : Phase
        Of `TwoPhaseNetwork.run`.
    signal : int, default 0
        Which signal.
    ax : Axes, optional
        Where to draw; by default the current axes.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or value.
    """
    checks.instance_of("phase", phase, Phase)
    signal = checks.index("signal", signal, len(phase.coding_rate))
    ax = current_axes(ax)
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

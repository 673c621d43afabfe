"""Pictures of runs, and functions that the pictures of all packages share.

Each function draws into the axes `ax`, by default of a new figure, and returns the axes.  ``result.plot()``
calls the function that is registered for the type of the result.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D

from snn.base import checks
from snn.base.describe import counted, plot
from snn.record.record import Record, SpikeExplanation
from snn.record.result import SimulationResult
from snn.record.spikes import SpikeTrain, require_record
from snn.run.trials import Trials

__all__ = ["rates_against_time"]

TIME_LABEL = "time (synaptic time constants)"
N_NAMED = 6  # number of lines with a colour and a name; all further lines are grey and share one name
# Smallest and largest height and width of a tick in a raster, in points (1/72 inch).  A tick of 2 points has
# 2.8 pixels at 100 pixels per inch; a smaller tick would be invisible.
TICK_HEIGHTS, TICK_WIDTHS = (2.0, 18.0), (0.8, 2.0)
WANTED_COVER = 0.02  # share of the axes' area that ticks should cover, within TICK_WIDTHS
# Largest number of ticks that are drawn as vectors: a file with a million vectors has tens of megabytes.
MOST_VECTORS = 20_000
LIGHTEST = 0.2  # count of spikes that would be drawn white; a cell with one spike is well visible
N_LABELLED = 20  # most labels of neurons on an axis; with more neurons, only some neurons have a label


@plot.register
def raster(
    spikes: SpikeTrain,
    *,
    neurons: Sequence[int] | None = None,
    populations: Mapping[str, Sequence[int]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a tick for each spike, with one row for each of the `neurons` (default: all that fired).

    Named `populations` are drawn one below the other, each in its own colour.  If there is no room for all
    ticks, counts of spikes are drawn: darker cells have more spikes.
    """
    if neurons is not None and populations is not None:
        raise ValueError("neurons must be None if populations are passed; got both")
    groups = {name: _chosen(group, spikes.n_neurons) for name, group in (populations or {}).items()}
    fired = np.flatnonzero(spikes.counts())
    chosen = fired if neurons is None and len(fired) else _chosen(neurons, spikes.n_neurons)
    if groups:
        chosen = np.concatenate([*groups.values()])
    ends = np.cumsum([len(group) for group in groups.values()])
    ax = axes_of(ax)
    row_of = np.full(spikes.n_neurons, -1)
    row_of[chosen] = np.arange(len(chosen))
    rows = row_of[spikes.neurons]
    shown = rows >= 0
    times, rows = spikes.times[shown], rows[shown]
    # Sizes are in points.  Ticks are almost as high as their rows.  Few ticks are drawn wider.
    width, height = (float(side) * 72.0 / ax.figure.dpi for side in ax.get_window_extent().size)
    tick = np.clip(0.8 * height / len(chosen), *TICK_HEIGHTS)
    cover = max(len(times), 1) * tick / (width * height)  # share of the area, if ticks are one point wide
    if cover * TICK_WIDTHS[0] <= 1.0:
        wide, is_large = np.clip(WANTED_COVER / cover, *TICK_WIDTHS), len(times) > MOST_VECTORS
        colours: Any = "C0"
        if groups:
            colours = [f"C{k}" for k in np.searchsorted(ends, rows, side="right")]
        ax.scatter(times, rows, marker="|", s=tick**2, linewidths=wide, color=colours, rasterized=is_large)
    else:  # ticks would hide each other, so counts are drawn, in cells of at least one point
        bins = max(int(width), 1), min(len(chosen), max(int(height), 1))
        limits = ((spikes.start, spikes.stop), (-0.5, len(chosen) - 0.5))
        style: dict[str, Any] = {"cmap": "Blues", "norm": LogNorm(LIGHTEST), "rasterized": True}
        ax.hist2d(times, rows, bins, range=limits, cmin=1, **style)
    _label_time(ax, spikes)
    _label_neurons(ax.yaxis, chosen)
    for k, (end, (name, group)) in enumerate(zip(ends, groups.items(), strict=True)):
        ax.axhline(end - 0.5, color="0.8", linewidth=0.8, zorder=0)
        place = end - 0.5 - len(group) / 2.0
        ax.text(1.01, place, name, transform=ax.get_yaxis_transform(), color=f"C{k}", va="center")
    title = f"{counted(int(shown.sum()), 'spike')} of {counted(len(chosen), 'neuron')}"
    title += f" among {spikes.n_neurons:,}" if len(chosen) < spikes.n_neurons else ""
    ax.set(ylim=(len(chosen) - 0.5, -0.5), ylabel="neuron", title=title)
    return ax


@plot.register
def charges(explanation: SpikeExplanation, *, n_sources: int = 10, ax: Axes | None = None) -> Axes:
    """Draw the charges that brought a neuron to its threshold, as one bar for each charge."""
    names, amounts = zip(*explanation.parts(n_sources), strict=True)
    ax = axes_of(ax)
    ends = np.cumsum(amounts)
    ax.barh(names, amounts, left=ends - amounts, color=["C0" if a >= 0.0 else "C3" for a in amounts])
    ax.axvline(explanation.firing_threshold, color="black", linestyle="--", linewidth=0.8)
    ax.invert_yaxis()
    ax.set(
        xlabel="charge since the reset (dashed: threshold)",
        title=f"neuron {explanation.neuron}, spike at {explanation.time:.6g}",
    )
    return ax


@plot.register
def run(
    result: SimulationResult,
    *,
    neurons: Sequence[int] | None = None,
    populations: Mapping[str, Sequence[int]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the spikes of a run if they were recorded, otherwise the rate of each of the `neurons`."""
    if result.spikes is not None:
        return raster(result.spikes, neurons=neurons, populations=populations, ax=ax)
    if populations is not None:
        raise ValueError(
            "populations must be None for a run without recorded spikes; got "
            f"{counted(len(populations), 'population')}: pass record_spikes=True to simulate"
        )
    chosen = _chosen(neurons, len(result.spike_counts))
    ax = axes_of(ax)
    rates = np.nan_to_num(result.spike_rate[chosen], posinf=0.0)
    fired = np.flatnonzero(result.spike_counts[chosen])
    stems(ax, fired, rates[fired], len(chosen))
    _label_neurons(ax.xaxis, chosen)
    spikes = counted(int(result.spike_counts[chosen].sum()), "spike")
    ax.set(
        xlabel="neuron",
        ylabel="spike rate (per time constant)",
        title=f"{spikes} of {counted(len(chosen), 'neuron')} in {result.duration:.4g} time constants",
    )
    return ax


@plot.register
def trials(
    trials: Trials, *, neurons: Sequence[int] | None = None, n_bins: int = 50, ax: Axes | None = None
) -> Axes:
    """Draw the spikes of `neurons` (default: the busiest one), one row per trial, and their mean PSTH."""
    counts = trials.spike_counts.sum(axis=0)
    chosen = _chosen([int(np.argmax(counts))] if neurons is None else neurons, trials.n_neurons)
    start, stop = trials.spikes[0].start, trials.spikes[0].stop
    edges = np.linspace(start, stop, checks.positive_integer("n_bins", n_bins) + 1)
    ax = axes_of(ax)
    rate_axes = ax.twinx()
    rate_axes.stairs(trials.psth(edges)[:, chosen].mean(axis=1), edges, color="C1")
    rate_axes.set_ylabel("mean rate of a neuron (per time constant)", color="C1")
    shown = [spikes.times[np.isin(spikes.neurons, chosen)] for spikes in trials.spikes]
    ax.eventplot(
        shown, colors="C0", linelengths=0.8, linewidths=0.8, rasterized=sum(map(len, shown)) > MOST_VECTORS
    )
    _label_time(ax, trials.spikes[0])
    named = f"neuron {chosen[0]}" if len(chosen) == 1 else counted(len(chosen), "neuron")
    ax.set(
        ylabel="trial", ylim=(len(trials) - 0.5, -0.5), title=f"{named} in {counted(len(trials), 'trial')}"
    )
    return ax


@plot.register
def potentials(
    record: Record,
    *,
    neurons: Sequence[int] | None = None,
    start: float | None = None,
    stop: float | None = None,
    n_times: int = 1000,
    ax: Axes | None = None,
) -> Axes:
    """Draw the exact potentials of `neurons` (default: the three busiest ones) from `start` to `stop`."""
    spikes = record.spikes
    start, stop = spikes._interval(start, stop)
    if neurons is None:
        neurons = np.argsort(-spikes.counts(start=start, stop=stop), kind="stable")[:3].tolist()
    n_times = checks.positive_integer("n_times", n_times)
    chosen = _chosen(neurons, spikes.n_neurons)
    ax = axes_of(ax)
    grid = np.linspace(start, stop, n_times)
    for neuron in chosen:
        # At each spike of the neuron, draw the threshold just before it, and the reset just after it.
        fired = spikes.of(neuron)
        fired = fired[(fired >= start) & (fired <= stop)]
        times = np.unique(np.concatenate([grid, fired]))
        after = np.searchsorted(times, fired)
        values = record.potential(times)[:, neuron]
        values = np.insert(values, after, record.network.firing_threshold[neuron])
        ax.plot(np.insert(times, after, fired), values, label=f"neuron {neuron}", linewidth=1.0)
    _label_time(ax, spikes)
    ax.set(xlim=(start, stop), ylabel="membrane potential", title="membrane potentials")
    ax.legend(loc="best", fontsize="small")
    return ax


def rates_against_time(
    spikes: SpikeTrain, *, limits: np.ndarray | None = None, n_times: int = 500, ax: Axes | None = None
) -> Axes:
    """Draw spike rates since the start of the record against time, and return the axes.

    With more than six neurons, the neurons with the largest rates have names, and all others are grey.

    Parameters
    ----------
    spikes : SpikeTrain
        The recorded spikes.
    limits : ndarray, shape (n_neurons,), optional
        The rates that the neurons should approach, drawn as dashed lines.
    n_times : int, default 500
        Number of times at which rates are computed.
    ax : Axes, optional
        The axes to draw into; by default a new figure.
    """
    require_record("spikes", spikes)
    n_times = checks.positive_integer("n_times", n_times)
    if limits is not None:
        limits = checks.real_array("limits", limits, shape=(spikes.n_neurons,), meaning="one limit a neuron")
    times = np.linspace(spikes.start, spikes.stop, n_times + 1)[1:]
    curves = spikes.rate_curve(times)
    shown = np.arange(spikes.n_neurons)
    if len(shown) > N_NAMED:
        shown = np.argsort(-curves[-1], kind="stable")
    ax = axes_of(ax)
    lines = named_lines(ax, times, curves, shown, "neuron", linewidth=1.0)
    if limits is not None:
        for neuron, line in zip(shown, lines, strict=True):
            label = "limits" if line is lines[-1] else None
            ax.axhline(limits[neuron], color=line.get_color(), linestyle="--", linewidth=0.8, label=label)
    _label_time(ax, spikes)
    ax.set_ylabel("spike rate (per time constant)")
    ax.legend(loc="best", fontsize="small")
    return ax


def axes_of(ax: Axes | None) -> Axes:
    """Return `ax`, or the axes of a new figure."""
    return plt.figure(layout="constrained").subplots() if ax is None else checks.instance_of("ax", ax, Axes)


def named_lines(
    ax: Axes, x: np.ndarray, columns: np.ndarray, shown: np.ndarray, noun: str, **kwargs: Any
) -> list[Line2D]:
    """Draw the `shown` columns as lines.  Only the first N_NAMED lines have colours and names."""
    lines = []
    for rank, index in enumerate(shown):
        style: dict[str, Any] = {"label": f"{noun} {index}"}
        if rank >= N_NAMED:
            label = f"other {noun}s" if rank == N_NAMED else None
            style = {"label": label, "color": "0.75", "linewidth": 0.8, "zorder": 1}
        lines += ax.plot(x, columns[:, index], **{**style, **kwargs})
    return lines


def stems(ax: Axes, positions: np.ndarray, values: np.ndarray, n_positions: int) -> None:
    """Draw a line from zero to each value, with a dot at the value."""
    ax.vlines(positions, 0.0, values, color="C0", linewidth=1.0)
    ax.scatter(positions, values, s=14.0, color="C0")
    base_line(ax)
    ax.set_xlim(-0.5 - 0.02 * n_positions, n_positions - 0.5 + 0.02 * n_positions)


def base_line(ax: Axes) -> None:
    """Draw a horizontal line at zero."""
    ax.axhline(0.0, color="0.4", linewidth=0.8, zorder=0)


def _label_time(ax: Axes, spikes: SpikeTrain) -> None:
    # Matplotlib warns if both limits are equal, as for a run that ended in its first instant.
    if spikes.stop > spikes.start:
        ax.set_xlim(spikes.start, spikes.stop)
    ax.set_xlabel(TIME_LABEL)


def _label_neurons(axis: Axis, chosen: np.ndarray) -> None:
    """Label positions 0, 1, ... with their neurons; if there is little room, label only some positions."""
    most = min(len(chosen), N_LABELLED, max(axis.get_tick_space(), 2))
    positions = np.unique(np.linspace(0, len(chosen) - 1, most).round().astype(int))
    axis.set_ticks(positions, labels=chosen[positions])


def _chosen(neurons: Sequence[int] | None, n_neurons: int) -> np.ndarray:
    if neurons is None:
        return np.arange(n_neurons)
    chosen = np.asarray(neurons)
    if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
        raise TypeError(f"neurons must be a non-empty list of integers; got {neurons!r}")
    if chosen.min() < 0 or chosen.max() >= n_neurons:
        raise ValueError(f"neurons must lie in [0, {n_neurons}); got {chosen.min()} to {chosen.max()}")
    return chosen

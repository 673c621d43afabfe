"""Plots of a run.  Each function draws into `ax` (default: the current axes) and returns it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from snn.analog import AnalogResult
from snn.base import checks
from snn.base.html import counted
from snn.drawing import (
    N_NAMED,
    TIME_LABEL,
    base_line,
    count_bars,
    current_axes,
    named_lines,
    require_increasing,
    stems,
)
from snn.network import SpikingNetwork
from snn.record import rates as read_outs
from snn.record import traces
from snn.record.energy import EnergyEstimate
from snn.record.explain import SpikeExplanation
from snn.record.operations import OperationCounts, require_counts
from snn.record.result import SimulationResult, SpikeTrain, require_record
from snn.state import NetworkState

if TYPE_CHECKING:
    from snn.digital import DigitalResult


# Neurons that all have a label of their own.
N_LABELLED = 20


def raster(spikes: SpikeTrain, *, neurons: Sequence[int] | None = None, ax: Axes | None = None) -> Axes:
    """Draw a tick for each spike, a row for each of the chosen neurons (default: all)."""
    require_record(spikes)
    chosen = _chosen(neurons, spikes.n_neurons)
    ax = current_axes(ax)
    row_of = np.full(spikes.n_neurons, -1)
    row_of[chosen] = np.arange(len(chosen))
    rows = row_of[spikes.neurons]
    shown = rows >= 0
    height = min(1.0, 200.0 / len(chosen))
    ax.scatter(
        spikes.times[shown], rows[shown], marker="|", s=(72 * height / 4) ** 2, linewidths=0.8, color="C0"
    )
    _label_time(ax, spikes)
    ax.set(
        ylim=(len(chosen) - 0.5, -0.5),
        ylabel="neuron",
        title=f"{counted(int(shown.sum()), 'spike')} of {counted(len(chosen), 'neuron')}",
    )
    _name_positions(ax.yaxis, chosen)
    return ax


def potentials(
    network: SpikingNetwork,
    spikes: SpikeTrain,
    *,
    neurons: Sequence[int],
    initial_state: NetworkState | None = None,
    n_times: int = 1000,
    ax: Axes | None = None,
) -> Axes:
    """Draw the membrane potentials of chosen neurons, exact, with their resets."""
    checks.instance_of("network", network, SpikingNetwork)
    require_record(spikes)
    chosen = _chosen(neurons, spikes.n_neurons)
    n_times = checks.positive_integer("n_times", n_times)
    ax = current_axes(ax)
    grid = np.linspace(spikes.start, spikes.stop, n_times)
    for neuron in chosen:
        # At each spike of its own: the threshold just before it, the reset just after.
        own = spikes.of(neuron)
        times = np.unique(np.concatenate([grid, own]))
        values = traces.membrane_potential(network, spikes, times, initial_state=initial_state)[:, neuron]
        after = np.searchsorted(times, own)
        times = np.insert(times, after, own)
        values = np.insert(values, after, network.firing_threshold[neuron])
        ax.plot(times, values, label=f"neuron {neuron}", linewidth=1.0)
    _label_time(ax, spikes)
    ax.set_ylabel("membrane potential")
    ax.legend(loc="best", fontsize="small")
    return ax


def charges(explanation: SpikeExplanation, *, n_sources: int = 10, ax: Axes | None = None) -> Axes:
    """Draw what brought a neuron to its threshold: a bar for each of the largest charges.

    Parameters
    ----------
    explanation : SpikeExplanation
        What `explain` returned.
    n_sources : int, default 10
        Number of sources with a bar of their own; the others share one.
    """
    checks.instance_of("explanation", explanation, SpikeExplanation)
    parts = explanation.parts(checks.positive_integer("n_sources", n_sources))
    ax = current_axes(ax)
    names, amounts = [name for name, _ in parts], np.array([charge for _, charge in parts])
    ends = np.cumsum(amounts)
    ax.barh(names, amounts, left=ends - amounts, color=["C0" if a >= 0.0 else "C3" for a in amounts])
    threshold = ax.axvline(
        explanation.firing_threshold, color="black", linestyle="--", linewidth=0.8, label="threshold"
    )
    ax.invert_yaxis()
    ax.set(
        xlabel="charge since the last reset (units of potential)",
        title=f"neuron {explanation.neuron}, spike at {explanation.time:.6g}",
    )
    ax.legend(
        handles=[Patch(color="C0", label="excites"), Patch(color="C3", label="inhibits"), threshold],
        fontsize="small",
        loc="best",
    )
    return ax


def rates_against_time(
    spikes: SpikeTrain,
    *,
    neurons: Sequence[int] | None = None,
    limits: np.ndarray | None = None,
    n_times: int = 500,
    ax: Axes | None = None,
) -> Axes:
    """Draw rates since the start of the record, and, dashed, the `limits` they should approach.

    Of many neurons those with the largest rates are named, and all others are grey.
    """
    require_record(spikes)
    chosen = _chosen(neurons, spikes.n_neurons)
    n_times = checks.positive_integer("n_times", n_times)
    if limits is not None:
        limits = checks.real_array("limits", limits, shape=(spikes.n_neurons,), meaning="one limit a neuron")
    if spikes.stop <= spikes.start:
        raise ValueError(
            f"spikes must be of an interval of time; got one from {spikes.start} to {spikes.stop}"
        )
    ax = current_axes(ax)
    times = np.linspace(spikes.start, spikes.stop, n_times + 1)[1:]
    curves = read_outs.rate_curve(spikes, times)
    if len(chosen) > N_NAMED:
        chosen = chosen[np.argsort(-curves[-1, chosen], kind="stable")]
    lines = named_lines(
        ax,
        times,
        [curves[:, neuron] for neuron in chosen],
        [f"neuron {neuron}" for neuron in chosen],
        others="other neurons",
        linewidth=1.0,
    )
    handles = ax.get_legend_handles_labels()[0]
    if limits is not None:
        for neuron, line in zip(chosen, lines, strict=True):
            ax.axhline(limits[neuron], color=line.get_color(), linestyle="--", linewidth=0.8)
        handles.append(Line2D([], [], color="0.4", linestyle="--", linewidth=0.8, label="limits"))
    _label_time(ax, spikes)
    ax.set_ylabel("spike rate (per time constant)")
    ax.legend(handles=handles, loc="best", fontsize="small")
    return ax


def run(
    result: SimulationResult | DigitalResult, *, neurons: Sequence[int] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the spikes of a run if they were recorded, and else the rate of each neuron.

    Parameters
    ----------
    result : SimulationResult or DigitalResult
        The run.
    neurons : sequence of int, optional
        Which neurons; by default all.
    """
    if result.spikes is not None:
        return raster(result.spikes, neurons=neurons, ax=ax)
    chosen = _chosen(neurons, len(result.spike_counts))
    ax = current_axes(ax)
    rates = result.spike_rate[chosen]
    fired = np.flatnonzero(rates)
    stems(ax, fired, np.where(np.isfinite(rates[fired]), rates[fired], 0.0), len(chosen))
    _name_positions(ax.xaxis, chosen)
    ax.set(
        xlabel="neuron",
        ylabel="spike rate (per time constant)",
        title=f"{counted(int(result.spike_counts[chosen].sum()), 'spike')} of "
        f"{counted(len(chosen), 'neuron')} in {result.duration:.4g} time constants",
    )
    return ax


def activities(result: AnalogResult, *, ax: Axes | None = None) -> Axes:
    """Draw the activities of an analog flow against time, those of neurons that end largest with names.

    Neurons that are never active are left out.

    Parameters
    ----------
    result : AnalogResult
        From `simulate_analog`.
    """
    checks.instance_of("result", result, AnalogResult)
    times = require_increasing("times", result.times)
    ax = current_axes(ax)
    used = np.flatnonzero(result.activities.any(axis=0))
    used = used[np.argsort(-np.abs(result.activities[-1, used]), kind="stable")]
    named_lines(
        ax,
        times,
        [result.activities[:, neuron] for neuron in used],
        [f"neuron {neuron}" for neuron in used],
        others="other neurons",
    )
    base_line(ax)
    ax.set(
        xlabel="time (time constants of the flow)",
        ylabel="activity",
        title=f"{np.count_nonzero(result.activities[-1]):,} of "
        f"{counted(result.activities.shape[1], 'neuron')} active at the end",
    )
    if len(used):
        ax.legend(fontsize="small", loc="best")
    return ax


def operations(counts: OperationCounts, *, ax: Axes | None = None) -> Axes:
    """Draw a bar for each kind of operation, of all signals together.

    Parameters
    ----------
    counts : OperationCounts
        Of a run, or of many.
    """
    require_counts(counts)
    ax = current_axes(ax)
    total = counts.total()
    names = [field.name for field in fields(counts) if not field.name.endswith("_time")]
    count_bars(ax, {"operations": {name.replace("_", " "): getattr(total, name) for name in names}})
    ax.set(xlabel="number of operations", title="operations")
    return ax


def energy(estimate: EnergyEstimate, *, ax: Axes | None = None) -> Axes:
    """Draw a bar for each kind of operation: what it takes by the table of costs, all signals together.

    Parameters
    ----------
    estimate : EnergyEstimate
        From `energy_estimate`.
    """
    checks.instance_of("estimate", estimate, EnergyEstimate)
    ax = current_axes(ax)
    picojoules, unit = estimate.unit
    parts = {name.replace("_", " "): np.sum(part).item() for name, part in estimate.parts.items()}
    count_bars(ax, {"energy": {name: part / picojoules for name, part in parts.items()}}, log=False)
    ax.set(xlabel=f"estimated energy ({unit})", title=str(estimate))
    return ax


def _label_time(ax: Axes, spikes: SpikeTrain) -> None:
    # Of a run that ended in its first instant there is no interval to show.
    if spikes.stop > spikes.start:
        ax.set_xlim(spikes.start, spikes.stop)
    ax.set_xlabel(TIME_LABEL)


def _name_positions(axis: Axis, chosen: np.ndarray) -> None:
    """Label positions 0, 1, ... with the neurons drawn there: each of a few, some of many."""
    if len(chosen) <= N_LABELLED:
        axis.set_ticks(range(len(chosen)), labels=[str(neuron) for neuron in chosen])
        return
    axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    # Not a function inside this one: figures can be pickled.
    axis.set_major_formatter(FuncFormatter(partial(_neuron_at, chosen)))


def _neuron_at(chosen: np.ndarray, position: float, _: int | None = None) -> str:
    row = round(position)
    return str(chosen[row]) if row == position and 0 <= row < len(chosen) else ""


def _chosen(neurons: Sequence[int] | None, n_neurons: int) -> np.ndarray:
    if neurons is None:
        return np.arange(n_neurons)
    chosen = np.asarray(neurons)
    if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
        raise TypeError(f"neurons must be a non-empty list of integers; got {neurons!r}")
    if chosen.min() < 0 or chosen.max() >= n_neurons:
        raise ValueError(f"neurons must lie in [0, {n_neurons}); got {chosen.min()} to {chosen.max()}")
    return chosen

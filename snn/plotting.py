"""Plots of a run.  Each function draws into `ax` (default: the current axes) and returns it."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from snn import checks, rates, traces
from snn.explain import SpikeExplanation
from snn.network import SpikingNetwork
from snn.result import SpikeTrain
from snn.state import NetworkState

TIME_LABEL = "time (synaptic time constants)"


def raster(spikes: SpikeTrain, *, neurons: Sequence[int] | None = None, ax: Axes | None = None) -> Axes:
    """Draw a tick for each spike, a row for each of the chosen neurons (default: all)."""
    _require_record(spikes)
    chosen = _chosen(neurons, spikes.n_neurons)
    ax = plt.gca() if ax is None else ax
    row_of = np.full(spikes.n_neurons, -1)
    row_of[chosen] = np.arange(len(chosen))
    rows = row_of[spikes.neurons]
    shown = rows >= 0
    height = min(1.0, 200.0 / len(chosen))
    ax.scatter(
        spikes.times[shown], rows[shown], marker="|", s=(72 * height / 4) ** 2, linewidths=0.8, color="C0"
    )
    ax.set(
        xlim=(spikes.start, spikes.stop), ylim=(len(chosen) - 0.5, -0.5), xlabel=TIME_LABEL, ylabel="neuron"
    )
    if len(chosen) <= 20:
        ax.set_yticks(range(len(chosen)), labels=[str(i) for i in chosen])
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
    _require_record(spikes)
    chosen = _chosen(neurons, spikes.n_neurons)
    n_times = checks.positive_integer("n_times", n_times)
    ax = plt.gca() if ax is None else ax
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
    ax.set(xlim=(spikes.start, spikes.stop), xlabel=TIME_LABEL, ylabel="membrane potential")
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
    ax = plt.gca() if ax is None else ax
    names, amounts = [name for name, _ in parts], np.array([charge for _, charge in parts])
    ends = np.cumsum(amounts)
    ax.barh(names, amounts, left=ends - amounts, color=["C0" if a >= 0.0 else "C3" for a in amounts])
    ax.axvline(explanation.firing_threshold, color="black", linestyle="--", linewidth=0.8)
    ax.invert_yaxis()
    ax.set(
        xlabel="charge since the last reset", title=f"neuron {explanation.neuron} at {explanation.time:.6g}"
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
    """Draw rates since the start of the record, and, dashed, the `limits` they should approach."""
    _require_record(spikes)
    chosen = _chosen(neurons, spikes.n_neurons)
    n_times = checks.positive_integer("n_times", n_times)
    if limits is not None:
        limits = checks.real_array("limits", limits, shape=(spikes.n_neurons,), meaning="one limit a neuron")
    ax = plt.gca() if ax is None else ax
    times = np.linspace(spikes.start, spikes.stop, n_times + 1)[1:]
    curves = rates.rate_curve(spikes, times)
    for neuron in chosen:
        (line,) = ax.plot(times, curves[:, neuron], label=f"neuron {neuron}", linewidth=1.0)
        if limits is not None:
            ax.axhline(limits[neuron], color=line.get_color(), linestyle="--", linewidth=0.8)
    ax.set(xlim=(spikes.start, spikes.stop), xlabel=TIME_LABEL, ylabel="spike rate")
    if len(chosen) <= 10:
        ax.legend(loc="best", fontsize="small")
    return ax


def _require_record(spikes: SpikeTrain | None) -> None:
    if spikes is None:
        raise TypeError("spikes must be a SpikeTrain; got None: run the network with record_spikes=True")
    checks.instance_of("spikes", spikes, SpikeTrain)


def _chosen(neurons: Sequence[int] | None, n_neurons: int) -> np.ndarray:
    if neurons is None:
        return np.arange(n_neurons)
    chosen = np.asarray(neurons)
    if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
        raise TypeError(f"neurons must be a non-empty list of integers; got {neurons!r}")
    if chosen.min() < 0 or chosen.max() >= n_neurons:
        raise ValueError(f"neurons must lie in [0, {n_neurons}); got {chosen.min()} to {chosen.max()}")
    return chosen

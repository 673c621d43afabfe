"""Exact simulation: from spike to spike, with no time step."""

from __future__ import annotations

import math

import numpy as np

from snn._kernels import run_state
from snn.base import checks
from snn.network import SpikingNetwork, starting_state
from snn.record.result import RunawayError, SimulationResult, SpikeTrain
from snn.record.windows import window_moments
from snn.run.exact import EventDrivenRun, require_range
from snn.state import NetworkState

LEAST_SPIKE_LIMIT = 1_000_000
"""The default of `max_spikes` is at least this, and so many times what the drive alone could cause:"""
SPIKE_LIMIT_FACTOR = 100.0


def simulate(
    network: SpikingNetwork,
    duration: float,
    *,
    state: NetworkState | None = None,
    record_spikes: bool = False,
    max_spikes: int | None = None,
    progress: bool = False,
) -> SimulationResult:
    """Run a spiking network exactly, from event to event.

    Between spikes potentials and currents follow a closed form, and the next spike is a root of it: spike
    times are exact to rounding, whatever the duration.

    Parameters
    ----------
    network : SpikingNetwork
        What to run.
    duration : float
        How long, in synaptic time constants; positive.
    state : NetworkState, optional
        Where to start; by default at rest at time 0.
    record_spikes : bool, default False
        Keep every spike's time and neuron.
    max_spikes : int, optional
        Stop with an error after so many spikes.  By default 1,000,000, or a hundred times what the drive
        alone could cause if that is more; a network that only inhibits never comes near.
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    SimulationResult

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.
    RunawayError
        If the network emits more than `max_spikes` spikes.  The error carries the run up to there.
    OverflowError
        If currents grow beyond 7e13 firing thresholds, where rounding decides which neurons fire.

    Notes
    -----
    Ties.  Neurons that reach their thresholds in the same instant all fire in it, in the order of their
    indices, before any of these spikes is applied.  Two crossings are the same instant if they differ by
    less than 2^10 roundings (2.3e-13) of the numbers that the earlier one is computed from, in units of time,
    and by no more than 2^-30.  The end of a run counts as such a crossing: a neuron that is due there fires
    in the run.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, section 2; Lin and Tang (2018), arXiv:1805.08952,
    equations 1-5.
    """
    checks.instance_of("network", network, SpikingNetwork)
    duration = checks.positive_number("duration", duration)
    start = starting_state(network, state)
    if math.isinf(start.time + duration):
        raise ValueError(
            f"duration must end within the range of numbers; got {duration} from time {start.time} on"
        )
    record_spikes = checks.flag("record_spikes", record_spikes)
    progress = checks.flag("progress", progress)
    if max_spikes is None:
        max_spikes = default_max_spikes(network, duration, start)
    max_spikes = checks.positive_integer("max_spikes", max_spikes)

    run = EventDrivenRun(network, network.soma_bias[np.newaxis], state, window_moments=True, check_rows=True)
    return advance_to(
        run, duration, start, record_spikes=record_spikes, max_spikes=max_spikes, progress=progress
    )


def advance_to(
    run: EventDrivenRun,
    time: float,
    start: NetworkState,
    *,
    origin: float | None = None,
    record_spikes: bool,
    max_spikes: int,
    progress: bool = False,
) -> SimulationResult:
    """Advance the only copy of a run from `start`, its state now, to `time`; return what happened on the way.

    A run that keeps no moments has to record its spikes.

    Times of the run count from `origin`, by default the time of `start`.  Errors as of `simulate`.
    """
    network = run.network
    assert isinstance(network, SpikingNetwork)
    origin = start.time if origin is None else origin
    then = float(run.time[0])
    counts_then = run.spike_counts[0].copy()
    times, neurons = run.advance(
        time, record_spikes=record_spikes, max_spikes=max_spikes, to_the_spike=True, progress=progress
    )
    counts = run.spike_counts[0] - counts_then
    is_runaway = run.n_emitted > max_spikes
    if not is_runaway:
        require_range(run.membrane_potential, run.synaptic_current, network.firing_threshold)
    final = run.state(start_time=origin)
    elapsed = float(run.time[0]) - then
    if elapsed > 0.0:
        average_soma_current = run_state.average_current(
            network.firing_threshold, counts, start.membrane_potential, final.membrane_potential, elapsed
        )
    else:  # a runaway within its first instant
        average_soma_current = network.soma_bias + start.synaptic_current
    if len(run.window_moments):
        moments = run.window_moments[0]
    else:
        moments = window_moments(times - then, neurons, network.n_neurons)
    result = SimulationResult(
        network=network,
        duration=elapsed,
        spike_counts=counts,
        average_soma_current=average_soma_current,
        window_moments=moments,
        state=final,
        spikes=spike_train(origin + times, neurons, start.time, final) if record_spikes else None,
    )
    if is_runaway:
        raise RunawayError(describe_runaway(result, max_spikes), result)
    return result


def spike_train(times: np.ndarray, neurons: np.ndarray, start: float, final: NetworkState) -> SpikeTrain:
    """Return the spikes of a run that went from time `start` to its state `final`."""
    return SpikeTrain(
        times=times,
        neurons=neurons,
        n_neurons=final.n_neurons,
        start=start,
        # Rounding may leave the last spike of a run a little after its end.
        stop=max(final.time, times[-1]) if len(times) else final.time,
    )


def default_max_spikes(network: SpikingNetwork, duration: float, state: NetworkState) -> int:
    """Return the default of `max_spikes`: far above what the drive alone can cause."""
    by_drive = run_state.expected_spikes(
        network.soma_bias, network.firing_threshold, state.synaptic_current, duration
    )
    return max(LEAST_SPIKE_LIMIT, math.ceil(min(SPIKE_LIMIT_FACTOR * by_drive, 1e18)))


def describe_runaway(result: SimulationResult, max_spikes: int) -> str:
    """Return the sentence of a RunawayError."""
    busiest = np.argsort(-result.spike_counts, kind="stable")[:3]
    named = ", ".join(
        f"{int(i)} ({int(result.spike_counts[i]):,} spikes)" for i in busiest if result.spike_counts[i]
    )
    return (
        f"the network emitted more than max_spikes = {max_spikes:,} spikes by time {result.state.time:.6g}; "
        f"most active are neurons {named}: lateral excitation outruns the firing thresholds, "
        "or max_spikes is too small for this duration"
    )

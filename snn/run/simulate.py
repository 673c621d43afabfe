"""Simulations of a network, in any kind of time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snn._kernels import run_state
from snn.base import checks
from snn.network import NetworkState, SpikingNetwork, starting_state
from snn.record.result import RunawayError, SimulationResult
from snn.record.spikes import SpikeTrain, window_moments
from snn.record.stimulus import Stimulus, excitation, largest_magnitudes, require_fitting
from snn.run.exact import Exact
from snn.run.run import Run, Time

EXACT = Exact()

# The default of `max_spikes` is SPIKE_LIMIT_FACTOR times the spikes that the drive alone could cause, and at
# least LEAST_SPIKE_LIMIT.  If spikes are recorded it is at most MOST_RECORDED: each takes up to 50 bytes
# while the result is made.
LEAST_SPIKE_LIMIT = 1_000_000
SPIKE_LIMIT_FACTOR = 100.0
MOST_RECORDED = 20_000_000


def simulate(
    network: SpikingNetwork,
    duration: float,
    time: Time[Any] = EXACT,
    *,
    state: NetworkState | None = None,
    stimulus: Stimulus | None = None,
    record_spikes: bool = False,
    max_spikes: int | None = None,
    progress: bool = False,
) -> SimulationResult:
    """Run a spiking network: exactly, from event to event, or on a clock.

    In exact time potentials and currents follow a closed form between spikes, and the next spike is a root of
    it: spike times are exact to rounding, whatever the duration.

    Parameters
    ----------
    network : SpikingNetwork
        What to run.
    duration : float
        How long, in synaptic time constants; positive, and on a clock a whole number of steps.
    time : Time, default Exact()
        `Exact`, or a `Clock` with the length of its steps and what its neurons are: real numbers or integers,
        perfect or not.
    state : NetworkState, optional
        Where to start; by default at rest at time 0.  Integers are rounded to.
    stimulus : Stimulus, optional
        A drive that changes, and input spikes, at times from the start of the run to its end: that of `state`
        and so much later.  What comes at the end is in the final state.  On a clock all of it acts from the
        end of its step on, as spikes do.
    record_spikes : bool, default False
        Keep every spike's time and neuron.
    max_spikes : int, optional
        Stop with an error after so many spikes.  By default 1,000,000, or a hundred times what the drive
        alone could cause if that is more; a network that only inhibits never comes near.  But no more than
        20,000,000 if they are recorded, which then take a gigabyte of memory.
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    SimulationResult

    Raises
    ------
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
    checks.instance_of("time", time, Time)
    end = time.end_of(duration)
    start = starting_state(network, state, is_exact=time.time_step is None)
    if math.isinf(start.time + duration):
        raise ValueError(
            f"duration must end within the range of numbers; got {duration} from time {start.time} on"
        )
    soma_bias = network.soma_bias[np.newaxis]
    if stimulus is not None:
        require_fitting_stimulus(network, stimulus, start.time, start.time + duration)
        soma_bias = soma_bias.copy()
    record_spikes, progress = checks.flag("record_spikes", record_spikes), checks.flag("progress", progress)
    by_drive = spikes_by_drive(network, duration, start, stimulus)
    max_spikes = spike_limit(max_spikes, by_drive, record=record_spikes)
    run = time.start(network, soma_bias, state, window_moments=True, check_weights=True)
    if run.network is not network:
        network = run.network.with_soma_bias(network.soma_bias)
    return advanced(
        run, network, start, duration, end=end, origin=start.time, departures=time.departures,
        stimulus=stimulus, record_spikes=record_spikes, max_spikes=max_spikes, by_drive=by_drive,
        progress=progress,
    )  # fmt: skip


def advanced(
    run: Run,
    network: SpikingNetwork,
    start: NetworkState,
    until: float,
    *,
    end: float,
    origin: float,
    departures: str = "",
    stimulus: Stimulus | None,
    record_spikes: bool,
    max_spikes: int,
    by_drive: float,
    progress: bool,
) -> SimulationResult:
    """Advance a run that began at `origin` from its state `start`; return what happened on the way.

    It ends at `until`, a time since the origin, which on a clock is `end` but for rounding.
    """
    then, counts, charge = float(run.time[0]), run.spike_counts[0], 0.0
    if then > 0.0:
        counts, charge = counts.copy(), run.charge[0]
    spikes = run.advance(
        end, record=record_spikes, max_spikes=max_spikes, progress=progress, stimulus=stimulus, origin=origin
    )
    now, times = float(run.time[0]), spikes.times
    if now == end != until:
        now, times = until, np.minimum(times, until)
    final, elapsed = run.state(time=origin + now), now - then
    if stimulus is not None:
        changed = stimulus.times - origin
        if not np.allclose(run.instants_of(changed), changed, rtol=1e-12, atol=0.0):
            departures = ", ".join(filter(None, (departures, "changes between steps")))
    average_soma_current = network.soma_bias + start.synaptic_current
    if elapsed > 0.0:  # not a runaway within its first instant
        average_soma_current = (run.charge[0] - charge) / elapsed
    result = SimulationResult(
        network=network,
        duration=elapsed,
        spike_counts=run.spike_counts[0] - counts if then > 0.0 else counts,
        average_soma_current=average_soma_current,
        window_moments=window_moments(times - then, spikes.neurons, network.n_neurons)
        if then > 0.0
        else run.window_moments[0],
        start=start,
        state=final,
        spikes=spike_train(origin + times, spikes.neurons, start.time, final, departures)
        if record_spikes
        else None,
        n_steps=None if run.n_steps is None else int(run.n_steps[0]),
        stimulus=stimulus,
        registers=run.registers(spikes.messages if record_spikes else None),
    )
    if run.n_emitted > max_spikes:
        raise RunawayError(result, max_spikes, by_drive)
    run.require_valid()
    return result


def spike_train(
    times: np.ndarray, neurons: np.ndarray, start: float, final: NetworkState, departures: str = ""
) -> SpikeTrain:
    """Return the spikes of a run that went from time `start` to its state `final`."""
    return SpikeTrain(
        times=times,
        neurons=neurons,
        n_neurons=final.n_neurons,
        start=start,
        # Rounding may leave the last spike of a run a little after its end.
        stop=max(final.time, times[-1]) if len(times) else final.time,
        departures=departures,
    )


def spike_limit(max_spikes: int | None, by_drive: float, *, record: bool) -> int:
    """Return `max_spikes`, checked, or its default: far above what the drive alone can cause."""
    if max_spikes is not None:
        return checks.positive_integer("max_spikes", max_spikes)
    most = max(LEAST_SPIKE_LIMIT, math.ceil(min(SPIKE_LIMIT_FACTOR * by_drive, 1e18)))
    return min(most, MOST_RECORDED) if record else most


def spikes_by_drive(
    network: SpikingNetwork, duration: float, state: NetworkState, stimulus: Stimulus | None = None
) -> float:
    """Return how many spikes the drive, the currents of a state, and a stimulus could cause alone."""
    soma_bias = network.soma_bias
    if stimulus is not None:
        soma_bias = excitation(stimulus, duration, soma_bias) / duration
    return run_state.expected_spikes(soma_bias, network.firing_threshold, state.synaptic_current, duration)


def require_fitting_stimulus(network: SpikingNetwork, stimulus: Stimulus, start: float, stop: float) -> None:
    """Raise an error unless a stimulus is one for a network, in a run from `start` to `stop`."""
    require_fitting(stimulus, network)
    times = stimulus.times
    if len(times) and not start <= times[0] <= times[-1] <= stop:
        raise ValueError(
            f"stimulus must have its changes in the time of the run, from {start} to {stop}; got changes "
            f"from {times[0]} to {times[-1]}: cut it with stimulus.between"
        )
    checks.require_ratio(
        "drives and weights of stimulus", largest_magnitudes(stimulus), network.firing_threshold
    )

"""Simulations of a network: exactly, or on a clock."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snn._kernels import run_state
from snn.base import checks
from snn.network import NetworkState, SpikingNetwork, starting_state
from snn.record.result import SimulationResult, runaway_error
from snn.record.spikes import SpikeTrain
from snn.record.stimulus import Stimulus, excitation, largest_magnitudes, require_fitting
from snn.run.clock import Clock
from snn.run.exact import Exact
from snn.run.imperfect import Imperfections
from snn.run.run import Changes, Time

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
    *,
    state: NetworkState | None = None,
    stimulus: Stimulus | None = None,
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
    stimulus : Stimulus, optional
        A drive that changes, and input spikes, at times from the start of the run to its end: that of `state`
        and so much later.  What comes at the end is in the final state.
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
    return _simulate(network, EXACT, duration, state, stimulus, record_spikes, max_spikes, progress)


def simulate_clocked(
    network: SpikingNetwork,
    duration: float,
    *,
    time_step: float,
    integration: str = "exact",
    reset: str = "subtract",
    imperfections: Imperfections | None = None,
    state: NetworkState | None = None,
    stimulus: Stimulus | None = None,
    record_spikes: bool = False,
    max_spikes: int | None = None,
    progress: bool = False,
) -> SimulationResult:
    """Run a spiking network on a clock of fixed step.

    One step from t to t + dt does, in this order and for all neurons at once::

        1.  v <- v + beta dt + h (1 - e^-dt)    h: the synaptic current at time t
            ("euler": v <- v + (beta + h) dt)
        2.  where v >= theta: n = floor(v / theta) spikes, and v <- v - n theta
            (reset "zero": one spike, and v <- 0)
        3.  h <- e^-dt h + W^T n                the spikes of 2 act from t + dt on

    By default nothing but the time of a spike is rounded, to the end of its step.  Rule 1 solves the
    equations of the neuron, and rule 2 fires as often as there is charge for.  So the identities of an exact
    run hold on the grid, to rounding, whatever the step (docs/theory.md, section 7), and rates tend to the
    same limit.

    The papers' clock, ``integration="euler", reset="zero"``, has two errors that do not vanish with time: a
    spike brings dt / (1 - e^-dt) times its weight, about 1 + dt / 2, and the reset loses what the potential
    had risen beyond the threshold.  Each option removes one of them.

    Parameters
    ----------
    network : SpikingNetwork
        The network.
    duration : float
        How long, in synaptic time constants; a whole number of steps.
    time_step : float
        dt, in synaptic time constants.
    integration : {"exact", "euler"}, default "exact"
        How potentials rise within a step: by the charge that arrives, or by dt times the current at its
        beginning.
    reset : {"subtract", "zero"}, default "subtract"
        What a spike takes from the potential: the threshold, or all of it.  With "subtract" a neuron fires as
        often in a step as its potential holds the threshold, at most 1,024 times, and with "zero" once.
    imperfections : Imperfections, optional
        Leak, refractory time, delays, mismatch, noise and lost spikes; by default none.
    state, stimulus, record_spikes, max_spikes, progress
        As for `simulate`.  Changes of the drive, and input spikes, act from the end of their step on, as
        spikes do.

    Returns
    -------
    SimulationResult
        A spike's time is the end of its step, when it is delivered.  `average_soma_current` is the charge
        that rule 1 brought, divided by the time; with imperfections it is what arrived, whether or not the
        potential got it, and `network` is the one with the thresholds and weights that were drawn.

    Raises
    ------
    RunawayError
        If the network emits more than `max_spikes` spikes.
    OverflowError
        If numbers grow beyond the range of float64, about 1e308.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, section 4: Euler's steps.  Rotter and Diesmann (1999),
    Biological Cybernetics 81: exact ones.
    """
    checks.instance_of("network", network, SpikingNetwork)
    duration = checks.positive_number("duration", duration)
    clock = Clock(time_step, integration=integration, reset=reset, imperfections=imperfections)
    return _simulate(network, clock, duration, state, stimulus, record_spikes, max_spikes, progress)


def _simulate(
    network: SpikingNetwork,
    how: Time[Any],
    duration: float,
    state: NetworkState | None,
    stimulus: Stimulus | None,
    record_spikes: bool,
    max_spikes: int | None,
    progress: bool,
) -> SimulationResult:
    """Run a network once, in any kind of time."""
    end = how.end_of(duration)
    built = how.network_of(network)
    start = starting_state(built, state)
    if math.isinf(start.time + duration):
        raise ValueError(
            f"duration must end within the range of numbers; got {duration} from time {start.time} on"
        )
    record_spikes = checks.flag("record_spikes", record_spikes)
    progress = checks.flag("progress", progress)
    soma_bias = network.soma_bias[np.newaxis]
    if stimulus is not None:
        require_fitting_stimulus(network, stimulus, start.time, start.time + duration)
        soma_bias = soma_bias.copy()
    by_drive = spikes_by_drive(network, duration, start, stimulus)
    max_spikes = spike_limit(max_spikes, by_drive, record=record_spikes)
    run = how.start(network, soma_bias, state, window_moments=True, check_weights=True)
    changes = () if stimulus is None else Changes(run, stimulus, start.time)
    spikes = run.advance(end, record=record_spikes, max_spikes=max_spikes, progress=progress, changes=changes)

    n_steps, elapsed, times = None, float(run.time[0]), spikes.times
    if run.n_steps is not None:
        n_steps = int(run.n_steps[0])
        if elapsed == end:
            elapsed = duration
        times = np.minimum(times, elapsed)
    final = run.state(time=start.time + elapsed)
    departures = how.departures
    if stimulus is not None:
        changed = stimulus.times - start.time
        if not np.allclose(run.instants_of(changed), changed, rtol=1e-12, atol=0.0):
            departures = ", ".join(filter(None, (departures, "changes between steps")))
    if elapsed > 0.0:
        average_soma_current = run.average_current(elapsed)
    else:  # a runaway within its first instant
        average_soma_current = network.soma_bias + start.synaptic_current
    result = SimulationResult(
        network=built,
        duration=elapsed,
        spike_counts=run.spike_counts[0],
        average_soma_current=average_soma_current,
        window_moments=run.window_moments[0],
        start=start,
        state=final,
        spikes=spike_train(start.time + times, spikes.neurons, start.time, final, departures)
        if record_spikes
        else None,
        n_steps=n_steps,
        stimulus=stimulus,
    )
    if run.n_emitted > max_spikes:
        raise runaway_error(result, max_spikes, by_drive)
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

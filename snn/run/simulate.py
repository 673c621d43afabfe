"""Simulations of a network, in any kind of time."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snn._kernels import run_state
from snn.base import checks
from snn.base.value import unchecked
from snn.digital.digital_network import warn_of_narrow_currents
from snn.network import NetworkState, SpikingNetwork, starting_state
from snn.record.result import RunawayError, SimulationResult
from snn.record.spikes import TIME_ROUNDING, SpikeTrain, checked_times
from snn.record.stimulus import Stimulus, excitation, require_fitting
from snn.run.integers import IntegersOnClock
from snn.run.run import NO_LOOKS, Run
from snn.run.start import start_run
from snn.run.time import Exact, Time, end_of, require_time

EXACT_TIME = Exact()

# The default of `max_spikes` is SPIKE_LIMIT_FACTOR times the number of spikes that the drive could cause
# without lateral weights, and at least LEAST_SPIKE_LIMIT.  If spikes are recorded, `max_spikes` is at most
# MOST_RECORDED by default, because a spike takes up to 50 bytes of memory while the result is made.
LEAST_SPIKE_LIMIT = 1_000_000
SPIKE_LIMIT_FACTOR = 100.0
MOST_RECORDED = 20_000_000


def simulate(
    network: SpikingNetwork,
    duration: float,
    time: Time = EXACT_TIME,
    *,
    state: NetworkState | None = None,
    stimulus: Stimulus | None = None,
    record_spikes: bool = False,
    potential_times: ArrayLike | None = None,
    max_spikes: int | None = None,
    progress: bool = False,
) -> SimulationResult:
    """Run a spiking network exactly from event to event, or in the steps of a clock.

    In exact time, potentials and currents follow a closed form between spikes, and the next spike comes when
    this closed form reaches a threshold.  Therefore spike times have only rounding errors, for any duration.

    Parameters
    ----------
    network : SpikingNetwork
        The network to run.
    duration : float
        Simulated time, in synaptic time constants, which must be positive.  On a clock, the duration must be
        a whole number of steps.
    time : Exact or Clock, default Exact()
        `Exact` has no steps.  A `Clock` sets the length of the steps and the kind of its neurons: real
        numbers or integers, perfect or not.
    state : NetworkState, optional
        State at the beginning.  By default, the network starts at rest at time 0.  Neurons in integers round
        the state.
    stimulus : Stimulus, optional
        Changes of the drive, and input spikes.  The times of a stimulus lie within the run, which starts at
        the time of `state`.  The final state includes changes at the end of the run.  On a clock, a change
        acts from the end of its step on, as a spike does.  Since sums such as ``t += dt`` are rounded, a time
        counts as the end of a step if it exceeds this end by less than 1e-9 of the time (2.4e-7 for a time in
        float32).
    record_spikes : bool, default False
        Keep the time and the neuron of every spike.
    potential_times : array_like, shape (n_times,), optional
        Sorted times within the run, at which the result has `potentials`.  On a clock, the potentials are
        from the ends of the steps.  For perfect neurons in exact time, ``run.record`` has the potentials at
        any time.
    max_spikes : int, optional
        Largest number of spikes; more spikes raise `RunawayError`.  The default is 1,000,000, or a hundred
        times the number of spikes that the drive could cause without lateral weights, if that is more.  A
        network without excitatory weights emits far fewer spikes than the default.  If spikes are recorded,
        the default is at most 20,000,000 spikes, which take a gigabyte of memory.
    progress : bool, default False
        Show a progress bar.

    Raises
    ------
    RunawayError
        If the network emits more than `max_spikes` spikes; `RunawayError.result` ends at the last spike.
    OverflowError
        If currents grow beyond 7e13 firing thresholds, where rounding decides which neurons fire.

    Notes
    -----
    Neurons that reach their thresholds in the same instant all fire, in the order of their indices, before
    any of these spikes is delivered.  Two crossings are in the same instant if they differ by less than 2^10
    roundings (2.3e-13) of the numbers from which the earlier crossing is computed, in units of time, and by
    at most 2^-30.  A neuron that crosses its threshold in the instant in which the run ends fires in the run.
    """
    checks.instance_of("network", network, SpikingNetwork)
    duration = checks.positive_number("duration", duration)
    require_time("time", time)
    start = starting_state(network, state, is_exact=isinstance(time, Exact))
    stop = start.time + duration
    if math.isinf(stop):
        raise ValueError(
            f"duration must be so short that the end of the run is finite; got {duration} from time "
            f"{start.time} on"
        )
    return result_of(
        network, network.soma_bias, duration, stop, time, state, start,
        stimulus=stimulus, record_spikes=record_spikes, max_spikes=max_spikes, progress=progress,
        potential_times=potential_times,
    )  # fmt: skip


def result_of(
    network: SpikingNetwork,
    drive: np.ndarray,
    duration: float,
    stop: float,
    time: Time,
    state: NetworkState | None,
    start: NetworkState,
    *,
    stimulus: Stimulus | None,
    record_spikes: bool,
    max_spikes: int | None,
    progress: bool,
    potential_times: ArrayLike | None = None,
) -> SimulationResult:
    """Run a network from `start` to time `stop`; `state` is `start`, or None if the run begins at rest."""
    # `drive` has the soma biases of the network.  If `drive` is writable, the run writes its last drive
    # there.
    record_spikes, progress = checks.flag("record_spikes", record_spikes), checks.flag("progress", progress)
    end = end_of(time, duration, goes_on=state is not None)
    by_drive = _spikes_by_drive(network, start, stop, stimulus, duration)
    if not math.isclose(duration, end, rel_tol=TIME_ROUNDING):  # the duration was rounded to float32
        duration, stop = end, start.time + end
    max_spikes = _spike_limit(max_spikes, by_drive, record_spikes)
    run = start_run(time, network, drive[np.newaxis], state, window_moments=True, check_weights=True)
    chip: Any = run.network  # the network that ran, with mismatch if there is any
    if chip is not network:
        network = chip.with_soma_bias(network.soma_bias)
    looks = NO_LOOKS if potential_times is None else _looks(run, potential_times, start.time, stop, end)
    spikes = run.advance(
        end, record=record_spikes, max_spikes=max_spikes, progress=progress, stimulus=stimulus,
        origin=start.time, looks=looks,
    )  # fmt: skip
    elapsed, times = float(run.time[0]), spikes.times
    if potential_times is not None:
        looks[1][looks[0] > elapsed] = np.nan  # the run did not reach these times
    final = run.state(time=stop if elapsed == end else start.time + elapsed)
    if elapsed == end != duration:
        elapsed, times = duration, np.minimum(times, duration)
    average_soma_current = network.soma_bias + start.synaptic_current
    if elapsed > 0.0:  # the elapsed time is 0 if the run ran away in its first instant
        average_soma_current = run.charge[0] / elapsed
    departures = ", ".join(filter(None, (run.departures, _between_steps(run, stimulus, start.time))))
    train = None
    if record_spikes:
        train = spike_train(start.time + times, spikes.neurons, start.time, final, departures)
    result = SimulationResult(
        network=network,
        duration=elapsed,
        spike_counts=run.spike_counts[0],
        average_soma_current=average_soma_current,
        window_moments=run.window_moments[0],
        start=start,
        state=final,
        spikes=train,
        potentials=None if potential_times is None else looks[1],
        n_steps=None if run.n_steps is None else int(run.n_steps[0]),
        stimulus=stimulus,
        registers=run.registers(spikes.messages) if isinstance(run, IntegersOnClock) else None,
    )
    if run.n_emitted > max_spikes:
        raise RunawayError(result, max_spikes, by_drive)
    run.require_valid()
    if result.registers is not None:
        warn_of_narrow_currents(result.registers.saturations)
    return result


def _spikes_by_drive(
    network: SpikingNetwork, start: NetworkState, stop: float, stimulus: Stimulus | None, duration: float
) -> float:
    """Check the stimulus; return how many spikes drive and stimulus could cause without lateral weights."""
    soma_bias = network.soma_bias
    if stimulus is not None:
        require_fitting(stimulus, network, start.time, stop)
        soma_bias = excitation(stimulus, duration, soma_bias) / duration
    return run_state.expected_spikes(soma_bias, network.firing_threshold, start.synaptic_current, duration)


def _spike_limit(max_spikes: int | None, by_drive: float, record_spikes: bool) -> int:
    """Return the largest number of spikes of a run; by default a multiple of `by_drive`."""
    if max_spikes is None:
        max_spikes = max(LEAST_SPIKE_LIMIT, math.ceil(min(SPIKE_LIMIT_FACTOR * by_drive, 1e18)))
        max_spikes = min(max_spikes, MOST_RECORDED) if record_spikes else max_spikes
    return checks.positive_integer("max_spikes", max_spikes)


def _looks(
    run: Run, potential_times: ArrayLike, start: float, stop: float, end: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the instants at which potentials are kept, and an array for the potentials."""
    with checks.called(times="potential_times"):
        times = checked_times(potential_times, start, stop)
    instants = np.minimum(run.instants_of(times, start), end)
    return instants, np.empty((len(times), run.network.n_neurons))


def _between_steps(run: Run, stimulus: Stimulus | None, start: float) -> str:
    """Return "changes between steps" if a clock moves changes of the stimulus to ends of steps, or ""."""
    if stimulus is None or run.time_step == 0.0:
        return ""
    moved = start + run.instants_of(stimulus.times, start)
    is_same = np.allclose(moved, stimulus.times, rtol=TIME_ROUNDING, atol=TIME_ROUNDING * run.time_step)
    return "" if is_same else "changes between steps"


def spike_train(
    times: np.ndarray, neurons: np.ndarray, start: float, final: NetworkState, departures: str = ""
) -> SpikeTrain:
    """Return the spikes of a run that went from time `start` to its state `final`."""
    # By rounding, the last spike of a run may be a little after its end.
    stop = max(final.time, float(times[-1])) if len(times) else final.time
    return unchecked(
        SpikeTrain,
        times=checks.read_only(times),
        neurons=checks.read_only(neurons),
        n_neurons=final.n_neurons,
        start=start,
        stop=stop,
        departures=departures,
    )

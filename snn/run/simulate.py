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

# The default of `max_spikes` is SPIKE_LIMIT_FACTOR times the spikes that the drive alone could cause, and at
# least LEAST_SPIKE_LIMIT.  If spikes are recorded it is at most MOST_RECORDED: each takes up to 50 bytes
# while the result is made.
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
    """Run a spiking network: exactly, from event to event, or on a clock.

    In exact time potentials and currents follow a closed form between spikes, and the next spike is a root of
    it: spike times are exact to rounding, whatever the duration.

    Parameters
    ----------
    network : SpikingNetwork
        The network to run.
    duration : float
        Simulated time, in synaptic time constants; positive, and on a clock a whole number of steps.
    time : Exact or Clock, default Exact()
        Exact, or a clock with the length of its steps and what its neurons are: real numbers or integers,
        perfect or not.
    state : NetworkState, optional
        Where to start; by default at rest at time 0.  Integers are rounded to.
    stimulus : Stimulus, optional
        A drive that changes, and input spikes.  Their times are within the run, which starts at the time of
        `state`.  Changes at the end are in the final state.  On a clock all of it acts from the
        end of its step on, as spikes do.  A time that is later than the end of a step by less than 1e-9 of
        itself, or 1e-6 in float32, counts as that end: sums such as ``t += dt`` are rounded.
    record_spikes : bool, default False
        Keep every spike's time and neuron.
    potential_times : array_like, shape (n_times,), optional
        Times within the run, not decreasing, at which `potentials` of the result are kept; on a clock, at the
        end of a step.  Perfect neurons in exact time have them at any time, by ``run.record``.
    max_spikes : int, optional
        Stop with an error after more spikes.  By default 1,000,000, or a hundred times what the drive
        alone could cause if that is more; a network that only inhibits never comes near.  But no more than
        20,000,000 if they are recorded, which then take a gigabyte of memory.
    progress : bool, default False
        Show a progress bar.

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
    """
    checks.instance_of("network", network, SpikingNetwork)
    duration = checks.positive_number("duration", duration)
    require_time("time", time)
    start = starting_state(network, state, is_exact=isinstance(time, Exact))
    stop = start.time + duration
    if math.isinf(stop):
        raise ValueError(
            f"duration must end within the range of numbers; got {duration} from time {start.time} on"
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
    """Run a network from a state, which is `start` or None for rest, to time `stop`; return what happened."""
    # `drive` is the network's; an array that can be written has the last drive of the run afterwards.
    record_spikes, progress = checks.flag("record_spikes", record_spikes), checks.flag("progress", progress)
    end = end_of(time, duration, goes_on=state is not None)
    by_drive = _spikes_by_drive(network, start, stop, stimulus, duration)
    if not math.isclose(duration, end, rel_tol=TIME_ROUNDING):  # it was in float32
        duration, stop = end, start.time + end
    max_spikes = _spike_limit(max_spikes, by_drive, record_spikes)
    run = start_run(time, network, drive[np.newaxis], state, window_moments=True, check_weights=True)
    that_ran: Any = run.network  # with mismatch, if there is any
    if that_ran is not network:
        network = that_ran.with_soma_bias(network.soma_bias)
    looks = NO_LOOKS if potential_times is None else _looks(run, potential_times, start.time, stop, end)
    spikes = run.advance(
        end, record=record_spikes, max_spikes=max_spikes, progress=progress, stimulus=stimulus,
        origin=start.time, looks=looks,
    )  # fmt: skip
    elapsed, times = float(run.time[0]), spikes.times
    if potential_times is not None:
        looks[1][looks[0] > elapsed] = np.nan  # those that the run did not reach
    final = run.state(time=stop if elapsed == end else start.time + elapsed)
    if elapsed == end != duration:
        elapsed, times = duration, np.minimum(times, duration)
    average_soma_current = network.soma_bias + start.synaptic_current
    if elapsed > 0.0:  # not a runaway within its first instant
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
    """Return how many spikes drive and stimulus could cause alone, having checked the stimulus."""
    soma_bias = network.soma_bias
    if stimulus is not None:
        require_fitting(stimulus, network, start.time, stop)
        soma_bias = excitation(stimulus, duration, soma_bias) / duration
    return run_state.expected_spikes(soma_bias, network.firing_threshold, start.synaptic_current, duration)


def _spike_limit(max_spikes: int | None, by_drive: float, record_spikes: bool) -> int:
    """Return the number of spikes that ends a run, by default a multiple of those that the drive explains."""
    if max_spikes is None:
        max_spikes = max(LEAST_SPIKE_LIMIT, math.ceil(min(SPIKE_LIMIT_FACTOR * by_drive, 1e18)))
        max_spikes = min(max_spikes, MOST_RECORDED) if record_spikes else max_spikes
    return checks.positive_integer("max_spikes", max_spikes)


def _looks(
    run: Run, potential_times: ArrayLike, start: float, stop: float, end: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return when potentials are kept, and where."""
    with checks.called(times="potential_times"):
        times = checked_times(potential_times, start, stop)
    instants = np.minimum(run.instants_of(times, start), end)
    return instants, np.empty((len(times), run.network.n_neurons))


def _between_steps(run: Run, stimulus: Stimulus | None, start: float) -> str:
    """Return a name for what differs if a clock moves changes of the stimulus to its steps."""
    if stimulus is None or run.time_step == 0.0:
        return ""
    moved = start + run.instants_of(stimulus.times, start)
    is_same = np.allclose(moved, stimulus.times, rtol=TIME_ROUNDING, atol=TIME_ROUNDING * run.time_step)
    return "" if is_same else "changes between steps"


def spike_train(
    times: np.ndarray, neurons: np.ndarray, start: float, final: NetworkState, departures: str = ""
) -> SpikeTrain:
    """Return the spikes of a run that went from time `start` to its state `final`."""
    # Rounding may leave the last spike of a run a little after its end.
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

"""The same networks on a clock, as digital chips run them."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from tqdm import tqdm

from snn import _clock_kernels, checks
from snn.event_driven import (
    MOST_SPIKES_PER_CALL,
    UPDATES_PER_CALL,
    default_max_spikes,
    describe_runaway,
    require_range,
    starting_state,
)
from snn.network import SpikingNetwork
from snn.result import RunawayError, SimulationResult, SpikeTrain
from snn.state import NetworkState
from snn.weights import BlockWeights, MirroredWeights, scaled_rows

# Steps are counted in 64-bit integers, and must be whole numbers as floats.
MOST_STEPS = 2**53


def simulate_clocked(
    network: SpikingNetwork,
    duration: float,
    *,
    time_step: float,
    reset: str = "zero",
    state: NetworkState | None = None,
    record_spikes: bool = False,
    max_spikes: int | None = None,
    progress: bool = False,
) -> SimulationResult:
    """Run a spiking network on a clock of fixed step.

    One step from t to t + dt does, in this order and for all neurons at once::

        1.  v <- v + dt (beta + h)             h: the synaptic current at time t
        2.  where v >= theta: one spike, and v <- 0 (reset "zero") or v <- v - theta ("subtract")
        3.  h <- e^-dt h + W^T spikes          the spikes of 2 act from t + dt on

    A neuron fires at most once a step.  As dt goes to 0 the run approaches that of `simulate`.  Two
    errors of the rates do not vanish with time: a spike brings dt / (1 - e^-dt) times its weight, about
    1 + dt / 2, and resetting to zero loses the overshoot over the threshold.

    Parameters
    ----------
    network : SpikingNetwork
        What to run.
    duration : float
        How long, in synaptic time constants; a whole number of steps.
    time_step : float
        dt, in synaptic time constants.
    reset : {"zero", "subtract"}, default "zero"
        What a spike does to the potential.
    state, record_spikes, max_spikes, progress
        As for `simulate`.

    Returns
    -------
    SimulationResult
        A spike's time is the end of its step.  `average_soma_current` is the mean over the steps of
        beta + h as rule 1 used it.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.
    RunawayError
        If the network emits more than `max_spikes` spikes.
    OverflowError
        If numbers grow beyond the range of float64, about 1e308.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, section 4.
    """
    checks.instance_of("network", network, SpikingNetwork)
    duration = checks.positive_number("duration", duration)
    time_step = checks.positive_number("time_step", time_step)
    subtract = checks.one_of("reset", reset, ("zero", "subtract")) == "subtract"
    state = starting_state(network, state)
    record_spikes = checks.flag("record_spikes", record_spikes)
    progress = checks.flag("progress", progress)
    n_steps = round(min(duration / time_step, MOST_STEPS))
    if n_steps < 1 or abs(n_steps * time_step - duration) > 1e-9 * duration:
        raise ValueError(
            f"duration must be a whole number of time steps; got {duration} and a time_step of {time_step}"
        )
    if max_spikes is None:
        max_spikes = default_max_spikes(network, duration, state)
    else:
        max_spikes = checks.positive_integer("max_spikes", max_spikes)

    n_neurons = network.n_neurons
    potential = state.membrane_potential.copy()
    current = state.synaptic_current.copy()
    charge = np.zeros(n_neurons)
    spike_counts = np.zeros(n_neurons, dtype=np.int64)
    capacity = MOST_SPIKES_PER_CALL + n_neurons if record_spikes else 0
    spike_steps = np.empty(capacity, dtype=np.int64)
    spike_neurons = np.empty(capacity, dtype=np.int64)
    recorded_steps, recorded_neurons = [spike_steps[:0].copy()], [spike_neurons[:0].copy()]
    steps_per_call = max(1, UPDATES_PER_CALL // n_neurons)
    kernel, weights = _kernel_for(network)

    step, n_spikes = 0, 0
    with tqdm(total=n_steps, disable=not progress, unit="step") as bar:
        while step < n_steps and n_spikes <= max_spikes:
            before = step
            step, n_new = kernel(
                *weights,
                network.soma_bias,
                network.firing_threshold,
                potential,
                current,
                spike_counts,
                charge,
                step,
                min(n_steps, step + steps_per_call),
                time_step,
                subtract,
                min(MOST_SPIKES_PER_CALL, max_spikes - n_spikes + 1),
                record_spikes,
                spike_steps,
                spike_neurons,
            )
            n_spikes += n_new
            if record_spikes:
                recorded_steps.append(spike_steps[:n_new].copy())
                recorded_neurons.append(spike_neurons[:n_new].copy())
            bar.update(step - before)

    require_range(potential, current)
    elapsed = duration if step == n_steps else step * time_step
    final = NetworkState(membrane_potential=potential, synaptic_current=current, time=state.time + elapsed)
    spikes = None
    if record_spikes:
        times = state.time + np.minimum((np.concatenate(recorded_steps) + 1) * time_step, elapsed)
        spikes = SpikeTrain(
            times=times,
            neurons=np.concatenate(recorded_neurons),
            n_neurons=n_neurons,
            start=state.time,
            stop=final.time,
        )
    result = SimulationResult(
        network=network,
        duration=elapsed,
        spike_counts=spike_counts,
        average_soma_current=charge / elapsed,
        state=final,
        spikes=spikes,
    )
    if n_spikes > max_spikes:
        raise RunawayError(describe_runaway(result, max_spikes), result)
    return result


def _kernel_for(network: SpikingNetwork) -> tuple:
    """Return the kernel for the network's form of weights, and its first arguments."""
    weights = network.weights
    if isinstance(weights, MirroredWeights):
        return _clock_kernels.step_dense, (*scaled_rows(weights.lateral), True, weights.exchange)
    if isinstance(weights, sparse.csr_array):
        return _clock_kernels.step_sparse, (weights.indptr, weights.indices, weights.data)
    if isinstance(weights, BlockWeights):
        weights = weights.toarray()
    return _clock_kernels.step_dense, (*scaled_rows(weights), False, np.empty(0))

"""Potentials and currents at any time, rebuilt in closed form from recorded spikes.

Nothing here integrates: each trace is the formula of the model evaluated on the spike train.  It is also an
independent check of the simulators.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.network import SpikingNetwork
from snn.record.result import SpikeTrain, require_perfect_record
from snn.record.stimulus import DRIVE, Stimulus, require_fitting
from snn.state import NetworkState


def soma_current(
    network: SpikingNetwork,
    spikes: SpikeTrain,
    times: ArrayLike,
    *,
    initial_state: NetworkState | None = None,
    stimulus: Stimulus | None = None,
) -> np.ndarray:
    """Return mu(t) just after each time, shape (n_times, n_neurons).

    ``mu(t) = beta + h(0) e^-t + sum over spikes at t_k <= t of W[source] e^-(t - t_k)``, with the drive of
    that time and the sum over input spikes too, where there is a stimulus.

    Parameters
    ----------
    network : SpikingNetwork
        The network that ran.
    spikes : SpikeTrain
        Its spikes, recorded from `initial_state` on.
    times : array_like, shape (n_times,)
        Not decreasing, within the record.
    initial_state : NetworkState, optional
        Where the run started; by default at rest.
    stimulus : Stimulus, optional
        What reached the network from outside: that of the run.
    """
    times, initial_state = _check(network, spikes, times, initial_state, stimulus)
    decayed, _ = _filtered_counts(spikes, times)
    elapsed = times - spikes.start
    initial = np.exp(-elapsed)[:, np.newaxis] * initial_state.synaptic_current
    current = network.soma_bias + initial + network.weights.transpose_product(decayed)
    if stimulus is None:
        return current
    return (
        current
        + (stimulus.drive_at(times, network.soma_bias) - network.soma_bias)
        + (_input_amounts(stimulus, times)[0])
    )


def membrane_potential(
    network: SpikingNetwork,
    spikes: SpikeTrain,
    times: ArrayLike,
    *,
    initial_state: NetworkState | None = None,
    stimulus: Stimulus | None = None,
) -> np.ndarray:
    """Return v(t) just after each time, shape (n_times, n_neurons).

    ``v(t) = v(0) + integral of mu - theta n(t)``, with n(t) the spikes of each neuron by t.

    Parameters
    ----------
    network : SpikingNetwork
        The network that ran.
    spikes : SpikeTrain
        Its spikes, recorded from `initial_state` on.
    times : array_like, shape (n_times,)
        Not decreasing, within the record.
    initial_state : NetworkState, optional
        Where the run started; by default at rest.
    stimulus : Stimulus, optional
        What reached the network from outside: that of the run.
    """
    times, initial_state = _check(network, spikes, times, initial_state, stimulus)
    return (
        initial_state.membrane_potential
        + _charge(network, spikes, times, initial_state, stimulus)
        - (network.firing_threshold * spikes.cumulative_counts(times))
    )


def average_soma_current(
    network: SpikingNetwork,
    spikes: SpikeTrain,
    times: ArrayLike,
    *,
    initial_state: NetworkState | None = None,
    stimulus: Stimulus | None = None,
) -> np.ndarray:
    """Return u(t), the mean of mu from the start of the record to t, shape (n_times, n_neurons).

    Parameters
    ----------
    network : SpikingNetwork
        The network that ran.
    spikes : SpikeTrain
        Its spikes, recorded from `initial_state` on.
    times : array_like, shape (n_times,)
        Not decreasing, within the record, after its start.
    initial_state : NetworkState, optional
        Where the run started; by default at rest.
    stimulus : Stimulus, optional
        What reached the network from outside: that of the run.
    """
    times, initial_state = _check(network, spikes, times, initial_state, stimulus)
    elapsed = (times - spikes.start)[:, np.newaxis]
    if (elapsed <= 0.0).any():
        raise ValueError(f"times must lie after the start of the record, {spikes.start}; got {times[0]}")
    return _charge(network, spikes, times, initial_state, stimulus) / elapsed


def _charge(
    network: SpikingNetwork,
    spikes: SpikeTrain,
    times: np.ndarray,
    initial_state: NetworkState,
    stimulus: Stimulus | None,
) -> np.ndarray:
    """Return the integral of mu: beta t + h(0) (1 - e^-t) + W^T (sum of 1 - e^-(t - t_k))."""
    _, risen = _filtered_counts(spikes, times)
    elapsed = (times - spikes.start)[:, np.newaxis]
    initial = -np.expm1(-elapsed) * initial_state.synaptic_current
    charge = network.soma_bias * elapsed + initial + network.weights.transpose_product(risen)
    if stimulus is None:
        return charge
    ends = np.concatenate([[spikes.start], times])
    of_drive = stimulus.drive_charge(ends, network.soma_bias)[1:] - network.soma_bias * elapsed
    return charge + of_drive + _input_amounts(stimulus, times)[1]


def _input_amounts(stimulus: Stimulus, times: np.ndarray) -> tuple[Any, Any]:
    """Return the currents that input spikes caused, and their charges, at each time."""
    if stimulus.spikes is None or stimulus.onto == DRIVE:
        return 0.0, 0.0
    decayed, risen = _filtered_counts(stimulus.spikes, times)
    return decayed @ stimulus.weights, risen @ stimulus.weights


def _filtered_counts(spikes: SpikeTrain, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sums over the spikes by t of e^-(t - t_k) and of 1 - e^-(t - t_k), a neuron a column."""
    shape = (len(times), spikes.n_neurons)
    decayed, risen = np.zeros(shape), np.zeros(shape)
    edges = np.searchsorted(spikes.times, times, side="right")
    previous_time, previous_edge = times[0], 0
    for row, (time, edge) in enumerate(zip(times, edges.tolist(), strict=True)):
        decay = np.exp(previous_time - time)
        ages = time - spikes.times[previous_edge:edge]
        neurons = spikes.neurons[previous_edge:edge]
        if row:
            decayed[row] = decayed[row - 1] * decay
            risen[row] = risen[row - 1] - np.expm1(previous_time - time) * decayed[row - 1]
        decayed[row] += np.bincount(neurons, weights=np.exp(-ages), minlength=spikes.n_neurons)
        risen[row] += np.bincount(neurons, weights=-np.expm1(-ages), minlength=spikes.n_neurons)
        previous_time, previous_edge = time, edge
    return decayed, risen


def _check(
    network: SpikingNetwork,
    spikes: SpikeTrain,
    times: ArrayLike,
    initial_state: NetworkState | None,
    stimulus: Stimulus | None,
) -> tuple[np.ndarray, NetworkState]:
    checks.instance_of("network", network, SpikingNetwork)
    require_perfect_record(spikes, network)
    times = checks.real_array("times", times, shape=(None,), meaning="one row of the trace each")
    if (np.diff(times) < 0.0).any() or times[0] < spikes.start or times[-1] > spikes.stop:
        raise ValueError(
            f"times must not decrease and lie in [{spikes.start}, {spikes.stop}]; "
            f"got {times[0]} to {times[-1]}"
        )
    if initial_state is None:
        initial_state = NetworkState.at_rest(network.n_neurons)
    checks.instance_of("initial_state", initial_state, NetworkState)
    if initial_state.n_neurons != network.n_neurons:
        raise ValueError(
            f"initial_state has {initial_state.n_neurons} neurons but the network has {network.n_neurons}"
        )
    if stimulus is not None:
        require_fitting(stimulus, network)
    return times, initial_state

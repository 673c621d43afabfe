"""Traces rebuilt from spikes, against sums written out in full."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import trapezoid

from snn import NetworkState, SignPairWeights, SpikeTrain, SpikingNetwork, simulate
from snn.record import traces
from tests.reference.networks import random_network, random_sign_pair_network
from tests.reference.weight_forms import in_form


def written_out(network, spikes, times, state):
    """mu and v at each time, one term a spike and no recursion."""
    weights = np.asarray(network.weights)
    currents, potentials = [], []
    for t in times:
        age = t - spikes.times[spikes.times <= t]
        fired = spikes.neurons[spikes.times <= t]
        elapsed = t - spikes.start
        current = network.soma_bias + state.synaptic_current * np.exp(-elapsed)
        charge = network.soma_bias * elapsed + state.synaptic_current * (1 - np.exp(-elapsed))
        current = current + np.exp(-age) @ weights[fired]
        charge = charge + (1 - np.exp(-age)) @ weights[fired]
        counts = np.bincount(fired, minlength=network.n_neurons)
        currents.append(current)
        potentials.append(state.membrane_potential + charge - network.firing_threshold * counts)
    return np.array(currents), np.array(potentials)


@pytest.mark.parametrize("form", ["dense", "sparse", "sign pairs"])
def test_traces_equal_the_sums_written_out(form):
    rng = np.random.default_rng(31)
    network = random_network(rng, 10) if form != "sign pairs" else random_sign_pair_network(rng, 5)
    network = network if form == "sign pairs" else in_form(network, form)
    state = NetworkState(
        membrane_potential=rng.uniform(-1, 1, 10), synaptic_current=rng.normal(0, 1, 10), time=2.0
    )
    spikes = simulate(network, 20.0, state=state, record_spikes=True).spikes
    times = np.sort(np.concatenate([[2.0], rng.uniform(2.0, 22.0, 30), spikes.times[:10], [22.0, 22.0]]))
    current, potential = written_out(network, spikes, times, state)
    np.testing.assert_allclose(
        traces.soma_current(network, spikes, times, initial_state=state), current, atol=1e-12
    )
    np.testing.assert_allclose(
        traces.membrane_potential(network, spikes, times, initial_state=state), potential, atol=1e-12
    )


def test_average_soma_current_is_the_mean_of_the_soma_current():
    """The trapezoidal rule between spikes, where the current is smooth."""
    network = SpikingNetwork([[0, -0.7], [0.4, 0]], [1.0, 0.8])
    spikes = simulate(network, 6.0, record_spikes=True).spikes
    edges = np.unique(np.concatenate([[0.0], spikes.times, [6.0]]))
    total = np.zeros(2)
    for begin, end in pairwise(edges):
        # A spike belongs to the piece it begins: stop just short of the next one.
        grid = np.linspace(begin, end, 401)
        grid[-1] = np.nextafter(end, begin) if end < 6.0 else end
        values = traces.soma_current(network, spikes, grid)
        total += trapezoid(values, grid, axis=0)
    # Trapezoidal error: h^2 / 12 times the length times mu'' (about 1), with h below 1/400.
    np.testing.assert_allclose(traces.average_soma_current(network, spikes, [6.0])[0], total / 6.0, atol=1e-6)


def test_no_spikes_leave_the_closed_form():
    network = SpikingNetwork(np.zeros((2, 2)), [-1.0, 0.5], [1.0, 100.0])
    state = NetworkState(membrane_potential=[0.2, 0.1], synaptic_current=[1.0, -1.0])
    spikes = SpikeTrain(times=[], neurons=[], n_neurons=2, start=0.0, stop=3.0)
    times = np.array([0.0, 1.0, 3.0])
    expected = [0.2, 0.1] + times[:, None] * [-1.0, 0.5] + (1 - np.exp(-times))[:, None] * [1.0, -1.0]
    np.testing.assert_allclose(
        traces.membrane_potential(network, spikes, times, initial_state=state), expected, atol=1e-15
    )


def test_sign_pair_weights_in_full():
    weights = SignPairWeights([[0, 2], [3, 0]], [5, 7])
    np.testing.assert_array_equal(
        weights.toarray(), [[0, 2, 5, -2], [3, 0, -3, 7], [5, -2, 0, 2], [-3, 7, 3, 0]]
    )
    assert weights.shape == (4, 4)
    np.testing.assert_array_equal(SpikingNetwork(weights, np.zeros(4)).out_degree, [3, 3, 3, 3])

"""In a run of an hour no charge is lost, and in a run that starts at 1e9 spike times are right."""

import numpy as np
import pytest

from snn import NetworkState, SpikingNetwork, simulate


@pytest.fixture(params=range(3))
def network(request):
    """Eight neurons that excite and inhibit each other."""
    rng = np.random.default_rng(request.param)
    weights = rng.uniform(-0.5, 0.15, (8, 8)) * (1.0 - np.eye(8))
    return SpikingNetwork(weights, rng.uniform(0.5, 1.5, 8), rng.uniform(0.5, 1.0, 8))


def test_an_hour_of_spikes_keeps_the_charge(network):
    """With synapses of 10 ms, spikes have removed all charge that arrived, except what potentials hold."""
    hour = 3600.0 / 0.01
    result = simulate(network, hour, max_spikes=10**9)
    counts, state = result.spike_counts, result.state
    brought = network.soma_bias * hour + counts @ network.weights.toarray() - state.synaptic_current
    taken = network.firing_threshold * counts + state.membrane_potential
    assert counts.sum() > 10**6
    np.testing.assert_allclose(taken, brought, rtol=0.0, atol=1e-6)


def test_spike_times_at_1e9_are_right_to_their_last_bit(network):
    rest, late = np.zeros(8), 1e9
    state = NetworkState(membrane_potential=rest, synaptic_current=rest, time=late)
    first = simulate(network, 20.0, record_spikes=True).spikes
    spikes = simulate(network, 20.0, state=state, record_spikes=True).spikes
    assert len(first) > 50
    np.testing.assert_array_equal(spikes.neurons, first.neurons)
    np.testing.assert_allclose(spikes.times, late + first.times, rtol=0.0, atol=np.spacing(late))

"""`simulate` against the slow twin in 30 digits: the same spikes, neuron for neuron."""

import numpy as np
import pytest
from scipy import sparse

from snn import NetworkState, SignPairWeights, SpikingNetwork, simulate
from tests.reference.networks import dense_weights, in_form, random_mirrored_network, random_weights
from tests.reference.simulator import simulate_slowly

# Rounding of 1e-16 in a time grows with every spike that feeds on it, less than threefold here, and
# few spikes do so in a row: 1e-9 leaves seven digits for that, and is far below any interval.
TIME_TOLERANCE = 1e-9


def assert_same_run(network, duration, state=None):
    run = simulate(network, duration, state=state, record_spikes=True)
    slow = simulate_slowly(
        dense_weights(network),
        network.soma_bias,
        network.firing_threshold,
        duration,
        membrane_potential=None if state is None else state.membrane_potential,
        synaptic_current=None if state is None else state.synaptic_current,
    )
    start = 0.0 if state is None else state.time
    np.testing.assert_array_equal(run.spikes.neurons, slow.neurons)
    np.testing.assert_allclose(run.spikes.times - start, slow.times, rtol=0, atol=TIME_TOLERANCE)
    np.testing.assert_allclose(run.state.membrane_potential, slow.membrane_potential, atol=1e-8, rtol=1e-12)
    np.testing.assert_allclose(run.state.synaptic_current, slow.synaptic_current, atol=1e-8)
    return run


def random_state(rng, network):
    return NetworkState(
        membrane_potential=network.firing_threshold * rng.uniform(-2.0, 1.0, network.n_neurons),
        synaptic_current=rng.normal(0.0, 2.0, network.n_neurons),
        time=rng.uniform(0.0, 5.0),
    )


@pytest.mark.parametrize("form", ["dense", "sparse", "blocks"])
@pytest.mark.parametrize("sign", [1, -1, 0], ids=["excitatory", "inhibitory", "mixed"])
@pytest.mark.parametrize("seed", range(34))
def test_random_networks(seed, sign, form):
    """204 different networks of 1 to 8 neurons, half of them from a random state."""
    rng = np.random.default_rng([seed, sign + 1, form == "sparse"])
    n_neurons = int(rng.integers(1, 9))
    network = SpikingNetwork(
        random_weights(rng, n_neurons, density=rng.choice([0.3, 1.0]), sign=sign, strength=0.8),
        rng.uniform(-0.5, 1.5, n_neurons),
        rng.uniform(1.0, 3.0, n_neurons),
    )
    state = random_state(rng, network) if seed % 2 else None
    assert_same_run(in_form(network, form), 12.0, state)


@pytest.mark.parametrize("form", ["mirrored", "dense", "sparse", "blocks"])
@pytest.mark.parametrize("seed", range(10))
def test_mirrored_pairs(seed, form):
    rng = np.random.default_rng([1, seed])
    network = random_mirrored_network(rng, int(rng.integers(1, 5)), exchange=rng.uniform(-0.5, 1.0))
    state = random_state(rng, network) if seed % 2 else None
    assert_same_run(network if form == "mirrored" else in_form(network, form), 15.0, state)


@pytest.mark.parametrize("form", ["dense", "sparse", "blocks"])
@pytest.mark.parametrize("seed", range(10))
def test_without_drive_only_the_initial_currents_fire(seed, form):
    """Bias 0: a spike needs a current larger than what is left to the threshold."""
    rng = np.random.default_rng([2, seed])
    network = SpikingNetwork(random_weights(rng, 5, strength=0.9), np.zeros(5), rng.uniform(0.5, 1.5, 5))
    state = NetworkState(membrane_potential=np.zeros(5), synaptic_current=rng.uniform(0.0, 6.0, 5))
    run = assert_same_run(in_form(network, form), 30.0, state)
    assert run.n_spikes > 0


@pytest.mark.parametrize("form", ["dense", "sparse", "blocks"])
@pytest.mark.parametrize("seed", range(5))
def test_networks_that_never_fire(seed, form):
    rng = np.random.default_rng([3, seed])
    network = SpikingNetwork(random_weights(rng, 6), -rng.uniform(0.0, 1.0, 6), rng.uniform(1.0, 2.0, 6))
    state = NetworkState(membrane_potential=np.zeros(6), synaptic_current=rng.uniform(-2.0, 0.99, 6))
    run = assert_same_run(in_form(network, form), 50.0, state)
    assert run.n_spikes == 0


@pytest.mark.parametrize("form", ["dense", "sparse", "blocks"])
@pytest.mark.parametrize("seed", range(10))
def test_identical_neurons_fire_together_in_the_order_of_their_indices(seed, form):
    """Groups of neurons with one drive, one threshold and one column of weights are exactly tied.

    Within a group all mutual weights are equal and dyadic, so that the order in which they are added
    rounds nothing and the tie survives arithmetic.
    """
    rng = np.random.default_rng([4, seed])
    sizes = rng.integers(1, 4, 3)
    group = np.repeat(np.arange(3), sizes)
    rng.shuffle(group)
    between = rng.integers(-16, 5, (3, 3)) / 32.0
    weights = between[group][:, group]
    np.fill_diagonal(weights, 0.0)
    drive = rng.integers(1, 12, 3) / 8.0
    network = SpikingNetwork(weights, drive[group], rng.choice([1.0, 2.0], 3)[group])
    run = assert_same_run(in_form(network, form), 10.0)
    for members in (np.flatnonzero(group == g) for g in range(3)):
        for neuron in members[1:]:
            np.testing.assert_array_equal(run.spikes.of(neuron), run.spikes.of(members[0]))


@pytest.mark.parametrize("seed", range(6))
def test_both_halves_of_a_pair_tied(seed):
    """Without correlation the two halves of a pair have one drive, and their lateral spikes cancel."""
    rng = np.random.default_rng([5, seed])
    n_pairs = 3
    lateral = rng.integers(-8, 9, (n_pairs, n_pairs)) / 32.0
    np.fill_diagonal(lateral, 0.0)
    drive = rng.uniform(0.2, 1.0, n_pairs)
    network = SpikingNetwork(
        SignPairWeights(lateral, -rng.integers(0, 4, n_pairs) / 4.0), np.concatenate([drive, drive])
    )
    run = assert_same_run(network, 10.0)
    for pair in range(n_pairs):
        np.testing.assert_array_equal(run.spikes.of(pair), run.spikes.of(n_pairs + pair))


@pytest.mark.parametrize("form", ["dense", "sparse", "blocks"])
@pytest.mark.parametrize("seed", range(5))
def test_thresholds_of_very_different_sizes(seed, form):
    """Thresholds over four decades; the weights a neuron receives are of the size of its threshold."""
    rng = np.random.default_rng([6, seed])
    threshold = 10.0 ** rng.uniform(-2.0, 2.0, 6)
    network = SpikingNetwork(
        random_weights(rng, 6, strength=0.5) * threshold, rng.uniform(-0.2, 1.0, 6) * threshold, threshold
    )
    assert_same_run(in_form(network, form), 10.0)


@pytest.mark.parametrize("scale", [1e-280, 1e-100, 1e100, 1e280])
@pytest.mark.parametrize("form", ["dense", "sparse", "blocks"])
def test_a_change_of_units_changes_no_spike(form, scale):
    """Weights, drives and thresholds in other units: the same spikes at the same times."""
    rng = np.random.default_rng(7)
    weights, drive = random_weights(rng, 6), rng.uniform(-0.2, 1.5, 6)
    reference = simulate(in_form(SpikingNetwork(weights, drive), form), 20.0, record_spikes=True)
    scaled = in_form(SpikingNetwork(weights * scale, drive * scale, scale), form)
    run = simulate(scaled, 20.0, record_spikes=True)
    np.testing.assert_array_equal(run.spikes.neurons, reference.spikes.neurons)
    np.testing.assert_allclose(run.spikes.times, reference.spikes.times, rtol=0, atol=TIME_TOLERANCE)


@pytest.mark.parametrize("form", ["dense", "sparse", "mirrored"])
def test_a_neuron_at_its_threshold_fires_at_once_even_when_inhibited(form):
    weights = {
        "dense": np.zeros((2, 2)),
        "sparse": sparse.csr_array((2, 2)),
        "mirrored": SignPairWeights(np.zeros((1, 1)), [0.0]),
    }[form]
    state = NetworkState(membrane_potential=[1.0, 0.0], synaptic_current=[-5.0, 0.0])
    run = assert_same_run(SpikingNetwork(weights, [1.0, 1.0]), 1.5, state)
    np.testing.assert_array_equal(run.spikes.times, [0.0, 1.0])

"""Blocks of any place and shape: the spikes of the dense matrix, and the trace of every neuron's own."""

import numpy as np
import pytest

from snn import Block, BlockWeights, Exact, NetworkState, SpikingNetwork, simulate
from tests.reference.plain_simulator import simulate_plainly
from tests.reference.weight_forms import require_sums


def random_block_network(rng):
    """A few blocks of any place, shape and sign, which may overlap; no spike pays for a whole one."""
    n_neurons = int(rng.integers(2, 60))
    blocks = []
    for _ in range(rng.integers(1, 6)):
        source, target = np.sort(rng.integers(0, n_neurons + 1, (2, 2)), axis=1)
        if (source[0] == source[1]) or (target[0] == target[1]):
            continue
        values = rng.uniform(-1.0, 1.0, (source[1] - source[0], target[1] - target[0]))
        sign = rng.integers(-1, 2)
        if sign:
            values = sign * np.abs(values)
        values[rng.uniform(size=values.shape) > rng.choice([0.3, 1.0])] = 0.0
        # Excitation of a source over all blocks stays below one threshold.
        strength = rng.uniform(0.0, 0.15 if sign >= 0 else 3.0) / np.sqrt(values.shape[1])
        excitation = max(float(np.maximum(strength * values, 0.0).sum(axis=1).max()), 1e-300)
        blocks.append(
            Block(
                first_source=int(source[0]),
                first_target=int(target[0]),
                values=values,
                factor=strength * min(1.0, 0.16 / excitation),
            )
        )
    if n_neurons % 2:
        blocks.append(Block(first_source=0, first_target=0, values=np.ones((n_neurons, 2)), factor=0.0))
    threshold = rng.uniform(1.0, 2.0, n_neurons)
    network = SpikingNetwork(BlockWeights(n_neurons, blocks), rng.uniform(-0.5, 2.0, n_neurons), threshold)
    state = NetworkState(
        membrane_potential=rng.uniform(-0.5, 1.0, n_neurons) * threshold,
        synaptic_current=rng.uniform(-2.0, 2.0, n_neurons) * rng.integers(0, 2, n_neurons),
    )
    return network, state


def dense_of(weights):
    """Add up the blocks, naively."""
    array = np.zeros(weights.shape)
    for block in weights.blocks:
        for i, row in enumerate(block.values):
            for j, value in enumerate(row):
                array[block.first_source + i, block.first_target + j] += block.factor * value
    np.fill_diagonal(array, 0.0)
    return array


@pytest.mark.parametrize("seed", range(40))
def test_blocks_equal_dense(seed):
    network, state = random_block_network(np.random.default_rng(seed))
    weights = dense_of(network.weights)
    np.testing.assert_allclose(network.weights.toarray(), weights, rtol=0, atol=1e-15)
    require_sums(network.weights, network.weights.toarray())
    require_sums(network.weights.segments, network.weights.toarray())
    blocks = simulate(network, 30.0, state=state, record_spikes=True)
    dense = simulate_plainly(weights, network.soma_bias, network.firing_threshold, 30.0, state=state)
    np.testing.assert_array_equal(blocks.spikes.neurons, dense.neurons)
    # Rounding, 1e-16 a spike; over 600 such networks the largest difference was 2e-13.
    np.testing.assert_allclose(blocks.spikes.times, dense.times, rtol=0, atol=1e-9)
    np.testing.assert_allclose(blocks.state.membrane_potential, dense.membrane_potential, atol=1e-9)
    np.testing.assert_allclose(blocks.state.synaptic_current, dense.synaptic_current, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_filtered_spikes_carry_the_synaptic_current(seed):
    """Started at rest, the current into every neuron is W^T times the filtered spikes."""
    network, _ = random_block_network(np.random.default_rng(seed))
    run = Exact().start(network, np.stack([network.soma_bias, 0.5 * network.soma_bias]), filter_spikes=True)
    for end in (3.3, 20.0):
        run.advance(end)
        expected = network.weights.transpose_product(run.filtered_spikes)
        np.testing.assert_allclose(run.synaptic_current, expected, rtol=0, atol=1e-13)
    spikes = simulate(network, 20.0, record_spikes=True).spikes
    assert len(spikes) > 10
    filtered = np.bincount(spikes.neurons, np.exp(spikes.times - 20.0), network.n_neurons)
    np.testing.assert_allclose(run.filtered_spikes[0], filtered, rtol=1e-11)

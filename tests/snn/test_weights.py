"""Structured weights are what their arrays are, for every simulator and every sum."""

import numpy as np
import pytest

from snn import (
    Block,
    BlockWeights,
    DenseWeights,
    LateralInhibition,
    SignPairWeights,
    SpikingNetwork,
    simulate,
    simulate_clocked,
)
from tests.reference.networks import random_dictionary


@pytest.fixture
def gram():
    dictionary = random_dictionary(np.random.default_rng(0), 24, 10)
    dictionary *= np.random.default_rng(1).uniform(0.5, 1.5, (24, 1))
    gram = dictionary @ dictionary.T
    gram[3, 17] = gram[17, 3] = 0.0  # a missing synapse, to be counted as one
    return gram


@pytest.fixture(params=["inhibition", "mirrored", "mirrored inhibition", "blocks"])
def weights(request, gram):
    inhibition = LateralInhibition(gram)
    exchange = np.diagonal(gram).copy()
    exchange[5] = 0.0
    return {
        "inhibition": inhibition,
        "mirrored": SignPairWeights(inhibition.toarray(), exchange),
        "mirrored inhibition": SignPairWeights(inhibition, exchange),
        "blocks": two_layers(gram),
    }[request.param]


def two_layers(gram):
    """Ten neurons that drive 24 others, which inhibit each other and feed back; some blocks overlap."""
    forward = np.random.default_rng(6).uniform(0.0, 0.1, (10, 24))
    return BlockWeights(
        34,
        [
            Block(first_source=0, first_target=10, values=forward),
            Block(first_source=10, first_target=10, values=gram, factor=-1.0),
            Block(first_source=10, first_target=0, values=forward.T, factor=0.5),
            Block(first_source=12, first_target=12, values=np.full((3, 5), 0.01)),
            Block(first_source=0, first_target=0, values=np.ones((10, 10)), factor=0.0),
        ],
    )


def test_blocks_must_fit():
    block = Block(first_source=1, first_target=0, values=np.ones((2, 2)))
    with pytest.raises(
        ValueError, match="blocks must lie within the 2 neurons; got one that ends at source 3"
    ):
        BlockWeights(2, [block])
    with pytest.raises(TypeError, match="blocks must be a Block; got ndarray"):
        BlockWeights(2, [np.ones((2, 2))])
    with pytest.raises(TypeError, match="blocks must be a sequence of Block; got int"):
        BlockWeights(2, 5)
    with pytest.raises(ValueError, match="first_source must not be negative; got -1"):
        Block(first_source=-1, first_target=0, values=np.ones((2, 2)))
    with pytest.raises(ValueError, match="values must be finite; got nan"):
        Block(first_source=0, first_target=0, values=[[np.nan]])


def test_no_blocks_at_all():
    result = simulate(SpikingNetwork(BlockWeights(2, []), [1.0, 0.5]), 2.5)
    np.testing.assert_array_equal(result.spike_counts, [2, 1])


def test_lateral_inhibition_in_full(gram):
    weights = LateralInhibition(gram)
    assert weights.strength.base is gram  # used as it is
    array = weights.toarray()
    assert not np.diagonal(array).any()
    np.testing.assert_array_equal(array - np.diag(np.diagonal(gram)), -gram)


def test_sums_over_weights_equal_those_of_the_array(weights):
    array = weights.toarray()
    assert weights.shape == array.shape
    assert np.shares_memory(np.asarray(DenseWeights(array)), array)
    n_neurons = len(array)
    amounts = np.random.default_rng(2).standard_normal((3, n_neurons))
    np.testing.assert_allclose(weights.transpose_product(amounts), amounts @ array, rtol=0, atol=1e-13)
    degrees = np.count_nonzero(array, axis=1)
    everybody = np.arange(n_neurons)
    np.testing.assert_array_equal(weights.out_degrees(everybody), degrees)
    np.testing.assert_array_equal(weights.out_degrees(everybody[::-2]), degrees[::-2])
    counts = np.random.default_rng(3).integers(0, 3, (4, n_neurons))
    np.testing.assert_array_equal(weights.n_deliveries(counts), counts @ degrees)


@pytest.mark.parametrize("clocked", [False, True])
def test_runs_equal_those_of_the_array(weights, clocked):
    rng = np.random.default_rng(4)
    n_neurons = weights.shape[0]
    # Thresholds above every exchange weight: a spike never pays for the next one.
    bias, threshold = rng.uniform(-0.2, 2.0, n_neurons), rng.uniform(2.5, 3.5, n_neurons)
    runs = []
    for form in (weights, weights.toarray()):
        network = SpikingNetwork(form, bias, threshold)
        if clocked:
            runs.append(simulate_clocked(network, 60.0, time_step=1 / 32, record_spikes=True))
        else:
            runs.append(simulate(network, 60.0, record_spikes=True))
    structured, full = runs
    assert full.n_spikes > 100
    np.testing.assert_array_equal(structured.spikes.neurons, full.spikes.neurons)
    np.testing.assert_allclose(structured.spikes.times, full.spikes.times, rtol=0, atol=1e-11)
    assert structured.n_synaptic_events == full.n_synaptic_events
    np.testing.assert_allclose(
        structured.state.synaptic_current, full.state.synaptic_current, rtol=0, atol=1e-11
    )


def test_a_neuron_does_not_inhibit_itself_even_when_tied(gram):
    """Two equal neurons fire together; the diagonal must stay out of that path too."""
    network = SpikingNetwork(LateralInhibition(np.ones((2, 2))), np.ones(2))
    result = simulate(network, 1.5, record_spikes=True)
    np.testing.assert_array_equal(result.spikes.neurons, [0, 1])
    np.testing.assert_array_equal(result.spikes.times, [1.0, 1.0])
    np.testing.assert_allclose(result.state.synaptic_current, -np.exp(-0.5), rtol=1e-14)

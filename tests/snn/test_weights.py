"""Structured weights are what their arrays are, for every simulator and every sum."""

import numpy as np
import pytest
from scipy import sparse

from snn import (
    Block,
    BlockWeights,
    InhibitionOnDemand,
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


@pytest.fixture(params=["inhibition", "sign pairs", "sign pairs, inhibition", "blocks"])
def weights(request, gram):
    inhibition = LateralInhibition(gram)
    cross = np.diagonal(gram).copy()
    cross[5] = 0.0
    return {
        "inhibition": inhibition,
        "sign pairs": SignPairWeights(inhibition.toarray(), cross),
        "sign pairs, inhibition": SignPairWeights(inhibition, cross),
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
    n_neurons = len(array)
    amounts = np.random.default_rng(2).standard_normal((3, n_neurons))
    np.testing.assert_allclose(weights.transpose_product(amounts), amounts @ array, rtol=0, atol=1e-13)
    degrees = np.count_nonzero(array, axis=1)
    all_neurons = np.arange(n_neurons)
    np.testing.assert_array_equal(weights.out_degrees(all_neurons), degrees)
    np.testing.assert_array_equal(weights.out_degrees(all_neurons[::-2]), degrees[::-2])


@pytest.mark.parametrize("clocked", [False, True])
def test_runs_equal_those_of_the_array(weights, clocked):
    rng = np.random.default_rng(4)
    n_neurons = weights.shape[0]
    # Thresholds above every cross weight: a spike never pays for the next one.
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
    degrees = np.count_nonzero(weights.toarray(), axis=1)
    assert (
        structured.operations.synaptic_operations
        == full.operations.synaptic_operations
        == full.spike_counts @ degrees
    )
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


# --- corrupted input --------------------------------------------------------------------------


def raw(data, indices, indptr, shape=(2, 2)):
    """Return a CSR matrix with whatever is written into it afterwards: SciPy checks constructors only."""
    matrix = sparse.csr_array(shape)
    matrix.data = np.asarray(data, dtype=float)
    matrix.indices = np.asarray(indices, dtype=np.int32)
    matrix.indptr = np.asarray(indptr, dtype=np.int32)
    return matrix


@pytest.mark.parametrize(
    ("data", "indices", "indptr"),
    [
        ([-0.5], [2], [0, 1, 1]),
        ([-0.5], [5_000_000], [0, 1, 1]),
        ([-0.5], [-1], [0, 1, 1]),
        ([-0.5], [1], [0, 2, 2]),
        ([-0.5], [1], [0, 5_000_000, 5_000_000]),
        ([-0.5, -0.5], [1, 0], [0, 2, 1]),
        ([-0.5], [1], [1, 1, 1]),
        ([-0.5], [1], [0, 1]),
        ([-0.5], [1], [-1, 0, 1]),
        ([-0.5, -0.5], [1], [0, 1, 2]),
    ],
    ids=[
        "column one beyond",
        "column far beyond",
        "negative column",
        "row ends beyond the data",
        "row ends far beyond the data",
        "rows that go backwards",
        "first row does not start at 0",
        "a row is missing",
        "negative row start",
        "fewer columns than values",
    ],
)
def test_corrupted_sparse_weights_are_refused(data, indices, indptr):
    """They would be read, and written, out of bounds."""
    with pytest.raises(ValueError, match=r"^weights must "):
        SpikingNetwork(raw(data, indices, indptr), [1.0, 1.0])


def test_unsorted_and_repeated_columns_are_the_matrix_they_add_up_to():
    matrix = raw([-0.1, -0.2, -0.3, -0.4], [2, 1, 2, 0], [0, 3, 4, 4], shape=(3, 3))
    network = SpikingNetwork(matrix, [1.0, 0.5, 0.8])
    expected = np.array([[0.0, -0.2, -0.1 + -0.3], [-0.4, 0.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(network.weights.toarray(), expected, rtol=1e-15)
    np.testing.assert_array_equal(matrix.indices, [2, 1, 2, 0])  # and it is left alone
    run, other = (simulate(x, 20.0) for x in (network, SpikingNetwork(expected, [1.0, 0.5, 0.8])))
    np.testing.assert_array_equal(run.spike_counts, other.spike_counts)


def test_sparse_weights_changed_from_outside_change_no_network():
    matrix = sparse.csr_array([[0.0, -0.5], [-0.25, 0.0]])
    network = SpikingNetwork(matrix, [1.0, 1.0])
    matrix.indices[:] = 5_000_000
    np.testing.assert_array_equal(network.weights.toarray(), [[0.0, -0.5], [-0.25, 0.0]])
    assert simulate(network, 5.0).n_spikes > 0


@pytest.mark.parametrize(
    ("first_source", "first_target", "sentence"),
    [
        (2**62, 0, "blocks must lie within the 4 neurons"),
        (0, 2**62, "blocks must lie within the 4 neurons"),
        (3, 0, "blocks must lie within the 4 neurons"),
        (0, 3, "blocks must lie within the 4 neurons"),
        (-1, 0, "first_source must not be negative; got -1"),
        (0, -5, "first_target must not be negative; got -5"),
    ],
)
def test_blocks_out_of_range_are_refused(first_source, first_target, sentence):
    with pytest.raises(ValueError, match=sentence):
        BlockWeights(4, [Block(first_source=first_source, first_target=first_target, values=np.ones((2, 2)))])


def test_sign_pairs_must_fit_their_lateral_weights():
    gram = np.eye(3)
    for lateral in (LateralInhibition(gram), InhibitionOnDemand(3, lambda sources: gram[sources])):
        with pytest.raises(ValueError, match=r"cross must have shape \(3,\), one weight for each pair"):
            SignPairWeights(lateral=lateral, cross=np.ones(4))

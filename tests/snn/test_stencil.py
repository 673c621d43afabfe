"""Stencil weights: what their array is, and the spikes of the slow twin and of the plain simulator."""

import signal

import numpy as np
import pytest

from snn import (
    NetworkState,
    SpikingNetwork,
    StencilWeights,
    simulate,
)
from snn._kernels.convolution.grid import MOST_LOGGED, events_per_epoch
from tests.processes import at_most
from tests.reference.plain_simulator import simulate_plainly
from tests.reference.weight_forms import assert_same_as_twin, require_sums


def random_stencil(rng, *, n_channels=None, grid=None, reach=None, sign=0, strength=0.8):
    """A stencil whose sources send out less than `strength`, so that rates stay bounded."""
    n_channels = n_channels or int(rng.integers(1, 20))
    grid = grid or tuple(int(side) for side in rng.integers(1, 6, 2))
    reach = reach or tuple(int(side) for side in rng.integers(0, 4, 2))
    values = rng.uniform(-1.0, 1.0, (n_channels, 2 * reach[0] + 1, 2 * reach[1] + 1, n_channels))
    if sign:
        values = sign * np.abs(values)
    values[rng.uniform(size=values.shape) > rng.choice([0.3, 1.0])] = 0.0
    values[np.arange(n_channels), reach[0], reach[1], np.arange(n_channels)] = 0.0
    sent = np.maximum(values, 0.0).sum(axis=(1, 2, 3))
    values *= np.where(sent > strength, strength / np.maximum(sent, 1e-12), 1.0)[
        :, np.newaxis, np.newaxis, np.newaxis
    ]
    return StencilWeights(values, grid)


def random_stencil_network(rng, **options):
    weights = random_stencil(rng, **options)
    n_neurons = weights.shape[0]
    threshold = rng.uniform(1.0, 2.0, n_neurons)
    network = SpikingNetwork(weights, rng.uniform(-0.5, 1.5, n_neurons), threshold)
    state = NetworkState(
        membrane_potential=rng.uniform(-2.0, 1.0, n_neurons) * threshold,
        synaptic_current=rng.normal(0.0, 2.0, n_neurons) * rng.integers(0, 2, n_neurons),
        time=rng.uniform(0.0, 5.0),
    )
    return network, state


def in_full(network):
    return SpikingNetwork(network.weights.toarray(), network.soma_bias, network.firing_threshold)


def as_one_position(network):
    """Any dense network: its neurons are the channels of a single position."""
    weights = StencilWeights(network.weights.toarray()[:, np.newaxis, np.newaxis, :], (1, 1))
    return SpikingNetwork(weights, network.soma_bias, network.firing_threshold)


# -- the weights ---------------------------------------------------------------------------------


def test_weights_by_hand():
    """Two channels on a row of three: channel 0 excites channel 1 to its right, 1 inhibits 0 in place."""
    values = np.zeros((2, 1, 3, 2))
    values[0, 0, 2, 1] = 0.5
    values[1, 0, 1, 0] = -0.25
    expected = np.zeros((6, 6))
    expected[0, 3] = expected[2, 5] = 0.5
    expected[1, 0] = expected[3, 2] = expected[5, 4] = -0.25
    np.testing.assert_array_equal(StencilWeights(values, (1, 3)).toarray(), expected)


@pytest.mark.parametrize("seed", range(20))
def test_sums_equal_those_of_the_array(seed):
    rng = np.random.default_rng(seed)
    weights = random_stencil(rng)
    array = weights.toarray()
    n_neurons = len(array)
    assert not array.diagonal().any()
    rows, columns = weights.grid_shape
    neurons = [
        (row, column, k)
        for row in range(rows)
        for column in range(columns)
        for k in range(weights.n_channels)
    ]
    for source in rng.integers(0, n_neurons, 5):
        for target in rng.integers(0, n_neurons, 20):
            (row, column, k), (other_row, other_column, other) = neurons[source], neurons[target]
            i, j = other_row - row + weights.reach[0], other_column - column + weights.reach[1]
            inside = 0 <= i <= 2 * weights.reach[0] and 0 <= j <= 2 * weights.reach[1]
            assert array[source, target] == (weights.values[k, i, j, other] if inside else 0.0)
    require_sums(weights, array)


@pytest.mark.parametrize(
    ("values", "grid_shape", "error", "message"),
    [
        (np.zeros((2, 1, 2)), (1, 1), ValueError, r"values must be 4-D"),
        (np.zeros((2, 1, 1, 3)), (1, 1), ValueError, "as many source as target channels; got 2 and 3"),
        (
            np.zeros((2, 1, 2, 2)),
            (1, 1),
            ValueError,
            "odd numbers of offsets, none in the middle; got 1 and 2",
        ),
        (np.ones((2, 1, 3, 2)), (1, 1), ValueError, "not connect a neuron to itself; got 1.0 for channel 0"),
        (np.full((1, 1, 3, 1), np.inf), (1, 1), ValueError, "values must be finite; got inf"),
        ("weights", (1, 1), TypeError, "values must be an array of real numbers"),
        (np.zeros((1, 1, 1, 1)), (1, 0), ValueError, "grid_shape must be positive; got 0"),
        (np.zeros((1, 1, 1, 1)), (1, 1, 1), ValueError, "grid_shape must be a pair of integers"),
        (np.zeros((1, 1, 1, 1)), 3, TypeError, "grid_shape must be a pair of integers"),
    ],
)
def test_bad_weights(values, grid_shape, error, message):
    with pytest.raises(error, match=message):
        StencilWeights(values, grid_shape)


# -- the spikes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_spikes_equal_those_of_the_array(seed):
    """Grids, reaches and numbers of channels of all kinds, a reach beyond the grid among them."""
    network, state = random_stencil_network(np.random.default_rng(seed))
    weights = network.weights.toarray()
    run = simulate(network, 30.0, state=state, record_spikes=True)
    plain = simulate_plainly(weights, network.soma_bias, network.firing_threshold, 30.0, state=state)
    np.testing.assert_array_equal(run.spikes.neurons, plain.neurons)
    # Rounding, 1e-16 a spike, which grows with the spikes that feed on it.
    np.testing.assert_allclose(run.spikes.times - state.time, plain.times, rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.state.membrane_potential, plain.membrane_potential, rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.state.synaptic_current, plain.synaptic_current, rtol=0, atol=1e-8)
    assert run.operations.synaptic_operations == run.spike_counts @ np.count_nonzero(weights, axis=1)


@pytest.mark.parametrize("sign", [1, -1, 0], ids=["excitatory", "inhibitory", "mixed"])
@pytest.mark.parametrize("seed", range(12))
def test_grids_equal_the_slow_twin(seed, sign):
    rng = np.random.default_rng([seed, sign + 1])
    grid, reach = tuple(map(int, rng.integers(1, 4, 2))), tuple(map(int, rng.integers(0, 3, 2)))
    network, state = random_stencil_network(
        rng, n_channels=int(rng.integers(1, 3)), grid=grid, reach=reach, sign=sign
    )
    assert_same_as_twin(network, network.weights.toarray(), 12.0, state if seed % 2 else None)


@pytest.mark.parametrize("seed", range(10))
def test_equal_neurons_fire_together_in_the_order_of_their_indices(seed):
    """Channels in equal pairs at positions that are equal but for the silent ones among them.

    Windows differ from position to position; the bits of equal neurons must not.
    """
    rng = np.random.default_rng([4, seed])
    group = np.repeat(np.arange(4), 2)
    values = rng.integers(-16, 3, (4, 4))[np.ix_(group, group)] / 32.0
    np.fill_diagonal(values, 0.0)
    weights = StencilWeights(values[:, np.newaxis, np.newaxis, :], (3, 3))
    drive = np.tile(rng.integers(2, 12, 4)[group] / 8.0, (9, 1))
    # A group that never fires, however near it comes.
    drive[:, group == 3] = -rng.integers(0, 3, (9, 1)) / 8.0
    network = SpikingNetwork(weights, drive.ravel())
    run = simulate(network, 20.0, record_spikes=True)
    assert run.n_spikes > 100
    counts = run.spike_counts.reshape(9, 8)
    np.testing.assert_array_equal(counts, counts[:1] + np.zeros((9, 1)))
    times = run.spikes.times.reshape(-1, 18)
    np.testing.assert_array_equal(times, times[:, :1] + np.zeros(18))
    assert (np.diff(run.spikes.neurons.reshape(-1, 18)) > 0).all()


def test_a_log_that_fills_while_several_fire_together():
    """Triples of equal neurons: a log, which holds no multiple of three spikes, fills within one."""
    group = np.repeat(np.arange(4), 3)
    strength = np.random.default_rng(15).integers(1, 4, (4, 4)) / 64.0
    values = -strength[np.ix_(group, group)]
    np.fill_diagonal(values, 0.0)
    network = SpikingNetwork(values, np.array([1.0, 0.8125, 0.6875, 0.5625])[group])
    run, other = (simulate(x, 35.0, record_spikes=True) for x in (as_one_position(network), network))
    assert MOST_LOGGED < run.n_spikes < events_per_epoch(12)
    times = run.spikes.times.reshape(-1, 3)
    np.testing.assert_array_equal(times, times[:, :1] + np.zeros(3))
    np.testing.assert_array_equal(run.spikes.neurons, other.spikes.neurons)
    np.testing.assert_allclose(run.spikes.times, other.spikes.times, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_ties_all_over_a_grid(seed):
    """Unlike neurons cross at one time, each on its own course; those that are a bit late do not fire."""
    rng = np.random.default_rng([17, seed])
    n_channels = int(rng.integers(1, 9))
    values = np.full((n_channels, 3, 3, n_channels), -0.5)
    values[np.arange(n_channels), 1, 1, np.arange(n_channels)] = 0.0
    n_neurons = 12 * n_channels
    crossing = rng.uniform(0.1, 20.0)
    threshold = 10.0 ** rng.uniform(-3.0, 3.0, n_neurons)
    drive = threshold * rng.uniform(1.5, 20.0, n_neurons) / crossing
    current = threshold * rng.uniform(-1.0, 1.0, n_neurons)
    potential = threshold - drive * crossing + current * np.expm1(-crossing)
    # By 5e-8 and more at slopes up to 200 thresholds; the tolerance is 1e-10 at slopes of 0.075.
    is_late = rng.uniform(size=n_neurons) < 0.2
    potential[is_late] -= 1e-5 * threshold[is_late]
    network = SpikingNetwork(StencilWeights(values, (3, 4)), drive, threshold)
    state = NetworkState(membrane_potential=potential, synaptic_current=current)
    run = simulate(network, crossing + 1e-8, state=state, record_spikes=True)
    np.testing.assert_array_equal(run.spikes.neurons, np.flatnonzero(~is_late))
    np.testing.assert_array_equal(run.spikes.times, run.spikes.times[0])
    np.testing.assert_allclose(run.spikes.times, crossing, rtol=1e-9)


def test_an_even_image_stays_even():
    """All of 12 x 12 positions tied; those that see no border stay so."""
    values = np.full((2, 3, 3, 2), -1 / 64.0)
    values[np.arange(2), 1, 1, np.arange(2)] = 0.0
    weights = StencilWeights(values, (12, 12))
    network = SpikingNetwork(weights, np.tile([1.0, 0.625], 144))
    run = simulate(network, 3.0, record_spikes=True)
    # Only the first spikes of channel 0: before them all positions are alike.
    np.testing.assert_array_equal(run.spikes.times[:144], 1.0)
    np.testing.assert_array_equal(run.spikes.neurons[:144], 2 * np.arange(144))
    other = simulate(in_full(network), 3.0, record_spikes=True)
    np.testing.assert_allclose(run.spikes.times, other.spikes.times, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(run.spike_counts, other.spike_counts)


def test_identities_after_a_million_spikes():
    """docs/theory.md, equations 4 and 5, over thousands of epochs."""
    rng = np.random.default_rng(6)
    weights = random_stencil(rng, n_channels=8, grid=(3, 4), reach=(1, 2), sign=-1, strength=0.1)
    weights = StencilWeights(0.02 * weights.values, (3, 4))
    network = SpikingNetwork(weights, rng.uniform(0.5, 1.5, 96), rng.uniform(0.5, 1.0, 96))
    duration = 12_000.0
    run = simulate(network, duration)
    assert run.n_spikes > 1_000_000
    charge = duration * network.soma_bias + weights.transpose_product(run.spike_counts.astype(float))
    charge -= run.state.synaptic_current
    left = charge - network.firing_threshold * run.spike_counts
    # Sums of 1e4 terms of 1e4 units, rounded at each: 1e-12 each, 1e-10 for all of them.
    np.testing.assert_allclose(run.state.membrane_potential, left, rtol=0, atol=1e-8)
    assert (run.state.membrane_potential <= network.firing_threshold).all()


# -- how it is called ----------------------------------------------------------------------------


def test_a_grid_that_hardly_ever_fires_takes_the_time_of_its_spikes():
    """A drive of 1e-10 takes 1e10 to the threshold; inhibition by the neighbours delays it by its charge."""
    values = np.full((1, 1, 3, 1), -0.25)
    values[0, 0, 1, 0] = 0.0
    network = SpikingNetwork(StencilWeights(values, (1, 3)), [1e-10, 3e-10, -1e-10])
    run = simulate(network, 1e12, record_spikes=True)
    # Of neuron 1, which fires every 1 / 3e-10 apart from one spike of neuron 0 for every four or so of it.
    rates = np.linalg.solve([[1.0, 0.25], [0.25, 1.0]], [100.0, 300.0])
    np.testing.assert_allclose(run.spike_counts, [*rates, 0], atol=2.0)
    np.testing.assert_allclose(run.spikes.times[0], 1.0 / 3e-10, rtol=1e-12)


def test_a_run_of_few_spikes_can_be_interrupted():
    """A hundred million epochs with a spike or two in each, of a grid that is large beside them."""
    network = SpikingNetwork(StencilWeights(np.zeros((1, 1, 1, 1)), (40, 50)), [0.01] + 1999 * [-1.0])

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    simulate(network, 1.0)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with at_most(20.0), pytest.raises(KeyboardInterrupt):
            simulate(network, 1e10)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


# -- ends of the number range --------------------------------------------------------------------


def pair(weight, n_channels=8):
    """Channels 2 and 5 of every position excite each other; the others are bystanders."""
    values = np.zeros((n_channels, 1, 1, n_channels))
    values[2, 0, 0, 5] = values[5, 0, 0, 2] = weight
    return values


@pytest.mark.parametrize("weight", [-1e8, -1e12])
def test_inhibition_far_beyond_single_precision(weight):
    """The two are stopped for long; the others fire on, small weights among them."""
    values = pair(weight)
    values[0, 0, 0, 1] = 0.5
    network = SpikingNetwork(StencilWeights(values, (1, 1)), np.random.default_rng(17).uniform(0.8, 1.0, 8))
    assert_same_as_twin(network, network.weights.toarray(), 35.5)


def test_a_grid_with_silent_parts():
    """Positions that never fire, next to busy ones: windows as long as they get."""
    rng = np.random.default_rng(14)
    weights = random_stencil(rng, n_channels=4, grid=(6, 6), reach=(1, 1))
    bias = rng.uniform(-0.5, 1.5, (6, 6, 4))
    bias[2:5, 1:5] = -1.0
    run = simulate(SpikingNetwork(weights, bias.ravel()), 100.0, record_spikes=True)
    plain = simulate_plainly(weights.toarray(), bias.ravel(), 1.0, 100.0)
    np.testing.assert_array_equal(run.spikes.neurons, plain.neurons)
    np.testing.assert_allclose(run.spikes.times, plain.times, rtol=0, atol=1e-9)

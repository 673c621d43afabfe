"""Ties, in every form of weights.

Neurons whose crossings cannot be told apart in floats, 2**10 units of rounding, fire in one instant, in the
order of their indices, before any of their spikes is applied.  The twin applies the same rule in 30 digits.
"""

import numpy as np
import pytest

from snn import NetworkState, SpikingNetwork, simulate
from tests.reference.simulator import simulate_slowly
from tests.reference.weight_forms import (
    ANY_MATRIX,
    FORMS,
    NAMES,
    SIGNED,
    assert_same_spikes_as_twin,
    names_and_seeds,
    stored,
)

TOLERANCE = 1e-9
# Decimals, of which few are floats: crossings that are equal on paper differ in their last bits.
DECIMALS = [0.01, 0.07, 0.18, 0.36, 1.29, 1.66, 2.29, 2.5, 90.0]


def assert_together(run, groups):
    """All members of a group have the same spikes, to the last bit of their times."""
    for members in groups:
        for neuron in members[1:]:
            np.testing.assert_array_equal(run.spikes.of(neuron), run.spikes.of(members[0]))
    order = np.lexsort((run.spikes.neurons, run.spikes.times))
    np.testing.assert_array_equal(order, np.arange(len(order)))


def tied_network(name, rng, *, decimals):
    """Return (network, weights, groups): neurons of a group have one drive and one column of weights.

    All numbers are dyadic, so that ties survive arithmetic.  With `decimals`, everything that concerns a
    neuron, its threshold, drive and the weights it receives, is multiplied by a decimal of its own: the same
    spikes on paper, whose floats differ in their last bits.
    """
    form = FORMS[name]
    group = np.repeat(np.arange(3), rng.integers(1, 4, 3))
    rng.shuffle(group)
    base = rng.integers(-16, 5, (3, 3))[np.ix_(group, group)] / 32.0
    np.fill_diagonal(base, 0.0)
    scale = rng.choice(DECIMALS, len(group)) if decimals else np.ones(len(group))
    drive = rng.integers(1, 12, 3)[group] / 8.0
    weights, copies = base, 1
    if form.signed:
        cross = np.diag(-rng.integers(0, 4, 3)[group] / 4.0)
        weights, copies = np.block([[base, cross - base], [cross - base, base]]), 2
    elif form.multiple > 1:  # on a grid, weights within positions only: no border breaks a tie
        weights, copies = np.kron(np.eye(form.multiple), base), form.multiple
    scale, group, drive = np.tile(scale, copies), np.tile(group, copies), np.tile(drive, copies)
    weights = weights * scale
    network = stored(name, weights, drive * scale, rng.choice([1.0, 2.0], 3)[group] * scale)
    # Positive and negative neurons of pairs have one drive too, and are all equal.
    return network, weights, [np.flatnonzero(group == g) for g in range(3)]


@pytest.mark.parametrize(("name", "seed"), names_and_seeds(12))
@pytest.mark.parametrize("decimals", [False, True], ids=["exact", "up to rounding"])
def test_equal_neurons_fire_together_in_the_order_of_their_indices(seed, decimals, name):
    rng = np.random.default_rng([4, seed])
    network, weights, groups = tied_network(name, rng, decimals=decimals)
    run = assert_same_spikes_as_twin(network, weights, 10.0)
    assert run.n_spikes > 5
    assert_together(run, groups)


@pytest.mark.parametrize("name", ANY_MATRIX)
def test_neurons_that_inhibit_each_other_fire_together_first(name):
    """All six cross at 1; only then do they hear of each other, and the quickest recovers first."""
    threshold = np.array([2.5, 1.29, 1.69, 0.18, 2.29, 1.66])
    weights = -5.0 * (1.0 - np.eye(6))
    run = assert_same_spikes_as_twin(stored(name, weights, threshold, threshold), weights, 20.0)
    np.testing.assert_array_equal(run.spike_counts, [10, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(run.spikes.neurons[:6], np.arange(6))
    np.testing.assert_array_equal(run.spikes.times[:6], run.spikes.times[0])


@pytest.mark.parametrize("name", ANY_MATRIX)
def test_crossings_that_differ_in_their_last_bit_are_one_instant(name):
    """0.01 / 0.0025 and 0.36 / 0.09 are 4 on paper."""
    weights = np.array([[0.0, -5.0], [-5.0, 0.0]])
    run = assert_same_spikes_as_twin(stored(name, weights, [0.0025, 0.09], [0.01, 0.36]), weights, 6.0)
    np.testing.assert_array_equal(run.spike_counts, [1, 1])
    np.testing.assert_array_equal(run.spikes.neurons, [0, 1])


@pytest.mark.parametrize(("name", "seed"), names_and_seeds(12, ANY_MATRIX))
def test_networks_made_of_ties(seed, name):
    """Periods with common multiples, so that different groups meet; decimals for thresholds and weights."""
    rng = np.random.default_rng([5, seed])
    n_neurons = int(rng.integers(2, 7))
    threshold = np.round(rng.uniform(0.01, 3.0, n_neurons), 2)
    drive = np.round(threshold * rng.choice([0.5, 1.0, 1.0, 2.0], n_neurons), 3)
    weights = np.round(rng.choice([0.0, 0.0, -0.1, -5.0], (n_neurons, n_neurons)), 2)
    np.fill_diagonal(weights, 0.0)
    assert_same_spikes_as_twin(stored(name, weights, drive, threshold), weights, 12.0)


@pytest.mark.parametrize(("name", "seed"), names_and_seeds(6, SIGNED))
def test_both_neurons_of_a_pair_tied(seed, name):
    """Without correlation both neurons of a pair have one drive, and their lateral spikes cancel."""
    rng = np.random.default_rng([6, seed])
    lateral = rng.integers(-8, 9, (3, 3)) / 32.0
    np.fill_diagonal(lateral, 0.0)
    crossed = np.diag(-rng.integers(0, 4, 3) / 4.0) - lateral
    weights = np.block([[lateral, crossed], [crossed, lateral]])
    drive = np.tile(rng.uniform(0.2, 1.0, 3), 2)
    run = assert_same_spikes_as_twin(stored(name, weights, drive), weights, 10.0)
    assert_together(run, [(0, 3), (1, 4), (2, 5)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("threshold", [1.0, 2.0, 2.5])
@pytest.mark.parametrize("period", [4.0, 8.0, 2000.0])
def test_a_spike_at_the_stop_belongs_to_the_run(period, threshold, name):
    """A slow neuron crosses on paper at the stop, and rounding would put it a last bit behind."""
    n_neurons = FORMS[name].n_neurons(1)
    weights = np.zeros((n_neurons, n_neurons))
    network = stored(name, weights, np.full(n_neurons, threshold / period), threshold)
    for n_spikes in (1, 2, 3, 5):
        np.testing.assert_array_equal(simulate(network, n_spikes * period).spike_counts, n_spikes)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_a_stop_at_a_tie_splits_it_in_no_way(seed, name):
    """Stopped at an instant with several spikes, or a last bit beside it: all of them belong to one side."""
    network, _, groups = tied_network(name, np.random.default_rng([7, seed]), decimals=True)
    whole = simulate(network, 6.0, record_spikes=True)
    for instant in np.unique(whole.spikes.times)[:4]:
        for stop in (instant, np.nextafter(instant, 0.0), np.nextafter(instant, np.inf)):
            first = simulate(network, stop, record_spikes=True)
            second = simulate(network, 6.0 - stop, state=first.state, record_spikes=True)
            assert_together(first, groups)
            assert_together(second, groups)
            neurons = np.concatenate([first.spikes.neurons, second.spikes.neurons])
            np.testing.assert_array_equal(neurons, whole.spikes.neurons)
            times = np.concatenate([first.spikes.times, second.spikes.times])
            np.testing.assert_allclose(times, whole.spikes.times, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ANY_MATRIX)
def test_a_tie_at_the_very_end_belongs_to_the_run(name):
    threshold = np.array([2.0, 0.25, 1.0, 8.0])
    run = simulate(stored(name, -5.0 * (1.0 - np.eye(4)), threshold, threshold), 1.0, record_spikes=True)
    np.testing.assert_array_equal(run.spikes.neurons, np.arange(4))
    np.testing.assert_array_equal(run.spikes.times, 1.0)
    np.testing.assert_allclose(run.state.synaptic_current, -15.0, rtol=1e-15)


# --- at the threshold from the start ----------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("duration", [1e-6, 0.01, 1.0])
def test_no_neuron_at_its_threshold_is_lost_to_rounding(name, duration):
    """Whatever arithmetic its potential goes through before it is compared."""
    rng = np.random.default_rng(18)
    n_neurons = FORMS[name].n_neurons(500)
    threshold, current = rng.uniform(1.0, 2.0, n_neurons), -rng.uniform(1.0, 50.0, n_neurons)
    network = stored(name, np.zeros((n_neurons, n_neurons)), np.ones(n_neurons), threshold)
    state = NetworkState(membrane_potential=threshold, synaptic_current=current)
    run = simulate(network, duration, state=state, record_spikes=True)
    np.testing.assert_array_equal(run.spikes.neurons, np.arange(n_neurons))
    np.testing.assert_array_equal(run.spikes.times, 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_neuron_at_its_threshold_fires_at_once_even_when_inhibited(name):
    n_neurons = FORMS[name].n_neurons(2)
    weights = np.zeros((n_neurons, n_neurons))
    network = stored(name, weights, np.ones(n_neurons))
    potential, current = np.zeros(n_neurons), np.zeros(n_neurons)
    potential[0], current[0] = 1.0, -5.0
    state = NetworkState(membrane_potential=potential, synaptic_current=current)
    run = simulate(network, 1.5, state=state, record_spikes=True)
    np.testing.assert_array_equal(run.spikes.neurons, np.arange(n_neurons))
    np.testing.assert_array_equal(run.spikes.times, [0.0] + (n_neurons - 1) * [1.0])
    slow = simulate_slowly(weights, np.ones(n_neurons), 1.0, 1.5, state=state)
    np.testing.assert_array_equal(slow.neurons, run.spikes.neurons)


@pytest.mark.parametrize("name", NAMES)
def test_neurons_a_last_bit_below_their_thresholds_fire_with_those_at_them(name):
    """All fire at time 0, although each would stop all others that came later."""
    n_neurons = FORMS[name].n_neurons(5)
    weights = FORMS[name].nearest(-5.0 * (1.0 - np.eye(n_neurons)))
    rng = np.random.default_rng(9)
    threshold = np.round(rng.uniform(0.5, 3.0, n_neurons), 2)
    potential = threshold.copy()
    potential[1::2] = np.nextafter(threshold[1::2], 0.0)
    network = SpikingNetwork(FORMS[name].store(weights), np.ones(n_neurons), threshold)
    state = NetworkState(membrane_potential=potential, synaptic_current=np.zeros(n_neurons))
    run = simulate(network, 0.01, state=state, record_spikes=True)
    np.testing.assert_array_equal(run.spikes.neurons, np.arange(n_neurons))
    np.testing.assert_array_equal(run.spikes.times, 0.0)
    slow = simulate_slowly(weights, np.ones(n_neurons), threshold, 0.01, state=state)
    np.testing.assert_array_equal(slow.neurons, run.spikes.neurons)

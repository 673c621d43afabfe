"""Every form at sizes where screening is at work, against a simulator that touches every neuron.

The plain simulator is itself compared with the twin in 30 digits, here.
"""

import numpy as np
import pytest

from snn import Exact, simulate
from tests.reference.networks import random_weights
from tests.reference.plain_simulator import simulate_plainly
from tests.reference.simulator import simulate_slowly
from tests.reference.weight_forms import (
    ANY_MATRIX,
    FORMS,
    NAMES,
    bounded,
    random_matrix,
    random_state,
    sparse_coding,
    stored,
)

# Times differ by rounding, which a spike passes on to those that follow from it: 1e-16 becomes 1e-13 or so
# in these runs.  Intervals between spikes are a million times this.
TOLERANCE = 1e-9
SCREENED = tuple(name for name in NAMES if FORMS[name].screened)
N_CASES = 40
KINDS = ("coding", "coherent", "mixed", "excitatory", "late")


# --- the plain simulator ----------------------------------------------------------------------


def assert_plain_equals_twin(weights, bias, threshold, duration, state=None):
    plain = simulate_plainly(weights, bias, threshold, duration, state=state)
    slow = simulate_slowly(weights, bias, threshold, duration, state=state)
    np.testing.assert_array_equal(plain.neurons, slow.neurons)
    np.testing.assert_allclose(plain.times, slow.times, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(plain.membrane_potential, slow.membrane_potential, atol=1e-8, rtol=1e-12)
    np.testing.assert_allclose(plain.synaptic_current, slow.synaptic_current, atol=1e-8)
    return plain


@pytest.mark.parametrize("sign", [1, -1, 0], ids=["excitatory", "inhibitory", "mixed"])
@pytest.mark.parametrize("seed", range(34))
def test_plain_simulator_equals_the_twin(seed, sign):
    rng = np.random.default_rng([seed, sign + 1])
    n_neurons = int(rng.integers(1, 9))
    weights = random_weights(rng, n_neurons, density=rng.choice([0.3, 1.0]), sign=sign, strength=0.8)
    network = stored("dense", weights, rng.uniform(-0.5, 1.5, n_neurons), rng.uniform(1.0, 3.0, n_neurons))
    state = random_state(rng, network) if seed % 2 else None
    assert_plain_equals_twin(weights, network.soma_bias, network.firing_threshold, 12.0, state)


@pytest.mark.parametrize("kind", KINDS)
def test_plain_simulator_equals_the_twin_on_a_hundred_neurons(kind):
    weights, bias, threshold = network_of(kind, "dense", np.random.default_rng(1), 100)
    assert len(assert_plain_equals_twin(weights, bias, threshold, 4.0).times) > 3


# --- networks of which few neurons fire -------------------------------------------------------


def network_of(kind, name, rng, about):
    """Return (weights, soma_bias, firing_threshold) of a network of about this number of neurons."""
    if kind in ("coding", "coherent"):
        coherence = rng.uniform(0.1, 0.6) if kind == "coherent" else 0.0
        weights, bias = sparse_coding(
            name, rng, about, int(rng.integers(20, 60)), int(rng.integers(1, 12)), coherence=coherence
        )
        return weights, bias, 1.0
    if kind == "late":
        return late_network(name, rng, about)
    # A few are driven; most have a drift away from the threshold.
    sign = 1 if kind == "excitatory" else 0
    weights = random_matrix(name, rng, about, sign=sign, density=rng.choice([0.2, 1.0]))
    n = len(weights)
    bias = np.where(rng.uniform(size=n) < 0.15, rng.uniform(0.0, 1.5, n), rng.uniform(-1.0, 0.1, n))
    return weights, bias, rng.uniform(1.0, 2.0, n)


def late_network(name, rng, about):
    """Neurons far below their thresholds, which rare spikes of others lift across them at once.

    No forecast from the past has them fire.
    """
    form = FORMS[name]
    n = form.n_neurons(about)
    group = np.arange(n) % 8
    weights = np.zeros((n, n))
    # Sources of group 0 excite targets of group 1, which excite nothing.
    sources, targets = np.flatnonzero(group == 0), np.flatnonzero(group == 1)
    weights[np.ix_(sources, targets)] = np.where(
        rng.uniform(size=(len(sources), len(targets))) < 0.2, rng.uniform(2.0, 5.0), 0.0
    )
    if form.signed or form.multiple > 1:
        # What fits these forms feeds back; so it is kept weak, and only the thresholds differ.
        weights = bounded(form.nearest(weights), 0.9)
    bias = np.where(group == 0, rng.uniform(0.02, 0.1, n), -rng.uniform(0.02, 0.5, n))
    bias[group == 2] = rng.uniform(0.3, 1.0, (group == 2).sum())
    threshold = np.ones(n)
    return weights, bias, threshold


def assert_same_run(run, plain, n_spikes_at_least=0):
    """Compare a run of one copy, its times and its neurons with the plain simulator."""
    advanced, times, neurons = run
    np.testing.assert_array_equal(neurons, plain.neurons)
    np.testing.assert_allclose(times, plain.times, rtol=0, atol=TOLERANCE)
    counts = np.bincount(plain.neurons, minlength=len(plain.membrane_potential))
    np.testing.assert_array_equal(advanced.spike_counts[0], counts)
    scale = 1.0 + np.abs(plain.membrane_potential)
    np.testing.assert_allclose(
        advanced.membrane_potential[0] / scale, plain.membrane_potential / scale, rtol=0, atol=TOLERANCE
    )
    np.testing.assert_allclose(advanced.synaptic_current[0], plain.synaptic_current, atol=TOLERANCE)
    assert len(times) >= n_spikes_at_least


def advanced_to(network, duration, state=None, **options):
    run = Exact(**options).start(network, network.soma_bias[np.newaxis], state)
    times, neurons, _ = run.advance(duration, record=True)
    return run, times, neurons


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_networks_in_which_few_neurons_fire(kind, name):
    """2,000 networks of 64 to 400 neurons, a third of them from a random state."""
    rng = np.random.default_rng([KINDS.index(kind), 1])
    screened_share = 0.0
    for case in range(N_CASES):
        about = int(rng.integers(64, 200) if case % 4 else rng.integers(200, 395))
        duration = rng.choice([5.0, 15.0, 40.0])
        weights, bias, threshold = network_of(kind, name, rng, about)
        network = stored(name, weights, bias, threshold)
        state = random_state(rng, network, current=1.0) if case % 3 == 0 else None
        run = advanced_to(network, duration, state)
        plain = simulate_plainly(weights, bias, network.firing_threshold, duration, state=state)
        assert_same_run(run, plain)
        screened_share += run[0].screened_time[0] / duration / N_CASES
    if name in SCREENED and kind in ("coding", "late"):
        assert screened_share > 0.1


@pytest.mark.parametrize("name", NAMES)
def test_with_and_without_screening(name):
    """Without it every neuron is integrated: the same spikes to rounding, and no time of screening."""
    rng = np.random.default_rng(11)
    weights, bias = sparse_coding(name, rng, 400, 80, 10)
    network = stored(name, weights, bias)
    plain = simulate_plainly(weights, bias, 1.0, 60.0)
    screened = advanced_to(network, 60.0)
    every = advanced_to(network, 60.0, screening=False)
    assert_same_run(screened, plain, n_spikes_at_least=50)
    assert_same_run(every, plain)
    assert every[0].screened_time[0] == 0.0
    if name in SCREENED:
        assert screened[0].screened_time[0] > 20.0


@pytest.mark.parametrize("name", SCREENED)
def test_large_networks(name):
    """Hundreds of spikes between two looks at the screened neurons."""
    rng = np.random.default_rng(3)
    weights, bias = sparse_coding(name, rng, 1333, 250, 30)
    run = advanced_to(stored(name, weights, bias), 150.0)
    assert_same_run(run, simulate_plainly(weights, bias, 1.0, 150.0), n_spikes_at_least=1000)
    assert run[0].screened_time[0] > 120.0


@pytest.mark.parametrize("name", ANY_MATRIX)
def test_a_silent_neuron_that_wakes_late_is_not_missed(name):
    """Far below its threshold, it is screened, until a change of others lets it rise."""
    n = 200
    bias = np.full(n, -0.5)
    bias[:6] = 1.0
    weights = np.zeros((n, n))
    # Neuron 6 fires after a long rise, and each of its spikes lifts neuron 7 across its threshold at once.
    bias[6] = 0.021
    weights[6, 7] = 4.0
    bias[7] = -0.03
    run = advanced_to(stored(name, weights, bias), 200.5)
    assert_same_run(run, simulate_plainly(weights, bias, 1.0, 200.5))
    assert run[0].spike_counts[0, 6] == 4
    assert run[0].spike_counts[0, 7] > 0
    if name in SCREENED:
        assert run[0].screened_time[0] > 100.0


@pytest.mark.parametrize("name", ANY_MATRIX)
@pytest.mark.parametrize("same_units", [True, False])
def test_equal_neurons_fire_together_in_the_order_of_their_indices(same_units, name):
    """Equal inputs tie, also among the neurons of the active set, and also to rounding."""
    rng = np.random.default_rng(5)
    single, bias = sparse_coding("dense", rng, 200, 60, 4)
    # Two neurons an atom, which inhibit each other as they do all others.
    weights = np.tile(single - np.eye(200), (2, 2))
    np.fill_diagonal(weights, 0.0)
    scale = np.ones(400)
    if not same_units:  # and the same is the same in other units but for rounding
        scale[200:] = rng.uniform(0.5, 2.0, 200)
    network = stored(name, weights * scale, np.tile(bias, 2) * scale, scale)
    run, times, neurons = advanced_to(network, 80.0)
    if name in SCREENED:
        assert run.screened_time[0] > 20.0
    assert len(times) > 50
    np.testing.assert_array_equal(times[::2], times[1::2])
    np.testing.assert_array_equal(neurons[::2] + 200, neurons[1::2])


@pytest.mark.parametrize("name", NAMES)
def test_screening_is_part_of_what_changes_no_bit(name):
    """Recording, pauses and company, at a size where screening is at work."""
    rng = np.random.default_rng(8)
    weights, bias = sparse_coding(name, rng, 400, 80, 6)
    network = stored(name, weights, bias)
    network.weights.toarray()  # rows of weights on demand: all are known, to every run
    drives = bias * rng.uniform(0.3, 1.0, (4, 1))
    together = Exact().start(network, drives)
    together.advance(50.0)
    if name in SCREENED:
        assert (together.screened_time > 0.0).any()
    for k in range(4):
        paused = Exact().start(network, drives[k : k + 1], updates_per_call=1)
        paused.advance(50.0, record=True)
        np.testing.assert_array_equal(together.spike_counts[k], paused.spike_counts[0])
        np.testing.assert_array_equal(together.membrane_potential[k], paused.membrane_potential[0])
        np.testing.assert_array_equal(together.synaptic_current[k], paused.synaptic_current[0])
        np.testing.assert_array_equal(together.screened_time[k], paused.screened_time[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_run_cut_into_pieces_is_one_run(name):
    """`simulate` from the state of the run before, at a size where screening is at work."""
    rng = np.random.default_rng(9)
    weights, bias = sparse_coding(name, rng, 400, 80, 8)
    network = stored(name, weights, bias)
    plain = simulate_plainly(weights, bias, 1.0, 40.0)
    state, times, neurons = None, [], []
    for duration in (0.3, 12.7, 20.0, 7.0):
        run = simulate(network, duration, state=state, record_spikes=True)
        state = run.state
        times.append(run.spikes.times)
        neurons.append(run.spikes.neurons)
    np.testing.assert_array_equal(np.concatenate(neurons), plain.neurons)
    np.testing.assert_allclose(np.concatenate(times), plain.times, rtol=0, atol=TOLERANCE)

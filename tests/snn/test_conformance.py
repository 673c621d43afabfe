"""What every form of weights must do: the spikes of the slow twin, and the exact identities.

The forms are those of `tests/reference/weight_forms.py`; the other files `test_conformance_*` go on.
"""

import math

import numpy as np
import pytest

from snn import NetworkState, SpikingNetwork, simulate
from snn.record import traces
from tests.reference.networks import classo_network, random_dictionary, random_sign_pair_network
from tests.reference.weight_forms import (
    ANY_MATRIX,
    NAMES,
    SIGNED,
    assert_same_as_twin,
    in_form,
    names_and_seeds,
    random_matrix,
    random_state,
    require_sums,
    sparse_coding,
    stored,
)

TOLERANCE = 1e-9  # as in `assert_same_spikes_as_twin`, which says why


# --- the weights themselves -------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("about", [6, 24])
def test_weights_are_those_of_the_dense_matrix(name, about):
    rng = np.random.default_rng([about, 8])
    weights = random_matrix(name, rng, about, density=0.6)
    n_neurons = len(weights)
    network = stored(name, weights, np.ones(n_neurons))
    np.testing.assert_array_equal(network.weights.toarray(), weights)
    require_sums(network.weights, weights)
    np.testing.assert_array_equal(network.out_degree, np.count_nonzero(weights, axis=1))


# --- the twin ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "seed"), names_and_seeds(34))
@pytest.mark.parametrize("sign", [1, -1, 0], ids=["excitatory", "inhibitory", "mixed"])
def test_random_networks(seed, sign, name):
    """Networks of 1 to 12 neurons, half of them from a random state."""
    rng = np.random.default_rng([seed, sign + 1])
    about = int(rng.integers(1, 9))
    weights = random_matrix(name, rng, about, density=rng.choice([0.3, 1.0]), sign=sign)
    n_neurons = len(weights)
    network = stored(name, weights, rng.uniform(-0.5, 1.5, n_neurons), rng.uniform(1.0, 3.0, n_neurons))
    assert_same_as_twin(network, weights, 12.0, random_state(rng, network) if seed % 2 else None)


@pytest.mark.parametrize(("name", "seed"), names_and_seeds(6))
def test_networks_that_code_a_signal(seed, name):
    rng = np.random.default_rng([1, seed])
    weights, bias = sparse_coding(name, rng, int(rng.integers(2, 9)), 3, 1)
    network = stored(name, weights, bias)
    assert_same_as_twin(network, weights, 15.0, random_state(rng, network) if seed % 2 else None)


@pytest.mark.parametrize(("name", "seed"), names_and_seeds(10, (*ANY_MATRIX, *SIGNED)))
def test_sign_pairs_of_any_cross_weight(seed, name):
    rng = np.random.default_rng([2, seed])
    pairs = random_sign_pair_network(rng, int(rng.integers(1, 5)), cross=rng.uniform(-0.5, 1.0))
    network = in_form(pairs, name)
    state = random_state(rng, network) if seed % 2 else None
    assert_same_as_twin(network, pairs.weights.toarray(), 15.0, state)


@pytest.mark.parametrize(("name", "seed"), names_and_seeds(10))
def test_without_drive_only_the_initial_currents_fire(seed, name):
    """Bias 0: a spike needs a current larger than what is left to the threshold."""
    rng = np.random.default_rng([3, seed])
    weights = random_matrix(name, rng, 5, strength=0.9)
    n_neurons = len(weights)
    network = stored(name, weights, np.zeros(n_neurons), rng.uniform(0.5, 1.5, n_neurons))
    state = NetworkState(
        membrane_potential=np.zeros(n_neurons), synaptic_current=rng.uniform(0.0, 6.0, n_neurons)
    )
    assert assert_same_as_twin(network, weights, 30.0, state).n_spikes > 0


@pytest.mark.parametrize(("name", "seed"), names_and_seeds(5))
def test_networks_that_never_fire(seed, name):
    rng = np.random.default_rng([4, seed])
    weights = random_matrix(name, rng, 6)
    n_neurons = len(weights)
    network = stored(name, weights, -rng.uniform(0.0, 1.0, n_neurons), rng.uniform(1.0, 2.0, n_neurons))
    state = NetworkState(
        membrane_potential=np.zeros(n_neurons), synaptic_current=rng.uniform(-2.0, 0.99, n_neurons)
    )
    assert assert_same_as_twin(network, weights, 50.0, state).n_spikes == 0


@pytest.mark.parametrize("name", ["grid", "one position", "dense"])
def test_slow_neurons_among_silent_ones(name):
    """Spikes far apart, among neurons that never fire."""
    rng = np.random.default_rng(5)
    weights = random_matrix(name, rng, 12)
    network = stored(name, weights, rng.choice([-0.1, 0.01, 0.05], len(weights)))
    assert_same_as_twin(network, weights, 300.0)


# --- identities -------------------------------------------------------------------------------


def identity_networks():
    rng = np.random.default_rng(21)
    networks = {}
    for name in NAMES:
        weights, bias = sparse_coding(name, rng, 30, 15, 12)
        networks[f"{name}, coding"] = weights, stored(name, weights, 2.0 * bias)
        weights = random_matrix(name, rng, 12)
        n_neurons = len(weights)
        bias, threshold = rng.uniform(-0.5, 1.5, n_neurons), rng.uniform(1.0, 2.0, n_neurons)
        networks[f"{name}, mixed"] = weights, stored(name, weights, bias, threshold)
    weights = random_matrix("sparse", rng, 40, density=0.15)
    networks["sparse, few weights"] = weights, stored("sparse", weights, rng.uniform(-0.5, 1.5, 40), 1.3)
    free_norms = classo_network(rng.standard_normal((20, 10)), rng.standard_normal(10), 0.1)
    networks["atoms of free norms"] = free_norms.weights.toarray(), free_norms
    return networks


IDENTITY_NETWORKS = identity_networks()


@pytest.fixture(params=IDENTITY_NETWORKS)
def weights_and_network(request):
    return IDENTITY_NETWORKS[request.param]


def counts_at(spikes, times):
    """Spikes of each neuron by each time, counted naively."""
    fired = spikes.neurons[:, np.newaxis] == np.arange(spikes.n_neurons)
    return np.array([fired[spikes.times <= t].sum(axis=0) for t in times])


@pytest.mark.parametrize("from_rest", [True, False])
def test_spikes_are_those_of_the_model(weights_and_network, from_rest):
    """Rebuilt from the spike train alone: neurons that fire are at 0, and none is above its threshold."""
    _, network = weights_and_network
    rng = np.random.default_rng(1)
    state = None if from_rest else random_state(rng, network, current=1.0)
    run = simulate(network, 60.0, state=state, record_spikes=True)
    spikes = run.spikes
    assert len(spikes) > 50
    potential = traces.membrane_potential(network, spikes, spikes.times, initial_state=state)
    assert (potential <= network.firing_threshold + TOLERANCE).all()
    own = potential[np.arange(len(spikes)), spikes.neurons]
    np.testing.assert_allclose(own, 0.0, atol=TOLERANCE)
    end = [spikes.stop]
    for name, trace in [
        ("membrane_potential", traces.membrane_potential(network, spikes, end, initial_state=state)),
        (
            "synaptic_current",
            traces.soma_current(network, spikes, end, initial_state=state) - network.soma_bias,
        ),
    ]:
        np.testing.assert_allclose(getattr(run.state, name), trace[0], atol=TOLERANCE, rtol=1e-11)
    average = traces.average_soma_current(network, spikes, end, initial_state=state)[0]
    np.testing.assert_allclose(run.average_soma_current, average, atol=TOLERANCE)


def after_every_spike(network, duration):
    """The simulator's own account after each spike: times, counts, v and mu, and the spikes.

    The run is cut half way to the next spike, and v and mu are what `simulate` says there.
    """
    spikes = simulate(network, duration, record_spikes=True).spikes
    distinct = np.unique(spikes.times)
    times = 0.5 * (distinct[:-1] + distinct[1:])
    state, counts = NetworkState.at_rest(network.n_neurons), np.zeros(network.n_neurons)
    rows = []
    for time in times:
        run = simulate(network, time - state.time, state=state)
        state, counts = run.state, counts + run.spike_counts
        rows.append((counts, state.membrane_potential, network.soma_bias + state.synaptic_current))
    counts, potential, current = (np.array(column) for column in zip(*rows, strict=True))
    np.testing.assert_array_equal(counts, counts_at(spikes, times))
    return times[:, np.newaxis], counts, potential, current, spikes


def test_charge_balances_at_every_spike(weights_and_network):
    """Equations 4 and 5: t (u - theta a) = v(t) - v(0), t (u - beta - W^T a) = mu(0) - mu(t).

    Counts, v and mu are the simulator's; t u is summed from the spike times alone.
    """
    weights, network = weights_and_network
    times, counts, potential, current, spikes = after_every_spike(network, 60.0)
    charge = times * traces.average_soma_current(network, spikes, times[:, 0])
    np.testing.assert_allclose(charge - network.firing_threshold * counts, potential, atol=TOLERANCE)
    # From rest mu(0) = beta.
    received = counts @ weights
    np.testing.assert_allclose(
        charge - times * network.soma_bias - received, network.soma_bias - current, atol=TOLERANCE
    )


@pytest.mark.parametrize("name", ANY_MATRIX)
@pytest.mark.parametrize("unit_norm", [True, False])
def test_kkt_residual_at_every_spike(unit_norm, name):
    """Equation 9: t (b - lambda - G a) = v(t) + mu(t) - mu(0) for a CLASSO network, atoms of any norm.

    All of it from the simulator's counts and states.
    """
    rng = np.random.default_rng(22)
    dictionary = random_dictionary(rng, 40, 20) * (1 if unit_norm else rng.uniform(0.5, 2.0, (40, 1)))
    signal, penalty = rng.standard_normal(20), 0.05
    network = in_form(classo_network(dictionary, signal, penalty), name)
    times, counts, potential, current, _ = after_every_spike(network, 100.0)
    residual = times * (dictionary @ signal - penalty) - counts @ (dictionary @ dictionary.T)
    assert len(times) > 100
    np.testing.assert_allclose(residual, potential + current - network.soma_bias, atol=TOLERANCE)


def test_charge_balances_over_any_time(weights_and_network):
    """Of runs in a row, each satisfies equation 4 with the change of potential over its own time."""
    _, network = weights_and_network
    state = NetworkState.at_rest(network.n_neurons)
    for duration in (3.0, 0.01, 20.0):
        run = simulate(network, duration, state=state, record_spikes=True)
        average = traces.average_soma_current(network, run.spikes, [run.spikes.stop], initial_state=state)[0]
        change = run.state.membrane_potential - state.membrane_potential
        charge = duration * average - network.firing_threshold * run.spike_counts
        np.testing.assert_allclose(charge, change, atol=TOLERANCE)
        state = run.state


@pytest.mark.parametrize("name", ANY_MATRIX)
def test_no_drift_over_a_million_spikes(name):
    """Charge summed independently, with exact summation, against counts and final potentials.

    Times of 1e5 carry 1.5e-11 each, which a current of about 1 turns into potential; the intervals'
    rounding (1e-16 each, random) adds less.  A bias of 1e-14 a spike would show.  All four keep firing: the
    potential of a neuron that does not grows with t, and has no more than its own last bits.
    """
    weights = np.array([[0, -0.3, 0.2, 0], [-0.1, 0, 0, 0.3], [0.2, -0.4, 0, -0.2], [0, 0.1, -0.3, 0]])
    network = stored(name, weights, [3.1, 4.7, 4.3, 3.9], [1.0, 1.3, 0.9, 1.1])
    duration = 1e5
    run = simulate(network, duration, record_spikes=True)
    assert run.n_spikes >= 1_000_000
    ages = duration - run.spikes.times
    recent = ages < 60.0  # e^-60 is below rounding
    current_left = np.array([math.fsum(np.exp(-ages[recent & (run.spikes.neurons == j)])) for j in range(4)])
    counts = np.bincount(run.spikes.neurons, minlength=4)
    np.testing.assert_array_equal(counts, run.spike_counts)
    for i in range(4):
        terms = [duration * network.soma_bias[i]]
        terms += [weights[j, i] * counts[j] for j in range(4)]
        terms += [-weights[j, i] * current_left[j] for j in range(4)]
        charge = math.fsum(terms)
        assert charge == pytest.approx(duration * run.average_soma_current[i], abs=1e-9)
        left = math.fsum([*terms, -network.firing_threshold[i] * counts[i]])
        assert left == pytest.approx(run.state.membrane_potential[i], abs=1e-9)
    np.testing.assert_allclose(run.state.synaptic_current, current_left @ weights, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_identities_after_a_hundred_thousand_spikes(name):
    """Equations 4 and 5 from counts and the final state; a hundred neurons and more that keep firing."""
    rng = np.random.default_rng(6)
    weights = 0.02 * random_matrix(name, rng, 96, sign=-1)
    n_neurons = len(weights)
    bias, threshold = rng.uniform(0.5, 1.5, n_neurons), rng.uniform(0.5, 1.0, n_neurons)
    weights *= 0.3 / np.abs(weights).sum(axis=0).max()
    network: SpikingNetwork = stored(name, weights, bias, threshold)
    time = 1_000.0
    run = simulate(network, time)
    assert run.n_spikes > 50_000
    charge = time * bias + run.spike_counts @ weights - run.state.synaptic_current
    left = charge - threshold * run.spike_counts
    # Sums of 1e3 terms of up to 1e3 units, rounded at each: 1e-13 each, 1e-10 for all of them.
    np.testing.assert_allclose(run.state.membrane_potential, left, rtol=0, atol=TOLERANCE)
    assert (run.state.membrane_potential <= threshold).all()

"""The lazy kernel against the plain ones: the same spikes, in the same order, to rounding."""

import numpy as np
import pytest

from snn import LateralInhibition, NetworkState, SignPairWeights, SpikingNetwork
from snn._kernels import clock, lazy
from snn.event_driven import EventDrivenRun
from tests.reference.networks import random_dictionary, random_mirrored_network, random_weights

# Times differ by rounding, which a spike passes on to those that follow from it: 1e-16 becomes 1e-13 or so
# in these runs.  Intervals between spikes are a million times this.
TOLERANCE = 1e-9


@pytest.fixture(autouse=True)
def _eager_to_be_lazy(monkeypatch):
    """Make small networks lazy as well, to which it does not pay."""
    monkeypatch.setattr(lazy, "COST_OF_WATCHING", 30.0)


def both_runs(network, duration, state=None, soma_bias=None, *, margin=1.0):
    soma_bias = network.soma_bias[np.newaxis] if soma_bias is None else soma_bias
    outcomes = []
    for plainly in (True, False):
        run = EventDrivenRun(network, soma_bias, state, plainly=plainly)
        run.clock[:, clock.MARGIN] *= margin
        outcomes.append((run, *run.advance(duration, record_spikes=True)))
    return outcomes


def assert_same(network, duration, state=None, *, margin=1.0):
    """Return the run of the lazy kernel, having compared it with the plain one's.

    With a negative margin its first guess of whom to watch leaves out neurons that fire.
    """
    (plain, plain_times, plain_neurons), (lazy, times, neurons) = both_runs(
        network, duration, state, margin=margin
    )
    np.testing.assert_array_equal(neurons, plain_neurons)
    np.testing.assert_allclose(times, plain_times, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(lazy.spike_counts, plain.spike_counts)
    scale = 1.0 + np.abs(plain.membrane_potential)
    np.testing.assert_allclose(
        lazy.membrane_potential / scale, plain.membrane_potential / scale, atol=TOLERANCE
    )
    np.testing.assert_allclose(lazy.synaptic_current, plain.synaptic_current, atol=TOLERANCE)
    return lazy


def sparse_coding_network(rng, n_atoms, n_features, support, *, signed=False, coherence=0.0):
    dictionary = random_dictionary(rng, n_atoms, n_features)
    dictionary = coherence * dictionary[:1] + (1.0 - coherence) * dictionary
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    code = np.zeros(n_atoms)
    code[rng.choice(n_atoms, support, replace=False)] = rng.uniform(0.3, 1.5, support)
    correlations = dictionary @ (code @ dictionary + 0.01 * rng.standard_normal(n_features))
    penalty = rng.uniform(0.02, 0.3) * correlations.max()
    gram = dictionary @ dictionary.T
    if signed:
        weights = SignPairWeights(LateralInhibition(gram), np.diag(gram).copy())
        return SpikingNetwork(weights, np.concatenate([correlations - penalty, -correlations - penalty]))
    return SpikingNetwork(LateralInhibition(gram), correlations - penalty)


def random_state(rng, network):
    return NetworkState(
        membrane_potential=network.firing_threshold * rng.uniform(-2.0, 1.0, network.n_neurons),
        synaptic_current=rng.normal(0.0, 1.0, network.n_neurons),
    )


@pytest.mark.parametrize("kind", ["positive", "signed", "coherent", "mixed", "excitatory", "pairs"])
@pytest.mark.parametrize("block", range(10))
def test_thousands_of_random_networks(block, kind):
    """2,400 networks of 64 to 398 neurons, a third of them from a random state."""
    rng = np.random.default_rng([block, len(kind)])
    lazy_time = suspects = 0.0
    for case in range(40):
        n = int(rng.integers(64, 200))
        duration = rng.choice([5.0, 15.0, 40.0])
        if kind in ("positive", "signed"):
            network = sparse_coding_network(
                rng, n, int(rng.integers(20, 60)), int(rng.integers(1, 12)), signed=kind == "signed"
            )
        elif kind == "coherent":
            network = sparse_coding_network(rng, n, 30, 5, coherence=rng.uniform(0.1, 0.6))
        elif kind == "pairs":
            network = random_mirrored_network(rng, n // 2, exchange=rng.uniform(-0.5, 1.0))
        else:
            # A few are driven; most have a drift away from the threshold.
            bias = np.where(rng.uniform(size=n) < 0.15, rng.uniform(0.0, 1.5, n), rng.uniform(-1.0, 0.1, n))
            sign = 1 if kind == "excitatory" else 0
            weights = random_weights(rng, n, sign=sign, strength=0.8, density=rng.choice([0.2, 1.0]))
            network = SpikingNetwork(weights, bias, rng.uniform(1.0, 2.0, n))
        state = random_state(rng, network) if case % 3 == 0 else None
        run = assert_same(network, duration, state, margin=-1.0 if case % 2 else 1.0)
        lazy_time += run.clock[0, clock.LAZY_TIME] / duration
        suspects += run.clock[0, clock.SUSPECTS]
    # Not by watching everybody; and bounds did fail.
    if kind != "pairs":
        assert lazy_time / 40 > 0.1
    assert suspects > 0


@pytest.mark.parametrize("signed", [False, True])
def test_large_networks(signed):
    """Silent neurons in blocks, sources in eights and fours, spans of hundreds of spikes."""
    network = sparse_coding_network(np.random.default_rng(3), 1333, 250, 30, signed=signed)
    run = assert_same(network, 150.0)
    assert run.clock[0, clock.LAZY_TIME] > 120.0


def test_a_silent_neuron_that_wakes_late_is_not_missed():
    """Far below its threshold, it is left out of the spans, until a change of others lets it rise."""
    n = 120
    bias = np.full(n, -0.5)
    bias[:6] = 1.0
    weights = np.zeros((n, n))
    # Neuron 6 fires after a long rise, and each of its spikes lifts neuron 7 across its threshold at once.
    bias[6] = 0.021
    weights[6, 7] = 4.0
    bias[7] = -0.03
    network = SpikingNetwork(weights, bias)
    run = assert_same(network, 200.5)
    assert run.spike_counts[0, 6] == 4
    assert run.spike_counts[0, 7] > 0
    assert run.clock[0, clock.LAZY_TIME] > 100.0
    assert run.clock[0, clock.REDONE] > 0


def test_neurons_in_step_fire_in_the_order_of_their_indices():
    """Equal inputs tie exactly, also among the watched."""
    rng = np.random.default_rng(5)
    single = sparse_coding_network(rng, 60, 30, 4)
    twice = np.tile(single.weights.strength, (2, 2))
    network = SpikingNetwork(LateralInhibition(twice), np.tile(single.soma_bias, 2))
    run = EventDrivenRun(network, network.soma_bias[np.newaxis])
    times, neurons = run.advance(80.0, record_spikes=True)
    assert run.clock[0, clock.LAZY_TIME] > 20.0
    np.testing.assert_array_equal(times[::2], times[1::2])
    np.testing.assert_array_equal(neurons[::2] + 60, neurons[1::2])


def test_pausing_changes_no_bit(monkeypatch):
    network = sparse_coding_network(np.random.default_rng(7), 200, 60, 9)
    whole = EventDrivenRun(network, network.soma_bias[np.newaxis])
    times, neurons = whole.advance(120.0, record_spikes=True)
    monkeypatch.setattr("snn.event_driven.UPDATES_PER_CALL", 1)
    paused = EventDrivenRun(network, network.soma_bias[np.newaxis])
    paused_times, paused_neurons = paused.advance(120.0, record_spikes=True)
    np.testing.assert_array_equal(neurons, paused_neurons)
    np.testing.assert_array_equal(times, paused_times)
    np.testing.assert_array_equal(whole.membrane_potential, paused.membrane_potential)
    np.testing.assert_array_equal(whole.synaptic_current, paused.synaptic_current)


def test_a_copy_does_not_depend_on_the_others():
    rng = np.random.default_rng(8)
    network = sparse_coding_network(rng, 150, 50, 6)
    drives = network.soma_bias * rng.uniform(0.3, 1.0, (5, 1))
    together = EventDrivenRun(network, drives)
    together.advance(50.0)
    for k in range(5):
        alone = EventDrivenRun(network, drives[k : k + 1])
        alone.advance(50.0)
        np.testing.assert_array_equal(together.spike_counts[k], alone.spike_counts[0])
        np.testing.assert_array_equal(together.membrane_potential[k], alone.membrane_potential[0])

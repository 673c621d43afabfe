"""The exact identities of docs/theory.md (equations 4, 5, 9), at every spike and over a million spikes."""

import math

import numpy as np
import pytest

from snn import NetworkState, SpikingNetwork, simulate, traces
from tests.reference.networks import (
    classo_network,
    dense_weights,
    in_form,
    random_dictionary,
    random_mirrored_network,
    random_network,
)

TOLERANCE = 1e-9


def networks():
    rng = np.random.default_rng(21)
    wide = random_network(rng, 40, density=0.15)
    return {
        "classo": classo_network(random_dictionary(rng, 30, 15), 2 * rng.standard_normal(15), 0.1),
        "classo, free norms": classo_network(rng.standard_normal((20, 10)), rng.standard_normal(10), 0.1),
        "signed": random_network(rng, 12),
        "sparse": in_form(wide, "sparse"),
        "mirrored": random_mirrored_network(rng, 15),
    }


@pytest.fixture(params=["classo", "classo, free norms", "signed", "sparse", "mirrored"])
def network(request):
    return networks()[request.param]


def counts_at(spikes, times):
    """Spikes of each neuron by each time, counted naively."""
    fired = spikes.neurons[:, np.newaxis] == np.arange(spikes.n_neurons)
    return np.array([fired[spikes.times <= t].sum(axis=0) for t in times])


@pytest.mark.parametrize("from_rest", [True, False])
def test_the_spikes_are_those_of_the_model(network, from_rest):
    """Rebuilt from the spike train alone: who fires stands at 0, and nobody above threshold."""
    rng = np.random.default_rng(1)
    state = None
    if not from_rest:
        state = NetworkState(
            membrane_potential=network.firing_threshold * rng.uniform(-1, 1, network.n_neurons),
            synaptic_current=rng.normal(0, 1, network.n_neurons),
            time=3.0,
        )
    run = simulate(network, 60.0, state=state, record_spikes=True)
    spikes = run.spikes
    assert len(spikes) > 80
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


def at_every_spike(network, duration):
    """The simulator's own account right after each spike: times, counts, v and mu, and the spikes.

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


def test_charge_balances_at_every_spike(network):
    """Equations 4 and 5: t (u - theta a) = v(t) - v(0), t (u - beta - W^T a) = mu(0) - mu(t).

    Counts, v and mu are the simulator's; t u is summed from the spike times alone.
    """
    times, counts, potential, current, spikes = at_every_spike(network, 60.0)
    charge = times * traces.average_soma_current(network, spikes, times[:, 0])
    np.testing.assert_allclose(charge - network.firing_threshold * counts, potential, atol=TOLERANCE)
    received = counts @ dense_weights(network)
    # From rest mu(0) = beta.
    np.testing.assert_allclose(
        charge - times * network.soma_bias - received, network.soma_bias - current, atol=TOLERANCE
    )


@pytest.mark.parametrize("unit_norm", [True, False])
def test_kkt_residual_at_every_spike(unit_norm):
    """Equation 9: t (b - lambda - G a) = v(t) + mu(t) - mu(0) for a CLASSO network, atoms of any norm.

    All of it from the simulator's counts and states.
    """
    rng = np.random.default_rng(22)
    dictionary = random_dictionary(rng, 40, 20) * (1 if unit_norm else rng.uniform(0.5, 2.0, (40, 1)))
    signal, penalty = rng.standard_normal(20), 0.05
    network = classo_network(dictionary, signal, penalty)
    times, counts, potential, current, _ = at_every_spike(network, 100.0)
    residual = times * (dictionary @ signal - penalty) - counts @ (dictionary @ dictionary.T)
    assert len(times) > 100
    np.testing.assert_allclose(residual, potential + current - network.soma_bias, atol=TOLERANCE)


def test_charge_balance_over_any_window(network):
    """Of two runs in a row, each satisfies equation 4 with the change of potential over its own window."""
    state = NetworkState.at_rest(network.n_neurons)
    for duration in (3.0, 0.01, 20.0):
        run = simulate(network, duration, state=state, record_spikes=True)
        average = traces.average_soma_current(network, run.spikes, [run.spikes.stop], initial_state=state)[0]
        change = run.state.membrane_potential - state.membrane_potential
        charge = duration * average - network.firing_threshold * run.spike_counts
        np.testing.assert_allclose(charge, change, atol=TOLERANCE)
        state = run.state


@pytest.mark.parametrize("form", ["dense", "sparse", "blocks"])
def test_no_drift_over_a_million_spikes(form):
    """Charge summed independently, with exact summation, against counts and final potentials.

    Times of 1e5 carry 1.5e-11 each, which a current of about 1 turns into potential; the intervals'
    rounding (1e-16 each, random) adds less.  A bias of 1e-14 a spike would show.  All four keep firing: the
    potential of a neuron that does not grows with t, and has no more than its own last bits.
    """
    weights = np.array([[0, -0.3, 0.2, 0], [-0.1, 0, 0, 0.3], [0.2, -0.4, 0, -0.2], [0, 0.1, -0.3, 0]])
    network = in_form(SpikingNetwork(weights, [3.1, 4.7, 4.3, 3.9], [1.0, 1.3, 0.9, 1.1]), form)
    duration = 1e5
    run = simulate(network, duration, record_spikes=True)
    assert run.n_spikes >= 1_000_000
    ages = duration - run.spikes.times
    recent = ages < 60.0  # e^-60 is below rounding
    current_left = np.array([math.fsum(np.exp(-ages[recent & (run.spikes.neurons == j)])) for j in range(4)])
    counts = np.array([len(run.spikes.of(j)) for j in range(4)])
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

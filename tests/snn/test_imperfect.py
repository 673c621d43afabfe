"""Imperfect neurons agree with closed forms and exact expectations, and Philox with known answers.

In test_clock_driven.py every step of imperfect neurons is compared with the slow twin.
"""

from dataclasses import replace

import numpy as np
import pytest

from snn import Clock, Imperfections, SpikingNetwork, simulate
from snn._kernels.random_numbers import fill_normals
from snn._kernels.random_numbers import philox as compiled_philox
from snn.run.start import start_run
from tests.reference.clock import normal, philox
from tests.reference.networks import random_network

ALL = {
    "leak": 0.15, "refractory_time": 0.3, "delays": 0.4, "threshold_mismatch": 0.1, "weight_mismatch": 0.2,
    "potential_noise": 0.1, "lost_spikes": 0.2, "seed": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_random_words_are_those_of_philox(counter, key, words):
    """The words equal the known answers of Random123, the program of the authors of Philox."""
    expected = [int(word, 16) for word in words.split()]
    assert [int(word) for word in compiled_philox(*map(np.uint64, (*counter, *key)))] == expected
    assert philox(counter, key) == expected


def test_normals_have_their_moments():
    normals = np.empty(200_001)
    fill_normals(5, 2**40, normals)
    assert abs(normals.mean()) < 4.0 / np.sqrt(len(normals))
    assert abs(normals.var() - 1.0) < 4.0 * np.sqrt(2.0 / len(normals))
    assert abs((normals**4).mean() - 3.0) < 4.0 * np.sqrt(96.0 / len(normals))
    assert abs((normals[:-1] * normals[1:]).mean()) < 4.0 / np.sqrt(len(normals))
    np.testing.assert_allclose(normals[:9], [normal(5, 2**40, i) for i in range(9)], rtol=1e-14)


def test_a_leaky_neuron_fires_at_its_closed_rate():
    """The potential reaches the threshold after -log(1 - l theta / beta) / l, but never if beta < l theta."""
    drive = np.array([0.099, 0.15, 0.5, 2.0])
    network = SpikingNetwork(np.zeros((4, 4)), drive)
    run = simulate(network, 2_000.0, Clock(1 / 256, imperfections=Imperfections(leak=0.1)))
    assert run.spike_counts[0] == 0
    np.testing.assert_allclose(run.spike_rate[1:], 0.1 / -np.log1p(-0.1 / drive[1:]), rtol=2e-3)
    np.testing.assert_allclose(run.state.membrane_potential[0], 0.99, rtol=1e-12)


@pytest.mark.parametrize("leak", [0.0, 0.25])
def test_noise_has_its_variance(leak):
    """The variance is s^2 theta^2 t, or with a leak s^2 theta^2 (1 - e^-2lt) / 2l, for any step."""
    n, noise, time, threshold = 6_000, 0.05, 8.0, np.linspace(1.0, 2.0, 6_000)
    network = SpikingNetwork(np.zeros((n, n)), np.zeros(n), threshold)
    for step in (1.0, 1 / 4):
        given = Imperfections(leak=leak, potential_noise=noise)
        run = simulate(network, time, Clock(step, imperfections=given))
        assert not run.n_spikes
        spread = time if leak == 0.0 else (1.0 - np.exp(-2.0 * leak * time)) / (2.0 * leak)
        shares = (run.state.membrane_potential / threshold) ** 2 / (noise**2 * spread)
        assert abs(shares.mean() - 1.0) < 4.0 * np.sqrt(2.0 / n)


def test_lost_spikes_are_so_many():
    network = SpikingNetwork(np.zeros((200, 200)), np.linspace(5.0, 9.0, 200))
    run = start_run(
        Clock(1 / 8, imperfections=Imperfections(lost_spikes=0.3)), network, network.soma_bias[np.newaxis]
    )
    run.advance(100.0)
    n_spikes = int(run.spike_counts.sum())
    assert n_spikes > 100_000
    n_lost = run.neurons.faults.n_lost
    assert abs(n_lost.sum() - 0.3 * n_spikes) < 4.0 * np.sqrt(0.3 * 0.7 * n_spikes)
    per_neuron = (n_lost[0] - 0.3 * run.spike_counts[0]) / np.sqrt(0.3 * 0.7 * run.spike_counts[0])
    assert 0.8 < per_neuron.std() < 1.2


def test_mismatch_has_its_mean_and_deviation():
    n = 400
    network = SpikingNetwork(np.eye(n) - 1.0, np.ones(n), 2.0)
    for relative in (0.02, 0.3, 1.0):
        chip = Imperfections(weight_mismatch=relative, threshold_mismatch=relative).mismatched(network)
        drawn = -chip.weights.toarray()[~np.eye(n, dtype=bool)]
        assert drawn.min() > 0.0
        assert abs(drawn.mean() - 1.0) < 5.0 * relative / np.sqrt(len(drawn))
        np.testing.assert_allclose(drawn.std(), relative, rtol=0.05)
        np.testing.assert_allclose(np.log(drawn).std(), np.sqrt(np.log1p(relative**2)), rtol=0.01)
        np.testing.assert_allclose(chip.firing_threshold.std() / 2.0, relative, rtol=0.3)
        np.testing.assert_array_equal(chip.soma_bias, network.soma_bias)
    other = Imperfections(threshold_mismatch=1.0, seed=1).mismatched(network)
    assert (other.firing_threshold != chip.firing_threshold).all()
    # Adding another imperfection does not change the mismatch that is drawn.
    alone = Imperfections(threshold_mismatch=1.0).mismatched(network)
    np.testing.assert_array_equal(alone.firing_threshold, chip.firing_threshold)


@pytest.mark.parametrize(
    "given",
    [
        *({name: value} for name, value in ALL.items() if name not in ("weight_mismatch", "seed")),
        {"delays": np.linspace(0.1, 0.5, 30)},
    ],
    ids=str,
)
def test_weights_are_written_out_only_where_each_differs(given, monkeypatch):
    """Writing weights out takes longer than a short run, so equal weights stay those of the ideal network."""
    network = random_network(np.random.default_rng(3), 30)
    clock = Clock(1 / 8, imperfections=Imperfections(**given))
    expected = simulate(replace(network, weights=network.weights.tocsr()), 20.0, clock)
    monkeypatch.setattr(type(network.weights), "tocsr", None)
    run = simulate(network, 20.0, clock)
    np.testing.assert_array_equal(run.state.membrane_potential, expected.state.membrane_potential)
    np.testing.assert_array_equal(run.spike_counts, expected.spike_counts)
    assert run.network.weights is network.weights


def test_a_run_that_starts_again_has_new_noise_and_an_empty_line():
    network = random_network(np.random.default_rng(3), 30)
    clock = Clock(1 / 8, imperfections=Imperfections(**ALL))
    run = start_run(clock, network, network.soma_bias[np.newaxis], window_moments=True)
    run.advance(20.0)
    assert run.pending.any()
    first = run.spike_counts.copy()
    run.membrane_potential[:] = run.synaptic_current[:] = 0.0
    run.restart(np.array([0]))
    of = run.neurons.faults
    for one in (run.charge, run.window_moments, run.pending, of.leaked, of.refused, of.kicks):
        assert not one.any()
    np.testing.assert_array_equal(run.spike_counts, first)
    run.advance(20.0)
    assert (run.spike_counts != 2 * first).any()
    np.testing.assert_array_equal(run.total_steps, [320])

"""Imperfect neurons: slow twins, identities, exact expectations, and draws that depend on nothing else."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from snn import (
    Clock,
    ImperfectClock,
    Imperfections,
    NetworkState,
    RunawayError,
    SpikingNetwork,
    Stimulus,
    simulate_clocked,
)
from snn._kernels.random_numbers import fill_normals, philox
from snn.digital import Digital, DigitalFormat, ImperfectDigital
from snn.digital.imperfect import ImperfectIntegers
from snn.digital.run import Integers
from tests.reference import imperfect as twin
from tests.reference.networks import random_network
from tests.reference.weight_forms import NAMES, random_matrix, stored
from tests.snn.digital.test_simulate_digital import random_digital

STEP = 1 / 8
ALL = {
    "leak": 0.15,
    "refractory_time": 0.3,
    "delays": 0.4,
    "threshold_mismatch": 0.1,
    "weight_mismatch": 0.2,
    "potential_noise": 0.1,
    "lost_spikes": 0.2,
    "seed": 3,
}
ONE_BY_ONE = [{}, *({name: value} for name, value in ALL.items() if name != "seed")]
AT_ONCE = [ALL, {**ALL, "refractory_time": 0.0}]


def named(changes):
    return ", ".join(changes) or "none"


def started(network, imperfections, drives=None, time_step=STEP, **options):
    drives = network.soma_bias[np.newaxis].copy() if drives is None else drives.copy()
    clock = ImperfectClock(time_step, imperfections=imperfections)
    return clock.start(network, drives, window_moments=True, **options)


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
    """The known answers of Random123, its authors' program."""
    expected = [int(word, 16) for word in words.split()]
    assert [int(word) for word in philox(*map(np.uint64, (*counter, *key)))] == expected
    assert twin.philox(counter, key) == expected


def test_normals_have_their_moments():
    normals = np.empty(200_001)
    fill_normals(5, 2**40, normals)
    assert abs(normals.mean()) < 4.0 / np.sqrt(len(normals))
    assert abs(normals.var() - 1.0) < 4.0 * np.sqrt(2.0 / len(normals))
    assert abs((normals**4).mean() - 3.0) < 4.0 * np.sqrt(96.0 / len(normals))
    assert abs((normals[:-1] * normals[1:]).mean()) < 4.0 / np.sqrt(len(normals))
    np.testing.assert_allclose(normals[:9], [twin.normal(5, 2**40, i) for i in range(9)], rtol=1e-14)


@pytest.mark.parametrize("reset", ["subtract", "zero"])
@pytest.mark.parametrize("form", NAMES)
def test_without_imperfections_every_bit_is_the_clocks(form, reset):
    rng = np.random.default_rng(2)
    weights = random_matrix(form, rng, 24)
    n_neurons = len(weights)
    network = stored(form, weights, rng.uniform(-1.0, 5.0, n_neurons), rng.uniform(1.0, 2.0, n_neurons))
    options = {"time_step": 1 / 4, "reset": reset, "record_spikes": True}
    perfect = simulate_clocked(network, 60.0, **options)
    same = simulate_clocked(network, 60.0, imperfections=Imperfections(), **options)
    assert perfect.n_spikes > 100
    np.testing.assert_array_equal(same.spikes.times, perfect.spikes.times)
    np.testing.assert_array_equal(same.spikes.neurons, perfect.spikes.neurons)
    np.testing.assert_allclose(
        same.state.membrane_potential, perfect.state.membrane_potential, rtol=0, atol=1e-11
    )
    np.testing.assert_array_equal(same.window_moments, perfect.window_moments)


OF_NEURONS = np.random.default_rng(5).uniform(0.0, 1.0, 7)
OF_SYNAPSES = np.random.default_rng(6).uniform(-0.4, 1.0, (7, 7)).clip(0.0)
WITH_DELAYS = [{"delays": OF_NEURONS}, {"delays": OF_SYNAPSES}, {**ALL, "delays": OF_SYNAPSES}]


@pytest.mark.parametrize("reset", ["subtract", "zero"])
@pytest.mark.parametrize("integration", ["exact", "euler"])
@pytest.mark.parametrize("changes", [*ONE_BY_ONE, *AT_ONCE, *WITH_DELAYS], ids=named)
def test_equals_the_slow_twin(changes, integration, reset):
    rng = np.random.default_rng(8)
    n_neurons, n_steps = 7, 60
    weights = rng.normal(-0.3, 0.4, (n_neurons, n_neurons))
    np.fill_diagonal(weights, 0.0)
    network = SpikingNetwork(weights, rng.uniform(0.0, 6.0, n_neurons), rng.uniform(1.0, 2.0, n_neurons))
    imperfections = Imperfections(**changes)
    result = simulate_clocked(
        network,
        n_steps / 4,
        time_step=1 / 4,
        integration=integration,
        reset=reset,
        imperfections=imperfections,
        record_spikes=True,
    )
    chip = imperfections.mismatched(network)
    slow = twin.simulate_slowly(chip, imperfections, n_steps, 1 / 4, integration=integration, reset=reset)
    assert len(slow.steps) > 40
    np.testing.assert_array_equal(result.spikes.neurons, slow.neurons)
    np.testing.assert_array_equal(result.spikes.times, slow.steps / 4)
    np.testing.assert_allclose(result.state.membrane_potential, slow.membrane_potential, rtol=0, atol=1e-6)
    np.testing.assert_allclose(result.state.synaptic_current, slow.synaptic_current, rtol=0, atol=1e-11)
    np.testing.assert_allclose(result.average_soma_current * result.duration, slow.charge, rtol=1e-7)
    np.testing.assert_array_equal(result.network.firing_threshold, chip.firing_threshold)


@pytest.mark.parametrize("integration", ["exact", "euler"])
@pytest.mark.parametrize("changes", [*ONE_BY_ONE, *AT_ONCE], ids=named)
def test_identities_hold_with_their_new_terms(changes, integration):
    """(16e) and (16f) of docs/theory.md, at the end of any step."""
    network = random_network(np.random.default_rng(6), 30)
    drives = np.outer([1.0, 2.5], network.soma_bias)
    imperfections = Imperfections(**changes)
    how = ImperfectClock(STEP, imperfections=imperfections, integration=integration)
    run = how.start(network, drives)
    weights = run.network.weights.toarray()
    assert np.array_equal(weights, network.weights.toarray()) == (imperfections.weight_mismatch == 0.0)
    for time in (STEP, 7 * STEP, 400 * STEP):
        run.advance(time)
        v, threshold = run.membrane_potential, run.network.firing_threshold
        charge = v + threshold * run.spike_counts + run.leaked + run.refused - run.noise
        np.testing.assert_allclose(run.charge, charge, rtol=0, atol=1e-9)
        arrived = (run.spike_counts - run.n_lost) @ weights - run.pending
        # Euler's step counts a current `gain` times.
        expected = drives * time + run.gain * (arrived - run.synaptic_current)
        np.testing.assert_allclose(run.charge, expected, rtol=0, atol=1e-9)
    assert run.spike_counts.sum() > 1000
    has = {
        "leak": run.leaked, "refractory_time": run.refused, "potential_noise": run.noise,
        "lost_spikes": run.n_lost, "delays": run.pending,
    }  # fmt: skip
    for name, values in has.items():
        assert values.any() == (changes.get(name, 0.0) > 0.0), name


def test_leaked_charge_is_the_leak_times_the_mean_potential():
    """Summed up from the potentials of all steps of 1/64, by trapezoids."""
    network = random_network(np.random.default_rng(1), 10)
    run = started(network, Imperfections(leak=0.3), time_step=1 / 64)
    total, last, counts = np.zeros((3, 10))
    for step in range(1, 1281):
        run.advance(step / 64)
        # Before the reset at the end of the step.
        risen = run.membrane_potential[0] + network.firing_threshold * (run.spike_counts[0] - counts)
        total += 0.5 * (last + risen) / 64
        last, counts = run.membrane_potential[0].copy(), run.spike_counts[0].copy()
    np.testing.assert_allclose(run.leaked[0], 0.3 * total, rtol=1e-3, atol=1e-4)


def test_a_refractory_neuron_by_hand():
    """It fires every 8 steps, and is refractory for 3; a time of 0.7 is rounded up to 3 steps of 1/4."""
    network = SpikingNetwork([[0.0]], [0.5])
    run = simulate_clocked(
        network, 33.0, time_step=1 / 4, imperfections=Imperfections(refractory_time=0.7), record_spikes=True
    )
    np.testing.assert_array_equal(np.diff(run.spikes.times), np.full(len(run.spikes) - 1, 11 / 4))
    # a = u / (theta + u t): the curve of a neuron with refractory time t.
    assert run.n_spikes == int(33.0 * 0.5 / (1.0 + 0.5 * 0.75))


def test_a_leaky_neuron_fires_at_its_closed_rate():
    """Its potential rises to the threshold in -log(1 - l theta / beta) / l, and not if beta < l theta."""
    drive = np.array([0.099, 0.15, 0.5, 2.0])
    network = SpikingNetwork(np.zeros((4, 4)), drive)
    run = simulate_clocked(network, 2_000.0, time_step=1 / 256, imperfections=Imperfections(leak=0.1))
    expected = 0.1 / -np.log1p(-0.1 / drive[1:])
    assert run.spike_counts[0] == 0
    np.testing.assert_allclose(run.spike_rate[1:], expected, rtol=2e-3)
    np.testing.assert_allclose(run.state.membrane_potential[0], 0.99, rtol=1e-12)


@pytest.mark.parametrize("leak", [0.0, 0.25])
def test_noise_has_its_variance(leak):
    """s^2 theta^2 t without a leak, and s^2 theta^2 (1 - e^-2lt) / 2l with one, whatever the step."""
    n_neurons, noise, time = 6_000, 0.05, 8.0
    threshold = np.linspace(1.0, 2.0, n_neurons)
    network = SpikingNetwork(np.zeros((n_neurons, n_neurons)), np.zeros(n_neurons), threshold)
    for time_step in (1.0, 1 / 4):
        imperfections = Imperfections(leak=leak, potential_noise=noise)
        run = started(network, imperfections, time_step=time_step)
        run.advance(time)
        assert not run.spike_counts.any()
        spread = time if leak == 0.0 else (1.0 - np.exp(-2.0 * leak * time)) / (2.0 * leak)
        shares = (run.membrane_potential[0] / threshold) ** 2 / (noise**2 * spread)
        assert abs(shares.mean() - 1.0) < 4.0 * np.sqrt(2.0 / n_neurons)


def test_lost_spikes_are_so_many():
    network = SpikingNetwork(np.zeros((200, 200)), np.linspace(5.0, 9.0, 200))
    run = started(network, Imperfections(lost_spikes=0.3))
    run.advance(100.0)
    n_spikes = int(run.spike_counts.sum())
    assert n_spikes > 100_000
    spread = np.sqrt(0.3 * 0.7 * n_spikes)
    assert abs(run.n_lost.sum() - 0.3 * n_spikes) < 4.0 * spread
    per_neuron = (run.n_lost[0] - 0.3 * run.spike_counts[0]) / np.sqrt(0.3 * 0.7 * run.spike_counts[0])
    assert 0.8 < per_neuron.std() < 1.2


def test_mismatch_has_its_mean_and_deviation():
    n_neurons = 400
    weights = -np.ones((n_neurons, n_neurons)) + np.eye(n_neurons)
    network = SpikingNetwork(weights, np.ones(n_neurons), 2.0)
    for relative in (0.02, 0.3, 1.0):
        chip = Imperfections(weight_mismatch=relative, threshold_mismatch=relative).mismatched(network)
        drawn = -chip.weights.toarray()[~np.eye(n_neurons, dtype=bool)]
        assert drawn.min() > 0.0
        assert abs(drawn.mean() - 1.0) < 5.0 * relative / np.sqrt(len(drawn))
        np.testing.assert_allclose(drawn.std(), relative, rtol=0.05)
        np.testing.assert_allclose(np.log(drawn).std(), np.sqrt(np.log1p(relative**2)), rtol=0.01)
        np.testing.assert_allclose(chip.firing_threshold.std() / 2.0, relative, rtol=0.3)
        np.testing.assert_array_equal(chip.soma_bias, network.soma_bias)
    same = Imperfections(weight_mismatch=1.0, threshold_mismatch=1.0).mismatched(network)
    other = Imperfections(weight_mismatch=1.0, threshold_mismatch=1.0, seed=1).mismatched(network)
    np.testing.assert_array_equal(same.weights.toarray(), chip.weights.toarray())
    assert (other.firing_threshold != chip.firing_threshold).all()
    # One imperfection more does not draw another chip.
    alone = Imperfections(threshold_mismatch=1.0).mismatched(network)
    np.testing.assert_array_equal(alone.firing_threshold, chip.firing_threshold)


FIELDS = (
    "spike_counts", "membrane_potential", "synaptic_current", "charge", "window_moments", "n_lost", "leaked",
    "refused", "noise", "pending",
)  # fmt: skip


def assert_same(run, other, copies=slice(None)):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(run, name)[copies], getattr(other, name), err_msg=name)


def test_draws_depend_on_seed_step_and_neuron_alone():
    """Not on other copies, their order, pauses, calls of the kernel, or threads."""
    network = random_network(np.random.default_rng(3), 30)
    drives = np.outer([1.0, 0.5, 2.0], network.soma_bias)
    imperfections = Imperfections(**ALL)
    together = started(network, imperfections, drives)
    together.advance(50.0)
    assert together.n_lost.sum() > 50
    for copy in range(3):
        alone = started(network, imperfections, drives[[copy]])
        alone.advance(50.0)
        assert_same(together, alone, [copy])
    cut = started(network, imperfections, drives, updates_per_call=100)
    for time in (0.5, 13.0, 13.1, 50.0):
        cut.advance(time, active=np.array([2, 0, 1]))
    assert_same(cut, together)
    with ThreadPoolExecutor(3) as pool:
        runs = [started(network, imperfections, drives) for _ in range(3)]
        list(pool.map(lambda run: run.advance(50.0), runs))
    for run in runs:
        assert_same(run, together)
    other = started(network, Imperfections(**{**ALL, "seed": 4}), drives)
    other.advance(50.0)
    assert (other.membrane_potential != together.membrane_potential).any(axis=1).all()


def test_a_run_that_starts_again_has_new_noise_and_an_empty_line():
    network = random_network(np.random.default_rng(3), 30)
    run = started(network, Imperfections(**ALL))
    run.advance(20.0)
    assert run.pending.any()
    first = run.spike_counts.copy()
    run.membrane_potential[:] = run.synaptic_current[:] = 0.0
    run.restart(np.array([0]))
    for name in ("charge", "leaked", "refused", "noise", "n_lost", "pending", "window_moments"):
        assert not getattr(run, name).any(), name
    np.testing.assert_array_equal(run.spike_counts, first)
    run.advance(20.0)
    assert (run.spike_counts != 2 * first).any()
    np.testing.assert_array_equal(run.total_steps, [320])


def test_a_run_that_continues_is_one_run():
    """Where the state says all: without delays and refractory time.

    With mismatch, a potential may be above the threshold that was meant.
    """
    network = random_network(np.random.default_rng(3), 30)
    imperfections = Imperfections(
        leak=0.1, potential_noise=0.1, lost_spikes=0.2, weight_mismatch=0.1, threshold_mismatch=0.5
    )
    options = {"time_step": STEP, "imperfections": imperfections, "record_spikes": True}
    whole = simulate_clocked(network, 40.0, **options)
    first = simulate_clocked(network, 15.0, **options)
    assert (first.state.membrane_potential > network.firing_threshold).any()
    second = simulate_clocked(network, 25.0, state=first.state, **options)
    np.testing.assert_array_equal(
        np.concatenate([first.spikes.times, second.spikes.times]), whole.spikes.times
    )
    np.testing.assert_array_equal(second.state.membrane_potential, whole.state.membrane_potential)


def test_clocks_with_other_imperfections_are_others():
    imperfections = Imperfections(leak=0.1)
    assert ImperfectClock(0.25, imperfections=imperfections) == ImperfectClock(
        0.25, imperfections=imperfections
    )
    assert ImperfectClock(0.25, imperfections=imperfections) != ImperfectClock(
        0.25, imperfections=Imperfections(leak=0.2)
    )
    assert ImperfectClock(0.25, imperfections=imperfections) != Clock(0.25)


def random_imperfections(rng, n_neurons):
    shape = [(), (n_neurons,), (n_neurons, n_neurons)][rng.integers(3)]
    return Imperfections(
        leak=rng.choice([0.0, 0.5, 2.0]),
        refractory_time=rng.choice([0.0, 0.3, 2.0]),
        delays=rng.uniform(0.0, 2.0, shape) * rng.choice([0.0, 1.0]),
        potential_noise=rng.choice([0.0, 0.3]),
        lost_spikes=rng.choice([0.0, 0.4]),
        seed=int(rng.integers(2**63)),
    )


@pytest.mark.filterwarnings("ignore:time_step is:UserWarning")
def test_hundreds_of_random_digital_networks_have_the_twins_bits():
    rng = np.random.default_rng(0)
    n_messages = n_refused = 0
    for case in range(400):
        network = random_digital(rng)
        imperfections = random_imperfections(rng, network.n_neurons)
        if imperfections.leak > 0.0 and network.format.potential_bits + network.format.decay_bits > 62:
            continue
        try:
            how = ImperfectIntegers(network=network, imperfections=imperfections)
            run = how.start(network.network, network.network.soma_bias[np.newaxis].copy())
        except ValueError:  # a leak that the decay's bits round to none
            n_refused += 1
            continue
        times, neurons, messages = run.advance(80 * network.time_step, record=True)
        slow = twin.simulate_integers_slowly(network, imperfections, 80)
        steps = np.rint(times / network.time_step).astype(int)
        got = list(zip(steps.tolist(), neurons.tolist(), messages.tolist(), strict=True))
        assert got == slow.messages, case
        state = run.state()
        assert state.membrane_potential.tolist() == slow.potential, case
        assert state.synaptic_current.tolist() == slow.current, case
        np.testing.assert_array_equal(run.overflows[0], slow.overflows)
        n_messages += len(got)
    assert n_messages > 5_000
    assert n_refused < 40


@pytest.mark.filterwarnings("ignore:time_step is:UserWarning")
def test_a_perfect_network_in_integers_keeps_its_bits():
    rng = np.random.default_rng(1)
    for _ in range(50):
        network = random_digital(rng)
        drive = network.network.soma_bias[np.newaxis].copy()
        perfect = Integers(network=network).start(network.network, drive)
        same = ImperfectIntegers(network=network, imperfections=Imperfections()).start(network.network, drive)
        for run in (perfect, same):
            run.advance(50 * network.time_step)
        for name in ("messages", "membrane_potential", "synaptic_current", "overflows", "charge"):
            np.testing.assert_array_equal(getattr(same, name), getattr(perfect, name), err_msg=name)


def test_integers_have_the_mismatch_that_the_clock_has():
    network = random_network(np.random.default_rng(3), 12)
    imperfections = Imperfections(weight_mismatch=0.2, threshold_mismatch=0.1)
    integers = ImperfectDigital(0.25, imperfections=imperfections).prepare(network).network
    chip = imperfections.mismatched(network)
    np.testing.assert_allclose(integers.firing_threshold * integers.unit, chip.firing_threshold, rtol=1e-5)
    largest = np.abs(chip.weights.toarray()).max()
    np.testing.assert_allclose(
        integers.effective_weights, chip.weights.toarray(), rtol=0, atol=largest / 100.0
    )


@pytest.mark.parametrize(
    ("changes", "form", "sentence"),
    [
        (
            {"leak": 1e-6},
            {},
            "leak must be so fast that a potential falls by at least half of 2^-12 in a step",
        ),
        ({"leak": 0.1}, {"potential_bits": 52}, "potential_bits and decay_bits must be at most 62 together"),
        (
            {"potential_noise": 1e13},
            {},
            "potential_noise must add at most 2^60 units to a potential in a step",
        ),
        ({"delays": np.zeros(3)}, {}, "delays must be one number, one for each of 2 neurons"),
    ],
)
def test_what_integers_cannot_have_is_refused(changes, form, sentence):
    how = ImperfectDigital(0.25, DigitalFormat(**form), imperfections=Imperfections(**changes))
    network = SpikingNetwork([[0.0, -0.5], [-0.3, 0.0]], [1.0, 0.7])
    with pytest.raises(ValueError, match=re.escape(sentence)):
        how.start(network, network.soma_bias[np.newaxis])


def test_integers_take_no_state_that_does_not_say_all():
    network = SpikingNetwork([[0.0, -0.5], [-0.3, 0.0]], [1.0, 0.7])
    state = Digital(0.25).start(network, network.soma_bias[np.newaxis]).state()
    how = ImperfectDigital(0.25, imperfections=Imperfections(delays=1.0))
    with pytest.raises(ValueError, match="state must be None with a refractory_time or delays"):
        how.start(network, network.soma_bias[np.newaxis], state)
    how = ImperfectDigital(0.25, imperfections=Imperfections(leak=1.0))
    how.start(network, network.soma_bias[np.newaxis], state)


def test_an_imperfect_digital_time_asks_for_imperfections():
    with pytest.raises(TypeError, match="imperfections must be an Imperfections; got float"):
        ImperfectDigital(0.25, imperfections=0.1)


@pytest.mark.parametrize("cut", [False, True])
def test_a_stimulus_reaches_imperfect_neurons(cut):
    """As a clock's where nothing is imperfect; and no draw depends on where the drive changes."""
    rng = np.random.default_rng(4)
    network = random_network(rng, 20)
    drive = np.stack([network.soma_bias, 2.0 * network.soma_bias])
    stimulus = Stimulus(drive_times=[7.3, 11.0], drive=drive)
    options = {"time_step": STEP, "record_spikes": True}
    if not cut:
        perfect = simulate_clocked(network, 20.0, stimulus=stimulus, **options)
        same = simulate_clocked(network, 20.0, stimulus=stimulus, imperfections=Imperfections(), **options)
        np.testing.assert_array_equal(same.spikes.times, perfect.spikes.times)
        return
    imperfections = Imperfections(**ALL)
    whole = simulate_clocked(network, 20.0, imperfections=imperfections, **options)
    same_drive = Stimulus(drive_times=[7.3], drive=network.soma_bias[np.newaxis])
    parts = simulate_clocked(network, 20.0, stimulus=same_drive, imperfections=imperfections, **options)
    np.testing.assert_array_equal(parts.spikes.times, whole.spikes.times)


@pytest.mark.parametrize(("threshold", "runs_away"), [(1.2, False), (1.0, False), (0.8, True)])
def test_a_sign_pair_has_no_room_for_smaller_thresholds(threshold, runs_away):
    """A spike of one causes 1 / theta^2 of the other's and its own; below one their drives end it."""
    network = SpikingNetwork([[0.0, 1.0], [1.0, 0.0]], [-0.1, -0.1], threshold)
    kicked = NetworkState(membrane_potential=[0.0, 0.0], synaptic_current=[20.0, 0.0])
    if runs_away:
        with pytest.raises(RunawayError):
            simulate_clocked(network, 500.0, time_step=1 / 4, state=kicked)
    else:
        first = simulate_clocked(network, 500.0, time_step=1 / 4, state=kicked)
        second = simulate_clocked(network, 500.0, time_step=1 / 4, state=first.state)
        assert first.n_spikes > 10
        assert second.n_spikes == 0


@pytest.mark.parametrize(("time_step", "stable", "unstable"), [(1 / 4, 8, 12), (1 / 2, 4, 8)])
def test_a_delay_of_a_step_lowers_the_bound_on_steps(time_step, stable, unstable):
    """docs/theory.md, section 7.5: to 1 + 1 / (1 - e^-dt) = 5.52, 3.54; without, it is 9.04, 5.08.

    Of n neurons that inhibit each other by 1/2 the eigenvalue is (n + 1) / 2.
    """
    swings = []
    for n, delay in ((unstable, 0.0), (stable, time_step), (unstable, time_step)):
        drive = 20.0 / time_step * 0.5 * (n + 1) * np.linspace(0.999, 1.001, n)
        network = SpikingNetwork(-0.5 * (1.0 - np.eye(n)), drive)
        run = simulate_clocked(
            network,
            200.0 * time_step,
            time_step=time_step,
            imperfections=Imperfections(delays=delay),
            record_spikes=True,
        )
        steps = np.rint(run.spikes.times / time_step).astype(int)
        swings.append((np.bincount(steps, minlength=201)[101:] / n).std())
    assert max(swings[:2]) < 2.0
    assert swings[2] > 10.0

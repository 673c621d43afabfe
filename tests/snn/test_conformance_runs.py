"""How runs of every form are cut, saved, batched, recorded and interrupted: what must not change a bit."""

import math
import os

import numpy as np
import pytest

from snn import Exact, NetworkState, Simulator, SpikingNetwork, simulate
from tests.processes import at_most, interrupted, run_python
from tests.reference.networks import FIRST_SPIKES, golden_network
from tests.reference.weight_forms import ANY_MATRIX, FORMS, NAMES, random_matrix, random_state, stored

TOLERANCE = 1e-9


def a_network(name, seed=11, about=20):
    rng = np.random.default_rng(seed)
    weights = random_matrix(name, rng, about)
    n_neurons = len(weights)
    network = stored(name, weights, rng.uniform(-0.3, 1.5, n_neurons), rng.uniform(1.0, 2.0, n_neurons))
    network.weights.toarray()  # rows of weights on demand: all are known, to every run
    return network


@pytest.fixture(params=NAMES)
def network(request):
    return a_network(request.param)


def assert_same_bits(one, other):
    np.testing.assert_array_equal(one.spike_counts, other.spike_counts)
    np.testing.assert_array_equal(one.average_soma_current, other.average_soma_current)
    np.testing.assert_array_equal(one.state.membrane_potential, other.state.membrane_potential)
    np.testing.assert_array_equal(one.state.synaptic_current, other.state.synaptic_current)
    assert one.state.time == other.state.time


def assert_same_copy(run, copy, other, other_copy=0):
    np.testing.assert_array_equal(run.spike_counts[copy], other.spike_counts[other_copy])
    np.testing.assert_array_equal(run.membrane_potential[copy], other.membrane_potential[other_copy])
    np.testing.assert_array_equal(run.synaptic_current[copy], other.synaptic_current[other_copy])


# --- recording, repetition, pauses ------------------------------------------------------------


def test_recording_progress_and_repetition_change_no_bit(network, capsys):
    plain = simulate(network, 25.0)
    assert plain.spikes is None
    recorded = simulate(network, 25.0, record_spikes=True)
    assert_same_bits(recorded, plain)
    np.testing.assert_array_equal(recorded.spikes.counts(), plain.spike_counts)
    assert_same_bits(simulate(network, 25.0, progress=True), plain)
    assert "spikes" in capsys.readouterr().err
    again = simulate(network, 25.0, record_spikes=True)
    np.testing.assert_array_equal(again.spikes.times, recorded.spikes.times)
    np.testing.assert_array_equal(again.spikes.neurons, recorded.spikes.neurons)
    assert_same_bits(simulate(network, 25.0, max_spikes=plain.n_spikes), plain)


@pytest.mark.parametrize("name", NAMES)
def test_pauses_change_no_bit_of_currents_that_fade_away(name):
    """Currents too small to count are set to zero, and not at the pauses."""
    n_neurons = FORMS[name].n_neurons(2)
    network = stored(name, np.zeros((n_neurons, n_neurons)), np.where(np.arange(n_neurons) == 0, 20.0, 0.0))
    state = NetworkState(membrane_potential=np.zeros(n_neurons), synaptic_current=np.full(n_neurons, 1e-300))
    whole, paused = (
        Exact().start(network, network.soma_bias[np.newaxis], state, updates_per_call=updates)
        for updates in (10**9, 1)
    )
    for run in (whole, paused):
        run.advance(30.0)
    assert_same_copy(paused, 0, whole)


# --- continuing -------------------------------------------------------------------------------


def test_two_runs_in_a_row_are_one_run(network):
    state = random_state(np.random.default_rng(2), network)
    whole = simulate(network, 40.0, state=state, record_spikes=True)
    first = simulate(network, 13.7, state=state, record_spikes=True)
    second = simulate(network, 40.0 - 13.7, state=first.state, record_spikes=True)
    assert whole.n_spikes > 20
    np.testing.assert_array_equal(first.spike_counts + second.spike_counts, whole.spike_counts)
    neurons = np.concatenate([first.spikes.neurons, second.spikes.neurons])
    np.testing.assert_array_equal(neurons, whole.spikes.neurons)
    times = np.concatenate([first.spikes.times, second.spikes.times])
    np.testing.assert_allclose(times, whole.spikes.times, rtol=0, atol=TOLERANCE)
    charge = 13.7 * first.average_soma_current + (40.0 - 13.7) * second.average_soma_current
    np.testing.assert_allclose(charge, 40.0 * whole.average_soma_current, atol=TOLERANCE)
    np.testing.assert_allclose(
        second.state.membrane_potential, whole.state.membrane_potential, atol=TOLERANCE
    )
    assert second.state.time == pytest.approx(state.time + 40.0, rel=1e-15)


def test_a_saved_state_continues_as_the_state_itself(network, tmp_path):
    first = simulate(network, 6.1)
    first.state.save(tmp_path / "state.npz")
    loaded = NetworkState.load(tmp_path / "state.npz")
    assert_same_bits(simulate(network, 11.2, state=loaded), simulate(network, 11.2, state=first.state))


@pytest.mark.parametrize("name", ANY_MATRIX)
def test_many_short_runs_are_one_run(name):
    """Runs much shorter than the intervals between spikes, cut at round times."""
    golden = golden_network()
    network = stored(name, golden.weights.toarray(), golden.soma_bias, golden.firing_threshold)
    state, counts = None, 0
    for _ in range(400):
        run = simulate(network, 0.1, state=state)
        state, counts = run.state, counts + run.spike_counts
    whole = simulate(network, 40.0)
    np.testing.assert_array_equal(counts, whole.spike_counts)
    np.testing.assert_allclose(state.membrane_potential, whole.state.membrane_potential, atol=1e-10)


def test_another_form_continues_the_same_state():
    """Sign pairs, and the same weights in the forms that take any matrix, in turns."""
    rng = np.random.default_rng(3)
    weights = random_matrix("sign pairs", rng, 64)
    drive = rng.uniform(-0.3, 1.5, 64)
    names = [name for name in NAMES if name in ANY_MATRIX or FORMS[name].signed]
    networks = [stored(name, weights, drive, 1.5) for name in names]
    runs = [simulate(network, 10.0, record_spikes=True) for network in networks]
    onward = [
        simulate(network, 7.0, state=run.state, record_spikes=True)
        for network, run in zip(networks[1:] + networks[:1], runs, strict=True)
    ]
    assert runs[0].n_spikes > 80
    for several in (runs, onward):
        for run in several[1:]:
            np.testing.assert_array_equal(run.spikes.neurons, several[0].spikes.neurons)
            np.testing.assert_allclose(run.spikes.times, several[0].spikes.times, rtol=0, atol=TOLERANCE)
            assert run.operations.synaptic_operations == several[0].operations.synaptic_operations


def test_new_weights_between_runs_keep_the_state(network):
    first = simulate(network, 5.0)
    silent = SpikingNetwork(np.zeros((network.n_neurons,) * 2), network.soma_bias, network.firing_threshold)
    second = simulate(silent, 3.0, state=first.state, record_spikes=True)
    # Without synapses each neuron is on its own: v + beta t + h (1 - e^-t) - theta n.
    expected = (
        first.state.membrane_potential
        + 3.0 * network.soma_bias
        - first.state.synaptic_current * math.expm1(-3.0)
        - network.firing_threshold * second.spike_counts
    )
    np.testing.assert_allclose(second.state.membrane_potential, expected, atol=1e-12)
    np.testing.assert_allclose(
        second.state.synaptic_current, first.state.synaptic_current * math.exp(-3.0), rtol=1e-12, atol=1e-15
    )


def test_inputs_are_left_alone_and_results_are_read_only(network):
    state = NetworkState.at_rest(network.n_neurons)
    run = simulate(network, 2.0, state=state, record_spikes=True)
    assert not state.membrane_potential.any()
    arrays = [
        run.spike_counts,
        run.average_soma_current,
        run.state.membrane_potential,
        run.state.synaptic_current,
        run.spikes.times,
        run.spikes.neurons,
        network.soma_bias,
        network.firing_threshold,
    ]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


# --- copies and threads -----------------------------------------------------------------------


def test_when_a_copy_is_given_up_depends_on_its_own_spikes_alone(network, monkeypatch):
    monkeypatch.setattr("snn.run.exact.LARGEST_BURST", 10)
    monkeypatch.setattr("snn.run.exact.BURST_RATE", 0)
    monkeypatch.setattr("snn.run.exact.SPIKES_PER_NEURON", 0)
    drives = network.soma_bias * np.array([[1.0], [-1e-3], [1.5], [0.5]])
    together = Exact().start(network, drives, gives_up=True)
    paused = Exact().start(network, drives[::-1].copy(), gives_up=True, updates_per_call=1)
    together.advance(40.0)
    paused.advance(40.0)
    np.testing.assert_array_equal(together.is_lost, together.spike_counts.sum(axis=1) > 10)
    assert together.is_lost[0]
    assert not together.is_lost[1]
    for copy, drive in enumerate(drives):
        alone = Exact().start(network, drive[np.newaxis], gives_up=True)
        alone.advance(40.0)
        for run, its_copy in ((together, copy), (paused, 3 - copy)):
            assert_same_copy(run, its_copy, alone)
            assert run.is_lost[its_copy] == alone.is_lost[0]
            assert run.time[its_copy] == alone.time[0]
        # It is where it had been at that time without.
        free = Exact().start(network, drive[np.newaxis])
        free.advance(float(alone.time[0]))
        assert abs(free.spike_counts - alone.spike_counts).sum() <= 2


# --- silence, and the end of patience ---------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_silent_network_ends_at_once(name):
    n_neurons = FORMS[name].n_neurons(2)
    weights = FORMS[name].nearest(-0.5 * (1.0 - np.eye(n_neurons)))
    network = stored(name, weights, -np.ones(n_neurons))
    simulate(network, 1.0)
    with at_most(2.0):
        run = simulate(network, 1e12)
    assert run.n_spikes == 0
    np.testing.assert_array_equal(run.state.membrane_potential, -1e12)


@pytest.mark.parametrize("name", NAMES)
def test_time_of_a_silent_or_slow_network_does_not_grow_with_its_duration(name):
    """Without drive, and with so little that the first spike is far beyond: also at hundreds of neurons."""
    n_neurons = FORMS[name].n_neurons(300)
    network = stored(name, np.zeros((n_neurons, n_neurons)), np.zeros(n_neurons))
    current = NetworkState(membrane_potential=np.zeros(n_neurons), synaptic_current=np.full(n_neurons, 0.9))
    slow = network.with_soma_bias(np.linspace(-1e-9, 1e-9, n_neurons))
    simulate(slow, 1.0)
    with at_most(5.0):  # milliseconds; windows of fixed length would take hours
        assert simulate(network, 1e12, state=current).n_spikes == 0
        assert simulate(slow, 0.9e9).n_spikes == 0
        run = simulate(slow, 2.5e9)
    np.testing.assert_array_equal(run.spike_counts, (2.5e9 * np.maximum(slow.soma_bias, 0.0)).astype(int))


@pytest.mark.parametrize("name", NAMES)
def test_a_drive_of_next_to_nothing_takes_no_time(name):
    """The last billionth of the way to the threshold is ten billion windows long; then one beyond numbers."""
    n_neurons = FORMS[name].n_neurons(2)
    network = stored(name, np.zeros((n_neurons, n_neurons)), np.full(n_neurons, 1e-20))
    simulate(network, 1.0)
    with at_most(2.0):
        np.testing.assert_array_equal(simulate(network, 2.5e20).spike_counts, 2)
        simulator = Simulator(network)
        for k in (1, 2, 3):
            spikes = simulator.step()
            np.testing.assert_array_equal(spikes.neurons, np.arange(n_neurons))
            np.testing.assert_allclose(spikes.times, 1e20 * k, rtol=1e-12)
        assert Simulator(network.with_soma_bias(np.full(n_neurons, 1e-300))).peek() == pytest.approx(1e300)
        assert Simulator(network.with_soma_bias(np.full(n_neurons, 5e-324))).peek() == math.inf


PROGRAM = """
import numpy as np
from snn import SpikingNetwork, simulate
from tests.reference.weight_forms import FORMS, random_matrix, stored
rng = np.random.default_rng(0)
weights = -0.01 * np.abs(random_matrix("{name}", rng, 300, density=0.1, sign=-1))
network = stored("{name}", FORMS["{name}"].nearest(weights), np.ones(len(weights)))
simulate(network, 1.0)
try:
    ready()
    simulate(network, 1e9, max_spikes=10**15)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("name", ["dense", "sparse", "sign pairs, lateral inhibition", "blocks", "grid"])
def test_control_c_ends_a_busy_run(name):
    printed, seconds = interrupted(PROGRAM.format(name=name))
    assert printed == "interrupted\n"
    assert seconds < 2.0


# --- moments of spike times, stop times of their own, new starts --------------------------------


INTERPRETED = """
import numpy as np
from snn import NetworkState, simulate
from tests.reference.networks import golden_network
from tests.reference.weight_forms import NAMES, random_matrix, random_state, stored
golden = simulate(golden_network(), 4.0, record_spikes=True).spikes
print([(round(time, 6), neuron) for time, neuron in zip(golden.times.tolist(), golden.neurons.tolist())])
for name in NAMES:
    rng = np.random.default_rng(4)
    weights = random_matrix(name, rng, 8)
    n = len(weights)
    network = stored(name, weights, np.where(np.arange(n) % 3, rng.uniform(0.2, 1.0, n), 0.0))
    run = simulate(network, 4.0, state=random_state(rng, network), record_spikes=True)
    assert run.n_spikes > 2
    print(name, run.spikes.neurons.tolist(), run.spikes.times.round(9).tolist())
"""


@pytest.mark.thorough
def test_kernels_run_without_being_compiled():
    """For those who debug them: with warnings as errors, and the same spikes."""
    runs = [run_python("-W", "error", "-c", INTERPRETED, NUMBA_DISABLE_JIT=off) for off in ("1", "0")]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stdout.splitlines()[0] == str(FIRST_SPIKES)

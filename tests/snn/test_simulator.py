"""`Simulator`: a run from spike to spike, whose drive and weights may change on the way."""

import copy
import pickle
import threading

import numpy as np
import pytest
from scipy import sparse

from snn import Exact, NetworkState, Simulator, SpikingNetwork, simulate
from tests.reference.weight_forms import NAMES, random_matrix, random_state, stored

TOLERANCE = 1e-9


def lively(n_neurons=200):
    """Return a network whose spikes take many calls of the kernel."""
    rng = np.random.default_rng(3)
    atoms = rng.standard_normal((n_neurons, 20))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    weights = -atoms @ atoms.T
    np.fill_diagonal(weights, 0.0)
    return SpikingNetwork(weights, rng.uniform(0.2, 1.0, n_neurons))


def test_deep_copies_run_at_the_same_time():
    """Each in memory of its own, although kernels let other threads run."""
    network = lively()
    run = Exact().start(network, network.soma_bias[np.newaxis])
    for k in range(20):
        run.advance(float(k))
    copies = [copy.deepcopy(run) for _ in range(3)]
    threads = [threading.Thread(target=each.advance, args=(300.0,)) for each in copies[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    copies[2].advance(300.0)
    for each in copies[:2]:
        np.testing.assert_array_equal(each.spike_counts, copies[2].spike_counts)


def test_a_simulator_that_has_run_can_be_sent():
    simulator = Simulator(lively())
    for _ in range(20):
        simulator.step()
    sent = pickle.loads(pickle.dumps(simulator))
    for _ in range(4000):
        sent.step()
        simulator.step()
    assert sent.time == simulator.time


@pytest.fixture(params=NAMES)
def network(request):
    rng = np.random.default_rng(31)
    weights = random_matrix(request.param, rng, 12)
    n_neurons = len(weights)
    return stored(request.param, weights, rng.uniform(-0.3, 1.5, n_neurons), rng.uniform(1.0, 2.0, n_neurons))


def pair():
    return SpikingNetwork([[0.0, -0.5], [-0.25, 0.0]], [1.0, 0.7])


@pytest.mark.parametrize("from_rest", [True, False])
def test_steps_are_the_spikes_of_one_run(network, from_rest):
    state = None if from_rest else random_state(np.random.default_rng(1), network)
    start = 0.0 if from_rest else state.time
    whole = simulate(network, 20.0, state=state, record_spikes=True)
    simulator = Simulator(network, state)
    assert simulator.time == start
    times, neurons = [], []
    while simulator.peek() <= start + 20.0:
        expected = simulator.peek()
        spikes = simulator.step()
        assert len(spikes) >= 1
        np.testing.assert_array_equal(spikes.times, spikes.times[0])
        assert spikes.times[0] == simulator.time == pytest.approx(expected, abs=TOLERANCE)
        times.append(spikes.times)
        neurons.append(spikes.neurons)
        fired = simulator.membrane_potential[spikes.neurons]
        np.testing.assert_allclose(fired, 0.0, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(np.concatenate(neurons), whole.spikes.neurons)
    np.testing.assert_allclose(np.concatenate(times), whole.spikes.times, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(simulator.spike_counts, whole.spike_counts)
    simulator.advance(start + 20.0)
    np.testing.assert_allclose(simulator.membrane_potential, whole.state.membrane_potential, atol=TOLERANCE)
    np.testing.assert_allclose(simulator.synaptic_current, whole.state.synaptic_current, atol=TOLERANCE)


def test_advance_is_simulate(network):
    whole = simulate(network, 15.0)
    simulator = Simulator(network)
    for until in (0.4, 0.5, 9.0, 15.0):
        simulator.advance(until)
        assert simulator.time == until
    np.testing.assert_array_equal(simulator.spike_counts, whole.spike_counts)
    np.testing.assert_allclose(simulator.membrane_potential, whole.state.membrane_potential, atol=TOLERANCE)
    np.testing.assert_allclose(simulator.synaptic_current, whole.state.synaptic_current, atol=TOLERANCE)


def test_peek_changes_nothing(network):
    network.weights.toarray()  # rows of weights on demand: all are known, to both
    looked, other = Simulator(network), Simulator(network)
    for until in (1.0, 4.0, 9.0):
        assert looked.peek() == looked.peek() >= looked.time
        looked.advance(until)
        other.advance(until)
    np.testing.assert_array_equal(looked.membrane_potential, other.membrane_potential)
    np.testing.assert_array_equal(looked.synaptic_current, other.synaptic_current)
    np.testing.assert_array_equal(looked.spike_counts, other.spike_counts)


def test_a_new_drive_on_the_way_is_two_runs(network):
    drive = 1.3 * network.soma_bias + 0.1
    first = simulate(network, 6.0)
    second = simulate(network.with_soma_bias(drive), 7.0, state=first.state, record_spikes=True)
    simulator = Simulator(network)
    simulator.advance(6.0)
    simulator.soma_bias = drive
    np.testing.assert_array_equal(simulator.soma_bias, drive)
    simulator.advance(13.0)
    np.testing.assert_array_equal(simulator.spike_counts, first.spike_counts + second.spike_counts)
    np.testing.assert_allclose(simulator.membrane_potential, second.state.membrane_potential, atol=TOLERANCE)
    np.testing.assert_allclose(simulator.synaptic_current, second.state.synaptic_current, atol=TOLERANCE)


def test_new_weights_on_the_way_are_two_runs(network):
    """Also in another form; charge that arrived before stays."""
    n_neurons = network.n_neurons
    weights = -np.abs(random_matrix("dense", np.random.default_rng(2), n_neurons))
    other = SpikingNetwork(weights, network.soma_bias, network.firing_threshold)
    first = simulate(network, 6.0)
    second = simulate(other, 7.0, state=first.state)
    simulator = Simulator(network)
    simulator.advance(6.0)
    simulator.weights = weights
    simulator.advance(13.0)
    np.testing.assert_array_equal(simulator.spike_counts, first.spike_counts + second.spike_counts)
    np.testing.assert_allclose(simulator.membrane_potential, second.state.membrane_potential, atol=TOLERANCE)
    np.testing.assert_allclose(simulator.synaptic_current, second.state.synaptic_current, atol=TOLERANCE)
    np.testing.assert_array_equal(simulator.weights.toarray(), weights)


def test_its_state_continues_in_simulate(network):
    simulator = Simulator(network)
    simulator.advance(5.0)
    simulator.step()
    state = simulator.state()
    assert isinstance(state, NetworkState)
    assert state.time == simulator.time
    onward = simulate(network, 4.0, state=state)
    counts = simulator.spike_counts.copy()
    simulator.advance(state.time + 4.0)
    np.testing.assert_array_equal(simulator.spike_counts - counts, onward.spike_counts)
    np.testing.assert_allclose(simulator.membrane_potential, onward.state.membrane_potential, atol=TOLERANCE)


def test_a_network_that_never_fires_has_no_next_spike():
    simulator = Simulator(SpikingNetwork([[0.0, -0.5], [-0.5, 0.0]], [-1.0, 0.0]))
    assert simulator.peek() == np.inf
    assert simulator.step() is None
    assert simulator.time == 0.0
    simulator.soma_bias = [0.5, 0.0]
    assert simulator.peek() == pytest.approx(2.0, abs=1e-15)


def test_neurons_that_tie_are_one_step():
    simulator = Simulator(SpikingNetwork(-5.0 * (1.0 - np.eye(3)), [0.0025, 0.09, 0.001], [0.01, 0.36, 1.0]))
    spikes = simulator.step()
    np.testing.assert_array_equal(spikes.neurons, [0, 1])
    assert spikes.times[0] == spikes.times[1] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("act", "error", "sentence"),
    [
        (lambda s: s.advance(0.5), ValueError, "until must"),
        (lambda s: s.advance(np.nan), ValueError, "until must be finite; got nan"),
        (lambda s: s.advance("late"), TypeError, "until must be a real number; got str"),
        (lambda s: setattr(s, "soma_bias", [1.0]), ValueError, "soma_bias must have shape"),
        (lambda s: setattr(s, "weights", np.zeros((3, 3))), ValueError, "weights must have shape"),
        (lambda s: setattr(s, "weights", np.eye(2)), ValueError, "weights must have a zero diagonal"),
    ],
)
def test_one_clear_sentence(act, error, sentence):
    simulator = Simulator(pair())
    simulator.advance(1.5)
    before = simulator.state()
    with pytest.raises(error, match=f"^{sentence}"):
        act(simulator)
    # And nothing has changed.
    np.testing.assert_array_equal(simulator.membrane_potential, before.membrane_potential)
    np.testing.assert_array_equal(simulator.weights.toarray(), pair().weights.toarray())


def test_it_starts_as_simulate_does():
    with pytest.raises(TypeError, match="network must be a SpikingNetwork; got ndarray"):
        Simulator(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="state has 3 neurons but the network has 2"):
        Simulator(pair(), NetworkState.at_rest(3))


def test_times_beyond_the_range_of_numbers_are_refused():
    late, early = (
        NetworkState(membrane_potential=np.zeros(2), synaptic_current=np.zeros(2), time=time)
        for time in (1e308, -1e308)
    )
    silent = pair().with_soma_bias([-1.0, -1.0])
    with pytest.raises(ValueError, match=r"^duration must end within the range of numbers"):
        simulate(silent, 1e308, state=late)
    with pytest.raises(ValueError, match=r"^until must be less than"):
        Simulator(silent, early).advance(1e308)


def test_rows_on_demand_are_checked_before_a_step_uses_them():
    network = stored("on demand", np.array([[0.0, 1e16], [0.0, 0.0]]), np.ones(2))
    with pytest.raises(ValueError, match=r"^weights must be at most"):
        Simulator(network).step()


def test_what_is_assigned_is_copied():
    """What the caller writes into an array later is not checked, and must not act."""
    drive, weights = np.array([1.0, 0.7]), np.array([[0.0, -0.5], [-0.25, 0.0]])
    compressed = sparse.csr_array(weights)
    for value in (weights, compressed):
        simulator = Simulator(pair())
        simulator.soma_bias, simulator.weights = drive, value
        assert not np.shares_memory(simulator.soma_bias, drive)
        (value if value is weights else value.data)[:] = np.nan
        drive[:] = np.nan
        np.testing.assert_array_equal(simulator.advance(9.0).spike_counts, simulate(pair(), 9.0).spike_counts)
        drive[:] = [1.0, 0.7]
    own = pair().weights
    simulator.weights = own
    assert simulator.weights is own

"""Input spikes and drives that change: exact, on a clock, in parts, and what is read from such runs."""

import pickle

import numba
import numpy as np
import pytest
from scipy import sparse

from snn import (
    NetworkState,
    RunawayError,
    Simulator,
    SpikeTrain,
    SpikingNetwork,
    Stimulus,
    explain,
    simulate,
    simulate_clocked,
)
from snn.record import rates, traces
from snn.run.exact import ExactRun
from tests.reference.clock import simulate_slowly
from tests.reference.stimulated import random_stimulus, simulate_by_hand
from tests.reference.weight_forms import NAMES, random_matrix, random_state, stored

TOLERANCE = 1e-9


def network_of(form="dense", about=12, seed=31):
    rng = np.random.default_rng(seed)
    weights = random_matrix(form, rng, about)
    n = len(weights)
    return weights, stored(form, weights, rng.uniform(-0.3, 1.5, n), rng.uniform(1.0, 2.0, n))


def train(parts, start, stop):
    return SpikeTrain(
        times=parts["times"],
        neurons=parts["sources"],
        n_neurons=len(parts["weights"]),
        start=start,
        stop=stop,
    )


def stimulus_of(parts, start, stop, *, kinds="both", as_sparse=False):
    """Return a stimulus with the drive, the spikes onto the current or the drive, or drive and spikes."""
    drive = {"drive_times": parts["drive_times"], "drive": parts["drive"]}
    weights = sparse.csr_array(parts["weights"]) if as_sparse else parts["weights"]
    spikes = {"spikes": train(parts, start, stop), "weights": weights}
    return {
        "drive": lambda: Stimulus(**drive),
        "current": lambda: Stimulus(**spikes),
        "onto drive": lambda: Stimulus(**spikes, onto="drive"),
        "both": lambda: Stimulus(**drive, **spikes),
    }[kinds]()


def only(parts, kinds):
    left_out = {"drive": ("times", "sources"), "current": ("drive_times",), "onto drive": ("drive_times",)}
    return {name: part for name, part in parts.items() if name not in left_out.get(kinds, ())}


def by_hand(weights, network, duration, parts, kinds, state=None):
    onto = "drive" if kinds == "onto drive" else "current"
    return simulate_by_hand(weights, network, duration, only(parts, kinds), state=state, onto=onto)


def require_same(result, expected):
    times, neurons, potential, current = expected
    np.testing.assert_array_equal(result.spikes.neurons, neurons)
    np.testing.assert_allclose(result.spikes.times, times, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(result.state.membrane_potential, potential, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(result.state.synaptic_current, current, rtol=0, atol=TOLERANCE)


KINDS = ("drive", "current", "onto drive", "both")


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("form", NAMES)
def test_equals_the_plain_simulator_stopped_at_every_change(form, kinds):
    weights, network = network_of(form)
    rng = np.random.default_rng(2)
    state = random_state(rng, network)
    parts = random_stimulus(rng, network.n_neurons, state.time, state.time + 12.0, strength=0.1)
    stimulus = stimulus_of(parts, state.time, state.time + 12.0, kinds=kinds, as_sparse=form == "sparse")
    result = simulate(network, 12.0, state=state, stimulus=stimulus, record_spikes=True)
    assert result.n_spikes > 20
    require_same(result, by_hand(weights, network, 12.0, parts, kinds, state))
    assert result.stimulus is stimulus
    assert not np.array_equal(result.spike_counts, simulate(network, 12.0, state=state).spike_counts)


@pytest.mark.parametrize("kinds", KINDS)
def test_equals_the_plain_simulator_where_neurons_are_screened(kinds):
    weights, network = network_of(about=160)
    rng = np.random.default_rng(3)
    parts = random_stimulus(rng, network.n_neurons, 0.0, 20.0, n_spikes=60, strength=0.2)
    stimulus = stimulus_of(parts, 0.0, 20.0, kinds=kinds)
    result = simulate(network, 20.0, stimulus=stimulus, record_spikes=True)
    require_same(result, by_hand(weights, network, 20.0, parts, kinds))


@pytest.mark.parametrize("kinds", KINDS)
def test_is_the_run_made_by_hand_with_a_simulator(kinds):
    _, network = network_of()
    rng = np.random.default_rng(4)
    parts = random_stimulus(rng, network.n_neurons, 0.0, 9.0)
    whole = simulate(network, 9.0, stimulus=stimulus_of(parts, 0.0, 9.0, kinds=kinds), record_spikes=True)
    mine = only(parts, kinds)
    changes = [(time, 0, row) for row, time in enumerate(mine.get("drive_times", ()))]
    changes += [(t, 1, k) for t, k in zip(mine.get("times", ()), mine.get("sources", ()), strict=True)]
    simulator = Simulator(network)
    counts = np.zeros(network.n_neurons, dtype=int)
    for time, is_spike, which in sorted(changes):
        if time > simulator.time:
            counts += simulator.advance(time).spike_counts
        if not is_spike:
            simulator.soma_bias = parts["drive"][which]
        elif kinds == "onto drive":
            simulator.soma_bias = simulator.soma_bias + parts["weights"][which]
        else:
            simulator.synaptic_current = simulator.synaptic_current + parts["weights"][which]
    np.testing.assert_array_equal(simulator.spike_counts, whole.spike_counts)
    np.testing.assert_array_equal(counts, whole.spike_counts)
    np.testing.assert_allclose(simulator.membrane_potential, whole.state.membrane_potential, atol=TOLERANCE)
    np.testing.assert_allclose(simulator.synaptic_current, whole.state.synaptic_current, atol=TOLERANCE)


@pytest.mark.parametrize("kinds", KINDS)
def test_a_simulator_takes_a_stimulus_in_parts(kinds):
    _, network = network_of()
    parts = random_stimulus(np.random.default_rng(5), network.n_neurons, 0.0, 9.0)
    stimulus = stimulus_of(parts, 0.0, 9.0, kinds=kinds)
    whole = simulate(network, 9.0, stimulus=stimulus, record_spikes=True)
    simulator = Simulator(network)
    simulator.peek()
    times = []
    for start, stop in ((0.0, 4.0), (4.0, 7.0), (7.0, 9.0)):
        piece = stimulus.between(start, stop if stop < 9.0 else np.inf)
        result = simulator.advance(stop, stimulus=piece)
        times.append(result.spikes.times)
        assert result.stimulus is piece
    np.testing.assert_allclose(np.concatenate(times), whole.spikes.times, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(simulator.spike_counts, whole.spike_counts)
    np.testing.assert_allclose(simulator.synaptic_current, whole.state.synaptic_current, atol=TOLERANCE)
    last = stimulus.drive_at([9.0], network.soma_bias)[0]
    np.testing.assert_allclose(simulator.soma_bias, last, rtol=1e-14, atol=1e-14)
    assert simulator.network.soma_bias is simulator.soma_bias
    # What comes next goes on with that drive, without a stimulus.
    after = simulate(network.with_soma_bias(last), 5.0, state=simulator.state(), record_spikes=True)
    np.testing.assert_allclose(simulator.advance(14.0).spikes.times, after.spikes.times, atol=TOLERANCE)


@pytest.mark.parametrize("kinds", KINDS)
def test_the_balances_hold_with_their_new_terms(kinds):
    """docs/theory.md, section 2: of charge, and of currents."""
    weights, network = network_of(seed=7)
    rng = np.random.default_rng(8)
    state = random_state(rng, network)
    start, stop = state.time, state.time + 200.0
    parts = random_stimulus(rng, network.n_neurons, start, stop, n_spikes=400)
    stimulus = stimulus_of(parts, start, stop, kinds=kinds)
    result = simulate(network, 200.0, state=state, stimulus=stimulus)
    assert result.n_spikes > 400
    u, time = result.average_soma_current, result.duration
    rise = result.state.membrane_potential - state.membrane_potential
    size = np.abs(result.average_soma_current).max() * time
    np.testing.assert_allclose(
        time * u - network.firing_threshold * result.spike_counts, rise, rtol=0, atol=1e-14 * size
    )
    if kinds in ("drive", "both"):  # written out
        edges = np.concatenate([parts["drive_times"], [stop]])
        drive = np.diff(edges) @ parts["drive"] + (edges[0] - start) * network.soma_bias
    elif kinds == "onto drive":
        drive = network.soma_bias * time + (stop - parts["times"]) @ parts["weights"][parts["sources"]]
    else:
        drive = network.soma_bias * time
    mean = stimulus.average_drive(start, stop, network.soma_bias)
    np.testing.assert_allclose(mean, drive / time, rtol=1e-12, atol=1e-13)
    inputs = 0.0
    if kinds in ("current", "both"):
        inputs = parts["weights"][parts["sources"]].sum(axis=0)
    fall = state.synaptic_current - result.state.synaptic_current
    balance = time * u - drive - inputs - result.spike_counts @ weights
    np.testing.assert_allclose(balance, fall, rtol=0, atol=1e-13 * size)


@pytest.mark.parametrize("kinds", KINDS)
def test_traces_and_explanations_of_runs_with_a_stimulus(kinds):
    _, network = network_of(seed=9)
    rng = np.random.default_rng(10)
    state = random_state(rng, network)
    start, stop = state.time, state.time + 15.0
    stimulus = stimulus_of(random_stimulus(rng, network.n_neurons, start, stop), start, stop, kinds=kinds)
    result = simulate(network, 15.0, state=state, stimulus=stimulus, record_spikes=True)
    given = {"initial_state": state, "stimulus": stimulus}
    times = np.array([start, start + 4.0, stop])
    potential = traces.membrane_potential(network, result.spikes, times, **given)
    current = traces.soma_current(network, result.spikes, times, **given)
    average = traces.average_soma_current(network, result.spikes, times[2:], **given)[0]
    np.testing.assert_allclose(potential[2], result.state.membrane_potential, rtol=0, atol=TOLERANCE)
    last = stimulus.drive_at([stop], network.soma_bias)[0]
    np.testing.assert_allclose(current[2] - last, result.state.synaptic_current, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(average, result.average_soma_current, rtol=0, atol=TOLERANCE)
    fired = np.flatnonzero(result.spikes.times > start)
    for k in fired[::7]:
        told = explain(network, result.spikes, int(k), state=state, stimulus=stimulus)
        assert told.total == pytest.approx(told.firing_threshold, abs=1e-9)
        assert "input spikes" in str(told) or not told.input_charge
    with pytest.raises(ValueError, match="charges that add up"):
        explain(network, result.spikes, int(fired[-1]), state=state)
    with pytest.raises(ValueError, match="stimulus is for 1 neurons"):
        traces.soma_current(network, result.spikes, times, initial_state=state, stimulus=small())
    with pytest.raises(ValueError, match="stimulus is for 1 neurons"):
        explain(network, result.spikes, 0, state=state, stimulus=small())


def small(**changes):
    return Stimulus(**{"drive_times": [1.0], "drive": [[0.7]], **changes})


def test_read_outs_of_runs_with_a_stimulus():
    network = SpikingNetwork(np.zeros((1, 1)), [0.0])
    result = simulate(network, 5.0, stimulus=small(), record_spikes=True)
    assert result.average_soma_current == pytest.approx([0.7 * 4.0 / 5.0])
    assert rates.thresholded_average_current(result) == pytest.approx([0.56])
    np.testing.assert_array_equal(result.spike_rate, rates.spike_rate(result.spikes))
    np.testing.assert_allclose(result.smooth_rate, rates.smooth_rate(result.spikes), rtol=1e-12)


@pytest.mark.parametrize("about", [12, 130])
@pytest.mark.parametrize("form", NAMES)
def test_bits_do_not_depend_on_who_calls_the_kernel(form, about, monkeypatch):
    """After a few changes the machine code is called without Numba's look at the types of arguments."""
    _, network = network_of(form, about)
    network.weights.toarray()  # rows of weights on demand: all are known, to both
    parts = random_stimulus(np.random.default_rng(16), network.n_neurons, 0.0, 6.0, strength=0.1)
    stimulus = stimulus_of(parts, 0.0, 6.0)
    found, look = [], ExactRun._machine_code
    with monkeypatch.context() as patch:
        patch.setattr(ExactRun, "_machine_code", lambda *given: found.append(look(*given)) or found[-1])
        result = simulate(network, 6.0, stimulus=stimulus, record_spikes=True)
    assert (found and None not in found) or numba.config.DISABLE_JIT
    with monkeypatch.context() as patch:
        patch.setattr(ExactRun, "_machine_code", lambda *_: None)
        expected = simulate(network, 6.0, stimulus=stimulus, record_spikes=True)
    np.testing.assert_array_equal(result.spikes.times, expected.spikes.times)
    np.testing.assert_array_equal(result.spikes.neurons, expected.spikes.neurons)
    np.testing.assert_array_equal(result.state.membrane_potential, expected.state.membrane_potential)
    np.testing.assert_array_equal(result.window_moments, expected.window_moments)


def test_one_neuron_in_closed_form():
    """A drive of 0.5 until 1, of 2 from then on, and at time 1 an input of -1: 2 s - (1 - e^-s) = 1/2."""
    network = SpikingNetwork(np.zeros((1, 1)), [0.5])
    spikes = SpikeTrain(times=[1.0], neurons=[0], n_neurons=1, start=0.0, stop=3.0)
    stimulus = Stimulus(drive_times=[1.0], drive=[[2.0]], spikes=spikes, weights=[[-1.0]])
    result = simulate(network, 3.0, stimulus=stimulus, record_spikes=True)
    s = result.spikes.times[0] - 1.0
    assert 2.0 * s + np.expm1(-s) == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("weight", [5.0, -5.0])
@pytest.mark.parametrize("run", [simulate, lambda *a, **o: simulate_clocked(*a, time_step=0.125, **o)])
def test_a_tie_of_an_input_and_a_crossing(run, weight):
    """A neuron that reaches its threshold in the instant of an input fires in it, and before it."""
    network = SpikingNetwork(np.zeros((2, 2)), [0.5, 0.25])
    spikes = SpikeTrain(times=[2.0, 2.0], neurons=[0, 0], n_neurons=1, start=0.0, stop=4.0)
    stimulus = Stimulus(spikes=spikes, weights=[[weight, 0.0]])
    result = run(network, 2.0, stimulus=stimulus, record_spikes=True)
    np.testing.assert_array_equal(result.spikes.times, [2.0])
    np.testing.assert_array_equal(result.state.membrane_potential, [0.0, 0.5])
    np.testing.assert_array_equal(result.state.synaptic_current, [2.0 * weight, 0.0])
    drive = Stimulus(drive_times=[2.0], drive=[[weight, 0.25]])
    np.testing.assert_array_equal(run(network, 2.0, stimulus=drive, record_spikes=True).spikes.times, [2.0])


def test_an_empty_train_changes_no_bit():
    _, network = network_of(about=80)
    nothing = SpikeTrain(times=[], neurons=[], n_neurons=2, start=0.0, stop=9.0)
    stimulus = Stimulus(spikes=nothing, weights=np.ones((2, network.n_neurons)))
    for run in (simulate, lambda *a, **o: simulate_clocked(*a, time_step=0.125, **o)):
        plain = run(network, 9.0, record_spikes=True)
        empty = run(network, 9.0, record_spikes=True, stimulus=stimulus)
        np.testing.assert_array_equal(plain.spikes.times, empty.spikes.times)
        np.testing.assert_array_equal(plain.state.membrane_potential, empty.state.membrane_potential)
        np.testing.assert_array_equal(plain.average_soma_current, empty.average_soma_current)
        assert plain.operations.total().synaptic_operations == empty.operations.total().synaptic_operations


def test_deliveries_of_input_spikes_are_operations():
    network = SpikingNetwork(np.zeros((3, 3)), [0.0, 0.0, 0.0])
    spikes = SpikeTrain(times=[0.1, 0.2, 0.3], neurons=[0, 1, 1], n_neurons=2, start=0.0, stop=1.0)
    weights = np.array([[0.0, 0.1, 0.2], [0.0, 0.0, -0.1]])
    for stored_weights in (weights, sparse.csr_array(weights)):
        stimulus = Stimulus(spikes=spikes, weights=stored_weights)
        assert simulate(network, 1.0, stimulus=stimulus).operations.synaptic_operations == 4
        clocked = simulate_clocked(network, 1.0, time_step=0.5, stimulus=stimulus)
        assert clocked.operations.synaptic_operations == 4
        assert "changes from outside: 3" in repr(clocked)


@pytest.mark.parametrize("integration", ["exact", "euler"])
@pytest.mark.parametrize("kinds", KINDS)
def test_on_a_clock_equals_the_slow_twin(kinds, integration):
    weights, network = network_of(seed=12)
    rng = np.random.default_rng(13)
    state, step, n_steps = random_state(rng, network), 1 / 16, 160
    start = state.time
    parts = random_stimulus(rng, network.n_neurons, start, start + n_steps * step)
    stimulus = stimulus_of(parts, start, start + n_steps * step, kinds=kinds)
    result = simulate_clocked(
        network, n_steps * step, time_step=step, integration=integration, state=state, stimulus=stimulus,
        record_spikes=True,
    )  # fmt: skip
    drives, inputs, mine = {}, {}, only(parts, kinds)
    for row, time in enumerate(mine.get("drive_times", ())):
        drives[int(np.ceil((time - start) / step - 1e-9))] = parts["drive"][row]
    now = network.soma_bias
    for time, source in zip(mine.get("times", ()), mine.get("sources", ()), strict=True):
        end = int(np.ceil((time - start) / step - 1e-9))
        if kinds == "onto drive":
            now = now + parts["weights"][source]
            drives[end] = now
        else:
            inputs[end] = inputs.get(end, 0.0) + parts["weights"][source]
    slow = simulate_slowly(
        weights, network.soma_bias, network.firing_threshold, n_steps, step, integration=integration,
        reset="subtract", membrane_potential=state.membrane_potential,
        synaptic_current=state.synaptic_current, drives=drives, inputs=inputs,
    )  # fmt: skip
    assert len(slow.steps) > 40
    np.testing.assert_array_equal(result.spikes.neurons, slow.neurons)
    np.testing.assert_array_equal(result.spikes.times, start + slow.steps * step)
    np.testing.assert_allclose(result.state.membrane_potential, slow.membrane_potential, rtol=0, atol=1e-11)
    np.testing.assert_allclose(result.state.synaptic_current, slow.synaptic_current, rtol=0, atol=1e-11)
    np.testing.assert_allclose(result.average_soma_current * n_steps * step, slow.charge, atol=1e-11)


def test_spikes_of_a_clock_are_inputs_of_another():
    """Two networks, one after the other, are one network; ends of steps stay ends of steps."""
    rng = np.random.default_rng(14)
    forward = rng.uniform(0.0, 0.5, (4, 3))
    first = SpikingNetwork(np.zeros((4, 4)), rng.uniform(0.2, 1.0, 4))
    second = SpikingNetwork(0.2 * (np.eye(3) - 1.0), rng.uniform(-0.2, 0.2, 3))
    both = SpikingNetwork(
        np.block([[np.zeros((4, 4)), forward], [np.zeros((3, 4)), 0.2 * (np.eye(3) - 1.0)]]),
        np.concatenate([first.soma_bias, second.soma_bias]),
    )
    for run in (simulate, lambda *a, **o: simulate_clocked(*a, time_step=0.1, **o)):
        spikes = run(first, 30.0, record_spikes=True).spikes
        result = run(second, 30.0, stimulus=Stimulus(spikes=spikes, weights=forward))
        whole = run(both, 30.0)
        assert result.n_spikes > 20
        np.testing.assert_array_equal(result.spike_counts, whole.spike_counts[4:])
        np.testing.assert_allclose(
            result.state.synaptic_current, whole.state.synaptic_current[4:], atol=1e-12
        )


def test_a_runaway_stops_before_what_comes_later():
    network = SpikingNetwork(np.zeros((1, 1)), [0.1])
    stimulus = small(drive_times=[1.0, 2.0], drive=[[1e3], [0.0]])
    with pytest.raises(RunawayError) as caught:
        simulate(network, 3.0, stimulus=stimulus, max_spikes=10)
    assert 1.0 < caught.value.result.duration < 1.1
    simulator = Simulator(network)
    with pytest.raises(RunawayError):
        simulator.advance(3.0, stimulus=stimulus, max_spikes=10)
    assert simulator.soma_bias == [1e3]
    assert simulator.time < 1.1
    # By default the limit knows what comes.
    assert simulate(network, 3.0, stimulus=small(drive=[[4e6]], drive_times=[2.5])).n_spikes == 2_000_000


def test_a_simulator_whose_state_is_set():
    network = SpikingNetwork([[0.0, -0.5], [-0.25, 0.0]], [1.0, 0.7])
    simulator = Simulator(network)
    simulator.advance(2.5)
    before = simulator.spike_counts
    simulator.membrane_potential = [0.5, -1.0]
    simulator.synaptic_current = np.array([0.25, 0.0])
    state = NetworkState(membrane_potential=[0.5, -1.0], synaptic_current=[0.25, 0.0], time=2.5)
    assert simulator.time == 2.5
    np.testing.assert_array_equal(simulator.spike_counts, before)
    after = simulate(network, 4.0, state=state, record_spikes=True)
    np.testing.assert_allclose(
        simulator.advance(6.5).spikes.times, after.spikes.times, rtol=0, atol=TOLERANCE
    )
    for name, value, rule in (
        ("membrane_potential", [2.0, 0.0], "at most the firing threshold"),
        ("membrane_potential", [0.0], "must have shape"),
        ("synaptic_current", [np.nan, 0.0], "must be finite"),
        ("synaptic_current", [1e30, 0.0], "times the firing threshold"),
    ):
        with pytest.raises(ValueError, match=rule):
            setattr(simulator, name, value)


def test_a_drive_at_a_time_and_its_mean():
    stimulus = small(drive_times=[1.0, 2.0], drive=[[1.0], [3.0]])
    np.testing.assert_array_equal(stimulus.drive_at([0.5, 1.0, 1.5, 2.0], [7.0])[:, 0], [7.0, 1.0, 1.0, 3.0])
    assert stimulus.average_drive(0.5, 2.5, [7.0]) == pytest.approx([(3.5 + 1.0 + 1.5) / 2.0])
    np.testing.assert_array_equal(stimulus.times, [1.0, 2.0])
    part = stimulus.between(2.0, 2.5)
    np.testing.assert_array_equal(part.drive_times, [2.0])
    np.testing.assert_array_equal(part.drive, [[3.0]])


def test_a_stimulus_is_not_changed_by_its_arguments():
    assert "changes of the drive: 1" in repr(small())
    spikes = SpikeTrain(times=[0.5], neurons=[0], n_neurons=1, start=0.0, stop=1.0)
    stimulus = Stimulus(spikes=spikes, weights=np.ones((1, 1)))
    with pytest.raises(ValueError, match="read-only"):
        stimulus.weights[0, 0] = 2.0


@pytest.mark.parametrize("as_sparse", [True, False])
def test_a_stimulus_can_be_pickled(as_sparse):
    parts = random_stimulus(np.random.default_rng(17), 3, 0.0, 4.0)
    stimulus = stimulus_of(parts, 0.0, 4.0, as_sparse=as_sparse)
    other = pickle.loads(pickle.dumps(stimulus))
    network = SpikingNetwork(np.zeros((3, 3)), np.full(3, 0.5))
    runs = [simulate(network, 4.0, stimulus=one, record_spikes=True) for one in (stimulus, other)]
    np.testing.assert_array_equal(runs[0].spikes.times, runs[1].spikes.times)
    assert not other.drive.flags.writeable

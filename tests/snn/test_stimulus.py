"""Runs with changing drives, input spikes or changes of a simulator equal shorter runs joined by hand."""

import pickle
from copy import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from snn import (
    Clock,
    Exact,
    NetworkState,
    RealNeuron,
    RunawayError,
    Simulator,
    SpikeTrain,
    SpikingNetwork,
    Stimulus,
    simulate,
)
from snn.digital import DigitalFormat
from snn.record.stimulus import drive_charge
from snn.run.imperfect import whole_steps
from tests.reference.networks import MODERATE, networks
from tests.reference.weight_forms import NAMES, random_matrix
from tests.tiers import examples

every_form = pytest.mark.parametrize("form", NAMES)
KINDS = ("drive", "current", "onto drive", "both")
TOLERANCE = 1e-9
on_a_clock = partial(simulate, time=Clock(0.125))


def stimulus_of(this, kind, *, as_sparse=False):
    """Return a stimulus that changes the drive, sends spikes onto the current or the drive, or does both."""
    both = this.stimulus(onto="drive" if kind == "onto drive" else "current")
    if kind == "drive":
        return Stimulus(drive_times=both.drive_times, drive=both.drive)
    weights = sparse.csr_array(both.weights) if as_sparse else both.weights
    drive = {"drive_times": both.drive_times, "drive": both.drive} if kind == "both" else {}
    return Stimulus(spikes=both.spikes, weights=weights, onto=both.onto, **drive)


def changes_of(stimulus):
    """Return (time, whether it is a spike, row of drives or source) of each change, in order of time."""
    changes = []
    if stimulus.drive is not None:
        changes += [(time, 0, row) for row, time in enumerate(stimulus.drive_times)]
    if stimulus.spikes is not None:
        changes += [(t, 1, j) for t, j in zip(stimulus.spikes.times, stimulus.spikes.neurons, strict=True)]
    return sorted(changes)


def row_of(stimulus, source):
    row = stimulus.weights[[source]]
    return row.toarray()[0] if sparse.issparse(row) else row[0]


@every_form
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.property
@examples(4)
@given(data=st.data())
def test_a_run_with_a_stimulus_is_that_of_a_simulator_changed_by_hand(form, kind, data):
    """Spikes are those of a simulator changed by hand, and charges balance (docs/theory.md, section 2)."""
    this = data.draw(networks(form, MODERATE))
    network, stop = this.network(), this.start + this.duration
    stimulus = stimulus_of(this, kind, as_sparse=data.draw(st.booleans()))
    floor = data.draw(st.sampled_from([None, None, 0.0, -0.25]))
    time = Exact(potential_floor=floor)
    run = simulate(network, this.duration, time, state=this.state, stimulus=stimulus, record_spikes=True)
    simulator, parts = Simulator(network, this.state), []
    for instant, is_spike, which in changes_of(stimulus):
        if instant > simulator.time:
            parts.append(simulator.advance(instant))
        if floor is not None:
            lowest = floor * network.firing_threshold
            simulator.membrane_potential = np.maximum(simulator.membrane_potential, lowest)
        if not is_spike:
            simulator.soma_bias = stimulus.drive[which]
        elif kind == "onto drive":
            simulator.soma_bias = simulator.soma_bias + row_of(stimulus, which)
        else:
            simulator.synaptic_current = simulator.synaptic_current + row_of(stimulus, which)
    if stop > simulator.time:
        parts.append(simulator.advance(stop))
    whole = Simulator(network, this.state, time=time)
    whole.advance(stop, stimulus=stimulus)

    times, neurons = (
        np.concatenate([getattr(part.spikes, of) for part in parts]) for of in ("times", "neurons")
    )
    np.testing.assert_array_equal(run.spikes.neurons, neurons)
    np.testing.assert_allclose(run.spikes.times, times, rtol=TOLERANCE, atol=TOLERANCE)
    size = np.abs(run.average_soma_current).max() * this.duration + 1.0
    scale = TOLERANCE * max(size, 1.0 + np.abs(run.state.membrane_potential).max())
    charge = sum(part.duration * part.average_soma_current for part in parts)
    np.testing.assert_allclose(run.average_soma_current * this.duration, charge, rtol=1e-9, atol=scale)
    drive = stimulus.drive_at([stop], network.soma_bias)[0]
    for one in (simulator, whole):
        np.testing.assert_array_equal(one.spike_counts, run.spike_counts)
        for name in ("membrane_potential", "synaptic_current"):
            np.testing.assert_allclose(getattr(one, name), getattr(run.state, name), rtol=0, atol=scale)
        np.testing.assert_allclose(one.soma_bias, drive, rtol=1e-12, atol=1e-12)

    begin = this.state or NetworkState.at_rest(network.n_neurons)
    drive = drive_charge(stimulus, np.array([this.start, stop]), network.soma_bias)[1]
    inputs, n_deliveries = 0.0, 0
    if stimulus.spikes is not None:
        n_deliveries = sum(np.count_nonzero(row_of(stimulus, j)) for j in stimulus.spikes.neurons)
        inputs = (kind != "onto drive") * sum(row_of(stimulus, j) for j in stimulus.spikes.neurons)
    fall = begin.synaptic_current - run.state.synaptic_current
    balance = this.duration * run.average_soma_current - drive - inputs - run.spike_counts @ this.weights
    np.testing.assert_allclose(balance, fall, rtol=0, atol=1e-3 * scale)
    sent = run.spike_counts @ np.count_nonzero(this.weights, axis=1)
    assert run.operations.synaptic_operations == sent + n_deliveries


@every_form
@pytest.mark.property
@examples(5)
@given(data=st.data())
def test_a_simulator_that_is_changed_is_two_runs(form, data):
    """Drive, weights, thresholds or state change in the middle; charge that arrived before stays."""
    this = data.draw(networks(form, ["mixed weights", "weak inhibition"], most=20))
    network, middle = this.network(), this.start + 0.5 * this.duration
    rng = np.random.default_rng(this.seed)
    simulator = Simulator(network, this.state)
    first = simulator.advance(middle)
    what, state = data.draw(st.sampled_from(["drive", "weights", "thresholds", "state"])), simulator.state()
    other = network
    if what == "drive":
        other = network.with_soma_bias(1.3 * network.soma_bias + 0.1)
        simulator.soma_bias = other.soma_bias
    elif what == "weights":
        weights = -np.abs(random_matrix("dense", rng, network.n_neurons))
        other = SpikingNetwork(weights, network.soma_bias, network.firing_threshold)
        simulator.weights = sparse.csr_array(weights) if data.draw(st.booleans()) else weights
        np.testing.assert_array_equal(simulator.weights.toarray(), weights)
    elif what == "thresholds":
        threshold = network.firing_threshold * rng.uniform(0.3, 2.0, network.n_neurons)
        threshold = data.draw(st.sampled_from([threshold, float(threshold[0])]))
        other = SpikingNetwork(network.weights, network.soma_bias, threshold)
        simulator.firing_threshold = threshold
        np.testing.assert_array_equal(simulator.firing_threshold, other.firing_threshold)
        # A neuron whose potential is now above its threshold fires at once.
        potential = np.minimum(state.membrane_potential, other.firing_threshold)
        assert (potential == state.membrane_potential).all() or simulator.peek() == middle
        state = replace(state, membrane_potential=potential)
    else:
        state = NetworkState(
            membrane_potential=network.firing_threshold * rng.uniform(-1.0, 1.0, network.n_neurons),
            synaptic_current=rng.normal(size=network.n_neurons),
            time=middle,
        )
        simulator.membrane_potential = state.membrane_potential
        simulator.synaptic_current = state.synaptic_current
    assert simulator.time == middle
    np.testing.assert_array_equal(simulator.spike_counts, first.spike_counts)
    second = simulate(other, this.duration, state=state, record_spikes=True)
    onward = simulator.advance(middle + this.duration)
    np.testing.assert_array_equal(onward.spikes.neurons, second.spikes.neurons)
    np.testing.assert_allclose(onward.spikes.times, second.spikes.times, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_array_equal(simulator.spike_counts, first.spike_counts + second.spike_counts)
    for rate in (onward.smooth_rate, second.smooth_rate):
        np.testing.assert_allclose(rate, second.spikes.smooth_rate(), rtol=1e-9, atol=TOLERANCE)


def test_a_floor_raises_potentials_when_something_is_set_and_no_record_rebuilds_them():
    network = SpikingNetwork([[0.0, -0.5], [-0.5, 0.0]], [1.0, -0.5], [1.0, 2.0])
    simulator = Simulator(network, time=Exact(potential_floor=-0.25))
    simulator.advance(4.0)
    assert simulator.membrane_potential[1] < -2.0
    simulator.soma_bias = [0.0, 0.5]
    assert simulator.membrane_potential[1] == -0.5
    drive = Stimulus(drive_times=[4.0], drive=[[0.0, 0.5]])
    run = simulate(network, 8.0, Exact(potential_floor=-0.25), stimulus=drive, record_spikes=True)
    assert run.spikes.departures == "a potential floor"
    with pytest.raises(ValueError, match="neurons with a potential floor"):
        run.record.potential([5.0])
    never = simulate(network, 8.0, Exact(potential_floor=-9.0), stimulus=drive, record_spikes=True)
    np.testing.assert_allclose(never.record.potential([8.0])[0], never.state.membrane_potential, atol=1e-14)
    with pytest.raises(ValueError, match="potential_floor must be at most 0"):
        Exact(potential_floor=0.5)


def test_thresholds_that_follow_the_rates_are_runs_joined_by_hand():
    """Homeostasis: after each part of a run, thresholds move so that rates approach a target."""
    rng = np.random.default_rng(0)
    weights = -0.2 * rng.random((8, 8))
    np.fill_diagonal(weights, 0.0)
    network, wanted = SpikingNetwork(weights, rng.uniform(0.5, 3.0, 8)), 0.5
    simulator, state, threshold = Simulator(network), None, network.firing_threshold
    for _ in range(60):
        found = simulator.advance(simulator.time + 5.0)
        network = SpikingNetwork(weights, network.soma_bias, threshold)
        if state is not None:
            potential = np.minimum(state.membrane_potential, threshold)
            state = replace(state, membrane_potential=potential)
        expected = simulate(network, 5.0, state=state, record_spikes=True)
        np.testing.assert_array_equal(found.spikes.neurons, expected.spikes.neurons)
        np.testing.assert_allclose(found.spikes.times, expected.spikes.times, rtol=1e-12)
        state, threshold = expected.state, threshold * np.exp(0.2 * (found.spike_rate - wanted))
        simulator.firing_threshold = threshold
    assert np.abs(found.spike_rate - wanted).max() <= 0.2
    kept = simulator.firing_threshold
    threshold[:] = np.nan
    for wrong, error in (([1.0], ValueError), (0.0, ValueError), ("high", TypeError), (np.nan, ValueError)):
        with pytest.raises(error, match="firing_threshold"):
            simulator.firing_threshold = wrong
    assert simulator.firing_threshold is kept
    assert np.isfinite(kept).all()


def test_what_is_assigned_to_a_simulator_is_copied():
    """Writing into an array after its assignment has no effect, because such writes are not checked."""
    network = SpikingNetwork([[0.0, -0.5], [-0.25, 0.0]], [1.0, 0.7])
    drive, weights = np.array([1.0, 0.7]), np.array([[0.0, -0.5], [-0.25, 0.0]])
    simulator = Simulator(network)
    simulator.soma_bias, simulator.weights = drive, weights
    potential = simulator.membrane_potential = np.zeros(2)
    weights[:] = drive[:] = potential[:] = np.nan
    np.testing.assert_array_equal(simulator.advance(9.0).spike_counts, simulate(network, 9.0).spike_counts)
    simulator.weights = network.weights
    assert simulator.weights is network.weights
    # Arrays from which the simulator was made are copied, too.
    drive, potential, current = np.array([1.0, 0.7]), np.zeros(2), np.zeros(2)
    state = NetworkState(membrane_potential=potential, synaptic_current=current)
    simulator = Simulator(SpikingNetwork(network.weights, drive), state)
    drive[:] = potential[:] = current[:] = 0.5
    np.testing.assert_array_equal(simulator.soma_bias, [1.0, 0.7])
    np.testing.assert_array_equal(simulator.membrane_potential + simulator.synaptic_current, [0.0, 0.0])
    with pytest.raises(ValueError, match="read-only"):
        pickle.loads(pickle.dumps(simulator)).spike_counts[:] = 7


@pytest.mark.parametrize("weight", [5.0, -5.0])
@pytest.mark.parametrize("run", [simulate, on_a_clock])
def test_a_tie_of_an_input_and_a_crossing(run, weight):
    """A neuron that reaches its threshold at the time of an input fires then, before the input acts."""
    network = SpikingNetwork(np.zeros((2, 2)), [0.5, 0.25])
    spikes = SpikeTrain(times=[2.0, 2.0], neurons=[0, 0], n_neurons=1, start=0.0, stop=4.0)
    stimulus = Stimulus(spikes=spikes, weights=[[weight, 0.0]])
    result = run(network, 2.0, stimulus=stimulus, record_spikes=True)
    np.testing.assert_array_equal(result.spikes.times, [2.0])
    np.testing.assert_array_equal(result.state.membrane_potential, [0.0, 0.5])
    np.testing.assert_array_equal(result.state.synaptic_current, [2.0 * weight, 0.0])
    drive = Stimulus(drive_times=[2.0], drive=[[weight, 0.25]])
    np.testing.assert_array_equal(run(network, 2.0, stimulus=drive, record_spikes=True).spikes.times, [2.0])


def test_a_runaway_stops_before_what_comes_later():
    network = SpikingNetwork(np.zeros((1, 1)), [0.1])
    stimulus = Stimulus(drive_times=[1.0, 2.0], drive=[[1e3], [0.0]])
    with pytest.raises(RunawayError) as caught:
        simulate(network, 3.0, stimulus=stimulus, max_spikes=10)
    assert 1.0 < caught.value.result.duration < 1.1
    simulator = Simulator(network)
    with pytest.raises(RunawayError):
        simulator.advance(3.0, stimulus=stimulus, max_spikes=10)
    assert simulator.soma_bias == [1e3]
    assert simulator.time < 1.1
    # An input at the time of the error has not arrived.
    spikes = SpikeTrain(times=[1.0], neurons=[0], n_neurons=1, start=0.0, stop=3.0)
    onto_drive = Stimulus(spikes=spikes, weights=[[0.5, 0.5]], onto="drive")
    simulator = Simulator(SpikingNetwork(np.zeros((2, 2)), [1.0, 1.0]))
    with pytest.raises(RunawayError):
        simulator.advance(3.0, stimulus=onto_drive, max_spikes=1)
    assert simulator.time == 1.0
    np.testing.assert_array_equal(simulator.soma_bias, [1.0, 1.0])
    # The default limit allows for later changes of the drive.
    late = Stimulus(drive_times=[2.5], drive=[[4e6]])
    assert simulate(network, 3.0, stimulus=late).n_spikes == 2_000_000


def test_a_drive_at_a_time_and_its_charge():
    stimulus = Stimulus(drive_times=[1.0, 2.0], drive=[[1.0], [3.0]])
    np.testing.assert_array_equal(stimulus.drive_at([0.5, 1.0, 1.5, 2.0], [7.0])[:, 0], [7.0, 1.0, 1.0, 3.0])
    assert drive_charge(stimulus, np.array([0.5, 2.5]), np.array([7.0]))[1] == pytest.approx(
        [3.5 + 1.0 + 1.5]
    )
    np.testing.assert_array_equal(stimulus.times, [1.0, 2.0])
    part = stimulus.between(2.0, 2.5)
    np.testing.assert_array_equal(part.drive_times, [2.0])
    np.testing.assert_array_equal(part.drive, [[3.0]])


WAYS = {
    "summed": lambda start, step, k: np.cumsum(np.append(start, np.full(k[-1], step)))[k],
    "subtracted": lambda start, step, k: (start + 1000.0 + k * step) - 1000.0,
    "in single precision": lambda start, step, k: (start + k * step).astype(np.float32),
    "multiplied in single precision": lambda start, step, k: (
        np.float32(start) + np.float32(step) * k.astype(np.float32)
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.property
@examples(15)
@given(
    step=st.one_of(st.sampled_from([0.1, 0.01, 1 / 3, 1 / 8]), st.floats(0.005, 0.3)),
    places=st.sets(st.one_of(st.integers(0, 100), st.integers(10**5, 3 * 10**5)), min_size=1, max_size=6),
    origin=st.sampled_from([0, 7, 30]),
    neuron=st.sampled_from([RealNeuron(), RealNeuron(integration="euler", reset="zero")]),
)
def test_a_time_that_was_rounded_is_on_its_step(way, step, places, origin, neuron):
    # In single precision, consecutive steps differ only up to a few thousand steps.
    k = np.unique([place % 1000 if "single" in way else place for place in places]) + (origin > 0)
    start = origin * step
    exact, rounded = start + k * step, WAYS[way](start, step, k)
    n_steps = int(k[-1]) + 40
    drive = np.linspace(0.5, 3.0, 2 * len(k)).reshape(-1, 2)
    network = SpikingNetwork([[0.0, -0.5], [0.25, 0.0]], [0.3, 0.2])
    state = NetworkState(membrane_potential=[0.0, 0.0], synaptic_current=[0.0, 0.0], time=start)

    def run(times):
        spikes = SpikeTrain(
            times=times, neurons=np.zeros(len(k), int), n_neurons=1, start=start - 1.0, stop=start + 1e6
        )
        stimulus = Stimulus(drive_times=times, drive=drive, spikes=spikes, weights=[[0.5, 1.0]])
        return simulate(
            network, n_steps * step, Clock(step, neuron), state=state, stimulus=stimulus, record_spikes=True
        )

    expected, found = run(exact), run(rounded)
    np.testing.assert_array_equal(found.spikes.times, expected.spikes.times)
    np.testing.assert_array_equal(found.spikes.neurons, expected.spikes.neurons)
    np.testing.assert_array_equal(found.state.membrane_potential, expected.state.membrane_potential)
    if "single" not in way:
        assert found.spikes.departures == expected.spikes.departures


@pytest.mark.property
@examples(30)
@given(st.integers(0, 2**18 - 1), st.sampled_from([1 / 8, 1 / 4, 1 / 2]))
def test_a_time_of_22_binary_digits_in_float64_is_not_taken_for_float32(whole, step):
    """With 1,024 steps in a time constant, a spike after 4,000 time constants has such a time."""
    time = whole + 2.0 ** (whole.bit_length() - 22)
    assert whole_steps(time, step) == whole / step + 1


@pytest.mark.property
@examples(30)
@given(step=st.floats(0.005, 0.3), n_steps=st.integers(1, 3000), late=st.sampled_from([1e-4, 0.01, 0.5]))
def test_a_duration_or_a_delay_that_was_rounded_is_on_its_step(step, n_steps, late):
    """A time that is later by more than rounding belongs to the next step, and is refused as a duration."""
    network = SpikingNetwork([[0.0]], [0.5])
    durations = np.cumsum(np.full(n_steps, step))[-1], np.float32(n_steps * step)
    for duration in durations:
        run = simulate(network, duration, Clock(step))
        assert run.n_steps == n_steps
        assert run.duration == pytest.approx(n_steps * step, rel=1e-9)
        assert whole_steps(duration, step) == n_steps
    later = (n_steps + late) * step
    if late * step > 2e-6 * later:
        assert whole_steps(later, step) == n_steps + 1
        with pytest.raises(ValueError, match="duration must be a whole number"):
            simulate(network, later, Clock(step))


@pytest.mark.property
@pytest.mark.parametrize("floor", [None, -0.1])
@every_form
@examples(6)
@given(data=st.data())
def test_rows_that_change_after_each_spike_are_networks_made_anew(form, floor, data):
    """One row changes after each spike; before some changes the simulator is read, copied, or peeks."""
    this = data.draw(networks(form, MODERATE))
    network = this.network()
    n, rng = network.n_neurons, np.random.default_rng(data.draw(st.integers(0, 99)))
    time = Exact(potential_floor=floor)
    simulator = Simulator(network, this.state, time=time)
    matrix, state = network.weights.toarray().copy(), simulator.state()
    for _ in range(12):
        source, factors = int(rng.integers(n)), rng.uniform(0.5, 1.0, n)
        row = matrix[source] * factors
        look = data.draw(st.sampled_from(["no", "no", "peek", "network", "copy"]))
        kept = None
        if look == "peek":
            simulator.peek()
        elif look == "network":
            kept = simulator.network, matrix.copy()
        elif look == "copy":
            kept = copy(simulator).network, matrix.copy()
        simulator.set_weights_from(source, row)
        matrix[source] = row
        if kept is not None:
            np.testing.assert_array_equal(kept[0].weights, kept[1])
        changed = SpikingNetwork(matrix.copy(), network.soma_bias, network.firing_threshold)
        anew = Simulator(changed, state, time=time)
        anew.soma_bias = anew.soma_bias  # an assignment makes the floor act
        expected, spikes = anew.step(), simulator.step()
        if expected is None:
            assert spikes is None
            break
        np.testing.assert_array_equal(spikes.neurons, expected.neurons)
        np.testing.assert_allclose(spikes.times, expected.times, rtol=TOLERANCE)
        state = simulator.state()
        for name in ("membrane_potential", "synaptic_current"):
            np.testing.assert_allclose(getattr(state, name), getattr(anew, name), atol=TOLERANCE)
    np.testing.assert_array_equal(simulator.weights, matrix)
    np.testing.assert_array_equal(simulator.network.out_degree, np.count_nonzero(matrix, axis=1))


@pytest.mark.parametrize("time", [Exact(), Clock(1 / 8), Clock(1 / 8, DigitalFormat())])
@pytest.mark.parametrize("n", [40, 1500])
def test_a_run_goes_on_with_a_changed_row_as_one_of_the_changed_network(time, n):
    """Runs are exact or on clocks; exact runs of 1,500 neurons use an active set."""
    rng = np.random.default_rng(n)
    matrix = -rng.uniform(0.0, 2.0 / n, (n, n))
    np.fill_diagonal(matrix, 0.0)
    network = SpikingNetwork(matrix, rng.uniform(-0.5, 1.0, n))
    simulator = Simulator(network, time=time)
    simulator.advance(4.0)
    for source in range(4):
        matrix = matrix.copy()
        matrix[source] *= 0.5
        simulator.set_weights_from(source, matrix[source])
    state = simulator.state()
    changed = SpikingNetwork(matrix, network.soma_bias)
    expected = Simulator(changed, state, time=time).advance(8.0)
    found = simulator.advance(8.0)
    np.testing.assert_array_equal(found.spikes.neurons, expected.spikes.neurons)
    np.testing.assert_array_equal(found.spikes.times, expected.spikes.times)
    np.testing.assert_array_equal(network.weights.toarray()[0], 2.0 * matrix[0])
    np.testing.assert_array_equal(found.network.weights, expected.network.weights)


def test_a_row_that_is_refused_changes_nothing():
    network = SpikingNetwork([[0.0, -0.5], [-0.25, 0.0]], [1.0, 0.7])
    simulator = Simulator(network)
    for row in ([0.5, 0.0], [0.0, np.nan], [0.0]):
        with pytest.raises(ValueError, match="weights must"):
            simulator.set_weights_from(0, row)
        simulator.set_weights_from(1, [-0.25, 0.0])  # the next row is written in place
    np.testing.assert_array_equal(simulator.weights, network.weights)


@pytest.mark.property
@every_form
@examples(8)
@given(data=st.data(), n_spikes=st.integers(1, 40), looks=st.booleans())
def test_several_spikes_in_one_step_are_those_one_by_one(form, data, n_spikes, looks):
    this = data.draw(networks(form, MODERATE))
    together, alone, steps = Simulator(this.network(), this.state), Simulator(this.network(), this.state), []
    if looks:
        together.peek()
    found = together.step(n_spikes)
    while sum(map(len, steps)) < n_spikes and (spikes := alone.step()) is not None:
        steps.append(spikes)
    if not steps:
        assert found is None
        return
    np.testing.assert_array_equal(found.neurons, np.concatenate([one.neurons for one in steps]))
    np.testing.assert_allclose(found.times, np.concatenate([one.times for one in steps]), rtol=TOLERANCE)
    np.testing.assert_array_equal(together.spike_counts, alone.spike_counts)
    np.testing.assert_allclose(together.time, alone.time, rtol=TOLERANCE)
    np.testing.assert_allclose(together.membrane_potential, alone.membrane_potential, atol=1e-7)
    # Both simulators continue with the same neurons.
    later, one = together.step(), alone.step()
    assert (later is None) == (one is None)
    if one is not None:
        np.testing.assert_array_equal(later.neurons, one.neurons)


def test_a_step_of_more_spikes_than_there_are_ends_at_the_last():
    network = SpikingNetwork([[0.0, -4.0], [-0.5, 0.0]], [0.0, 0.0])
    state = NetworkState(membrane_potential=np.zeros(2), synaptic_current=np.array([2.5, 0.0]))
    simulator = Simulator(network, state)
    spikes = simulator.step(1000)
    assert simulator.time == spikes.times[-1] == spikes.stop < 2.0
    assert simulator.step(5) is None

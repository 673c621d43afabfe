"""Exact runs of networks of every form and every regime: what is right, and what changes nothing."""

import copy
import math
import pickle
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from snn import Exact, NetworkState, RunawayError, SimulationResult, Simulator, SpikeTrain, simulate
from tests.reference.exact_spikes import judge
from tests.reference.networks import MODERATE, MOST_SPIKES, networks
from tests.reference.simulator import simulate_slowly
from tests.reference.weight_forms import (
    ANY_MATRIX,
    FORMS,
    NAMES,
    in_form,
    require_sums,
    sparse_coding,
    stored,
)
from tests.tiers import examples

pytestmark = pytest.mark.property

every_form = pytest.mark.parametrize("form", NAMES)
any_matrix = pytest.mark.parametrize("form", ANY_MATRIX)
TOLERANCE = 1e-9
"""Rounding of 1e-16 in a time grows with every spike that feeds on it, and few do so in a row."""


def recorded(this, network=None, state=None, duration=None, **options):
    """Return the run with its spikes, of a runaway that up to its end; draw another where it is refused."""
    network = this.network() if network is None else network
    state = this.state if state is None else state
    duration = this.duration if duration is None else duration
    try:
        return simulate(network, duration, state=state, record_spikes=True, max_spikes=MOST_SPIKES, **options)
    except RunawayError as error:
        if MOST_SPIKES < error.result.n_spikes <= MOST_SPIKES + network.n_neurons:
            return error.result
        raise
    except OverflowError:
        reject()
    except ValueError as error:
        if "state" not in str(error):
            raise
        reject()


def require_right(run, weights, state):
    verdict = judge(run, weights, state=state)
    assert verdict.fault == ""
    assert (run.spikes.counts() == run.spike_counts).all()
    assert run.operations.synaptic_operations == run.spike_counts @ np.count_nonzero(weights, axis=1)
    since = (run.spikes.times - run.spikes.start)[:, np.newaxis]
    powers, moments = np.array([2, 3, 4]), np.zeros((2, len(weights), 3))
    np.add.at(moments[0], run.spikes.neurons, since**powers)
    np.add.at(moments[1], run.spikes.neurons, powers * since ** (powers - 1))
    # The times of a record that starts late have lost digits.
    room = 1e-12 * moments[0] + 2.0 * np.spacing(run.spikes.stop) * moments[1] + 1e-300
    assert (np.abs(run.window_moments - moments[0]) <= room).all()
    return verdict


def require_same(run, other, tolerance=0.0):
    """Compare what two runs of one network for one time say at their ends."""
    assert (run.spike_counts == other.spike_counts).all()
    scale = run.network.firing_threshold
    for one, two, unit in (
        (run.average_soma_current, other.average_soma_current, scale / run.duration),
        (run.state.membrane_potential, other.state.membrane_potential, scale),
        (run.state.synaptic_current, other.state.synaptic_current, scale),
    ):
        np.testing.assert_allclose(one / unit, two / unit, rtol=tolerance, atol=tolerance)
    assert math.isclose(run.state.time, other.state.time, rel_tol=1e-15 if tolerance else 0.0)
    if run.spikes is not None and other.spikes is not None:
        require_same_spikes(run.spikes, other.spikes, tolerance)


def require_same_spikes(spikes, other, tolerance=TOLERANCE):
    np.testing.assert_array_equal(spikes.neurons, other.neurons)
    np.testing.assert_allclose(spikes.times, other.times, rtol=tolerance, atol=tolerance)


def known(this):
    """Return the network, with all rows of weights on demand: one that has to wait for a row changes bits."""
    network = this.network()
    network.weights.toarray()
    return network


# --- what is right -----------------------------------------------------------------------------


@every_form
@examples(40)
@given(data=st.data())
def test_every_spike_is_one_of_the_model(form, data):
    """Replayed in 106 bits; so is a second run that goes on from the end of the first."""
    this = data.draw(networks(form))
    network = this.network()
    run = recorded(this, network)
    require_right(run, this.weights, this.state)
    onward = recorded(this, network, run.state, this.duration * data.draw(st.floats(0.1, 2.0)))
    require_right(onward, this.weights, run.state)


@every_form
@examples(4)
@given(data=st.data())
def test_the_slow_twin_agrees(form, data):
    regimes = [*MODERATE[:4], "strong inhibition", "ties", "ties of decimals", "no weights"]
    this = data.draw(networks(form, regimes, most=7))
    duration = this.duration * min(1.0, 20.0 / max(recorded(this).n_spikes, 1))
    run = recorded(this, duration=duration)
    assume(judge(run, this.weights, state=this.state).n_undecided == 0)
    slow = simulate_slowly(this.weights, this.soma_bias, this.firing_threshold, duration, state=this.state)
    np.testing.assert_array_equal(run.spikes.neurons, slow.neurons)
    np.testing.assert_allclose(run.spikes.times - this.start, slow.times, rtol=TOLERANCE, atol=TOLERANCE)
    for name in ("membrane_potential", "synaptic_current"):
        ours, theirs = (getattr(of, name) / this.firing_threshold for of in (run.state, slow))
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


@every_form
@examples(10)
@given(data=st.data())
def test_a_form_is_its_dense_matrix(form, data):
    this = data.draw(networks(form, MODERATE))
    network = this.network()
    np.testing.assert_allclose(network.weights.toarray(), this.weights, rtol=1e-15, atol=1e-15)
    require_sums(network.weights, this.weights)
    np.testing.assert_array_equal(network.out_degree, np.count_nonzero(this.weights, axis=1))
    require_same(recorded(this), recorded(this, in_form(network, "dense")), TOLERANCE)


@every_form
@examples(6)
@given(data=st.data())
def test_screening_changes_nothing(form, data):
    this = data.draw(networks(form, ["few of many fire", "late in many", "sparse coding"]))
    with_and_without = []
    for screening in (True, False):
        network = this.network()
        run = Exact(screening=screening).start(network, network.soma_bias[np.newaxis], this.state)
        spikes = run.advance(this.duration, record=True)
        with_and_without.append((spikes, run.membrane_potential[0], run.synaptic_current[0]))
        assert screening or run.screened_time[0] == 0.0
    (spikes, *numbers), (other, *others) = with_and_without
    require_same_spikes(spikes, other)
    np.testing.assert_allclose(numbers, others, rtol=TOLERANCE, atol=TOLERANCE)


@every_form
def test_screening_is_at_work_in_large_networks(form):
    """Hundreds of spikes between two looks at the screened neurons, all of them right."""
    weights, bias = sparse_coding(form, np.random.default_rng(3), 660, 120, 20)
    network = stored(form, weights, bias)
    run = Exact().start(network, bias[np.newaxis])
    spikes = run.advance(60.0, record=True)
    assert run.screened_time[0] > 40.0 or not FORMS[form].screened
    result = simulate(network, 60.0, record_spikes=True)
    np.testing.assert_array_equal(result.spikes.neurons, spikes.neurons)
    assert result.n_spikes > 300
    require_right(result, weights, None)


# --- what changes nothing ----------------------------------------------------------------------


@every_form
@pytest.mark.parametrize("onto", [None, "current", "drive"])
@examples(3)
@given(data=st.data())
def test_no_bit_depends_on_how_a_run_is_asked_for(form, onto, data):
    """Recording, a bar, a limit, copies of the network, threads; with a stimulus and without."""
    this = data.draw(networks(form, MODERATE))
    network = known(this)
    stimulus = None if onto is None else this.stimulus(onto=onto)

    def run(network=network, **options):
        return simulate(network, this.duration, state=this.state, stimulus=stimulus, **options)

    expected = run(record_spikes=True)
    require_same(run(), expected)
    if onto is None:
        require_same(run(progress=True, record_spikes=True), expected)
    require_same(run(max_spikes=max(expected.n_spikes, 1), record_spikes=True), expected)
    require_same(run(copy.deepcopy(network), record_spikes=True), expected)
    if "on demand" not in form:  # its function cannot be pickled
        require_same(pickle.loads(pickle.dumps(run(pickle.loads(pickle.dumps(network))))), expected)
    with ThreadPoolExecutor(2) as threads:
        for other in threads.map(lambda _: run(record_spikes=True), range(2)):
            require_same(other, expected)
    if expected.n_spikes > 1:
        with pytest.raises(RunawayError) as caught:
            run(max_spikes=expected.n_spikes - 1, record_spikes=True)
        assert caught.value.result.n_spikes == expected.n_spikes


@every_form
@examples(8)
@given(data=st.data())
def test_no_bit_depends_on_pauses_and_company(form, data):
    """Paused after every window, and as one of several copies of the network, some of which run away."""
    this = data.draw(networks(form))
    network = known(this)
    expected = recorded(this, network)
    assume(expected.n_spikes <= MOST_SPIKES)
    paused = Exact().start(network, network.soma_bias[np.newaxis], this.state, updates_per_call=1)
    times, neurons, _ = paused.advance(this.duration, record=True)
    np.testing.assert_array_equal(this.start + times, expected.spikes.times)
    np.testing.assert_array_equal(neurons, expected.spikes.neurons)
    place, n_copies = data.draw(st.sampled_from([(0, 2), (1, 2), (3, 5)]))
    drives = network.soma_bias * np.linspace(0.1, 1.0, n_copies)[:, np.newaxis]
    drives[place] = network.soma_bias
    several = Exact().start(network, drives, this.state)
    several.advance(this.duration, active=np.array([place]))
    several.advance(this.duration, max_spikes=MOST_SPIKES)
    for run, copy_ in ((paused, 0), (several, place)):
        np.testing.assert_array_equal(run.spike_counts[copy_], expected.spike_counts)
        np.testing.assert_array_equal(run.state(copy_).membrane_potential, expected.state.membrane_potential)
        np.testing.assert_array_equal(run.synaptic_current[copy_], expected.state.synaptic_current)


def copies_of_grids_crash(form):
    mark = pytest.mark.xfail(
        run=False, reason="views of the kernel's memory are arrays of their own in a deep copy: it crashes"
    )
    return pytest.param(form, marks=mark if form in ("grid", "one position") else ())


@pytest.mark.parametrize("form", [copies_of_grids_crash(name) for name in NAMES])
@pytest.mark.parametrize("onto", [None, "current", "drive"])
@examples(3)
@given(data=st.data())
def test_simulators_that_are_copied_go_on_alike(form, onto, data):
    """Beside the original, with no array in common, and with what a stimulus changed on the way."""
    this = data.draw(networks(form, MODERATE))
    network, stop = known(this), this.start + this.duration
    middle = 0.5 * (this.start + stop)
    parts = [None, None]
    if onto is not None:
        whole = this.stimulus(onto=onto)
        parts = [whole.between(this.start, middle), whole.between(middle, np.inf)]
    simulator = Simulator(network, this.state)
    simulator.advance(middle, stimulus=parts[0])
    ways = [copy.copy, copy.deepcopy]
    if "on demand" not in form:
        ways.append(lambda simulator: pickle.loads(pickle.dumps(simulator)))
    copies = [way(simulator) for way in ways]
    bias, potential = simulator.soma_bias.copy(), simulator.membrane_potential.copy()
    ends = [other.advance(stop, stimulus=parts[1]) for other in copies]
    # Those have left it alone.
    np.testing.assert_array_equal(simulator.soma_bias, bias)
    np.testing.assert_array_equal(simulator.membrane_potential, potential)
    expected = simulator.advance(stop, stimulus=parts[1])
    for other, end in zip(copies, ends, strict=True):
        require_same(end, expected)
        np.testing.assert_array_equal(other.soma_bias, simulator.soma_bias)
        np.testing.assert_array_equal(other.spike_counts, simulator.spike_counts)
        assert other.peek() == simulator.peek()
    if onto is None:
        at_once = simulate(network, this.duration, state=this.state, record_spikes=True)
    else:
        at_once = simulate(network, this.duration, state=this.state, record_spikes=True, stimulus=whole)
    np.testing.assert_array_equal(simulator.spike_counts, at_once.spike_counts)
    np.testing.assert_allclose(simulator.membrane_potential, at_once.state.membrane_potential, atol=TOLERANCE)


@every_form
@examples(8)
@given(data=st.data())
def test_a_run_cut_into_parts_is_one_run(form, data):
    """Its state is saved and loaded at each cut."""
    this = data.draw(networks(form, MODERATE))
    network, state = this.network(), this.state
    whole = recorded(this, network)
    cuts = sorted(data.draw(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=4, unique=True)))
    times, neurons, charge = [], [], 0.0
    for begin, end in pairwise([0.0, *cuts, 1.0]):
        part = recorded(this, network, state, (end - begin) * this.duration)
        times.append(part.spikes.times)
        neurons.append(part.spikes.neurons)
        charge += part.duration * part.average_soma_current
        with tempfile.TemporaryDirectory() as folder:
            part.state.save(f"{folder}/state.npz")
            state = NetworkState.load(f"{folder}/state.npz")
    np.testing.assert_array_equal(np.concatenate(neurons), whole.spikes.neurons)
    np.testing.assert_allclose(np.concatenate(times), whole.spikes.times, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_allclose(charge, whole.duration * whole.average_soma_current, rtol=1e-9, atol=TOLERANCE)
    np.testing.assert_allclose(state.membrane_potential, whole.state.membrane_potential, atol=TOLERANCE)


@every_form
@examples(8)
@given(data=st.data())
def test_steps_are_the_spikes_of_a_run(form, data):
    """From instant to instant; `peek` says when the next one is, and changes nothing."""
    this = data.draw(networks(form))
    state = this.state and replace(this.state, time=0.0)
    simulator = Simulator(this.network(), state)
    parts = []
    try:
        while len(parts) < 12 and simulator.peek() < this.duration:
            ahead = simulator.peek()
            parts.append(simulator.step())
            assert set(parts[-1].times) == {ahead} == {simulator.time}
            assert (np.diff(parts[-1].neurons) > 0).all()
        if simulator.time < this.duration:
            parts.append(simulator.advance(this.duration, max_spikes=MOST_SPIKES).spikes)
    except (RunawayError, ValueError):
        reject()
    end = simulator.state()
    charge = this.firing_threshold * simulator.spike_counts + end.membrane_potential
    run = SimulationResult(
        network=simulator.network,
        duration=end.time,
        spike_counts=simulator.spike_counts,
        average_soma_current=(charge - (0.0 if state is None else state.membrane_potential)) / end.time,
        window_moments=np.empty(0),
        state=end,
        spikes=SpikeTrain(
            times=np.concatenate([part.times for part in parts]),
            neurons=np.concatenate([part.neurons for part in parts]),
            n_neurons=len(this.weights), start=0.0, stop=max([end.time, *parts[-1].times]),
        ),
    )  # fmt: skip
    assert judge(run, this.weights, state=state).fault == ""


@any_matrix
@examples(6)
@given(data=st.data())
def test_a_permutation_of_neurons_permutes_spikes(form, data):
    this = data.draw(networks(form, MODERATE))
    n = len(this.weights)
    order = np.random.default_rng(this.seed).permutation(n)
    state = this.state and replace(
        this.state,
        membrane_potential=this.state.membrane_potential[order],
        synaptic_current=this.state.synaptic_current[order],
    )
    permuted = this._replace(
        weights=this.weights[np.ix_(order, order)], soma_bias=this.soma_bias[order],
        firing_threshold=this.firing_threshold[order], state=state,
    )  # fmt: skip
    run, other = recorded(this), recorded(permuted)
    np.testing.assert_array_equal(other.spike_counts, run.spike_counts[order])
    for neuron in range(n):
        np.testing.assert_allclose(
            other.spikes.of(neuron), run.spikes.of(order[neuron]), rtol=TOLERANCE, atol=TOLERANCE
        )


@every_form
@examples(6)
@given(data=st.data(), power=st.integers(-900, 900))
def test_units_and_the_time_of_day_change_nothing(form, data, power):
    """Powers of two change no bit, and another unit of potentials no spike."""
    this = data.draw(networks(form, MODERATE))
    start = this.state or NetworkState.at_rest(len(this.weights))
    expected = recorded(this, known(this))

    def in_units(unit, time=start.time):
        state = NetworkState(
            membrane_potential=np.minimum(start.membrane_potential * unit, this.firing_threshold * unit),
            synaptic_current=start.synaptic_current * unit,
            time=time,
        )
        scaled = this._replace(
            weights=this.weights * unit, soma_bias=this.soma_bias * unit,
            firing_threshold=this.firing_threshold * unit, state=state,
        )  # fmt: skip
        return recorded(scaled, known(scaled))

    other = in_units(2.0**power)
    require_same_spikes(other.spikes, expected.spikes, 0.0)
    np.testing.assert_array_equal(
        other.state.membrane_potential, expected.state.membrane_potential * 2.0**power
    )
    require_same_spikes(in_units(10.0 ** (power / 4.0)).spikes, expected.spikes)
    later = in_units(1.0, start.time + 3.25)
    np.testing.assert_allclose(
        later.spikes.times - 3.25, expected.spikes.times, rtol=1e-15, atol=1e-15 * later.state.time
    )
    np.testing.assert_array_equal(later.state.synaptic_current, expected.state.synaptic_current)


# --- ties, runaways, silence -------------------------------------------------------------------


@any_matrix
@examples(8)
@given(data=st.data(), in_units=st.booleans())
def test_equal_neurons_fire_together_in_the_order_of_their_indices(form, data, in_units):
    """Each neuron twice, the second in a unit of its own, by which equal crossings differ in last bits."""
    single = data.draw(networks(form, ["weak inhibition", "sparse coding", "no weights"]))
    n = len(single.weights)
    weights = np.tile(single.weights - np.eye(n), (2, 2))
    np.fill_diagonal(weights, 0.0)
    unit = np.ones(2 * n)
    if in_units:
        unit[n:] = np.random.default_rng(single.seed).uniform(0.5, 2.0, n)
    double = single._replace(
        weights=weights * unit, soma_bias=np.tile(single.soma_bias, 2) * unit,
        firing_threshold=np.tile(single.firing_threshold, 2) * unit,
        state=NetworkState.at_rest(2 * n),
    )  # fmt: skip
    run = recorded(double)
    verdict = require_right(run, double.weights, None)
    assert verdict.n_ties > 0 or run.n_spikes == 0
    for neuron in range(n):
        np.testing.assert_array_equal(run.spikes.of(neuron), run.spikes.of(n + neuron))
    np.testing.assert_array_equal(np.lexsort((run.spikes.neurons, run.spikes.times)), np.arange(run.n_spikes))


@every_form
@examples(6)
@given(data=st.data())
def test_a_stop_at_a_tie_splits_it_in_no_way(form, data):
    """Stopped at an instant with spikes, or a last bit beside it: all of them belong to one side."""
    this = data.draw(networks(form, ["ties", "ties of decimals"], most=12))
    network = known(this)
    whole = recorded(this, network)
    assume(0 < whole.n_spikes <= MOST_SPIKES)
    assume(judge(whole, this.weights, state=this.state).n_undecided == 0)
    instant = data.draw(st.sampled_from(np.unique(whole.spikes.times)[:5].tolist())) - this.start
    assume(0.0 < instant < 0.9 * this.duration)
    for stop in (instant, np.nextafter(instant, 0.0), np.nextafter(instant, np.inf)):
        first = recorded(this, network, duration=stop)
        second = recorded(this, network, first.state, this.duration - stop)
        neurons = np.concatenate([first.spikes.neurons, second.spikes.neurons])
        np.testing.assert_array_equal(
            neurons[: whole.n_spikes - 5], whole.spikes.neurons[: whole.n_spikes - 5]
        )
        at_it = (whole.spikes.times - this.start == instant).sum()
        assert (first.spikes.times > this.start + 0.999999999 * instant).sum() in (0, at_it)

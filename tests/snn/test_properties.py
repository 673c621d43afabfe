"""Exact runs are right for networks of every form and regime, and options do not change their spikes."""

import copy
import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from snn import (
    Exact,
    NetworkState,
    RunawayError,
    SimulationResult,
    Simulator,
    SpikeTrain,
    SpikingNetwork,
    simulate,
)
from snn.run.start import start_run
from tests.processes import at_most, interrupted, run_python
from tests.reference.exact_spikes import judge
from tests.reference.networks import FIRST_SPIKES, MODERATE, MOST_SPIKES, networks
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
"""A rounding error of 1e-16 in a time grows with each spike that it causes; such chains are short."""


def recorded(this, network=None, state=None, duration=None, **options):
    """Return a run with recorded spikes; a runaway ends at its error, and a refused example is rejected."""
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
    if run.spikes.start == 0.0:  # times of a run that starts late have fewer digits
        moments = np.zeros((len(weights), 3))
        np.add.at(moments, run.spikes.neurons, run.spikes.times[:, np.newaxis] ** [2, 3, 4])
        np.testing.assert_allclose(run.window_moments, moments, rtol=1e-12)
    return verdict


def require_same(run, other, tolerance=0.0):
    """Compare the results of two runs of one network for the same duration."""
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
    """Return the network with all rows on demand computed: computing a row during a run changes bits."""
    network = this.network()
    network.weights.toarray()
    return network


# --- what is right -----------------------------------------------------------------------------


@every_form
@examples(40)
@given(data=st.data())
def test_every_spike_is_one_of_the_model(form, data):
    """The judge replays a run, and a second run from the final state of the first, in 106 bits."""
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
        run = start_run(Exact(screening=screening), network, network.soma_bias[np.newaxis], this.state)
        spikes = run.advance(this.duration, record=True)
        with_and_without.append((spikes, run.membrane_potential[0], run.synaptic_current[0]))
        assert screening or run._states["screened_time"][0] == 0.0
    (spikes, *numbers), (other, *others) = with_and_without
    require_same_spikes(spikes, other)
    np.testing.assert_allclose(numbers, others, rtol=TOLERANCE, atol=TOLERANCE)


@every_form
def test_screening_is_at_work_in_large_networks(form):
    """Between two checks of the screened neurons there are hundreds of spikes, all of them right."""
    weights, bias = sparse_coding(form, np.random.default_rng(3), 660, 120, 20)
    network = stored(form, weights, bias)
    run = start_run(Exact(), network, bias[np.newaxis])
    spikes = run.advance(60.0, record=True)
    assert run._states["screened_time"][0] > 40.0 or not FORMS[form].screened
    result = simulate(network, 60.0, record_spikes=True)
    np.testing.assert_array_equal(result.spikes.neurons, spikes.neurons)
    assert result.n_spikes > 300
    require_right(result, weights, None)


# --- what changes nothing ----------------------------------------------------------------------


@every_form
@pytest.mark.parametrize("onto", [None, "current", "drive"])
@examples(4)
@given(data=st.data())
def test_no_bit_depends_on_how_a_run_is_asked_for(form, onto, data):
    """Options are recording, a progress bar, a limit, copies of the network, threads, and a stimulus."""
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
    if "on demand" not in form:  # the function that computes rows cannot be pickled
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
    """The run pauses after every window, or is one of several copies, some of which run away."""
    this = data.draw(networks(form))
    network = known(this)
    expected = recorded(this, network)
    assume(expected.n_spikes <= MOST_SPIKES)
    paused = start_run(Exact(), network, network.soma_bias[np.newaxis], this.state, updates_per_call=1)
    times, neurons, _ = paused.advance(this.duration, record=True)
    np.testing.assert_array_equal(this.start + times, expected.spikes.times)
    np.testing.assert_array_equal(neurons, expected.spikes.neurons)
    place, n_copies = data.draw(st.sampled_from([(0, 2), (1, 2), (3, 5)]))
    drives = network.soma_bias * np.linspace(0.1, 1.0, n_copies)[:, np.newaxis]
    drives[place] = network.soma_bias
    several = start_run(Exact(), network, drives, this.state)
    several.advance(this.duration, active=np.array([place]))
    several.advance(this.duration, max_spikes=MOST_SPIKES)
    for run, copy_ in ((paused, 0), (several, place)):
        np.testing.assert_array_equal(run.spike_counts[copy_], expected.spike_counts)
        np.testing.assert_array_equal(run.state(copy_).membrane_potential, expected.state.membrane_potential)
        np.testing.assert_array_equal(run.synaptic_current[copy_], expected.state.synaptic_current)


@every_form
@pytest.mark.parametrize("onto", [None, "current", "drive"])
@examples(4)
@given(data=st.data())
def test_simulators_that_are_copied_go_on_alike(form, onto, data):
    """A copy shares no array with the original, and includes earlier changes by a stimulus."""
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
    # Advancing the copies has not changed the original.
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
def test_steps_are_the_spikes_of_a_run(form, data):
    """Each step leads to the next instant, which `peek` predicts without any change."""
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
    except (RunawayError, OverflowError, ValueError):
        reject()
    end = simulator.state()
    charge = this.firing_threshold * simulator.spike_counts + end.membrane_potential
    run = SimulationResult(
        network=simulator.network,
        duration=end.time,
        spike_counts=simulator.spike_counts,
        average_soma_current=(charge - (0.0 if state is None else state.membrane_potential)) / end.time,
        window_moments=np.empty(0),
        start=state or NetworkState.at_rest(len(this.weights)),
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
    """Scaling by powers of two changes no bit, and another unit of potentials changes no spike."""
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
    """Each neuron has a copy; the copy may have other units, so that equal crossings differ in last bits."""
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
    """If a run stops within a last bit of an instant with spikes, the stop does not separate these spikes."""
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


@pytest.mark.parametrize("threshold", [1.0, 2.0, 2.5])
@pytest.mark.parametrize("period", [4.0, 8.0, 2000.0])
@every_form
def test_a_spike_at_the_stop_belongs_to_the_run(period, threshold, form):
    """In exact arithmetic a slow neuron crosses at the stop; rounding could delay it by one last bit."""
    n = FORMS[form].n_neurons(1)
    network = stored(form, np.zeros((n, n)), np.full(n, threshold / period), threshold)
    for n_spikes in (1, 2, 3, 5):
        np.testing.assert_array_equal(simulate(network, n_spikes * period).spike_counts, n_spikes)


@pytest.mark.parametrize("size", [1e3, 1e9, 1e11])
def test_a_neuron_that_rises_from_far_below_fires_at_the_end_of_a_run(size):
    """In exact arithmetic the neuron crosses just before the end of the run; another neuron fires earlier."""
    rng = np.random.default_rng(1)
    for start, duration in zip(-size * rng.uniform(0.5, 1.0, 100), rng.uniform(0.2, 0.9, 100), strict=True):
        bias = math.nextafter((1 - Fraction(start)) / Fraction(duration), math.inf)
        assert Fraction(start) + Fraction(bias) * Fraction(duration) >= 1
        network = SpikingNetwork(np.zeros((2, 2)), [5.0, bias])
        state = NetworkState(membrane_potential=[0.0, start], synaptic_current=[0.0, 0.0])
        assert simulate(network, duration, state=state).spike_counts[1] == 1


@every_form
def test_a_runaway_names_the_neurons_and_carries_the_run(form):
    """Two neurons excite each other; neurons without synapses fire floor(beta t) times before the error."""
    this, n = FORMS[form], FORMS[form].n_neurons(18)
    weights = np.zeros((n, n))
    if this.multiple > 2:  # on a grid, each position has a pair
        within = np.zeros((n // this.multiple,) * 2)
        within[0, 1] = within[1, 0] = 1.5
        weights, pair = np.kron(np.eye(this.multiple), within), np.arange(n)[np.arange(n) % len(within) < 2]
    else:
        pair = np.array([2, 2 + n // 2] if this.signed else [2, 5])
        weights[pair[0], pair[1]] = weights[pair[1], pair[0]] = 1.5
    network = stored(form, weights, np.full(n, 0.1))
    with pytest.raises(RunawayError, match="max_spikes") as caught:
        simulate(network, 1e6, max_spikes=5_000, record_spikes=True)
    result = pickle.loads(pickle.dumps(caught.value)).result if "demand" not in form else caught.value.result
    assert any(f" {neuron} (" in str(caught.value) for neuron in pair)
    assert 5_000 < result.n_spikes == len(result.spikes) <= 5_000 + len(pair)
    assert result.state.time == result.duration == result.spikes.times[-1] == result.spikes.stop
    bystanders = np.delete(result.spike_counts, pair)
    np.testing.assert_array_equal(bystanders, int(0.1 * result.duration))
    with pytest.raises(RunawayError) as caught:
        simulate(network, 1e6, max_spikes=5_000)
    np.testing.assert_array_equal(caught.value.result.spike_counts, result.spike_counts)
    if form == "dense":
        with pytest.raises(RunawayError, match="1,000,000"):
            simulate(network, 50.0)


@every_form
def test_a_runaway_within_its_first_instant(form):
    n = FORMS[form].n_neurons(3)
    network = stored(form, np.zeros((n, n)), np.linspace(1.0, 2.0, n))
    state = NetworkState(membrane_potential=np.ones(n), synaptic_current=np.linspace(0.5, 0.0, n))
    with pytest.raises(RunawayError) as caught:
        simulate(network, 1e-9, state=state, max_spikes=1)
    result = caught.value.result
    np.testing.assert_array_equal(result.spike_counts, 1)
    np.testing.assert_array_equal(result.average_soma_current, network.soma_bias + state.synaptic_current)
    assert not np.isnan(result.spike_rate).any()


@any_matrix
@pytest.mark.parametrize("weight", [1e8, 1e12])
def test_excitation_so_strong_that_time_stands_still_is_an_error(form, weight):
    """Each weight is accepted, but the sum of hundreds of spikes in an instant is too large for rounding."""
    network = stored(form, weight * (1.0 - np.eye(3)), [1.0, 0.9, 0.8])
    with pytest.raises((RunawayError, OverflowError)):
        simulate(network, 10.0, max_spikes=10_000)
    if weight == 1e12:
        with pytest.raises(OverflowError, match="currents"):
            simulate(network.with_soma_bias(np.ones(3)), 10.0)


def test_inhibition_alone_never_meets_the_default_limit():
    """No neuron fires more often than its drive alone allows; the limit is a hundred times this number."""
    network = SpikingNetwork(-1e-6 * (np.ones((5, 5)) - np.eye(5)), np.full(5, 50.0), 0.001)
    assert simulate(network, 25.0).n_spikes > 1_000_000


@every_form
def test_what_hardly_ever_happens_takes_no_time(form):
    """Cases are silence, tiny drives, and currents that fade away, also with hundreds of neurons."""
    n = FORMS[form].n_neurons(300)
    network = stored(form, np.zeros((n, n)), np.linspace(-1e-9, 1e-9, n))
    current = NetworkState(membrane_potential=np.zeros(n), synaptic_current=np.full(n, 0.9))
    slow = network.with_soma_bias(np.full(n, 1e-20))
    simulate(network, 1.0)
    with at_most(5.0):  # takes milliseconds; windows of fixed length would take hours
        assert simulate(network.with_soma_bias(np.zeros(n)), 1e12, state=current).n_spikes == 0
        assert simulate(network, 0.9e9).n_spikes == 0
        counts = simulate(network, 2.5e9).spike_counts
        np.testing.assert_array_equal(counts, (2.5e9 * np.maximum(network.soma_bias, 0.0)).astype(int))
        np.testing.assert_array_equal(simulate(slow, 2.5e20).spike_counts, 2)
        simulator = Simulator(slow)
        for k in (1, 2):
            np.testing.assert_allclose(simulator.step().times, 1e20 * k, rtol=1e-12)
        assert math.isclose(Simulator(network.with_soma_bias(np.full(n, 1e-300))).peek(), 1e300)
        assert Simulator(network.with_soma_bias(np.full(n, 5e-324))).peek() == math.inf
        assert Simulator(network.with_soma_bias(-np.ones(n))).step() is None
    faint = replace(current, synaptic_current=np.full(n, 1e-300))
    ends = []
    for updates_per_call in (1, 10**9):  # faint currents are set to zero, wherever a run pauses
        run = start_run(Exact(), network, np.eye(1, n) * 20.0, faint, updates_per_call=updates_per_call)
        run.advance(30.0)
        ends.append(run.synaptic_current[0])
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize("form", ["dense", "sparse", "sign pairs, on demand", "grid"])
def test_no_drift_over_a_hundred_thousand_spikes(form):
    """Independent exact sums of charge agree with counts and final potentials."""
    n = FORMS[form].n_neurons(4)
    rng = np.random.default_rng(5)
    weights = FORMS[form].nearest(-rng.uniform(0.0, 0.02, (n, n)) * (1.0 - np.eye(n)))
    network = stored(form, weights, rng.uniform(3.0, 5.0, n), rng.uniform(0.9, 1.3, n))
    duration = 1e5 / n
    run = simulate(network, duration, record_spikes=True)
    assert run.n_spikes > 1e5
    ages = duration - run.spikes.times
    recent = ages < 60.0  # e^-60 is smaller than rounding errors
    left = [math.fsum(np.exp(-ages[recent & (run.spikes.neurons == j)])) for j in range(n)]
    for i in range(n):
        terms = [
            duration * network.soma_bias[i],
            *(weights[:, i] * run.spike_counts),
            *(-weights[:, i] * left),
        ]
        assert abs(math.fsum(terms) - duration * run.average_soma_current[i]) < TOLERANCE
        terms.append(-network.firing_threshold[i] * run.spike_counts[i])
        assert abs(math.fsum(terms) - run.state.membrane_potential[i]) < TOLERANCE
    np.testing.assert_allclose(run.state.synaptic_current, left @ weights, atol=TOLERANCE)


# --- debugging and interrupts ------------------------------------------------------------------

INTERPRETED = """
from snn import simulate
from tests.reference.networks import case, golden_network
from tests.reference.weight_forms import NAMES
golden = simulate(golden_network(), 4.0, record_spikes=True).spikes
print([(round(time, 6), neuron) for time, neuron in zip(golden.times.tolist(), golden.neurons.tolist())])
for name in NAMES:
    this = case(name, "mixed weights", 8, 5)
    run = simulate(this.network(), 12.0, state=this.state, stimulus=None, record_spikes=True)
    assert run.n_spikes > 2
    print(name, run.spikes.neurons.tolist(), run.spikes.times.round(9).tolist())
"""


@pytest.mark.thorough
def test_kernels_run_without_being_compiled():
    """Uncompiled kernels, which help debugging, give the same spikes, even with warnings as errors."""
    runs = [run_python("-W", "error", "-c", INTERPRETED, NUMBA_DISABLE_JIT=off) for off in ("1", "0")]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stdout.splitlines()[0] == str(FIRST_SPIKES)


BUSY = """
import sys
import numpy as np
from snn import Clock, simulate
from tests.reference.weight_forms import FORMS, random_matrix, stored
form, clocked = sys.argv[1], sys.argv[2] == "True"
weights = -0.01 * np.abs(random_matrix(form, np.random.default_rng(0), 300, density=0.1, sign=-1))
network = stored(form, FORMS[form].nearest(weights), np.ones(len(weights)))
run = (lambda time: simulate(network, time, Clock(0.01))) if clocked else (
    lambda time: simulate(network, time, max_spikes=10**15))
run(1.0)
try:
    ready()
    run(1e6 if clocked else 1e9)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize(
    ("form", "clocked"), [("dense", True), *((form, False) for form in ("dense", "sparse", "blocks", "grid"))]
)
def test_control_c_ends_a_busy_run(form, clocked):
    printed, seconds = interrupted(BUSY, form, clocked)
    assert printed == "interrupted\n"
    assert seconds < 2.0

"""What every kind of run does: copies, pauses, records, limits, new starts; and a new kind, made here."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from snn import Clock, RunawayError, SpikingNetwork
from snn.run.clocked import SteppedRun
from snn.run.run import NO_SPIKES, Spikes, Time
from solvers.methods.spiking import Stages
from tests.reference.problems import random_problem
from tests.reference.runs import KINDS, Kind
from tests.reference.weight_forms import random_matrix, stored


class PlainRun(SteppedRun):
    """A kind of run that is not in the product, with all that it takes: the steps of a clock, in NumPy."""

    buffer_type = staticmethod(lambda *columns: [*NO_SPIKES[:2]])

    def __init__(self, how, network, bias, state=None, **options):
        super().__init__(how, network, bias, state, time_step=how.time_step, work_per_spike=1.0, **options)
        self._bias, self._weights, self._decay = bias, network.weights.toarray(), np.exp(-how.time_step)

    def _call(self, active, position, stops, most, buffer):
        k = active[position]
        if self._steps[k] >= stops[k]:
            buffer[:] = NO_SPIKES[:2]
            return position + 1, 0, 0
        self._steps[k] += 1
        v, h, time = self.membrane_potential[k], self.synaptic_current[k], self.time[k]
        v += self._bias[k] * self.time_step + h * (1.0 - self._decay)
        n = np.maximum(v // self.network.firing_threshold, 0.0).astype(int)
        v -= n * self.network.firing_threshold
        h[:] = self._decay * h + n @ self._weights
        self.spike_counts[k] += n
        if len(self.window_moments):
            self.window_moments[k] += n[:, np.newaxis] * np.array([time**2, time**3, time**4])
        buffer[:] = np.full(n.sum(), time), np.repeat(np.arange(len(n)), n)
        return position, n.sum(), n.sum()

    def _recorded(self, buffer, n_entries):
        return Spikes(*buffer)


class Plain(Time):
    """The time of such runs."""

    run_type = PlainRun
    time_step = 0.25


KINDS = KINDS | {"made here": Kind(Plain(), ("dense", "sign pairs"), tolerance=1e-12, filters=False)}
CASES = [(kind, form) for kind, this in KINDS.items() for form in this.forms]
STATE = ("spike_counts", "membrane_potential", "synaptic_current", "charge", "window_moments", "time")
N_COPIES = 4


@pytest.fixture(params=CASES, ids=[", ".join(case) for case in CASES])
def case(request):
    """Return a kind of run, a network, and drives of its copies."""
    kind, form = request.param
    rng = np.random.default_rng(11)
    weights = random_matrix(form, rng, 20)
    n_neurons = len(weights)
    drive = rng.uniform(-0.3, 1.5, n_neurons)
    network = stored(form, weights, drive, rng.uniform(1.0, 2.0, n_neurons))
    network.weights.toarray()  # rows of weights on demand: all are known, to every run
    this = KINDS[kind]
    return this._replace(how=this.how.prepare(network)), network, np.outer([1.0, 0.5, -0.1, 1.5], drive)


def started(case, **options):
    kind, network, drives = case
    return kind.how.start(network, drives.copy(), window_moments=True, **options)


def alone(case, copy, **options):
    kind, network, drives = case
    return kind.how.start(network, drives[[copy]], window_moments=True, **options)


def began_elsewhere(case):
    """Return a run of one copy that is under way."""
    run = alone(case, 3)
    run.advance(2.375)
    return run


def assert_same(run, other, tolerance=0.0, *, copies=slice(None), others=slice(None), names=STATE):
    for name in names:
        mine, theirs = getattr(run, name)[copies], getattr(other, name)[others]
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance, err_msg=name)


def test_the_fields_say_where_the_copies_are(case):
    kind, network, drives = case
    run = started(case)
    run.advance(np.array([20.0, 5.01, 1.0, 0.0]))
    np.testing.assert_allclose(run.time, [20.0, 5.01, 1.0, 0.0], rtol=0, atol=run.time_step)
    assert (run.time <= [20.0, 5.01, 1.0, 0.0]).all()
    if run.n_steps is None:
        assert kind.how.time_step is None
        assert run.total_steps is None
    else:
        np.testing.assert_array_equal(run.time, run.n_steps * run.time_step)
        np.testing.assert_array_equal(run.total_steps, run.n_steps)
    assert run.spike_counts[0].sum() > 50
    assert run.n_emitted == run.spike_counts.sum()
    assert not run.spike_counts[3].any()
    assert not run.is_lost.any()
    run.require_valid()
    assert run.membrane_potential.shape == run.synaptic_current.shape == drives.shape
    assert (run.membrane_potential <= network.firing_threshold * (1.0 + 1e-12)).all()


@pytest.mark.parametrize("time_step", [0.1, 1 / 3, 0.25, 1e-6, 0.7])
def test_a_clock_ends_at_the_last_step_that_ends_by_then(time_step):
    """Also where the quotient of time and step is rounded to less than the whole number it would be."""
    network = SpikingNetwork([[0.0]], [0.0])
    steps = np.concatenate([np.arange(1, 2000), 2 ** np.arange(11, 20)])
    run = Clock(time_step).start(network, np.zeros((len(steps), 1)))
    run.advance(steps * time_step)
    np.testing.assert_array_equal(run.n_steps, steps)
    run = Clock(time_step).start(network, np.zeros((len(steps), 1)))
    run.advance((steps - 0.01) * time_step)
    np.testing.assert_array_equal(run.n_steps, steps - 1)


def test_a_simulation_is_a_run_of_one_copy(case):
    kind, network, _ = case
    if kind.simulate is None:
        return
    state = began_elsewhere(case).state()
    run = kind.how.start(network, network.soma_bias[np.newaxis], state, window_moments=True)
    times, neurons, messages = run.advance(30.0, record=True)
    result = kind.simulate(network, 30.0, state=state, record_spikes=True)
    plain = kind.simulate(network, 30.0, state=state)
    assert plain.spikes is None
    for one in (result, plain):
        np.testing.assert_array_equal(one.spike_counts, run.spike_counts[0])
        np.testing.assert_array_equal(one.window_moments, run.window_moments[0])
        for name in ("membrane_potential", "synaptic_current"):
            np.testing.assert_array_equal(getattr(one.state, name), getattr(run.state(), name))
    np.testing.assert_allclose(result.spikes.times - result.spikes.start, times, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(result.spikes.neurons, neurons)
    if messages is not None:
        np.testing.assert_array_equal(result.spike_messages, messages)
    with pytest.raises(
        RunawayError, match=r"more than max_spikes = 30 spikes within .* drive alone would"
    ) as caught:
        kind.simulate(network, 30.0, state=state, record_spikes=True, max_spikes=30)
    assert 30 < caught.value.result.n_spikes == len(caught.value.result.spikes) <= 30 + network.n_neurons
    assert caught.value.result.duration < 30.0


def test_charge_is_what_drive_and_spikes_brought(case):
    """The kernel never adds it up: it is what potentials rose by, and what resets took."""
    kind, network, drives = case
    if kind.charge is None:
        return
    run = started(case)
    run.advance(30.0)
    arrived = network.weights.transpose_product(run.spike_counts.astype(float)) - run.synaptic_current
    expected = drives * run.time[:, np.newaxis] + run.gain * arrived
    np.testing.assert_allclose(run.charge, expected, rtol=0, atol=kind.charge)


def test_advancing_in_parts_is_advancing_at_once(case):
    kind, *_ = case
    whole, parts = started(case), started(case)
    whole.advance(30.0)
    for until in (0.25, 7.0, 7.0, 21.5, 30.0):
        parts.advance(until)
    assert_same(parts, whole, kind.tolerance)


@pytest.mark.parametrize("updates_per_call", [1, 23, 280])
def test_returning_to_python_changes_no_bit(case, updates_per_call):
    state = began_elsewhere(case).state()
    whole, paused = started(case, state=state), started(case, state=state, updates_per_call=updates_per_call)
    spikes, same = (run.advance(60.0, record=True) for run in (whole, paused))
    assert len(spikes.times) > 100
    for column, other in zip(spikes, same, strict=True):
        np.testing.assert_array_equal(column, other)
    assert_same(paused, whole)


def test_recording_and_progress_change_no_bit(case, capsys):
    plain, recorded, shown = started(case), started(case), started(case)
    assert not len(plain.advance(20.0).times)
    times, neurons, _ = recorded.advance(20.0, record=True)
    shown.advance(20.0, progress=True)
    assert "spikes" in capsys.readouterr().err
    assert_same(recorded, plain)
    assert_same(shown, plain)
    n_neurons = plain.network.n_neurons
    np.testing.assert_array_equal(np.bincount(neurons, minlength=n_neurons), plain.spike_counts.sum(axis=0))
    assert times.min() > 0.0
    assert times.max() <= 20.0 * (1.0 + 1e-12)


def test_copies_are_runs_of_their_own(case):
    """No bit depends on the company, the order, the pauses, or where others stop."""
    together = started(case, updates_per_call=23)
    together.advance(np.array([7.0, 20.0, 11.0, 0.5]), active=np.array([3, 0, 2]))
    together.advance(np.array([13.0, 20.0, 11.0, 0.5]), active=np.array([1, 0]))
    for copy, stops in enumerate(([7.0, 13.0], [20.0], [11.0], [0.5])):
        own = alone(case, copy)
        for stop in stops:
            own.advance(stop)
        assert_same(together, own, copies=[copy])


def test_threads_change_no_bit(case):
    with ThreadPoolExecutor(3) as pool:
        runs = [started(case) for _ in range(6)]
        list(pool.map(lambda run: run.advance(20.0), runs))
    expected = started(case)
    expected.advance(20.0)
    for run in runs:
        assert_same(run, expected)


def test_moments_are_those_of_the_recorded_spikes(case):
    run = alone(case, 0)
    recorded = [run.advance(until, record=True) for until in (9.0, 30.0)]
    times, neurons = (
        np.concatenate([getattr(part, name) for part in recorded]) for name in ("times", "neurons")
    )
    weights = np.ones(len(times))
    if recorded[0].messages is not None:
        values = run.integers.message_value
        weights = np.concatenate([part.messages for part in recorded]) * values[neurons]
    expected = np.zeros((run.network.n_neurons, 3))
    np.add.at(expected, neurons, weights[:, np.newaxis] * times[:, np.newaxis] ** [2, 3, 4])
    np.testing.assert_allclose(run.window_moments[0], expected, rtol=1e-12)


def test_stops_after_max_spikes_and_catches_up(case):
    kind, *_ = case
    whole, run = started(case), started(case)
    whole.advance(40.0)
    most = whole.n_emitted // 2
    run.advance(40.0, max_spikes=most)
    assert most < run.n_emitted == run.spike_counts.sum() <= most + run.network.n_neurons
    assert (run.time < 40.0).any()
    run.advance(40.0, max_spikes=whole.n_emitted)
    assert_same(run, whole, kind.tolerance)
    free = started(case)
    free.advance(40.0, max_spikes=whole.n_emitted)  # what is not reached changes no bit
    assert_same(free, whole)


def test_asks_whether_to_stop(case):
    run, whole = started(case, updates_per_call=1), started(case)
    asked = []
    run.advance(30.0, stop_when=lambda: asked.append(0) or len(asked) == 3)
    assert len(asked) == 3
    assert (run.time < 30.0).any()
    run.advance(30.0)
    whole.advance(30.0)
    assert_same(run, whole, KINDS["exact"].tolerance)


def test_a_copy_that_starts_again_is_as_a_new_one(case):
    """But for its counts, which go on; what an exact run knows of before may cut intervals elsewhere."""
    kind, network, drives = case
    bias = drives.copy()
    run = kind.how.start(network, bias, window_moments=True)
    run.advance(20.0)
    counts = run.spike_counts.copy()
    bias[[1, 2]] = drives[[3, 0]]
    run.membrane_potential[[1, 2]] = 0.5 * network.firing_threshold
    run.synaptic_current[[1, 2]] = currents = 0.1 * drives[[0, 1]]
    run.restart(np.array([1, 2]))
    np.testing.assert_array_equal(run.time[[1, 2]], 0.0)
    run.advance(15.0, active=np.array([2, 1]))
    new = kind.how.start(network, bias, window_moments=True)
    new.membrane_potential[:] = 0.5 * network.firing_threshold
    new.synaptic_current[[1, 2]] = currents
    new.restart(np.arange(N_COPIES))
    new.advance(15.0)
    names = ("membrane_potential", "synaptic_current", "charge", "window_moments", "time")
    assert_same(run, new, kind.tolerance, copies=[1, 2], others=[1, 2], names=names)
    np.testing.assert_array_equal((run.spike_counts - counts)[1:3], new.spike_counts[1:3])
    np.testing.assert_array_equal(run.spike_counts[[0, 3]], counts[[0, 3]])
    assert (run.time[[0, 3]] >= 20.0 - run.time_step).all()
    if run.total_steps is not None:
        np.testing.assert_array_equal(run.total_steps[1:3], run.total_steps[0] + run.n_steps[1:3])


def test_a_state_is_where_another_run_goes_on(case, tmp_path):
    kind, network, drives = case
    first, whole = started(case), started(case)
    first.advance(7.0)
    whole.advance(12.0)
    counts = first.spike_counts.copy()
    for copy in range(N_COPIES):
        state = first.state(copy)
        state.save(tmp_path / "state.npz")
        second = kind.how.start(network, drives[[copy]], type(state).load(tmp_path / "state.npz"))
        second.advance(5.0)
        np.testing.assert_array_equal(counts[copy] + second.spike_counts[0], whole.spike_counts[copy])
        for name in ("membrane_potential", "synaptic_current"):
            np.testing.assert_allclose(
                getattr(second, name)[0], getattr(whole, name)[copy], rtol=0, atol=kind.tolerance
            )
    np.testing.assert_array_equal(first.spike_counts, counts)


def test_a_run_goes_on_where_another_stood(case):
    """All copies, with their filtered spikes; from rest, currents are W^T times these."""
    kind, network, drives = case
    if not kind.filters:
        with pytest.raises(ValueError, match="keeps no filtered spikes"):
            started(case).filtered_spikes  # noqa: B018 - a property
        return
    first, whole = started(case, filter_spikes=True), started(case, filter_spikes=True)
    first.advance(7.0)
    whole.advance(12.0)
    second = kind.how.start(network, drives, first, filter_spikes=True)
    np.testing.assert_allclose(second.filtered_spikes, first.filtered_spikes, rtol=1e-15)
    second.advance(5.0)
    np.testing.assert_array_equal(first.spike_counts + second.spike_counts, whole.spike_counts)
    np.testing.assert_allclose(first.charge + second.charge, whole.charge, rtol=0, atol=1e-9)
    for name in ("membrane_potential", "synaptic_current"):
        np.testing.assert_allclose(getattr(second, name), getattr(whole, name), rtol=0, atol=kind.tolerance)
    np.testing.assert_allclose(second.filtered_spikes, whole.filtered_spikes, rtol=0, atol=1e-9)
    expected = network.weights.transpose_product(second.filtered_spikes)
    np.testing.assert_allclose(second.synaptic_current, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("positive", [True, False])
def test_a_new_kind_of_run_solves_problems(positive):
    """Stage by stage, with the spikes of the clock that it imitates."""
    result = Stages(how=Plain())(random_problem(positive=positive), tol=1e-4)
    assert result.converged
    assert result.n_stages.max() > 1
    np.testing.assert_array_equal(result.n_clock_steps * 0.25 <= result.duration, True)
    expected = Stages(how=Clock(0.25))(random_problem(positive=positive), tol=1e-4)
    np.testing.assert_array_equal(result.n_steps, expected.n_steps)

"""All kinds of runs agree on copies, pauses, records, limits, restarts, and the balance of charge."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snn import (
    Clock,
    Exact,
    Imperfections,
    RealNeuron,
    RunawayError,
    Simulator,
    SpikeTrain,
    SpikingNetwork,
    Stimulus,
    simulate,
)
from snn._kernels.run_state import BurstLimit
from snn.digital import DigitalFormat, FixedPoint
from snn.run.simulate import _spike_limit
from snn.run.start import fitted, start_run
from tests.reference.networks import networks
from tests.reference.weight_forms import NAMES
from tests.tiers import examples

CLOCK_FORMS = ("dense", "sparse", "blocks", "grid", "sign pairs")
TIME_STEP = 1 / 32
# Registers are so wide that their rounding errors are below the tolerances of tests.
WIDE = DigitalFormat(
    weights=FixedPoint(bits=24), bias=FixedPoint(bits=40), potential_bits=48, current_bits=44,
    decay_bits=18, message_bits=16, threshold=2**36,
)  # fmt: skip


class Kind(NamedTuple):
    """A kind of run, and what tests need to know about this kind."""

    time: Any
    forms: tuple[str, ...] = CLOCK_FORMS
    """Forms of weights with which it is tested."""
    tolerance: float = 0.0
    """Largest difference between a run that is split or restarted and one that is not."""
    charge: float | None = 1e-11
    """Largest error of the balance of charge, drive and spikes; None if weights are rounded."""
    filters: bool = True
    """Whether it can keep filtered spikes, and so continue from the state of another run."""


def imperfect(**changes: float) -> Kind:
    time = Clock(TIME_STEP, imperfections=Imperfections(**changes))
    return Kind(time, charge=None, filters=False)


def digital(form: DigitalFormat, forms: tuple[str, ...], charge: float | None = None) -> Kind:
    return Kind(Clock(TIME_STEP, form), forms, charge=charge, filters=False)


KINDS = {
    "exact": Kind(Exact(), NAMES, tolerance=1e-9, charge=1e-9),
    "exact, unscreened": Kind(Exact(screening=False), ("dense", "blocks"), tolerance=1e-9, charge=1e-9),
    **{
        f"clock, {integration}, {reset}": Kind(
            Clock(TIME_STEP, RealNeuron(integration=integration, reset=reset))
        )
        for integration in ("exact", "euler")
        for reset in ("subtract", "zero")
    },
    "imperfect, leak": imperfect(leak=0.05),
    "imperfect, mismatch": imperfect(weight_mismatch=0.1),
    "digital": digital(DigitalFormat(), ("dense",)),
    "digital, delays": digital(DigitalFormat(delay=2), ("dense",)),
    "digital, wide": digital(WIDE, ("dense", "sign pairs"), 1e-3),
}

EVERY_KIND = [(kind, form) for kind, this in KINDS.items() for form in this.forms]
every_kind = pytest.mark.parametrize(("kind", "form"), EVERY_KIND)
LARGEST_PART = 1e-9
STATE = ("spike_counts", "membrane_potential", "synaptic_current", "charge", "window_moments", "time")
N_COPIES = 4


class Prepared:
    """A kind of run, a network, and the drives of the copies of the network."""

    def __init__(self, data, kind, form):
        this = data.draw(networks(form, ["mixed weights", "weak inhibition"], least=10, most=24))
        self.kind, self.network = KINDS[kind], this.network()
        self.network.weights.toarray()  # computes all rows of weights on demand before any run
        self.time = fitted(self.kind.time, self.network)
        self.drives = np.outer([1.0, 0.5, -0.1, 1.5], this.soma_bias)

    def started(self, *, copies=slice(None), **options):
        return start_run(self.time, self.network, self.drives[copies].copy(), window_moments=True, **options)

    def on_the_way(self):
        """Return the state of an unfinished run of one copy."""
        run = self.started(copies=[3])
        run.advance(2.375)
        return run.state()


def require_same(run, other, tolerance=0.0, *, copies=slice(None), others=slice(None), names=STATE):
    for name in names:
        mine, theirs = getattr(run, name)[copies], getattr(other, name)[others]
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.property
@every_kind
@examples(1)
@given(data=st.data())
def test_no_bit_depends_on_pauses_records_company_and_threads(kind, form, data):
    this = Prepared(data, kind, form)
    plain = this.started()
    assert not len(plain.advance(20.0).times)
    recorded, shown, free = this.started(), this.started(), this.started()
    times, neurons, _ = recorded.advance(20.0, record=True)
    shown.advance(20.0, progress=True)
    free.advance(20.0, max_spikes=max(plain.n_emitted, 1))
    with ThreadPoolExecutor(2) as pool:
        others = [this.started() for _ in range(2)]
        list(pool.map(lambda run: run.advance(20.0), others))
    for other in (recorded, shown, free, *others):
        require_same(other, plain)
    counts = np.bincount(neurons, minlength=this.network.n_neurons)
    np.testing.assert_array_equal(counts, plain.spike_counts.sum(axis=0))
    assert plain.n_emitted == len(times) == plain.spike_counts.sum()
    assert (times > 0.0).all()
    assert (times <= 20.0 * (1.0 + 1e-12)).all()
    for updates_per_call in (1, 280):
        paused = this.started(updates_per_call=updates_per_call)
        again = paused.advance(20.0, record=True)
        np.testing.assert_array_equal(again.times, times)
        np.testing.assert_array_equal(again.neurons, neurons)
        require_same(paused, plain)
    # Results of a copy do not depend on other copies, on their order, or on when they end.
    together = this.started(updates_per_call=23)
    together.advance(np.array([7.0, 20.0, 11.0, 0.5]), active=np.array([3, 0, 2]))
    together.advance(np.array([13.0, 20.0, 11.0, 0.5]), active=np.array([1, 0]))
    for copy, stops in enumerate(([7.0, 13.0], [20.0], [11.0], [0.5])):
        own = this.started(copies=[copy])
        for stop in stops:
            own.advance(stop)
        require_same(together, own, copies=[copy])
    np.testing.assert_allclose(together.time, [13.0, 20.0, 11.0, 0.5], rtol=0, atol=together.time_step)
    if together.n_steps is not None:
        np.testing.assert_array_equal(together.time, together.n_steps * together.time_step)
        np.testing.assert_array_equal(together.total_steps, together.n_steps)
    assert not together.is_lost.any()
    together.require_valid()


@pytest.mark.property
@every_kind
@examples(1)
@given(data=st.data())
def test_a_run_in_parts_is_one_run(kind, form, data):
    """The run is paused, stopped by a limit or by a caller, copied and continued, saved and loaded."""
    this = Prepared(data, kind, form)
    tolerance = this.kind.tolerance
    whole, parts, limited, asked = (this.started(updates_per_call=200) for _ in range(4))
    whole.advance(12.0)
    for until in (0.25, 7.0, 7.0, 12.0):
        parts.advance(until)
    require_same(parts, whole, tolerance)
    most = max(whole.spike_counts.sum() // 2, 1)
    limited.advance(12.0, max_spikes=most)
    if whole.spike_counts.sum() > most:
        assert most < limited.n_emitted == limited.spike_counts.sum() <= most + this.network.n_neurons
    limited.advance(12.0)
    require_same(limited, whole, tolerance)
    answers = []
    asked.advance(12.0, stop_when=lambda: answers.append(0) or len(answers) == 2)
    assert len(answers) <= 2
    asked.advance(12.0)
    require_same(asked, whole, LARGEST_PART)
    first = this.started()
    first.advance(7.0)
    counts = first.spike_counts.copy()
    for copy in range(N_COPIES):
        state = first.state(copy)
        with tempfile.TemporaryDirectory() as folder:
            state.save(f"{folder}/state.npz")
            state = type(state).load(f"{folder}/state.npz")
        second = start_run(this.time, this.network, this.drives[[copy]], state)
        second.advance(5.0)
        np.testing.assert_array_equal(counts[copy] + second.spike_counts[0], whole.spike_counts[copy])
        require_same(
            second, whole, tolerance, others=[copy], names=("membrane_potential", "synaptic_current")
        )
    np.testing.assert_array_equal(first.spike_counts, counts)


@pytest.mark.property
@every_kind
@examples(1)
@given(data=st.data())
def test_a_copy_that_starts_again_is_as_a_new_one(kind, form, data):
    """Only spike counts continue; an exact run keeps figures of its past and may choose other intervals."""
    this = Prepared(data, kind, form)
    bias, half = this.drives.copy(), 0.5 * this.network.firing_threshold
    run = start_run(this.time, this.network, bias, window_moments=True)
    run.advance(10.0)
    counts = run.spike_counts.copy()
    bias[[1, 2]] = this.drives[[3, 0]]
    run.membrane_potential[[1, 2]] = half
    run.synaptic_current[[1, 2]] = currents = 0.1 * this.drives[[0, 1]]
    run.restart(np.array([1, 2]))
    np.testing.assert_array_equal(run.time[[1, 2]], 0.0)
    run.advance(15.0, active=np.array([2, 1]))
    new = start_run(this.time, this.network, bias, window_moments=True)
    new.membrane_potential[:] = half
    new.synaptic_current[[1, 2]] = currents
    new.restart(np.arange(N_COPIES))
    new.advance(15.0)
    require_same(run, new, this.kind.tolerance, copies=[1, 2], others=[1, 2], names=STATE[1:])
    np.testing.assert_array_equal((run.spike_counts - counts)[1:3], new.spike_counts[1:3])
    np.testing.assert_array_equal(run.spike_counts[[0, 3]], counts[[0, 3]])
    assert (run.time[[0, 3]] >= 10.0 - run.time_step).all()
    if run.n_steps is not None:
        np.testing.assert_array_equal(run.total_steps[1:3], run.total_steps[0] + run.n_steps[1:3])


@pytest.mark.property
@every_kind
@examples(2)
@given(data=st.data())
def test_charge_moments_and_filtered_spikes_are_those_of_the_spikes(kind, form, data):
    """The charge of drives and spikes equals the kernel's sum of the rises of potentials and the resets."""
    this = Prepared(data, kind, form)
    run = this.started(copies=[0])
    recorded = [run.advance(until, record=True) for until in (9.0, 30.0)]
    times, neurons = (
        np.concatenate([getattr(part, name) for part in recorded]) for name in ("times", "neurons")
    )
    weights = np.ones(len(times))
    if recorded[0].messages is not None:
        messages = np.concatenate([part.messages for part in recorded])
        weights = messages * run.integers.message_value[neurons]
    moments = np.zeros((run.network.n_neurons, 3))
    np.add.at(moments, neurons, weights[:, np.newaxis] * times[:, np.newaxis] ** [2, 3, 4])
    np.testing.assert_allclose(run.window_moments[0], moments, rtol=1e-12)
    assert (run.membrane_potential <= this.network.firing_threshold * (1.0 + 1e-12)).all()
    if this.kind.charge is not None:
        sent = this.network.weights.transpose_product(run.spike_counts.astype(float))
        brought = this.drives[[0]] * run.time[:, np.newaxis] + run.gain * (sent - run.synaptic_current)
        np.testing.assert_allclose(run.charge, brought, rtol=0, atol=this.kind.charge)
    if not this.kind.filters:
        return
    # All copies continue from the state of another run; from rest, currents are W^T times filtered spikes.
    first, whole = (this.started(filter_spikes=True) for _ in range(2))
    first.advance(7.0)
    whole.advance(12.0)
    second = start_run(this.time, this.network, this.drives, first, filter_spikes=True)
    np.testing.assert_allclose(second.filtered_spikes, first.filtered_spikes, rtol=1e-15)
    second.advance(5.0)
    np.testing.assert_array_equal(first.spike_counts + second.spike_counts, whole.spike_counts)
    np.testing.assert_allclose(first.charge + second.charge, whole.charge, rtol=0, atol=LARGEST_PART)
    names = ("filtered_spikes", "membrane_potential", "synaptic_current")
    require_same(second, whole, LARGEST_PART, names=names)
    received = this.network.weights.transpose_product(second.filtered_spikes)
    np.testing.assert_allclose(second.synaptic_current, received, rtol=0, atol=LARGEST_PART)


@pytest.mark.property
@every_kind
@examples(1)
@given(data=st.data())
def test_a_simulation_is_a_run_of_one_copy(kind, form, data):
    this = Prepared(data, kind, form)
    simulate_it, state = partial(simulate, time=this.kind.time), this.on_the_way()
    run = start_run(this.time, this.network, this.network.soma_bias[np.newaxis], state, window_moments=True)
    times, neurons, messages = run.advance(30.0, record=True)
    result = simulate_it(this.network, 30.0, state=state, record_spikes=True)
    plain = simulate_it(this.network, 30.0, state=state)
    assert plain.spikes is None
    for one in (result, plain):
        np.testing.assert_array_equal(one.spike_counts, run.spike_counts[0])
        np.testing.assert_array_equal(one.window_moments, run.window_moments[0])
        for name in ("membrane_potential", "synaptic_current"):
            np.testing.assert_array_equal(getattr(one.state, name), getattr(run.state(), name))
    np.testing.assert_allclose(result.spikes.times - result.spikes.start, times, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(result.spikes.neurons, neurons)
    if messages is not None:
        np.testing.assert_array_equal(result.registers.spike_messages, messages)
    for array in (result.spike_counts, result.state.membrane_potential, result.spikes.times):
        assert not array.flags.writeable
    most = max(result.n_spikes // 2, 1)
    if result.n_spikes > most:
        with pytest.raises(RunawayError, match="max_spikes") as caught:
            simulate_it(this.network, 30.0, state=state, record_spikes=True, max_spikes=most)
        early = caught.value.result
        assert most < early.n_spikes == len(early.spikes) <= most + this.network.n_neurons
        np.testing.assert_array_equal(early.spikes.neurons, neurons[: early.n_spikes])
        assert early.duration <= 30.0


@pytest.mark.property
@pytest.mark.parametrize(("kind", "form"), [one for one in EVERY_KIND if "exact" not in one[0]])
@examples(1)
@given(data=st.data())
def test_a_simulator_on_a_clock_is_one_run_with_a_stimulus(kind, form, data):
    this = Prepared(data, kind, form)
    drive, time = this.drives[1], this.kind.time
    if time.imperfections is not None:
        faults = {"potential_noise": 0.1, "delays": 0.1, "refractory_time": 0.3}
        constants = np.random.default_rng(0).choice([0.5, 1.0, 2.0], this.network.n_neurons).tolist()
        neuron = RealNeuron(adaptation=0.2, time_constants=constants)
        time = Clock(TIME_STEP, neuron, imperfections=replace(time.imperfections, **faults))
    network = this.network.with_soma_bias(this.drives[0])
    simulator = Simulator(network, time=time)
    parts = [simulator.advance(2.5)]
    simulator.soma_bias = drive
    parts += [simulator.advance(3.0), simulator.advance(8.0)]
    stimulus = Stimulus(drive_times=[2.5], drive=[drive])
    whole = simulate(network, 8.0, time, stimulus=stimulus, record_spikes=True)
    spikes = SpikeTrain.merged(part.spikes for part in parts)
    np.testing.assert_array_equal(spikes.times, whole.spikes.times)
    np.testing.assert_array_equal(spikes.neurons, whole.spikes.neurons)
    np.testing.assert_array_equal(simulator.spike_counts, whole.spike_counts)
    np.testing.assert_array_equal(simulator.membrane_potential, whole.state.membrane_potential)
    with pytest.raises(ValueError, match=r"time must be Exact\(\) to look for the next spike"):
        simulator.step()


def test_a_state_of_other_neurons_is_refused_and_one_of_the_same_survives_another_step():
    network = SpikingNetwork([[0.0]], [1.0])
    clock = Clock(1 / 8, RealNeuron(adaptation=0.5), imperfections=Imperfections(refractory_time=1.0))
    state = simulate(network, 1.5, clock).state
    assert state.threshold_rise > 0.0
    np.testing.assert_array_equal(state.waiting, [0.5])
    for time in (Exact(), Clock(1 / 8), Clock(1 / 8, RealNeuron(adaptation=0.5))):
        with pytest.raises(ValueError, match="state must be of the same kind of neurons as this run; got"):
            simulate(network, 1.0, time, state=state)
    # For any step, the neuron integrates again after half a time constant, also if a run ends before that.
    for step in (1 / 8, 1 / 4, 1 / 64):
        again = Clock(step, clock.neuron, imperfections=clock.imperfections)
        waited = simulate(network, 0.25, again, state=state).state
        np.testing.assert_allclose(waited.waiting, [0.25])
        potential = simulate(network, 1.0, again, state=state).state.membrane_potential
        np.testing.assert_allclose(potential, state.membrane_potential + 0.5)


@pytest.mark.parametrize("neuron", [RealNeuron(adaptation=0.5, adaptation_time=50.0), RealNeuron()])
def test_thresholds_that_are_set_to_what_they_are_change_nothing_on_a_clock(neuron):
    network = SpikingNetwork([[0.0, 0.1], [-0.2, 0.0]], [0.5, 0.8], [1.0, 2.0])
    clock = Clock(1 / 8, neuron, imperfections=Imperfections(threshold_mismatch=0.3))
    often, never = Simulator(network, time=clock), Simulator(network, time=clock)
    for time in np.arange(1.0, 60.0):
        often.firing_threshold = often.firing_threshold
        often.advance(time)
    never.advance(59.0)
    np.testing.assert_array_equal(often.spike_counts, never.spike_counts)
    np.testing.assert_allclose(often.membrane_potential, never.membrane_potential, atol=1e-12)


def test_integers_keep_their_units_while_a_simulator_runs():
    weights = np.array([[0.0, -0.5], [-0.25, 0.0]])
    network, fmt = SpikingNetwork(weights, [0.5, 0.25]), DigitalFormat()
    simulator = Simulator(network, time=Clock(TIME_STEP, fmt))
    simulator.advance(1.0)
    simulator.weights = 0.75 * weights
    state = simulator.state()
    clock = fitted(Clock(TIME_STEP, fmt), SpikingNetwork(0.75 * weights, network.soma_bias))
    expected = simulate(network, 9.0, clock, state=state)
    np.testing.assert_array_equal(simulator.advance(10.0).spike_counts, expected.spike_counts)
    for name, value in (("weights", 64.0 * weights), ("firing_threshold", 0.125)):
        with pytest.raises(ValueError, match="must keep the unit of potentials and the exponent"):
            setattr(simulator, name, value)
    whole = Simulator(network, time=fitted(Clock(TIME_STEP, fmt), network))
    with pytest.raises(ValueError, match="got a whole DigitalNetwork"):
        whole.weights = 0.75 * weights


ALL_IMPERFECTIONS = {
    "leak": 0.15, "refractory_time": 0.3, "delays": 0.4, "threshold_mismatch": 0.1, "weight_mismatch": 0.2,
    "potential_noise": 0.1, "potential_floor": -0.1, "lost_spikes": 0.2,
}  # fmt: skip
TERMS = {
    "leak": "leaked", "refractory_time": "refused", "potential_noise": "kicks", "potential_floor": "kicks",
    "lost_spikes": "n_lost",
}  # fmt: skip


@pytest.mark.property
@pytest.mark.parametrize("integration", ["exact", "euler"])
@examples(12)
@given(data=st.data(), names=st.sets(st.sampled_from(list(ALL_IMPERFECTIONS))), seed=st.integers(0, 99))
def test_charge_balances_with_every_imperfection(integration, data, names, seed):
    """Charges satisfy (16e) and (16f) of docs/theory.md at the end of any step."""
    this = data.draw(networks("dense", ["mixed weights", "weak inhibition"], least=10, most=24))
    drives = np.outer([1.0, 2.5], np.abs(this.soma_bias))
    imperfections = Imperfections(**{name: ALL_IMPERFECTIONS[name] for name in names}, seed=seed)
    clock = Clock(1 / 8, RealNeuron(integration=integration), imperfections=imperfections)
    run = start_run(clock, this.network(), drives)
    weights, threshold = run.network.weights.toarray(), run.network.firing_threshold
    assert np.array_equal(weights, this.weights) == ("weight_mismatch" not in names)
    assert np.array_equal(threshold, this.firing_threshold) == ("threshold_mismatch" not in names)
    waited = False
    for time in (1 / 8, 7 / 8, 25.0, 25.25):
        run.advance(time)
        of, waited = run.neurons.faults, waited or np.any(run.pending)
        left = run.membrane_potential + of.leaked + of.refused - of.kicks
        np.testing.assert_allclose(run.charge, threshold * run.spike_counts + left, rtol=0, atol=1e-9)
        arrived = (run.spike_counts - of.n_lost) @ weights - run.pending - run.synaptic_current
        # Euler's step counts a current `gain` times.
        np.testing.assert_allclose(run.charge, drives * time + run.gain * arrived, rtol=0, atol=1e-9)
    assert run.spike_counts.sum() > 50
    assert "delays" in names or not waited
    for term in TERMS.values():
        causes = {name for name in names if TERMS.get(name) == term}
        if causes != {"potential_floor"}:  # a potential may never fall to its floor
            assert getattr(of, term).any() == bool(causes), term


@pytest.mark.parametrize("time_step", [0.1, 1 / 3, 0.25, 1e-6, 0.7])
def test_a_clock_ends_at_the_last_step_that_ends_by_then(time_step):
    """The last step is right even if time / step is rounded to just below a whole number."""
    network = SpikingNetwork([[0.0]], [0.0])
    steps = np.concatenate([np.arange(1, 2000), 2 ** np.arange(11, 20)])
    for share, n_steps in ((0.0, steps), (0.01, steps - 1)):
        run = start_run(Clock(time_step), network, np.zeros((len(steps), 1)))
        run.advance((steps - share) * time_step)
        np.testing.assert_array_equal(run.n_steps, n_steps)


@pytest.mark.parametrize("form", KINDS["exact"].forms)
@examples(2)
@given(data=st.data())
def test_when_a_copy_is_given_up_depends_on_its_own_spikes_alone(form, data):
    this = Prepared(data, "exact", form)
    limit = BurstLimit(spikes=10, rate=0, per_neuron=0)
    together = this.started(burst_limit=limit)
    together.advance(40.0)
    np.testing.assert_array_equal(together.is_lost, together.spike_counts.sum(axis=1) > 10)
    for copy in range(N_COPIES):
        alone = this.started(copies=[copy], burst_limit=limit, updates_per_call=1)
        alone.advance(40.0)
        require_same(together, alone, copies=[copy])
        assert together.is_lost[copy] == alone.is_lost[0]
        # The lost copy has as many spikes as a copy without a limit at the same time.
        free = this.started(copies=[copy])
        free.advance(float(alone.time[0]))
        assert abs(free.spike_counts - alone.spike_counts).sum() <= 2


def test_recorded_runs_are_bounded_by_memory():
    """A drive that causes 1e12 spikes ends in a clear error before memory is full."""
    for by_drive, limit in ((1.0, 1_000_000), (150_000.5, 15_000_050), (1e12, 20_000_000)):
        assert _spike_limit(None, by_drive, record_spikes=True) == limit
    assert _spike_limit(None, 1e12, record_spikes=False) == 10**14
    assert _spike_limit(50_000_000, 1e12, record_spikes=True) == 50_000_000
    network = SpikingNetwork(np.zeros((2, 2)), [1e6, 0.1])
    driven = Simulator(network)
    driven.soma_bias = [1e12, 0.1]
    digital = partial(simulate, network.with_soma_bias([3.0, 0.1]), 2_500.0, Clock(0.25, DigitalFormat()))
    limited = {"record_spikes": True, "max_spikes": 5_000}
    for run, by_drive in (
        (lambda: simulate(network, 4.0, **limited), r"4e\+06"),
        (lambda: simulate(network, 4.0, Clock(2e-6), **limited), r"4e\+06"),
        (lambda: driven.advance(3.0, max_spikes=5_000), r"3e\+12"),
        (lambda: digital(**limited), r"7\.75e\+03"),
    ):
        with pytest.raises(RunawayError, match=by_drive) as caught:
            run()
        assert 5_000 < len(caught.value.result.spikes) <= 5_002  # the spikes of a step stay together


@pytest.mark.property
@every_kind
@examples(1)
@given(data=st.data())
def test_watched_potentials_are_those_of_runs_that_end_there(kind, form, data):
    this = Prepared(data, kind, form)
    network, time = this.network.with_soma_bias(this.drives[0]), this.kind.time
    times = np.array([0.0, 0.25, 0.25, 3.0, 7.5, 8.0])
    stimulus = Stimulus(drive_times=[2.5], drive=[this.drives[1]])
    run = simulate(network, 8.0, time, stimulus=stimulus, potential_times=times, record_spikes=True)
    plain = simulate(network, 8.0, time, stimulus=stimulus, record_spikes=True)
    np.testing.assert_array_equal(run.spikes.neurons, plain.spikes.neurons)
    for stop, potential in zip(times[1:], run.potentials[1:], strict=True):
        part = stimulus if stop >= 2.5 else None
        expected = simulate(network, stop, time, stimulus=part).state.membrane_potential
        np.testing.assert_allclose(potential, expected, rtol=0, atol=this.kind.tolerance)
    assert not run.potentials[0].any()
    with pytest.raises(ValueError, match=r"potential_times must not decrease and lie in \[0.0, 8.0\]"):
        simulate(network, 8.0, time, potential_times=[9.0])


def test_a_look_at_potentials_changes_none():
    """In exact time a floor acts only when an input changes; reading potentials is not such a change."""
    network = SpikingNetwork([[0.0, 0.0], [-2.0, 0.0]], [0.1, 1.0])
    times = np.linspace(0.0, 9.0, 19)
    free = simulate(network, 9.0, potential_times=times)
    floored = simulate(network, 9.0, Exact(potential_floor=-0.5), potential_times=times)
    np.testing.assert_array_equal(floored.potentials, free.potentials)
    assert free.potentials.min() < -1.0
    # If potentials are read at the time of a change, the change comes first.
    stimulus = Stimulus(drive_times=[8.0], drive=[network.soma_bias])
    run = simulate(network, 9.0, Exact(potential_floor=-0.5), stimulus=stimulus, potential_times=[7.99, 8.0])
    assert run.potentials[0, 0] < -1.0
    assert run.potentials[1, 0] == -0.5


@pytest.mark.parametrize("time", [Exact(), Clock(0.25)])
def test_potentials_after_a_run_that_was_ended_are_unknown(time):
    excited = SpikingNetwork([[0.0, 2.0], [2.0, 0.0]], [1.0, 0.4])
    with pytest.raises(RunawayError) as caught:
        simulate(excited, 20.0, time, potential_times=[0.5, 19.0], max_spikes=8)
    early, late = caught.value.result.potentials
    np.testing.assert_allclose(early, [0.5, 0.2])
    assert np.isnan(late).all()

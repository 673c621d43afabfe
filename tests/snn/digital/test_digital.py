"""Digital neurons agree with Python's integers bit for bit, with the clock in floats, and by hand."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from snn import Clock, Imperfections, SpikeTrain, SpikingNetwork, Stimulus, simulate
from snn.digital import DigitalFormat, DigitalNetwork, FixedPoint
from snn.digital.digital_network import integer_drive
from snn.digital.format import exponent_for, mantissas_of, round_in_place
from snn.run.start import fitted, start_run
from tests.reference.digital import in_integers, integers_of, random_digital, simulate_slowly
from tests.reference.networks import random_network
from tests.tiers import examples

pytestmark = pytest.mark.filterwarnings(
    "ignore:time_step is:UserWarning", "ignore:.* beyond the range of their mantissas:UserWarning"
)
SIGNS = ["signed", "non-negative", "non-positive"]
ROUNDINGS = ["nearest", "floor", "truncate", "stochastic"]
SEEDS = st.integers(0, 2**40)
WIDE = DigitalFormat(
    weights=FixedPoint(bits=26), bias=FixedPoint(bits=40), potential_bits=50, current_bits=44, decay_bits=18,
    decay_rounding="nearest", input_rounding="nearest", message_bits=10, threshold=2**36,
)  # fmt: skip


# --- every bit -------------------------------------------------------------------------------------


def changes(rng, network, n_steps):
    """Return a stimulus, and for the twin its drives and sums of weights by step."""
    form, exponent, scale = network.format.weights, network.rules.exponent, 1.0 / network.current_unit
    weights = rng.uniform(-form.largest, form.largest, (2, network.n_neurons)) * 2.0**exponent / scale
    weights *= rng.choice([1.0, 0.1])
    times = np.sort(rng.uniform(0.0, n_steps, 9)) * network.time_step
    train = SpikeTrain(
        times=times, neurons=rng.integers(0, 2, 9), n_neurons=2, start=0.0, stop=n_steps * network.time_step
    )
    drive_times = np.sort(rng.uniform(0.1, n_steps - 1, 2)) * network.time_step
    drive = network.network.soma_bias * rng.uniform(-0.5, 1.0, (2, 1))
    rounding = {"floor": np.floor, "truncate": np.trunc}.get(form.rounding, np.rint)
    mantissas = rounding(weights * scale * 2.0**-exponent).astype(int)
    inputs, drives = {}, {}
    for time, source in zip(times, train.neurons, strict=True):
        step = math.ceil(time / network.time_step)
        inputs[step] = inputs.get(step, 0) + mantissas[source]
    for time, row in zip(drive_times, drive, strict=True):
        drives[math.ceil(time / network.time_step)] = integers_of(integer_drive(network, row))
    return Stimulus(drive_times=drive_times, drive=drive, spikes=train, weights=weights), drives, inputs


def sent(network, times, neurons, messages):
    steps = np.rint(times / network.time_step).astype(int)
    return list(zip(steps.tolist(), neurons.tolist(), messages.tolist(), strict=True))


@pytest.mark.property
@examples(200)
@given(seed=SEEDS, has_stimulus=st.booleans(), n_neurons=st.sampled_from([None, None, None, 20]))
def test_every_bit_is_the_twins(seed, has_stimulus, n_neurons):
    rng = np.random.default_rng(seed)
    network, n_steps = random_digital(rng, n_neurons), int(rng.integers(5, 30))
    stimulus, drives, inputs = changes(rng, network, n_steps) if has_stimulus else (None, None, None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = in_integers(network, n_steps, record_spikes=True, stimulus=stimulus)
    registers, state = result.registers, result.state
    slow = simulate_slowly(network, n_steps, drives=drives, inputs=inputs)
    spikes = result.spikes
    assert sent(network, spikes.times, spikes.neurons, registers.spike_messages) == slow.messages
    is_said = any("currents were beyond their registers" in str(warning.message) for warning in caught)
    assert is_said == np.array(slow.overflows)[:, 2].any()
    assert registers.membrane_potential.tolist() == slow.potential
    assert registers.synaptic_current.tolist() == slow.current
    np.testing.assert_array_equal(registers.saturations, slow.overflows)
    neurons = [m[1] for m in slow.messages]
    n, value = network.n_neurons, network.message_value
    np.testing.assert_array_equal(result.spike_counts, np.bincount(neurons, minlength=n) if neurons else 0)
    totals = [sum(number for _, i, number in slow.messages if i == neuron) for neuron in range(n)]
    assert registers.messages.tolist() == totals
    np.testing.assert_array_equal(state.membrane_potential, np.array(slow.potential) * network.unit)
    np.testing.assert_array_equal(state.synaptic_current, np.array(slow.current) * network.current_unit)
    np.testing.assert_allclose(result.spike_rate, totals * value / (n_steps * network.time_step), rtol=1e-14)
    starts, mantissas = network.synapses.starts, network.synapses.weights
    degrees = [np.count_nonzero(mantissas[starts[i] : starts[i + 1]]) for i in range(n)]
    outside = 0 if stimulus is None else stimulus.weights[stimulus.spikes.neurons].nnz
    assert result.operations.synaptic_operations == sum(degrees[i] for i in neurons) + outside
    assert result.operations.neuron_updates == n * n_steps


@pytest.mark.property
@examples(100)
@given(seed=SEEDS)
def test_every_bit_of_imperfect_neurons_is_the_twins(seed):
    rng = np.random.default_rng(seed)
    network = random_digital(rng)
    n = network.n_neurons
    shape = [(), (n,), (n, n)][rng.integers(3)]
    no_leak = network.format.potential_bits + network.format.decay_bits > 62
    imperfections = Imperfections(
        leak=0.0 if no_leak else rng.choice([0.0, 0.5, 2.0]),
        refractory_time=rng.choice([0.0, 0.3, 2.0]),
        delays=rng.uniform(0.0, 2.0, shape) * rng.choice([0.0, 1.0]),
        potential_noise=rng.choice([0.0, 0.3]),
        potential_floor=rng.choice([None, 0.0, -0.4]),
        lost_spikes=rng.choice([0.0, 0.4]),
        seed=int(rng.integers(2**63)),
    )
    time = Clock(network.time_step, network, imperfections=imperfections)
    try:
        run = start_run(time, network.network, network.network.soma_bias[np.newaxis].copy())
    except ValueError:  # the bits of the decay round the leak to zero
        assume(False)
    found = sent(network, *run.advance(60 * network.time_step, record=True))
    slow = simulate_slowly(network, 60, imperfections=imperfections)
    assert found == slow.messages
    assert run.neurons.potential[0].tolist() == slow.potential
    assert run.neurons.current[0].tolist() == slow.current
    np.testing.assert_array_equal(run.neurons.overflows[0], slow.overflows)
    np.testing.assert_array_equal(run.membrane_potential[0], np.array(slow.potential) * network.unit)
    np.testing.assert_array_equal(run.synaptic_current[0], np.array(slow.current) * network.current_unit)


# --- what the integers stand for -------------------------------------------------------------------


@pytest.mark.property
@examples(60)
@given(seed=SEEDS)
def test_integers_stand_for_the_numbers_nearest_to_them(seed):
    rng = np.random.default_rng(seed)
    network = random_digital(rng)
    real, form, step = network.network, network.format, network.time_step
    np.testing.assert_allclose(
        network.unit * network.firing_threshold.max(), real.firing_threshold.max(), rtol=1e-15
    )
    off = network.firing_threshold * network.unit - real.firing_threshold
    assert (abs(off) <= 0.5001 * network.unit + 2e-16 * real.firing_threshold).all()
    decay = 2**form.decay_bits - network.rules.kept
    assert abs(decay - 2**form.decay_bits * (1.0 - math.exp(-step))) <= 0.5
    np.testing.assert_allclose(network.current_unit, network.unit * 2**form.decay_bits / decay, rtol=1e-14)
    weights, values = real.weights.toarray(), network.message_value[:, np.newaxis]
    unit = 2.0**network.rules.exponent * network.current_unit / values
    off = (network.effective_weights - weights) / unit
    clipped = (weights / unit > form.weights.largest + 1e-6) | (weights / unit < form.weights.smallest - 1e-6)
    room = {"nearest": (-0.5, 0.5), "floor": (-1.0, 0.0), "truncate": (-1.0, 1.0), "stochastic": (-1.0, 1.0)}
    least, most = room[form.weights.rounding]
    assert ((least - 1e-6 <= off) & (off <= most + 1e-6))[~clipped].all()
    assert not clipped.any() or form.weights.exponent is not None
    delays = rng.integers(0, 5, network.n_neurons)
    again = DigitalNetwork.of(real, form, time_step=step, delays=delays)
    np.testing.assert_array_equal(again.synapses.delays, delays)
    drive = integer_drive(network, real.soma_bias)
    amounts = real.soma_bias * step / network.unit
    if form.lowest_drive is not None:
        amounts = np.maximum(amounts, -form.lowest_drive * max(amounts.max(), 0.0))
    assert (abs(drive.values * 2.0**drive.exponent - amounts) <= 0.5001 * 2.0**drive.exponent).all()


@pytest.mark.parametrize("time_step", [1 / 4, 1 / 16])
def test_many_bits_are_the_clock(time_step):
    """With wide registers, every spike is in the same step as in a run in floats, and rates agree."""
    rng, n = np.random.default_rng(3), 30
    weights = -rng.uniform(0.0, 0.3, (n, n)) * (1.0 - np.eye(n))
    real = SpikingNetwork(weights, rng.uniform(-0.5, 1.5, n), rng.uniform(0.8, 1.0, n))
    # The decay of this step has few bits, so that both clocks have the same decay.
    time_step = float(-np.log(np.rint(np.exp(-time_step) * 2**18) / 2**18))
    clocked = simulate(real, 400 * time_step, Clock(time_step), record_spikes=True)
    result = simulate(real, 400 * time_step, Clock(time_step, WIDE), record_spikes=True)
    assert clocked.n_spikes > 100
    np.testing.assert_array_equal(result.registers.messages, clocked.spike_counts)
    times, neurons = (
        np.repeat(x, result.registers.spike_messages) for x in (result.spikes.times, result.spikes.neurons)
    )
    np.testing.assert_allclose(times, clocked.spikes.times, rtol=1e-12)
    np.testing.assert_array_equal(neurons, clocked.spikes.neurons)
    # Weights are rounded to 2^-25 of the largest weight, drives more finely; errors add up for 400 steps.
    np.testing.assert_allclose(result.state.membrane_potential, clocked.state.membrane_potential, atol=2e-4)
    np.testing.assert_allclose(result.state.synaptic_current, clocked.state.synaptic_current, atol=1e-5)
    np.testing.assert_allclose(result.smooth_rate, clocked.smooth_rate, rtol=1e-9)


def test_integers_have_the_mismatch_that_the_clock_has():
    network = random_network(np.random.default_rng(3), 12)
    imperfections = Imperfections(weight_mismatch=0.2, threshold_mismatch=0.1)
    integers = fitted(Clock(0.25, DigitalFormat(), imperfections=imperfections), network).neuron
    chip = imperfections.mismatched(network)
    weights = chip.weights.toarray()
    np.testing.assert_allclose(integers.firing_threshold * integers.unit, chip.firing_threshold, rtol=1e-5)
    np.testing.assert_allclose(
        integers.effective_weights, weights, rtol=0, atol=np.abs(weights).max() / 100.0
    )


@pytest.mark.parametrize("theta", [1.0, 0.1, 1.3, 1 / 3, 7.7])
@pytest.mark.parametrize("bits", [10, 48, 49, 50])
def test_the_largest_threshold_fits_into_its_register(theta, bits):
    real = SpikingNetwork(np.zeros((2, 2)), [0.0, 0.0], [theta, theta / 2])
    threshold = 2 ** (bits - 1) - 1
    made = DigitalNetwork.of(real, DigitalFormat(potential_bits=bits, threshold=threshold), time_step=0.25)
    assert made.firing_threshold[0] == threshold


# --- fixed-point numbers -------------------------------------------------------------------------------


@pytest.mark.xfail(strict=True, reason="the division by 2^exponent underflows to zero before it is rounded")
def test_the_smallest_negative_number_is_rounded_down():
    form = FixedPoint(bits=2, exponent=1, sign="signed", rounding="floor")
    assert mantissas_of(form, np.array([-5e-324])).values == [-1]


@pytest.mark.property
@examples(200)
@given(
    # For smaller numbers, a division by 2^exponent may underflow to zero.
    values=st.lists(
        st.floats(-1e6, 1e6).filter(lambda x: x == 0.0 or abs(x) > 1e-300), min_size=1, max_size=8
    ),
    bits=st.integers(2, 52),
    exponent=st.integers(-40, 20),
    sign=st.sampled_from(SIGNS),
    rounding=st.sampled_from(ROUNDINGS[:3]),
)
def test_rounding_is_that_of_fractions(values, bits, exponent, sign, rounding):
    fmt = FixedPoint(bits=bits, exponent=exponent, sign=sign, rounding=rounding)
    result = mantissas_of(fmt, np.array(values))
    exact = [Fraction(value) / Fraction(2) ** exponent for value in values]
    mantissas = [{"nearest": round, "floor": math.floor, "truncate": math.trunc}[rounding](x) for x in exact]
    clipped = [min(max(mantissa, fmt.smallest), fmt.largest) for mantissa in mantissas]
    assert result.values.tolist() == clipped
    assert result.n_saturated == sum(a != b for a, b in zip(mantissas, clipped, strict=True))
    floats = result.values * 2.0**exponent
    assert [Fraction(x) for x in floats.tolist()] == [m * Fraction(2) ** exponent for m in clipped]
    in_place = np.array(values)
    assert round_in_place(fmt, in_place) == result.n_saturated
    np.testing.assert_array_equal(in_place, floats)


@pytest.mark.property
@examples(200)
@given(
    values=st.lists(
        st.floats(-1e12, 1e12).filter(lambda x: x == 0.0 or abs(x) > 1e-200), min_size=1, max_size=6
    ),
    bits=st.integers(2, 52),
    sign=st.sampled_from(SIGNS),
)
def test_chosen_exponent_is_the_smallest_that_holds_all_numbers(values, bits, sign):
    if sign != "signed":
        values = [abs(value) if sign == "non-negative" else -abs(value) for value in values]
    fmt = FixedPoint(bits=bits, sign=sign)
    chosen = exponent_for(fmt, np.array(values))
    fits = [
        all(
            fmt.smallest * Fraction(2) ** e <= Fraction(value) <= fmt.largest * Fraction(2) ** e
            for value in values
        )
        for e in (chosen, chosen - 1)
    ]
    assert fits == [True, False] if any(values) else chosen == 0
    for rounding in ROUNDINGS:
        form = FixedPoint(bits=bits, sign=sign, rounding=rounding)
        assert mantissas_of(form, np.array(values), rng=0).n_saturated == 0


def test_stochastic_rounding_keeps_the_mean_and_the_grid():
    fmt = FixedPoint(bits=8, exponent=-4, rounding="stochastic")
    mantissas = mantissas_of(fmt, np.full(40_000, 0.7), rng=3).values  # 0.7 is 11.2 in units of 1/16
    assert set(mantissas.tolist()) == {11, 12}
    # Four standard deviations of the mean of 40,000 draws.
    assert abs(mantissas.mean() - 11.2) < 4 * math.sqrt(0.2 * 0.8 / 40_000)
    whole = np.arange(-8, 8) / 16
    np.testing.assert_array_equal(mantissas_of(fmt, whole, rng=0).values / 16, whole)
    # Rounding depends only on the values and the generator, not on the order in memory.
    values = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 30))
    first = mantissas_of(fmt, np.asfortranarray(values), rng=7).values
    assert (mantissas_of(fmt, values, rng=8).values != first).any()
    round_in_place(fmt, values, rng=7)
    np.testing.assert_array_equal(values, first / 16)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_numbers_far_beyond_the_range_saturate(rounding):
    values = np.array([1e300, -1e300, 0.0])
    result = mantissas_of(FixedPoint(bits=3, exponent=-900, rounding=rounding), values, rng=0)
    assert result.values.tolist() == [3, -4, 0]
    assert result.n_saturated == 2
    assert values.tolist() == [1e300, -1e300, 0.0]
    assert not result.values.flags.writeable


def test_weights_far_below_the_thresholds_are_refused_with_their_size():
    real = SpikingNetwork([[0.0, -1e-30], [-1e-30, 0.0]], [0.5, 0.5])
    with pytest.raises(
        ValueError, match=r"exponent of at most 50 in size; got -\d+, of sums of \d.*e-2\d units"
    ):
        DigitalNetwork.of(real, DigitalFormat(), time_step=0.1)


def test_numbers_that_saturate_are_said():
    real = SpikingNetwork([[0.0, -0.5], [2.0, 0.0]], [1.0, 0.7])
    form = DigitalFormat(bias=FixedPoint(bits=4, exponent=0), weights=FixedPoint(bits=3, exponent=0))
    with pytest.warns(UserWarning, match="2 weights are beyond"):
        digital = DigitalNetwork.of(real, form, time_step=0.25)
    with pytest.warns(UserWarning, match="2 drives are beyond"):
        simulate(real, 1.0, Clock(0.25, digital))
    # The negative drive is raised before it is rounded.
    raised = Clock(0.25, replace(form, lowest_drive=1e-6))
    with pytest.warns(UserWarning, match="1 drives are beyond"):
        simulate(real.with_soma_bias([1.0, -1.0]), 1.0, raised)


@pytest.mark.parametrize("sign", ["signed", "non-negative", "non-positive"])
def test_faults_are_what_maps_say(sign):
    """A flipped bit changes no other bit, dead synapses are zero, and silent neurons never fire."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.1, 0.3, (8, 8)) * {"signed": -1, "non-negative": 1, "non-positive": -1}[sign]
    np.fill_diagonal(weights, 0.0)
    form = DigitalFormat(weights=FixedPoint(bits=6, sign=sign))
    whole = DigitalNetwork.of(SpikingNetwork(weights, rng.uniform(1, 2, 8)), form, time_step=0.25)
    before, n = whole.synapses.weights, len(whole.synapses.weights)
    hit = rng.random(n) < 0.5
    after = whole.with_faults(flipped_bits=hit, rng=1).synapses.weights
    changed = (abs(before) ^ abs(after)) if sign != "signed" else (before ^ after) & 63
    assert [int(bits).bit_count() for bits in changed] == hit.tolist()
    assert after.min() >= form.weights.smallest
    assert after.max() <= form.weights.largest
    dead = whole.with_faults(dead_synapses=hit)
    np.testing.assert_array_equal(dead.synapses.weights, np.where(hit, 0, before))
    assert dead.out_degree.sum() == n - hit.sum()
    silent = np.arange(8) == 3
    faulty = whole.with_faults(silent_neurons=silent)
    counts = simulate(faulty.network, 20.0, Clock(0.25, faulty)).spike_counts
    assert counts[3] == 0
    assert counts.sum() > 0
    with pytest.raises(ValueError, match="dead_synapses must be a probability"):
        whole.with_faults(dead_synapses=1.5)
    with pytest.raises(ValueError, match=r"or an array of bool of shape \(\d+,\); got shape \(2,\), bool$"):
        whole.with_faults(silent_neurons=[True, False])

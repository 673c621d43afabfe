"""The emulator of digital neurons: bit for bit Python's integers, and in the limit the clock in floats."""

# ruff: noqa: E501 - a case a line reads better

import math

import numpy as np
import pytest

from snn import SpikeTrain, SpikingNetwork, Stimulus, simulate_clocked
from snn.digital import DigitalFormat, DigitalNetwork, DigitalState, FixedPoint, simulate_digital
from tests.reference.digital import simulate_slowly

WIDE = DigitalFormat(
    weights=FixedPoint(bits=26),
    bias=FixedPoint(bits=40),
    potential_bits=52,
    current_bits=44,
    decay_bits=18,
    decay_rounding="nearest",
    input_rounding="nearest",
    message_bits=10,
)
QUOTIENTS = ["truncate", "floor", "nearest"]


def random_format(rng):
    graded = bool(rng.integers(2))
    reset = str(rng.choice(["subtract", "zero"]))
    potential_bits = int(rng.choice([2, 4, 6, 8, 12, 16, 24, 40, 56]))
    message_bits = int(rng.choice([1, 2, 4, 8, 12]))
    if graded:
        message_bits = int(rng.choice([4, 6, 8, 16]))
    elif reset == "zero":
        message_bits = 1
    return DigitalFormat(
        weights=FixedPoint(
            bits=int(rng.integers(2, 13)),
            exponent=None if rng.integers(2) else int(rng.integers(-6, 7)),
            rounding=str(rng.choice(["nearest", "floor", "truncate", "stochastic"])),
        ),
        bias=FixedPoint(bits=int(rng.integers(2, 14))),
        potential_bits=potential_bits,
        current_bits=int(rng.choice([2, 4, 8, 12, 24, 48])),
        potential_overflow=str(rng.choice(["saturate", "saturate", "wrap"])),
        current_overflow=str(rng.choice(["saturate", "wrap"])),
        decay_bits=int(rng.choice([4, 8, 12, 14])),
        decay_rounding=str(rng.choice(QUOTIENTS)),
        input_rounding=str(rng.choice(QUOTIENTS)),
        message_bits=message_bits,
        graded=graded,
        reset=reset,
        delay=int(rng.integers(0, 4)),
    )


def random_network(rng, n_neurons=None):
    """Thresholds, drives and weights of widely different sizes, some of them zero."""
    n = int(rng.integers(1, 7)) if n_neurons is None else n_neurons
    weights = rng.standard_normal((n, n)) * rng.choice([0.0, 0.3, 3.0], (n, n))
    np.fill_diagonal(weights, 0.0)
    thresholds = rng.uniform(0.5, 1.0, n)
    return SpikingNetwork(weights, rng.standard_normal(n) * rng.choice([0.2, 2.0, 20.0]), thresholds)


def random_digital(rng, n_neurons=None):
    """A random format that suits a random network: a few are refused, in one sentence."""
    while True:
        network = random_network(rng, n_neurons)
        try:
            form = random_format(rng)
            delays = rng.integers(0, 5, network.n_neurons) if rng.integers(2) else None
            step = float(rng.choice([0.1, 0.25, 0.5, 1.0, 3.0]))
            return DigitalNetwork.of(network, form, time_step=step, delays=delays, rng=rng)
        except ValueError:
            continue


def integers_of(network):
    """What the twin runs, as Python's integers."""
    n = network.n_neurons
    weights = [[0] * n for _ in range(n)]
    for j in range(n):
        for entry in range(network.starts[j], network.starts[j + 1]):
            weights[j][network.targets[entry]] = int(network.weights.mantissas[entry])
    drive = network.drive(network.network.soma_bias)
    return (
        network.format,
        weights,
        network.weights.exponent,
        [int(m) * 2**drive.exponent for m in drive.mantissas],
        network.firing_threshold.tolist(),
        network.decay,
        network.delays.tolist(),
        network.message_shift,
    )


def assert_same_bits(result, expected):
    steps = np.rint(result.spikes.times / result.network.time_step).astype(int)
    got = list(
        zip(steps.tolist(), result.spikes.neurons.tolist(), result.spike_messages.tolist(), strict=True)
    )
    assert got == expected.messages
    assert result.state.membrane_potential.tolist() == expected.potential
    assert result.state.synaptic_current.tolist() == expected.current
    overflows = np.array(expected.overflows)
    np.testing.assert_array_equal(result.potential_saturations, overflows[:, :2])
    np.testing.assert_array_equal(result.current_saturations, overflows[:, 2])
    np.testing.assert_array_equal(result.message_saturations, overflows[:, 3])
    n = result.network.n_neurons
    neurons = [neuron for _, neuron, _ in expected.messages]
    np.testing.assert_array_equal(result.spike_counts, np.bincount(neurons, minlength=n) if neurons else 0)
    sums = np.zeros(n, dtype=np.int64)
    for _, neuron, message in expected.messages:
        sums[neuron] += message
    np.testing.assert_array_equal(result.messages, sums)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:time_step is:UserWarning")
def test_thousands_of_random_networks_have_the_twins_bits():
    rng = np.random.default_rng(0)
    seen = np.zeros(4, dtype=np.int64)
    n_spikes = 0
    for _ in range(3000):
        network = random_digital(rng)
        result = simulate_digital(network, 12, record_spikes=True)
        expected = simulate_slowly(*integers_of(network), 12)
        assert_same_bits(result, expected)
        seen += np.array(expected.overflows).sum(axis=0)
        n_spikes += len(expected.messages)
    # What is compared has happened: registers were too narrow in every way, and neurons fired.
    assert (seen > 500).all()
    assert n_spikes > 10_000


def random_inputs(rng, network, n_steps):
    """Return a stimulus, and what the twin has to be told of it: drives and sums of weights by step."""
    n, scale = network.n_neurons, network.decay / 2**network.format.decay_bits / network.unit
    form = network.format.weights
    exponent, largest = network.weights.exponent, form.largest
    unit = 2.0**exponent / scale
    weights = rng.uniform(-largest, largest, (2, n)) * unit * rng.choice([1.0, 0.1])
    times = np.sort(rng.uniform(0.0, n_steps, 9)) * network.time_step
    sources = rng.integers(0, 2, 9)
    stop = n_steps * network.time_step
    train = SpikeTrain(times=times, neurons=sources, n_neurons=2, start=0.0, stop=stop)
    drive_times = np.sort(rng.uniform(0.1, n_steps - 1, 2)) * network.time_step
    drive = network.network.soma_bias * rng.uniform(-0.5, 1.0, (2, 1))
    rounding = {"floor": np.floor, "truncate": np.trunc}.get(form.rounding, np.rint)
    mantissas = rounding(weights * scale * 2.0**-exponent).astype(int)
    inputs, drives = {}, {}
    for time, source in zip(times, sources, strict=True):
        step = math.ceil(time / network.time_step)
        inputs[step] = inputs.get(step, 0) + mantissas[source]
    for time, row in zip(drive_times, drive, strict=True):
        rounded = network.drive(row)
        step = math.ceil(time / network.time_step)
        drives[step] = [int(m) * 2**rounded.exponent for m in rounded.mantissas]
    return Stimulus(drive_times=drive_times, drive=drive, spikes=train, weights=weights), drives, inputs


@pytest.mark.filterwarnings("ignore:time_step is:UserWarning")
def test_random_networks_with_a_stimulus_have_the_twins_bits():
    rng = np.random.default_rng(8)
    n_spikes, n_saturated = 0, 0
    for _ in range(600):
        network = random_digital(rng)
        stimulus, drives, inputs = random_inputs(rng, network, 12)
        result = simulate_digital(network, 12, record_spikes=True, stimulus=stimulus)
        expected = simulate_slowly(*integers_of(network), 12, drives=drives, inputs=inputs)
        assert_same_bits(result, expected)
        n_spikes += len(expected.messages)
        n_saturated += np.array(expected.overflows)[:, 2].sum()
        own = result.spike_counts @ network.out_degree
        from_outside = np.count_nonzero(stimulus.weights[stimulus.spikes.neurons])
        assert result.operations.synaptic_operations == own + from_outside
    assert n_spikes > 2000
    assert n_saturated > 500


def test_a_stimulus_in_integers_is_that_of_the_clock_in_the_limit():
    rng = np.random.default_rng(9)
    real = SpikingNetwork(0.3 * (np.eye(4) - 1.0), rng.uniform(0.2, 1.0, 4))
    times = np.sort(rng.uniform(0.0, 20.0, 50))
    train = SpikeTrain(times=times, neurons=np.arange(50) % 2, n_neurons=2, start=0.0, stop=20.0)
    weights = rng.uniform(-0.3, 0.3, (2, 4))
    for onto in ("current", "drive"):
        stimulus = Stimulus(spikes=train, weights=weights, onto=onto)
        network = DigitalNetwork.of(real, WIDE, time_step=1 / 16, threshold=2**32)
        result = simulate_digital(network, 320, stimulus=stimulus)
        clocked = simulate_clocked(real, 20.0, time_step=1 / 16, stimulus=stimulus)
        assert np.abs(result.messages - clocked.spike_counts).max() <= 1
        np.testing.assert_allclose(result.synaptic_current, clocked.state.synaptic_current, atol=0.02)


def test_weights_of_a_stimulus_that_do_not_fit_are_refused():
    real = SpikingNetwork([[0.0, -0.5], [-0.5, 0.0]], [1.0, 1.0])
    network = DigitalNetwork.of(real, DigitalFormat(), time_step=0.25)
    train = SpikeTrain(times=[0.1], neurons=[0], n_neurons=1, start=0.0, stop=1.0)
    with pytest.raises(ValueError, match="must fit into the 8 bits of the network's weights"):
        simulate_digital(network, 4, stimulus=Stimulus(spikes=train, weights=[[0.1, 7.0]]))
    with pytest.raises(ValueError, match=r"from 0.0 to 0.25; got changes from 1.0 to 1.0"):
        simulate_digital(network, 1, stimulus=Stimulus(drive_times=[1.0], drive=[[0.0, 0.0]]))


def test_a_larger_network_for_longer():
    rng = np.random.default_rng(5)
    for _ in range(3):
        network = random_digital(rng, n_neurons=40)
        result = simulate_digital(network, 150, record_spikes=True)
        assert_same_bits(result, simulate_slowly(*integers_of(network), 150))


@pytest.mark.filterwarnings("ignore:time_step is:UserWarning")
def test_pausing_does_not_change_a_bit():
    rng = np.random.default_rng(1)
    for _ in range(100):
        network = random_digital(rng)
        whole = simulate_digital(network, 30, record_spikes=True)
        state, counts, parts = None, 0, []
        for n_steps in (1, 4, 2, 11, 12):
            part = simulate_digital(network, n_steps, state=state, record_spikes=True)
            state, counts = part.state, counts + part.messages
            parts += part.spike_messages.tolist()
        for name in ("membrane_potential", "synaptic_current", "pending"):
            np.testing.assert_array_equal(getattr(state, name), getattr(whole.state, name))
        np.testing.assert_array_equal(counts, whole.messages)
        assert parts == whole.spike_messages.tolist()


@pytest.mark.parametrize("time_step", [1 / 4, 1 / 16])
def test_many_bits_are_the_clock(time_step):
    """With wide registers every spike of a clocked run is fired in its step, and rates agree."""
    rng = np.random.default_rng(3)
    n = 30
    weights = -rng.uniform(0.0, 0.3, (n, n))
    np.fill_diagonal(weights, 0.0)
    real = SpikingNetwork(weights, rng.uniform(-0.5, 1.5, n), rng.uniform(0.8, 1.0, n))
    # A step whose decay has few bits, so that the clocks are the same.
    kept = np.rint(np.exp(-time_step) * 2**18) / 2**18
    time_step = float(-np.log(kept))
    network = DigitalNetwork.of(real, WIDE, time_step=time_step, threshold=2**36)
    clocked = simulate_clocked(real, 400 * time_step, time_step=time_step, record_spikes=True)
    result = simulate_digital(network, 400, record_spikes=True)
    assert clocked.n_spikes > 100
    np.testing.assert_array_equal(result.messages, clocked.spike_counts)
    times = np.repeat(result.spikes.times, result.spike_messages)
    neurons = np.repeat(result.spikes.neurons, result.spike_messages)
    np.testing.assert_allclose(times, clocked.spikes.times, rtol=1e-12)
    np.testing.assert_array_equal(neurons, clocked.spikes.neurons)
    # Weights are rounded to 2^-25 of the largest, drives to less, and charge piles up for 400 steps.
    np.testing.assert_allclose(result.membrane_potential, clocked.state.membrane_potential, atol=2e-4)
    np.testing.assert_allclose(result.synaptic_current, clocked.state.synaptic_current, atol=1e-5)
    np.testing.assert_allclose(result.spike_rate, clocked.spike_rate, rtol=1e-12)
    np.testing.assert_allclose(result.smooth_rate, clocked.smooth_rate, rtol=1e-9)


def test_three_steps_by_hand():
    """Two neurons, a threshold of 8 units: neuron 0 fires in steps 2 and 3, neuron 1 gets -3 of each."""
    real = SpikingNetwork([[0.0, -0.75], [0.0, 0.0]], [5 / 8, 4 / 8], 1.0)
    form = DigitalFormat(
        weights=FixedPoint(bits=4, exponent=0), bias=FixedPoint(bits=5), potential_bits=6, current_bits=6,
        decay_bits=1, delay=0,
    )  # fmt: skip
    # delta is 1 of 2: half of a current is left, and arrives; -0.75 * 8 / 2 = -3 units.
    network = DigitalNetwork.of(real, form, time_step=1.0, threshold=8)
    assert network.decay == 1
    assert network.weights.mantissas.tolist() == [-3]
    result = simulate_digital(network, 3, record_spikes=True)
    # v0: 5, 10 -> 2, 7.   v1: 4, 8 -> 0, 4 - 3 = 1.   u1 after: 0, -3, trunc(-1.5) = -1.
    assert result.state.membrane_potential.tolist() == [7, 1]
    assert result.state.synaptic_current.tolist() == [0, -1]
    assert result.spikes.times.tolist() == [2.0, 2.0]
    assert result.spike_rate.tolist() == [1 / 3, 1 / 3]


def test_delay_is_counted_in_whole_steps():
    real = SpikingNetwork([[0.0, 0.5], [0.0, 0.0]], [1.0, 0.0], 1.0)
    for delay in (0, 1, 5):
        form = DigitalFormat(delay=delay, decay_bits=12)
        network = DigitalNetwork.of(real, form, time_step=1.0)
        states = [simulate_digital(network, n).state.synaptic_current[1] for n in range(1, 9)]
        # The first spike is sent in step 1; its current is there after step 1 + delay.
        assert np.flatnonzero(states)[0] == delay


def test_graded_messages_carry_the_charge():
    """A graded spike stands for the whole potential: with reset to zero nothing but low bits is lost."""
    rng = np.random.default_rng(4)
    n = 12
    real = SpikingNetwork(np.zeros((n, n)), rng.uniform(0.1, 3.0, n), rng.uniform(0.5, 1.0, n))
    for reset in ("subtract", "zero"):
        form = DigitalFormat(message_bits=16, graded=True, reset=reset, bias=FixedPoint(bits=24))
        result = simulate_digital(DigitalNetwork.of(real, form, time_step=0.25), 4000)
        expected = real.soma_bias / real.firing_threshold
        # What is not sent yet is less than a spike, in 1000 time constants; a message leaves out 2^-13.
        np.testing.assert_allclose(result.spike_rate, expected, atol=1.5e-3)
    unit = DigitalNetwork.of(real, DigitalFormat(reset="zero", bias=FixedPoint(bits=24)), time_step=0.25)
    # Unit spikes and a reset to zero lose what the potential had risen beyond the threshold.
    lost = expected - simulate_digital(unit, 4000).spike_rate
    assert lost.max() > 0.1


def test_effective_weights_are_near_the_real_ones():
    rng = np.random.default_rng(6)
    n = 10
    weights = rng.uniform(-1.0, 1.0, (n, n))
    np.fill_diagonal(weights, 0.0)
    real = SpikingNetwork(weights, np.ones(n), rng.uniform(0.7, 1.0, n))
    for graded in (False, True):
        for bits in (6, 10):
            form = DigitalFormat(
                weights=FixedPoint(bits=bits), graded=graded, message_bits=16 if graded else 1
            )
            network = DigitalNetwork.of(real, form, time_step=0.25)
            # Half of a mantissa, whose unit is at most 2^(2 - bits) of the largest weight.
            error = np.abs(network.effective_weights - weights).max()
            assert 0 < error < 2.0 ** (1 - bits) * (1.5 if graded else 1.0) * np.abs(weights).max()


def test_messages_of_one_bit_are_not_counted_as_too_narrow():
    """They say that a neuron fired; wider ones say how much."""
    real = SpikingNetwork(np.zeros((1, 1)), [30.0], 1.0)
    narrow, wide = (
        simulate_digital(DigitalNetwork.of(real, DigitalFormat(message_bits=bits), time_step=0.25), 20)
        for bits in (1, 2)
    )
    assert narrow.message_saturations[0] == 0
    assert wide.message_saturations[0] > 0


def test_wrap_around_ruins_what_saturation_keeps():
    """A neuron that is driven downwards stays silent, unless its potential comes around."""
    real = SpikingNetwork(np.zeros((1, 1)), [-1.0], 1.0)
    counts = {}
    for overflow in ("saturate", "wrap"):
        form = DigitalFormat(potential_bits=8, potential_overflow=overflow)
        result = simulate_digital(DigitalNetwork.of(real, form, time_step=0.25), 500)
        counts[overflow] = result.n_spikes
        assert result.potential_saturations[0, 0] > 0
        assert result.potential_saturations[0, 1] == 0
    assert counts["saturate"] == 0
    assert counts["wrap"] > 0


@pytest.mark.filterwarnings("ignore:time_step is 50:UserWarning")
def test_loihis_decay_and_lavas_wrap_by_hand():
    """u <- sign(u) floor(|u| (4096 - delta) / 4096), and 2^23 + k becomes k - 2^23."""
    form = DigitalFormat(potential_bits=24, current_bits=24, current_overflow="wrap")
    network = DigitalNetwork.of(SpikingNetwork(np.zeros((2, 2)), [0.0, 0.0], 1.0), form, time_step=0.25)
    kept = 4096 - network.decay
    state = DigitalState(
        membrane_potential=[0, 0], synaptic_current=[100_001, -100_001], pending=np.zeros((1, 2), dtype=int)
    )
    after = simulate_digital(network, 1, state=state).state.synaptic_current
    assert after.tolist() == [100_001 * kept // 4096, -(100_001 * kept // 4096)]
    # Weights of 2^21 units: four spikes at once, and one more than the register holds.
    weights = np.zeros((5, 5))
    weights[:4, 4] = 1.0
    form = DigitalFormat(
        weights=FixedPoint(bits=8, exponent=15), current_overflow="wrap", potential_bits=30, decay_bits=12
    )
    network = DigitalNetwork.of(
        SpikingNetwork(weights, [1e3] * 4 + [0.0], 1.0), form, time_step=50.0, threshold=2**21
    )
    assert (network.weights.mantissas << network.weights.exponent).tolist() == [2**21] * 4
    result = simulate_digital(network, 1)
    assert result.state.synaptic_current[4] == 2**23 - 2**24
    assert result.current_saturations.tolist() == [0, 0, 0, 0, 1]


# -- bad input -------------------------------------------------------------------------------------

REAL = SpikingNetwork([[0.0, -0.5], [-0.5, 0.0]], [1.0, 0.5], 1.0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"weights": 8}, TypeError, "weights must be a FixedPoint"),
        ({"potential_bits": 57}, ValueError, r"potential_bits must lie in \[2, 56\]; got 57"),
        ({"potential_bits": 24.0}, TypeError, "potential_bits must be an integer"),
        ({"current_bits": 1}, ValueError, r"current_bits must lie in \[2, 56\]"),
        ({"current_bits": 52, "decay_bits": 12}, ValueError, "at most 62 together"),
        ({"message_bits": 33}, ValueError, r"message_bits must lie in \[1, 32\]"),
        ({"delay": -1}, ValueError, r"delay must lie in \[0, 4096\]; got -1"),
        ({"potential_overflow": "clip"}, ValueError, "potential_overflow must be one of"),
        ({"decay_rounding": "up"}, ValueError, "decay_rounding must be one of"),
        ({"message_bits": 2, "reset": "zero"}, ValueError, "message_bits must be 1 with reset='zero'"),
        ({"bias": FixedPoint(bits=8, exponent=-1)}, ValueError, "exponent of bias must be at least 0"),
        ({"bias": FixedPoint(bits=8, exponent=50)}, ValueError, "bits and exponent of bias"),
        ({"bias": FixedPoint(bits=8, rounding="stochastic")}, ValueError, "rounding of bias must not be"),
        ({"graded": 1}, TypeError, "graded must be True or False"),
    ],
)
def test_bad_formats(arguments, error, message):
    with pytest.raises(error, match=message):
        DigitalFormat(**arguments)


@pytest.mark.parametrize(
    ("format", "arguments", "error", "message"),
    [
        (DigitalFormat(), {"time_step": 1e-6}, ValueError, "give the format more decay_bits"),
        (DigitalFormat(), {"time_step": 0.0}, ValueError, "time_step must be positive"),
        (DigitalFormat(), {"time_step": 0.25, "threshold": 2**23}, ValueError, r"less than 2\^23"),
        (DigitalFormat(), {"time_step": 0.25, "delays": [0, 1.5]}, ValueError, "delays must be whole numbers"),
        (DigitalFormat(), {"time_step": 0.25, "delays": [0]}, ValueError, r"delays must have shape \(2,\)"),
        (DigitalFormat(message_bits=32, weights=FixedPoint(bits=40)), {"time_step": 0.25}, ValueError, r"weights times messages must sum to at most 2\^60"),
        (DigitalFormat(message_bits=2, graded=True), {"time_step": 0.25}, ValueError, "message_bits must be so many that a graded message"),
        ("Loihi", {"time_step": 0.25}, TypeError, "format must be a DigitalFormat"),
    ],
)  # fmt: skip
def test_bad_networks(format, arguments, error, message):
    with pytest.raises(error, match=message):
        DigitalNetwork.of(REAL, format, **arguments)


def test_a_state_does_not_change_with_the_arrays_it_was_made_of():
    potential = np.zeros(2, dtype=np.int64)
    state = DigitalState(
        membrane_potential=potential, synaptic_current=np.zeros(2, dtype=np.int64), pending=[[0, 0]]
    )
    potential[:] = 7
    assert state.membrane_potential.tolist() == [0, 0]


@pytest.mark.parametrize("theta", [1.0, 0.1, 1.3, 1 / 3, 7.7])
@pytest.mark.parametrize("bits", [10, 52, 53, 54, 56])
def test_the_largest_threshold_fits_into_its_register(theta, bits):
    real = SpikingNetwork(np.zeros((2, 2)), [0.0, 0.0], [theta, theta / 2])
    threshold = min(2 ** (bits - 1) - 1, 2**53)
    made = DigitalNetwork.of(real, DigitalFormat(potential_bits=bits), time_step=0.25, threshold=threshold)
    assert made.firing_threshold[0] == threshold
    if bits == 56:
        with pytest.raises(ValueError, match=r"threshold must be at most 2\^53"):
            DigitalNetwork.of(real, made.format, time_step=0.25, threshold=2**55 - 1)


def test_thresholds_below_a_unit_are_refused():
    real = SpikingNetwork(np.zeros((2, 2)), [1.0, 1.0], [1.0, 1e-3])
    with pytest.raises(ValueError, match="every threshold is at least one unit"):
        DigitalNetwork.of(real, DigitalFormat(potential_bits=8), time_step=0.25)


def test_drives_beyond_the_registers_are_refused():
    real = SpikingNetwork(np.zeros((1, 1)), [1e9], 1.0)
    with pytest.raises(ValueError, match=r"soma_bias must be at most 2\^56 units"):
        DigitalNetwork.of(real, DigitalFormat(potential_bits=56), time_step=0.25)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_steps": 0}, ValueError, "n_steps must be positive"),
        ({"n_steps": 2**41}, ValueError, r"n_steps must be at most 2\^40"),
        ({"n_steps": 1, "state": 3}, TypeError, "state must be a DigitalState"),
        ({"n_steps": 1, "record_spikes": 1}, TypeError, "record_spikes must be True or False"),
    ],
)
def test_bad_runs(arguments, error, message):
    network = DigitalNetwork.of(REAL, DigitalFormat(), time_step=0.25)
    with pytest.raises(error, match=message):
        simulate_digital(network, **arguments)


def test_states_that_do_not_fit_are_refused():
    network = DigitalNetwork.of(REAL, DigitalFormat(), time_step=0.25)
    zeros = np.zeros(2, dtype=int)
    for state, message in [
        ({"pending": np.zeros((2, 2), dtype=int)}, "state must have 2 neurons and 1 rows"),
        ({"synaptic_current": np.array([2**23, 0])}, "synaptic_current of state must fit into 24 bits"),
        ({"pending": np.full((1, 2), 2**40)}, "pending of state must be at most what all neurons"),
        ({"pending": np.array([[-(2**63), 0]])}, "pending of state must be at most what all neurons"),
        (
            {"membrane_potential": np.array([2**64 - 5, 0], dtype=np.uint64)},
            f"membrane_potential must be made of integers of 64 bits; got {2**64 - 5}",
        ),
    ]:
        fields = {
            "membrane_potential": zeros,
            "synaptic_current": zeros,
            "pending": np.zeros((1, 2), dtype=int),
        }
        with pytest.raises(ValueError, match=message):
            simulate_digital(network, 1, state=DigitalState(**(fields | state)))
    with pytest.raises(TypeError, match="membrane_potential must be an array of integers"):
        DigitalState(membrane_potential=[0.5], synaptic_current=[0], pending=[[0]])
    with pytest.raises(ValueError, match="must have shape"):
        DigitalState(membrane_potential=[0, 1], synaptic_current=[0], pending=[[0]])

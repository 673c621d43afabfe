"""For bad input, public functions and classes of `snn` raise the right error, which names the argument."""

# ruff: noqa: E501 - a case a line reads better

import contextlib
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from snn import (
    Clock,
    DenseRows,
    Imperfections,
    NetworkState,
    OperationCounts,
    RealNeuron,
    Record,
    Simulator,
    SpikeTrain,
    SpikingNetwork,
    Stimulus,
    energy_estimate,
    simulate,
    simulate_trials,
    warm_up,
)
from snn.digital import DigitalFormat, DigitalNetwork, FixedPoint
from snn.digital.format import mantissas_of
from snn.pictures import rates_against_time
from snn.record.spikes import smooth_rate_of_moments
from snn.run.start import start_run
from tests.reference.weight_forms import stored

WEIGHTS = np.array([[0.0, -0.5], [-0.3, 0.0]])
NETWORK = SpikingNetwork(WEIGHTS, np.array([1.0, 0.7]))
RESULT = simulate(NETWORK, 10.0, record_spikes=True)
SPIKES, REST, THREE = RESULT.spikes, NetworkState.at_rest(2), NetworkState.at_rest(3)
LATER = simulate(NETWORK, 5.0, state=RESULT.state, record_spikes=True).spikes
NAN, INF = float("nan"), float("inf")
SQUARE = np.zeros((2, 2))
TYPE, VALUE = TypeError, ValueError


network = partial(SpikingNetwork, weights=SQUARE, soma_bias=[0.0, 0.0])
state = partial(NetworkState, membrane_potential=[0.0, 0.0], synaptic_current=[0.0, 0.0])
train = partial(SpikeTrain, times=[1.0, 2.0], neurons=[0, 1], n_neurons=2, start=0.0, stop=3.0)
run = partial(simulate, network=NETWORK, duration=1.0)
clocked = partial(simulate, time=Clock(0.1), network=NETWORK, duration=1.0)
stimulus = partial(Stimulus, drive_times=[0.5], drive=[[0.0, 0.0]])
inputs = partial(Stimulus, spikes=train(), weights=SQUARE)
both = partial(inputs, drive_times=[0.5], drive=[[0.0, 0.0]])
record = partial(Record, network=NETWORK, spikes=SPIKES)
RECORD = record()
digital = partial(DigitalNetwork.of, network=NETWORK, format=DigitalFormat(), time_step=0.25)
digital_run = partial(run, time=Clock(0.25, DigitalFormat()))
delayed = partial(run, time=Clock(0.25, DigitalFormat(delay=1)))
fixed = partial(FixedPoint, bits=8)


def simulator(**changes):
    """Assign attributes of a simulator; the simulator must not change if a value is refused."""
    made = Simulator(NETWORK)
    before = made.advance(1.5).state
    for name, value in changes.items():
        try:
            made.advance(value) if name == "until" else setattr(made, name, value)
        finally:
            np.testing.assert_array_equal(made.membrane_potential, before.membrane_potential)
            np.testing.assert_array_equal(made.weights.toarray(), WEIGHTS)


def imperfect(duration=10.0, state=None, **changes):
    return clocked(duration=duration, state=state, time=Clock(0.1, imperfections=Imperfections(**changes)))


def imperfect_digital(format=None, **changes):
    time = Clock(0.25, format or DigitalFormat(), imperfections=Imperfections(**changes))
    return start_run(time, NETWORK, NETWORK.soma_bias[np.newaxis])


def table(call, error, **values):
    """Return cases that have one wrong argument each; the error names the wrong argument."""
    return [(call, error, name, {name: value}) for name, bad in values.items() for value in bad]


def case(error, name, call, **arguments):
    """Return one case that has several arguments, or whose error names something other than the argument."""
    return (call, error, name, arguments)


class Quantity(np.ndarray):
    """An array with a unit, as in the package `quantities`."""

    dimensionality = "ms"


class AnotherQuantity(np.ndarray):
    """An array with a unit, as in Brian2."""

    dimensions = "s"


QUANTITY = np.array(2.0).view(Quantity)
NOT_WEIGHTS = ["heavy", SQUARE.astype(complex), SQUARE.astype(object), [[0.0, 1.0], [0.0]]]
BAD_WEIGHTS = [
    [[0.0, NAN], [0.0, 0.0]], [[0.0, -INF], [0.0, 0.0]], np.zeros((2, 3)), np.zeros(4), np.eye(2), np.zeros((0, 0)),
    *map(sparse.csr_array, (np.eye(2), np.zeros((2, 3)), [[0.0, NAN], [0.0, 0.0]])),
]  # fmt: skip
OF_RATES = (
    "leak",
    "refractory_time",
    "delays",
    "threshold_mismatch",
    "weight_mismatch",
    "potential_noise",
    "lost_spikes",
)
CASES = [
    *table(network, TYPE, weights=[*NOT_WEIGHTS, sparse.csr_array(SQUARE * 1j)], soma_bias=[None]),
    *table(network, VALUE, weights=BAD_WEIGHTS, soma_bias=[[0, 0, 0], [0, INF]],
           firing_threshold=[0.0, [1.0, -1.0], NAN, [1.0]]),
    *table(NETWORK.with_soma_bias, VALUE, soma_bias=[[1.0]]),
    *table(DenseRows(SQUARE).sign_pairs, VALUE, cross=[[1.0], [NAN, 1.0]]),
    *table(DenseRows, VALUE, strengths=[np.zeros((2, 3)), [[1.0, NAN], [0.0, 1.0]]]),
    *table(state, VALUE, membrane_potential=[[NAN, 0.0], [[0.0, 0.0]]], synaptic_current=[[0.0]], time=[INF], pending=[[0.0, 0.0], [[NAN, 0.0]]]),
    *table(state, TYPE, time=["now"]),
    *table(NetworkState.at_rest, VALUE, n_neurons=[0]), *table(NetworkState.at_rest, TYPE, n_neurons=[2.5]),
    # -- runs --
    *[row for call in (run, clocked) for row in (
        *table(call, TYPE, network=[SQUARE], duration=["long", True], state=[[0.0, 0.0]], max_spikes=[1.5],
               record_spikes=["yes", None], progress=[1, "bar"], stimulus=[SPIKES]),
        *table(call, VALUE, duration=[0.0, -1.0, NAN, INF], max_spikes=[0, -3],
               state=[THREE, state(synaptic_current=[0.0, 1e30])],
               stimulus=[stimulus(drive=[[0.0]]), inputs(), stimulus(drive_times=[-0.5]), stimulus(drive=[[1e30, 0.0]])]),
        case(VALUE, "stimulus", call, state=state(time=3.0), stimulus=stimulus()),
        case(VALUE, "duration", call, network=NETWORK.with_soma_bias([-1.0, -1.0]), duration=1e308, state=state(time=1e308)),
    )],
    case(VALUE, "potentials", run, state=state(membrane_potential=[0.0, 1.5])),
    *table(clocked, VALUE, duration=[1.05]), *table(clocked, TYPE, time=[0.1]),
    *table(Clock, VALUE, time_step=[0.0, NAN]), *table(partial(Clock, 0.1), TYPE, neuron=["real"], imperfections=[0.1]),
    *table(RealNeuron, VALUE, reset=["soft"], integration=["rk4"]), *table(RealNeuron, TYPE, integration=[True], reset=[0]),
    case(VALUE, "time_step", lambda: Clock(0.5, digital())),
    *table(Simulator, TYPE, network=[SQUARE]), case(VALUE, "state", Simulator, network=NETWORK, state=THREE),
    *table(simulator, VALUE, until=[0.5, NAN], soma_bias=[[1.0]], weights=[np.zeros((3, 3)), np.eye(2)],
           membrane_potential=[[0.0]], synaptic_current=[[NAN, 0.0]]),
    *table(Simulator(NETWORK).step, VALUE, n_spikes=[0, -1]), *table(Simulator(NETWORK).step, TYPE, n_spikes=[1.5, True]),
    *table(partial(Simulator(NETWORK).set_weights_from, source=0, weights=[0.0, 0.0]), VALUE, source=[2, -1],
           weights=[[0.0], [0.5, 0.0], [0.0, NAN], [0.0, 1e30], SQUARE]),
    *table(partial(Simulator(NETWORK).set_weights_from, source=0, weights=[0.0, 0.0]), TYPE, source=[0.5, True], weights=["heavy", QUANTITY]),
    case(VALUE, "potentials", simulator, membrane_potential=[2.0, 0.0]),
    case(VALUE, "currents", simulator, synaptic_current=[1e30, 0.0]),
    *table(simulator, TYPE, until=["late"]),
    case(VALUE, "until", lambda: Simulator(NETWORK.with_soma_bias([-1.0, 0.0]), state(time=-1e308)).advance(1e308)),
    case(VALUE, "stimulus", Simulator(NETWORK).advance, until=1.0, stimulus=inputs()),
    case(TYPE, "stimulus", Simulator(NETWORK).advance, until=1.0, stimulus=SPIKES),
    case(VALUE, "weights", Simulator(stored("on demand", np.array([[0.0, 1e16], [0.0, 0.0]]), np.ones(2))).step),
    case(TYPE, "progress", warm_up, progress="yes"),
    case(TYPE, "until", Simulator(NETWORK).advance, until=QUANTITY),
    case(TYPE, "soma_bias", NETWORK.with_soma_bias, soma_bias=np.ones(2).view(Quantity)),
    *[case(TYPE, "times", train, times=np.array([1.0, 2.0]).view(kind), neurons=[0, 1]) for kind in (Quantity, AnotherQuantity)],
    case(TYPE, "time_constant", SPIKES.to_neo, time_constant=QUANTITY),
    case(TYPE, "time_constants", RealNeuron, time_constants="fast"),
    case(VALUE, "time_constants", RealNeuron, time_constants=2.0),
    case(TYPE, "stimuli", simulate_trials, network=NETWORK, duration=1.0, stimuli=3),
    # -- imperfect neurons --
    *table(Imperfections, VALUE, **{name: [-0.1, INF, NAN] for name in OF_RATES}),
    *table(Imperfections, TYPE, **{name: ["some"] for name in OF_RATES}),
    *table(Imperfections, VALUE, lost_spikes=[1.0], delays=[np.zeros((1, 2, 2)), [0.1, -0.2], [0.1, NAN]], seed=[-1, 2**63]),
    *table(Imperfections, TYPE, leak=[[0.1]], seed=[0.5]),
    case(TYPE, "imperfections", lambda: Clock(0.1, imperfections={"leak": 0.1})),
    case(VALUE, "leak", lambda: Clock(0.1, RealNeuron(integration="euler"), imperfections=Imperfections(leak=10.0))),
    case(VALUE, "duration", imperfect, refractory_time=10.0), case(VALUE, "duration", imperfect, delays=[10.0, 12.0]),
    case(VALUE, "delays", imperfect, duration=500.0, delays=410.0),
    *table(imperfect, VALUE, delays=[[1.0, 1.0, 1.0], np.ones((2, 3))]),
    *table(state, VALUE, waiting=[[[1]], [-1] * 2], threshold_rise=[[NAN, 0.0]], other_currents=[[0.0, 0.0]]),
    *table(imperfect_digital, VALUE, leak=[1e-6], potential_noise=[1e13], delays=[np.zeros(3)]),
    case(VALUE, "potential_bits and decay_bits", imperfect_digital, format=DigitalFormat(potential_bits=50, decay_bits=13), leak=0.1),
    # -- stimuli --
    case(VALUE, "drive_times", Stimulus), case(VALUE, "drive", stimulus, drive=None),
    case(VALUE, "drive_times", stimulus, drive_times=None), case(VALUE, "spikes", inputs, spikes=None),
    case(VALUE, "drive_times", stimulus, drive_times=[1.0, 1.0], drive=SQUARE),
    case(VALUE, "drive_times", stimulus, drive_times=[2.0, 1.0], drive=SQUARE),
    case(VALUE, "drive_times", stimulus, drive_times=[], drive=np.zeros((0, 2))),
    *table(stimulus, VALUE, drive_times=[[NAN], [INF]], drive=[[[0.0, 0.0], [1.0, 1.0]], [[NAN, 0.0]]]),
    *table(stimulus, TYPE, drive_times=[["soon"]], drive=[np.zeros((1, 2), dtype=object)]),
    *table(inputs, VALUE, weights=[None, np.zeros((3, 2)), [[INF, 0.0], [0.0, 0.0]], sparse.csr_array((3, 2)),
           sparse.csr_array([[NAN, 0.0], [0.0, 0.0]])], onto=["soma"]),
    *table(inputs, TYPE, weights=[np.zeros((2, 2), dtype=object)], spikes=[[0.5], RESULT]),
    *table(both, VALUE, weights=[sparse.csr_array((2, 3)), np.zeros((2, 3))], onto=["drive"]),
    case(VALUE, "stop", inputs().between, start=2.0, stop=1.0), case(VALUE, "start", inputs().between, start=NAN, stop=1.0),
    case(VALUE, "start and stop", stimulus().between, start=1.0, stop=2.0),
    case(VALUE, "times", stimulus().drive_at, times=[1.0, 0.5], soma_bias=[0.0, 0.0]),
    case(VALUE, "soma_bias", stimulus().drive_at, times=[1.0], soma_bias=[0.0]),
    # -- spike trains and what is read from them --
    *table(train, VALUE, times=[[2.0, 1.0], [1.0, 4.0], [1.0, NAN]], neurons=[[0, 2], [0]], stop=[-1.0], n_neurons=[0]),
    *table(train, TYPE, times=[["a", "b"]], neurons=[[0.5, 1.0]]),
    *[case(TYPE, "spikes", call, spikes=RESULT) for call in (rates_against_time, record)],
    *[case(TYPE, "record_spikes", call, spikes=None) for call in (rates_against_time, record)],
    case(TYPE, "record_spikes", rates_against_time, spikes=simulate(NETWORK, 1.0)),
    case(VALUE, "start and stop", SPIKES.rate, start=5.0, stop=5.0),
    case(VALUE, "start and stop", SPIKES.smooth_rate, stop=11.0),
    *[case(VALUE, "times", SPIKES.rate_curve, times=times) for times in ([0.0, 1.0], [2.0, 1.0], [11.0])],
    *[case(VALUE, "duration", smooth_rate_of_moments, moments=np.zeros((4, 2, 3)), duration=duration)
      for duration in (0.0, NAN, 1e76)],
    *table(RECORD.potential, VALUE, times=[[11.0], [-1.0], [2.0, 1.0]]),
    case(VALUE, "times", RECORD.average_current, times=[0.0]),
    *table(record, TYPE, network=[SQUARE, None], state=[1], stimulus=[3]),
    *table(record, VALUE, state=[THREE, state(time=1.0)], stimulus=[stimulus(drive=[[0.0]])],
           spikes=[train(n_neurons=3), LATER]),
    *table(RECORD.explain, TYPE, k=[1.0]), *table(RECORD.explain, VALUE, k=[99, -99]),
    *[case(VALUE, "spikes", other.explain, k=0) for other in (
        record(network=NETWORK.with_soma_bias([1.1, 0.7])),
        clocked(duration=5.0, time=Clock(0.3125), record_spikes=True).record)],
    *table(SPIKES.counts, TYPE, start=["a", 1j, True]), *table(SPIKES.counts, VALUE, stop=[NAN]),
    case(VALUE, "neurons", SPIKES.plot, neurons=[2]), case(TYPE, "neurons", SPIKES.plot, neurons=[0.5]),
    case(TYPE, "neuron", SPIKES.plot, neuron=[0]),
    case(TYPE, "neurons", RECORD.plot, neurons=[]),
    case(VALUE, "limits", rates_against_time, spikes=SPIKES, limits=[1.0]),
    case(VALUE, "n_times", rates_against_time, spikes=SPIKES, n_times=0),
    case(TYPE, "counts", energy_estimate, counts=16), case(TYPE, "costs", energy_estimate, counts=OperationCounts(), costs=2.0),
    case(VALUE, "costs", energy_estimate, counts=OperationCounts(), costs={"spikes": 1.0}),
    *[case(error, "neuron_updates", energy_estimate, counts=OperationCounts(), costs={"neuron_updates": cost})
      for error, cost in ((VALUE, -1.0), (VALUE, NAN), (TYPE, "much"))],
    case(VALUE, "multiply_adds", energy_estimate, counts=OperationCounts(multiply_adds=7)),
    # -- digital neurons --
    *table(FixedPoint, TYPE, bits=[8.0]), *table(FixedPoint, VALUE, bits=[1, 53, 0]),
    case(VALUE, r"signed mantissas must lie in \[2, 52", FixedPoint, bits=0),
    *table(fixed, VALUE, exponent=[901, -901], sign=["mixed"], rounding=["up"]), *table(fixed, TYPE, exponent=[0.5]),
    case(VALUE, "values", mantissas_of, format=FixedPoint(bits=8), values=np.array([5e-324])),
    *table(DigitalFormat, TYPE, weights=[8], potential_bits=[24.0], graded=[1]),
    *table(DigitalFormat, VALUE, potential_bits=[51, 1], current_bits=[1, 51], decay_bits=[0, 39], threshold=[2**23, 0], message_bits=[0, 33],
           delay=[-1, 4097], potential_overflow=["clip"], current_overflow=["clip"], decay_rounding=["up"],
           input_rounding=["up"], reset=["soft"],
           bias=[FixedPoint(bits=8, exponent=-1), FixedPoint(bits=8, exponent=50), FixedPoint(bits=8, rounding="stochastic")]),
    case(VALUE, "message_bits", DigitalFormat, message_bits=2, reset="zero"),
    *table(digital, TYPE, network=[SQUARE], format=["Loihi"]),
    *table(digital, VALUE, time_step=[1e-6, 0.0], delays=[[0, 1.5], [0], [0, -1], [0, 4097]]),
    case(VALUE, "threshold", digital, network=network(firing_threshold=[1.0, 1e-3]), format=DigitalFormat(potential_bits=8)),
    case(VALUE, "soma_bias", run, network=network(soma_bias=[1e9, 0.0]), time=Clock(0.25, DigitalFormat(potential_bits=50))),
    case(VALUE, "weights", digital, format=DigitalFormat(message_bits=32, weights=FixedPoint(bits=40))),
    case(VALUE, "message_bits", digital, format=DigitalFormat(message_bits=2, graded=True)),
    *table(digital_run, VALUE, duration=[0.3, 2.0**39],
           stimulus=[stimulus(drive_times=[2.0]), inputs(spikes=train(times=[0.1, 0.2], stop=1.0), weights=[[0.1, 7.0], [0, 0]])]),
    *[case(VALUE, "pending of state", delayed, state=state(pending=pending))
      for pending in (np.zeros((3, 2), dtype=int), SQUARE, np.full((2, 2), 2**60))],
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Imperfections, "leak"), (RealNeuron, "integration"), (NetworkState, "membrane_potential"), (FixedPoint, "bits"),
        (DigitalFormat, "weights"), (SpikeTrain, "times"), (Stimulus, "drive_times"),
    ],
)  # fmt: skip
def test_values_name_the_arguments_that_need_a_name(kind, name):
    with pytest.raises(TypeError, match=rf"^arguments of {kind.__name__} .*\({name}=\.\.\.\); got 3 without"):
        kind(3)


@pytest.mark.parametrize(("call", "error", "name", "arguments"), CASES)
def test_the_error_names_the_argument(call, error, name, arguments):
    with pytest.raises(error, match=rf"\b{name}\b") as caught:
        call(**arguments)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda array: array.astype(np.float32),
        lambda array: np.lib.stride_tricks.as_strided(array, writeable=False),
        lambda array: array.tolist(),
        lambda array: np.repeat(array, 2, axis=0)[::2],
    ],
    ids=["fortran", "float32", "read-only", "list", "strided"],
)
def test_any_layout_gives_the_same_run(convert):
    weights = (np.eye(3) - 1.0) * np.arange(9.0).reshape(3, 3) / 16.0  # exact in float32
    bias = np.array([1.0, 1.25, 0.5])
    expected = simulate(SpikingNetwork(weights, bias), 50.0)
    result = simulate(SpikingNetwork(convert(weights), convert(bias)), 50.0)
    np.testing.assert_array_equal(result.spike_counts, expected.spike_counts)
    np.testing.assert_array_equal(result.average_soma_current, expected.average_soma_current)


def test_memory_mapped_weights(tmp_path):
    np.save(tmp_path / "weights.npy", WEIGHTS)
    mapped = SpikingNetwork(np.load(tmp_path / "weights.npy", mmap_mode="r"), NETWORK.soma_bias)
    np.testing.assert_array_equal(simulate(mapped, 10.0).spike_counts, RESULT.spike_counts)


def test_networks_and_results_cannot_be_written():
    arrays = [NETWORK.soma_bias, NETWORK.firing_threshold, REST.membrane_potential]
    arrays += [RESULT.spike_counts, RESULT.average_soma_current, SPIKES.times, SPIKES.neurons]
    for array in arrays:
        assert not array.flags.writeable
    with contextlib.suppress(ValueError):  # the array is a copy or is read-only
        NETWORK.weights.toarray()[0, 1] = 9.0
    assert NETWORK.weights.toarray()[0, 1] == -0.5
    with pytest.raises(AttributeError):
        RESULT.duration = 1.0

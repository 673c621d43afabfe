"""Nonsense to every public argument of `snn`, and the sentence that comes back."""

# ruff: noqa: E501 - a case a line reads better

import contextlib
import re

import numpy as np
import pytest
from scipy import sparse

from snn import (
    ImperfectClock,
    Imperfections,
    LateralInhibition,
    NetworkState,
    SignPairWeights,
    SimulationResult,
    Simulator,
    SpikeTrain,
    SpikingNetwork,
    Stimulus,
    explain,
    simulate,
    simulate_analog,
    simulate_clocked,
)
from snn.base import checks
from snn.pictures import potentials, rates_against_time
from snn.record import rates, traces

NETWORK = SpikingNetwork(np.array([[0.0, -0.5], [-0.3, 0.0]]), np.array([1.0, 0.7]))
RESULT = simulate(NETWORK, 10.0, record_spikes=True)
SPIKES = RESULT.spikes
REST = NetworkState.at_rest(2)
NAN, INF = float("nan"), float("inf")
SQUARE = np.zeros((2, 2))
TRAIN = {"times": [1.0, 2.0], "neurons": [0, 1], "n_neurons": 2, "start": 0.0, "stop": 3.0}
STATE = {"membrane_potential": [0.0, 0.0], "synaptic_current": [0.0, 0.0]}
IMPERFECT = (
    "leak",
    "refractory_time",
    "delays",
    "threshold_mismatch",
    "weight_mismatch",
    "potential_noise",
    "lost_spikes",
)
ANALOG = {"weights": SQUARE, "drive": [1.0, 1.0], "activation_threshold": 0.1, "duration": 1.0}


def train(**changes):
    return SpikeTrain(**{**TRAIN, **changes})


def state(**changes):
    return NetworkState(**{**STATE, **changes})


def analog(**changes):
    return simulate_analog(**{**ANALOG, **changes})


def stimulus(**changes):
    return Stimulus(**{"drive_times": [0.5], "drive": [[0.0, 0.0]], **changes})


def inputs(**changes):
    return Stimulus(**{"spikes": train(), "weights": SQUARE, **changes})


def clocked(duration=1.0, **changes):
    return simulate_clocked(NETWORK, duration, **{"time_step": 0.1, **changes})


def imperfect(duration=10.0, integration="exact", state=None, **changes):
    return clocked(duration, integration=integration, state=state, imperfections=Imperfections(**changes))


CASES = [
    # -- networks --
    (lambda: SpikingNetwork([[0.0, NAN], [0.0, 0.0]], [0, 0]), ValueError, "weights must be finite; got nan at [0, 1]"),
    (lambda: SpikingNetwork([[0.0, -INF], [0.0, 0.0]], [0, 0]), ValueError, "weights must be finite; got -inf at [0, 1]"),
    (lambda: SpikingNetwork(np.zeros((2, 3)), [0, 0]), ValueError, "weights must be square, (source, target); got shape (2, 3)"),
    (lambda: SpikingNetwork(np.zeros(4), [0, 0]), ValueError, "weights must be 2-D, (source, target); got shape (4,)"),
    (lambda: SpikingNetwork(np.eye(2), [0, 0]), ValueError, "weights must have a zero diagonal (no neuron connects to itself); got 1.0 at [0, 0]: set the diagonal to exactly 0"),
    (lambda: SpikingNetwork(np.zeros((0, 0)), []), ValueError, "weights must not be empty; got shape (0, 0)"),
    (lambda: SpikingNetwork("heavy", [0, 0]), TypeError, "weights must be an array of real numbers"),
    (lambda: SpikingNetwork(SQUARE.astype(complex), [0, 0]), TypeError, "weights must be an array of real numbers; got dtype complex128"),
    (lambda: SpikingNetwork(SQUARE.astype(object), [0, 0]), TypeError, "weights must be an array of real numbers; got dtype object"),
    (lambda: SpikingNetwork([[0.0, 1.0], [0.0]], [0, 0]), TypeError, "weights must be an array of real numbers"),
    (lambda: SpikingNetwork(sparse.csr_array(np.eye(2)), [0, 0]), ValueError, "weights must have a zero diagonal"),
    (lambda: SpikingNetwork(sparse.csr_array(np.zeros((2, 3))), [0, 0]), ValueError, "weights must be square"),
    (lambda: SpikingNetwork(sparse.csr_array([[0, NAN], [0, 0]]), [0, 0]), ValueError, "weights must be finite; got nan"),
    (lambda: SpikingNetwork(sparse.csr_array(SQUARE * 1j), [0, 0]), TypeError, "weights must be a matrix of real numbers; got dtype complex128"),
    (lambda: SpikingNetwork(SQUARE, [0, 0, 0]), ValueError, "soma_bias must have shape (2,), one constant drive a neuron (for one that changes with time pass a Stimulus); got shape (3,)"),
    (lambda: SpikingNetwork(SQUARE, [0, INF]), ValueError, "soma_bias must be finite; got inf at [1]"),
    (lambda: SpikingNetwork(SQUARE, None), TypeError, "soma_bias must be an array of real numbers; got dtype object"),
    (lambda: SpikingNetwork(SQUARE, [0, 0], 0.0), ValueError, "firing_threshold must be positive; got 0.0"),
    (lambda: SpikingNetwork(SQUARE, [0, 0], [1.0, -1.0]), ValueError, "firing_threshold must be positive; got -1.0 at [1]"),
    (lambda: SpikingNetwork(SQUARE, [0, 0], NAN), ValueError, "firing_threshold must be finite; got nan"),
    (lambda: SpikingNetwork(SQUARE, [0, 0], [1.0]), ValueError, "firing_threshold must have shape (2,), one threshold a neuron; got shape (1,)"),
    (lambda: NETWORK.with_soma_bias([1.0]), ValueError, "soma_bias must have shape (2,), one constant drive a neuron (for one that changes with time pass a Stimulus); got shape (1,)"),
    (lambda: SignPairWeights(np.eye(2), [1.0, 1.0]), ValueError, "lateral must have a zero diagonal"),
    (lambda: SignPairWeights(np.zeros((2, 3)), [1.0, 1.0]), ValueError, "lateral must be square"),
    (lambda: SignPairWeights(SQUARE, [1.0]), ValueError, "cross must have shape (2,), one weight for each pair; got shape (1,)"),
    (lambda: SignPairWeights(SQUARE, [NAN, 1.0]), ValueError, "cross must be finite; got nan at [0]"),
    (lambda: LateralInhibition(np.zeros((2, 3))), ValueError, "strength must be square"),
    (lambda: LateralInhibition([[1.0, NAN], [0.0, 1.0]]), ValueError, "strength must be finite; got nan at [0, 1]"),
    # -- states --
    (lambda: state(membrane_potential=[NAN, 0.0]), ValueError, "membrane_potential must be finite; got nan at [0]"),
    (lambda: state(membrane_potential=[[0.0, 0.0]]), ValueError, "membrane_potential must be 1-D"),
    (lambda: state(synaptic_current=[0.0]), ValueError, "synaptic_current must have shape (2,), one current a neuron; got shape (1,)"),
    (lambda: state(time=INF), ValueError, "time must be finite; got inf"),
    (lambda: state(time="now"), TypeError, "time must be a real number; got str"),
    (lambda: NetworkState.at_rest(0), ValueError, "n_neurons must be positive; got 0"),
    (lambda: NetworkState.at_rest(2.5), TypeError, "n_neurons must be an integer; got float"),
    # -- simulate --
    (lambda: simulate(SQUARE, 1.0), TypeError, "network must be a SpikingNetwork; got ndarray"),
    (lambda: simulate(NETWORK, 0.0), ValueError, "duration must be positive; got 0.0"),
    (lambda: simulate(NETWORK, -1.0), ValueError, "duration must be positive; got -1.0"),
    (lambda: simulate(NETWORK, NAN), ValueError, "duration must be finite; got nan"),
    (lambda: simulate(NETWORK, INF), ValueError, "duration must be finite; got inf"),
    (lambda: simulate(NETWORK, "long"), TypeError, "duration must be a real number; got str"),
    (lambda: simulate(NETWORK, True), TypeError, "duration must be a real number; got bool"),
    (lambda: simulate(NETWORK, 1.0, state=REST.membrane_potential), TypeError, "state must be a NetworkState; got ndarray"),
    (lambda: simulate(NETWORK, 1.0, state=NetworkState.at_rest(3)), ValueError, "state has 3 neurons but the network has 2"),
    (lambda: simulate(NETWORK, 1.0, state=state(membrane_potential=[0.0, 1.5])), ValueError, "state must have potentials at most the firing threshold; got 1.5 above 1.0 for neuron 1"),
    (lambda: simulate(NETWORK, 1.0, record_spikes="yes"), TypeError, "record_spikes must be True or False; got 'yes'"),
    (lambda: simulate(NETWORK, 1.0, progress=1), TypeError, "progress must be True or False; got 1"),
    (lambda: simulate(NETWORK, 1.0, max_spikes=0), ValueError, "max_spikes must be positive; got 0"),
    (lambda: simulate(NETWORK, 1.0, max_spikes=1.5), TypeError, "max_spikes must be an integer; got float"),
    # -- simulate_clocked --
    (lambda: simulate_clocked(SQUARE, 1.0, time_step=0.1), TypeError, "network must be a SpikingNetwork; got ndarray"),
    (lambda: clocked(duration=-1.0), ValueError, "duration must be positive; got -1.0"),
    (lambda: clocked(duration=1.05), ValueError, "duration must be a whole number of time steps; got 1.05 and a time_step of 0.1"),
    (lambda: clocked(time_step=0.0), ValueError, "time_step must be positive; got 0.0"),
    (lambda: clocked(time_step=NAN), ValueError, "time_step must be finite; got nan"),
    (lambda: clocked(reset="soft"), ValueError, "reset must be one of 'subtract', 'zero'; got 'soft'"),
    (lambda: clocked(integration="rk4"), ValueError, "integration must be one of 'exact', 'euler'; got 'rk4'"),
    (lambda: clocked(integration=True), TypeError, "integration must be one of 'exact', 'euler'; got bool"),
    (lambda: clocked(reset=0), TypeError, "reset must be one of 'subtract', 'zero'; got int"),
    (lambda: clocked(state=NetworkState.at_rest(1)), ValueError, "state has 1 neurons but the network has 2"),
    (lambda: clocked(record_spikes=None), TypeError, "record_spikes must be True or False; got None"),
    (lambda: clocked(max_spikes=-3), ValueError, "max_spikes must be positive; got -3"),
    (lambda: clocked(progress="bar"), TypeError, "progress must be True or False; got 'bar'"),
    # -- imperfect neurons --
    *[(lambda name=name: Imperfections(**{name: -0.1}), ValueError, f"{name} must not be negative; got -0.1") for name in IMPERFECT],
    *[(lambda name=name: Imperfections(**{name: INF}), ValueError, f"{name} must be finite; got inf") for name in IMPERFECT],
    *[(lambda name=name: Imperfections(**{name: "some"}), TypeError, f"{name} must be a") for name in IMPERFECT],
    (lambda: Imperfections(leak=[0.1]), TypeError, "leak must be a real number; got list"),
    (lambda: Imperfections(lost_spikes=1.0), ValueError, "lost_spikes must be a probability below 1; got 1.0"),
    (lambda: Imperfections(delays=np.zeros((1, 2, 2))), ValueError, "delays must have at most two dimensions, [source, target]; got shape (1, 2, 2)"),
    (lambda: Imperfections(delays=[0.1, -0.2]), ValueError, "delays must not be negative; got -0.2"),
    (lambda: Imperfections(delays=[0.1, NAN]), ValueError, "delays must be finite; got nan at [1]"),
    (lambda: Imperfections(seed=-1), ValueError, "seed must not be negative; got -1"),
    (lambda: Imperfections(seed=2**63), ValueError, "seed must be at most 2^63 - 1; got 9223372036854775808"),
    (lambda: Imperfections(seed=0.5), TypeError, "seed must be an integer; got float"),
    (lambda: ImperfectClock(0.1, imperfections={"leak": 0.1}), TypeError, "imperfections must be an Imperfections; got dict"),
    (lambda: clocked(imperfections=0.1), TypeError, "imperfections must be an Imperfections; got float"),
    (lambda: imperfect(leak=10.0, integration="euler"), ValueError, "leak must be less than 1 / time_step, 10, with integration='euler'; got 10"),
    (lambda: imperfect(refractory_time=10.0), ValueError, "duration must be longer than the refractory_time, 10; got 10"),
    (lambda: imperfect(delays=[10.0, 12.0]), ValueError, "duration must be longer than the longest of delays, 12; got 10"),
    (lambda: imperfect(duration=500.0, delays=410.0), ValueError, "delays must be at most 4,096 steps, 409.6; got 410"),
    (lambda: imperfect(delays=[1.0, 1.0, 1.0]), ValueError, "delays must be one number, one for each of 2 neurons, or one for each synapse, (2, 2); got shape (3,)"),
    (lambda: imperfect(delays=np.ones((2, 3))), ValueError, "delays must be one number, one for each of 2 neurons, or one for each synapse, (2, 2); got shape (2, 3)"),
    (lambda: imperfect(state=REST, delays=1.0), ValueError, "state must be None with a refractory_time or delays: it does not say which neurons are refractory and which spikes are on their way"),
    (lambda: imperfect(state=REST, refractory_time=1.0), ValueError, "state must be None with a refractory_time or delays"),
    # -- stimuli --
    (Stimulus, ValueError, "a Stimulus must have drive_times and drive, or spikes and weights; got neither"),
    (lambda: stimulus(drive=None), ValueError, "drive must be given with drive_times; got None"),
    (lambda: stimulus(drive_times=None), ValueError, "drive_times must be given with drive; got None"),
    (lambda: inputs(weights=None), ValueError, "weights must be given with spikes; got None"),
    (lambda: inputs(spikes=None), ValueError, "spikes must be given with weights; got None"),
    (lambda: stimulus(drive_times=[1.0, 1.0], drive=SQUARE), ValueError, "drive_times must increase; got 1.0 after 1.0"),
    (lambda: stimulus(drive_times=[2.0, 1.0], drive=SQUARE), ValueError, "drive_times must increase; got 1.0 after 2.0"),
    (lambda: stimulus(drive_times=[NAN]), ValueError, "drive_times must be finite; got nan at [0]"),
    (lambda: stimulus(drive_times=[INF]), ValueError, "drive_times must be finite; got inf at [0]"),
    (lambda: stimulus(drive_times=[], drive=np.zeros((0, 2))), ValueError, "drive_times must not be empty; got shape (0,)"),
    (lambda: stimulus(drive_times=["soon"]), TypeError, "drive_times must be an array of real numbers; got dtype <U4"),
    (lambda: stimulus(drive=[[0.0, 0.0], [1.0, 1.0]]), ValueError, "drive must have shape (1, any), one row a change, one column a neuron; got shape (2, 2)"),
    (lambda: stimulus(drive=[[NAN, 0.0]]), ValueError, "drive must be finite; got nan at [0, 0]"),
    (lambda: stimulus(drive=np.zeros((1, 2), dtype=object)), TypeError, "drive must be an array of real numbers; got dtype object"),
    (lambda: inputs(weights=np.zeros((3, 2))), ValueError, "weights must have shape (2, any), one row a source, one column a neuron; got shape (3, 2)"),
    (lambda: inputs(weights=np.zeros((2, 2), dtype=object)), TypeError, "weights must be an array of real numbers; got dtype object"),
    (lambda: inputs(weights=[[INF, 0.0], [0.0, 0.0]]), ValueError, "weights must be finite; got inf at [0, 0]"),
    (lambda: inputs(weights=sparse.csr_array((3, 2))), ValueError, "weights must have shape (2, any), one row a source; got shape (3, 2)"),
    (lambda: inputs(weights=sparse.csr_array([[NAN, 0.0], [0.0, 0.0]])), ValueError, "weights must be finite; got nan"),
    (lambda: inputs(weights=sparse.csr_array((2, 3)), drive_times=[0.5], drive=[[0.0, 0.0]]), ValueError, "weights must have shape (2, 2), one row a source; got shape (2, 3)"),
    (lambda: inputs(weights=np.zeros((2, 3)), drive_times=[0.5], drive=[[0.0, 0.0]]), ValueError, "weights must have shape (2, 2), one row a source, one column a neuron; got shape (2, 3)"),
    (lambda: inputs(spikes=[0.5]), TypeError, "spikes must be a SpikeTrain; got list"),
    (lambda: inputs(spikes=RESULT), TypeError, "spikes must be a SpikeTrain; got SimulationResult: pass run.spikes"),
    (lambda: inputs(onto="soma"), ValueError, "onto must be one of 'current', 'drive'; got 'soma'"),
    (lambda: inputs(onto="drive", drive_times=[0.5], drive=[[0.0, 0.0]]), ValueError, "onto must be 'current' where drive is given, which says the whole drive; got 'drive'"),
    (lambda: inputs().between(2.0, 1.0), ValueError, "stop must not be before start; got 1.0 and 2.0"),
    (lambda: inputs().between(NAN, 1.0), ValueError, "start must be finite; got nan"),
    (lambda: stimulus().between(1.0, 2.0), ValueError, "start and stop must be around a change of the drive; got 1.0 and 2.0"),
    (lambda: stimulus().average_drive(1.0, 1.0, [0.0, 0.0]), ValueError, "stop must be after start; got 1.0 and 1.0"),
    (lambda: stimulus().drive_at([1.0, 0.5], [0.0, 0.0]), ValueError, "times must not decrease"),
    (lambda: stimulus().drive_at([1.0], [0.0]), ValueError, "soma_bias must have shape (2,); got shape (1,)"),
    (lambda: simulate(NETWORK, 1.0, stimulus=SPIKES), TypeError, "stimulus must be a Stimulus; got SpikeTrain"),
    (lambda: simulate(NETWORK, 1.0, stimulus=stimulus(drive=[[0.0]])), ValueError, "stimulus is for 1 neurons but the network has 2"),
    (lambda: simulate(NETWORK, 1.0, stimulus=inputs()), ValueError, "stimulus must have its changes in the time of the run, from 0.0 to 1.0; got changes from 1.0 to 2.0: cut it with stimulus.between"),
    (lambda: simulate(NETWORK, 1.0, stimulus=stimulus(drive_times=[-0.5])), ValueError, "stimulus must have its changes in the time of the run, from 0.0 to 1.0; got changes from -0.5 to -0.5: cut it with stimulus.between"),
    (lambda: simulate(NETWORK, 1.0, state=state(time=3.0), stimulus=stimulus()), ValueError, "stimulus must have its changes in the time of the run, from 3.0 to 4.0; got changes from 0.5 to 0.5: cut it with stimulus.between"),
    (lambda: simulate(NETWORK, 1.0, stimulus=stimulus(drive=[[1e30, 0.0]])), ValueError, "drives and weights of stimulus must be at most 1.1e+12 times the firing threshold of its neuron; got 1e+30 for neuron 0 with threshold 1: beyond that rounding decides which neurons fire"),
    (lambda: clocked(stimulus=inputs()), ValueError, "stimulus must have its changes in the time of the run, from 0.0 to 1.0; got changes from 1.0 to 2.0: cut it with stimulus.between"),
    (lambda: Simulator(NETWORK).advance(1.0, stimulus=inputs()), ValueError, "stimulus must have its changes in the time of the run, from 0.0 to 1.0; got changes from 1.0 to 2.0: cut it with stimulus.between"),
    (lambda: Simulator(NETWORK).advance(1.0, stimulus=SPIKES), TypeError, "stimulus must be a Stimulus; got SpikeTrain"),
    # -- simulate_analog --
    (lambda: analog(weights=np.eye(2)), ValueError, "weights must have a zero diagonal"),
    (lambda: analog(weights=np.zeros((2, 3))), ValueError, "weights must be square"),
    (lambda: analog(weights=[[0, NAN], [0, 0]]), ValueError, "weights must be finite; got nan at [0, 1]"),
    (lambda: analog(drive=[1.0]), ValueError, "drive must have shape (2,), one drive a neuron; got shape (1,)"),
    (lambda: analog(activation_threshold=0.0), ValueError, "activation_threshold must be positive; got 0.0"),
    (lambda: analog(divisor=[1.0, 0.0]), ValueError, "divisor must be positive; got 0.0 at [1]"),
    (lambda: analog(duration=0), ValueError, "duration must be positive; got 0.0"),
    (lambda: analog(two_sided="both"), TypeError, "two_sided must be True or False; got 'both'"),
    (lambda: analog(initial_potential=[0.0]), ValueError, "initial_potential must have shape (2,), one potential a neuron; got shape (1,)"),
    (lambda: analog(n_times=1), ValueError, "n_times must be at least 2; got 1"),
    (lambda: analog(n_times=10.0), TypeError, "n_times must be an integer; got float"),
    (lambda: analog(relative_tolerance=0.0), ValueError, "relative_tolerance must be positive; got 0.0"),
    (lambda: analog(relative_tolerance=1e-20), ValueError, "relative_tolerance must lie in"),
    # -- spike trains and read-outs --
    (lambda: train(times=[2.0, 1.0]), ValueError, "times must not decrease and lie in [start, stop] = [0.0, 3.0]"),
    (lambda: train(times=[1.0, 4.0]), ValueError, "times must not decrease and lie in [start, stop] = [0.0, 3.0]"),
    (lambda: train(times=[1.0, NAN]), ValueError, "times must not decrease and lie in"),
    (lambda: train(neurons=[0, 2]), ValueError, "neurons must lie in [0, 2); got 0 to 2"),
    (lambda: train(neurons=[0]), ValueError, "times and neurons must be 1-D, of one length; got shapes (2,) and (1,)"),
    (lambda: train(stop=-1.0), ValueError, "stop must not be before start; got -1.0 and 0.0"),
    (lambda: train(n_neurons=0), ValueError, "n_neurons must be positive; got 0"),
    (lambda: rates.spike_rate(RESULT), TypeError, "spikes must be a SpikeTrain; got SimulationResult: pass run.spikes"),
    (lambda: rates.spike_rate(SPIKES, start=5.0, stop=5.0), ValueError, "start and stop must be an interval in [0.0, 10.0]; got 5.0 and 5.0"),
    (lambda: rates.spike_rate(SPIKES, stop=11.0), ValueError, "start and stop must be an interval in [0.0, 10.0]; got 0.0 and 11.0"),
    (lambda: rates.rate_curve(SPIKES, [0.0, 1.0]), ValueError, "times must not decrease and lie in (0.0, 10.0]; got 0.0 to 1.0"),
    (lambda: rates.rate_curve(SPIKES, [2.0, 1.0]), ValueError, "times must not decrease"),
    (lambda: rates.thresholded_average_current(SPIKES), TypeError, "result must be a SimulationResult; got SpikeTrain"),
    (lambda: rates.exponential_rate(SPIKES, time_constant=0.0), ValueError, "time_constant must be positive; got 0.0"),
    (lambda: traces.soma_current(NETWORK, SPIKES, [11.0]), ValueError, "times must not decrease and lie in [0.0, 10.0]; got 11.0 to 11.0"),
    (lambda: traces.membrane_potential(SQUARE, SPIKES, [1.0]), TypeError, "network must be a SpikingNetwork; got ndarray"),
    (lambda: traces.membrane_potential(NETWORK, train(n_neurons=3), [1.0]), ValueError, "spikes are of 3 neurons but the network has 2"),
    (lambda: traces.average_soma_current(NETWORK, SPIKES, [0.0]), ValueError, "times must lie after the start of the record, 0.0; got 0.0"),
    # -- plots --
    (lambda: rates_against_time(RESULT), TypeError, "spikes must be a SpikeTrain; got SimulationResult: pass run.spikes"),
    (lambda: rates_against_time(simulate(NETWORK, 1.0)), TypeError, "spikes must be a SpikeTrain; got SimulationResult: pass run.spikes, of a run with record_spikes=True"),
    (lambda: explain(NETWORK, RESULT, 1), TypeError, "spikes must be a SpikeTrain; got SimulationResult: pass run.spikes"),
    (lambda: SPIKES.plot(neurons=[2]), ValueError, "neurons must lie in [0, 2); got 2 to 2"),
    (lambda: SPIKES.plot(neurons=[0.5]), TypeError, "neurons must be a non-empty list of integers"),
    (lambda: potentials(NETWORK, SPIKES, neurons=[]), TypeError, "neurons must be a non-empty list of integers; got []"),
    (lambda: rates_against_time(SPIKES, limits=[1.0]), ValueError, "limits must have shape (2,), one limit a neuron; got shape (1,)"),
    (lambda: rates_against_time(SPIKES, n_times=0), ValueError, "n_times must be positive; got 0"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "sentence"), CASES, ids=[case[2][:60] for case in CASES])
def test_one_clear_sentence(call, error, sentence):
    with pytest.raises(error, match="^" + re.escape(sentence)):
        call()


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
    weights = -np.arange(9.0).reshape(3, 3) / 16.0  # exact in float32
    np.fill_diagonal(weights, 0.0)
    bias = np.array([1.0, 1.25, 0.5])
    expected = simulate(SpikingNetwork(weights, bias), 50.0)
    result = simulate(SpikingNetwork(convert(weights), convert(bias)), 50.0)
    np.testing.assert_array_equal(result.spike_counts, expected.spike_counts)
    np.testing.assert_array_equal(result.average_soma_current, expected.average_soma_current)


def test_memory_mapped_weights(tmp_path):
    weights = np.array([[0.0, -0.5], [-0.25, 0.0]])
    np.save(tmp_path / "weights.npy", weights)
    mapped = np.load(tmp_path / "weights.npy", mmap_mode="r")
    expected = simulate(SpikingNetwork(weights, [1.0, 1.0]), 50.0)
    result = simulate(SpikingNetwork(mapped, [1.0, 1.0]), 50.0)
    np.testing.assert_array_equal(result.spike_counts, expected.spike_counts)


def test_networks_and_results_cannot_be_written():
    arrays = [NETWORK.soma_bias, NETWORK.firing_threshold, REST.membrane_potential]
    arrays += [RESULT.spike_counts, RESULT.average_soma_current, SPIKES.times, SPIKES.neurons]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with contextlib.suppress(ValueError):  # a copy, or read-only
        NETWORK.weights.toarray()[0, 1] = 9.0
    assert NETWORK.weights.toarray()[0, 1] == -0.5
    with pytest.raises(AttributeError, match="cannot assign"):
        RESULT.duration = 1.0
    assert isinstance(RESULT, SimulationResult)


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("Axes", "an Axes"),
        ("EventData", "an EventData"),
        ("int", "an int"),
        ("ndarray", "an ndarray"),
        ("LSTMCell", "an LSTMCell"),
        ("UsageSteps", "a UsageSteps"),
        ("LassoProblem", "a LassoProblem"),
        ("str", "a str"),
        ("NetworkState", "a NetworkState"),
    ],
)
def test_articles_are_those_of_the_sound(noun, expected):
    assert checks.a_or_an(noun) == expected

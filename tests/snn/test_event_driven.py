"""`simulate`: closed forms for one neuron in every form of weights; synaptic operations counted by hand."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq

from snn import NetworkState, SpikingNetwork, simulate
from tests.reference.weight_forms import ANY_MATRIX, FORMS, NAMES, stored


def one_neuron(bias, threshold=1.0, name="dense"):
    """Neuron 0 of as few as the form can have; the others never fire."""
    n_neurons = FORMS[name].multiple
    drive = np.full(n_neurons, -1.0)
    drive[0] = bias
    return stored(name, np.zeros((n_neurons, n_neurons)), drive, threshold)


def state_of_one(current, name, potential=0.0):
    n_neurons = FORMS[name].multiple
    return NetworkState(
        membrane_potential=[potential] + (n_neurons - 1) * [0.0],
        synaptic_current=[current] + (n_neurons - 1) * [0.0],
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("bias", "threshold"), [(1.0, 1.0), (0.3, 1.7), (25.0, 0.1), (1e-3, 0.04)])
def test_constant_drive_fires_every_threshold_over_bias(bias, threshold, name):
    """t_k = k theta / beta."""
    period = threshold / bias
    run = simulate(one_neuron(bias, threshold, name), 40.5 * period, record_spikes=True)
    np.testing.assert_allclose(run.spikes.times, period * np.arange(1, 41), rtol=1e-14)
    assert run.state.membrane_potential[0] == pytest.approx(0.5 * threshold, rel=1e-12)
    assert run.average_soma_current[0] == pytest.approx(bias, rel=1e-13)
    assert run.spike_rate[0] == pytest.approx(40 / (40.5 * period))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("current", [-30.0, -2.0, -0.5, 0.5, 3.3, 40.0])
def test_spikes_with_an_initial_current(current, name):
    """beta t + h (1 - e^-t) = k theta, each k solved by an independent root finder."""
    bias, threshold = 0.7, 1.3
    run = simulate(
        one_neuron(bias, threshold, name), 30.0, state=state_of_one(current, name), record_spikes=True
    )

    def integral(t):
        return bias * t - current * math.expm1(-t)

    n_spikes = max(math.floor(integral(30.0) / threshold), 0)
    # Under inhibition the potential dips first: look for crossings from the bottom on.
    bottom = math.log(-current / bias) if -current > bias else 0.0
    expected = [
        brentq(lambda t, k=k: integral(t) - k * threshold, bottom, 30, xtol=1e-14)
        for k in range(1, n_spikes + 1)
    ]
    np.testing.assert_allclose(run.spikes.times, expected, rtol=1e-12, atol=1e-13)
    assert run.n_spikes == n_spikes


@pytest.mark.parametrize("name", NAMES)
def test_without_drive_a_current_fires_as_often_as_its_area_allows(name):
    """The area under h e^-t is h: floor(h / theta) spikes, at -log(1 - k theta / h)."""
    run = simulate(one_neuron(0.0, 1.0, name), 100.0, state=state_of_one(3.5, name), record_spikes=True)
    np.testing.assert_allclose(run.spikes.times, [-math.log1p(-k / 3.5) for k in (1, 2, 3)], rtol=1e-14)
    assert run.state.membrane_potential[0] == pytest.approx(0.5, abs=1e-14)
    # The threshold exactly is approached and never reached.
    assert simulate(one_neuron(0.0, 1.0, name), 1000.0, state=state_of_one(1.0 - 1e-12, name)).n_spikes == 0


@pytest.mark.parametrize("name", NAMES)
def test_negative_drive_peaks_just_below_or_just_above_threshold(name):
    bias, current = -0.2, 2.0
    peak_time = math.log(current / -bias)
    peak = bias * peak_time - current * math.expm1(-peak_time)
    below = simulate(
        one_neuron(bias, peak + 1e-9, name), 50.0, state=state_of_one(current, name), record_spikes=True
    )
    assert below.n_spikes == 0
    above = simulate(
        one_neuron(bias, peak - 1e-9, name), 50.0, state=state_of_one(current, name), record_spikes=True
    )
    # Below the maximum, v falls by |beta| (t - t*)^2 / 2 to second order.
    assert above.n_spikes == 1
    assert peak_time - above.spikes.times[0] == pytest.approx(math.sqrt(2e-9 / -bias), rel=1e-3)


@pytest.mark.parametrize("name", ANY_MATRIX)
def test_a_spike_reaches_its_target_and_decays(name):
    """Neuron 0 fires at 1; from then on neuron 1 has the current w e^-(t - 1)."""
    network = stored(name, [[0.0, 0.6], [0.0, 0.0]], [1.0, 0.0])
    run = simulate(network, 1.75)
    assert run.state.synaptic_current[1] == pytest.approx(0.6 * math.exp(-0.75), rel=1e-14)
    assert run.state.membrane_potential[1] == pytest.approx(-0.6 * math.expm1(-0.75), rel=1e-14)
    np.testing.assert_allclose(run.state.membrane_potential[0], 0.75, rtol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_a_spike_at_the_very_end_belongs_to_the_run(name):
    run = simulate(one_neuron(1.0, 1.0, name), 5.0, record_spikes=True)
    np.testing.assert_array_equal(run.spikes.times, [1, 2, 3, 4, 5])
    assert run.state.time == run.spikes.stop == 5.0
    assert simulate(one_neuron(1.0, 1.0, name), 0.5, state=run.state).n_spikes == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_state_on_the_verge_of_a_spike_can_be_continued(name):
    """Thirds and tenths add up to a threshold only nearly; whatever rounding does, the next run starts."""
    for bias in (0.1, 0.3, 0.7, 1 / 3, 0.9):
        network = one_neuron(bias, 1.0, name)
        state, n_spikes = None, 0
        for step in range(1, 301):
            run = simulate(network, 0.1, state=state)
            state = run.state
            n_spikes += run.n_spikes
            assert state.membrane_potential[0] <= 1.0
            assert abs(n_spikes - 0.1 * step * bias) < 1 + 1e-9


def test_new_drive_between_runs_keeps_the_state():
    """The first spike after the switch is where the closed form of the new drive says."""
    network = SpikingNetwork([[0.0]], [0.5])
    first = simulate(network, 1.0)  # v = 0.5
    second = simulate(network.with_soma_bias([2.0]), 1.0, state=first.state, record_spikes=True)
    np.testing.assert_allclose(second.spikes.times, [1.25, 1.75], rtol=1e-15)
    assert network.soma_bias[0] == 0.5
    assert network.with_soma_bias([2.0]).weights is network.weights


@pytest.mark.parametrize("name", ANY_MATRIX)
def test_synaptic_operations_count_deliveries(name):
    weights = [[0, 1e-3, 1e-3], [0, 0, -1e-3], [0, 0, 0]]
    run = simulate(stored(name, weights, [1.0, 0.51, 0.26]), 10.5)
    assert run.operations.synaptic_operations == 2 * run.spike_counts[0] + run.spike_counts[1]


def test_sparse_weights_keep_every_index_type_and_duplicate():
    weights = sparse.coo_array(([-0.1, -0.2, 0.3, 0.0], ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    dense = [[0.0, -0.1 + -0.2], [0.3, 0.0]]
    expected = simulate(SpikingNetwork(dense, [1.0, 0.7]), 20.0, record_spikes=True)
    for matrix in (weights, weights.tocsc(), sparse.csr_matrix(weights.toarray()), weights.tolil()):
        network = SpikingNetwork(matrix, [1.0, 0.7])
        np.testing.assert_allclose(network.weights.toarray(), dense)
        run = simulate(network, 20.0, record_spikes=True)
        np.testing.assert_array_equal(run.spikes.neurons, expected.spikes.neurons)
        np.testing.assert_allclose(run.spikes.times, expected.spikes.times, rtol=0, atol=1e-9)

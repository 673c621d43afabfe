"""The clocked simulator: its rules one by one, its charge balance, and what it approaches."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from snn import NetworkState, SpikingNetwork, simulate, simulate_clocked
from tests.reference.networks import (
    classo_network,
    dense_weights,
    random_dictionary,
    random_network,
    random_sign_pair_network,
)
from tests.reference.weight_forms import in_form

RESETS = ("zero", "subtract")


def step_by_step(network, n_steps, time_step, reset, state):
    """The three rules of the docstring, in NumPy."""
    weights = dense_weights(network)
    v, h = state.membrane_potential.copy(), state.synaptic_current.copy()
    times, neurons = [], []
    for step in range(n_steps):
        v += time_step * (network.soma_bias + h)
        fired = np.flatnonzero(v >= network.firing_threshold)
        v[fired] = 0.0 if reset == "zero" else v[fired] - network.firing_threshold[fired]
        h = np.exp(-time_step) * h + weights[fired].sum(axis=0)
        times += [(step + 1) * time_step] * len(fired)
        neurons += list(fired)
    return np.array(times), np.array(neurons), v, h


@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize("form", ["dense", "sparse", "sign pairs"])
def test_equals_the_rules_written_out(form, reset):
    rng = np.random.default_rng(5)
    if form == "sign pairs":
        network = random_sign_pair_network(rng, 12)
    else:
        network = in_form(random_network(rng, 24, density=0.5), form)
    state = NetworkState(
        membrane_potential=rng.uniform(-1.0, 0.9, 24), synaptic_current=rng.uniform(-1.0, 1.0, 24), time=3.0
    )
    result = simulate_clocked(network, 50.0, time_step=1 / 16, reset=reset, state=state, record_spikes=True)
    times, neurons, v, h = step_by_step(network, 800, 1 / 16, reset, state)
    assert len(times) > 50
    np.testing.assert_array_equal(result.spikes.neurons, neurons)
    np.testing.assert_array_equal(result.spikes.times, 3.0 + times)  # multiples of 1/16 are exact
    np.testing.assert_allclose(result.state.membrane_potential, v, rtol=0, atol=1e-11)
    np.testing.assert_allclose(result.state.synaptic_current, h, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(result.spike_counts, np.bincount(neurons, minlength=24))
    assert result.state.time == 53.0


@pytest.mark.parametrize("form", ["dense", "sparse", "blocks"])
def test_charge_balance_holds_when_the_threshold_is_subtracted(form):
    """Equation 4: exact with subtraction, short of the accumulated overshoot with reset to zero."""
    network = in_form(random_network(np.random.default_rng(6), 30), form)
    threshold = network.firing_threshold
    subtracted = simulate_clocked(network, 500.0, time_step=0.1, reset="subtract")
    balance = 500.0 * subtracted.average_soma_current - threshold * subtracted.spike_counts
    np.testing.assert_allclose(balance, subtracted.state.membrane_potential, rtol=0, atol=1e-9)

    zero = simulate_clocked(network, 500.0, time_step=0.1, reset="zero")
    lost = 500.0 * zero.average_soma_current - threshold * zero.spike_counts - zero.state.membrane_potential
    assert (lost >= -1e-9).all()
    # On average half a step's rise is lost at each spike of a neuron that is driven all the time.
    often = zero.spike_counts > 100
    assert often.any()
    assert (lost[often] > 0.01 * zero.spike_counts[often] * 0.1).all()


@pytest.mark.parametrize("reset", RESETS)
def test_two_runs_in_a_row_are_one_run(reset):
    network = random_network(np.random.default_rng(7), 20)
    whole = simulate_clocked(network, 40.0, time_step=0.125, reset=reset, record_spikes=True)
    first = simulate_clocked(network, 15.0, time_step=0.125, reset=reset)
    second = simulate_clocked(
        network, 25.0, time_step=0.125, reset=reset, state=first.state, record_spikes=True
    )
    np.testing.assert_array_equal(first.spike_counts + second.spike_counts, whole.spike_counts)
    np.testing.assert_array_equal(second.state.membrane_potential, whole.state.membrane_potential)


@pytest.mark.parametrize("reset", RESETS)
def test_approaches_the_exact_run_as_the_step_shrinks(reset):
    """Until two close spikes swap, spike times differ by a bounded number of steps."""
    network = random_network(np.random.default_rng(8), 10)
    exact = simulate(network, 12.0, record_spikes=True)
    errors = []
    for time_step in (1 / 256, 1 / 1024, 1 / 4096):
        clocked = simulate_clocked(network, 12.0, time_step=time_step, reset=reset, record_spikes=True)
        np.testing.assert_array_equal(clocked.spike_counts, exact.spike_counts)
        per_neuron = [np.abs(clocked.spikes.of(i) - exact.spikes.of(i)) for i in range(10)]
        errors.append(max(differences.max(initial=0.0) for differences in per_neuron))
    # The order is one: a quarter of the step, about a quarter of the error.
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 0.5 * errors[1]
    assert errors[2] < 20.0 / 4096


def test_at_most_one_spike_a_step():
    network = SpikingNetwork(np.zeros((1, 1)), [10.0], 1.0)
    assert simulate_clocked(network, 20.0, time_step=0.5, reset="zero").n_spikes == 40
    assert simulate_clocked(network, 20.0, time_step=0.5, reset="subtract").n_spikes == 40


@pytest.fixture(scope="module")
def four_hundred_atoms():
    """N = 400 atoms with 64 features, as in Figure 2 of Tang, Lin and Davies (2017), and E of a code."""
    rng = np.random.default_rng(9)
    dictionary = random_dictionary(rng, 400, 64)
    code = np.zeros(400)
    code[rng.choice(400, 8, replace=False)] = rng.uniform(0.5, 1.5, 8)
    signal = code @ dictionary
    lasso = Lasso(alpha=0.1 / 64, fit_intercept=False, positive=True, tol=1e-12, max_iter=1_000_000)
    optimum = lasso.fit(dictionary.T, signal).coef_

    def objective(code):
        return 0.5 * np.sum((signal - code @ dictionary) ** 2) + 0.1 * code.sum()

    network = classo_network(dictionary, signal, 0.1)
    return network, lambda code: objective(code) / objective(optimum) - 1.0


def test_floors_of_figure_2(four_hundred_atoms):
    """Reset to zero: (E - E*) / E* stops near 8e-3 for steps of 0.1, and at 2e-4 for 0.01, at t = 1000.

    Within a factor of three: the floor depends on the signal.
    """
    network, relative_error = four_hundred_atoms
    exact = relative_error(simulate(network, 1000.0).spike_rate)
    coarse = relative_error(simulate_clocked(network, 1000.0, time_step=0.1).spike_rate)
    fine = relative_error(simulate_clocked(network, 1000.0, time_step=0.01).spike_rate)
    assert 8e-3 / 3 < coarse < 8e-3 * 3
    assert 2e-4 / 3 < fine < 2e-4 * 3
    assert exact < fine
    # Subtracting the threshold keeps the charge, and most of the floor away.
    subtracted = simulate_clocked(network, 1000.0, time_step=0.1, reset="subtract").spike_rate
    assert relative_error(subtracted) < coarse / 2


def test_average_current_is_that_of_the_steps():
    """Equation 5 on a clock: with q = e^-dt, sum of h over the steps is what arrived / (1 - q)."""
    network = random_network(np.random.default_rng(10), 20)
    step, duration = 0.125, 200.0
    result = simulate_clocked(network, duration, time_step=step)
    arrived = network.weights.transpose_product(result.spike_counts.astype(float))
    charge = step * (arrived - result.state.synaptic_current) / -np.expm1(-step)
    expected = network.soma_bias + charge / duration
    np.testing.assert_allclose(result.average_soma_current, expected, rtol=0, atol=1e-11)

"""The clocked simulator: its rules one by one, its charge balance, and what it approaches."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from snn import NetworkState, SpikingNetwork, simulate, simulate_clocked
from tests.reference.clock import simulate_slowly
from tests.reference.networks import classo_network, dense_weights, random_dictionary, random_network
from tests.reference.weight_forms import NAMES, random_matrix, stored

RESETS = ("zero", "subtract")


INTEGRATIONS = ("exact", "euler")


@pytest.mark.parametrize("time_step", [1 / 16, 1 / 2])
@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize("integration", INTEGRATIONS)
@pytest.mark.parametrize("form", NAMES)
def test_equals_the_slow_twin(form, integration, reset, time_step):
    """Also where drives are so strong that neurons fire several times in a step."""
    rng = np.random.default_rng(5)
    weights = random_matrix(form, rng, 24, density=0.5)
    n_neurons = len(weights)
    network = stored(form, weights, rng.uniform(-1.0, 6.0, n_neurons), rng.uniform(1.0, 2.0, n_neurons))
    state = NetworkState(
        membrane_potential=network.firing_threshold * rng.uniform(-1.0, 1.0, n_neurons),
        synaptic_current=rng.uniform(-1.0, 1.0, n_neurons),
        time=3.0,
    )
    n_steps = 160
    duration = n_steps * time_step
    result = simulate_clocked(
        network,
        duration,
        time_step=time_step,
        integration=integration,
        reset=reset,
        state=state,
        record_spikes=True,
    )
    slow = simulate_slowly(
        weights,
        network.soma_bias,
        network.firing_threshold,
        n_steps,
        time_step,
        integration=integration,
        reset=reset,
        membrane_potential=state.membrane_potential,
        synaptic_current=state.synaptic_current,
    )
    assert len(slow.steps) > 50
    np.testing.assert_array_equal(result.spikes.neurons, slow.neurons)
    np.testing.assert_array_equal(result.spikes.times, 3.0 + slow.steps * time_step)  # no digit is lost
    np.testing.assert_allclose(result.state.membrane_potential, slow.membrane_potential, rtol=0, atol=1e-11)
    np.testing.assert_allclose(result.state.synaptic_current, slow.synaptic_current, rtol=0, atol=1e-11)
    np.testing.assert_allclose(result.average_soma_current * duration, slow.charge, rtol=1e-12, atol=1e-11)
    np.testing.assert_array_equal(result.spike_counts, np.bincount(slow.neurons, minlength=n_neurons))
    assert result.state.time == 3.0 + duration
    several = np.unique(np.column_stack([slow.steps, slow.neurons]), axis=0, return_counts=True)[1].max() > 1
    assert several == (reset == "subtract" and time_step == 1 / 2)


@pytest.mark.filterwarnings("ignore:time_step is 3:UserWarning")
@pytest.mark.parametrize("time_step", [0.01, 0.25, 3.0])
@pytest.mark.parametrize("form", NAMES)
def test_identities_hold_on_the_grid(form, time_step):
    """(4) and (5) of docs/theory.md at the end of any step, with currents and potentials from before.

    Numbers of order n, the steps, are added: their rounding is far below 1e-9.
    """
    rng = np.random.default_rng(6)
    weights = random_matrix(form, rng, 30)
    n_neurons = len(weights)
    bias, threshold = rng.uniform(-0.5, 4.0, n_neurons), rng.uniform(1.0, 2.0, n_neurons)
    network = stored(form, weights, bias, threshold)
    state = NetworkState(
        membrane_potential=threshold * rng.uniform(-1.0, 1.0, n_neurons),
        synaptic_current=rng.normal(size=n_neurons),
    )
    counts, charge = np.zeros(n_neurons), np.zeros(n_neurons)
    now, time = state, 0.0
    for n_steps in (1, 7, 400):
        result = simulate_clocked(network, n_steps * time_step, time_step=time_step, state=now)
        counts += result.spike_counts
        charge += result.duration * result.average_soma_current
        now, time = result.state, time + result.duration
        assert (now.membrane_potential < threshold).all()
        np.testing.assert_allclose(
            charge - threshold * counts, now.membrane_potential - state.membrane_potential, rtol=0, atol=1e-9
        )
        np.testing.assert_allclose(
            charge - bias * time - weights.T @ counts,
            state.synaptic_current - now.synaptic_current,
            rtol=0,
            atol=1e-9,
        )
    assert counts.min() >= 0.0
    assert counts.sum() > 100.0


@pytest.mark.parametrize("reset", RESETS)
def test_euler_is_an_exact_clock_of_larger_weights(reset):
    """Equation 16a: the charge of a spike is too large by one factor, and nothing else differs."""
    time_step = 0.1
    factor = time_step / -np.expm1(-time_step)
    network = random_network(np.random.default_rng(4), 30)
    larger = SpikingNetwork(factor * dense_weights(network), network.soma_bias, network.firing_threshold)
    euler, exact = (
        simulate_clocked(
            of, 60.0, time_step=time_step, integration=integration, reset=reset, record_spikes=True
        )
        for of, integration in ((network, "euler"), (larger, "exact"))
    )
    assert euler.n_spikes > 200
    np.testing.assert_array_equal(euler.spikes.neurons, exact.spikes.neurons)
    np.testing.assert_array_equal(euler.spikes.times, exact.spikes.times)
    np.testing.assert_allclose(euler.average_soma_current, exact.average_soma_current, rtol=0, atol=1e-11)


def test_a_single_neuron_by_hand():
    """In a step of log 2 half of a current arrives: 3/2, 3/4, 3/8, ... from a current of 3."""
    step = np.log(2.0)
    network = SpikingNetwork([[0.0]], [0.0], 1.0)
    state = NetworkState(membrane_potential=np.array([0.75]), synaptic_current=np.array([3.0]))
    run = simulate_clocked(network, 3 * step, time_step=step, state=state, record_spikes=True)
    # 0.75 + 1.5 = 2.25: two spikes; 0.25 + 0.75: one, exactly at the threshold; then 0.375.
    np.testing.assert_allclose(run.spikes.times, [step, step, 2 * step], rtol=1e-15)
    np.testing.assert_allclose(run.state.membrane_potential, [0.375], atol=1e-14)
    np.testing.assert_allclose(run.state.synaptic_current, [0.375], atol=1e-14)


@pytest.mark.parametrize("integration", INTEGRATIONS)
def test_reset_to_zero_loses_the_overshoot(integration):
    network = random_network(np.random.default_rng(6), 30)
    threshold = network.firing_threshold
    zero = simulate_clocked(network, 500.0, time_step=0.1, integration=integration, reset="zero")
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
@pytest.mark.parametrize("integration", INTEGRATIONS)
def test_approaches_the_exact_run_as_the_step_shrinks(integration, reset):
    """Until two close spikes swap, spike times differ by a bounded number of steps."""
    network = random_network(np.random.default_rng(8), 10)
    exact = simulate(network, 12.0, record_spikes=True)
    errors = []
    for time_step in (1 / 256, 1 / 1024, 1 / 4096):
        clocked = simulate_clocked(
            network, 12.0, time_step=time_step, integration=integration, reset=reset, record_spikes=True
        )
        np.testing.assert_array_equal(clocked.spike_counts, exact.spike_counts)
        per_neuron = [np.abs(clocked.spikes.of(i) - exact.spikes.of(i)) for i in range(10)]
        errors.append(max(differences.max(initial=0.0) for differences in per_neuron))
    # The order is one: a quarter of the step, about a quarter of the error.
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 0.5 * errors[1]
    assert errors[2] < 20.0 / 4096


@pytest.mark.parametrize("integration", INTEGRATIONS)
def test_as_many_spikes_in_a_step_as_there_is_charge_for(integration):
    """Five thresholds a step; reset to zero fires once, and forgets the rest."""
    network = SpikingNetwork(np.zeros((1, 1)), [10.0], 1.0)
    options = {"time_step": 0.5, "integration": integration, "record_spikes": True}
    kept = simulate_clocked(network, 20.0, reset="subtract", **options)
    np.testing.assert_array_equal(kept.spikes.times, np.repeat(0.5 * np.arange(1, 41), 5))
    assert kept.n_spikes == 200
    assert simulate_clocked(network, 20.0, reset="zero", **options).n_spikes == 40


def test_spikes_of_a_step_are_bounded_and_charge_is_not_lost():
    """At most 1,024 of a neuron in one step; the others follow, or the step is said to be too long."""
    weights = [[0.0, 6000.0], [0.0, 0.0]]
    once = NetworkState(membrane_potential=np.array([1.0, 0.0]), synaptic_current=np.zeros(2))
    network = SpikingNetwork(weights, [0.0, 0.0], [1.0, 1.0])
    run = simulate_clocked(network, 50.0, time_step=0.25, state=once, record_spikes=True)
    np.testing.assert_array_equal(run.spikes.counts(stop=0.5), [1, 1024])
    # 6,000 of charge arrive, but for what is still on its way at the end; the last threshold is not reached.
    np.testing.assert_array_equal(run.spike_counts, [1, 5999])

    busy = SpikingNetwork(np.zeros((2, 2)), [1.0, 6000.0], 1.0)
    with pytest.raises(ValueError, match=r"more than 1,024 times in a step; .* too long for neuron 1"):
        simulate_clocked(busy, 1.0, time_step=0.25)


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

    def on_a_clock(time_step, **options):
        return relative_error(simulate_clocked(network, 1000.0, time_step=time_step, **options).spike_rate)

    papers = {"integration": "euler", "reset": "zero"}
    coarse, fine = on_a_clock(0.1, **papers), on_a_clock(0.01, **papers)
    assert 8e-3 / 3 < coarse < 8e-3 * 3
    assert 2e-4 / 3 < fine < 2e-4 * 3
    assert exact < fine
    # Subtracting the threshold removes one error, and exact integration the other: then the coarse clock has
    # no floor, and at this time is as good as the exact run.
    assert on_a_clock(0.1, integration="euler", reset="subtract") < coarse / 2
    assert on_a_clock(0.1) < 2.0 * exact


def test_average_current_of_euler_is_that_of_the_steps():
    """Equation 5 on a clock: with q = e^-dt, sum of h over the steps is what arrived / (1 - q)."""
    network = random_network(np.random.default_rng(10), 20)
    step, duration = 0.125, 200.0
    result = simulate_clocked(network, duration, time_step=step, integration="euler")
    arrived = network.weights.transpose_product(result.spike_counts.astype(float))
    charge = step * (arrived - result.state.synaptic_current) / -np.expm1(-step)
    expected = network.soma_bias + charge / duration
    np.testing.assert_allclose(result.average_soma_current, expected, rtol=0, atol=1e-11)

"""The judge of the fuzzer of networks: its arithmetic, what it accepts, and that it sees what is wrong."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from snn import NetworkState, SpikeTrain, SpikingNetwork, simulate
from tests.reference import double_double
from tests.reference.exact_spikes import judge
from tests.reference.precise_simulator import simulate_precisely
from tests.reference.simulator import simulate_slowly
from tests.reference.weight_forms import random_matrix, random_state, stored

pytestmark = pytest.mark.thorough


def exactly(number):
    return mpmath.mpf(number[0]) + mpmath.mpf(number[1])


def test_arithmetic_has_106_bits():
    rng = np.random.default_rng(0)
    with mpmath.workdps(50):
        for _ in range(300):
            a, b = (
                double_double.pair(mpmath.mpf(x) * (1 + mpmath.mpf(y) * mpmath.mpf(2) ** -60))
                for x, y in rng.standard_normal((2, 2)) * 10.0 ** rng.uniform(-20.0, 20.0, (2, 1))
            )
            x, y = exactly(a), exactly(b)
            assert abs(exactly(double_double.add(a, b)) - (x + y)) < 1e-31 * (abs(x) + abs(y))
            assert abs(exactly(double_double.multiply(a, b)) / (x * y) - 1) < 1e-31
            assert abs(exactly(double_double.divide(a, b)) / (x / y) - 1) < 1e-31
            time = double_double.pair(mpmath.mpf(10) ** rng.uniform(-30.0, 2.7) / 3)
            fade, rise = (exactly(x) for x in double_double.decay(time))
            assert abs(fade / mpmath.exp(-exactly(time)) - 1) < 1e-29
            assert abs(rise / -mpmath.expm1(-exactly(time)) - 1) < 1e-30


def a_run(seed=3, about=8, duration=25.0):
    rng = np.random.default_rng(seed)
    weights = random_matrix("dense", rng, about, sign=-1 if seed % 2 else 0)
    network = stored("dense", weights, rng.uniform(0.1, 1.5, about), rng.uniform(1.0, 2.0, about))
    state = random_state(rng, network) if seed % 3 else None
    run = simulate(network, duration, state=state, record_spikes=True)
    assert run.n_spikes > 10
    return weights, run, state


@pytest.mark.parametrize("seed", range(8))
def test_the_free_simulator_has_the_spikes_of_the_twin(seed):
    weights, run, state = a_run(seed, about=5)
    network = run.network
    slow = simulate_slowly(weights, network.soma_bias, network.firing_threshold, 12.0, state=state)
    free = simulate_precisely(weights, network.soma_bias, network.firing_threshold, 12.0, state=state)
    np.testing.assert_array_equal(free.neurons, slow.neurons)
    np.testing.assert_allclose(free.times, slow.times, rtol=2.0**-52, atol=0)


@pytest.mark.parametrize("seed", range(8))
def test_runs_are_judged_right(seed):
    weights, run, state = a_run(seed)
    verdict = judge(run, weights, state=state)
    assert verdict.fault == ""
    assert verdict.errors.sum() == run.n_spikes - (verdict.n_ties > 0)
    assert verdict.worst_error < 1000.0


def changed(run, times, neurons):
    spikes = run.spikes
    order = np.argsort(times, kind="stable")
    return replace(
        run,
        spikes=SpikeTrain(
            times=np.clip(times[order], spikes.start, spikes.stop),
            neurons=neurons[order],
            n_neurons=spikes.n_neurons,
            start=spikes.start,
            stop=spikes.stop,
        ),
    )


def delayed(times, neurons, k):
    times[k] += 1e-11
    return times, neurons


def hastened(times, neurons, k):
    times[k] -= 3e-11  # within some 1e-11 it might be a tie with the end of a window
    return times, neurons


def dropped(times, neurons, k):
    return np.delete(times, k), np.delete(neurons, k)


def doubled(times, neurons, k):
    return np.insert(times, k, times[k]), np.insert(neurons, k, (neurons[k] + 1) % 8)


def of_another(times, neurons, k):
    neurons[k] = (neurons[k] + 1) % 8
    return times, neurons


@pytest.mark.parametrize("change", [delayed, hastened, dropped, doubled, of_another])
@pytest.mark.parametrize("place", [0, 7, -1])
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_wrong_spike_is_seen(seed, place, change):
    """Also one that is only some 1e-11 from where it should be."""
    weights, run, state = a_run(seed)
    times, neurons = change(run.spikes.times.copy(), run.spikes.neurons.copy(), place % run.n_spikes)
    assert judge(changed(run, times, neurons), weights, state=state).fault


def test_a_wrong_end_is_seen():
    weights, run, state = a_run()
    for name in ("membrane_potential", "synaptic_current"):
        values = getattr(run.state, name) * (1.0 - 1e-12)
        wrong = replace(run, state=replace(run.state, **{name: values}))
        assert "ended with another" in judge(wrong, weights, state=state).fault
    wrong = replace(run, average_soma_current=run.average_soma_current * (1.0 + 1e-12))
    assert "charge" in judge(wrong, weights, state=state).fault


def test_a_tie_that_is_split_is_seen():
    """Two equal neurons that inhibit each other fire in one instant; one alone would silence the other."""
    weights = np.array([[0.0, -5.0], [-5.0, 0.0]])
    network = stored("dense", weights, [1.0, 1.0])
    run = simulate(network, 1.5, record_spikes=True)
    assert judge(run, weights).fault == ""
    assert judge(run, weights).n_ties == 1
    alone = stored("dense", np.array([[0.0, -5.0], [0.0, 0.0]]), [1.0, 1.0 - 1e-9])
    split = replace(simulate(alone, 1.5, record_spikes=True), network=network)
    assert split.n_spikes == 1
    assert "in the instant" in judge(split, weights).fault


def test_a_neuron_at_its_threshold_that_does_not_fire_is_seen():
    weights = np.zeros((1, 1))
    network = stored("dense", weights, [-1.0])
    silent = simulate(network, 1.0, record_spikes=True)
    at_it = replace(silent.state, membrane_potential=[1.0], time=0.0)
    assert "at once" in judge(silent, weights, state=at_it).fault
    assert judge(simulate(network, 1.0, state=at_it, record_spikes=True), weights, state=at_it).fault == ""


def test_a_spike_may_be_caused_by_another_of_the_same_recorded_time():
    """Neuron 1 stays below its threshold for ever, by 4e-13, but for the spike of neuron 0."""
    threshold = np.array([1.565014841556045, 1.4797769535701462])
    weights = np.array([[0.0, 0.3], [0.0, 0.0]])
    state = NetworkState(
        membrane_potential=np.zeros(2), synaptic_current=threshold * [1.0, 1.0 - 4.47e-13], time=0.0
    )
    run = simulate(SpikingNetwork(weights, [0.0, 0.0], threshold), 60.0, state=state, record_spikes=True)
    assert run.spikes.neurons.tolist() == [0, 1]
    assert judge(run, weights, state=state).fault == ""
    # As a run that ends with the first of them has it: what crosses up to rounding at its end is in it.
    spikes = replace(run.spikes, times=run.spikes.times[[0, 0]])
    assert judge(replace(run, spikes=spikes), weights, state=state).fault == ""
    # Without the spike of neuron 0 there is no reason for it.
    alone = np.zeros((2, 2))
    assert "below its threshold" in judge(replace(run, spikes=spikes), alone, state=state).fault

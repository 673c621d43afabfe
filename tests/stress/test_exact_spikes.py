"""The judge of spikes: its arithmetic, runs that it accepts, and faults that it finds."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from snn import NetworkState, SpikeTrain, SpikingNetwork, simulate
from tests.reference import exact_spikes
from tests.reference.exact_spikes import judge
from tests.reference.networks import case


def exactly(number):
    return mpmath.mpf(number[0]) + mpmath.mpf(number[1])


def test_arithmetic_has_106_bits():
    rng = np.random.default_rng(0)
    with mpmath.workdps(50):
        for _ in range(100):
            a, b = (
                exact_spikes.pair(mpmath.mpf(x) * (1 + mpmath.mpf(y) * mpmath.mpf(2) ** -60))
                for x, y in rng.standard_normal((2, 2)) * 10.0 ** rng.uniform(-20.0, 20.0, (2, 1))
            )
            x, y = exactly(a), exactly(b)
            assert abs(exactly(exact_spikes.add(a, b)) - (x + y)) < 1e-31 * (abs(x) + abs(y))
            assert abs(exactly(exact_spikes.multiply(a, b)) / (x * y) - 1) < 1e-31
            time = exact_spikes.pair(mpmath.mpf(10) ** rng.uniform(-30.0, 2.7) / 3)
            fade, rise = (exactly(x) for x in exact_spikes.decay(time))
            assert abs(fade / mpmath.exp(-exactly(time)) - 1) < 1e-29
            assert abs(rise / -mpmath.expm1(-exactly(time)) - 1) < 1e-30


def a_run(seed):
    this = case("dense", "weak inhibition" if seed % 2 else "mixed weights", 8, seed)
    run = simulate(this.network(), 25.0, state=this.state, record_spikes=True)
    assert run.n_spikes > 10
    verdict = judge(run, this.weights, state=this.state)
    assert verdict.fault == ""
    assert verdict.errors.sum() >= run.n_spikes - verdict.n_ties - 1
    assert verdict.worst_error < 1000.0
    return this, run


def delayed(times, neurons, k):
    times[k] += 1e-11
    return times, neurons


def hastened(times, neurons, k):
    times[k] -= 3e-11  # a shift below 1e-11 might be a tie with the end of a window
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
    """The smallest fault is a spike that is about 1e-11 away from its right time."""
    this, run = a_run(seed)
    spikes = run.spikes
    times, neurons = change(spikes.times.copy(), spikes.neurons.copy(), place % run.n_spikes)
    order = np.argsort(times, kind="stable")
    wrong = SpikeTrain(
        times=np.clip(times[order], spikes.start, spikes.stop),
        neurons=neurons[order], n_neurons=8, start=spikes.start, stop=spikes.stop,
    )  # fmt: skip
    assert judge(replace(run, spikes=wrong), this.weights, state=this.state).fault


@pytest.mark.parametrize("seed", range(2))
def test_a_wrong_end_is_seen(seed):
    this, run = a_run(seed)
    for name in ("membrane_potential", "synaptic_current"):
        values = getattr(run.state, name) * (1.0 - 1e-12)
        wrong = replace(run, state=replace(run.state, **{name: values}))
        assert "ended with another" in judge(wrong, this.weights, state=this.state).fault
    wrong = replace(run, average_soma_current=run.average_soma_current * (1.0 + 1e-12))
    assert "charge" in judge(wrong, this.weights, state=this.state).fault


def test_a_tie_that_is_split_is_seen():
    """Two equal neurons fire at the same time; a neuron that fired first would silence the other neuron."""
    weights = np.array([[0.0, -5.0], [-5.0, 0.0]])
    network = SpikingNetwork(weights, [1.0, 1.0])
    run = simulate(network, 1.5, record_spikes=True)
    assert judge(run, weights).fault == ""
    assert judge(run, weights).n_ties == 1
    alone = SpikingNetwork(np.array([[0.0, -5.0], [0.0, 0.0]]), [1.0, 1.0 - 1e-9])
    split = replace(simulate(alone, 1.5, record_spikes=True), network=network)
    assert split.n_spikes == 1
    assert "in the instant" in judge(split, weights).fault


def test_a_neuron_at_its_threshold_that_does_not_fire_is_seen():
    weights = np.zeros((1, 1))
    network = SpikingNetwork(weights, [-1.0])
    silent = simulate(network, 1.0, record_spikes=True)
    at_it = replace(silent.state, membrane_potential=[1.0], time=0.0)
    assert "at once" in judge(silent, weights, state=at_it).fault
    assert judge(simulate(network, 1.0, state=at_it, record_spikes=True), weights, state=at_it).fault == ""


def test_a_spike_may_be_caused_by_another_of_the_same_recorded_time():
    """Without the spike of neuron 0, the potential of neuron 1 stays 4e-13 below its threshold forever."""
    threshold, weights = np.array([1.565014841556045, 1.4797769535701462]), np.array([[0.0, 0.3], [0.0, 0.0]])
    state = NetworkState(membrane_potential=[0.0, 0.0], synaptic_current=threshold * [1.0, 1.0 - 4.47e-13])
    run = simulate(SpikingNetwork(weights, [0.0, 0.0], threshold), 60.0, state=state, record_spikes=True)
    assert run.spikes.neurons.tolist() == [0, 1]
    assert judge(run, weights, state=state).fault == ""
    # A run that ends at the first spike also has the other spike, whose time differs only by rounding.
    spikes = replace(run.spikes, times=run.spikes.times[[0, 0]])
    assert judge(replace(run, spikes=spikes), weights, state=state).fault == ""
    # Without the spike of neuron 0, nothing causes the spike of neuron 1.
    assert "below its threshold" in judge(replace(run, spikes=spikes), 0.0 * weights, state=state).fault

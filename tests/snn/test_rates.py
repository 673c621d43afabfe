"""Read-outs of spike trains, each against a computation by hand."""

import math

import numpy as np
import pytest

from snn import Simulator, SpikeTrain, simulate
from snn.record import rates
from tests.reference.networks import classo_network, random_dictionary, random_network


@pytest.fixture
def spikes():
    return SpikeTrain(times=[1, 2, 2, 3, 5, 8], neurons=[0, 1, 0, 0, 2, 0], n_neurons=4, start=1.0, stop=9.0)


def test_spike_rate(spikes):
    np.testing.assert_array_equal(rates.spike_rate(spikes), np.array([4, 1, 1, 0]) / 8)
    # Windows are open at the left and closed at the right; a spike at the very start of the record counts.
    np.testing.assert_array_equal(rates.spike_rate(spikes, start=2.0, stop=8.0), np.array([2, 0, 1, 0]) / 6)
    np.testing.assert_array_equal(rates.spike_rate(spikes, stop=2.0), [2, 1, 0, 0])


def test_smooth_rate(spikes):
    """By hand: the window over the record, and over a part of it."""

    def window(times, start, stop):
        share = (np.array(times) - start) / (stop - start)
        return (30.0 * share**2 * (1.0 - share) ** 2).sum() / (stop - start)

    expected = [window(times, 1.0, 9.0) for times in ([1, 2, 3, 8], [2], [5], [])]
    np.testing.assert_allclose(rates.smooth_rate(spikes), expected, rtol=1e-13)
    expected = [window(times, 2.0, 8.0) for times in ([3, 8], [], [5], [])]
    np.testing.assert_allclose(rates.smooth_rate(spikes, start=2.0, stop=8.0), expected, rtol=1e-13)


def test_smooth_rate_of_a_run_is_that_of_its_spikes():
    network = random_network(np.random.default_rng(1), 12)
    run = simulate(network, 50.0, record_spikes=True)
    np.testing.assert_allclose(run.smooth_rate, rates.smooth_rate(run.spikes), rtol=1e-12, atol=1e-15)
    simulator = Simulator(network)
    simulator.advance(20.0)
    later = simulator.advance(50.0)
    np.testing.assert_allclose(later.smooth_rate, rates.smooth_rate(later.spikes), rtol=1e-12, atol=1e-15)
    continued = simulate(network, 30.0, state=simulate(network, 20.0).state)
    np.testing.assert_allclose(continued.smooth_rate, later.smooth_rate, rtol=1e-9, atol=1e-12)


def test_smooth_rates_of_a_steady_neuron_are_right_at_once():
    """Ten spikes: the window is 0 at its edges, and so is its slope, so the sum is nearly the integral."""
    train = SpikeTrain(times=np.arange(0.3, 10), neurons=np.zeros(10, int), n_neurons=1, start=0, stop=10)
    assert rates.smooth_rate(train)[0] == pytest.approx(1.0, abs=2e-4)
    assert rates.spike_rate(train, stop=9.9)[0] == pytest.approx(1.0, abs=2e-2)


def test_errors_of_moments():
    with pytest.raises(ValueError, match=r"moments must have shape \(..., n_neurons, 3\); got shape \(3,\)"):
        rates.smooth_rate_of_moments(np.zeros(3), 1.0)
    with pytest.raises(ValueError, match="duration must be positive and at most 1e\\+75; got 0"):
        rates.smooth_rate_of_moments(np.zeros((2, 3)), 0.0)
    with pytest.raises(ValueError, match=r"duration must be a number, or one for each run of moments"):
        rates.smooth_rate_of_moments(np.zeros((4, 2, 3)), np.ones(3))


def test_rate_curve(spikes):
    times = np.array([2.0, 2.5, 9.0])
    expected = np.array([[2, 1, 0, 0], [2, 1, 0, 0], [4, 1, 1, 0]]) / (times - 1)[:, None]
    np.testing.assert_allclose(rates.rate_curve(spikes, times), expected, rtol=1e-15)
    later = rates.rate_curve(spikes, times[1:], start=2.0)
    np.testing.assert_allclose(later, [[0, 0, 0, 0], [2 / 7, 0, 1 / 7, 0]], rtol=1e-15)


def test_rate_curve_equals_spike_rate_at_each_time():
    run = simulate(random_network(np.random.default_rng(0), 8), 30.0, record_spikes=True)
    times = np.linspace(1.0, 30.0, 7)
    for row, t in zip(rates.rate_curve(run.spikes, times), times, strict=True):
        np.testing.assert_allclose(row, rates.spike_rate(run.spikes, stop=t), rtol=1e-14)
    np.testing.assert_array_equal(rates.spike_rate(run.spikes), run.spike_rate)


def test_exponential_rate(spikes):
    weight = 2.0 * (1 - math.exp(-8 / 2))
    ages = {0: (8, 7, 6, 1), 1: (7,), 2: (4,), 3: ()}
    expected = [sum(math.exp(-age / 2) for age in ages[i]) / weight for i in range(4)]
    np.testing.assert_allclose(rates.exponential_rate(spikes, time_constant=2.0), expected, rtol=1e-14)
    # A window much shorter than the time constant: the plain rate.
    np.testing.assert_allclose(
        rates.exponential_rate(spikes, time_constant=1e9), rates.spike_rate(spikes), rtol=1e-8
    )
    # An earlier end forgets what came later.
    early = rates.exponential_rate(spikes, time_constant=2.0, stop=4.0)
    assert early[2] == 0.0
    assert early[1] == pytest.approx(math.exp(-1) / (2 * (1 - math.exp(-1.5))))


def test_exponential_rate_of_a_steady_neuron_is_its_rate_at_once():
    """Midway between spikes a period p apart, the sum differs from the integral by (p/T)^2 / 24."""
    train = SpikeTrain(times=np.arange(0.05, 5, 0.1), neurons=np.zeros(50, int), n_neurons=1, start=0, stop=5)
    rate = rates.exponential_rate(train, time_constant=1.0)[0]
    assert rate == pytest.approx(10.0, rel=0.1**2 / 20)


@pytest.mark.parametrize("time", [20.0, 200.0, 2000.0])
def test_thresholded_average_current_differs_from_the_rate_by_c_over_t(time):
    """By Equation 4 of docs/theory.md u - theta a = v / t from rest.

    Where u >= 0 the difference of the read-outs is |v| / (theta t).  Where u < 0 it is a, and theta a =
    u - v / t < |v| / t.  Both are at most |v| / (theta t).  Where a neuron keeps firing, v lies between theta
    and what inhibition can take from 0 at once; elsewhere the difference is a count of early spikes over t.
    """
    rng = np.random.default_rng(41)
    dictionary = random_dictionary(rng, 30, 15, non_negative=True)
    network = classo_network(dictionary, dictionary[:3].sum(axis=0), 0.1)
    run = simulate(network, time)
    read = rates.thresholded_average_current(run)
    np.testing.assert_allclose(
        read, np.maximum(run.average_soma_current, 0) / network.firing_threshold, rtol=1e-15
    )
    gap = np.abs(read - run.spike_rate)
    assert (gap <= np.abs(run.state.membrane_potential) / network.firing_threshold / time * (1 + 1e-9)).all()
    # One constant for all times: no potential of a firing neuron falls below the inhibition present at once.
    assert gap.max() * time < 5.0


def test_early_spikes_leave_the_late_window_and_the_current_exactly_zero():
    rng = np.random.default_rng(42)
    dictionary = random_dictionary(rng, 40, 20, non_negative=True)
    run = simulate(classo_network(dictionary, dictionary[:3].sum(axis=0), 0.1), 300.0, record_spikes=True)
    late = rates.spike_rate(run.spikes, start=150.0)
    read = rates.thresholded_average_current(run)
    assert np.count_nonzero(late) < np.count_nonzero(run.spike_rate)
    assert np.count_nonzero(read) < np.count_nonzero(run.spike_rate)


def test_counts_and_spikes_of_one_neuron(spikes):
    assert len(spikes) == 6
    np.testing.assert_array_equal(spikes.of(0), [1, 2, 3, 8])
    np.testing.assert_array_equal(spikes.of(3), [])
    np.testing.assert_array_equal(spikes.counts(), [4, 1, 1, 0])
    np.testing.assert_array_equal(spikes.counts(start=2.0, stop=5.0), [1, 0, 1, 0])

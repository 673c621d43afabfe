"""Every form of weights at the ends of the number range, in runaways, and beyond what is accepted."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from snn import NetworkState, RunawayError, SpikingNetwork, simulate
from tests.reference.networks import random_weights
from tests.reference.weight_forms import (
    ANY_MATRIX,
    FORMS,
    NAMES,
    assert_same_spikes_as_twin,
    names_and_seeds,
    random_matrix,
    random_state,
    stored,
)

TOLERANCE = 1e-9
# Weights, drives and initial currents are at most this many firing thresholds.
LARGEST_RATIO = 2.0**40


def mutual(name, weight, n_neurons):
    """Return the weights between all neurons, or those of pairs, that fit the form."""
    if FORMS[name].signed:
        return np.kron([[0.0, weight], [weight, 0.0]], np.eye(n_neurons // 2))
    return FORMS[name].nearest(weight * (1.0 - np.eye(n_neurons)))


# --- units and sizes --------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1e-280, 1e-100, 1e100, 1e280])
def test_a_change_of_units_changes_no_spike(name, scale):
    """Weights, drives and thresholds in other units: the same spikes at the same times."""
    rng = np.random.default_rng(7)
    weights = random_matrix(name, rng, 6)
    drive = rng.uniform(-0.2, 1.5, len(weights))
    reference = simulate(stored(name, weights, drive), 20.0, record_spikes=True)
    scaled = stored(name, weights * scale, drive * scale, scale)
    run = simulate(scaled, 20.0, record_spikes=True)
    assert run.n_spikes > 10
    np.testing.assert_array_equal(run.spikes.neurons, reference.spikes.neurons)
    np.testing.assert_allclose(run.spikes.times, reference.spikes.times, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(("name", "seed"), names_and_seeds(5, ANY_MATRIX))
@pytest.mark.parametrize("decades", [2.0, 12.0])
def test_thresholds_of_very_different_sizes(seed, decades, name):
    """Over 4 and over 24 decades; weights of the size of a target's threshold."""
    rng = np.random.default_rng([6, seed])
    threshold = 10.0 ** rng.uniform(-decades, decades, 6)
    weights = random_weights(rng, 6, strength=0.5) * threshold
    network = stored(name, weights, rng.uniform(-0.2, 1.0, 6) * threshold, threshold)
    assert_same_spikes_as_twin(network, weights, 10.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rate", [1e-3, 1e3, 1e6])
def test_rates_of_very_different_sizes(name, rate):
    """Drives a thousand times smaller, or a million times larger, than the thresholds."""
    rng = np.random.default_rng(9)
    weights = random_matrix(name, rng, 6)
    network = stored(name, weights, rate * rng.uniform(-0.5, 1.0, len(weights)))
    duration = 30.0 / rate
    run = assert_same_spikes_as_twin(network, weights, duration, rtol=1e-9, atol=1e-9 * duration)
    assert run.n_spikes > 20


@pytest.mark.parametrize("name", ANY_MATRIX)
@pytest.mark.parametrize("scale", [1e-12, 1e-60, 1e-200])
def test_numbers_far_below_the_threshold_of_another_neuron(name, scale):
    """In units of the largest threshold, which its neuron never reaches, they are next to nothing."""
    rng = np.random.default_rng(16)
    weights = np.zeros((7, 7))
    weights[:6, :6] = scale * random_weights(rng, 6, sign=-1)
    drive = np.append(scale * rng.uniform(0.5, 2.5, 6), 0.0)
    threshold = np.append(scale * rng.uniform(1.0, 2.0, 6), 1.0)
    run = assert_same_spikes_as_twin(stored(name, weights, drive, threshold), weights, 20.0)
    assert run.n_spikes > 40
    assert run.spike_counts[6] == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_drive_of_next_to_nothing(name):
    """Subnormal drives: no crossing within the run, and none invented."""
    n_neurons = FORMS[name].n_neurons(3)
    drive = np.resize([5e-324, -5e-324, 0.0], n_neurons)
    network = stored(name, np.zeros((n_neurons, n_neurons)), drive)
    state = NetworkState(membrane_potential=np.zeros(n_neurons), synaptic_current=np.full(n_neurons, 10.5))
    run = simulate(network, 1000.0, state=state)
    np.testing.assert_array_equal(run.spike_counts, 10)
    np.testing.assert_allclose(run.state.membrane_potential, 0.5, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1e-310, 1e-320])
def test_subnormal_weights_reach_their_targets(name, scale):
    rng = np.random.default_rng(3)
    weights = FORMS[name].nearest(scale * random_weights(rng, FORMS[name].n_neurons(4), sign=-1))
    n_neurons = len(weights)
    run = simulate(stored(name, weights, np.ones(n_neurons)), 3.5)
    np.testing.assert_array_equal(run.spike_counts, 3)
    expected = weights.sum(axis=0) * np.exp([-2.5, -1.5, -0.5]).sum()
    np.testing.assert_allclose(run.state.synaptic_current, expected, rtol=0.05, atol=1e-322)


@pytest.mark.parametrize("name", NAMES)
def test_a_potential_far_below_the_threshold(name):
    """It is as good as gone, and nothing else suffers from that."""
    rng = np.random.default_rng(4)
    weights = random_matrix(name, rng, 6)
    n_neurons = len(weights)
    network = stored(name, weights, rng.uniform(0.3, 1.5, n_neurons))
    potential = np.zeros(n_neurons)
    potential[0] = -1e50
    state = NetworkState(membrane_potential=potential, synaptic_current=np.zeros(n_neurons))
    run = assert_same_spikes_as_twin(network, weights, 10.0, state)
    assert run.n_spikes > 5
    assert run.spike_counts[0] == 0
    assert run.state.membrane_potential[0] == -1e50


@pytest.mark.parametrize("name", ANY_MATRIX)
@pytest.mark.parametrize(
    ("drive", "current", "soon_after"), [(1.01 * 2.0**36, 0.0, 15.9), (-(2.0**39), 1.99 * 2.0**39, 1.5)]
)
def test_a_potential_that_rises_from_far_below_is_not_lost(name, drive, current, soon_after):
    """It crosses in the midst of a run of slower neurons, and waits for none of them."""
    weights = np.zeros((2, 2))
    network = stored(name, weights, [drive, 1.0 / soon_after])
    potential = -(2.0**40) if current == 0.0 else -0.05 * 2.0**39
    state = NetworkState(membrane_potential=[potential, 0.0], synaptic_current=[current, 0.0])
    with pytest.raises(RunawayError) as caught:
        simulate(network, 20.0, state=state, max_spikes=40, record_spikes=True)
    spikes = caught.value.result.spikes
    assert set(spikes.neurons) == {0}
    # Each spike needs 1 / slope, far below the last bit of the time.
    gap = 1.0 - potential
    first = spikes.times[0]
    assert abs(drive * first - current * np.expm1(-first) - gap) < 1e-12 * 2.0**40


@pytest.mark.parametrize("name", NAMES)
def test_a_neuron_that_just_reaches_its_threshold_fires_before_it_falls(name):
    """Its potential rises to the threshold, to the last bit, and no farther: h - |c| - |c| log(h / |c|).

    There the slope is nothing but rounding, by which a search for the crossing goes far beyond the maximum.
    """
    n_neurons = FORMS[name].n_neurons(1)
    for current in (3.519808734036486, 1.5, 2.25, 10.1):
        threshold = current - 1.0 - np.log(current)
        network = stored(name, np.zeros((n_neurons, n_neurons)), np.full(n_neurons, -1.0), threshold)
        for ulps in range(-3, 4):
            start = np.full(n_neurons, current + ulps * np.spacing(current))
            state = NetworkState(membrane_potential=np.zeros(n_neurons), synaptic_current=start)
            run = simulate(network, 20.0, state=state, record_spikes=True)
            # Within rounding it may fire or not; all neurons are equal.
            assert run.n_spikes in (0, n_neurons)
            highest = np.log(start[0])
            assert (run.spikes.times <= highest + 1e-15).all()
            reached = -run.spikes.times - start[0] * np.expm1(-run.spikes.times)
            np.testing.assert_allclose(reached, threshold, rtol=0, atol=8e-16 * current)


@pytest.mark.parametrize("name", NAMES)
def test_strong_inhibition_lasts_as_long_as_it_should(name):
    """Near the largest weights that are accepted: h e^-t has to fall to the drive."""
    weight = -1e11
    n_neurons = FORMS[name].n_neurons(4)
    weights = mutual(name, weight, n_neurons)
    drive = np.linspace(0.8, 1.0, n_neurons)
    assert_same_spikes_as_twin(stored(name, weights, drive), weights, 30.0)


# --- what is refused --------------------------------------------------------------------------

TOO_LARGE = "must be at most 1.1e+12 times the firing threshold of the neuron {role}; got"


@pytest.mark.parametrize("name", ANY_MATRIX)
@pytest.mark.parametrize("weight", [1e13, -1e13, 1e16, -1e16, 1e100, -1e300, 1e308])
def test_weights_far_above_a_threshold_are_refused(name, weight):
    weights = np.zeros((3, 3))
    weights[0, 2] = weight
    sentence = re.escape("weights " + TOO_LARGE.format(role="they reach"))
    with pytest.raises(ValueError, match=sentence):
        simulate(stored(name, weights, np.ones(3)), 1.5)  # rows on demand are looked at when they are known
    # It is the ratio that counts: the same weights above larger thresholds are a change of units.
    if abs(weight) < 1e300:
        stored(name, weights, np.ones(3), [1.0, 1.0, abs(weight)])


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ANY_MATRIX])
@pytest.mark.parametrize("weight", [1e13, -1e16, 1e300])
def test_weights_far_above_a_threshold_are_refused_in_structured_forms(name, weight):
    n_neurons = FORMS[name].n_neurons(6)
    weights = FORMS[name].nearest(weight * (1.0 - np.eye(n_neurons)))
    with pytest.raises(ValueError, match=r"weights must be at most 1\.1e\+12 times the firing threshold"):
        simulate(stored(name, weights, np.ones(n_neurons)), 1.5)


@pytest.mark.parametrize("name", NAMES)
def test_weights_at_the_bound_are_accepted(name):
    n_neurons = FORMS[name].n_neurons(4)
    weights = mutual(name, -LARGEST_RATIO, n_neurons)
    run = simulate(stored(name, weights, np.linspace(0.5, 1.0, n_neurons)), 1.5)
    assert np.isfinite(run.state.synaptic_current).all()


@pytest.mark.parametrize("name", ANY_MATRIX)
@pytest.mark.parametrize("bias", [1e13, -1e13, 1e100, 1e308])
def test_a_drive_far_above_its_threshold_is_refused(name, bias):
    weights = np.zeros((2, 2))
    with pytest.raises(ValueError, match=r"soma_bias must be at most 1\.1e\+12 times the firing threshold"):
        stored(name, weights, [1.0, bias])
    network = stored(name, weights, [1.0, 1.0])
    with pytest.raises(ValueError, match=r"soma_bias must be at most 1\.1e\+12 times the firing threshold"):
        network.with_soma_bias([1.0, bias])


@pytest.mark.parametrize("name", ANY_MATRIX)
@pytest.mark.parametrize("current", [1e13, -1e13, 1e45, 1e308])
def test_initial_currents_far_above_a_threshold_are_refused(name, current):
    network = stored(name, np.zeros((2, 2)), [1.0, 1.0])
    state = NetworkState(membrane_potential=[0.0, 0.0], synaptic_current=[0.0, current])
    with pytest.raises(ValueError, match=r"must be at most 1\.1e\+12 times the firing threshold"):
        simulate(network, 1.0, state=state)


@pytest.mark.parametrize("name", NAMES)
def test_undriven_neurons_under_strong_inhibition_stay_silent(name):
    """What a ratio beyond all bits once made of them: spikes without drive, a runaway without weights."""
    rng = np.random.default_rng(10)
    n_neurons = FORMS[name].n_neurons(20)
    network = stored(name, np.zeros((n_neurons, n_neurons)), np.zeros(n_neurons))
    state = NetworkState(
        membrane_potential=rng.uniform(-1.0, 1.0, n_neurons),
        synaptic_current=-rng.uniform(0.1, 1.0, n_neurons) * LARGEST_RATIO,
    )
    run = simulate(network, 100.0, state=state)
    assert run.n_spikes == 0
    expected = state.membrane_potential + state.synaptic_current
    np.testing.assert_allclose(run.state.membrane_potential, expected, rtol=1e-12)


# --- runaways ---------------------------------------------------------------------------------


def pair_that_excites_itself(name, weight, about=8):
    """Return weights in which a pair of neurons excite each other, and the pair; others are bystanders."""
    form = FORMS[name]
    n_neurons = form.n_neurons(about)
    weights = np.zeros((n_neurons, n_neurons))
    if form.signed:
        weights[2, 2 + n_neurons // 2] = weights[2 + n_neurons // 2, 2] = weight
        return form.nearest(weights), {2, 2 + n_neurons // 2}
    if form.multiple > 1:
        # In the middle row of the grid, whose weights the other rows share: all of them run away.
        n_channels = n_neurons // form.multiple
        within = np.zeros((n_channels, n_channels))
        within[0, 1] = within[1, 0] = weight
        return np.kron(np.eye(form.multiple), within), set(
            np.flatnonzero(np.arange(n_neurons) % n_channels < 2).tolist()
        )
    weights[2, 5] = weights[5, 2] = weight
    return weights, {2, 5}


@pytest.mark.parametrize("name", NAMES)
def test_a_runaway_names_the_neurons_and_carries_the_run(name):
    """Neurons without synapses fire floor(beta t) times up to the moment the error was raised."""
    weights, pair = pair_that_excites_itself(name, 1.5, 18)
    network = stored(name, weights, np.full(len(weights), 0.1))
    busy = "|".join(str(i) for i in sorted(pair))
    with pytest.raises(
        RunawayError, match=rf"more than max_spikes = 5,000 .*neurons ({busy}) \(.*, ({busy}) \("
    ) as caught:
        simulate(network, 1e6, max_spikes=5_000, record_spikes=True)
    result = caught.value.result
    # Up to the very spike, or to those of its instant.
    assert 5_000 < result.n_spikes == len(result.spikes) <= 5_000 + len(pair)
    assert result.state.time == result.duration == result.spikes.times[-1] == result.spikes.stop
    with pytest.raises(RunawayError) as unrecorded:
        simulate(network, 1e6, max_spikes=5_000)
    assert unrecorded.value.result.state.time == pytest.approx(result.state.time, rel=1e-12)
    np.testing.assert_array_equal(unrecorded.value.result.spike_counts, result.spike_counts)
    np.testing.assert_array_equal(result.spikes.counts(), result.spike_counts)
    assert set(np.argsort(result.spike_counts)[-len(pair) :]) == pair
    bystanders = np.delete(result.spike_counts, sorted(pair))
    np.testing.assert_array_equal(bystanders, int(0.1 * result.duration))


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("about", [8, 300])
def test_the_default_limit_ends_a_runaway(name, about):
    weights, _ = pair_that_excites_itself(name, 1.5, about)
    with pytest.raises(RunawayError, match="max_spikes = 1,000,000 spikes"):
        simulate(stored(name, weights, np.full(len(weights), 0.5)), 50.0)


@pytest.mark.parametrize("name", ANY_MATRIX)
def test_strong_but_stable_excitation_is_no_runaway(name):
    """A ring that passes on 99 % of each spike fires at beta / (theta - w), after a while."""
    weights = 0.99 * np.roll(np.eye(5), 1, axis=1)
    run = simulate(stored(name, weights, np.full(5, 0.1)), 3000.0)
    # The rates' own time constant is 1 / (1 - w) = 100, of which 3000 are 30: u is off by 100 / 3000.
    np.testing.assert_allclose(run.spike_rate, 10.0, rtol=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_a_runaway_within_its_first_instant(name):
    """All neurons start at their thresholds: all spikes at time 0, where the limit is one."""
    n_neurons = FORMS[name].n_neurons(3)
    network = stored(name, np.zeros((n_neurons, n_neurons)), np.linspace(1.0, 2.0, n_neurons))
    current = np.zeros(n_neurons)
    current[1] = 0.5
    state = NetworkState(membrane_potential=np.ones(n_neurons), synaptic_current=current)
    with pytest.raises(RunawayError) as caught:
        simulate(network, 1e-9, state=state, max_spikes=1)
    assert caught.value.result.n_spikes == n_neurons
    assert np.isfinite(caught.value.result.average_soma_current).all()
    assert not np.isnan(caught.value.result.spike_rate).any()


@pytest.mark.parametrize("name", ANY_MATRIX)
@pytest.mark.parametrize("weight", [1e8, 1e12])
def test_intervals_far_below_the_resolution_of_time(name, weight):
    """Mutual excitation so strong that time does not advance: an error, and no endless loop."""
    network = stored(name, weight * (1 - np.eye(3)), [1.0, 0.9, 0.8])
    with pytest.raises((RunawayError, OverflowError)):
        simulate(network, 10.0, max_spikes=10_000)


@pytest.mark.parametrize("name", ANY_MATRIX)
def test_currents_that_grow_beyond_what_potentials_resolve_are_reported(name):
    """2**46 thresholds: each weight is accepted, hundreds of spikes within an instant add up to more."""
    network = stored(name, 1e12 * (1 - np.eye(3)), np.ones(3))
    with pytest.raises(OverflowError, match="currents"):
        simulate(network, 10.0)


@pytest.mark.parametrize("name", ANY_MATRIX)
def test_an_enormous_drive_ends_in_an_error(name):
    network = stored(name, np.zeros((2, 2)), [1e12, 1e12])
    with pytest.raises(RunawayError):
        simulate(network, 1.0, max_spikes=1000)


@pytest.mark.parametrize("name", NAMES)
def test_exactly_max_spikes_spikes_are_allowed(name):
    n_neurons = FORMS[name].n_neurons(2)
    drive = np.full(n_neurons, -1.0)
    drive[:2] = 1.0, 0.5
    network = stored(name, np.zeros((n_neurons, n_neurons)), drive)
    assert simulate(network, 10.5, max_spikes=15).n_spikes == 15
    with pytest.raises(RunawayError, match="more than max_spikes = 14 spikes"):
        simulate(network, 10.5, max_spikes=14)
    # Also when the one too many falls on the very end of the run.
    alone = network.with_soma_bias(np.where(drive == 1.0, 1.0, -1.0))
    with pytest.raises(RunawayError, match="more than max_spikes = 9 spikes"):
        simulate(alone, 10.0, max_spikes=9)
    assert simulate(alone, 10.0, max_spikes=10).n_spikes == 10


def test_inhibition_alone_never_meets_the_default_limit():
    """No neuron fires more often than its drive alone would have it; the limit is a hundred times that."""
    network = SpikingNetwork(-1e-6 * (np.ones((5, 5)) - np.eye(5)), np.full(5, 50.0), 0.001)
    assert simulate(network, 25.0).n_spikes > 1_000_000


@pytest.mark.parametrize("name", NAMES)
def test_states_near_the_bound_continue_as_the_twin_does(name):
    rng = np.random.default_rng(12)
    weights = random_matrix(name, rng, 6)
    network = stored(name, weights, rng.uniform(0.5, 1.5, len(weights)))
    state = random_state(rng, network)
    currents = -np.abs(state.synaptic_current) * np.resize([1.0, 1e4, 1e8], len(weights))
    start = NetworkState(membrane_potential=state.membrane_potential, synaptic_current=currents)
    # Potentials of 1e8 have last bits of 1e-8, which a drive of 1 turns into time.
    assert_same_spikes_as_twin(network, weights, 30.0, start, rtol=0, atol=1e-7)


@pytest.mark.parametrize("size", [1e3, 1e9, 1e11])
def test_a_neuron_that_rises_from_far_below_fires_at_the_end_of_a_run(size):
    """In exact arithmetic it reaches its threshold just before the end; another fires meanwhile."""
    rng = np.random.default_rng(1)
    for start, duration in zip(-size * rng.uniform(0.5, 1.0, 300), rng.uniform(0.2, 0.9, 300), strict=True):
        bias = math.nextafter((1 - Fraction(start)) / Fraction(duration), math.inf)
        assert Fraction(start) + Fraction(bias) * Fraction(duration) >= 1
        network = SpikingNetwork(np.zeros((2, 2)), [5.0, bias], 1.0)
        state = NetworkState(membrane_potential=[0.0, start], synaptic_current=[0.0, 0.0])
        assert simulate(network, duration, state=state).spike_counts[1] == 1

"""Spike trains and trials, as in a laboratory: counts in bins, intervals, Poisson sources, PSTHs."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snn import Clock, Imperfections, SpikeTrain, SpikingNetwork, Stimulus, simulate, simulate_trials
from tests.reference.networks import MODERATE, networks
from tests.tiers import examples

NETWORK = SpikingNetwork([[0.0, -0.3], [-0.5, 0.0]], [0.4, 0.7])
FIELDS = ("times", "neurons", "n_neurons", "start", "stop", "departures")


def require_equal(train, other):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(train, name), getattr(other, name), err_msg=name)


@st.composite
def trains(draw, start=0.0):
    """Draw a spike train with spikes on edges of bins, at both ends of the train, and at equal times."""
    steps = st.integers(0, 40).map(lambda step: start + step / 4)
    times = np.sort(draw(st.lists(steps, max_size=30)))
    neurons = draw(st.lists(st.integers(0, 3), min_size=len(times), max_size=len(times)))
    whole = {
        "n_neurons": 4,
        "start": start,
        "stop": start + 10.0,
        "departures": draw(st.sampled_from(["", "leak"])),
    }
    return SpikeTrain(times=times, neurons=np.array(neurons, dtype=int), **whole)


@examples(60)
@given(train=trains(), inner=st.sets(st.integers(1, 39), max_size=8))
def test_bins_share_out_the_spikes_of_their_interval(train, inner):
    edges = np.array([0, *sorted(inner), 40]) / 4
    binned = train.binned(edges)
    np.testing.assert_array_equal(binned.sum(axis=0), train.counts())
    for row, start, stop in zip(binned[1:], edges[1:-1], edges[2:], strict=True):
        np.testing.assert_array_equal(row, train.counts(start=start, stop=stop))
    if len(edges) > 2:
        np.testing.assert_array_equal(train.binned(edges[1:]), binned[1:])


@examples(60)
@given(train=trains())
def test_intervals_are_those_between_the_spikes_of_a_neuron(train):
    intervals = train.intervals()
    assert len(intervals) == train.n_neurons
    for neuron, found in enumerate(intervals):
        np.testing.assert_array_equal(found, np.diff(train.of(neuron)))


@examples(60)
@given(train=trains(), cut=st.integers(1, 39))
def test_parts_of_a_train_are_merged_to_the_whole(train, cut):
    middle = cut / 4
    n_first = int(np.searchsorted(train.times, middle, side="right"))
    parts = [
        SpikeTrain(
            times=train.times[part], neurons=train.neurons[part], n_neurons=4, start=start, stop=stop,
            departures=train.departures,
        )
        for part, start, stop in ((slice(n_first), 0.0, middle), (slice(n_first, None), middle, 10.0))
    ]  # fmt: skip
    require_equal(SpikeTrain.merged(reversed(parts)), train)
    np.testing.assert_array_equal(SpikeTrain.merged([train, train]).counts(), 2 * train.counts())
    leaky, late = replace(train, departures="leak"), replace(train, departures="leak, delays")
    assert SpikeTrain.merged([leaky, late]).departures == "leak, delays"


@examples(60)
@given(train=trains())
def test_a_train_comes_back_from_its_file(train, tmp_path_factory):
    path = tmp_path_factory.mktemp("trains") / "train.npz"
    train.save(path)
    require_equal(SpikeTrain.load(path), train)


def test_trains_with_a_gap_or_of_other_neurons_are_not_merged():
    first, later, other = (
        SpikeTrain(times=[], neurons=[], n_neurons=n, start=start, stop=start + 1.0)
        for n, start in ((2, 0.0), (2, 1.5), (3, 1.0))
    )
    with pytest.raises(ValueError, match=r"gap; got no train that records from 1\.0 to 1\.5"):
        SpikeTrain.merged([first, later])
    with pytest.raises(ValueError, match=r"with equal n_neurons; got n_neurons \[2, 3\]"):
        SpikeTrain.merged([first, other])


def test_poisson_trains_have_the_rates_that_were_asked_for():
    rates, edges = np.array([[5.0, 0.0, 20.0], [0.0, 10.0, 20.0]]), np.array([2.0, 202.0, 302.0])
    train = SpikeTrain.poisson(rates, edges, rng=3)
    expected = rates * np.diff(edges)[:, np.newaxis]
    np.testing.assert_array_less(np.abs(train.binned(edges) - expected), 5.0 * np.sqrt(expected) + 1e-9)
    intervals = train.intervals()[2]
    assert abs(intervals.std() / intervals.mean() - 1.0) < 0.05  # exponentially distributed
    # Fano factors of counts are 1, and counts in consecutive bins are independent.
    counts = train.binned(np.linspace(2.0, 302.0, 1501))[:, 2]
    assert abs(counts.var() / counts.mean() - 1.0) < 0.15
    assert abs(np.corrcoef(counts[:-1], counts[1:])[0, 1]) < 0.1
    require_equal(SpikeTrain.poisson(rates, edges, rng=3), train)
    assert len(SpikeTrain.poisson([0.0, 0.0], [0.0, 9.0])) == 0


@pytest.mark.parametrize(
    ("rates", "edges", "said"),
    [
        ([[1.0], [2.0]], [0.0, 1.0], "a row for each of 1 bins"),
        ([-1.0], [0.0, 1.0], "rates must not be negative"),
        ([1.0], [1.0, 1.0], "edges must be at least two increasing numbers"),
        ([1.0], [1.0], "edges must be at least two increasing numbers"),
        ([1.0], np.arange(900.0)[::-1], r"edges must be at least two increasing numbers; got .{,60}$"),
    ],
)
def test_what_is_no_poisson_train_is_named(rates, edges, said):
    with pytest.raises(ValueError, match=said):
        SpikeTrain.poisson(rates, edges)


def test_counts_are_those_of_bins_and_intervals_beyond_the_record_are_refused():
    train = SpikeTrain(times=[1.0, 2.0, 2.0, 3.0], neurons=[0, 1, 0, 1], n_neurons=2, start=1.0, stop=4.0)
    np.testing.assert_array_equal(train.counts(start=1.0), [2, 2])
    np.testing.assert_array_equal(train.counts(start=1.0, stop=2.0), train.binned([1.0, 2.0])[0])
    np.testing.assert_array_equal(train.counts(start=1.0, stop=2.0), [2, 1])
    np.testing.assert_array_equal(train.rate(start=1.0, stop=2.0), [2.0, 1.0])
    for start, stop in ((3.0, 2.0), (0.0, 2.0), (2.0, 9.0)):
        with pytest.raises(ValueError, match="start and stop must be an interval"):
            train.counts(start=start, stop=stop)
    with pytest.raises(ValueError, match="edges must not decrease and lie in"):
        train.binned([1.0, 9.0])


def test_bins_allow_for_edges_that_were_summed_up():
    spikes = simulate(SpikingNetwork([[0.0]], [0.5]), 60.0, Clock(0.1), record_spikes=True).spikes
    summed = np.concatenate([[0.0], np.cumsum(np.full(600, 0.1))])
    assert (summed != np.arange(601) / 10).any()
    np.testing.assert_array_equal(spikes.binned(summed), spikes.binned(np.arange(601) / 10))


def test_spikes_go_to_pandas_and_to_neo():
    train = simulate(NETWORK, 20.0, record_spikes=True).spikes
    frame = pytest.importorskip("pandas") and train.to_pandas()
    np.testing.assert_array_equal(frame["time"], train.times)
    np.testing.assert_array_equal(frame["neuron"], train.neurons)
    pytest.importorskip("neo")
    for neuron, spikes in enumerate(train.to_neo(time_constant=10.0)):
        np.testing.assert_array_equal(spikes.rescale("ms").magnitude, 10.0 * train.of(neuron))
        assert float(spikes.t_stop.rescale("s")) == pytest.approx(0.2)


def test_trials_go_to_pandas_and_to_neo():
    trials = simulate_trials(NETWORK, 20.0, drives=[NETWORK.soma_bias, 2.0 * NETWORK.soma_bias])
    frame = pytest.importorskip("pandas") and trials.to_pandas()
    assert list(frame.columns) == ["trial", "time", "neuron"]
    for trial, of_trial in frame.groupby("trial"):
        np.testing.assert_array_equal(of_trial["time"], trials.spikes[trial].times)
        np.testing.assert_array_equal(of_trial["neuron"], trials.spikes[trial].neurons)
    pytest.importorskip("neo")
    block = trials.to_neo(time_constant=10.0)
    for segment, spikes in zip(block.segments, trials.spikes, strict=True):
        assert [len(train) for train in segment.spiketrains] == spikes.counts().tolist()
        assert float(segment.spiketrains[0].t_stop.rescale("s")) == pytest.approx(0.2)


@examples(40)
@given(
    edges=st.lists(st.integers(0, 80), min_size=2, max_size=5, unique=True).map(sorted),
    step=st.sampled_from([0.1, 0.125]),
    shift=st.sampled_from([0.0, 2.5, -1e3, 0.1]),
)
def test_slices_are_bins_and_join_to_what_they_were_cut_from(edges, step, shift):
    train = simulate(NETWORK, 80 * step, Clock(step), record_spikes=True).spikes
    # Times are sums of steps, with rounding errors.
    times = np.concatenate([[0.0], np.cumsum(np.full(80, step))]).clip(max=train.stop)[edges]
    counts = train.binned(times)
    parts = [train.time_slice(start, stop) for start, stop in pairwise(times)]
    np.testing.assert_array_equal([part.counts() for part in parts], counts)
    require_equal(SpikeTrain.merged(parts), train.time_slice(times[0], times[-1]))
    require_equal(train.time_slice(), train)
    assert parts[0].start == times[0]
    moved = train.time_shift(shift)
    np.testing.assert_allclose(moved.times - shift, train.times, atol=1e-12)
    np.testing.assert_array_equal(moved.neurons, train.neurons)
    assert (moved.start, moved.stop) == (train.start + shift, train.stop + shift)


def test_slices_beyond_the_record_and_shifts_that_are_no_numbers_are_refused():
    train = SpikeTrain(times=[1.0, 2.0], neurons=[0, 1], n_neurons=2, start=1.0, stop=4.0)
    for start, stop in ((3.0, 2.0), (0.0, 2.0), (2.0, 9.0)):
        with pytest.raises(ValueError, match="start and stop must be an interval"):
            train.time_slice(start, stop)
    for shift, error in ((np.nan, ValueError), ("late", TypeError)):
        with pytest.raises(error, match="shift"):
            train.time_shift(shift)


@examples(10)
@given(data=st.data())
def test_trials_are_runs_one_by_one(data):
    network, duration = data.draw(networks(regime=MODERATE)).network(), 5.0
    drives = np.array([network.soma_bias, 0.5 * network.soma_bias])
    stimuli = [
        Stimulus(
            spikes=SpikeTrain.poisson(np.full(network.n_neurons, 0.5), [0.0, duration], rng=seed),
            weights=0.1 * np.diag(network.firing_threshold),
        )
        for seed in range(2)
    ]
    trials = simulate_trials(network, duration, stimuli=stimuli, drives=drives)
    edges = [0.0, 1.25, 5.0]
    counts = []
    for run, drive, stimulus in zip(trials.runs, drives, stimuli, strict=True):
        alone = simulate(network.with_soma_bias(drive), duration, stimulus=stimulus, record_spikes=True)
        require_equal(run.spikes, alone.spikes)
        counts.append(alone.spikes.binned(edges))
    np.testing.assert_array_equal(trials.binned(edges), counts)
    np.testing.assert_array_equal(trials.spike_counts, np.sum(counts, axis=1))
    np.testing.assert_allclose(trials.psth(edges).T, np.mean(counts, axis=0).T / [1.25, 3.75])


def test_seeds_are_those_of_the_noise():
    def noisy(seed):
        return Clock(0.25, imperfections=Imperfections(potential_noise=0.3, seed=seed))

    trials = simulate_trials(NETWORK, 50.0, noisy(0), seeds=[4, 7])
    for run, seed in zip(trials.runs, (4, 7), strict=True):
        require_equal(run.spikes, simulate(NETWORK, 50.0, noisy(seed), record_spikes=True).spikes)
    assert not np.array_equal(trials.spikes[0].times, trials.spikes[1].times)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "with one entry for each trial; got none of them"),
        ({"drives": np.ones((3, 2)), "seeds": [1, 2]}, r"got \{'drives': 3, 'seeds': 2\}"),
        ({"drives": np.ones((3, 1))}, "drives must have"),
        ({"seeds": [1, 2]}, "seeds must be None unless time is a Clock with imperfections"),
        ({"stimuli": []}, r"one entry for each trial.*got \{'stimuli': 0\}"),
    ],
)
def test_what_are_no_trials_is_named(options, said):
    with pytest.raises(ValueError, match=said):
        simulate_trials(NETWORK, 5.0, **options)

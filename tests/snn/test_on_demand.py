"""Inhibition of which only some rows are ever computed: the same runs as with the whole matrix."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from snn import (
    Exact,
    InhibitionOnDemand,
    LateralInhibition,
    SignPairWeights,
    SpikingNetwork,
    simulate,
    simulate_clocked,
)
from tests.reference.networks import random_dictionary
from tests.reference.plain_simulator import simulate_plainly


class Rows:
    """Counts what is asked of it."""

    def __init__(self, gram):
        self.gram = gram
        self.asked = []
        self.n_calls = 0

    def __call__(self, sources):
        self.n_calls += 1
        self.asked.extend(sources.tolist())
        return self.gram[sources]


def coding_problem(rng, n_atoms, n_features, support):
    dictionary = random_dictionary(rng, n_atoms, n_features)
    code = np.zeros(n_atoms)
    code[rng.choice(n_atoms, support, replace=False)] = rng.uniform(0.3, 1.5, support)
    correlations = dictionary @ (code @ dictionary)
    return dictionary @ dictionary.T, correlations, 0.15 * correlations.max()


@pytest.mark.parametrize("n_atoms", [12, 90, 400])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("screening", [True, False])
def test_same_spikes_as_with_the_whole_matrix(n_atoms, signed, screening):
    """To rounding: a run that waits for a row ends an interval of screening, or a window, earlier."""
    gram, correlations, penalty = coding_problem(np.random.default_rng(n_atoms), n_atoms, 40, 6)
    rows = Rows(gram)
    whole, partly = LateralInhibition(gram), InhibitionOnDemand(n_atoms, rows)
    bias = correlations - penalty
    if signed:
        bias = np.concatenate([bias, -correlations - penalty])
        whole, partly = (SignPairWeights(weights, np.diag(gram).copy()) for weights in (whole, partly))
    expected = simulate_plainly(whole.toarray(), bias, 1.0, 60.0)
    run = Exact(screening=screening).start(SpikingNetwork(partly, bias), bias[np.newaxis])
    times, neurons, _ = run.advance(60.0, record=True)
    np.testing.assert_array_equal(neurons, expected.neurons)
    np.testing.assert_allclose(times, expected.times, rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.membrane_potential[0], expected.membrane_potential, atol=1e-9)
    assert (run.screened_time[0] > 10.0) or not screening or n_atoms < 400
    # No row twice, all that fired, and not all rows.
    assert len(rows.asked) == len(set(rows.asked))
    fired = set((np.unique(expected.neurons) % n_atoms).tolist())
    assert fired <= set(rows.asked)
    assert len(rows.asked) < 0.6 * n_atoms or n_atoms < 50 or not screening


def test_rows_serve_the_next_run():
    gram, correlations, penalty = coding_problem(np.random.default_rng(3), 100, 40, 5)
    rows = Rows(gram)
    network = SpikingNetwork(InhibitionOnDemand(100, rows), correlations - penalty)
    first = simulate(network, 30.0)
    n_asked = len(rows.asked)
    second = simulate(network, 30.0)
    np.testing.assert_array_equal(first.spike_counts, second.spike_counts)
    assert len(rows.asked) == n_asked == network.weights.n_stored


def test_copies_wait_for_rows_together():
    """Copies that miss a row wait behind the others, unless a record or a limit depends on their order."""
    rng = np.random.default_rng(3)
    gram, correlations, penalty = coding_problem(rng, 200, 40, 6)
    biases = np.array([np.roll(correlations, 17 * k) for k in range(8)]) - penalty
    order = np.array([5, 0, 3, 1, 7, 2, 6, 4])
    whole = Exact().start(SpikingNetwork(LateralInhibition(gram), biases[0]), biases)
    whole.advance(20.0, active=order)
    n_calls = {}
    for record in (False, True):
        rows = Rows(gram)
        run = Exact().start(SpikingNetwork(InhibitionOnDemand(200, rows), biases[0]), biases)
        active = order.copy()
        spikes = run.advance(20.0, active=active, record=record)
        np.testing.assert_array_equal(active, order)
        np.testing.assert_array_equal(run.time, 20.0)
        np.testing.assert_array_equal(run.spike_counts, whole.spike_counts)
        np.testing.assert_allclose(run.membrane_potential, whole.membrane_potential, atol=1e-9)
        assert sorted(rows.asked) == sorted(set(rows.asked))
        n_calls[record] = rows.n_calls
    assert n_calls[False] <= n_calls[True] / 3
    # Copy by copy, in the order that was asked for.
    counts = whole.spike_counts[order].sum(axis=1)
    for copy_number, part in zip(order, np.split(spikes.times, np.cumsum(counts)[:-1]), strict=True):
        assert len(part) == whole.spike_counts[copy_number].sum()
        assert (np.diff(part) >= 0.0).all()


def test_helpers_agree_with_the_whole_matrix():
    gram, *_ = coding_problem(np.random.default_rng(4), 30, 12, 3)
    whole, partly = LateralInhibition(gram), InhibitionOnDemand(30, Rows(gram))
    amounts = np.random.default_rng(5).poisson(0.3, (4, 30)).astype(float)
    np.testing.assert_allclose(
        partly.transpose_product(amounts), whole.transpose_product(amounts), atol=1e-13
    )
    np.testing.assert_array_equal(partly.out_degrees(np.arange(7)), whole.out_degrees(np.arange(7)))
    np.testing.assert_array_equal(partly.toarray(), whole.toarray())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(partly)).toarray(), whole.toarray())


def test_bad_rows_are_refused():
    with pytest.raises(TypeError, match=r"compute_rows must be callable; got int"):
        InhibitionOnDemand(3, 1)
    with pytest.raises(ValueError, match="n_neurons must be"):
        InhibitionOnDemand(0, Rows(np.eye(3)))
    wrong = SpikingNetwork(InhibitionOnDemand(3, lambda sources: np.ones((len(sources), 2))), np.ones(3))
    with pytest.raises(ValueError, match=r"compute_rows\(sources\) must have shape"):
        simulate(wrong, 5.0)
    infinite = SpikingNetwork(
        InhibitionOnDemand(3, lambda sources: np.full((len(sources), 3), np.inf)), np.ones(3)
    )
    with pytest.raises(ValueError, match=r"compute_rows\(sources\) must be finite"):
        simulate(infinite, 5.0)


def test_a_copy_stores_rows_of_its_own():
    gram, *_ = coding_problem(np.random.default_rng(6), 10, 5, 3)
    first = InhibitionOnDemand(10, Rows(gram))
    first.prepare(np.arange(3))
    first.prepare(np.array([3]))
    second = copy.copy(first)
    first.prepare(np.array([5]))
    second.prepare(np.array([6]))
    np.testing.assert_array_equal(first.strength_of(np.array([5])), gram[[5]])
    np.testing.assert_array_equal(second.strength_of(np.array([6])), gram[[6]])


def test_the_clock_takes_all_rows():
    gram, correlations, penalty = coding_problem(np.random.default_rng(7), 40, 20, 3)
    bias = correlations - penalty
    whole, partly = (
        SpikingNetwork(w, bias) for w in (LateralInhibition(gram), InhibitionOnDemand(40, Rows(gram)))
    )
    expected = simulate_clocked(whole, 20.0, time_step=0.01)
    np.testing.assert_array_equal(
        simulate_clocked(partly, 20.0, time_step=0.01).spike_counts, expected.spike_counts
    )


def test_threads_may_share_the_rows():
    gram, correlations, penalty = coding_problem(np.random.default_rng(8), 300, 40, 6)
    network = SpikingNetwork(InhibitionOnDemand(300, Rows(gram)), correlations - penalty)
    drives = (correlations - penalty) * np.linspace(0.3, 1.0, 12)[:, np.newaxis]
    whole = SpikingNetwork(LateralInhibition(gram), correlations - penalty)
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda bias: simulate(network.with_soma_bias(bias), 30.0), drives))
    for run, bias in zip(runs, drives, strict=True):
        expected = simulate(whole.with_soma_bias(bias), 30.0)
        np.testing.assert_array_equal(run.spike_counts, expected.spike_counts)
    rows = network.weights
    assert rows.n_stored < 300

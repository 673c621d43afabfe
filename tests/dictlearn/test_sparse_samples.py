"""Learning from sparse matrices gives the same numbers as from dense ones."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from dictlearn import LearningSettings, SpikingDictionaryLearning, compare_sizes, learn_dictionary
from tests.dictlearn.refused import each_refused

FORMS = [sparse.csr_array, sparse.csc_matrix, sparse.coo_array]


@pytest.fixture(scope="module")
def counts():
    """Return non-negative counts of words in documents, 90 % zero."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.1), size=6)
    words = np.array([rng.multinomial(12, topics[rng.integers(6)]) for _ in range(300)])
    return words / np.linalg.norm(words, axis=1, keepdims=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"positive_dict": True, "positive_code": True},
        {"split_channels": True},
        {"dict_init": np.eye(6, 40) + 0.1},
        {"batch_size": 7},
    ],
    ids=str,
)
def test_estimators_learn_and_code_as_from_dense_signals(counts, form, options):
    dense, thin = (
        SpikingDictionaryLearning(6, alpha=0.2, max_iter=2, random_state=0, **options) for _ in range(2)
    )
    np.testing.assert_array_equal(dense.fit(counts).components_, thin.fit(form(counts)).components_)
    np.testing.assert_allclose(thin.transform(form(counts)), dense.transform(counts), rtol=1e-9, atol=1e-12)
    assert thin.score(form(counts)) == pytest.approx(dense.score(counts), rel=1e-9)
    for estimator, signals in ((dense, counts), (thin, form(counts))):
        estimator.partial_fit(signals)
    np.testing.assert_array_equal(dense.components_, thin.components_)


def test_learners_learn_as_from_dense_signals(counts):
    settings = LearningSettings(penalty=0.2)
    one, other = (
        learn_dictionary(signals, 6, settings=settings, n_samples=700, rng=0)
        for signals in (counts, sparse.csr_array(counts))
    )
    np.testing.assert_array_equal(one.synapses.values, other.synapses.values)
    sizes = compare_sizes(
        sparse.csr_array(counts), [3], held_out=counts[:9], penalty=0.2, n_samples=64, n_seeds=1, rng=0
    )
    assert sizes.objective.shape == (1, 1)


def test_batches_alone_are_dense():
    """All signals together would take 800 MB if they were dense."""
    rng, shape = np.random.default_rng(0), (2_000, 50_000)
    places = rng.integers(shape[0], size=10_000), rng.integers(shape[1], size=10_000)
    signals = sparse.csr_array((rng.random(10_000), places), shape)
    tracemalloc.start()
    SpikingDictionaryLearning(2, alpha=0.2, random_state=0).partial_fit(signals)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200e6


def learn(signals, **options):
    return learn_dictionary(sparse.csr_array(signals), 2, penalty=0.1, n_samples=4, rng=0, **options)


@each_refused(
    (partial(learn, [[0.0, 1.0], [np.nan, 0.0]]), ValueError, r"finite.*nan at \[1, 0\]"),
    (partial(learn, [[0.0, 1.0], [0.0, -1.0]]), ValueError, "negative"),
    (partial(learn, np.ones((0, 3))), ValueError, "shape"),
    (partial(learn, [[0.0, 0.0]]), ValueError, "zero"),
    (partial(learn, np.eye(2), mask=np.eye(2) > 0), TypeError, "mask must be None"),
    (partial(learn, np.eye(2), start=np.eye(3)), ValueError, "start"),
)
def test_wrong_matrices_are_refused(call, error, name):
    with pytest.raises(error, match=name):
        call()

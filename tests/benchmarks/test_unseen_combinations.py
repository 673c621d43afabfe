"""The samples and the score of the benchmark from outside are the published ones."""

import numpy as np
import pytest

pytest.importorskip("spams", reason="a peer: pip install spams-bin")

from tests.benchmarks.unseen_combinations import PUBLISHED, SUPPORT, generate, mean_correlation, score


@pytest.mark.parametrize("n_atoms", [50, 100])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_true_dictionary_scores_what_was_published(n_atoms, seed):
    data = generate(n_atoms, seed)
    # Theirs are codes of a hundred steps of FISTA.
    assert score(data.dictionary, data).correlation == pytest.approx(PUBLISHED[n_atoms][1][seed], abs=2e-3)


def test_combinations_are_not_seen():
    data = generate(60, 0)
    for samples in (data.seen, data.unseen):
        assert samples.signals.shape == (2_500, 36)
        np.testing.assert_array_equal(np.count_nonzero(samples.codes, axis=1), SUPPORT)
        np.testing.assert_allclose(samples.codes @ data.dictionary, samples.signals, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(data.dictionary, axis=1), 1.0, rtol=1e-14)
    with_first = data.seen.codes[data.seen.codes[:, 0] > 0.0]
    assert 0.4 < len(with_first) / 2_500 < 0.6
    assert not with_first[:, 30:].any()
    assert data.unseen.codes[:, 0].all()
    assert not data.unseen.codes[:, 1:30].any()


def test_score_pairs_columns():
    rng = np.random.default_rng(0)
    true = np.hstack([rng.uniform(size=(400, 6)), np.zeros((400, 2))])
    found = np.hstack([1e-3 * rng.uniform(size=(400, 3)), -2.0 * true[:, [3, 1, 0, 2, 5, 4]] + 1.0])
    assert mean_correlation(true, found) == pytest.approx(1.0, abs=1e-12)
    assert mean_correlation(true, rng.uniform(size=(400, 8))) < 0.2

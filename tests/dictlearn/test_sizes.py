"""Comparison of dictionary sizes by their scores on held-out signals."""

from functools import partial

import numpy as np
import pytest

from dictlearn import LearningSettings, SizeComparison, compare_sizes, learn_dictionary, mean_objective
from dictlearn.atoms import unit_norm
from tests.dictlearn.refused import each_refused

N_TRUE = 12
SETTINGS = LearningSettings(penalty=0.1, positive_atoms=False, positive_code=False)


@pytest.fixture(scope="module")
def signals():
    rng = np.random.default_rng(0)
    atoms = unit_norm(rng.standard_normal((N_TRUE, 16)))
    codes = rng.standard_normal((1100, N_TRUE)) * (rng.random((1100, N_TRUE)) < 0.15)
    return codes @ atoms + 0.02 * rng.standard_normal((1100, 16))


@pytest.fixture(scope="module")
def comparison(signals):
    return compare_sizes(
        signals[:1000], [6, 12, 24], held_out=signals[1000:], settings=SETTINGS, n_seeds=2, rng=0
    )


def test_the_objective_hardly_falls_beyond_the_true_number_of_atoms(comparison):
    few, true, many = comparison.objective.mean(axis=1)
    assert few > 1.5 * true
    assert true < 1.1 * many
    np.testing.assert_array_equal(comparison.sizes, [6, 12, 24])


def test_seeds_agree_on_true_atoms_and_others_are_alike(comparison):
    assert comparison.agreement[1].min() == 1.0 > comparison.agreement[0].max()
    assert comparison.similar[1].max() == 0.0 < comparison.similar[2].min()


def test_figures_are_those_of_each_dictionary(comparison, signals):
    """The figures are those of each dictionary, learned and scored again from the same seed."""
    seed = int(np.random.default_rng(0).integers(2**62, size=2)[1])
    learner = learn_dictionary(signals[:1000], 12, settings=SETTINGS, rng=seed)
    np.testing.assert_array_equal(comparison.dictionaries[1, 1], learner.dictionary)
    score = mean_objective(learner.dictionary, signals[1000:], penalty=0.1, positive_code=False)
    assert comparison.objective[1, 1] == score.objective
    assert comparison.unused[1, 1] == np.mean(score.usage == 0)


def test_an_atom_and_its_negative_are_one_only_if_codes_have_either_sign(comparison):
    pair = np.empty((1, 1), dtype=object)
    pair[0, 0] = np.array([[0.6, 0.8], [-0.6, -0.8]])
    for positive_code in (False, True):
        alone = SizeComparison(
            dictionaries=pair, scores=comparison.scores[:1, :1], positive_code=positive_code
        )
        assert alone.similar == [[0.0 if positive_code else 1.0]]
        assert alone.agreement.size == 0  # a single seed has no other seed to agree with


def test_workers_change_nothing(signals):
    options = {"held_out": signals[1000:], "settings": SETTINGS, "n_samples": 64, "n_seeds": 2, "rng": 1}
    here, there = (compare_sizes(signals[:1000], [3, 5], n_jobs=n_jobs, **options) for n_jobs in (1, 2))
    np.testing.assert_array_equal(here.objective, there.objective)


def test_the_picture_shows_objective_and_shares(comparison):
    ax = comparison.plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["objective", "agreement", "similar", "unused"]
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), comparison.objective.mean(axis=1))


def call(**changes):
    options = {"sizes": [2, 4], "held_out": np.ones((5, 3)), "penalty": 0.1, **changes}
    return compare_sizes(np.eye(3), **options)


@each_refused(
    (call, ValueError, {"sizes": [[], [4, 2], [2, 2]], "n_seeds": [0], "held_out": [np.ones((5, 2))]}),
    (call, TypeError, {"sizes": [[2.5]], "penalty": [None], "n_seeds": [1.5]}),
    (partial(call, penalty=[0.1, 0.2]), ValueError, "penalty must be one number"),
)
def test_wrong_arguments_are_refused(call, error, name):
    with pytest.raises(error, match=name):
        call()

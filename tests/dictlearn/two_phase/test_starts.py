"""Atoms from earlier learning are kept at the start; random atoms, and old atoms after a change, move on."""

import numpy as np
import pytest

from dictlearn import (
    LearningSettings,
    TwoPhaseLearner,
    UsageSteps,
    continue_learning,
    learn_dictionary,
    mean_objective,
    new_learner,
    random_dictionary,
)
from tests.dictlearn.two_phase.learners import SIGNS, assert_same

WAYS = ("positive", "signed atoms", "signed atoms and codes")
N_ATOMS, N_INPUTS = 24, 16


def samples(n, *, positive_atoms=True, positive_code=True, rng=0):
    """Return signals of two or three of `N_ATOMS` atoms, with noise."""
    rng = np.random.default_rng(rng)
    atoms = random_dictionary(N_ATOMS, N_INPUTS, positive=positive_atoms, rng=1)
    codes = (rng.random((n, N_ATOMS)) < 0.1) * rng.uniform(0.5, 1.0, (n, N_ATOMS))
    codes *= 1.0 if positive_code else rng.choice([-1.0, 1.0], codes.shape)
    noise = 0.05 * rng.standard_normal((n, N_INPUTS))
    return codes @ atoms + (np.abs(noise) if positive_atoms else noise)


def objective(dictionary, signals, settings):
    code = settings.positive_code
    return mean_objective(dictionary, signals, penalty=settings.penalty, positive_code=code).objective


@pytest.mark.parametrize("inputs", ["graded", "spiking"])
@pytest.mark.parametrize("way", WAYS)
def test_a_start_that_was_learned_before_is_kept(way, inputs, tmp_path):
    signals = samples(12_000, **SIGNS[way])
    learned, held_out = np.split(signals, [11_000])
    settings = LearningSettings(penalty=0.05, inputs=inputs, replacement=False, **SIGNS[way])
    start = learn_dictionary(learned, N_ATOMS, settings=settings, n_samples=33_000, rng=0).dictionary
    learner = new_learner(learned, settings=settings, start=start, rng=1)
    before = objective(start, held_out, settings)
    for end, most in ((512, 1.01), (4096, 1.002)):
        continue_learning(learner, learned, n_samples=end, rng=1)
        assert objective(learner.dictionary, held_out, settings) < most * before
        if end == 512:  # the saved file must tell which atoms are held
            learner.save(tmp_path / "learner.npz")
            learner, other = TwoPhaseLearner.load(tmp_path / "learner.npz"), learner
            learner.learn(learned[:32])
            other.learn(learned[:32])
            assert_same(learner, other)


@pytest.mark.parametrize("way", WAYS)
def test_a_random_start_is_left_in_the_first_batches(way):
    signals = samples(256, **SIGNS[way])
    settings = LearningSettings(penalty=0.05, **SIGNS[way])
    learner = new_learner(signals, N_ATOMS, settings=settings, rng=0)
    continue_learning(learner, signals, n_samples=128, rng=0)
    assert not learner.memory["held"].any()
    assert "drift" not in learner.memory


def test_a_learned_start_is_left_when_signals_change():
    signals = samples(12_000, **SIGNS["signed atoms"])
    settings = LearningSettings(penalty=0.05, **SIGNS["signed atoms"])
    start = learn_dictionary(signals, N_ATOMS, settings=settings, n_samples=24_000, rng=0).dictionary
    turned = signals @ np.linalg.qr(np.random.default_rng(2).standard_normal((N_INPUTS, N_INPUTS)))[0]
    for of, is_held in ((signals, True), (turned, False)):
        learner = new_learner(of, settings=settings, start=start, rng=1)
        continue_learning(learner, of, n_samples=512, rng=1)
        assert learner.memory["held"].all() == is_held


def test_a_replaced_atom_of_a_start_is_free():
    signals = samples(64, **SIGNS["signed atoms"])
    rule = UsageSteps()
    settings = LearningSettings(penalty=0.05, rule=rule, **SIGNS["signed atoms"])
    learner = new_learner(signals, N_ATOMS, settings=settings, rng=0)
    learner.memory["held"][:], learner.memory["drift"] = 12.0, np.ones((N_ATOMS, N_INPUTS))
    rule.forget(5, learner.synapses, learner.memory)
    assert np.flatnonzero(learner.memory["held"] == 0.0).tolist() == [5]
    assert not learner.memory["drift"][5].any()

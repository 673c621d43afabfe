"""Frozen atoms, which no batch changes, and lesioned neurons, which do not fire."""

import numpy as np
import pytest

from dictlearn import LearningSettings, PaperSteps, TwoPhaseLearner, UsageSteps, mean_objective, new_learner
from tests.dictlearn.refused import each_refused

N_ATOMS, N_INPUTS = 12, 16
FIXED = np.arange(N_ATOMS) < 4
KINDS = [
    pytest.param({"positive_atoms": False, "positive_code": False}, id="signed"),
    pytest.param({"positive_atoms": False}, id="positive codes"),
    pytest.param({}, id="positive"),
    pytest.param({"rule": PaperSteps(step=0.01)}, id="paper"),
    pytest.param({"readout": "rate"}, id="rates"),
    pytest.param({"replacement": True, "rule": UsageSteps(patience=0.1)}, id="replacement"),
]


def made(options, *, n_samples=320, seed=0):
    """Return signals, and a learner that has learned from some of them."""
    rng = np.random.default_rng(seed)
    signals = rng.random((n_samples, 8)) @ np.abs(rng.standard_normal((8, N_INPUTS)))
    learner = new_learner(signals, N_ATOMS, settings=LearningSettings(penalty=0.3, **options), rng=0)
    learn(learner, signals[:160])
    return learner, signals[160:]


def learn(learner, signals):
    for first in range(0, len(signals), 16):
        learner.learn(signals[first : first + 16])


@pytest.mark.parametrize("options", KINDS)
def test_frozen_atoms_stay_and_lateral_weights_follow(options):
    learner, signals = made(options)
    before = learner.network, learner.dictionary
    learner.freeze(FIXED)
    learn(learner, signals)
    after = learner.network
    np.testing.assert_array_equal(after.feedforward[FIXED], before[0].feedforward[FIXED])
    np.testing.assert_array_equal(after.feedback[:, FIXED], before[0].feedback[:, FIXED])
    np.testing.assert_array_equal(learner.dictionary[FIXED], before[1][FIXED])
    assert (after.feedforward[~FIXED] != before[0].feedforward[~FIXED]).any()
    product = after.feedforward @ after.feedback
    np.testing.assert_allclose(after.lateral[FIXED], product[FIXED], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(after.lateral[:, FIXED], product[:, FIXED], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", KINDS)
def test_lesioned_neurons_do_not_fire_and_others_take_over(options):
    learner, signals = made(options)
    learner.lesion(FIXED)
    before = learner.network, learner.n_fired.copy(), learner.last_compared.copy()

    def run(batch):
        observed = batch.run(learner.synapses, signals[:16])
        assert not observed.codes[:, FIXED].any()
        assert not observed.fired[:, FIXED].any()
        return observed

    def objective():
        positive = learner.settings.positive_code
        return mean_objective(
            learner.dictionary[~FIXED], signals[:16], penalty=0.3, positive_code=positive
        ).objective

    at_first = objective()
    for _ in range(60):
        learner.learn_batch(16, run)
    assert objective() < at_first
    after = learner.network
    np.testing.assert_array_equal(after.feedback[:, FIXED], before[0].feedback[:, FIXED])
    np.testing.assert_array_equal(learner.n_fired[FIXED], before[1][FIXED])
    np.testing.assert_array_equal(learner.last_compared[FIXED], before[2][FIXED])
    assert not set(learner.dead_atoms) & set(np.flatnonzero(FIXED))
    learner.lesion(np.zeros(N_ATOMS, dtype=bool))
    assert (learner.learn(signals) > 0.0) & (learner.n_fired[FIXED] > before[1][FIXED]).any()


def test_masks_are_saved_with_a_learner(tmp_path):
    learner, signals = made({"positive_atoms": False})
    learner.freeze(FIXED)
    learner.lesion(np.roll(FIXED, 4))
    learner.save(tmp_path / "learner.npz")
    loaded = TwoPhaseLearner.load(tmp_path / "learner.npz")
    np.testing.assert_array_equal(loaded.frozen, FIXED)
    for each in (learner, loaded):
        learn(each, signals)
    np.testing.assert_array_equal(learner.synapses.values, loaded.synapses.values)


def test_trials_of_atoms_that_are_frozen_end():
    learner, _ = made({"positive_atoms": False})
    old = learner.dictionary
    rows = learner.settings.rule._of_atoms(learner.memory)
    learner.replacement.begin(2, learner.n_samples, int(learner.n_fired[2]), learner.synapses, rows)
    learner.synapses.replace(2, np.eye(N_INPUTS)[0], np.eye(N_INPUTS)[0])
    learner.freeze(~FIXED)
    assert learner.replacement.running
    learner.freeze(FIXED)
    assert not learner.replacement.running
    np.testing.assert_array_equal(learner.dictionary, old)


def freeze(frozen):
    made({})[0].freeze(frozen)


def lesion(lesioned):
    made({})[0].lesion(lesioned)


@each_refused(
    (freeze, ValueError, {"frozen": [FIXED[1:], [0, 1], 1.0 * FIXED]}),
    (lesion, ValueError, {"lesioned": [~FIXED | True, [True]]}),
)
def test_wrong_masks_are_refused(call, error, name):
    with pytest.raises(error, match=name):
        call()

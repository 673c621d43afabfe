"""A penalty for each atom: the same network, other biases; the objective with those penalties."""

# ruff: noqa: E501 - a case a line reads better

from dataclasses import replace

import numpy as np
import pytest

from dictlearn import (
    LearningSettings,
    PaperSteps,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    check_gradients,
    learn_dictionary,
    mean_objective,
    new_learner,
    random_network,
    rules,
)
from dictlearn.two_phase.gradient_check import limiting_codes
from solvers import LassoProblem, solve_active_set
from tests.dictlearn.two_phase.networks import N_ATOMS, N_INPUTS, sparse_codes, sparse_dictionary
from tests.dictlearn.two_phase.test_learner import StopHereError, assert_same, planted, stop_at

SETTINGS = LearningSettings(penalty=0.05, batch_size=16)
PENALTIES = np.linspace(0.02, 0.2, 8)


@pytest.fixture(scope="module")
def data():
    return planted(8, 12, 300)


def optimum(atoms, signals, penalties):
    problem = LassoProblem(atoms, signals, penalties, positive=True)
    return solve_active_set(problem)


def test_gradients_are_those_of_the_codes_with_these_penalties():
    dictionary = sparse_dictionary()
    rng = np.random.default_rng(2)
    signals = sparse_codes(6, N_ATOMS, 0.1, rng) @ dictionary + 0.02 * rng.uniform(size=(6, N_INPUTS))
    penalties = rng.uniform(0.02, 0.4, N_ATOMS)
    network = TwoPhaseNetwork.consistent(dictionary)
    exact = optimum(dictionary, signals, penalties).codes
    np.testing.assert_allclose(limiting_codes(network, signals, penalty=penalties), exact, rtol=0, atol=1e-9)
    check = check_gradients(network, signals, penalty=penalties, durations=[125.0, 1000.0])
    np.testing.assert_allclose(check.codes, exact[check.signals], rtol=0, atol=1e-9)
    for readout in check.readouts:
        errors = check.mean("error", readout, "feedback")
        assert errors[1] < errors[0] / 4.0
    assert np.abs(exact - optimum(dictionary, signals, np.full(N_ATOMS, 0.2)).codes).max() > 0.1
    # And the weights s multiply them.
    weighted = limiting_codes(network, signals, penalty=penalties / 2.0, reweighting=np.full(N_ATOMS, 2.0))
    np.testing.assert_allclose(weighted, exact, rtol=0, atol=1e-9)


@pytest.mark.parametrize("steps", [{}, {"steps": PaperSteps(step=0.05), "batch_size": 4}])
def test_equal_penalties_are_one_penalty(data, steps):
    settings = replace(SETTINGS, **steps)
    expected = learn_dictionary(data[1], 8, settings=settings, n_samples=300, rng=3)
    other = replace(settings, penalty=np.full(8, 0.05))
    assert_same(learn_dictionary(data[1], 8, settings=other, n_samples=300, rng=3), expected)


def test_the_objective_of_the_history_has_these_penalties(data):
    atoms, signals = data
    settings = replace(SETTINGS, penalty=PENALTIES, duration=500.0, time_step=None)
    learner = TwoPhaseLearner(TwoPhaseNetwork.consistent(atoms), settings, scale=5.0)
    expected = optimum(atoms, signals[:20], PENALTIES).objective.mean()
    assert learner.learn(signals[:20]) == pytest.approx(expected, rel=0.02)
    assert mean_objective(atoms, signals[:20], penalty=PENALTIES).objective == pytest.approx(expected)


@pytest.mark.thorough
@pytest.mark.parametrize("steps", [{}, {"steps": PaperSteps(step=0.05), "batch_size": 4}])
def test_learning_minimises_the_objective_with_these_penalties(data, steps):
    """An atom that costs much is used for little; the same dictionary with other atoms dear is worse."""
    atoms, signals = data
    settings = replace(SETTINGS, penalty=PENALTIES, **steps)
    learner = learn_dictionary(signals, settings=settings, start=atoms[::-1], n_samples=6000, rng=3)

    def objective(dictionary, penalties=PENALTIES):
        return mean_objective(dictionary, signals, penalty=penalties).objective

    assert objective(learner.dictionary) < 0.99 * objective(atoms[::-1])
    assert objective(learner.dictionary) < 0.97 * objective(learner.dictionary, PENALTIES[::-1])
    same = learn_dictionary(
        signals,
        settings=replace(settings, penalty=PENALTIES.mean()),
        start=atoms[::-1],
        n_samples=6000,
        rng=3,
    )
    assert objective(learner.dictionary) < objective(same.dictionary)


def test_atoms_observe_their_own_penalties(data):
    """What decays each atom by as much as keeps its norm at one."""
    atoms, signals = data
    network = TwoPhaseNetwork.consistent(atoms)
    phases = network.run(signals[:20], penalty=PENALTIES, duration=2000.0, initial_potential=0.5)
    g_d = rules.reconstruction_gradient(*phases)
    observed = rules.observed_penalty(network.feedforward, g_d, kappa=0.7)
    active = optimum(atoms, signals[:20], PENALTIES).codes > 0.05
    assert active.any(axis=0).all()
    expected = np.broadcast_to(PENALTIES, active.shape)
    np.testing.assert_allclose(observed[active], expected[active], rtol=0, atol=5e-3)


@pytest.mark.parametrize("n_batches", [0, 9])
def test_checkpoints_have_them(data, tmp_path, n_batches):
    signals = data[1]
    options = {"settings": replace(SETTINGS, penalty=PENALTIES), "n_samples": 400, "rng": 3}
    expected = learn_dictionary(signals, 8, n_jobs=2, **options)
    saved = {**options, "checkpoint": tmp_path / "learner.npz", "checkpoint_every": 32}
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, n_batches)
        with pytest.raises(StopHereError):
            learn_dictionary(signals, 8, **saved)
    again = learn_dictionary(signals, 8, **saved)
    assert_same(again, expected)
    assert again.settings == options["settings"]
    assert TwoPhaseLearner.load(tmp_path / "learner.npz").settings == options["settings"]
    with pytest.raises(ValueError, match="was made with other settings"):
        learn_dictionary(signals, 8, **{**saved, "settings": replace(SETTINGS, penalty=PENALTIES[::-1])})


GOOD = np.ones((4, 3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: LearningSettings(penalty=[0.1, 0.0]), ValueError, r"penalty must be positive; got 0.0 at \[1\]"),
        (lambda: LearningSettings(penalty=[0.1, -1.0]), ValueError, r"penalty must be positive; got -1.0 at \[1\]"),
        (lambda: LearningSettings(penalty=[0.1, np.nan]), ValueError, "penalty must be finite; got nan"),
        (lambda: LearningSettings(penalty=[]), ValueError, "penalty must not be empty"),
        (lambda: LearningSettings(penalty=["a"]), TypeError, "penalty must be an array of real numbers"),
        (lambda: LearningSettings(penalty="a"), TypeError, "penalty must be a real number; got str"),
        (lambda: LearningSettings(penalty=[[0.1]]), ValueError, r"penalty must have shape \(1,\), one for each atom; got shape \(1, 1\)"),
        (lambda: learn_dictionary(GOOD, 2, penalty=[0.1, 0.1, 0.1]), ValueError, "penalty must be one number, or one for each of 2 atoms; got 3"),
        (lambda: TwoPhaseLearner(random_network(2, 3, rng=0), LearningSettings(penalty=[0.1]), scale=1.0), ValueError, "penalty must be one number, or one for each of 2 atoms; got 1"),
        (lambda: new_learner(GOOD, 2, penalty=0.1).network.run(GOOD, penalty=[0.1, 0.0]), ValueError, r"penalty must be positive; got 0.0 at \[1\]"),
        (lambda: mean_objective(GOOD[:2], GOOD, penalty=[0.1, -0.1]), ValueError, r"penalty must be positive; got -0.1 at \[1\]"),
        (lambda: mean_objective(GOOD[:2], GOOD, penalty=[0.1]), ValueError, r"penalty must have shape \(2,\)"),
    ],
)  # fmt: skip
def test_nonsense_gets_one_clear_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()

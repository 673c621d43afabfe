"""Evaluation of dictionaries: closed forms, an independent solver, and planted atoms."""

# ruff: noqa: E501 - a case a line reads better

import numpy as np
import pytest

from dictlearn import evaluation
from dictlearn.evaluation import match_atoms, mean_objective
from solvers import LassoProblem
from solvers.certificate.optimality import objective
from tests.reference.problems import optimal_codes

PENALTY = 0.2
N_FEATURES, N_ATOMS, N_SIGNALS = 12, 18, 40


@pytest.fixture(scope="module")
def dictionary():
    """Non-negative atoms of norms 1/2 to 2."""
    rng = np.random.default_rng(0)
    atoms = rng.uniform(size=(N_ATOMS, N_FEATURES))
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True) * rng.uniform(0.5, 2.0, (N_ATOMS, 1))


@pytest.fixture(scope="module")
def signals(dictionary):
    rng = np.random.default_rng(1)
    codes = rng.uniform(size=(N_SIGNALS, N_ATOMS)) * (rng.uniform(size=(N_SIGNALS, N_ATOMS)) < 0.2)
    return codes @ dictionary + 0.05 * rng.uniform(size=(N_SIGNALS, N_FEATURES))


# -- the objective -------------------------------------------------------------------------------


def test_orthonormal_atoms_have_a_closed_form(signals):
    """a = max(x - penalty, 0) where the atoms are the axes; of norm 2, a = max(2 x - penalty, 0) / 4."""
    for scale in (1.0, 2.0):
        codes = np.maximum(scale * signals - PENALTY, 0.0) / scale**2
        expected = 0.5 * ((signals - scale * codes) ** 2).sum(axis=1) + PENALTY * codes.sum(axis=1)
        score = mean_objective(scale * np.eye(N_FEATURES), signals, penalty=PENALTY, normalise=False)
        assert score.objective == pytest.approx(expected.mean(), rel=1e-13)
        assert score.nonzeros == np.count_nonzero(codes) / N_SIGNALS
        assert score.worst_gap < 1e-14


@pytest.mark.parametrize("normalise", [True, False])
def test_objective_is_that_of_an_independent_solver(dictionary, signals, normalise):
    """scikit-learn's coordinate descent, at its finest."""
    atoms = dictionary / np.linalg.norm(dictionary, axis=1, keepdims=True) if normalise else dictionary
    problem = LassoProblem(atoms, signals, PENALTY, positive=True)
    expected = objective(problem, optimal_codes(problem)).mean()
    score = mean_objective(dictionary, signals, penalty=PENALTY, normalise=normalise)
    assert score.objective == pytest.approx(expected, rel=1e-9)


def test_norms_matter_only_for_the_raw_dictionary(dictionary, signals):
    scaled = 3.0 * dictionary
    once, again = (mean_objective(atoms, signals, penalty=PENALTY) for atoms in (dictionary, scaled))
    assert again.objective == pytest.approx(once.objective, rel=1e-13)
    raw = [
        mean_objective(atoms, signals, penalty=PENALTY, normalise=False).objective
        for atoms in (dictionary, scaled)
    ]
    assert raw[1] < 0.7 * raw[0]


def test_norms_near_the_ends_of_the_range_are_normalised(dictionary, signals):
    expected = mean_objective(dictionary, signals, penalty=PENALTY).objective
    for scale in (1e-200, 1e200):
        assert mean_objective(scale * dictionary, signals, penalty=PENALTY).objective == pytest.approx(
            expected
        )


def test_atoms_that_vanished_are_left_out(dictionary, signals):
    holes = np.insert(dictionary, [0, 5, N_ATOMS], 0.0, axis=0)
    assert vars(mean_objective(holes, signals, penalty=PENALTY)) == vars(
        mean_objective(dictionary, signals, penalty=PENALTY)
    )


def test_blocks_and_workers_change_nothing(dictionary, signals, monkeypatch):
    whole = mean_objective(dictionary, signals, penalty=PENALTY)
    assert vars(mean_objective(dictionary, signals, penalty=PENALTY, n_jobs=2)) == vars(whole)
    monkeypatch.setattr(evaluation, "VALUES_PER_BLOCK", 7 * N_ATOMS)
    parts = mean_objective(dictionary, signals, penalty=PENALTY)
    # The same codes, added up in another order.
    assert parts.objective == pytest.approx(whole.objective, rel=1e-14)
    assert parts.nonzeros == whole.nonzeros
    assert parts.worst_gap == whole.worst_gap


def test_signals_without_a_code(dictionary, signals):
    """A signal of zeros costs nothing, and one below the penalty its energy."""
    weak = 1e-3 * signals[:1]
    score = mean_objective(dictionary, np.vstack([np.zeros((1, N_FEATURES)), weak]), penalty=PENALTY)
    assert score.objective == pytest.approx(0.25 * (weak**2).sum(), rel=1e-14)
    assert score.nonzeros == 0.0
    # The bound on rounding of a gap that is zero.
    assert score.worst_gap <= 1e-300


# -- atoms that were to be found -----------------------------------------------------------------


def test_shuffled_and_scaled_atoms_are_found(dictionary):
    order = np.random.default_rng(2).permutation(N_ATOMS)
    match = match_atoms(5.0 * dictionary[order], dictionary)
    np.testing.assert_allclose(match.best_cosine, 1.0, rtol=1e-14)
    np.testing.assert_array_equal(order[match.best_atom], np.arange(N_ATOMS))
    np.testing.assert_array_equal(match.assigned_atom, match.best_atom)
    np.testing.assert_array_equal(match.assigned_cosine, match.best_cosine)


def test_one_atom_does_not_stand_for_two():
    """Both atoms are nearest to the first; the best assignment gives the second to whom it suits better."""
    dictionary = np.array([[1.0, 0.2], [0.0, 1.0]])
    other = np.array([[1.0, 0.0], [1.0, 1.0]])
    match = match_atoms(dictionary, other)
    cosines = other @ dictionary.T / np.outer([1.0, np.sqrt(2.0)], [np.sqrt(1.04), 1.0])
    assert match.best_atom.tolist() == [0, 0]
    np.testing.assert_allclose(match.best_cosine, cosines[:, 0])
    assert match.assigned_atom.tolist() == [0, 1]
    np.testing.assert_allclose(match.assigned_cosine, [cosines[0, 0], cosines[1, 1]])


def test_too_few_atoms_and_atoms_that_vanished():
    dictionary = np.array([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    match = match_atoms(dictionary, np.eye(3))
    assert match.best_cosine.tolist() == [0.0, 1.0, 0.0]
    assert match.assigned_cosine.tolist() == [0.0, 1.0, 0.0]
    assert sorted(match.assigned_atom.tolist()) == [-1, 0, 1]
    assert match.assigned_atom[1] == 1
    with pytest.raises(ValueError, match="read-only"):
        match.best_cosine[0] = 1.0


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mean_objective(np.zeros((2, 3)), np.ones((1, 3)), penalty=0.1), ValueError, "dictionary must not be all zero"),
        (lambda: mean_objective(np.ones((2, 3)), np.ones((1, 4)), penalty=0.1), ValueError, r"dictionary must have shape \(any, 4\)"),
        (lambda: mean_objective("D", np.ones((1, 4)), penalty=0.1), TypeError, "dictionary must be an array of real numbers"),
        (lambda: mean_objective(np.ones((2, 3)), np.ones(3), penalty=0.1), ValueError, r"signals must be 2-D"),
        (lambda: mean_objective(np.ones((2, 3)), np.ones((1, 3)), penalty=0.0), ValueError, "penalty must be positive; got 0.0"),
        (lambda: mean_objective(np.ones((2, 3)), np.ones((1, 3)), penalty=0.1, normalise=1), TypeError, "normalise must be True or False"),
        (lambda: mean_objective(np.ones((2, 3)), np.ones((1, 3)), penalty=0.1, n_jobs=0), ValueError, "n_jobs must not be 0"),
        (lambda: match_atoms(np.ones((2, 3)), np.ones((2, 4))), ValueError, r"dictionary must have shape \(any, 4\)"),
        (lambda: match_atoms(np.ones((2, 3)), np.eye(3) - np.diag([0, 1, 0])), ValueError, "other must have atoms of positive norm; got zeros for atom 1"),
    ],
)  # fmt: skip
def test_nonsense_gets_one_clear_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()

"""Evaluation of dictionaries, and warnings about signals that are hard to learn from."""

# ruff: noqa: E501 - a case a line reads better

import numpy as np
import pytest

from dictlearn import learn_dictionary, match_atoms, mean_objective
from dictlearn.atoms import unit_norm
from solvers import IllPosedWarning, LassoProblem
from solvers.certificate.optimality import objective
from tests.dictlearn.refused import each_refused
from tests.reference.costs import costs
from tests.reference.problems import optimal_codes

PENALTY = 0.2
N_FEATURES, N_ATOMS, N_SIGNALS = 12, 18, 40


@pytest.fixture(scope="module")
def dictionary():
    """Return non-negative atoms with norms from 1/2 to 2."""
    rng = np.random.default_rng(0)
    atoms = rng.uniform(size=(N_ATOMS, N_FEATURES))
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True) * rng.uniform(0.5, 2.0, (N_ATOMS, 1))


@pytest.fixture(scope="module")
def signals(dictionary):
    rng = np.random.default_rng(1)
    codes = rng.uniform(size=(N_SIGNALS, N_ATOMS)) * (rng.uniform(size=(N_SIGNALS, N_ATOMS)) < 0.2)
    return codes @ dictionary + 0.05 * rng.uniform(size=(N_SIGNALS, N_FEATURES))


def test_orthonormal_atoms_have_a_closed_form(signals):
    """If atoms are the axes, a = max(x - penalty, 0); with norm 2, a = max(2 x - penalty, 0) / 4."""
    for scale in (1.0, 2.0):
        codes = np.maximum(scale * signals - PENALTY, 0.0) / scale**2
        expected = 0.5 * ((signals - scale * codes) ** 2).sum(axis=1) + PENALTY * codes.sum(axis=1)
        score = mean_objective(scale * np.eye(N_FEATURES), signals, penalty=PENALTY, normalise=False)
        assert score.objective == pytest.approx(expected.mean(), rel=1e-13)
        assert score.nonzeros == np.count_nonzero(codes) / N_SIGNALS
        np.testing.assert_array_equal(score.usage, np.count_nonzero(codes, axis=0))
        assert score.worst_gap < 1e-14


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("normalise", [True, False])
def test_objective_is_that_of_an_independent_solver(dictionary, signals, normalise, positive):
    """The reference is scikit-learn's coordinate descent at its finest, with one penalty or one per atom."""
    atoms = dictionary / np.linalg.norm(dictionary, axis=1, keepdims=True) if normalise else dictionary
    for penalty in (PENALTY, np.linspace(0.1, 0.4, N_ATOMS)):
        problem = LassoProblem(atoms, signals, penalty, positive=positive)
        expected = objective(problem, optimal_codes(problem)).mean()
        options = {"penalty": penalty, "normalise": normalise, "positive_code": positive}
        score = mean_objective(dictionary, signals, **options)
        assert score.objective == pytest.approx(expected, rel=1e-9)
    np.testing.assert_equal(vars(mean_objective(dictionary, signals, n_jobs=2, **options)), vars(score))


def test_norms_units_blocks_and_atoms_that_vanished(dictionary, signals):
    score = mean_objective(dictionary, signals, penalty=PENALTY)
    for scale in (1e-200, 1e200):
        scaled = mean_objective(scale * dictionary, signals, penalty=PENALTY)
        assert scaled.objective == pytest.approx(score.objective, rel=1e-12)
    holes = np.insert(dictionary, [0, 5, N_ATOMS], 0.0, axis=0)
    usage = np.insert(score.usage, [0, 5, N_ATOMS], 0)
    with_holes = vars(mean_objective(holes, signals, penalty=PENALTY))
    np.testing.assert_equal(with_holes, {**vars(score), "usage": usage})
    with costs(codes_held=7 * N_ATOMS):
        parts = mean_objective(dictionary, signals, penalty=PENALTY)
    # In parts, the same objectives are added in another order.
    assert parts.objective == pytest.approx(score.objective, rel=1e-14)
    assert (parts.nonzeros, parts.worst_gap) == (score.nonzeros, score.worst_gap)


def test_atoms_are_found_and_none_stands_for_two(dictionary):
    """If one atom is nearest to two true atoms, the more similar one gets it; zero atoms match no atom."""
    order = np.random.default_rng(2).permutation(N_ATOMS)
    match = match_atoms(5.0 * dictionary[order], dictionary)
    np.testing.assert_allclose(match.best_cosine, 1.0, rtol=1e-14)
    np.testing.assert_array_equal(order[match.best_atom], np.arange(N_ATOMS))
    np.testing.assert_array_equal(match.assigned_atom, match.best_atom)
    one, other = np.array([[1.0, 0.2], [0.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])
    match = match_atoms(one, other)
    cosines = other @ one.T / np.outer([1.0, np.sqrt(2.0)], [np.sqrt(1.04), 1.0])
    assert match.best_atom.tolist() == [0, 0]
    np.testing.assert_allclose(match.best_cosine, cosines[:, 0])
    assert match.assigned_atom.tolist() == [0, 1]
    np.testing.assert_allclose(match.assigned_cosine, [cosines[0, 0], cosines[1, 1]])
    match = match_atoms(np.array([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]), np.eye(3))
    assert match.best_cosine.tolist() == match.assigned_cosine.tolist() == [0.0, 1.0, 0.0]
    assert sorted(match.assigned_atom.tolist()) == [-1, 0, 1]
    assert match.assigned_atom[1] == 1


@pytest.mark.parametrize("scale", [1.0, 2.0**-1000, 2.0**1000])
def test_atoms_are_scaled_to_unit_norm_wherever_they_are_in_the_range_of_floats(scale):
    """Results equal plain division to the bit; zeros stay zeros."""
    atoms = np.random.default_rng(0).normal(size=(5, 7))
    expected = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    atoms[2], expected[2] = 0.0, 0.0
    np.testing.assert_array_equal(unit_norm(scale * atoms), expected)


def score(dictionary=((1.0, 2.0, 3.0), (1.0, 0.0, 0.0)), signals=((1.0, 1.0, 1.0),), **options):
    return mean_objective(dictionary, signals, **{"penalty": 0.1, **options})


@each_refused(
    (score, ValueError, {"dictionary": [np.zeros((2, 3)), np.ones((2, 4))], "signals": [np.ones(3)], "penalty": [0.0, [0.1, -0.1], [0.1]], "n_jobs": [0]}),
    (score, TypeError, {"dictionary": ["D"], "normalise": [1], "positive_code": ["x"]}),
    (lambda: match_atoms(np.ones((2, 3)), np.ones((2, 4))), ValueError, "dictionary"),
    (lambda: match_atoms(np.ones((2, 3)), np.eye(3) - np.diag([0, 1, 0])), ValueError, "other .* atom 1"),
)  # fmt: skip
def test_what_is_refused_is_named(call, error, name):
    with pytest.raises(error, match=name):
        call()


def is_warned_of(signals, recwarn):
    recwarn.clear()
    learn_dictionary(signals, 2, penalty=1e6, n_samples=1, rng=0)
    return [str(warning.message) for warning in recwarn if warning.category is IllPosedWarning]


@pytest.mark.filterwarnings("always")
def test_one_signal_that_dominates_and_an_offset_are_said(recwarn):
    """Ten or more signals are warned of if one has most energy; 200 or more if their mean has 85 % of it."""
    for factor, rows, n, warned in (
        *((2.99, 10, 1, False), (3.01, 10, 1, True), (3.01, 9, 1, False)),
        *((11.0, 600, 5, True), (10.8, 600, 5, False), (11.0, 400, 5, False)),
    ):
        signals = np.vstack([np.ones((rows, 4)), np.zeros((3, 4))])
        signals[4 : 4 + n] *= factor
        found = is_warned_of(signals, recwarn)
        assert bool(found) is warned
        assert all("signals[4]" in sentence for sentence in found)
    for n_signals, share, warned in ((200, 0.86, True), (200, 0.84, False), (199, 0.86, False)):
        # The mean is (1, 1), and the signals deviate from the mean equally to both sides.
        offset = np.sqrt(1.0 / share - 1.0) * np.array([1.0, -1.0])
        signals = 1.0 + np.outer(np.where(np.arange(n_signals) % 2, 1.0, -1.0), offset)
        assert bool(is_warned_of(signals, recwarn)) is warned

"""The problem: what it keeps, what it refuses, what it computes."""

import pickle

import numpy as np
import pytest

from solvers import LassoProblem, solve_fista
from solvers.gram.gram import gram_of
from tests.reference.problems import random_codes, random_problem


def test_derived_values_are_those_of_the_notation():
    problem = random_problem(unit_norm=False)
    dictionary, signals = problem.dictionary, problem.signals
    assert (problem.n_signals, problem.n_atoms, problem.n_features) == (3, 40, 20)
    np.testing.assert_allclose(problem.gram, dictionary @ dictionary.T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(problem.squared_norms, np.diagonal(problem.gram), rtol=1e-14)
    np.testing.assert_allclose(problem.correlations, signals @ dictionary.T, rtol=0, atol=1e-12)
    np.testing.assert_allclose(problem.energies, 0.5 * (signals**2).sum(axis=1), rtol=1e-14)
    codes = random_codes(problem)
    np.testing.assert_allclose(problem.reconstruct(codes), codes @ dictionary, rtol=0, atol=1e-13)


def test_arrays_that_fit_are_not_copied_and_none_can_be_written():
    dictionary, signals = np.eye(4), np.ones((2, 4))
    problem = LassoProblem(dictionary, signals, 0.1)
    assert np.shares_memory(problem.dictionary, dictionary)
    assert np.shares_memory(problem.signals, signals)
    names = ("dictionary", "signals", "l1_weights", "curvatures", "squared_norms", "energies", "gram")
    for name in (*names, "correlations"):
        assert not getattr(problem, name).flags.writeable
    assert dictionary.flags.writeable


def test_one_penalty_stands_for_all_atoms():
    np.testing.assert_array_equal(LassoProblem(np.eye(3), np.eye(3), 0.5).l1_weights, [0.5, 0.5, 0.5])
    each = LassoProblem(np.eye(3), np.eye(3), [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(each.l1_weights, [0.1, 0.2, 0.3])


@pytest.mark.parametrize("made_before", [False, True])
@pytest.mark.parametrize("which", [slice(1, 3), slice(None, None, 2), np.array([3, 0])])
def test_subset_is_the_problem_of_some_signals(which, made_before):
    problem = random_problem(n_signals=4)
    if made_before:
        _ = problem.gram, problem.correlations
    part = problem.subset(which)
    assert part.dictionary is problem.dictionary
    for name in ("signals", "energies", "correlations"):
        np.testing.assert_array_equal(getattr(part, name), getattr(problem, name)[which])
        assert getattr(part, name).flags.c_contiguous
        assert not getattr(part, name).flags.writeable


@pytest.mark.parametrize(("n_features", "n_atoms"), [(77, 301), (1024, 515), (1024, 1025), (3, 5)])
def test_products_of_a_row_do_not_depend_on_the_other_rows(n_features, n_atoms):
    """Nor on whether a large dictionary is gone through part by part."""
    problem = random_problem(n_features=n_features, n_atoms=n_atoms, n_signals=20)
    codes = random_codes(problem)
    correlations = problem.correlate(problem.signals)
    np.testing.assert_allclose(
        correlations, problem.signals @ problem.dictionary.T, rtol=0, atol=1e-13 * n_features
    )
    for rows in (slice(0, 1), slice(3, 5), slice(4, 11)):
        np.testing.assert_array_equal(correlations[rows], problem.correlate(problem.signals[rows]))
        np.testing.assert_array_equal(problem.reconstruct(codes)[rows], problem.reconstruct(codes[rows]))


def test_gram_at_hand_is_used():
    dictionary = np.random.default_rng(0).standard_normal((5, 8))
    gram = dictionary @ dictionary.T
    problem = LassoProblem(dictionary, np.ones((1, 8)), 0.1, gram=gram)
    assert np.shares_memory(problem.gram, gram)


@pytest.mark.parametrize("atom", [0, 4])
@pytest.mark.parametrize("symmetric", [True, False])
def test_wrong_gram_is_refused_whatever_the_norm_of_the_atom_it_is_wrong_for(atom, symmetric):
    dictionary = np.random.default_rng(0).standard_normal((5, 8))
    dictionary[4] *= 1e-6
    gram = dictionary @ dictionary.T
    other = (atom + 1) % 5
    wrong = gram.copy()
    wrong[atom, other] *= 1.001
    if symmetric:
        wrong[other, atom] = wrong[atom, other]
    LassoProblem(dictionary, np.ones((1, 8)), 0.1, gram=gram)
    with pytest.raises(ValueError, match=r"gram must be dictionary @ dictionary\.T"):
        LassoProblem(dictionary, np.ones((1, 8)), 0.1, gram=wrong)


def one_atom_changed(dictionary):
    dictionary[500, 3] *= 1.001
    return dictionary @ dictionary.T


WRONG_GRAMS = {
    "atoms in another order": lambda dictionary: dictionary[::-1] @ dictionary[::-1].T,
    "two atoms exchanged": lambda dictionary: (
        dictionary[[1, 0, *range(2, len(dictionary))]] @ dictionary[[1, 0, *range(2, len(dictionary))]].T
    ),
    "one atom changed a little": one_atom_changed,
    "the sign of an atom": lambda dictionary: (
        ((sign := np.where(np.arange(len(dictionary)) == 700, -1.0, 1.0)[:, np.newaxis]) * dictionary)
        @ (sign * dictionary).T
    ),
    "other units": lambda dictionary: 4.0 * dictionary @ dictionary.T,
    "correlations, not products": lambda dictionary: np.corrcoef(dictionary),
    "upper triangle": lambda dictionary: np.triu(dictionary @ dictionary.T),
    "lower triangle": lambda dictionary: np.tril(dictionary @ dictionary.T),
    "not symmetric": lambda dictionary: (
        dictionary @ dictionary.T + 1e-3 * np.triu(np.ones((len(dictionary), len(dictionary))), 1)
    ),
    "single precision": lambda dictionary: dictionary.astype(np.float32) @ dictionary.astype(np.float32).T,
    "of the features": lambda dictionary: dictionary.T @ dictionary,
    "another diagonal": lambda dictionary: dictionary @ dictionary.T + 1e-3 * np.eye(len(dictionary)),
    "a column that is not finite": lambda dictionary: np.where(
        np.arange(len(dictionary)) == 600, np.nan, dictionary @ dictionary.T
    ),
}


@pytest.mark.parametrize("wrong", WRONG_GRAMS.values(), ids=WRONG_GRAMS)
def test_wrong_gram_of_a_large_dictionary_is_refused(wrong):
    """Of more than 511 atoms, not every row is read."""
    dictionary = np.random.default_rng(0).standard_normal((1100, 20))
    LassoProblem(dictionary, np.ones((1, 20)), 0.1, gram=dictionary @ dictionary.T)
    with pytest.raises(ValueError, match="gram must"):
        LassoProblem(dictionary, np.ones((1, 20)), 0.1, gram=wrong(dictionary.copy()))


def test_a_right_gram_is_taken_whatever_the_norms_of_its_atoms():
    dictionary = np.random.default_rng(0).standard_normal((60, 8))
    dictionary *= 10.0 ** np.random.default_rng(1).uniform(-8, 8, (60, 1))
    gram = dictionary @ dictionary.T
    assert LassoProblem(dictionary, np.ones((1, 8)), 0.1, gram=gram).has_gram
    gram[17, 3] *= 1.001
    with pytest.raises(ValueError, match=r"gram must be dictionary @ dictionary\.T"):
        LassoProblem(dictionary, np.ones((1, 8)), 0.1, gram=gram)


def test_scale_that_floating_point_cannot_hold_is_refused():
    for scale in (1e-150, 1e160):
        with pytest.raises(ValueError, match="signals must have rows of squared norm between 1e-292"):
            LassoProblem(np.eye(3), scale * np.ones((2, 3)), 1.0)
        with pytest.raises(ValueError, match="dictionary must have rows of squared norm between 1e-292"):
            LassoProblem(scale * np.eye(3), np.ones((2, 3)), 1.0)
    with pytest.raises(ValueError, match="dictionary must have an atom of positive norm; got zeros only"):
        LassoProblem(np.zeros((2, 3)), np.ones((2, 3)), 1.0)
    LassoProblem(np.diag([1.0, 0.0, 1.0]), np.ones((2, 3)), 1.0)
    LassoProblem(np.eye(3), np.zeros((2, 3)), 1.0)


def test_a_pickled_gram_matrix_is_read_only():
    """A kernel would be compiled once more for one that may be written."""
    problem = random_problem(n_signals=2)
    gram = pickle.loads(pickle.dumps(gram_of(problem)))
    assert not gram._gram.flags.writeable
    np.testing.assert_array_equal(gram._gram, problem.gram)


def test_problem_survives_a_pickle():
    problem = random_problem(positive=True)
    _ = problem.gram
    copy = pickle.loads(pickle.dumps(problem))
    assert copy.positive
    assert copy.has_gram
    np.testing.assert_array_equal(solve_fista(copy).codes, solve_fista(problem).codes)


@pytest.mark.parametrize("which", [1, slice(0, 0), []])
def test_a_subset_has_signals(which):
    problem = LassoProblem(np.eye(3), np.ones((4, 3)), 0.1)
    with pytest.raises(ValueError, match="which must select one or more signals by a slice or a list; got"):
        problem.subset(np.array(which, dtype=int) if which == [] else which)


def test_a_mask_has_a_bool_for_each_signal():
    problem = LassoProblem(np.eye(3), np.arange(1.0, 13.0).reshape(4, 3), 0.1)
    part = problem.subset([True, False, False, True])
    np.testing.assert_array_equal(part.signals, problem.signals[[0, 3]])
    with pytest.raises(ValueError, match="which must have one bool for each of the 4 signals; got 2"):
        problem.subset([True, False])


@pytest.mark.parametrize(
    ("which", "error", "message"),
    [
        ([0, 4], ValueError, "which must select among 4 signals, counted from 0; got 4"),
        ([-5], ValueError, "which must select among 4 signals, counted from 0; got -5"),
        ([0.5], TypeError, r"which must be a slice, or an array of integers or bools; got \[0.5\]"),
        ("first", TypeError, "which must be a slice, or an array of integers or bools; got 'first'"),
        ([[0, 1]], ValueError, "which must select one or more signals by a slice or a list; got"),
    ],
)
def test_signals_that_do_not_exist_are_refused(which, error, message):
    with pytest.raises(error, match=message):
        LassoProblem(np.eye(3), np.ones((4, 3)), 0.1).subset(which)


@pytest.mark.parametrize(
    ("atoms", "error", "message"),
    [
        ([0, 3], ValueError, r"atoms must lie in \[0, 3\); got 3"),
        ([-1], ValueError, r"atoms must lie in \[0, 3\); got -1"),
        ([0.0], TypeError, "atoms must be an array of integers; got dtype float64"),
        ([True, False, True], TypeError, "atoms must be an array of integers; got dtype bool"),
        (1, ValueError, r"atoms must be 1-D, one number a row; got shape \(\)"),
    ],
)
def test_rows_of_atoms_that_do_not_exist_are_refused(atoms, error, message):
    problem = LassoProblem(np.eye(3), np.ones((4, 3)), 0.1)
    np.testing.assert_array_equal(problem.gram_rows([2, 0]), np.eye(3)[[2, 0]])
    assert problem.gram_rows([]).shape == (0, 3)
    with pytest.raises(error, match=message):
        problem.gram_rows(atoms)


def test_products_with_rows_of_another_length_are_refused():
    problem = LassoProblem(np.ones((2, 3)), np.ones((4, 3)), 0.1)
    for wrong in (np.ones(3), np.ones((1, 2)), np.ones((1, 1, 3))):
        with pytest.raises(ValueError, match=r"signals must be 2-D, with rows of 3 numbers; got shape"):
            problem.correlate(wrong)
    for wrong in (np.ones(2), np.ones((1, 3))):
        with pytest.raises(ValueError, match=r"codes must be 2-D, with rows of 2 numbers; got shape"):
            problem.reconstruct(wrong)
    with pytest.raises(ValueError, match=r"got shape \(3,\): for one signal pass signal\[np.newaxis\]"):
        problem.correlate(np.ones(3))


def test_parts_share_the_dictionary_and_what_is_known_of_it_by_then():
    """What one of them has computed later is its own: no timing of another gets it for nothing."""
    problem = random_problem(n_signals=4)
    before = problem.subset(slice(0, 2))
    assert before.atoms is problem.atoms
    _ = problem.gram
    assert not before.has_gram
    after = problem.subset(slice(0, 2))
    assert after.gram is problem.gram

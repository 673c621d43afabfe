"""Parts of active sets: factors, parts of Gram matrices, sweeps over grids, windows, working sets."""

import numpy as np
import pytest

from solvers import ConvolutionalDictionary, LassoProblem, memory_limit, solve_active_set
from solvers._kernels import sweeps
from solvers._kernels.factor import Terms, enter, join, leave, new_working_set
from solvers._kernels.products import GramMatrix
from solvers.gram.convolutional import ActiveSetSearch, gram_part, windows_of
from solvers.gram.nested_dissection import Factor
from tests.reference.convolutions import GEOMETRIES, image_problem, long_signal, random_dictionary

pytestmark = pytest.mark.filterwarnings("ignore::solvers.IllPosedWarning")
# Residual of the solved equations: rounding errors, 1e-16 times sums of some hundred products.
ROUNDING = 1e-13

# -- the factor of an active set ---------------------------------------------------------------------


def members(dictionary, correlations, l1_weights, curvatures):
    """Return all atoms of a dictionary as members."""
    n_atoms = len(dictionary)
    gram = dictionary @ dictionary.T
    terms = Terms(
        correlations[np.newaxis], l1_weights, curvatures, np.ones(n_atoms), np.ones(n_atoms, dtype=np.bool_)
    )
    work = new_working_set(n_atoms)
    for atom in range(n_atoms):
        join(work, atom, GramMatrix(gram), terms, 0, atom)
    return work


@pytest.mark.parametrize("n_block", [1, 3, 8, 20])
@pytest.mark.parametrize("largest_curvature", [0.0, 0.5])
def test_factor_after_entering_and_leaving_is_that_of_the_remaining_atoms(n_block, largest_curvature):
    """Twin: U against NumPy's Cholesky factor of the signed Gram matrix, z against its equations."""
    rng = np.random.default_rng(5)
    dictionary = rng.standard_normal((30, 40))
    curvatures = largest_curvature * rng.random(30)
    gram = dictionary @ dictionary.T + np.diag(curvatures)
    correlations, l1_weights = rng.standard_normal(30), rng.uniform(0.1, 0.2, 30)
    work = members(dictionary, correlations, l1_weights, curvatures)
    np.testing.assert_array_equal(work.gram, gram)
    places, signs = rng.permutation(30), rng.choice([-1.0, 1.0], 30)
    size = 0
    for start in range(0, 30, n_block):
        stop = min(start + n_block, 30)
        size = enter(work, size, places[start:stop], signs[start:stop], stop - start)
    for leaving in (29, 0, 13, 5, 5, 24):
        leave(work, size, leaving)
        size -= 1
        places, signs = np.delete(places, leaving), np.delete(signs, leaving)
    np.testing.assert_array_equal(work.active[:size], places)
    np.testing.assert_array_equal(work.sign[:size], signs)
    signed = gram[np.ix_(places, places)] * np.outer(signs, signs)
    factor = np.triu(work.factor[:size, :size])
    # The condition of the matrix is about 1e4.
    np.testing.assert_allclose(factor, np.linalg.cholesky(signed).T, rtol=0, atol=1e-10)
    drive = signs * correlations[places] - l1_weights[places]
    np.testing.assert_allclose(factor.T @ work.image[:size], drive, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("curvature", "entered"), [(0.0, 2), (0.5, 4)])
def test_dependent_atoms_do_not_enter_unless_they_have_curvature(curvature, entered):
    dictionary = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [-1.0, 0.0]])
    work = members(dictionary, np.ones(4), np.full(4, 0.1), np.full(4, curvature))
    assert enter(work, 0, np.array([0, 3, 1, 2]), np.ones(4), 4) == entered
    np.testing.assert_array_equal(work.active[:entered], [0, 1] if entered == 2 else [0, 3, 1, 2])


# -- grids -------------------------------------------------------------------------------------------


def part_of(dictionary, chosen, seed=2):
    """Return a part of the Gram matrix with random curvatures, and this part as an array."""
    array = dictionary.toarray()
    rng = np.random.default_rng(seed)
    atoms = np.flatnonzero(rng.uniform(size=len(array)) < chosen)
    curvatures = rng.uniform(0.0, 2.0, len(atoms))
    return gram_part(dictionary, atoms, curvatures), array[atoms] @ array[atoms].T + np.diag(curvatures)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("chosen", [0.0, 0.3, 1.0])
def test_a_part_of_the_gram_matrix_is_that_of_the_array(geometry, chosen):
    part, gram = part_of(random_dictionary(geometry), chosen)
    columns = np.zeros(gram.shape)
    for column, unit in zip(columns, np.eye(len(gram)), strict=True):
        sweeps.multiply(part, unit, column)
    # Sums of at most a few hundred products of numbers below a hundred.
    np.testing.assert_allclose(columns, gram, rtol=0, atol=1e-12)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("chosen", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("n_least", [0, 4, 1000])
def test_the_factor_solves_the_equations_of_the_array(geometry, chosen, n_least):
    part, gram = part_of(random_dictionary(geometry), chosen)
    diagonal = np.random.default_rng(3).uniform(1.0, 2.0, len(gram))
    aim = np.random.default_rng(4).standard_normal(len(gram))
    damped = gram + 0.5 * np.diag(diagonal)
    exact = np.linalg.solve(damped, aim)
    # The tolerance is rounding times the condition, which is below 1e4.
    np.testing.assert_allclose(Factor(part, diagonal, 0.5, n_least).solve(aim), exact, rtol=0, atol=1e-11)


def test_a_matrix_that_is_not_positive_definite_is_refused():
    part, gram = part_of(random_dictionary(GEOMETRIES[0]), 0.3)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        Factor(part, np.ones(len(gram)), -1e3)


@pytest.mark.thorough
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("positive", [True, False])
def test_sweeps_are_coordinate_descent(geometry, positive):
    """Sweeps go over all coefficients, then over nonzero ones; kernels at one position take turns, twice."""
    problem = image_problem(geometry, positive=positive)
    search = ActiveSetSearch(problem, problem.atoms.squared_norms, np.arange(0), np.zeros(0))
    array, penalty = problem.dictionary.toarray(), problem.l1_weights
    expected = np.zeros(problem.n_atoms)
    n_kernels = problem.dictionary.n_kernels

    def descend(over):
        for first in range(0, problem.n_atoms, n_kernels):
            for i in [*range(first, first + n_kernels)] * sweeps.PASSES:
                if over == "all" or expected[i]:
                    left = problem.signals[0] - expected @ array
                    stepped = array[i] @ left + problem.atoms.squared_norms[i] * expected[i]
                    shrunk = max(stepped - penalty[i], 0.0)
                    shrunk += 0.0 if positive else min(stepped + penalty[i], 0.0)
                    expected[i] = shrunk / problem.atoms.squared_norms[i]

    drift, grid, terms = np.zeros(len(search.code)), search._grid, search._terms
    descend("all")
    n_changes = sweeps.sweep(grid, terms, False, 0.0, search.code, search.image, drift)
    np.testing.assert_allclose(search.code.ravel(), expected, rtol=0, atol=1e-11)
    assert n_changes >= np.count_nonzero(expected) > 1
    assert drift.any()
    descend("support")
    sweeps.sweep(grid, terms, True, 0.0, search.code, search.image, drift)
    np.testing.assert_allclose(search.code.ravel(), expected, rtol=0, atol=1e-11)
    left = problem.signals[0] - search.code.ravel() @ array
    np.testing.assert_allclose(search.image.ravel(), left, rtol=0, atol=1e-11)
    before = search.code.copy()
    sweeps.sweep(grid, terms, True, np.inf, search.code, search.image, drift)
    np.testing.assert_array_equal(search.code, before)


def windows(problem):
    """Return the windows of a problem, if it has any."""
    diagonal = problem.atoms.squared_norms + problem.curvatures
    return windows_of(problem, diagonal.reshape(-1, problem.dictionary.n_kernels))


def test_a_window_is_solved_exactly_and_leaves_the_others():
    problem = long_signal()
    diagonal = (problem.atoms.squared_norms + problem.curvatures).reshape(-1, 3)
    search = ActiveSetSearch(problem, diagonal, np.empty(0, dtype=np.int64), np.empty(0))
    found = windows(problem)
    starts = np.arange(0, len(search.code) - found.n_positions + 1, found.n_positions)
    first, others = starts[::2], starts[1::2]
    assert found.solve(first, search.code, problem.correlations.reshape(-1, 3)) > 0
    inside = (first[:, np.newaxis] + np.arange(found.n_positions)).ravel()
    outside = (others[:, np.newaxis] + np.arange(found.n_positions)).ravel()
    assert search.code[inside].any()
    assert not search.code[outside].any()
    left = problem.signals - problem.reconstruct(search.code.reshape(1, -1))
    excess = np.abs(problem.atoms.correlate(left).reshape(-1, 3)) - problem.l1_weights.reshape(-1, 3)
    largest = np.abs(problem.correlations).max()
    assert excess[inside].max() <= ROUNDING * largest < excess[outside].max()


def test_where_windows_do_not_pay_there_are_none():
    problem = long_signal()
    weights = problem.l1_weights.copy()
    assert windows(LassoProblem(problem.dictionary, problem.signals, weights)) is not None
    weights[5] *= 2.0
    uneven = LassoProblem(problem.dictionary, problem.signals, weights)
    assert windows(uneven) is None
    assert solve_active_set(uneven, tol=1e-12).converged
    short = ConvolutionalDictionary(problem.dictionary.kernels[:, 0], 50, 1)
    assert windows(LassoProblem(short, problem.signals[:, :50], 1.0)) is None
    with memory_limit(1e3):
        assert windows(LassoProblem(problem.dictionary, problem.signals, 1.0)) is None

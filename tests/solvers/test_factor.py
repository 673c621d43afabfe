"""The Cholesky factor of an active set, which is updated when atoms enter and leave."""

import numpy as np
import pytest

from solvers._kernels.active_set import join
from solvers._kernels.factor import Terms, enter, leave, new_working_set
from solvers._kernels.products import GramMatrix


def working_set(dictionary, correlations, l1_weights, curvatures):
    """All atoms of a dictionary as members."""
    n_atoms = len(dictionary)
    gram = dictionary @ dictionary.T
    terms = Terms(correlations[np.newaxis], l1_weights, curvatures, np.ones(n_atoms), True)
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
    work = working_set(dictionary, correlations, l1_weights, curvatures)
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
    # Condition 1e4 or so.
    np.testing.assert_allclose(factor, np.linalg.cholesky(signed).T, rtol=0, atol=1e-10)
    drive = signs * correlations[places] - l1_weights[places]
    np.testing.assert_allclose(factor.T @ work.image[:size], drive, rtol=0, atol=1e-12)


def test_dependent_atoms_do_not_enter():
    dictionary = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [-1.0, 0.0]])
    work = working_set(dictionary, np.ones(4), np.full(4, 0.1), np.zeros(4))
    assert enter(work, 0, np.array([0, 3, 1, 2]), np.ones(4), 4) == 2
    np.testing.assert_array_equal(work.active[:2], [0, 1])


def test_with_curvature_no_atom_depends_on_others():
    dictionary = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [-1.0, 0.0]])
    work = working_set(dictionary, np.ones(4), np.full(4, 0.1), np.full(4, 0.5))
    assert enter(work, 0, np.array([0, 3, 1, 2]), np.ones(4), 4) == 4

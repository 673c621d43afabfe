"""Learners to compare the network with agree with steps by hand and slow twins, or find planted atoms."""

import numpy as np
import pytest
import sklearn
from sklearn.utils.fixes import parse_version

from dictlearn import random_dictionary
from dictlearn.resumable import batches_in_order, seed_of_order
from examples._baselines import learn_by_gradient_descent, learn_with_scikit_learn
from solvers import LassoProblem
from tests.reference.problems import optimal_codes

pytestmark = pytest.mark.thorough

PENALTY = 0.1
N_FEATURES, N_ATOMS = 16, 8


@pytest.fixture(scope="module")
def planted():
    """Return sparse atoms, and signals made of two or three of them."""
    rng = np.random.default_rng(0)
    atoms = rng.uniform(size=(N_ATOMS, N_FEATURES)) * (rng.uniform(size=(N_ATOMS, N_FEATURES)) < 0.3) + 0.01
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = rng.uniform(0.5, 1.5, (600, N_ATOMS)) * (rng.uniform(size=(600, N_ATOMS)) < 0.3)
    return atoms, codes @ atoms


@pytest.fixture(scope="module")
def signals(planted):
    return planted[1]


@pytest.fixture(scope="module")
def start():
    return random_dictionary(N_ATOMS, N_FEATURES, rng=3)


# -- plain gradient descent ----------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3])
def test_gradient_steps_by_hand(signals, start, batch_size):
    """Optimal codes come from scikit-learn, and atoms are projected."""
    curve = learn_by_gradient_descent(
        signals, start=2.0 * start, penalty=PENALTY, n_samples=12, step=0.3,
        batch_size=batch_size, marks=range(0, 13, batch_size), rng=7,
    )  # fmt: skip
    dictionary = start.copy()
    np.testing.assert_allclose(curve.dictionaries[0], dictionary, rtol=1e-14)
    batches = batches_in_order(len(signals), 12, batch_size=batch_size, seed=seed_of_order(7))
    for batch, learned in zip(batches, curve.dictionaries[1:], strict=True):
        codes = optimal_codes(LassoProblem(dictionary, signals[batch], PENALTY, positive=True))
        gradient = codes.T @ (codes @ dictionary - signals[batch])
        dictionary = np.maximum(dictionary - 0.3 * gradient, 0.0)
        dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
        # The tolerance allows for errors of scikit-learn's codes, through up to twelve steps.
        np.testing.assert_allclose(learned, dictionary, rtol=0, atol=1e-6)
    assert np.abs(dictionary - start).max() > 0.05


# -- others' programs ----------------------------------------------------------------------------


def online_learning(batches, start, penalty, n_counted, weight_of_start):
    """The online algorithm of Mairal and others (2009), codes from scikit-learn's Lasso.

    The sufficient statistics of the past fade as if `n_counted(step, batch size)` samples had been seen.
    """
    dictionary = start.copy()
    gram, correlations = weight_of_start * np.eye(len(start)), weight_of_start * start
    for step, signals in enumerate(batches):
        codes = optimal_codes(LassoProblem(dictionary, signals, penalty, positive=True))
        size = len(signals)
        counted = n_counted(step, size)
        keep = (counted + 1 - size) / (counted + 1)
        gram = keep * gram + codes.T @ codes / size
        correlations = keep * correlations + codes.T @ signals / size
        assert np.diagonal(gram).min() > 1e-6  # both programs treat unused atoms differently
        for k in range(len(dictionary)):
            atom = dictionary[k] + (correlations[k] - gram[k] @ dictionary) / gram[k, k]
            atom = np.maximum(atom, 0.0)
            dictionary[k] = atom / max(np.linalg.norm(atom), 1.0)
    return dictionary


# scikit-learn before 1.8 warns at a gap of zero.
@pytest.mark.filterwarnings("ignore:Objective did not converge")
def test_scikit_learn_minimises_our_objective(signals, start):
    """If the penalty or the scale meant something else, the atoms would differ after five batches."""
    options = {"penalty": PENALTY, "n_samples": 200, "batch_size": 40, "rng": 9}
    learned = learn_with_scikit_learn(signals, start=start, **options).dictionary
    order = batches_in_order(len(signals), 200, batch_size=40, seed=seed_of_order(9))
    expected = online_learning(
        [signals[batch] for batch in order],
        start,
        PENALTY,
        lambda step, size: (step + 1) * size if step < size - 1 else size**2 + step + 1 - size,
        0.0,
    )
    # scikit-learn's codes are good to a gap of 1e-8, but those of releases before 1.8 are not.
    atol = 1e-4 if parse_version(sklearn.__version__) >= parse_version("1.8") else 1e-3
    np.testing.assert_allclose(learned, expected, rtol=0, atol=atol)
    assert np.abs(expected - start).max() > 0.1


def test_spams_learns_from_the_same_samples_in_the_same_order(signals, start):
    """SPAMS also minimises our objective: after each batch, its dictionary equals that of the slow twin."""
    pytest.importorskip("spams")
    from tests.reference.spams_dictionary import learn_with_spams

    curve = learn_with_spams(
        signals, start=start, penalty=PENALTY, n_samples=200, batch_size=40, marks=[0, 40, 80, 200], rng=9
    )
    assert curve.n_samples.tolist() == [0, 40, 80, 200]
    order = batches_in_order(len(signals), 200, batch_size=40, seed=seed_of_order(9))
    batches = [signals[batch] for batch in order]
    for n_samples, learned in zip(curve.n_samples, curve.dictionaries, strict=True):
        # SPAMS counts the samples before the batch, and starts with 1e-5 of a sample for each atom.
        expected = online_learning(
            batches[: n_samples // 40], start, PENALTY, lambda step, size: step * size, 1e-5
        )
        np.testing.assert_allclose(learned, expected, rtol=0, atol=1e-6)

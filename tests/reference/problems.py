"""Random problems of sparse coding that the tests of the solvers share."""

import numpy as np
from sklearn.linear_model import Lasso

from solvers import LassoProblem
from solvers.certificate.optimality import measure, penalty_max


def random_problem(
    n_features=20,
    n_atoms=40,
    *,
    n_signals=3,
    share=0.1,
    positive=False,
    coherence=0.0,
    n_duplicates=0,
    penalty=1.0,
    unit_norm=True,
    seed=0,
):
    """Sparse combinations of atoms, plus noise.

    Atoms have inner products near `coherence`; the last `n_duplicates` repeat the first ones.  Signals
    are scaled so that with ``penalty=1`` the penalty is `share` of the one at which their code is zero.
    """
    rng = np.random.default_rng(seed)
    dictionary = np.sqrt(1.0 - coherence) * rng.standard_normal((n_atoms, n_features))
    dictionary += np.sqrt(coherence) * rng.standard_normal(n_features)
    if unit_norm:
        dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    else:
        dictionary *= rng.uniform(0.3, 3.0, (n_atoms, 1))
    if n_duplicates:
        dictionary[-n_duplicates:] = dictionary[:n_duplicates]
    codes = rng.standard_normal((n_signals, n_atoms)) * (rng.random((n_signals, n_atoms)) < 0.1)
    if positive:
        codes = np.abs(codes)
    signals = codes @ dictionary + 0.01 * rng.standard_normal((n_signals, n_features))
    largest = penalty_max(dictionary, signals, positive=positive)
    # A signal with no atom along it is turned round, and has one.
    signals[largest == 0.0] *= -1.0
    largest = penalty_max(dictionary, signals, positive=positive)
    signals /= share * largest[:, np.newaxis]
    return LassoProblem(dictionary, signals, penalty, positive=positive)


def random_codes(problem, *, density=0.2, scale=1.0, seed=0):
    """Codes that are feasible and otherwise arbitrary."""
    rng = np.random.default_rng(seed)
    codes = scale * rng.standard_normal((problem.n_signals, problem.n_atoms))
    codes *= rng.random(codes.shape) < density
    return np.abs(codes) if problem.positive else codes


def require_certified(problem, result):
    """The figures of a result are those of `solvers.certificate.optimality`, to rounding."""
    figures = measure(problem, result.sparse_codes)
    atol = 1e-13 * (problem.energies + figures.objective)
    assert (np.abs(result.objective - figures.objective) <= atol).all()
    assert (np.abs(result.duality_gap - figures.duality_gap) <= atol).all()


def optimal_codes(problem):
    """The codes according to scikit-learn's Lasso at its finest, by itself.

    Penalties that differ are made equal by dividing each atom by its own.
    """
    atoms = problem.dictionary / problem.l1_weights[:, np.newaxis]
    model = Lasso(
        alpha=1.0 / problem.n_features,
        fit_intercept=False,
        positive=problem.positive,
        tol=1e-10,
        max_iter=1_000_000,
    )
    solutions = [model.fit(atoms.T, signal).coef_ for signal in problem.signals]
    return np.array(solutions) / problem.l1_weights

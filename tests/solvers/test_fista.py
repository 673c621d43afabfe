"""FISTA: its steps, its stopping rule, its batches."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from solvers import LassoProblem, Status, solve_fista
from solvers.certificate.optimality import objective
from solvers.methods import fista
from solvers.problem.dense_dictionary import DenseDictionary
from tests.reference.problems import optimal_codes, random_problem, require_certified


@pytest.mark.parametrize("positive", [True, False])
def test_orthonormal_dictionary_takes_one_step(positive):
    """L = 1, and the first step lands on the soft threshold of b."""
    problem = LassoProblem(np.eye(3), [[2.0, -1.0, 0.3]], 0.5, positive=positive)
    result = solve_fista(problem, tol=1e-14, max_iter=1)
    np.testing.assert_allclose(result.codes, [[1.5, 0.0 if positive else -0.5, 0.0]], rtol=0, atol=1e-15)
    assert result.n_steps == 1
    assert result.method == "fista"


@pytest.mark.parametrize("shape", [(1, 5), (7, 1), (40, 40), (100, 300), (300, 100)])
@pytest.mark.parametrize("unit_norm", [True, False])
def test_largest_eigenvalue_is_not_below_the_true_one_nor_much_above(shape, unit_norm):
    dictionary = random_problem(shape[1], shape[0], unit_norm=unit_norm).dictionary
    norms = np.linalg.norm(dictionary, axis=1)
    largest = np.linalg.norm(dictionary / norms[:, np.newaxis], ord=2) ** 2
    found = DenseDictionary(dictionary).largest_eigenvalue()
    assert largest * (1 - 1e-12) <= found <= largest * 1.002


@pytest.mark.parametrize("share", [0.01, 0.3])
@pytest.mark.parametrize("max_iter", [1, 3, 10, 30, 100])
def test_objective_falls_as_fast_as_the_theory_says(share, max_iter):
    """Beck and Teboulle, Theorem 4.4: E(a_k) - E* <= 2 L ||a*||^2 / (k + 1)^2 from a_0 = 0."""
    problem = random_problem(share=share)
    best = optimal_codes(problem)
    lipschitz = np.linalg.norm(problem.dictionary, ord=2) ** 2
    bound = 2 * lipschitz * (best**2).sum(axis=1) / (max_iter + 1) ** 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = solve_fista(problem, tol=1e-13, max_iter=max_iter)
    assert (result.objective - objective(problem, best) <= bound).all()


def test_limit_of_iterations_is_kept_and_told():
    problem = random_problem(share=0.01)
    with pytest.warns(ConvergenceWarning, match="fista: 3 of 3 .* within max_iter=7 iterations") as caught:
        result = solve_fista(problem, tol=1e-9, max_iter=7)
    assert caught[0].filename == __file__
    assert (result.n_steps == 7).all()
    assert (result.status == Status.LIMIT_REACHED).all()
    assert not result.converged
    require_certified(problem, result)


def test_tol_below_rounding_ends_at_the_limit_with_the_true_gap():
    problem = random_problem()
    with pytest.warns(ConvergenceWarning):
        result = solve_fista(problem, tol=1e-30, max_iter=2000)
    # As good as double precision gets, and honest about it: rounding decides on which side of zero.
    assert (np.abs(result.duality_gap) <= 1e-13 * problem.energies).all()
    assert ((result.status == Status.CONVERGED) == (result.duality_gap <= 1e-30 * problem.energies)).all()
    assert (result.n_steps[result.status == Status.LIMIT_REACHED] == 2000).all()


def test_signals_whose_zero_code_will_do_take_no_step():
    problem = random_problem(n_signals=4)
    signals = problem.signals.copy()
    signals[1] = 0.0
    signals[2] *= 1e-3
    result = solve_fista(LassoProblem(problem.dictionary, signals, 1.0))
    assert (result.n_steps[[1, 2]] == 0).all()
    assert not result.codes[[1, 2]].any()
    assert (result.n_steps[[0, 3]] > 0).all()
    assert result.converged


@pytest.mark.parametrize("positive", [True, False])
def test_batches_change_nothing_but_rounding(positive, monkeypatch):
    problem = random_problem(n_signals=20, positive=positive, unit_norm=False)
    together = solve_fista(problem, tol=1e-6)
    alone = [solve_fista(problem.subset(slice(i, i + 1)), tol=1e-6) for i in range(20)]
    monkeypatch.setattr(fista, "BLOCK_ENTRIES", 7 * problem.n_atoms)
    in_blocks = solve_fista(problem, tol=1e-6)
    scale = np.abs(together.codes).max()
    for other in (np.vstack([one.codes for one in alone]), in_blocks.codes):
        np.testing.assert_allclose(other, together.codes, rtol=0, atol=1e-12 * scale)
    np.testing.assert_array_equal(np.concatenate([one.n_steps for one in alone]), together.n_steps)
    np.testing.assert_array_equal(in_blocks.n_steps, together.n_steps)


@pytest.mark.parametrize("positive", [True, False])
def test_gram_and_dictionary_lead_the_same_way(positive):
    """The choice is by cost: two products with the dictionary beside one with the Gram matrix."""
    for n_atoms, through_gram in ((30, True), (100, False)):
        problem = random_problem(n_atoms=n_atoms, positive=positive, unit_norm=False)
        step = fista.gradient_step(problem)
        assert (step.matrix is not None) == through_gram
        atoms = problem.dictionary / step.norms[:, np.newaxis]
        correlations = problem.correlations / (step.norms * step.largest_eigenvalue)
        # A row with few entries reads only the rows of the matrix that it uses.
        for codes in (solve_fista(problem).codes, np.eye(n_atoms)[:1]):
            out = np.empty_like(codes)
            step(codes, correlations[: len(codes)], out)
            expected = codes - codes @ atoms @ atoms.T / step.largest_eigenvalue + correlations[: len(codes)]
            np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_atoms_of_any_norm_cost_no_iterations():
    """Scaling atom and penalty together is a change of units, and the steps do not see it."""
    problem = random_problem(n_atoms=60)
    factors = 10.0 ** np.random.default_rng(0).uniform(-6, 6, 60)
    scaled = LassoProblem(problem.dictionary * factors[:, np.newaxis], problem.signals, factors)
    plain, result = solve_fista(problem, tol=1e-8), solve_fista(scaled, tol=1e-8)
    np.testing.assert_array_equal(result.n_steps, plain.n_steps)
    np.testing.assert_allclose(result.codes * factors, plain.codes, rtol=0, atol=1e-9)

"""scikit-learn's solvers: the same answers, our certificates, our warnings only."""

import warnings

import joblib
import numpy as np
import pytest
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from solvers import LassoProblem, Status, penalty_max
from solvers.methods.reference import solve_coordinate_descent, solve_lars
from tests.reference.problems import optimal_codes, random_problem, require_certified

BOTH = pytest.mark.parametrize("solve", [solve_coordinate_descent, solve_lars])


@BOTH
@pytest.mark.parametrize("positive", [True, False])
def test_codes_are_those_of_scikit_learn_itself(solve, positive):
    """Scaling, penalties of their own and norms are undone rightly."""
    penalty = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    problem = random_problem(positive=positive, penalty=penalty, unit_norm=False)
    result = solve(problem, tol=1e-12)
    expected = optimal_codes(problem)
    # Gaps of g leave sqrt(2 g) in the reconstruction; the factor is for atoms that are not orthogonal.
    scale = np.sqrt(2e-10 * problem.energies.max())
    np.testing.assert_allclose(result.codes, expected, rtol=0, atol=30 * scale)
    assert result.converged
    assert (result.n_steps > 0).all()


def test_coordinate_descent_tightens_the_tol_until_the_certificate_agrees(monkeypatch):
    """A scikit-learn that stops a hundred times too early is sent back."""
    tols = []

    class Sloppy(linear_model.Lasso):
        def fit(self, X, y, **options):
            tols.append(self.tol)
            self.tol *= 100.0
            return super().fit(X, y, **options)

    monkeypatch.setattr(linear_model, "Lasso", Sloppy)
    problem = random_problem(n_signals=1, share=0.01)
    result = solve_coordinate_descent(problem, tol=1e-6)
    assert result.converged
    assert len(tols) > 1
    np.testing.assert_allclose(tols, 0.5e-6 * 10.0 ** -np.arange(len(tols)))


@BOTH
def test_only_our_warning_tells_of_a_missed_tol(solve):
    problem = random_problem(n_signals=2, share=0.01)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = solve(problem, tol=1e-9, max_iter=2)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert str(caught[0].message).startswith(f"{result.method}: 2 of 2 signals did not reach")
    assert caught[0].filename == __file__
    assert (result.status == Status.LIMIT_REACHED).all()
    assert (result.n_steps <= 2).all()


def test_tol_below_rounding_ends_with_the_true_gap():
    problem = random_problem()
    with pytest.warns(ConvergenceWarning, match="coordinate_descent"):
        result = solve_coordinate_descent(problem, tol=1e-30, max_iter=1000)
    assert (result.duality_gap <= 1e-13 * problem.energies).all()


def test_lars_is_exact():
    problem = random_problem(share=1e-3)
    result = solve_lars(problem, tol=1e-12)
    assert (result.duality_gap <= 1e-12 * problem.energies).all()


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_lars_walks_the_last_segment_of_its_path_rightly(share):
    """d_1 = e_1 joins at 2 and d_2 never does, its correlation being negative: a = (2 - lambda, 0).

    `lars_path` left to itself reads alpha off d_2 there.
    """
    problem = LassoProblem(np.eye(2), [[2.0, -1.0]], 2.0 * share, positive=True)
    np.testing.assert_allclose(solve_lars(problem, tol=1e-12).codes, [[2.0 - 2.0 * share, 0.0]], rtol=1e-12)


@pytest.mark.parametrize("positive", [True, False])
def test_lars_is_honest_about_atoms_that_are_the_same(positive):
    problem = random_problem(n_atoms=40, n_duplicates=10, share=1e-3, positive=positive)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = solve_lars(problem, tol=1e-6)
    require_certified(problem, result)
    missed = result.duality_gap > 1e-6 * problem.energies
    np.testing.assert_array_equal(result.status == Status.LIMIT_REACHED, missed)
    assert len(caught) == missed.any()
    if missed.any():
        assert "the path ended early" in str(caught[0].message)


@BOTH
def test_zero_code_is_exact_where_it_is_optimal(solve):
    result = solve(LassoProblem(np.eye(2), [[0.0, 0.0], [1.0, -1.0], [3.0, 0.0]], 1.0))
    np.testing.assert_array_equal(result.codes[:2], 0.0)
    np.testing.assert_array_equal(result.n_steps[:2], 0)
    np.testing.assert_allclose(result.codes[2], [2.0, 0.0], atol=0.1)


@BOTH
def test_workers_of_any_kind_and_number_give_the_same_bits_and_no_other_warning(solve):
    problem = random_problem(n_signals=40, share=0.01)
    with pytest.warns(ConvergenceWarning) as alone:
        serial = solve(problem, tol=1e-9, max_iter=5)
    with pytest.warns(ConvergenceWarning) as threaded, joblib.parallel_config(backend="threading"):
        threads = solve(problem, tol=1e-9, max_iter=5, n_jobs=2)
    assert len(alone) == len(threaded) == 1
    np.testing.assert_array_equal(threads.codes, serial.codes)
    np.testing.assert_array_equal(threads.n_steps, serial.n_steps)


def test_processes_give_the_same_bits_too():
    problem = random_problem(n_signals=6)
    serial, processes = (solve_coordinate_descent(problem, n_jobs=n_jobs) for n_jobs in (None, 2))
    np.testing.assert_array_equal(processes.codes, serial.codes)
    np.testing.assert_array_equal(processes.n_steps, serial.n_steps)


@pytest.mark.thorough
@BOTH
@pytest.mark.parametrize("n_threads", [1, 2])
def test_processes_use_as_many_threads_of_blas_as_the_caller(solve, n_threads):
    """So long signals that BLAS divides an inner product among its threads, and rounds it differently."""
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((16, 20_000))
    signals = (rng.standard_normal((4, 16)) * (rng.random((4, 16)) < 0.3)) @ dictionary
    problem = LassoProblem(dictionary, signals, 0.1 * penalty_max(dictionary, signals).min())
    with threadpool_limits(limits=n_threads, user_api="blas"):
        alone = solve(problem, tol=1e-6, n_jobs=1)
        processes = solve(problem, tol=1e-6, n_jobs=2)
    np.testing.assert_array_equal(processes.codes, alone.codes)
    np.testing.assert_array_equal(processes.n_steps, alone.n_steps)

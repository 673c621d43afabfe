"""An atom of norm zero gets a zero code, whoever solves; the others get what they get without it."""

import numpy as np
import pytest

from solvers import (
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    SpikingSparseCoder,
    lasso_network,
    penalty_max,
    solve_active_set,
    solve_fista,
    solve_spiking,
)
from solvers.certificate.compiled import certify
from solvers.certificate.optimality import measure
from solvers.results.result import as_sparse
from tests.reference.methods import methods
from tests.reference.problems import random_problem

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
ZEROS = [0, 17, 40]
"""Where atoms of norm zero are put."""


def with_zero_atoms(problem):
    return np.insert(problem.dictionary, np.array(ZEROS) - np.arange(3), 0.0, axis=0)


@SIGNS
@pytest.mark.parametrize("curved", [False, True], ids=["l1", "elastic net"])
@pytest.mark.parametrize("solve", methods().values(), ids=methods())
def test_every_solver_leaves_it_out(solve, curved, positive):
    problem = random_problem(share=0.3, positive=positive, unit_norm=False)
    dictionary = with_zero_atoms(problem)
    assert not dictionary[ZEROS].any()
    penalty = ElasticNet(1.0, 0.5) if curved else 1.0
    tol = 0.02
    padded = LassoProblem(dictionary, problem.signals, penalty, positive=positive)
    result = solve(padded, tol=tol)
    assert result.converged
    assert not result.codes[:, ZEROS].any()
    best = solve_active_set(LassoProblem(problem.dictionary, problem.signals, penalty, positive=positive))
    assert (result.objective - best.objective <= tol * problem.energies).all()
    exact = solve_active_set(padded).codes
    np.testing.assert_allclose(np.delete(exact, ZEROS, axis=1), best.codes, rtol=0, atol=1e-12)


@SIGNS
def test_one_signal_without_a_gram_matrix_and_from_a_start(positive):
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((600, 30))
    dictionary[ZEROS] = 0.0
    signal = rng.standard_normal((1, 30))
    penalty = 0.3 * penalty_max(dictionary, signal, positive=positive)[0]
    problem = LassoProblem(dictionary, signal, penalty, positive=positive)
    start = np.zeros((1, 600))
    start[0, ZEROS] = 1.0
    for result in (solve_active_set(problem), solve_active_set(problem, start=start)):
        assert result.converged
        assert not result.codes[0, ZEROS].any()


@SIGNS
@pytest.mark.parametrize("solve", methods(start=True).values(), ids=methods(start=True))
@pytest.mark.parametrize("tol", [1e-3, 10.0])
def test_a_start_that_has_it_is_taken_without(solve, tol, positive):
    """Also where the start is good enough already, and no solver would change it."""
    problem = random_problem(positive=positive)
    padded = LassoProblem(with_zero_atoms(problem), problem.signals, 1.0, positive=positive)
    start = np.full((padded.n_signals, padded.n_atoms), 1e-3)
    result = solve(padded, start=start, tol=tol)
    assert not result.codes[:, ZEROS].any()
    assert (start == 1e-3).all()


def test_rounding_of_its_potential_is_no_code():
    """The potential of its neuron is some 1e-110 of its threshold."""
    dictionary = np.array([[0.0, 0.0], [1.0, -2.0], [2.0, 1.5]])
    problem = LassoProblem(dictionary, [[1e10, 3e10]], [1e-99, 1e-100, 1e-100], positive=True)
    for duration in (3.0, 30.0, 300.0, 3000.0):
        with pytest.warns(UserWarning, match="did not reach"):
            result = solve_spiking(problem, readout="current", tol=1e-15, max_duration=duration)
        assert result.codes[0, 0] == 0.0


@SIGNS
def test_its_neuron_never_fires(positive):
    problem = random_problem(positive=positive)
    padded = LassoProblem(with_zero_atoms(problem), problem.signals, 1.0, positive=positive)
    network = lasso_network(padded)
    neurons = ZEROS if positive else [*ZEROS, *(np.array(ZEROS) + padded.n_atoms)]
    assert (network.firing_threshold > 0.0).all()
    assert (network.soma_bias[neurons] < 0.0).all()
    assert not network.weights.toarray()[:, neurons].any()


@SIGNS
@pytest.mark.parametrize("solve", [solve_active_set, solve_fista, solve_spiking])
def test_a_kernel_of_norm_zero_is_left_out(solve, positive):
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((3, 3, 3))
    kernels[1] = 0.0
    dictionary = ConvolutionalDictionary(kernels, (9, 9), 2)
    signals = rng.standard_normal((2, 81))
    problem = LassoProblem(dictionary, signals, 1.0, positive=positive)
    result = solve(problem, tol=0.01)
    assert result.converged
    assert not result.codes[:, 1::3].any()
    rest = LassoProblem(ConvolutionalDictionary(kernels[[0, 2]], (9, 9), 2), signals, 1.0, positive=positive)
    best = solve_active_set(rest)
    assert (result.objective - best.objective <= 0.01 * problem.energies).all()


def test_the_coder_takes_what_learning_left():
    problem = random_problem()
    dictionary = with_zero_atoms(problem)
    codes = SpikingSparseCoder(dictionary, alpha=1.0).fit(problem.signals).transform(problem.signals)
    assert not codes[:, ZEROS].any()
    assert codes.any()


def test_a_code_that_uses_it_is_not_optimal():
    """It adds its penalty to the objective, and nothing to the fit."""
    problem = LassoProblem([[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0]], [0.25, 0.125])
    optimum, wasteful = np.array([[0.75, 0.0]]), np.array([[0.75, 2.0]])
    for figures in (measure(problem, wasteful), certify(problem, as_sparse(wasteful))):
        assert figures.kkt_violation[0] == 0.125
        assert figures.duality_gap[0] == pytest.approx(0.25, abs=1e-14)
    for figures in (measure(problem, optimum), certify(problem, as_sparse(optimum))):
        assert figures.kkt_violation[0] == 0.0
        assert figures.duality_gap[0] <= 1e-14


@pytest.mark.parametrize("dictionary", [np.zeros((2, 3)), [[0.0, 0.0, -0.0]]])
def test_zeros_only_get_a_sentence(dictionary):
    with pytest.raises(ValueError, match="dictionary must have an atom of positive norm; got zeros only"):
        LassoProblem(dictionary, np.ones((1, 3)), 1.0)
    with pytest.raises(ValueError, match="got zeros only"):
        SpikingSparseCoder(dictionary, alpha=1.0).fit(np.ones((1, 3)))

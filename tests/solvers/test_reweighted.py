"""Concave penalties, solved by rounds of LASSO problems."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from snn.base import checks
from solvers import LassoProblem, path, reweighted, solve_active_set
from solvers.studies.reweighted import LEAST_SLOPE, SLOPES

RNG = np.random.default_rng(5)
ATOMS = RNG.standard_normal((40, 25)) / 5.0
TRUTH = np.where(RNG.random((3, 40)) < 0.15, RNG.exponential(size=(3, 40)), 0.0)
SIGNALS = TRUTH @ ATOMS
each_penalty = pytest.mark.parametrize("penalty", SLOPES)


def value(penalty, codes, scale):
    """Return the concave penalty, the integral of its slope."""
    steps = np.linspace(0.0, 1.0, 20_001)
    slopes = np.maximum(SLOPES[penalty](np.abs(codes)[:, np.newaxis] * steps / scale), LEAST_SLOPE)
    return float((np.abs(codes) * np.trapezoid(slopes, steps, axis=1)).sum())


@each_penalty
def test_rounds_descend_to_a_stationary_point(penalty):
    problem, scale = LassoProblem(ATOMS, SIGNALS[:1], 0.05), 0.3
    found = reweighted(problem, penalty, scale=scale, max_rounds=500, tol=1e-10)
    objectives = []
    for result in found.rounds[0]:
        assert result.converged
        code = result.codes[0]
        rest = SIGNALS[0] - code @ ATOMS
        objectives.append(0.5 * rest @ rest + 0.05 * value(penalty, code, scale))
    assert np.diff(objectives).max(initial=0.0) < 1e-6 * problem.energies[0]
    assert objectives[-1] < objectives[0]
    assert found.is_stationary.all()
    code = found.codes[0]
    correlations, slopes = (SIGNALS[0] - code @ ATOMS) @ ATOMS.T, 0.05 * SLOPES[penalty](np.abs(code) / scale)
    used = code != 0.0
    np.testing.assert_allclose(correlations[used], (np.sign(code) * slopes)[used], atol=1e-4)
    assert (np.abs(correlations[~used]) <= 0.05 + 1e-9).all()


@each_penalty
@pytest.mark.filterwarnings("ignore:reweighted")
@pytest.mark.parametrize("method", ["active_set", "spiking", "fista", "coordinate_descent", "digital"])
def test_any_method_serves(penalty, method):
    problem = LassoProblem(ATOMS, SIGNALS, 0.05, positive=True)
    expected = reweighted(problem, penalty, max_rounds=3)
    found = reweighted(problem, penalty, max_rounds=3, method=method, tol=1e-3)
    errors = [np.linalg.norm((one.codes - expected.codes) @ ATOMS) for one in (expected, found)]
    assert errors[1] < 0.15 * np.linalg.norm(SIGNALS)
    assert all(result.converged for results in found.rounds for result in results)


def test_large_entries_keep_their_size_and_signals_are_alone():
    problem = LassoProblem(ATOMS, SIGNALS, 0.05, positive=True)
    found = reweighted(problem)
    lasso = solve_active_set(problem)
    errors = [np.linalg.norm(codes - TRUTH) for codes in (lasso.codes, found.codes)]
    assert errors[1] < 0.7 * errors[0]
    for k, signal in enumerate(SIGNALS):
        alone = reweighted(LassoProblem(ATOMS, signal[np.newaxis], 0.05, positive=True))
        np.testing.assert_allclose(alone.codes[0], found.codes[k], atol=1e-9)


def test_the_penalty_by_the_criterion_of_a_path():
    noisy = SIGNALS[:1] + 0.02 * np.random.default_rng(1).standard_normal((1, 25))
    problem = LassoProblem(ATOMS, noisy, 1.0, positive=True)
    along = path(problem, n_multiples=40)
    chosen = problem.with_penalty(along.multiples[along.bic(0.02**2)[:, 0].argmin()])
    errors = [
        np.linalg.norm(codes - TRUTH[:1])
        for codes in (solve_active_set(chosen).codes, reweighted(chosen, "exponential").codes)
    ]
    assert errors[1] < errors[0] < 0.5 * np.linalg.norm(TRUTH[0])


def test_masks_and_codes_of_zero():
    mask = np.arange(25) % 4 > 0
    masked = reweighted(LassoProblem(ATOMS, SIGNALS, 0.05, mask=mask)).codes
    cut = reweighted(LassoProblem(ATOMS[:, mask], SIGNALS[:, mask], 0.05)).codes
    np.testing.assert_allclose(masked, cut, atol=1e-9)
    zero = reweighted(LassoProblem(ATOMS, SIGNALS, 1e3))
    assert zero.is_stationary.all()
    assert [len(results) for results in zero.rounds] == [1, 1, 1]
    assert "is stationary: 3 of 3" in str(zero)


def test_wrong_arguments_are_named():
    problem = LassoProblem(ATOMS, SIGNALS, 0.05)
    for options, words in [
        ({"penalty": "l0"}, "penalty must be one of"),
        ({"scale": 0.0}, "scale must be positive"),
        ({"max_rounds": 0}, "max_rounds must be"),
        ({"method": "newton"}, "method must be one of"),
    ]:
        with pytest.raises(ValueError, match=f"^{words}"):
            reweighted(problem, **options)


def test_codes_that_are_not_stationary_are_told_once():
    rng = np.random.default_rng(2)
    dictionary = rng.standard_normal((200, 50))
    rng.standard_normal((1, 50))
    signals = np.stack([dictionary[:10].sum(axis=0) * 3.0 + rng.standard_normal(50), np.zeros(50)])
    problem = LassoProblem(dictionary, signals, 20.0)
    with pytest.warns(ConvergenceWarning, match=r"^reweighted: 1 of 2 codes .*max_rounds=10: raise") as told:
        found = reweighted(problem, max_rounds=10)
    assert len(told) == 1
    assert found.is_stationary.tolist() == [False, True]
    assert reweighted(problem).is_stationary.all()
    with checks.without_warnings():
        reweighted(problem, max_rounds=1)

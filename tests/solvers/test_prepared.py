"""Prepared problems: the same answers, and nothing checked or computed twice."""

import numpy as np
import pytest

from solvers import (
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    PreparedLasso,
    solve_active_set,
    solve_fista,
    solve_spiking,
)
from solvers.problem.dense_dictionary import DenseDictionary
from tests.reference.methods import methods
from tests.reference.problems import random_problem, require_certified

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])


def prepared_as(problem, **options):
    return PreparedLasso(problem.dictionary, problem.penalty, positive=problem.positive, **options)


@SIGNS
@pytest.mark.parametrize("solve", methods().values(), ids=methods())
def test_codes_are_those_of_a_problem_made_anew(solve, positive):
    problem = random_problem(positive=positive)
    prepared = prepared_as(problem)
    for which in (slice(0, 3), slice(1, 2)):
        anew = LassoProblem(problem.dictionary, problem.signals[which], 1.0, positive=positive)
        tol = max(1e-3, solve.finest_tol)
        expected = solve(anew, tol=tol)
        result = solve(prepared.with_signals(problem.signals[which]), tol=tol)
        np.testing.assert_array_equal(result.codes, expected.codes)
        np.testing.assert_array_equal(result.duality_gap, expected.duality_gap)


@SIGNS
@pytest.mark.parametrize("penalty", [0.5, "net"])
@pytest.mark.parametrize(("n_features", "n_atoms"), [(20, 40), (30, 600)])
def test_one_signal_has_the_code_of_its_batch(positive, penalty, n_features, n_atoms):
    """To the last bit, also from a start, and where the method has a call of its own for one signal."""
    problem = random_problem(n_features, n_atoms, n_signals=5, positive=positive, share=0.3)
    if penalty == "net":
        penalty = ElasticNet(0.5, np.linspace(0.0, 1.0, n_atoms))
    prepared = PreparedLasso(problem.dictionary, penalty, positive=positive)
    together = solve_active_set(prepared.with_signals(problem.signals))
    rough = solve_fista(prepared.with_signals(problem.signals), tol=0.1)
    restarted = solve_active_set(prepared.with_signals(problem.signals), start=rough)
    for k in range(5):
        one = prepared.with_signals(problem.signals[[k]])
        for alone, all_of_them in (
            (solve_active_set(one), together),
            (solve_active_set(one, start=rough.sparse_codes[[k]]), restarted),
        ):
            np.testing.assert_array_equal(alone.codes[0], all_of_them.codes[k])
            for name in ("objective", "duality_gap", "kkt_violation", "n_steps", "n_corrections", "status"):
                assert getattr(alone, name)[0] == getattr(all_of_them, name)[k]
            require_certified(one, alone)


def test_nothing_is_computed_twice(monkeypatch):
    problem = random_problem()
    prepared = prepared_as(problem)
    counts = {"gram": 0, "largest_eigenvalue": 0, "init": 0}

    def counted(name, method):
        def call(self, *arguments):
            counts[name] += 1
            return method(self, *arguments)

        return call

    monkeypatch.setattr(DenseDictionary, "gram", counted("gram", DenseDictionary.gram))
    monkeypatch.setattr(DenseDictionary, "__init__", counted("init", DenseDictionary.__init__))
    for signal in problem.signals:
        one = prepared.with_signals(signal[np.newaxis])
        assert one.gram is prepared.model.gram
        assert one.atoms is prepared.model.atoms
        for solve in (solve_active_set, solve_spiking):
            assert solve(one).converged
    assert counts["gram"] == counts["init"] == 0


def test_a_gram_matrix_at_hand_is_used():
    problem = random_problem()
    prepared = prepared_as(problem, gram=problem.gram)
    assert np.shares_memory(prepared.model.gram, problem.gram)
    with pytest.raises(ValueError, match=r"gram must be dictionary @ dictionary\.T"):
        prepared_as(problem, gram=2.0 * problem.gram)


def test_convolutional_dictionaries_are_prepared_too():
    rng = np.random.default_rng(0)
    dictionary = ConvolutionalDictionary(rng.standard_normal((2, 3, 3)), (7, 7), 2)
    signals = rng.standard_normal((2, 49))
    prepared = PreparedLasso(dictionary, 0.5)
    for solve in (solve_active_set, solve_fista):
        np.testing.assert_array_equal(
            solve(prepared.with_signals(signals)).codes, solve(LassoProblem(dictionary, signals, 0.5)).codes
        )


@pytest.mark.parametrize(
    ("signals", "error", "message"),
    [
        ("text", TypeError, "signals must be an array of real numbers"),
        (
            np.ones(4),
            ValueError,
            r"signals must be 2-D, .*; for one signal pass signal\[np.newaxis\]; got shape \(4,\)",
        ),
        (np.ones((1, 3)), ValueError, "dictionary has 4 features but signals have 3"),
        ([[np.nan, 0.0, 0.0, 0.0]], ValueError, r"signals must be finite; got nan at \[0, 0\]"),
        (np.full((1, 4), 1e200), ValueError, "signals must have rows of squared norm between"),
        (np.full((1, 4), 1e-200), ValueError, "signals must have rows of squared norm between"),
    ],
)
def test_signals_that_do_not_fit_get_a_sentence(signals, error, message):
    prepared = PreparedLasso(np.eye(4), 0.1)
    with pytest.raises(error, match=message):
        prepared.with_signals(signals)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.eye(2), -1.0), ValueError, "penalty must not be negative; got -1.0"),
        (([[np.inf, 1.0]], 0.1), ValueError, "dictionary must be finite"),
        ((np.eye(2), [0.1, 0.2, 0.3]), ValueError, "penalty must have shape"),
    ],
)
def test_what_cannot_be_prepared_gets_a_sentence(arguments, error, message):
    with pytest.raises(error, match=message):
        PreparedLasso(*arguments)

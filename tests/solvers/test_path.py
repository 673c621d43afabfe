"""Paths of penalties: the codes of cold solves and of scikit-learn, at the penalties of scikit-learn."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import enet_path, lasso_path

from solvers import L1, METHODS, ConvolutionalDictionary, ElasticNet, LassoProblem, path, solve_active_set
from solvers.certificate.optimality import measure, penalty_max
from tests.reference.methods import each_method
from tests.reference.problems import random_problem

either_sign = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
each_solver = each_method(start=True, tols={"spiking": 1e-4, "analog": 1e-4})


def unit_problem(problem):
    """The same with the penalty 1, so that multiples are penalties."""
    return LassoProblem(problem.dictionary, problem.signals, 1.0, positive=problem.positive)


@either_sign
def test_default_penalties_and_codes_are_those_of_scikit_learn(positive):
    problem = unit_problem(random_problem(30, 20, n_signals=1, positive=positive))
    result = path(problem, n_multiples=30)
    # Its default: from the least alpha without a coefficient, evenly in the logarithm, to 1e-3 of it.
    reach = problem.dictionary @ problem.signals[0]
    largest = (reach if positive else np.abs(reach)).max() / problem.n_features
    alphas, coefs, _ = lasso_path(
        np.asfortranarray(problem.dictionary.T),
        problem.signals[0],
        alphas=np.logspace(np.log10(largest), np.log10(1e-3 * largest), 30),
        positive=positive,
        tol=1e-12,
        max_iter=100_000,
    )
    np.testing.assert_allclose(result.multiples, alphas * problem.n_features, rtol=1e-12)
    # Fewer atoms than features: the codes are unique.
    np.testing.assert_allclose(result.codes[:, 0], coefs.T, rtol=0, atol=1e-6 * np.abs(coefs).max())
    assert result.converged
    assert result.method == "active_set"


def test_elastic_nets_are_scaled_as_in_scikit_learn():
    problem = random_problem(30, 20, n_signals=1)
    ratio = 0.7
    problem = LassoProblem(problem.dictionary, problem.signals, ElasticNet(ratio, 1.0 - ratio))
    result = path(problem, n_multiples=20, smallest=1e-2)
    largest = np.abs(problem.dictionary @ problem.signals[0]).max() / problem.n_features / ratio
    alphas, coefs, _ = enet_path(
        np.asfortranarray(problem.dictionary.T),
        problem.signals[0],
        l1_ratio=ratio,
        alphas=np.geomspace(largest, 1e-2 * largest, 20),
        tol=1e-12,
        max_iter=100_000,
    )
    np.testing.assert_allclose(result.multiples, alphas * problem.n_features, rtol=1e-12)
    np.testing.assert_allclose(result.codes[:, 0], coefs.T, rtol=0, atol=1e-6 * np.abs(coefs).max())


@each_solver
@either_sign
def test_every_method_ends_where_a_cold_solve_ends(solve, tol, positive):
    problem = random_problem(n_signals=3, positive=positive, unit_norm=False)
    multiples = [8.0, 4.0, 2.0, 1.0]
    result = path(problem, multiples, method=solve, tol=tol)
    assert result.converged
    for k, multiple in enumerate(multiples):
        at = LassoProblem(
            problem.dictionary, problem.signals, multiple * problem.l1_weights, positive=positive
        )
        cold = solve_active_set(at, tol=1e-11)
        excess = result.objective[k] - cold.objective
        assert (excess <= tol * problem.energies).all()
        assert (excess >= -1e-10 * problem.energies).all()
        figures = measure(at, result.sparse_codes[k])
        np.testing.assert_allclose(result.duality_gap[k], figures.duality_gap, rtol=1e-6, atol=1e-14)
        np.testing.assert_array_equal(result.support_size[k], np.count_nonzero(result.codes[k], axis=1))


@either_sign
def test_weights_of_each_atom_are_scaled_together(positive):
    plain = random_problem(n_signals=2, positive=positive)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    problem = LassoProblem(plain.dictionary, plain.signals, weights, positive=positive)
    result = path(problem, n_multiples=5, smallest=0.1)
    # At the first, the code of one signal is just zero; slightly below, it is not.
    assert not result.support_size[0].any()
    below = problem.with_penalty(0.999 * result.multiples[0] * weights)
    assert solve_active_set(below).support_size.any()
    for multiple, codes in zip(result.multiples, result.codes, strict=True):
        cold = solve_active_set(problem.with_penalty(multiple * weights))
        np.testing.assert_allclose(codes, cold.codes, rtol=0, atol=1e-9 * max(np.abs(cold.codes).max(), 1.0))


def test_convolutional_dictionaries():
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((3, 4, 4))
    dictionary = ConvolutionalDictionary(kernels, (10, 10), 2)
    image = rng.standard_normal((1, 100))
    problem = LassoProblem(dictionary, image, 1.0)
    dense = LassoProblem(dictionary.toarray(), image, 1.0)
    result, expected = (path(p, n_multiples=8, smallest=0.05) for p in (problem, dense))
    np.testing.assert_allclose(result.multiples, expected.multiples, rtol=1e-12)
    np.testing.assert_allclose(result.objective, expected.objective, rtol=1e-7)
    assert result.converged
    assert isinstance(result.sparse_codes[-1], sparse.csr_array)


def test_carried_supports_save_rounds():
    problem = random_problem(64, 128, n_signals=1, share=0.02)
    result = path(problem, np.geomspace(20.0, 1.0, 40))
    cold = [solve_active_set(problem.with_penalty(multiple)).n_steps[0] for multiple in result.multiples]
    assert result.n_steps.sum() < 0.7 * sum(cold)


def test_a_signal_does_not_depend_on_its_mates():
    problem = random_problem(n_signals=4)
    together = path(problem, [4.0, 2.0, 1.0])
    for signal in range(4):
        alone = path(problem.subset([signal]), [4.0, 2.0, 1.0])
        np.testing.assert_array_equal(alone.codes[:, 0], together.codes[:, signal])


def test_the_largest_multiple_is_that_of_the_signal_with_the_largest():
    problem = unit_problem(random_problem(n_signals=5))
    result = path(problem, n_multiples=3)
    np.testing.assert_allclose(
        result.multiples[0], penalty_max(problem.dictionary, problem.signals).max(), rtol=1e-14
    )


def test_codes_that_miss_tol_are_told_once():
    problem = random_problem()
    with pytest.warns(ConvergenceWarning) as caught:
        result = path(problem, [2.0, 1.0], tol=1e-25)
    assert len(caught) == 1
    assert str(caught[0].message).startswith("path: ")
    assert not result.converged


def test_results_are_read_only():
    result = path(random_problem(), [2.0, 1.0])
    for name in ("multiples", "objective", "status"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(result, name)[0] = 0


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        (
            {"multiples": [1.0, 2.0]},
            ValueError,
            "multiples must fall from each to the next; got 1.0 before 2.0",
        ),
        ({"multiples": [2.0, 2.0]}, ValueError, "multiples must fall from each to the next"),
        ({"multiples": [1.0, 0.0]}, ValueError, "multiples must be positive; got 0.0"),
        ({"multiples": [1.0, np.nan]}, ValueError, "multiples must be finite"),
        ({"multiples": []}, ValueError, "multiples must not be empty"),
        ({"multiples": 1.0}, ValueError, "multiples must be 1-D"),
        ({"n_multiples": 0}, ValueError, "n_multiples must be positive; got 0"),
        ({"smallest": 1.0}, ValueError, "smallest must be less than 1; got 1.0"),
        ({"method": "lars"}, ValueError, "method must be one of 'spiking', .* got 'lars'"),
        ({"tol": 0.0}, ValueError, "tol must be positive; got 0.0"),
        ({"method": METHODS["lars"]}, ValueError, "method must take a start; got lars: 'spiking', .* do"),
    ],
)
def test_nonsense_is_refused(options, error, sentence):
    with pytest.raises(error, match=sentence):
        path(random_problem(), **options)


def test_silent_signals_have_no_default_penalties():
    with pytest.raises(ValueError, match="multiples must be given where all codes are zero"):
        path(LassoProblem(np.eye(2), np.zeros((1, 2)), 1.0))
    with pytest.raises(TypeError, match="problem must be a LassoProblem; got ndarray"):
        path(np.eye(2))


def test_names_are_those_of_methods_that_take_a_start():
    for name in METHODS:
        if METHODS[name].takes.start:
            assert path(random_problem(), [2.0], method=name, tol=1e-2, n_jobs=1).method == name


@pytest.mark.parametrize("penalty", [1.0, L1(1.0), ElasticNet(1.0, 0.5)], ids=["number", "L1", "elastic net"])
def test_problems_of_a_path_have_arrays_like_those_of_others(penalty):
    """Read-only: a kernel would be compiled once more for others, which takes longer than the path."""
    problem = LassoProblem(np.eye(3), np.ones((1, 3)), penalty)
    other = problem.with_penalty(problem.penalty.rescaled(np.ones(3), 2.0))
    np.testing.assert_array_equal(other.l1_weights, [0.5] * 3)
    for one in (problem, other):
        assert not one.l1_weights.flags.writeable
        assert not one.curvatures.flags.writeable

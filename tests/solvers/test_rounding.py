"""Certificates against exact rational numbers: a gap is never below the exact one, however numbers differ."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import ConvolutionalDictionary, ElasticNet, LassoProblem, penalty_max, solve_active_set
from solvers._kernels.precision import KEPT_BITS
from solvers.certificate.corrected import SMALL
from solvers.certificate.optimality import measure
from solvers.certificate.residuals import residuals_of
from solvers.problem.rounding import gamma, high_part, operations_of_sum
from solvers.results.result import as_sparse
from tests.reference.rationals import ExactProblem, rational

pytestmark = pytest.mark.thorough

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])


def random_problem(rng, *, positive, ratio=1.0, spread=0.0, curved=False, share=0.1):
    """12 atoms in 8 dimensions; penalties differ by `ratio`, norms by 10^spread and more, at random."""
    dictionary = rng.standard_normal((12, 8)) * 10.0 ** rng.uniform(-spread, spread, (12, 1))
    signal = rng.standard_normal((1, 8))
    norms = np.linalg.norm(dictionary, axis=1)
    weights = share * np.abs(dictionary @ signal[0] / norms).max() * norms * ratio ** -rng.random(12)
    penalty = weights
    if curved:
        penalty = ElasticNet(weights, norms**2 * 10.0 ** rng.uniform(-14, 2, 12) * (rng.random(12) < 0.7))
    return LassoProblem(dictionary, signal, penalty, positive=positive)


def codes_near_the_optimum(problem, rng):
    """The optimum, as far as it is found, codes beside it, and zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = solve_active_set(problem).codes
    yield best
    for size in (1e-15, 1e-9, 1e-3):
        codes = best * (1.0 + size * rng.standard_normal(best.shape))
        yield np.maximum(codes, 0.0) if problem.positive else codes
    yield np.zeros_like(best)


def require_exact_bound(problem, codes, gap, near=None):
    """The gap is not below the distance to the optimum, nor, without correction, below the exact gap along
    the exact residual."""
    exact, code = ExactProblem(problem), rational(codes[0])
    limits = problem.l1_weights[problem.curvatures == 0.0] / problem.atoms.norms[problem.curvatures == 0.0]
    if limits.min(initial=np.inf) > SMALL * np.sqrt(2.0 * problem.energies[0]):
        assert Fraction(gap) >= exact.gap(code, exact.residual(code))
    minimum = exact.optimum(codes[0] if near is None else near[0])
    if near is not None:
        assert minimum is not None
    if minimum is not None:
        assert Fraction(gap) >= exact.objective(code) - minimum >= 0


@SIGNS
@pytest.mark.parametrize("curved", [False, True], ids=["l1", "elastic net"])
@pytest.mark.parametrize("share", [0.3, 1e-3])
@pytest.mark.parametrize(
    ("ratio", "spread"),
    [(1.0, 0.0), (1e4, 0.0), (1e10, 0.0), (1e13, 0.0), (1.0, 7.0), (1e8, 5.0)],
)
def test_gap_is_not_below_the_exact_one(positive, curved, share, ratio, spread):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        problem = random_problem(
            rng, positive=positive, ratio=ratio, spread=spread, curved=curved, share=share
        )
        near = None
        for codes in codes_near_the_optimum(problem, rng):
            near = codes if near is None else near
            require_exact_bound(problem, codes, measure(problem, codes).duality_gap[0], near)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), exponent=st.integers(-420, 420), positive=st.booleans())
def test_gap_is_not_below_the_exact_one_in_any_unit(seed, exponent, positive):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, positive=positive, ratio=1e3)
    factor = 2.0**exponent
    scaled = LassoProblem(
        problem.dictionary, problem.signals * factor, problem.l1_weights * factor, positive=positive
    )
    for codes in codes_near_the_optimum(scaled, rng):
        require_exact_bound(scaled, codes, measure(scaled, codes).duality_gap[0])


@SIGNS
@pytest.mark.parametrize("stride", [1, 2])
def test_gap_of_a_convolutional_dictionary_is_not_below_the_exact_one(positive, stride):
    rng = np.random.default_rng(1)
    kernels = rng.standard_normal((3, 3, 3)) * np.array([1e-3, 1.0, 1e2])[:, np.newaxis, np.newaxis]
    dictionary = ConvolutionalDictionary(kernels, (7, 7), stride)
    signal = rng.standard_normal((1, 49))
    largest = penalty_max(dictionary, signal, positive=positive)
    for ratio in (1.0, 1e6, 1e12):
        weights = 0.3 * largest * ratio ** -rng.random(dictionary.shape[0])
        problem = LassoProblem(dictionary, signal, weights, positive=positive)
        for codes in codes_near_the_optimum(problem, rng):
            gap = measure(problem, codes).duality_gap[0]
            exact, code = ExactProblem(problem), rational(codes[0])
            assert Fraction(gap) >= exact.gap(code, exact.residual(code))


def test_a_gap_that_no_rounding_explains_is_not_reported_as_converged():
    """Penalties 1e12 apart: what double precision does not prove is not certified."""
    n_false, n_certified = 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, positive=False, ratio=1e12, share=0.3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = solve_active_set(problem, tol=1e-6)
        exact, code = ExactProblem(problem), rational(result.codes[0])
        distance = exact.objective(code) - exact.optimum(result.codes[0])
        n_certified += result.converged
        n_false += result.converged and distance > Fraction(1e-6) * Fraction(problem.energies[0])
    assert n_false == 0
    # And it is not by refusing all of them.
    assert n_certified >= 36


@SIGNS
def test_ordinary_problems_lose_nothing(positive):
    """64 features and 256 atoms: optimal codes are certified to 1e-13."""
    rng = np.random.default_rng(2)
    dictionary = rng.standard_normal((256, 64))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    signals = rng.standard_normal((5, 64))
    penalty = 0.1 * penalty_max(dictionary, signals, positive=positive).min()
    problem = LassoProblem(dictionary, signals, penalty, positive=positive)
    assert (solve_active_set(problem).duality_gap <= 1e-13 * problem.energies).all()


@pytest.mark.parametrize("size", [1.0, 1e8, 1e-8])
@pytest.mark.parametrize("stride", [None, 1, 2])
def test_residuals_are_right_to_their_own_rounding(size, stride):
    """Also where signal and code cancel: the residual is 1e-8 of the signal."""
    rng = np.random.default_rng(3)
    if stride is None:
        dictionary = rng.standard_normal((12, 49)) * 10.0 ** rng.uniform(-4, 4, (12, 1))
    else:
        dictionary = ConvolutionalDictionary(rng.standard_normal((2, 3, 3)), (7, 7), stride)
    n_atoms = dictionary.shape[0]
    codes = size * rng.standard_normal((3, n_atoms)) * (rng.random((3, n_atoms)) < [[0.0], [0.3], [1.0]])
    atoms = LassoProblem(dictionary, np.ones((1, 49)), 1.0).atoms
    signals = atoms.reconstruct(codes)
    signals += 1e-8 * size * rng.standard_normal(signals.shape)
    found = residuals_of(atoms, signals, as_sparse(codes))
    problem = LassoProblem(dictionary, signals, 1.0)
    correlations = atoms.correlate(found.values)
    for k in range(3):
        exact_problem = ExactProblem(problem, k)
        exact = exact_problem.residual(rational(codes[k]))
        errors = [x - Fraction(y) for x, y in zip(exact, found.values[k].tolist(), strict=True)]
        norm = np.linalg.norm(found.values[k])
        error = np.sqrt(float(sum(e * e for e in errors)))
        # A plain sum would be off by up to some 1e-15 of the terms.
        terms = np.abs(codes[k]) @ np.sqrt(atoms.squared_norms)
        assert error <= found.errors[k] <= 1e-15 * norm + 1e-17 * terms
        for atom, correlation in zip(exact_problem.atoms, correlations[k].tolist(), strict=True):
            difference = sum(d * r for d, r in zip(atom, exact, strict=True)) - Fraction(correlation)
            length = np.sqrt(float(sum(d * d for d in atom)))
            assert abs(float(difference)) <= found.correlation_errors[k] * length


def test_high_parts_are_short_and_low_parts_exact():
    rng = np.random.default_rng(4)
    values = rng.standard_normal((6, 30)) * 10.0 ** rng.uniform(-200, 100, (6, 1))
    largest = np.abs(values).max(axis=1, keepdims=True)
    high = high_part(values, largest)
    for row, kept, most in zip(values, high, largest[:, 0], strict=True):
        unit = Fraction(2) ** (int(np.frexp(most)[1]) - KEPT_BITS)
        for value, part in zip(row.tolist(), kept.tolist(), strict=True):
            assert (Fraction(part) / unit).denominator == 1
            assert abs(Fraction(value) - Fraction(part)) <= unit / 2
            assert Fraction(value - part) == Fraction(value) - Fraction(part)


@pytest.mark.parametrize("n_features", [3, 1000, 5000])
def test_inner_products_are_within_their_bound(n_features):
    rng = np.random.default_rng(5)
    dictionary = rng.standard_normal((2, n_features))
    signals = rng.standard_normal((1, n_features))
    # Cancelling: the product is far smaller than its terms.
    signals -= (signals @ dictionary.T) @ np.linalg.pinv(dictionary).T
    problem = LassoProblem(dictionary, signals, 1.0)
    exact = ExactProblem(problem)
    for atom, correlation in zip(exact.atoms, problem.correlations[0].tolist(), strict=True):
        terms = [d * s for d, s in zip(atom, exact.signal, strict=True)]
        bound = gamma(operations_of_sum(n_features)) * float(sum(map(abs, terms)))
        assert abs(float(sum(terms) - Fraction(correlation))) <= bound

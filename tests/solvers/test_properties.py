"""Problems of every kind by every method: properties of each code, and refusals."""

import contextlib
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import lsq_linear, nnls
from sklearn.linear_model import Lasso

from solvers import LassoProblem, certify, penalty_max
from solvers.certificate.optimality import duality_gap, kkt_violation, measure, objective
from tests.reference.costs import costs
from tests.reference.methods import TOLS, methods
from tests.reference.problems import CONVOLUTIONAL, problems
from tests.reference.rationals import rational
from tests.reference.solved import (
    METHODS,
    NEEDS_NO_GRAM,
    contents,
    every_method,
    exact,
    forms_for,
    problems_for,
    refusal,
    solved,
)
from tests.tiers import examples

pytestmark = pytest.mark.property

FIGURES = ("objective", "duality_gap", "kkt_violation")
NO_PENALTY = ((True, "zero_penalties"), (False, "signed_zero_penalties"))
# Allowances for rounding: relative to energy and objective; to the squared largest term of a residual.
ROUNDING, ROUNDING_OF_TERMS = Fraction(1, 10**10), Fraction(1, 10**30)
SMALL = Fraction(1.01e-6)
"""A share of the signal: certificates may correct the dual point of a penalty below it, which then is not
along the residual."""


def require_true(this, result, *, distances=False):
    """Require that the figures of a result agree with exact rationals and with NumPy."""
    codes, tol = result.codes, result.tol
    assert codes.shape == (len(this.values), len(this.atoms))
    assert np.isfinite(codes).all()
    assert (codes[:, this.positive] >= 0.0).all()
    assert not codes[:, ~this.atoms.any(axis=1)].any()
    assert result.sparse_codes.has_canonical_format
    assert result.sparse_codes.data.all()
    np.testing.assert_array_equal(result.support_size, (codes != 0.0).sum(axis=1))
    np.testing.assert_allclose(result.problem.energies, this.energies, rtol=1e-13)
    np.testing.assert_array_equal(result.reached, result.duality_gap <= tol * result.problem.energies)
    assert result.converged == result.reached.all()
    is_signal = result.problem.energies > 0.0
    ratio = result.duality_gap[is_signal] / result.problem.energies[is_signal]
    np.testing.assert_array_equal(result.relative_gap[is_signal], ratio)
    for signal, code in enumerate(codes):
        require_true_figures(this, signal, code, *(getattr(result, name)[signal] for name in FIGURES))
        if distances:
            problem, gap = exact(this, signal), Fraction(float(result.duality_gap[signal]))
            assert gap >= problem.objective(rational(code)) - problem.optimum(code, or_best=True)


def require_true_figures(this, signal, code, found, gap, violation):
    problem = exact(this, signal)
    exactly = rational(code)
    true = problem.objective(exactly)
    terms = Fraction(float(np.abs(code) @ np.abs(this.atoms).max(axis=1, initial=0.0)))
    terms *= Fraction(float(np.sqrt(this.weights[signal].max() * this.atoms.shape[1])))
    assert abs(Fraction(float(found)) - true) <= ROUNDING * true + ROUNDING_OF_TERMS * terms**2
    assert gap >= 0.0
    if math.isfinite(gap):
        along = problem.gap(exactly, problem.residual(exactly))
        if gap < along and has_small_penalty(this, signal):
            along = true - problem.optimum(code, or_best=True)
        assert Fraction(float(gap)) >= along
    residual = this.values[signal] - code @ this.atoms
    pulls = this.atoms @ (this.weights[signal] * residual)
    norms = this.atoms**2 @ this.weights[signal]
    stepped = norms * code + pulls
    shrunk = np.maximum(stepped - this.l1, 0.0)
    shrunk -= np.where(this.positive, 0.0, np.maximum(-stepped - this.l1, 0.0))
    expected = np.abs((norms + this.l2) * code - shrunk).max()
    size = (np.abs(this.atoms) @ (this.weights[signal] * np.abs(this.values[signal]))).max()
    size += (np.abs(code) @ np.abs(this.atoms) @ np.abs(this.atoms * this.weights[signal]).T).max()
    assert abs(violation - expected) <= 1e-11 * (size + (this.l2 * np.abs(code)).max())


def has_small_penalty(this, signal):
    length = np.sqrt(2.0 * this.energies[signal])
    norms = np.sqrt((this.atoms**2).sum(axis=1))
    return any(
        not l2 and Fraction(float(l1)) <= SMALL * Fraction(float(norm * length))
        for l1, l2, norm in zip(this.l1, this.l2, norms, strict=True)
    )


def tolerance(name, data):
    """Return a tolerance, usual or finer than what the method reaches."""
    return data.draw(st.sampled_from([0.1, METHODS[name].usual_tol, METHODS[name].finest_tol, 1e-13]))


# -- what is true --------------------------------------------------------------------------------


@every_method
@examples(12)
@given(data=st.data())
def test_gaps_and_status_are_true(name, data):
    this = data.draw(problems_for(name))
    before = contents(this)
    result = solved(METHODS[name], this, tol=tolerance(name, data))
    require_true(this, result)
    for one, other in zip(before, contents(this), strict=True):
        np.testing.assert_array_equal(one, other)


@examples(15)
@given(this=problems(weights="none"), data=st.data())
def test_gaps_of_any_code_bound_the_distance_to_the_optimum(this, data):
    """Gaps of good and bad codes come from NumPy, from the kernel, and with most atoms screened."""
    problem = this.problem()
    best = solved(METHODS["active_set"], this, problem).codes
    size = data.draw(st.sampled_from([0.0, 2.0**-52, 1e-9, 1e-3, 1.0]))
    other = this.codes(density=data.draw(st.sampled_from([0.0, 0.1, 1.0])))
    for codes in (best * (1.0 + size * np.sign(other)), best + size * other, size * other):
        codes = np.where(this.positive, np.maximum(codes, 0.0), codes)
        with this.with_room():
            given = certify(problem, codes, tol=1e-6)
            with costs(least_screened=0):
                screened = certify(problem, sparse.csr_array(codes), tol=1e-6)
            measured = measure(problem, codes)
        for result in (given, screened):
            require_true(this, result, distances=len(this.atoms) <= 12)
        for signal, code in enumerate(codes):
            require_true_figures(this, signal, code, *(getattr(measured, each)[signal] for each in FIGURES))
        for each, function in zip(FIGURES, (objective, duality_gap, kkt_violation), strict=True):
            np.testing.assert_array_equal(function(problem, codes), getattr(measured, each))


@examples(40)
@given(this=problems_for("active_set"))
def test_active_sets_end_at_the_optimum(this):
    """The gap is only rounding; exact arithmetic on the support improves objectives only by rounding."""
    result = solved(METHODS["active_set"], this, tol=1e-10)
    assert result.converged
    require_true(this, result)
    for signal in range(len(this.values)):
        if this.energies[signal]:
            problem, code = exact(this, signal), result.codes[signal]
            distance = problem.objective(rational(code)) - problem.optimum(code, or_best=True)
            assert distance <= Fraction(1, 10**11) * Fraction(this.energies[signal])


@every_method
@examples(8)
@given(data=st.data())
def test_methods_reach_what_they_say_they_reach(name, data):
    """Moderate problems, to the finest tolerance: the objective of scikit-learn's Lasso."""
    this = data.draw(
        problems_for(
            name,
            dictionary=["random", "sparse", "images", "one dimension"],
            signals=["noise", "mixture", "zero among them", "sparse"],
            penalty=["number", "vector", "elastic net", "by norms"],
        ).filter(lambda this: coherence(this.atoms) < (0.8 if "spik" in name or name == "digital" else 1.0))
    )
    method = methods()[name]
    tol = TOLS.get(name, method.finest_tol)
    result = solved(method, this, tol=tol)
    assert result.converged
    for signal in range(len(this.values)):
        best = exact(this, signal).objective(rational(scikit_codes(this, signal)))
        excess = Fraction(float(result.objective[signal])) - best
        energy = Fraction(this.energies[signal])
        assert Fraction(-2, 10**10) * energy <= excess <= Fraction(tol) * energy


def coherence(atoms):
    units = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    return np.abs(units @ units.T - np.eye(len(atoms))).max()


def scikit_codes(this, signal):
    """Return scikit-learn's code: features contain the weights, extra features l2, the scale of atoms l1."""
    roots = np.sqrt(this.weights[signal])
    atoms = np.hstack([this.atoms * roots, np.diag(np.sqrt(this.l2))]) / this.l1[:, np.newaxis]
    target = np.append(this.values[signal] * roots, np.zeros(len(atoms)))
    # If only some atoms may have negative codes, these atoms are there twice, with both signs.
    free = np.flatnonzero(this.is_mixed & ~this.positive)
    positive = bool(this.positive.any())
    model = Lasso(alpha=1.0 / len(target), fit_intercept=False, positive=positive, tol=1e-13, max_iter=10**6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = model.fit(np.vstack([atoms, -atoms[free]]).T, target).coef_
    code[free] -= code[len(atoms) :]
    return code[: len(atoms)] / this.l1


@pytest.mark.parametrize("name", methods(mixed_signs=True, signed_zero_penalties=True))
def test_an_intercept_has_either_sign_beside_positive_coefficients(name):
    rng = np.random.default_rng(0)
    X = rng.random((50, 8))
    y = X @ np.maximum(rng.standard_normal(8), 0.0) - 2.7 + 0.1 * rng.standard_normal(50)
    theirs = Lasso(alpha=0.02, positive=True, tol=1e-12, max_iter=10**6).fit(X, y)
    atoms, penalty = np.vstack([X.T, np.ones(50)]), np.append(np.full(8, 0.02 * 50), 0.0)
    problem = LassoProblem(atoms, y[np.newaxis], penalty, positive=np.arange(9) < 8)
    result = METHODS[name](problem, tol=1e-10)
    assert result.converged
    assert theirs.intercept_ < -2.0
    np.testing.assert_allclose(result.codes[0], [*theirs.coef_, theirs.intercept_], rtol=0, atol=1e-4)


@pytest.mark.filterwarnings("ignore::solvers.IllPosedWarning")
@pytest.mark.parametrize(
    ("name", "positive"),
    [(name, sign) for name, each in METHODS.items() for sign, zeros in NO_PENALTY if zeros in each.takes],
)
@examples(6)
@given(seed=st.integers(0, 10**6))
def test_without_a_penalty_codes_are_least_squares(name, positive, seed):
    rng = np.random.default_rng(seed)
    n_atoms = int(rng.integers(1, 9))
    dictionary, signals = rng.random((n_atoms, 20)), rng.standard_normal((2, 20))
    problem = LassoProblem(dictionary, signals, 0.0, positive=positive)
    method = methods()[name]
    tol = max(method.finest_tol, 1e-9)
    result = method(problem, tol=tol)
    assert result.converged
    for signal, found, energy in zip(signals, result.objective, result.problem.energies, strict=True):
        least = nnls(dictionary.T, signal)[1] ** 2 / 2 if positive else lsq_linear(dictionary.T, signal).cost
        assert -1e-12 * energy <= found - least <= tol * energy


@every_method
@examples(5)
@given(data=st.data(), excess=st.sampled_from([1.0, 1.5, 1e6]))
def test_codes_are_zero_from_the_largest_penalty_on(name, data, excess):
    this = data.draw(
        problems_for(name, penalty="number", weights=["none", "one mask", "own masks"], limited=False)
    )
    mask = this.options.get("mask")
    largest = penalty_max(this.dictionary, this.signals, positive=this.positive, mask=mask)
    reach = this.values @ this.atoms.T
    np.testing.assert_allclose(
        largest, np.maximum(np.where(this.positive, reach, np.abs(reach)), 0.0).max(axis=1), rtol=1e-12
    )
    assume(largest.max() > 0.0)
    problem = this.problem(penalty=excess * largest.max())
    result = solved(METHODS[name], this, problem, tol=1e-9)
    assert result.converged
    assert not result.codes.any()
    assert not result.n_steps.any()
    np.testing.assert_allclose(result.objective, this.energies, rtol=1e-13)
    below = solved(METHODS[name], this, this.problem(penalty=0.9 * largest.max()), tol=1e-3)
    assert below.codes.any() or below.converged
    if below.codes.any():
        assert below.objective.sum() < this.energies.sum()


# -- what is refused -----------------------------------------------------------------------------


@every_method
@examples(12)
@given(data=st.data())
def test_what_a_method_does_not_take_is_refused_and_nothing_else(name, data):
    this = data.draw(problems(dictionary=forms_for(name), limited=False, most=6))
    refused = refusal(name, this)
    if refused is None:
        solved(METHODS[name], this, tol=0.1)
        return
    kind, words = refused
    with pytest.raises(kind, match=words):
        METHODS[name](this.problem(), tol=0.1)


@every_method
@examples(4)
@given(data=st.data())
def test_without_room_for_a_matrix_it_is_solved_or_refused(name, data):
    this = data.draw(problems_for(name, limited=True))
    if name in NEEDS_NO_GRAM or this.kind[0] in CONVOLUTIONAL:
        assert not solved(METHODS[name], this, tol=0.1).problem.has_gram
        return
    with contextlib.suppress(MemoryError):
        solved(METHODS[name], this, tol=0.1)

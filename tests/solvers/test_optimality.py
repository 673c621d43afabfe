"""The judge, in closed form first: nothing else here may be trusted before it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers import LassoProblem, optimality
from solvers.optimality import duality_gap, judge, kkt_violation, objective, penalty_max
from tests.reference.problems import optimal_codes, random_codes, random_problem

# Relative to the objective of the zero code, what rounding may leave of a figure that is zero.
ROUNDING = 1e-12

problems = st.builds(
    random_problem,
    n_features=st.integers(1, 12),
    n_atoms=st.integers(1, 20),
    n_signals=st.integers(1, 3),
    share=st.floats(1e-3, 0.99),
    positive=st.booleans(),
    penalty=st.floats(1e-2, 10.0),
    unit_norm=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)


def orthonormal_problem(positive):
    rng = np.random.default_rng(0)
    dictionary = np.linalg.qr(rng.standard_normal((6, 6)))[0][:4]
    return LassoProblem(dictionary, rng.standard_normal((5, 6)), [0.1, 0.2, 0.4, 0.8], positive=positive)


# -- closed form -----------------------------------------------------------------------------------


@pytest.mark.parametrize("positive", [True, False])
def test_orthonormal_dictionary_is_solved_by_the_soft_threshold(positive):
    problem = orthonormal_problem(positive)
    b, penalty = problem.signals @ problem.dictionary.T, problem.penalty
    codes = np.sign(b) * np.maximum(np.abs(b) - penalty, 0.0)
    if positive:
        codes = np.maximum(codes, 0.0)
    # ||s - a D||^2 = ||s||^2 - 2 a.b + ||a||^2 for orthonormal atoms.
    expected = 0.5 * ((problem.signals**2).sum(axis=1) - 2 * (codes * b).sum(axis=1) + (codes**2).sum(axis=1))
    expected += np.abs(codes) @ penalty
    np.testing.assert_allclose(objective(problem, codes), expected, rtol=1e-14)
    np.testing.assert_allclose(duality_gap(problem, codes), 0.0, atol=1e-14)
    np.testing.assert_allclose(kkt_violation(problem, codes), 0.0, atol=1e-14)


@pytest.mark.parametrize(
    ("signal", "penalty", "positive", "code", "least_objective"),
    [
        # Both atoms: a = G^-1 (b - lambda sign(a)), E = 1/2 ||s||^2 - 1/2 a.(b - lambda sign(a)).
        ((1.0, 1.0), 0.2, True, (0.125, 1.125), 0.275),
        ((1.0, 1.0), 0.2, False, (0.125, 1.125), 0.275),
        ((1.0, -1.0), 0.2, False, (1.25, -0.75), 0.5),
        # One atom: the correlation of the other with the residual stays below lambda.
        ((1.0, 1.0), 0.5, False, (0.0, 0.9), 0.595),
        ((1.0, -1.0), 0.2, True, (0.8, 0.0), 0.68),
        # None: b = (1, 1.4).
        ((1.0, 1.0), 1.4, False, (0.0, 0.0), 1.0),
        # A penalty of its own for each: b - lambda = (0.8, 0), less 0.6 * 0.8 for the second.
        ((1.0, 1.0), (0.2, 1.4), False, (0.8, 0.0), 0.68),
    ],
)
def test_two_atoms_by_hand(signal, penalty, positive, code, least_objective):
    problem = LassoProblem([[1.0, 0.0], [0.6, 0.8]], [signal], penalty, positive=positive)
    np.testing.assert_allclose(objective(problem, [code]), least_objective, rtol=1e-14)
    np.testing.assert_allclose(duality_gap(problem, [code]), 0.0, atol=1e-15)
    np.testing.assert_allclose(kkt_violation(problem, [code]), 0.0, atol=1e-15)
    for atom in range(2):
        moved = np.array([code])
        moved[0, atom] += 1e-3
        assert objective(problem, moved) > least_objective
        assert duality_gap(problem, moved) >= objective(problem, moved) - least_objective
        assert kkt_violation(problem, moved) > 9e-4


def test_one_atom_by_hand():
    """E = 1/2 (3 - 2 a)^2 + |a| at a = 1: r = 1, d.r = 2, kappa = 1/2."""
    problem = LassoProblem([[2.0]], [[3.0]], 1.0)
    figures = judge(problem, [[1.0]])
    assert figures.objective == 1.5
    assert figures.duality_gap == 0.5 * 0.25 + (1.0 - 0.5 * 2.0)
    # a step without threshold leads to 4 a = 6, with it to 5
    assert figures.kkt_violation == 1.0


def test_code_that_reproduces_the_signal_exactly_still_pays_its_penalty():
    problem = LassoProblem(np.eye(2), [[3.0, 0.0]], 0.5)
    assert duality_gap(problem, [[3.0, 0.0]]) == 1.5


# -- what a duality gap must be ------------------------------------------------------------------------


@given(problem=problems, density=st.floats(0, 1), scale=st.floats(1e-6, 1e6), seed=st.integers(0, 2**32 - 1))
def test_gap_bounds_the_distance_from_the_optimum(problem, density, scale, seed):
    best = objective(problem, optimal_codes(problem))
    codes = random_codes(problem, density=density, scale=scale, seed=seed)
    figures = judge(problem, codes)
    size = problem.energies + figures.objective
    assert (figures.duality_gap >= -ROUNDING * size).all()
    assert (figures.duality_gap >= figures.objective - best - ROUNDING * size).all()
    # Not better than the zero code where the code is worse: the bound is not loose for nothing.
    assert (figures.duality_gap <= figures.objective + ROUNDING * size).all()


@given(problem=problems)
def test_gap_and_violation_vanish_at_the_optimum_and_only_there(problem):
    codes = optimal_codes(problem)
    figures = judge(problem, codes)
    assert (figures.duality_gap >= -ROUNDING * problem.energies).all()
    # scikit-learn was asked for 1e-10 of ||s||^2, twice the energy.
    assert (figures.duality_gap <= 2.1e-10 * problem.energies).all()
    # A gap of g allows codes off by sqrt(2 g) / ||d|| in reconstruction, hence this in correlations.
    norms = np.sqrt(problem.squared_norms.max())
    assert (figures.kkt_violation <= 4 * norms * np.sqrt(2.1e-10 * problem.energies)).all()
    worse = judge(problem, 1.01 * codes + 1e-3 / norms * np.sqrt(problem.energies)[:, np.newaxis])
    assert (worse.duality_gap > 1e-9 * problem.energies).all()
    assert (worse.kkt_violation > 1e-7 * norms * np.sqrt(problem.energies)).all()


def test_gap_keeps_its_digits_where_the_difference_of_objectives_has_none():
    """One unit-norm atom, code off by e: kappa = lambda / (lambda - e), gap = e^2 / 2 + O(e^3)."""
    problem = LassoProblem([[1.0, 0.0]], [[2.0, 0.0]], 0.5)
    error = 2.0**-30
    gap = duality_gap(problem, [[1.5 + error]])
    # The residual is 1/2 - e, whose best multiple is the feasible 1/2 itself: z = 1/2, dual optimal.
    np.testing.assert_allclose(gap, 0.5 * error**2, rtol=1e-6)


# -- invariances -------------------------------------------------------------------------------------


@given(problem=problems, exponent=st.integers(-450, 450))
def test_figures_scale_with_signal_and_penalty_exactly(problem, exponent):
    """Powers of two change exponents only."""
    factor = 2.0**exponent
    scaled = LassoProblem(
        problem.dictionary, problem.signals * factor, problem.penalty * factor, positive=problem.positive
    )
    codes = random_codes(problem)
    plain, figures = judge(problem, codes), judge(scaled, codes * factor)
    np.testing.assert_array_equal(figures.objective, plain.objective * factor**2)
    np.testing.assert_array_equal(figures.duality_gap, plain.duality_gap * factor**2)
    np.testing.assert_array_equal(figures.kkt_violation, plain.kkt_violation * factor)


def test_penalty_of_an_atom_is_its_scale():
    """lambda_i |a_i| is |lambda_i a_i|: dividing atoms by their penalties makes those one."""
    rng = np.random.default_rng(0)
    problem = random_problem(penalty=rng.uniform(0.5, 2.0, 40))
    equal = LassoProblem(problem.dictionary / problem.penalty[:, np.newaxis], problem.signals, 1.0)
    codes = random_codes(problem)
    for figure in (objective, duality_gap):
        np.testing.assert_allclose(figure(problem, codes), figure(equal, codes * problem.penalty), rtol=1e-12)


def test_figures_of_a_code_do_not_depend_on_its_company(monkeypatch):
    problem = random_problem(n_features=33, n_atoms=70, n_signals=23)
    codes = random_codes(problem)
    together = vars(judge(problem, codes))
    for rows in (slice(0, 1), slice(4, 9)):
        for name, values in vars(judge(problem.subset(rows), codes[rows])).items():
            np.testing.assert_array_equal(values, together[name][rows])
    monkeypatch.setattr(optimality, "BLOCK_ENTRIES", 200)
    for name, values in vars(judge(problem, codes)).items():
        np.testing.assert_array_equal(values, together[name])


# -- the largest useful penalty ------------------------------------------------------------------------


@given(problem=problems)
def test_zero_is_optimal_from_the_largest_penalty_on_and_not_below(problem):
    largest = penalty_max(problem.dictionary, problem.signals, positive=problem.positive)
    zero = np.zeros((1, problem.n_atoms))
    for signal, penalty in zip(problem.signals, largest, strict=True):

        def at(share, signal=signal, penalty=penalty):
            return LassoProblem(
                problem.dictionary, signal[np.newaxis], share * penalty, positive=problem.positive
            )

        assert duality_gap(at(1.0), zero) == 0.0
        assert kkt_violation(at(1.0), zero) == 0.0
        assert duality_gap(at(2.0), zero) == 0.0
        assert duality_gap(at(0.99), zero) > 0.0
        assert kkt_violation(at(0.99), zero) > 0.0


def test_no_atom_along_a_signal_needs_no_penalty():
    assert penalty_max(np.eye(2), [[-1.0, -2.0]], positive=True) == 0.0
    assert penalty_max(np.eye(2), [[-1.0, -2.0]]) == 2.0

"""Certificates: by hand, compared with exact rationals, and their bounds for rounding."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize_scalar

from solvers import (
    ConvolutionalDictionary,
    ElasticNet,
    LassoModel,
    LassoProblem,
    certify,
    solve_active_set,
    solve_fista,
)
from solvers._kernels.precision import KEPT_BITS, gamma, high_part, operations_of_sum
from solvers.certificate.compiled import certificates_of as figures_by_kernel
from solvers.certificate.corrected import BLOCK_ENTRIES, _Point, least_eigenvalue
from solvers.certificate.optimality import measure
from solvers.certificate.residuals import residuals_of
from solvers.problem.penalty import penalty_of
from tests.reference.judged import judged
from tests.reference.problems import FILLS, random_codes, random_problem
from tests.reference.rationals import ExactProblem, rational, solution_of
from tests.tiers import examples

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
FIGURES = ("objective", "duality_gap", "kkt_violation")
NONE = np.empty(0, dtype=np.int64)


def by_kernel(problem, codes):
    return figures_by_kernel(problem, sparse.csr_array(codes))


BOTH = pytest.mark.parametrize("figures", [measure, by_kernel], ids=["numpy", "kernel"])

# -- by hand -------------------------------------------------------------------------------------

TWO = [[1.0, 0.0], [0.6, 0.8]]
BY_HAND = [
    # Dictionary, signal, penalty, code; objective, gap, violation.  b are the correlations with the signal.
    # b = (1, 0.6): the correlation of the second atom with the residual is 0.6 - 0.6 x 0.9 = 0.06 < 0.1.
    (TWO, (1.0, 0.0), 0.1, (0.9, 0.0), 0.095, 0.0, 0.0),
    # b = (1, 1.4): a = G^-1 (b - lambda) = ((0.9 - 0.6 x 1.3), (1.3 - 0.6 x 0.9)) / 0.64.
    (TWO, (1.0, 1.0), 0.1, (0.1875, 1.1875), 0.14375, 0.0, 0.0),
    # b = (1, -0.2): signs (+, -), a = G^-1 (0.9, -0.1).
    (TWO, (1.0, -1.0), 0.1, (1.5, -1.0), 0.275, 0.0, 0.0),
    # max|b| = lambda: no nonzero code is better.
    (TWO, (0.1, 0.0), 0.1, (0.0, 0.0), 0.005, 0.0, 0.0),
    # One atom, b = 1, lambda = 1/4: kappa = 1/4, gap 1/2 (3/4)^2, violation b - lambda.
    ([[1.0, 0.0]], (1.0, 0.0), 0.25, (0.0,), 0.5, 0.5 * 0.75**2, 0.75),
    # r = 1, d.r = 2, kappa = 1/2; a step without threshold leads to 4 a = 6, with it to 5.
    ([[2.0]], (3.0,), 1.0, (1.0,), 1.5, 0.5 * 0.25 + (1.0 - 0.5 * 2.0), 1.0),
    # r = 0: the best dual point is 0, and the gap is the whole penalty term.
    (np.eye(2), (3.0, -1.0), 0.5, (3.0, -1.0), 2.0, 2.0, 0.5),
    # An atom of norm zero adds its penalty to the objective, and nothing to the fit.
    ([[1.0, 0.0], [0.0, 0.0]], (1.0, 0.0), [0.25, 0.125], (0.75, 2.0), 0.46875, 0.25, 0.125),
    # Elastic net: a = T(s, l1) / (1 + l2).
    (np.eye(3), (2.0, -1.0, 0.25), ElasticNet(0.5, 1.0), (0.75, -0.25, 0.0), 1.90625, 0.0, 0.0),
]


@BOTH
@pytest.mark.parametrize(("dictionary", "signal", "penalty", "code", "energy", "gap", "violation"), BY_HAND)
def test_figures_by_hand(figures, dictionary, signal, penalty, code, energy, gap, violation):
    problem = LassoProblem(dictionary, [signal], penalty)
    found = figures(problem, np.array([code]))
    assert found.objective[0] == pytest.approx(energy, abs=1e-15)
    assert found.duality_gap[0] == pytest.approx(gap, abs=1e-14)
    assert found.kkt_violation[0] == pytest.approx(violation, abs=1e-15)
    if gap == 0.0:
        np.testing.assert_allclose(solve_active_set(problem).codes, [code], rtol=0, atol=1e-14)


@BOTH
@SIGNS
@pytest.mark.parametrize("l2", [0.0, 1.0])
def test_the_violation_is_the_way_to_the_fixed_point(figures, positive, l2):
    """All numbers are exact binary fractions; only the bound of certificates for rounding leaves a gap."""
    signals = np.array([[2.0, -1.0, 0.25, 0.0]])
    problem = LassoProblem(np.eye(4), signals, ElasticNet(0.5, l2), positive=positive)
    optimum = np.array([[1.5, 0.0 if positive else -0.5, 0.0, 0.0]]) / (1.0 + l2)
    at_optimum = figures(problem, optimum)
    assert at_optimum.kkt_violation[0] == 0.0
    assert at_optimum.duality_gap[0] <= (1e-28 if l2 else 1e-14)
    for atom in range(4):
        for step in (-0.25, -(2.0**-20), 2.0**-20, 0.25):
            moved = optimum.copy()
            moved[0, atom] += step
            if positive and moved.min() < 0.0:
                continue
            away = figures(problem, moved)
            assert away.kkt_violation[0] == (1.0 + l2) * abs(step)
            assert away.duality_gap[0] >= away.objective[0] - at_optimum.objective[0] > 0.0


@pytest.mark.parametrize(("error", "l2"), [(2.0**-20, 0.0), (2.0**-30, 1.0)])
def test_gap_keeps_its_digits_where_the_difference_of_objectives_has_none(error, l2):
    """If the coefficient of a unit-norm atom is too large by e, E - min E = 1/2 (1 + l2) e^2."""
    problem = LassoProblem([[1.0, 0.0]], [[2.0, 0.0]], ElasticNet(0.5, l2))
    excess = 0.5 * (1.0 + l2) * error**2
    gap = measure(problem, [[1.5 / (1.0 + l2) + error]]).duality_gap[0]
    assert excess * (1.0 - 1e-6) <= gap <= 2.0 * excess + 4e-15 * (l2 == 0.0)


# -- what the figures depend on ------------------------------------------------------------------


@pytest.mark.parametrize("curved", [False, True])
@SIGNS
@pytest.mark.parametrize("weights", ["none", "own masks", "weights"])
@pytest.mark.parametrize(("n_features", "n_atoms"), [(1, 1), (64, 257), (1025, 30), (2300, 6)], ids=str)
def test_figures_of_the_kernel_are_those_of_numpy(curved, positive, weights, n_features, n_atoms):
    """Figures agree to 1e-13 of the signal, also for long sums."""
    rng = np.random.default_rng(n_features)
    problem = random_problem(n_features, n_atoms, positive=positive, unit_norm=False, n_signals=4)
    options = {}
    if weights == "own masks":
        options = {"mask": rng.random((4, n_features)) < 0.7}
    elif weights == "weights":
        options = {"feature_weights": rng.uniform(0.2, 2.0, n_features)}
    l2 = problem.atoms.squared_norms * 10.0 ** rng.uniform(-6, 2, n_atoms) * (rng.random(n_atoms) < 0.7)
    penalty = ElasticNet(rng.uniform(0.5, 2.0, n_atoms), l2 * curved)
    problem = LassoProblem(problem.dictionary, problem.signals, penalty, positive=positive, **options)
    best = solve_active_set(problem).codes
    for density, scale in ((0.0, 1.0), (0.2, 1e-6), (0.2, 1.0), (1.0, 100.0)):
        codes = best + random_codes(problem, density=density, scale=scale)
        codes = np.maximum(codes, 0.0) if positive else codes
        kernel, expected = by_kernel(problem, codes), measure(problem, codes)
        units = expected.objective + problem.energies + 1e-300
        reach = np.linalg.norm(problem.signals, axis=1) * problem.atoms.norms.max() + expected.kkt_violation
        for name, unit in zip(FIGURES, (units, units, 2.0 * reach), strict=True):
            assert (np.abs(getattr(kernel, name) - getattr(expected, name)) <= 1e-13 * unit).all(), name


@BOTH
def test_figures_depend_on_nothing_that_is_kept(figures):
    """Figures also do not depend on blocks, the type of indices, the Gram matrix, or passed correlations."""
    problem = random_problem(n_signals=40_000)
    assert problem.n_signals * problem.n_atoms > BLOCK_ENTRIES
    codes = random_codes(problem)
    parts = [slice(1_000), slice(1_000, None)]
    expected = [figures(problem.subset(rows), codes[rows]) for rows in parts]
    vars(problem).update(_gram=np.full((problem.n_atoms, problem.n_atoms), np.nan))
    vars(problem)["correlations"] = np.full((problem.n_signals, problem.n_atoms), np.nan)
    longer = sparse.csr_array(codes)
    longer.indices, longer.indptr = longer.indices.astype(np.int64), longer.indptr.astype(np.int64)
    for other in (figures(problem, codes), figures(problem, longer)):
        for rows, part in zip(parts, expected, strict=True):
            for name in FIGURES:
                np.testing.assert_array_equal(getattr(other, name)[rows], getattr(part, name))


@BOTH
def test_what_overflows_is_not_certified(figures):
    problem = LassoProblem(np.eye(2), [[1.0, 1.0]], 0.5)
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("error" if figures is by_kernel else "ignore")
        assert not figures(problem, np.array([[1e200, 0.0]])).duality_gap[0] <= 1e300
    # Where a feature is missing, neither its number nor a residual that overflows is read.
    rng = np.random.default_rng(0)
    dictionary, codes = rng.standard_normal((6, 4)), rng.standard_normal((3, 6))
    mask = rng.random((3, 4)) < 0.6
    signals = rng.standard_normal((3, 4))
    clean = figures(LassoProblem(dictionary, np.where(mask, signals, 0.0), 0.1, mask=mask), codes)
    for rubbish in (np.nan, np.inf, -1e308):
        found = figures(LassoProblem(dictionary, np.where(mask, signals, rubbish), 0.1, mask=mask), codes)
        np.testing.assert_array_equal(found.duality_gap, clean.duality_gap)


# -- penalties that are tiny, zero, or far apart ---------------------------------------------------


def exact_distance(problem, codes):
    problem, code = ExactProblem(problem), rational(codes[0])
    return problem.objective(code) - problem.optimum(codes[0], or_best=True)


@pytest.mark.property
@BOTH
@pytest.mark.filterwarnings("ignore::solvers.IllPosedWarning")
@examples(10)
@given(
    seed=st.integers(0, 2**20),
    positive=st.booleans(),
    size=st.sampled_from([0.0, 1e-13, 1e-9]),
    own=st.booleans(),
    twice=st.booleans(),
)
def test_optima_with_tiny_penalties_are_certified_and_others_truly(figures, seed, positive, size, own, twice):
    """Four penalties are tiny, or one is zero; the dictionary may have all other atoms with both signs."""
    rng = np.random.default_rng(seed)
    dictionary = rng.random((8, 20)) * 10.0 ** rng.uniform(-3, 3, (8, 1))
    signals = rng.random((1, 8)) @ dictionary / 1e2 + 0.3 * rng.standard_normal((1, 20))
    penalty = 0.3 * np.linalg.norm(dictionary, axis=1)
    penalty[: 1 if twice else 4] *= 0.0 if twice else size
    single = LassoProblem(
        dictionary, signals, penalty, positive=positive, mask=rng.random((1, 20) if own else 20) < 0.8
    )
    best = solve_active_set(single, tol=1e-9).codes
    problem, changed = single, lambda codes: codes
    if twice and not positive:
        problem = LassoProblem(
            np.vstack([dictionary, -dictionary[1:]]),
            signals,
            np.r_[penalty, penalty[1:]],
            mask=single.feature_weights,
        )
        changed = lambda codes: np.hstack([codes[:, :1], codes[:, 1:] / 2.0, -codes[:, 1:] / 2.0])  # noqa: E731
    assert figures(problem, changed(best)).duality_gap[0] <= 1e-11 * problem.energies[0]
    for factor in (0.0, 1e-15, 1e-9, 1e-3, None):
        codes = 0.0 * best if factor is None else best * (1.0 + factor * rng.standard_normal(best.shape))
        codes = np.maximum(codes, 0.0) if positive else codes
        assert Fraction(figures(problem, changed(codes)).duality_gap[0]) >= exact_distance(single, codes)


@BOTH
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("unit", [1e-30, 1e-9, 1.0, 1e9, 1e30])
def test_the_unit_of_weights_does_not_matter_to_what_is_certified(figures, unit, own):
    rng = np.random.default_rng(0)
    dictionary, signals = rng.random((8, 20)), rng.standard_normal((5, 20))
    weights = unit * rng.uniform(0.5, 2.0, signals.shape if own else 20)
    problem = LassoProblem(dictionary, signals, 1e-13 * unit, feature_weights=weights)
    codes = solve_active_set(problem, tol=1e-9).codes
    assert (figures(problem, codes).duality_gap <= 1e-12 * problem.energies).all()


# -- penalties by their definitions ----------------------------------------------------------------


@SIGNS
@pytest.mark.parametrize("l2", [0.0, 2.0])
@pytest.mark.parametrize("point", [-3.0, -0.4, 0.0, 0.5, 2.0])
def test_proximal_steps_and_conjugates_are_their_definitions(point, l2, positive):
    """The reference is a numerical search; the slack of a and x is h(a) + h*(x) - a x, h is the penalty."""
    penalty = penalty_of(ElasticNet(0.5, l2), np.ones(1), np.array([positive]))
    lowest = 0.0 if positive else -5.0

    def value(a):
        return penalty.value(np.array([a]))[0]

    best = minimize_scalar(lambda a: 0.5 * (a - point) ** 2 + value(a), bounds=(lowest, 5.0)).x
    out = np.empty((1, 1))
    penalty.proximal_step(np.array([[point]]), out=out)
    assert out[0, 0] == pytest.approx(best, abs=1e-4)
    if l2:
        conjugate = max(-minimize_scalar(lambda a: value(a) - a * point, bounds=(lowest, 5.0)).fun, 0.0)
        reach = np.array([[point if positive else abs(point)]])
        assert penalty.conjugate(reach, np.ones(1), without=NONE)[0] == pytest.approx(conjugate, abs=1e-7)
        for a in (0.0, 0.2, 2.0, *(() if positive else (-1.5, -0.1))):
            slack = penalty.slack(np.array([a]), np.array([0.5 * point]), np.array([2.0]))
            assert slack[0] == pytest.approx(value(a) + conjugate - a * point, abs=1e-7)


@pytest.mark.property
@examples(40)
@given(seed=st.integers(0, 2**32 - 1), exponent=st.floats(-14, 6), some_flat=st.booleans())
def test_the_dual_multiple_is_the_best(seed, exponent, some_flat):
    rng = np.random.default_rng(seed)
    l2 = 10.0 ** (exponent + rng.uniform(-1, 1, 12))
    if some_flat:
        l2[::4] = 0.0
    penalty = penalty_of(ElasticNet(rng.uniform(0.1, 1.0, 12), l2), np.ones(12))
    reach = np.abs(rng.standard_normal((3, 12)))
    along, squared = rng.standard_normal(3), rng.uniform(0.1, 2.0, 3)
    multiple = penalty.dual_multiple(reach, along, squared)

    def dual(kappa):
        values = kappa * along - 0.5 * kappa**2 * squared - penalty.conjugate(reach, kappa, without=NONE)
        beyond = (kappa[:, np.newaxis] * reach > penalty.l1 * (1.0 + 1e-14))[:, l2 == 0.0].any(axis=1)
        return np.where(beyond, -np.inf, values)

    best = dual(multiple)
    assert np.isfinite(best).all()
    feasible = 1.0 / (reach / penalty.l1).max(axis=1)
    for other in (0.0 * multiple, feasible, *(multiple * (1.0 + step) for step in (-0.1, -1e-3, 1e-3, 0.1))):
        assert (best >= dual(other) - 1e-12 * (1.0 + np.abs(best))).all()


# -- bounds of rounding ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1.0, 1e8, 1e-8])
@pytest.mark.parametrize("stride", [None, 1, 2])
def test_residuals_are_right_to_their_own_rounding(size, stride):
    """Signal and reconstruction may cancel: the residual is only 1e-8 of the signal."""
    rng = np.random.default_rng(3)
    dictionary = rng.standard_normal((12, 49)) * 10.0 ** rng.uniform(-4, 4, (12, 1))
    if stride is not None:
        dictionary = ConvolutionalDictionary(rng.standard_normal((2, 3, 3)), (7, 7), stride)
    n_atoms = dictionary.shape[0]
    codes = size * rng.standard_normal((3, n_atoms)) * (rng.random((3, n_atoms)) < [[0.0], [0.3], [1.0]])
    atoms = LassoProblem(dictionary, np.ones((1, 49)), 1.0).atoms
    signals = atoms.reconstruct(codes)
    signals += 1e-8 * size * rng.standard_normal(signals.shape)
    found = residuals_of(atoms, signals, sparse.csr_array(codes))
    problem = LassoProblem(dictionary, signals, 1.0)
    correlations = atoms.correlate(found.values)
    for k in range(3):
        exact_problem = ExactProblem(problem, k)
        exact = exact_problem.residual(rational(codes[k]))
        errors = [x - Fraction(y) for x, y in zip(exact, found.values[k].tolist(), strict=True)]
        error = np.sqrt(float(sum(e * e for e in errors)))
        # The error of a plain sum would be up to about 1e-15 times its terms.
        terms = np.abs(codes[k]) @ np.sqrt(atoms.squared_norms)
        assert error <= found.errors[k] <= 1e-15 * np.linalg.norm(found.values[k]) + 1e-17 * terms
        for atom, correlation in zip(exact_problem.atoms, correlations[k].tolist(), strict=True):
            difference = sum(d * r for d, r in zip(atom, exact, strict=True)) - Fraction(correlation)
            length = np.sqrt(float(sum(d * d for d in atom)))
            assert abs(float(difference)) <= found.correlation_errors[k] * length


def test_high_parts_are_short_and_low_parts_exact():
    rng = np.random.default_rng(4)
    values = rng.standard_normal((6, 30)) * 10.0 ** rng.uniform(-200, 100, (6, 1))
    largest = np.abs(values).max(axis=1, keepdims=True)
    for row, kept, most in zip(values, high_part(values, largest), largest[:, 0], strict=True):
        unit = Fraction(2) ** (int(np.frexp(most)[1]) - KEPT_BITS)
        for value, part in zip(row.tolist(), kept.tolist(), strict=True):
            assert (Fraction(part) / unit).denominator == 1
            assert abs(Fraction(value) - Fraction(part)) <= unit / 2
            assert Fraction(value - part) == Fraction(value) - Fraction(part)


@pytest.mark.parametrize("n_features", [3, 1000, 5000])
def test_inner_products_are_within_their_bound(n_features):
    """The terms of the inner products cancel, so the products are far smaller than their terms."""
    rng = np.random.default_rng(5)
    dictionary, signals = rng.standard_normal((2, n_features)), rng.standard_normal((1, n_features))
    signals -= (signals @ dictionary.T) @ np.linalg.pinv(dictionary).T
    problem = LassoProblem(dictionary, signals, 1.0)
    exact = ExactProblem(problem)
    for atom, correlation in zip(exact.atoms, problem.correlations[0].tolist(), strict=True):
        terms = [d * s for d, s in zip(atom, exact.signal, strict=True)]
        bound = gamma(operations_of_sum(n_features)) * float(sum(map(abs, terms)))
        assert abs(float(sum(terms) - Fraction(correlation))) <= bound


@pytest.mark.parametrize("share", [1.0, 1e-2, 1e-4])
def test_eigenvalues_are_bounded_from_below_exactly(share):
    """G - bound diag(||d||^2) is positive definite, in rationals."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        atoms = rng.standard_normal(9) + share * rng.standard_normal((6, 9))
        bound = least_eigenvalue(atoms)
        units = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
        smallest = np.linalg.eigvalsh(units @ units.T)[0]
        # The bound is at least half the inverse of the sum of inverse eigenvalues, up to a power of two.
        assert smallest / 40.0 < bound < smallest
        problem = ExactProblem(LassoProblem(atoms, np.ones((1, 9)), 1.0))
        rows = [[*(problem.product(x, y) for y in problem.atoms), Fraction(0)] for x in problem.atoms]
        for i in range(6):
            rows[i][i] *= 1 - Fraction(bound)
        assert solution_of(rows) is not None
    assert least_eigenvalue(np.ones((2, 5))) == least_eigenvalue(np.eye(3)[:, :2] + 1.0) == 0.0
    assert least_eigenvalue(np.ones((0, 5))) == 1.0


# -- the ends of the number range, hidden numbers, and lines ---------------------------------------


@pytest.mark.property
@examples(60)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=777294)  # the largest visible entry of an atom is 1e-210
@example(seed=1015379)  # penalties of 1e257, norms of 1e-118
@example(seed=3000544)  # atoms on a line, with penalties as small as rounding errors
def test_exact_arithmetic_finds_no_false_gap_at_the_ends_of_the_range(seed):
    """No figure is NaN and NumPy does not warn; if atoms are on lines, optimal codes are converged."""
    kind, wrong = judged(seed)
    assert not wrong["false"]
    assert not wrong["NaN"]
    assert kind != "lines" or not wrong["optimal, not converged"]


@pytest.mark.property
@BOTH
@examples(40)
@given(
    seed=st.integers(0, 2**32 - 1), exponent=st.floats(100.0, 295.0), penalty=st.sampled_from([0.0, 1e-200])
)
def test_atoms_of_which_next_to_nothing_is_seen_have_their_say(figures, seed, exponent, penalty):
    """The signs of the correlations alone exclude positive codes, however small the atoms are."""
    rng = np.random.default_rng(seed)
    atoms, signal = rng.uniform(0.1, 1.0, (4, 5)), -rng.uniform(0.1, 1.0, (1, 5))
    atoms[:, 2:] *= 10.0**-exponent
    atoms = sparse.csr_array(atoms) if rng.random() < 0.5 else atoms
    problem = LassoProblem(atoms, signal, penalty, positive=True, mask=np.arange(5) >= 2)
    assert figures(problem, np.zeros((1, 4))).duality_gap[0] <= 1e-12 * problem.energies[0]


@pytest.mark.property
@examples(40)
@given(seed=st.integers(0, 2**32 - 1), exponent=st.integers(30, 100), has_signs=st.booleans())
def test_atoms_that_differ_by_next_to_nothing_of_themselves_are_certified(seed, exponent, has_signs):
    """One feature is larger by many orders, so that all atoms are nearly on one line."""
    rng = np.random.default_rng(seed)
    atoms, signals = rng.standard_normal((4, 5)), rng.standard_normal((3, 5))
    atoms[:, 2] *= 10.0**exponent
    positive = False if has_signs else np.arange(4) > 0
    problem = LassoProblem(atoms, signals, rng.uniform(1e8, 1e10, 4), positive=positive)
    assert (solve_active_set(problem, tol=1e-9).relative_gap <= 1e-9).all()


@BOTH
def test_an_l1_weight_of_zero_beside_a_quadratic_one_needs_no_correction(figures):
    net, options = (
        ElasticNet([4.5e27, 8e27, 0.0], [0.17, 2e-5, 2e-4]),
        {"positive": True, "feature_weights": [6e31]},
    )
    problem = LassoProblem([[2.0], [0.8], [-0.4]], [[0.4]], net, **options)
    codes = solve_active_set(problem, tol=1e-9).codes
    assert figures(problem, codes).duality_gap[0] <= 1e-9 * problem.energies[0]


AT_THE_ENDS = {
    "faint": [97, 135, 201, 375, 1580, 2370],
    "quadratic": [738, 2715],
    "parallel": [373, 1190, 1495, 1554, 2161, 2400, 2868],
}


@pytest.mark.parametrize("seeds", AT_THE_ENDS.values(), ids=AT_THE_ENDS)
def test_optimal_codes_at_the_ends_of_the_range_are_said_to_be(seeds):
    for seed in seeds:
        _, wrong = judged(seed)
        assert wrong["optimal"]
        assert not wrong["optimal, not converged"]
        assert not wrong["false"]


@BOTH
@pytest.mark.parametrize(
    ("atom", "options", "penalty", "distance"),
    [
        # The zero code is worse than the optimum by w / 2 (1 - penalty / (w x))^2: weight w, entry x.
        ([1.0, 1e-165], {"mask": [False, True]}, 1e-167, 0.49),
        ([1.0, 1e-165], {"mask": [False, True]}, 0.0, 0.5),
        ([1.0, 1e-165], {"feature_weights": [0.0, 1e60]}, 1e-107, 0.49e60),
        ([1.0, 1e-165], {"feature_weights": [0.0, 1e-60]}, 1e-227, 0.49e-60),
        ([1.0, 1e-250], {"feature_weights": [0.0, 1e-60]}, 0.0, 0.5e-60),
        ([1.0, 1e-165], {"mask": [[False, True]]}, 1e-167, 0.49),
    ],
)
def test_an_atom_of_which_next_to_nothing_is_seen_is_seen(figures, atom, options, penalty, distance):
    for dictionary in ([atom], [atom, [0.5, 0.0]]):
        problem = LassoProblem(dictionary, [[0.0, 1.0]], penalty, **options)
        assert figures(problem, np.zeros((1, len(dictionary)))).duality_gap[0] >= 0.99 * distance


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(("atom", "penalty"), [([1e-88, 1e-210], 1e-250), ([1e-20, 1e-118], 1e257)])
def test_steps_of_atoms_that_are_hardly_seen_are_finite(atom, penalty, own):
    weights = np.array([[0.0, 0.05], [0.0, 5e-4]])
    signals = [[1.0, 1e40], [1.0, 1e-40]]
    problem = LassoProblem([atom], signals, penalty, feature_weights=weights if own else weights[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        assert not np.isnan(solve_fista(problem, max_iter=100).duality_gap).any()


@pytest.mark.parametrize("form", ["array", "sparse", "kernels", "own masks", "zero penalty", "elastic net"])
@pytest.mark.parametrize("size", [1e100, 1e153, 1e160, 1e200, 1e300, 1.7e308])
def test_no_figure_of_what_overflows_is_nan(form, size):
    dictionary = np.array([[1.0, 1.0], [1.0, -1.0]])
    options = {"mask": np.array([[True, False]])} if form == "own masks" else {}
    penalty = ElasticNet(0.1, 1.0) if form == "elastic net" else 0.1 * (form != "zero penalty")
    if form == "sparse":
        dictionary = sparse.csr_array(dictionary)
    elif form == "kernels":
        dictionary = ConvolutionalDictionary([[1.0]], 2, 1)
    problem = LassoProblem(dictionary, [[1.0, 1.0]], penalty, **options)
    for codes in ([[size, 0.0]], [[size, -size]], [[-size, 1.0]]):
        for found in (measure(problem, codes), certify(problem, codes, tol=1e-3), by_kernel(problem, codes)):
            for name in FIGURES:
                assert getattr(found, name)[0] >= 0.0


LINES = {
    "opposite": [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]],
    "multiples": [[0.3, 0.1, 0.2], [-0.6, -0.2, -0.4], [0.7, 0.5, 0.1]],
    "thirds": [[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [-1.0, -2.0, 0.0]],
    "a plane": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [1.0, -1.0, 0.0]],
    "a line and equal atoms": [[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]],
}


@BOTH
@pytest.mark.parametrize("penalty", [0.0, 1e-30, 1e-16])
@pytest.mark.parametrize("weights", [None, [0.3, 2.0, 0.7], [[0.3, 2.0, 0.7]], [1.0, 1.0, 0.0]], ids=str)
@pytest.mark.parametrize("lines", LINES)
def test_codes_beside_lines_are_certified_to_rounding_and_no_closer(figures, lines, weights, penalty):
    dictionary = np.array(LINES[lines])
    for signal in ([0.4, -1.3, 0.9], [-2.0, 0.1, -0.3]):
        problem = LassoProblem(dictionary, [signal], penalty, positive=True, feature_weights=weights)
        result = solve_active_set(problem, tol=1e-12)
        assert result.converged
        assert figures(problem, result.codes).duality_gap[0] <= 1e-12 * problem.energies[0]
        for size in (0.0, 1e-9, 1e-3, 1.0):
            codes = result.codes + size
            exact = ExactProblem(problem)
            excess = exact.objective(rational(codes[0])) - exact.objective(rational(result.codes[0]))
            assert Fraction(figures(problem, codes).duality_gap[0]) >= excess


@pytest.mark.filterwarnings("ignore:positive holds for atom 0:solvers.IllPosedWarning")
@pytest.mark.parametrize("positive", [True, [True, True, False], [False, True, True]], ids=str)
def test_lines_of_atoms_with_and_without_signs_and_penalties(positive):
    """An intercept has a line of its own; an atom with a penalty belongs to no line, with either sign."""
    dictionary = [[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]
    for penalty in ([0.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.5]):
        problem = LassoProblem(dictionary, [[1.0, -2.0, 0.5, 0.3]], penalty, positive=positive)
        assert solve_active_set(problem, tol=1e-12).converged


@pytest.mark.parametrize("seed", range(8))
def test_penalties_of_the_atoms_of_a_line_have_room_for_rounding(seed):
    """Atoms cancel each other up to rounding: the penalty of the combination is larger than its gain."""
    rng = np.random.default_rng(seed)
    atoms, signals = rng.standard_normal((3, 5)), rng.standard_normal((1, 5))
    opposite = np.vstack([atoms[:1], -0.7 * atoms[:1]])
    sums = np.vstack([atoms, -rng.uniform(0.5, 2.0, 3) @ atoms])
    for dictionary, penalty in ((opposite, [1e-13, 0.0]), (opposite, [0.0, 1e-13]), (sums, 1.5e-16)):
        problem = LassoProblem(dictionary, signals, penalty, positive=True)
        assert solve_active_set(problem, tol=1e-12).converged


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("positive", [True, False])
def test_signals_of_independent_atoms_are_corrected_together(positive, curved, monkeypatch):
    """The bits equal the bits of signals that are corrected one by one."""
    rng = np.random.default_rng(3)
    penalty = ElasticNet(0.0, rng.uniform(0.1, 1.0, 5) * (rng.random(5) < 0.5) * curved)
    problem = LassoProblem(rng.random((5, 12)), rng.random((300, 12)), penalty, positive=positive)
    codes = solve_active_set(problem).codes
    alone = [measure(problem.subset([k]), codes[[k]]).duality_gap[0] for k in range(300)]
    made, set_up = [], _Point.__init__
    monkeypatch.setattr(_Point, "__init__", lambda *given: made.append(given) or set_up(*given))
    gaps = measure(problem, codes).duality_gap
    assert len(made) == 1
    np.testing.assert_array_equal(gaps, alone)
    assert (gaps <= 1e-12 * problem.energies).all()


def test_squares_of_tiny_corrections_do_not_underflow():
    problem = LassoProblem(np.eye(2), [[1.0, 1.0]], 0.0)
    ones = np.ones(2)
    point = _Point(problem, np.eye(2).__getitem__, ones, ones, ones, 1.0, ones == 0.0)
    assert point._norm(np.array([1e-200, 0.0]), 1.0) >= 1e-200


# -- what a mask hides ------------------------------------------------------------------------------

RNG = np.random.default_rng(7)
ATOMS, SIGNALS, KNOWN = RNG.standard_normal((6, 40)), RNG.standard_normal((3, 40)), RNG.random(40) < 0.7


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("hides", ["mask", "own masks", "weights"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_results_are_those_of_the_problem_without_what_is_hidden(form, hides, fill):
    dictionary = form(np.where(KNOWN, ATOMS, fill))
    weights = np.where(KNOWN, RNG.uniform(0.5, 2.0, 40) if hides == "weights" else 1.0, 0.0)
    options = {"feature_weights": weights}
    if hides != "weights":
        options = {"mask": np.tile(KNOWN, (3, 1)) if hides == "own masks" else KNOWN}
    signals = np.where(KNOWN, SIGNALS, fill)
    roots = np.sqrt(weights[KNOWN])
    problem = LassoProblem(dictionary, signals, 0.5, **options)
    cut = LassoProblem(form(ATOMS[:, KNOWN] * roots), SIGNALS[:, KNOWN] * roots, 0.5)
    for solver in (solve_active_set, solve_fista):
        ours, theirs = solver(problem, tol=1e-8), solver(cut, tol=1e-8)
        assert ours.converged
        atol = 1e-4 if solver is solve_fista else 1e-12
        np.testing.assert_allclose(ours.codes, theirs.codes, rtol=0, atol=atol)
    found, expected = measure(problem, theirs.codes), measure(cut, theirs.codes)
    for name in FIGURES:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-12)
    # Known features have the numbers that were passed; unknown features have the fill value.
    np.testing.assert_array_equal(problem.reconstruct(np.eye(3, 6)), np.where(KNOWN, ATOMS, fill)[:3])


def test_a_signal_does_not_notice_what_others_know():
    """One feature of the dictionary is 1e30, and only one signal knows it."""
    mask = np.tile(KNOWN, (3, 1))
    mask[:, 5], mask[2, 5] = False, True
    dictionary = ATOMS * np.where(np.arange(40) == 5, 1e30, 1.0)
    problem = LassoProblem(dictionary, SIGNALS, 0.5, mask=mask)
    for k in range(2):
        cut = LassoProblem(ATOMS[:, mask[k]], SIGNALS[k : k + 1, mask[k]], 0.5)
        for solver in (solve_active_set, solve_fista):
            ours, theirs = solver(problem.subset([0, 1]), tol=1e-8), solver(cut, tol=1e-8)
            assert ours.converged
            np.testing.assert_allclose(ours.codes[k], theirs.codes[0], rtol=0, atol=1e-4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            together = solve_active_set(problem, tol=1e-8)
        np.testing.assert_array_equal(together.codes[k], solve_active_set(problem.subset([k])).codes[0])
        assert together.reached[k]


def test_a_model_knows_what_its_mask_leaves_and_another_mask_says_otherwise():
    filled = np.where(KNOWN, ATOMS, np.nan)
    model = LassoModel(filled, 0.5, mask=KNOWN)
    expected = solve_active_set(LassoProblem(ATOMS, SIGNALS, 0.5, mask=KNOWN)).codes
    np.testing.assert_array_equal(solve_active_set(model.with_signals(SIGNALS)).codes, expected)
    less = KNOWN & (np.arange(40) > 9)
    other = model.with_signals(SIGNALS, mask=less)
    expected = solve_active_set(LassoProblem(ATOMS, SIGNALS, 0.5, mask=less)).codes
    np.testing.assert_array_equal(solve_active_set(other).codes, expected)
    whole = LassoModel(np.where(KNOWN, ATOMS, 1e200 * KNOWN.argmin()), 0.5, mask=KNOWN)
    np.testing.assert_array_equal(whole.with_signals(SIGNALS, mask=less).atoms.matrix, other.atoms.matrix)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_what_a_signal_knows_of_atoms_has_to_be_finite(form):
    """An atom has to be finite at every feature that any signal knows; the message says what to do."""
    own = np.tile(KNOWN, (3, 1))
    own[1, KNOWN.argmin()] = True
    filled = form(np.where(KNOWN, ATOMS, np.nan))
    for mask in (None, own, ~KNOWN):
        with pytest.raises(ValueError, match=r"dictionary must be finite; got nan.*pass a mask"):
            LassoProblem(filled, SIGNALS, 0.5, mask=mask)
    with pytest.raises(ValueError, match="dictionary must be finite"):
        LassoModel(filled, 0.5, mask=KNOWN).with_signals(SIGNALS, mask=np.ones(40, dtype=bool))

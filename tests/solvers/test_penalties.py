"""Penalties: closed forms, the certificate of the elastic net, every solver against scikit-learn."""

import ast
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from sklearn.linear_model import Lasso

import solvers
from solvers import (
    L1,
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    lasso_network,
    objective,
    penalty_max,
    solve_active_set,
    solve_fista,
    solve_spiking,
)
from solvers.certificate.optimality import measure
from tests.reference.convolutions import GEOMETRIES, random_dictionary
from tests.reference.methods import each_method, methods
from tests.reference.problems import random_codes, random_problem

NAN, INF = float("nan"), float("inf")
NONE = np.empty(0, dtype=np.int64)
SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])

# Each is held to scikit-learn more closely than elsewhere.
TOLS = {"spiking_current": 1e-3, "fista": 1e-9, "coordinate_descent": 1e-9, "lars": 1e-9, "analog": 1e-5}
TOLS |= {"active_set": 1e-11, "active_set_from_spikes": 1e-11}
each_solver = each_method(tols=TOLS)


def net_problem(*, l1=1.0, l2=0.5, **options):
    """A random problem with an elastic net of these weights, numbers or one an atom."""
    problem = random_problem(**options)
    return LassoProblem(problem.dictionary, problem.signals, ElasticNet(l1, l2), positive=problem.positive)


def own_weights(n_atoms, seed=0):
    """Weights of their own for each atom; every third has no quadratic penalty."""
    rng = np.random.default_rng(seed)
    l1, l2 = rng.uniform(0.5, 2.0, n_atoms), 10.0 ** rng.uniform(-3, 1, n_atoms)
    l2[::3] = 0.0
    return l1, l2


def as_lasso(problem):
    """The LASSO with the dictionary [D, sqrt(diag l2)] and signals with zeros behind them."""
    dictionary = np.hstack([problem.dictionary, np.diag(np.sqrt(problem.curvatures))])
    signals = np.hstack([problem.signals, np.zeros((problem.n_signals, problem.n_atoms))])
    return LassoProblem(dictionary, signals, problem.l1_weights, positive=problem.positive)


def bound(penalty, n_atoms=1, squared_norm=1.0):
    return penalty.bound_to(np.full(n_atoms, squared_norm))


# -- what the classes say --------------------------------------------------------------------------


@SIGNS
@pytest.mark.parametrize("point", [-3.0, -0.5, 0.0, 0.3, 2.0])
@pytest.mark.parametrize("penalty", [L1(0.5), ElasticNet(0.5, 2.0), ElasticNet(0.5, 0.0)])
def test_proximal_step_minimises_its_definition(penalty, point, positive):
    penalty = bound(penalty)

    def cost(code):
        return 0.5 * (code - point) ** 2 + penalty.value(np.array([code]))[0]

    best = minimize_scalar(cost, bounds=(0.0 if positive else -5.0, 5.0), options={"xatol": 1e-10}).x
    out = np.empty((1, 1))
    penalty.proximal_step(np.array([[point]]), positive=positive, out=out)
    # A minimum is found to the root of rounding, and the ends of a range are not tried.
    assert out[0, 0] == pytest.approx(best, abs=1e-5)


@SIGNS
@pytest.mark.parametrize("code", [-1.5, -0.1, 0.0, 0.2, 2.0])
@pytest.mark.parametrize("point", [-1.0, -0.4, 0.0, 0.5, 3.0])
def test_slack_is_that_of_the_conjugate(code, point, positive):
    """h*(x) = max over a of a x - h(a), found by search; it is T(x, l1)^2 / (2 l2)."""
    penalty = bound(ElasticNet(0.5, 2.0))
    if positive and code < 0.0:
        return
    found = minimize_scalar(
        lambda a: penalty.value(np.array([a]))[0] - a * point,
        bounds=(0.0 if positive else -5.0, 5.0),
        options={"xatol": 1e-10},
    )
    conjugate = max(-found.fun, 0.0)
    reach = np.array([[point if positive else abs(point)]])
    assert penalty.conjugate(reach, np.ones(1), without=NONE)[0] == pytest.approx(conjugate, abs=1e-9)
    slack = penalty.slack(np.array([code]), np.array([0.5 * point]), np.array([2.0]), positive=positive)
    expected = penalty.value(np.array([code]))[0] + conjugate - code * point
    assert slack[0] == pytest.approx(expected, abs=1e-9)
    assert slack[0] >= 0.0


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32 - 1), exponent=st.floats(-14, 6), some_flat=st.booleans())
def test_dual_multiple_is_the_best(seed, exponent, some_flat):
    """Against the dual objective at multiples around it, and at the one that suits the LASSO."""
    rng = np.random.default_rng(seed)
    n_atoms = 12
    l2 = 10.0 ** (exponent + rng.uniform(-1, 1, n_atoms))
    if some_flat:
        l2[::4] = 0.0
    penalty = ElasticNet(rng.uniform(0.1, 1.0, n_atoms), l2).bound_to(np.ones(n_atoms))
    reach = np.abs(rng.standard_normal((3, n_atoms)))
    along, squared = rng.standard_normal(3), rng.uniform(0.1, 2.0, 3)
    multiple = penalty.dual_multiple(reach, along, squared)
    flat = l2 == 0.0

    def dual(kappa):
        values = kappa * along - 0.5 * kappa**2 * squared - penalty.conjugate(reach, kappa, without=NONE)
        beyond = (kappa[:, np.newaxis] * reach > penalty.l1 * (1.0 + 1e-14))[:, flat].any(axis=1)
        return np.where(beyond, -np.inf, values)

    best = dual(multiple)
    assert np.isfinite(best).all()
    feasible = 1.0 / (reach / penalty.l1).max(axis=1)
    for other in (0.0 * multiple, feasible, *(multiple * (1.0 + step) for step in (-0.1, -1e-3, 1e-3, 0.1))):
        assert (best >= dual(other) - 1e-12 * (1.0 + np.abs(best))).all()
    for row in range(3):
        alone = penalty.dual_multiple(reach[[row]], along[[row]], squared[[row]])
        assert alone[0] == multiple[row]


def test_maximum_is_where_the_code_becomes_zero():
    problem = random_problem(n_signals=1)
    l1, l2 = own_weights(40)
    for penalty, factor_of in (
        (L1(l1), lambda factor: L1(factor * l1)),
        (ElasticNet(l1, l2), lambda factor: ElasticNet(factor * l1, l2)),
    ):
        factor = penalty.bound_to(problem.squared_norms).maximum(np.abs(problem.correlations))[0]
        for share, zero in ((0.999, False), (1.0 + 1e-12, True)):
            part = LassoProblem(problem.dictionary, problem.signals, factor_of(share * factor))
            assert (not solve_active_set(part).codes.any()) == zero
    # With weights of one, that is `penalty_max`.
    largest = L1(1.0).bound_to(problem.squared_norms).maximum(np.abs(problem.correlations))
    np.testing.assert_array_equal(penalty_max(problem.dictionary, problem.signals), largest)


def test_numbers_become_an_l1_and_objects_are_bound_to_the_atoms():
    problem = LassoProblem(np.eye(3), np.eye(3), [0.1, 0.2, 0.3])
    assert isinstance(problem.penalty, L1)
    np.testing.assert_array_equal(problem.l1_weights, [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(problem.curvatures, [0.0, 0.0, 0.0])
    penalty = ElasticNet(0.5, [1.0, 0.0, 2.0])
    problem = LassoProblem(np.eye(3), np.eye(3), penalty)
    np.testing.assert_array_equal(problem.l1_weights, [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(problem.curvatures, [1.0, 0.0, 2.0])
    assert penalty.l1 == 0.5  # what was passed stays as it was
    assert problem.subset([1]).penalty is problem.penalty
    # The penalty of one problem serves another.
    again = LassoProblem(np.eye(3), np.ones((1, 3)), problem.penalty)
    np.testing.assert_array_equal(again.curvatures, problem.curvatures)
    for array in (problem.l1_weights, problem.curvatures, again.curvatures, problem.penalty.l1):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2.0
    with pytest.raises(AttributeError):
        penalty.l1 = 1.0
    copy = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(solve_fista(copy).codes, solve_fista(problem).codes)


def test_no_solver_asks_for_the_kind_of_a_penalty():
    """One class is enough for a new penalty: its name appears where penalties are defined and exported."""
    kinds = {"L1", "ElasticNet"}
    for path in Path(solvers.__file__).parent.rglob("*.py"):
        if path.name in ("penalties.py", "__init__.py", "jax_codes.py"):  # the last one makes a penalty
            continue
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not names & kinds, path


# -- the certificate of the elastic net ------------------------------------------------------------


@SIGNS
def test_orthogonal_atoms_by_hand(positive):
    """Atoms e_i: a_i = T(s_i, l1) / (1 + l2), each by itself."""
    signals = np.array([[2.0, -1.0, 0.25, 0.0]])
    problem = LassoProblem(np.eye(4), signals, ElasticNet(0.5, 1.0), positive=positive)
    optimum = np.array([[0.75, 0.0 if positive else -0.25, 0.0, 0.0]])
    figures = measure(problem, optimum)
    # Halves and quarters: all of it is exact in binary, and a gap is the square of a bound on rounding.
    assert figures.duality_gap[0] <= 1e-28
    assert figures.kkt_violation[0] == 0.0
    residual = signals - optimum
    expected = 0.5 * (residual**2).sum() + 0.5 * np.abs(optimum).sum() + 0.5 * (optimum**2).sum()
    assert figures.objective[0] == expected
    for atom in range(3):
        for step in (-0.25, -(2.0**-20), 2.0**-20, 0.25):
            moved = optimum.copy()
            moved[0, atom] += step
            if positive and moved.min() < 0.0:
                continue
            away = measure(problem, moved)
            assert away.kkt_violation[0] == 2.0 * abs(step)
            assert away.duality_gap[0] >= away.objective[0] - expected > 0.0


def exact_gap(problem, code, kappa):
    """E(a) minus the dual objective at kappa r, in long double, by definition."""
    dictionary, signal, code, l1, l2 = (
        np.asarray(array, dtype=np.longdouble)
        for array in (problem.dictionary, problem.signals[0], code, problem.l1_weights, problem.curvatures)
    )
    residual = signal - code @ dictionary
    primal = residual @ residual / 2 + l1 @ np.abs(code) + (l2 * code * code).sum() / 2
    point = kappa * residual
    reach = dictionary @ point
    excess = np.maximum((reach if problem.positive else np.abs(reach)) - l1, 0)
    dual = signal @ point - point @ point / 2 - (excess[l2 > 0] ** 2 / l2[l2 > 0]).sum() / 2
    return primal - dual, primal


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="long doubles are doubles here")
@SIGNS
@pytest.mark.parametrize("size", [1e-6, 1e-2, 1.0, 100.0])
def test_gap_is_the_difference_of_the_objectives_in_long_double(positive, size):
    l1, l2 = own_weights(40)
    # Without atoms that limit kappa by rounding, the definition can be evaluated at any kappa.
    l2 = np.maximum(l2, 1e-3)
    problem = net_problem(n_signals=1, positive=positive, l1=l1, l2=l2, unit_norm=False)
    best = solve_active_set(problem).codes
    for codes in (random_codes(problem, scale=size), best + size * random_codes(problem)):
        codes = np.maximum(codes, 0.0) if positive else codes
        residual = problem.signals - codes @ problem.dictionary
        correlations = residual @ problem.dictionary.T
        reach = correlations if positive else np.abs(correlations)
        along, squared = (problem.signals * residual).sum(axis=1), (residual**2).sum(axis=1)
        kappa = problem.penalty.dual_multiple(reach, along, squared)[0]
        expected, primal = exact_gap(problem, codes[0], np.longdouble(kappa))
        figures = measure(problem, codes)
        # Correlations are rounded in proportion to the signal; long double loses as much of the difference.
        atol = 1e-13 * float(np.sqrt(expected * primal) + 1e-3 * primal)
        np.testing.assert_allclose(figures.duality_gap[0], float(expected), rtol=1e-9, atol=atol)
        assert figures.objective[0] == pytest.approx(float(primal), rel=1e-13)


def test_gap_keeps_its_digits_where_the_difference_of_objectives_has_none():
    """One atom of norm one, its coefficient too large by e: E - min E = 1/2 (1 + l2) e^2."""
    error = 2.0**-30
    problem = LassoProblem([[1.0, 0.0]], [[2.0, 0.0]], ElasticNet(0.5, 1.0))
    gap = measure(problem, [[0.75 + error]]).duality_gap[0]
    excess = 0.5 * 2.0 * error**2
    assert excess <= gap * (1.0 + 1e-6)
    assert gap <= 2.0 * excess


@SIGNS
@pytest.mark.parametrize("l2", [1e-12, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("size", [1e-8, 1e-3, 1.0, 1e3])
def test_gap_bounds_the_distance_to_the_optimum(positive, l2, size):
    problem = net_problem(positive=positive, l2=l2, unit_norm=False)
    best = solve_active_set(problem, tol=1e-12)
    rng = np.random.default_rng(2)
    for codes in (
        random_codes(problem, scale=size),
        best.codes + random_codes(problem, scale=size),
        np.where(rng.random(best.codes.shape) < 0.5, best.codes, 0.0),
        best.codes,
    ):
        figures = measure(problem, np.maximum(codes, 0.0) if positive else codes)
        rounding = 1e-12 * (figures.objective + problem.energies)
        assert (figures.duality_gap >= -rounding).all()
        assert (figures.duality_gap >= figures.objective - best.objective - rounding).all()
    assert (np.abs(best.duality_gap) <= 1e-12 * problem.energies).all()
    assert (best.kkt_violation <= 1e-12 * np.abs(problem.correlations).max(axis=1)).all()


@SIGNS
def test_gap_is_not_above_that_of_the_lasso_with_more_features(positive):
    """There the dual point has parts of its own for the added features; here it has the best of them."""
    problem = net_problem(positive=positive, l1=own_weights(40)[0], l2=own_weights(40)[1])
    for scale in (1e-3, 1.0):
        codes = random_codes(problem, scale=scale)
        here, there = measure(problem, codes), measure(as_lasso(problem), codes)
        assert (here.duality_gap <= there.duality_gap * (1.0 + 1e-12)).all()
        np.testing.assert_allclose(here.objective, there.objective, rtol=1e-13)
        np.testing.assert_allclose(here.kkt_violation, there.kkt_violation, rtol=1e-11)


@SIGNS
def test_without_quadratic_part_it_is_the_lasso(positive):
    lasso = random_problem(positive=positive)
    problem = net_problem(positive=positive, l2=0.0)
    codes = random_codes(lasso)
    np.testing.assert_allclose(
        measure(problem, codes).duality_gap, measure(lasso, codes).duality_gap, rtol=1e-14
    )
    for solve in methods().values():
        tol = solve.finest_tol
        np.testing.assert_array_equal(solve(problem, tol=tol).codes, solve(lasso, tol=tol).codes)


@SIGNS
def test_certificate_of_a_code_does_not_depend_on_its_company(positive):
    l1, l2 = own_weights(40)
    problem = net_problem(n_signals=9, positive=positive, l1=l1, l2=l2)
    codes = random_codes(problem)
    together = measure(problem, codes)
    for signal in range(9):
        alone = measure(problem.subset([signal]), codes[[signal]])
        for name in ("objective", "duality_gap", "kkt_violation"):
            assert getattr(alone, name)[0] == getattr(together, name)[signal]


# -- every solver ----------------------------------------------------------------------------------


def sklearn_codes(problem):
    """scikit-learn's ElasticNet where all weights are equal; else its Lasso with more features."""
    options = {"fit_intercept": False, "positive": problem.positive, "tol": 1e-12, "max_iter": 1_000_000}
    l1, l2 = problem.l1_weights[0], problem.curvatures[0]
    if (problem.l1_weights == l1).all() and (problem.curvatures == l2).all():
        alpha = (l1 + l2) / problem.n_features
        model = SklearnElasticNet(alpha=alpha, l1_ratio=l1 / (l1 + l2), **options)
        return np.array([model.fit(problem.dictionary.T, signal).coef_ for signal in problem.signals])
    lasso = as_lasso(problem)
    atoms = lasso.dictionary / lasso.l1_weights[:, np.newaxis]
    model = Lasso(alpha=1.0 / lasso.n_features, **options)
    return np.array([model.fit(atoms.T, signal).coef_ for signal in lasso.signals]) / lasso.l1_weights


def assert_optimal(problem, solve, tol):
    result = solve(problem, tol=tol)
    assert result.converged
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, of a tol at the end of double precision
        expected = sklearn_codes(problem)
    excess = result.objective - objective(problem, expected)
    assert (excess <= tol * problem.energies).all()
    assert (excess >= -1e-11 * problem.energies).all()
    assert (result.duality_gap <= tol * problem.energies).all()
    return result, expected


@each_solver
@SIGNS
@pytest.mark.parametrize("l2", [1e-3, 0.5, 20.0])
def test_codes_are_those_of_scikit_learn(solve, tol, positive, l2):
    problem = net_problem(n_features=30, n_atoms=60, positive=positive, l2=l2)
    result, expected = assert_optimal(problem, solve, tol)
    # E grows by l2 / 2 ||a - a*||^2 at least.
    atol = np.sqrt(2.0 * (tol + 1e-11) * problem.energies.max() / l2)
    np.testing.assert_allclose(result.codes, expected, rtol=0, atol=atol)


@each_solver
@SIGNS
def test_weights_and_norms_of_their_own(solve, tol, positive):
    l1, l2 = own_weights(60)
    problem = net_problem(n_features=30, n_atoms=60, positive=positive, l1=l1, l2=l2, unit_norm=False)
    assert_optimal(problem, solve, tol)


@each_method("lars", tols=TOLS)
def test_atoms_that_are_the_same_share_their_coefficient(solve, tol):
    """They join the path at the same time, which `lars_path` does not follow."""
    problem = net_problem(n_atoms=40, n_duplicates=20, l2=1.0)
    result, _ = assert_optimal(problem, solve, tol)
    atol = 2.0 * np.sqrt(2.0 * tol * problem.energies.max())
    np.testing.assert_allclose(result.codes[:, :20], result.codes[:, 20:], rtol=0, atol=atol)


@SIGNS
@pytest.mark.parametrize("readout", ["rate", "current"])
def test_convolutional_dictionaries_take_it_too(positive, readout):
    rng = np.random.default_rng(3)
    dictionary = ConvolutionalDictionary(rng.standard_normal((2, 3, 3)), (9, 9), 2)
    l1, l2 = own_weights(dictionary.shape[0])
    signals = 5.0 * rng.standard_normal((2, 81))
    problem = LassoProblem(dictionary, signals, ElasticNet(l1, l2), positive=positive)
    dense = LassoProblem(dictionary.toarray(), signals, ElasticNet(l1, l2), positive=positive)
    best = solve_fista(problem, tol=1e-9)
    for codes in (best.codes, solve_fista(dense, tol=1e-9).codes):
        np.testing.assert_allclose(
            objective(dense, codes), best.objective, rtol=0, atol=2e-9 * dense.energies.max()
        )
    result = solve_spiking(problem, tol=1e-2, readout=readout)
    assert result.converged
    assert (result.objective - best.objective <= 1e-2 * problem.energies).all()


@SIGNS
@pytest.mark.parametrize("geometry", GEOMETRIES[:3])
@pytest.mark.parametrize("share", [0.02, 0.3])
def test_active_sets_of_convolutional_dictionaries_take_it_too(positive, geometry, share):
    """Also polished, and from a start: the codes of FISTA, and of the same atoms as an array."""
    dictionary = random_dictionary(geometry)
    l1, l2 = own_weights(dictionary.shape[0])
    signals = np.random.default_rng(4).standard_normal((2, dictionary.shape[1]))
    l1 *= share * penalty_max(dictionary, signals, positive=positive).min()
    l2 = np.maximum(l2, 1e-2) * dictionary.squared_norms
    problem = LassoProblem(dictionary, signals, ElasticNet(l1, l2), positive=positive)
    dense = LassoProblem(dictionary.toarray(), signals, ElasticNet(l1, l2), positive=positive)
    expected = solve_active_set(dense, tol=1e-13)
    near = solve_fista(problem, tol=1e-11)
    rough = solve_fista(problem, tol=1e-2)
    for result in (
        solve_active_set(problem, tol=1e-12),
        solve_active_set(problem, tol=1e-12, start=rough),
        solve_spiking(problem, tol=1e-12, polish=True),
    ):
        assert result.converged
        figures = measure(problem, result.codes)
        assert (figures.duality_gap <= 1e-12 * problem.energies).all()
        assert (figures.kkt_violation <= 1e-12 * np.abs(problem.correlations).max(axis=1)).all()
        np.testing.assert_array_equal(result.codes != 0.0, expected.codes != 0.0)
        np.testing.assert_allclose(
            result.codes, expected.codes, rtol=0, atol=1e-11 * np.abs(expected.codes).max()
        )
        # E grows by l2 / 2 ||a - a*||^2 at least.
        atol = np.sqrt(2.0 * 1.1e-11 * problem.energies.max() / l2.min())
        np.testing.assert_allclose(result.codes, near.codes, rtol=0, atol=atol)
    lasso = solve_active_set(LassoProblem(dictionary, signals, l1, positive=positive))
    assert np.abs(lasso.codes - expected.codes).max() > 1e-2 * np.abs(expected.codes).max()


@SIGNS
def test_network_takes_the_quadratic_part_in_its_thresholds(positive):
    l1, l2 = own_weights(40)
    problem = net_problem(n_signals=1, positive=positive, l1=l1, l2=l2, unit_norm=False)
    lasso = LassoProblem(problem.dictionary, problem.signals, l1, positive=positive)
    network, plain = lasso_network(problem), lasso_network(lasso)
    np.testing.assert_array_equal(network.weights.toarray(), plain.weights.toarray())
    np.testing.assert_array_equal(network.soma_bias, plain.soma_bias)
    added = l2 if positive else np.concatenate([l2, l2])
    np.testing.assert_array_equal(network.firing_threshold, plain.firing_threshold + added)


# -- what is refused -------------------------------------------------------------------------------

CASES = [
    (lambda: L1(-1), ValueError, "weights must not be negative; got -1.0"),
    (lambda: L1([0.1, -0.1]), ValueError, r"weights must not be negative; got -0.1 at \[1\]"),
    (lambda: L1(NAN), ValueError, "weights must be finite; got nan"),
    (lambda: L1([1.0, INF]), ValueError, r"weights must be finite; got inf at \[1\]"),
    (lambda: L1(True), TypeError, "weights must be a real number; got bool"),
    (lambda: L1("much"), TypeError, "weights must be an array of real numbers"),
    (lambda: L1(None), TypeError, "weights must be an array of real numbers"),
    (
        lambda: L1(np.ones((2, 2))),
        ValueError,
        r"weights must be 1-D, one number an atom, .* got shape \(2, 2\)",
    ),
    (lambda: L1([]), ValueError, "weights must not be empty"),
    (lambda: ElasticNet(-1.0, 1.0), ValueError, "l1 must not be negative; got -1.0"),
    (lambda: ElasticNet(True, 1.0), TypeError, "l1 must be a real number; got bool"),
    (lambda: ElasticNet([1.0, NAN], 1.0), ValueError, r"l1 must be finite; got nan at \[1\]"),
    (lambda: ElasticNet(1.0, -0.5), ValueError, "l2 must not be negative; got -0.5"),
    (lambda: ElasticNet(1.0, [0.0, -1.0]), ValueError, r"l2 must not be negative; got -1.0 at \[1\]"),
    (lambda: ElasticNet(1.0, False), TypeError, "l2 must be a real number; got bool"),
    (lambda: ElasticNet(1.0, INF), ValueError, "l2 must be finite; got inf"),
    (lambda: ElasticNet(1.0, 1j), TypeError, "l2 must be an array of real numbers; got dtype complex128"),
]
BOUND_CASES = [
    (L1([1.0, 2.0, 3.0]), r"weights must have shape \(2,\), one number an atom; got shape \(3,\)"),
    (ElasticNet([1.0] * 3, 1.0), r"l1 must have shape \(2,\), one number an atom; got shape \(3,\)"),
    (ElasticNet(1.0, [1.0]), r"l2 must have shape \(2,\), one number an atom; got shape \(1,\)"),
    (ElasticNet(1.0, [1.0, 1e-16]), r"l2 must be 0 or at least 1e-15 .* got 1e-16 for atom 1"),
    (ElasticNet(1.0, 1e-300), r"l2 must be 0 or at least 1e-15 .* got 1e-300 for atom 0"),
]


@pytest.mark.parametrize(("call", "error", "message"), CASES)
def test_nonsense_gets_a_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("penalty", "message"), BOUND_CASES)
def test_penalties_that_do_not_fit_their_atoms_get_a_sentence(penalty, message):
    with pytest.raises(ValueError, match=message):
        LassoProblem(np.eye(2), np.ones((1, 2)), penalty)

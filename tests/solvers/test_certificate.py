"""Compiled certificates: the figures of `solvers.certificate.optimality`, and the same bound on rounding."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from solvers import ConvolutionalDictionary, ElasticNet, LassoProblem, solve_active_set
from solvers.certificate.compiled import certify
from solvers.certificate.optimality import measure
from solvers.results.result import as_sparse
from tests.reference.problems import random_codes, random_problem
from tests.solvers import test_rounding as extremes

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
CURVED = pytest.mark.parametrize("curved", [False, True], ids=["l1", "elastic net"])
FIGURES = ("objective", "duality_gap", "kkt_violation")


def with_penalty(problem, *, curved, seed=0):
    """Penalties of their own for each atom; with `curved` two thirds of them have a quadratic part."""
    rng = np.random.default_rng(seed)
    l1 = problem.l1_weights * rng.uniform(0.5, 2.0, problem.n_atoms)
    l2 = 10.0 ** rng.uniform(-6, 2, problem.n_atoms) * (rng.random(problem.n_atoms) < 0.7)
    penalty = ElasticNet(l1, l2 * problem.squared_norms) if curved else l1
    return LassoProblem(problem.dictionary, problem.signals, penalty, positive=problem.positive)


def require_agreement(problem, codes):
    """Compiled figures are those of NumPy to 1e-13 of the signal."""
    compiled, expected = certify(problem, as_sparse(codes)), measure(problem, codes)
    units = expected.objective + problem.energies
    reach = np.linalg.norm(problem.signals, axis=1) * problem.atoms.norms.max() + expected.kkt_violation
    for name, unit in zip(FIGURES, (units, units, reach), strict=True):
        assert (np.abs(getattr(compiled, name) - getattr(expected, name)) <= 1e-13 * unit).all(), name


@SIGNS
@CURVED
@pytest.mark.parametrize(
    ("n_features", "n_atoms"), [(1, 1), (5, 7), (64, 257), (1025, 30), (2300, 6)], ids=str
)
def test_figures_are_those_of_numpy(positive, curved, n_features, n_atoms):
    problem = random_problem(n_features, n_atoms, positive=positive, unit_norm=False, n_signals=4)
    problem = with_penalty(problem, curved=curved)
    best = solve_active_set(problem).codes
    for density, scale in ((0.0, 1.0), (0.2, 1e-6), (0.2, 1.0), (1.0, 100.0)):
        codes = random_codes(problem, density=density, scale=scale)
        require_agreement(problem, codes)
        require_agreement(problem, np.maximum(best + codes, 0.0) if positive else best + codes)
    require_agreement(problem, best)


@SIGNS
@CURVED
def test_figures_of_a_code_do_not_depend_on_its_company(positive, curved):
    problem = with_penalty(random_problem(n_signals=17, positive=positive), curved=curved)
    codes = as_sparse(random_codes(problem))
    together = certify(problem, codes)
    for which in ([0], [16], [3, 4, 5]):
        alone = certify(problem.subset(which), codes[which])
        for name in FIGURES:
            np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[which])


@pytest.mark.thorough
@SIGNS
@CURVED
@pytest.mark.parametrize(("ratio", "spread"), [(1.0, 0.0), (1e10, 0.0), (1e13, 0.0), (1e8, 5.0)])
def test_gap_is_not_below_the_exact_one(positive, curved, ratio, spread):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        problem = extremes.random_problem(
            rng, positive=positive, curved=curved, ratio=ratio, spread=spread, share=0.1
        )
        near = None
        for codes in extremes.codes_near_the_optimum(problem, rng):
            near = codes if near is None else near
            gap = certify(problem, as_sparse(codes)).duality_gap[0]
            extremes.require_exact_bound(problem, codes, gap, near)


def test_zero_signals_and_zero_codes_have_no_gap():
    problem = LassoProblem(np.eye(3), np.zeros((2, 3)), 0.1)
    figures = certify(problem, sparse.csr_array(([0.5], ([1], [2])), (2, 3)))
    assert [getattr(figures, name)[0] for name in FIGURES] == [0.0, 0.0, 0.0]
    require_agreement(problem, np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.5]]))


@pytest.mark.thorough
def test_long_indices_are_taken():
    problem = random_problem()
    codes = as_sparse(random_codes(problem))
    longer = sparse.csr_array(codes)
    longer.indices, longer.indptr = longer.indices.astype(np.int64), longer.indptr.astype(np.int64)
    for name in FIGURES:
        np.testing.assert_array_equal(
            getattr(certify(problem, longer), name), getattr(certify(problem, codes), name)
        )


@pytest.mark.parametrize("figures", [certify, measure])
def test_it_is_independent_of_the_gram_matrix(figures):
    """A wrong matrix, put where a solver would find it, changes nothing."""
    problem = random_problem()
    codes = as_sparse(random_codes(problem))
    expected = figures(problem, codes)
    problem.model._gram = np.full((problem.n_atoms, problem.n_atoms), np.nan)
    vars(problem)["correlations"] = np.full((problem.n_signals, problem.n_atoms), np.nan)
    found = figures(problem, codes)
    for name in FIGURES:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_what_has_no_compiled_code_is_measured_by_numpy():
    rng = np.random.default_rng(0)
    dictionary = ConvolutionalDictionary(rng.standard_normal((2, 3, 3)), (7, 7), 2)
    problem = LassoProblem(dictionary, rng.standard_normal((2, 49)), 0.1)
    codes = random_codes(problem)
    expected, found = measure(problem, codes), certify(problem, as_sparse(codes))
    for name in FIGURES:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_what_overflows_is_not_certified():
    problem = LassoProblem(np.eye(2), [[1.0, 1.0]], 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gap = certify(problem, as_sparse(np.array([[1e200, 0.0]]))).duality_gap
    assert gap[0] == np.inf

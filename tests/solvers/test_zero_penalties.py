"""Penalties of zero and tiny ones: least squares, non-negative or not, intercepts, and their certificates."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog, lsq_linear, nnls

from snn.base import checks
from solvers import (
    METHODS,
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    PreparedLasso,
    SparseCodingStream,
    SpikingSparseCoder,
    memory_limit,
    path,
    solve,
    solve_active_set,
)
from solvers.certificate import corrected
from solvers.certificate.compiled import certify
from solvers.certificate.corrected import least_eigenvalue
from solvers.certificate.optimality import measure
from solvers.methods.method import NOT_NEGATIVE, TAKEN
from solvers.results.result import as_sparse
from tests.reference.methods import each_method, methods
from tests.reference.problems import random_problem
from tests.reference.rationals import ExactProblem, rational
from tests.solvers.test_rounding import codes_near_the_optimum

KERNELS = np.ones((1, 2, 2))
SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
WHOSE = pytest.mark.parametrize("share", [1.0, 0.4], ids=["all atoms", "some atoms"])


def regression(n_atoms=8, n_features=20, *, n_signals=3, seed=0):
    rng = np.random.default_rng(seed)
    dictionary = rng.random((n_atoms, n_features))
    codes = rng.random((n_signals, n_atoms)) * (rng.random((n_signals, n_atoms)) < 0.5)
    return dictionary, codes @ dictionary + 0.3 * rng.standard_normal((n_signals, n_features))


# -- the certificate ---------------------------------------------------------------------------------


def halved(codes):
    """Halves, which are exact, on an atom and its negative; the first atom is there once."""
    return np.hstack([codes[:, :1], codes[:, 1:] / 2.0, -codes[:, 1:] / 2.0])


def require_proved(problem, codes_of, certificate, certified, changed=lambda codes: codes):
    """Exactly: no gap is below the distance to the optimum, and the first code is certified as optimal.

    Gaps are those of the problem `certified`, which may have other atoms and so other codes.
    """
    exact, near = ExactProblem(problem), None
    for codes in codes_of:
        gap = certificate(certified, changed(codes)).duality_gap[0]
        if near is None:
            near = codes[0]
            assert gap <= 1e-12 * problem.energies[0]
        distance = exact.objective(rational(codes[0])) - exact.optimum(near)
        assert Fraction(gap) >= distance >= 0


@SIGNS
@WHOSE
@pytest.mark.parametrize("weights", [None, "mask", "weights", "own masks"])
@pytest.mark.parametrize("size", [0.0, 1e-13, 1e-9])
@pytest.mark.parametrize("certificate", [measure, lambda *of: certify(of[0], as_sparse(of[1]))])
def test_gap_is_not_below_the_distance_to_the_optimum(positive, share, weights, size, certificate):
    """Exactly, for optimal codes, codes beside them and zero; and optimal ones are certified."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        dictionary, signals = regression(n_signals=1, seed=seed)
        dictionary *= 10.0 ** rng.uniform(-3, 3, (8, 1))
        penalty = 0.3 * np.linalg.norm(dictionary, axis=1)
        penalty[rng.permutation(8)[: round(8 * share)]] *= size
        options = {}
        if weights == "weights":
            options["feature_weights"] = 10.0 ** rng.uniform(-2, 2, 20)
        elif weights is not None:
            shape = (1, 20) if weights == "own masks" else 20
            options["mask"] = rng.random(shape) < 0.8
        problem = LassoProblem(dictionary, signals, penalty, positive=positive, **options)
        require_proved(problem, codes_near_the_optimum(problem, rng), certificate, problem)


@pytest.mark.parametrize("certificate", [measure, lambda *of: certify(of[0], as_sparse(of[1]))])
def test_dependent_atoms_beside_free_ones_are_certified(certificate):
    """Columns that are there twice, beside an intercept: the gap is that without them, and not too small."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        dictionary, signals = regression(n_signals=1, seed=seed)
        dictionary[0] = 1.0
        penalty = 0.3 * np.linalg.norm(dictionary, axis=1)
        penalty[0] = 0.0
        single = LassoProblem(dictionary, signals, penalty)
        twice = LassoProblem(np.vstack([dictionary, -dictionary[1:]]), signals, np.r_[penalty, penalty[1:]])
        require_proved(single, codes_near_the_optimum(single, rng), certificate, twice, halved)
    assert solve_active_set(twice).converged


def test_tiny_penalties_are_certified():
    """Codes were right to 5e-10, and reported as not converged (penalty 1e-9; an intercept of 1e-6)."""
    dictionary, signals = regression()
    result = solve_active_set(LassoProblem(dictionary, signals, 1e-9, positive=True), tol=1e-9)
    assert result.converged
    expected = [nnls(dictionary.T, signal)[0] for signal in signals]
    np.testing.assert_allclose(result.codes, expected, rtol=0, atol=1e-8)
    dictionary[0] = 1.0
    penalty = np.r_[1e-6, np.full(7, 0.1)]
    assert solve_active_set(LassoProblem(dictionary, 50.0 + signals, penalty), tol=1e-9).converged


@pytest.mark.parametrize("copies", [1, 3])
def test_equal_atoms_are_certified_where_codes_are_not_negative(copies):
    dictionary, signals = regression()
    problem = LassoProblem(np.tile(dictionary, (copies, 1)), signals, 0.0, positive=True)
    result = solve_active_set(problem, tol=1e-10)
    assert result.converged
    expected = [nnls(dictionary.T, signal)[0] for signal in signals]
    np.testing.assert_allclose(result.codes.reshape(3, copies, 8).sum(axis=1), expected, atol=1e-10)


@SIGNS
def test_a_bound_does_not_depend_on_other_signals(positive):
    dictionary, signals = regression(30, 25, n_signals=6)
    problem = LassoProblem(dictionary, signals, 1e-10, positive=positive)
    codes = as_sparse(solve_active_set(problem).codes)
    together = certify(problem, codes).duality_gap
    for k in range(6):
        alone = certify(problem.subset([k]), codes[[k]]).duality_gap
        np.testing.assert_array_equal(alone, together[[k]])


def test_ordinary_penalties_are_not_corrected(monkeypatch):
    monkeypatch.setattr(corrected, "_gaps", None)
    problem = random_problem()
    solve_active_set(problem)
    measure(problem, np.zeros((3, 40)))


@pytest.mark.parametrize("share", [1.0, 1e-2, 1e-4])
def test_eigenvalues_are_bounded_from_below_exactly(share):
    """G - bound diag(||d||^2) is positive definite, in rationals."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        atoms = rng.standard_normal(9) + share * rng.standard_normal((6, 9))
        bound = least_eigenvalue(atoms)
        units = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
        smallest = np.linalg.eigvalsh(units @ units.T)[0]
        # At least half the inverse of the sum of the inverse eigenvalues, but for a power of two.
        assert smallest / 40.0 < bound < smallest
        problem = ExactProblem(LassoProblem(atoms, np.ones((1, 9)), 1.0))
        rows = [[problem.product(x, y) for y in problem.atoms] for x in problem.atoms]
        for i in range(6):
            rows[i][i] *= 1 - Fraction(bound)
        for k in range(6):
            assert rows[k][k] > 0
            for i in range(k + 1, 6):
                factor = rows[i][k] / rows[k][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]


def test_dependent_atoms_have_no_bound():
    assert least_eigenvalue(np.ones((2, 5))) == 0.0
    assert least_eigenvalue(np.eye(3)[:, :2] + 1.0) == 0.0
    assert least_eigenvalue(np.ones((0, 5))) == 1.0


# -- solvers -----------------------------------------------------------------------------------------


@each_method(zero_penalties=TAKEN)
@SIGNS
@WHOSE
def test_methods_agree_with_scipy(solve, tol, positive, share):
    dictionary, signals = regression()
    penalty = np.zeros(8)
    penalty[: round(8 * (1 - share))] = 0.3
    result = solve(LassoProblem(dictionary, signals, penalty, positive=positive), tol=tol)
    assert result.converged
    for code, signal in zip(result.codes, signals, strict=True):
        if share < 1.0:
            # A linear term is a column that no other has, and a target along it.
            problem = LassoProblem(dictionary, signal[np.newaxis], penalty + 1e-12, positive=positive)
            expected = METHODS["coordinate_descent"](problem, tol=1e-4).objective[0]
            cost = 0.5 * np.sum((signal - code @ dictionary) ** 2) + penalty @ np.abs(code)
            assert cost <= expected * (1.0 + 1e-6)
            continue
        bounds = (0.0 if positive else -np.inf, np.inf)
        expected = lsq_linear(dictionary.T, signal, bounds, tol=1e-14).x
        np.testing.assert_allclose(code, expected, atol=1e-3 if tol > 1e-9 else 1e-6)
        if positive:
            np.testing.assert_allclose(code, nnls(dictionary.T, signal)[0], atol=1e-3)


@each_method(zero_penalties=NOT_NEGATIVE)
def test_spikes_solve_non_negative_least_squares(solve, tol):
    dictionary, signals = regression()
    problem = LassoProblem(dictionary, signals, 0.0, positive=True)
    result = solve(problem, tol=max(tol, 1e-6))
    assert result.converged
    expected = np.array([nnls(dictionary.T, signal)[1] ** 2 / 2 for signal in signals])
    assert (result.objective - expected <= max(tol, 1e-6) * problem.energies).all()


@pytest.mark.parametrize("method", methods().values(), ids=methods())
@SIGNS
def test_methods_take_zeros_or_refuse_them_by_name(method, positive):
    problem = LassoProblem(*regression(), 0.0, positive=positive)
    taken = {TAKEN, NOT_NEGATIVE} if positive else {TAKEN}
    if method.takes.zero_penalties in taken:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert solve(problem, method, tol=0.1).converged
        return
    names = ", ".join(repr(name) for name, each in METHODS.items() if each.takes.zero_penalties in taken)
    where = " where codes may be negative" if method.takes.zero_penalties == NOT_NEGATIVE else ""
    sentence = f"^penalty must be positive for {method.name}{where}; got 0 for atom 0: {names} take it$"
    with pytest.raises(ValueError, match=sentence):
        solve(problem, method)


def test_an_intercept_is_not_penalised():
    """The code is that of centred columns and signals, and the intercept what is left."""
    dictionary, signals = regression()
    with_intercept = np.concatenate([np.ones((1, 20)), dictionary])
    penalty = np.r_[0.0, np.full(8, 0.2)]
    codes = solve_active_set(LassoProblem(with_intercept, signals + 5.0, penalty), tol=1e-12).codes
    centred = dictionary - dictionary.mean(axis=1, keepdims=True)
    expected = solve_active_set(LassoProblem(centred, signals, 0.2)).codes
    np.testing.assert_allclose(codes[:, 1:], expected, atol=1e-12)
    left = signals.mean(axis=1) + 5.0 - expected @ dictionary.mean(axis=1)
    np.testing.assert_allclose(codes[:, 0], left, atol=1e-12)


def test_ridge_regression_is_an_elastic_net_without_l1():
    dictionary, signals = regression(12, 8)
    for method in ("active_set", "fista"):
        result = METHODS[method](LassoProblem(dictionary, signals, ElasticNet(0.0, 0.5)), tol=1e-8)
        assert result.converged
        gram = dictionary @ dictionary.T + 0.5 * np.eye(12)
        expected = np.linalg.solve(gram, dictionary @ signals.T).T
        np.testing.assert_allclose(result.codes, expected, atol=1e-3 if method == "fista" else 1e-12)


def test_a_path_to_zero_ends_at_basis_pursuit():
    """The smallest l1 norm of codes that reconstruct the signal, by a linear program."""
    rng = np.random.default_rng(0)
    dictionary, signal = rng.standard_normal((24, 8)), rng.standard_normal((1, 8))
    found = path(LassoProblem(dictionary, signal, 1.0), [1.0, 1e-3, 1e-7], tol=1e-6)
    assert found.converged
    program = linprog(np.ones(48), A_eq=np.concatenate([dictionary, -dictionary]).T, b_eq=signal[0])
    np.testing.assert_allclose(np.abs(found.codes[-1]).sum(), program.fun, rtol=1e-6)
    np.testing.assert_allclose(found.codes[-1, 0], program.x[:24] - program.x[24:], atol=1e-5)


def test_prepared_problems_and_estimators_take_zeros():
    dictionary, signals = regression()
    expected = [nnls(dictionary.T, signal)[0] for signal in signals]
    prepared = PreparedLasso(dictionary, 0.0, positive=True)
    for signal, code in zip(signals, expected, strict=True):
        result = solve_active_set(prepared.with_signals(signal[np.newaxis]), tol=1e-10)
        assert result.converged
        np.testing.assert_allclose(result.codes[0], code, atol=1e-12)
    coder = SpikingSparseCoder(dictionary, alpha=0.0, positive=True)
    np.testing.assert_allclose(coder.fit_transform(signals), expected, atol=1e-12)


def test_many_signals_beyond_the_memory_limit():
    dictionary, signals = regression()
    with memory_limit(100):
        result = solve_active_set(LassoProblem(dictionary, signals, 0.0, positive=True), tol=1e-10)
    assert result.converged
    expected = [nnls(dictionary.T, signal)[0] for signal in signals]
    np.testing.assert_allclose(result.codes, expected, atol=1e-12)


def test_a_problem_describes_itself():
    assert "0" in repr(LassoProblem(*regression(), 0.0))


# -- what is refused -----------------------------------------------------------------------------------


def test_dependent_atoms_without_penalty_are_refused():
    dictionary, signals = regression(12, 8)
    sentence = (
        "^penalty must be positive, or atoms without one linearly independent; got 12 atoms of penalty 0 "
        "in 8 features that are not, or not far enough to prove it: no code could be certified; subtract the "
        "means of atoms that are far from zero, such as powers of years, leave some out, or pass a penalty, "
        "an ElasticNet, or positive=True$"
    )
    with pytest.raises(ValueError, match=sentence):
        solve_active_set(LassoProblem(dictionary, signals, 0.0))
    penalty = np.r_[np.zeros(8), np.ones(4)]
    assert solve_active_set(LassoProblem(dictionary, signals, penalty)).converged


def test_free_atoms_that_a_mask_makes_dependent_are_refused():
    """Two atoms differ in features that the third signal does not know."""
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((6, 10)), rng.standard_normal((4, 10))
    dictionary[1, :5] = dictionary[0, :5]
    penalty = np.array([0.0, 0.0, 0.3, 0.3, 0.3, 0.3])
    mask = np.ones((4, 10), dtype=bool)
    assert solve_active_set(LassoProblem(dictionary, signals, penalty, mask=mask)).converged
    mask[2, 5:] = False
    with pytest.raises(ValueError, match="2 atoms of penalty 0 in 10 features that signal 2 knows that are"):
        solve_active_set(LassoProblem(dictionary, signals, penalty, mask=mask))
    # An atom of which nothing is known has the code zero.
    dictionary[1, :5] = 0.0
    assert solve_active_set(LassoProblem(dictionary, signals, penalty, mask=mask)).converged


def test_powers_of_years_are_solved_once_their_means_are_subtracted():
    years = np.arange(1990.0, 2021.0)
    target = 0.1 * (years - 2005.0) + 0.01 * (years - 2000.0) ** 2
    for center in (0.0, 2005.0):
        powers = (years - center) ** np.arange(4)[:, np.newaxis]
        problem = LassoProblem(powers, target[np.newaxis], 0.0)
        if center == 0.0:
            with pytest.raises(ValueError, match=r"subtract the means of atoms .* powers of years"):
                solve_active_set(problem)
        else:
            np.testing.assert_allclose(solve_active_set(problem).codes[0], [0.25, 0.2, 0.01, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: LassoProblem(ConvolutionalDictionary(KERNELS, (4, 4), 1), np.ones((1, 16)), 0.0),
            "penalty must be positive for a ConvolutionalDictionary; got 0 for atom 0: pass a small one",
        ),
        (
            lambda: SparseCodingStream(np.eye(3), [1.0, 0.0, 1.0]),
            "penalty must be positive for a stream; got 0 for atom 1",
        ),
        (
            lambda: path(LassoProblem(np.eye(3), np.ones((1, 3)), [1.0, 0.0, 1.0])),
            "multiples must be given where an atom has no penalty, since no multiple makes its code zero; "
            "got None",
        ),
        (
            lambda: checks.non_negative_array("penalty", [1.0, -2.0], 2, meaning="one an atom"),
            r"penalty must not be negative; got -2.0 at \[1\]",
        ),
    ],
)
def test_nonsense_gets_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        make()

"""Derivatives of codes, against differences of codes, exact rationals, and each other."""

import pickle
import sys
from fractions import Fraction

import numpy as np
import pytest

from solvers import (
    METHODS,
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    solve,
    solve_active_set,
    solve_spiking,
)
from solvers.derivatives import supports
from solvers.jax_codes import sparse_codes
from tests.reference.rationals import ExactProblem, rational

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
WEIGHTS = (None, "mask", "own masks", "weights", "own weights")
# Of the eighth order: h f' = sum over k of c_k (f(k h) - f(-k h)).
STENCIL = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
STEP = 2e-4


def options_of(weights, rng, *, n_signals=4, n_features=9):
    shape = (n_signals, n_features) if weights and weights.startswith("own") else (n_features,)
    if weights in ("mask", "own masks"):
        known = rng.random(shape) < 0.8
        known[..., 0] = True
        return {"mask": known}
    return {} if weights is None else {"feature_weights": rng.uniform(0.5, 2.0, shape)}


class Case:
    """A problem as a function of all that it is made of."""

    def __init__(self, *, positive=False, curved=False, weights=None, convolution=None, free=(), seed=0):
        rng = np.random.default_rng(seed)
        self.convolution, self.positive = convolution, positive
        if convolution is None:
            dictionary = rng.standard_normal((14, 9))
            n_atoms, n_features = dictionary.shape
        else:
            shape = (2, 3, 3) if convolution == "grey" else (2, 2, 3, 3)
            dictionary = rng.standard_normal(shape)
            made = self.dictionary_of(dictionary)
            n_atoms, n_features = made.shape
        self.options = options_of(weights, rng, n_features=n_features)
        self.numbers = {
            "signals": 2.0 * rng.standard_normal((4, n_features)),
            "dictionary": dictionary,
            "l1": rng.uniform(0.5, 1.0, n_atoms),
        }
        self.numbers["l1"][list(free)] = 0.0
        if curved:
            self.numbers["l2"] = rng.uniform(0.1, 1.0, n_atoms)
        if "feature_weights" in self.options:
            self.numbers["feature_weights"] = self.options.pop("feature_weights")
        self.directions = {name: rng.standard_normal(of.shape) for name, of in self.numbers.items()}
        if free:
            self.directions["l1"][list(free)] = 0.0
        self.upstream = rng.standard_normal((4, n_atoms))

    def dictionary_of(self, numbers):
        if self.convolution is None:
            return numbers
        return ConvolutionalDictionary(numbers, (7, 5) if self.convolution == "grey" else (6, 5), 1)

    def solved(self, **changed):
        numbers = {**self.numbers, **changed}
        penalty = ElasticNet(numbers["l1"], numbers["l2"]) if "l2" in numbers else numbers["l1"]
        return solve_active_set(
            LassoProblem(
                self.dictionary_of(numbers["dictionary"]),
                numbers["signals"],
                penalty,
                positive=self.positive,
                **({"feature_weights": numbers["feature_weights"]} if "feature_weights" in numbers else {}),
                **self.options,
            )
        )

    def is_smooth(self):
        """Whether supports and signs are the same at the ends of all differences."""
        signs = np.sign(self.solved().codes)
        return all(
            (np.sign(self.solved(**{name: of + step * self.directions[name]}).codes) == signs).all()
            for name, of in self.numbers.items()
            for step in (4 * STEP, -4 * STEP)
        )

    def difference(self, name):
        """The change of codes along a direction, by differences of codes."""
        total = 0.0
        for k, factor in enumerate(STENCIL, start=1):
            ahead, behind = (
                self.solved(**{name: self.numbers[name] + sign * k * STEP * self.directions[name]}).codes
                for sign in (1.0, -1.0)
            )
            total = total + factor * (ahead - behind)
        return total / STEP


CASES = {
    f"{'positive' if positive else 'signed'}, {'elastic net' if curved else 'l1'}, {weights}": {
        "positive": positive,
        "curved": curved,
        "weights": weights,
    }
    for positive in (True, False)
    for curved in (True, False)
    for weights in WEIGHTS
} | {
    "free atoms": {"free": (1, 4)},
    "free atoms, positive": {"free": (1, 4), "positive": True},
    "convolution": {"convolution": "grey"},
    "convolution, elastic net": {"convolution": "grey", "curved": True},
    "convolution, colour": {"convolution": "colour", "positive": True},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_derivatives_are_those_of_differences(options):
    # The first case without a kink that is too close.
    case = next(case for case in (Case(**options, seed=seed) for seed in range(9)) if case.is_smooth())
    result = case.solved()
    assert result.support_size.min() > 0
    gradients = result.vjp(case.upstream)
    for name, direction in case.directions.items():
        expected = case.difference(name)
        found = result.jvp(**{name: direction})
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
        # The other side of the same Jacobian.
        gradient = getattr(gradients, name)
        assert gradient.shape == case.numbers[name].shape
        along = float(np.sum(gradient * direction))
        assert along == pytest.approx(float(np.sum(case.upstream * found)), rel=1e-9, abs=1e-11)
        assert np.abs(found).max() > 1e-3
    together = result.jvp(**case.directions)
    one_by_one = sum(result.jvp(**{name: change}) for name, change in case.directions.items())
    np.testing.assert_allclose(together, one_by_one, atol=1e-12)


def test_weights_of_one_have_a_derivative_too():
    case = Case()
    gradient = case.solved().vjp(case.upstream).feature_weights
    weighted = Case()
    weighted.numbers["feature_weights"] = np.ones((4, 9))
    np.testing.assert_allclose(gradient, weighted.solved().vjp(case.upstream).feature_weights, atol=1e-12)


def test_distances_to_a_bound_are_in_units_of_weighted_atoms():
    """A feature of weight 1e14 rounds all correlations by more than is left of them to the bound."""
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((8, 10)), rng.standard_normal((2, 10))
    for weight in (1e-16, 1e-3, 1e3, 1e14):
        for shape in ((10,), (2, 10)):
            weights = np.ones(shape)
            weights[..., 3] = weight
            result = solve_active_set(LassoProblem(dictionary, signals, 0.5, feature_weights=weights))
            if weight < 1e14:
                gradient = result.vjp(np.ones((2, 8))).signals
                assert np.isfinite(gradient).all()
            else:
                with pytest.raises(ValueError, match="is at its bound, where the derivative jumps"):
                    result.vjp(np.ones((2, 8)))


def test_gradients_are_right_in_exact_arithmetic():
    """q = K^-1 g in rationals, and every gradient by its equation."""
    case = Case(curved=True)
    result = case.solved()
    gradients = result.vjp(case.upstream)
    exact = ExactProblem(result.problem)
    code, upstream = result.codes[0], rational(case.upstream[0])
    support = [int(i) for i in np.flatnonzero(code)]
    inverse = []
    # Of the first signal alone.
    alone = solve_active_set(result.problem.subset([0])).vjp(case.upstream[:1])
    for column in range(len(support)):
        unit = [Fraction(int(k == column)) for k in range(len(support))]
        inverse.append(_solve_exactly(exact, support, unit))
    q = [
        sum(row[k] * upstream[i] for row, i in zip(inverse, support, strict=True))
        for k in range(len(support))
    ]
    found = _solve_exactly(
        exact,
        support,
        [
            exact.product(exact.atoms[i], exact.signal) - (1 if code[i] > 0 else -1) * exact.l1[i]
            for i in support
        ],
    )
    residual = exact.residual([found[support.index(i)] if i in support else Fraction(0) for i in range(14)])
    back = [sum(x * exact.atoms[i][j] for x, i in zip(q, support, strict=True)) for j in range(9)]
    np.testing.assert_allclose(gradients.signals[0], [float(x) for x in back], rtol=1e-12, atol=1e-13)
    for k, i in enumerate(support):
        row = [q[k] * residual[j] - found[k] * back[j] for j in range(9)]
        np.testing.assert_allclose(alone.dictionary[i], [float(x) for x in row], rtol=1e-11, atol=1e-12)
        assert alone.l1[i] == pytest.approx(-float(q[k]) * np.sign(code[i]), rel=1e-12)
        assert alone.l2[i] == pytest.approx(-float(q[k] * found[k]), rel=1e-12)


def _solve_exactly(exact, support, right):
    rows = [
        [exact.product(exact.atoms[i], exact.atoms[j]) + (exact.l2[i] if i == j else 0) for j in support]
        + [x]
        for i, x in zip(support, right, strict=True)
    ]
    n = len(rows)
    for k in range(n):
        for i in range(n):
            if i != k:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [rows[k][n] / rows[k][k] for k in range(n)]


# -- one result, whatever the way to it ------------------------------------------------------------


@SIGNS
def test_codes_of_any_method_have_the_derivatives_of_the_optimum(positive):
    """Numbers of codes are solved for once more; supports have to be right."""
    case = Case(positive=positive)
    expected = case.solved().vjp(case.upstream)
    tols = {"spiking" if positive else "lars": 1e-6, "fista": 1e-13, "active_set_from_spikes": 1e-6}
    for name, tol in tols.items():
        found = solve(case.solved().problem, METHODS[name], tol=tol).vjp(case.upstream)
        for field in ("signals", "dictionary", "l1", "l2", "feature_weights"):
            np.testing.assert_allclose(getattr(found, field), getattr(expected, field), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_results_of_all_methods_know_their_problem(method):
    problem = LassoProblem(np.eye(4), [[3.0, -2.0, 0.1, 0.0]], 1.0)
    result = solve(problem, method, tol=0.1)
    assert result.problem is problem
    np.testing.assert_allclose(result.vjp(np.ones((1, 4))).signals, [[1.0, 1.0, 0.0, 0.0]], atol=1e-12)


def test_kernel_and_lapack_agree(monkeypatch):
    case = Case()
    by_kernel = case.solved().vjp(case.upstream)
    monkeypatch.setattr(supports, "MOST_ATOMS", 0)
    by_lapack = case.solved().vjp(case.upstream)
    np.testing.assert_allclose(by_lapack.dictionary, by_kernel.dictionary, atol=1e-12)


def test_many_atoms_without_a_gram_matrix():
    rng = np.random.default_rng(0)
    dictionary, signal = rng.standard_normal((600, 30)), rng.standard_normal((1, 30))
    problem = LassoProblem(dictionary, signal, 8.0)
    result = solve_active_set(problem)
    upstream = rng.standard_normal((1, 600))
    found = result.vjp(upstream).signals
    assert not problem.has_gram
    with_gram = LassoProblem(dictionary, signal, 8.0, gram=dictionary @ dictionary.T)
    np.testing.assert_allclose(found, solve_active_set(with_gram).vjp(upstream).signals, atol=1e-12)


def test_a_signal_does_not_depend_on_others():
    case = Case()
    result = case.solved()
    together = result.vjp(case.upstream).signals
    for k in range(4):
        alone = solve_active_set(result.problem.subset([k])).vjp(case.upstream[[k]]).signals
        np.testing.assert_allclose(alone[0], together[k], atol=1e-13)


def test_sparse_signals_and_pickles():
    from scipy import sparse

    case = Case()
    dense = case.solved().vjp(case.upstream)
    case.numbers["signals"] = sparse.csr_array(case.numbers["signals"])
    result = case.solved()
    np.testing.assert_allclose(result.vjp(case.upstream).dictionary, dense.dictionary, atol=1e-12)
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.vjp(case.upstream).l1, result.vjp(case.upstream).l1)


def test_zero_codes_have_derivatives_of_zero():
    result = solve_active_set(LassoProblem(np.eye(3), np.full((1, 3), 0.5), 1.0))
    gradients = result.vjp(np.ones((1, 3)))
    for name in ("signals", "dictionary", "l1", "l2", "feature_weights"):
        assert not getattr(gradients, name).any()
    assert not result.jvp(signals=np.ones((1, 3))).any()
    zero = solve_active_set(LassoProblem(np.eye(3), np.zeros((1, 3)), 1.0))
    assert not zero.vjp(np.ones((1, 3))).signals.any()


def test_zero_codes_of_atoms_without_penalty_are_no_kinks():
    """Least squares: the derivative is the pseudo-inverse, also where a code is zero."""
    result = solve_active_set(LassoProblem(2.0 * np.eye(3), [[1.0, 0.0, -1.0]], 0.0))
    np.testing.assert_allclose(result.jvp(signals=[[1.0, 1.0, 1.0]]), np.full((1, 3), 0.5), atol=1e-15)


# -- codes without a derivative ----------------------------------------------------------------------

KINKS = {
    "outside": (np.eye(3), [[3.0, 0.0, 0.1], [3.0, 1.0, 0.1]], 1.0, "atom 1 of signal 1 is at its bound"),
    "copies": (
        np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
        [[0.2, 0.1], [3.0, 0.2]],
        1.0,
        "atom . of signal 1 is at its bound",
    ),
}


@pytest.mark.parametrize(("dictionary", "signals", "penalty", "why"), KINKS.values(), ids=KINKS)
@SIGNS
def test_kinks_are_named(dictionary, signals, penalty, why, positive):
    result = solve_active_set(LassoProblem(dictionary, signals, penalty, positive=positive))
    upstream = np.ones((2, len(dictionary)))
    sentence = (
        rf"^codes must have a derivative; got \d of 2 signals without one \(.*\): {why}, where the "
        r"derivative jumps; pass undefined='leave out' to leave such signals out$"
    )
    with pytest.raises(ValueError, match=sentence):
        result.vjp(upstream)
    with pytest.raises(ValueError, match=sentence):
        result.jvp(signals=np.ones(np.shape(signals)))
    gradients = result.vjp(upstream, undefined="leave out")
    assert not gradients.is_differentiable[1]
    assert np.isnan(gradients.signals[1]).all()
    assert np.isnan(gradients.feature_weights[1]).all()
    tangents = result.jvp(signals=np.ones(np.shape(signals)), undefined="leave out")
    assert np.isnan(tangents[1]).all()


def test_signals_that_are_left_out_add_nothing():
    signals = np.array([[3.0, 0.0, 0.1], [3.0, 1.0, 0.1], [0.3, 2.0, -4.0]])
    upstream = np.random.default_rng(0).standard_normal((3, 3))
    found = solve_active_set(LassoProblem(np.eye(3), signals, 1.0)).vjp(upstream, undefined="leave out")
    np.testing.assert_array_equal(found.is_differentiable, [True, False, True])
    others = solve_active_set(LassoProblem(np.eye(3), signals[[0, 2]], 1.0)).vjp(upstream[[0, 2]])
    for name in ("dictionary", "l1", "l2"):
        np.testing.assert_allclose(getattr(found, name), getattr(others, name), atol=1e-14)
    np.testing.assert_allclose(found.signals[[0, 2]], others.signals, atol=1e-14)


def test_an_entry_that_vanishes_is_a_kink():
    """By another way than the active set, the atom may be in the support, with a code of rounding."""
    case = Case()
    result = case.solved()
    # The signal of a code in which one entry is zero and its correlation the penalty.
    code = np.where(np.arange(14) == np.flatnonzero(result.codes[0])[0], 0.0, result.codes[0])
    support = np.flatnonzero(result.codes[0])
    atoms, l1 = case.numbers["dictionary"], case.numbers["l1"]
    pull = l1[support] * np.sign(result.codes[0, support])
    residual = np.linalg.lstsq(atoms[support], pull, rcond=None)[0]
    case.numbers["signals"] = np.tile(code @ atoms + residual, (4, 1))
    kink = case.solved()
    if kink.duality_gap.max() < 1e-12 and (np.abs(residual @ atoms.T) <= l1 + 1e-12).all():
        with pytest.raises(ValueError, match="is at its bound"):
            kink.vjp(case.upstream)


def test_codes_that_are_not_optimal_are_refused():
    case = Case()
    result = solve_spiking(case.solved().problem, tol=0.5)
    with pytest.raises(ValueError, match=r"is not optimal .*: solve it to a smaller tol; pass undefined="):
        result.vjp(case.upstream)
    left_out = result.vjp(case.upstream, undefined="leave out")
    assert not left_out.is_differentiable.all()


def test_dependent_atoms_are_refused():
    dictionary = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    problem = LassoProblem(dictionary, [[3.0, 2.0, 0.0]], 1.0)
    # A fair share for both copies, which is optimal.
    result = solve(problem, METHODS["fista"], start=[[1.0, 1.0, 1.0]], tol=1e-8)
    if np.count_nonzero(result.codes) == 3:
        with pytest.raises(ValueError, match="atoms in the code of signal 0 depend on each other; pass"):
            result.vjp(np.array([[1.0, -1.0, 0.0]]))


# -- what is refused -------------------------------------------------------------------------------------

BAD = [
    (
        {"upstream": np.ones((1, 3))},
        ValueError,
        r"upstream must have shape \(4, 14\), \(n_signals, n_atoms\)",
    ),
    ({"upstream": np.full((4, 14), np.nan)}, ValueError, r"upstream must be finite; got nan at \[0, 0\]"),
    ({"upstream": "much"}, TypeError, "upstream must be an array of real numbers"),
    ({"upstream": np.ones((4, 14)), "undefined": "zero"}, ValueError, "undefined must be .*'leave out'"),
    ({"signals": np.ones(9)}, ValueError, r"signals must have shape \(4, 9\)"),
    ({"dictionary": np.ones((9, 14))}, ValueError, r"dictionary must have shape \(14, 9\)"),
    ({"l1": 1.0}, ValueError, r"l1 must have shape \(14,\), \(n_atoms,\), a change for each atom"),
    ({"l2": np.ones(3)}, ValueError, r"l2 must have shape \(14,\)"),
    ({"feature_weights": np.ones(9)}, ValueError, r"feature_weights must have shape \(4, 9\)"),
    ({"signals": np.ones((4, 9)), "undefined": 1}, TypeError, "undefined must be"),
]


@pytest.mark.parametrize(("arguments", "error", "sentence"), BAD)
def test_nonsense_gets_a_sentence(arguments, error, sentence):
    result = Case().solved()
    with pytest.raises(error, match=f"^{sentence}"):
        (result.vjp if "upstream" in arguments else result.jvp)(**arguments)


def test_weights_of_zero_do_not_change():
    case = Case(weights="mask")
    case.options["mask"][3] = False
    result = case.solved()
    with pytest.raises(
        ValueError, match=r"^feature_weights must change by 0 where they are 0, since .*got 1.0$"
    ):
        result.jvp(feature_weights=np.ones(9))
    assert np.isnan(result.vjp(case.upstream).feature_weights[3])


def test_masked_convolutions_and_other_penalties_are_refused():
    dictionary = ConvolutionalDictionary(np.ones((1, 2, 2)), (4, 4), 1)
    problem = LassoProblem(dictionary, np.ones((1, 16)), 1.0, mask=np.arange(16) > 0)
    result = METHODS["fista"](problem, tol=1e-3)
    with pytest.raises(TypeError, match="problem must have an array of atoms"):
        result.vjp(np.zeros(result.codes.shape))


def test_jax_is_an_extra_and_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"^jax must be installed for this; .*'sparsespike\[jax\]'$"):
        sparse_codes(np.ones(2), np.eye(2), 1.0)

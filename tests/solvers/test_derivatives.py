"""Derivatives of codes agree with the formula on the support, with differences, and with each other."""

import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from solvers import (
    METHODS,
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    solve,
    solve_active_set,
    solve_spiking,
)
from tests.reference.costs import costs
from tests.reference.problems import CONVOLUTIONAL, DICTIONARIES, problems, random_problem
from tests.tiers import examples

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
GRADIENTS = ("signals", "dictionary", "l1", "l2", "feature_weights")
# Differences of the eighth order: h f' = sum over k of c_k (f(k h) - f(-k h)).
STENCIL = (4 / 5, -1 / 5, 4 / 105, -1 / 280)


def supports_of(drawn, codes):
    """Return the atoms whose equations a code solves: nonzero entries, and signed atoms without a penalty."""
    is_free = (drawn.l1 == 0.0) & drawn.atoms.any(axis=1) & ~drawn.positive
    return [np.flatnonzero((code != 0.0) | is_free) for code in codes]


def require_smooth(drawn, codes):
    """Reject problems that are near a kink, or whose atoms are nearly dependent."""
    norms = np.sqrt((drawn.weights[:, np.newaxis] * drawn.atoms**2).sum(axis=2))
    for k, support in enumerate(supports_of(drawn, codes)):
        unit = norms[k] * np.sqrt(2.0 * drawn.energies[k])
        residual = drawn.values[k] - codes[k] @ drawn.atoms
        pull = drawn.atoms @ (drawn.weights[k] * residual)
        pull = np.where(drawn.positive, pull, np.abs(pull))
        outside = np.setdiff1d(np.arange(len(drawn.atoms)), support)
        assume((pull[outside] < drawn.l1[outside] - 1e-3 * unit[outside]).all())
        bound = support[(drawn.l1[support] > 0.0) | drawn.positive[support]]
        assume((np.abs(codes[k, bound]) * norms[k, bound] ** 2 >= 1e-3 * unit[bound]).all())
        atoms = drawn.atoms[support] / np.maximum(norms[k, support], 1e-300)[:, np.newaxis]
        assume(np.linalg.cond((atoms * drawn.weights[k]) @ atoms.T) < 1e4 if len(support) else True)


def require_independent(drawn):
    """Reject problems that are refused because atoms without penalty are dependent."""
    is_free = (drawn.l1 == 0.0) & (drawn.l2 == 0.0) & drawn.atoms.any(axis=1) & ~drawn.positive
    for weights in drawn.weights:
        atoms = drawn.atoms[is_free] * np.sqrt(weights)
        atoms = atoms / np.maximum(np.linalg.norm(atoms, axis=1, keepdims=True), 1e-300)
        assume(not len(atoms) or np.linalg.cond(atoms @ atoms.T) < 1e4)


@pytest.mark.property
@pytest.mark.filterwarnings("ignore::solvers.IllPosedWarning")
@examples(40)
@given(
    drawn=problems(
        dictionary=[kind for kind in DICTIONARIES if kind not in (*CONVOLUTIONAL, "zero atoms")],
        signals=("noise", "mixture", "sparse", "scaled"),
        limited=False,
    )
)
def test_gradients_are_the_formula_on_the_support(drawn):
    require_independent(drawn)
    problem = drawn.problem()
    result = solve_active_set(problem, tol=1e-10)
    codes = result.codes
    require_smooth(drawn, codes)
    rng = np.random.default_rng(drawn.seed)
    upstream = rng.standard_normal(codes.shape)
    found = result.vjp(upstream)
    assert found.is_differentiable.all()
    shape = drawn.options.get("mask", drawn.options.get("feature_weights", drawn.values)).shape
    expected = {name: np.zeros(len(drawn.l1)) for name in ("l1", "l2")}
    expected |= {"dictionary": np.zeros_like(drawn.atoms)}
    expected |= {name: np.zeros_like(drawn.values) for name in ("signals", "feature_weights")}
    rounding = dict.fromkeys(GRADIENTS, 0.0)
    for k, support in enumerate(supports_of(drawn, codes)):
        atoms, weights, code = drawn.atoms[support], drawn.weights[k], codes[k, support]
        gram = (atoms * weights) @ atoms.T + np.diag(drawn.l2[support])
        q = np.linalg.solve(gram, upstream[k, support])
        residual = drawn.values[k] - code @ atoms
        expected["signals"][k] = weights * (q @ atoms)
        # Scale of the product with the residual; the residual may consist of rounding errors.
        size = (np.abs(q @ atoms) * np.abs(drawn.values[k])).max()
        rounding["feature_weights"] = max(rounding["feature_weights"], 1e-13 * size)
        expected["feature_weights"][k] = (q @ atoms) * residual
        expected["dictionary"][support] += np.outer(q, weights * residual)
        expected["dictionary"][support] -= np.outer(code, weights * (q @ atoms))
        expected["l1"][support] -= q * np.sign(code)
        expected["l2"][support] -= q * code
    if len(shape) == 1:
        expected["feature_weights"] = expected["feature_weights"].sum(axis=0)
    missing = drawn.options.get("mask", drawn.options.get("feature_weights", np.ones(shape))) == 0
    expected["feature_weights"][missing] = np.nan
    for name in GRADIENTS:
        atol = 1e-8 * np.nanmax(np.abs(expected[name]), initial=0.0) + rounding[name]
        np.testing.assert_allclose(getattr(found, name), expected[name], rtol=1e-8, atol=atol, err_msg=name)
    # The adjoint product agrees with the same Jacobian; results are linear.
    total, whole = 0.0, {}
    for name in GRADIENTS:
        direction = rng.standard_normal(expected[name].shape)
        if name == "feature_weights":
            direction[missing] = 0.0
        whole[name] = direction
        along = result.jvp(**{name: direction})
        product = np.nansum(expected[name] * direction)
        size = np.abs(along * upstream).sum() + np.nansum(np.abs(expected[name] * direction))
        assert (
            abs(product - (along * upstream).sum()) <= 1e-8 * size + rounding[name] * np.abs(direction).sum()
        )
        total = total + along
    np.testing.assert_allclose(result.jvp(**whole), total, rtol=1e-8, atol=1e-10 * np.abs(total).max())
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.vjp(upstream).l1, found.l1)


@pytest.mark.property
@pytest.mark.filterwarnings("ignore::solvers.IllPosedWarning")
@examples(20)
@given(
    drawn=problems(
        dictionary=("random", "coherent", "sparse", "integers"), signals=("noise", "mixture"), limited=False
    ),
    name=st.sampled_from(GRADIENTS),
)
def test_derivatives_are_those_of_differences(drawn, name):
    rng = np.random.default_rng(drawn.seed)
    numbers = {"signals": drawn.values, "dictionary": drawn.atoms, "l1": drawn.l1, "l2": drawn.l2}
    numbers["feature_weights"] = drawn.weights
    # Increase all curvatures, because differences also lower them, and a curvature cannot be negative.
    numbers["l2"] = drawn.l2 + (0.1 * (drawn.atoms**2).sum(axis=1) if name == "l2" else 0.0)
    object.__setattr__(drawn, "l2", numbers["l2"])

    def solved(change):
        moved = numbers | {name: numbers[name] + change}
        penalty = ElasticNet(moved["l1"], moved["l2"])
        arguments = moved["dictionary"], moved["signals"], penalty
        weights = {"feature_weights": moved["feature_weights"]}
        return solve_active_set(LassoProblem(*arguments, positive=drawn.positive, **weights), tol=1e-9)

    direction = rng.standard_normal(numbers[name].shape) * np.abs(numbers[name])
    result = solved(0.0)
    require_smooth(drawn, result.codes)
    step = 2e-5
    assume(all((np.sign(solved(k * step * direction).codes) == np.sign(result.codes)).all() for k in (4, -4)))
    expected = 0.0
    for k, factor in enumerate(STENCIL, start=1):
        ahead, behind = (solved(sign * k * step * direction).codes for sign in (1.0, -1.0))
        expected = expected + factor * (ahead - behind) / step
    found = result.jvp(**{name: direction})
    size = np.abs(result.codes).max() + np.abs(found).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 * size)


@pytest.mark.property
@pytest.mark.filterwarnings("ignore::solvers.IllPosedWarning")
@examples(10)
@given(drawn=problems(dictionary=CONVOLUTIONAL, weights="none", signals=("noise", "mixture"), limited=False))
def test_derivatives_of_kernels_are_those_of_the_atoms_that_they_make(drawn):
    problem, rng = drawn.problem(), np.random.default_rng(drawn.seed)
    result, dense = (solve_active_set(one, tol=1e-10) for one in (problem, drawn.dense()))
    require_smooth(drawn, result.codes)
    atoms, upstream = drawn.dictionary, rng.standard_normal(result.codes.shape)
    found, expected = result.vjp(upstream), dense.vjp(upstream)
    for name in ("signals", "l1", "l2"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-8 * np.abs(other).max())
    changes = rng.standard_normal(atoms.kernels.shape)
    image = atoms.image_shape if len(atoms.image_shape) > 1 else atoms.image_shape[0]
    moved = ConvolutionalDictionary(changes, image, atoms.stride).toarray()
    along, other = result.jvp(dictionary=changes), dense.jvp(dictionary=moved)
    np.testing.assert_allclose(along, other, rtol=0, atol=1e-8 * max(np.abs(other).max(), 1e-300))
    assert found.dictionary.shape == atoms.kernels.shape
    product = (found.dictionary * changes).sum()
    assert product == pytest.approx((along * upstream).sum(), rel=1e-8, abs=1e-8 * np.abs(along).sum())


# -- one result by every way -------------------------------------------------------------------------


@SIGNS
def test_codes_of_any_method_have_the_derivatives_of_the_optimum(positive):
    """Only supports must be right: derivatives solve for the codes on the support again."""
    problem = random_problem(20, 30, n_signals=4, positive=positive, share=0.3)
    upstream = np.random.default_rng(0).standard_normal((4, 30))
    expected = solve_active_set(problem, tol=1e-12).vjp(upstream)
    tols = {"spiking": 1e-8, "fista": 1e-13, "coordinate_descent": 1e-12, "active_set_from_spikes": 1e-6}
    for name, tol in tols.items():
        found = solve(problem, METHODS[name], tol=tol).vjp(upstream)
        for field in GRADIENTS:
            np.testing.assert_allclose(getattr(found, field), getattr(expected, field), rtol=1e-8, atol=1e-8)


def test_many_atoms_by_the_kernel_or_by_lapack_and_without_a_gram_matrix(monkeypatch):
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((600, 30)), rng.standard_normal((3, 30))
    upstream = rng.standard_normal((3, 600))
    together = solve_active_set(LassoProblem(dictionary, signals, 8.0)).vjp(upstream)
    problem = LassoProblem(dictionary, signals[:1], 8.0)
    alone = solve_active_set(problem).vjp(upstream[:1])
    np.testing.assert_allclose(alone.signals[0], together.signals[0], atol=1e-12)
    assert not problem.has_gram
    with costs(most_in_kernel=0):
        by_lapack = solve_active_set(LassoProblem(dictionary, signals, 8.0)).vjp(upstream)
    np.testing.assert_allclose(by_lapack.dictionary, together.dictionary, atol=1e-12)


def test_without_penalty_derivatives_are_the_pseudo_inverse():
    # Entries of a code that are zero have derivatives, too.
    result = solve_active_set(LassoProblem(2.0 * np.eye(3), [[1.0, 0.0, -1.0]], 0.0))
    np.testing.assert_allclose(result.jvp(signals=[[1.0, 1.0, 1.0]]), np.full((1, 3), 0.5), atol=1e-15)


# -- codes without a derivative ----------------------------------------------------------------------

COPIES = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


@pytest.mark.parametrize(
    ("dictionary", "signals", "atom"),
    [
        (np.eye(3), [[3.0, 0.0, 0.1], [3.0, 1.0, 0.1], [0.3, 2.0, 4.0]], "1"),
        (COPIES, [[0.2, 0.1, 0.0], [3.0, 0.2, 0.0], [0.1, 3.0, 0.0]], "."),
    ],
    ids=["bound", "copies"],
)
@SIGNS
def test_kinks_are_named_or_left_out(dictionary, signals, atom, positive):
    result = solve_active_set(LassoProblem(dictionary, signals, 1.0, positive=positive))
    upstream = np.random.default_rng(0).standard_normal((3, 3))
    for call in (lambda: result.vjp(upstream), lambda: result.jvp(signals=np.ones((3, 3)))):
        with pytest.raises(ValueError, match=rf"codes .* 1 of 3 .*atom {atom} of signal 1"):
            call()
    found = result.vjp(upstream, undefined="leave out")
    np.testing.assert_array_equal(found.is_differentiable, [True, False, True])
    assert np.isnan(found.signals[1]).all()
    assert np.isnan(found.feature_weights[1]).all()
    tangents = result.jvp(signals=np.ones((3, 3)), undefined="leave out")
    np.testing.assert_array_equal(np.isnan(tangents), [[False] * 3, [True] * 3, [False] * 3])
    # The signal without a derivative adds nothing to sums over signals.
    others = solve_active_set(LassoProblem(dictionary, np.array(signals)[[0, 2]], 1.0, positive=positive))
    expected = others.vjp(upstream[[0, 2]])
    for name in ("dictionary", "l1", "l2"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-14)
    np.testing.assert_allclose(found.signals[[0, 2]], expected.signals, atol=1e-14)


def test_codes_that_are_not_optimal_or_depend_on_each_other_are_refused():
    problem = random_problem(20, 30, n_signals=4, share=0.1)
    with pytest.raises(ValueError, match="not optimal"):
        solve_spiking(problem, tol=0.5).vjp(np.ones((4, 30)))
    # A code that is divided equally between two copies of an atom is optimal.
    dependent = LassoProblem(COPIES, [[3.0, 2.0, 0.0]], 1.0)
    result = solve(dependent, METHODS["fista"], start=[[1.0, 1.0, 1.0]], tol=1e-8)
    assert np.count_nonzero(result.codes) == 3
    with pytest.raises(ValueError, match="signal 0 depend on each other"):
        result.vjp(np.array([[1.0, -1.0, 0.0]]))


# -- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"upstream": np.ones((1, 3))}, ValueError),
        ({"upstream": np.full((3, 40), np.nan)}, ValueError),
        ({"undefined": "zero", "upstream": np.ones((3, 40))}, ValueError),
        ({"signals": np.ones(20)}, ValueError),
        ({"dictionary": np.ones((20, 40))}, ValueError),
        ({"l2": np.ones(3)}, ValueError),
    ],
)
def test_nonsense_is_named(arguments, error):
    result = solve_active_set(random_problem())
    with pytest.raises(error, match=f"^{next(iter(arguments))}"):
        (result.vjp if "upstream" in arguments else result.jvp)(**arguments)


def test_what_has_no_derivatives_is_refused():
    masked = LassoProblem(np.eye(3), np.full((1, 3), 2.0), 1.0, mask=[True, True, False])
    with pytest.raises(ValueError, match=r"^feature_weights must change by 0"):
        solve_active_set(masked).jvp(feature_weights=np.ones(3))
    dictionary = ConvolutionalDictionary(np.ones((1, 2, 2)), (4, 4), 1)
    problem = LassoProblem(dictionary, np.ones((1, 16)), 1.0, mask=np.arange(16) > 0)
    result = METHODS["fista"](problem, tol=1e-3)
    with pytest.raises(TypeError, match=r"^problem must have an array of atoms"):
        result.vjp(np.zeros(result.codes.shape))

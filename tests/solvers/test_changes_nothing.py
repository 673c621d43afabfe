"""Codes do not depend on other signals, order, units, forms of arguments, starts, workers or preparation."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

from solvers import ElasticNet, LassoModel, lasso_network, penalty_max
from solvers.certificate.optimality import measure
from tests.reference.methods import TOLS, methods
from tests.reference.problems import CONVOLUTIONAL, case, problems
from tests.reference.solved import METHODS, every_method, problems_for, refusal, solved
from tests.tiers import examples

pytestmark = pytest.mark.property

FIGURES = ("objective", "duality_gap", "kkt_violation")
MODERATE = {
    "dictionary": ["random", "copies", "zero atoms", "sparse", "images", "one dimension"],
    "signals": ["noise", "mixture", "zero among them", "sparse"],
    "penalty": ["number", "vector", "elastic net", "by norms"],
}
BY_PRODUCTS = ("fista", "coordinate_descent")
"""Methods that multiply matrices: the rounding of a product depends on all rows."""

SLOW = ("analog", *(name for name in METHODS if name.startswith("spiking")))
"""Methods that take long with nearly equal atoms."""


def moderate(name, **features):
    return problems_for(name, **(MODERATE | features))


def require_same_bits(one, other):
    for name in ("codes", "n_steps", "reached", *FIGURES):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def require_as_good(this, one, other, factor=1.0):
    """Require that the gaps of two results contain one optimum; `factor` is the unit of `other`."""
    if one.method not in SLOW:
        assert one.converged
        assert other.converged
        assert (one.duality_gap <= one.tol * this.energies).all()
    difference = other.objective / factor - one.objective
    room = 1e-13 * this.energies
    assert (difference <= other.duality_gap / factor + room).all()
    assert (-difference <= one.duality_gap + room).all()


def fine(name, least=1e-6):
    """Return a method with enough time, and the finest tolerance that it reaches."""
    if name in SLOW:
        return METHODS[name], 1e-2
    return methods()[name], max(TOLS.get(name, METHODS[name].finest_tol), least)


# -- company and order ---------------------------------------------------------------------------


def test_corrected_gaps_with_own_masks_do_not_depend_on_what_is_in_the_batch():
    for seed in range(60):
        this = case("random", "noise", "own masks", "some zeros", seed % 2 == 0, False, 12, seed)
        problem, codes = this.problem(), this.codes()
        together = measure(problem, codes).duality_gap
        alone = [measure(problem.subset([k]), codes[[k]]).duality_gap[0] for k in range(len(codes))]
        np.testing.assert_array_equal(alone, together)


@every_method
@examples(8)
@given(data=st.data())
def test_a_code_does_not_depend_on_what_is_in_the_batch(name, data):
    this = data.draw(problems_for(name, limited=False))
    problem, method = this.problem(), METHODS[name]
    together = solved(method, this, problem, tol=1e-3)
    for k in range(problem.n_signals):
        alone = solved(method, this, problem.subset([k]), tol=1e-3)
        if name in BY_PRODUCTS:
            scale = np.abs(together.codes).max()
            np.testing.assert_allclose(alone.codes[0], together.codes[k], rtol=0, atol=1e-6 * scale)
            assert alone.converged == together.reached[k]
            continue
        for figure in ("codes", "n_steps", "reached", *FIGURES):
            np.testing.assert_array_equal(getattr(alone, figure)[0], getattr(together, figure)[k])
    figures = measure(problem, together.codes)
    for which in ([problem.n_signals - 1], slice(None, None, -1)):
        part = measure(problem.subset(which), together.codes[which])
        for figure in FIGURES:
            np.testing.assert_array_equal(getattr(part, figure), getattr(figures, figure)[which])
    backwards = solved(method, this, problem.subset(slice(None, None, -1)), tol=1e-3)
    np.testing.assert_array_equal(backwards.reached[::-1], together.reached)


@every_method
@examples(6)
@given(data=st.data(), seed=st.integers(0, 2**20))
def test_neither_order_nor_units_nor_signs_of_atoms_matter(name, data, seed):
    this = data.draw(moderate(name, dictionary=["random", "coherent", "zero atoms"], limited=False))
    rng, (method, tol) = np.random.default_rng(seed), fine(name, 1e-3 if this.kind[0] == "coherent" else 1e-6)
    expected = solved(method, this, tol=tol)
    order = rng.permutation(len(this.atoms))
    units = np.exp2(rng.integers(-2, 3, len(order)) * (name not in ("digital", "spiking_clock")))
    signs = np.where(this.positive, 1.0, rng.choice([-1.0, 1.0], len(order)))
    other = this.problem(
        dictionary=(this.atoms * (units * signs)[:, np.newaxis])[order],
        penalty=ElasticNet((this.l1 * units)[order], (this.l2 * units**2)[order]),
        positive=this.positive[order] if this.is_mixed else this.positive.all(),
    )
    found = solved(method, this, other, tol=tol)
    require_as_good(this, expected, found)
    if name in SLOW:
        return
    # The objective is strongly convex: with a gap of g, the reconstruction is at most sqrt(2 g) off.
    distance = (found.codes @ other.dictionary - expected.codes @ this.atoms) * np.sqrt(this.weights)
    bound = 2.0 * np.sqrt(2.0 * tol * this.energies)
    assert (np.linalg.norm(distance, axis=1) <= bound).all()


@examples(40)
@given(this=problems(), exponent=st.integers(-300, 300))
def test_figures_scale_exactly(this, exponent):
    """Powers of two only change exponents, but every gap includes an allowance for underflow."""
    problem, factor = this.problem(), 2.0**exponent
    assume(1e-140 < np.abs(factor * this.values).max() < 1e140)
    scaled = this.problem(signals=this.signals * factor, penalty=ElasticNet(this.l1 * factor, this.l2))
    codes = this.codes(density=0.3)
    plain, figures = measure(problem, codes), measure(scaled, codes * factor)
    np.testing.assert_array_equal(figures.objective, plain.objective * factor**2)
    np.testing.assert_allclose(
        figures.duality_gap, plain.duality_gap * factor**2, rtol=1e-15, atol=1e-280 * max(factor, 1.0) ** 2
    )
    np.testing.assert_array_equal(figures.kkt_violation, plain.kkt_violation * factor)


@every_method
@examples(4)
@given(data=st.data(), exponent=st.sampled_from([-400, -30, -1, 1, 40, 400]))
def test_signals_and_penalty_scale_together(name, data, exponent):
    """E(c a) at c s and c lambda is c^2 E(a); powers of two change exponents only."""
    this = data.draw(moderate(name, limited=False))
    factor, (method, tol) = 2.0**exponent, fine(name, 1e-3)
    problem = this.problem()
    scaled = this.problem(signals=this.signals * factor, penalty=ElasticNet(this.l1 * factor, this.l2))
    expected, found = solved(method, this, problem, tol=tol), solved(method, this, scaled, tol=tol)
    require_as_good(this, expected, found, factor**2)


# -- forms of the arguments ----------------------------------------------------------------------


def unaligned(array):
    moved = np.frombuffer(bytes(3) + array.tobytes(), offset=3, dtype=np.float64).reshape(array.shape)
    assert not moved.flags.aligned
    return moved


def read_only(array):
    copied = array.copy()
    copied.flags.writeable = False
    return copied


LAYOUTS = {
    "fortran": np.asfortranarray,
    "strided": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    "read-only": read_only,
    "list": lambda array: array.tolist(),
    "big-endian": lambda array: array.astype(">f8"),
    "single precision": lambda array: array.astype(np.float32),
    "unaligned": unaligned,
}


@every_method
@examples(4)
@given(data=st.data(), layout=st.sampled_from(list(LAYOUTS)))
def test_no_bit_depends_on_the_layout_of_the_arguments(name, data, layout):
    this = data.draw(moderate(name, dictionary="random", weights=["none", "one mask", "own weights"]
                              if name != "digital" else ["none", "one mask"]))  # fmt: skip
    atoms, values, l1 = (x.astype(np.float32).astype(float) for x in (this.atoms, this.values, this.l1))
    form = LAYOUTS[layout]
    expected = this.problem(dictionary=atoms, signals=values, penalty=l1)
    weights = {
        key: form(value) for key, value in this.options.items() if key == "feature_weights"
    } if layout != "single precision" else {}  # fmt: skip
    found = this.problem(dictionary=form(atoms), signals=form(values), penalty=form(l1), **weights)
    for problem in (found, pickle.loads(pickle.dumps(expected)), copy.deepcopy(expected)):
        require_same_bits(
            solved(METHODS[name], this, problem, tol=1e-3), solved(METHODS[name], this, expected, tol=1e-3)
        )
        for array in (problem.dictionary, problem.signals, problem.l1_weights, problem.energies):
            assert not array.flags.writeable
            assert array.dtype == np.float64


@every_method
@examples(4)
@given(data=st.data())
def test_prepared_spread_and_with_its_matrix_the_codes_are_the_same(name, data):
    this = data.draw(moderate(name, weights=["none", "one mask", "weights"], limited=False))
    method = METHODS[name]
    expected = solved(method, this, tol=1e-3)
    if method.workers == "threads":
        spread = solved(method, this, tol=1e-3, n_jobs=2)
        if name not in BY_PRODUCTS:
            require_same_bits(spread, expected)
    options = {key: value for key, value in this.options.items() if key != "positive"}
    with this.with_room():
        prepared = LassoModel(this.dictionary, this.penalty, **this.options)
        later = LassoModel(this.with_all_known(), this.penalty, positive=this.positive)
    for problem in (
        prepared.with_signals(this.signals),
        later.with_signals(this.signals, **options),
        this.problem(penalty=1.0).with_penalty(this.penalty),
        this.problem(signals=2.0 * this.values).with_signals(this.signals, **options),
    ):
        require_same_bits(solved(method, this, problem, tol=1e-3), expected)
    if isinstance(this.dictionary, np.ndarray):
        weighted = this.atoms * (this.weights[0] if options else 1.0)
        problem = this.problem()
        np.testing.assert_allclose(problem.gram, weighted @ this.atoms.T, rtol=0, atol=1e-12)
        given_gram = this.problem(gram=this.atoms @ this.atoms.T)
        require_as_good(this, *(solved(methods()[name], this, p, tol=1e-2) for p in (problem, given_gram)))


@examples(30)
@given(this=problems_for("active_set", signals=["noise", "mixture", "sparse", "zero among them"]))
def test_forms_of_a_dictionary_have_the_products_of_its_array(this):
    problem, rng = this.problem(), np.random.default_rng(this.seed)
    close = partial(
        np.testing.assert_allclose, rtol=1e-10, atol=1e-10 * max(np.abs(this.atoms).max(), 1.0) ** 2
    )
    weighted = this.weights * this.values
    assert (problem.n_signals, problem.n_atoms, problem.n_features) == (
        *weighted.shape[:1],
        *this.atoms.shape,
    )
    # Atoms are zero at features that no signal knows, unless the atoms are kernels.
    known = this.weights.any(axis=0) | (this.kind[0] in CONVOLUTIONAL)
    atoms = np.where(known, this.atoms, 0.0)
    np.testing.assert_array_equal(problem.atoms.toarray(), atoms)
    np.testing.assert_array_equal(problem.dense_signals(), this.values)
    np.testing.assert_array_equal(problem.l1_weights, this.l1)
    np.testing.assert_array_equal(problem.curvatures, this.l2)
    np.testing.assert_allclose(problem.energies, this.energies, rtol=1e-13)
    close(problem.correlations, weighted @ this.atoms.T)
    close(problem.atoms.correlate(this.values), this.values @ this.atoms.T)
    codes = rng.standard_normal((3, len(this.atoms))) * (rng.random((3, len(this.atoms))) < 0.5)
    for form in (codes, sparse.csr_array(codes)):
        close(problem.reconstruct(form)[:, known], codes @ this.atoms[:, known])
    if not this.kind[2].startswith("own"):
        rows = rng.integers(0, len(this.atoms), 3)
        close(sparse.csr_array(problem.atoms.take(rows)).toarray(), atoms[rows])
        if this.kind[0] not in CONVOLUTIONAL:
            close(problem.seen_atoms.gram_rows(rows), (this.atoms[rows] * this.weights[0]) @ this.atoms.T)
    reach = weighted @ this.atoms.T
    largest = np.maximum(np.where(this.positive, reach, np.abs(reach)).max(axis=1), 0.0)
    if "feature_weights" not in this.options:
        mask = this.options.get("mask")
        close(penalty_max(this.dictionary, this.signals, positive=this.positive, mask=mask), largest)


@pytest.mark.parametrize("positive", [True, False])
@examples(6)
@given(data=st.data())
def test_networks_have_the_matrix_of_the_problem(positive, data):
    """Weights are -G without its diagonal, thresholds g + l2, drives c - l1; signed codes have sign pairs."""
    forms = [*MODERATE["dictionary"], "colour"]
    drawn = moderate("spiking", dictionary=forms, positive=positive, weights="none", limited=False)
    this = data.draw(drawn)
    network, n = lasso_network(this.problem(), 0), len(this.atoms)
    gram, norms = this.atoms @ this.atoms.T, (this.atoms**2).sum(axis=1)
    correlations = this.atoms @ this.values[0]
    signs = [1.0] if positive else [1.0, -1.0]
    atom, sign = np.tile(np.arange(n), len(signs)), np.repeat(signs, n)
    if this.kind[0] in CONVOLUTIONAL and not positive:  # sorted by position, sign, kernel
        n_kernels = this.dictionary.n_kernels
        order = np.arange(2 * n).reshape(2, -1, n_kernels).swapaxes(0, 1).ravel()
        atom, sign = atom[order], sign[order]
    weights = -gram[np.ix_(atom, atom)] * np.outer(sign, sign)
    np.fill_diagonal(weights, 0.0)
    np.testing.assert_allclose(network.weights.toarray(), weights, rtol=0, atol=1e-12)
    real = norms[atom] > 0.0
    bias = sign * correlations[atom] - this.l1[atom]
    np.testing.assert_allclose(network.soma_bias[real], bias[real], rtol=0, atol=1e-12 * np.abs(bias).max())
    threshold = (norms + this.l2)[atom]
    np.testing.assert_allclose(network.firing_threshold[real], threshold[real], rtol=1e-12)
    assert (network.firing_threshold > 0.0).all()
    assert (network.soma_bias[~real] < 0.0).all()


# -- starts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", methods(start=True))
@examples(6)
@given(data=st.data())
def test_a_start_changes_only_the_work(name, data):
    this = data.draw(moderate(name, limited=False).filter(lambda this: refusal("active_set", this) is None))
    method, tol = fine(name)
    best = solved(METHODS["active_set"], this, tol=1e-10)
    scale = data.draw(st.sampled_from([0.01, 1.0, 100.0]))
    start = scale * this.codes(density=data.draw(st.sampled_from([0.1, 1.0])))
    before = start.copy()
    result = solved(method, this, start=start, tol=tol)
    np.testing.assert_array_equal(start, before)
    assert result.converged or name in SLOW
    excess = result.objective - best.objective
    assert (-1e-10 * this.energies <= excess).all()
    assert (excess <= result.duality_gap + 1e-12 * this.energies).all()
    untidy = sparse.coo_array(start + (start == 0.0))
    untidy.data[start[untidy.coords] == 0.0] = 0.0
    form = data.draw(st.sampled_from([sparse.csr_array, lambda _: untidy.tocsr(), list, np.asfortranarray]))
    require_same_bits(solved(method, this, start=form(start), tol=tol), result)
    # A start at the optimum needs no steps; the active set confirms it in one round, or two on a grid.
    again = solved(method, this, start=best, tol=tol)
    require_same_bits(again, solved(method, this, start=best.sparse_codes, tol=tol))
    assert (again.n_steps <= 2 * (name == "active_set")).all()
    np.testing.assert_allclose(again.codes, best.codes, rtol=0, atol=1e-9 * np.abs(best.codes).max())

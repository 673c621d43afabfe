"""Masks and weights of features: every solver and certificate beside ordinary problems of what is known."""

import gc
import warnings
import weakref
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from solvers import (
    METHODS,
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    PreparedLasso,
    SparseCodingStream,
    compare,
    lasso_network,
    path,
    penalty_max,
    solve_active_set,
    solve_analog,
    solve_coordinate_descent,
    solve_digital,
    solve_fista,
    solve_lars,
    solve_spiking,
)
from solvers.certificate.compiled import certify
from solvers.certificate.optimality import measure
from solvers.problem.masks import groups_of
from solvers.problem.model import CodingModel
from solvers.results.result import as_sparse
from tests.reference.methods import each_method, methods
from tests.reference.problems import random_codes, require_certified
from tests.reference.rationals import ExactProblem, rational

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
FIGURES = ("objective", "duality_gap", "kkt_violation")
each_solver = each_method(own_weights=True)
WEIGHTS = {
    "a mask for each": lambda shape, rng: {"mask": _masks(shape, rng)},
    "one mask": lambda shape, rng: {"mask": rng.random(shape[1]) < 0.6},
    "weights for each": lambda shape, rng: {
        "feature_weights": rng.uniform(0.5, 2.0, shape) * _masks(shape, rng)
    },
    "weights for all": lambda shape, rng: {"feature_weights": rng.uniform(0.5, 2.0, shape[1])},
}
each_kind = pytest.mark.parametrize("kind", WEIGHTS)


def _masks(shape, rng):
    """Of four masks the last two are equal, and nothing is known of the second signal."""
    masks = rng.random(shape) < 0.6
    masks[-1] = masks[-2]
    masks[1] = False
    return masks


def masked_problem(kind, *, n_features=24, n_atoms=40, n_signals=4, positive=False, penalty=None, seed=0):
    """Signals are NaN wherever they do not count; one atom has nothing that counts where a mask is shared."""
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n_atoms, n_features)) * rng.uniform(0.5, 2.0, (n_atoms, 1))
    options = WEIGHTS[kind]((n_signals, n_features), rng)
    counts = next(iter(options.values())) != 0
    dictionary[3, counts if counts.ndim == 1 else counts[0]] = 0.0
    dictionary[3, 0] = 1.0 if counts.ndim == 2 else dictionary[3, 0]
    if not dictionary[3].any():
        dictionary[3] = 0.0
    codes = rng.standard_normal((n_signals, n_atoms)) * (rng.random((n_signals, n_atoms)) < 0.1)
    signals = (np.abs(codes) if positive else codes) @ dictionary
    signals += 0.1 * rng.standard_normal(signals.shape)
    signals[~np.broadcast_to(counts, signals.shape)] = np.nan
    penalty = 0.5 if penalty is None else penalty
    return LassoProblem(dictionary, signals, penalty, positive=positive, **options)


def ordinary_problems(problem):
    """Return each signal's problem without weights: features that count, times the root of w."""
    for k in range(problem.n_signals):
        weights = problem.feature_weights
        weights = (weights if weights.ndim == 1 else weights[k]).astype(float)
        known = weights > 0
        if not known.any():
            yield None
            continue
        root = np.sqrt(weights[known])
        yield LassoProblem(
            problem.dictionary[:, known] * root,
            problem.signals[[k]][:, known] * root,
            problem.penalty,
            positive=problem.positive,
        )


def optimal_objectives(problem):
    """Objectives of scikit-learn's Lasso on what is known of each signal."""
    objectives = []
    for one in ordinary_problems(problem):
        if one is None:
            objectives.append(0.0)
            continue
        alpha = problem.l1_weights[0] / one.n_features
        model = Lasso(alpha, fit_intercept=False, positive=problem.positive, tol=1e-12, max_iter=1_000_000)
        code = model.fit(one.dictionary.T, one.signals[0]).coef_
        residual = one.signals[0] - code @ one.dictionary
        objectives.append(0.5 * residual @ residual + problem.l1_weights[0] * np.abs(code).sum())
    return np.array(objectives)


# -- the optimum -----------------------------------------------------------------------------------


@SIGNS
@each_kind
@each_solver
def test_optimum_is_that_of_scikit_learn_on_known_features(solve, tol, kind, positive):
    problem = masked_problem(kind, positive=positive)
    result = solve(problem, tol=tol)
    assert result.converged
    excess = result.objective - optimal_objectives(problem)
    assert (excess <= tol * problem.energies).all()
    assert (excess >= -2e-10 * problem.energies).all()
    require_certified(problem, result)
    if kind.endswith("each"):
        assert not result.codes[1].any()
        assert result.objective[1] == result.duality_gap[1] == problem.energies[1] == 0.0


def test_there_is_something_to_solve():
    for kind in WEIGHTS:
        support = solve_active_set(masked_problem(kind)).support_size
        assert support.sum() >= 12, kind


@each_solver
def test_nothing_known_of_any_signal(solve, tol):
    dictionary, nothing = np.random.default_rng(0).standard_normal((9, 5)), np.zeros(5, dtype=bool)
    for mask in (nothing, np.stack([nothing, nothing])):
        problem = LassoProblem(dictionary, np.full((2, 5), np.nan), 0.1, mask=mask)
        result = solve(problem, tol=tol)
        assert result.converged
        assert not result.codes.any()
        assert not result.duality_gap.any()


@pytest.mark.parametrize("solve", [solve_active_set, solve_fista, solve_spiking], ids=lambda f: f.__name__)
def test_elastic_net(solve):
    rng = np.random.default_rng(1)
    penalty = ElasticNet(rng.uniform(0.3, 0.8, 40), rng.uniform(0.0, 2.0, 40) * (rng.random(40) < 0.7))
    for kind in WEIGHTS:
        problem = masked_problem(kind, penalty=penalty)
        result = solve(problem, tol=1e-6)
        assert result.converged
        for k, one in enumerate(ordinary_problems(problem)):
            if one is not None:
                best = solve_active_set(one, tol=1e-10).objective[0]
                assert abs(result.objective[k] - best) <= 1.1e-6 * problem.energies[k]


# -- certificates ------------------------------------------------------------------------------------


@SIGNS
@each_kind
@pytest.mark.parametrize("curved", [False, True], ids=["l1", "elastic net"])
def test_figures_are_those_of_the_ordinary_problem(kind, positive, curved):
    penalty = ElasticNet(0.4, 0.7) if curved else 0.4
    problem = masked_problem(kind, positive=positive, penalty=penalty)
    codes = random_codes(problem)
    figures = measure(problem, codes)
    compiled = certify(problem, as_sparse(codes))
    for k, one in enumerate(ordinary_problems(problem)):
        if one is None:
            continue
        expected = measure(one, codes[[k]])
        for name in FIGURES:
            np.testing.assert_allclose(getattr(figures, name)[k], getattr(expected, name)[0], rtol=1e-12)
            np.testing.assert_allclose(getattr(compiled, name)[k], getattr(figures, name)[k], rtol=1e-13)


@pytest.mark.parametrize(("n_features", "n_atoms"), [(1, 1), (5, 7), (1500, 30)], ids=str)
def test_compiled_figures_are_those_of_numpy(n_features, n_atoms):
    rng = np.random.default_rng(n_features)
    dictionary, signals = rng.standard_normal((n_atoms, n_features)), rng.standard_normal((3, n_features))
    for weights in ({"mask": rng.random(signals.shape) < 0.7}, {"feature_weights": rng.random(n_features)}):
        problem = LassoProblem(dictionary, signals, 0.3, **weights)
        codes = random_codes(problem)
        compiled, expected = certify(problem, as_sparse(codes)), measure(problem, codes)
        for name in FIGURES:
            np.testing.assert_allclose(
                getattr(compiled, name), getattr(expected, name), rtol=1e-13, atol=1e-13
            )


def exact_problem(rng, *, positive, as_mask, spread, curved):
    """12 atoms in 8 dimensions, of norms that differ by 10^spread and weights by 10^(2 spread)."""
    dictionary = rng.standard_normal((12, 8)) * 10.0 ** rng.uniform(-spread, spread, (12, 1))
    signal = rng.standard_normal((1, 8))
    known = rng.random(8) < 0.7
    known[rng.integers(8)] = True
    options = {"mask": known}
    if not as_mask:
        options = {"feature_weights": known * 10.0 ** rng.uniform(-spread, spread, 8)}
    norms = np.linalg.norm(dictionary, axis=1)
    weights = 0.05 * np.abs(dictionary[:, known] @ signal[0, known] / norms).max() * norms
    penalty = ElasticNet(weights, norms**2 * (rng.random(12) < 0.6)) if curved else weights
    return LassoProblem(dictionary, signal, penalty, positive=positive, **options)


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    positive=st.booleans(),
    as_mask=st.booleans(),
    curved=st.booleans(),
    spread=st.sampled_from([0.0, 3.0, 6.0]),
)
def test_gap_is_not_below_the_exact_one(seed, positive, as_mask, curved, spread):
    rng = np.random.default_rng(seed)
    problem = exact_problem(rng, positive=positive, as_mask=as_mask, spread=spread, curved=curved)
    exact = ExactProblem(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = solve_active_set(problem).codes
    for size in (0.0, 1e-14, 1e-8, 1e-2):
        codes = best * (1.0 + size * rng.standard_normal(best.shape))
        code = rational(codes[0])
        below = exact.gap(code, exact.residual(code))
        minimum = exact.minimum(codes[0])
        for figures in (measure(problem, codes), certify(problem, as_sparse(codes))):
            gap = Fraction(figures.duality_gap[0])
            assert gap >= below
            if minimum is not None:
                assert gap >= exact.objective(code) - minimum >= 0
            # The bound is not idle: it is the exact gap but for rounding.
            assert float(gap - below) <= 1e-9 * float(problem.energies[0] + figures.objective[0])


def test_what_is_missing_is_not_read():
    """Not NaN, nor infinity, nor a residual that overflows there."""
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((6, 4))
    signals, mask = rng.standard_normal((3, 4)), rng.random((3, 4)) < 0.6
    codes = rng.standard_normal((3, 6))
    clean = LassoProblem(dictionary, np.where(mask, signals, 0.0), 0.1, mask=mask)
    for rubbish in (np.nan, np.inf, -1e308):
        problem = LassoProblem(dictionary, np.where(mask, signals, rubbish), 0.1, mask=mask)
        np.testing.assert_array_equal(problem.signals, clean.signals)
        np.testing.assert_array_equal(measure(problem, codes).duality_gap, measure(clean, codes).duality_gap)
    dictionary[:, :3] *= 1e-100
    dictionary[:, 3] = 1e153
    mask[:, 3] = False
    problem = LassoProblem(dictionary, signals, 0.1, mask=mask)
    with np.errstate(over="ignore", invalid="ignore"):
        for figures in (measure(problem, 1e157 * codes), certify(problem, as_sparse(1e157 * codes))):
            assert np.isfinite(figures.objective).all()
            # Infinite or not a number: no gap that is reached.
            assert not (figures.duality_gap <= problem.energies).any()


# -- what depends on what ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "solve",
    [
        solve_active_set,
        solve_spiking,
        partial(solve_spiking, polish=True),
        solve_coordinate_descent,
        partial(solve_spiking, time_step=0.25),
    ],
    ids=["active set", "spiking", "polished", "coordinate descent", "clock"],
)
def test_bits_do_not_depend_on_batch_mates(solve):
    problem = masked_problem("a mask for each", n_signals=8)
    together = solve(problem, tol=1e-3).codes
    order = np.random.default_rng(0).permutation(8)
    np.testing.assert_array_equal(solve(problem.subset(order), tol=1e-3).codes, together[order])
    for k in (0, 6, 7):
        np.testing.assert_array_equal(solve(problem.subset([k]), tol=1e-3).codes[0], together[k])


@pytest.mark.parametrize("solve", [solve_active_set, solve_spiking], ids=lambda f: f.__name__)
def test_result_does_not_depend_on_workers(solve):
    problem = masked_problem("a mask for each", n_signals=9)
    alone, spread = (solve(problem, n_jobs=n_jobs) for n_jobs in (1, 3))
    np.testing.assert_array_equal(alone.codes, spread.codes)
    np.testing.assert_array_equal(alone.duality_gap, spread.duality_gap)


def test_weights_of_one_are_no_weights():
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((30, 20)), rng.standard_normal((3, 20))
    plain = solve_active_set(LassoProblem(dictionary, signals, 0.5))
    for options in ({"mask": np.ones((3, 20), bool)}, {"feature_weights": np.ones(20)}):
        result = solve_active_set(LassoProblem(dictionary, signals, 0.5, **options))
        np.testing.assert_allclose(result.codes, plain.codes, rtol=0, atol=1e-12)


def test_weight_of_two_is_the_feature_twice():
    rng = np.random.default_rng(0)
    dictionary, signals = rng.standard_normal((30, 20)), rng.standard_normal((3, 20))
    weights = rng.integers(0, 4, (3, 20)).astype(float)
    result = solve_active_set(LassoProblem(dictionary, signals, 0.5, feature_weights=weights))
    for k in range(3):
        rows = np.arange(20).repeat(weights[k].astype(int))
        one = solve_active_set(LassoProblem(dictionary[:, rows], signals[[k]][:, rows], 0.5))
        np.testing.assert_allclose(result.codes[k], one.codes[0], rtol=0, atol=1e-11)


def test_groups_are_signals_with_equal_masks():
    masks = np.array([[1, 0, 1], [0, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)
    for options in ({"mask": masks}, {"feature_weights": 0.5 * masks}):
        problem = LassoProblem(np.eye(3), np.ones((5, 3)), 0.1, **options)
        assert [group.tolist() for group in groups_of(problem)] == [[0, 2], [1, 3], [4]]


def test_callers_arrays_are_left_alone():
    signals, mask = np.ones((2, 3)), np.array([[True, False, True], [True, True, True]])
    problem = LassoProblem(np.eye(3), signals, 0.1, mask=mask)
    mask[:] = False
    assert problem.mask.sum() == 5
    assert (signals == 1.0).all()
    assert not problem.feature_weights.flags.writeable
    assert problem.signals[0, 1] == 0.0


# -- the rest of the package -------------------------------------------------------------------------


def test_reconstruction_has_all_features():
    """What a sparse code in a known dictionary says of features that were not seen."""
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((60, 40))
    codes = rng.uniform(1.0, 2.0, (5, 60)) * (rng.random((5, 60)) < 0.05)
    signals, mask = codes @ dictionary, rng.random((5, 40)) < 0.6
    problem = LassoProblem(dictionary, np.where(mask, signals, np.nan), 1e-4, mask=mask)
    filled = problem.reconstruct(solve_active_set(problem).sparse_codes)
    np.testing.assert_allclose(filled, signals, rtol=0, atol=1e-3)


def test_penalty_max():
    problem = masked_problem("a mask for each")
    largest = penalty_max(problem.dictionary, problem.signals, mask=problem.mask)
    for k, one in enumerate(ordinary_problems(problem)):
        expected = 0.0 if one is None else np.abs(one.correlations).max()
        np.testing.assert_allclose(largest[k], expected, rtol=1e-13)


def test_starts():
    problem = masked_problem("a mask for each")
    best = solve_active_set(problem, tol=1e-10)
    for solve in methods(start=True, own_weights=True).values():
        again = solve(problem, start=best, tol=1e-6)
        assert again.converged
        assert again.n_steps.sum() <= problem.n_signals
    from_spikes = solve_active_set(problem, start=solve_spiking(problem, polish=True), tol=1e-10)
    np.testing.assert_allclose(from_spikes.codes, best.codes, rtol=0, atol=1e-10)


def test_spiking_result_of_groups():
    problem = masked_problem("a mask for each")
    result = solve_spiking(problem, readout="current", tol=0.05)
    assert result.problem is problem
    operations = result.operations["network"].synaptic_operations
    for k in range(problem.n_signals):
        one = solve_spiking(problem.subset([k]), readout="current", tol=0.05)
        np.testing.assert_array_equal(result.spike_counts[k], one.spike_counts[0])
        assert operations[k] == one.operations["network"].synaptic_operations[0]
        assert result.rate_duality_gap[k] == one.rate_duality_gap[0]
        assert result.duration[k] == one.duration[0]


@pytest.mark.parametrize("solve", [solve_spiking, partial(solve_spiking, polish=True), solve_lars])
def test_nothing_of_a_group_is_left_when_the_next_one_is_solved(solve, monkeypatch):
    """Each mask has a Gram matrix of its own, and there may be thousands."""
    problem = masked_problem("a mask for each")
    living, most = weakref.WeakSet(), 0
    make = CodingModel.of_weights

    def watched(model, weights):
        nonlocal most
        made = make(model, weights)
        living.add(made)
        most = max(most, len(living))
        return made

    monkeypatch.setattr(CodingModel, "of_weights", watched)
    gc.disable()
    try:
        result = solve(problem, tol=0.1)
        result.operations  # noqa: B018 - made when asked for
    finally:
        gc.enable()
    assert len(groups_of(problem)) == 3
    assert (most, len(living)) == (1, 0)


def test_one_warning_for_all_groups():
    problem = masked_problem("a mask for each")
    with pytest.warns(ConvergenceWarning, match="analog: 3 of 4 signals did not reach") as caught:
        result = solve_analog(problem, tol=1e-8, max_duration=0.5)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert result.status.tolist() == [1, 0, 1, 1]


@each_kind
def test_compare_and_path(kind):
    problem = masked_problem(kind)
    # A result of digital neurons has one network, and there is none where masks differ.
    records = compare(problem, [name for name in METHODS if name != "digital"], tol=1e-2)
    assert all(record["n_converged"] == problem.n_signals for record in records)
    followed = path(problem, [4.0, 2.0, 1.0])
    alone = solve_active_set(problem, tol=1e-8)
    np.testing.assert_allclose(followed.objective[-1], alone.objective, rtol=0, atol=1e-8)


def test_prepared():
    shared, own = masked_problem("one mask"), masked_problem("a mask for each")
    prepared = PreparedLasso(shared.dictionary, 0.5, mask=shared.mask)
    assert prepared.with_signals(shared.signals).has_gram
    np.testing.assert_array_equal(
        solve_active_set(prepared.with_signals(shared.signals)).codes, solve_active_set(shared).codes
    )
    other = prepared.with_signals(own.signals, mask=own.mask)
    expected = LassoProblem(shared.dictionary, own.signals, 0.5, mask=own.mask)
    np.testing.assert_array_equal(solve_active_set(other).codes, solve_active_set(expected).codes)


def test_gram_matrix_is_that_of_what_is_known():
    problem = masked_problem("weights for all")
    weighted = problem.dictionary * problem.feature_weights
    np.testing.assert_allclose(problem.gram, weighted @ problem.dictionary.T, rtol=0, atol=1e-12)
    np.testing.assert_allclose(problem.gram_rows([2, 5]), problem.gram[[2, 5]], rtol=0, atol=1e-12)
    own = masked_problem("a mask for each")
    assert not own.has_gram
    for ask in (lambda: own.gram, lambda: own.gram_rows([0])):
        with pytest.raises(TypeError, match=r"problem must have one mask .*; got one for each signal"):
            ask()
    network = lasso_network(own, 2)
    one = list(ordinary_problems(own))[2]
    np.testing.assert_allclose(network.firing_threshold[:40], np.diagonal(one.gram), rtol=1e-12)


def test_large_dictionary_of_one_signal_needs_no_gram_matrix():
    rng = np.random.default_rng(0)
    dictionary, signal = rng.standard_normal((600, 50)), rng.standard_normal((1, 50))
    for options in ({"mask": rng.random(50) < 0.5}, {"mask": rng.random((1, 50)) < 0.5}):
        problem = LassoProblem(dictionary, signal, 2.0, **options)
        for solve in (solve_active_set, partial(solve_spiking, polish=True)):
            result = solve(problem, tol=1e-8)
            assert result.converged
            require_certified(problem, result)
        assert not problem.has_gram


def test_stream_of_frames_with_masks():
    rng = np.random.default_rng(0)
    dictionary, frame = rng.standard_normal((40, 20)), rng.standard_normal((2, 20))
    stream = SparseCodingStream(dictionary, 0.5)
    first, second = rng.random(20) < 0.6, rng.random(20) < 0.8
    for mask in (first, None, second, second):
        result = stream.code(frame if mask is None else np.where(mask, frame, np.nan), mask=mask, tol=1e-4)
        problem = LassoProblem(dictionary, frame, 0.5, mask=mask)
        assert result.converged
        require_certified(problem, result)
    assert result.is_carried.all()
    assert not result.n_steps.any()
    always = SparseCodingStream(dictionary, 0.5, mask=first)
    result = always.code(np.where(first, frame, np.nan), tol=1e-4)
    require_certified(LassoProblem(dictionary, frame, 0.5, mask=first), result)


def test_what_has_one_network_takes_one_mask():
    mask = np.array([True, True, False, True])
    own = LassoProblem(np.eye(4), np.ones((2, 4)), 0.25, mask=np.stack([mask, ~mask]))
    with pytest.raises(TypeError, match=r"problem must have one mask for all signals"):
        solve_digital(own)
    shared = LassoProblem(np.eye(4), np.ones((2, 4)), 0.25, mask=mask)
    codes = solve_digital(shared, tol=0.05).codes
    np.testing.assert_allclose(codes, 0.75 * np.stack([mask, mask]), rtol=0, atol=0.1)


@SIGNS
def test_convolutional(positive):
    rng = np.random.default_rng(0)
    dictionary = ConvolutionalDictionary(rng.standard_normal((3, 4, 4)), (12, 10), 2)
    dense = dictionary.toarray()
    images = rng.standard_normal((2, 120))
    for options in (
        {"mask": rng.random((2, 120)) < 0.6},
        {"mask": rng.random(120) < 0.6},
        {"feature_weights": rng.random((2, 120))},
    ):
        seen = np.where(options.get("mask", True), images, np.nan)
        problem, expected = (
            LassoProblem(atoms, seen, 0.5, positive=positive, **options) for atoms in (dictionary, dense)
        )
        result = solve_fista(problem, tol=1e-6)
        assert result.converged
        assert result.support_size.min() > 10
        best = solve_active_set(expected, tol=1e-9)
        assert (np.abs(result.objective - best.objective) <= 1.1e-6 * problem.energies).all()
        figures, of_array = measure(problem, result.codes), measure(expected, result.codes)
        for name in FIGURES:
            np.testing.assert_allclose(getattr(figures, name), getattr(of_array, name), rtol=0, atol=1e-10)
        for solve in methods("digital", weights_with_convolution=False).values():
            with pytest.raises(TypeError, match=r"an array of atoms .* ConvolutionalDictionary"):
                solve(problem)

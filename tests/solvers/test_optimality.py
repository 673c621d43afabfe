"""The problem and its certificates: optima in closed form, bounds that hold for every code."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import (
    LassoProblem,
    duality_gap,
    kkt_violation,
    objective,
    penalty_max,
    solve_active_set,
    solve_coordinate_descent,
    solve_fista,
    solve_lars,
    solve_spiking,
)
from solvers.certificate import optimality as optimality_module
from solvers.certificate.compiled import certify
from solvers.certificate.optimality import measure
from solvers.results.result import as_sparse

SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])


def random_problem(n_atoms=30, n_features=20, n_signals=4, *, positive=False, share=0.2, seed=0):
    """Atoms of norms between 0.3 and 3, and a penalty of its own for each."""
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n_atoms, n_features))
    dictionary *= rng.uniform(0.3, 3.0, (n_atoms, 1)) / np.linalg.norm(dictionary, axis=1, keepdims=True)
    signals = rng.standard_normal((n_signals, n_features))
    # A signal with no atom along it is turned round, and has one: where codes are positive, zero else.
    signals[penalty_max(dictionary, signals, positive=positive) == 0.0] *= -1.0
    largest = penalty_max(dictionary, signals, positive=positive).min()
    penalty = share * largest * rng.uniform(0.5, 1.0, n_atoms)
    return LassoProblem(dictionary, signals, penalty, positive=positive)


def random_codes(problem, rng, *, density=0.5, size=1.0):
    shape = (problem.n_signals, problem.n_atoms)
    codes = size * rng.standard_normal(shape) * (rng.random(shape) < density)
    return np.abs(codes) if problem.positive else codes


def soft_threshold(values, threshold, positive):
    if positive:
        return np.maximum(values - threshold, 0.0)
    return np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)


def orthogonal_problem(*, positive):
    """Orthogonal atoms d_i of norms g_i^(1/2): a_i = T(b_i, lambda_i) / g_i, each atom by itself."""
    rng = np.random.default_rng(5)
    basis, _ = np.linalg.qr(rng.standard_normal((16, 16)))
    dictionary = basis[:12] * rng.uniform(0.3, 3.0, (12, 1))
    signals = rng.standard_normal((6, 16))
    penalty = rng.uniform(0.1, 1.0, 12)
    problem = LassoProblem(dictionary, signals, penalty, positive=positive)
    optimum = soft_threshold(signals @ dictionary.T, penalty, positive) / (dictionary**2).sum(axis=1)
    return problem, optimum


# -- closed forms --------------------------------------------------------------------------------


@SIGNS
def test_optimum_of_orthogonal_atoms_is_the_soft_threshold(positive):
    problem, codes = orthogonal_problem(positive=positive)
    # E* = 1/2 ||s||^2 - 1/2 sum_i g_i a_i^2, completing the square atom by atom.
    expected = 0.5 * (problem.signals**2).sum(axis=1) - 0.5 * codes**2 @ problem.squared_norms
    # Sums of 16 products of numbers of order 1: rounding is about 16 x 1e-16.
    np.testing.assert_allclose(objective(problem, codes), expected, rtol=0, atol=1e-14)
    # A gap has the bound on this rounding, about (16 + 10) 1e-16 ||r|| sum |a_i| ||d_i||.
    assert duality_gap(problem, codes).max() < 1e-13 * problem.energies.min()
    assert kkt_violation(problem, codes).max() < 1e-14


@pytest.mark.parametrize(
    ("signal", "code"),
    [
        # Atoms (1, 0) and (0.6, 0.8), G = [[1, 0.6], [0.6, 1]], lambda = 0.1.
        # b = (1, 0.6): the second has correlation 0.6 - 0.6 x 0.9 = 0.06 < 0.1 with the residual.
        ((1.0, 0.0), (0.9, 0.0)),
        # b = (1, 1.4): a = G^-1 (b - lambda) = ((0.9 - 0.6 x 1.3), (1.3 - 0.6 x 0.9)) / 0.64.
        ((1.0, 1.0), (0.1875, 1.1875)),
        # b = (1, -0.2): signs (+, -), a = G^-1 (0.9, -0.1) = (0.96, -0.64) / 0.64.
        ((1.0, -1.0), (1.5, -1.0)),
        # max|b| = lambda: nothing pays.
        ((0.1, 0.0), (0.0, 0.0)),
    ],
)
def test_two_atoms_by_hand(signal, code):
    problem = LassoProblem([[1.0, 0.0], [0.6, 0.8]], [signal], 0.1)
    by_hand = measure(problem, [code])
    assert by_hand.duality_gap[0] == pytest.approx(0.0, abs=1e-14)
    assert by_hand.kkt_violation[0] == pytest.approx(0.0, abs=1e-15)
    for solve in (solve_fista, solve_coordinate_descent, solve_lars):
        # gap <= tol * 1/2 ||s||^2 <= 1e-13, and E(a) - E* >= 0.2 ||a - a*||^2 (0.4: least eigenvalue of G).
        np.testing.assert_allclose(solve(problem, tol=1e-13).codes, [code], rtol=0, atol=1e-6)
    np.testing.assert_allclose(solve_spiking(problem, polish=True).codes, [code], rtol=0, atol=1e-15)


def test_two_atoms_by_hand_without_negative_codes():
    # As above with b = (1, -0.2): the second atom would be negative and stays out, a_1 = 1 - 0.1.
    problem = LassoProblem([[1.0, 0.0], [0.6, 0.8]], [[1.0, -1.0]], 0.1, positive=True)
    by_hand = measure(problem, [[0.9, 0.0]])
    assert by_hand.objective[0] == pytest.approx(0.5 * (0.01 + 1.0) + 0.09, abs=1e-15)
    assert by_hand.duality_gap[0] == pytest.approx(0.0, abs=1e-14)
    assert by_hand.kkt_violation[0] == pytest.approx(0.0, abs=1e-15)


def test_zero_code_by_hand():
    # One atom of norm 1, b = 1, lambda = 1/4.  kappa = 1/4: gap = 1/2 (3/4)^2; violation b - lambda.
    zero = measure(LassoProblem([[1.0, 0.0]], [[1.0, 0.0]], 0.25), [[0.0]])
    assert zero.objective[0] == 0.5
    assert zero.duality_gap[0] == pytest.approx(0.5 * 0.75**2, rel=1e-14)
    assert zero.kkt_violation[0] == 0.75


@SIGNS
def test_objective_is_its_definition(positive):
    problem = random_problem(positive=positive)
    codes = random_codes(problem, np.random.default_rng(1))
    for signal in range(problem.n_signals):
        residual = problem.signals[signal] - codes[signal] @ problem.dictionary
        expected = 0.5 * residual @ residual + problem.l1_weights @ np.abs(codes[signal])
        assert objective(problem, codes)[signal] == pytest.approx(expected, rel=1e-13)


# -- bounds --------------------------------------------------------------------------------------


@SIGNS
@pytest.mark.parametrize("size", [1e-8, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("share", [1e-6, 0.2, 0.99])
def test_gap_bounds_the_distance_to_the_optimum(positive, size, share):
    problem = random_problem(positive=positive, share=share)
    best = solve_spiking(problem, tol=1e-12, polish=True)
    rng = np.random.default_rng(2)
    for codes in (
        random_codes(problem, rng, size=size),
        best.codes + random_codes(problem, rng, size=size),
        np.where(rng.random(best.codes.shape) < 0.5, best.codes, 0.0),
        best.codes,
    ):
        feasible = np.maximum(codes, 0.0) if positive else codes
        figures = measure(problem, feasible)
        # All terms of the gap are rounded in proportion to E(a) and 1/2 ||s||^2.
        rounding = 1e-12 * (figures.objective + problem.energies)
        assert (figures.duality_gap >= 0.0).all()
        assert (figures.duality_gap >= figures.objective - best.objective - rounding).all()
    # At the optimum both certificates vanish, up to that rounding.
    assert (np.abs(best.duality_gap) <= 1e-12 * problem.energies).all()
    assert (best.kkt_violation <= 1e-12 * np.abs(problem.correlations).max(axis=1)).all()


@pytest.mark.filterwarnings("ignore:all codes are zero")
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), positive=st.booleans(), share=st.floats(1e-6, 2.0))
def test_gap_is_never_negative(seed, positive, share):
    rng = np.random.default_rng(seed)
    problem = random_problem(n_atoms=7, n_features=4, positive=positive, share=share, seed=seed % 1000)
    codes = random_codes(problem, rng, size=10.0 ** rng.uniform(-6, 3))
    optimum = solve_active_set(problem).codes
    # By NumPy and by the kernel; at the optimum, and one rounding away from it, all terms are rounding.
    for tried in (codes, optimum, optimum * (1.0 + 2.0**-52), np.zeros_like(codes)):
        for figures in (measure(problem, tried), certify(problem, as_sparse(tried))):
            assert (figures.duality_gap >= 0.0).all()
            assert (figures.kkt_violation >= 0.0).all()


@SIGNS
def test_kkt_violation_is_zero_at_the_optimum_and_nowhere_else(positive):
    # The identity and quarters: everything is exact in binary, and so is zero; the gap bounds rounding.
    signals = np.array([[1.0, -0.75, 0.5, 0.25, 0.0]])
    problem = LassoProblem(np.eye(5), signals, 0.5, positive=positive)
    optimum = np.array([[0.5, 0.0 if positive else -0.25, 0.0, 0.0, 0.0]])
    at_optimum = measure(problem, optimum)
    assert at_optimum.kkt_violation[0] == 0.0
    assert at_optimum.duality_gap[0] <= 1e-14
    for atom in range(5):
        for step in (-0.25, -(2.0**-40), 2.0**-40, 0.25):
            moved = optimum.copy()
            moved[0, atom] += step
            if positive and moved.min() < 0.0:
                continue
            # With unit atoms the fixed point does not move: the violation is the way to it.
            assert kkt_violation(problem, moved)[0] == abs(step)
            assert objective(problem, moved)[0] > at_optimum.objective[0] or abs(step) < 1e-8
            assert duality_gap(problem, moved)[0] > 0.0


@SIGNS
def test_certificate_of_a_code_does_not_depend_on_its_company(positive, monkeypatch):
    problem = random_problem(n_signals=23, positive=positive)
    codes = random_codes(problem, np.random.default_rng(3))
    together = measure(problem, codes)
    monkeypatch.setattr(optimality_module, "BLOCK_ENTRIES", 4 * problem.n_atoms)
    in_blocks = measure(problem, codes)
    for name in ("objective", "duality_gap", "kkt_violation"):
        np.testing.assert_array_equal(getattr(in_blocks, name), getattr(together, name))
        for signal in (0, 11, 22):
            alone = measure(problem.subset([signal]), codes[[signal]])
            assert getattr(alone, name)[0] == getattr(together, name)[signal]


def test_a_fit_without_residual_has_a_gap_too():
    # r = 0: the best dual point is z = 0, and the gap is the whole penalty term.
    problem = LassoProblem(np.eye(2), [[3.0, -1.0]], 0.5)
    figures = measure(problem, [[3.0, -1.0]])
    assert figures.objective[0] == 2.0
    assert figures.duality_gap[0] == pytest.approx(2.0, rel=1e-14)
    assert figures.kkt_violation[0] == 0.5


# -- the penalty above which nothing pays --------------------------------------------------------


@SIGNS
def test_penalty_max_is_the_largest_correlation(positive):
    problem = random_problem(positive=positive)
    correlations = problem.signals @ problem.dictionary.T
    expected = (correlations if positive else np.abs(correlations)).max(axis=1)
    # Products of matrices add up in another order: a few roundings of sums of 20.
    np.testing.assert_allclose(
        penalty_max(problem.dictionary, problem.signals, positive=positive), expected, rtol=1e-13
    )
    assert penalty_max(problem.dictionary, np.zeros((1, 20)), positive=positive)[0] == 0.0
    assert penalty_max([[1.0]], [[-2.0]], positive=True)[0] == 0.0
    assert penalty_max([[1.0]], [[-2.0]])[0] == 2.0


@SIGNS
@pytest.mark.parametrize(
    "solve",
    [
        lambda problem: solve_spiking(problem, tol=1e-10, polish=True),
        lambda problem: solve_fista(problem, tol=1e-10),
        lambda problem: solve_coordinate_descent(problem, tol=1e-10),
        lambda problem: solve_lars(problem, tol=1e-10),
    ],
    ids=["spiking", "fista", "coordinate_descent", "lars"],
)
def test_codes_are_exactly_zero_from_penalty_max_on(solve, positive):
    rng = np.random.default_rng(6)
    dictionary = rng.standard_normal((30, 20))
    for signal in rng.standard_normal((3, 1, 20)):
        largest = penalty_max(dictionary, signal, positive=positive)[0]
        for penalty, zero in (
            (0.999 * largest, False),
            (largest, True),
            (np.nextafter(largest, 1e9), True),
            (10.0 * largest, True),
        ):
            problem = LassoProblem(dictionary, signal, penalty, positive=positive)
            assert (not solve(problem).codes.any()) == zero
            # From there on the gap of zero is the square of a bound on rounding.
            assert (duality_gap(problem, np.zeros((1, 30)))[0] <= 1e-26 * problem.energies[0]) == zero


# -- the problem ---------------------------------------------------------------------------------


def test_arrays_are_read_only_and_fitting_ones_not_copied():
    rng = np.random.default_rng(7)
    dictionary, signals, penalty = rng.standard_normal((5, 4)), rng.standard_normal((3, 4)), np.full(5, 0.1)
    gram = dictionary @ dictionary.T
    problem = LassoProblem(dictionary, signals, penalty, gram=gram)
    for name, array in (
        ("dictionary", dictionary), ("signals", signals), ("l1_weights", penalty), ("gram", gram),
    ):  # fmt: skip
        assert np.shares_memory(getattr(problem, name), array)
        assert array.flags.writeable  # the caller's own array stays as it was
    for name in ("dictionary", "signals", "l1_weights", "gram", "correlations", "squared_norms", "energies"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(problem, name)[0] = 1.0
    with pytest.raises(AttributeError):
        problem.positive = True
    assert (problem.n_signals, problem.n_atoms, problem.n_features) == (3, 5, 4)


def test_derived_quantities_are_their_definitions():
    problem = random_problem()
    dictionary, signals = problem.dictionary, problem.signals
    np.testing.assert_allclose(problem.gram, dictionary @ dictionary.T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(problem.correlations, signals @ dictionary.T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(problem.squared_norms, np.diag(dictionary @ dictionary.T), rtol=1e-14)
    np.testing.assert_allclose(problem.energies, 0.5 * (signals**2).sum(axis=1), rtol=1e-14)
    np.testing.assert_array_equal(LassoProblem(dictionary, signals, 0.5).l1_weights, np.full(30, 0.5))
    codes = random_codes(problem, np.random.default_rng(4))
    np.testing.assert_allclose(problem.reconstruct(codes), codes @ dictionary, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "which", [[2, 0], slice(1, 3), np.array([True, False, True, False])], ids=["list", "slice", "mask"]
)
def test_subset_is_the_problem_of_those_signals(which):
    problem = random_problem(positive=True)
    _ = problem.correlations  # computed already: must be cut as well
    part = problem.subset(which)
    fresh = LassoProblem(problem.dictionary, problem.signals[which], problem.l1_weights, positive=True)
    assert part.dictionary is problem.dictionary
    assert part.positive
    for name in ("signals", "energies", "correlations", "l1_weights", "squared_norms", "gram"):
        np.testing.assert_array_equal(getattr(part, name), getattr(fresh, name))
    with pytest.raises(ValueError, match="read-only"):
        part.signals[0] = 0.0


def test_gram_at_hand_is_used_and_a_wrong_one_noticed():
    problem = random_problem()
    dictionary, signals, penalty = problem.dictionary, problem.signals, problem.l1_weights
    given_gram = LassoProblem(dictionary, signals, penalty, gram=problem.gram)
    result = solve_spiking(given_gram, polish=True)
    np.testing.assert_array_equal(result.codes, solve_spiking(problem, polish=True).codes)
    # One wrong entry, off the diagonal or on it, or the Gram matrix of other atoms.
    for entry in ((3, 4), (5, 5)):
        wrong = problem.gram.copy()
        wrong[entry] += 1e-3
        with pytest.raises(ValueError, match=r"gram must be dictionary @ dictionary\.T; got a matrix"):
            LassoProblem(dictionary, signals, penalty, gram=wrong)
    with pytest.raises(ValueError, match=r"gram must be dictionary @ dictionary\.T"):
        LassoProblem(dictionary, signals, penalty, gram=np.roll(problem.gram, 1, axis=(0, 1)))


def _read_only(array):
    array.setflags(write=False)
    return array


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda array: _read_only(array.copy()),
        lambda array: np.repeat(array, 3, axis=-1)[..., ::3],
        lambda array: array.tolist(),
        lambda array: array.astype(">f8"),
    ],
    ids=["fortran", "read-only", "strided", "lists", "big-endian"],
)
def test_every_kind_of_input_gives_the_same_codes(convert):
    problem = random_problem()
    converted = LassoProblem(
        convert(problem.dictionary), convert(problem.signals), convert(problem.l1_weights)
    )
    for solve in (solve_fista, solve_lars, solve_spiking):
        np.testing.assert_array_equal(solve(converted, tol=1e-2).codes, solve(problem, tol=1e-2).codes)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, np.uint8, bool])
def test_other_number_types_are_taken_at_their_value(dtype):
    rng = np.random.default_rng(8)
    dictionary = rng.integers(0, 2, (6, 5)).astype(dtype) + np.eye(6, 5, dtype=dtype)
    signals = rng.integers(0, 2, (3, 5)).astype(dtype)
    exact = LassoProblem(dictionary.astype(float), signals.astype(float), 0.25)
    problem = LassoProblem(dictionary, signals, 0.25)
    assert problem.dictionary.dtype == problem.signals.dtype == np.float64
    np.testing.assert_array_equal(
        solve_spiking(problem, polish=True).codes, solve_spiking(exact, polish=True).codes
    )


def test_memory_mapped_arrays_serve_as_they_are(tmp_path):
    problem = random_problem()
    paths = {}
    for name in ("dictionary", "signals"):
        paths[name] = tmp_path / f"{name}.npy"
        np.save(paths[name], getattr(problem, name))
    mapped = {name: np.load(path, mmap_mode="r") for name, path in paths.items()}
    from_disk = LassoProblem(mapped["dictionary"], mapped["signals"], problem.l1_weights)
    assert np.shares_memory(from_disk.dictionary, mapped["dictionary"])
    for solve in (solve_fista, solve_lars, solve_spiking):
        np.testing.assert_array_equal(solve(from_disk, tol=1e-2).codes, solve(problem, tol=1e-2).codes)


def test_one_atom_by_hand():
    """E = 1/2 (3 - 2 a)^2 + |a| at a = 1: r = 1, d.r = 2, kappa = 1/2."""
    figures = measure(LassoProblem([[2.0]], [[3.0]], 1.0), [[1.0]])
    assert figures.objective == 1.5
    assert figures.duality_gap[0] == pytest.approx(0.5 * 0.25 + (1.0 - 0.5 * 2.0), rel=1e-14)
    # A step without threshold leads to 4 a = 6, with it to 5.
    assert figures.kkt_violation == 1.0


def test_gap_keeps_its_digits_where_the_difference_of_objectives_has_none():
    """One atom of norm one, its coefficient too large by e: the residual 1/2 - e, scaled, is dual optimal."""
    error = 2.0**-20
    gap = duality_gap(LassoProblem([[1.0, 0.0]], [[2.0, 0.0]], 0.5), [[1.5 + error]])
    # The bound on rounding, about 10 x 1e-16 ||r|| |a|, is 1e-15: of the difference of objectives there
    # would be three digits.
    np.testing.assert_allclose(gap, 0.5 * error**2, rtol=0, atol=4e-15)
    assert gap >= 0.5 * error**2


@settings(max_examples=50)
@given(seed=st.integers(0, 1000), positive=st.booleans(), exponent=st.integers(-450, 450))
def test_figures_scale_with_signal_and_penalty_exactly(seed, positive, exponent):
    """Powers of two change exponents only."""
    problem = random_problem(n_atoms=7, n_features=4, positive=positive, seed=seed)
    factor = 2.0**exponent
    scaled = LassoProblem(
        problem.dictionary, problem.signals * factor, problem.l1_weights * factor, positive=positive
    )
    codes = random_codes(problem, np.random.default_rng(seed))
    plain, figures = measure(problem, codes), measure(scaled, codes * factor)
    np.testing.assert_array_equal(figures.objective, plain.objective * factor**2)
    np.testing.assert_array_equal(figures.duality_gap, plain.duality_gap * factor**2)
    np.testing.assert_array_equal(figures.kkt_violation, plain.kkt_violation * factor)

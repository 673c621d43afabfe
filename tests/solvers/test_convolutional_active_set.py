"""The active-set method for convolutional codes: optimal to rounding, whatever the support it starts from."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_sample_image
from sklearn.exceptions import ConvergenceWarning

from examples.convolutional_coding import normalised
from solvers import (
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    memory_limit,
    penalty_max,
    solve_active_set,
    solve_coordinate_descent,
    solve_fista,
    solve_spiking,
)
from solvers._kernels import grid_descent, sparse_gram
from solvers.gram import convolutional_active_set
from solvers.gram.convolutional_active_set import ActiveSetSearch, gram_part
from solvers.gram.nested_dissection import Factor, divide
from solvers.gram.windows import windows_of
from tests.reference.convolutions import GEOMETRIES, random_dictionary

# Kernels that depend on each other are on purpose here.
pytestmark = pytest.mark.filterwarnings("ignore::solvers.problem.conditioning.IllPosedWarning")
# The equations are solved until their residual is rounding, 1e-16 times sums of some hundred products.
ROUNDING = 1e-13


def random_problem(geometry=GEOMETRIES[0], *, positive=True, n_signals=1, share=0.2, seed=1):
    dictionary = random_dictionary(geometry)
    signals = np.random.default_rng(seed).standard_normal((n_signals, dictionary.shape[1]))
    penalty = share * penalty_max(dictionary, signals, positive=positive).min()
    return LassoProblem(dictionary, signals, penalty, positive=positive)


def photograph(side, *, n_kernels=48, penalty=0.4, positive=True, seed=0):
    """A crop of a photograph, in kernels that are patches of the same photograph elsewhere."""
    image = normalised(load_sample_image("china.jpg").mean(axis=2) / 255.0)
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, 200, n_kernels), rng.integers(0, 600, n_kernels)
    kernels = np.stack([image[i : i + 8, j : j + 8] for i, j in zip(rows, columns, strict=True)])
    kernels -= kernels.mean(axis=(1, 2), keepdims=True)
    kernels /= np.linalg.norm(kernels, axis=(1, 2), keepdims=True)
    signal = image[250 : 250 + side, 200 : 200 + side].reshape(1, -1)
    return LassoProblem(ConvolutionalDictionary(kernels, (side, side), 4), signal, penalty, positive=positive)


def dense_twin(problem):
    return LassoProblem(
        problem.dictionary.toarray(), problem.signals, problem.l1_weights, positive=problem.positive
    )


def require_exact(problem, result):
    largest = np.abs(problem.correlations).max()
    assert result.converged
    assert result.kkt_violation.max() <= ROUNDING * largest
    # A gap is a sum over the support of codes times violations of the equations.
    sizes = np.abs(result.codes).sum(axis=1)
    assert (result.duality_gap <= ROUNDING * (largest * sizes + problem.energies)).all()


def part_of(dictionary, chosen, seed=2):
    """A part of the Gram matrix with random curvatures, and the same as an array."""
    array = dictionary.toarray()
    rng = np.random.default_rng(seed)
    atoms = np.flatnonzero(rng.uniform(size=len(array)) < chosen)
    curvatures = rng.uniform(0.0, 2.0, len(atoms))
    return gram_part(dictionary, atoms, curvatures), array[atoms] @ array[atoms].T + np.diag(curvatures)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("chosen", [0.0, 0.3, 1.0])
def test_a_part_of_the_gram_matrix_is_that_of_the_array(geometry, chosen):
    part, gram = part_of(random_dictionary(geometry), chosen)
    columns = np.zeros(gram.shape)
    for column, unit in zip(columns, np.eye(len(gram)), strict=True):
        sparse_gram.multiply(part, unit, column)
    # Sums of at most a few hundred products of numbers below a hundred.
    np.testing.assert_allclose(columns, gram, rtol=0, atol=1e-12)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("chosen", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("n_least", [0, 4, 1000])
def test_the_factor_solves_the_equations_of_the_array(geometry, chosen, n_least, monkeypatch):
    monkeypatch.setattr("solvers.gram.nested_dissection.LEAST_MEMBERS", n_least)
    part, gram = part_of(random_dictionary(geometry), chosen)
    diagonal = np.random.default_rng(3).uniform(1.0, 2.0, len(gram))
    aim = np.random.default_rng(4).standard_normal(len(gram))
    damped = gram + 0.5 * np.diag(diagonal)
    exact = np.linalg.solve(damped, aim)
    # Rounding times the condition, below 1e4.
    np.testing.assert_allclose(Factor(part, diagonal, 0.5).solve(aim), exact, rtol=0, atol=1e-11)


def test_a_matrix_that_is_not_positive_definite_is_refused():
    part, gram = part_of(random_dictionary(GEOMETRIES[0]), 0.3)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        Factor(part, np.ones(len(gram)), -1e3)


@pytest.mark.parametrize("grid_shape", [(1, 1), (1, 20), (13, 4), (16, 16)])
@pytest.mark.parametrize("reach", [(0, 0), (1, 1), (2, 0), (3, 2)])
def test_the_regions_of_a_grid(grid_shape, reach):
    """Each position is eliminated once, and all that it reaches is its own region, its border or earlier."""
    regions = divide(grid_shape, reach, 5)
    order = np.concatenate([region.own for region in regions])
    np.testing.assert_array_equal(np.sort(order), np.arange(grid_shape[0] * grid_shape[1]))
    region_of = np.empty(len(order), dtype=int)
    for number, region in enumerate(regions):
        region_of[region.own] = number
    for number, region in enumerate(regions):
        known = set(region.own) | set(region.border)
        assert all(region_of[region.border] > number)
        for position in region.own:
            row, column = divmod(position, grid_shape[1])
            for i in range(max(row - reach[0], 0), min(row + reach[0] + 1, grid_shape[0])):
                for j in range(max(column - reach[1], 0), min(column + reach[1] + 1, grid_shape[1])):
                    other = i * grid_shape[1] + j
                    assert region_of[other] < number or other in known


@pytest.mark.thorough
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("positive", [True, False])
def test_sweeps_are_coordinate_descent(geometry, positive):
    """Over all coefficients, then over those that are not zero, each twice at a position and in turn."""
    problem = random_problem(geometry, positive=positive)
    search = ActiveSetSearch(problem, problem.squared_norms, np.arange(0), np.zeros(0))
    array, penalty = problem.dictionary.toarray(), problem.l1_weights
    expected = np.zeros(problem.n_atoms)
    n_kernels = problem.dictionary.n_kernels

    def descend(over):
        for first in range(0, problem.n_atoms, n_kernels):
            for i in [*range(first, first + n_kernels)] * grid_descent.PASSES:
                if over == "all" or expected[i]:
                    left = problem.signals[0] - expected @ array
                    stepped = array[i] @ left + problem.squared_norms[i] * expected[i]
                    shrunk = max(stepped - penalty[i], 0.0)
                    shrunk += 0.0 if positive else min(stepped + penalty[i], 0.0)
                    expected[i] = shrunk / problem.squared_norms[i]

    drift = np.zeros(len(search.code))
    descend("all")
    n_changes = grid_descent.sweep_all(search._grid, search._terms, False, search.code, search.image, drift)
    np.testing.assert_allclose(search.code.ravel(), expected, rtol=0, atol=1e-11)
    assert n_changes >= np.count_nonzero(expected) > 1
    assert drift.any()
    descend("support")
    grid_descent.sweep_support(search._grid, search._terms, 0.0, False, search.code, search.image, drift)
    np.testing.assert_allclose(search.code.ravel(), expected, rtol=0, atol=1e-11)
    left = problem.signals[0] - search.code.ravel() @ array
    np.testing.assert_allclose(search.image.ravel(), left, rtol=0, atol=1e-11)
    before = search.code.copy()
    grid_descent.sweep_support(search._grid, search._terms, np.inf, False, search.code, search.image, drift)
    np.testing.assert_array_equal(search.code, before)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_drift_bounds_how_far_correlations_move(geometry):
    problem = random_problem(geometry, positive=False)
    search = ActiveSetSearch(problem, problem.squared_norms, np.arange(0), np.zeros(0))
    n_kernels = problem.dictionary.n_kernels
    norms = np.sqrt(problem.squared_norms).reshape(-1, n_kernels)
    before = problem.correlations.reshape(-1, n_kernels) / norms
    drift = np.zeros(len(search.code))
    grid_descent.sweep_all(search._grid, search._terms, False, search.code, search.image, drift)
    after = problem.correlate(search.image.reshape(1, -1)).reshape(-1, n_kernels) / norms
    # The first position was visited before anything had moved.
    assert np.abs(after - before)[0].max() <= drift[0] + np.abs(search.code[0]) @ norms[0] + 1e-12


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("positive", [True, False])
def test_it_is_the_code_of_the_array(geometry, positive):
    problem = random_problem(geometry, positive=positive, n_signals=3)
    results = [solve_spiking(each, polish=True) for each in (problem, dense_twin(problem))]
    require_exact(problem, results[0])
    np.testing.assert_array_equal(results[0].codes != 0.0, results[1].codes != 0.0)
    # The busiest neuron of the array's network may fire just when the run ends, or just after, by rounding.
    n_other = (results[0].spike_counts != results[1].spike_counts).sum(axis=1)
    assert n_other.max() <= 1
    assert (np.abs(results[0].n_corrections - results[1].n_corrections) <= n_other).all()
    # Rounding of the correlations times the condition of the equations, below 1e4 here.
    np.testing.assert_allclose(results[0].codes, results[1].codes, rtol=0, atol=1e-11)
    assert results[0].support_size.min() > 0


@pytest.mark.parametrize("positive", [True, False])
def test_a_photograph(positive):
    problem = photograph(52, positive=positive)
    result = solve_spiking(problem, polish=True)
    require_exact(problem, result)
    assert result.duality_gap[0] <= 1e-12 * problem.energies[0]
    assert result.support_size[0] > 100
    assert 0 < result.n_corrections[0] < 3 * result.support_size[0]
    assert result.rate_duality_gap[0] > 1e-3 * problem.energies[0]
    fista = solve_fista(problem, tol=1e-8)
    assert abs(fista.objective[0] - result.objective[0]) <= 1e-8 * problem.energies[0]


def test_a_weak_penalty():
    """Nearly as many atoms as pixels; steps must be taken back."""
    problem = photograph(28, penalty=0.005)
    result = solve_spiking(problem, polish=True)
    require_exact(problem, result)
    assert result.support_size[0] > 0.3 * problem.n_features


@pytest.mark.parametrize("start", ["nothing", "everything", "wrong signs", "a few", "spikes"])
@pytest.mark.parametrize("positive", [True, False])
def test_it_ends_from_any_start(start, positive):
    problem = random_problem(positive=positive)
    optimal = solve_coordinate_descent(dense_twin(problem), tol=1e-12)
    codes = np.zeros((1, problem.n_atoms))
    if start == "everything":
        codes[:] = 0.1
    elif start == "wrong signs":
        codes[:] = 0.1
        if not positive:
            codes[optimal.codes > 0.0] = -0.1
    elif start == "a few":
        codes[0, ::7] = 1.0
    given = {"nothing": None, "spikes": solve_spiking(problem, tol=0.1)}.get(start, codes)
    result = solve_active_set(problem, start=given)
    require_exact(problem, result)
    np.testing.assert_array_equal(result.codes != 0.0, optimal.codes != 0.0)
    # A gap of 1e-12 of the energy leaves the root of it in a code.
    np.testing.assert_allclose(result.codes, optimal.codes, rtol=0, atol=1e-4)
    assert result.n_steps[0] > 0
    if start in ("everything", "wrong signs", "a few"):
        shared = (codes * result.codes > 0.0).sum()
        expected = np.count_nonzero(codes) + np.count_nonzero(result.codes) - 2 * shared
        assert result.n_corrections[0] == expected
    # The code itself needs no correction.
    again = solve_active_set(problem, start=result)
    assert again.n_corrections[0] == 0
    np.testing.assert_allclose(again.codes, result.codes, rtol=0, atol=1e-11)


@pytest.mark.parametrize("code", ["everything", "wrong signs"])
@pytest.mark.parametrize("positive", [True, False])
def test_the_search_ends_from_codes_that_are_worse_than_nothing(code, positive):
    """`solve_active_set` would start from the best multiple of such a code, which is zero."""
    problem = random_problem(positive=positive)
    optimal = solve_coordinate_descent(dense_twin(problem), tol=1e-12).codes[0]
    start = np.full(problem.n_atoms, 0.1)
    if code == "wrong signs" and not positive:
        start[optimal > 0.0] = -0.1
    search = convolutional_active_set.ActiveSetSearch(
        problem, problem.squared_norms, np.arange(problem.n_atoms), start
    )
    assert search.run(convolutional_active_set.MOST_ROUNDS)
    support, values = search.support()
    np.testing.assert_array_equal(support, np.flatnonzero(optimal))
    np.testing.assert_allclose(values, optimal[support], rtol=0, atol=1e-4)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("difference", [0.0, 1e-12, 1e-8, 1e-6, 1e-4])
def test_duplicated_kernels(positive, difference):
    """The equations are singular, or nearly: the code is not unique, or hardly, its objective is."""
    single = random_problem(positive=positive)
    kernels = np.tile(single.dictionary.kernels, (2, 1, 1))
    kernels[5:] += difference * np.random.default_rng(5).standard_normal(kernels[5:].shape)
    dictionary = ConvolutionalDictionary(kernels, (13, 15), 2)
    problem = LassoProblem(dictionary, single.signals, single.l1_weights[0], positive=positive)
    result = solve_spiking(problem, polish=True, tol=1e-6)
    assert result.converged
    # Of differences whose squares are rounding beside one, a gap of their own size is left.
    if difference == 0.0 or difference**2 >= 1e-12:
        require_exact(problem, result)
    if difference == 0.0:
        alone = solve_spiking(single, polish=True)
        np.testing.assert_allclose(result.objective, alone.objective, rtol=1e-12)


def dependent_problem(seed, *, positive):
    """More kernels than pixels under them, of norms and penalties that differ a hundredfold."""
    rng = np.random.default_rng([20, seed])
    kernels = rng.standard_normal((int(rng.integers(3, 7)), 1, 2))
    kernels *= 10.0 ** rng.uniform(-1.0, 1.0, (len(kernels), 1, 1))
    dictionary = ConvolutionalDictionary(kernels, (5, 18), int(rng.choice([1, 2, 4])))
    signal = rng.standard_normal((1, dictionary.shape[1]))
    penalty = 10.0 ** rng.uniform(-3.0, 0.0) * penalty_max(dictionary, signal, positive=positive)
    penalty = penalty * 10.0 ** rng.uniform(-1.0, 1.0, dictionary.shape[0])
    return LassoProblem(dictionary, signal, penalty, positive=positive)


@pytest.mark.parametrize("positive", [True, False])
def test_more_kernels_than_pixels_under_them(positive):
    """Atoms depend on each other without being alike: the equations of too many have no solution.

    Some networks fire these so often that no multiple of their currents is better than nothing; what
    fired is right or wrong all the same.
    """
    for seed in range(60):
        problem = dependent_problem(seed, positive=positive)
        result, other = (solve_spiking(each, polish=True) for each in (problem, dense_twin(problem)))
        require_exact(problem, result)
        np.testing.assert_array_equal(result.codes != 0.0, other.codes != 0.0)
        np.testing.assert_array_equal(result.n_corrections, other.n_corrections)


@pytest.mark.parametrize(
    ("seed", "positive"),
    [(39, False), (102, False), (258, False), (83, True), (239, True)],
)
def test_steps_far_away_and_steps_that_lead_back_are_undone(seed, positive):
    """Targets 1e17 away, from which the residual has no digits left; and sweeps that return to the origin."""
    problem = dependent_problem(seed, positive=positive)
    rng = np.random.default_rng(0)
    random_start = rng.standard_normal((1, problem.n_atoms)) * (rng.random((1, problem.n_atoms)) < 0.3)
    for start in (None, np.abs(random_start), np.full((1, problem.n_atoms), 1.0)):
        require_exact(problem, solve_active_set(problem, start=start))


def test_duplicates_at_different_penalties():
    """The null direction lowers the penalty until the dearer atom is gone."""
    single = random_problem()
    dictionary = ConvolutionalDictionary(np.tile(single.dictionary.kernels, (2, 1, 1)), (13, 15), 2)
    penalty = np.tile(np.repeat([1.0, 1.001], 5), dictionary.n_positions) * single.l1_weights[0]
    problem = LassoProblem(dictionary, single.signals, penalty, positive=True)
    result = solve_spiking(problem, polish=True)
    require_exact(problem, result)
    by_kernel = result.codes.reshape(-1, 10)
    assert not by_kernel[:, 5:].any()
    assert by_kernel[:, :5].any()


def test_a_penalty_an_atom():
    problem = random_problem()
    penalty = problem.l1_weights * np.random.default_rng(6).uniform(0.5, 2.0, problem.n_atoms)
    problem = LassoProblem(problem.dictionary, problem.signals, penalty)
    result = solve_spiking(problem, polish=True)
    require_exact(problem, result)
    np.testing.assert_allclose(
        result.codes, solve_spiking(dense_twin(problem), polish=True).codes, rtol=0, atol=1e-11
    )


def test_images_of_no_code_and_of_nothing():
    dictionary = random_dictionary(GEOMETRIES[0])
    signals = np.random.default_rng(7).standard_normal((3, dictionary.shape[1]))
    signals[0] = 0.0
    penalty = 0.5 * (penalty_max(dictionary, signals)[1] + penalty_max(dictionary, 1e-3 * signals)[2])
    signals[2] *= 1e-3
    result = solve_spiking(LassoProblem(dictionary, signals, penalty), polish=True)
    assert result.converged
    assert result.support_size[0] == result.support_size[2] == 0 < result.support_size[1]
    assert result.n_corrections[0] == result.n_corrections[2] == 0


@pytest.mark.parametrize("positive", [True, False])
def test_bits_depend_neither_on_mates_nor_on_workers(positive, monkeypatch):
    problem = random_problem(positive=positive, n_signals=6)
    monkeypatch.setattr("solvers.workers.spread.VALUES_PER_BATCH", 2 * problem.n_atoms)
    results = [solve_spiking(problem, polish=True, n_jobs=n_jobs) for n_jobs in (1, 2)]
    np.testing.assert_array_equal(results[0].codes, results[1].codes)
    np.testing.assert_array_equal(results[0].n_corrections, results[1].n_corrections)
    for signal in range(problem.n_signals):
        alone = solve_spiking(problem.subset([signal]), polish=True)
        np.testing.assert_array_equal(alone.codes[0], results[0].codes[signal])


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_units_are_of_no_consequence(scale):
    problem = random_problem(positive=False)
    scaled = LassoProblem(problem.dictionary, scale * problem.signals, scale * problem.l1_weights)
    codes = [solve_spiking(each, polish=True).codes for each in (problem, scaled)]
    np.testing.assert_allclose(codes[1] / scale, codes[0], rtol=0, atol=1e-11)


def test_a_search_that_does_not_end_is_reported(monkeypatch):
    """Without any round the best code met is kept, with its own gap."""
    problem = random_problem(positive=False)
    monkeypatch.setattr(convolutional_active_set, "MOST_ROUNDS", 0)
    with pytest.warns(ConvergenceWarning, match="1 of 1 signals .* the precision of the active-set method"):
        result = solve_spiking(problem, polish=True, max_duration=5.0, tol=1e-6)
    assert not result.converged
    assert result.duality_gap[0] <= result.rate_duality_gap[0]
    assert result.objective[0] < problem.energies[0]
    with pytest.warns(ConvergenceWarning, match="active_set: 1 of 1 signals .* within its rounds"):
        assert not solve_active_set(problem).converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert solve_spiking(problem, polish=True, tol=1.0).converged


@pytest.mark.parametrize("decades", [6, 8])
@pytest.mark.parametrize("positive", [True, False])
def test_the_scale_of_a_kernel_does_not_matter(decades, positive):
    """Kernels and penalties times 10^U(-w, w) are the same problem, its codes divided by these factors."""
    rng = np.random.default_rng(decades)
    for geometry in GEOMETRIES[:5]:
        for share in (0.01, 0.2):
            plain = random_problem(geometry, positive=positive, share=share)
            dictionary = plain.dictionary
            factors = 10.0 ** rng.uniform(-decades, decades, dictionary.n_kernels)
            each = np.tile(factors, dictionary.n_positions)
            scaled = LassoProblem(
                ConvolutionalDictionary(
                    dictionary.kernels * factors[:, np.newaxis, np.newaxis],
                    dictionary.image_shape,
                    dictionary.stride,
                ),
                plain.signals,
                plain.l1_weights * each,
                positive=positive,
            )
            expected, result = solve_active_set(plain), solve_active_set(scaled)
            require_exact(plain, expected)
            assert result.converged
            np.testing.assert_array_equal(result.codes != 0.0, expected.codes != 0.0)
            size = np.abs(expected.codes).max()
            np.testing.assert_allclose(result.codes * each, expected.codes, rtol=0, atol=1e-10 * size)


@pytest.mark.parametrize("positive", [True, False])
def test_a_kernel_of_norm_zero_never_enters(positive):
    """The codes are those without it, also from a start that has it."""
    without = random_problem(positive=positive)
    dictionary = without.dictionary
    kernels = np.insert(dictionary.kernels, 2, 0.0, axis=0)
    longer = ConvolutionalDictionary(kernels, dictionary.image_shape, dictionary.stride)
    problem = LassoProblem(longer, without.signals, without.l1_weights[0], positive=positive)
    expected = solve_active_set(without).codes.reshape(-1, len(kernels) - 1)
    start = (np.random.default_rng(0).random((1, problem.n_atoms)) < 0.5).astype(float)
    for chosen in (None, start):
        codes = solve_active_set(problem, start=chosen).codes.reshape(-1, len(kernels))
        np.testing.assert_array_equal(codes[:, 2], 0.0)
        np.testing.assert_allclose(np.delete(codes, 2, axis=1), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", [7, 8, 13])
def test_a_support_that_empties_ends_the_search(seed):
    """What rounding leaves of the correlations of a signal without any is as large as its penalty."""
    rng = np.random.default_rng(seed)
    dictionary = ConvolutionalDictionary(rng.standard_normal((1, 1, 3)), (1, 4), 1)
    atoms = dictionary.toarray()
    signal = rng.standard_normal((1, 4))
    signal -= signal @ np.linalg.pinv(atoms) @ atoms
    problem = LassoProblem(dictionary, signal, 1e-20, positive=True)
    with pytest.warns(ConvergenceWarning, match="active_set: 1 of 1 signals") as caught:
        result = solve_active_set(problem)
    assert len(caught) == 1
    assert np.abs(result.codes).max() < 1e-15


def long_signal(*, stride=1, n_channels=1, positive=False, l2_penalty=0.0, share=0.05, copies=1, seed=0):
    """A long signal of smooth kernels of one dimension."""
    rng = np.random.default_rng(seed)
    kernels = np.cumsum(rng.standard_normal((3, 8, n_channels)), axis=1)
    kernels = np.tile(kernels / np.linalg.norm(kernels, axis=(1, 2), keepdims=True), (copies, 1, 1))
    dictionary = ConvolutionalDictionary(kernels, 8 + 200 * stride, stride)
    signal = np.cumsum(rng.standard_normal((1, dictionary.shape[1])), axis=1)
    signal -= signal.mean()
    penalty = share * penalty_max(dictionary, signal, positive=positive).min()
    if l2_penalty:
        penalty = ElasticNet(penalty, l2_penalty * penalty)
    return LassoProblem(dictionary, signal, penalty, positive=positive)


def windows(problem):
    """The windows of a problem, if it has any."""
    diagonal = problem.squared_norms + problem.curvatures
    return windows_of(problem, diagonal.reshape(-1, problem.dictionary.n_kernels))


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(
    ("stride", "n_channels", "l2_penalty"), [(1, 1, 0.0), (2, 1, 0.5), (1, 3, 0.0), (4, 2, 0.0)]
)
def test_long_signals_are_solved_by_windows(stride, n_channels, l2_penalty, positive):
    problem = long_signal(
        stride=stride, n_channels=n_channels, l2_penalty=l2_penalty, positive=positive, seed=stride
    )
    assert windows(problem) is not None
    result = solve_active_set(problem)
    require_exact(problem, result)
    rng = np.random.default_rng(1)
    start = rng.standard_normal((1, problem.n_atoms)) * (rng.random((1, problem.n_atoms)) < 0.1)
    again = solve_active_set(problem, start=np.abs(start) if positive else start)
    require_exact(problem, again)
    np.testing.assert_allclose(again.objective, result.objective, rtol=1e-12)


def test_a_window_is_solved_exactly_and_leaves_the_others():
    problem = long_signal()
    diagonal = (problem.squared_norms + problem.curvatures).reshape(-1, 3)
    search = ActiveSetSearch(problem, diagonal, np.empty(0, dtype=np.int64), np.empty(0))
    found = windows(problem)
    first, others = found.starts(0, len(search.code))
    assert found.solve(first, search.code, problem.correlations.reshape(-1, 3)) > 0
    inside = (first[:, np.newaxis] + np.arange(found.n_positions)).ravel()
    outside = (others[:, np.newaxis] + np.arange(found.n_positions)).ravel()
    assert search.code[inside].any()
    assert not search.code[outside].any()
    left = problem.signals - problem.reconstruct(search.code.reshape(1, -1))
    excess = np.abs(problem.correlate(left).reshape(-1, 3)) - problem.l1_weights.reshape(-1, 3)
    largest = np.abs(problem.correlations).max()
    assert excess[inside].max() <= ROUNDING * largest < excess[outside].max()


def test_where_windows_do_not_pay_there_are_none():
    problem = long_signal()
    weights = problem.l1_weights.copy()
    assert windows(LassoProblem(problem.dictionary, problem.signals, weights)) is not None
    weights[5] *= 2.0
    uneven = LassoProblem(problem.dictionary, problem.signals, weights)
    assert windows(uneven) is None
    require_exact(uneven, solve_active_set(uneven))
    short = ConvolutionalDictionary(problem.dictionary.kernels[:, 0], 50, 1)
    assert windows(LassoProblem(short, problem.signals[:, :50], 1.0)) is None
    with memory_limit(1e3):
        assert windows(LassoProblem(problem.dictionary, problem.signals, 1.0)) is None


def test_windows_of_kernels_that_depend_on_each_other():
    single, double = long_signal(positive=True), long_signal(positive=True, copies=2)
    expected, found = solve_active_set(single), solve_active_set(double)
    assert found.relative_gap.max() <= 1e-12
    np.testing.assert_allclose(found.objective, expected.objective, rtol=1e-11)

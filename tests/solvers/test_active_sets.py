"""The active-set method: starts, corrections, limits, dependent atoms, and images."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_sample_image
from sklearn.exceptions import ConvergenceWarning

from examples.convolutional_coding import normalised
from solvers import (
    METHODS,
    ConvolutionalDictionary,
    LassoProblem,
    Status,
    memory_limit,
    penalty_max,
    solve_active_set,
    solve_fista,
)
from solvers._kernels import active_set as kernel
from solvers.methods import ActiveSet
from tests.reference.convolutions import image_problem, long_signal
from tests.reference.costs import costs
from tests.reference.solved import problems_for
from tests.tiers import examples

# Dependent kernels are intended here.
pytestmark = pytest.mark.filterwarnings("ignore::solvers.IllPosedWarning")
SIGNS = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])
# Largest residual of solved equations: rounding errors of 1e-16 in sums of some hundred products.
ROUNDING = 1e-13
from_spikes = METHODS["active_set_from_spikes"]


@pytest.mark.property
@examples(40)
@given(
    this=problems_for(
        "active_set",
        dictionary=["random", "zero atoms", "sparse", "images", "one dimension"],
        signals=["noise", "mixture", "zero among them"],
        penalty=["number", "vector", "elastic net"],
        most=90,
    ),
    density=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_any_start_ends_at_the_optimum_and_counts_its_corrections(this, density):
    """Violations below 1e-13 of the largest correlation do not count; equations have rounding errors."""
    start = this.codes(density=density)
    with this.with_room():
        result = solve_active_set(this.problem(), start=start if density else None)
    room = 2e-11 * np.abs(result.problem.correlations).max(axis=1)
    assert (result.kkt_violation <= room).all()
    # The start of an atom is ignored if the atom is zero in all features that have a weight.
    begun = start * this.atoms[:, this.weights.any(axis=0)].any(axis=1)
    expected = [corrections(*pair) for pair in zip(result.codes, begun, strict=True)]
    np.testing.assert_array_equal(
        result.info["n_corrections"][this.energies > 0.0], np.array(expected)[this.energies > 0.0]
    )
    with this.with_room():
        again = solve_active_set(this.problem(), start=result)
    assert (again.info["n_corrections"] == 0).all()


def test_excesses_in_units_of_tiny_norms_may_overflow():
    """An overflow is no violation, and NumPy does not warn."""
    rng = np.random.default_rng(0)
    with memory_limit(1):
        problem = LassoProblem(1e-140 * rng.standard_normal((4, 3)), rng.standard_normal((1, 3)), 1e200)
        assert solve_active_set(problem).converged


def random_problem(n_atoms, n_features, *, share, positive=False, n_signals=1, correlation=0.0, seed=0):
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n_atoms, n_features))
    dictionary += np.sqrt(correlation / (1.0 - correlation)) * rng.standard_normal(n_features)
    signals = rng.standard_normal((n_signals, n_features))
    penalty = share * penalty_max(dictionary, signals, positive=positive).min()
    return LassoProblem(dictionary, signals, max(penalty, 1e-6), positive=positive)


def solve_quietly(problem, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve_active_set(problem, **arguments)


def corrections(code, start):
    """Return the number of atoms that entered or left; an atom that changed its sign did both."""
    entered = np.count_nonzero((code != 0.0) & (code * start <= 0.0))
    return entered + np.count_nonzero((start != 0.0) & (code * start <= 0.0))


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("share", [0.02, 0.2, 0.7])
@costs(working_set=7)
def test_a_single_signal_needs_no_gram_matrix(positive, share, monkeypatch):
    """The optimum equals the optimum of the full matrix; the working set outgrows its memory."""
    problem = random_problem(600, 60, share=share, positive=positive)
    given = LassoProblem(
        problem.dictionary, problem.signals, problem.l1_weights, positive=positive, gram=problem.gram
    )
    start = np.zeros((1, 600))
    start[0, ::40] = 1.0
    expected = solve_active_set(given, start=start)

    def refuse(self, *arguments):
        raise AssertionError("more of the Gram matrix was computed than is used")

    monkeypatch.setattr("solvers.problem.matrix.MatrixAtoms.gram_rows", refuse)
    alone = LassoProblem(problem.dictionary, problem.signals, problem.l1_weights, positive=positive)
    result = solve_active_set(alone, start=start)
    assert not alone.has_gram
    np.testing.assert_array_equal(result.codes != 0.0, expected.codes != 0.0)
    # With almost as many active atoms as features the condition of the equations is about 1e4.
    np.testing.assert_allclose(result.codes, expected.codes, rtol=0, atol=1e-11)
    assert result.info["n_corrections"][0] == corrections(result.codes[0], start[0])


@SIGNS
def test_a_single_signal_is_solved_and_certified_by_one_kernel(positive):
    problem = random_problem(40, 20, share=0.2, positive=positive)
    found = ActiveSet().solve_alone(problem, None, 1e-12)
    assert found is not None, "a batch would have to solve it again"
    together = solve_active_set(problem.with_signals(np.repeat(problem.signals, 2, axis=0)))
    np.testing.assert_array_equal(found.values.toarray()[0], together.codes[1])
    assert np.count_nonzero(together.codes[1]) > 2


def test_rounds_are_bounded_and_the_best_code_is_kept():
    """A code after a few rounds is feasible and better than zero; after one round it is the start or zero."""
    problem = random_problem(60, 40, share=0.01)
    with pytest.warns(ConvergenceWarning, match="active_set: 1 of 1 signals .* within its rounds"):
        result = solve_active_set(problem, max_rounds=3)
    assert result.n_steps[0] == 3
    assert result.status == [Status.AT_LIMIT]
    assert result.objective[0] < problem.energies[0]
    near = solve_fista(problem, tol=1e-3)
    result = solve_quietly(problem, start=near, max_rounds=1, tol=1e-12)
    assert (result.duality_gap <= near.duality_gap).all()
    assert (solve_quietly(problem, max_rounds=1, tol=1e-12).duality_gap <= problem.energies).all()


@costs(largest_batch=7, values_per_batch=7 * 120)
def test_company_batches_and_workers_change_no_bit():
    """Small and large supports alternate, in work arrays that grow."""
    problem = random_problem(120, 80, share=0.02, n_signals=40)
    weaker = problem.signals * np.where(np.arange(40) % 2, 0.03, 1.0)[:, np.newaxis]
    problem = LassoProblem(problem.dictionary, weaker, problem.l1_weights)
    start = solve_fista(problem, tol=1e-1)
    together = solve_active_set(problem, start=start, n_jobs=1)
    assert together.support_size.max() > kernel.LEAST_CAPACITY > together.support_size.min()
    spread = solve_active_set(problem, start=start, n_jobs=2)
    np.testing.assert_array_equal(spread.info["n_corrections"], together.info["n_corrections"])
    for name in ("codes", "duality_gap", "n_steps"):
        np.testing.assert_array_equal(getattr(spread, name), getattr(together, name))
    for signal in (0, 6, 39):
        alone = solve_active_set(problem.subset([signal]), start=start.codes[[signal]])
        np.testing.assert_array_equal(alone.codes[0], together.codes[signal])


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize("n_atoms", [2, 5, 17])
def test_tiny_signals_have_the_bits_of_one(n_atoms, penalty):
    """The working set may contain all atoms; without a penalty, gaps of signals are corrected together."""
    problem = random_problem(n_atoms, 20, share=0.1, positive=True, n_signals=300).with_penalty(penalty)
    together = solve_active_set(problem, tol=1e-10)
    assert together.reached.all()
    for signal in range(0, 300, 37):
        alone = solve_active_set(problem.subset([signal]), tol=1e-10)
        np.testing.assert_array_equal(alone.codes[0], together.codes[signal])
        np.testing.assert_array_equal(alone.duality_gap[0], together.duality_gap[signal])


@pytest.mark.parametrize("bytes_allowed", [1.0, 1e9])
@pytest.mark.parametrize(
    ("n_atoms", "n_features", "width", "share", "seed"),
    [(447, 8, 0.5, 1e-7, 47), (593, 6, 0.6, 2e-7, 147), (207, 32, 0.4, 2e-5, 58), (482, 53, 0.3, 5e-7, 124)],
)
def test_smooth_atoms_are_no_worse_than_a_few_steps(n_atoms, n_features, width, share, seed, bytes_allowed):
    """The equations on the first support mislead: without other steps, the method would end at zero."""
    rng = np.random.default_rng(seed)
    places = np.linspace(-1.0, 1.0, n_features)
    dictionary = np.exp(-((places - np.linspace(-1, 1, n_atoms)[:, np.newaxis]) ** 2) / (2.0 * width**2))
    signals = rng.standard_normal((5, n_features))
    with memory_limit(bytes_allowed):
        problem = LassoProblem(dictionary, signals, share * penalty_max(dictionary, signals).max())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = solve_active_set(problem)
        few_steps = solve_fista(problem, max_iter=10)
    is_good = result.relative_gap <= 1e-3
    assert (is_good | (result.objective <= few_steps.objective * (1.0 + 1e-9))).all()
    assert (is_good | (result.support_size > 0)).all()
    sizes = np.diff(result.sparse_codes.indptr)
    assert (result.info["n_corrections"][~is_good] == sizes[~is_good]).all()
    if bytes_allowed > 1.0:
        for k in range(5):
            np.testing.assert_array_equal(solve_quietly(problem.subset([k])).codes[0], result.codes[k])


# -- images ------------------------------------------------------------------------------------------


def photograph(side, *, n_kernels=48, penalty=0.4, positive=True, seed=0):
    """Return a crop of a photograph, with kernels that are patches of its other parts."""
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
        problem.dictionary.toarray(),
        problem.signals,
        problem.l1_weights,
        positive=problem.penalty.is_positive,
    )


def require_exact(problem, result):
    largest = np.abs(problem.correlations).max()
    assert result.converged
    assert result.kkt_violation.max() <= ROUNDING * largest
    # A gap is a sum over the support of codes times violations of the equations.
    sizes = np.abs(result.codes).sum(axis=1)
    assert (result.duality_gap <= ROUNDING * (largest * sizes + problem.energies)).all()


@pytest.mark.parametrize("positive", [True, False])
def test_a_photograph(positive):
    problem = photograph(52, positive=positive)
    result = from_spikes(problem)
    require_exact(problem, result)
    assert result.duality_gap[0] <= 1e-12 * problem.energies[0]
    assert result.support_size[0] > 100
    assert 0 < result.info["n_corrections"][0] < 3 * result.support_size[0]
    fista = solve_fista(problem, tol=1e-8)
    assert abs(fista.objective[0] - result.objective[0]) <= 1e-8 * problem.energies[0]


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("difference", [0.0, 1e-12, 1e-8, 1e-6, 1e-4])
def test_duplicated_kernels(positive, difference):
    """The equations are (nearly) singular: the code is (nearly) not unique, but its objective is."""
    single = image_problem(positive=positive)
    kernels = np.tile(single.dictionary.kernels, (2, 1, 1))
    kernels[5:] += difference * np.random.default_rng(5).standard_normal(kernels[5:].shape)
    dictionary = ConvolutionalDictionary(kernels, (13, 15), 2)
    problem = LassoProblem(dictionary, single.signals, single.l1_weights[0], positive=positive)
    result = from_spikes(problem, tol=1e-6)
    assert result.converged
    # If the square of `difference` is below rounding errors, a gap as large as `difference` remains.
    if difference == 0.0 or difference**2 >= 1e-12:
        require_exact(problem, result)
    if difference == 0.0:
        alone = from_spikes(single)
        np.testing.assert_allclose(result.objective, alone.objective, rtol=1e-12)


def dependent_problem(seed, *, positive):
    """Return a problem with more kernels than pixels; norms and penalties differ a hundredfold."""
    rng = np.random.default_rng([20, seed])
    kernels = rng.standard_normal((int(rng.integers(3, 7)), 1, 2))
    kernels *= 10.0 ** rng.uniform(-1.0, 1.0, (len(kernels), 1, 1))
    dictionary = ConvolutionalDictionary(kernels, (5, 18), int(rng.choice([1, 2, 4])))
    signal = rng.standard_normal((1, dictionary.shape[1]))
    penalty = 10.0 ** rng.uniform(-3.0, 0.0) * penalty_max(dictionary, signal, positive=positive)
    penalty = penalty * 10.0 ** rng.uniform(-1.0, 1.0, dictionary.shape[0])
    return LassoProblem(dictionary, signal, penalty, positive=positive)


CASES = [(seed, positive) for seed in range(10) for positive in (True, False)]
FAR_AWAY = [(39, False), (102, False), (258, False), (83, True), (239, True)]


@pytest.mark.parametrize(("seed", "positive"), CASES + FAR_AWAY)
def test_more_kernels_than_pixels_under_them(seed, positive):
    """Atoms depend on each other without being alike: if too many are active, their equations are singular.

    In the last cases, FAR_AWAY, the equations have solutions of size 1e17, at which the residual has no
    correct digit, and sweeps return to the origin.
    """
    problem = dependent_problem(seed, positive=positive)
    rng = np.random.default_rng(0)
    random_start = rng.standard_normal((1, problem.n_atoms)) * (rng.random((1, problem.n_atoms)) < 0.3)
    for start in (None, np.abs(random_start), np.full((1, problem.n_atoms), 1.0)):
        require_exact(problem, solve_active_set(problem, start=start))
    if (seed, positive) in CASES:
        result, other = (from_spikes(each) for each in (problem, dense_twin(problem)))
        require_exact(problem, result)
        np.testing.assert_array_equal(result.codes != 0.0, other.codes != 0.0)
        np.testing.assert_array_equal(result.info["n_corrections"], other.info["n_corrections"])


def test_a_search_that_does_not_end_is_reported():
    """After one round the result is the best code so far, with its true gap."""
    problem = dependent_problem(5, positive=False)
    with pytest.warns(ConvergenceWarning, match="active_set: 1 of 1 signals .* within its rounds"):
        result = solve_active_set(problem, max_rounds=1)
    assert not result.converged
    assert result.objective[0] < problem.energies[0]
    assert from_spikes(problem, tol=1.0).converged


@pytest.mark.parametrize("seed", [7, 8, 13])
def test_a_support_that_empties_ends_the_search(seed):
    """Rounding errors of correlations that should be zero are as large as the penalty."""
    rng = np.random.default_rng(seed)
    dictionary = ConvolutionalDictionary(rng.standard_normal((1, 1, 3)), (1, 4), 1)
    atoms = dictionary.toarray()
    signal = rng.standard_normal((1, 4))
    signal -= signal @ np.linalg.pinv(atoms) @ atoms
    problem = LassoProblem(dictionary, signal, 1e-20, positive=True)
    with pytest.warns(ConvergenceWarning, match="active_set: 1 of 1 signals") as caught:
        result = solve_active_set(problem)
    assert sum(issubclass(one.category, ConvergenceWarning) for one in caught) == 1
    assert np.abs(result.codes).max() < 1e-15
    with pytest.warns(ConvergenceWarning, match="1 of 1 signals .* within max_duration=5"):
        assert not replace(from_spikes, max_duration=5.0)(problem, tol=1e-6).converged


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(
    ("stride", "n_channels", "l2_penalty"), [(1, 1, 0.0), (2, 1, 0.5), (1, 3, 0.0), (4, 2, 0.0)]
)
def test_long_signals_are_solved_by_windows(stride, n_channels, l2_penalty, positive):
    problem = long_signal(
        stride=stride, n_channels=n_channels, l2_penalty=l2_penalty, positive=positive, seed=stride
    )
    result = solve_active_set(problem)
    require_exact(problem, result)
    rng = np.random.default_rng(1)
    start = rng.standard_normal((1, problem.n_atoms)) * (rng.random((1, problem.n_atoms)) < 0.1)
    again = solve_active_set(problem, start=np.abs(start) if positive else start)
    require_exact(problem, again)
    np.testing.assert_allclose(again.objective, result.objective, rtol=1e-12)


def test_windows_of_kernels_that_depend_on_each_other():
    single, double = long_signal(positive=True), long_signal(positive=True, copies=2)
    expected, found = solve_active_set(single), solve_active_set(double)
    assert found.relative_gap.max() <= 1e-12
    np.testing.assert_allclose(found.objective, expected.objective, rtol=1e-11)

"""The active-set method: the optimum from any start, with the rows of the Gram matrix that it needs."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from snn import simulate
from solvers import (
    ElasticNet,
    LassoProblem,
    Status,
    lasso_network,
    memory_limit,
    solve_active_set,
    solve_fista,
)
from solvers._kernels import active_set as kernel
from solvers.certificate.optimality import penalty_max
from tests.reference.convolutions import random_dictionary
from tests.reference.problems import require_certified


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


def some_starts(n_atoms, *, positive, seed=3):
    rng = np.random.default_rng(seed)
    rows = [np.zeros(n_atoms), np.ones(n_atoms), -np.ones(n_atoms)]
    rows += [rng.standard_normal(n_atoms) * (rng.random(n_atoms) < share) for share in (0.1, 0.5, 1.0) * 5]
    return np.maximum(rows, 0.0) if positive else np.array(rows)


def corrections(code, start):
    """Atoms that entered or left, by hand; an atom that changed its sign did both."""
    entered = np.count_nonzero((code != 0.0) & (code * start <= 0.0))
    return entered + np.count_nonzero((start != 0.0) & (code * start <= 0.0))


# -- starts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.5])
def test_any_start_leads_to_the_optimum(positive, share):
    problem = random_problem(50, 30, share=share, positive=positive)
    starts = some_starts(50, positive=positive)
    same = LassoProblem(
        problem.dictionary, np.repeat(problem.signals, len(starts), 0), problem.l1_weights, positive=positive
    )
    result = solve_active_set(same, start=starts)
    assert result.converged
    scale = np.abs(problem.correlations).max()
    assert (result.kkt_violation <= 1e-13 * scale).all()
    for code, start, n_corrections in zip(result.codes, starts, result.n_corrections, strict=True):
        np.testing.assert_allclose(code, result.codes[0], rtol=0, atol=1e-12 * np.abs(result.codes[0]).max())
        assert n_corrections == corrections(code, start)


@pytest.mark.filterwarnings("ignore:all codes are zero")
@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_atoms=st.integers(1, 90),
    n_features=st.integers(1, 60),
    share=st.sampled_from([1e-3, 0.03, 0.3, 0.9]),
    correlation=st.sampled_from([0.0, 0.9]),
    positive=st.booleans(),
)
def test_ends_at_the_optimum(seed, n_atoms, n_features, share, correlation, positive):
    problem = random_problem(
        n_atoms, n_features, share=share, correlation=correlation, positive=positive, n_signals=3, seed=seed
    )
    rng = np.random.default_rng(seed)
    start = rng.standard_normal((3, n_atoms)) * (rng.random((3, n_atoms)) < 0.3)
    result = solve_active_set(problem, start=np.maximum(start, 0.0) if positive else start)
    # Violations count from 1e-13 of the largest correlation; the equations are solved to their condition,
    # at most 1e5 here, times 2e-16.
    assert (result.kkt_violation <= 2e-11 * np.abs(problem.correlations).max(axis=1)).all()


def test_arrays_compressed_rows_and_results_are_the_same_start():
    problem = random_problem(60, 40, share=0.1, n_signals=4)
    near = solve_fista(problem, tol=1e-2)
    results = [
        solve_active_set(problem, start=start)
        for start in (near, near.codes, near.codes.tolist(), sparse.csr_array(near.codes), near.sparse_codes)
    ]
    for result in results:
        np.testing.assert_array_equal(result.codes, results[0].codes)
        np.testing.assert_array_equal(result.n_corrections, results[0].n_corrections)
    for code, start, n_corrections in zip(
        near.codes, results[0].codes, results[0].n_corrections, strict=True
    ):
        assert n_corrections == corrections(code, start)
    # Entries in any order, twice, and stored zeros are one start too.
    untidy = sparse.csr_array(
        (np.array([2.0, -1.0, 0.0, 0.5]), np.array([7, 3, 9, 7]), np.array([0, 4, 4, 4, 4])), (4, 60)
    )
    before = untidy.copy()
    tidy = solve_active_set(problem, start=untidy.toarray())
    np.testing.assert_array_equal(solve_active_set(problem, start=untidy).codes, tidy.codes)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(untidy, name), getattr(before, name))
        assert getattr(untidy, name).flags.writeable


def test_the_solution_needs_no_correction():
    problem = random_problem(80, 50, share=0.05, n_signals=5)
    result = solve_active_set(problem)
    np.testing.assert_array_equal(result.n_corrections, result.support_size)
    again = solve_active_set(problem, start=result)
    assert (again.n_corrections == 0).all()
    # One round solves the equations of the support, another after each time that atoms join the working set.
    assert (again.n_steps < result.n_steps).all()
    np.testing.assert_allclose(again.codes, result.codes, rtol=0, atol=1e-13)


def test_no_network_is_made_unless_the_start_is_one(monkeypatch):
    problem = random_problem(700, 40, share=0.1)

    def refuse(*arguments, **options):
        raise AssertionError("a network was made")

    monkeypatch.setattr("snn.run.exact.ExactRun.__init__", refuse)
    monkeypatch.setattr("solvers.spiking.network.LassoNetwork.__init__", refuse)
    assert solve_active_set(problem).converged
    assert solve_active_set(problem, start=solve_fista(problem)).converged


def test_result_says_what_was_done():
    problem = random_problem(60, 40, share=0.1, n_signals=4)
    result = solve_active_set(problem, tol=1e-9)
    assert result.method == "active_set"
    assert result.tol == 1e-9
    assert (result.status == Status.CONVERGED).all()
    assert (result.n_steps > 0).all()
    require_certified(problem, result)
    for array in (result.codes, result.n_corrections, result.n_steps):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


# -- rows on demand, batches, limits --------------------------------------------------------------


def test_many_signals_share_work_arrays_that_grow():
    """Small and large supports in turn: what is left of one signal does not affect the next."""
    problem = random_problem(120, 80, share=0.02, n_signals=6)
    weaker = problem.signals * np.where(np.arange(6) % 2, 0.03, 1.0)[:, np.newaxis]
    problem = LassoProblem(problem.dictionary, weaker, problem.l1_weights)
    together = solve_active_set(problem)
    assert together.support_size.max() > kernel.LEAST_CAPACITY > together.support_size.min()
    for signal in range(6):
        alone = solve_active_set(problem.subset([signal]))
        np.testing.assert_array_equal(alone.codes[0], together.codes[signal])
        assert alone.n_steps[0] == together.n_steps[signal]


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("share", [0.02, 0.2, 0.7])
@pytest.mark.parametrize("guessed", [False, True])
def test_a_single_signal_needs_no_gram_matrix(positive, share, guessed, monkeypatch):
    """The optimum is that of the full matrix."""
    problem = random_problem(600, 60, share=share, positive=positive)
    given = LassoProblem(
        problem.dictionary, problem.signals, problem.l1_weights, positive=positive, gram=problem.gram
    )
    start = None
    if guessed:
        start = np.zeros((1, 600))
        start[0, ::40] = 1.0
    expected = solve_active_set(given, start=start)

    def refuse(self, *arguments):
        raise AssertionError("more of the Gram matrix was computed than is used")

    monkeypatch.setattr("solvers.problem.dense_dictionary.DenseDictionary.gram", refuse)
    monkeypatch.setattr("solvers.problem.dense_dictionary.DenseDictionary.gram_rows", refuse)
    alone = LassoProblem(problem.dictionary, problem.signals, problem.l1_weights, positive=positive)
    result = solve_active_set(alone, start=start)
    assert not alone.has_gram
    np.testing.assert_array_equal(result.codes != 0.0, expected.codes != 0.0)
    # With almost as many active atoms as features the equations have a condition of some 1e4.
    np.testing.assert_allclose(result.codes, expected.codes, rtol=0, atol=1e-11)
    started = np.zeros(600) if start is None else start[0]
    assert result.n_corrections[0] == corrections(result.codes[0], started)


def test_rounds_are_bounded():
    problem = random_problem(60, 40, share=0.01)
    with pytest.warns(ConvergenceWarning, match="active_set: 1 of 1 signals .* within its rounds"):
        result = solve_active_set(problem, max_rounds=3)
    assert result.n_steps[0] == 3
    assert not result.converged
    # What it has is a point on the way: feasible, and better than nothing.
    assert result.objective[0] < problem.energies[0]


def test_of_codes_that_miss_tol_the_best_is_kept():
    """With a single round: the start, where that is better, or zero."""
    problem = random_problem(60, 40, share=0.01, n_signals=3)
    near = solve_fista(problem, tol=1e-3)
    result = solve_quietly(problem, start=near, max_rounds=1, tol=1e-12)
    assert (result.duality_gap <= near.duality_gap).all()
    assert (solve_quietly(problem, max_rounds=1, tol=1e-12).duality_gap <= problem.energies).all()


def test_neither_batches_nor_workers_change_a_bit(monkeypatch):
    monkeypatch.setattr("solvers.workers.spread.LARGEST_BATCH", 7)
    problem = random_problem(64, 32, share=0.1, n_signals=40)
    start = solve_fista(problem, tol=1e-1)
    together = solve_active_set(problem, start=start, n_jobs=1)
    spread = solve_active_set(problem, start=start, n_jobs=2)
    for name in ("codes", "duality_gap", "n_steps", "n_corrections"):
        np.testing.assert_array_equal(getattr(spread, name), getattr(together, name))
    for signal in (0, 6, 39):
        alone = solve_active_set(problem.subset([signal]), start=start.codes[[signal]])
        np.testing.assert_array_equal(alone.codes[0], together.codes[signal])


def test_progress_is_shown_on_request(capsys):
    problem = random_problem(20, 10, share=0.1)
    solve_active_set(problem)
    assert capsys.readouterr().err == ""
    solve_active_set(problem, progress=True)
    assert "active set" in capsys.readouterr().err


# -- units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("decades", [6, 7, 8])
@pytest.mark.parametrize("positive", [True, False])
def test_the_scale_of_an_atom_does_not_matter(decades, positive):
    """Atoms and penalties times 10^U(-w, w) are the same problem, its codes divided by these factors."""
    rng = np.random.default_rng(decades)
    for share in np.geomspace(1e-3, 0.8, 20):
        n_features = int(rng.integers(5, 40))
        plain = random_problem(
            2 * n_features, n_features, share=share, positive=positive, seed=rng.integers(2**31)
        )
        factors = 10.0 ** rng.uniform(-decades, decades, plain.n_atoms)
        scaled = LassoProblem(
            plain.dictionary * factors[:, np.newaxis],
            plain.signals,
            plain.l1_weights * factors,
            positive=positive,
        )
        start = (rng.random((1, plain.n_atoms)) < 0.3) / factors
        expected = solve_active_set(plain)
        for result in (solve_active_set(scaled), solve_active_set(scaled, start=start)):
            assert result.converged
            np.testing.assert_array_equal(result.codes != 0.0, expected.codes != 0.0)
            size = np.abs(expected.codes).max()
            np.testing.assert_allclose(result.codes * factors, expected.codes, rtol=0, atol=1e-11 * size)


# -- dependent atoms -----------------------------------------------------------------------------


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.7])
def test_duplicated_and_dependent_atoms(positive, share):
    rng = np.random.default_rng(2)
    atoms = rng.standard_normal((8, 6))
    dictionary = np.vstack([atoms, atoms, -atoms, 2.0 * atoms, atoms[:4] + atoms[4:]])
    signals = rng.standard_normal((20, 6))
    penalty = share * penalty_max(dictionary, signals, positive=positive).min()
    problem = LassoProblem(dictionary, signals, penalty, positive=positive)
    for start in (None, np.ones((20, len(dictionary)))):
        result = solve_active_set(problem, start=start, tol=1e-11)
        assert result.converged
        # The active atoms of each code are independent of each other.
        assert (result.support_size <= 6).all()


# -- curvatures: an elastic net is a LASSO with more on the diagonal of the Gram matrix ------------


def curved_problem(dictionary, signals, l1, *, positive):
    """A LASSO plus 1/2 sum_i curvature_i a_i^2."""
    penalty = ElasticNet(l1, np.linspace(0.1, 2.0, dictionary.shape[0]))
    return LassoProblem(dictionary, signals, penalty, positive=positive)


def stationarity(problem, codes, curvatures):
    """The largest violation of the optimality conditions, by hand."""
    slopes = (problem.signals - codes @ problem.dictionary) @ problem.dictionary.T - codes * curvatures
    at_zero = np.maximum((slopes if problem.positive else np.abs(slopes)) - problem.l1_weights, 0.0)
    return np.where(codes == 0.0, at_zero, np.abs(slopes - np.sign(codes) * problem.l1_weights)).max()


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("n_atoms", [50, 600])
def test_curvatures_are_those_of_a_longer_dictionary(n_atoms, positive):
    """[D, diag sqrt(c)] with [s, 0] has the Gram matrix G + diag c, and the same correlations."""
    plain = random_problem(n_atoms, 30, share=0.1, positive=positive)
    curved = curved_problem(plain.dictionary, plain.signals, plain.l1_weights, positive=positive)
    longer = LassoProblem(
        np.hstack([plain.dictionary, np.diag(np.sqrt(curved.curvatures))]),
        np.hstack([plain.signals, np.zeros((1, n_atoms))]),
        plain.l1_weights,
        positive=positive,
    )
    expected = solve_active_set(longer, tol=1e-12).codes
    for start in (None, np.ones((1, n_atoms))):
        result = solve_active_set(curved, start=start, tol=1e-12)
        assert result.converged
        np.testing.assert_allclose(result.codes, expected, rtol=0, atol=1e-12)
    scale = np.abs(plain.correlations).max()
    assert stationarity(curved, result.codes, curved.curvatures) <= 1e-13 * scale
    assert np.abs(expected - solve_active_set(plain).codes).max() > 1e-2 * np.abs(expected).max()


@pytest.mark.parametrize("positive", [True, False])
def test_the_network_has_the_curvatures_in_its_thresholds(positive):
    plain = random_problem(40, 20, share=0.2, positive=positive)
    curved = curved_problem(plain.dictionary, plain.signals, plain.l1_weights, positive=positive)
    network, other = lasso_network(curved), lasso_network(plain)
    signs = 1 if positive else 2
    np.testing.assert_array_equal(
        network.firing_threshold, np.tile(plain.squared_norms + curved.curvatures, signs)
    )
    np.testing.assert_array_equal(network.weights.toarray(), other.weights.toarray())
    # Equation 9 of docs/theory.md: t (b - lambda - (G + diag c) a) = v + h from rest.
    duration = 73.0
    run = simulate(network, duration)
    rates = run.spike_rate
    code = rates if positive else rates[:40] - rates[40:]
    slopes = plain.dictionary @ (plain.signals[0] - code @ plain.dictionary)
    slack = slopes if positive else np.concatenate([slopes, -slopes])
    slack = slack - np.tile(plain.l1_weights, signs) - np.tile(curved.curvatures, signs) * rates
    # Potentials of silent neurons are of the order of 1000, so 1e-10 is a thousand ulps.
    np.testing.assert_allclose(
        duration * slack, run.state.membrane_potential + run.state.synaptic_current, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("bytes_allowed", [1.0, 1e9])
@pytest.mark.parametrize(
    ("n_atoms", "n_features", "width", "share", "seed"),
    [(447, 8, 0.5, 1e-7, 47), (593, 6, 0.6, 2e-7, 147), (207, 32, 0.4, 2e-5, 58), (482, 53, 0.3, 5e-7, 124)],
)
def test_smooth_atoms_are_no_worse_than_a_few_steps(n_atoms, n_features, width, share, seed, bytes_allowed):
    """Their equations lead astray from the first support, and to the zero code if nothing else is tried."""
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
    assert (result.n_corrections[~is_good] == sizes[~is_good]).all()
    if bytes_allowed > 1.0:
        for k in range(5):
            np.testing.assert_array_equal(solve_quietly(problem.subset([k])).codes[0], result.codes[k])


@pytest.mark.parametrize("positive", [True, False])
def test_curvatures_of_a_convolutional_dictionary(positive):
    dictionary = random_dictionary()
    signals = np.random.default_rng(1).standard_normal((1, dictionary.shape[1]))
    penalty = 0.2 * penalty_max(dictionary, signals, positive=positive)[0]
    curved = curved_problem(dictionary, signals, penalty, positive=positive)
    dense = curved_problem(dictionary.toarray(), signals, penalty, positive=positive)
    expected = solve_active_set(dense, tol=1e-12)
    result = solve_active_set(curved, tol=1e-12)
    assert expected.converged
    assert result.converged
    np.testing.assert_array_equal(result.codes != 0.0, expected.codes != 0.0)
    np.testing.assert_allclose(result.codes, expected.codes, rtol=0, atol=1e-12)

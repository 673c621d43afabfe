"""The active-set method for one signal without a Gram matrix: its working set, and what it reads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import ElasticNet, LassoProblem, solve_active_set
from solvers._kernels.active_set import ENDED, N_CORRECTIONS, N_REPORTED, solve_active_sets
from solvers._kernels.batch import CompressedRows
from solvers.certificate.optimality import measure, penalty_max
from solvers.gram import working_set
from solvers.gram.working_set import WorkingSetSearch
from solvers.problem.norms import inverse_norms

NOTHING = np.empty(0, dtype=np.int64), np.empty(0)


def wide_problem(n_atoms, n_features, *, share, positive=False, rho=0.0, curvature=0.0, seed=0):
    """Atoms that correlate with the one before."""
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n_atoms, n_features))
    for j in range(1, n_atoms):
        dictionary[j] = rho * dictionary[j - 1] + np.sqrt(1.0 - rho**2) * dictionary[j]
    signals = rng.standard_normal((1, n_features))
    penalty = max(share * penalty_max(dictionary, signals, positive=positive)[0], 1e-6)
    if curvature:
        penalty = ElasticNet(penalty, curvature)
    return LassoProblem(dictionary, signals, penalty, positive=positive)


def code_of(search):
    code = np.zeros((1, search.problem.n_atoms))
    atoms, values = search.support()
    code[0, atoms] = values
    return code


def solved(problem, atoms=NOTHING[0], currents=NOTHING[1]):
    search = WorkingSetSearch(problem, atoms, currents)
    assert search.run(100 * problem.n_atoms)
    return search


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_atoms=st.integers(1, 300),
    n_features=st.integers(1, 40),
    share=st.sampled_from([1e-3, 0.03, 0.3, 0.9]),
    rho=st.sampled_from([0.0, 0.5, 0.95]),
    curvature=st.sampled_from([0.0, 0.5]),
    positive=st.booleans(),
    started=st.booleans(),
)
def test_ends_at_the_optimum(seed, n_atoms, n_features, share, rho, curvature, positive, started):
    problem = wide_problem(
        n_atoms, n_features, share=share, positive=positive, rho=rho, curvature=curvature, seed=seed
    )
    start = NOTHING
    if started:
        rng = np.random.default_rng(seed)
        atoms = np.flatnonzero(rng.random(n_atoms) < 0.3)
        currents = rng.standard_normal(len(atoms))
        start = atoms, np.abs(currents) if positive else currents
    search = solved(problem, *start)
    # Violations count from 1e-13 of the largest correlation; the equations are solved to their condition,
    # some 1e5 where the atoms are almost as many as the features, times 2e-16.
    violation = measure(problem, code_of(search)).kkt_violation[0]
    assert violation <= 1e-10 * np.abs(problem.correlations).max()
    assert len(search.support()[0]) <= search.n_members <= n_atoms


@pytest.mark.parametrize("capacity", [1, 7, 90])
def test_memory_that_has_to_grow_changes_nothing(capacity, monkeypatch):
    problem = wide_problem(400, 60, share=0.01, rho=0.5)
    expected = code_of(solved(problem))
    assert np.count_nonzero(expected) > 30
    monkeypatch.setattr(working_set, "CAPACITY", capacity)
    np.testing.assert_allclose(code_of(solved(problem)), expected, rtol=0, atol=1e-12)


def test_what_is_read():
    """Atoms join by the dozen, and few are read when the code has changed little."""
    problem = wide_problem(3000, 50, share=0.1, rho=0.5)
    search = solved(problem)
    atoms, values = search.support()
    assert search.n_members < 300
    assert 0.0 < search.n_readings < 5.0
    again = solved(problem, atoms, values)
    assert again.n_readings <= 1.0
    assert again.n_members == len(atoms)
    np.testing.assert_allclose(code_of(again), code_of(search), rtol=0, atol=1e-12)


def test_violators_that_the_bound_leaves_out_do_not_exist(monkeypatch):
    """Whatever is known, of each residual the violators are those that all atoms give."""
    asked = WorkingSetSearch._worst
    seen = []

    def compared(self, atoms, correlations):
        chosen = asked(self, atoms, correlations)
        if self.n_rounds:
            residual = self.problem.signals - code_of(self) @ self.problem.dictionary
            reach = np.abs(self.problem.dictionary @ residual[0])
            violators = np.flatnonzero(reach > (1.0 + 1e-9) * self.problem.l1_weights)
            assert set(violators) <= set(atoms) | set(self._work.atoms[: self.n_members])
            seen.append(len(atoms) / self.problem.n_atoms)
        return chosen

    monkeypatch.setattr(WorkingSetSearch, "_worst", compared)
    for rho in (0.0, 0.9):
        solved(wide_problem(2000, 60, share=0.02, rho=rho))
    assert min(seen) < 0.2


@pytest.mark.parametrize("positive", [True, False])
def test_the_scale_of_an_atom_does_not_matter(positive):
    plain = wide_problem(700, 30, share=0.05, positive=positive)
    factors = 10.0 ** np.random.default_rng(1).uniform(-8, 8, 700)
    scaled = LassoProblem(
        plain.dictionary * factors[:, np.newaxis],
        plain.signals,
        plain.l1_weights * factors,
        positive=positive,
    )
    expected, result = solve_active_set(plain), solve_active_set(scaled)
    assert not scaled.has_gram
    assert result.converged
    size = np.abs(expected.codes).max()
    np.testing.assert_allclose(result.codes * factors, expected.codes, rtol=0, atol=1e-11 * size)


def test_duplicated_atoms():
    atoms = np.random.default_rng(0).standard_normal((200, 12))
    dictionary = np.vstack([atoms, -atoms, 2.0 * atoms])
    signals = np.random.default_rng(1).standard_normal((1, 12))
    for share in (0.5, 0.01):
        problem = LassoProblem(dictionary, signals, share * penalty_max(dictionary, signals)[0])
        result = solve_active_set(problem, tol=1e-11)
        assert result.converged
        assert result.support_size[0] <= 12


def test_few_signals_are_solved_one_by_one():
    """Each has the bits that it has alone, with any number of workers; many take the Gram matrix."""
    plain = wide_problem(600, 30, share=0.1)
    signals = np.random.default_rng(1).standard_normal((7, 30))
    few = LassoProblem(plain.dictionary, signals[:6], plain.l1_weights)
    start = np.zeros((6, 600))
    start[::2, ::50] = 1.0
    for chosen in (None, start):
        result = solve_active_set(few, start=chosen)
        assert result.converged
        np.testing.assert_array_equal(solve_active_set(few, start=chosen, n_jobs=2).codes, result.codes)
        for signal in (0, 5):
            alone = solve_active_set(few.subset([signal]), start=None if chosen is None else chosen[[signal]])
            np.testing.assert_array_equal(alone.codes[0], result.codes[signal])
            assert alone.n_corrections[0] == result.n_corrections[signal]
    assert not few.has_gram
    many = LassoProblem(plain.dictionary, signals, plain.l1_weights)
    expected = solve_active_set(many)
    assert many.has_gram
    np.testing.assert_allclose(expected.codes[:6], result.codes, rtol=0, atol=1e-12)


@pytest.mark.parametrize("signal", [0.0, 1e-3])
def test_a_signal_whose_code_is_zero(signal):
    problem = wide_problem(600, 30, share=0.1)
    silent = LassoProblem(problem.dictionary, signal * problem.signals, problem.l1_weights)
    for start in (None, np.ones((1, 600))):
        result = solve_active_set(silent, start=start)
        assert result.converged
        assert result.support_size[0] == 0


def test_rounds_are_bounded():
    problem = wide_problem(600, 30, share=0.01)
    with pytest.warns(UserWarning, match="active_set: 1 of 1 signals .* within its rounds"):
        result = solve_active_set(problem, max_rounds=3)
    assert result.n_steps[0] == 3
    assert result.objective[0] < problem.energies[0]


# -- atoms of norm zero, which kernels are given by dictionaries that were learned --------------------


@pytest.fixture
def with_zeros():
    """A problem of 40 atoms, every fourth of them zero, and the problem without these."""
    dictionary = np.random.default_rng(0).standard_normal((40, 20))
    dictionary[::4] = 0.0
    signals = np.random.default_rng(1).standard_normal((1, 20))
    penalty = 0.05 * penalty_max(dictionary, signals)[0]
    others = np.arange(40) % 4 != 0
    return (
        LassoProblem(dictionary, signals, penalty),
        LassoProblem(dictionary[others], signals, penalty),
        others,
    )


@pytest.mark.parametrize("started", [True, False])
def test_an_atom_of_norm_zero_never_enters(with_zeros, started):
    problem, without, others = with_zeros
    expected = solve_active_set(without).codes[0]
    atoms = np.arange(0, 40, 2 if started else 41)
    currents = np.linspace(2.0, 1.0, len(atoms))
    if not started:
        atoms, currents = NOTHING
    code = code_of(solved(problem, atoms, currents))[0]
    np.testing.assert_allclose(code[others], expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(code[~others], 0.0)

    codes, report = np.zeros((1, 40)), np.zeros((1, N_REPORTED), dtype=np.int64)
    pointers = np.array([0, len(atoms)], dtype=np.int32)
    solve_active_sets(
        problem.gram, problem.correlations, problem.l1_weights, problem.curvatures,
        inverse_norms(problem.squared_norms), False, np.zeros(1, np.int64),
        CompressedRows(pointers, atoms.astype(np.int32), currents), 1000, codes, report,
    )  # fmt: skip
    assert report[0, ENDED]
    np.testing.assert_allclose(codes[0, others], expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(codes[0, ~others], 0.0)
    kept = np.count_nonzero(codes[0, atoms] * currents > 0.0)
    assert report[0, N_CORRECTIONS] == len(atoms) + np.count_nonzero(codes) - 2 * kept

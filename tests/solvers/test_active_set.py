"""The exact finish: the optimum from any guess, with the rows of the Gram matrix that it has."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import LassoProblem
from solvers._kernels import finish
from solvers._kernels.factor import enter, join, leave, new_work
from solvers.optimality import judge, penalty_max


def random_problem(n_atoms, n_features, *, share, positive=False, n_signals=1, correlation=0.0, seed=0):
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n_atoms, n_features))
    dictionary += np.sqrt(correlation / (1.0 - correlation)) * rng.standard_normal(n_features)
    signals = rng.standard_normal((n_signals, n_features))
    penalty = share * penalty_max(dictionary, signals, positive=positive).min()
    return LassoProblem(dictionary, signals, max(penalty, 1e-6), positive=positive)


def finished(problem, guess, *, rows=None, row_of=None, max_rounds=None):
    """Return (codes, corrections, whether each ended, atoms whose rows are wanted) from dense guesses."""
    # A network that fired, and whose average currents are the guess.
    threshold = np.ones(problem.n_atoms * (1 if problem.positive else 2))
    charges = guess if problem.positive else np.hstack([guess, -guess])
    spike_counts = (charges > 0.0).astype(np.int64)
    codes = np.zeros(guess.shape)
    corrections = np.zeros(len(guess), dtype=np.int64)
    ended = np.zeros(len(guess), dtype=np.bool_)
    wanted = np.zeros(problem.n_atoms, dtype=np.bool_)
    finish.finish_codes(
        problem.gram if rows is None else rows,
        np.arange(problem.n_atoms) if row_of is None else row_of,
        problem.correlations, problem.penalty, problem.positive, np.arange(len(guess)), spike_counts,
        charges - spike_counts, threshold, max_rounds or 10 * problem.n_atoms, codes, corrections, ended,
        wanted,
    )  # fmt: skip
    return codes, corrections, ended, wanted


def guesses(n_atoms, *, positive, seed=3):
    rng = np.random.default_rng(seed)
    rows = [np.zeros(n_atoms), np.ones(n_atoms), -np.ones(n_atoms)]
    rows += [rng.standard_normal(n_atoms) * (rng.random(n_atoms) < share) for share in (0.1, 0.5, 1.0) * 5]
    return np.maximum(rows, 0.0) if positive else np.array(rows)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.5])
def test_any_guess_leads_to_the_optimum(positive, share):
    problem = random_problem(50, 30, share=share, positive=positive)
    starts = guesses(50, positive=positive)
    same = LassoProblem(
        problem.dictionary, np.repeat(problem.signals, len(starts), 0), problem.penalty, positive=positive
    )
    codes, corrections, ended, _ = finished(same, starts)
    assert ended.all()
    scale = np.abs(problem.correlations).max()
    assert (judge(same, codes).kkt_violation <= 1e-13 * scale).all()
    for code, start, n_corrections in zip(codes, starts, corrections, strict=True):
        np.testing.assert_allclose(code, codes[0], rtol=0, atol=1e-12 * np.abs(codes[0]).max())
        differ = np.count_nonzero((code != 0.0) & (code * start <= 0.0))
        assert n_corrections == differ + np.count_nonzero((start != 0.0) & (code * start <= 0.0))


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
    guess = rng.standard_normal((3, n_atoms)) * (rng.random((3, n_atoms)) < 0.3)
    codes, _, ended, _ = finished(problem, np.maximum(guess, 0.0) if positive else guess)
    assert ended.all()
    # Violations count from 1e-13 of the largest correlation; the equations are solved to their condition,
    # at most 1e5 here, times 2e-16.
    assert (judge(problem, codes).kkt_violation <= 2e-11 * np.abs(problem.correlations).max(axis=1)).all()


def test_many_signals_share_work_arrays_that_grow():
    """Small and large supports in turn: what is left of one signal does not touch the next."""
    problem = random_problem(120, 80, share=0.02, n_signals=6)
    weaker = problem.signals * np.where(np.arange(6) % 2, 0.03, 1.0)[:, np.newaxis]
    problem = LassoProblem(problem.dictionary, weaker, problem.penalty)
    together, *_ = finished(problem, np.zeros((6, 120)))
    support = np.count_nonzero(together, axis=1)
    assert support.max() > finish.LEAST_CAPACITY > support.min()
    for signal in range(6):
        alone, *_ = finished(problem.subset([signal]), np.zeros((1, 120)))
        np.testing.assert_array_equal(alone[0], together[signal])


def test_rows_that_are_missing_are_asked_for():
    """With rows for some atoms: the optimum among these, and the names of the atoms that would enter next."""
    problem = random_problem(60, 40, share=0.2, positive=True)
    expected, *_ = finished(problem, np.zeros((1, 60)))
    has_row = np.arange(60) % 2 == 0
    rounds = 0
    while True:
        atoms = np.flatnonzero(has_row)
        row_of = np.full(60, -1)
        row_of[atoms] = np.arange(len(atoms))
        codes, _, ended, wanted = finished(
            problem, np.zeros((1, 60)), rows=np.ascontiguousarray(problem.gram[atoms]), row_of=row_of
        )
        assert ended[0]
        assert not codes[0, ~has_row].any()
        among = LassoProblem(
            problem.dictionary[atoms], problem.signals, problem.penalty[atoms], positive=True
        )
        scale = np.abs(problem.correlations).max()
        assert judge(among, codes[:, atoms]).kkt_violation[0] <= 1e-13 * scale
        rounds += 1
        if not wanted.any():
            break
        assert not (wanted & has_row).any()
        has_row |= wanted
    assert rounds > 1
    assert has_row.sum() < 60
    np.testing.assert_allclose(codes, expected, rtol=0, atol=1e-13)


def test_rounds_are_bounded():
    problem = random_problem(60, 40, share=0.01)
    codes, _, ended, _ = finished(problem, np.zeros((1, 60)), max_rounds=3)
    assert not ended[0]
    # What it has is a point on the way: feasible, and no worse than the guess.
    assert judge(problem, codes).objective[0] < problem.energies[0]


@pytest.mark.parametrize("n_block", [1, 3, 8, 20])
def test_factor_after_entering_and_leaving_is_that_of_the_remaining_atoms(n_block):
    """Twin: U against NumPy's Cholesky factor of the signed Gram matrix, z against its equations."""
    rng = np.random.default_rng(5)
    dictionary = rng.standard_normal((30, 40))
    gram = dictionary @ dictionary.T
    correlations, penalty = rng.standard_normal(30), rng.uniform(0.1, 0.2, 30)
    work = new_work(30)
    for atom in range(30):
        join(work, atom, gram, np.arange(30), correlations, penalty, atom)
    np.testing.assert_array_equal(work.gram, gram)
    places, signs = rng.permutation(30), rng.choice([-1.0, 1.0], 30)
    size = 0
    for start in range(0, 30, n_block):
        stop = min(start + n_block, 30)
        size = enter(work, size, places[start:stop], signs[start:stop], stop - start)
    for leaving in (29, 0, 13, 5, 5, 24):
        leave(work, size, leaving)
        size -= 1
        places, signs = np.delete(places, leaving), np.delete(signs, leaving)
    np.testing.assert_array_equal(work.active[:size], places)
    np.testing.assert_array_equal(work.sign[:size], signs)
    signed = gram[np.ix_(places, places)] * np.outer(signs, signs)
    factor = np.triu(work.factor[:size, :size])
    # Condition 1e4 or so.
    np.testing.assert_allclose(factor, np.linalg.cholesky(signed).T, rtol=0, atol=1e-10)
    drive = signs * correlations[places] - penalty[places]
    np.testing.assert_allclose(factor.T @ work.image[:size], drive, rtol=0, atol=1e-12)


def test_dependent_atoms_do_not_enter():
    dictionary = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [-1.0, 0.0]])
    work = new_work(4)
    for atom in range(4):
        join(work, atom, dictionary @ dictionary.T, np.arange(4), np.ones(4), np.full(4, 0.1), atom)
    assert enter(work, 0, np.array([0, 3, 1, 2]), np.ones(4), 4) == 2
    np.testing.assert_array_equal(work.active[:2], [0, 1])

"""Signals with masks, or weights of features, of their own: groups of equal ones."""

from __future__ import annotations

import numpy as np

from solvers.problem.lasso import LassoProblem


def groups_of(problem: LassoProblem) -> list[np.ndarray]:
    """Return the signals of each mask, or row of weights, in the order in which masks first appear."""
    weights = problem.feature_weights
    assert weights is not None
    rows = np.packbits(weights, axis=1) if weights.dtype == np.bool_ else weights
    rows = np.ascontiguousarray(rows)
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    group = rank[group.ravel()]
    order = np.argsort(group, kind="stable")
    return np.split(order, np.cumsum(np.bincount(group))[:-1])


def seen_norms(problem: LassoProblem) -> np.ndarray:
    """Return the norms of the atoms as each signal sees them, shape (n_signals, n_atoms)."""
    if problem.has_own_weights:
        assert problem.feature_weights is not None
        return np.sqrt(problem.atoms.correlate_squares(problem.feature_weights))
    return np.broadcast_to(problem.weighted_model.atoms.norms, (problem.n_signals, problem.n_atoms))


def with_shared_mask(problem: LassoProblem) -> LassoProblem:
    """Return the problem of signals whose masks are equal, with one mask for all of them."""
    assert problem.feature_weights is not None
    weights = problem.feature_weights[0]
    name = "mask" if weights.dtype == np.bool_ else "feature_weights"
    return problem.with_signals(problem.signals, **{name: weights})

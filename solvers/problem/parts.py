"""Problems of signals with equal masks or at many penalties, and norms of atoms under masks."""

from collections.abc import Iterator, Sequence

import numpy as np

from snn.base import checks
from solvers._kernels.precision import SMALLEST_NORM
from solvers.problem.lasso import LassoModel, LassoProblem, cached_for_any_weights
from solvers.problem.penalty import Penalty

# Signals with different masks share products if the known features of each atom have at least this share of
# ||d_i||^2, or nothing, for each signal.
LEAST_KNOWN = 1e-6


def stacked(problem: LassoProblem, penalties: Sequence[Penalty]) -> LassoProblem:
    """Return a problem that repeats the signals once for each penalty, for certificates."""
    repeated = problem.subset(np.tile(np.arange(problem.n_signals), len(penalties)))
    stack = Penalty.stack(penalties, problem.n_signals)
    return repeated._changed(penalty=stack, _cache={}, _cache_of_atoms=problem._cache_of_atoms)


def groups_of(problem: LassoProblem) -> list[np.ndarray]:
    """Return the signals that have equal masks (or weights), in the order in which masks first appear."""
    assert problem.feature_weights is not None
    groups: dict[bytes, list[int]] = {}
    for signal, weights in enumerate(problem.feature_weights):
        groups.setdefault(weights.tobytes(), []).append(signal)
    return [np.array(group) for group in groups.values()]


def in_groups(problem: LassoProblem) -> Iterator[tuple[np.ndarray, LassoProblem]]:
    """Yield the signals that have equal masks (or weights), and their problem with a single mask."""
    if not problem.has_own_weights:
        yield np.arange(problem.n_signals), problem
        return
    for group in groups_of(problem):
        yield group, with_shared_mask(problem.subset(group))


def with_shared_mask(problem: LassoProblem) -> LassoProblem:
    """Return the problem of signals whose masks are equal, with one mask for all of them."""
    assert problem.feature_weights is not None
    weights = checks.read_only(problem.feature_weights[0])
    caches = {"_cache": {}, "_cache_of_atoms": cached_for_any_weights(problem)}
    shared = problem._changed(feature_weights=weights, more_follow=True, **caches)
    shared._see(weights != 0)
    return shared


def seen_features(model: LassoModel, rows: np.ndarray) -> np.ndarray:
    """Return the known features of some rows, times the roots of the weights of all signals."""
    weights = model.feature_weights
    return rows if weights is None else (rows * np.sqrt(weights.astype(np.float64)))[..., weights != 0]


def seen_norms(problem: LassoProblem) -> np.ndarray:
    """Return the norms of D diag(sqrt(w)): one row for all signals, or one row for each signal."""
    # Only norms of unseen atoms are zero: a norm whose square underflows becomes SMALLEST_NORM.
    atoms, weights = problem.atoms, problem.feature_weights
    if weights is None:
        return atoms.norms[np.newaxis]
    if weights.ndim == 1 and atoms.is_matrix:
        norms = problem.seen_atoms.norms[np.newaxis]
    else:
        norms = np.sqrt(atoms.weighted_squared_norms(weights))
    if norms.min() < SMALLEST_NORM:
        is_seen = np.atleast_2d(weights != 0) @ (abs(atoms.matrix) > 0.0).T if atoms.is_matrix else True
        norms = np.where(is_seen, np.maximum(norms, SMALLEST_NORM), 0.0)
    return norms


def knows_atoms_alike(problem: LassoProblem) -> bool:
    """Return False if a mask leaves so little of an atom that signals cannot share products."""
    atoms, weights = problem.atoms, problem.feature_weights
    if weights is None or weights.ndim == 1 or not atoms.is_matrix:
        return True
    known = atoms.weighted_squared_norms(weights != 0)
    return not ((known > 0.0) & (known < LEAST_KNOWN * atoms.squared_norms)).any()

"""Norms of atoms and signals, and which of them floating point can hold."""

from __future__ import annotations

import numpy as np

from snn.base import checks
from solvers._kernels.precision import SMALLEST_SQUARED_NORM


def inverse_norms(squared_norms: np.ndarray) -> np.ndarray:
    """Return 1 / ||d_i|| of each atom; 0 for an atom of norm zero."""
    norms = np.sqrt(squared_norms)
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)


def squared_norms_of_rows(name: str, row: str, array: np.ndarray, *, hint: str = "") -> np.ndarray:
    """Return the squared norm of each row; refuse what is not finite, or a norm that is out of range.

    The array is read once, unless something is wrong with it.  `hint` says what to do about a number that is
    not finite.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squared_norms = np.einsum("ij,ij->i", array, array)
    # False also where one is not a number.
    if squared_norms.min() >= SMALLEST_SQUARED_NORM and squared_norms.max() < np.inf:
        return squared_norms
    if not np.isfinite(squared_norms).all():
        checks.require_finite(name, array, hint=hint)
    is_zero = squared_norms < SMALLEST_SQUARED_NORM
    small = np.flatnonzero(is_zero)
    is_zero[small] = ~array[small].any(axis=1)
    require_squared_norms(name, row, squared_norms, ~is_zero)
    return squared_norms


def require_squared_norms(name: str, row: str, squared_norms: np.ndarray, has_entries: np.ndarray) -> None:
    """Raise ValueError if floating point cannot hold the squared norm of a row that is not zero."""
    lost = ~np.isfinite(squared_norms) | (squared_norms < SMALLEST_SQUARED_NORM) & has_entries
    if lost.any():
        first = int(np.argmax(lost))
        raise ValueError(
            f"{name} must have rows of squared norm between {SMALLEST_SQUARED_NORM:.1g} and "
            f"{np.finfo(float).max:.1g}; got {squared_norms[first]:.3g} for {row} {first}: rescale"
        )

"""Scaling by powers of two, so that norms of very large and very small numbers can be computed."""

from __future__ import annotations

import numpy as np


def unit_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows scaled to unit Euclidean norm, and their norms, which may leave the range of floats.

    Parameters
    ----------
    rows : ndarray, shape (n_rows, n_values)

    Returns
    -------
    unit : ndarray, shape (n_rows, n_values)
        Every row has norm one, but a row of zeros stays as it is.
    norms : ndarray, shape (n_rows, 1)
    exponents : ndarray of int, shape (n_rows, 1)
        The norms are ``norms * 2**exponents``.
    """
    scaled, exponents = scaled_by_power_of_two(rows, axis=1)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    return scaled / np.where(norms > 0.0, norms, 1.0), norms, exponents


def scaled_by_power_of_two(array: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return an array with largest magnitudes in [1/2, 1), and the powers of two that it was divided by.

    Squares of the scaled values neither overflow nor vanish.  Only values far below the largest are rounded.

    Parameters
    ----------
    array : ndarray
        What to scale.
    axis : int or None
        Along which to take the largest magnitude; None for the whole array.
    """
    exponents = np.frexp(np.abs(array).max(axis=axis, keepdims=True))[1]
    return np.ldexp(array, -exponents), exponents

"""Atoms: a dictionary to start from, and a picture of any."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dictlearn.patches import as_patch_size
from snn import checks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def overcomplete_dct(patch_size: int | tuple[int, int], n_atoms: int) -> np.ndarray:
    """Return the overcomplete discrete cosine dictionary of image patches.

    An atom is the outer product of two of the n = sqrt(n_atoms) waves along the sides of the patch::

        w_k(x) = cos(pi k (x + 1/2) / n)    k = 0 .. n - 1, x = 0 .. side - 1

    each, but the constant one, without its mean, and all scaled to unit norm.  With n equal to both
    sides this is the orthonormal DCT-II.

    Parameters
    ----------
    patch_size : int or (int, int)
        Side of a square patch, or (height, width), in pixels.
    n_atoms : int
        The square of a whole number that is not less than either side.

    Returns
    -------
    ndarray, shape (n_atoms, height * width)
        Unit-norm rows; row 0 is constant, every other sums to zero.  Together they span all patches.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or value, or the patch too narrow for so many different atoms.
    """
    height, width = as_patch_size(patch_size)
    n_atoms = checks.positive_integer("n_atoms", n_atoms)
    n_waves = math.isqrt(n_atoms)
    if n_waves**2 != n_atoms:
        raise ValueError(f"n_atoms must be a perfect square; got {n_atoms}")
    if n_waves < max(height, width):
        raise ValueError(
            f"n_atoms must be at least {max(height, width) ** 2}, the square of the longer side of the "
            f"patch; got {n_atoms}"
        )
    if min(height, width) < min(3, n_waves):
        raise ValueError(
            f"patch_size must have sides of at least {min(3, n_waves)} for {n_atoms} different atoms; "
            f"got {height, width}"
        )
    return np.kron(_waves(height, n_waves), _waves(width, n_waves))


def plot_atoms(
    dictionary: np.ndarray,
    patch_size: int | tuple[int, int],
    *,
    ax: Axes | None = None,
    columns: int | None = None,
) -> Axes:
    """Draw atoms as a mosaic of patches.

    Each is scaled by its own largest magnitude: white is positive, black negative, grey zero.

    Parameters
    ----------
    dictionary : array_like, shape (n_atoms, height * width)
        One atom a row.
    patch_size : int or (int, int)
        Side of a square patch, or (height, width), in pixels.
    ax : Axes, optional
        Where to draw; by default the current axes.
    columns : int, optional
        Atoms side by side; by default as many as make the mosaic about square.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.
    """
    height, width = as_patch_size(patch_size)
    dictionary = checks.real_array(
        "dictionary", dictionary, shape=(None, height * width), meaning="(n_atoms, height * width)"
    )
    n_atoms = len(dictionary)
    if columns is None:
        columns = math.ceil(math.sqrt(n_atoms * height / width))
    columns = min(checks.positive_integer("columns", columns), n_atoms)
    if ax is None:
        import matplotlib.pyplot as plt  # here: it costs a third of a second, and most callers never draw

        ax = plt.gca()

    rows = math.ceil(n_atoms / columns)
    largest = np.abs(dictionary).max(axis=1, keepdims=True)
    tiles = np.full((rows * columns, height, width), np.nan)
    tiles[:n_atoms] = (dictionary / np.where(largest > 0.0, largest, 1.0)).reshape(-1, height, width)
    # One pixel of nothing between atoms, and none around them.
    framed = np.pad(tiles, ((0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    mosaic = framed.reshape(rows, columns, height + 1, width + 1).transpose(0, 2, 1, 3)
    mosaic = mosaic.reshape(rows * (height + 1), columns * (width + 1))[:-1, :-1]
    ax.imshow(np.ma.masked_invalid(mosaic), cmap="gray", vmin=-1.0, vmax=1.0, interpolation="nearest")
    ax.set_axis_off()
    return ax


def _waves(side: int, n_waves: int) -> np.ndarray:
    """Return unit-norm cosine waves, all but the first without mean, shape (n_waves, side)."""
    waves = np.cos(np.pi / n_waves * np.outer(np.arange(n_waves), np.arange(side) + 0.5))
    waves[1:] -= waves[1:].mean(axis=1, keepdims=True)
    return waves / np.linalg.norm(waves, axis=1, keepdims=True)

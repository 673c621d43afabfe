"""The overcomplete cosine dictionary of image patches."""

from __future__ import annotations

import math

import numpy as np

from dictlearn.atoms import unit_norm
from dictlearn.images.patches import as_patch_size
from snn.base import checks


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


def _waves(side: int, n_waves: int) -> np.ndarray:
    """Return unit-norm cosine waves, all but the first without mean, shape (n_waves, side)."""
    waves = np.cos(np.pi / n_waves * np.outer(np.arange(n_waves), np.arange(side) + 0.5))
    waves[1:] -= waves[1:].mean(axis=1, keepdims=True)
    return unit_norm(waves)

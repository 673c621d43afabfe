"""Small pieces of photographs, and atoms for them that a two-phase network has learned."""

from __future__ import annotations

import numpy as np

from dictlearn import join_channels, learn_dictionary
from examples._data import grey_photograph, patch_signals, photographs
from solvers import LassoProblem

SIDE = 12
N_ATOMS = 144
N_SAMPLES = 40_000
LEAST_CONTRAST = 0.2  # least norm of a patch without its mean; pixels are between 0 and 1
# For each piece: its photograph, and the row and column of its corner at half the resolution.
PIECES = {
    "smile": ("astronaut", 82, 104),
    "eye": ("astronaut", 59, 94),
    "tripod": ("camera", 180, 145),
    "spoon": ("coffee", 100, 100),
}


def piece(name: str) -> np.ndarray:
    """Return one of `PIECES`, values from 0 to 1, shape (SIDE, SIDE)."""
    photograph, row, column = PIECES[name]
    return halved(grey_photograph(photograph))[row : row + SIDE, column : column + SIDE]


def halved(image: np.ndarray) -> np.ndarray:
    """Return an image at half the resolution, the means of 2 x 2 pixels; an odd row or column is left out."""
    height, width = image.shape[0] // 2, image.shape[1] // 2
    squares = image[: 2 * height, : 2 * width].reshape(height, 2, width, 2)
    return squares.mean(axis=(1, 3))


def learned_atoms(n_samples: int = N_SAMPLES, *, n_jobs: int | None = None) -> np.ndarray:
    """Return signed atoms of a two-phase network, the most used first, shape (N_ATOMS, SIDE**2)."""
    signals = patch_signals(photographs(), SIDE, n_samples, seed=0, contrast=LEAST_CONTRAST)
    learner = learn_dictionary(signals, N_ATOMS, penalty=0.1, n_samples=n_samples, rng=0, n_jobs=n_jobs)
    atoms = join_channels(learner.dictionary)[np.argsort(-learner.memory["usage"], kind="stable")]
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


def network_problem(atoms: np.ndarray, pixels: np.ndarray, share: float) -> LassoProblem:
    """Return the problem of coding a piece without its mean, at `share` times its largest penalty."""
    signal = pixels - pixels.mean()
    return LassoProblem(atoms, signal[np.newaxis], share * float((atoms @ signal).max()), positive=True)

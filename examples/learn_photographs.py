"""Edges from photographs: 8 x 8 patches, 256 atoms, 100,000 samples (task A of the paper).

The paper's photograph, Lena, is not to be had; patches come from those of scikit-learn and scikit-image,
each without its right-hand fifth, from where the held-out ones are.

    python -m examples.learn_photographs --output out
"""

from __future__ import annotations

import numpy as np

from dictlearn import normalise, random_patches, remove_mean, split_channels
from examples import _learning
from examples._data import held_out, photographs

SIDE = 8
LEAST_CONTRAST = 0.1  # norm of a patch without its mean; the sky teaches nothing


def task(n_signals: int = 100_000, n_held_out: int = 10_000) -> _learning.Task:
    """Return patches without mean and of unit norm, in + and - channels."""
    images = held_out(photographs())
    signals, judged = (
        _signals(side, n, seed)
        for seed, (side, n) in enumerate(zip(images, (n_signals, n_held_out), strict=True))
    )
    return _learning.Task(
        name="photographs",
        title="8 x 8 patches of photographs",
        signals=signals,
        held_out=judged,
        image_shape=(SIDE, SIDE),
        channels=True,
        n_atoms=256,
        penalty=0.1,
    )


def _signals(images: list[np.ndarray], n_signals: int, seed: int) -> np.ndarray:
    patches = random_patches(images, SIDE, n_signals, rng=seed, least_contrast=LEAST_CONTRAST)
    return split_channels(normalise(remove_mean(patches)[0])[0])


def main() -> None:
    """Run it."""
    arguments = _learning.options(__doc__.splitlines()[0], n_samples=100_000).parse_args()
    _learning.run(task(n_signals=min(arguments.samples, 100_000)), arguments)


if __name__ == "__main__":
    main()

"""Gabors from whitened scenes: 16 x 16 patches, 1024 atoms, 200,000 samples (task C of the paper).

The paper's natural scenes are not to be had; the photographs of scikit-learn and scikit-image are whitened
in their place (Olshausen and Field, 1997), each without its right-hand fifth, from where the held-out
patches are.

    python -m examples.learn_scenes --output out
"""

from __future__ import annotations

import numpy as np

from dictlearn import normalise, random_patches, remove_mean, split_channels, whiten
from examples import _learning
from examples._data import held_out, photographs

SIDE = 16
LEAST_CONTRAST = 4.0  # norm of a patch without its mean, of an image of unit variance


def task(n_signals: int = 100_000, n_held_out: int = 10_000) -> _learning.Task:
    """Return patches of whitened photographs without mean and of unit norm, in + and - channels."""
    images = held_out([whiten(image) for image in photographs()])
    signals, judged = (
        _signals(side, n, seed)
        for seed, (side, n) in enumerate(zip(images, (n_signals, n_held_out), strict=True))
    )
    return _learning.Task(
        name="scenes",
        title="16 x 16 patches of whitened photographs",
        signals=signals,
        held_out=judged,
        image_shape=(SIDE, SIDE),
        channels=True,
        n_atoms=1024,
        penalty=0.1,
    )


def _signals(images: list[np.ndarray], n_signals: int, seed: int) -> np.ndarray:
    patches = random_patches(images, SIDE, n_signals, rng=seed, least_contrast=LEAST_CONTRAST)
    return split_channels(normalise(remove_mean(patches)[0])[0])


def main() -> None:
    """Run it."""
    arguments = _learning.options(__doc__.splitlines()[0], n_samples=200_000).parse_args()
    _learning.run(task(n_signals=min(arguments.samples, 100_000)), arguments)


if __name__ == "__main__":
    main()

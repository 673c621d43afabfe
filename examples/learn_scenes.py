"""Gabors from whitened scenes: 16 x 16 patches, 1024 atoms, 200,000 samples (task C of the paper).

The paper's natural scenes are not to be had; the photographs of scikit-learn and scikit-image are whitened
in their place (Olshausen and Field, 1997), each without its right-hand fifth, from where the held-out
patches are.

    python -m examples.learn_scenes --output out
"""

from __future__ import annotations

from dictlearn import whiten
from examples import _learning
from examples._data import photographs

LEAST_CONTRAST = 4.0  # norm of a patch without its mean, of an image of unit variance


def task(n_signals: int = _learning.N_PATCHES, n_held_out: int = 10_000) -> _learning.Task:
    """Return patches of whitened photographs without mean and of unit norm, in + and - channels."""
    return _learning.patch_task(
        "scenes",
        "16 x 16 patches of whitened photographs",
        [whiten(image) for image in photographs()],
        side=16,
        contrast=LEAST_CONTRAST,
        n_atoms=1024,
        n_signals=n_signals,
        n_held_out=n_held_out,
    )


def main() -> None:
    """Run it."""
    _learning.run_patches(task, __doc__.splitlines()[0], n_samples=200_000)


if __name__ == "__main__":
    main()

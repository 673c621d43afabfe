"""Edges from photographs: 8 x 8 patches, 256 atoms, 100,000 samples (task A of the paper).

The paper's photograph, Lena, is not to be had; patches come from those of scikit-learn and scikit-image,
each without its right-hand fifth, from where the held-out ones are.

    python -m examples.learn_photographs --output out
"""

from __future__ import annotations

from examples import _learning
from examples._data import photographs

LEAST_CONTRAST = 0.1  # norm of a patch without its mean; the sky teaches nothing


def task(n_signals: int = _learning.N_PATCHES, n_held_out: int = 10_000) -> _learning.Task:
    """Return patches without mean and of unit norm, in + and - channels."""
    return _learning.patch_task(
        "photographs",
        "8 x 8 patches of photographs",
        photographs(),
        side=8,
        contrast=LEAST_CONTRAST,
        n_atoms=256,
        n_signals=n_signals,
        n_held_out=n_held_out,
    )


def main() -> None:
    """Run it."""
    _learning.run_patches(task, __doc__.splitlines()[0], n_samples=100_000)


if __name__ == "__main__":
    main()

"""Signals made of atoms that are known."""

import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Sums of a few atoms of a random dictionary without negative entries, and noise, clipped at zero."""

    name = "Planted"
    parameters = {  # noqa: RUF012
        "n_features": [64],
        "n_planted": [100],
        "n_signals": [10_000],
        "noise": [0.01],
    }

    def get_data(self):
        rng = np.random.default_rng(0)
        # Each feature is part of a third of the atoms, so that the atoms are far from parallel.
        atoms = rng.uniform(size=(self.n_planted, self.n_features))
        atoms *= rng.uniform(size=atoms.shape) < 1.0 / 3.0
        atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
        signals = self._signals(atoms, self.n_signals, rng)
        return {"signals": signals, "held_out": self._signals(atoms, 1_000, rng)}

    def _signals(self, atoms, n_signals, rng):
        codes = rng.uniform(0.2, 1.0, (n_signals, len(atoms)))
        codes *= rng.uniform(size=codes.shape) < 3.0 / len(atoms)
        noise = self.noise * rng.standard_normal((n_signals, atoms.shape[1]))
        return np.maximum(codes @ atoms + noise, 0.0)

"""Non-negative dictionary learning for benchopt: docs/performance.md, section 8."""

import numpy as np
from benchopt import BaseObjective
from sklearn.decomposition import sparse_encode


class Objective(BaseObjective):
    """Atoms D of norm one, and codes a, neither negative, that minimise the mean over signals x of
    ``1/2 ||x - a D||^2 + penalty ||a||_1``.

    Every method gets the same atoms to start from.  What it has learned is measured on signals that it has
    not seen, with codes of scikit-learn, and these with their duality gaps.
    """

    name = "Non-negative dictionary learning"
    min_benchopt_version = "1.7"
    requirements = ["scikit-learn"]  # noqa: RUF012 - benchopt reads plain lists and dicts
    parameters = {"n_atoms": [100], "penalty": [0.1]}  # noqa: RUF012
    # Online methods count samples: an iteration of the benchmark is this number of samples.
    sampling_strategy = "iteration"
    samples_per_iteration = 256

    def set_data(self, signals, held_out):
        self.signals, self.held_out = signals, held_out
        start = np.random.default_rng(0).uniform(size=(self.n_atoms, signals.shape[1]))
        self.start = start / np.linalg.norm(start, axis=1, keepdims=True)

    def get_objective(self):
        return {
            "signals": self.signals,
            "start": self.start,
            "penalty": self.penalty,
            "samples_per_iteration": self.samples_per_iteration,
        }

    def get_one_result(self):
        return {"dictionary": self.start}

    def evaluate_result(self, dictionary):
        if dictionary.min() < 0.0:
            raise ValueError(f"atoms must not be negative; the least entry is {dictionary.min():g}")
        norms = np.linalg.norm(dictionary, axis=1, keepdims=True)
        # Codes of longer atoms would cost less, so atoms get unit norm; an atom of zeros stays zero.
        atoms = dictionary / np.where(norms > 0.0, norms, 1.0)
        codes = sparse_encode(
            self.held_out, atoms, algorithm="lasso_cd", alpha=self.penalty, positive=True, max_iter=10_000
        )
        residuals = self.held_out - codes @ atoms
        objectives = 0.5 * (residuals**2).sum(axis=1) + self.penalty * codes.sum(axis=1)
        return {
            "value": objectives.mean(),
            "largest_relative_gap": (self._gaps(atoms, residuals, objectives) / objectives).max(),
            "nonzeros": (codes > 0.0).sum(axis=1).mean(),
            "unused_atoms": int((~codes.any(axis=0)).sum()),
        }

    def _gaps(self, atoms, residuals, objectives):
        """Return the duality gaps, which bound the errors of codes; dual points are scaled residuals."""
        largest = (residuals @ atoms.T).max(axis=1)
        scales = np.minimum(1.0, self.penalty / np.maximum(largest, 1e-300))[:, np.newaxis]
        distances = ((self.held_out - scales * residuals) ** 2).sum(axis=1)
        return objectives - 0.5 * ((self.held_out**2).sum(axis=1) - distances)

"""The history of learning: for each thousand samples, means over the samples and measures of the weights."""

from typing import Self

import numpy as np

from dictlearn.resumable import History
from dictlearn.two_phase._kernels import updates
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.synapses import Synapses

# Number of samples between two entries of the history.
RECORD_EVERY = 1000
# Columns of the history: number of samples, four means over the samples since the previous entry, and five
# numbers that describe the weights.
HISTORY_COLUMNS = (
    "n_samples", "objective", "nonzeros", "spikes", "disturbance", "consistency", "symmetry", "least_norm",
    "median_norm", "largest_norm",
)  # fmt: skip
# Number of sums for the next entry: samples, objectives, nonzero code entries, spikes, disturbances, and
# nonzero samples (the disturbance is defined only for nonzero samples).
N_SUMS = 6


class LearningHistory(History):
    """The history of a learner: an entry for each thousand samples, and sums for the next entry."""

    def __init__(self, rows: np.ndarray | None = None, sums: np.ndarray | None = None) -> None:
        super().__init__(HISTORY_COLUMNS, rows)
        self.sums = np.zeros(N_SUMS) if sums is None else sums

    def __copy__(self) -> Self:
        return type(self)(self.rows, self.sums.copy())

    def observe(self, batch: Batch, observed: Observed, synapses: Synapses) -> float:
        """Add a batch to the history; return its mean objective in units of the signals."""
        n = batch.n_signals
        seen = observed.codes, observed.reconstruction_gradient, observed.signal_norm, observed.n_spikes
        constants = batch.penalty * batch.reweighting, batch.settings.kappa, batch.scale
        objective = updates.add_figures(self.sums, n, *seen, *constants)
        n_samples = batch.n_samples + n
        if n_samples // RECORD_EVERY > batch.n_samples // RECORD_EVERY:
            n_summed, *totals, n_nonzero = self.sums
            # If all samples are zero, the mean disturbance is 0, not 0 / 0.
            means = np.array(totals) / (n_summed, n_summed, n_summed, max(n_nonzero, 1.0))
            norms = np.quantile(np.linalg.norm(synapses.feedback_rows, axis=1), (0.0, 0.5, 1.0))
            self.add(n_samples, *means, synapses.consistency, synapses.symmetry, *norms)
            self.sums[:] = 0.0
        return objective / n

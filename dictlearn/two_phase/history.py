"""The history of learning: means over each thousand samples, and the weights at the end of them."""

from typing import Self

import numpy as np

from dictlearn.resumable import History
from dictlearn.two_phase._kernels import updates
from dictlearn.two_phase.observed import Batch, Observed
from dictlearn.two_phase.synapses import Synapses

# Samples between two entries.
RECORD_EVERY = 1000
# Columns: means over the samples since the entry before, and figures of the weights.
HISTORY_COLUMNS = (
    "n_samples", "objective", "nonzeros", "spikes", "disturbance", "consistency", "symmetry", "least_norm",
    "median_norm", "largest_norm",
)  # fmt: skip
# Sums for the next entry: samples, objectives, non-zeros, spikes, disturbances, and samples that are not
# zero.  Only these have a disturbance.
N_SUMS = 6


class LearningHistory(History):
    """Entries of each thousand samples, and the sums for the next one."""

    def __init__(self, rows: np.ndarray | None = None, sums: np.ndarray | None = None) -> None:
        super().__init__(HISTORY_COLUMNS, rows)
        self.sums = np.zeros(N_SUMS) if sums is None else sums

    def __copy__(self) -> Self:
        return type(self)(self.rows, self.sums.copy())

    def observe(self, batch: Batch, observed: Observed, synapses: Synapses) -> float:
        """Add a batch; return its mean objective in units of the signals."""
        n = batch.n_signals
        seen = observed.codes, observed.reconstruction_gradient, observed.signal_norm, observed.n_spikes
        constants = batch.penalty * batch.reweighting, batch.settings.kappa, batch.scale
        objective = updates.add_figures(self.sums, n, *seen, *constants)
        n_samples = batch.n_samples + n
        if n_samples // RECORD_EVERY > batch.n_samples // RECORD_EVERY:
            n_summed, *totals, n_nonzero = self.sums
            # The disturbance of a thousand zero signals is 0, not 0 / 0.
            means = np.array(totals) / (n_summed, n_summed, n_summed, max(n_nonzero, 1.0))
            norms = np.quantile(np.linalg.norm(synapses.feedback_rows, axis=1), (0.0, 0.5, 1.0))
            self.add(n_samples, *means, synapses.consistency, synapses.symmetry, *norms)
            self.sums[:] = 0.0
        return objective / n

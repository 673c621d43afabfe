"""How learning went: means over thousands of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dictlearn.two_phase.network import TwoPhaseNetwork

# Of `History.sums`.
N_SUMS = 6
# Samples between two entries.
RECORD_EVERY = 1000

NAMES = (
    "n_samples", "objective", "nonzeros", "spikes", "disturbance", "consistency", "symmetry", "least_norm",
    "median_norm", "largest_norm",
)  # fmt: skip


class History:
    """Means over each thousand samples, and the weights at the end of it.

    Attributes
    ----------
    entries : ndarray, shape (n_entries, 10)
        As `NAMES`.
    sums : ndarray, shape (6,)
        Since the last of them: samples, objectives, non-zeros, spikes, disturbances, and samples that are
        not zero, of which alone a disturbance is known.
    """

    def __init__(self) -> None:
        self.entries = np.empty((0, len(NAMES)))
        self.sums = np.zeros(N_SUMS)

    def add(
        self,
        *,
        n_signals: int,
        objective: float,
        n_nonzeros: int,
        n_spikes: int,
        disturbances: np.ndarray,
    ) -> None:
        """Add a batch.

        Parameters
        ----------
        n_signals : int
            How many it has.
        objective : float
            In units of the signals; this and the next of all of them together.
        n_nonzeros, n_spikes : int
        disturbances : ndarray, shape (n_nonzero,)
            Of the signals that are not zero.
        """
        self.sums += (
            n_signals,
            objective,
            n_nonzeros,
            n_spikes,
            disturbances.sum(),
            len(disturbances),
        )

    def record(self, n_samples: int, network: TwoPhaseNetwork) -> None:
        """Make an entry of the batches since the last one.

        Parameters
        ----------
        n_samples : int
            Learned from so far.
        network : TwoPhaseNetwork
            As it is now.
        """
        n_signals, *totals, n_nonzero = self.sums
        # The disturbance of a thousand zero signals is 0, not 0 / 0.
        means = np.array(totals) / (n_signals, n_signals, n_signals, max(n_nonzero, 1.0))
        norms = np.quantile(np.linalg.norm(network.feedback, axis=0), (0.0, 0.5, 1.0))
        entry = np.array([n_samples, *means, network.consistency, network.symmetry, *norms])
        self.entries = np.vstack([self.entries, entry])
        self.sums[:] = 0.0

    def as_arrays(self) -> dict[str, np.ndarray]:
        """Return the entries by name."""
        return dict(zip(NAMES, self.entries.T.copy(), strict=True))

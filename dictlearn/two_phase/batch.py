"""One batch of samples: what the network gets, and its run."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from dictlearn.two_phase.phases import Phase, run_phases
from dictlearn.two_phase.settings import LearningSettings
from dictlearn.two_phase.synapses import Synapses
from snn.base import checks

# Of a probed neuron, in the phase with feedback.
PROBE_SPIKES = 3.0


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchPlan:
    """How a batch is run by the network as it is now: all that is known before its signals are.

    A run has a row for each signal, and then one for each probe.  What a row becomes does not depend on the
    others.  So a batch may be run in parts, in other processes too; `join_phases` makes one of their phases.

    Attributes
    ----------
    n_signals : int
        Signals of the batch.
    probed : ndarray of int, shape (n_probes,)
        Atoms that are made to fire alone.
    probe_drive : ndarray, shape (n_probes,)
        What drives them, at gamma = 0.
    penalty : ndarray, shape (n_atoms,)
        lambda1 s, as the network gets it.
    scale : float
        What signals are multiplied with.
    settings : LearningSettings
        How the network is run.
    """

    n_signals: int
    probed: np.ndarray
    probe_drive: np.ndarray
    penalty: np.ndarray
    scale: float
    settings: LearningSettings

    def __post_init__(self) -> None:
        checks.freeze_arrays(self)

    @property
    def n_rows(self) -> int:
        """Signals and probes."""
        return self.n_signals + len(self.probed)

    def run(
        self,
        synapses: Synapses,
        signals: np.ndarray,
        mask: np.ndarray | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        n_pieces: int = 1,
        executor: Executor | None = None,
    ) -> list[Phase]:
        """Return what neurons observe in both phases, of all rows or of some.

        Shapes: signals (n_some, n_inputs); mask (n_some, n_inputs).
        """
        if mask is not None and mask.all():
            mask = None  # the same bits, of fewer neurons
        rows = np.arange(self.n_rows)[start:stop]
        probes = rows[len(signals) :] - self.n_signals
        drives = np.zeros((len(rows), synapses.n_inputs + synapses.n_atoms))
        known = None if mask is None else np.ones((len(rows), synapses.n_inputs), dtype=bool)
        with np.errstate(over="ignore"):  # `run_phases` refuses what is too large
            if mask is None or known is None:
                drives[: len(signals), : synapses.n_inputs] = self.scale * signals
            else:
                known[: len(signals)] = mask
                drives[: len(signals), : synapses.n_inputs] = self.scale * np.where(mask, signals, 0.0)
        drives[:, synapses.n_inputs :] = -self.penalty
        drives[len(signals) + np.arange(len(probes)), synapses.n_inputs + self.probed[probes]] = (
            self.probe_drive[probes]
        )
        settings = self.settings
        return run_phases(
            synapses,
            drives,
            mask=known,
            gammas=(0.0, settings.kappa),
            duration=settings.duration,
            initial_potential=settings.initial_potential,
            how=settings.how,
            n_pieces=n_pieces,
            executor=executor,
            first=int(rows[0]) if len(rows) else 0,
        )

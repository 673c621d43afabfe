"""Stops of a run within its kernel: the ends of copies, and what a stimulus changes on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from snn._kernels.stops import Stops
from snn.base import checks
from snn.record.stimulus import CURRENT, DRIVE, Stimulus

NO_NUMBERS, NO_DRIVES = checks.read_only(np.empty(0)), np.empty((0, 0))
NO_INDICES = checks.read_only(np.empty(0, dtype=np.int64))
# The fields of `Stops` from `changes` on.
UNCHANGED = (
    checks.read_only(np.zeros((1, 2), dtype=np.int64)),
    checks.read_only(NO_DRIVES),
    NO_DRIVES,
    NO_INDICES,
    False,
    NO_INDICES,
    NO_INDICES,
    NO_NUMBERS,
)


def stops_of(run: Any, until: float | np.ndarray, stimulus: Stimulus | None, origin: float) -> Stops:
    """Return the stops of a run that was started at time `origin`."""
    n_copies = len(run.soma_bias)
    times = np.empty(n_copies)
    times[:] = until
    stops = Stops(times, NO_NUMBERS, np.zeros(n_copies, dtype=np.int64), *UNCHANGED)
    if stimulus is None:
        return stops
    drives, spikes = stimulus.drive_times, stimulus.spikes
    drive_instants = run.instants_of((NO_NUMBERS if drives is None else drives) - origin)
    spike_instants = run.instants_of((NO_NUMBERS if spikes is None else spikes.times) - origin)
    instants = np.unique(np.concatenate([drive_instants, spike_instants]))
    # Of the drives of one step of a clock, the last one holds.
    rows = np.searchsorted(drive_instants, instants, side="right") - 1
    changes = np.zeros((len(instants) + 1, 2), dtype=np.int64)
    changes[:-1, 0] = np.where(np.diff(rows, prepend=-1) > 0, rows, -1)
    changes[1:, 1] = np.searchsorted(spike_instants, instants, side="right")
    stops = stops._replace(instants=checks.read_only(instants), changes=checks.read_only(changes))
    if stimulus.drive is not None:
        stops = stops._replace(drives=checks.read_only(np.ascontiguousarray(stimulus.drive)))
    stops = stops._replace(soma_bias=run.soma_bias)
    if spikes is None:
        return stops
    weights: Any = run.input_weights(stimulus) if stimulus.onto == CURRENT else stimulus.weights
    if sparse.issparse(weights):
        starts, targets = (part.astype(np.int64) for part in (weights.indptr, weights.indices))
        stops = stops._replace(starts=checks.read_only(starts), targets=checks.read_only(targets))
        weights = weights.data
    return stops._replace(
        sources=checks.read_only(spikes.neurons),
        is_onto_drive=stimulus.onto == DRIVE,
        weights=checks.read_only(np.ascontiguousarray(weights, dtype=np.float64).reshape(-1)),
    )

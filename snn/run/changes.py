"""The changes that a stimulus makes to a run on its way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from snn.record.stimulus import CURRENT, DRIVE, Stimulus
from snn.run.run import Run


class Changes:
    """What a stimulus does to the only copy of a run, instant by instant: for `Run.advance`."""

    def __init__(self, run: Run, stimulus: Stimulus, origin: float) -> None:
        self._run, self._stimulus = run, stimulus
        drives, spikes = stimulus.drive_times, stimulus.spikes
        none = np.empty(0)
        self._drive_instants = run.instants_of((none if drives is None else drives) - origin)
        self._spike_instants = run.instants_of((none if spikes is None else spikes.times) - origin)
        self._sources = [] if spikes is None else spikes.neurons.tolist()
        self._weights: Any = stimulus.weights
        if spikes is not None and stimulus.onto == CURRENT:
            self._weights = run.input_weights(stimulus)

    def __iter__(self) -> Iterator[float]:
        """Yield each instant of the run at which something changes, and make the change afterwards."""
        instants = np.unique(np.concatenate([self._drive_instants, self._spike_instants]))
        # Of the drives of one step of a clock, the last one holds.
        drives = np.searchsorted(self._drive_instants, instants, side="right") - 1
        is_new = np.diff(drives, prepend=-1) > 0
        ends = np.searchsorted(self._spike_instants, instants, side="right")
        first = 0
        for instant, new, drive, end in zip(
            instants.tolist(), is_new.tolist(), drives.tolist(), ends.tolist(), strict=True
        ):
            yield instant
            if new:
                assert self._stimulus.drive is not None
                self._run.set_drive(self._stimulus.drive[drive])
            if first < end:
                self._deliver(first, end)
                first = end

    def _deliver(self, first: int, end: int) -> None:
        spikes = self._stimulus.spikes
        assert spikes is not None
        if end == first + 1 and isinstance(self._weights, np.ndarray):
            amounts = self._weights[self._sources[first]]
        else:
            amounts = np.bincount(spikes.neurons[first:end], minlength=spikes.n_neurons) @ self._weights
        if self._stimulus.onto == DRIVE:
            self._run.set_drive(self._run.soma_bias[0] + amounts)
        else:
            self._run.add_to_current(amounts)

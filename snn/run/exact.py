"""Exact runs, which go from event to event and have no time step."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from snn._kernels import run_state, simulation
from snn._kernels.run_state import Neurons
from snn._kernels.workspace import overshoot
from snn.base import checks
from snn.network import NetworkState, RunnableNetwork, require_moderate_weights
from snn.run.run import NO_SPIKES, Run, Spikes
from snn.run.time import Exact

# Smallest and largest number of spikes and windows after which a call of the kernel ends.
LEAST_WORK_PER_CALL, MOST_WORK_PER_CALL = 16, 65_536
# When a row of weights is missing, the rows of neurons that will fire within about LOOK_AHEAD time constants
# are computed with this row, at most ROWS_PER_COPY rows for each copy.  The product of two matrices costs
# little more than the product of a matrix and a vector.
LOOK_AHEAD, ROWS_PER_COPY = 2.0, 64
# Length of the first search for the next spike, in synaptic time constants; each further search is twice as
# long.
FIRST_SEARCH = 16.0

NO_TRACES = np.empty((0, 0, 2))
NO_FLOOR = checks.read_only(np.empty(0)), np.empty((0, 0))
NOTHING_RECORDED = run_state.SpikeLog(NO_SPIKES.times, NO_SPIKES.neurons)
# The fields of `run_state.Neurons` that a run changes.
CHANGING = ("bias", "potential", "current", "drift", "spike_counts", "traces", "lifted", "moments")


class ExactRun(Run):
    """Copies of one network, advanced exactly; for the parameters, see `Run`."""

    def __init__(
        self,
        exact: Exact,
        network: RunnableNetwork,
        soma_bias: np.ndarray,
        state: NetworkState | Run | None = None,
        **options: Any,
    ) -> None:
        super().__init__(network, soma_bias, state, **options)
        shape = soma_bias.shape
        n_neurons = shape[1]
        drift = soma_bias.copy()
        traces = np.zeros((*shape, 2)) if self._filters_spikes else NO_TRACES
        if state is not None:
            drift += self.synaptic_current
            if self._filters_spikes:
                traces[:, :, 0] = getattr(state, "filtered_spikes", 0.0)
        floor, lifted = NO_FLOOR
        if exact.potential_floor is not None:
            floor = checks.read_only(exact.potential_floor * network.firing_threshold)
            lifted = np.zeros(shape)
        self._neurons = Neurons(
            self.soma_bias,
            # Arrays that kernels only read are read-only, so that a kernel is compiled once for all callers.
            checks.read_only(network.firing_threshold),
            self.membrane_potential,
            self.synaptic_current,
            drift,
            self.spike_counts,
            traces,
            floor,
            lifted,
            self.window_moments,
        )
        self._is_lost = np.zeros(shape[0], dtype=np.bool_)
        self._states = run_state.new_records(shape[0], run_state.RUN_STATE)
        limit = self._burst_limit or run_state.BurstLimit(spikes=np.inf)
        self._states["largest_burst"] = limit.spikes + limit.per_neuron * n_neurons
        self._states["burst_rate"] = limit.rate + limit.per_neuron * n_neurons
        self._first_states = self._states.tobytes()  # `tobytes` takes a tenth of the time of `copy`
        self._form = network.weights.kernel_form
        self._usual = simulation.settings_of(self._form, n_neurons, screening=exact.screening)
        # `_settings` holds the settings of the present calls of the kernel.  The kernel may go from spike to
        # spike.
        self._settings, self._is_stepping = self._usual, False
        # Number of copies at the end of `active` that wait for a row of weights.
        self._n_waiting = 0
        self._memory = simulation.new_memory(self._form, n_neurons, self._usual)
        work = int(self._updates_per_call / max(self._form.targets_per_source(n_neurons), 1.0))
        self._work_per_call = min(max(work, LEAST_WORK_PER_CALL), MOST_WORK_PER_CALL)
        self._most_per_call = self._work_per_call + overshoot(n_neurons, self._usual)

    @property
    def time(self) -> np.ndarray:
        return self._states["time"]

    @property
    def is_lost(self) -> np.ndarray:
        return self._is_lost

    @property
    def departures(self) -> str:  # type: ignore[override]  # other runs have a constant
        return "a potential floor" if self._neurons.lifted.any() else ""

    @property
    def filtered_spikes(self) -> np.ndarray:
        trace, last_spike = np.moveaxis(self._neurons.traces, 2, 0)
        return trace * np.exp(last_spike - self.time[:, np.newaxis])

    def step(self, n_spikes: int = 1) -> Spikes:
        """Advance the only copy by at least `n_spikes` spikes; return all spikes up to its new time."""
        # If no neuron fires any more, fewer spikes are returned, and time goes beyond the last spike.
        ahead, parts = FIRST_SEARCH, [NO_SPIKES]
        self._is_stepping = n_spikes == 1
        while n_spikes > 0:
            time = float(self.time[0]) + ahead
            if time == np.inf:  # no neuron fires before the time leaves the range of numbers
                break
            parts.append(self.advance(time, max_spikes=n_spikes - 1, record=True))
            n_spikes -= len(parts[-1].times)
            ahead *= 2.0
            if n_spikes > 0 and self._is_silent():
                break
        if len(parts) == 2:
            return parts[1]
        return Spikes(*(np.concatenate(column) for column in list(zip(*parts, strict=True))[:2]))

    def renew(self) -> None:
        """Clear counts and run states, so that restarted copies behave exactly like copies of a new run."""
        self.spike_counts.fill(0)
        self._is_lost.fill(False)
        self._states.view(np.uint8)[:] = np.frombuffer(self._first_states, np.uint8)
        self._first_counts.fill(0.0)
        self.n_emitted = 0

    def _is_silent(self) -> bool:
        """Return whether no neuron of the only copy will ever fire."""
        potential, current = self.membrane_potential[0], self.synaptic_current[0]
        highest = potential + np.maximum(current, 0.0)
        return bool(((self._neurons.bias[0] <= 0.0) & (highest < self._neurons.threshold)).all())

    def _removed(self) -> np.ndarray:
        # The charge that raised potentials to a floor did not come from soma currents.
        return super()._removed() - (self._neurons.lifted if len(self._neurons.floor) else 0.0)

    def _begin(self, record: bool) -> run_state.SpikeLog:
        self._settings = simulation.single_step(self._usual) if self._is_stepping else self._usual
        self._n_waiting = 0
        if not record:
            return NOTHING_RECORDED
        return run_state.SpikeLog(
            np.empty(self._most_per_call), np.empty(self._most_per_call, dtype=np.int64)
        )

    def _call(
        self, active: np.ndarray, position: int, stops: Any, most: int, buffer: run_state.SpikeLog
    ) -> tuple[int, int, int]:
        before = None
        if most < self._most_per_call and self._settings is self._usual:
            changing = [self._states, self._is_lost, stops.copies]
            changing += [array for array in (getattr(self._neurons, name) for name in CHANGING) if len(array)]
            before = [array[active[position:]] for array in changing]
        n_going = len(active) - self._n_waiting
        # A run from spike to spike spends at least one window in addition to its first `most` + 1 spikes.
        budget = most + 1 if self._settings is self._usual else most + 2
        status, reached, n_new = simulation.advance(
            self._form, self._neurons, self._states, self._settings, self._memory, active[:n_going],
            position, stops, min(self._work_per_call, budget), buffer,
        )  # fmt: skip
        if before is not None and n_new > most:
            # The limit of spikes was passed within an interval.  Restore the state, and go from spike to
            # spike.
            for array, rows in zip(changing, before, strict=True):
                array[active[position:]] = rows
            self._settings = simulation.single_step(self._usual)
            return position, 0, 0
        if status == run_state.MISSING_ROW:
            # The copy goes to the end of `active`, and the rows of all copies at the end are computed
            # together.  If spikes are recorded or limited, the order of copies matters, so the row is
            # computed immediately.
            if len(buffer.times) or most < sys.maxsize // 2:
                self._compute_rows(active[reached : reached + 1])
            else:
                active[reached:] = np.roll(active[reached:], -1)
                self._n_waiting += 1
        if status == run_state.BURST:
            # The copy is lost and keeps its state, or is set to rest if numbers of the state are not finite.
            lost = active[reached]
            self._is_lost[lost] = True
            potential, current = self.membrane_potential[lost], self.synaptic_current[lost]
            if not (np.isfinite(potential).all() and np.isfinite(current).all()):
                potential[:] = current[:] = 0.0
            reached += 1
        elif status == run_state.PAUSED:
            self.require_valid()
        if self._n_waiting and reached + self._n_waiting == len(active):
            self._compute_rows(active[reached:])
            self._n_waiting = 0
        return reached, n_new, n_new

    def _recorded(self, buffer: run_state.SpikeLog, n_entries: int) -> Spikes:
        return Spikes(buffer.times[:n_entries].copy(), buffer.neurons[:n_entries].copy())

    def _restart(self, copies: np.ndarray) -> None:
        run_state.restart(self._neurons, self._states, copies)

    def _compute_rows(self, copies: np.ndarray) -> None:
        """Compute the rows of weights for which copies wait, and rows that the copies will need soon."""
        neurons = self._neurons
        drive = np.maximum(neurons.bias[copies] + neurons.current[copies], 0.0)
        nearness = ((neurons.potential[copies] + drive * LOOK_AHEAD) / neurons.threshold).max(axis=0)
        missing = np.unique(self._states["missing"][copies])
        nearness[missing] = np.inf
        weights, at_most = self.network.weights, ROWS_PER_COPY * len(copies)
        try:
            weights.compute_rows(np.flatnonzero(nearness >= 1.0), at_most=at_most, priority=nearness)
        except MemoryError:  # the rows for which copies wait may still fit
            weights.compute_rows(missing)
        if self._checks_weights:
            require_moderate_weights(weights, neurons.threshold)
        self._form = weights.kernel_form

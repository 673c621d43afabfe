"""Runs from event to event: many copies of one network, exactly, with no time step."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from snn._kernels import run_state
from snn._kernels.engines import ENGINES
from snn._kernels.run_state import Neurons, Spikes
from snn.base import checks
from snn.network import RunnableNetwork, require_moderate_weights
from snn.state import NetworkState

UPDATES_PER_CALL = 30_000_000
"""Updates of a neuron after which a kernel returns to Python, a tenth of a second or so: Ctrl-C and a
progress bar work in between."""
LEAST_WORK_PER_CALL, MOST_WORK_PER_CALL = 16, 65_536
"""The same in spikes and windows."""
LOOK_AHEAD, ROWS_AT_ONCE = 2.0, 64
"""When a row of weights is missing, those of neurons that will fire within about this time are computed with
it, but no more than so many: one product of matrices costs little more than one of a matrix and a vector."""
LARGEST_GROWN_RATIO = 2.0**46
"""Currents beyond so many firing thresholds leave so few digits that rounding decides which neurons fire."""

LARGEST_BURST = 10_000_000
"""Spikes of a copy at once after which it is given up, a second's work or so: where thresholds differ by as
many orders of magnitude as atoms of extreme norms make them, one spike can cause 1e10 others."""
BURST_RATE = 10_000
"""Spikes in a synaptic time constant that do not count as part of a burst."""
SPIKES_PER_NEURON = 10
"""More of both for each neuron of the network."""

FIRST_LOOK = 16.0
"""Synaptic time constants within which a next spike is looked for at first, then twice as many, and so on."""

NO_TRACES = np.empty((2, 0, 0))
NO_MOMENTS = np.empty((0, 0, 3))
NO_TIMES, NO_NEURONS = np.empty(0), np.empty(0, dtype=np.int64)
NO_SPIKES = Spikes(NO_TIMES, NO_NEURONS)
CHANGING = ("potential", "current", "drift", "spike_counts", "trace", "last_spike", "moments")
"""The fields of `run_state.Neurons` that a run changes."""
BAR_FORMAT = "{l_bar}{bar}| {n:.1f}/{total:.1f} tau{postfix}"
NO_BAR = nullcontext()


class EventDrivenRun:
    """Copies of one network, each with its own drive, advanced together and exactly.

    This is what `simulate` and `Simulator` run one of, and batch solvers many of.  It checks no arguments.

    Parameters
    ----------
    network : SpikingNetwork, or another with its weights and thresholds
        Weights and thresholds; its soma bias is not used.  Anything else with these, and `n_neurons`, will
        do.
    soma_bias : ndarray, shape (n_copies, n_neurons)
        The drive of each copy.
    state : NetworkState or EventDrivenRun, optional
        Where every copy starts, or each where that of another run is; by default at rest.  Times of the run
        count from there.
    filter_spikes : bool, default False
        Keep the filtered spikes of every neuron.
    window_moments : bool, default False
        Keep the moments of the spike times of every neuron, for `snn.record.rates.smooth_rate_of_moments`.
    check_rows : bool, default False
        Refuse weights that are computed on demand and too large beside a threshold, as `SpikingNetwork` does.
    gives_up : bool, default False
        Where a copy fires `LARGEST_BURST` times faster than `BURST_RATE`, or its numbers leave their range,
        leave it there, and go on with the others: see `is_lost`.  Its own spikes alone decide on that, not
        those of other copies, nor when a call to the kernel ends.  Otherwise, it is an OverflowError where
        rounding decides which neurons fire.
    screening : bool, default True
        Let an active set of neurons be integrated spike by spike and the others be screened, where that pays.
        Without, all neurons are integrated: the same spikes to rounding.
    updates_per_call : int, default UPDATES_PER_CALL
        Updates of a neuron after which a call to the kernel ends; no bit depends on it.

    Attributes
    ----------
    time : ndarray, shape (n_copies,)
        Time since the start.
    membrane_potential, synaptic_current : ndarray, shape (n_copies, n_neurons)
        Where the copies are.
    spike_counts : ndarray of int, shape (n_copies, n_neurons)
        Spikes so far.
    n_emitted : int
        Spikes of all copies in the last call of `advance` or `step`.
    is_lost : ndarray of bool, shape (n_copies,)
        Copies that were given up, at the `time` up to which they ran; only where the run `gives_up`.
    """

    def __init__(
        self,
        network: RunnableNetwork,
        soma_bias: np.ndarray,
        state: NetworkState | EventDrivenRun | None = None,
        *,
        filter_spikes: bool = False,
        window_moments: bool = False,
        check_rows: bool = False,
        gives_up: bool = False,
        screening: bool = True,
        updates_per_call: int = UPDATES_PER_CALL,
    ) -> None:
        shape = soma_bias.shape
        n_neurons = shape[1]
        self.network = network
        self.membrane_potential, self.synaptic_current = np.zeros((2, *shape))
        self.spike_counts = np.zeros(shape, dtype=np.int64)
        drift = soma_bias.copy()
        traces = np.zeros((2, *shape)) if filter_spikes else NO_TRACES
        if state is not None:
            self.membrane_potential[:] = state.membrane_potential
            self.synaptic_current[:] = state.synaptic_current
            drift += self.synaptic_current
            if filter_spikes:
                traces[0] = getattr(state, "filtered_spikes", 0.0)
        self._neurons = Neurons(
            # Read-only, as all that kernels only read: they are compiled once for all callers.
            checks.read_only(soma_bias),
            checks.read_only(network.firing_threshold),
            self.membrane_potential,
            self.synaptic_current,
            drift,
            self.spike_counts,
            traces[0],
            traces[1],
            np.zeros((*shape, 3)) if window_moments else NO_MOMENTS,
        )
        self.n_emitted = 0
        self._checks_rows, self._gives_up = check_rows, gives_up
        self.is_lost = np.zeros(shape[0], dtype=np.bool_)
        self._states = run_state.new_states(shape[0])
        if gives_up:
            self._states["largest_burst"] = LARGEST_BURST + SPIKES_PER_NEURON * n_neurons
            self._states["burst_rate"] = BURST_RATE + SPIKES_PER_NEURON * n_neurons
        self.time = self._states["time"]
        weights = network.weights
        self._form = weights.kernel_form()
        self._engine = ENGINES[type(self._form)]
        self._settings = self._engine.settings_of(n_neurons, weights.work_per_spike, screening=screening)
        self._memory = self._engine.new_memory(self._form, n_neurons, self._settings)
        work = int(updates_per_call / max(weights.work_per_spike, 1.0))
        self._work_per_call = min(max(work, LEAST_WORK_PER_CALL), MOST_WORK_PER_CALL)

    @property
    def screened_time(self) -> np.ndarray:
        """For how long of it neurons were screened, shape (n_copies,)."""
        return self._states["screened_time"]

    @property
    def filtered_spikes(self) -> np.ndarray:
        """The synaptic trace of each neuron's own spikes, 1 a spike, falling as e^-t; shape (n_copies,
        n_neurons).

        Kept if `filter_spikes` is set.
        """
        return self._neurons.trace * np.exp(self._neurons.last_spike - self.time[:, np.newaxis])

    @property
    def window_moments(self) -> np.ndarray:
        """The sums of t^2, t^3 and t^4 over the times t of each neuron's spikes, since the start; shape
        (n_copies, n_neurons, 3).

        Kept if `window_moments` is set.
        """
        return self._neurons.moments

    def state(self, copy: int = 0, *, start_time: float = 0.0) -> NetworkState:
        """Return the state of one copy, whose numbers are in range."""
        return NetworkState.unchecked(
            # Rounding may leave a neuron that is about to fire a little above its threshold.
            np.minimum(self.membrane_potential[copy], self.network.firing_threshold),
            self.synaptic_current[copy].copy(),
            start_time + float(self.time[copy]),
        )

    def advance(
        self,
        time: float | np.ndarray,
        *,
        active: np.ndarray | None = None,
        record_spikes: bool = False,
        max_spikes: int | None = None,
        one_by_one: bool = False,
        to_the_spike: bool = False,
        progress: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Advance the copies `active` (default: all) to `time`, counted from where they started; a time for
        all, or one for each copy of the run.

        Stops early, with copies behind `time`, once more than `max_spikes` spikes were emitted: if it goes
        `one_by_one`, at the very spike, or at those of one instant; and `to_the_spike` as well, which goes
        back and one by one only where it has to stop.  Returns the times and neurons of the spikes, empty
        unless recorded.
        """
        if active is None:
            active = np.arange(len(self.time))
        return self._advance(
            time,
            active,
            self._engine.single_step(self._settings) if one_by_one else self._settings,
            record_spikes=record_spikes,
            max_spikes=max_spikes,
            to_the_spike=to_the_spike,
            progress=progress,
        )

    def restart(self, copies: np.ndarray) -> None:
        """Start some copies again at time zero, without currents.

        Before, the caller may change their rows of `membrane_potential`, and of the `soma_bias` that the run
        was made of.  Spikes go on being counted; filtered spikes and moments start anew.
        """
        run_state.restart(self._neurons, self._states, copies)

    def step(self) -> tuple[np.ndarray, np.ndarray]:
        """Advance the only copy to its next spike, if there will be one.

        Returns the times and neurons of the spikes of that instant, empty if there will be none.
        """
        settings = self._engine.single_step(self._settings)
        ahead = FIRST_LOOK
        while not self._is_silent():
            time = float(self.time[0]) + ahead
            if time == np.inf:  # nor will there be one within the range of numbers
                break
            times, neurons = self._advance(
                time, np.zeros(1, dtype=np.int64), settings, record_spikes=True, max_spikes=0
            )
            if len(times):
                return times, neurons
            ahead *= 2.0
        return NO_TIMES, NO_NEURONS

    def copy(self) -> EventDrivenRun:
        """Return a run that goes on from here by itself; the two must not run at the same time."""
        other = copy.copy(self)
        other._states = self._states.copy()
        other.time = other._states["time"]
        other.is_lost = self.is_lost.copy()
        other._neurons = self._neurons._replace(
            **{name: getattr(self._neurons, name).copy() for name in CHANGING}
        )
        other.membrane_potential = other._neurons.potential
        other.synaptic_current = other._neurons.current
        other.spike_counts = other._neurons.spike_counts
        return other

    def _go_back_to(self, other: EventDrivenRun) -> None:
        """Be again as a copy that was made of this run."""
        self._states[:] = other._states
        self.is_lost[:] = other.is_lost
        for name in CHANGING:
            getattr(self._neurons, name)[:] = getattr(other._neurons, name)

    def _is_silent(self) -> bool:
        """Whether no neuron of the only copy will ever fire, whatever the time."""
        potential, current = self.membrane_potential[0], self.synaptic_current[0]
        highest = potential + np.maximum(current, 0.0)
        return bool(((self._neurons.bias[0] <= 0.0) & (highest < self._neurons.threshold)).all())

    def _advance(
        self,
        time: float | np.ndarray,
        active: np.ndarray,
        settings: NamedTuple,
        *,
        record_spikes: bool,
        max_spikes: int | None,
        to_the_spike: bool = False,
        progress: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        # Not at each call of the kernel: then pausing would change bits.
        run_state.drop_negligible(self.synaptic_current)
        budget = self._work_per_call
        most_of_call = budget + self._engine.overshoot(self.network.n_neurons, settings)
        capacity = most_of_call if record_spikes else 0
        spikes = Spikes(np.empty(capacity), np.empty(capacity, dtype=np.int64)) if capacity else NO_SPIKES
        recorded_times, recorded_neurons = [NO_TIMES], [NO_NEURONS]
        position, n_spikes = 0, 0
        stop_times = np.empty(len(self.time))
        stop_times[:] = time
        with tqdm(total=time, unit="tau", bar_format=BAR_FORMAT) if progress else NO_BAR as bar:
            while position < len(active):
                if max_spikes is not None:
                    budget = min(budget, max_spikes - n_spikes + 1)
                    if budget <= 0:
                        break
                    if to_the_spike and n_spikes + most_of_call > max_spikes:
                        before, place = self.copy(), position
                status, position, n_new = self._engine.advance(
                    self._form, self._neurons, self._states, settings, self._memory, active, position,
                    stop_times, budget, spikes,
                )  # fmt: skip
                if to_the_spike and max_spikes is not None and n_spikes + n_new > max_spikes:
                    self._go_back_to(before)
                    position, to_the_spike = place, False
                    settings = self._engine.single_step(settings)
                    continue
                n_spikes += n_new
                if status == run_state.MISSING_ROW:
                    self._compute_rows(active[position])
                if status == run_state.BURST:
                    self._give_up(active[position])
                    position += 1
                elif status == run_state.PAUSED and not self._gives_up:
                    require_range(self.membrane_potential, self.synaptic_current, self._neurons.threshold)
                if record_spikes:
                    recorded_times.append(spikes.times[:n_new].copy())
                    recorded_neurons.append(spikes.neurons[:n_new].copy())
                if bar is not None:
                    bar.set_postfix_str(f"{n_spikes:,} spikes", refresh=False)
                    bar.update(float(self.time[active].min()) - bar.n)
        self.n_emitted = n_spikes
        if not record_spikes:
            return NO_TIMES, NO_NEURONS
        return np.concatenate(recorded_times), np.concatenate(recorded_neurons)

    def _give_up(self, copy: int) -> None:
        """Leave a copy where it is, or at rest where its numbers have left their range."""
        self.is_lost[copy] = True
        potential, current = self.membrane_potential[copy], self.synaptic_current[copy]
        if not (np.isfinite(potential).all() and np.isfinite(current).all()):
            potential[:] = current[:] = 0.0

    def _compute_rows(self, copy: int) -> None:
        """Have the row of weights computed that a copy waits for, and some that it will need soon."""
        neurons = self._neurons
        drive = np.maximum(neurons.bias[copy] + neurons.current[copy], 0.0)
        nearness = (neurons.potential[copy] + drive * LOOK_AHEAD) / neurons.threshold
        nearness[self._states["missing"][copy]] = np.inf
        weights = self.network.weights
        weights.prepare(np.flatnonzero(nearness >= 1.0), at_most=ROWS_AT_ONCE, priority=nearness)
        if self._checks_rows:
            require_moderate_weights(weights, neurons.threshold)
        self._form = weights.kernel_form()


def require_range(
    membrane_potential: np.ndarray, synaptic_current: np.ndarray, firing_threshold: np.ndarray
) -> None:
    """Raise OverflowError if copies of a network are where rounding decides which of their neurons fire."""
    is_finite, is_moderate = run_state.in_range(
        membrane_potential, synaptic_current, firing_threshold, LARGEST_GROWN_RATIO
    )
    if not is_finite:
        raise OverflowError("potentials or currents of the network have left the range of float64 numbers")
    if not is_moderate:
        raise OverflowError(
            f"currents of the network have grown beyond {LARGEST_GROWN_RATIO:.1g} firing thresholds, where "
            "rounding decides which neurons fire"
        )

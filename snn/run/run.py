"""Runs in any kind of time: a run advances copies of one network together, by repeated calls of a kernel."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from snn._kernels import run_state
from snn._kernels.stops import ADD_TO_CURRENT, ADD_TO_DRIVE, CHANGE, SET_DRIVE, SHOW_POTENTIALS, STOP, Stops
from snn.base import checks
from snn.network import NetworkState, RunnableNetwork, state_of
from snn.record.stimulus import ONTO_CURRENT, Stimulus

# Number of neuron updates after which a kernel returns to Python, after about a tenth of a second, so that
# Ctrl-C and the progress bar work.
UPDATES_PER_CALL = 30_000_000
# The largest synaptic current, in firing thresholds; beyond this current, rounding decides which neurons
# fire.
LARGEST_GROWN_RATIO = 2.0**46

NO_MOMENTS = np.empty((0, 0, 3))
BAR_FORMAT = "{l_bar}{bar}| {n:.1f}/{total:.1f} tau{postfix}"
NO_BAR = nullcontext()
NO_TARGETS, NO_AMOUNTS = checks.read_only(np.empty(0, dtype=np.int64)), checks.read_only(np.empty(0))
NEVER = run_state.new_records(1, CHANGE)
NEVER["instant"] = np.inf
NO_LOOKS = np.empty(0), np.empty((0, 0))


class Spikes(NamedTuple):
    """Recorded spikes of one call of `Run.advance`, copy by copy."""

    times: np.ndarray  # times of the spikes since the start of their copy
    neurons: np.ndarray
    messages: np.ndarray | None = None  # the number in each message of a digital run; None for other runs


NO_SPIKES = Spikes(np.empty(0), np.empty(0, dtype=np.int64))


class Run(ABC):
    """Copies of one network that are advanced together; each copy has its own drive.  See `start_run`."""

    time_step = 0.0
    # Names of the deviations of the neurons from the equations of `SpikingNetwork`, such as "leak, delays".
    departures = ""
    # The total charge that a spike brings, in units of its weight.
    gain = 1.0
    # At constant rates r, the synaptic current at the beginning of a step is current_per_rate * (W^T r).
    current_per_rate = 1.0

    def __init__(
        self,
        network: RunnableNetwork,
        soma_bias: np.ndarray,
        state: NetworkState | Run | None = None,
        *,
        window_moments: bool = False,
        filter_spikes: bool = False,
        burst_limit: run_state.BurstLimit | None = None,
        check_weights: bool = False,
        updates_per_call: int = UPDATES_PER_CALL,
    ) -> None:
        # The arrays have shape (n_copies, n_neurons).  The run writes the present drives to `soma_bias`.
        shape = soma_bias.shape
        self.network = network
        self.soma_bias = soma_bias if soma_bias.flags.writeable else soma_bias.copy()
        self._filters_spikes, self._checks_weights = filter_spikes, check_weights
        self._burst_limit, self._updates_per_call = burst_limit, updates_per_call
        # `_first_potential` and `_first_counts` are the potentials and counts at the start of each copy.
        potential, current, self._first_potential, self._first_counts = np.zeros((4, *shape))
        self.membrane_potential, self.synaptic_current = potential, current
        self.spike_counts = np.zeros(shape, dtype=np.int64)
        # The sums of t^2, t^3 and t^4 over the times of each neuron's spikes since the start.
        self.window_moments = np.zeros((*shape, 3)) if window_moments else NO_MOMENTS
        self.n_emitted = 0  # number of spikes in the last call of `advance`
        if state is not None:
            self.membrane_potential[:] = state.membrane_potential
            self.synaptic_current[:] = state.synaptic_current
            self._first_potential[:] = state.membrane_potential

    @property
    @abstractmethod
    def time(self) -> np.ndarray:
        """Time since the start of each copy, in synaptic time constants, shape (n_copies,)."""

    @property
    def n_steps(self) -> np.ndarray | None:
        """Number of steps since the start of each copy, shape (n_copies,); None for exact runs."""
        return None

    @property
    def is_lost(self) -> np.ndarray:
        """True for each copy that cannot continue and stays at its `time`, shape (n_copies,)."""
        return np.zeros(len(self.spike_counts), dtype=np.bool_)

    @property
    def charge(self) -> np.ndarray:
        """The integral of the soma currents since the start, shape (n_copies, n_neurons)."""
        return (self.membrane_potential - self._first_potential) + self._removed()

    @property
    def filtered_spikes(self) -> np.ndarray:
        """Synaptic trace of each neuron's own spikes, falling as e^-t, shape (n_copies, n_neurons)."""
        raise AttributeError("neurons in integers keep no filtered spikes")

    def advance(
        self,
        until: float | np.ndarray,
        *,
        active: np.ndarray | None = None,
        max_spikes: int | None = None,
        record: bool = False,
        progress: bool = False,
        stop_when: Callable[[], bool] | None = None,
        stimulus: Stimulus | None = None,
        origin: float = 0.0,
        looks: tuple[np.ndarray, np.ndarray] = NO_LOOKS,
    ) -> Spikes:
        """Advance copies to `until`, one time or a time for each copy; on a clock, to the last whole step."""
        # `origin` is the time of the stimulus at the start of the copies.  `looks` has an array of times, and
        # an array with a row for each time, to which the kernel writes the potentials of the only copy.
        active = np.arange(len(self.spike_counts)) if active is None else np.array(active, dtype=np.int64)
        most = sys.maxsize if max_spikes is None else max_spikes
        buffer = self._begin(record)
        recorded: list[Spikes] = []
        n_spikes, is_stopped = 0, False
        with tqdm(total=until, unit="tau", bar_format=BAR_FORMAT) if progress else NO_BAR as bar:
            stops, position = self._stops(until, stimulus, origin, looks), 0
            while position < len(active) and n_spikes <= most and not is_stopped:
                position, n_new, n_entries = self._call(active, position, stops, most - n_spikes, buffer)
                n_spikes += n_new
                if record and (n_entries or not recorded):
                    recorded.append(self._recorded(buffer, n_entries))
                if bar is not None:
                    bar.set_postfix_str(f"{n_spikes:,} spikes", refresh=False)
                    bar.update(float(self.time[active].min()) - bar.n)
                is_stopped = stop_when is not None and stop_when()
        self.n_emitted = n_spikes
        if len(recorded) < 2:
            return recorded[0] if recorded else NO_SPIKES
        columns = [column for column in zip(*recorded, strict=True) if column[0] is not None]
        return Spikes(*map(np.concatenate, columns))

    def _stops(
        self, until: float | np.ndarray, stimulus: Stimulus | None, origin: float, looks: Any = NO_LOOKS
    ) -> Stops:
        """Return the times at which copies stop, and the changes at these times, as a record for kernels."""
        n_copies, (times, seen) = len(self.soma_bias), looks
        copies = run_state.new_records(n_copies, STOP)
        copies["end"] = until
        changes, targets, amounts = NEVER, NO_TARGETS, NO_AMOUNTS
        if stimulus is not None:
            changes, targets, amounts = self._changes_of(stimulus, origin, np.min(until))
        if len(times):
            added = np.repeat(NEVER, len(times))
            added["instant"], added["kind"], added["first"] = times, SHOW_POTENTIALS, np.arange(len(times))
            # The sort is stable, so that potentials are copied after all changes at their instant.
            changes = np.concatenate([changes[:-1], added, NEVER]).view(type(NEVER))
            changes = changes[np.argsort(changes["instant"], kind="stable")]
        return Stops(copies, changes, targets, amounts, seen)

    def _changes_of(
        self, stimulus: Stimulus, origin: float, end: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the changes of a stimulus, and the target and size of each amount."""
        n_neurons = self.soma_bias.shape[1]
        # Each change of a stimulus has a row of amounts.  The rows of input spikes follow the rows of drives.
        drives = NO_AMOUNTS if stimulus.drive is None else stimulus.drive.reshape(-1)
        weights = self._inputs_of(stimulus)
        n_drives, kind = len(drives) // n_neurons, ADD_TO_DRIVE
        times: Any = stimulus.drive_times
        targets = np.tile(np.arange(n_neurons), n_drives)
        starts, rows, amounts = n_neurons * np.arange(n_drives + 1), np.arange(n_drives), drives
        if stimulus.spikes is not None:
            kind = ADD_TO_CURRENT if stimulus.onto == ONTO_CURRENT else ADD_TO_DRIVE
            targets = np.concatenate([targets, weights.indices])
            amounts = np.concatenate([drives, weights.data])
            starts = np.concatenate([starts[:-1], len(drives) + weights.indptr])
            rows = np.concatenate([rows, n_drives + stimulus.spikes.neurons])
            times = stimulus.spikes.times if n_drives == 0 else np.concatenate([times, stimulus.spikes.times])
        # By rounding, a change at the end of a run may be a little after the end.
        instants = np.minimum(self.instants_of(times, origin), end)
        # At one instant, drives change before input spikes arrive; of several drives, the last drive remains.
        order = np.argsort(instants, kind="stable")
        changes, rows = np.repeat(NEVER, len(order) + 1), rows[order]
        changes["instant"][:-1] = instants[order]
        changes["kind"][:-1] = np.where(rows < n_drives, SET_DRIVE, kind)
        changes["first"][:-1], changes["last"][:-1] = starts[rows], starts[rows + 1]
        return changes, checks.read_only(targets), checks.read_only(amounts)

    def instants_of(self, times: np.ndarray, origin: float) -> np.ndarray:
        """Return the times since `origin` at which changes act; on a clock, the ends of steps."""
        return times - origin

    def advance_through(self, stops: Callable[[], tuple[Any, ...]], active: np.ndarray) -> None:
        """Advance copies from stop to stop within the kernel, until each copy is done or lost."""
        # If copies are restarted on the way, `charge` and `n_emitted` have no meaning.
        active, position, buffer = np.array(active, dtype=np.int64), 0, self._begin(record=False)
        while position < len(active):
            position, _, _ = self._call(active, position, stops(), sys.maxsize, buffer)

    def restart(self, copies: np.ndarray) -> None:
        """Restart copies at time zero with their present potentials, currents and drives."""
        # The counts of spikes are kept; charge, filtered spikes and moments become zero.
        # Indexing by a slice takes a tenth of the time of indexing by an array of one copy.
        rows = slice(None) if len(copies) == len(self.spike_counts) == 1 else copies
        self._first_counts[rows] = self.spike_counts[rows]
        self._restart(copies)
        self._first_potential[rows] = self.membrane_potential[rows]

    def state(self, copy: int = 0, *, time: float | None = None) -> NetworkState:
        """Return the state of one copy, whose potentials and currents must be finite."""
        current = self.synaptic_current[copy].copy()
        return state_of(self._potential_of(copy), current, float(self.time[copy]) if time is None else time)

    def require_valid(self) -> None:
        """Raise an error if potentials or currents are no longer reliable."""
        if self._burst_limit is not None:  # the kernel itself gives up copies that are out of range
            return
        threshold = checks.read_only(self.network.firing_threshold)
        is_finite, is_moderate = run_state.in_range(
            self.membrane_potential, self.synaptic_current, threshold, LARGEST_GROWN_RATIO
        )
        if not is_finite:
            raise OverflowError(
                "potentials or currents of the network have left the range of float64 numbers: lower the "
                "weights or the drive"
            )
        if not is_moderate:
            raise OverflowError(
                f"currents of the network have grown beyond {LARGEST_GROWN_RATIO:.1g} firing thresholds, "
                "where rounding decides which neurons fire: lower the weights or the drive"
            )

    # Each kind of run defines the following methods, and `time` and `filtered_spikes`.

    @abstractmethod
    def _begin(self, record: bool) -> Any:
        """Return memory for the spikes of one call of the kernel; its size is zero if none are recorded."""

    @abstractmethod
    def _call(
        self, active: np.ndarray, position: int, stops: Any, most: int, buffer: Any
    ) -> tuple[int, int, int]:
        """Call the kernel once for active[position:]; return (next position, spikes, entries recorded)."""
        # A run that records no spikes and has no limit of spikes may reorder active[position:].

    @abstractmethod
    def _recorded(self, buffer: Any, n_entries: int) -> Spikes:
        """Return a copy of the spikes in the buffer."""

    @abstractmethod
    def _restart(self, copies: np.ndarray) -> None:
        """Set all numbers except potentials, currents, drives and counts to their values at time zero."""

    def _inputs_of(self, stimulus: Stimulus) -> Any:
        """Return the sparse weights of input spikes in the units of the kernel; None without input spikes."""
        return stimulus.weights

    def _potential_of(self, copy: int) -> np.ndarray:
        """Return the potentials of one copy, without potentials that exceed thresholds only by rounding."""
        # A refractory neuron, or a neuron in a runaway, may be far above its threshold and keeps its charge.
        potential = self.membrane_potential[copy].copy()
        run_state.settle(potential, checks.read_only(self.network.firing_threshold))
        return potential

    def _removed(self) -> np.ndarray:
        """Return the charge that resets took since the start: one threshold for each spike."""
        return self.network.firing_threshold * (self.spike_counts - self._first_counts)

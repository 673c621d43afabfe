"""Runs of any kind of time: copies of one network that are advanced together, and the loop over kernels."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from tqdm import tqdm

from snn._kernels import run_state
from snn.digital.network import DigitalNetwork
from snn.digital.registers import Registers
from snn.network import NetworkState, RunnableNetwork
from snn.record.stimulus import Stimulus
from snn.run.changes import stops_of

UPDATES_PER_CALL = 30_000_000
"""Updates of a neuron after which a kernel returns to Python, a tenth of a second or so: Ctrl-C and a
progress bar work in between."""
LARGEST_GROWN_RATIO = 2.0**46
"""Largest synaptic current, in firing thresholds.  Above it, rounding decides which neurons fire."""

ROUNDING_OF_POTENTIALS = 1e-9
"""Shares of a threshold by which rounding may leave a potential above it."""

NO_MOMENTS = np.empty((0, 0, 3))
BAR_FORMAT = "{l_bar}{bar}| {n:.1f}/{total:.1f} tau{postfix}"
NO_BAR = nullcontext()


class Spikes(NamedTuple):
    """Spikes of a call of `Run.advance`, copy by copy."""

    times: np.ndarray
    """Since each copy was started."""
    neurons: np.ndarray
    messages: np.ndarray | None = None
    """What each spike of a digital run says; None of other runs."""


NO_SPIKES = Spikes(np.empty(0), np.empty(0, dtype=np.int64))


class Run(ABC):
    """Copies of one network, each with its own drive, advanced together: what `Time.start` makes."""

    time_step = 0.0
    # The charge that a spike brings in all, in units of its weight.
    gain = 1.0
    # Synaptic current at the beginning of a step, for one unit of the currents of constant rates, W^T r.
    current_per_rate = 1.0
    # The network in integers, if it is one.
    integers: DigitalNetwork | None = None

    def __init__(
        self,
        how: Time[Any],
        network: RunnableNetwork,
        soma_bias: np.ndarray,
        state: NetworkState | Run | None = None,
        *,
        window_moments: bool = False,
        filter_spikes: bool = False,
        gives_up: bool = False,
        check_weights: bool = False,
        updates_per_call: int = UPDATES_PER_CALL,
    ) -> None:
        # All arrays have shape (n_copies, n_neurons); `soma_bias` is not copied, and has the drives of now.
        shape = soma_bias.shape
        self.network, self.soma_bias = network, soma_bias
        self._filters_spikes, self._gives_up, self._checks_weights = filter_spikes, gives_up, check_weights
        self._updates_per_call = updates_per_call
        # Of the three the last is that when each copy was started; so are the counts, zero until a restart.
        self.membrane_potential, self.synaptic_current, self._first_potential = np.zeros((3, *shape))
        self._first_counts: np.ndarray | None = None
        self.spike_counts = np.zeros(shape, dtype=np.int64)
        # The sums of t^2, t^3 and t^4 over the times of each neuron's spikes since the start.
        self.window_moments = np.zeros((*shape, 3)) if window_moments else NO_MOMENTS
        # Spikes of the last call of `advance`.
        self.n_emitted = 0
        if state is not None:
            self.membrane_potential[:] = state.membrane_potential
            self.synaptic_current[:] = state.synaptic_current
            self._first_potential[:] = state.membrane_potential

    @property
    @abstractmethod
    def time(self) -> np.ndarray:
        """Time since each copy was started, in synaptic time constants, shape (n_copies,)."""

    @property
    def n_steps(self) -> np.ndarray | None:
        """Steps since each copy was started, shape (n_copies,); None of exact runs."""
        return None

    @property
    def total_steps(self) -> np.ndarray | None:
        """As `n_steps`, those before a restart included."""
        return None

    @property
    def is_lost(self) -> np.ndarray:
        """Copies that cannot go on, bool, shape (n_copies,); they stay at their `time`."""
        return np.zeros(len(self.spike_counts), dtype=np.bool_)

    @property
    def charge(self) -> np.ndarray:
        """The integral of the soma currents since the start, shape (n_copies, n_neurons)."""
        return (self.membrane_potential - self._first_potential) + self._removed()

    @property
    def filtered_spikes(self) -> np.ndarray:
        """Synaptic trace of each neuron's own spikes, falling as e^-t, shape (n_copies, n_neurons)."""
        raise ValueError(f"{type(self).__name__} keeps no filtered spikes")

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
    ) -> Spikes:
        """Advance copies to times, on a clock to the last step that ends by then; `until` may be an array.

        A stimulus is in a time in which copies were started at `origin`.
        """
        # A kind of run may change their order.
        active = np.arange(len(self.spike_counts)) if active is None else np.array(active, dtype=np.int64)
        most = sys.maxsize if max_spikes is None else max_spikes
        buffer = self._begin(record)
        recorded: list[Spikes] = []
        n_spikes, is_stopped = 0, False
        with tqdm(total=until, unit="tau", bar_format=BAR_FORMAT) if progress else NO_BAR as bar:
            stops, position = stops_of(self, until, stimulus, origin), 0
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
        return _joined(recorded) if recorded else NO_SPIKES

    def instants_of(self, times: np.ndarray) -> np.ndarray:
        """Return when changes at these times since the start act: at once, or at the end of a step."""
        return times

    def advance_through(self, stops: Callable[[], tuple[Any, ...]], active: np.ndarray) -> None:
        """Advance copies from stop to stop within the kernel, until each is done or lost."""
        # Where copies start again on the way, `charge` and `n_emitted` are not meaningful.
        active, position, buffer = np.array(active, dtype=np.int64), 0, self._begin(record=False)
        while position < len(active):
            position, _, _ = self._call(active, position, stops(), sys.maxsize, buffer)

    def input_weights(self, stimulus: Stimulus) -> Any:
        """Return the weights of input spikes as this run takes them, shape (n_sources, n_neurons)."""
        return stimulus.weights

    def registers(self, spike_messages: np.ndarray | None) -> Registers | None:
        """Return the integers of the first copy, None of real numbers."""
        return None

    def restart(self, copies: np.ndarray) -> None:
        """Start some copies again at time zero, from potentials, currents and drives as they are now."""
        # Spikes go on being counted; charge, filtered spikes and moments start anew.
        if self._first_counts is None:
            self._first_counts = np.zeros_like(self.spike_counts)
        # A slice takes a tenth of the time of a list of one copy.
        rows = slice(None) if len(copies) == len(self.spike_counts) == 1 else copies
        self._first_counts[rows] = self.spike_counts[rows]
        self._restart(copies)
        self._first_potential[rows] = self.membrane_potential[rows]

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._link()

    def state(self, copy: int = 0, *, time: float | None = None) -> NetworkState:
        """Return the state of one copy, whose numbers are in range."""
        potential, threshold = self.membrane_potential[copy], self.network.firing_threshold
        # Rounding may leave a neuron that is about to fire a little above its threshold; one that was
        # refractory is further above, and that is its state.
        is_rounding = potential <= threshold * (1.0 + ROUNDING_OF_POTENTIALS)
        return NetworkState.unchecked(
            np.where(is_rounding, np.minimum(potential, threshold), potential),
            self.synaptic_current[copy].copy(),
            float(self.time[copy]) if time is None else time,
        )

    def require_valid(self) -> None:
        """Raise an error if potentials or currents are no longer reliable."""
        is_finite, is_moderate = run_state.in_range(
            self.membrane_potential, self.synaptic_current, self.network.firing_threshold, LARGEST_GROWN_RATIO
        )
        if not is_finite:
            raise OverflowError(
                "potentials or currents of the network have left the range of float64 numbers"
            )
        if not is_moderate:
            raise OverflowError(
                f"currents of the network have grown beyond {LARGEST_GROWN_RATIO:.1g} firing thresholds, "
                "where rounding decides which neurons fire"
            )

    # What a kind of run supplies, besides `time`, and `filtered_spikes` where it keeps them.

    @abstractmethod
    def _begin(self, record: bool) -> Any:
        """Return memory for the spikes of one call of the kernel, of size zero if none are recorded."""

    @abstractmethod
    def _call(
        self, active: np.ndarray, position: int, stops: Any, most: int, buffer: Any
    ) -> tuple[int, int, int]:
        """Call the kernel once for active[position:]; return where to go on, spikes, entries recorded."""
        # Without a buffer and a limit, the order of these copies may be changed.

    @abstractmethod
    def _recorded(self, buffer: Any, n_entries: int) -> Spikes:
        """Return a copy of the spikes in the buffer."""

    def _link(self) -> None:  # noqa: B027
        """Have the kernel read drive, thresholds and weights of this run, and not those of another."""

    @abstractmethod
    def _restart(self, copies: np.ndarray) -> None:
        """Set all that changes, but for potentials and counts of spikes, to what it is at time zero."""

    def _removed(self) -> np.ndarray:
        """Return the charge that resets took since the start: a threshold a spike."""
        counts = self.spike_counts if self._first_counts is None else self.spike_counts - self._first_counts
        return self.network.firing_threshold * counts


def _joined(parts: list[Spikes]) -> Spikes:
    if len(parts) == 1:
        return parts[0]
    messages = [part.messages for part in parts if part.messages is not None]
    return Spikes(
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.neurons for part in parts]),
        np.concatenate(messages) if messages else None,
    )


R_co = TypeVar("R_co", bound=Run, covariant=True)


class Time(ABC, Generic[R_co]):
    """How time passes in a run of a network.

    Attributes
    ----------
    time_step : float or None
        Length of a step, in synaptic time constants; None of exact time.
    is_digital : bool
        Whether neurons are integers.
    departures : str
        In which ways neurons depart from the equations of `SpikingNetwork`, such as "leak, delays".
    """

    time_step: float | None = None
    is_digital = False

    @property
    def departures(self) -> str:
        """ "" unless a kind of time says otherwise."""
        return ""

    @abstractmethod
    def start(
        self, network: RunnableNetwork, soma_bias: np.ndarray, state: Any = None, **options: Any
    ) -> R_co:
        """Start copies of a network, each with its own drive.

        Parameters
        ----------
        network, soma_bias, state, **options
            As of `Run`; not checked.
        """

    def prepare(self, network: RunnableNetwork) -> Time[R_co]:
        """Return a time that starts runs of one network faster; what takes long is done here, once.

        Parameters
        ----------
        network : SpikingNetwork, or another with its weights and thresholds
            The network of all runs to come.
        """
        return self

    def end_of(self, duration: float) -> float:
        """Return the time at which a run of this duration ends; it may differ from `duration` by rounding.

        Parameters
        ----------
        duration : float
            Positive.
        """
        return duration

"""Results of a run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.drawn import Drawn
from snn.base.html import number, value_range
from snn.base.locks import cached_property
from snn.network import SpikingNetwork
from snn.record.operations import OperationCounts, clocked_operations, exact_operations
from snn.record.windows import smooth_rate_of_moments
from snn.state import NetworkState

if TYPE_CHECKING:
    from snn.digital import DigitalResult
    from snn.record.stimulus import Stimulus


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SpikeTrain(Drawn):
    """The spikes of n neurons in an interval of time.

    Parameters
    ----------
    times : array_like, shape (n_spikes,)
        In synaptic time constants, not decreasing.
    neurons : array_like of int, shape (n_spikes,)
        The neuron that fired each spike.
    n_neurons : int
        Number of neurons of the network.
    start, stop : float
        The interval that was recorded.
    is_imperfect : bool, default False
        The neurons had `Imperfections`, or lost charge in a reset to zero: potentials and currents cannot be
        rebuilt from these spikes.
    """

    times: np.ndarray
    neurons: np.ndarray
    n_neurons: int
    start: float
    stop: float
    is_imperfect: bool = False

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(
            self,
            *,
            times: ArrayLike,
            neurons: ArrayLike,
            n_neurons: int,
            start: float,
            stop: float,
            is_imperfect: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        times, neurons = np.asarray(self.times), np.asarray(self.neurons)
        if times.size and times.dtype.kind not in "fiu":
            raise TypeError(f"times must be an array of real numbers; got dtype {times.dtype}")
        if neurons.size and neurons.dtype.kind not in "iu":
            raise TypeError(f"neurons must be an array of integers; got dtype {neurons.dtype}")
        times = np.ascontiguousarray(times, dtype=np.float64)
        neurons = np.ascontiguousarray(neurons, dtype=np.int64)
        n_neurons = checks.positive_integer("n_neurons", self.n_neurons)
        start, stop = checks.real_number("start", self.start), checks.real_number("stop", self.stop)
        if times.ndim != 1 or neurons.shape != times.shape:
            raise ValueError(
                f"times and neurons must be 1-D, of one length; got shapes {times.shape} and {neurons.shape}"
            )
        if stop < start:
            raise ValueError(f"stop must not be before start; got {stop} and {start}")
        if len(times):
            if not (times[:-1] <= times[1:]).all() or not (start <= times[0] and times[-1] <= stop):
                raise ValueError(f"times must not decrease and lie in [start, stop] = [{start}, {stop}]")
            if neurons.min() < 0 or neurons.max() >= n_neurons:
                raise ValueError(
                    f"neurons must lie in [0, {n_neurons}); got {neurons.min()} to {neurons.max()}"
                )
        object.__setattr__(self, "times", checks.read_only(times))
        object.__setattr__(self, "neurons", checks.read_only(neurons))
        object.__setattr__(self, "n_neurons", n_neurons)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "stop", stop)

    def __len__(self) -> int:
        return len(self.times)

    def of(self, neuron: int) -> np.ndarray:
        """Return the spike times of one neuron."""
        return self.times[self.neurons == checks.index("neuron", neuron, self.n_neurons)]

    def counts(self, *, start: float | None = None, stop: float | None = None) -> np.ndarray:
        """Return how often each neuron fired in (start, stop], shape (n_neurons,)."""
        first, last = 0, len(self)
        if start is not None:
            first = int(np.searchsorted(self.times, checks.real_number("start", start), side="right"))
        if stop is not None:
            last = int(np.searchsorted(self.times, checks.real_number("stop", stop), side="right"))
        return np.bincount(self.neurons[first:last], minlength=self.n_neurons)

    def cumulative_counts(self, times: np.ndarray, *, start: float | None = None) -> np.ndarray:
        """Return how often each neuron fired in (start, t] for each t, shape (n_times, n_neurons).

        `times` must not decrease; without a `start`, spikes count from the first of the record.
        """
        first = 0 if start is None else np.searchsorted(self.times, start, side="right")
        edges = np.concatenate([[first], np.searchsorted(self.times, times, side="right")])
        counts = np.empty((len(times), self.n_neurons), dtype=np.int64)
        for row, (begin, end) in enumerate(pairwise(edges)):
            counts[row] = np.bincount(self.neurons[begin:end], minlength=self.n_neurons)
        return np.cumsum(counts, axis=0)

    def _facts(self) -> dict[str, str]:
        return {
            "spikes": number(len(self)),
            "neurons": number(self.n_neurons),
            "time": f"{self.start:.6g} to {self.stop:.6g}",
        }


def require_record(spikes: Any) -> None:
    """Raise TypeError unless these are recorded spikes; of a run, and of None, say where they are."""
    if spikes is None:
        raise TypeError("spikes must be a SpikeTrain; got None: run the network with record_spikes=True")
    hint = ""
    if hasattr(spikes, "spikes"):
        hint = ": pass run.spikes"
        if spikes.spikes is None:
            hint = f"{hint}, of a run with record_spikes=True"
    checks.instance_of("spikes", spikes, SpikeTrain, hint=hint)


def require_perfect_record(spikes: Any, network: SpikingNetwork) -> None:
    """Raise TypeError or ValueError unless potentials of a network can be rebuilt from these spikes."""
    require_record(spikes)
    if spikes.n_neurons != network.n_neurons:
        raise ValueError(f"spikes are of {spikes.n_neurons} neurons but the network has {network.n_neurons}")
    if spikes.is_imperfect:
        raise ValueError(
            "spikes must be of neurons without Imperfections or a reset to zero, by which potentials are not "
            "rebuilt; got a record of such neurons: end the run at the time wanted, and read its state"
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SimulationResult(Drawn):
    """Result of `simulate` and `simulate_clocked`.

    Attributes
    ----------
    network : SpikingNetwork
        The network that ran.
    duration : float
        Length of this run, in synaptic time constants.
    spike_counts : ndarray of int, shape (n_neurons,)
        Spikes of each neuron in this run.
    average_soma_current : ndarray, shape (n_neurons,)
        u: the mean of the soma current mu over this run.
    window_moments : ndarray, shape (n_neurons, 3)
        The sums of t^2, t^3 and t^4 over each neuron's spikes, of times since this run began.
    state : NetworkState
        State of the network at the end; pass it to the next run.
    spikes : SpikeTrain or None
        Every spike, when they were recorded.
    n_steps : int or None
        Steps of the clock; None of an exact run.
    stimulus : Stimulus or None
        What reached the network from outside while it ran.  `network` has the drive from before.
    """

    network: SpikingNetwork
    duration: float
    spike_counts: np.ndarray
    average_soma_current: np.ndarray
    window_moments: np.ndarray
    state: NetworkState
    spikes: SpikeTrain | None
    n_steps: int | None = None
    stimulus: Stimulus | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "spike_counts", checks.read_only(self.spike_counts))
        object.__setattr__(self, "average_soma_current", checks.read_only(self.average_soma_current))
        object.__setattr__(self, "window_moments", checks.read_only(self.window_moments))

    @property
    def spike_rate(self) -> np.ndarray:
        """a: spikes per unit of time over this run, shape (n_neurons,)."""
        if self.duration == 0.0:  # a runaway within its first instant
            return np.where(self.spike_counts > 0, np.inf, 0.0)
        return self.spike_counts / self.duration

    @property
    def smooth_rate(self) -> np.ndarray:
        """Rates through a smooth window over this run, without recorded spikes; shape (n_neurons,).

        See `snn.record.rates.smooth_rate`.
        """
        return smooth_rate_of_moments(self.window_moments, self.duration)

    @property
    def n_spikes(self) -> int:
        """Spikes of all neurons."""
        return int(self.spike_counts.sum())

    @cached_property
    def operations(self) -> OperationCounts:
        """What the network did in this run: spikes, synaptic operations, updates of neurons.

        Deliveries of input spikes are synaptic operations too.
        """
        n_inputs = 0 if self.stimulus is None else self.stimulus.n_deliveries()
        if self.n_steps is None:
            return exact_operations(self.network.weights, self.spike_counts, self.duration, n_inputs)
        return clocked_operations(self.network.weights, self.spike_counts, self.n_steps, n_inputs)

    def _facts(self) -> dict[str, str]:
        clock = {} if self.n_steps is None else {"steps of the clock": number(self.n_steps)}
        stimulus = {} if self.stimulus is None else {"changes from outside": number(len(self.stimulus.times))}
        return {**run_facts(self), **clock, **stimulus, **known_operations(self)}


def run_facts(result: SimulationResult | DigitalResult) -> dict[str, str]:
    """Return what exact, clocked and digital runs say of themselves alike."""
    return {
        "neurons": number(len(result.spike_counts)),
        "duration": f"{result.duration:.6g} synaptic time constants",
        "spikes": f"{number(result.n_spikes)}, {'not ' if result.spikes is None else ''}recorded",
        "neurons that fired": number(int(np.count_nonzero(result.spike_counts))),
        "spike rates": value_range(result.spike_rate),
    }


def known_operations(result: SimulationResult | DigitalResult) -> dict[str, str]:
    """Return the synaptic operations of a run, if they were counted before."""
    if "operations" not in vars(result):
        return {}
    return {"synaptic operations": number(int(result.operations.total().synaptic_operations))}


class RunawayError(RuntimeError):
    """A network emitted more spikes than `max_spikes` before its run ended.

    Attributes
    ----------
    result : SimulationResult or DigitalResult
        The run up to the last spike.
    """

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        # By default exceptions are pickled with their message alone, without the result.
        return type(self), (self.args[0], self.result)


def runaway_error(result: SimulationResult | DigitalResult, max_spikes: int, by_drive: float) -> RunawayError:
    """Return the error of a run that stopped because it had too many spikes."""
    busiest = np.argsort(-result.spike_counts, kind="stable")[:3]
    named = ", ".join(
        f"{int(i)} ({int(result.spike_counts[i]):,} spikes)" for i in busiest if result.spike_counts[i]
    )
    return RunawayError(
        f"the network emitted more than max_spikes = {max_spikes:,} spikes within {result.duration:.6g} time "
        f"constants; most active are neurons {named}: lateral excitation outruns the firing thresholds, or "
        f"max_spikes is too small for this run, in which the drive alone would cause up to {by_drive:.3g} "
        "spikes",
        result,
    )

"""The result of a run, and the error of a run that emits too many spikes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from snn.base.describe import Drawn
from snn.base.value import Value, cached_property
from snn.digital.digital_network import Registers
from snn.network import NetworkState, SpikingNetwork
from snn.record.operations import OperationCounts
from snn.record.record import Record
from snn.record.spikes import SpikeTrain, smooth_rate_of_moments
from snn.record.stimulus import Stimulus, n_deliveries


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SimulationResult(Value, Drawn):
    """Result of `simulate`.

    Attributes
    ----------
    network : SpikingNetwork
        The network that ran; with mismatch, it has the thresholds and weights that were drawn.
    duration : float
        Length of this run, in synaptic time constants.
    spike_counts : ndarray of int, shape (n_neurons,)
        Number of spikes of each neuron in this run; for neurons in integers, the number of messages.
    average_soma_current : ndarray, shape (n_neurons,)
        u: the mean of the soma current mu over this run.  It includes charge that leaked away, or that the
        neuron refused while it was refractory.
    window_moments : ndarray, shape (n_neurons, 3)
        Sums of t^2, t^3 and t^4 over the spikes of each neuron, with t the time since this run began.
    start : NetworkState
        State of the network at the beginning.
    state : NetworkState
        State of the network at the end; pass it to the next run.
    spikes : SpikeTrain or None
        All spikes if ``record_spikes=True``; the spikes of a clock are at the ends of their steps.  Otherwise
        None, because only counts of spikes are kept.
    potentials : ndarray, shape (n_times, n_neurons), or None
        Potentials at the times ``potential_times``; NaN at times after the end of a runaway.
    n_steps : int or None
        Number of clock steps; None for an exact run.
    stimulus : Stimulus or None
        Input from outside during the run; `network` has the drive before the first change.
    registers : Registers or None
        The integers of a run in a `DigitalFormat`.
    """

    network: SpikingNetwork
    duration: float
    spike_counts: np.ndarray
    average_soma_current: np.ndarray
    window_moments: np.ndarray
    start: NetworkState
    state: NetworkState
    spikes: SpikeTrain | None
    potentials: np.ndarray | None = None
    n_steps: int | None = None
    stimulus: Stimulus | None = None
    registers: Registers | None = None

    _shown: ClassVar = (
        "duration", "n_spikes", "spike_counts", "spike_rate", "n_steps", "stimulus", "registers",
    )  # fmt: skip

    @property
    def spike_rate(self) -> np.ndarray:
        """a: spikes per unit of time over this run, shape (n_neurons,).

        For neurons in integers, a message counts as the number of spikes that the message stands for.
        """
        if self.registers is not None:
            return self.registers.messages * self.registers.network.message_value / self.duration
        if self.duration == 0.0:  # the run ended in its first instant, by a `RunawayError`
            return np.where(self.spike_counts > 0, np.inf, 0.0)
        return self.spike_counts / self.duration

    @property
    def smooth_rate(self) -> np.ndarray:
        """Spike rates, weighted by a smooth window over this run, shape (n_neurons,).

        `SpikeTrain.smooth_rate` has the equation.  The spikes of the run need not be recorded.
        """
        return smooth_rate_of_moments(self.window_moments, self.duration)

    @property
    def thresholded_current(self) -> np.ndarray:
        """max(u, 0) / theta, with u the average soma current of the run, shape (n_neurons,).

        The thresholded current is the sparsest read-out: neurons with a negative mean current are exactly
        zero, even if they fired at first.  The difference to the rate is at most C / t for some constant C
        (Tang, Lin and Davies, equation 8).
        """
        return np.maximum(self.average_soma_current, 0.0) / self.network.firing_threshold

    @property
    def record(self) -> Record:
        """The `Record` of a run with recorded spikes, which has potentials and currents at any time."""
        return Record(self.network, self.spikes, self.start, self.stimulus)  # type: ignore[arg-type]

    @property
    def n_spikes(self) -> int:
        """Number of spikes of all neurons."""
        return int(self.spike_counts.sum())

    @cached_property
    def operations(self) -> OperationCounts:
        """Operations of the network in this run: spikes, synaptic operations, neuron updates.

        Deliveries of input spikes count as synaptic operations; deliveries by weights rounded to zero do not.
        """
        fired = np.flatnonzero(self.spike_counts)
        if self.registers is None:
            degrees = self.network.weights.out_degrees(fired)
        else:
            degrees = self.registers.network.out_degree[fired]
        deliveries = int(self.spike_counts[fired] @ degrees)
        n_neurons = self.network.n_neurons
        return OperationCounts(
            spikes=self.n_spikes,
            synaptic_operations=deliveries + n_deliveries(self.stimulus),
            neuron_updates=n_neurons * (self.n_steps or 0),
            neuron_time=n_neurons * self.duration if self.n_steps is None else 0.0,
        )


class RunawayError(RuntimeError):
    """A network emitted more spikes than `max_spikes` before its run ended.

    Attributes
    ----------
    result : SimulationResult
        The run up to the last spike.
    """

    def __init__(self, result: SimulationResult, max_spikes: int, by_drive: float) -> None:
        super().__init__(result, max_spikes, by_drive)
        self.result = result

    def __str__(self) -> str:
        result, max_spikes, by_drive = self.args
        counts = result.spike_counts
        busiest = [i for i in np.argsort(-counts, kind="stable")[:3].tolist() if counts[i]]
        named = ", ".join(f"{i} ({counts[i]:,} spikes)" for i in busiest)
        return (
            f"the network emitted more than max_spikes = {max_spikes:,} spikes within {result.duration:.6g} "
            f"time constants; most active are neurons {named}: lateral excitation exceeds the firing "
            "thresholds, or max_spikes is too small for this run: the drive without lateral weights would "
            f"cause up to {by_drive:.3g} spikes"
        )

"""One run of a digital network: the public function."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from snn.base import checks
from snn.base.describe import Drawn
from snn.base.value import Value
from snn.digital.network import DigitalNetwork
from snn.digital.state import DigitalState
from snn.digital.time import Integers
from snn.network import NetworkState
from snn.record.operations import OperationCounts
from snn.record.result import runaway_error
from snn.record.spikes import SpikeTrain, smooth_rate_of_moments
from snn.record.stimulus import Stimulus
from snn.run.run import Changes
from snn.run.simulate import MOST_RECORDED, require_fitting_stimulus, spikes_by_drive

# Sums of messages stay below 2^62.
LARGEST_SUM_OF_MESSAGES = 2**62
MOST_STEPS = 2**40


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DigitalResult(Value, Drawn):
    """Result of `simulate_digital`.

    Attributes
    ----------
    network : DigitalNetwork
        The network that ran.
    n_steps : int
        Steps of this run.
    spike_counts : ndarray of int, shape (n_neurons,)
        How often each neuron fired: messages sent.
    messages : ndarray of int, shape (n_neurons,)
        The sum of each neuron's messages.
    potential_saturations : ndarray of int, shape (n_neurons, 2)
        Steps in which the potential was below, and above, what its register holds; it then saturated, or
        wrapped around.  The potential of a neuron that is driven downwards comes to the lower end, and stays.
    current_saturations, message_saturations : ndarray of int, shape (n_neurons,)
        Steps in which the synaptic current, and the message, was beyond what its bits hold.  Messages of one
        bit, unless they are graded, say that a neuron fired, and are not counted.
    bias_saturations : int
        Entries of the drive beyond what its bits hold.
    window_moments : ndarray, shape (n_neurons, 3)
        The sums of t^2, t^3 and t^4 over each neuron's spikes, of times since this run began.
    state : DigitalState
        The integers at the end; pass them to the next run.
    spikes : SpikeTrain or None
        Every message, if they were recorded: at the end of its step, in synaptic time constants since this
        run began.
    spike_messages : ndarray of int, shape (n_spikes,), or None
        The number in each of them.
    stimulus : Stimulus or None
        What reached the network from outside while it ran.
    """

    network: DigitalNetwork
    n_steps: int
    spike_counts: np.ndarray
    messages: np.ndarray
    potential_saturations: np.ndarray
    current_saturations: np.ndarray
    message_saturations: np.ndarray
    bias_saturations: int
    window_moments: np.ndarray
    state: DigitalState
    spikes: SpikeTrain | None
    spike_messages: np.ndarray | None
    stimulus: Stimulus | None = None

    _shown: ClassVar = (
        "duration", "n_spikes", "spike_counts", "spike_rate", "n_steps", "potential_saturations",
        "current_saturations",
    )  # fmt: skip

    @property
    def duration(self) -> float:
        """Length of the run, in synaptic time constants."""
        return self.n_steps * self.network.time_step

    @property
    def spike_rate(self) -> np.ndarray:
        """Spikes per unit of time, in the units of the real network, shape (n_neurons,): a message counts for
        as many spikes as it stands for."""
        return self.messages * self.network.message_value / self.duration

    @property
    def smooth_rate(self) -> np.ndarray:
        """Rates through a smooth window over this run, shape (n_neurons,)."""
        return smooth_rate_of_moments(self.window_moments, self.duration)

    @property
    def membrane_potential(self) -> np.ndarray:
        """The potentials at the end, in the units of the real network."""
        return self.state.membrane_potential * self.network.unit

    @property
    def synaptic_current(self) -> np.ndarray:
        """The synaptic currents at the end, in the units of the real network."""
        return self.state.synaptic_current * self.network.current_unit

    @property
    def n_spikes(self) -> int:
        """Messages of all neurons."""
        return int(self.spike_counts.sum())

    @property
    def operations(self) -> OperationCounts:
        """What the network did in this run: messages, synaptic operations, updates of neurons.

        A weight that is rounded to zero is none: no message is delivered by it.  Deliveries of input spikes
        are counted by the weights of the stimulus.
        """
        n_inputs = 0 if self.stimulus is None else self.stimulus.n_deliveries()
        return OperationCounts.of_clock(
            n_neurons=self.network.n_neurons,
            spikes=self.n_spikes,
            synaptic_operations=int(self.spike_counts @ self.network.out_degree) + n_inputs,
            n_steps=self.n_steps,
        )


def simulate_digital(
    network: DigitalNetwork,
    n_steps: int,
    *,
    state: DigitalState | None = None,
    stimulus: Stimulus | None = None,
    record_spikes: bool = False,
    max_spikes: int | None = None,
) -> DigitalResult:
    """Run a network of digital neurons, in integers.

    One step does, in this order and for all neurons at once::

        1.  v <- end(v + bias + u)                    end: saturate, or wrap around, at the register's width
        2.  where v >= threshold: send m = min(floor(v / threshold), 2^message_bits - 1)
            and v <- v - m threshold                  (reset "zero": v <- 0)
            graded: m = min(floor(v / 2^shift), 2^message_bits - 1), and v <- v - 2^shift m
        3.  u <- end(round(u (2^k - delta) / 2^k) + round(2^exponent sum_j weights_ji m_j))

    with the m_j sent in this step, or `delay` steps before.  With wide registers and many bits these are the
    steps of `simulate_clocked`, divided by the `unit` of potentials.  The order is that of Loihi's neurons:
    decay and input of step 3 are there the first two operations of the next step.

    Parameters
    ----------
    network : DigitalNetwork
        The network; its drive is that of the real network it was made of.
    n_steps : int
        Number of steps.
    state : DigitalState, optional
        What to start from; by default rest.  A run that continues has the bits of one that did not stop.
    stimulus : Stimulus, optional
        A drive that changes, and input spikes, in synaptic time constants since this run began; both act from
        the end of their step on.  Drives are rounded as that of the network.  The weights of input spikes
        have the bits, the exponent and the rounding of those of the network, but are rounded to nearest where
        these are stochastically; their sum in a step is added to u after rule 3, rounded as the sum there.
    record_spikes : bool, default False
        Keep every message.
    max_spikes : int, optional
        Stop with an error after so many messages.  By default 20,000,000 if they are recorded.

    Returns
    -------
    DigitalResult

    Raises
    ------
    RunawayError
        If the network sends more than `max_spikes` messages.

    References
    ----------
    Davies et al. (2018), Loihi: a neuromorphic manycore processor with on-chip learning, IEEE Micro 38.
    """
    checks.instance_of("network", network, DigitalNetwork)
    n_steps = checks.positive_integer("n_steps", n_steps)
    if n_steps > MOST_STEPS or n_steps * network.format.largest_message > LARGEST_SUM_OF_MESSAGES:
        raise ValueError(
            f"n_steps must be at most 2^40, and times the largest message at most 2^62; got {n_steps} and "
            f"messages of {network.format.message_bits} bits"
        )
    if state is not None:
        _require_fitting_state(network, state)
    record_spikes = checks.flag("record_spikes", record_spikes)
    real, duration = network.network, n_steps * network.time_step
    soma_bias = real.soma_bias[np.newaxis]
    if stimulus is not None:
        require_fitting_stimulus(real, stimulus, 0.0, duration)
        soma_bias = soma_bias.copy()
    if max_spikes is None:
        max_spikes = MOST_RECORDED if record_spikes else sys.maxsize
    max_spikes = checks.positive_integer("max_spikes", max_spikes)

    run = Integers(network=network).start(real, soma_bias, state, window_moments=True)
    changes = () if stimulus is None else Changes(run, stimulus, 0.0)
    recorded = run.advance(duration, record=record_spikes, max_spikes=max_spikes, changes=changes)
    n_steps = int(run.n_steps[0])
    spikes = None
    if record_spikes:
        spikes = SpikeTrain(
            times=recorded.times,
            neurons=recorded.neurons,
            n_neurons=network.n_neurons,
            start=0.0,
            stop=n_steps * network.time_step,
            departures="registers of few bits",
        )
    result = DigitalResult(
        network=network,
        n_steps=n_steps,
        spike_counts=run.spike_counts[0],
        messages=run.messages[0],
        potential_saturations=run.overflows[0, :, :2],
        current_saturations=run.overflows[0, :, 2],
        message_saturations=run.overflows[0, :, 3],
        bias_saturations=int(run.n_clipped_drives[0]),
        window_moments=run.window_moments[0],
        state=run.state(0),
        spikes=spikes,
        spike_messages=recorded.messages if record_spikes else None,
        stimulus=stimulus,
    )
    if run.n_emitted > max_spikes:
        by_drive = spikes_by_drive(real, duration, NetworkState.at_rest(real.n_neurons), stimulus)
        raise runaway_error(result, max_spikes, by_drive)
    return result


def _require_fitting_state(network: DigitalNetwork, state: DigitalState) -> None:
    checks.instance_of("state", state, DigitalState)
    shape = int(network.delays.max()) + 1, network.n_neurons
    if state.pending.shape != shape:
        raise ValueError(
            f"state must have {shape[1]} neurons and {shape[0]} rows of pending input, one more than the "
            f"longest delay; got {state.pending.shape[1]} and {state.pending.shape[0]}"
        )
    form = network.format
    for name, bits in (("membrane_potential", form.potential_bits), ("synaptic_current", form.current_bits)):
        register, half = getattr(state, name), 2 ** (bits - 1)
        if register.min() < -half or register.max() >= half:
            raise ValueError(
                f"{name} of state must fit into {bits} bits; got {register.min()} to {register.max()}"
            )
    # A message of every source is on its way to its targets at most once in each row.
    largest = np.zeros(network.n_neurons, dtype=np.int64)
    np.add.at(largest, network.targets, np.abs(network.weights.mantissas))
    most = largest * form.largest_message
    # Not by magnitudes: that of the smallest integer is no integer of 64 bits.
    if ((state.pending < -most) | (state.pending > most)).any():
        raise ValueError("pending of state must be at most what all neurons together can send")

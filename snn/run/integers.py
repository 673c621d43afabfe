"""Runs on a clock whose neurons compute in the integers of a chip."""

import math
from typing import Any

import numpy as np

from snn._kernels.digital_neurons import HIGH_POTENTIAL, DigitalNeurons, Rules
from snn._kernels.neuron import add_to_moments
from snn._kernels.sparse_rows import CompressedRows
from snn._kernels.stepped import MessageLog
from snn.base import checks
from snn.digital import DigitalNetwork, Registers
from snn.digital.digital_network import LARGEST_INPUT, integer_drive, integer_inputs
from snn.network import NetworkState, RunnableNetwork
from snn.record.stimulus import ONTO_CURRENT, Stimulus
from snn.run.imperfect import Imperfections
from snn.run.run import Run, Spikes
from snn.run.stepped import SteppedRun

MOST_PRODUCT_BITS = 62  # most bits of the product of a potential and a leak, which must fit 64 bits
LARGEST_NOISE = 2.0**60  # largest noise of a potential in one step, in units of the potential
LARGEST_NORMAL = 9.0  # bound on the normal numbers that `fill_normals` draws


class IntegersOnClock(SteppedRun):
    """Copies of one `DigitalNetwork` on a clock; for the parameters, see `Run`."""

    integers: DigitalNetwork
    _number = np.int64
    _own_departures = ("registers of few bits",)

    @property
    def is_lost(self) -> np.ndarray:
        # A copy is lost if potentials reached the upper end of their registers more often than once per step.
        return self.neurons.overflows[:, :, HIGH_POTENTIAL].sum(axis=1) > self.total_steps

    def registers(self, spike_messages: np.ndarray | None) -> Registers:
        """Return the integers of the first copy."""
        return Registers(
            network=self.integers,
            membrane_potential=self.neurons.potential[0].copy(),
            synaptic_current=self.neurons.current[0].copy(),
            messages=self.neurons.messages[0],
            spike_messages=spike_messages,
            saturations=self.neurons.overflows[0],
        )

    def take_spikes(
        self, copy: int, step: int, steps: np.ndarray, neurons: np.ndarray, messages: np.ndarray
    ) -> None:
        """Go to a step, with the spikes that another implementation of the network emitted before it."""
        weights = messages * self.integers.message_value[neurons]
        for neuron, time, weight in zip(neurons, steps * self.time_step, weights, strict=True):
            add_to_moments(self.window_moments, copy, neuron, time, weight)
        np.add.at(self.spike_counts[copy], neurons, 1)
        self._copies.steps[copy] = step

    def require_valid(self) -> None:
        return  # registers always hold finite numbers

    def _running(self, network: RunnableNetwork) -> RunnableNetwork:
        # `fitted` has made the rounded network, with its mismatch, the neuron of the clock.
        assert isinstance(self._clock.neuron, DigitalNetwork)
        self.integers = self._clock.neuron
        return self.integers.network

    def _make_synapses(self) -> tuple[Any, int]:
        *rows, delays = self.integers.synapses
        return self._with_delays(CompressedRows(*rows), delays)

    def _start(self, state: NetworkState | Run | None) -> None:
        integers, chip, shape = self.integers, self._clock.imperfections, self.soma_bias.shape
        integer_drive(integers, self.soma_bias)  # warns of drives that do not fit, or raises an error
        drive, potential, current, messages, removed = np.zeros((5, *shape), dtype=np.int64)
        self.neurons = DigitalNeurons(
            faults=self._faults(leak=0.0, n_leaking=0),
            rules=integers.rules if chip is None else _with_leak(integers, chip),
            threshold=checks.read_only(integers.firing_threshold),
            values=checks.read_only(integers.message_value),
            drive=drive,
            potential=potential,
            current=current,
            messages=messages,
            removed=removed,
            overflows=np.zeros((*shape, 4), dtype=np.int64),
            bias=self.soma_bias,
            real_potential=self.membrane_potential,
            real_current=self.synaptic_current,
            drive_unit=self.time_step / integers.unit,
            unit=integers.unit,
            current_unit=integers.current_unit,
        )
        self.current_per_rate = self.time_step * integers.current_unit / integers.unit
        self._restart(np.arange(shape[0]))
        self._first_potential[:] = self.membrane_potential

    def _take_pending(self, pending: np.ndarray) -> None:
        largest = LARGEST_INPUT / 2.0 ** max(self.integers.rules.exponent, 0)
        most = np.abs(pending.astype(np.float64)).max(initial=0.0)
        if pending.dtype.kind != "i" or most > largest:
            raise ValueError(
                "pending of state must be made of integers, whose currents are at most 2^53 units; got "
                f"{pending.dtype} up to {most:.3g}: pass a state of the same DigitalFormat"
            )
        super()._take_pending(pending)

    def _inputs_of(self, stimulus: Stimulus) -> Any:
        if stimulus.drive is not None:
            integer_drive(self.integers, stimulus.drive)  # warns of a drive that does not fit, or raises
        if stimulus.spikes is None or stimulus.onto != ONTO_CURRENT:
            return stimulus.weights
        return integer_inputs(self.integers, stimulus.weights, stimulus.spikes.counts())

    def _potential_of(self, copy: int) -> np.ndarray:
        return self.membrane_potential[copy].copy()  # integers have no rounding errors

    def _recorded(self, buffer: MessageLog, n_entries: int) -> Spikes:
        steps, neurons, messages = (column[:n_entries] for column in buffer)
        return Spikes(steps * self.time_step, neurons.copy(), messages.copy())

    def _removed(self) -> np.ndarray:
        # Only the charge of messages is counted.  Resets to zero and narrow registers lose further charge.
        return self.neurons.removed * self.integers.unit


def _with_leak(network: DigitalNetwork, chip: Imperfections) -> Rules:
    """Return the rules of a network with leak; raise ValueError if leak or noise do not fit integers."""
    form, step = network.format, network.time_step
    if chip.leak > 0.0 and form.potential_bits + form.decay_bits > MOST_PRODUCT_BITS:
        raise ValueError(
            f"potential_bits and decay_bits must be at most {MOST_PRODUCT_BITS} together with a leak, or "
            f"a product could overflow; got {form.potential_bits} and {form.decay_bits}"
        )
    leak = round(2**form.decay_bits * -math.expm1(-chip.leak * step))
    if chip.leak > 0.0 and leak == 0:
        raise ValueError(
            f"leak must be so fast that a potential falls by at least half of 2^-{form.decay_bits} in a "
            f"step; got {chip.leak:g}: give the format more decay_bits"
        )
    noise = chip.potential_noise
    most = LARGEST_NORMAL * noise * math.sqrt(step) * float(network.firing_threshold.max())
    if most > LARGEST_NOISE:
        raise ValueError(
            f"potential_noise must add at most 2^60 units to a potential in a step; got {noise:g}, which "
            f"may add {most:.3g}"
        )
    return network.rules._replace(leak=leak)

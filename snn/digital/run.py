"""Digital runs: copies of one network of integers, each with its own drive, advanced together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from snn._kernels import digital
from snn._kernels.digital import HIGH_POTENTIAL
from snn.digital.format import DigitalFormat
from snn.digital.network import LARGEST_SUM, DigitalNetwork
from snn.digital.state import DigitalState
from snn.network import RunnableNetwork
from snn.record.stimulus import Stimulus
from snn.run.clocked import SteppedRun
from snn.run.run import Spikes

if TYPE_CHECKING:
    from snn.digital.time import Integers

QUOTIENTS = {"truncate": digital.TRUNCATE, "floor": digital.FLOOR, "nearest": digital.NEAREST}


class DigitalRun(SteppedRun):
    """Copies of one network of integers, whose numbers are in real units here; parameters as of `Run`."""

    buffer_type = digital.Spikes

    def __init__(
        self,
        how: Integers,
        network: RunnableNetwork,
        soma_bias: np.ndarray,
        state: DigitalState | None = None,
        **options: Any,
    ) -> None:
        integers = how.network
        work_per_spike = len(integers.targets) / integers.n_neurons
        steps = {"time_step": integers.time_step, "work_per_spike": work_per_spike}
        super().__init__(how, network, soma_bias, None, **steps, **options)
        n_copies, n_neurons = shape = soma_bias.shape
        self.integers = integers
        self._lowest_drive = how.lowest_drive
        self.messages, self._messages_before = np.zeros((2, *shape), dtype=np.int64)
        # Steps in which a register was too narrow: potential below, potential above, current, message.
        self.overflows = np.zeros((*shape, 4), dtype=np.int64)
        self.n_clipped_drives = np.zeros(n_copies, dtype=np.int64)
        n_slots = int(integers.delays.max()) + 1
        bias, potential, current = np.zeros((3, *shape), dtype=np.int64)
        self._copies = digital.Copies(
            bias=bias,
            potential=potential,
            current=current,
            pending=np.zeros((n_copies, n_slots, n_neurons), dtype=np.int64),
            steps=self._steps,
            spike_counts=self.spike_counts,
            messages=self.messages,
            overflows=self.overflows,
            moments=self.window_moments,
        )
        self._is_due = np.zeros((n_copies, n_slots), dtype=np.bool_)
        self._fired = np.empty(n_neurons, dtype=np.int64)
        self._rules = rules_of(integers)
        self.current_per_rate = self.time_step * integers.current_unit / integers.unit
        self._network = digital.Network(
            integers.firing_threshold,
            integers.weights.mantissas,
            integers.targets,
            integers.starts,
            integers.delays,
            integers.message_value,
        )
        everything = np.arange(n_copies)
        if state is not None:
            potential[:] = state.membrane_potential
            current[:] = state.synaptic_current
            # What arrives at the end of step s is in slot s.
            self._copies.pending[:] = np.roll(state.pending, 1, axis=0)
            self._is_due[:] = self._copies.pending.any(axis=2)
            self._update(everything)
            self._first_potential[:] = self.membrane_potential
        self._set_drive(everything)

    @property
    def is_lost(self) -> np.ndarray:
        """Copies whose potentials came to the upper end of their registers, on average one in every step."""
        return self.overflows[:, :, HIGH_POTENTIAL].sum(axis=1) > self.total_steps

    def state(self, copy: int = 0, *, time: float | None = None) -> DigitalState:  # type: ignore[override]
        """Return the integers of a copy; they say no time."""
        pending = self._copies.pending[copy]
        shift = -(int(self._steps[copy]) + 1) % len(pending)
        return DigitalState(
            membrane_potential=self._copies.potential[copy].copy(),
            synaptic_current=self._copies.current[copy].copy(),
            pending=np.roll(pending, shift, axis=0),
        )

    def set_drive(self, soma_bias: np.ndarray) -> None:
        """As `Run`; the drive is rounded, and what does not fit counted."""
        super().set_drive(soma_bias)
        before = int(self.n_clipped_drives[0])
        self._set_drive(np.arange(1))
        self.n_clipped_drives[0] += before

    def input_weights(self, stimulus: Stimulus) -> np.ndarray:
        """As `Run`, in integers: mantissas with the exponent of the weights of the network."""
        integers = self.integers
        weights = stimulus.weights.toarray() if issparse(stimulus.weights) else stimulus.weights
        form = replace(integers.format.weights, exponent=integers.weights.exponent)
        if form.rounding == "stochastic":
            form = replace(form, rounding="nearest")
        scale = integers.decay / 2**integers.format.decay_bits / integers.unit
        rounded = form.quantise(weights * scale)
        if rounded.n_saturated:
            raise ValueError(
                f"weights of stimulus must fit into the {form.bits} bits of the network's weights, which end "
                f"at {form.largest * 2.0**integers.weights.exponent / scale:.3g}; got magnitudes up to "
                f"{np.abs(weights).max():.3g}"
            )
        assert stimulus.spikes is not None
        most = stimulus.spikes.counts() @ np.abs(rounded.mantissas).astype(np.float64)
        if most.max() * 2.0 ** max(integers.weights.exponent, 0) > LARGEST_SUM:
            raise ValueError(
                "weights of stimulus times its spikes must sum to at most 2^60 units of a current"
            )
        return rounded.mantissas

    def add_to_current(self, amounts: np.ndarray) -> None:
        """As `Run`: the sum is rounded as that of the messages of a step, and added to the registers."""
        # What was due at the end of the last step has arrived, and its slot is empty.
        slot = int(self._steps[0]) % self._copies.pending.shape[1]
        self._copies.pending[0, slot] = amounts
        digital.arrive_kernel(self._copies, 0, slot, self._rules)
        self._update(np.arange(1))

    def require_valid(self) -> None:
        """Do nothing: registers hold what their widths say."""

    def _call(
        self, active: np.ndarray, position: int, stops: np.ndarray, most: int, buffer: digital.Spikes
    ) -> tuple[int, int, int]:
        position, n_spikes = digital.advance(
            self._network, self._rules, self._copies, active, position, stops, self._steps_per_call,
            min(self._spikes_per_call, most + 1), self._fired, self._is_due, buffer,
        )  # fmt: skip
        return position, n_spikes, n_spikes

    def _recorded(self, buffer: digital.Spikes, n_entries: int) -> Spikes:
        steps, neurons, messages = (column[:n_entries] for column in buffer)
        return Spikes(steps * self.time_step, neurons.copy(), messages.copy())

    def _restart(self, copies: np.ndarray) -> None:
        super()._restart(copies)
        self._messages_before[copies] = self.messages[copies]
        for array in (self._copies.pending, self._is_due):
            array[copies] = 0
        rules, integers = self._rules, self.integers
        for register, values, unit, least, largest in (
            (self._copies.potential, self.membrane_potential, integers.unit,
             rules.least_potential, rules.largest_potential),
            (self._copies.current, self.synaptic_current, integers.current_unit,
             rules.least_current, rules.largest_current),
        ):  # fmt: skip
            register[copies] = np.clip(np.rint(values[copies] / unit), least, largest).astype(np.int64)
        self._set_drive(copies)
        self._update(copies)
        self._first_potential[copies] = self.membrane_potential[copies]

    def _removed(self) -> np.ndarray:
        # What messages say; a reset to zero takes more, and registers that are too narrow lose charge.
        spikes = (self.messages - self._messages_before) * self.integers.message_value
        return spikes * self.integers.firing_threshold * self.integers.unit

    def _update(self, copies: np.ndarray) -> None:
        self.membrane_potential[copies] = self._copies.potential[copies] * self.integers.unit
        self.synaptic_current[copies] = self._copies.current[copies] * self.integers.current_unit

    def _set_drive(self, copies: np.ndarray) -> None:
        for k in copies:
            soma_bias = self.soma_bias[k]
            if self._lowest_drive is not None:
                soma_bias = np.maximum(soma_bias, -self._lowest_drive * max(soma_bias.max(), 0.0))
            drive = self.integers.drive(soma_bias)
            self._copies.bias[k] = drive.mantissas << drive.exponent
            self.n_clipped_drives[k] = drive.n_saturated


def rules_of(network: DigitalNetwork) -> digital.Rules:
    """Return how a step of a network is done, as the kernel takes it."""
    form: DigitalFormat = network.format
    return digital.Rules(
        kept=2**form.decay_bits - network.decay,
        decay_bits=form.decay_bits,
        decay_rounding=QUOTIENTS[form.decay_rounding],
        exponent=network.weights.exponent,
        input_rounding=QUOTIENTS[form.input_rounding],
        least_potential=-(2 ** (form.potential_bits - 1)),
        largest_potential=2 ** (form.potential_bits - 1) - 1,
        potential_wraps=form.potential_overflow == "wrap",
        least_current=-(2 ** (form.current_bits - 1)),
        largest_current=2 ** (form.current_bits - 1) - 1,
        current_wraps=form.current_overflow == "wrap",
        largest_message=form.largest_message,
        is_graded=form.graded,
        message_shift=network.message_shift,
        subtract=form.reset == "subtract",
        time_step=network.time_step,
    )

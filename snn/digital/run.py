"""Copies of one digital network, each with its own drive, advanced together."""

from __future__ import annotations

import numpy as np

from snn._kernels import digital
from snn._kernels.digital import HIGH_POTENTIAL
from snn.digital.format import DigitalFormat
from snn.digital.network import DigitalNetwork
from snn.digital.state import DigitalState
from snn.run.exact import NO_MOMENTS, UPDATES_PER_CALL

# Messages after which a call to the kernel ends: recorded ones need memory.
MOST_SPIKES_PER_CALL = 65_536
QUOTIENTS = {"truncate": digital.TRUNCATE, "floor": digital.FLOOR, "nearest": digital.NEAREST}


class DigitalRun:
    """Copies of one network of integers, with the interface of `snn.run.clocked.ClockDrivenRun`.

    Drives and potentials are floats here, in the units of the real network, and are rounded to integers when
    a copy starts.  Arguments are not checked.

    Parameters
    ----------
    network : DigitalNetwork
        Weights, thresholds and format.
    soma_bias : ndarray, shape (n_copies, n_neurons)
        The drive of each copy, in the units of the real network.  It is read here and by `restart`.
    state : DigitalState, optional
        The state that every copy starts in; by default rest.
    window_moments : bool, default False
        Keep the moments of the times of each neuron's spikes.
    lowest_drive : float, optional
        Drives below minus so many times the largest are raised to that.  They would take the bits of the
        others: mantissas have one exponent.  By default they are not.
    updates_per_call : int, default UPDATES_PER_CALL
        Updates of a neuron after which a call to the kernel ends; no bit depends on it.

    Attributes
    ----------
    spike_counts, messages : ndarray of int, shape (n_copies, n_neurons)
        How often each neuron fired, and the sum of its messages.
    overflows : ndarray of int, shape (n_copies, n_neurons, 4)
        Steps in which a register was too narrow: potential below, potential above, current, message.
    membrane_potential : ndarray, shape (n_copies, n_neurons)
        In the units of the real network; it is what the integers say, and is read by `restart`.
    steps : ndarray of int, shape (n_copies,)
        Steps since the last restart.
    window_moments : ndarray, shape (n_copies, n_neurons, 3)
        As of `ClockDrivenRun`; a message counts for as many spikes as it stands for.
    n_clipped_drives : ndarray of int, shape (n_copies,)
        Entries of the drive that are beyond a given exponent.
    """

    def __init__(
        self,
        network: DigitalNetwork,
        soma_bias: np.ndarray,
        *,
        state: DigitalState | None = None,
        window_moments: bool = False,
        lowest_drive: float | None = None,
        updates_per_call: int = UPDATES_PER_CALL,
    ) -> None:
        self.network = network
        self._lowest_drive = lowest_drive
        n_copies, n_neurons = shape = soma_bias.shape
        self._soma_bias = soma_bias
        self.membrane_potential = np.zeros(shape)
        self.steps = np.zeros(n_copies, dtype=np.int64)
        self._steps_before = np.zeros(n_copies, dtype=np.int64)
        self.spike_counts, self.messages = np.zeros((2, *shape), dtype=np.int64)
        self.overflows = np.zeros((*shape, 4), dtype=np.int64)
        self.window_moments = np.zeros((*shape, 3)) if window_moments else NO_MOMENTS
        self.n_clipped_drives = np.zeros(n_copies, dtype=np.int64)
        self._bias, self._potential, self._current = np.zeros((3, *shape), dtype=np.int64)
        n_slots = int(network.delays.max()) + 1
        self._pending = np.zeros((n_copies, n_slots, n_neurons), dtype=np.int64)
        self._is_due = np.zeros((n_copies, n_slots), dtype=np.bool_)
        self._fired = np.empty(n_neurons, dtype=np.int64)
        self._rules = rules_of(network)
        self._network = digital.Network(
            network.firing_threshold,
            network.weights.mantissas,
            network.targets,
            network.starts,
            network.delays,
            network.message_value,
        )
        self._steps_per_call = max(1, updates_per_call // n_neurons)
        work_per_spike = max(len(network.targets) / n_neurons, 1.0)
        self._spikes_per_call = min(max(1, int(updates_per_call / work_per_spike)), MOST_SPIKES_PER_CALL)
        if state is not None:
            self._potential[:] = state.membrane_potential
            self._current[:] = state.synaptic_current
            # What arrives at the end of step s is in slot s.
            self._pending[:] = np.roll(state.pending, 1, axis=0)
            self._is_due[:] = self._pending.any(axis=2)
            self.membrane_potential[:] = self._potential * network.unit
        self._set_drive(np.arange(n_copies))

    def advance(
        self, step: int | np.ndarray, *, active: np.ndarray | None = None, record_spikes: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Advance the copies `active` (default: all) to the end of a step, counted from where they started; a
        step for all, or one for each copy of the run.

        Returns the steps (counted from 1), neurons and messages, copy by copy; empty unless recorded.
        """
        n_copies, n_neurons = self.spike_counts.shape
        if active is None:
            active = np.arange(n_copies)
        stop_steps = np.full(n_copies, step, dtype=np.int64)
        capacity = self._spikes_per_call + n_neurons if record_spikes else 0
        spikes = digital.Spikes(*np.empty((3, capacity), dtype=np.int64))
        recorded = [tuple(column[:0].copy() for column in spikes)]
        copies = digital.Copies(
            bias=self._bias,
            potential=self._potential,
            current=self._current,
            pending=self._pending,
            steps=self.steps,
            spike_counts=self.spike_counts,
            messages=self.messages,
            overflows=self.overflows,
            moments=self.window_moments,
        )
        position = 0
        while position < len(active):
            position, n_recorded = digital.advance(
                self._network,
                self._rules,
                copies,
                active,
                position,
                stop_steps,
                self._steps_per_call,
                self._spikes_per_call,
                self._fired,
                self._is_due,
                spikes,
            )
            if record_spikes:
                recorded.append(tuple(column[:n_recorded].copy() for column in spikes))
        self.membrane_potential[active] = self._potential[active] * self.network.unit
        sent_steps, neurons, messages = (np.concatenate(column) for column in zip(*recorded, strict=True))
        return sent_steps, neurons, messages

    def restart(self, copies: np.ndarray) -> None:
        """Start some copies again at step zero, without currents, from `membrane_potential` and the drive."""
        self._steps_before[copies] += self.steps[copies]
        for array in (self._current, self._pending, self._is_due, self.steps):
            array[copies] = 0
        if len(self.window_moments):
            self.window_moments[copies] = 0.0
        units = np.rint(self.membrane_potential[copies] / self.network.unit)
        ends = self._rules.least_potential, self._rules.largest_potential
        self._potential[copies] = np.clip(units, *ends).astype(np.int64)
        self._set_drive(copies)

    @property
    def total_steps(self) -> np.ndarray:
        """Steps of each copy, of all its runs."""
        return self._steps_before + self.steps

    def runs_away(self, copies: np.ndarray) -> np.ndarray:
        """Return in which of some copies potentials came to the upper end of their registers, on average one
        in every step: more charge arrives than spikes take away."""
        ran_up = self.overflows[copies, :, HIGH_POTENTIAL].sum(axis=1)
        return ran_up > self.total_steps[copies]

    def state(self, copy: int) -> DigitalState:
        """Return the state of a copy."""
        shift = -(int(self.steps[copy]) + 1) % self._pending.shape[1]
        return DigitalState(
            membrane_potential=self._potential[copy].copy(),
            synaptic_current=self._current[copy].copy(),
            pending=np.roll(self._pending[copy], shift, axis=0),
        )

    def _set_drive(self, copies: np.ndarray) -> None:
        for k in copies:
            soma_bias = self._soma_bias[k]
            if self._lowest_drive is not None:
                soma_bias = np.maximum(soma_bias, -self._lowest_drive * max(soma_bias.max(), 0.0))
            drive = self.network.drive(soma_bias)
            self._bias[k] = drive.mantissas << drive.exponent
            self.n_clipped_drives[k] = drive.n_saturated


def rules_of(network: DigitalNetwork) -> digital.Rules:
    """Return how a step of a network is done, as the kernel takes it.

    Parameters
    ----------
    network : DigitalNetwork
        The network.
    """
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

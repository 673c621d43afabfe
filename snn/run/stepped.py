"""Runs on a clock: copies of one network of real numbers or integers, of perfect or imperfect neurons."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from snn._kernels import digital_neurons, run_state, stepped
from snn._kernels.faults import Faults, NoFaults
from snn._kernels.real_neurons import GROUP, THRESHOLD, RealNeurons
from snn.base import checks
from snn.digital.network import LARGEST_INPUT, DigitalNetwork, Registers, integer_drive
from snn.network import NetworkState, RunnableNetwork, require_moderate_weights
from snn.run.imperfect import ROUNDING, Imperfections, whole_steps
from snn.run.run import Run, Spikes

if TYPE_CHECKING:
    from snn.run.time import Clock

# Spikes after which a call to the kernel ends, whatever the number of updates: recorded spikes need memory.
MOST_SPIKES_PER_CALL = 65_536
NOTHING_RECORDED = stepped.MessageLog(*np.empty((3, 0), dtype=np.int64))
# Limit for a potential times a leak.
MOST_PRODUCT_BITS = 62
# Limit for the noise that a potential gets in a step; no normal number that is drawn is larger than 9.
LARGEST_NOISE, LARGEST_NORMAL = 2.0**60, 9.0


class SteppedRun(Run):
    """Copies of one network on a clock; parameters as of `Run`."""

    # Potentials, currents and drives are in the units of the real network, also of integers.  What is kept of
    # some neurons alone, such as `overflows` and `faults.leaked`, is in the record `neurons`.

    def __init__(
        self,
        clock: Clock,
        network: RunnableNetwork,
        soma_bias: np.ndarray,
        state: NetworkState | Run | None = None,
        **options: Any,
    ) -> None:
        given, self.time_step, self._clock = clock.imperfections, clock.time_step, clock
        if isinstance(clock.neuron, DigitalNetwork):
            self.integers = clock.neuron
            network = self.integers.network
        elif given is not None:
            network = given.mismatched(network)
        if state is not None and given is not None and given.refractory_time > 0.0:
            raise ValueError(
                "state must be None with a refractory_time: it does not say which neurons are refractory"
            )
        super().__init__(network, soma_bias, state, **options)
        n_copies, n_neurons = soma_bias.shape
        self._synapses, n_slots = _synapses_of(network, given, self.integers, self.time_step)
        if self._checks_weights:
            require_moderate_weights(network.weights, network.firing_threshold)
        number = np.float64 if self.integers is None else np.int64
        self._copies = stepped.Copies(
            time_step=self.time_step,
            steps=np.zeros(n_copies, dtype=np.int64),
            steps_before=np.zeros(n_copies, dtype=np.int64),
            spike_counts=self.spike_counts,
            moments=self.window_moments,
            pending=np.zeros((n_copies, n_slots, n_neurons), dtype=number),
            is_due=np.zeros((n_copies, n_slots), dtype=np.bool_),
            fired=np.empty(n_neurons + GROUP, dtype=np.int64),
        )
        # Charge of a soma in a step, for one unit of synaptic current at its beginning.  With exact
        # integration only the decay is rounded: the sum of the two is 1, and charge is conserved.
        self._is_euler = getattr(clock.neuron, "integration", "exact") == "euler"
        self._arrival = self.time_step if self._is_euler else 1.0 - math.exp(-self.time_step)
        self.neurons: Any
        if self.integers is not None:
            integer_drive(self.integers, self.soma_bias)  # warns, or refuses
            self.neurons = self._integer_neurons(self.integers)
            self.current_per_rate = self.time_step * self.integers.current_unit / self.integers.unit
            self._restart(np.arange(n_copies))
            self._first_potential[:] = self.membrane_potential
        else:
            self.neurons = self._real_neurons()
            self.gain = self._arrival / -math.expm1(-self.time_step)
            self.current_per_rate = self.time_step / -math.expm1(-self.time_step)
        if isinstance(state, NetworkState):
            # A run that goes on from another time has the noise of that time.
            self._copies.steps_before[:] = round(state.time / self.time_step)
            if state.pending is not None:
                self._take_pending(state.pending)
        if state is not None and isinstance(self.neurons, RealNeurons):
            self.neurons.trace[:] = getattr(state, "filtered_spikes", 0.0)
        self._steps_per_call = max(1, self._updates_per_call // n_neurons)
        n_targets = network.weights.kernel_form.targets_per_source(n_neurons)
        per_call = int(self._updates_per_call / max(n_targets, 1.0))
        self._spikes_per_call = min(max(1, per_call), MOST_SPIKES_PER_CALL)

    def _faults(self) -> Any:
        """Return the record of imperfections that real numbers and integers have alike."""
        given, step, shape = self._clock.imperfections, self.time_step, self.soma_bias.shape
        if given is None:
            return NoFaults(0)
        # The variance of unit white noise over a step; in real numbers it leaks meanwhile.
        leak = given.leak if self.integers is None else 0.0
        variance = step * _mean_exponential(-2.0 * leak * step)
        leaked, refused, kicks = np.zeros((3, *shape) if self.integers is None else (3, shape[0], 0))
        return Faults(
            refractory_steps=int(whole_steps(given.refractory_time, step)),
            noise=given.potential_noise * math.sqrt(variance),
            lost=given.lost_spikes,
            key=given.seed,
            waiting=np.zeros(shape, dtype=np.int64),
            n_lost=np.zeros(shape, dtype=np.int64),
            normals=np.empty(shape[1]),
            keep=1.0 - given.leak * step if self._is_euler else math.exp(-given.leak * step),
            charge=self._arrival,
            leaked=leaked,
            refused=refused,
            kicks=kicks,
        )

    def _real_neurons(self) -> RealNeurons:
        """Return the record of neurons in real numbers."""
        neuron: Any = self._clock.neuron
        step, shape = self.time_step, self.soma_bias.shape
        decay, rise, arrival = math.exp(-step), step, self._arrival
        leak = 0.0 if self._clock.imperfections is None else self._clock.imperfections.leak
        if leak > 0.0 and not self._is_euler:
            rise = step * _mean_exponential(-leak * step)
            # The integral of e^(-l (step - t)) e^-t over a step.
            arrival = step * math.exp(-step) * _mean_exponential((1.0 - leak) * step)
        return RealNeurons(
            faults=self._faults(),
            rise=rise,
            arrival=arrival,
            decay=decay,
            subtract=neuron.reset == "subtract",
            bias=self.soma_bias,
            potential=self.membrane_potential,
            current=self.synaptic_current,
            removed=np.zeros(shape),
            trace=np.zeros(shape),
            growth=np.ones(shape[0]),
            step_growth=1.0 / decay if decay > 0.0 else math.inf,
            workspace=_workspace(self.network.firing_threshold),
        )

    def _integer_neurons(self, integers: DigitalNetwork) -> digital_neurons.DigitalNeurons:
        """Return the record of neurons in integers."""
        given, shape = self._clock.imperfections, self.soma_bias.shape
        drive, potential, current, messages, removed = np.zeros((5, *shape), dtype=np.int64)
        return digital_neurons.DigitalNeurons(
            faults=self._faults(),
            rules=integers.rules if given is None else _with_leak(integers, given),
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

    @property
    def departures(self) -> str:  # type: ignore[override]
        # Mismatch is none: the network of the run has it.
        names = ("leak", "refractory_time", "delays", "potential_noise", "lost_spikes")
        found = [
            name.replace("_", " ") for name in names if np.any(getattr(self._clock.imperfections, name, 0.0))
        ]
        if self.integers is not None:
            return ", ".join([*found, "registers of few bits"])
        neuron: Any = self._clock.neuron
        found += ["Euler's steps"] * (neuron.integration == "euler")
        found += ["resets to zero"] * (neuron.reset == "zero")
        return ", ".join(found)

    @property
    def time(self) -> np.ndarray:
        return self._copies.steps * self.time_step

    @property
    def n_steps(self) -> np.ndarray:
        return self._copies.steps

    @property
    def total_steps(self) -> np.ndarray:
        """As `n_steps`, those before a restart included."""
        return self._copies.steps_before + self._copies.steps

    @property
    def is_lost(self) -> np.ndarray:
        # A neuron has to fire too often in a step, or potentials came to the upper end of their registers, on
        # average one in every step.
        if self.integers is not None:
            return self.neurons.overflows[:, :, digital_neurons.HIGH_POTENTIAL].sum(axis=1) > self.total_steps
        # Refractory neurons cannot keep up sooner; their copies are not lost.
        if self.neurons.faults.refractory_steps > 0:
            return super().is_lost
        return ~(self.membrane_potential <= self.network.firing_threshold).all(axis=1)

    @property
    def filtered_spikes(self) -> np.ndarray:
        # Neurons in real numbers alone keep them.
        return self.neurons.trace / self.neurons.growth[:, np.newaxis]

    @property
    def pending(self) -> np.ndarray:
        """The sum of what is on its way to each neuron, shape (n_copies, n_neurons)."""
        return self._copies.pending.sum(axis=1)

    def instants_of(self, times: np.ndarray) -> np.ndarray:
        steps = times / self.time_step
        # A time at the end of a step may be a little above it, by rounding.
        return np.ceil(steps - np.maximum(ROUNDING, 4.0 * np.spacing(steps))) * self.time_step

    def state(self, copy: int = 0, *, time: float | None = None) -> NetworkState:
        state = super().state(copy, time=time)
        if self.integers is not None:  # to the bit
            vars(state)["membrane_potential"] = checks.read_only(self.membrane_potential[copy].copy())
        pending = self._copies.pending[copy]
        if len(pending) > 1:
            vars(state)["pending"] = np.roll(pending, -(int(self.n_steps[copy]) + 1), axis=0)
        return state

    def registers(self, spike_messages: np.ndarray | None) -> Registers | None:
        if self.integers is None:
            return None
        return Registers(
            network=self.integers,
            membrane_potential=self.neurons.potential[0].copy(),
            synaptic_current=self.neurons.current[0].copy(),
            messages=self.neurons.messages[0],
            spike_messages=spike_messages,
            saturations=self.neurons.overflows[0],
        )

    def _begin(self, record: bool) -> stepped.MessageLog:
        if not record:
            return NOTHING_RECORDED
        capacity = self._spikes_per_call + self.network.n_neurons
        return stepped.MessageLog(*np.empty((3, capacity), dtype=np.int64))

    def _call(
        self, active: np.ndarray, position: int, stops: Any, most: int, buffer: stepped.MessageLog
    ) -> tuple[int, int, int]:
        return stepped.advance(
            self.neurons, self._synapses, self._copies, active, position, stops, self._steps_per_call,
            min(self._spikes_per_call, most + 1), buffer,
        )  # fmt: skip

    def _recorded(self, buffer: stepped.MessageLog, n_entries: int) -> Spikes:
        steps, neurons, messages = (column[:n_entries] for column in buffer)
        if self.integers is not None:
            return Spikes(steps * self.time_step, neurons.copy(), messages.copy())
        return Spikes(np.repeat(steps, messages) * self.time_step, np.repeat(neurons, messages))

    def _restart(self, copies: np.ndarray) -> None:
        run_state.restart(self.neurons, self._copies, copies)

    def _removed(self) -> np.ndarray:
        neurons = self.neurons
        if self.integers is not None:
            # Charge in messages; a reset to zero takes more, and registers that are too narrow lose charge.
            return neurons.removed * self.integers.unit
        if isinstance(neurons.faults, NoFaults):
            return neurons.removed
        # Charge = rise of the potential + thresholds of the spikes + leaked + refused - noise
        # (docs/theory.md, section 7.5).
        return neurons.removed + neurons.faults.leaked + neurons.faults.refused - neurons.faults.kicks

    def _take_pending(self, pending: np.ndarray) -> None:
        """Put what is on its way where its steps find it: at the end of step s arrives slot s."""
        ours = self._copies.pending
        if pending.shape != ours.shape[1:]:
            raise ValueError(
                f"pending of state must have {ours.shape[1]} rows, one more than the longest delay; got "
                f"{len(pending)}"
            )
        if self.integers is not None:
            largest = LARGEST_INPUT / 2.0 ** max(self.integers.rules.exponent, 0)
            if pending.dtype.kind != "i" or np.abs(pending.astype(np.float64)).max() > largest:
                raise ValueError("pending of state must be made of integers up to 2^53 units of a current")
        ours[:] = np.roll(pending, 1, axis=0)
        self._copies.is_due[:] = ours.any(axis=2)


def _synapses_of(
    network: RunnableNetwork, given: Imperfections | None, integers: DigitalNetwork | None, time_step: float
) -> tuple[Any, int]:
    """Return how spikes are delivered, and the slots for what is on its way."""
    if integers is None and given is None:
        network.weights.prepare(np.arange(network.n_neurons))
        return network.weights.kernel_form, 0
    if integers is not None:
        rows = integers.synapses
    else:
        matrix = network.weights.tocsr()
        delays = np.zeros(network.n_neurons, dtype=np.int64)
        rows = stepped.DelayedRows(
            matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data, delays
        )
    record: Any = rows
    if given is not None:
        sources = np.repeat(np.arange(network.n_neurons), np.diff(rows.starts))
        steps = whole_steps(given.delays, time_step)
        if steps.ndim == 1:
            steps = steps[:, np.newaxis]
        delays = rows.delays[sources] + np.broadcast_to(steps, network.weights.shape)[sources, rows.targets]
        record = stepped.Synapses(*map(checks.read_only, (*rows[:3], delays)))
    return record, int(record.delays.max(initial=0)) + 1


def _mean_exponential(exponent: float) -> float:
    """Return the mean of e^x over x from 0 to an exponent."""
    return math.expm1(exponent) / exponent if exponent != 0.0 else 1.0


def _workspace(firing_threshold: np.ndarray) -> np.ndarray:
    """Return the workspace of a kernel, its rows aligned to cache lines."""
    padded = -(-len(firing_threshold) // GROUP) * GROUP
    memory = np.zeros(4 * padded + 8)
    first = -memory.__array_interface__["data"][0] % 64 // 8
    rows = memory[first : first + 4 * padded].reshape(4, padded)
    rows[THRESHOLD] = np.inf
    rows[THRESHOLD, : len(firing_threshold)] = firing_threshold
    return rows


def _with_leak(network: DigitalNetwork, given: Imperfections) -> digital_neurons.Rules:
    """Return the rules of a network whose potentials leak; leak and noise must fit integers."""
    form, step = network.format, network.time_step
    if given.leak > 0.0 and form.potential_bits + form.decay_bits > MOST_PRODUCT_BITS:
        raise ValueError(
            f"potential_bits and decay_bits must be at most {MOST_PRODUCT_BITS} together with a leak, or "
            f"a product could overflow; got {form.potential_bits} and {form.decay_bits}"
        )
    leak = round(2**form.decay_bits * -math.expm1(-given.leak * step))
    if given.leak > 0.0 and leak == 0:
        raise ValueError(
            f"leak must be so fast that a potential falls by at least half of 2^-{form.decay_bits} in a "
            f"step; got {given.leak:g}: give the format more decay_bits"
        )
    noise = given.potential_noise
    most = LARGEST_NORMAL * noise * math.sqrt(step) * float(network.firing_threshold.max())
    if most > LARGEST_NOISE:
        raise ValueError(
            f"potential_noise must add at most 2^60 units to a potential in a step; got {noise:g}, which "
            f"may add {most:.3g}"
        )
    return network.rules._replace(leak=leak)

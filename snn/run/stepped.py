"""Runs on a clock: the part that is common to all kinds of neurons."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from snn._kernels import run_state, stepped
from snn._kernels.faults import Faults, NoFaults
from snn._kernels.real_neurons import CHUNK
from snn.base import checks
from snn.base.value import assign
from snn.network import NetworkState, RunnableNetwork, require_known, require_moderate_weights
from snn.run.imperfect import whole_steps
from snn.run.run import Run
from snn.run.time import Clock

MOST_SPIKES_PER_CALL = 65_536  # most spikes in one call of the kernel, because recorded spikes need memory
NO_MESSAGES = stepped.MessageLog(*np.empty((3, 0), dtype=np.int64))


class SteppedRun(Run):
    """Copies of one network on a clock; for the parameters, see `Run`."""

    # Potentials, currents and drives have the units of the real network, also for neurons in integers.  The
    # record `neurons` has further arrays of one kind of neurons, such as `overflows` and `faults.leaked`.
    neurons: Any

    def __init__(
        self,
        clock: Clock,
        network: RunnableNetwork,
        soma_bias: np.ndarray,
        state: NetworkState | Run | None = None,
        **options: Any,
    ) -> None:
        chip, self.time_step, self._clock = clock.imperfections, clock.time_step, clock
        network = self._running(network)
        super().__init__(network, soma_bias, state, **options)
        n_copies, n_neurons = soma_bias.shape
        self._synapses, n_slots = self._make_synapses()
        if self._checks_weights:
            require_moderate_weights(network.weights, network.firing_threshold)
        self._copies = stepped.Copies(
            time_step=self.time_step,
            steps=np.zeros(n_copies, dtype=np.int64),
            steps_before=np.zeros(n_copies, dtype=np.int64),
            spike_counts=self.spike_counts,
            moments=self.window_moments,
            pending=np.zeros((n_copies, n_slots, n_neurons * len(self._kinds)), dtype=self._number),
            is_due=np.zeros((n_copies, n_slots), dtype=np.bool_),
            fired=np.empty(n_neurons + CHUNK, dtype=np.int64),
        )
        self._start(state)
        # Mismatch is not a deviation, because `network` already has the mismatched weights and thresholds.
        departures = [] if chip is None else chip.departures
        self.departures = ", ".join([*departures, *self._own_departures])
        if isinstance(state, NetworkState):
            # Noise depends on the time: a run that continues at a later time has the noise of that time.
            self._copies.steps_before[:] = round(state.time / self.time_step)
            if state.pending is not None:
                self._take_pending(state.pending)
            kept = self._kept_arrays()
            require_known(state, (*kept, "pending"))
            for name, (ours, unit) in kept.items():
                theirs = getattr(state, name)
                if theirs is not None and theirs.shape != ours.shape[1:]:
                    raise ValueError(f"{name} of state must have shape {ours.shape[1:]}; got {theirs.shape}")
                ours[:] = 0 if theirs is None else whole_steps(theirs, unit) if name == "waiting" else theirs
        self._steps_per_call = max(1, self._updates_per_call // n_neurons)
        n_targets = network.weights.kernel_form.targets_per_source(n_neurons)
        per_call = int(self._updates_per_call / max(n_targets, 1.0))
        self._spikes_per_call = min(max(1, per_call), MOST_SPIKES_PER_CALL)

    @property
    def time(self) -> np.ndarray:
        return self._copies.steps * self.time_step

    @property
    def n_steps(self) -> np.ndarray:
        return self._copies.steps

    @property
    def total_steps(self) -> np.ndarray:
        """Number of steps of each copy, including steps before a restart, shape (n_copies,)."""
        return self._copies.steps_before + self._copies.steps

    @property
    def pending(self) -> np.ndarray:
        """Sum of the delayed charge that is still to arrive at each neuron, shape (n_copies, n_neurons)."""
        n_copies, n_neurons = self.soma_bias.shape
        return self._copies.pending.reshape(n_copies, -1, n_neurons).sum(axis=1)

    def instants_of(self, times: np.ndarray, origin: float) -> np.ndarray:
        return whole_steps(times, self.time_step, origin) * self.time_step

    def state(self, copy: int = 0, *, time: float | None = None) -> NetworkState:
        state = super().state(copy, time=time)
        pending = self._copies.pending[copy]
        if len(pending) > 1:
            rolled = np.roll(pending, -(int(self.n_steps[copy]) + 1), axis=0)
            assign(state, pending=rolled.reshape(-1, state.n_neurons))
        assign(state, **{name: ours[copy] * unit for name, (ours, unit) in self._kept_arrays().items()})
        return state

    # Each kind of neurons defines the following, and the abstract methods of `Run`.

    _kinds = np.ones(1)  # the time constants of the kinds of synaptic currents; the first is 1
    _number: type = np.float64  # type of the numbers in `pending`
    _own_departures: tuple[str, ...] = ()

    @abstractmethod
    def _running(self, network: RunnableNetwork) -> RunnableNetwork:
        """Return the network that runs: with mismatch, or rounded to integers."""

    @abstractmethod
    def _make_synapses(self) -> tuple[Any, int]:
        """Return the record of synapses, and the number of slots for delayed charge."""

    @abstractmethod
    def _start(self, state: NetworkState | Run | None) -> None:
        """Make the record `neurons` with the starting values of the copies."""

    def _kept_arrays(self) -> dict[str, tuple[np.ndarray, float]]:
        """Return the optional arrays of a state, with one row for each copy, and their units."""
        faults = self.neurons.faults
        if not isinstance(faults, Faults):
            return {}
        arrays = {"threshold_rise": (faults.raised, 1.0), "other_currents": (faults.currents, 1.0)}
        if faults.refractory_steps > 0:
            arrays["waiting"] = faults.waiting, self.time_step
        return {name: pair for name, pair in arrays.items() if pair[0][0].size}

    def _with_delays(self, form: Any, delays: np.ndarray, first: np.ndarray | None = None) -> tuple[Any, int]:
        """Return weights with `delays` plus the delays of the chip, and the number of slots for charge."""
        # `first` has the place in a slot where the currents of each source begin.
        chip = self._clock.imperfections
        steps = whole_steps(0.0 if chip is None else chip.delays, self.time_step)
        kind: type = stepped.DelayedSources
        if steps.ndim == 2:
            sources = np.repeat(np.arange(len(steps)), np.diff(form.starts))
            kind, delays, steps = stepped.DelayedSynapses, delays[sources], steps[sources, form.targets]
        delays = checks.read_only(delays + steps)
        if first is None:
            first = np.zeros(self.network.n_neurons, dtype=np.int64)
        return kind(form, delays, checks.read_only(first)), int(delays.max(initial=0)) + 1

    def _faults(self, leak: float, n_leaking: int, **of_real: Any) -> NoFaults | Faults:
        """Return the record of imperfections; `n_leaking` is the number of charge sums, 0 for integers."""
        chip, step, shape = self._clock.imperfections, self.time_step, self.soma_bias.shape
        if chip is None:
            return NoFaults(0)
        # The variance of unit white noise over a step; a part of the noise leaks within the step.
        variance = step * mean_exponential(-2.0 * leak * step)
        leaked, refused, kicks = np.zeros((3, shape[0], n_leaking))
        return Faults(
            refractory_steps=int(whole_steps(chip.refractory_time, step)),
            noise=chip.potential_noise * math.sqrt(variance),
            floor=-math.inf if chip.potential_floor is None else chip.potential_floor,
            lost=chip.lost_spikes,
            key=chip.seed,
            waiting=np.zeros(shape, dtype=np.int64),
            n_lost=np.zeros(shape, dtype=np.int64),
            normals=np.empty(shape[1]),
            leaked=leaked,
            refused=refused,
            kicks=kicks,
            threshold=checks.read_only(self.network.firing_threshold),
            **of_real,
        )

    def _take_pending(self, pending: np.ndarray) -> None:
        """Put delayed charge into slots; the charge in slot s arrives at the end of step s."""
        ours = self._copies.pending
        if pending.size != ours[0].size:
            raise ValueError(
                f"pending of state must have {ours.shape[1] * len(self._kinds)} rows, one more than the "
                f"longest delay for each kind of current; got {len(pending)}"
            )
        ours[:] = np.roll(pending.reshape(ours.shape[1:]), 1, axis=0)
        self._copies.is_due[:] = ours.any(axis=2)

    def _begin(self, record: bool) -> stepped.MessageLog:
        if not record:
            return NO_MESSAGES
        capacity = self._spikes_per_call + self.network.n_neurons
        return stepped.MessageLog(*np.empty((3, capacity), dtype=np.int64))

    def _call(
        self, active: np.ndarray, position: int, stops: Any, most: int, buffer: stepped.MessageLog
    ) -> tuple[int, int, int]:
        return stepped.advance(
            self.neurons, self._synapses, self._copies, active, position, stops, self._steps_per_call,
            min(self._spikes_per_call, most + 1), buffer,
        )  # fmt: skip

    def _restart(self, copies: np.ndarray) -> None:
        run_state.restart(self.neurons, self._copies, copies)


def mean_exponential(exponent: float) -> float:
    """Return the mean of e^x for x from 0 to `exponent`."""
    return math.expm1(exponent) / exponent if exponent != 0.0 else 1.0

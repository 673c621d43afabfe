"""Runs on a clock of neurons whose states are real numbers."""

import math
from typing import Any

import numpy as np
from scipy import sparse

from snn._kernels.faults import Faults
from snn._kernels.real_neurons import CHUNK, MOST_AT_ONCE, THRESHOLD_ROW, RealNeurons
from snn._kernels.stepped import MessageLog
from snn.network import NetworkState, RunnableNetwork
from snn.run.run import Run, Spikes
from snn.run.stepped import SteppedRun, mean_exponential
from snn.run.time import Clock
from snn.weights import SparseWeights


class RealOnClock(SteppedRun):
    """Copies of one network on a clock, in real numbers; for the parameters, see `Run`."""

    @property
    def is_lost(self) -> np.ndarray:
        # A copy is lost if a neuron must fire too often in a step, and so stays above its threshold.
        # Refractory or adapting neurons may stay above their thresholds although the copy is not lost.
        if self.neurons.faults.refractory_steps > 0 or self._clock.neuron.adaptation > 0.0:  # type: ignore[union-attr]
            return super().is_lost
        return ~(self.membrane_potential <= self.network.firing_threshold).all(axis=1)

    @property
    def filtered_spikes(self) -> np.ndarray:
        return self.neurons.trace / self.neurons.growth[:, np.newaxis]

    def require_valid(self) -> None:
        super().require_valid()
        if self._burst_limit is None and self.is_lost.any():
            is_late = (self.membrane_potential > self.network.firing_threshold).any(axis=0)
            raise ValueError(
                f"time_step must be so short that no neuron has to fire more than {MOST_AT_ONCE:,.0f} times "
                f"in a step; got {self.time_step}, too long for neuron {int(np.argmax(is_late))}: "
                "see docs/theory.md, section 7.2"
            )

    def _running(self, network: RunnableNetwork) -> RunnableNetwork:
        chip = self._clock.imperfections
        return network if chip is None else chip.mismatched(network)

    def _make_synapses(self) -> tuple[Any, int]:
        weights, n_neurons, chip = self.network.weights, self.network.n_neurons, self._clock.imperfections
        weights.compute_rows(np.arange(n_neurons))
        if chip is None:
            return weights.kernel_form, 0
        constants = self._time_constants()
        self._kinds = np.append(1.0, np.setdiff1d(constants, 1.0))
        if np.ndim(chip.delays) == 2 or len(self._kinds) > 1:
            rows = weights.tocsr()
            # A current begins at the charge of its spike divided by its time constant.
            values = rows.data / np.repeat(constants, np.diff(rows.indptr))
            weights = SparseWeights(sparse.csr_array((values, rows.indices, rows.indptr), rows.shape))
        first = np.where(constants == 1.0, 0, 1 + np.searchsorted(self._kinds[1:], constants)) * n_neurons
        return self._with_delays(weights.kernel_form, np.zeros(n_neurons, dtype=np.int64), first)

    def _time_constants(self) -> np.ndarray:
        """Return the time constant of the currents of each source."""
        n_neurons = self.network.n_neurons
        constants = self._clock.neuron.time_constants  # type: ignore[union-attr]
        if constants is not None and len(constants) != n_neurons:
            raise ValueError(
                f"time_constants must be one number for each of {n_neurons} neurons; got {len(constants)}"
            )
        return np.ones(n_neurons) if constants is None else np.array(constants)

    def _start(self, state: NetworkState | Run | None) -> None:
        neuron: Any = self._clock.neuron
        step, shape, is_euler = self.time_step, self.soma_bias.shape, neuron.integration == "euler"
        self._own_departures = (
            ("Euler's steps",) * is_euler
            + ("resets to zero",) * (neuron.reset == "zero")
            + ("time constants",) * (len(self._kinds) > 1)
            + ("adaptation",) * (neuron.adaptation > 0.0)
        )
        # For one unit of each kind of current: `decays` is the current after a step, `charges` the charge of
        # the step, and `arrivals` the part of this charge that does not leak within the step.
        decays = np.array([math.exp(-step / constant) for constant in self._kinds])
        charges = arrivals = np.full(len(self._kinds), step) if is_euler else self._kinds * (1.0 - decays)
        rise, charge = step, float(charges[0])
        self.gain, self.current_per_rate = charge / -math.expm1(-step), step / -math.expm1(-step)
        leak = 0.0 if self._clock.imperfections is None else self._clock.imperfections.leak
        keep = 1.0 - leak * step if is_euler else math.exp(-leak * step)
        if leak > 0.0 and not is_euler:
            rise = step * mean_exponential(-leak * step)
            # For each time constant tau, the integral of e^(-l (step - t)) e^(-t / tau) over a step.
            exponents = (1.0 / self._kinds - leak) * step
            arrivals = step * decays * np.array([mean_exponential(exponent) for exponent in exponents])
        self.neurons = RealNeurons(
            faults=self._faults(
                leak,
                n_leaking=shape[1],
                keep=keep,
                charge=charge,
                raised=np.zeros((shape[0], shape[1] * (neuron.adaptation > 0.0))),
                raise_by=neuron.adaptation,
                stays=math.exp(-step / neuron.adaptation_time),
                currents=np.zeros((shape[0], len(self._kinds) - 1, shape[1])),
                decays=decays[1:],
                arrivals=arrivals[1:],
                charges=charges[1:],
            ),
            rise=rise,
            arrival=float(arrivals[0]),
            decay=float(decays[0]),
            subtract=neuron.reset == "subtract",
            bias=self.soma_bias,
            potential=self.membrane_potential,
            current=self.synaptic_current,
            removed=np.zeros(shape),
            trace=np.zeros(shape),
            growth=np.ones(shape[0]),
            step_growth=1.0 / float(decays[0]) if decays[0] > 0.0 else math.inf,
            workspace=new_workspace(self.network.firing_threshold),
        )
        self.neurons.trace[:] = getattr(state, "filtered_spikes", 0.0)

    def _recorded(self, buffer: MessageLog, n_entries: int) -> Spikes:
        steps, neurons, counts = (column[:n_entries] for column in buffer)
        return Spikes(np.repeat(steps, counts) * self.time_step, np.repeat(neurons, counts))

    def _removed(self) -> np.ndarray:
        removed, faults = self.neurons.removed, self.neurons.faults
        if not isinstance(faults, Faults):
            return removed
        # charge = rise of the potential + resets + leaked + refused - kicks (docs/theory.md, section 7.5).
        return removed + faults.leaked + faults.refused - faults.kicks


def charge_of_step(clock: Clock) -> float:
    """Return the charge that one unit of synaptic current at the beginning of a step brings in the step."""
    # With exact integration only the decay is rounded: charge and decay add up to 1, so charge is conserved.
    is_euler = clock.neuron.integration == "euler"  # type: ignore[union-attr]
    return clock.time_step if is_euler else 1.0 - math.exp(-clock.time_step)


def new_workspace(firing_threshold: np.ndarray) -> np.ndarray:
    """Return the workspace of `RealNeurons`, with rows aligned to cache lines of 64 bytes."""
    padded = -(-len(firing_threshold) // CHUNK) * CHUNK
    memory = np.zeros(4 * padded + 8)
    first = -memory.__array_interface__["data"][0] % 64 // 8
    rows = memory[first : first + 4 * padded].reshape(4, padded)
    rows[THRESHOLD_ROW] = np.inf
    rows[THRESHOLD_ROW, : len(firing_threshold)] = firing_threshold
    return rows

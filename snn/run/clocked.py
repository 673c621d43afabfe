"""Runs on a clock: steps of fixed length, as on digital chips."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from snn._kernels import clocked
from snn.base import checks
from snn.base.caller_warnings import warn_caller
from snn.network import NetworkState, RunnableNetwork, require_moderate_weights
from snn.run.run import Run, Spikes

if TYPE_CHECKING:
    from snn.run.clock import Clock

# Steps are counted in 64-bit integers, and must be whole numbers as floats.
MOST_STEPS = 2**53
# Of times, in steps: less is rounding.
ROUNDING = 1e-9
# With shorter steps, the change in one step is lost in rounding.
SHORTEST_STEP = 2.0**-40
# In synaptic time constants; a longer one is most often a mistake about the unit of time.
LONGEST_STEP = 1.0
# Spikes after which a call to the kernel ends, whatever the number of updates: recorded spikes need memory.
MOST_SPIKES_PER_CALL = 65_536


def checked_step(time_step: float, *, warn: bool = True) -> float:
    """Return a time step on which a clock can run; warn of one longer than a synaptic time constant."""
    time_step = checks.positive_number("time_step", time_step)
    if time_step < SHORTEST_STEP:
        raise ValueError(f"time_step must be at least 2^-40, where rounding is small; got {time_step}")
    if warn and time_step > LONGEST_STEP:
        warn_caller(
            f"time_step is {time_step:g} synaptic time constants, which are the unit of time: in so long a "
            "step neurons fire together that would inhibit each other, and rates may swing without end; with "
            "1/4 or less they follow the exact network (docs/theory.md, section 7.2)",
            UserWarning,
        )
    return time_step


class SteppedRun(Run):
    """What runs on a clock have in common, of whatever kind their neurons are; parameters as of `Run`."""

    buffer_type: Callable[..., Any]

    def __init__(self, *arguments: Any, time_step: float, work_per_spike: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.time_step = time_step
        self.current_per_rate = time_step / -math.expm1(-time_step)
        self._steps, self._steps_before = np.zeros((2, len(self.spike_counts)), dtype=np.int64)
        self._steps_per_call = max(1, self._updates_per_call // self.network.n_neurons)
        spikes_per_call = max(1, int(self._updates_per_call / max(work_per_spike, 1.0)))
        self._spikes_per_call = min(spikes_per_call, MOST_SPIKES_PER_CALL)

    @property
    def time(self) -> np.ndarray:
        """Time since each copy was started, in synaptic time constants, shape (n_copies,)."""
        return self._steps * self.time_step

    @property
    def n_steps(self) -> np.ndarray:
        """Steps since each copy was started, shape (n_copies,)."""
        return self._steps

    @property
    def total_steps(self) -> np.ndarray:
        """As `n_steps`, those before a restart included."""
        return self._steps_before + self._steps

    def _stops(self, until: float | np.ndarray) -> np.ndarray:
        times = np.full(len(self._steps), until, dtype=np.float64)
        steps = np.floor(times / self.time_step)
        # (n * time_step) / time_step may be a little below n, and floor then gives n - 1.
        return (steps + ((steps + 1.0) * self.time_step <= times)).astype(np.int64)

    def instants_of(self, times: np.ndarray) -> np.ndarray:
        """As `Run`: the ends of the steps in which the times lie."""
        steps = times / self.time_step
        # A time at the end of a step may be a little above it, by rounding.
        return np.ceil(steps - np.maximum(ROUNDING, 4.0 * np.spacing(steps))) * self.time_step

    def _begin(self, record: bool) -> Any:
        capacity = self._spikes_per_call + self.network.n_neurons if record else 0
        return self.buffer_type(*np.empty((3, capacity), dtype=np.int64))

    def _restart(self, copies: np.ndarray) -> None:
        self._steps_before[copies] += self._steps[copies]
        self._steps[copies] = 0
        if len(self.window_moments):
            self.window_moments[copies] = 0.0


class RealRun(SteppedRun):
    """What runs on a clock have in common whose neurons have real numbers; parameters as of `SteppedRun`."""

    buffer_type = clocked.Spikes

    def _recorded(self, buffer: clocked.Spikes, n_entries: int) -> Spikes:
        times = buffer.times[:n_entries]
        steps = np.repeat(buffer.steps[:n_entries], times)
        return Spikes(steps * self.time_step, np.repeat(buffer.neurons[:n_entries], times))


class ClockRun(RealRun):
    """Copies of one network, advanced by the rules of `simulate_clocked`; parameters as of `Run`."""

    def __init__(
        self,
        how: Clock,
        network: RunnableNetwork,
        soma_bias: np.ndarray,
        state: NetworkState | Run | None = None,
        **options: Any,
    ) -> None:
        work_per_spike = network.weights.work_per_spike
        steps = {"time_step": how.time_step, "work_per_spike": work_per_spike}
        super().__init__(how, network, soma_bias, state, **steps, **options)
        decay = math.exp(-self.time_step)
        # With exact integration only the decay is rounded: the sum of the two is 1, and charge is conserved.
        arrival = 1.0 - decay if how.integration == "exact" else self.time_step
        self.gain = arrival / (1.0 - decay)
        self._rules = clocked.Rules(self.time_step, arrival, decay, subtract=how.reset == "subtract")
        self._copies = clocked.Copies(
            bias=checks.read_only(soma_bias),
            potential=self.membrane_potential,
            current=self.synaptic_current,
            spike_counts=self.spike_counts,
            removed=np.zeros(soma_bias.shape),
            trace=np.zeros(soma_bias.shape),
            growth=np.ones(len(soma_bias)),
            steps=self._steps,
            moments=self.window_moments,
        )
        if state is not None:
            self._copies.trace[:] = getattr(state, "filtered_spikes", 0.0)
        network.weights.prepare(np.arange(network.n_neurons))
        if self._checks_weights:
            require_moderate_weights(network.weights, network.firing_threshold)
        self._form = network.weights.kernel_form()
        self._workspace = _workspace(network.firing_threshold)

    @property
    def filtered_spikes(self) -> np.ndarray:
        """The synaptic trace of each neuron's own spikes: 1 a spike, times e^-dt a step."""
        return self._copies.trace / self._copies.growth[:, np.newaxis]

    @property
    def is_lost(self) -> np.ndarray:
        """Copies in which a neuron has to fire too often in a step; only where the run `gives_up`."""
        if not self._gives_up:
            return super().is_lost
        return ~(self.membrane_potential <= self.network.firing_threshold).all(axis=1)

    def require_valid(self) -> None:
        """As `Run`, unless this gives up; also ValueError if a neuron has to fire too often in a step."""
        if self._gives_up:
            return
        super().require_valid()
        is_late = (self.membrane_potential > self.network.firing_threshold).any(axis=0)
        if is_late.any():
            raise ValueError(
                "time_step must be so short that no neuron has to fire more than "
                f"{clocked.MOST_AT_ONCE:,.0f} times in a step; got {self.time_step}, too long for neuron "
                f"{int(np.argmax(is_late))}: docs/theory.md, section 7.2"
            )

    def _call(
        self, active: np.ndarray, position: int, stops: np.ndarray, most: int, buffer: clocked.Spikes
    ) -> tuple[int, int, int]:
        return clocked.advance(
            self._form, self._copies, self._workspace, self._rules, active, position, stops,
            self._steps_per_call, min(self._spikes_per_call, most + 1), buffer,
        )  # fmt: skip

    def _link(self) -> None:
        self._copies = self._copies._replace(bias=checks.read_only(self.soma_bias))
        self._form = self.network.weights.kernel_form()

    def _restart(self, copies: np.ndarray) -> None:
        super()._restart(copies)
        self._copies.removed[copies] = self._copies.trace[copies] = 0.0
        self._copies.growth[copies] = 1.0

    def _removed(self) -> np.ndarray:
        return self._copies.removed


def _workspace(firing_threshold: np.ndarray) -> clocked.Workspace:
    """Return the workspace of a kernel, its rows aligned to cache lines."""
    group = clocked.GROUP
    padded = math.ceil(len(firing_threshold) / group) * group
    memory = np.zeros(4 * padded + 8)
    first = -memory.ctypes.data % 64 // 8
    rows = memory[first : first + 4 * padded].reshape(4, padded)
    rows[clocked.THRESHOLD] = np.inf
    rows[clocked.THRESHOLD, : len(firing_threshold)] = firing_threshold
    return clocked.Workspace(rows, np.empty(padded, dtype=np.int64))

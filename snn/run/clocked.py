"""Simulation with a fixed time step, as on digital chips."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
from tqdm import tqdm

from snn._kernels import clocked
from snn.base import checks
from snn.base.caller_warnings import warn_caller
from snn.network import RunnableNetwork, SpikingNetwork, require_moderate_weights, starting_state
from snn.record.result import RunawayError, SimulationResult, SpikeTrain
from snn.run.exact import NO_MOMENTS, UPDATES_PER_CALL, require_range
from snn.run.simulate import default_max_spikes, describe_runaway
from snn.state import NetworkState

INTEGRATIONS = ("exact", "euler")
RESETS = ("subtract", "zero")
# Steps are counted in 64-bit integers, and must be whole numbers as floats.
MOST_STEPS = 2**53
# Of what a shorter step brings, rounding would leave few digits, or none.
SHORTEST_STEP = 2.0**-40
# In synaptic time constants; a longer one is most often a mistake about the unit of time.
LONGEST_STEP = 1.0
# Spikes after which a call to the kernel ends, whatever the number of updates: recorded spikes need memory.
MOST_SPIKES_PER_CALL = 65_536


def simulate_clocked(
    network: SpikingNetwork,
    duration: float,
    *,
    time_step: float,
    integration: str = "exact",
    reset: str = "subtract",
    state: NetworkState | None = None,
    record_spikes: bool = False,
    max_spikes: int | None = None,
    progress: bool = False,
) -> SimulationResult:
    """Run a spiking network on a clock of fixed step.

    One step from t to t + dt does, in this order and for all neurons at once::

        1.  v <- v + beta dt + h (1 - e^-dt)    h: the synaptic current at time t
            ("euler": v <- v + (beta + h) dt)
        2.  where v >= theta: n = floor(v / theta) spikes, and v <- v - n theta
            (reset "zero": one spike, and v <- 0)
        3.  h <- e^-dt h + W^T n                the spikes of 2 act from t + dt on

    By default nothing but the time of a spike is rounded, to the end of its step.  Rule 1 solves the
    equations of the neuron, and rule 2 fires as often as there is charge for.  So the identities of an exact
    run hold on the grid, to rounding, whatever the step (docs/theory.md, section 7), and rates tend to the
    same limit.

    The papers' clock, ``integration="euler", reset="zero"``, has two errors that do not vanish with time: a
    spike brings dt / (1 - e^-dt) times its weight, about 1 + dt / 2, and the reset loses what the potential
    had risen beyond the threshold.  Each option removes one of them.

    Parameters
    ----------
    network : SpikingNetwork
        The network.
    duration : float
        Length of the run, in synaptic time constants; a whole number of steps.
    time_step : float
        dt, in synaptic time constants.
    integration : {"exact", "euler"}, default "exact"
        How potentials rise within a step: by the charge that arrives, or by dt times the current at its
        beginning.
    reset : {"subtract", "zero"}, default "subtract"
        What a spike takes from the potential: the threshold, or all of it.  With "subtract" a neuron fires as
        often in a step as its potential holds the threshold, at most 1,024 times, and with "zero" once.
    state, record_spikes, max_spikes, progress
        As for `simulate`.

    Returns
    -------
    SimulationResult
        A spike's time is the end of its step, when it is delivered.  `average_soma_current` is the charge
        that rule 1 brought, divided by the time.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.
    RunawayError
        If the network emits more than `max_spikes` spikes.
    OverflowError
        If numbers grow beyond the range of float64, about 1e308.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, section 4: Euler's steps.  Rotter and Diesmann (1999),
    Biological Cybernetics 81: exact ones.
    """
    checks.instance_of("network", network, SpikingNetwork)
    duration = checks.positive_number("duration", duration)
    time_step = checked_step(time_step)
    integration = checks.one_of("integration", integration, INTEGRATIONS)
    reset = checks.one_of("reset", reset, RESETS)
    state = starting_state(network, state)
    record_spikes = checks.flag("record_spikes", record_spikes)
    progress = checks.flag("progress", progress)
    n_steps = whole_steps(duration, time_step)
    if max_spikes is None:
        max_spikes = default_max_spikes(network, duration, state)
    else:
        max_spikes = checks.positive_integer("max_spikes", max_spikes)

    run = ClockDrivenRun(
        network,
        network.soma_bias[np.newaxis],
        time_step=time_step,
        integration=integration,
        reset=reset,
        state=state,
        window_moments=True,
    )
    require_moderate_weights(network.weights, network.firing_threshold)
    spike_steps, spike_neurons = run.advance(
        n_steps, record_spikes=record_spikes, max_spikes=max_spikes, progress=progress
    )
    require_range(run.membrane_potential, run.synaptic_current, network.firing_threshold)

    n_done = int(run.steps[0])
    elapsed = duration if n_done == n_steps else n_done * time_step
    final = NetworkState(
        membrane_potential=run.membrane_potential[0],
        synaptic_current=run.synaptic_current[0],
        time=state.time + elapsed,
    )
    spikes = None
    if record_spikes:
        spikes = SpikeTrain(
            times=state.time + np.minimum(spike_steps * time_step, elapsed),
            neurons=spike_neurons,
            n_neurons=network.n_neurons,
            start=state.time,
            stop=final.time,
        )
    result = SimulationResult(
        network=network,
        duration=elapsed,
        spike_counts=run.spike_counts[0],
        average_soma_current=run.charge[0] / elapsed,
        window_moments=run.window_moments[0],
        state=final,
        spikes=spikes,
        n_steps=n_done,
    )
    if result.n_spikes > max_spikes:
        raise RunawayError(describe_runaway(result, max_spikes), result)
    is_late = final.membrane_potential > network.firing_threshold
    if is_late.any():
        raise ValueError(
            "time_step must be so short that no neuron has to fire more than "
            f"{clocked.MOST_AT_ONCE:,.0f} times in a step; got {time_step}, too long for neuron "
            f"{int(np.argmax(is_late))}"
        )
    return result


def checked_step(time_step: float, *, warn: bool = True) -> float:
    """Return a time step as a float; TypeError or ValueError unless a clock can run on it.

    Warn if it is longer than a synaptic time constant, unless what is called with it does.
    """
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


def whole_steps(duration: float, time_step: float) -> int:
    """Return how many steps a duration has; ValueError unless it is a whole number."""
    n_steps = round(min(duration / time_step, MOST_STEPS))
    if n_steps < 1 or abs(n_steps * time_step - duration) > 1e-9 * duration:
        raise ValueError(
            f"duration must be a whole number of time steps; got {duration} and a time_step of {time_step}"
        )
    return n_steps


class ClockDrivenRun:
    """Copies of one network, each with its own drive, advanced together on a clock.

    `simulate_clocked` runs one copy, and its rules are stated there.  Arguments are not checked.

    Parameters
    ----------
    network : SpikingNetwork, or another with its weights and thresholds
        Weights and thresholds; its soma bias is not used.
    soma_bias : ndarray, shape (n_copies, n_neurons)
        The drive of each copy; float64 and contiguous.
    time_step : float
        In synaptic time constants.
    integration, reset : str
        As for `simulate_clocked`.
    state : NetworkState or ClockDrivenRun, optional
        The state that every copy starts in, or a run whose copies are continued; by default rest.
    window_moments : bool, default False
        Keep the moments of the spike times of every neuron, for `snn.record.rates.smooth_rate_of_moments`.
    updates_per_call : int, default UPDATES_PER_CALL
        Updates of a neuron after which a call to the kernel ends; no bit depends on it.

    Attributes
    ----------
    spike_counts : ndarray of int, shape (n_copies, n_neurons)
        Spikes so far.
    membrane_potential, synaptic_current : ndarray, shape (n_copies, n_neurons)
        State of the copies.
    steps : ndarray of int, shape (n_copies,)
        Steps so far.
    gain : float
        The charge that a spike brings over all steps, in units of its weight: 1, if integration is exact.
    window_moments : ndarray, shape (n_copies, n_neurons, 3)
        The sums of t^2, t^3 and t^4 over the times t of each neuron's spikes, since the start, if they are
        kept; a spike's time is the end of its step.
    """

    def __init__(
        self,
        network: RunnableNetwork,
        soma_bias: np.ndarray,
        *,
        time_step: float,
        integration: str = "exact",
        reset: str = "subtract",
        state: NetworkState | ClockDrivenRun | None = None,
        window_moments: bool = False,
        updates_per_call: int = UPDATES_PER_CALL,
    ) -> None:
        self.network = network
        self.time_step = float(time_step)
        decay = math.exp(-self.time_step)
        # Of the two, arrival and decay, one is rounded, and their sum is 1: no charge is lost or made.
        arrival = 1.0 - decay if integration == "exact" else self.time_step
        self.gain = arrival / (1.0 - decay)
        self._rules = clocked.Rules(self.time_step, arrival, decay, subtract=reset == "subtract")
        shape: tuple[int, ...] = soma_bias.shape
        self._bias = checks.read_only(soma_bias)
        self.membrane_potential = np.zeros(shape)
        self.synaptic_current = np.zeros(shape)
        self.spike_counts = np.zeros(shape, dtype=np.int64)
        self.steps = np.zeros(shape[0], dtype=np.int64)
        self.window_moments = np.zeros((*shape, 3)) if window_moments else NO_MOMENTS
        self._removed = np.zeros(shape)
        self._trace = np.zeros(shape)
        self._growth = np.ones(shape[0])
        if state is not None:
            self.membrane_potential[:] = state.membrane_potential
            self.synaptic_current[:] = state.synaptic_current
        if isinstance(state, ClockDrivenRun):
            self._trace[:] = state.filtered_spikes
        self._initial_potential = self.membrane_potential.copy()
        network.weights.prepare(np.arange(network.n_neurons))
        self._form = network.weights.kernel_form()
        self._workspace = _workspace(network.firing_threshold)
        self._steps_per_call = max(1, updates_per_call // network.n_neurons)
        work_per_spike = max(network.weights.work_per_spike, 1.0)
        self._spikes_per_call = min(max(1, int(updates_per_call / work_per_spike)), MOST_SPIKES_PER_CALL)

    def advance(
        self,
        step: int | np.ndarray,
        *,
        active: np.ndarray | None = None,
        record_spikes: bool = False,
        max_spikes: int | None = None,
        progress: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Advance the copies `active` (default: all) to the end of a step, counted from where they started; a
        step for all, or one for each copy of the run.

        Stops early, with fewer `steps`, once this call has emitted more than `max_spikes` spikes.  Returns
        the steps (counted from 1) and neurons of the spikes, copy by copy; empty unless recorded.
        """
        n_copies, n_neurons = self.spike_counts.shape
        if active is None:
            active = np.arange(n_copies)
        stop_steps = np.full(n_copies, step, dtype=np.int64)
        capacity = self._spikes_per_call + n_neurons if record_spikes else 0
        spikes = clocked.Spikes(*np.empty((3, capacity), dtype=np.int64))
        recorded_steps, recorded_neurons = [spikes.steps[:0].copy()], [spikes.neurons[:0].copy()]
        copies = clocked.Copies(
            bias=self._bias,
            potential=self.membrane_potential,
            current=self.synaptic_current,
            spike_counts=self.spike_counts,
            removed=self._removed,
            trace=self._trace,
            growth=self._growth,
            steps=self.steps,
            moments=self.window_moments,
        )
        position, n_spikes = 0, 0
        n_steps = int((stop_steps - self.steps)[active].sum())
        with tqdm(total=n_steps, unit="step") if progress else nullcontext() as bar:
            while position < len(active) and (max_spikes is None or n_spikes <= max_spikes):
                budget = self._spikes_per_call
                if max_spikes is not None:
                    budget = min(budget, max_spikes - n_spikes + 1)
                position, n_done, n_new, n_recorded = clocked.advance(
                    self._form,
                    copies,
                    self._workspace,
                    self._rules,
                    active,
                    position,
                    stop_steps,
                    self._steps_per_call,
                    budget,
                    spikes,
                )
                n_spikes += n_new
                if record_spikes:
                    times = spikes.times[:n_recorded]
                    recorded_steps.append(np.repeat(spikes.steps[:n_recorded], times))
                    recorded_neurons.append(np.repeat(spikes.neurons[:n_recorded], times))
                if bar is not None:
                    bar.update(n_done)
        return np.concatenate(recorded_steps), np.concatenate(recorded_neurons)

    def restart(self, copies: np.ndarray) -> None:
        """Start some copies again at step zero, without currents; see `EventDrivenRun.restart`."""
        self._initial_potential[copies] = self.membrane_potential[copies]
        for array in (self.synaptic_current, self.steps, self._removed, self._trace):
            array[copies] = 0
        self._growth[copies] = 1.0
        if len(self.window_moments):
            self.window_moments[copies] = 0.0

    @property
    def charge(self) -> np.ndarray:
        """What rule 1 brought since the start: the rise of the potentials plus what resets took from them.

        The average soma current is charge / (steps * time_step).
        """
        return (self.membrane_potential - self._initial_potential) + self._removed

    @property
    def filtered_spikes(self) -> np.ndarray:
        """Synaptic trace of each neuron's own spikes: 1 a spike, times e^-dt a step.

        The spikes of a step count in full at its end.  From rest, the currents are W^T times these.
        A run that starts from a `NetworkState` starts them at zero.
        """
        return self._trace / self._growth[:, np.newaxis]


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

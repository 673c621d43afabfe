"""Exact simulation: from spike to spike, with no time step."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
from scipy import sparse
from tqdm import tqdm

from snn import checks
from snn._kernels import clock as clocks
from snn._kernels import dense, lazy, mirrored, runs, segments
from snn._kernels import sparse as sparse_kernels
from snn._kernels.convolution import grid, loop
from snn.network import SpikingNetwork
from snn.on_demand import InhibitionOnDemand
from snn.result import RunawayError, SimulationResult, SpikeTrain
from snn.state import NetworkState
from snn.stencil import StencilWeights
from snn.weights import (
    BlockWeights,
    LateralInhibition,
    MirroredWeights,
    SegmentedWeights,
    lateral_of,
    scaled_rows,
    stored_rows,
)

# A kernel returns to Python after about this many neuron updates (a tenth of a second or so), so
# that Ctrl-C and a progress bar work.
UPDATES_PER_CALL = 30_000_000
MOST_SPIKES_PER_CALL = 65_536
LEAST_SPIKE_LIMIT = 1_000_000
# Weights that wear LateralInhibition's matrix, or an array's, run lazily.
LAZY_FORMS = (np.ndarray, LateralInhibition, InhibitionOnDemand, MirroredWeights)
# When a row of weights is missing, those of neurons that will fire within about this time are computed with
# it, but no more than so many: one product of matrices costs little more than one of a matrix and a vector.
LOOK_AHEAD = 2.0
ROWS_AT_ONCE = 64
NO_TIMES, NO_NEURONS = np.empty(0), np.empty(0, dtype=np.int64)


def simulate(
    network: SpikingNetwork,
    duration: float,
    *,
    state: NetworkState | None = None,
    record_spikes: bool = False,
    max_spikes: int | None = None,
    progress: bool = False,
) -> SimulationResult:
    """Run a spiking network exactly, from event to event.

    Between spikes potentials and currents follow a closed form, and the next spike is a root of it:
    spike times are exact to rounding, whatever the duration.  Neurons that reach their thresholds at
    exactly the same time fire in the order of their indices.

    Parameters
    ----------
    network : SpikingNetwork
        What to run.
    duration : float
        How long, in synaptic time constants; positive.
    state : NetworkState, optional
        Where to start; by default at rest at time 0.
    record_spikes : bool, default False
        Keep every spike's time and neuron.
    max_spikes : int, optional
        Stop with an error after so many spikes.  By default 1,000,000, or a hundred times what the
        drive alone could cause if that is more; a network that only inhibits never comes near.
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    SimulationResult

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.
    RunawayError
        If the network emits more than `max_spikes` spikes.  The error carries the run up to there.
    OverflowError
        If numbers grow beyond the range of float64, about 1e308.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, section 2; Lin and Tang (2018), arXiv:1805.08952,
    equations 1-5.
    """
    checks.instance_of("network", network, SpikingNetwork)
    duration = checks.positive_number("duration", duration)
    start = starting_state(network, state)
    record_spikes = checks.flag("record_spikes", record_spikes)
    progress = checks.flag("progress", progress)
    if max_spikes is not None:
        max_spikes = checks.positive_integer("max_spikes", max_spikes)

    run = EventDrivenRun(network, network.soma_bias[np.newaxis], state)
    if max_spikes is None:
        max_spikes = default_max_spikes(network, duration, start)
    times, neurons = run.advance(
        duration, record_spikes=record_spikes, max_spikes=max_spikes, progress=progress
    )
    require_range(run.membrane_potential, run.synaptic_current)

    final = run.state(0, start_time=start.time)
    elapsed = float(run.clock[0, clocks.TIME])
    spikes = None
    if record_spikes:
        spikes = SpikeTrain(
            times=start.time + times,
            neurons=neurons,
            n_neurons=network.n_neurons,
            start=start.time,
            stop=max(final.time, start.time + times[-1]) if len(times) else final.time,
        )
    if elapsed > 0.0:
        # The charge that came in is what the spikes took and what is left (docs/theory.md, equation 4).
        average_soma_current = runs.average_current(
            network.firing_threshold,
            run.spike_counts[0],
            start.membrane_potential,
            final.membrane_potential,
            elapsed,
        )
    else:  # a runaway within its first instant
        average_soma_current = network.soma_bias + start.synaptic_current
    result = SimulationResult(
        network=network,
        duration=elapsed,
        spike_counts=run.spike_counts[0],
        average_soma_current=average_soma_current,
        state=final,
        spikes=spikes,
    )
    if result.n_spikes > max_spikes:
        raise RunawayError(describe_runaway(result, max_spikes), result)
    return result


class EventDrivenRun:
    """Copies of one network, each with its own drive, advanced together and exactly.

    This is what `simulate` runs one of and batch solvers many of.  It checks nothing.

    Parameters
    ----------
    network : SpikingNetwork
        Weights and thresholds; its soma bias is not used.  Anything else with these, and `n_neurons`, will
        do, and may have `SegmentedWeights`.
    soma_bias : ndarray, shape (n_copies, n_neurons)
        The drive of each copy.
    state : NetworkState or EventDrivenRun, optional
        Where every copy starts, or each where that of another run stands; by default at rest.  Times
        of the run count from there.
    plainly : bool, default False
        Let every spike touch every neuron, also where weights are dense or mirrored: the same spikes to
        rounding, by kernels that are simpler and mostly slower.

    Attributes
    ----------
    spike_counts : ndarray of int, shape (n_copies, n_neurons)
        Spikes so far.
    filtered_spikes : ndarray, shape (n_copies, n_neurons)
        The synaptic trace of each neuron's own spikes: 1 a spike, fading as e^-t.  There for
        `BlockWeights` only, whose users change weights in the middle of a run.
    clock : ndarray, shape (n_copies, CLOCK_COLUMNS)
        Its columns are named in `snn._kernels.clock`.
    """

    def __init__(
        self,
        network: SpikingNetwork,
        soma_bias: np.ndarray,
        state: NetworkState | EventDrivenRun | None = None,
        *,
        plainly: bool = False,
    ) -> None:
        self.network = network
        self._in_pairs = plainly and isinstance(network.weights, MirroredWeights)
        # What kernels only read goes in read-only, as some of it is: they are compiled once for all callers.
        self._bias = checks.read_only(soma_bias)
        self._threshold = checks.read_only(network.firing_threshold)
        self._potential = np.zeros(soma_bias.shape)
        self._current = np.zeros(soma_bias.shape)
        self.spike_counts = np.zeros(soma_bias.shape, dtype=np.int64)
        self.clock = np.zeros((len(soma_bias), clocks.CLOCK_COLUMNS))
        if state is not None:
            self._potential[:] = state.membrane_potential
            self._current[:] = self._to_kernel(state.synaptic_current)
            runs.drop_negligible(self._current)
        runs.begin(self._bias, self._threshold, self.clock)

        # What a call may overshoot by: neurons that fire together, and a span or window of a kernel.
        self._slack = network.n_neurons + clocks.MOST_EVENTS_PER_WINDOW
        updates_per_spike = network.n_neurons
        weights = network.weights
        if isinstance(weights, LAZY_FORMS) and not plainly:
            # The mean soma current of each neuron over the last span.
            self._drift = soma_bias.copy()
            if state is not None:
                with np.errstate(over="ignore"):
                    self._drift += self._current
            self._kernel = lazy.advance_lazily
            self._weights = self._lazy_weights()
            self._slack += lazy.most_events_per_span(network.n_neurons)
        elif isinstance(weights, MirroredWeights):
            self._kernel = mirrored.advance_mirrored
            self._weights = (*scaled_rows(weights.lateral), weights.exchange)
        elif isinstance(weights, sparse.csr_array):
            self._kernel = sparse_kernels.advance_sparse
            self._weights = (weights.indptr, weights.indices, weights.data)
        elif isinstance(weights, StencilWeights):
            self._kernel = _advance_stencil
            self._weights = (grid.Stencil(weights.values, weights.largest_value, *weights.grid_shape),)
            updates_per_spike = weights.values[0].size
            self._slack += grid.events_per_epoch(network.n_neurons)
        elif isinstance(weights, (BlockWeights, SegmentedWeights)):
            segmented = weights.segmented() if isinstance(weights, BlockWeights) else weights
            self.filtered_spikes = np.zeros(soma_bias.shape)
            if isinstance(state, EventDrivenRun):
                self.filtered_spikes[:] = state.filtered_spikes
            self._kernel = segments.advance_segments
            self._weights = (*map(checks.read_only, segmented.arrays()), self.filtered_spikes)
        else:
            self._kernel = dense.advance_dense
            self._weights = scaled_rows(weights)
        self._spikes_per_call = min(max(UPDATES_PER_CALL // updates_per_spike, 16), MOST_SPIKES_PER_CALL)

    def _lazy_weights(self) -> tuple:
        """Return what the lazy kernel takes of the weights."""
        weights, exchange = lateral_of(self.network.weights)
        rows, row_of, factor = stored_rows(weights)
        exchange = checks.read_only(exchange)
        events_per_span = lazy.most_events_per_span(self.network.n_neurons)
        costs = (lazy.COST_OF_WATCHING, events_per_span)
        return rows, rows.reshape(-1), row_of, factor, exchange, *costs, self._drift

    def _fetch_rows(self, copy: int) -> None:
        """Have the row of weights computed that a copy waits for, and some that it will want soon."""
        weights, _ = lateral_of(self.network.weights)
        n_rows = weights.shape[0]
        with np.errstate(over="ignore"):
            drive = np.maximum(self._bias[copy] + self._current[copy], 0.0)
            nearness = (self._potential[copy] + drive * LOOK_AHEAD) / self.network.firing_threshold
        nearness = nearness.reshape(-1, n_rows).max(axis=0)
        nearness[int(self.clock[copy, clocks.MISSING])] = np.inf
        weights.store(np.flatnonzero(nearness >= 1.0), most=ROWS_AT_ONCE, by=nearness)
        self._weights = self._lazy_weights()

    def advance(
        self,
        time: float,
        *,
        active: np.ndarray | None = None,
        record_spikes: bool = False,
        max_spikes: int | None = None,
        progress: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Advance the copies `active` (default: all) to `time`, counted from where they started.

        Stops early, with clocks behind `time`, once more than `max_spikes` spikes were emitted.
        Returns the times and neurons of the spikes, empty unless recorded.
        """
        if active is None:
            active = np.arange(len(self._bias))
        budget = self._spikes_per_call
        capacity = budget + self._slack if record_spikes else 0
        spike_times = np.empty(capacity)
        spike_neurons = np.empty(capacity, dtype=np.int64)
        recorded_times, recorded_neurons = [NO_TIMES], [NO_NEURONS]
        position, n_spikes = 0, 0
        bar_format = "{l_bar}{bar}| {n:.1f}/{total:.1f} tau{postfix}"
        with tqdm(total=time, unit="tau", bar_format=bar_format) if progress else nullcontext() as bar:
            while position < len(active):
                if max_spikes is not None:
                    budget = min(budget, max_spikes - n_spikes + 1)
                    if budget <= 0:
                        break
                if self.clock[active[position], clocks.TIME] > 0.0:
                    runs.drop_negligible(self._current)
                status, position, n_new = self._kernel(
                    *self._weights,
                    self._bias,
                    self._threshold,
                    self._potential,
                    self._current,
                    self.spike_counts,
                    self.clock,
                    active,
                    position,
                    time,
                    budget,
                    record_spikes,
                    spike_times,
                    spike_neurons,
                )
                n_spikes += n_new
                if status == clocks.MISSING_ROW:
                    self._fetch_rows(active[position])
                if record_spikes:
                    recorded_times.append(spike_times[:n_new].copy())
                    recorded_neurons.append(spike_neurons[:n_new].copy())
                if progress:
                    bar.set_postfix_str(f"{n_spikes:,} spikes", refresh=False)
                    bar.update(float(self.clock[active, clocks.TIME].min()) - bar.n)
        if not record_spikes:
            return NO_TIMES, NO_NEURONS
        return np.concatenate(recorded_times), np.concatenate(recorded_neurons)

    @property
    def membrane_potential(self) -> np.ndarray:
        """Potentials, shape (n_copies, n_neurons)."""
        return self._potential

    @property
    def synaptic_current(self) -> np.ndarray:
        """Synaptic currents, shape (n_copies, n_neurons)."""
        if not self._in_pairs:
            return self._current
        lateral, exchange = np.split(self._current, 2, axis=1)
        return np.hstack([exchange + lateral, exchange - lateral])

    def _to_kernel(self, synaptic_current: np.ndarray) -> np.ndarray:
        """Return the two numbers a pair that the kernel keeps; see `synaptic_current`."""
        if not self._in_pairs:
            return synaptic_current
        positive, negative = np.split(synaptic_current, 2, axis=-1)
        return np.concatenate([0.5 * (positive - negative), 0.5 * (positive + negative)], axis=-1)

    def state(self, copy: int, *, start_time: float = 0.0) -> NetworkState:
        """Return the state of one copy, whose numbers are in range."""
        return NetworkState.unchecked(
            # Rounding may leave a neuron that is about to fire a hair above its threshold.
            np.minimum(self.membrane_potential[copy], self.network.firing_threshold),
            self.synaptic_current[copy].copy(),
            start_time + float(self.clock[copy, clocks.TIME]),
        )


def _advance_stencil(
    stencil, bias, threshold, potential, current, spike_counts, clock, active, first, stop_time, max_events,
    recorded, spike_times, spike_neurons,
):  # fmt: skip
    """Call the kernel of the grid, which takes records."""
    neurons = grid.Neurons(bias, threshold, potential, current, spike_counts)
    spikes = grid.Spikes(recorded, spike_times, spike_neurons)
    return loop.advance_stencil(stencil, neurons, clock, active, first, stop_time, max_events, spikes)


def starting_state(network: SpikingNetwork, state: NetworkState | None) -> NetworkState:
    """Return `state`, or rest when it is None, having checked that the network can be in it."""
    if state is None:
        return NetworkState.at_rest(network.n_neurons)
    checks.instance_of("state", state, NetworkState)
    if state.n_neurons != network.n_neurons:
        raise ValueError(f"state has {state.n_neurons} neurons but the network has {network.n_neurons}")
    above = state.membrane_potential > network.firing_threshold
    if above.any():
        neuron = int(np.argmax(above))
        raise ValueError(
            f"state must have potentials at most the firing threshold; got "
            f"{state.membrane_potential[neuron]} above {network.firing_threshold[neuron]} for neuron {neuron}"
        )
    return state


def require_range(membrane_potential: np.ndarray, synaptic_current: np.ndarray) -> None:
    """Raise OverflowError if the state of a run has left the range of float64 numbers."""
    if not runs.in_range(membrane_potential, synaptic_current):
        raise OverflowError("potentials or currents of the network have left the range of float64 numbers")


def default_max_spikes(network: SpikingNetwork, duration: float, state: NetworkState) -> int:
    """Return the default of `max_spikes`: far above what the drive alone can cause."""
    by_drive = runs.expected_spikes(
        network.soma_bias, network.firing_threshold, state.synaptic_current, duration
    )
    return max(LEAST_SPIKE_LIMIT, math.ceil(min(100.0 * by_drive, 1e18)))


def describe_runaway(result: SimulationResult, max_spikes: int) -> str:
    """Return the sentence of a RunawayError."""
    busiest = np.argsort(-result.spike_counts, kind="stable")[:3]
    named = ", ".join(
        f"{int(i)} ({int(result.spike_counts[i]):,} spikes)" for i in busiest if result.spike_counts[i]
    )
    return (
        f"the network emitted more than max_spikes = {max_spikes:,} spikes by time {result.state.time:.6g}; "
        f"most active are neurons {named}: lateral excitation outruns the firing thresholds, "
        "or max_spikes is too small for this duration"
    )

"""The state of a run between calls of a kernel: the time, the next interval, and the arrays of the neurons.

The time of a run is a sum of millions of small intervals, so its rounding error is kept (two-sum).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import config

from snn._kernels.compiling import compiled, inlined, inner, record
from snn._kernels.neuron import BOUND_SLACK, add_to_moments
from snn._kernels.stops import StoppedNeurons

# Status that a call of `simulation.advance` returns.
PAUSED = 0  # the budget of work is spent: call again with the same arrays
REACHED = 1  # every copy is past its last stop
MISSING_ROW = 2  # a row of weights is needed but not computed yet: compute the row, and call again
BURST = 3  # the burst of a copy exceeds `largest_burst`

# Shortest and longest window, in synaptic time constants.  Windows are halved often, but never to zero.
SHORTEST_WINDOW, LONGEST_WINDOW = 1e-290, 16.0

# The smallest current that is kept.  Smaller currents are subnormal numbers, which slow the processor down.
NEGLIGIBLE_CURRENT = np.finfo(np.float64).tiny

# The state of one copy of the network.
RUN_STATE = np.dtype(
    [
        ("time", np.float64),
        ("time_error", np.float64),
        # The length of the next window, which is kept so that a pause changes no bit of the result.
        ("window", np.float64),
        # An active set is chosen by four numbers: the length of the last interval (halved if this interval
        # was run again), the expected deviation of potentials from chords, the spike rate, and the number of
        # sources.
        ("interval", np.float64),
        ("margin", np.float64),
        ("rate", np.float64),
        ("n_sources", np.int64),
        # The time that passed in intervals with screening.
        ("screened_time", np.float64),
        # The source whose row of weights is missing, or -1.
        ("missing", np.int64),
        # The burst counts the spikes of a copy beyond `burst_rate` spikes per unit of time.  A copy whose
        # burst exceeds `largest_burst` is given up.  A burst does not depend on pauses or on other copies.
        ("burst", np.float64),
        ("burst_rate", np.float64),
        ("largest_burst", np.float64),
    ],
    align=True,
)


class BurstLimit(NamedTuple):
    """The largest burst: how many spikes a copy may emit beyond `rate` spikes per time constant."""

    # The simulation of 1e7 spikes takes about a second.  If thresholds differ greatly, one spike can cause
    # 1e10 spikes.
    spikes: float = 10_000_000
    rate: int = 10_000
    per_neuron: int = 10  # each neuron adds this number to `spikes` and to `rate`


def new_records(n_records: int, columns: np.dtype) -> np.ndarray:
    """Return records of zeros; kernels read and write the columns as attributes."""
    records = np.zeros(n_records, dtype=columns)
    # Without compilation, columns are attributes only of a recarray.
    return records.view(np.recarray) if config.DISABLE_JIT else records


class _Neurons(NamedTuple):
    bias: np.ndarray
    threshold: np.ndarray
    potential: np.ndarray
    current: np.ndarray
    drift: np.ndarray  # mean soma current over the last interval, for the choice of active sets
    spike_counts: np.ndarray
    # For each neuron, its filtered spikes right after its last spike, and the time of this spike, shape
    # (n_copies, n_neurons, 2); or an empty array.
    traces: np.ndarray
    # The lowest potential that each neuron may have after a change of input, and the charge that raised
    # potentials to this floor.  If there is no floor, both arrays are empty.
    floor: np.ndarray
    lifted: np.ndarray
    # For each neuron, sums of t^2, t^3 and t^4 over its spike times t (`neuron.add_to_moments`), shape
    # (n_copies, n_neurons, 3); or an empty array.
    moments: np.ndarray


@record
class Neurons(_Neurons, StoppedNeurons):
    """The neurons of all copies of an exact run, which share thresholds; arrays have a row for each copy."""

    __slots__ = ()

    def restart(self, states, k):
        # The numbers by which an active set is chosen remain, as guesses for the next interval.
        state = states[k]
        state.time = state.time_error = state.window = 0.0
        for i in range(self.threshold.shape[0]):
            self.drift[k, i] = self.bias[k, i] + self.current[k, i]
        for i in range(self.moments.shape[1]):
            for p in range(self.moments.shape[2]):
                self.moments[k, i, p] = 0.0
        for i in range(self.traces.shape[1]):
            self.traces[k, i, 0] = self.traces[k, i, 1] = 0.0
        for i in range(self.floor.shape[0]):
            self.lifted[k, i] = 0.0

    def take_changes(self, states, k):
        for i in range(self.floor.shape[0]):
            if self.potential[k, i] < self.floor[i]:
                self.lifted[k, i] += self.floor[i] - self.potential[k, i]
                self.potential[k, i] = self.floor[i]


class SpikeLog(NamedTuple):
    """Spikes of an interval, or recorded spikes; the arrays are empty if no spikes are recorded."""

    times: np.ndarray
    neurons: np.ndarray


@inlined
def note_spike(neurons, k, neuron, now, spikes, n_recorded):
    """Count a spike of copy k; update the trace, the moments and the record, if they are kept."""
    neurons.spike_counts[k, neuron] += 1
    if neurons.traces.shape[1] > 0:
        trace, last = neurons.traces[k, neuron, 0], neurons.traces[k, neuron, 1]
        neurons.traces[k, neuron, 0] = trace * math.exp(last - now) + 1.0
        neurons.traces[k, neuron, 1] = now
    if neurons.moments.shape[1] > 0:
        add_to_moments(neurons.moments, k, neuron, now, 1.0)
    if spikes.times.shape[0] > 0:
        spikes.times[n_recorded] = now
        spikes.neurons[n_recorded] = neuron


@inlined
def advance_time(state, interval):
    """Add an interval to the time, and keep the rounding error of the sum."""
    time = state.time
    addend = interval + state.time_error
    total = time + addend
    state.time_error = addend - (total - time) if time >= addend else time - (total - addend)
    state.time = total


@compiled
def restart(neurons, states, copies):
    """Set the listed copies back to time zero."""
    for position in range(copies.shape[0]):
        neurons.restart(states, copies[position])


@inner
def drop_negligible(current):
    """Set the subnormal currents of one copy to zero."""
    for i in range(current.shape[0]):
        if abs(current[i]) < NEGLIGIBLE_CURRENT:
            current[i] = 0.0


@compiled
def expected_spikes(soma_bias, threshold, current, duration):
    """Return how many spikes the drive and the present currents could cause, plus one for each neuron."""
    total = 0.0
    for i in range(threshold.shape[0]):
        charge = max(soma_bias[i], 0.0) * duration + max(current[i], 0.0)
        total += charge / threshold[i] + 1.0
    return total


@compiled
def settle(potential, threshold):
    """Set potentials that exceed their thresholds only by rounding to their thresholds."""
    for i in range(potential.shape[0]):
        if potential[i] <= threshold[i] * (1.0 + BOUND_SLACK):
            potential[i] = min(potential[i], threshold[i])


@compiled
def in_range(potential, current, threshold, largest_ratio):
    """Return (whether potentials and currents are finite, whether |current| <= largest_ratio threshold)."""
    is_finite = is_moderate = True
    for k in range(potential.shape[0]):
        for i in range(potential.shape[1]):
            is_finite &= (abs(potential[k, i]) < np.inf) & (abs(current[k, i]) < np.inf)
            is_moderate &= abs(current[k, i]) <= largest_ratio * threshold[i]
    return is_finite, is_moderate

"""State of a run between calls: time, plans, and arrays of its neurons.

Time is a sum of millions of small intervals, so its rounding error is carried along (two-sum).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import config

from snn._kernels.compiling import compiled, inlined, inner, record
from snn._kernels.neuron import BOUND_SLACK, add_to_moments
from snn._kernels.stops import StoppedNeurons

PAUSED = 0  # the budget of work is spent; call again with the same arrays
REACHED = 1  # every network asked for is at the stop time
MISSING_ROW = 2  # a row of the weights is needed that was not computed; store it, and call again
BURST = 3  # a network has fired more often than it may

# In synaptic time constants.  Windows are doubled and halved: they must never be zero.
SHORTEST_WINDOW, LONGEST_WINDOW = 1e-290, 16.0

# Currents below this are subnormal numbers, which slow the processor down.
NEGLIGIBLE_CURRENT = np.finfo(np.float64).tiny

# One network of a run.
RUN_STATE = np.dtype(
    [
        ("time", np.float64),
        ("time_error", np.float64),
        # The next window, kept so that pausing changes no bit of the result.
        ("window", np.float64),
        # For the active set: the last interval of screening; by how much potentials may be expected to leave
        # their chords in the next; spikes in a unit of time, and how many neurons they came from.
        ("interval", np.float64),
        ("margin", np.float64),
        ("rate", np.float64),
        ("n_sources", np.int64),
        # Time that passed with screening.
        ("screened_time", np.float64),
        # The source whose row of weights is missing, -1 for none.
        ("missing", np.int64),
        # Spikes beyond `burst_rate` per unit of time, summed up; above `largest_burst` the copy is given up.
        # They depend only on the copy itself, not on pauses or on other copies.
        ("burst", np.float64),
        ("burst_rate", np.float64),
        ("largest_burst", np.float64),
    ],
    align=True,
)


class BurstLimit(NamedTuple):
    """The burst at which a copy is given up; each spike adds 1, each time constant takes `rate` away."""

    # About a second of work.  If thresholds differ by many orders of magnitude, a spike causes 1e10 others.
    spikes: float = 10_000_000
    rate: int = 10_000
    per_neuron: int = 10  # added to both


def new_records(n_records: int, columns: np.dtype) -> np.ndarray:
    """Return records whose columns are zero, for kernels that write them as attributes."""
    records = np.zeros(n_records, dtype=columns)
    # Where nothing is compiled, to debug kernels, columns have to be attributes by themselves.
    return records.view(np.recarray) if config.DISABLE_JIT else records


class _Neurons(NamedTuple):
    bias: np.ndarray
    threshold: np.ndarray
    potential: np.ndarray
    current: np.ndarray
    drift: np.ndarray  # the mean soma current over the last interval, by which active sets are chosen
    spike_counts: np.ndarray
    # Filtered spikes of each neuron right after its last spike, and the time of that, shape (n_copies,
    # n_neurons, 2); or of size zero.
    traces: np.ndarray
    # The lowest potential of each neuron after a change from outside, or of size zero; and the charge that
    # raised potentials to it.
    floor: np.ndarray
    lifted: np.ndarray
    # Sums of t^2, t^3 and t^4 over the times of each neuron's spikes (`neuron.add_to_moments`), shape
    # (n_copies, n_neurons, 3); or of size zero.
    moments: np.ndarray


@record
class Neurons(_Neurons, StoppedNeurons):
    """The neurons of all networks of an exact run: a row for each network; they share the thresholds."""

    __slots__ = ()

    def restart(self, states, k):
        # Plans of the run so far remain as guesses of its active set and intervals.
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
    """Spikes of an interval, or recorded, in arrays of size zero where none are."""

    times: np.ndarray
    neurons: np.ndarray


@inlined
def note_spike(neurons, k, neuron, now, spikes, n_recorded):
    """Count a spike of copy k; filter it, add it to the moments and record it, where that is asked for."""
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
    """Add `interval` to the compensated time."""
    time = state.time
    addend = interval + state.time_error
    total = time + addend
    state.time_error = addend - (total - time) if time >= addend else time - (total - addend)
    state.time = total


@compiled
def restart(neurons, states, copies):
    """Start some copies again."""
    for position in range(copies.shape[0]):
        neurons.restart(states, copies[position])


@inner
def drop_negligible(current):
    """Set currents of one copy that hardly count to zero."""
    for i in range(current.shape[0]):
        if abs(current[i]) < NEGLIGIBLE_CURRENT:
            current[i] = 0.0


@compiled
def expected_spikes(soma_bias, threshold, current, duration):
    """Return how many spikes the drive and the currents of a network could cause alone, and one a neuron."""
    total = 0.0
    for i in range(threshold.shape[0]):
        charge = max(soma_bias[i], 0.0) * duration + max(current[i], 0.0)
        total += charge / threshold[i] + 1.0
    return total


@compiled
def settle(potential, threshold):
    """Bring potentials that rounding has left a little above their thresholds back to them."""
    for i in range(potential.shape[0]):
        if potential[i] <= threshold[i] * (1.0 + BOUND_SLACK):
            potential[i] = min(potential[i], threshold[i])


@compiled
def in_range(potential, current, threshold, largest_ratio):
    """Return whether potentials and currents are finite, and currents within so many thresholds."""
    is_finite = is_moderate = True
    for k in range(potential.shape[0]):
        for i in range(potential.shape[1]):
            is_finite &= (abs(potential[k, i]) < np.inf) & (abs(current[k, i]) < np.inf)
            is_moderate &= abs(current[k, i]) <= largest_ratio * threshold[i]
    return is_finite, is_moderate

"""What is done once for each network of a run, before its kernel starts and after it ends."""

from functools import partial

import numpy as np

from snn._kernels.clock import HORIZON, MARGIN, MISSING, SHORTEST_HORIZON
from snn._kernels.compiling import compiled

NEGLIGIBLE_CURRENT = np.finfo(np.float64).tiny
"""Currents below this are subnormal numbers, which slow the processor down."""


@partial(compiled, fastmath={"reassoc", "contract"})
def expected_spikes(soma_bias, threshold, current, duration):
    """Return how many spikes the drive and the currents of a network could cause alone, and one a neuron."""
    total = 0.0
    for i in range(threshold.shape[0]):
        charge = max(soma_bias[i], 0.0) * duration + max(current[i], 0.0)
        total += charge / threshold[i] + 1.0
    return total


@partial(compiled, fastmath={"reassoc", "contract"})
def begin(soma_bias, threshold, clock):
    """Guess the first interval between the spikes of each network, from its drive alone, and its margin."""
    n_neurons = threshold.shape[0]
    margin = 0.0
    for i in range(n_neurons):
        margin += threshold[i] / n_neurons
    for k in range(soma_bias.shape[0]):
        drive = 0.0
        for i in range(n_neurons):
            drive += max(soma_bias[k, i], 0.0) / threshold[i]
        clock[k, HORIZON] = max(2.0 / max(drive, 2.0), SHORTEST_HORIZON)
        clock[k, MARGIN] = margin
        clock[k, MISSING] = -1.0


@compiled
def drop_negligible(current):
    """Set currents that hardly count to zero."""
    for k in range(current.shape[0]):
        for i in range(current.shape[1]):
            if abs(current[k, i]) < NEGLIGIBLE_CURRENT:
                current[k, i] = 0.0


@compiled
def in_range(potential, current):
    """Return whether all potentials and currents are finite."""
    finite = True
    for k in range(potential.shape[0]):
        for i in range(potential.shape[1]):
            finite &= (abs(potential[k, i]) < np.inf) & (abs(current[k, i]) < np.inf)
    return finite


@partial(compiled, fastmath={"contract"})
def average_current(threshold, spike_counts, potential_then, potential, elapsed):
    """Return the mean soma current of a run: the charge its spikes took, and what is left, over its time."""
    average = np.empty(threshold.shape[0])
    for i in range(threshold.shape[0]):
        average[i] = (threshold[i] * spike_counts[i] + (potential[i] - potential_then[i])) / elapsed
    return average

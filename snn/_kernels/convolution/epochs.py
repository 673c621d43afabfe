"""The beginning and the end of an epoch, and times in which no neuron can fire."""

import math

import numpy as np

from snn._kernels.compiling import inlined
from snn._kernels.convolution.windows import LONGEST_WINDOW, SHORTEST_WINDOW, add_log

LONGEST_EPOCH = 128.0
"""Longer ones would lose digits: v is the difference of numbers that grow with tau."""


@inlined
def open_epoch(neurons, grid):
    """Refer potentials and currents to the beginning, and let all windows end there."""
    # The first windows last, when they are opened, twice as long as no neuron can fire without further
    # spikes, so that few neurons are candidates.
    for q in range(grid.n_positions):
        for k in range(grid.n_channels):
            i = np.uint64(q * grid.n_channels + k)
            v, p, threshold = neurons.potential[i], neurons.current[i], neurons.threshold[i]
            w = v + p
            # A neuron at its threshold is still there when p is taken away again.
            is_lost = (v >= threshold) & (w - p < threshold)
            neurons.potential[i] = w + (2.0**-52 * abs(w) if is_lost else 0.0)
            gap = threshold - v
            gap = gap if gap > 0.25 * threshold else 0.25 * threshold
            slope = neurons.bias[i] + (p if p > 0.0 else 0.0)
            time = gap / slope
            # Until windows are opened there is room for times in place of the bounds.
            grid.excess[i] = time if slope > 0.0 else LONGEST_WINDOW
        grid.limit[0] = 0.5 * LONGEST_WINDOW
        shortest = grid.limit_bits[0]
        for i in range(q * grid.n_channels, (q + 1) * grid.n_channels):
            bits = grid.excess_bits[np.uint64(i)]
            shortest = bits if bits < shortest else shortest
        grid.limit_bits[0] = shortest
        grid.length[q] = max(grid.limit[0], SHORTEST_WINDOW)
        grid.end[q] = 0.0
        grid.times[q] = 0.0
        grid.n_spikes[q] = grid.n_touched[q] = 0
        grid.n_candidates[q] = grid.n_logged[q] = 0
    for block in range(grid.block_bits.shape[0]):
        grid.block_bits[block] = 0


@inlined
def close_epoch(length, neurons, grid):
    """Bring potentials and currents to the end of the epoch."""
    fade = math.exp(-length)
    for q in range(grid.n_positions):
        add_log(q, neurons, grid)
        for k in range(grid.n_channels):
            i = np.uint64(q * grid.n_channels + k)
            h = neurons.current[i] * fade
            neurons.potential[i] += neurons.bias[i] * length - h
            neurons.current[i] = h

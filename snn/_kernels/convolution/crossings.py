"""Exact crossings of candidates, and those that tie."""

import math

import numpy as np

from snn._kernels.compiling import inlined, inner
from snn._kernels.convolution.grid import (
    CHANNEL,
    CROSSING,
    EXACT,
    OWN_P,
    OWN_W,
    STATUS,
)
from snn._kernels.convolution.positions import (
    candidate_at,
    note_earliest_of_block,
    note_earliest_of_position,
)
from snn._kernels.convolution.windows import open_window_apart
from snn._kernels.neuron import crossing_time, tie_tolerance


@inlined
def neuron_of(c, q, grid):
    """Return the index of the neuron that candidate c of position q is."""
    return q * grid.n_channels + np.int64(grid.candidates[c + CHANNEL])


@inlined
def _state_at(time, fade, c, bias, grid):
    """Return the potential and the current of a candidate."""
    h = grid.candidates[c + OWN_P] * fade
    return grid.candidates[c + OWN_W] + bias * time - h, h


@inlined
def refine_crossing(c, q, last_spike, last_fade, neurons, grid):
    """Note the time at which a candidate of position q crosses, inf if after its window."""
    i = neuron_of(c, q, grid)
    v, h = _state_at(last_spike, last_fade, c, neurons.bias[i], grid)
    horizon = grid.end[q] - last_spike
    time = crossing_time(neurons.threshold[i] - v, neurons.bias[i], h, horizon)
    grid.candidates[c + CROSSING] = last_spike + time if time >= 0.0 else math.inf
    grid.candidates[c + STATUS] = EXACT


@inlined
def tie_limit(c, q, last_spike, last_fade, neurons, grid):
    """Return the time until which crossings tie with that of a candidate, which is exact."""
    i = neuron_of(c, q, grid)
    crossing = grid.candidates[c + CROSSING]
    v, h = _state_at(last_spike, last_fade, c, neurons.bias[i], grid)
    time = crossing - last_spike
    slope = neurons.bias[i] + h * math.exp(-time)
    return crossing + tie_tolerance(neurons.threshold[i], v, neurons.bias[i], h, time, slope)


@inlined
def _refine_until(limit, now, last_spike, last_fade, neurons, grid):
    """Refine all crossings that could be until the limit; return the first candidate and its position."""
    # Both are -1 if none crosses until the limit.
    first, first_q, first_time = -1, -1, math.inf
    for q in range(grid.n_positions):
        if grid.times[q] > limit:
            continue
        if grid.end[q] <= limit:
            # Beyond the end of its window a neuron may cross and tie.
            open_window_apart(q, now, math.exp(-now), neurons, grid)
        for k in range(grid.n_candidates[q]):
            c = candidate_at(k, q, grid)
            if grid.candidates[c + CROSSING] <= limit and grid.candidates[c + STATUS] != EXACT:
                refine_crossing(c, q, last_spike, last_fade, neurons, grid)
            if grid.candidates[c + CROSSING] <= limit and grid.candidates[c + CROSSING] < first_time:
                first, first_q, first_time = c, q, grid.candidates[c + CROSSING]
        note_earliest_of_position(q, grid)
    for block in range(grid.block_bits.shape[0]):
        note_earliest_of_block(block, grid)
    return first, first_q


@inlined
def _add_tied(limit, q, n_tied, grid):
    """Note the candidates of a position that cross until the limit, in the order of their channels."""
    begin = n_tied
    for k in range(grid.n_candidates[q]):
        c = candidate_at(k, q, grid)
        if grid.candidates[c + CROSSING] <= limit:
            neuron = neuron_of(c, q, grid)
            place = n_tied
            while place > begin and grid.tied_neurons[place - 1] > neuron:
                grid.tied_neurons[place] = grid.tied_neurons[place - 1]
                grid.tied_candidates[place] = grid.tied_candidates[place - 1]
                place -= 1
            grid.tied_neurons[place] = neuron
            grid.tied_candidates[place] = c
            n_tied += 1
    return n_tied


@inner
def find_tied(limit, now, last_spike, last_fade, neurons, grid):
    """Note the neurons that fire together, in the order of their indices; return their number and time."""
    # They are all whose crossing is not later than the limit of the first; that of the neuron that seemed to
    # be the first is given.  A neuron that crosses earlier has another limit.
    while True:
        first, q = _refine_until(limit, now, last_spike, last_fade, neurons, grid)
        if first < 0:
            return 0, math.inf
        first_limit = tie_limit(first, q, last_spike, last_fade, neurons, grid)
        if first_limit <= limit:
            break
        limit = first_limit
    n_tied = 0
    for q in range(grid.n_positions):
        if grid.times[q] <= first_limit:
            n_tied = _add_tied(first_limit, q, n_tied, grid)
    return n_tied, grid.candidates[first + CROSSING]

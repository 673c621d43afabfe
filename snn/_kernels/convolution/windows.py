"""Windows of time: the neurons that could fire in a window, and lower bounds on their crossings.

The docstring of `convolution` has the bounds.  The bounds must hold in spite of rounding.  Bounds and exact
crossings are computed from the same w and p, but differ by two kinds of rounding.  The rounding of the
terms of v is a few units in the last place, while BOUND_SLACK is more than a million of these units.
Rounding of sums over up to MOST_LOGGED spikes, in an excess or in w, is less than WEIGHT_SLACK of the largest
weight.  BOUND_SLACK also covers rounding in the quadratic equation, which acts like a rounding of the terms
of v.
"""

import math

import numpy as np

from snn._kernels.compiling import inlined, inner
from snn._kernels.convolution.grid import (
    BOUND,
    CHANNEL,
    CROSSING,
    EMPTY,
    LANES,
    MOST_LOGGED,
    NEW_CROSSING,
    NUMBERS_PER_GROUP,
    OWN_P,
    OWN_W,
    SCALE,
    SCALED_BIAS,
    STATUS,
    candidate_at,
    note_earliest_of_position,
)
from snn._kernels.neuron import BOUND_SLACK
from snn._kernels.run_state import LONGEST_WINDOW

SHORTEST_LOCAL_WINDOW = 1e-9  # length of the shortest window of a position, in synaptic time constants
# Limits of the mean number of candidates that a spike reaches at a position.  A window with fewer than
# FEW_REACHED candidates per spike is doubled, and with more than MANY_REACHED candidates halved.
FEW_REACHED, MANY_REACHED = 3, 7
WEIGHT_SLACK = 2.0**-42  # slack of an excess for the rounding of sums, relative to the largest weight
# Factor that turns a computed distance in time, which has an error of a few roundings, into a lower bound.
ROUNDED_DOWN = 1.0 - 2.0**-40


@inlined
def add_log(q, neurons, grid):
    """Add the logged spikes of a position to its neurons in order; write the candidates back to neurons."""
    values, n_channels = grid.stencil.values, grid.stencil.n_channels
    first = q * n_channels
    m = q * MOST_LOGGED
    end = m + grid.n_logged[q]
    while m + 4 <= end:
        offset_0, offset_1 = grid.logged_offsets[m], grid.logged_offsets[m + 1]
        offset_2, offset_3 = grid.logged_offsets[m + 2], grid.logged_offsets[m + 3]
        growth_0, growth_1 = grid.logged_growths[m], grid.logged_growths[m + 1]
        growth_2, growth_3 = grid.logged_growths[m + 2], grid.logged_growths[m + 3]
        for k in range(n_channels):
            # Unsigned indices cannot be negative; signed indices would prevent vectorisation of the loop.
            i = np.uint64(first + k)
            weight_0, weight_1 = values[np.uint64(offset_0 + k)], values[np.uint64(offset_1 + k)]
            weight_2, weight_3 = values[np.uint64(offset_2 + k)], values[np.uint64(offset_3 + k)]
            neurons.potential[i] = neurons.potential[i] + weight_0 + weight_1 + weight_2 + weight_3
            p = neurons.current[i] + growth_0 * weight_0 + growth_1 * weight_1
            neurons.current[i] = p + growth_2 * weight_2 + growth_3 * weight_3
        m += 4
    while m < end:
        offset, growth = grid.logged_offsets[m], grid.logged_growths[m]
        for k in range(n_channels):
            i = np.uint64(first + k)
            weight = values[np.uint64(offset + k)]
            neurons.potential[i] += weight
            neurons.current[i] += growth * weight
        m += 1
    grid.n_logged[q] = 0
    for k in range(grid.n_candidates[q]):
        c = candidate_at(k, q, grid)
        i = first + np.int64(grid.candidates[c + CHANNEL])
        neurons.potential[i] = grid.candidates[c + OWN_W]
        neurons.current[i] = grid.candidates[c + OWN_P]
    grid.n_candidates[q] = 0


@inner
def open_window(q, now, fade, neurons, grid):
    """End the window of a position, and open the next window."""
    add_log(q, neurons, grid)
    end = now + grid.length[q]
    end_fade = math.exp(-end)
    grid.end[q] = end
    grid.end_fade[q] = end_fade
    grid.n_spikes[q] = grid.n_touched[q] = 0
    first = q * grid.stencil.n_channels
    weight_slack = WEIGHT_SLACK * grid.stencil.largest_value
    for k in range(grid.stencil.n_channels):
        i = np.uint64(first + k)
        c, w, p, threshold = neurons.bias[i], neurons.potential[i], neurons.current[i], neurons.threshold[i]
        by_end, by_now = c * end, c * now
        h = p * fade
        slack = weight_slack + BOUND_SLACK * (threshold + abs(w) + abs(by_end) + abs(h))
        excess = w + (by_end if c > 0.0 else by_now) - p * end_fade - threshold + slack
        # A neuron at its threshold fires at once, even if inhibition is about to lower its potential.
        above = w + by_now - h - threshold + slack
        stays_below = (excess < 0.0) & (above < 0.0)
        grid.excess[i] = excess if stays_below else 1.0
    if _one_is_not_negative(first, first + grid.stencil.n_channels, grid):
        form_candidates(q, now, fade, neurons, grid)
    note_earliest_of_position(q, grid)


@inlined
def adapt_window(q, grid):
    """Double or halve the next window of a position, so that a spike reaches only a few candidates."""
    n_spikes, n_touched = grid.n_spikes[q], grid.n_touched[q]
    length = grid.length[q]
    if n_touched > MANY_REACHED * (n_spikes + 1):
        grid.length[q] = max(0.5 * length, SHORTEST_LOCAL_WINDOW)
    elif n_touched < FEW_REACHED * (n_spikes + 1):
        grid.length[q] = min(2.0 * length, LONGEST_WINDOW)


@inlined
def _one_is_not_negative(first, last, grid):
    signs = np.int64(-1)
    for i in range(first, last):
        signs &= grid.excess_bits[np.uint64(i)]
    return signs >= 0


@inlined
def add_to_excess(q, offset, growth, grid):
    """Add a spike to the bounds of a position; return whether a bound is no longer negative."""
    factor = 1.0 - growth * grid.end_fade[q]
    first = q * grid.stencil.n_channels
    for k in range(grid.stencil.n_channels):
        grid.excess[np.uint64(first + k)] += factor * grid.stencil.values[np.uint64(offset + k)]
    return _one_is_not_negative(first, first + grid.stencil.n_channels, grid)


@inlined
def _bound_crossings(group, now, end, fade, grid):
    """Store a lower bound on the crossing of each candidate with NEW_CROSSING in a group of eight."""
    # The bound is the root of a quadratic equation (docstring of `convolution`), in units of the threshold.
    flattest = min(0.5 + (end - now) * (1.0 / 12.0), 1.0)
    for c in range(group, group + LANES):
        scale = grid.candidates[np.uint64(c + SCALE)]
        w = grid.candidates[np.uint64(c + OWN_W)] * scale
        h = grid.candidates[np.uint64(c + OWN_P)] * fade * scale
        bias = grid.candidates[np.uint64(c + SCALED_BIAS)]
        by_now = bias * now
        gap = 1.0 - (w + by_now - h) - BOUND_SLACK * (1.0 + abs(w) + abs(by_now) + abs(h))
        bend = flattest if h <= 0.0 else 0.5
        by_gap = bend * gap
        slope = bias + h - by_gap
        square = slope * slope + 4.0 * bias * by_gap
        root = math.sqrt(square if square > 0.0 else 0.0)
        rises = slope > 0.0
        # One division serves rising and other potentials, so that no branch is needed.
        numerator = 2.0 * gap if rises else root - slope
        denominator = slope + root if rises else 2.0 * bend * bias
        quotient = numerator / denominator
        distance = quotient if (bias > 0.0) | (rises & (square >= 0.0)) else math.inf
        # If numbers are out of range, nothing is proven, unless the potential falls.
        in_range = (square < math.inf) | ((bias <= 0.0) & (slope <= 0.0))
        is_proven = in_range & (gap > 0.0) & (distance >= 0.0)
        time = now + ROUNDED_DOWN * (distance if is_proven else 0.0)
        status = grid.candidates[np.uint64(c + STATUS)]
        known = grid.candidates[np.uint64(c + CROSSING)]
        grid.candidates[np.uint64(c + CROSSING)] = time if status == NEW_CROSSING else known
        grid.candidates[np.uint64(c + STATUS)] = BOUND if status == NEW_CROSSING else status


@inlined
def form_candidates(q, now, fade, neurons, grid):
    """Turn the neurons of a position with an excess >= 0 into candidates."""
    first = q * grid.stencil.n_channels
    n_before = grid.n_candidates[q]
    n_candidates = n_before
    for start in range(first, first + grid.stencil.n_channels, LANES):
        stop = min(start + LANES, first + grid.stencil.n_channels)
        if not _one_is_not_negative(start, stop, grid):
            continue
        for i in range(start, stop):
            if grid.excess[i] < 0.0:
                continue
            c = candidate_at(n_candidates, q, grid)
            if n_candidates % LANES == 0:
                # A new group has empty lanes, whose numbers have no effect but must be finite.
                for lane in range(c, c + NUMBERS_PER_GROUP):
                    grid.candidates[np.uint64(lane)] = 0.0
                for lane in range(c, c + LANES):
                    grid.candidates[np.uint64(lane + CROSSING)] = math.inf
                    grid.candidates[np.uint64(lane + STATUS)] = EMPTY
            k = i - first
            w, p = neurons.potential[i], neurons.current[i]
            for m in range(q * MOST_LOGGED, q * MOST_LOGGED + grid.n_logged[q]):
                weight = grid.stencil.values[grid.logged_offsets[m] + k]
                w += weight
                p += grid.logged_growths[m] * weight
            scale = 1.0 / neurons.threshold[i]
            grid.excess[i] = -math.inf
            grid.candidates[c + OWN_W] = w
            grid.candidates[c + OWN_P] = p
            grid.candidates[c + SCALE] = scale
            grid.candidates[c + SCALED_BIAS] = neurons.bias[i] * scale
            grid.candidates[c + CHANNEL] = float(k)
            grid.candidates[c + STATUS] = NEW_CROSSING
            n_candidates += 1
    grid.n_candidates[q] = n_candidates
    for k in range(n_before // LANES * LANES, n_candidates, LANES):
        _bound_crossings(candidate_at(k, q, grid), now, grid.end[q], fade, grid)


@inlined
def touch_candidates(q, own_channel, offset, growth, now, fade, grid):
    """Deliver a spike to the candidates of q; `own_channel` is the channel of a source at q, otherwise -1."""
    own = float(own_channel)
    group = NUMBERS_PER_GROUP * q
    for _ in range(0, grid.n_candidates[q], LANES):
        for c in range(group, group + LANES):
            channel = grid.candidates[np.uint64(c + CHANNEL)]
            weight = grid.stencil.values[np.uint64(offset + np.int64(channel))]
            grid.candidates[np.uint64(c + OWN_W)] += weight
            grid.candidates[np.uint64(c + OWN_P)] += growth * weight
            # A crossing remains valid if nothing is added to the candidate.
            unchanged = (weight == 0.0) & (channel != own)
            status = grid.candidates[np.uint64(c + STATUS)]
            grid.candidates[np.uint64(c + STATUS)] = status if unchanged | (status == EMPTY) else NEW_CROSSING
        _bound_crossings(group, now, grid.end[q], fade, grid)
        group += NUMBERS_PER_GROUP * grid.n_positions

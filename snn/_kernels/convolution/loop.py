"""The event loop for a grid of neurons; the docstring of `convolution` has the equations."""

import math

import numpy as np

from snn._kernels.compiling import inlined, inner, record
from snn._kernels.convolution.grid import (
    CHANNEL,
    CROSSING,
    EXACT_CROSSING,
    MOST_LOGGED,
    OWN_P,
    OWN_W,
    STATUS,
    GridMemory,
    candidate_at,
    earliest_position,
    is_contested,
    note_earliest,
    note_earliest_of_block,
    note_earliest_of_position,
)
from snn._kernels.convolution.windows import (
    SHORTEST_LOCAL_WINDOW,
    adapt_window,
    add_log,
    add_to_excess,
    form_candidates,
    open_window,
    touch_candidates,
)
from snn._kernels.neuron import (
    LONGEST_TIE,
    coast,
    crossing_time,
    earliest_crossing,
    quiet_time_of,
    tie_tolerance,
)
from snn._kernels.run_state import LONGEST_WINDOW

# Length of the longest epoch, in synaptic time constants.  In a longer epoch, v would lose digits, because v
# is a difference of numbers that grow with tau.
LONGEST_EPOCH = 128.0
LEAST_EVENTS_PER_EPOCH = 256  # an epoch ends after n_neurons / 4 spikes, but not before this number of spikes


@inlined
def open_epoch(neurons, grid):
    """Refer potentials and currents to the beginning of an epoch, and let all windows end there."""
    # Without further spikes, no neuron of the position fires within `length`.  `adapt_window` doubles this
    # length when the first window opens, so that a few neurons become candidates.
    for q in range(grid.n_positions):
        length = 0.5 * LONGEST_WINDOW
        for i in range(q * grid.stencil.n_channels, (q + 1) * grid.stencil.n_channels):
            v, p, threshold = neurons.potential[i], neurons.current[i], neurons.threshold[i]
            w = v + p
            # If v is at the threshold, rounding must not make w - p less than the threshold.
            is_lost = (v >= threshold) & (w - p < threshold)
            neurons.potential[i] = w + (2.0**-52 * abs(w) if is_lost else 0.0)
            length = min(length, earliest_crossing(max(threshold - v, 0.25 * threshold), neurons.bias[i], p))
        grid.length[q] = max(length, SHORTEST_LOCAL_WINDOW)
        grid.end[q] = grid.times[q] = 0.0
        grid.n_spikes[q] = grid.n_touched[q] = 0
        grid.n_candidates[q] = grid.n_logged[q] = 0
    for block in range(grid.block_bits.shape[0]):
        grid.block_bits[block] = 0


@inlined
def neuron_of(c, q, grid):
    """Return the index of the neuron of candidate c of position q."""
    return q * grid.stencil.n_channels + np.int64(grid.candidates[c + CHANNEL])


@inlined
def _state_at(time, fade, c, bias, grid):
    """Return the potential and the current of a candidate at a time; fade = e^-time."""
    h = grid.candidates[c + OWN_P] * fade
    return grid.candidates[c + OWN_W] + bias * time - h, h


@inlined
def refine_crossing(c, q, last_spike, last_fade, neurons, grid):
    """Store the exact crossing of a candidate of position q, or inf if it is after the window."""
    i = neuron_of(c, q, grid)
    v, h = _state_at(last_spike, last_fade, c, neurons.bias[i], grid)
    horizon = grid.end[q] - last_spike
    time = crossing_time(neurons.threshold[i] - v, neurons.bias[i], h, horizon)
    grid.candidates[c + CROSSING] = last_spike + time if time >= 0.0 else math.inf
    grid.candidates[c + STATUS] = EXACT_CROSSING


@inlined
def tie_limit(c, q, last_spike, last_fade, neurons, grid):
    """Return the last time at which a crossing ties with the exact crossing of a candidate."""
    i = neuron_of(c, q, grid)
    crossing = grid.candidates[c + CROSSING]
    v, h = _state_at(last_spike, last_fade, c, neurons.bias[i], grid)
    time = crossing - last_spike
    slope = neurons.bias[i] + h * math.exp(-time)
    return crossing + tie_tolerance(neurons.threshold[i], v, neurons.bias[i], h, time, slope)


@inlined
def _refine_until(limit, now, last_spike, last_fade, neurons, grid):
    """Refine crossings that could be before the limit; return the first candidate, and its position."""
    # The candidate and the position are -1 if no candidate crosses before the limit.
    first, first_q, first_time = -1, -1, math.inf
    for q in range(grid.n_positions):
        if grid.times[q] > limit:
            continue
        if grid.end[q] <= limit:
            # A neuron that crosses after the end of its window may still fire together with other neurons.
            open_window(q, now, math.exp(-now), neurons, grid)
        for k in range(grid.n_candidates[q]):
            c = candidate_at(k, q, grid)
            if grid.candidates[c + CROSSING] <= limit and grid.candidates[c + STATUS] != EXACT_CROSSING:
                refine_crossing(c, q, last_spike, last_fade, neurons, grid)
            if grid.candidates[c + CROSSING] <= limit and grid.candidates[c + CROSSING] < first_time:
                first, first_q, first_time = c, q, grid.candidates[c + CROSSING]
        note_earliest_of_position(q, grid)
    for block in range(grid.block_bits.shape[0]):
        note_earliest_of_block(block, grid)
    return first, first_q


@inner
def find_tied(limit, now, last_spike, last_fade, neurons, grid):
    """List the neurons that fire together, in the order of their indices; return their number and time."""
    # All neurons that cross before or at `first_limit`, the limit of the first crossing, fire together.
    # `limit` is raised until all crossings up to `first_limit` are refined.
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
        if not grid.times[q] <= first_limit:
            continue
        for k in range(grid.n_candidates[q]):
            c = candidate_at(k, q, grid)
            if not grid.candidates[c + CROSSING] <= first_limit:
                continue
            neuron = neuron_of(c, q, grid)
            place = n_tied
            while place > 0 and grid.tied_neurons[place - 1] > neuron:
                grid.tied_neurons[place] = grid.tied_neurons[place - 1]
                grid.tied_candidates[place] = grid.tied_candidates[place - 1]
                place -= 1
            grid.tied_neurons[place] = neuron
            grid.tied_candidates[place] = c
            n_tied += 1
    return n_tied, grid.candidates[first + CROSSING]


@inlined
def _deliver(neuron, now, growth, fade, neurons, grid):
    """Deliver one spike to all positions within reach, and add the spike to their logs."""
    stencil = grid.stencil
    own = neuron // stencil.n_channels
    channel = neuron - own * stencil.n_channels
    row = own // stencil.n_columns
    column = own - row * stencil.n_columns
    first_column = max(0, column - stencil.reach_columns)
    last_column = min(stencil.n_columns, column + stencil.reach_columns + 1)
    first_row = max(0, row - stencil.reach_rows)
    last_row = min(stencil.n_rows, row + stencil.reach_rows + 1)
    for other_row in range(first_row, last_row):
        first = other_row * stencil.n_columns + first_column
        last = other_row * stencil.n_columns + last_column
        line = channel * (2 * stencil.reach_rows + 1) + other_row - row + stencil.reach_rows
        line = line * (2 * stencil.reach_columns + 1) + first_column - column + stencil.reach_columns
        for q in range(first, last):
            offset = (line + q - first) * stencil.n_channels
            if grid.n_logged[q] == MOST_LOGGED:
                open_window(q, now, fade, neurons, grid)
            m = q * MOST_LOGGED + grid.n_logged[q]
            grid.logged_offsets[m] = offset
            grid.logged_growths[m] = growth
            grid.n_logged[q] += 1
            grid.n_spikes[q] += 1
            grid.n_touched[q] += grid.n_candidates[q]
            touch_candidates(q, channel if q == own else -1, offset, growth, now, fade, grid)
            if add_to_excess(q, offset, growth, grid):
                form_candidates(q, now, fade, neurons, grid)
            note_earliest_of_position(q, grid)
        for block in range(first // grid.block_size, (last - 1) // grid.block_size + 1):
            note_earliest_of_block(block, grid)


@inner
def _next_tied(end, last_spike, last_fade, neurons, grid):
    """Find the neurons that fire next; return their number, the time, and the number of windows opened."""
    # The number of neurons is 0 if no neuron fires before the end.
    n_windows = 0
    while True:
        q = earliest_position(grid)
        now = grid.times[q]
        if now > end + LONGEST_TIE:
            return 0, now, n_windows
        if grid.end[q] <= now:
            adapt_window(q, grid)
            open_window(q, now, math.exp(-now), neurons, grid)
            note_earliest_of_block(q // grid.block_size, grid)
            n_windows += 1
            continue
        k = 0
        while grid.candidate_bits[candidate_at(k, q, grid) + CROSSING] != grid.time_bits[q]:
            k += 1
        c = candidate_at(k, q, grid)
        if grid.candidates[c + STATUS] != EXACT_CROSSING:
            refine_crossing(c, q, last_spike, last_fade, neurons, grid)
            note_earliest(q, grid)
            continue
        limit = tie_limit(c, q, last_spike, last_fade, neurons, grid)
        if now > end:
            if now - end > limit - now:
                return 0, now, n_windows
            # Only rounding makes the crossing later than `end`, where the run may end.
            grid.candidates[c + CROSSING] = end
            note_earliest(q, grid)
            continue
        if not is_contested(q, limit, grid):
            grid.tied_neurons[0] = neuron_of(c, q, grid)
            grid.tied_candidates[0] = c
            return 1, now, n_windows
        n_tied, now = find_tied(limit, now, last_spike, last_fade, neurons, grid)
        if n_tied > 0:
            return n_tied if now <= end else 0, now, n_windows


@inner
def _run_epoch(end, most_events, neurons, grid):
    """Run an epoch to its end or until `most_events` spikes; return (length, spikes, windows)."""
    last_spike, last_fade = 0.0, 1.0
    n_new = n_windows = 0
    open_epoch(neurons, grid)
    while n_new < most_events:
        n_tied, now, n_opened = _next_tied(end, last_spike, last_fade, neurons, grid)
        n_windows += n_opened
        if n_tied == 0:
            last_spike = end
            break
        growth = math.exp(now)
        last_spike, last_fade = now, 1.0 / growth
        for t in range(n_tied):
            neuron = grid.tied_neurons[t]
            grid.candidates[grid.tied_candidates[t] + OWN_W] -= neurons.threshold[neuron]
            grid.log.times[n_new] = now
            grid.log.neurons[n_new] = neuron
            n_new += 1
        for t in range(n_tied):
            _deliver(grid.tied_neurons[t], now, growth, last_fade, neurons, grid)
    # Advance potentials and currents to the end of the epoch.
    fade = math.exp(-last_spike)
    for q in range(grid.n_positions):
        add_log(q, neurons, grid)
        for k in range(grid.stencil.n_channels):
            i = np.uint64(q * grid.stencil.n_channels + k)
            h = neurons.current[i] * fade
            neurons.potential[i] += neurons.bias[i] * last_spike - h
            neurons.current[i] = h
    return last_spike, n_new, n_windows


@record
class Grid(GridMemory):
    """The memory of a grid, with the event loop of this module."""

    __slots__ = ()

    def work_of(self, n):
        return self

    def integrate(self, form, group, drift, state, remaining, settings):
        # In the budget, `n_reached` positions, or `n_reached` opened windows, count as one window.
        n_reached = (2 * self.stencil.reach_rows + 1) * (2 * self.stencil.reach_columns + 1)
        n_passed = 1 + self.n_positions // n_reached
        quiet = quiet_time_of(group, LONGEST_EPOCH)
        if quiet > LONGEST_EPOCH:
            elapsed = min(quiet, remaining)
            coast(group, elapsed)
            return elapsed, 0, n_passed
        end = min(LONGEST_EPOCH, remaining)
        elapsed, n_new, n_windows = _run_epoch(end, settings.events_in_place, group, self)
        return elapsed, n_new, n_passed + n_windows // n_reached

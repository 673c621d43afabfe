"""The event loop of the grid; the package's docstring has the equations."""

import math

from snn._kernels.compiling import inlined, inner, uncounted
from snn._kernels.convolution.crossings import find_tied, neuron_of, refine_crossing, tie_limit
from snn._kernels.convolution.epochs import (
    LONGEST_EPOCH,
    close_epoch,
    open_epoch,
)
from snn._kernels.convolution.grid import (
    CROSSING,
    EXACT,
    MOST_LOGGED,
    OWN_W,
    STATUS,
)
from snn._kernels.convolution.positions import (
    earliest_candidate,
    earliest_position,
    is_contested,
    note_earliest_of_block,
    note_earliest_of_position,
)
from snn._kernels.convolution.windows import (
    adapt_window,
    add_to_excess,
    fetch_weights,
    form_candidates,
    open_window,
    open_window_apart,
    touch_candidates,
)
from snn._kernels.neuron import LONGEST_TIE, Group, coast, quiet_time_of
from snn._kernels.run_state import (
    BURST,
    PAUSED,
    REACHED,
    advance_time,
    note_burst,
    note_spike,
    remaining_time,
)
from snn._kernels.stops import go_on, stop_of


@inlined
def _log_spike(position, channel, now, growth, fade, neurons, grid):
    """Add a spike to the logs of all positions it reaches; note these, and return their number."""
    # Fetch the weights for all positions before any of them is updated and waits for memory.
    row = position // grid.n_columns
    column = position - row * grid.n_columns
    stencil_rows, stencil_columns = 2 * grid.reach_rows + 1, 2 * grid.reach_columns + 1
    first_column = max(0, column - grid.reach_columns)
    last_column = min(grid.n_columns, column + grid.reach_columns + 1)
    n_reached = 0
    for other_row in range(max(0, row - grid.reach_rows), min(grid.n_rows, row + grid.reach_rows + 1)):
        offset = (channel * stencil_rows + other_row - row + grid.reach_rows) * stencil_columns
        offset = (offset + first_column - column + grid.reach_columns) * grid.n_channels
        for q in range(other_row * grid.n_columns + first_column, other_row * grid.n_columns + last_column):
            if grid.n_logged[q] == MOST_LOGGED:
                open_window_apart(q, now, fade, neurons, grid)
            m = q * MOST_LOGGED + grid.n_logged[q]
            grid.logged_offsets[m] = offset
            grid.logged_growths[m] = growth
            grid.n_logged[q] += 1
            fetch_weights(q, offset, grid)
            grid.reached[n_reached] = q
            grid.reached_offsets[n_reached] = offset
            n_reached += 1
            offset += grid.n_channels
    return n_reached


@inlined
def _deliver(neuron, now, growth, fade, neurons, grid):
    """Deliver one spike to all positions it reaches."""
    own = neuron // grid.n_channels
    channel = neuron - own * grid.n_channels
    n_reached = _log_spike(own, channel, now, growth, fade, neurons, grid)
    for n in range(n_reached):
        q = grid.reached[n]
        grid.n_spikes[q] += 1
        grid.n_touched[q] += grid.n_candidates[q]
        touch_candidates(q, channel if q == own else -1, growth, now, fade, grid)
        if add_to_excess(q, grid.reached_offsets[n], growth, grid):
            form_candidates(q, now, fade, neurons, grid)
        note_earliest_of_position(q, grid)
    block = -1
    for n in range(n_reached):
        if grid.reached[n] // grid.block_size != block:
            block = grid.reached[n] // grid.block_size
            note_earliest_of_block(block, grid)


@inner
def _next_tied(end, last_spike, last_fade, neurons, grid):
    """Find the neurons that fire next; return their number, the time, and the number of windows opened."""
    # None if that is after the end.
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
        c = earliest_candidate(q, grid)
        if grid.candidates[c + STATUS] != EXACT:
            refine_crossing(c, q, last_spike, last_fade, neurons, grid)
            note_earliest_of_position(q, grid)
            note_earliest_of_block(q // grid.block_size, grid)
            continue
        limit = tie_limit(c, q, last_spike, last_fade, neurons, grid)
        if now > end:
            if now - end > limit - now:
                return 0, now, n_windows
            # Up to rounding it crosses at the end, which may be that of the run.
            grid.candidates[c + CROSSING] = end
            note_earliest_of_position(q, grid)
            note_earliest_of_block(q // grid.block_size, grid)
            continue
        if not is_contested(q, limit, grid):
            grid.tied_neurons[0] = neuron_of(c, q, grid)
            grid.tied_candidates[0] = c
            return 1, now, n_windows
        n_tied, now = find_tied(limit, now, last_spike, last_fade, neurons, grid)
        if n_tied > 0:
            return n_tied if now <= end else 0, now, n_windows


@inner
def _run_epoch(end, most_events, n_events, all_neurons, k, state, neurons, spikes, grid):
    """Run until the end, or until the epoch has its most spikes; return its length, spikes and windows."""
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
            time = state.time + (now + state.time_error)
            note_spike(all_neurons, k, neuron, time, spikes, n_events + n_new)
            n_new += 1
        for t in range(n_tied):
            _deliver(grid.tied_neurons[t], now, growth, last_fade, neurons, grid)
    close_epoch(last_spike, neurons, grid)
    return last_spike, n_new, n_windows


@inner
def _advance(all_neurons, k, state, neurons, settings, stop_time, budget, spikes, n_events, grid):
    """Advance copy k; return the status, the number of spikes now, and the budget left."""
    # A spike costs one of the budget; so do passed positions and opened windows that take as long.
    n_reached = grid.reached.shape[0]
    while True:
        if budget <= 0:
            return PAUSED, n_events, budget
        remaining = remaining_time(state, stop_time)
        if remaining <= 0.0:
            return REACHED, n_events, budget
        budget -= 1 + grid.n_positions // n_reached
        quiet = quiet_time_of(neurons, LONGEST_EPOCH)
        length = min(quiet, remaining)
        n_new = 0
        if quiet > LONGEST_EPOCH:
            coast(neurons, length)
        else:
            length, n_new, n_windows = _run_epoch(
                min(LONGEST_EPOCH, remaining), settings.events_per_epoch, n_events, all_neurons, k, state,
                neurons, spikes, grid,
            )  # fmt: skip
            n_events += n_new
            budget -= n_new + n_windows // n_reached
        advance_time(state, length, stop_time, length == remaining)
        if note_burst(state, n_new, length):
            return BURST, n_events, budget


@uncounted
def advance(form, neurons, states, settings, memory, active, first, stops, budget, spikes):
    """As `simulation.advance`, for a `forms.Stencil`; `memory` is a `grid.Grid`."""
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        copy = Group(neurons.bias[k], neurons.threshold, neurons.potential[k], neurons.current[k])
        is_going = True
        while is_going:
            status, n_events, budget = _advance(
                neurons, k, states[k], copy, settings, stop_of(stops, k), budget, spikes, n_events, memory
            )
            if status != REACHED:
                return status, position, n_events
            is_going, n_done = go_on(stops, neurons, states, k)
            budget -= n_done
    return REACHED, active.shape[0], n_events

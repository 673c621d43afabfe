"""Stencil weights: a spike touches the positions around its own, every channel of each.

Neurons stand on a grid of positions, their channels side by side.  Time is cut into epochs, and potentials
and currents are referred to the beginning of one, as in `sparse`: with tau the time since then,

    v = w + c tau - p e^-tau        h = p e^-tau        (at its start w = v + h, p = h)

so that a spike at tau_s adds W to w and W e^tau_s to p of its targets.  Bringing that to all of a few
thousand targets at every spike would cost what their memory costs.  So each position keeps a log of the
spikes that reach it, which are added to w and p when the epoch ends or the log is full.

Meanwhile each position has a window of time, which begins at some time tau_0 and ends at some time T, and
each of its neurons w and h in single precision, referred to tau_0, and a bound of how far above its
threshold it would get within the window (the bound of the dense kernel),

    excess >= w + max(c T, c tau_0) - h e^-(T - tau_0) - theta,

to which a spike adds W (1 - e^-(T - tau_s)).  While it is negative the neuron stays silent.  Whoever's
excess is not negative becomes a candidate, with w and h of its own that are always up to date, and a time
before which it does not cross, from the positive root t of

    c t + h t / (1 + b t) = gap,    gap = theta - v,    b = 1/2 where h > 0,
                                                        b = min(1/2 + (T - tau) / 12, 1) where h <= 0,

whose left side is not below c t + h (1 - e^-t) until the window ends, since 1 / (1 - e^-t) - 1 / t grows
from 1/2 and is at most 1/2 + t / 12, and 1.  All this errs by more than single precision loses, towards
firing early.

The earliest of these times, or ends of windows, over all positions is made exact until it is exact: the
neuron gets a record, w and p in double precision, to which the log has been added.

Numbers, and the order in which they are added up, do not depend on windows, and crossings are found from
the last spike of all: neurons of equal inputs keep equal bits, and fire together.
"""

import math

import numpy as np

from snn._kernels.clock import PAUSED, REACHED, TIME, TIME_ERROR, advance_clock, remaining_time
from snn._kernels.compiling import compiled, inlined, uncounted
from snn._kernels.positions import (
    CHANNEL,
    END,
    END_FADE,
    EXACT_W,
    GROUP,
    IS_EXACT,
    LANES,
    MOST_LOGGED,
    MOST_WAITING,
    N_CANDIDATES,
    N_LOGGED,
    N_REACHED,
    N_SEEN,
    N_TOUCHED,
    NEVER,
    OWN_W,
    POSITION_COUNTS,
    POSITION_FIELDS,
    RECORD_COUNTS,
    RECORD_FIELDS,
    Run,
    crossing_of,
    earliest,
    earliest_of_block,
    earliest_of_position,
    lane_of,
)
from snn._kernels.records import (
    begin_log,
    close_epoch,
    is_contested,
    open_epoch,
    settle,
    settle_close_ones,
)
from snn._kernels.windows import (
    WILD,
    adapt_window,
    add_to_excess,
    form_candidates,
    open_window,
    open_window_apart,
    touch_candidates,
    weigh_for_candidates,
)

LONGEST_EPOCH = 128.0
"""Longer ones would lose digits: v is the difference of numbers that grow with tau."""
LEAST_EVENTS_PER_EPOCH = 256
"""An epoch takes up to this many spikes, or a quarter of the neurons, if that is more."""
CLOSE = 1e-9
"""Crossings so close are computed anew from one time, so that equal ones are equal to the last bit."""


def events_per_epoch(n_neurons):
    """Return the number of spikes after which an epoch ends, apart from those that share the last time."""
    return max(LEAST_EVENTS_PER_EPOCH, n_neurons // 4)


@inlined
def _deliver(neuron, now, growth, fade, reach_rows, reach_columns, run):
    """Deliver one spike to all positions in reach."""
    own = neuron // run.n_channels
    channel = neuron - own * run.n_channels
    row = own // run.n_columns
    column = own - row * run.n_columns
    n_rows = run.n_positions // run.n_columns
    stencil_rows, stencil_columns = 2 * reach_rows + 1, 2 * reach_columns + 1
    first_column = max(0, column - reach_columns)
    last_column = min(run.n_columns, column + reach_columns + 1)
    # What it weighs is fetched for all positions before any of them works on it, and waits for memory.
    n_reached = 0
    for other_row in range(max(0, row - reach_rows), min(n_rows, row + reach_rows + 1)):
        # Which of the lines of values: those of a channel, by row and column offset.
        line = (channel * stencil_rows + other_row - row + reach_rows) * stencil_columns
        line += first_column - column + reach_columns
        for q in range(other_row * run.n_columns + first_column, other_row * run.n_columns + last_column):
            n_logged = run.place_counts[q, N_LOGGED]
            if n_logged == MOST_LOGGED:
                begin_log(q, now, fade, run)
                n_logged = 0
            elif n_logged - run.place_counts[q, N_SEEN] == MOST_WAITING:
                open_window_apart(q, now, fade, run)
            run.logged_lines[q * MOST_LOGGED + n_logged] = line
            run.logged_growths[q * MOST_LOGGED + n_logged] = growth
            run.place_counts[q, N_LOGGED] = n_logged + 1
            if run.weight_ratio <= WILD:
                weigh_for_candidates(q, line * run.n_padded, run)
            run.reached[n_reached] = q
            run.reached_lines[n_reached] = line
            n_reached += 1
            line += 1

    for n in range(n_reached):
        q = run.reached[n]
        if run.weight_ratio > WILD:
            run.places[q, END] = now
        else:
            run.place_counts[q, N_TOUCHED] += 1
            run.place_counts[q, N_REACHED] += run.place_counts[q, N_CANDIDATES]
            touch_candidates(q, channel if q == own else -1, growth, now, fade, run)
            factor = np.float32((1.0 - growth * run.places[q, END_FADE]) * run.weight_ratio)
            if add_to_excess(
                q * run.n_padded, run.n_padded, run.single_values, run.reached_lines[n] * run.n_padded,
                factor, run.excess, run.excess_signs,
            ):  # fmt: skip
                form_candidates(q, now, fade, run)
        earliest_of_position(q, run)

    block = -1
    for n in range(n_reached):
        if run.reached[n] // run.block_size != block:
            block = run.reached[n] // run.block_size
            earliest_of_block(block, run)


@uncounted
def _advance_stencil(
    run, reach_rows, reach_columns, most_events, spike_counts, clock, stop_time, max_events, record,
    spike_times, spike_neurons,
):  # fmt: skip
    """As `_advance_dense`, for stencil weights.

    Between calls `w` and `p` are potentials and currents.
    """
    # An epoch costs what so many spikes do.
    epoch_cost = 1 + run.n_positions // ((2 * reach_rows + 1) * (2 * reach_columns + 1))
    n_events = 0
    n_epochs = 0
    while True:
        if n_events + n_epochs * epoch_cost >= max_events:
            return PAUSED, n_events
        remaining = remaining_time(clock, stop_time)
        if remaining <= 0.0:
            return REACHED, n_events
        n_epochs += 1
        end = min(LONGEST_EPOCH, remaining)
        last_spike = 0.0
        last_fade = 1.0
        open_epoch(run)
        for block in range(run.block_bits.shape[0]):
            run.block_bits[block] = 0

        n_before = n_events
        while n_events - n_before < most_events:
            q = earliest(run)
            now = run.times[q]
            if now > end:
                break
            if run.places[q, END] <= now:
                adapt_window(q, run)
                open_window(q, now, math.exp(-now), run)
                earliest_of_block(q // run.block_size, run)
                continue
            k = 0
            while run.crossings[crossing_of(k, q, run.n_positions)] != now:
                k += 1
            crossing = crossing_of(k, q, run.n_positions)
            c = lane_of(crossing)
            if run.lanes[c + IS_EXACT] == 0.0:
                settle(crossing, q, last_spike, last_fade, run)
                earliest_of_position(q, run)
                earliest_of_block(q // run.block_size, run)
                continue

            n_tied = 1
            run.tied_neurons[0] = q * run.n_channels + np.int64(run.lanes[c + CHANNEL])
            run.tied_lanes[0] = c
            run.limit[0] = now + CLOSE
            if is_contested(q, run.limit[0], run.limit_bits[0], run):
                n_tied, now = settle_close_ones(now, run.limit[0], last_spike, last_fade, run)
                if n_tied == 0:
                    continue
                if now > end:
                    break

            last_spike = now
            growth = math.exp(now)
            last_fade = 1.0 / growth
            for t in range(n_tied):
                neuron = run.tied_neurons[t]
                own_record = run.record_of[neuron] - 1
                run.records[own_record, EXACT_W] -= run.threshold[neuron]
                taken = np.float32(run.threshold[neuron] * run.per_threshold)
                run.lanes[run.tied_lanes[t] + OWN_W] -= taken
                position = neuron // run.n_channels
                run.single_w[position * run.n_padded + neuron - position * run.n_channels] -= taken
                spike_counts[neuron] += 1
                if record:
                    spike_times[n_events] = clock[TIME] + (now + clock[TIME_ERROR])
                    spike_neurons[n_events] = neuron
                n_events += 1
            for t in range(n_tied):
                _deliver(run.tied_neurons[t], now, growth, last_fade, reach_rows, reach_columns, run)

        # At its end, or at its last spike when it is crowded.
        length = last_spike if n_events - n_before >= most_events else end
        close_epoch(length, run)
        if length == remaining:
            clock[TIME] = stop_time
            clock[TIME_ERROR] = 0.0
        else:
            advance_clock(clock, length)


@compiled
def advance_stencil(
    values, single_values, per_threshold, weight_ratio, n_rows, n_columns, n_channels, reach_rows,
    reach_columns, most_events, bias, threshold, potential, current, spike_counts, clock, active, first,
    stop_time, max_events, record, spike_times, spike_neurons,
):  # fmt: skip
    """As `advance_dense`, for stencil weights.

    The spike arrays must hold `most_events` entries more: epochs are never split.
    """
    n_positions = n_rows * n_columns
    n_neurons = n_positions * n_channels
    n_padded = (n_channels + 15) // 16 * 16
    single_w = np.full(n_positions * n_padded, NEVER)
    single_h = np.zeros(n_positions * n_padded, dtype=np.float32)
    single_bias = np.zeros(n_positions * n_padded, dtype=np.float32)
    excess = np.empty(n_positions * n_padded, dtype=np.float32)
    times = np.empty(n_positions)
    block_size = max(8, math.ceil(math.sqrt(n_positions)))
    # Room for every neuron, most of which is never touched: the k-th groups of all positions together.
    n_groups = (n_channels + LANES - 1) // LANES * n_positions
    lanes = np.empty(n_groups * GROUP, dtype=np.float32)
    crossings = np.empty(n_groups * LANES)
    mask = np.zeros(n_padded, dtype=np.bool_)
    places = np.empty((n_positions, POSITION_FIELDS))
    place_counts = np.empty((n_positions, POSITION_COUNTS), dtype=np.int64)
    block_bits = np.empty((n_positions + block_size - 1) // block_size, dtype=np.int64)
    logged_lines = np.empty(n_positions * MOST_LOGGED, dtype=np.int64)
    logged_growths = np.empty(n_positions * MOST_LOGGED)
    record_of = np.zeros(n_neurons, dtype=np.int32)
    records = np.empty((n_neurons, RECORD_FIELDS))
    record_counts = np.empty((n_neurons, RECORD_COUNTS), dtype=np.int64)
    n_records = np.zeros(1, dtype=np.int64)
    tied_neurons = np.empty(n_neurons, dtype=np.int64)
    tied_lanes = np.empty(n_neurons, dtype=np.int64)
    reached = np.empty((2 * reach_rows + 1) * (2 * reach_columns + 1), dtype=np.int64)
    reached_lines = np.empty_like(reached)
    limit = np.empty(1)
    row = np.empty(n_channels, dtype=np.float32)
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        run = Run(
            values, single_values, per_threshold, weight_ratio, n_columns, n_channels, n_positions, n_padded,
            bias[k], threshold, potential[k], current[k], current[k].view(np.int64), single_w, single_h,
            single_bias, excess, excess.view(np.int64), places, place_counts, times, times.view(np.int64),
            block_bits, block_size, logged_lines, logged_growths, lanes, crossings, crossings.view(np.int64),
            mask, mask.view(np.int64), record_of, records, record_counts, n_records, tied_neurons, tied_lanes,
            limit, limit.view(np.int64), reached, reached_lines, row, row.view(np.int32),
        )  # fmt: skip
        status, n_new = _advance_stencil(
            run, reach_rows, reach_columns, most_events, spike_counts[k], clock[k], stop_time,
            max_events - n_events, record, spike_times[n_events:], spike_neurons[n_events:],
        )  # fmt: skip
        n_events += n_new
        if status == PAUSED:
            return PAUSED, position, n_events
    return REACHED, active.shape[0], n_events

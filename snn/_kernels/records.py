"""Potentials and currents in double precision: of those who are about to fire, and of all at the end.

See `stencil`.
"""

import math

import numpy as np

from snn._kernels.compiling import inlined, uncounted
from snn._kernels.crossing import crossing_time
from snn._kernels.positions import (
    CHANNEL,
    END,
    EXACT_BIAS,
    EXACT_P,
    EXACT_THRESHOLD,
    EXACT_W,
    FIRST_RECORD,
    IS_EXACT,
    LENGTH,
    LONGEST_WINDOW,
    MOST_LOGGED,
    N_ADDED,
    N_CANDIDATES,
    N_LOGGED,
    NEURON,
    NEXT_RECORD,
    NONE,
    SHORTEST_WINDOW,
    count_until,
    crossing_of,
    earliest_of_block,
    earliest_of_position,
    lane_of,
)
from snn._kernels.windows import load_singles, open_window, open_window_apart


@inlined
def bring_record_up_to_date(record, q, channel, run):
    """Add the spikes of a position's log to a record that it has not, in their order."""
    w, p = run.records[record, EXACT_W], run.records[record, EXACT_P]
    stop = q * MOST_LOGGED + run.place_counts[q, N_LOGGED]
    for m in range(q * MOST_LOGGED + run.record_counts[record, N_ADDED], stop):
        weight = run.values[np.uint64(run.logged_lines[m] * run.n_channels + channel)]
        w += weight
        p += run.logged_growths[m] * weight
    run.records[record, EXACT_W] = w
    run.records[record, EXACT_P] = p
    run.record_counts[record, N_ADDED] = run.place_counts[q, N_LOGGED]


@inlined
def settle(crossing, q, last_spike, last_fade, run):
    """Note the time at which a candidate of position q crosses, inf if after its window."""
    channel = np.int64(run.lanes[lane_of(crossing) + CHANNEL])
    i = q * run.n_channels + channel
    record = run.record_of[i] - 1
    if record < 0:
        record = run.n_records[0]
        run.n_records[0] += 1
        run.record_of[i] = record + 1
        run.records[record, EXACT_W] = run.w[i]
        run.records[record, EXACT_P] = run.p[i]
        run.records[record, EXACT_BIAS] = run.bias[i]
        run.records[record, EXACT_THRESHOLD] = run.threshold[i]
        run.record_counts[record, NEURON] = i
        run.record_counts[record, N_ADDED] = 0
        run.record_counts[record, NEXT_RECORD] = run.place_counts[q, FIRST_RECORD]
        run.place_counts[q, FIRST_RECORD] = record
    bring_record_up_to_date(record, q, channel, run)
    bias = run.records[record, EXACT_BIAS]
    h = run.records[record, EXACT_P] * last_fade
    v = run.records[record, EXACT_W] + bias * last_spike - h
    gap = run.records[record, EXACT_THRESHOLD] - v
    time = crossing_time(gap, bias, h, run.places[q, END] - last_spike)
    run.crossings[crossing] = last_spike + time if time >= 0.0 else math.inf
    run.lanes[lane_of(crossing) + IS_EXACT] = np.float32(1.0)


@inlined
def bring_up_to_date(q, run):
    """Add the spikes of a position's log to all its neurons, in their order, and begin another."""
    first = q * run.n_channels
    m = q * MOST_LOGGED
    end = m + run.place_counts[q, N_LOGGED]
    while m + 4 <= end:
        offset_0, offset_1 = run.logged_lines[m] * run.n_channels, run.logged_lines[m + 1] * run.n_channels
        offset_2, offset_3 = (
            run.logged_lines[m + 2] * run.n_channels,
            run.logged_lines[m + 3] * run.n_channels,
        )
        growth_0, growth_1 = run.logged_growths[m], run.logged_growths[m + 1]
        growth_2, growth_3 = run.logged_growths[m + 2], run.logged_growths[m + 3]
        for k in range(run.n_channels):
            i = np.uint64(first + k)
            weight_0, weight_1 = run.values[np.uint64(offset_0 + k)], run.values[np.uint64(offset_1 + k)]
            weight_2, weight_3 = run.values[np.uint64(offset_2 + k)], run.values[np.uint64(offset_3 + k)]
            run.w[i] = run.w[i] + weight_0 + weight_1 + weight_2 + weight_3
            current = run.p[i] + growth_0 * weight_0 + growth_1 * weight_1
            run.p[i] = current + growth_2 * weight_2 + growth_3 * weight_3
        m += 4
    while m < end:
        offset, growth = run.logged_lines[m] * run.n_channels, run.logged_growths[m]
        for k in range(run.n_channels):
            i = np.uint64(first + k)
            weight = run.values[np.uint64(offset + k)]
            run.w[i] += weight
            run.p[i] += growth * weight
        m += 1
    # Whoever has fired has done so in his record only.
    record = run.place_counts[q, FIRST_RECORD]
    while record != NONE:
        i = run.record_counts[record, NEURON]
        bring_record_up_to_date(record, q, i - first, run)
        run.w[i] = run.records[record, EXACT_W]
        run.p[i] = run.records[record, EXACT_P]
        run.record_counts[record, N_ADDED] = 0
        record = run.record_counts[record, NEXT_RECORD]
    run.place_counts[q, N_LOGGED] = 0


@uncounted
def begin_log(q, now, fade, run):
    """Bring a position up to date whose log is full, and begin another."""
    bring_up_to_date(q, run)
    load_singles(q, now, fade, run)
    open_window(q, now, fade, run)


@inlined
def is_contested(q, limit, limit_bits, run):
    """Whether anybody but the first candidate of position q could fire until the limit."""
    if count_until(limit_bits, 0, run.block_bits.shape[0], run.block_bits) > 1:
        return True
    first = q // run.block_size * run.block_size
    if count_until(limit_bits, first, min(first + run.block_size, run.n_positions), run.time_bits) > 1:
        return True
    count = 0
    for k in range(run.place_counts[q, N_CANDIDATES]):
        count += 1 if run.crossings[crossing_of(k, q, run.n_positions)] <= limit else 0
    return count > 1


@uncounted
def settle_close_ones(now, limit, last_spike, last_fade, run):
    """Settle all that could fire until the limit, and return how many are first together, and when."""
    first = math.inf
    for q in range(run.n_positions):
        if run.times[q] > limit:
            continue
        if run.places[q, END] <= limit:
            # Beyond the end somebody might cross at the same time.
            open_window_apart(q, now, math.exp(-now), run)
        for k in range(run.place_counts[q, N_CANDIDATES]):
            crossing = crossing_of(k, q, run.n_positions)
            if run.crossings[crossing] <= limit:
                settle(crossing, q, last_spike, last_fade, run)
                first = min(first, run.crossings[crossing])
        earliest_of_position(q, run)
    for block in range(run.block_bits.shape[0]):
        earliest_of_block(block, run)
    n_tied = 0
    if first > limit:
        return n_tied, first
    for q in range(run.n_positions):
        if run.times[q] != first:
            continue
        begin = n_tied
        for k in range(run.place_counts[q, N_CANDIDATES]):
            crossing = crossing_of(k, q, run.n_positions)
            if run.crossings[crossing] == first:
                # In the order of their channels, as the positions are in theirs.
                neuron = q * run.n_channels + np.int64(run.lanes[lane_of(crossing) + CHANNEL])
                place = n_tied
                while place > begin and run.tied_neurons[place - 1] > neuron:
                    run.tied_neurons[place] = run.tied_neurons[place - 1]
                    run.tied_lanes[place] = run.tied_lanes[place - 1]
                    place -= 1
                run.tied_neurons[place] = neuron
                run.tied_lanes[place] = lane_of(crossing)
                n_tied += 1
    return n_tied, first


@inlined
def open_epoch(run):
    """Refer potentials and currents to the beginning, and let all windows end there.

    The first windows are to last twice as long as nobody could fire without further spikes, so that few
    will be candidates.
    """
    run.n_records[0] = 0
    for q in range(run.n_positions):
        first = q * run.n_channels
        flows = 0
        for k in range(run.n_channels):
            flows |= run.p_bits[np.uint64(first + k)]
        if flows != 0:
            for k in range(run.n_channels):
                i = np.uint64(first + k)
                v, p = run.w[i], run.p[i]
                w = v + p
                # Who stands at the threshold still does so when p is taken away again.
                is_lost = (v >= run.threshold[i]) & (w - p < run.threshold[i])
                run.w[i] = w + (2.0**-52 * abs(w) if is_lost else 0.0)
        load_singles(q, 0.0, 1.0, run)
        for k in range(run.n_channels):
            s = np.uint64(q * run.n_padded + k)
            h = run.single_h[s]
            # From the potential, w - h.
            gap = h - run.single_w[s]
            gap = gap if gap > np.float32(0.25) else np.float32(0.25)
            slope = run.single_bias[s] + (h if h > np.float32(0.0) else np.float32(0.0))
            time = gap / slope
            run.row[np.uint64(k)] = time if slope > np.float32(0.0) else np.float32(LONGEST_WINDOW)
        earliest = run.row_bits[0]
        for k in range(run.n_channels):
            bits = run.row_bits[np.uint64(k)]
            earliest = bits if bits < earliest else earliest
        run.row_bits[0] = earliest
        # What is not a number, a current beyond single precision over such a gap, counts as short.
        length = float(run.row[0]) if run.row[0] > SHORTEST_WINDOW else SHORTEST_WINDOW
        run.places[q, LENGTH] = min(length, 0.5 * LONGEST_WINDOW)
        run.places[q, END] = 0.0
        run.times[q] = 0.0
        run.place_counts[q, FIRST_RECORD] = NONE


@inlined
def close_epoch(length, run):
    """Bring potentials and currents to the end of the epoch."""
    fade = math.exp(-length)
    for q in range(run.n_positions):
        bring_up_to_date(q, run)
        for k in range(run.n_channels):
            i = np.uint64(q * run.n_channels + k)
            h = run.p[i] * fade
            run.w[i] += run.bias[i] * length - h
            run.p[i] = h
    for record in range(run.n_records[0]):
        run.record_of[run.record_counts[record, NEURON]] = 0

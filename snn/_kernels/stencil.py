"""Stencil weights: a spike touches the positions around its own, every channel of each.

Neurons stand on a grid of positions, their channels side by side.  Time is cut into epochs, and potentials
and currents are referred to the beginning of one, as in `sparse`: with tau the time since then,

    v = w + c tau - p e^-tau        h = p e^-tau        (at its start w = v + h, p = h)

so that a spike at tau_s adds W to w and W e^tau_s to p of its targets.  Bringing that to all of a few
thousand targets at every spike would cost what their memory costs.  So each position has a window of its
own, which ends at some time T, and of each neuron a bound in single precision of how far above its
threshold it would get within the window (the bound of the dense kernel),

    excess >= w + max(c T, c tau_0) - p e^-T - theta        tau_0: when the window began,

to which a spike adds W (1 - e^-(T - tau_s)), and a bit more than rounding can take away.  While it is
negative the neuron stays silent, and its spikes wait in the position's list, to be added to w and p when
the window ends or the list is full.

Whoever's excess is not negative becomes a candidate, with w and p of its own that are always up to date,
and a time before which it does not cross: where h > 0, from 1 - e^-t <= min(t, 1),

    tau + max(gap / (c + h), (gap - h) / c),    gap = theta - v,

and where h < 0, from 1 - e^-t >= t / (1 + t) and t >= gap / c =: s,

    tau + (gap - h s / (1 + s)) / c.

The earliest of these times, or ends of windows, over all positions is made exact until it is exact.

Numbers, and the order in which they are added up, do not depend on windows, and crossings are found from
the last spike of all: neurons of equal inputs keep equal bits, and fire together.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.clock import PAUSED, REACHED, TIME, TIME_ERROR, advance_clock, remaining_time
from snn._kernels.compiling import compiled, inlined, uncounted
from snn._kernels.crossing import SEARCH_SLACK, crossing_time

LONGEST_EPOCH = 32.0
"""Longer ones would lose digits: v is the difference of numbers that grow with tau."""
LEAST_EVENTS_PER_EPOCH = 256
"""An epoch takes up to this many spikes, or a quarter of the neurons, if that is more."""
LONGEST_WINDOW = 16.0
SHORTEST_WINDOW = 1e-9
# Candidates touched by a spike, for each position it reaches: windows are made to have that many.
FEW_CANDIDATES, MANY_CANDIDATES = 3, 7
MOST_WAITING = 16
"""Spikes in the list of a position."""
CLOSE = 1e-9
"""Crossings so close are computed anew from one time, so that equal ones are equal to the last bit."""

# Candidates of a position stand in groups of eight lanes, which the processor works on at once; what is
# kept of each is a line of the group.  Lanes nobody stands in belong to a neuron that cannot fire.
LANES = 8
CROSSING, OWN_W, OWN_P, OWN_BIAS, INVERSE_BIAS, OWN_THRESHOLD, CHANNEL, IS_EXACT, WEIGHT = range(
    0, 9 * LANES, LANES
)
GROUP = 9 * LANES
NEVER = 1e300

# What is kept of a position.
END, END_FADE, LENGTH = range(3)
POSITION_FIELDS = 3
N_CANDIDATES, N_WAITING, N_TOUCHED, N_REACHED = range(4)
POSITION_COUNTS = 4

# Excesses are in units of the largest threshold, weights in single precision in units of the largest of
# them.  A sum of up to MOST_WAITING of these loses less than (2 MOST_WAITING) 2^-24 of all its terms, which
# are the excess at first, and weights of at most `weight_ratio` each: it starts higher by more than that.
LOST_OF_EXCESS = 2.0**-18
LOST_OF_WEIGHTS = 2.0**-14
FOUND = np.float32(-1e30)
"""The excess of a candidate, and of places that belong to nobody: not found again."""
WILD = 1e15
"""Ratios of weights to thresholds beyond which sums of them might overflow: windows then end at once."""
BOTH_NEGATIVE = np.int64(np.uint64(0x8000000080000000).astype(np.int64))
"""The signs of two numbers of single precision."""


def events_per_epoch(n_neurons):
    """Return the number of spikes after which an epoch ends, apart from those that share the last time."""
    return max(LEAST_EVENTS_PER_EPOCH, n_neurons // 4)


def padded(n_channels):
    """Return the places of a position's excesses: two signs are looked at together, sixteen numbers added."""
    return (n_channels + 15) // 16 * 16


class _Run(NamedTuple):
    """What the functions below share: the weights, one network's state, and work arrays."""

    values: np.ndarray
    """Weights [channel, row offset, column offset, channel], one after the other."""
    single_values: np.ndarray
    """Likewise, in units of the largest, and padded."""
    per_threshold: float
    """1 / the largest threshold."""
    weight_ratio: float
    """The largest weight / the largest threshold."""
    n_columns: int
    n_channels: int
    n_positions: int
    n_padded: int
    bias: np.ndarray
    threshold: np.ndarray
    w: np.ndarray
    p: np.ndarray
    excess: np.ndarray
    excess_signs: np.ndarray
    places: np.ndarray
    place_counts: np.ndarray
    times: np.ndarray
    """The earliest of each position, and of blocks of them; as integers, which keep their order."""
    time_bits: np.ndarray
    block_bits: np.ndarray
    block_size: int
    waiting_offsets: np.ndarray
    waiting_growths: np.ndarray
    candidates: np.ndarray
    candidate_bits: np.ndarray
    mask: np.ndarray
    mask_words: np.ndarray
    tied_neurons: np.ndarray
    tied_candidates: np.ndarray
    limit: np.ndarray
    limit_bits: np.ndarray
    row: np.ndarray
    row_bits: np.ndarray


@inlined
def _add_to_excess(first, n_targets, values, offset, factor, excess, excess_signs):
    """Add a spike to the bounds of a position; return whether one is negative no more."""
    for k in range(n_targets):
        # Unsigned, an index cannot wrap round, which would keep the loop from the vector unit.
        i = np.uint64(first + k)
        excess[i] += factor * values[np.uint64(offset + k)]
    return _is_one_not_negative(first, n_targets, excess_signs)


@inlined
def _is_one_not_negative(first, n_targets, excess_signs):
    signs = BOTH_NEGATIVE
    for k in range(first // 2, (first + n_targets) // 2):
        signs &= excess_signs[np.uint64(k)]
    return signs != BOTH_NEGATIVE


@inlined
def _bound(w, p, bias, inverse_bias, threshold, now, fade):
    """Return a time before which a neuron does not cross."""
    h = p * fade
    gap = threshold - (w + bias * now - h)
    gap -= SEARCH_SLACK * (threshold + abs(w) + abs(h))
    inhibited = h <= 0.0
    slope = bias + h
    # One division for both cases, and no branch.
    straight = 1.0 + gap * inverse_bias
    numerator = 1.0 if inhibited else gap
    denominator = straight if inhibited else slope
    quotient = numerator / denominator
    arrived = 1.0 - quotient if inhibited else 1.0
    by_bias = (gap - h * arrived) * inverse_bias
    later = quotient if quotient > by_bias else by_bias
    with_bias = by_bias if inhibited else later
    without_bias = math.inf if inhibited | (gap >= h) | (slope <= 0.0) else quotient
    time = now + (with_bias if bias > 0.0 else without_bias)
    # Beyond the range of numbers, where nothing can be proven, it is now.
    return time if (gap > 0.0) & (time >= now) else now


@inlined
def _candidate(k, q, n_positions):
    """Return where the k-th candidate of a position stands."""
    return GROUP * (k // LANES * n_positions + q) + k % LANES


@inlined
def _earliest_of_position(q, run):
    """Note the earliest time of a position: the end of its window, or a candidate's.

    As integers, times that are not negative keep their order.
    """
    run.times[q] = run.places[q, END]
    earliest = run.time_bits[q]
    group = GROUP * q
    for _ in range(0, run.place_counts[q, N_CANDIDATES], LANES):
        for lane in range(LANES):
            bits = run.candidate_bits[np.uint64(group + CROSSING + lane)]
            earliest = bits if bits < earliest else earliest
        group += GROUP * run.n_positions
    run.time_bits[q] = earliest


@inlined
def _earliest_of_block(block, run):
    """Note the earliest time of a block of positions."""
    first = block * run.block_size
    last = min(first + run.block_size, run.time_bits.shape[0])
    earliest = run.time_bits[first]
    for q in range(first, last):
        bits = run.time_bits[np.uint64(q)]
        earliest = bits if bits < earliest else earliest
    run.block_bits[block] = earliest


@inlined
def _earliest(run):
    """Return the first position of the earliest time."""
    earliest = run.block_bits[0]
    for block in range(run.block_bits.shape[0]):
        bits = run.block_bits[np.uint64(block)]
        earliest = bits if bits < earliest else earliest
    block = 0
    while run.block_bits[block] != earliest:
        block += 1
    q = block * run.block_size
    while run.time_bits[q] != earliest:
        q += 1
    return q


@inlined
def _count_until(limit_bits, first, last, bits):
    """Return how many of some times are at most the limit."""
    count = 0
    for k in range(first, last):
        count += 1 if bits[np.uint64(k)] <= limit_bits else 0
    return count


@inlined
def _form_candidates(q, now, fade, run):
    """Make candidates of the neurons of a position whose excess is not negative."""
    for k in range(run.n_padded):
        run.mask[np.uint64(k)] = not (run.excess[np.uint64(q * run.n_padded + k)] < np.float32(0.0))
    n_candidates = run.place_counts[q, N_CANDIDATES]
    for word in range(run.mask_words.shape[0]):
        if run.mask_words[word] == 0:
            continue
        for k in range(8 * word, 8 * word + 8):
            if not run.mask[k]:
                continue
            i = q * run.n_channels + k
            own_w = run.w[i]
            own_p = run.p[i]
            for m in range(q * MOST_WAITING, q * MOST_WAITING + run.place_counts[q, N_WAITING]):
                weight = run.values[run.waiting_offsets[m] + k]
                own_w += weight
                own_p += run.waiting_growths[m] * weight
            run.excess[q * run.n_padded + k] = FOUND
            lane = n_candidates % LANES
            group = GROUP * (n_candidates // LANES * run.n_positions + q)
            if lane == 0:
                for other in range(LANES):
                    run.candidates[np.uint64(group + CROSSING + other)] = math.inf
                    run.candidates[np.uint64(group + OWN_W + other)] = 0.0
                    run.candidates[np.uint64(group + OWN_P + other)] = 0.0
                    run.candidates[np.uint64(group + OWN_BIAS + other)] = 0.0
                    run.candidates[np.uint64(group + INVERSE_BIAS + other)] = 0.0
                    run.candidates[np.uint64(group + OWN_THRESHOLD + other)] = NEVER
                    run.candidates[np.uint64(group + CHANNEL + other)] = 0.0
            c = group + lane
            inverse = 1.0 / run.bias[i]
            run.candidates[c + CROSSING] = _bound(
                own_w, own_p, run.bias[i], inverse, run.threshold[i], now, fade
            )
            run.candidates[c + OWN_W] = own_w
            run.candidates[c + OWN_P] = own_p
            run.candidates[c + OWN_BIAS] = run.bias[i]
            run.candidates[c + INVERSE_BIAS] = inverse
            run.candidates[c + OWN_THRESHOLD] = run.threshold[i]
            run.candidates[c + CHANNEL] = k
            run.candidates[c + IS_EXACT] = 0.0
            n_candidates += 1
    run.place_counts[q, N_CANDIDATES] = n_candidates


@inlined
def _touch_candidates(q, own, growth, now, fade, offset, run):
    """Deliver a spike of neuron `own` to the candidates of a position."""
    own_channel = float(own - q * run.n_channels)
    group = GROUP * q
    for _ in range(0, run.place_counts[q, N_CANDIDATES], LANES):
        for c in range(group, group + LANES):
            channel = np.int64(run.candidates[np.uint64(c + CHANNEL)])
            run.candidates[np.uint64(c + WEIGHT)] = run.values[np.uint64(offset + channel)]
        for c in range(group, group + LANES):
            weight = run.candidates[np.uint64(c + WEIGHT)]
            own_w = run.candidates[np.uint64(c + OWN_W)] + weight
            own_p = run.candidates[np.uint64(c + OWN_P)] + growth * weight
            bias = run.candidates[np.uint64(c + OWN_BIAS)]
            inverse_bias = run.candidates[np.uint64(c + INVERSE_BIAS)]
            threshold = run.candidates[np.uint64(c + OWN_THRESHOLD)]
            crossing = _bound(own_w, own_p, bias, inverse_bias, threshold, now, fade)
            previous = run.candidates[np.uint64(c + CROSSING)]
            was_exact = run.candidates[np.uint64(c + IS_EXACT)]
            is_spared = (weight == 0.0) & (run.candidates[np.uint64(c + CHANNEL)] != own_channel)
            run.candidates[np.uint64(c + OWN_W)] = own_w
            run.candidates[np.uint64(c + OWN_P)] = own_p
            run.candidates[np.uint64(c + CROSSING)] = previous if is_spared else crossing
            run.candidates[np.uint64(c + IS_EXACT)] = was_exact if is_spared else 0.0
        group += GROUP * run.n_positions


@inlined
def _bring_up_to_date(q, run):
    """Deliver the waiting spikes of a position, in their order, and dismiss its candidates."""
    first = q * run.n_channels
    m = q * MOST_WAITING
    end = m + run.place_counts[q, N_WAITING]
    while m + 4 <= end:
        offset_0, offset_1 = run.waiting_offsets[m], run.waiting_offsets[m + 1]
        offset_2, offset_3 = run.waiting_offsets[m + 2], run.waiting_offsets[m + 3]
        growth_0, growth_1 = run.waiting_growths[m], run.waiting_growths[m + 1]
        growth_2, growth_3 = run.waiting_growths[m + 2], run.waiting_growths[m + 3]
        for k in range(run.n_channels):
            i = np.uint64(first + k)
            weight_0, weight_1 = run.values[np.uint64(offset_0 + k)], run.values[np.uint64(offset_1 + k)]
            weight_2, weight_3 = run.values[np.uint64(offset_2 + k)], run.values[np.uint64(offset_3 + k)]
            run.w[i] = run.w[i] + weight_0 + weight_1 + weight_2 + weight_3
            current = run.p[i] + growth_0 * weight_0 + growth_1 * weight_1
            run.p[i] = current + growth_2 * weight_2 + growth_3 * weight_3
        m += 4
    while m < end:
        offset, growth = run.waiting_offsets[m], run.waiting_growths[m]
        for k in range(run.n_channels):
            i = np.uint64(first + k)
            weight = run.values[np.uint64(offset + k)]
            run.w[i] += weight
            run.p[i] += growth * weight
        m += 1
    run.place_counts[q, N_WAITING] = 0
    for k in range(run.place_counts[q, N_CANDIDATES]):
        c = _candidate(k, q, run.n_positions)
        i = first + np.int64(run.candidates[c + CHANNEL])
        run.w[i] = run.candidates[c + OWN_W]
        run.p[i] = run.candidates[c + OWN_P]
    run.place_counts[q, N_CANDIDATES] = 0


@inlined
def _open_window(q, now, fade, run):
    """End the window of a position, and begin another."""
    _bring_up_to_date(q, run)
    end = now + run.places[q, LENGTH]
    end_fade = math.exp(-end)
    run.places[q, END] = end
    run.places[q, END_FADE] = end_fade
    run.place_counts[q, N_TOUCHED] = 0
    run.place_counts[q, N_REACHED] = 0
    lost = SEARCH_SLACK + LOST_OF_WEIGHTS * run.weight_ratio
    for k in range(run.n_channels):
        i = np.uint64(q * run.n_channels + k)
        c = run.bias[i]
        foreseen = run.w[i] + c * (end if c > 0.0 else now) - run.p[i] * end_fade
        over = (foreseen - run.threshold[i]) * run.per_threshold
        over += lost + LOST_OF_EXCESS * abs(over)
        over = over if over > -1e30 else -1e30
        # Who stands at the threshold fires at once, even where inhibition is about to take him away.
        above = run.w[i] + c * now - run.p[i] * fade - run.threshold[i]
        run.excess[np.uint64(q * run.n_padded + k)] = np.float32(over if above < 0.0 else 1.0)
    if _is_one_not_negative(q * run.n_padded, run.n_padded, run.excess_signs):
        _form_candidates(q, now, fade, run)
    _earliest_of_position(q, run)


@uncounted
def _open_window_apart(q, now, fade, run):
    """As `_open_window`, for the rare cases: it is long."""
    _open_window(q, now, fade, run)


@inlined
def _settle(c, q, last_spike, last_fade, run):
    """Note the time at which candidate c of position q crosses, inf if after its window."""
    bias = run.candidates[c + OWN_BIAS]
    h = run.candidates[c + OWN_P] * last_fade
    v = run.candidates[c + OWN_W] + bias * last_spike - h
    time = crossing_time(run.candidates[c + OWN_THRESHOLD] - v, bias, h, run.places[q, END] - last_spike)
    run.candidates[c + CROSSING] = last_spike + time if time >= 0.0 else math.inf
    run.candidates[c + IS_EXACT] = 1.0


@inlined
def _is_contested(q, limit, limit_bits, run):
    """Whether anybody but the first candidate of position q could fire until the limit."""
    if _count_until(limit_bits, 0, run.block_bits.shape[0], run.block_bits) > 1:
        return True
    first = q // run.block_size * run.block_size
    if _count_until(limit_bits, first, min(first + run.block_size, run.n_positions), run.time_bits) > 1:
        return True
    count = 0
    for k in range(run.place_counts[q, N_CANDIDATES]):
        count += 1 if run.candidates[_candidate(k, q, run.n_positions) + CROSSING] <= limit else 0
    return count > 1


@uncounted
def _settle_close_ones(now, limit, last_spike, last_fade, run):
    """Settle all that could fire until the limit, and return how many are first together, and when."""
    first = math.inf
    for q in range(run.n_positions):
        if run.times[q] > limit:
            continue
        if run.places[q, END] <= limit:
            # Beyond the end somebody might cross at the same time.
            _open_window_apart(q, now, math.exp(-now), run)
        for k in range(run.place_counts[q, N_CANDIDATES]):
            c = _candidate(k, q, run.n_positions)
            if run.candidates[c + CROSSING] <= limit:
                _settle(c, q, last_spike, last_fade, run)
                first = min(first, run.candidates[c + CROSSING])
        _earliest_of_position(q, run)
    for block in range(run.block_bits.shape[0]):
        _earliest_of_block(block, run)
    n_tied = 0
    if first > limit:
        return n_tied, first
    for q in range(run.n_positions):
        if run.times[q] != first:
            continue
        begin = n_tied
        for k in range(run.place_counts[q, N_CANDIDATES]):
            c = _candidate(k, q, run.n_positions)
            if run.candidates[c + CROSSING] == first:
                # In the order of their channels, as the positions are in theirs.
                neuron = q * run.n_channels + np.int64(run.candidates[c + CHANNEL])
                place = n_tied
                while place > begin and run.tied_neurons[place - 1] > neuron:
                    run.tied_neurons[place] = run.tied_neurons[place - 1]
                    run.tied_candidates[place] = run.tied_candidates[place - 1]
                    place -= 1
                run.tied_neurons[place] = neuron
                run.tied_candidates[place] = c
                n_tied += 1
    return n_tied, first


@inlined
def _open_epoch(run):
    """Refer potentials and currents to the beginning, and let all windows end there.

    The first windows are to last twice as long as nobody could fire without further spikes, so that few
    will be candidates.
    """
    for q in range(run.n_positions):
        for k in range(run.n_channels):
            i = np.uint64(q * run.n_channels + k)
            h = run.p[i]
            gap = run.threshold[i] - run.w[i]
            least = 0.25 * run.threshold[i]
            gap = gap if gap > least else least
            slope = run.bias[i] + (h if h > 0.0 else 0.0)
            run.w[i] += h
            time = gap / slope
            run.row[np.uint64(k)] = time if slope > 0.0 else LONGEST_WINDOW
        earliest = run.row_bits[0]
        for k in range(run.n_channels):
            bits = run.row_bits[np.uint64(k)]
            earliest = bits if bits < earliest else earliest
        run.row_bits[0] = earliest
        run.places[q, LENGTH] = min(max(run.row[0], SHORTEST_WINDOW), 0.5 * LONGEST_WINDOW)
        run.places[q, END] = 0.0
        run.times[q] = 0.0
        for count in range(POSITION_COUNTS):
            run.place_counts[q, count] = 0


@inlined
def _close_epoch(length, run):
    """Bring potentials and currents to the end of the epoch."""
    fade = math.exp(-length)
    for q in range(run.n_positions):
        _bring_up_to_date(q, run)
        for k in range(run.n_channels):
            i = np.uint64(q * run.n_channels + k)
            h = run.p[i] * fade
            run.w[i] += run.bias[i] * length - h
            run.p[i] = h


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
    for other_row in range(max(0, row - reach_rows), min(n_rows, row + reach_rows + 1)):
        # Which of the rows of values: those of a channel, by row and column offset.
        line = (channel * stencil_rows + other_row - row + reach_rows) * stencil_columns
        line += first_column - column + reach_columns
        first = other_row * run.n_columns + first_column
        last = other_row * run.n_columns + last_column
        for q in range(first, last):
            if run.place_counts[q, N_WAITING] == MOST_WAITING:
                _open_window_apart(q, now, fade, run)
            m = q * MOST_WAITING + run.place_counts[q, N_WAITING]
            run.waiting_offsets[m] = line * run.n_channels
            run.waiting_growths[m] = growth
            run.place_counts[q, N_WAITING] += 1
            run.place_counts[q, N_TOUCHED] += 1
            run.place_counts[q, N_REACHED] += run.place_counts[q, N_CANDIDATES]
            _touch_candidates(q, neuron, growth, now, fade, line * run.n_channels, run)
            if run.weight_ratio > WILD:
                run.places[q, END] = now
            else:
                factor = np.float32((1.0 - growth * run.places[q, END_FADE]) * run.weight_ratio)
                if _add_to_excess(
                    q * run.n_padded, run.n_padded, run.single_values, line * run.n_padded, factor,
                    run.excess, run.excess_signs,
                ):  # fmt: skip
                    _form_candidates(q, now, fade, run)
            _earliest_of_position(q, run)
            line += 1
        for block in range(first // run.block_size, (last - 1) // run.block_size + 1):
            _earliest_of_block(block, run)


@inlined
def _adapt_window(q, run):
    """Let the next window of a position last twice as long, or half, to have few candidates, but some."""
    n_touched, n_reached = run.place_counts[q, N_TOUCHED], run.place_counts[q, N_REACHED]
    length = run.places[q, LENGTH]
    if n_reached > MANY_CANDIDATES * (n_touched + 1):
        run.places[q, LENGTH] = max(0.5 * length, SHORTEST_WINDOW)
    elif n_reached < FEW_CANDIDATES * (n_touched + 1):
        run.places[q, LENGTH] = min(2.0 * length, LONGEST_WINDOW)


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
        _open_epoch(run)
        for block in range(run.block_bits.shape[0]):
            run.block_bits[block] = 0

        n_before = n_events
        while n_events - n_before < most_events:
            q = _earliest(run)
            now = run.times[q]
            if now > end:
                break
            if run.places[q, END] <= now:
                _adapt_window(q, run)
                _open_window(q, now, math.exp(-now), run)
                _earliest_of_block(q // run.block_size, run)
                continue
            k = 0
            while run.candidates[_candidate(k, q, run.n_positions) + CROSSING] != now:
                k += 1
            c = _candidate(k, q, run.n_positions)
            if run.candidates[c + IS_EXACT] == 0.0:
                _settle(c, q, last_spike, last_fade, run)
                _earliest_of_position(q, run)
                _earliest_of_block(q // run.block_size, run)
                continue

            n_tied = 1
            run.tied_neurons[0] = q * run.n_channels + np.int64(run.candidates[c + CHANNEL])
            run.tied_candidates[0] = c
            run.limit[0] = now + CLOSE
            if _is_contested(q, run.limit[0], run.limit_bits[0], run):
                n_tied, now = _settle_close_ones(now, run.limit[0], last_spike, last_fade, run)
                if n_tied == 0:
                    continue
                if now > end:
                    break

            last_spike = now
            growth = math.exp(now)
            last_fade = 1.0 / growth
            for t in range(n_tied):
                neuron = run.tied_neurons[t]
                run.candidates[run.tied_candidates[t] + OWN_W] -= run.threshold[neuron]
                spike_counts[neuron] += 1
                if record:
                    spike_times[n_events] = clock[TIME] + (now + clock[TIME_ERROR])
                    spike_neurons[n_events] = neuron
                n_events += 1
            for t in range(n_tied):
                _deliver(run.tied_neurons[t], now, growth, last_fade, reach_rows, reach_columns, run)

        # At its end, or at its last spike when it is crowded.
        length = last_spike if n_events - n_before >= most_events else end
        _close_epoch(length, run)
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
    excess = np.full(n_positions * n_padded, FOUND, dtype=np.float32)
    times = np.empty(n_positions)
    block_size = max(8, math.ceil(math.sqrt(n_positions)))
    # Room for every neuron, most of which is never touched: the k-th groups of all positions together.
    candidates = np.empty((n_channels + LANES - 1) // LANES * n_positions * GROUP)
    mask = np.zeros(n_padded, dtype=np.bool_)
    places = np.empty((n_positions, POSITION_FIELDS))
    place_counts = np.empty((n_positions, POSITION_COUNTS), dtype=np.int64)
    block_bits = np.empty((n_positions + block_size - 1) // block_size, dtype=np.int64)
    waiting_offsets = np.empty(n_positions * MOST_WAITING, dtype=np.int64)
    waiting_growths = np.empty(n_positions * MOST_WAITING)
    tied_neurons = np.empty(n_neurons, dtype=np.int64)
    tied_candidates = np.empty(n_neurons, dtype=np.int64)
    limit = np.empty(1)
    row = np.empty(n_channels)
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        run = _Run(
            values, single_values, per_threshold, weight_ratio, n_columns, n_channels, n_positions, n_padded,
            bias[k], threshold, potential[k], current[k], excess, excess.view(np.int64), places, place_counts,
            times, times.view(np.int64), block_bits, block_size, waiting_offsets, waiting_growths, candidates,
            candidates.view(np.int64), mask, mask.view(np.int64), tied_neurons, tied_candidates, limit,
            limit.view(np.int64), row, row.view(np.int64),
        )  # fmt: skip
        status, n_new = _advance_stencil(
            run, reach_rows, reach_columns, most_events, spike_counts[k], clock[k], stop_time,
            max_events - n_events, record, spike_times[n_events:], spike_neurons[n_events:],
        )  # fmt: skip
        n_events += n_new
        if status == PAUSED:
            return PAUSED, position, n_events
    return REACHED, active.shape[0], n_events

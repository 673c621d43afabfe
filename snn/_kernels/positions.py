"""Positions of a grid of neurons: their windows of time, their candidates, and the spikes that wait.

See `stencil` for what they are.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inlined, uncounted
from snn._kernels.crossing import SEARCH_SLACK, crossing_time

LONGEST_WINDOW = 16.0
SHORTEST_WINDOW = 1e-9
# Candidates touched by a spike, for each position it reaches: windows are made to have that many.
FEW_CANDIDATES, MANY_CANDIDATES = 3, 7
MOST_WAITING = 16
"""Spikes in the list of a position."""

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


def padded(n_channels):
    """Return the places of a position's excesses: two signs are looked at together, sixteen numbers added."""
    return (n_channels + 15) // 16 * 16


class Run(NamedTuple):
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
def add_to_excess(first, n_targets, values, offset, factor, excess, excess_signs):
    """Add a spike to the bounds of a position; return whether one is negative no more."""
    for k in range(n_targets):
        # Unsigned, an index cannot wrap round, which would keep the loop from the vector unit.
        i = np.uint64(first + k)
        excess[i] += factor * values[np.uint64(offset + k)]
    return is_one_not_negative(first, n_targets, excess_signs)


@inlined
def is_one_not_negative(first, n_targets, excess_signs):
    signs = BOTH_NEGATIVE
    for k in range(first // 2, (first + n_targets) // 2):
        signs &= excess_signs[np.uint64(k)]
    return signs != BOTH_NEGATIVE


@inlined
def bound(w, p, bias, inverse_bias, threshold, now, fade):
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
def candidate(k, q, n_positions):
    """Return where the k-th candidate of a position stands."""
    return GROUP * (k // LANES * n_positions + q) + k % LANES


@inlined
def earliest_of_position(q, run):
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
def earliest_of_block(block, run):
    """Note the earliest time of a block of positions."""
    first = block * run.block_size
    last = min(first + run.block_size, run.time_bits.shape[0])
    earliest = run.time_bits[first]
    for q in range(first, last):
        bits = run.time_bits[np.uint64(q)]
        earliest = bits if bits < earliest else earliest
    run.block_bits[block] = earliest


@inlined
def earliest(run):
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
def count_until(limit_bits, first, last, bits):
    """Return how many of some times are at most the limit."""
    count = 0
    for k in range(first, last):
        count += 1 if bits[np.uint64(k)] <= limit_bits else 0
    return count


@inlined
def form_candidates(q, now, fade, run):
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
            run.candidates[c + CROSSING] = bound(
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
def touch_candidates(q, own, growth, now, fade, offset, run):
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
            crossing = bound(own_w, own_p, bias, inverse_bias, threshold, now, fade)
            previous = run.candidates[np.uint64(c + CROSSING)]
            was_exact = run.candidates[np.uint64(c + IS_EXACT)]
            is_spared = (weight == 0.0) & (run.candidates[np.uint64(c + CHANNEL)] != own_channel)
            run.candidates[np.uint64(c + OWN_W)] = own_w
            run.candidates[np.uint64(c + OWN_P)] = own_p
            run.candidates[np.uint64(c + CROSSING)] = previous if is_spared else crossing
            run.candidates[np.uint64(c + IS_EXACT)] = was_exact if is_spared else 0.0
        group += GROUP * run.n_positions


@inlined
def bring_up_to_date(q, run):
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
        c = candidate(k, q, run.n_positions)
        i = first + np.int64(run.candidates[c + CHANNEL])
        run.w[i] = run.candidates[c + OWN_W]
        run.p[i] = run.candidates[c + OWN_P]
    run.place_counts[q, N_CANDIDATES] = 0


@inlined
def open_window(q, now, fade, run):
    """End the window of a position, and begin another."""
    bring_up_to_date(q, run)
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
    if is_one_not_negative(q * run.n_padded, run.n_padded, run.excess_signs):
        form_candidates(q, now, fade, run)
    earliest_of_position(q, run)


@uncounted
def open_window_apart(q, now, fade, run):
    """As `open_window`, for the rare cases: it is long."""
    open_window(q, now, fade, run)


@inlined
def settle(c, q, last_spike, last_fade, run):
    """Note the time at which candidate c of position q crosses, inf if after its window."""
    bias = run.candidates[c + OWN_BIAS]
    h = run.candidates[c + OWN_P] * last_fade
    v = run.candidates[c + OWN_W] + bias * last_spike - h
    time = crossing_time(run.candidates[c + OWN_THRESHOLD] - v, bias, h, run.places[q, END] - last_spike)
    run.candidates[c + CROSSING] = last_spike + time if time >= 0.0 else math.inf
    run.candidates[c + IS_EXACT] = 1.0


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
        count += 1 if run.candidates[candidate(k, q, run.n_positions) + CROSSING] <= limit else 0
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
            c = candidate(k, q, run.n_positions)
            if run.candidates[c + CROSSING] <= limit:
                settle(c, q, last_spike, last_fade, run)
                first = min(first, run.candidates[c + CROSSING])
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
            c = candidate(k, q, run.n_positions)
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
def open_epoch(run):
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

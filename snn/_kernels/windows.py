"""Windows of time, in single precision: who could fire in one, and when at the earliest.

See `stencil` for the bounds.  They are proofs: what rounding may have lost is added to how near a neuron
seems to its threshold, and what is not a number counts as there.

A sum of n terms of at most R each that comes to w has lost at most n 2^-24 (|w| + 2 n R): no partial sum
exceeds |w| and all terms.  `LOST` and `LOST_PART` of a position are twice that and more, for w, where terms
are weights and thresholds, and for h, whose terms fade, but which is rounded once more at each window.
"""

import math

import numpy as np

from snn._kernels.compiling import inlined, uncounted
from snn._kernels.positions import (
    BOTH_NEGATIVE,
    CHANNEL,
    DISTANCE,
    END,
    END_FADE,
    FEW_CANDIDATES,
    GROUP,
    IS_EXACT,
    IS_NEW,
    LANES,
    LENGTH,
    LONGEST_WINDOW,
    LOST,
    LOST_PART,
    MANY_CANDIDATES,
    MOST_LOGGED,
    MOST_WAITING,
    N_CANDIDATES,
    N_LOGGED,
    N_REACHED,
    N_SEEN,
    N_TOUCHED,
    N_WINDOWS,
    NEVER,
    OWN_BIAS,
    OWN_H,
    OWN_W,
    RECENT,
    SHORTEST_WINDOW,
    START_FADE,
    START_GROWTH,
    WEIGHT,
    crossing_of,
    earliest_of_position,
    lane_of,
)

ROUNDING = 2.0**-24
"""Of a number in single precision, relative."""
# A sum of an excess and up to MOST_WAITING weights, of at most `weight_ratio` each, loses less than
# (2 MOST_WAITING) 2^-24 of all its terms: it starts higher by more than that.
LOST_OF_EXCESS = np.float32(2.0**-18)
LOST_OF_WEIGHTS = 2.0**-14
SHORTER = 1.0 - 2.0**-18
"""Distances in time are sums and quotients of positive numbers, of which a few roundings are lost."""
WILD = 1e15
"""Ratios of weights to thresholds beyond which sums of them might overflow: windows then end at once."""
FEW_ROUNDINGS = np.float32(2.0**-20)
SMALLEST_SQUARE = np.float32(1e-35)
"""Added to sums of squares, which might be lost if they are smaller."""
ZERO, HALF, ONE, TWO, INFINITE = (np.float32(value) for value in (0.0, 0.5, 1.0, 2.0, math.inf))


@inlined
def load_singles(q, now, fade, run):
    """Take potentials and currents of a position over into single precision; a window begins now."""
    per_threshold = run.per_threshold
    for k in range(run.n_channels):
        i = np.uint64(q * run.n_channels + k)
        s = np.uint64(q * run.n_padded + k)
        w = np.float32((run.w[i] - run.threshold[i]) * per_threshold)
        run.single_w[s] = w if w > NEVER else NEVER
        run.single_h[s] = np.float32(run.p[i] * fade * per_threshold)
        run.single_bias[s] = np.float32(run.bias[i] * per_threshold)
    run.places[q, START_FADE] = fade
    run.places[q, START_GROWTH] = 1.0 / fade
    run.places[q, RECENT] = 0.0
    for count in (N_CANDIDATES, N_LOGGED, N_SEEN, N_TOUCHED, N_REACHED, N_WINDOWS):
        run.place_counts[q, count] = 0


@uncounted
def open_window_wildly(q, now, run):
    """Make candidates of all neurons of a position, each to be looked at now."""
    run.places[q, END] = now + run.places[q, LENGTH]
    run.place_counts[q, N_SEEN] = run.place_counts[q, N_LOGGED]
    run.place_counts[q, N_CANDIDATES] = run.n_channels
    run.place_counts[q, N_TOUCHED] = 0
    run.place_counts[q, N_REACHED] = 0
    for k in range((run.n_channels + LANES - 1) // LANES * LANES):
        crossing = crossing_of(k, q, run.n_positions)
        run.crossings[crossing] = now if k < run.n_channels else math.inf
        run.lanes[lane_of(crossing) + CHANNEL] = np.float32(k)
        run.lanes[lane_of(crossing) + IS_EXACT] = ZERO
    earliest_of_position(q, run)


@inlined
def open_window(q, now, fade, run):
    """End the window of a position, and begin another."""
    if run.weight_ratio > WILD:
        open_window_wildly(q, now, run)
        return
    end = now + run.places[q, LENGTH]
    end_fade = math.exp(-end)
    growth = 1.0 / fade
    n_logged = run.place_counts[q, N_LOGGED]
    m = run.place_counts[q, N_SEEN]
    old_fade = fade * run.places[q, START_GROWTH]
    run.places[q, END] = end
    run.places[q, END_FADE] = end_fade
    run.places[q, START_FADE] = fade
    run.places[q, START_GROWTH] = growth
    n_new = n_logged - m
    n_windows = run.place_counts[q, N_WINDOWS] + 1
    # Spikes weighted as their currents are left, an upper bound of each one's share.
    recent = run.places[q, RECENT] * old_fade + n_new
    n_sums = n_logged + MOST_WAITING + 8
    lost = n_sums * n_sums + (n_sums + 2 * n_windows) * (recent + MOST_WAITING)
    run.places[q, RECENT] = recent
    run.places[q, LOST] = 2.0 * ROUNDING * max(run.weight_ratio, 1.0) * lost
    run.places[q, LOST_PART] = 2.0 * ROUNDING * (n_sums + 2 * n_windows)
    first = q * run.n_padded
    run.place_counts[q, N_SEEN] = n_logged
    run.place_counts[q, N_CANDIDATES] = 0
    run.place_counts[q, N_TOUCHED] = 0
    run.place_counts[q, N_REACHED] = 0
    run.place_counts[q, N_WINDOWS] = n_windows

    single_old_fade = np.float32(old_fade)
    ratio = np.float32(run.weight_ratio)
    zeros = run.values.shape[0] // run.n_channels * run.n_padded
    t = q * MOST_LOGGED + m
    stop = q * MOST_LOGGED + n_logged
    while stop - t > 4:
        offset_0, offset_1 = run.logged_lines[t] * run.n_padded, run.logged_lines[t + 1] * run.n_padded
        offset_2, offset_3 = run.logged_lines[t + 2] * run.n_padded, run.logged_lines[t + 3] * run.n_padded
        scale = run.weight_ratio * fade
        part_0 = np.float32(scale * run.logged_growths[t])
        part_1 = np.float32(scale * run.logged_growths[t + 1])
        part_2 = np.float32(scale * run.logged_growths[t + 2])
        part_3 = np.float32(scale * run.logged_growths[t + 3])
        for k in range(run.n_padded):
            s = np.uint64(first + k)
            weight_0 = run.single_values[np.uint64(offset_0 + k)]
            weight_1 = run.single_values[np.uint64(offset_1 + k)]
            weight_2 = run.single_values[np.uint64(offset_2 + k)]
            weight_3 = run.single_values[np.uint64(offset_3 + k)]
            run.single_w[s] += ratio * ((weight_0 + weight_1) + (weight_2 + weight_3))
            arrived = (part_0 * weight_0 + part_1 * weight_1) + (part_2 * weight_2 + part_3 * weight_3)
            run.single_h[s] = run.single_h[s] * single_old_fade + arrived
        single_old_fade = ONE
        t += 4

    offset_0 = offset_1 = offset_2 = offset_3 = zeros
    part_0 = part_1 = part_2 = part_3 = ZERO
    scale = run.weight_ratio * fade
    if t < stop:
        offset_0 = run.logged_lines[t] * run.n_padded
        part_0 = np.float32(scale * run.logged_growths[t])
    if t + 1 < stop:
        offset_1 = run.logged_lines[t + 1] * run.n_padded
        part_1 = np.float32(scale * run.logged_growths[t + 1])
    if t + 2 < stop:
        offset_2 = run.logged_lines[t + 2] * run.n_padded
        part_2 = np.float32(scale * run.logged_growths[t + 2])
    if t + 3 < stop:
        offset_3 = run.logged_lines[t + 3] * run.n_padded
        part_3 = np.float32(scale * run.logged_growths[t + 3])
    # What the weights that come may lose, besides what is lost already.
    lost = np.float32(run.places[q, LOST] + LOST_OF_WEIGHTS * run.weight_ratio)
    lost_part = np.float32(run.places[q, LOST_PART])
    single_now, single_end = np.float32(now), np.float32(end)
    rest = np.float32(end_fade * growth)
    for k in range(run.n_padded):
        s = np.uint64(first + k)
        weight_0 = run.single_values[np.uint64(offset_0 + k)]
        weight_1 = run.single_values[np.uint64(offset_1 + k)]
        weight_2 = run.single_values[np.uint64(offset_2 + k)]
        weight_3 = run.single_values[np.uint64(offset_3 + k)]
        arrived = (part_0 * weight_0 + part_1 * weight_1) + (part_2 * weight_2 + part_3 * weight_3)
        w = run.single_w[s] + ratio * ((weight_0 + weight_1) + (weight_2 + weight_3))
        h = run.single_h[s] * single_old_fade + arrived
        c = run.single_bias[s]
        run.single_w[s] = w
        run.single_h[s] = h
        by_end = c * single_end
        by_now = c * single_now
        nearer = lost + lost_part * (abs(w) + abs(by_end) + abs(h))
        over = w + (by_end if c > ZERO else by_now) - h * rest + nearer
        over += LOST_OF_EXCESS * abs(over)
        # Who stands at the threshold fires at once, even where inhibition is about to take him away.
        above = w + by_now - h + nearer
        stays_below = (over < ZERO) & (above < ZERO)
        over = over if over > NEVER else NEVER
        run.excess[s] = over if stays_below else ONE
    if is_one_not_negative(first, run.n_padded, run.excess_signs):
        form_candidates(q, now, fade, run)
    earliest_of_position(q, run)


@uncounted
def open_window_apart(q, now, fade, run):
    """As `open_window`, for the rare cases: it is long."""
    open_window(q, now, fade, run)


@inlined
def adapt_window(q, run):
    """Let the next window of a position last twice as long, or half, to have few candidates, but some."""
    n_touched, n_reached = run.place_counts[q, N_TOUCHED], run.place_counts[q, N_REACHED]
    length = run.places[q, LENGTH]
    if n_reached > MANY_CANDIDATES * (n_touched + 1):
        run.places[q, LENGTH] = max(0.5 * length, SHORTEST_WINDOW)
    elif n_reached < FEW_CANDIDATES * (n_touched + 1):
        run.places[q, LENGTH] = min(2.0 * length, LONGEST_WINDOW)


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
def distances(group, now, remaining, fade, lost, lost_part, run):
    """Note how long at least each of eight candidates does not cross, if it does before the window ends.

    The root of an equation of second degree; see `stencil`.
    """
    flattest = np.float32(min(0.5 + remaining * (1.0 / 12.0), 1.0) * (1.0 + 2.0**-20))
    single_now = np.float32(now)
    for c in range(group, group + LANES):
        w = run.lanes[np.uint64(c + OWN_W)]
        h = run.lanes[np.uint64(c + OWN_H)] * fade
        bias = run.lanes[np.uint64(c + OWN_BIAS)]
        moved = bias * single_now
        gap = -(w + moved - h) - (lost + lost_part * (abs(w) + abs(moved) + abs(h)))
        bend = flattest if h <= ZERO else HALF
        by_gap = bend * gap
        slope = bias + h - by_gap
        slope += lost_part * (abs(bias) + abs(h) + by_gap)
        square = slope * slope
        product = np.float32(4.0) * bias * by_gap
        discriminant = square + product + (FEW_ROUNDINGS * (square + abs(product)) + SMALLEST_SQUARE)
        root = np.float32(math.sqrt(discriminant if discriminant > ZERO else ZERO))
        rises = slope > ZERO
        # One division for both cases, and no branch.
        numerator = TWO * gap if rises else root - slope
        denominator = slope + root if rises else TWO * bend * bias
        quotient = numerator / denominator
        distance = quotient if (bias > ZERO) | (rises & (discriminant >= ZERO)) else INFINITE
        # Beyond the range of numbers, where nothing can be proven but that nobody rises, it is now.
        in_range = (discriminant < INFINITE) | ((bias <= ZERO) & (slope <= ZERO))
        is_proven = in_range & (gap > ZERO) & (distance >= ZERO)
        run.lanes[np.uint64(c + DISTANCE)] = distance if is_proven else ZERO


@inlined
def form_candidates(q, now, fade, run):
    """Make candidates of the neurons of a position whose excess is not negative."""
    first = q * run.n_padded
    for k in range(run.n_padded):
        run.mask[np.uint64(k)] = not (run.excess[np.uint64(first + k)] < ZERO)
    n_before = run.place_counts[q, N_CANDIDATES]
    n_candidates = n_before
    ratio = np.float32(run.weight_ratio)
    scale = run.weight_ratio * run.places[q, START_FADE]
    for word in range(run.mask_words.shape[0]):
        if run.mask_words[word] == 0:
            continue
        for k in range(8 * word, 8 * word + 8):
            if not run.mask[k]:
                continue
            own_w = run.single_w[first + k]
            own_h = run.single_h[first + k]
            for m in range(
                q * MOST_LOGGED + run.place_counts[q, N_SEEN], q * MOST_LOGGED + run.place_counts[q, N_LOGGED]
            ):
                weight = run.single_values[run.logged_lines[m] * run.n_padded + k]
                own_w += ratio * weight
                own_h += np.float32(scale * run.logged_growths[m]) * weight
            run.excess[first + k] = NEVER
            crossing = crossing_of(n_candidates, q, run.n_positions)
            c = lane_of(crossing)
            if n_candidates % LANES == 0:
                for other in range(LANES):
                    run.crossings[np.uint64(crossing + other)] = math.inf
                    run.lanes[np.uint64(c + OWN_W + other)] = NEVER
                    run.lanes[np.uint64(c + OWN_H + other)] = ZERO
                    run.lanes[np.uint64(c + OWN_BIAS + other)] = ZERO
                    run.lanes[np.uint64(c + CHANNEL + other)] = ZERO
                    run.lanes[np.uint64(c + IS_EXACT + other)] = ZERO
            run.lanes[c + OWN_W] = own_w
            run.lanes[c + OWN_H] = own_h
            run.lanes[c + OWN_BIAS] = run.single_bias[first + k]
            run.lanes[c + CHANNEL] = np.float32(k)
            run.lanes[c + IS_EXACT] = IS_NEW
            n_candidates += 1
    run.place_counts[q, N_CANDIDATES] = n_candidates

    remaining = run.places[q, END] - now
    single_fade = np.float32(fade * run.places[q, START_GROWTH])
    lost, lost_part = np.float32(run.places[q, LOST]), np.float32(run.places[q, LOST_PART])
    for k in range(n_before // LANES * LANES, n_candidates, LANES):
        first_crossing = crossing_of(k, q, run.n_positions)
        group = lane_of(first_crossing)
        distances(group, now, remaining, single_fade, lost, lost_part, run)
        for lane in range(LANES):
            crossing = np.uint64(first_crossing + lane)
            time = now + SHORTER * run.lanes[np.uint64(group + DISTANCE + lane)]
            is_new = run.lanes[np.uint64(group + IS_EXACT + lane)] == IS_NEW
            run.crossings[crossing] = time if is_new else run.crossings[crossing]
        for lane in range(LANES):
            c = np.uint64(group + IS_EXACT + lane)
            run.lanes[c] = run.lanes[c] if run.lanes[c] > ZERO else ZERO


@inlined
def weigh_for_candidates(q, offset, run):
    """Note what a spike weighs for the candidates of a position, in units of the largest weight.

    In units of the largest threshold it might be lost, and its target be spared.
    """
    group = GROUP * q
    for _ in range(0, run.place_counts[q, N_CANDIDATES], LANES):
        for c in range(group, group + LANES):
            channel = np.int64(run.lanes[np.uint64(c + CHANNEL)])
            run.lanes[np.uint64(c + WEIGHT)] = run.single_values[np.uint64(offset + channel)]
        group += GROUP * run.n_positions


@inlined
def touch_candidates(q, own_channel, growth, now, fade, run):
    """Deliver a spike to the candidates of a position; `own_channel` is the source's, if it is among them."""
    own = np.float32(own_channel)
    ratio = np.float32(run.weight_ratio)
    part = np.float32(growth * run.places[q, START_FADE])
    remaining = run.places[q, END] - now
    single_fade = np.float32(fade * run.places[q, START_GROWTH])
    lost, lost_part = np.float32(run.places[q, LOST]), np.float32(run.places[q, LOST_PART])
    first_crossing = LANES * q
    group = GROUP * q
    for _ in range(0, run.place_counts[q, N_CANDIDATES], LANES):
        for c in range(group, group + LANES):
            weight = ratio * run.lanes[np.uint64(c + WEIGHT)]
            run.lanes[np.uint64(c + OWN_W)] += weight
            run.lanes[np.uint64(c + OWN_H)] += part * weight
        distances(group, now, remaining, single_fade, lost, lost_part, run)
        for lane in range(LANES):
            c = group + lane
            crossing = np.uint64(first_crossing + lane)
            is_spared = (run.lanes[np.uint64(c + WEIGHT)] == ZERO) & (
                run.lanes[np.uint64(c + CHANNEL)] != own
            )
            time = now + SHORTER * run.lanes[np.uint64(c + DISTANCE)]
            run.crossings[crossing] = run.crossings[crossing] if is_spared else time
            was_exact = run.lanes[np.uint64(c + IS_EXACT)]
            run.lanes[np.uint64(c + IS_EXACT)] = was_exact if is_spared else ZERO
        first_crossing += LANES * run.n_positions
        group += GROUP * run.n_positions

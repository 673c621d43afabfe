"""The compiled part of the event-driven simulator.

A kernel takes contiguous arrays that the caller allocated and filled, and returns integers.
It checks nothing, raises nothing and draws no random numbers; `inf` means "never fires".

All of them rest on one closed form.  A neuron with soma bias c and synaptic current h, seen a
time t after the last event, with no further spike arriving, has (theory.md, equations 1-3)

    mu(t) = c + h e^-t        v(t) = v + c t + h (1 - e^-t).

They stay in one file because Numba's disk cache does not notice a change made in another file.
"""

import math

import numpy as np
from numba import njit

PAUSED = 0
"""The event budget is spent; call again with the same arrays."""
REACHED = 1
"""Every network asked for stands at the stop time."""

# Columns of the `clock` array, one row a network.  Time is a sum of millions of small intervals,
# so its rounding error is carried along (two-sum); the horizon is how far the search for the next
# spike looks at first, kept so that pausing changes no bit of the result.
TIME, TIME_ERROR, HORIZON = 0, 1, 2
CLOCK_COLUMNS = 3

SHORTEST_HORIZON = 1e-290
"""Horizons are doubled and halved, and must never be zero."""

LEAST_EVENTS_PER_SEGMENT_WINDOW = 8
"""Spikes wanted in a window of the segment kernel: more candidates against fewer openings."""

MOST_EVENTS_PER_WINDOW = 512
"""Spikes in one window of the sparse kernel, apart from those that share the time of the last."""

SEARCH_SLACK = 1e-9
"""Share of the numbers it is made of by which a bound may look too low and still be examined exactly."""


@njit(cache=True, nogil=True, error_model="numpy")
def crossing_time(gap, bias, current, horizon):
    """Return the first t >= 0 with bias t + current (1 - e^-t) = gap; inf if past the horizon.

    With current < 0 the left side is convex: a crossing exists iff bias > 0, and Newton from the
    right is monotone.  With current > 0 it is concave: the first crossing is the one below the
    maximum, and Newton from the left is monotone.  Newton stops when the step after the next, a
    square of the last one, is below rounding.  Near crossings, where the slope cannot fall to less than
    half, take Chebyshev's steps, whose error is a cube, from either side: mostly one.
    """
    if gap <= 0.0:
        return 0.0
    if current == 0.0:
        if bias <= 0.0:
            return math.inf
        time = gap / bias
        return time if time <= horizon else math.inf
    slope = bias + current
    if slope > 0.0:
        # Most crossings are near: start from the root of the parabola slope t - current t^2 / 2.
        linear_time = gap / slope
        bend = current / slope
        square = 1.0 - 2.0 * bend * linear_time
        if square >= 0.25:
            time = 2.0 * linear_time / (1.0 + math.sqrt(square))
            if time <= 0.5 and abs(bend) * time <= 1.0:
                for _ in range(100):
                    decay_minus_one = math.expm1(-time)
                    curvature = current * (1.0 + decay_minus_one)
                    slope = bias + curvature
                    step = (gap - bias * time + current * decay_minus_one) / slope
                    bend = curvature / slope
                    time += step * (1.0 + 0.5 * bend * step)
                    if abs(bend * (1.0 + abs(bend)) * step * step * step) <= 1e-16 * time:
                        break
                return time if time <= horizon else math.inf
    if current < 0.0:
        if bias <= 0.0:
            return math.inf
        time = (gap - current) / bias  # right of the root, since e^-t >= 0
        if bias + current > 0.0:
            time = min(time, gap / (bias + current))  # the tangent at 0 lies below
        if horizon < time:
            time = horizon
        for iteration in range(100):
            decay_minus_one = math.expm1(-time)
            curvature = current * (1.0 + decay_minus_one)
            slope = bias + curvature
            excess = bias * time - current * decay_minus_one - gap
            if excess <= 0.0:
                return math.inf if iteration == 0 and excess < 0.0 and time == horizon else time
            step = excess / slope
            time -= step
            if -curvature * step * step <= 1e-16 * time * slope:
                break
        return time
    if bias + current <= 0.0:
        return math.inf
    if bias <= 0.0:
        if bias == 0.0:
            # The limit of the maximum below: bias t + current (1 - e^-t) tends to current.
            return -math.log1p(-gap / current) if gap < current else math.inf
        # Past 745 e^-t is zero; the quotient overflows only where the peak lies beyond that.
        peak_time = min(math.log(-current / bias), 800.0)
        if bias * peak_time - current * math.expm1(-peak_time) < gap:
            return math.inf
    time = gap / (bias + current)
    for _ in range(100):
        if time > horizon:
            return math.inf
        decay_minus_one = math.expm1(-time)
        curvature = current * (1.0 + decay_minus_one)
        slope = bias + curvature
        shortfall = gap - bias * time + current * decay_minus_one
        if shortfall <= 0.0 or slope <= 0.0:
            break
        step = shortfall / slope
        time += step
        if curvature * step * step <= 1e-16 * time * slope:
            break
    return time


@njit(cache=True, nogil=True, error_model="numpy")
def _advance_clock(clock, interval):
    """Add `interval` to the compensated time."""
    time = clock[TIME]
    addend = interval + clock[TIME_ERROR]
    total = time + addend
    clock[TIME_ERROR] = addend - (total - time) if time >= addend else time - (total - addend)
    clock[TIME] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _remaining_time(clock, stop_time):
    return (stop_time - clock[TIME]) - clock[TIME_ERROR]


# ---------------------------------------------------------------------------------------------
# Dense weights: a spike touches every neuron, in one fused pass
# ---------------------------------------------------------------------------------------------
#
# The pass brings every potential and current to the time of the spike, adds the weights, and, while
# the numbers are in registers, asks which neurons could fire within the horizon T.  For t <= T
#
#     v + max(max(c, 0) T + h (1 - e^-T), 0)  >=  v(t)
#
# because v(t) is convex for h <= 0 (its maximum over [0, T] is at an end) and every term of the sum
# grows with t for h > 0.  The outer max is for a neuron that stands at its threshold already: it fires,
# even if the net current inhibits it.  No division, no exponential and no root in the pass: the exact
# crossing is computed for the few neurons it names.


@njit(cache=True, nogil=True, error_model="numpy")
def _probe_dense(bias, threshold, potential, current, horizon, may_fire):
    """Mark the neurons that could fire within the horizon."""
    rise = -math.expm1(-horizon)
    for i in range(potential.shape[0]):
        growth = max(bias[i], 0.0) * horizon + current[i] * rise
        may_fire[i] = potential[i] + max(growth, 0.0) >= threshold[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _pass_dense(bias, threshold, potential, current, weights_row, factor, interval, rise, horizon, may_fire):
    """Advance all neurons by `interval`, deliver one spike, and probe the next horizon."""
    decay = 1.0 - rise
    probe_rise = -math.expm1(-horizon)
    for i in range(potential.shape[0]):
        v = potential[i] + bias[i] * interval + current[i] * rise
        h = current[i] * decay + factor * weights_row[i]
        potential[i] = v
        current[i] = h
        growth = max(bias[i], 0.0) * horizon + h * probe_rise
        may_fire[i] = v + max(growth, 0.0) >= threshold[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _coast_dense(bias, potential, current, interval):
    """Advance all neurons by `interval` with no spike."""
    rise = -math.expm1(-interval)
    decay = 1.0 - rise
    for i in range(potential.shape[0]):
        potential[i] += bias[i] * interval + current[i] * rise
        current[i] *= decay


@njit(cache=True, nogil=True, error_model="numpy")
def _could_fire(bias, threshold, potential, current, horizon, rise):
    growth = max(bias, 0.0) * horizon + current * rise
    slack = SEARCH_SLACK * (threshold + abs(potential) + abs(current) * rise)
    return potential + max(growth, 0.0) >= threshold - slack


@njit(cache=True, nogil=True, error_model="numpy")
def _first_crossing_dense(bias, threshold, potential, current, horizon, may_fire, tied):
    """Return (interval, n_tied) of the first crossing within the horizon; inf when there is none.

    `tied` receives the neurons that cross at exactly that time, in the order of their indices.
    """
    best = math.inf
    n_tied = 0
    reach = horizon
    rise = -math.expm1(-horizon)
    words = may_fire.view(np.uint64)
    for word in range(words.shape[0]):
        if words[word] == 0:
            continue
        for i in range(8 * word, 8 * word + 8):
            if not may_fire[i]:
                continue
            if not _could_fire(bias[i], threshold[i], potential[i], current[i], reach, rise):
                continue
            time = crossing_time(threshold[i] - potential[i], bias[i], current[i], horizon)
            if time > horizon:
                continue
            if time < best:
                best = time
                reach = time
                rise = -math.expm1(-time)
                tied[0] = i
                n_tied = 1
            elif time == best:
                tied[n_tied] = i
                n_tied += 1
    return best, n_tied


@njit(cache=True, nogil=True, error_model="numpy")
def _advance_dense(
    weights, factor, bias, threshold, potential, current, spike_counts, clock, stop_time, max_events,
    may_fire, tied, record, spike_times, spike_neurons,
):  # fmt: skip
    """Advance one network; return (status, number of spikes)."""
    n_events = 0
    probed = False
    while True:
        if n_events >= max_events:
            return PAUSED, n_events
        remaining = _remaining_time(clock, stop_time)
        if remaining <= 0.0:
            return REACHED, n_events
        horizon = min(clock[HORIZON], remaining)
        if not probed:
            _probe_dense(bias, threshold, potential, current, horizon, may_fire)
        interval, n_tied = _first_crossing_dense(bias, threshold, potential, current, horizon, may_fire, tied)
        probed = False
        if n_tied == 0:
            if horizon < remaining:
                clock[HORIZON] = 2.0 * horizon
                continue
            _coast_dense(bias, potential, current, remaining)
            clock[TIME] = stop_time
            clock[TIME_ERROR] = 0.0
            return REACHED, n_events

        _advance_clock(clock, interval)
        # Twice a running mean of the intervals: about two candidates a search, and rarely none.
        clock[HORIZON] += 0.125 * (2.0 * interval - clock[HORIZON])
        for k in range(n_tied):
            neuron = tied[k]
            spike_counts[neuron] += 1
            if record:
                spike_times[n_events] = clock[TIME]
                spike_neurons[n_events] = neuron
            n_events += 1
        if n_tied == 1:
            neuron = tied[0]
            next_horizon = min(clock[HORIZON], _remaining_time(clock, stop_time))
            rise = -math.expm1(-interval)
            own_current = current[neuron] * (1.0 - rise)
            potential[neuron] = -math.inf  # cannot be a hit; its reset follows
            _pass_dense(
                bias, threshold, potential, current, weights[neuron], factor, interval, rise, next_horizon,
                may_fire,
            )  # fmt: skip
            potential[neuron] = 0.0
            current[neuron] = own_current
            rise = -math.expm1(-next_horizon)
            if _could_fire(bias[neuron], threshold[neuron], 0.0, current[neuron], next_horizon, rise):
                may_fire[neuron] = True
            probed = True
        else:
            _coast_dense(bias, potential, current, interval)
            for k in range(n_tied):
                neuron = tied[k]
                potential[neuron] = 0.0
                own_current = current[neuron]
                row = weights[neuron]
                for i in range(row.shape[0]):
                    current[i] += factor * row[i]
                current[neuron] = own_current


@njit(cache=True, nogil=True, error_model="numpy")
def advance_dense(
    weights, factor, bias, threshold, potential, current, spike_counts, clock, active, first, stop_time,
    max_events, record, spike_times, spike_neurons,
):  # fmt: skip
    """Advance the networks active[first:] to `stop_time`, one row of the arrays each.

    The synaptic weights are `factor` times `weights`, whose diagonal is not looked at.

    Returns (status, position in `active` to go on from, number of spikes).  The spike arrays
    must hold max_events + n_neurons entries: neurons that fire together are never split.
    """
    n_neurons = weights.shape[0]
    may_fire = np.zeros((n_neurons + 7) // 8 * 8, dtype=np.bool_)
    tied = np.empty(n_neurons, dtype=np.int64)
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        status, n_new = _advance_dense(
            weights, factor, bias[k], threshold, potential[k], current[k], spike_counts[k], clock[k],
            stop_time, max_events - n_events, may_fire, tied, record, spike_times[n_events:],
            spike_neurons[n_events:],
        )  # fmt: skip
        n_events += n_new
        if status == PAUSED:
            return PAUSED, position, n_events
    return REACHED, active.shape[0], n_events


# ---------------------------------------------------------------------------------------------
# Mirrored pairs: two neurons a pair that see one lateral current with opposite signs
# ---------------------------------------------------------------------------------------------
#
# Of n pairs, neuron i is the positive half of pair i and neuron n + i its negative half.  A spike
# of sign s in pair j adds s L_ji to the lateral current l_i of every other pair, and the constant
# g_j to the current of the other half of its own pair.  The halves' synaptic currents
#
#     h+ = l + e        h- = e - l        (e: the exchange trace)
#
# therefore follow from two numbers a pair, of which a spike changes the second in its own pair
# only: l_j -= s g_j / 2, e_j += g_j / 2.  Rows of `current` hold l, then e.


@njit(cache=True, nogil=True, error_model="numpy")
def _probe_mirrored(bias, threshold, potential, current, horizon, may_fire):
    """Mark the pairs of which a half could fire within the horizon."""
    rise = -math.expm1(-horizon)
    n_pairs = current.shape[0] // 2
    for i in range(n_pairs):
        k = n_pairs + i
        positive_growth = max(bias[i], 0.0) * horizon + (current[k] + current[i]) * rise
        negative_growth = max(bias[k], 0.0) * horizon + (current[k] - current[i]) * rise
        may_fire[i] = (potential[i] + max(positive_growth, 0.0) >= threshold[i]) | (
            potential[k] + max(negative_growth, 0.0) >= threshold[k]
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _pass_mirrored(
    positive_bias, negative_bias, positive_threshold, negative_threshold, positive_potential,
    negative_potential, lateral, exchange, weights_row, factor, interval, rise, horizon, may_fire,
):  # fmt: skip
    """Advance all pairs by `interval`, deliver one spike to the lateral currents, and probe."""
    decay = 1.0 - rise
    probe_rise = -math.expm1(-horizon)
    for i in range(lateral.shape[0]):
        e = exchange[i]
        l = lateral[i]  # noqa: E741 - the symbol of the equation above
        v_positive = positive_potential[i] + positive_bias[i] * interval + (e + l) * rise
        v_negative = negative_potential[i] + negative_bias[i] * interval + (e - l) * rise
        e = e * decay
        l = l * decay + factor * weights_row[i]  # noqa: E741
        positive_potential[i] = v_positive
        negative_potential[i] = v_negative
        exchange[i] = e
        lateral[i] = l
        positive_growth = max(positive_bias[i], 0.0) * horizon + (e + l) * probe_rise
        negative_growth = max(negative_bias[i], 0.0) * horizon + (e - l) * probe_rise
        may_fire[i] = (v_positive + max(positive_growth, 0.0) >= positive_threshold[i]) | (
            v_negative + max(negative_growth, 0.0) >= negative_threshold[i]
        )


@njit(cache=True, nogil=True, error_model="numpy")
def _coast_mirrored(bias, potential, current, interval):
    """Advance all pairs by `interval` with no spike."""
    rise = -math.expm1(-interval)
    decay = 1.0 - rise
    n_pairs = current.shape[0] // 2
    for i in range(n_pairs):
        lateral = current[i]
        exchange = current[n_pairs + i]
        potential[i] += bias[i] * interval + (exchange + lateral) * rise
        potential[n_pairs + i] += bias[n_pairs + i] * interval + (exchange - lateral) * rise
        current[i] = lateral * decay
        current[n_pairs + i] = exchange * decay


@njit(cache=True, nogil=True, error_model="numpy")
def _half_current(current, neuron):
    """Return the synaptic current of one half, e + l or e - l."""
    n_pairs = current.shape[0] // 2
    if neuron < n_pairs:
        return current[n_pairs + neuron] + current[neuron]
    return current[neuron] - current[neuron - n_pairs]


@njit(cache=True, nogil=True, error_model="numpy")
def _first_crossing_mirrored(bias, threshold, potential, current, horizon, may_fire, tied):
    """As `_first_crossing_dense`, over both halves of the marked pairs."""
    best = math.inf
    n_tied = 0
    reach = horizon
    rise = -math.expm1(-horizon)
    n_pairs = current.shape[0] // 2
    words = may_fire.view(np.uint64)
    for word in range(words.shape[0]):
        if words[word] == 0:
            continue
        for pair in range(8 * word, 8 * word + 8):
            if not may_fire[pair]:
                continue
            for i in (pair, n_pairs + pair):
                h = _half_current(current, i)
                if not _could_fire(bias[i], threshold[i], potential[i], h, reach, rise):
                    continue
                time = crossing_time(threshold[i] - potential[i], bias[i], h, horizon)
                if time > horizon:
                    continue
                if time < best:
                    best = time
                    reach = time
                    rise = -math.expm1(-time)
                    tied[0] = i
                    n_tied = 1
                elif time == best:
                    tied[n_tied] = i
                    n_tied += 1
    if n_tied > 1:
        tied[:n_tied].sort()
    return best, n_tied


@njit(cache=True, nogil=True, error_model="numpy")
def _advance_mirrored(
    lateral_weights, factor, exchange_weights, bias, threshold, potential, current, spike_counts, clock,
    stop_time, max_events, may_fire, tied, record, spike_times, spike_neurons,
):  # fmt: skip
    """As `_advance_dense`, for mirrored pairs."""
    n_pairs = lateral_weights.shape[0]
    n_events = 0
    probed = False
    while True:
        if n_events >= max_events:
            return PAUSED, n_events
        remaining = _remaining_time(clock, stop_time)
        if remaining <= 0.0:
            return REACHED, n_events
        horizon = min(clock[HORIZON], remaining)
        if not probed:
            _probe_mirrored(bias, threshold, potential, current, horizon, may_fire)
        interval, n_tied = _first_crossing_mirrored(
            bias, threshold, potential, current, horizon, may_fire, tied
        )
        probed = False
        if n_tied == 0:
            if horizon < remaining:
                clock[HORIZON] = 2.0 * horizon
                continue
            _coast_mirrored(bias, potential, current, remaining)
            clock[TIME] = stop_time
            clock[TIME_ERROR] = 0.0
            return REACHED, n_events

        _advance_clock(clock, interval)
        clock[HORIZON] += 0.125 * (2.0 * interval - clock[HORIZON])
        for k in range(n_tied):
            neuron = tied[k]
            spike_counts[neuron] += 1
            if record:
                spike_times[n_events] = clock[TIME]
                spike_neurons[n_events] = neuron
            n_events += 1
        neuron = tied[0]
        pair = neuron if neuron < n_pairs else neuron - n_pairs
        sign = 1.0 if neuron < n_pairs else -1.0
        next_horizon = min(clock[HORIZON], _remaining_time(clock, stop_time))
        rise = -math.expm1(-interval)
        own_lateral = current[pair] * (1.0 - rise)
        _pass_mirrored(
            bias[:n_pairs], bias[n_pairs:], threshold[:n_pairs], threshold[n_pairs:], potential[:n_pairs],
            potential[n_pairs:], current[:n_pairs], current[n_pairs:], lateral_weights[pair], sign * factor,
            interval, rise, next_horizon, may_fire,
        )  # fmt: skip
        potential[neuron] = 0.0
        current[pair] = own_lateral - 0.5 * sign * exchange_weights[pair]
        current[n_pairs + pair] += 0.5 * exchange_weights[pair]
        may_fire[pair] = True  # its potentials and currents were not final in the pass
        probed = n_tied == 1
        for k in range(1, n_tied):
            neuron = tied[k]
            pair = neuron if neuron < n_pairs else neuron - n_pairs
            sign = 1.0 if neuron < n_pairs else -1.0
            potential[neuron] = 0.0
            own_lateral = current[pair]
            row = lateral_weights[pair]
            for i in range(n_pairs):
                current[i] += sign * factor * row[i]
            current[pair] = own_lateral - 0.5 * sign * exchange_weights[pair]
            current[n_pairs + pair] += 0.5 * exchange_weights[pair]


@njit(cache=True, nogil=True, error_model="numpy")
def advance_mirrored(
    lateral_weights, factor, exchange_weights, bias, threshold, potential, current, spike_counts, clock,
    active, first, stop_time, max_events, record, spike_times, spike_neurons,
):  # fmt: skip
    """As `advance_dense`, for mirrored pairs."""
    n_pairs = lateral_weights.shape[0]
    may_fire = np.zeros((n_pairs + 7) // 8 * 8, dtype=np.bool_)
    tied = np.empty(2 * n_pairs, dtype=np.int64)
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        status, n_new = _advance_mirrored(
            lateral_weights, factor, exchange_weights, bias[k], threshold, potential[k], current[k],
            spike_counts[k], clock[k], stop_time, max_events - n_events, may_fire, tied, record,
            spike_times[n_events:], spike_neurons[n_events:],
        )  # fmt: skip
        n_events += n_new
        if status == PAUSED:
            return PAUSED, position, n_events
    return REACHED, active.shape[0], n_events


# ---------------------------------------------------------------------------------------------
# Sparse weights: a spike touches its targets only
# ---------------------------------------------------------------------------------------------
#
# Time is cut into windows.  With tau the time since the window began,
#
#     v = w + c tau - p e^-tau        h = p e^-tau        (at its start w = v + h, p = h)
#
# so a spike at tau_s adds W_ji to w_i and W_ji e^tau_s to p_i of its targets, and nothing at all to
# anybody else.  The neurons that could fire before the window ends (the bound of the dense kernel)
# are its candidates, each with its exact crossing time; a neuron becomes one when the window begins
# or when a spike touches it.  The end of a window brings all neurons up to date.  Its length adapts,
# so that this share of the work stays a fraction of the spikes'; a window that turns out crowded ends
# at its last spike.  Runs pause between windows only, so that pausing changes no bit of the result.


@njit(cache=True, nogil=True, error_model="numpy")
def _crossing_in_window(i, now, end, bias, threshold, base_potential, base_current):
    """Return the window time at which neuron i crosses its threshold, inf if after the window."""
    current = base_current[i] * math.exp(-now)
    potential = base_potential[i] + bias[i] * now - current
    return now + crossing_time(threshold[i] - potential, bias[i], current, end - now)


@njit(cache=True, nogil=True, error_model="numpy")
def _advance_sparse(
    row_starts, targets, weights, bias, threshold, potential, current, spike_counts, clock, stop_time,
    max_events, events_per_window, candidates, crossing, tied, record, spike_times, spike_neurons,
):  # fmt: skip
    """As `_advance_dense`, for weights in compressed sparse rows; a window counts as an event."""
    n_neurons = threshold.shape[0]
    n_events = 0
    n_windows = 0
    while True:
        if n_events >= max_events or n_windows >= max_events:
            return PAUSED, n_events
        remaining = _remaining_time(clock, stop_time)
        if remaining <= 0.0:
            return REACHED, n_events
        n_windows += 1
        end = min(clock[HORIZON], remaining)
        rise = -math.expm1(-end)
        decay = math.exp(-end)

        # Open the window: potential becomes w, current stays p (tau = 0).
        n_candidates = 0
        for i in range(n_neurons):
            v = potential[i]
            h = current[i]
            potential[i] = v + h
            crossing[i] = math.nan  # not a candidate
            if v + max(max(bias[i], 0.0) * end + h * rise, 0.0) >= threshold[i]:
                crossing[i] = crossing_time(threshold[i] - v, bias[i], h, end)
                candidates[n_candidates] = i
                n_candidates += 1

        most_events = n_events + 2 * events_per_window
        n_before = n_events
        last_spike = 0.0
        while n_events < most_events:
            now = math.inf
            n_tied = 0
            for k in range(n_candidates):
                i = candidates[k]
                if crossing[i] < now:
                    now = crossing[i]
                    tied[0] = i
                    n_tied = 1
                elif crossing[i] == now and n_tied > 0:
                    tied[n_tied] = i
                    n_tied += 1
            if n_tied == 0 or now > end:
                break
            if n_tied > 1:
                tied[:n_tied].sort()
            last_spike = now
            growth = math.exp(now)
            for k in range(n_tied):
                neuron = tied[k]
                spike_counts[neuron] += 1
                potential[neuron] -= threshold[neuron]
                if record:
                    spike_times[n_events] = clock[TIME] + (now + clock[TIME_ERROR])
                    spike_neurons[n_events] = neuron
                n_events += 1
            for k in range(n_tied):
                neuron = tied[k]
                for entry in range(row_starts[neuron], row_starts[neuron + 1]):
                    i = targets[entry]
                    w = potential[i] + weights[entry]
                    p = current[i] + weights[entry] * growth
                    potential[i] = w
                    current[i] = p
                    if crossing[i] == crossing[i]:
                        if n_tied == 1:
                            crossing[i] = _crossing_in_window(
                                i, now, end, bias, threshold, potential, current
                            )
                    elif w + max(bias[i] * now, bias[i] * end) - p * decay >= threshold[i]:
                        crossing[i] = _crossing_in_window(i, now, end, bias, threshold, potential, current)
                        candidates[n_candidates] = i
                        n_candidates += 1
            if n_tied == 1:
                crossing[tied[0]] = _crossing_in_window(
                    tied[0], now, end, bias, threshold, potential, current
                )
            else:
                for k in range(n_candidates):
                    i = candidates[k]
                    crossing[i] = _crossing_in_window(i, now, end, bias, threshold, potential, current)

        # Close it: at its end, or at the last spike when it is crowded.
        crowded = n_events >= most_events
        length = last_spike if crowded else end
        decay = math.exp(-length)
        for i in range(n_neurons):
            h = current[i] * decay
            potential[i] += bias[i] * length - h
            current[i] = h
        if length == remaining:
            clock[TIME] = stop_time
            clock[TIME_ERROR] = 0.0
        else:
            _advance_clock(clock, length)
        if crowded:
            clock[HORIZON] = max(0.5 * end, SHORTEST_HORIZON)
        elif end == clock[HORIZON] and 2 * (n_events - n_before) < events_per_window:
            clock[HORIZON] = min(2.0 * end, 16.0)


@njit(cache=True, nogil=True, error_model="numpy")
def advance_sparse(
    row_starts, targets, weights, bias, threshold, potential, current, spike_counts, clock, active, first,
    stop_time, max_events, record, spike_times, spike_neurons,
):  # fmt: skip
    """As `advance_dense`, for weights in compressed sparse rows (row: source, column: target).

    The spike arrays must hold MOST_EVENTS_PER_WINDOW entries more: windows are never split.
    """
    n_neurons = threshold.shape[0]
    candidates = np.empty(n_neurons, dtype=np.int64)
    crossing = np.empty(n_neurons)
    tied = np.empty(n_neurons, dtype=np.int64)
    mean_row = targets.shape[0] // max(n_neurons, 1) + 1
    events_per_window = min(8 + n_neurons // mean_row, MOST_EVENTS_PER_WINDOW // 2)
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        status, n_new = _advance_sparse(
            row_starts, targets, weights, bias[k], threshold, potential[k], current[k], spike_counts[k],
            clock[k], stop_time, max_events - n_events, events_per_window, candidates, crossing, tied, record,
            spike_times[n_events:], spike_neurons[n_events:],
        )  # fmt: skip
        n_events += n_new
        if status == PAUSED:
            return PAUSED, position, n_events
    return REACHED, active.shape[0], n_events


# ---------------------------------------------------------------------------------------------
# Segmented weights: a spike touches contiguous ranges of targets
# ---------------------------------------------------------------------------------------------
#
# The rows of a matrix, of blocks of a matrix, or of a stencil that many sources share: each source
# has segments (first target, length, where its weights begin in `values`, a factor).  Time is cut into
# windows, as above, but what is kept of each neuron is what a spike changes by multiples of its
# weight: with tau the time since the window began and T its length,
#
#     p = h e^tau              the synaptic current, referred to the beginning of the window
#     y = v(T) - c T           the potential that its end will find without further spikes
#
# A spike at tau adds W e^tau to p and W (1 - e^-(T - tau)) to y of its targets; a spike of its own
# takes the threshold from y.  Whoever could fire before the end has y + max(c, 0) T >= theta (the
# bound of the dense kernel); kept is the excess y + max(c, 0) T - theta, so that its sign finds the
# candidates while the spike is delivered.
#
# The candidates, a dozen or so, are copied out, a column each of `candidates`, and until the window
# ends it is the copy that counts (their excess becomes -inf: nobody is found twice).  Each keeps a time
# before which it does not cross: since the slope of v is at most c + max(h, 0) until it is touched again,
#
#     now + (theta - v) / (c + max(h, 0)).
#
# The earliest of these times is replaced by the exact crossing until the earliest is exact, and that
# neuron fires.  The filtered spikes of every neuron are kept like a current that its own spikes alone
# feed.
#
# What runs once a spike is inlined and takes no slices: calls with a dozen arrays and the counting of
# references to slices cost as much as the work.

# Rows of `candidates`, a column each.
BIAS, THRESHOLD, FORESEEN, CURRENT = 0, 1, 2, 3
CANDIDATE_ROWS = 4


@njit(cache=True, nogil=True, error_model="numpy")
def _open_window(bias, threshold, potential, current, length, excess, may_fire):
    rise = -math.expm1(-length)
    for i in range(potential.shape[0]):
        v = potential[i]
        bound = threshold[i] - (bias[i] if bias[i] > 0.0 else 0.0) * length
        over = v + current[i] * rise - bound
        excess[i] = over
        may_fire[i] = (over >= 0.0) | (v >= threshold[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _close_window(bias, threshold, potential, current, filtered, now, length, excess):
    """Bring potentials and currents to `now`, at the end of the window or before it."""
    decay = math.exp(-now)
    rest = decay - math.exp(-length)
    for i in range(potential.shape[0]):
        bound = threshold[i] - (bias[i] if bias[i] > 0.0 else 0.0) * length
        potential[i] = excess[i] + bound + bias[i] * now - current[i] * rest
        current[i] *= decay
        filtered[i] *= decay


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _deliver(excess, current, first, n_targets, values, offset, to_foreseen, to_current):
    """Deliver one spike to a segment; return whether it makes a candidate of a target."""
    reached = np.int64(0)
    for k in range(n_targets):
        # Unsigned, an index cannot wrap round, which would keep the loop from the vector unit.
        i = np.uint64(first + k)
        weight = values[np.uint64(offset + k)]
        over = excess[i] + to_foreseen * weight
        excess[i] = over
        current[i] += to_current * weight
        reached |= np.int64(1) if over >= 0.0 else np.int64(0)
    return reached != 0


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _bound_candidate(k, candidates, crossing, is_exact, now, fade, rest):
    """Note a window time before which a candidate does not cross; fade = e^-now, rest = e^-now - e^-T."""
    bias = candidates[BIAS, k]
    threshold = candidates[THRESHOLD, k]
    p = candidates[CURRENT, k]
    v = candidates[FORESEEN, k] + bias * now - p * rest
    gap = threshold - v
    time = math.inf
    is_exact[k] = p == 0.0
    if p == 0.0:
        if gap <= 0.0:
            time = now
        elif bias > 0.0:
            time = now + gap / bias
    else:
        h = p * fade
        slope = bias + (h if h > 0.0 else 0.0)
        gap -= SEARCH_SLACK * (threshold + abs(v) + abs(h))
        if gap <= 0.0:
            time = now
        elif slope > 0.0:
            time = now + gap / slope
    crossing[k] = time


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _settle_candidate(k, candidates, crossing, is_exact, now, fade, rest, length):
    """Note the window time at which a candidate crosses, inf if after the window."""
    bias = candidates[BIAS, k]
    p = candidates[CURRENT, k]
    v = candidates[FORESEEN, k] + bias * now - p * rest
    time = now + crossing_time(candidates[THRESHOLD, k] - v, bias, p * fade, length - now)
    crossing[k] = time if time <= length else math.inf
    is_exact[k] = True


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _deliver_to_candidates(
    neurons, n_candidates, first, n_targets, values, offset, factor, candidates, to_foreseen, to_current,
    crossing, is_exact, now, fade, rest,
):  # fmt: skip
    """As `_deliver`; who is touched gets a new bound, as in `_bound_candidate`."""
    for k in range(n_candidates):
        i = neurons[k] - first
        if i < 0 or i >= n_targets:
            continue
        weight = factor * values[np.uint64(offset + i)]
        if weight == 0.0:
            continue
        bias = candidates[BIAS, k]
        threshold = candidates[THRESHOLD, k]
        y = candidates[FORESEEN, k] + to_foreseen * weight
        p = candidates[CURRENT, k] + to_current * weight
        candidates[FORESEEN, k] = y
        candidates[CURRENT, k] = p
        h = p * fade
        v = y + bias * now - p * rest
        slope = bias + (h if h > 0.0 else 0.0)
        gap = threshold - v - SEARCH_SLACK * (threshold + abs(v) + abs(h))
        time = now + gap / slope if slope > 0.0 else math.inf
        crossing[k] = now if gap <= 0.0 else time
        is_exact[k] = False


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _earliest_candidate(crossing, n_candidates):
    """Return (column, how many have the same time) of the earliest; (0, 0) when there are none."""
    first = math.inf
    column = 0
    n_equal = 0
    for k in range(n_candidates):
        time = crossing[k]
        earlier = time < first
        n_equal = 1 if earlier else n_equal + (1 if time == first else 0)
        column = k if earlier else column
        first = time if earlier else first
    return column, n_equal


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _add_candidate(
    n_candidates, i, foreseen, now, fade, rest, bias, threshold, excess, current, neurons, candidates,
    crossing, is_exact,
):  # fmt: skip
    """Make neuron i the candidate in column n_candidates, with a bound on its crossing."""
    neurons[n_candidates] = i
    candidates[BIAS, n_candidates] = bias[i]
    candidates[THRESHOLD, n_candidates] = threshold[i]
    candidates[FORESEEN, n_candidates] = foreseen
    candidates[CURRENT, n_candidates] = current[i]
    excess[i] = -math.inf
    _bound_candidate(n_candidates, candidates, crossing, is_exact, now, fade, rest)


@njit(cache=True, nogil=True, error_model="numpy")
def _find_candidates(
    first, last, now, fade, rest, length, n_candidates, bias, threshold, excess, current, neurons, candidates,
    crossing, is_exact,
):  # fmt: skip
    """Add who could fire now, and could not before, to the candidates; return their number."""
    for block in range(first, last, 32):
        n_block = min(32, last - block)
        reached = np.int64(0)
        for k in range(n_block):
            reached |= np.int64(1) if excess[np.uint64(block + k)] >= 0.0 else np.int64(0)
        if reached == 0:
            continue
        for i in range(block, block + n_block):
            if excess[i] >= 0.0:
                foreseen = excess[i] + (threshold[i] - max(bias[i], 0.0) * length)
                _add_candidate(
                    n_candidates, i, foreseen, now, fade, rest, bias, threshold, excess, current, neurons,
                    candidates, crossing, is_exact,
                )  # fmt: skip
                n_candidates += 1
    return n_candidates


@njit(cache=True, nogil=True, error_model="numpy")
def _advance_segments(
    segment_starts, segment_targets, segment_lengths, segment_offsets, segment_factors, values, bias,
    threshold, potential, current, filtered, spike_counts, clock, stop_time, max_events, events_per_window,
    excess, may_fire, neurons, candidates, crossing, is_exact, tied, record, spike_times,
    spike_neurons,
):  # fmt: skip
    """As `_advance_dense`, for segmented weights; a window counts as an event."""
    n_neurons = threshold.shape[0]
    words = may_fire.view(np.uint64)
    n_events = 0
    n_windows = 0
    while True:
        if n_events >= max_events or n_windows >= max_events:
            return PAUSED, n_events
        remaining = _remaining_time(clock, stop_time)
        if remaining <= 0.0:
            return REACHED, n_events
        n_windows += 1
        length = min(clock[HORIZON], remaining)
        _open_window(bias, threshold, potential, current, length, excess, may_fire)
        rise = -math.expm1(-length)
        end_fade = math.exp(-length)
        now = 0.0
        fade = 1.0
        rest = fade - end_fade
        n_candidates = 0
        for word in range(words.shape[0]):
            if words[word] == 0:
                continue
            for i in range(8 * word, min(8 * word + 8, n_neurons)):
                if may_fire[i]:
                    _add_candidate(
                        n_candidates, i, potential[i] + current[i] * rise, now, fade, rest, bias, threshold,
                        excess, current, neurons, candidates, crossing, is_exact,
                    )  # fmt: skip
                    n_candidates += 1
        n_before = n_events
        most_events = n_events + 2 * events_per_window
        while n_events < most_events:
            earliest, n_tied = _earliest_candidate(crossing, n_candidates)
            if n_tied == 0 or crossing[earliest] > length:
                break
            first_crossing = crossing[earliest]
            if not is_exact[earliest]:
                _settle_candidate(earliest, candidates, crossing, is_exact, now, fade, rest, length)
                continue
            tied[0] = neurons[earliest]
            if n_tied > 1:
                n_tied = 0
                all_exact = True
                for k in range(earliest, n_candidates):
                    if crossing[k] == first_crossing:
                        if not is_exact[k]:
                            _settle_candidate(k, candidates, crossing, is_exact, now, fade, rest, length)
                            all_exact = False
                        tied[n_tied] = neurons[k]
                        n_tied += 1
                if not all_exact:
                    continue
                tied[:n_tied].sort()

            now = first_crossing
            growth = math.exp(now)
            fade = 1.0 / growth
            rest = fade - end_fade
            to_foreseen = 1.0 - end_fade * growth
            for k in range(earliest, n_candidates if n_tied > 1 else earliest + 1):
                if crossing[k] == first_crossing:
                    candidates[FORESEEN, k] -= candidates[THRESHOLD, k]
                    _bound_candidate(k, candidates, crossing, is_exact, now, fade, rest)
            for c in range(n_tied):
                neuron = tied[c]
                filtered[neuron] += growth
                spike_counts[neuron] += 1
                if record:
                    spike_times[n_events] = clock[TIME] + (now + clock[TIME_ERROR])
                    spike_neurons[n_events] = neuron
                n_events += 1
            for c in range(n_tied):
                for segment in range(segment_starts[tied[c]], segment_starts[tied[c] + 1]):
                    first = segment_targets[segment]
                    offset = segment_offsets[segment]
                    factor = segment_factors[segment]
                    n_targets = segment_lengths[segment]
                    _deliver_to_candidates(
                        neurons, n_candidates, first, n_targets, values, offset, factor, candidates,
                        to_foreseen, growth, crossing, is_exact, now, fade, rest,
                    )  # fmt: skip
                    reached = _deliver(
                        excess, current, first, n_targets, values, offset, factor * to_foreseen,
                        factor * growth,
                    )  # fmt: skip
                    if reached:
                        n_candidates = _find_candidates(
                            first, first + n_targets, now, fade, rest, length, n_candidates, bias, threshold,
                            excess, current, neurons, candidates, crossing, is_exact,
                        )  # fmt: skip
        for k in range(n_candidates):
            i = neurons[k]
            excess[i] = candidates[FORESEEN, k] - (threshold[i] - max(bias[i], 0.0) * length)
            current[i] = candidates[CURRENT, k]

        crowded = n_events >= most_events
        closing = now if crowded else length
        _close_window(bias, threshold, potential, current, filtered, closing, length, excess)
        if closing == remaining:
            clock[TIME] = stop_time
            clock[TIME_ERROR] = 0.0
        else:
            _advance_clock(clock, closing)
        if crowded:
            clock[HORIZON] = max(0.5 * length, SHORTEST_HORIZON)
        elif length == clock[HORIZON]:
            wanted = events_per_window / (n_events - n_before + 0.5)
            clock[HORIZON] = min(length * min(max(wanted, 0.5), 2.0), 16.0)


@njit(cache=True, nogil=True, error_model="numpy")
def advance_segments(
    segment_starts, segment_targets, segment_lengths, segment_offsets, segment_factors, values, filtered,
    bias, threshold, potential, current, spike_counts, clock, active, first, stop_time, max_events, record,
    spike_times, spike_neurons,
):  # fmt: skip
    """As `advance_dense`, for segmented weights.

    The spike arrays must hold MOST_EVENTS_PER_WINDOW entries more: windows are never split.
    """
    n_neurons = threshold.shape[0]
    excess = np.empty(n_neurons)
    may_fire = np.zeros((n_neurons + 7) // 8 * 8, dtype=np.bool_)
    neurons = np.empty(n_neurons, dtype=np.int64)
    candidates = np.empty((CANDIDATE_ROWS, n_neurons))
    crossing = np.empty(n_neurons)
    is_exact = np.empty(n_neurons, dtype=np.bool_)
    tied = np.empty(n_neurons, dtype=np.int64)
    # Opening and closing a window costs the more the more neurons there are.
    events_per_window = max(LEAST_EVENTS_PER_SEGMENT_WINDOW, n_neurons // 64)
    events_per_window = min(events_per_window, MOST_EVENTS_PER_WINDOW // 2)
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        status, n_new = _advance_segments(
            segment_starts, segment_targets, segment_lengths, segment_offsets, segment_factors, values,
            bias[k], threshold, potential[k], current[k], filtered[k], spike_counts[k], clock[k], stop_time,
            max_events - n_events, events_per_window, excess, may_fire, neurons, candidates,
            crossing, is_exact, tied, record, spike_times[n_events:], spike_neurons[n_events:],
        )  # fmt: skip
        n_events += n_new
        if status == PAUSED:
            return PAUSED, position, n_events
    return REACHED, active.shape[0], n_events

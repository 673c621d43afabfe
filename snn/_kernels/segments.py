"""Segmented weights: a spike touches contiguous ranges of targets.

The rows of a matrix, of blocks of a matrix, or of a stencil that many sources share: each source
has segments (first target, length, where its weights begin in `values`, a factor).  Time is cut into
windows, as in `sparse`, but what is kept of each neuron is what a spike changes by multiples of its
weight: with tau the time since the window began and T its length,

    p = h e^tau              the synaptic current, referred to the beginning of the window
    y = v(T) - c T           the potential that its end will find without further spikes

A spike at tau adds W e^tau to p and W (1 - e^-(T - tau)) to y of its targets; a spike of its own
takes the threshold from y.  Whoever could fire before the end has y + max(c, 0) T >= theta (the
bound of the dense kernel); kept is the excess y + max(c, 0) T - theta, so that its sign finds the
candidates while the spike is delivered.

The candidates, a dozen or so, are copied out, a column each of `candidates`, and until the window
ends it is the copy that counts (their excess becomes -inf: nobody is found twice).  Each keeps a time
before which it does not cross: since the slope of v is at most c + max(h, 0) until it is touched again,

    now + (theta - v) / (c + max(h, 0)).

The earliest of these times is replaced by the exact crossing until the earliest is exact, and that
neuron fires.  The filtered spikes of every neuron are kept like a current that its own spikes alone
feed.

What runs once a spike is inlined and takes no slices: calls with a dozen arrays and the counting of
references to slices cost as much as the work.
"""

import math

import numpy as np

from snn._kernels.clock import (
    HORIZON,
    MOST_EVENTS_PER_WINDOW,
    PAUSED,
    REACHED,
    SHORTEST_HORIZON,
    TIME,
    TIME_ERROR,
    advance_clock,
    remaining_time,
)
from snn._kernels.compiling import compiled, inlined
from snn._kernels.crossing import SEARCH_SLACK, crossing_time

# Rows of `candidates`, a column each.
BIAS, THRESHOLD, FORESEEN, CURRENT = 0, 1, 2, 3
CANDIDATE_ROWS = 4

LEAST_EVENTS_PER_SEGMENT_WINDOW = 8
"""Spikes wanted in a window of the segment kernel: more candidates against fewer openings."""


@compiled
def _open_window(bias, threshold, potential, current, length, excess, may_fire):
    rise = -math.expm1(-length)
    for i in range(potential.shape[0]):
        v = potential[i]
        bound = threshold[i] - (bias[i] if bias[i] > 0.0 else 0.0) * length
        over = v + current[i] * rise - bound
        excess[i] = over
        may_fire[i] = (over >= 0.0) | (v >= threshold[i])


@compiled
def _close_window(bias, threshold, potential, current, filtered, now, length, excess):
    """Bring potentials and currents to `now`, at the end of the window or before it."""
    decay = math.exp(-now)
    rest = decay - math.exp(-length)
    for i in range(potential.shape[0]):
        bound = threshold[i] - (bias[i] if bias[i] > 0.0 else 0.0) * length
        potential[i] = excess[i] + bound + bias[i] * now - current[i] * rest
        current[i] *= decay
        filtered[i] *= decay


@inlined
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


@inlined
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


@inlined
def _settle_candidate(k, candidates, crossing, is_exact, now, fade, rest, length):
    """Note the window time at which a candidate crosses, inf if after the window."""
    bias = candidates[BIAS, k]
    p = candidates[CURRENT, k]
    v = candidates[FORESEEN, k] + bias * now - p * rest
    time = now + crossing_time(candidates[THRESHOLD, k] - v, bias, p * fade, length - now)
    crossing[k] = time if time <= length else math.inf
    is_exact[k] = True


@inlined
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


@inlined
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


@inlined
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


@compiled
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


@compiled
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
        remaining = remaining_time(clock, stop_time)
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
            advance_clock(clock, closing)
        if crowded:
            clock[HORIZON] = max(0.5 * length, SHORTEST_HORIZON)
        elif length == clock[HORIZON]:
            wanted = events_per_window / (n_events - n_before + 0.5)
            clock[HORIZON] = min(length * min(max(wanted, 0.5), 2.0), 16.0)


@compiled
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

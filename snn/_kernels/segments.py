"""Segmented weights: a spike touches contiguous ranges of targets.

The rows of a matrix, of blocks of a matrix, or of a stencil that many sources share: each source
has segments (first target, length, where its weights begin in `values`, a factor).  Windows and their
candidates are those of `candidates`.  The filtered spikes of every neuron are kept like a current that
its own spikes alone feed.
"""

import math

import numpy as np

from snn._kernels.candidates import (
    CANDIDATE_ROWS,
    CURRENT,
    FORESEEN,
    THRESHOLD,
    add_candidate,
    bound_candidate,
    deliver,
    deliver_to_candidates,
    earliest_candidate,
    find_candidates,
    open_window,
    settle_candidate,
)
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
from snn._kernels.compiling import compiled

LEAST_EVENTS_PER_SEGMENT_WINDOW = 8
"""Spikes wanted in a window of the segment kernel: more candidates against fewer openings."""


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
        open_window(bias, threshold, potential, current, length, excess, may_fire)
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
                    add_candidate(
                        n_candidates, i, potential[i] + current[i] * rise, now, fade, rest, bias, threshold,
                        excess, current, neurons, candidates, crossing, is_exact,
                    )  # fmt: skip
                    n_candidates += 1
        n_before = n_events
        most_events = n_events + 2 * events_per_window
        while n_events < most_events:
            earliest, n_tied = earliest_candidate(crossing, n_candidates)
            if n_tied == 0 or crossing[earliest] > length:
                break
            first_crossing = crossing[earliest]
            if not is_exact[earliest]:
                settle_candidate(earliest, candidates, crossing, is_exact, now, fade, rest, length)
                continue
            tied[0] = neurons[earliest]
            if n_tied > 1:
                n_tied = 0
                all_exact = True
                for k in range(earliest, n_candidates):
                    if crossing[k] == first_crossing:
                        if not is_exact[k]:
                            settle_candidate(k, candidates, crossing, is_exact, now, fade, rest, length)
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
                    bound_candidate(k, candidates, crossing, is_exact, now, fade, rest)
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
                    deliver_to_candidates(
                        neurons, n_candidates, first, n_targets, values, offset, factor, candidates,
                        to_foreseen, growth, crossing, is_exact, now, fade, rest,
                    )  # fmt: skip
                    reached = deliver(
                        excess, current, first, n_targets, values, offset, factor * to_foreseen,
                        factor * growth,
                    )  # fmt: skip
                    if reached:
                        n_candidates = find_candidates(
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

"""Segmented weights: a spike touches contiguous ranges of targets.

The rows of a matrix, of blocks of a matrix, or of a stencil that many sources share: each source
has segments (first target, length, where its weights begin in `values`, a factor).  Windows and their
candidates are those of `candidates`.  The filtered spikes of every neuron are kept like a current that
its own spikes alone feed.
"""

import math

import numpy as np

from snn._kernels.candidates import (
    ARRIVING,
    close_window,
    deliver,
    find_candidates,
    first_candidates,
    leave_window,
    new_windows,
    next_horizon,
    next_to_fire,
    open_window,
    renew_bounds,
    reset_fired,
)
from snn._kernels.clock import (
    HORIZON,
    MOST_EVENTS_PER_WINDOW,
    PAUSED,
    REACHED,
    TIME,
    TIME_ERROR,
    advance_clock,
    remaining_time,
)
from snn._kernels.compiling import compiled

LEAST_EVENTS_PER_SEGMENT_WINDOW = 8
"""Spikes wanted in a window of the segment kernel: more candidates against fewer openings."""


@compiled
def _advance_segments(
    segment_starts, segment_targets, segment_lengths, segment_offsets, segment_factors, values, bias,
    threshold, potential, current, filtered, spike_counts, clock, stop_time, max_events, events_per_window,
    windows, record, spike_times, spike_neurons,
):  # fmt: skip
    """As `_advance_dense`, for segmented weights; a window counts as an event."""
    excess, may_fire, neurons, candidates, crossing, settled, tied = windows
    n_neurons = threshold.shape[0]
    stamp = 0
    for k in range(settled.shape[0]):
        settled[k] = 0
    ordered = crossing.view(np.int64)
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
        n_candidates = first_candidates(
            bias, threshold, potential, current, rise, excess, may_fire, neurons, candidates
        )
        renew_bounds(candidates, n_candidates, crossing, 0.0, 0.0, now, fade, rest)
        stamp += 1
        n_before = n_events
        most_in_window = n_events + 2 * events_per_window
        while n_events < most_in_window:
            n_tied = next_to_fire(
                candidates, n_candidates, crossing, ordered, settled, stamp, tied, now, fade, rest, length
            )
            if n_tied == 0:
                break
            now = crossing[tied[0]]
            growth = math.exp(now)
            fade = 1.0 / growth
            rest = fade - end_fade
            to_foreseen = 1.0 - end_fade * growth
            reset_fired(n_tied, tied, neurons, candidates)
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
                    for k in range(n_candidates):
                        i = neurons[k] - first
                        if 0 <= i < n_targets:
                            candidates[ARRIVING, k] += factor * values[np.uint64(offset + i)]
                    reached = deliver(
                        excess, current, first, n_targets, values, offset, factor * to_foreseen,
                        factor * growth,
                    )  # fmt: skip
                    if reached:
                        n_candidates = find_candidates(
                            first, first + n_targets, length, n_candidates, bias, threshold, excess, current,
                            neurons, candidates,
                        )  # fmt: skip
            renew_bounds(candidates, n_candidates, crossing, to_foreseen, growth, now, fade, rest)
            stamp += 1
        leave_window(n_candidates, bias, threshold, length, excess, current, neurons, candidates)

        crowded = n_events >= most_in_window
        closing = now if crowded else length
        close_window(bias, threshold, potential, current, closing, length, excess)
        decay = math.exp(-closing)
        for i in range(n_neurons):
            filtered[i] *= decay
        if closing == remaining:
            clock[TIME] = stop_time
            clock[TIME_ERROR] = 0.0
        else:
            advance_clock(clock, closing)
        n_fired = n_events - n_before
        clock[HORIZON] = next_horizon(clock[HORIZON], length, crowded, n_fired, events_per_window)


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
    windows = new_windows(n_neurons)
    # Opening and closing a window costs the more the more neurons there are.
    events_per_window = max(LEAST_EVENTS_PER_SEGMENT_WINDOW, n_neurons // 64)
    events_per_window = min(events_per_window, MOST_EVENTS_PER_WINDOW // 2)
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        status, n_new = _advance_segments(
            segment_starts, segment_targets, segment_lengths, segment_offsets, segment_factors, values,
            bias[k], threshold, potential[k], current[k], filtered[k], spike_counts[k], clock[k], stop_time,
            max_events - n_events, events_per_window, windows, record, spike_times[n_events:],
            spike_neurons[n_events:],
        )  # fmt: skip
        n_events += n_new
        if status == PAUSED:
            return PAUSED, position, n_events
    return REACHED, active.shape[0], n_events

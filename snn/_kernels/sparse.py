"""Sparse weights: a spike touches its targets only.

Time is cut into windows.  With tau the time since the window began,

    v = w + c tau - p e^-tau        h = p e^-tau        (at its start w = v + h, p = h)

so a spike at tau_s adds W_ji to w_i and W_ji e^tau_s to p_i of its targets, and nothing at all to
anybody else.  The neurons that could fire before the window ends (the bound of the dense kernel)
are its candidates, each with its exact crossing time; a neuron becomes one when the window begins
or when a spike touches it.  The end of a window brings all neurons up to date.  Its length adapts,
so that this share of the work stays a fraction of the spikes'; a window that turns out crowded ends
at its last spike.  Runs pause between windows only, so that pausing changes no bit of the result.
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
from snn._kernels.compiling import compiled
from snn._kernels.crossing import crossing_time


@compiled
def _crossing_in_window(i, now, end, bias, threshold, base_potential, base_current):
    """Return the window time at which neuron i crosses its threshold, inf if after the window."""
    current = base_current[i] * math.exp(-now)
    potential = base_potential[i] + bias[i] * now - current
    return now + crossing_time(threshold[i] - potential, bias[i], current, end - now)


@compiled
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
        remaining = remaining_time(clock, stop_time)
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
            advance_clock(clock, length)
        if crowded:
            clock[HORIZON] = max(0.5 * end, SHORTEST_HORIZON)
        elif end == clock[HORIZON] and 2 * (n_events - n_before) < events_per_window:
            clock[HORIZON] = min(2.0 * end, 16.0)


@compiled
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

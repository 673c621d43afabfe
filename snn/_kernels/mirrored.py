"""Mirrored pairs: two neurons a pair that see one lateral current with opposite signs.

Of n pairs, neuron i is the positive half of pair i and neuron n + i its negative half.  A spike
of sign s in pair j adds s L_ji to the lateral current l_i of every other pair, and the constant
g_j to the current of the other half of its own pair.  The halves' synaptic currents

    h+ = l + e        h- = e - l        (e: the exchange trace)

therefore follow from two numbers a pair, of which a spike changes the second in its own pair
only: l_j -= s g_j / 2, e_j += g_j / 2.  Rows of `current` hold l, then e.
"""

import math

import numpy as np

from snn._kernels.clock import HORIZON, PAUSED, REACHED, TIME, TIME_ERROR, advance_clock, remaining_time
from snn._kernels.compiling import compiled
from snn._kernels.crossing import could_fire, crossing_time


@compiled
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


@compiled
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


@compiled
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


@compiled
def _half_current(current, neuron):
    """Return the synaptic current of one half, e + l or e - l."""
    n_pairs = current.shape[0] // 2
    if neuron < n_pairs:
        return current[n_pairs + neuron] + current[neuron]
    return current[neuron] - current[neuron - n_pairs]


@compiled
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
                if not could_fire(bias[i], threshold[i], potential[i], h, reach, rise):
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


@compiled
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
        remaining = remaining_time(clock, stop_time)
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

        advance_clock(clock, interval)
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
        next_horizon = min(clock[HORIZON], remaining_time(clock, stop_time))
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


@compiled
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

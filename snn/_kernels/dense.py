"""Dense weights: a spike touches every neuron, in one fused pass.

The pass brings every potential and current to the time of the spike, adds the weights, and, while
the numbers are in registers, asks which neurons could fire within the horizon T.  For t <= T

    v + max(max(c, 0) T + h (1 - e^-T), 0)  >=  v(t)

because v(t) is convex for h <= 0 (its maximum over [0, T] is at an end) and every term of the sum
grows with t for h > 0.  The outer max is for a neuron that stands at its threshold already: it fires,
even if the net current inhibits it.  No division, no exponential and no root in the pass: the exact
crossing is computed for the few neurons it names.
"""

import math

import numpy as np

from snn._kernels.clock import HORIZON, PAUSED, REACHED, TIME, TIME_ERROR, advance_clock, remaining_time
from snn._kernels.compiling import compiled
from snn._kernels.crossing import could_fire, crossing_time


@compiled
def _probe_dense(bias, threshold, potential, current, horizon, may_fire):
    """Mark the neurons that could fire within the horizon."""
    rise = -math.expm1(-horizon)
    for i in range(potential.shape[0]):
        growth = max(bias[i], 0.0) * horizon + current[i] * rise
        may_fire[i] = potential[i] + max(growth, 0.0) >= threshold[i]


@compiled
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


@compiled
def _coast_dense(bias, potential, current, interval):
    """Advance all neurons by `interval` with no spike."""
    rise = -math.expm1(-interval)
    decay = 1.0 - rise
    for i in range(potential.shape[0]):
        potential[i] += bias[i] * interval + current[i] * rise
        current[i] *= decay


@compiled
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
            if not could_fire(bias[i], threshold[i], potential[i], current[i], reach, rise):
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


@compiled
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
        remaining = remaining_time(clock, stop_time)
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

        advance_clock(clock, interval)
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
            next_horizon = min(clock[HORIZON], remaining_time(clock, stop_time))
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
            if could_fire(bias[neuron], threshold[neuron], 0.0, current[neuron], next_horizon, rise):
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


@compiled
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

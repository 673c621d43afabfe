"""The neurons that are not watched: brought to the end of a span, and proven to have been silent in it.

With f_j(tau) the spikes of source j since the span began, filtered by 1 - e^-t, and F_j their value at its
end, T,

    v_i(tau) = v_i + c_i tau + h_i (1 - e^-tau) + sum_j W_ji f_j(tau).

The chord of v_i between the ends of the span is made of the chords of its terms, so v_i exceeds the larger
of its two ends by no more than

    max(h_i, 0) max_tau (1 - e^-tau - (1 - e^-T) tau / T)  +  sum_j |W_ji| max_tau |f_j(tau) - F_j tau / T|.

Where that stays below the threshold, neuron i is proven not to have fired.  The few others are followed
exactly through the spikes of the span.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inlined, uncounted
from snn._kernels.crossing import SEARCH_SLACK, crossing_time

BLOCK = 1120
"""Targets brought up to date together: their sums stay in the first-level cache.  No power of two, since a
processor takes a read for one of what it has just written, and waits, if they are 4,096 bytes apart."""
TOGETHER = 4
"""Sources are added in fours, and while there are as many, in two of these at once."""

# Nanoseconds, roughly, by which spans are planned: a spike; an addition of a source's spikes to another
# neuron; a neuron brought to the end of a span.
COST_OF_SPIKE, COST_OF_SUM, COST_OF_NEURON = 150.0, 0.4, 4.0
COST_OF_LOOKING_UP, COST_OF_REPLAYING = 20.0, 4.0
"""Of a weight far from the others, and of one spike for a neuron that is followed through a span."""


class Network(NamedTuple):
    """What runs, as `lazy.advance_lazily` is given it."""

    weights: np.ndarray
    values: np.ndarray
    row_of: np.ndarray
    factor: float
    exchange: np.ndarray
    bias: np.ndarray
    threshold: np.ndarray
    cost_of_watching: float
    events_per_span: int


class Sources(NamedTuple):
    """Those of the watched that fired in the span, a slot each."""

    members: np.ndarray
    """Their places among the watched."""
    rows: np.ndarray
    """Their rows of the weights."""
    sums: np.ndarray
    """Rows TRACE, TOTAL, DEVIATION, and LAST, which serves as scratch."""


class Log(NamedTuple):
    """The spikes of a span."""

    times: np.ndarray
    neurons: np.ndarray
    totals: np.ndarray
    """F of the source before the spike."""
    traces: np.ndarray
    """Trace of the source after it."""


class Others(NamedTuple):
    """Where the neurons that are not watched would stand at the end of the span."""

    potential: np.ndarray
    current: np.ndarray
    suspect: np.ndarray
    block: np.ndarray


TRACE, TOTAL, DEVIATION, LAST = 0, 1, 2, 3


@uncounted
def summarise(log, n_events, span, slots, n_slots, sources):
    """Sum up the spikes of each source at the end of the span: its trace, its total F, its deviation.

    Between two of its spikes a source with trace s leaves its chord, of slope F / T, upwards by at most

        s - r - r log(s / r)  <=  (s - r)^2 / (s + r)        r = F / T;

    downwards it is farthest at a spike.
    """
    log_times, log_neurons, log_totals, log_traces = log
    trace = sources.sums[TRACE]
    total = sources.sums[TOTAL]
    deviation = sources.sums[DEVIATION]
    last = sources.sums[LAST]
    for slot in range(n_slots):
        trace[slot] = 0.0
        total[slot] = 0.0
        last[slot] = 0.0
    for event in range(n_events):
        slot = slots[log_neurons[event]]
        sources.members[slot] = log_neurons[event]
        fade = math.exp(last[slot] - log_times[event])
        total[slot] += trace[slot] * (1.0 - fade)
        trace[slot] = trace[slot] * fade + 1.0
        last[slot] = log_times[event]
        log_totals[event] = total[slot]
        log_traces[event] = trace[slot]
    for slot in range(n_slots):
        fade = math.exp(last[slot] - span)
        total[slot] += trace[slot] * (1.0 - fade)
        trace[slot] *= fade
        deviation[slot] = 0.0
    for event in range(n_events):
        slot = slots[log_neurons[event]]
        slope = total[slot] / span
        below = log_totals[event] - slope * log_times[event]
        above = below
        if log_traces[event] > slope:
            rise = log_traces[event] - slope
            above += rise * rise / (log_traces[event] + slope)
        deviation[slot] = max(deviation[slot], max(above, -below))


@uncounted
def bulge_of(rise, span):
    """Return the largest of 1 - e^-tau - rise tau / T, where e^-tau = rise / T; rise = 1 - e^-T."""
    slope = rise / span
    return max(1.0 - slope + slope * math.log(slope), 0.0) if slope > 0.0 else 1.0


@inlined
def _sum_of_four(shares, s, w_0, w_1, w_2, w_3):
    return (shares[s] * w_0 + shares[s + 1] * w_1) + (shares[s + 2] * w_2 + shares[s + 3] * w_3)


@inlined
def _add_four(values, n_rows, start, size, sources, s, sums):
    """Add four sources, from s on, to the sums of targets."""
    trace = sources.sums[TRACE]
    total = sources.sums[TOTAL]
    deviation = sources.sums[DEVIATION]
    row_0 = sources.rows[s] * n_rows + start
    row_1 = sources.rows[s + 1] * n_rows + start
    row_2 = sources.rows[s + 2] * n_rows + start
    row_3 = sources.rows[s + 3] * n_rows + start
    for k in range(size):
        w_0 = values[np.uint64(row_0 + k)]
        w_1 = values[np.uint64(row_1 + k)]
        w_2 = values[np.uint64(row_2 + k)]
        w_3 = values[np.uint64(row_3 + k)]
        i = np.uint64(k)
        sums[0, i] += _sum_of_four(total, s, w_0, w_1, w_2, w_3)
        sums[1, i] += _sum_of_four(trace, s, w_0, w_1, w_2, w_3)
        sums[2, i] += _sum_of_four(deviation, s, abs(w_0), abs(w_1), abs(w_2), abs(w_3))


@inlined
def _add_eight(values, n_rows, start, size, sources, s, sums):
    """As `_add_four`, with half as many readings of the sums."""
    trace = sources.sums[TRACE]
    total = sources.sums[TOTAL]
    deviation = sources.sums[DEVIATION]
    row_0 = sources.rows[s] * n_rows + start
    row_1 = sources.rows[s + 1] * n_rows + start
    row_2 = sources.rows[s + 2] * n_rows + start
    row_3 = sources.rows[s + 3] * n_rows + start
    row_4 = sources.rows[s + 4] * n_rows + start
    row_5 = sources.rows[s + 5] * n_rows + start
    row_6 = sources.rows[s + 6] * n_rows + start
    row_7 = sources.rows[s + 7] * n_rows + start
    for k in range(size):
        w_0 = values[np.uint64(row_0 + k)]
        w_1 = values[np.uint64(row_1 + k)]
        w_2 = values[np.uint64(row_2 + k)]
        w_3 = values[np.uint64(row_3 + k)]
        w_4 = values[np.uint64(row_4 + k)]
        w_5 = values[np.uint64(row_5 + k)]
        w_6 = values[np.uint64(row_6 + k)]
        w_7 = values[np.uint64(row_7 + k)]
        i = np.uint64(k)
        first = _sum_of_four(total, s, w_0, w_1, w_2, w_3)
        sums[0, i] += first + _sum_of_four(total, s + 4, w_4, w_5, w_6, w_7)
        first = _sum_of_four(trace, s, w_0, w_1, w_2, w_3)
        sums[1, i] += first + _sum_of_four(trace, s + 4, w_4, w_5, w_6, w_7)
        first = _sum_of_four(deviation, s, abs(w_0), abs(w_1), abs(w_2), abs(w_3))
        sums[2, i] += first + _sum_of_four(deviation, s + 4, abs(w_4), abs(w_5), abs(w_6), abs(w_7))


@uncounted
def bring_up(network, potential, current, is_watched, span, sources, n_sources, others):
    """Bring the others to the end of the span; mark those not proven silent.

    Returns (how many, the largest of all deviations from chords).
    """
    weights, values, _, factor, _, bias, threshold, _, _ = network
    new_potential, new_current, suspect, sums = others
    n_rows = weights.shape[1]
    n_neurons = threshold.shape[0]
    rise = -math.expm1(-span)
    fade = 1.0 - rise
    bulge = bulge_of(rise, span)
    n_suspects = 0
    # Bits of numbers that are not negative have their order, and the largest is found eight at a time.
    ordered = sums.view(np.int64)
    largest = np.int64(0)
    for start in range(0, n_rows, BLOCK):
        size = min(BLOCK, n_rows - start)
        for k in range(size):
            sums[0, k] = 0.0
            sums[1, k] = 0.0
            sums[2, k] = 0.0
        n_added = 0
        while n_sources - n_added >= 2 * TOGETHER:
            _add_eight(values, n_rows, start, size, sources, n_added, sums)
            n_added += 2 * TOGETHER
        if n_added < n_sources:
            _add_four(values, n_rows, start, size, sources, n_added, sums)
        for k in range(size):
            sums[2, k] *= abs(factor)
        signed = factor
        for first in range(start, n_neurons, n_rows):
            # One array is written in each loop: of more the compiler would have to know that they are apart.
            for k in range(size):
                i = np.uint64(first + k)
                new_current[i] = current[i] * fade + signed * sums[1, k]
            for k in range(size):
                i = np.uint64(first + k)
                new_potential[i] = potential[i] + bias[i] * span + current[i] * rise + signed * sums[0, k]
            for k in range(size):
                i = np.uint64(first + k)
                v = potential[i]
                v_new = new_potential[i]
                h = current[i]
                leaves = sums[2, k]
                reach = max(v, v_new) + max(h, 0.0) * bulge + leaves
                slack = SEARCH_SLACK * (threshold[i] + abs(v) + abs(v_new) + abs(h) + leaves)
                suspect[i] = not ((reach < threshold[i] - slack) | is_watched[i])
            found = np.int64(0)
            for k in range(size):
                i = np.uint64(first + k)
                found += suspect[i]
            n_suspects += found
            for k in range(size):
                i = np.uint64(first + k)
                largest = max(largest, 0 if is_watched[i] else ordered[2, k])
            signed = -signed
    sums[0, 0] = 0.0
    ordered[0, 0] = largest
    return n_suspects, sums[0, 0]


@uncounted
def prepare_sources(row_of, watched, sources, n_slots):
    """Find the rows of the sources, sign those of negative halves, and fill up with some that do nothing."""
    n_rows = row_of.shape[0]
    for slot in range(n_slots):
        source = watched.members[sources.members[slot]]
        sources.rows[slot] = row_of[source if source < n_rows else source - n_rows]
        if source >= n_rows:
            sources.sums[TRACE, slot] *= -1.0
            sources.sums[TOTAL, slot] *= -1.0
    n_sources = n_slots
    while n_sources % TOGETHER != 0:
        sources.rows[n_sources] = 0
        for row in range(sources.sums.shape[0]):
            sources.sums[row, n_sources] = 0.0
        n_sources += 1
    return n_sources


@uncounted
def _fires(
    neuron, weights, row_of, factor, bias, threshold, v, h, span, watched, sources, n_slots, log, n_events
):  # fmt: skip
    """Follow an unwatched neuron through the spikes of the span; whether it reaches its threshold."""
    log_times = log.times
    log_neurons = log.neurons
    rises = log.totals
    from_slot = sources.sums[LAST]
    n_rows = weights.shape[1]
    row = neuron if neuron < n_rows else neuron - n_rows
    for slot in range(n_slots):
        source = watched.members[sources.members[slot]]
        source_row = source if source < n_rows else source - n_rows
        weight = factor * weights[row_of[source_row], row]
        if (source < n_rows) != (neuron < n_rows):
            weight = -weight
        from_slot[slot] = weight
    then = 0.0
    for event in range(n_events + 1):
        now = log_times[event] if event < n_events else span
        interval = now - then
        then = now
        rise = rises[event]
        slack = SEARCH_SLACK * (threshold + abs(v) + abs(h))
        near = v + max(max(bias, 0.0) * interval + h * rise, 0.0) >= threshold - slack
        # A hair early is taken for a crossing: then it is watched, and all is exact.
        if near and crossing_time(threshold - v - slack, bias, h, interval) <= interval:
            return True
        v += bias * interval + h * rise
        h -= h * rise
        if event < n_events:
            h += from_slot[watched.slots[log_neurons[event]]]
    return False


@uncounted
def watch_suspects(
    network,
    potential,
    current,
    span,
    is_watched,
    watched,
    sources,
    others,
    log,
    n_events,
    n_slots,
    n_suspects,
):
    """Watch the suspects that fire, or all if they are many; return how many more are watched."""
    weights, _, row_of, factor, _, bias, threshold, _, _ = network
    n_rows = weights.shape[1]
    n_neurons = threshold.shape[0]
    # Many are watched rather than followed one by one, when that costs more than to run the span again.
    run_again = n_events * COST_OF_SPIKE + n_slots * COST_OF_SUM * n_rows + COST_OF_NEURON * n_neurons
    follow = n_suspects * (n_slots * COST_OF_LOOKING_UP + n_events * COST_OF_REPLAYING)
    # By what part a current falls from spike to spike; the totals have served.
    then = 0.0
    for event in range(n_events + 1):
        now = log.times[event] if event < n_events else span
        log.totals[event] = -math.expm1(then - now)
        then = now
    n_more = 0
    for i in range(n_neurons):
        if not others.suspect[i] or is_watched[i]:
            continue
        if follow > run_again or _fires(
            i, weights, row_of, factor, bias[i], threshold[i], potential[i], current[i], span, watched,
            sources, n_slots, log, n_events,
        ):  # fmt: skip
            for k in range(i % n_rows, n_neurons, n_rows):
                is_watched[k] = True
                n_more += 1
    return n_more

"""Screening: neurons outside the active set are advanced by an interval, and proven not to fire meanwhile.

Let f_j(tau) be the spikes of source j in the interval, filtered by 1 - e^-t, and F_j = f_j(T) the value at
the end T.  Then

    v_i(tau) = v_i + c_i tau + h_i (1 - e^-tau) + sum_j W_ji f_j(tau).

The chord of a function is the straight line between its values at the two ends of the interval.  The chord of
v_i is the sum of the chords of its terms.  Therefore v_i exceeds the larger of its values at the two ends by
no more than

    max(h_i, 0) max_tau (1 - e^-tau - (1 - e^-T) tau / T)  +  sum_j |W_ji| max_tau |f_j(tau) - F_j tau / T|.

If this bound on v_i is below the threshold, neuron i is proven not to have fired.  The few neurons without a
proof are called violators.  Violators are followed exactly through the spikes of the interval.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import as_integers, inner
from snn._kernels.delivery import DEVIATION, LAST, TOTAL, TRACE
from snn._kernels.neuron import crossing_time, largest_rise, slack

# Rough costs in nanoseconds, from which intervals are planned: of a spike, of a neuron that is advanced by an
# interval, of a weight that is looked up, and of a spike through which a neuron is followed.  `python -m
# tests.benchmarks simulate` shows the effect of the costs.
COST_OF_SPIKE, COST_OF_NEURON, COST_OF_LOOKING_UP, COST_OF_REPLAYING = 150.0, 4.0, 20.0, 4.0


class Sources(NamedTuple):
    """The sources, which are the active neurons that fired in the interval; each source has a slot."""

    members: np.ndarray  # places of the sources in the active set
    rows: np.ndarray  # for each source, the place of its weights (`ScreenedForm.note_rows`)
    sums: np.ndarray  # rows TOTAL, TRACE, DEVIATION, and LAST, a work array
    totals: np.ndarray  # for each spike of the interval, f of its source before the spike
    traces: np.ndarray  # for each spike of the interval, the trace of its source after the spike


class Screened(NamedTuple):
    """The state of all neurons at the end of the interval; numbers of active neurons are not valid."""

    potential: np.ndarray
    current: np.ndarray
    is_violator: np.ndarray
    sums: np.ndarray  # rows TOTAL, TRACE, DEVIATION, for the targets that are updated together


@inner
def summarise(log, n_events, interval, slots, n_slots, sources):
    """Compute, for each source, its trace and total F at the end of the interval, and its deviation."""
    # The chord of a source has the slope r = F / T.  Between two spikes, f - r tau is concave, so f - r tau
    # is lowest at a spike.  After a spike that raises the trace to s, f - r tau rises by at most
    # s - r - r log(s / r) <= (s - r)^2 / (s + r).
    trace = sources.sums[TRACE]
    total = sources.sums[TOTAL]
    deviation = sources.sums[DEVIATION]
    last = sources.sums[LAST]
    for slot in range(n_slots):
        trace[slot] = total[slot] = last[slot] = deviation[slot] = 0.0
    for event in range(n_events):
        slot = slots[log.neurons[event]]
        sources.members[slot] = log.neurons[event]
        fade = math.exp(last[slot] - log.times[event])
        total[slot] += trace[slot] * (1.0 - fade)
        trace[slot] = trace[slot] * fade + 1.0
        last[slot] = log.times[event]
        sources.totals[event] = total[slot]
        sources.traces[event] = trace[slot]
    for slot in range(n_slots):
        fade = math.exp(last[slot] - interval)
        total[slot] += trace[slot] * (1.0 - fade)
        trace[slot] *= fade
    for event in range(n_events):
        slot = slots[log.neurons[event]]
        slope = total[slot] / interval
        below = sources.totals[event] - slope * log.times[event]
        above = below
        if sources.traces[event] > slope:
            rise = sources.traces[event] - slope
            above += rise * rise / (sources.traces[event] + slope)
        deviation[slot] = max(deviation[slot], max(above, -below))


@inner
def bulge_of(rise, interval):
    """Return the maximum of 1 - e^-tau - rise tau / T, which is at e^-tau = rise / T; rise is 1 - e^-T."""
    slope = rise / interval
    return max(1.0 - slope + slope * math.log(slope), 0.0) if slope > 0.0 else 1.0


@inner
def screen(form, group, is_active, interval, sources, n_sources, settings, screened):
    """Advance all neurons to the end of the interval; return (violators, largest deviation from a chord)."""
    # Violators, which are not proven to be silent, are marked.  Results for the active set are not valid.
    sums, bits = screened.sums, as_integers(screened.sums)
    n_neurons, n_sums = group.threshold.shape[0], settings.n_sums
    rise = -math.expm1(-interval)
    fade = 1.0 - rise
    bulge = bulge_of(rise, interval)
    n_violators = 0
    # The bits of nonnegative floats, read as integers, have the same order, and are compared eight at a time.
    largest = np.int64(0)
    for start in range(0, n_sums, settings.sums_at_once):
        size = min(settings.sums_at_once, n_sums - start)
        for k in range(size):
            sums[TOTAL, k] = sums[TRACE, k] = sums[DEVIATION, k] = 0.0
        form.add_sources(start, size, sources, n_sources, sums)
        # The neurons of a sign pair share their sums, with opposite signs.
        sign = 1.0
        for first in range(start, n_neurons, n_sums):
            # Each loop writes one array, because the compiler does not know that two arrays do not overlap.
            for k in range(size):
                i = np.uint64(first + k)
                screened.current[i] = group.current[i] * fade + sign * sums[TRACE, k]
            for k in range(size):
                i = np.uint64(first + k)
                driven = group.potential[i] + group.bias[i] * interval + group.current[i] * rise
                screened.potential[i] = driven + sign * sums[TOTAL, k]
            for k in range(size):
                i = np.uint64(first + k)
                v, v_end, h = group.potential[i], screened.potential[i], group.current[i]
                leaves = sums[DEVIATION, k]
                reach = max(v, v_end) + max(h, 0.0) * bulge + leaves
                rounding = slack(group.threshold[i], abs(v) + abs(v_end), abs(h) + leaves)
                is_silent = reach < group.threshold[i] - rounding
                screened.is_violator[i] = not (is_silent | is_active[i])
            n_marked = np.int64(0)
            for k in range(size):
                n_marked += screened.is_violator[np.uint64(first + k)]
            n_violators += n_marked
            for k in range(size):
                largest = max(largest, 0 if is_active[np.uint64(first + k)] else bits[DEVIATION, k])
            sign = -sign
    sums[0, 0] = 0.0
    bits[0, 0] = largest
    return n_violators, sums[0, 0]


@inner
def fires(form, i, group, interval, active, sources, n_slots, log, n_events):
    """Follow a screened neuron through the spikes of the interval; return whether it fires."""
    from_slot = sources.sums[LAST]
    for slot in range(n_slots):
        from_slot[slot] = form.weight_between(active.members[sources.members[slot]], i)
    rises = sources.totals
    bias, threshold = group.bias[i], group.threshold[i]
    v, h = group.potential[i], group.current[i]
    then = 0.0
    for event in range(n_events + 1):
        now = log.times[event] if event < n_events else interval
        elapsed = now - then
        then = now
        rise = rises[event]
        rounding = slack(threshold, v, h)
        # A near miss counts as a crossing: the neuron then joins the active set, which is integrated exactly.
        if (
            v + largest_rise(bias, h, elapsed, rise) >= threshold - rounding
            and crossing_time(threshold - v - rounding, bias, h, elapsed) <= elapsed
        ):
            return True
        v += bias * elapsed + h * rise
        h -= h * rise
        if event < n_events:
            h += from_slot[active.slots[log.neurons[event]]]
    return False


@inner
def find_firing(
    form, group, interval, is_active, active, sources, screened, log, n_events, n_slots, cost, n_sums
):
    """Add violators that fire, or all violators if cheaper, to the active set; return the number added."""
    n_neurons = group.threshold.shape[0]
    n_violators = 0
    for i in range(n_neurons):
        n_violators += screened.is_violator[np.uint64(i)]
    follow = n_violators * (n_slots * COST_OF_LOOKING_UP + n_events * COST_OF_REPLAYING)
    # `totals` becomes, for each spike, the part of a current that decays between two spikes.
    then = 0.0
    for event in range(n_events + 1):
        now = log.times[event] if event < n_events else interval
        sources.totals[event] = -math.expm1(then - now)
        then = now
    n_more = 0
    for i in range(n_neurons):
        if not screened.is_violator[i] or is_active[i]:
            continue
        if follow > cost or fires(form, i, group, interval, active, sources, n_slots, log, n_events):
            for k in range(i % n_sums, n_neurons, n_sums):
                is_active[k] = True
                n_more += 1
    return n_more

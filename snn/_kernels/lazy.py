"""Dense weights and mirrored pairs, lazily: a spike touches the few neurons that can fire.

Time is cut into spans.  At the beginning of each the neurons that may fire in it are chosen: those are
watched.  They are copied out, and run by themselves, as if there were no others, with windows and
candidates as in `candidates`; rows of their own weights are gathered when a source first fires.  Then the
others are brought to the end of the span at once, source by source.  With f_j(tau) the spikes of source j
since the span began, filtered by 1 - e^-t, and F_j their value at its end, T,

    v_i(tau) = v_i + c_i tau + h_i (1 - e^-tau) + sum_j W_ji f_j(tau).

The chord of v_i between the ends of the span is made of the chords of its terms, so v_i exceeds the larger
of its two ends by no more than

    max(h_i, 0) max_tau (1 - e^-tau - (1 - e^-T) tau / T)  +  sum_j |W_ji| max_tau |f_j(tau) - F_j tau / T|.

Where that stays below the threshold, neuron i is proven not to have fired.  The few others are followed
exactly through the spikes of the span; if one of them crosses its threshold, it is watched as well, and
the span is run again.  Nothing is written to the state before all is proven.

The choice is a guess, without consequence for what is right: whoever would come near its threshold if its
soma current stayed at the mean of the last span (`drift`).  In the first instants it is nearly everybody;
then all are watched where they are, and rows of weights are read in place.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.candidates import CANDIDATE_ROWS
from snn._kernels.clock import (
    HORIZON,
    LAZY_TIME,
    MARGIN,
    MISSING,
    MISSING_ROW,
    MOST_EVENTS_PER_SPAN,
    MOST_EVENTS_PER_WINDOW,
    PAUSED,
    RATE,
    REACHED,
    REDONE,
    SOURCES,
    SPAN,
    SUSPECTS,
    TIME,
    TIME_ERROR,
    advance_clock,
    remaining_time,
)
from snn._kernels.compiling import compiled, uncounted
from snn._kernels.crossing import SEARCH_SLACK, crossing_time
from snn._kernels.watched import (
    OWN_BEFORE,
    OWN_BIAS,
    OWN_CURRENT,
    OWN_POTENTIAL,
    OWN_ROWS,
    OWN_THRESHOLD,
    Watched,
    Windows,
    run_watched,
)

LEAST_EVENTS_PER_WINDOW = 8
MOST_WATCHED = 4096
FEWEST_LAZY = 64
"""Networks of fewer neurons are watched as a whole."""
LAZY_PART = 2
"""As is one of which more than half would have to be."""
MOST_RUNS = 5
"""Of one span, before it is given up: a cascade may wake one neuron more in each."""
BLOCK = 256
"""Targets brought up to date together: their sums stay in the first-level cache."""
IN_PLACE_EVENTS = 32
"""Spikes in a span in which all are watched."""
TOGETHER = 4
"""Sources added in one pass over them."""

# Nanoseconds, roughly, by which spans are planned: a spike; an addition of a source's spikes to another
# neuron, and to a row of gathered weights; a neuron brought to the end of a span.
COST_OF_SPIKE, COST_OF_SUM, COST_OF_GATHERING, COST_OF_NEURON = 150.0, 0.4, 1.5, 4.0
COST_OF_LOOKING_UP, COST_OF_REPLAYING = 20.0, 4.0
"""Of a weight far from the others, and of one spike for a neuron that is followed through a span."""
COST_OF_WATCHING = 0.3
"""What a spike costs more for each neuron that is watched: an argument, so that tests may raise it."""
SHARE_OF_UPDATES = 0.08
"""What part of the time of a span is meant to go into what does not grow with its spikes."""


class Network(NamedTuple):
    """What runs: weights, the same in one dimension, where their rows are, their factor, and the rest."""

    weights: np.ndarray
    values: np.ndarray
    row_of: np.ndarray
    factor: float
    exchange: np.ndarray
    bias: np.ndarray
    threshold: np.ndarray


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
def _summarise(log, n_events, span, slots, n_slots, sources):
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
def _bulge(rise, span):
    """Return the largest of 1 - e^-tau - rise tau / T, where e^-tau = rise / T; rise = 1 - e^-T."""
    slope = rise / span
    return max(1.0 - slope + slope * math.log(slope), 0.0) if slope > 0.0 else 1.0


@uncounted
def _bring_up(network, potential, current, is_watched, span, sources, n_sources, others):
    """Bring the others to the end of the span; mark those not proven silent.

    Returns (how many, the largest of all deviations from chords).
    """
    weights, values, _, factor, _, bias, threshold = network
    new_potential, new_current, suspect, sums = others
    n_rows = weights.shape[1]
    source_rows = sources.rows
    trace = sources.sums[TRACE]
    total = sources.sums[TOTAL]
    deviation = sources.sums[DEVIATION]
    n_neurons = threshold.shape[0]
    rise = -math.expm1(-span)
    fade = 1.0 - rise
    bulge = _bulge(rise, span)
    n_suspects = 0
    largest = 0.0
    for start in range(0, n_rows, BLOCK):
        size = min(BLOCK, n_rows - start)
        for k in range(size):
            sums[0, k] = 0.0
            sums[1, k] = 0.0
            sums[2, k] = 0.0
        for s in range(0, n_sources, TOGETHER):
            row_0 = source_rows[s] * n_rows + start
            row_1 = source_rows[s + 1] * n_rows + start
            row_2 = source_rows[s + 2] * n_rows + start
            row_3 = source_rows[s + 3] * n_rows + start
            for k in range(size):
                w_0 = values[np.uint64(row_0 + k)]
                w_1 = values[np.uint64(row_1 + k)]
                w_2 = values[np.uint64(row_2 + k)]
                w_3 = values[np.uint64(row_3 + k)]
                i = np.uint64(k)
                sums[0, i] += (total[s] * w_0 + total[s + 1] * w_1) + (
                    total[s + 2] * w_2 + total[s + 3] * w_3
                )
                sums[1, i] += (trace[s] * w_0 + trace[s + 1] * w_1) + (
                    trace[s + 2] * w_2 + trace[s + 3] * w_3
                )
                sums[2, i] += (deviation[s] * abs(w_0) + deviation[s + 1] * abs(w_1)) + (
                    deviation[s + 2] * abs(w_2) + deviation[s + 3] * abs(w_3)
                )
        signed = factor
        for first in range(start, n_neurons, n_rows):
            found = np.int64(0)
            for k in range(size):
                i = np.uint64(first + k)
                v = potential[i]
                h = current[i]
                h_new = h * fade + signed * sums[1, k]
                v_new = v + bias[i] * span + h * rise + signed * sums[0, k]
                new_potential[i] = v_new
                new_current[i] = h_new
                leaves = abs(factor) * sums[2, k]
                reach = max(v, v_new) + max(h, 0.0) * bulge + leaves
                slack = SEARCH_SLACK * (threshold[i] + abs(v) + abs(v_new) + abs(h) + leaves)
                silent = (reach < threshold[i] - slack) | is_watched[i]
                suspect[i] = not silent
                found += 0 if silent else 1
                largest = max(largest, 0.0 if is_watched[i] else leaves)
            n_suspects += found
            signed = -signed
    return n_suspects, largest


@uncounted
def _fires(
    neuron, weights, row_of, factor, bias, threshold, v, h, span, watched, sources, n_slots, log, n_events
):  # fmt: skip
    """Follow an unwatched neuron through the spikes of the span; whether it reaches its threshold."""
    log_times = log.times
    log_neurons = log.neurons
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
        rise = -math.expm1(-interval)
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
def _choose(potential, current, drift, threshold, n_rows, span, margin, is_watched):
    """Mark who may come near its threshold within the span, halves of a pair together; return how many."""
    n_neurons = threshold.shape[0]
    rise = -math.expm1(-span)
    bulge = _bulge(rise, span)
    n_watched = np.int64(0)
    for i in range(n_rows):
        near = False
        for k in range(i, n_neurons, n_rows):
            reach = potential[k] + max(drift[k], 0.0) * span + max(current[k], 0.0) * bulge
            near |= reach >= threshold[k] - margin
        for k in range(i, n_neurons, n_rows):
            is_watched[k] = near
        n_watched += 1 if near else 0
    return n_watched * (n_neurons // n_rows)


@uncounted
def _plan(
    network, potential, current, drift, clock, remaining, most_watched, cost_of_watching, is_watched
):  # fmt: skip
    """Choose whom to watch; return the length of the span, 0 where it costs less to watch all."""
    threshold = network.threshold
    n_rows = network.weights.shape[1]
    n_neurons = threshold.shape[0]
    rate = clock[RATE]
    n_sources = clock[SOURCES]
    if rate == 0.0:
        return 0.0
    fixed = COST_OF_SUM * n_sources * n_rows + COST_OF_NEURON * n_neurons
    n_events = min(fixed / (SHARE_OF_UPDATES * COST_OF_SPIKE), 0.5 * MOST_EVENTS_PER_SPAN)
    span = min(n_events / rate, max(2.0 * clock[SPAN], 0.5 * clock[TIME]))
    for _ in range(3):
        span = min(span, remaining)
        n_events = rate * span
        saved = n_events * cost_of_watching * n_neurons
        if saved <= fixed:
            return 0.0
        n_watched = _choose(potential, current, drift, threshold, n_rows, span, clock[MARGIN], is_watched)
        cost = fixed + n_watched * (n_events * cost_of_watching + n_sources * COST_OF_GATHERING)
        if n_watched <= most_watched and cost < saved:
            return span
        span *= 0.5
    return 0.0


@uncounted
def _copy_out(bias, threshold, potential, current, is_watched, watched):
    """Copy the watched neurons out; return how many they are, which may be more than there is room for."""
    members, own, slots, _ = watched
    n_watched = 0
    for i in range(bias.shape[0]):
        if is_watched[i] and n_watched >= slots.shape[0]:
            n_watched += 1
        elif is_watched[i]:
            members[n_watched] = i
            slots[n_watched] = -1
            own[OWN_BIAS, n_watched] = bias[i]
            own[OWN_THRESHOLD, n_watched] = threshold[i]
            own[OWN_POTENTIAL, n_watched] = potential[i]
            own[OWN_CURRENT, n_watched] = current[i]
            own[OWN_BEFORE, n_watched] = potential[i]
            n_watched += 1
    return n_watched


@uncounted
def _prepare_sources(row_of, watched, sources, n_slots):
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
def _watch_suspects(
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
    weights, _, row_of, factor, _, bias, threshold = network
    n_rows = weights.shape[1]
    n_neurons = threshold.shape[0]
    # Many are watched rather than followed one by one, when that costs more than to run the span again.
    run_again = n_events * COST_OF_SPIKE + n_slots * COST_OF_SUM * n_rows + COST_OF_NEURON * n_neurons
    follow = n_suspects * (n_slots * COST_OF_LOOKING_UP + n_events * COST_OF_REPLAYING)
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


@uncounted
def _span_of_all(
    network, potential, current, drift, clock, remaining, most_events, windows, watched, others, log
):  # fmt: skip
    """Run all neurons in place until most_events spikes; return (time that passed, number of spikes)."""
    weights, values, row_of, factor, exchange, bias, threshold = network
    n_neurons = threshold.shape[0]
    for i in range(n_neurons):
        others.potential[i] = potential[i]
    # Opening and closing a window costs the more the more neurons there are.
    events_per_window = min(max(LEAST_EVENTS_PER_WINDOW, n_neurons // 200), MOST_EVENTS_PER_WINDOW // 2)
    elapsed, clock[HORIZON], n_new, _, clock[MISSING] = run_watched(
        True, weights, values, row_of, factor, exchange, watched, bias, threshold, potential, current,
        clock[HORIZON], remaining, most_events, events_per_window, windows, log.times, log.neurons,
    )  # fmt: skip
    if elapsed == 0.0:
        return elapsed, n_new
    for i in range(n_neurons):
        drift[i] = (potential[i] - others.potential[i]) / elapsed
    n_sources = 0
    for event in range(n_new):
        windows.settled[log.neurons[event]] = -1
    for event in range(n_new):
        neuron = log.neurons[event]
        drift[neuron] += threshold[neuron] / elapsed
        n_sources -= windows.settled[neuron]
        windows.settled[neuron] = 0
    clock[SPAN] = elapsed
    clock[SOURCES] = n_sources
    return elapsed, n_new


@uncounted
def _span_of_few(
    network, potential, current, drift, clock, span, is_watched, windows, watched, sources, others, log
):  # fmt: skip
    """Run the watched, then bring the others up; return (time that passed, number of spikes).

    Returns -1 for the time, and nothing has changed, when too many would have to be watched, the span was
    run too often, or no time would pass.
    """
    weights, values, row_of, factor, exchange, bias, threshold = network
    n_neurons = threshold.shape[0]
    members, own, slots, _ = watched
    next_span = span
    n_runs = 0
    while True:
        n_runs += 1
        n_watched = _copy_out(bias, threshold, potential, current, is_watched, watched)
        if n_watched > slots.shape[0] or n_runs > MOST_RUNS:
            clock[SPAN] = 0.25 * span
            return -1.0, 0
        elapsed, horizon, n_new, n_slots, clock[MISSING] = run_watched(
            False, weights, values, row_of, factor, exchange, watched, own[OWN_BIAS, :n_watched],
            own[OWN_THRESHOLD, :n_watched], own[OWN_POTENTIAL, :n_watched], own[OWN_CURRENT, :n_watched],
            clock[HORIZON], span, MOST_EVENTS_PER_SPAN, LEAST_EVENTS_PER_WINDOW, windows, log.times,
            log.neurons,
        )  # fmt: skip
        if elapsed == 0.0:
            return -1.0, 0
        _summarise(log, n_new, elapsed, slots, n_slots, sources)
        n_sources = _prepare_sources(row_of, watched, sources, n_slots)
        n_suspects, clock[MARGIN] = _bring_up(
            network, potential, current, is_watched, elapsed, sources, n_sources, others
        )
        clock[SUSPECTS] += n_suspects
        if n_suspects == 0:
            break
        n_more = _watch_suspects(
            network, potential, current, elapsed, is_watched, watched, sources, others, log, n_new, n_slots,
            n_suspects,
        )  # fmt: skip
        if n_more == 0:
            break
        clock[REDONE] += 1
        next_span = 0.5 * span
    clock[SPAN] = next_span
    clock[HORIZON] = horizon
    clock[SOURCES] = n_slots
    clock[LAZY_TIME] += elapsed
    for i in range(n_neurons):
        drift[i] = (others.potential[i] - potential[i]) / elapsed
        potential[i] = others.potential[i]
        current[i] = others.current[i]
    for k in range(n_watched):
        i = members[k]
        drift[i] = (own[OWN_POTENTIAL, k] - own[OWN_BEFORE, k]) / elapsed
        potential[i] = own[OWN_POTENTIAL, k]
        current[i] = own[OWN_CURRENT, k]
    for event in range(n_new):
        neuron = members[log.neurons[event]]
        log.neurons[event] = neuron
        drift[neuron] += threshold[neuron] / elapsed
    return elapsed, n_new


@uncounted
def _advance_lazily(
    network, potential, current, drift, spike_counts, clock, stop_time, max_events, cost_of_watching,
    is_watched, windows, watched, sources, others, log, record, spike_times, spike_neurons,
):  # fmt: skip
    """Advance one network; return (status, number of spikes)."""
    most_watched = watched.slots.shape[0]
    # A small network goes from window to window, so that it may pause after each.
    most_in_place = 1 if most_watched == 0 else IN_PLACE_EVENTS
    n_events = 0
    while True:
        if n_events >= max_events:
            return PAUSED, n_events
        remaining = remaining_time(clock, stop_time)
        if remaining <= 0.0:
            return REACHED, n_events
        span = 0.0
        if most_watched > 0:
            span = _plan(
                network,
                potential,
                current,
                drift,
                clock,
                remaining,
                most_watched,
                cost_of_watching,
                is_watched,
            )
        elapsed, n_new = -1.0, 0
        if span > 0.0:
            elapsed, n_new = _span_of_few(
                network, potential, current, drift, clock, span, is_watched, windows, watched, sources,
                others, log,
            )  # fmt: skip
        if elapsed < 0.0:
            elapsed, n_new = _span_of_all(
                network, potential, current, drift, clock, remaining, most_in_place, windows, watched, others,
                log,
            )  # fmt: skip
        if elapsed > 0.0:
            clock[RATE] = n_new / elapsed
        for event in range(n_new):
            neuron = log.neurons[event]
            spike_counts[neuron] += 1
            if record:
                spike_times[n_events] = clock[TIME] + (log.times[event] + clock[TIME_ERROR])
                spike_neurons[n_events] = neuron
            n_events += 1
        if elapsed == remaining:
            clock[TIME] = stop_time
            clock[TIME_ERROR] = 0.0
        else:
            advance_clock(clock, elapsed)
        if clock[MISSING] >= 0.0:
            return MISSING_ROW, n_events


@compiled
def advance_lazily(
    weights, values, row_of, factor, exchange, cost_of_watching, drift, bias, threshold, potential, current,
    spike_counts, clock, active, first, stop_time, max_events, record, spike_times, spike_neurons,
):  # fmt: skip
    """As `dense.advance_dense`, for dense weights and, with two neurons a row, for mirrored pairs.

    `values` are the weights in one dimension, of which row_of[r] is row r.  Returns MISSING_ROW where a
    neuron is about to fire whose row is not there; clock[MISSING] says which.  The spike arrays must hold
    MOST_EVENTS_PER_SPAN + MOST_EVENTS_PER_WINDOW + n_neurons entries more than max_events: spans are
    never split.
    """
    n_neurons = threshold.shape[0]
    most_watched = min(n_neurons // LAZY_PART, MOST_WATCHED) if n_neurons >= FEWEST_LAZY else 0
    most_sources = most_watched + TOGETHER
    most_events = MOST_EVENTS_PER_SPAN + MOST_EVENTS_PER_WINDOW + n_neurons
    windows = Windows(
        excess=np.empty(n_neurons),
        may_fire=np.zeros((n_neurons + 7) // 8 * 8, dtype=np.bool_),
        neurons=np.empty(n_neurons, dtype=np.int64),
        candidates=np.empty((CANDIDATE_ROWS, n_neurons)),
        crossing=np.empty(n_neurons),
        settled=np.empty(n_neurons, dtype=np.int64),
        tied=np.empty(n_neurons, dtype=np.int64),
    )
    watched = Watched(
        members=np.empty(most_watched, dtype=np.int64),
        own=np.empty((OWN_ROWS, most_watched)),
        slots=np.empty(most_watched, dtype=np.int64),
        rows=np.empty(most_watched * most_watched),
    )
    sources = Sources(
        members=np.empty(most_sources, dtype=np.int64),
        rows=np.empty(most_sources, dtype=np.int64),
        sums=np.empty((4, most_sources)),
    )
    log = Log(
        times=np.empty(most_events),
        neurons=np.empty(most_events, dtype=np.int64),
        totals=np.empty(most_events),
        traces=np.empty(most_events),
    )
    others = Others(
        potential=np.empty(n_neurons),
        current=np.empty(n_neurons),
        suspect=np.empty(n_neurons, dtype=np.bool_),
        block=np.empty((3, BLOCK)),
    )
    is_watched = np.empty(n_neurons, dtype=np.bool_)
    # Copies that may be written, as those of the watched may: a kernel is compiled for either.
    network = Network(
        weights, values, row_of, factor, exchange, bias=np.empty(n_neurons), threshold=threshold.copy()
    )
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        for i in range(n_neurons):
            network.bias[i] = bias[k, i]
        status, n_new = _advance_lazily(
            network, potential[k], current[k], drift[k], spike_counts[k], clock[k], stop_time,
            max_events - n_events, cost_of_watching, is_watched, windows, watched, sources, others, log,
            record, spike_times[n_events:], spike_neurons[n_events:],
        )  # fmt: skip
        n_events += n_new
        if status != REACHED:
            return status, position, n_events
    return REACHED, active.shape[0], n_events

"""Dense weights and mirrored pairs, lazily: a spike touches the few neurons that can fire.

Time is cut into spans.  At the beginning of each the neurons that may fire in it are chosen: those are
watched.  They are copied out, and run by themselves, as if there were no others, with windows and
candidates as in `candidates`; rows of their own weights are gathered when a source first fires.  Then the
others are brought to the end of the span at once, source by source, and proven not to have fired in it
(`silent`).  Where the proof fails and one of them crosses its threshold, it is watched as well, and the span
is run again.  Nothing is written to the state before all is proven.

The choice is a guess, without consequence for what is right: whoever would come near its threshold if its
soma current stayed at the mean of the last span (`drift`).  In the first instants it is nearly everybody;
then all are watched where they are, and rows of weights are read in place.
"""

import math

import numpy as np

from snn._kernels.candidates import new_windows
from snn._kernels.clock import (
    HORIZON,
    LAZY_TIME,
    MARGIN,
    MISSING,
    MISSING_ROW,
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
from snn._kernels.silent import (
    BLOCK,
    COST_OF_NEURON,
    COST_OF_SPIKE,
    COST_OF_SUM,
    TOGETHER,
    Log,
    Network,
    Others,
    Sources,
    bring_up,
    bulge_of,
    prepare_sources,
    summarise,
    watch_suspects,
)
from snn._kernels.watched import (
    OWN_BEFORE,
    OWN_BIAS,
    OWN_CURRENT,
    OWN_POTENTIAL,
    OWN_ROWS,
    OWN_THRESHOLD,
    Watched,
    run_watched,
)

LEAST_EVENTS_PER_WINDOW = 8
CANDIDATES_PER_WINDOW = 384
"""Few neurons are all candidates anyway: their windows are longer, of so many spikes over their number."""
MOST_WATCHED = 4096
FEWEST_LAZY = 64
"""Networks of fewer neurons are watched as a whole."""
LAZY_PART = 2
"""As is one of which more than half would have to be."""
MOST_RUNS = 5
"""Of one span, before it is given up: a cascade may wake one neuron more in each."""
IN_PLACE_EVENTS = 32
"""Spikes in a span in which all are watched."""

# Nanoseconds, roughly, as in `silent`: an addition to a row of gathered weights.
COST_OF_GATHERING = 1.5
COST_OF_WATCHING = 0.3
"""What a spike costs more for each neuron that is watched: an argument, so that tests may raise it."""
MOST_GROWTH, SHARE_OF_PAST = 2.0, 0.5
"""A span is at most so many times the last one, or that part of all the time before it."""
MOST_SHARE_OF_PAST, SETTLED_PART = 2.0, 1 / 32
"""It may be that part of it where no more than this part of the neurons has to be watched: where many are
near their thresholds drifts still change, and long spans end in suspects."""
SPANS_COMPARED = 4
"""Lengths that a span is chosen from."""
MARGIN_KEPT = 0.9
"""What is left of the margin after a span that does not confirm it: a short one shows little of what a long
one will."""
SHARE_OF_UPDATES = 0.05
"""What part of the time of a span is meant to go into what does not grow with its spikes."""
EVENTS_PER_SPAN_AND_NEURON, LEAST_EVENTS_PER_SPAN, MOST_EVENTS_PER_SPAN = 8, 1024, 65_536
"""Room for the spikes of a span; what is planned is half of it at most."""


def most_events_per_span(n_neurons):
    """Return how many spikes a span may have, apart from those of its last window."""
    return min(max(EVENTS_PER_SPAN_AND_NEURON * n_neurons, LEAST_EVENTS_PER_SPAN), MOST_EVENTS_PER_SPAN)


@uncounted
def _choose(potential, current, drift, threshold, n_rows, span, margin, is_watched):
    """Mark who may come near its threshold within the span, halves of a pair together; return how many."""
    n_neurons = threshold.shape[0]
    rise = -math.expm1(-span)
    bulge = bulge_of(rise, span)
    for k in range(n_neurons):
        i = np.uint64(k)
        reach = potential[i] + max(drift[i], 0.0) * span + max(current[i], 0.0) * bulge
        is_watched[i] = reach >= threshold[i] - margin
    for first in range(n_rows, n_neurons, n_rows):
        for k in range(n_rows):
            near = is_watched[k] | is_watched[first + k]
            is_watched[k] = near
            is_watched[first + k] = near
    n_watched = np.int64(0)
    for k in range(n_neurons):
        n_watched += is_watched[np.uint64(k)]
    return n_watched


@uncounted
def _plan(network, potential, current, drift, clock, remaining, most_watched, is_watched):
    """Choose the span that costs least and whom to watch in it; return 0 where it is best to watch all."""
    threshold = network.threshold
    n_rows = network.weights.shape[1]
    n_neurons = threshold.shape[0]
    rate = clock[RATE]
    n_sources = clock[SOURCES]
    if rate == 0.0:
        return 0.0
    fixed = COST_OF_SUM * n_sources * n_rows + COST_OF_NEURON * n_neurons
    n_events = min(fixed / (SHARE_OF_UPDATES * COST_OF_SPIKE), 0.5 * network.events_per_span)
    safe = max(MOST_GROWTH * clock[SPAN], SHARE_OF_PAST * clock[TIME])
    span = min(n_events / rate, max(safe, MOST_SHARE_OF_PAST * clock[TIME]), remaining)
    # Costs of a unit of time: at first that of watching all.
    least = rate * network.cost_of_watching * n_neurons
    best = marked = 0.0
    for _ in range(SPANS_COMPARED):
        if fixed >= least * span:
            break
        n_watched = _choose(potential, current, drift, threshold, n_rows, span, clock[MARGIN], is_watched)
        marked = span
        cost = fixed + n_watched * (rate * span * network.cost_of_watching + n_sources * COST_OF_GATHERING)
        most = most_watched if span <= safe else min(most_watched, SETTLED_PART * n_neurons)
        if n_watched <= most and cost < least * span:
            least = cost / span
            best = span
        span = safe if 0.5 * span < safe < span else 0.5 * span
    if best > 0.0 and best != marked:
        _choose(potential, current, drift, threshold, n_rows, best, clock[MARGIN], is_watched)
    return best


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
def _span_of_all(
    network, potential, current, drift, clock, remaining, most_events, windows, watched, others, log
):  # fmt: skip
    """Run all neurons in place until most_events spikes; return (time that passed, number of spikes)."""
    weights, values, row_of, factor, exchange, bias, threshold, _, _ = network
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
    weights, values, row_of, factor, exchange, bias, threshold, _, _ = network
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
        events_per_window = max(LEAST_EVENTS_PER_WINDOW, CANDIDATES_PER_WINDOW // max(n_watched, 1))
        events_per_window = min(events_per_window, MOST_EVENTS_PER_WINDOW // 2)
        elapsed, horizon, n_new, n_slots, clock[MISSING] = run_watched(
            False, weights, values, row_of, factor, exchange, watched, own[OWN_BIAS, :n_watched],
            own[OWN_THRESHOLD, :n_watched], own[OWN_POTENTIAL, :n_watched], own[OWN_CURRENT, :n_watched],
            clock[HORIZON], span, network.events_per_span, events_per_window, windows, log.times,
            log.neurons,
        )  # fmt: skip
        if elapsed == 0.0:
            return -1.0, 0
        summarise(log, n_new, elapsed, slots, n_slots, sources)
        n_sources = prepare_sources(row_of, watched, sources, n_slots)
        n_suspects, margin = bring_up(
            network, potential, current, is_watched, elapsed, sources, n_sources, others
        )
        clock[MARGIN] = max(margin, MARGIN_KEPT * clock[MARGIN])
        clock[SUSPECTS] += n_suspects
        if n_suspects == 0:
            break
        n_more = watch_suspects(
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
    network, potential, current, drift, spike_counts, clock, stop_time, max_events,
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
                network, potential, current, drift, clock, remaining, most_watched, is_watched
            )  # fmt: skip
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
    weights, values, row_of, factor, exchange, cost_of_watching, events_per_span, drift, bias, threshold,
    potential, current, spike_counts, clock, active, first, stop_time, max_events, record, spike_times,
    spike_neurons,
):  # fmt: skip
    """As `dense.advance_dense`, for dense weights and, with two neurons a row, for mirrored pairs.

    `values` are the weights in one dimension, of which row_of[r] is row r.  Returns MISSING_ROW where a
    neuron is about to fire whose row is not there; clock[MISSING] says which.  The spike arrays must hold
    events_per_span + MOST_EVENTS_PER_WINDOW + n_neurons entries more than max_events: spans are
    never split.
    """
    n_neurons = threshold.shape[0]
    most_watched = min(n_neurons // LAZY_PART, MOST_WATCHED) if n_neurons >= FEWEST_LAZY else 0
    most_sources = most_watched + TOGETHER
    most_events = events_per_span + MOST_EVENTS_PER_WINDOW + n_neurons
    windows = new_windows(n_neurons)
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
        weights,
        values,
        row_of,
        factor,
        exchange,
        bias=np.empty(n_neurons),
        threshold=threshold.copy(),
        cost_of_watching=cost_of_watching,
        events_per_span=events_per_span,
    )
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        for i in range(n_neurons):
            network.bias[i] = bias[k, i]
        status, n_new = _advance_lazily(
            network, potential[k], current[k], drift[k], spike_counts[k], clock[k], stop_time,
            max_events - n_events, is_watched, windows, watched, sources, others, log,
            record, spike_times[n_events:], spike_neurons[n_events:],
        )  # fmt: skip
        n_events += n_new
        if status != REACHED:
            return status, position, n_events
    return REACHED, active.shape[0], n_events

"""Windows of time, and the few neurons that could fire in one: its candidates.

What is kept of each neuron is what a spike changes by multiples of its weight: with tau the time since
the window began and T its length,

    p = h e^tau              the synaptic current, referred to the beginning of the window
    y = v(T) - c T           the potential that its end will find without further spikes

A spike at tau adds W e^tau to p and W (1 - e^-(T - tau)) to y of its targets; a spike of its own
takes the threshold from y.  Whoever could fire before the end has y + max(c, 0) T >= theta (the
bound of the dense kernel); kept is the excess y + max(c, 0) T - theta, so that its sign finds the
candidates while the spike is delivered.

The candidates, a dozen or so, are copied out, a column each of `candidates`, and until the window
ends it is the copy that counts (their excess becomes -inf: nobody is found twice).  Each has a time
before which it does not cross: since the slope of v is at most c + max(h, 0) until a spike arrives,

    now + (theta - v) / (c + max(h, 0)).

It is renewed for all of them at every spike, in one pass without branches.  The earliest of these times is
replaced by the exact crossing, until the earliest is exact, and that neuron fires.

What runs once a spike is inlined and takes no slices: calls with a dozen arrays and the counting of
references to slices cost as much as the work.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.clock import SHORTEST_HORIZON
from snn._kernels.compiling import compiled, inlined, uncounted
from snn._kernels.crossing import SEARCH_SLACK, crossing_time

# Rows of `candidates`, a column each; ARRIVING is what the spikes of this instant weigh.
BIAS, THRESHOLD, FORESEEN, CURRENT, ARRIVING = 0, 1, 2, 3, 4
CANDIDATE_ROWS = 5

LONGEST_WINDOW = 16.0
INFINITE = int(np.array(np.inf).view(np.int64))
"""The bits of inf."""


class Windows(NamedTuple):
    """Work arrays of windows."""

    excess: np.ndarray
    may_fire: np.ndarray
    neurons: np.ndarray
    """Of each candidate, its neuron."""
    candidates: np.ndarray
    crossing: np.ndarray
    settled: np.ndarray
    tied: np.ndarray


@compiled
def new_windows(n_neurons):
    """Return the work arrays for so many neurons."""
    return Windows(
        excess=np.empty(n_neurons),
        may_fire=np.zeros((n_neurons + 7) // 8 * 8, dtype=np.bool_),
        neurons=np.empty(n_neurons, dtype=np.int64),
        candidates=np.empty((CANDIDATE_ROWS, n_neurons)),
        crossing=np.empty(n_neurons),
        settled=np.empty(n_neurons, dtype=np.int64),
        tied=np.empty(n_neurons, dtype=np.int64),
    )


@inlined
def next_horizon(horizon, length, crowded, n_fired, wanted):
    """Return how long the next window is to be: such that it has about the wanted number of spikes."""
    if crowded:
        return max(0.5 * length, SHORTEST_HORIZON)
    if length < horizon:
        return horizon
    return min(length * min(max(wanted / (n_fired + 0.5), 0.5), 2.0), LONGEST_WINDOW)


@uncounted
def open_window(bias, threshold, potential, current, length, excess, may_fire):
    rise = -math.expm1(-length)
    for i in range(potential.shape[0]):
        v = potential[i]
        bound = threshold[i] - (bias[i] if bias[i] > 0.0 else 0.0) * length
        over = v + current[i] * rise - bound
        excess[i] = over
        may_fire[i] = (over >= 0.0) | (v >= threshold[i])


@uncounted
def close_window(bias, threshold, potential, current, now, length, excess):
    """Bring potentials and currents to `now`, at the end of the window or before it."""
    decay = math.exp(-now)
    rest = decay - math.exp(-length)
    for i in range(potential.shape[0]):
        bound = threshold[i] - (bias[i] if bias[i] > 0.0 else 0.0) * length
        potential[i] = excess[i] + bound + bias[i] * now - current[i] * rest
        current[i] *= decay


@inlined
def deliver(excess, current, first, n_targets, values, offset, to_foreseen, to_current):
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
def add_candidate(n_candidates, i, foreseen, bias, threshold, excess, current, neurons, candidates):
    """Make neuron i the candidate in column n_candidates; it needs a bound yet."""
    neurons[n_candidates] = i
    candidates[BIAS, n_candidates] = bias[i]
    candidates[THRESHOLD, n_candidates] = threshold[i]
    candidates[FORESEEN, n_candidates] = foreseen
    candidates[CURRENT, n_candidates] = current[i]
    candidates[ARRIVING, n_candidates] = 0.0
    excess[i] = -math.inf


@uncounted
def find_candidates(
    first, last, length, n_candidates, bias, threshold, excess, current, neurons, candidates
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
                add_candidate(
                    n_candidates, i, foreseen, bias, threshold, excess, current, neurons, candidates
                )
                n_candidates += 1
    return n_candidates


@uncounted
def first_candidates(
    bias, threshold, potential, current, rise, excess, may_fire, neurons, candidates
):  # fmt: skip
    """Make candidates of those marked by `open_window`; return their number."""
    words = may_fire.view(np.uint64)
    n_neurons = bias.shape[0]
    n_candidates = 0
    for word in range((n_neurons + 7) // 8):
        if words[word] == 0:
            continue
        for i in range(8 * word, min(8 * word + 8, n_neurons)):
            if may_fire[i]:
                foreseen = potential[i] + current[i] * rise
                if potential[i] >= threshold[i]:
                    # Who stands at the threshold still does so when the current's share is taken away again.
                    foreseen += 2.0**-52 * (abs(foreseen) + abs(current[i]))
                add_candidate(
                    n_candidates, i, foreseen, bias, threshold, excess, current, neurons, candidates
                )
                n_candidates += 1
    return n_candidates


@inlined
def renew_bounds(candidates, n_candidates, crossing, to_foreseen, to_current, now, fade, rest):
    """Deliver what arrives, and note times before which none crosses; fade = e^-now, rest = e^-now - e^-T."""
    for column in range(n_candidates):
        k = np.uint64(column)
        weight = candidates[ARRIVING, k]
        candidates[ARRIVING, k] = 0.0
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
        time = now + (gap if gap > 0.0 else 0.0) / slope
        crossing[k] = time if slope > 0.0 else (math.inf if gap > 0.0 else now)


@inlined
def settle(k, candidates, crossing, settled, stamp, now, fade, rest, length):
    """Note the exact window time at which a candidate crosses, inf if after the window."""
    bias = candidates[BIAS, k]
    p = candidates[CURRENT, k]
    v = candidates[FORESEEN, k] + bias * now - p * rest
    time = now + crossing_time(candidates[THRESHOLD, k] - v, bias, p * fade, length - now)
    crossing[k] = time if time <= length else math.inf
    settled[k] = stamp


@inlined
def next_to_fire(
    candidates, n_candidates, crossing, ordered, settled, stamp, columns, now, fade, rest, length
):  # fmt: skip
    """Return how many neurons fire next, all in one instant; `columns` receives theirs.

    `settled` tells whose crossing is exact: it bears the stamp.  `ordered` are the same bits as
    integers, whose order is that of numbers that are not negative, and whose minimum a processor
    takes eight at a time.
    """
    while True:
        first = INFINITE
        for k in range(n_candidates):
            first = min(first, ordered[np.uint64(k)])
        n_tied = 0
        column = 0
        while n_tied >= 0 and column < n_candidates:
            if ordered[column] == first:
                if settled[column] != stamp:
                    n_tied = -1
                    break
                columns[n_tied] = column
                n_tied += 1
            column += 1
        if first >= INFINITE or (n_tied >= 0 and crossing[columns[0]] > length):
            return 0
        if n_tied > 0:
            return n_tied
        if crossing[column] > length:
            return 0
        settle(column, candidates, crossing, settled, stamp, now, fade, rest, length)


@inlined
def leave_window(n_candidates, bias, threshold, length, excess, current, neurons, candidates):
    """Write what was kept of the candidates back."""
    for k in range(n_candidates):
        i = neurons[k]
        excess[i] = candidates[FORESEEN, k] - (threshold[i] - max(bias[i], 0.0) * length)
        current[i] = candidates[CURRENT, k]


@inlined
def sort_few(values, n_values):
    """Sort the first few values in place, by insertion."""
    for last in range(1, n_values):
        value = values[last]
        place = last
        while place > 0 and values[place - 1] > value:
            values[place] = values[place - 1]
            place -= 1
        values[place] = value


@inlined
def reset_fired(n_tied, tied, neurons, candidates):
    """Reset the candidates that fire, and list their neurons in order in place of their columns."""
    for c in range(n_tied):
        candidates[FORESEEN, tied[c]] -= candidates[THRESHOLD, tied[c]]
        tied[c] = neurons[tied[c]]
    sort_few(tied, n_tied)

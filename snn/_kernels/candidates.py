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
ends it is the copy that counts (their excess becomes -inf: nobody is found twice).  Each keeps a time
before which it does not cross: since the slope of v is at most c + max(h, 0) until it is touched again,

    now + (theta - v) / (c + max(h, 0)).

The earliest of these times is replaced by the exact crossing until the earliest is exact, and that
neuron fires.

What runs once a spike is inlined and takes no slices: calls with a dozen arrays and the counting of
references to slices cost as much as the work.
"""

import math

import numpy as np

from snn._kernels.compiling import compiled, inlined
from snn._kernels.crossing import SEARCH_SLACK, crossing_time

# Rows of `candidates`, a column each.
BIAS, THRESHOLD, FORESEEN, CURRENT = 0, 1, 2, 3
CANDIDATE_ROWS = 4


@compiled
def open_window(bias, threshold, potential, current, length, excess, may_fire):
    rise = -math.expm1(-length)
    for i in range(potential.shape[0]):
        v = potential[i]
        bound = threshold[i] - (bias[i] if bias[i] > 0.0 else 0.0) * length
        over = v + current[i] * rise - bound
        excess[i] = over
        may_fire[i] = (over >= 0.0) | (v >= threshold[i])


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
def bound_candidate(k, candidates, crossing, is_exact, now, fade, rest):
    """Note a window time before which a candidate does not cross; fade = e^-now, rest = e^-now - e^-T."""
    bias = candidates[BIAS, k]
    threshold = candidates[THRESHOLD, k]
    p = candidates[CURRENT, k]
    v = candidates[FORESEEN, k] + bias * now - p * rest
    gap = threshold - v
    time = math.inf
    is_exact[k] = p == 0.0
    if p == 0.0:
        if gap <= 0.0:
            time = now
        elif bias > 0.0:
            time = now + gap / bias
    else:
        h = p * fade
        slope = bias + (h if h > 0.0 else 0.0)
        gap -= SEARCH_SLACK * (threshold + abs(v) + abs(h))
        if gap <= 0.0:
            time = now
        elif slope > 0.0:
            time = now + gap / slope
    crossing[k] = time


@inlined
def settle_candidate(k, candidates, crossing, is_exact, now, fade, rest, length):
    """Note the window time at which a candidate crosses, inf if after the window."""
    bias = candidates[BIAS, k]
    p = candidates[CURRENT, k]
    v = candidates[FORESEEN, k] + bias * now - p * rest
    time = now + crossing_time(candidates[THRESHOLD, k] - v, bias, p * fade, length - now)
    crossing[k] = time if time <= length else math.inf
    is_exact[k] = True


@inlined
def deliver_to_candidates(
    neurons, n_candidates, first, n_targets, values, offset, factor, candidates, to_foreseen, to_current,
    crossing, is_exact, now, fade, rest,
):  # fmt: skip
    """As `deliver`; who is touched gets a new bound, as in `bound_candidate`."""
    for k in range(n_candidates):
        i = neurons[k] - first
        if i < 0 or i >= n_targets:
            continue
        weight = factor * values[np.uint64(offset + i)]
        if weight == 0.0:
            continue
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
        time = now + gap / slope if slope > 0.0 else math.inf
        crossing[k] = now if gap <= 0.0 else time
        is_exact[k] = False


@inlined
def earliest_candidate(crossing, n_candidates):
    """Return (column, how many have the same time) of the earliest; (0, 0) when there are none."""
    first = math.inf
    column = 0
    n_equal = 0
    for k in range(n_candidates):
        time = crossing[k]
        earlier = time < first
        n_equal = 1 if earlier else n_equal + (1 if time == first else 0)
        column = k if earlier else column
        first = time if earlier else first
    return column, n_equal


@inlined
def add_candidate(
    n_candidates, i, foreseen, now, fade, rest, bias, threshold, excess, current, neurons, candidates,
    crossing, is_exact,
):  # fmt: skip
    """Make neuron i the candidate in column n_candidates, with a bound on its crossing."""
    neurons[n_candidates] = i
    candidates[BIAS, n_candidates] = bias[i]
    candidates[THRESHOLD, n_candidates] = threshold[i]
    candidates[FORESEEN, n_candidates] = foreseen
    candidates[CURRENT, n_candidates] = current[i]
    excess[i] = -math.inf
    bound_candidate(n_candidates, candidates, crossing, is_exact, now, fade, rest)


@compiled
def find_candidates(
    first, last, now, fade, rest, length, n_candidates, bias, threshold, excess, current, neurons, candidates,
    crossing, is_exact,
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
                    n_candidates, i, foreseen, now, fade, rest, bias, threshold, excess, current, neurons,
                    candidates, crossing, is_exact,
                )  # fmt: skip
                n_candidates += 1
    return n_candidates

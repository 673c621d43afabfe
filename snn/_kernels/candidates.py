"""Windows of time and their candidates: the few neurons that could fire in a window.

A group of neurons, which is a whole network or its active set, goes through a window together.  `neuron`
defines y and p.  A neuron that could fire before the end of the window has y + max(c, 0) T >= theta - slack.
The loop keeps the excess over this bound for each neuron.  When a spike raises the excess of a neuron to zero
or more, the neuron becomes a candidate.

The candidates, usually about a dozen, are copied to the columns of `candidates`.  Until the window ends, only
the column of a candidate is up to date.  The excess of a candidate is -inf, so that the neuron does not
become a candidate twice.  Each candidate has a lower bound on the time at which its potential crosses the
threshold.  At every spike, one pass without branches renews these bounds.  Then the smallest bound is
replaced by the exact crossing of its candidate, again and again, until the smallest time is an exact
crossing.  The neuron with this crossing fires, together with all neurons that cross in the same instant
(`neuron.tie_tolerance`).

Code that runs at every spike is inlined and takes no slices of arrays, because calls with a dozen arguments,
and counting the references to slices, would take as long as the code itself.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import as_integers, inlined, inner
from snn._kernels.neuron import (
    LONGEST_TIE,
    at_threshold,
    crossing_time,
    earliest_crossing,
    end_bound,
    potential_in_window,
    slack,
    tie_tolerance,
)

# Rows of `Windows.candidates`; ARRIVING is the sum of the weights that arrive in the present instant.
BIAS, THRESHOLD, END_POTENTIAL, CURRENT, ARRIVING = 0, 1, 2, 3, 4
CANDIDATE_ROWS = 5

INFINITE = int(np.array(np.inf).view(np.int64))  # the bits of inf, read as an integer


class Windows(NamedTuple):
    """Work arrays of windows."""

    excess: np.ndarray  # for each neuron, its excess over the bound
    may_fire: np.ndarray  # for each neuron, whether it could fire in a new window
    neurons: np.ndarray  # for each candidate, its neuron
    column_of: np.ndarray  # for each neuron that is a candidate, its column in `candidates`
    candidates: np.ndarray
    crossing: np.ndarray  # for each candidate, its exact crossing or a lower bound on its crossing
    exact_at: np.ndarray  # for each candidate, the number of the instant for which its crossing is exact
    tied: np.ndarray  # columns of the candidates that fire together, later their neurons
    # Columns of the candidates that the spikes of an instant reach, for forms that renew only these columns.
    touched: np.ndarray
    n_touched: np.ndarray  # number of touched candidates; an array of one number


class Moment(NamedTuple):
    """An instant of a window."""

    now: float
    growth: float  # e^now
    fade: float  # e^-now
    rest: float  # e^-now - e^-T
    to_end: float  # 1 - e^-(T - now), which a spike of weight 1 adds to y


@inlined
def moment_at(now, end_fade):
    """Return the instant `now` of a window of length T; `end_fade` is e^-T."""
    growth = math.exp(now)
    fade = 1.0 / growth
    return Moment(now, growth, fade, fade - end_fade, 1.0 - end_fade * growth)


@inner
def close_window(n_candidates, now, length, group, windows):
    """Advance potentials and currents to `now`, which is the end of the window or an earlier time."""
    for k in range(n_candidates):
        i = windows.neurons[k]
        y = windows.candidates[END_POTENTIAL, k]
        windows.excess[i] = y - end_bound(group.bias[i], group.threshold[i], group.potential[i], length)
        group.current[i] = windows.candidates[CURRENT, k]
    decay = math.exp(-now)
    rest = decay - math.exp(-length)
    for i in range(group.potential.shape[0]):
        bias = group.bias[i]
        y = windows.excess[i] + end_bound(bias, group.threshold[i], group.potential[i], length)
        group.potential[i] = potential_in_window(y, bias, group.current[i], now, rest)
        group.current[i] *= decay


@inlined
def add_to_range(windows, current, first, n_targets, values, offset, to_end, growth):
    """Deliver one spike to a range of targets; return whether a target becomes a candidate."""
    excess = windows.excess
    reached = np.int64(0)
    for k in range(n_targets):
        # Unsigned indices cannot be negative; signed indices would prevent vectorisation of the loop.
        i = np.uint64(first + k)
        weight = values[np.uint64(offset + k)]
        over = excess[i] + to_end * weight
        excess[i] = over
        current[i] += growth * weight
        reached |= np.int64(1) if over >= 0.0 else np.int64(0)
    return reached != 0


@inlined
def add_candidate(n_candidates, i, end_potential, group, windows):
    """Make neuron i the candidate in column n_candidates, without a bound on its crossing."""
    windows.neurons[n_candidates] = i
    windows.column_of[i] = n_candidates
    windows.candidates[BIAS, n_candidates] = group.bias[i]
    windows.candidates[THRESHOLD, n_candidates] = group.threshold[i]
    windows.candidates[END_POTENTIAL, n_candidates] = end_potential
    windows.candidates[CURRENT, n_candidates] = group.current[i]
    windows.candidates[ARRIVING, n_candidates] = 0.0
    windows.excess[i] = -math.inf


@inlined
def end_potential_of(i, length, group, windows):
    """Return y of a neuron that is not a candidate."""
    return windows.excess[i] + end_bound(group.bias[i], group.threshold[i], group.potential[i], length)


@inner
def find_candidates(first, last, length, n_candidates, group, windows):
    """Turn the neurons of a range with an excess >= 0 into candidates; return the number of candidates."""
    for block in range(first, last, 32):
        n_block = min(32, last - block)
        reached = np.int64(0)
        for k in range(n_block):
            reached |= np.int64(1) if windows.excess[np.uint64(block + k)] >= 0.0 else np.int64(0)
        if reached == 0:
            continue
        for i in range(block, block + n_block):
            if windows.excess[i] >= 0.0:
                y = end_potential_of(i, length, group, windows)
                add_candidate(n_candidates, i, y, group, windows)
                n_candidates += 1
    return n_candidates


@inner
def open_window(group, length, windows):
    """Set the excess of each neuron, turn neurons that could fire into candidates; return their number."""
    rise = -math.expm1(-length)
    for i in range(group.potential.shape[0]):
        v, threshold = group.potential[i], group.threshold[i]
        over = v + group.current[i] * rise - end_bound(group.bias[i], threshold, v, length)
        windows.excess[i] = over
        windows.may_fire[i] = (over >= 0.0) | (v >= threshold)
    words = as_integers(windows.may_fire)
    n_neurons = group.bias.shape[0]
    n_candidates = 0
    for word in range((n_neurons + 7) // 8):
        if words[word] == 0:
            continue
        for i in range(8 * word, min(8 * word + 8, n_neurons)):
            if windows.may_fire[i]:
                y = group.potential[i] + group.current[i] * rise
                if group.potential[i] >= group.threshold[i]:
                    y = at_threshold(y, group.current[i])
                add_candidate(n_candidates, i, y, group, windows)
                n_candidates += 1
    return n_candidates


@inlined
def renew_bound(k, moment, windows):
    """Deliver the arriving weights to a candidate, and store a lower bound on its crossing."""
    candidates = windows.candidates
    weight = candidates[ARRIVING, k]
    candidates[ARRIVING, k] = 0.0
    bias = candidates[BIAS, k]
    threshold = candidates[THRESHOLD, k]
    y = candidates[END_POTENTIAL, k] + moment.to_end * weight
    p = candidates[CURRENT, k] + moment.growth * weight
    candidates[END_POTENTIAL, k] = y
    candidates[CURRENT, k] = p
    h = p * moment.fade
    v = potential_in_window(y, bias, p, moment.now, moment.rest)
    gap = threshold - v - slack(threshold, v, h)
    windows.crossing[k] = moment.now + earliest_crossing(gap, bias, h)


@inlined
def renew_bounds(n_candidates, moment, windows):
    """Renew the bounds of all candidates."""
    for column in range(n_candidates):
        renew_bound(np.uint64(column), moment, windows)


# With more than MANY_CANDIDATES candidates, all crossings that could be the first are refined in one pass.
# `python -m tests.benchmarks correlated` shows the effect of MANY_CANDIDATES.
MANY_CANDIDATES = 64
PENDING = -1  # value of `exact_at` for a candidate that is listed in `touched`


@inlined
def touch(column, windows):
    """List a candidate whose bound must be renewed."""
    if windows.exact_at[column] != PENDING:
        windows.exact_at[column] = PENDING
        windows.touched[windows.n_touched[0]] = column
        windows.n_touched[0] += 1


@inlined
def renew_touched(moment, windows):
    """Renew the bounds of the listed candidates, and empty the list."""
    for t in range(windows.n_touched[0]):
        k = windows.touched[t]
        renew_bound(k, moment, windows)
        windows.exact_at[k] = 0
    windows.n_touched[0] = 0


@inlined
def refine(k, moment, length, instant, windows):
    """Store the exact crossing of a candidate, or inf if it is later than LONGEST_TIE after the window."""
    bias = windows.candidates[BIAS, k]
    p = windows.candidates[CURRENT, k]
    y = windows.candidates[END_POTENTIAL, k]
    v = potential_in_window(y, bias, p, moment.now, moment.rest)
    horizon = length - moment.now + LONGEST_TIE
    time = crossing_time(windows.candidates[THRESHOLD, k] - v, bias, p * moment.fade, horizon)
    windows.crossing[k] = moment.now + time
    windows.exact_at[k] = instant


@inlined
def tolerance_of(column, moment, fade, windows):
    """Return the tolerance of the exact crossing of a candidate; `fade` is e^-t at the crossing t."""
    threshold, bias = windows.candidates[THRESHOLD, column], windows.candidates[BIAS, column]
    y, p = windows.candidates[END_POTENTIAL, column], windows.candidates[CURRENT, column]
    crossing = windows.crossing[column]
    return tie_tolerance(threshold, y, bias, p * moment.fade, crossing, bias + p * fade)


@inlined
def first_to_cross(n_candidates, moment, length, end_fade, instant, windows):
    """Return the column of the candidate that crosses first, with its exact crossing; -1 if none crosses."""
    # The bits of nonnegative floats, read as integers, have the same order, and are compared eight at a time.
    bits = as_integers(windows.crossing)
    while True:
        first = INFINITE
        for k in range(n_candidates):
            first = min(first, bits[np.uint64(k)])
        column = 0
        while column < n_candidates and bits[column] != first:
            column += 1
        if first >= INFINITE or windows.crossing[column] > length + LONGEST_TIE:
            return -1
        if windows.exact_at[column] == instant:
            if windows.crossing[column] <= length:
                return column
            if windows.crossing[column] > length + tolerance_of(column, moment, end_fade, windows):
                return -1
            # Only rounding makes the crossing later than the end of the window, where the run may end.
            windows.crossing[column] = length
            return column
        refine(column, moment, length, instant, windows)
        if n_candidates > MANY_CANDIDATES:
            # If crossings were refined one by one, each refinement would cost a search of all candidates.
            limit = min(windows.crossing[column], length)
            for k in range(n_candidates):
                if windows.crossing[k] <= limit and windows.exact_at[k] != instant:
                    refine(k, moment, length, instant, windows)
                    limit = min(limit, windows.crossing[k])


@inlined
def find_tied(column, n_candidates, moment, fade, length, instant, windows):
    """List the columns of all candidates that cross in the instant of `column`; return their number."""
    # `column` crosses at time t, and `fade` is e^-t; t was computed from the state at `moment`.
    limit = windows.crossing[column] + tolerance_of(column, moment, fade, windows)
    n_close = np.int64(0)
    for k in range(n_candidates):
        n_close += np.int64(1) if windows.crossing[np.uint64(k)] <= limit else np.int64(0)
    windows.tied[0] = column
    if n_close <= 1:  # `n_close` is 0 if numbers are out of range
        return 1
    n_tied = 0
    for k in range(n_candidates):
        if windows.crossing[k] <= limit:
            if windows.exact_at[k] != instant:
                refine(k, moment, length, instant, windows)
            if windows.crossing[k] <= limit:
                windows.tied[n_tied] = k
                n_tied += 1
    return n_tied


@inlined
def reset_tied(n_tied, windows):
    """Reset the candidates that fire, and replace their columns in `tied` by their neurons, sorted."""
    tied = windows.tied
    for c in range(n_tied):
        column = tied[c]
        windows.candidates[END_POTENTIAL, column] -= windows.candidates[THRESHOLD, column]
        neuron = windows.neurons[column]
        place = c
        while place > 0 and tied[place - 1] > neuron:
            tied[place] = tied[place - 1]
            place -= 1
        tied[place] = neuron

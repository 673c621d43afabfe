"""Judge, in numbers of 106 bits, whether each spike of a recorded run obeys the model.

The run is replayed.  From one recorded instant to the next all potentials follow the closed form, ``v + c s +
h (1 - e^-s)`` (docs/theory.md, equations 1-3); at an instant the neurons that fired lose their thresholds and
send their weights.  Unlike a simulator, the judge searches for no crossings: a run is right if

1. no neuron is above its threshold anywhere between two instants,
2. neurons that fire are at their thresholds,
3. neurons that cross in one instant fire in it, in the order of their indices,
4. potentials, currents and charges at the end equal the results of the replay.

"Above" and "at" allow only for rounding.  The possible rounding error of each potential is summed to first
order: units of 2^-53 of each number that was added, and of the recorded times.

As documented, an instant has all crossings within 2^10 roundings of the numbers from which the first crossing
is computed.  These numbers depend on where a simulator begins its windows.  Between their smallest and their
largest possible values, the judge accepts the simulator's decision and counts it as `n_undecided`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mpmath
import numba
import numpy as np

ROUNDING = 2.0**-53
MANY_ROUNDINGS = 8.0
TIE, LONGEST_TIE, FLATTEST = 2.0**-42, 2.0**-30, 2.0**-10
LONGEST_WINDOW = 16.0
SURE = 0.5
"""Neurons must fire together if their crossings differ by less than this share of the smallest tolerance."""

FAULTS = (
    "",
    "neuron {neuron} crossed its threshold before time {time!r} without a spike, by {amount:.3g} of it",
    "neuron {neuron} fired at time {time!r} below its threshold, by {amount:.3g} of it",
    "neuron {neuron} crossed in the instant {time!r} of other spikes and did not fire in it",
    "neuron {neuron} was at its threshold at the start and did not fire at once",
    "neuron {neuron} ended with another potential than its spikes cause: off by {amount:.3g} thresholds",
    "neuron {neuron} ended with another current than spikes cause: off by {amount:.3g} thresholds",
    "neuron {neuron} has another charge than spikes cause: off by {amount:.3g} thresholds",
    "spikes are not in the order of time and of indices, or outside of the run: neuron {neuron}, {time!r}",
)  # fmt: skip
MISSED, BELOW, SPLIT, NOT_AT_ONCE, POTENTIAL, CURRENT, CHARGE, ORDER = range(1, len(FAULTS))

LEAST_POWER, MOST_POWER = -14, 14
"""Errors of times are counted by their powers of two, in roundings; the first and the last bin are open."""


class Verdict(NamedTuple):
    """The first fault of a run, "" if there is none, and figures of its rounding."""

    fault: str
    errors: np.ndarray
    """Instants by the error of their time, in bins of powers of two.

    The unit is one rounding, 2^-53, of the time and of what the crossing is computed from, in units of time:
    the threshold, the potential before, the drive and the current, over the slope at the crossing.
    """
    worst_error: float
    """The largest error of the time of an instant, in the same unit."""
    worst_share: float
    """The largest distance of a potential from its threshold at a spike, over its bound for rounding."""
    n_ties: int
    """Number of instants with several spikes."""
    n_undecided: int
    """Number of cases in which the documented rule does not decide whether a neuron fires in an instant."""


# -- numbers of 106 bits -------------------------------------------------------------------------
#
# A pair (high, low) is the exact sum of two floats, and low is below the last bit of high.  The algorithms of
# Dekker (1971) and Knuth compute sums and products; errors are a few units of 2^-104 of the operands.

SPLITTER = 2.0**27 + 1.0
N_TERMS = 16
N_HALVINGS = 5


def pair(value) -> tuple[float, float]:
    """Return the pair that represents an mpmath number or a float."""
    high = float(value)
    return high, float(mpmath.mpf(value) - mpmath.mpf(high))


with mpmath.workdps(50):
    LN2_HIGH, LN2_LOW = pair(mpmath.log(2))
    INVERSE_FACTORIALS = np.array([pair(1 / mpmath.factorial(k)) for k in range(N_TERMS + 1)])


@numba.njit(cache=True)
def two_sum(a, b):
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@numba.njit(cache=True)
def quick_sum(a, b):
    """Return the sum as `two_sum` does, for |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


@numba.njit(cache=True)
def two_product(a, b):
    product = a * b
    scaled = SPLITTER * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = SPLITTER * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@numba.njit(cache=True)
def add(a, b):
    high, low = two_sum(a[0], b[0])
    more, least = two_sum(a[1], b[1])
    high, low = quick_sum(high, low + more)
    return quick_sum(high, low + least)


@numba.njit(cache=True)
def subtract(a, b):
    return add(a, (-b[0], -b[1]))


@numba.njit(cache=True)
def multiply(a, b):
    high, low = two_product(a[0], b[0])
    return quick_sum(high, low + (a[0] * b[1] + a[1] * b[0]))


@numba.njit(cache=True)
def _near_expm1(x):
    """Return y = e^x - 1 for |x| <= 0.36: Taylor's series at x / 32, then five times y (2 + y)."""
    scale = 0.5**N_HALVINGS
    x = x[0] * scale, x[1] * scale
    total = (0.0, 0.0)
    for k in range(N_TERMS, 0, -1):
        total = add(multiply(total, x), (INVERSE_FACTORIALS[k, 0], INVERSE_FACTORIALS[k, 1]))
    total = multiply(total, x)
    for _ in range(N_HALVINGS):
        total = multiply(total, add((2.0, 0.0), total))
    return total


@numba.njit(cache=True)
def decay(time):
    """Return e^-time and 1 - e^-time for time >= 0, both to nearly full relative precision."""
    if time[0] <= 0.34:
        rise = _near_expm1((-time[0], -time[1]))
        rise = -rise[0], -rise[1]
        return subtract((1.0, 0.0), rise), rise
    if time[0] > 745.0:
        return (0.0, 0.0), (1.0, 0.0)
    halvings = math.floor(time[0] / LN2_HIGH + 0.5)
    rest = subtract(multiply((float(halvings), 0.0), (LN2_HIGH, LN2_LOW)), time)
    grown = add(_near_expm1(rest), (1.0, 0.0))
    scale = math.ldexp(1.0, -int(halvings))
    fade = grown[0] * scale, grown[1] * scale
    return fade, subtract((1.0, 0.0), fade)


# -- the replay ----------------------------------------------------------------------------------


@numba.njit(cache=True)
def _highest(v, h, bias, s, at_end):
    """Return the highest potential within the time s, given the potential at its end."""
    slope, end_slope = bias + h[0], bias + h[0] * math.exp(-s[0])
    if not (slope > 0.0 and end_slope < 0.0):
        return at_end, False  # there is no maximum within s, and the start was checked before
    peak = (math.log(-h[0] / bias), 0.0)
    _, rise = decay(peak)
    return add(v, add(multiply((bias, 0.0), peak), multiply(h, rise))), True


@numba.njit(cache=True)
def _replay(weights, bias, threshold, v, h, start, duration, times, neurons, errors, seen):
    """Replay a run in v and h, shape (n_neurons, 2); return (fault, neuron, time, amount).

    Rows of `seen`: worst error, worst share, ties, undecided; then for each neuron the possible errors of its
    potential and its current by rounding, the possible error of both by rounded times, its largest current.
    A spike recorded late by d has brought W d e^-t too little charge after a time t: this error fades.
    """
    n_neurons, n_spikes = len(bias), len(times)
    loose_v, loose_h, jitter, largest_h = seen[1], seen[2], seen[3], seen[4]
    moved = np.empty((n_neurons, 2))
    slopes, highest, sizes, numbers = np.empty((4, n_neurons))
    is_peak, fires = np.empty(n_neurons, dtype=np.bool_), np.zeros(n_neurons, dtype=np.bool_)
    due = np.array([v[i, 0] >= threshold[i] for i in range(n_neurons)])
    passed = (0.0, 0.0)
    position = 0
    while True:
        is_end = position == n_spikes
        stop = position
        if is_end:
            instant = (duration, 0.0)
        else:
            instant = two_sum(times[position], -start)
            stop += 1
            while stop < n_spikes and times[stop] == times[position] and neurons[stop] > neurons[stop - 1]:
                stop += 1
        blur = 4.0 * ROUNDING * max(abs(start) + instant[0], 2.0**-1000)
        s = subtract(instant, passed)
        if s[0] < 0.0:
            if s[0] < -blur or (not is_end and instant[0] > duration + blur):
                return ORDER, neurons[min(position, n_spikes - 1)], instant[0], 0.0
            s = (0.0, 0.0)
        fade, rise = decay(s)
        left = max(duration - passed[0], 0.0)
        for e in range(position, stop):
            fires[neurons[e]] = True
        for i in range(n_neurons):
            current = (h[i, 0], h[i, 1])
            before = (v[i, 0], v[i, 1])
            after = add(before, add(multiply((bias[i], 0.0), s), multiply(current, rise)))
            top, is_peak[i] = _highest(before, current, bias[i], s, after)
            highest[i] = subtract(top, (threshold[i], 0.0))[0]
            size = threshold[i] + abs(v[i, 0]) + abs(bias[i]) * s[0] + abs(h[i, 0])
            numbers[i] = size
            sizes[i] = size + abs(after[0]) + abs(bias[i]) * min(left, LONGEST_WINDOW) + abs(h[i, 0])
            loose_v[i] += (loose_h[i] + ROUNDING * largest_h[i]) * rise[0] + ROUNDING * (
                size + abs(bias[i]) * min(left, LONGEST_WINDOW)
            )
            # Currents are as precise as the last bits of the largest current so far, which may cancel.
            largest_h[i] = max(largest_h[i], abs(h[i, 0]))
            loose_h[i] = loose_h[i] * fade[0] + ROUNDING * abs(h[i, 0]) * (1.0 + fade[0] * (1.0 + 2.0 * s[0]))
            jitter[i] *= fade[0]
            slopes[i] = bias[i] + current[0] * fade[0]
            moved[i, 0], moved[i, 1] = after
        # A neuron below its threshold fires in a later instant, which may have the same time: spikes of this
        # instant can excite the neuron, and a run that ends here includes crossings just after its end.
        for e in range(position + 1, stop):
            i = neurons[e]
            gap = subtract((moved[i, 0], moved[i, 1]), (threshold[i], 0.0))[0]
            _, possible = _tolerances(threshold[i], bias[i], h[i, 0], slopes[i], sizes[i])
            room = MANY_ROUNDINGS * (loose_v[i] + jitter[i])
            if gap < -room - max(slopes[i], 0.0) * (blur + possible):
                for later in range(e, stop):
                    fires[neurons[later]] = False
                stop = e
                break
        # The tolerance of the instant, from the numbers of neurons that fire, or of all at the end of a run.
        least, most, earliest, unit = LONGEST_TIE, 0.0, -math.inf, 0.0
        for e in range(position, stop):
            i = neurons[e]
            sure, possible = _tolerances(threshold[i], bias[i], h[i, 0], slopes[i], sizes[i])
            least, most = min(least, sure), max(most, possible)
            gap = subtract((moved[i, 0], moved[i, 1]), (threshold[i], 0.0))[0]
            if slopes[i] > 0.0 and gap > earliest * slopes[i]:
                earliest = gap / slopes[i]
                unit = ROUNDING * (abs(start) + instant[0] + numbers[i] / slopes[i])
        for i in range(n_neurons):
            room = MANY_ROUNDINGS * (loose_v[i] + jitter[i])
            slope = max(slopes[i], 0.0)
            gap = subtract((moved[i, 0], moved[i, 1]), (threshold[i], 0.0))[0]
            if highest[i] > room + slope * blur and not (due[i] and position == 0):
                return MISSED, i, start + instant[0], highest[i] / threshold[i]
            if fires[i]:
                if due[i] and position == 0 and instant[0] == 0.0:
                    due[i] = False
                    continue
                if gap < -room - slope * (blur + most):
                    return BELOW, i, start + instant[0], -gap / threshold[i]
                # The exact maximum of the potential is below the threshold by no more than rounding.
                is_flat = gap < 0.0 and slope * slope <= -2.0 * gap * max(slopes[i] - bias[i], 0.0)
                if is_flat or gap < -room - slope * (blur + least):
                    seen[0, 3] += 1
                elif gap >= -room - slope * blur:
                    seen[0, 1] = max(seen[0, 1], abs(gap) / (loose_v[i] + jitter[i] + slope * blur))
                continue
            if due[i]:
                return NOT_AT_ONCE, i, start, 0.0
            if is_end:
                least, most = _tolerances(threshold[i], bias[i], h[i, 0], slopes[i], sizes[i])
            if slope > 0.0 and gap + slope * (least - 2.0 * blur) >= room and least > 2.0 * blur:
                return SPLIT, i, start + instant[0], gap / threshold[i]
            if (slope > 0.0 and gap + slope * most >= -room) or (is_peak[i] and highest[i] > -room):
                seen[0, 3] += 1
        for i in range(n_neurons):
            v[i] = moved[i]
            h[i, 0], h[i, 1] = multiply((h[i, 0], h[i, 1]), fade)
        passed = instant
        if is_end:
            return 0, 0, 0.0, 0.0
        _note_error(earliest, unit, stop - position, errors, seen)
        for e in range(position, stop):
            source = neurons[e]
            fires[source] = False
            v[source, 0], v[source, 1] = subtract((v[source, 0], v[source, 1]), (threshold[source], 0.0))
            for i in range(n_neurons):
                weight = weights[source, i]
                if weight != 0.0:
                    h[i, 0], h[i, 1] = add((h[i, 0], h[i, 1]), (weight, 0.0))
                    loose_h[i] += abs(weight) * 2.0 * ROUNDING
                    jitter[i] += abs(weight) * blur
        position = stop


@numba.njit(cache=True)
def _tolerances(threshold, bias, current, slope, size):
    """Return the smallest and the largest tolerance that the documented rule of instants allows."""
    slope = max(slope, FLATTEST * (abs(bias) + abs(current)))
    if slope <= 0.0:
        return 0.0, 0.0
    sure = SURE * TIE * threshold / slope
    possible = TIE * (size / slope + LONGEST_WINDOW)
    # If a slope is mostly rounding error, the tolerance may have any value.
    return min(sure, LONGEST_TIE), min(possible * (1.0 + FLATTEST), LONGEST_TIE)


@numba.njit(cache=True)
def _note_error(late, unit, n_fired, errors, seen):
    """Count the distance, in roundings, of a recorded instant from the first crossing in this instant."""
    seen[0, 2] += n_fired > 1
    if unit == 0.0 or not abs(late) < math.inf:
        return
    error = abs(late) / unit
    seen[0, 0] = max(seen[0, 0], error)
    power = math.floor(math.log2(error)) if error > 2.0**LEAST_POWER else LEAST_POWER
    errors[min(power, MOST_POWER) - LEAST_POWER] += 1


def judge(run, weights, *, state=None, soma_bias=None) -> Verdict:
    """Return the verdict on a run with recorded spikes, from `snn.simulate` or with the same attributes.

    Parameters
    ----------
    run : SimulationResult
        The run to judge.
    weights : ndarray, shape (n_neurons, n_neurons)
        weights[source, target].  The weights in the network are not read.
    state : NetworkState, optional
        The initial state; by default rest.
    """
    network, spikes, n = run.network, run.spikes, len(weights)
    # Scale by powers of two, without rounding, so that all thresholds lie between a half and one.
    exponents = np.frexp(network.firing_threshold)[1]
    scaled = [
        np.ldexp(np.asarray(x, dtype=float), -exponents)
        for x in (network.firing_threshold, network.soma_bias)
    ]
    threshold, bias = scaled
    v, h = np.zeros((n, 2)), np.zeros((n, 2))
    if state is not None:
        v[:, 0] = np.ldexp(state.membrane_potential, -exponents)
        h[:, 0] = np.ldexp(state.synaptic_current, -exponents)
    before, current = v[:, 0].copy(), h[:, 0].copy()
    errors, seen = np.zeros(MOST_POWER - LEAST_POWER + 1, dtype=np.int64), np.zeros((5, max(n, 4)))
    code, neuron, time, amount = _replay(
        np.ldexp(weights, -exponents), bias, threshold, v, h, 0.0 if state is None else state.time,
        run.duration, spikes.times, spikes.neurons, errors, seen,
    )  # fmt: skip
    if not code:
        code, neuron, amount = _wrong_at_end(
            run, np.ldexp(weights, -exponents), bias, threshold, before, current, v, h, seen, exponents
        )
    fault = FAULTS[code].format(neuron=neuron, time=time, amount=amount)
    return Verdict(fault, errors, *seen[0, :2].tolist(), *map(int, seen[0, 2:4]))


def _wrong_at_end(run, weights, bias, threshold, before, current, v, h, seen, exponents):
    """Compare the final state and figures of a run; return (fault, neuron, amount)."""
    n = len(bias)
    counts = run.spike_counts
    ours = [np.ldexp(x, -exponents) for x in (run.state.membrane_potential, run.state.synaptic_current)]
    room_v = MANY_ROUNDINGS * (seen[1, :n] + seen[3, :n] + ROUNDING * (np.abs(v[:, 0]) + threshold))
    room_h = MANY_ROUNDINGS * (seen[2, :n] + seen[3, :n] + ROUNDING * seen[4, :n]) + 1e-300
    charge = np.longdouble(run.duration) * np.ldexp(run.average_soma_current, -exponents)
    sums = threshold * counts + (v[:, 0] - before)
    # Allow for rounding of the charge, which was divided by the duration, and of the terms of the sum.
    room_q = room_v + MANY_ROUNDINGS * ROUNDING * (threshold * counts + np.abs(v[:, 0]) + np.abs(before))
    received = np.longdouble(1.0) * counts @ weights
    balance = charge - run.duration * bias - (received - (ours[1] - np.longdouble(1.0) * current))
    room_b = (
        room_q
        + room_h
        + MANY_ROUNDINGS
        * ROUNDING
        * (run.duration * np.abs(bias) + 2.0 * (counts @ np.abs(weights)) + np.abs(current))
    )
    if run.duration == 0.0:
        charge, balance = sums, np.zeros(n)
    # A state holds potentials that are at most the threshold.
    for code, off, room in (
        (POTENTIAL, np.abs(ours[0] - np.minimum(v[:, 0], threshold)), room_v),
        (CURRENT, np.abs(ours[1] - h[:, 0]), room_h),
        (CHARGE, np.abs(charge - sums), room_q),
        (CHARGE, np.abs(balance), room_b),
    ):
        excess = off - room
        if not (excess <= 0.0).all():
            neuron = int(np.argmax(excess / threshold))
            return code, neuron, float(off[neuron] / threshold[neuron])
    return 0, 0, 0.0

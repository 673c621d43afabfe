"""The equations of a neuron between two spikes, and functions that follow from the equations.

Other modules apply the same equations: `candidates` to windows and resets, `convolution.windows` and
`convolution.loop` to windows and resets with the variables w and p, `screening.fires` from spike to spike,
and `real_neurons` from step to step.

A neuron has a soma bias c and a threshold theta.  If its potential is v and its synaptic current is h at an
instant, and no spike arrives in the time t after this instant, the soma current and the potential are then
(docs/theory.md, equations 1-3)

    mu(t) = c + h e^-t        v(t) = v + c t + h (1 - e^-t).

The neuron fires when v reaches theta, and theta is subtracted from v.

Event loops cut time into windows of length T; tau is the time since the beginning of a window.  The loops
keep two numbers for each neuron, and a spike changes each number by a multiple of the weight:

    p = h e^tau               the synaptic current, referred to the beginning of the window
    y = v(T) - c T            the potential at the end of the window without further spikes, minus c T

A spike that arrives at tau with weight W adds W e^tau to p and W (1 - e^-(T - tau)) to y.

Because of rounding, a neuron is examined exactly if its potential seems to be below its threshold by less
than `slack`.  The exact crossing of a threshold has only rounding errors.  Neurons whose crossings differ by
less than `tie_tolerance` fire in the same instant.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inlined, inner

# Slack of a bound, relative to the numbers from which the bound is computed.  BOUND_SLACK is far larger than
# rounding errors.
BOUND_SLACK = 1e-9
FAR = 2.0**12  # potentials and rises larger than FAR thresholds add to the slack of a bound (`end_bound`)
# Tolerance of a crossing, relative to the numbers from which the crossing is computed: 2^10 roundings.
TIE = 2.0**-42
# Largest tolerance of a crossing, in time constants, so that few neurons fire together with a slow neuron.
LONGEST_TIE = 2.0**-30
SHORTER = 1.0 - 2.0**-20  # part of a quiet time that is passed at once, so that rounding does not matter
FLATTEST = 2.0**-10  # smallest slope of a potential in `tie_tolerance`, relative to |c| + |h|


class Group(NamedTuple):
    """Neurons that are integrated together."""

    bias: np.ndarray
    threshold: np.ndarray
    potential: np.ndarray
    current: np.ndarray  # the synaptic currents; within a window, p


@inlined
def slack(threshold, potential, current):
    """Return a bound on the rounding error with which a potential is compared with its threshold."""
    return BOUND_SLACK * (threshold + abs(potential) + abs(current))


@inlined
def largest_rise(bias, current, time, rise):
    """Return a bound on the rise of a potential within `time`; rise = 1 - e^-time."""
    # If h <= 0, v is convex, so v is largest at 0 or at `time`.  If h > 0, both terms of the bound grow with
    # time.
    return max(max(bias, 0.0) * time + current * rise, 0.0)


@inlined
def earliest_crossing(gap, bias, current):
    """Return a lower bound on the time at which v rises by `gap`: the slope of v is at most c + max(h, 0)."""
    slope = bias + (current if current > 0.0 else 0.0)
    time = (gap if gap > 0.0 else 0.0) / slope
    return time if slope > 0.0 else (math.inf if gap > 0.0 else 0.0)


@inner
def quiet_time_of(group, enough):
    """Return a time before which no neuron fires, or inf; less than `enough` if the search stopped early."""
    # v <= v(0) + max(c, 0) t + max(h, 0).  If the current is not positive, the gap has an error only in its
    # last digit, and no slack is subtracted.  A potential that hardly rises would need a long time for a
    # slack.
    earliest = math.inf
    for i in range(group.potential.shape[0]):
        threshold, potential, current = group.threshold[i], group.potential[i], group.current[i]
        gap = threshold - potential
        if current > 0.0:
            gap -= current + slack(threshold, potential, current)
        gap = gap if gap > 0.0 else 0.0
        bias = group.bias[i]
        time = SHORTER * (gap / bias) if bias > 0.0 else (math.inf if gap > 0.0 else 0.0)
        earliest = time if time < earliest else earliest
        if earliest < enough:
            break
    return earliest


@inner
def coast(group, interval):
    """Advance potentials and currents to the end of an interval in which no neuron fires."""
    rise = -math.expm1(-interval)
    for i in range(group.potential.shape[0]):
        group.potential[i] += group.bias[i] * interval + group.current[i] * rise
        group.current[i] -= group.current[i] * rise


@inlined
def end_bound(bias, threshold, potential, length):
    """Return the smallest y with which a neuron could fire in a window: theta - max(c, 0) T - slack."""
    # If a neuron starts far below its threshold and still fires, the numbers that raise its potential are
    # large, and their sum is rounded.  Numbers beyond FAR thresholds add to the slack, because the slack
    # could otherwise be less than 2^10 roundings of these numbers.
    rise = (bias if bias > 0.0 else 0.0) * length
    far = abs(potential) + rise - FAR * threshold
    return threshold * (1.0 - BOUND_SLACK) - rise - BOUND_SLACK * (far if far > 0.0 else 0.0)


@inlined
def at_threshold(end_potential, current):
    """Return y of a neuron at its threshold, raised by a rounding so that v is not below the threshold."""
    return end_potential + 2.0**-52 * (abs(end_potential) + abs(current))


@inlined
def potential_in_window(end_potential, bias, referred_current, now, rest):
    """Return v at the time `now` of a window of length T; `rest` is e^-now - e^-T."""
    return end_potential + bias * now - referred_current * rest


@inlined
def tie_tolerance(threshold, potential, bias, current, time, slope):
    """Return the tolerance of a crossing: neurons that cross within this tolerance fire together."""
    # The crossing is `time` after the instant of `potential` and `current`; v has `slope` at the crossing.
    size = threshold + abs(potential) + abs(bias) * time + abs(current)
    flattest = FLATTEST * (abs(bias) + abs(current))
    slope = slope if slope > flattest else flattest
    tolerance = TIE * (size / slope + time) if slope > 0.0 else 0.0
    # An overflow or a NaN also gives LONGEST_TIE.
    return tolerance if tolerance < LONGEST_TIE else LONGEST_TIE


@inlined
def add_to_moments(moments, k, neuron, now, weight):
    """Add `weight` spikes at the time `now` to the moments of a neuron."""
    # `snn.record.spikes.smooth_rate_of_moments` computes rates from the moments.
    square = weight * (now * now)
    moments[k, neuron, 0] += square
    moments[k, neuron, 1] += square * now
    moments[k, neuron, 2] += square * (now * now)


@partial(inner, fastmath={"contract"})
def _near_expm1(x):
    """Return e^x - 1 for |x| <= 1/2, to rounding, by the series to x^14, which is faster than expm1."""
    square = x * x
    fourth = square * square
    first = (1.0 + x * (1.0 / 2.0)) + square * (1.0 / 6.0 + x * (1.0 / 24.0))
    second = (1.0 / 120.0 + x * (1.0 / 720.0)) + square * (1.0 / 5040.0 + x * (1.0 / 40320.0))
    third = (1.0 / 362880.0 + x * (1.0 / 3628800.0)) + square * (1.0 / 39916800.0 + x * (1.0 / 479001600.0))
    last = 1.0 / 6227020800.0 + x * (1.0 / 87178291200.0)
    return x * (first + fourth * (second + fourth * (third + fourth * last)))


@inlined
def _near_crossing(time, gap, bias, current):
    """Return the crossing near a time by Chebyshev's method of third order; one step is usually enough."""
    for _ in range(100):
        decay_minus_one = _near_expm1(-time)
        curvature = current * (1.0 + decay_minus_one)
        slope = bias + curvature
        step = (gap - bias * time + current * decay_minus_one) / slope
        bend = curvature / slope
        time += step * (1.0 + 0.5 * bend * step)
        if abs(bend * (1.0 + abs(bend)) * step * step * step) <= 1e-16 * time:
            break
    return time


@inner
def _convex_crossing(gap, bias, current, horizon):
    """Return the crossing for current < 0, by Newton's method from the right, which is monotone."""
    if bias <= 0.0:
        return math.inf
    time = (gap - current) / bias  # this time is after the crossing, since e^-t >= 0
    if bias + current > 0.0:
        time = min(time, gap / (bias + current))  # v crosses before the tangent of v at 0
    if horizon < time:
        time = horizon
    for iteration in range(100):
        decay_minus_one = math.expm1(-time)
        curvature = current * (1.0 + decay_minus_one)
        slope = bias + curvature
        excess = bias * time - current * decay_minus_one - gap
        if excess <= 0.0:
            return math.inf if iteration == 0 and excess < 0.0 and time == horizon else time
        step = excess / slope
        time -= step
        if -curvature * step * step <= 1e-16 * time * slope:
            break
    return time


@inner
def _concave_crossing(gap, bias, current, horizon):
    """Return the crossing for current > 0, by Newton's method from the left, which is monotone."""
    if bias + current <= 0.0:
        return math.inf
    peak_time = math.inf
    if bias <= 0.0:
        if bias == 0.0:
            # If the bias is zero, the rise of v tends to the current.
            return -math.log1p(-gap / current) if gap < current else math.inf
        # If the quotient overflows, the peak is after time 709, and may count as a peak at 800, because e^-t
        # is zero for t > 745.
        peak_time = min(math.log(-current / bias), 800.0)
        if bias * peak_time - current * math.expm1(-peak_time) < gap:
            return math.inf
    time = gap / (bias + current)
    for _ in range(100):
        if time > horizon:
            return math.inf
        decay_minus_one = math.expm1(-time)
        curvature = current * (1.0 + decay_minus_one)
        slope = bias + curvature
        shortfall = gap - bias * time + current * decay_minus_one
        if shortfall <= 0.0 or slope <= 0.0:
            break
        step = shortfall / slope
        time += step
        if time >= peak_time:
            # At the peak, the slope consists of rounding errors only.
            return peak_time if peak_time <= horizon else math.inf
        if curvature * step * step <= 1e-16 * time * slope:
            break
    return time


@inner
def crossing_time(gap, bias, current, horizon):
    """Return the first t >= 0 with bias t + current (1 - e^-t) = gap; inf if t is past the horizon."""
    # Newton's method stops when the next step, proportional to the square of the last one, is below rounding.
    if gap <= 0.0:
        return 0.0
    if current == 0.0:
        time = gap / bias if bias > 0.0 else math.inf
        return time if time <= horizon else math.inf
    slope = bias + current
    if slope > 0.0:
        # Most crossings are near time 0.  Start from the root of the parabola slope t - current t^2 / 2, if
        # the slope of the parabola at its root is at least half of its slope at 0.
        linear_time = gap / slope
        bend = current / slope
        square = 1.0 - 2.0 * bend * linear_time
        if square >= 0.25:
            time = 2.0 * linear_time / (1.0 + math.sqrt(square))
            if time <= 0.5 and abs(bend) * time <= 1.0:
                time = _near_crossing(time, gap, bias, current)
                return time if time <= horizon else math.inf
    if current < 0.0:
        return _convex_crossing(gap, bias, current, horizon)
    return _concave_crossing(gap, bias, current, horizon)

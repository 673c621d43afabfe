"""When a potential reaches the threshold."""

import math
from functools import partial

from snn._kernels.compiling import uncounted

SEARCH_SLACK = 1e-9
"""Share of the numbers it is made of by which a bound may look too low and still be examined exactly."""


@partial(uncounted, fastmath={"contract"})
def _near_expm1(x):
    """Return e^x - 1 for |x| <= 1/2, by its series to x^14, to rounding, faster than expm1."""
    square = x * x
    fourth = square * square
    first = (1.0 + x * (1.0 / 2.0)) + square * (1.0 / 6.0 + x * (1.0 / 24.0))
    second = (1.0 / 120.0 + x * (1.0 / 720.0)) + square * (1.0 / 5040.0 + x * (1.0 / 40320.0))
    third = (1.0 / 362880.0 + x * (1.0 / 3628800.0)) + square * (1.0 / 39916800.0 + x * (1.0 / 479001600.0))
    last = 1.0 / 6227020800.0 + x * (1.0 / 87178291200.0)
    return x * (first + fourth * (second + fourth * (third + fourth * last)))


@uncounted
def crossing_time(gap, bias, current, horizon):
    """Return the first t >= 0 with bias t + current (1 - e^-t) = gap; inf if past the horizon.

    With current < 0 the left side is convex: a crossing exists iff bias > 0, and Newton from the
    right is monotone.  With current > 0 it is concave: the first crossing is the one below the
    maximum, and Newton from the left is monotone.  Newton stops when the step after the next, a
    square of the last one, is below rounding.  Near crossings, where the slope cannot fall to less than
    half, take Chebyshev's steps, whose error is a cube, from either side: mostly one.
    """
    if gap <= 0.0:
        return 0.0
    if current == 0.0:
        if bias <= 0.0:
            return math.inf
        time = gap / bias
        return time if time <= horizon else math.inf
    slope = bias + current
    if slope > 0.0:
        # Most crossings are near: start from the root of the parabola slope t - current t^2 / 2.
        linear_time = gap / slope
        bend = current / slope
        square = 1.0 - 2.0 * bend * linear_time
        if square >= 0.25:
            time = 2.0 * linear_time / (1.0 + math.sqrt(square))
            if time <= 0.5 and abs(bend) * time <= 1.0:
                for _ in range(100):
                    decay_minus_one = _near_expm1(-time)
                    curvature = current * (1.0 + decay_minus_one)
                    slope = bias + curvature
                    step = (gap - bias * time + current * decay_minus_one) / slope
                    bend = curvature / slope
                    time += step * (1.0 + 0.5 * bend * step)
                    if abs(bend * (1.0 + abs(bend)) * step * step * step) <= 1e-16 * time:
                        break
                return time if time <= horizon else math.inf
    if current < 0.0:
        if bias <= 0.0:
            return math.inf
        time = (gap - current) / bias  # right of the root, since e^-t >= 0
        if bias + current > 0.0:
            time = min(time, gap / (bias + current))  # the tangent at 0 lies below
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
    if bias + current <= 0.0:
        return math.inf
    if bias <= 0.0:
        if bias == 0.0:
            # The limit of the maximum below: bias t + current (1 - e^-t) tends to current.
            return -math.log1p(-gap / current) if gap < current else math.inf
        # Past 745 e^-t is zero; the quotient overflows only where the peak lies beyond that.
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
        if curvature * step * step <= 1e-16 * time * slope:
            break
    return time


TIE_TOLERANCE = 2.0**-42
"""Crossings tie if rounding of this share of the numbers they are made of could exchange them."""
LONGEST_TIE = 2.0**-30
"""A neuron that rises very slowly does not tie with all others."""


@uncounted
def tie_tolerance(threshold, potential, bias, current, time):
    """Return how much later than a crossing, which is `time` from here, others tie with it.

    2^10 roundings of the terms of the potential, over its slope at the crossing, or over 2^-10 of the terms
    of the slope if that is more.
    """
    terms = threshold + abs(potential) + abs(bias) * time + abs(current)
    slope = bias + current * math.exp(-time)
    least_slope = 2.0**-10 * (abs(bias) + abs(current))
    slope = slope if slope > least_slope else least_slope
    if slope == 0.0:
        return 0.0
    tolerance = TIE_TOLERANCE * terms / slope
    # Beyond the range of numbers, too.
    return tolerance if tolerance < LONGEST_TIE else LONGEST_TIE


@uncounted
def could_fire(bias, threshold, potential, current, horizon, rise):
    """Whether a neuron could fire within the horizon, by a bound; `rise` is 1 - e^-horizon."""
    growth = max(bias, 0.0) * horizon + current * rise
    slack = SEARCH_SLACK * (threshold + abs(potential) + abs(current) * rise)
    return potential + max(growth, 0.0) >= threshold - slack

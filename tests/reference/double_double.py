"""Numbers of 106 bits: the exact sum of two floats, the second below the last bit of the first.

Nothing here is of the package.  Sums and products are those of Dekker (1971) and Knuth; they need floats that
are rounded to the nearest, and no fused multiplication.  A number is a pair (high, low).  Errors are a few
units of 2^-104, relative to the numbers that go in; `tests/stress/test_exact_spikes.py` compares with mpmath.
"""

from __future__ import annotations

import math

import mpmath
import numba
import numpy as np

SPLITTER = 2.0**27 + 1.0
N_TERMS = 16
N_HALVINGS = 5


def pair(value) -> tuple[float, float]:
    """Return an mpmath number, or a float, as a pair."""
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
    """As `two_sum`, with |a| >= |b|."""
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
def divide(a, b):
    first = a[0] / b[0]
    left = subtract(a, multiply((first, 0.0), b))
    second = left[0] / b[0]
    left = subtract(left, multiply((second, 0.0), b))
    high, low = quick_sum(first, second)
    return add((high, low), (left[0] / b[0], 0.0))


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
    """Return e^-time and 1 - e^-time for time >= 0, each to its own last digits but for the smallest."""
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

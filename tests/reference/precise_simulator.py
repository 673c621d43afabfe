"""An event simulator in numbers of 106 bits: the spikes of a network, to every digit of a float.

The next crossing of each neuron is bracketed by calculus and bisected in floats, and, where it could be the
first, found by Newton's method in 106 bits.  It shares no code with the package, nor with the replay of
`exact_spikes`, but for the arithmetic.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from tests.reference.double_double import add, decay, divide, multiply, subtract

TIE, LONGEST_TIE, FLATTEST = 2.0**-42, 2.0**-30, 2.0**-10
NEAR = 1e-7
"""Floats decide nothing that is nearer than this share of a time."""


class PreciseRun(NamedTuple):
    """Spikes; times count from the start."""

    times: np.ndarray
    neurons: np.ndarray


def simulate_precisely(weights, soma_bias, firing_threshold, duration, *, state=None, max_spikes=100_000):
    """Run the network given by plain arrays, weights[source, target], for `duration` or `max_spikes`."""
    n_neurons = len(soma_bias)
    exponents = np.frexp(np.broadcast_to(firing_threshold, n_neurons))[1]
    weights, bias, threshold = (
        np.ldexp(np.asarray(x, dtype=float), -exponents) for x in (weights, soma_bias, firing_threshold)
    )
    v, h = np.zeros((n_neurons, 2)), np.zeros((n_neurons, 2))
    if state is not None:
        v[:, 0] = np.ldexp(state.membrane_potential, -exponents)
        h[:, 0] = np.ldexp(state.synaptic_current, -exponents)
    times, neurons = np.empty(max_spikes + n_neurons), np.empty(max_spikes + n_neurons, dtype=np.int64)
    n_spikes = _run(weights, bias, threshold, v, h, float(duration), max_spikes, times, neurons)
    return PreciseRun(times[:n_spikes], neurons[:n_spikes])


@numba.njit(cache=True)
def _rise_by(bias, current, time):
    """Return by how much a potential rises within a time."""
    _, rise = decay(time)
    return add(multiply((bias, 0.0), time), multiply(current, rise))


@numba.njit(cache=True)
def _float_crossing(gap, bias, current, low, high):
    """Bisect; the potential is below its threshold at `low`, not at `high`, and crosses it once between."""
    for _ in range(1100):
        middle = 0.5 * (low + high)
        if not low < middle < high or high - low < 1e-9 * low:
            break
        if bias * middle - current * math.expm1(-middle) < gap:
            low = middle
        else:
            high = middle
    return high


@numba.njit(cache=True)
def _crossing(gap, bias, current, latest):
    """Return the first time at which the potential has risen by gap > 0, inf if it is later than `latest`."""
    h = current[0]
    high = latest
    if h <= 0.0:
        if bias <= 0.0:
            return (math.inf, 0.0)
        high = min(high, 2.0 * (gap[0] - h) / bias)
    elif bias < 0.0:
        if bias + h <= 0.0:
            return (math.inf, 0.0)
        # Up to its maximum, and looked at there with all digits.
        high = min(high, math.log(-h / bias))
    elif bias > 0.0:
        high = min(high, 2.0 * gap[0] / bias)
    if subtract(_rise_by(bias, current, (high, 0.0)), gap)[0] < 0.0:
        return (math.inf, 0.0)
    time = (_float_crossing(gap[0], bias, h, 0.0, high), 0.0)
    for _ in range(100):
        fade, rise = decay(time)
        slope = add((bias, 0.0), multiply(current, fade))
        if slope[0] <= 0.0:
            break
        excess = subtract(add(multiply((bias, 0.0), time), multiply(current, rise)), gap)
        step = divide(excess, slope)
        time = subtract(time, step)
        if time[0] < 0.0:
            time = (0.0, 0.0)
        if abs(step[0]) <= 1e-28 * time[0]:
            break
    return time


@numba.njit(cache=True)
def _run(weights, bias, threshold, v, h, duration, max_spikes, times, neurons):
    n_neurons = len(bias)
    crossings = np.empty((n_neurons, 2))
    now, n_spikes = (0.0, 0.0), 0
    while n_spikes < max_spikes:
        left = subtract((duration, 0.0), now)
        latest = left[0] + LONGEST_TIE * (1.0 + left[0])
        first, column = latest, -1
        for i in range(n_neurons):
            crossings[i, 0] = math.inf
            gap = subtract((threshold[i], 0.0), (v[i, 0], v[i, 1]))
            fastest = bias[i] + max(h[i, 0], 0.0)
            if gap[0] <= 0.0:
                crossings[i] = 0.0
            elif fastest > 0.0 and gap[0] <= fastest * (first * (1.0 + NEAR) + LONGEST_TIE):
                crossings[i] = _crossing(gap, bias[i], (h[i, 0], h[i, 1]), latest)
            if crossings[i, 0] < first or (
                column >= 0 and crossings[i, 0] == first and crossings[i, 1] < crossings[column, 1]
            ):
                first, column = crossings[i, 0], i
        step = left
        tolerance = 0.0
        if column >= 0:
            step = (crossings[column, 0], crossings[column, 1])
            h0, c = h[column, 0], bias[column]
            slope = max(c + h0 * math.exp(-step[0]), FLATTEST * (abs(c) + abs(h0)))
            size = threshold[column] + abs(v[column, 0]) + abs(c) * step[0] + abs(h0)
            tolerance = min(TIE * (size / slope + step[0]), LONGEST_TIE) if slope > 0.0 else 0.0
            beyond = subtract(step, left)[0]
            if beyond > tolerance:
                column = -1
            if beyond > 0.0:
                step = left
        if column < 0:
            break
        fade, rise = decay(step)
        for i in range(n_neurons):
            current = (h[i, 0], h[i, 1])
            more = add(multiply((bias[i], 0.0), step), multiply(current, rise))
            v[i, 0], v[i, 1] = add((v[i, 0], v[i, 1]), more)
            h[i, 0], h[i, 1] = multiply(current, fade)
        now = add(now, step)
        for i in range(n_neurons):
            if crossings[i, 0] == math.inf:
                continue
            if subtract((crossings[i, 0], crossings[i, 1]), step)[0] > tolerance:
                continue
            v[i, 0], v[i, 1] = subtract((v[i, 0], v[i, 1]), (threshold[i], 0.0))
            times[n_spikes], neurons[n_spikes] = now[0], i
            n_spikes += 1
            for k in range(n_neurons):
                if weights[i, k] != 0.0:
                    h[k, 0], h[k, 1] = add((h[k, 0], h[k, 1]), (weights[i, k], 0.0))
    return n_spikes

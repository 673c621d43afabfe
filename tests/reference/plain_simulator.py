"""A plain event simulator: every neuron is touched at every spike, and nothing is cut short.

It shares no code with the package.  It is itself compared with the twin in 30 digits, and serves for networks
of hundreds of neurons, for which the twin is too slow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

SAME_INSTANT = 2.0**10 * np.finfo(float).eps


class PlainRun(NamedTuple):
    """Spikes and final state."""

    times: np.ndarray
    neurons: np.ndarray
    membrane_potential: np.ndarray
    synaptic_current: np.ndarray


def simulate_plainly(
    weights, soma_bias, firing_threshold, duration, *, state=None, max_spikes=1_000_000
) -> PlainRun:
    """Run the network given by plain arrays, weights[source, target], for `duration`."""
    n_neurons = len(soma_bias)
    potential = np.zeros(n_neurons) if state is None else state.membrane_potential.copy()
    current = np.zeros(n_neurons) if state is None else state.synaptic_current.copy()
    times, neurons = np.empty(max_spikes + n_neurons), np.empty(max_spikes + n_neurons, dtype=np.int64)
    n_spikes = _run(
        np.array(weights, dtype=np.float64),
        np.array(soma_bias, dtype=np.float64),
        np.array(np.broadcast_to(firing_threshold, n_neurons), dtype=np.float64),
        potential, current, float(duration), max_spikes, times, neurons,
    )  # fmt: skip
    assert n_spikes <= max_spikes, "more spikes than max_spikes"
    return PlainRun(times[:n_spikes].copy(), neurons[:n_spikes].copy(), potential, current)


@numba.njit(cache=True)
def _crossing(gap, bias, current, latest):
    """Return the first t >= 0 with bias t + current (1 - e^-t) = gap; inf if it is later than `latest`.

    A bracket on which the potential rises from below the threshold to it, then Newton's method, with a
    bisection wherever that leaves the bracket.
    """
    if gap <= 0.0:
        return 0.0
    low, high = 0.0, latest
    if current <= 0.0:
        if bias <= 0.0:
            return math.inf
        if current < -bias:
            low = math.log(-current / bias)  # the lowest potential, after which it only rises
    elif bias < 0.0:
        if bias + current <= 0.0:
            return math.inf
        high = min(high, math.log(-current / bias))  # the highest potential, up to which it only rises
    if low > high or bias * high - current * math.expm1(-high) < gap:
        return math.inf
    time = high
    for _ in range(200):
        excess = bias * time - current * math.expm1(-time) - gap
        if excess >= 0.0:
            high = time
        else:
            low = time
        slope = bias + current * math.exp(-time)
        following = time - excess / slope if slope > 0.0 else low - 1.0
        if not (low < following < high):
            following = 0.5 * (low + high)
        if abs(following - time) <= 1e-16 * time or following in (low, high):
            return following
        time = following
    return time


@numba.njit(cache=True)
def _run(weights, bias, threshold, potential, current, duration, max_spikes, times, neurons):
    n_neurons = len(bias)
    crossings = np.empty(n_neurons)
    fires = np.empty(n_neurons, dtype=np.bool_)
    now, n_spikes = 0.0, 0
    while n_spikes <= max_spikes:
        left = duration - now
        first, latest = math.inf, left + 1e-9 * (1.0 + left)
        for i in range(n_neurons):
            gap, fastest = threshold[i] - potential[i], bias[i] + max(current[i], 0.0)
            crossings[i] = math.inf
            # The potential rises at most this fast: no crossing before one that is known, nor in its instant.
            if gap <= 0.0 or gap < fastest * (min(first, latest) + 1e-9 * (1.0 + min(first, latest))):
                # A little beyond the end, for neurons that fire in the same instant as one that fires there.
                crossings[i] = _crossing(gap, bias[i], current[i], latest)
            first = min(first, crossings[i])
        fired = first <= left
        step = first if fired else left
        rise = -math.expm1(-step)
        for i in range(n_neurons):
            size = threshold[i] + abs(potential[i]) + abs(bias[i]) * step + abs(current[i]) * rise
            potential[i] += bias[i] * step + current[i] * rise
            current[i] -= current[i] * rise
            near = threshold[i] - potential[i] <= SAME_INSTANT * size
            fires[i] = fired and near and crossings[i] < math.inf
        now = now + step if fired else duration
        if not fired:
            break
        for i in range(n_neurons):
            if fires[i]:
                potential[i] = 0.0
                times[n_spikes], neurons[n_spikes] = now, i
                n_spikes += 1
                for k in range(n_neurons):
                    current[k] += weights[i, k]
    return n_spikes

"""The slow twin of `snn.simulate`, with equal mathematics, 30 digits and no optimisation.

Calculus brackets the next crossing of each neuron, and bisection in floats refines the crossing.  The few
crossings that could be first are polished in mpmath.  Neurons whose crossings floats cannot tell apart fire
in the order of their indices, before any of their spikes is applied.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mpmath
import numpy as np

DIGITS = 30
AT_THRESHOLD = mpmath.mpf(10) ** -26  # a smaller distance from the threshold counts as zero
# In floats, a crossing has an error of a few roundings of the numbers from which it is computed.  Neurons
# whose distance from the threshold is below SAME_INSTANT times these numbers fire with the first neuron.
SAME_INSTANT = mpmath.mpf(2) ** -42  # 2**10 units of 2**-52
CLOSE_CALL = 1e-5  # floats do not decide the order of crossings nearer than this


class SlowRun(NamedTuple):
    """Spikes and final state, rounded to floats once at the end."""

    times: np.ndarray
    neurons: np.ndarray
    membrane_potential: np.ndarray
    synaptic_current: np.ndarray


def simulate_slowly(weights, soma_bias, firing_threshold, duration, *, state=None) -> SlowRun:
    """Run the network given by plain arrays, weights[source, target], for `duration`; times begin at zero."""
    n_neurons = len(soma_bias)
    with mpmath.workdps(DIGITS):
        # Express all numbers of a neuron in units of its threshold.
        threshold = [mpmath.mpf(float(x)) for x in np.broadcast_to(firing_threshold, n_neurons)]
        rows = [
            [(i, mpmath.mpf(float(w)) / threshold[i]) for i, w in enumerate(row) if w != 0]
            for row in np.asarray(weights)
        ]
        rest = np.zeros(n_neurons), np.zeros(n_neurons)
        start = rest if state is None else (state.membrane_potential, state.synaptic_current)
        bias, v, h = (
            [mpmath.mpf(float(x)) / y for x, y in zip(values, threshold, strict=True)]
            for values in (soma_bias, *start)
        )
        now, stop = mpmath.mpf(0), mpmath.mpf(float(duration))
        times, neurons = [], []
        while True:
            interval, fired = _next_spikes(v, bias, h)
            if now + interval > stop:
                interval, fired = stop - now, []
            rise = -mpmath.expm1(-interval)
            for i in range(n_neurons):
                v[i] += bias[i] * interval + h[i] * rise
                h[i] -= h[i] * rise
            now += interval
            if not fired:
                break
            for neuron in fired:
                v[neuron] = mpmath.mpf(0)
                for target, weight in rows[neuron]:
                    h[target] += weight
                times.append(float(now))
                neurons.append(neuron)
        return SlowRun(
            np.array(times),
            np.array(neurons, dtype=np.int64),
            np.array([float(x * y) for x, y in zip(v, threshold, strict=True)]),
            np.array([float(x * y) for x, y in zip(h, threshold, strict=True)]),
        )


def _next_spikes(potential, bias, current):
    """Return (interval, neurons) of the next instant with spikes; (inf, []) if there is none."""
    gaps = [1 - v for v in potential]
    rough = [rough_crossing(g, c, h) for g, c, h in zip(gaps, bias, current, strict=True)]
    first = min(rough)
    if first == math.inf:
        return math.inf, []
    close = [i for i, t in enumerate(rough) if t <= first + CLOSE_CALL * (1.0 + first)]
    interval = min(polished_crossing(gaps[i], bias[i], current[i], rough[i]) for i in close)
    rise = -mpmath.expm1(-interval)
    fired = []
    for i in close:
        parts = bias[i] * interval, current[i] * rise
        size = 1 + abs(potential[i]) + abs(parts[0]) + abs(parts[1])
        if gaps[i] - sum(parts) <= SAME_INSTANT * size:
            fired.append(i)
    return interval, fired


def crossing_exists(gap, bias, current) -> bool:
    """Return whether bias t + current (1 - e^-t) ever reaches gap > 0, in the precision of the arguments."""
    if current <= 0:
        return bias > 0
    if bias > 0:
        return True
    if bias == 0:
        return gap < current
    if bias + current <= 0:
        return False
    peak = mpmath.log(-current / bias)
    return bias * peak - current * mpmath.expm1(-peak) >= gap


def rough_crossing(gap, bias, current) -> float:
    """Return the crossing by bisection in floats of a bracket from calculus; inf if there is no crossing."""
    if gap <= AT_THRESHOLD:
        return 0.0
    if not crossing_exists(gap, bias, current):
        return math.inf
    if bias == 0:
        return float(-mpmath.log1p(-gap / current))
    gap, bias, current = float(gap), float(bias), float(current)
    if current <= 0:
        high = (gap - current) / bias  # at this time the potential is at least the threshold
    elif bias > 0:
        high = gap / bias
    else:
        high = math.log(-current / bias)  # the potential is largest at this time
    low = 0.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        if bias * middle - current * math.expm1(-middle) < gap:
            low = middle
        else:
            high = middle
    return high


def polished_crossing(gap, bias, current, rough):
    """Refine a crossing by Newton's method in mpmath; at a tangency each step gains only one bit."""
    if gap <= AT_THRESHOLD:
        return mpmath.mpf(0)
    time = mpmath.mpf(rough)
    for _ in range(2000):
        decay = mpmath.exp(-time)
        slope = bias + current * decay
        if slope <= 0:
            break
        step = (gap - bias * time - current * (1 - decay)) / slope
        time += step
        if abs(step) <= mpmath.mpf(10) ** (10 - mpmath.mp.dps) * time:
            break
    return time

"""How fast memory is, and the least passes over it that a spike can be."""

import math
import time
from collections.abc import Callable

import numpy as np
from numba import njit

# A figure is the best of several measurements, each of some seconds.
MEASUREMENTS, SECONDS, QUICK_SECONDS = 7, 0.02, 0.001
TRIAD_BYTES = 24


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _triad(target, left, right, factor, times):
    for _ in range(times):
        for i in range(target.shape[0]):
            target[i] = left[i] + factor * right[i]
        # Each pass differs: none can be left out.
        factor += 1e-9


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _dense_passes(weights, order, bias, potential, current, decay, interval):
    """At each spike, update every neuron and add a row of weights."""
    gone = 1.0 - decay
    for k in range(order.shape[0]):
        row = weights[order[k]]
        for i in range(potential.shape[0]):
            before = current[i]
            potential[i] += bias[i] * interval + before * gone
            current[i] = before * decay + row[i]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _stencil_passes(stencil, first_target, order, current):
    """At each spike, add its block of weights: `stencil[kernel, place, :]` to a run of currents."""
    for k in range(order.shape[0]):
        kernel = order[k] % stencil.shape[0]
        for place in range(stencil.shape[1]):
            start = first_target[order[k], place]
            for i in range(stencil.shape[2]):
                current[start + i] += stencil[kernel, place, i]


def best_seconds(call: Callable[[int], object], *, quick: bool) -> float:
    """Return the least seconds of one unit of work, `call(n)` doing n of them."""
    enough = QUICK_SECONDS if quick else SECONDS
    units = 1
    while True:
        begin = time.perf_counter()
        call(units)
        taken = time.perf_counter() - begin
        if taken >= enough:
            break
        units = max(2 * units, math.ceil(units * enough / max(taken, 1e-9)))
    best = taken
    for _ in range(2 if quick else MEASUREMENTS):
        begin = time.perf_counter()
        call(units)
        best = min(best, time.perf_counter() - begin)
    return best / units


def triad_bandwidth(working_set: int, *, quick: bool) -> float:
    """Return bytes a second of a = b + c d with three arrays of `working_set` bytes in all."""
    length = working_set // TRIAD_BYTES
    target, left, right = np.zeros(length), np.ones(length), np.ones(length)
    _triad(target, left, right, 0.5, 1)
    return (
        TRIAD_BYTES
        * length
        / best_seconds(lambda times: _triad(target, left, right, 0.5, times), quick=quick)
    )


def dense_pass(n_neurons: int, *, quick: bool) -> float:
    """Return the least seconds of a spike that touches every neuron, rows of weights in random order."""
    weights = np.full((n_neurons, n_neurons), -1e-3)
    order = np.random.default_rng(0).permutation(n_neurons)
    bias, potential, current = np.full(n_neurons, 1e-3), np.zeros(n_neurons), np.zeros(n_neurons)
    rows = order[: max(1, min(n_neurons, 50_000_000 // n_neurons))]

    def spikes(times: int) -> None:
        for start in range(0, times, len(rows)):
            some = rows[: min(len(rows), times - start)]
            _dense_passes(weights, some, bias, potential, current, 0.9, 0.1)

    spikes(1)
    return best_seconds(spikes, quick=quick)


def stencil_pass(n_kernels: int, n_places: int, side: int, *, quick: bool) -> float:
    """Return the least seconds of a spike that reaches `n_places` neighbours, all kernels of each."""
    n_neurons = side * side * n_kernels
    stencil = np.full((n_kernels, n_places, n_kernels), -1e-3)
    rng = np.random.default_rng(0)
    place = rng.integers(0, side * side, size=(n_neurons, 1))
    first_target = (place + np.arange(n_places)) % (side * side) * n_kernels
    order = rng.integers(0, n_neurons, size=100_000)
    current = np.zeros(n_neurons)

    def spikes(times: int) -> None:
        for start in range(0, times, len(order)):
            _stencil_passes(stencil, first_target, order[: min(len(order), times - start)], current)

    spikes(1)
    return best_seconds(spikes, quick=quick)

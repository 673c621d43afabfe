"""The slow twin of runs on a clock, with or without imperfections: one neuron after the other.

The twin shares only `Imperfections` with the product, and reads only their numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad

from snn import Imperfections


def philox(counter, key):
    """Return the four words of Philox4x32-10 for a counter and a key, in Python's integers."""
    counter, key = list(counter), list(key)
    for _ in range(10):
        high, low = divmod(0xD2511F53 * counter[0], 2**32)
        other_high, other_low = divmod(0xCD9E8D57 * counter[2], 2**32)
        counter = [other_high ^ counter[1] ^ key[0], other_low, high ^ counter[3] ^ key[1], low]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


def uniforms(seed, step, place, purpose):
    """Return two numbers with 53 bits; the first number is midway between two multiples of 2^-53."""
    words = philox((step % 2**32, step // 2**32, place, purpose), (seed % 2**32, seed // 2**32))
    first, second = words[0] * 2**32 + words[1], words[2] * 2**32 + words[3]
    return (first // 2**11 + 0.5) / 2**53, (second // 2**11) / 2**53


def normal(seed, step, neuron):
    radius, angle = uniforms(seed, step, neuron // 2, 0)
    turn = math.sin if neuron % 2 else math.cos
    return math.sqrt(-2.0 * math.log(radius)) * turn(2.0 * math.pi * angle)


def n_lost(imperfections, step, neuron, n_sent):
    """Return the number of lost spikes of a neuron in a step."""
    if imperfections.lost_spikes == 0.0:
        return 0
    draws = [uniforms(imperfections.seed, step, neuron, 1 + k)[0] for k in range(n_sent)]
    return sum(draw < imperfections.lost_spikes for draw in draws)


def whole_steps(time, time_step):
    return math.ceil(time / time_step - 1e-6)


def delay_of(imperfections, source, target, time_step):
    delays = imperfections.delays
    time = delays[()] if delays.ndim == 0 else delays[source] if delays.ndim == 1 else delays[source, target]
    return whole_steps(time, time_step)


class ClockedRun(NamedTuple):
    """Events and the final state of a run; steps count from 1, and charges add up from the start."""

    steps: np.ndarray
    neurons: np.ndarray
    membrane_potential: np.ndarray
    synaptic_current: np.ndarray
    charge: np.ndarray
    leaked: np.ndarray
    refused: np.ndarray
    noise: np.ndarray
    n_lost: np.ndarray
    pending: np.ndarray


def simulate_slowly(
    weights, bias, threshold, n_steps, time_step, *, integration="exact", reset="subtract",
    imperfections=None, state=None, drives=None, inputs=None, time_constants=None, adaptation=0.0,
    adaptation_time=10.0,
) -> ClockedRun:  # fmt: skip
    """Run a network with dense weights[source, target] on a clock; weights and thresholds include mismatch.

    `drives` and `inputs` are dicts by step, in which 0 stands for the start of the run: the drive after the
    step, and what is added to currents at the end of the step.
    """
    n, given = len(bias), imperfections or Imperfections()
    drives, inputs = drives or {}, inputs or {}
    leak, refractory_steps = given.leak, whole_steps(given.refractory_time, time_step)
    first_step = 0 if state is None else round(state.time / time_step)
    v, h = (
        ([0.0] * n, np.zeros(n))
        if state is None
        else (list(state.membrane_potential), state.synaptic_current)
    )
    bias, h = drives.get(0, bias), h + inputs.get(0, 0.0)
    charge, leaked, refused, noise, lost, rise = np.zeros((6, n))
    constants = [1.0] * n if time_constants is None else time_constants
    currents = {constant: np.zeros(n) for constant in {1.0, *constants}}
    currents[1.0], base = h, threshold
    free_at, due, steps, neurons = [1] * n, {}, [], []

    def over_a_step(function):
        return quad(function, 0.0, time_step, epsabs=0.0, epsrel=2e-14)[0]

    # v' = mu - l v: charge that arrives at time t leaks until the end of the step.
    keep = math.exp(-leak * time_step)
    of_drive = over_a_step(lambda t: math.exp(-leak * (time_step - t)))
    of_current, brought_of_current = {}, {}
    for tau in currents:
        of_current[tau] = over_a_step(lambda t, tau=tau: math.exp(-leak * (time_step - t) - t / tau))
        brought_of_current[tau] = over_a_step(lambda t, tau=tau: math.exp(-t / tau))
    if integration == "euler":
        keep, of_drive = 1.0 - leak * time_step, time_step
        of_current = brought_of_current = dict.fromkeys(currents, time_step)
    spread = given.potential_noise * math.sqrt(over_a_step(lambda t: math.exp(-2.0 * leak * t)))
    for step in range(1, n_steps + 1):
        fired = []
        rise = rise * math.exp(-time_step / adaptation_time)
        threshold = base + rise
        for i in range(n):
            brought = bias[i] * time_step + sum(h[i] * brought_of_current[tau] for tau, h in currents.items())
            charge[i] += brought
            if step < free_at[i]:
                refused[i] += brought
                continue
            risen = (
                v[i] * keep + bias[i] * of_drive + sum(h[i] * of_current[tau] for tau, h in currents.items())
            )
            leaked[i] += v[i] + brought - risen
            v[i] = risen
            if spread > 0.0:
                amount = spread * base[i] * normal(given.seed, first_step + step, i)
                v[i] += amount
                noise[i] += amount
            if given.potential_floor is not None and v[i] < given.potential_floor * base[i]:
                noise[i] += given.potential_floor * base[i] - v[i]
                v[i] = given.potential_floor * base[i]
            n_spikes = 0
            while v[i] >= threshold[i] and (n_spikes == 0 or (reset, refractory_steps) == ("subtract", 0)):
                v[i] = v[i] - threshold[i] if reset == "subtract" else 0.0
                n_spikes += 1
            if n_spikes:
                free_at[i] = step + 1 + refractory_steps
                fired.append((i, n_spikes))
        currents = {tau: h * math.exp(-time_step / tau) for tau, h in currents.items()}
        for j, n_spikes in fired:
            rise[j] += n_spikes * adaptation * base[j]
            steps += [step] * n_spikes
            neurons += [j] * n_spikes
            of_these = n_lost(given, first_step + step, j, n_spikes)
            lost[j] += of_these
            for i in range(n):
                arrival = step + delay_of(given, j, i, time_step)
                begun = (n_spikes - of_these) * weights[j, i] / constants[j]
                due.setdefault((arrival, constants[j]), np.zeros(n))[i] += begun
        for tau in currents:
            currents[tau] = currents[tau] + due.pop((step, tau), 0.0)
        currents[1.0] = currents[1.0] + inputs.get(step, 0.0)
        bias = drives.get(step, bias)
    pending = sum(due.values(), start=np.zeros(n))
    happened = np.array(steps), np.array(neurons, dtype=int), np.array(v), currents[1.0], charge
    return ClockedRun(*happened, leaked, refused, noise, lost, pending)

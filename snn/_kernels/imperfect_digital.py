"""The compiled part of digital runs of imperfect neurons: a step of `digital` with what imperfections add.

Before its bias and current come, a potential loses ``round(v leak / 2^k)`` and gains a rounded normal number.
A refractory neuron keeps its potential.  A message that is not lost goes to each target after the delay of
its synapse.
"""

from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inner, uncounted
from snn._kernels.digital import arrive, fire, integrate, rounded_quotient
from snn._kernels.random_numbers import fill_normals, n_that_arrive


class Imperfect(NamedTuple):
    """What is imperfect, and memory."""

    leak: int
    """What of 2^k units of a potential leaks in a step."""
    noise: float
    """Standard deviation of what noise adds to a potential in a step, in thresholds."""
    refractory_steps: int
    lost: float
    """Probability."""
    key: int
    delays: np.ndarray
    """Whole steps, for each entry of the weights."""
    waiting: np.ndarray
    """Shape (n_copies, n_neurons): steps until a neuron integrates again."""
    steps_before: np.ndarray
    """Shape (n_copies,): steps before the start; draws are of these and the steps since."""
    n_lost: np.ndarray
    """Messages that reached no target."""
    normals: np.ndarray


@inner
def _prepare(copies, k, network, rules, imperfect):
    """Change potentials so that a step of `digital` does what a step of imperfect neurons does."""
    potential, waiting = copies.potential[k], imperfect.waiting[k]
    if imperfect.noise > 0.0:
        fill_normals(imperfect.key, imperfect.steps_before[k] + copies.steps[k], imperfect.normals)
    for i in range(potential.shape[0]):
        v = potential[i]
        if waiting[i] > 0:
            potential[i] = v - copies.bias[k, i] - copies.current[k, i]
            continue
        v -= rounded_quotient(v * imperfect.leak, rules.decay_bits, rules.decay_rounding)
        if imperfect.noise > 0.0:
            v += int(np.rint(imperfect.noise * network.threshold[i] * imperfect.normals[i]))
        potential[i] = v


@inner
def _without_refractory(waiting, fired, n_fired):
    """Keep the neurons that may fire, and count down; return how many these are."""
    n_kept = 0
    for f in range(n_fired):
        if waiting[fired[f]] == 0:
            fired[n_kept] = fired[f]
            n_kept += 1
    for i in range(waiting.shape[0]):
        if waiting[i] > 0:
            waiting[i] -= 1
    return n_kept


@uncounted
def advance(
    network, rules, imperfect, copies, active, first, stop_steps, max_steps, max_spikes, fired, is_due, spikes
):
    """Run copies to their steps, as `digital.advance` does."""
    n_slots = copies.pending.shape[1]
    n_steps = 0
    n_spikes = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        while copies.steps[k] < stop_steps[k] and n_steps < max_steps and n_spikes < max_spikes:
            n_steps += 1
            copies.steps[k] += 1
            step = copies.steps[k]
            _prepare(copies, k, network, rules, imperfect)
            n_fired = integrate(copies, k, network, rules, fired)
            n_fired = _without_refractory(imperfect.waiting[k], fired, n_fired)
            for f in range(n_fired):
                j = fired[f]
                message = fire(network, rules, copies, k, j, step, spikes, n_spikes)
                imperfect.waiting[k, j] = imperfect.refractory_steps
                n_spikes += 1
                draw = imperfect.steps_before[k] + step
                if n_that_arrive(imperfect.key, draw, j, 1, imperfect.lost) == 0:
                    imperfect.n_lost[k, j] += 1
                    continue
                for entry in range(network.starts[j], network.starts[j + 1]):
                    slot = (step + imperfect.delays[entry]) % n_slots
                    is_due[k, slot] = True
                    copies.pending[k, slot, network.targets[entry]] += network.mantissas[entry] * message
            slot = step % n_slots
            if is_due[k, slot]:
                arrive(copies, k, slot, rules)
                is_due[k, slot] = False
        if copies.steps[k] < stop_steps[k]:
            return position, n_spikes
    return active.shape[0], n_spikes

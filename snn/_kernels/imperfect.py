"""The compiled part of clocked runs of imperfect neurons, one synapse after the other.

One step of length dt, from t to t + dt, of a neuron with bias beta, potential v and synaptic current h::

    refractory:  v stays, and the charge that arrives is refused
    otherwise:   v <- keep v + rise beta + arrival h + noise theta x        x: a standard normal number
    h <- decay h

Then the neurons at or above their thresholds fire.  A spike is lost with a given probability.  One that is
not lost is added to the current of each target, after the delay of the synapse.

The charge of the step is ``dt beta + charge h``.  What of it the potential does not get is leaked.
"""

from typing import NamedTuple

import numpy as np

from snn._kernels.clocked import reset
from snn._kernels.compiling import inner, uncounted
from snn._kernels.neuron import add_to_moments
from snn._kernels.random_numbers import fill_normals, n_that_arrive


class Synapses(NamedTuple):
    """Thresholds, and the synapses of neuron j: entries starts[j] to starts[j + 1]."""

    threshold: np.ndarray
    starts: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    delays: np.ndarray
    """Whole steps."""


class Rules(NamedTuple):
    """How a step is done."""

    time_step: float
    keep: float
    rise: float
    arrival: float
    decay: float
    charge: float
    noise: float
    """Standard deviation of what noise adds in a step, in thresholds."""
    refractory_steps: int
    lost: float
    """Probability."""
    subtract: bool
    key: int


class Copies(NamedTuple):
    """Copies of a network: a row for each copy, an entry for each neuron."""

    bias: np.ndarray
    potential: np.ndarray
    current: np.ndarray
    pending: np.ndarray
    """Shape (n_copies, n_slots, n_neurons): what arrives at the end of step s is in slot s modulo n_slots."""
    waiting: np.ndarray
    """Steps until a neuron integrates again."""
    steps: np.ndarray
    """Shape (n_copies,): steps since the start."""
    steps_before: np.ndarray
    """Shape (n_copies,): steps before the start; draws are of the sum of both."""
    spike_counts: np.ndarray
    removed: np.ndarray
    """What resets took from the potential."""
    leaked: np.ndarray
    refused: np.ndarray
    noise: np.ndarray
    n_lost: np.ndarray
    moments: np.ndarray


class Memory(NamedTuple):
    """What a call works in, an entry for each neuron."""

    normals: np.ndarray
    fired: np.ndarray


@inner
def _integrate(copies, k, threshold, rules, memory):
    """Advance potentials and currents; list the neurons that fire, return how many."""
    bias, potential, current, waiting = (
        copies.bias[k], copies.potential[k], copies.current[k], copies.waiting[k],
    )  # fmt: skip
    leaked, refused, noise = copies.leaked[k], copies.refused[k], copies.noise[k]
    n_fired = 0
    for i in range(bias.shape[0]):
        h = current[i]
        current[i] = h * rules.decay
        if waiting[i] > 0:
            waiting[i] -= 1
            refused[i] += bias[i] * rules.time_step + h * rules.charge
            continue
        before = potential[i]
        v = rules.keep * before + (bias[i] * rules.rise + h * rules.arrival)
        if rules.keep != 1.0:
            leaked[i] += (bias[i] * rules.time_step + h * rules.charge) - (v - before)
        if rules.noise > 0.0:
            kick = rules.noise * threshold[i] * memory.normals[i]
            noise[i] += kick
            v += kick
        potential[i] = v
        if v >= threshold[i]:
            memory.fired[n_fired] = i
            n_fired += 1
    return n_fired


@inner
def _send(synapses, neuron, n_sent, step, pending, current):
    n_slots = pending.shape[0]
    for entry in range(synapses.starts[neuron], synapses.starts[neuron + 1]):
        target, amount = synapses.targets[entry], n_sent * synapses.weights[entry]
        if synapses.delays[entry] == 0:
            current[target] += amount
        else:
            pending[(step + synapses.delays[entry]) % n_slots, target] += amount


@inner
def _arrive(pending, step, current):
    slot = step % pending.shape[0]
    for i in range(current.shape[0]):
        current[i] += pending[slot, i]
        pending[slot, i] = 0.0


@uncounted
def advance(synapses, copies, memory, rules, active, first, stop_steps, max_steps, max_spikes, spikes):
    """Run copies to their steps, as `clocked.advance` does, whose `spikes` these are."""
    record = spikes.steps.shape[0] > 0
    n_steps = 0
    n_spikes = 0
    n_recorded = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        step, before = copies.steps[k], copies.steps_before[k]
        potential, current, pending = copies.potential[k], copies.current[k], copies.pending[k]
        while step < stop_steps[k] and n_steps < max_steps and n_spikes < max_spikes:
            n_steps += 1
            step += 1
            if rules.noise > 0.0:
                fill_normals(rules.key, before + step, memory.normals)
            n_fired = _integrate(copies, k, synapses.threshold, rules, memory)
            for f in range(n_fired):
                neuron = memory.fired[f]
                # A refractory neuron has to wait for its next spike.
                once = rules.refractory_steps > 0
                taken, sent = reset(synapses.threshold[neuron], potential[neuron], rules.subtract, once)
                times = int(sent)
                potential[neuron] -= taken
                copies.removed[k, neuron] += taken
                copies.waiting[k, neuron] = rules.refractory_steps
                copies.spike_counts[k, neuron] += times
                n_spikes += times
                if record:
                    spikes.steps[n_recorded] = step
                    spikes.neurons[n_recorded] = neuron
                    spikes.times[n_recorded] = times
                    n_recorded += 1
                if copies.moments.shape[0] > 0:
                    for _ in range(times):
                        add_to_moments(copies.moments, k, neuron, step * rules.time_step)
                n_arrived = n_that_arrive(rules.key, before + step, neuron, times, rules.lost)
                copies.n_lost[k, neuron] += times - n_arrived
                if n_arrived > 0:
                    _send(synapses, neuron, n_arrived, step, pending, current)
            if pending.shape[0] > 1:
                _arrive(pending, step, current)
        copies.steps[k] = step
        if step < stop_steps[k]:
            return position, n_spikes, n_recorded
    return active.shape[0], n_spikes, n_recorded

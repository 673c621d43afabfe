"""The compiled part of the clocked simulator; nothing here calls, or is called by, the event kernels.

A step reads four numbers of each neuron and writes two, and takes as long as the first-level cache needs
for that, 0.2 ns a neuron.  So charge and filtered spikes are updated at spikes only, no flags are stored,
and the copy that runs is held in a workspace aligned to cache lines.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import compiled, uncounted
from snn._kernels.currents import add_weights

POTENTIAL, CURRENT, BIAS, THRESHOLD = 0, 1, 2, 3
"""Rows of the workspace."""

GROUP = 32
"""The workspace is filled up to a multiple of this number with neurons that never fire."""

ONE_NEURON = 2**32
"""What a neuron that fires adds to a sum, besides its index."""

MOST_GROWTH = 1e50
"""Traces are rescaled before e^t goes out of range."""


class Copies(NamedTuple):
    """Copies of a network: a row for each copy, an entry for each neuron."""

    bias: np.ndarray
    potential: np.ndarray
    current: np.ndarray
    spike_counts: np.ndarray
    removed: np.ndarray
    """What resets took from the potential."""
    trace: np.ndarray
    """Filtered spikes times `growth`: a spike changes one entry."""
    growth: np.ndarray
    """Shape (n_copies,): a step multiplies it by e^dt."""
    steps: np.ndarray
    """Shape (n_copies,): steps so far."""


class Workspace(NamedTuple):
    """What one copy runs in."""

    rows: np.ndarray
    """Shape (4, padded number of neurons)."""
    fired: np.ndarray
    """The neurons that fire in a step."""


class Spikes(NamedTuple):
    """Recorded spikes."""

    steps: np.ndarray
    neurons: np.ndarray


@compiled
def _enter(potential, current, bias, workspace):
    """Put one copy into the workspace."""
    for i in range(bias.shape[0]):
        workspace[POTENTIAL, i] = potential[i]
        workspace[CURRENT, i] = current[i]
        workspace[BIAS, i] = bias[i]


@compiled
def _leave(potential, current, workspace):
    for i in range(potential.shape[0]):
        potential[i] = workspace[POTENTIAL, i]
        current[i] = workspace[CURRENT, i]


@compiled
def _integrate(bias, threshold, potential, current, time_step, decay):
    """Do rule 1 and the decay of rule 3; return the sum of ONE_NEURON + i over all i that fire.

    The sum says whether no neuron fires, one, and which, or several: most steps need no more than that.
    """
    fired_sum = 0
    for i in range(potential.shape[0]):
        h = current[i]
        v = potential[i] + (bias[i] + h) * time_step
        potential[i] = v
        current[i] = h * decay
        fired_sum += ONE_NEURON + i if v >= threshold[i] else 0
    return fired_sum


@compiled
def _sum_of_fired(threshold, potential):
    fired_sum = 0
    for i in range(potential.shape[0]):
        fired_sum += ONE_NEURON + i if potential[i] >= threshold[i] else 0
    return fired_sum


@compiled
def _find_several(threshold, potential, fired):
    """List the neurons that fire; return how many do."""
    n_fired = 0
    for first in range(0, potential.shape[0], GROUP):
        fired_sum = _sum_of_fired(threshold[first : first + GROUP], potential[first : first + GROUP])
        if fired_sum == 0:
            continue
        if fired_sum < 2 * ONE_NEURON:
            fired[n_fired] = first + fired_sum - ONE_NEURON
            n_fired += 1
            continue
        for i in range(first, first + GROUP):
            if potential[i] >= threshold[i]:
                fired[n_fired] = i
                n_fired += 1
    return n_fired


@compiled
def _rescale(trace, growth):
    for i in range(trace.shape[0]):
        trace[i] /= growth


@uncounted
def advance(
    form, copies, workspace, first, stop_step, time_step, subtract, max_steps, max_events, record, spikes
):
    """Run the copies first, first + 1, ... up to `stop_step` steps each.

    Returns (copy to go on with, steps done, spikes), early once max_steps steps were done or max_events
    spikes emitted.  The arrays of `spikes` must hold max_events + n_neurons entries: a step is never split.
    `form` are the weights, one of the records of `forms`; self-weights are ignored.
    """
    potential, current = workspace.rows[POTENTIAL], workspace.rows[CURRENT]
    bias, threshold = workspace.rows[BIAS], workspace.rows[THRESHOLD]
    fired, all_steps = workspace.fired, copies.steps
    decay = math.exp(-time_step)
    step_growth = math.exp(time_step)
    n_steps = 0
    n_events = 0
    for k in range(first, all_steps.shape[0]):
        _enter(copies.potential[k], copies.current[k], copies.bias[k], workspace.rows)
        spike_counts, removed, trace = copies.spike_counts[k], copies.removed[k], copies.trace[k]
        growth, step = copies.growth[k], all_steps[k]
        while step < stop_step and n_steps < max_steps and n_events < max_events:
            n_steps += 1
            step += 1
            growth *= step_growth
            if growth > MOST_GROWTH:
                _rescale(trace, growth)
                growth = 1.0
            fired_sum = _integrate(bias, threshold, potential, current, time_step, decay)
            if fired_sum == 0:
                continue
            n_fired = 1
            fired[0] = fired_sum - ONE_NEURON
            if fired_sum >= 2 * ONE_NEURON:
                n_fired = _find_several(threshold, potential, fired)
            for f in range(n_fired):
                neuron = fired[f]
                taken = threshold[neuron] if subtract else potential[neuron]
                potential[neuron] = potential[neuron] - taken if subtract else 0.0
                removed[neuron] += taken
                trace[neuron] += growth
                spike_counts[neuron] += 1
                if record:
                    spikes.steps[n_events] = step
                    spikes.neurons[n_events] = neuron
                n_events += 1
                own_current = current[neuron]
                add_weights(form, current, neuron, 1.0)
                current[neuron] = own_current
        _leave(copies.potential[k], copies.current[k], workspace.rows)
        copies.growth[k] = growth
        all_steps[k] = step
        if step < stop_step:
            return k, n_steps, n_events
    return all_steps.shape[0], n_steps, n_events

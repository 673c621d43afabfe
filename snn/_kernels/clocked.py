"""The compiled part of the clocked simulator; nothing here calls, or is called by, the event kernels.

One step of length dt, from t to t + dt, of a neuron with bias beta, potential v and synaptic current h::

    v <- v + beta dt + arrival h      arrival 1 - e^-dt: exact; arrival dt: Euler, v + dt (beta + h)
    h <- e^-dt h

Then the neurons at or above their thresholds fire, and their spikes are added to h.  Exact integration and
Euler's differ in one number, `arrival`.

A step reads four numbers of each neuron and writes two, and takes as long as the first-level cache needs
for that, 0.2 ns a neuron.  So charge and filtered spikes are updated at spikes only, no flags are stored,
and the copy that runs is held in a workspace aligned to cache lines.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inner, uncounted
from snn._kernels.currents import add_weights
from snn._kernels.neuron import add_to_moments

POTENTIAL, CURRENT, RISE, THRESHOLD = 0, 1, 2, 3
"""Rows of the workspace; RISE is what the bias adds to a potential in a step."""

GROUP = 32
"""The workspace is filled up to a multiple of this number with neurons that never fire."""

ONE_NEURON = 2**32
"""What a neuron that fires adds to a sum, besides its index."""

MOST_AT_ONCE = 1024.0
"""Spikes of one neuron in one step; charge beyond that is left for the next step."""

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
    moments: np.ndarray
    """Of the times of each neuron's spikes (`neuron.add_to_moments`), or of size zero."""


class Workspace(NamedTuple):
    """What one copy runs in."""

    rows: np.ndarray
    """Shape (4, padded number of neurons)."""
    fired: np.ndarray
    """The neurons that fire in a step."""


class Rules(NamedTuple):
    """How a step is done."""

    time_step: float
    arrival: float
    """What a soma gets of a synaptic current in a step."""
    decay: float
    """What is left of the current."""
    subtract: bool
    """Whether a spike takes the threshold from the potential, or all of it."""


class Spikes(NamedTuple):
    """Recorded spikes: step, neuron, and how many."""

    steps: np.ndarray
    neurons: np.ndarray
    times: np.ndarray


@inner
def _enter(potential, current, bias, time_step, workspace):
    """Put one copy into the workspace."""
    for i in range(bias.shape[0]):
        workspace[POTENTIAL, i] = potential[i]
        workspace[CURRENT, i] = current[i]
        workspace[RISE, i] = bias[i] * time_step


@inner
def _leave(potential, current, workspace):
    for i in range(potential.shape[0]):
        potential[i] = workspace[POTENTIAL, i]
        current[i] = workspace[CURRENT, i]


@inner
def _integrate(rise, threshold, potential, current, arrival, decay):
    """Advance potentials and currents; return the sum of ONE_NEURON + i over all i that fire.

    The sum says whether no neuron fires, one, and which, or several: most steps need no more than that.
    """
    fired_sum = 0
    for i in range(potential.shape[0]):
        h = current[i]
        v = potential[i] + (rise[i] + h * arrival)
        potential[i] = v
        current[i] = h * decay
        fired_sum += ONE_NEURON + i if v >= threshold[i] else 0
    return fired_sum


@inner
def _sum_of_fired(threshold, potential):
    fired_sum = 0
    for i in range(potential.shape[0]):
        fired_sum += ONE_NEURON + i if potential[i] >= threshold[i] else 0
    return fired_sum


@inner
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


@inner
def _rescale(trace, growth):
    for i in range(trace.shape[0]):
        trace[i] /= growth


@inner
def reset(threshold, potential, subtract, once):
    """Return what the spikes of a neuron take from its potential, and how many they are."""
    if not subtract:
        return potential, 1.0
    if once or potential < 2.0 * threshold:
        return threshold, 1.0
    times = min(math.floor(potential / threshold), MOST_AT_ONCE)
    return times * threshold, times


@uncounted
def advance(form, copies, workspace, rules, active, first, stop_steps, max_steps, max_spikes, spikes):
    """Run the copies active[first:] to their `stop_steps`; return where to go on, spikes and entries."""
    # It ends early after `max_steps` steps or `max_spikes` spikes; a step is not split, and `spikes` has room
    # for as many more as there are neurons, or for none.  Self-weights of the `form` are ignored.
    potential, current = workspace.rows[POTENTIAL], workspace.rows[CURRENT]
    rise, threshold = workspace.rows[RISE], workspace.rows[THRESHOLD]
    fired, all_steps = workspace.fired, copies.steps
    step_growth = math.exp(rules.time_step)
    record = spikes.steps.shape[0] > 0
    n_steps = 0
    n_spikes = 0
    n_recorded = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        stop_step = stop_steps[k]
        if all_steps[k] >= stop_step:
            continue
        _enter(copies.potential[k], copies.current[k], copies.bias[k], rules.time_step, workspace.rows)
        spike_counts, removed, trace = copies.spike_counts[k], copies.removed[k], copies.trace[k]
        growth, step = copies.growth[k], all_steps[k]
        while step < stop_step and n_steps < max_steps and n_spikes < max_spikes:
            n_steps += 1
            step += 1
            growth *= step_growth
            if growth > MOST_GROWTH:
                _rescale(trace, growth)
                growth = 1.0
            fired_sum = _integrate(rise, threshold, potential, current, rules.arrival, rules.decay)
            if fired_sum == 0:
                continue
            n_fired = 1
            fired[0] = fired_sum - ONE_NEURON
            if fired_sum >= 2 * ONE_NEURON:
                n_fired = _find_several(threshold, potential, fired)
            for f in range(n_fired):
                neuron = fired[f]
                taken, times = reset(threshold[neuron], potential[neuron], rules.subtract, False)
                potential[neuron] -= taken
                removed[neuron] += taken
                trace[neuron] += times * growth
                spike_counts[neuron] += int(times)
                n_spikes += int(times)
                if record:
                    spikes.steps[n_recorded] = step
                    spikes.neurons[n_recorded] = neuron
                    spikes.times[n_recorded] = int(times)
                    n_recorded += 1
                if copies.moments.shape[0] > 0:
                    for _ in range(int(times)):
                        add_to_moments(copies.moments, k, neuron, step * rules.time_step)
                own_current = current[neuron]
                add_weights(form, current, neuron, times)
                current[neuron] = own_current
        _leave(copies.potential[k], copies.current[k], workspace.rows)
        copies.growth[k] = growth
        all_steps[k] = step
        if step < stop_step:
            return position, n_spikes, n_recorded
    return active.shape[0], n_spikes, n_recorded

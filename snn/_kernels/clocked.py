"""The compiled part of the clocked simulator; nothing here calls, or is called by, the event kernels.

A step reads four numbers a neuron and writes two, and takes as long as the first-level cache needs for
that, 0.2 ns a neuron.  So whatever can be kept from spike to spike (charge, filtered spikes) is, no flags
are stored, and the copy that runs stands in a workspace aligned to cache lines.
"""

import math

from snn._kernels.compiling import compiled

POTENTIAL, CURRENT, BIAS, THRESHOLD = 0, 1, 2, 3
"""Rows of the workspace."""

GROUP = 32
"""The workspace is filled up to a multiple of so many neurons, with some that never fire."""

SEGMENTS, MIRRORED, SPARSE = 0, 1, 2
"""Forms of weights."""

ONE_NEURON = 2**32
"""What a neuron that fires adds to a sum, besides its index."""

MOST_GROWTH = 1e50
"""Traces are rescaled before e^t goes out of range."""


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

    The sum tells whether any fires, whether more than one does, and otherwise which: most steps end there.
    """
    who = 0
    for i in range(potential.shape[0]):
        h = current[i]
        v = potential[i] + (bias[i] + h) * time_step
        potential[i] = v
        current[i] = h * decay
        who += ONE_NEURON + i if v >= threshold[i] else 0
    return who


@compiled
def _who_fires(threshold, potential):
    who = 0
    for i in range(potential.shape[0]):
        who += ONE_NEURON + i if potential[i] >= threshold[i] else 0
    return who


@compiled
def _find_several(threshold, potential, fired):
    """List who fires; return how many do."""
    n_fired = 0
    for first in range(0, potential.shape[0], GROUP):
        who = _who_fires(threshold[first : first + GROUP], potential[first : first + GROUP])
        if who == 0:
            continue
        if who < 2 * ONE_NEURON:
            fired[n_fired] = first + who - ONE_NEURON
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


@compiled
def _deliver(current, weights_row, factor):
    for i in range(weights_row.shape[0]):
        current[i] += factor * weights_row[i]


@compiled
def _deliver_mirrored(lateral, factor, exchange, current, neuron):
    n_pairs = exchange.shape[0]
    pair = neuron % n_pairs
    other = (neuron + n_pairs) % (2 * n_pairs)
    other_current = current[other] + exchange[pair]
    signed_factor = factor if neuron < n_pairs else -factor
    row = lateral[pair * n_pairs : (pair + 1) * n_pairs]
    _deliver(current[:n_pairs], row, signed_factor)
    _deliver(current[n_pairs : 2 * n_pairs], row, -signed_factor)
    current[other] = other_current


@compiled
def advance(
    synapses, copies, workspace, fired, first, stop_step, time_step, subtract, max_steps, max_events, record,
    spike_steps, spike_neurons,
):  # fmt: skip
    """Run the copies first, first + 1, ... up to `stop_step` steps each.

    Returns (copy to go on with, steps done, spikes), early once max_steps steps were done or max_events
    spikes emitted.  The spike arrays must hold max_events + n_neurons entries: a step is never split.

    Synapses: with SEGMENTS a source has segments starts[source] .. starts[source + 1] - 1, each with its
    first target, length, offset in `values` and factor.  MIRRORED: `values` are the lateral weights of
    pairs, delivered with both signs and the one factor.  SPARSE: compressed sparse rows.  What they say of
    a neuron's weight to itself is not heard.

    Copies: a row a copy, an entry a neuron; growth and steps one entry a copy.  `removed` is what resets
    took from the potential.  Filtered spikes are trace / growth: a spike adds to one number of the trace,
    and a step multiplies one.
    """
    form, starts, targets, lengths, offsets, factors, values, exchange = synapses
    all_bias, all_potential, all_current, all_counts, all_removed, all_trace, all_growth, all_steps = copies
    potential, current = workspace[POTENTIAL], workspace[CURRENT]
    bias, threshold = workspace[BIAS], workspace[THRESHOLD]
    decay = math.exp(-time_step)
    step_growth = math.exp(time_step)
    n_steps = 0
    n_events = 0
    for k in range(first, all_steps.shape[0]):
        _enter(all_potential[k], all_current[k], all_bias[k], workspace)
        spike_counts, removed, trace = all_counts[k], all_removed[k], all_trace[k]
        growth, step = all_growth[k], all_steps[k]
        while step < stop_step and n_steps < max_steps and n_events < max_events:
            n_steps += 1
            step += 1
            growth *= step_growth
            if growth > MOST_GROWTH:
                _rescale(trace, growth)
                growth = 1.0
            who = _integrate(bias, threshold, potential, current, time_step, decay)
            if who == 0:
                continue
            n_fired = 1
            fired[0] = who - ONE_NEURON
            if who >= 2 * ONE_NEURON:
                n_fired = _find_several(threshold, potential, fired)
            for f in range(n_fired):
                neuron = fired[f]
                taken = threshold[neuron] if subtract else potential[neuron]
                potential[neuron] = potential[neuron] - taken if subtract else 0.0
                removed[neuron] += taken
                trace[neuron] += growth
                spike_counts[neuron] += 1
                if record:
                    spike_steps[n_events] = step
                    spike_neurons[n_events] = neuron
                n_events += 1
                own_current = current[neuron]
                if form == SEGMENTS:
                    for segment in range(starts[neuron], starts[neuron + 1]):
                        target, length, offset = targets[segment], lengths[segment], offsets[segment]
                        _deliver(
                            current[target : target + length], values[offset : offset + length],
                            factors[segment],
                        )  # fmt: skip
                elif form == SPARSE:
                    for entry in range(starts[neuron], starts[neuron + 1]):
                        current[targets[entry]] += values[entry]
                else:
                    _deliver_mirrored(values, factors[0], exchange, current, neuron)
                current[neuron] = own_current
        _leave(all_potential[k], all_current[k], workspace)
        all_growth[k] = growth
        all_steps[k] = step
        if step < stop_step:
            return k, n_steps, n_events
    return all_steps.shape[0], n_steps, n_events

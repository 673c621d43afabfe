"""Weights as segments, ranges of targets: see `forms.Segments` and `delivery`."""

import numpy as np

from snn._kernels import delivery
from snn._kernels.candidates import ARRIVING, add_to_range, find_candidates
from snn._kernels.compiling import implements
from snn._kernels.delivery import DEVIATION, TOTAL, TRACE, add_scaled
from snn._kernels.forms import Segments


@implements(delivery.weight_between, Segments)
def weight_between(form, source, target):
    weight = 0.0
    for segment in range(form.starts[source], form.starts[source + 1]):
        k = target - form.targets[segment]
        if 0 <= k < form.lengths[segment]:
            weight += form.factors[segment] * form.values[form.offsets[segment] + k]
    return weight


@implements(delivery.deliver, Segments)
def deliver(form, source, moment, length, group, windows, n_candidates):
    for segment in range(form.starts[source], form.starts[source + 1]):
        first = form.targets[segment]
        offset = form.offsets[segment]
        factor = form.factors[segment]
        n_targets = form.lengths[segment]
        for k in range(n_candidates):
            i = windows.neurons[k] - first
            if 0 <= i < n_targets:
                windows.candidates[ARRIVING, k] += factor * form.values[np.uint64(offset + i)]
        reached = add_to_range(
            windows, group.current, first, n_targets, form.values, offset, factor * moment.to_end,
            factor * moment.growth,
        )  # fmt: skip
        if reached:
            n_candidates = find_candidates(first, first + n_targets, length, n_candidates, group, windows)
    return n_candidates


@implements(delivery.add_sources, Segments)
def add_sources(form, start, size, sources, n_sources, sums):
    for s in range(n_sources):
        source = sources.rows[s]
        total, trace, deviation = sources.sums[TOTAL, s], sources.sums[TRACE, s], sources.sums[DEVIATION, s]
        for segment in range(form.starts[source], form.starts[source + 1]):
            first = form.targets[segment]
            offset = form.offsets[segment]
            factor = form.factors[segment]
            for k in range(form.lengths[segment]):
                i = np.uint64(first + k)
                weight = factor * form.values[np.uint64(offset + k)]
                sums[TOTAL, i] += total * weight
                sums[TRACE, i] += trace * weight
                sums[DEVIATION, i] += deviation * abs(weight)


@implements(delivery.add_weights, Segments)
def add_weights(form, current, neuron, count):
    n_weights = 0
    for segment in range(form.starts[neuron], form.starts[neuron + 1]):
        target, length, offset = form.targets[segment], form.lengths[segment], form.offsets[segment]
        add_scaled(
            current[target : target + length],
            form.values[offset : offset + length],
            count * form.factors[segment],
        )
        n_weights += length
    return n_weights

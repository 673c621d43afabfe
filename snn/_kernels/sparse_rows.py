"""Weights of ranges of targets, `forms.Segments`, and of single targets, `forms.CompressedRows`."""

import numpy as np

from snn._kernels import delivery
from snn._kernels.candidates import (
    ARRIVING,
    add_candidate,
    add_to_range,
    end_potential_of,
    find_candidates,
    renew_touched,
    touch,
)
from snn._kernels.compiling import implements
from snn._kernels.delivery import DEVIATION, TOTAL, TRACE, add_scaled
from snn._kernels.forms import CompressedRows, Segments


@implements(delivery.weight_between, Segments)
def weight_between_of_segments(form, source, target):
    weight = 0.0
    for segment in range(form.starts[source], form.starts[source + 1]):
        k = target - form.targets[segment]
        if 0 <= k < form.lengths[segment]:
            weight += form.factors[segment] * form.values[form.offsets[segment] + k]
    return weight


@implements(delivery.deliver, Segments)
def deliver_of_segments(form, source, moment, length, group, windows, n_candidates):
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
def add_sources_of_segments(form, start, size, sources, n_sources, sums):
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
def add_weights_of_segments(form, current, neuron, count):
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


@implements(delivery.weight_between, CompressedRows)
def weight_between_of_rows(form, source, target):
    first, last = form.starts[source], form.starts[source + 1]
    while first < last:
        middle = (first + last) // 2
        if form.targets[middle] < target:
            first = middle + 1
        else:
            last = middle
    is_found = first < form.starts[source + 1] and form.targets[first] == target
    return form.weights[first] if is_found else 0.0


@implements(delivery.deliver, CompressedRows)
def deliver_of_rows(form, source, moment, length, group, windows, n_candidates):
    excess = windows.excess
    touch(windows.column_of[source], windows)
    for entry in range(form.starts[source], form.starts[source + 1]):
        i = form.targets[entry]
        weight = form.weights[entry]
        if excess[i] == -np.inf:
            windows.candidates[ARRIVING, windows.column_of[i]] += weight
            touch(windows.column_of[i], windows)
            continue
        excess[i] += moment.to_end * weight
        group.current[i] += moment.growth * weight
        if excess[i] >= 0.0:
            add_candidate(n_candidates, i, end_potential_of(i, length, group, windows), group, windows)
            touch(n_candidates, windows)
            n_candidates += 1
    return n_candidates


@implements(delivery.renew, CompressedRows)
def renew_of_rows(form, n_candidates, moment, instant, windows):
    # Few are reached: what is known of the others, an exact crossing perhaps, is still right.
    renew_touched(moment, windows)
    return instant


@implements(delivery.gather, CompressedRows)
def gather_of_rows(form, source, members, n_members, rows, offset):
    # Members and targets are in order: go through both at once.
    entry, last = form.starts[source], form.starts[source + 1]
    for k in range(n_members):
        while entry < last and form.targets[entry] < members[k]:
            entry += 1
        is_target = entry < last and form.targets[entry] == members[k]
        rows[offset + k] = form.weights[entry] if is_target else 0.0


@implements(delivery.add_sources, CompressedRows)
def add_sources_of_rows(form, start, size, sources, n_sources, sums):
    for s in range(n_sources):
        source = sources.rows[s]
        total, trace, deviation = sources.sums[TOTAL, s], sources.sums[TRACE, s], sources.sums[DEVIATION, s]
        for entry in range(form.starts[source], form.starts[source + 1]):
            i = form.targets[entry]
            weight = form.weights[entry]
            sums[TOTAL, i] += total * weight
            sums[TRACE, i] += trace * weight
            sums[DEVIATION, i] += deviation * abs(weight)


@implements(delivery.add_weights, CompressedRows)
def add_weights_of_rows(form, current, neuron, count):
    for entry in range(form.starts[neuron], form.starts[neuron + 1]):
        current[form.targets[entry]] += count * form.weights[entry]
    return form.starts[neuron + 1] - form.starts[neuron]

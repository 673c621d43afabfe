"""Compressed sparse rows of weights, scattered targets: see `forms.CompressedRows` and `delivery`."""

import numpy as np

from snn._kernels import delivery
from snn._kernels.candidates import ARRIVING, add_candidate, end_potential_of, renew_touched, touch
from snn._kernels.compiling import implements
from snn._kernels.delivery import DEVIATION, TOTAL, TRACE
from snn._kernels.forms import CompressedRows


@implements(delivery.weight_between, CompressedRows)
def weight_between(form, source, target):
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
def deliver(form, source, moment, length, group, windows, n_candidates):
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
def renew(form, n_candidates, moment, instant, windows):
    # Few are reached: what is known of the others, an exact crossing perhaps, is still right.
    renew_touched(moment, windows)
    return instant


@implements(delivery.gather, CompressedRows)
def gather(form, source, members, n_members, rows, offset):
    # Members and targets are in order: go through both at once.
    entry, last = form.starts[source], form.starts[source + 1]
    for k in range(n_members):
        while entry < last and form.targets[entry] < members[k]:
            entry += 1
        is_target = entry < last and form.targets[entry] == members[k]
        rows[offset + k] = form.weights[entry] if is_target else 0.0


@implements(delivery.add_sources, CompressedRows)
def add_sources(form, start, size, sources, n_sources, sums):
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
def add_weights(form, current, neuron, count):
    for entry in range(form.starts[neuron], form.starts[neuron + 1]):
        current[form.targets[entry]] += count * form.weights[entry]
    return form.starts[neuron + 1] - form.starts[neuron]

"""Dense rows of weights, with one neuron a row or, as sign pairs, two: see `forms.Rows` and `delivery`."""

import numpy as np

from snn._kernels import delivery
from snn._kernels.candidates import ARRIVING, add_to_range, find_candidates
from snn._kernels.compiling import implements, inlined
from snn._kernels.delivery import DEVIATION, TOTAL, TRACE, add_scaled
from snn._kernels.forms import Rows

# Targets whose sums stay in the first-level cache. No power of two, since a processor takes a read for one of
# what it has just written, and waits, if they are 4,096 bytes apart.
SUMS_IN_CACHE = 1120
TOGETHER = 8  # sources that are added at once


@inlined
def _row_of(form, neuron):
    n_rows = form.row_of.shape[0]
    return neuron if neuron < n_rows else neuron - n_rows


@implements(delivery.row_is_there, Rows)
def row_is_there(form, source):
    return form.row_of[_row_of(form, source)] >= 0


@implements(delivery.weight_between, Rows)
def weight_between(form, source, target):
    n_rows = form.row_of.shape[0]
    row = _row_of(form, source)
    place = _row_of(form, target)
    if place == row:
        return 0.0 if target == source else form.cross[row]
    weight = form.factor * form.values[form.row_of[row] * n_rows + place]
    return -weight if (source < n_rows) != (target < n_rows) else weight


@implements(delivery.deliver, Rows)
def deliver(form, source, moment, length, group, windows, n_candidates):
    n_neurons = group.bias.shape[0]
    n_rows = form.row_of.shape[0]
    row = _row_of(form, source)
    offset = form.row_of[row] * n_rows
    signed = form.factor if source < n_rows else -form.factor
    for k in range(n_candidates):
        i = windows.neurons[k]
        place = i if i < n_rows else i - n_rows
        weight = signed * form.values[np.uint64(offset + place)]
        weight = weight if i < n_rows else -weight
        if place == row:
            weight = 0.0 if i == source else form.cross[row]
        windows.candidates[ARRIVING, k] += weight
    for first in range(0, n_neurons, n_rows):
        # The diagonal of the matrix is no weight: put back what it has done.
        own = first + row
        own_excess = windows.excess[own]
        own_current = group.current[own]
        reached = add_to_range(
            windows, group.current, first, n_rows, form.values, offset, signed * moment.to_end,
            signed * moment.growth,
        )  # fmt: skip
        windows.excess[own] = own_excess
        group.current[own] = own_current
        if own != source and own_excess > -np.inf:
            windows.excess[own] += moment.to_end * form.cross[row]
            group.current[own] += moment.growth * form.cross[row]
            reached |= windows.excess[own] >= 0.0
        if reached:
            n_candidates = find_candidates(first, first + n_rows, length, n_candidates, group, windows)
        signed = -signed
    return n_candidates


@implements(delivery.prepare_sources, Rows)
def prepare_sources(form, active, sources, n_sources):
    n_rows = form.row_of.shape[0]
    for s in range(n_sources):
        source = active.members[sources.members[s]]
        sources.rows[s] = form.row_of[_row_of(form, source)] * n_rows
        sign = form.factor if source < n_rows else -form.factor
        sources.sums[TRACE, s] *= sign
        sources.sums[TOTAL, s] *= sign
        sources.sums[DEVIATION, s] *= abs(form.factor)
    n_filled = n_sources
    while n_filled % TOGETHER != 0:
        sources.rows[n_filled] = 0
        for row in range(sources.sums.shape[0]):
            sources.sums[row, n_filled] = 0.0
        n_filled += 1
    return n_filled


@inlined
def _sum_of_eight(factors, s, w):
    first = (factors[s] * w[0] + factors[s + 1] * w[1]) + (factors[s + 2] * w[2] + factors[s + 3] * w[3])
    last = (factors[s + 4] * w[4] + factors[s + 5] * w[5]) + (factors[s + 6] * w[6] + factors[s + 7] * w[7])
    return first + last


@implements(delivery.add_sources, Rows)
def add_sources(form, start, size, sources, n_sources, sums):
    values, rows = form.values, sources.rows
    total, trace, deviation = sources.sums[TOTAL], sources.sums[TRACE], sources.sums[DEVIATION]
    for s in range(0, n_sources, TOGETHER):
        first = (
            start + rows[s], start + rows[s + 1], start + rows[s + 2], start + rows[s + 3],
            start + rows[s + 4], start + rows[s + 5], start + rows[s + 6], start + rows[s + 7],
        )  # fmt: skip
        for k in range(size):
            w = (
                values[np.uint64(first[0] + k)], values[np.uint64(first[1] + k)],
                values[np.uint64(first[2] + k)], values[np.uint64(first[3] + k)],
                values[np.uint64(first[4] + k)], values[np.uint64(first[5] + k)],
                values[np.uint64(first[6] + k)], values[np.uint64(first[7] + k)],
            )  # fmt: skip
            i = np.uint64(k)
            sums[TOTAL, i] += _sum_of_eight(total, s, w)
            sums[TRACE, i] += _sum_of_eight(trace, s, w)
            sizes = (
                abs(w[0]), abs(w[1]), abs(w[2]), abs(w[3]), abs(w[4]), abs(w[5]), abs(w[6]), abs(w[7]),
            )  # fmt: skip
            sums[DEVIATION, i] += _sum_of_eight(deviation, s, sizes)


@implements(delivery.add_weights, Rows)
def add_weights(form, current, neuron, count):
    n_rows = form.row_of.shape[0]
    n_neurons = n_rows + form.cross.shape[0]
    row = _row_of(form, neuron)
    offset = form.row_of[row] * n_rows
    values = form.values[offset : offset + n_rows]
    factor = count * (form.factor if neuron < n_rows else -form.factor)
    for first in range(0, n_neurons, n_rows):
        # The diagonal of the matrix is no weight.
        own = first + row
        own_current = current[own] + (0.0 if own == neuron else count * form.cross[row])
        add_scaled(current[first : first + n_rows], values, factor)
        current[own] = own_current
        factor = -factor
    return n_neurons

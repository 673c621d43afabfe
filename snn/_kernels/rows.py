"""Dense rows of weights, with one neuron a row or, as sign pairs, two: see `forms.Rows` and `delivery`."""

import numpy as np

from snn._kernels import delivery
from snn._kernels.candidates import ARRIVING, add_to_range, find_candidates
from snn._kernels.compiling import implements, inlined
from snn._kernels.delivery import DEVIATION, TOTAL, TRACE
from snn._kernels.forms import Rows

SUMS_IN_CACHE = 1120
"""Targets whose sums stay in the first-level cache.  No power of two, since a processor takes a read for one
of what it has just written, and waits, if they are 4,096 bytes apart."""
TOGETHER = 4
"""Sources are added in fours, and while there are as many, in two of these at once."""


@inlined
def _row_of(form, neuron):
    n_rows = form.row_of.shape[0]
    return neuron if neuron < n_rows else neuron - n_rows


@inlined
def _are_opposite(form, source, target):
    n_rows = form.row_of.shape[0]
    return (source < n_rows) != (target < n_rows)


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
    return -weight if _are_opposite(form, source, target) else weight


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
def _sum_of_four(factors, s, w_0, w_1, w_2, w_3):
    return (factors[s] * w_0 + factors[s + 1] * w_1) + (factors[s + 2] * w_2 + factors[s + 3] * w_3)


@inlined
def _add_four(values, start, size, sources, s, sums):
    """Add four sources, from s on, to the sums of targets."""
    trace = sources.sums[TRACE]
    total = sources.sums[TOTAL]
    deviation = sources.sums[DEVIATION]
    row_0 = sources.rows[s] + start
    row_1 = sources.rows[s + 1] + start
    row_2 = sources.rows[s + 2] + start
    row_3 = sources.rows[s + 3] + start
    for k in range(size):
        w_0 = values[np.uint64(row_0 + k)]
        w_1 = values[np.uint64(row_1 + k)]
        w_2 = values[np.uint64(row_2 + k)]
        w_3 = values[np.uint64(row_3 + k)]
        i = np.uint64(k)
        sums[TOTAL, i] += _sum_of_four(total, s, w_0, w_1, w_2, w_3)
        sums[TRACE, i] += _sum_of_four(trace, s, w_0, w_1, w_2, w_3)
        sums[DEVIATION, i] += _sum_of_four(deviation, s, abs(w_0), abs(w_1), abs(w_2), abs(w_3))


@inlined
def _add_eight(values, start, size, sources, s, sums):
    """As `_add_four`, with half as many readings of the sums."""
    trace = sources.sums[TRACE]
    total = sources.sums[TOTAL]
    deviation = sources.sums[DEVIATION]
    row_0 = sources.rows[s] + start
    row_1 = sources.rows[s + 1] + start
    row_2 = sources.rows[s + 2] + start
    row_3 = sources.rows[s + 3] + start
    row_4 = sources.rows[s + 4] + start
    row_5 = sources.rows[s + 5] + start
    row_6 = sources.rows[s + 6] + start
    row_7 = sources.rows[s + 7] + start
    for k in range(size):
        w_0 = values[np.uint64(row_0 + k)]
        w_1 = values[np.uint64(row_1 + k)]
        w_2 = values[np.uint64(row_2 + k)]
        w_3 = values[np.uint64(row_3 + k)]
        w_4 = values[np.uint64(row_4 + k)]
        w_5 = values[np.uint64(row_5 + k)]
        w_6 = values[np.uint64(row_6 + k)]
        w_7 = values[np.uint64(row_7 + k)]
        i = np.uint64(k)
        first = _sum_of_four(total, s, w_0, w_1, w_2, w_3)
        sums[TOTAL, i] += first + _sum_of_four(total, s + 4, w_4, w_5, w_6, w_7)
        first = _sum_of_four(trace, s, w_0, w_1, w_2, w_3)
        sums[TRACE, i] += first + _sum_of_four(trace, s + 4, w_4, w_5, w_6, w_7)
        first = _sum_of_four(deviation, s, abs(w_0), abs(w_1), abs(w_2), abs(w_3))
        sums[DEVIATION, i] += first + _sum_of_four(deviation, s + 4, abs(w_4), abs(w_5), abs(w_6), abs(w_7))


@implements(delivery.add_sources, Rows)
def add_sources(form, start, size, sources, n_sources, sums):
    n_added = 0
    while n_sources - n_added >= 2 * TOGETHER:
        _add_eight(form.values, start, size, sources, n_added, sums)
        n_added += 2 * TOGETHER
    if n_added < n_sources:
        _add_four(form.values, start, size, sources, n_added, sums)

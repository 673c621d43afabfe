"""Dense rows of weights; a row has the weights of one neuron, or of the two neurons of a sign pair."""

from typing import NamedTuple

import numpy as np

from snn._kernels.candidates import ARRIVING, add_to_range, find_candidates
from snn._kernels.compiling import inlined, record
from snn._kernels.delivery import DEVIATION, TOTAL, TRACE, ScreenedForm, add_scaled

# Number of targets whose sums stay in the first-level cache.  SUMS_IN_CACHE is not a power of two, because a
# processor delays a read that is a multiple of 4,096 bytes away from a recent write.
SUMS_IN_CACHE = 1120
SOURCES_TOGETHER = 8  # number of sources that are added in one pass over the targets


@inlined
def _row_of(rows, neuron):
    n_rows = rows.row_of.shape[0]
    return neuron if neuron < n_rows else neuron - n_rows


@inlined
def _sum_of_eight(factors, s, w):
    first = (factors[s] * w[0] + factors[s + 1] * w[1]) + (factors[s + 2] * w[2] + factors[s + 3] * w[3])
    last = (factors[s + 4] * w[4] + factors[s + 5] * w[5]) + (factors[s + 6] * w[6] + factors[s + 7] * w[7])
    return first + last


class _Rows(NamedTuple):
    # The weight from row r to row i is ``factor * values[row_of[r] * n_rows + i]``, for i != r: the diagonal
    # is ignored.  Sign pairs have 2 n_rows neurons: neuron r is the positive and n_rows + r the negative
    # neuron of row r.  Between neurons of equal signs, the weight is the weight between their rows.  Between
    # neurons of opposite signs, the weight is minus the weight between their rows.  Between the two neurons
    # of row r, the weight is ``cross[r]``.

    values: np.ndarray  # float64: stored rows, one after the other
    # int64, shape (n_rows,): index of each row among the stored rows, -1 for a row that is not computed yet.
    row_of: np.ndarray
    factor: float  # factor of all values
    cross: np.ndarray  # float64: weight between the neurons of each sign pair, shape (n_rows,) or (0,)


@record
class Rows(_Rows, ScreenedForm):
    """Dense rows, one for each neuron or one for each pair of neurons of opposite sign."""

    __slots__ = ()

    def targets_per_source(self, n_neurons):
        return float(n_neurons)

    def row_is_there(self, source):
        return self.row_of[_row_of(self, source)] >= 0

    def weight_between(self, source, target):
        n_rows = self.row_of.shape[0]
        row = _row_of(self, source)
        place = _row_of(self, target)
        if place == row:
            return 0.0 if target == source else self.cross[row]
        weight = self.factor * self.values[self.row_of[row] * n_rows + place]
        return -weight if (source < n_rows) != (target < n_rows) else weight

    def deliver(self, source, moment, length, group, windows, n_candidates):
        n_neurons = group.bias.shape[0]
        n_rows = self.row_of.shape[0]
        row = _row_of(self, source)
        offset = self.row_of[row] * n_rows
        signed = self.factor if source < n_rows else -self.factor
        for k in range(n_candidates):
            i = windows.neurons[k]
            place = i if i < n_rows else i - n_rows
            weight = signed * self.values[np.uint64(offset + place)]
            weight = weight if i < n_rows else -weight
            if place == row:
                weight = 0.0 if i == source else self.cross[row]
            windows.candidates[ARRIVING, k] += weight
        for first in range(0, n_neurons, n_rows):
            # The diagonal of the matrix is not a weight.  Restore the numbers that the diagonal has changed.
            diagonal = first + row
            saved_excess, saved_current = windows.excess[diagonal], group.current[diagonal]
            reached = add_to_range(
                windows, group.current, first, n_rows, self.values, offset, signed * moment.to_end,
                signed * moment.growth,
            )  # fmt: skip
            windows.excess[diagonal], group.current[diagonal] = saved_excess, saved_current
            if diagonal != source and saved_excess > -np.inf:
                windows.excess[diagonal] += moment.to_end * self.cross[row]
                group.current[diagonal] += moment.growth * self.cross[row]
                reached |= windows.excess[diagonal] >= 0.0
            if reached:
                n_candidates = find_candidates(first, first + n_rows, length, n_candidates, group, windows)
            signed = -signed
        return n_candidates

    def note_rows(self, active, sources, n_sources):
        n_rows = self.row_of.shape[0]
        for s in range(n_sources):
            source = active.members[sources.members[s]]
            sources.rows[s] = self.row_of[_row_of(self, source)] * n_rows
            sign = self.factor if source < n_rows else -self.factor
            sources.sums[TRACE, s] *= sign
            sources.sums[TOTAL, s] *= sign
            sources.sums[DEVIATION, s] *= abs(self.factor)
        n_filled = n_sources
        while n_filled % SOURCES_TOGETHER != 0:
            sources.rows[n_filled] = 0
            for row in range(sources.sums.shape[0]):
                sources.sums[row, n_filled] = 0.0
            n_filled += 1
        return n_filled

    def add_sources(self, start, size, sources, n_sources, sums):
        values, rows = self.values, sources.rows
        total, trace, deviation = sources.sums[TOTAL], sources.sums[TRACE], sources.sums[DEVIATION]
        for s in range(0, n_sources, SOURCES_TOGETHER):
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

    def add_weights(self, current, neuron, count):
        n_rows = self.row_of.shape[0]
        n_neurons = n_rows + self.cross.shape[0]
        row = _row_of(self, neuron)
        offset = self.row_of[row] * n_rows
        values = self.values[offset : offset + n_rows]
        factor = count * (self.factor if neuron < n_rows else -self.factor)
        for first in range(0, n_neurons, n_rows):
            # The diagonal of the matrix is not a weight.
            diagonal = first + row
            saved_current = current[diagonal] + (0.0 if diagonal == neuron else count * self.cross[row])
            add_scaled(current[first : first + n_rows], values, factor)
            current[diagonal] = saved_current
            factor = -factor
        return n_neurons

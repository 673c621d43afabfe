"""Sparse rows of weights: `Segments` have ranges of targets, and `CompressedRows` have single targets."""

from typing import NamedTuple

import numpy as np

from snn._kernels.candidates import (
    ARRIVING,
    add_candidate,
    add_to_range,
    end_potential_of,
    find_candidates,
    renew_touched,
    touch,
)
from snn._kernels.compiling import record
from snn._kernels.delivery import DEVIATION, TOTAL, TRACE, ScreenedForm, add_scaled


class _Segments(NamedTuple):
    # Segment s adds ``factors[s] * values[offsets[s] + i]`` to neuron ``targets[s] + i``, for 0 <= i <
    # lengths[s].  Segments may share values.  No segment contains its own source.

    starts: np.ndarray  # int64, shape (n_neurons + 1,): first segment of each source
    targets: np.ndarray  # int64, shape (n_segments,): first target of each segment
    lengths: np.ndarray  # int64, shape (n_segments,)
    offsets: np.ndarray  # int64, shape (n_segments,): where the weights of each segment begin in `values`
    factors: np.ndarray  # float64, shape (n_segments,)
    values: np.ndarray  # float64


@record
class Segments(_Segments, ScreenedForm):
    """Ranges of targets: source j has the segments starts[j] .. starts[j + 1] - 1."""

    __slots__ = ()

    def targets_per_source(self, n_neurons):
        return float(self.lengths.sum() / n_neurons)

    def weight_between(self, source, target):
        weight = 0.0
        for segment in range(self.starts[source], self.starts[source + 1]):
            k = target - self.targets[segment]
            if 0 <= k < self.lengths[segment]:
                weight += self.factors[segment] * self.values[self.offsets[segment] + k]
        return weight

    def deliver(self, source, moment, length, group, windows, n_candidates):
        for segment in range(self.starts[source], self.starts[source + 1]):
            first = self.targets[segment]
            offset = self.offsets[segment]
            factor = self.factors[segment]
            n_targets = self.lengths[segment]
            for k in range(n_candidates):
                i = windows.neurons[k] - first
                if 0 <= i < n_targets:
                    windows.candidates[ARRIVING, k] += factor * self.values[np.uint64(offset + i)]
            reached = add_to_range(
                windows, group.current, first, n_targets, self.values, offset, factor * moment.to_end,
                factor * moment.growth,
            )  # fmt: skip
            if reached:
                n_candidates = find_candidates(first, first + n_targets, length, n_candidates, group, windows)
        return n_candidates

    def add_sources(self, start, size, sources, n_sources, sums):
        added = sources.sums
        for s in range(n_sources):
            source = sources.rows[s]
            total, trace, deviation = added[TOTAL, s], added[TRACE, s], added[DEVIATION, s]
            for segment in range(self.starts[source], self.starts[source + 1]):
                first = self.targets[segment]
                offset = self.offsets[segment]
                factor = self.factors[segment]
                for k in range(self.lengths[segment]):
                    i = np.uint64(first + k)
                    weight = factor * self.values[np.uint64(offset + k)]
                    sums[TOTAL, i] += total * weight
                    sums[TRACE, i] += trace * weight
                    sums[DEVIATION, i] += deviation * abs(weight)

    def add_weights(self, current, neuron, count):
        n_weights = 0
        for segment in range(self.starts[neuron], self.starts[neuron + 1]):
            target, length, offset = self.targets[segment], self.lengths[segment], self.offsets[segment]
            values, factor = self.values[offset : offset + length], count * self.factors[segment]
            add_scaled(current[target : target + length], values, factor)
            n_weights += length
        return n_weights


class _CompressedRows(NamedTuple):
    starts: np.ndarray  # int64, shape (n_neurons + 1,): first weight of each source
    targets: np.ndarray  # int64, shape (n_weights,): target of each weight
    weights: np.ndarray  # float64, shape (n_weights,)


@record
class CompressedRows(_CompressedRows, ScreenedForm):
    """Single targets: source j adds weights[e] to targets[e], for starts[j] <= e < starts[j + 1]."""

    __slots__ = ()

    def targets_per_source(self, n_neurons):
        return self.weights.size / n_neurons

    def weight_between(self, source, target):
        first, last = self.starts[source], self.starts[source + 1]
        while first < last:
            middle = (first + last) // 2
            if self.targets[middle] < target:
                first = middle + 1
            else:
                last = middle
        is_found = first < self.starts[source + 1] and self.targets[first] == target
        return self.weights[first] if is_found else 0.0

    def deliver(self, source, moment, length, group, windows, n_candidates):
        excess = windows.excess
        touch(windows.column_of[source], windows)
        for entry in range(self.starts[source], self.starts[source + 1]):
            i = self.targets[entry]
            weight = self.weights[entry]
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

    def renew(self, n_candidates, moment, instant, windows):
        # A spike reaches few candidates.  Bounds and exact crossings of all other candidates remain valid.
        renew_touched(moment, windows)
        return instant

    def gather(self, source, members, n_members, rows, offset):
        # Members and targets are sorted, so one pass over both is enough.
        entry, last = self.starts[source], self.starts[source + 1]
        for k in range(n_members):
            while entry < last and self.targets[entry] < members[k]:
                entry += 1
            is_target = entry < last and self.targets[entry] == members[k]
            rows[offset + k] = self.weights[entry] if is_target else 0.0

    def add_sources(self, start, size, sources, n_sources, sums):
        added = sources.sums
        for s in range(n_sources):
            source = sources.rows[s]
            total, trace, deviation = added[TOTAL, s], added[TRACE, s], added[DEVIATION, s]
            for entry in range(self.starts[source], self.starts[source + 1]):
                i = self.targets[entry]
                weight = self.weights[entry]
                sums[TOTAL, i] += total * weight
                sums[TRACE, i] += trace * weight
                sums[DEVIATION, i] += deviation * abs(weight)

    def add_weights(self, current, neuron, count):
        for entry in range(self.starts[neuron], self.starts[neuron + 1]):
            current[self.targets[entry]] += count * self.weights[entry]
        return self.starts[neuron + 1] - self.starts[neuron]

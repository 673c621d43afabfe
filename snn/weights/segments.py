"""Weights made of dense blocks between ranges of neurons, stored as segments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from snn._kernels import sparse_rows
from snn.base import checks
from snn.base.value import cached_property, checked
from snn.weights.protocol import Weights, same_type


class Connection(NamedTuple):
    """Dense weights from one range of neurons to another, stored in an array of values."""

    first_source: int
    first_target: int
    shape: tuple[int, int]
    offset: int  # index of the first weight in the array of values; weights are stored source by source
    factor: float = 1.0


def _checked_values(name: str, values: Any) -> np.ndarray:
    """Return `values`, an array of float64, without a copy, because the caller may change the array."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float64:
        raise TypeError(
            f"{name} must be an array of float64; got {getattr(values, 'dtype', type(values).__name__)}"
        )
    if values.ndim != 1 or not values.flags.c_contiguous:
        raise ValueError(f"{name} must be 1-D and contiguous; got shape {values.shape}")
    return values


@dataclass(frozen=True, eq=False, repr=False)
class Segments(Weights):
    """Weights between ranges of neurons, such as layers, stored in one array of values."""

    # A segment is a range of targets of one source.  Each connection of a source has one segment, or two if
    # the source itself lies between the targets.  The cost of a spike is the length of its segments.

    n_neurons: int = checked(checks.positive_integer)
    # Connections may share values.  The weights of connections that overlap are added.
    connections: Sequence[Connection] = checked(checks.instance_of, Sequence)
    # Shape (n_values,).  The array is not copied, and its numbers are not checked.  Learning changes the
    # values between two runs without making new weights; nothing derived from the values is kept.
    values: np.ndarray = checked(_checked_values)

    def _check(self) -> None:
        self.kernel_form  # noqa: B018 - `kernel_form` checks the connections

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_neurons, self.n_neurons

    @cached_property
    def kernel_form(self) -> sparse_rows.Segments:
        n_neurons, values = self.n_neurons, self.values
        none = np.empty(0, dtype=np.int64)
        pieces: list[tuple[np.ndarray, ...]] = [(none, none, none, none, np.empty(0))]
        for first_source, first_target, (n_sources, n_targets), offset, factor in self.connections:
            checks.non_negative_integer("first_source", first_source)
            checks.non_negative_integer("first_target", first_target)
            ends = first_source + n_sources, first_target + n_targets
            if max(ends) > n_neurons or not 0 <= offset <= len(values) - n_sources * n_targets:
                raise ValueError(
                    f"connections must lie within the {n_neurons} neurons and {len(values)} values; got one "
                    f"that ends at source {ends[0]}, target {ends[1]}, with values from {offset}"
                )
            source = first_source + np.arange(n_sources)
            row = offset + n_targets * np.arange(n_sources)
            # A range of targets that contains the source itself is split into two segments.
            diagonal = source - first_target
            inside = (diagonal >= 0) & (diagonal < n_targets)
            before = np.where(inside, diagonal, n_targets)
            after = np.where(inside, n_targets - diagonal - 1, 0)
            factors = np.full(n_sources, checks.real_number("factor", factor))
            pieces += [
                (source, np.full(n_sources, first_target), before, row, factors),
                (source, source + 1, after, row + diagonal + 1, factors),
            ]
        sources, targets, lengths, offsets, factors = (
            np.concatenate(column) for column in zip(*pieces, strict=True)
        )
        order = np.argsort(sources, kind="stable")
        order = order[(lengths > 0)[order] & (factors != 0.0)[order]]
        starts = np.searchsorted(sources[order], np.arange(n_neurons + 1))
        return sparse_rows.Segments(
            same_type(starts, np.int64),
            same_type(targets[order], np.int64),
            same_type(lengths[order], np.int64),
            same_type(offsets[order], np.int64),
            same_type(factors[order], np.float64),
            # This view of `values` shows later changes of the values.
            same_type(values, np.float64),
        )

    def tocsr(self) -> sparse.csr_array:
        starts, targets, lengths, offsets, factors, _ = self.kernel_form
        first = np.cumsum(lengths) - lengths
        within = np.arange(lengths.sum()) - np.repeat(first, lengths)
        weights = self.values[np.repeat(offsets, lengths) + within] * np.repeat(factors, lengths)
        columns, rows = np.repeat(targets, lengths) + within, np.append(first, len(within))[starts]
        matrix = sparse.csr_array((weights, columns, rows), shape=self.shape)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix

"""The records that weights are to kernels: what one spike adds to the currents, by the kind of storage.

A kernel is compiled once for each record type.  All records of one type have exactly the same types of
fields: 64-bit numbers, and one-dimensional arrays that are contiguous and read-only.
"""

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """Dense rows, one for each neuron or one for each pair of neurons of opposite sign."""

    # The weight from row r to row i is ``factor * values[row_of[r] * n_rows + i]``, for i != r: the diagonal
    # is ignored.  With sign pairs there are 2 n_rows neurons: neuron r is the positive and n_rows + r the
    # negative neuron of row r.  Neurons of one sign have the weight above, neurons of opposite signs its
    # negative, and the two neurons of one row have ``cross[r]``.

    values: np.ndarray  # float64: stored rows, one after the other
    # int64, shape (n_rows,): where each row is stored; -1 for a row that is not computed yet.
    row_of: np.ndarray
    factor: float  # multiplies all values
    cross: np.ndarray  # float64, shape (n_rows,) with sign pairs, (0,) without


class Segments(NamedTuple):
    """Ranges of targets: source j has the segments starts[j] .. starts[j + 1] - 1."""

    # Segment s adds ``factors[s] * values[offsets[s] + i]`` to neuron ``targets[s] + i``, for 0 <= i <
    # lengths[s].  Segments may share values.  No segment contains its own source.

    starts: np.ndarray  # int64, shape (n_neurons + 1,)
    targets: np.ndarray  # int64, shape (n_segments,): the first target of each
    lengths: np.ndarray  # int64, shape (n_segments,)
    offsets: np.ndarray  # int64, shape (n_segments,): where the weights of each begin in `values`
    factors: np.ndarray  # float64, shape (n_segments,)
    values: np.ndarray  # float64


class CompressedRows(NamedTuple):
    """Single targets: source j adds weights[e] to targets[e], for starts[j] <= e < starts[j + 1]."""

    starts: np.ndarray  # int64, shape (n_neurons + 1,)
    targets: np.ndarray  # int64, shape (n_weights,)
    weights: np.ndarray  # float64, shape (n_weights,)


class Stencil(NamedTuple):
    """The same weights at every position of a grid."""

    # Channel k at position (p, q) adds to channel l at position (p + i - reach_rows, q + j - reach_columns)
    # the weight ``values[((k * (2 reach_rows + 1) + i) * (2 reach_columns + 1) + j) * n_channels + l]``,
    # where that position is on the grid.  Neurons are numbered by (row, column, channel).

    values: np.ndarray  # float64: [source channel, row offset, column offset, target channel], flat
    largest_value: float  # the largest absolute value
    n_rows: int
    n_columns: int
    n_channels: int
    reach_rows: int
    reach_columns: int


def targets_per_source(form, n_neurons):
    """Return how many targets a spike touches on average, with stored zeros and those beyond a grid."""
    if isinstance(form, Rows):
        return float(n_neurons)
    if isinstance(form, Segments):
        return float(form.lengths.sum() / n_neurons)
    if isinstance(form, CompressedRows):
        return form.weights.size / n_neurons
    return form.values.size / form.n_channels

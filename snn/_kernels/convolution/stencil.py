"""Weights on a grid, as kernels take them."""

from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import record
from snn._kernels.delivery import Form, add_scaled


class _Stencil(NamedTuple):
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


@record
class Stencil(_Stencil, Form):
    """The same weights at every position of a grid."""

    __slots__ = ()

    def targets_per_source(self, n_neurons):
        return self.values.size / self.n_channels

    def add_weights(self, current, neuron, count):
        # Positions in a row of the grid, and their channels, are neighbours in both arrays.
        position, channel = neuron // self.n_channels, neuron % self.n_channels
        row, column = position // self.n_columns, position % self.n_columns
        n_row_offsets, n_column_offsets = 2 * self.reach_rows + 1, 2 * self.reach_columns + 1
        first_column = max(column - self.reach_columns, 0)
        n_columns = min(column + self.reach_columns + 1, self.n_columns) - first_column
        column_offset = first_column - (column - self.reach_columns)
        n_weights = 0
        for i in range(n_row_offsets):
            target_row = row + i - self.reach_rows
            if target_row < 0 or target_row >= self.n_rows:
                continue
            first = (target_row * self.n_columns + first_column) * self.n_channels
            line = (channel * n_row_offsets + i) * n_column_offsets + column_offset
            length, offset = n_columns * self.n_channels, line * self.n_channels
            add_scaled(current[first : first + length], self.values[offset : offset + length], count)
            n_weights += length
        return n_weights

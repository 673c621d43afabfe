"""A part of the Gram matrix of a convolutional dictionary.

The part is that of some atoms, the members, in their order; members first[p] up to first[p + 1] are at
position p of the grid.  A column, which is also a row, has an entry for each member at a position whose
kernels overlap. Members at neighbouring positions in a row of the grid follow each other, so a column
consists of one run of members for each row of the grid in reach.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inner, uncounted


class GramPart(NamedTuple):
    """A part of the Gram matrix, the curvatures of the penalty on its diagonal, as compressed columns."""

    first: np.ndarray  # shape (n_positions + 1,)
    n_rows: int  # of the grid
    n_columns: int
    reach_rows: int  # in which kernels overlap
    reach_columns: int
    pointers: np.ndarray  # shape (n_members + 1,)
    values: np.ndarray


@inner
def _run(part, row, column):
    """Return the members from ... to in reach of a column of the grid, in one of its rows."""
    left = row * part.n_columns + max(column - part.reach_columns, 0)
    right = row * part.n_columns + min(column + part.reach_columns, part.n_columns - 1)
    return part.first[left], part.first[right + 1]


@inner
def _rows_in_reach(part, row):
    """Return the rows of the grid from ... to in reach of one of them."""
    return max(row - part.reach_rows, 0), min(row + part.reach_rows + 1, part.n_rows)


@uncounted
def count_entries(part):
    """Fill `pointers`: where each column starts and, last, the last one ends."""
    n_entries = 0
    for row in range(part.n_rows):
        for column in range(part.n_columns):
            count = 0
            top, bottom = _rows_in_reach(part, row)
            for i in range(top, bottom):
                start, stop = _run(part, i, column)
                count += stop - start
            position = row * part.n_columns + column
            for k in range(part.first[position], part.first[position + 1]):
                part.pointers[k] = n_entries
                n_entries += count
    part.pointers[part.first[part.n_rows * part.n_columns]] = n_entries


@uncounted
def fill_entries(part, kernel, stencil, curvatures):
    """Fill `values`; `kernel` and `curvatures` have one entry for each member."""
    for row in range(part.n_rows):
        for column in range(part.n_columns):
            position = row * part.n_columns + column
            top, bottom = _rows_in_reach(part, row)
            left = max(column - part.reach_columns, 0)
            right = min(column + part.reach_columns + 1, part.n_columns)
            for k in range(part.first[position], part.first[position + 1]):
                entry = part.pointers[k]
                own = entry
                for i in range(top, bottom):
                    for j in range(left, right):
                        products = stencil[
                            kernel[k], i - row + part.reach_rows, j - column + part.reach_columns
                        ]
                        other = i * part.n_columns + j
                        if other == position:
                            own = entry + k - part.first[position]
                        for m in range(part.first[other], part.first[other + 1]):
                            part.values[entry] = products[kernel[m]]
                            entry += 1
                part.values[own] += curvatures[k]


@partial(inner, fastmath={"contract", "reassoc"})
def _inner(left, right):
    total = 0.0
    for i in range(left.shape[0]):
        total += left[i] * right[i]
    return total


@uncounted
def multiply(part, vector, product):
    """Set `product` to the part of the Gram matrix times a vector."""
    for row in range(part.n_rows):
        for column in range(part.n_columns):
            position = row * part.n_columns + column
            top, bottom = _rows_in_reach(part, row)
            for k in range(part.first[position], part.first[position + 1]):
                entry = part.pointers[k]
                total = 0.0
                for i in range(top, bottom):
                    start, stop = _run(part, i, column)
                    length = stop - start
                    total += _inner(part.values[entry : entry + length], vector[start:stop])
                    entry += length
                product[k] = total

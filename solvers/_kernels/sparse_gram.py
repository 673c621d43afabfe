"""A part of the Gram matrix of a convolutional dictionary, and the fronts of its factorisation.

The part is that of some atoms, the members, in their order; members first[p] up to first[p + 1] are at
position p of the grid.  A column, which is also a row, has an entry for each member at a position whose
kernels overlap. Members at neighbouring positions in a row of the grid follow each other, so a column
consists of one run of members for each row of the grid in reach.
"""

from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import compiled, inner, uncounted
from solvers._kernels.dots import dot


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
                    total += dot(part.values[entry : entry + length], vector[start:stop])
                    entry += length
                product[k] = total


# The dense matrices of a sparse Cholesky factorisation.  A front has its own members, which it eliminates,
# and members on its border, which are eliminated later.  Its lower triangle is kept in three matrices:
# `own` x `own`, `border` x `own` and `border` x `border`.  `place` says where in a front each member is: its
# own members come first, and -1 is not there.


@compiled
def members_at(first, positions):
    """Return the members at some positions, one position after the other."""
    count = 0
    for position in positions:
        count += first[position + 1] - first[position]
    members = np.empty(count, np.int64)
    count = 0
    for position in positions:
        for member in range(first[position], first[position + 1]):
            members[count] = member
            count += 1
    return members


@uncounted
def add_entries(part, positions, damping, diagonal, place, own, border):
    """Add the columns of the members at some positions, of those that are in the front.

    `damping` times an entry of `diagonal` is added to the diagonal.
    """
    n_own = own.shape[0]
    for position in positions:
        row, column = position // part.n_columns, position % part.n_columns
        top, bottom = _rows_in_reach(part, row)
        for k in range(part.first[position], part.first[position + 1]):
            target = place[k]
            own[target, target] += damping * diagonal[k]
            entry = part.pointers[k]
            for i in range(top, bottom):
                start, stop = _run(part, i, column)
                for member in range(start, stop):
                    source = place[member]
                    if source >= n_own:
                        border[source - n_own, target] += part.values[entry]
                    elif source >= target:
                        own[source, target] += part.values[entry]
                    entry += 1


@uncounted
def add_remainder(remainder, members, place, own, border, rest):
    """Add what an earlier front leaves for its border, `remainder`, whose rows are `members`."""
    n_own = own.shape[0]
    for j in range(members.shape[0]):
        column = place[members[j]]
        for i in range(j, members.shape[0]):
            row = place[members[i]]
            low, high = min(row, column), max(row, column)
            if low >= n_own:
                rest[high - n_own, low - n_own] += remainder[i, j]
            elif high >= n_own:
                border[high - n_own, low] += remainder[i, j]
            else:
                own[high, low] += remainder[i, j]

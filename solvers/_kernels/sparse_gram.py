"""A part of the Gram matrix of a convolutional dictionary, and descent on it.

The part is that of some atoms, the members, in their order; members first[p] up to first[p + 1] are at
position p of the grid.  A column, which is also a row, has an entry for each member at a position whose
kernels overlap. Members at neighbouring positions in a row of the grid follow each other, so a column
consists of one run of members for each row of the grid in reach.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import uncounted


class GramPart(NamedTuple):
    """A part of the Gram matrix, the curvatures of the penalty on its diagonal, as compressed columns."""

    first: np.ndarray  # shape (n_positions + 1,)
    n_rows: int  # of the grid
    n_columns: int
    reach_rows: int  # in which kernels overlap
    reach_columns: int
    pointers: np.ndarray  # shape (n_members + 1,)
    values: np.ndarray


@uncounted
def _run(part, row, column):
    """Return the members from ... to in reach of a column of the grid, in one of its rows."""
    left = row * part.n_columns + max(column - part.reach_columns, 0)
    right = row * part.n_columns + min(column + part.reach_columns, part.n_columns - 1)
    return part.first[left], part.first[right + 1]


@uncounted
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
def name_entries(part, members):
    """Fill the member of each entry."""
    for row in range(part.n_rows):
        for column in range(part.n_columns):
            position = row * part.n_columns + column
            top, bottom = _rows_in_reach(part, row)
            for k in range(part.first[position], part.first[position + 1]):
                entry = part.pointers[k]
                for i in range(top, bottom):
                    start, stop = _run(part, i, column)
                    for m in range(start, stop):
                        members[entry] = m
                        entry += 1


@partial(uncounted, fastmath={"contract"})
def _subtract(target, factor, column):
    for i in range(target.shape[0]):
        target[i] -= factor * column[i]


@uncounted
def _subtract_column(part, k, row, column, change, residual):
    """Subtract a multiple of column k, which is at a place of the grid."""
    entry = part.pointers[k]
    top, bottom = _rows_in_reach(part, row)
    for i in range(top, bottom):
        start, stop = _run(part, i, column)
        length = stop - start
        _subtract(residual[start:stop], change, part.values[entry : entry + length])
        entry += length


@uncounted
def move(part, code, target, residual):
    """Set the code of the members to `target`, and update `residual`, the residual of their equations."""
    for row in range(part.n_rows):
        for column in range(part.n_columns):
            position = row * part.n_columns + column
            for k in range(part.first[position], part.first[position + 1]):
                if target[k] != code[k]:
                    _subtract_column(part, k, row, column, target[k] - code[k], residual)
                    code[k] = target[k]


@uncounted
def _sweep(part, diagonal, l1_weights, positive, code, residual):
    """Minimise over one member after the other; return how many entered or left the support."""
    n_changes = 0
    for row in range(part.n_rows):
        for column in range(part.n_columns):
            position = row * part.n_columns + column
            for k in range(part.first[position], part.first[position + 1]):
                stepped = diagonal[k] * code[k] + residual[k]
                new = max(stepped - l1_weights[k], 0.0)
                if not positive:
                    new += min(stepped + l1_weights[k], 0.0)
                new /= diagonal[k]
                if new != code[k]:
                    _subtract_column(part, k, row, column, new - code[k], residual)
                    n_changes += (new == 0.0) != (code[k] == 0.0)
                    code[k] = new
    return n_changes


@uncounted
def descend(part, diagonal, l1_weights, positive, n_sweeps, code, residual):
    """Sweep over the members `n_sweeps` times; return how often one entered or left the support."""
    n_changes = 0
    for _ in range(n_sweeps):
        n_changes += _sweep(part, diagonal, l1_weights, positive, code, residual)
    return n_changes


@partial(uncounted, fastmath={"contract", "reassoc"})
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


@uncounted
def conjugate_gradients(part, diagonal, damping, share, n_steps, solution, defect, direction, product):
    """Improve y until the defect of its equations is a share of what it was, or for so many steps.

    The equations are (G + damping D) (y - x) = b - G x, with D the diagonal of G and x the solution given;
    `defect` is b - G x at first.  Its norm is that of D^-1.  `direction` and `product` are work arrays.  y
    moves downhill in every step.
    """
    size = solution.shape[0]
    square = 0.0
    for i in range(size):
        direction[i] = defect[i] / diagonal[i]
        square += defect[i] * direction[i]
    enough = share * share * square
    for step in range(n_steps):
        if square <= enough:
            return step
        multiply(part, direction, product)
        for i in range(size):
            product[i] += damping * diagonal[i] * direction[i]
        curvature = _inner(direction, product)
        if not curvature > 0.0:
            return step
        length = square / curvature
        previous = square
        square = 0.0
        for i in range(size):
            solution[i] += length * direction[i]
            defect[i] -= length * product[i]
            square += defect[i] * defect[i] / diagonal[i]
        growth = square / previous
        for i in range(size):
            direction[i] = defect[i] / diagonal[i] + growth * direction[i]
    return n_steps

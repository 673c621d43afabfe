"""Kernels of the active-set method for convolutional dictionaries: sweeps, and a part of the Gram matrix.

A sweep is coordinate descent in the image, and stores no entry of a Gram matrix.  A code has a row for each
position of the grid and a column for each kernel.  `image` is the residual, the signal minus the code's
reconstruction.  At each position, a sweep copies the pixels under the kernels, minimises over one coefficient
after another, and writes the pixels back.

A part of the Gram matrix belongs to some atoms, which are called members and are sorted.  Members first[p] up
to first[p + 1] are at position p of the grid.  A column of this symmetric matrix has an entry for each member
at a position in reach, where kernels overlap.  Members at neighbouring positions in a row of the grid follow
each other, so that a column consists of one run of members for each row of the grid in reach.
"""

from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inlined, inner, uncounted
from solvers._kernels.dots import dot, minimised, subtract

# Largest number of passes through the coefficients of one position before a sweep moves on.
PASSES = 2


class KernelGrid(NamedTuple):
    """The kernels and their grid, with work arrays."""

    n_rows: int
    n_columns: int
    reach_rows: int  # largest distance, in positions, at which kernels overlap
    reach_columns: int
    row_stride: int
    column_stride: int
    height: int
    width: int
    kernels: np.ndarray  # shape (n_kernels, height * width)
    norms: np.ndarray  # shape (n_kernels,)
    patch: np.ndarray  # shape (height * width,), a work array
    n_multiply_adds: np.ndarray  # an array of one entry, the number of multiply-adds so far


class GridProblem(NamedTuple):
    """The penalty and the diagonal of a problem, with a row for each position."""

    l1_weights: np.ndarray
    diagonal: np.ndarray  # ||d_i||^2 plus the curvature of the penalty
    positive: np.ndarray  # True for coefficients that must not be negative


class GramPart(NamedTuple):
    """A part of the Gram matrix as compressed columns, with the curvatures of the penalty on its diagonal."""

    first: np.ndarray  # shape (n_positions + 1,)
    n_rows: int  # number of rows of the grid
    n_columns: int
    reach_rows: int  # see `KernelGrid`
    reach_columns: int
    pointers: np.ndarray  # shape (n_positions + 1,): where the columns of the members at a position begin
    values: np.ndarray


@inlined
def _in_reach(place, reach, length):
    """Return the range of places along a side of the grid whose kernels overlap kernels at `place`."""
    return max(place - reach, 0), min(place + reach + 1, length)


@inner
def _take(grid, position, image):
    top = grid.row_stride * (position // grid.n_columns)
    left = grid.column_stride * (position % grid.n_columns)
    for i in range(grid.height):
        for j in range(grid.width):
            grid.patch[i * grid.width + j] = image[top + i, left + j]


@inner
def _put(grid, position, image):
    top = grid.row_stride * (position // grid.n_columns)
    left = grid.column_stride * (position % grid.n_columns)
    for i in range(grid.height):
        for j in range(grid.width):
            image[top + i, left + j] = grid.patch[i * grid.width + j]


@inner
def _add_drift(grid, position, amount, drift):
    """Add the change at one position to the drift of all positions in reach."""
    top, bottom = _in_reach(position // grid.n_columns, grid.reach_rows, grid.n_rows)
    left, right = _in_reach(position % grid.n_columns, grid.reach_columns, grid.n_columns)
    for i in range(top, bottom):
        for j in range(i * grid.n_columns + left, i * grid.n_columns + right):
            drift[j] += amount


@uncounted
def sweep(grid, problem, on_support, least_drift, code, image, drift):
    """Minimise at each position in turn; return how many coefficients entered or left the support."""
    # on_support : True to minimise over nonzero coefficients only.
    # drift : for each position, a bound on how far its correlations (for kernels of norm one) have moved
    #     since the last visit to this position.  Positions with a drift below `least_drift` are skipped.
    n_positions, n_kernels = code.shape
    n_pixels = grid.patch.shape[0]
    n_changes = n_products = 0
    for position in range(n_positions):
        if drift[position] < least_drift:
            continue
        drift[position] = 0.0
        _take(grid, position, image)
        amount = 0.0
        for _ in range(PASSES):
            n_moved = 0
            for k in range(n_kernels):
                old = code[position, k]
                if on_support and old == 0.0:
                    continue
                n_products += n_pixels + 1
                new = minimised(
                    grid.norms[k] * grid.norms[k] * old + dot(grid.kernels[k], grid.patch),
                    problem.l1_weights[position, k],
                    problem.diagonal[position, k],
                    problem.positive[position, k],
                )
                if new != old:
                    subtract(grid.patch, new - old, grid.kernels[k])
                    code[position, k] = new
                    n_changes += (new == 0.0) != (old == 0.0)
                    amount += abs(new - old) * grid.norms[k]
                    n_moved += 1
            n_products += n_moved * n_pixels
            if n_moved == 0:
                break
        if amount > 0.0:
            _put(grid, position, image)
            _add_drift(grid, position, amount, drift)
    grid.n_multiply_adds[0] += n_products
    return n_changes


@inner
def _run(part, row, column):
    """Return the range of the members in a row of the grid that are in reach of a column."""
    left, right = _in_reach(column, part.reach_columns, part.n_columns)
    return part.first[row * part.n_columns + left], part.first[row * part.n_columns + right]


@uncounted
def fill_entries(part, kernel, stencil, curvatures):
    """Fill `values`; `kernel` and `curvatures` have one entry for each member."""
    entry = 0
    for position in range(part.n_rows * part.n_columns):
        row, column = position // part.n_columns, position % part.n_columns
        top, bottom = _in_reach(row, part.reach_rows, part.n_rows)
        left, right = _in_reach(column, part.reach_columns, part.n_columns)
        for k in range(part.first[position], part.first[position + 1]):
            diagonal_entry = entry
            for i in range(top, bottom):
                for j in range(left, right):
                    products = stencil[kernel[k], i - row + part.reach_rows, j - column + part.reach_columns]
                    other = i * part.n_columns + j
                    if other == position:
                        diagonal_entry = entry + k - part.first[position]
                    for m in range(part.first[other], part.first[other + 1]):
                        part.values[entry] = products[kernel[m]]
                        entry += 1
            part.values[diagonal_entry] += curvatures[k]


@uncounted
def multiply(part, vector, product):
    """Set `product` to the part of the Gram matrix times a vector."""
    entry = 0
    for position in range(part.n_rows * part.n_columns):
        row, column = position // part.n_columns, position % part.n_columns
        top, bottom = _in_reach(row, part.reach_rows, part.n_rows)
        for k in range(part.first[position], part.first[position + 1]):
            total = 0.0
            for i in range(top, bottom):
                start, stop = _run(part, i, column)
                total += dot(part.values[entry : entry + stop - start], vector[start:stop])
                entry += stop - start
            product[k] = total


# The kernels below fill the dense matrices of a sparse Cholesky factorisation.  A front has its own members,
# which it eliminates, and members on its border, which are eliminated later.  The lower triangle of a front
# is kept in three matrices: `own` x `own`, `border` x `own` and `border` x `border`.  `place` has the index
# of each member in the front, or -1 for other members; the front's own members come first.


@uncounted
def add_entries(part, positions, damping, diagonal, place, own, border):
    """Add columns of the members at some positions, for rows in the front, and `damping * diagonal`."""
    n_own = own.shape[0]
    for position in positions:
        row, column = position // part.n_columns, position % part.n_columns
        top, bottom = _in_reach(row, part.reach_rows, part.n_rows)
        entry = part.pointers[position]
        for k in range(part.first[position], part.first[position + 1]):
            target = place[k]
            own[target, target] += damping * diagonal[k]
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
    """Add `remainder`, the matrix that an earlier front leaves for its border `members`."""
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

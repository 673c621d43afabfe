"""Kernels of the exact read-out of convolutional codes: a part of the Gram matrix, and descent on it.

The part is that of some atoms, the members, which stand in their order; those of position p are number
first[p] up to first[p + 1].  A column, which is a row too, has an entry for each member at a position that
overlaps; members at positions next to each other in a row of the grid follow each other, so a column is one
run of members for each row of the grid in reach.
"""

from functools import partial

from snn._kernels.compiling import uncounted


@uncounted
def _run(row, column, reach_columns, n_columns, first):
    """Return the members from ... to in reach of a column of the grid, in one of its rows."""
    left = row * n_columns + max(column - reach_columns, 0)
    right = row * n_columns + min(column + reach_columns, n_columns - 1)
    return first[left], first[right + 1]


@uncounted
def count_overlaps(first, n_rows, n_columns, reach_rows, reach_columns, pointers):
    """Fill where each column starts and, last, the last one ends."""
    n_entries = 0
    for row in range(n_rows):
        for column in range(n_columns):
            count = 0
            for i in range(max(row - reach_rows, 0), min(row + reach_rows + 1, n_rows)):
                start, stop = _run(i, column, reach_columns, n_columns, first)
                count += stop - start
            position = row * n_columns + column
            for k in range(first[position], first[position + 1]):
                pointers[k] = n_entries
                n_entries += count
    pointers[first[n_rows * n_columns]] = n_entries


@uncounted
def fill_overlaps(kernel, first, n_rows, n_columns, stencil, pointers, values):
    """Fill the entries; `kernel` says of which kernel each member is."""
    reach_rows, reach_columns = stencil.shape[1] // 2, stencil.shape[2] // 2
    for row in range(n_rows):
        for column in range(n_columns):
            position = row * n_columns + column
            for k in range(first[position], first[position + 1]):
                entry = pointers[k]
                for i in range(max(row - reach_rows, 0), min(row + reach_rows + 1, n_rows)):
                    for j in range(
                        max(column - reach_columns, 0), min(column + reach_columns + 1, n_columns)
                    ):
                        products = stencil[kernel[k], i - row + reach_rows, j - column + reach_columns]
                        other = i * n_columns + j
                        for m in range(first[other], first[other + 1]):
                            values[entry] = products[kernel[m]]
                            entry += 1


@uncounted
def name_overlaps(first, n_rows, n_columns, reach_rows, reach_columns, pointers, members):
    """Fill the member of each entry."""
    for row in range(n_rows):
        for column in range(n_columns):
            position = row * n_columns + column
            for k in range(first[position], first[position + 1]):
                entry = pointers[k]
                for i in range(max(row - reach_rows, 0), min(row + reach_rows + 1, n_rows)):
                    start, stop = _run(i, column, reach_columns, n_columns, first)
                    for m in range(start, stop):
                        members[entry] = m
                        entry += 1


@partial(uncounted, fastmath={"contract"})
def _subtract(target, factor, column):
    for i in range(target.shape[0]):
        target[i] -= factor * column[i]


@uncounted
def _subtract_column(
    change, k, row, column, first, n_rows, n_columns, reach_rows, reach_columns, pointers, values, residual
):  # fmt: skip
    entry = pointers[k]
    for i in range(max(row - reach_rows, 0), min(row + reach_rows + 1, n_rows)):
        start, stop = _run(i, column, reach_columns, n_columns, first)
        length = stop - start
        _subtract(residual[start:stop], change, values[entry : entry + length])
        entry += length


@uncounted
def move(
    first, n_rows, n_columns, reach_rows, reach_columns, pointers, values, code, target, residual
):  # fmt: skip
    """Set the code of the members to `target`, and their correlations with what it leaves, `residual`."""
    for row in range(n_rows):
        for column in range(n_columns):
            position = row * n_columns + column
            for k in range(first[position], first[position + 1]):
                if target[k] != code[k]:
                    _subtract_column(
                        target[k] - code[k], k, row, column, first, n_rows, n_columns, reach_rows,
                        reach_columns, pointers, values, residual,
                    )  # fmt: skip
                    code[k] = target[k]


@uncounted
def descend(
    first, n_rows, n_columns, reach_rows, reach_columns, pointers, values, squared_norms, penalty, positive,
    code, residual,
):  # fmt: skip
    """Minimise over one member after the other; return how many came or went."""
    n_changes = 0
    for row in range(n_rows):
        for column in range(n_columns):
            position = row * n_columns + column
            for k in range(first[position], first[position + 1]):
                stepped = squared_norms[k] * code[k] + residual[k]
                new = max(stepped - penalty[k], 0.0)
                if not positive:
                    new += min(stepped + penalty[k], 0.0)
                new /= squared_norms[k]
                if new != code[k]:
                    _subtract_column(
                        new - code[k], k, row, column, first, n_rows, n_columns, reach_rows, reach_columns,
                        pointers, values, residual,
                    )  # fmt: skip
                    n_changes += (new == 0.0) != (code[k] == 0.0)
                    code[k] = new
    return n_changes


@partial(uncounted, fastmath={"contract", "reassoc"})
def _inner(left, right):
    total = 0.0
    for i in range(left.shape[0]):
        total += left[i] * right[i]
    return total


@uncounted
def multiply(first, n_rows, n_columns, reach_rows, reach_columns, pointers, values, vector, product):
    """Set `product` to the Gram matrix times a vector."""
    for row in range(n_rows):
        for column in range(n_columns):
            position = row * n_columns + column
            for k in range(first[position], first[position + 1]):
                entry = pointers[k]
                total = 0.0
                for i in range(max(row - reach_rows, 0), min(row + reach_rows + 1, n_rows)):
                    start, stop = _run(i, column, reach_columns, n_columns, first)
                    length = stop - start
                    total += _inner(values[entry : entry + length], vector[start:stop])
                    entry += length
                product[k] = total


@uncounted
def conjugate_gradients(
    first, n_rows, n_columns, reach_rows, reach_columns, pointers, values, squared_norms, damping,
    share, n_steps,
    solution, defect, direction, product,
):  # fmt: skip
    """Improve y until the defect of its equations is a share of what it was, or for so many steps.

    The equations are (G + damping D) (y - x) = b - G x, with D the diagonal of G and x the solution given;
    `defect` is b - G x at first.  Its norm is that of D^-1.  `direction` and `product` are work.  y moves
    downhill in every step.
    """
    size = solution.shape[0]
    square = 0.0
    for i in range(size):
        direction[i] = defect[i] / squared_norms[i]
        square += defect[i] * direction[i]
    enough = share * share * square
    for step in range(n_steps):
        if square <= enough:
            return step
        multiply(first, n_rows, n_columns, reach_rows, reach_columns, pointers, values, direction, product)
        for i in range(size):
            product[i] += damping * squared_norms[i] * direction[i]
        curvature = _inner(direction, product)
        if not curvature > 0.0:
            return step
        length = square / curvature
        previous = square
        square = 0.0
        for i in range(size):
            solution[i] += length * direction[i]
            defect[i] -= length * product[i]
            square += defect[i] * defect[i] / squared_norms[i]
        growth = square / previous
        for i in range(size):
            direction[i] = defect[i] / squared_norms[i] + growth * direction[i]
    return n_steps

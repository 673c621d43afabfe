"""The active set S inside a working set W of atoms, and the Cholesky factor of its Gram matrix.

A place is the index of a member in W.  S is a list of places, in the order of the rows of the factor U with
G_SS = U^T U, where G is the Gram matrix with the curvatures of the penalty on its diagonal.  U is stored by
rows, together with z = U^-T r, so that U y = z solves the equations on S.  An atom that enters S appends a
column to U.  For an atom that leaves S, plane rotations of rows delete the column.

For supports that do not change, as in derivatives, `solve_on_supports` computes each factor once.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import callable_in_kernels, compiled, inlined, inner
from solvers._kernels.dots import copy, dot, subtract

# An atom counts as a linear combination of the atoms in S if its part orthogonal to these atoms has less than
# this share of its squared norm.  The smallest pivot of the factor is then 1e-5, the root of the share.  The
# relative error of a solution is about 1e-16 / 1e-10, and one refinement removes this error.
INDEPENDENT = 1e-10
# `solve_on_supports`, whose supports do not change, uses this share instead of INDEPENDENT.
LEAST_PIVOT = 1e-13
# Number of columns of U that are computed together, because independent sums are faster than sums in
# sequence.  `python -m tests.benchmarks patches` measures this number.
FACTOR_BLOCK = 8


class Terms(NamedTuple):
    """The parts of the equations of all signals, except the Gram matrix."""

    correlations: np.ndarray  # shape (n_signals, n_atoms)
    l1_weights: np.ndarray  # shape (n_atoms,)
    curvatures: np.ndarray  # shape (n_atoms,), added to the diagonal of the Gram matrix
    # Shape (n_atoms,), 1 / ||d_i||; 0 for an atom of norm zero, which never enters S
    inverse_norms: np.ndarray
    positive: np.ndarray  # shape (n_atoms,): True for atoms whose codes must not be negative


class WorkingSet(NamedTuple):
    """Arrays with room for `capacity` members of W."""

    # The following arrays have one entry, or row, for each member of W.
    atoms: np.ndarray
    correlation: np.ndarray
    l1_weight: np.ndarray
    inverse_norm: np.ndarray
    positive: np.ndarray
    gram: np.ndarray
    residual: np.ndarray
    # The following arrays have one entry, or row, for each member of S.
    factor: np.ndarray  # the factor U
    columns: np.ndarray  # columns of U that are being computed
    active: np.ndarray  # places of the members of S in W
    sign: np.ndarray
    image: np.ndarray  # z = U^-T r
    value: np.ndarray  # the present values x
    solution: np.ndarray  # the solution y of the equations
    # An array of one entry, the number of multiply-adds so far.
    n_multiply_adds: np.ndarray


@callable_in_kernels
def new_working_set(capacity):
    return WorkingSet(
        np.empty(capacity, np.int64), np.empty(capacity), np.empty(capacity), np.empty(capacity),
        np.empty(capacity, np.bool_), np.empty((capacity, capacity)), np.empty(capacity),
        np.empty((capacity, capacity)), np.empty((FACTOR_BLOCK, capacity)), np.empty(capacity, np.int64),
        np.empty(capacity), np.empty(capacity), np.empty(capacity), np.empty(capacity), np.zeros(1, np.int64),
    )  # fmt: skip


@inner
def copy_members(new, work, n_members, size):
    """Copy W, which has `size` members in S, to a larger working set."""
    copy(new.atoms[:n_members], work.atoms)
    copy(new.correlation[:n_members], work.correlation)
    copy(new.l1_weight[:n_members], work.l1_weight)
    copy(new.inverse_norm[:n_members], work.inverse_norm)
    copy(new.positive[:n_members], work.positive)
    copy(new.active[:size], work.active)
    copy(new.sign[:size], work.sign)
    copy(new.image[:size], work.image)
    copy(new.value[:size], work.value)
    for k in range(n_members):
        copy(new.gram[k, :n_members], work.gram[k])
    for k in range(size):
        copy(new.factor[k, :size], work.factor[k])
    new.n_multiply_adds[0] = work.n_multiply_adds[0]


@inner
def join(work, n_members, atoms, terms, signal, atom):
    """Make an atom the next member of W."""
    work.atoms[n_members] = atom
    work.correlation[n_members] = terms.correlations[signal, atom]
    work.l1_weight[n_members] = terms.l1_weights[atom]
    work.inverse_norm[n_members] = terms.inverse_norms[atom]
    work.positive[n_members] = terms.positive[atom]
    atoms.write_products(signal, atom, work, n_members)
    products = work.gram[n_members]
    for k in range(n_members):
        work.gram[k, n_members] = products[k]
    products[n_members] += terms.curvatures[atom]


@inlined
def triangle_work(size):
    """Return the multiply-adds of one solution with a triangular matrix, divisions included."""
    return size * (size + 1) // 2


@inner
def solve_transposed(factor, vector, size):
    """Solve U^T w = vector in place."""
    for i in range(size):
        vector[i] /= factor[i, i]
        subtract(vector[i + 1 : size], vector[i], factor[i, i + 1 : size])


@inner
def solve(factor, vector, size):
    """Solve U y = vector in place."""
    for i in range(size - 1, -1, -1):
        vector[i] = (vector[i] - dot(factor[i, i + 1 : size], vector[i + 1 : size])) / factor[i, i]


@inner
def refine(work, size):
    """Do one step of iterative refinement, which removes the rounding of many changes of the factor."""
    work.n_multiply_adds[0] += 2 * triangle_work(size)
    solve_transposed(work.factor, work.solution, size)
    solve(work.factor, work.solution, size)
    for i in range(size):
        refined = work.value[i] + work.solution[i]
        if refined > 0.0:
            work.value[i] = refined


@inner
def enter(work, size, places, signs, n_entering):
    """Append members of W to S and to the factor, except those that depend linearly on S."""
    # Return the size of S.  The column of the first atom stays in columns[0], even if the atom does not
    # enter.
    for start in range(0, n_entering, FACTOR_BLOCK):
        n_block = min(FACTOR_BLOCK, n_entering - start)
        before = size
        count = n_block * triangle_work(before)
        for a in range(n_block):
            gram_row = work.gram[places[start + a]]
            for i in range(size):
                work.columns[a, i] = gram_row[work.active[i]] * work.sign[i] * signs[start + a]
        for i in range(before):
            inverse = 1.0 / work.factor[i, i]
            for a in range(n_block):
                work.columns[a, i] *= inverse
                subtract(work.columns[a, i + 1 : before], work.columns[a, i], work.factor[i, i + 1 : before])
        taken = 0
        for a in range(n_block):
            place = places[start + a]
            gram_row = work.gram[place]
            column = work.columns[a]
            # The first rows of `columns` are the columns that entered in this block.
            for k in range(taken):
                i = before + k
                entry = gram_row[work.active[i]] * work.sign[i] * signs[start + a]
                column[i] = (entry - dot(column[:i], work.columns[k, :i])) / work.factor[i, i]
                count += i + 1
            rest = gram_row[place] - dot(column[:size], column[:size])
            count += size
            if rest <= INDEPENDENT * gram_row[place]:
                continue
            root = math.sqrt(rest)
            drive = signs[start + a] * work.correlation[place] - work.l1_weight[place]
            work.image[size] = (drive - dot(column[:size], work.image[:size])) / root
            count += size + 1
            work.active[size] = place
            work.sign[size] = signs[start + a]
            work.value[size] = 0.0
            for i in range(size):
                work.factor[i, size] = column[i]
            work.factor[size, size] = root
            if taken < a:
                copy(work.columns[taken, :size], column[:size])
            taken += 1
            size += 1
        work.n_multiply_adds[0] += count
    return size


@partial(inner, fastmath={"contract"})
def _rotate(target, source, other, cosine, sine):
    """Rotate two rows in their plane; write the first row to `target`, and the second in place."""
    for j in range(target.shape[0]):
        left = source[j]
        right = other[j]
        target[j] = cosine * left + sine * right
        other[j] = cosine * right - sine * left


@inner
def leave(work, size, leaving):
    """Delete an entry of S from the factor by plane rotations of its rows."""
    for i in range(leaving):
        copy(work.factor[i, leaving : size - 1], work.factor[i, leaving + 1 : size])
    other = work.columns[0]
    for j in range(leaving + 1, size):
        other[j] = work.factor[leaving, j]
    image = work.image[leaving]
    # A rotation takes four products for each pair of entries, four for the image, and two for the radius.
    n_rotated = size - 1 - leaving
    work.n_multiply_adds[0] += 2 * n_rotated * (n_rotated + 1) + 2 * n_rotated
    for i in range(leaving + 1, size):
        radius = math.sqrt(work.factor[i, i] ** 2 + other[i] ** 2)
        cosine = work.factor[i, i] / radius
        sine = other[i] / radius
        _rotate(
            work.factor[i - 1, i : size - 1], work.factor[i, i + 1 : size], other[i + 1 : size], cosine, sine
        )
        work.factor[i - 1, i - 1] = radius
        work.image[i - 1] = cosine * work.image[i] + sine * image
        image = cosine * image - sine * work.image[i]
        work.active[i - 1] = work.active[i]
        work.sign[i - 1] = work.sign[i]
        work.value[i - 1] = work.value[i]


@inner
def _factorise(gram, curvatures, atoms, factor):
    """Write the factor of a support, row by row; return whether its atoms are independent."""
    size = atoms.shape[0]
    for i in range(size):
        row = factor[i]
        for j in range(i, size):
            row[j] = gram[atoms[i], atoms[j]]
        row[i] += curvatures[atoms[i]]
        least = LEAST_PIVOT * row[i]
        for k in range(i):
            subtract(row[i:size], factor[k, i], factor[k, i:size])
        if not row[i] > least:
            return False
        root = math.sqrt(row[i])
        for j in range(i, size):
            row[j] /= root
    return True


@compiled
def solve_on_supports(gram, curvatures, pointers, atoms, signals, right, solution):
    """Write ``G_SS^-1 right`` on the supports of some signals; NaN for a support of dependent atoms."""
    # pointers, atoms : the supports, as compressed rows.
    # signals : the indices of the signals to solve for.
    # right, solution : a value for each entry of the supports.
    largest = 0
    for signal in signals:
        largest = max(largest, pointers[signal + 1] - pointers[signal])
    factor = np.empty((largest, largest))
    for signal in signals:
        begin, end = pointers[signal], pointers[signal + 1]
        values = solution[begin:end]
        if _factorise(gram, curvatures, atoms[begin:end], factor):
            values[:] = right[begin:end]
            solve_transposed(factor, values, end - begin)
            solve(factor, values, end - begin)
        else:
            values[:] = math.nan

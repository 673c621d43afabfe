"""The active atoms of a working set, and the Cholesky factor of their Gram matrix.

Places in the working set W number its members; S is a list of places, in the order of the factor U,
G_SS = U^T U.  U is stored by rows, and z = U^-T r with it, so that U y = z solves the equations on S: an
atom that enters appends a column, one that leaves deletes it by plane rotations of rows.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import compiled, inlined, uncounted

# Share of an atom's squared norm that must be left after projection on the atoms in S: below it the
# atom counts as a combination of them, and the factor would not carry the precision asked for.
INDEPENDENT = 1e-10
# Atoms whose columns of U are computed together: as many sums that do not wait for each other.
BLOCK = 8


class Work(NamedTuple):
    """Arrays of one worker, for up to `capacity` members of W; all but `penalty` hold no input."""

    atoms: np.ndarray  # members of W; the arrays below speak of members by their place here
    correlation: np.ndarray
    penalty: np.ndarray
    gram: np.ndarray
    residual: np.ndarray
    factor: np.ndarray  # U, its rows, in the order of `active`
    columns: np.ndarray  # columns of U on their way in
    active: np.ndarray  # S, places in W
    sign: np.ndarray
    image: np.ndarray  # z
    value: np.ndarray  # x
    solution: np.ndarray  # y


@compiled
def new_work(capacity):
    return Work(
        np.empty(capacity, np.int64), np.empty(capacity), np.empty(capacity), np.empty((capacity, capacity)),
        np.empty(capacity), np.empty((capacity, capacity)), np.empty((BLOCK, capacity)),
        np.empty(capacity, np.int64), np.empty(capacity), np.empty(capacity), np.empty(capacity),
        np.empty(capacity),
    )  # fmt: skip


@compiled
def larger_work(work, n_members, size, capacity):
    """Return the work arrays with room for `capacity` members, what they hold copied."""
    new = new_work(capacity)
    new.atoms[:n_members] = work.atoms[:n_members]
    new.correlation[:n_members] = work.correlation[:n_members]
    new.penalty[:n_members] = work.penalty[:n_members]
    new.gram[:n_members, :n_members] = work.gram[:n_members, :n_members]
    new.factor[:size, :size] = work.factor[:size, :size]
    new.active[:size] = work.active[:size]
    new.sign[:size] = work.sign[:size]
    new.image[:size] = work.image[:size]
    new.value[:size] = work.value[:size]
    return new


@partial(uncounted, forceinline=True, fastmath={"reassoc", "contract"})
def dot(left, right):
    total = 0.0
    for i in range(left.shape[0]):
        total += left[i] * right[i]
    return total


@partial(uncounted, forceinline=True, fastmath={"contract"})
def subtract(target, factor, source):
    for i in range(target.shape[0]):
        target[i] -= factor * source[i]


@inlined
def copy(target, source):
    for i in range(target.shape[0]):
        target[i] = source[i]


@uncounted
def solve_transposed(factor, vector, size):
    """Solve U^T w = vector in place."""
    for i in range(size):
        vector[i] /= factor[i, i]
        subtract(vector[i + 1 : size], vector[i], factor[i, i + 1 : size])


@uncounted
def solve(factor, vector, size):
    """Solve U y = vector in place."""
    for i in range(size - 1, -1, -1):
        vector[i] = (vector[i] - dot(factor[i, i + 1 : size], vector[i + 1 : size])) / factor[i, i]


@uncounted
def join(work, n_members, rows, row_of, correlations, penalty, curvatures, atom):
    """Make an atom the next member of W."""
    row = rows[row_of[atom]]
    work.atoms[n_members] = atom
    work.correlation[n_members] = correlations[atom]
    work.penalty[n_members] = penalty[atom]
    for k in range(n_members + 1):
        work.gram[n_members, k] = row[work.atoms[k]]
        work.gram[k, n_members] = work.gram[n_members, k]
    work.gram[n_members, n_members] += curvatures[atom]


@uncounted
def enter(work, size, places, signs, n_entering):
    """Append members of W to S and to the factor, those apart that depend on the others.

    Return the size of S.  The first is a column of its own in `columns` either way.
    """
    for start in range(0, n_entering, BLOCK):
        n_block = min(BLOCK, n_entering - start)
        before = size
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
            # Columns that entered in this block stand first in `columns`.
            for k in range(taken):
                i = before + k
                entry = gram_row[work.active[i]] * work.sign[i] * signs[start + a]
                column[i] = (entry - dot(column[:i], work.columns[k, :i])) / work.factor[i, i]
            rest = gram_row[place] - dot(column[:size], column[:size])
            if rest <= INDEPENDENT * gram_row[place]:
                continue
            root = math.sqrt(rest)
            drive = signs[start + a] * work.correlation[place] - work.penalty[place]
            work.image[size] = (drive - dot(column[:size], work.image[:size])) / root
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
    return size


@partial(uncounted, fastmath={"contract"})
def _rotate(target, source, other, cosine, sine):
    """Plane rotation of two rows; the first goes to `target`."""
    for j in range(target.shape[0]):
        left = source[j]
        right = other[j]
        target[j] = cosine * left + sine * right
        other[j] = cosine * right - sine * left


@uncounted
def leave(work, size, leaving):
    """Delete an entry of S from the factor by plane rotations of its rows."""
    for i in range(leaving):
        copy(work.factor[i, leaving : size - 1], work.factor[i, leaving + 1 : size])
    other = work.columns[0]
    for j in range(leaving + 1, size):
        other[j] = work.factor[leaving, j]
    image = work.image[leaving]
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

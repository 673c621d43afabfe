"""What is compiled in `solvers`: the exact solution of the LASSO from a support that is nearly right.

A primal active-set method.  In the coordinates x_i = sign_i a_i >= 0 of the active atoms S, with G the
Gram matrix and b the correlations, it alternates

    1.  solve G_SS y = sign b_S - lambda_S; go from x towards y; an atom that would change sign
        leaves S on the way, and the equations are solved again;
    2.  when y is reached: the atom outside S whose correlation with the residual exceeds its
        penalty by most enters S; none does at the optimum.

The objective falls in every round but for steps of length zero, so that, rounding and such ties apart,
no support comes back and the method ends at the optimum from any start; from a good one it ends after a
few rounds.  The caller bounds the rounds, and judges what comes out.  G_SS is held as a Cholesky factor,
rows of which are appended and deleted.
"""

import math

import numpy as np
from numba import njit

# Share of an atom's squared norm that must be left after projection on the atoms in S: below it the
# atom counts as a combination of them, and the factor would not carry the precision asked for.
INDEPENDENT = 1e-10
# Violations below this share of the largest correlation are rounding.
ROUNDING = 1e-13


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _dot(left, right, length):
    total = 0.0
    for i in range(length):
        total += left[i] * right[i]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _subtract(target, factor, source, length):
    for i in range(length):
        target[i] -= factor * source[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(factor, vector, size):
    """Solve L w = vector in place."""
    for i in range(size):
        vector[i] = (vector[i] - _dot(factor[i], vector, i)) / factor[i, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(factor, vector, size):
    """Solve L^T y = vector in place."""
    for i in range(size - 1, -1, -1):
        vector[i] /= factor[i, i]
        _subtract(vector, vector[i], factor[i], i)


@njit(cache=True, nogil=True, error_model="numpy")
def _append(factor, gram, active, sign, size, atom, atom_sign):
    """Append an atom to the factor of the signed Gram matrix; False if it depends on the others.

    Row `size` is left as the solution w of L w = g either way.
    """
    row = factor[size]
    gram_row = gram[atom]
    for i in range(size):
        row[i] = gram_row[active[i]] * sign[i] * atom_sign
    _forward(factor, row, size)
    rest = gram_row[atom] - _dot(row, row, size)
    if size == active.shape[0] or rest <= INDEPENDENT * gram_row[atom]:
        return False
    row[size] = math.sqrt(rest)
    active[size] = atom
    sign[size] = atom_sign
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _delete(factor, active, sign, value, size, place):
    """Delete an atom from the factor by plane rotations of its columns."""
    for i in range(place, size - 1):
        active[i] = active[i + 1]
        sign[i] = sign[i + 1]
        value[i] = value[i + 1]
        for j in range(i + 2):
            factor[i, j] = factor[i + 1, j]
    for column in range(place, size - 1):
        radius = math.hypot(factor[column, column], factor[column, column + 1])
        cosine = factor[column, column] / radius
        sine = factor[column, column + 1] / radius
        factor[column, column] = radius
        for i in range(column + 1, size - 1):
            left = factor[i, column]
            right = factor[i, column + 1]
            factor[i, column] = cosine * left + sine * right
            factor[i, column + 1] = cosine * right - sine * left


@njit(cache=True, nogil=True, error_model="numpy")
def _finish(
    gram, correlations, penalty, positive, code, max_rounds, factor, active, sign, value, solution, residual
):
    """Turn `code` into the optimum; return (atoms dropped and added, whether it ended)."""
    n_atoms = gram.shape[0]
    tolerance = 0.0
    for i in range(n_atoms):
        tolerance = max(tolerance, abs(correlations[i]))
    tolerance *= ROUNDING

    # The support the spikes found, largest entries first; dependent atoms wait outside.
    order = np.argsort(-np.abs(code))
    size = 0
    dropped = 0
    for k in range(n_atoms):
        atom = order[k]
        if code[atom] == 0.0:
            break
        if _append(factor, gram, active, sign, size, atom, math.copysign(1.0, code[atom])):
            value[size] = abs(code[atom])
            size += 1
        else:
            dropped += 1
        code[atom] = 0.0

    added = 0
    rounds = 0
    ended = False
    while rounds < max_rounds:
        rounds += 1
        # 1. The equations of optimality on the support, and the way there.
        for i in range(size):
            solution[i] = sign[i] * correlations[active[i]] - penalty[active[i]]
        _forward(factor, solution, size)
        _backward(factor, solution, size)
        step = 1.0
        place = -1
        for i in range(size):
            if solution[i] <= 0.0:
                share = value[i] / (value[i] - solution[i])
                if share < step or place < 0:
                    step = share
                    place = i
        if place >= 0:
            for i in range(size):
                value[i] = max(value[i] + step * (solution[i] - value[i]), 0.0)
            _delete(factor, active, sign, value, size, place)
            size -= 1
            dropped += 1
            continue
        for i in range(size):
            value[i] = solution[i]

        # 2. Whose correlation with the residual exceeds its penalty?
        for i in range(n_atoms):
            residual[i] = correlations[i]
        for k in range(size):
            _subtract(residual, sign[k] * value[k], gram[active[k]], n_atoms)
        for k in range(size):
            residual[active[k]] = 0.0
        worst = tolerance
        atom = -1
        for i in range(n_atoms):
            excess = (residual[i] if positive else abs(residual[i])) - penalty[i]
            if excess > worst:
                worst = excess
                atom = i
        if atom < 0:
            ended = True
            break
        atom_sign = math.copysign(1.0, residual[atom])
        added += 1
        if _append(factor, gram, active, sign, size, atom, atom_sign):
            value[size] = 0.0
            size += 1
            continue
        # The atom is a combination of the active ones: exchange it for the first of them that
        # vanishes on the way along the null direction, which lowers the penalty term alone.
        row = factor[size]
        for i in range(size):
            solution[i] = row[i]
        _backward(factor, solution, size)
        step = math.inf
        place = -1
        for i in range(size):
            if solution[i] > 0.0 and value[i] < step * solution[i]:
                step = value[i] / solution[i]
                place = i
        if place < 0:
            break
        for i in range(size):
            value[i] = max(value[i] - step * solution[i], 0.0)
        _delete(factor, active, sign, value, size, place)
        size -= 1
        dropped += 1
        if not _append(factor, gram, active, sign, size, atom, atom_sign):
            break
        value[size] = step
        size += 1

    # One step of iterative refinement: the factor has been through appends and deletions.
    if ended:
        for i in range(size):
            gram_row = gram[active[i]]
            rest = sign[i] * correlations[active[i]] - penalty[active[i]]
            for k in range(size):
                rest -= gram_row[active[k]] * sign[i] * sign[k] * value[k]
            solution[i] = rest
        _forward(factor, solution, size)
        _backward(factor, solution, size)
        for i in range(size):
            refined = value[i] + solution[i]
            if refined > 0.0:
                value[i] = refined
    for i in range(size):
        code[active[i]] = sign[i] * value[i]
    return dropped + added, ended


@njit(cache=True, nogil=True, error_model="numpy")
def finish_codes(
    gram, correlations, penalty, positive, codes, capacity, max_rounds, n_corrections, ended
):  # fmt: skip
    """Finish each row of `codes` in place; `capacity` bounds the number of independent atoms."""
    factor = np.empty((capacity + 1, capacity + 1))
    active = np.empty(capacity, dtype=np.int64)
    sign = np.empty(capacity)
    value = np.empty(capacity)
    solution = np.empty(capacity)
    residual = np.empty(gram.shape[0])
    for k in range(codes.shape[0]):
        n_corrections[k], ended[k] = _finish(
            gram, correlations[k], penalty, positive, codes[k], max_rounds, factor, active, sign, value,
            solution, residual,
        )  # fmt: skip

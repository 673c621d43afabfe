"""An active-set method for the LASSO, with the Gram matrix.

Let x_i = sign_i a_i >= 0 be the coordinates of the atoms of the active set S, G the Gram matrix (plus the
curvatures of the penalty on its diagonal), and b the correlations.  The method alternates between two steps:

    1.  Solve G_SS y = r with r_i = sign_i b_i - lambda_i, and move from x towards y.  Atoms that would change
        sign leave S on the way, and the equations are solved again.
    2.  When y is reached, the worst violators enter S together.  Violators are atoms outside S whose
        correlations with the residual exceed their penalties.  At the optimum, no atom is a violator.

The objective falls in every round, except in steps of length zero.  Steps of length zero also come to an end.
Atoms that have just entered and would turn negative leave at once, but at least one entered atom remains,
because the objective falls towards y, and cannot fall without the entered atoms.  Therefore, except for
rounding and ties, no support occurs twice, and the method reaches the optimum from any start.  From a good
start, the method needs only a few rounds.  A start has signs but no values x.  Therefore, until y is reached
for the first time, all atoms with y_i <= 0 leave together.  The caller bounds the number of rounds and
certifies the codes.

The cost depends on the size of the support, because rounds run in a working set W.  W holds S and the atoms
that may enter, with a copy of their part of the Gram matrix.  Full rows of the matrix are read only when W is
solved, to find violators outside W.  If each signal has its own mask, there is no Gram matrix, and the
products of members and the correlations with the residual are computed from the atoms.
`solvers.gram.working_set` calls `solve_within` without the matrix.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import callable_in_kernels, compiled, inner, uncounted
from solvers._kernels.certificate import PenalisedAtoms, RowEntries, read_and_measure
from solvers._kernels.dots import copy, subtract
from solvers._kernels.factor import (
    Terms,
    copy_members,
    enter,
    join,
    leave,
    new_working_set,
    refine,
    solve,
    triangle_work,
)
from solvers._kernels.products import GramMatrix

# Violations below this share of the largest correlation count as rounding (1e-16 is one rounding).
# Violations and correlations are divided by the norms of their atoms, so that scales of atoms do not matter.
VIOLATION_ROUNDING = 1e-13
# Violators enter S together if they exceed the share ENTERING of the worst violation.  At most
# ENTERING_PER_ACTIVE times the size of S (but at least LEAST_ENTERING) enter together.  Entering one violator
# at a time costs a third more if hundreds enter.  If too many violators enter together, most of them leave
# again.  `python -m tests.benchmarks patches correlated` measures these constants and the two below.
ENTERING = 0.5
ENTERING_PER_ACTIVE = 0.125
LEAST_ENTERING = 4
# The number of violators that join W together is the size of S, but at least LEAST_JOINING.
LEAST_JOINING = 16
# Number of atoms for which the first working set has room.  The Gram matrix of these atoms takes 8 kB.
LEAST_CAPACITY = 32


# A report has a row for each signal, with three columns: the number of rounds, 1 if no violator is left
# (otherwise 0), and the number of multiply-adds.
N_ROUNDS, ENDED, N_MULTIPLY_ADDS = range(3)
N_REPORTED = 3
# Number of figures of the certificate, which precede the columns above in the report of `solve_and_certify`.
N_FIGURES = 3


class Scratch(NamedTuple):
    """Work arrays with an entry for each atom."""

    residual: np.ndarray
    is_member: np.ndarray  # all False before and after each signal
    places: np.ndarray
    signs: np.ndarray
    excesses: np.ndarray


@callable_in_kernels
def new_scratch(n_atoms):
    return Scratch(
        np.empty(n_atoms), np.zeros(n_atoms, np.bool_), np.empty(n_atoms, np.int64), np.empty(n_atoms),
        np.empty(n_atoms),
    )  # fmt: skip


@partial(inner, fastmath={"nnan", "nsz"})
def _write_excesses(residual, l1_weights, inverse_norms, positive, excesses):
    """Write the excesses of correlations over l1 weights, times 1 / ||d_i||; return the largest excess."""
    largest = 0.0
    for i in range(excesses.shape[0]):
        excesses[i] = ((residual[i] if positive[i] else abs(residual[i])) - l1_weights[i]) * inverse_norms[i]
        largest = max(largest, excesses[i])
    return largest


@inner
def _list_largest(scratch, n_atoms, least, most):
    """List in `places` up to `most` atoms with the largest `excesses` above `least`; return the count."""
    places, excesses = scratch.places, scratch.excesses
    count = 0
    for i in range(n_atoms):
        excess = excesses[i]
        if excess > least and (count < most or excess > excesses[places[most - 1]]):
            count = min(count + 1, most)
            k = count - 1
            while k > 0 and excesses[places[k - 1]] < excess:
                places[k] = places[k - 1]
                k -= 1
            places[k] = i
    return count


@inner
def _violators(residual, l1_weights, inverse_norms, positive, share, tolerance, n_atoms, most, scratch):
    """List up to `most` of the worst violators, above `tolerance` and a share of the worst violation."""
    excesses = scratch.excesses[:n_atoms]
    largest = _write_excesses(residual, l1_weights, inverse_norms, positive, excesses)
    if largest <= tolerance:
        return 0
    return _list_largest(scratch, n_atoms, max(tolerance, share * largest), most)


@inner
def _write_signs(residual, count, scratch):
    """Write the signs of listed atoms."""
    for k in range(count):
        scratch.signs[k] = math.copysign(1.0, residual[scratch.places[k]])


@inner
def _residuals_within(work, n_members, size):
    """Set `residual` of W (0 in S), and write the residual of the equations on S to `solution`."""
    copy(work.residual[:n_members], work.correlation)
    for k in range(size):
        subtract(
            work.residual[:n_members], work.sign[k] * work.value[k], work.gram[work.active[k], :n_members]
        )
    work.n_multiply_adds[0] += size * n_members
    for k in range(size):
        place = work.active[k]
        work.solution[k] = work.sign[k] * work.residual[place] - work.l1_weight[place]
        work.residual[place] = 0.0


@inner
def _share(value, solution):
    """Return the share of the way from x to y on which an entry remains positive, at most 1."""
    if solution > 0.0:
        return 1.0
    return value / (value - solution) if value > 0.0 else 0.0


@inner
def _move(work, size):
    """Move from x towards y until atoms vanish, and remove these atoms from S; return the size of S."""
    step = 1.0
    work.n_multiply_adds[0] += size
    for i in range(size):
        step = min(step, _share(work.value[i], work.solution[i]))
    for i in range(size - 1, -1, -1):
        if work.solution[i] <= 0.0 and _share(work.value[i], work.solution[i]) <= step:
            leave(work, size, i)
            size -= 1
            for k in range(i, size):
                work.solution[k] = work.solution[k + 1]
    for i in range(size):
        work.value[i] = max(work.value[i] + step * (work.solution[i] - work.value[i]), 0.0)
    return size


@inner
def _pivot(work, size, scratch):
    """Let a violator that is a linear combination of S replace the first atom that vanishes."""
    # The step along the null direction lowers the penalty term, and changes nothing else.  Return the size of
    # S, and whether the violator entered.
    place = scratch.places
    sign = scratch.signs
    enter(work, size, place, sign, 1)
    copy(work.solution[:size], work.columns[0])
    solve(work.factor, work.solution, size)
    work.n_multiply_adds[0] += triangle_work(size) + size
    step = math.inf
    leaving = -1
    for i in range(size):
        if work.solution[i] > 0.0 and work.value[i] < step * work.solution[i]:
            step = work.value[i] / work.solution[i]
            leaving = i
    if leaving < 0:
        return size, False
    for i in range(size):
        work.value[i] = max(work.value[i] - step * work.solution[i], 0.0)
    leave(work, size, leaving)
    if enter(work, size - 1, place, sign, 1) < size:
        return size - 1, False
    work.value[size - 1] = step
    return size, True


@inner
def solve_within(work, n_members, size, tolerance, max_rounds, at_start, scratch):
    """Solve the problem of the members of W; return (size of S, rounds left, True if solved)."""
    # The residual of the equations on S stays in `solution`.
    for k in range(max_rounds):
        rounds_left = max_rounds - k - 1
        copy(work.solution[:size], work.image)
        solve(work.factor, work.solution, size)
        work.n_multiply_adds[0] += triangle_work(size)
        feasible = True
        for i in range(size):
            feasible = feasible and work.solution[i] > 0.0
        if not feasible:
            if at_start:
                for i in range(size):
                    work.value[i] = 0.0
            size = _move(work, size)
            continue
        at_start = False
        copy(work.value[:size], work.solution)
        _residuals_within(work, n_members, size)
        most = max(LEAST_ENTERING, int(ENTERING_PER_ACTIVE * size))
        n_entering = _violators(
            work.residual, work.l1_weight, work.inverse_norm, work.positive, ENTERING, tolerance, n_members,
            most, scratch,
        )  # fmt: skip
        if n_entering == 0:
            return size, rounds_left, True
        _write_signs(work.residual, n_entering, scratch)
        entered = enter(work, size, scratch.places, scratch.signs, n_entering)
        if entered == size:
            entered, pivoted = _pivot(work, size, scratch)
            if not pivoted:
                return entered, rounds_left, False
        size = entered
    return size, 0, False


@inner
def join_listed(work, n_members, n_joining, atoms, terms, signal, scratch):
    """Make the listed atoms members of W, unless they are members already; return the size of W."""
    for atom in scratch.places[:n_joining]:
        if not scratch.is_member[atom]:
            join(work, n_members, atoms, terms, signal, atom)
            scratch.is_member[atom] = True
            n_members += 1
    return n_members


@inner
def list_joining(atoms, terms, signal, work, size, tolerance, scratch):
    """List the worst violators outside S; return the number of violators."""
    residual = scratch.residual
    atoms.write_residuals(signal, work, size, terms.correlations[signal], residual)
    for i in range(size):
        residual[work.atoms[work.active[i]]] = 0.0
    return _violators(
        residual, terms.l1_weights, terms.inverse_norms, terms.positive, 0.0, tolerance, residual.shape[0],
        max(LEAST_JOINING, size), scratch,
    )  # fmt: skip


@inner
def _begin(atoms, terms, signal, start, work, scratch):
    """Put the atoms from which a signal starts into W; return the sizes of W and S."""
    # Atoms with the largest |current| / ||d_i|| enter first.  Linearly dependent atoms stay outside S, and
    # atoms of norm zero are left out.
    places, excesses = scratch.places, scratch.excesses
    excesses[:] = 0.0
    for entry in range(start.pointers[signal], start.pointers[signal + 1]):
        atom, current = start.columns[entry], start.values[entry]
        scratch.residual[atom] = current
        excesses[atom] = abs(current) * terms.inverse_norms[atom]
    n_members = _list_largest(scratch, excesses.shape[0], 0.0, excesses.shape[0])
    _write_signs(scratch.residual, n_members, scratch)
    for k in range(n_members):
        join(work, k, atoms, terms, signal, places[k])
        scratch.is_member[places[k]] = True
        places[k] = k
    return n_members, enter(work, 0, places, scratch.signs, n_members)


@inner
def _go_on(atoms, terms, signals, start, max_rounds, codes, report, work, scratch, progress):
    """Solve for signals until W is full; return the capacity that W needs, or 0 after the last signal."""
    # References to arrays are not counted here, because counting would take longer than solving for a tiny
    # signal.  `progress` has the state from which to continue: the index of the signal, the sizes of W and S,
    # the number of joining atoms, and the number of rounds left.
    first, n_members, size, n_joining, rounds_left = progress
    residual, is_member = scratch.residual, scratch.is_member
    n_atoms = residual.shape[0]
    for k in range(first, signals.shape[0]):
        signal = signals[k]
        correlations = terms.correlations[signal]
        at_start = n_joining == 0
        if at_start:
            work.n_multiply_adds[0] = atoms.write_inverse_norms(signal, terms.inverse_norms)
        tolerance = 0.0
        for i in range(n_atoms):
            tolerance = max(tolerance, abs(correlations[i]) * terms.inverse_norms[i])
        tolerance *= VIOLATION_ROUNDING
        if at_start:
            rounds_left = max_rounds
            n_members, size = _begin(atoms, terms, signal, start, work, scratch)
        solved = True
        while solved:
            n_before = n_members
            n_members = join_listed(work, n_members, n_joining, atoms, terms, signal, scratch)
            if n_members == n_before and not at_start:
                break
            if n_members > 0:
                size, rounds_left, solved = solve_within(
                    work, n_members, size, tolerance, rounds_left, at_start, scratch
                )
            at_start = False
            n_joining = 0
            if solved and n_members < n_atoms:
                n_joining = list_joining(atoms, terms, signal, work, size, tolerance, scratch)
                if n_members + n_joining > work.atoms.shape[0]:
                    progress[0], progress[1], progress[2] = k, n_members, size
                    progress[3], progress[4] = n_joining, rounds_left
                    return 2 * (n_members + n_joining)
        if solved:
            refine(work, size)
        for i in range(n_members):
            is_member[work.atoms[i]] = False
        for i in range(size):
            codes[k, work.atoms[work.active[i]]] = work.sign[i] * work.value[i]
        report[k, N_ROUNDS] += max_rounds - rounds_left
        report[k, ENDED] = solved
        report[k, N_MULTIPLY_ADDS] = work.n_multiply_adds[0]
        n_joining = 0
    return 0


@partial(inner, _nrt=True)
def _solve_each(atoms, terms, signals, start, max_rounds, codes, report):
    """Write the optimal codes of some signals."""
    # atoms : `GramMatrix` or `WeightedAtoms`.
    # start : `RowEntries` with a row for each signal: the atoms from which the signal starts and their
    #     currents ||d_i||^2 a_i, or a multiple of these currents.  The largest currents enter first.
    # codes, report : a row for each of `signals`, with zeros at first.
    capacity = LEAST_CAPACITY
    for signal in signals:
        capacity = max(capacity, 2 * (start.pointers[signal + 1] - start.pointers[signal]))
    work, scratch = new_working_set(capacity), new_scratch(terms.l1_weights.shape[0])
    progress = np.zeros(5, np.int64)
    while True:
        capacity = _go_on(atoms, terms, signals, start, max_rounds, codes, report, work, scratch, progress)
        if capacity == 0:
            break
        larger = new_working_set(capacity)
        copy_members(larger, work, progress[1], progress[2])
        work = larger


@compiled
def solve_and_certify(
    array, norms, l1_weights, curvatures, positive, gram, signals, correlations, start_atoms, start_currents,
    max_rounds, report, columns, values,
):  # fmt: skip
    """Write the entries of the optimal code of one signal and its report; return the number of entries."""
    # array, ..., positive : the fields of `PenalisedAtoms`, which would take longer to pass as a tuple.
    # signals, correlations : arrays of one row.
    # report : the figures of `measure_code`, then the columns of a report of `solve_active_sets`.
    atoms, n_atoms = PenalisedAtoms(array, norms, l1_weights, curvatures, positive), array.shape[0]
    inverse_norms = np.zeros(n_atoms)
    for i in range(n_atoms):
        if norms[i] > 0.0:
            inverse_norms[i] = 1.0 / norms[i]
    pointers = np.zeros(2, np.int32)
    pointers[1] = start_atoms.shape[0]
    code = np.zeros((1, n_atoms))
    counts = np.zeros((1, N_REPORTED), np.int64)
    terms = Terms(correlations, l1_weights, curvatures, inverse_norms, positive)
    start = RowEntries(pointers, start_atoms, start_currents)
    _solve_each(GramMatrix(gram), terms, np.zeros(1, np.int64), start, max_rounds, code, counts)
    size = read_and_measure(atoms, signals, code, columns, values, report[:N_FIGURES])
    for k in range(N_REPORTED):
        report[N_FIGURES + k] = counts[0, k]
    return size


# These kernels are compiled for calls from Python (`solvers.gram.working_set`).
enter_kernel, solve_within_kernel, refine_kernel = map(uncounted, (enter, solve_within, refine))
copy_members_kernel = uncounted(copy_members)
solve_active_sets = compiled(_solve_each)

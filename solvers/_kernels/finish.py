"""The exact solution of the LASSO from a support that is nearly right.

An active-set method.  In the coordinates x_i = sign_i a_i >= 0 of the active atoms S, with G the Gram
matrix and b the correlations, it alternates

    1.  solve (G + diag m)_SS y = r, r_i = sign_i b_i - lambda_i, with m the curvatures of the penalty,
        and go from x towards y; atoms that would change sign leave S on the way, and the equations are
        solved again;
    2.  when y is reached: atoms outside S whose correlations with the residual exceed their
        penalties enter S, the worst together; at the optimum there is none.

The objective falls in every round but for steps of length zero.  Those end too: of the atoms that have
just entered, the ones that would turn negative leave at once, and one at least remains, because y
lies downhill and only they can lead there.  So, rounding and ties apart, no support comes back and
the method ends at the optimum from any start; from a good one it ends after a few rounds.  The
guess it starts from has no x to keep: there all atoms with y_i <= 0 leave together.  The caller bounds
the rounds, and judges what comes out.

Cost follows the support: rounds happen in a working set W, S and atoms that may enter, whose part
of the Gram matrix is copied together.  Rows of the matrix are read in full only when W is solved, to
see whether an atom outside wants to enter.
"""

import math
from functools import partial

import numpy as np

from snn._kernels.compiling import compiled, uncounted
from solvers._kernels.factor import (
    copy,
    enter,
    join,
    larger_work,
    leave,
    new_work,
    solve,
    solve_transposed,
    subtract,
)

# Violations below this share of the largest correlation are rounding.
ROUNDING = 1e-13
# Violators that enter S together: from this share of the worst violation, and up to so many for each
# atom in S, or so many.  One at a time costs a third more where hundreds enter; of many, most leave again.
ENTERING = 0.5
ENTERING_PER_ACTIVE = 0.125
LEAST_ENTERING = 4
# Violators that join W together: as many as S has, and at least these.
LEAST_JOINING = 16
LEAST_CAPACITY = 32


@uncounted
def _violators(residual, penalty, positive, share, tolerance, n_atoms, most, atoms, excesses):
    """Fill `atoms` with up to `most` of those that violate most, the worst first; return how many."""
    count = 0
    for i in range(n_atoms):
        count += (residual[i] if positive else abs(residual[i])) - penalty[i] > tolerance
    if count == 0:
        return 0
    least = tolerance
    if share > 0.0:
        for i in range(n_atoms):
            least = max(least, share * ((residual[i] if positive else abs(residual[i])) - penalty[i]))
    count = 0
    for i in range(n_atoms):
        excess = (residual[i] if positive else abs(residual[i])) - penalty[i]
        if excess > least and (count < most or excess > excesses[most - 1]):
            count = min(count + 1, most)
            k = count - 1
            while k > 0 and excesses[k - 1] < excess:
                excesses[k] = excesses[k - 1]
                atoms[k] = atoms[k - 1]
                k -= 1
            excesses[k] = excess
            atoms[k] = i
    return count


@uncounted
def _price_within(work, n_members, size):
    """Set `residual` of W, 0 in S; leave the residual of the equations on S in `solution`."""
    for i in range(n_members):
        work.residual[i] = work.correlation[i]
    for k in range(size):
        subtract(
            work.residual[:n_members], work.sign[k] * work.value[k], work.gram[work.active[k], :n_members]
        )
    for k in range(size):
        place = work.active[k]
        work.solution[k] = work.sign[k] * work.residual[place] - work.penalty[place]
        work.residual[place] = 0.0


@uncounted
def _share(value, solution):
    """Return the part of the way from x to y that keeps an entry positive, 1 if all of it does."""
    if solution > 0.0:
        return 1.0
    return value / (value - solution) if value > 0.0 else 0.0


@uncounted
def _go(work, size):
    """Go from x towards y until atoms vanish, and take these from S; return its size."""
    step = 1.0
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


@uncounted
def _exchange(work, size, place, sign):
    """Let a member enter that is a combination of S: exchange it for the first atom of S to vanish.

    That is on the way along the null direction, which lowers the penalty term alone.  Return the
    size of S, and whether there was such an atom.
    """
    enter(work, size, place, sign, 1)
    for i in range(size):
        work.solution[i] = work.columns[0, i]
    solve(work.factor, work.solution, size)
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


@uncounted
def _solve_within(work, n_members, size, positive, tolerance, max_rounds, at_guess, places, signs, excesses):
    """Solve the problem of the members of W; return (size of S, rounds left, whether it ended).

    `solution` is left as the residual of the equations on S.
    """
    for rounds in range(max_rounds):
        for i in range(size):
            work.solution[i] = work.image[i]
        solve(work.factor, work.solution, size)
        feasible = True
        for i in range(size):
            feasible = feasible and work.solution[i] > 0.0
        if not feasible:
            if at_guess:
                for i in range(size):
                    work.value[i] = 0.0
            size = _go(work, size)
            continue
        at_guess = False
        for i in range(size):
            work.value[i] = work.solution[i]
        _price_within(work, n_members, size)
        most = max(LEAST_ENTERING, int(ENTERING_PER_ACTIVE * size))
        n_entering = _violators(
            work.residual, work.penalty, positive, ENTERING, tolerance, n_members, most, places, excesses
        )
        if n_entering == 0:
            return size, max_rounds - rounds, True
        for k in range(n_entering):
            signs[k] = math.copysign(1.0, work.residual[places[k]])
        entered = enter(work, size, places, signs, n_entering)
        if entered == size:
            entered, exchanged = _exchange(work, size, places, signs)
            if not exchanged:
                return entered, 0, False
        size = entered
    return size, 0, False


@partial(uncounted, fastmath={"contract"})
def _subtract_four(target, factors, first, second, third, fourth):
    for i in range(target.shape[0]):
        target[i] -= (
            factors[0] * first[i] + factors[1] * second[i] + factors[2] * third[i] + factors[3] * fourth[i]
        )


@uncounted
def _price(work, size, rows, row_of, correlations, residual):
    """Set the correlations of all atoms with the residual of x, 0 for those in S."""
    copy(residual, correlations)
    factors = work.residual
    for k in range(size):
        factors[k] = work.sign[k] * work.value[k]
    whole = size - size % 4
    # Four rows at a time, so that `residual` is read and written a quarter as often.
    for k in range(0, whole, 4):
        _subtract_four(
            residual,
            factors[k : k + 4],
            rows[row_of[work.atoms[work.active[k]]]],
            rows[row_of[work.atoms[work.active[k + 1]]]],
            rows[row_of[work.atoms[work.active[k + 2]]]],
            rows[row_of[work.atoms[work.active[k + 3]]]],
        )
    for k in range(whole, size):
        subtract(residual, factors[k], rows[row_of[work.atoms[work.active[k]]]])
    for k in range(size):
        residual[work.atoms[work.active[k]]] = 0.0


@uncounted
def _refine(work, size):
    """One step of iterative refinement: the factor has been through many changes."""
    solve_transposed(work.factor, work.solution, size)
    solve(work.factor, work.solution, size)
    for i in range(size):
        refined = work.value[i] + work.solution[i]
        if refined > 0.0:
            work.value[i] = refined


@compiled
def _finish(
    rows, row_of, correlations, penalty, curvatures, positive, guess, signs, n_guess, max_rounds, work,
    residual, is_member, places, excesses, wanted,
):  # fmt: skip
    """Solve for one signal from a guess; return (work, size of S, whether it ended)."""
    n_atoms = residual.shape[0]
    tolerance = 0.0
    for i in range(n_atoms):
        tolerance = max(tolerance, abs(correlations[i]))
    tolerance *= ROUNDING

    if n_guess > work.atoms.shape[0]:
        work = larger_work(work, 0, 0, 2 * n_guess)
    n_members = 0
    for k in range(n_guess):
        join(work, k, rows, row_of, correlations, penalty, curvatures, guess[k])
        is_member[guess[k]] = True
        places[k] = k
        n_members += 1
    size = enter(work, 0, places, signs, n_guess)
    at_guess = True
    ended = False
    while not ended:
        size, max_rounds, solved = _solve_within(
            work, n_members, size, positive, tolerance, max_rounds, at_guess, places, signs, excesses
        )
        if not solved:
            break
        at_guess = False
        _price(work, size, rows, row_of, correlations, residual)
        n_joining = _violators(
            residual, penalty, positive, 0.0, tolerance, n_atoms, max(LEAST_JOINING, size), places, excesses
        )
        if n_members + n_joining > work.atoms.shape[0]:
            work = larger_work(work, n_members, size, 2 * (n_members + n_joining))
        ended = True
        for k in range(n_joining):
            atom = places[k]
            if row_of[atom] < 0:
                wanted[atom] = True
            elif not is_member[atom]:
                join(work, n_members, rows, row_of, correlations, penalty, curvatures, atom)
                is_member[atom] = True
                n_members += 1
                ended = False
    if ended:
        _refine(work, size)
    for k in range(n_members):
        is_member[work.atoms[k]] = False
    return work, size, ended


@uncounted
def _fired(spike_counts, potential, threshold, positive, atoms, charges):
    """List the atoms that fired and have a positive average current, the largest first; return how many.

    `charges` are the integrals of these currents, with the sign of the half of a pair that fired.
    """
    n_atoms = atoms.shape[0]
    count = 0
    for i in range(n_atoms):
        charge = 0.0
        if spike_counts[i] > 0:
            charge = max(threshold[i] * spike_counts[i] + potential[i], 0.0)
        k = n_atoms + i
        if not positive and spike_counts[k] > 0:
            charge -= max(threshold[k] * spike_counts[k] + potential[k], 0.0)
        if charge != 0.0:
            k = count
            while k > 0 and abs(charges[k - 1]) < abs(charge):
                charges[k] = charges[k - 1]
                atoms[k] = atoms[k - 1]
                k -= 1
            charges[k] = charge
            atoms[k] = i
            count += 1
    return count


@compiled
def finish_codes(
    rows, row_of, correlations, penalty, curvatures, positive, active, spike_counts, potential, threshold,
    max_rounds, codes, n_corrections, ended, wanted,
):  # fmt: skip
    """Write the optimal codes of the signals `active`, from the spikes of their networks.

    rows : some rows of the Gram matrix; that of atom i is number row_of[i], or not there if that is < 0.
    codes : zeros, a row for each of `active`; correlations, spikes and potentials are of all signals.
    n_corrections : atoms in which the support differs from the one the spikes found.
    ended : whether the method did, with no atom left that wants to enter and has a row.
    wanted : marks the atoms that want to enter and have no row.
    """
    n_atoms = row_of.shape[0]
    work = new_work(LEAST_CAPACITY)
    residual = np.empty(n_atoms)
    excesses = np.empty(n_atoms)
    charges = np.empty(n_atoms)
    signs = np.empty(n_atoms)
    fired = np.empty(n_atoms, np.int64)
    places = np.empty(n_atoms, np.int64)
    is_member = np.zeros(n_atoms, np.bool_)
    for k in range(active.shape[0]):
        signal = active[k]
        # The largest enter first; atoms that depend on them wait outside.
        n_fired = _fired(spike_counts[signal], potential[signal], threshold, positive, fired, charges)
        for i in range(n_fired):
            signs[i] = math.copysign(1.0, charges[i])
        work, size, ended[k] = _finish(
            rows, row_of, correlations[signal], penalty, curvatures, positive, fired, signs, n_fired,
            max_rounds, work, residual, is_member, places, excesses, wanted,
        )  # fmt: skip
        code = codes[k]
        for i in range(size):
            code[work.atoms[work.active[i]]] = work.sign[i] * work.value[i]
        shared = 0
        for i in range(n_fired):
            shared += code[fired[i]] * charges[i] > 0.0
        n_corrections[k] = n_fired + size - 2 * shared

"""The active-set method for one signal at falling penalties, with one factor for all penalties."""

import numpy as np

from snn._kernels.compiling import compiled, inner
from solvers._kernels.active_set import (
    ENDED,
    LEAST_CAPACITY,
    N_MULTIPLY_ADDS,
    N_ROUNDS,
    VIOLATION_ROUNDING,
    join_listed,
    list_joining,
    new_scratch,
    solve_within,
)
from solvers._kernels.factor import (
    Terms,
    copy_members,
    enter,
    new_working_set,
    refine,
    solve_transposed,
    triangle_work,
)
from solvers._kernels.products import GramMatrix


@inner
def _change_penalty(work, n_members, size, terms, curvatures, scratch):
    """Change the penalty of W to the penalty of `terms`; return the size of S, and if curvatures changed."""
    # curvatures : the curvatures of the previous penalty.
    is_curved = False
    for i in range(n_members):
        atom = work.atoms[i]
        change = terms.curvatures[atom] - curvatures[atom]
        is_curved = is_curved or change != 0.0
        work.gram[i, i] += change
        work.l1_weight[i] = terms.l1_weights[atom]
    for i in range(size):
        place = scratch.places[i] = work.active[i]
        scratch.signs[i] = work.sign[i]
        work.image[i] = work.sign[i] * work.correlation[place] - work.l1_weight[place]
    if is_curved:
        return enter(work, 0, scratch.places, scratch.signs, size), True
    solve_transposed(work.factor, work.image, size)
    return size, False


@compiled
def solve_path(gram, terms, l1_weights, curvatures, max_rounds, codes, report):
    """Write the optimal code of one signal at each penalty; each code starts from the previous support."""
    # terms : the terms of the signal, whose `l1_weights` and `curvatures` are not read.
    # l1_weights, curvatures, codes, report : a row for each penalty; `codes` and `report` are zeros at first.
    atoms, correlations = GramMatrix(gram), terms.correlations[0]
    work, scratch = new_working_set(LEAST_CAPACITY), new_scratch(correlations.shape[0])
    tolerance = VIOLATION_ROUNDING * np.max(np.abs(correlations) * terms.inverse_norms)
    n_members = size = 0
    for k in range(l1_weights.shape[0]):
        at = Terms(terms.correlations, l1_weights[k], curvatures[k], terms.inverse_norms, terms.positive)
        work.n_multiply_adds[0] = triangle_work(size)
        size, at_start = _change_penalty(work, n_members, size, at, curvatures[k - 1], scratch)
        ended, rounds_left = False, max_rounds
        while not ended:
            if n_members > 0:
                size, rounds_left, solved = solve_within(
                    work, n_members, size, tolerance, rounds_left, at_start, scratch
                )
                if not solved:
                    break
            at_start, n_before = False, n_members
            n_joining = list_joining(atoms, at, 0, work, size, tolerance, scratch)
            if n_members + n_joining > work.atoms.shape[0]:
                larger = new_working_set(2 * (n_members + n_joining))
                copy_members(larger, work, n_members, size)
                work = larger
            n_members = join_listed(work, n_members, n_joining, atoms, at, 0, scratch)
            ended = n_members == n_before
        if ended:
            refine(work, size)
        for i in range(size):
            codes[k, work.atoms[work.active[i]]] = work.sign[i] * work.value[i]
        report[k, N_ROUNDS] = max_rounds - rounds_left
        report[k, ENDED] = ended
        report[k, N_MULTIPLY_ADDS] = work.n_multiply_adds[0]
        if not ended:
            # This support may be wrong, so that the next penalty starts from an empty support.
            scratch.is_member[:] = False
            n_members = size = 0

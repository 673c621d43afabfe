"""The exact solution of a convolutional LASSO from a support that is nearly right.

As `solvers._kernels.finish` does for arrays of atoms, for supports of many thousands whose Gram matrix G is
sparse.  Rounds go on in a working set W of atoms, which holds the support S:

1.  Sweeps of coordinate descent over W.  They let atoms come and go by the hundred, wherever they are.
2.  Once few do, the optimality equations on S, ``G_SS y = b_S - sign lambda_S``.  If y keeps all signs, the
    code goes there.  Otherwise those that would change sign are dropped, all together, and sweeps go on from
    there; if these do not end below where the step came from, it is undone, the code goes towards y
    until the first atom vanishes, and from then on there are more sweeps, and steps are damped.
3.  Atoms outside W whose correlations with the residual exceed their penalties join W: at each position the
    worst, and those at least half as bad.  If the equations were solved to rounding, and there is no such
    atom, inside W or outside, the code is optimal.

The objective falls in every round, as sweeps descend and y lies downhill: rounding apart, the method ends
from any start.

While S still changes, the equations are solved by conjugate gradients, roughly: each of their steps lies
below the one before.  The last time it is a sparse factorisation and refinement.  That takes as long as some
three hundred steps at 440 and at 17,000 atoms of a photograph; steps that end at rounding would be more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from snn.event_driven import EventDrivenRun
from solvers._kernels import overlaps
from solvers.convolution import ConvolutionalDictionary
from solvers.problem import LassoProblem
from solvers.spiking_network import in_result_order, signed

# Violations below this share of the largest correlation, and differences of objectives below this share of
# 1/2 ||signal||^2, are rounding.
ROUNDING = 1e-13
MOST_ROUNDS = 200
# Sweeps in a round: at first, and where steps had to be undone.
LEAST_SWEEPS = 20
MOST_SWEEPS = 320
# The equations are solved when fewer than this part of the support came or went in a round, or when more
# did for so many rounds.
SETTLED = 0.1
PATIENCE = 5
# Violators that join: from this share of the worst at their position.
JOINING = 0.5
# Conjugate gradients end at this share of the defect, or after so many steps.
ROUGH_SHARE = 1e-2
ROUGH_STEPS = 200
# The share of ||d_i||^2 added to the diagonal that is factorised, so that atoms may depend on each other; of
# an error along an eigenvalue, each refinement leaves share / (share + eigenvalue).
DAMPING = 1e-10
# What damps rough steps, in the same unit as DAMPING: nothing at first, more with every step that is undone.
# Without it, nearly dependent atoms send the target far away, and no step is taken but from one vanishing
# atom to the next.
LEAST_ROUGH_DAMPING, MOST_ROUGH_DAMPING = 1e-6, 1e-2
GROWTH = 10.0
MOST_REFINEMENTS = 10
# The equations of atoms that depend on each other may have no solution.  Their defect is more than so many
# times what counts as rounding.
DEPENDENT = 1e3


def exact_codes(
    problem: LassoProblem, run: EventDrivenRun, signals: np.ndarray
) -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    """Return the exact codes of some signals, the corrections they took, and whether each ended.

    A correction is an atom in which the support differs from the one the spikes found.
    """
    atoms_of, values_of = [], []
    n_corrections = np.zeros(len(signals), dtype=np.int64)
    ended = np.zeros(len(signals), dtype=np.bool_)
    for k, signal in enumerate(signals):
        alone = problem.subset([signal])
        fired, direction, multiple = _guess(alone, run, signal)
        finish = _Finish(alone, fired, multiple * direction)
        ended[k] = finish.solve()
        atoms, values = finish.support()
        _, in_guess, in_code = np.intersect1d(fired, atoms, assume_unique=True, return_indices=True)
        n_shared = np.count_nonzero(np.sign(direction[in_guess]) == np.sign(values[in_code]))
        n_corrections[k] = len(fired) + len(atoms) - 2 * n_shared
        atoms_of.append(atoms)
        values_of.append(values)
    ends = np.cumsum([0] + [len(atoms) for atoms in atoms_of])
    entries = (np.concatenate(values_of), np.concatenate(atoms_of), ends)
    return sparse.csr_array(entries, (len(signals), problem.n_atoms)), n_corrections, ended


def _guess(problem: LassoProblem, run: EventDrivenRun, signal: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the atoms that fired with a positive average current, a code of these, and its multiple.

    The code has the proportions of the average currents.  The multiple has the least objective, and is zero
    where none is better.
    """
    counts, potential = run.spike_counts[signal], run.membrane_potential[signal]
    charge = np.where(counts > 0, np.maximum(run.network.firing_threshold * counts + potential, 0.0), 0.0)
    direction = signed(problem, in_result_order(problem, charge)[np.newaxis])[0] / problem.squared_norms
    atoms = np.flatnonzero(direction)
    direction = direction[atoms]
    image = problem.reconstruct(_row(direction, atoms, problem.n_atoms))[0]
    slope = problem.correlations[0, atoms] @ direction - problem.l1_weights[atoms] @ np.abs(direction)
    return atoms, direction, slope / (image @ image) if slope > 0.0 else 0.0


def _row(values: np.ndarray, atoms: np.ndarray, n_atoms: int) -> sparse.csr_array:
    return sparse.csr_array((values, atoms, [0, len(atoms)]), (1, n_atoms))


class _Part:
    """Some atoms, in order, and their part of the Gram matrix in compressed columns."""

    def __init__(self, dictionary: ConvolutionalDictionary, atoms: np.ndarray) -> None:
        self.atoms = atoms
        stencil = dictionary.stencil()
        first = np.searchsorted(atoms, dictionary.n_kernels * np.arange(dictionary.n_positions + 1))
        self.geometry = (first, *dictionary.grid_shape, stencil.shape[1] // 2, stencil.shape[2] // 2)
        self.pointers = np.empty(len(atoms) + 1, dtype=np.int64)
        overlaps.count_overlaps(*self.geometry, self.pointers)
        self.values = np.empty(self.pointers[-1])
        kernels = atoms % dictionary.n_kernels
        overlaps.fill_overlaps(kernels, first, *dictionary.grid_shape, stencil, self.pointers, self.values)

    def gram(self) -> sparse.csc_array:
        # Indices as SuperLU takes them.
        members = np.empty(len(self.values), dtype=np.intc)
        overlaps.name_overlaps(*self.geometry, self.pointers, members)
        return sparse.csc_array((self.values, members, self.pointers.astype(np.intc)), (len(self.atoms),) * 2)


class _Step(NamedTuple):
    """A step, whether its target solves the equations, and what to go back to."""

    code: np.ndarray
    residual: np.ndarray
    objective: float
    target: np.ndarray
    solves: bool


class _Finish:
    """One signal on its way to its exact code.

    part : the members, which are the working set W.
    code, correlation, penalty, squared_norms : of the members.
    residual : correlations of the members with what the code leaves of the signal.
    """

    def __init__(self, problem: LassoProblem, atoms: np.ndarray, code: np.ndarray) -> None:
        self.problem = problem
        self.tolerance = ROUNDING * np.abs(problem.correlations).max()
        self.n_sweeps = LEAST_SWEEPS
        self.damping = 0.0
        self._set_members(atoms, code.copy())
        self._join(self._price())

    def solve(self) -> bool:
        """Go to the optimum, and return whether it was reached."""
        step = None
        precise = False
        n_unsettled = 0
        for _ in range(MOST_ROUNDS):
            n_changes = self._sweep()
            if step is not None and self._rose_above(step):
                self._take_back(step)
                step = None
                continue
            step = None
            solved = False
            n_unsettled += 1
            if n_changes <= SETTLED * np.count_nonzero(self.code) or n_unsettled > PATIENCE:
                n_unsettled = 0
                step = self._step(precise)
                kept = np.sign(step.target) == np.sign(self.code)
                self._move(np.where(kept, step.target, 0.0))
                solved = kept.all() and step.solves and not self._rose_above(step)
                if not solved:
                    continue
                step = None
            n_members = len(self.code)
            violated = self._join(self._price())
            if solved and precise and not violated:
                return True
            precise = solved and len(self.code) == n_members
        if step is not None and self._rose_above(step):
            self._take_back(step)
        return False

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the atoms of the code, and their values."""
        support = np.flatnonzero(self.code)
        return self.part.atoms[support], self.code[support]

    def _set_members(self, atoms: np.ndarray, code: np.ndarray) -> None:
        self.part = _Part(self.problem.dictionary, atoms)
        self.code = code
        self.correlation = self.problem.correlations[0, atoms]
        self.penalty = self.problem.l1_weights[atoms]
        self.squared_norms = self.problem.squared_norms[atoms]

    def _sweep(self) -> int:
        """Descend along the coordinates, and return how many atoms came or went."""
        part = self.part
        return sum(
            overlaps.descend(
                *part.geometry, part.pointers, part.values, self.squared_norms, self.penalty,
                self.problem.positive, self.code, self.residual,
            )
            for _ in range(self.n_sweeps)
        )  # fmt: skip

    def _move(self, target: np.ndarray) -> None:
        overlaps.move(
            *self.part.geometry, self.part.pointers, self.part.values, self.code, target, self.residual
        )

    def _objective(self) -> float:
        """Return how much the objective differs from that of the zero code."""
        return np.abs(self.code) @ self.penalty - 0.5 * self.code @ (self.correlation + self.residual)

    def _rose_above(self, step: _Step) -> bool:
        return not self._objective() <= step.objective + ROUNDING * self.problem.energies[0]

    def _step(self, precise: bool) -> _Step:
        """Return the step to the solution of the optimality equations on the support."""
        support = np.flatnonzero(self.code)
        part = _Part(self.problem.dictionary, self.part.atoms[support])
        squared_norms = self.squared_norms[support]
        signed_penalty = np.sign(self.code[support]) * self.penalty[support]
        target = np.zeros(len(self.code))
        solves = True
        if precise:
            aim = self.correlation[support] - signed_penalty
            target[support], defect = _solution(
                part.gram(), aim, squared_norms, self.code[support], self.tolerance
            )
            solves = defect <= DEPENDENT * self.tolerance
        else:
            solution, defect = self.code[support], self.residual[support] - signed_penalty
            overlaps.conjugate_gradients(
                *part.geometry, part.pointers, part.values, squared_norms, self.damping, ROUGH_SHARE,
                ROUGH_STEPS, solution, defect, *np.empty((2, len(support))),
            )  # fmt: skip
            target[support] = solution
        return _Step(self.code.copy(), self.residual.copy(), self._objective(), target, solves)

    def _take_back(self, step: _Step) -> None:
        """Go only so far towards the target that one atom vanishes, or the first together."""
        self.n_sweeps = min(2 * self.n_sweeps, MOST_SWEEPS)
        self.damping = min(max(GROWTH * self.damping, LEAST_ROUGH_DAMPING), MOST_ROUGH_DAMPING)
        self.code, self.residual = step.code, step.residual
        crossing = np.flatnonzero((step.code != 0.0) & (np.sign(step.code) != np.sign(step.target)))
        if len(crossing):
            shares = step.code[crossing] / (step.code[crossing] - step.target[crossing])
            reached = step.code + shares.min() * (step.target - step.code)
            reached[crossing[shares == shares.min()]] = 0.0
            self._move(reached)

    def _price(self) -> np.ndarray:
        """Return the correlations of all atoms with what the code leaves of the signal."""
        atoms, values = self.support()
        image = self.problem.reconstruct(_row(values, atoms, self.problem.n_atoms))
        return self.problem.correlate(self.problem.signals - image)[0]

    def _join(self, correlations: np.ndarray) -> bool:
        """Have violators join W; return whether there were any, in W or outside."""
        atoms = self.part.atoms
        excess = (correlations if self.problem.positive else np.abs(correlations)) - self.problem.l1_weights
        excess[atoms[self.code != 0.0]] = 0.0
        by_position = excess.reshape(self.problem.dictionary.n_positions, -1)
        least = np.maximum(JOINING * by_position.max(axis=1), self.tolerance)
        violators = np.flatnonzero(by_position > least[:, np.newaxis])
        joining = np.setdiff1d(violators, atoms, assume_unique=True)
        if len(joining):
            members = np.concatenate([atoms, joining])
            order = np.argsort(members, kind="stable")
            self._set_members(members[order], np.concatenate([self.code, np.zeros(len(joining))])[order])
        self.residual = correlations[self.part.atoms]
        return len(violators) > 0


def _solution(
    gram: sparse.csc_array, aim: np.ndarray, squared_norms: np.ndarray, start: np.ndarray, tolerance: float
) -> tuple[np.ndarray, float]:
    """Return the solution of ``gram y = aim`` to rounding, and the largest defect left.

    Where there are many, it is one near the start.  Where there is none, since atoms depend on each other, it
    lies downhill from the start, and far away in the direction in which the penalty of the same image falls.
    """
    solution, defect = start, aim - gram @ start
    largest = np.abs(defect).max(initial=0.0)
    if largest == 0.0:
        return solution, largest
    factor = splu(
        sparse.csc_array(gram + sparse.diags_array(DAMPING * squared_norms)),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    for refinement in range(MOST_REFINEMENTS):
        refined = solution + factor.solve(defect)
        refined_defect = aim - gram @ refined
        refined_largest = np.abs(refined_defect).max()
        has_not_moved = refinement == 0 and largest > tolerance
        if not (refined_largest < 0.5 * largest or has_not_moved):
            break
        solution, defect, largest = refined, refined_defect, refined_largest
    return solution, largest

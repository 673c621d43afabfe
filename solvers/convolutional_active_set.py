"""An active-set method for the LASSO with a convolutional dictionary.

As `solvers._kernels.active_set` for arrays of atoms, but for supports of many thousands whose Gram matrix G
(the curvatures of the penalty on its diagonal) is sparse.  Rounds run in a working set W of atoms, which
holds the support S:

1.  Sweeps of coordinate descent over W.  Atoms enter and leave S by the hundred, wherever they are.
2.  Once few do, the optimality equations on S, ``G_SS y = b_S - sign lambda_S``.  If y keeps all signs, the
    code moves there.  Otherwise the atoms that would change sign are dropped, all together, and sweeps
    continue from there.  If these do not end below the objective of the step's origin, or if the penalty of y
    alone is above the objective of the zero code, the step is undone, the code moves towards y until the
    first atom vanishes, and from then on there are more sweeps, and steps are damped.
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

from solvers._kernels import sparse_gram
from solvers._kernels.batch import CompressedRows
from solvers._kernels.sparse_gram import GramPart
from solvers.convolution import ConvolutionalDictionary
from solvers.dictionaries import inverse_norms
from solvers.problem import LassoProblem
from solvers.result import compressed_rows

# All numbers here: `python -m tests.benchmarks convolution`, and docs/convolution.md for what they gain.
# Violations below this share of the largest correlation, both in units of the norms of their atoms, and
# differences of objectives below this share of 1/2 ||signal||^2, are rounding: some hundred times 1e-16.
ROUNDING = 1e-13
# Most rounds for one signal.  Photographs take a dozen, nearly dependent kernels forty.
MOST_ROUNDS = 200
# Sweeps over W in a round: at first, and at most, where steps were undone.
LEAST_SWEEPS = 20
MOST_SWEEPS = 320
# The equations are solved when fewer than this part of the support entered or left in a round, or when more
# did for so many rounds.
FEW_CHANGES = 0.1
PATIENCE = 5
# Violators that join W: those above this share of the worst violation at their position.
JOINING = 0.5
# Conjugate gradients end at this share of the defect, or after so many steps.
ROUGH_SHARE = 1e-2
ROUGH_STEPS = 200
# The share of the diagonal that is added to it in the factorisation, so that atoms may depend on each other;
# of an error along an eigenvalue, each refinement leaves share / (share + eigenvalue).
DAMPING = 1e-10
# Damping of rough steps, as a share of the diagonal: zero at first, and GROWTH times more with every step
# that is undone.  Without it, nearly dependent atoms send the target far away, and every step ends at the
# first atom that vanishes.
LEAST_ROUGH_DAMPING, MOST_ROUGH_DAMPING = 1e-6, 1e-2
GROWTH = 10.0
# Refinements of a factorisation, which each gain some digits; two or three are usual.
MOST_REFINEMENTS = 10
# The equations of atoms that depend on each other may have no solution.  Their defect is then more than so
# many times what counts as rounding.
DEPENDENT = 1e3


def optimal_codes(
    problem: LassoProblem,
    diagonal: np.ndarray,
    signals: np.ndarray,
    start: CompressedRows,
    max_rounds: int | None,
) -> tuple[sparse.csr_array, np.ndarray, np.ndarray, np.ndarray]:
    """Return the optimal codes of some signals, their corrections and rounds, and whether each ended.

    Parameters
    ----------
    problem : LassoProblem
        The problem; its dictionary is convolutional.
    diagonal : ndarray, shape (n_atoms,)
        ||d_i||^2 plus the curvature of the penalty.
    signals : ndarray of int, shape (n_solved,)
        Which signals.
    start : CompressedRows
        Where each signal of the problem starts: atoms and their currents.
    max_rounds : int or None
        Most rounds for each signal; None means `MOST_ROUNDS`.
    """
    atoms_of, values_of = [], []
    n_corrections, n_rounds = np.zeros((2, len(signals)), dtype=np.int64)
    ended = np.zeros(len(signals), dtype=np.bool_)
    for k, signal in enumerate(signals):
        single = problem.subset([signal])
        entries = slice(start.pointers[signal], start.pointers[signal + 1])
        # Of one type with the atoms that join, so that kernels are compiled once.
        started, currents = start.columns[entries].astype(np.int64), start.values[entries]
        # An atom of norm zero is never a member.
        usable = problem.squared_norms[started] > 0.0
        started, currents = started[usable], currents[usable]
        search = ActiveSetSearch(
            single, diagonal, started, _best_multiple(single, diagonal, started, currents)
        )
        ended[k] = search.run(MOST_ROUNDS if max_rounds is None else max_rounds)
        atoms, values = search.support()
        _, in_start, in_code = np.intersect1d(started, atoms, assume_unique=True, return_indices=True)
        n_shared = np.count_nonzero(np.sign(currents[in_start]) == np.sign(values[in_code]))
        n_corrections[k] = len(usable) + len(atoms) - 2 * n_shared
        n_rounds[k] = search.n_rounds
        atoms_of.append(atoms)
        values_of.append(values)
    pointers = np.cumsum([0] + [len(atoms) for atoms in atoms_of], dtype=np.int32)
    atoms = np.concatenate(atoms_of).astype(np.int32)
    shape = (len(signals), problem.n_atoms)
    codes = compressed_rows(shape, CompressedRows(pointers, atoms, np.concatenate(values_of)))
    return codes, n_corrections, n_rounds, ended


def _best_multiple(
    problem: LassoProblem, diagonal: np.ndarray, atoms: np.ndarray, currents: np.ndarray
) -> np.ndarray:
    """Return the code in the proportions of some currents that has the least objective, or zero."""
    if not len(atoms):
        return np.zeros(0)
    direction = currents / np.abs(currents).max() / diagonal[atoms]
    image = problem.reconstruct(_row(direction, atoms, problem.n_atoms))[0]
    slope = problem.correlations[0, atoms] @ direction - problem.l1_weights[atoms] @ np.abs(direction)
    curvature = image @ image + problem.curvatures[atoms] @ direction**2
    return slope / curvature * direction if slope > 0.0 else np.zeros(len(atoms))


def _row(values: np.ndarray, atoms: np.ndarray, n_atoms: int) -> sparse.csr_array:
    pointers = np.array([0, len(atoms)], dtype=np.int32)
    return compressed_rows((1, n_atoms), CompressedRows(pointers, atoms.astype(np.int32, copy=False), values))


def gram_part(dictionary: ConvolutionalDictionary, atoms: np.ndarray, curvatures: np.ndarray) -> GramPart:
    """Return the part of the Gram matrix of some atoms, plus their curvatures on its diagonal.

    Parameters
    ----------
    dictionary : ConvolutionalDictionary
        The dictionary.
    atoms : ndarray of int, shape (n_members,)
        Which atoms, in order.
    curvatures : ndarray, shape (n_members,)
        What is added to the diagonal.
    """
    stencil = dictionary.stencil()
    first = np.searchsorted(atoms, dictionary.n_kernels * np.arange(dictionary.n_positions + 1))
    pointers = np.empty(len(atoms) + 1, dtype=np.int64)
    reach = (stencil.shape[1] // 2, stencil.shape[2] // 2)
    part = GramPart(first, *dictionary.grid_shape, *reach, pointers, np.empty(0))
    sparse_gram.count_entries(part)
    part = part._replace(values=np.empty(pointers[-1]))
    sparse_gram.fill_entries(part, atoms % dictionary.n_kernels, stencil, curvatures)
    return part


def as_columns(part: GramPart) -> sparse.csc_array:
    """Return a part of the Gram matrix for SuperLU, which takes its own type of index.

    Parameters
    ----------
    part : GramPart
        The part.
    """
    members = np.empty(len(part.values), dtype=np.intc)
    sparse_gram.name_entries(part, members)
    size = len(part.pointers) - 1
    return sparse.csc_array((part.values, members, part.pointers.astype(np.intc)), (size, size))


class _Step(NamedTuple):
    """A step: its origin, its target, and whether the target solves the equations."""

    code: np.ndarray
    residual: np.ndarray
    objective: float
    target: np.ndarray
    solves: bool


class ActiveSetSearch:
    """The method for one signal, from a code of some atoms.

    Parameters
    ----------
    problem : LassoProblem
        The problem of this signal alone.
    diagonal : ndarray, shape (n_atoms,)
        ||d_i||^2 plus the curvature of the penalty.
    atoms : ndarray of int, shape (n_started,)
        The first members of the working set W, in order.
    code : ndarray, shape (n_started,)
        Their coefficients.

    Attributes
    ----------
    n_rounds : int
        Rounds so far.
    """

    # Of the members, in order: their numbers `atoms`, their `part` of the Gram matrix, their `code`,
    # `correlation`, `l1_weights`, `curvatures` and `diagonal`, and the `residual` of their equations.

    def __init__(
        self, problem: LassoProblem, diagonal: np.ndarray, atoms: np.ndarray, code: np.ndarray
    ) -> None:
        self.problem = problem
        self._all_curvatures = problem.curvatures
        self._all_l1_weights = problem.l1_weights
        self._all_diagonal = diagonal
        self.n_rounds = 0
        self._all_inverse_norms = inverse_norms(problem.squared_norms)
        self.tolerance = ROUNDING * (np.abs(problem.correlations) * self._all_inverse_norms).max()
        self.n_sweeps = LEAST_SWEEPS
        self.damping = 0.0
        self._set_members(atoms, code.copy())
        self._join(self._correlations_with_residual())

    def run(self, max_rounds: int) -> bool:
        """Move to the optimum; return whether it was reached.

        Parameters
        ----------
        max_rounds : int
            Most rounds.
        """
        if not len(self.code):
            return True
        step = None
        precise = False
        n_changing = 0
        for _ in range(max_rounds):
            self.n_rounds += 1
            n_changes = self._sweep()
            if step is not None and not self._fell_below(step):
                self._take_back(step)
                step = None
                continue
            step = None
            solved = False
            n_changing += 1
            if n_changes <= FEW_CHANGES * np.count_nonzero(self.code) or n_changing > PATIENCE:
                n_changing = 0
                step = self._step(precise)
                kept = np.sign(step.target) == np.sign(self.code)
                target = np.where(kept, step.target, 0.0)
                if not self._is_near(target):
                    self._take_back(step)
                    step = None
                    continue
                self._move(target)
                solved = kept.all() and step.solves and not self._rose_above(step)
                if not solved:
                    continue
                step = None
            n_members = len(self.code)
            violated = self._join(self._correlations_with_residual())
            if solved and precise and not violated:
                return True
            precise = solved and len(self.code) == n_members
        if step is not None and self._rose_above(step):
            self._take_back(step)
        return False

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the atoms of the code, and their values."""
        support = np.flatnonzero(self.code)
        return self.atoms[support], self.code[support]

    def _set_members(self, atoms: np.ndarray, code: np.ndarray) -> None:
        self.atoms = atoms
        self.code = code
        self.correlation = self.problem.correlations[0, atoms]
        self.l1_weights = self._all_l1_weights[atoms]
        self.curvatures = self._all_curvatures[atoms]
        self.diagonal = self._all_diagonal[atoms]
        self.part = gram_part(self.problem.dictionary, atoms, self.curvatures)

    def _sweep(self) -> int:
        """Descend along the coordinates; return how often an atom entered or left the support."""
        return sparse_gram.descend(
            self.part, self.diagonal, self.l1_weights, self.problem.positive, self.n_sweeps, self.code,
            self.residual,
        )  # fmt: skip

    def _move(self, target: np.ndarray) -> None:
        sparse_gram.move(self.part, self.code, target, self.residual)

    def _objective(self) -> float:
        """Return how much the objective differs from that of the zero code."""
        return np.abs(self.code) @ self.l1_weights - 0.5 * self.code @ (self.correlation + self.residual)

    def _is_near(self, code: np.ndarray) -> bool:
        """Return whether the penalty of a code alone is not above the objective of the zero code.

        The codes on the way all are.  Where atoms depend on each other, targets may lie so far away that
        the residual, which is updated and not computed anew, would lose all its digits on the way there.
        """
        return bool(np.abs(code) @ self.l1_weights <= self.problem.energies[0])

    def _rose_above(self, step: _Step) -> bool:
        return not self._objective() <= step.objective + ROUNDING * self.problem.energies[0]

    def _fell_below(self, step: _Step) -> bool:
        """Return whether the objective is below that of the step's origin, by more than rounding.

        Steps from which sweeps lead back to the origin would be repeated without end.
        """
        return self._objective() < step.objective - ROUNDING * self.problem.energies[0]

    def _step(self, precise: bool) -> _Step:
        """Return the step to the solution of the optimality equations on the support."""
        support = np.flatnonzero(self.code)
        part = gram_part(self.problem.dictionary, self.atoms[support], self.curvatures[support])
        diagonal = self.diagonal[support]
        signed_penalty = np.sign(self.code[support]) * self.l1_weights[support]
        target = np.zeros(len(self.code))
        solves = True
        if precise:
            aim = self.correlation[support] - signed_penalty
            target[support], defect = _solution(
                as_columns(part),
                aim,
                diagonal,
                self._all_inverse_norms[self.atoms[support]],
                self.code[support],
                self.tolerance,
            )
            solves = defect <= DEPENDENT * self.tolerance
        else:
            solution, defect = self.code[support], self.residual[support] - signed_penalty
            direction, product = np.empty((2, len(support)))
            sparse_gram.conjugate_gradients(
                part, diagonal, self.damping, ROUGH_SHARE, ROUGH_STEPS, solution, defect, direction, product
            )
            target[support] = solution
        return _Step(self.code.copy(), self.residual.copy(), self._objective(), target, solves)

    def _take_back(self, step: _Step) -> None:
        """Return to the origin of a step, and move towards its target until the first atoms vanish."""
        self.n_sweeps = min(2 * self.n_sweeps, MOST_SWEEPS)
        self.damping = min(max(GROWTH * self.damping, LEAST_ROUGH_DAMPING), MOST_ROUGH_DAMPING)
        self.code, self.residual = step.code, step.residual
        crossing = np.flatnonzero((step.code != 0.0) & (np.sign(step.code) != np.sign(step.target)))
        if len(crossing):
            shares = step.code[crossing] / (step.code[crossing] - step.target[crossing])
            reached = step.code + shares.min() * (step.target - step.code)
            reached[crossing[shares == shares.min()]] = 0.0
            self._move(reached)

    def _correlations_with_residual(self) -> np.ndarray:
        """Return the inner products of all atoms with what the code leaves of the signal."""
        atoms, values = self.support()
        image = self.problem.reconstruct(_row(values, atoms, self.problem.n_atoms))
        return self.problem.correlate(self.problem.signals - image)[0]

    def _join(self, correlations: np.ndarray) -> bool:
        """Let violators join W; return whether there were any, in W or outside."""
        atoms = self.atoms
        excess = (correlations if self.problem.positive else np.abs(correlations)) - self._all_l1_weights
        excess *= self._all_inverse_norms
        excess[atoms[self.code != 0.0]] = 0.0
        by_position = excess.reshape(self.problem.dictionary.n_positions, -1)
        least = np.maximum(JOINING * by_position.max(axis=1), self.tolerance)
        violators = np.flatnonzero(by_position > least[:, np.newaxis])
        joining = np.setdiff1d(violators, atoms, assume_unique=True)
        if len(joining):
            members = np.concatenate([atoms, joining])
            order = np.argsort(members, kind="stable")
            self._set_members(members[order], np.concatenate([self.code, np.zeros(len(joining))])[order])
        self.residual = correlations[self.atoms] - self.curvatures * self.code
        return len(violators) > 0


def _solution(
    gram: sparse.csc_array,
    aim: np.ndarray,
    diagonal: np.ndarray,
    inverse_norms: np.ndarray,
    start: np.ndarray,
    tolerance: float,
) -> tuple[np.ndarray, float]:
    """Return the solution of ``gram y = aim`` to rounding, and the largest defect left, in units of norms.

    Where there are many, it is one near the start.  Where there is none, since atoms depend on each other, it
    lies downhill from the start, and far away in the direction in which the penalty of the same image falls.
    """
    solution, defect = start, aim - gram @ start
    largest = np.abs(defect * inverse_norms).max(initial=0.0)
    if largest == 0.0:
        return solution, largest
    factor = splu(
        sparse.csc_array(gram + sparse.diags_array(DAMPING * diagonal)),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    for refinement in range(MOST_REFINEMENTS):
        refined = solution + factor.solve(defect)
        refined_defect = aim - gram @ refined
        refined_largest = np.abs(refined_defect * inverse_norms).max()
        has_not_moved = refinement == 0 and largest > tolerance
        if not (refined_largest < 0.5 * largest or has_not_moved):
            break
        solution, defect, largest = refined, refined_defect, refined_largest
    return solution, largest

"""The active-set method for few signals and an array of atoms, without their Gram matrix.

Of the Gram matrix only the entries between members of the working set W are computed.  Three steps alternate:

1.  `solvers._kernels.active_set` solves the problem of the members.  It goes on from where it was when W was
    smaller, with the same factor.
2.  The residual r = s - a D of that code is computed from the atoms, and its correlations with atoms outside
    W: these violate their conditions where |d_i.r| > lambda_i.
3.  The worst violators join W.  Where there is none, the code is optimal.

With hundreds of features and thousands of atoms, to read all atoms once costs as much as the rest of a
round.  So correlations are bounded before they are computed.  Those of the signal s are known, and so are
those of the residual r' for which all atoms were last read.  With any numbers alpha and beta, and
delta = r - alpha s - beta r',

    |d_i.r|  <=  |alpha d_i.s + beta d_i.r'|  +  ||d_i|| ||delta||.

The alpha and beta that make delta shortest are used, and only atoms whose bound is above lambda_i are read.
"""

from __future__ import annotations

import numpy as np

from solvers._kernels.active_set import (
    ROUNDING,
    enter_kernel,
    new_scratch,
    refine_kernel,
    solve_within_kernel,
)
from solvers._kernels.batch import CompressedRows
from solvers._kernels.factor import WorkingSet, new_working_set
from solvers.gram.protocol import ActiveSets
from solvers.problem.dictionary import inverse_norms
from solvers.problem.lasso import LassoProblem, with_shared_mask

# Violators that join W together: as many as S has atoms, and at least so many.
LEAST_JOINING = 80
# Members that the first W has room for.  Memory that is never touched costs nothing, and to move it later
# costs as much as to read the atoms.
CAPACITY = 600
# If more than this share of the atoms may violate their conditions, all are read, in order.
FEW = 0.25
# A direction that is shorter than this share of its vector is rounding for the most part.
SHORT = 1e-6


def optimal_codes(
    problem: LassoProblem, signals: np.ndarray, start: CompressedRows, max_rounds: int
) -> ActiveSets:
    """Return the optimal codes of some signals.

    Shapes: signals (n_solved,).
    """
    codes = np.zeros((len(signals), problem.n_atoms))
    n_corrections, n_rounds, n_products, n_gram_products = np.zeros((4, len(signals)), dtype=np.int64)
    ended = np.zeros(len(signals), dtype=np.bool_)
    for k, signal in enumerate(signals):
        single = problem if problem.n_signals == 1 else problem.subset([signal])
        single = (with_shared_mask(single) if single.has_own_weights else single).ordinary()
        entries = slice(start.pointers[signal], start.pointers[signal + 1])
        started, currents = start.columns[entries].astype(np.int64), start.values[entries]
        search = WorkingSetSearch(single, started, currents)
        ended[k] = search.run(max_rounds)
        atoms, values = search.support()
        codes[k, atoms] = values
        n_shared = np.count_nonzero(codes[k, started] * currents > 0.0)
        n_corrections[k] = len(started) + len(atoms) - 2 * n_shared
        n_rounds[k] = search.n_rounds
        n_products[k], n_gram_products[k] = search.n_multiply_adds, search.n_gram_multiply_adds
    return ActiveSets(codes, n_corrections, n_rounds, ended, n_products, n_gram_products)


class WorkingSetSearch:
    """The method for one signal.

    Shapes: atoms (n_started,); currents (n_started,).

    Attributes
    ----------
    n_rounds, n_members : int
        Rounds so far, and members of W.
    n_readings : float
        How often the atoms were read, besides those for the correlations of the signal.
    n_multiply_adds, n_gram_multiply_adds : int
        So far, those of entries of the Gram matrix apart.
    """

    def __init__(self, problem: LassoProblem, atoms: np.ndarray, currents: np.ndarray) -> None:
        self.problem = problem
        self.n_rounds = 0
        self.n_readings = 0.0
        self._n_products = self.n_gram_multiply_adds = 0
        self._atoms = problem.atoms.matrix
        self._signal, self._correlations = problem.signals[0], problem.correlations[0]
        self._norms = np.sqrt(problem.squared_norms)
        self._inverse_norms = inverse_norms(problem.squared_norms)
        self._tolerance = ROUNDING * float((np.abs(self._correlations) * self._inverse_norms).max())

        capacity = min(problem.n_atoms, CAPACITY)
        self._work, self._scratch = new_working_set(capacity), new_scratch(capacity)
        self._vectors = np.empty((capacity, problem.n_features))
        self._is_member = np.zeros(problem.n_atoms, dtype=np.bool_)
        self.n_members = self._size = 0
        # Up to two orthonormal signals whose correlations with all atoms are known; the first is the signal.
        self._basis, self._known = np.empty((2, problem.n_features)), np.empty((2, problem.n_atoms))
        self._n_known = 0
        self._remember(self._signal, self._correlations)

        # More atoms than features depend on each other.  An atom of norm zero is never a member.
        relative = np.abs(currents) * self._inverse_norms[atoms]
        largest = np.argsort(-relative, kind="stable")[: problem.n_features]
        largest = largest[relative[largest] > 0.0]
        self._join(atoms[largest])
        self._size = enter_kernel(
            self._work, 0, np.arange(len(largest)), np.sign(currents[largest]), len(largest)
        )  # fmt: skip

    def run(self, max_rounds: int) -> bool:
        """Move to the optimum; return whether it was reached."""
        at_start = self.n_members > 0
        if not at_start:
            self._join(self._worst(np.arange(self.problem.n_atoms), self._correlations))
        while self.n_members:
            self._size, rounds_left, solved = solve_within_kernel(
                self._work, self.n_members, self._size, self.problem.positive, self._tolerance,
                max_rounds - self.n_rounds, at_start, self._scratch,
            )  # fmt: skip
            self.n_rounds = max_rounds - rounds_left
            if not solved:
                return False
            at_start = False
            joining = self._violators()
            if not len(joining):
                refine_kernel(self._work, self._size)
                break
            self._join(joining)
        return True

    @property
    def n_multiply_adds(self) -> int:
        """Multiply-adds so far, but for entries of the Gram matrix."""
        return self._n_products + int(self._work.n_multiply_adds[0])

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the atoms of the code, and their values."""
        active = self._work.active[: self._size]
        return self._work.atoms[active], self._work.sign[: self._size] * self._work.value[: self._size]

    def _join(self, atoms: np.ndarray) -> None:
        """Make atoms the next members of W."""
        if not len(atoms):
            return
        before, after = self.n_members, self.n_members + len(atoms)
        if after > len(self._vectors):
            self._work = enlarged(self._work, before, self._size, 2 * after)
            self._scratch = new_scratch(2 * after)
            vectors, self._vectors = self._vectors, np.empty((2 * after, self.problem.n_features))
            self._vectors[:before] = vectors[:before]
        work = self._work
        self._vectors[before:after] = self.problem.atoms.take(atoms)
        self.n_gram_multiply_adds += (after - before) * after * self.problem.n_features
        products = self._vectors[before:after] @ self._vectors[:after].T
        work.gram[before:after, :after] = products
        work.gram[:before, before:after] = products[:, :before].T
        places = np.arange(before, after)
        work.gram[places, places] += self.problem.curvatures[atoms]
        work.atoms[before:after] = atoms
        work.correlation[before:after] = self._correlations[atoms]
        work.l1_weight[before:after] = self.problem.l1_weights[atoms]
        work.inverse_norm[before:after] = self._inverse_norms[atoms]
        self._is_member[atoms] = True
        self.n_members = after

    def _violators(self) -> np.ndarray:
        """Return the atoms outside W that violate their conditions most."""
        active = self._work.active[: self._size]
        code = self._work.sign[: self._size] * self._work.value[: self._size]
        residual = self._signal - code @ self._vectors[active]
        self._n_products += len(active) * self.problem.n_features + self._n_known * self.problem.n_atoms
        along, rest = self._split(residual)
        bound = along @ self._known[: self._n_known]
        if not self.problem.positive:
            np.abs(bound, out=bound)
        bound += np.linalg.norm(rest) * self._norms
        candidates = np.flatnonzero((bound > self.problem.l1_weights) & ~self._is_member)
        self.n_readings += min(len(candidates) / self.problem.n_atoms, 1.0)
        reads_few = len(candidates) <= FEW * self.problem.n_atoms
        n_read = len(candidates) if reads_few else self.problem.n_atoms
        self._n_products += n_read * self.problem.n_features
        if reads_few:
            return self._worst(candidates, self._atoms[candidates] @ residual)
        correlations = self._atoms @ residual
        self._remember(residual, correlations)
        return self._worst(candidates, correlations[candidates])

    def _worst(self, atoms: np.ndarray, correlations: np.ndarray) -> np.ndarray:
        """Return those of some atoms that join W, given their correlations with the residual."""
        excess = correlations if self.problem.positive else np.abs(correlations)
        excess = (excess - self.problem.l1_weights[atoms]) * self._inverse_norms[atoms]
        violators = np.flatnonzero(excess > self._tolerance)
        n_joining = max(LEAST_JOINING, self._size)
        if len(violators) > n_joining:
            chosen = np.argpartition(excess[violators], -n_joining)[-n_joining:]
            violators = violators[np.sort(chosen)]
        return atoms[violators]

    def _split(self, signal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a signal as its coordinates in the basis and the rest."""
        basis = self._basis[: self._n_known]
        self._n_products += 2 * basis.size
        along = basis @ signal
        return along, signal - along @ basis

    def _remember(self, signal: np.ndarray, correlations: np.ndarray) -> None:
        """Put a signal whose correlations are known into the basis, in the place of the second."""
        self._n_known = place = min(self._n_known, 1)
        self._n_products += place * len(correlations)
        along, rest = self._split(signal)
        length = np.linalg.norm(rest)
        if length > SHORT * np.linalg.norm(signal):
            np.divide(rest, length, out=self._basis[place])
            np.divide(correlations - along @ self._known[:place], length, out=self._known[place])
            self._n_known += 1


def enlarged(work: WorkingSet, n_members: int, size: int, capacity: int) -> WorkingSet:
    """Return a copy with room for `capacity` members; what is not used is not touched."""
    new = new_working_set(capacity)
    for name in ("atoms", "correlation", "l1_weight", "inverse_norm"):
        getattr(new, name)[:n_members] = getattr(work, name)[:n_members]
    for name in ("active", "sign", "image", "value"):
        getattr(new, name)[:size] = getattr(work, name)[:size]
    new.gram[:n_members, :n_members] = work.gram[:n_members, :n_members]
    new.factor[:size, :size] = work.factor[:size, :size]
    new.n_multiply_adds[0] = work.n_multiply_adds[0]
    return new

"""The active-set method for many signals and many atoms, without their Gram matrix.

All that is large is one product of matrices a round: of the residuals r = s - a D of all signals that are not
done with the dictionary, in single precision (`solvers.problem.screening`).  It lists, for each signal, the
atoms that its residual pulls most, and bounds what it pulls all others.  Then, signal by signal:

1.  `solvers._kernels.active_set` solves the problem of the support and of listed atoms that violate their
    conditions, with the Gram matrix of these few; correlations of listed atoms are computed in double
    precision, until none of them violates its condition.
2.  The signal takes part in the next product, until no atom violates its condition.

After two products, a product is that of certificates (`solvers.certificate.compiled.certify_and_list`): it
certifies the codes, and what it lists says whether there is anything left to do.

Before that, the equations of the support are solved once more with its atoms in order, so that the bits of a
code depend on its support alone, and not on what other signals were there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from solvers._kernels.active_set import (
    ROUNDING,
    enter_kernel,
    new_scratch,
    refine_kernel,
    solve_within_kernel,
)
from solvers._kernels.batch import CompressedRows
from solvers._kernels.factor import new_working_set
from solvers.certificate.compiled import certify_and_list
from solvers.certificate.optimality import Optimality
from solvers.gram.protocol import ActiveSets
from solvers.gram.working_set import enlarged
from solvers.problem.dictionary import inverse_norms
from solvers.problem.lasso import LassoProblem
from solvers.problem.matrix import VALUES_PER_BLOCK, UnitAtoms
from solvers.problem.screening import Largest, largest_ratios, norms_of

# Atoms listed for each signal beside its support, and those of them that join the support together, at least.
# Measured by `python -m tests.benchmarks 65,536`.
LISTED = 128
LEAST_JOINING = 60
# Members that there is room for at first: for more, it is made anew.
CAPACITY = 256
# Products before the first that serves certificates, too: codes move far until then.
PLAIN = 2


def bytes_per_signal(n_features: int) -> int:
    """Return what a signal takes while it is solved, at most: residuals, products and lists."""
    return 8 * (8 * n_features + 8 * LISTED) + 4 * VALUES_PER_BLOCK // n_features


def optimal_codes(
    problem: LassoProblem, unit_atoms: UnitAtoms, signals: np.ndarray, start: CompressedRows, max_rounds: int
) -> ActiveSets:
    """Return the optimal codes of some signals.

    Shapes: signals (n_solved,).
    """
    members = Members(problem)
    searches = []
    for signal in signals:
        entries = slice(start.pointers[signal], start.pointers[signal + 1])
        search = Search(members, signal, max_rounds)
        search.start(start.columns[entries].astype(np.int64), start.values[entries])
        searches.append(search)
    factors = problem.atoms.norms / problem.l1_weights
    figures = {name: np.empty(len(searches)) for name in ("objective", "duality_gap", "kkt_violation")}
    n_plain = PLAIN if not len(start.values) else 1
    pending, all_are_done = np.arange(len(searches)), False
    while len(pending):
        moving = [searches[place] for place in pending if not searches[place].is_done]
        if moving and n_plain:
            n_plain -= 1
            pulls = np.stack([search.pull for search in moving])
            n_listed = max(len(search.atoms) + search.n_listed for search in moving)
            largest = largest_ratios(unit_atoms, factors, pulls, n_listed, positive=problem.positive)
            for k, search in enumerate(moving):
                search.advance(largest, k)
            continue
        for place in pending:
            searches[place].settle()
        which = signals[pending]
        part = problem if len(which) == problem.n_signals else problem.subset(which)
        n_listed = max(searches[place].n_listed for place in pending)
        codes = _codes([searches[place] for place in pending], problem.n_atoms)
        optimality, largest = certify_and_list(part, codes, n_listed)
        left = []
        for k, place in enumerate(pending):
            search = searches[place]
            if not search.is_done and not search.advance(largest, k):
                left.append(place)
                continue
            for name, values in figures.items():
                values[place] = getattr(optimality, name)[k]
        all_are_done = not left and len(pending) == len(searches)
        pending = np.array(left, dtype=np.int64)
    return ActiveSets(
        codes if all_are_done else _codes(searches, problem.n_atoms),
        np.array([search.n_corrections for search in searches]),
        np.array([search.n_rounds for search in searches]),
        np.array([search.ended for search in searches]),
        np.array([search.n_multiply_adds for search in searches]),
        np.array([search.n_gram_multiply_adds for search in searches]),
        Optimality(**figures),
    )


def _codes(searches: Sequence[Search], n_atoms: int) -> sparse.csr_array:
    """Return the codes of some searches, whose atoms are in order."""
    pointers = np.cumsum([0, *(len(search.atoms) for search in searches)])
    atoms = np.concatenate([search.atoms for search in searches])
    values = np.concatenate([search.code for search in searches])
    return sparse.csr_array((values, atoms, pointers), (len(searches), n_atoms))


class Members:
    """The working set W of one signal after the other: its atoms, and their part of the problem."""

    def __init__(self, problem: LassoProblem) -> None:
        self.problem = problem
        self.array = problem.atoms.array
        self.signals = problem.dense_signals()
        self.l1_weights, self.curvatures = problem.l1_weights, problem.curvatures
        self.inverse_norms = inverse_norms(problem.squared_norms)
        weights = problem.feature_weights
        self.root_weights = None if weights is None else np.sqrt(weights.astype(np.float64))
        self._is_active = np.zeros(problem.n_atoms, dtype=np.bool_)  # False between two uses
        self.work, self.scratch = new_working_set(CAPACITY), new_scratch(CAPACITY)
        self.rows = np.empty((CAPACITY, problem.n_features))

    def rows_of(self, atoms: np.ndarray, roots: np.ndarray | None) -> np.ndarray:
        """Return atoms times the roots of weights of features."""
        rows = self.array[atoms]
        return rows if roots is None else rows * roots

    def among(self, atoms: np.ndarray, support: np.ndarray) -> np.ndarray:
        """Return which atoms are in a support."""
        self._is_active[support] = True
        found = self._is_active[atoms]
        self._is_active[support] = False
        return found

    def join(self, before: int, size: int, atoms: np.ndarray, rows: np.ndarray, signal: np.ndarray) -> int:
        """Make atoms members, behind those that are, of which `size` are in S; return how many there are."""
        after = before + len(atoms)
        if after > len(self.rows):
            self.work, self.scratch = enlarged(self.work, before, size, 2 * after), new_scratch(2 * after)
            old_rows, self.rows = self.rows, np.empty((2 * after, self.rows.shape[1]))
            self.rows[:before] = old_rows[:before]
        work = self.work
        self.rows[before:after] = rows
        # BLAS computes half of a product of a matrix with itself.
        products = rows @ (self.rows[:after] if before else rows).T
        work.gram[before:after, :after] = products
        work.gram[:before, before:after] = products[:, :before].T
        places = np.arange(before, after)
        work.gram[places, places] += self.curvatures[atoms]
        work.atoms[before:after] = atoms
        work.correlation[before:after] = rows @ signal
        work.l1_weight[before:after] = self.l1_weights[atoms]
        work.inverse_norm[before:after] = self.inverse_norms[atoms]
        return after


class Search:
    """The method for one signal.

    Attributes
    ----------
    is_done : bool
        True if the method has come to its end.
    ended : bool
        True if no atom violates its condition by more than rounding.
    atoms, code : ndarray
        The support, and its values.
    pull : ndarray, shape (n_features,)
        The residual times the weights of features: its products with atoms are their correlations.
    n_listed : int
        Atoms that the next product has to list beside the support.
    n_multiply_adds, n_gram_multiply_adds : int
        As `ActiveSets` has them.
    """

    def __init__(self, members: Members, number: int, max_rounds: int) -> None:
        self._members = members
        self._rounds_left = self._max_rounds = max_rounds
        roots = members.root_weights
        self._roots = roots if roots is None or roots.ndim == 1 else roots[number]
        signal = members.signals[number]
        self._signal = signal if self._roots is None else self._roots * signal
        self._tolerance = ROUNDING * float(norms_of(self._signal[np.newaxis])[0])
        self._residual, self._objective = self._signal, np.inf
        self.pull = signal if self._roots is None else self._roots * self._signal
        self.atoms, self.code = np.empty(0, dtype=np.int64), np.empty(0)
        self._n_members = self._size = 0
        self._started = self.atoms, self.code
        self.n_listed, self.n_multiply_adds, self.n_gram_multiply_adds = LISTED, 0, 0
        self._is_settled = True
        # A signal of zeros has a code of zeros.
        self.is_done = self.ended = self._tolerance == 0.0

    @property
    def n_rounds(self) -> int:
        """Rounds so far."""
        return self._max_rounds - self._rounds_left

    @property
    def n_corrections(self) -> int:
        """Atoms that left or entered the support of the start."""
        atoms, currents = self._started
        _, at_start, here = np.intersect1d(atoms, self.atoms, return_indices=True)
        n_shared = np.count_nonzero(currents[at_start] * self.code[here] > 0.0)
        return len(atoms) + len(self.atoms) - 2 * int(n_shared)

    def start(self, atoms: np.ndarray, currents: np.ndarray) -> None:
        """Solve the problem of the atoms that a start names."""
        self._started = atoms, currents
        if self.is_done or not len(atoms):
            return
        # More atoms than features depend on each other.
        relative = np.abs(currents) * self._members.inverse_norms[atoms]
        largest = np.argsort(-relative, kind="stable")[: self._members.problem.n_features]
        largest = largest[relative[largest] > 0.0]
        self._is_settled = False
        self._begin(atoms[largest], np.sign(currents[largest]))
        self._solve(at_start=True)

    def advance(self, largest: Largest, k: int) -> bool:
        """Go on with the atoms that the residual pulls most; return True if there was nothing left to do."""
        members = self._members
        self.n_multiply_adds += members.array.size
        error = largest.errors[k]
        listed, bounds = largest.atoms[k, : largest.counts[k]], largest.ratios[k, : largest.counts[k]] + error
        outside = np.flatnonzero(~members.among(listed, self.atoms))
        outside = outside[np.argsort(-bounds[outside])]
        listed, n_suspects = listed[outside], np.count_nonzero(bounds[outside] >= 1.0)
        joining = self._violators(listed[:n_suspects], members.rows_of(listed[:n_suspects], self._roots))
        if not len(joining):
            # If others may violate their conditions, more come close to them than the product can tell apart.
            self.is_done = self.ended = bool(largest.others[k] + error < 1.0)
            self.n_listed *= 4
            return self.is_done
        rows, at_start, self._is_settled = members.rows_of(listed, self._roots), True, False
        self._begin(self.atoms, np.sign(self.code))
        while len(joining):
            self._n_members = members.join(
                self._n_members, self._size, listed[joining], rows[joining], self._signal
            )
            self.n_gram_multiply_adds += len(joining) * self._n_members * rows.shape[1]
            objective = self._objective
            solved = self._solve(at_start=at_start)
            at_start = False
            if not solved or not self._objective < objective:
                # The rest is rounding.
                self.is_done, self.ended = True, solved
                break
            joining = self._violators(listed, rows)
        return False

    def settle(self) -> None:
        """Solve the equations of the support once more, with its atoms in order."""
        if self._is_settled:
            return
        self._is_settled = True
        order = np.argsort(self.atoms)
        self._begin(self.atoms[order], np.sign(self.code[order]))
        self._solve(at_start=True, is_last=True)
        order = np.argsort(self.atoms)
        self.atoms, self.code = self.atoms[order], self.code[order]

    def _begin(self, atoms: np.ndarray, signs: np.ndarray) -> None:
        """Make some atoms the first members, and the support."""
        members, n_features = self._members, len(self._signal)
        rows = members.rows_of(atoms, self._roots)
        self._n_members = members.join(0, 0, atoms, rows, self._signal)
        self.n_gram_multiply_adds += len(atoms) * (len(atoms) + 1) // 2 * n_features
        members.work.n_multiply_adds[0] = 0
        self._size = enter_kernel(members.work, 0, np.arange(len(atoms)), signs, len(atoms))

    def _violators(self, atoms: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the places of those of some atoms that violate their conditions most."""
        members = self._members
        self.n_multiply_adds += rows.size
        excess = rows @ self._residual
        if not members.problem.positive:
            np.abs(excess, out=excess)
        excess -= members.l1_weights[atoms]
        excess *= members.inverse_norms[atoms]
        excess[members.among(atoms, self.atoms)] = 0.0
        violators = (excess > self._tolerance).nonzero()[0]
        n_joining = max(LEAST_JOINING, len(self.atoms))
        if len(violators) > n_joining:
            violators = violators[np.argpartition(excess[violators], -n_joining)[-n_joining:]]
        return violators

    def _solve(self, *, at_start: bool, is_last: bool = False) -> bool:
        """Solve the problem of the members; return whether that is done."""
        members, work = self._members, self._members.work
        self._size, self._rounds_left, solved = solve_within_kernel(
            work, self._n_members, self._size, members.problem.positive, self._tolerance, self._rounds_left,
            at_start, members.scratch,
        )  # fmt: skip
        if is_last and solved:
            refine_kernel(work, self._size)
        active = work.active[: self._size]
        sizes = work.value[: self._size]
        active, sizes, signs = active[sizes > 0.0], sizes[sizes > 0.0], work.sign[: self._size][sizes > 0.0]
        self.atoms, self.code = work.atoms[active], signs * sizes
        self._residual = self._signal - self.code @ members.rows[active]
        self.pull = self._residual if self._roots is None else self._roots * self._residual
        penalties = members.l1_weights[self.atoms] + 0.5 * members.curvatures[self.atoms] * sizes
        self._objective = 0.5 * float(self._residual @ self._residual) + float(penalties @ sizes)
        self.n_multiply_adds += int(work.n_multiply_adds[0]) + self.code.size * len(self._signal)
        work.n_multiply_adds[0] = 0
        return bool(solved)

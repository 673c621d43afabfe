"""Two ways to find the atoms that violate their conditions, without a Gram matrix.

**Few signals**, one by one. With hundreds of features and thousands of atoms, to read all atoms once costs
as much as the rest of a round. So correlations are bounded before they are computed. The correlations of
the signal s are known, and so are those of the residual r' for which all atoms were last read. With any
numbers alpha and beta, and delta = r - alpha s - beta r',

    |d_i.r|  <=  |alpha d_i.s + beta d_i.r'|  +  ||d_i|| ||delta||.

The alpha and beta that make delta shortest are used, and only atoms whose bound is above lambda_i are read.

**Many signals** share one product of matrices a round: of the residuals of all signals that are not done
with the dictionary, in single precision (`solvers.problem.screening`). It lists, for each signal, the atoms
that its residual pulls most, and bounds what it pulls all others. Correlations of listed atoms are computed
in double precision, and violators join, until none of them violates its condition. Then the signal takes
part in the next product, until no atom violates its condition. After two products, a product also gives
certificates (`solvers.certificate.compiled.certify_and_list`). Before that, the equations of the support
are solved once more with its atoms in order, so that the bits of a code depend on its support alone, and
not on the other signals.
"""

from __future__ import annotations

import numpy as np

from solvers._kernels.active_set import ROUNDING
from solvers._kernels.batch import CompressedRows
from solvers.certificate.compiled import certify_and_list
from solvers.certificate.optimality import Optimality
from solvers.gram.working_set import Members, Search, codes_of, results_of
from solvers.problem.lasso import LassoProblem, with_shared_mask
from solvers.problem.matrix import VALUES_PER_BLOCK, UnitAtoms
from solvers.problem.screening import Largest, largest_ratios, norms_of
from solvers.results.codes import Codes

# Violators that join W together, at least, of few signals and of many.
LEAST_JOINING, LEAST_JOINING_OF_LISTED = 80, 60
# Members that there is room for at first, for a signal alone and for many after each other.  Memory that is
# never touched costs nothing, and to move it later costs as much as to read the atoms.
CAPACITY, CAPACITY_OF_MANY = 600, 256
# If more than this share of the atoms may violate their conditions, all are read, in order.
FEW = 0.25
# A direction that is shorter than this share of its vector is rounding for the most part.
SHORT = 1e-6
# Atoms listed for each signal beside its support.  Measured by `python -m tests.benchmarks 65,536`.
LISTED = 128
# Products before the first that serves certificates, too: codes move far until then.
PLAIN = 2


def codes_of_few(problem: LassoProblem, signals: np.ndarray, start: CompressedRows, max_rounds: int) -> Codes:
    """Return the optimal codes of some signals, one by one."""
    searches = []
    for signal in signals:
        single = problem if problem.n_signals == 1 else problem.subset([signal])
        single = (with_shared_mask(single) if single.has_own_weights else single).ordinary()
        members = Members(single, min(problem.n_atoms, CAPACITY))
        directions = KnownDirections(single)
        tolerance = ROUNDING * float((np.abs(single.correlations[0]) * members.inverse_norms).max())
        search = Search(members, 0, tolerance, max_rounds)
        searches.append(search)
        search.ended = search.start(start, signal)
        while search.ended and len(joining := directions.violators(search)):
            search.join(joining, search.rows_of(joining))
            search.ended = search.solve()
        search.refine(search.ended)
    return results_of(searches)


class KnownDirections:
    """Up to two orthonormal signals whose correlations with all atoms are known; the first is the signal."""

    def __init__(self, problem: LassoProblem) -> None:
        self._problem, self._atoms = problem, problem.atoms.matrix
        self._norms = np.sqrt(problem.atoms.squared_norms)
        self._basis, self._known = np.empty((2, problem.n_features)), np.empty((2, problem.n_atoms))
        self._n_known = 0
        self._remember(problem.signals[0], problem.correlations[0])

    def violators(self, search: Search) -> np.ndarray:
        """Return the atoms outside W that violate their conditions most."""
        problem, n_atoms = self._problem, self._problem.n_atoms
        if not search.n_members:
            return search.violators(np.arange(n_atoms), problem.correlations[0], LEAST_JOINING)
        residual = search.residual
        along, rest = self._split(residual)
        bound = along @ self._known[: self._n_known]
        bound = problem.penalty.reach(bound) + np.linalg.norm(rest) * self._norms
        candidates = np.flatnonzero(bound > problem.l1_weights)
        members = search.members.work.atoms[: search.n_members]
        candidates = candidates[~search.members.among(candidates, members)]
        reads_few = len(candidates) <= FEW * n_atoms
        search.n_multiply_adds += self._n_known * (2 * len(residual) + n_atoms)
        search.n_multiply_adds += (len(candidates) if reads_few else n_atoms) * len(residual)
        if reads_few:
            correlations = self._atoms[candidates] @ residual
        else:
            correlations = self._atoms @ residual
            self._remember(residual, correlations)
            search.n_multiply_adds += n_atoms
            correlations = correlations[candidates]
        return candidates[search.violators(candidates, correlations, LEAST_JOINING)]

    def _split(self, signal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a signal as its coordinates in the basis and the rest."""
        basis = self._basis[: self._n_known]
        along = basis @ signal
        return along, signal - along @ basis

    def _remember(self, signal: np.ndarray, correlations: np.ndarray) -> None:
        """Put a signal whose correlations are known into the basis, in the place of the second."""
        self._n_known = place = min(self._n_known, 1)
        along, rest = self._split(signal)
        length = np.linalg.norm(rest)
        if length > SHORT * np.linalg.norm(signal):
            np.divide(rest, length, out=self._basis[place])
            np.divide(correlations - along @ self._known[:place], length, out=self._known[place])
            self._n_known += 1


def bytes_per_signal(n_features: int) -> int:
    """Return what a signal takes while it is solved, at most: residuals, products and lists."""
    return 8 * (8 * n_features + 8 * LISTED) + 4 * VALUES_PER_BLOCK // n_features


def codes_of_many(
    problem: LassoProblem, unit_atoms: UnitAtoms, signals: np.ndarray, start: CompressedRows, max_rounds: int
) -> Codes:
    """Return the optimal codes of some signals, which share products."""
    members = Members(problem, CAPACITY_OF_MANY)
    searches = []
    for signal in signals:
        searches.append(ListedSearch(members, signal, max_rounds))
        searches[-1].start(start, signal)
    factors = problem.atoms.norms / problem.l1_weights
    figures = {name: np.empty(len(searches)) for name in ("objective", "duality_gap", "kkt_violation")}
    n_plain = PLAIN if not len(start.values) else 1
    pending = np.arange(len(searches))
    while len(pending):
        moving = [searches[place] for place in pending if not searches[place].is_done]
        if moving and n_plain:
            n_plain -= 1
            pulls = np.stack([search.weighted(search.residual) for search in moving])
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
        codes = codes_of([searches[place] for place in pending])
        optimality, largest = certify_and_list(part, codes, n_listed)
        left = []
        for k, place in enumerate(pending):
            search = searches[place]
            if not search.is_done and not search.advance(largest, k):
                left.append(place)
                continue
            for name, values in figures.items():
                values[place] = getattr(optimality, name)[k]
        pending = np.array(left, dtype=np.int64)
    return results_of(searches, Optimality(**figures))


class ListedSearch(Search):
    """The method for one of many signals, which has W for as long as its violators are listed."""

    def __init__(self, members: Members, number: int, max_rounds: int) -> None:
        super().__init__(members, number, 0.0, max_rounds)
        self._tolerance = ROUNDING * float(norms_of(self.signal[np.newaxis])[0])
        self.n_listed = LISTED  # atoms that the next product has to list beside the support
        # A signal of zeros has a code of zeros.
        self.is_done = self.ended = self._tolerance == 0.0

    def advance(self, largest: Largest, k: int) -> bool:
        """Go on with the atoms that the residual pulls most; return True if there was nothing left to do."""
        members = self.members
        self.n_multiply_adds += members.problem.atoms.array.size
        error = largest.errors[k]
        listed, bounds = largest.atoms[k, : largest.counts[k]], largest.ratios[k, : largest.counts[k]] + error
        outside = np.flatnonzero(~members.among(listed, self.atoms))
        outside = outside[np.argsort(-bounds[outside])]
        listed, n_suspects = listed[outside], np.count_nonzero(bounds[outside] >= 1.0)
        joining = self._violating(listed[:n_suspects], self.rows_of(listed[:n_suspects]))
        if not len(joining):
            # If others may violate their conditions, more come close to them than the product can tell apart.
            self.is_done = self.ended = bool(largest.others[k] + error < 1.0)
            self.n_listed *= 4
            return self.is_done
        rows = self.rows_of(listed)
        self.begin(self.atoms, np.sign(self.code))
        while len(joining):
            self.join(listed[joining], rows[joining])
            objective, solved = self.objective, self.solve()
            if not solved or not self.objective < objective:
                # The rest is rounding.
                self.is_done, self.ended = True, solved
                break
            joining = self._violating(listed, rows)
        return False

    def settle(self) -> None:
        """Solve the equations of the support once more, with its atoms in order."""
        if len(self.atoms):
            order = np.argsort(self.atoms)
            self.begin(self.atoms[order], np.sign(self.code[order]))
            self.refine(self.solve())

    def _violating(self, atoms: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the places of those of some atoms outside of the support that violate most."""
        self.n_multiply_adds += rows.size
        outside = np.flatnonzero(~self.members.among(atoms, self.atoms))
        correlations = (rows @ self.residual)[outside]
        return outside[self.violators(atoms[outside], correlations, LEAST_JOINING_OF_LISTED)]

"""The active-set method for an array of atoms, with a Gram matrix or without one.

With a Gram matrix, one kernel does everything (`codes_by_kernel`).  Without a Gram matrix, a `Search` for
each signal repeats these steps:

1.  `solvers._kernels.active_set` solves the problem of the members of the working set W, with their Gram
    matrix.  When W has grown, the kernel continues with the same factor.
2.  The residual r = s - a D of the resulting code is computed from the atoms.  The correlations of atoms with
    the residual say which atoms outside W violate their conditions, |d_i.r| > lambda_i.
3.  The worst violators join W.  If there are no violators, the code is optimal.

A few signals are solved one by one, and each of their rounds reads all atoms.

Many signals share one product of matrices per round, in single precision (`solvers.problem.largest`), in
which the residuals of all unfinished signals are multiplied by the dictionary.  For each signal, the product
lists the atoms with the largest correlations with the residual, and bounds the correlations of all other
atoms.  Correlations of listed atoms are then computed in double precision, and violators join W, until no
listed atom violates its condition.  Then the signal takes part in the next product, until no atom of the
dictionary violates its condition.  After the first two products, each product also gives certificates
(`certify_and_list`).  Before certificates are computed, the equations of each support are solved once more
with sorted atoms, so that the bits of a code depend only on its support, not on other signals.
"""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from snn._interrupts import float_errors
from snn.base import checks
from solvers import plan
from solvers._kernels.active_set import (
    ENDED,
    N_MULTIPLY_ADDS,
    N_REPORTED,
    N_ROUNDS,
    VIOLATION_ROUNDING,
    copy_members_kernel,
    enter_kernel,
    new_scratch,
    refine_kernel,
    solve_active_sets,
    solve_within_kernel,
)
from solvers._kernels.certificate import RowEntries
from solvers._kernels.factor import Terms, new_working_set
from solvers._kernels.path import solve_path
from solvers._kernels.products import GramMatrix, WeightedAtoms
from solvers.certificate.compiled import certify_and_list
from solvers.certificate.optimality import Optimality
from solvers.problem.atoms import Atoms, inverse_norms
from solvers.problem.largest import Largest, largest_ratios, norms_of
from solvers.problem.lasso import LassoProblem
from solvers.problem.matrix import UnitAtoms
from solvers.problem.parts import with_shared_mask
from solvers.results.codes import AT_LIMIT, AT_PRECISION, GRAM, METHOD, Codes, as_sparse

# Number of signals times atoms in one call of a kernel.  A call of this size takes a few milliseconds, so
# that Ctrl-C takes effect soon.
VALUES_PER_CALL = 100_000
# Largest number of rounds for one signal, per atom of the dictionary.  A search reaches the limit only if
# rounding errors make a support occur twice.
ROUNDS_PER_ATOM = 10
# Without a Gram matrix, the number of violators that join W together is the size of S, but at least this
# number.
LEAST_JOINING_WITHOUT_GRAM = 60
# Number of atoms listed for each signal, in addition to its support.  `python -m tests.benchmarks 65,536`
# measures this number.
ATOMS_LISTED = 128
# Number of shared products without certificates at the beginning, while codes still change much.
PLAIN = 2


def rounds_allowed(max_rounds: int | None, n_atoms: int) -> int:
    """Return the allowed number of rounds for one signal: `max_rounds`, or ROUNDS_PER_ATOM for each atom."""
    return ROUNDS_PER_ATOM * n_atoms if max_rounds is None else max_rounds


def codes_by_kernel(
    atoms: GramMatrix | WeightedAtoms,
    terms: Terms,
    signals: np.ndarray,
    start: RowEntries,
    max_rounds: int | None = None,
) -> Codes:
    """Return the codes of some signals by the kernel of the active-set method."""
    n_atoms = len(terms.l1_weights)
    max_rounds = rounds_allowed(max_rounds, n_atoms)
    codes = np.zeros((len(signals), n_atoms))
    report = np.zeros((len(signals), N_REPORTED), dtype=np.int64)
    step = max(1, VALUES_PER_CALL // n_atoms)
    for first in range(0, len(signals), step):
        part = slice(first, first + step)
        solve_active_sets(atoms, terms, signals[part], start, max_rounds, codes[part], report[part])
    work = {METHOD: report[:, N_MULTIPLY_ADDS]}
    return Codes(as_sparse(codes), report[:, N_ROUNDS], None, work, status=status_of(report[:, ENDED]))


def status_of(ended: np.ndarray) -> np.ndarray:
    """Return the status of searches: AT_PRECISION if a search ended, AT_LIMIT if its rounds were used up."""
    return np.where(ended, AT_PRECISION, AT_LIMIT)


def write_path(
    atoms: Atoms, terms: Terms, l1: np.ndarray, l2: np.ndarray, max_rounds: int, codes: np.ndarray,
    report: np.ndarray,
) -> None:  # fmt: skip
    """Solve a path as `solve_path` does, with the Gram matrix of only the atoms that may be active."""
    # The first members are the atoms with the largest correlations.  The path is solved for the members.
    # Then atoms that violate their conditions join, beginning at the largest penalties, and the path is
    # solved again from the first violation on.
    n_first, begin = min(atoms.shape), 0
    with float_errors(over="ignore"):  # a product with the inverse of a tiny norm may overflow
        ratios = np.abs(terms.correlations[0]) * terms.inverse_norms
    tolerance = VIOLATION_ROUNDING * ratios.max()
    members, joining = np.empty(0, dtype=np.int64), np.argpartition(ratios, -n_first)[-n_first:]
    while len(joining):
        members = np.union1d(members, joining)
        rows = atoms.take(members)
        of_members = Terms(*(checks.read_only(term.take(members, axis=-1)) for term in terms))
        penalties = [checks.read_only(term[begin:].take(members, axis=1)) for term in (l1, l2)]
        values, last = np.zeros_like(penalties[0]), np.zeros_like(report[begin:])
        solve_path(checks.read_only(rows @ rows.T), of_members, *penalties, max_rounds, values, last)
        last[:, N_MULTIPLY_ADDS] += rows.size + atoms.array.size + rows.size * len(members) // (2 * len(last))
        codes[begin:, members], report[begin:, ENDED] = values, 0
        report[begin:] += last
        excess = terms.correlations - atoms.correlate(values @ rows)
        np.abs(excess, out=excess, where=~terms.positive)
        excess -= l1[begin:]
        excess[:, members] = 0.0
        with float_errors(over="ignore"):
            is_violated = excess * terms.inverse_norms > tolerance
        counts = np.logical_or.accumulate(is_violated).sum(axis=1)
        n_right = int(np.searchsorted(counts, 1))
        n_read = max(n_right + 1, int(np.searchsorted(counts, n_first, side="right")))
        joining, begin = np.flatnonzero(is_violated[:n_read].any(axis=0)), begin + n_right


def entries_at(start: RowEntries, signal: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the atoms from which a signal starts, and their currents."""
    entries = slice(start.pointers[signal], start.pointers[signal + 1])
    # Starting and joining atoms have the same type (int64), so that kernels are compiled once.
    return start.columns[entries].astype(np.int64), start.values[entries]


class Members:
    """The working set W of atoms with their part of the problem; W is used for one signal after the other."""

    def __init__(self, problem: LassoProblem, capacity: int) -> None:
        self.problem = problem
        self.signals = problem.dense_signals()
        self.inverse_norms = inverse_norms(problem.atoms.squared_norms)
        weights = problem.feature_weights
        self.root_weights = None if weights is None else np.sqrt(weights.astype(np.float64))
        self._is_listed = np.zeros(problem.n_atoms, dtype=np.bool_)  # all False before and after each use
        self.work, self.scratch = new_working_set(capacity), new_scratch(capacity)
        self.rows = np.empty((capacity, problem.n_features))

    def among(self, atoms: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return, for each of `atoms`, whether it is among `others`."""
        self._is_listed[others] = True
        is_among = self._is_listed[atoms]
        self._is_listed[others] = False
        return is_among

    def join(self, before: int, size: int, atoms: np.ndarray, rows: np.ndarray, features: np.ndarray) -> int:
        """Append atoms to W, which has `size` members in S; return the new number of members."""
        after = before + len(atoms)
        if after > len(self.rows):
            # Room for twice as many members costs little, because `np.empty` does not touch the memory.
            old, old_rows = self.work, self.rows
            self.work, self.scratch = new_working_set(2 * after), new_scratch(2 * after)
            copy_members_kernel(self.work, old, before, size)
            self.rows = np.empty((2 * after, old_rows.shape[1]))
            self.rows[:before] = old_rows[:before]
        work, problem = self.work, self.problem
        self.rows[before:after] = rows
        # BLAS computes half of a product of a matrix with itself.
        products = rows @ (self.rows[:after] if before else rows).T
        work.gram[before:after, :after] = products
        work.gram[:before, before:after] = products[:, :before].T
        places = np.arange(before, after)
        work.gram[places, places] += problem.curvatures[atoms]
        work.atoms[before:after] = atoms
        work.correlation[before:after] = rows @ features
        work.l1_weight[before:after] = problem.l1_weights[atoms]
        work.inverse_norm[before:after] = self.inverse_norms[atoms]
        work.positive[before:after] = problem.positive[atoms]
        return after


class Search:
    """The method for one signal; the searches of many signals use the same W one after the other."""

    def __init__(self, members: Members, signal: int, max_rounds: int | None) -> None:
        self.members = members
        self.max_rounds = self.rounds_left = rounds_allowed(max_rounds, members.problem.n_atoms)
        roots = members.root_weights
        self._roots = roots if roots is None or roots.ndim == 1 else roots[signal]
        self.features = self.weighted(members.signals[signal])
        self._tolerance = VIOLATION_ROUNDING * float(norms_of(self.features[np.newaxis])[0])
        # The present code, as the atoms and the values of its entries, with its residual and its objective.
        self.atoms, self.code = np.empty(0, dtype=np.int64), np.empty(0)
        self.residual, self.objective = self.features, np.inf
        self.n_members = self._size = 0
        self._is_at_start = False
        self.n_multiply_adds = self.n_gram_multiply_adds = 0
        self.n_listed = ATOMS_LISTED  # atoms that the next product has to list in addition to the support
        # `is_done` is True when the search is over; `ended` is True if no atom then violates its condition by
        # more than rounding.  A zero signal has the zero code.
        self.is_done = self.ended = self._tolerance == 0.0

    def weighted(self, features: np.ndarray) -> np.ndarray:
        """Return values of features times the roots of the weights of features."""
        return features if self._roots is None else features * self._roots

    def rows_of(self, atoms: np.ndarray) -> np.ndarray:
        """Return atoms times the roots of weights of features."""
        return self.weighted(self.members.problem.atoms.take(atoms))

    def start(self, start: RowEntries, signal: int) -> bool:
        """Solve the problem of the atoms of a start; return whether the problem is solved."""
        atoms, currents = entries_at(start, signal)
        # Keep at most n_features atoms, because more atoms would be dependent.  An atom of norm zero is never
        # a member.
        relative = np.abs(currents) * self.members.inverse_norms[atoms]
        largest = np.argsort(-relative, kind="stable")[: len(self.features)]
        largest = largest[relative[largest] > 0.0]
        if not len(largest) or self._tolerance == 0.0:
            return True
        self.begin(atoms[largest], np.sign(currents[largest]))
        return self.solve()

    def begin(self, atoms: np.ndarray, signs: np.ndarray) -> None:
        """Make some atoms the only members of W, and the support S."""
        self.n_members = self._size = 0
        self.join(atoms, self.rows_of(atoms))
        work = self.members.work
        work.n_multiply_adds[0] = 0
        self._size = enter_kernel(work, 0, np.arange(len(atoms)), signs, len(atoms))
        self._is_at_start = True

    def join(self, atoms: np.ndarray, rows: np.ndarray) -> None:
        """Append atoms to the members of W."""
        self.n_members = self.members.join(self.n_members, self._size, atoms, rows, self.features)
        self.n_gram_multiply_adds += len(atoms) * self.n_members * len(self.features)

    def solve(self) -> bool:
        """Solve the problem of the members of W; return whether the problem is solved."""
        members = self.members
        self._size, self.rounds_left, solved = solve_within_kernel(
            members.work, self.n_members, self._size, self._tolerance, self.rounds_left, self._is_at_start,
            members.scratch,
        )  # fmt: skip
        self._is_at_start = False
        self._read()
        return bool(solved)

    def refine(self, solved: bool) -> None:
        """If `solved`, refine the solution of the equations; then sort the atoms of the code."""
        if solved:
            refine_kernel(self.members.work, self._size)
            self._read()
        order = np.argsort(self.atoms)
        self.atoms, self.code = self.atoms[order], self.code[order]

    def _read(self) -> None:
        """Read the code from W, and compute its residual and its objective."""
        members, work = self.members, self.members.work
        active, sizes, signs = (part[: self._size] for part in (work.active, work.value, work.sign))
        active, sizes, signs = active[sizes > 0.0], sizes[sizes > 0.0], signs[sizes > 0.0]
        self.atoms, self.code = work.atoms[active], signs * sizes
        self.residual = self.features - self.code @ members.rows[active]
        problem = members.problem
        penalties = problem.l1_weights[self.atoms] + 0.5 * problem.curvatures[self.atoms] * sizes
        self.objective = 0.5 * float(self.residual @ self.residual) + float(penalties @ sizes)
        self.n_multiply_adds += int(work.n_multiply_adds[0]) + self.code.size * len(self.features)
        work.n_multiply_adds[0] = 0

    def violators(self, atoms: np.ndarray | slice, correlations: np.ndarray) -> np.ndarray:
        """Return the indices of the worst violators, from correlations of atoms with the residual."""
        problem = self.members.problem
        excess = np.where(problem.positive[atoms], correlations, np.abs(correlations))
        excess -= problem.l1_weights[atoms]
        with float_errors(over="ignore"):  # a product with the inverse of a tiny norm may overflow
            excess *= self.members.inverse_norms[atoms]
        places = np.flatnonzero(excess > self._tolerance)
        n_joining = max(LEAST_JOINING_WITHOUT_GRAM, len(self.atoms))
        if len(places) > n_joining:
            places = np.sort(places[np.argpartition(excess[places], -n_joining)[-n_joining:]])
        return places

    def advance(self, largest: Largest, k: int) -> bool:
        """Continue with the atoms that correlate most with the residual; return True at the optimum."""
        members = self.members
        self.n_multiply_adds += members.problem.atoms.array.size
        error = largest.errors[k]
        listed, bounds = largest.atoms[k, : largest.counts[k]], largest.ratios[k, : largest.counts[k]] + error
        outside = np.flatnonzero(~members.among(listed, self.atoms))
        outside = outside[np.argsort(-bounds[outside])]
        listed, n_suspects = listed[outside], np.count_nonzero(bounds[outside] >= 1.0)
        joining = self._violating(listed[:n_suspects], self.rows_of(listed[:n_suspects]))
        if not len(joining):
            # If atoms that are not listed may violate their conditions, the next product lists more atoms.
            self.is_done = self.ended = bool(largest.others[k] + error < 1.0)
            self.n_listed *= 4
            return self.is_done
        rows = self.rows_of(listed)
        self.begin(self.atoms, np.sign(self.code))
        while len(joining):
            self.join(listed[joining], rows[joining])
            objective, solved = self.objective, self.solve()
            if not solved or not self.objective < objective:
                # The objective no longer falls, so that only rounding errors are left.
                self.is_done, self.ended = True, solved
                break
            joining = self._violating(listed, rows)
        return False

    def settle(self) -> None:
        """Solve the equations of the support once more, with sorted atoms."""
        if len(self.atoms):
            order = np.argsort(self.atoms)
            self.begin(self.atoms[order], np.sign(self.code[order]))
            self.refine(self.solve())

    def _violating(self, atoms: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the indices of the worst violators among listed atoms outside of the support."""
        self.n_multiply_adds += rows.size
        correlations = rows @ self.residual
        correlations[self.members.among(atoms, self.atoms)] = 0.0
        return self.violators(atoms, correlations)


def codes_of(searches: Sequence[Search]) -> sparse.csr_array:
    """Return the codes of searches, whose atoms must be sorted."""
    pointers = np.cumsum([0, *(len(search.atoms) for search in searches)])
    atoms = np.concatenate([search.atoms for search in searches])
    values = np.concatenate([search.code for search in searches])
    return sparse.csr_array((values, atoms, pointers), (len(searches), searches[0].members.problem.n_atoms))


def results_of(searches: Sequence[Search], optimality: Optimality | None = None) -> Codes:
    """Return the codes of searches, with the counts of rounds and of multiply-adds."""
    n_rounds, n_multiply_adds, n_gram_multiply_adds, ended = np.array(
        [
            (each.max_rounds - each.rounds_left, each.n_multiply_adds, each.n_gram_multiply_adds, each.ended)
            for each in searches
        ]
    ).T
    work = {METHOD: n_multiply_adds, GRAM: n_gram_multiply_adds}
    return Codes(codes_of(searches), n_rounds, optimality, work, status=status_of(ended))


def codes_of_few(
    problem: LassoProblem, signals: np.ndarray, start: RowEntries, max_rounds: int | None
) -> Codes:
    """Return the optimal codes of some signals, one by one."""
    searches = []
    for signal in signals:
        single = problem if problem.n_signals == 1 else problem.subset([signal])
        single = (with_shared_mask(single) if single.has_own_weights else single).ordinary()
        matrix = single.atoms.matrix
        search = Search(Members(single, min(problem.n_atoms, plan.COSTS.working_set)), 0, max_rounds)
        searches.append(search)
        search.ended = search.start(start, signal)
        correlations = single.correlations[0]
        while search.ended:
            if search.n_members:
                correlations = matrix @ search.residual
                search.n_multiply_adds += matrix.size
                correlations[search.members.work.atoms[: search.n_members]] = 0.0
            joining = search.violators(slice(None), correlations)
            if not len(joining):
                break
            search.join(joining, search.rows_of(joining))
            search.ended = search.solve()
        search.refine(search.ended)
    return results_of(searches)


def codes_of_many(
    problem: LassoProblem,
    unit_atoms: UnitAtoms,
    signals: np.ndarray,
    start: RowEntries,
    max_rounds: int | None,
) -> Codes:
    """Return the optimal codes of some signals, which share products of matrices."""
    members = Members(problem, plan.COSTS.working_set)
    searches = []
    for signal in signals:
        searches.append(Search(members, signal, max_rounds))
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

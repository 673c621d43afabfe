"""The LASSO solved by an active-set method."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from snn.base import checks
from solvers._kernels.active_set import N_FIGURES, N_REPORTED, solve_and_certify
from solvers._kernels.certificate import RowEntries
from solvers._kernels.factor import Terms
from solvers._kernels.path import solve_path
from solvers.certificate.compiled import penalised_atoms
from solvers.gram.atom_products import AtomProducts, SharedProducts, count_corrections, products_of
from solvers.gram.working_set import rounds_allowed, write_path
from solvers.methods.fista import Iterates, gradient_step
from solvers.methods.method import Method, documented, solve
from solvers.plan import grows_along, most_on_demand
from solvers.problem.atoms import inverse_norms
from solvers.problem.lasso import LassoProblem
from solvers.problem.penalty import Penalty
from solvers.results.codes import METHOD, BestCodes, Codes, Found, Status, as_sparse, code_of_kernel, rows_of
from solvers.results.result import SparseCodingResult, Start
from solvers.workers.blas import one_blas_thread

NO_ATOMS, NO_CURRENTS = np.empty(0, dtype=np.int32), np.empty(0)
# A code with a gap above this share of the energy is poor; the number of steps that lead elsewhere.
POOR = 1e-3
FIRST_ITERATIONS = 10


@dataclass(frozen=True)
class ActiveSet(Method):
    """Solve the optimality equations on a support, and correct it until it is right.

    With S the support (the active set), G the Gram matrix, b the correlations of the signal and gamma the
    curvatures of the penalty, a round solves::

        (G_SS + diag gamma_S) a_S = b_S - lambda_S sign(a_S)

    Atoms that would change their signs leave S; then atoms whose correlations with the residual exceed
    their penalties enter S.  Where there is none, the code is optimal to rounding, whatever `tol`, unless the
    atoms are so nearly dependent that double precision cannot solve the equations.  The method solves an
    array of atoms by a Cholesky factor that is updated, and a convolutional dictionary by coordinate descent,
    damped steps and a sparse factorisation.

    A start gives a support, signs and proportions; the optimum does not depend on it.  The result of
    `solve_spiking` gives the atoms whose neurons fired, with their average currents.

    Parameters
    ----------
    max_rounds : int, optional
        Most rounds for each signal; by default 10 for each atom, or 200 with a convolutional dictionary.

    Notes
    -----
    Where a signal does not reach `tol`, its code is the best of the method's, the start's and zero; and,
    where these are poor, the code of the method from a few steps of FISTA.

    For few signals in a large dictionary only the entries of the Gram matrix between atoms that may be active
    are computed, unless the problem has the matrix; more signals share products with all atoms while that
    takes less time than the matrix (`solvers.plan`).  The first holds for any number of signals that have
    masks of their own; a mask that all share has a Gram matrix.

    References
    ----------
    Osborne, Presnell and Turlach (2000), IMA Journal of Numerical Analysis 20, section 4: the active-set
    method for the LASSO.
    """

    max_rounds: int | None = None

    name = "active_set"
    takes = ("start", "convolution", "mixed_signs", "zero_penalties", "signed_zero_penalties", "own_weights")
    together = "always"
    steps = "rounds"
    usual_tol = 1e-6
    finest_tol = 1e-10

    def __post_init__(self) -> None:
        if self.max_rounds is not None:
            checks.positive_integer("max_rounds", self.max_rounds)

    def reason(self, status: Status) -> str:
        """Return in words why signals missed `tol`."""
        return "within its rounds" if status == Status.AT_LIMIT else super().reason(status)

    def prepare(self, problem: LassoProblem) -> AtomProducts:
        """Return the Gram matrix, or the products in its place."""
        return products_of(problem, on_demand=True, most_signals=most_on_demand(problem.n_atoms))

    def batches(self, problem: LassoProblem, prepared: AtomProducts, n_workers: int) -> list[slice]:
        """Return the signals that are solved together: those that share products, if any do."""
        if isinstance(prepared, SharedProducts):
            return prepared.batches(problem, n_workers)
        return super().batches(problem, prepared, n_workers)

    def along(self, problem: LassoProblem, penalties: Sequence[Penalty]) -> Codes | None:
        """Return codes at each penalty from one call of a kernel for each signal."""
        n_atoms, shape = problem.n_atoms, (problem.n_signals, len(penalties))
        # Read-only, as all else of a problem: `solve_path` is compiled once.
        l1 = checks.read_only(np.stack([penalty.l1 for penalty in penalties]))
        l2 = checks.read_only(np.stack([penalty.l2 for penalty in penalties]))
        codes, report = np.zeros((*shape, n_atoms)), np.zeros((*shape, N_REPORTED), dtype=np.int64)
        norms = checks.read_only(inverse_norms(problem.seen_atoms.squared_norms))
        max_rounds = rounds_allowed(self.max_rounds, n_atoms)
        for k in range(problem.n_signals):
            terms = Terms(problem.correlations[k : k + 1], l1[0], l2[0], norms, problem.positive)
            if self.max_rounds is None and grows_along(problem, len(penalties) * problem.n_signals):
                write_path(problem.atoms, terms, l1, l2, max_rounds, codes[k], report[k])
            else:
                solve_path(problem.gram, terms, l1, l2, max_rounds, codes[k], report[k])
        changes = np.abs(np.diff(np.sign(codes), axis=1, prepend=0.0)).sum(axis=2, dtype=np.int64)
        n_rounds, _, n_multiply_adds = report.transpose(2, 1, 0).reshape(N_REPORTED, -1)
        values = as_sparse(codes.swapaxes(0, 1).reshape(-1, n_atoms))
        return Codes(values, n_rounds, None, {METHOD: n_multiply_adds}, {"n_corrections": changes.T.ravel()})

    def search(self, best: BestCodes, prepared: AtomProducts) -> Iterator[Found]:
        """Yield optimal codes; where rounding leads astray, also those from other starts."""
        problem, signals = best.problem, best.active
        starts = _currents(problem, best.start)
        yield signals, prepared.optimal_codes(problem, signals, starts, self.max_rounds)
        # On a support that is close to singular the equations may lead astray.
        best.fall_back()
        is_poor = ~(best.gaps[best.active] <= POOR * problem.energies[best.active])
        if self.max_rounds is None and problem.atoms.is_matrix:
            # One by one: steps of FISTA are rounded differently beside others.
            for signals in best.active[is_poor, np.newaxis]:
                yield from self._from_elsewhere(best, prepared, signals)

    def _from_elsewhere(
        self, best: BestCodes, prepared: AtomProducts, signals: np.ndarray
    ) -> Iterator[Found]:
        """Yield the codes of one signal from a few steps of FISTA: another support may not lead astray."""
        part = best.problem.subset(signals)
        step = gradient_step(part)
        iterates = Iterates(part, step, np.zeros((1, part.n_atoms)))
        for _ in range(FIRST_ITERATIONS):
            iterates.advance()
        first = Codes(as_sparse(iterates.codes / step.norms), np.zeros(1, dtype=np.int64))
        first.work[METHOD] = iterates.n_products
        before = _currents(part, None if best.start is None else best.start.at(signals))
        for found in (first, prepared.optimal_codes(part, np.arange(1), _currents(part, first))):
            found.info["n_corrections"] = count_corrections(before, np.arange(1), found.values)
            yield signals, found

    def solve_alone(self, problem: LassoProblem, start: Codes | None, tol: float) -> Codes | None:
        """Return the code of a single signal by one call of a kernel; None if it misses `tol`."""
        # All that is left to BLAS.
        with nullcontext() if problem.has_gram and "correlations" in vars(problem) else one_blas_thread():
            gram, correlations = problem.gram, problem.correlations
        currents = _currents(problem, start)
        report = np.empty((N_FIGURES + N_REPORTED, 1))
        atoms, values = np.empty(problem.n_atoms, dtype=np.int32), np.empty(problem.n_atoms)
        max_rounds = rounds_allowed(self.max_rounds, problem.n_atoms)
        size = solve_and_certify(
            *penalised_atoms(problem), gram, problem.dense_signals(), correlations, currents.columns,
            currents.values, max_rounds, report[:, 0], atoms, values,
        )  # fmt: skip
        n_rounds, _, n_multiply_adds = report[N_FIGURES:].astype(np.int64)
        found = code_of_kernel(problem, atoms[:size], values[:size], report[:N_FIGURES], n_rounds)
        found.work[METHOD], found.info["n_corrections"] = n_multiply_adds, np.array([size])
        if start is not None:
            found.info["n_corrections"] = count_corrections(currents, np.arange(1), found.values)
        return found if found.reach(problem, tol) else None


@documented(ActiveSet)
def solve_active_set(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    max_rounds: int | None = None,
) -> SparseCodingResult:
    """Solve a LASSO by an active-set method: optimality equations on a support that is corrected."""
    return solve(problem, ActiveSet(max_rounds), start=start, tol=tol, n_jobs=n_jobs, progress=progress)


def _currents(problem: LassoProblem, start: Codes | None) -> RowEntries:
    """Return where the signals of a problem start, as kernels take it: average currents, or ||d_i||^2 a_i."""
    if start is None:
        return RowEntries(np.zeros(problem.n_signals + 1, dtype=np.int32), NO_ATOMS, NO_CURRENTS)
    if "average_currents" in start.info:
        return rows_of(start.info["average_currents"])
    rows = rows_of(start.values)
    return rows._replace(values=rows.values * problem.atoms.squared_norms[rows.columns])

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
# A code is poor if its gap exceeds this share of the signal's energy.  The method codes a signal with a poor
# code again, from FIRST_ITERATIONS steps of FISTA.
POOR = 1e-3
FIRST_ITERATIONS = 10


@dataclass(frozen=True)
class ActiveSet(Method):
    """Solve the optimality equations on a support, and correct the support until it is optimal.

    Let S be the support (the active set), G the Gram matrix, b the correlations of the signal with the atoms,
    and gamma the curvatures of the penalty.  Each round solves::

        (G_SS + diag gamma_S) a_S = b_S - lambda_S sign(a_S)

    Atoms that would change their signs leave S.  Then atoms whose correlations with the residual exceed their
    penalties enter S.  If no atom enters or leaves S, the code is optimal to rounding for any `tol`, unless
    the atoms are so nearly dependent that double precision cannot solve the equations.  To solve the
    equations, the method updates a Cholesky factor if the atoms are an array.  For a convolutional
    dictionary, the method uses coordinate descent, damped steps and a sparse factorisation.

    A start gives a support with signs and proportions; the optimum does not depend on the start.  If the
    start is a result of `solve_spiking`, its support is the atoms whose neurons fired.

    Parameters
    ----------
    max_rounds : int, optional
        The most rounds for each signal; by default 10 per atom, or 200 with a convolutional dictionary.

    Notes
    -----
    If a signal does not reach `tol`, its code is the best of the method's code, the start, and zero.  If the
    method's code is poor, the method also starts from a few steps of FISTA.

    For few signals in a large dictionary, the method computes only the entries of the Gram matrix between
    atoms that may be active, unless the problem already has the matrix.  For more signals, the method
    multiplies the residuals of all signals with all atoms together, if this takes less time than the matrix
    (`solvers.plan`).  Signals with different masks never use a Gram matrix; signals that share one mask may.

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
        """Return the reason why signals missed `tol`, as a part of the warning."""
        return "within its rounds" if status == Status.AT_LIMIT else super().reason(status)

    def prepare(self, problem: LassoProblem) -> AtomProducts:
        """Return the Gram matrix, or products of atoms that replace the Gram matrix."""
        return products_of(problem, on_demand=True, most_signals=most_on_demand(problem.n_atoms))

    def batches(self, problem: LassoProblem, prepared: AtomProducts, n_workers: int) -> list[slice]:
        """Return batches of signals that are solved together; signals that share products form a batch."""
        if isinstance(prepared, SharedProducts):
            return prepared.batches(problem, n_workers)
        return super().batches(problem, prepared, n_workers)

    def along(self, problem: LassoProblem, penalties: Sequence[Penalty]) -> Codes | None:
        """Return the codes at all penalties, from one call of a kernel for each signal."""
        n_atoms, shape = problem.n_atoms, (problem.n_signals, len(penalties))
        # All arrays of a problem are read-only, so that `solve_path` is compiled only once.
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
        """Yield optimal codes; if rounding made a code poor, also yield codes from other starts."""
        problem, signals = best.problem, best.active
        starts = _currents(problem, best.start)
        yield signals, prepared.optimal_codes(problem, signals, starts, self.max_rounds)
        # On a nearly singular support, rounding may lead the method to a poor code.
        best.fall_back()
        is_poor = ~(best.gaps[best.active] <= POOR * problem.energies[best.active])
        if self.max_rounds is None and problem.atoms.is_matrix:
            # Signals are solved one by one, so that the rounding of FISTA does not depend on other signals.
            for signals in best.active[is_poor, np.newaxis]:
                yield from self._from_elsewhere(best, prepared, signals)

    def _from_elsewhere(
        self, best: BestCodes, prepared: AtomProducts, signals: np.ndarray
    ) -> Iterator[Found]:
        """Yield codes of one signal from a few steps of FISTA, which lead the method to another support."""
        part = best.problem.subset(signals)
        step = gradient_step(part)
        iterates = Iterates(part, step, np.zeros((1, part.n_atoms)))
        for _ in range(FIRST_ITERATIONS):
            iterates.advance()
        first = Codes(as_sparse(iterates.codes / step.norms), np.zeros(1, dtype=np.int64))
        first.work[METHOD] = iterates.n_products
        before = _currents(part, None if best.start is None else best.start.at(signals))
        for codes in (first, prepared.optimal_codes(part, np.arange(1), _currents(part, first))):
            codes.info["n_corrections"] = count_corrections(before, np.arange(1), codes.values)
            yield signals, codes

    def solve_alone(self, problem: LassoProblem, start: Codes | None, tol: float) -> Codes | None:
        """Return the code of a single signal from one call of a kernel; None if the code misses `tol`."""
        # Only the Gram matrix and the correlations use BLAS.
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
        code = code_of_kernel(problem, atoms[:size], values[:size], report[:N_FIGURES], n_rounds)
        code.work[METHOD], code.info["n_corrections"] = n_multiply_adds, np.array([size])
        if start is not None:
            code.info["n_corrections"] = count_corrections(currents, np.arange(1), code.values)
        return code if code.reach(problem, tol) else None


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
    """Solve a LASSO by an active-set method: solve equations on a support, and correct the support."""
    return solve(problem, ActiveSet(max_rounds), start=start, tol=tol, n_jobs=n_jobs, progress=progress)


def _currents(problem: LassoProblem, start: Codes | None) -> RowEntries:
    """Return the starts of signals for kernels: average currents, or the products ||d_i||^2 a_i."""
    if start is None:
        return RowEntries(np.zeros(problem.n_signals + 1, dtype=np.int32), NO_ATOMS, NO_CURRENTS)
    if "average_currents" in start.info:
        return rows_of(start.info["average_currents"])
    rows = rows_of(start.values)
    return rows._replace(values=rows.values * problem.atoms.squared_norms[rows.columns])

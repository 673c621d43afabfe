"""The LASSO solved by an active-set method."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers._kernels.batch import CompressedRows
from solvers._kernels.one_signal import N_FIGURES, N_REPORTED, solve_and_certify
from solvers.certificate.compiled import optimality_of
from solvers.gram.compiled import ROUNDS_PER_ATOM
from solvers.gram.gram import (
    ATOMS_PER_SIGNAL,
    GramOnDemand,
    OwnWeights,
    SharedProducts,
    gram_of,
    shares_products,
    uses_full_gram,
)
from solvers.gram.protocol import ActiveSets, Gram
from solvers.methods.fista import Fista
from solvers.methods.method import TAKEN, TOGETHER, Method, Takes, solve
from solvers.problem.lasso import LassoProblem
from solvers.results.best_codes import BestCodes
from solvers.results.operations import CERTIFICATE, GRAM, METHOD, certificate_work
from solvers.results.result import SparseCodingResult, as_sparse, compressed_rows
from solvers.results.solved import Solved
from solvers.results.start import Start, StartPoint, no_currents
from solvers.workers.blas import one_blas_thread

# A gap above this share of the energy is that of a code that says little; and the steps that lead elsewhere.
POOR = 1e-3
FIRST_ITERATIONS = 10


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ActiveSetResult(SparseCodingResult):
    """As `SparseCodingResult`, with the corrections of the start; `n_steps` are rounds.

    Attributes
    ----------
    n_corrections : ndarray of int, shape (n_signals,)
        Atoms that left or entered the support of the start; an atom that changed its sign counts twice.
    """

    n_corrections: np.ndarray


def solve_active_set(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float = 1e-6,
    max_rounds: int | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> ActiveSetResult:
    """Solve the optimality equations on a support, and correct it until it is right.

    With S the support (the active set), G the Gram matrix, b the correlations of the signal and gamma the
    curvatures of the penalty, a round solves::

        (G_SS + diag gamma_S) a_S = b_S - lambda_S sign(a_S)

    Atoms that would change their signs leave S; then atoms whose correlations with the residual exceed
    their penalties enter S.  Where there is none, the code is optimal to rounding, whatever `tol`, unless the
    atoms are so nearly dependent that double precision cannot solve the equations.  The method solves an
    array of atoms by a Cholesky factor that is updated, and a convolutional dictionary by coordinate descent,
    damped steps and a sparse factorisation.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    start : array_like or scipy.sparse.csr_array of shape (n_signals, n_atoms), or result, optional
        Where to start: codes, or the result of a solver.  The result of `solve_spiking` gives the atoms
        whose neurons fired, with their average currents.  A start gives a support, signs and proportions, and
        changes how long it takes; the optimum does not depend on it.  By default the method starts from
        nothing.
    tol : float, default 1e-6
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``; it does not end earlier.
    max_rounds : int, optional
        Most rounds for each signal; by default 10 for each atom, or 200 with a convolutional dictionary.
    n_jobs : int, optional
        Signals are spread over so many joblib workers.  None is one, unless a `joblib.parallel_config` says
        otherwise; -1 is one for each processor.  The result does not depend on their number.
    progress : bool, default False
        Show a progress bar, in signals.

    Returns
    -------
    ActiveSetResult

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a signal does not reach `tol`.  Its code is the best of those met: the method's, the start's and
        zero; and, where these are poor, that of the method from a few steps of FISTA.

    Notes
    -----
    For few signals in a large dictionary only the entries of the Gram matrix between atoms that may be active
    are computed, unless the problem has the matrix.  The same holds for any number of signals that have masks
    of their own; a mask that all share has a Gram matrix.

    References
    ----------
    Osborne, Presnell and Turlach (2000), IMA Journal of Numerical Analysis 20, section 4: the active-set
    method for the LASSO.
    """
    method = ActiveSet(max_rounds)
    return solve(problem, method, start=start, tol=tol, n_jobs=n_jobs, progress=progress)


@dataclass(frozen=True)
class ActiveSet(Method[ActiveSetResult]):
    """The active-set method: `solve_active_set`.

    Parameters
    ----------
    max_rounds : int, optional
        Most rounds for each signal; by default 10 for each atom, or 200 with a convolutional dictionary.
    """

    max_rounds: int | None = None

    name = "active_set"
    takes = Takes(start=True, convolution=True, own_weights=TOGETHER, zero_penalties=TAKEN)
    steps = "rounds"
    usual_tol = 1e-6
    finest_tol = 1e-10
    result = ActiveSetResult

    def __post_init__(self) -> None:
        if self.max_rounds is not None:
            checks.positive_integer("max_rounds", self.max_rounds)

    def limit(self, stopped: np.ndarray | None) -> str:
        """Return the rounds, or the precision of the method where it came to its end."""
        return "its rounds" if stopped is None or not stopped.all() else "the precision of the method"

    def prepare(self, problem: LassoProblem) -> Gram:
        """Return the Gram matrix, or what is in its place."""
        if problem.has_own_weights:
            if problem.atoms.rows is None:
                return GramOnDemand(problem.model)
            return SharedProducts(problem) if shares_products(problem) else OwnWeights(problem)
        return gram_of(problem, on_demand=True, most_signals=max(problem.n_atoms // ATOMS_PER_SIGNAL, 1))

    def batches(self, problem: LassoProblem, prepared: Gram, n_workers: int) -> list[slice]:
        """Return which signals are solved together: those that share products, if any do."""
        if isinstance(prepared, SharedProducts):
            return prepared.batches(problem, n_workers)
        return super().batches(problem, prepared, n_workers)

    def solve(self, problem: LassoProblem, prepared: Gram, start: StartPoint | None, tol: float) -> Solved:
        """Return optimal codes; where rounding leads astray, the best that were met."""
        signals = np.arange(problem.n_signals)
        found = prepared.optimal_codes(problem, signals, _currents(problem, start), self.max_rounds)
        best = BestCodes(problem)
        best.put(signals, found.codes, if_better=True, optimality=found.optimality)
        # On a support that is close to singular the equations may lead astray: keep what is best.
        missed = signals[best.missed(signals, tol)]
        if len(missed):
            if start is not None:
                best.put(missed, start.codes[missed], if_better=True)
            best.put(missed, sparse.csr_array((len(missed), problem.n_atoms)), if_better=True)
            is_poor = ~(best.optimality.duality_gap[missed] <= POOR * problem.energies[missed])
            if self.max_rounds is None and problem.atoms.is_matrix:
                # One by one: steps of FISTA are rounded differently beside others.
                for signal in missed[is_poor, np.newaxis]:
                    found = self._from_elsewhere(problem, prepared, signal, tol, start, found, best)
        work = {
            METHOD: found.n_multiply_adds,
            GRAM: found.n_gram_multiply_adds,
            CERTIFICATE: best.n_multiply_adds,
        }
        signal_fields = {"n_corrections": found.n_corrections}
        return Solved(best.codes, found.n_rounds, work, best.optimality, found.ended, signal_fields)

    def _from_elsewhere(
        self,
        problem: LassoProblem,
        prepared: Gram,
        signals: np.ndarray,
        tol: float,
        start: StartPoint | None,
        found: ActiveSets,
        best: BestCodes,
    ) -> ActiveSets:
        """Solve some signals once more, from a few steps of FISTA; return what was done for all in all.

        Of smooth atoms that all but depend on each other, the equations of one support lead astray, and those
        of another do not.
        """
        part, some = problem.subset(signals), np.arange(len(signals))
        first = Fista(FIRST_ITERATIONS).solve(part, Fista().prepare(part), None, tol)
        currents = _currents(part, StartPoint(as_sparse(first.codes)))
        again = prepared.optimal_codes(part, some, currents)
        best.put(signals, as_sparse(first.codes), if_better=True)
        kept = best.put(signals, again.codes, if_better=True, optimality=again.optimality)
        found.ended[signals[kept]] = again.ended[kept]
        found.n_rounds[signals] += again.n_rounds
        found.n_multiply_adds[signals] += again.n_multiply_adds + first.multiply_adds[METHOD]
        found.n_gram_multiply_adds[signals] += again.n_gram_multiply_adds
        before = sparse.csr_array(again.codes.shape) if start is None else start.at(signals).codes
        changes = abs(as_sparse(before).sign() - best.codes[signals].sign())
        found.n_corrections[signals] = changes.sum(axis=1).astype(np.int64)
        return found

    def solve_alone(self, problem: LassoProblem, start: StartPoint | None, tol: float) -> Solved | None:
        """Return the code of a single signal by one call of a kernel; None if that does not do.

        Code and certificate are those of `solve`.  The time of a small problem is otherwise that of calls.
        """
        rows = problem.atoms.rows
        if rows is None or problem.feature_weights is not None or problem.penalty.has_zeros:
            return None
        if not uses_full_gram(problem) or not (problem.has_gram or problem.model.gram_fits):
            return None
        # All that is left to BLAS.
        with nullcontext() if problem.has_gram and problem.has_correlations else one_blas_thread():
            gram, correlations = problem.gram, problem.correlations
        currents = _currents(problem, start)
        report = np.empty(N_REPORTED)
        atoms, values = solve_and_certify(
            rows,
            gram,
            problem.atoms.norms,
            problem.l1_weights,
            problem.curvatures,
            problem.positive,
            problem.dense_signals(),
            correlations,
            currents.columns,
            currents.values,
            ROUNDS_PER_ATOM * problem.n_atoms if self.max_rounds is None else self.max_rounds,
            report,
        )
        pointers = np.array([0, len(atoms)], dtype=np.int32)
        codes = compressed_rows((1, problem.n_atoms), CompressedRows(pointers, atoms, values))
        optimality = optimality_of(problem, codes, report[:N_FIGURES, np.newaxis])
        if not optimality.duality_gap[0] <= tol * problem.energies[0]:
            return None
        # Arrays of one entry each.
        n_corrections, n_rounds, _, n_multiply_adds = report[N_FIGURES:, np.newaxis].astype(np.int64)
        return Solved(
            codes,
            n_rounds,
            {METHOD: n_multiply_adds, CERTIFICATE: np.array([certificate_work(problem, len(atoms))])},
            optimality,
            signal_fields={"n_corrections": n_corrections},
        )


def _currents(problem: LassoProblem, start: StartPoint | None) -> CompressedRows:
    """Return where the signals of a problem start, as kernels take it."""
    return no_currents(problem.n_signals) if start is None else start.currents(problem.squared_norms)

"""The LASSO solved by an active-set method."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse

from snn.base import checks
from solvers._kernels.batch import CompressedRows
from solvers._kernels.one_signal import N_REPORTED, solve_and_certify
from solvers.certificate.optimality import Optimality
from solvers.gram.gram import (
    ATOMS_PER_SIGNAL,
    ROUNDS_PER_ATOM,
    ConvolutionalGram,
    DenseGram,
    OwnWeights,
    gram_of,
    uses_full_gram,
)
from solvers.problem.conditioning import warn_if_ill_posed
from solvers.problem.lasso import LassoProblem
from solvers.results.best_codes import BestCodes
from solvers.results.joining import joined
from solvers.results.operations import CERTIFICATE, DRIVE, GRAM, METHOD, Work, certificate_work, drive_work
from solvers.results.result import SparseCodingResult, Status, certified_result, compressed_rows
from solvers.results.start import Start, start_codes
from solvers.workers.progress import progress_bar
from solvers.workers.spread import batch_slices, spread

NO_ATOMS, NO_CURRENTS = np.empty(0, dtype=np.int32), np.empty(0)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ActiveSetResult(SparseCodingResult):
    """As `SparseCodingResult`, with the corrections of the start; `n_steps` are rounds.

    Attributes
    ----------
    n_corrections : ndarray of int, shape (n_signals,)
        Atoms that left or entered the support of the start; an atom that changed its sign counts twice.
    """

    n_corrections: np.ndarray

    STEPS: ClassVar[str] = "rounds"


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
        Signals are spread over so many joblib workers, threads unless a `joblib.parallel_config` says
        otherwise.  The result does not depend on their number.
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    ActiveSetResult

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a signal does not reach `tol`.  Its code is the best of those met: the method's, the start's and
        zero.

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
    checks.instance_of("problem", problem, LassoProblem)
    guess = _guess(problem, start)
    tol = checks.positive_number("tol", tol)
    if max_rounds is not None:
        max_rounds = checks.positive_integer("max_rounds", max_rounds)
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    progress = checks.flag("progress", progress)
    warn_if_ill_posed(problem)

    if problem.n_signals == 1 and not progress:
        result = _solved_alone(problem, guess, tol, max_rounds)
        if result is not None:
            return result
    gram: DenseGram | ConvolutionalGram | OwnWeights
    if problem.has_own_weights:
        gram = OwnWeights(problem)
    else:
        gram = gram_of(problem, on_demand=True, most_signals=max(problem.n_atoms // ATOMS_PER_SIGNAL, 1))
    n_workers = effective_n_jobs(n_jobs) if problem.n_signals > 1 else 1
    parts = batch_slices(problem.n_signals, problem.n_atoms, n_workers)
    batches = (
        [(problem.subset(part), guess.rows(part)) for part in parts] if len(parts) > 1 else [(problem, guess)]
    )
    solve = partial(_solve_batch, gram=gram, tol=tol, max_rounds=max_rounds)
    with progress_bar(len(batches), unit="batch", description="active set", shown=progress) as bar:
        outcome = joined(spread(solve, batches, n_jobs, n_workers, bar, common=problem.setup))
    return certified_result(
        problem,
        outcome.codes,
        method="active_set",
        tol=tol,
        n_steps=outcome.n_rounds,
        limit="the precision of the method" if outcome.ended.all() else "its rounds",
        optimality=outcome.optimality,
        kind=ActiveSetResult,
        work=Work(
            {
                METHOD: outcome.n_multiply_adds,
                GRAM: outcome.n_gram_multiply_adds,
                CERTIFICATE: outcome.n_certificate_multiply_adds,
            }
        ),
        n_corrections=outcome.n_corrections,
    )


class _Guess(NamedTuple):
    """What each signal starts from."""

    currents: sparse.csr_array | None
    """||d_i||^2 a_i, or average currents; None without a start."""
    codes: sparse.csr_array | None
    """The codes that were given; None without a start."""

    def rows(self, part: slice) -> _Guess:
        """Return what some of the signals start from."""
        if self.currents is None or self.codes is None:
            return self
        return _Guess(self.currents[part], self.codes[part])

    def start(self, n_signals: int) -> CompressedRows:
        """Return it as the kernels take it, of one type whatever came in."""
        if self.currents is None:
            return CompressedRows(np.zeros(n_signals + 1, dtype=np.int32), NO_ATOMS, NO_CURRENTS)
        rows = self.currents
        return CompressedRows(rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data.copy())


def _solved_alone(
    problem: LassoProblem, guess: _Guess, tol: float, max_rounds: int | None
) -> ActiveSetResult | None:
    """Return the result for one signal by one call of a kernel; None if that does not do.

    The codes are those of `_solve_batch`, and so are the certificates: but for that, the time of a small
    problem is that of the calls.
    """
    rows = problem.atoms.rows
    if rows is None or not problem.penalty.is_elastic_net or problem.feature_weights is not None:
        return None
    if not uses_full_gram(problem):
        return None
    start = guess.start(1)
    report = np.empty(N_REPORTED)
    atoms, values = solve_and_certify(
        rows,
        problem.gram,
        problem.atoms.norms,
        problem.l1_weights,
        problem.curvatures,
        problem.positive,
        problem.dense_signals(),
        problem.correlations,
        start.columns,
        start.values,
        ROUNDS_PER_ATOM * problem.n_atoms if max_rounds is None else max_rounds,
        report,
    )
    objective, gap, violation, n_corrections, n_rounds, _, n_multiply_adds = report.tolist()
    if not gap <= tol * problem.energies[0]:
        return None
    pointers = np.array([0, len(atoms)], dtype=np.int32)
    return ActiveSetResult(
        method="active_set",
        tol=tol,
        sparse_codes=compressed_rows((1, problem.n_atoms), CompressedRows(pointers, atoms, values)),
        objective=np.array([objective]),
        duality_gap=np.array([gap]),
        energies=problem.energies,
        kkt_violation=np.array([violation]),
        status=np.array([int(Status.CONVERGED)]),
        n_steps=np.array([int(n_rounds)]),
        work=Work(
            {
                DRIVE: (drive_work(problem),),
                METHOD: (int(n_multiply_adds),),
                CERTIFICATE: (certificate_work(problem, len(atoms)),),
            }
        ),
        n_corrections=np.array([int(n_corrections)]),
    )


class _Outcome(NamedTuple):
    """Of a batch of signals: one row or entry each."""

    codes: sparse.csr_array
    optimality: Optimality
    n_corrections: np.ndarray
    n_rounds: np.ndarray
    ended: np.ndarray
    n_multiply_adds: np.ndarray
    n_gram_multiply_adds: np.ndarray
    n_certificate_multiply_adds: np.ndarray


def _solve_batch(
    batch: tuple[LassoProblem, _Guess],
    gram: DenseGram | ConvolutionalGram | OwnWeights,
    tol: float,
    max_rounds: int | None,
) -> _Outcome:
    problem, guess = batch
    signals = np.arange(problem.n_signals)
    start = guess.start(problem.n_signals)
    solved = gram.optimal_codes(problem, signals, start, max_rounds)
    best = BestCodes(problem)
    best.put(signals, solved.codes, if_better=True)
    # On a support that is close to singular the equations may lead astray: keep what is best.
    missed = signals[best.missed(signals, tol)]
    if len(missed):
        if guess.codes is not None:
            best.put(missed, guess.codes[missed], if_better=True)
        best.put(missed, sparse.csr_array((len(missed), problem.n_atoms)), if_better=True)
    return _Outcome(
        best.codes,
        best.optimality,
        solved.n_corrections,
        solved.n_rounds,
        solved.ended,
        solved.n_multiply_adds,
        solved.n_gram_multiply_adds,
        best.n_multiply_adds,
    )


def _guess(problem: LassoProblem, start: Start) -> _Guess:
    """Return the currents and codes of a start."""
    codes = start_codes(problem, start)
    if codes is None:
        return _Guess(None, None)
    if isinstance(start, SparseCodingResult):
        return _Guess(start.start_currents(problem.squared_norms), codes)
    currents = codes.copy()
    currents.data *= problem.squared_norms[codes.indices]
    return _Guess(currents, codes)

"""The LASSO solved by the analog flow of the locally competitive algorithm (LCA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from snn import simulate_analog
from snn.base import checks
from solvers.certificate.optimality import measure
from solvers.methods.method import Method, Takes, solve
from solvers.problem.lasso import LassoProblem
from solvers.results.operations import CERTIFICATE, METHOD, certificate_work
from solvers.results.result import SparseCodingResult
from solvers.results.solved import Solved
from solvers.results.start import Start, StartPoint

# The gap is looked at after one time constant, and again whenever the time has grown by a quarter.
FIRST_CHECK = 1.0
CHECK_PART = 0.25
# Relative tolerance of the integrator, as a part of `tol`, and the range it is kept in: a coarse one
# costs stability, and no integrator in double precision keeps a finer one.
INTEGRATOR_PART = 0.1
INTEGRATOR_RANGE = (1e-13, 1e-4)


def solve_analog(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float = 1e-3,
    max_duration: float = 10_000.0,
    n_jobs: int | None = None,
    progress: bool = False,
) -> SparseCodingResult:
    """Solve by integrating the analog LCA, one signal after the other.

    With T the soft threshold by lambda, one-sided if the problem is `positive`, atoms scaled to norm one, and
    m the curvatures of the penalty, zero for the LASSO::

        du/dt = b - u - (G - 1) a      a_i = T(u_i) / (1 + m_i)

    along which the objective never increases, dE/dt = - sum over active of (du_i/dt)^2 / (1 + m_i); where the
    flow comes to rest, the code is optimal.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    start : array_like or scipy.sparse.csr_array of shape (n_signals, n_atoms), or result, optional
        Where to start: codes, or the result of a solver.  Potentials start where their activities are these
        codes, and those of the other atoms as near to their equilibrium, b - (G - 1) a, as that allows.  By
        default the flow starts from rest.
    tol : float, default 1e-3
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.
    max_duration : float, default 10000
        Time, in time constants of the flow, after which a signal is stopped.
    n_jobs : int, optional
        Signals are spread over so many joblib workers.  None is one, unless a `joblib.parallel_config` says
        otherwise; -1 is one for each processor.
    progress : bool, default False
        Show a progress bar, in signals.

    Returns
    -------
    SparseCodingResult
        `n_steps` counts evaluations of the flow.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a signal has not reached `tol` by `max_duration`.

    References
    ----------
    Rozell, Johnson, Baraniuk and Olshausen (2008), Neural Computation 20, eq 3.2; Tang, Lin and Davies
    (2017), arXiv:1705.05475, section 2.
    """
    method = Analog(max_duration)
    return solve(problem, method, start=start, tol=tol, n_jobs=n_jobs, progress=progress)


class Flow(NamedTuple):
    """What the flows of all signals share."""

    norms: np.ndarray
    weights: np.ndarray
    """-(G - 1), of atoms of norm one."""


@dataclass(frozen=True)
class Analog(Method[SparseCodingResult]):
    """The analog flow of the locally competitive algorithm: `solve_analog`.

    Parameters
    ----------
    max_duration : float, default 10000
        Time, in time constants of the flow, after which a signal is stopped.
    """

    max_duration: float = 10_000.0

    name = "analog"
    takes = Takes(start=True)
    steps = "evaluations"
    finest_tol = 1e-4
    workers = "processes"
    blas_threads = True

    def __post_init__(self) -> None:
        checks.positive_number("max_duration", self.max_duration)

    def limit(self, stopped: np.ndarray | None) -> str:
        """Return the time."""
        return f"max_duration={self.max_duration:g}"

    def prepare(self, problem: LassoProblem) -> Flow:
        """Return the weights of the flow."""
        norms = np.sqrt(problem.weighted_model.atoms.positive_squared_norms)
        weights = -(problem.gram / norms / norms[:, np.newaxis])
        np.fill_diagonal(weights, 0.0)
        return Flow(norms, weights)

    def batches(self, problem: LassoProblem, prepared: Flow, n_workers: int) -> list[slice]:
        """Return one signal after the other."""
        return [slice(signal, signal + 1) for signal in range(problem.n_signals)]

    def solve(self, problem: LassoProblem, prepared: Flow, start: StartPoint | None, tol: float) -> Solved:
        """Return the code of a single signal."""
        code = np.zeros(problem.n_atoms) if start is None else start.codes.toarray()[0]
        code, *counts = self._solve_one(problem, code, prepared, tol)
        n_steps, n_products, n_certificate_products = np.array(counts, dtype=np.int64)[:, np.newaxis]
        return Solved(code[np.newaxis], n_steps, {METHOD: n_products, CERTIFICATE: n_certificate_products})

    def _solve_one(
        self, problem: LassoProblem, code: np.ndarray, flow: Flow, tol: float
    ) -> tuple[np.ndarray, int, int, int]:
        """Return the code of a single signal, solved from another code, the evaluations of the flow, and the
        multiply-adds of these and of certificates."""
        norms, weights = flow
        if problem.energies[0] == 0.0:
            return np.zeros(problem.n_atoms), 0, 0, 0
        n_certificate_products = certificate_work(problem, int(np.count_nonzero(code)))
        if measure(problem, code[np.newaxis]).duality_gap[0] <= tol * problem.energies[0]:
            return code, 0, 0, n_certificate_products
        # In units in which atoms and signal have norm one.
        length = np.sqrt(2.0 * problem.energies[0])
        drive = problem.correlations[0] / (norms * length)
        threshold = problem.l1_weights / (norms * length)
        divisor = 1.0 + problem.curvatures / problem.weighted_model.atoms.positive_squared_norms
        potential = np.zeros(problem.n_atoms)
        if code.any():
            potential = _potential(
                code * norms / length, drive, weights, threshold, divisor, problem.positive
            )
        time = 0.0
        n_evaluations = 0
        # Where the flow starts: potentials of all neurons from the active ones.
        n_products = int(np.count_nonzero(code)) * problem.n_atoms
        while time < self.max_duration:
            segment = min(max(FIRST_CHECK, CHECK_PART * time), self.max_duration - time)
            run = simulate_analog(
                weights,
                drive,
                activation_threshold=threshold,
                duration=segment,
                two_sided=not problem.positive,
                divisor=divisor,
                initial_potential=potential,
                n_times=2,
                relative_tolerance=float(np.clip(INTEGRATOR_PART * tol, *INTEGRATOR_RANGE)),
            )
            time += segment
            n_evaluations += run.n_evaluations
            n_products += int(run.operations.multiply_adds)
            potential = run.potentials[-1]
            code = run.activities[-1] * length / norms
            n_certificate_products += certificate_work(problem, int(np.count_nonzero(code)))
            if measure(problem, code[np.newaxis]).duality_gap[0] <= tol * problem.energies[0]:
                break
        return code, n_evaluations, n_products, n_certificate_products


def _potential(
    activity: np.ndarray,
    drive: np.ndarray,
    weights: np.ndarray,
    threshold: np.ndarray,
    divisor: np.ndarray,
    positive: bool,
) -> np.ndarray:
    """Return potentials with these activities; those of silent neurons are close to their equilibrium."""
    silent = drive + activity @ weights
    silent = np.minimum(silent, threshold) if positive else np.clip(silent, -threshold, threshold)
    return np.where(activity == 0.0, silent, np.sign(activity) * threshold + divisor * activity)

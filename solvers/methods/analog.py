"""The LASSO solved by the analog flow of the locally competitive algorithm (LCA)."""

from __future__ import annotations

from functools import partial

import numpy as np
from tqdm import tqdm

from snn import simulate_analog
from snn.base import checks
from solvers.certificate.optimality import measure
from solvers.methods.masks import solve_groups
from solvers.problem.conditioning import warn_if_ill_posed
from solvers.problem.lasso import LassoProblem
from solvers.results.operations import CERTIFICATE, METHOD, Work, certificate_work
from solvers.results.result import SparseCodingResult, certified_result
from solvers.results.start import Start, start_codes

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
        The flow ends when ``duality_gap <= tol * 1/2 ||signal||^2``.
    max_duration : float, default 10000
        Time after which a signal is given up, in time constants of the flow.
    progress : bool, default False
        Whether to show a progress bar, in signals.

    Returns
    -------
    SparseCodingResult
        `n_steps` counts evaluations of the flow.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or value.

    Warns
    -----
    ConvergenceWarning
        If a signal has not reached `tol` by `max_duration`.

    References
    ----------
    Rozell, Johnson, Baraniuk and Olshausen (2008), Neural Computation 20, eq 3.2; Tang, Lin and Davies
    (2017), arXiv:1705.05475, section 2.
    """
    checks.instance_of("problem", problem, LassoProblem)
    codes_at_start = start_codes(problem, start)
    tol = checks.positive_number("tol", tol)
    max_duration = checks.positive_number("max_duration", max_duration)
    progress = checks.flag("progress", progress)
    warn_if_ill_posed(problem)

    limit = f"max_duration={max_duration:g}"
    if problem.has_own_weights:
        solve = partial(solve_analog, tol=tol, max_duration=max_duration)
        return solve_groups(solve, problem, start=codes_at_start, progress=progress, limit=limit)
    norms = np.sqrt(problem.weighted_setup.atoms.positive_squared_norms)
    weights = -(problem.gram / norms / norms[:, np.newaxis])
    np.fill_diagonal(weights, 0.0)
    shape = (problem.n_signals, problem.n_atoms)
    codes = np.zeros(shape) if codes_at_start is None else codes_at_start.toarray()
    n_steps, n_products, n_certificate_products = np.zeros((3, problem.n_signals), dtype=np.int64)

    for signal in tqdm(range(problem.n_signals), desc="analog", unit="signal", disable=not progress):
        one = problem.subset(slice(signal, signal + 1))
        codes[signal], n_steps[signal], n_products[signal], n_certificate_products[signal] = _solve_one(
            one, codes[signal], weights, norms, tol, max_duration
        )

    return certified_result(
        problem,
        codes,
        method="analog",
        tol=tol,
        n_steps=n_steps,
        limit=limit,
        kind=SparseCodingResult,
        work=Work({METHOD: n_products, CERTIFICATE: n_certificate_products}),
    )


def _solve_one(
    problem: LassoProblem,
    code: np.ndarray,
    weights: np.ndarray,
    norms: np.ndarray,
    tol: float,
    max_duration: float,
) -> tuple[np.ndarray, int, int, int]:
    """Return the code of a single signal, solved from another code, the evaluations of the flow, and the
    multiply-adds of these and of certificates."""
    if problem.energies[0] == 0.0:
        return np.zeros(problem.n_atoms), 0, 0, 0
    n_certificate_products = certificate_work(problem, int(np.count_nonzero(code)))
    if measure(problem, code[np.newaxis]).duality_gap[0] <= tol * problem.energies[0]:
        return code, 0, 0, n_certificate_products
    # In units in which atoms and signal have norm one.
    length = np.sqrt(2.0 * problem.energies[0])
    drive = problem.correlations[0] / (norms * length)
    threshold = problem.l1_weights / (norms * length)
    divisor = 1.0 + problem.curvatures / problem.weighted_setup.atoms.positive_squared_norms
    potential = np.zeros(problem.n_atoms)
    if code.any():
        potential = _potential(code * norms / length, drive, weights, threshold, divisor, problem.positive)
    time = 0.0
    n_evaluations = 0
    # Where the flow starts: potentials of all neurons from the active ones.
    n_products = int(np.count_nonzero(code)) * problem.n_atoms
    while time < max_duration:
        segment = min(max(FIRST_CHECK, CHECK_PART * time), max_duration - time)
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

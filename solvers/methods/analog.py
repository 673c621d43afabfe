"""The LASSO solved by the analog flow of the locally competitive algorithm (LCA)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from snn._interrupts import float_errors
from snn.base import checks
from solvers.methods.method import Method
from solvers.problem.lasso import LassoProblem
from solvers.results.codes import METHOD, BestCodes, Found

# Time at which the first gap is computed, in time constants.  The next gaps are computed whenever the elapsed
# time has grown by the share CHECK_SHARE_OF_TIME.
FIRST_CHECK = 1.0
CHECK_SHARE_OF_TIME = 0.25
# Relative tolerance of the integrator, as a share of `tol`, and its limits: a larger tolerance makes the
# integration unstable, and a smaller one is below the rounding of double precision.
INTEGRATOR_PART = 0.1
INTEGRATOR_RANGE = (1e-13, 1e-4)


class Flow(NamedTuple):
    """A trajectory of the analog flow, and its cost."""

    potentials: np.ndarray  # shape (n_times, n_neurons)
    activities: np.ndarray
    n_evaluations: int
    work: int  # multiply-adds: each evaluation takes a row of weights for each active neuron


def flow(
    weights: np.ndarray,
    drive: np.ndarray,
    threshold: np.ndarray | float,
    divisor: np.ndarray | float,
    potential: np.ndarray,
    *,
    times: np.ndarray,
    two_sided: bool,
    relative_tolerance: float,
) -> Flow:
    """Integrate du/dt = b - u + W^T a with a = T(u) / g from time 0, by an adaptive Runge-Kutta method."""
    from scipy.integrate import solve_ivp  # imported here because the import is slow

    least, work = -threshold if two_sided else -np.inf, 0

    def activity(potential: np.ndarray) -> np.ndarray:
        return (potential - np.clip(potential, least, threshold)) / divisor

    def slope(_: float, potential: np.ndarray) -> np.ndarray:
        nonlocal work
        active = activity(potential)
        work += int(np.count_nonzero(active)) * len(drive)
        return drive - potential + active @ weights

    atol = relative_tolerance * max(float(np.abs(drive).max()), float(np.min(threshold)))
    with float_errors(over="ignore", invalid="ignore"):  # a flow that overflows is reported below
        solution = solve_ivp(
            slope, (0.0, times[-1]), potential, t_eval=times, rtol=relative_tolerance, atol=atol
        )
    if not solution.success or not np.isfinite(solution.y).all():
        raise RuntimeError(f"the analog flow could not be integrated to time {times[-1]}: {solution.message}")
    potentials = np.ascontiguousarray(solution.y.T)
    return Flow(potentials, activity(potentials), int(solution.nfev), work)


@dataclass(frozen=True)
class Analog(Method):
    """Integrate the analog flow of the locally competitive algorithm (LCA), one signal after the other.

    With T the soft threshold by lambda, one-sided if the problem is `positive`, atoms scaled to norm one, and
    m the curvatures of the penalty, zero for the LASSO::

        du/dt = b - u - (G - 1) a      a_i = T(u_i) / (1 + m_i)

    Along the flow the objective never increases, dE/dt = - sum over active of (du_i/dt)^2 / (1 + m_i).  When
    the flow comes to rest, the code is optimal.  By default potentials start at zero.  With a start, the
    initial activity is the code of the start.  The potentials of silent atoms are then as close as possible
    to the equilibrium b - (G - 1) a.

    Parameters
    ----------
    max_duration : float, default 10000
        Time, in time constants of the flow, after which a signal is stopped.

    References
    ----------
    Rozell, Johnson, Baraniuk and Olshausen (2008), Neural Computation 20, eq 3.2; Tang, Lin and Davies
    (2017), arXiv:1705.05475, section 2.
    """

    max_duration: float = 10_000.0

    name = "analog"
    takes = ("start", "own_weights")
    steps = "evaluations"
    finest_tol = 1e-4
    workers = "processes"

    def __post_init__(self) -> None:
        checks.positive_number("max_duration", self.max_duration)

    def prepare(self, problem: LassoProblem) -> tuple[np.ndarray, np.ndarray]:
        """Return the norms of atoms, and the weights -(G - 1), with G the Gram matrix for norm one."""
        norms = np.sqrt(problem.seen_atoms.positive_squared_norms)
        weights = -(problem.gram / norms / norms[:, np.newaxis])
        np.fill_diagonal(weights, 0.0)
        return norms, weights

    def batches(self, problem: LassoProblem, prepared: Any, n_workers: int) -> list[slice]:
        """Return a batch for each signal."""
        return [slice(signal, signal + 1) for signal in range(problem.n_signals)]

    def search(self, best: BestCodes, prepared: tuple[np.ndarray, np.ndarray]) -> Iterator[Found]:
        """Yield the codes of a single signal at growing times."""
        problem, signals, (norms, weights) = best.problem, best.active, prepared
        best.work[METHOD][signals] += 0
        best.fall_back()
        if not len(best.active):
            return
        # Use units in which the atoms and the signal have norm one.
        length = np.sqrt(2.0 * problem.energies[0])
        drive = problem.correlations[0] / (norms * length)
        threshold = problem.l1_weights / (norms * length)
        divisor = 1.0 + problem.curvatures / problem.seen_atoms.positive_squared_norms
        potential = np.zeros(problem.n_atoms)
        if best.start is not None:
            activity = best.start.values.toarray()[0] * norms / length
            # Silent neurons are close to their equilibrium.
            silent = drive + activity @ weights
            silent = np.clip(silent, -np.inf if problem.penalty.is_positive else -threshold, threshold)
            active = np.sign(activity) * threshold + divisor * activity
            potential = np.where(activity == 0.0, silent, active)
            best.work[METHOD][signals] += int(np.count_nonzero(activity)) * problem.n_atoms
        time = 0.0
        while time < self.max_duration and len(best.active):
            segment = min(max(FIRST_CHECK, CHECK_SHARE_OF_TIME * time), self.max_duration - time)
            run = flow(
                weights,
                drive,
                threshold,
                divisor,
                potential,
                times=np.array([0.0, segment]),
                two_sided=not problem.penalty.is_positive,
                relative_tolerance=float(np.clip(INTEGRATOR_PART * best.tol, *INTEGRATOR_RANGE)),
            )
            time += segment
            best.steps += run.n_evaluations
            best.work[METHOD][signals] += run.work
            potential = run.potentials[-1]
            yield signals, run.activities[-1:] * length / norms

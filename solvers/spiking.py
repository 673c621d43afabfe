"""The LASSO solved by spikes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from tqdm import tqdm

from snn import LateralInhibition, MirroredWeights, SpikingNetwork, checks
from snn.event_driven import EventDrivenRun
from snn.weights import n_deliveries
from solvers import _kernels
from solvers.optimality import judge
from solvers.problem import LassoProblem
from solvers.result import SparseCodingResult, judged

READOUTS = ("rate", "current", "exact")

# "rate" and "current" are judged at 2, 2.8, 4, 5.7 ...: nobody runs more than 1.41 times too long.
FIRST_CHECK = 2.0
CHECKS_PER_DOUBLING = 2
# "exact" leaves the network here, where its support is nearly right and a correction costs less than
# the spikes that would make it (measured; docs/decisions.md).
FINISH_TIME = 8.0
# Where it does not end, a longer run may give a better start, but not without limit.
LAST_FINISH_TIME = 500.0
# Signals simulated together: bounded by memory, and so that Ctrl-C is quick.
VALUES_PER_BATCH = 1_000_000
LARGEST_BATCH = 256
FINISHES_PER_CALL = 100_000
# Rounds of the exact read-out, a multiple of the number of atoms it could need.
ROUNDS_PER_ATOM = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class SpikingCodingResult(SparseCodingResult):
    """As `SparseCodingResult`, with what the network did.

    Attributes
    ----------
    readout : str
        How the codes were read out.
    spike_counts : ndarray of int, shape (n_signals, n_neurons)
        Spikes of each neuron; where codes may be negative, of the positive halves, then of the
        negative ones.
    n_synaptic_events : ndarray of int, shape (n_signals,)
        Deliveries of a spike to a target.
    duration : ndarray, shape (n_signals,)
        Simulated time, in synaptic time constants.
    scale : ndarray, shape (n_signals,)
        What one unit of spike rate stands for: the network ran on the signal divided by this.
    rate_duality_gap : ndarray, shape (n_signals,)
        Duality gap of the plain spike rates at that time: what the network did by itself.
    n_corrections : ndarray of int, shape (n_signals,)
        Atoms that the exact read-out dropped from, or added to, the support that the spikes found.
    """

    readout: str
    spike_counts: np.ndarray
    n_synaptic_events: np.ndarray
    duration: np.ndarray
    scale: np.ndarray
    rate_duality_gap: np.ndarray
    n_corrections: np.ndarray


def solve_spiking(
    problem: LassoProblem,
    *,
    tol: float = 1e-3,
    max_duration: float = 10_000.0,
    readout: str = "rate",
    n_jobs: int | None = None,
    progress: bool = False,
) -> SpikingCodingResult:
    """Solve a LASSO with a network of spiking neurons, one (positive) or two an atom.

    The network `lasso_network` runs, exactly and event by event, until the codes read out of it are
    good enough::

        duality_gap <= tol * 1/2 ||signal||^2

    Signal and penalty are first divided by a `scale` at which the busiest neuron, left alone, would
    fire once in a synaptic time constant; codes are multiplied by it.  The unit of the signals is then
    of no consequence, nor is it to the number of spikes.

    Parameters
    ----------
    problem : LassoProblem
        What to solve.
    tol : float, default 1e-3
        See above; the same for every solver.
    max_duration : float, default 10000
        Simulated time, in synaptic time constants, after which a signal is given up.
    readout : {"rate", "current", "exact"}, default "rate"
        How codes are read from the network.

        - "rate": spikes per unit of time since the start, a = n / t.  Its gap falls like 1 / t.
        - "current": the thresholded average current, max(u, 0) / theta, over the second half of the
          time so far.  Sparser, and much closer to the optimum at the same time.
        - "exact": the atoms that fired are taken as a first guess of the support, the optimality
          equations are solved on it, and atoms are dropped and added until the KKT conditions hold.
          Ends at machine precision whatever `tol`, unless the atoms are so nearly dependent that the
          equations cannot be solved to it; then the best code met is kept.  `n_corrections` and
          `rate_duality_gap` of the result tell how much of it the network had done.
    n_jobs : int, optional
        Signals are spread over so many joblib workers, threads unless a `joblib.parallel_config` says
        otherwise.  The result does not depend on their number.
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    SpikingCodingResult

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or value.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a signal does not reach `tol` by `max_duration`.  Its code is the one read out then, with
        its true gap.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475: the network, Theorem 2 (convergence), section 4
    (read-outs).
    """
    checks.instance_of("problem", problem, LassoProblem)
    tol = checks.positive_number("tol", tol)
    max_duration = checks.positive_number("max_duration", max_duration)
    readout = checks.one_of("readout", readout, READOUTS)
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    progress = checks.flag("progress", progress)

    network = lasso_network(problem)
    solve_batch = _finish_batch if readout == "exact" else _read_batch
    size = int(np.clip(VALUES_PER_BATCH // network.n_neurons, 1, LARGEST_BATCH))
    starts = range(0, problem.n_signals, size)
    outcomes = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(solve_batch)(problem.subset(slice(start, start + size)), network, tol, max_duration, readout)
        for start in tqdm(starts, disable=not progress, unit="batch", desc="spiking")
    )

    gathered = {name: np.concatenate([outcome[name] for outcome in outcomes]) for name in outcomes[0]}
    return judged(
        problem,
        gathered.pop("codes"),
        method="spiking",
        tol=tol,
        n_steps=gathered["spike_counts"].sum(axis=1),
        limit="the precision of the exact read-out"
        if readout == "exact"
        else f"max_duration={max_duration:g}",
        kind=SpikingCodingResult,
        readout=readout,
        n_synaptic_events=n_deliveries(network.weights, gathered["spike_counts"]),
        **gathered,
    )


def lasso_network(problem: LassoProblem, signal: int = 0, *, scale: float = 1.0) -> SpikingNetwork:
    """Return the spiking network whose rates, times `scale`, tend to the code of one signal.

    With G the Gram matrix and b the correlations of the signal, one neuron an atom solves the
    CLASSO::

        W = -(G - diag G)        beta = (b - lambda) / scale        theta = diag G

    The LASSO takes two neurons an atom: the same network for the dictionary [D, -D], whose halves
    share one lateral current (`MirroredWeights`).  Neuron i < n_atoms is then the positive half of
    atom i, and neuron n_atoms + i its negative half.

    Parameters
    ----------
    problem : LassoProblem
    signal : int, default 0
        Which signal drives the network.
    scale : float, default 1.0
        What one unit of spike rate stands for; a smaller one brings more spikes.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, equations 5-7.
    """
    checks.instance_of("problem", problem, LassoProblem)
    signal = checks.index("signal", signal, problem.n_signals)
    scale = checks.positive_number("scale", scale)
    weights = LateralInhibition.unchecked(problem.gram)
    threshold = problem.squared_norms
    if not problem.positive:
        weights = MirroredWeights(lateral=weights, exchange=threshold)
        threshold = np.concatenate([threshold, threshold])
    return SpikingNetwork(weights, _soma_bias(problem)[signal] / scale, threshold)


def _soma_bias(problem: LassoProblem) -> np.ndarray:
    """Return the drive of each signal's network, shape (n_signals, n_neurons)."""
    if problem.positive:
        return problem.correlations - problem.penalty
    return np.hstack([problem.correlations - problem.penalty, -problem.correlations - problem.penalty])


def _scale(problem: LassoProblem, soma_bias: np.ndarray) -> np.ndarray:
    """Return the largest rate that a neuron's drive would cause alone, 1 where nobody is driven."""
    thresholds = problem.squared_norms if problem.positive else np.tile(problem.squared_norms, 2)
    largest = (soma_bias / thresholds).max(axis=1)
    return np.where(largest > 0.0, largest, 1.0)


def _signed(problem: LassoProblem, values: np.ndarray) -> np.ndarray:
    """Return one value an atom from one a neuron: a = a+ - a-."""
    if problem.positive:
        return values
    return values[:, : problem.n_atoms] - values[:, problem.n_atoms :]


def _start(problem: LassoProblem, network: SpikingNetwork) -> tuple[EventDrivenRun, np.ndarray]:
    """Return the networks of all signals at rest, and their scales, a column."""
    soma_bias = _soma_bias(problem)
    scale = _scale(problem, soma_bias)[:, np.newaxis]
    return EventDrivenRun(network, soma_bias / scale), scale


def _charge(run: EventDrivenRun) -> np.ndarray:
    """Return the integral of each soma current since the start (docs/theory.md, equation 4)."""
    return run.network.firing_threshold * run.spike_counts + run.membrane_potential


def _read_batch(
    problem: LassoProblem, network: SpikingNetwork, tol: float, max_duration: float, readout: str
) -> dict[str, np.ndarray]:
    """Run until the rates, or the average currents of the second half, are good enough."""
    run, scale = _start(problem, network)
    codes = np.zeros((problem.n_signals, problem.n_atoms))
    duration = np.zeros(problem.n_signals)
    active = np.arange(problem.n_signals)
    # Charges at earlier checks, the first half a doubling ago: the window is the second half.
    history = [(0.0, np.zeros_like(run.membrane_potential))] * CHECKS_PER_DOUBLING
    check = 0
    while len(active):
        time = min(FIRST_CHECK * 2.0 ** (check / CHECKS_PER_DOUBLING), max_duration)
        run.advance(time, active=active)
        duration[active] = time
        if readout == "rate":
            rates = run.spike_counts[active] / time
        else:
            charge = _charge(run)
            start, charge_then = history.pop(0)
            average = (charge[active] - charge_then[active]) / (time - start)
            rates = np.maximum(average, 0.0) / network.firing_threshold
            history.append((time, charge))
        codes[active] = _signed(problem, rates) * scale[active]
        gap = judge(problem.subset(active), codes[active]).duality_gap
        unfinished = gap > tol * problem.energies[active]
        active = active[unfinished] if time < max_duration else active[:0]
        check += 1
    return _outcome(problem, run, scale, codes, duration, np.zeros(problem.n_signals, dtype=np.int64))


def _finish_batch(
    problem: LassoProblem, network: SpikingNetwork, tol: float, max_duration: float, readout: str
) -> dict[str, np.ndarray]:
    """Run until the support is nearly right, then solve the optimality equations on it."""
    run, scale = _start(problem, network)
    codes = np.zeros((problem.n_signals, problem.n_atoms))
    gaps = np.full(problem.n_signals, np.inf)
    duration = np.zeros(problem.n_signals)
    n_corrections = np.zeros(problem.n_signals, dtype=np.int64)
    active = np.arange(problem.n_signals)
    time = min(FINISH_TIME, max_duration)
    while len(active):
        run.advance(time, active=active)
        duration[active] = time
        part = problem.subset(active)
        currents = np.maximum(_charge(run)[active], 0.0) / (time * network.firing_threshold)
        guess = _signed(problem, np.where(run.spike_counts[active] > 0, currents, 0.0)) * scale[active]
        finished, n_corrections[active], ended = _finish(part, guess)
        rates = _signed(problem, run.spike_counts[active] / time) * scale[active]
        # On a support that is close to singular the equations may lead astray: keep what is best.
        for candidate in (finished, rates, np.zeros_like(rates)):
            gap = judge(part, candidate).duality_gap
            better = gap < gaps[active]
            codes[active[better]] = candidate[better]
            gaps[active[better]] = gap[better]
            if (gaps[active] <= tol * part.energies).all():
                break
        # Where the method ended, all that is left is rounding, and no spike can improve on it.
        done = ended | (gaps[active] <= tol * part.energies)
        active = active[~done] if time < min(max_duration, LAST_FINISH_TIME) else active[:0]
        time = min(4.0 * time, max_duration)
    return _outcome(problem, run, scale, codes, duration, n_corrections)


def _finish(problem: LassoProblem, guess: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the exact codes reached from a guess, the corrections it took, and whether it ended."""
    n_signals, n_atoms = guess.shape
    codes = np.ascontiguousarray(guess)
    n_corrections = np.zeros(n_signals, dtype=np.int64)
    ended = np.zeros(n_signals, dtype=np.bool_)
    step = max(1, FINISHES_PER_CALL // n_atoms)
    for start in range(0, n_signals, step):
        part = slice(start, start + step)
        _kernels.finish_codes(
            problem.gram,
            problem.correlations[part],
            problem.penalty,
            problem.positive,
            codes[part],
            min(problem.dictionary.shape),
            ROUNDS_PER_ATOM * n_atoms,
            n_corrections[part],
            ended[part],
        )
    return codes, n_corrections, ended


def _outcome(
    problem: LassoProblem,
    run: EventDrivenRun,
    scale: np.ndarray,
    codes: np.ndarray,
    duration: np.ndarray,
    n_corrections: np.ndarray,
) -> dict[str, np.ndarray]:
    by_rate = _signed(problem, run.spike_counts / duration[:, np.newaxis]) * scale
    return {
        "codes": codes,
        "spike_counts": run.spike_counts,
        "duration": duration,
        "scale": scale[:, 0],
        "rate_duality_gap": judge(problem, by_rate).duality_gap,
        "n_corrections": n_corrections,
    }

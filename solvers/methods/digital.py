"""The LASSO solved by digital neurons, in integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse

from snn import OperationCounts
from snn.base import checks
from snn.base.html import value_range
from snn.digital import Digital, DigitalFormat, DigitalNetwork
from snn.digital.run import DigitalRun, Integers
from snn.record.windows import smooth_rate_of_moments
from solvers._kernels.batch import CompressedRows, scaled_drive
from solvers._kernels.refinement import PRODUCTS_OF_RATE
from solvers.certificate.optimality import Optimality
from solvers.gram.gram import gram_of
from solvers.problem.conditioning import warn_if_ill_posed
from solvers.problem.lasso import LassoProblem
from solvers.results.best_codes import BestCodes
from solvers.results.joining import joined
from solvers.results.operations import CERTIFICATE, READ_OUT, OperationLedger, Work, ledger_of
from solvers.results.result import SparseCodingResult, certified_result, compressed_rows, entries_of
from solvers.spiking.batches import HEAD_START, run_until_certified
from solvers.spiking.network import LassoNetwork, signed
from solvers.spiking.stages import RefinedCodes
from solvers.workers.progress import progress_bar
from solvers.workers.spread import batch_slices, spread

READOUTS = ("smooth", "rate")
# Without refinement the network is looked at when it has run for this time, and for so many times as long.
FIRST_LOOK = 12.0
LOOK_GROWTH = math.sqrt(2.0)
# Rate of the busiest neuron, driven alone, so that a neuron rarely wants to fire twice in a step.
RATE_PER_DRIVE = 0.5
# In units of the largest drive: neurons driven downwards by more are as silent with this.
LOWEST_DRIVE = 4.0


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DigitalCodingResult(SparseCodingResult):
    """As `SparseCodingResult`, with what the digital network did.

    Attributes
    ----------
    readout : str
        How codes are read out of the network.
    n_stages : ndarray of int, shape (n_signals,)
        Runs of the network, one after the other.
    spikes : CompressedRows
        The entries of `sparse_spike_counts`.
    n_clock_steps : ndarray of int, shape (n_signals,)
        Steps of the network, of all stages.
    scale : ndarray, shape (n_signals,)
        The value of a code for one unit of spike rate, in the last stage.
    saturations : ndarray of int, shape (n_signals, 4)
        How often a register of a neuron was too narrow in a step: potential below, potential above, current,
        message.  Potentials of neurons that are not in the code come to the lower end, and stay there.
    ran_away : ndarray of bool, shape (n_signals,)
        Whether the network was stopped because its potentials ran up to the end of their registers.
    network : DigitalNetwork
        The integers; their drive is zero, since each signal has its own.
    problem : LassoProblem
        What was solved.
    """

    readout: str
    n_stages: np.ndarray
    spikes: CompressedRows
    n_clock_steps: np.ndarray
    scale: np.ndarray
    saturations: np.ndarray
    ran_away: np.ndarray
    network: DigitalNetwork
    problem: LassoProblem

    STEPS: ClassVar[str] = "spikes"

    @cached_property
    def sparse_spike_counts(self) -> sparse.csr_array:
        """How often each neuron fired, shape (n_signals, n_neurons); with two neurons for each atom, those of
        all positive neurons come first."""
        return compressed_rows((self.problem.n_signals, self.network.n_neurons), self.spikes)

    @property
    def duration(self) -> np.ndarray:
        """Simulated time of each signal, of all stages, in synaptic time constants, shape (n_signals,)."""
        return self.n_clock_steps * self.network.time_step

    def _facts(self) -> dict[str, str]:
        return {
            **super()._facts(),
            "read-out": self.readout,
            "duration": f"{value_range(self.duration)} synaptic time constants",
            "weights": f"{self.network.format.weights.bits} bits",
            "ran away": f"{int(np.count_nonzero(self.ran_away)):,} of {len(self.ran_away):,}",
        }

    @cached_property
    def operations(self) -> OperationLedger:
        """What each signal took, part by part: the network, and what was computed beside it.

        A weight that is rounded to zero is none: no message is delivered by it.
        """
        # Spikes are counted in the order of results.
        order = LassoNetwork(gram_of(self.problem), positive=self.problem.positive).in_result_order(
            np.arange(self.network.n_neurons)
        )
        counts = OperationCounts.of_clock(
            n_neurons=self.network.n_neurons,
            spikes=self.n_steps,
            synaptic_operations=self.sparse_spike_counts @ self.network.out_degree[order],
            n_steps=self.n_clock_steps,
        )
        assert self.work is not None
        return ledger_of(self.work, network=counts)


class Outcome(NamedTuple):
    """Of a batch of signals: one row or entry each."""

    codes: sparse.csr_array
    spikes: CompressedRows
    optimality: Optimality
    n_spikes: np.ndarray
    n_clock_steps: np.ndarray
    scale: np.ndarray
    n_stages: np.ndarray
    saturations: np.ndarray
    ran_away: np.ndarray
    multiply_adds: dict[str, np.ndarray]


def solve_digital(
    problem: LassoProblem,
    format: DigitalFormat | None = None,
    *,
    tol: float = 1e-3,
    time_step: float = 0.25,
    threshold: int | None = None,
    max_duration: float = 10_000.0,
    readout: str = "smooth",
    refine: bool = True,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> DigitalCodingResult:
    """Solve a LASSO with a network of digital neurons, one (positive) or two for each atom.

    The network `lasso_network` is made of integers (`DigitalNetwork`), and runs until the codes read out of
    it satisfy::

        duality_gap <= tol * 1/2 ||signal||^2

    The gap is that of the true problem, in float64: what rounding of weights, drives and potentials does to
    an answer is in it.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    format : DigitalFormat, optional
        Widths and rounding; by default those of `DigitalFormat`, Loihi's widths.
    tol : float, default 1e-3
        See above; the same for every solver.
    time_step : float, default 0.25
        Length of a step, in synaptic time constants.
    threshold : int, optional
        The largest firing threshold, in units of the potential; as of `DigitalNetwork.of`.
    max_duration : float, default 10000
        Simulated time, in synaptic time constants, after which the network is stopped; at least a step.
    readout : {"smooth", "rate"}, default "smooth"
        How codes are read out of spikes: each counts by a smooth bump over the run, as of `solve_spiking`, or
        all count the same.  "rate" comes without refinement alone.
    refine : bool, default True
        Start the network again, stage by stage, driven by what the code so far leaves of the signal, with
        spikes worth as much less, as `solve_spiking` does.  What is left of the signal is computed in
        float64, outside of the network.  So errors of the weights are corrected by the next stage.
        Without it codes are what the network alone says, and rounded weights leave a gap that no time closes.
    rng : int, Generator or None, default None
        For weights that are rounded stochastically, once.
    n_jobs, progress
        As of `solve_spiking`.

    Returns
    -------
    DigitalCodingResult
        Its `n_steps` are messages sent.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or value.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a signal does not reach `tol` by `max_duration`.  Its code is the best one read out by then, with
        its true gap.
    """
    checks.instance_of("problem", problem, LassoProblem)
    format = DigitalFormat() if format is None else checks.instance_of("format", format, DigitalFormat)
    tol = checks.positive_number("tol", tol)
    max_duration = checks.positive_number("max_duration", max_duration)
    how = Digital(time_step, format, threshold=threshold, rng=rng, lowest_drive=LOWEST_DRIVE)
    if max_duration < how.time_step:
        raise ValueError(
            f"max_duration must be at least one time_step, {how.time_step:g}; got {max_duration:g}"
        )
    readout = checks.one_of("readout", readout, READOUTS)
    refine = checks.flag("refine", refine)
    if refine and readout == "rate":
        raise ValueError(
            "refine must be False with readout='rate': stages are read through the smooth window"
        )
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    progress = checks.flag("progress", progress)
    if problem.has_own_weights:
        raise TypeError(
            "problem must have one mask for all signals, because the weights of one network are rounded; got "
            "one for each signal: solve the signals of each mask apart"
        )

    network = LassoNetwork(gram_of(problem), positive=problem.positive)
    integers = how.prepare(network)
    warn_if_ill_posed(problem)
    n_workers = effective_n_jobs(n_jobs) if problem.n_signals > 1 else 1
    parts = batch_slices(problem.n_signals, network.n_neurons, n_workers)
    batches = [problem.subset(part) for part in parts] if len(parts) > 1 else [problem]
    solve: Callable[..., Outcome] = _refined_batch if refine else partial(_one_run_batch, readout=readout)
    solve = partial(solve, network=network, how=integers, tol=tol, max_duration=max_duration)
    with progress_bar(len(batches), unit="batch", description="digital", shown=progress) as bar:
        outcome = joined(spread(solve, batches, n_jobs, n_workers, bar))
    limit = f"max_duration={max_duration:g}"
    if outcome.ran_away.any():
        limit += (
            f" (the networks of {int(outcome.ran_away.sum())} ran away and were stopped before: use more "
            "weight bits or a shorter time_step)"
        )
    return certified_result(
        problem,
        outcome.codes,
        method="digital",
        tol=tol,
        n_steps=outcome.n_spikes,
        limit=limit,
        optimality=outcome.optimality,
        kind=DigitalCodingResult,
        readout=readout,
        n_stages=outcome.n_stages,
        spikes=outcome.spikes,
        work=Work(outcome.multiply_adds),
        n_clock_steps=outcome.n_clock_steps,
        scale=outcome.scale,
        saturations=outcome.saturations,
        ran_away=outcome.ran_away,
        network=integers.network,
        problem=problem,
    )


def _refined_batch(
    problem: LassoProblem, network: LassoNetwork, how: Integers, tol: float, max_duration: float
) -> Outcome:
    """Run stage after stage until the codes are good enough."""
    best = BestCodes(problem)
    refined = RefinedCodes(problem, network, tol=tol, max_duration=max_duration, refine=True, how=how)
    run_until_certified(refined, best, tol=tol)
    return _outcome(
        best,
        network,
        refined.run,
        refined.scale,
        refined.n_stages.copy(),
        refined.n_multiply_adds.copy(),
    )


def _one_run_batch(
    problem: LassoProblem,
    network: LassoNetwork,
    how: Integers,
    tol: float,
    max_duration: float,
    readout: str,
) -> Outcome:
    """Run once, and look at the codes as time goes on; only certificates are computed outside."""
    n_signals = problem.n_signals
    soma_bias, scale = np.empty((n_signals, network.n_neurons)), np.empty(n_signals)
    scaled_drive(
        problem.correlations, problem.l1_weights, network.gram.diagonal, problem.positive, soma_bias, scale
    )
    scale /= RATE_PER_DRIVE
    soma_bias *= RATE_PER_DRIVE
    run = how.start(network, network.in_network_order(soma_bias), window_moments=readout == "smooth")
    run.membrane_potential[:] = HEAD_START * network.firing_threshold
    active = np.arange(n_signals)
    run.restart(active)
    best = BestCodes(problem)
    # What a network that runs away says is worse than nothing.
    best.put(active, np.zeros((n_signals, problem.n_atoms)), if_better=False)
    active = active[best.missed(active, tol)]
    n_read_out = np.zeros(n_signals, dtype=np.int64)
    products = PRODUCTS_OF_RATE if readout == "smooth" else 1
    n_steps, last = 0, int(max_duration / run.time_step)
    wanted = FIRST_LOOK / run.time_step
    while len(active) and n_steps < last:
        n_steps = min(max(round(wanted), n_steps + 1), last)
        wanted *= LOOK_GROWTH
        time = n_steps * run.time_step
        run.advance(time, active=active)
        n_read_out[active] += products * network.n_neurons
        if readout == "smooth":
            rates = smooth_rate_of_moments(run.window_moments[active], time)
        else:
            rates = run.messages[active] * how.network.message_value / time
        rates = network.in_result_order(rates)
        codes = signed(rates, positive=network.positive) * scale[active, np.newaxis]
        best.put(active, codes, if_better=True)
        active = active[best.missed(active, tol) & ~run.is_lost[active]]
    return _outcome(best, network, run, scale, np.ones(n_signals, dtype=np.int64), n_read_out)


def _outcome(
    best: BestCodes,
    network: LassoNetwork,
    run: DigitalRun,
    scale: np.ndarray,
    n_stages: np.ndarray,
    n_read_out: np.ndarray,
) -> Outcome:
    return Outcome(
        best.codes,
        entries_of(network.in_result_order(run.spike_counts)),
        best.optimality,
        run.spike_counts.sum(axis=1),
        run.total_steps,
        scale,
        n_stages,
        run.overflows.sum(axis=1),
        run.is_lost,
        {READ_OUT: n_read_out, CERTIFICATE: best.n_multiply_adds},
    )

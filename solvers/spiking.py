"""The LASSO solved by spikes."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from tqdm import tqdm

from snn import checks
from snn.event_driven import EventDrivenRun
from snn.state import NetworkState
from solvers._kernels.batch import scaled_drive
from solvers._kernels.finish import finish_codes
from solvers.convolution import ConvolutionalDictionary
from solvers.convolutional_finish import exact_codes
from solvers.optimality import Optimality, measure
from solvers.problem import LassoProblem
from solvers.result import SparseCodingResult, as_sparse, judged
from solvers.spiking_network import (
    LassoNetwork,
    in_network_order,
    in_result_order,
    network_of,
    rates_of,
    signed,
    store_gram,
    stored_gram,
)
from solvers.workers import spread

READOUTS = ("rate", "current", "exact")

# "rate" and "current" are judged at 2, 2.8, 4, 5.7 ...: nobody runs more than 1.41 times too long.
FIRST_CHECK = 2.0
CHECKS_PER_DOUBLING = 2
# "exact" starts potentials at half their thresholds, so that who is about to fire soon does, and leaves the
# network when a correction costs less than the spikes that would make it: docs/benchmarks, "When to leave".
HEAD_START = 0.5
FINISH_TIME = 2.0
# Where it does not end, a longer run may give a better start, but not without limit.
LAST_FINISH_TIME = 500.0
# Signals simulated together: bounded by memory, and so that Ctrl-C is quick.
VALUES_PER_BATCH = 1_000_000
LARGEST_BATCH = 256
# So that workers finish together.
BATCHES_PER_WORKER = 2
FIGURES = tuple(field.name for field in fields(Optimality))
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
    sparse_spike_counts : scipy.sparse.csr_array of int, shape (n_signals, n_neurons)
        Spikes of each neuron; where codes may be negative, of the positive halves, then of the
        negative ones.
    duration : ndarray, shape (n_signals,)
        Simulated time, in synaptic time constants.
    scale : ndarray, shape (n_signals,)
        What one unit of spike rate stands for: the network ran on the signal divided by this.
    n_corrections : ndarray of int, shape (n_signals,)
        Atoms that the exact read-out dropped from, or added to, the support that the spikes found.
    problem : LassoProblem
        What was solved.
    """

    readout: str
    sparse_spike_counts: sparse.csr_array
    duration: np.ndarray
    scale: np.ndarray
    n_corrections: np.ndarray
    problem: LassoProblem = field(repr=False)

    @cached_property
    def spike_counts(self) -> np.ndarray:
        """The spike counts as a dense array, shape (n_signals, n_neurons)."""
        return checks.read_only(self.sparse_spike_counts.toarray())

    @cached_property
    def n_synaptic_events(self) -> np.ndarray:
        """Deliveries of a spike to a target, shape (n_signals,)."""
        weights = network_of(self.problem, sparing=True).weights
        fired = np.unique(self.sparse_spike_counts.indices)
        numbers = in_result_order(self.problem, np.arange(weights.shape[0]))[fired]
        degrees = np.zeros(weights.shape[0], dtype=np.int64)
        degrees[fired] = weights.out_degrees(numbers)
        return checks.read_only(self.sparse_spike_counts @ degrees)

    @cached_property
    def rate_duality_gap(self) -> np.ndarray:
        """Duality gap of the plain spike rates: what the network did by itself, shape (n_signals,)."""
        rates = rates_of(self.problem, self.spike_counts, self.duration, self.scale)
        return checks.read_only(measure(self.problem, rates).duality_gap)


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
        - "exact": the atoms that fire in a short run, from potentials at half their thresholds, are a
          first guess of the support; the optimality equations are solved on it, and atoms dropped and
          added until the KKT conditions hold.  Ends at machine precision whatever `tol`, unless the
          atoms are so nearly dependent that the equations cannot be solved to it; then the best code met
          is kept.  `n_corrections` and `rate_duality_gap` of the result tell how much of it the network
          had done.
    n_jobs : int, optional
        Signals are spread over so many joblib workers, threads unless a `joblib.parallel_config` says
        otherwise.  The result does not depend on their number.
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    SpikingCodingResult

    Notes
    -----
    For a single signal in a large dictionary the Gram matrix is not made, unless the problem has it already:
    only the rows of atoms that fire, or that the exact read-out adds, are computed.  Of a convolutional
    dictionary the exact read-out makes the entries between atoms that may be active.

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

    network = network_of(problem, sparing=True)
    n_workers = effective_n_jobs(n_jobs) if problem.n_signals > 1 else 1
    size = min(VALUES_PER_BATCH // network.n_neurons, LARGEST_BATCH)
    if n_workers > 1:
        size = min(size, math.ceil(problem.n_signals / (BATCHES_PER_WORKER * n_workers)))
    size = max(size, 1)
    parts = [slice(start, start + size) for start in range(0, problem.n_signals, size)]
    batches = [problem.subset(part) for part in parts] if len(parts) > 1 else [problem]
    solve_batch = _finish_batch if readout == "exact" else _read_batch
    solve = partial(solve_batch, network=network, tol=tol, max_duration=max_duration, readout=readout)
    with tqdm(total=len(batches), unit="batch", desc="spiking") if progress else nullcontext() as bar:
        outcome = _joined(spread(solve, batches, n_jobs, n_workers, bar))
    return judged(
        problem,
        outcome.codes,
        method="spiking",
        tol=tol,
        n_steps=outcome.n_spikes,
        limit="the precision of the exact read-out"
        if readout == "exact"
        else f"max_duration={max_duration:g}",
        optimality=outcome.optimality,
        kind=SpikingCodingResult,
        readout=readout,
        sparse_spike_counts=outcome.spike_counts,
        duration=outcome.duration,
        scale=outcome.scale,
        n_corrections=outcome.n_corrections,
        problem=problem,
    )


class _Outcome(NamedTuple):
    """Of a batch of signals: rows, or entries, one each."""

    codes: sparse.csr_array
    optimality: Optimality
    spike_counts: sparse.csr_array
    n_spikes: np.ndarray
    duration: np.ndarray
    scale: np.ndarray
    n_corrections: np.ndarray


def _joined(outcomes: list[_Outcome]) -> _Outcome:
    if len(outcomes) == 1:
        return outcomes[0]
    codes, optimality, spike_counts, *arrays = zip(*outcomes, strict=True)
    figures = {name: np.concatenate([getattr(part, name) for part in optimality]) for name in FIGURES}
    return _Outcome(
        sparse.vstack(codes, format="csr"),
        Optimality(**figures),
        sparse.vstack(spike_counts, format="csr"),
        *map(np.concatenate, arrays),
    )


class _Best:
    """The codes of a batch of signals, and what the judge says of them."""

    def __init__(self, problem: LassoProblem) -> None:
        self.problem = problem
        self.codes = None
        self.optimality = None

    def put(self, which: np.ndarray, codes: np.ndarray, *, if_better: bool) -> None:
        """Have codes judged, and take them for the signals `which`; at first these are all."""
        everybody = len(which) == self.problem.n_signals
        codes = as_sparse(codes)
        optimality = measure(self.problem if everybody else self.problem.subset(which), codes)
        if self.codes is None or (everybody and not if_better):
            self.codes, self.optimality = codes, optimality
            return
        taken = np.ones(len(which), dtype=np.bool_)
        if if_better:
            taken = optimality.duality_gap < self.optimality.duality_gap[which]
        rows = np.arange(self.problem.n_signals)
        rows[which[taken]] = self.problem.n_signals + np.flatnonzero(taken)
        self.codes = sparse.vstack([self.codes, codes], format="csr")[rows]
        for name in FIGURES:
            getattr(self.optimality, name)[which[taken]] = getattr(optimality, name)[taken]

    def missed(self, which: np.ndarray, tol: float) -> np.ndarray:
        """Return which of the signals `which` have a gap above `tol`."""
        return ~(self.optimality.duality_gap[which] <= tol * self.problem.energies[which])

    def outcome(
        self, run: EventDrivenRun, duration: np.ndarray, scale: np.ndarray, n_corrections: np.ndarray
    ) -> _Outcome:
        return _Outcome(
            self.codes,
            self.optimality,
            as_sparse(in_result_order(self.problem, run.spike_counts)),
            run.spike_counts.sum(axis=1),
            duration,
            scale,
            n_corrections,
        )


def _start(
    problem: LassoProblem, network: LassoNetwork, head_start: float = 0.0
) -> tuple[EventDrivenRun, np.ndarray]:
    """Return the networks of all signals, potentials at a part of their thresholds, and their scales.

    A scale is the largest rate that a neuron's drive would cause alone, 1 where nobody is driven.
    """
    soma_bias = np.empty((problem.n_signals, network.n_neurons))
    scale = np.empty(problem.n_signals)
    scaled_drive(
        problem.correlations,
        problem.l1_weights,
        problem.squared_norms + problem.curvatures,
        problem.positive,
        soma_bias,
        scale,
    )
    state = None
    if head_start > 0.0:
        state = NetworkState.unchecked(
            head_start * network.firing_threshold, np.zeros(network.n_neurons), time=0.0
        )
    return EventDrivenRun(network, in_network_order(problem, soma_bias), state), scale


def _read_batch(
    problem: LassoProblem, network: LassoNetwork, tol: float, max_duration: float, readout: str
) -> _Outcome:
    """Run until the rates, or the average currents of the second half, are good enough."""
    run, scale = _start(problem, network)
    best = _Best(problem)
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
            counts = in_result_order(problem, run.spike_counts[active])
            codes = rates_of(problem, counts, duration[active], scale[active])
        else:
            # The integral of each soma current since the start (docs/theory.md, equation 4).
            charge = network.firing_threshold * run.spike_counts + run.membrane_potential
            start, charge_then = history.pop(0)
            average = (charge[active] - charge_then[active]) / (time - start)
            rates = np.maximum(average, 0.0) / network.firing_threshold
            codes = signed(problem, in_result_order(problem, rates)) * scale[active, np.newaxis]
            history.append((time, charge))
        best.put(active, codes, if_better=False)
        active = active[best.missed(active, tol)] if time < max_duration else active[:0]
        check += 1
    return best.outcome(run, duration, scale, np.zeros(problem.n_signals, dtype=np.int64))


def _finish_batch(
    problem: LassoProblem, network: LassoNetwork, tol: float, max_duration: float, readout: str
) -> _Outcome:
    """Run until the support is nearly right, then solve the optimality equations on it."""
    run, scale = _start(problem, network, HEAD_START)
    best = _Best(problem)
    duration = np.zeros(problem.n_signals)
    n_corrections = np.zeros(problem.n_signals, dtype=np.int64)
    active = np.arange(problem.n_signals)
    time = min(FINISH_TIME, max_duration)
    while len(active):
        run.advance(time, active=active)
        duration[active] = time
        codes, n_corrections[active], ended = _finish(problem, run, active)
        best.put(active, codes, if_better=True)
        missed = best.missed(active, tol)
        # On a support that is close to singular the equations may lead astray: keep what is best.
        if missed.any():
            counts = in_result_order(problem, run.spike_counts[active])
            rates = rates_of(problem, counts, duration[active], scale[active])
            best.put(active, rates, if_better=True)
            best.put(active, np.zeros_like(rates), if_better=True)
            missed = best.missed(active, tol)
        # Where the method ended, all that is left is rounding, and no spike can improve on it.
        active = active[missed & ~ended] if time < min(max_duration, LAST_FINISH_TIME) else active[:0]
        time = min(4.0 * time, max_duration)
    return best.outcome(run, duration, scale, n_corrections)


def _finish(
    problem: LassoProblem, run: EventDrivenRun, signals: np.ndarray
) -> tuple[np.ndarray | sparse.csr_array, np.ndarray, np.ndarray]:
    """Return the exact codes of some signals, the corrections they took, and whether each ended."""
    if isinstance(problem.dictionary, ConvolutionalDictionary):
        return exact_codes(problem, run, signals)
    codes = np.zeros((len(signals), problem.n_atoms))
    n_corrections = np.zeros(len(signals), dtype=np.int64)
    ended = np.zeros(len(signals), dtype=np.bool_)
    wanted = np.zeros(problem.n_atoms, dtype=np.bool_)
    step = max(1, FINISHES_PER_CALL // problem.n_atoms)
    start = 0
    while start < len(signals):
        part = slice(start, start + step)
        rows, row_of = stored_gram(run.network.weights)
        finish_codes(
            rows,
            row_of,
            problem.correlations,
            problem.l1_weights,
            problem.curvatures,
            problem.positive,
            signals[part],
            run.spike_counts,
            run.membrane_potential,
            run.network.firing_threshold,
            ROUNDS_PER_ATOM * problem.n_atoms,
            codes[part],
            n_corrections[part],
            ended[part],
            wanted,
        )
        if wanted.any():
            # Again, with rows of the Gram matrix that nobody who fired has asked for.
            store_gram(run.network.weights, np.flatnonzero(wanted))
            wanted[:] = False
            codes[part] = 0.0
        else:
            start += step
    return codes, n_corrections, ended

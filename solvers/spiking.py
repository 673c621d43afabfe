"""The LASSO solved by spikes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from tqdm import tqdm

from snn import checks
from snn.event_driven import EventDrivenRun
from snn.state import NetworkState
from solvers._kernels.batch import CompressedRows, average_currents, scaled_drive
from solvers.best_codes import BestCodes, joined_optimality
from solvers.gram import gram_of
from solvers.optimality import Optimality, measure
from solvers.problem import LassoProblem
from solvers.refinement import RefinedCodes
from solvers.result import (
    SparseCodingResult,
    certified_result,
    compressed_rows,
    entries_of,
    joined_rows,
)
from solvers.spiking_network import LassoNetwork
from solvers.start import Start, start_codes
from solvers.workers import batch_slices, spread

READOUTS = ("smooth", "rate", "current")

# Rates and average currents are read out at 2, 2.8, 4, 5.7 ... synaptic time constants: no run is more than
# 1.41 times too long.
FIRST_CHECK = 2.0
CHECKS_PER_DOUBLING = 2
# With polish, potentials start at this share of their thresholds, so that neurons that will fire soon fire
# before the run ends: `python -m tests.benchmarks random`.
HEAD_START = 0.5
# Simulated time before the active-set method, in synaptic time constants: from there on, a correction costs
# less than the spikes that would make it.  Measured by `python -m tests.benchmarks finish`.
POLISH_TIME = 2.0
# Where the method does not end, it starts again from runs that are POLISH_GROWTH times as long, up to this
# time, in synaptic time constants.  Only nearly dependent atoms come that far.
LAST_POLISH_TIME = 500.0
POLISH_GROWTH = 4.0


@dataclass(frozen=True, eq=False, kw_only=True)
class SpikingCodingResult(SparseCodingResult):
    """As `SparseCodingResult`, with what the network did, and what the active-set method did.

    Attributes
    ----------
    readout : str
        How codes are read out of the network.
    polished : ndarray of bool, shape (n_signals,)
        Whether the code is that of the active-set method, and not the read-out of the network.
    n_corrections : ndarray of int, shape (n_signals,)
        Atoms that the active-set method removed from, or added to, the support that the spikes found; 0 where
        the code is not polished.
    n_stages : ndarray of int, shape (n_signals,)
        Runs of the network, one after the other; 1 unless codes were refined.
    spikes : CompressedRows
        The entries of `sparse_spike_counts`.
    currents : CompressedRows or None
        The entries of `sparse_average_currents`.
    duration : ndarray, shape (n_signals,)
        Simulated time, of all stages, in synaptic time constants.
    scale : ndarray, shape (n_signals,)
        The value of a code for one unit of spike rate, in the last stage: the network ran on the signal
        divided by this.
    problem : LassoProblem
        What was solved.
    """

    readout: str
    polished: np.ndarray
    n_corrections: np.ndarray
    n_stages: np.ndarray
    spikes: CompressedRows
    currents: CompressedRows | None
    duration: np.ndarray
    scale: np.ndarray
    problem: LassoProblem = field(repr=False)

    @cached_property
    def sparse_spike_counts(self) -> sparse.csr_array:
        """Spikes of each neuron, shape (n_signals, n_neurons).

        Where codes may be negative, those of all positive neurons come before those of all negative ones.
        """
        n_neurons = self.problem.n_atoms if self.problem.positive else 2 * self.problem.n_atoms
        return compressed_rows((self.problem.n_signals, n_neurons), self.spikes)

    @cached_property
    def sparse_average_currents(self) -> sparse.csr_array | None:
        """Average soma currents of the neurons that fired, times `scale`, shape (n_signals, n_atoms).

        Where an average is negative it counts as zero, and the potential at the start counts as current.
        With two neurons for each atom it is the positive one's minus the negative one's.  None if codes were
        read through a smooth window, of stages that differ in scale.
        """
        if self.currents is None:
            return None
        return compressed_rows((self.problem.n_signals, self.problem.n_atoms), self.currents)

    @cached_property
    def spike_counts(self) -> np.ndarray:
        """The spike counts as a dense array, shape (n_signals, n_neurons)."""
        return checks.read_only(self.sparse_spike_counts.toarray())

    @cached_property
    def n_synaptic_events(self) -> np.ndarray:
        """How many times a spike reached a target, shape (n_signals,)."""
        network = self._network
        fired = np.unique(self.sparse_spike_counts.indices)
        degrees = np.zeros(network.n_neurons, dtype=np.int64)
        degrees[fired] = network.out_degrees(fired)
        return checks.read_only(self.sparse_spike_counts @ degrees)

    @cached_property
    def rate_duality_gap(self) -> np.ndarray:
        """Duality gap of the plain spike rates, shape (n_signals,); NaN where there were several stages."""
        rates = self._network.rates(self.spike_counts, self.duration, self.scale)
        gaps = measure(self.problem, rates).duality_gap
        return checks.read_only(np.where(self.n_stages > 1, np.nan, gaps))

    def start_currents(self, squared_norms: np.ndarray) -> sparse.csr_array:
        """Return what `solve_active_set` starts from: the average currents of the neurons that fired, or
        ||d_i||^2 a_i.

        Parameters
        ----------
        squared_norms : ndarray, shape (n_atoms,)
            ||d_i||^2.
        """
        if self.currents is None:
            return super().start_currents(squared_norms)
        return self.sparse_average_currents

    @property
    def _network(self) -> LassoNetwork:
        return LassoNetwork(gram_of(self.problem, on_demand=True), positive=self.problem.positive)


def solve_spiking(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float = 1e-3,
    max_duration: float = 10_000.0,
    readout: str = "smooth",
    refine: bool = True,
    polish: bool = False,
    time_step: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> SpikingCodingResult:
    """Solve a LASSO with a network of spiking neurons, one (positive) or two for each atom.

    The network `lasso_network` runs, exactly and event by event, until the codes read out of it satisfy::

        duality_gap <= tol * 1/2 ||signal||^2

    Signal and penalty are first divided by a `scale` at which the busiest neuron alone would fire once in one
    or two synaptic time constants; codes are multiplied by it.  So neither the codes nor the number of spikes
    depend on the unit of the signals.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    start : array_like or scipy.sparse.csr_array of shape (n_signals, n_atoms), or result, optional
        Where to start: codes, or the result of a solver, for the smooth read-out.  The network then codes
        what these codes, drawn a little towards zero, leave of the signal.  A signal of which they are worse
        than zero starts from zero, as all do by default.
    tol : float, default 1e-3
        See above; the same for every solver.
    max_duration : float, default 10000
        Simulated time, in synaptic time constants, after which the network is stopped.
    readout : {"smooth", "rate", "current"}, default "smooth"
        How codes are read out of the network.

        - "smooth": each spike counts by a bump that rises and falls smoothly over the run,
          a = 1/t sum_k 30 s_k^2 (1 - s_k)^2 with s_k = t_k / t; or the thresholded current that these rates
          cause, max(beta + W^T a, 0) / theta, whichever has the smaller gap.  Without `refine` the gap falls
          like 1 / t^2.
        - "rate": spikes per unit of time since the start, a = n / t.  Its gap falls like 1 / t.
        - "current": the thresholded average current, max(u, 0) / theta, over the second half of the
          time so far (with `polish`, over the last three quarters).  Sparser, and much closer to the optimum
          at the same time.
    refine : bool, default True
        With the smooth read-out, and as soon as the gap has fallen to a tenth: start the network again,
        driven by what the code, drawn a little towards zero, leaves of the signal, with spikes worth as much
        less; its rates are added to that code.  Each such stage gains a factor of ten or more for about as
        many spikes as the first: the gap falls exponentially with the number of spikes.
    polish : bool, default False
        Run the network for a short time only, from potentials at half their thresholds, and solve from there
        with the method of `solve_active_set`: the atoms whose neurons fired are the first support.  The codes
        are optimal to rounding whatever `tol`, unless the atoms are so nearly dependent that double precision
        cannot solve the optimality equations; then the best code met is kept, the read-out among them.
        `polished`, `n_corrections` and `rate_duality_gap` of the result say how much of the work the network
        did.
    time_step : float, optional
        Run the network on a clock of this step that keeps charge (`simulate_clocked`), as a chip would, and
        not from event to event; with the smooth read-out alone.  The gap is certified all the same, and steps
        of 1/4 take about as many spikes.  Where the atoms of a code have a Gram matrix with an eigenvalue of
        2 / (1 - e^-time_step) or more, a step is too long: rates swing (docs/theory.md, section 7).
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
        If an argument is of the wrong kind or value, or there is a `start` and another read-out, or `polish`.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a signal does not reach `tol` by `max_duration`.  Its code is the best one read out by then
        (with "rate" and "current", the last one), with its true gap.

    Notes
    -----
    For a single signal in a large dictionary the Gram matrix is not computed, unless the problem has it
    already: only the rows of atoms that fire, or that `polish` adds, are.  With a convolutional dictionary
    `polish` computes the entries between atoms that may be active.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475: the network, Theorem 2 (convergence), section 4
    (read-outs "rate" and "current").  The smooth window and refinement: docs/theory.md, section 4.
    """
    checks.instance_of("problem", problem, LassoProblem)
    tol = checks.positive_number("tol", tol)
    max_duration = checks.positive_number("max_duration", max_duration)
    readout = checks.one_of("readout", readout, READOUTS)
    refine = checks.flag("refine", refine)
    polish = checks.flag("polish", polish)
    if time_step is not None:
        time_step = checks.positive_number("time_step", time_step)
        if polish or readout != "smooth":
            raise ValueError(
                f"time_step must come with readout='smooth' and polish=False; got {readout!r} and {polish}"
            )
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    progress = checks.flag("progress", progress)
    codes_at_start = start_codes(problem, start)
    if codes_at_start is not None and (polish or readout != "smooth"):
        raise ValueError(
            'start must be None unless codes are read out "smooth" and not polished; got a start with '
            f"readout={readout!r}, polish={polish}: solve_active_set takes any start"
        )

    network = LassoNetwork(gram_of(problem, on_demand=True), positive=problem.positive)
    n_workers = effective_n_jobs(n_jobs) if problem.n_signals > 1 else 1
    parts = batch_slices(problem.n_signals, network.n_neurons, n_workers)
    batches = [problem.subset(part) for part in parts] if len(parts) > 1 else [problem]
    if polish:
        solve = _polish_batch
    elif readout == "smooth":
        starts = [None if codes_at_start is None else codes_at_start[part] for part in parts]
        batches = list(zip(batches, starts, strict=True))
        solve = partial(_read_smooth_batch, refine=refine, time_step=time_step)
    else:
        solve = partial(_read_batch, readout=readout)
    solve = partial(solve, network=network, tol=tol, max_duration=max_duration)
    with tqdm(total=len(batches), unit="batch", desc="spiking") if progress else nullcontext() as bar:
        outcome = _joined(spread(solve, batches, n_jobs, n_workers, bar))
    return certified_result(
        problem,
        outcome.codes,
        method="spiking",
        tol=tol,
        n_steps=outcome.n_spikes,
        limit="the precision of the active-set method" if polish else f"max_duration={max_duration:g}",
        optimality=outcome.optimality,
        kind=SpikingCodingResult,
        readout=readout,
        polished=outcome.polished,
        n_corrections=outcome.n_corrections,
        n_stages=outcome.n_stages,
        spikes=outcome.spikes,
        currents=outcome.currents,
        duration=outcome.duration,
        scale=outcome.scale,
        problem=problem,
    )


class _Outcome(NamedTuple):
    """Of a batch of signals: one row or entry each."""

    codes: sparse.csr_array
    spikes: CompressedRows
    currents: CompressedRows | None
    optimality: Optimality
    n_spikes: np.ndarray
    duration: np.ndarray
    scale: np.ndarray
    polished: np.ndarray
    n_corrections: np.ndarray
    n_stages: np.ndarray


def _joined(outcomes: list[_Outcome]) -> _Outcome:
    if len(outcomes) == 1:
        return outcomes[0]
    codes, spikes, currents, optimality, *arrays = zip(*outcomes, strict=True)
    return _Outcome(
        sparse.vstack(codes, format="csr"),
        joined_rows(spikes),
        None if currents[0] is None else joined_rows(currents),
        joined_optimality(optimality),
        *map(np.concatenate, arrays),
    )


class _BatchRun:
    """The networks of a batch of signals, from potentials at a share of their thresholds.

    scale : the largest rate that the drive of a neuron alone would cause, 1 where no neuron is driven.
    duration : simulated time of each signal.
    """

    def __init__(
        self, problem: LassoProblem, network: LassoNetwork, readout: str, *, head_start: float, n_windows: int
    ) -> None:
        self.problem = problem
        self.network = network
        soma_bias = np.empty((problem.n_signals, network.n_neurons))
        self.scale = np.empty(problem.n_signals)
        scaled_drive(
            problem.correlations,
            problem.l1_weights,
            network.gram.diagonal,
            problem.positive,
            soma_bias,
            self.scale,
        )
        state = None
        if head_start > 0.0:
            state = NetworkState.unchecked(
                head_start * network.firing_threshold, np.zeros(network.n_neurons), time=0.0
            )
        self.run = EventDrivenRun(network, network.in_network_order(soma_bias), state)
        self.duration = np.zeros(problem.n_signals)
        self.readout = readout
        # Times and charges at the last `n_windows` read-outs of average currents.
        self._history = [] if readout == "rate" else [(0.0, self.run.membrane_potential.copy())] * n_windows

    def advance(self, signals: np.ndarray, time: float) -> None:
        """Advance the networks of some signals, all of which are at the same time."""
        self.run.advance(time, active=signals)
        self.duration[signals] = time

    def read_out(self, signals: np.ndarray) -> np.ndarray:
        """Return the codes read out of some networks, which are at the same time."""
        return self._rates(signals) if self.readout == "rate" else self._average_current_codes(signals)

    def _rates(self, signals: np.ndarray) -> np.ndarray:
        counts = self.network.in_result_order(self.run.spike_counts[signals])
        return self.network.rates(counts, self.duration[signals], self.scale[signals])

    def _average_current_codes(self, signals: np.ndarray) -> np.ndarray:
        # The integral of each soma current since the start (docs/theory.md, equation 4).
        thresholds = self.network.firing_threshold
        charge = thresholds * self.run.spike_counts + self.run.membrane_potential
        time = self.duration[signals[0]]
        start, charge_then = self._history.pop(0)
        average = (charge[signals] - charge_then[signals]) / (time - start)
        rates = self.network.in_result_order(np.maximum(average, 0.0) / thresholds)
        self._history.append((time, charge))
        return self.network.signed(rates) * self.scale[signals, np.newaxis]

    def average_currents(self) -> CompressedRows:
        """Return the average currents of the atoms that fired for each signal, in units of correlations."""
        rows = average_currents(
            self.run.spike_counts,
            self.run.membrane_potential,
            self.network.firing_threshold,
            self.scale / self.duration,
            self.network.gram.group_length,
            self.network.positive,
        )
        return CompressedRows(*rows)

    def outcome(
        self, best: BestCodes, fired: CompressedRows, polished: np.ndarray, n_corrections: np.ndarray
    ) -> _Outcome:
        """Return the codes, and what the networks did; `fired` are the average currents."""
        return _Outcome(
            best.codes,
            entries_of(self.network.in_result_order(self.run.spike_counts)),
            fired,
            best.optimality,
            self.run.spike_counts.sum(axis=1),
            self.duration,
            self.scale,
            polished,
            n_corrections,
            np.ones(self.problem.n_signals, dtype=np.int64),
        )


def _read_smooth_batch(
    batch: tuple[LassoProblem, sparse.csr_array | None],
    network: LassoNetwork,
    tol: float,
    max_duration: float,
    refine: bool,
    time_step: float | None,
) -> _Outcome:
    """Run until the codes read through the smooth window are good enough."""
    problem, start = batch
    best = BestCodes(problem)
    signals = np.arange(problem.n_signals)
    if start is not None:
        best.put(signals, sparse.csr_array(start.shape), if_better=False)
        best.put(signals, start, if_better=True)
        start = best.codes.toarray()
    refined = RefinedCodes(
        problem,
        network,
        tol=tol,
        max_duration=max_duration,
        refine=refine,
        start=start,
        time_step=time_step,
    )
    while len(signals):
        while len(refined.active):
            refined.advance()
        best.put(signals, refined.codes[signals], if_better=best.codes is not None)
        # What the signals themselves say of a gap may differ from what correlations say, by rounding.
        signals = signals[best.missed(signals, tol) & (refined.duration[signals] < max_duration)]
        if len(signals):
            refined.tighten(signals)
    n_signals = problem.n_signals
    return _Outcome(
        best.codes,
        entries_of(network.in_result_order(refined.run.spike_counts)),
        None,
        best.optimality,
        refined.run.spike_counts.sum(axis=1),
        refined.duration.copy(),
        refined.scale,
        np.zeros(n_signals, dtype=np.bool_),
        np.zeros(n_signals, dtype=np.int64),
        refined.n_stages.copy(),
    )


def _read_batch(
    problem: LassoProblem, network: LassoNetwork, tol: float, max_duration: float, readout: str
) -> _Outcome:
    """Run until the codes read out are good enough."""
    # Average currents are those since a doubling of the time ago: of the second half.
    batch = _BatchRun(problem, network, readout, head_start=0.0, n_windows=CHECKS_PER_DOUBLING)
    best = BestCodes(problem)
    active = np.arange(problem.n_signals)
    check = 0
    while len(active):
        time = min(FIRST_CHECK * 2.0 ** (check / CHECKS_PER_DOUBLING), max_duration)
        batch.advance(active, time)
        best.put(active, batch.read_out(active), if_better=False)
        active = active[best.missed(active, tol)] if time < max_duration else active[:0]
        check += 1
    polished = np.zeros(problem.n_signals, dtype=np.bool_)
    return batch.outcome(best, batch.average_currents(), polished, polished.astype(np.int64))


def _polish_batch(problem: LassoProblem, network: LassoNetwork, tol: float, max_duration: float) -> _Outcome:
    """Run until the support is nearly right, and correct it by the active-set method."""
    # Read out are average currents, where the method fails.
    batch = _BatchRun(problem, network, "current", head_start=HEAD_START, n_windows=1)
    best = BestCodes(problem)
    polished = np.zeros(problem.n_signals, dtype=np.bool_)
    n_corrections = np.zeros(problem.n_signals, dtype=np.int64)
    active = np.arange(problem.n_signals)
    time = min(POLISH_TIME, max_duration)
    while len(active):
        batch.advance(active, time)
        fired = batch.average_currents()
        solved = network.gram.optimal_codes(problem, active, fired)
        kept = best.put(active, solved.codes, if_better=True)
        polished[active[kept]] = True
        n_corrections[active[kept]] = solved.n_corrections[kept]
        missed = best.missed(active, tol)
        # On a support that is close to singular the equations may lead astray: keep what is best.
        if missed.any():
            read_out = batch.read_out(active)
            for codes in (read_out, np.zeros_like(read_out)):
                kept = best.put(active, codes, if_better=True)
                polished[active[kept]] = False
                n_corrections[active[kept]] = 0
            missed = best.missed(active, tol)
        # Where the method ended, only rounding is left, and no spike can improve on it.
        active = active[missed & ~solved.ended] if time < min(max_duration, LAST_POLISH_TIME) else active[:0]
        time = min(POLISH_GROWTH * time, max_duration)
    return batch.outcome(best, fired, polished, n_corrections)

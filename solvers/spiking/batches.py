"""Batches of signals: their networks run until the codes read out of them are good enough."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from snn.run.exact import Exact
from snn.run.run import Time
from snn.state import NetworkState
from solvers._kernels.batch import CompressedRows, average_currents, scaled_drive
from solvers.certificate.optimality import Optimality
from solvers.problem.lasso import LassoProblem
from solvers.results.best_codes import BestCodes
from solvers.results.operations import CERTIFICATE, GRAM, POLISH, READ_OUT
from solvers.results.result import entries_of
from solvers.spiking.network import LassoNetwork, signed, spike_rates
from solvers.spiking.stages import RefinedCodes
from solvers.workers.progress import is_shown, report, share_of_decades

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


class Outcome(NamedTuple):
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
    n_clock_steps: np.ndarray | None
    is_lost: np.ndarray
    multiply_adds: dict[str, np.ndarray]


class BatchRun:
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
        self.run = Exact().start(network, network.in_network_order(soma_bias), state, gives_up=True)
        self.duration = np.zeros(problem.n_signals)
        self.n_read_out = np.zeros(problem.n_signals, dtype=np.int64)
        self.readout = readout
        # What rounding makes of their potentials is no code.
        self._zero_atoms = np.flatnonzero(problem.weighted_setup.squared_norms == 0.0)
        # Times and charges at the last `n_windows` read-outs of average currents.
        beginning = self.duration.copy(), self.run.membrane_potential.copy()
        self._history = [] if readout == "rate" else [beginning] * n_windows

    def advance(self, signals: np.ndarray, time: float) -> None:
        """Advance the networks of some signals, all of which are at the same time.

        Those that are lost stay behind.
        """
        self.run.advance(time, active=signals)
        self.duration[signals] = self.run.time[signals]

    def read_out(self, signals: np.ndarray) -> np.ndarray:
        """Return the codes read out of some networks."""
        # A product for each neuron, and for average currents another one, that of its charge.
        n_products = self.network.n_neurons * (1 if self.readout == "rate" else 2)
        self.n_read_out[signals] += n_products
        return self._rates(signals) if self.readout == "rate" else self._average_current_codes(signals)

    def _rates(self, signals: np.ndarray) -> np.ndarray:
        counts = self.network.in_result_order(self.run.spike_counts[signals])
        return spike_rates(
            counts, self.duration[signals], self.scale[signals], positive=self.network.positive
        )

    def _average_current_codes(self, signals: np.ndarray) -> np.ndarray:
        # The integral of each soma current since the start (docs/theory.md, equation 4).
        thresholds = self.network.firing_threshold
        charge = thresholds * self.run.spike_counts + self.run.membrane_potential
        start, charge_then = self._history.pop(0)
        time = self.duration.copy()
        average = np.zeros((len(signals), charge.shape[1]))
        # No time has passed where a network was lost right at the start of the interval.
        elapsed = (time - start)[signals, np.newaxis]
        np.divide(charge[signals] - charge_then[signals], elapsed, out=average, where=elapsed > 0.0)
        rates = self.network.in_result_order(np.maximum(average, 0.0) / thresholds)
        self._history.append((time, charge))
        codes = signed(rates, positive=self.network.positive) * self.scale[signals, np.newaxis]
        codes[:, self._zero_atoms] = 0.0
        return codes

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
        self,
        best: BestCodes,
        fired: CompressedRows,
        polished: np.ndarray,
        n_corrections: np.ndarray,
        **multiply_adds: np.ndarray,
    ) -> Outcome:
        """Return the codes, and what the networks did; `fired` are the average currents."""
        n_rows = np.full(self.problem.n_signals, self.network.gram.n_multiply_adds)
        return Outcome(
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
            None,
            self.run.is_lost,
            {
                READ_OUT: self.n_read_out,
                POLISH: multiply_adds.get(POLISH, np.zeros_like(n_rows)),
                GRAM: n_rows + multiply_adds.get(GRAM, 0),
                CERTIFICATE: best.n_multiply_adds,
            },
        )


def read_smooth_batch(
    batch: tuple[LassoProblem, sparse.csr_array | None],
    network: LassoNetwork,
    tol: float,
    max_duration: float,
    refine: bool,
    how: Time[Any],
) -> Outcome:
    """Run until the codes read through the smooth window are good enough."""
    problem, start = batch
    best = BestCodes(problem)
    if start is not None:
        signals = np.arange(problem.n_signals)
        best.put(signals, sparse.csr_array(start.shape), if_better=False)
        best.put(signals, start, if_better=True)
        start = best.codes.toarray()
    refined = RefinedCodes(
        problem,
        network,
        how=how,
        tol=tol,
        max_duration=max_duration,
        refine=refine,
        start=start,
    )
    run_until_certified(refined, best, tol=tol)
    n_signals = problem.n_signals
    return Outcome(
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
        refined.run.total_steps,
        refined.run.is_lost,
        {
            READ_OUT: refined.n_multiply_adds.copy(),
            GRAM: np.full(n_signals, network.gram.n_multiply_adds),
            CERTIFICATE: best.n_multiply_adds,
        },
    )


def run_until_certified(refined: RefinedCodes[Any], best: BestCodes, *, tol: float) -> None:
    """Run the networks of a batch until certificates confirm `tol`, or to their ends; keep the best.

    Parameters
    ----------
    refined : RefinedCodes
        The networks.
    best : BestCodes
        Gets their codes.
    tol : float
        As of `solve_spiking`.
    """
    problem = best.problem
    signals = np.arange(problem.n_signals)
    while len(signals):
        while len(refined.active):
            refined.advance()
            if is_shown():
                worst = float((refined.gaps / np.maximum(problem.energies, np.finfo(float).tiny)).max())
                report(0.99 * share_of_decades(worst, 1.0, tol), f"gap {worst:.1e}")
        best.put(signals, refined.codes[signals], if_better=best.has_codes)
        # What the signals themselves say of a gap may differ from what correlations say, by rounding.
        signals = signals[best.missed(signals, tol) & refined.can_improve(signals)]
        if len(signals):
            refined.tighten(signals)
            # Where no neuron is driven, only rounding is left.
            signals = refined.active


def read_batch(
    problem: LassoProblem, network: LassoNetwork, tol: float, max_duration: float, readout: str
) -> Outcome:
    """Run until the codes read out are good enough."""
    # Average currents are those since a doubling of the time ago: of the second half.
    batch = BatchRun(problem, network, readout, head_start=0.0, n_windows=CHECKS_PER_DOUBLING)
    best = BestCodes(problem)
    active = np.arange(problem.n_signals)
    check = 0
    while len(active):
        time = min(FIRST_CHECK * 2.0 ** (check / CHECKS_PER_DOUBLING), max_duration)
        batch.advance(active, time)
        codes = batch.read_out(active)
        is_lost = batch.run.is_lost[active]
        if is_lost.any() and not best.has_codes:
            best.put(active, np.zeros_like(codes), if_better=False)
        # What is read out in the middle of a burst may be worse than the code before.
        best.put(active, codes, if_better=is_lost)
        goes_on = best.missed(active, tol) & ~is_lost
        active = active[goes_on] if time < max_duration else active[:0]
        check += 1
    polished = np.zeros(problem.n_signals, dtype=np.bool_)
    return batch.outcome(best, batch.average_currents(), polished, polished.astype(np.int64))


def polish_batch(problem: LassoProblem, network: LassoNetwork, tol: float, max_duration: float) -> Outcome:
    """Run until the support is nearly right, and correct it by the active-set method."""
    # Read out are average currents, where the method fails.
    batch = BatchRun(problem, network, "current", head_start=HEAD_START, n_windows=1)
    best = BestCodes(problem)
    polished = np.zeros(problem.n_signals, dtype=np.bool_)
    n_corrections, n_products, n_gram_products = np.zeros((3, problem.n_signals), dtype=np.int64)
    active = np.arange(problem.n_signals)
    time = min(POLISH_TIME, max_duration)
    while len(active):
        batch.advance(active, time)
        fired = batch.average_currents()
        solved = network.gram.optimal_codes(problem, active, fired)
        n_products[active] += solved.n_multiply_adds
        n_gram_products[active] += solved.n_gram_multiply_adds
        kept = best.put(active, solved.codes, if_better=True)
        polished[active[kept]] = True
        n_corrections[active[kept]] = solved.n_corrections[kept]
        missed = best.missed(active, tol)
        # On a support that is close to singular the equations may lead astray: keep what is best.
        if missed.any():
            # Of these signals alone: a code does not depend on what else is in the batch.
            behind = active[missed]
            read_out = batch.read_out(behind)
            for codes in (read_out, np.zeros_like(read_out)):
                kept = best.put(behind, codes, if_better=True)
                polished[behind[kept]] = False
                n_corrections[behind[kept]] = 0
            missed = best.missed(active, tol)
        # Where the method ended, only rounding is left, and no spike can improve on it.
        goes_on = missed & ~solved.ended & ~batch.run.is_lost[active]
        active = active[goes_on] if time < min(max_duration, LAST_POLISH_TIME) else active[:0]
        time = min(POLISH_GROWTH * time, max_duration)
    return batch.outcome(best, fired, polished, n_corrections, polish=n_products, gram=n_gram_products)

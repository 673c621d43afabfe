"""Networks of a batch of signals, and the codes read out of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from snn.run.exact import Exact
from snn.state import NetworkState
from solvers._kernels.batch import CompressedRows, average_currents, scaled_drive
from solvers.problem.lasso import LassoProblem
from solvers.results.best_codes import BestCodes
from solvers.results.result import compressed_rows, entries_of
from solvers.spiking.network import LassoNetwork, signed, spike_rates
from solvers.spiking.stages import RefinedCodes
from solvers.workers.progress import is_shown, report, share_of_decades


class BatchRun:
    """The networks of a batch of signals, from potentials at a share of their thresholds.

    Attributes
    ----------
    scale : ndarray, shape (n_signals,)
        The largest rate that the drive of a neuron alone would cause, 1 where no neuron is driven.
    duration : ndarray, shape (n_signals,)
        Simulated time of each signal.
    run : Run
        The networks.
    """

    def __init__(self, problem: LassoProblem, network: LassoNetwork, *, head_start: float = 0.0) -> None:
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
        # What rounding makes of their potentials is no code.
        self._zero_atoms = np.flatnonzero(problem.weighted_model.squared_norms == 0.0)

    def advance(self, signals: np.ndarray, time: float) -> None:
        """Advance the networks of some signals, all of which are at the same time.

        Those that are lost stay behind.
        """
        self.run.advance(time, active=signals)
        self.duration[signals] = self.run.time[signals]

    def rates(self, signals: np.ndarray) -> np.ndarray:
        """Return spikes per unit of time since the start as codes."""
        counts = self.network.in_result_order(self.run.spike_counts[signals])
        return spike_rates(
            counts, self.duration[signals], self.scale[signals], positive=self.network.positive
        )

    def charge(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the times of all signals, and the integrals of all soma currents until then.

        See docs/theory.md, equation 4.
        """
        thresholds = self.network.firing_threshold
        return self.duration.copy(), thresholds * self.run.spike_counts + self.run.membrane_potential

    def codes_between(
        self,
        begin: tuple[np.ndarray, np.ndarray],
        end: tuple[np.ndarray, np.ndarray],
        signals: np.ndarray,
    ) -> np.ndarray:
        """Return the thresholded average currents between two times as codes."""
        average = np.zeros((len(signals), end[1].shape[1]))
        # No time has passed where a network was lost right at the start of the interval.
        elapsed = (end[0] - begin[0])[signals, np.newaxis]
        np.divide(end[1][signals] - begin[1][signals], elapsed, out=average, where=elapsed > 0.0)
        rates = self.network.in_result_order(np.maximum(average, 0.0) / self.network.firing_threshold)
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

    def signal_fields(self, currents: CompressedRows) -> dict[str, np.ndarray | sparse.csr_array]:
        """Return what the networks did, as fields of a result; `currents` are the average ones."""
        n_signals = self.problem.n_signals
        return {
            "polished": np.zeros(n_signals, dtype=np.bool_),
            "n_corrections": np.zeros(n_signals, dtype=np.int64),
            "n_stages": np.ones(n_signals, dtype=np.int64),
            "sparse_spike_counts": sparse_counts(self.network, self.run.spike_counts),
            "sparse_average_currents": compressed_rows((n_signals, self.problem.n_atoms), currents),
            "duration": self.duration,
            "scale": self.scale,
        }


def sparse_counts(network: LassoNetwork, spike_counts: np.ndarray) -> sparse.csr_array:
    """Return spike counts in the order of results, without zeros, shape (n_signals, n_neurons)."""
    return compressed_rows(spike_counts.shape, entries_of(network.in_result_order(spike_counts)))


def run_until_certified(refined: RefinedCodes[Any], best: BestCodes, *, tol: float) -> None:
    """Run the networks of a batch until certificates confirm `tol`, or to their ends; keep the best."""
    problem = best.problem
    signals = np.arange(problem.n_signals)
    say_how_far = partial(_report, refined, problem, tol) if is_shown() else None
    while len(signals):
        refined.advance_to_ends(say_how_far)
        best.put(signals, refined.codes[signals], if_better=best.has_codes)
        # What the signals themselves say of a gap may differ from what correlations say, by rounding.
        signals = signals[best.missed(signals, tol) & refined.can_improve(signals)]
        if len(signals):
            refined.resume(signals)
            # Where no neuron is driven, only rounding is left.
            signals = refined.active


def _report(refined: RefinedCodes[Any], problem: LassoProblem, tol: float) -> None:
    gaps = refined.gaps / np.maximum(problem.energies, np.finfo(float).tiny)
    shares = [share_of_decades(gap, 1.0, tol) for gap in gaps.tolist()]
    report(0.99 * float(np.mean(shares)), f"gap {gaps.max():.1e}")

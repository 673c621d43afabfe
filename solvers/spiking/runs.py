"""One run of the networks of a batch of signals; the activity of networks, and results that say it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from snn import OperationCounts
from snn.base import checks
from snn.base.locks import cached_property
from snn.record.spikes import smooth_rate_of_moments
from snn.run.run import Run
from snn.run.stepped import SteppedRun
from solvers.problem.lasso import LassoProblem, groups_of, with_shared_mask
from solvers.results.codes import BestCodes, as_sparse
from solvers.results.operations import GRAM, NETWORK
from solvers.results.result import SparseCodingResult
from solvers.spiking.network import LassoNetwork


class BatchRun:
    """The networks of a batch of signals, from potentials at a share of their thresholds."""

    def __init__(
        self,
        problem: LassoProblem,
        network: LassoNetwork,
        *,
        rate: float = 1.0,
        head_start: float = 0.0,
        window_moments: bool = False,
    ) -> None:
        self.network = network
        drives = network.drives(problem)
        # The value of a code for one unit of spike rate; the busiest neuron, driven alone, has the `rate`.
        largest = (drives / network.firing_threshold).max(axis=1)
        self.scale = np.where(largest > 0.0, largest, 1.0) / rate
        drives /= self.scale[:, np.newaxis]
        self.run = network.start(drives, window_moments=window_moments)
        if head_start > 0.0:
            self.run.membrane_potential[:] = head_start * network.firing_threshold
            self.run.restart(np.arange(problem.n_signals))
        # Rounding leaves potentials where atoms are zero, which are no code.
        self._zero_atoms = np.flatnonzero(problem.weighted.squared_norms == 0.0)

    def codes_of(self, rates: np.ndarray, signals: np.ndarray) -> np.ndarray:
        """Return the codes of some signals from the rates of their neurons."""
        return self.network.signed(rates) * self.scale[signals, np.newaxis]

    def rates(self, signals: np.ndarray) -> np.ndarray:
        """Return spikes per unit of time since the start as codes."""
        return self.codes_of(self.run.spike_counts[signals] / self.run.time[signals, np.newaxis], signals)

    def smooth_rates(self, signals: np.ndarray) -> np.ndarray:
        """Return rates through the smooth window over the run as codes."""
        rates = smooth_rate_of_moments(self.run.window_moments[signals], self.run.time[signals])
        return self.codes_of(rates, signals)

    def charge(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the times of all signals, and the integrals of all soma currents until then (eq 4)."""
        thresholds = self.network.firing_threshold
        return self.run.time.copy(), thresholds * self.run.spike_counts + self.run.membrane_potential

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
        codes = self.codes_of(np.maximum(average, 0.0) / self.network.firing_threshold, signals)
        codes[:, self._zero_atoms] = 0.0
        return codes

    def figures(self) -> dict[str, Any]:
        """Return the activity of the networks, as the `info` of codes."""
        figures = {"n_stages": np.ones_like(self.scale, dtype=np.int64), "scale": self.scale}
        return figures_of(self.run, self.network, duration=self.run.time.copy(), **figures)

    def average_currents(self) -> sparse.csr_array:
        """Return the average currents of the atoms that fired for each signal, in units of correlations."""
        charges = np.where(self.run.spike_counts > 0, np.maximum(self.charge()[1], 0.0), 0.0)
        currents = as_sparse(self.network.signed(charges))
        currents.data *= (self.scale / self.run.time).repeat(np.diff(currents.indptr))
        return currents


def finish(best: BestCodes, networks: Any) -> None:
    """Write the activity of the networks of a batch, a `BatchRun` or `RefinedCodes`, to its best codes."""
    best.steps = networks.run.spike_counts.sum(axis=1)
    best.info |= networks.figures()
    if networks.run.integers is None:
        best.count(GRAM, slice(None), networks.network.gram.n_multiply_adds)


def figures_of(
    run: Run, network: LassoNetwork, counts: sparse.csr_array | None = None, **figures: Any
) -> dict[str, Any]:
    """Return the figures of the networks of a batch, as the `info` of codes; `counts` if they are at hand."""
    if counts is None:
        counts = as_sparse(run.spike_counts[:, network.in_result_order])
    steps = run.total_steps
    figures |= {
        "sparse_spike_counts": counts,
        "stopped": run.is_lost.copy(),
        "n_clock_steps": None if steps is None else steps.copy(),
    }
    if isinstance(run, SteppedRun) and run.integers is not None:
        figures["duration"] = run.total_steps * run.time_step
        figures["saturations"] = run.neurons.overflows.sum(axis=1)
        figures["ran_away"] = figures["stopped"]
        figures["network"] = run.integers
    return figures


class SpikingCodingResult(SparseCodingResult):
    """As `SparseCodingResult`, with the activity of the networks, whatever their time."""

    @property
    def n_stages(self) -> np.ndarray:
        """Runs of the network, one after the other, shape (n_signals,).

        1 unless codes were refined, and 0 where the start, or zero, was good enough.
        """
        return self.info["n_stages"]

    @property
    def sparse_spike_counts(self) -> sparse.csr_array:
        """Spikes of each neuron, shape (n_signals, n_neurons).

        Where codes may be negative, all positive neurons come before all negative ones.
        """
        return self.info["sparse_spike_counts"]

    @property
    def duration(self) -> np.ndarray:
        """Simulated time, of all stages, in synaptic time constants, shape (n_signals,)."""
        return self.info["duration"]

    @property
    def scale(self) -> np.ndarray:
        """The value of a code for one unit of spike rate, in the last stage, shape (n_signals,).

        The network ran on the signal divided by this.
        """
        return self.info["scale"]

    @property
    def n_clock_steps(self) -> np.ndarray | None:
        """Steps of the clock, of all stages, shape (n_signals,); None of exact runs."""
        return self.info["n_clock_steps"]

    @cached_property
    def spike_counts(self) -> np.ndarray:
        """The spike counts as a dense array, shape (n_signals, n_neurons)."""
        return checks.read_only(self.sparse_spike_counts.toarray())

    def _network_operations(self) -> dict[str, OperationCounts]:
        counts = self.sparse_spike_counts
        n_neurons, n_clock_steps = counts.shape[1], self.n_clock_steps
        run = OperationCounts(
            spikes=self.n_steps,
            synaptic_operations=_synaptic_operations(self.problem, counts, self.info.get("network")),
            neuron_updates=0 if n_clock_steps is None else n_neurons * n_clock_steps,
            neuron_time=n_neurons * self.duration if n_clock_steps is None else 0.0,
        )
        return {NETWORK: run}


def _synaptic_operations(
    problem: LassoProblem, spike_counts: sparse.csr_array, integers: Any = None
) -> np.ndarray:
    """Return how many times a spike reached a target; weights that are rounded to zero deliver none."""
    if problem.has_own_weights:
        operations = np.empty(problem.n_signals, dtype=np.int64)
        for group in groups_of(problem):
            shared = with_shared_mask(problem.subset(group))
            operations[group] = _synaptic_operations(shared, spike_counts[group])
        return operations
    network = LassoNetwork.of(problem, on_demand=integers is None)
    fired = np.unique(spike_counts.indices)
    neurons = network.in_result_order[fired]
    degrees = np.zeros(network.n_neurons, dtype=np.int64)
    degrees[fired] = (
        network.weights.out_degrees(neurons) if integers is None else integers.out_degree[neurons]
    )
    return spike_counts @ degrees

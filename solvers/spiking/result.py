"""The result of solvers by spikes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from snn import OperationCounts
from snn.base import checks
from snn.base.locks import cached_property
from solvers.problem.lasso import LassoProblem, groups_of, with_shared_mask
from solvers.results.operations import NETWORK
from solvers.results.result import SparseCodingResult
from solvers.spiking.network import LassoNetwork


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
        run = OperationCounts.of_run(
            n_neurons=counts.shape[1],
            spikes=self.n_steps,
            synaptic_operations=_synaptic_operations(self.problem, counts, self.info.get("network")),
            duration=self.duration,
            n_steps=self.n_clock_steps,
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

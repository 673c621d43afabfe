"""The spiking network of a LASSO, which neurons belong to which atoms, and what is told of its runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from snn import OperationCounts, SpikingNetwork
from snn.base import checks
from snn.base.value import cached_property
from snn.run.run import Run
from snn.run.stepped import SteppedRun
from snn.run.time import Exact, Time, prepared, start_run
from solvers._kernels.refinement import BARRED
from solvers.gram.gram import Gram, SharedProducts, gram_of
from solvers.problem.lasso import LassoProblem, groups_of, with_shared_mask
from solvers.results.codes import GRAM, NETWORK, BestCodes, as_sparse
from solvers.results.result import SparseCodingResult

EXACT_TIME = Exact()


def lasso_network(problem: LassoProblem, signal: int = 0, *, scale: float = 1.0) -> SpikingNetwork:
    """Return the spiking network whose rates, times `scale`, tend to the code of one signal.

    With G the Gram matrix, b the correlations of the signal and gamma the curvatures of the penalty (zero
    unless it has a quadratic term), one neuron for each atom solves the CLASSO::

        W = -(G - diag G)        beta = (b - lambda) / scale        theta = diag G + gamma

    The LASSO has two neurons for each atom, a positive and a negative one: the same network for the
    dictionary [D, -D].  Both neurons see one lateral current with opposite signs (`DenseRows.sign_pairs`).
    Neuron i < n_atoms is the positive neuron of atom i, and neuron n_atoms + i its negative neuron.

    The weights of a convolutional dictionary are the same at every position (`StencilWeights`), and its
    neurons are in the order of its atoms: at each position the positive neurons of its kernels, then, unless
    codes must not be negative, the negative neurons.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    signal : int, default 0
        Which signal drives the network.
    scale : float, default 1.0
        The value of a code for one unit of spike rate; a smaller one causes more spikes.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, equations 5-7.
    """
    checks.instance_of("problem", problem, LassoProblem)
    signal = checks.index("signal", signal, problem.n_signals)
    if problem.has_own_weights:
        problem, signal = with_shared_mask(problem.subset([signal])), 0
    scale = checks.positive_number("scale", scale)
    network = LassoNetwork.of(problem)
    drives = network.drives(problem.subset([signal]))[0] / scale
    return SpikingNetwork(network.weights, drives, network.firing_threshold)


class LassoNetwork:
    """The network of all signals of a problem, without their drives, and the time in which it runs."""

    def __init__(self, gram: Gram, positive: np.ndarray, how: Time = EXACT_TIME) -> None:
        self.gram, self._positive = gram, positive
        is_positive, n_atoms = bool(positive.all()), len(positive)
        self.weights = gram.weights(positive=is_positive)
        self.n_neurons = n_atoms if is_positive else 2 * n_atoms
        # In the network, the positive neurons of a group of atoms come before its negative ones; in results,
        # all positive ones come before all negative ones.  Here is the neuron at each place of results.
        groups = np.arange(self.n_neurons).reshape(-1, self.n_neurons // n_atoms, gram.group_length)
        self.in_result_order = np.swapaxes(groups, 0, 1).ravel()
        # The positive neuron of each atom, and the negative one, -1 if there is none.
        self.neurons = np.full((2, n_atoms), -1)
        self.neurons.ravel()[: self.n_neurons] = self.in_result_order
        self.firing_threshold = self.in_network_order(np.tile(gram.diagonal, self.n_neurons // n_atoms))
        # Weights of integers are rounded here, once.
        self.how = prepared(how, self)

    @classmethod
    def of(cls, problem: LassoProblem, *, on_demand: bool = False, how: Time = EXACT_TIME) -> LassoNetwork:
        """Return the network of a problem whose signals have no weights of their own."""
        return cls(gram_of(problem, on_demand=on_demand), problem.positive, how)

    def of_batch(self, problem: LassoProblem) -> LassoNetwork:
        """Return the network for a batch of signals, which alone shares rows computed on demand."""
        if not isinstance(self.gram, SharedProducts):
            return self
        return LassoNetwork(self.gram.of_batch(problem), self._positive, self.how)

    def start(self, drives: np.ndarray, *, window_moments: bool) -> Run:
        """Start a run with a copy of the network for each row of drives; copies may be given up."""
        return start_run(self.how, self, drives, window_moments=window_moments, gives_up=True)

    def drives(self, problem: LassoProblem) -> np.ndarray:
        """Return the drives of neurons at scale one, b - lambda and -b - lambda, a row for each signal."""
        drives = problem.correlations - problem.l1_weights
        if self.n_neurons > problem.n_atoms:
            largest = np.sqrt(2.0 * problem.energies[:, np.newaxis] * self.gram.diagonal)
            barred = np.where(self._positive, BARRED * largest, 0.0)
            drives = np.concatenate([drives, -problem.correlations - problem.l1_weights - barred], axis=1)
        return self.in_network_order(drives)

    def signed(self, values: np.ndarray) -> np.ndarray:
        """Return a = a+ - a-, a value an atom, from values of neurons in the order of the network."""
        positive, negative = values[:, self.neurons[0]], values[:, self.neurons[1]]
        return positive - np.where(self._positive, 0.0, negative)

    def in_network_order(self, values: np.ndarray) -> np.ndarray:
        """Return values of all positive, then all negative neurons in the order of the network."""
        ordered = np.empty_like(values)
        ordered[..., self.in_result_order] = values
        return ordered


def finish(best: BestCodes, run: Run, network: LassoNetwork, **figures: Any) -> None:
    """Write the activity of the networks of a batch to its best codes."""
    best.steps = run.spike_counts.sum(axis=1)
    best.info |= figures_of(run, network, **figures)
    if run.integers is None:
        best.work[GRAM] += network.gram.n_multiply_adds


def figures_of(
    run: Run, network: LassoNetwork, spike_counts: sparse.csr_array | None = None, **figures: Any
) -> dict[str, Any]:
    """Return the figures of the networks of a batch, as the `info` of codes; counts if they are at hand."""
    if spike_counts is None:
        spike_counts = as_sparse(run.spike_counts[:, network.in_result_order])
    figures |= {"spike_counts": spike_counts, "stopped": run.is_lost.copy()}
    if isinstance(run, SteppedRun):
        figures["n_clock_steps"] = run.total_steps
        if run.integers is not None:
            figures["duration"] = run.total_steps * run.time_step
            figures["saturations"] = run.neurons.overflows.sum(axis=1)
            figures["ran_away"] = figures["stopped"]
            figures["network"] = run.integers
    return figures


class SpikingCodingResult(SparseCodingResult):
    """As `SparseCodingResult`, with the activity of the networks in its `info`, whatever their time."""

    @cached_property
    def spike_counts(self) -> np.ndarray:
        """Spikes of each neuron, shape (n_signals, n_neurons); positive neurons before negative ones."""
        return checks.read_only(self.info["spike_counts"].toarray())

    def _network_operations(self) -> dict[str, OperationCounts]:
        counts, n_clock_steps = self.info["spike_counts"], self.info.get("n_clock_steps")
        run = OperationCounts(
            spikes=self.n_steps,
            synaptic_operations=_synaptic_operations(self.problem, counts, self.info.get("network")),
            neuron_updates=0 if n_clock_steps is None else counts.shape[1] * n_clock_steps,
            neuron_time=counts.shape[1] * self.info["duration"] if n_clock_steps is None else 0.0,
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

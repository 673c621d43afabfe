"""The spiking network of a LASSO, and which neurons belong to which atoms."""

from __future__ import annotations

from typing import Any

import numpy as np

from snn import SpikingNetwork
from snn.base import checks
from snn.run.exact import Exact
from snn.run.run import Run, Time
from solvers._kernels.refinement import BARRED
from solvers.gram.gram import Gram, SharedProducts, gram_of
from solvers.problem.lasso import LassoProblem, with_shared_mask

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
    return LassoNetwork.of(problem).driven(problem, signal, scale=scale)


class LassoNetwork:
    """The network of all signals of a problem, without their drives, and the time in which it runs."""

    def __init__(self, gram: Gram, positive: np.ndarray, how: Time[Any] = EXACT_TIME) -> None:
        self.gram, self._positive = gram, positive
        is_positive, n_atoms = bool(positive.all()), len(positive)
        self.weights = gram.weights(positive=is_positive)
        self.n_neurons = n_atoms if is_positive else 2 * n_atoms
        # In the network, the positive neurons of a group of atoms come before its negative ones; in results,
        # all positive ones come before all negative ones.  Here is the neuron at each place of results.
        groups = np.arange(self.n_neurons).reshape(-1, self.n_neurons // n_atoms, gram.group_length)
        self.in_result_order = np.swapaxes(groups, 0, 1).ravel()
        # Of each atom the positive neuron, and the negative one, -1 if there is none.
        self.neurons = np.full((2, n_atoms), -1)
        self.neurons.ravel()[: self.n_neurons] = self.in_result_order
        self.firing_threshold = self.in_network_order(np.tile(gram.diagonal, self.n_neurons // n_atoms))
        # Weights of integers are rounded here, once.
        self.how = how.prepare(self)

    @classmethod
    def of(
        cls, problem: LassoProblem, *, on_demand: bool = False, how: Time[Any] = EXACT_TIME
    ) -> LassoNetwork:
        """Return the network of a problem whose signals have no weights of their own."""
        return cls(gram_of(problem, on_demand=on_demand), problem.positive, how)

    def of_batch(self, problem: LassoProblem) -> LassoNetwork:
        """Return the network for a batch of signals, which alone shares rows computed on demand."""
        if not isinstance(self.gram, SharedProducts):
            return self
        return LassoNetwork(self.gram.of_batch(problem), self._positive, self.how)

    def start(self, drives: np.ndarray, *, window_moments: bool) -> Run:
        """Start a run with a copy of the network for each row of drives; copies may be given up."""
        run: Run = self.how.start(self, drives, window_moments=window_moments, gives_up=True)
        return run

    def driven(self, problem: LassoProblem, signal: int, *, scale: float) -> SpikingNetwork:
        """Return the network with the drive of one signal: `lasso_network`."""
        drives = self.drives(problem.subset([signal]))[0] / scale
        return SpikingNetwork(self.weights, drives, self.firing_threshold)

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

"""The spiking network of a LASSO, and which neurons belong to which atoms."""

from __future__ import annotations

import numpy as np

from snn import SpikingNetwork
from snn.base import checks
from solvers.gram.gram import Gram, SharedProducts, gram_of
from solvers.problem.lasso import LassoProblem, with_shared_mask


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

    Returns
    -------
    SpikingNetwork

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
    """The network of all signals of a problem, without their drives; neurons in the order of the network."""

    def __init__(self, gram: Gram, *, positive: bool) -> None:
        self.gram = gram
        self.positive = positive
        self.weights = gram.weights(positive=positive)
        thresholds = gram.diagonal if positive else np.concatenate([gram.diagonal, gram.diagonal])
        # With one group, all positive neurons come before all negative ones, as in results.
        self._orders_agree = positive or gram.group_length == len(gram.diagonal)
        self.firing_threshold = self.in_network_order(thresholds)

    @classmethod
    def of(cls, problem: LassoProblem, *, on_demand: bool = False) -> LassoNetwork:
        """Return the network of a problem whose signals have no weights of their own."""
        return cls(gram_of(problem, on_demand=on_demand), positive=problem.is_positive)

    def of_batch(self, problem: LassoProblem) -> LassoNetwork:
        """Return the network for a batch of signals, which alone shares rows computed on demand."""
        if not isinstance(self.gram, SharedProducts):
            return self
        return LassoNetwork(self.gram.of_batch(problem), positive=self.positive)

    @property
    def n_neurons(self) -> int:
        """Number of neurons."""
        return len(self.firing_threshold)

    def driven(self, problem: LassoProblem, signal: int, *, scale: float) -> SpikingNetwork:
        """Return the network with the drive of one signal: `lasso_network`."""
        drives = self.drives(problem.subset([signal]))[0] / scale
        return SpikingNetwork(self.weights, drives, self.firing_threshold)

    def drives(self, problem: LassoProblem) -> np.ndarray:
        """Return the drives of neurons at scale one, b - lambda and -b - lambda, a row for each signal."""
        correlations = problem.correlations
        if not self.positive:
            correlations = np.concatenate([correlations, -correlations], axis=1)
        l1_weights = np.tile(problem.l1_weights, self.n_neurons // problem.n_atoms)
        return self.in_network_order(correlations - l1_weights)

    def in_network_order(self, values: np.ndarray) -> np.ndarray:
        """Return values of all positive, then all negative neurons in the order of the network."""
        if self._orders_agree:
            return values
        signs_first = values.reshape(*values.shape[:-1], 2, -1, self.gram.group_length)
        return np.swapaxes(signs_first, -3, -2).reshape(values.shape)

    def in_result_order(self, values: np.ndarray) -> np.ndarray:
        """Return values in the order of the network as those of all positive, then all negative neurons."""
        if self._orders_agree:
            return values
        groups_first = values.reshape(*values.shape[:-1], -1, 2, self.gram.group_length)
        return np.swapaxes(groups_first, -3, -2).reshape(values.shape)

    def out_degrees(self, neurons: np.ndarray) -> np.ndarray:
        """Return the number of targets of some neurons, which are in the order of results."""
        return self.weights.out_degrees(self.in_result_order(np.arange(self.n_neurons))[neurons])


def signed(values: np.ndarray, *, positive: bool) -> np.ndarray:
    """Return a = a+ - a-, one value an atom, from values of neurons in the order of results."""
    if positive:
        return values
    n_atoms = values.shape[1] // 2
    return values[:, :n_atoms] - values[:, n_atoms:]

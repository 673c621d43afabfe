"""The spiking network of a LASSO, and how its neurons stand for atoms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from snn import InhibitionOnDemand, LateralInhibition, SignPairWeights, SpikingNetwork, Weights, checks
from solvers import convolutional_network
from solvers.convolution import ConvolutionalDictionary
from solvers.problem import LassoProblem

# The Gram matrix of fewer atoms takes a millisecond or two.
FEWEST_SPARED = 512


def lasso_network(problem: LassoProblem, signal: int = 0, *, scale: float = 1.0) -> SpikingNetwork:
    """Return the spiking network whose rates, times `scale`, tend to the code of one signal.

    With G the Gram matrix and b the correlations of the signal, one neuron an atom solves the
    CLASSO::

        W = -(G - diag G)        beta = (b - lambda) / scale        theta = diag G + m

    with m the curvatures of the penalty, zero but for an `ElasticNet`.

    The LASSO takes two neurons an atom: the same network for the dictionary [D, -D], whose halves
    share one lateral current (`SignPairWeights`).  Neuron i < n_atoms is then the positive half of
    atom i, and neuron n_atoms + i its negative half.

    Of a convolutional dictionary the weights are the same at every position (`StencilWeights`), and
    neurons stand as their atoms do: at each position the positive halves of its kernels, then, where codes
    may be negative, the negative ones.

    Parameters
    ----------
    problem : LassoProblem
    signal : int, default 0
        Which signal drives the network.
    scale : float, default 1.0
        What one unit of spike rate stands for; a smaller one brings more spikes.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, equations 5-7.
    """
    checks.instance_of("problem", problem, LassoProblem)
    signal = checks.index("signal", signal, problem.n_signals)
    scale = checks.positive_number("scale", scale)
    network = network_of(problem)
    return SpikingNetwork(network.weights, soma_bias_of(problem)[signal] / scale, network.firing_threshold)


class LassoNetwork(NamedTuple):
    """The network of all signals of a problem, without a drive."""

    weights: Weights
    firing_threshold: np.ndarray

    @property
    def n_neurons(self) -> int:
        """Number of neurons."""
        return len(self.firing_threshold)


def network_of(problem: LassoProblem, *, sparing: bool = False) -> LassoNetwork:
    """Return what the networks of all signals have in common.

    With `sparing`, a large Gram matrix that is not there yet is not made for a single signal: only the rows
    of atoms that fire are.  Among several signals it always is, so that no bit of a code depends on its
    mates; a signal alone then agrees with them to rounding.
    """
    if isinstance(problem.dictionary, ConvolutionalDictionary):
        return LassoNetwork(
            convolutional_network.stencil_weights(problem.dictionary, positive=problem.positive),
            convolutional_network.firing_threshold(
                problem.dictionary, problem.squared_norms + problem.curvatures, positive=problem.positive
            ),
        )
    if sparing and problem.n_signals == 1 and problem.n_atoms >= FEWEST_SPARED and not problem.has_gram:
        weights = InhibitionOnDemand(problem.n_atoms, problem.gram_rows)
    else:
        weights = LateralInhibition.unchecked(problem.gram)
    threshold = problem.squared_norms + problem.curvatures
    if not problem.positive:
        weights = SignPairWeights(lateral=weights, cross=problem.squared_norms)
        threshold = np.concatenate([threshold, threshold])
    return LassoNetwork(weights, threshold)


def stored_gram(weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Return (rows, row_of): row i of the Gram matrix is rows[row_of[i]], or not there if that is -1."""
    form = weights.kernel_form()
    return form.values.reshape(-1, len(form.row_of)), form.row_of


def store_gram(weights: Weights, atoms: np.ndarray) -> None:
    """Have some more rows of the Gram matrix stored."""
    weights.prepare(atoms)


def soma_bias_of(problem: LassoProblem) -> np.ndarray:
    """Return the drive of each signal's network, shape (n_signals, n_neurons)."""
    if problem.positive:
        return problem.correlations - problem.l1_weights
    bias = np.hstack([problem.correlations - problem.l1_weights, -problem.correlations - problem.l1_weights])
    return in_network_order(problem, bias)


def in_network_order(problem: LassoProblem, values: np.ndarray, *, inverse: bool = False) -> np.ndarray:
    """Return values of neurons, given in the order of results, in that of the network; or the inverse."""
    if problem.positive or not isinstance(problem.dictionary, ConvolutionalDictionary):
        return values
    if inverse:
        return convolutional_network.halves_apart(problem.dictionary, values)
    return convolutional_network.neurons_together(problem.dictionary, values)


def in_result_order(problem: LassoProblem, values: np.ndarray) -> np.ndarray:
    """Return values of neurons as results have them, all positive halves before all negative ones."""
    return in_network_order(problem, values, inverse=True)


def signed(problem: LassoProblem, values: np.ndarray) -> np.ndarray:
    """Return one value an atom from one a neuron: a = a+ - a-."""
    if problem.positive:
        return values
    return values[:, : problem.n_atoms] - values[:, problem.n_atoms :]


def rates_of(
    problem: LassoProblem, spike_counts: np.ndarray, duration: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Return the codes that the spikes so far stand for."""
    return signed(problem, spike_counts / duration[:, np.newaxis]) * scale[:, np.newaxis]

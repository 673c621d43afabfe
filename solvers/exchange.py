"""The network of a LASSO problem as a NIR graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snn import SpikingNetwork
from snn.base import checks
from snn.exchange import to_nir
from snn.exchange.nir_writer import InputConvolution
from solvers.problem.convolutional_dictionary import ConvolutionalDictionary
from solvers.problem.lasso import LassoProblem
from solvers.problem_network import LassoNetwork

if TYPE_CHECKING:
    import nir


def problem_to_nir(
    problem: LassoProblem, *, scale: float = 1.0, time_constant: float = 1.0, time_step: float | None = None
) -> nir.NIRGraph:
    """Return the spiking network of a problem as a NIR graph whose input is the signal.

    With D the dictionary, its atoms in rows, and G its Gram matrix::

        Input(s) -> Affine(D, -lambda) -> IF(v_threshold=diag G) -> Output
        IF -> LI(tau=1) -> Affine(-(G - diag G), 0) -> IF

    Rates of the neurons, times `scale`, tend to the code of the signal at the input.  Neurons are in the
    order of `lasso_network`.  The graph of a convolutional dictionary has Conv2d nodes.  Its input is an
    image of shape (1, rows, columns), or (colours, rows, columns).

    Parameters
    ----------
    problem : LassoProblem
        The problem, whose signals are not used.  A mask or weights that all signals share are part of the
        network.
    scale : float, default 1.0
        The value of a code for one unit of spike rate; a smaller scale causes more spikes.
    time_constant : float, default 1.0
        The synaptic time constant in the graph's unit of time.
    time_step : float, optional
        The time step of simulators that use steps; see `snn.exchange.to_nir`.

    Returns
    -------
    nir.NIRGraph
        The graph.  To read the graph as a network, call `snn.exchange.from_nir` with
        ``signal=problem.signals[i]``.
    """
    checks.instance_of("problem", problem, LassoProblem)
    scale = checks.positive_number("scale", scale)
    if isinstance(problem.dictionary, ConvolutionalDictionary) and problem.feature_weights is not None:
        raise TypeError(
            "problem must have no mask and no feature_weights with a convolutional dictionary, since a "
            "convolution in NIR is the same at every position; got some: pass the problem of "
            "dictionary.toarray(), which becomes an array"
        )
    if problem.penalty.has_mixed_signs:
        raise ValueError("problem must have one bool for all atoms as positive; got both True and False")
    signs = (1.0,) if problem.penalty.is_positive else (1.0, -1.0)
    layer = LassoNetwork(problem)
    bias = np.concatenate([-problem.l1_weights for _ in signs]) / scale
    network = SpikingNetwork(layer.weights, layer.in_network_order(bias), layer.firing_threshold)
    dictionary = problem.dictionary
    if isinstance(dictionary, ConvolutionalDictionary):
        kernels = dictionary.kernels
        # The channels of our colour kernels come last, but NIR has the channels first.
        kernels = kernels.transpose(0, 3, 1, 2) if kernels.ndim == 4 else kernels[:, np.newaxis]
        kernels = np.concatenate([sign * kernels for sign in signs]) / scale
        input_weights: np.ndarray | InputConvolution = InputConvolution(
            kernels, dictionary.image_shape, dictionary.stride
        )
    else:
        # The correlations of unit signals are the weights from the features to the neurons.
        columns = problem.with_signals(np.eye(problem.n_features)).correlations.T
        input_weights = np.concatenate([sign * columns for sign in signs]) / scale
    return to_nir(network, input_weights=input_weights, time_constant=time_constant, time_step=time_step)

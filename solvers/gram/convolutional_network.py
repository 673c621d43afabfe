"""The weights of the network of a convolutional dictionary."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from snn import StencilWeights
from solvers.problem.convolution import ConvolutionalDictionary

# Of each dictionary that is in use: the weights for codes of either sign, and for positive codes.
_WEIGHTS: WeakKeyDictionary[ConvolutionalDictionary, dict[bool, StencilWeights]] = WeakKeyDictionary()


def stencil_weights(dictionary: ConvolutionalDictionary, *, positive: bool) -> StencilWeights:
    """Return W = -(G - diag G) of the dictionary, or of [D, -D], computed once for each dictionary.

    A position of the grid has a channel for each kernel; for codes of either sign, the channels of the
    positive neurons of all kernels, then those of their negative neurons.

    Parameters
    ----------
    dictionary : ConvolutionalDictionary
        The dictionary D.
    positive : bool
        Whether codes must not be negative.
    """
    weights = _WEIGHTS.setdefault(dictionary, {})
    if positive not in weights:
        weights[positive] = _stencil_weights(dictionary, positive)
    return weights[positive]


def _stencil_weights(dictionary: ConvolutionalDictionary, positive: bool) -> StencilWeights:
    values = -dictionary.stencil()
    if not positive:
        values = np.concatenate([values, -values], axis=3)
        values = np.concatenate([values, -values], axis=0)
    n_channels, n_row_offsets, n_column_offsets, _ = values.shape
    channels = np.arange(n_channels)
    values[channels, n_row_offsets // 2, n_column_offsets // 2, channels] = 0.0
    return StencilWeights(values, dictionary.grid_shape)

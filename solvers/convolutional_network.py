"""The spiking network of a convolutional dictionary: its weights, and the order of its neurons.

A position of the grid has a channel a kernel; where codes may be negative, the positive halves of all its
kernels and then the negative ones: the network of [D, -D], whose neurons stand together as their atoms do.
Results count neurons as other dictionaries' do, all positive halves before all negative ones.
"""

from __future__ import annotations

import numpy as np

from snn import StencilWeights
from solvers.convolution import ConvolutionalDictionary


def stencil_weights(dictionary: ConvolutionalDictionary, *, positive: bool) -> StencilWeights:
    """Return W = -(G - diag G) of the dictionary, or of [D, -D], computed once for each dictionary."""
    # Kept with what it is computed from, like the stencil itself, whose module stays free of networks.
    name = "_positive_weights" if positive else "_signed_weights"
    if name not in dictionary.__dict__:
        dictionary.__dict__[name] = _stencil_weights(dictionary, positive)
    return dictionary.__dict__[name]


def firing_threshold(
    dictionary: ConvolutionalDictionary, threshold: np.ndarray, *, positive: bool
) -> np.ndarray:
    """Return one threshold an atom in the order of the neurons."""
    if positive:
        return threshold
    return np.repeat(threshold.reshape(dictionary.n_positions, 1, -1), 2, axis=1).reshape(-1)


def neurons_together(dictionary: ConvolutionalDictionary, values: np.ndarray) -> np.ndarray:
    """Return values of all positive, then all negative halves in the order of the neurons.

    Parameters
    ----------
    dictionary : ConvolutionalDictionary
    values : ndarray, shape (..., 2 n_atoms)
    """
    halves = values.reshape(*values.shape[:-1], 2, dictionary.n_positions, dictionary.n_kernels)
    return np.swapaxes(halves, -3, -2).reshape(values.shape)


def halves_apart(dictionary: ConvolutionalDictionary, values: np.ndarray) -> np.ndarray:
    """Return values of neurons in their order as those of all positive, then all negative halves.

    Parameters
    ----------
    dictionary : ConvolutionalDictionary
    values : ndarray, shape (..., 2 n_atoms)
    """
    neurons = values.reshape(*values.shape[:-1], dictionary.n_positions, 2, dictionary.n_kernels)
    return np.swapaxes(neurons, -3, -2).reshape(values.shape)


def _stencil_weights(dictionary: ConvolutionalDictionary, positive: bool) -> StencilWeights:
    values = -dictionary.stencil()
    if not positive:
        values = np.concatenate([values, -values], axis=3)
        values = np.concatenate([values, -values], axis=0)
    n_channels, n_row_offsets, n_column_offsets, _ = values.shape
    channels = np.arange(n_channels)
    values[channels, n_row_offsets // 2, n_column_offsets // 2, channels] = 0.0
    return StencilWeights(values, dictionary.grid_shape)

"""The weights of the network of a convolutional dictionary."""

from __future__ import annotations

from typing import cast

import numpy as np

from snn import StencilWeights
from snn.base.locks import cached_property
from solvers.problem.convolution import ConvolutionalDictionary
from solvers.problem.lasso import LassoModel


class Stencils:
    """W = -(G - diag G) of a convolutional dictionary D, and of [D, -D], each computed once.

    A position of the grid has a channel for each kernel; for codes of either sign, the channels of the
    positive neurons of all kernels, then those of their negative neurons.
    """

    def __init__(self, model: LassoModel) -> None:
        self._dictionary = cast(ConvolutionalDictionary, model.atoms)

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self._dictionary.n_kernels

    @cached_property
    def positive(self) -> StencilWeights:
        """The weights where codes must not be negative."""
        return self._without_diagonal(-self._dictionary.stencil())

    @cached_property
    def signed(self) -> StencilWeights:
        """The weights for codes of either sign."""
        values = -self._dictionary.stencil()
        values = np.concatenate([values, -values], axis=3)
        return self._without_diagonal(np.concatenate([values, -values], axis=0))

    def _without_diagonal(self, values: np.ndarray) -> StencilWeights:
        n_channels, n_row_offsets, n_column_offsets, _ = values.shape
        channels = np.arange(n_channels)
        values[channels, n_row_offsets // 2, n_column_offsets // 2, channels] = 0.0
        return StencilWeights(values, self._dictionary.grid_shape)

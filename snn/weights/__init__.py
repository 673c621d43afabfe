"""Synaptic weights: which neuron excites or inhibits which other one, and by how much.

Everywhere ``weights[source, target]``; a positive weight excites.  Each form of weights is one class, a
`Weights`:

- `DenseWeights`: an array;
- `LateralInhibition`: minus a matrix of strengths;
- `InhibitionOnDemand`: the same, with rows computed when they are needed;
- `SignPairWeights`: pairs of neurons of opposite sign;
- `BlockWeights`: dense blocks between ranges of neurons;
- `SegmentedWeights`: the segments that blocks are made of, whose values may change between runs;
- `SparseWeights`: a SciPy sparse matrix;
- `StencilWeights`: the same weights at every position of a grid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from snn.weights.blocks import Block, BlockWeights, SegmentedWeights
from snn.weights.convolution import StencilWeights
from snn.weights.dense import DenseWeights, LateralInhibition
from snn.weights.on_demand import InhibitionOnDemand
from snn.weights.protocol import Weights
from snn.weights.sign_pairs import SignPairWeights
from snn.weights.sparse import SparseWeights

__all__ = [
    "Block",
    "BlockWeights",
    "DenseWeights",
    "InhibitionOnDemand",
    "LateralInhibition",
    "SegmentedWeights",
    "SignPairWeights",
    "SparseWeights",
    "StencilWeights",
    "Weights",
    "as_weights",
    "examples",
]


def as_weights(weights: Any) -> Weights:
    """Return checked, read-only weights of an array, a SciPy sparse matrix, or any form of weights.

    Parameters
    ----------
    weights : array_like, sparse matrix or Weights, shape (n_neurons, n_neurons)
        Row j holds what a spike of neuron j adds to the others; a form of weights comes back as it is.

    Raises
    ------
    TypeError
        If they are not an array or a sparse matrix of real numbers, or a form of weights.
    ValueError
        If they are not square, not finite, or a neuron is connected to itself.
    """
    if isinstance(weights, Weights):
        return weights
    if issparse(weights):
        return SparseWeights.from_argument("weights", weights)
    return DenseWeights.from_argument("weights", weights)


def examples() -> tuple[Weights, ...]:
    """Return one small object of each form: the registry of forms."""
    inhibition = np.array([[0.0, -0.2], [-0.2, 0.0]])
    lateral = LateralInhibition(-inhibition)
    blocks = BlockWeights(2, (Block(first_source=0, first_target=0, values=inhibition),))
    return (
        DenseWeights(inhibition),
        lateral,
        InhibitionOnDemand(2, lambda sources: -inhibition[sources]),
        SignPairWeights(lateral=lateral, cross=np.ones(2)),
        blocks,
        blocks.segments,
        SparseWeights(csr_array(inhibition)),
        StencilWeights(inhibition[:, np.newaxis, np.newaxis, :], (1, 1)),
    )

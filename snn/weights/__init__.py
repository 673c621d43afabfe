"""Synaptic weights: which neuron excites or inhibits which other one, and by how much.

Indices have the order ``weights[source, target]``, and a positive weight excites.  Each form of weights is
one subclass of `Weights`:

- `DenseRows`: a dense row for each source, which may be computed when the source fires; sign pairs share
  rows;
- `Segments`: dense blocks between ranges of neurons, whose values may change between runs;
- `SparseWeights`: a SciPy sparse matrix;
- `StencilWeights`: the same weights at every position of a grid.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from snn.base import checks
from snn.weights.dense import DenseRows
from snn.weights.protocol import Weights, require_zero_diagonal
from snn.weights.segments import Connection, Segments
from snn.weights.sparse import SparseWeights
from snn.weights.stencil import StencilWeights

__all__ = [
    "Connection",
    "DenseRows",
    "Segments",
    "SparseWeights",
    "StencilWeights",
    "Weights",
    "as_weights",
    "examples",
]


def as_weights(weights: Any) -> Weights:
    """Return checked weights from an array or a SciPy sparse matrix; return `Weights` unchanged."""
    if isinstance(weights, Weights):
        return weights
    with checks.called(strengths="weights", matrix="weights"):
        if issparse(weights):
            return SparseWeights(weights)
        array = checks.real_array("weights", weights, shape=(None, None), meaning="(source, target)")
        require_zero_diagonal("weights", array)
        return DenseRows(array)


def examples() -> tuple[Weights, ...]:
    """Return one small example of every form of weights."""
    inhibition = np.array([[0.0, -0.2], [-0.2, 0.0]])
    lateral = DenseRows(-inhibition, -1.0)
    return (
        lateral,
        DenseRows.on_demand(2, (-inhibition).__getitem__, -1.0),
        lateral.sign_pairs(np.ones(2)),
        Segments(2, (Connection(0, 0, (2, 2), 0),), inhibition.ravel()),
        SparseWeights(csr_array(inhibition)),
        StencilWeights(inhibition[:, np.newaxis, np.newaxis, :], (1, 1)),
    )

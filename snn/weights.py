"""Synaptic weights: who excites or inhibits whom, and by how much.

Everywhere `weights[source, target]`; positive excites.  Three forms serve the same purpose: a dense
array, a SciPy sparse matrix, and `MirroredWeights`, a structure that a dense array would store four
times over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from snn import checks


@dataclass(frozen=True, eq=False)
class MirroredWeights:
    """Weights of n pairs of neurons whose halves see one lateral current with opposite signs.

    Neuron i < n is the positive half of pair i, neuron n + i its negative half.  With L the lateral
    weights and X the diagonal matrix of the exchange weights, the 2n x 2n weights are::

        [[  L,  X - L ],
         [ X - L,  L  ]]

    They are never built: a spike reads one row of L.

    Parameters
    ----------
    lateral : array_like, shape (n_pairs, n_pairs)
        Weights [source pair, target pair] between halves of one sign; zero diagonal.
    exchange : array_like, shape (n_pairs,)
        Weight from either half of a pair to the other half.

    Raises
    ------
    TypeError, ValueError
        If an array does not hold finite real numbers, has a wrong shape, or the diagonal is not zero.
    """

    lateral: np.ndarray
    exchange: np.ndarray

    def __post_init__(self) -> None:
        lateral = _dense("lateral", self.lateral)
        exchange = checks.real_array(
            "exchange", self.exchange, shape=(lateral.shape[0],), meaning="one weight a pair"
        )
        object.__setattr__(self, "lateral", lateral)
        object.__setattr__(self, "exchange", checks.read_only(exchange))

    @property
    def shape(self) -> tuple[int, int]:
        """(n_neurons, n_neurons), twice the number of pairs."""
        n_neurons = 2 * len(self.exchange)
        return n_neurons, n_neurons

    def toarray(self) -> np.ndarray:
        """Return the 2n x 2n weights in full, for small networks and tests."""
        crossed = np.diag(self.exchange) - self.lateral
        return np.block([[self.lateral, crossed], [crossed, self.lateral]])


Weights = np.ndarray | sparse.csr_array | MirroredWeights


def as_weights(weights: Any) -> Weights:
    """Return checked, read-only weights in one of the three forms.

    Raises
    ------
    TypeError
        If they are not an array, a sparse matrix or `MirroredWeights` of real numbers.
    ValueError
        If they are not square, not finite, or a neuron is connected to itself.
    """
    if isinstance(weights, MirroredWeights):
        return weights
    if sparse.issparse(weights):
        return _sparse("weights", weights)
    return _dense("weights", weights)


def _dense(name: str, value: Any) -> np.ndarray:
    array = checks.real_array(name, value, shape=(None, None), meaning="(source, target)")
    _require_square(name, array.shape)
    _require_zero_diagonal(name, np.diagonal(array))
    return checks.read_only(array)


def _sparse(name: str, value: Any) -> sparse.csr_array:
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be a matrix of real numbers; got dtype {value.dtype}")
    if value.ndim != 2:
        raise ValueError(f"{name} must have shape (any, any), (source, target); got shape {value.shape}")
    _require_square(name, value.shape)
    matrix = sparse.csr_array(value, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.sort_indices()
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"{name} must be finite; got {matrix.data[~np.isfinite(matrix.data)][0]}")
    _require_zero_diagonal(name, matrix.diagonal())
    matrix.eliminate_zeros()
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    return matrix


def _require_square(name: str, shape: tuple[int, ...]) -> None:
    if shape[0] != shape[1]:
        raise ValueError(f"{name} must be square, (source, target); got shape {shape}")


def _require_zero_diagonal(name: str, diagonal: np.ndarray) -> None:
    if diagonal.any():
        neuron = int(np.flatnonzero(diagonal)[0])
        raise ValueError(
            f"{name} must have a zero diagonal (no neuron connects to itself); "
            f"got {diagonal[neuron]} at [{neuron}, {neuron}]"
        )


def delivered(weights: Weights, amounts: np.ndarray) -> np.ndarray:
    """Return W^T amounts: what each target receives when source j sends `amounts[..., j]`."""
    if isinstance(weights, MirroredWeights):
        n_pairs = len(weights.exchange)
        positive, negative = amounts[..., :n_pairs], amounts[..., n_pairs:]
        lateral = (positive - negative) @ weights.lateral
        return np.concatenate(
            [lateral + weights.exchange * negative, weights.exchange * positive - lateral], axis=-1
        )
    return amounts @ weights


def out_degrees(weights: Weights) -> np.ndarray:
    """Return, for each source, to how many targets its spikes go (the non-zero weights of its row)."""
    if isinstance(weights, MirroredWeights):
        lateral = 2 * np.count_nonzero(weights.lateral, axis=1) + (weights.exchange != 0)
        return np.concatenate([lateral, lateral])
    if isinstance(weights, np.ndarray):
        return np.count_nonzero(weights, axis=1)
    return np.diff(weights.indptr)

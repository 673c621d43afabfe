"""Synaptic weights: who excites or inhibits whom, and by how much.

Everywhere `weights[source, target]`; positive excites.  Seven forms serve the same purpose: a dense
array, a SciPy sparse matrix, and five structures that need not be built in full: `LateralInhibition`, a
symmetric matrix as it is; `InhibitionOnDemand`, one of which only some rows are ever known;
`MirroredWeights`, which a dense array would store four times over; `BlockWeights`, dense blocks between
layers; and `StencilWeights`, the same everywhere on a grid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from snn import checks
from snn.on_demand import InhibitionOnDemand
from snn.stencil import StencilWeights

NONE_IN_PAIRS = checks.read_only(np.empty(0))


@dataclass(frozen=True, eq=False)
class LateralInhibition:
    """Weights minus a matrix of strengths, its diagonal left out: W = -(S - diag S).

    A Gram matrix serves as it is; nothing is copied.

    Parameters
    ----------
    strength : array_like, shape (n_neurons, n_neurons)
        S: `strength[source, target]`, positive inhibits; the diagonal is not looked at.

    Raises
    ------
    TypeError, ValueError
        If `strength` does not hold finite real numbers, or is not square.
    """

    strength: np.ndarray

    def __post_init__(self) -> None:
        strength = checks.real_array(
            "strength", self.strength, shape=(None, None), meaning="(source, target)"
        )
        _require_square("strength", strength.shape)
        object.__setattr__(self, "strength", checks.read_only(strength))

    @classmethod
    def unchecked(cls, strength: np.ndarray) -> LateralInhibition:
        """Return the weights of a square float64 array in C order that was checked before."""
        weights = object.__new__(cls)
        object.__setattr__(weights, "strength", strength)
        return weights

    @property
    def shape(self) -> tuple[int, int]:
        """(n_neurons, n_neurons)."""
        return self.strength.shape

    def toarray(self) -> np.ndarray:
        """Return the weights in full."""
        array = -self.strength
        np.fill_diagonal(array, 0.0)
        return array

    def delivered(self, amounts: np.ndarray) -> np.ndarray:
        """See the function `delivered`."""
        return amounts * np.diagonal(self.strength) - amounts @ self.strength

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        """See the function `out_degrees`."""
        own = self.strength[sources, sources] != 0.0
        return np.count_nonzero(self.strength[sources], axis=1) - own


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
    lateral : array_like, LateralInhibition or InhibitionOnDemand, shape (n_pairs, n_pairs)
        Weights [source pair, target pair] between halves of one sign; zero diagonal.
    exchange : array_like, shape (n_pairs,)
        Weight from either half of a pair to the other half.

    Raises
    ------
    TypeError, ValueError
        If an array does not hold finite real numbers, has a wrong shape, or the diagonal is not zero.
    """

    lateral: np.ndarray | LateralInhibition | InhibitionOnDemand
    exchange: np.ndarray

    def __post_init__(self) -> None:
        lateral = self.lateral
        if not isinstance(lateral, (LateralInhibition, InhibitionOnDemand)):
            lateral = _dense("lateral", lateral)
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
        lateral = in_full(self.lateral)
        crossed = np.diag(self.exchange) - lateral
        return np.block([[lateral, crossed], [crossed, lateral]])

    def delivered(self, amounts: np.ndarray) -> np.ndarray:
        """See the function `delivered`."""
        positive, negative = np.split(amounts, 2, axis=-1)
        lateral = delivered(self.lateral, positive - negative)
        return np.concatenate(
            [lateral + self.exchange * negative, self.exchange * positive - lateral], axis=-1
        )

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        """See the function `out_degrees`."""
        pairs = sources % len(self.exchange)
        return 2 * out_degrees(self.lateral, pairs) + (self.exchange[pairs] != 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Block:
    """Dense weights from one range of neurons to another.

    Parameters
    ----------
    first_source, first_target : int
        Where the two ranges begin; their lengths are those of `values`.
    values : array_like, shape (n_sources, n_targets)
        Values [source, target]; where a neuron would meet itself they are not looked at.
    factor : float, default 1.0
        What multiplies the values.
    """

    first_source: int
    first_target: int
    values: np.ndarray
    factor: float = 1.0

    def __post_init__(self) -> None:
        values = checks.real_array("values", self.values, shape=(None, None), meaning="(source, target)")
        object.__setattr__(self, "values", checks.read_only(values))
        object.__setattr__(self, "factor", checks.real_number("factor", self.factor))
        for name in ("first_source", "first_target"):
            first = checks.integer(name, getattr(self, name))
            if first < 0:
                raise ValueError(f"{name} must not be negative; got {first}")
            object.__setattr__(self, name, first)


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """Weights made of dense blocks between ranges of neurons, such as layers.

    A spike costs what its source's blocks are long, not what the network is.

    Parameters
    ----------
    n_neurons : int
        Number of neurons.
    blocks : sequence of Block
        Where they overlap, they add up.

    Raises
    ------
    TypeError, ValueError
        If a block is none, or reaches beyond the neurons.
    """

    n_neurons: int
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        n_neurons = checks.positive_integer("n_neurons", self.n_neurons)
        if isinstance(self.blocks, Block) or not isinstance(self.blocks, Iterable):
            raise TypeError(f"blocks must be a sequence of Block; got {type(self.blocks).__name__}")
        blocks = tuple(self.blocks)
        for block in blocks:
            checks.instance_of("blocks", block, Block)
            last = (block.first_source + block.values.shape[0], block.first_target + block.values.shape[1])
            if max(last) > n_neurons:
                raise ValueError(
                    f"blocks must lie within the {n_neurons} neurons; got one that ends at source {last[0]}, "
                    f"target {last[1]}"
                )
        object.__setattr__(self, "n_neurons", n_neurons)
        object.__setattr__(self, "blocks", blocks)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_neurons, n_neurons)."""
        return self.n_neurons, self.n_neurons

    def toarray(self) -> np.ndarray:
        """Return the weights in full."""
        return self._rows(np.arange(self.n_neurons))

    def delivered(self, amounts: np.ndarray) -> np.ndarray:
        """See the function `delivered`."""
        received = np.zeros(amounts.shape)
        for block in self.blocks:
            n_sources, n_targets = block.values.shape
            sources = slice(block.first_source, block.first_source + n_sources)
            targets = slice(block.first_target, block.first_target + n_targets)
            received[..., targets] += block.factor * (amounts[..., sources] @ block.values)
            # What a neuron of both ranges would have sent to itself.
            own = np.arange(max(sources.start, targets.start), min(sources.stop, targets.stop))
            to_itself = block.values[own - sources.start, own - targets.start]
            received[..., own] -= block.factor * to_itself * amounts[..., own]
        return received

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        """See the function `out_degrees`."""
        return np.count_nonzero(self._rows(sources), axis=1)

    def _rows(self, sources: np.ndarray) -> np.ndarray:
        """Return some rows in full, shape (len(sources), n_neurons)."""
        rows = np.zeros((len(sources), self.n_neurons))
        for block in self.blocks:
            n_sources, n_targets = block.values.shape
            place = sources - block.first_source
            inside = (place >= 0) & (place < n_sources)
            targets = slice(block.first_target, block.first_target + n_targets)
            rows[inside, targets] += block.factor * block.values[place[inside]]
        rows[np.arange(len(sources)), sources] = 0.0
        return rows

    def segmented(self) -> SegmentedWeights:
        """Return the same weights as the kernels take them."""
        sources, targets, lengths, offsets, factors = [], [], [], [], []
        place = 0
        for block in self.blocks:
            n_sources, n_targets = block.values.shape
            source = block.first_source + np.arange(n_sources)
            row = place + n_targets * np.arange(n_sources)
            # A row that passes the source itself is cut in two there.
            own = source - block.first_target
            passes = (own >= 0) & (own < n_targets)
            before = np.where(passes, own, n_targets)
            after = np.where(passes, n_targets - own - 1, 0)
            sources += [source, source]
            targets += [np.full(n_sources, block.first_target), source + 1]
            lengths += [before, after]
            offsets += [row, row + own + 1]
            factors += [np.full(2 * n_sources, block.factor)]
            place += block.values.size
        if not self.blocks:
            empty = np.empty(0, dtype=np.int64)
            starts = np.zeros(self.n_neurons + 1, dtype=np.int64)
            return SegmentedWeights(self.n_neurons, starts, empty, empty, empty, np.empty(0), np.empty(0))
        sources, targets, lengths, offsets, factors = (
            np.concatenate(pieces) for pieces in (sources, targets, lengths, offsets, factors)
        )
        order = np.argsort(sources, kind="stable")
        order = order[(lengths > 0)[order] & (factors != 0.0)[order]]
        starts = np.searchsorted(sources[order], np.arange(self.n_neurons + 1))
        values = np.concatenate([block.values.ravel() for block in self.blocks])
        return SegmentedWeights(
            self.n_neurons, starts, targets[order], lengths[order], offsets[order], factors[order], values
        )


@dataclass(frozen=True, eq=False)
class SegmentedWeights:
    """Weights as rows of segments, each a range of targets: what kernels take.

    It checks nothing.  The numbers in `values` may be changed between two runs, which is how weights
    learn without being built anew.

    Parameters
    ----------
    n_neurons : int
        Number of neurons.
    starts : ndarray of int, shape (n_neurons + 1,)
        Where the segments of each source begin.
    targets, lengths, offsets : ndarray of int, shape (n_segments,)
        First target of each segment, its length, and where its weights begin in `values`.
    factors : ndarray, shape (n_segments,)
        What multiplies them.
    values : ndarray, shape (n_values,)
        Weights, which segments may share.
    """

    n_neurons: int
    starts: np.ndarray
    targets: np.ndarray
    lengths: np.ndarray
    offsets: np.ndarray
    factors: np.ndarray
    values: np.ndarray

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return starts, targets, lengths, offsets, factors and values."""
        return self.starts, self.targets, self.lengths, self.offsets, self.factors, self.values


Weights = (
    np.ndarray
    | sparse.csr_array
    | LateralInhibition
    | InhibitionOnDemand
    | MirroredWeights
    | BlockWeights
    | StencilWeights
)
STRUCTURES = (LateralInhibition, InhibitionOnDemand, MirroredWeights, BlockWeights, StencilWeights)


def as_weights(weights: Any) -> Weights:
    """Return checked, read-only weights in one of the seven forms.

    Raises
    ------
    TypeError
        If they are not an array or a sparse matrix of real numbers, or one of the structures.
    ValueError
        If they are not square, not finite, or a neuron is connected to itself.
    """
    if isinstance(weights, STRUCTURES):
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


def in_full(weights: Weights) -> np.ndarray:
    """Return the weights as a dense array."""
    return weights if isinstance(weights, np.ndarray) else weights.toarray()


def lateral_of(weights: Weights) -> tuple[Weights, np.ndarray]:
    """Return the weights between pairs, and those within them; of what has no pairs itself, and none."""
    if isinstance(weights, MirroredWeights):
        return weights.lateral, weights.exchange
    return weights, NONE_IN_PAIRS


def scaled_rows(weights: np.ndarray | LateralInhibition | InhibitionOnDemand) -> tuple[np.ndarray, float]:
    """Return a matrix and the factor that makes it the weights, its diagonal apart.

    Whoever cannot wait for a row that is not there gets all of them.
    """
    if isinstance(weights, LateralInhibition):
        return weights.strength, -1.0
    if isinstance(weights, InhibitionOnDemand):
        return weights.toarray(), 1.0
    return weights, 1.0


def stored_rows(
    weights: np.ndarray | LateralInhibition | InhibitionOnDemand,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return (rows, row_of, factor), the arrays read-only.

    Row i of the weights, but for its diagonal, is factor * rows[row_of[i]], or not there yet if row_of[i]
    is -1.
    """
    if isinstance(weights, InhibitionOnDemand):
        rows, row_of = weights.stored()
        return checks.read_only(rows), checks.read_only(row_of), -1.0
    rows, factor = scaled_rows(weights)
    return checks.read_only(rows), _each_its_own(len(rows)), factor


@lru_cache(maxsize=16)
def _each_its_own(n_rows: int) -> np.ndarray:
    return checks.read_only(np.arange(n_rows))


def delivered(weights: Weights, amounts: np.ndarray) -> np.ndarray:
    """Return W^T amounts: what each target receives when source j sends `amounts[..., j]`."""
    if isinstance(weights, (np.ndarray, sparse.csr_array)):
        return amounts @ weights
    return weights.delivered(amounts)


def out_degrees(weights: Weights, sources: np.ndarray) -> np.ndarray:
    """Return to how many targets the spikes of each source go: the non-zero weights of its row."""
    if isinstance(weights, np.ndarray):
        return np.count_nonzero(weights[sources], axis=1)
    if isinstance(weights, sparse.csr_array):
        return np.diff(weights.indptr)[sources]
    return weights.out_degrees(sources)


def n_deliveries(weights: Weights, spike_counts: np.ndarray) -> np.ndarray:
    """Return how many times a spike reached a target, the sum over the last axis of `spike_counts`."""
    fired = np.flatnonzero(spike_counts.reshape(-1, spike_counts.shape[-1]).any(axis=0))
    return spike_counts[..., fired] @ out_degrees(weights, fired)

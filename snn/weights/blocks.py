"""Weights made of dense blocks, and the segments that kernels read them by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn._kernels.forms import Segments
from snn.base import checks
from snn.base.html import Described, memory, number
from snn.base.unchanging import Unchanging
from snn.weights.dense import largest_off_diagonal
from snn.weights.protocol import Weights, kept, same_type


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Block(Unchanging, Described):
    """Dense weights from one range of neurons to another.

    Parameters
    ----------
    first_source, first_target : int
        First neuron of each range.  The shape of `values` says how long the ranges are.
    values : array_like, shape (n_sources, n_targets)
        Values [source, target]; those from a neuron to itself are ignored.
    factor : float, default 1.0
        Multiplies the values.
    """

    first_source: int
    first_target: int
    values: np.ndarray
    factor: float = 1.0

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(
            self, *, first_source: int, first_target: int, values: ArrayLike, factor: float = 1.0
        ) -> None: ...

    def __post_init__(self) -> None:
        values = checks.real_array("values", self.values, shape=(None, None), meaning="(source, target)")
        vars(self).update(
            first_source=checks.non_negative_integer("first_source", self.first_source),
            first_target=checks.non_negative_integer("first_target", self.first_target),
            values=checks.read_only(values),
            factor=checks.real_number("factor", self.factor),
        )

    @property
    def sources(self) -> slice:
        """The neurons that the weights are from."""
        return slice(self.first_source, self.first_source + self.values.shape[0])

    @property
    def targets(self) -> slice:
        """The neurons that the weights are to."""
        return slice(self.first_target, self.first_target + self.values.shape[1])

    def _facts(self) -> dict[str, str]:
        n_sources, n_targets = self.values.shape
        return {
            "sources": f"{number(n_sources)} from neuron {self.first_source:,}",
            "targets": f"{number(n_targets)} from neuron {self.first_target:,}",
            "factor": number(self.factor),
            "memory": memory(self.values.nbytes),
        }


@dataclass(frozen=True, eq=False, repr=False)
class BlockWeights(Weights):
    """Weights made of dense blocks between ranges of neurons, such as layers.

    The cost of a spike is the length of its source's rows in the blocks, not the size of the network.

    Parameters
    ----------
    n_neurons : int
        Number of neurons.
    blocks : sequence of Block
        Where they overlap, they add up.

    Raises
    ------
    TypeError, ValueError
        If an entry is not a `Block`, or reaches beyond the neurons.
    """

    n_neurons: int
    blocks: tuple[Block, ...]

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(self, n_neurons: int, blocks: Iterable[Block]) -> None: ...

    def __post_init__(self) -> None:
        n_neurons = checks.positive_integer("n_neurons", self.n_neurons)
        checks.instance_of("blocks", self.blocks, Iterable, hint=": pass a sequence of Block")
        blocks = tuple(self.blocks)
        for block in blocks:
            checks.instance_of("blocks", block, Block)
            if max(block.sources.stop, block.targets.stop) > n_neurons:
                raise ValueError(
                    f"blocks must lie within the {n_neurons} neurons; got one that ends at source "
                    f"{block.sources.stop}, target {block.targets.stop}"
                )
        vars(self).update(n_neurons=n_neurons, blocks=blocks)

    @property
    def layout(self) -> tuple[int]:
        return (self.n_neurons,)

    @property
    def work_per_spike(self) -> float:
        return self.segments.work_per_spike

    @property
    def nbytes(self) -> int:
        return sum(block.values.nbytes for block in self.blocks)

    def stored_facts(self) -> dict[str, str]:
        return {"blocks": number(len(self.blocks)), "memory": memory(self.nbytes)}

    def kernel_form(self) -> Segments:
        return self.segments.kernel_form()

    def toarray(self) -> np.ndarray:
        return self._rows(np.arange(self.n_neurons))

    def transpose_product(self, amounts: np.ndarray) -> np.ndarray:
        received = np.zeros(amounts.shape)
        for block in self.blocks:
            sources, targets = block.sources, block.targets
            received[..., targets] += block.factor * (amounts[..., sources] @ block.values)
            # Take away what a neuron of both ranges would send to itself.
            own = np.arange(max(sources.start, targets.start), min(sources.stop, targets.stop))
            to_itself = block.values[own - sources.start, own - targets.start]
            received[..., own] -= block.factor * to_itself * amounts[..., own]
        return received

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        return np.count_nonzero(self._rows(sources), axis=1)

    @kept
    def largest_magnitudes(self) -> np.ndarray:
        if any(_overlap(one, other) for one, other in combinations(self.blocks, 2)):
            # Overlapping weights add up.
            return np.abs(self.toarray()).max(axis=0, initial=0.0)
        largest = np.zeros(self.n_neurons)
        for block in self.blocks:
            in_block = largest_off_diagonal(
                block.values, first_source=block.first_source, first_target=block.first_target
            )
            largest[block.targets] = np.maximum(largest[block.targets], abs(block.factor) * in_block)
        return largest

    def _rows(self, sources: np.ndarray) -> np.ndarray:
        """Return some rows as a dense array, shape (len(sources), n_neurons)."""
        rows = np.zeros((len(sources), self.n_neurons))
        for block in self.blocks:
            place = sources - block.first_source
            inside = (place >= 0) & (place < len(block.values))
            rows[inside, block.targets] += block.factor * block.values[place[inside]]
        rows[np.arange(len(sources)), sources] = 0.0
        return rows

    @cached_property
    def segments(self) -> SegmentedWeights:
        """The same weights as segments; their values are a copy, block after block."""
        connections, place = [], 0
        for block in self.blocks:
            connections.append(
                Connection(block.first_source, block.first_target, block.values.shape, place, block.factor)
            )
            place += block.values.size
        values = np.concatenate([np.empty(0), *(block.values.ravel() for block in self.blocks)])
        return segments_of(self.n_neurons, connections, values)


class Connection(NamedTuple):
    """Dense weights from one range of neurons to another, which lie in an array of values."""

    first_source: int
    first_target: int
    shape: tuple[int, int]
    offset: int
    """Where the weights begin, source by source."""
    factor: float = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class SegmentedWeights(Weights):
    """Weights as segments, each a range of targets of one source: what kernels read.

    `values` is not copied, and its numbers may be changed between two runs; that is how weights learn
    without being built again.  They are not checked, and nothing derived from them is kept.

    Parameters
    ----------
    n_neurons : int
        Number of neurons.
    starts : ndarray of int, shape (n_neurons + 1,)
        Where the segments of each source begin.
    targets, lengths, offsets : ndarray of int, shape (n_segments,)
        First target of each segment, its length, and where its weights begin in `values`.
    factors : ndarray, shape (n_segments,)
        Multiply the weights of a segment.
    values : ndarray of float64, shape (n_values,), contiguous
        Weights; segments may share them.

    Raises
    ------
    TypeError, ValueError
        If an array has a wrong type or shape, or a segment reaches beyond the neurons or the values, or
        contains its own source.
    """

    n_neurons: int
    starts: np.ndarray
    targets: np.ndarray
    lengths: np.ndarray
    offsets: np.ndarray
    factors: np.ndarray
    values: np.ndarray

    def __post_init__(self) -> None:
        n_neurons = checks.positive_integer("n_neurons", self.n_neurons)
        values = self.values
        if not isinstance(values, np.ndarray) or values.dtype != np.float64:
            raise TypeError(
                f"values must be an array of float64; got {getattr(values, 'dtype', type(values).__name__)}"
            )
        if values.ndim != 1 or not values.flags.c_contiguous:
            raise ValueError(f"values must be 1-D and contiguous; got shape {values.shape}")
        starts = _integers("starts", self.starts, n_neurons + 1)
        targets = _integers("targets", self.targets, None)
        lengths = _integers("lengths", self.lengths, len(targets))
        offsets = _integers("offsets", self.offsets, len(targets))
        factors = np.ascontiguousarray(self.factors, dtype=np.float64)
        if factors.shape != targets.shape:
            raise ValueError(f"factors must have shape {targets.shape}; got shape {factors.shape}")
        if not np.isfinite(factors).all():
            raise ValueError(f"factors must be finite; got {factors[~np.isfinite(factors)][0]}")
        if starts[0] != 0 or starts[-1] != len(targets) or (np.diff(starts) < 0).any():
            raise ValueError(
                f"starts must rise from 0 to the number of segments, {len(targets)}; "
                f"got {starts[0]} to {starts[-1]}"
            )
        _require_ranges("targets and lengths", targets, lengths, n_neurons, f"the {n_neurons} neurons")
        _require_ranges("offsets and lengths", offsets, lengths, len(values), f"the {len(values)} values")
        distance = np.repeat(np.arange(n_neurons), np.diff(starts)) - targets
        own = np.flatnonzero((distance >= 0) & (distance < lengths))
        if len(own):
            raise ValueError(
                "a segment must not contain its own source (no neuron connects to itself); "
                f"segment {own[0]} does: cut it in two there"
            )
        vars(self).update(
            n_neurons=n_neurons,
            starts=checks.read_only(starts),
            targets=checks.read_only(targets),
            lengths=checks.read_only(lengths),
            offsets=checks.read_only(offsets),
            factors=checks.read_only(factors),
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        vars(self)["values"] = state["values"]  # which may be changed

    @property
    def layout(self) -> tuple[int]:
        return (self.n_neurons,)

    @property
    def work_per_spike(self) -> float:
        return float(self.lengths.sum() / self.n_neurons)

    @kept
    def kernel_form(self) -> Segments:
        # Its values are a view of `values`, and follow what changes there.
        integers = (same_type(x, np.int64) for x in (self.starts, self.targets, self.lengths, self.offsets))
        return Segments(*integers, *(same_type(x, np.float64) for x in (self.factors, self.values)))

    def tocsr(self) -> sparse.csr_array:
        first = np.cumsum(self.lengths) - self.lengths
        within = np.arange(self.lengths.sum()) - np.repeat(first, self.lengths)
        targets = np.repeat(self.targets, self.lengths) + within
        weights = self.values[np.repeat(self.offsets, self.lengths) + within]
        weights = weights * np.repeat(self.factors, self.lengths)
        starts = np.append(first, len(within))[self.starts]
        matrix = sparse.csr_array((weights, targets, starts), shape=self.shape)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix

    def toarray(self) -> np.ndarray:
        return self.tocsr().toarray()


def segments_of(n_neurons: int, connections: Iterable[Connection], values: np.ndarray) -> SegmentedWeights:
    """Return the weights of connections between ranges of neurons; connections may share values.

    Shapes: values (n_values,).
    """
    none = np.empty(0, dtype=np.int64)
    pieces: list[tuple[np.ndarray, ...]] = [(none, none, none, none, np.empty(0))]
    for first_source, first_target, (n_sources, n_targets), offset, factor in connections:
        source = first_source + np.arange(n_sources)
        row = offset + n_targets * np.arange(n_sources)
        # A row that contains the source itself is cut in two there.
        own = source - first_target
        inside = (own >= 0) & (own < n_targets)
        before = np.where(inside, own, n_targets)
        after = np.where(inside, n_targets - own - 1, 0)
        factors = np.full(n_sources, factor)
        pieces += [
            (source, np.full(n_sources, first_target), before, row, factors),
            (source, source + 1, after, row + own + 1, factors),
        ]
    sources, targets, lengths, offsets, factors = (
        np.concatenate(column) for column in zip(*pieces, strict=True)
    )
    order = np.argsort(sources, kind="stable")
    order = order[(lengths > 0)[order] & (factors != 0.0)[order]]
    starts = np.searchsorted(sources[order], np.arange(n_neurons + 1))
    return SegmentedWeights(
        n_neurons, starts, targets[order], lengths[order], offsets[order], factors[order], values
    )


def _overlap(one: Block, other: Block) -> bool:
    """Return True if two blocks have a weight in common."""
    ranges = (one.sources, other.sources), (one.targets, other.targets)
    return all(a.start < b.stop and b.start < a.stop for a, b in ranges)


def _integers(name: str, value: np.ndarray, length: int | None) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be an array of integers; got dtype {array.dtype}")
    if array.ndim != 1 or (length is not None and len(array) != length):
        wanted = "any" if length is None else length
        raise ValueError(f"{name} must have shape ({wanted},); got shape {array.shape}")
    return np.ascontiguousarray(array, dtype=np.int64)


def _require_ranges(name: str, first: np.ndarray, lengths: np.ndarray, end: int, of: str) -> None:
    """Raise ValueError unless every range [first, first + length) is within [0, end)."""
    # Compared without their sum, which may overflow.
    wrong = np.flatnonzero((lengths < 0) | (first < 0) | ((lengths > 0) & (first > end - lengths)))
    if len(wrong):
        where = wrong[0]
        raise ValueError(
            f"{name} must lie within {of}; got {lengths[where]} from {first[where]} for segment {where}"
        )

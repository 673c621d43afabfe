"""Weights made of dense blocks between ranges of neurons, as the segments that kernels read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn._kernels import forms
from snn.base import checks
from snn.base.html import memory, number
from snn.weights.protocol import Weights, kept, same_type


class Block(NamedTuple):
    """Dense weights from one range of neurons to another.

    Attributes
    ----------
    first_source, first_target : int
        First neuron of each range; the shape of `values` gives their lengths.
    values : array_like, shape (n_sources, n_targets)
        Values [source, target]; those from a neuron to itself are ignored.
    factor : float, default 1.0
        Multiplies the values.
    """

    first_source: int
    first_target: int
    values: ArrayLike
    factor: float = 1.0


class Connection(NamedTuple):
    """Dense weights from one range of neurons to another, stored within an array of values."""

    first_source: int
    first_target: int
    shape: tuple[int, int]
    offset: int
    """Where the weights begin, source by source."""
    factor: float = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class Segments(Weights):
    """Weights as segments, each a range of targets of one source, such as those of layers.

    The cost of a spike is the length of its source's segments, not the size of the network.  `of_blocks`
    makes them of dense blocks.

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
        factors = np.array(self.factors, dtype=np.float64)
        if factors.shape != targets.shape or not np.isfinite(factors).all():
            raise ValueError(f"factors must be finite, one a segment, shape {targets.shape}; got {factors}")
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
            n_neurons=n_neurons, starts=starts, targets=targets, lengths=lengths, offsets=offsets,
            factors=factors,
        )  # fmt: skip
        for array in (starts, targets, lengths, offsets, factors):
            array.flags.writeable = False

    @classmethod
    def of_blocks(cls, n_neurons: int, blocks: Iterable[Block]) -> Segments:
        """Return weights made of dense blocks between ranges of neurons; the values are copied.

        Parameters
        ----------
        n_neurons : int
            Number of neurons.
        blocks : sequence of Block
            Where they overlap, they add up.
        """
        n_neurons = checks.positive_integer("n_neurons", n_neurons)
        checks.instance_of("blocks", blocks, Iterable, hint=": pass a sequence of Block")
        connections, arrays, place = [], [np.empty(0)], 0
        for block in blocks:
            checks.instance_of("blocks", block, Block)
            source = checks.non_negative_integer("first_source", block.first_source)
            target = checks.non_negative_integer("first_target", block.first_target)
            values = checks.real_array("values", block.values, shape=(None, None), meaning="(source, target)")
            ends = source + values.shape[0], target + values.shape[1]
            if max(ends) > n_neurons:
                raise ValueError(
                    f"blocks must lie within the {n_neurons} neurons; got one that ends at source "
                    f"{ends[0]}, target {ends[1]}"
                )
            factor = checks.real_number("factor", block.factor)
            connections.append(Connection(source, target, values.shape, place, factor))
            arrays.append(values.ravel())
            place += values.size
        return cls.of_connections(n_neurons, connections, checks.read_only(np.concatenate(arrays)))

    @classmethod
    def of_connections(
        cls, n_neurons: int, connections: Iterable[Connection], values: np.ndarray
    ) -> Segments:
        """Return the weights of connections between ranges of neurons, which may share values.

        Parameters
        ----------
        n_neurons : int
            Number of neurons.
        connections : sequence of Connection
            Ranges, and where their weights begin in `values`.
        values : ndarray of float64, shape (n_values,)
            Weights; not copied.
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
        return cls(n_neurons, starts, targets[order], lengths[order], offsets[order], factors[order], values)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        vars(self)["values"] = state["values"]  # which may be changed

    @property
    def layout(self) -> tuple[int]:
        return (self.n_neurons,)

    @property
    def work_per_spike(self) -> float:
        return float(self.lengths.sum() / self.n_neurons)

    def stored_facts(self) -> dict[str, str]:
        return {"segments": number(len(self.targets)), "memory": memory(self.values.nbytes)}

    @kept
    def kernel_form(self) -> forms.Segments:
        # Its values are a view of `values`, and follow what changes there.
        integers = (same_type(x, np.int64) for x in (self.starts, self.targets, self.lengths, self.offsets))
        return forms.Segments(*integers, *(same_type(x, np.float64) for x in (self.factors, self.values)))

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


def _integers(name: str, value: np.ndarray, length: int | None) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be an array of integers; got dtype {array.dtype}")
    if array.ndim != 1 or (length is not None and len(array) != length):
        wanted = "any" if length is None else length
        raise ValueError(f"{name} must have shape ({wanted},); got shape {array.shape}")
    return np.array(array, dtype=np.int64)


def _require_ranges(name: str, first: np.ndarray, lengths: np.ndarray, end: int, of: str) -> None:
    """Raise ValueError unless every range [first, first + length) is within [0, end)."""
    # Compared without their sum, which may overflow.
    wrong = np.flatnonzero((lengths < 0) | (first < 0) | ((lengths > 0) & (first > end - lengths)))
    if len(wrong):
        where = wrong[0]
        raise ValueError(
            f"{name} must lie within {of}; got {lengths[where]} from {first[where]} for segment {where}"
        )

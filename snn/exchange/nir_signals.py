"""What flows along the edges of a NIR graph: constants, impulses of spikes, and spikes filtered by an LI."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from snn.base import checks
from snn.exchange.nir_graph import FlatGraph, in_order
from snn.exchange.nir_linear import LinearNode, Matrix, Product, linear_node, parameter

Wire: TypeAlias = LinearNode | None
"""Weights from the neurons of a node, [target, source]; None for the identity."""

REASONS = {
    "LIF": "its membrane potential leaks, and that of these neurons does not",
    "CubaLIF": "its membrane potential leaks, and that of these neurons does not",
    "CubaLI": "it filters spikes twice, and synapses here filter once, by an LI",
    "I": "it integrates and never fires; a neuron is an IF",
    "Threshold": "it fires without a reset; a neuron is an IF",
    "Delay": "spikes act at once here",
    "Conv1d": "of convolutions, only Conv2d is taken",
    "SumPool2d": "pooling is not taken: write it as a Conv2d",
    "AvgPool2d": "pooling is not taken: write it as a Conv2d",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Value:
    """The value of a node.

    Attributes
    ----------
    length : int or None
        Number of entries; None if nothing has said it.
    shape : tuple of int, optional
        Shape of the array that these are, where it is known.
    constant : ndarray or float
        The part that does not change.
    unset : frozenset of str
        Inputs that it depends on, and that were not given.
    impulses, filtered : dict of str to Wire
        Weights from the spikes of IF nodes: as unit impulses, and as decaying currents.
    """

    length: int | None = None
    shape: tuple[int, ...] | None = None
    constant: np.ndarray | float = 0.0
    unset: frozenset[str] = frozenset()
    impulses: Mapping[str, Wire] = field(default_factory=dict)
    filtered: Mapping[str, Wire] = field(default_factory=dict)


class IncomingCurrents(NamedTuple):
    """What drives the neurons of an IF node, and when they fire."""

    constant: np.ndarray
    wires: Mapping[str, Wire]
    threshold: np.ndarray


class Inflow(NamedTuple):
    """What drives all IF nodes.

    Attributes
    ----------
    currents : dict of str to IncomingCurrents
        For each IF node.
    time_constant : float
        tau of all LI on the way.
    ignored : tuple of str
        Nodes that reach no neuron.
    """

    currents: dict[str, IncomingCurrents]
    time_constant: float
    ignored: tuple[str, ...]


def inflow(graph: FlatGraph, neurons: list[str], signals: Mapping[str, np.ndarray]) -> Inflow:
    """Return what drives the neurons of a graph.

    Parameters
    ----------
    graph : FlatGraph
        The graph.
    neurons : list of str
        Names of the IF nodes.
    signals : mapping of str to ndarray
        Values of the inputs that were given.

    Raises
    ------
    TypeError, ValueError
        If a node is none that such a network can have.
    """
    needed = _ancestors(graph, neurons)
    walk = _Walk(graph, signals)
    for name in in_order(graph, neurons):
        if name in neurons:
            shape = np.atleast_1d(np.asarray(graph.nodes[name].v_threshold)).shape
            walk.values[name] = Value(length=int(np.prod(shape)), shape=shape, impulses={name: None})
        elif name in needed:
            walk.values[name] = walk.value(name)
    currents = {name: walk.currents_into(name) for name in neurons}
    ignored = tuple(
        name for name in graph.nodes if name not in needed and graph.kind(name) not in ("Input", "Output")
    )
    return Inflow(currents, walk.time_constant or 1.0, ignored)


def require_known_kinds(graph: FlatGraph) -> None:
    """Raise ValueError if a node is of a kind that no network here can have."""
    for name in graph.nodes:
        kind = graph.kind(name)
        if kind in REASONS:
            raise ValueError(f"node {name!r} must not be a {kind}: {REASONS[kind]}")


class _Walk:
    """Values of nodes, computed one after the other."""

    def __init__(self, graph: FlatGraph, signals: Mapping[str, np.ndarray]) -> None:
        self.graph, self.signals = graph, signals
        self.values: dict[str, Value] = {}
        self.time_constant: float | None = None
        self._first_integrator = ""

    def value(self, name: str) -> Value:
        """Return the value of a node that is not an IF."""
        node, kind = self.graph.nodes[name], self.graph.kind(name)
        if kind == "Input" and not self.graph.before[name]:
            shape = input_shape(name, node)
            length = int(np.prod(shape))
            if name in self.signals:
                return Value(length=length, shape=shape, constant=self.signals[name])
            return Value(length=length, shape=shape, constant=np.zeros(length), unset=frozenset([name]))
        incoming = self._sum(name)
        if kind == "LI":
            return self._filtered(name, node, incoming)
        if kind in ("Input", "Output"):
            return self._handed_on(name, node, incoming)
        if kind == "Flatten":
            return replace(incoming, shape=None)
        linear = linear_node(name, node, incoming.shape)
        if linear is None:
            raise ValueError(
                f"node {name!r} must be of a kind that is known here (IF, LI, Affine, Linear, Scale, Conv2d, "
                f"Flatten, Input, Output, NIRGraph); got {kind}"
            )
        return self._through(name, linear, incoming)

    def currents_into(self, name: str) -> IncomingCurrents:
        """Return what drives the neurons of an IF node."""
        node, incoming = self.graph.nodes[name], self._sum(name)
        threshold = parameter(name, "v_threshold", node.v_threshold)
        resistance = parameter(name, "r", node.r, shape=threshold.shape, meaning="as v_threshold")
        reset = parameter(name, "v_reset", node.v_reset, shape=threshold.shape, meaning="as v_threshold")
        if not (threshold > 0.0).all():
            raise ValueError(f"v_threshold of node {name!r} must be positive; got {threshold.min()}")
        if reset.any():
            raise ValueError(
                f"v_reset of node {name!r} must be zero; got {reset[reset != 0.0].flat[0]}: neurons here are "
                "reset to zero and start at zero, and NIR does not say where potentials start"
            )
        self._require_shape(name, incoming, np.atleast_1d(threshold).shape)
        if incoming.impulses:
            raise ValueError(
                f"node {name!r} must get spikes through a leaky integrator, nir.LI; got those of "
                f"{sorted(incoming.impulses)} as they are"
            )
        if incoming.unset:
            raise ValueError(
                f"signal must be given: node {name!r} depends on the input {sorted(incoming.unset)}; for "
                "none pass zeros"
            )
        resistance = resistance.ravel()
        return IncomingCurrents(
            resistance * np.broadcast_to(incoming.constant, threshold.size),
            {source: _rows_times(resistance, wire) for source, wire in incoming.filtered.items()},
            threshold.ravel(),
        )

    def _filtered(self, name: str, node: Any, incoming: Value) -> Value:
        """Return the value of an LI: tau dv/dt = -v + r x, where x are spikes and nothing else."""
        tau = parameter(name, "tau", node.tau)
        resistance = parameter(name, "r", node.r, shape=tau.shape, meaning="as tau")
        leak = parameter(name, "v_leak", node.v_leak, shape=tau.shape, meaning="as tau")
        if leak.any():
            raise ValueError(f"v_leak of node {name!r} must be zero; got {leak[leak != 0.0].flat[0]}")
        first = float(tau.flat[0])
        if not first > 0.0 or (tau != first).any():
            raise ValueError(
                f"tau of node {name!r} must be one positive number for all synapses; got {tau.min()} to "
                f"{tau.max()}"
            )
        if self.time_constant is None:
            self.time_constant, self._first_integrator = first, name
        elif self.time_constant != first:
            raise ValueError(
                f"tau of node {name!r} must be that of node {self._first_integrator!r}, "
                f"{self.time_constant}, since all synapses here have one time constant; got {first}"
            )
        self._require_shape(name, incoming, np.atleast_1d(tau).shape)
        if incoming.filtered:
            raise ValueError(
                f"node {name!r} must get spikes that no other LI has filtered; got those of "
                f"{sorted(incoming.filtered)}"
            )
        if incoming.unset or np.any(incoming.constant):
            what = f"the input {sorted(incoming.unset)}" if incoming.unset else "a constant"
            raise ValueError(f"node {name!r} must get spikes of neurons and nothing else; got {what}")
        filtered = {
            source: _rows_times(resistance.ravel(), wire) for source, wire in incoming.impulses.items()
        }
        return Value(length=tau.size, shape=np.atleast_1d(tau).shape, filtered=filtered)

    def _handed_on(self, name: str, node: Any, incoming: Value) -> Value:
        """Return the value of an Input or Output of a graph within the graph."""
        if isinstance(node.input_type, dict) and node.input_type.get("input") is None:
            return incoming
        shape = input_shape(name, node)
        self._require_shape(name, incoming, shape)
        return replace(incoming, shape=_finer(incoming.shape, shape))

    def _through(self, name: str, node: LinearNode, incoming: Value) -> Value:
        self._require_shape(name, incoming, node.shape_before)
        values = np.broadcast_to(np.asarray(incoming.constant), math.prod(node.shape_before))
        constant = node.apply(values) + node.bias
        return Value(
            length=len(constant),
            shape=node.shape_behind or _finer(incoming.shape, node.shape_before),
            constant=constant,
            unset=frozenset() if node.is_zero else incoming.unset,
            impulses={source: _after(node, wire) for source, wire in incoming.impulses.items()},
            filtered={source: _after(node, wire) for source, wire in incoming.filtered.items()},
        )

    def _sum(self, name: str) -> Value:
        """Return the sum of the values of all nodes before one."""
        total = Value()
        for before in self.graph.before[name]:
            value = self.values[before]
            if total.length is None or not self.graph.before[name]:
                total = value
                continue
            if value.length is not None and value.length != total.length:
                raise ValueError(
                    f"node {name!r} must get values of one length from all nodes before it; got "
                    f"{total.length} and, from {before!r}, {value.length}"
                )
            if not _agree(total.shape, value.shape):
                raise ValueError(
                    f"node {name!r} must get values of one shape from all nodes before it; got {total.shape} "
                    f"and, from {before!r}, {value.shape}"
                )
            total = replace(
                total,
                shape=_finer(total.shape, value.shape),
                constant=total.constant + value.constant,
                unset=total.unset | value.unset,
                impulses=_added(total.impulses, value.impulses, total.length),
                filtered=_added(total.filtered, value.filtered, total.length),
            )
        return total

    def _require_shape(self, name: str, value: Value, shape: tuple[int, ...]) -> None:
        length = math.prod(shape)
        if value.length is not None and value.length != length:
            raise ValueError(f"node {name!r} must get {length} values; got {value.length}")
        if not _agree(value.shape, shape):
            raise ValueError(
                f"node {name!r} must get values of shape {shape}; got {value.shape}: put a Flatten before it "
                "if the order of the values is right"
            )


def _agree(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> bool:
    """Return whether arrays of two shapes of one length have their values in one order; vectors have any."""
    return one is None or other is None or len(one) == 1 or len(other) == 1 or one == other


def _finer(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the one of two shapes that agree which says more."""
    return one if len(one or ()) >= len(other or ()) else other


def input_shape(name: str, node: Any) -> tuple[int, ...]:
    """Return the shape of what an Input node holds."""
    try:
        shape = np.atleast_1d(np.asarray(node.input_type["input"]))
    except (KeyError, TypeError, IndexError, ValueError):
        shape = np.zeros(0)
    if shape.ndim != 1 or shape.dtype.kind not in "iu" or not shape.size or (shape < 1).any():
        raise ValueError(f"node {name!r} must have a shape of positive integers; got {node.input_type!r:.80}")
    return tuple(int(side) for side in shape)


def signal_of(name: str, node: Any, signal: Any) -> np.ndarray:
    """Return the values of an input as a vector, checked."""
    shape = input_shape(name, node)
    try:
        n_axes = np.ndim(signal)
    except ValueError:
        n_axes = len(shape)
    values = checks.real_array(
        "signal",
        signal,
        shape=(None,) * (n_axes if n_axes else 1),
        meaning=f"the input {name!r} of shape {shape}",
    )
    if values.shape != shape and values.shape != (int(np.prod(shape)),):
        raise ValueError(f"signal must have the shape {shape} of the input {name!r}; got {values.shape}")
    return values.ravel()


def expanded(wire: Wire, n_sources: int) -> Matrix:
    """Return the matrix of a wire."""
    return sparse.eye_array(n_sources, format="csr") if wire is None else wire.matrix()


def _after(node: LinearNode, wire: Wire) -> Wire:
    if wire is None:
        return node
    return Product(node.matrix() @ expanded(wire, math.prod(node.shape_before)))


def _rows_times(factors: np.ndarray, wire: Wire) -> Wire:
    if (factors == 1.0).all():
        return wire
    return Product(sparse.diags_array(factors, format="csr") @ expanded(wire, len(factors)))


def _added(ones: Mapping[str, Wire], others: Mapping[str, Wire], length: int) -> dict[str, Wire]:
    """Return the sums of wires that end at the same node, of `length` entries: so long is an identity."""
    result = dict(ones)
    for source, wire in others.items():
        if source in result:
            wire = Product(expanded(result[source], length) + expanded(wire, length))
        result[source] = wire
    return result


def _ancestors(graph: FlatGraph, names: list[str]) -> set[str]:
    """Return the nodes from which a path leads to one of some nodes, these included."""
    found, waiting = set(names), list(names)
    while waiting:
        for before in graph.before[waiting.pop()]:
            if before not in found:
                found.add(before)
                waiting.append(before)
    return found

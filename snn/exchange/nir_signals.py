"""What flows along the edges of a NIR graph: constants, impulses of spikes, and spikes filtered by an LI."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from snn.exchange.nir_graph import FlatGraph, ancestors, in_order, kind_of
from snn.exchange.nir_linear import (
    Convolution,
    LinearNode,
    Shape,
    Weight,
    Wire,
    linear_node,
    parameter,
    real_values,
    scaling,
)

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
"""Kinds of nodes that no network here can have."""
WHY_ZERO = {
    "v_reset": "neurons here are reset to zero and start at zero, and NIR does not say where potentials "
    "start",
    "v_leak": "a synapse here has no current without spikes",
}
"""Why a parameter must be zero."""


class Spikes(NamedTuple):
    """The spikes of an IF node: as unit impulses, or filtered, as decaying currents."""

    node: str
    filtered: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Value:
    """The value of a node: a constant, and weights times spikes.

    Attributes
    ----------
    shape : tuple of int or None
        Shape of the array of its entries, (n,) where they have any order; None if no node has said it.
    constant : ndarray or float
        The part that does not change.
    unset : frozenset of str
        Inputs that it depends on, and that were not given.
    wires : mapping of Spikes to Wire
        Weights from spikes.
    """

    shape: Shape | None = None
    constant: np.ndarray | float = 0.0
    unset: frozenset[str] = frozenset()
    wires: Mapping[Spikes, Wire] = field(default_factory=dict)

    def nodes(self, *, filtered: bool) -> list[str]:
        """Return the names of the IF nodes whose spikes it has in one of the two ways."""
        return sorted(spikes.node for spikes in self.wires if spikes.filtered == filtered)


class Drive(NamedTuple):
    """What drives the neurons of an IF node, and when they fire."""

    constant: np.ndarray
    wires: Mapping[str, Wire]
    threshold: np.ndarray


class Inflow(NamedTuple):
    """What drives all IF nodes."""

    drives: dict[str, Drive]
    """For each IF node."""
    time_constant: float
    """tau of all LI on the way."""
    ignored: tuple[str, ...]
    """Nodes that reach no neuron."""


def inflow(graph: FlatGraph, neurons: list[str], signals: Mapping[str, np.ndarray]) -> Inflow:
    """Return what drives the IF nodes `neurons` of a graph whose inputs have the values `signals`."""
    needed = ancestors(graph, neurons)
    walk = _Walk(graph, signals)
    for name in in_order(graph, neurons):
        if name in neurons:
            shape = np.atleast_1d(np.asarray(graph.nodes[name].v_threshold)).shape
            walk.values[name] = Value(shape=shape, wires={Spikes(name, False): None})
        elif name in needed:
            walk.values[name] = walk.value(name)
    drives = {name: walk.drive(name) for name in neurons}
    ignored = tuple(
        name
        for name, node in graph.nodes.items()
        if name not in needed and kind_of(node) not in ("Input", "Output")
    )
    return Inflow(drives, walk.time_constant or 1.0, ignored)


def require_known_kinds(graph: FlatGraph) -> None:
    """Raise ValueError if a node is of a kind that no network here can have."""
    for name, node in graph.nodes.items():
        kind = kind_of(node)
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
        node, kind = self.graph.nodes[name], kind_of(self.graph.nodes[name])
        if kind == "Input" and not self.graph.before[name]:
            shape = input_shape(name, node)
            if name in self.signals:
                return Value(shape=shape, constant=self.signals[name])
            return Value(shape=shape, constant=np.zeros(math.prod(shape)), unset=frozenset([name]))
        incoming = self._sum(name)
        if kind == "LI":
            return self._filtered(name, node, incoming)
        if kind in ("Input", "Output"):
            return self._handed_on(name, node, incoming)
        linear = linear_node(name, node, incoming.shape)
        if linear is None:
            raise ValueError(
                f"node {name!r} must be of a kind that is known here (IF, LI, Affine, Linear, Conv2d, "
                f"Input, Output, NIRGraph); got {type(node).__name__}"
            )
        return _through(name, linear, incoming)

    def drive(self, name: str) -> Drive:
        """Return what drives the neurons of an IF node."""
        incoming = self._sum(name)
        threshold, resistance = _parameters(name, self.graph.nodes[name], "v_threshold", "r", "v_reset")
        if not (threshold > 0.0).all():
            raise ValueError(f"v_threshold of node {name!r} must be positive; got {threshold.min()}")
        _require_shape(name, incoming, threshold.shape)
        impulses = incoming.nodes(filtered=False)
        if impulses:
            raise ValueError(
                f"node {name!r} must get spikes through a leaky integrator, nir.LI; got those of {impulses} "
                "as they are"
            )
        if incoming.unset:
            raise ValueError(
                f"signal must be given: node {name!r} depends on the input {sorted(incoming.unset)}; for "
                "none pass zeros"
            )
        return Drive(
            resistance.ravel() * np.broadcast_to(incoming.constant, threshold.size),
            {spikes.node: _scaled(resistance, wire) for spikes, wire in incoming.wires.items()},
            threshold,
        )

    def _filtered(self, name: str, node: Any, incoming: Value) -> Value:
        """Return the value of an LI: tau dv/dt = -v + r x, where x are spikes and nothing else."""
        tau, resistance = _parameters(name, node, "tau", "r", "v_leak")
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
        _require_shape(name, incoming, tau.shape)
        twice = incoming.nodes(filtered=True)
        if twice:
            raise ValueError(
                f"node {name!r} must get spikes that no other LI has filtered; got those of {twice}"
            )
        if incoming.unset or np.any(incoming.constant):
            what = f"the input {sorted(incoming.unset)}" if incoming.unset else "a constant"
            raise ValueError(f"node {name!r} must get spikes of neurons and nothing else; got {what}")
        wires = {Spikes(s.node, True): _scaled(resistance, wire) for s, wire in incoming.wires.items()}
        return Value(shape=tau.shape, wires=wires)

    def _handed_on(self, name: str, node: Any, incoming: Value) -> Value:
        """Return the value of an Input or Output of a graph within the graph."""
        if isinstance(node.input_type, dict) and node.input_type.get("input") is None:
            return incoming
        shape = input_shape(name, node)
        _require_shape(name, incoming, shape)
        return replace(incoming, shape=_finer(incoming.shape, shape))

    def _sum(self, name: str) -> Value:
        """Return the sum of the values of all nodes before one."""
        total = Value()
        for before in self.graph.before[name]:
            value = self.values[before]
            if total.shape is None:
                total = value
                continue
            difference = _difference(total.shape, value.shape)
            if difference:
                what, ours, theirs = difference
                raise ValueError(
                    f"node {name!r} must get values of one {what} from all nodes before it; got {ours} and, "
                    f"from {before!r}, {theirs}"
                )
            total = replace(
                total,
                shape=_finer(total.shape, value.shape),
                constant=total.constant + value.constant,
                unset=total.unset | value.unset,
                wires=_added(total.wires, value.wires, math.prod(total.shape)),
            )
        return total


def _through(name: str, node: LinearNode, incoming: Value) -> Value:
    """Return the value of a linear node."""
    _require_shape(name, incoming, node.shape_before)
    values = np.broadcast_to(np.asarray(incoming.constant), math.prod(node.shape_before))
    return Value(
        shape=node.shape_behind,
        constant=node.weight @ values + node.bias,
        unset=frozenset() if node.is_zero else incoming.unset,
        wires={spikes: _product(node.weight, wire) for spikes, wire in incoming.wires.items()},
    )


def _parameters(name: str, node: Any, first: str, factor: str, zero: str) -> tuple[np.ndarray, np.ndarray]:
    """Return two parameters of an IF or LI, of one shape; a third one must be zero."""
    leading = parameter(name, node, first)
    factors, offset = (
        parameter(name, node, what, shape=leading.shape, meaning=f"as {first}") for what in (factor, zero)
    )
    if offset.any():
        value = offset[offset != 0.0].flat[0]
        raise ValueError(f"{zero} of node {name!r} must be zero; got {value}: {WHY_ZERO[zero]}")
    return np.atleast_1d(leading), np.atleast_1d(factors)


def _difference(one: Shape | None, other: Shape | None) -> tuple[str, Any, Any] | None:
    """Return in what arrays of two shapes differ: their lengths, or the order of their values.

    A vector may have the order of any array.
    """
    if one is None or other is None:
        return None
    lengths = math.prod(one), math.prod(other)
    if lengths[0] != lengths[1]:
        return "length", *lengths
    return None if one == other or 1 in (len(one), len(other)) else ("shape", one, other)


def _require_shape(name: str, value: Value, shape: Shape) -> None:
    difference = _difference(value.shape, shape)
    if difference and difference[0] == "length":
        raise ValueError(f"node {name!r} must get {difference[2]} values; got {difference[1]}")
    if difference:
        raise ValueError(f"node {name!r} must get values of shape {shape}; got {value.shape}")


def _finer(one: Shape | None, other: Shape | None) -> Shape | None:
    """Return the shape with more axes: of two that agree, it says more."""
    return one if len(one or ()) >= len(other or ()) else other


def input_shape(name: str, node: Any) -> Shape:
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
    shape, values = input_shape(name, node), real_values("signal", signal)
    if values.shape not in (shape, (math.prod(shape),)):
        raise ValueError(f"signal must have the shape {shape} of the input {name!r}; got {values.shape}")
    return values.ravel()


def written_out(wire: Wire, n_sources: int) -> np.ndarray | sparse.csr_array:
    """Return the weights of a wire as an array."""
    return sparse.eye_array(n_sources, format="csr") if wire is None else _array(wire)


def _array(weight: Weight) -> np.ndarray | sparse.csr_array:
    return weight.matrix() if isinstance(weight, Convolution) else weight


def _product(weight: Weight, wire: Wire) -> Weight:
    """Return the weights of a wire with a linear node behind it."""
    return weight if wire is None else _array(weight) @ _array(wire)


def _scaled(factors: np.ndarray, wire: Wire) -> Wire:
    return wire if (factors == 1.0).all() else _product(scaling(factors), wire)


def _added(ones: Mapping[Spikes, Wire], others: Mapping[Spikes, Wire], length: int) -> dict[Spikes, Wire]:
    """Return the sums of wires that end at one node of `length` entries."""
    result = dict(ones)
    for spikes, wire in others.items():
        if spikes in result:
            wire = written_out(result[spikes], length) + written_out(wire, length)
        result[spikes] = wire
    return result

"""NIR graphs as spiking networks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.describe import Described, number
from snn.base.extras import require
from snn.exchange.events import kind_of, to_event_data
from snn.network import SpikingNetwork
from snn.record.spikes import SpikeTrain, require_record
from snn.weights import Block, Segments, StencilWeights

if TYPE_CHECKING:
    import nir

MOST_NAMED = 8
"""Nodes that are named in a description."""
LINEAR = ("Affine", "Linear", "Conv2d")
KINDS = ("IF", "LI", *LINEAR, "Input", "Output")
REASONS = {
    "LIF": "its membrane potential leaks, and the potential of a neuron here does not",
    "CubaLIF": "its membrane potential leaks, and the potential of a neuron here does not",
    "NIRGraph": "graphs within a graph are not taken",
    "Delay": "spikes act at once here",
}
WHY_ZERO = {
    "v_reset": "neurons here are reset to zero and start at zero, and NIR does not say where potentials "
    "start",
    "v_leak": "a synapse here has no current without spikes",
}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ImportedNetwork(Described):
    """A network that came from a NIR graph, and which neurons are which node's.

    Attributes
    ----------
    network : SpikingNetwork
        The network.
    populations : dict of str to ndarray of int
        For each IF node its neurons, in an array of the node's shape.
    time_constant : float
        The synaptic time constant in the graph's unit of time: multiply spike times of the network by it.
    ignored : tuple of str
        Nodes that reach no neuron, such as a filter of the output: they are no part of the network.
    """

    network: SpikingNetwork
    populations: dict[str, np.ndarray]
    time_constant: float
    ignored: tuple[str, ...]

    def _facts(self) -> dict[str, str]:
        return {
            "IF nodes": ", ".join(islice(self.populations, MOST_NAMED)) or "none",
            "ignored": ", ".join(self.ignored[:MOST_NAMED]) or "none",
            "time constant": number(self.time_constant),
            **self.network._facts(),
        }

    def spikes_by_node(self, spikes: SpikeTrain) -> nir.NIRGraphData:
        """Return spikes as NIR's data: the events of each IF node, in the graph's unit of time.

        Parameters
        ----------
        spikes : SpikeTrain
            Recorded spikes of a run that begins at time 0.
        """
        require_record(spikes)
        if spikes.n_neurons != self.network.n_neurons:
            raise ValueError(
                f"spikes must be of {self.network.n_neurons} neurons; got those of {spikes.n_neurons}"
            )
        nir = require("nir", extra="nir")
        nodes = {}
        for name, neurons in self.populations.items():
            element = np.full(spikes.n_neurons, -1)
            element[neurons.ravel()] = np.arange(neurons.size)
            own = element[spikes.neurons] >= 0
            train = SpikeTrain(
                times=spikes.times[own] * self.time_constant,
                neurons=element[spikes.neurons[own]],
                n_neurons=neurons.size,
                start=spikes.start * self.time_constant,
                stop=spikes.stop * self.time_constant,
            )
            nodes[name] = nir.NIRNodeData(observables={"spikes": to_event_data(train)})
        return nir.NIRGraphData(nodes=nodes)


def from_nir(
    graph: nir.NIRGraph,
    *,
    signal: ArrayLike | Mapping[str, np.ndarray] | None = None,
    order: Sequence[str] | None = None,
) -> ImportedNetwork:
    """Return the network that a NIR graph describes.

    Graphs have the form that `to_nir` writes, under any names and in any order::

        Input -> Affine, Linear or Conv2d -> IF -> LI -> Affine, Linear or Conv2d -> IF

    Edges into one node add up.  Resistances of IF and LI become factors of weights and biases, and one time
    constant, common to all LI, the unit of time.  A Conv2d from the neurons of a graph to themselves becomes
    `StencilWeights`.

    Parameters
    ----------
    graph : nir.NIRGraph
        The graph.
    signal : array_like, or mapping of str to array_like, optional
        Constant values of the Input nodes; by name if they are several.  They are needed unless all weights
        from the inputs are zero.
    order : sequence of str, optional
        The names of the IF nodes in the order in which their neurons are numbered; by default sorted by name,
        as in a file.  Within a node neurons have the order of its array; but neurons of a 3-D node, (channel,
        row, column), are numbered by (row, column, channel), as on the grid of `StencilWeights`.

    Returns
    -------
    ImportedNetwork
    """
    nodes, before = _checked_graph(require("nir", extra="nir"), graph)
    walk = _Walk(nodes, before, _signals(nodes, before, signal))
    populations: dict[str, np.ndarray] = {}
    first = 0
    for name in _ordered(nodes, order):
        threshold, _ = walk.parameters(name, "v_threshold", "r", "v_reset")
        if not (threshold > 0.0).all():
            raise ValueError(f"v_threshold of node {name!r} must be positive; got {threshold.min()}")
        populations[name] = _numbers(threshold.shape, first)
        first += threshold.size
    soma_bias, firing_threshold = np.empty(first), np.empty(first)
    for name, neurons in populations.items():
        soma_bias[neurons.ravel()] = walk.drive(name)
        firing_threshold[neurons] = nodes[name].v_threshold
    time_constant = walk.time_constant or 1.0
    weights = _weights(populations, walk.synapses)
    ignored = (
        name
        for name, node in nodes.items()
        if name not in walk.used and kind_of(node) not in ("Input", "Output")
    )
    return ImportedNetwork(
        network=SpikingNetwork(weights, time_constant * soma_bias, firing_threshold),
        populations=populations,
        time_constant=time_constant,
        ignored=tuple(ignored),
    )


class _Convolution(NamedTuple):
    """The weights of a Conv2d, [target, source, row, column]: from a grid padded with zeros, at a stride."""

    kernels: np.ndarray
    grid: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    @property
    def shape_before(self) -> tuple[int, ...]:
        return (self.kernels.shape[1], *self.grid)

    @property
    def shape_behind(self) -> tuple[int, ...]:
        sides = zip(self.grid, self.kernels.shape[2:], self.stride, self.padding, strict=True)
        return (len(self.kernels), *((n + 2 * p - k) // s + 1 for n, k, s, p in sides))

    def __matmul__(self, values: np.ndarray) -> np.ndarray:
        (down, right), (row_stride, column_stride) = self.padding, self.stride
        padded = np.pad(values.reshape(self.shape_before), ((0, 0), (down, down), (right, right)))
        windows = sliding_window_view(padded, (1, *self.kernels.shape[2:]))[:, :, :, 0]
        windows = windows[:, ::row_stride, ::column_stride]
        return np.tensordot(self.kernels, windows, axes=([1, 2, 3], [0, 3, 4])).ravel()

    def any(self) -> bool:
        """Return whether a weight is not zero."""
        return bool(self.kernels.any())


class _Walk:
    """The way back from each IF node: its drive, and the weights that lead to it."""

    def __init__(
        self, nodes: dict[str, Any], before: dict[str, list[str]], signals: dict[str, np.ndarray]
    ) -> None:
        self.nodes, self.before, self.signals = nodes, before, signals
        self.used: set[str] = set()
        self.time_constant: float | None = None
        # Weights from one IF node to another, [target, source].
        self.synapses: dict[tuple[str, str], np.ndarray | _Convolution] = {}

    def parameters(self, name: str, first: str, factor: str, zero: str) -> tuple[np.ndarray, np.ndarray]:
        """Return two parameters of an IF or LI, of one shape; a third one must be zero."""
        leading = _parameter(name, self.nodes[name], first)
        factors, offset = (
            _parameter(name, self.nodes[name], what, shape=leading.shape) for what in (factor, zero)
        )
        if offset.any():
            value = offset[offset != 0.0].flat[0]
            raise ValueError(f"{zero} of node {name!r} must be zero; got {value}: {WHY_ZERO[zero]}")
        return np.atleast_1d(leading), np.atleast_1d(factors)

    def drive(self, target: str) -> np.ndarray:
        """Return the constant drive of an IF node, and keep the weights that lead to it."""
        threshold, resistance = self.parameters(target, "v_threshold", "r", "v_reset")
        total, factors = np.zeros(threshold.size), resistance.ravel()
        for name in self._before(target, *LINEAR):
            weight, bias, shape_before, shape_behind = _linear(name, self.nodes[name])
            _require_shape(target, shape_behind, threshold.shape)
            total += factors * bias
            for source in self._before(name, "Input", "LI"):
                if kind_of(self.nodes[source]) == "LI":
                    shape = self._connect(source, name, weight, target, factors)
                else:
                    shape = _input_shape(source, self.nodes[source])
                _require_shape(name, shape, shape_before)
                if source in self.signals:
                    total += factors * (weight @ self.signals[source])
                elif kind_of(self.nodes[source]) == "Input" and weight.any():
                    raise ValueError(
                        f"signal must be given: node {target!r} depends on the input {source!r}; for none "
                        "pass zeros"
                    )
        return total

    def _connect(
        self, synapse: str, linear: str, weight: np.ndarray | _Convolution, target: str, factors: np.ndarray
    ) -> tuple[int, ...]:
        """Add the weights of a linear node behind an LI; return the shape of the LI."""
        tau, resistance = self.parameters(synapse, "tau", "r", "v_leak")
        first = float(tau.flat[0])
        if not first > 0.0 or (tau != first).any() or first != (self.time_constant or first):
            raise ValueError(
                f"tau of node {synapse!r} must be one positive number, the same for all synapses; got "
                f"{tau.min()} to {tau.max()}"
            )
        self.time_constant = first
        for source in self._before(synapse, "IF"):
            _require_shape(synapse, np.shape(self.nodes[source].v_threshold) or (1,), tau.shape)
            known = self.synapses.get((source, target))
            if isinstance(weight, _Convolution) or isinstance(known, _Convolution):
                is_scaled = (resistance != 1.0).any() or (factors != 1.0).any()
                if source != target or is_scaled or known is not None:
                    raise ValueError(
                        f"node {linear!r} must lead from one IF node to itself, alone and with resistances "
                        f"of one, where a Conv2d does; got {source!r} to {target!r}"
                    )
                self.synapses[source, target] = weight
                continue
            if tau.size != weight.shape[1]:
                break  # the caller says so
            between = factors[:, np.newaxis] * weight * resistance.ravel()
            self.synapses[source, target] = between if known is None else known + between
        return tau.shape

    def _before(self, name: str, *kinds: str) -> list[str]:
        """Return the nodes before one, which must be of some kinds."""
        self.used.add(name)
        for source in self.before[name]:
            kind = kind_of(self.nodes[source])
            if kind not in kinds:
                raise ValueError(
                    f"node {name!r} must get values of {' or '.join(kinds)} nodes; got those of {source!r}, "
                    f"of kind {kind}"
                )
            self.used.add(source)
        return self.before[name]


def _checked_graph(nir: Any, graph: Any) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the nodes of a graph, and for each the names of the nodes with an edge into it."""
    checks.instance_of("graph", graph, nir.NIRGraph)
    nodes: dict[str, Any] = graph.nodes
    if not isinstance(nodes, dict) or not nodes:
        raise ValueError(f"graph must have nodes, in a dict by name; got {nodes!r:.80}")
    for name, node in nodes.items():
        checks.instance_of(f"node {name!r}", node, nir.NIRNode)
        kind = kind_of(node)
        if kind not in KINDS:
            reason = f": {REASONS[kind]}" if kind in REASONS else ""
            raise ValueError(f"node {name!r} must be of a kind among {', '.join(KINDS)}; got {kind}{reason}")
    before: dict[str, list[str]] = {name: [] for name in nodes}
    for edge in graph.edges:
        if not isinstance(edge, tuple | list) or len(edge) != 2:
            raise TypeError(f"edges of graph must be pairs of names; got {edge!r:.80}")
        source, target = edge
        for name in edge:
            if name not in nodes:
                raise ValueError(f"edges of graph must join its nodes; got {edge!r}, without node {name!r}")
        if source in before[target]:
            raise ValueError(
                "edges of graph must differ, since readers disagree whether equal ones add up; got "
                f"{edge!r} twice"
            )
        before[target].append(source)
    return nodes, before


def _ordered(nodes: dict[str, Any], order: Sequence[str] | None) -> list[str]:
    """Return the names of the IF nodes in the order of their neurons."""
    names = sorted(name for name, node in nodes.items() if kind_of(node) == "IF")
    if not names:
        kinds = ", ".join(sorted({type(node).__name__ for node in nodes.values()}))
        raise ValueError(f"graph must have a spiking node, nir.IF; got {kinds}")
    if order is None:
        return names
    if isinstance(order, str) or not isinstance(order, Sequence):
        raise TypeError(f"order must be a sequence of names; got {type(order).__name__}")
    for name in order:
        checks.instance_of("a name in order", name, str)
    if sorted(order) != names:
        raise ValueError(f"order must have each IF node once, {names}; got {list(order)}")
    return list(order)


def _signals(nodes: dict[str, Any], before: dict[str, list[str]], signal: Any) -> dict[str, np.ndarray]:
    """Return the values of the inputs that were given, as vectors by name."""
    if signal is None:
        return {}
    inputs = [name for name, node in nodes.items() if kind_of(node) == "Input" and not before[name]]
    if not isinstance(signal, Mapping):
        if len(inputs) != 1:
            raise ValueError(
                "signal must be a mapping of names to arrays for a graph with the inputs "
                f"{sorted(inputs)}; got {type(signal).__name__}"
            )
        signal = {inputs[0]: signal}
    signals = {}
    for name, given in signal.items():
        if name not in inputs:
            raise ValueError(f"signal must be for the inputs {sorted(inputs)}; got {name!r}")
        shape, values = _input_shape(name, nodes[name]), _real_values("signal", given)
        if values.shape not in (shape, (math.prod(shape),)):
            raise ValueError(f"signal must have the shape {shape} of the input {name!r}; got {values.shape}")
        signals[name] = values.ravel()
    return signals


def _numbers(shape: tuple[int, ...], first: int) -> np.ndarray:
    """Return the neurons of a node, in an array of its shape."""
    neurons = np.arange(first, first + int(np.prod(shape)))
    if len(shape) == 3:
        channels, rows, columns = shape
        return checks.read_only(neurons.reshape(rows, columns, channels).transpose(2, 0, 1))
    return checks.read_only(neurons.reshape(shape))


def _weights(
    populations: dict[str, np.ndarray], synapses: dict[tuple[str, str], np.ndarray | _Convolution]
) -> np.ndarray | Segments | StencilWeights:
    """Return the weights, [source, target], in a form that is as near to the graph as possible."""
    n_neurons = sum(neurons.size for neurons in populations.values())
    blocks = []
    for (source, target), weight in synapses.items():
        if isinstance(weight, _Convolution):
            if len(populations) > 1:
                raise ValueError(
                    f"graph must have one IF node for a Conv2d between neurons; got {list(populations)}"
                )
            return _stencil(weight, source)
        if source == target:
            _require_no_self(source, weight.diagonal())
        # Elements of a node have the order of its array, and neurons another one where it is 3-D.
        order = [np.argsort(populations[name].ravel()) for name in (source, target)]
        values = np.ascontiguousarray(weight.T[order[0]][:, order[1]])
        blocks.append(Block(int(populations[source].min()), int(populations[target].min()), values))
    if len(populations) == 1:
        return blocks[0].values if blocks else np.zeros((n_neurons, n_neurons))
    return Segments.of_blocks(n_neurons, blocks)


def _stencil(convolution: _Convolution, name: str) -> StencilWeights:
    """Return the weights of a convolution that keeps the grid of a node."""
    n_targets, n_sources, *sides = convolution.kernels.shape
    middle = sides[0] // 2, sides[1] // 2
    is_odd = sides[0] % 2 == sides[1] % 2 == 1
    if n_targets != n_sources or not is_odd or convolution.stride != (1, 1) or convolution.padding != middle:
        raise ValueError(
            f"node {name!r} must reach itself by a Conv2d that keeps its grid: as many targets as sources, "
            f"odd sides, stride 1, and padding by half a side; got weights of shape "
            f"{convolution.kernels.shape}, stride {convolution.stride} and padding {convolution.padding}"
        )
    values = convolution.kernels.transpose(1, 2, 3, 0)[:, ::-1, ::-1]
    _require_no_self(name, values[:, middle[0], middle[1]].diagonal())
    # Outer offsets at which all are zero were added to make kernels square.
    for axis in (1, 2):
        values = np.moveaxis(values, axis, 0)
        while len(values) > 1 and not values[0].any() and not values[-1].any():
            values = values[1:-1]
        values = np.moveaxis(values, 0, axis)
    return StencilWeights(values, convolution.grid)


def _require_no_self(name: str, own: np.ndarray) -> None:
    if own.any():
        element = int(np.flatnonzero(own)[0])
        raise ValueError(
            f"node {name!r} must not reach its own neurons, only others; got a weight of {own[element]} from "
            f"element {element} to itself"
        )


def _linear(
    name: str, node: Any
) -> tuple[np.ndarray | _Convolution, np.ndarray, tuple[int, ...], tuple[int, ...]]:
    """Return weights, biases, and the shapes before and behind a linear node."""
    if kind_of(node) == "Conv2d":
        kernels = _parameter(name, node, "weight", shape=(None,) * 4)
        bias = _parameter(name, node, "bias", shape=kernels.shape[:1])
        grid, stride, padding, dilation = (
            _pair(name, what, getattr(node, what), least=least)
            for what, least in (("input_shape", 1), ("stride", 1), ("padding", 0), ("dilation", 1))
        )
        if dilation != (1, 1) or node.groups != 1:
            raise ValueError(
                f"node {name!r} must have dilation 1 and one group; got {dilation} and {node.groups!r:.80}"
            )
        convolution = _Convolution(kernels, grid, stride, padding)
        behind = convolution.shape_behind
        if min(behind) < 1:
            raise ValueError(f"node {name!r} must have kernels no larger than its padded image; got {grid}")
        return convolution, np.repeat(bias, behind[1] * behind[2]), convolution.shape_before, behind
    weights = _parameter(name, node, "weight", shape=(None, None))
    n_targets, n_sources = weights.shape
    is_affine = kind_of(node) == "Affine"
    bias = _parameter(name, node, "bias", shape=(n_targets,)) if is_affine else np.zeros(n_targets)
    return weights, bias, (n_sources,), (n_targets,)


def _parameter(name: str, node: Any, what: str, *, shape: tuple[int | None, ...] | None = None) -> np.ndarray:
    """Return a parameter of a node as a float64 array, checked."""
    return _real_values(f"{what} of node {name!r}", getattr(node, what), shape)


def _real_values(label: str, value: Any, shape: tuple[int | None, ...] | None = None) -> np.ndarray:
    """Return `value` as `checks.real_array` does; without a shape, as an array of any number of axes."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(f"{label} must be an array of real numbers; got {type(value).__name__}") from None
    if array.ndim == 0 and array.dtype.kind in "fiub" and not shape:
        return np.full((), checks.real_number(label, array))
    return checks.real_array(label, array, shape=array.shape if shape is None else shape)


def _require_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Raise ValueError unless arrays have one length, and one order if both have several axes."""
    if math.prod(shape) != math.prod(wanted) or (shape != wanted and 1 not in (len(shape), len(wanted))):
        raise ValueError(f"node {name!r} must get values of shape {wanted}; got {shape}")


def _input_shape(name: str, node: Any) -> tuple[int, ...]:
    """Return the shape of an Input node."""
    try:
        shape = np.atleast_1d(np.asarray(node.input_type["input"]))
    except (KeyError, TypeError, IndexError, ValueError):
        shape = np.zeros(0)
    if shape.ndim != 1 or shape.dtype.kind not in "iu" or not shape.size or (shape < 1).any():
        raise ValueError(f"node {name!r} must have a shape of positive integers; got {node.input_type!r:.80}")
    return tuple(int(side) for side in shape)


def _pair(name: str, what: str, value: Any, *, least: int) -> tuple[int, int]:
    """Return one or two integers of a node as a pair."""
    values = np.asarray(value)
    if values.dtype.kind not in "iu" or values.shape not in ((), (1,), (2,)) or (values < least).any():
        raise ValueError(
            f"{what} of node {name!r} must be one or two integers of at least {least}; got {value!r:.80}"
        )
    first, second = np.broadcast_to(values, (2,))
    return int(first), int(second)

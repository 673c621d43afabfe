"""NIR graphs as spiking networks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.describe import Described
from snn.base.extras import require
from snn.exchange.events import kind_of, to_event_data
from snn.network import SpikingNetwork
from snn.record.spikes import SpikeTrain, require_record
from snn.weights import Block, Segments, StencilWeights

if TYPE_CHECKING:
    import nir

LINEAR = ("Affine", "Linear", "Conv2d")
KINDS = ("IF", "LI", *LINEAR, "Input", "Output")
REASONS = {
    "LIF": ": its membrane potential leaks, and the potential of a neuron here does not",
    "CubaLIF": ": its membrane potential leaks, and the potential of a neuron here does not",
    "Delay": ": spikes act at once here",
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

    def spikes_by_node(self, spikes: SpikeTrain) -> nir.NIRGraphData:
        """Return spikes as NIR's data: the events of each IF node, in the graph's unit of time.

        Parameters
        ----------
        spikes : SpikeTrain
            Recorded spikes of a run that begins at time 0.
        """
        require_record("spikes", spikes)
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
        shape = threshold.shape
        neurons = np.arange(first, first + threshold.size).reshape(*shape[1:], *shape[:1])
        # The channels of a grid come first in NIR, and last here.
        neurons = neurons.transpose(2, 0, 1) if len(shape) == 3 else neurons.reshape(shape)
        populations[name] = checks.read_only(neurons)
        first += threshold.size
    soma_bias, firing_threshold = np.empty(first), np.empty(first)
    for name, neurons in populations.items():
        soma_bias[neurons.ravel()] = walk.drive(name)
        firing_threshold[neurons] = nodes[name].v_threshold
    unused = (name for name in nodes if name not in walk.used)
    return ImportedNetwork(
        network=SpikingNetwork(
            _weights(populations, walk.paths), walk.time_constant * soma_bias, firing_threshold
        ),
        populations=populations,
        time_constant=walk.time_constant,
        ignored=tuple(name for name in unused if kind_of(nodes[name]) not in ("Input", "Output")),
    )


class _Linear(NamedTuple):
    """A linear node: weights, [target, source] or, from a grid, [target, source, row, column]."""

    name: str
    weight: np.ndarray
    bias: np.ndarray
    shape_before: tuple[int, ...]
    shape_behind: tuple[int, ...]
    stride: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)

    @property
    def is_convolution(self) -> bool:
        """Whether this is a Conv2d."""
        return self.weight.ndim == 4

    def times(self, values: np.ndarray) -> np.ndarray:
        """Return the products of the weights with values, without the bias."""
        if not self.is_convolution:
            return self.weight @ values
        around = [(0, 0), *((side, side) for side in self.padding)]
        padded = np.pad(values.reshape(self.shape_before), around)
        windows = sliding_window_view(padded, (1, *self.weight.shape[2:]))[:, :, :, 0]
        windows = windows[:, :: self.stride[0], :: self.stride[1]]
        return np.tensordot(self.weight, windows, axes=([1, 2, 3], [0, 3, 4])).ravel()


class _Walk:
    """The way back from each IF node: its drive, and the paths that lead to it."""

    def __init__(
        self, nodes: dict[str, Any], before: dict[str, list[str]], signals: dict[str, np.ndarray]
    ) -> None:
        self.nodes, self.before, self.signals = nodes, before, signals
        self.used: set[str] = set()
        self.taus: list[float] = []
        # Source and target, the linear node between them, and factors for its targets and its sources.
        self.paths: list[tuple[str, str, _Linear, np.ndarray, np.ndarray]] = []

    @property
    def time_constant(self) -> float:
        """The time constant of all synapses that were met."""
        return self.taus[0] if self.taus else 1.0

    def parameters(self, name: str, first: str, factor: str, zero: str) -> tuple[np.ndarray, np.ndarray]:
        """Return two parameters of an IF or LI, of one shape; a third one must be zero."""
        leading = _parameter(name, self.nodes[name], first)
        factors, offset = (_parameter(name, self.nodes[name], what, leading.shape) for what in (factor, zero))
        if offset.any():
            value = offset[offset != 0.0].flat[0]
            raise ValueError(f"{zero} of node {name!r} must be zero; got {value}: {WHY_ZERO[zero]}")
        return leading, factors

    def drive(self, target: str) -> np.ndarray:
        """Return the constant drive of an IF node, and keep the paths that lead to it."""
        threshold, resistance = self.parameters(target, "v_threshold", "r", "v_reset")
        total = np.zeros(threshold.size)
        for name in self._before(target, *LINEAR):
            linear = _linear(name, self.nodes[name])
            _require_shape(target, linear.shape_behind, threshold.shape)
            total += linear.bias
            for source in self._before(name, "Input", "LI"):
                if kind_of(self.nodes[source]) == "LI":
                    self._connect(source, linear, target, resistance.ravel())
                    continue
                _require_shape(name, _input_shape(source, self.nodes[source]), linear.shape_before)
                if source in self.signals:
                    total += linear.times(self.signals[source])
                elif linear.weight.any():
                    raise ValueError(
                        f"signal must be given: node {target!r} depends on the input {source!r}; for none "
                        "pass zeros"
                    )
        return resistance.ravel() * total

    def _connect(self, synapse: str, linear: _Linear, target: str, of_targets: np.ndarray) -> None:
        """Add the paths through an LI and the linear node behind it."""
        tau, of_sources = self.parameters(synapse, "tau", "r", "v_leak")
        self.taus.append(float(tau.flat[0]))
        if self.taus[-1] <= 0.0 or (tau != self.time_constant).any():
            raise ValueError(
                f"tau of node {synapse!r} must be one positive number, the same for all synapses; got "
                f"{tau.min()} to {tau.max()}"
            )
        _require_shape(linear.name, tau.shape, linear.shape_before)
        for source in self._before(synapse, "IF"):
            _require_shape(synapse, _parameter(source, self.nodes[source], "v_threshold").shape, tau.shape)
            self.paths.append((source, target, linear, of_targets, of_sources.ravel()))

    def _before(self, name: str, *kinds: str) -> list[str]:
        """Return the nodes before one, which must be of some kinds."""
        self.used.update([name, *self.before[name]])
        for source in self.before[name]:
            kind = kind_of(self.nodes[source])
            if kind not in kinds:
                raise ValueError(
                    f"node {name!r} must get values of {' or '.join(kinds)} nodes; got those of {source!r}, "
                    f"of kind {kind}"
                )
        return self.before[name]


def _checked_graph(nir: Any, graph: Any) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the nodes of a graph, and for each the names of the nodes with an edge into it."""
    checks.instance_of("graph", graph, nir.NIRGraph)
    nodes: dict[str, Any] = graph.nodes
    for name, node in checks.instance_of("nodes of graph", nodes, dict).items():
        kind = kind_of(checks.instance_of(f"node {name!r}", node, nir.NIRNode))
        if kind not in KINDS:
            reason = REASONS.get(kind, "")
            raise ValueError(f"node {name!r} must be of a kind among {', '.join(KINDS)}; got {kind}{reason}")
    before: dict[str, list[str]] = {name: [] for name in nodes}
    for edge in graph.edges:
        if not isinstance(edge, tuple | list) or len(edge) != 2:
            raise TypeError(f"edges of graph must be pairs of names; got {edge!r:.80}")
        source, target = edge
        if source not in nodes or target not in nodes:
            raise ValueError(f"edges of graph must join its nodes; got {edge!r}")
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
        raise ValueError(f"graph must have a spiking node, nir.IF; got {len(nodes)} of other kinds")
    if order is None:
        return names
    if isinstance(order, str) or not isinstance(order, Sequence):
        raise TypeError(f"order must be a sequence of names; got {type(order).__name__}")
    if sorted(order, key=str) != names:
        raise ValueError(f"order must have each IF node once, {names}; got {list(order)}")
    return list(order)


def _signals(nodes: dict[str, Any], before: dict[str, list[str]], signal: Any) -> dict[str, np.ndarray]:
    """Return the values of the inputs that were given, as vectors by name."""
    if signal is None:
        return {}
    inputs = sorted(name for name, node in nodes.items() if kind_of(node) == "Input" and not before[name])
    if not isinstance(signal, Mapping):
        if len(inputs) != 1:
            raise ValueError(
                f"signal must be a mapping of names to arrays for a graph with the inputs {inputs}; got "
                f"{type(signal).__name__}"
            )
        signal = {inputs[0]: signal}
    signals = {}
    for name, given in signal.items():
        if name not in inputs:
            raise ValueError(f"signal must be for the inputs {inputs}; got {name!r}")
        shape, values = _input_shape(name, nodes[name]), _real_values("signal", given)
        if values.shape not in (shape, (math.prod(shape),)):
            raise ValueError(f"signal must have the shape {shape} of the input {name!r}; got {values.shape}")
        signals[name] = values.ravel()
    return signals


def _weights(populations: dict[str, np.ndarray], paths: list[Any]) -> np.ndarray | Segments | StencilWeights:
    """Return the weights, [source, target], in a form that is as near to the graph as possible."""
    blocks = []
    for source, target, linear, of_targets, of_sources in paths:
        if linear.is_convolution:
            is_scaled = (of_targets != 1.0).any() or (of_sources != 1.0).any()
            if len(populations) > 1 or len(paths) > 1 or is_scaled:
                raise ValueError(
                    f"node {linear.name!r} must be the only way between neurons of a graph, from one IF node "
                    f"to itself with resistances of one, where a Conv2d is; got {source!r} to {target!r}"
                )
            return _stencil(linear)
        weight = of_targets[:, np.newaxis] * linear.weight * of_sources
        if source == target and weight.diagonal().any():
            element = int(np.flatnonzero(weight.diagonal())[0])
            raise ValueError(
                f"node {source!r} must not reach its own neurons, only others; got a weight of "
                f"{weight[element, element]} from element {element} to itself"
            )
        # Elements of a node have the order of its array, and neurons another one where it is 3-D.
        rows, columns = (np.argsort(populations[name].ravel()) for name in (source, target))
        values = weight.T[rows][:, columns]
        blocks.append(Block(int(populations[source].min()), int(populations[target].min()), values))
    n_neurons = sum(neurons.size for neurons in populations.values())
    if len(populations) > 1:
        return Segments.of_blocks(n_neurons, blocks)
    return sum((block.values for block in blocks), np.zeros((n_neurons, n_neurons)))


def _stencil(linear: _Linear) -> StencilWeights:
    """Return the weights of a convolution that keeps the grid of a node."""
    if linear.stride != (1, 1) or linear.padding != tuple(side // 2 for side in linear.weight.shape[2:]):
        raise ValueError(
            f"node {linear.name!r} must keep the grid of its neurons, by stride 1 and padding by half a "
            f"side; got weights of shape {linear.weight.shape}, stride {linear.stride} and padding "
            f"{linear.padding}"
        )
    values = linear.weight.transpose(1, 2, 3, 0)[:, ::-1, ::-1]
    # Outer offsets at which all are zero were added to make kernels square.
    while values.shape[1] > 1 and not values[:, [0, -1]].any():
        values = values[:, 1:-1]
    while values.shape[2] > 1 and not values[:, :, [0, -1]].any():
        values = values[:, :, 1:-1]
    rows, columns = linear.shape_before[1:]
    with checks.called(values=f"weight of node {linear.name!r}"):
        return StencilWeights(values, (rows, columns))


def _linear(name: str, node: Any) -> _Linear:
    """Return a linear node, checked."""
    if kind_of(node) != "Conv2d":
        weight = _parameter(name, node, "weight", (None, None))
        n_targets, n_sources = weight.shape
        is_affine = kind_of(node) == "Affine"
        bias = _parameter(name, node, "bias", (n_targets,)) if is_affine else np.zeros(n_targets)
        return _Linear(name, weight, bias, (n_sources,), (n_targets,))
    weight = _parameter(name, node, "weight", (None,) * 4)
    bias = _parameter(name, node, "bias", weight.shape[:1])
    grid, stride, padding, dilation = (
        _integers(f"{what} of node {name!r}", getattr(node, what), least=least, length=2)
        for what, least in (("input_shape", 1), ("stride", 1), ("padding", 0), ("dilation", 1))
    )
    if dilation != (1, 1) or node.groups != 1:
        raise ValueError(
            f"node {name!r} must have dilation 1 and one group; got {dilation} and {node.groups!r:.80}"
        )
    sides = zip(grid, weight.shape[2:], stride, padding, strict=True)
    positions = tuple((side + 2 * pad - kernel) // step + 1 for side, kernel, step, pad in sides)
    if min(positions) < 1:
        raise ValueError(f"node {name!r} must have kernels no larger than its padded image; got {grid}")
    bias, behind = np.repeat(bias, math.prod(positions)), (len(weight), *positions)
    return _Linear(name, weight, bias, (weight.shape[1], *grid), behind, stride, padding)


def _parameter(name: str, node: Any, what: str, shape: tuple[int | None, ...] | None = None) -> np.ndarray:
    """Return a parameter of a node as a float64 array, checked."""
    return _real_values(f"{what} of node {name!r}", getattr(node, what), shape)


def _real_values(label: str, value: Any, shape: tuple[int | None, ...] | None = None) -> np.ndarray:
    """Return `value` as `checks.real_array` does; without a shape, with any number of axes."""
    try:
        shape = np.shape(value) if shape is None else shape
    except ValueError:  # rows of several lengths, which the check refuses
        shape = ()
    return checks.real_array(label, value, shape=shape)


def _require_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Raise ValueError unless arrays have one length, and one order if both have several axes."""
    if math.prod(shape) != math.prod(wanted) or (shape != wanted and 1 not in (len(shape), len(wanted))):
        raise ValueError(f"node {name!r} must get values of shape {wanted}; got {shape}")


def _input_shape(name: str, node: Any) -> tuple[int, ...]:
    """Return the shape of an Input node."""
    shapes = node.input_type
    shape = shapes.get("input") if isinstance(shapes, dict) else shapes
    return _integers(f"input_type of node {name!r}", shape)


def _integers(label: str, value: Any, *, least: int = 1, length: int | None = None) -> tuple[int, ...]:
    """Return one integer or several as a tuple; with a length, one is for all."""
    values = np.atleast_1d(value)
    is_as_long = values.size > 0 if length is None else values.size in (1, length)
    if values.dtype.kind not in "iu" or values.ndim != 1 or not is_as_long or (values < least).any():
        raise ValueError(
            f"{label} must be {length or 'some'} integers of at least {least}; got {value!r:.80}"
        )
    return tuple(np.broadcast_to(values, length or values.shape).tolist())

"""Spiking networks read from NIR graphs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from snn.base import checks
from snn.base.describe import Described
from snn.exchange.nir_writer import UNIT_OF_TIME, UNITS_OF_TIME, scaled
from snn.network import SpikingNetwork
from snn.weights import StencilWeights

if TYPE_CHECKING:
    import nir
    from numpy.typing import ArrayLike

LINEAR = ("Affine", "Linear", "Conv2d")
# For each kind of node that is read: the kinds of nodes from which this node may get its values.
SOURCES = {"IF": LINEAR, "LI": ("IF",), **dict.fromkeys(LINEAR, ("Input", "LI")), "Input": ()}
SOURCES["Output"] = tuple(SOURCES)
LEAKS = ": its membrane potential leaks, and the potential of a neuron here does not"
REFUSED_KINDS = {"LIF": LEAKS, "CubaLIF": LEAKS, "Delay": ": spikes act at once here"}
PARAMETERS = {"IF": ("v_threshold", "v_reset"), "LI": ("tau", "v_leak")}
# For each parameter that must have one value: the value and the reason.
FIXED = {
    "v_reset": (
        0,
        "neurons here are reset to zero and start at zero, and NIR does not say where potentials start",
    ),
    "v_leak": (0, "a synapse here has no current without spikes"),
    "r": (1, "a resistance is a factor of weights and biases"),
}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ImportedNetwork(Described):
    """A network read from a NIR graph, and the neurons of each node of the graph.

    Attributes
    ----------
    network : SpikingNetwork
        The network.
    populations : dict of str to ndarray of int
        The neurons of each IF node, in an array of the node's shape.
    time_constant : float
        The synaptic time constant in the graph's unit of time: multiply spike times of the network by it.
    """

    network: SpikingNetwork
    populations: dict[str, np.ndarray]
    time_constant: float


def from_nir(graph: nir.NIRGraph, *, signal: ArrayLike | None = None) -> ImportedNetwork:
    """Return the network that a NIR graph describes.

    Graphs have the form that `to_nir` writes, under any names and in any order::

        Input -> Affine, Linear or Conv2d -> IF -> LI -> Affine, Linear or Conv2d -> IF -> Output

    The values of all edges into a node are added.  All LI nodes must have the same time constant, which
    becomes the unit of time.  A Conv2d from the neurons of a graph to themselves becomes `StencilWeights`.

    Neurons are numbered node by node, sorted by name, as in a file, and within a node in the order of its
    array.  A 3-D node has (channel, row, column); its neurons are numbered by (row, column, channel), as on
    the grid of `StencilWeights`.

    Parameters
    ----------
    graph : nir.NIRGraph
        The graph.  The weights of a graph that was written with a `time_step` are divided by 1 - e^-dt.
    signal : array_like, optional
        Constant values of the Input node; needed unless all weights from it are zero.
    """
    nodes, sources = _checked_graph(checks.installed("nir", extra="nir"), graph)
    signal = _checked_signal([node for node in nodes.values() if node.kind == "Input"], signal)
    taus = np.concatenate(
        [node.values.ravel() for node in nodes.values() if node.kind == "LI"] or [np.ones(1)]
    )
    time_constant = float(taus[0])
    if (taus != time_constant).any():
        raise ValueError(
            f"tau of LI nodes must be one number, the same for all synapses; got {taus.min()} to {taus.max()}"
        )
    populations: dict[str, np.ndarray] = {}
    first = 0
    for name in sorted(name for name, node in nodes.items() if node.kind == "IF"):
        shape = nodes[name].shape_behind
        neurons = np.arange(first, first := first + math.prod(shape)).reshape(*shape[1:], *shape[:1])
        # The channels of a grid come first in NIR, and last here.
        neurons = neurons.transpose(2, 0, 1) if len(shape) == 3 else neurons.reshape(shape)
        populations[name] = checks.read_only(neurons)
    if not populations:
        raise ValueError(f"graph must have a spiking node, nir.IF; got {len(nodes)} of other kinds")
    soma_bias, firing_threshold = np.zeros((2, first))
    for name, neurons in populations.items():
        firing_threshold[neurons] = nodes[name].values
        drive = np.zeros(neurons.size)
        for linear in sources[name]:
            drive += nodes[linear].bias
            if not any(nodes[source].kind == "Input" for source in sources[linear]):
                continue
            if signal is not None:
                drive += nodes[linear].times(signal)
            elif nodes[linear].values.any():
                raise ValueError(f"signal must be given: node {name!r} depends on it; for none pass zeros")
        soma_bias[neurons.ravel()] = time_constant * drive
    network = SpikingNetwork(_weights(populations, nodes, sources), soma_bias, firing_threshold)
    metadata = graph.metadata if isinstance(graph.metadata, dict) else {}
    unit = metadata.get(UNIT_OF_TIME, UNITS_OF_TIME[0])
    if checks.one_of(f"{UNIT_OF_TIME} in metadata of graph", unit, UNITS_OF_TIME) == "step":
        unscaled = scaled(network.weights, -1.0 / np.expm1(-1.0 / time_constant))
        network = SpikingNetwork(unscaled, soma_bias, firing_threshold)
    return ImportedNetwork(network=network, populations=populations, time_constant=time_constant)


class _Node(NamedTuple):
    """A node that is read: the shapes of its input and of its output, and its parameters."""

    kind: str
    shape_before: tuple[int, ...]
    shape_behind: tuple[int, ...]
    # Thresholds of an IF, tau of an LI, weights [target, source] of an Affine or Linear node, or weights
    # [target, source, row, column] of a Conv2d.
    values: np.ndarray = np.empty(0)
    bias: np.ndarray = np.empty(0)
    stride: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)

    def times(self, values: np.ndarray) -> np.ndarray:
        """Return the products of the weights of a linear node with values."""
        if self.kind != "Conv2d":
            return self.values @ values
        around = [(0, 0), *((side, side) for side in self.padding)]
        padded = np.pad(values.reshape(self.shape_before), around)
        windows = sliding_window_view(padded, (1, *self.values.shape[2:]))[:, :, :, 0]
        windows = windows[:, :: self.stride[0], :: self.stride[1]]
        return np.tensordot(self.values, windows, axes=([1, 2, 3], [0, 3, 4])).ravel()


def _checked_graph(nir: Any, graph: Any) -> tuple[dict[str, _Node], dict[str, list[str]]]:
    """Return the nodes of a graph, and for each node the names of the nodes from which it gets values."""
    checks.instance_of("graph", graph, nir.NIRGraph)
    nodes: dict[str, _Node] = {}
    for name, node in checks.instance_of("nodes of graph", graph.nodes, dict).items():
        nodes[name] = _node(name, checks.instance_of(f"node {name!r}", node, nir.NIRNode))
    sources: dict[str, list[str]] = {name: [] for name in nodes}
    for edge in graph.edges:
        if not isinstance(edge, tuple | list) or len(edge) != 2:
            raise TypeError(f"edges of graph must be pairs of names; got {edge!r:.80}")
        source, target = edge
        if source not in nodes or target not in nodes:
            raise ValueError(f"edges of graph must join its nodes; got {edge!r}")
        if source in sources[target]:
            raise ValueError(
                "edges of graph must differ, since readers disagree whether equal ones add up; got "
                f"{edge!r} twice"
            )
        kind, kinds = nodes[source].kind, SOURCES[nodes[target].kind]
        if kind not in kinds:
            raise ValueError(
                f"node {target!r} must get values of {' or '.join(kinds) or 'no'} nodes; got those of "
                f"{source!r}, of kind {kind}"
            )
        sources[target].append(source)
    # Neurons whose parameters are single numbers have the shape of the node before them: first IF, then LI.
    for target in sorted(sources, key=lambda name: list(SOURCES).index(nodes[name].kind)):
        for source in sources[target]:
            node, shape = nodes[target], nodes[source].shape_behind
            if not node.shape_before and node.kind in PARAMETERS:
                node = nodes[target] = _Node(node.kind, shape, shape, np.broadcast_to(node.values, shape))
            # Sizes must be equal.  Shapes must be equal too, unless one of the two shapes has a single axis.
            is_flat, wanted = 1 in (len(shape), len(node.shape_before)), node.shape_before
            if math.prod(shape) != math.prod(wanted) or (shape != wanted and not is_flat):
                raise ValueError(f"node {target!r} must get values of shape {wanted}; got {shape}")
    return nodes, sources


def _checked_signal(inputs: list[_Node], signal: Any) -> np.ndarray | None:
    """Return the values of the input as a vector, or None without a signal."""
    if len(inputs) > 1:
        raise ValueError(f"graph must have one node of kind Input; got {len(inputs)}")
    if signal is None:
        return None
    if not inputs:
        raise ValueError("signal must be None for a graph without a node of kind Input; got one")
    signal, shape = np.atleast_1d(signal), inputs[0].shape_behind
    shape = (math.prod(shape),) if signal.ndim == 1 else shape
    return checks.real_array("signal", signal, shape=shape, meaning="as the Input").ravel()


def _weights(
    populations: dict[str, np.ndarray], nodes: dict[str, _Node], sources: dict[str, list[str]]
) -> np.ndarray | StencilWeights:
    """Return the weights [source, target], as an array, or as `StencilWeights` if a Conv2d has them."""
    paths = [
        (source, name, target)
        for target in populations
        for name in sources[target]
        for synapse in sources[name]
        for source in sources[synapse]
    ]
    for source, name, target in paths:
        if nodes[name].kind == "Conv2d":
            if len(populations) > 1 or len(paths) > 1:
                raise ValueError(
                    f"node {name!r} must be the only way between the neurons of a graph, from one IF node to "
                    f"itself, since it is a Conv2d; got {source!r} to {target!r}"
                )
            return _stencil(name, nodes[name])
    weights = np.zeros((sum(neurons.size for neurons in populations.values()),) * 2)
    for source, name, target in paths:
        weights[np.ix_(populations[source].ravel(), populations[target].ravel())] += nodes[name].values.T
    return weights


def _stencil(name: str, node: _Node) -> StencilWeights:
    """Return the weights of a convolution that keeps the grid of a node."""
    if node.stride != (1, 1) or node.padding != tuple(side // 2 for side in node.values.shape[2:]):
        raise ValueError(
            f"node {name!r} must keep the grid of its neurons, by stride 1 and padding by half a side; got "
            f"weights of shape {node.values.shape}, stride {node.stride} and padding {node.padding}"
        )
    values = node.values.transpose(1, 2, 3, 0)[:, ::-1, ::-1]
    # Outer rows and columns of zeros were added to make the kernel square.
    while values.shape[1] > 1 and not values[:, [0, -1]].any():
        values = values[:, 1:-1]
    while values.shape[2] > 1 and not values[:, :, [0, -1]].any():
        values = values[:, :, 1:-1]
    rows, columns = node.shape_before[1:]
    with checks.called(values=f"weight of node {name!r}"):
        return StencilWeights(values, (rows, columns))


def _node(name: str, node: Any) -> _Node:
    """Return the shapes and parameters of a node; raise an error if neurons here cannot have them."""
    kind = type(node).__name__
    if kind not in SOURCES:
        reason = REFUSED_KINDS.get(kind, "")
        raise ValueError(f"node {name!r} must be of a kind among {', '.join(SOURCES)}; got {kind}{reason}")
    if kind in ("Input", "Output"):
        shapes = getattr(node, f"{kind.lower()}_type")
        shape = shapes.get(kind.lower()) if isinstance(shapes, dict) else shapes
        shape = _integers(f"{kind.lower()}_type of node {name!r}", shape)
        return _Node(kind, shape, shape)
    if kind in PARAMETERS:
        positive, zero = PARAMETERS[kind]
        values = _parameter(name, node, positive)
        if not (values > 0.0).all():
            raise ValueError(f"{positive} of node {name!r} must be positive; got {values.min()}")
        shape = values.shape
        for what in (zero, "r"):
            numbers, (fixed, reason) = _parameter(name, node, what, shape or None), FIXED[what]
            shape = numbers.shape
            if (numbers != fixed).any():
                got = numbers[numbers != fixed].flat[0]
                raise ValueError(f"{what} of node {name!r} must be {fixed}; got {got}: {reason}")
        return _Node(kind, shape, shape, np.broadcast_to(values, shape))
    if kind != "Conv2d":
        weight = _parameter(name, node, "weight", (None, None))
        n_targets, n_sources = weight.shape
        bias = _parameter(name, node, "bias", (n_targets,)) if kind == "Affine" else np.zeros(n_targets)
        return _Node(kind, (n_sources,), (n_targets,), weight, bias)
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
    return _Node(kind, (weight.shape[1], *grid), behind, weight, bias, stride, padding)


def _parameter(name: str, node: Any, what: str, shape: tuple[int | None, ...] | None = None) -> np.ndarray:
    """Return a parameter of a node as a float64 array; a single number is repeated for all neurons."""
    value, sides = getattr(node, what), shape or ()
    is_number = None not in sides and (np.isscalar(value) or getattr(value, "shape", None) == ())
    array = checks.real_array(f"{what} of node {name!r}", value, shape=None if is_number else shape)
    return np.full(sides, array[0]) if is_number else array  # type: ignore[arg-type]


def _integers(label: str, value: Any, *, least: int = 1, length: int | None = None) -> tuple[int, ...]:
    """Return integers as a tuple; with a `length`, a single integer is repeated."""
    values = np.atleast_1d(value)
    is_as_long = values.size > 0 if length is None else values.size in (1, length)
    if values.dtype.kind not in "iu" or values.ndim != 1 or not is_as_long or (values < least).any():
        raise ValueError(
            f"{label} must be {length or 'some'} integers of at least {least}; got {value!r:.80}"
        )
    return tuple(np.broadcast_to(values, length or values.shape).tolist())

"""NIR graphs as spiking networks, and NIR's EventData as spikes."""

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
from snn.exchange.nir_export import to_event_data
from snn.network import SpikingNetwork
from snn.record.spikes import SpikeTrain, require_record
from snn.weights import StencilWeights

if TYPE_CHECKING:
    import nir

LINEAR = ("Affine", "Linear", "Conv2d")
BEFORE = {"IF": LINEAR, "LI": ("IF",), **dict.fromkeys(LINEAR, ("Input", "LI")), "Input": (), "Output": ()}
"""Kinds of nodes that are taken, and the kinds from which a node on the way to an IF gets its values."""
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
    names = _ordered(nodes, order)
    known = _known(nodes, before, names)
    inputs = {name: node.shape_behind for name, node in known.items() if node.kind == "Input"}
    signals = _signals(inputs, signal)
    taus = {name: node.leading for name, node in known.items() if node.kind == "LI"}
    time_constant = next((float(tau.flat[0]) for tau in taus.values()), 1.0)
    for name, tau in taus.items():
        if (tau != time_constant).any():
            raise ValueError(
                f"tau of node {name!r} must be one number, the same for all synapses; got {tau.min()} to "
                f"{tau.max()}, and {time_constant}"
            )
    populations: dict[str, np.ndarray] = {}
    first = 0
    for name in names:
        shape = known[name].shape_behind
        neurons = np.arange(first, first := first + math.prod(shape)).reshape(*shape[1:], *shape[:1])
        # The channels of a grid come first in NIR, and last here.
        neurons = neurons.transpose(2, 0, 1) if len(shape) == 3 else neurons.reshape(shape)
        populations[name] = checks.read_only(neurons)
    soma_bias, firing_threshold = np.empty((2, first))
    for name, neurons in populations.items():
        soma_bias[neurons.ravel()] = time_constant * _drive(name, known, before, signals)
        firing_threshold[neurons] = known[name].leading
    return ImportedNetwork(
        network=SpikingNetwork(_weights(populations, known, before), soma_bias, firing_threshold),
        populations=populations,
        time_constant=time_constant,
        ignored=tuple(n for n in nodes if n not in known and _kind_of(nodes[n]) not in ("Input", "Output")),
    )


def from_event_data(data: nir.EventData, *, sample: int = 0) -> SpikeTrain:
    """Return the spikes of one sample of NIR's EventData, from time 0 to its ``t_max``.

    Parameters
    ----------
    data : nir.EventData
        Events; those with index -1 fill rows up and are left out.  They need not be in the order of time.
    sample : int, default 0
        Which sample.
    """
    require("nir", extra="nir")
    if _kind_of(data) != "EventData":
        raise TypeError(
            f"data must be an EventData of NIR, without values; got {type(data).__name__}: to_event of a "
            "TimeGriddedData returns one"
        )
    idx, times = np.asarray(data.idx), np.asarray(data.time)
    if idx.ndim != 2 or idx.shape != times.shape:
        raise ValueError(
            f"data must have idx and time of one shape, (n_samples, n_events); got {idx.shape} and "
            f"{times.shape}"
        )
    sample = checks.index("sample", sample, len(idx))
    is_event = idx[sample] != -1
    neurons, times = idx[sample][is_event], times[sample][is_event]
    order = np.argsort(times, kind="stable")
    with checks.called(neurons="idx of data", times="time of data", stop="t_max of data"):
        return SpikeTrain(
            times=times[order], neurons=neurons[order], n_neurons=data.n_neurons, start=0.0, stop=data.t_max
        )


class _Node(NamedTuple):
    """A node: the shapes of the values that it gets and gives, and its parameters, checked."""

    kind: str
    shape_before: tuple[int, ...]
    shape_behind: tuple[int, ...]
    leading: np.ndarray = np.empty(0)
    """Thresholds of an IF, tau of an LI; or weights, [target, source], of a Conv2d with row and column."""
    factor: np.ndarray = np.empty(0)
    """Resistances of an IF or LI, biases of a linear node."""
    stride: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)

    def times(self, values: np.ndarray) -> np.ndarray:
        """Return the products of the weights of a linear node with values."""
        if self.kind != "Conv2d":
            return self.leading @ values
        around = [(0, 0), *((side, side) for side in self.padding)]
        padded = np.pad(values.reshape(self.shape_before), around)
        windows = sliding_window_view(padded, (1, *self.leading.shape[2:]))[:, :, :, 0]
        windows = windows[:, :: self.stride[0], :: self.stride[1]]
        return np.tensordot(self.leading, windows, axes=([1, 2, 3], [0, 3, 4])).ravel()


def _kind_of(node: Any) -> str:
    """Return the name of the class of NIR that an object is of, or of its own class if it is of none."""
    classes = (kind for kind in type(node).__mro__ if kind.__module__.split(".")[0] == "nir")
    return next(classes, type(node)).__name__


def _checked_graph(nir: Any, graph: Any) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the nodes of a graph, and for each the names of the nodes with an edge into it."""
    checks.instance_of("graph", graph, nir.NIRGraph)
    nodes: dict[str, Any] = graph.nodes
    for name, node in checks.instance_of("nodes of graph", nodes, dict).items():
        kind = _kind_of(checks.instance_of(f"node {name!r}", node, nir.NIRNode))
        if kind not in BEFORE:
            reason = REASONS.get(kind, "")
            raise ValueError(f"node {name!r} must be of a kind among {', '.join(BEFORE)}; got {kind}{reason}")
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
    names = sorted(name for name, node in nodes.items() if _kind_of(node) == "IF")
    if not names:
        raise ValueError(f"graph must have a spiking node, nir.IF; got {len(nodes)} of other kinds")
    if order is None:
        return names
    if sorted(checks.instance_of("order", order, Sequence), key=str) != names:
        raise ValueError(f"order must have each IF node once, {names}; got {list(order)}")
    return list(order)


def _known(nodes: dict[str, Any], before: dict[str, list[str]], names: list[str]) -> dict[str, _Node]:
    """Return the IF nodes and all nodes before them; each must fit those from which it gets its values."""
    used = list(names)
    for name in used:
        kinds = BEFORE[_kind_of(nodes[name])]
        for source in before[name]:
            if _kind_of(nodes[source]) not in kinds:
                raise ValueError(
                    f"node {name!r} must get values of {' or '.join(kinds) or 'no'} nodes; got those of "
                    f"{source!r}, of kind {_kind_of(nodes[source])}"
                )
            if source not in used:
                used.append(source)
    known = {name: _node(name, nodes[name]) for name in used}
    for name, node in known.items():
        wanted = node.shape_before
        for shape in (known[source].shape_behind for source in before[name]):
            # Of one length, and in one order if both have several axes.
            is_flat = 1 in (len(shape), len(wanted))
            if math.prod(shape) != math.prod(wanted) or (shape != wanted and not is_flat):
                raise ValueError(f"node {name!r} must get values of shape {wanted}; got {shape}")
    return known


def _signals(inputs: dict[str, tuple[int, ...]], signal: Any) -> dict[str, np.ndarray]:
    """Return the values of the inputs that were given, as vectors by name."""
    if signal is None:
        return {}
    if not isinstance(signal, Mapping):
        if len(inputs) != 1:
            raise ValueError(
                f"signal must be a mapping of names to arrays for a graph with the inputs {sorted(inputs)}; "
                f"got {type(signal).__name__}"
            )
        signal = dict.fromkeys(inputs, signal)
    signals = {}
    for name, given in signal.items():
        if name not in inputs:
            raise ValueError(f"signal must be for the inputs {sorted(inputs)}; got {name!r}")
        given, shape = np.atleast_1d(given), inputs[name]
        shape = (math.prod(shape),) if given.ndim == 1 else shape
        signals[name] = checks.real_array("signal", given, shape=shape, meaning=f"as {name!r}").ravel()
    return signals


def _drive(
    target: str, known: dict[str, _Node], before: dict[str, list[str]], signals: dict[str, np.ndarray]
) -> np.ndarray:
    """Return the constant drive of the elements of an IF node."""
    drive = np.zeros(known[target].leading.size)
    for name in before[target]:
        drive += known[name].factor
        for source in before[name]:
            if source in signals:
                drive += known[name].times(signals[source])
            elif known[source].kind == "Input" and known[name].leading.any():
                raise ValueError(
                    f"signal must be given: node {target!r} depends on the input {source!r}; for none pass "
                    "zeros"
                )
    return known[target].factor.ravel() * drive


def _weights(
    populations: dict[str, np.ndarray], known: dict[str, _Node], before: dict[str, list[str]]
) -> np.ndarray | StencilWeights:
    """Return the weights, [source, target], as an array, or of a grid where a Conv2d has them."""
    paths = [
        (source, known[synapse].factor.ravel(), name, known[target].factor.ravel(), target)
        for target in populations
        for name in before[target]
        for synapse in before[name]
        for source in before[synapse]
    ]
    for source, of_sources, name, of_targets, target in paths:
        if known[name].kind == "Conv2d":
            is_scaled = (of_targets != 1.0).any() or (of_sources != 1.0).any()
            if len(populations) > 1 or len(paths) > 1 or is_scaled:
                raise ValueError(
                    f"node {name!r} must be the only way between the neurons of a graph, from one IF node to "
                    f"itself with resistances of one, since it is a Conv2d; got {source!r} to {target!r}"
                )
            return _stencil(name, known[name])
    weights = np.zeros((sum(neurons.size for neurons in populations.values()),) * 2)
    for source, of_sources, name, of_targets, target in paths:
        between = of_targets[:, np.newaxis] * known[name].leading * of_sources
        if source == target and between.diagonal().any():
            raise ValueError(
                f"node {source!r} must not reach its own neurons, only others; got weights from elements "
                f"{np.flatnonzero(between.diagonal())} to themselves"
            )
        weights[np.ix_(populations[source].ravel(), populations[target].ravel())] += between.T
    return weights


def _stencil(name: str, node: _Node) -> StencilWeights:
    """Return the weights of a convolution that keeps the grid of a node."""
    if node.stride != (1, 1) or node.padding != tuple(side // 2 for side in node.leading.shape[2:]):
        raise ValueError(
            f"node {name!r} must keep the grid of its neurons, by stride 1 and padding by half a side; got "
            f"weights of shape {node.leading.shape}, stride {node.stride} and padding {node.padding}"
        )
    values = node.leading.transpose(1, 2, 3, 0)[:, ::-1, ::-1]
    # Outer offsets at which all are zero were added to make kernels square.
    while values.shape[1] > 1 and not values[:, [0, -1]].any():
        values = values[:, 1:-1]
    while values.shape[2] > 1 and not values[:, :, [0, -1]].any():
        values = values[:, :, 1:-1]
    rows, columns = node.shape_before[1:]
    with checks.called(values=f"weight of node {name!r}"):
        return StencilWeights(values, (rows, columns))


def _node(name: str, node: Any) -> _Node:
    """Return the shapes and parameters of a node."""
    kind = _kind_of(node)
    if kind == "Input":
        shapes = node.input_type
        shape = shapes.get("input") if isinstance(shapes, dict) else shapes
        return _Node(kind, (), _integers(f"input_type of node {name!r}", shape))
    if kind in ("IF", "LI"):
        first, zero = ("v_threshold", "v_reset") if kind == "IF" else ("tau", "v_leak")
        leading = _parameter(name, node, first)
        factor, offset = (_parameter(name, node, what, leading.shape) for what in ("r", zero))
        if not (leading > 0.0).all():
            raise ValueError(f"{first} of node {name!r} must be positive; got {leading.min()}")
        if offset.any():
            value = offset[offset != 0.0].flat[0]
            raise ValueError(f"{zero} of node {name!r} must be zero; got {value}: {WHY_ZERO[zero]}")
        return _Node(kind, leading.shape, leading.shape, leading, factor)
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
    """Return a parameter of a node as a float64 array; without a shape, with any number of axes."""
    value = getattr(node, what)
    shape = np.shape(value) if shape is None else shape
    return checks.real_array(f"{what} of node {name!r}", value, shape=shape)


def _integers(label: str, value: Any, *, least: int = 1, length: int | None = None) -> tuple[int, ...]:
    """Return one integer or several as a tuple; with a length, one is for all."""
    values = np.atleast_1d(value)
    is_as_long = values.size > 0 if length is None else values.size in (1, length)
    if values.dtype.kind not in "iu" or values.ndim != 1 or not is_as_long or (values < least).any():
        raise ValueError(
            f"{label} must be {length or 'some'} integers of at least {least}; got {value!r:.80}"
        )
    return tuple(np.broadcast_to(values, length or values.shape).tolist())

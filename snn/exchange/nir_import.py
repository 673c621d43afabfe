"""NIR graphs as spiking networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.extras import require
from snn.base.html import Described, number
from snn.exchange.events import to_event_data
from snn.exchange.nir_graph import FlatGraph, flat_graph, kind_of
from snn.exchange.nir_linear import Convolution, Wire
from snn.exchange.nir_signals import Drive, inflow, require_known_kinds, signal_of, written_out
from snn.network import SpikingNetwork
from snn.record.spikes import SpikeTrain, require_record
from snn.weights import Block, Segments, StencilWeights

if TYPE_CHECKING:
    import nir


MOST_NAMED = 8
"""Nodes that are named in a description."""


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

        Raises
        ------
        TypeError, ValueError
            If the number of neurons is another one, or the record does not begin at time 0.
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

    Spiking nodes must be IF; between two of them there must be one LI, before or after any linear nodes.
    Affine, Linear, Conv2d (a `StencilWeights` where it keeps the grid) and graphs within the graph are taken,
    in any order and under any names; edges into one node add up.  Resistances of IF and LI become factors of
    weights and biases, and one time constant, common to all LI, the unit of time.

    Parameters
    ----------
    graph : nir.NIRGraph
        The graph.
    signal : array_like, or mapping of str to array_like, optional
        What the Input nodes hold, constant in time; by name if they are several.  It is needed unless all
        weights from the inputs are zero.
    order : sequence of str, optional
        The names of the IF nodes in the order in which their neurons are numbered; by default sorted by name,
        as in a file.  Within a node neurons have the order of its array; but neurons of a 3-D node, (channel,
        row, column), are numbered by (row, column, channel), as on the grid of `StencilWeights`.

    Returns
    -------
    ImportedNetwork

    Raises
    ------
    ImportError
        If NIR is not installed: ``pip install 'sparsespike[nir]'``.
    TypeError, ValueError
        If the graph is malformed, has a node that this neuron cannot be (a leak of the membrane, a delay, a
        reset to another potential than zero, several time constants), or needs a signal; if an array reaches
        a node of another shape.
    """
    flat = flat_graph(require("nir", extra="nir"), graph)
    require_known_kinds(flat)
    drives, time_constant, ignored = inflow(flat, _ordered(flat, order), _signals(flat, signal))
    populations, first = {}, 0
    for name, drive in drives.items():
        populations[name] = _numbers(drive.threshold.shape, first)
        first += drive.threshold.size
    soma_bias, firing_threshold = np.empty(first), np.empty(first)
    for name, drive in drives.items():
        soma_bias[populations[name].ravel()] = time_constant * drive.constant
        firing_threshold[populations[name]] = drive.threshold
    network = SpikingNetwork(_weights(populations, drives), soma_bias, firing_threshold)
    return ImportedNetwork(
        network=network, populations=populations, time_constant=time_constant, ignored=ignored
    )


def _ordered(graph: FlatGraph, order: Sequence[str] | None) -> list[str]:
    """Return the names of the IF nodes in the order of their neurons."""
    names = sorted(name for name, node in graph.nodes.items() if kind_of(node) == "IF")
    if not names:
        kinds = ", ".join(sorted({type(node).__name__ for node in graph.nodes.values()}))
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


def _signals(graph: FlatGraph, signal: Any) -> dict[str, np.ndarray]:
    """Return the values of the inputs that were given, by name."""
    if signal is None:
        return {}
    inputs = {
        name: node
        for name, node in graph.nodes.items()
        if kind_of(node) == "Input" and not graph.before[name]
    }
    if not isinstance(signal, Mapping):
        if len(inputs) != 1:
            raise ValueError(
                "signal must be a mapping of names to arrays for a graph with the inputs "
                f"{sorted(inputs)}; got {type(signal).__name__}"
            )
        signal = dict.fromkeys(inputs, signal)
    unknown = [name for name in signal if name not in inputs]
    if unknown:
        raise ValueError(f"signal must be for the inputs {sorted(inputs)}; got {unknown[0]!r}")
    return {name: signal_of(name, inputs[name], values) for name, values in signal.items()}


def _numbers(shape: tuple[int, ...], first: int) -> np.ndarray:
    """Return the neurons of a node, in an array of its shape."""
    neurons = np.arange(first, first + int(np.prod(shape)))
    if len(shape) == 3:
        channels, rows, columns = shape
        return checks.read_only(neurons.reshape(rows, columns, channels).transpose(2, 0, 1))
    return checks.read_only(neurons.reshape(shape))


def _weights(
    populations: dict[str, np.ndarray], drives: Mapping[str, Drive]
) -> np.ndarray | sparse.csr_array | Segments | StencilWeights:
    """Return the weights, in a form that is as near to the graph as possible."""
    if len(populations) == 1:
        ((name, neurons),) = populations.items()
        stencil = _stencil(drives[name].wires.get(name), neurons.shape, name)
        if stencil is not None:
            return stencil
    size = {name: neurons.size for name, neurons in populations.items()}
    blocks: dict[tuple[str, str], np.ndarray | sparse.csr_array] = {}
    for target, drive in drives.items():
        for source, wire in drive.wires.items():
            matrix = written_out(wire, size[source])
            if source == target:
                _require_no_self(source, matrix.diagonal())
            # From [target, source], in the order of elements, to [source, target] in the order of neurons.
            order = [np.argsort(populations[name].ravel()) for name in (source, target)]
            blocks[source, target] = matrix.T[order[0]][:, order[1]]
    if blocks and not any(map(sparse.issparse, blocks.values())):
        if len(populations) == 1:
            return np.ascontiguousarray(*blocks.values())
        firsts = {name: int(neurons.min()) for name, neurons in populations.items()}
        return Segments.of_blocks(
            sum(size.values()),
            [Block(firsts[source], firsts[target], values) for (source, target), values in blocks.items()],
        )
    return sparse.block_array(
        [
            # A shape alone makes an array of zeros.
            [sparse.csr_array(blocks.get((source, target), (size[source], size[target]))) for target in size]
            for source in size
        ],
        format="csr",
    )


def _stencil(wire: Wire, shape: tuple[int, ...], name: str) -> StencilWeights | None:
    """Return the weights of a convolution that keeps the grid of a node, or None."""
    if not isinstance(wire, Convolution) or not wire.keeps_grid or shape[1:] != wire.grid:
        return None
    values = wire.kernels.transpose(1, 2, 3, 0)[:, ::-1, ::-1]
    _require_no_self(name, values[:, values.shape[1] // 2, values.shape[2] // 2].diagonal())
    return StencilWeights(_without_margins(values), wire.grid)


def _without_margins(values: np.ndarray) -> np.ndarray:
    """Return values of a stencil without the outer offsets at which all are zero."""
    for axis in (1, 2):
        values = np.moveaxis(values, axis, 0)
        while len(values) > 1 and not values[0].any() and not values[-1].any():
            values = values[1:-1]
        values = np.moveaxis(values, 0, axis)
    return values


def _require_no_self(name: str, own: np.ndarray) -> None:
    if np.any(own):
        element = int(np.flatnonzero(own)[0])
        raise ValueError(
            f"node {name!r} must not reach its own neurons, only others; got a weight of {own[element]} from "
            f"element {element} to itself"
        )

"""Spiking networks as NIR graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from snn.base import checks
from snn.base.describe import Described
from snn.base.extras import require
from snn.network import NetworkState, SpikingNetwork, starting_state
from snn.weights import StencilWeights

if TYPE_CHECKING:
    import nir
    from numpy.typing import ArrayLike

LARGEST_DENSE = 8192
"""Neurons whose weights are written as one dense array: 512 MB."""

METADATA = {
    "start": "all potentials and currents are zero at time 0",
    "firing": "a neuron fires where its potential reaches the threshold",
    "ties": "neurons that reach their thresholds in one instant all fire in it",
}
"""Conventions that NIR leaves open, written into each graph as text; readers may ignore it."""


@dataclass(frozen=True, eq=False, repr=False)
class InputConvolution(Described):
    """Weights from the pixels of an image to a network on a grid: kernels at the positions of the grid.

    Parameters
    ----------
    kernels : array_like, shape (n_channels, height, width) or (n_channels, n_colours, height, width)
        One kernel for each channel of the grid; the one at position (i, j) meets the pixels from
        (stride * i, stride * j) on.  In NIR an image has its colours first.
    image_shape : (int, int)
        (rows, columns) of the image.
    stride : int
        Distance between neighbouring positions, in pixels.
    """

    kernels: np.ndarray
    image_shape: tuple[int, int]
    stride: int

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(self, kernels: ArrayLike, image_shape: tuple[int, int], stride: int) -> None: ...

    def __post_init__(self) -> None:
        meaning = "(n_channels, height, width), or with the colours behind n_channels"
        shape = (None,) * (4 if np.ndim(self.kernels) == 4 else 3)
        kernels = checks.real_array("kernels", self.kernels, shape=shape, meaning=meaning)
        kernels = kernels.reshape(len(kernels), -1, *kernels.shape[-2:])
        image_shape = checks.integer_pair("image_shape", self.image_shape)
        if any(kernel > image for kernel, image in zip(kernels.shape[2:], image_shape, strict=True)):
            raise ValueError(
                f"kernels must not be larger than the image; got {kernels.shape[2:]} in {image_shape}"
            )
        stride = checks.positive_integer("stride", self.stride)
        vars(self).update(kernels=checks.read_only(kernels), image_shape=image_shape, stride=stride)

    @property
    def grid_shape(self) -> tuple[int, int]:
        """(rows, columns) of the positions."""
        sides = zip(self.image_shape, self.kernels.shape[2:], strict=True)
        rows, columns = ((image - kernel) // self.stride + 1 for image, kernel in sides)
        return rows, columns


def to_nir(
    network: SpikingNetwork,
    *,
    input_weights: ArrayLike | InputConvolution | None = None,
    populations: Mapping[str, int] | None = None,
    state: NetworkState | None = None,
    time_constant: float = 1.0,
) -> nir.NIRGraph:
    """Return the NIR graph of a network.

    With D the input weights, beta the soma bias, theta the thresholds and W the weights::

        Input -> Affine(D, beta) -> IF(r=1, v_threshold=theta, v_reset=0) -> Output
        IF -> LI(tau=1, r=1, v_leak=0) -> Affine(W^T, 0) -> IF

    A spike, a unit impulse, lifts LI by r / tau = 1, which then decays as the synaptic current does; edges
    into one node add up.  The equations of the graph are those of the network, number for number.

    Parameters
    ----------
    network : SpikingNetwork
        The network.  `StencilWeights` become a Conv2d where biases are equal for all neurons of a channel;
        all other forms become an array.
    input_weights : array_like or InputConvolution, optional
        D, shape (n_neurons, n_inputs): what a constant input adds to the soma bias.  Without it the input
        is one number, which has no effect.  `InputConvolution` is for `StencilWeights`.
    populations : mapping of str to int, optional
        Names and numbers of neurons of consecutive parts of the network, such as layers.  Each becomes an IF
        node of its own; weights between two of them are left out if all are zero.  By default one population,
        "neurons".
    state : NetworkState, optional
        For scripts that pass one to everything: NIR cannot say in which state a network starts, so that a
        state other than rest is refused.
    time_constant : float, default 1.0
        The synaptic time constant in the graph's unit of time.  The graph is in this unit: 1e-2 for a time
        constant of 10 ms in a graph in seconds.

    Returns
    -------
    nir.NIRGraph
        All arrays are float64.
    """
    checks.instance_of("network", network, SpikingNetwork)
    start = starting_state(network, state)
    if start.membrane_potential.any() or start.synaptic_current.any():
        raise ValueError(
            "state must be rest: NIR has no words for potentials and currents to start from; got "
            f"{np.count_nonzero(start.membrane_potential)} potentials and "
            f"{np.count_nonzero(start.synaptic_current)} currents that are not zero: set them in the program "
            "that reads the graph"
        )
    time_constant = checks.positive_number("time_constant", time_constant)
    graph = _Graph(require("nir", extra="nir"), time_constant)
    on_grid = _on_grid(network, input_weights, populations)
    if on_grid is not None:
        _add_grid(graph, network, *on_grid)
    else:
        _add_layers(graph, network, input_weights, populations)
    metadata = {**METADATA, "time constant": time_constant}
    return graph.nir.NIRGraph(nodes=graph.nodes, edges=graph.edges, metadata=metadata)


class _Graph:
    """The nodes and edges of a graph that is being written."""

    def __init__(self, nir: Any, time_constant: float) -> None:
        self.nir, self.time_constant = nir, time_constant
        self.nodes: dict[str, Any] = {}
        self.edges: list[tuple[str, str]] = []

    def add(self, name: str, node: Any, *, after: str | None = None) -> None:
        """Add a node, and the edge from the node before it."""
        if name in self.nodes:
            raise ValueError(f"populations must have names that leave other nodes theirs; got {name!r} twice")
        self.nodes[name] = node
        if after is not None:
            self.edges.append((after, name))

    def add_population(self, name: str, drive: Any, threshold: np.ndarray, *, output: str = "output") -> None:
        """Add neurons at rest, with the node that drives them, their synapses and their output."""
        nir, shape = self.nir, threshold.shape
        neurons = nir.IF(r=np.ones(shape), v_threshold=threshold, v_reset=np.zeros(shape))
        synapses = nir.LI(tau=np.full(shape, self.time_constant), r=np.ones(shape), v_leak=np.zeros(shape))
        self.add(f"input_to_{name}", drive, after="input")
        self.add(name, neurons, after=f"input_to_{name}")
        self.add(f"{name}_synapses", synapses, after=name)
        self.add(output, nir.Output(np.array(shape)), after=name)

    def connect(self, source: str, target: str, weights: Any) -> None:
        """Add the weights from one population to another, or to itself."""
        name = f"{source}_to_{target}"
        self.add(name, weights, after=f"{source}_synapses")
        self.edges.append((name, target))

    def convolution(
        self,
        what: str,
        kernels: np.ndarray,
        grid: tuple[int, int],
        bias: np.ndarray,
        *,
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
    ) -> Any:
        """Return a Conv2d whose kernels, called `what`, have as many rows as columns.

        NIR 1.0.8 takes the rows of a kernel for its columns where it infers the shape of what comes out, and
        refuses graphs whose kernels are not square.  Zeros on both sides, of the kernel and of the image,
        change nothing.
        """
        rows, columns = kernels.shape[2:]
        if (rows - columns) % 2:
            raise ValueError(
                f"{what} must have sides that are both even or both odd, since NIR infers shapes of square "
                f"kernels alone; got {rows} x {columns}: add a row or a column of zeros"
            )
        down, right = max(columns - rows, 0) // 2, max(rows - columns, 0) // 2
        return self.nir.Conv2d(
            input_shape=grid,
            weight=np.ascontiguousarray(np.pad(kernels, ((0, 0), (0, 0), (down, down), (right, right)))),
            stride=(stride, stride),
            padding=(padding[0] + down, padding[1] + right),
            dilation=(1, 1),
            groups=1,
            bias=bias,
        )


def _add_layers(
    graph: _Graph,
    network: SpikingNetwork,
    input_weights: Any,
    populations: Mapping[str, int] | None,
) -> None:
    """Add a network as populations with dense weights."""
    n_neurons = network.n_neurons
    if n_neurons > LARGEST_DENSE:
        raise ValueError(
            f"network must have at most {LARGEST_DENSE:,} neurons to be written as a dense array; got "
            f"{n_neurons:,}: only StencilWeights with one bias for each channel become a convolution"
        )
    slices = _slices(populations, n_neurons)
    if input_weights is None:
        input_weights = np.zeros((n_neurons, 1))
    input_weights = checks.real_array(
        "input_weights", input_weights, shape=(n_neurons, None), meaning="(n_neurons, n_inputs)"
    )
    weights, affine = network.weights.toarray(), graph.nir.Affine
    graph.add("input", graph.nir.Input(np.array([input_weights.shape[1]])))
    for name, part in slices.items():
        drive = affine(
            input_weights[part] / graph.time_constant, network.soma_bias[part] / graph.time_constant
        )
        output = "output" if len(slices) == 1 else f"output_{name}"
        graph.add_population(name, drive, network.firing_threshold[part].copy(), output=output)
    for source, sources in slices.items():
        for target, targets in slices.items():
            between = weights[sources, targets]
            if between.any() or len(slices) == 1:
                node = affine(np.ascontiguousarray(between.T), np.zeros(between.shape[1]))
                graph.connect(source, target, node)


def _add_grid(
    graph: _Graph, network: SpikingNetwork, weights: StencilWeights, source: InputConvolution
) -> None:
    """Add a network on a grid, as convolutions; NIR's arrays have the channels first."""
    bias = network.soma_bias.reshape(weights.layout)[0, 0] / graph.time_constant
    threshold = np.ascontiguousarray(network.firing_threshold.reshape(weights.layout).transpose(2, 0, 1))
    image, stride = source.image_shape, source.stride
    drive = graph.convolution("kernels", source.kernels / graph.time_constant, image, bias, stride=stride)
    graph.add("input", graph.nir.Input(np.array([source.kernels.shape[1], *image])))
    graph.add_population("neurons", drive, threshold)
    # NIR's convolution reads: the target at q gets w[l, k, a, b] from q + (a, b) - reach.  Ours sends, so
    # that offsets have the opposite sign.
    kernels = weights.values[:, ::-1, ::-1].transpose(3, 0, 1, 2)
    between = graph.convolution(
        "values of StencilWeights",
        kernels,
        weights.grid_shape,
        np.zeros(weights.n_channels),
        padding=weights.reach,
    )
    graph.connect("neurons", "neurons", between)


def _on_grid(
    network: SpikingNetwork,
    input_weights: ArrayLike | InputConvolution | None,
    populations: Mapping[str, int] | None,
) -> tuple[StencilWeights, InputConvolution] | None:
    """Return weights and input of a network that convolutions can say exactly, or None if they cannot."""
    weights = network.weights
    source = input_weights if isinstance(input_weights, InputConvolution) else None
    if not isinstance(weights, StencilWeights) or populations is not None:
        if source is not None:
            raise TypeError(
                "input_weights must be an array, one row for each neuron, unless the network has "
                "StencilWeights and one population; got InputConvolution"
            )
        return None
    bias = network.soma_bias.reshape(-1, weights.n_channels)
    is_uniform = bool((bias == bias[0]).all())
    if source is None:
        if input_weights is not None or not is_uniform:
            return None
        return weights, InputConvolution(np.zeros((weights.n_channels, 1, 1)), weights.grid_shape, 1)
    if source.grid_shape != weights.grid_shape or len(source.kernels) != weights.n_channels:
        raise ValueError(
            f"input_weights must have {weights.n_channels} kernels on a grid of {weights.grid_shape}; got "
            f"{len(source.kernels)} on {source.grid_shape}"
        )
    if not is_uniform:
        raise ValueError(
            "soma_bias of network must be the same at every position for an InputConvolution; got "
            f"{bias.min()} to {bias.max()}: pass network.with_soma_bias(what is left without an input)"
        )
    return weights, source


def _slices(populations: Mapping[str, int] | None, n_neurons: int) -> dict[str, slice]:
    if populations is None:
        return {"neurons": slice(0, n_neurons)}
    checks.instance_of("populations", populations, Mapping, hint=": pass {name: number of neurons}")
    slices, first = {}, 0
    for name, length in populations.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(f"populations must have names without a slash, not empty; got {name!r}")
        length = checks.positive_integer(f"populations[{name!r}]", length)
        slices[name] = slice(first, first + length)
        first += length
    if first != n_neurons:
        raise ValueError(f"populations must have {n_neurons} neurons together; got {first}")
    return slices

"""Spiking networks written as NIR graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from snn.base import checks
from snn.network import SpikingNetwork
from snn.weights import StencilWeights, Weights

if TYPE_CHECKING:
    import nir
    from numpy.typing import ArrayLike

# Largest number of neurons whose weights are written as a dense array.  This array has 512 MB.
LARGEST_DENSE = 8192

# If the relative difference of two thresholds is smaller, only rounding made the thresholds different.
SAME_THRESHOLD = 1e-12

# Conventions that NIR leaves open.  Each graph contains this text, which readers may ignore.
METADATA = {
    "start": "all potentials and currents are zero at time 0",
    "firing": "a neuron fires where its potential reaches the threshold",
    "ties": "neurons that reach their thresholds in one instant all fire in it",
}
# Entry of the metadata: in a graph whose unit of time is a step, weights are charges of the first step.
UNIT_OF_TIME, UNITS_OF_TIME = "unit of time", ("the caller's", "step")


class InputConvolution(NamedTuple):
    """Weights from the pixels of an image to a network on a grid."""

    kernels: np.ndarray  # (n_channels, n_colours, height, width), one for each channel of the grid
    image_shape: tuple[int, int]
    stride: int  # between neighbouring positions, in pixels


def to_nir(
    network: SpikingNetwork,
    *,
    input_weights: ArrayLike | InputConvolution | None = None,
    populations: Mapping[str, int] | None = None,
    time_constant: float = 1.0,
    time_step: float | None = None,
) -> nir.NIRGraph:
    """Return the NIR graph of a network, which starts at rest.

    With D the input weights, beta the soma bias, theta the thresholds and W the weights::

        Input -> Affine(D, beta) -> IF(r=1, v_threshold=theta, v_reset=0) -> Output
        IF -> LI(tau=1, r=1, v_leak=0) -> Affine(W^T, 0) -> IF

    A spike is a unit impulse, which raises the value of LI by r / tau = 1.  The value of LI then decays as
    the synaptic current does.  The values of all edges into a node are added.  So graph and network have the
    same equations.

    Parameters
    ----------
    network : SpikingNetwork
        The network.  `StencilWeights` become a Conv2d if all neurons of a channel have the same bias.  All
        other weights become an array.
    input_weights : array_like, shape (n_neurons, n_inputs), optional
        D: a constant input x adds D x to the soma bias.  By default the input is one number, which has no
        effect.
    populations : mapping of str to int, optional
        Names and numbers of neurons of consecutive parts of the network, such as layers.  Each population
        becomes a separate IF node.  If all weights from one population to another are zero, these weights are
        left out.  By default there is one population, "neurons".
    time_constant : float, default 1.0
        The synaptic time constant in the graph's unit of time: 1e-2 for 10 ms in a graph in seconds.
    time_step : float, optional
        dt, in synaptic time constants, for simulators that run in steps, such as sinabs.  The graph's unit of
        time is then a step: the drive is the charge of a step, tau is 1 / dt, weights are multiplied by 1 -
        e^-dt, and thresholds that differ by rounding are made equal.  The spikes are the spikes of
        ``Clock(dt)``, to the precision of the other simulator.

    Returns
    -------
    nir.NIRGraph
        All arrays are float64.
    """
    checks.instance_of("network", network, SpikingNetwork)
    time_constant = checks.positive_number("time_constant", time_constant)
    if time_step is not None:
        if time_constant != 1.0:
            raise ValueError(
                f"time_constant must be 1 with a time_step, whose unit is a step; got {time_constant}"
            )
        network, time_constant = _in_steps(network, checks.positive_number("time_step", time_step))
    nir = checks.installed("nir", extra="nir")
    # `drives`: for each population, the node that drives it, and its thresholds.  `synapses`: weights between
    # two.
    drives: dict[str, tuple[Any, np.ndarray]]
    synapses: dict[tuple[str, str], Any]
    weights: Any = network.weights
    is_grid = isinstance(weights, StencilWeights) and populations is None
    bias = network.soma_bias.reshape(-1, getattr(weights, "n_channels", network.n_neurons))
    is_uniform = bool((bias == bias[0]).all())
    if input_weights is None and is_grid and is_uniform:
        input_weights = InputConvolution(np.zeros((weights.n_channels, 1, 1, 1)), weights.grid_shape, 1)
    if not isinstance(input_weights, InputConvolution):
        inputs, drives, synapses = _arrays(nir, network, input_weights, populations, time_constant)
    elif not is_uniform:
        raise ValueError(
            "soma_bias of network must be the same at every position for a convolution; got "
            f"{bias.min()} to {bias.max()}"
        )
    else:
        inputs, drives, synapses = _convolutions(nir, network, input_weights, time_constant)
    nodes: list[tuple[str, Any]] = [("input", nir.Input(np.array(inputs)))]
    edges: list[tuple[str, str]] = []
    for name, (drive, threshold) in drives.items():
        shape, output = threshold.shape, "output" if len(drives) == 1 else f"output_{name}"
        nodes += [
            (f"input_to_{name}", drive),
            (name, nir.IF(r=np.ones(shape), v_threshold=threshold)),
            (
                f"{name}_synapses",
                nir.LI(tau=np.full(shape, time_constant), r=np.ones(shape), v_leak=np.zeros(shape)),
            ),
            (output, nir.Output(np.array(shape))),
        ]
        edges += [("input", f"input_to_{name}"), (f"input_to_{name}", name)]
        edges += [(name, f"{name}_synapses"), (name, output)]
    for (before, behind), weights in synapses.items():
        name = f"{before}_to_{behind}"
        nodes.append((name, weights))
        edges += [(f"{before}_synapses", name), (name, behind)]
    if len(dict(nodes)) < len(nodes):
        raise ValueError(
            f"populations must have names that leave other nodes theirs; got {', '.join(drives)}"
        )
    unit = UNITS_OF_TIME[time_step is not None]
    metadata = {**METADATA, "time constant": time_constant, UNIT_OF_TIME: unit}
    return nir.NIRGraph(nodes=dict(nodes), edges=edges, metadata=metadata)


def scaled(weights: Weights, factor: float) -> Weights | np.ndarray:
    """Return weights times a factor: `StencilWeights` for `StencilWeights`, otherwise an array."""
    if isinstance(weights, StencilWeights):
        return StencilWeights(factor * weights.values, weights.grid_shape)
    return factor * weights.toarray()


def _in_steps(network: SpikingNetwork, time_step: float) -> tuple[SpikingNetwork, float]:
    """Return a network whose weights are charges of the first step, and tau in steps."""
    order = np.argsort(network.firing_threshold)
    ordered = network.firing_threshold[order]
    is_first = np.diff(ordered, prepend=0.0) > SAME_THRESHOLD * ordered
    threshold = np.empty_like(ordered)
    threshold[order] = ordered[is_first][np.cumsum(is_first) - 1]
    weights = scaled(network.weights, -np.expm1(-time_step))
    return SpikingNetwork(weights, network.soma_bias, threshold), 1.0 / time_step


def _arrays(
    nir: Any, network: SpikingNetwork, gains: Any, populations: Mapping[str, int] | None, time_constant: float
) -> tuple[Any, Any, Any]:
    """Return the shape of the input, the drives and the weights of populations, as arrays."""
    n_neurons = network.n_neurons
    if n_neurons > LARGEST_DENSE:
        raise ValueError(
            f"network must have at most {LARGEST_DENSE:,} neurons to be written as a dense array; got "
            f"{n_neurons:,}: only StencilWeights with one bias for each channel become a convolution"
        )
    parts = _parts(populations, n_neurons)
    gains = np.zeros((n_neurons, 1)) if gains is None else gains
    gains = checks.real_array("input_weights", gains, shape=(n_neurons, None), meaning="one row a neuron")
    gains, bias = gains / time_constant, network.soma_bias / time_constant
    weights = network.weights.toarray()
    drives, synapses = {}, {}
    for target, targets in parts.items():
        drives[target] = nir.Affine(gains[targets], bias[targets]), network.firing_threshold[targets].copy()
        for source, sources in parts.items():
            between = weights[sources, targets].T.copy()
            if between.any() or len(parts) == 1:
                synapses[source, target] = nir.Affine(between, np.zeros(len(between)))
    return [gains.shape[1]], drives, synapses


def _convolutions(
    nir: Any, network: SpikingNetwork, source: InputConvolution, time_constant: float
) -> tuple[Any, Any, Any]:
    """Return shape of the input, drive and weights of a network on a grid; channels come first in NIR."""
    weights: Any = network.weights
    layout = *weights.grid_shape, weights.n_channels
    bias = network.soma_bias.reshape(layout)[0, 0] / time_constant
    threshold = np.ascontiguousarray(network.firing_threshold.reshape(layout).transpose(2, 0, 1))

    def convolution(kernels: np.ndarray, grid: Any, bias: Any, stride: int, padding: Any) -> Any:
        # NIR 1.0.8 exchanges the rows and columns of a kernel when it infers the shape of its output, and
        # so refuses graphs whose kernels are not square.  Zeros around kernel and image change nothing.
        rows, columns = kernels.shape[2:]
        if (rows - columns) % 2:
            raise ValueError(
                "kernels must have sides that are both even or both odd, since NIR infers shapes of "
                f"square kernels only; got {rows} x {columns}: add a row or a column of zeros"
            )
        down, right = max(columns - rows, 0) // 2, max(rows - columns, 0) // 2
        return nir.Conv2d(
            input_shape=grid,
            weight=np.ascontiguousarray(np.pad(kernels, ((0, 0), (0, 0), (down, down), (right, right)))),
            stride=(stride, stride),
            padding=(padding[0] + down, padding[1] + right),
            dilation=(1, 1),
            groups=1,
            bias=bias,
        )

    kernels, image = source.kernels / time_constant, source.image_shape
    drive = convolution(kernels, image, bias, source.stride, (0, 0))
    # In NIR, the target at q gets w[l, k, a, b] from the source at q + (a, b) - reach.  `StencilWeights` has
    # offsets from source to target, which have the opposite sign.
    kernels = weights.values[:, ::-1, ::-1].transpose(3, 0, 1, 2)
    none = np.zeros(weights.n_channels)
    between = convolution(kernels, weights.grid_shape, none, 1, weights.reach)
    inputs = [source.kernels.shape[1], *image]
    return inputs, {"neurons": (drive, threshold)}, {("neurons", "neurons"): between}


def _parts(populations: Mapping[str, int] | None, n_neurons: int) -> dict[str, slice]:
    """Return the neurons of each population."""
    populations = {"neurons": n_neurons} if populations is None else populations
    checks.instance_of("populations", populations, Mapping, hint=": pass {name: number of neurons}")
    parts, first = {}, 0
    for name, length in populations.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(f"populations must have names without a slash, not empty; got {name!r}")
        end = first + checks.positive_integer(f"populations[{name!r}]", length)
        parts[name], first = slice(first, end), end
    if first != n_neurons:
        raise ValueError(f"populations must have {n_neurons} neurons together; got {first}")
    return parts

"""Networks that become NIR graphs, are saved and come back have equal numbers and equal spikes."""

# ruff: noqa: E501 - a case a line reads better

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
import nir

from snn import Clock, DenseRows, RunawayError, SpikingNetwork, StencilWeights, simulate
from snn.exchange import from_nir, to_nir
from snn.exchange.nir_writer import InputConvolution
from tests.processes import run_python
from tests.reference.networks import MODERATE, networks
from tests.reference.weight_forms import NAMES
from tests.tiers import examples

TYPE, VALUE = TypeError, ValueError


def through_file(graph, folder, **options):
    nir.write(folder / "graph.nir", graph)
    return from_nir(nir.read(folder / "graph.nir"), **options)


def require_equal_spikes(one, other, *, duration=12.0, atol=0.0):
    ones, others = (simulate(network, duration, record_spikes=True).spikes for network in (one, other))
    np.testing.assert_array_equal(ones.neurons, others.neurons)
    np.testing.assert_allclose(ones.times, others.times, rtol=0, atol=atol)
    return ones


@pytest.mark.parametrize("form", NAMES)
@pytest.mark.property
@examples(8)
@given(data=st.data())
def test_there_and_back(form, data, tmp_path_factory):
    """Graphs have a unit of time, one population or several, and an input or no input."""
    this = data.draw(networks(form, MODERATE, most=20))
    network, rng = this.network(), np.random.default_rng(this.seed)
    n, tau = network.n_neurons, data.draw(st.sampled_from([1.0, 8.0, 0.25]))
    cuts = [0, *sorted({1 + cut % n for cut in data.draw(st.sets(st.integers(0, 60), max_size=2))} - {n}), n]
    names = ["neurons"] if len(cuts) == 2 else ["cortex", "lgn", "retina"][: len(cuts) - 1]
    sizes = None if len(cuts) == 2 else dict(zip(names, np.diff(cuts).tolist(), strict=True))
    assume(this.weights.any() or sizes is None)  # without synapses a graph has no time constant
    inputs = data.draw(st.sampled_from([None, rng.standard_normal((n, 3))]))
    graph = to_nir(network, populations=sizes, time_constant=tau, input_weights=inputs)
    signal = None if inputs is None else rng.standard_normal(3)
    came = through_file(graph, tmp_path_factory.getbasetemp(), signal=signal)
    assert came.time_constant == tau
    np.testing.assert_array_equal(came.network.weights.toarray(), network.weights.toarray())
    np.testing.assert_array_equal(came.network.firing_threshold, network.firing_threshold)
    if inputs is None:
        np.testing.assert_array_equal(came.network.soma_bias, network.soma_bias)
    else:
        expected = network.soma_bias + inputs @ signal
        np.testing.assert_allclose(
            came.network.soma_bias, expected, rtol=0, atol=1e-14 * (1.0 + abs(expected)).max()
        )
    for name, first, last in zip(names, cuts[:-1], cuts[1:], strict=True):
        np.testing.assert_array_equal(came.populations[name].ravel(), np.arange(first, last))
    dense = SpikingNetwork(this.weights, came.network.soma_bias, network.firing_threshold)
    atol = 0.0 if isinstance(came.network.weights, DenseRows) else 1e-9
    try:
        require_equal_spikes(dense, came.network, duration=this.duration, atol=atol * max(this.duration, 1.0))
    except RunawayError:  # the input is not part of the regime, and may cause a runaway
        assume(False)


def grid_weights(rng, n_channels, grid_shape, *, width=3, low=-1.0, high=1.0):
    values = rng.uniform(low, high, (n_channels, 3, width, n_channels))
    values[np.arange(n_channels), 1, width // 2, np.arange(n_channels)] = 0.0
    return StencilWeights(values, grid_shape)


@pytest.mark.parametrize("shape", [(4, 6), (80, 80)])
def test_a_grid_with_one_bias_for_each_channel_is_a_convolution(tmp_path, shape):
    """The network comes back as StencilWeights, in the same order; the file of 19,200 neurons stays small."""
    rng, n = np.random.default_rng(4), 3 * shape[0] * shape[1]
    weights = grid_weights(rng, 3, shape, width=5, low=-0.4, high=0.1)
    network = SpikingNetwork(weights, np.tile([0.3, 0.9, 0.5], n // 3), rng.uniform(1.0, 2.0, n))
    graph = to_nir(network)
    assert isinstance(graph.nodes["neurons_to_neurons"], nir.Conv2d)
    came = through_file(graph, tmp_path)
    assert (tmp_path / "graph.nir").stat().st_size < 500_000
    np.testing.assert_array_equal(came.network.weights.values, weights.values)
    np.testing.assert_array_equal(came.network.firing_threshold, network.firing_threshold)
    assert len(require_equal_spikes(network, came.network, duration=3.0))
    # The graph has channels first.
    rows, columns, channels = np.unravel_index(np.arange(n), (*shape, 3))
    np.testing.assert_array_equal(came.populations["neurons"][channels, rows, columns], np.arange(n))


@pytest.mark.parametrize(("n_colours", "kernel", "stride"), [(1, (3, 5), 2), (3, (2, 2), 1)])
def test_an_input_convolution(tmp_path, n_colours, kernel, stride):
    """The input convolution, with a stride and colours first, equals products of patches with kernels."""
    rng, shape = np.random.default_rng(9), (7, 7)
    kernels, image = rng.standard_normal((2, n_colours, *kernel)), rng.standard_normal((n_colours, *shape))
    grid = tuple((side - k) // stride + 1 for side, k in zip(shape, kernel, strict=True))
    weights = grid_weights(rng, 2, grid, low=-0.1, high=0.0)
    network = SpikingNetwork(weights, np.tile([-0.1, -0.2], grid[0] * grid[1]))
    given = InputConvolution(kernels, shape, stride)
    graph = to_nir(network, input_weights=given)
    patches = [
        np.sum(image[:, i : i + kernel[0], j : j + kernel[1]] * k)
        for i in range(0, stride * grid[0], stride) for j in range(0, stride * grid[1], stride) for k in kernels
    ]  # fmt: skip
    for signal in (image, image.ravel()):
        came = through_file(graph, tmp_path, signal=signal)
        assert isinstance(came.network.weights, StencilWeights)
        np.testing.assert_allclose(came.network.soma_bias, network.soma_bias + patches, rtol=0, atol=1e-13)


# --- bad input -----------------------------------------------------------------------------------

PLAIN = SpikingNetwork(np.zeros((2, 2)), [1.0, 1.0])
GRID = SpikingNetwork(StencilWeights(np.zeros((2, 1, 1, 2)), (2, 2)), np.arange(8.0))
EVEN_AND_ODD = SpikingNetwork(StencilWeights(np.zeros((2, 1, 1, 2)), (2, 2)), np.ones(8))


def kernels(n_channels, side=(1, 1), image_shape=(2, 2), stride=1):
    return InputConvolution(np.ones((n_channels, 1, *side)), image_shape, stride)


CASES = [
    (to_nir, TYPE, "network", {"network": "network"}),
    *((to_nir, error, name, {"network": PLAIN, name: value}) for error, name, value in (
        (VALUE, "time_constant", 0.0), (VALUE, "input_weights", np.ones(2)),
        (VALUE, "input_weights", np.ones((3, 1))), (VALUE, "input_weights", np.full((2, 1), np.nan)),
        (TYPE, "populations", ["a", "b"]), (VALUE, "populations", {"a": 1}), (VALUE, "populations", {"a": 1, "b": 0, "c": 1}),
        (VALUE, "populations", {"a/b": 2}), (VALUE, "populations", {"": 2}), (VALUE, "populations", {"input": 2}),
        (VALUE, "populations", {"a": 1, "a_synapses": 1}),
    )),
    (to_nir, VALUE, "soma_bias", {"network": GRID, "input_weights": kernels(2)}),
    (to_nir, VALUE, "kernels", {"network": EVEN_AND_ODD, "input_weights": kernels(2, (3, 4), (4, 5))}),
    (to_nir, VALUE, "8,192", {"network": SpikingNetwork(sparse.csr_array((9000, 9000)), np.ones(9000))}),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "name", "arguments"), CASES)
def test_the_error_names_the_argument(call, error, name, arguments):
    with pytest.raises(error, match=rf"\b{name}\b"):
        call(**arguments)


@pytest.mark.thorough
def test_a_missing_extra_is_named_and_none_is_imported_before():
    """The error names the missing extra, and `import snn.exchange` loads no optional package."""
    program = """
import sys, snn.exchange
assert not {"nir", "h5py", "brian2", "amaranth"} & set(sys.modules)
sys.modules["nir"] = sys.modules["brian2"] = sys.modules["amaranth"] = None  # an import of them fails
import numpy as np
from snn import SpikingNetwork
from snn.exchange import *
network = SpikingNetwork(np.zeros((2, 2)), [1.0, 1.0])
for call in (
    lambda: to_nir(network), lambda: from_nir(None), lambda: to_brian2(network, time_step=0.1), lambda: __import__("snn.hardware"),
):
    try:
        call()
    except ImportError as error:
        print(error)
"""
    lines = run_python("-c", program).stdout.splitlines()
    extras = ["nir"] * 2 + ["brian2", "hardware"]
    assert len(lines) == len(extras)
    assert all(f"'sparsespike[{extra}]'" in line for extra, line in zip(extras, lines, strict=True))


@pytest.mark.property
@examples(20)
@given(data=st.data(), step=st.sampled_from([0.125, 0.25, 0.5]))
def test_a_graph_in_steps_read_step_by_step_has_the_spikes_of_a_clock(data, step, tmp_path_factory):
    """As in sinabs, LI keeps e^(-1 / tau) of its state and adds its input; IF adds, fires and subtracts."""
    this = data.draw(networks(["dense", "sparse", "grid"], "weak inhibition", least=4, most=24))
    network = this.network()
    graph = to_nir(network, time_step=step, populations={"neurons": network.n_neurons})
    drive, neurons, synapses, weights = (
        graph.nodes[name]
        for name in ("input_to_neurons", "neurons", "neurons_synapses", "neurons_to_neurons")
    )
    potential, current, counts = np.zeros((3, network.n_neurons))
    for _ in range(80):
        potential += drive.bias + weights.weight @ current
        spikes = np.floor(np.maximum(potential / neurons.v_threshold, 0.0) + 1e-12)
        potential -= spikes * neurons.v_threshold
        current = np.exp(-1.0 / synapses.tau) * current + spikes
        counts += spikes
    run = simulate(network, 80 * step, Clock(step))
    np.testing.assert_array_equal(run.spike_counts, counts)
    np.testing.assert_allclose(run.state.membrane_potential, potential, rtol=0, atol=1e-9)
    came = through_file(to_nir(network, time_step=step), tmp_path_factory.getbasetemp()).network
    np.testing.assert_allclose(came.weights.toarray(), network.weights.toarray(), rtol=1e-15)
    np.testing.assert_allclose(came.firing_threshold, network.firing_threshold, rtol=1e-12)
    np.testing.assert_allclose(came.soma_bias, network.soma_bias, rtol=1e-15)


@pytest.mark.parametrize("wrong", ["steps", "", "0.25", 0.25, None, ["step"]])
def test_a_graph_with_an_unknown_unit_of_time_is_refused(wrong):
    """Otherwise the weights of a graph in steps could be read as those of another unit, or the reverse."""
    graph = to_nir(SpikingNetwork(np.eye(3)[::-1] * [1, 0, 1], np.ones(3)), time_step=0.25)
    graph.metadata["unit of time"] = wrong
    with pytest.raises((TypeError, ValueError), match="unit of time in metadata of graph must "):
        from_nir(graph)


def test_a_graph_in_steps_has_one_threshold_where_thresholds_differ_by_rounding():
    thresholds = np.array([1.0, 2.0, 1.0 + 8e-16, 2.0 - 4e-16, 1.0 - 4e-16, 1.0 + 1e-9])
    network = SpikingNetwork(np.zeros((6, 6)), np.ones(6), thresholds)
    written = to_nir(network, time_step=0.25).nodes["neurons"].v_threshold
    np.testing.assert_allclose(written, thresholds, rtol=1e-12)
    assert len(np.unique(written)) == 3
    assert len(np.unique(to_nir(network).nodes["neurons"].v_threshold)) == 6
    with pytest.raises(ValueError, match="time_constant must be 1 with a time_step"):
        to_nir(network, time_step=0.25, time_constant=2.0)

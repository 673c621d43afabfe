"""Networks of all forms to NIR, to a file, and back: the same spikes."""

# ruff: noqa: E501 - a case a line reads better

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
import nir

from snn import NetworkState, SpikingNetwork, StencilWeights, simulate, simulate_clocked
from snn.exchange import InputConvolution, from_nir, to_nir
from tests.reference.networks import dense_weights, random_network, random_weights
from tests.reference.weight_forms import NAMES, random_matrix, sparse_coding, stored

DURATION = 12.0


def through_file(graph, tmp_path, signal=None, **options):
    nir.write(tmp_path / "graph.nir", graph)
    return from_nir(nir.read(tmp_path / "graph.nir"), signal=signal, **options)


def random_network_of(name, rng, about=12):
    weights = random_matrix(name, rng, about, density=rng.uniform(0.3, 1.0))
    bias = rng.uniform(-0.5, 1.5, len(weights))
    return stored(name, weights, bias, rng.uniform(1.0, 2.0, len(weights)))


def grid_weights(rng, n_channels, grid_shape, *, height=3, width=3, low=-1.0, high=1.0):
    values = rng.uniform(low, high, (n_channels, height, width, n_channels))
    values[np.arange(n_channels), height // 2, width // 2, np.arange(n_channels)] = 0.0
    return StencilWeights(values, grid_shape)


def patches_times_kernels(image, kernels, stride):
    """Return the products of kernels, shape (n, colours, height, width), with the patches of an image, by hand."""
    height, width = kernels.shape[2:]
    rows = range(0, image.shape[1] - height + 1, stride)
    columns = range(0, image.shape[2] - width + 1, stride)
    return [
        np.sum(image[:, i : i + height, j : j + width] * k) for i in rows for j in columns for k in kernels
    ]


def require_equal_spikes(one, other, *, atol=0.0, duration=DURATION):
    ones, others = (simulate(network, duration, record_spikes=True).spikes for network in (one, other))
    assert len(ones)
    np.testing.assert_array_equal(ones.neurons, others.neurons)
    np.testing.assert_allclose(ones.times, others.times, rtol=0, atol=atol)


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_random_networks_of_all_forms(name, tmp_path):
    """Dense graphs give the spikes of the dense network bit for bit, and of the form itself to rounding."""
    for seed in range(30):
        rng = np.random.default_rng([7, seed])
        network = random_network_of(name, rng)
        came = through_file(to_nir(network), tmp_path)
        assert came.time_constant == 1.0
        np.testing.assert_array_equal(came.network.weights.toarray(), dense_weights(network))
        np.testing.assert_array_equal(came.network.soma_bias, network.soma_bias)
        np.testing.assert_array_equal(came.network.firing_threshold, network.firing_threshold)
        same_form = type(came.network.weights) is type(network.weights)
        require_equal_spikes(network, came.network, atol=0.0 if same_form else 1e-10)
        if not same_form:
            dense = SpikingNetwork(dense_weights(network), network.soma_bias, network.firing_threshold)
            require_equal_spikes(dense, came.network)


def test_a_network_that_is_screened(tmp_path):
    """Few of 200 neurons fire, as in sparse coding."""
    weights, bias = sparse_coding("lateral inhibition", np.random.default_rng(5), 200, 64, 10)
    network = SpikingNetwork(weights, bias)
    require_equal_spikes(network, through_file(to_nir(network), tmp_path).network, duration=30.0)


def test_numbers_of_any_size_keep_all_their_digits(tmp_path):
    rng = np.random.default_rng(3)
    weights = random_weights(rng, 6) * 10.0 ** rng.uniform(-200, 3, (6, 6))
    network = SpikingNetwork(weights, rng.uniform(0, 1e5, 6), 10.0 ** rng.uniform(-2, 5, 6))
    came = through_file(to_nir(network), tmp_path).network
    np.testing.assert_array_equal(came.weights.toarray(), weights)
    np.testing.assert_array_equal(came.soma_bias, network.soma_bias)
    np.testing.assert_array_equal(came.firing_threshold, network.firing_threshold)


def test_one_neuron(tmp_path):
    network = SpikingNetwork(np.zeros((1, 1)), [0.5])
    require_equal_spikes(network, through_file(to_nir(network), tmp_path).network)


def test_grid_with_one_bias_for_each_channel_is_a_convolution(tmp_path):
    """Its file has one Conv2d; it comes back as StencilWeights, in the same order."""
    rng = np.random.default_rng(4)
    weights = grid_weights(rng, 3, (4, 6), width=5, low=-0.4, high=0.1)
    network = SpikingNetwork(weights, np.tile([0.3, 0.9, 0.5], 24), rng.uniform(1.0, 2.0, 72))
    graph = to_nir(network)
    assert isinstance(graph.nodes["neurons_to_neurons"], nir.Conv2d)
    assert graph.nodes["neurons"].v_threshold.shape == (3, 4, 6)
    came = through_file(graph, tmp_path)
    assert isinstance(came.network.weights, StencilWeights)
    np.testing.assert_array_equal(came.network.weights.values, weights.values)
    np.testing.assert_array_equal(came.network.firing_threshold, network.firing_threshold)
    require_equal_spikes(network, came.network)
    # As the graph has it: channels first.
    rows, columns, channels = np.unravel_index(np.arange(72), (4, 6, 3))
    np.testing.assert_array_equal(came.populations["neurons"][channels, rows, columns], np.arange(72))


def test_convolution_of_the_graph_is_what_its_nodes_compute():
    """The node reads by cross-correlation, as in PyTorch: against a sum written out."""
    rng = np.random.default_rng(6)
    weights = grid_weights(rng, 2, (4, 3))
    node = to_nir(SpikingNetwork(weights, np.ones(24))).nodes["neurons_to_neurons"]
    sent = rng.standard_normal((4, 3, 2))
    image = np.pad(sent.transpose(2, 0, 1), ((0, 0), (1, 1), (1, 1)))
    received = np.zeros((2, 4, 3))
    for target, row, column in np.ndindex(received.shape):
        received[target, row, column] = np.sum(
            node.weight[target] * image[:, row : row + 3, column : column + 3]
        )
    np.testing.assert_allclose(
        received.transpose(1, 2, 0).ravel(), weights.transpose_product(sent.ravel()), rtol=0, atol=1e-12
    )


def test_kernels_that_no_padding_makes_square():
    """NIR infers shapes as if kernels were square; one of 3 x 4 cannot be made so from both sides."""
    network = SpikingNetwork(StencilWeights(np.zeros((1, 1, 1, 1)), (2, 2)), np.ones(4))
    kernels = InputConvolution(np.ones((1, 3, 4)), (4, 5), 1)
    with pytest.raises(ValueError, match="kernels must have sides that are both even or both odd"):
        to_nir(network, input_weights=kernels)


def test_input_weights(tmp_path):
    """D s is added to the bias where the graph comes back with a signal."""
    rng = np.random.default_rng(8)
    network = random_network(rng, 9)
    input_weights = rng.standard_normal((9, 4))
    graph = to_nir(network, input_weights=input_weights)
    assert graph.nodes["input_to_neurons"].weight.shape == (9, 4)
    signal = rng.standard_normal(4)
    came = through_file(graph, tmp_path, signal=signal)
    np.testing.assert_allclose(
        came.network.soma_bias, network.soma_bias + input_weights @ signal, rtol=0, atol=1e-14
    )
    none = through_file(graph, tmp_path, signal=np.zeros(4))
    np.testing.assert_array_equal(none.network.soma_bias, network.soma_bias)
    with pytest.raises(
        ValueError, match=r"signal must be given: node 'neurons' depends on the input \['input'\]"
    ):
        through_file(graph, tmp_path)


def test_input_convolution(tmp_path):
    """Kernels on an image, at a stride, against products of patches with kernels."""
    rng = np.random.default_rng(9)
    kernels = rng.standard_normal((2, 3, 5))
    weights = grid_weights(rng, 2, (3, 2), low=-0.1, high=0.0)
    network = SpikingNetwork(weights, np.tile([-0.1, -0.2], 6))
    graph = to_nir(network, input_weights=InputConvolution(kernels, (7, 7), 2))
    image = rng.standard_normal((7, 7))
    expected = network.soma_bias + patches_times_kernels(image[np.newaxis], kernels[:, np.newaxis], 2)
    for signal in (image[np.newaxis], image.ravel()):
        came = through_file(graph, tmp_path, signal=signal)
        assert isinstance(came.network.weights, StencilWeights)
        np.testing.assert_allclose(came.network.soma_bias, expected, rtol=0, atol=1e-13)


def test_input_convolution_of_a_colour_image(tmp_path):
    """Colours first, as NIR has images."""
    rng = np.random.default_rng(19)
    kernels, image = rng.standard_normal((2, 3, 2, 2)), rng.standard_normal((3, 4, 3))
    network = SpikingNetwork(StencilWeights(np.zeros((2, 1, 1, 2)), (3, 2)), np.zeros(12))
    graph = to_nir(network, input_weights=InputConvolution(kernels, (4, 3), 1))
    came = through_file(graph, tmp_path, signal=image)
    expected = patches_times_kernels(image, kernels, 1)
    np.testing.assert_allclose(came.network.soma_bias, expected, rtol=0, atol=1e-13)


def test_populations(tmp_path):
    """Two layers become two nodes; weights that are all zero are left out."""
    rng = np.random.default_rng(10)
    weights = random_weights(rng, 10)
    weights[4:, :4] = 0.0
    network = SpikingNetwork(weights, rng.uniform(0.1, 1.0, 10), rng.uniform(1.0, 2.0, 10))
    graph = to_nir(network, populations={"retina": 4, "cortex": 6})
    assert "retina_to_cortex" in graph.nodes
    assert "cortex_to_retina" not in graph.nodes
    came = through_file(graph, tmp_path, order=["retina", "cortex"])
    np.testing.assert_array_equal(came.network.weights.toarray(), weights)
    np.testing.assert_array_equal(came.populations["cortex"], np.arange(4, 10))
    require_equal_spikes(network, came.network, atol=1e-10)
    by_name = through_file(graph, tmp_path)
    np.testing.assert_array_equal(by_name.populations["cortex"], np.arange(6))
    np.testing.assert_array_equal(by_name.network.weights.toarray()[:6, :6], weights[4:, 4:])


def test_unit_of_time(tmp_path):
    """In milliseconds, with synapses of 8 ms: the graph's numbers, and spikes in its unit."""
    rng = np.random.default_rng(11)
    network = random_network(rng, 8)
    graph = to_nir(network, time_constant=8.0)
    np.testing.assert_array_equal(graph.nodes["neurons_synapses"].tau, 8.0)
    np.testing.assert_array_equal(graph.nodes["input_to_neurons"].bias, network.soma_bias / 8.0)
    came = through_file(graph, tmp_path)
    assert came.time_constant == 8.0
    require_equal_spikes(network, came.network)
    spikes = simulate(came.network, DURATION, record_spikes=True).spikes
    events = came.spikes_by_node(spikes).nodes["neurons"].observables["spikes"]
    assert events.t_max == 8.0 * DURATION
    np.testing.assert_array_equal(events.time[0], 8.0 * spikes.times)


def test_clocks_agree_too(tmp_path):
    network = random_network(np.random.default_rng(13), 20)
    came = through_file(to_nir(network), tmp_path).network
    runs = [
        simulate_clocked(one, 10.0, time_step=1 / 8, record_spikes=True).spikes for one in (network, came)
    ]
    np.testing.assert_array_equal(runs[0].times, runs[1].times)
    np.testing.assert_array_equal(runs[0].neurons, runs[1].neurons)


def test_state_is_rest_or_refused():
    network = random_network(np.random.default_rng(14), 3)
    to_nir(
        network, state=NetworkState(membrane_potential=np.zeros(3), synaptic_current=np.zeros(3), time=5.0)
    )
    state = simulate(network, 3.0).state
    with pytest.raises(ValueError, match="state must be rest: NIR has no words for potentials and currents"):
        to_nir(network, state=state)
    with pytest.raises(ValueError, match="state has 2 neurons"):
        to_nir(network, state=NetworkState.at_rest(2))


def test_size_limit_names_the_way_out():
    network = SpikingNetwork(sparse.csr_array((9000, 9000)), np.ones(9000))
    with pytest.raises(ValueError, match=r"at most 8,192 neurons to be written as a dense array; got 9,000"):
        to_nir(network)


def test_large_grid_has_no_limit(tmp_path):
    """12,800 neurons: as a convolution some kilobytes."""
    weights = grid_weights(np.random.default_rng(16), 2, (80, 80), low=-0.05, high=-0.05)
    network = SpikingNetwork(weights, np.full(12800, 0.5))
    came = through_file(to_nir(network), tmp_path)
    assert (tmp_path / "graph.nir").stat().st_size < 500_000
    require_equal_spikes(network, came.network, duration=4.0)


def test_metadata_says_what_the_graph_cannot(tmp_path):
    graph = to_nir(random_network(np.random.default_rng(15), 3))
    nir.write(tmp_path / "graph.nir", graph)
    assert set(nir.read(tmp_path / "graph.nir").metadata) == {"start", "firing", "ties", "time constant"}


STENCIL = SpikingNetwork(StencilWeights(np.zeros((2, 1, 1, 2)), (2, 2)), np.arange(8.0))
PLAIN = SpikingNetwork(np.zeros((2, 2)), [1.0, 1.0])


def kernels(n_channels, image_shape=(2, 2)):
    return InputConvolution(np.ones((n_channels, 1, 1)), image_shape, 1)


@pytest.mark.parametrize(
    ("network", "options", "error", "message"),
    [
        ("network", {}, TypeError, "network must be a SpikingNetwork; got str"),
        (PLAIN, {"time_constant": 0.0}, ValueError, "time_constant must be positive"),
        (PLAIN, {"state": 3}, TypeError, "state must be a NetworkState; got int"),
        (PLAIN, {"input_weights": np.ones(2)}, ValueError, "input_weights must have shape"),
        (PLAIN, {"input_weights": np.ones((3, 1))}, ValueError, "input_weights must have shape"),
        (PLAIN, {"input_weights": np.full((2, 1), np.nan)}, ValueError, "input_weights must be finite"),
        (PLAIN, {"populations": ["a", "b"]}, TypeError, "populations must be a Mapping; got list: pass {name: number of neurons}"),
        (PLAIN, {"populations": {"a": 1}}, ValueError, "populations must have 2 neurons together; got 1"),
        (PLAIN, {"populations": {"a": 1, "b": 0}}, ValueError, r"populations\['b'\] must be positive"),
        (PLAIN, {"populations": {"a/b": 2}}, ValueError, "populations must have names without a slash"),
        (PLAIN, {"populations": {"input": 2}}, ValueError, "populations must have names that leave other nodes"),
        (PLAIN, {"populations": {"a": 1, "a_synapses": 1}}, ValueError, "got 'a_synapses' twice"),
        (PLAIN, {"input_weights": kernels(1, (1, 2))}, TypeError, "input_weights must be an array, one row for each neuron"),
        (STENCIL, {"input_weights": kernels(2)}, ValueError, "soma_bias of network must be the same at every position for an InputConvolution"),
        (STENCIL, {"input_weights": kernels(3)}, ValueError, r"input_weights must have 2 kernels on a grid of \(2, 2\); got 3 on \(2, 2\)"),
    ],
)  # fmt: skip
def test_nonsense_ends_in_a_sentence(network, options, error, message):
    with pytest.raises(error, match=message):
        to_nir(network, **options)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.ones((2, 2)), (3, 3), 1), ValueError, "kernels must be 3-D"),
        ((np.ones((1, 4, 2)), (3, 3), 1), ValueError, "kernels must not be larger than the image"),
        ((np.ones((1, 2, 2)), 3, 1), TypeError, "image_shape must be a pair of integers"),
        ((np.ones((1, 2, 2)), (3, 3), 0), ValueError, "stride must be positive"),
    ],
)
def test_nonsense_of_input_convolutions(arguments, error, message):
    with pytest.raises(error, match=message):
        InputConvolution(*arguments)

"""Problems as NIR graphs, through a file, and back: the networks of `lasso_network`."""

# ruff: noqa: E501 - a case a line reads better

import numpy as np
import pytest

pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
import nir
from sklearn.datasets import load_digits

from snn import StencilWeights, simulate
from snn.exchange import from_nir
from solvers import (
    ConvolutionalDictionary,
    ElasticNet,
    LassoProblem,
    duality_gap,
    lasso_network,
    problem_to_nir,
)

DURATION = 20.0


def digits_problem(**options):
    """Ten digits in a dictionary of 150 others, each of norm one."""
    digits = load_digits().data
    atoms = digits[10:160] / np.linalg.norm(digits[10:160], axis=1, keepdims=True)
    return LassoProblem(atoms, digits[:10] / 16.0, **options)


def image_problem(**options):
    rng = np.random.default_rng(2)
    kernels = rng.standard_normal((3, 5, 5))
    dictionary = ConvolutionalDictionary(
        kernels / np.linalg.norm(kernels.reshape(3, -1), axis=1)[:, None, None], (17, 13), 2
    )
    return LassoProblem(dictionary, rng.standard_normal((2, 17 * 13)), **options)


def networks():
    weights = np.linspace(0.1, 0.3, 150)
    return {
        "classo": (digits_problem(penalty=0.2, positive=True), {}),
        "lasso": (digits_problem(penalty=0.2), {}),
        "a penalty for each atom": (digits_problem(penalty=weights, positive=True), {}),
        "elastic net": (digits_problem(penalty=ElasticNet(0.2, 0.5), positive=True), {}),
        "scale": (digits_problem(penalty=0.2, positive=True), {"scale": 0.25}),
        "convolution": (image_problem(penalty=0.3, positive=True), {}),
        "convolution, signed": (image_problem(penalty=0.3), {}),
    }


NETWORKS = networks()


@pytest.mark.parametrize("name", NETWORKS)
def test_spikes_after_the_round_trip(name, tmp_path):
    problem, options = NETWORKS[name]
    nir.write(tmp_path / "problem.nir", problem_to_nir(problem, **options))
    graph = nir.read(tmp_path / "problem.nir")
    n_fired = 0
    for signal in range(2):
        ours = lasso_network(problem, signal, **options)
        came = from_nir(graph, signal=problem.signals[signal]).network
        assert isinstance(came.weights, StencilWeights) == name.startswith("convolution")
        np.testing.assert_allclose(came.soma_bias, ours.soma_bias, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(came.firing_threshold, ours.firing_threshold)
        one, other = (simulate(network, DURATION, record_spikes=True).spikes for network in (ours, came))
        np.testing.assert_array_equal(one.neurons, other.neurons)
        np.testing.assert_allclose(one.times, other.times, rtol=0, atol=1e-8)
        n_fired += len(one)
    assert n_fired > 100


@pytest.mark.parametrize("name", ["mask", "feature_weights"])
def test_weights_of_features_are_part_of_the_graph(name):
    rng = np.random.default_rng(6)
    values = rng.random(64) > 0.3 if name == "mask" else rng.uniform(0.5, 2.0, 64)
    problem = digits_problem(penalty=0.2, positive=True, **{name: values})
    came = from_nir(problem_to_nir(problem), signal=problem.signals[1]).network
    ours = lasso_network(problem, 1)
    np.testing.assert_allclose(came.soma_bias, ours.soma_bias, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(came.weights.toarray(), ours.weights.toarray())
    np.testing.assert_array_equal(came.firing_threshold, ours.firing_threshold)


def test_a_graph_codes_signals_that_the_problem_never_had():
    """The input is the signal: rates of the imported network have a small duality gap for a new one."""
    problem = digits_problem(penalty=0.2, positive=True)
    signal = load_digits().data[500] / 16.0
    came = from_nir(problem_to_nir(problem), signal=signal).network
    codes = simulate(came, 2000.0).spike_rate[np.newaxis]
    gap = duality_gap(problem.with_signals(signal[np.newaxis]), codes)
    assert gap[0] < 1e-2 * 0.5 * signal @ signal


def test_convolution_is_written_as_such():
    graph = problem_to_nir(NETWORKS["convolution, signed"][0])
    assert isinstance(graph.nodes["input_to_neurons"], nir.Conv2d)
    assert graph.nodes["neurons"].v_threshold.shape == (6, 7, 5)


def test_colour_images_have_their_colours_first():
    rng = np.random.default_rng(5)
    dictionary = ConvolutionalDictionary(rng.standard_normal((2, 3, 3, 3)), (7, 5), 2)
    image = rng.standard_normal((7, 5, 3))
    problem = LassoProblem(dictionary, image.reshape(1, -1), 1.0, positive=True)
    graph = problem_to_nir(problem)
    assert graph.nodes["input"].input_type["input"].tolist() == [3, 7, 5]
    came = from_nir(graph, signal=image.transpose(2, 0, 1)).network
    np.testing.assert_allclose(came.soma_bias, lasso_network(problem).soma_bias, rtol=0, atol=1e-12)
    np.testing.assert_allclose(came.weights.values, lasso_network(problem).weights.values, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: problem_to_nir("problem"), TypeError, "problem must be a LassoProblem; got str"),
        (lambda: problem_to_nir(NETWORKS["classo"][0], scale=0.0), ValueError, "scale must be positive"),
        (lambda: problem_to_nir(digits_problem(penalty=0.2, mask=np.eye(10, 64) == 0.0)), TypeError, "problem must have one mask for all signals"),
        *(
            (
                lambda mask=mask: problem_to_nir(image_problem(penalty=0.3, mask=mask)),
                TypeError,
                "problem must have no mask and no feature_weights with a convolutional dictionary, since a",
            )
            for mask in (np.arange(221) > 9, np.eye(2, 221) == 0.0)
        ),
        (lambda: problem_to_nir(image_problem(penalty=np.linspace(0.1, 0.3, 105), positive=True)), ValueError, "soma_bias of network must be the same at every position for an InputConvolution"),
        (lambda: problem_to_nir(LassoProblem(np.eye(9000, 10) + 1.0, np.ones((1, 10)), 0.1)), ValueError, "network must have at most 8,192 neurons to be written as a dense array; got 18,000"),
    ],
)  # fmt: skip
def test_nonsense_ends_in_a_sentence(make, error, message):
    with pytest.raises(error, match=message):
        make()

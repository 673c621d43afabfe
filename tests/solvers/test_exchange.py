"""Problems as NIR graphs, through a file, and back: the networks of `lasso_network`."""

import numpy as np
import pytest

pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
import nir
from hypothesis import assume, given

from snn import StencilWeights, simulate
from snn.exchange import from_nir
from solvers import ConvolutionalDictionary, LassoProblem, duality_gap, lasso_network, problem_to_nir
from tests.reference.problems import CONVOLUTIONAL, problems, random_problem
from tests.tiers import examples


@pytest.mark.property
@examples(20)
@given(
    drawn=problems(
        dictionary=("random", "integers", "images", "colour"),
        signals=("noise", "mixture"),
        weights=("none", "one mask", "weights"),
        penalty=("number", "vector", "elastic net"),
        limited=False,
    )
)
def test_the_network_after_the_round_trip(drawn, tmp_path_factory):
    dictionary, _, weights, penalty = drawn.kind
    is_image = dictionary in CONVOLUTIONAL
    # NIR knows shapes of square kernels alone, or of sides that are both odd or both even.
    assume(not is_image or np.diff(drawn.dictionary.kernels.shape[1:3])[0] % 2 == 0)
    # A convolution has one threshold and one drive for all positions, and no features that count more.
    assume(not is_image or (weights == "none" and penalty == "number"))
    problem, scale = drawn.problem(), 0.25 * np.abs(drawn.values).max()
    file = tmp_path_factory.mktemp("nir") / "problem.nir"
    nir.write(file, problem_to_nir(problem, scale=scale))
    graph = nir.read(file)
    for signal in range(problem.n_signals):
        ours = lasso_network(problem, signal, scale=scale)
        values = drawn.values[signal]
        if dictionary == "colour":
            values = values.reshape(*drawn.dictionary.image_shape, -1).transpose(2, 0, 1)
        came = from_nir(graph, signal=values).network
        assert isinstance(came.weights, StencilWeights) == is_image
        size = np.abs(ours.soma_bias).max()
        np.testing.assert_allclose(came.soma_bias, ours.soma_bias, rtol=0, atol=1e-12 * size)
        np.testing.assert_array_equal(came.firing_threshold, ours.firing_threshold)
        np.testing.assert_array_equal(came.weights.toarray(), ours.weights.toarray())


@pytest.mark.parametrize("is_image", [True, False])
@pytest.mark.parametrize("positive", [True, False])
def test_spikes_after_the_round_trip(is_image, positive, tmp_path):
    rng = np.random.default_rng(2)
    if is_image:
        kernels = rng.standard_normal((3, 5, 5))
        kernels /= np.linalg.norm(kernels.reshape(3, -1), axis=1)[:, None, None]
        dictionary = ConvolutionalDictionary(kernels, (17, 13), 2)
        problem = LassoProblem(dictionary, rng.standard_normal((2, 17 * 13)), 0.3, positive=positive)
    else:
        problem = random_problem(64, 150, positive=positive)
    nir.write(tmp_path / "problem.nir", problem_to_nir(problem))
    graph = nir.read(tmp_path / "problem.nir")
    if is_image:
        assert isinstance(graph.nodes["input_to_neurons"], nir.Conv2d)
        assert graph.nodes["neurons"].v_threshold.shape == ((3 if positive else 6), 7, 5)
    ours, came = lasso_network(problem, 1), from_nir(graph, signal=problem.signals[1]).network
    one, other = (simulate(network, 20.0, record_spikes=True).spikes for network in (ours, came))
    assert len(one) > 50
    np.testing.assert_array_equal(one.neurons, other.neurons)
    np.testing.assert_allclose(one.times, other.times, rtol=0, atol=1e-8)
    if is_image:
        return
    # The input is the signal: rates have a small gap for one that the problem never had.
    signal = problem.signals[0] - 0.5 * problem.signals[1]
    rates = simulate(from_nir(graph, signal=signal).network, 2000.0).spike_rate
    codes = rates if positive else rates[: problem.n_atoms] - rates[problem.n_atoms :]
    gap = duality_gap(problem.with_signals(signal[np.newaxis]), codes[np.newaxis])
    assert gap[0] < 1e-2 * 0.5 * signal @ signal


def images(**options):
    dictionary = ConvolutionalDictionary(np.ones((3, 5, 5)), (17, 13), 2)
    return LassoProblem(dictionary, np.ones((2, 221)), **{"penalty": 0.3, **options})


@pytest.mark.parametrize(
    ("make", "error", "name"),
    [
        (lambda: problem_to_nir("problem"), TypeError, "problem"),
        (lambda: problem_to_nir(random_problem(), scale=0.0), ValueError, "scale"),
        (
            lambda: problem_to_nir(LassoProblem(np.eye(3), np.ones((2, 3)), 0.2, mask=np.eye(2, 3) == 0.0)),
            TypeError,
            "problem must have one mask",
        ),
        (lambda: problem_to_nir(images(mask=np.arange(221) > 9)), TypeError, "problem must have no mask"),
        (lambda: problem_to_nir(images(mask=np.eye(2, 221) == 0.0)), TypeError, "problem must have no mask"),
        (lambda: problem_to_nir(images(penalty=np.linspace(0.1, 0.3, 105))), ValueError, "soma_bias"),
        (
            lambda: problem_to_nir(LassoProblem(np.eye(4200, 10) + 1.0, np.ones((1, 10)), 0.1)),
            ValueError,
            "network must have at most",
        ),
    ],
)
def test_nonsense_is_refused(make, error, name):
    with pytest.raises(error, match=f"^{name}"):
        make()

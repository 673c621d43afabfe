"""NIR graphs of problems, written to a file and read, give the networks of `lasso_network`."""

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
        positive=(False, True),
        limited=False,
    )
)
def test_the_network_after_the_round_trip(drawn, tmp_path_factory):
    dictionary, _, weights, penalty = drawn.kind
    is_image = dictionary in CONVOLUTIONAL
    # NIR can only describe kernels whose sides are both odd or both even.
    assume(not is_image or np.diff(drawn.dictionary.kernels.shape[1:3])[0] % 2 == 0)
    # A convolution of NIR has one threshold and one drive for all positions, and no feature weights.
    assume(not is_image or (weights == "none" and penalty == "number"))
    assume(drawn.values.any())
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


def test_the_graph_of_a_problem_in_steps():
    """With a time step, drives are per step and tau is in steps; a spike still has its whole weight."""
    problem = random_problem(8, 12, positive=True)
    whole, steps = problem_to_nir(problem).nodes, problem_to_nir(problem, time_step=0.25).nodes
    for name in ("weight", "bias"):
        one, other = (getattr(nodes["input_to_neurons"], name) for nodes in (whole, steps))
        np.testing.assert_allclose(other, 0.25 * one, rtol=1e-15)
    np.testing.assert_array_equal(steps["neurons_synapses"].tau, 4.0)
    weights, charges = (nodes["neurons_to_neurons"].weight for nodes in (whole, steps))
    np.testing.assert_allclose(charges, -np.expm1(-0.25) * weights, rtol=1e-15)


def test_rates_of_the_graph_code_a_signal_that_the_problem_never_had():
    problem = random_problem(64, 150, positive=True)
    signal = problem.signals[0] - 0.5 * problem.signals[1]
    rates = simulate(from_nir(problem_to_nir(problem), signal=signal).network, 2000.0).spike_rate
    gap = duality_gap(problem.with_signals(signal[np.newaxis]), rates[np.newaxis])
    assert gap[0] < 1e-2 * 0.5 * signal @ signal


IMAGES = ConvolutionalDictionary(np.ones((3, 5, 5)), (17, 13), 2)
OWN_MASKS = LassoProblem(np.eye(3), np.ones((2, 3)), 0.2, mask=np.eye(2, 3) == 0.0)
MASKED = LassoProblem(IMAGES, np.ones((2, 221)), 0.3, mask=np.arange(221) > 9)
OWN_PENALTIES = LassoProblem(IMAGES, np.ones((2, 221)), np.linspace(0.1, 0.3, 105))
LARGE = LassoProblem(np.eye(4200, 10) + 1.0, np.ones((1, 10)), 0.1)


@pytest.mark.parametrize(
    ("problem", "options", "error", "name"),
    [
        ("problem", {}, TypeError, "problem"),
        (OWN_MASKS, {"scale": 0.0}, ValueError, "scale"),
        (OWN_MASKS, {}, TypeError, "problem .*one mask"),
        (MASKED, {}, TypeError, "problem .*no mask"),
        (OWN_PENALTIES, {}, ValueError, "soma_bias"),
        (LARGE, {}, ValueError, "network"),
    ],
)
def test_nonsense_is_refused(problem, options, error, name):
    with pytest.raises(error, match=f"^{name}"):
        problem_to_nir(problem, **options)

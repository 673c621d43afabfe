"""Two-phase networks as NIR graphs, through a file, and back."""

import numpy as np
import pytest

pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
import nir

from dictlearn import TwoPhaseNetwork, two_phase_to_nir
from dictlearn.two_phase.exchange import POPULATIONS
from snn import simulate
from snn.exchange import from_nir


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(3)
    feedforward, feedback = rng.uniform(0.0, 0.5, (12, 20)), rng.uniform(0.0, 0.2, (20, 12))
    return TwoPhaseNetwork(feedforward, feedback, feedforward @ feedforward.T)


@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_spikes_after_the_round_trip(network, gamma, tmp_path):
    rng = np.random.default_rng(4)
    signal, reweighting = rng.uniform(0.0, 1.0, 20), rng.uniform(0.5, 2.0, 12)
    options = {"penalty": 0.1, "gamma": gamma, "reweighting": reweighting}
    nir.write(tmp_path / "network.nir", two_phase_to_nir(network, **options))
    came = from_nir(nir.read(tmp_path / "network.nir"), signal=signal, order=POPULATIONS)
    ours = network.spiking_network(signal, **options)
    np.testing.assert_array_equal(came.network.weights.toarray(), ours.weights.toarray())
    np.testing.assert_array_equal(came.network.firing_threshold, ours.firing_threshold)
    np.testing.assert_allclose(came.network.soma_bias, ours.soma_bias, rtol=1e-15, atol=0)
    one, other = (simulate(each, 30.0, record_spikes=True).spikes for each in (ours, came.network))
    assert np.count_nonzero(one.neurons >= 20) > 10
    np.testing.assert_array_equal(one.neurons, other.neurons)
    np.testing.assert_allclose(one.times, other.times, rtol=0, atol=1e-10)


def test_nodes_and_weights_are_those_of_the_paper(network):
    graph = two_phase_to_nir(network, penalty=0.1, gamma=0.4, time_constant=2.0)
    np.testing.assert_array_equal(graph.nodes["input_neurons_to_coding_neurons"].weight, network.feedforward)
    np.testing.assert_array_equal(
        graph.nodes["coding_neurons_to_input_neurons"].weight, 0.4 * network.feedback
    )
    np.testing.assert_array_equal(graph.nodes["coding_neurons"].v_threshold, np.diag(network.lateral))
    np.testing.assert_array_equal(graph.nodes["input_neurons"].v_threshold, 1.0)
    np.testing.assert_allclose(graph.nodes["input_to_coding_neurons"].bias, -0.6 * 0.1 / 2.0, rtol=1e-15)
    np.testing.assert_allclose(graph.nodes["input_to_input_neurons"].weight, 0.6 / 2.0 * np.eye(20))
    assert not graph.nodes["input_to_coding_neurons"].weight.any()
    without = two_phase_to_nir(network, penalty=0.1, gamma=0.0)
    assert "coding_neurons_to_input_neurons" not in without.nodes


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"penalty": 0.1, "gamma": 1.0}, ValueError, "gamma must"),
        ({"penalty": -0.1, "gamma": 0.5}, ValueError, "penalty must"),
        ({"penalty": 0.1, "gamma": 0.5, "reweighting": [1.0]}, ValueError, "reweighting must"),
        ({"penalty": 0.1, "gamma": 0.5, "time_constant": 0.0}, ValueError, "time_constant must be positive"),
    ],
)
def test_nonsense_ends_in_a_sentence(network, options, error, message):
    with pytest.raises(error, match=message):
        two_phase_to_nir(network, **options)
    with pytest.raises(TypeError, match="network must be a TwoPhaseNetwork; got str"):
        two_phase_to_nir("network", penalty=0.1, gamma=0.5)

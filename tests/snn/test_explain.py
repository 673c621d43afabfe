"""Why a spike was fired: charges that add up to the threshold, and are what each alone would have brought."""

import numpy as np
import pytest
from scipy import sparse

from snn import (
    Block,
    BlockWeights,
    InhibitionOnDemand,
    LateralInhibition,
    NetworkState,
    SignPairWeights,
    SpikeTrain,
    SpikingNetwork,
    StencilWeights,
    explain,
    simulate,
    simulate_clocked,
)
from snn.record import traces
from tests.reference.networks import random_weights


def form_of(name, rng):
    """Nine or more neurons; excitation stays below the thresholds of 1."""
    if name == "stencil":
        values = rng.uniform(-0.2, 0.04, (2, 3, 3, 2))
        values[:, 1, 1] *= 1.0 - np.eye(2)
        return StencilWeights(values, (4, 3))
    array = random_weights(rng, 9, strength=0.5)
    if name == "sign pairs":
        return SignPairWeights(array / 4.0, rng.uniform(-0.5, 0.2, 9))
    if name == "sign pairs on demand":
        strength = np.eye(9) - array / 4.0
        return SignPairWeights(InhibitionOnDemand(9, lambda sources: strength[sources]), np.full(9, -0.5))
    return {
        "dense": lambda: array,
        "lateral inhibition": lambda: LateralInhibition(np.eye(9) - array),
        "on demand": lambda: InhibitionOnDemand(9, lambda sources: (np.eye(9) - array)[sources]),
        "sparse": lambda: sparse.csr_array(np.where(np.abs(array) > 0.05, array, 0.0)),
        "blocks": lambda: BlockWeights(
            9,
            [
                Block(first_source=0, first_target=0, values=array[:, :5]),
                Block(first_source=0, first_target=5, values=-array[:, 5:], factor=-1.0),
            ],
        ),
    }[name]()


FORMS = (
    "dense", "lateral inhibition", "on demand", "sparse", "blocks", "sign pairs", "sign pairs on demand",
    "stencil",
)  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("from_state", [False, True])
def test_charges_add_up_to_the_threshold(name, from_state):
    rng = np.random.default_rng(FORMS.index(name))
    weights = form_of(name, rng)
    n_neurons = weights.shape[0]
    threshold = rng.uniform(1.0, 2.0, n_neurons)
    network = SpikingNetwork(weights, rng.uniform(0.1, 1.5, n_neurons), threshold)
    state = None
    if from_state:
        state = NetworkState(
            membrane_potential=rng.uniform(-0.5, 1.0, n_neurons) * threshold,
            synaptic_current=rng.uniform(-0.5, 2.0, n_neurons),
            time=3.0,
        )
    spikes = simulate(network, 12.0, state=state, record_spikes=True).spikes
    assert len(spikes) > 30
    array = np.asarray(network.weights)
    seen = np.zeros(n_neurons, dtype=bool)
    for k in range(len(spikes)):
        explanation = explain(network, spikes, k, state=state)
        neuron = spikes.neurons[k]
        assert (explanation.neuron, explanation.time) == (neuron, spikes.times[k])
        assert explanation.total == pytest.approx(threshold[neuron], rel=0, abs=1e-12)
        assert explanation.firing_threshold == threshold[neuron]
        # Only sources that fired before bring charge, with the sign of their weight.
        fired = np.bincount(spikes.neurons[:k], minlength=n_neurons) > 0
        charge = explanation.source_charge
        assert not charge[~fired].any()
        assert (charge * array[:, neuron] >= 0.0).all()
        assert charge[neuron] == 0.0
        assert explanation.was_reset == seen[neuron]
        if seen[neuron]:
            earlier = spikes.of(neuron)
            assert explanation.since == earlier[earlier < spikes.times[k]][-1]
            assert explanation.initial_potential == 0.0
        else:
            assert explanation.since == spikes.start
        seen[neuron] = True
    assert np.bincount(spikes.neurons).max() > 2


def test_charges_are_what_each_would_have_brought_alone():
    """The potential that a trace rebuilds from one part only, over the same interval."""
    rng = np.random.default_rng(5)
    array = random_weights(rng, 6, strength=0.4)
    network = SpikingNetwork(array, rng.uniform(0.2, 1.0, 6))
    state = NetworkState(membrane_potential=rng.uniform(-1, 1, 6), synaptic_current=rng.uniform(-1, 1, 6))
    spikes = simulate(network, 15.0, state=state, record_spikes=True).spikes
    k = len(spikes) - 1
    explanation = explain(network, spikes, -1, state=state)
    assert explanation.spike == k
    ends = np.array([explanation.since, explanation.time])
    for source in range(6):
        # Thresholds far above, so that nothing is reset in the trace.
        alone = np.zeros((6, 6))
        alone[source] = array[source]
        only = SpikingNetwork(alone, np.zeros(6))
        kept = spikes.neurons == source
        train = SpikeTrain(
            times=spikes.times[kept], neurons=spikes.neurons[kept], n_neurons=6, start=0.0, stop=spikes.stop
        )
        current = traces.average_soma_current(only, train, ends)
        charge = np.diff(current[:, explanation.neuron] * ends)[0]
        assert explanation.source_charge[source] == pytest.approx(charge, abs=1e-13)
    assert explanation.bias_charge == network.soma_bias[explanation.neuron] * (ends[1] - ends[0])


def test_neurons_that_start_at_the_threshold_and_ties():
    network = SpikingNetwork([[0.0, -0.5], [-0.5, 0.0]], [1.0, 1.0])
    state = NetworkState(membrane_potential=[1.0, 0.0], synaptic_current=[0.5, 0.0])
    spikes = simulate(network, 3.0, state=state, record_spikes=True).spikes
    first = explain(network, spikes, 0, state=state)
    assert (first.neuron, first.time, first.initial_potential, first.total) == (0, 0.0, 1.0, 1.0)
    tied = simulate(network, 1.5, record_spikes=True).spikes
    for k in (0, 1):
        explanation = explain(network, tied, k)
        assert explanation.time == 1.0
        assert not explanation.source_charge.any()
        assert explanation.bias_charge == 1.0


def test_the_sentence():
    array = np.zeros((9, 9))
    array[1:, 0] = 0.1 * np.arange(1, 9)
    network = SpikingNetwork(array, [0.2, *np.full(8, 1.0)])
    spikes = simulate(network, 3.0, record_spikes=True).spikes
    explanation = explain(network, spikes, int(np.flatnonzero(spikes.neurons == 0)[0]))
    text = str(explanation).splitlines()
    assert text[0].startswith("Neuron 0 fired at 1.")
    assert "since the start of the record at 0:" in text[0]
    assert [line.split("  ")[1] for line in text[1:]] == [
        "bias", "initial potential", "spikes of neuron 8", "spikes of neuron 7", "spikes of neuron 6",
        "spikes of neuron 5", "spikes of neuron 4", "spikes of 3 other neurons", "threshold",
    ]  # fmt: skip
    np.testing.assert_array_equal(explanation.largest_sources(2), [8, 7])
    assert sum(float(line.split()[-1]) for line in text[1:-1]) == pytest.approx(1.0, abs=1e-5)
    last = np.flatnonzero(spikes.neurons == 0)[-1]
    assert "since its reset at" in str(explain(network, spikes, int(last)))


def test_bad_input():
    network = SpikingNetwork([[0.0, -0.5], [-0.5, 0.0]], [1.0, 0.7])
    run = simulate(network, 5.0, record_spikes=True)
    spikes, rest = run.spikes, NetworkState.at_rest(2)
    later = simulate(network, 5.0, state=run.state, record_spikes=True).spikes
    explain(network, later, 0, state=run.state)
    cases = [
        (lambda: explain(None, spikes, 0), TypeError, "network must be a SpikingNetwork; got NoneType"),
        (
            lambda: explain(network, None, 0),
            TypeError,
            "spikes must be a SpikeTrain; got None: run the network with record_spikes=True",
        ),
        (lambda: explain(network, spikes, 1.0), TypeError, "k must be an integer; got float"),
        (lambda: explain(network, spikes, 99), ValueError, "k must be the index of one of the"),
        (lambda: explain(network, later, 0), ValueError, "pass the state that the run started from"),
        (lambda: explain(network, later, 0, state=rest), ValueError, "state is of time 0.0 but"),
        (lambda: explain(network, spikes, 0, state=NetworkState.at_rest(3)), ValueError, "state has 3"),
        (lambda: explain(network, spikes, 0, state=1), TypeError, "state must be a NetworkState; got int"),
        (
            lambda: explain(network.with_soma_bias([1.1, 0.7]), spikes, 0),
            ValueError,
            r"spikes must be those of an exact run of this network .*; got charges that add up to 1\.1",
        ),
    ]
    for call, kind, message in cases:
        with pytest.raises(kind, match=message):
            call()
    clocked = simulate_clocked(network, 5.0, time_step=0.3125, record_spikes=True).spikes
    with pytest.raises(ValueError, match="spikes must be those of an exact run"):
        explain(network, clocked, 0)

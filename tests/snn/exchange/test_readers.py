"""Graphs for programs that deviate from NIR: against small models of what their source code does.

What the programs themselves made of such graphs is in docs/exchange.md.
"""

# ruff: noqa: E501 - a case a line reads better

import numpy as np
import pytest

pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
import nir

from snn import SpikingNetwork, StencilWeights, simulate_clocked
from snn.exchange import for_reader, from_nir, to_nir
from tests.reference.networks import golden_network, random_network, random_weights
from tests.snn.exchange.graphs import network_graph, synapses

STEP = 1 / 64
N_STEPS = 2560


def numbers(graph):
    nodes = graph.nodes
    return (
        nodes["input_to_neurons"].weight,
        nodes["input_to_neurons"].bias,
        nodes["neurons_to_neurons"].weight,
        nodes["neurons"].v_threshold,
        float(nodes["neurons_synapses"].tau[0]),
    )


def run_as_norse(graph, signal=0.0):
    """norse/torch/functional/iaf.py and leaky_integrator_box.py: spikes of the step before go into LI."""
    drive, bias, weights, threshold, tau = numbers(graph)
    n = len(threshold)
    v, current, fired, spikes = np.zeros(n), np.zeros(n), np.zeros(n), []
    for _ in range(N_STEPS):
        current = current + STEP / tau * (fired - current)
        v = v + drive @ np.full(drive.shape[1], signal) + bias + weights @ current
        fired = (v > threshold).astype(float)
        v = np.where(fired, 0.0, v)
        spikes.append(fired)
    return np.array(spikes)


def run_as_sinabs(graph, bounded, signal=0.0):
    """sinabs/layers/functional/lif.py with the arguments of sinabs/nir.py."""
    drive, bias, weights, threshold, tau = numbers(graph)
    n = len(threshold)
    v, current, fired, spikes = np.zeros(n), np.zeros(n), np.zeros(n), []
    for _ in range(N_STEPS):
        current = np.exp(-1.0 / tau) * current + fired
        v = v + drive @ np.full(drive.shape[1], signal) + bias + weights @ current
        fired = (v > 0.0) * np.trunc(v / threshold)
        v = v - fired * threshold
        if bounded:
            v = np.maximum(v, -threshold)
        spikes.append(fired)
    return np.array(spikes)


def as_steps(result, time_step, n_neurons):
    spikes = np.zeros((N_STEPS, n_neurons))
    steps = np.rint(result.spikes.times / time_step).astype(int) - 1
    np.add.at(spikes, (steps, result.spikes.neurons), 1.0)
    return spikes


def networks():
    rng = np.random.default_rng(21)
    return [golden_network(), random_network(rng, 12)]


@pytest.mark.parametrize("network", networks(), ids=["golden", "random"])
def test_norse_is_a_clock_of_euler_throughout(network):
    """Spike for spike, the exact step of -log(1 - dt) with reset to zero."""
    longer = -np.log1p(-STEP)
    drive = network.with_soma_bias(network.soma_bias * (STEP / longer))
    ours = simulate_clocked(drive, N_STEPS * longer, time_step=longer, reset="zero", record_spikes=True)
    theirs = run_as_norse(for_reader(to_nir(network), "norse", time_step=STEP))
    assert theirs.sum() > 50
    np.testing.assert_array_equal(theirs, as_steps(ours, longer, network.n_neurons))


@pytest.mark.parametrize("network", networks(), ids=["golden", "random"])
def test_sinabs_without_bound_is_the_clock_that_keeps_charge(network):
    ours = simulate_clocked(network, N_STEPS * STEP, time_step=STEP, record_spikes=True)
    graph = for_reader(to_nir(network), "sinabs without bound", time_step=STEP)
    theirs = run_as_sinabs(graph, bounded=False)
    assert theirs.sum() > 50
    np.testing.assert_array_equal(theirs, as_steps(ours, STEP, network.n_neurons))


def test_the_bound_of_sinabs_adds_charge():
    """Why graphs with inhibition are refused: neuron 1 falls to -2.2, and must pay all of it back."""
    network = SpikingNetwork([[0.0, -6.0], [0.0, 0.0]], [0.1, 1.0], [1.0, 1.5])
    graph = for_reader(to_nir(network), "sinabs without bound", time_step=STEP)
    exact = simulate_clocked(network, N_STEPS * STEP, time_step=STEP).spike_counts
    np.testing.assert_array_equal(run_as_sinabs(graph, bounded=False).sum(axis=0), exact)
    assert run_as_sinabs(graph, bounded=True).sum(axis=0)[1] > exact[1]


def test_sinabs_takes_networks_that_only_excite():
    rng = np.random.default_rng(22)
    network = SpikingNetwork(random_weights(rng, 8, sign=1, strength=0.5), rng.uniform(0.1, 1.0, 8))
    ours = simulate_clocked(network, N_STEPS * STEP, time_step=STEP)
    graph = for_reader(to_nir(network), "sinabs", time_step=STEP)
    np.testing.assert_array_equal(run_as_sinabs(graph, bounded=True).sum(axis=0), ours.spike_counts)


@pytest.mark.parametrize("reader", ["norse", "sinabs without bound"])
def test_inputs_are_scaled_like_biases(reader):
    network = random_network(np.random.default_rng(23), 5)
    graph = to_nir(network, input_weights=np.full((5, 2), 0.2))
    run = run_as_norse if reader == "norse" else (lambda g, signal: run_as_sinabs(g, False, signal))
    theirs = run(for_reader(graph, reader, time_step=STEP), signal=0.5)
    louder = network.with_soma_bias(network.soma_bias + 0.2)
    theirs_directly = run(for_reader(to_nir(louder), reader, time_step=STEP), signal=0.0)
    assert np.abs(theirs.sum(axis=0) - theirs_directly.sum(axis=0)).max() <= 1


def test_unit_of_time():
    """A graph in milliseconds for a clock in milliseconds has the same spikes."""
    network = golden_network()
    for reader in ("norse", "sinabs without bound"):
        one = for_reader(to_nir(network), reader, time_step=STEP)
        other = for_reader(to_nir(network, time_constant=8.0), reader, time_step=8.0 * STEP)
        for name in ("input_to_neurons", "neurons_to_neurons"):
            np.testing.assert_allclose(one.nodes[name].weight, other.nodes[name].weight, rtol=1e-15)
            np.testing.assert_allclose(one.nodes[name].bias, other.nodes[name].bias, rtol=1e-15)


def test_the_given_graph_stays_as_it_is(tmp_path):
    graph = to_nir(golden_network())
    before = graph.nodes["input_to_neurons"].bias.copy()
    adapted = for_reader(graph, "norse", time_step=STEP)
    np.testing.assert_array_equal(graph.nodes["input_to_neurons"].bias, before)
    nir.write(tmp_path / "graph.nir", adapted)
    assert nir.read(tmp_path / "graph.nir").metadata["reader"] == "norse"


def pair(**changes):
    """Return the graph of two neurons without synapses, with some nodes replaced."""
    return network_graph(np.zeros((2, 2)), [1, 1], [1, 1], **changes)


GRID = SpikingNetwork(StencilWeights(np.zeros((2, 1, 1, 2)), (2, 2)), np.ones(8))


@pytest.mark.parametrize(
    ("make", "reader", "message"),
    [
        (lambda: to_nir(golden_network()), "sinabs", "weight of node 'neurons_to_neurons' must not be negative"),
        (lambda: to_nir(SpikingNetwork(np.zeros((1, 1)), [-1.0])), "sinabs", "bias of node 'input_to_neurons' must not be negative for Sinabs, which cuts potentials off"),
        (lambda: to_nir(GRID), "sinabs", "node 'neurons_synapses' must have one axis for Sinabs"),
        (lambda: to_nir(golden_network()), "jaxsnn", "reader 'jaxsnn' cannot run such a network"),
        (lambda: to_nir(golden_network(), time_constant=0.01), "norse", "time_step must be smaller than tau, 0.01"),
        (lambda: to_nir(golden_network()), "lava", "reader must be one of 'norse', 'sinabs'"),
        (lambda: pair(behind=nir.Scale(np.ones(2))), "norse", "graph must be one that to_nir wrote; got a Scale, 'behind', behind"),
        (lambda: pair(cells=nir.IF(2 * np.ones(2), np.ones(2))), "norse", "r of node 'cells' must be 1"),
    ],
)  # fmt: skip
def test_what_a_reader_cannot_run_is_refused(make, reader, message):
    with pytest.raises(ValueError, match=message):
        for_reader(make(), reader, time_step=STEP)


def tau_of(*values):
    return pair(li=synapses(2, tau=np.array(values)))


@pytest.mark.parametrize("reader", ["norse", "sinabs without bound"])
def test_several_time_constants_are_refused(reader):
    """A reader has one factor for the weights behind an LI, or behind several."""
    with pytest.raises(ValueError, match=r"tau of 'li' must be one number .*; got 1\.0 to 4\.0"):
        for_reader(tau_of(1.0, 4.0), reader, time_step=STEP)
    with pytest.raises(ValueError, match="tau of 'li' must be positive"):
        for_reader(tau_of(-1.0, -1.0), reader, time_step=STEP)
    one = tau_of(1.0, 1.0)
    nodes = {**one.nodes, "slow": synapses(2, tau=4 * np.ones(2))}
    both = nir.NIRGraph(nodes=nodes, edges=[*one.edges, ("cells", "slow"), ("slow", "w")])
    with pytest.raises(ValueError, match=r"tau of '(li|slow)' and '(li|slow)' must be one number"):
        for_reader(both, reader, time_step=STEP)


def test_an_adapted_graph_is_not_taken_for_another(tmp_path):
    """Its biases and weights would be scaled twice, or taken as they are."""
    nir.write(tmp_path / "graph.nir", for_reader(to_nir(golden_network()), "norse", time_step=0.1))
    adapted = nir.read(tmp_path / "graph.nir")
    outer = nir.NIRGraph(nodes={"inner": adapted}, edges=[], type_check=False)
    for use in (lambda g: for_reader(g, "sinabs without bound", time_step=0.1), from_nir):
        with pytest.raises(ValueError, match=r"graph must have the numbers that NIR says; .* for 'norse'"):
            use(adapted)
    with pytest.raises(ValueError, match="graph 'inner' must have the numbers that NIR says"):
        from_nir(outer)


def test_nonsense_ends_in_a_sentence():
    graph = to_nir(golden_network())
    with pytest.raises(TypeError, match="graph must be an NIRGraph; got str"):
        for_reader("graph", "norse", time_step=0.1)
    with pytest.raises(TypeError, match="reader must be one of"):
        for_reader(graph, 3, time_step=0.1)
    with pytest.raises(ValueError, match="time_step must be positive"):
        for_reader(graph, "norse", time_step=-0.1)

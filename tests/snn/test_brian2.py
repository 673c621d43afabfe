"""An independent program: Brian2 integrates the same network on a fine clock."""

import numpy as np
import pytest

from snn import simulate, traces
from tests.reference.networks import classo_network, random_dictionary

TIME_STEP = 1e-3
DURATION = 30.0


@pytest.mark.filterwarnings("ignore")  # Brian2's own dependencies warn
def test_spike_counts_and_times_of_256_neurons():
    brian2 = pytest.importorskip("brian2", reason="Brian2 is an extra: pip install 'sparsespike[brian2]'")
    rng = np.random.default_rng(12)
    dictionary = random_dictionary(rng, 256, 64)
    code = np.zeros(256)
    code[rng.choice(256, 12, replace=False)] = rng.uniform(0.5, 1.5, 12)
    network = classo_network(dictionary, code @ dictionary, 0.2)
    exact = simulate(network, DURATION, record_spikes=True)
    assert exact.n_spikes > 200

    brian2.prefs.codegen.target = "numpy"
    brian2.start_scope()
    brian2.defaultclock.dt = TIME_STEP * brian2.second
    group = brian2.NeuronGroup(
        256,
        """
        dv/dt = (bias + h) / second : 1
        dh/dt = -h / second : 1
        bias : 1 (constant)
        """,
        threshold="v >= 1",
        reset="v -= 1",
        method="rk4",
    )
    group.bias = network.soma_bias
    synapses = brian2.Synapses(group, group, "w : 1", on_pre="h_post += w")
    synapses.connect(condition="i != j")
    synapses.w = np.asarray(network.weights)[np.array(synapses.i), np.array(synapses.j)]
    monitor = brian2.SpikeMonitor(group)
    brian2.Network(group, synapses, monitor).run(DURATION * brian2.second)

    np.testing.assert_array_equal(np.array(monitor.count), exact.spike_counts)
    times, neurons = np.array(monitor.t / brian2.second), np.array(monitor.i)
    late, slope = [], []
    for neuron in np.flatnonzero(exact.spike_counts):
        own = exact.spikes.of(neuron)
        # Brian2 stamps a spike with the beginning of the step at whose end it was found.
        late.append(times[neurons == neuron] + TIME_STEP - own)
        slope.append(traces.soma_current(network, exact.spikes, own)[:, neuron])
    late, slope = np.abs(np.concatenate(late)), np.concatenate(slope)
    # Within the step. Its spikes act up to a step late, though, which moves potentials by up to a step
    # times the currents (of order 1), and spikes by that over the slope: more where that is small, and
    # more again where several neurons that inhibit it are late themselves.
    assert np.median(late) <= TIME_STEP
    assert np.percentile(late, 90) <= 2 * TIME_STEP
    assert (late * slope <= 5 * TIME_STEP).all()

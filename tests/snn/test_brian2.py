"""An independent program: Brian2 integrates the same network on a clock, fine or coarse."""

import numpy as np
import pytest

from snn import simulate, simulate_clocked, traces
from tests.reference.networks import classo_network, random_dictionary

TIME_STEP = 1e-3
DURATION = 30.0
pytestmark = pytest.mark.filterwarnings("ignore")  # Brian2's own dependencies warn


@pytest.fixture(scope="module")
def brian2():
    return pytest.importorskip("brian2", reason="Brian2 is an extra: pip install 'sparsespike[brian2]'")


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(12)
    dictionary = random_dictionary(rng, 256, 64)
    code = np.zeros(256)
    code[rng.choice(256, 12, replace=False)] = rng.uniform(0.5, 1.5, 12)
    return classo_network(dictionary, code @ dictionary, 0.2)


def spikes_of_brian2(brian2, network, time_step, method):
    """Return the counts, and the times and neurons of all spikes; thresholds are one, and subtracted."""
    brian2.prefs.codegen.target = "numpy"
    brian2.start_scope()
    brian2.defaultclock.dt = time_step * brian2.second
    group = brian2.NeuronGroup(
        network.n_neurons,
        """
        dv/dt = (bias + h) / second : 1
        dh/dt = -h / second : 1
        bias : 1 (constant)
        """,
        threshold="v >= 1",
        reset="v -= 1",
        method=method,
    )
    group.bias = network.soma_bias
    synapses = brian2.Synapses(group, group, "w : 1", on_pre="h_post += w")
    synapses.connect(condition="i != j")
    synapses.w = np.asarray(network.weights)[np.array(synapses.i), np.array(synapses.j)]
    monitor = brian2.SpikeMonitor(group)
    brian2.Network(group, synapses, monitor).run(DURATION * brian2.second)
    # Brian2 stamps a spike with the beginning of the step at whose end it was found.
    times = np.array(monitor.t / brian2.second) + time_step
    return np.array(monitor.count), times, np.array(monitor.i)


@pytest.mark.parametrize("time_step", [1 / 8, 1 / 32])
def test_spikes_on_a_clock(brian2, network, time_step):
    """Spike for spike.  Within a step Runge and Kutta's method is exact to dt^5 / 120, 3e-7 and 2e-10."""
    run = simulate_clocked(network, DURATION, time_step=time_step, record_spikes=True)
    _, times, neurons = spikes_of_brian2(brian2, network, time_step, "rk4")
    assert run.n_spikes > 200
    np.testing.assert_array_equal(run.spikes.neurons, neurons)
    np.testing.assert_allclose(run.spikes.times, times, rtol=0, atol=1e-9)


def test_a_clock_of_euler_throughout_keeps_charge_too(brian2, network):
    """In Euler's step of both equations the synapse loses what the soma gets, dt h.

    It is the exact step of a current that decays by 1 - dt, and is done in the time -log(1 - dt).
    """
    step = 1 / 4
    longer = -np.log1p(-step)
    n_steps = round(DURATION / step)
    drive = network.with_soma_bias(network.soma_bias * (step / longer))
    run = simulate_clocked(drive, n_steps * longer, time_step=longer, record_spikes=True)
    _, times, neurons = spikes_of_brian2(brian2, network, step, "euler")
    assert run.n_spikes > 200
    np.testing.assert_array_equal(run.spikes.neurons, neurons)
    np.testing.assert_allclose(run.spikes.times / longer, times / step, rtol=0, atol=1e-9)


def test_spike_counts_and_times_of_256_neurons(brian2, network):
    exact = simulate(network, DURATION, record_spikes=True)
    assert exact.n_spikes > 200
    counts, times, neurons = spikes_of_brian2(brian2, network, TIME_STEP, "rk4")
    np.testing.assert_array_equal(counts, exact.spike_counts)
    late, slope = [], []
    for neuron in np.flatnonzero(exact.spike_counts):
        own = exact.spikes.of(neuron)
        late.append(times[neurons == neuron] - own)
        slope.append(traces.soma_current(network, exact.spikes, own)[:, neuron])
    late, slope = np.abs(np.concatenate(late)), np.concatenate(slope)
    # Within the step. Its spikes act up to a step late, though, which moves potentials by up to a step
    # times the currents (of order 1), and spikes by that over the slope: more where that is small, and
    # more again where several neurons that inhibit it are late themselves.
    assert np.median(late) <= TIME_STEP
    assert np.percentile(late, 90) <= 2 * TIME_STEP
    assert (late * slope <= 5 * TIME_STEP).all()

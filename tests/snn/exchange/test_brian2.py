"""Brian2, an independent program, integrates the same network on a fine or coarse clock."""

import numpy as np
import pytest

from snn import Clock, NetworkState, RealNeuron, SpikeTrain, SpikingNetwork, Stimulus, simulate
from snn.exchange import to_brian2
from tests.reference.networks import classo_network, random_dictionary

TIME_STEP = 1e-3
DURATION = 30.0
pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore")]  # dependencies of Brian2 warn


@pytest.fixture(scope="module")
def brian2():
    brian2 = pytest.importorskip("brian2", reason="Brian2 is an extra: pip install 'sparsespike[brian2]'")
    target = brian2.prefs.codegen.target
    brian2.prefs.codegen.target = "numpy"
    yield brian2
    brian2.prefs.codegen.target = target


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(12)
    dictionary = random_dictionary(rng, 256, 64)
    code = np.zeros(256)
    code[rng.choice(256, 12, replace=False)] = rng.uniform(0.5, 1.5, 12)
    return classo_network(dictionary, code @ dictionary, 0.2)


def spikes_of_brian2(brian2, network, *, duration=DURATION, reset="subtract", **options):
    model = to_brian2(network, reset=reset, **options)
    model.network.run(duration * brian2.second)
    spikes = model.spikes()
    np.testing.assert_array_equal(model.spike_counts, spikes.counts())
    return spikes


@pytest.mark.parametrize(("time_step", "from_rest"), [(1 / 8, True), (1 / 32, True), (1 / 32, False)])
def test_spikes_on_a_clock(brian2, network, time_step, from_rest):
    """All spikes agree.  The error of a step of Runge and Kutta's method is dt^5 / 120: 3e-7 and 2e-10."""
    state = None if from_rest else simulate(network, 8.0).state
    run = simulate(network, DURATION, Clock(time_step), state=state, record_spikes=True)
    spikes = spikes_of_brian2(brian2, network, time_step=time_step, state=state)
    assert run.n_spikes > 200
    assert (spikes.start, spikes.stop) == (run.spikes.start, run.spikes.stop)
    np.testing.assert_array_equal(run.spikes.neurons, spikes.neurons)
    np.testing.assert_allclose(run.spikes.times, spikes.times, rtol=0, atol=1e-9 if from_rest else 1e-8)


def test_a_clock_of_euler_throughout_keeps_charge_too(brian2, network):
    """In Euler's step of both equations the synapse loses the charge that the soma receives, dt h.

    This is the exact step of a longer duration, -log(1 - dt), in which a current decays by the factor 1 - dt.
    """
    step = 1 / 4
    longer = -np.log1p(-step)
    n_steps = round(DURATION / step)
    drive = network.with_soma_bias(network.soma_bias * (step / longer))
    run = simulate(drive, n_steps * longer, Clock(longer), record_spikes=True)
    spikes = spikes_of_brian2(brian2, network, time_step=step, method="euler")
    assert run.n_spikes > 200
    np.testing.assert_array_equal(run.spikes.neurons, spikes.neurons)
    np.testing.assert_allclose(run.spikes.times / longer, spikes.times / step, rtol=0, atol=1e-9)


def test_spike_counts_and_times_of_256_neurons(brian2, network):
    exact = simulate(network, DURATION, record_spikes=True)
    assert exact.n_spikes > 200
    spikes = spikes_of_brian2(brian2, network, time_step=TIME_STEP)
    np.testing.assert_array_equal(spikes.counts(), exact.spike_counts)
    late, slope = [], []
    for neuron in np.flatnonzero(exact.spike_counts):
        own = exact.spikes.of(neuron)
        late.append(spikes.of(neuron) - own)
        slope.append(exact.record.current(own)[:, neuron])
    late, slope = np.abs(np.concatenate(late)), np.concatenate(slope)
    # Most spikes are at most a step late.  Spikes also act up to a step late, which moves potentials by up
    # to a step times the currents (of order 1), and moves spikes by this amount divided by the slope.  The
    # delay is larger at small slopes, and if several neurons that inhibit the neuron are late.
    assert np.median(late) <= TIME_STEP
    assert np.percentile(late, 90) <= 2 * TIME_STEP
    assert (late * slope <= 5 * TIME_STEP).all()


def test_thresholds_and_reset_to_zero(brian2):
    """Networks without weights agree for thresholds other than one and for both kinds of reset."""
    network = SpikingNetwork(np.zeros((2, 2)), [0.75, 1.0], [2.0, 0.3])
    for reset in ("zero", "subtract"):
        run = simulate(network, 16.0, Clock(1 / 4, RealNeuron(reset=reset)))
        spikes = spikes_of_brian2(brian2, network, duration=16.0, time_step=1 / 4, reset=reset)
        # A neuron in Brian2 fires at most once in a step; drives add less than a threshold in a step.
        np.testing.assert_array_equal(run.spike_counts, spikes.counts())


@pytest.mark.parametrize(
    ("options", "error", "name"),
    [
        ({"network": "network"}, TypeError, "network"),
        ({"time_step": 0.0}, ValueError, "time_step"),
        ({"reset": "one"}, ValueError, "reset"),
        ({"method": 4}, TypeError, "method"),
        ({"method": "nonsense"}, ValueError, "method"),
        ({"method": "exact"}, ValueError, "method"),
        ({"state": NetworkState.at_rest(3)}, ValueError, "state"),
    ],
)
def test_the_error_names_the_argument(brian2, options, error, name):
    with pytest.raises(error, match=name):
        to_brian2(**{"network": SpikingNetwork(np.zeros((2, 2)), [1.0, 1.0]), "time_step": 0.1, **options})


def test_input_spikes_and_a_drive_that_changes(brian2):
    """A group of Brian2 plays the input spikes, and the drive changes between two runs of Brian2."""
    rng = np.random.default_rng(18)
    network = classo_network(random_dictionary(rng, 64, 32), rng.standard_normal(32), 0.2)
    time_step, n_sources, stop = 1 / 16, 8, 20.0
    # A source may fire once in a step of Brian2, and in the middle, so that rounding keeps the step.
    n_steps = round(stop / time_step)
    steps, sources = np.divmod(np.sort(rng.permutation(n_steps * n_sources)[:200]), n_sources)
    times = (steps + 0.5) * time_step
    train = SpikeTrain(times=times, neurons=sources, n_neurons=n_sources, start=0.0, stop=stop)
    weights = 0.5 * rng.standard_normal((n_sources, network.n_neurons))
    drive = network.soma_bias[::-1]
    stimulus = Stimulus(drive_times=[8.0], drive=[drive], spikes=train, weights=weights)
    run = simulate(network, stop, Clock(time_step), stimulus=stimulus, record_spikes=True)

    model = to_brian2(network, reset="subtract", time_step=time_step)
    second = brian2.second
    group = brian2.SpikeGeneratorGroup(n_sources, train.neurons, train.times * second, dt=time_step * second)
    synapses = brian2.Synapses(group, model.neurons, "w : 1", on_pre="h_post += w", clock=model.neurons.clock)
    synapses.connect()
    synapses.w = weights.ravel()
    model.network.add(group, synapses)
    model.network.run(8.0 * second)
    model.neurons.bias = drive
    model.network.run((stop - 8.0) * second)
    spikes = model.spikes()
    assert run.n_spikes > 200
    np.testing.assert_array_equal(run.spikes.neurons, spikes.neurons)
    np.testing.assert_allclose(run.spikes.times, spikes.times, rtol=0, atol=1e-9)

"""Many copies on one clock: each as if alone, in any form of weights, and what they keep count of."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from snn import Clock, NetworkState, SpikingNetwork, simulate_clocked
from snn.record import rates
from tests.reference.networks import random_network, random_sign_pair_network
from tests.reference.weight_forms import in_form

FORMS = ("dense", "sparse", "blocks", "sign pairs")
TIME_STEP = 1 / 32
RULES = [
    {"integration": integration, "reset": reset}
    for integration in ("exact", "euler")
    for reset in ("subtract", "zero")
]
NAMES = [" ".join(rules.values()) for rules in RULES]


def network_in(form, rng, n_neurons=40, *, sign=0):
    if form == "sign pairs":
        return random_sign_pair_network(rng, n_neurons // 2)
    return in_form(random_network(rng, n_neurons, density=0.5, sign=sign), form)


def random_state(rng, n_neurons):
    return NetworkState(
        membrane_potential=rng.uniform(-1.0, 0.9, n_neurons),
        synaptic_current=rng.uniform(-1.0, 1.0, n_neurons),
    )


def drives(rng, network, n_copies=4):
    return network.soma_bias + rng.uniform(-0.2, 0.2, (n_copies, network.n_neurons))


@pytest.mark.parametrize("rules", RULES, ids=NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_copies_are_runs_of_their_own(form, rules):
    rng = np.random.default_rng(21)
    network = network_in(form, rng)
    bias, state = drives(rng, network), random_state(rng, network.n_neurons)
    run = Clock(TIME_STEP, **rules).start(network, bias, state)
    times, neurons, _ = run.advance(1000 * TIME_STEP, record=True)
    np.testing.assert_array_equal(run.n_steps, 1000)
    own_times, own_neurons = [], []
    for copy, own_bias in enumerate(bias):
        alone = simulate_clocked(
            network.with_soma_bias(own_bias),
            1000 * TIME_STEP,
            time_step=TIME_STEP,
            state=state,
            record_spikes=True,
            **rules,
        )
        assert alone.n_spikes > 100
        np.testing.assert_array_equal(run.spike_counts[copy], alone.spike_counts)
        np.testing.assert_array_equal(run.membrane_potential[copy], alone.state.membrane_potential)
        np.testing.assert_array_equal(run.synaptic_current[copy], alone.state.synaptic_current)
        np.testing.assert_array_equal(run.charge[copy] / (1000 * TIME_STEP), alone.average_soma_current)
        own_times.append(alone.spikes.times)
        own_neurons.append(alone.spikes.neurons)
    np.testing.assert_array_equal(times, np.concatenate(own_times))
    np.testing.assert_array_equal(neurons, np.concatenate(own_neurons))


@pytest.mark.parametrize("sign", [1, -1, 0], ids=["excitatory", "inhibitory", "mixed"])
@pytest.mark.parametrize("n_neurons", [1, 5, 32, 33, 130])
@pytest.mark.parametrize("form", ["blocks", "sparse"])
def test_forms_of_weights_agree(form, n_neurons, sign):
    """Around the 32 neurons a kernel takes at a time, and with steps in which none, one and many fire."""
    rng = np.random.default_rng([22, n_neurons, sign + 1])
    dense = random_network(rng, n_neurons, density=0.5, sign=sign)
    bias = np.array([[0.1], [1.0], [4.0]]) * rng.uniform(0.5, 1.0, (3, n_neurons))
    runs = []
    for network in (dense, in_form(dense, form)):
        runs.append(Clock(0.1).start(network, bias))
        # Short enough that differences in the last bit do not grow to a spike more or less.
        runs[-1].advance(20.0)
    expected, run = runs
    assert run.spike_counts.sum() > 0
    np.testing.assert_array_equal(run.spike_counts, expected.spike_counts)
    for name in ("membrane_potential", "synaptic_current", "charge", "filtered_spikes"):
        np.testing.assert_allclose(getattr(run, name), getattr(expected, name), rtol=1e-12, atol=1e-12)


def test_neurons_that_fire_together_are_all_found():
    """Alone in their group of 32, with others in it, and all 100 at once; always in order."""
    n_neurons = 100
    network = SpikingNetwork(np.zeros((n_neurons, n_neurons)), np.zeros(n_neurons))
    for together in ([3, 70], [31, 32], [64, 65, 95, 99], list(range(n_neurons))):
        bias = np.zeros((1, n_neurons))
        bias[0, together] = 1.0
        run = Clock(0.25).start(network, bias)
        times, neurons, _ = run.advance(2.0, record=True)
        np.testing.assert_array_equal(times, np.repeat([1.0, 2.0], len(together)))
        np.testing.assert_array_equal(neurons, together * 2)
        np.testing.assert_array_equal(run.charge, 2.0 * bias)


@pytest.mark.parametrize("form", FORMS)
def test_currents_are_weighted_filtered_spikes(form):
    """From rest h = W^T trace: both get the spikes of a step after a decay by e^-dt.

    Over 160 time constants, beyond those after which the kernel rescales the traces (log 1e50 = 115).
    """
    rng = np.random.default_rng(23)
    network = network_in(form, rng)
    run = Clock(0.1).start(network, drives(rng, network))
    for time in (0.1, 40.0, 160.0):
        run.advance(time)
        expected = network.weights.transpose_product(run.filtered_spikes)
        np.testing.assert_allclose(run.synaptic_current, expected, rtol=0, atol=1e-12)
    assert run.filtered_spikes.max() > 1.0


@pytest.mark.filterwarnings("ignore:time_step is:UserWarning")
@pytest.mark.parametrize("time_step", [0.1, 100.0, 1000.0])
def test_filtered_spikes_are_the_sum_over_the_spikes(time_step):
    """Also where e^dt, by which the kernel counts, is out of range."""
    network = SpikingNetwork(np.zeros((2, 2)), [0.3 / time_step, 1.0 / time_step], [1.0, 1.0])
    run = Clock(time_step).start(network, network.soma_bias[np.newaxis])
    times, neurons, _ = run.advance(1601 * time_step, record=True)
    for neuron in range(2):
        ages = 1601 * time_step - times[neurons == neuron]
        expected = np.exp(-ages).sum()
        np.testing.assert_allclose(run.filtered_spikes[0, neuron], expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("rules", RULES, ids=NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_going_on_is_running_through(form, rules):
    rng = np.random.default_rng(24)
    network = network_in(form, rng)
    bias, state = drives(rng, network), random_state(rng, network.n_neurons)
    options = {"time_step": TIME_STEP, **rules}
    through = Clock(**options).start(network, bias, state)
    through.advance(800 * TIME_STEP)
    parts = Clock(**options).start(network, bias, state)
    parts.advance(300 * TIME_STEP)
    other = Clock(**options).start(network, bias, parts)
    before = parts.spike_counts.copy(), parts.charge
    np.testing.assert_allclose(other.filtered_spikes, parts.filtered_spikes, rtol=1e-15)
    for run, step in ((parts, 800), (other, 500)):
        run.advance(step * TIME_STEP)
        np.testing.assert_array_equal(run.membrane_potential, through.membrane_potential)
        np.testing.assert_array_equal(run.synaptic_current, through.synaptic_current)
    for name in ("spike_counts", "charge", "filtered_spikes"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(through, name))
    np.testing.assert_array_equal(before[0] + other.spike_counts, through.spike_counts)
    np.testing.assert_allclose(before[1] + other.charge, through.charge, rtol=0, atol=1e-11)
    np.testing.assert_allclose(other.filtered_spikes, through.filtered_spikes, rtol=0, atol=1e-13)


def test_a_run_goes_on_with_other_drives_and_weights():
    """As the second phase of dictionary learning does: what a network leaves, the next one starts from."""
    rng = np.random.default_rng(25)
    first, second = (network_in("blocks", rng) for _ in range(2))
    second = SpikingNetwork(second.weights, second.soma_bias, first.firing_threshold)
    bias, other_bias = drives(rng, first), drives(rng, second)
    before = Clock(TIME_STEP).start(first, bias)
    before.advance(400 * TIME_STEP)
    after = Clock(TIME_STEP).start(second, other_bias, before)
    after.advance(400 * TIME_STEP)
    for copy in range(len(bias)):
        left = simulate_clocked(first.with_soma_bias(bias[copy]), 400 * TIME_STEP, time_step=TIME_STEP)
        alone = simulate_clocked(
            second.with_soma_bias(other_bias[copy]),
            400 * TIME_STEP,
            time_step=TIME_STEP,
            state=left.state,
        )
        np.testing.assert_array_equal(after.membrane_potential[copy], alone.state.membrane_potential)
        np.testing.assert_array_equal(after.spike_counts[copy], alone.spike_counts)
    # The first run is left as it was.
    np.testing.assert_array_equal(before.n_steps, 400)


@pytest.mark.parametrize("rules", RULES, ids=NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_charge_is_what_the_steps_brought(form, rules):
    """The kernel never adds it up: it is what the potentials rose by, and what the resets took."""
    rng = np.random.default_rng(26)
    network = network_in(form, rng)
    bias, state = drives(rng, network), random_state(rng, network.n_neurons)
    run = Clock(TIME_STEP, **rules).start(network, bias, state)
    brought = np.zeros(bias.shape)
    # The soma gets the integral of a current h over the step, or a rectangle as high as h is at first.
    share = -np.expm1(-TIME_STEP) if rules["integration"] == "exact" else TIME_STEP
    for step in range(600):
        brought += TIME_STEP * bias + share * run.synaptic_current
        run.advance((step + 1) * TIME_STEP)
    assert run.spike_counts.sum() > 100
    np.testing.assert_allclose(run.charge, brought, rtol=0, atol=1e-11)
    kept = network.firing_threshold * run.spike_counts + run.membrane_potential - state.membrane_potential
    overshoot = run.charge - kept
    if rules["reset"] == "subtract":
        np.testing.assert_allclose(overshoot, 0.0, atol=1e-11)
    else:
        assert (overshoot > -1e-11).all()
        assert overshoot.max() > 1e-3


@pytest.mark.parametrize("form", FORMS)
def test_window_moments_are_sums_over_the_spikes(form):
    """Moments count the end of a step once for each spike; in two calls, and copy by copy."""
    rng = np.random.default_rng(30)
    network = network_in(form, rng)
    bias = 40.0 * drives(rng, network)
    run = Clock(0.25).start(network, bias, window_moments=True)
    recorded = [run.advance(time, record=True) for time in (25.0, 40.0)]
    expected = np.zeros((*bias.shape, 3))
    n_several = 0
    for copy in range(len(bias)):
        alone = Clock(0.25).start(network, bias[[copy]])
        times, neurons, _ = alone.advance(40.0, record=True)
        n_several += len(times) - len(np.unique(np.column_stack([times, neurons]), axis=0))
        for p in (2, 3, 4):
            np.add.at(expected[copy, :, p - 2], neurons, times**p)
    assert n_several > 0
    assert sum(len(spikes.times) for spikes in recorded) == run.spike_counts.sum()
    np.testing.assert_allclose(run.window_moments, expected, rtol=1e-13)
    result = simulate_clocked(network.with_soma_bias(bias[0]), 40.0, time_step=0.25, record_spikes=True)
    np.testing.assert_array_equal(result.window_moments, run.window_moments[0])
    np.testing.assert_allclose(result.smooth_rate, rates.smooth_rate(result.spikes), rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_copies_stop_at_steps_of_their_own_and_start_again(form):
    rng = np.random.default_rng(31)
    network = network_in(form, rng)
    bias = drives(rng, network)
    potential = 0.5 * network.firing_threshold
    run = Clock(0.25).start(network, bias, window_moments=True)
    run.advance(0.25 * np.array([30, 70, 50, 90]), active=np.array([3, 0, 1]))
    np.testing.assert_array_equal(run.n_steps, [30, 70, 0, 90])
    run.advance(15.0, active=np.array([0, 3]))  # a copy that is there already stays
    np.testing.assert_array_equal(run.n_steps, [60, 70, 0, 90])
    alone = Clock(0.25).start(network, bias)
    alone.advance(15.0)
    np.testing.assert_array_equal(run.membrane_potential[0], alone.membrane_potential[0])

    counts = run.spike_counts.copy()
    bias[[0, 1]] *= 0.5
    run.membrane_potential[[0, 1]] = potential
    run.restart(np.array([0, 1]))
    run.advance(10.0)
    state = NetworkState(membrane_potential=potential, synaptic_current=np.zeros(network.n_neurons))
    anew = Clock(0.25).start(network, bias, state, window_moments=True)
    anew.advance(10.0)
    np.testing.assert_array_equal((run.spike_counts - counts)[:2], anew.spike_counts[:2])
    for name in ("membrane_potential", "charge", "filtered_spikes", "window_moments", "n_steps"):
        np.testing.assert_array_equal(getattr(run, name)[:2], getattr(anew, name)[:2])
    assert run.n_steps[3] == 90


def test_stops_after_max_spikes_and_catches_up():
    rng = np.random.default_rng(27)
    network = network_in("blocks", rng)
    bias = drives(rng, network)
    whole = Clock(TIME_STEP).start(network, bias)
    whole.advance(640 * TIME_STEP)
    n_spikes = int(whole.spike_counts.sum())
    run = Clock(TIME_STEP).start(network, bias)
    run.advance(640 * TIME_STEP, max_spikes=n_spikes // 2)
    # A step is never split, and in steps as short no neuron fires twice in one.
    assert n_spikes // 2 < run.spike_counts.sum() <= n_spikes // 2 + network.n_neurons
    assert run.n_steps[0] == 640
    assert run.n_steps[-1] == 0
    run.advance(640 * TIME_STEP, max_spikes=n_spikes)
    np.testing.assert_array_equal(run.n_steps, 640)
    for name in ("spike_counts", "membrane_potential", "charge", "filtered_spikes"):
        np.testing.assert_array_equal(getattr(run, name), getattr(whole, name))


@pytest.mark.parametrize("updates_per_call", [1, 30, 280])
def test_returning_to_python_changes_no_bit(updates_per_call):
    rng = np.random.default_rng(28)
    for form in FORMS:
        network = network_in(form, rng)
        bias = drives(rng, network)
        whole = Clock(TIME_STEP).start(network, bias)
        paused = Clock(TIME_STEP).start(network, bias, updates_per_call=updates_per_call)
        spikes, paused_spikes = (run.advance(500 * TIME_STEP, record=True) for run in (whole, paused))
        for recorded, expected in zip(paused_spikes[:2], spikes[:2], strict=True):
            np.testing.assert_array_equal(recorded, expected)
        for name in ("spike_counts", "membrane_potential", "synaptic_current", "charge", "filtered_spikes"):
            np.testing.assert_array_equal(getattr(paused, name), getattr(whole, name))


def test_threads_do_not_disturb_each_other():
    rng = np.random.default_rng(29)
    network = network_in("blocks", rng)
    batches = [drives(rng, network, 8) for _ in range(6)]

    def run(bias):
        run = Clock(TIME_STEP).start(network, bias)
        run.advance(640 * TIME_STEP)
        return run

    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(run, batches))
    for bias, batch in zip(batches, together, strict=True):
        alone = run(bias)
        np.testing.assert_array_equal(batch.spike_counts, alone.spike_counts)
        np.testing.assert_array_equal(batch.membrane_potential, alone.membrane_potential)
        np.testing.assert_array_equal(batch.filtered_spikes, alone.filtered_spikes)

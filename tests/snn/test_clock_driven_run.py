"""Many copies on one clock: each as if alone, in any form of weights, and what they keep count of."""

import numpy as np
import pytest

from snn import Clock, LateralInhibition, NetworkState, SpikingNetwork, simulate_clocked
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


def test_a_run_that_gives_up_is_not_ended_by_currents_that_grew():
    """Whoever asks for that certifies what is read out of it, as with exact runs."""
    network = SpikingNetwork(LateralInhibition(np.eye(2)), np.zeros(2))
    for gives_up in (False, True):
        run = Clock(0.25).start(network, np.zeros((1, 2)), gives_up=gives_up)
        run.synaptic_current[:] = -1e15
        if gives_up:
            run.require_valid()
        else:
            with pytest.raises(OverflowError, match="have grown beyond"):
                run.require_valid()

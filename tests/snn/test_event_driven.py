"""`simulate`: closed forms for one neuron, continuing a run, and what must not change a bit."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq

from snn import NetworkState, RunawayError, SignPairWeights, SpikingNetwork, StencilWeights, simulate
from tests.reference.networks import (
    classo_network,
    dense_weights,
    golden_network,
    in_form,
    random_dictionary,
    random_mirrored_network,
    random_network,
)

FORMS = ["dense", "sparse", "blocks"]


def one_neuron(bias, threshold=1.0, form="dense"):
    return in_form(SpikingNetwork([[0.0]], [bias], threshold), form)


def state_of_one(current, potential=0.0):
    return NetworkState(membrane_potential=[potential], synaptic_current=[current])


def assert_same_bits(one, other):
    np.testing.assert_array_equal(one.spike_counts, other.spike_counts)
    np.testing.assert_array_equal(one.average_soma_current, other.average_soma_current)
    np.testing.assert_array_equal(one.state.membrane_potential, other.state.membrane_potential)
    np.testing.assert_array_equal(one.state.synaptic_current, other.state.synaptic_current)
    assert one.state.time == other.state.time


# --- one neuron -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("bias", "threshold"), [(1.0, 1.0), (0.3, 1.7), (25.0, 0.1), (1e-3, 0.04)])
def test_constant_drive_fires_every_threshold_over_bias(bias, threshold, form):
    """t_k = k theta / beta."""
    period = threshold / bias
    run = simulate(one_neuron(bias, threshold, form), 40.5 * period, record_spikes=True)
    np.testing.assert_allclose(run.spikes.times, period * np.arange(1, 41), rtol=1e-14)
    assert run.state.membrane_potential[0] == pytest.approx(0.5 * threshold, rel=1e-12)
    assert run.average_soma_current[0] == pytest.approx(bias, rel=1e-13)
    assert run.spike_rate[0] == pytest.approx(40 / (40.5 * period))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("current", [-30.0, -2.0, -0.5, 0.5, 3.3, 40.0])
def test_spikes_with_an_initial_current(current, form):
    """beta t + h (1 - e^-t) = k theta, each k solved by an independent root finder."""
    bias, threshold = 0.7, 1.3
    run = simulate(one_neuron(bias, threshold, form), 30.0, state=state_of_one(current), record_spikes=True)

    def integral(t):
        return bias * t - current * math.expm1(-t)

    n_spikes = max(math.floor(integral(30.0) / threshold), 0)
    # Under inhibition the potential dips first: look for crossings from the bottom on.
    bottom = math.log(-current / bias) if -current > bias else 0.0
    expected = [
        brentq(lambda t, k=k: integral(t) - k * threshold, bottom, 30, xtol=1e-14)
        for k in range(1, n_spikes + 1)
    ]
    np.testing.assert_allclose(run.spikes.times, expected, rtol=1e-12, atol=1e-13)
    assert run.n_spikes == n_spikes


@pytest.mark.parametrize("form", FORMS)
def test_without_drive_a_current_fires_as_often_as_its_area_allows(form):
    """The area under h e^-t is h: floor(h / theta) spikes, at -log(1 - k theta / h)."""
    run = simulate(one_neuron(0.0, 1.0, form), 100.0, state=state_of_one(3.5), record_spikes=True)
    np.testing.assert_allclose(run.spikes.times, [-math.log1p(-k / 3.5) for k in (1, 2, 3)], rtol=1e-14)
    assert run.state.membrane_potential[0] == pytest.approx(0.5, abs=1e-14)
    # The threshold exactly is approached and never reached.
    assert simulate(one_neuron(0.0, 1.0, form), 1000.0, state=state_of_one(1.0 - 1e-12)).n_spikes == 0


@pytest.mark.parametrize("form", FORMS)
def test_negative_drive_peaks_just_below_or_just_above_threshold(form):
    bias, current = -0.2, 2.0
    peak_time = math.log(current / -bias)
    peak = bias * peak_time - current * math.expm1(-peak_time)
    below = simulate(
        one_neuron(bias, peak + 1e-9, form), 50.0, state=state_of_one(current), record_spikes=True
    )
    assert below.n_spikes == 0
    above = simulate(
        one_neuron(bias, peak - 1e-9, form), 50.0, state=state_of_one(current), record_spikes=True
    )
    # Below the maximum, v falls by |beta| (t - t*)^2 / 2 to second order.
    assert above.n_spikes == 1
    assert peak_time - above.spikes.times[0] == pytest.approx(math.sqrt(2e-9 / -bias), rel=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_negative_or_no_drive_never_fires(form):
    for bias in (-3.0, -1e-9, 0.0):
        run = simulate(one_neuron(bias, 1.0, form), 1e4, record_spikes=True)
        assert run.n_spikes == 0
        assert len(run.spikes) == 0
        assert run.state.membrane_potential[0] == pytest.approx(1e4 * bias)
        assert run.average_soma_current[0] == pytest.approx(bias)


@pytest.mark.parametrize("form", FORMS)
def test_a_spike_reaches_its_target_and_decays(form):
    """Neuron 0 fires at 1; from then on neuron 1 has the current w e^-(t - 1)."""
    network = in_form(SpikingNetwork([[0.0, 0.6], [0.0, 0.0]], [1.0, 0.0]), form)
    run = simulate(network, 1.75)
    assert run.state.synaptic_current[1] == pytest.approx(0.6 * math.exp(-0.75), rel=1e-14)
    assert run.state.membrane_potential[1] == pytest.approx(-0.6 * math.expm1(-0.75), rel=1e-14)
    np.testing.assert_allclose(run.state.membrane_potential[0], 0.75, rtol=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_a_spike_at_the_very_end_belongs_to_the_run(form):
    run = simulate(one_neuron(1.0, 1.0, form), 5.0, record_spikes=True)
    np.testing.assert_array_equal(run.spikes.times, [1, 2, 3, 4, 5])
    assert run.state.time == run.spikes.stop == 5.0
    assert simulate(one_neuron(1.0, 1.0, form), 0.5, state=run.state).n_spikes == 0


# --- forms of weights -------------------------------------------------------------------------


def assert_same_spikes(one, other, tolerance=1e-9):
    np.testing.assert_array_equal(one.spikes.neurons, other.spikes.neurons)
    np.testing.assert_allclose(one.spikes.times, other.spikes.times, rtol=0, atol=tolerance)
    np.testing.assert_allclose(one.state.membrane_potential, other.state.membrane_potential, atol=1e-8)
    np.testing.assert_allclose(one.state.synaptic_current, other.state.synaptic_current, atol=1e-8)
    np.testing.assert_allclose(one.average_soma_current, other.average_soma_current, atol=1e-9)


@pytest.mark.parametrize("n_pairs", [32, 61, 128])
def test_mirrored_pairs_equal_their_explicit_network(n_pairs):
    """Also when continued from a state, with changed weights' forms in between."""
    rng = np.random.default_rng(n_pairs)
    mirrored = random_mirrored_network(rng, n_pairs)
    dense, thin = in_form(mirrored, "dense"), in_form(mirrored, "sparse")
    runs = [simulate(network, 10.0, record_spikes=True) for network in (mirrored, dense, thin)]
    assert runs[0].n_spikes > 80
    for run in runs[1:]:
        assert_same_spikes(run, runs[0])
        assert run.n_synaptic_events == runs[0].n_synaptic_events
    onward = [
        simulate(network, 7.0, state=run.state, record_spikes=True)
        for network, run in zip((dense, thin, mirrored), runs, strict=True)
    ]
    for run in onward[1:]:
        assert_same_spikes(run, onward[0])


@pytest.mark.parametrize(("n_neurons", "density"), [(64, 1.0), (150, 0.2), (256, 0.03)])
def test_sparse_equals_dense(n_neurons, density):
    rng = np.random.default_rng(n_neurons)
    network = random_network(rng, n_neurons, density=density)
    thin = in_form(network, "sparse")
    one, other = (simulate(x, 10.0, record_spikes=True) for x in (network, thin))
    assert one.n_spikes > 150
    assert_same_spikes(one, other)
    assert_same_spikes(
        simulate(network, 5.0, state=other.state, record_spikes=True),
        simulate(thin, 5.0, state=one.state, record_spikes=True),
    )


def test_synaptic_events_count_deliveries():
    network = SpikingNetwork([[0, 1e-3, 1e-3], [0, 0, -1e-3], [0, 0, 0]], [1.0, 0.51, 0.26])
    for form in FORMS:
        run = simulate(in_form(network, form), 10.5)
        assert run.n_synaptic_events == 2 * run.spike_counts[0] + run.spike_counts[1]


# --- continuing -------------------------------------------------------------------------------


def networks():
    rng = np.random.default_rng(11)
    mixed = random_network(rng, 20)
    return {
        "dense": mixed,
        "sparse": in_form(mixed, "sparse"),
        "mirrored": random_mirrored_network(rng, 12),
        "classo": classo_network(random_dictionary(rng, 24, 12), rng.standard_normal(12), 0.05),
    }


@pytest.fixture(params=["dense", "sparse", "mirrored", "classo"])
def network(request):
    return networks()[request.param]


def test_two_runs_in_a_row_are_one_run(network):
    whole = simulate(network, 17.3, record_spikes=True)
    first = simulate(network, 6.1, record_spikes=True)
    second = simulate(network, 17.3 - 6.1, state=first.state, record_spikes=True)
    assert whole.n_spikes > 20
    np.testing.assert_array_equal(first.spike_counts + second.spike_counts, whole.spike_counts)
    np.testing.assert_array_equal(
        np.concatenate([first.spikes.neurons, second.spikes.neurons]), whole.spikes.neurons
    )
    times = np.concatenate([first.spikes.times, second.spikes.times])
    np.testing.assert_allclose(times, whole.spikes.times, rtol=0, atol=1e-9)
    charge = 6.1 * first.average_soma_current + (17.3 - 6.1) * second.average_soma_current
    np.testing.assert_allclose(charge, 17.3 * whole.average_soma_current, atol=1e-9)
    np.testing.assert_allclose(second.state.membrane_potential, whole.state.membrane_potential, atol=1e-9)
    assert second.state.time == pytest.approx(17.3, rel=1e-15)


def test_many_short_runs_are_one_run():
    """Runs much shorter than the intervals between spikes, cut at round times."""
    network = golden_network()
    state, counts = None, 0
    for _ in range(400):
        run = simulate(network, 0.1, state=state)
        state, counts = run.state, counts + run.spike_counts
    whole = simulate(network, 40.0)
    np.testing.assert_array_equal(counts, whole.spike_counts)
    np.testing.assert_allclose(state.membrane_potential, whole.state.membrane_potential, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_a_state_on_the_verge_of_a_spike_can_be_continued(form):
    """Thirds and tenths add up to a threshold only nearly; whatever rounding does, the next run starts."""
    for bias in (0.1, 0.3, 0.7, 1 / 3, 0.9):
        network = one_neuron(bias, 1.0, form)
        state, n_spikes = None, 0
        for step in range(1, 301):
            run = simulate(network, 0.1, state=state)
            state = run.state
            n_spikes += run.n_spikes
            assert state.membrane_potential[0] <= 1.0
            assert abs(n_spikes - 0.1 * step * bias) < 1 + 1e-9


def test_new_drive_between_runs_keeps_the_state():
    """The first spike after the switch is where the closed form of the new drive says."""
    network = SpikingNetwork([[0.0]], [0.5])
    first = simulate(network, 1.0)  # v = 0.5
    second = simulate(network.with_soma_bias([2.0]), 1.0, state=first.state, record_spikes=True)
    np.testing.assert_allclose(second.spikes.times, [1.25, 1.75], rtol=1e-15)
    assert network.soma_bias[0] == 0.5
    assert network.with_soma_bias([2.0]).weights is network.weights


def test_new_weights_between_runs_keep_the_state(network):
    first = simulate(network, 5.0)
    silent = SpikingNetwork(np.zeros((network.n_neurons,) * 2), network.soma_bias, network.firing_threshold)
    second = simulate(silent, 3.0, state=first.state, record_spikes=True)
    # Without synapses each neuron is on its own: v + beta t + h (1 - e^-t) - theta n.
    expected = (
        first.state.membrane_potential
        + 3.0 * network.soma_bias
        - first.state.synaptic_current * math.expm1(-3.0)
        - network.firing_threshold * second.spike_counts
    )
    np.testing.assert_allclose(second.state.membrane_potential, expected, atol=1e-12)
    np.testing.assert_allclose(
        second.state.synaptic_current, first.state.synaptic_current * math.exp(-3.0), rtol=1e-12, atol=1e-15
    )


# --- what must not change a bit ---------------------------------------------------------------


def test_recording_progress_and_repetition_change_no_bit(network, capsys):
    plain = simulate(network, 25.0)
    assert plain.spikes is None
    recorded = simulate(network, 25.0, record_spikes=True)
    assert_same_bits(recorded, plain)
    np.testing.assert_array_equal(recorded.spikes.counts(), plain.spike_counts)
    assert_same_bits(simulate(network, 25.0, progress=True), plain)
    assert "spikes" in capsys.readouterr().err
    again = simulate(network, 25.0, record_spikes=True)
    np.testing.assert_array_equal(again.spikes.times, recorded.spikes.times)
    np.testing.assert_array_equal(again.spikes.neurons, recorded.spikes.neurons)


def test_pausing_changes_no_bit(network, monkeypatch):
    """However often the kernel returns to Python, the run is the same."""
    whole = simulate(network, 25.0, record_spikes=True)
    monkeypatch.setattr("snn.event_driven.UPDATES_PER_CALL", 1)  # 16 spikes a call
    paused = simulate(network, 25.0, record_spikes=True)
    assert_same_bits(paused, whole)
    np.testing.assert_array_equal(paused.spikes.times, whole.spikes.times)
    assert_same_bits(simulate(network, 25.0, max_spikes=whole.n_spikes), whole)


def test_inputs_are_left_alone_and_results_are_read_only(network):
    state = NetworkState.at_rest(network.n_neurons)
    run = simulate(network, 2.0, state=state, record_spikes=True)
    assert not state.membrane_potential.any()
    arrays = [
        run.spike_counts,
        run.average_soma_current,
        run.state.membrane_potential,
        run.state.synaptic_current,
        run.spikes.times,
        run.spikes.neurons,
        network.soma_bias,
        network.firing_threshold,
    ]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize("form", FORMS)
def test_exactly_max_spikes_spikes_are_allowed(form):
    network = in_form(SpikingNetwork(np.zeros((2, 2)), [1.0, 0.5]), form)
    assert simulate(network, 10.5, max_spikes=15).n_spikes == 15
    with pytest.raises(RunawayError, match="more than max_spikes = 14 spikes"):
        simulate(network, 10.5, max_spikes=14)
    # Also when the one too many falls on the very end of the run.
    with pytest.raises(RunawayError, match="more than max_spikes = 9 spikes"):
        simulate(one_neuron(1.0, 1.0, form), 10.0, max_spikes=9)
    assert simulate(one_neuron(1.0, 1.0, form), 10.0, max_spikes=10).n_spikes == 10


def test_copies_advanced_together_are_what_they_are_alone():
    """Batch solvers run many drives at once; no copy's bits may depend on its company."""
    from snn.event_driven import EventDrivenRun

    rng = np.random.default_rng(5)
    base = random_network(rng, 30, density=0.2)
    for network in (base, in_form(base, "sparse"), random_mirrored_network(rng, 15)):
        drives = np.vstack([network.soma_bias * x for x in (1.0, 0.5, 2.0)])
        together = EventDrivenRun(network, drives)
        together._spikes_per_call = 23
        together.advance(15.0)
        for k, drive in enumerate(drives):
            alone = simulate(network.with_soma_bias(drive), 15.0)
            np.testing.assert_array_equal(together.spike_counts[k], alone.spike_counts)
            np.testing.assert_array_equal(together.membrane_potential[k], alone.state.membrane_potential)
            np.testing.assert_array_equal(together.synaptic_current[k], alone.state.synaptic_current)


def test_sparse_weights_keep_every_index_type_and_duplicate():
    weights = sparse.coo_array(([-0.1, -0.2, 0.3, 0.0], ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    for matrix in (weights, weights.tocsc(), sparse.csr_matrix(weights.toarray()), weights.tolil()):
        network = SpikingNetwork(matrix, [1.0, 0.7])
        np.testing.assert_allclose(dense_weights(network), [[0, -0.3], [0.3, 0]])
        assert_same_spikes(
            simulate(network, 20.0, record_spikes=True),
            simulate(in_form(network, "dense"), 20.0, record_spikes=True),
        )


@pytest.mark.parametrize("form", [*FORMS, "mirrored", "stencil"])
@pytest.mark.parametrize("duration", [1e-6, 0.01, 1.0])
def test_no_neuron_at_its_threshold_is_lost_to_rounding(form, duration):
    """Its potential is kept together with what the current will bring, which is taken away again."""
    rng = np.random.default_rng(18)
    threshold, current = rng.uniform(1.0, 2.0, 500), -rng.uniform(1.0, 50.0, 500)
    if form == "mirrored":
        weights = SignPairWeights(np.zeros((250, 250)), np.zeros(250))
    elif form == "stencil":
        weights = StencilWeights(np.zeros((5, 1, 1, 5)), (10, 10))
    else:
        weights = in_form(SpikingNetwork(np.zeros((500, 500)), np.ones(500)), form).weights
    state = NetworkState(membrane_potential=threshold, synaptic_current=current)
    run = simulate(
        SpikingNetwork(weights, np.ones(500), threshold), duration, state=state, record_spikes=True
    )
    np.testing.assert_array_equal(run.spikes.neurons, np.arange(500))
    np.testing.assert_array_equal(run.spikes.times, 0.0)

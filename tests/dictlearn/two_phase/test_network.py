"""The two-phase network: Theorems 1 to 3 of Lin and Tang (2018), for every sign, mask and clock."""

# ruff: noqa: E501 - a case a line reads better

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dictlearn import (
    LearningSettings,
    RunawayFeedbackError,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    UsageSteps,
    normalise,
    random_patches,
    remove_mean,
)
from dictlearn.two_phase.observed import read_phases
from examples._common import photograph
from snn import Clock, Exact, simulate
from solvers import LassoProblem, penalty_max, solve_active_set, solve_spiking
from tests.dictlearn.two_phase.learners import SIGNS, TIMES, network_of, observed_by_hand, signals_for, tasks
from tests.tiers import examples

PENALTY = 0.1
signs_drawn = st.sampled_from(list(SIGNS.values()))
each_sign = pytest.mark.parametrize("signs", SIGNS.values(), ids=SIGNS)


def optimum(network, signals, mask=None, penalty=PENALTY, weights=None):
    """Return the code of the known inputs: the problem leaves out unknown columns."""
    known = np.ones(signals.shape, dtype=bool) if mask is None else mask
    penalties = penalty * (np.ones(network.n_atoms) if weights is None else weights)
    codes = []
    for signal, seen in zip(signals, known, strict=True):
        atoms = network.feedback.T[:, seen]
        problem = LassoProblem(atoms, signal[np.newaxis, seen], penalties, positive=network.positive_code)
        codes.append(solve_active_set(problem).codes[0])
    return np.array(codes)


@pytest.mark.property
@examples(25)
@given(task=tasks(), masked=st.booleans(), strength=st.sampled_from([0.0, 0.05]), data=st.data())
def test_phases_are_what_single_spikes_say(task, masked, strength, data):
    """The result of a signal is that of its own run, whatever other signals are in the batch."""
    settings, network, _, batches = task
    signals = 3.0 * batches[0][0][:4]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    mask = rng.uniform(size=signals.shape) < 0.6 if masked else None
    weights = rng.uniform(0.0, 2.0, network.n_atoms)
    penalty = np.asarray(settings.penalty)
    options = {"kappa": settings.kappa, "duration": settings.duration}
    options["initial_potential"] = settings.initial_potential
    phases = network.run(signals, penalty=penalty, reweighting=weights, mask=mask, **options)
    for row, signal in enumerate(signals):
        known = None if mask is None else mask[row]
        expected = observed_by_hand(network, signal, penalty, weights=weights, mask=known, **options)
        for phase, by_hand in zip(phases, expected, strict=True):
            assert phase.duration == settings.duration
            for name, value in by_hand.items():
                np.testing.assert_allclose(getattr(phase, name)[row], value, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("gamma", [0.0, 0.7])
@pytest.mark.parametrize("masked", [False, True])
@each_sign
def test_a_consistent_network_has_the_lasso_code_at_any_feedback(signs, masked, gamma):
    """Theorems 1 and 2 hold with thresholds other than 1, penalty weights, and unknown inputs."""
    network, signals = network_of(signs), signals_for(signs)
    mask = np.random.default_rng(7).uniform(size=signals.shape) < 0.7 if masked else None
    weights = np.random.default_rng(8).uniform(0.5, 1.5, network.n_atoms)
    options = {"penalty": PENALTY, "reweighting": weights, "mask": mask, "gamma": gamma}
    expected = optimum(network, signals, mask, weights=weights)
    errors = [np.abs(network.code(signals, duration=t, **options) - expected).max() for t in (500.0, 5000.0)]
    # The error is C / t; feedback amplifies C by 1 / (1 - gamma).
    assert errors[1] < 20.0 / (1.0 - gamma) / 5000.0
    assert errors[1] < errors[0] / 3.0
    assert np.count_nonzero(expected) > 4


def assert_same_phases(phases, others, rows=slice(None), sign=1.0, *, is_same=True):
    for phase, other in zip(phases, others, strict=True):
        for name, value in vars(phase).items():
            if name != "duration":
                factor = 1 if name == "n_spikes" else sign
                np.testing.assert_allclose(
                    getattr(other, name), factor * value[rows], rtol=0, atol=0 if is_same and sign > 0 else 1e-12, err_msg=name
                )  # fmt: skip


@pytest.mark.property
@examples(10)
@given(signs=signs_drawn, time=st.sampled_from(list(TIMES.values())), masked=st.booleans())
def test_nothing_else_changes_a_row(signs, time, masked):
    """Other signals, threads and unknown values change nothing; a mask of only True changes the rounding.

    A network with masks also has predicting neurons, and the windows are planned for all neurons.
    """
    network, signals = network_of(signs, strength=0.03), signals_for(signs, 70)
    mask = np.random.default_rng(7).uniform(size=signals.shape) < 0.7
    mask[0] = True
    options = {"penalty": PENALTY, "duration": 4.0, "time": time}
    plain = network.run(signals, **options)
    assert_same_phases(
        plain, network.run(signals, mask=np.ones(7, dtype=bool), n_jobs=3, **options), is_same=False
    )
    if masked:
        together = network.run(signals, mask=mask, **options)
        filled = np.where(mask, signals, np.nan)
        assert_same_phases(together, network.run(filled, mask=mask, n_jobs=3, **options))
        assert_same_phases(
            together, network.run(signals[5:7], mask=mask[5:7], **options), slice(5, 7)
        )  # fmt: skip
        assert_same_phases(
            plain, network.run(signals[:1], mask=mask[:1], **options), slice(0, 1), is_same=False
        )
    else:
        assert_same_phases(plain, network.run(signals[5:7], n_jobs=2, **options), slice(5, 7))


@each_sign
@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_weights_of_all_populations(signs, gamma):
    """The weights are F, -(H - diag H) and gamma B, with the signs of the neurons in pairs."""
    network, (signal, *_) = network_of(signs, strength=0.03), signals_for(signs)
    spiking = network.spiking_network(signal, penalty=PENALTY, gamma=gamma)
    sign_in = np.array([1.0, -1.0] if signs else [1.0])
    sign_out = np.array([1.0] if signs.get("positive_code", True) else [1.0, -1.0])
    lateral = np.kron(np.outer(sign_out, sign_out), -network.lateral.T)
    np.fill_diagonal(lateral, 0.0)
    n = 7 * len(sign_in)
    expected = np.zeros((n + len(lateral),) * 2)
    expected[:n, n:] = np.kron(np.outer(sign_in, sign_out), network.feedforward.T)
    expected[n:, n:] = lateral
    expected[n:, :n] = gamma * np.kron(np.outer(sign_out, sign_in), network.feedback.T)
    np.testing.assert_allclose(spiking.weights.toarray(), expected, rtol=1e-15)
    bias = np.concatenate([np.kron(sign_in, signal), np.full(len(lateral), -PENALTY)])
    np.testing.assert_allclose(spiking.soma_bias, (1.0 - gamma) * bias, rtol=1e-15)
    thresholds = np.concatenate([np.ones(n), np.tile(np.diagonal(network.lateral), len(sign_out))])
    np.testing.assert_array_equal(spiking.firing_threshold, thresholds)


@each_sign
@pytest.mark.parametrize("gamma", [0.0, 0.4])
def test_spikes_after_a_round_trip_through_nir(signs, gamma, tmp_path):
    nir = pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
    from snn.exchange import from_nir

    network, (signal, *_) = network_of(signs, strength=0.03), signals_for(signs)
    options = {"penalty": PENALTY, "gamma": gamma, "reweighting": np.linspace(0.5, 2.0, network.n_atoms)}
    graph = network.to_nir(time_constant=2.0, **options)
    nir.write(tmp_path / "network.nir", graph)
    imported = from_nir(nir.read(tmp_path / "network.nir"), signal=signal)
    order = np.concatenate([imported.populations[name] for name in ("input_neurons", "coding_neurons")])
    came = imported.network
    ours = network.spiking_network(signal, **options)
    np.testing.assert_array_equal(came.weights.toarray()[np.ix_(order, order)], ours.weights.toarray())
    np.testing.assert_array_equal(came.firing_threshold[order], ours.firing_threshold)
    np.testing.assert_allclose(came.soma_bias[order], ours.soma_bias, rtol=1e-14, atol=1e-16)
    one, other = (simulate(each, 30.0, record_spikes=True).spikes for each in (ours, came))
    assert np.count_nonzero(one.neurons >= network.layers.coding[0].first) > 5
    np.testing.assert_array_equal(order[one.neurons], other.neurons)
    np.testing.assert_allclose(one.times, other.times, rtol=0, atol=1e-10)
    assert ("coding_neurons_to_input_neurons" in graph.nodes) is (gamma > 0.0)
    drive = graph.nodes["input_to_input_neurons"].weight
    np.testing.assert_allclose(drive[:7], (1.0 - gamma) / 2.0 * np.eye(7), rtol=1e-15)
    steps = network.to_nir(time_step=0.25, **options).nodes
    np.testing.assert_allclose(steps["input_to_input_neurons"].weight, drive / 2.0, rtol=1e-15)
    np.testing.assert_array_equal(steps["coding_neurons_synapses"].tau, 4.0)


def test_the_neuron_that_fires_most_is_named():
    """Cases are one atom with many inputs, one input with many atoms, and an unknown input."""
    for weights, signal, mask, named in (
        ((np.full((5, 1), 0.2), np.ones((1, 5)), 0.2 * np.eye(5)), [1.0], None, "input neuron 0"),
        ((np.ones((1, 5)), np.ones((5, 1)), [[0.2]]), np.ones(5), None, "coding neuron 0"),
        (([[1.0, 1.0]], [[0.1], [3.0]], [[1.0]]), [1.0, np.nan], [[True, False]], "input neuron 1"),
    ):
        with pytest.raises(RunawayFeedbackError, match=named):
            TwoPhaseNetwork(*weights).run([signal], penalty=0.01, duration=50.0, mask=mask)


def test_small_atoms_are_no_runaway():
    network, signals = network_of({}), signals_for({}, 1)
    small = TwoPhaseNetwork.consistent(0.005 * network.feedforward)
    codes = small.code(signals, penalty=0.005 * PENALTY, duration=100.0)
    expected = network.code(signals, penalty=PENALTY, duration=100.0)
    assert np.abs(0.005 * codes - expected).max() < 0.1 * expected.max()


def test_signals_too_large_for_their_spikes_are_named():
    network, signals = network_of({}), signals_for({}, 9)
    signals[3] = 1e8
    with pytest.raises(ValueError, match="signal 3 of this batch"):
        network.run(signals, penalty=PENALTY)
    # A phase may have 10,000,000 spikes of the inputs and of the atom that the inputs excite most.
    one = TwoPhaseNetwork.consistent([[1.0]])
    for n_spikes, outcome in (
        (0.99e7, nullcontext()),
        (1.01e7, pytest.raises(ValueError, match="small enough")),
    ):
        with outcome:
            one.run([[n_spikes / 2.0 / 1e-3]], penalty=1e12, duration=1e-3)


def test_consistency_and_symmetry():
    network = network_of(SIGNS["signed atoms"], strength=0.3)
    f, b, h = network.feedforward, network.feedback, network.lateral
    assert network.consistency == pytest.approx(1.0 - np.linalg.norm(h - f @ b) / np.linalg.norm(h))
    assert network.symmetry == pytest.approx(1.0 - np.linalg.norm(f - b.T) / np.linalg.norm(b))
    exact = network_of({})
    assert (exact.consistency, exact.symmetry) == (pytest.approx(1.0), 1.0)
    vanished = TwoPhaseNetwork(np.zeros((2, 3)), np.zeros((3, 2)), np.eye(2))
    assert (vanished.symmetry, vanished.consistency) == (1.0, 0.0)
    assert TwoPhaseNetwork(np.ones((2, 3)), np.zeros((3, 2)), np.eye(2)).symmetry == -np.inf


def literal_graded(network, signal, *, kappa, duration, step=1 / 1024):
    """Return average filtered spikes of the second phase with graded inputs, by short Euler steps."""
    pairs = 1 if network.positive_code else 2
    signs = np.array([1.0, -1.0])[:pairs, np.newaxis]
    lateral, thresholds = network.lateral, np.diagonal(network.lateral)
    potential, filtered = np.zeros((2, pairs, network.n_atoms))
    for _ in range(2):
        total = np.zeros(network.n_atoms)
        for _ in range(round(duration / step)):
            sent = (signs * filtered).sum(axis=0)
            inputs = (1.0 - kappa) * signal + kappa * network.feedback @ sent
            current = network.feedforward @ inputs - lateral @ sent
            potential += step * (signs * current + thresholds * filtered - (1.0 - kappa) * PENALTY)
            total += step * sent
            filtered *= np.exp(-step)
            fired = potential >= thresholds
            potential -= np.where(fired, thresholds, 0.0)
            filtered += fired
    return total / duration


def observed_with_graded_inputs(network, signals, kappa, duration, time=None, mask=None):
    settings = LearningSettings(
        penalty=PENALTY, kappa=kappa, duration=duration, time=time or Exact(), rule=UsageSteps(probes=0.0),
        **network.signs._asdict(),
    )  # fmt: skip
    learner = TwoPhaseLearner(network, settings, scale=1.0)
    return learner.batch(len(signals)).run(learner.synapses, signals, mask)


@each_sign
@pytest.mark.parametrize("time", [Clock(1 / 16), Exact()])
def test_a_probe_fires_alone_in_one_phase(signs, time):
    """A signal runs in the same batch; gradients are exact also for the probe's effect on other neurons."""
    network = network_of(signs, strength=0.02)
    f, b, h = network.feedforward, network.feedback, network.lateral
    settings = LearningSettings(
        penalty=PENALTY, time=time, rule=UsageSteps(probes=3.0), **network.signs._asdict()
    )
    learner = TwoPhaseLearner(network, settings, scale=1.0)
    batch, signal = learner.batch(1), 3.0 * signals_for(signs)[:1]
    observed = batch.run(learner.synapses, signal)
    probed, codes, rounding = batch.probed, observed.codes[1:], {"rtol": 0, "atol": 1e-12}
    sizes = codes[np.arange(3), probed]
    assert (np.abs(settings.duration * sizes - 3.0) < 1.0).all()
    if network.positive_code:  # otherwise, to inhibit a neuron excites the other neuron of its pair
        np.testing.assert_array_equal(observed.n_spikes[1:], 3)
        np.testing.assert_array_equal(observed.fired[1:], np.eye(network.n_atoms, dtype=bool)[probed])
        assert np.count_nonzero(codes) == 3
    kappa = settings.kappa
    np.testing.assert_allclose(observed.reconstruction_gradient[1:], kappa * codes @ b.T, **rounding)
    np.testing.assert_allclose(observed.lateral_gradient[1:], kappa * codes @ (h - f @ b).T, **rounding)


@each_sign
def test_graded_inputs_pass_on_their_currents(signs):
    """Codes agree with a literal twin and the LASSO; gradients are exact for any weights."""
    signals = 3.0 * signals_for(signs)
    # With few atoms and weak feedback, coherent atoms fire in the same order as those of the twin.
    few = network_of(signs, 3, strength=0.02)
    for signal in signals:
        twin = literal_graded(few, signal, kappa=0.1, duration=20.0)
        observed = observed_with_graded_inputs(few, signal[np.newaxis], 0.1, 20.0)
        assert np.abs(observed.codes[0] - twin).max() < 2.0 / 20.0  # the codes differ by less than two spikes
    network = network_of(signs, strength=0.02)
    f, b, h = network.feedforward, network.feedback, network.lateral
    observed, rounding = observed_with_graded_inputs(network, signals, 0.4, 20.0), {"rtol": 0, "atol": 1e-9}
    errors = observed.codes @ b.T - signals
    np.testing.assert_allclose(observed.reconstruction_gradient, 0.4 * errors, **rounding)
    np.testing.assert_allclose(observed.lateral_gradient, 0.4 * observed.codes @ (h - f @ b).T, **rounding)
    exact = network_of(signs)
    errors = [
        np.abs(observed_with_graded_inputs(exact, signals, 0.1, t).codes - optimum(exact, signals)).max()
        for t in (300.0, 6000.0)
    ]
    assert errors[1] < min(errors[0] / 3.0, 30.0 / 6000.0)
    with pytest.raises(RunawayFeedbackError, match="after a spike of coding neuron 0"):
        observed_with_graded_inputs(TwoPhaseNetwork([[1.0]], [[1.0]], [[0.3]]), np.ones((1, 1)), 0.4, 20.0)


@each_sign
@pytest.mark.parametrize("share", [0.15, 0.8])
def test_graded_inputs_that_are_unknown_pass_on_what_the_network_predicts(signs, share):
    """The result is that of a consistent network with only the known inputs."""
    signals, clock = 3.0 * signals_for(signs, 6, 40), Clock(1 / 8)
    mask = np.random.default_rng(7).uniform(size=signals.shape) < share
    mask[0] = True
    network = network_of(signs, 5, 40, strength=0.001)
    f, b, h = network.feedforward, network.feedback, network.lateral
    observed, rounding = observed_with_graded_inputs(network, signals, 0.2, 20.0, clock, mask), {"atol": 1e-9}
    errors = observed.codes @ b.T - signals
    np.testing.assert_allclose(observed.reconstruction_gradient, 0.2 * errors * mask, **rounding)
    np.testing.assert_allclose(observed.lateral_gradient, 0.2 * observed.codes @ (h - f @ b).T, **rounding)
    for k, known in enumerate(mask):
        lateral = h if known.all() else f[:, known] @ b[known]
        alone = TwoPhaseNetwork(f[:, known], b[known], lateral, *network.signs)
        expected = observed_with_graded_inputs(alone, signals[[k]][:, known], 0.2, 20.0, clock)
        np.testing.assert_allclose(observed.codes[k], expected.codes[0], **rounding)
        assert observed.n_spikes[k] == expected.n_spikes[0]
    assert np.count_nonzero(observed.n_spikes) > 2
    exact = network_of(signs, 5, 40)
    codes = observed_with_graded_inputs(exact, signals, 0.1, 4000.0, clock, mask).codes
    np.testing.assert_allclose(codes, optimum(exact, signals, mask), atol=0.01)


@pytest.mark.parametrize(
    ("signs", "masked"), [(SIGNS["positive"], True), (SIGNS["signed atoms and codes"], False)]
)
def test_updates_from_counts_become_gradients(signs, masked):
    """Theorem 3: errors fall as 1 / T, for F and B of consistent networks and for H of other networks."""
    signals = signals_for(signs, 6)
    mask = np.random.default_rng(7).uniform(size=signals.shape) < 0.75 if masked else None
    settings = LearningSettings(penalty=PENALTY, readout="rate", **signs)
    options = {"penalty": PENALTY, "kappa": settings.kappa, "mask": mask, "initial_potential": 0.5}
    for strength in (0.0, 0.02):
        network, errors = network_of(signs, strength=strength), []
        for duration in (125.0, 2000.0, 8000.0):
            phases = network.run(signals, duration=duration, **options)
            _, _, codes, g_d, g_h = read_phases(*phases, mask, network.synapses(), settings)
            errors.append(np.einsum("ki,kj->kij", g_d if strength == 0.0 else g_h, codes))
        if strength == 0.0:
            codes = optimum(network, signals, mask)
            residual = codes @ network.feedback.T - signals
            residual = residual if mask is None else mask * residual
            errors[-1] = settings.kappa * np.einsum("ki,kj->kij", residual, codes)
        *updates, gradient = errors
        distances = [
            np.linalg.norm(each - gradient, axis=(1, 2)) / np.linalg.norm(gradient, axis=(1, 2))
            for each in updates
        ]
        assert distances[1].mean() < distances[0].mean() / 4.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_hopeless_signal_leaves_the_codes_of_the_others():
    """Atoms and signals are patches of a photograph; on a clock of 1/4 one signal runs away at any step."""
    patches = remove_mean(random_patches([photograph(120, 160)], 8, 12, rng=1))[0]
    atoms = normalise(remove_mean(random_patches([photograph(160, 220)], 8, 128, rng=5))[0])[0]
    problem = LassoProblem(atoms, patches, 0.03 * penalty_max(atoms, patches).max())
    result = solve_spiking(problem, time=Clock(1 / 4), max_duration=500.0)
    assert np.delete(result.reached, 4).all()

"""Signals, atoms and codes of either sign: pairs of neurons, and everything that works without them."""

# ruff: noqa: E501 - a case a line reads better

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Thread, current_thread, main_thread

import numpy as np
import pytest

from dictlearn import (
    LearningSettings,
    PaperSteps,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    UsageSteps,
    check_gradients,
    continue_learning,
    learn_dictionary,
    match_atoms,
    mean_objective,
    new_learner,
    random_dictionary,
    random_network,
    rounded_network,
    rules,
    split_channels,
    two_phase_to_nir,
)
from dictlearn.atoms import unit_norm
from dictlearn.two_phase.phases import RunawayFeedbackError, join_phases
from snn import simulate
from snn.digital import FixedPoint
from solvers import LassoProblem, solve_active_set
from tests.dictlearn.two_phase.test_learner import StopHereError, assert_same, stop_at

PENALTY = 0.1
N_ATOMS, N_INPUTS = 24, 16
# Atoms of either sign with positive codes, with codes of either sign; positive atoms with such codes, and with
# positive codes.
SIGNS = [
    {"positive_atoms": False},
    {"positive_atoms": False, "positive_code": False},
    {"positive_code": False},
    {"positive_signals": False},
]
NAMES = ["signed atoms", "signed atoms and codes", "signed codes", "signed signals"]
CLOCKS = [{}, {"time_step": 1 / 32}, {"time_step": 1 / 4}, {"time_step": 1 / 32, "integration": "euler"}]
each_sign = pytest.mark.parametrize("signs", SIGNS, ids=NAMES)


def atoms_of(signs, n_atoms=N_ATOMS, rng=1):
    """Unit norms times 0.7 to 1.3: thresholds other than 1."""
    positive = signs.get("positive_atoms", True)
    atoms = random_dictionary(n_atoms, N_INPUTS, positive=positive, rng=rng)
    return atoms * np.random.default_rng(rng).uniform(0.7, 1.3, (n_atoms, 1))


def network_of(signs, strength=0.0):
    network = TwoPhaseNetwork.consistent(atoms_of(signs), **signs)
    rng = np.random.default_rng(3)
    weights = (network.feedforward, network.feedback, network.lateral)
    return TwoPhaseNetwork(*(w * rng.uniform(1 - strength, 1 + strength, w.shape) for w in weights), **signs)


@pytest.fixture(scope="module")
def signals():
    signals = np.random.default_rng(2).standard_normal((4, N_INPUTS))
    return signals / np.linalg.norm(signals, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def mask():
    return np.random.default_rng(7).uniform(size=(4, N_INPUTS)) < 0.7


def planted(n_signals=400, n_atoms=N_ATOMS, seed=0):
    """Signed atoms, and signals of three of them with positive codes."""
    rng = np.random.default_rng(seed)
    atoms = random_dictionary(n_atoms, N_INPUTS, positive=False, rng=rng)
    codes = np.zeros((n_signals, n_atoms))
    for code in codes:
        code[rng.choice(n_atoms, 3, replace=False)] = rng.uniform(0.3, 1.0, 3)
    return atoms, codes @ atoms


def settings_of(signs, **changes):
    return LearningSettings(**{"penalty": 0.05, "batch_size": 16, **signs, **changes})


def learn(data, signs, n_samples=300, changes=None, **options):
    settings = settings_of(signs, **(changes or {}))
    start = {} if "start" in options else {"n_atoms": N_ATOMS}
    return learn_dictionary(data, settings=settings, n_samples=n_samples, rng=3, **start, **options)


# -- the network ---------------------------------------------------------------------------------


@each_sign
@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.7])
def test_a_consistent_network_has_the_lasso_code_at_any_feedback(signals, signs, gamma):
    network = network_of(signs)
    problem = LassoProblem(atoms_of(signs), signals, PENALTY, positive=signs.get("positive_code", True))
    optimum = solve_active_set(problem).codes
    assert np.count_nonzero(optimum) > 8
    errors = [
        np.abs(network.code(signals, penalty=PENALTY, duration=duration, gamma=gamma) - optimum).max()
        for duration in (500.0, 5000.0)
    ]
    assert errors[1] < 20.0 / (1.0 - gamma) / 5000.0
    assert errors[1] < errors[0] / 3.0


@each_sign
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("clock", CLOCKS, ids=["events", "1/32", "1/4", "1/32, Euler"])
@pytest.mark.parametrize("strength", [0.0, 0.03])
def test_gradients_from_currents_are_exact(signals, mask, signs, strength, clock, masked):
    """(18), (19) and (24), whatever F, B, H, codes and signs are, after four time constants."""
    network, kappa, signals = network_of(signs, strength), 0.6, 3.0 * signals
    known = mask if masked else np.ones_like(mask)
    phases = network.run(
        signals, penalty=PENALTY, kappa=kappa, duration=4.0, mask=mask if masked else None, **clock
    )
    codes = phases[1].coding_trace
    seen = {"mask": mask if masked else None}
    g_d = rules.reconstruction_gradient(*phases, **seen)
    g_h = rules.lateral_gradient(network.feedforward, network.lateral, *phases, kappa=kappa, **seen)
    mismatch = network.lateral - network.feedforward @ network.feedback
    np.testing.assert_allclose(g_d, known * kappa * (codes @ network.feedback.T - signals), atol=1e-13)
    np.testing.assert_allclose(g_h, kappa * codes @ mismatch.T, atol=1e-13)
    assert np.abs(codes).max() > 0.1
    assert (codes.min() < -0.1) is not signs.get("positive_code", True)


@each_sign
def test_counted_gradients_are_true_to_one_over_the_duration(signals, signs):
    """Theorem 3: rates of pairs are differences.  The current of an input must not change its sign."""
    network, kappa = network_of(signs, 0.03), 0.1
    signals = signals + 0.15 * np.sign(signals)
    durations, errors = 125.0 * 2.0 ** np.arange(5), []
    for duration in durations:
        phases = network.run(signals, penalty=PENALTY, kappa=kappa, duration=duration)
        codes = phases[1].coding_rate
        mismatch = network.lateral - network.feedforward @ network.feedback
        true = kappa * (codes @ network.feedback.T - signals), kappa * codes @ mismatch.T
        seen = (
            rules.reconstruction_gradient(*phases, readout="rate"),
            rules.lateral_gradient(
                network.feedforward, network.lateral, *phases, kappa=kappa, readout="rate"
            ),
        )
        errors.append([np.abs(ours - theirs).max() for ours, theirs in zip(seen, true, strict=True)])
    for values in np.transpose(errors):
        assert -1.35 < np.polyfit(np.log(durations), np.log(values), 1)[0] < -0.65


@pytest.mark.parametrize("clock", CLOCKS[:2], ids=["events", "clock"])
def test_without_negative_numbers_the_second_neurons_of_input_pairs_are_silent(clock):
    """The paper's network is the case without pairs: the same bits."""
    atoms = atoms_of({})
    signals = np.random.default_rng(4).uniform(0.0, 1.0, (5, N_INPUTS))
    options = {"penalty": PENALTY, "duration": 10.0, **clock}
    plain = TwoPhaseNetwork.consistent(atoms).run(signals, **options)
    pairs = TwoPhaseNetwork.consistent(atoms, positive_atoms=False).run(signals, **options)
    for one, other in zip(plain, pairs, strict=True):
        for name, value in vars(one).items():
            np.testing.assert_array_equal(getattr(other, name), value, err_msg=name)


def test_the_neurons_of_a_pair_are_mirror_images(signals):
    """-x has the currents and codes of x with the other sign, and the same spikes."""
    network = network_of(SIGNS[1], 0.03)
    options = {"penalty": PENALTY, "duration": 10.0}
    for one, other in zip(network.run(signals, **options), network.run(-signals, **options), strict=True):
        np.testing.assert_array_equal(other.n_spikes, one.n_spikes)
        for name in ("input_rate", "coding_rate", "coding_trace"):
            np.testing.assert_array_equal(getattr(other, name), -getattr(one, name), err_msg=name)
        for name in ("input_current", "coding_current"):
            np.testing.assert_allclose(getattr(other, name), -getattr(one, name), atol=1e-12, err_msg=name)


@each_sign
@pytest.mark.parametrize("masked", [False, True])
def test_one_signal_drawn_is_one_signal_run(signals, mask, signs, masked):
    """`spikes` is another program for the same: the whole network, neuron by neuron."""
    network = network_of(signs, 0.03)
    options = {"penalty": PENALTY, "duration": 30.0, "initial_potential": 0.5}
    if masked:
        options["mask"] = mask[0]
    spikes, layers = network.spikes(signals[0], **options), network.layers
    phases = network.run(signals[:1], **options)
    for k, phase in enumerate(phases):
        times = (spikes.times > 30.0 * k) & (spikes.times <= 30.0 * (k + 1))
        counts = np.bincount(spikes.neurons[times], minlength=layers.n_neurons)
        assert counts.sum() == phase.n_spikes[0]
        first, *second = (counts[population.neurons] for population in layers.coding)
        np.testing.assert_allclose(first - (second[0] if second else 0), 30.0 * phase.coding_rate[0])
        on, off = (counts[population.neurons] for population in layers.inputs)
        np.testing.assert_allclose(on - off, 30.0 * phase.input_rate[0], atol=1e-9)


@each_sign
def test_weights_of_a_pair_are_stored_once(signals, signs):
    network = network_of(signs, 0.03)
    synapses = network.synapses()
    for gamma, predicted in ((0.0, False), (0.7, False), (0.7, True)):
        weights = synapses.weights(gamma, predicted=predicted)
        assert weights.values is synapses.weights(0.3).values
        assert weights.values.size == 2 * N_ATOMS * N_INPUTS + N_ATOMS**2
    expected = network.spiking_network(signals[0], penalty=PENALTY, gamma=0.7).weights.toarray()
    np.testing.assert_array_equal(synapses.weights(0.7).toarray(), expected)
    # All in one matrix: sources times targets of the signed network.
    codes = 1 if signs.get("positive_code", True) else 2
    sign_in, sign_out = np.array([1.0, -1.0]), np.array([1.0, -1.0])[:codes]
    forward = np.kron(np.outer(sign_in, sign_out), network.feedforward.T)
    lateral = np.kron(np.outer(sign_out, sign_out), -network.lateral.T)
    np.fill_diagonal(lateral, 0.0)
    backward = 0.7 * np.kron(np.outer(sign_out, sign_in), network.feedback.T)
    n = 2 * N_INPUTS
    np.testing.assert_allclose(expected[:n, n:], forward)
    np.testing.assert_allclose(expected[n:, n:], lateral)
    np.testing.assert_allclose(expected[n:, :n], backward)
    assert not expected[:n, :n].any()


@each_sign
def test_a_runaway_names_an_input_or_an_atom(signals, signs):
    network = network_of(signs)
    network = TwoPhaseNetwork(network.feedforward, network.feedback, 0.1 * network.lateral, **signs)
    with pytest.raises(RunawayFeedbackError, match=r"most of them of (coding|input) neuron [0-9]+") as error:
        network.run(5.0 * signals, penalty=PENALTY, duration=50.0)
    assert int(str(error.value).split(" neuron ")[1].split(":")[0]) < N_ATOMS


@each_sign
def test_the_gradient_check(signals, signs):
    check = check_gradients(network_of(signs), 5.0 * signals, penalty=0.5, durations=[20.0, 2000.0])
    assert check.mean("error", "current", "feedback")[1] < 0.05
    assert np.nanmax(check.same_code_error[1, :2]) < 1e-12
    mismatched = check_gradients(network_of(signs, 0.02), signals, penalty=PENALTY, durations=[200.0])
    assert np.nanmax(mismatched.same_code_error[1]) < 1e-9
    assert mismatched.mean("cosine", "current", "lateral")[0] > 0.9


@each_sign
@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_spikes_after_a_round_trip_through_nir(signals, signs, gamma, tmp_path):
    nir = pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
    from dictlearn.two_phase.exchange import POPULATIONS
    from snn.exchange import from_nir

    network = network_of(signs, 0.03)
    nir.write(tmp_path / "network.nir", two_phase_to_nir(network, penalty=PENALTY, gamma=gamma))
    came = from_nir(nir.read(tmp_path / "network.nir"), signal=signals[0], order=POPULATIONS).network
    ours = network.spiking_network(signals[0], penalty=PENALTY, gamma=gamma)
    np.testing.assert_array_equal(came.weights.toarray(), ours.weights.toarray())
    np.testing.assert_allclose(came.soma_bias, ours.soma_bias, rtol=1e-15, atol=0)
    one, other = (simulate(each, 20.0, record_spikes=True).spikes for each in (ours, came))
    np.testing.assert_array_equal(one.neurons, other.neurons)


# -- learning ------------------------------------------------------------------------------------


@each_sign
def test_signed_data_are_learned(signs):
    """Better than in two channels; consistent, symmetric, of unit norms."""
    _, data = planted()
    learner = learn(data, signs, 4000)
    network, positive_code = learner.network, signs.get("positive_code", True)
    assert network.consistency > 0.97
    assert network.symmetry > 1.0 - 1e-12
    np.testing.assert_allclose(np.linalg.norm(network.feedback, axis=0), 1.0, atol=0.06)
    assert (network.feedback.min() < -0.1) is not signs.get("positive_atoms", True)
    options = {"penalty": 0.05, "positive_code": positive_code}
    start = new_learner(data, N_ATOMS, settings=settings_of(signs), rng=3).dictionary
    objective = mean_objective(learner.dictionary, data, **options).objective
    assert objective < 0.8 * mean_objective(start, data, **options).objective


def test_planted_atoms_are_recovered():
    """What two channels cannot hold: there atoms that add and cancel have no place."""
    atoms, data = planted(2000)
    settings = settings_of(SIGNS[0], penalty=PENALTY, batch_size=32)
    options = {"n_samples": 20_000, "settings": settings}
    learned = [learn_dictionary(data, N_ATOMS, rng=rng, **options).dictionary for rng in range(2)]
    assert min(match_atoms(dictionary, atoms).best_cosine.mean() for dictionary in learned) > 0.95
    truth = mean_objective(atoms, data, penalty=PENALTY).objective
    assert min(mean_objective(d, data, penalty=PENALTY).objective for d in learned) < 1.08 * truth
    options["settings"] = replace(settings, positive_atoms=True)
    channels = learn_dictionary(split_channels(data), N_ATOMS, rng=0, **options)
    split = mean_objective(channels.dictionary, split_channels(data), penalty=PENALTY).objective
    assert split > 1.2 * truth


@each_sign
@pytest.mark.parametrize("steps", [{}, {"steps": PaperSteps(step=0.05)}, {"readout": "rate"}])
def test_the_network_is_run_and_taught_by_the_rules(signs, steps, monkeypatch):
    """One batch by hand: no bound at zero unless atoms are positive."""
    _, data = planted()
    learner = new_learner(data, N_ATOMS, settings=settings_of(signs, **steps), rng=3)
    before, plan = learner.network, learner.plan(16)
    phases = plan.run(learner.synapses, data[:16])
    learner.apply(plan, phases)
    readout, kappa = learner.settings.readout, learner.settings.kappa
    positive_code, positive_atoms = (signs.get(name, True) for name in ("positive_code", "positive_atoms"))
    codes = rules.code(phases[1], readout=readout, positive=positive_code)[:16]
    g_d = rules.reconstruction_gradient(*phases, readout=readout)[:16]
    change = np.linalg.lstsq(before.feedback, learner.network.feedback, rcond=None)
    assert change is not None
    direction = codes.T @ g_d / kappa
    moved = (before.feedback - learner.network.feedback).T
    # Every atom moved along its own gradient and itself.
    for atom in np.flatnonzero(codes.any(axis=0)):
        basis = np.column_stack([direction[atom], before.feedback[:, atom]])
        free = learner.network.feedback[:, atom] > 0.0 if positive_atoms else slice(None)
        fit = np.linalg.lstsq(basis[free], moved[atom][free], rcond=None)[0]
        np.testing.assert_allclose(basis[free] @ fit, moved[atom][free], atol=1e-12)
        assert fit[0] > 0.0
    assert (learner.network.feedback.min() < 0.0) is not positive_atoms


@pytest.mark.parametrize("strength", [0.0, 0.05])
@pytest.mark.parametrize("signs", [SIGNS[0], SIGNS[1]], ids=NAMES[:2])
def test_a_batch_changes_weights_as_equations_26_to_28_say(signs, strength):
    """Written out in matrices, probes left out."""
    _, data = planted()
    settings = settings_of(signs, steps=UsageSteps(probes=0.0), kappa=0.5)
    before = network_of(signs, strength)
    learner = TwoPhaseLearner(before, settings, scale=5.0)
    plan = learner.plan(16)
    phases = plan.run(learner.synapses, data[:16])
    learner.apply(plan, phases)
    f, b, h = before.feedforward, before.feedback, before.lateral
    kappa, energy, codes = 0.5, 25.0, phases[1].coding_trace
    if signs.get("positive_code", True):
        codes = np.maximum(codes, 0.0)
    g_d = kappa * (codes @ b.T - 5.0 * data[:16])
    g_h = kappa * codes @ (h - f @ b).T
    m = np.minimum(np.abs(g_h).sum(axis=0) / (kappa * np.abs(codes @ h.T).sum(axis=0)), 1.0)
    assert bool(m.max() < 1e-10) is (strength == 0.0)
    squares, sizes = (codes**2).sum(axis=0) / energy, np.abs(codes)
    together = sizes.sum(axis=1) @ sizes / energy
    movement = ((g_d**2).sum(axis=1) / kappa**2 / energy) @ codes**2 / energy
    step = 1.0 / (np.sqrt(0.01 + movement) / 1.5 + (1.0 - m) * squares + 2.5 * m * together) / energy
    rho = -(g_d @ f.T) / kappa
    keep = np.clip(1.0 - step * (codes * rho).sum(axis=0), 0.0, 1.0)
    new_f = keep[:, np.newaxis] * f - (codes * step).T @ g_d / kappa
    new_b = keep * b - g_d.T @ (codes * step) / kappa
    new_h = keep * h + rho.T @ (codes * step)
    new_h = keep[:, np.newaxis] * new_h + (codes * step).T @ (-(g_d @ new_f.T) / kappa)
    if strength == 0.0:
        np.testing.assert_allclose(new_h, new_f @ new_b, atol=1e-12)
    norms = np.linalg.norm(codes, axis=1, keepdims=True)
    units = codes / norms
    inverse = np.linalg.inv(units @ units.T + 0.01 * np.eye(16))
    new_h -= (inverse @ (codes @ (new_h - new_f @ new_b).T / norms)).T @ units
    after = learner.network
    assert np.abs(after.feedback - b).max() > 1e-2
    for weights, expected in ((after.feedforward, new_f), (after.feedback, new_b), (after.lateral, new_h)):
        np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(learner.movement, movement, rtol=1e-9)


def test_the_dictionary_is_an_average_of_each_atom():
    """Of the weights after each batch, by the share of the batch in the last part of what an atom did."""
    _, data = planted()
    learner = new_learner(data, N_ATOMS, settings=settings_of(SIGNS[0]), rng=3)
    average, used = learner.synapses.feedback_rows.copy(), np.zeros(N_ATOMS)
    np.testing.assert_allclose(learner.dictionary, average, atol=1e-15)
    for start in range(0, 320, 16):
        learner.learn(data[start : start + 16])
        before, used = used, learner.usage.copy()
        share = np.minimum(
            4.0 * np.divide(used - before, used, out=np.zeros_like(used), where=used > 0.0), 1.0
        )
        average += share[:, np.newaxis] * (learner.network.feedback.T - average)
        units = average / np.linalg.norm(average, axis=1, keepdims=True)
        np.testing.assert_allclose(learner.dictionary, units, rtol=0, atol=1e-9)
    assert np.abs(learner.network.feedback.T - average).max() > 0.01


def test_averages_are_better_than_the_weights_of_the_moment():
    """Steps are large: what batches did last is noise, where signals have some that no atom explains."""
    rng = np.random.default_rng(5)
    _, data = planted(2000)
    noisy = data + 0.1 * rng.standard_normal(data.shape)
    learner = learn(noisy, SIGNS[0], 6000)
    moment = mean_objective(learner.network.feedback.T, noisy, penalty=0.05).objective
    assert mean_objective(learner.dictionary, noisy, penalty=0.05).objective < 0.995 * moment


@pytest.mark.parametrize(
    ("signs", "change"),
    [(SIGNS[2], {}), (SIGNS[0], {"readout": "rate"}), (SIGNS[0], {"steps": PaperSteps(step=0.05)})],
)
def test_without_an_average_the_dictionary_is_the_weights(signs, change):
    """Where atoms are positive, gradients are not exact, or steps are the paper's."""
    _, data = planted()
    learner = learn(data, signs, 160, change)
    np.testing.assert_array_equal(learner.dictionary, unit_norm(learner.synapses.feedback_rows))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"positive_atoms": False}, (0.1, 10.0, 1 / 16)),
        ({"positive_atoms": False, "positive_code": False}, (0.1, 10.0, 1 / 16)),
        ({"positive_atoms": False, "kappa": 0.3, "time_step": None}, (0.3, 10.0, None)),
        ({"positive_atoms": False, "readout": "rate"}, (0.7, 5.0, 1 / 32)),
        ({"positive_atoms": False, "steps": PaperSteps()}, (0.7, 5.0, 1 / 32)),
        ({"positive_code": False}, (0.1, 5.0, 1 / 32)),
        ({}, (0.1, 5.0, 1 / 32)),
        ({"readout": "rate"}, (0.7, 5.0, 1 / 32)),
        ({"steps": PaperSteps()}, (0.7, 5.0, 1 / 32)),
    ],
)
def test_phases_suit_what_is_learned(options, expected):
    settings = LearningSettings(penalty=0.1, **options)
    assert (settings.kappa, settings.duration, settings.time_step) == expected
    assert LearningSettings(penalty=0.1, **{"duration": "auto", **options}) == settings
    assert LearningSettings.from_text(settings.as_text()) == settings


def test_codes_of_a_phase_are_better_with_weak_feedback():
    """Feedback of strength kappa leaves the input neurons 1 - kappa of their drive: rounding counts more."""
    rng = np.random.default_rng(0)
    atoms = random_dictionary(100, 40, positive=False, rng=rng)
    signals = rng.exponential(size=(32, 100)) * (rng.random((32, 100)) < 0.1) @ atoms
    signals *= 5.0 / np.sqrt((signals**2).sum(axis=1).mean())
    network = TwoPhaseNetwork.consistent(atoms, positive_atoms=False)
    codes = solve_active_set(LassoProblem(atoms, signals, 0.5)).codes
    errors = [
        np.linalg.norm(rules.code(phases[1]) - codes)
        for phases in (
            network.run(signals, penalty=0.5, kappa=kappa, duration=5.0, initial_potential=0.5)
            for kappa in (0.1, 0.7)
        )
    ]
    assert errors[0] < 0.85 * errors[1]


def test_a_learner_of_signed_atoms_resumes_from_a_file(tmp_path):
    """With movement and average: the same bits, and the same dictionary before the next batch."""
    _, data = planted()
    learner = learn(data, SIGNS[0], 160)
    learner.save(tmp_path / "learner.npz")
    loaded = TwoPhaseLearner.load(tmp_path / "learner.npz")
    np.testing.assert_array_equal(loaded.dictionary, learner.dictionary)
    np.testing.assert_array_equal(loaded.movement, learner.movement)
    for each in (learner, loaded):
        each.learn(data[:16])
    np.testing.assert_array_equal(loaded.dictionary, learner.dictionary)
    np.testing.assert_array_equal(loaded.network.lateral, learner.network.lateral)


def test_signs_may_be_turned_around():
    """-X from -D learns -D."""
    _, data = planted()
    start = random_dictionary(N_ATOMS, N_INPUTS, positive=False, rng=0)
    one = learn(data, SIGNS[0], 160, start=start)
    other = learn(-data, SIGNS[0], 160, start=-start)
    np.testing.assert_allclose(other.dictionary, -one.dictionary, atol=1e-9)
    assert np.abs(one.dictionary - start).max() > 0.02


@each_sign
@pytest.mark.parametrize("masked", [False, True])
def test_neither_threads_nor_parts_nor_interruptions_change_bits(tmp_path, signs, masked):
    _, data = planted()
    known = np.random.default_rng(7).uniform(size=data.shape) < 0.7 if masked else None
    expected = learn(data, signs, mask=known)
    assert_same(learn(data, signs, mask=known, n_jobs=3), expected)
    saved = {"checkpoint": tmp_path / "learner.npz", "checkpoint_every": 32}
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 7)
        with pytest.raises(StopHereError):
            learn(data, signs, mask=known, **saved)
    assert_same(learn(data, signs, mask=known, **saved), expected)
    whole, parts = (new_learner(data, N_ATOMS, settings=settings_of(signs), rng=3) for _ in range(2))
    batch, some = data[:20], None if known is None else known[:20]
    objective = whole.learn(batch, mask=some)
    plan, phases = parts.plan(20), []
    for start, stop in ((0, 7), (7, 22), (22, 25)):
        rows = slice(start, stop)
        phases.append(
            plan.run(
                parts.synapses, batch[rows], None if some is None else some[rows], start=start, stop=stop
            )
        )
    assert parts.apply(plan, join_phases(phases), some) == objective
    assert_same(parts, whole)


@each_sign
def test_a_batch_is_learned_whole_when_its_helper_is_shut_down(signs):
    """As Ctrl-C does while the batch changes the weights."""
    _, data = planted()
    expected, learner = (new_learner(data, N_ATOMS, settings=settings_of(signs), rng=3) for _ in range(2))
    helper = ThreadPoolExecutor(1)
    helper.shutdown()
    for each, options in ((expected, {}), (learner, {"helper": helper})):
        plan = each.plan(16)
        each.apply(plan, plan.run(each.synapses, data[:16]), **options)
    assert_same(learner, expected)


@each_sign
def test_nothing_learns_on_after_ctrl_c_while_a_thread_starts(monkeypatch, signs):
    """Python's executors do not wait for such a thread: it would learn a batch later."""
    _, data = planted()
    expected, learner = (new_learner(data, N_ATOMS, settings=settings_of(signs), rng=3) for _ in range(2))
    options = {"n_samples": 32, "rng": 3, "n_jobs": 1}
    continue_learning(expected, data, **options)
    start, apply, interrupts = Thread.start, TwoPhaseLearner.apply, []

    def interrupted(thread):
        start(thread)
        if current_thread() is main_thread() and not interrupts:
            interrupts.append(thread)
            raise KeyboardInterrupt

    def slow(*arguments, **named):
        time.sleep(0.2)  # so that it goes on after the interrupt
        return apply(*arguments, **named)

    monkeypatch.setattr(Thread, "start", interrupted)
    monkeypatch.setattr(TwoPhaseLearner, "apply", slow)
    with pytest.raises(KeyboardInterrupt):
        continue_learning(learner, data, **options)
    continue_learning(learner, data, **options)
    assert_same(learner, expected)


@each_sign
def test_a_saved_learner_has_its_signs(tmp_path, signs):
    _, data = planted()
    learner = learn(data, signs, 100)
    learner.save(tmp_path / "learner.npz")
    loaded = TwoPhaseLearner.load(tmp_path / "learner.npz")
    assert loaded.settings == learner.settings
    assert loaded.network.signs == learner.network.signs
    continue_learning(loaded, data, n_samples=200, rng=3)
    continue_learning(learner, data, n_samples=200, rng=3)
    assert_same(loaded, learner)


def test_settings_of_the_paper_are_written_as_they_were():
    """A file from before there was a choice loads, and a checkpoint of then goes on."""
    text = json.loads(settings_of({}).as_text())
    assert not any(name.startswith("positive") for name in text)
    assert LearningSettings.from_text(json.dumps(text)) == settings_of({})
    for signs in SIGNS:
        assert LearningSettings.from_text(settings_of(signs).as_text()) == settings_of(signs)


def test_a_saved_network_of_negative_weights_needs_the_setting(tmp_path):
    _, data = planted()
    path = tmp_path / "learner.npz"
    learn(data, SIGNS[0], 100).save(path)
    entries = dict(np.load(path))
    text = json.loads(str(entries["settings"]))
    del text["positive_atoms"]
    np.savez(path, **{**entries, "settings": json.dumps(text)})
    with pytest.raises(ValueError, match=r"must name a saved TwoPhaseLearner; got .*must not be negative"):
        TwoPhaseLearner.load(path)


@each_sign
def test_dead_atoms_are_replaced(signs):
    _, data = planted()
    settings = settings_of(signs, steps=replace(settings_of(signs).steps, patience=1e12))
    # Two inputs that no signal has, and an atom that sees nothing else.
    data = np.pad(data, ((0, 0), (0, 2)))
    atoms = np.pad(
        np.abs(planted()[0]) if signs.get("positive_atoms", True) else planted()[0], ((0, 0), (0, 2))
    )
    atoms[0, :-2], atoms[0, -2:] = 0.0, 1.0
    options = {"settings": settings, "n_samples": 1600, "rng": 5, "start": atoms}
    assert learn_dictionary(data, **options).dead_atoms.tolist() == [0]
    learner = learn_dictionary(data, replace_dead=True, **options)
    assert learner.dead_atoms.size == 0
    assert learner.n_replaced == 1
    assert np.abs(learner.dictionary[0, -2:]).max() == 0.0


def test_weights_of_few_bits():
    _, data = planted()
    stochastic = FixedPoint(bits=9, rounding="stochastic")
    learner = learn(data, SIGNS[1], 600, {"weight_format": stochastic})
    for weights, exponent in ((learner.network.feedback, -8), (learner.network.lateral, -7)):
        mantissas = np.ldexp(weights, -exponent)
        np.testing.assert_array_equal(mantissas, np.rint(mantissas))
        assert mantissas.min() < 0.0
    rounded = rounded_network(learn(data, SIGNS[1]).network, FixedPoint(bits=9))
    assert rounded.signs == learner.network.signs


def test_consistent_weights_come_of_others():
    _, data = planted()
    start = network_of(SIGNS[0], 0.2)
    learner = learn(data, SIGNS[0], 8000, {"kappa": 0.5}, start=start)
    assert max(start.consistency, start.symmetry) < 0.9
    assert learner.network.consistency > 0.98
    assert (np.diff(learner.history["symmetry"]) > 0.0).all()


@pytest.mark.thorough
def test_a_cluster_gives_the_same_bits(cluster_client, tmp_path):
    pytest.importorskip("dask.array", reason="needs the extra: pip install 'sparsespike[dask]'")
    from dictlearn.distributed import learn_dictionary_on

    _, data = planted()
    np.save(tmp_path / "signals.npy", data)
    settings = settings_of(SIGNS[1], batch_size=90)
    options = {"settings": settings, "n_samples": 300, "rng": 1}
    expected = learn_dictionary(data, N_ATOMS, **options)
    learned = learn_dictionary_on(
        cluster_client, tmp_path / "signals.npy", N_ATOMS, rows_per_task=32, **options
    )
    assert_same(learned, expected)


# -- what is refused -----------------------------------------------------------------------------

GOOD = np.ones((4, 3))
SIGNED = LearningSettings(penalty=0.1, positive_atoms=False)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: LearningSettings(penalty=0.1, positive_atoms=0), TypeError, "positive_atoms must be True or False; got 0"),
        (lambda: LearningSettings(penalty=0.1, positive_signals=1), TypeError, "positive_signals must be True or False; got 1"),
        (lambda: LearningSettings(penalty=0.1, positive_code=None), TypeError, "positive_code must be True or False; got None"),
        (lambda: LearningSettings(penalty=0.1, positive_atoms=False, kappa="small"), ValueError, "kappa must be a number or 'auto'; got 'small'"),
        (lambda: LearningSettings(penalty=0.1, positive_atoms=False, duration="long"), ValueError, "duration must be a number or 'auto'; got 'long'"),
        (lambda: LearningSettings(penalty=0.1, positive_atoms=False, time_step="none"), ValueError, "time_step must be a number or 'auto'; got 'none'"),
        (lambda: LearningSettings(penalty=0.1, positive_atoms=False, time_step=0.3), ValueError, "duration must be a whole number of time steps; got 10.0 and a time_step of 0.3"),
        (lambda: learn_dictionary(-GOOD, 2, penalty=0.1), ValueError, r"signals must not be negative \(split them into \+ and - channels, or learn atoms of either sign: positive_atoms=False\); got -1.0"),
        (lambda: TwoPhaseNetwork.consistent(-np.eye(2)), ValueError, r"dictionary must not be negative; got -1.0 \(positive_atoms=False allows it\)"),
        (lambda: TwoPhaseNetwork.consistent(-np.eye(2), positive_code=False), ValueError, "dictionary must not be negative"),
        (lambda: TwoPhaseNetwork.consistent(np.eye(2), positive_atoms="no"), TypeError, "positive_atoms must be True or False; got 'no'"),
        (lambda: TwoPhaseNetwork(GOOD.T, GOOD, -np.eye(3), positive_atoms=False), ValueError, r"lateral must have shape \(3, 3\)|positive diagonal"),
        (lambda: TwoPhaseLearner(random_network(2, 3, rng=0), SIGNED, scale=1.0), ValueError, "network must have the settings' positive_atoms=False, positive_code=True, positive_signals=False; got positive_atoms=True, positive_code=True, positive_signals=True"),
        (lambda: learn_dictionary(GOOD, settings=SIGNED, start=random_network(2, 3, rng=0)), ValueError, "start must have the settings' positive_atoms=False, .*; got"),
        (lambda: replace(SIGNED, weight_format=FixedPoint(bits=8, sign="non-negative")), ValueError, "weight_format must be signed where atoms may be negative .*; got the sign 'non-negative'"),
        (lambda: rounded_network(network_of(SIGNS[0]), FixedPoint(bits=8, sign="non-negative")), ValueError, "weight_format must be signed"),
        (lambda: random_dictionary(2, 3, positive=1), TypeError, "positive must be True or False; got 1"),
        (lambda: mean_objective(np.eye(2), np.eye(2), penalty=0.1, positive_code="x"), TypeError, "positive_code must be True or False; got 'x'"),
    ],
)  # fmt: skip
def test_nonsense_gets_one_clear_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()

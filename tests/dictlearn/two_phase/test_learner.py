"""The learner: what it finds, that it obeys its rules, and that nothing it has learned is lost."""

# ruff: noqa: E501 - a case a line reads better

import copy
import errno
import os
import pickle
import signal
import time
from dataclasses import fields, replace

import numpy as np
import pytest

from dictlearn import (
    LearningSettings,
    PaperSteps,
    RunawayFeedbackError,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    UsageSteps,
    continue_learning,
    learn_dictionary,
    new_learner,
    random_dictionary,
    random_network,
    rules,
)
from dictlearn.signals import amplitude_scale
from dictlearn.two_phase import batch as batch_module
from dictlearn.two_phase._kernels import updates
from snn.base import archive
from solvers import LassoProblem, solve_active_set
from tests.processes import run_python
from tests.stress.kill_and_resume import state

PENALTY = 0.05
# Small enough that H keeps up, sample by sample.
PAPER = LearningSettings(penalty=PENALTY, steps=PaperSteps(step=0.05), batch_size=1, duration=10.0)
USAGE = LearningSettings(penalty=PENALTY, batch_size=16)


def planted(n_atoms, n_inputs, n_signals, seed=0):
    """A non-negative dictionary with a fifth of its entries, and signals of three atoms each."""
    rng = np.random.default_rng(seed)
    shape = (n_atoms, n_inputs)
    atoms = rng.uniform(0.2, 1.0, shape) * (rng.uniform(size=shape) < 0.2)
    atoms[np.arange(n_atoms), rng.integers(n_inputs, size=n_atoms)] += 0.5
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = np.zeros((n_signals, n_atoms))
    for code in codes:
        code[rng.choice(n_atoms, 3, replace=False)] = rng.uniform(0.3, 1.0, 3)
    return atoms, codes @ atoms


@pytest.fixture(scope="module")
def data():
    """Small and quick: 8 atoms of 12 inputs, 300 signals."""
    return planted(8, 12, 300)


@pytest.fixture(scope="module")
def signals(data):
    return data[1]


def learn(signals, n_samples=600, n_atoms=8, settings=USAGE, rng=3, **options):
    return learn_dictionary(signals, n_atoms, settings=settings, n_samples=n_samples, rng=rng, **options)


def begun(signals, n_atoms=8, settings=USAGE, rng=3, **options):
    """A learner for `continued`, which `learn` makes for itself."""
    return new_learner(signals, n_atoms, settings=settings, rng=rng, **options)


def continued(learner, signals, n_samples=600, rng=3, **options):
    continue_learning(learner, signals, n_samples=n_samples, rng=rng, **options)
    return learner


def assert_same(first, second):
    """To the last bit, and all that learning depends on."""
    ours, theirs = state(first), state(second)
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def atom_norms(learner):
    return np.linalg.norm(learner.network.feedback, axis=0)


# -- what it finds -------------------------------------------------------------------------------


@pytest.mark.thorough
def test_planted_dictionary_is_recovered_from_random_starts():
    """From most starts but for an atom or two, of which two share one learned atom; from one of four wholly."""
    atoms, signals = planted(24, 32, 2000)

    def objective(dictionary):
        problem = LassoProblem(dictionary, signals[:200], PENALTY, positive=True)
        return solve_active_set(problem).objective.mean()

    cosines, objectives = [], []
    for rng in range(4):
        learner = learn(signals, 20_000, 24, rng=rng)
        cosines.append((atoms @ learner.dictionary.T).max(axis=1).mean())
        objectives.append(objective(learner.dictionary) / objective(atoms))
        assert learner.network.consistency > 0.98
        assert learner.network.symmetry > 1.0 - 1e-12
        history = learner.history
        np.testing.assert_array_equal(history["n_samples"] // 1000, np.arange(1, 21))
        assert history["objective"][-1] < 0.7 * history["objective"][0]
    assert np.mean(cosines) > 0.97
    assert max(cosines) > 0.99
    # The penalty is worth a slightly different dictionary than the planted one.
    assert min(objectives) < 1.02
    assert objective(random_dictionary(24, 32, rng=0)) > 1.5 * objective(atoms)


def test_consistent_symmetric_weights_come_of_any_others(signals):
    start = random_network(8, 12, rng=1)
    learner = learn(signals, 12_000, None, start=start)
    assert start.consistency < 0.8
    assert start.symmetry < 0.5
    assert learner.network.consistency > 0.98
    history = learner.history
    assert (np.diff(history["symmetry"]) > 0.0).all()
    # Asymmetry fades by the decay alone, and the more slowly the less a neuron is used.
    assert history["symmetry"][-1] > 1.0 - 0.6 * (1.0 - start.symmetry)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"time_step": None},
        {"readout": "rate", "kappa": 0.7},
        # Codes far from the optimum: F . g_D is far from -kappa lambda1.
        {"kappa": 0.9},
        {"kappa": 0.2},
        {"duration": 2.0},
        {"duration": 20.0},
        {"initial_potential": 0.0},
        {"amplitude": 1.0},
    ],
    ids=lambda changes: f"{changes}",
)
def test_usage_steps_bring_norms_to_one_and_keep_them(data, changes):
    """Whatever the codes are worth: what is left of a step's square is all that keeps them from it."""
    atoms, signals = data
    start = TwoPhaseNetwork.consistent(atoms * np.linspace(0.6, 1.8, len(atoms))[:, np.newaxis])
    learner = learn(signals, 12_000, None, replace(USAGE, penalty=0.1, **changes), start=start)
    norms = atom_norms(learner)
    # The smallest atom starts at 0.6, and neurons whose spikes are counted see it grow slowly.
    assert norms.min() > 0.95
    assert norms.max() < 1.03
    np.testing.assert_allclose(learner.history["least_norm"][-1], norms.min(), atol=0.02)


@pytest.mark.thorough
def test_rare_atoms_have_unit_norm_too():
    """Their penalty is weighted, since they are silent for long; so is what they observe of it."""
    signals = np.zeros((400, 6))
    signals[:, :4] = np.eye(4)[np.arange(400) % 4]
    signals[::80] = [0.0, 0.0, 0.0, 0.0, 0.8, 0.6]
    start = np.vstack([np.eye(6)[:4], signals[0]]) + 0.01
    learner = learn(signals, 40_000, None, replace(USAGE, penalty=0.2), start=start)
    assert learner.usage[4] < 0.1 * learner.usage[:4].min()
    np.testing.assert_allclose(atom_norms(learner), 1.0, atol=0.02)


@pytest.mark.thorough
def test_without_reweighting_small_atoms_die(data):
    """Each atom has a twin of half its norm, which pays twice the penalty for the same."""
    atoms, signals = data
    twins = atoms + 0.1 * random_dictionary(*atoms.shape, rng=1)
    start = np.vstack([atoms, 0.5 * twins / np.linalg.norm(twins, axis=1, keepdims=True)])
    start = TwoPhaseNetwork.consistent(start)  # a dictionary would be brought to unit norms
    least = {}
    for reweighting in (True, False):
        steps = PaperSteps(step=0.05, reweighting=reweighting)
        learner = learn(signals, 3000, None, replace(PAPER, steps=steps), start=start)
        norms = atom_norms(learner)
        least[reweighting] = norms.min() / norms.max()
        assert (len(learner.dead_atoms) > 0) is not reweighting
    assert least[True] > 0.6
    assert least[False] < 0.4


@pytest.mark.thorough
def test_a_slow_lateral_step_lets_thresholds_and_norms_shrink(data):
    atoms, signals = data
    found = {}
    for ratio in (1.0, 15.0):
        steps = PaperSteps(step=0.1, lateral_ratio=ratio)
        found[ratio] = learn(signals, 3000, None, replace(PAPER, steps=steps), start=atoms)
    assert np.median(atom_norms(found[1.0])) < 0.75 * np.median(atom_norms(found[15.0]))
    thresholds = {ratio: np.diagonal(learner.network.lateral) for ratio, learner in found.items()}
    assert np.median(thresholds[1.0]) < 0.6 * np.median(thresholds[15.0])


@pytest.mark.parametrize(
    "changes",
    [
        {"readout": "rate", "kappa": 0.7},
        {"time_step": None},
        {"duration": 10.0},
        {"time_step": 1 / 32, "integration": "euler"},
        {"batch_size": 1},
        {"batch_size": 64},
    ],
    ids=lambda changes: f"{changes}",
)
def test_every_way_of_running_learns(signals, changes):
    learner = learn(signals, 3000, settings=replace(USAGE, **changes))
    start = random_dictionary(8, 12, rng=np.random.default_rng(3))
    problems = (LassoProblem(d, signals, PENALTY, positive=True) for d in (start, learner.dictionary))
    before, after = (solve_active_set(p).objective.mean() for p in problems)
    assert after < 0.7 * before


# -- the rules -----------------------------------------------------------------------------------


def asymmetric(n_atoms=8, n_inputs=12):
    """F and B of independent weights, none small; H = F B."""
    rng = np.random.default_rng(1)
    feedforward, feedback = (
        rng.uniform(0.2, 0.4, shape) for shape in ((n_atoms, n_inputs), (n_inputs, n_atoms))
    )
    return TwoPhaseNetwork(feedforward, feedback, feedforward @ feedback)


@pytest.mark.parametrize("batch_size", [1, 16])
def test_asymmetry_shrinks_by_the_decay_alone(signals, batch_size):
    """F^T - B is multiplied by 1 - eta_D lambda2 a sample, exactly, while no weight meets zero."""
    start = asymmetric()
    steps = PaperSteps(step=5e-3, halving=100.0, decay=0.05)
    settings = replace(PAPER, steps=steps, batch_size=batch_size)
    learner = learn(signals, 160, None, settings, start=start)
    network = learner.network
    assert min(network.feedforward.min(), network.feedback.min()) > 0.0
    seen = np.arange(0, 160, batch_size)
    keep = np.prod((1.0 - steps.step / (1.0 + seen / steps.halving) * steps.decay) ** batch_size)
    assert keep < 0.99
    assert np.abs(network.feedback - keep * start.feedback).max() > 0.01
    expected = keep * (start.feedforward.T - start.feedback)
    np.testing.assert_allclose(network.feedforward.T - network.feedback, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", [USAGE, PAPER], ids=["usage", "paper"])
def test_symmetric_weights_stay_symmetric(signals, settings):
    learner = learn(signals, 2000, settings=settings)
    np.testing.assert_allclose(learner.network.feedforward, learner.network.feedback.T, rtol=0, atol=1e-12)


@pytest.fixture
def phases(monkeypatch):
    """The phases of the last batch that any learner ran."""
    phases = []
    run = batch_module.run_phases

    def listen(*arguments, **options):
        phases[:] = run(*arguments, **options)
        return phases

    monkeypatch.setattr(batch_module, "run_phases", listen)
    return phases


@pytest.mark.parametrize("readout", ["current", "rate"])
@pytest.mark.parametrize("n_signals", [1, 5])
@pytest.mark.parametrize(
    "steps", [PaperSteps(step=0.02, decay=0.3), PaperSteps(step=0.02), UsageSteps(probes=0.0)]
)
def test_a_batch_changes_weights_as_equations_11_and_12_say(signals, phases, steps, n_signals, readout):
    """Equations written out in matrices of any density; the projection of H by its own closed form."""
    before = random_network(8, 12, rng=2)
    before = TwoPhaseNetwork(before.feedforward, before.feedback, 1.5 * before.lateral)
    settings = replace(USAGE, steps=steps, readout=readout, kappa=0.5)
    learner = TwoPhaseLearner(before, settings, scale=5.0)
    batch = signals[:n_signals]
    learner.learn(batch)

    energy, penalty, kappa = 25.0, 5.0 * PENALTY, 0.5
    thresholds = np.diagonal(before.lateral)
    first, second = phases
    if readout == "current":
        g_d = second.input_current - first.input_current
        codes = np.maximum(second.coding_trace, 0.0)
        passed_on = (1.0 - kappa) * first.input_current - second.input_current
        g_h = kappa * codes @ before.lateral.T + passed_on @ before.feedforward.T
    else:
        g_d = second.input_rate - first.input_rate
        codes = second.coding_rate
        excess = [phase.coding_current - thresholds * phase.coding_rate for phase in phases]
        change = (first.coding_rate - second.coding_rate) @ before.lateral.T
        g_h = (1.0 - kappa) * (change + excess[0]) - excess[1]
    if isinstance(steps, UsageSteps):
        usage = (codes**2).sum(axis=0) / energy
        together = (codes * codes.sum(axis=1, keepdims=True)).sum(axis=0) / energy
        step = steps.gain / (steps.initial_usage + usage + steps.caution * together) / energy
        observed = -(g_d @ before.feedforward.T) / kappa
        keep, lateral_keep = np.minimum(1.0 - step * (codes * observed).sum(axis=0), 1.0), 1.0
        norms = np.linalg.norm(codes, axis=1, keepdims=True)
        units = np.divide(codes, norms, out=np.zeros_like(codes), where=norms > 0.0)
        inverse = np.linalg.inv(units @ units.T + 0.01 * np.eye(n_signals))
        given = np.divide(g_h, norms, out=np.zeros_like(g_h), where=norms > 0.0)
        lateral_change = (1.0 if readout == "current" else 0.1) * (inverse @ given).T @ units / kappa
    else:
        step = steps.step / energy
        decay = steps.decay * energy if steps.decay else penalty * codes.mean() * thresholds.mean()
        keep, lateral_keep = (1.0 - step * decay) ** n_signals, (1.0 - 2.0 * step * decay) ** n_signals
        lateral_change = 15.0 * step * g_h.T @ codes / kappa
    new_b = keep * before.feedback - step * (g_d.T @ codes) / kappa
    new_f = (keep * before.feedforward.T - step * (g_d.T @ codes) / kappa).T
    new_h = lateral_keep * before.lateral - lateral_change
    after = learner.network
    assert np.abs(after.feedforward - before.feedforward).max() > 1e-3
    assert np.abs(after.lateral - before.lateral).max() > 1e-3
    for weights, expected in ((after.feedforward, new_f), (after.feedback, new_b), (after.lateral, new_h)):
        np.testing.assert_allclose(weights, np.maximum(expected, 0.0), rtol=0, atol=1e-13)


def test_decay_of_the_paper_follows_the_mean_code(signals, phases):
    """lambda1 times the mean over the samples so far, while these are few, and the mean threshold."""
    learner = TwoPhaseLearner(asymmetric(), replace(PAPER, batch_size=10), scale=5.0)
    codes = np.empty((0, 8))
    for first in range(0, 50, 10):
        before = learner.network
        learner.learn(signals[first : first + 10])
        thresholds = np.diagonal(before.lateral)
        codes = np.vstack([codes, rules.code(phases[1])])
    step = 0.05 / (1.0 + 40.0 / 20_000.0) / 25.0
    keep = (1.0 - step * 5.0 * PENALTY * codes.mean() * thresholds.mean()) ** 10
    after = learner.network
    assert keep < 0.9999
    np.testing.assert_allclose(
        after.feedforward.T - after.feedback,
        keep * (before.feedforward.T - before.feedback),
        rtol=0,
        atol=1e-13,
    )


def test_the_network_is_fed_with_scaled_signals_and_the_penalty(signals, phases):
    """What the learner runs is `TwoPhaseNetwork.run`."""
    network = TwoPhaseNetwork.consistent(random_dictionary(8, 12, rng=0))
    learner = TwoPhaseLearner(network, replace(PAPER, kappa=0.5), scale=5.0)
    learner.learn(signals[:4])
    expected = network.run(
        5.0 * signals[:4],
        penalty=5.0 * PENALTY,
        kappa=0.5,
        duration=10.0,
        time_step=1 / 32,
        reweighting=np.diagonal(network.lateral),
        initial_potential=0.5,
    )
    for seen, known in zip(phases, expected, strict=True):
        for name, value in known.__dict__.items():
            np.testing.assert_array_equal(getattr(seen, name), value, err_msg=name)


def test_probes_make_lateral_weights_of_silent_neurons_true():
    """Signals reach only half of the atoms; H of the others is wrong, and no signal shows it."""
    atoms = np.vstack([np.eye(6)[:3], np.full((3, 6), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]) / np.sqrt(3.0)])
    atoms += 1e-3
    consistent = TwoPhaseNetwork.consistent(atoms)
    lateral = consistent.lateral.copy()
    lateral[3:, 3:] *= 1.3
    signals = np.eye(6)[np.arange(200) % 3]
    consistency = {}
    for probes in (0.0, 1.0):
        settings = LearningSettings(penalty=0.2, steps=UsageSteps(probes=probes, patience=1e9))
        start = TwoPhaseNetwork(consistent.feedforward, consistent.feedback, lateral)
        consistency[probes] = learn(signals, 400, None, settings, start=start).network.consistency
    assert consistency[0.0] < 0.9
    assert consistency[1.0] > 0.98


# -- what must change nothing --------------------------------------------------------------------


@pytest.mark.parametrize("settings", [USAGE, replace(PAPER, batch_size=4)], ids=["usage", "paper"])
def test_workers_change_nothing(signals, settings):
    alone = learn(signals, 400, settings=settings)
    for n_jobs in (2, 3, -1):
        assert_same(learn(signals, 400, settings=settings, n_jobs=n_jobs), alone)


def test_seed_decides(signals):
    assert_same(learn(signals, 200), learn(signals, 200, rng=np.random.default_rng(3)))
    other = learn(signals, 200, rng=4)
    assert not np.array_equal(other.dictionary, learn(signals, 200).dictionary)


@pytest.mark.parametrize("kind", ["float32", "memory map", "read-only", "Fortran", "list", "integer"])
def test_the_form_of_the_signals_changes_nothing(signals, kind, tmp_path):
    # Multiples of 1/256 are the same number in every type.
    coarse = np.round(256.0 * signals)
    expected = learn(coarse if kind == "integer" else coarse / 256.0, 200)
    values = coarse / 256.0
    if kind == "float32":
        values = values.astype(np.float32)
    elif kind == "memory map":
        np.save(tmp_path / "signals.npy", values)
        values = np.load(tmp_path / "signals.npy", mmap_mode="r")
    elif kind == "read-only":
        values = values.copy()
        values.flags.writeable = False
    elif kind == "Fortran":
        values = np.asfortranarray(values)
    elif kind == "list":
        values = values.tolist()
    else:
        values = coarse.astype(np.int16)
    assert_same(learn(values, 200), expected)


@pytest.mark.parametrize("power", [-60, -20, 20, 60])
@pytest.mark.parametrize("settings", [USAGE, PAPER], ids=["usage", "paper"])
def test_the_unit_of_the_signals_changes_nothing(signals, settings, power):
    unit = 2.0**power
    expected = learn(signals, 300, settings=settings)
    other = learn(unit * signals, 300, settings=replace(settings, penalty=unit * PENALTY))
    np.testing.assert_array_equal(other.network.feedforward, expected.network.feedforward)
    np.testing.assert_array_equal(other.network.lateral, expected.network.lateral)
    assert other.n_spikes == expected.n_spikes
    assert other.scale * unit == expected.scale


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_a_unit_that_rounds_changes_no_more_than_rounding(signals, unit):
    expected = learn(signals, 100)
    other = learn(unit * signals, 100, settings=replace(USAGE, penalty=unit * PENALTY))
    np.testing.assert_allclose(other.dictionary, expected.dictionary, rtol=0, atol=1e-9)


def test_a_signal_of_nothing_teaches_nothing(signals):
    learner = learn(signals, 320)
    before = learner.network
    assert learner.learn(np.zeros((5, 12))) == 0.0
    np.testing.assert_array_equal(learner.network.feedforward, before.feedforward)
    np.testing.assert_array_equal(learner.network.feedback, before.feedback)
    assert learner.n_samples == 325
    some = signals.copy()
    some[::3] = 0.0
    learner = learn(some, 1200)
    assert np.isfinite(learner.dictionary).all()
    assert all(np.isfinite(values).all() for values in learner.history.values())


@pytest.mark.parametrize(
    ("n_signals", "n_atoms", "n_samples"),
    [(1, 8, 3), (5, 8, 23), (40, 30, 100), (3, 1, 7), (100, 5, 1)],
)
def test_sizes_at_the_edge(signals, n_signals, n_atoms, n_samples):
    """One signal; more atoms than signals; batches that epochs cut short."""
    learner = learn(signals[:n_signals], n_samples, n_atoms)
    assert learner.n_samples == n_samples
    np.testing.assert_allclose(np.linalg.norm(learner.dictionary, axis=1), 1.0, rtol=1e-14)
    single = learn(signals[:, :1], 20, 2)
    np.testing.assert_array_equal(single.dictionary, [[1.0], [1.0]])


def test_every_epoch_shows_every_signal_once(signals, monkeypatch):
    shown = []
    monkeypatch.setattr(TwoPhaseLearner, "learn", lambda self, batch, **_: _count(self, shown, batch))
    learn(signals[:50], 120)
    rows = [np.flatnonzero((signals[:50] == row).all(axis=1))[0] for row in np.vstack(shown)]
    assert sorted(rows[:50]) == sorted(rows[50:100]) == list(range(50))
    assert rows[:50] != rows[50:100]
    assert [len(batch) for batch in shown] == [16, 16, 16, 2, 16, 16, 16, 2, 16, 4]


def _count(learner, shown, batch):
    shown.append(batch)
    learner.n_samples += len(batch)
    return 0.0


def test_disturbance_is_a_mean_over_signals_that_are_not_zero(signals, phases):
    """Signals of nothing, which nothing disturbs, change nothing about it; other means are over all."""
    settings = LearningSettings(penalty=PENALTY, steps=UsageSteps(probes=0.0), batch_size=50)
    ratios = []
    learner = TwoPhaseLearner(
        TwoPhaseNetwork.consistent(random_dictionary(8, 12, rng=0)), settings, scale=5.0
    )
    for first in range(0, 1000, 50):
        batch = signals[first % 300 : first % 300 + 50].copy()
        batch[::2] = 0.0
        learner.learn(batch)
        g_d = rules.reconstruction_gradient(*phases)
        ratios.append(
            np.linalg.norm(g_d[1::2], axis=1)
            / (settings.kappa * learner.scale * np.linalg.norm(batch[1::2], axis=1))
        )
    assert learner.history["n_samples"].tolist() == [1000]
    # To the roundings of a mean of 500.
    assert learner.history["disturbance"][0] == pytest.approx(np.mean(ratios), rel=1e-12)


def test_a_thousand_signals_of_nothing_have_no_disturbance(signals):
    learner = learn(signals, 320)
    learner.learn(np.zeros((1000, 12)))
    learner.learn(np.zeros((1000, 12)))
    assert learner.history["disturbance"][-1] == 0.0


# -- stopping, going on --------------------------------------------------------------------------


class StopHereError(Exception):
    pass


def stop_at(monkeypatch, n_batches):
    """Make learning fail before this number of batches is done."""
    plain = TwoPhaseLearner.learn
    calls = []

    def failing(self, *arguments, **options):
        calls.append(1)
        if len(calls) > n_batches:
            raise StopHereError
        return plain(self, *arguments, **options)

    monkeypatch.setattr(TwoPhaseLearner, "learn", failing)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (USAGE, {}),
        (replace(USAGE, steps=UsageSteps(probes=0.1)), {"replace_dead": True}),
        (replace(PAPER, batch_size=7), {}),
        (replace(USAGE, time_step=1 / 16, duration=4.0, readout="rate"), {}),
        (USAGE, {"n_atoms": None, "start": random_network(8, 12, rng=0)}),
    ],
    ids=["usage", "replacing", "paper", "clocked", "given start"],
)
@pytest.mark.parametrize("n_batches", [0, 3, 17, 40])
def test_a_run_that_failed_anywhere_goes_on_bit_for_bit(signals, tmp_path, settings, options, n_batches):
    expected = learn(signals, 1100, settings=settings, **options)
    learner = begun(signals, settings=settings, **options)
    saved = {"checkpoint": tmp_path / "learner.npz", "checkpoint_every": 100}
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, n_batches)
        with pytest.raises(StopHereError):
            continued(learner, signals, 1100, **saved)
    reached = learner.n_samples
    options = {**options, **saved}
    assert 0 <= n_batches * settings.batch_size - reached <= 8  # an epoch of 300 ends in a shorter batch
    if n_batches > 16:
        assert 0 <= reached - TwoPhaseLearner.load(tmp_path / "learner.npz").n_samples < 100
    assert_same(learn(signals, 1100, settings=settings, **options), expected)
    # And once more, with nothing left to do.
    assert_same(learn(signals, 1100, settings=settings, **options), expected)
    # Without a checkpoint, the learner itself continues.
    assert_same(continued(learner, signals, 1100), expected)


def test_callback_sees_the_learner_and_may_stop_it(signals, tmp_path):
    seen = []
    learn(signals, 2500, callback=lambda learner: seen.append(learner.n_samples))
    assert [n // 1000 for n in seen] == [1, 2, 2]
    assert seen[-1] == 2500

    seen.clear()
    learn(signals, 100, callback=lambda learner: seen.append(learner.n_samples), callback_every=1)
    assert seen == [16, 32, 48, 64, 80, 96, 100]

    options = {"checkpoint": tmp_path / "learner.npz"}
    stopped = learn(signals, 2500, callback=lambda learner: True, **options)
    assert 1000 <= stopped.n_samples < 1016
    assert_same(TwoPhaseLearner.load(tmp_path / "learner.npz"), stopped)
    assert_same(learn(signals, 2500, **options), learn(signals, 2500))


def test_an_error_of_the_callback_passes_with_what_was_learned(signals):
    def fail(learner):
        raise StopHereError("mine")

    learner = begun(signals)
    with pytest.raises(StopHereError, match="mine"):
        continued(learner, signals, 2500, callback=fail)
    assert learner.n_samples >= 1000
    assert_same(learner, learn(signals, learner.n_samples))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an interval timer")
@pytest.mark.parametrize("delay", [0.02, 0.0319, 0.0532])
def test_ctrl_c_leaves_whole_batches(signals, monkeypatch, delay):
    """Even where most of the time goes into changing weights, which are those after some batch."""
    plain = updates.change_rows
    calls = []

    def slowly(*arguments):
        plain(*arguments)
        calls.append(1)
        if len(calls) == 5:  # two a batch
            # Again after seconds, because Python ignores what is raised in the middle of collecting garbage.
            signal.setitimer(signal.ITIMER_REAL, delay, 5.0)
        time.sleep(1e-3)

    monkeypatch.setattr(updates, "change_rows", slowly)
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    learner = begun(signals)
    try:
        with pytest.raises(KeyboardInterrupt):
            continued(learner, signals, 1_000_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
    assert learner.n_samples >= 32
    assert_same(learner, learn(signals, learner.n_samples))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda learner: pickle.loads(pickle.dumps(learner))])
def test_copies_go_on_by_themselves(signals, copied):
    learner = learn(signals, 320)
    other = copied(learner)
    assert_same(other, learner)
    learner.learn(signals[:16])
    assert other.n_samples == 320
    other.learn(signals[:16])
    assert_same(other, learner)


def test_saved_learners_go_on_bit_for_bit(signals, tmp_path):
    learner = learn(signals, 1600, replace_dead=True)
    learner.save(tmp_path / "learner.npz")
    other = TwoPhaseLearner.load(tmp_path / "learner.npz")
    assert other.settings.as_text() == learner.settings.as_text()
    assert (other.scale, other.replace_dead) == (learner.scale, True)
    for some in (learner, other):
        some.learn(signals[:16])
    assert_same(other, learner)


@pytest.mark.parametrize("settings", [USAGE, PAPER, replace(USAGE, time_step=0.25, kappa=0.3)])
def test_settings_survive_as_text(settings):
    again = LearningSettings.from_text(settings.as_text())
    assert again == settings


def test_files_have_the_names_of_read_outs_that_the_first_files_had():
    for readout, filed in (("rate", "counts"), ("current", "currents")):
        text = LearningSettings(penalty=0.1, readout=readout).as_text()
        assert f'"readout": "{filed}"' in text
        assert LearningSettings.from_text(text).readout == readout


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"settings": replace(USAGE, penalty=0.06)}, "settings"),
        ({"settings": PAPER}, "settings"),
        ({"replace_dead": True}, "replace_dead"),
        ({"n_atoms": 9}, "number of atoms"),
        ({"rng": 4}, "seed"),
        ({"start": np.eye(8, 12) + 0.1, "rng": None}, "start"),
        ({"signals": 2.0}, "data"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_checkpoint_of_something_else_is_refused(signals, tmp_path, changes, what):
    path = tmp_path / "learner.npz"
    learn(signals, 100, checkpoint=path)
    before = path.read_bytes()
    changes = dict(changes)
    values = signals * changes.pop("signals", 1.0)
    with pytest.raises(ValueError, match=f"checkpoint '.*learner.npz' was made with other {what}: give it"):
        learn(values, 200, checkpoint=path, **changes)
    assert path.read_bytes() == before


def test_a_checkpoint_without_a_seed_goes_on_with_its_own(signals, tmp_path):
    path = tmp_path / "learner.npz"
    first = learn(signals, 100, rng=None, checkpoint=path)
    second = learn(signals, 200, rng=None, checkpoint=path)
    assert (first.n_samples, second.n_samples) == (100, 200)
    with pytest.raises(ValueError, match="was made with other seed"):
        learn(signals, 300, rng=0, checkpoint=path)


@pytest.mark.parametrize(
    "damage", ["cut", "garbage", "empty", "another archive", "no checkpoint", "bad weights"]
)
def test_a_damaged_checkpoint_is_refused_and_kept(signals, tmp_path, damage):
    path = tmp_path / "learner.npz"
    learner = learn(signals, 100, checkpoint=path)
    whole = path.read_bytes()
    if damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "garbage":
        path.write_bytes(whole[:500] + bytes(500) + whole[1000:])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "another archive":
        np.savez(path, weights=np.ones(3))
    elif damage == "no checkpoint":
        learner.save(path)  # a learner, but not of learn_dictionary
    else:
        with np.load(path) as entries:
            changed = {**entries, "lateral": -entries["lateral"]}
        np.savez(path, **changed)
    damaged = path.read_bytes()
    with pytest.raises(
        ValueError,
        match=r"path must name a saved (TwoPhaseLearner|checkpoint of a TwoPhaseLearner); got '.*learner\.npz' ",
    ):
        learn(signals, 200, checkpoint=path)
    assert path.read_bytes() == damaged


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("entry", "value", "reason"),
    [
        ("settings", np.array("5"), "settings must be an object of JSON; got int"),
        ("settings", np.array(DEEP), "recursion"),
        ("settings", np.array('{"penalty": 0.1, "steps": 5}'), "steps must be an object of JSON; got int"),
        ("settings", np.array('{"penalty": 0.1, "steps": {"kind": []}}'), "unhashable"),
        ("settings", np.array(5.0), "settings has the wrong kind of entries, float64"),
        ("counters", np.full(5, np.inf), "counters has the wrong kind of entries, float64"),
        ("counters", np.array([100, -1, 0, 0, 0]), "counters is too small, -1"),
        ("counters", np.array([100, 1, 0, 0]), r"counters has the wrong shape, \(4,\)"),
        ("last_fired", np.full(8, 101), "last_fired is later than the 100 samples learned from"),
        ("last_fired", np.arange(7), r"last_fired has the wrong shape, \(7,\)"),
        ("last_compared", np.full(8, -1), "last_compared is too small, -1"),
        ("usage", np.full(8, np.nan), "usage is not finite"),
        ("usage", np.full(8, -1.0), "usage is too small, -1.0"),
        ("usage", np.array(1.0), r"usage has the wrong shape, \(\)"),
        ("history", np.zeros((2, 9)), r"history has the wrong shape, \(2, 9\)"),
        ("history", np.full((1, 10), np.inf), "history is not finite"),
        ("sums", np.zeros(5), r"sums has the wrong shape, \(5,\)"),
        ("scale", np.array(np.nan), "scale is not finite"),
        ("scale", np.array("1"), "scale has the wrong kind of entries, <U1"),
        ("mean_cost", np.array(-1.0), "mean_cost is too small, -1.0"),
        ("replace_dead", np.array(2), "replace_dead has the wrong kind of entries, int64"),
        ("rounding_seed", np.array(-2), "rounding_seed is too small, -2"),
        ("feedback", np.ones((12, 9)), r"feedback has the wrong shape, \(12, 9\)"),
        ("lateral", np.zeros((8, 8)), "lateral must have a positive diagonal"),
        ("feedforward", np.full((8, 12), np.nan), "feedforward is not finite"),
        ("identity", np.array("[]"), "identity must be an object of JSON; got list"),
        ("identity", np.array("{"), "Expecting property name"),
        ("identity", np.array(DEEP), "recursion"),
        ("identity", np.array(1), "identity has the wrong kind of entries, int64"),
        ("seed", np.array(0.5), "seed has the wrong kind of entries, float64"),
        ("seed", np.array([1, 2]), r"seed has the wrong shape, \(2,\)"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)  # fmt: skip
def test_an_archive_with_wrong_content_is_refused(signals, tmp_path, entry, value, reason):
    """Well formed, with every entry, but one that no learner has."""
    path = tmp_path / "learner.npz"
    learner = learn(signals, 100, checkpoint=path)
    with np.load(path) as entries:
        changed = {**entries, entry: value}
    np.savez(path, **changed)
    sentence = rf"path must name a saved (TwoPhaseLearner|checkpoint of a TwoPhaseLearner); got '.*learner\.npz' \(.*{reason}"
    with pytest.raises(ValueError, match=sentence):
        learn(signals, 200, checkpoint=path)
    assert learner.n_samples == 100


@pytest.mark.parametrize("what", ["write", "replace", "no room"])
def test_a_full_disk_leaves_the_last_checkpoint(signals, tmp_path, what):
    path = tmp_path / "learner.npz"
    learn(signals, 208, checkpoint=path)
    before = path.read_bytes()
    full = OSError(errno.ENOSPC, "No space left on device")

    def fail(*_, **__):
        raise full

    with pytest.MonkeyPatch.context() as patch:
        if what == "write":
            patch.setattr(archive.np, "savez", fail)
        elif what == "replace":
            patch.setattr(archive.os, "replace", fail)
        else:
            resource = pytest.importorskip("resource")
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
        try:
            learner = begun(signals)
            with pytest.raises(OSError, match=r"No space left|File too large"):
                continued(learner, signals, 800, checkpoint=path, checkpoint_every=200)
        finally:
            if what == "no room":
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["learner.npz"]
    # What was learned in the meantime is still at hand.
    assert 400 <= learner.n_samples < 416
    assert_same(learn(signals, 800, checkpoint=path, checkpoint_every=200), learn(signals, 800))


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_killed_processes_lose_nothing():
    """The short form of ``python -m tests.stress.kill_and_resume``."""
    options = ("--rounds", "12", "--samples", "1500", "--quiet")
    ran = run_python("-m", "tests.stress.kill_and_resume", *options)
    clean = "checkpoints lost or corrupt: 0; outcomes that differ: 0; children that failed: 0"
    assert ran.stdout.count(clean) == 5


# -- what goes wrong while learning --------------------------------------------------------------


def test_a_runaway_keeps_the_weights(data):
    atoms, signals = data
    network = TwoPhaseNetwork.consistent(atoms)
    network = TwoPhaseNetwork(network.feedforward, network.feedback, 0.1 * network.lateral)
    learner = TwoPhaseLearner(network, replace(USAGE, duration=50.0), scale=5.0)
    before = copy.deepcopy(learner)
    sentence = r"after 0 samples the network ran away: more than [0-9,]+ spikes .* weights are those before this batch"
    with pytest.raises(RunawayFeedbackError, match=sentence):
        learner.learn(signals[:16])
    assert_same(learner, before)

    learner = begun(signals, None, replace(USAGE, duration=50.0), start=network)
    with pytest.raises(RunawayFeedbackError, match=sentence):
        continued(learner, signals, 100)
    np.testing.assert_array_equal(learner.network.lateral, network.lateral)


def with_unused_atoms(atoms, signals):
    """Four more inputs that are always dark, and two atoms that see nothing else."""
    start = np.pad(random_dictionary(*atoms.shape, rng=1), ((0, 2), (0, 4)))
    start[-2:, -4:] = 0.5
    return start, np.pad(signals, ((0, 0), (0, 4)))


def test_dead_atoms_are_reported_and_replaced(data):
    start, signals = with_unused_atoms(*data)
    left = learn(signals, 3000, None, start=start)
    assert left.dead_atoms.tolist() == [8, 9]
    assert left.n_replaced == 0
    np.testing.assert_allclose(left.dictionary[8:], start[8:], atol=1e-12)

    replaced = learn(signals, 3000, None, start=start, replace_dead=True)
    assert replaced.dead_atoms.size == 0
    assert replaced.n_replaced == 2
    assert np.abs(replaced.dictionary[8:, -4:]).max() == 0.0
    assert replaced.network.consistency > 0.97
    assert replaced.history["objective"][-1] < left.history["objective"][-1]


def test_usage_of_a_replaced_atom_starts_anew(data):
    """What its weights did before would make the steps of the new ones small."""
    start, signals = with_unused_atoms(*data)
    start[:8, :12] = data[0]  # which all fire
    learner = TwoPhaseLearner(TwoPhaseNetwork.consistent(start), USAGE, scale=5.0, replace_dead=True)
    learner.usage[:] = 7.0
    learner.learn(np.vstack([signals] * 4)[:999])
    assert learner.n_replaced == 0
    np.testing.assert_array_equal(learner.usage[8:], 7.0)
    learner.learn(signals[:1])
    # One signal replaces one atom.
    assert learner.n_replaced == 1
    assert learner.usage[8:].tolist() == [0.0, 7.0]
    assert learner.usage[:8].min() >= 7.0


def test_silent_for_long_is_a_thousand_samples(data):
    start, signals = with_unused_atoms(*data)
    assert learn(signals, 992, None, start=start).dead_atoms.size == 0
    assert learn(signals, 1000, None, start=start).dead_atoms.tolist() == [8, 9]
    replaced = learn(signals, 1000, None, start=start, replace_dead=True)
    assert replaced.dead_atoms.size == 0  # they have their time again
    assert replaced.n_replaced == 2
    network = replaced.network
    np.testing.assert_allclose(np.linalg.norm(network.feedforward[8:], axis=1), 1.0, rtol=1e-14)
    product = network.feedforward @ network.feedback
    np.testing.assert_allclose(network.lateral[8:], product[8:], rtol=0, atol=1e-14)
    np.testing.assert_allclose(network.lateral[:, 8:], product[:, 8:], rtol=0, atol=1e-14)


def test_a_threshold_that_would_vanish_is_held_and_counted(data):
    """A decay out of all proportion takes everything; the network stays one that can be run."""
    atoms, signals = data
    steps = PaperSteps(step=0.05, decay=2.0, reweighting=False)
    learner = learn(signals, 600, None, replace(PAPER, steps=steps), start=atoms)
    assert learner.n_bounded > 0
    assert np.diagonal(learner.network.lateral).min() == 0.05
    assert np.isfinite(learner.dictionary).all()


def test_progress_shows_the_objective(signals, capsys):
    learn(signals, 100, progress=True)
    shown = capsys.readouterr().err
    assert "100/100" in shown
    assert "objective 0." in shown
    learn(signals, 100)
    assert capsys.readouterr().err == ""


# -- what is refused -----------------------------------------------------------------------------

GOOD = np.ones((4, 3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: learn_dictionary(np.full((4, 3), np.nan), 2, penalty=0.1), ValueError, "signals must be finite; got nan at"),
        (lambda: learn_dictionary(np.full((4, 3), np.inf), 2, penalty=0.1), ValueError, "signals must be finite; got inf at"),
        (lambda: learn_dictionary(-GOOD, 2, penalty=0.1), ValueError, r"signals must not be negative \(split them into .*\); got -1.0"),
        (lambda: learn_dictionary(GOOD[0], 2, penalty=0.1), ValueError, r"signals must be 2-D, .*; got shape \(3,\)"),
        (lambda: learn_dictionary(GOOD[:0], 2, penalty=0.1), ValueError, r"signals must not be empty; got shape \(0, 3\)"),
        (lambda: learn_dictionary(0.0 * GOOD, 2, penalty=0.1), ValueError, "signals must not all be zero"),
        (lambda: learn_dictionary("x", 2, penalty=0.1), TypeError, "signals must be an array of real numbers"),
        (lambda: learn_dictionary(GOOD, penalty=0.1), TypeError, "n_atoms must be given"),
        (lambda: learn_dictionary(GOOD, 0, penalty=0.1), ValueError, "n_atoms must be positive; got 0"),
        (lambda: learn_dictionary(GOOD, 2.5, penalty=0.1), TypeError, "n_atoms must be an integer; got float"),
        (lambda: learn_dictionary(GOOD, 2), TypeError, "penalty must be given"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.0), ValueError, "penalty must be positive; got 0.0"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, settings=USAGE), TypeError, "penalty must not be given twice"),
        (lambda: learn_dictionary(GOOD, 2, settings="fast"), TypeError, "settings must be a LearningSettings; got str"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, n_samples=0), ValueError, "n_samples must be positive; got 0"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, start=np.ones((3, 3))), ValueError, "start has 3 atoms but n_atoms is 2"),
        (lambda: learn_dictionary(GOOD, penalty=0.1, start=np.ones((3, 4))), ValueError, "start has 4 inputs but signals have 3 features"),
        (lambda: learn_dictionary(GOOD, penalty=0.1, start=-np.ones((2, 3))), ValueError, "start must not be negative"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, n_jobs=0), ValueError, "n_jobs must not be 0"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, progress=1), TypeError, "progress must be True or False; got 1"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, replace_dead=1), TypeError, "replace_dead must be True or False; got 1"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, callback=3), TypeError, "callback must be callable; got int"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, checkpoint=3), TypeError, "checkpoint must be a path; got int"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, checkpoint="/no/such/file"), ValueError, "checkpoint must lie in a folder that exists; got '/no/such/file'"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, checkpoint_every=0), ValueError, "checkpoint_every must be positive; got 0"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, callback_every=0), ValueError, "callback_every must be positive; got 0"),
        (lambda: LearningSettings(penalty=0.1, kappa=1.0), ValueError, r"kappa must lie in \[0, 1\); got 1.0"),
        (lambda: LearningSettings(penalty=0.1, kappa=0.0), ValueError, "kappa must be positive"),
        (lambda: LearningSettings(penalty=0.1, duration=-1.0), ValueError, "duration must be positive; got -1.0"),
        (lambda: LearningSettings(penalty=0.1, amplitude=0.0), ValueError, "amplitude must be positive; got 0.0"),
        (lambda: LearningSettings(penalty=0.1, readout="counts"), ValueError, "readout must be one of 'rate', 'current'; got 'counts'"),
        (lambda: LearningSettings(penalty=0.1, time_step=0.0), ValueError, "time_step must be positive; got 0.0"),
        (lambda: LearningSettings(penalty=0.1, integration="rk4"), ValueError, "integration must be one of 'exact', 'euler'; got 'rk4'"),
        (lambda: LearningSettings(penalty=0.1, integration=None), TypeError, "integration must be one of 'exact', 'euler'; got NoneType"),
        (lambda: LearningSettings(penalty=0.1, steps="small"), TypeError, "steps must be UsageSteps or PaperSteps; got str"),
        (lambda: LearningSettings(penalty=0.1, batch_size=0), ValueError, "batch_size must be positive; got 0"),
        (lambda: UsageSteps(gain=0.0), ValueError, "gain must be positive; got 0.0"),
        (lambda: UsageSteps(caution=-1.0), ValueError, "caution must not be negative; got -1.0"),
        (lambda: UsageSteps(lateral_gain=2.0), ValueError, "lateral_gain must be less than 2; got 2.0"),
        (lambda: UsageSteps(patience=0.0), ValueError, "patience must be positive; got 0.0"),
        (lambda: PaperSteps(decay=-1.0), ValueError, "decay must not be negative; got -1.0"),
        (lambda: PaperSteps(reweighting=1), TypeError, "reweighting must be True or False; got 1"),
        (lambda: TwoPhaseLearner("network", USAGE, scale=1.0), TypeError, "network must be a TwoPhaseNetwork; got str"),
        (lambda: TwoPhaseLearner(random_network(2, 3, rng=0), USAGE, scale=0.0), ValueError, "scale must be positive; got 0.0"),
        (lambda: TwoPhaseLearner(random_network(2, 3, rng=0), USAGE, scale=1e160), ValueError, "scale must lie between 1e-152 and 1e.152, .*; got 1e.160: change the unit of the signals"),
        (lambda: learn_dictionary(GOOD, 2, penalty=1.7e308), ValueError, "penalty must be at most 1e.150 in units of the network, .*; got 1.7e.308"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, start="abc"), TypeError, "start must be an array of real numbers; got dtype <U3"),
        (lambda: TwoPhaseLearner(random_network(2, 3, rng=0), USAGE, scale=1.0).learn(np.ones((2, 4))), ValueError, r"signals must have shape \(any, 3\)"),
        (lambda: TwoPhaseLearner(random_network(2, 3, rng=0), USAGE, scale=1.0).learn(GOOD, n_threads=np.inf), TypeError, "n_threads must be an integer; got float"),
        (lambda: continue_learning("learner", GOOD), TypeError, "learner must be a TwoPhaseLearner; got str"),
        (lambda: continue_learning(new_learner(GOOD, 2, penalty=0.1), np.ones((4, 5))), ValueError, r"signals must have shape \(any, 3\)"),
        (lambda: TwoPhaseLearner.load("/no/such/file"), FileNotFoundError, "No such file"),
        (lambda: random_dictionary(0, 3), ValueError, "n_atoms must be positive; got 0"),
    ],
)  # fmt: skip
def test_nonsense_gets_one_clear_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "large", [1.0]])
@pytest.mark.parametrize(
    ("steps", "option"), [(kind, each.name) for kind in (UsageSteps, PaperSteps) for each in fields(kind)]
)
def test_every_option_of_the_steps_is_checked(steps, option, value):
    with pytest.raises((TypeError, ValueError), match=f"^{option} must .*; got"):
        steps(**{option: value})


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "fast", [1.0]])
@pytest.mark.parametrize(
    "option", ["kappa", "duration", "amplitude", "initial_potential", "time_step", "batch_size"]
)
@pytest.mark.parametrize("positive_atoms", [False, True])
def test_every_number_of_the_settings_is_checked(option, value, positive_atoms):
    with pytest.raises((TypeError, ValueError), match=f"^{option} must .*; got"):
        LearningSettings(penalty=0.1, positive_atoms=positive_atoms, **{option: value})


def test_amplitude_is_the_root_mean_square_norm():
    signals = np.array([[3.0, 4.0], [0.0, 0.0]])
    assert amplitude_scale(signals, 5.0) == pytest.approx(5.0 / np.sqrt(12.5))
    # Squares of these, summed, are near the ends of the range of floats.
    assert amplitude_scale(1e149 * signals, 5.0) == pytest.approx(5e-149 / np.sqrt(12.5))
    assert amplitude_scale(1e-149 * signals, 5.0) == pytest.approx(5e149 / np.sqrt(12.5))


@pytest.mark.parametrize("unit", [1e-310, 1e-160, 1e-149, 1e-100, 1e100, 1e149, 1e153, 1e160, 1e300])
@pytest.mark.parametrize("steps", [UsageSteps(), PaperSteps(step=0.05)])
def test_tiny_and_huge_units_learn_or_are_refused(signals, unit, steps):
    """Never a warning, an infinite objective or a bare error of arithmetic."""
    settings = replace(USAGE, penalty=unit * PENALTY, steps=steps)
    if 1e-150 < unit < 1e150:
        learner = learn(unit * signals, 1100, settings=settings)
        plain = learn(signals, 1100, settings=replace(USAGE, steps=steps))
        np.testing.assert_allclose(learner.dictionary, plain.dictionary, rtol=0, atol=1e-6)
        ratio = learner.history["objective"] / unit / plain.history["objective"] / unit
        np.testing.assert_allclose(ratio, 1.0, rtol=1e-6)
        return
    sentence = "signals must have a root mean square norm between 1e-150 and 1e.150, .*: change their unit"
    with pytest.raises(ValueError, match=sentence):
        learn(unit * signals, 100, settings=settings)


def test_a_network_whose_atoms_all_vanished_is_symmetric():
    network = TwoPhaseNetwork(np.zeros((2, 3)), np.zeros((3, 2)), np.eye(2))
    assert network.symmetry == 1.0
    assert network.consistency == 0.0
    assert TwoPhaseNetwork(np.ones((2, 3)), np.zeros((3, 2)), np.eye(2)).symmetry == -np.inf

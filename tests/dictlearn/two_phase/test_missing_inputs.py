"""Unknown inputs: the code and the gradients are those of the known inputs alone."""

# ruff: noqa: E501 - a case a line reads better

from dataclasses import replace

import numpy as np
import pytest

from dictlearn import (
    LearningSettings,
    PaperSteps,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    check_gradients,
    continue_learning,
    learn_dictionary,
    mean_objective,
    new_learner,
    random_dictionary,
    random_network,
    rules,
)
from dictlearn.signals import amplitude_scale
from dictlearn.two_phase.gradient_check import limiting_codes
from dictlearn.two_phase.phases import join_phases
from snn import simulate
from solvers import LassoProblem, solve_active_set
from tests.dictlearn.two_phase.networks import N_ATOMS, N_INPUTS, mismatched, sparse_codes, sparse_dictionary
from tests.dictlearn.two_phase.test_learner import StopHereError, assert_same, planted, stop_at

PENALTY = 0.1
SETTINGS = LearningSettings(penalty=0.05, batch_size=16)
CLOCKS = [{}, {"time_step": 1 / 32}, {"time_step": 1 / 4}, {"time_step": 1 / 32, "integration": "euler"}]


@pytest.fixture(scope="module")
def dictionary():
    return sparse_dictionary()


@pytest.fixture(scope="module")
def task(dictionary):
    """Signals, and which of their inputs are known: two fifths are not; one signal is whole, of one nothing."""
    rng = np.random.default_rng(2)
    signals = sparse_codes(6, N_ATOMS, 0.1, rng) @ dictionary + 0.02 * rng.uniform(size=(6, N_INPUTS))
    mask = rng.uniform(size=signals.shape) < 0.6
    mask[0], mask[1] = True, False
    return signals, mask


@pytest.fixture(scope="module")
def learned():
    """Atoms, signals and a mask to learn from."""
    atoms, signals = planted(8, 12, 300)
    return atoms, signals, np.random.default_rng(5).uniform(size=signals.shape) < 0.6


def masked_optimum(dictionary, signal, known, penalty=PENALTY):
    """The columns that are unknown left out of the problem."""
    problem = LassoProblem(dictionary[:, known], signal[np.newaxis, known], penalty, positive=True)
    return solve_active_set(problem).codes[0]


# -- the code ------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.7])
def test_a_consistent_network_has_the_code_of_the_known_inputs(dictionary, task, gamma):
    """With the lateral weights of all inputs, whatever gamma."""
    signals, mask = task
    network = TwoPhaseNetwork.consistent(dictionary)
    optimum = masked_optimum(dictionary, signals[2], mask[2])
    errors = []
    for duration in (1000.0, 10_000.0):
        layers = network.spiking_network(signals[2], penalty=PENALTY, gamma=gamma, mask=mask[2])
        errors.append(np.abs(simulate(layers, duration).spike_rate[N_INPUTS:] - optimum).max())
    assert errors[1] < 20.0 / (1.0 - gamma) / 10_000.0
    assert errors[1] < errors[0] / 4.0
    # Far from the code of the whole signal, and of one with zeros for what is unknown.
    for signal in (signals[2], signals[2] * mask[2]):
        other = masked_optimum(dictionary, signal, np.ones(N_INPUTS, dtype=bool))
        assert np.abs(optimum - other).max() > 0.05


def test_limiting_codes_are_those_of_the_known_inputs(dictionary, task):
    signals, mask = task
    network = TwoPhaseNetwork.consistent(dictionary)
    codes = limiting_codes(network, signals, penalty=PENALTY, mask=mask)
    assert not codes[1].any()
    for code, signal, known in zip(codes[2:], signals[2:], mask[2:], strict=True):
        np.testing.assert_allclose(code, masked_optimum(dictionary, signal, known), rtol=0, atol=1e-8)


def test_a_batch_runs_each_signal_as_its_own_network_would(dictionary, task):
    """In a batch a second neuron of each input stands for it where it is unknown."""
    network = mismatched(dictionary, 0.05)
    signals, mask = task
    options = {"penalty": PENALTY, "duration": 30.0, "initial_potential": 0.5}
    phases = network.run(signals, mask=mask, **options)
    for row in (0, 1, 2):
        spikes = network.spikes(signals[row], mask=mask[row], **options)
        for k, phase in enumerate(phases):
            times = (spikes.times > 30.0 * k) & (spikes.times <= 30.0 * (k + 1))
            counts = np.bincount(spikes.neurons[times], minlength=N_INPUTS + N_ATOMS)
            seen = np.hstack([phase.input_rate, phase.coding_rate])[row] * 30.0
            np.testing.assert_allclose(counts, seen, atol=1e-9)


@pytest.mark.parametrize("clock", CLOCKS[:2], ids=["events", "clock"])
def test_nothing_else_changes_a_row(dictionary, task, clock):
    """Batch mates, threads, what stands where a signal is unknown; a mask of True alone is none."""
    signals, mask = task
    network = mismatched(dictionary, 0.05)
    options = {"penalty": PENALTY, "duration": 5.0, **clock}
    together = network.run(signals, mask=mask, **options)
    others = [
        network.run(np.where(mask, signals, np.nan), mask=mask, n_jobs=3, **options),
        join_phases([network.run(signals[k : k + 1], mask=mask[k : k + 1], **options) for k in range(6)]),
    ]
    plain = network.run(signals[:1], **options)
    for k, phase in enumerate(together):
        for name, value in vars(phase).items():
            for other in others:
                np.testing.assert_array_equal(getattr(other[k], name), value)
            if name != "duration":
                np.testing.assert_array_equal(getattr(plain[k], name), value[:1])


# -- the gradients -------------------------------------------------------------------------------


def masked_gradients(network, codes, signals, mask, kappa):
    """Of 1/2 ||m (x - B a)||^2, and of the mismatch, which no mask concerns."""
    residual = np.zeros(signals.shape)
    for k, (code, signal, known) in enumerate(zip(codes, signals, mask, strict=True)):
        residual[k, known] = network.feedback[known] @ code - signal[known]
    mismatch = network.lateral - network.feedforward @ network.feedback
    return kappa * residual, kappa * codes @ mismatch.T


@pytest.mark.parametrize("clock", CLOCKS, ids=["events", "1/32", "1/4", "1/32, Euler"])
@pytest.mark.parametrize("duration", [1.0, 20.0])
@pytest.mark.parametrize("strength", [0.0, 0.05])
def test_gradients_from_currents_are_exact(dictionary, task, strength, duration, clock):
    """However short the phases, for any F, B, H and mask."""
    signals, mask = task
    network = mismatched(dictionary, strength)
    phases = network.run(signals, penalty=PENALTY, mask=mask, duration=duration, **clock)
    codes = phases[1].coding_trace
    true_d, true_h = masked_gradients(network, codes, signals, mask, 0.7)
    seen_d = rules.reconstruction_gradient(*phases, mask=mask)
    seen_h = rules.lateral_gradient(network.feedforward, network.lateral, *phases, kappa=0.7, mask=mask)
    np.testing.assert_allclose(seen_d, true_d, rtol=0, atol=1e-13)
    np.testing.assert_allclose(seen_h, true_h, rtol=0, atol=1e-13)
    assert not seen_d[~mask].any()
    if duration == 20.0:
        assert np.abs(true_d).max() > 0.1
        # Without the mask the rules would read what the two codes predicted differently as an error.
        plain = rules.lateral_gradient(network.feedforward, network.lateral, *phases, kappa=0.7)
        assert np.abs(plain - true_h).max() > 1e-2


def test_counted_gradients_are_true_to_one_over_the_duration(dictionary, task):
    signals, mask = task
    network = mismatched(dictionary, 0.05)
    durations = 250.0 * 2.0 ** np.arange(4)
    errors = []
    for duration in durations:
        phases = network.run(signals, penalty=PENALTY, mask=mask, duration=duration)
        true = masked_gradients(network, phases[1].coding_rate, signals, mask, 0.7)
        seen = (
            rules.reconstruction_gradient(*phases, readout="rate", mask=mask),
            rules.lateral_gradient(
                network.feedforward, network.lateral, *phases, kappa=0.7, readout="rate", mask=mask
            ),
        )
        errors.append([np.abs(ours - theirs).max() for ours, theirs in zip(seen, true, strict=True)])
    for values in np.transpose(errors):
        assert -1.35 < np.polyfit(np.log(durations), np.log(values), 1)[0] < -0.65


@pytest.mark.parametrize("strength", [0.0, 0.02])
def test_the_gradient_check_compares_with_masked_gradients(dictionary, task, strength):
    """Errors fall as 1 / T to the gradient at the masked optimum, which the test computes itself."""
    signals, mask = task
    network = mismatched(dictionary, strength)
    durations = [125.0, 1000.0]
    check = check_gradients(network, signals, penalty=PENALTY, durations=durations, mask=mask)
    assert check.signals.tolist() == [0, 2, 3, 4, 5]
    for layer in ("feedforward", "feedback") if strength == 0.0 else ("feedback", "lateral"):
        errors = check.mean("error", "rate", layer)
        assert errors[1] < errors[0] / 4.0
    assert check.mean("cosine", "current", "feedback")[1] > 0.99
    # One of them by hand.
    phases = network.run(signals, penalty=PENALTY, mask=mask, duration=1000.0, initial_potential=0.5)
    seen = rules.reconstruction_gradient(*phases, mask=mask)[2] / 0.7
    code = check.codes[1]
    true = np.where(mask[2], network.feedback @ code - signals[2], 0.0)
    update = np.outer(seen, phases[1].coding_trace[2])
    gradient = np.outer(true, code)
    error = np.linalg.norm(update - gradient) / np.linalg.norm(gradient)
    assert check.error[1, 1, 1, 1] == pytest.approx(error, rel=1e-9)


# -- learning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [{}, {"steps": PaperSteps(step=0.05), "batch_size": 4}])
def test_a_mask_that_hides_nothing_changes_nothing(learned, steps):
    _, signals, mask = learned
    settings = replace(SETTINGS, **steps)
    options = {"settings": settings, "n_samples": 200, "rng": 3}
    expected = learn_dictionary(signals, 8, **options)
    other = learn_dictionary(signals, 8, mask=np.ones_like(mask), **options)
    # The scale is the mean over the known values of each input: the same but for rounding.
    np.testing.assert_allclose(other.dictionary, expected.dictionary, rtol=0, atol=1e-9)
    learner = new_learner(signals, 8, settings=settings, rng=3)
    again = new_learner(signals, 8, settings=settings, rng=3)
    for first in range(0, 160, 16):
        learner.learn(signals[first : first + 16])
        again.learn(signals[first : first + 16], mask=np.ones((16, 12), dtype=bool))
    assert_same(again, learner)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_what_is_unknown_is_not_looked_at(learned, n_jobs):
    _, signals, mask = learned
    options = {"mask": mask, "settings": SETTINGS, "n_samples": 400, "rng": 3}
    expected = learn_dictionary(signals, 8, **options)
    rng = np.random.default_rng(9)
    for value in (np.nan, -1.0, np.inf, 1e308, rng.uniform(size=signals.shape)):
        other = learn_dictionary(np.where(mask, signals, value), 8, n_jobs=n_jobs, **options)
        assert_same(other, expected)


@pytest.mark.thorough
def test_half_of_the_inputs_teach_a_planted_dictionary():
    """Learning stays where all inputs would have it; with zeros or means filled in it goes elsewhere."""
    atoms, signals = planted(12, 24, 3000, seed=1)
    signals, held_out = signals[:-300], signals[-300:]
    mask = np.random.default_rng(0).uniform(size=signals.shape) < 0.5
    means = (signals * mask).sum(axis=0) / mask.sum(axis=0)
    start = atoms + 0.5 * random_dictionary(12, 24, rng=1)
    settings = replace(SETTINGS, duration=20.0, time_step=1 / 16)
    options = {"settings": settings, "n_samples": 6_000, "start": start, "rng": 2}

    def objective(learner):
        return mean_objective(learner.dictionary, held_out, penalty=0.05).objective

    whole = objective(learn_dictionary(signals, **options))
    masked = learn_dictionary(signals, mask=mask, **options)
    assert objective(masked) < 1.05 * whole
    for filled in (0.0, means):
        assert objective(learn_dictionary(np.where(mask, signals, filled), **options)) > 1.2 * whole
    assert masked.network.consistency > 0.98
    np.testing.assert_allclose(np.linalg.norm(masked.network.feedback, axis=0), 1.0, atol=0.05)


def test_consistent_weights_come_of_any_others_with_inputs_unknown(learned):
    _, signals, mask = learned
    start = random_network(8, 12, rng=1)
    learner = learn_dictionary(signals, mask=mask, start=start, settings=SETTINGS, n_samples=8000, rng=3)
    assert start.consistency < 0.8
    assert learner.network.consistency > 0.95
    assert learner.history["symmetry"][-1] > learner.history["symmetry"][0]


def test_the_objective_of_the_history_is_that_of_known_inputs(learned):
    """At long phases that of the exact codes."""
    atoms, signals, mask = learned
    settings = replace(SETTINGS, duration=500.0, time_step=None, batch_size=20, penalty=0.1)
    network = TwoPhaseNetwork.consistent(atoms)
    learner = TwoPhaseLearner(network, settings, scale=5.0)
    seen = learner.learn(signals[:20], mask=mask[:20])
    total = 0.0
    for signal, known in zip(signals[:20], mask[:20], strict=True):
        code = masked_optimum(atoms, signal, known, penalty=0.1)
        total += 0.5 * ((signal - code @ atoms)[known] ** 2).sum() + 0.1 * code.sum()
    assert seen == pytest.approx(total / 20.0, rel=0.03)


def test_an_input_that_is_never_known_is_left_to_the_others(learned):
    """Weights decay where nothing was ever seen: norms of one are worth more elsewhere."""
    _, signals, mask = learned
    mask = mask.copy()
    mask[:, 3] = False
    learner = learn_dictionary(signals, 8, mask=mask, settings=SETTINGS, n_samples=12_000, rng=3)
    start = random_dictionary(8, 12, rng=3)
    assert learner.dictionary[:, 3].mean() < 0.2 * start[:, 3].mean()


@pytest.mark.parametrize("n_batches", [0, 3, 17])
def test_a_run_that_failed_anywhere_goes_on_bit_for_bit(learned, tmp_path, n_batches):
    _, signals, mask = learned
    options = {"mask": mask, "settings": SETTINGS, "n_samples": 500, "rng": 3}
    expected = learn_dictionary(signals, 8, **options)
    saved = {**options, "checkpoint": tmp_path / "learner.npz", "checkpoint_every": 32}
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, n_batches)
        with pytest.raises(StopHereError):
            learn_dictionary(signals, 8, **saved)
    assert_same(learn_dictionary(signals, 8, **saved), expected)
    for other in (None, ~mask):
        with pytest.raises(ValueError, match="was made with other data"):
            learn_dictionary(signals, 8, **{**saved, "n_samples": 600, "mask": other})


def test_a_checkpoint_does_not_depend_on_what_is_unknown(learned, tmp_path):
    _, signals, mask = learned
    options = {"mask": mask, "settings": SETTINGS, "rng": 3}
    expected = learn_dictionary(signals, 8, n_samples=64, **options)
    saved = {**options, "checkpoint": tmp_path / "learner.npz"}
    learn_dictionary(np.where(mask, signals, np.nan), 8, n_samples=32, **saved)
    assert_same(learn_dictionary(np.where(mask, signals, 7.0), 8, n_samples=64, **saved), expected)


def test_a_batch_run_in_parts_is_the_batch(learned):
    """As workers do it: a plan, parts of its rows, probes among them, and one update."""
    _, signals, mask = learned
    for known in (None, mask):
        whole = new_learner(signals, 8, mask=known, settings=SETTINGS, rng=3)
        parts = new_learner(signals, 8, mask=known, settings=SETTINGS, rng=3)
        for first in range(0, 200, 20):
            rows = slice(first, first + 20)
            batch_mask = None if known is None else known[rows]
            objective = whole.learn(signals[rows], mask=batch_mask)
            plan = parts.plan(20)
            assert plan.n_rows == 25
            phases = []
            for start, stop in ((0, 7), (7, 19), (19, 23), (23, 25)):
                some = slice(start, stop)
                phases.append(
                    plan.run(
                        parts.synapses,
                        signals[rows][some],
                        None if known is None else batch_mask[some],
                        start=start,
                        stop=stop,
                    )
                )
            assert parts.apply(plan, join_phases(phases), batch_mask) == objective
        assert_same(parts, whole)


def test_one_mask_for_all_signals(learned):
    _, signals, mask = learned
    options = {"settings": SETTINGS, "n_samples": 200, "rng": 3}
    expected = learn_dictionary(signals, 8, mask=np.tile(mask[0], (300, 1)), **options)
    assert_same(learn_dictionary(signals, 8, mask=mask[0], **options), expected)


def test_scale_of_known_values():
    signals = np.array([[3.0, 4.0], [np.nan, 4.0], [1.0, np.nan]])
    mask = ~np.isnan(signals)
    assert amplitude_scale(signals, 5.0, mask) == pytest.approx(5.0 / np.sqrt((9.0 + 1.0) / 2.0 + 16.0))


# -- what is refused -----------------------------------------------------------------------------

GOOD = np.ones((4, 3))
HOLES = np.where(np.eye(4, 3) > 0, np.nan, GOOD)
LEARNER = new_learner(GOOD, 2, penalty=0.1, rng=0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: learn_dictionary(HOLES, 2, penalty=0.1), ValueError, r"signals must be finite; got nan at \[0, 0\]: if it is missing, pass mask=~np.isnan\(signals\)"),
        (lambda: learn_dictionary(HOLES, 2, penalty=0.1, mask=GOOD > 0), ValueError, r"signals must be finite where mask is True; got nan at \[0, 0\]"),
        (lambda: learn_dictionary(-GOOD, 2, penalty=0.1, mask=GOOD > 0), ValueError, r"signals must not be negative \(split them .*got -1.0"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, mask=GOOD), TypeError, "mask must be an array of bool, True where a feature is known; got dtype float64"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, mask=GOOD[:, 0] > 0), ValueError, r"mask must have the shape of the signals, \(4, 3\), or of one of them, \(3,\); got shape \(4,\)"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, mask="mask"), TypeError, "mask must be an array of bool"),
        (lambda: learn_dictionary(GOOD, 2, penalty=0.1, mask=GOOD < 0), ValueError, "signals must not all be zero"),
        (lambda: continue_learning(LEARNER, GOOD, mask=GOOD[:2] > 0), ValueError, "mask must have the shape of the signals"),
        (lambda: LEARNER.learn(GOOD, mask=GOOD[:, :1] > 0), ValueError, "mask must have the shape of the signals"),
        (lambda: LEARNER.network.run(HOLES, penalty=0.1), ValueError, "signals must be finite; got nan"),
        (lambda: LEARNER.network.run(GOOD, penalty=0.1, mask=[1, 0, 1]), TypeError, "mask must be an array of bool"),
        (lambda: LEARNER.network.code(GOOD, penalty=0.1, mask=GOOD[:1] > 0), ValueError, "mask must have the shape"),
        (lambda: check_gradients(LEARNER.network, GOOD, penalty=0.1, mask=0), TypeError, "mask must be an array of bool"),
    ],
)  # fmt: skip
def test_nonsense_gets_one_clear_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()

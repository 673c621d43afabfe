"""What settings become, and what is refused: the type of the error and the name of the argument."""

# ruff: noqa: E501 - a case a line reads better

from dataclasses import replace

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
    new_learner,
    random_dictionary,
    rounded_network,
    rules,
    two_phase_to_nir,
)
from snn.digital import FixedPoint
from tests.dictlearn.two_phase.learners import OPTIONS, SIGNS, network_of

GOOD = np.ones((4, 3))
HOLES = np.where(np.eye(4, 3) > 0, np.nan, GOOD)
LEARNER = new_learner(GOOD, 2, penalty=0.1, rng=0)
NETWORK = LEARNER.network
SETTINGS = LearningSettings(penalty=0.1)
SIGNED = LearningSettings(penalty=0.1, positive_atoms=False)
F, B, H = np.ones((2, 3)), np.ones((3, 2)), np.ones((2, 2))
ZERO = np.array([[1.0, 0.0], [0.0, 0.0]])


def learn(signals=GOOD, n_atoms=2, **options):
    return learn_dictionary(signals, n_atoms, **{"penalty": 0.1, "rng": 0, "n_samples": 4, **options})


def run(signals=GOOD, **options):
    return NETWORK.run(signals, **{"penalty": 0.1, "duration": 1.0, **options})


def check(signals=GOOD, **options):
    return check_gradients(NETWORK, signals, **{"penalty": 0.1, "durations": [1.0], **options})


def settings(**options):
    return LearningSettings(**{"penalty": 0.1, **options})


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda: learn(HOLES), ValueError, r"signals .*mask=~np.isnan"),
        (lambda: learn(np.full((4, 3), np.inf)), ValueError, "signals"),
        (lambda: learn(-GOOD), ValueError, "signals must not be negative"),
        (lambda: learn(GOOD[0]), ValueError, "signals"),
        (lambda: learn(GOOD[:0]), ValueError, "signals"),
        (lambda: learn(0.0 * GOOD), ValueError, "signals must not all be zero"),
        (lambda: learn("x"), TypeError, "signals"),
        (lambda: learn(HOLES, mask=GOOD > 0), ValueError, r"signals .* mask .*\[0, 0\]"),
        (lambda: learn(-GOOD, mask=GOOD > 0), ValueError, "signals must not be negative"),
        (lambda: learn(mask=GOOD), TypeError, "mask"),
        (lambda: learn(mask=GOOD[:, 0] > 0), ValueError, "mask"),
        (lambda: learn(mask="mask"), TypeError, "mask"),
        (lambda: learn(mask=GOOD < 0), ValueError, "signals must not all be zero"),
        (lambda: learn(n_atoms=None), TypeError, "n_atoms"),
        (lambda: learn(n_atoms=0), ValueError, "n_atoms"),
        (lambda: learn(n_atoms=2.5), TypeError, "n_atoms"),
        (lambda: learn(penalty=None), TypeError, "penalty must be given"),
        (lambda: learn(penalty=0.0), ValueError, "penalty"),
        (lambda: learn(penalty=1.7e308), ValueError, "penalty"),
        (lambda: learn(penalty=[0.1, 0.1, 0.1]), ValueError, "penalty .* 2 atoms; got 3"),
        (lambda: learn(settings=SETTINGS), TypeError, "penalty must not be given twice"),
        (lambda: learn(penalty=None, settings="fast"), TypeError, "settings"),
        (lambda: learn(n_samples=0), ValueError, "n_samples"),
        (lambda: learn(start=np.ones((3, 3))), ValueError, "start has 3 atoms but n_atoms is 2"),
        (lambda: learn(start=np.ones((2, 4))), ValueError, "start has 4 inputs"),
        (lambda: learn(start=-F), ValueError, "start"),
        (lambda: learn(start=np.eye(3)[:2] * [[1.0], [0.0]]), ValueError, "start .* atom 1"),
        (lambda: learn(start="abc"), TypeError, "start"),
        (lambda: learn(start=TwoPhaseNetwork(F, B, 0.04 * H)), ValueError, "start .* thresholds"),
        (lambda: learn(penalty=None, settings=SIGNED, start=NETWORK), ValueError, "start .* positive_atoms=False"),
        (lambda: learn(n_jobs=0), ValueError, "n_jobs"),
        (lambda: learn(progress=1), TypeError, "progress"),
        (lambda: learn(replace_dead=1), TypeError, "replace_dead"),
        (lambda: learn(callback=3), TypeError, "callback"),
        (lambda: learn(callback_every=0), ValueError, "callback_every"),
        (lambda: learn(checkpoint=3), TypeError, "checkpoint"),
        (lambda: learn(checkpoint="/no/such/file"), ValueError, "checkpoint"),
        (lambda: learn(checkpoint_every=0), ValueError, "checkpoint_every"),
        (lambda: continue_learning(LEARNER, GOOD, any_start=1), TypeError, "any_start"),
        (lambda: continue_learning("learner", GOOD), TypeError, "learner"),
        (lambda: continue_learning(LEARNER, np.ones((4, 5))), ValueError, "signals"),
        (lambda: continue_learning(LEARNER, GOOD, mask=GOOD[:2] > 0), ValueError, "mask"),
        (lambda: LEARNER.learn(np.ones((2, 4))), ValueError, "signals"),
        (lambda: LEARNER.learn(GOOD, mask=GOOD[:, :1] > 0), ValueError, "mask"),
        (lambda: LEARNER.learn(GOOD, n_threads=np.inf), TypeError, "n_threads"),
        (lambda: TwoPhaseLearner("network", SETTINGS, scale=1.0), TypeError, "network"),
        (lambda: TwoPhaseLearner(NETWORK, "settings", scale=1.0), TypeError, "settings"),
        (lambda: TwoPhaseLearner(NETWORK, SIGNED, scale=1.0), ValueError, "network .* positive_atoms=False"),
        (lambda: TwoPhaseLearner(NETWORK, SETTINGS, scale=0.0), ValueError, "scale"),
        (lambda: TwoPhaseLearner(NETWORK, SETTINGS, scale=1.1e152), ValueError, "scale"),
        (lambda: TwoPhaseLearner(NETWORK, SETTINGS, scale=0.9e-152), ValueError, "scale"),
        (lambda: TwoPhaseLearner(NETWORK, settings(penalty=[0.1]), scale=1.0), ValueError, "penalty"),
        (lambda: TwoPhaseLearner(NETWORK, settings(penalty=2e150), scale=1.0), ValueError, "penalty"),
        (lambda: TwoPhaseLearner(NETWORK, SETTINGS, scale=1.0, replace_dead=1), TypeError, "replace_dead"),
        (lambda: TwoPhaseLearner(NETWORK, SETTINGS, scale=1.0, rounding_seed=-1), ValueError, "rounding_seed"),
        (lambda: TwoPhaseLearner(NETWORK, SETTINGS, scale=1.0, rounding_seed=0.5), TypeError, "rounding_seed"),
        (lambda: TwoPhaseLearner.load("/no/such/file"), FileNotFoundError, "No such file"),
        (lambda: random_dictionary(0, 3), ValueError, "n_atoms"),
        (lambda: random_dictionary(3, 0), ValueError, "n_inputs"),
        (lambda: random_dictionary(2, 3, positive=1), TypeError, "positive"),
        (lambda: TwoPhaseNetwork(F, F, H), ValueError, "feedback"),
        (lambda: TwoPhaseNetwork(F, B, F), ValueError, "lateral"),
        (lambda: TwoPhaseNetwork(-F, B, H), ValueError, "feedforward must not be negative"),
        (lambda: TwoPhaseNetwork(F, -B, H), ValueError, "feedback must not be negative"),
        (lambda: TwoPhaseNetwork(F, B, ZERO), ValueError, r"lateral .*\[1, 1\]"),
        (lambda: TwoPhaseNetwork(F, B, -np.eye(2), positive_atoms=False), ValueError, "lateral"),
        (lambda: TwoPhaseNetwork("F", B, H), TypeError, "feedforward"),
        (lambda: TwoPhaseNetwork.consistent(ZERO), ValueError, "dictionary .* atom 1"),
        (lambda: TwoPhaseNetwork.consistent(-np.eye(2)), ValueError, "dictionary must not be negative"),
        (lambda: TwoPhaseNetwork.consistent(-np.eye(2), positive_code=False), ValueError, "dictionary must not be neg"),
        (lambda: TwoPhaseNetwork.consistent(np.eye(2), positive_atoms="no"), TypeError, "positive_atoms"),
        (lambda: run(np.ones((1, 2))), ValueError, "signals"),
        (lambda: run(-GOOD), ValueError, "signals must not be negative"),
        (lambda: run(HOLES), ValueError, "signals"),
        (lambda: run(mask=[1, 0, 1]), TypeError, "mask"),
        (lambda: run(penalty=0.0), ValueError, "penalty"),
        (lambda: run(penalty=[0.1, 0.0]), ValueError, "penalty"),
        (lambda: run(kappa=1.0), ValueError, "kappa"),
        (lambda: run(kappa=0.0), ValueError, "kappa"),
        (lambda: run(duration=0.0), ValueError, "duration"),
        (lambda: run(initial_potential=1.0), ValueError, "initial_potential"),
        (lambda: run(initial_potential=-0.1), ValueError, "initial_potential"),
        (lambda: run(reweighting=[1.0]), ValueError, "reweighting"),
        (lambda: run(reweighting=[1.0, -1.0]), ValueError, "reweighting"),
        (lambda: run(time_step=0.3), ValueError, "duration .* time_step"),
        (lambda: run(time_step=0.0), ValueError, "time_step"),
        (lambda: run(integration="rk4"), ValueError, "integration"),
        (lambda: NETWORK.spikes(np.ones(3), penalty=0.1, kappa=0.0), ValueError, "kappa"),
        (lambda: NETWORK.code(GOOD, penalty=0.1, mask=GOOD[:1] > 0), ValueError, "mask"),
        (lambda: NETWORK.code(GOOD, penalty=0.1, gamma=1.0), ValueError, "gamma"),
        (lambda: NETWORK.code(GOOD, penalty=0.1, duration=-1.0), ValueError, "duration"),
        (lambda: NETWORK.spiking_network(np.ones(3), penalty=0.1, gamma=1.5), ValueError, "gamma"),
        (lambda: NETWORK.spiking_network(GOOD, penalty=0.1, gamma=0.5), ValueError, "signal must be one"),
        (lambda: rules.reconstruction_gradient(1, 2), TypeError, "without_feedback"),
        (lambda: rules.reconstruction_gradient(run()[0], 2), TypeError, "with_feedback"),
        (lambda: rules.reconstruction_gradient(*run(), readout="counts"), ValueError, "readout"),
        (lambda: rules.code(run()[0], readout="counts"), ValueError, "readout"),
        (lambda: rules.code(1), TypeError, "phase"),
        (lambda: check_gradients(1, GOOD, penalty=0.1), TypeError, "network"),
        (lambda: check(np.ones((1, 2))), ValueError, "signals"),
        (lambda: check(-GOOD), ValueError, "signals"),
        (lambda: check(mask=0), TypeError, "mask"),
        (lambda: check(penalty=20.0), ValueError, "penalty"),
        (lambda: check(durations=[2.0, 1.0]), ValueError, "durations"),
        (lambda: check(durations=[1.0, 1.0]), ValueError, "durations"),
        (lambda: check(durations=[0.0, 1.0]), ValueError, "durations"),
        (lambda: check(durations=[]), ValueError, "durations"),
        (lambda: check(kappa=1.0), ValueError, "kappa"),
        (lambda: check(initial_potential=1.0), ValueError, "initial_potential"),
        (lambda: check().mean("bias", "rate", "lateral"), ValueError, "measure"),
        (lambda: check().mean("error", "rates", "lateral"), ValueError, "readout"),
        (lambda: check().mean("error", "rate", "H"), ValueError, "layer"),
        (lambda: two_phase_to_nir(NETWORK, penalty=0.1, gamma=1.0), ValueError, "gamma"),
        (lambda: two_phase_to_nir(NETWORK, penalty=-0.1, gamma=0.5), ValueError, "penalty"),
        (lambda: two_phase_to_nir(NETWORK, penalty=0.1, gamma=0.5, reweighting=[1.0]), ValueError, "reweighting"),
        (lambda: two_phase_to_nir(NETWORK, penalty=0.1, gamma=0.5, time_constant=0.0), ValueError, "time_constant"),
        (lambda: two_phase_to_nir("network", penalty=0.1, gamma=0.5), TypeError, "network"),
        (lambda: settings(penalty=[0.1, 0.0]), ValueError, r"penalty .* \[1\]"),
        (lambda: settings(penalty=[0.1, np.nan]), ValueError, "penalty"),
        (lambda: settings(penalty=[]), ValueError, "penalty"),
        (lambda: settings(penalty=["a"]), TypeError, "penalty"),
        (lambda: settings(penalty="a"), TypeError, "penalty"),
        (lambda: settings(penalty=[[0.1]]), ValueError, "penalty"),
        (lambda: settings(kappa=1.0), ValueError, "kappa"),
        (lambda: settings(kappa=0.0), ValueError, "kappa"),
        (lambda: settings(readout="counts"), ValueError, "readout"),
        (lambda: settings(integration="rk4"), ValueError, "integration"),
        (lambda: settings(integration=None), TypeError, "integration"),
        (lambda: settings(steps="small"), TypeError, "steps"),
        (lambda: settings(positive_atoms=0), TypeError, "positive_atoms"),
        (lambda: settings(positive_signals=1), TypeError, "positive_signals"),
        (lambda: settings(positive_code=None), TypeError, "positive_code"),
        (lambda: settings(positive_atoms=False, time_step=0.3), ValueError, "duration .* time_step"),
        (lambda: settings(weight_format=8), TypeError, "weight_format"),
        (lambda: settings(weight_format=FixedPoint(bits=8, sign="non-positive")), ValueError, "weight_format"),
        (lambda: settings(weight_format=FixedPoint(bits=8, exponent=-13)), ValueError, "weight_format"),
        (lambda: replace(SIGNED, weight_format=FixedPoint(bits=8, sign="non-negative")), ValueError, "weight_format"),
        (lambda: rounded_network(network_of(SIGNS["signed atoms"]), FixedPoint(bits=8, sign="non-negative")), ValueError, "weight_format"),
        (lambda: rounded_network(1, FixedPoint(bits=8)), TypeError, "network"),
        (lambda: LearningSettings.from_text("5"), ValueError, "settings"),
        (lambda: UsageSteps(lateral_gain=2.0), ValueError, "lateral_gain"),
        (lambda: PaperSteps(reweighting=1), TypeError, "reweighting"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(call, error, name):
    with pytest.raises(error, match=name):
        call()


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "large", [1.0]])
@pytest.mark.parametrize(("steps", "option"), OPTIONS)
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
        settings(positive_atoms=positive_atoms, **{option: value})


def test_numbers_at_the_edge_are_allowed():
    for option in ("gain", "reach", "averaging", "initial_usage", "settling", "patience"):
        with pytest.raises(ValueError, match=option):
            UsageSteps(**{option: 0.0})
    for option in ("step", "halving", "lateral_ratio"):
        with pytest.raises(ValueError, match=option):
            PaperSteps(**{option: 0.0})
    assert UsageSteps(caution=0.0, probes=0.0, lateral_gain=1.99).lateral_gain == 1.99
    assert PaperSteps(decay=0.0).decay == 0.0
    for scale in (1e-152, 1e152):
        assert TwoPhaseLearner(NETWORK, settings(penalty=1e-3), scale=scale).scale == scale
    assert run(initial_potential=0.0, reweighting=[0.0, 1.0])[0].duration == 1.0
    bound = TwoPhaseNetwork(F, B, np.array([[0.05, 1.0], [1.0, 0.05]]))
    assert new_learner(GOOD, penalty=0.1, start=bound).n_atoms == 2
    # Of the smallest threshold, 0.05: 7 * 2^-7 reaches it, and 6 * 2^-7 does not.
    assert (
        settings(weight_format=FixedPoint(bits=3, sign="non-negative", exponent=-7)).weight_format.bits == 3
    )
    with pytest.raises(ValueError, match="weight_format"):
        settings(weight_format=FixedPoint(bits=3, sign="non-negative", exponent=-8))
    assert LearningSettings(penalty=[0.1, 0.2]).penalties(2).tolist() == [0.1, 0.2]
    assert LearningSettings(penalty=0.1).penalties(3).tolist() == [0.1] * 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0.1, 5.0, 1 / 32)),
        ({"positive_code": False}, (0.1, 5.0, 1 / 32)),
        ({"positive_atoms": False}, (0.1, 10.0, 1 / 16)),
        ({"positive_atoms": False, "positive_code": False}, (0.1, 10.0, 1 / 16)),
        ({"positive_atoms": False, "kappa": 0.3, "time_step": None}, (0.3, 10.0, None)),
        ({"positive_atoms": False, "readout": "rate"}, (0.7, 5.0, 1 / 32)),
        ({"positive_atoms": False, "steps": PaperSteps()}, (0.7, 5.0, 1 / 32)),
        ({"readout": "rate"}, (0.7, 5.0, 1 / 32)),
        ({"steps": PaperSteps()}, (0.7, 5.0, 1 / 32)),
    ],
)
def test_phases_suit_what_is_learned(options, expected):
    found = settings(**options)
    assert (found.kappa, found.duration, found.time_step) == expected
    assert settings(**{"duration": "auto", **options}) == found


def test_settings_of_the_paper():
    paper = LearningSettings.paper(0.1)
    assert paper == settings(
        kappa=0.7, duration=20.0, readout="rate", initial_potential=0.0, time_step=1 / 32, integration="euler",
        steps=PaperSteps(step=0.5, halving=20_000.0, lateral_ratio=15.0), batch_size=1,
    )  # fmt: skip
    assert (paper.amplitude, paper.positive_atoms, paper.positive_code, paper.positive_signals) == (
        5.0,
        True,
        True,
        True,
    )
    assert settings(positive_signals=True, positive_code=False).signs.positive_signals is False

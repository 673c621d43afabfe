"""Settings, and refusals with the type of the error and the name of the argument."""

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
    continue_learning,
    learn_dictionary,
    new_learner,
    random_dictionary,
)
from dictlearn.two_phase.rules import change_weights, project_lateral
from snn import Clock, Exact, Imperfections, RealNeuron
from snn.digital import DigitalFormat, FixedPoint
from tests.dictlearn.refused import each_refused
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


def settings(**options):
    return LearningSettings(**{"penalty": 0.1, **options})


def network(feedforward=F, feedback=B, lateral=H, **signs):
    return TwoPhaseNetwork(feedforward, feedback, lateral, **signs)


def learner(network=NETWORK, settings=SETTINGS, scale=1.0, **options):
    return TwoPhaseLearner(network, settings, scale=scale, **options)


def nir(**options):
    return NETWORK.to_nir(**{"penalty": 0.1, "gamma": 0.5, **options})


REFUSED = [Clock(0.25, DigitalFormat()), Clock(0.25, imperfections=Imperfections(leak=0.1))]
FORMATS = [FixedPoint(bits=8, sign="non-positive"), FixedPoint(bits=8, exponent=-13)]


@each_refused(
    (learn, ValueError, {"signals": [HOLES, GOOD * np.inf, -GOOD, GOOD[0], GOOD[:0], 0.0 * GOOD], "n_atoms": [0], "penalty": [0.0, 1.7e308, [0.1] * 3]}),
    (learn, ValueError, {"mask": [GOOD[:, 0] > 0], "n_samples": [0], "n_jobs": [0], "callback_every": [0], "checkpoint_every": [0], "checkpoint": ["/no/such/file"]}),
    (learn, ValueError, {"start": [np.ones((3, 3)), np.ones((2, 4)), -F, np.eye(3)[:2] * [[1.0], [0.0]], network(lateral=0.049 * H)]}),
    (learn, TypeError, {"signals": ["x"], "mask": [GOOD, "mask"], "n_atoms": [2.5, None], "penalty": [None], "start": ["abc"], "progress": [1], "callback": [3], "checkpoint": [3]}),
    (lambda: learn(HOLES), ValueError, r"mask=~np.isnan"),
    (lambda: learn(HOLES, mask=GOOD > 0), ValueError, r"where mask is True.*\[0, 0\]"),
    (lambda: learn(-GOOD, mask=GOOD > 0), ValueError, "signals must not be negative"),
    (lambda: learn(mask=GOOD < 0), ValueError, "signals must not all be zero"),
    (lambda: learn(settings=SETTINGS), TypeError, "penalty must not be given twice"),
    (lambda: learn(penalty=None, settings="fast"), TypeError, "settings must be"),
    (lambda: learn(penalty=None, settings=SIGNED, start=NETWORK), ValueError, "start .* positive_atoms=False"),
    (lambda: continue_learning("learner", GOOD), TypeError, "learner must be"),
    (lambda: continue_learning(LEARNER, np.ones((4, 5))), ValueError, "signals must have"),
    (lambda: continue_learning(LEARNER, GOOD, mask=GOOD[:2] > 0), ValueError, "mask must have"),
    (lambda: LEARNER.learn(np.ones((2, 4))), ValueError, "signals must"),
    (lambda: LEARNER.learn(GOOD, mask=GOOD[:, :1] > 0), ValueError, "mask must"),
    (lambda: LEARNER.learn(GOOD, n_threads=np.inf), TypeError, "n_threads"),
    (learner, TypeError, {"network": ["network"], "settings": ["settings"], "rounding_seed": [0.5]}),
    (learner, ValueError, {"scale": [0.0, 1.1e152, 0.9e-152], "rounding_seed": [-1]}),
    (lambda: learner(settings=SIGNED), ValueError, "network .* positive_atoms=False"),
    (lambda: learner(settings=settings(penalty=[0.1])), ValueError, "penalty must be one"),
    (lambda: learner(settings=settings(penalty=2e150)), ValueError, "penalty must be at most"),
    (lambda: TwoPhaseLearner.load("/no/such/file"), FileNotFoundError, "No such file"),
    (lambda: random_dictionary(0, 3), ValueError, "n_atoms must"),
    (lambda: random_dictionary(3, 0), ValueError, "n_inputs"),
    (lambda: random_dictionary(2, 3, positive=1), TypeError, "positive must"),
    (network, ValueError, {"feedforward": [-F], "feedback": [F, -B], "lateral": [F, -H, ZERO]}),
    (network, TypeError, {"feedforward": ["F"], "positive_atoms": [0], "positive_code": [None]}),
    (lambda: network(lateral=-np.eye(2), positive_atoms=False), ValueError, "positive diagonal"),
    (lambda: TwoPhaseNetwork.consistent(ZERO), ValueError, "dictionary .* atom 1"),
    (TwoPhaseNetwork.consistent, ValueError, {"dictionary": [-np.eye(2)]}),
    (lambda: TwoPhaseNetwork.consistent(-np.eye(2), positive_code=False), ValueError, "dictionary must not be neg"),
    (run, ValueError, {"signals": [np.ones((1, 2)), -GOOD, HOLES], "penalty": [0.0, [0.1, 0.0]], "kappa": [1.0, 0.0], "duration": [0.0], "initial_potential": [1.0, -0.1]}),
    (run, ValueError, {"reweighting": [[1.0], [1.0, -1.0]], "time": [Clock(0.3), *REFUSED]}),
    (run, TypeError, {"mask": [[1, 0, 1]], "time": [None, 0.25, "auto"]}),
    (lambda: NETWORK.code(GOOD, penalty=0.1, mask=GOOD[:1] > 0), ValueError, "mask must have"),
    (lambda: NETWORK.code(GOOD, penalty=0.1, gamma=1.0), ValueError, "gamma must"),
    (lambda: NETWORK.code(GOOD, penalty=0.1, duration=-1.0), ValueError, "duration must"),
    (lambda: NETWORK.spiking_network(np.ones(3), penalty=0.1, gamma=1.5), ValueError, "gamma must lie"),
    (lambda: NETWORK.spiking_network(GOOD, penalty=0.1, gamma=0.5), ValueError, "signal must be one"),
    (nir, ValueError, {"gamma": [1.0], "penalty": [-0.1], "reweighting": [[1.0]], "time_constant": [0.0]}),
    (settings, ValueError, {"penalty": [[0.1, 0.0], [0.1, np.nan], [], [[0.1]]], "kappa": [1.0, 0.0], "readout": ["counts"], "inputs": ["analog"], "time": ["fast", *REFUSED], "weight_format": FORMATS}),
    (lambda: settings(inputs="graded", readout="rate"), ValueError, "readout must be 'current' if inputs are graded"),
    (settings, TypeError, {"penalty": [["a"], "a"], "time": [None, 0.25, RealNeuron()], "rule": ["small"], "positive_atoms": [0], "positive_signals": [1], "positive_code": [None], "weight_format": [8]}),
    (lambda: settings(positive_atoms=False, time=Clock(0.3)), ValueError, "duration .* time_step"),
    (lambda: replace(SIGNED, weight_format=FixedPoint(bits=8, sign="non-negative")), ValueError, "weight_format must be signed"),
    (lambda: network_of(SIGNS["signed atoms"]).rounded(FixedPoint(bits=8, sign="non-negative")), ValueError, "weight_format must be"),
    (lambda: NETWORK.rounded(8), TypeError, "weight_format must"),
    (lambda: LearningSettings.from_text("5"), ValueError, "settings must"),
    (UsageSteps, ValueError, {"lateral_gain": [2.0]}),
    (PaperSteps, TypeError, {"reweighting": [1]}),
    (lambda: project_lateral(NETWORK.synapses(), np.full((1, len(NETWORK.lateral)), np.nan), np.ones((1, len(NETWORK.lateral))), kappa=0.1), np.linalg.LinAlgError, "must be finite"),
    (lambda: project_lateral(NETWORK.synapses(), np.ones((1, len(NETWORK.lateral))), np.full((1, len(NETWORK.lateral)), np.nan), kappa=0.1), np.linalg.LinAlgError, "must be finite"),
    (lambda: change_weights(NETWORK.synapses().lateral_rows, np.ones((3, 2)), np.ones((3, 9))), ValueError, "weights must have a row"),
    (lambda: change_weights(NETWORK.lateral.copy(), np.ones((3, len(NETWORK.lateral))), np.ones((2, len(NETWORK.lateral)))), ValueError, "as many rows"),
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
    "option", ["kappa", "duration", "amplitude", "initial_potential", "time", "batch_size"]
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
    # Thresholds are at least 0.05. The largest weight of three bits is 7 * 2^-7 in the first format,
    # and 7 * 2^-8 in the second.
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
        ({}, (0.1, 7.0, Clock(1 / 8), 3.0)),
        ({"inputs": "spiking"}, (0.1, 5.0, Clock(1 / 16), 5.0)),
        ({"positive_atoms": False}, (0.1, 7.0, Clock(1 / 8), 3.0)),
        ({"positive_atoms": False, "positive_code": False}, (0.1, 7.0, Clock(1 / 8), 3.0)),
        ({"positive_atoms": False, "inputs": "spiking"}, (0.1, 10.0, Clock(1 / 16), 5.0)),
        ({"positive_atoms": False, "kappa": 0.3, "time": Exact()}, (0.3, 7.0, Exact(), 3.0)),
        ({"positive_atoms": False, "amplitude": 4}, (0.1, 7.0, Clock(1 / 8), 4.0)),
        ({"positive_atoms": False, "readout": "rate"}, (0.7, 5.0, Clock(1 / 32), 5.0)),
        ({"positive_atoms": False, "rule": PaperSteps()}, (0.7, 5.0, Clock(1 / 32), 5.0)),
        ({"readout": "rate"}, (0.7, 5.0, Clock(1 / 32), 5.0)),
        ({"rule": PaperSteps()}, (0.7, 5.0, Clock(1 / 32), 5.0)),
    ],
)
def test_phases_suit_what_is_learned(options, expected):
    found = settings(**options)
    assert (found.kappa, found.duration, found.time, found.amplitude) == expected
    assert settings(**{"duration": "auto", "amplitude": "auto", **options}) == found


def test_settings_of_the_paper():
    paper = LearningSettings.paper(0.1)
    assert paper == settings(
        kappa=0.7, duration=20.0, readout="rate", initial_potential=0.0, time=Clock(1 / 32, RealNeuron(integration="euler", reset="zero")),
        rule=PaperSteps(step=0.5, halving=20_000.0, lateral_ratio=15.0), batch_size=1, replacement=False,
    )  # fmt: skip
    assert (paper.amplitude, paper.positive_atoms, paper.positive_code, paper.positive_signals) == (
        5.0,
        True,
        True,
        True,
    )
    assert settings(positive_signals=True, positive_code=False).signs.positive_signals is False

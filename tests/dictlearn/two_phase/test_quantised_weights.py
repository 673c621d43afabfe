"""Learning with weights of few bits: always on the grid of the format, and nothing of it is lost."""

# ruff: noqa: E501 - a case a line reads better

import copy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dictlearn import (
    LearningSettings,
    PaperSteps,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    UsageSteps,
    learn_dictionary,
    mean_objective,
    new_learner,
    random_dictionary,
)
from snn.digital import FixedPoint
from tests.dictlearn.two_phase.test_learner import StopHereError, assert_same, planted, stop_at

STOCHASTIC = FixedPoint(bits=8, sign="non-negative", rounding="stochastic")
NEAREST = replace(STOCHASTIC, rounding="nearest")
SETTINGS = LearningSettings(penalty=0.05, batch_size=16, weight_format=STOCHASTIC)


@pytest.fixture(scope="module")
def data():
    return planted(8, 12, 300)


def learn(signals, weight_format, n_samples=600, **options):
    settings = replace(SETTINGS, weight_format=weight_format)
    return learn_dictionary(signals, 8, settings=settings, n_samples=n_samples, rng=3, **options)


def on_grid(weights, bits, exponent):
    mantissas = np.ldexp(weights, -exponent)
    return (mantissas == np.rint(mantissas)).all() and 0 <= mantissas.min() <= mantissas.max() < 2**bits


@pytest.mark.parametrize("rounding", ["nearest", "stochastic", "floor"])
@pytest.mark.parametrize(
    ("bits", "exponent", "between", "lateral"), [(4, None, -4, -3), (8, None, -8, -7), (6, -5, -5, -5)]
)
@pytest.mark.parametrize("steps", [UsageSteps(), PaperSteps(step=0.05)])
def test_weights_are_on_the_grid_after_every_batch(data, steps, bits, exponent, between, lateral, rounding):
    """At the start too, and after atoms were replaced."""
    weight_format = FixedPoint(bits=bits, exponent=exponent, sign="non-negative", rounding=rounding)
    settings = replace(SETTINGS, weight_format=weight_format, steps=steps)
    learner = new_learner(data[1], 8, settings=settings, replace_dead=True, rng=3)
    learner.last_fired[:2] = -5000
    for first in range(0, 160, 16):
        network = learner.network
        assert on_grid(network.feedforward, bits, between)
        assert on_grid(network.feedback, bits, between)
        assert on_grid(network.lateral, bits, lateral)
        assert np.diagonal(network.lateral).min() >= 0.05
        learner.learn(data[1][first : first + 16])


def test_signed_formats_have_a_bit_less(data):
    signed = learn(data[1], FixedPoint(bits=9, rounding="nearest"))
    assert_same(signed, learn(data[1], NEAREST))


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_one_batch_is_the_exact_update_rounded(data, rounding):
    """Nearest: to the next number of the grid; stochastic: to one of the two beside it."""
    weight_format = replace(STOCHASTIC, rounding=rounding)
    learner = new_learner(data[1], 8, settings=replace(SETTINGS, weight_format=weight_format), rng=3)
    exact = copy.deepcopy(learner)
    exact.settings = replace(SETTINGS, weight_format=None)
    for some in (learner, exact):
        some.learn(data[1][:16])
    for name, step in (("feedforward", 2.0**-8), ("feedback", 2.0**-8), ("lateral", 2.0**-7)):
        ours, theirs = getattr(learner.network, name), getattr(exact.network, name)
        assert np.abs(ours - theirs).max() < step * (0.5 + 1e-9 if rounding == "nearest" else 1.0)
        if rounding == "nearest":
            expected = [
                float(round(Fraction(value) / Fraction(step)) * Fraction(step)) for value in theirs.flat
            ]
            np.testing.assert_array_equal(ours.ravel(), expected)
        assert np.abs(ours - theirs).max() > 0.1 * step


def test_stochastic_rounding_is_right_on_average(data):
    """Over seeds; the standard error of 400 is a fortieth of a step at most."""
    start = TwoPhaseNetwork.consistent(random_dictionary(8, 12, rng=0))
    settings = replace(SETTINGS, weight_format=replace(STOCHASTIC, bits=3))
    sums = np.zeros((8, 12))
    for seed in range(400):
        learner = TwoPhaseLearner(start, settings, scale=5.0, rounding_seed=seed)
        sums += learner.network.feedforward
    np.testing.assert_allclose(sums / 400.0, start.feedforward, atol=5 * 2.0**-3 / 40.0)


def test_small_updates_are_lost_to_nearest_and_not_to_stochastic(data):
    """What rounding to the nearest does to learning with few bits, and why there is the other."""
    _, signals = data
    objectives = {}
    for name, weight_format in (
        ("float", None),
        ("nearest", replace(NEAREST, bits=5)),
        ("stochastic", replace(STOCHASTIC, bits=5)),
    ):
        learner = learn(signals, weight_format, 6000)
        objectives[name] = mean_objective(learner.dictionary, signals, penalty=0.05).objective
    assert objectives["stochastic"] < 1.1 * objectives["float"]
    assert objectives["nearest"] > 1.1 * objectives["stochastic"]


def test_many_bits_are_as_good_as_floats(data):
    plain = learn(data[1], None)
    fine = learn(data[1], replace(NEAREST, bits=45))
    np.testing.assert_allclose(fine.network.feedforward, plain.network.feedforward, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fine.network.lateral, plain.network.lateral, rtol=0, atol=1e-9)


# -- nothing is lost -----------------------------------------------------------------------------


def test_threads_change_nothing(data):
    expected = learn(data[1], STOCHASTIC)
    for n_jobs in (2, 3):
        assert_same(learn(data[1], STOCHASTIC, n_jobs=n_jobs), expected)


def test_the_seed_decides_how_weights_are_rounded(data):
    """And nothing but rounding: the same start and order."""
    one, other = (
        TwoPhaseLearner(
            TwoPhaseNetwork.consistent(random_dictionary(8, 12, rng=0)),
            SETTINGS,
            scale=5.0,
            rounding_seed=seed,
        )
        for seed in (0, 1)
    )
    difference = np.abs(one.network.feedforward - other.network.feedforward)
    assert 0.0 < difference.max() <= 2.0**-8


@pytest.mark.parametrize("n_batches", [0, 3, 17])
def test_a_run_that_failed_anywhere_goes_on_bit_for_bit(data, tmp_path, n_batches):
    expected = learn(data[1], STOCHASTIC)
    saved = {"checkpoint": tmp_path / "learner.npz", "checkpoint_every": 32}
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, n_batches)
        with pytest.raises(StopHereError):
            learn(data[1], STOCHASTIC, **saved)
    again = learn(data[1], STOCHASTIC, n_jobs=2, **saved)
    assert_same(again, expected)
    assert again.rounding_seed == expected.rounding_seed
    assert again.settings == expected.settings
    with pytest.raises(ValueError, match="was made with other settings"):
        learn(data[1], NEAREST, **saved)


def test_a_saved_learner_is_as_it_was(data, tmp_path):
    """Even where the format has changed since the last batch: then the next one rounds to it."""
    learner = learn(data[1], STOCHASTIC)
    learner.settings = replace(SETTINGS, weight_format=replace(STOCHASTIC, bits=4))
    learner.save(tmp_path / "learner.npz")
    other = TwoPhaseLearner.load(tmp_path / "learner.npz")
    assert_same(other, learner)
    for some in (learner, other):
        some.learn(data[1][:16])
    assert_same(other, learner)
    assert on_grid(other.network.feedforward, 4, -4)


def test_weights_beyond_the_range_are_counted(data):
    atoms = data[0]
    network = TwoPhaseNetwork.consistent(1.9 * atoms)  # thresholds of 3.6, and some weights above 1
    learner = TwoPhaseLearner(network, SETTINGS, scale=5.0)
    beyond = 2 * np.count_nonzero(network.feedforward > 255 / 256) + np.count_nonzero(
        network.lateral > 255 / 128
    )
    assert learner.n_saturated == pytest.approx(beyond, abs=3)  # rounded up to 256 by chance
    assert learner.network.lateral.max() == 255 / 128
    assert learn(data[1], STOCHASTIC).n_saturated < 600 / 16 * 8


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: LearningSettings(penalty=0.1, weight_format=8), TypeError, "weight_format must be a FixedPoint; got int"),
        (lambda: LearningSettings(penalty=0.1, weight_format=FixedPoint(bits=8, sign="non-positive")), ValueError, "weight_format must have numbers that are not negative, .*; got the sign 'non-positive'"),
        (lambda: LearningSettings(penalty=0.1, weight_format=FixedPoint(bits=8, exponent=-13)), ValueError, "weight_format must reach 0.05, the smallest threshold; got numbers up to 0.0155"),
        (lambda: TwoPhaseLearner(TwoPhaseNetwork.consistent(np.eye(3)), SETTINGS, scale=1.0, rounding_seed=-1), ValueError, "rounding_seed must not be negative; got -1"),
        (lambda: TwoPhaseLearner(TwoPhaseNetwork.consistent(np.eye(3)), SETTINGS, scale=1.0, rounding_seed=0.5), TypeError, "rounding_seed must be an integer; got float"),
        (lambda: LearningSettings.from_text("5"), ValueError, "settings must be an object of JSON; got int"),
    ],
)  # fmt: skip
def test_nonsense_gets_one_clear_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()

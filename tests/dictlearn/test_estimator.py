"""The scikit-learn estimator: common checks, and agreement with `learn_dictionary` and `solve`."""

# ruff: noqa: E501 - a case a line reads better

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import estimator_checks_generator

from dictlearn import (
    LearningSettings,
    PaperSteps,
    SpikingDictionaryLearning,
    TwoPhaseNetwork,
    UsageSteps,
    join_channels,
    learn_dictionary,
    new_learner,
    split_channels,
)
from dictlearn.atoms import unit_norm
from snn import Exact
from snn.digital import FixedPoint
from solvers import IllPosedWarning, LassoProblem, held_out_score, solve_active_set
from tests.dictlearn.refused import each_refused

# Options of the paper's network, for signals in two channels.
SPLIT = {"split_channels": True, "positive_code": True}
SIGNED = {"positive_atoms": False, "positive_code": False}
ALPHAS = np.linspace(0.05, 0.4, 8)
ALL = {
    "kappa": 0.5, "duration": 8.0, "time": Exact(), "amplitude": 4.0, "readout": "rate",
    "rule": UsageSteps(gain=3.0), "replacement": False, "weight_format": FixedPoint(bits=20),
}  # fmt: skip
# Parameters of the estimator, and the settings that they mean.
VARIANTS = {
    "signed": ({}, SIGNED),
    "positive atoms": ({"positive_dict": True}, {"positive_code": False}),
    "positive codes": ({"positive_code": True}, {"positive_atoms": False}),
    "positive": ({"positive_dict": True, "positive_code": True}, {"positive_signals": False}),
    "split": (SPLIT, {}),
    "split, signed codes": ({"split_channels": True}, {}),
    "penalties": ({"alpha": ALPHAS, **SPLIT}, {"penalty": ALPHAS}),
    "all": (
        {"alpha": 0.2, "batch_size": 10, "settings": ALL, "n_jobs": 2},
        {"penalty": 0.2, "batch_size": 10, **ALL, **SIGNED},
    ),
}  # fmt: skip


def _checks():
    learning = SpikingDictionaryLearning(3, max_iter=2)
    for changes in ({}, {"split_channels": True, "n_components": None}, {"missing_values": np.nan}):
        for estimator, check in estimator_checks_generator(clone(learning).set_params(**changes)):
            flags = "-".join(f"{key}={value}" for key, value in check.keywords.items())
            yield pytest.param(
                estimator, check, id=f"{check.func.__name__}{flags}-{'-'.join(changes) or 'plain'}"
            )


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_common_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def signals():
    """Return unit-norm combinations of two signed atoms with a little noise."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((6, 5))
    codes = rng.uniform(0.3, 1.0, (200, 6)) * (rng.permuted(np.tile(np.arange(6) < 2, (200, 1)), axis=1))
    signals = codes @ (atoms.T / np.linalg.norm(atoms, axis=1)).T + 0.01 * rng.standard_normal((200, 5))
    return signals / np.linalg.norm(signals, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def fitted(signals):
    return SpikingDictionaryLearning(8, **SPLIT, max_iter=5, random_state=0).fit(signals)


def copied(estimator, **parameters):
    return pickle.loads(pickle.dumps(estimator)).set_params(**parameters)


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_learns_as_the_function_and_codes_as_the_solver(signals, variant, missing, fit):
    parameters, options = VARIANTS[variant]
    settings = LearningSettings(**{"penalty": 0.1, **options})
    known = np.ones(signals.shape, dtype=bool)
    missing = -7.0 if missing is not None and fit == "partial_fit" else missing
    if missing is not None:
        known = np.random.default_rng(1).random(signals.shape) < 0.7
    shown, filled = np.where(known, signals, missing), np.where(known, signals, 0.0)
    is_split, positive = parameters.get("split_channels", False), parameters.get("positive_code", False)
    seen, mask = (split_channels(filled), np.tile(known, 2)) if is_split else (filled, known)
    mask = None if missing is None else mask
    learning = SpikingDictionaryLearning(8, max_iter=2, missing_values=missing, random_state=5, **parameters)
    seed = int(np.random.RandomState(5).randint(2**31 - 1))
    start = {"settings": settings, "mask": mask, "rng": seed}
    if fit == "fit":
        learning.fit(shown)
        expected = learn_dictionary(seen, 8, n_samples=400, **start)
        assert learning.n_iter_ == 2
    else:
        expected = new_learner(seen[:50], 8, **{**start, "mask": None if mask is None else mask[:50]})
        for part in (slice(0, 50), slice(50, 200)):
            learning.partial_fit(shown[part])
            rows = np.arange(200)[part]
            for first in range(0, len(rows), settings.batch_size):
                batch = rows[first : first + settings.batch_size]
                expected.learn(seen[batch], mask=None if mask is None else mask[batch])
        assert not hasattr(learning, "n_iter_")
    learner = learning.learner_
    assert learner.settings == settings
    assert (learner.scale, learner.n_samples) == (expected.scale, learning.learner_.n_samples)
    np.testing.assert_array_equal(learning.learner_.network.lateral, expected.network.lateral)
    np.testing.assert_array_equal(learner.dictionary, expected.dictionary)
    atoms = join_channels(expected.dictionary) if is_split else expected.dictionary
    np.testing.assert_array_equal(learning.components_, atoms)
    assert learning.dead_atoms_.tolist() == expected.dead_atoms.tolist()
    assert learning.n_features_in_ == 5

    # Non-negative codes are computed from both channels, other codes from the original signals.
    if is_split and positive:
        problem = LassoProblem(expected.dictionary, seen, settings.penalty, mask=mask, positive=True)
    else:
        known_or_none = None if missing is None else known
        problem = LassoProblem(atoms, filled, settings.penalty, mask=known_or_none, positive=positive)
    codes, encoded = learning.transform(shown), learning.encode(shown)
    exact = solve_active_set(problem)
    np.testing.assert_allclose(codes, exact.codes, rtol=0, atol=1e-8)
    np.testing.assert_allclose(encoded.objective, exact.objective, rtol=1e-6)
    assert encoded.converged
    assert (codes.min() < 0.0) is not positive
    np.testing.assert_allclose(learning.inverse_transform(codes), codes @ atoms, rtol=0, atol=1e-14)
    assert np.linalg.norm(learning.components_, axis=1).max() <= 1.0 + 1e-14
    fold_of = np.random.default_rng(0).permutation(5) % 5
    fold_of = np.tile(fold_of, 2) if is_split and positive else fold_of
    assert learning.score(shown) == pytest.approx(held_out_score(problem, fold_of=fold_of), rel=1e-6)
    # Change the penalty and the sign of the codes.
    other = learning.set_params(transform_alpha=0.3, positive_code=False).transform(shown)
    problem = LassoProblem(atoms, filled, 0.3, mask=None if missing is None else known)
    np.testing.assert_allclose(other, solve_active_set(problem).codes, rtol=0, atol=1e-8)


def test_signals_that_are_not_negative_have_the_network_of_the_paper(signals):
    learning = SpikingDictionaryLearning(positive_dict=True, positive_code=True, max_iter=1, random_state=0)
    learning.fit(np.abs(signals))
    assert len(learning.learner_.network.layers.inputs) == 1
    with pytest.raises(ValueError, match="X must not be negative"):
        learning.partial_fit(signals)
    assert len(learning.fit(signals).learner_.network.layers.inputs) == 2


def test_numbers_of_atoms_starts_and_seeds(signals):
    plain = SpikingDictionaryLearning(max_iter=1, random_state=1)
    for parameters, rows, shape in (
        ({}, 200, (5, 5)),
        (SPLIT, 200, (10, 5)),
        ({"n_components": 7}, 3, (7, 5)),
    ):
        assert clone(plain).set_params(**parameters).fit(signals[:rows]).components_.shape == shape
    first, same, other = (
        clone(plain).set_params(random_state=state).fit(signals).components_
        for state in (1, np.random.RandomState(1), 2)
    )
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
    # As a start, the network of the split dictionary with unit norms equals the dictionary itself.
    start = np.random.default_rng(2).standard_normal((6, 5))
    network = TwoPhaseNetwork.consistent(split_channels(start) / np.linalg.norm(start, axis=1, keepdims=True))
    for fit in ("fit", "partial_fit"):
        one, other = (
            getattr(clone(plain).set_params(dict_init=each, **SPLIT), fit)(signals[:20]).components_
            for each in (1e-200 * start, network)
        )
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_float32_signals_have_float32_atoms_and_codes(signals):
    """Results are computed in float64 and then rounded; the first call sets the type of `components_`."""
    single = signals.astype(np.float32)
    learning = SpikingDictionaryLearning(8, max_iter=1, random_state=0)
    of_single, of_double = clone(learning).fit(single), clone(learning).fit(single.astype(float))
    np.testing.assert_array_equal(of_single.components_, of_double.components_.astype(np.float32))
    codes = of_single.transform(single)
    assert codes.dtype == of_single.inverse_transform(codes).dtype == np.float32
    assert of_single.encode(single).codes.dtype == of_single.transform(signals).dtype == np.float64
    streamed = clone(learning).partial_fit(single).partial_fit(signals)
    assert streamed.components_.dtype == np.float32
    assert streamed.fit(signals).components_.dtype == np.float64
    codes[0, 0] = 7.0  # the array is writable


def test_parameters_may_change_between_calls_or_are_refused(signals):
    learning = SpikingDictionaryLearning(8, random_state=0).partial_fit(signals[:16])
    scale = learning.learner_.scale
    changed = {"amplitude": 6.0, "replacement": False, "rule": UsageSteps(gain=2.0)}
    learning.set_params(alpha=0.2, settings=changed).partial_fit(signals[16:32])
    assert learning.learner_.settings == LearningSettings(penalty=0.2, **changed, **SIGNED)
    assert learning.learner_.scale == 2.0 * scale
    for changes, name in (
        ({"n_components": 9}, "n_components"),
        ({"split_channels": True}, "split_channels"),
        ({"positive_code": True}, "positive_dict and positive_code"),
        ({"alpha": [0.1, 0.2]}, "alpha"),
    ):
        with pytest.raises(ValueError, match=name):
            copied(learning, **changes).partial_fit(signals)
    # `transform` still uses the channels as learned.
    assert copied(learning, split_channels=True).transform(signals).shape == (200, 8)


def test_codes_are_of_the_atoms_learned_last(signals):
    for positive_code in (True, False):
        learning = SpikingDictionaryLearning(4, alpha=0.05, positive_code=positive_code, random_state=0)
        for batch in np.array_split(signals, 4):
            learning.partial_fit(batch)
            codes = [learning.transform(signal[np.newaxis])[0] for signal in signals[:3]]
            problem = LassoProblem(learning.components_, signals[:3], 0.05, positive=positive_code)
            np.testing.assert_allclose(codes, solve_active_set(problem).codes, rtol=0, atol=1e-9)


def test_fit_goes_on_from_a_checkpoint(signals, tmp_path):
    plain = SpikingDictionaryLearning(8, random_state=0, checkpoint_every=100)
    expected = clone(plain).fit(signals)
    learning = clone(plain).set_params(checkpoint=tmp_path / "learner.npz", callback=lambda learner: True)
    learning.fit(signals)
    assert (learning.learner_.n_samples, learning.n_iter_) == (1000, 5)
    learning = clone(plain).set_params(checkpoint=str(tmp_path / "learner.npz")).fit(signals)
    np.testing.assert_array_equal(learning.components_, expected.components_)
    with pytest.raises(ValueError, match="other settings"):
        learning.set_params(alpha=0.2).fit(signals)
    # If no seed is given, learning uses the seed of the checkpoint.
    learning = SpikingDictionaryLearning(8, max_iter=1, checkpoint=tmp_path / "other.npz").fit(signals)
    assert learning.set_params(max_iter=2).fit(signals).learner_.n_samples == 400


def test_what_was_learned_before_an_error_is_kept(signals):
    def fail(learner):
        raise KeyboardInterrupt

    wide = np.hstack([signals, signals])
    learning = SpikingDictionaryLearning(8, max_iter=1, random_state=0).fit(wide)
    with pytest.raises(KeyboardInterrupt):
        learning.set_params(max_iter=10, callback=fail).fit(signals)
    assert learning.learner_.n_samples == 1000
    assert learning.n_features_in_ == 5
    other = SpikingDictionaryLearning(8, random_state=0, callback=lambda learner: True).fit(signals)
    np.testing.assert_array_equal(learning.components_, other.components_)


def test_a_failed_fit_leaves_the_old_one_whole(signals):
    """The number of features and their names still match `components_`."""
    frame = pytest.importorskip("pandas").DataFrame(signals, columns=list("abcde"))
    learning = SpikingDictionaryLearning(8, max_iter=1, random_state=0).fit(frame)
    before = learning.transform(frame)
    for changes in ({}, {"callback": 3}, {"alpha": -1.0}):
        with pytest.raises((ValueError, TypeError)):
            learning.set_params(**changes).fit(np.hstack([signals, signals]) * bool(changes))
        assert list(learning.feature_names_in_) == list("abcde")
    np.testing.assert_array_equal(learning.set_params(alpha=0.1).transform(frame), before)


def test_errors_have_the_names_of_the_estimator(signals):
    start = -np.ones((4, signals.shape[1]))
    with pytest.raises(ValueError, match=r"^dict_init .*positive_dict=False"):
        SpikingDictionaryLearning(dict_init=start, positive_dict=True).fit(np.abs(signals))
    with pytest.raises(ValueError, match=r"^start .*positive_atoms=False"):
        learn_dictionary(np.abs(signals), start=start, penalty=0.1)


def test_a_penalty_above_all_correlations_warns(signals):
    dictionary = SpikingDictionaryLearning(8, max_iter=1, random_state=0).fit(signals).components_
    for positive in (True, False):
        products = signals @ dictionary.T
        most = (products if positive else np.abs(products)).max()
        for alpha, warned in ((0.8 * most, False), (1.01 * most, True)):
            other = SpikingDictionaryLearning(dict_init=dictionary, alpha=alpha, positive_code=positive)
            still = PaperSteps(step=1e-12, decay=0.0, lateral_ratio=1e-9)
            other.set_params(max_iter=1, settings={"rule": still})
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                other.fit(signals)
            assert any("all codes are zero" in str(warning.message) for warning in caught) is warned
    with pytest.warns(IllPosedWarning, match="all codes are zero"):
        assert not other.transform(signals).any()
    with pytest.warns(IllPosedWarning, match="all codes are zero"):
        other.set_params(transform_alpha=3.0).transform(signals)
    assert other.score(signals) == 0.0


def test_dead_atoms_are_reported_and_replaced(signals):
    """Three added features are zero in all signals, and two atoms of the start have only these features."""
    start = np.pad(np.random.default_rng(1).standard_normal((8, 5)), ((0, 2), (0, 3)))
    start[-2:, -3:] = 1.0
    signals = np.pad(signals, ((0, 0), (0, 3)))
    given = {"dict_init": start, "max_iter": 6, "settings": {"replacement": False}}
    learning = SpikingDictionaryLearning(**given, random_state=0)
    with pytest.warns(ConvergenceWarning, match="2 of 10 atoms are dead"):
        learning.fit(signals)
    assert learning.dead_atoms_.tolist() == [8, 9]
    better = learning.set_params(settings=None).fit(signals)
    assert (better.dead_atoms_.size, better.learner_.n_replaced) == (0, 2)


def test_signals_that_dominate_are_named(signals):
    outlier, learning = signals.copy(), SpikingDictionaryLearning(8, max_iter=1, random_state=0)
    outlier[17] *= 1000.0
    with pytest.warns(IllPosedWarning, match=r"X\[17\]"):
        learning.fit(outlier)


NETWORK = TwoPhaseNetwork.consistent(np.ones((2, 5)))


def learned(fit="partial_fit", **parameters):
    signals = np.abs(np.random.default_rng(0).standard_normal((20, 5)))
    learning = SpikingDictionaryLearning(**parameters)
    try:
        getattr(learning, fit)(signals)
    finally:
        assert not hasattr(learning, "n_features_in_")
        assert not hasattr(learning, "learner_")


def with_settings(**options):
    of_both(settings=options)


def of_both(**parameters):
    """Call `partial_fit`, which must refuse, and then `fit`, whose error the test checks."""
    with pytest.raises((TypeError, ValueError)):
        learned("partial_fit", **parameters)
    learned("fit", **parameters)


@each_refused(
    (of_both, ValueError, {"alpha": [0.0, [0.1], [0.1, -0.1], 1e300], "n_components": [0], "batch_size": [0], "n_jobs": [0], "settings": [{"penalty": 0.1}, {"gain": 2.0}, {1: 2}]}),
    (with_settings, ValueError, {"kappa": [1.0], "duration": [0.0], "amplitude": [-1.0], "readout": ["exact"]}),
    (with_settings, TypeError, {"rule": [0.1], "weight_format": [6], "replacement": [1]}),
    (of_both, ValueError, {"dict_init": [np.ones((2, 4)), np.eye(2, 5) * [[1.0], [0.0]], NETWORK], "transform_alpha": [-1.0, [0.1, 0.1]], "tol": [-1.0]}),
    (of_both, TypeError, {"alpha": ["small"], "missing_values": ["none"], "n_components": [2.0], "split_channels": ["yes"], "settings": [0.1, ["kappa"]], "positive_code": ["x"], "positive_dict": [1]}),
    (partial(learned, "fit"), ValueError, {"max_iter": [0], "checkpoint_every": [0]}),
    (partial(learned, "fit"), TypeError, {"checkpoint": [3], "callback": [3], "progress": [1]}),
    (lambda: of_both(dict_init=np.ones((2, 5)), n_components=3), ValueError, "dict_init must have n_components=3 atoms; got 2"),
    (lambda: of_both(dict_init=-np.ones((2, 5)), positive_dict=True), ValueError, "dict_init must"),
    (lambda: of_both(dict_init=NETWORK, **SPLIT), ValueError, "dict_init must have 10 features"),
    (lambda: of_both(positive_dict=True, split_channels=True), ValueError, "positive_dict must"),
    (lambda: of_both(random_state="x"), ValueError, "'x' cannot be used to seed"),
)  # fmt: skip
def test_bad_parameters_are_named_and_leave_no_fit(call, error, name):
    with pytest.raises(error, match=name):
        call()


@pytest.mark.parametrize(
    ("call", "error", "name"),
    [
        (lambda one, x: clone(one).fit(0.0 * x), ValueError, "X must not all be zero"),
        (lambda one, x: clone(one).fit(np.where(x > 0.9, np.nan, x)), ValueError, "missing_values"),
        (lambda one, x: one.inverse_transform(x), ValueError, "X must have one column for each of 8 atoms"),
        (lambda one, x: copied(one, tol=0.0).transform(x), ValueError, "tol"),
        (lambda one, x: copied(one, positive_code=False, transform_alpha=0.0).transform(x), ValueError, "transform_alpha"),
        (lambda one, x: copied(one, positive_code=None).transform(x), TypeError, "positive_code"),
        (lambda one, x: one.inverse_transform(np.ma.masked_greater(one.transform(x), 0.1)), TypeError, "X must not have masked"),
        *((lambda one, x, name=name: getattr(copied(one), name)(np.ma.masked_less(x, 0.0)), TypeError, "X must not have masked") for name in ("fit", "partial_fit", "transform", "encode", "score")),
    ],
)  # fmt: skip
def test_bad_signals_are_named(signals, fitted, call, error, name):
    with pytest.raises(error, match=name):
        call(fitted, signals)


def test_a_learner_cannot_be_set_and_the_sentence_says_how_one_that_was_loaded_goes_on(tmp_path):
    signals = np.random.default_rng(0).standard_normal((60, 4))
    options = {"alpha": 0.1, "random_state": 0}
    first = SpikingDictionaryLearning(3, max_iter=2, **options).fit(signals)
    first.learner_.save(tmp_path / "learner.npz")
    learner = type(first.learner_).load(tmp_path / "learner.npz")
    estimator = SpikingDictionaryLearning(3, dict_init=learner.network, **options)
    with pytest.raises(AttributeError, match=r"dict_init=learner\.network.*continue_learning\(learner, X\)"):
        estimator.learner_ = learner
    estimator.partial_fit(signals[:1])
    np.testing.assert_allclose(estimator.components_, unit_norm(learner.network.feedback.T), atol=0.1)
    # A copy has all fitted attributes.
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(first)).transform(signals), first.transform(signals)
    )

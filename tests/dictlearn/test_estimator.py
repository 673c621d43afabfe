"""The scikit-learn estimator: the common checks, and that it does what `learn_dictionary` does."""

# ruff: noqa: E501 - a case a line reads better

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import DictionaryLearning
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from dictlearn import (
    LearningSettings,
    PaperSteps,
    RunawayFeedbackError,
    TwoPhaseLearner,
    TwoPhaseNetwork,
    UsageSteps,
    join_channels,
    learn_dictionary,
    random_dictionary,
    split_channels,
)
from dictlearn.estimator import SpikingDictionaryLearning
from dictlearn.resumable import seed_of_order
from snn.digital import FixedPoint
from solvers import IllPosedWarning, LassoProblem, solve_active_set

# The paper's network, of signals in two channels.
SPLIT = {"split_channels": True, "positive_code": True}
SIGNED = {"positive_atoms": False, "positive_code": False}


def _checks():
    learning = SpikingDictionaryLearning(3, max_iter=2)
    for changes in (
        {},
        {"split_channels": True, "positive_code": True},
        {"positive_dict": True},
        {"split_channels": True, "steps": PaperSteps(step=0.01), "n_components": None},
        {"missing_values": np.nan},
    ):
        changed = clone(learning).set_params(**changes)
        for estimator, check in estimator_checks_generator(changed):
            flags = "-".join(f"{key}={value}" for key, value in check.keywords.items())
            name = f"{check.func.__name__}{flags}-{'-'.join(changes) or 'plain'}"
            yield pytest.param(estimator, check, id=name)


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_common_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def signals():
    """Unit-norm combinations of two signed atoms, and a little noise."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((6, 5))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = np.zeros((200, 6))
    for code in codes:
        code[rng.choice(6, 2, replace=False)] = rng.uniform(0.3, 1.0, 2)
    signals = codes @ atoms + 0.01 * rng.standard_normal((200, 5))
    return signals / np.linalg.norm(signals, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def fitted(signals):
    return SpikingDictionaryLearning(8, **SPLIT, random_state=0).fit(signals)


@pytest.fixture(scope="module")
def signed(signals):
    """As it comes: signals, atoms and codes of either sign."""
    return SpikingDictionaryLearning(8, random_state=0).fit(signals)


# -- fit, transform and what there is afterwards -------------------------------------------------


@pytest.mark.parametrize("positive_dict", [False, True])
@pytest.mark.parametrize("positive_code", [False, True])
def test_fit_learns_what_it_is_told_to(signals, positive_dict, positive_code):
    """`learn_dictionary` of the signals as they are; codes are those of its dictionary."""
    parameters = {"positive_dict": positive_dict, "positive_code": positive_code}
    learning = SpikingDictionaryLearning(8, max_iter=3, random_state=5, n_jobs=2, **parameters).fit(signals)
    settings = LearningSettings(
        penalty=0.1,
        positive_atoms=positive_dict,
        positive_code=positive_code,
        positive_signals=not (positive_dict and positive_code),
    )
    seed = int(np.random.RandomState(5).randint(2**31 - 1))
    expected = learn_dictionary(signals, 8, settings=settings, n_samples=600, rng=seed)
    assert learning.learner_.settings == settings
    np.testing.assert_array_equal(learning.components_, expected.dictionary)
    assert (learning.components_.min() < 0.0) is not positive_dict
    codes = learning.transform(signals)
    assert (codes.min() < 0.0) is not positive_code
    problem = LassoProblem(expected.dictionary, signals, 0.1, positive=positive_code)
    np.testing.assert_allclose(codes, solve_active_set(problem).codes, rtol=0, atol=1e-9)
    np.testing.assert_allclose(learning.inverse_transform(codes), codes @ learning.components_)
    # What is passed on later has the same meaning.
    learning.partial_fit(signals[:40])
    with pytest.raises(ValueError, match="positive_dict and positive_code must not change after the first"):
        learning.set_params(positive_code=not positive_code).partial_fit(signals)


def test_scikit_learn_learns_the_same(signals, signed):
    """On the same problem, its objective at the end is within a few percent."""
    theirs = DictionaryLearning(8, alpha=0.1, max_iter=200, fit_algorithm="cd", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(signals)
    atoms = theirs.components_ / np.linalg.norm(theirs.components_, axis=1, keepdims=True)
    other = solve_active_set(LassoProblem(atoms, signals, 0.1)).objective.mean()
    ours = SpikingDictionaryLearning(8, max_iter=60, random_state=0).fit(signals)
    assert ours.encode(signals).objective.mean() < 1.05 * other


def test_fit_is_learn_dictionary_of_split_signals(signals):
    steps = UsageSteps(gain=3.0)
    learning = SpikingDictionaryLearning(
        8, alpha=0.2, max_iter=3, batch_size=10, kappa=0.5, duration=8.0, amplitude=4.0, readout="rate",
        steps=steps, replace_dead=True, random_state=5, n_jobs=2, **SPLIT,
    )  # fmt: skip
    learning.fit(signals)
    settings = LearningSettings(
        penalty=0.2, batch_size=10, kappa=0.5, duration=8.0, amplitude=4.0, readout="rate", steps=steps
    )
    seed = int(np.random.RandomState(5).randint(2**31 - 1))
    expected = learn_dictionary(split_channels(signals), 8, settings=settings, n_samples=600, rng=seed)
    np.testing.assert_array_equal(learning.network_.lateral, expected.network.lateral)
    np.testing.assert_array_equal(learning.components_, join_channels(expected.dictionary))
    np.testing.assert_array_equal(learning.learner_.dictionary, expected.dictionary)
    assert (learning.n_iter_, learning.n_samples_seen_, learning.n_features_in_) == (3, 600, 5)
    assert learning.learner_.settings == settings
    assert learning.learner_.replace_dead
    assert learning.dead_atoms_.tolist() == []


def test_codes_are_exact_and_rebuild_the_signals(signals, fitted):
    codes = fitted.transform(signals)
    problem = LassoProblem(fitted.learner_.dictionary, split_channels(signals), 0.1, positive=True)
    expected = solve_active_set(problem)
    np.testing.assert_allclose(codes, expected.codes, rtol=0, atol=1e-12)
    assert codes.min() == 0.0
    codes[0, 0] = 7.0  # the caller's, not a read-only result
    encoded = fitted.encode(signals)
    np.testing.assert_allclose(encoded.objective, expected.objective, rtol=1e-12)
    assert encoded.converged

    np.testing.assert_allclose(
        fitted.inverse_transform(encoded.codes),
        join_channels(problem.reconstruct(expected.codes)),
        atol=1e-14,
    )
    assert np.linalg.norm(fitted.components_, axis=1).max() <= 1.0 + 1e-14
    unlearned = SpikingDictionaryLearning(8, max_iter=1, random_state=0, **SPLIT).fit(signals[:1])
    assert encoded.objective.mean() < 0.7 * unlearned.encode(signals).objective.mean()
    # What the penalty takes, and little else, is missing.
    missing = signals - fitted.inverse_transform(encoded.codes)
    assert np.mean(np.linalg.norm(missing, axis=1)) < 0.35


def test_non_negative_signals_have_the_network_of_the_paper(signals):
    positive, parameters = np.abs(signals), {"positive_dict": True, "positive_code": True}
    learning = SpikingDictionaryLearning(**parameters, random_state=0).fit(positive)
    assert learning.components_.shape == (5, 5)
    assert len(learning.network_.layers.inputs) == 1
    np.testing.assert_allclose(np.linalg.norm(learning.components_, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(learning.components_, learning.learner_.dictionary)
    with pytest.raises(
        ValueError, match=r"X must not be negative, .*; got -0\.[0-9]+: call fit to start anew"
    ):
        learning.partial_fit(signals)
    assert len(learning.fit(signals).network_.layers.inputs) == 2


def test_default_number_of_atoms_is_that_of_inputs(signals):
    assert SpikingDictionaryLearning(max_iter=1).fit(signals).components_.shape == (5, 5)
    assert SpikingDictionaryLearning(max_iter=1, **SPLIT).fit(signals).components_.shape == (10, 5)
    assert SpikingDictionaryLearning(7, max_iter=1).fit(signals[:3]).components_.shape == (7, 5)
    assert SpikingDictionaryLearning(3, max_iter=1).fit(signals[:1]).components_.shape == (3, 5)


def test_alpha_of_transform_may_be_another(signals, fitted):
    other = pickle.loads(pickle.dumps(fitted)).set_params(alpha=0.3)
    assert np.count_nonzero(other.transform(signals)) < np.count_nonzero(fitted.transform(signals))


def test_random_state_decides(signals):
    plain = SpikingDictionaryLearning(4, max_iter=1, random_state=1)
    first, second = (clone(plain).fit(signals).components_ for _ in range(2))
    np.testing.assert_array_equal(first, second)
    third = clone(plain).set_params(random_state=np.random.RandomState(1)).fit(signals).components_
    np.testing.assert_array_equal(first, third)
    assert not np.array_equal(first, clone(plain).set_params(random_state=2).fit(signals).components_)


def test_names_of_the_outputs_clones_and_pipelines(signals):
    learning = SpikingDictionaryLearning(
        4,
        max_iter=1,
        steps=PaperSteps(step=0.01),
        dict_init=TwoPhaseNetwork.consistent(np.eye(4, 5) + 0.1, **SIGNED),
    )
    pipeline = clone(make_pipeline(StandardScaler(), learning))
    assert pipeline[-1].steps == learning.steps
    assert pipeline.fit_transform(signals).shape == (200, 4)
    assert list(pipeline.get_feature_names_out())[::3] == [
        "spikingdictionarylearning0",
        "spikingdictionarylearning3",
    ]
    frame = pipeline.set_output(transform="pandas").fit_transform(signals)
    assert frame.columns[0] == "spikingdictionarylearning0"


@pytest.mark.parametrize("power", [-30, 30])
def test_the_unit_of_the_signals_changes_nothing(signals, signed, power):
    unit = 2.0**power
    other = SpikingDictionaryLearning(8, alpha=unit * 0.1, random_state=0).fit(unit * signals)
    np.testing.assert_array_equal(other.components_, signed.components_)
    np.testing.assert_array_equal(other.transform(unit * signals), unit * signed.transform(signals))


def test_weights_of_few_bits(signals):
    weight_format = FixedPoint(bits=10, rounding="stochastic")
    learning = SpikingDictionaryLearning(4, max_iter=1, weight_format=weight_format, random_state=0)
    learning = clone(learning).fit(signals)
    assert learning.learner_.settings.weight_format == weight_format
    mantissas = 2.0**9 * learning.network_.feedback
    np.testing.assert_array_equal(mantissas, np.rint(mantissas))
    assert learning.encode(signals).converged
    with pytest.raises(TypeError, match="weight_format must be"):
        learning.set_params(weight_format=6).fit(signals)
    with pytest.raises(ValueError, match="weight_format must be signed"):
        learning.set_params(weight_format=replace(weight_format, sign="non-negative")).fit(signals)


# -- where it starts -----------------------------------------------------------------------------


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_dict_init_is_split_and_brought_to_unit_norm(signals, fit):
    start = np.random.default_rng(2).standard_normal((6, 5))
    learned = []
    for dict_init in (
        start,
        1e-200 * start,
        TwoPhaseNetwork.consistent(split_channels(start) / np.linalg.norm(start, axis=1, keepdims=True)),
    ):
        learning = SpikingDictionaryLearning(dict_init=dict_init, max_iter=1, random_state=0, **SPLIT)
        learned.append(getattr(learning, fit)(signals[:20]).components_)
    for other in learned[1:]:
        np.testing.assert_allclose(other, learned[0], rtol=0, atol=1e-12)
    assert not np.allclose(learned[0], start / np.linalg.norm(start, axis=1, keepdims=True))


# -- partial_fit ---------------------------------------------------------------------------------


def test_partial_fit_and_loading_do_not_repeat_what_was_said_of_settings(signals, tmp_path):
    learning = SpikingDictionaryLearning(6, alpha=0.2, time_step=2.5, random_state=0)

    def n_warnings(call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        return sum("time_step" in str(warning.message) for warning in caught)

    batches = [signals[:20], signals[20:40], signals[40:60]]
    assert n_warnings(lambda: [learning.partial_fit(batch) for batch in batches]) == 1
    learning.learner_.save(tmp_path / "learner.npz")
    assert n_warnings(lambda: TwoPhaseLearner.load(tmp_path / "learner.npz")) == 0
    assert n_warnings(lambda: learning.set_params(time_step=1.25).partial_fit(signals[:20])) == 1


def test_partial_fit_is_the_learner_batch_by_batch(signals):
    learning = SpikingDictionaryLearning(8, batch_size=7, random_state=3, n_jobs=2, **SPLIT)
    learning.partial_fit(signals[:20]).partial_fit(signals[20:50])
    seed = int(np.random.RandomState(3).randint(2**31 - 1))
    split = split_channels(signals)
    settings = LearningSettings(penalty=0.1, batch_size=7)
    expected = TwoPhaseLearner(
        TwoPhaseNetwork.consistent(random_dictionary(8, 10, rng=seed_of_order(seed))),
        settings,
        scale=5.0 / np.sqrt(np.mean(np.sum(split[:20] ** 2, axis=1))),
    )
    for batch in (
        slice(0, 7),
        slice(7, 14),
        slice(14, 20),
        slice(20, 27),
        slice(27, 34),
        slice(34, 41),
        slice(41, 48),
        slice(48, 50),
    ):
        expected.learn(split[batch])
    np.testing.assert_allclose(learning.components_, join_channels(expected.dictionary), rtol=0, atol=1e-9)
    assert learning.n_samples_seen_ == 50
    assert not hasattr(learning, "n_iter_")


def test_signals_may_come_one_by_one(signals):
    learning = SpikingDictionaryLearning(8, random_state=0)
    for signal in np.tile(signals, (3, 1)):
        learning.partial_fit(signal[np.newaxis])
    assert learning.n_samples_seen_ == 600
    first = SpikingDictionaryLearning(8, random_state=0).partial_fit(signals[:1])
    assert learning.encode(signals).objective.mean() < 0.8 * first.encode(signals).objective.mean()
    # The first call sets the scale.
    assert learning.learner_.scale == first.learner_.scale == pytest.approx(5.0)


def test_partial_fit_goes_on_where_fit_ended_and_fit_starts_anew(signals):
    learning = SpikingDictionaryLearning(8, max_iter=2, random_state=0).fit(signals)
    before = learning.components_
    learning.partial_fit(signals[:32])
    assert learning.n_samples_seen_ == 432
    assert not np.array_equal(learning.components_, before)
    np.testing.assert_array_equal(learning.fit(signals).components_, before)


def test_parameters_may_change_between_calls_or_are_refused(signals):
    learning = SpikingDictionaryLearning(8, random_state=0).partial_fit(signals[:16])
    scale = learning.learner_.scale
    learning.set_params(alpha=0.2, amplitude=10.0, replace_dead=True, steps=UsageSteps(gain=2.0))
    learning.partial_fit(signals[16:32])
    assert learning.learner_.settings == LearningSettings(
        penalty=0.2, amplitude=10.0, steps=UsageSteps(gain=2.0), **SIGNED
    )
    assert learning.learner_.scale == 2.0 * scale
    assert learning.learner_.replace_dead
    with pytest.raises(
        ValueError, match="n_components is 9 but the network has 8 atoms: call fit to start anew"
    ):
        learning.set_params(n_components=9).partial_fit(signals)
    with pytest.raises(ValueError, match="split_channels must not change after the first call: call fit"):
        learning.set_params(n_components=8, split_channels=True).partial_fit(signals)
    # Coding follows what was learned.
    assert learning.transform(signals).shape == (200, 8)


# -- stopping, going on --------------------------------------------------------------------------


def test_fit_goes_on_from_a_checkpoint(signals, tmp_path):
    plain = SpikingDictionaryLearning(8, random_state=0, checkpoint_every=100)
    expected = clone(plain).fit(signals)
    learning = clone(plain).set_params(checkpoint=tmp_path / "learner.npz", callback=lambda learner: True)
    learning.fit(signals)
    assert learning.n_samples_seen_ == 1000
    assert learning.n_iter_ == 5
    learning = clone(plain).set_params(checkpoint=str(tmp_path / "learner.npz")).fit(signals)
    np.testing.assert_array_equal(learning.components_, expected.components_)
    assert learning.n_iter_ == 10
    with pytest.raises(ValueError, match="was made with other settings"):
        learning.set_params(alpha=0.2).fit(signals)


def test_a_checkpoint_without_a_seed_goes_on_with_its_own(signals, tmp_path):
    learning = SpikingDictionaryLearning(8, max_iter=1, checkpoint=tmp_path / "learner.npz").fit(signals)
    learning.set_params(max_iter=2).fit(signals)
    assert learning.n_samples_seen_ == 400


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_was_learned_before_an_error_is_kept(signals, error):
    def fail(learner):
        raise error("now")

    learning = SpikingDictionaryLearning(8, random_state=0, callback=fail)
    with pytest.raises(error, match="now"):
        learning.fit(signals)
    assert 1000 <= learning.n_samples_seen_ < 1016
    assert learning.transform(signals).shape == (200, 8)
    other = SpikingDictionaryLearning(8, random_state=0, callback=lambda learner: True).fit(signals)
    np.testing.assert_array_equal(learning.components_, other.components_)


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_a_runaway_keeps_the_weights(signals, fit):
    start = TwoPhaseNetwork.consistent(random_dictionary(8, 5, positive=False, rng=0), **SIGNED)
    start = TwoPhaseNetwork(start.feedforward, start.feedback, 0.1 * start.lateral, **SIGNED)
    learning = SpikingDictionaryLearning(dict_init=start, duration=50.0, random_state=0)
    with pytest.raises(RunawayFeedbackError, match="the network ran away"):
        getattr(learning, fit)(signals)
    np.testing.assert_array_equal(learning.network_.feedback, start.feedback)
    assert learning.n_samples_seen_ == 0
    assert learning.transform(signals).shape == (200, 8)


def test_a_wrong_parameter_leaves_the_old_fit(signals):
    learning = SpikingDictionaryLearning(8, max_iter=1, random_state=0).fit(signals)
    before = learning.components_
    with pytest.raises(ValueError, match="alpha must be positive"):
        learning.set_params(alpha=-1.0).fit(signals)
    np.testing.assert_array_equal(learning.set_params(alpha=0.1).components_, before)


@pytest.mark.parametrize("what", ["input", "parameter", "callback"])
def test_a_failed_fit_leaves_the_old_one_whole(signals, what):
    """The number of features, and their names, are those of `components_`."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(signals, columns=list("abcde"))
    learning = SpikingDictionaryLearning(8, max_iter=1, random_state=0).fit(frame)
    before = learning.transform(frame)
    wide = np.hstack([signals, signals])
    if what == "input":
        wide = np.zeros((20, 10))
    elif what == "parameter":
        learning.set_params(max_iter=0)
    else:
        learning.set_params(callback=3)
    with pytest.raises((ValueError, TypeError)):
        learning.fit(wide)
    assert learning.n_features_in_ == learning.components_.shape[1] == 5
    assert list(learning.feature_names_in_) == list("abcde")
    np.testing.assert_array_equal(learning.transform(frame), before)


def test_an_interrupted_fit_has_the_new_features(signals):
    def fail(learner):
        raise KeyboardInterrupt

    learning = SpikingDictionaryLearning(8, max_iter=1, random_state=0).fit(signals)
    wide = np.hstack([signals, signals])
    with pytest.raises(KeyboardInterrupt):
        learning.set_params(max_iter=10, callback=fail).fit(wide)
    assert learning.n_features_in_ == learning.components_.shape[1] == 10
    assert learning.transform(wide).shape == (200, 8)


# -- silence -------------------------------------------------------------------------------------


def test_a_penalty_above_all_correlations_warns(signals):
    learning = SpikingDictionaryLearning(8, alpha=2.0, max_iter=1, random_state=0)
    with pytest.warns(
        ConvergenceWarning,
        match=r"no atom codes any signal: alpha is 2, but the largest correlation .* is 0\.[0-9]+",
    ):
        learning.fit(signals)
    with pytest.warns(
        IllPosedWarning, match=r"all codes are zero at this alpha; some are not below 0\.\d+ times it$"
    ):
        assert not learning.transform(signals).any()
    with pytest.warns(
        IllPosedWarning, match="all codes are zero at this transform_alpha; some are not below"
    ):
        learning.set_params(transform_alpha=3.0).transform(signals)
    assert learning.encode(signals[:1]).objective.mean() == pytest.approx(0.5)
    assert learning.score(signals) == 0.0


@pytest.fixture(scope="module")
def half_dark(signals):
    """Three features more that are always zero, and a start with two atoms that see nothing else."""
    start = np.pad(np.random.default_rng(1).standard_normal((8, 5)), ((0, 2), (0, 3)))
    start[-2:, -3:] = 1.0
    return start, np.pad(signals, ((0, 0), (0, 3)))


def test_dead_atoms_are_reported_and_replaced(half_dark):
    start, signals = half_dark
    learning = SpikingDictionaryLearning(dict_init=start, random_state=0)
    with pytest.warns(
        ConvergenceWarning, match=r"2 of 10 atoms are dead: .*; replace_dead=True replaces them"
    ):
        learning.fit(signals)
    assert learning.dead_atoms_.tolist() == [8, 9]
    codes = learning.transform(signals)
    assert not codes[:, 8:].any()

    better = learning.set_params(replace_dead=True).fit(signals)
    assert better.dead_atoms_.size == 0
    assert better.learner_.n_replaced == 2
    assert not better.components_[:, 5:].any()


@pytest.mark.parametrize("n_vanished", [1, 8])
def test_atoms_that_vanished_code_nothing(signals, fitted, n_vanished):
    """Decay without use ends at zero weights, exactly: such an atom has no norm to divide by."""
    weights = fitted.network_
    feedback, feedforward = weights.feedback.copy(), weights.feedforward.copy()
    feedback[:, :n_vanished], feedforward[:n_vanished] = 0.0, 0.0
    learning = pickle.loads(pickle.dumps(fitted))
    learning.learner_ = TwoPhaseLearner(
        TwoPhaseNetwork(feedforward, feedback, weights.lateral), fitted.learner_.settings, scale=1.0
    )
    encoded = learning.encode(signals)
    assert encoded.converged
    assert not learning.components_[:n_vanished].any()
    assert not encoded.codes[:, :n_vanished].any()
    if n_vanished == 1:
        rest = LassoProblem(fitted.learner_.dictionary[1:], split_channels(signals), 0.1, positive=True)
        expected = solve_active_set(rest)
        np.testing.assert_allclose(encoded.codes[:, 1:], expected.codes, atol=1e-12)
        np.testing.assert_allclose(encoded.objective, expected.objective, rtol=1e-12)
    else:
        assert learning.encode(signals).objective.mean() == pytest.approx(0.5)
        assert learning.score(signals) == 0.0


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"alpha": 0.0}, ValueError, "alpha must be positive; got 0.0"),
        ({"alpha": [0.1]}, ValueError, "alpha must be one number, or one for each of 5 atoms; got 1"),
        ({"alpha": [0.1, -0.1]}, ValueError, r"alpha must be positive; got -0.1 at \[1\]"),
        ({"alpha": "small"}, TypeError, "alpha must be a real number; got str"),
        ({"missing_values": "none"}, TypeError, "missing_values must be None, np.nan or a number; got str"),
        ({"n_components": 0}, ValueError, "n_components must be positive; got 0"),
        ({"n_components": 2.0}, TypeError, "n_components must be an integer; got float"),
        ({"batch_size": 0}, ValueError, "batch_size must be positive; got 0"),
        ({"split_channels": "yes"}, TypeError, "split_channels must be True or False; got 'yes'"),
        ({"kappa": 1.0}, ValueError, r"kappa must lie in \[0, 1\); got 1.0"),
        ({"duration": 0.0}, ValueError, "duration must be positive; got 0.0"),
        ({"amplitude": -1.0}, ValueError, "amplitude must be positive; got -1.0"),
        ({"readout": "exact"}, ValueError, "readout must be one of 'rate', 'current'; got 'exact'"),
        ({"steps": 0.1}, TypeError, "steps must be UsageSteps or PaperSteps; got float"),
        ({"dict_init": np.ones((2, 4))}, ValueError, r"dict_init must have shape \(any, 5\), .*; got shape \(2, 4\)"),
        ({"dict_init": np.ones((2, 5)), "n_components": 3}, ValueError, "dict_init has 2 atoms but n_components is 3"),
        ({"dict_init": np.eye(2, 5) * [[1.0], [0.0]]}, ValueError, "dict_init must have atoms of positive norm; got zeros for atom 1"),
        ({"dict_init": -np.ones((2, 5)), "positive_dict": True}, ValueError, "dict_init must not be negative; got -1.0"),
        ({"dict_init": TwoPhaseNetwork.consistent(np.ones((2, 5))), **SPLIT}, ValueError, "dict_init has 5 inputs but signals have 10 features"),
        ({"dict_init": TwoPhaseNetwork.consistent(np.ones((2, 5)))}, ValueError, "dict_init must have the settings' positive_atoms=False, .*; got positive_atoms=True"),
        ({"alpha": 1e300}, ValueError, r"alpha must be at most 1e\+150 in units of the network"),
        ({"dict_init": TwoPhaseNetwork(np.ones((2, 10)), np.ones((10, 2)), 0.01 * np.eye(2)), **SPLIT}, ValueError, "dict_init must have thresholds of at least 0.05; got 0.01"),
        ({"replace_dead": 1}, TypeError, "replace_dead must be True or False; got 1"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"transform_alpha": -1.0}, ValueError, "transform_alpha must not be negative; got -1.0"),
        ({"transform_alpha": [0.1, 0.1]}, ValueError, r"transform_alpha must have shape \(5,\), one penalty an atom"),
        ({"tol": -1.0}, ValueError, "tol must be positive; got -1.0"),
        ({"positive_code": "x"}, TypeError, "positive_code must be True or False; got 'x'"),
        ({"positive_dict": 1}, TypeError, "positive_dict must be True or False; got 1"),
        ({"positive_dict": True, "split_channels": True}, ValueError, "positive_dict must be False with split_channels=True"),
        ({"random_state": "x"}, ValueError, "'x' cannot be used to seed"),
    ],
)  # fmt: skip
def test_bad_parameters_are_named(signals, fit, parameters, error, message):
    learning = SpikingDictionaryLearning(**parameters)
    with pytest.raises(error, match=message):
        getattr(learning, fit)(np.abs(signals))
    assert not hasattr(learning, "n_features_in_")
    assert not hasattr(learning, "learner_")


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"max_iter": 0}, ValueError, "max_iter must be positive; got 0"),
        ({"checkpoint": 3}, TypeError, "checkpoint must be a path; got int"),
        ({"checkpoint_every": 0}, ValueError, "checkpoint_every must be positive; got 0"),
        ({"callback": 3}, TypeError, "callback must be callable; got int"),
        ({"progress": 1}, TypeError, "progress must be True or False; got 1"),
    ],
)
def test_bad_parameters_of_fit_are_named(signals, parameters, error, message):
    with pytest.raises(error, match=message):
        SpikingDictionaryLearning(**parameters).fit(signals)


def test_bad_signals_are_named(signals, fitted):
    with pytest.raises(ValueError, match="X must not be all zeros: there is nothing to learn"):
        SpikingDictionaryLearning().fit(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="X must not be all zeros: there is nothing to learn"):
        SpikingDictionaryLearning().partial_fit(np.zeros((1, 4)))
    with pytest.raises(ValueError, match="X has 4 features, but SpikingDictionaryLearning is expecting 5"):
        fitted.transform(signals[:, :4])
    with pytest.raises(ValueError, match=r"X must have one column for each of 8 atoms; got shape \(200, 5\)"):
        fitted.inverse_transform(signals)
    with pytest.raises(ValueError, match=r"tol must be positive; got 0.0"):
        pickle.loads(pickle.dumps(fitted)).set_params(tol=0.0).transform(signals)
    for method in ("transform", "inverse_transform", "encode", "score"):
        with pytest.raises(NotFittedError):
            getattr(SpikingDictionaryLearning(), method)(signals)


def test_zero_signals_among_others_have_zero_codes(signals):
    some = signals.copy()
    some[::4] = 0.0
    learning = SpikingDictionaryLearning(8, random_state=0).fit(some)
    assert np.isfinite(learning.components_).all()
    assert not learning.transform(some)[::4].any()


def test_settings_of_a_fit_are_those_of_the_learner(fitted):
    assert fitted.learner_.settings == replace(LearningSettings(penalty=0.1))


# -- codes of both signs, penalties of atoms, missing values --------------------------------------


def test_codes_of_both_signs_are_of_the_signals_as_they_are(signals, fitted):
    other = pickle.loads(pickle.dumps(fitted)).set_params(positive_code=False, transform_alpha=0.2)
    codes = other.transform(signals)
    expected = solve_active_set(LassoProblem(fitted.components_, signals, 0.2))
    np.testing.assert_allclose(codes, expected.codes, rtol=0, atol=1e-9)
    assert codes.min() < 0.0
    np.testing.assert_allclose(other.encode(signals).objective, expected.objective, rtol=1e-9)
    with pytest.raises(
        ValueError, match=r"transform_alpha must be positive for .* where codes may be negative; got 0"
    ):
        other.set_params(transform_alpha=0.0).transform(signals)
    with pytest.raises(TypeError, match="positive_code must be True or False; got None"):
        other.set_params(positive_code=None).transform(signals)


def test_each_atom_may_have_a_penalty_of_its_own(signals):
    alpha = np.linspace(0.05, 0.4, 8)
    learning = SpikingDictionaryLearning(8, alpha=alpha, max_iter=2, random_state=0, **SPLIT).fit(signals)
    settings = LearningSettings(penalty=alpha)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    expected = learn_dictionary(split_channels(signals), 8, settings=settings, n_samples=400, rng=seed)
    np.testing.assert_array_equal(learning.learner_.dictionary, expected.dictionary)
    problem = LassoProblem(expected.dictionary, split_channels(signals), alpha, positive=True)
    codes = learning.transform(signals)
    np.testing.assert_allclose(codes, solve_active_set(problem).codes, rtol=0, atol=1e-9)
    equal = SpikingDictionaryLearning(8, alpha=[0.1] * 8, max_iter=2, random_state=0).fit(signals)
    plain = SpikingDictionaryLearning(8, alpha=0.1, max_iter=2, random_state=0).fit(signals)
    np.testing.assert_array_equal(equal.components_, plain.components_)
    with pytest.raises(ValueError, match="alpha must be one number, or one for each of 8 atoms; got 3"):
        learning.set_params(alpha=[0.1, 0.2, 0.3]).partial_fit(signals)


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
@pytest.mark.parametrize("missing", [np.nan, -7.0])
def test_missing_values_are_unknown_to_the_learner(signals, fit, missing):
    known = np.random.default_rng(1).random(signals.shape) < 0.7
    holed = np.where(known, signals, missing)
    learning = SpikingDictionaryLearning(8, max_iter=1, missing_values=missing, random_state=0, **SPLIT)
    getattr(learning, fit)(holed)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    split, mask = split_channels(np.where(known, signals, 0.0)), np.hstack([known, known])
    if fit == "fit":
        expected = learn_dictionary(split, 8, mask=mask, penalty=0.1, n_samples=200, rng=seed)
        np.testing.assert_array_equal(learning.learner_.dictionary, expected.dictionary)
    else:
        assert learning.n_samples_seen_ == 200
    problem = LassoProblem(learning.learner_.dictionary, split, 0.1, mask=mask, positive=True)
    codes = learning.transform(holed)
    np.testing.assert_allclose(codes, solve_active_set(problem).codes, rtol=0, atol=1e-9)
    # What is unknown does not matter, and what codes say of it is a prediction.
    assert np.isfinite(learning.inverse_transform(codes)).all()
    with pytest.raises(
        ValueError, match=r"^Input X contains NaN: set missing_values=np\.nan if NaN means not known$"
    ):
        clone(learning).set_params(missing_values=None).fit(np.where(known, signals, np.nan))


def test_a_score_hides_both_channels_of_a_feature(signals, fitted):
    fold_of = np.random.default_rng(0).permutation(5) % 5
    split, dictionary = split_channels(signals), fitted.learner_.dictionary
    missed = 0.0
    for fold in range(5):
        seen = np.tile(fold_of != fold, 2)
        part = LassoProblem(dictionary[:, seen], split[:, seen], 0.8 * 0.1, positive=True)
        missed += np.square(split[:, ~seen] - solve_active_set(part).codes @ dictionary[:, ~seen]).sum()
    assert fitted.score(signals) == pytest.approx(1.0 - missed / np.square(split).sum())


# -- kinds of numbers ----------------------------------------------------------------------------


def test_float32_signals_have_float32_atoms_and_codes(signals):
    single = signals.astype(np.float32)
    learning = SpikingDictionaryLearning(8, max_iter=1, random_state=0)
    of_single, of_double = clone(learning).fit(single), clone(learning).fit(single.astype(float))
    assert of_single.components_.dtype == of_single.transform(single).dtype == np.float32
    # All is computed as of the same numbers in float64.
    np.testing.assert_array_equal(of_single.learner_.dictionary, of_double.learner_.dictionary)
    np.testing.assert_array_equal(of_single.components_, of_double.components_.astype(np.float32))
    assert of_single.encode(single).codes.dtype == of_single.encode(single).duality_gap.dtype == np.float64
    assert of_single.inverse_transform(of_single.transform(single)).dtype == np.float32
    assert of_single.transform(signals).dtype == of_double.components_.dtype == np.float64
    # The kind of numbers is that of the first call, and of each new fit.
    streamed = clone(learning).partial_fit(single).partial_fit(signals)
    assert streamed.components_.dtype == np.float32
    assert streamed.fit(signals).components_.dtype == np.float64


@pytest.mark.parametrize("method", ["fit", "partial_fit", "transform", "encode", "score"])
def test_masked_arrays_are_refused(signals, fitted, method):
    with pytest.raises(TypeError, match=r"X must not have masked entries; .* missing_values=np\.nan"):
        getattr(pickle.loads(pickle.dumps(fitted)), method)(np.ma.masked_less(signals, 0.0))


def test_masked_codes_are_refused(signals, fitted):
    codes = fitted.transform(signals)
    with pytest.raises(TypeError, match=r"X must not have masked entries; .* pass X\.filled\(0\.0\)"):
        fitted.inverse_transform(np.ma.masked_greater(codes, 0.1))
    same = fitted.inverse_transform(np.ma.array(codes))
    np.testing.assert_array_equal(same, fitted.inverse_transform(codes))


def test_warnings_point_at_the_line_that_called(signals, fitted):
    loud = pickle.loads(pickle.dumps(fitted)).set_params(alpha=100.0)
    for call in (
        lambda: loud.transform(signals),
        lambda: loud.encode(signals),
        lambda: make_pipeline(loud).transform(signals),
        lambda: clone(loud).set_params(max_iter=1).fit(signals),
        lambda: clone(loud).set_params(max_iter=1).fit_transform(signals),
    ):
        with pytest.warns((IllPosedWarning, ConvergenceWarning)) as caught:
            call()
        assert {warning.filename for warning in caught} == {__file__}


def test_sparse_signals_are_refused_with_what_to_do(signals):
    with pytest.raises(TypeError, match=r"dense data is required. Use '.toarray\(\)'"):
        SpikingDictionaryLearning(8).fit(sparse.csr_array(signals))


# -- one signal that dominates -------------------------------------------------------------------


def test_one_signal_that_dominates_is_named(signals):
    outlier = signals.copy()
    outlier[17] *= 1000.0
    learning = SpikingDictionaryLearning(8, max_iter=1, random_state=0)
    with pytest.warns(
        IllPosedWarning, match=r"X\[17\] has more energy than all other .* a norm of 1e\+03 times the median"
    ):
        clone(learning).fit(outlier)
    with warnings.catch_warnings():
        warnings.simplefilter("error", IllPosedWarning)
        heavy = signals * np.random.default_rng(0).lognormal(0.0, 1.0, (200, 1))
        clone(learning).set_params(alpha=0.01).fit(heavy)
        clone(learning).fit(outlier[15:20])  # of so few, one may well be larger

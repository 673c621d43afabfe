"""scikit-learn's callbacks in a fit: what is called, when, with what; and that nothing changes by it."""

import importlib
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dictlearn
from dictlearn import SpikingDictionaryLearning

sklearn_callback = pytest.importorskip("sklearn.callback", reason="came with scikit-learn 1.9")

# Not a multiple of the batch; 7 passes of 450 samples cross three thousands.
N_SIGNALS, N_PASSES = 450, 7


class Recorder:
    """A callback that records what it is called with, and asks to stop after a pass."""

    def __init__(self, stop_after=None):
        self.calls, self.components, self.scores, self.stop_after = [], [], [], stop_after

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.calls.append(("begin", context.task_name, context.task_id, len(X)))

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.calls.append(("end", context.task_name, context.task_id, fitted_estimator.n_samples_seen_))
        self.components.append(fitted_estimator.components_)
        self.scores.append(fitted_estimator.score(X[:20]))
        return context.task_name == "pass" and context.task_id == self.stop_after


@pytest.fixture(scope="module")
def signals():
    return np.random.default_rng(0).standard_normal((N_SIGNALS, 4)) * 0.5


@pytest.fixture(scope="module")
def learning():
    return SpikingDictionaryLearning(5, max_iter=N_PASSES, random_state=0)


@pytest.fixture(scope="module")
def expected(learning, signals):
    return clone(learning).fit(signals).components_


def test_each_pass_is_a_task_and_nothing_is_learned_differently(learning, signals, expected):
    recorder = Recorder()
    learned = clone(learning).set_callbacks(recorder).fit(signals)
    np.testing.assert_array_equal(learned.components_, expected)
    passes = []
    for k in range(N_PASSES):
        passes += [("begin", "pass", k, N_SIGNALS), ("end", "pass", k, (k + 1) * N_SIGNALS)]
    assert recorder.calls == [
        "setup",
        ("begin", "fit", 0, N_SIGNALS),
        *passes,
        ("end", "fit", 0, N_PASSES * N_SIGNALS),
        "teardown",
    ]
    # Each estimator is as if fit had ended there, and stays so.
    for k in (1, 4):
        shorter = clone(learning).set_params(max_iter=k).fit(signals)
        np.testing.assert_array_equal(recorder.components[k - 1], shorter.components_)
        assert recorder.scores[k - 1] == shorter.score(signals[:20])


def test_a_callback_may_end_the_fit(learning, signals):
    recorder = Recorder(stop_after=2)
    learned = clone(learning).set_callbacks(recorder).fit(signals)
    assert learned.n_iter_ == 3
    assert recorder.calls[-2:] == [("end", "fit", 0, 3 * N_SIGNALS), "teardown"]


def test_a_plain_callback_is_called_as_without(learning, signals):
    seen = []
    for callbacks in ((), (Recorder(),)):
        seen.append([])
        plain = clone(learning).set_params(callback=lambda learner: seen[-1].append(learner.n_samples))
        plain.set_callbacks(*callbacks).fit(signals)
    assert seen[0] == seen[1]
    assert len(seen[0]) == 4  # three thousands and the end


def test_a_fit_from_a_checkpoint_has_all_its_passes(learning, signals, expected, tmp_path):
    path = tmp_path / "learner.npz"
    clone(learning).set_params(checkpoint=path, max_iter=3).fit(signals)
    recorder = Recorder()
    learned = clone(learning).set_params(checkpoint=path).set_callbacks(recorder).fit(signals)
    np.testing.assert_array_equal(learned.components_, expected)
    assert [call[2] for call in recorder.calls if call[:2] == ("end", "pass")] == list(range(N_PASSES))


def test_callbacks_are_torn_down_after_an_error(learning, signals):
    def fail(learner):
        raise OSError("now")

    recorder = Recorder()
    with pytest.raises(OSError, match="now"):
        clone(learning).set_params(callback=fail).set_callbacks(recorder).fit(signals)
    assert recorder.calls[-1] == "teardown"


def test_callbacks_of_scikit_learn(learning, signals, capsys):
    monitor = sklearn_callback.ScoringMonitor(scoring={"predicted": lambda fitted, X, y: fitted.score(X)})
    learned = clone(learning).set_params(max_iter=2).set_callbacks(monitor)
    learned.fit(signals, np.zeros(N_SIGNALS))  # it scores only what has a target
    assert f"{learned.score(signals):.3f}" in str([f"{value:.3f}" for value in _numbers(monitor.get_logs())])
    pytest.importorskip("rich")
    bar = sklearn_callback.ProgressBar()
    pipeline = make_pipeline(StandardScaler(), clone(learning).set_params(max_iter=2)).set_callbacks(bar)
    pipeline.fit(signals)
    assert "SpikingDictionaryLearning" in capsys.readouterr().out


def _numbers(logs):
    """Return all scores of the logs of a `ScoringMonitor`."""
    return [entry["predicted"] for log in np.atleast_1d(logs) for entry in log.data if "predicted" in entry]


def test_without_callbacks_in_scikit_learn(monkeypatch, signals):
    """As with versions before 1.9: everything but `set_callbacks`."""
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    for name in ("callbacks", "estimator"):
        monkeypatch.setattr(dictlearn, name, getattr(dictlearn, name))
        monkeypatch.delitem(sys.modules, f"dictlearn.{name}")
    without = importlib.import_module("dictlearn.estimator").SpikingDictionaryLearning
    assert without is not SpikingDictionaryLearning
    assert not hasattr(without, "set_callbacks")
    assert without(3, max_iter=1, random_state=0).fit(signals).components_.shape == (3, 4)

"""What all learners share: a new one is saved, resumed and watched; samples come in one order."""

from typing import ClassVar

import numpy as np
import pytest

from dictlearn import LearningSettings, TwoPhaseLearner, learn_dictionary, random_dictionary
from dictlearn.resumable import Course, History, Resumable, batches_in_order, learn_batches, seed_of_order
from snn.base.archive import Entry


class MeanLearner(Resumable):
    """Learns the mean of signals: all that a new learner has to say."""

    _counter, _unit = "n_samples", "sample"
    _schema: ClassVar = {
        "mean": Entry("f", ("inputs",)),
        "n_samples": Entry("iu", (), 0),
        "history": Entry("f", (None, 2)),
    }

    def __init__(self, n_inputs):
        self.mean, self.n_samples, self._history = np.zeros(n_inputs), 0, History(["n_samples", "error"])

    def learn(self, signals):
        error = float(np.square(signals - self.mean).sum())
        self.n_samples += len(signals)
        self.mean += (signals - self.mean).sum(axis=0) / self.n_samples
        self._history.add(self.n_samples, error)
        return error

    def _entries(self):
        return {"mean": self.mean, "n_samples": self.n_samples, "history": self._history.rows}

    @classmethod
    def _of_entries(cls, entries):
        learner = cls(len(entries["mean"]))
        learner.mean, learner.n_samples = entries["mean"].copy(), int(entries["n_samples"])
        learner._history.rows = entries["history"]
        return learner


def learned(signals, end, seed=3, **course):
    learner = MeanLearner(signals.shape[1])

    def batches(seed):
        return batches_in_order(len(signals), end, batch_size=4, seed=seed, first=learner.n_samples)

    learn_batches(
        learner,
        lambda rows: learner.learn(signals[rows]),
        batches,
        end=end,
        seed=seed,
        course=Course(**course),
        identity=lambda: {"seed": seed, "data": signals.tolist()},
    )
    return learner


def test_a_new_learner_is_stopped_saved_and_resumed_with_the_same_bits(tmp_path):
    signals = np.random.default_rng(0).standard_normal((20, 3))
    whole, path, seen = learned(signals, 50), tmp_path / "mean.npz", []

    def stop(learner):
        seen.append(learner.n_samples)
        return learner.n_samples >= 24

    stopped = learned(signals, 50, callback=stop, callback_every=8, checkpoint=path)
    assert seen == [8, 16, 24]
    assert MeanLearner.load(path).n_samples == stopped.n_samples == 24
    resumed = learned(signals, 50, checkpoint=path)
    copied = MeanLearner(1)
    copied.copy_from(resumed)
    resumed.mean[:] = 0.0
    for learner in (copied, MeanLearner.load(path)):
        np.testing.assert_array_equal(learner.mean, whole.mean)
        np.testing.assert_array_equal(learner._history.rows, whole._history.rows)
    for change, what in (({"seed": 4}, "seed"), ({"signals": 2.0 * signals}, "data")):
        with pytest.raises(ValueError, match=f"was made with other {what}: give it another name"):
            learned(**{"signals": signals, "end": 60, **change}, checkpoint=path)
    with pytest.raises(ValueError, match="has learned from 50 samples already; this call asks for 40: ask"):
        learned(signals, 40, checkpoint=path)


def test_a_folder_that_cannot_be_written_is_named_before_learning(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(ValueError, match=r"checkpoint must lie in a folder that can be written; got '.*mean"):
        learned(np.ones((4, 2)), 8, checkpoint=tmp_path / "mean.npz")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mean": np.array([np.nan, 1.0])}, "mean is not finite"),
        ({"n_samples": np.array(-1)}, "n_samples is too small, -1"),
        ({"history": np.zeros((2, 3))}, r"history has the wrong shape, \(2, 3\)"),
        ({"history": np.zeros((2, 2), dtype=int)}, "history has the wrong kind of entries, int64"),
    ],
)
def test_a_file_that_no_learner_wrote_is_refused(tmp_path, change, reason):
    path = tmp_path / "mean.npz"
    MeanLearner(2).save(path, note="further entries are left alone")
    with np.load(path) as entries:
        np.savez(path, **{**entries, **change})
    with pytest.raises(ValueError, match=f"path must name a saved MeanLearner; got .*{reason}"):
        MeanLearner.load(path)


@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_order_is_that_of_learn_dictionary(batch_size, monkeypatch):
    """Through three epochs, the last of them cut short."""
    signals, start = np.random.default_rng(0).uniform(size=(50, 16)), random_dictionary(8, 16, rng=3)
    seen = []
    learn = TwoPhaseLearner.learn

    def record(self, batch, **options):
        seen.append(batch.copy())
        return learn(self, batch, **options)

    monkeypatch.setattr(TwoPhaseLearner, "learn", record)
    settings = LearningSettings(penalty=0.1, batch_size=batch_size, duration=2.0)
    learn_dictionary(signals, start=start, settings=settings, n_samples=130, rng=5)
    batches = list(batches_in_order(50, 130, batch_size=batch_size, seed=seed_of_order(5)))
    assert len(batches) == len(seen)
    for which, batch in zip(batches, seen, strict=True):
        np.testing.assert_array_equal(signals[which], batch)


def test_each_epoch_has_each_signal_once_and_can_be_gone_on_from():
    options = {"batch_size": 4, "seed": 6}
    batches = list(batches_in_order(10, 25, **options))
    assert [len(batch) for batch in batches] == [4, 4, 2, 4, 4, 2, 4, 1]
    order = np.concatenate(batches)
    assert sorted(order[:10]) == sorted(order[10:20]) == list(range(10))
    assert (order[:10] != order[10:20]).any()
    for first in (0, 4, 10, 14, 20, 25):
        rest = [*batches_in_order(10, 25, first=first, **options), np.empty(0, dtype=int)]
        np.testing.assert_array_equal(np.concatenate(rest), order[first:])

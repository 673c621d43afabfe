"""The order of samples: that of learning, every signal once an epoch, the same from any place on."""

import numpy as np
import pytest

from dictlearn import LearningSettings, TwoPhaseLearner, learn_dictionary, random_dictionary
from dictlearn.resumable import batches_in_order, seed_of_order


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

"""Parts of a batch, and the threads that run them."""

import threading
import time

import numpy as np
import pytest

from dictlearn.two_phase.observed import Observed
from dictlearn.two_phase.phases import in_threads
from tests.dictlearn.two_phase.learners import assert_same
from tests.dictlearn.two_phase.test_learning import data_of, settings_of
from tests.dictlearn.two_phase.test_resuming import begun


@pytest.mark.parametrize("way", ["usage", "paper", "counts", "spiking", "signed atoms and codes"])
def test_a_batch_run_in_parts_is_the_batch(way):
    """As workers do it: a batch, parts of its rows, probes among them, and one update."""
    settings, signals = settings_of(way), data_of(way)[1]
    mask = np.random.default_rng(7).uniform(size=signals.shape) < 0.7
    mask[:7] = True  # a part without unknown inputs
    mask[::3] = True
    whole, parts = (begun(signals, settings) for _ in range(2))

    def run(batch):
        found, n_rows = [], 20 if way == "paper" else 25
        assert batch.n_rows == n_rows
        for start, stop in ((0, 7), (7, 19), (19, 23), (23, 25))[: 3 if way == "paper" else 4]:
            rows = slice(start, stop)
            found.append(batch.run(parts.synapses, some[rows], known[rows], start=start, stop=stop))
        return Observed.joined(found)

    for first in range(0, 60, 20):
        some, known = signals[first : first + 20], mask[first : first + 20]
        objective = whole.learn(some, mask=known)
        assert parts.learn_batch(20, run) == objective
    assert_same(parts, whole)


def test_threads_return_results_in_order_and_end_at_an_error():
    """Here or in another thread; Ctrl-C waits for no thread."""
    stop = threading.Event()
    assert in_threads(lambda k: 2 * k, range(4), stop) == [0, 2, 4, 6]
    assert in_threads(lambda k: k, [3], stop) == [3]
    assert not stop.is_set()
    for failing, error in ((0, KeyboardInterrupt), (2, ZeroDivisionError)):
        stop = threading.Event()

        def call(k, failing=failing, error=error, stop=stop):
            if k == failing:
                raise error
            assert k == 0 or stop.wait(10.0)

        begin = time.monotonic()
        with pytest.raises(error):
            in_threads(call, range(4), stop)
        assert time.monotonic() - begin < 5.0
        assert stop.is_set()

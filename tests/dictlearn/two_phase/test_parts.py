"""Parts of a batch, and the threads that run them."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dictlearn.two_phase.phases import join_phases
from dictlearn.two_phase.threads import LearningThreads
from tests.dictlearn.two_phase.learners import assert_same
from tests.dictlearn.two_phase.test_learning import data_of, settings_of
from tests.dictlearn.two_phase.test_resuming import begun


@pytest.mark.parametrize("way", ["usage", "paper", "signed atoms and codes"])
def test_a_batch_run_in_parts_is_the_batch(way):
    """As workers do it: a plan, parts of its rows, probes among them, and one update."""
    settings, signals = settings_of(way), data_of(way)[1]
    mask = np.random.default_rng(7).uniform(size=signals.shape) < 0.7
    whole, parts = (begun(signals, settings, mask=mask) for _ in range(2))
    helper = ThreadPoolExecutor(1)
    helper.shutdown()  # as Ctrl-C does while the batch changes the weights
    for first in range(0, 60, 20):
        batch, known = signals[first : first + 20], mask[first : first + 20]
        objective = whole.learn(batch, mask=known)
        plan, phases = parts.plan(20), []
        assert plan.n_rows == (20 if way == "paper" else 25)
        for start, stop in ((0, 7), (7, 19), (19, 23), (23, 25))[: 3 if way == "paper" else 4]:
            rows = slice(start, stop)
            phases.append(plan.run(parts.synapses, batch[rows], known[rows], start=start, stop=stop))
        assert parts.apply(plan, join_phases(phases), known, helper=helper) == objective
    assert_same(parts, whole)


def test_threads_of_learning_make_calls_cancel_and_end(monkeypatch):
    """An executor that Ctrl-C leaves in order, also while its threads start."""

    def names():
        return [thread.name for thread in threading.enumerate()]

    begin, made = threading.Event(), []
    with LearningThreads(1) as threads:
        busy, waiting = threads.submit(begin.wait), threads.submit(made.append, 1)
        assert waiting.cancel()
        begin.set()
        assert busy.result()
        calls = [threads.submit(divmod, 7, by) for by in (2, 0, 3)]
        with pytest.raises(ZeroDivisionError):
            calls[1].result()
        assert [calls[0].result(), calls[2].result(), calls[2].result()] == [(3, 1), (2, 1), (2, 1)]
        assert not calls[2].cancel()
    assert (made, "learning" in names()) == ([], False)
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(print)
    join = threading.Thread.join

    def interrupt(thread, timeout=None):
        join(thread, timeout)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", interrupt)
    with pytest.raises(KeyboardInterrupt):
        LearningThreads(3)
    end = time.monotonic() + 10.0
    while "learning" in names() and time.monotonic() < end:
        time.sleep(0.01)
    assert "learning" not in names()

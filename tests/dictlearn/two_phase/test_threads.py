"""The threads of learning: an executor that Ctrl-C leaves in order."""

import threading
import time

import pytest

from dictlearn.two_phase.threads import LearningThreads


def names():
    return [thread.name for thread in threading.enumerate()]


def test_calls_return_and_raise():
    with LearningThreads(2) as threads:
        calls = [threads.submit(divmod, 7, by) for by in (2, 0, 3)]
        assert calls[0].result() == (3, 1)
        with pytest.raises(ZeroDivisionError):
            calls[1].result()
        assert calls[2].result() == calls[2].result() == (2, 1)
        assert not calls[2].cancel()
    assert "learning" not in names()
    with pytest.raises(RuntimeError, match="after the threads were shut down"):
        threads.submit(print)


def test_a_call_that_no_thread_has_begun_can_be_cancelled():
    begin = threading.Event()
    made = []
    with LearningThreads(1) as threads:
        busy = threads.submit(begin.wait)
        waiting = threads.submit(made.append, 1)
        assert waiting.cancel()
        begin.set()
        assert busy.result()
        threads.submit(made.append, 2).result()
    assert made == [2]


def test_threads_end_where_ctrl_c_comes_while_they_start(monkeypatch):
    join = threading.Thread.join

    def interrupted(thread, timeout=None):
        join(thread, timeout)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        LearningThreads(3)
    end = time.monotonic() + 10.0
    while "learning" in names() and time.monotonic() < end:
        time.sleep(0.01)
    assert "learning" not in names()

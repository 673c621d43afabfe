"""Threads to learn with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from joblib import effective_n_jobs
from joblib.parallel import (
    LokyBackend,
    MultiprocessingBackend,
    SequentialBackend,
    ThreadingBackend,
    get_active_backend,
)
from threadpoolctl import threadpool_limits

from snn.base import checks

BACKENDS_OF_THIS_MACHINE = (SequentialBackend, ThreadingBackend, MultiprocessingBackend, LokyBackend)


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads of `n_jobs`, which has scikit-learn's meaning.

    A backend of joblib for a cluster counts the workers of the cluster.  Threads are of this machine: there
    it is one, unless `n_jobs` is given.
    """
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    backend, _ = get_active_backend()
    if isinstance(backend, BACKENDS_OF_THIS_MACHINE):
        return effective_n_jobs(n_jobs)
    return 1 if n_jobs is None else ThreadingBackend().effective_n_jobs(n_jobs)


class _Call(Future[Any]):
    """A call that a thread makes, or nobody."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self._call = call
        self._claim, self._end = Lock(), Lock()
        self._end.acquire()
        self._value: Any = None
        self._error: BaseException | None = None

    def make(self) -> None:
        """Make the call, unless it was cancelled."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error
        finally:
            self._end.release()

    def cancel(self) -> bool:
        """Return whether no thread makes the call, now or later."""
        return self._claim.acquire(blocking=False)

    def result(self, timeout: float | None = None) -> Any:
        """Return what the call returned, or raise what it raised, when it has ended."""
        with self._end:
            pass
        if self._error is not None:
            raise self._error
        return self._value


class LearningThreads(Executor):
    """Threads that Ctrl-C leaves in order.

    `ThreadPoolExecutor` and its futures have locks that Python code takes, step by step.  Ctrl-C between two
    steps in the main thread leaves a lock taken for ever, and all threads waiting; and a thread that Ctrl-C
    met while it started is not waited for, and changes weights later.  Here the main thread takes single
    locks, and no other part of the threads' state.
    """

    def __init__(self, n_threads: int) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._is_shut_down = False
        self._threads = [Thread(target=self._work, name="learning", daemon=True) for _ in range(n_threads)]
        # Not in the main thread, which would wait for each to have started.
        starter = Thread(target=self._start, daemon=True)
        try:
            starter.start()
            starter.join()
        except BaseException:
            self.shutdown(wait=False)
            raise

    def _start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.make()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> _Call:
        """Let a thread make a call."""
        if self._is_shut_down:
            raise RuntimeError("cannot make calls after the threads were shut down")
        call = _Call(partial(fn, *args, **kwargs))
        self._calls.put(call)
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads when they have made all calls."""
        self._is_shut_down = True
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()


@contextmanager
def learning_threads(n_threads: int) -> Iterator[Executor]:
    """Provide threads to learn with, and limit BLAS to one thread meanwhile.

    The products of a batch are small: with BLAS's own threads learning was six times slower.
    """
    with threadpool_limits(limits=1, user_api="blas"), LearningThreads(n_threads) as executor:
        yield executor

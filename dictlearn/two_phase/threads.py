"""Threads to learn with."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Barrier, Thread

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


@contextmanager
def learning_threads(n_threads: int) -> Iterator[Executor]:
    """Provide threads to learn with, and limit BLAS to one thread meanwhile.

    The products of a batch are small: with BLAS's own threads learning was six times slower.
    """
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(n_threads) as executor:
        # An executor does not wait for a thread that Ctrl-C met while it started: such a thread would change
        # weights later.  So all threads are started before there is work, and not by the main thread.
        starter = Thread(target=_start_threads, args=(executor, n_threads), daemon=True)
        starter.start()
        starter.join()
        yield executor


def _start_threads(executor: Executor, n_threads: int) -> None:
    """Let an executor start all of its threads, unless it is shut down before."""
    # Each waits for the others: an executor starts no other thread while one is idle.
    barrier = Barrier(n_threads)
    try:
        wait([executor.submit(barrier.wait) for _ in range(n_threads)])
    except RuntimeError:
        barrier.abort()

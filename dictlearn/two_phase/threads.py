"""Threads to learn with."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

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
        yield executor

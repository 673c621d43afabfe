"""Threads: how many, and who learns with them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from snn import checks


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs`, as scikit-learn means it, stands for.

    Parameters
    ----------
    n_jobs : int or None
        What came in.
    """
    return effective_n_jobs(checks.worker_count("n_jobs", n_jobs))


@contextmanager
def learning_threads(n_threads: int) -> Iterator[Executor]:
    """Provide threads to learn with, and keep BLAS to one meanwhile.

    Products of a batch are small: BLAS's threads, waiting for each other, made learning six times slower.

    Parameters
    ----------
    n_threads : int
        How many.
    """
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(n_threads) as executor:
        yield executor

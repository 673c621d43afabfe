"""Threads to learn with."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from snn import checks


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads of `n_jobs`, which has scikit-learn's meaning.

    Parameters
    ----------
    n_jobs : int or None
        The value to check.
    """
    return effective_n_jobs(checks.worker_count("n_jobs", n_jobs))


@contextmanager
def learning_threads(n_threads: int) -> Iterator[Executor]:
    """Provide threads to learn with, and limit BLAS to one thread meanwhile.

    The products of a batch are small: with BLAS's own threads learning was six times slower.

    Parameters
    ----------
    n_threads : int
        How many.
    """
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(n_threads) as executor:
        yield executor

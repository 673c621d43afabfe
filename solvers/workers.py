"""Batches of signals, spread over workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from joblib import Parallel, delayed
from joblib.parallel import ThreadingBackend, get_active_backend
from threadpoolctl import threadpool_info, threadpool_limits

from solvers.progress import Progress

Batch = TypeVar("Batch")
Outcome = TypeVar("Outcome")

# Numbers of one kind in a batch, 8 MB, and signals: so that a batch stays in cache and Ctrl-C is quick.
# Measured by `python -m tests.benchmarks patches`.
VALUES_PER_BATCH = 1_000_000
LARGEST_BATCH = 256
# Batches of each worker, at least, so that workers end together: `python -m tests.benchmarks threads`.
BATCHES_PER_WORKER = 2


def batch_slices(n_signals: int, n_values: int, n_workers: int) -> list[slice]:
    """Return which signals are solved together.

    Parameters
    ----------
    n_signals : int
        Number of signals.
    n_values : int
        Numbers that each keeps, such as potentials.
    n_workers : int
        Number of workers.
    """
    size = min(VALUES_PER_BATCH // n_values, LARGEST_BATCH)
    if n_workers > 1:
        size = min(size, math.ceil(n_signals / (BATCHES_PER_WORKER * n_workers)))
    size = max(size, 1)
    return [slice(start, start + size) for start in range(0, n_signals, size)]


def spread(
    solve: Callable[[Batch], Outcome],
    batches: Sequence[Batch],
    n_jobs: int | None,
    n_workers: int,
    bar: Progress | None,
    *,
    prefer: str = "threads",
) -> list[Outcome]:
    """Solve batches on workers of the kind that a `joblib.parallel_config` says, or of the kind preferred.

    Workers that are processes use as many threads of BLAS as the caller: it rounds products of matrices
    differently with their number, and results must not depend on workers.

    Parameters
    ----------
    solve : callable
        Called with each batch.
    batches : sequence
        The batches.
    n_jobs : int or None
        As joblib takes it.
    n_workers : int
        The number of workers that `n_jobs` means.
    bar : Progress or None
        A progress bar, updated after every batch.
    prefer : {"threads", "processes"}, default "threads"
        The kind of workers unless a `joblib.parallel_config` says otherwise.

    Returns
    -------
    list
        The outcomes, in the order of the batches.
    """

    def counted(outcome: Outcome) -> Outcome:
        if bar is not None:
            bar.update()
        return outcome

    if n_workers == 1 or len(batches) == 1:
        return [counted(solve(batch)) for batch in batches]
    backend, _ = get_active_backend(prefer=prefer)
    if not isinstance(backend, ThreadingBackend):
        return_as = "generator" if backend.supports_return_generator else "list"
        workers = Parallel(n_jobs=n_jobs, batch_size=1, return_as=return_as)
        blas = _blas_threads()
        tasks = (delayed(_with_blas_threads)(blas, solve, batch) for batch in batches)
        return [counted(outcome) for outcome in workers(tasks)]

    # The caller works too, and takes the next batch at once: joblib would look every 10 milliseconds.
    outcomes = [None] * len(batches)
    pending = iter(range(len(batches)))

    def work() -> None:
        try:
            for k in pending:
                outcomes[k] = counted(solve(batches[k]))
        finally:
            drop_pending()

    def drop_pending() -> None:
        for _ in pending:
            pass

    n_helpers = min(n_workers, len(batches)) - 1
    pool = ThreadPoolExecutor(n_helpers)
    try:
        helpers = [pool.submit(work) for _ in range(n_helpers)]
        work()
        for helper in helpers:
            helper.result()
    finally:
        # After an error, or Ctrl-C, no thread takes another batch, and the caller does not wait for the
        # others.
        drop_pending()
        pool.shutdown(wait=False)
    return outcomes


def _blas_threads() -> dict[str, int]:
    """Return the number of threads of each BLAS library that is loaded, by the library's prefix."""
    return {pool["prefix"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def _with_blas_threads(
    n_threads: Mapping[str, int], solve: Callable[[Batch], Outcome], batch: Batch
) -> Outcome:
    with threadpool_limits(limits=dict(n_threads)):
        return solve(batch)

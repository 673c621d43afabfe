"""Batches of signals, spread over workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from joblib import Parallel, delayed
from joblib.parallel import ThreadingBackend, get_active_backend
from tqdm import tqdm

Batch = TypeVar("Batch")
Outcome = TypeVar("Outcome")


def spread(
    solve: Callable[[Batch], Outcome],
    batches: Sequence[Batch],
    n_jobs: int | None,
    n_workers: int,
    bar: tqdm | None,
) -> list[Outcome]:
    """Solve batches on workers of the kind that joblib says, threads unless told otherwise.

    Parameters
    ----------
    solve : callable
        What to call with each batch.
    batches : sequence
        What to solve.
    n_jobs : int or None
        As joblib takes it.
    n_workers : int
        How many workers that is.
    bar : tqdm or None
        What to tell of every batch that is done.

    Returns
    -------
    list
        What came out, in the order of the batches.
    """

    # A bar adds up, which threads that do so at once would lose some of.
    at_bar = Lock()

    def counted(outcome: Outcome) -> Outcome:
        if bar is not None:
            with at_bar:
                bar.update()
        return outcome

    if n_workers == 1 or len(batches) == 1:
        return [counted(solve(batch)) for batch in batches]
    backend, _ = get_active_backend(prefer="threads")
    if not isinstance(backend, ThreadingBackend):
        return_as = "generator" if backend.supports_return_generator else "list"
        workers = Parallel(n_jobs=n_jobs, batch_size=1, return_as=return_as)
        return [counted(outcome) for outcome in workers(delayed(solve)(batch) for batch in batches)]

    # The caller works too, and nobody waits for what is done: joblib looks every 10 milliseconds.
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
        # After an error, or Ctrl-C, nobody takes another batch, and nobody waits for what others are at.
        drop_pending()
        pool.shutdown(wait=False)
    return outcomes

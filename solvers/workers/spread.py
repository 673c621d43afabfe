"""Batches of signals, spread over workers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from solvers.workers.blas import one_blas_thread
from solvers.workers.cluster import run_on_cluster
from solvers.workers.progress import Progress
from solvers.workers.transport import Shared, Task, opened

if TYPE_CHECKING:
    from distributed import Client
    from joblib.parallel import ParallelBackendBase

Batch = TypeVar("Batch")
Outcome = TypeVar("Outcome")

# Numbers of one kind in a batch, 8 MB, and signals: so that a batch stays in cache and Ctrl-C is quick.
# Measured by `python -m tests.benchmarks patches`.
VALUES_PER_BATCH = 1_000_000
LARGEST_BATCH = 256
# Batches of each worker, at least, so that workers end together: `python -m tests.benchmarks threads`.
BATCHES_PER_WORKER = 2
# Bytes from which on joblib writes what batches share to a file, which all its processes map.
SMALLEST_MAPPED = 4096


def batch_slices(n_signals: int, n_values: int, n_workers: int) -> list[slice]:
    """Return which signals are solved together."""
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
    common: Any = None,
    prefer: str = "threads",
    count: Callable[[Outcome], int] | None = None,
    blas_threads: bool = False,
) -> list[Outcome]:
    """Solve batches on workers of the kind that a `joblib.parallel_config` says, or of the kind preferred.

    What batches have in common goes to other processes once, and not with each batch.  BLAS has one thread in
    all workers, the caller among them: it rounds products of matrices differently with their number, and
    results must not depend on workers.  With `blas_threads` a single worker leaves BLAS as it is.
    """

    def counted(outcome: Outcome) -> Outcome:
        if bar is not None:
            bar.update(1 if count is None else count(outcome))
        return outcome

    is_serial = len(batches) == 1
    if not is_serial:  # to ask for the backend takes as long as some problems, and to import it longer
        from joblib.parallel import ThreadingBackend, get_active_backend

        backend, _ = get_active_backend(prefer=prefer)
        client = _cluster_of(backend)
        is_serial = n_workers == 1 and client is None
    with nullcontext() if is_serial and blas_threads else one_blas_thread():
        if is_serial:
            return [counted(solve(batch)) for batch in batches]
        if isinstance(backend, ThreadingBackend):
            return _spread_over_threads(solve, batches, n_workers, counted)
        shared = Shared((solve, common), maps_by_name=client is None)
        if client is None:
            return _spread_over_processes(shared, batches, backend, n_jobs, counted)
        # Within a task of the cluster, others may have its thread meanwhile, as with joblib.
        with backend.retrieval_context():
            return run_on_cluster(
                client,
                _solve_task,
                shared,
                lambda k: tuple(shared.task(batches[k])),
                len(batches),
                counted,
                **backend.submit_kwargs,
            )


def _cluster_of(backend: ParallelBackendBase) -> Client | None:
    """Return the client of the Dask cluster that a backend of joblib is for, if it is."""
    distributed = sys.modules.get("distributed")
    client = getattr(backend, "client", None)
    return client if distributed is not None and isinstance(client, distributed.Client) else None


def _solve_task(key: str, packed: np.ndarray, pickled: bytes, positions: list[int]) -> Any:
    """Solve a batch in another process."""
    shared = opened(key, packed)
    solve, _ = shared.content
    with one_blas_thread():
        return solve(shared.task(Task(pickled, positions)))


def _solve_numbered(number: int, *task: Any) -> tuple[int, Any]:
    return number, _solve_task(*task)


def _spread_over_processes(
    shared: Shared,
    batches: Sequence[Batch],
    backend: ParallelBackendBase,
    n_jobs: int | None,
    counted: Callable[[Outcome], Outcome],
) -> list[Outcome]:
    from joblib import Parallel, delayed

    return_as = "generator_unordered" if backend.supports_return_generator else "list"
    workers = Parallel(n_jobs=n_jobs, batch_size=1, return_as=return_as, max_nbytes=SMALLEST_MAPPED)
    tasks = (
        delayed(_solve_numbered)(k, shared.key, shared.packed, *shared.task(batch))
        for k, batch in enumerate(batches)
    )
    outcomes: list[Any] = [None] * len(batches)
    try:
        for k, outcome in workers(tasks):
            outcomes[k] = counted(outcome)
    except BrokenExecutor as error:
        if type(error).__name__ != "TerminatedWorkerError":
            raise  # not a death: a task could not be read, say, of a class that the process does not have
        raise RuntimeError(
            "a worker process died before its batch was solved, most often because memory ran out: use fewer "
            "workers, or threads, which share their memory"
        ) from error
    return outcomes


def _spread_over_threads(
    solve: Callable[[Batch], Outcome],
    batches: Sequence[Batch],
    n_workers: int,
    counted: Callable[[Outcome], Outcome],
) -> list[Outcome]:
    # The caller works too, and takes the next batch at once: joblib would look every 10 milliseconds.
    outcomes: list[Any] = [None] * len(batches)
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

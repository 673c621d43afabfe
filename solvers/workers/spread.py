"""Distribution of batches of signals to threads, or to the processes and clusters of joblib."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from solvers.workers.blas import one_blas_thread
from solvers.workers.shared import Shared

if TYPE_CHECKING:
    from joblib.parallel import ParallelBackendBase

Batch = TypeVar("Batch")
Outcome = TypeVar("Outcome")

# Least size in bytes of an array that joblib writes to a file, which all processes map.
SMALLEST_MAPPED = 4096


def spread(
    solve: Callable[[Batch], Outcome],
    batches: Sequence[Batch],
    n_jobs: int | None,
    n_workers: int,
    *,
    common: Any = None,
    prefer: str = "threads",
) -> Iterator[tuple[int, Outcome]]:
    """Return indices and outcomes of batches, as workers finish them."""
    # `joblib.parallel_config` sets the kind of workers; the default is `prefer`.  Each process gets the
    # arrays of `solve` and `common`, to which batches may refer, only once.  In workers, BLAS has one thread.
    if len(batches) == 1 or n_workers == 1:
        return ((k, solve(batch)) for k, batch in enumerate(batches))
    # Import joblib only here, because the import, and even the search for the backend, can take longer than
    # all batches.
    from joblib.parallel import ThreadingBackend, get_active_backend

    backend, _ = get_active_backend(prefer=prefer)
    if isinstance(backend, ThreadingBackend):
        return _by_threads(solve, batches, n_workers)
    return _by_joblib(solve, batches, n_jobs, common, backend)


def _by_threads(
    solve: Callable[[Batch], Outcome], batches: Sequence[Batch], n_workers: int
) -> Iterator[tuple[int, Outcome]]:
    """Yield indices and outcomes of batches in order; joblib's threads start 10 milliseconds later."""
    pool = ThreadPoolExecutor(min(n_workers, len(batches)))
    try:
        futures = [pool.submit(_numbered, k, solve, batch) for k, batch in enumerate(batches)]
        for future in futures:
            yield future.result()
    finally:
        # After an error, or Ctrl-C, no thread begins another batch, and the caller does not wait for them.
        pool.shutdown(wait=False, cancel_futures=True)


def _by_joblib(
    solve: Callable[[Batch], Outcome],
    batches: Sequence[Batch],
    n_jobs: int | None,
    common: Any,
    backend: ParallelBackendBase,
) -> Iterator[tuple[int, Outcome]]:
    """Yield indices and outcomes of batches as other processes finish them."""
    from joblib import Parallel, delayed

    if hasattr(backend, "client"):  # Dask would send every array with every batch
        shared = Shared.of((solve, common))
        sent = shared.on(backend.client)
        tasks = (delayed(_on_cluster)(k, sent, *shared.without(batch)) for k, batch in enumerate(batches))
    else:
        tasks = (delayed(_numbered)(k, solve, batch) for k, batch in enumerate(batches))
    return_as = "generator_unordered" if backend.supports_return_generator else "list"
    workers = Parallel(n_jobs=n_jobs, batch_size=1, return_as=return_as, max_nbytes=SMALLEST_MAPPED)
    try:
        yield from workers(tasks)
    except BrokenExecutor as error:
        if type(error).__name__ != "TerminatedWorkerError":
            raise  # no process died: a task could not be read, for example because its class is unknown
        raise RuntimeError(
            "a worker process died before its batch was solved, most often because memory ran out: use fewer "
            "workers, or threads, which share their memory"
        ) from error


def _numbered(number: int, solve: Callable[[Batch], Outcome], batch: Batch) -> tuple[int, Outcome]:
    with one_blas_thread():
        return number, solve(batch)


def _on_cluster(number: int, shared: Shared, *task: Any) -> tuple[int, Any]:
    solve, _ = shared.content
    return _numbered(number, solve, shared.whole(*task))

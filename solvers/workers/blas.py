"""One thread of BLAS at a time, so that products of matrices are rounded alike everywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import LibController, ThreadpoolController

_LOCK = Lock()
# The number of threads of each library before the first of those who are inside; and how many are.
_before: list[tuple[LibController, int]] = []
_n_inside = 0


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread in this process meanwhile.

    BLAS divides a long inner product among its threads, and rounds it differently with their number; results
    must not depend on the workers, which may be other processes and other machines.

    The number of threads belongs to the process.  Threads may be inside at the same time, and leave in any
    order: the last one brings back what was before the first one.
    """
    global _before, _n_inside
    with _LOCK:
        if _n_inside == 0:
            _before = [
                (library, library.num_threads) for library in _libraries("scipy.linalg" in sys.modules)
            ]
            for library, _ in _before:
                library.set_num_threads(1)
        _n_inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _n_inside -= 1
            if _n_inside == 0:
                for library, n_threads in _before:
                    library.set_num_threads(n_threads)


@cache
def _libraries(with_scipy: bool) -> list[LibController]:
    """Return the BLAS libraries of this process: NumPy's, and SciPy's own once that is imported.

    To look for them takes a millisecond, as long as some problems.
    """
    return ThreadpoolController().select(user_api="blas").lib_controllers

"""One thread of BLAS at a time, so that products of matrices are rounded alike everywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import local

from threadpoolctl import LibController, ThreadpoolController

from snn.base.locks import ForkSafeLock

_LOCK = ForkSafeLock()
# The number of threads of each library before the first of those who are inside; how many are, and how often
# each thread is.
_before: list[tuple[LibController, int]] = []
_n_inside = 0
_own = local()
# Whether `load_scipy_linalg` has done its work: those who come inside later see SciPy's library themselves.
_has_scipy = False


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread meanwhile: in this process, or in this thread if a library counts by thread.

    BLAS divides a product among its threads, and rounds it differently with their number; results must not
    depend on the workers, which may be other processes and other machines, nor on the thread that asks.

    Threads may be inside at the same time, and leave in any order: of a number that belongs to the process,
    the last one brings back what was before the first one.
    """
    global _before, _n_inside
    with _LOCK:
        libraries = _libraries("scipy.linalg" in sys.modules)
        # To set a number takes ten times as long as to ask for it.
        several = [(library, n) for library in libraries if (n := library.num_threads) != 1]
        own = [each for each in several if _counts_by_thread(each[0])]
        if _n_inside == 0:
            _before = [each for each in several if not _counts_by_thread(each[0])]
        # Counted first: a process may be forked in between.
        _n_inside += 1
        _own.n_inside = getattr(_own, "n_inside", 0) + 1
        if _n_inside == 1:
            _set_all([(library, 1) for library, _ in _before])
        _set_all([(library, 1) for library, _ in own])
    try:
        yield
    finally:
        with _LOCK:
            _set_all(own)
            if _n_inside == 1:
                _set_all(_before)
            _n_inside -= 1
            _own.n_inside -= 1


def load_scipy_linalg() -> None:
    """Import `scipy.linalg`, which takes long, and whose BLAS is its own: if its number of threads is that of
    the process, it has one thread from the start where others have one meanwhile.

    Call it before an import of `scipy.linalg` or `scipy.sparse.linalg` within a function.
    """
    global _before, _has_scipy
    if _has_scipy:
        return
    import scipy.linalg  # noqa: F401

    with _LOCK:
        # Somebody may have looked while it was being loaded.
        _libraries.cache_clear()
        known = {library.filepath for library, _ in _before}
        new = [
            (library, library.num_threads)
            for library in (_libraries(True) if _n_inside else [])
            if library.filepath not in known and not _counts_by_thread(library)
        ]
        _before = _before + new
        _set_all([(library, 1) for library, _ in new])
        _has_scipy = True


def _forget_other_threads() -> None:
    """In a forked child: count its only thread alone, and give BLAS its threads back where that is outside."""
    global _n_inside
    was_limited, _n_inside = _n_inside > 0, getattr(_own, "n_inside", 0)
    if was_limited and _n_inside == 0:
        _set_all(_before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


def _counts_by_thread(library: LibController) -> bool:
    """Return whether the number of threads of a library is that of the thread that asks, as threadpoolctl
    sets it."""
    return library.internal_api == "mkl" or getattr(library, "threading_layer", "") == "openmp"


def _set_all(numbers: list[tuple[LibController, int]]) -> None:
    """Set the number of threads of some libraries, whichever thread has set it before.

    From release 3.8 on, threadpoolctl lets one thread change the number of a process, until this thread gives
    that up, and silently does nothing for all others.
    """
    for library, n_threads in numbers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)
        library.set_num_threads(n_threads)
        if clear is not None:
            clear()


@cache
def _libraries(with_scipy: bool) -> list[LibController]:
    """Return the BLAS libraries of this process: NumPy's, and SciPy's own once that is imported.

    To look for them takes a millisecond, as long as some problems.
    """
    return ThreadpoolController().select(user_api="blas").lib_controllers

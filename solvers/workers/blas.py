"""One thread of BLAS at a time, so that products of matrices are rounded alike everywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from threading import local
from typing import NamedTuple

from threadpoolctl import LibController, ThreadpoolController

from snn.base.locks import ForkSafeLock


class Library(NamedTuple):
    """A BLAS library of this process."""

    path: str
    n_threads: Callable[[], int]
    set_n_threads: Callable[[int], object]
    counts_by_thread: bool
    """Whether its number of threads is that of the thread that asks, and not that of the process."""


_LOCK = ForkSafeLock()
# The number of threads of each library before the first of those who are inside; how many are, and how often
# each thread is.
_before: list[tuple[Library, int]] = []
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
        several = _with_several(_libraries("scipy.linalg" in sys.modules))
        own = [each for each in several if each[0].counts_by_thread]
        if _n_inside == 0:
            _before = [each for each in several if not each[0].counts_by_thread]
        # Counted first: a process may be forked in between.
        _n_inside += 1
        _own.n_inside = getattr(_own, "n_inside", 0) + 1
        for library, _ in several:
            library.set_n_threads(1)
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
        known = {library.path for library, _ in _before}
        libraries = _libraries(True) if _n_inside else ()
        new = [
            each
            for each in _with_several(libraries)
            if each[0].path not in known and not each[0].counts_by_thread
        ]
        _before = _before + new
        for library, _ in new:
            library.set_n_threads(1)
        _has_scipy = True


def _forget_other_threads() -> None:
    """In a forked child: count its only thread alone, and bring back those of BLAS where that is outside."""
    global _n_inside
    was_limited, _n_inside = _n_inside > 0, getattr(_own, "n_inside", 0)
    if was_limited and _n_inside == 0:
        _set_all(_before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


def _with_several(libraries: tuple[Library, ...]) -> list[tuple[Library, int]]:
    """Return the libraries with more than one thread, and their numbers."""
    return [(library, n) for library in libraries if (n := library.n_threads()) != 1]


def _set_all(numbers: list[tuple[Library, int]]) -> None:
    for library, n_threads in numbers:
        library.set_n_threads(n_threads)


@cache
def _libraries(with_scipy: bool) -> tuple[Library, ...]:
    """Return the BLAS libraries of this process: NumPy's, and SciPy's own once that is imported.

    To look for them takes a millisecond, as long as some problems.
    """
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return tuple(_library_of(controller) for controller in found)


def _library_of(controller: LibController) -> Library:
    by_thread = controller.internal_api == "mkl" or getattr(controller, "threading_layer", "") == "openmp"
    n_threads, set_n_threads = controller.get_num_threads, controller.set_num_threads
    if controller.internal_api == "openblas" and not by_thread:
        # From release 3.8 on, threadpoolctl lets one thread change the number of a process, and silently does
        # nothing for all others; and it takes ten times as long as the function of the library.
        for prefix, suffix in product(("", "scipy_"), ("", "64_", "_64")):
            if hasattr(controller.dynlib, f"{prefix}openblas_set_num_threads{suffix}"):
                n_threads, set_n_threads = (
                    getattr(controller.dynlib, f"{prefix}openblas_{verb}_num_threads{suffix}")
                    for verb in ("get", "set")
                )
    return Library(controller.filepath, n_threads, set_n_threads, by_thread)

"""One thread of BLAS at a time, so that products of matrices are rounded alike everywhere."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from threading import local

from threadpoolctl import LibController, ThreadpoolController

from snn.base.value import ForkSafeLock


@dataclass(frozen=True)
class Library:
    """A BLAS library of this process."""

    path: str
    n_threads: Callable[[], int] = field(compare=False)
    set_n_threads: Callable[[int], object] = field(compare=False)
    # Whether its number of threads is that of the thread that asks, and not that of the process.
    counts_by_thread: bool


_LOCK = ForkSafeLock()
# The numbers of threads of a process before the first thread came inside, and the number of threads inside.
_before: dict[Library, int] = {}
_n_inside = 0
# Number of times that each thread is inside.
_own = local()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread meanwhile: in this process, or in this thread where a library does that."""
    # BLAS divides a product among its threads, and rounds it differently with their number; results must not
    # depend on the workers, which may be other processes and other machines, nor on the thread that asks.
    # Threads may be inside at the same time, and leave in any order: the last one brings back the number of a
    # process from before the first one.
    global _n_inside
    with _LOCK:
        _n_inside += 1
        _own.n_inside = getattr(_own, "n_inside", 0) + 1
        own = _limit()
    try:
        yield
    finally:
        with _LOCK:
            _bring_back(own)
            if _n_inside == 1:
                _bring_back(_before)
            _n_inside -= 1
            _own.n_inside -= 1


@cache
def load_scipy_linalg() -> None:
    """Import `scipy.linalg`, which takes long; its own BLAS gets one thread where others have one."""
    # To be called before an import of `scipy.linalg` or `scipy.sparse.linalg` within a function.
    import scipy.linalg  # noqa: F401

    with _LOCK:
        _libraries.cache_clear()  # a thread may have looked while it was being loaded
        if _n_inside:
            _bring_back(_limit())


def _forget_other_threads() -> None:
    """In a forked child: count its only thread alone, and bring back those of BLAS where that is outside."""
    global _n_inside
    _n_inside = getattr(_own, "n_inside", 0)
    if _n_inside == 0:
        _bring_back(_before)


if hasattr(os, "register_at_fork"):
    # No thread sets a number meanwhile: the lock within BLAS that it holds would stay taken in the child.
    os.register_at_fork(
        before=_LOCK.__enter__,
        after_in_parent=lambda: _LOCK.__exit__(None, None, None),
        after_in_child=_forget_other_threads,
    )


def _limit() -> dict[Library, int]:
    """Set all libraries to one thread; return the numbers that were this thread's, and note the process's."""
    own: dict[Library, int] = {}
    for library in _libraries("scipy.linalg" in sys.modules):
        if (n_threads := library.n_threads()) != 1:
            (own if library.counts_by_thread else _before).setdefault(library, n_threads)
            library.set_n_threads(1)
    return own


def _bring_back(numbers: dict[Library, int]) -> None:
    for library, n_threads in numbers.items():
        library.set_n_threads(n_threads)
    numbers.clear()


@cache
def _libraries(with_scipy: bool) -> tuple[Library, ...]:
    """Return the BLAS libraries of this process, NumPy's and SciPy's: to look takes a millisecond."""
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

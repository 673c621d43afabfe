"""A limit of BLAS to one thread, so that the rounding of products of matrices is the same everywhere."""

import os
import sys
from collections.abc import Callable
from ctypes import PyDLL
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from threading import local
from typing import Any
from weakref import ref

from threadpoolctl import LibController, ThreadpoolController

from snn._interrupts import Undo, fork_safe_lock, held


@dataclass(frozen=True)
class Library:
    """A BLAS library of this process."""

    path: str
    n_threads: Callable[[], int] = field(compare=False)
    set_n_threads: Callable[[int], object] = field(compare=False)
    # True if each calling thread sets its own number of BLAS threads; False if the process has one number.
    counts_by_thread: bool


class _Limit:
    """A limit of BLAS to one thread; the libraries are restored when nothing refers to the limit."""

    def __init__(self) -> None:
        self.undo: dict[Library, Undo] = {}
        # A limit of a thread also holds the limit of the process, which all limited threads share.
        self.of_process: _Limit | None = None


class _OfThread(local):
    limit: Callable[[], _Limit | None] = staticmethod(lambda: None)


_LOCK = fork_safe_lock()
# Weak references to the limits of each thread and of the process.  A limit ends with the last `with` block
# that holds it.
_own = _OfThread()
_process: Callable[[], _Limit | None] = _own.limit


def one_blas_thread() -> Any:
    """Limit BLAS to one thread in a `with` block, for this thread or, if necessary, for the process."""
    # BLAS divides a product among its threads, and the rounding depends on their number.  Results must not
    # depend on the workers, which may be other processes and machines, nor on the calling thread.  Several
    # threads may be in such blocks, and leave them in any order.  The last thread restores the number of BLAS
    # threads of the process.
    return held(_limited)


def _limited() -> _Limit:
    """Limit BLAS, and return the limit of this thread."""
    global _process
    own = process = undo = None
    try:
        with _LOCK:
            own = _own.limit() or _Limit()
            process = own.of_process = own.of_process or _process() or _Limit()
            _own.limit, _process = ref(own), ref(process)
            for library, n_threads in _unlimited():
                undo = (own if library.counts_by_thread else process).undo.setdefault(library, Undo())
                if undo.call is int:
                    undo.call = partial(library.set_n_threads, n_threads)
                library.set_n_threads(1)
            return own
    finally:
        own = process = undo = None  # so that a traceback of Ctrl-C does not keep the limit


def _unlimited() -> list[tuple[Library, int]]:
    # This function is separate because in Python 3.13, Ctrl-C in a loop with a filter skips the `finally`.
    numbers = [(library, library.n_threads()) for library in _libraries("scipy.linalg" in sys.modules)]
    return [(library, n_threads) for library, n_threads in numbers if n_threads != 1]


@cache
def load_scipy_linalg() -> None:
    """Import `scipy.linalg`, which takes long, and limit its own BLAS if a limit is in force."""
    # Call this before any import of `scipy.linalg` or `scipy.sparse.linalg` within a function.
    import scipy.linalg  # noqa: F401

    with _LOCK:
        _libraries.cache_clear()  # a thread may have filled the cache during the import
    _limited()


def _forget_other_threads() -> None:
    """In a forked child, let the limit of the process end with the child's only thread."""
    global _process
    own, process = _own.limit(), _process()
    if process is not None:
        moved = _Limit()
        moved.undo, process.undo, _process = process.undo, {}, ref(moved)
        if own is not None:
            own.of_process = moved


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@cache
def _libraries(with_scipy: bool) -> tuple[Library, ...]:
    """Return the BLAS libraries of this process, NumPy's and SciPy's; the search takes a millisecond."""
    controllers = ThreadpoolController().select(user_api="blas").lib_controllers
    return tuple(_library_of(controller) for controller in controllers)


def _library_of(controller: LibController) -> Library:
    by_thread = controller.internal_api == "mkl" or getattr(controller, "threading_layer", "") == "openmp"
    n_threads, set_n_threads = controller.get_num_threads, controller.set_num_threads
    if controller.internal_api == "openblas":
        # Set the number of threads by a call of the library.  Since release 3.8, threadpoolctl lets only one
        # thread change the number of BLAS threads of a process, and silently ignores all other threads.  A
        # call of threadpoolctl also takes ten times as long.  `PyDLL` keeps the GIL, so that no thread forks
        # while BLAS holds its lock, or sees a limit half undone.
        functions = PyDLL(controller.filepath)
        for prefix, suffix in product(("", "scipy_"), ("", "64_", "_64")):
            if hasattr(functions, f"{prefix}openblas_set_num_threads{suffix}"):
                n_threads, set_n_threads = (
                    getattr(functions, f"{prefix}openblas_{verb}_num_threads{suffix}")
                    for verb in ("get", "set")
                )
    return Library(controller.filepath, n_threads, set_n_threads, by_thread)

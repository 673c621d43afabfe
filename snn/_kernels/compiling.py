"""How kernels are compiled and cached."""

import functools
from collections.abc import Callable
from pathlib import Path

from numba import njit


@functools.cache
def _stamp() -> tuple[float, int]:
    """Return the latest change, and the total size, of all files of kernels."""
    stats = [path.stat() for path in sorted(Path(__file__).parent.glob("*.py"))]
    return max(stat.st_mtime for stat in stats), sum(stat.st_size for stat in stats)


def compiled(function: Callable) -> Callable:
    """Compile for one processor at first call, without the GIL; keep the machine code on disk.

    `inf` and comparisons of times mean what they say: no blanket fast-math.
    """
    return _cached_by_all_files(njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: Callable) -> Callable:
    """As `compiled`, for what runs once a spike: no call is left of it."""
    return _cached_by_all_files(njit(cache=True, nogil=True, error_model="numpy", inline="always")(function))


def _cached_by_all_files(dispatcher: Callable) -> Callable:
    # Numba recompiles a kernel when its own file has changed.  Kernels hold copies of what they call in
    # other files, so here it is when any file has.  Should Numba's internals move, only that is lost.
    cache_file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = _stamp()
    return dispatcher

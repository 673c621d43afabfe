"""Warnings that point at the code which called, whatever is in between."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import FrameType

# Packages whose code is not the caller's: estimators are called through wrappers of scikit-learn.
PASSED_OVER = {"snn", "solvers", "dictlearn", "sklearn", "joblib"}

# Whether a warning is given; filters of the `warnings` module belong to all threads of the process.
_WANTED: ContextVar[tuple[Callable[[str, type[Warning]], bool], ...]] = ContextVar("wanted", default=())


@contextmanager
def _wanted(is_wanted: Callable[[str, type[Warning]], bool]) -> Iterator[None]:
    token = _WANTED.set((*_WANTED.get(), is_wanted))
    try:
        yield
    finally:
        _WANTED.reset(token)


def without_warnings(category: type[Warning] = Warning) -> AbstractContextManager[None]:
    """Leave out warnings of this project within, as the caller gives one for all; of this thread alone."""
    return _wanted(lambda _, given: not issubclass(given, category))


def each_warning_once() -> AbstractContextManager[None]:
    """Give each warning of this project once within, whatever gives it; of this thread alone."""
    given = set()

    def is_new(message: str, category: type[Warning]) -> bool:
        is_new = (message, category) not in given
        given.add((message, category))
        return is_new

    return _wanted(is_new)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn with the line outside of this project and of scikit-learn from which it was called."""
    if not all(is_wanted(message, category) for is_wanted in _WANTED.get()):
        return
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

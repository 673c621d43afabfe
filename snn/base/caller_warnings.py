"""Warnings that point at the code which called, whatever is in between."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

PASSED_OVER = {"snn", "solvers", "dictlearn", "sklearn", "joblib"}
"""Packages whose code is not the caller's: estimators are called through wrappers of scikit-learn."""

_SAID: ContextVar[set[tuple[str, type[Warning]]] | None] = ContextVar("said", default=None)
_LEFT_OUT: ContextVar[tuple[type[Warning], ...]] = ContextVar("left_out", default=())


@contextmanager
def without_warnings(category: type[Warning] = Warning) -> Iterator[None]:
    """Leave out warnings of this project within, because the caller gives one for all; of this thread alone.

    Filters of the `warnings` module belong to the process, and other threads would see them.
    """
    token = _LEFT_OUT.set((*_LEFT_OUT.get(), category))
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Give each warning of this project once within, whoever gives it; of this thread alone."""
    token = _SAID.set(set())
    try:
        yield
    finally:
        _SAID.reset(token)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn with the line outside of this project and of scikit-learn from which it was called.

    Nothing is said within `without_warnings`, and nothing twice within `each_warning_once`.
    """
    if issubclass(category, _LEFT_OUT.get()):
        return
    said = _SAID.get()
    if said is not None:
        if (message, category) in said:
            return
        said.add((message, category))
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

"""Warnings that point at the code which called, whatever is in between."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

# Packages whose code is not the caller's: estimators are called through wrappers of scikit-learn.
PASSED_OVER = {"snn", "solvers", "dictlearn", "sklearn", "joblib"}

# Filters of the `warnings` module belong to all threads of the process; these to one.
_LEFT_OUT: ContextVar[tuple[type[Warning], ...]] = ContextVar("left_out", default=())


@contextmanager
def without_warnings(category: type[Warning] = Warning) -> Iterator[None]:
    """Leave out warnings of this project within, as the caller gives one for all; of this thread alone."""
    token = _LEFT_OUT.set((*_LEFT_OUT.get(), category))
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn with the line outside of this project and of scikit-learn from which it was called."""
    if issubclass(category, _LEFT_OUT.get()):
        return
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

"""Warnings that point at the code which called, whatever is in between."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

PASSED_OVER = {"snn", "solvers", "dictlearn", "sklearn", "joblib"}
"""Packages whose code is not the caller's: estimators are called through wrappers of scikit-learn."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn with the line outside of this project and of scikit-learn from which it was called.

    Parameters
    ----------
    message : str
        One sentence.
    category : type
        Kind of warning.
    """
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

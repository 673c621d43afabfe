"""Packages that are not needed until a function that uses them is called."""

from __future__ import annotations

import importlib
from types import ModuleType


def require(module: str, *, extra: str) -> ModuleType:
    """Import a package of an extra and return it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} must be installed for this; got an error where it is imported ({error}): "
            f"pip install 'sparsespike[{extra}]'"
        ) from error

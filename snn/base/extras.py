"""Packages that are not needed until a function that uses them is called."""

from __future__ import annotations

import importlib
from types import ModuleType


def require(module: str, *, extra: str) -> ModuleType:
    """Import a package of an extra and return it.

    Parameters
    ----------
    module : str
        Its name in an import statement.
    extra : str
        The extra of this project that installs it.

    Raises
    ------
    ImportError
        If the package is not installed, or fails where it is imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} must be installed for this; got an error where it is imported ({error}): "
            f"pip install 'sparsespike[{extra}]'"
        ) from error

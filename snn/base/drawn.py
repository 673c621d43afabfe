"""Results that draw themselves: one dispatch for all packages.

A drawing is a function in the module ``pictures`` of a package, registered with `plot` for the type that it
draws.  These modules import Matplotlib.  So they are imported when a result of their package is drawn for the
first time, and not with the package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from snn.base.html import Described

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PACKAGES = ("snn", "solvers", "dictlearn")
"""Packages with a module ``pictures``."""


@singledispatch
def plot(value: Any, *, ax: Axes | None = None) -> Axes:
    """Draw a value.  Drawings are registered for types: ``@plot.register``.

    Parameters
    ----------
    value : object
        What to draw.
    ax : Axes, optional
        Where to draw; by default the current axes.
    """
    raise TypeError(f"value must be of a type that has a picture; got {type(value).__name__}")


def drawing_of(kind: type) -> Callable[..., Axes]:
    """Return the function that draws values of a type."""
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    for package in PACKAGES:
        if package in packages:
            import_module(f"{package}.pictures")
    return plot.dispatch(kind)


class Drawn(Described):
    """A result: it describes itself in a line and a table, and draws itself."""

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the result, and return the axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; by default the current axes.
        **options
            Options of the drawing; docs/pictures.md lists them for each type.

        Raises
        ------
        TypeError, ValueError
            If an option is unknown, or an argument is of the wrong kind or value.
        """
        draw = drawing_of(type(self))
        _, *known = signature(draw).parameters.values()
        if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known):
            names = [parameter.name for parameter in known]
            for name in options:
                if name not in names:
                    raise TypeError(f"{type(self).__name__}.plot takes {' and '.join(names)}; got {name}")
        return draw(self, ax=ax, **options)

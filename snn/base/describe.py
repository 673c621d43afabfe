"""Classes for objects that describe themselves in one line or as a table, and for results with pictures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import singledispatch
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from snn.base.checks import is_ours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CHARACTERS = 100  # most characters of a fact; further characters are cut off
MOST_NUMBERS = 100_000  # size of the largest array whose range is computed
UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


class Closed:
    """An object that refuses to set unknown attributes; subclasses outside of this project may set any."""

    # Names of attributes that can be set, besides properties with a setter and names with an underscore.
    _assignable: ClassVar[tuple[str, ...]] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self)
        is_known = name[:1] == "_" or name in self._assignable or _has_setter(kind, name)
        if not is_known and is_ours(kind.__module__):
            allowed = sorted({*self._assignable, *(other for other in dir(kind) if _has_setter(kind, other))})
            remedy = f"what can be set: {', '.join(allowed)}" if allowed else "make a new object"
            raise AttributeError(f"{name} of a {kind.__name__} cannot be set; {remedy}", name=name, obj=self)
        super().__setattr__(name, value)


def _has_setter(kind: type, name: str) -> bool:
    return getattr(getattr(kind, name, None), "fset", None) is not None


class Described(Closed):
    """An object that shows a few facts: in one line by `repr`, and as a table in notebooks."""

    # Names of the attributes that are facts; by default the fields of a dataclass without ``repr=False``.
    # A dataclass that inherits from this class needs ``repr=False``, or gets another `__repr__`.
    _shown: ClassVar[tuple[str, ...] | None] = None

    def _facts(self) -> Mapping[str, str]:
        """Return the facts by name; the computation of a fact must be cheap."""
        names = self._shown
        if names is None:
            names = tuple(field.name for field in fields(self) if field.repr)  # type: ignore[arg-type]
        values = ((name.removeprefix("n_").replace("_", " "), getattr(self, name)) for name in names)
        return {name: fact_of(value) for name, value in values if value is not None}

    def __repr__(self) -> str:
        facts = (f"{name}: {_one_line(fact)}" for name, fact in self._facts().items())
        return f"<{'; '.join([type(self).__name__, *facts])}>"

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self._facts().items())


class Drawn(Described):
    """A result with a method that draws the result."""

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the result into `ax` or a new figure; docs/pictures.md lists the options of each type."""
        for package in {base.__module__.partition(".")[0] for base in type(self).__mro__}:
            if is_ours(package):
                import_module(f"{package}.pictures")  # this module imports Matplotlib
        return plot(self, ax=ax, **options)


@singledispatch
def plot(value: Any, *, ax: Axes | None = None) -> Axes:
    """Draw a value; the `pictures` module of each package registers a function for each type."""
    raise TypeError(f"value must be of a type that has a picture; got {type(value).__name__}")


def fact_of(value: Any) -> str:
    """Return a value as a short text, such as a number, the size and range of an array, or a class name."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, float, np.number)):
        return number(value)
    if isinstance(value, np.ndarray):
        if value.dtype == np.bool_:
            return f"{np.count_nonzero(value):,} of {value.size:,}"
        is_shown = value.size <= MOST_NUMBERS and value.dtype.kind in "fiu"
        about = value_range(value) if is_shown else memory(value.nbytes)
        return f"{size(value.shape)}, {about}" if value.ndim else about
    if isinstance(value, tuple) and all(isinstance(side, int) for side in value):
        return size(value)
    if isinstance(value, Collection):
        return number(len(value))
    return getattr(value, "__name__", type(value).__name__)


def table(title: str, rows: Iterable[Iterable[str]], *, columns: Sequence[str] = ()) -> str:
    """Return an HTML table with escaped texts, and with a header if there are `columns`."""
    side = "right" if columns else "left"

    def line(tag: str, texts: Iterable[str]) -> str:
        first, *others = (escape(_one_line(text)) for text in texts)
        cells = "".join(f'<{tag} style="text-align: {side}">{text}</{tag}>' for text in others)
        return f'<tr><th style="text-align: left">{first}</th>{cells}</tr>'

    body = "".join([*(line("th", heads) for heads in [columns] if heads), *(line("td", row) for row in rows)])
    caption = f'<caption style="text-align: left"><strong>{escape(_one_line(title))}</strong></caption>'
    # In a page without a doctype, a table has the colour of the page only if the style asks for this colour.
    return f'<table style="color: inherit">{caption}<tbody>{body}</tbody></table>'


def value_range(values: np.ndarray) -> str:
    """Return the smallest and the largest value as text, or one number if they are equal."""
    if not values.size:
        return "none"
    low, high = number(values.min()), number(values.max())
    return low if low == high else f"{low} to {high}"


def number(value: Any) -> str:
    """Return a number as text: an integer with all digits, a float with three digits."""
    return f"{value:,}" if isinstance(value, (int, np.integer)) else f"{value:.3g}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the singular or the plural."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(shape: Sequence[int]) -> str:
    """Return a shape as text, such as ``64 x 64 x 8``."""
    return " x ".join(f"{side:,}" for side in shape)


def memory(n_bytes: int) -> str:
    """Return a number of bytes as text, in the largest unit that fits."""
    unit, name = next(((unit, name) for unit, name in UNITS if n_bytes >= unit), (1, "bytes"))
    return f"{n_bytes / unit:.3g} {name}" if unit > 1 else counted(n_bytes, "byte")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"

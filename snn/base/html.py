"""What an object says of itself in one line, and as a table in a notebook: the same facts in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

MOST_CHARACTERS = 100
"""Length of a fact; the rest is cut off."""
TINY = 1e-300
"""What is smaller is what underflow left of zero."""
UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
# No colours: notebooks have their own, light and dark.
LEFT = ' style="text-align: left"'
RIGHT = ' style="text-align: right"'


class Described:
    """An object that says a few facts of itself, in a line by `repr` and as a table in notebooks.

    A class that inherits it defines `_facts`; one that does not says its name alone.  Facts are cheap: sizes,
    ranges of vectors, and what was computed before.  A dataclass passes ``repr=False``, because its own would
    come first.
    """

    def _facts(self) -> Mapping[str, str]:
        """Return the facts, by name, in the order in which they are shown."""
        return {}

    def __repr__(self) -> str:
        facts = (f"{name}: {_shortened(fact)}" for name, fact in self._facts().items())
        return f"<{'; '.join([type(self).__name__, *facts])}>"

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self._facts())


def table(title: str, facts: Mapping[str, str]) -> str:
    """Return facts as a table of HTML, a row each, everything escaped."""
    rows = [
        f'<tr><th scope="row"{LEFT}>{escape(name)}</th><td{LEFT}>{_cell(fact)}</td></tr>'
        for name, fact in facts.items()
    ]
    return _table(title, "", rows)


def grid(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of HTML with several columns, the first of which names the rows, everything escaped."""
    cells = [f'<th scope="col"{RIGHT if k else LEFT}>{_cell(name)}</th>' for k, name in enumerate(columns)]
    lines = [
        f'<tr><th scope="row"{LEFT}>{_cell(name)}</th>'
        + "".join(f"<td{RIGHT}>{_cell(cell)}</td>" for cell in rest)
        + "</tr>"
        for name, *rest in rows
    ]
    return _table(title, f"<thead><tr>{''.join(cells)}</tr></thead>", lines)


def value_range(values: np.ndarray, *, digits: int = 3) -> str:
    """Return the smallest and the largest of some numbers as text, or the only one."""
    values = np.asarray(values)
    if not values.size:
        return "none"
    low, high = (number(end, digits=digits) for end in (values.min().item(), values.max().item()))
    return low if low == high else f"{low} to {high}"


def number(value: float, *, digits: int = 3) -> str:
    """Return a number as text: integers with all their digits, floats with a few, or 0 below `TINY`."""
    if abs(value) < TINY:
        return "0"
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun, in the singular or the plural."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size(shape: Sequence[int]) -> str:
    """Return a shape as text: ``64 x 64 x 8``."""
    return " x ".join(f"{side:,}" for side in shape)


def memory(n_bytes: int) -> str:
    """Return a number of bytes as text, in a unit of its size."""
    unit, name = next(((unit, name) for unit, name in UNITS if n_bytes >= unit), (1, "bytes"))
    return f"{n_bytes / unit:.3g} {name}" if unit > 1 else counted(n_bytes, "byte")


def _table(title: str, head: str, rows: Sequence[str]) -> str:
    caption = f'<caption style="text-align: left"><strong>{_cell(title)}</strong></caption>'
    body = f"<tbody>{''.join(rows)}</tbody>"
    # Where a page has no doctype, tables do not inherit the colour of the text.
    return f'<table style="color: inherit">{caption}{head}{body}</table>'


def _cell(text: str) -> str:
    return escape(_shortened(text))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"

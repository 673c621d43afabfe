"""What was measured, as JSON that is light to keep: a row of a table on a line."""

import json
from collections.abc import Iterable
from pathlib import Path

WIDTH = 150


def write_results(path: Path, data: object) -> None:
    """Write what was measured; a file that exists is replaced in one step."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(compact(data) + "\n", encoding="utf-8")
    part.replace(path)


def compact(value: object, indent: int = 0) -> str:
    """Return JSON in which lists of numbers, and whatever fits, are on one line."""
    line = json.dumps(value)
    if not isinstance(value, (dict, list, tuple)) or indent + len(line) <= WIDTH:
        return line
    start = "\n" + " " * (indent + 1)
    if isinstance(value, dict):
        rows = (f"{json.dumps(str(name))}: {compact(each, indent + 1)}" for name, each in value.items())
        return f"{{{start}{f',{start}'.join(rows)}{start[:-1]}}}"
    if not any(isinstance(each, (dict, list, tuple)) for each in value):
        return line
    rows = (compact(each, indent + 1) for each in value)
    if any(isinstance(each, dict) for each in value):
        return f"[{start}{f',{start}'.join(rows)}{start[:-1]}]"
    return f"[{start}{f',{start}'.join(filled(rows))}{start[:-1]}]"


def filled(rows: Iterable[str]) -> list[str]:
    """Return short rows joined, as many as fit on a line."""
    lines: list[str] = []
    for row in rows:
        if lines and len(lines[-1]) + len(row) + 2 <= WIDTH:
            lines[-1] += f", {row}"
        else:
            lines.append(row)
    return lines

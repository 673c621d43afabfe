"""From what was measured to what is read: JSON, pictures, and one page."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np

from examples._pictures import save_picture
from examples._results import write_results
from tests.benchmarks.timing import table

PAGE = "README.md"
HOW = (
    "Peers run side by side in one process, on one thread unless a table says otherwise.  Answers are "
    "verified before they are timed: spike counts must be equal, and every code must have the duality gap "
    "wanted, by the certificate of `solvers.certificate.optimality`, in units of 1/2 ||signal||².  A peer "
    "with a tolerance of its own is given the loosest one with which it gets there.  Peers take turns; ± is "
    "half the distance of the quartiles.  Compilation is outside the clock, and so is the Gram matrix, "
    "which is given to all that accept it."
)


class Target(NamedTuple):
    """What should be shown, and what was."""

    work: str
    target: str
    measured: str
    met: bool | None
    """None: not measured."""


def at_least(work: str, needed: float, value: float | None, target: str) -> Target:
    """Return a target for a ratio."""
    value = number(value)
    if not math.isfinite(value):
        return Target(work, target, "not measured", None)
    return Target(work, target, f"{value:.3g}x", value >= needed)


def at_most(work: str, needed: float, value: float | None, target: str, unit: str) -> Target:
    """Return a target for a quantity that should be small."""
    value = number(value)
    if not math.isfinite(value):
        return Target(work, target, "not measured", None)
    return Target(work, target, f"{value:.3g}{unit}", value <= needed)


def save(output: Path, name: str, section: ModuleType, data: dict) -> None:
    """Write a section's JSON and picture."""
    output.mkdir(parents=True, exist_ok=True)
    write_results(output / f"{name}.json", _storable(data))
    draw(output, name, section, data)


def draw(output: Path, name: str, section: ModuleType, data: dict) -> None:
    """Write a section's picture, if it has one."""
    picture = section.plot(data)
    if picture is not None:
        save_picture(picture, output / f"{name}.png", dpi=110)


def _storable(value: object) -> object:
    """Return a value as JSON can hold it: numbers of seven digits, and null for those that are none."""
    if isinstance(value, dict):
        return {str(name): _storable(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_storable(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value


def number(value: float | None) -> float:
    """Return a number read from JSON, NaN for null."""
    return math.nan if value is None else float(value)


def figures(output: Path, sections: Mapping[str, ModuleType]) -> dict[str, dict]:
    """Return the figures of all sections whose JSON is in the folder."""
    return {
        name: json.loads((output / f"{name}.json").read_text())
        for name, section in sections.items()
        if hasattr(section, "markdown") and (output / f"{name}.json").exists()
    }


def write_page(output: Path, sections: Mapping[str, ModuleType]) -> str:
    """Write the page of all sections whose JSON is in the folder, and return it."""
    measured = figures(output, sections)
    small = any(data["quick"] for data in measured.values())
    parts = [
        "# Benchmarks",
        "Made by `python -m tests.benchmarks`"
        + (" --quick: **small sizes, no figures to quote**." if small else "."),
        HOW,
        *sorted({f"{data['processor']}.  {data['versions']}." for data in measured.values()}),
        *first_calls(measured),
        "## Targets",
        target_table([target for name, data in measured.items() for target in sections[name].targets(data)]),
    ]
    for name, data in measured.items():
        parts += [f"## {sections[name].TITLE}", sections[name].markdown(data)]
        if (output / f"{name}.png").exists():
            parts.append(f"![{sections[name].TITLE}]({name}.png)")
    page = "\n\n".join(parts) + "\n"
    (output / PAGE).write_text(page)
    return page


def first_calls(measured: Mapping[str, dict]) -> list[str]:
    """Return a line on what the first calls took, if any was timed."""
    slowest: dict[str, float] = {}
    for data in measured.values():
        for name, seconds in data["first_calls"].items():
            slowest[name] = max(seconds, slowest.get(name, 0.0))
    # Less than this is not compilation.
    slow = {name: seconds for name, seconds in slowest.items() if seconds >= 0.05}
    if not slow:
        return []
    named = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in slow.items())
    return [f"First calls, imports and compilation, counted nowhere else: {named}."]


def target_table(targets: list[Target]) -> str:
    """Return the targets, met or not."""
    verdict = {True: "yes", False: "**no**", None: ""}
    return table(
        ["work", "target", "measured", "met?"],
        [[each.work, each.target, each.measured, verdict[each.met]] for each in targets],
    )

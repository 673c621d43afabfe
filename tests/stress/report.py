"""Write the tables and the figure of docs/reliability.md from what the programs of this folder measured.

    python -m tests.stress.report

Each program writes ``docs/results/reliability_NAME.json``, with its command and its failures.  The text
between ``<!-- measured: reliability-NAME -->`` and ``<!-- end of reliability-NAME -->`` is made anew by the
function of that name in `SECTIONS`, and a line of the summary by that in `PROMISES`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from tests.benchmarks.quoted import BLOCK

from examples._pictures import save_picture
from tests.benchmarks.timing import table
from tests.reference.exact_spikes import LEAST_POWER, MOST_POWER
from tests.stress import pictures, tables

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "docs" / "results"
FIGURE = ROOT / "docs" / "figures" / "reliability_networks.png"


class Promise(NamedTuple):
    """A line of the summary."""

    promise: str
    how: str
    figure: Callable[[dict], str]


def measured() -> dict[str, dict]:
    """Return what was measured, by name."""
    prefix = "reliability_"
    return {
        file.stem.removeprefix(prefix): json.loads(file.read_text())
        for file in sorted(RESULTS.glob(f"{prefix}*.json"))
    }


def filled(text: str, data: dict[str, dict]) -> str:
    """Return a page with all tables made anew of which there are measurements."""

    def fill(found) -> str:
        name = found[2].removeprefix("reliability-")
        if name == "summary":
            return f"{found[1]}{summary(data)}{found[3]}"
        if name not in data or name not in SECTIONS:
            return found[0]
        command = f"```\n{data[name]['command']}\n```"
        return f"{found[1]}{command}\n\n{SECTIONS[name](data[name])}{found[3]}"

    return BLOCK.sub(fill, text)


def summary(data: dict[str, dict]) -> str:
    """Return the table of what is promised."""
    rows = [
        [f"**{promise.promise}**", promise.how, promise.figure(data[name])]
        for name, promise in PROMISES.items()
        if name in data
    ]
    return table(["promise", "how it is tested", "figure"], rows)


# -- networks ------------------------------------------------------------------------------------


def total(counts: dict[str, dict], name: str) -> int:
    return sum(count[name] for count in counts.values())


def quantile(errors: np.ndarray, share: float) -> float:
    """Return the power of two, in roundings, below which this share of the instants is."""
    place = int(np.searchsorted(np.cumsum(errors), share * errors.sum()))
    return 2.0 ** (LEAST_POWER + place + 1)


def error_of(count: dict) -> np.ndarray:
    return np.array(count["errors"])


def networks_line(data: dict) -> str:
    forms = data["forms"]
    return (
        f"{data['networks']:,} networks, {total(forms, 'spikes'):,} spikes: {len(data['failures'])} wrong; "
        f"{100 * total(forms, 'same to the end') / data['networks']:.1f} % of the runs are those of the free "
        "simulator to the end"
    )


def networks_rows(counts: dict[str, dict], header: str) -> str:
    rows = []
    for name, count in counts.items():
        errors = error_of(count)
        rows.append(
            [
                name,
                f"{count['networks']:,}",
                f"{count['spikes']:,}",
                f"{count['ties']:,}",
                f"{count['undecided']:,}",
                f"{count['same to the end']:,}",
                f"{count['apart after an undecided tie']:,}",
                f"{count['apart by rounding']:,}",
                f"{count['runaways']:,}",
                f"{count['refused']:,}",
                f"{quantile(errors, 0.5):g}",
                f"{quantile(errors, 0.999):g}",
            ]
        )
    return table(
        [
            header, "networks", "spikes", "instants with ties", "neurons undecided", "same to the end",
            "apart after one undecided", "apart by rounding", "runaways", "refused",
            "half of the errors below", "99.9 % below",
        ],
        rows,
    )  # fmt: skip


def networks_section(data: dict) -> str:
    forms, ways = data["forms"], data["ways"]
    errors = sum(error_of(count) for count in forms.values())
    beyond = errors[10 - LEAST_POWER :].sum()
    free = sum(np.array(count["free errors"]) for count in forms.values())
    compared = sum(
        total(forms, name)
        for name in ("same to the end", "apart after an undecided tie", "apart by rounding")
    )
    refused = data["networks"] - compared - len(data["failures"])
    words = (
        f"{data['networks']:,} networks, {total(forms, 'spikes'):,} spikes, "
        f"{errors.sum():,} instants: **{len(data['failures'])} runs wrong**. Half of the instants are known "
        f"better than to {quantile(errors, 0.5):g} roundings, 99.9 % better than to "
        f"{quantile(errors, 0.999):g}; {beyond:,} are off by more than 1,024.\n"
        f"{total(forms, 'same to the end'):,} runs have the spikes of the free simulator to their end, "
        f"{int(free[:6].sum()):,} of the {int(free.sum()):,} with spikes have its times within 1e-12 of the "
        "length of the run, as far as they agree; "
        f"{total(forms, 'apart after an undecided tie'):,} part from it after a neuron that may fire or not, "
        f"{total(forms, 'apart by rounding'):,} after a crossing so flat that rounding moves it; "
        f"{refused:,} were refused, and so were {total(forms, 'refused') - refused:,} continuations of "
        "others.\n"
        "Run once more: " + ", ".join(f"{name} {count:,}" for name, count in ways.items()) + "."
    )
    return f"{words}\n\n{networks_rows(forms, 'form')}\n\n{networks_rows(data['regimes'], 'regime')}"


def draw_networks(data: dict) -> plt.Figure:
    """Return the figure of errors of times, and of whole runs beside the free simulator."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 3.8), layout="constrained")
    powers = np.arange(LEAST_POWER, MOST_POWER + 1)
    for k, (name, count) in enumerate(data["forms"].items()):
        errors = error_of(count)
        style = "-" if k < 5 else "--"
        left.plot(
            2.0 ** (powers + 0.5), errors / errors.sum(), style, color=f"C{k}", label=name, linewidth=1.2
        )
    left.axvline(2.0**10, color="black", linewidth=0.8, linestyle=":")
    left.text(2.0**10.3, 0.5, "one instant\nup to here", va="top", fontsize=8)
    left.set(
        yscale="log", xlabel="error of a spike time, in roundings", ylabel="share of the instants",
        xlim=(2.0**-12, 2.0**15),
    )  # fmt: skip
    left.set_xscale("log", base=2)
    right.set_xlim(-18.2, 1.2)
    left.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    free = sum(np.array(count["free errors"]) for count in data["forms"].values())
    bins = np.arange(-18, 1)
    right.bar(bins + 0.5, free, width=0.9, color="0.4")
    right.set(
        yscale="log", xlabel="largest distance of a spike from the free simulator's,\nas a share of the run",
        ylabel="runs",
    )  # fmt: skip
    right.set_xticks(bins[::3], [f"1e{power}" for power in bins[::3]])
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


# -- archives ------------------------------------------------------------------------------------

OUTCOMES = (
    "refused", "loaded as it was", "loaded as the file says", "refused by nir or h5py", "hung", "crashed",
    "other numbers", "bare error",
)  # fmt: skip
WRONG = ("hung", "crashed", "other numbers", "bare error")
"""Outcomes that no file of ours may have."""
NIR = "network in NIR"
"""The kind that the packages `nir` and `h5py` read."""


def by_outcome(damages: dict[str, dict[str, int]]) -> dict[str, int]:
    """Return how many files had each outcome."""
    return {name: sum(counts.get(name, 0) for counts in damages.values()) for name in OUTCOMES}


def archives_line(data: dict) -> str:
    ours = [by_outcome(damages) for name, damages in data["kinds"].items() if name != NIR]
    of_nir = by_outcome(data["kinds"][NIR])
    wrong = sum(outcomes[name] for outcomes in ours for name in WRONG)
    hung = f"{of_nir['hung']:,} hung in h5py"
    crashed = f", {of_nir['crashed']:,} crashed there" if of_nir["crashed"] else ""
    files = f"{data['files']:,} files"
    return (
        f"{files} of each of {len(ours)} kinds: {wrong:,} with other numbers, a crash, a hang or another "
        f"error; {files} of NIR: {of_nir['other numbers']:,} with other numbers, "
        f"{hung}{crashed}"
    )


def archives_section(data: dict) -> str:
    rows = []
    for name, damages in data["kinds"].items():
        outcomes = by_outcome(damages)
        rows.append([name, *(f"{outcomes[outcome]:,}" for outcome in OUTCOMES)])
    kinds = table(["kind", *OUTCOMES], rows)
    merged: dict[str, dict[str, int]] = {}
    for name, damages in data["kinds"].items():
        if name == NIR:
            continue
        for damage, counts in damages.items():
            into = merged.setdefault(damage, {})
            for outcome, count in counts.items():
                into[outcome] = into.get(outcome, 0) + count
    shown = ("refused", "loaded as it was", "loaded as the file says", "other numbers", "bare error")
    damage_rows = [
        [damage, *(f"{counts.get(outcome, 0):,}" for outcome in shown)] for damage, counts in merged.items()
    ]
    return f"{kinds}\n\n{table(['damage, without NIR', *shown], damage_rows)}"


# ------------------------------------------------------------------------------------------------

SECTIONS: dict[str, Callable[[dict], str]] = {
    "networks": networks_section,
    "archives": archives_section,
    "problems": tables.problems,
    "kills": tables.kills,
    "threads": tables.threads,
    "disks": tables.disks,
}
"""What makes the text of a section from its measurements."""

PROMISES = {
    "networks": Promise(
        "Every spike is right",
        "random networks of all forms of weights and regimes; each spike judged in numbers of 106 bits",
        networks_line,
    ),
    "archives": Promise(
        "A damaged file loads as it was, or not at all",
        "files with flipped bits, cut, with blocks lost, with entries swapped, or whole and wrong",
        archives_line,
    ),
    "problems": Promise(
        "Converged means converged",
        "random, nasty problems, random methods; each code judged in exact arithmetic",
        tables.problems_line,
    ),
    "kills": Promise(
        "A kill loses nothing",
        "SIGKILL at random moments of learning and coding; compared with what was never stopped",
        tables.kills_line,
    ),
    "threads": Promise(
        "No bit depends on threads or Ctrl-C",
        "eight threads at once on one problem; interrupts at random moments, then on with the same object",
        tables.threads_line,
    ),
    "disks": Promise(
        "A file is whole, or the one before",
        "saves to disks that are full, broken, read-only or missing, and to one path at once",
        tables.disks_line,
    ),
}
"""What makes a line of the summary from measurements."""


def main() -> None:
    """Write the page and the figures anew."""
    data = measured()
    PAGE.write_text(filled(PAGE.read_text(), data))
    if "networks" in data:
        save_picture(draw_networks(data["networks"]), FIGURE, dpi=110)
    for name, draw in pictures.PICTURES.items():
        if name in data:
            save_picture(draw(data[name]), FIGURE.with_name(f"reliability_{name}.png"), dpi=110)


if __name__ == "__main__":
    main()

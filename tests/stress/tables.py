"""What the programs on problems, kills, threads and disks have found, as tables of docs/reliability.md."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from tests.benchmarks.timing import table

WORST = "largest gap / (tol * energy) of the converged"


def problems_line(results: dict[str, Any]) -> str:
    """What there were, and what of it was wrong."""
    methods = results["methods"].values()
    converged, not_converged = (
        sum(counts.get(name, 0) for counts in methods) for name in ("converged", "not converged")
    )
    worst = max(counts[WORST] for counts in methods)
    return (
        f"{results['problems']:,} problems: {len(results['failures'])} failures; {converged:,} codes "
        f"converged, the worst gap at {_below(worst)} of what it may be; {not_converged:,} reported as "
        "not converged"
    )


def problems(results: dict[str, Any]) -> str:
    """By method: problems, codes by status, and the largest exact gap of those that converged."""
    heads = [
        "method",
        "problems",
        "refused",
        "codes converged",
        "codes not converged",
        "largest exact gap / (tol · energy) of the converged",
        "failures",
    ]
    rows = [
        [
            name,
            *(f"{counts.get(key, 0):,}" for key in ("problems", "refused", "converged", "not converged")),
            _below(counts[WORST]),
            f"{counts.get('failed', 0):,}",
        ]
        for name, counts in results["methods"].items()
    ]
    total: Counter = sum((Counter(_numbers(counts)) for counts in results["methods"].values()), Counter())
    rows.append(
        [
            "**all**",
            *(f"{total[key]:,}" for key in ("problems", "refused", "converged", "not converged")),
            _below(max(counts[WORST] for counts in results["methods"].values())),
            f"{len(results['failures']):,}",
        ]
    )
    return table(heads, rows)


def _below(share: float) -> str:
    """Return four digits, rounded towards zero: 1 is what is allowed."""
    return f"{math.floor(1e4 * share) / 1e4:.4f}"


def _numbers(counts: dict[str, Any]) -> dict[str, int]:
    return {key: value for key, value in counts.items() if isinstance(value, int)}


def kills(results: dict[str, Any]) -> str:
    """By job: kills, and what came of them."""
    heads = [
        "job",
        "kills",
        "during a write",
        "done after kills",
        "lost or corrupt",
        "different bits",
        "failed",
    ]
    names = ("kills", "during_write", "jobs_interrupted", "lost_or_corrupt", "different", "failed")
    tallies = results["jobs"]
    rows = [[job, *(f"{tally[name]:,}" for name in names)] for job, tally in tallies.items()]
    totals = (sum(tally[name] for tally in tallies.values()) for name in names)
    return table(heads, [*rows, ["**all**", *(f"{total:,}" for total in totals)]])


def kills_line(results: dict[str, Any]) -> str:
    """Kills, and what was wrong after them."""
    tallies = results["jobs"].values()
    n_kills, n_writes, n_done = (
        sum(tally[name] for tally in tallies) for name in ("kills", "during_write", "jobs_interrupted")
    )
    return (
        f"{n_kills:,} kills, {n_writes:,} of them during a write: {len(results['failures'])} checkpoints "
        f"lost or corrupt, or children that failed; {n_done:,} jobs done after kills, compared bit by bit"
    )


def threads_line(results: dict[str, Any]) -> str:
    """Calls and interrupts, and what was wrong after them."""
    together, interrupted = results["together"], results["interrupted"]
    return (
        f"{together['calls']:,} calls at once, {interrupted['interrupts']:,} interrupts: "
        f"{len(results['failures'])} answers that differ or calls that failed; the longest went on for "
        f"{max(interrupted['seconds to stop']):.2g} s"
    )


def disks_line(results: dict[str, Any]) -> str:
    """Failures and saves, and what was wrong after them."""
    together = results["together"]
    return (
        f"{sum(results['failing'].values()):,} failing saves, {together['saves']:,} saves at once, "
        f"{together['reads']:,} reads: {len(results['failures'])} broken files or other errors"
    )


def threads(results: dict[str, Any]) -> str:
    """Calls at once and interrupted."""
    heads = ["", "rounds", "calls", "interrupts", "as another error", "different bits", "failed"]
    rows = [
        [
            what,
            *(f"{results[name].get(key, 0):,}" for key in ("rounds", "calls", "interrupts", "renamed")),
            *(f"{len(results[name][key]):,}" for key in ("different", "failed")),
        ]
        for name, what in (
            ("together", f"{results['together']['threads at once']} threads at once"),
            ("interrupted", "interrupted, then continued"),
        )
    ]
    return table(heads, rows)


def disks(results: dict[str, Any]) -> str:
    """Failures by kind, and saves at the same time."""
    together = results["together"]
    rows = [[f"saves with {kind}", f"{count:,}"] for kind, count in results["failing"].items()]
    rows += [
        [f"saves by {together['writers']} processes to one path", f"{together['saves']:,}"],
        [f"reads of it by {together['readers']} others meanwhile", f"{together['reads']:,}"],
        ["files broken, mixed or left beside, other errors", f"{len(results['failures']):,}"],
    ]
    return table(["", "number"], rows)

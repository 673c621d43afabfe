"""Plots of results.  Each function draws into `ax` (default: the current axes) and returns it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from snn.base import checks
from snn.base.html import counted
from snn.drawing import TIME_LABEL, count_bars, current_axes, stems
from solvers.displays import CodePathDisplay
from solvers.lca import LCARun
from solvers.results.operations import OperationLedger
from solvers.results.result import SparseCodingResult, Status
from solvers.studies.code_history import CodeHistory
from solvers.studies.compare import checked_records
from solvers.studies.digital_sweep import AXES, FIGURES, DigitalSweep
from solvers.studies.path import PathResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP_LABEL = "certified gap / (½‖signal‖²)"
# Gaps below this are rounding.
LEAST_GAP = 1e-16


def code(result: SparseCodingResult, *, signal: int = 0, ax: Axes | None = None) -> Axes:
    """Draw the code of one signal, an entry each, with its certified gap in the title.

    Parameters
    ----------
    result : SparseCodingResult
        From any solver.
    signal : int, default 0
        Which signal.
    """
    checks.instance_of("result", result, SparseCodingResult)
    n_signals, n_atoms = result.sparse_codes.shape
    signal = checks.index("signal", signal, n_signals)
    ax = current_axes(ax)
    first, last = result.sparse_codes.indptr[signal : signal + 2]
    atoms, entries = result.sparse_codes.indices[first:last], result.sparse_codes.data[first:last]
    stems(ax, atoms, entries, n_atoms)
    missed = "" if result.status[signal] == Status.CONVERGED else f", more than tol = {result.tol:g}"
    ax.set(
        xlabel="atom",
        ylabel="entry of the code",
        title=f"{result.method}, signal {signal}: {len(atoms):,} of {counted(n_atoms, 'atom')}\n"
        f"certified gap {result.relative_gap[signal]:.1e} of ½‖signal‖²{missed}",
    )
    return ax


def gap_history(history: CodeHistory, *, ax: Axes | None = None) -> Axes:
    """Draw the certified gap of one signal while its network runs, and where stages begin.

    Parameters
    ----------
    history : CodeHistory
        From `code_history`.
    """
    checks.instance_of("history", history, CodeHistory)
    ax = current_axes(ax)
    ax.semilogy(history.times, np.maximum(history.relative_gap, LEAST_GAP), label="code so far")
    for stage in history.stages[1:]:
        ax.axvline(stage.start, color="0.5", linewidth=0.8, linestyle=":", label="a stage begins")
    handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    ax.legend(handles.values(), handles.keys(), fontsize="small")
    ax.set(
        xlabel=TIME_LABEL,
        ylabel=GAP_LABEL,
        title=f"{counted(len(history.spikes), 'spike')}, certified gap {history.relative_gap[-1]:.1e}",
    )
    return ax


def code_path(result: PathResult, *, signal: int = 0, ax: Axes | None = None) -> Axes:
    """Draw the code of one signal against the penalty, as a `CodePathDisplay` does.

    Parameters
    ----------
    result : PathResult
        From `path`.
    signal : int, default 0
        Which signal.
    """
    return CodePathDisplay.from_path(result, signal=signal, ax=current_axes(ax)).ax_


def sweep(
    result: DigitalSweep,
    *,
    axis: str | None = None,
    figure: str = "relative_gap",
    within: float | None = 0.01,
    ax: Axes | None = None,
    **line_kwargs: Any,
) -> Axes:
    """Draw medians over the signals along one axis of a sweep, a line for each combination of the others.

    Parameters
    ----------
    result : DigitalSweep
        From `sweep_digital`.
    axis : str, optional
        The axis; by default the first.
    figure : str, default "relative_gap"
        One of `solvers.studies.digital_sweep.FIGURES`.
    within : float or None, default 0.01
        Mark where a gap or an excess comes within this, as `DigitalSweep.needed` says; None to mark nothing.
    **line_kwargs
        Of `Axes.plot`: a color or a label, to draw several sweeps into one picture.
    """
    checks.instance_of("result", result, DigitalSweep)
    axis = next(iter(result.axes)) if axis is None else checks.one_of("axis", axis, tuple(result.axes))
    figure = checks.one_of("figure", figure, tuple(FIGURES))
    ax = current_axes(ax)
    lines = result.lines(axis, figure)
    wanted = within if figure in ("relative_gap", "relative_excess") else None
    knees: list[int | float | None] = [None] * len(lines)
    if wanted is not None:
        knees = [knee for _, knee in result.needed(axis, within=wanted, figure=figure)]
    for (rest, values, medians), knee in zip(lines, knees, strict=True):
        label = ", ".join(f"{value:g} {AXES[name]}" for name, value in rest.items()) or "median signal"
        style: dict[str, Any] = {"marker": "o", "markersize": 4, "label": label, **line_kwargs}
        (line,) = ax.plot(values, medians, **style)
        if knee is not None:
            height = medians[values == knee]
            ax.plot([knee], height, "o", markersize=10, markerfacecolor="none", color=line.get_color())
    mark = f"within {wanted:g}: enough (ring)" if wanted is not None else ""
    if wanted is not None and mark not in ax.get_legend_handles_labels()[1]:
        ax.axhline(wanted, color="0.6", linewidth=0.8, label=mark)
    if not figure.startswith("support"):
        ax.set_yscale("log")
    if axis == "time_step":
        ax.set_xscale("log", base=2)
    n_signals = result.relative_gap.shape[1]
    ax.set(xlabel=AXES[axis], ylabel=FIGURES[figure], title=f"median of {counted(n_signals, 'signal')}")
    if len(lines) > 1 or wanted is not None:
        ax.legend(frameon=False, fontsize="small")
    return ax


def plot_comparison(records: Sequence[Mapping[str, object]], *, ax: Axes | None = None) -> Axes:
    """Draw seconds against the largest relative gap of each record, and return the axes.

    Gaps below 1e-16, which is rounding, are drawn there.

    Parameters
    ----------
    records : sequence of dict
        What `compare` returned.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default the current axes.
    """
    records = checked_records(records)
    ax = current_axes(ax)
    for record in records:
        gap = max(float(record["largest_relative_gap"]), LEAST_GAP)
        ax.loglog([gap], [float(record["seconds"])], "o", label=str(record["method"]))
    n_signals = max(int(record["n_signals"]) for record in records)
    ax.set(xlabel=f"largest {GAP_LABEL}", ylabel="seconds", title=counted(n_signals, "signal"))
    ax.margins(0.25)
    ax.legend(fontsize="small")
    return ax


def ledger(operations: OperationLedger, *, ax: Axes | None = None) -> Axes:
    """Draw the operations of each part of a solver, of all signals together.

    Parameters
    ----------
    operations : OperationLedger
        Of a result.
    """
    checks.instance_of("operations", operations, OperationLedger)
    ax = current_axes(ax)
    totals = {part: counts.total() for part, counts in operations.items()}
    kinds = ("synaptic_operations", "multiply_adds")
    count_bars(
        ax,
        {
            kind.replace("_", " "): {part: getattr(total, kind) for part, total in totals.items()}
            for kind in kinds
        },
    )
    ax.set(xlabel="number of operations", title=f"operations by what they were for ({operations.bound})")
    return ax


def messages(run: LCARun, *, ax: Axes | None = None) -> Axes:
    """Draw the last messages of a network of Lava's kind: its code, in the unit of the input.

    Parameters
    ----------
    run : LCARun
        Of `LCA1Layer.run` or `LCA2Layer.run`.
    """
    checks.instance_of("run", run, LCARun)
    ax = current_axes(ax)
    atoms = np.flatnonzero(run.v1)
    stems(ax, atoms, run.v1[atoms], len(run.v1))
    ax.set(
        xlabel="atom",
        ylabel="message (unit of the input)",
        title=f"{len(atoms):,} of {counted(len(run.v1), 'atom')}, {counted(run.n_messages, 'message')}",
    )
    return ax

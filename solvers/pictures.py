"""Pictures of codes, of operations, and of studies; see `snn.pictures`.

To draw an object, call its method ``plot()``.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from snn.base import checks
from snn.base.describe import counted, number, plot
from snn.pictures import axes_of, base_line, named_lines, stems
from solvers.programs.program import ProgramResult
from solvers.results.result import OperationLedger, SparseCodingResult
from solvers.studies.compare import Comparison
from solvers.studies.design_space import DesignSpace
from solvers.studies.path import PathResult
from solvers.studies.reweighted import ReweightedResult

GAP_LABEL = "certified gap / (½‖signal‖²)"
# Relative gaps below this value are rounding, and are drawn at this value.
LEAST_GAP = 1e-16


@plot.register
def code(result: SparseCodingResult, *, signal: int = 0, ax: Axes | None = None) -> Axes:
    """Draw the code of one signal, a line for each entry, with its certified gap in the title."""
    n_signals, n_atoms = result.sparse_codes.shape
    signal = checks.integer("signal", signal, 0, n_signals - 1)
    ax = axes_of(ax)
    first, last = result.sparse_codes.indptr[signal : signal + 2]
    atoms, entries = result.sparse_codes.indices[first:last], result.sparse_codes.data[first:last]
    stems(ax, atoms, entries, n_atoms)
    missed = "" if result.reached[signal] else f", more than tol = {result.tol:g}"
    ax.set(
        xlabel="atom",
        ylabel="entry of the code",
        title=f"{result.method}, signal {signal}: {len(atoms):,} of {counted(n_atoms, 'atom')}\n"
        f"certified gap {result.relative_gap[signal]:.1e} of ½‖signal‖²{missed}",
    )
    return ax


@plot.register
def reweighted_code(result: ReweightedResult, *, signal: int = 0, ax: Axes | None = None) -> Axes:
    """Draw the code of one signal after the last round, and the code of the LASSO as circles."""
    signal = checks.integer("signal", signal, 0, len(result.rounds) - 1)
    rounds = result.rounds[signal]
    before, last = rounds[0].codes[0], rounds[-1].codes[0]
    ax, atoms = axes_of(ax), np.flatnonzero(last)
    stems(ax, atoms, last[atoms], len(last))
    ax.scatter(
        np.flatnonzero(before), before[before != 0.0], facecolors="none", edgecolors="C1", label="LASSO"
    )
    ax.set(xlabel="atom", ylabel="entry of the code")
    title = f"signal {signal}: {len(atoms):,} of {counted(len(last), 'atom')}"
    ax.set_title(f"{title} after {counted(len(rounds), 'round')}")
    ax.legend(fontsize="small")
    return ax


@plot.register
def solution(result: ProgramResult, *, ax: Axes | None = None) -> Axes:
    """Draw the solution of a quadratic program, the objective and its certified gap in the title."""
    ax, n = axes_of(ax), len(result.x)
    stems(ax, np.arange(n), result.x, n)
    ax.set(xlabel="variable", ylabel="value")
    title = f"objective {result.objective:.6g}, at most {result.gap:.1e} above the optimum"
    ax.set_title(title if np.isfinite(result.x).all() else result.status.name.lower())
    return ax


@plot.register
def code_path(
    result: PathResult,
    *,
    signal: int = 0,
    penalty: float | None = None,
    ax: Axes | None = None,
    **line_kwargs: Any,
) -> Axes:
    """Draw the code of one signal against the penalty: a line for each used atom that has a penalty."""
    # If `penalty`, the penalty of the problem, is passed, the axis shows penalties instead of multiples, and
    # a line marks `penalty`.
    signal = checks.integer("signal", signal, 0, result.codes.shape[1] - 1)
    if penalty is not None:
        penalty = checks.positive_number("penalty", penalty)
    ax = axes_of(ax)
    name = "multiple of the penalty" if penalty is None else "penalty"
    penalties, codes = result.multiples * (penalty or 1.0), result.codes[:, signal]
    largest = np.abs(codes).max(axis=0)
    problem = result.results[0].problem
    used = np.flatnonzero((largest > 0.0) & (problem.l1_weights + problem.curvatures > 0.0))
    used = used[np.argsort(-largest[used], kind="stable")]
    named_lines(ax, penalties, codes, used, "atom", **line_kwargs)
    if penalty is not None and penalties.min() <= penalty <= penalties.max():
        ax.axvline(penalty, color="0.4", linestyle=":", label=f"{name} = {penalty:.3g}")
    if (chosen := result._least_bic_of(signal)) is not None:
        best = penalties[chosen]
        ax.axvline(best, color="0.7", linestyle="--", label=f"least BIC, {best:.3g}")
    base_line(ax)
    ax.set(
        xscale="log", ymargin=0.45, xlabel=name, ylabel="entry of the code", title=f"code of signal {signal}"
    )
    ax.invert_xaxis()
    ax.legend(fontsize="small", loc="upper center", ncols=3)
    return ax


@plot.register
def comparison(records: Comparison, *, ax: Axes | None = None) -> Axes:
    """Draw seconds against the largest relative gap of each method; smaller gaps are drawn at 1e-16."""
    if not records:
        raise ValueError("records must have at least one entry; got none")
    ax = axes_of(ax)
    for record in records:
        gap = max(float(record["largest_relative_gap"]), LEAST_GAP)
        ax.loglog([gap], [float(record["seconds"])], "o", label=str(record["method"]))
    n_signals = max(int(record["n_signals"]) for record in records)
    ax.set(xlabel=f"largest {GAP_LABEL}", ylabel="seconds", title=counted(n_signals, "signal"))
    ax.margins(0.25)
    ax.legend(fontsize="small")
    return ax


@plot.register
def designs(space: DesignSpace, *, ax: Axes | None = None) -> Axes:
    """Draw gap against cycles of each design; rings are the front, colours the bits of the memories."""
    ax, table, front = axes_of(ax), space.table, space.table[space.front]
    gaps = np.maximum(table["gap"], LEAST_GAP)
    points = ax.scatter(table["cycles"], gaps, 14, np.log2(table["memory_bits"]), cmap="viridis")
    best = front["cycles"], np.maximum(front["gap"], LEAST_GAP)
    ax.scatter(*best, 60, facecolors="none", edgecolors="C3", label="front")
    ax.set(xscale="log", yscale="log", xlabel="cycles of a signal", ylabel=f"largest {GAP_LABEL}")
    ax.set_title(f"{counted(len(table), 'design')}, {len(front):,} on the front")
    ax.figure.colorbar(points, ax=ax, label="memory (log2 of bits)")
    ax.legend(fontsize="small")
    return ax


@plot.register
def ledger(operations: OperationLedger, *, ax: Axes | None = None) -> Axes:
    """Draw the operations of each part of a solver, summed over signals."""
    ax = axes_of(ax)
    totals = {part: counts.total() for part, counts in operations.items()}
    kinds = ("synaptic_operations", "multiply_adds")
    parts = [part for part, total in totals.items() if any(getattr(total, kind) for kind in kinds)]
    for k, kind in enumerate(kinds):
        counts = np.array([getattr(totals[part], kind) for part in parts], dtype=int)
        shown = np.flatnonzero(counts)
        label = kind.replace("_", " ")
        bars = ax.barh(shown + 0.4 * (k - 0.5), counts[shown], height=0.4, color=f"C{k}", label=label)
        ax.bar_label(bars, [number(count) for count in counts[shown]], padding=2, fontsize="small")
    ax.set_yticks(range(len(parts)), labels=parts)
    # Leave room for the legend, and for the number at the longest bar.
    ax.set_ylim(max(len(parts), 1) - 0.5, -1.2)
    ax.set(xscale="log", xlim=(1.0, 10.0 * max(ax.dataLim.xmax, 1.0) ** 1.5))
    ax.legend(fontsize="small", loc="upper right", ncols=2)
    ax.set(xlabel="number of operations", title=f"operations by what they were for ({operations.bound})")
    return ax

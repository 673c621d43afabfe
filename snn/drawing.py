"""What the plots of all three packages have in common; Matplotlib is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from snn.base import checks
from snn.base.html import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

TIME_LABEL = "time (synaptic time constants)"
# Of the lines that have a colour and a name; all others are grey, with one name.
N_NAMED = 6
GREY = "0.75"


def current_axes(ax: Axes | None) -> Axes:
    """Return `ax`, or the current axes: where functions and results draw.

    Raises
    ------
    TypeError
        If `ax` is something else.
    """
    import matplotlib.pyplot as plt  # here: it costs a third of a second, and most callers never draw
    from matplotlib.axes import Axes

    return plt.gca() if ax is None else checks.instance_of("ax", ax, Axes)


def new_axes(ax: Axes | None) -> Axes:
    """Return `ax`, or new axes in a figure of their own: where displays draw, as those of scikit-learn.

    Raises
    ------
    TypeError
        If `ax` is something else.
    """
    if ax is not None:
        return current_axes(ax)
    import matplotlib.pyplot as plt  # as above

    return plt.subplots(layout="constrained")[1]


def require_increasing(name: str, values: np.ndarray) -> np.ndarray:
    """Return numbers that increase from each to the next, so that no line goes back.

    Raises
    ------
    TypeError, ValueError
        If they are not a vector of finite numbers, or one is not larger than that before it.
    """
    values = checks.real_array(name, values, shape=(None,), meaning="one after the other")
    wrong = np.flatnonzero(np.diff(values) <= 0.0)
    if len(wrong):
        first = wrong[0]
        raise ValueError(
            f"{name} must increase from each to the next; got {values[first]:g} before "
            f"{values[first + 1]:g}: sort them, together with what belongs to them"
        )
    return values


def named_lines(
    ax: Axes,
    x: np.ndarray,
    columns: Sequence[np.ndarray],
    names: Sequence[str],
    *,
    others: str,
    **kwargs: Any,
) -> list[Line2D]:
    """Draw lines: the first few in the colours of the axes, with a name each; the others are grey.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    x : ndarray, shape (n_points,)
        Common to all lines.
    columns : sequence of ndarray, shape (n_points,) each
        The lines, the most important ones first.
    names : sequence of str
        Their names.
    others : str
        The name of those in grey.
    **kwargs
        Of `Axes.plot`; they go before what is chosen here.
    """
    lines = []
    for rank, (column, name) in enumerate(zip(columns, names, strict=True)):
        if rank < N_NAMED:
            style: dict[str, Any] = {"label": name}
        else:
            style = {"color": GREY, "linewidth": 0.8, "zorder": 1}
            if rank == N_NAMED:
                style["label"] = others
        lines += ax.plot(x, column, **{**style, **kwargs})
    return lines


def progress_line(ax: Axes, times: np.ndarray, distances: np.ndarray, **kwargs: Any) -> Line2D:
    """Draw the distance that was reached against time: a line through the best runs, which never goes back.

    Each run has its own tolerance.  Measured times vary, so that a run may take longer than another one and
    reach a larger distance.  A run is one of the best if no other run reached its distance in less time; all
    others are pale dots beside the line.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    times, distances : array_like, shape (n_runs,)
        What each run took, and how far from the optimum it ended.
    **kwargs
        Of `Axes.plot`, for the line.
    """
    times = checks.real_array("times", times, shape=(None,), meaning="one for each run")
    distances = checks.real_array("distances", distances, shape=(None,), meaning="one for each run")
    if len(times) != len(distances):
        raise ValueError(f"times and distances must be of one length; got {len(times)} and {len(distances)}")
    order = np.lexsort((distances, times))
    nearest = np.minimum.accumulate(distances[order])
    is_better = np.append(True, nearest[1:] < nearest[:-1])
    (line,) = ax.plot(times[order[is_better]], distances[order[is_better]], **kwargs)
    others = order[~is_better]
    dots = {"linestyle": "none", "marker": kwargs.get("marker", "o"), "markersize": line.get_markersize()}
    ax.plot(times[others], distances[others], color=line.get_color(), alpha=0.3, **dots)
    return line


def stems(ax: Axes, positions: np.ndarray, values: np.ndarray, n_positions: int, **kwargs: Any) -> None:
    """Draw a line with a dot from zero to each value; positions without one stay empty.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    positions, values : ndarray, shape (n_values,)
        Where, and how high.
    n_positions : int
        How many positions there are.
    **kwargs
        Of the dots, `Axes.scatter`: a label, for example.
    """
    colour = kwargs.pop("color", "C0")
    ax.vlines(positions, 0.0, values, color=colour, linewidth=1.0)
    ax.scatter(positions, values, s=14.0, color=colour, **kwargs)
    base_line(ax)
    ax.set_xlim(-0.5 - 0.02 * n_positions, n_positions - 0.5 + 0.02 * n_positions)


def base_line(ax: Axes) -> None:
    """Draw the line of zero."""
    ax.axhline(0.0, color="0.4", linewidth=0.8, zorder=0)


def count_bars(ax: Axes, groups: Mapping[str, Mapping[str, float]], *, log: bool = True) -> None:
    """Draw bars from left to right, each with its number; rows of zeros are left out.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    groups : mapping of str to (mapping of str to number)
        Numbers by the name of their row, for each name of a colour; all groups have the same rows.
    log : bool, default True
        Use a logarithmic scale from 1 on, for counts of different orders.
    """
    rows = [row for row in next(iter(groups.values())) if any(counts[row] > 0 for counts in groups.values())]
    height = 0.8 / len(groups)
    largest = max((counts[row] for counts in groups.values() for row in rows), default=1.0)
    for k, (name, counts) in enumerate(groups.items()):
        shown = {row: counts[row] for row in rows if counts[row] > 0}
        places = [rows.index(row) + (k - 0.5 * (len(groups) - 1)) * height for row in shown]
        bars = ax.barh(places, list(shown.values()), height=height, color=f"C{k}", label=name)
        ax.bar_label(bars, [number(count) for count in shown.values()], padding=2, fontsize="small")
    ax.set_yticks(range(len(rows)), labels=rows)
    # With room for the names of the colours.
    ax.set_ylim(max(len(rows), 1) - 0.5, -0.5 if len(groups) == 1 else -1.2)
    if log:
        # With room for the number of the longest bar.
        ax.set(xscale="log", xlim=(1.0, 10.0 * max(largest, 1.0) ** 1.5))
    else:
        ax.set_xlim(0.0, 1.3 * largest)
    if len(groups) > 1:
        ax.legend(fontsize="small", loc="upper right", ncols=len(groups))

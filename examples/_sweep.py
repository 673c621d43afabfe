"""One problem solved by neurons in integers of many formats, beside the exact solution."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from sklearn.exceptions import ConvergenceWarning

from snn import Clock
from snn.digital import DigitalFormat
from solvers import LassoProblem, solve, solve_active_set
from solvers.methods import DigitalOneWindow, Stages

LABELS = {
    "weight_bits": "bits of a weight",
    "register_bits": "bits of potentials and currents",
    "delay": "steps of delay",
    "time_step": "step, in synaptic time constants",
    "relative_gap": "certified gap / (1/2 ||signal||²)",
    "relative_excess": "objective above the optimum / optimum",
}


@dataclass
class Sweep:
    """Figures of all combinations of the axes, each of shape (n_points, n_signals)."""

    axes: dict[str, tuple[Any, ...]]
    figures: dict[str, np.ndarray]

    def rows(self) -> list[dict[str, Any]]:
        """Return medians of each point, its largest gap, and how many networks ran away."""
        points = [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]
        for k, point in enumerate(points):
            point |= {f"median_{name}": np.median(values[k]) for name, values in self.figures.items()}
            point["worst_relative_gap"] = self.figures["relative_gap"][k].max()
            point["n_ran_away"] = int(self.figures["ran_away"][k].sum())
        return points

    def lines(self, axis: str, figure: str) -> list[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
        """Return medians along an axis, in its order, for each combination of the other axes."""
        groups: dict[tuple[Any, ...], list[tuple[Any, float]]] = {}
        for row in self.rows():
            rest = tuple((name, row[name]) for name in self.axes if name != axis)
            groups.setdefault(rest, []).append((row[axis], row[f"median_{figure}"]))
        return [
            (dict(rest), *map(np.array, zip(*sorted(group), strict=True))) for rest, group in groups.items()
        ]

    def needed(self, axis: str | None = None, within: float = 0.01, figure: str = "relative_gap") -> list:
        """Return from which value of an axis on all are good enough; of a step the longest, of a delay up to
        which."""
        axis = next(iter(self.axes)) if axis is None else axis
        found = []
        for rest, values, medians in self.lines(axis, figure):
            good = medians <= within
            if axis == "time_step":
                found.append((rest, values[good].max().item() if good.any() else None))
                continue
            order = slice(None) if axis == "delay" else slice(None, None, -1)
            n_good = int(np.cumprod(good[order]).sum())
            found.append((rest, values[order][n_good - 1].item() if n_good else None))
        return found

    def draw(self, ax: Axes, axis: str | None = None, figure: str = "relative_gap", **style: Any) -> None:
        """Draw medians along an axis, with a ring where they come within 1 %."""
        axis = next(iter(self.axes)) if axis is None else axis
        knees = [knee for _, knee in self.needed(axis, figure=figure)]
        for (rest, values, medians), knee in zip(self.lines(axis, figure), knees, strict=True):
            label = ", ".join(f"{value:g} {LABELS[name]}" for name, value in rest.items()) or "median signal"
            (line,) = ax.plot(values, medians, **{"marker": "o", "markersize": 4, "label": label, **style})
            if knee is not None:
                at_knee = medians[values == knee]
                ax.plot([knee], at_knee, "o", markersize=10, markerfacecolor="none", color=line.get_color())
        mark = "within 0.01: enough (ring)"
        if mark not in ax.get_legend_handles_labels()[1]:
            ax.axhline(0.01, color="0.6", linewidth=0.8, label=mark)
        ax.set(xlabel=LABELS[axis], ylabel=LABELS[figure], yscale="log")
        if axis == "time_step":
            ax.set_xscale("log", base=2)


def sweep(
    problem: LassoProblem,
    axes: Mapping[str, Sequence[Any]],
    form: DigitalFormat,
    *,
    time_step: float = 0.25,
    duration: float = 500.0,
    refine: bool = False,
) -> Sweep:
    """Solve a problem with digital neurons of all combinations of the axes."""
    exact = solve_active_set(problem)
    wanted = exact.codes != 0.0
    figures: dict[str, list[np.ndarray]] = {}
    for values in product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        with warnings.catch_warnings():  # a gap is what is asked for, not an accident
            warnings.simplefilter("ignore", ConvergenceWarning)
            how = Clock(point.get("time_step", time_step), varied(form, point))
            method = Stages if refine else DigitalOneWindow
            result = solve(problem, method(duration, how), tol=1e-9)
        found = result.codes != 0.0
        both = (found & wanted).sum(axis=1)
        for name, of_signals in {
            "relative_gap": result.relative_gap,
            "relative_excess": np.maximum(result.objective - exact.objective, 0.0) / exact.objective,
            "support_recall": both / np.maximum(wanted.sum(axis=1), 1),
            "support_precision": both / np.maximum(found.sum(axis=1), 1),
            "n_spikes": result.n_steps,
            "ran_away": result.info["ran_away"],
        }.items():
            figures.setdefault(name, []).append(of_signals)
    return Sweep(
        {name: tuple(values) for name, values in axes.items()}, {k: np.stack(v) for k, v in figures.items()}
    )


def varied(form: DigitalFormat, point: Mapping[str, Any]) -> DigitalFormat:
    """Return a format with the values of a point; a step of time is not of the format."""
    for name, value in point.items():
        if name == "weight_bits":
            form = replace(form, weights=replace(form.weights, bits=value))
        elif name == "register_bits":
            form = replace(form, potential_bits=value, current_bits=value)
        elif name != "time_step":
            form = replace(form, **{name: value})
    return form

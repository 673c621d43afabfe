"""How many bits, which step: digital formats on one problem, against its exact solution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from snn.base import checks
from snn.base.caller_warnings import without_warnings
from snn.base.drawn import Drawn
from snn.base.html import number, value_range
from snn.digital import DigitalFormat
from snn.run.clocked import checked_step
from solvers.methods.active_set import solve_active_set
from solvers.methods.digital import OF_ONE_RUN, DigitalCodingResult, solve_digital
from solvers.problem.lasso import LassoProblem
from solvers.results.result import SparseCodingResult

AXES = {
    "weight_bits": "bits of a weight",
    "bias_bits": "bits of a drive",
    "register_bits": "bits of potentials and currents",
    "potential_bits": "bits of a potential",
    "current_bits": "bits of a current",
    "decay_bits": "bits of a decay",
    "message_bits": "bits of a message",
    "delay": "delay (steps)",
    "time_step": "time step (synaptic time constants)",
}
"""What a sweep may vary, and how plots call it."""

FIGURES = {
    "relative_gap": "certified gap / (1/2 ||signal||²)",
    "relative_excess": "objective above the optimum / optimum",
    "support_recall": "share of the exact support found",
    "support_precision": "share of the support found that is exact",
    "n_spikes": "spikes a signal",
}
"""What a sweep measures of each signal, and how plots call it."""

# No code reaches it: every network runs for the whole duration.
NO_TOL = 1e-14


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DigitalSweep(Drawn):
    """Digital formats on one problem: a point for each combination of values, a column for each signal.

    Attributes
    ----------
    axes : dict of str to tuple
        What was varied, and its values.  Points are in the order of nested loops, the last axis fastest.
    relative_gap : ndarray, shape (n_points, n_signals)
        Certified duality gap in units of ``1/2 ||signal||^2``.
    relative_excess : ndarray, shape (n_points, n_signals)
        (E(a) - E*) / E*, with E* the objective of the exact solution.
    support_recall, support_precision : ndarray, shape (n_points, n_signals)
        The share of the exact support whose neurons have rates, and the share of the atoms with rates that
        are in the exact support; 1 where there are none.
    n_spikes : ndarray of int, shape (n_points, n_signals)
        Messages sent.
    ran_away : ndarray of bool, shape (n_points, n_signals)
        Whether the network was stopped because its potentials ran up to the end of their registers.
    """

    axes: Mapping[str, tuple[float, ...]]
    relative_gap: np.ndarray
    relative_excess: np.ndarray
    support_recall: np.ndarray
    support_precision: np.ndarray
    n_spikes: np.ndarray
    ran_away: np.ndarray

    def __post_init__(self) -> None:
        checks.freeze_arrays(self)

    @property
    def points(self) -> list[dict[str, Any]]:
        """The values of the axes at each point."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]

    def rows(self) -> list[dict[str, Any]]:
        """Return a record of each point: the values of the axes, the median and the worst of each figure.

        The worst gap and excess are the largest, the worst share of a support the smallest.  ``n_ran_away``
        counts signals.  ``pandas.DataFrame(sweep.rows())`` is a table.
        """
        rows = []
        for k, point in enumerate(self.points):
            row = dict(point)
            for name in FIGURES:
                values = getattr(self, name)[k]
                row[f"median_{name}"] = float(np.median(values))
                if name != "n_spikes":
                    worst = np.min if name.startswith("support") else np.max
                    row[f"worst_{name}"] = float(worst(values))
            row["n_ran_away"] = int(self.ran_away[k].sum())
            rows.append(row)
        return rows

    def needed(
        self, axis: str | None = None, *, within: float = 0.01, figure: str = "relative_gap"
    ) -> list[tuple[dict[str, Any], int | float | None]]:
        """Return how many bits are needed, or how short a step: the knee, for each combination of the rest.

        Parameters
        ----------
        axis : str, optional
            The axis asked for; by default the first.
        within : float, default 0.01
            The figure wanted at the median signal; 0.01 is 1 %, by default of ``1/2 ||signal||^2``.
        figure : {"relative_gap", "relative_excess"}, default "relative_gap"
            The certified gap, or the objective above the optimum, of the optimum.

        Returns
        -------
        list of (dict, number or None)
            The values of the other axes, and the smallest value of `axis` from which on all larger ones are
            within; of a delay, the largest up to which all smaller ones are; of a time step, the longest that
            is, since shorter ones may be worse.  None if there is none.

        Examples
        --------
        >>> import numpy as np
        >>> problem = LassoProblem(np.eye(2), [[1.0, 0.6]], penalty=0.1)
        >>> sweep = sweep_digital(
        ...     problem, {"weight_bits": [4, 8], "potential_bits": [16, 24]}, duration=100.0
        ... )
        >>> sweep.needed("weight_bits", within=0.05)
        [({'potential_bits': 16}, 4), ({'potential_bits': 24}, 4)]
        """
        axis = next(iter(self.axes)) if axis is None else checks.one_of("axis", axis, tuple(self.axes))
        within = checks.positive_number("within", within)
        figure = checks.one_of("figure", figure, ("relative_gap", "relative_excess"))
        found = []
        for rest, values, medians in self.lines(axis, figure):
            if axis == "time_step":
                good = values[medians <= within]
                found.append((rest, good.max().item() if len(good) else None))
                continue
            # From the finest on.
            order = np.argsort(values) if axis == "delay" else np.argsort(values)[::-1]
            n_good = np.cumprod(medians[order] <= within).sum()
            found.append((rest, values[order[n_good - 1]].item() if n_good else None))
        return found

    def _facts(self) -> dict[str, str]:
        varied = {name: ", ".join(f"{value:g}" for value in values) for name, values in self.axes.items()}
        medians = np.median(self.relative_gap, axis=1)
        return {
            **varied,
            "points": number(len(medians)),
            "signals": number(self.relative_gap.shape[1]),
            "median gap": f"{value_range(medians)} of 1/2 ||signal||²",
            "median spikes": value_range(np.median(self.n_spikes, axis=1)),
            "ran away": f"{int(np.count_nonzero(self.ran_away)):,} of {self.ran_away.size:,} runs",
        }

    def lines(self, axis: str, figure: str) -> list[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
        """Return medians over the signals along an axis, for each combination of the other axes.

        Parameters
        ----------
        axis : str
            One of the axes.
        figure : str
            One of `FIGURES`.

        Returns
        -------
        list of (dict, ndarray, ndarray)
            The values of the other axes; those of `axis`, in increasing order; the medians.
        """
        shape = [len(values) for values in self.axes.values()]
        medians = np.median(getattr(self, figure), axis=1).reshape(shape)
        position = list(self.axes).index(axis)
        rest = {name: values for name, values in self.axes.items() if name != axis}
        along = np.moveaxis(medians, position, -1).reshape(-1, shape[position])
        combinations = [dict(zip(rest, values, strict=True)) for values in product(*rest.values())]
        order = np.argsort(self.axes[axis])
        values = np.array(self.axes[axis])[order]
        return [(point, values, line[order]) for point, line in zip(combinations, along, strict=True)]


def sweep_digital(
    problem: LassoProblem,
    axes: Mapping[str, Sequence[int | float]],
    *,
    format: DigitalFormat | None = None,
    time_step: float = 0.25,
    duration: float = 500.0,
    readout: str = "smooth",
    refine: bool = False,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> DigitalSweep:
    """Solve one problem with digital neurons of many formats, and compare with the exact solution.

    Parameters
    ----------
    problem : LassoProblem
        The problem; a few dozen signals tell enough.
    axes : mapping of str to sequence of numbers
        What to vary: "weight_bits", "bias_bits", "register_bits" (potentials and currents), "potential_bits",
        "current_bits", "decay_bits", "message_bits", "delay", "time_step".  All combinations are solved.
    format : DigitalFormat, optional
        Everything that no axis varies; by default ``DigitalFormat()``.
    time_step : float, default 0.25
        The step, unless an axis varies it.
    duration : float, default 500
        Simulated time of each signal, in synaptic time constants; at least the longest step.
    readout, refine
        As of `solve_digital`.  Without refinement the answer is the network's alone.
    rng : int, Generator or None, default 0
        For weights that are rounded stochastically, once for each network.
    n_jobs : int, optional
        Signals are spread over so many joblib workers.  None is one, unless a `joblib.parallel_config` says
        otherwise; -1 is one for each processor.  The result does not depend on their number.

    Returns
    -------
    DigitalSweep

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or value, or there is no digital network of a combination.
    """
    checks.instance_of("problem", problem, LassoProblem)
    format = DigitalFormat() if format is None else checks.instance_of("format", format, DigitalFormat)
    axes = _checked_axes(axes)
    duration = checks.positive_number("duration", duration)
    readout = checks.one_of("readout", readout, tuple(OF_ONE_RUN))
    time_step = checked_step(time_step, warn=False)
    checked_step(max(axes.get("time_step", (time_step,))))  # warns of the longest

    exact = solve_active_set(problem)
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    figures = []
    for point in points:
        try:
            # A gap is what is asked for, not an accident; of steps there is one warning for all, above.
            with without_warnings():
                # Results hold networks of integers, 16 bytes a weight: of each its figures are kept.
                figures.append(
                    _figures(
                        solve_digital(
                            problem,
                            varied(format, point),
                            tol=NO_TOL,
                            time_step=point.get("time_step", time_step),
                            max_duration=duration,
                            readout=readout,
                            refine=refine,
                            rng=rng,
                            n_jobs=n_jobs,
                        ),
                        exact,
                    )
                )
        except ValueError as error:
            described = ", ".join(f"{name}={value}" for name, value in point.items())
            raise ValueError(f"axes must combine to formats that exist; with {described}: {error}") from None
    return DigitalSweep(
        axes=axes,
        **{name: np.stack([values[name] for values in figures]) for name in figures[0]},
    )


def varied(format: DigitalFormat, point: Mapping[str, Any]) -> DigitalFormat:
    """Return a format with the values of a point of a sweep.

    Parameters
    ----------
    format : DigitalFormat
        What is not varied.
    point : mapping of str to number
        Names as of `sweep_digital`; "time_step" is not of the format, and ignored.
    """
    for name, value in point.items():
        if name == "weight_bits":
            format = replace(format, weights=replace(format.weights, bits=value))
        elif name == "bias_bits":
            format = replace(format, bias=replace(format.bias, bits=value))
        elif name == "register_bits":
            format = replace(format, potential_bits=value, current_bits=value)
        elif name != "time_step":
            format = replace(format, **{name: value})
    return format


def _figures(result: DigitalCodingResult, exact: SparseCodingResult) -> dict[str, np.ndarray]:
    """Return what a sweep keeps of a point, an entry for each signal."""
    # A signal of zeros has no objective.
    optimum = np.where(exact.objective > 0.0, exact.objective, 1.0)
    found, wanted = result.codes != 0.0, exact.codes != 0.0
    both = (found & wanted).sum(axis=1)
    return {
        "relative_gap": result.relative_gap,
        # Below zero is rounding.
        "relative_excess": np.maximum(result.objective - exact.objective, 0.0) / optimum,
        "support_recall": _share(both, wanted.sum(axis=1)),
        "support_precision": _share(both, found.sum(axis=1)),
        "n_spikes": result.n_steps,
        "ran_away": result.ran_away,
    }


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.where(whole > 0, part / np.maximum(whole, 1), 1.0)


def _checked_axes(axes: Mapping[str, Sequence[int | float]]) -> dict[str, tuple[Any, ...]]:
    if not isinstance(axes, Mapping):
        raise TypeError(f"axes must be a mapping of names to values; got {type(axes).__name__}")
    if not axes:
        raise ValueError("axes must name at least one thing to vary; got none")
    checked = {}
    for name, values in axes.items():
        checks.one_of("a name in axes", name, tuple(AXES))
        if np.ndim(values) != 1:
            raise TypeError(f"axes[{name!r}] must be a sequence of numbers; got {type(values).__name__}")
        if len(values) == 0:
            raise ValueError(f"axes[{name!r}] must not be empty")
        convert = checks.positive_number if name == "time_step" else checks.integer
        checked[name] = tuple(convert(f"axes[{name!r}]", value) for value in values)
        if len(set(checked[name])) < len(checked[name]):
            raise ValueError(f"axes[{name!r}] must not repeat a value")
    if "register_bits" in checked and {"potential_bits", "current_bits"} & set(checked):
        raise ValueError("axes must not vary register_bits and one of its two parts, potentials and currents")
    return checked

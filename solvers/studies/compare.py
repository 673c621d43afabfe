"""Several solvers on one problem, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from snn.base import checks
from snn.base.caller_warnings import each_warning_once, without_warnings
from snn.base.describe import Described, Drawn, table
from solvers.methods.method import METHODS, Method
from solvers.problem.lasso import LassoProblem
from solvers.problem.messages import IllPosedWarning, warn_if_ill_posed
from solvers.results.operations import CERTIFICATE, DRIVE, SIGNS
from solvers.results.result import SparseCodingResult, Status

Solver: TypeAlias = Callable[..., SparseCodingResult]
Methods: TypeAlias = Sequence[str | Method] | Mapping[str, str | Solver]

COLUMNS = {
    "method": "{}",
    "n_signals": "{:d}",
    "n_converged": "{:d}",
    "objective": "{:.9g}",
    "mean_objective": "{:.6g}",
    "largest_relative_gap": "{:.1e}",
    "mean_support": "{:.1f}",
    "n_steps": "{:d}",
    "synaptic_operations": "{:,d}",
    "multiply_adds": "{:,d}",
    "seconds": "{:.4f}",
}
"""The fields of a record, and how a table writes them; a dash where there is None."""
BOUNDED = "multiply_adds"
"""The field that may be a bound, which the record has under "bound"."""


class Comparison(list[dict[str, Any]], Drawn):
    """The records of `compare`, a dict each; ``print`` shows them as a table, and so does a notebook.

    Parameters
    ----------
    iterable : iterable of dict
        The records.
    """

    def _facts(self) -> dict[str, str]:
        return {_cell(record, "method"): _cell(record, "largest_relative_gap") for record in self}

    def __str__(self) -> str:
        rows = [list(COLUMNS), *_cells(self)]
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]

        def line(cells: Sequence[str]) -> str:
            # Names to the left, numbers to the right.
            padded = [cells[0].ljust(widths[0])]
            padded += [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
            return "| " + " | ".join(padded) + " |"

        rule = [":" + "-" * (widths[0] - 1)] + ["-" * (width - 1) + ":" for width in widths[1:]]
        return "\n".join([line(rows[0]), line(rule), *(line(row) for row in rows[1:])])

    def __repr__(self) -> str:
        return Described.__repr__(self)

    def _repr_html_(self) -> str:
        return table("Comparison", _cells(self), columns=list(COLUMNS))


def compare(problem: LassoProblem, methods: Methods, *, tol: float = 1e-3) -> Comparison:
    """Solve a problem by several methods and return a record of each.

    Each method first solves the first signal alone, outside the clock, so that compilation is not
    counted.  Then it is timed once on all signals.  The time includes what a method computes of the problem,
    such as the Gram matrix, unless the problem was given it.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    methods : sequence of str or Method, or mapping of str to str, Method or callable
        Names in `METHODS` and methods; or labels with these, or with functions called as
        ``solve(problem, tol=tol)`` that return a `SparseCodingResult`.
    tol : float, default 1e-3
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.

    Returns
    -------
    Comparison
        A list of dicts, one a method, in order, with the keys

        - ``method``: its name or label;
        - ``n_signals``, ``n_converged``: number of signals, and of those that reached `tol`;
        - ``objective``, ``mean_objective``: sum over the signals, and mean;
        - ``largest_relative_gap``: of ``duality_gap / (1/2 ||signal||^2)``;
        - ``mean_support``: non-zero entries of a code;
        - ``n_steps``: sum of spikes (spiking solver, and those that an active set starts from), rounds
          (active-set solver) or iterations (others);
        - ``synaptic_operations``: of the spiking network, all signals together;
        - ``multiply_adds``: of all else but correlations of the signals, which every method needs, and
          certificates;
        - ``bound``: "exact", or "at most" where a library hides its multiply-adds;
        - ``seconds``: wall-clock time.
    """
    checks.instance_of("problem", problem, LassoProblem)
    tol = checks.positive_number("tol", tol)
    solvers = _solvers(methods)
    warn_if_ill_posed(problem)
    with each_warning_once(), without_warnings(IllPosedWarning):  # there is one for all methods
        return Comparison(_record(label, solve, problem, tol) for label, solve in solvers.items())


def _cells(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    return [[_cell(record, name) for name in COLUMNS] for record in records]


def _cell(record: Any, name: str) -> str:
    """Return a field as text, whatever a caller may have put into the list of records."""
    value = record.get(name) if isinstance(record, Mapping) else None
    if value is None:
        return "-"
    try:
        sign = SIGNS.get(record.get("bound"), "") if name == BOUNDED else ""
        return sign + COLUMNS[name].format(value)
    except (TypeError, ValueError):
        return str(value)


def _solvers(methods: Methods) -> Mapping[str, Solver]:
    if isinstance(methods, str) or not isinstance(methods, (Sequence, Mapping)):
        raise TypeError(
            f"methods must be a sequence of names and methods, or a mapping from labels; got "
            f"{type(methods).__name__}"
        )
    if not methods:
        raise ValueError("methods must not be empty")
    if isinstance(methods, Mapping):
        for label in methods:
            checks.instance_of("a label of methods", label, str)
        return {label: _solver(solver) for label, solver in methods.items()}
    for solver in methods:
        if callable(solver) and not isinstance(solver, Method):
            raise TypeError(
                "methods must have labels for functions; got a sequence with one: pass {label: function}"
            )
    listed = [_solver(solver) for solver in methods]
    solvers = {solver.name: solver for solver in listed}
    if len(solvers) < len(listed):
        raise ValueError(
            f"methods must not repeat a name; got {[one.name for one in listed]}: pass {{label: method}}"
        )
    return solvers


def _solver(solver: str | Solver) -> Any:
    return solver if callable(solver) else METHODS[checks.one_of("methods", solver, tuple(METHODS))]


def _record(label: str, solve: Solver, problem: LassoProblem, tol: float) -> dict[str, Any]:
    with without_warnings():
        solve(problem.subset(slice(0, 1)), tol=tol)
    # A copy, so that what one method makes the problem compute is computed again for the next.
    fresh = problem.subset(slice(None))
    vars(fresh).pop("correlations", None)
    start = time.perf_counter()
    result = solve(fresh, tol=tol)
    seconds = time.perf_counter() - start
    checks.instance_of(f"result of method {label!r}", result, SparseCodingResult)
    counts = result.operations.without(DRIVE, CERTIFICATE).total()
    return {
        "method": label,
        "n_signals": problem.n_signals,
        "n_converged": int((result.status == Status.CONVERGED).sum()),
        "objective": float(result.objective.sum()),
        "mean_objective": float(result.objective.mean()),
        "largest_relative_gap": float(result.relative_gap.max()),
        "mean_support": float(result.support_size.mean()),
        "n_steps": int(result.n_steps.sum()),
        "synaptic_operations": counts.synaptic_operations,
        "multiply_adds": counts.multiply_adds,
        "bound": result.operations.bound,
        "seconds": seconds,
    }

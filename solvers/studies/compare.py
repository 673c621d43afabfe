"""Several solvers on one problem, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from snn.base import checks
from snn.base.caller_warnings import each_warning_once, without_warnings
from snn.base.describe import Described, Drawn, table
from solvers.methods.method import METHODS
from solvers.problem.lasso import LassoProblem
from solvers.problem.messages import IllPosedWarning, warn_if_ill_posed
from solvers.results.operations import CERTIFICATE, DRIVE, SIGNS
from solvers.results.result import SparseCodingResult, Status

Solver: TypeAlias = Callable[..., SparseCodingResult]

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
"""The fields of a record, and how `comparison_table` writes them; a dash where there is None."""
BOUNDED = "multiply_adds"
"""The field that may be a bound, which the record has under "bound"."""


class Comparison(list[dict[str, Any]], Drawn):
    """The records of `compare`, a dict each; ``print`` shows them as a table, and so does a notebook.

    Parameters
    ----------
    iterable : iterable of dict
        The records.

    See Also
    --------
    comparison_table : The same table of any records.
    """

    def _facts(self) -> dict[str, str]:
        return {_cell(record, "method"): _cell(record, "largest_relative_gap") for record in self}

    def __str__(self) -> str:
        return _aligned(self)

    def __repr__(self) -> str:
        return Described.__repr__(self)

    def _repr_html_(self) -> str:
        return table("Comparison", _cells(self), columns=list(COLUMNS))


def compare(
    problem: LassoProblem, methods: Sequence[str] | Mapping[str, Solver], *, tol: float = 1e-3
) -> Comparison:
    """Solve a problem by several methods and return a record of each.

    Each method first solves the first signal alone, outside the clock, so that compilation is not
    counted.  Then it is timed once on all signals.  The time includes what a method computes of the problem,
    such as the Gram matrix, unless the problem was given it.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    methods : sequence of str, or mapping of str to Method or callable
        Names in `METHODS`, or labels with methods, or with functions called as ``solve(problem, tol=tol)``
        that return a `SparseCodingResult`.
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

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        As the solvers do.
    """
    checks.instance_of("problem", problem, LassoProblem)
    tol = checks.positive_number("tol", tol)
    solvers = _solvers(methods)
    warn_if_ill_posed(problem)
    with each_warning_once(), without_warnings(IllPosedWarning):  # there is one for all methods
        return Comparison(_record(label, solve, problem, tol) for label, solve in solvers.items())


def comparison_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the records of `compare` as a Markdown table, aligned to be read as plain text too.

    Parameters
    ----------
    records : sequence of dict
        What `compare` returned.
    """
    return _aligned(checked_records(records))


def _aligned(records: Sequence[Mapping[str, Any]]) -> str:
    rows = [list(COLUMNS), *_cells(records)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        # Names to the left, numbers to the right.
        padded = [cells[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "| " + " | ".join(padded) + " |"

    rule = [":" + "-" * (widths[0] - 1)] + ["-" * (width - 1) + ":" for width in widths[1:]]
    return "\n".join([line(rows[0]), line(rule), *(line(row) for row in rows[1:])])


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


def _solvers(methods: Sequence[str] | Mapping[str, Solver]) -> Mapping[str, Solver]:
    if isinstance(methods, Mapping):
        for label, solve in methods.items():
            checks.instance_of("a label of methods", label, str)
            if not callable(solve):
                raise TypeError(f"methods must map labels to callables; got {type(solve).__name__}")
        solvers = dict(methods)
    elif isinstance(methods, Sequence) and not isinstance(methods, str):
        names = [checks.one_of("methods", name, tuple(METHODS)) for name in methods]
        if len(set(names)) < len(names):
            raise ValueError(f"methods must not repeat a name; got {names}")
        solvers = {name: METHODS[name] for name in names}
    else:
        raise TypeError(
            f"methods must be a sequence of names or a mapping to callables; got {type(methods).__name__}"
        )
    if not solvers:
        raise ValueError("methods must not be empty")
    return solvers


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
    return {
        "method": label,
        "n_signals": problem.n_signals,
        "n_converged": int((result.status == Status.CONVERGED).sum()),
        "objective": float(result.objective.sum()),
        "mean_objective": float(result.objective.mean()),
        "largest_relative_gap": float(result.relative_gap.max()),
        "mean_support": float(result.support_size.mean()),
        "n_steps": int(result.n_steps.sum()),
        **_operations(result),
        "seconds": seconds,
    }


def _operations(result: SparseCodingResult) -> dict[str, Any]:
    ledger = result.operations
    counts = ledger.without(DRIVE, CERTIFICATE).total()
    return {
        "synaptic_operations": counts.synaptic_operations,
        "multiply_adds": counts.multiply_adds,
        "bound": ledger.bound,
    }


def checked_records(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return records of `compare`, or raise TypeError or ValueError if they are something else."""
    if isinstance(records, (str, Mapping)) or not isinstance(records, Sequence):
        raise TypeError(f"records must be a sequence of dicts; got {type(records).__name__}")
    if not records:
        raise ValueError("records must not be empty")
    for k, record in enumerate(records):
        checks.instance_of(f"records[{k}]", record, dict)
        for name in (*COLUMNS, "bound"):
            if name not in record:
                raise ValueError(f"records must have the key {name!r}; got {sorted(record)}")
    return list(records)

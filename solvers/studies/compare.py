"""Several solvers on one problem, side by side."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from snn.base import checks
from snn.base.describe import Drawn, table
from snn.base.value import replaced
from solvers.methods.method import Method, named_method
from solvers.problem.lasso import LassoProblem
from solvers.problem.messages import IllPosedWarning, warn_if_ill_posed
from solvers.results.codes import CERTIFICATE, DRIVE
from solvers.results.result import SIGNS, SparseCodingResult

Solver: TypeAlias = Callable[..., SparseCodingResult]
Methods: TypeAlias = Sequence[str | Method] | Mapping[str, str | Solver]

# The fields of a record, and how a table writes them.
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


class Comparison(Drawn, list[dict[str, Any]]):
    """The records of `compare`, a dict each; ``print`` shows them as a table, and so does a notebook.

    Parameters
    ----------
    iterable : iterable of dict
        The records.
    """

    def _rows(self) -> list[list[str]]:
        """Return the cells of the table, a list for each record."""
        # A library that hides its multiply-adds has a bound on them.
        return [
            [
                SIGNS[record["bound"]] * (name == "multiply_adds") + form.format(record[name])
                for name, form in COLUMNS.items()
            ]
            for record in self
        ]

    def _facts(self) -> dict[str, str]:
        return {record["method"]: f"{record['largest_relative_gap']:.1e}" for record in self}

    def __str__(self) -> str:
        rows = [list(COLUMNS), *self._rows()]
        first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
        # Names to the left, numbers to the right.
        line = "| " + " | ".join([f"{{:{first}}}", *(f"{{:>{width}}}" for width in others)]) + " |"
        rule = line.format(":" + "-" * (first - 1), *("-" * (width - 1) + ":" for width in others))
        header, *lines = (line.format(*row) for row in rows)
        return "\n".join([header, rule, *lines])

    def _repr_html_(self) -> str:
        return table("Comparison", self._rows(), columns=list(COLUMNS))


def compare(problem: LassoProblem, methods: Methods, *, tol: float = 1e-3) -> Comparison:
    """Solve a problem by several methods and return a record of each.

    Each method first solves the first signal alone, so that compilation is not timed.  Its time includes
    what it computes of the problem, such as the Gram matrix, unless the problem was given it.

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
        - ``n_steps``: spikes, rounds of an active set, or iterations, of all signals;
        - ``synaptic_operations``: of the spiking network;
        - ``multiply_adds``: of all else but correlations of the signals and certificates;
        - ``bound``: "exact", or "at most" where a library hides its multiply-adds;
        - ``seconds``: wall-clock time.
    """
    checks.instance_of("problem", problem, LassoProblem)
    tol = checks.positive_number("tol", tol)
    solvers = _solvers(methods)
    warn_if_ill_posed(problem)
    with checks.without_warnings(IllPosedWarning):  # there is one for all methods
        return Comparison(_record(label, solve, problem, tol) for label, solve in solvers.items())


def _solvers(methods: Methods) -> dict[str, Any]:
    """Return the solvers by their labels, or by their names where they have none."""
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
        return {
            label: one if callable(one) else named_method(one, name="methods")
            for label, one in methods.items()
        }
    listed = [named_method(method, name="methods") for method in methods]
    solvers = {method.name: method for method in listed}
    if len(solvers) < len(listed):
        raise ValueError(
            f"methods must not repeat a name; got {[one.name for one in listed]}: pass {{label: method}}"
        )
    return solvers


def _record(label: str, solve: Solver, problem: LassoProblem, tol: float) -> dict[str, Any]:
    with checks.without_warnings():
        solve(problem.subset(slice(0, 1)), tol=tol)
    # A copy, so that what one method makes the problem compute is computed again for the next.
    fresh = replaced(problem.subset(slice(None)), without=("correlations",))
    start = time.perf_counter()
    result = solve(fresh, tol=tol)
    seconds = time.perf_counter() - start
    checks.instance_of(f"result of method {label!r}", result, SparseCodingResult)
    counts = result.operations.without(DRIVE, CERTIFICATE).total()
    return {
        "method": label,
        "n_signals": problem.n_signals,
        "n_converged": int(result.reached.sum()),
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

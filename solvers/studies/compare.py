"""A comparison of several solvers on one problem."""

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

# The fields of a record, with their formats in a table.
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
    """The records of `compare`, one dict per method, which ``print`` and notebooks show as a table.

    Parameters
    ----------
    iterable : iterable of dict
        The records.
    """

    def _rows(self) -> list[list[str]]:
        """Return the cells of the table, a list for each record."""
        # If multiply-adds are an upper bound, "<= " comes before the number.
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
        # Names are aligned to the left, numbers to the right.
        line = "| " + " | ".join([f"{{:{first}}}", *(f"{{:>{width}}}" for width in others)]) + " |"
        rule = line.format(":" + "-" * (first - 1), *("-" * (width - 1) + ":" for width in others))
        header, *lines = (line.format(*row) for row in rows)
        return "\n".join([header, rule, *lines])

    def _repr_html_(self) -> str:
        return table("Comparison", self._rows(), columns=list(COLUMNS))


def compare(problem: LassoProblem, methods: Methods, *, tol: float = 1e-3) -> Comparison:
    """Solve a problem by several methods and return a record of each.

    Before the measurement, each method solves the first signal, so that the time of compilation is not
    included.  The measured time includes what the method computes from the problem, such as the Gram matrix,
    unless it was passed.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    methods : sequence of str or Method, or mapping of str to str, Method or callable
        Names in `METHODS`, and methods; or a mapping from labels to names, methods, or functions that are
        called as ``solve(problem, tol=tol)`` and return a `SparseCodingResult`.
    tol : float, default 1e-3
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.

    Returns
    -------
    Comparison
        A list with a dict for each method, in their order, with the keys

        - ``method``: the name or label of the method;
        - ``n_signals``, ``n_converged``: the number of signals, and of those that reached `tol`;
        - ``objective``, ``mean_objective``: the sum of the objectives of all signals, and their mean;
        - ``largest_relative_gap``: the largest ``duality_gap / (1/2 ||signal||^2)`` of all signals;
        - ``mean_support``: the mean number of non-zero entries of a code;
        - ``n_steps``: the number of spikes, of rounds of an active set, or of iterations, for all signals;
        - ``synaptic_operations``: the number of synaptic operations of the spiking network;
        - ``multiply_adds``: all multiply-adds except those of correlations with signals, and certificates;
        - ``bound``: "exact", or "at most" if multiply-adds are an upper bound;
        - ``seconds``: the wall-clock time in seconds.
    """
    checks.instance_of("problem", problem, LassoProblem)
    tol = checks.positive_number("tol", tol)
    solvers = _solvers(methods)
    warn_if_ill_posed(problem)
    with checks.without_warnings(IllPosedWarning):  # `warn_if_ill_posed` has already warned
        return Comparison(_record(label, solve, problem, tol) for label, solve in solvers.items())


def _solvers(methods: Methods) -> dict[str, Any]:
    """Return the solvers by their labels, or by their names if they have no labels."""
    if isinstance(methods, str) or not isinstance(methods, (Sequence, Mapping)):
        raise TypeError(
            f"methods must be a sequence of names and methods, or a mapping from labels; got "
            f"{type(methods).__name__}"
        )
    if not methods:
        raise ValueError("methods must have at least one entry; got none")
    if isinstance(methods, Mapping):
        for label in methods:
            checks.instance_of("a label of methods", label, str)
        return {
            label: solver if callable(solver) else named_method(solver, name="methods")
            for label, solver in methods.items()
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
    # Each method solves a copy of the problem, so that it cannot use results of the previous method.
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

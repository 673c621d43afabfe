"""Quadratic programs, solved by an active set (non-negative least squares), or as a LASSO by spikes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.describe import Described, Drawn
from snn.base.value import assign, cached_property, replaced
from solvers.certificate.programs import Program
from solvers.programs.least_distance import WRONG_SHARE, LeastDistance, PrimalDual
from solvers.results.codes import Status
from solvers.results.result import convergence_warning
from solvers.workers.blas import one_blas_thread

# Two opposite entries of a symmetric matrix may differ by this share of the largest entry.
SYMMETRIC = 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class ProgramResult(Drawn):
    """A solution of a quadratic program, with bounds proved from the program's own arrays.

    Attributes
    ----------
    program : QuadraticProgram
        The program.
    method : str
        "active_set" or "spiking".
    tol : float
        See `QuadraticProgram.solve`.
    x : ndarray, shape (n,)
        The solution x; NaN if the program is infeasible or unbounded.
    inequality_multipliers, equation_multipliers, lower_multipliers, upper_multipliers : ndarray
        How much the objective falls if a limit is relaxed by one unit.  Multipliers of equations may have
        either sign.  At the solution ``H x + c + A'm + E'nu - lower + upper = 0``.  If the program is
        infeasible, the sum of its rows times the multipliers is a contradiction: the left side is zero, and
        the right side is negative.
    lower_bound, upper_bound : float
        The optimum lies between these bounds, which include all rounding errors.  The upper bound is proved
        if `violation` is zero.  Otherwise, the bound includes an estimated price of the violations: twice the
        violations times the multipliers.
    violation : float
        Zero if a feasible point provably lies within rounding of x.  Otherwise, the largest distance of x
        from an equation, or from the half-space of an inequality.
    radius : float
        The distance from x within which `lower_bound` holds.  The radius is infinite, unless the Hessian is
        singular and the bounds do not limit all variables.  An infeasible program has no feasible point of
        norm below `radius`.
    status : Status
        REACHED, AT_PRECISION, INFEASIBLE or UNBOUNDED; AT_LIMIT if the method "spiking" ran out of spikes.
    n_steps : int
        The number of spikes, or of solutions of equations.
    """

    program: QuadraticProgram
    method: str
    tol: float
    x: np.ndarray
    inequality_multipliers: np.ndarray
    equation_multipliers: np.ndarray
    lower_multipliers: np.ndarray
    upper_multipliers: np.ndarray
    lower_bound: float
    upper_bound: float
    violation: float
    radius: float
    status: Status
    n_steps: int
    _found: PrimalDual = field(repr=False)

    @property
    def objective(self) -> float:
        """The objective at x."""
        return float(self.x @ (0.5 * self.program.hessian @ self.x + self.program.linear))

    @property
    def gap(self) -> float:
        """The upper minus the lower bound, in the unit of the objective."""
        return self.upper_bound - self.lower_bound

    @property
    def active(self) -> np.ndarray:
        """The indices of the inequalities whose multipliers are positive."""
        return np.flatnonzero(self.inequality_multipliers > 0.0)

    def _facts(self) -> dict[str, str]:
        facts = {"method": self.method, "status": self.status.name.lower().replace("_", " ")}
        if self.status >= Status.INFEASIBLE:
            return facts
        return facts | {
            "objective": f"{self.objective:.12g}, at most {self.gap:.1e} above the optimum",
            "violation": f"{self.violation:.1e}" if self.violation else "none",
            "active": f"{len(self.active)} of {len(self.inequality_multipliers)} inequalities",
        }


@dataclass(frozen=True, eq=False, repr=False, init=False)
class QuadraticProgram(Described):
    """A convex quadratic program.

    Find the x that minimises ``1/2 x'Hx + c'x`` subject to ``A x <= b``, ``E x = f`` and
    ``lower <= x <= upper``.

    Parameters
    ----------
    hessian : array_like, shape (n, n)
        The matrix H, symmetric, and positive semidefinite on the null space of E.
    linear : array_like, shape (n,)
        The vector c.
    inequalities, equations : pair of array_like, shapes (n_rows, n) and (n_rows,), optional
        The pairs (A, b) and (E, f) of a matrix and its right-hand sides.  Entries of b may be infinite.
    bounds : pair of float or array_like, optional
        The tuple (lower, upper), each a number, a list or an array; an entry is None or infinite if there is
        no bound.  For SciPy's list of pairs, one for each variable, pass ``tuple(np.transpose(pairs))``.  A
        pair of two tuples is refused, because it could also be SciPy's list for two variables.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import QuadraticProgram
    >>> result = QuadraticProgram(np.eye(2), [-3.0, 0.5], bounds=(0.0, 2.0)).solve()
    >>> print(result.x, result.lower_multipliers, result.upper_multipliers)
    [2. 0.] [0.  0.5] [1. 0.]
    """

    hessian: np.ndarray
    linear: np.ndarray
    inequalities: tuple[np.ndarray, np.ndarray]
    equations: tuple[np.ndarray, np.ndarray]
    bounds: tuple[np.ndarray, np.ndarray]
    # A cache of the matrices of `LeastDistance`; programs that differ only in c, b and f share it.
    _kept: dict[str, LeastDistance]

    def __init__(
        self,
        hessian: ArrayLike,
        linear: ArrayLike,
        *,
        inequalities: tuple[ArrayLike, ArrayLike] | None = None,
        equations: tuple[ArrayLike, ArrayLike] | None = None,
        bounds: tuple[ArrayLike | None, ArrayLike | None] | None = None,
    ) -> None:
        linear = checks.real_array("linear", linear, shape=(None,))
        n = len(linear)
        hessian = checks.real_array("hessian", hessian, shape=(n, n))
        skew = np.abs(hessian - hessian.T)
        if skew.max() > SYMMETRIC * np.abs(hessian).max():
            i, j = np.unravel_index(skew.argmax(), skew.shape)
            raise ValueError(
                f"hessian must be symmetric; got {hessian[i, j]:g} at [{i}, {j}] and {hessian[j, i]:g} at "
                f"[{j}, {i}]: pass (hessian + hessian.T) / 2, which has the same objective"
            )
        pairs = []
        for name, pair in (("inequalities", inequalities), ("equations", equations)):
            matrix, sides = _pair(name, (np.empty((0, n)), np.empty(0)) if pair is None else pair)
            if np.shape(matrix) != (0, n):
                matrix = checks.real_array(f"matrix of {name}", matrix, shape=(None, n)).copy()
                sides = _sides(name, sides, len(matrix), np.inf if name == "inequalities" else None)
            pairs.append((matrix, sides))
        lower, upper = _pair("bounds", (None, None) if bounds is None else bounds)
        both = _sides("bounds", lower, n, -np.inf), _sides("bounds", upper, n, np.inf)
        hessian = checks.read_only(0.5 * (hessian + hessian.T))
        assign(self, hessian=hessian, linear=checks.read_only(linear.copy()), bounds=both, _kept={})
        assign(self, inequalities=pairs[0], equations=pairs[1])

    @cached_property
    def _arrays(self) -> Program:
        """The arrays of the program, with finite bounds as rows, and without rows of infinite limits."""
        eye, (lower, upper), (rows, limits) = np.eye(len(self.linear)), self.bounds, self.inequalities
        rows = np.vstack([rows, -eye, eye])
        limits = np.concatenate([limits, -lower, upper])
        finite = limits < np.inf
        return Program(self.hessian, self.linear, rows[finite], limits[finite], *self.equations)

    def with_linear(
        self, linear: ArrayLike, limits: ArrayLike | None = None, values: ArrayLike | None = None
    ) -> QuadraticProgram:
        """Return the program with a new c and, optionally, new right-hand sides; factors are reused.

        Parameters
        ----------
        linear : array_like, shape (n,)
            The new vector c.
        limits, values : array_like, shape (n_rows,), optional
            The new right-hand sides: b of the inequalities, and f of the equations.
        """
        (matrix, before), (equations, sides) = self.inequalities, self.equations
        linear = checks.read_only(checks.real_array("linear", linear, shape=self.linear.shape).copy())
        limits = before if limits is None else _sides("inequalities", limits, len(matrix), np.inf)
        sides = sides if values is None else _sides("equations", values, len(equations), None)
        kept = self._kept if np.array_equal(np.isinf(limits), np.isinf(before)) else {}
        changes = {"linear": linear, "inequalities": (matrix, limits), "equations": (equations, sides)}
        changed: QuadraticProgram = replaced(self, without=("_arrays",), _kept=kept, **changes)
        return changed

    def solve(
        self, *, method: str = "active_set", tol: float = 1e-9, start: ProgramResult | None = None
    ) -> ProgramResult:
        """Solve the program.

        Parameters
        ----------
        method : {"active_set", "spiking"}, default "active_set"
            An active-set method, or the spikes of a network.  Spikes need a point that is strictly inside all
            inequalities.
        tol : float, default 1e-9
            The status is REACHED if ``gap <= tol * max(1, |upper_bound|)``, and the violation is at most
            `tol` or the rounding of x.
        start : ProgramResult, optional
            The result of a program with the same matrices, as `with_linear` returns.

        Returns
        -------
        ProgramResult
            The solution with its certificate.  `status` says if the program is infeasible or unbounded.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If the status is not REACHED.
        """
        checks.one_of("method", method, ("active_set", "spiking"))
        tol = checks.positive_number("tol", tol)
        found = None if start is None else checks.instance_of("start", start, ProgramResult)._found
        if found is not None and found.rows.shape != self._arrays.limits.shape:
            raise ValueError(
                "start must be the result of a program with as many rows and bounds, "
                f"{len(self._arrays.limits)}; got {len(found.rows)}"
            )
        with one_blas_thread():
            form = self._kept.get("form")
            if form is None or not form.fits(self._arrays):
                form = self._kept["form"] = LeastDistance(self._arrays)
            solved = form.solved(self._arrays, method, tol, found)
        n, (lower, upper) = len(self.linear), self.bounds
        multipliers = np.zeros(len(self.inequalities[0]) + 2 * n)
        multipliers[np.concatenate([self.inequalities[1], -lower, upper]) < np.inf] = solved.rows
        rows, low, high = (checks.read_only(part) for part in np.split(multipliers, [-2 * n, -n]))
        x, equal = checks.read_only(solved.x), checks.read_only(solved.equal)
        status, found = solved.status, solved.found
        result = ProgramResult(
            self, method, tol, x, rows, equal, low, high, *solved.bounds, status, found.n_steps, found
        )
        if status != Status.REACHED:
            checks.warn_caller(_complaint(result), convergence_warning())
        return result

    def _facts(self) -> dict[str, str]:
        n_bounds = sum(int(np.isfinite(side).sum()) for side in self.bounds)
        counts = (len(self.linear), len(self.inequalities[0]), len(self.equations[0]), n_bounds)
        names = ("variables", "inequalities", "equations", "bounds")
        return {name: f"{count:,}" for name, count in zip(names, counts, strict=True)}


def solve_qp(
    P: ArrayLike,
    q: ArrayLike,
    G: ArrayLike | None = None,
    h: ArrayLike | None = None,
    A: ArrayLike | None = None,
    b: ArrayLike | None = None,
    lb: ArrayLike | None = None,
    ub: ArrayLike | None = None,
    **options: Any,
) -> np.ndarray | None:
    """Return the solution of a quadratic program given in the order of qpsolvers; None if it is not solved.

    Parameters
    ----------
    P, q, G, h, A, b, lb, ub : array_like
        The program is to minimise ``1/2 x'Px + q'x`` subject to ``G x <= h``, ``A x = b`` and
        ``lb <= x <= ub``.  G or A may be one row, of shape (n,).
    **options
        See `QuadraticProgram.solve`, whose result also has multipliers and a certificate.

    Returns
    -------
    ndarray, shape (n,), or None
        The solution x if the status is REACHED, or is AT_PRECISION and the rows hold to rounding.
    """
    pairs: list[Any] = []
    for name, rows, sides in (("G", G, h), ("A", A, b)):
        matrix = None if rows is None else checks.real_array(name, rows, shape=None)
        pair = (matrix, sides)
        if matrix is not None and matrix.ndim == 1:
            pair = (matrix[np.newaxis], np.ravel(sides))  # type: ignore[arg-type]
        pairs.append(None if rows is None and sides is None else pair)
    bounds: Any = tuple(list(side) if isinstance(side, tuple) else side for side in (lb, ub))
    program = QuadraticProgram(P, q, inequalities=pairs[0], equations=pairs[1], bounds=bounds)
    result = program.solve(**options)
    is_feasible = result.violation <= WRONG_SHARE * (1.0 + np.abs(result.x).max())
    at_precision = result.status == Status.AT_PRECISION and is_feasible
    return result.x if result.status == Status.REACHED or at_precision else None


def _pair(name: str, pair: Any) -> tuple[Any, Any]:
    is_bounds = name == "bounds"
    if not isinstance(pair, tuple if is_bounds else (tuple, list)) or len(pair) != 2:
        what = "(lower, upper), as a tuple" if is_bounds else "a matrix and its right-hand sides"
        hint = ": for SciPy's list of a pair for each variable pass tuple(np.transpose(pairs))"
        raise TypeError(f"{name} must be a pair, {what}; got {type(pair).__name__}{hint * is_bounds}")
    if is_bounds and all(isinstance(side, tuple) for side in pair):
        raise TypeError(
            "bounds must be (lower, upper), each a number, a list or an array; got two tuples, which may be "
            "pairs of each variable: pass (list(lower), list(upper)), or tuple(np.transpose(pairs))"
        )
    return pair[0], pair[1]


def _sides(name: str, sides: Any, n: int, infinite: float | None) -> np.ndarray:
    """Return a copy of limits; an infinite entry, or None, means that there is no limit."""
    if name == "bounds":
        sides = np.full(n, sides) if np.ndim(sides) == 0 else sides
        if any(side is None for side in sides):
            sides = [infinite if side is None else side for side in sides]
    array = checks.real_array(f"sides of {name}", sides, shape=(n,), finite=infinite is None)
    if infinite is not None and not (np.isfinite(array) | (array == infinite)).all():
        raise ValueError(f"sides of {name} must be numbers or {infinite} for none; got NaN or {-infinite}")
    return checks.read_only(array.copy())


def _complaint(result: ProgramResult) -> str:
    if result.status == Status.INFEASIBLE:
        return (
            "the program is infeasible: multipliers of its rows add up to a contradiction, and no point of "
            f"norm below {result.radius:.1e} satisfies them"
        )
    if result.status == Status.UNBOUNDED:
        return "the program is unbounded: its objective falls for ever along a direction without curvature"
    reason = "the Hessian or the rows are ill-conditioned for spikes: pass method='active_set'"
    return (
        f"{result.method}: the program is not solved to tol = {result.tol:g}: the gap is {result.gap:.2g}, "
        f"the violation {result.violation:.2g}" + f"; {reason}" * (result.status < Status.AT_PRECISION)
    )

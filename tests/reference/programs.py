"""Quadratic programs of every kind of degeneracy, and their optima in exact rational numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.reference.rationals import rational, solution_of

KINDS = (
    *("plain", "no rows", "hidden equations", "three rows that hide one", "implied rows", "single point"),
    *("wide boxes", "scales", "fixed", "infeasible", "redundant equations", "contradicting equations"),
    *("infinite bounds", "degenerate vertex", "null space", "scaled variables", "contradicted by equations"),
    *("range in equations", "range in hidden equations"),
)
# In programs of these kinds, the Hessian within the equations is zero or has rank one, up to rounding.
FLAT = ("range in equations", "range in hidden equations")
INFEASIBLE = ("infeasible", "contradicting equations", "contradicted by equations")


@dataclass(frozen=True, eq=False)
class Case:
    """The arguments of a program, whose constraints hold at `inside` unless the kind is in `INFEASIBLE`."""

    kind: str
    hessian: np.ndarray
    linear: np.ndarray
    inside: np.ndarray
    parts: dict[str, Any] = field(default_factory=dict)
    """Arguments for inequalities, equations and bounds; absent if there are none."""

    @property
    def has_solution(self) -> bool:
        return self.kind not in INFEASIBLE

    def program(self, cls, **changes):
        """Return the program of class `cls`, with some arguments changed."""
        return cls(**({"hessian": self.hessian, "linear": self.linear} | self.parts | changes))

    def rows(self):
        """Return A and b of the inequalities, which include bounds, and E and f of the equations."""
        n = len(self.linear)
        rows, limits = self.parts.get("inequalities", (np.empty((0, n)), np.empty(0)))
        lower, upper = self.parts.get("bounds", (np.full(n, -np.inf), np.full(n, np.inf)))
        rows = np.vstack([rows, -np.eye(n)[np.isfinite(lower)], np.eye(n)[np.isfinite(upper)]])
        limits = np.concatenate([limits, -lower[np.isfinite(lower)], upper[np.isfinite(upper)]])
        finite = np.isfinite(limits)
        equations, values = self.parts.get("equations", (np.empty((0, n)), np.empty(0)))
        return rows[finite], limits[finite], equations, values


def programs(*, kinds=KINDS, most=6) -> st.SearchStrategy[Case]:
    """Return a strategy for programs of the given kinds."""
    return st.builds(case, st.sampled_from(kinds), st.integers(2, most), st.integers(0, 2**20))


def case(kind, n, seed, *, condition=None) -> Case:
    """Return one program of a kind with n variables."""
    rng = np.random.default_rng([seed, n])
    numbers = _Numbers(rng, n)
    n_rows, n_equations = int(rng.integers(1, n + 3)), int(rng.integers(0, max(n // 2, 1)))
    inside, hessian = numbers.vector(), numbers.hessian(condition)
    linear = 3.0 * n * numbers.vector()
    rows = numbers.rows(n_rows)
    limits = rows @ inside + numbers.slack(n_rows)
    equations = numbers.rows(n_equations)
    lower, upper = np.full(n, -np.inf), np.full(n, np.inf)

    def add(more, sides):
        nonlocal rows, limits
        rows, limits = np.vstack([rows, more]), np.concatenate([limits, sides])

    if kind == "hidden equations":
        hidden = numbers.rows(max(n // 3, 1))
        add(np.vstack([hidden, -2.0 * hidden]), np.concatenate([hidden @ inside, -2.0 * (hidden @ inside)]))
    elif kind == "three rows that hide one":
        hidden = numbers.rows(2)
        hidden = np.vstack([hidden, -hidden.sum(axis=0)])
        add(hidden, hidden @ inside)
    elif kind in ("implied rows", "contradicted by equations"):
        equations = numbers.rows(max(n // 2, 1))
        weights = rng.integers(-2, 3, (2, len(equations))).astype(float)
        weights[:, 0] = 1.0
        implied = weights @ equations
        beyond = [0.0, 1.0] if kind == "implied rows" else [0.0, -0.5]
        add(implied, weights @ (equations @ inside) + beyond)
    elif kind == "single point":
        add(np.vstack([-np.eye(n), np.ones((1, n))]), np.append(-inside, inside.sum()))
    elif kind == "wide boxes":
        lower, upper = inside - 2.0**20, inside + 2.0**20
    elif kind == "scales":
        scales = 2.0 ** rng.integers(-20, 21, len(rows))
        rows, limits = rows * scales[:, np.newaxis], limits * scales
    elif kind == "fixed":
        some = rng.random(n) < 0.5
        lower, upper = np.where(some, inside, inside - 1.0), np.where(some, inside, inside + 1.0)
    elif kind == "infeasible":
        row = numbers.rows(1)
        add(np.vstack([row, -row]), np.concatenate([row @ inside, -(row @ inside) - 2.0**-10]))
    elif kind in ("redundant equations", "contradicting equations"):
        equations = numbers.rows(max(n // 3, 1))
        equations = np.vstack([equations, equations[:1] * 2.0, equations.sum(axis=0)])
    elif kind == "infinite bounds":
        lower, upper = (
            np.where(rng.random(n) < 0.5, inside, -np.inf),
            np.where(rng.random(n) < 0.5, inside, np.inf),
        )
        limits[0] = np.inf
    elif kind == "degenerate vertex":
        more = numbers.rows(n + 2)
        add(more, more @ inside)
    elif kind == "null space":
        equations = np.eye(n)[: max(n // 2, 1)]
        hessian = hessian.copy()
        hessian[: len(equations), : len(equations)] -= 2.0 * np.eye(len(equations)) * np.trace(hessian)
    elif kind in FLAT:
        flat, rows, limits = numbers.rows(max(n // 2, 1)), rows[:1], limits[:1]
        factor = rng.integers(-2, 3, flat.shape[:1] * 2) @ flat
        factor = np.vstack([factor, numbers.rows(1) * (rng.random() < 0.5)])
        hessian, lower, upper = factor.T @ factor, inside - 1.0, inside + 1.0
        equations = flat if kind == FLAT[0] else equations[:0]
        if kind != FLAT[0]:
            add(np.vstack([flat, -2.0 * flat]), np.concatenate([flat @ inside, -2.0 * (flat @ inside)]))
    elif kind == "scaled variables":
        scales = 2.0 ** rng.integers(-10, 11, n)
        hessian, linear = hessian * np.outer(scales, scales), linear * scales
        rows, equations, inside = rows * scales, equations * scales, inside / scales
    values = equations @ inside
    if kind == "contradicting equations":
        values[-1] += 0.5
    parts = {}
    if kind != "no rows":
        parts = {"inequalities": (rows, limits)}
        if len(equations):
            parts["equations"] = (equations, values)
        if np.isfinite(lower).any() or np.isfinite(upper).any():
            parts["bounds"] = (lower, upper)
    return Case(kind, hessian, linear, inside, parts)


class _Numbers:
    """Random numbers for programs; with few variables, small integers divided by powers of two."""

    def __init__(self, rng, n):
        self.rng, self.n, self.exact = rng, n, n <= 6

    def vector(self):
        return (
            self.rng.integers(-4, 5, self.n) / 4.0 if self.exact else 0.3 * self.rng.standard_normal(self.n)
        )

    def rows(self, n_rows):
        if self.exact:
            rows = self.rng.integers(-3, 4, (n_rows, self.n)).astype(float)
            rows[~rows.any(axis=1), 0] = 1.0
            return rows
        return self.rng.standard_normal((n_rows, self.n))

    def slack(self, n_rows):
        return self.rng.integers(0, 3, n_rows) / 4.0 if self.exact else 0.5 * self.rng.random(n_rows)

    def hessian(self, condition):
        n = self.n
        if condition is not None:
            basis = np.linalg.qr(self.rng.standard_normal((n, n)))[0]
            hessian = (basis * np.geomspace(1.0, 1.0 / condition, n)) @ basis.T
            return 0.5 * (hessian + hessian.T)
        factor = self.rows(n)
        return factor @ factor.T / (1.0 if self.exact else n) + (1.0 if self.exact else 0.1) * np.eye(n)


def exact_optimum(case: Case) -> Fraction | None:
    """Return the optimum of a small program in rationals; None if no point satisfies its rows.

    Every set of independent rows is tried as the active set, because one set belongs to the optimum.
    """
    rows, limits, equations, values = case.rows()
    n = len(case.linear)
    rows, equations = [rational(row) for row in rows], [rational(row) for row in equations]
    limits, values = rational(limits), rational(values)
    basis = _independent(equations, values)
    if basis is None:
        return None
    hessian, linear = [rational(row) for row in case.hessian], rational(case.linear)
    for size in range(min(len(rows), n - len(basis)) + 1):
        for chosen in combinations(range(len(rows)), size):
            active = [row for row, _ in basis] + [rows[i] for i in chosen]
            sides = [value for _, value in basis] + [limits[i] for i in chosen]
            point, multipliers = _stationary(hessian, linear, active, sides)
            if point is None or any(m < 0 for m in multipliers[len(basis) :]):
                continue
            if all(_dot(row, point) <= limit for row, limit in zip(rows, limits, strict=True)):
                quadratic = sum(x * _dot(row, point) for x, row in zip(point, hessian, strict=True))
                return quadratic / 2 + _dot(linear, point)
    return None


def _dot(left, right):
    return sum((x * y for x, y in zip(left, right, strict=True)), Fraction(0))


def _independent(equations, values):
    """Return equivalent independent equations; None if some contradict each other."""
    kept = []
    for row, value in zip(equations, values, strict=True):
        row, value = list(row), value
        for other, its_value, pivot in kept:
            factor = row[pivot] / other[pivot]
            row = [x - factor * y for x, y in zip(row, other, strict=True)]
            value -= factor * its_value
        if any(row):
            kept.append((row, value, next(i for i, x in enumerate(row) if x)))
        elif value:
            return None
    return [(row, value) for row, value, _ in kept]


def _stationary(hessian, linear, active, sides):
    """Return the stationary point on active rows and its multipliers; None if the equations are singular."""
    n = len(linear)
    system = [[*hessian[i], *(row[i] for row in active), -linear[i]] for i in range(n)]
    system += [[*row, *([Fraction(0)] * len(active)), side] for row, side in zip(active, sides, strict=True)]
    solution = solution_of(system)
    return (None, []) if solution is None else (solution[:n], solution[n:])

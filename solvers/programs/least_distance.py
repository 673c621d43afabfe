"""Quadratic programs as problems of the least distance, which active sets and spikes can solve."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.optimize import linprog

from snn.base import checks
from snn.base.value import replaced
from solvers._kernels.precision import UNIT_ROUNDOFF
from solvers.certificate import programs as certificate
from solvers.certificate.programs import Bounds, Program, are_bounds, norms_of
from solvers.methods.active_set import ActiveSet
from solvers.methods.spiking import solve_spiking
from solvers.problem.lasso import LassoProblem
from solvers.results.codes import Status, as_sparse, rows_of

# A row of norm one follows from the equations if the row's part in their null space is shorter than IMPLIED.
# A pivot that is smaller than this share of the largest entry counts as zero.
IMPLIED = 1e-12
# Two opposite rows count as an equation if the room between them, as a share of their limits, is below TIGHT.
TIGHT = 1e-13
# Equations may contradict each other if their violation exceeds CONTRADICTED times the size of the point.
CONTRADICTED = 1e-9
# Violated rows are corrected if the violation exceeds WRONG_SHARE times the size of the point.  Multipliers
# of a wrong sign are corrected if they exceed WRONG_SHARE times the largest multiplier.
WRONG_SHARE = 1e-11
# Maximum number of corrections of the set of active rows.
MOST_ACTIVE_CHANGES = 20
# A program is infeasible if it is proved that no point within this radius, in scaled variables, is feasible.
FARTHEST = 1e9
# If the solution violates a row by more than this number of rounding errors, a linear program tests whether a
# feasible point exists.
LOST_ROUNDINGS = 64.0
# If the last entry of the residual of the least-distance problem is smaller, there may be no feasible point.
NEARLY_NONE = 1e-4
# A Hessian is not convex if an eigenvalue is below minus this share of its largest entry.
INDEFINITE = 1e-10
# Curvature that proximal rounds add to a semidefinite program, in scaled variables.
PROXIMAL = 1e-3
# Maximum number of rounds with the same curvature.  If the rounds fail, the next curvature is PROXIMAL_FACTOR
# times as large.  The last curvature is below LEAST_PROXIMAL.
MOST_PROXIMAL = 20
PROXIMAL_FACTOR = 1e-2
LEAST_PROXIMAL = 1e-8
# Distance of active rows from their limits, as a multiple of the rounding error.
ROUNDING_MARGIN = 4.0
# A point is strictly inside if its distance from the limit of every row (of norm one) exceeds ROOM.
ROOM = 1e-9
# The smallest `tol` that is passed to the spiking solver.
FINEST = 1e-14


class PrimalDual(NamedTuple):
    """A point and multipliers in scaled variables; if the point is None, they prove infeasibility."""

    point: np.ndarray | None
    rows: np.ndarray
    equal: np.ndarray
    n_steps: int = 0
    # The minimiser of the Lagrangian.
    center: np.ndarray | None = None
    # A point strictly inside all rows.
    inside: np.ndarray | None = None
    # The status of the result if `tol` is not reached.
    otherwise: Status = Status.AT_PRECISION


class Solved(NamedTuple):
    """A solution in the program's own coordinates, with its certificate."""

    x: np.ndarray
    rows: np.ndarray
    equal: np.ndarray
    bounds: Bounds
    status: Status
    found: PrimalDual


class LeastDistance:
    """The matrices of a program in scaled variables, and in variables y with the objective ||y||^2 / 2."""

    def __init__(self, program: Program, ridge: float = PROXIMAL) -> None:
        n, (program, self.scales) = len(program.linear), certificate.scaled(program)
        self.curvature, self.hessian = certificate.curvature_of(program), program.hessian
        self.rows, self.norms = _unit(program.rows)
        self.equations, self.lengths = _unit(program.equations)
        self.pairs = _opposites(self.rows, program.limits / self.norms)
        # `across` and `along` are orthonormal bases of the row space and the null space of the equations.
        # Opposite rows whose limits allow only equality count as equations.
        self.equal = np.vstack([self.equations, self.rows[self.pairs[0]]])
        across, factor, order = linalg.qr(self.equal.T, pivoting=True)
        rank = int((np.abs(np.diag(factor)) > IMPLIED).sum())
        self.factor, self.chosen = factor[:rank, :rank], order[:rank]
        self.across, self.along = across[:, :rank], across[:, rank:] if rank else np.eye(n)
        curvature = self.along.T @ self.hessian @ self.along
        root, self.ridge = _root(curvature, np.abs(self.hessian).max()), 0.0
        if root is None:
            self.ridge = ridge
            self.hessian = self.hessian + self.ridge * np.eye(n)
            root = np.linalg.cholesky(curvature + self.ridge * np.eye(len(curvature)))
        self.root = root
        left = self.rows @ self.along
        self.kept = np.flatnonzero(np.linalg.norm(left, axis=1) > IMPLIED)
        self.atoms, self.atom_norms = _unit(_solved_triangle(root, left[self.kept].T, lower=True).T)

    def fits(self, program: Program) -> bool:
        """Return whether a program with the same matrices has the same pairs of opposite rows."""
        return np.array_equal(_opposites(self.rows, program.limits / self.norms), self.pairs)

    def solved(self, program: Program, method: str, tol: float, start: PrimalDual | None) -> Solved:
        """Return the solution with its certificate."""
        in_scale, _ = certificate.scaled(program)
        limits = in_scale.limits / self.norms
        values = np.concatenate([in_scale.values / self.lengths, limits[self.pairs[0]]])
        search: Search = replaced(self, Search, program=in_scale, limits=limits, values=values, tol=tol)
        if not self.ridge:
            return search.certified(search.solution(method, in_scale.linear, start))
        solved = search.in_rounds(method, start)
        if solved.status != Status.AT_PRECISION or self.ridge < LEAST_PROXIMAL:
            return solved
        again = LeastDistance(program, PROXIMAL_FACTOR * self.ridge).solved(
            program, method, tol, solved.found
        )
        is_unsolved = Status.REACHED < again.status <= Status.AT_PRECISION
        return min(solved, again, key=_gap) if is_unsolved else again

    def balance(self, slope: np.ndarray) -> np.ndarray:
        """Return multipliers with which the equations cancel a slope's part in their row space."""
        equal = np.zeros(len(self.equal))
        equal[self.chosen] = -_solved_triangle(self.factor, self.across.T @ slope)
        return equal

    def on_equations(self, values: np.ndarray) -> np.ndarray:
        """Return the point of least norm that satisfies the equations."""
        return self.across @ _solved_triangle(self.factor, values[self.chosen], trans=1)

    def from_y(self, y: np.ndarray) -> np.ndarray:
        """Convert a step in y to a step in scaled variables, and return it."""
        return self.along @ _solved_triangle(self.root.T, y)

    def to_y(self, slope: np.ndarray) -> np.ndarray:
        """Convert a slope in scaled variables to a slope in y, and return it."""
        return _solved_triangle(self.root, self.along.T @ slope, lower=True)

    def multipliers(self, found: PrimalDual) -> tuple[np.ndarray, np.ndarray]:
        """Return the multipliers of the program's own rows and equations."""
        rows, signed = np.maximum(found.rows, 0.0), found.equal[len(self.equations) :]
        rows[self.pairs[0]] += np.maximum(signed, 0.0)
        rows[self.pairs[1]] += np.maximum(-signed, 0.0)
        return rows / self.norms, found.equal[: len(self.equations)] / self.lengths


class Search(LeastDistance):
    """The search for the solution of one program; limits and values belong to rows of norm one."""

    program: Program
    limits: np.ndarray
    values: np.ndarray
    tol: float
    n_steps = 0
    _factored: tuple[bytes, np.ndarray, np.ndarray] | None = None

    def solution(self, method: str, linear: np.ndarray, start: PrimalDual | None) -> PrimalDual:
        """Return the solution for a linear term, or multipliers which prove that no point is feasible."""
        solve = self.by_spikes if method == "spiking" else self.by_active_set
        return self.presolved() or solve(linear, start)

    def certified(self, found: PrimalDual) -> Solved:
        """Return a solution with its certificate."""
        rows, equal = self.multipliers(found)
        if found.point is None or found.center is None:
            radius = certificate.infeasible_within(self.program, rows, equal) * self.scales.min()
            bounds = Bounds(np.inf, np.inf, np.inf, float(radius))
            x = np.full(len(self.scales), np.nan)
            return Solved(x, rows, equal, bounds, Status.INFEASIBLE, found)
        point = self.within_bounds(found.point)
        lower, upper, violation, radius = certificate.bounds_of(
            self.program, self.curvature, point, rows, equal, found.center
        )
        x, violation, radius = point * self.scales, violation * self.scales.max(), radius * self.scales.min()
        bounds = Bounds(lower, upper, float(violation), float(radius))
        has_gap = upper - lower <= self.tol * max(1.0, abs(upper))
        is_feasible = violation <= max(self.tol, TIGHT * float(np.abs(x).max()))
        status = Status.REACHED if has_gap and is_feasible else found.otherwise
        return Solved(x, rows, equal, bounds, status, found)

    def contradiction(self, rows: np.ndarray, equal: np.ndarray) -> PrimalDual | None:
        """Return multipliers of rows and equations if these multipliers prove that no point is feasible."""
        left, refined = self.rows[rows > 0.0] @ self.along, rows.copy()
        refined[rows > 0.0] -= np.linalg.lstsq(left.T, rows[rows > 0.0] @ left)[0]
        for factors in (rows, refined):
            balance = self.balance(factors @ self.rows + equal @ self.equal)
            found = PrimalDual(None, factors, equal + balance, self.n_steps)
            if certificate.infeasible_within(self.program, *self.multipliers(found)) > FARTHEST:
                return found
        return None

    def presolved(self) -> PrimalDual | None:
        """Return multipliers if the equations, or the equations and one row, have no solution; or None."""
        base = self.on_equations(self.values)
        rest, over = self.equal @ base - self.values, self.rows @ base - self.limits
        over[self.kept] = 0.0
        rows, equal, size = 0.0 * over, 0.0 * rest, CONTRADICTED * (1.0 + np.abs(base).max())
        if np.abs(rest).max(initial=0.0) > size:
            worst = np.abs(rest).argmax()
            equal[worst] = np.sign(rest[worst])
        elif over.max(initial=0.0) > size:
            rows[over.argmax()] = 1.0
        else:
            return None
        return self.contradiction(rows, equal)

    # -- the active set ----------------------------------------------------------------------------

    def by_active_set(self, linear: np.ndarray, start: PrimalDual | None) -> PrimalDual:
        """Solve a least-distance problem for the active rows; return the solution for a linear term."""
        base = self.on_equations(self.values)
        free = -self.to_y(linear + self.hessian @ base)
        room = (self.limits - self.rows @ base)[self.kept] / self.atom_norms - self.atoms @ free
        active = np.zeros(len(room), dtype=np.bool_)
        if (room < 0.0).any():
            weights, last = self.least_distance(room / -room.min(), start)
            active = weights > 0.0
            rows = np.zeros(len(self.rows))
            rows[self.kept] = weights / self.atom_norms
            if last < NEARLY_NONE and (found := self.contradiction(rows, 0.0 * self.values)) is not None:
                return found
        point, rows, equal = self.refined(active, linear)
        rounding = LOST_ROUNDINGS * UNIT_ROUNDOFF * (np.linalg.norm(point) + np.abs(self.limits))
        if (self.rows @ point - self.limits > rounding).any():
            _, factors = self.inner_point()
            if (found := self.contradiction(factors, 0.0 * self.values)) is not None:
                return found
        return PrimalDual(self.moved_inside(point), rows, equal, self.n_steps, point)

    def least_distance(self, room: np.ndarray, start: PrimalDual | None) -> tuple[np.ndarray, float]:
        """Return weights of rows, and the last entry of the residual, which is 0 if no point is feasible.

        Lawson and Hanson (1974), Solving Least Squares Problems, chapter 23, section 4.
        """
        atoms = -np.column_stack([self.atoms, room])
        signal = np.append(np.zeros(atoms.shape[1] - 1), 1.0)
        method, problem = ActiveSet(), LassoProblem(atoms, signal[np.newaxis], 0.0, positive=True)
        first = np.zeros(len(room)) if start is None else start.rows[self.kept] * self.atom_norms
        currents = rows_of(as_sparse((first * problem.atoms.squared_norms)[np.newaxis]))
        codes = method.prepare(problem).optimal_codes(problem, np.arange(1), currents)
        self.n_steps += int(codes.steps[0])
        weights = codes.values.toarray()[0]
        return weights, float(1.0 + weights @ room)

    def refined(self, active: np.ndarray, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Correct the set of active rows, and return the solution with these rows at their limits."""
        for _ in range(MOST_ACTIVE_CHANGES):
            point, rows, equal = np.zeros(len(linear)), np.zeros(len(self.rows)), np.zeros(len(self.equal))
            for _ in range(3):
                slope = self.hessian @ point + linear + rows @ self.rows + equal @ self.equal
                room = (self.limits - self.rows @ point)[self.kept[active]]
                step = self.stationary(active, slope, room, self.values - self.equal @ point)
                point, rows, equal = point + step[0], rows + step[1], equal + step[2]
            self.n_steps += 1
            over = np.where(active, 0.0, (self.rows @ point - self.limits)[self.kept])
            pulls = rows[self.kept] * self.atom_norms
            if over.max(initial=0.0) > WRONG_SHARE * (1.0 + np.abs(point).max()):
                active = active | (over == over.max())
            elif pulls.min(initial=0.0) < -WRONG_SHARE * pulls.max(initial=0.0):
                active = active & (pulls > 0.0)
            else:
                break
        return point, rows, equal

    def stationary(
        self, active: np.ndarray, linear: np.ndarray, limits: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the optimum with the active rows of `kept` at their limits, and all multipliers."""
        base, key = self.on_equations(values), active.tobytes()
        if self._factored is None or self._factored[0] != key:
            self._factored = (key, *linalg.qr(self.atoms[active].T, mode="economic"))
        _, across, factor = self._factored
        free, numbers = -self.to_y(linear + self.hessian @ base), self.kept[active]
        sides = (limits - self.rows[numbers] @ base) / self.atom_norms[active] - self.atoms[active] @ free
        if len(factor) < len(sides) or (np.abs(np.diag(factor)) < IMPLIED).any():
            y = np.linalg.lstsq(self.atoms[active], sides, rcond=IMPLIED)[0]
            pulls = -np.linalg.lstsq(self.atoms[active].T, y, rcond=IMPLIED)[0]
        else:
            inner = _solved_triangle(factor, sides, trans=1)
            y, pulls = across @ inner, -_solved_triangle(factor, inner)
        point, rows = base + self.from_y(y + free), np.zeros(len(self.rows))
        rows[numbers] = pulls / self.atom_norms[active]
        return point, rows, self.balance(self.hessian @ point + linear + rows @ self.rows)

    def moved_inside(self, point: np.ndarray) -> np.ndarray:
        """Return the point, moved by a few roundings so that it satisfies the rows in spite of rounding."""
        distance = certificate.distance_to_equations(self.program, self.within_bounds(point))
        errors = UNIT_ROUNDOFF * (np.abs(self.rows) @ np.abs(point) + np.abs(self.limits))
        errors = ROUNDING_MARGIN * (errors + (distance if distance < np.inf else 0.0))
        errors[are_bounds(self.program.rows)] = 0.0
        over = (self.rows @ point - self.limits + errors)[self.kept]
        near = over > 0.0
        moved = point + self.stationary(near, 0.0 * point, -over[near], self.values - self.equal @ point)[0]
        before, after = ((self.rows @ one - self.limits).max(initial=0.0) for one in (point, moved))
        return moved if after <= before else point

    def within_bounds(self, x: np.ndarray) -> np.ndarray:
        """Return the point; variables that crossed their bounds by rounding are moved back to the bounds."""
        x, bounds = x.copy(), np.flatnonzero(are_bounds(self.program.rows))
        over = np.maximum(self.program.rows[bounds] @ x - self.program.limits[bounds], 0.0)
        for row in bounds[over > 0.0]:
            x[self.program.rows[row] != 0.0] = self.program.limits[row] / self.program.rows[row].sum()
        return x

    # -- spikes ------------------------------------------------------------------------------------

    def by_spikes(self, linear: np.ndarray, start: PrimalDual | None) -> PrimalDual:
        """Solve a LASSO by spikes; return the solution for a linear term from the code's residual."""
        inside = self.inner_point()[0] if start is None or start.inside is None else start.inside
        inside = inside + self.on_equations(self.values - self.equal @ inside)
        room = (self.limits - self.rows @ inside)[self.kept]
        if room.min(initial=1.0) <= ROOM:
            if start is not None:
                return self.by_spikes(linear, None)
            found = self.by_active_set(linear, None)
            if found.point is None:
                return found
            raise ValueError(
                "method must be 'active_set' if no point is strictly inside all inequalities; got 'spiking': "
                "pass the other method, or equations for the inequalities that leave no room"
            )
        signal = -self.to_y(linear + self.hessian @ inside)
        energy, value = 0.5 * signal @ signal, inside @ (linear + 0.5 * self.hessian @ inside)
        step, rows, n_spikes, otherwise = signal, np.zeros(len(self.rows)), 0, Status.AT_PRECISION
        if len(self.kept) and energy > 0.0:
            problem = LassoProblem(self.atoms, signal[np.newaxis], room / self.atom_norms, positive=True)
            # The optimal value is at most the value at `inside`, and at least the optimum without
            # inequalities.
            scale = max(1.0, min(abs(value), abs(value - energy)) if value * (value - energy) > 0.0 else 0.0)
            tol = min(max(0.5 * self.tol * scale / energy, FINEST), 0.1)
            codes = None if start is None else (start.rows[self.kept] * self.atom_norms)[np.newaxis].clip(0.0)
            with checks.without_warnings():
                result = solve_spiking(problem, tol=tol, start=codes)
            n_spikes, code = int(result.n_steps[0]), result.codes[0]
            otherwise = Status(result.status[0]) or otherwise
            rows[self.kept], step = code / self.atom_norms, signal - code @ self.atoms
        move = self.from_y(step)
        reach = ((self.rows @ move)[self.kept] / room).max(initial=0.0) * (1.0 + FINEST)
        equal = self.balance(self.hessian @ (inside + move) + linear + rows @ self.rows)
        return PrimalDual(
            inside + move / max(reach, 1.0), rows, equal, n_spikes, inside + move, inside, otherwise
        )

    def inner_point(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the point whose distance to the nearest row is largest (at most 1), and multipliers."""
        base, n = self.on_equations(self.values), self.along.shape[1]
        room, left = (self.limits - self.rows @ base)[self.kept], self.rows[self.kept] @ self.along
        rows, farthest = np.column_stack([left, np.ones(len(left))]), np.append(np.zeros(n), -1.0)
        ends, multipliers = [(None, None)] * n + [(None, 1.0)], np.zeros(len(self.rows))
        if len(room):
            found = linprog(farthest, A_ub=rows, b_ub=room, bounds=ends)
            if found.x is not None:
                base = base + self.along @ found.x[:n]
                multipliers[self.kept] = np.maximum(-found.ineqlin.marginals, 0.0)
        return base, multipliers

    # -- semidefinite programs -----------------------------------------------------------------------

    def in_rounds(self, method: str, start: PrimalDual | None) -> Solved:
        """Return the solution of a semidefinite program, in proximal rounds."""
        linear, found, best = self.program.linear, start, None
        point = np.zeros(len(linear)) if start is None or start.center is None else start.center
        for _ in range(MOST_PROXIMAL):
            found = self.solution(method, linear - self.ridge * point, found)
            solved = self.certified(found)
            if found.center is None or solved.status == Status.REACHED:
                return solved
            step, point = found.center - point, found.center
            if self.is_ray(step, linear):
                nothing = Bounds(-np.inf, -np.inf, np.inf, np.inf)
                return solved._replace(x=np.nan * point, status=Status.UNBOUNDED, bounds=nothing)
            best = solved if best is None else min(best, solved, key=_gap)
            if np.linalg.norm(step) <= TIGHT * np.linalg.norm(point):
                break
        assert best is not None
        return best

    def is_ray(self, step: np.ndarray, linear: np.ndarray) -> bool:
        """Return whether the objective falls without end along a step that never violates a row."""
        along = step / max(float(np.linalg.norm(step)), 1e-300)
        bend = np.abs(self.hessian @ along - self.ridge * along).max()
        over = max((self.rows @ along).max(initial=0.0), np.abs(self.equal @ along).max(initial=0.0))
        return bool(max(bend, over) < ROOM and linear @ along < -ROOM * np.linalg.norm(linear))


def _gap(solved: Solved) -> float:
    return solved.bounds.upper_bound - solved.bounds.lower_bound


def _unit(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows divided by their norms, and these norms; a row of zeros has the norm one."""
    norms = norms_of(matrix)
    norms[norms == 0.0] = 1.0
    return matrix / norms[:, np.newaxis], norms


def _root(curvature: np.ndarray, size: float) -> np.ndarray | None:
    """Return the Cholesky factor of the Hessian along the equations; None if it is nearly singular."""
    with suppress(np.linalg.LinAlgError):
        root = np.linalg.cholesky(curvature)
        if np.square(np.diag(root)).min(initial=np.inf) > IMPLIED * size:
            return root
    least = np.linalg.eigvalsh(curvature)[0]
    if least < -INDEFINITE * size:
        raise ValueError(
            "hessian must be positive semidefinite along the equations; got a negative curvature, "
            f"{least / size:.2g} of the largest entry: a convex program has none"
        )
    return None


def _opposites(rows: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return the pairs of opposite rows whose limits allow only equality, shape (2, n_pairs)."""
    keys = rows @ np.random.default_rng(0).uniform(1.0, 2.0, rows.shape[1])
    order = np.argsort(np.abs(keys))
    sizes, groups = np.abs(keys)[order], np.zeros(len(rows), dtype=np.int64)
    groups[order] = np.cumsum(np.diff(sizes, prepend=sizes[:1]) > IMPLIED)
    # In each group and direction, the smallest limit comes first.
    marks = 2 * groups + (keys > 0.0)
    order = np.lexsort((limits, marks))
    first = order[np.flatnonzero(np.diff(marks[order], prepend=-1))]
    is_pair = np.diff(groups[first], append=-1) == 0
    down, up = first[is_pair], first[1:][is_pair[:-1]]
    is_tight = np.abs(limits[down] + limits[up]) <= TIGHT * (np.abs(limits[down]) + np.abs(limits[up]))
    is_tight &= np.linalg.norm(rows[down] + rows[up], axis=1) <= 0.5 * IMPLIED
    return np.stack([down, up])[:, is_tight]


def _solved_triangle(
    factor: np.ndarray, sides: np.ndarray, *, lower: bool = False, trans: int = 0
) -> np.ndarray:
    """Return the solution of a triangular system; LAPACK is called directly, because SciPy takes longer."""
    if not sides.size:
        return sides
    solution, info = linalg.lapack.dtrtrs(factor, np.asarray_chkfinite(sides), lower=lower, trans=trans)
    if info:
        raise np.linalg.LinAlgError(f"a triangular factor is singular at its pivot {info}")
    return solution

"""Certificates of quadratic programs, which are computed from the arrays of a program without a solver.

For multipliers m >= 0 and nu, the Lagrangian L is at most the objective at every feasible point.  If L has at
least the curvature l, its minimum is at least ``L(z) - ||grad L(z)||^2 / (2 l)`` for any z.  All bounds
include rounding.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from snn._interrupts import float_errors
from solvers._kernels.precision import QUANTUM, SLACK, UNIT_ROUNDOFF, gamma
from solvers.certificate.corrected import least_eigenvalue, probable_shift

# The curvature of a singular matrix is proved to be at least minus this share of the trace.
PROVED_SINGULAR = 1e-15
# If there is no curvature and there are no bounds, the lower bound holds within a radius of this multiple of
# the norm of the center.
FAR_MULTIPLE = 10.0
# Products are computed in the widest float type.  WIDE_ROUNDOFF is the roundoff of the widest type, in units
# of the roundoff of float64.
WIDE = np.longdouble
WIDE_ROUNDOFF = max(float(np.finfo(WIDE).eps), 2.0**-63) / (2.0 * UNIT_ROUNDOFF)
# Relative error of rounding a result to float64 and of adding a few bounds to the result.
FINAL_ROUNDING = 4.0 * UNIT_ROUNDOFF
# Largest number of rounds of a correction.  Each round fixes the variables that would reach their bounds.
MOST_FREED = 8


class Program(NamedTuple):
    """Minimise ``1/2 x'Hx + c'x`` subject to ``A x <= b``, where rows of A may be bounds, and ``E x = f``."""

    hessian: np.ndarray
    linear: np.ndarray
    rows: np.ndarray
    limits: np.ndarray
    equations: np.ndarray
    values: np.ndarray


class Bounds(NamedTuple):
    """Bounds on the optimum; `solvers.ProgramResult` explains them."""

    lower_bound: float
    upper_bound: float
    violation: float
    radius: float


def scaled(program: Program) -> tuple[Program, np.ndarray]:
    """Return the program in variables x / scales, with a diagonal near one; the scales are powers of two."""
    diagonal = np.diag(program.hessian)
    scales = 2.0 ** -np.rint(0.5 * np.log2(np.where(diagonal > 0.0, diagonal, 1.0)))
    hessian = program.hessian * np.outer(scales, scales)
    rows, equations = program.rows * scales, program.equations * scales
    return Program(hessian, program.linear * scales, rows, program.limits, equations, program.values), scales


def curvature_of(program: Program) -> tuple[float, np.ndarray]:
    """Return a bound and weights with ``t'(H + E' diag(weights) E) t >= bound ||t||^2``, proved for all t."""
    squared = np.einsum("ij,ij->i", program.equations, program.equations)
    weights = 2.0 * np.abs(program.hessian).sum(axis=1).max() / np.where(squared > 0.0, squared, np.inf)
    bound = _proved(program, weights)
    # If the matrix is singular even with the equations, the bound without the equations has less rounding.
    without = _proved(program, 0.0 * weights) if bound <= 0.0 and len(weights) else -np.inf
    return (without, 0.0 * weights) if without > bound else (bound, weights)


def _proved(program: Program, weights: np.ndarray) -> float:
    """Return the bound for the given weights; minus infinity if no bound is proved."""
    hessian, equations, n = program.hessian, program.equations, len(program.hessian)
    whole = hessian + (equations.T * weights) @ equations
    sizes = np.abs(hessian) + (np.abs(equations).T * weights) @ np.abs(equations)
    trace = float(np.abs(np.diag(whole)).sum())
    # The first bound is from Rump (2006), as in `least_eigenvalue`.  The second bound is on the rounding of
    # the part that the equations add.
    rounding = SLACK * gamma(n + 2) * trace
    rounding += gamma(len(weights) + 2) * float(np.linalg.norm(sizes)) * bool(weights.any())
    if not whole.any():
        return 0.0
    shifts = [-PROVED_SINGULAR * trace, -PROVED_SINGULAR * trace - 2.0 * rounding]
    with suppress(np.linalg.LinAlgError):
        shifts.insert(0, probable_shift(whole))
    for shift in shifts:
        if shift < 0.0 or shift > rounding:
            with suppress(np.linalg.LinAlgError):
                np.linalg.cholesky(whole - shift * np.eye(n))
                return shift - rounding
    return -np.inf


def bounds_of(
    program: Program,
    curvature: tuple[float, np.ndarray],
    x: np.ndarray,
    rows: np.ndarray,
    equal: np.ndarray,
    center: np.ndarray,
) -> Bounds:
    """Return bounds from a point x, and from multipliers whose Lagrangian is nearly minimal at `center`."""
    least, weights = curvature
    with float_errors(all="ignore"):
        violation, distance, price = _feasibility(program, x, rows, equal)
        none = np.zeros(len(program.values))
        upper, error, slope, errors = _lagrangian(program, none, x, 0.0 * rows, none)
        upper += error + price + SLACK * distance * float(np.linalg.norm(np.abs(slope) + errors))
        upper += distance**2 * float(np.linalg.norm(program.hessian))
        value, error, gradient, errors = _lagrangian(program, weights, center, rows, equal)
        slopes, lower, radius = np.abs(gradient) + errors, -np.inf, np.inf
        if least > 0.0:
            lower = value - error - SLACK * float(slopes @ slopes) / (2.0 * least)
        # Without curvature, bound how far the objective can fall within the bounds, or within a radius.
        far = FAR_MULTIPLE * (float(np.linalg.norm(center)) or 1.0)
        reach = _reach(program, center)
        is_within = bool(np.isfinite(reach).all())
        # Distances are measured from x, but the Lagrangian is evaluated at the center.
        reach[np.isinf(reach)] = SLACK * (far + float(np.linalg.norm(x - center)))
        bend = 0.5 * max(-least, 0.0) * float(reach @ reach)
        flat = value - error - SLACK * (float(slopes @ reach) + bend)
        if flat > lower and (is_within or lower == -np.inf):
            lower, radius = flat, np.inf if is_within else far
    return Bounds(lower, upper, violation, radius)


def infeasible_within(program: Program, rows: np.ndarray, equal: np.ndarray) -> float:
    """Return a radius within which no point is feasible, proved by multipliers of the rows; or zero."""
    zero = 0.0 * program.linear
    flat = program._replace(hessian=0.0 * program.hessian, linear=zero)
    with float_errors(all="ignore"):
        value, error, gradient, errors = _lagrangian(flat, 0.0 * program.values, zero, rows, equal)
        radius = (value - error) / max(float(np.linalg.norm(np.abs(gradient) + errors)), QUANTUM)
    return max(radius, 0.0) if np.isfinite(value) else 0.0


def _lagrangian(
    program: Program, weights: np.ndarray, x: np.ndarray, rows: np.ndarray, equal: np.ndarray
) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Return the value and the gradient of L at a point, each followed by a bound on its rounding."""
    point, size = x.astype(WIDE), np.abs(x)
    product, sizes = program.hessian.astype(WIDE) @ point, np.abs(program.hessian) @ size
    value, total = point @ (product / 2 + program.linear), size @ (sizes + np.abs(program.linear))
    gradient, sizes = product + program.linear, sizes + np.abs(program.linear)
    constraints = (program.rows, program.limits, rows), (program.equations, program.values, equal)
    for matrix, sides, factors in constraints:
        used = factors != 0.0
        active, sides, factors = matrix[used], sides[used], factors[used]
        value = value + factors @ (active.astype(WIDE) @ point - sides)
        total = total + np.abs(factors) @ _sizes(active, sides, x)
        gradient = gradient + factors @ active.astype(WIDE)
        sizes = sizes + np.abs(factors) @ np.abs(active)
    # L has the term weights / 2 ||E x - f||^2, which is zero if the equations hold, and nu is `equal` -
    # weights (E x - f).
    value -= 0.5 * SLACK * float(weights @ residual(program.equations, program.values, x)[1] ** 2)
    share = SLACK * WIDE_ROUNDOFF * gamma(2 * len(x) + np.count_nonzero(rows) + len(equal))
    errors = (share * sizes + FINAL_ROUNDING * np.abs(gradient)).astype(np.float64)
    error = float(share * total + FINAL_ROUNDING * abs(value))
    return float(value), error, gradient.astype(np.float64), errors


def norms_of(rows: np.ndarray) -> np.ndarray:
    """Return the norm of each row."""
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def are_bounds(rows: np.ndarray) -> np.ndarray:
    """Return which rows bound one variable times a power of two, so that products with a point are exact."""
    is_one = np.count_nonzero(rows, axis=1) == 1
    return is_one & (np.frexp(np.abs(rows).sum(axis=1))[0] == 0.5)


def _reach(program: Program, x: np.ndarray) -> np.ndarray:
    """Return how far each variable can move from x within its bounds."""
    is_bound = are_bounds(program.rows)
    rows, room = program.rows[is_bound].T, program.limits[is_bound] - program.rows[is_bound] @ x
    room = room / np.abs(rows)
    both = [np.where(side, room, np.inf).min(axis=1, initial=np.inf) for side in (rows > 0.0, rows < 0.0)]
    return SLACK * np.abs(both).max(axis=0)


def distance_to_equations(program: Program, x: np.ndarray) -> float:
    """Return a proved distance to a point that satisfies the equations and the bounds that x does, or inf."""
    matrix, distance = program.equations, 0.0
    if not len(matrix):
        return 0.0
    _, rest = residual(matrix, program.values, x)
    is_bound = are_bounds(program.rows)
    rows, room = np.abs(program.rows[is_bound]), program.limits[is_bound] - program.rows[is_bound] @ x
    # Variables that are closer to a bound than `distance` do not move.
    for _ in range(MOST_FREED):
        is_free = ~rows[room <= distance].any(axis=0)
        columns = matrix[:, is_free]
        eigenvalue = least_eigenvalue(columns) if columns.size else 0.0
        if eigenvalue == 0.0:
            break
        distance = max(distance, SLACK * float(np.linalg.norm(rest / norms_of(columns))) / eigenvalue**0.5)
        if not rows[room <= distance][:, is_free].any():
            return distance
    return np.inf


def _feasibility(
    program: Program, x: np.ndarray, rows: np.ndarray, equal: np.ndarray
) -> tuple[float, float, float]:
    """Return the violation of the program by x, the distance to a feasible point, and a price.

    If a feasible point near x is proved, violation and price are zero.  Otherwise the violation is the
    largest distance from a row or an equation, and the price is twice the rise of the objective that the
    multipliers predict for a feasible point.
    """
    distance = distance_to_equations(program, x)
    is_bound = are_bounds(program.rows)
    exact, over = residual(program.rows, program.limits, x)
    over = np.where(is_bound, exact, exact + over - np.abs(exact))
    _, rest = residual(program.equations, program.values, x)
    norms, lengths = norms_of(program.rows), norms_of(program.equations)
    if distance < np.inf and (over + np.where(is_bound, 0.0, SLACK * norms * distance) <= 0.0).all():
        return 0.0, distance, 0.0
    over = np.maximum(over, 0.0)
    price = 2.0 * float(rows @ over + np.abs(equal) @ rest)
    both = np.concatenate([over / np.maximum(norms, QUANTUM), rest / np.maximum(lengths, QUANTUM)])
    return float(both.max(initial=0.0)), 0.0, price


def residual(matrix: np.ndarray, sides: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``matrix @ x - sides``, and a bound on the absolute values, including rounding."""
    rest = (matrix.astype(WIDE) @ x.astype(WIDE) - sides).astype(np.float64)
    errors = WIDE_ROUNDOFF * gamma(len(x) + 2) * _sizes(matrix, sides, x) + FINAL_ROUNDING * np.abs(rest)
    return rest, np.abs(rest) + SLACK * errors


def _sizes(matrix: np.ndarray, sides: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.abs(matrix) @ np.abs(x) + np.abs(sides)

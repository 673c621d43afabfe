"""Quadratic programs, compared with quadprog and Clarabel if these are installed."""

from importlib.util import find_spec

import numpy as np
from scipy import sparse

from solvers import QuadraticProgram
from tests.benchmarks.timing import WrongAnswerError

SIZES = {"100 x 300, 5 equations": (100, 300, 5), "300 x 900": (300, 900, 0)}


def solvers_of(size, small):
    """Return calls that solve a random program: as it comes, and after another with the same matrices."""
    n, n_rows, n_equations = (10, 20, 2) if small else SIZES[size]
    rng = np.random.default_rng(1)
    factor, rows, equations = (rng.standard_normal((k, n)) for k in (n, n_rows, n_equations))
    hessian, linear, inside = factor @ factor.T / n + 0.1 * np.eye(n), *(0.3 * rng.standard_normal((2, n)))
    linear, limits, values = 10.0 * linear, rows @ inside + 0.5 * rng.random(n_rows), equations @ inside
    given = {"inequalities": (rows, limits), "equations": (equations, values)}
    program = QuadraticProgram(hessian, linear, **given)
    exact, near = program.solve(), program.with_linear(1.01 * linear)
    calls = {
        "active set": lambda: QuadraticProgram(hessian, linear, **given).solve().x,
        "active set, matrices kept": lambda: program.with_linear(linear).solve().x,
        "active set, near the last": lambda: near.solve(start=exact).x,
    }
    if find_spec("quadprog"):
        import quadprog

        columns, sides = np.vstack([equations, -rows]).T, np.append(values, -limits)
        calls["quadprog"] = lambda: quadprog.solve_qp(hessian, -linear, columns, sides, n_equations)[0]
    if find_spec("clarabel"):
        import clarabel

        settings = clarabel.DefaultSettings()
        settings.verbose = False
        cones = [clarabel.ZeroConeT(n_equations), clarabel.NonnegativeConeT(n_rows)]
        upper, both = sparse.csc_matrix(np.triu(hessian)), sparse.csc_matrix(np.vstack([equations, rows]))
        sides_of_both = np.append(values, limits)
        calls["Clarabel"] = lambda: np.array(
            clarabel.DefaultSolver(upper, linear, both, sides_of_both, cones, settings).solve().x
        )
    for name, call in calls.items():
        x = call()
        objective = x @ (0.5 * hessian @ x + linear)
        if "near" not in name and abs(objective - exact.objective) > 1e-6 * max(1.0, abs(exact.objective)):
            raise WrongAnswerError(f"{name}: {objective} in place of {exact.objective}")
    return calls

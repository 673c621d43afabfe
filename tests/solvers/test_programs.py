"""Quadratic programs: agreement with exact rationals, certificates of any point, and users' requirements."""

import pickle
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from solvers import QuadraticProgram, Status, solve_qp
from solvers.certificate.programs import Program, bounds_of, curvature_of, infeasible_within, scaled
from tests.reference.programs import FLAT, INFEASIBLE, KINDS, case, exact_optimum, programs
from tests.reference.rationals import rational
from tests.tiers import examples

METHODS = ("active_set", "spiking")
# Kinds without a point strictly inside, and one kind whose rows take long in exact rationals.
NO_ROOM = ("hidden equations", "three rows that hide one", "single point", "degenerate vertex")


def solved(program, **options):
    """Return the result with any status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return program.solve(**options)


def snn_opt_program(n=50, n_rows=30, seed=7):
    """Return the first benchmark of a public spiking solver: H = Q Q' + I / 10, and rows with slack one."""
    rng = np.random.default_rng(seed)
    factor, linear = rng.standard_normal((n, n)), rng.standard_normal(n)
    hessian = factor @ factor.T + 0.1 * np.eye(n)
    return QuadraticProgram(hessian, linear, inequalities=(rng.standard_normal((n_rows, n)), np.ones(n_rows)))


def require_stationary(program, result, *, atol):
    """Require that multipliers have the right signs and balance the gradient of the objective."""
    slope = program.hessian @ result.x + program.linear
    for (matrix, _), factors in (
        (program.inequalities, result.inequality_multipliers),
        (program.equations, result.equation_multipliers),
    ):
        slope = slope + factors @ matrix
    slope += result.upper_multipliers - result.lower_multipliers
    scale = 1.0 + np.abs(program.hessian).max() * np.abs(result.x).max() + np.abs(program.linear).max()
    assert np.abs(slope).max() <= atol * scale
    for factors in (result.inequality_multipliers, result.lower_multipliers, result.upper_multipliers):
        assert (factors >= 0.0).all()


# -- beside exact rationals ------------------------------------------------------------------------


@pytest.mark.property
@examples(120)
@given(programs(most=4))
def test_small_programs_of_every_kind_are_those_of_rationals(drawn):
    optimum, result = exact_optimum(drawn), solved(drawn.program(QuadraticProgram))
    assert (optimum is None) == (result.status == Status.INFEASIBLE) == (not drawn.has_solution)
    if optimum is None:
        return
    assert result.status == Status.REACHED
    # If the Hessian is singular, the rounds of the method end at `tol`.
    rounding = 1e-9 if drawn.kind in FLAT else 1e-12
    assert abs(result.objective - float(optimum)) <= rounding * max(1.0, abs(float(optimum)))
    assert Fraction(result.lower_bound) <= optimum <= Fraction(result.upper_bound)
    assert result.violation <= 1e-13 * max(1.0, np.abs(result.x).max())
    require_stationary(result.program, result, atol=10.0 * rounding)


@pytest.mark.property
@examples(60)
@given(programs(kinds=[kind for kind in KINDS if kind not in INFEASIBLE], most=4), st.integers(0, 2**20))
def test_bounds_hold_for_any_point_and_any_multipliers(drawn, seed):
    optimum = exact_optimum(drawn)
    program, rng = drawn.program(QuadraticProgram)._arrays, np.random.default_rng(seed)
    result = solved(drawn.program(QuadraticProgram))
    size = 10.0 ** rng.uniform(-16.0, 1.0)
    x = result.x + size * rng.standard_normal(len(result.x))
    rows = np.abs(size * rng.standard_normal(len(program.limits)))
    rows[: len(result.inequality_multipliers)] += result.inequality_multipliers[: len(rows)]
    equal = result.equation_multipliers + size * rng.standard_normal(len(program.values))
    bounds = bounds_of(program, curvature_of(program), x, rows, equal, x)
    assert Fraction(bounds.lower_bound) <= optimum if np.isfinite(bounds.lower_bound) else True
    if bounds.violation == 0.0:
        assert optimum <= Fraction(bounds.upper_bound)


@pytest.mark.property
@examples(60)
@given(programs(kinds=INFEASIBLE, most=40))
def test_multipliers_of_infeasible_programs_are_a_contradiction(drawn):
    program = drawn.program(QuadraticProgram)
    with pytest.warns(ConvergenceWarning, match="the program is infeasible"):
        result = program.solve()
    assert result.status == Status.INFEASIBLE
    assert np.isnan(result.x).all()
    (rows, limits), (equations, values) = program.inequalities, program.equations
    m, nu = rational(result.inequality_multipliers), rational(result.equation_multipliers)
    left = [
        sum(a * x for a, x in zip(m, rational(rows[:, j]), strict=True))
        + sum(a * x for a, x in zip(nu, rational(equations[:, j]), strict=True))
        for j in range(len(program.linear))
    ]
    right = sum(a * x for a, x in zip(m + nu, rational(np.append(limits, values)), strict=True))
    assert right < 0
    assert sum(x * x for x in left) * Fraction(result.radius) ** 2 <= right * right


@pytest.mark.property
@examples(60)
@given(st.integers(1, 5), st.integers(0, 5), st.integers(0, 2**20))
def test_bounds_without_curvature_hold_within_the_box(n, rank, seed):
    rng = np.random.default_rng(seed)
    scales = 2.0 ** rng.integers(-8, 9, n)
    factor = rng.standard_normal((min(rank, n), n)) * scales
    lower, upper = -rng.random(n) / scales, rng.random(n) / scales
    drawn = QuadraticProgram(factor.T @ factor, rng.standard_normal(n) * scales, bounds=(lower, upper))
    program, factors = scaled(drawn._arrays)[0], rng.random(2 * n) * rng.choice([0.0, 1.0])
    x = (lower + upper) / 2.0
    points = np.array(np.meshgrid(*zip(lower, x, upper, strict=True))).reshape(n, -1).T
    values = np.einsum("ij,ij->i", points, points @ (drawn.hessian / 2.0) + drawn.linear)
    center = x / scaled(drawn._arrays)[1]
    bounds = bounds_of(program, curvature_of(program), center, factors, np.zeros(0), center)
    assert bounds.violation == 0.0
    assert bounds.radius == np.inf
    assert bounds.lower_bound <= values.min()
    result = solved(drawn, tol=1e-7)
    assert result.status == Status.REACHED
    assert result.lower_bound <= values.min() + 1e-12


def test_a_point_off_the_equations_proves_no_more_than_one_on_them():
    # Minimise -5 x^2 for x = 0: the optimum is 0.  At any other x, multipliers alone would prove 5 x^2.
    program = Program(np.array([[-10.0]]), np.zeros(1), np.empty((0, 1)), np.empty(0), np.eye(1), np.zeros(1))
    for x in (1.0, 1e-3, -7.0):
        bounds = bounds_of(
            program, curvature_of(program), np.zeros(1), np.empty(0), np.array([10.0 * x]), np.array([x])
        )
        assert -20.0 * x * x <= bounds.lower_bound <= 0.0 <= bounds.upper_bound


@pytest.mark.parametrize("slope", [1e-3, 1e-5, 1e-7])
def test_a_point_that_is_far_away_is_not_taken_for_none(slope):
    program = QuadraticProgram(
        np.eye(2), np.zeros(2), inequalities=([[1.0, -slope], [-1.0, -slope]], [-1.0, -1.0])
    )
    result = solved(program)
    assert result.status in (Status.REACHED, Status.AT_PRECISION)
    assert abs(result.x[1] * slope - 1.0) <= 1e-9


def test_no_contradiction_is_proved_of_what_has_a_point():
    for seed in range(30):
        drawn = case("plain", 5, seed)
        program = drawn.program(QuadraticProgram)._arrays
        rng = np.random.default_rng(seed)
        rows, equal = rng.random(len(program.limits)), rng.standard_normal(len(program.values))
        assert infeasible_within(program, rows, equal) <= np.linalg.norm(drawn.inside) * (1.0 + 1e-12)


# -- larger programs -------------------------------------------------------------------------------


@pytest.mark.property
@examples(60)
@given(
    st.sampled_from(KINDS), st.integers(7, 60), st.integers(0, 2**20), st.sampled_from([None, 1e2, 1e4, 1e6])
)
def test_programs_are_solved_and_certified_to_a_condition_of_a_million(kind, n, seed, condition):
    drawn = case(kind, n, seed, condition=None if kind in ("null space", *FLAT) else condition)
    result = solved(drawn.program(QuadraticProgram))
    if not drawn.has_solution:
        assert result.status == Status.INFEASIBLE
        return
    assert result.status == Status.REACHED
    scale = max(1.0, abs(result.upper_bound))
    assert result.gap <= 1e-9 * scale
    assert (
        result.lower_bound
        <= drawn.inside @ (0.5 * drawn.hessian @ drawn.inside + drawn.linear) + 1e-12 * scale
    )
    rows, limits, equations, values = drawn.rows()
    errors = 1e-12 * (1.0 + np.abs(rows) @ np.abs(result.x) + np.abs(limits))
    assert (rows @ result.x <= limits + errors).all()
    assert np.abs(equations @ result.x - values).max(initial=0.0) <= 1e-11 * (1.0 + np.abs(result.x).max())
    require_stationary(result.program, result, atol=1e-8 if kind in FLAT else 1e-10)


@pytest.mark.property
@examples(25)
@given(st.integers(7, 40), st.integers(0, 2**20))
def test_peers_are_never_better(n, seed):
    quadprog = pytest.importorskip("quadprog", reason="the peer quadprog is not installed")
    drawn = case("plain", n, seed)
    rows, limits, equations, values = drawn.rows()
    theirs = quadprog.solve_qp(
        drawn.hessian, -drawn.linear, np.vstack([equations, -rows]).T, np.append(values, -limits), len(values)
    )[1]
    result = solved(drawn.program(QuadraticProgram))
    assert abs(result.objective - theirs) <= 1e-10 * max(1.0, abs(theirs))


# -- by spikes -------------------------------------------------------------------------------------


def test_spikes_solve_a_public_program_at_a_feasible_point():
    program = snn_opt_program()
    result = program.solve(method="spiking", tol=1e-9)
    assert result.status == Status.REACHED
    assert abs(result.objective + 3.0657511839434) <= 1e-9
    assert result.violation == 0.0
    assert (program.inequalities[0] @ result.x <= 1.0).all()
    assert 100 < result.n_steps < 3000
    finest = solved(program, method="spiking", tol=1e-12)
    assert abs(finest.objective / -3.0657511839434 - 1.0) <= 1e-12


@pytest.mark.property
@examples(25)
@given(
    programs(kinds=[kind for kind in KINDS if kind not in (*INFEASIBLE, *NO_ROOM, *FLAT)], most=12),
    st.booleans(),
)
def test_spikes_agree_with_the_active_set(drawn, is_loose):
    program, tol = drawn.program(QuadraticProgram), 1e-4 if is_loose else 1e-7
    try:
        result = solved(program, method="spiking", tol=tol)
    except ValueError:
        assume(False)  # the rows of this draw are infeasible
    exact = solved(program)
    scale = max(1.0, abs(exact.objective))
    assert result.objective >= exact.lower_bound - 1e-12 * scale
    assert result.objective - exact.objective <= 2.0 * result.gap + 1e-12 * scale
    assume(result.status == Status.REACHED)
    assert result.gap <= tol * max(1.0, abs(result.upper_bound))


def test_boxes_by_spikes():
    rng = np.random.default_rng(25)
    factor = rng.standard_normal((25, 25))
    program = QuadraticProgram(
        factor @ factor.T / 25 + 0.1 * np.eye(25), 3.0 * rng.standard_normal(25), bounds=(-1.0, 1.0)
    )
    result = program.solve(method="spiking", tol=1e-8)
    assert result.gap <= 1e-8 * abs(result.objective)
    assert result.objective - program.solve().objective <= 1e-8


def test_spikes_need_room():
    program = QuadraticProgram(
        np.eye(2), [-1.0, 0.0], inequalities=([[1.0, 0.0], [-1.0, 0.0], [1.0, 1.0]], [0.0, 0.0, 1.0])
    )
    assert solved(program, method="spiking").status == Status.REACHED  # two opposite rows are one equation
    rows = np.vstack([-np.eye(2), np.ones((1, 2))])
    with pytest.raises(
        ValueError, match="method must be 'active_set' if no point is strictly inside all inequalities"
    ):
        QuadraticProgram(np.eye(2), [-1.0, 0.0], inequalities=(rows, np.zeros(3))).solve(method="spiking")


# -- semidefinite, unbounded, not convex -----------------------------------------------------------


def test_more_assets_than_days():
    rng = np.random.default_rng(0)
    returns = 0.0005 + 0.01 * rng.standard_normal((60, 100))
    covariance, means = np.cov(returns.T), returns.mean(axis=0)
    for bounds in ((0.0, 0.1), (0.0, None)):
        program = QuadraticProgram(
            covariance, -0.1 * means, equations=(np.ones((1, 100)), [1.0]), bounds=bounds
        )
        result = program.solve()
        assert result.status == Status.REACHED
        assert abs(result.x.sum() - 1.0) <= 1e-12
        assert result.gap <= 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_a_program_without_curvature_is_linear(method):
    rng = np.random.default_rng(1)
    rows, cost = rng.random((4, 6)), -rng.random(6)
    limits = rows.sum(axis=1)
    exact = linprog(cost, A_ub=rows, b_ub=limits, bounds=[(0.0, 2.0)] * 6).fun
    program = QuadraticProgram(np.zeros((6, 6)), cost, inequalities=(rows, limits), bounds=(0.0, 2.0))
    result = solved(program, method=method, tol=2e-7)  # relative to the objective, -4.65
    assert abs(result.objective - exact) <= 1e-6
    assert result.lower_bound <= exact + 1e-9


def test_factors_are_neutral():
    factors = np.random.default_rng(0).standard_normal((3, 10))
    exact = linprog(np.ones(10), A_eq=factors, b_eq=np.zeros(3), bounds=(-1.0, 1.0)).fun
    program = QuadraticProgram(
        factors.T @ factors, np.ones(10), equations=(factors, np.zeros(3)), bounds=(-1.0, 1.0)
    )
    result = program.solve()
    assert result.status == Status.REACHED
    assert abs(result.objective - exact) <= 1e-9


def test_unbounded_programs_are_named():
    for hessian, linear in (
        (np.zeros((3, 3)), [-1.0, 0.0, 1.0]),
        (np.diag([1.0, 0.0, 0.0]), [-1.0, -1e-3, 0.0]),
    ):
        with pytest.warns(ConvergenceWarning, match="the program is unbounded"):
            result = QuadraticProgram(hessian, linear, bounds=(0.0, None)).solve()
        assert result.status == Status.UNBOUNDED
        assert result.lower_bound == -np.inf


def test_lower_bounds_within_a_radius_say_so():
    result = QuadraticProgram(np.diag([1.0, 0.0]), [-1.0, 1.0], bounds=(0.0, None)).solve()
    assert result.status == Status.REACHED
    assert 1.0 <= result.radius < np.inf
    assert QuadraticProgram(np.eye(2), [-1.0, 1.0], bounds=(0.0, None)).solve().radius == np.inf


@pytest.mark.property
@examples(60)
@given(st.integers(1, 4), st.integers(0, 2**20))
def test_lower_bounds_hold_within_their_radius_of_x_wherever_the_center_is(n, seed):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((rng.integers(0, n), n))
    drawn = QuadraticProgram(factor.T @ factor, rng.standard_normal(n))
    program, none = drawn._arrays, np.zeros(0)
    x, center = rng.standard_normal((2, n)) * 10.0 ** rng.integers(-3, 3, (2, 1))
    bounds = bounds_of(program, curvature_of(program), x, none, none, center)
    slope = drawn.hessian @ x + drawn.linear
    for direction in (-slope, *rng.standard_normal((5, n))):
        point = x + 0.999 * bounds.radius * direction / np.linalg.norm(direction)
        assert bounds.lower_bound <= point @ (0.5 * drawn.hessian @ point + drawn.linear)


def test_a_point_far_from_the_equations_is_not_feasible_by_rows_that_they_violate():
    program = QuadraticProgram(
        np.eye(2), [0.0, 0.0], inequalities=([[3.0, 0.0]], [4.5]), equations=([[1.0, 0.0]], [5.0])
    )._arrays
    bounds = bounds_of(program, curvature_of(program), np.zeros(2), np.zeros(1), np.zeros(1), np.zeros(2))
    assert bounds.violation >= 5.0


def test_a_matrix_without_a_diagonal_is_not_taken_for_zero():
    indefinite = Program(
        np.array([[0.0, 1.0], [1.0, 0.0]]),
        np.zeros(2),
        np.empty((0, 2)),
        np.empty(0),
        np.empty((0, 2)),
        np.empty(0),
    )
    assert curvature_of(indefinite)[0] < -0.9


def test_a_program_without_a_solution_is_drawn_as_such():
    for bounds, status in (((1.0, 0.0), "infeasible"), ((None, 0.0), "unbounded")):
        assert solved(QuadraticProgram([[0.0]], [1.0], bounds=bounds)).plot().get_title() == status


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hessian": np.diag([1.0, -1.0])}, "hessian must be positive semidefinite along the equations"),
        (
            {"hessian": [[1.0, 2.0], [0.0, 1.0]]},
            r"hessian must be symmetric; got 2 at \[0, 1\] and 0 at \[1, 0\]",
        ),
        ({"hessian": np.eye(3)}, r"hessian must have shape \(2, 2\)"),
        ({"linear": [0.0, np.nan]}, "linear must be finite"),
        ({"inequalities": (np.eye(2), [1.0, -np.inf])}, "sides of inequalities must be numbers or inf"),
        ({"inequalities": (np.eye(3), np.ones(3))}, "matrix of inequalities must have shape"),
        ({"equations": (np.eye(2), [1.0, np.inf])}, "sides of equations must be finite"),
        ({"inequalities": (np.eye(2), 1.0)}, "sides of inequalities must be 1-D|have shape"),
        ({"bounds": (np.inf, None)}, "sides of bounds must be numbers or -inf for none; got NaN or inf"),
        ({"bounds": ([0.0, np.nan], None)}, "sides of bounds must be numbers or -inf for none"),
    ],
)
def test_bad_input_is_one_sentence(changes, message):
    with pytest.raises(ValueError, match=message):
        QuadraticProgram(**({"hessian": np.eye(2), "linear": [1.0, 0.0]} | changes)).solve()


def test_what_is_no_pair_is_refused():
    for name in ("inequalities", "equations", "bounds"):
        with pytest.raises(TypeError, match=f"{name} must be a pair"):
            QuadraticProgram(np.eye(2), [1.0, 0.0], **{name: np.ones(2)})


def test_pairs_of_each_variable_are_not_taken_for_lower_and_upper():
    for pairs in ([(0.0, 1.0), (0.0, 2.0)], [(None, 1.0), (0.0, None)], [(0.0, 1.0)] * 3):
        linear = -3.0 * np.ones(len(pairs))
        with pytest.raises(TypeError, match=r"bounds must be a pair, \(lower, upper\), as a tuple; got list"):
            QuadraticProgram(np.eye(len(pairs)), linear, bounds=pairs)
        result = QuadraticProgram(np.eye(len(pairs)), linear, bounds=tuple(np.transpose(pairs))).solve()
        assert np.allclose(result.x, [3.0 if upper is None else upper for _, upper in pairs])


def test_two_tuples_may_be_either_and_are_refused():
    for pair in (((0.0, 1.0), (0.0, 2.0)), ((None, 1.0), (0.0, None)), ((0.0,), (1.0,)), ((0.0,) * 3,) * 2):
        with pytest.raises(TypeError, match="got two tuples, which may be pairs of each variable"):
            QuadraticProgram(np.eye(2), [-3.0, -3.0], bounds=pair)
    # Nothing is ambiguous if lower and upper bounds are separate arguments, or lists.
    assert solve_qp(np.eye(2), [-3.0, -3.0], lb=(0.0, 0.0), ub=(1.0, 2.0)).tolist() == [1.0, 2.0]
    result = QuadraticProgram(np.eye(2), [-3.0, -3.0], bounds=([0.0, 0.0], [1.0, 2.0])).solve()
    assert result.x.tolist() == [1.0, 2.0]


# -- as users do -----------------------------------------------------------------------------------


def test_a_program_by_hand():
    # Without the row, x = (2, 1); on x + y = 2 it is (1.5, 0.5), with a multiplier of 0.5.
    result = solve_qp(np.eye(2), [-2.0, -1.0], [[1.0, 1.0]], [2.0])
    assert np.allclose(result, [1.5, 0.5], atol=1e-14)
    program = QuadraticProgram(
        np.eye(2), [-2.0, -1.0], inequalities=([[1.0, 1.0]], [2.0]), bounds=(None, [np.inf, 0.25])
    )
    full = program.solve()
    assert np.allclose(full.x, [1.75, 0.25], atol=1e-14)
    assert np.allclose(full.inequality_multipliers, [0.25], atol=1e-14)
    assert np.allclose(full.upper_multipliers, [0.0, 0.5], atol=1e-14)
    assert full.active.tolist() == [0]
    assert "reached" in repr(full)
    assert "1" in repr(program)


def test_solve_qp_returns_none_without_a_solution():
    with pytest.warns(ConvergenceWarning, match="infeasible"):
        assert solve_qp(np.eye(1), [0.0], lb=[1.0], ub=[0.0]) is None
    assert solve_qp(np.eye(2), [0.0, 0.0], A=[[1.0, 1.0]], b=[1.0]).tolist() == [0.5, 0.5]


def test_solve_qp_takes_one_row_as_a_vector():
    for side in (2.0, [2.0]):
        assert np.allclose(solve_qp(np.eye(2), [-2.0, -1.0], [1.0, 1.0], side), [1.5, 0.5], atol=1e-14)
        assert np.allclose(solve_qp(np.eye(2), [0.0, 0.0], A=np.ones(2), b=side), [1.0, 1.0], atol=1e-14)
    for rows in ([[1.0, 1.0], [1.0]], [1.0, np.nan]):
        with pytest.raises((TypeError, ValueError), match="G must be"):
            solve_qp(np.eye(2), [0.0, 0.0], rows, [1.0])


@pytest.mark.parametrize("method", METHODS)
def test_values_of_equations_change(method):
    program = QuadraticProgram(np.eye(3), np.zeros(3), equations=(np.ones((1, 3)), [1.0]), bounds=(None, 1.5))
    last = program.solve(method=method)
    for linear, value in ((np.zeros(3), 3.0), ([-3.0, 0.0, 0.0], 0.6)):
        changed = program.with_linear(linear, values=[value])
        last = changed.solve(method=method, start=last)
        assert abs(last.x.sum() - value) <= 1e-12
        cold = QuadraticProgram(np.eye(3), linear, equations=changed.equations, bounds=(None, 1.5)).solve()
        assert np.allclose(last.x, cold.x, atol=1e-4)
    assert program.solve().x.sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match=r"sides of equations must have shape \(1,\)"):
        program.with_linear(np.zeros(3), values=[1.0, 2.0])


def test_spikes_that_run_out_say_why_and_solve_qp_returns_none():
    points = np.random.default_rng(0).standard_normal((20, 2))
    kernel = np.exp(-((points[:, None] - points) ** 2).sum(axis=2))
    options = {"method": "spiking", "tol": 1e-3}
    with pytest.warns(ConvergenceWarning, match="the Hessian or the rows are ill-conditioned for spikes"):
        result = QuadraticProgram(kernel, -np.ones(20), bounds=(0.0, 100.0)).solve(**options)
    assert result.status == Status.AT_LIMIT
    with pytest.warns(ConvergenceWarning, match="pass method='active_set'"):
        assert solve_qp(kernel, -np.ones(20), lb=0.0, ub=100.0, **options) is None


@pytest.mark.parametrize("violation", [0.0, 1e-13, 1e-6])
def test_solve_qp_returns_x_at_precision_only_where_the_rows_hold(violation, monkeypatch):
    result = replace(
        QuadraticProgram(np.eye(2), [1.0, 1.0]).solve(), status=Status.AT_PRECISION, violation=violation
    )
    monkeypatch.setattr(QuadraticProgram, "solve", lambda self, **options: result)
    assert (solve_qp(np.eye(2), [1.0, 1.0]) is None) == (violation == 1e-6)


@pytest.mark.parametrize(("sides", "name"), [({"h": [1.0]}, "inequalities"), ({"b": [1.0]}, "equations")])
def test_sides_without_a_matrix_are_refused(sides, name):
    with pytest.raises((TypeError, ValueError), match=f"matrix of {name}"):
        solve_qp(np.eye(1), [0.0], **sides)


@pytest.mark.parametrize("method", METHODS)
def test_a_program_that_drifts_starts_warm(method):
    rng = np.random.default_rng(3)
    program, last, n_cold, n_warm = snn_opt_program(), None, 0, 0
    for _ in range(5):
        program = program.with_linear(
            program.linear + 0.01 * rng.standard_normal(50), program.inequalities[1] + 0.01 * rng.random(30)
        )
        cold = QuadraticProgram(program.hessian, program.linear, inequalities=program.inequalities)
        one, last = (
            solved(cold, method=method, tol=1e-8),
            solved(program, method=method, tol=1e-8, start=last),
        )
        assert abs(one.objective - last.objective) <= 1e-7
        n_cold, n_warm = n_cold + one.n_steps, n_warm + last.n_steps
    assert n_warm < n_cold


def test_limits_that_close_a_room_are_seen():
    rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    program = QuadraticProgram(np.eye(2), [-3.0, -3.0], inequalities=(rows, [1.0, 1.0, np.inf]))
    assert np.allclose(program.solve().x, [1.0, 3.0])
    assert np.allclose(program.with_linear([-3.0, -3.0], [0.5, -0.5, np.inf]).solve().x, [0.5, 3.0])
    assert np.allclose(program.with_linear([-3.0, -3.0], [1.0, 1.0, 2.0]).solve().x, [1.0, 2.0])


def test_arrays_of_users_and_of_results_are_apart():
    rows, limits, linear = np.ones((1, 2)), np.ones(1), np.array([-2.0, -1.0])
    program = QuadraticProgram(np.eye(2), linear, inequalities=(rows, limits), bounds=(np.zeros(2), None))
    for array in (rows, limits, linear):
        array[...] = -7.0
    result = program.solve()
    assert np.allclose(result.x, [1.0, 0.0], atol=1e-14)
    for array in (result.x, result.inequality_multipliers, result.lower_multipliers):
        assert not array.flags.writeable
    assert np.array_equal(pickle.loads(pickle.dumps(result)).x, result.x)


def test_a_start_of_another_size_is_refused():
    start = snn_opt_program(5, 3).solve()
    with pytest.raises(ValueError, match="start must be the result of a program with as many rows"):
        snn_opt_program(5, 4).solve(start=start)

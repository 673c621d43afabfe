"""One meaning of `start` in every solver that has it: codes or a result, and the optimum all the same."""

import numpy as np
import pytest
from scipy import sparse

from solvers import (
    ElasticNet,
    LassoProblem,
    solve_active_set,
    solve_analog,
    solve_coordinate_descent,
    solve_fista,
)
from solvers.certificate.optimality import objective
from tests.reference.methods import each_method, methods
from tests.reference.problems import optimal_codes, random_codes, random_problem

NAN = float("nan")

each_solver = each_method(start=True)
either_sign = pytest.mark.parametrize("positive", [True, False], ids=["positive", "signed"])


@each_solver
@either_sign
def test_any_start_leads_to_the_optimum(solve, tol, positive):
    problem = random_problem(n_signals=3, positive=positive, unit_norm=False)
    expected = objective(problem, optimal_codes(problem))
    for scale in (0.1, 10.0):
        result = solve(problem, start=random_codes(problem, scale=scale), tol=tol)
        assert result.converged
        excess = result.objective - expected
        assert (excess <= tol * problem.energies).all()
        assert (excess >= -2e-10 * problem.energies).all()


@each_solver
@either_sign
def test_the_optimum_is_a_start_that_takes_no_steps(solve, tol, positive):
    problem = random_problem(n_signals=3, positive=positive, unit_norm=False)
    optimum = solve_active_set(problem)
    result = solve(problem, start=optimum, tol=tol)
    np.testing.assert_allclose(result.codes, optimum.codes, rtol=0, atol=1e-12 * optimum.codes.max())
    if solve.name != "active_set":
        # Its last round finds that nothing is to be done.
        assert (result.n_steps == 0).all()


@each_solver
def test_a_start_near_the_optimum_saves_steps(solve, tol):
    problem = random_problem(n_signals=5, share=0.05)
    near = solve_active_set(problem.subset(slice(None))).codes * 1.001
    if solve.name == "active_set":
        assert (solve(problem, start=near).n_steps < solve(problem).n_steps).all()
    else:
        assert solve(problem, start=near, tol=tol).n_steps.sum() < 0.8 * solve(problem, tol=tol).n_steps.sum()


@each_solver
def test_arrays_compressed_rows_and_results_are_the_same_start(solve, tol):
    problem = random_problem()
    near = solve_fista(problem, tol=1e-2)
    codes = near.codes
    untidy = sparse.coo_array(codes + np.where(codes == 0.0, 1.0, 0.0))
    untidy.data[codes[untidy.coords] == 0.0] = 0.0
    results = [
        solve(problem, start=start, tol=tol)
        for start in (
            near,
            codes,
            codes.tolist(),
            np.asfortranarray(codes),
            near.sparse_codes,
            untidy.tocsr(),
        )
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result.codes, results[0].codes)
        np.testing.assert_array_equal(result.n_steps, results[0].n_steps)
    np.testing.assert_array_equal(near.codes, codes)


@pytest.mark.parametrize("solve", [solve_active_set, solve_analog, solve_coordinate_descent])
def test_a_signal_does_not_depend_on_its_mates_nor_on_their_starts(solve):
    problem = random_problem(n_signals=4)
    start = random_codes(problem)
    together = solve(problem, start=start)
    for signal in range(4):
        alone = solve(problem.subset([signal]), start=start[[signal]])
        np.testing.assert_array_equal(alone.codes[0], together.codes[signal])
        assert alone.n_steps[0] == together.n_steps[signal]


@pytest.mark.thorough
def test_coordinate_descent_in_workers_is_the_same():
    problem = random_problem(n_signals=20)
    start = random_codes(problem)
    one, two = (solve_coordinate_descent(problem, start=start, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.codes, two.codes)


@each_solver
def test_silent_signals_end_at_zero_wherever_they_start(solve, tol):
    problem = LassoProblem(np.eye(3), [[0.0, 0.0, 0.0], [2.0, 0.0, 0.5]], 1.0)
    result = solve(problem, start=np.ones((2, 3)), tol=1e-9)
    assert not result.codes[0].any()
    np.testing.assert_allclose(result.codes[1], [1.0, 0.0, 0.0], rtol=0, atol=1e-4)


@each_solver
def test_penalties_that_differ_and_elastic_nets(solve, tol):
    rng = np.random.default_rng(0)
    plain = random_problem(n_signals=2, unit_norm=False)
    penalty = ElasticNet(plain.l1_weights * rng.uniform(0.5, 2.0, 40), rng.uniform(0.0, 1.0, 40))
    problem = LassoProblem(plain.dictionary, plain.signals, penalty)
    result = solve(problem, start=random_codes(problem), tol=tol)
    assert result.converged
    expected = solve_active_set(problem, tol=1e-10).objective
    np.testing.assert_allclose(result.objective, expected, rtol=0, atol=tol * problem.energies.max())


@pytest.mark.parametrize("solve", methods(start=False).values(), ids=methods(start=False))
def test_methods_without_a_start_refuse_one(solve):
    with pytest.raises(ValueError, match=rf"start must be None for {solve.name}: 'spiking', .* take it$"):
        solve(random_problem(), start=np.ones((3, 40)))


BAD = {
    "a result of another problem": (
        lambda: solve_fista(random_problem(n_signals=2)),
        ValueError,
        r"start must have shape \(3, 40\), \(n_signals, n_atoms\); got shape \(2, 40\)",
    ),
    "shape": (lambda: np.ones(40), ValueError, r"start must have shape \(3, 40\), .* got shape \(40,\)"),
    "compressed shape": (
        lambda: sparse.csr_array((3, 41)),
        ValueError,
        r"start must have shape \(3, 40\), \(n_signals, n_atoms\); got shape \(3, 41\)",
    ),
    "another format": (
        lambda: sparse.csc_array((3, 40)),
        TypeError,
        r"start must be an array, a csr_array or a result; got a csc_array: pass csr_array\(start\)",
    ),
    "complex": (
        lambda: np.ones((3, 40)) * 1j,
        TypeError,
        "start must be an array of real numbers; got dtype",
    ),
    "complex rows": (
        lambda: sparse.csr_array(np.ones((3, 40)) * 1j),
        TypeError,
        "start must hold real numbers; got dtype complex128",
    ),
    "NaN": (lambda: np.full((3, 40), NAN), ValueError, r"start must be finite; got nan at \[0, 0\]"),
    "NaN rows": (
        lambda: sparse.csr_array(np.full((3, 40), NAN)),
        ValueError,
        r"start must be finite; got nan at \[0\]",
    ),
    "negative": (
        lambda: np.full((3, 40), -1.0),
        ValueError,
        r"start must not be negative for a positive problem; got -1.0",
    ),
    "a word": (lambda: "zero", TypeError, "start must be an array of real numbers; got dtype"),
}


@each_solver
@pytest.mark.parametrize(("make", "error", "sentence"), BAD.values(), ids=BAD.keys())
def test_nonsense_is_refused(solve, tol, make, error, sentence):
    with pytest.raises(error, match=sentence):
        solve(random_problem(positive=True), start=make())

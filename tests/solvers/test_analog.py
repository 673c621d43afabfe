"""The analog flow as a solver: it descends, and rests where the problem is solved."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from snn import simulate_analog
from solvers import LassoProblem, Status
from solvers.certificate.optimality import measure, objective
from solvers.methods.analog import solve_analog
from tests.reference.problems import optimal_codes, random_problem


@pytest.mark.parametrize("positive", [True, False])
def test_orthonormal_dictionary_relaxes_to_the_soft_threshold(positive):
    problem = LassoProblem(np.eye(3), [[2.0, -1.0, 0.3]], 0.5, positive=positive)
    result = solve_analog(problem, tol=1e-12)
    # du/dt = b - u has no coupling; a gap of g leaves at most sqrt(2 g) in the code.
    error = np.sqrt(2 * 1e-12 * problem.energies[0])
    np.testing.assert_allclose(result.codes, [[1.5, 0.0 if positive else -0.5, 0.0]], rtol=0, atol=error)
    assert result.method == "analog"


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("share", [0.02, 0.3])
def test_energy_never_rises(positive, share):
    problem = random_problem(n_signals=1, positive=positive, share=share, unit_norm=False)
    objectives = [problem.energies[0]]
    for duration in (0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = solve_analog(problem, tol=1e-8, max_duration=duration)
        objectives.append(result.objective[0])
    # Up to the integrator's relative tolerance, a tenth of tol.
    assert (np.diff(objectives) <= 1e-9 * problem.energies[0]).all()
    assert objectives[-1] - objective(problem, optimal_codes(problem))[0] <= 1e-6 * problem.energies[0]


@pytest.mark.parametrize("positive", [True, False])
def test_rest_is_the_kkt_point_and_the_kkt_point_is_at_rest(positive):
    problem = random_problem(n_signals=1, positive=positive)
    result = solve_analog(problem, tol=1e-12)
    assert result.converged
    assert result.kkt_violation[0] <= 4 * np.sqrt(2 * 1e-12 * problem.energies[0])
    # Started from the potentials of the optimum, u = a + d.r, the flow stays there.
    codes = optimal_codes(problem)
    potential = codes + problem.correlate(problem.signals - codes @ problem.dictionary)
    stayed = simulate_analog(
        -(problem.gram - np.diag(np.diagonal(problem.gram))),
        problem.correlations[0],
        activation_threshold=problem.l1_weights,
        two_sided=not positive,
        duration=10.0,
        initial_potential=potential[0],
        relative_tolerance=1e-12,
    )
    # The optimum is known to its KKT violation, and the flow can only descend from there; the integrator
    # adds a few times its tolerance of the drive.
    moved = np.abs(stayed.activities - codes[0]).max()
    drive = np.abs(problem.correlations).max()
    assert moved <= 10 * (measure(problem, codes).kkt_violation[0] + 1e-12 * drive)


def test_limit_of_time_is_kept_and_told():
    problem = random_problem(share=0.01)
    with pytest.warns(ConvergenceWarning, match="analog: 3 of 3 .* within max_duration=2"):
        result = solve_analog(problem, tol=1e-9, max_duration=2.0)
    assert (result.status == Status.LIMIT_REACHED).all()
    assert (result.n_steps > 0).all()


def test_signals_do_not_see_each_other():
    problem = random_problem(n_signals=4)
    together = solve_analog(problem)
    for i in range(4):
        alone = solve_analog(problem.subset(slice(i, i + 1)))
        np.testing.assert_array_equal(alone.codes[0], together.codes[i])
        assert alone.n_steps[0] == together.n_steps[i]


def test_zero_code_that_will_do_takes_no_step():
    result = solve_analog(LassoProblem(np.eye(2), [[0.0, 0.0], [0.5, 0.5], [3.0, 0.0]], 1.0))
    np.testing.assert_array_equal(result.n_steps[:2], 0)
    assert not result.codes[:2].any()
    assert result.n_steps[2] > 0

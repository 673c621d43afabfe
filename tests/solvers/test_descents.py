"""FISTA, the analog flow and coordinate descent: their steps, their limits, and agreement with theory."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from solvers import METHODS, solve_fista
from solvers.certificate.optimality import objective
from solvers.methods import Analog
from tests.reference.problems import optimal_codes, random_problem

LIMITS = {"fista": 7, "coordinate_descent": 1, "analog": 2.0, "spiking": 1.0}


@pytest.mark.parametrize(("method", "value"), LIMITS.items())
def test_limits_are_kept_and_told(method, value):
    name = next(iter(vars(METHODS[method])))
    solve = replace(METHODS[method], **{name: value})
    problem = random_problem(share=0.01)
    with pytest.warns(ConvergenceWarning, match=rf"3 of 3 .*{name}={value:g}") as caught:
        result = solve(problem, tol=1e-9)
    assert caught[0].filename == __file__
    assert not result.reached.any()
    assert (result.n_steps == value).all() if name == "max_iter" else (result.n_steps > 0).all()


@pytest.mark.parametrize("share", [0.01, 0.3])
@pytest.mark.parametrize("max_iter", [1, 3, 10, 30, 100])
def test_objective_falls_as_fast_as_the_theory_says(share, max_iter):
    """Beck and Teboulle, Theorem 4.4: E(a_k) - E* <= 2 L ||a*||^2 / (k + 1)^2 from a_0 = 0."""
    problem = random_problem(share=share)
    best = optimal_codes(problem)
    lipschitz = np.linalg.norm(problem.dictionary, ord=2) ** 2
    bound = 2 * lipschitz * (best**2).sum(axis=1) / (max_iter + 1) ** 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = solve_fista(problem, tol=1e-13, max_iter=max_iter)
    assert (result.objective - objective(problem, best) <= bound).all()


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("share", [0.02, 0.3])
def test_energy_never_rises(positive, share):
    problem = random_problem(n_signals=1, positive=positive, share=share, unit_norm=False)
    objectives = [problem.energies[0]]
    for duration in (0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = Analog(duration)(problem, tol=1e-8)
        objectives.append(result.objective[0])
    # The objective falls, up to the integrator's relative tolerance, a tenth of tol.
    assert (np.diff(objectives) <= 1e-9 * problem.energies[0]).all()
    assert objectives[-1] - objective(problem, optimal_codes(problem))[0] <= 1e-6 * problem.energies[0]

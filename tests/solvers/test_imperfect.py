"""Codes by imperfect neurons: stages correct the errors of earlier stages, and every gap is certified."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from snn import Clock, Imperfections
from snn.digital import DigitalFormat, FixedPoint
from solvers import solve, solve_digital, solve_spiking
from solvers.methods import OneWindow, Stages
from tests.reference.problems import random_problem

STEP = 1 / 4
REPAIRED = {
    "leak": 0.05,
    "refractory_time": 0.5,
    "threshold_mismatch": 0.1,
    "weight_mismatch": 0.1,
    "potential_noise": 0.05,
    "lost_spikes": 0.1,
}
"""Each leaves at least a part in a thousand of the objective in one window of 500 time constants."""
WORSE = 1e-3
WIDE = DigitalFormat(weights=FixedPoint(bits=12), bias=FixedPoint(bits=16), decay_bits=14)


@pytest.fixture(scope="module")
def problem():
    return random_problem(32, 64, n_signals=6)


def solved(problem, imperfections, **options):
    return solve_spiking(problem, time=Clock(STEP, imperfections=imperfections), **options)


@pytest.mark.parametrize("name", [*REPAIRED, "delays"])
def test_stages_reach_what_one_window_does_not(problem, name):
    """Delays only postpone spikes; other imperfections change the limit of a run or the path to the limit."""
    imperfections = Imperfections(**{name: {**REPAIRED, "delays": 1.0}[name]}, seed=1)
    one_window = OneWindow(time=Clock(STEP, imperfections=imperfections), max_duration=500.0)
    with pytest.warns(ConvergenceWarning, match="max_duration=500"):
        window = solve(problem, one_window, tol=1e-6)
    assert (np.median(window.relative_gap) > WORSE) == (name != "delays")
    stages = solved(problem, imperfections, tol=1e-6)
    assert stages.converged
    if name != "delays":
        of_integers, perfect = (
            solve_digital(problem, time=time, tol=1e-4)
            for time in (Clock(STEP, WIDE, imperfections=imperfections), Clock(STEP, WIDE))
        )
        assert of_integers.converged
        assert (of_integers.n_steps != perfect.n_steps).any()


@pytest.mark.parametrize("kind", ["clock", "integers"])
def test_a_code_does_not_depend_on_what_is_in_the_batch(problem, kind):
    imperfections = Imperfections(**{name: 0.4 * value for name, value in REPAIRED.items()}, delays=0.4)
    if kind == "clock":
        method = Stages(time=Clock(STEP, imperfections=imperfections))
    else:
        method = Stages(time=Clock(STEP, WIDE, imperfections=imperfections))
    together, again = (solve(problem, method, tol=1e-3, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(again.codes, together.codes)
    alone = solve(problem.subset([4]), method, tol=1e-3)
    np.testing.assert_array_equal(alone.codes[0], together.codes[4])


def test_without_imperfections_codes_are_the_clocks(problem):
    perfect = solve_spiking(problem, time=Clock(STEP), tol=1e-4)
    same = solved(problem, Imperfections(), tol=1e-4)
    np.testing.assert_array_equal(same.n_steps, perfect.n_steps)
    np.testing.assert_allclose(same.codes, perfect.codes, rtol=0, atol=1e-12)

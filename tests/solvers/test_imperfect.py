"""Codes by imperfect neurons: stages repair what one run gets wrong, and every gap is certified."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from snn import ImperfectClock, Imperfections
from snn.digital import DigitalFormat, FixedPoint, ImperfectDigital
from solvers import ConvolutionalDictionary, LassoProblem, solve, solve_digital, solve_spiking
from solvers.certificate.optimality import duality_gap
from solvers.methods import DigitalStages, OneWindow, Stages
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
"""What leaves at least a part in a thousand of the objective in one window of 500 time constants."""
WORSE = 1e-3
WIDE = DigitalFormat(weights=FixedPoint(bits=12), bias=FixedPoint(bits=16), decay_bits=14)


@pytest.fixture(scope="module")
def problem():
    return random_problem(32, 64, n_signals=6)


def solved(problem, imperfections, **options):
    return solve_spiking(problem, time_step=STEP, imperfections=imperfections, **options)


@pytest.mark.parametrize("name", [*REPAIRED, "delays"])
def test_stages_reach_what_one_window_does_not(problem, name):
    """Delays change what is on the way only; all others change what a run tends to, or how it gets there."""
    imperfections = Imperfections(**{name: {**REPAIRED, "delays": 1.0}[name]}, seed=1)
    one_window = OneWindow(how=ImperfectClock(STEP, imperfections=imperfections), max_duration=500.0)
    with pytest.warns(ConvergenceWarning, match="max_duration=500"):
        window = solve(problem, one_window, tol=1e-6)
    assert (np.median(window.relative_gap) > WORSE) == (name != "delays")
    stages = solved(problem, imperfections, tol=1e-6)
    assert stages.converged
    assert (duality_gap(problem, stages.codes) <= 1e-6 * problem.energies).all()


@pytest.mark.parametrize("name", REPAIRED)
def test_stages_of_integers_do_too(problem, name):
    imperfections = Imperfections(**{name: REPAIRED[name]}, seed=1)
    stages = solve_digital(problem, WIDE, tol=1e-4, imperfections=imperfections)
    assert stages.converged
    perfect = solve_digital(problem, WIDE, tol=1e-4)
    assert (stages.n_steps != perfect.n_steps).any()


@pytest.mark.parametrize(
    "imperfections",
    [
        Imperfections(
            leak=0.02,
            refractory_time=0.3,
            delays=0.4,
            threshold_mismatch=0.05,
            weight_mismatch=0.05,
            potential_noise=0.02,
            lost_spikes=0.05,
        )
    ],
)
@pytest.mark.parametrize("kind", ["clock", "integers"])
def test_a_code_does_not_depend_on_what_is_in_the_batch(problem, imperfections, kind):
    if kind == "clock":
        method = Stages(how=ImperfectClock(STEP, imperfections=imperfections))
    else:
        method = DigitalStages(how=ImperfectDigital(STEP, WIDE, imperfections=imperfections))
    together = solve(problem, method, tol=1e-3)
    again = solve(problem, method, tol=1e-3, n_jobs=2)
    np.testing.assert_array_equal(again.codes, together.codes)
    np.testing.assert_array_equal(again.sparse_spike_counts.toarray(), together.sparse_spike_counts.toarray())
    for signal in (0, 4):
        alone = solve(problem.subset([signal]), method, tol=1e-3)
        np.testing.assert_array_equal(alone.codes[0], together.codes[signal])


def test_convolutional_codes_have_imperfect_neurons_too():
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((3, 3, 3))
    kernels /= np.linalg.norm(kernels, axis=(1, 2), keepdims=True)
    atoms = ConvolutionalDictionary(kernels, (8, 9), 1)
    problem = LassoProblem(atoms, rng.standard_normal((2, 72)), 1.0)
    result = solved(problem, Imperfections(threshold_mismatch=0.1, leak=0.01), tol=1e-3)
    assert result.converged


def test_without_imperfections_codes_are_the_clocks(problem):
    perfect = solve_spiking(problem, time_step=STEP, tol=1e-4)
    same = solved(problem, Imperfections(), tol=1e-4)
    np.testing.assert_array_equal(same.n_steps, perfect.n_steps)
    np.testing.assert_allclose(same.codes, perfect.codes, rtol=0, atol=1e-12)

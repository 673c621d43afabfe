"""What docs/theory.md says of the smooth window and of offsets, on recorded spikes and by other solvers."""

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy.integrate import quad

from snn import simulate
from snn.record import rates, traces
from solvers import LassoProblem, lasso_network, solve_coordinate_descent
from tests.reference.problems import random_problem

WINDOW = Polynomial([0.0, 0.0, 30.0, -60.0, 30.0])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


def test_window_is_one_bump_without_edges():
    slope, curvature = WINDOW.deriv(), WINDOW.deriv(2)
    assert WINDOW.integ()(1.0) == pytest.approx(1.0)
    for end in (0.0, 1.0):
        assert WINDOW(end) == pytest.approx(0.0, abs=1e-12)
        assert slope(end) == pytest.approx(0.0, abs=1e-12)
    assert (slope**2).integ()(1.0) == pytest.approx(120.0 / 7.0)
    turns = [float(root) for root in curvature.roots()]
    total = quad(lambda s: abs(curvature(s)), 0.0, 1.0, points=turns)[0]
    assert total == pytest.approx(40.0 / np.sqrt(3.0))
    at = np.linspace(0.0, 1.0, 1001)
    assert (np.abs(slope(at)) <= 60.0 * at + 1e-12).all()


def test_residual_of_rates_through_the_window_is_what_fluctuates():
    problem = random_problem(n_signals=1, positive=True)
    scale = float(((problem.correlations[0] - problem.l1_weights) / problem.squared_norms).max())
    network = lasso_network(problem, scale=scale)
    duration = 30.0
    run = simulate(network, duration, record_spikes=True)
    code = rates.smooth_rate(run.spikes)
    # The integral of w'(t/T) (v + mu), from one event to the next, where both are smooth.
    ends = np.unique(np.concatenate([[0.0, duration], run.spikes.times]))
    assert np.count_nonzero(run.spike_counts) > 2
    middles, halves = 0.5 * (ends[1:] + ends[:-1]), 0.5 * np.diff(ends)
    times = (middles[:, np.newaxis] + halves[:, np.newaxis] * NODES).ravel()
    weights = (halves[:, np.newaxis] * WEIGHTS).ravel()
    swinging = traces.membrane_potential(network, run.spikes, times)
    swinging = swinging + traces.soma_current(network, run.spikes, times)
    expected = -(weights * WINDOW.deriv()(times / duration)) @ swinging / duration**2
    residual = (problem.correlations[0] - problem.l1_weights) / scale - problem.gram @ code
    np.testing.assert_allclose(residual, expected, atol=1e-10)
    # No small numbers are compared: the residual is far from zero.
    assert np.abs(residual).max() > 1e-3


@pytest.mark.parametrize("too_far", [False, True])
def test_what_an_offset_leaves_has_the_rest_of_the_optimum_for_its_optimum(too_far):
    problem = random_problem(n_signals=1, positive=True)
    optimum = solve_coordinate_descent(problem, tol=1e-12).codes[0]
    support = np.flatnonzero(optimum)
    assert len(support) >= 2
    offset = np.zeros(problem.n_atoms)
    offset[support] = 0.7 * optimum[support]
    if too_far:
        offset[support[0]] = 1.5 * optimum[support[0]]
    left = LassoProblem(
        problem.dictionary, problem.signals - problem.reconstruct(offset[np.newaxis]), problem.l1_weights,
        positive=True,
    )  # fmt: skip
    rest = solve_coordinate_descent(left, tol=1e-12).codes[0]
    if too_far:
        # Rates cannot be negative: the neuron of that atom is silent, and the sum is not the optimum.
        assert rest[support[0]] == 0.0
        assert (offset + rest - optimum)[support[0]] == pytest.approx(0.5 * optimum[support[0]])
    else:
        np.testing.assert_allclose(offset + rest, optimum, atol=1e-6 * optimum.max())

"""Identities of the smooth window in docs/theory.md, on recorded spikes."""

import numpy as np
from numpy.polynomial import Polynomial

from snn import simulate
from solvers import lasso_network
from tests.reference.problems import random_problem

WINDOW = Polynomial([0.0, 0.0, 30.0, -60.0, 30.0])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


def test_residual_of_rates_through_the_window_is_what_fluctuates():
    problem = random_problem(n_signals=1, positive=True)
    scale = float(((problem.correlations[0] - problem.l1_weights) / problem.atoms.squared_norms).max())
    network = lasso_network(problem, scale=scale)
    duration = 30.0
    run = simulate(network, duration, record_spikes=True)
    code = run.spikes.smooth_rate()
    # The integral of w'(t/T) (v + mu), from one event to the next, where both are smooth.
    ends = np.unique(np.concatenate([[0.0, duration], run.spikes.times]))
    assert np.count_nonzero(run.spike_counts) > 2
    middles, halves = 0.5 * (ends[1:] + ends[:-1]), 0.5 * np.diff(ends)
    times = (middles[:, np.newaxis] + halves[:, np.newaxis] * NODES).ravel()
    weights = (halves[:, np.newaxis] * WEIGHTS).ravel()
    swinging = run.record.potential(times) + run.record.current(times)
    expected = -(weights * WINDOW.deriv()(times / duration)) @ swinging / duration**2
    residual = (problem.correlations[0] - problem.l1_weights) / scale - problem.gram @ code
    np.testing.assert_allclose(residual, expected, atol=1e-10)
    # No small numbers are compared: the residual is far from zero.
    assert np.abs(residual).max() > 1e-3

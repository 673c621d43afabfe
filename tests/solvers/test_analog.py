"""The analog flow: its energy, its fixed points, its closed forms."""

import numpy as np
import pytest
from scipy.linalg import expm
from sklearn.linear_model import Lasso

from solvers.methods.analog import flow
from tests.reference.networks import random_dictionary

PENALTY = 0.2
OPTIONS = {"two_sided": False, "relative_tolerance": 1e-8}


@pytest.fixture(params=[False, True], ids=["one-sided", "two-sided"])
def two_sided(request):
    return request.param


@pytest.fixture(params=[1.0, 2.0], ids=["unit norms", "any norms"])
def problem(request):
    rng = np.random.default_rng(11)
    dictionary = random_dictionary(rng, 24, 20) * request.param ** rng.uniform(-1.0, 1.0, (24, 1))
    return dictionary, rng.standard_normal(20)


def flow_of(dictionary, signal, two_sided, *, times, relative_tolerance=1e-8):
    gram = dictionary @ dictionary.T
    norms = np.diagonal(gram).copy()
    return flow(
        np.diag(norms) - gram, dictionary @ signal, PENALTY, norms, np.zeros(len(gram)), times=times,
        two_sided=two_sided, relative_tolerance=relative_tolerance,
    )  # fmt: skip


def energy(dictionary, signal, codes):
    residuals = signal - codes @ dictionary
    return 0.5 * (residuals**2).sum(axis=1) + PENALTY * np.abs(codes).sum(axis=1)


def test_energy_falls_by_the_squared_speed_of_the_active_neurons(problem, two_sided):
    """Finite differences of a flow confirm dE/dt = - sum over active neurons of (du/dt)^2 / g."""
    dictionary, _ = problem
    result = flow_of(*problem, two_sided, times=np.linspace(0.0, 2.0, 20001), relative_tolerance=1e-12)
    energies, active = energy(*problem, result.activities), result.activities != 0.0
    slope = (energies[2:] - energies[:-2]) / 2e-4
    speed = (result.potentials[2:] - result.potentials[:-2]) / 2e-4
    norms = (dictionary**2).sum(axis=1)
    expected = -(np.where(active[1:-1], speed**2, 0.0) / norms).sum(axis=1)
    # Where the active set changes within a difference, the slope has a kink.
    steady = (active[:-2] == active[2:]).all(axis=1)
    assert steady.mean() > 0.99
    np.testing.assert_allclose(slope[steady], expected[steady], rtol=1e-4, atol=1e-6)


def test_the_energy_never_rises_and_rest_is_the_optimum(problem, two_sided):
    """The fixed point is scikit-learn's optimum, so it satisfies the KKT conditions."""
    dictionary, signal = problem
    result = flow_of(dictionary, signal, two_sided, times=np.linspace(0.0, 500.0, 10_001))
    energies = energy(dictionary, signal, result.activities)
    # The integrator's tolerance is 1e-8 of the drive: larger rises are errors.
    assert np.diff(energies).max() <= 1e-8 * energies[0]
    lasso = Lasso(
        alpha=PENALTY / 20, fit_intercept=False, positive=not two_sided, tol=1e-12, max_iter=1_000_000
    )
    expected = lasso.fit(dictionary.T, signal).coef_
    np.testing.assert_allclose(result.activities[-1], expected, rtol=0, atol=1e-6)


def test_without_activity_potentials_relax_to_the_drive():
    drive = np.array([0.5, -0.3])
    times = np.linspace(0.0, 3.0, 31)
    result = flow(np.zeros((2, 2)), drive, 1.0, 1.0, np.zeros(2), times=times, **OPTIONS)
    relaxed = -np.expm1(-times)[:, np.newaxis] * drive
    np.testing.assert_allclose(result.potentials, relaxed, rtol=0, atol=1e-7)
    assert not result.activities.any()
    assert result.work == 0


def test_with_fixed_support_the_flow_is_a_matrix_exponential():
    weights = np.array([[0.0, -0.3], [-0.5, 0.0]])
    drive, start = np.array([2.0, 2.5]), np.array([1.5, 1.2])
    times = np.linspace(0.0, 2.0, 5)
    result = flow(weights, drive, 0.1, 1.0, start, times=times, **OPTIONS)
    # du/dt = drive - u + W^T (u - 0.1): linear while both neurons are active.
    matrix = weights.T - np.eye(2)
    rest = np.linalg.solve(-matrix, drive - 0.1 * weights.sum(axis=0))
    for time, potential in zip(times, result.potentials, strict=True):
        np.testing.assert_allclose(potential, rest + expm(matrix * time) @ (start - rest), rtol=0, atol=1e-7)
    # In each evaluation all neurons are active and reach all neurons.
    assert result.work == 4 * result.n_evaluations


def test_a_flow_that_blows_up_ends_in_an_error():
    with pytest.raises(RuntimeError, match="10000"):
        flow(
            3.0 * (1.0 - np.eye(2)),
            np.ones(2),
            0.1,
            1.0,
            np.zeros(2),
            times=np.array([0.0, 10_000.0]),
            **OPTIONS,
        )

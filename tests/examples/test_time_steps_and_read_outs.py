"""The example of time steps and read-outs: floors, their order, and that it draws."""

import numpy as np
import pytest

from examples import time_steps_and_read_outs as example
from snn import SpikingNetwork, simulate, simulate_clocked
from snn.record import rates
from solvers import lasso_network
from solvers.certificate.optimality import duality_gap, objective

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def errors():
    problem = example.mixtures(2, np.random.default_rng(0))
    times = np.geomspace(2.0, 1_000.0, 40)
    return example.measure(problem, 1_000.0, times), times


def test_clocks_stop_at_floors_and_the_exact_network_does_not(errors):
    curves, times = errors
    exact = example.floor(curves["spike rate since 0"], times)
    for clock in (example.PAPERS, example.EULER):
        floors = [example.floor(curves[step, clock], times) for step in sorted(example.TIME_STEPS)]
        assert floors == sorted(floors)
    # A tenth of a time constant: percents with the reset to zero, permilles with subtraction.
    assert 3e-3 < example.floor(curves[0.1, example.PAPERS], times) < 3e-2
    assert 5e-4 < example.floor(curves[0.1, example.EULER], times) < 5e-3
    assert exact < 1e-3
    # A clock that keeps charge is as good as the exact run, whatever its step.
    for step in example.TIME_STEPS:
        assert 0.8 * exact < example.floor(curves[step, example.CHARGE], times) < 1.25 * exact


@pytest.fixture(scope="module")
def gaps():
    return example.certify(5, np.array([20.0, 160.0, 1280.0]))


def test_gaps_of_the_papers_clock_stop_and_those_of_kept_charge_do_not(gaps):
    for inverse in example.INVERSE_STEPS:
        papers = np.median(gaps[example.PAPERS, inverse], axis=0)
        charge = np.median(gaps[example.CHARGE, inverse], axis=0)
        assert papers[2] > 0.5 * papers[1] > 5e-4
        # Between 1/t and 1/t^2, at least.
        assert charge[2] < charge[1] / 8.0 < charge[0] / 64.0
        assert charge[2] < 1e-5
    floors = [np.median(gaps[example.PAPERS, inverse][:, 2]) for inverse in example.INVERSE_STEPS]
    assert floors == sorted(floors, reverse=True)
    # Events, and clocks of all steps, agree while the time is short.
    first = [np.median(gaps[kind][:, 0]) for kind in gaps if kind == "events" or kind[0] == example.CHARGE]
    assert max(first) < 2.0 * min(first)


def test_certified_gaps_bound_the_error(gaps):
    """The gap is an upper bound of E - E*, with E* by scikit-learn; both codes are looked at."""
    problem = example.certified_problems(1, np.random.default_rng(1))[0]
    network = lasso_network(problem)
    spikes = simulate_clocked(network, 160.0, time_step=0.25, record_spikes=True).spikes
    # The window written out as an integral of the spikes, and the current that its rates cause.
    rate = np.zeros(256)
    for time, neuron in zip(spikes.times / 160.0, spikes.neurons, strict=True):
        rate[neuron] += 30.0 * time**2 * (1.0 - time) ** 2 / 160.0
    current = (
        (problem.signals[0] - rate @ problem.dictionary) @ problem.dictionary.T - problem.l1_weights + rate
    )
    codes = np.array([rate, np.maximum(current, 0.0)])
    half = 0.5 * problem.signals[0] @ problem.signals[0]
    errors = example.relative_error(problem)(codes)
    optimum = objective(problem.subset([0, 0]), codes) / (1.0 + errors)
    assert gaps[example.CHARGE, 4][0, 1] * half >= (errors * optimum).min() > 0.0
    assert gaps[example.CHARGE, 4][0, 1] * half == pytest.approx(
        duality_gap(problem.subset([0, 0]), codes).min(), rel=1e-6
    )


def test_late_read_outs_beat_the_rate_since_the_start(errors):
    curves, _ = errors
    last = {name: example.typical(error)[-1] for name, error in curves.items() if isinstance(name, str)}
    since_start, *others = last.values()
    assert min(since_start / other for other in others) > 2.0
    first = {name: example.typical(error)[0] for name, error in curves.items() if isinstance(name, str)}
    assert first["thresholded average current"] > first["spike rate since 0"]


def test_subtracting_clock_solves_the_problem_of_larger_weights():
    # theory.md, equation 16a: a spike delivers step / (1 - e^-step) times its weight.
    step, half = 0.1, 2_000.0
    problem = example.mixtures(1, np.random.default_rng(0))
    network = lasso_network(problem)
    larger = SpikingNetwork(
        np.asarray(network.weights) * (step / -np.expm1(-step)), network.soma_bias, network.firing_threshold
    )
    clocked = simulate_clocked(network, 2.0 * half, time_step=step, integration="euler", record_spikes=True)
    exact = simulate(larger, 2.0 * half, record_spikes=True)
    codes = [rates.spike_rate(run.spikes, start=half) for run in (clocked, exact)]
    # Rates over this window are known to a few spikes; the step moves them by more than ten times that.
    np.testing.assert_allclose(*codes, atol=3.0 / half)
    plain = rates.spike_rate(simulate(network, 2.0 * half, record_spikes=True).spikes, start=half)
    assert np.abs(codes[0] - plain).max() > 10.0 * 3.0 / half
    errors = example.relative_error(problem)(np.array(codes))
    np.testing.assert_allclose(errors[0], errors[1], rtol=0.05)


def test_example_draws_and_reports(tmp_path, capsys):
    options = ["--duration", "100", "--signals", "1", "--certified", "1"]
    assert example.main(["--output", str(tmp_path), *options]) == 0
    assert (tmp_path / "time_steps_and_read_outs.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    assert "0.03125" in report
    assert "thresholded average current" in report

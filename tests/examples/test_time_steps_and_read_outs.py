"""The example of time steps and read-outs: floors, their order, and that it draws."""

import numpy as np
import pytest

from examples import time_steps_and_read_outs as example
from snn import SpikingNetwork, rates, simulate, simulate_clocked
from solvers import lasso_network


@pytest.fixture(scope="module")
def errors():
    problem = example.mixtures(2, np.random.default_rng(0))
    times = np.geomspace(2.0, 1_000.0, 40)
    return example.measure(problem, 1_000.0, times), times


def test_clocks_stop_at_floors_and_the_exact_network_does_not(errors):
    curves, times = errors
    exact = example.floor(curves["spike rate since 0"], times)
    for reset in ("zero", "subtract"):
        floors = [example.floor(curves[step, reset], times) for step in sorted(example.TIME_STEPS)]
        assert floors == sorted(floors)
    # A tenth of a time constant: percents with the reset to zero, permilles with subtraction.
    assert 3e-3 < example.floor(curves[0.1, "zero"], times) < 3e-2
    assert 5e-4 < example.floor(curves[0.1, "subtract"], times) < 5e-3
    assert exact < 1e-3


def test_late_read_outs_beat_the_rate_since_the_start(errors):
    curves, _ = errors
    last = {name: example.typical(error)[-1] for name, error in curves.items() if isinstance(name, str)}
    since_start, *others = last.values()
    assert min(since_start / other for other in others) > 2.0
    first = {name: example.typical(error)[0] for name, error in curves.items() if isinstance(name, str)}
    assert first["thresholded average current"] > first["spike rate since 0"]


def test_subtracting_clock_solves_the_problem_of_larger_weights():
    # theory.md, equation 16: a spike delivers step / (1 - e^-step) times its weight.
    step, half = 0.1, 2_000.0
    problem = example.mixtures(1, np.random.default_rng(0))
    network = lasso_network(problem)
    larger = SpikingNetwork(
        np.asarray(network.weights) * (step / -np.expm1(-step)), network.soma_bias, network.firing_threshold
    )
    clocked = simulate_clocked(network, 2.0 * half, time_step=step, reset="subtract", record_spikes=True)
    exact = simulate(larger, 2.0 * half, record_spikes=True)
    codes = [rates.spike_rate(run.spikes, start=half) for run in (clocked, exact)]
    # Rates over this window are known to a few spikes; the step moves them by more than ten times that.
    np.testing.assert_allclose(*codes, atol=3.0 / half)
    plain = rates.spike_rate(simulate(network, 2.0 * half, record_spikes=True).spikes, start=half)
    assert np.abs(codes[0] - plain).max() > 10.0 * 3.0 / half
    errors = example.relative_error(problem)(np.array(codes))
    np.testing.assert_allclose(errors[0], errors[1], rtol=0.05)


def test_example_draws_and_reports(tmp_path, capsys):
    assert example.main(["--output", str(tmp_path), "--duration", "100", "--signals", "1"]) == 0
    assert (tmp_path / "time_steps_and_read_outs.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    assert "0.03125" in report
    assert "thresholded average current" in report

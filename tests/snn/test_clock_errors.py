"""What a clock costs, exactly."""

import numpy as np
import pytest

from snn import RunawayError, SpikingNetwork, simulate, simulate_clocked
from tests.reference.networks import golden_network


def test_overshoot_lost_by_hand(capsys):
    """A rise of 0.4 a step: reset to zero fires every third step, subtraction twice in five."""
    network = SpikingNetwork([[0.0]], [4.0], 1.0)
    kept = simulate_clocked(network, 1.5, time_step=0.1, record_spikes=True, progress=True)
    assert "tau" in capsys.readouterr().err
    lost = simulate_clocked(network, 1.5, time_step=0.1, reset="zero", record_spikes=True)
    np.testing.assert_allclose(lost.spikes.times, [0.3, 0.6, 0.9, 1.2, 1.5])
    np.testing.assert_allclose(kept.spikes.times[:5], [0.3, 0.5, 0.8, 1.0, 1.3])


@pytest.mark.parametrize(("integration", "gain"), [("exact", 1.0), ("euler", 0.125 / -np.expm1(-0.125))])
def test_what_a_spike_brings(integration, gain):
    """Its weight, if steps are exact.  Euler: W dt (1 + e^-dt + e^-2dt + ...) = W dt / (1 - e^-dt)."""
    network = SpikingNetwork([[0.0, 0.5], [0.0, 0.0]], [1.0, 0.0], [1.0, 100.0])
    first = simulate_clocked(network, 1.0, time_step=0.125, integration=integration)
    assert first.spike_counts[0] == 1
    silent = network.with_soma_bias([-1.0, 0.0])
    after = simulate_clocked(silent, 60.0, time_step=0.125, integration=integration, state=first.state)
    assert after.state.membrane_potential[1] == pytest.approx(0.5 * gain, rel=1e-12)


def test_errors_of_the_rates_that_time_does_not_remove():
    """With Euler's steps the rates tend to those of the exact network with weights so much larger.

    Equation 4, which is exact with subtraction, bounds the distance by a constant over t; resetting
    to zero loses the overshoot besides.
    """
    network, time_step, time = golden_network(), 0.1, 4000.0
    swollen = SpikingNetwork(
        network.weights.toarray() * time_step / -np.expm1(-time_step),
        network.soma_bias,
        network.firing_threshold,
    )
    limit = simulate(swollen, time).spike_rate
    kept, lost = (
        simulate_clocked(network, time, time_step=time_step, integration="euler", reset=reset).spike_rate
        for reset in ("subtract", "zero")
    )
    assert np.abs(kept - limit).max() < 8.0 / time
    assert np.abs(lost - limit).max() > 0.02
    true = simulate(network, time).spike_rate
    assert np.abs(true - limit).max() > 0.02
    # With exact steps, and nothing lost, there is no such error, however coarse the step.
    for coarse in (0.1, 0.5, 1.0):
        assert np.abs(simulate_clocked(network, time, time_step=coarse).spike_rate - true).max() < 8.0 / time


@pytest.mark.parametrize(("time_step", "stable", "unstable"), [(1.0, 5, 6), (0.5, 9, 10), (0.25, 17, 18)])
def test_rates_swing_where_a_step_is_too_long(time_step, stable, unstable):
    """docs/theory.md, (16b): neurons that fire in every step do gradient steps of 1 - e^-dt.

    They are stable up to an eigenvalue of G of 2 / (1 - e^-dt) = 3.16, 5.08, 9.04: of n neurons that all
    inhibit each other by 1/2 it is (n + 1) / 2.  Beyond, spikes of a step swing, but charge is kept: their
    mean is right.
    """
    swings = []
    for n in (stable, unstable):
        # A mean of 20 spikes a step, of neurons that are not quite alike.
        drive = 20.0 / time_step * 0.5 * (n + 1) * np.linspace(0.999, 1.001, n)
        network = SpikingNetwork(-0.5 * (1.0 - np.eye(n)), drive)
        run = simulate_clocked(network, 200.0 * time_step, time_step=time_step, record_spikes=True)
        steps = np.rint(run.spikes.times / time_step).astype(int)
        spikes = np.bincount(steps, minlength=201)[101:] / n
        assert spikes.mean() == pytest.approx(20.0, abs=0.5)
        swings.append(spikes.std())
    assert swings[0] < 2.0
    assert swings[1] > 10.0


def test_exactly_max_spikes_spikes_are_allowed():
    network = SpikingNetwork(np.zeros((2, 2)), [1.0, 0.5])
    assert simulate_clocked(network, 10.0, time_step=0.125, max_spikes=15).n_spikes == 15
    with pytest.raises(RunawayError, match="more than max_spikes = 14 spikes") as caught:
        simulate_clocked(network, 10.0, time_step=0.125, max_spikes=14)
    assert caught.value.result.n_spikes == 15

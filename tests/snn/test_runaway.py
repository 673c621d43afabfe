"""Runs that would never end, on a clock too; those of every form are in `test_conformance_extremes.py`."""

import os
import pickle

import numpy as np
import pytest

from snn import RunawayError, Simulator, SpikingNetwork, simulate, simulate_clocked
from snn.digital import DigitalFormat, DigitalNetwork, simulate_digital
from tests.processes import interrupted


def runaway_network():
    """Neurons 2 and 5 excite each other by more than a threshold; the others are bystanders."""
    weights = np.zeros((8, 8))
    weights[2, 5] = weights[5, 2] = 1.5
    return SpikingNetwork(weights, np.full(8, 0.1))


def test_a_runaway_survives_the_way_back_from_a_worker():
    with pytest.raises(RunawayError) as caught:
        simulate(runaway_network(), 1e6, max_spikes=100)
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value)
    np.testing.assert_array_equal(error.result.spike_counts, caught.value.result.spike_counts)


def test_runaway_on_a_clock():
    for reset in ("subtract", "zero"):  # the one by more and more spikes a step, the other never stops
        with pytest.raises(RunawayError, match=r"more than max_spikes = 5,000 .*neurons [25] ") as caught:
            simulate_clocked(
                runaway_network(), 1e6, time_step=0.01, reset=reset, max_spikes=5_000, record_spikes=True
            )
        result = caught.value.result
        assert result.n_spikes > 5_000
        np.testing.assert_array_equal(result.spikes.counts(), result.spike_counts)


def test_recorded_runs_are_bounded_by_memory(monkeypatch):
    """A drive that causes 1e12 spikes is not recorded until the process is killed, and the error says so."""
    monkeypatch.setattr("snn.run.simulate.MOST_RECORDED", 5_000)
    monkeypatch.setattr("snn.digital.simulate.MOST_RECORDED", 5_000)
    network = SpikingNetwork(np.zeros((2, 2)), [1e6, 0.1])
    driven = Simulator(network)
    driven.soma_bias = [1e12, 0.1]
    digital = DigitalNetwork.of(network.with_soma_bias([3.0, 0.1]), DigitalFormat(), time_step=0.25)
    for run, by_drive in (
        (lambda: simulate(network, 4.0, record_spikes=True), r"4e\+06"),
        (lambda: simulate_clocked(network, 4.0, time_step=2e-6, record_spikes=True), r"4e\+06"),
        (lambda: driven.advance(3.0), r"3e\+12"),
        (lambda: simulate_digital(digital, 10_000, record_spikes=True), r"7\.75e\+03"),
    ):
        with pytest.raises(RunawayError, match=f"drive alone would cause up to {by_drive} spikes") as caught:
            run()
        assert 5_000 < len(caught.value.result.spikes) <= 5_002  # a step is not split
    assert simulate(network, 0.01, record_spikes=True, max_spikes=20_000).n_spikes == 10_000
    assert simulate(network, 0.01).n_spikes == 10_000
    assert simulate_digital(digital, 10_000).n_spikes > 5_001


SLOW_RUN = """
import sys
import numpy as np
from snn import SpikingNetwork, simulate, simulate_clocked
rng = np.random.default_rng(0)
weights = -rng.uniform(0.0, 0.01, (300, 300))
np.fill_diagonal(weights, 0.0)
network = SpikingNetwork(weights, np.ones(300))
run = {{"exact": simulate, "clocked": lambda n, t: simulate_clocked(n, t, time_step=0.01)}}["{kind}"]
run(network, 1.0)
try:
    ready()
    run(network, 1e6)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("kind", ["exact", "clocked"])
def test_ctrl_c_ends_a_run(kind):
    printed, seconds = interrupted(SLOW_RUN.format(kind=kind))
    assert printed == "interrupted\n"
    assert seconds < 2.0

"""Runs that would never end, on a clock too; those of every form are in `test_conformance_extremes.py`."""

import os
import pickle

import numpy as np
import pytest

from snn import RunawayError, SpikingNetwork, simulate, simulate_clocked
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


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("kind", ["exact", "clocked"])
def test_ctrl_c_ends_a_run(kind):
    printed, seconds = interrupted(SLOW_RUN.format(kind=kind))
    assert printed == "interrupted\n"
    assert seconds < 2.0

"""Ends of the number range, instants that hold many spikes, and interrupts in between: no hang, no NaN."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from snn import NetworkState, RunawayError, SignPairWeights, SpikingNetwork, simulate
from snn.checks import LARGEST_RATIO
from tests.reference.networks import in_form

FORMS = ["dense", "sparse"]


@pytest.mark.parametrize("form", FORMS)
def test_bystanders_of_a_runaway_go_on_as_if_nothing_happened(form):
    """Neurons without synapses fire floor(beta t) times up to the moment the error was raised."""
    weights = np.zeros((6, 6))
    weights[3, 4] = weights[4, 3] = 1.5
    network = in_form(SpikingNetwork(weights, np.full(6, 0.5)), form)
    with pytest.raises(RunawayError) as caught:
        simulate(network, 1e4, max_spikes=5000)
    run = caught.value.result
    assert 5000 < run.n_spikes < 6000
    assert run.duration == run.state.time < 1e4
    np.testing.assert_array_equal(run.spike_counts[[0, 1, 2, 5]], int(0.5 * run.duration))


@pytest.mark.parametrize("form", [*FORMS, "mirrored"])
def test_the_default_limit_ends_the_runaway_of_300_neurons(form):
    weights = np.zeros((300, 300))
    weights[3, 4] = weights[4, 3] = 1.5
    network = in_form(SpikingNetwork(weights, np.full(300, 0.5)), "sparse" if form == "sparse" else "dense")
    if form == "mirrored":
        network = SpikingNetwork(SignPairWeights(np.zeros((150, 150)), np.full(150, 1.5)), np.full(300, 0.5))
    with pytest.raises(RunawayError, match="max_spikes = 1,000,000 spikes"):
        simulate(network, 50.0)


@pytest.mark.parametrize("form", FORMS)
def test_strong_but_stable_excitation_is_no_runaway(form):
    """A ring that passes on 99 % of each spike fires at beta / (theta - w), after a while."""
    weights = 0.99 * np.roll(np.eye(5), 1, axis=1)
    run = simulate(in_form(SpikingNetwork(weights, np.full(5, 0.1)), form), 3000.0)
    # The rates' own time constant is 1 / (1 - w) = 100, of which 3000 are 30: u is off by 100 / 3000.
    np.testing.assert_allclose(run.spike_rate, 10.0, rtol=0.05)


@pytest.mark.parametrize("form", FORMS)
def test_a_runaway_within_its_first_instant(form):
    """All neurons start at their thresholds: three spikes at time 0, where the limit is one."""
    network = in_form(SpikingNetwork(np.zeros((3, 3)), [1.0, 1.0, 2.0]), form)
    state = NetworkState(membrane_potential=np.ones(3), synaptic_current=[0.0, 0.5, 0.0])
    with pytest.raises(RunawayError) as caught:
        simulate(network, 1e-9, state=state, max_spikes=1)
    assert caught.value.result.n_spikes == 3
    assert np.isfinite(caught.value.result.average_soma_current).all()
    assert not np.isnan(caught.value.result.spike_rate).any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weight", [1e9, LARGEST_RATIO])
def test_intervals_far_below_the_resolution_of_time(form, weight):
    """Mutual excitation so strong that the time stands still: an error, and no endless loop."""
    network = in_form(SpikingNetwork(weight * (1 - np.eye(3)), [1.0, 0.9, 0.8]), form)
    with pytest.raises(RunawayError):
        simulate(network, 10.0, max_spikes=10_000)


@pytest.mark.parametrize("form", FORMS)
def test_currents_beyond_the_range_of_floats_are_reported(form):
    network = in_form(SpikingNetwork([[0, 1e308], [1e308, 0]], [1e300, 1e300], 1e300), form)
    with pytest.raises(OverflowError, match="have left the range of float64 numbers"):
        simulate(network, 10.0, max_spikes=10_000)


@pytest.mark.parametrize("form", FORMS)
def test_an_enormous_drive_ends_in_an_error(form):
    """The guess of the first interval is 2 / (sum of drives), which overflows to zero."""
    network = in_form(SpikingNetwork(np.zeros((2, 2)), [1e308, 1e308], 1e297), form)
    with pytest.raises(RunawayError):
        simulate(network, 1.0, max_spikes=1000)


@pytest.mark.parametrize("form", FORMS)
def test_a_drive_of_next_to_nothing(form):
    """Subnormal drives: no crossing within the run, and none invented."""
    network = in_form(SpikingNetwork(np.zeros((3, 3)), [5e-324, -5e-324, 0.0]), form)
    state = NetworkState(membrane_potential=np.zeros(3), synaptic_current=[10.5, 10.5, 10.5])
    run = simulate(network, 1000.0, state=state)
    np.testing.assert_array_equal(run.spike_counts, [10, 10, 10])
    np.testing.assert_allclose(run.state.membrane_potential, 0.5, rtol=1e-12)


PROGRAM = """
import numpy as np
from scipy import sparse
from snn import SpikingNetwork, simulate
{network}
simulate(network, 1.0)
print("started", flush=True)
try:
    simulate(network, 1e9)
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    print("finished", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize(
    "network",
    [
        "network = SpikingNetwork(-1e-3 * sparse.diags_array(np.ones(299), offsets=1), np.ones(300))",
        "network = SpikingNetwork(sparse.csr_array((300, 300)), np.full(300, -1e-9))",
    ],
    ids=["busy", "silent"],
)
def test_control_c_ends_a_long_sparse_run(network):
    """Also a silent one, which has no spikes to count the work by."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(network=network)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "started\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=5.0)  # it takes a fraction of a second
        finally:
            process.kill()
    assert output == "interrupted\n"

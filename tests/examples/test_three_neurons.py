"""The three-neuron example: its numbers, and that it draws."""

import numpy as np
import pytest

from examples import three_neurons
from snn import simulate
from tests.reference.networks import FIRST_SPIKES

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def long_run():
    network, optimum = three_neurons.three_neuron_network()
    return simulate(network, 10_000.0, record_spikes=True), optimum


def test_golden_spikes(long_run):
    run, optimum = long_run
    times, neurons = zip(*FIRST_SPIKES, strict=True)
    assert run.spikes.neurons[:8].tolist() == list(neurons)
    np.testing.assert_allclose(run.spikes.times[:8], times, atol=0.5e-6)
    assert run.spike_counts[1] == 1
    assert run.n_spikes == 19_009
    # With the atoms as printed: normalising them moves the optimum by the rounding of four digits.
    np.testing.assert_allclose(optimum, [0.68306, 0.0, 1.21779], atol=1e-4)


def test_error_is_one_over_time(long_run):
    run, optimum = long_run
    for time, *distances in three_neurons.error_table(run.network, run, optimum):
        # Neuron 1 fired once: its rate alone is 1/t off.  The others are at most a few spikes off.
        assert distances[0] >= 0.999 / time
        assert max(distances) <= 3.0 / time


def test_example_draws_and_reports(tmp_path, capsys):
    assert three_neurons.main(["--output", str(tmp_path), "--duration", "200"]) == 0
    assert (tmp_path / "three_neurons.png").stat().st_size > 10_000
    report = capsys.readouterr().out
    assert "0.607629: 2, 0.748468: 0" in report
    assert str(tmp_path / "three_neurons.png") in report

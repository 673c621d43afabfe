"""A run beside that of the slow twin, which is told the weights as a dense matrix."""

from __future__ import annotations

import numpy as np

from snn import NetworkState, SimulationResult, SpikingNetwork, simulate
from tests.reference.simulator import SlowRun, simulate_slowly

# Rounding of 1e-16 in a time grows with every spike that feeds on it, less than threefold here, and
# few spikes do so in a row: 1e-9 leaves seven digits for that, and is far below any interval.
TOLERANCE = 1e-9


def assert_same_spikes(
    network: SpikingNetwork,
    weights: np.ndarray,
    duration: float,
    state: NetworkState | None = None,
    **tolerance: float,
) -> tuple[SimulationResult, SlowRun]:
    """Compare the spikes with the twin's; return the run and the twin's."""
    run = simulate(network, duration, state=state, record_spikes=True)
    slow = simulate_slowly(
        weights,
        network.soma_bias,
        network.firing_threshold,
        duration,
        membrane_potential=None if state is None else state.membrane_potential,
        synaptic_current=None if state is None else state.synaptic_current,
    )
    start = 0.0 if state is None else state.time
    np.testing.assert_array_equal(run.spikes.neurons, slow.neurons)
    tolerance = tolerance or {"rtol": 0, "atol": TOLERANCE}
    np.testing.assert_allclose(run.spikes.times - start, slow.times, **tolerance)
    return run, slow


def assert_same_as_twin(
    network: SpikingNetwork, weights: np.ndarray, duration: float, state: NetworkState | None = None
) -> SimulationResult:
    """Compare spikes, the state at the end, and what was delivered; return the run."""
    run, slow = assert_same_spikes(network, weights, duration, state)
    np.testing.assert_allclose(run.state.membrane_potential, slow.membrane_potential, atol=1e-8, rtol=1e-12)
    np.testing.assert_allclose(run.state.synaptic_current, slow.synaptic_current, atol=1e-8)
    assert run.operations.synaptic_operations == run.spike_counts @ np.count_nonzero(weights, axis=1)
    return run

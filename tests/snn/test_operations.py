"""Counts of operations agree with counts by hand and by brute force over dense matrices."""

import dataclasses

import numpy as np
import pytest

from snn import Clock, simulate
from snn.record.operations import OperationCounts
from tests.reference.networks import golden_network
from tests.reference.weight_forms import ANY_MATRIX, NAMES, in_form, random_matrix, stored


@pytest.mark.parametrize("form", ANY_MATRIX)
def test_hand_counts_of_the_golden_network(form):
    """Until t = 4 neurons fire in the order 2, 0, 1, 2, 0, 2, 2, 0; each spike reaches two neurons."""
    counts = simulate(in_form(golden_network(), form), 4.0).operations
    assert dataclasses.astuple(counts) == (8, 16, 0, 0, 12.0)


def test_hand_counts_of_the_golden_network_on_a_clock():
    """Each of three neurons is updated in each of 16 steps of 1/4."""
    exact = simulate(golden_network(), 4.0).operations.on_clock(0.25)
    clocked = simulate(golden_network(), 4.0, Clock(0.25)).operations
    for counts in (exact, clocked):
        assert (counts.neuron_updates, counts.neuron_time) == (48, 0.0)
        assert counts.synaptic_operations == 2 * counts.spikes
    assert exact.spikes == 8


def test_part_of_a_step_is_a_step_and_rounding_is_none():
    counts = OperationCounts(neuron_time=3 * 0.3)
    assert counts.on_clock(0.1).neuron_updates == 9  # 0.3 / 0.1 is below 3, but 0.9 / 0.1 is 9
    assert counts.on_clock(0.25).neuron_updates == 4  # neuron_time is 0.9
    assert counts.on_clock(1.0).neuron_updates == 1


@pytest.mark.parametrize("name", NAMES)
def test_every_form_of_weights_against_its_dense_matrix(name):
    """The reference counts deliveries spike by spike in the rows of the matrix."""
    rng = np.random.default_rng(3)
    matrix = random_matrix(name, rng, 12, density=0.6)
    network = stored(name, matrix, rng.uniform(0.2, 1.0, len(matrix)))
    exact = simulate(network, 12.0, record_spikes=True)
    clocked = simulate(network, 12.0, Clock(0.125), record_spikes=True)
    for run in (exact, clocked):
        reached = sum(np.count_nonzero(matrix[neuron]) for neuron in run.spikes.neurons)
        assert run.n_spikes > 20
        assert run.operations.spikes == len(run.spikes)
        assert run.operations.synaptic_operations == reached
    assert clocked.operations.neuron_updates == 96 * len(matrix)


def test_counts_of_several_runs_are_arrays_and_have_a_total():
    deliveries = np.array([[1, 0, 2], [0, 0, 0]]) @ golden_network().out_degree
    counts = OperationCounts(
        spikes=np.array([3, 0]), synaptic_operations=deliveries, neuron_time=3 * np.array([2.0, 0.5])
    )
    np.testing.assert_array_equal(counts.synaptic_operations, [6, 0])
    np.testing.assert_array_equal(counts.neuron_time, [6.0, 1.5])
    assert not counts.spikes.flags.writeable
    total = counts.total()
    assert (total.spikes, total.synaptic_operations, total.neuron_time) == (3, 6, 7.5)
    np.testing.assert_array_equal((counts + counts).spikes, [6, 0])
    np.testing.assert_array_equal(counts.on_clock(0.5).neuron_updates, [12, 3])


LONG = OperationCounts(neuron_time=np.array([1.0, 1e12]))
REFUSED = [
    (lambda: OperationCounts(spikes=1.5), TypeError, "spikes"),
    (lambda: OperationCounts(multiply_adds="many"), TypeError, "multiply_adds"),
    (lambda: OperationCounts(spikes=np.array([2, -1])), ValueError, "spikes"),
    (lambda: OperationCounts(neuron_time=-1.0), ValueError, "neuron_time"),
    (lambda: OperationCounts(neuron_time=np.nan), ValueError, "neuron_time"),
    (lambda: OperationCounts() + 1, TypeError, None),
    (lambda: 1 + OperationCounts(), TypeError, None),
    *((lambda step=step: LONG.on_clock(step), ValueError, "time_step") for step in (0.0, -1.0, np.inf)),
    (lambda: LONG.on_clock("a"), TypeError, "time_step"),
    (lambda: (LONG + OperationCounts(neuron_updates=3)).on_clock(0.25), ValueError, "neuron_updates"),
]


@pytest.mark.parametrize(("act", "error", "name"), REFUSED)
def test_what_is_refused(act, error, name):
    with pytest.raises(error, match=name):
        act()

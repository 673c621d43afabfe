"""Estimates of energy by hand, and what is refused."""

import numpy as np
import pytest

from snn import (
    ARITHMETIC_45NM,
    LOIHI,
    EnergyCosts,
    OperationCounts,
    energy_estimate,
    simulate,
    simulate_clocked,
)
from tests.reference.networks import golden_network

MACHINE = EnergyCosts(name="a machine", synaptic_operation=2.0, neuron_update=3.0, multiply_add=5.0)


def test_estimate_of_the_golden_network_by_hand():
    """16 synaptic operations at 23.6 pJ and 48 updates at 81 pJ."""
    counts = simulate(golden_network(), 4.0).operations.on_clock(0.25)
    estimate = energy_estimate(counts)
    assert estimate.picojoules == pytest.approx(16 * 23.6 + 48 * 81.0)
    assert str(estimate) == "estimate: 4.27 nJ (Loihi)"
    assert estimate.costs is LOIHI


def test_estimate_of_a_run_on_a_clock():
    counts = simulate_clocked(golden_network(), 4.0, time_step=0.25).operations
    expected = 2.0 * counts.synaptic_operations + 3.0 * 48
    assert energy_estimate(counts, costs=MACHINE).picojoules == expected


def test_estimate_of_each_signal():
    counts = OperationCounts(synaptic_operations=np.array([1, 0]), multiply_adds=np.array([0, 10]))
    estimate = energy_estimate(counts, costs=MACHINE)
    np.testing.assert_array_equal(estimate.picojoules, [2.0, 50.0])
    assert str(estimate) == "estimate: 52 pJ (a machine)"


def test_a_product_and_a_sum_of_floats():
    estimate = energy_estimate(OperationCounts(multiply_adds=10**9), costs=ARITHMETIC_45NM)
    assert estimate.picojoules == pytest.approx(4.6e9)
    assert str(estimate).startswith("estimate: 4.6 mJ")


def test_an_exact_run_has_no_updates_that_a_chip_would_do():
    counts = simulate(golden_network(), 4.0).operations
    with pytest.raises(
        ValueError, match=r"counts must have steps of a clock.*pass counts.on_clock\(time_step\)"
    ):
        energy_estimate(counts)
    # A machine whose neurons cost nothing by themselves is another matter.
    events = EnergyCosts(name="events", synaptic_operation=1.0)
    assert energy_estimate(counts, costs=events).picojoules == 16.0


def test_an_operation_without_a_cost_is_refused_and_not_free():
    with pytest.raises(
        ValueError, match="costs must have a cost for multiply_adds, of which there are 7; Loihi has"
    ):
        energy_estimate(OperationCounts(multiply_adds=7))
    with pytest.raises(ValueError, match="costs must have a cost for synaptic_operations"):
        energy_estimate(OperationCounts(synaptic_operations=np.array([0, 2])), costs=ARITHMETIC_45NM)


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (TypeError, "name must be", {"name": 3}),
        (TypeError, "source must be", {"name": "a", "source": None}),
        (TypeError, "neuron_update must be a real number", {"name": "a", "neuron_update": "much"}),
        (ValueError, "multiply_add must not be negative; got -1", {"name": "a", "multiply_add": -1}),
        (ValueError, "synaptic_operation must be finite", {"name": "a", "synaptic_operation": np.nan}),
    ],
)
def test_bad_tables(error, message, arguments):
    with pytest.raises(error, match=message):
        EnergyCosts(**arguments)


def test_bad_arguments_of_an_estimate():
    with pytest.raises(TypeError, match="counts must be"):
        energy_estimate(16)
    with pytest.raises(TypeError, match="costs must be"):
        energy_estimate(OperationCounts(), costs=23.6)

"""Spikes to NIR's events, through a file, and back."""

# ruff: noqa: E501 - a case a line reads better

import re

import numpy as np
import pytest

pytest.importorskip("nir", reason="NIR is an extra: pip install 'sparsespike[nir]'")
import nir

from snn import SpikeTrain, simulate
from snn.exchange import from_event_data, from_nir, to_event_data, to_nir
from tests.reference.networks import random_network


@pytest.fixture(scope="module")
def spikes():
    return simulate(random_network(np.random.default_rng(1), 12), 20.0, record_spikes=True).spikes


def require_equal(one, other):
    np.testing.assert_array_equal(one.times, other.times)
    np.testing.assert_array_equal(one.neurons, other.neurons)
    assert (one.n_neurons, one.start, one.stop) == (other.n_neurons, other.start, other.stop)


def test_there_and_back(spikes):
    data = to_event_data(spikes)
    assert data.shape == (1, len(spikes))
    assert data.n_neurons == 12
    assert data.t_max == 20.0
    require_equal(from_event_data(data), spikes)


def test_through_a_file_by_node(spikes, tmp_path):
    network = random_network(np.random.default_rng(1), 12)
    came = from_nir(to_nir(network, populations={"a": 5, "b": 7}))
    data = came.spikes_by_node(spikes)
    assert data.check_nodes(to_nir(network, populations={"a": 5, "b": 7})) is None
    nir.write_data(tmp_path / "spikes.h5", data)
    back = nir.read_data(tmp_path / "spikes.h5")
    for name, first, n in (("a", 0, 5), ("b", 5, 7)):
        train = from_event_data(back.nodes[name].observables["spikes"])
        assert train.n_neurons == n
        for neuron in range(n):
            np.testing.assert_array_equal(train.of(neuron), spikes.of(first + neuron))


def test_no_spikes():
    silent = SpikeTrain(times=[], neurons=[], n_neurons=3, start=0.0, stop=2.0)
    require_equal(from_event_data(to_event_data(silent)), silent)


def test_rows_that_are_filled_up_and_not_in_order():
    """As NIR and jaxsnn fill rows: index -1, at infinity or at twice the end."""
    data = nir.EventData(
        idx=np.array([[2, 0, -1, -1], [1, 1, 0, -1]]),
        time=np.array([[3.0, 1.0, np.inf, 20.0], [0.0, 2.0, 10.0, np.inf]]),
        n_neurons=3,
        t_max=10.0,
    )
    first, second = from_event_data(data), from_event_data(data, sample=1)
    np.testing.assert_array_equal(first.times, [1.0, 3.0])
    np.testing.assert_array_equal(first.neurons, [0, 2])
    np.testing.assert_array_equal(second.times, [0.0, 2.0, 10.0])


def test_the_grid_of_nir_has_the_same_spikes(spikes):
    """NIR's own conversion to steps: as many spikes, as no neuron fires twice in one."""
    gridded = to_event_data(spikes).to_time_gridded(2.0**-12)
    np.testing.assert_array_equal(gridded.data[0].sum(axis=0), spikes.counts())


def events(**changes):
    values = {"idx": np.array([[0, 1]]), "time": np.array([[1.0, 2.0]]), "n_neurons": 2, "t_max": 3.0}
    return nir.EventData(**{**values, **changes})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: "spikes", TypeError, "data must be an EventData; got str"),
        (lambda: nir.TimeGriddedData(np.zeros((1, 2, 3), bool), 0.1), TypeError, "data must be an EventData; got TimeGriddedData: pass what its to_event returns"),
        (lambda: nir.ValuedEventData(np.array([[0]]), np.array([[1.0]]), 1, 2.0, np.array([[3.0]])), TypeError, "data must be events without values, as spikes are; got ValuedEventData"),
        (lambda: events(idx=np.array([0, 1]), time=np.array([0.0, 1.0])), ValueError, "data must have idx and"),
        (lambda: events(idx=np.array([[0.0, 1.0]])), TypeError, "data must have integers for idx"),
        (lambda: events(idx=np.array([[0, 2]])), ValueError, "idx of data must lie in [0, 2), or be -1; got 0 to 2"),
        (lambda: events(idx=np.array([[0, -2]])), ValueError, "idx of data must lie in [0, 2), or be -1"),
        (lambda: events(time=np.array([[1.0, 4.0]])), ValueError, "time of data must lie in [0, t_max] = [0, 3.0]; got 4.0"),
        (lambda: events(time=np.array([[np.nan, 1.0]])), ValueError, "time of data must lie in"),
        (lambda: events(n_neurons=0), ValueError, "n_neurons of data must be positive"),
        (lambda: events(t_max=-1.0), ValueError, "t_max of data must not be negative"),
    ],
)  # fmt: skip
def test_events_that_are_no_spikes(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        from_event_data(make())


def test_sample_out_of_range():
    with pytest.raises(ValueError, match=r"sample must lie in \[0, 1\); got 1"):
        from_event_data(events(), sample=1)


def test_records_that_start_later_are_refused():
    later = SpikeTrain(times=[6.0], neurons=[0], n_neurons=1, start=5.0, stop=7.0)
    with pytest.raises(
        ValueError, match=r"spikes must be recorded from time 0 on, .*; got 5\.0: make a SpikeTrain"
    ):
        to_event_data(later)
    with pytest.raises(TypeError, match="spikes must be a SpikeTrain"):
        to_event_data("spikes")


def test_spikes_of_another_network_are_refused(spikes):
    came = from_nir(to_nir(random_network(np.random.default_rng(1), 5)))
    with pytest.raises(ValueError, match="spikes must be of 5 neurons; got those of 12"):
        came.spikes_by_node(spikes)
    with pytest.raises(TypeError, match="spikes must be a SpikeTrain; got str"):
        came.spikes_by_node("spikes")

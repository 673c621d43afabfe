"""Pictures: drawn where asked, with as many artists as there are things to show."""

import pickle
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pytest

from snn import SpikeTrain, SpikingNetwork, Stimulus, explain, simulate
from snn.base.drawn import plot
from snn.pictures import potentials, rates_against_time
from tests.processes import run_python
from tests.reference.networks import golden_network


@pytest.fixture
def ax():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)
    assert not plt.get_fignums()


@pytest.fixture(scope="module")
def spikes():
    return simulate(golden_network(), 20.0, record_spikes=True).spikes


def test_raster_shows_every_spike_of_the_neurons_asked_for(ax, spikes):
    assert spikes.plot(ax=ax) is ax
    (marks,) = ax.collections
    np.testing.assert_array_equal(marks.get_offsets(), np.column_stack([spikes.times, spikes.neurons]))
    assert ax.get_xlim() == (0.0, 20.0)


def test_raster_of_some_neurons_in_their_own_order(ax, spikes):
    spikes.plot(neurons=[2, 0], ax=ax)
    (marks,) = ax.collections
    offsets = np.asarray(marks.get_offsets())
    np.testing.assert_array_equal(offsets[offsets[:, 1] == 0, 0], spikes.of(2))
    np.testing.assert_array_equal(offsets[offsets[:, 1] == 1, 0], spikes.of(0))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["2", "0"]


@pytest.mark.parametrize("is_recorded", [True, False], ids=["raster", "rates"])
def test_many_chosen_neurons_are_named_by_their_indices(ax, is_recorded):
    chosen = np.random.default_rng(0).permutation(200)[:50]
    network = SpikingNetwork(np.zeros((200, 200)), np.linspace(0.5, 2.0, 200))
    run = simulate(network, 20.0, record_spikes=is_recorded)
    run.plot(neurons=chosen, ax=ax)
    ax.figure.canvas.draw()
    axis = ax.yaxis if is_recorded else ax.xaxis
    named = {}
    for tick, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True):
        if 0 <= tick < 50:
            named[int(tick)] = int(label.get_text())
        else:
            assert label.get_text() == ""
    assert len(named) >= 5
    for row, neuron in named.items():
        assert neuron == chosen[row]
        offsets = np.asarray(ax.collections[-1].get_offsets())
        if is_recorded:
            np.testing.assert_array_equal(offsets[offsets[:, 1] == row, 0], run.spikes.of(neuron))
        else:
            heights = offsets[offsets[:, 0] == row, 1]
            np.testing.assert_array_equal(heights, run.spike_rate[neuron] if len(heights) else [])
    assert pickle.dumps(ax.figure)  # copies are drawn elsewhere


def test_without_recorded_spikes_the_option_is_named():
    run = simulate(golden_network(), 1.0)
    for draw in (rates_against_time, partial(potentials, golden_network(), neurons=[0])):
        with pytest.raises(TypeError, match="got None: run the network with record_spikes=True"):
            draw(spikes=run.spikes)


def test_matplotlib_is_imported_when_a_result_is_first_drawn():
    code = """
import sys, dictlearn, snn
spikes = snn.SpikeTrain(times=[0.5], neurons=[0], n_neurons=1, start=0.0, stop=1.0)
assert not {"matplotlib", "snn.pictures"} & set(sys.modules)
spikes.plot()
assert "snn.pictures" in sys.modules and "solvers.pictures" not in sys.modules
"""
    run_python("-c", code)


def test_a_class_that_inherits_from_a_result_is_drawn_like_it(ax):
    class Chosen(SpikeTrain):
        pass

    Chosen(times=[0.5], neurons=[0], n_neurons=1, start=0.0, stop=1.0).plot(ax=ax)
    assert ax.get_title() == "1 spike of 1 neuron"
    with pytest.raises(TypeError, match="value must be of a type that has a picture; got ndarray"):
        plot(np.ones(3))


def test_options_that_a_picture_does_not_have_are_named(spikes):
    with pytest.raises(TypeError, match=r"SpikeTrain\.plot takes neurons and ax; got neuron"):
        spikes.plot(neuron=[0])
    assert not plt.get_fignums()


def test_raster_of_silence(ax):
    SpikeTrain(times=[], neurons=[], n_neurons=30, start=0.0, stop=1.0).plot(ax=ax)
    assert len(ax.collections[0].get_offsets()) == 0


def test_potentials_reach_the_threshold_at_each_spike_and_start_again_at_zero(ax, spikes):
    network = golden_network()
    assert potentials(network, spikes, neurons=[0, 2], n_times=200, ax=ax) is ax
    assert len(ax.lines) == 2
    for line, neuron in zip(ax.lines, [0, 2], strict=True):
        times, values = line.get_data()
        own = spikes.of(neuron)
        assert len(times) == 200 + 2 * len(own)
        for t in own:
            before, after = values[times == t]
            assert before == network.firing_threshold[neuron]
            assert after == pytest.approx(0.0, abs=1e-9)
        assert values.max() <= network.firing_threshold[neuron] + 1e-9
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["neuron 0", "neuron 2"]


def test_potentials_of_a_run_with_a_stimulus(ax):
    network = golden_network()
    stimulus = Stimulus(drive_times=[5.0], drive=[network.soma_bias[::-1]])
    run = simulate(network, 20.0, stimulus=stimulus, record_spikes=True)
    potentials(network, run.spikes, neurons=[0], stimulus=stimulus, ax=ax)
    values = ax.lines[0].get_ydata()
    assert values[-1] == pytest.approx(run.state.membrane_potential[0], abs=1e-9)
    assert values.max() <= network.firing_threshold[0] + 1e-9


def test_rates_and_their_limits(ax, spikes):
    limits = np.array([0.7, 0.0, 1.2])
    assert rates_against_time(spikes, limits=limits, n_times=50, ax=ax) is ax
    assert len(ax.lines) == 6
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(len(spikes.of(0)) / 20.0)
    assert list(ax.lines[5].get_ydata()) == [1.2, 1.2]
    assert ax.lines[2].get_color() == ax.lines[5].get_color()


def test_without_ax_the_current_axes_are_used(ax, spikes):
    network = golden_network()
    assert spikes.plot() is ax
    assert potentials(network, spikes, neurons=[1]) is ax
    assert rates_against_time(spikes, neurons=[1]) is ax
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("n_sources", [1, 10])
def test_charges_reach_the_threshold(ax, spikes, n_sources):
    network = golden_network()
    explanation = explain(network, spikes, len(spikes) - 1)
    assert explanation.plot(n_sources=n_sources, ax=ax) is ax
    bars = ax.patches
    assert len(bars) == len(explanation.parts(n_sources)) > 1
    assert bars[0].get_x() == 0.0
    last = bars[-1]
    ends = {last.get_x() + last.get_width(), last.get_x()}
    threshold = network.firing_threshold[explanation.neuron]
    assert min(abs(end - threshold) for end in ends) < 1e-12

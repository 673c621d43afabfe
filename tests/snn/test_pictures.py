"""Pictures are drawn in the given axes, with one artist for each thing to show."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from snn import Record, SpikeTrain, SpikingNetwork, Stimulus, simulate
from snn.pictures import rates_against_time
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


def test_a_raster_shows_every_spike(ax, spikes):
    assert spikes.plot(ax=ax) is ax
    np.testing.assert_array_equal(
        ax.collections[0].get_offsets(), np.column_stack([spikes.times, spikes.neurons])
    )
    assert ax.get_xlim() == (0.0, 20.0)


def test_populations_have_rows_a_colour_and_a_name(ax, spikes):
    spikes.plot(populations={"later": [2], "first": [0, 1]}, ax=ax)
    offsets = ax.collections[0].get_offsets()
    expected = np.column_stack([spikes.times, np.array([1, 2, 0])[spikes.neurons]])
    np.testing.assert_array_equal(offsets, expected)
    colours = ax.collections[0].get_edgecolors()
    assert len(np.unique(colours[spikes.neurons == 2], axis=0)) == 1
    assert len(np.unique(colours, axis=0)) == 2
    assert [text.get_text() for text in ax.texts] == ["later", "first"]
    with pytest.raises(ValueError, match="neurons must be None if populations are passed"):
        spikes.plot(populations={"first": [0]}, neurons=[1])


def test_a_record_is_drawn_from_start_to_stop(ax):
    record = simulate(golden_network(), 20.0, record_spikes=True).record
    record.plot(start=5.0, stop=7.0, neurons=[0], ax=ax)
    times, potentials = ax.lines[0].get_data()
    assert (times.min(), times.max()) == ax.get_xlim() == (5.0, 7.0)
    np.testing.assert_allclose(potentials[times == 6.0], record.potential([6.0])[0, 0])


def test_a_raster_says_how_many_neurons_it_leaves_out(ax):
    pair = {"times": np.array([1.0, 2.0]), "neurons": np.array([3, 5])}
    one = SpikeTrain(**pair, n_neurons=1400, start=0.0, stop=3.0)
    assert one.plot(ax=ax).get_title() == "2 spikes of 2 neurons among 1,400"


def random_train(n_neurons, n_spikes, start=0.0):
    """Return spikes, three quarters of them by the first half of the neurons."""
    rng = np.random.default_rng(0)
    half = n_neurons // 2
    neurons = np.where(rng.random(n_spikes) < 0.75, 0, half) + rng.integers(half, size=n_spikes)
    times = np.sort(rng.uniform(start, 100.0, n_spikes))
    return SpikeTrain(times=times, neurons=neurons, n_neurons=n_neurons, start=start, stop=100.0)


def darkness(ax):
    """Return the darkness of each pixel within axes, 0 (white) to 1, without ticks and frame."""
    figure = ax.figure.canvas.figure
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[::-1, :, :3].mean(axis=2)
    x0, y0, x1, y1 = ax.get_window_extent().extents.round().astype(int)
    margin = max(int(6 * figure.dpi / 100), 4)
    return 1.0 - pixels[y0 + margin : y1 - margin, x0 + margin : x1 - margin] / 255.0


AXES = {
    "usual": lambda: plt.figure(layout="constrained").subplots(),
    "large": lambda: plt.figure(figsize=(12, 9), dpi=200).subplots(),
    "small": lambda: plt.figure(figsize=(3, 2), dpi=72).subplots(),
    "one of many": lambda: plt.figure(figsize=(9, 8)).subplots(4, 3)[1, 1],
    "inset": lambda: plt.figure().add_axes((0.1, 0.1, 0.3, 0.2)),
    "subfigure": lambda: plt.figure(figsize=(8, 4)).subfigures(1, 2)[0].subplots(),
    "logarithmic": lambda: plt.figure().add_subplot(xscale="log"),
}


@pytest.mark.parametrize("where", AXES)
@pytest.mark.parametrize(
    ("n_neurons", "n_spikes"), [(20, 400), (300, 1500), (1000, 3000), (10_000, 20_000), (10_000, 1_000_000)]
)
def test_a_raster_of_any_number_of_neurons_shows_what_fired(where, n_neurons, n_spikes):
    ax = AXES[where]()
    start = 0.0 if where != "logarithmic" else 1.0
    random_train(n_neurons, n_spikes, start).plot(ax=ax)
    dark = darkness(ax)
    lower, upper = np.array_split(dark, 2)
    plt.close("all")
    assert (dark > 0.1).mean() > 0.01
    assert upper.mean() > 1.1 * lower.mean()


@pytest.mark.parametrize("ending", ["pdf", "svg"])
def test_a_file_of_a_million_spikes_is_small(ax, tmp_path, ending):
    random_train(10_000, 1_000_000).plot(ax=ax)
    ax.figure.savefig(tmp_path / f"raster.{ending}")
    assert (tmp_path / f"raster.{ending}").stat().st_size < 5e6


@pytest.mark.parametrize("dpi", [50, 72, 100, 300])
def test_a_raster_that_is_saved_with_fewer_or_more_pixels_shows_as_much(ax, tmp_path, dpi):
    random_train(500, 2000).plot(ax=ax)
    ax.set_axis_off()
    ax.figure.savefig(tmp_path / "raster.png", dpi=dpi)
    assert (plt.imread(tmp_path / "raster.png")[..., :3].mean(axis=2) < 0.9).mean() > 0.01


@pytest.mark.parametrize("is_recorded", [True, False], ids=["raster", "rates"])
@pytest.mark.parametrize("n_chosen", [2, 50])
def test_chosen_neurons_are_named_by_their_indices(ax, is_recorded, n_chosen):
    chosen = np.random.default_rng(0).permutation(200)[:n_chosen]
    network = SpikingNetwork(np.zeros((200, 200)), np.linspace(0.5, 2.0, 200))
    run = simulate(network, 20.0, record_spikes=is_recorded)
    run.plot(neurons=chosen, ax=ax)
    ax.figure.canvas.draw()
    axis = ax.yaxis if is_recorded else ax.xaxis
    labels = [
        (tick, label.get_text())
        for tick, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    ]
    named = {int(tick): int(text) for tick, text in labels if text}
    assert len(named) >= min(n_chosen, 5)
    offsets = np.asarray(ax.collections[-1].get_offsets())
    for row, neuron in named.items():
        assert neuron == chosen[row]
        if is_recorded:
            np.testing.assert_array_equal(offsets[offsets[:, 1] == row, 0], run.spikes.of(neuron))
        else:
            heights = offsets[offsets[:, 0] == row, 1]
            np.testing.assert_array_equal(heights, run.spike_rate[neuron] if len(heights) else [])


@pytest.mark.parametrize("has_stimulus", [False, True])
def test_potentials_reach_the_threshold_at_each_spike_and_start_again_at_zero(ax, has_stimulus):
    network = golden_network()
    stimulus = Stimulus(drive_times=[5.0], drive=[network.soma_bias[::-1]]) if has_stimulus else None
    run = simulate(network, 20.0, stimulus=stimulus, record_spikes=True)
    assert run.record.plot(neurons=[0, 2], n_times=200, ax=ax) is ax
    assert len(ax.lines) == 2
    for line, neuron in zip(ax.lines, [0, 2], strict=True):
        (times, values), own = line.get_data(), run.spikes.of(neuron)
        assert len(times) == 200 + 2 * len(own)
        for t in own:
            assert values[times == t] == pytest.approx([network.firing_threshold[neuron], 0.0], abs=1e-9)
        assert values.max() <= network.firing_threshold[neuron] + 1e-9
        assert values[-1] == pytest.approx(run.state.membrane_potential[neuron], abs=1e-9)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["neuron 0", "neuron 2"]


def test_rates_and_their_limits(ax, spikes):
    assert rates_against_time(spikes, limits=np.array([0.7, 0.0, 1.2]), n_times=50, ax=ax) is ax
    assert len(ax.lines) == 6
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(len(spikes.of(0)) / 20.0)
    assert list(ax.lines[5].get_ydata()) == [1.2, 1.2]
    assert ax.lines[2].get_color() == ax.lines[5].get_color()


@pytest.mark.parametrize("n_sources", [1, 10])
def test_charges_reach_the_threshold(ax, spikes, n_sources):
    told = Record(golden_network(), spikes).explain(-1)
    assert told.plot(n_sources=n_sources, ax=ax) is ax
    assert len(ax.patches) == len(told.parts(n_sources)) > 1
    assert ax.patches[0].get_x() == 0.0
    last = ax.patches[-1]
    ends = np.array([last.get_x() + last.get_width(), last.get_x()])
    assert np.abs(ends - told.firing_threshold).min() < 1e-12

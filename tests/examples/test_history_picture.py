"""The picture of a network that finds its code: its panels show the history."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.animation import FuncAnimation
from matplotlib.figure import Figure
from PIL import Image

from examples.history_picture import HistoryPicture
from solvers import ConvolutionalDictionary, LassoProblem, code_history

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def history():
    rng = np.random.default_rng(0)
    problem = LassoProblem(rng.standard_normal((24, 12)), rng.standard_normal((3, 12)), 0.6)
    return code_history(problem, 0, tol=1e-3, n_times=6)


def last_picture(history, **options):
    """Return the figure with the state at the end."""
    picture = HistoryPicture(history, figure=Figure(), **options)
    picture.draw(len(history.times) - 1)
    return picture.figure


def test_the_last_picture_shows_the_last_code(history):
    figure = last_picture(history, image_shape=(3, 4), n_atoms=5, title="One signal")
    signal, coded, gap, raster, pictures, code = figure.axes
    np.testing.assert_array_equal(signal.images[0].get_array(), history.problem.signals.reshape(3, 4))
    shown = history.problem.reconstruct(history.codes)[-1]
    np.testing.assert_array_equal(coded.images[0].get_array(), shown.reshape(3, 4))
    times, gaps = gap.lines[0].get_data()
    np.testing.assert_array_equal(times, history.times)
    np.testing.assert_array_equal(gaps, history.relative_gap)
    atoms = np.argsort(-np.abs(history.optimum), kind="stable")[:5]
    assert [bar.get_width() for bar in code.patches] == history.codes[-1, atoms].tolist()
    assert code.lines[0].get_xdata().tolist() == history.optimum[atoms].tolist()
    for picture, atom in zip(pictures.images, atoms, strict=True):
        np.testing.assert_array_equal(picture.get_array(), history.problem.dictionary[atom].reshape(3, 4))
    n_ticks = np.isin(history.spikes.neurons % 24, atoms).sum()
    assert len(raster.collections[0].get_segments()) == n_ticks
    assert raster.get_title() == f"{len(history.spikes)} spikes, stage {len(history.stages)}"
    assert figure.get_suptitle() == "One signal"


def test_an_animation_has_a_picture_for_each_time(history, tmp_path):
    picture = HistoryPicture(history)
    animation = FuncAnimation(picture.figure, picture.draw, frames=len(history.times))
    animation.save(tmp_path / "network.gif", dpi=40)
    with Image.open(tmp_path / "network.gif") as written:
        assert written.n_frames == 6
    assert plt.get_fignums() == [animation._fig.number]


def test_signals_that_are_no_images_are_lines(history):
    figure = last_picture(history, n_atoms=3)
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}
    np.testing.assert_array_equal(lines["signal"], history.problem.signals[0])
    np.testing.assert_array_equal(lines["coded"], history.problem.reconstruct(history.codes)[-1])


def test_atoms_of_a_convolutional_dictionary_are_drawn():
    rng = np.random.default_rng(1)
    dictionary = ConvolutionalDictionary(rng.standard_normal((2, 3, 3)), (8, 8), 1)
    problem = LassoProblem(dictionary, rng.standard_normal((1, dictionary.shape[1])), 1.5)
    history = code_history(problem, tol=1e-2, n_times=2)
    figure = last_picture(history, image_shape=(8, 8), n_atoms=2)
    drawn = figure.axes[4].images[0].get_array()
    atom = np.abs(history.optimum).argmax()
    np.testing.assert_allclose(drawn.ravel(), history.problem.dictionary.toarray()[atom], rtol=0, atol=1e-15)


def test_nothing_is_drawn_of_a_shape_that_signals_do_not_have(history):
    with pytest.raises(ValueError, match=r"that of a signal of 12 features; got \(3, 5\)"):
        HistoryPicture(history, image_shape=(3, 5))
    assert not plt.get_fignums()


def test_a_run_without_spikes_is_drawn():
    last_picture(code_history(LassoProblem(np.eye(3), [[0.1, 0.2, 0.0]], 1.0), n_times=5))

"""Pictures of atoms and of learning."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from dictlearn import ConvolutionalDictionaryLearning, SpikingDictionaryLearning, overcomplete_dct
from dictlearn.pictures import plot_atoms


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def fitted():
    signals = np.random.default_rng(0).standard_normal((400, 4)) * 0.5
    return SpikingDictionaryLearning(6, max_iter=8, random_state=0).fit(signals)


def test_atoms_are_drawn_as_rows_or_as_patches(ax):
    dictionary = np.random.default_rng(0).standard_normal((6, 4))
    (image,) = plot_atoms(dictionary, ax=ax).images
    np.testing.assert_array_equal(image.get_array(), dictionary)
    low, high = image.get_clim()
    assert high == -low == np.abs(dictionary).max()
    (patches,) = plot_atoms(dictionary, 2, columns=3, ax=Figure().subplots()).images
    assert patches.get_array().shape == (5, 8)  # two rows of three patches, and lines between


@pytest.mark.parametrize("channels", [(), (1,), (3,)])
def test_kernels_are_drawn_as_they_are(channels, ax):
    images = np.random.default_rng(0).random((2, 12, 14, *channels))
    learning = ConvolutionalDictionaryLearning(
        4, kernel_size=(3, 5), stride=1, crop_size=12, alpha=0.2, random_state=0
    ).fit(images)
    (image,) = plot_atoms(learning.components_, columns=2, ax=ax).images
    drawn = np.ma.getdata(image.get_array())
    assert drawn.shape[:2] == (7, 11)
    kernel = learning.components_[3]
    expected = kernel / np.abs(kernel).max()
    if channels == (3,):
        np.testing.assert_allclose(drawn[4:, 6:], 0.5 + 0.5 * expected, rtol=0, atol=1e-12)
    else:
        np.testing.assert_allclose(drawn[4:, 6:], expected.reshape(3, 5), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="patch_size must be None for kernels, which are 3 x 5; got 8"):
        plot_atoms(learning.components_, 8)
    with pytest.raises(ValueError, match=r"1 or 3 channels; got shape \(2, 3, 3, 2\)"):
        plot_atoms(np.ones((2, 3, 3, 2)))


def test_learning_is_drawn_from_the_history(fitted):
    history = fitted.learner_.history
    assert len(history["n_samples"]) == 3
    for quantity in ("objective", "nonzeros", "consistency", "median_norm"):
        ax = fitted.learner_.plot(quantity=quantity, ax=Figure().subplots(), label="a", color="red")
        (line,) = ax.lines
        samples, values = line.get_data()
        np.testing.assert_array_equal(samples, history["n_samples"])
        np.testing.assert_array_equal(values, history[quantity])
        assert line.get_color() == "red"
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a"]


def test_bad_arguments_are_named(fitted):
    for arguments, options, error, name in (
        ((np.ones((3, 64)), 7), {}, ValueError, "patch_size 7"),
        ((np.ones(4), 2), {}, ValueError, "dictionary"),
        ((np.ones((3, 4)), 2), {"columns": 0}, ValueError, "columns"),
        (([["a"] * 4], 2), {}, TypeError, "dictionary"),
    ):
        with pytest.raises(error, match=name):
            plot_atoms(*arguments, **options)
    with pytest.raises(ValueError, match="quantity"):
        fitted.learner_.plot(quantity="loss")
    with pytest.raises(ValueError, match="columns"):
        plot_atoms(fitted.components_, columns=3)
    with pytest.raises(ValueError, match="patch_size 3"):
        plot_atoms(fitted.components_, patch_size=3)
    short = SpikingDictionaryLearning(3, max_iter=1).fit(np.eye(20, 4))
    with pytest.raises(ValueError, match="there were 20"):
        short.learner_.plot()


def test_mosaic_shows_each_atom_at_its_own_scale():
    dictionary = np.array([[1.0, -2.0], [0.0, 0.0], [3.0, 3.0]])
    ax = plot_atoms(dictionary, (1, 2), ax=Figure().subplots(), columns=2)
    shown = ax.images[0].get_array()
    nothing = np.nan
    expected = [[0.5, -1.0, nothing, 0.0, 0.0], [nothing] * 5, [1.0, 1.0, nothing, nothing, nothing]]
    np.testing.assert_array_equal(np.ma.filled(shown, np.nan), expected)


def test_mosaic_of_colour_has_grey_for_zero_and_white_between():
    dictionary = np.array([[1.0, -2.0, 0.0, 0.0, 0.0, 2.0], [0.0] * 6])
    shown = plot_atoms(dictionary, (1, 2), ax=Figure().subplots(), columns=2).images[0].get_array()
    expected = [[[0.75, 0.0, 0.5], [0.5, 0.5, 1.0], [1.0] * 3, [0.5] * 3, [0.5] * 3]]
    np.testing.assert_array_equal(shown, expected)


def test_mosaic_is_about_square_and_uses_the_current_axes():
    import matplotlib.pyplot as plt

    figure = plt.figure()
    try:
        ax = plot_atoms(overcomplete_dct(8, 256), 8)
        assert ax is plt.gca()
        assert ax.images[0].get_array().shape == (16 * 9 - 1, 16 * 9 - 1)
    finally:
        plt.close(figure)


def test_curves_are_drawn_as_curves():
    rng = np.random.default_rng(0)
    signal = np.convolve(rng.standard_normal(900) * (rng.random(900) < 0.03), np.hanning(20))
    estimator = ConvolutionalDictionaryLearning(3, kernel_size=32, alpha=0.1, random_state=0).fit(signal)
    axes = [Figure().subplots() for _ in range(4)]
    estimator.learner_.plot(ax=axes[0])
    coded = estimator.encode(signal)[0]
    coded.plot(ax=axes[1])
    coded.prepared.plot(ax=axes[2])
    plot_atoms(rng.standard_normal((5, 20, 2)), curves=True, columns=2, ax=axes[3])
    assert not any(ax.images for ax in axes)
    assert len(axes[3].lines) == 2, "a line for each channel"
    lines = axes[0].lines[0].get_xydata().reshape(3, 33, 2)[:, :-1]
    for atom, drawn in zip(estimator.components_, lines, strict=True):
        assert np.corrcoef(atom, drawn[:, 1])[0, 1] > 1 - 1e-12
    np.testing.assert_array_equal(axes[1].lines[0].get_ydata(), coded.image)
    with pytest.raises(ValueError, match="patch_size must be None for curves; got 4"):
        plot_atoms(np.ones((2, 4)), 4, curves=True)

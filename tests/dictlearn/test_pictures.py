"""Pictures of atoms and of learning."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from dictlearn import ConvolutionalDictionaryLearning, SpikingDictionaryLearning
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
    with pytest.raises(ValueError, match=r"quantity must be one of 'objective', .*; got 'loss'"):
        fitted.learner_.plot(quantity="loss")
    with pytest.raises(ValueError, match="columns must be None without a patch_size; got 3"):
        plot_atoms(fitted.components_, columns=3)
    with pytest.raises(
        ValueError, match="patch_size 3 needs atoms of 9 numbers, or 27 in colour; these have 4"
    ):
        plot_atoms(fitted.components_, patch_size=3)
    short = SpikingDictionaryLearning(3, max_iter=1).fit(np.eye(20, 4))
    with pytest.raises(ValueError, match="there were 20: learn from at least 1,000 in all"):
        short.learner_.plot()

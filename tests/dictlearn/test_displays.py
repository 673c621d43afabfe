"""Displays of atoms and of learning."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import NotFittedError

from dictlearn import (
    AtomsDisplay,
    ConvolutionalDictionaryLearning,
    LearningDisplay,
    SpikingDictionaryLearning,
)
from solvers import SpikingSparseCoder


@pytest.fixture(scope="module")
def fitted():
    signals = np.random.default_rng(0).standard_normal((400, 4)) * 0.5
    return SpikingDictionaryLearning(6, max_iter=8, random_state=0).fit(signals)


def test_atoms_of_any_estimator_are_drawn(fitted):
    theirs = MiniBatchDictionaryLearning(5, max_iter=2, random_state=0).fit(np.eye(9, 4))
    coder = SpikingSparseCoder(fitted.components_, alpha=0.1)
    for estimator, dictionary in (
        (fitted, fitted.components_),
        (theirs, theirs.components_),
        (coder, fitted.components_),
    ):
        display = AtomsDisplay.from_estimator(estimator, ax=Figure().subplots())
        np.testing.assert_array_equal(display.image_.get_array(), dictionary)
        low, high = display.image_.get_clim()
        assert high == -low == np.abs(dictionary).max()
    patches = AtomsDisplay.from_estimator(fitted, patch_size=2, columns=3, ax=Figure().subplots())
    assert patches.image_.get_array().shape == (5, 8)  # two rows of three patches, and lines between
    new = patches.plot()
    assert new is patches
    assert new.figure_.axes == [new.ax_]


@pytest.mark.parametrize("channels", [(), (1,), (3,)])
def test_kernels_are_drawn_as_they_are(channels):
    images = np.random.default_rng(0).random((2, 12, 14, *channels))
    learning = ConvolutionalDictionaryLearning(
        4, kernel_size=(3, 5), stride=1, crop_size=12, alpha=0.2, random_state=0
    ).fit(images)
    display = AtomsDisplay.from_estimator(learning, columns=2, ax=Figure().subplots())
    drawn = np.ma.getdata(display.image_.get_array())
    assert drawn.shape[:2] == (7, 11)
    kernel = learning.components_[3]
    expected = kernel / np.abs(kernel).max()
    if channels == (3,):
        np.testing.assert_allclose(drawn[4:, 6:], 0.5 + 0.5 * expected, rtol=0, atol=1e-12)
    else:
        np.testing.assert_allclose(drawn[4:, 6:], expected.reshape(3, 5), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="patch_size must be None for kernels, which are 3 x 5; got 8"):
        AtomsDisplay.from_estimator(learning, patch_size=8)
    with pytest.raises(ValueError, match=r"1 or 3 channels; got shape \(2, 3, 3, 2\)"):
        AtomsDisplay(dictionary=np.ones((2, 3, 3, 2))).plot()


def test_learning_is_drawn_from_the_history(fitted):
    history = fitted.learner_.history
    assert len(history["n_samples"]) == 3
    for quantity in ("objective", "nonzeros", "consistency", "median_norm"):
        display = LearningDisplay.from_estimator(fitted, quantity=quantity, ax=Figure().subplots(), label="a")
        samples, values = display.line_.get_data()
        np.testing.assert_array_equal(samples, history["n_samples"])
        np.testing.assert_array_equal(values, history[quantity])
    again = display.plot()
    assert again is display
    assert again.figure_.axes == [again.ax_]
    assert LearningDisplay.from_learner(fitted.learner_, ax=Figure().subplots()).quantity == "objective"


def test_bad_arguments_of_displays_are_named(fitted):
    with pytest.raises(NotFittedError):
        AtomsDisplay.from_estimator(SpikingDictionaryLearning())
    with pytest.raises(NotFittedError):
        LearningDisplay.from_estimator(SpikingDictionaryLearning())
    with pytest.raises(ValueError, match=r"quantity must be one of 'objective', .*; got 'loss'"):
        LearningDisplay.from_estimator(fitted, quantity="loss")
    with pytest.raises(TypeError, match="learner must be a TwoPhaseLearner; got SpikingDictionaryLearning"):
        LearningDisplay.from_learner(fitted)
    with pytest.raises(ValueError, match="columns must be None without a patch_size; got 3"):
        AtomsDisplay.from_estimator(fitted, columns=3)
    with pytest.raises(
        ValueError, match="patch_size 3 needs atoms of 9 numbers, or 27 in colour; these have 4"
    ):
        AtomsDisplay.from_estimator(fitted, patch_size=3)
    short = SpikingDictionaryLearning(3, max_iter=1).fit(np.eye(20, 4))
    with pytest.raises(ValueError, match="there were 20: learn from at least 1,000 in all"):
        LearningDisplay.from_estimator(short)

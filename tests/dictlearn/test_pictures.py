"""Pictures of atoms and of learning."""

# ruff: noqa: E501 - a case a line reads better

import numpy as np
import pytest
from matplotlib.figure import Figure

from dictlearn import ConvolutionalDictionaryLearning, SpikingDictionaryLearning, overcomplete_dct
from dictlearn.images.kernels import KernelLearner, KernelSettings
from dictlearn.pictures import plot_atoms


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def fitted():
    signals = np.random.default_rng(0).standard_normal((400, 4)) * 0.5
    return SpikingDictionaryLearning(6, max_iter=8, random_state=0).fit(signals)


def test_atoms_are_drawn_as_curves_or_as_patches(ax):
    dictionary = np.random.default_rng(0).standard_normal((6, 4))
    (line,) = plot_atoms(dictionary, ax=ax).lines
    for atom, drawn in zip(dictionary, line.get_ydata().reshape(6, 5)[:, :-1], strict=True):
        assert np.corrcoef(atom, drawn)[0, 1] > 1 - 1e-12
    (square,) = plot_atoms(overcomplete_dct(8, 256), 8, ax=Figure().subplots()).images
    assert square.get_array().shape == (16 * 9 - 1, 16 * 9 - 1)  # 16 x 16 atoms with lines between


@pytest.mark.parametrize("channels", [(), (3,)])
def test_kernels_are_drawn_as_they_are(channels, ax):
    kernels = np.random.default_rng(0).standard_normal((4, 3, 5, *channels))
    (image,) = plot_atoms(kernels, columns=2, ax=ax).images
    drawn, expected = np.ma.getdata(image.get_array()), kernels[3] / np.abs(kernels[3]).max()
    assert drawn.shape[:2] == (7, 11)
    expected = 0.5 + 0.5 * expected if channels else expected
    np.testing.assert_allclose(drawn[4:, 6:], expected, rtol=0, atol=1e-12)


def test_learning_is_drawn_from_the_history(fitted):
    history = fitted.learner_.history
    for quantity in ("objective", "consistency"):
        ax = fitted.learner_.plot(quantity=quantity, ax=Figure().subplots(), label="a", color="red")
        (line,) = ax.lines
        samples, values = line.get_data()
        np.testing.assert_array_equal(samples, history["n_samples"])
        np.testing.assert_array_equal(values, history[quantity])


def test_bad_arguments_are_named(fitted):
    for arguments, options, error, name in (
        ((np.ones((3, 64)), 7), {}, ValueError, "patch_size must fit atoms of 64 numbers; got 7"),
        ((np.ones(4), 2), {}, ValueError, "dictionary"),
        ((np.ones((3, 4)), 2), {"columns": 0}, ValueError, "columns"),
        (([["a"] * 4], 2), {}, TypeError, "dictionary"),
        ((np.ones((4, 3, 5)), 8), {}, ValueError, "patch_size must be None for kernels"),
        ((np.ones((2, 3, 3, 2)),), {}, ValueError, "1 or 3 channels"),
    ):
        with pytest.raises(error, match=name):
            plot_atoms(*arguments, **options)
    with pytest.raises(ValueError, match="quantity"):
        fitted.learner_.plot(quantity="loss")
    short = SpikingDictionaryLearning(3, max_iter=1).fit(np.eye(20, 4))
    with pytest.raises(ValueError, match="got 20 samples"):
        short.learner_.plot()


@pytest.mark.parametrize(
    ("atoms", "expected"),
    [
        ([[1.0, -2.0], [0.0, 0.0]], [[0.5, -1.0, np.nan, 0.0, 0.0]]),
        # In colour, zero is grey, and the lines between atoms are white.
        ([[1.0, -2.0, 0.0, 0.0, 0.0, 2.0], [0.0] * 6], [[[0.75, 0, 0.5], [0.5, 0.5, 1], [1] * 3, [0.5] * 3, [0.5] * 3]]),
    ],
    ids=["grey", "colour"],
)  # fmt: skip
def test_a_mosaic_shows_each_atom_at_its_own_scale(atoms, expected, ax):
    (image,) = plot_atoms(np.array(atoms), (1, 2), ax=ax, columns=2).images
    np.testing.assert_array_equal(np.ma.filled(image.get_array(), np.nan), expected)


def test_curves_are_drawn_as_curves():
    rng = np.random.default_rng(0)
    signal = np.convolve(rng.standard_normal(900) * (rng.random(900) < 0.03), np.hanning(20))
    estimator = ConvolutionalDictionaryLearning(3, kernel_size=32, alpha=0.1, max_iter=1, random_state=0).fit(
        signal
    )
    axes = [Figure().subplots() for _ in range(3)]
    estimator.learner_.plot(ax=axes[0])
    coded = estimator.encode(signal)[0]
    coded.plot(ax=axes[1])
    kernels = rng.standard_normal((5, 1, 20, 2))
    KernelLearner(kernels, KernelSettings(penalty=1.0)).plot(columns=2, ax=axes[2])
    assert not any(ax.images for ax in axes)
    assert len(axes[2].lines) == 2, "a line for each channel"
    lines = axes[0].lines[0].get_xydata().reshape(3, 33, 2)[:, :-1]
    for atom, drawn in zip(estimator.components_, lines, strict=True):
        assert np.corrcoef(atom, drawn[:, 1])[0, 1] > 1 - 1e-12
    np.testing.assert_array_equal(axes[1].lines[0].get_ydata(), coded.image)

"""Signals of one dimension: windows, kernels, codes and pictures are those of images of one row."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dictlearn import (
    ConvolutionalDictionaryLearning,
    denoise,
    extract_patches,
    prepare_image,
    random_patches,
    reconstruct_from_patches,
)
from dictlearn.images.crops import crop_shape
from dictlearn.pictures import plot_atoms
from solvers import ConvolutionalDictionary, LassoProblem, solve_active_set

RNG = np.random.default_rng(0)
TIMES = np.arange(900)


def signal(seed=0, n_beats=18):
    rng = np.random.default_rng(seed)
    beats = sum(
        height * np.exp(-(((TIMES - place) / 4.0) ** 2)) * np.cos((TIMES - place) / 3.0)
        for place, height in zip(rng.integers(900, size=n_beats), rng.random(n_beats) + 0.5, strict=True)
    )
    return beats + 0.01 * rng.standard_normal(900)


def learning(**changes):
    options = {"kernel_size": 32, "alpha": 0.1, "random_state": 0, "max_iter": 2, **changes}
    return ConvolutionalDictionaryLearning(3, **options)


def test_windows_are_patches_of_one_row():
    x = signal()
    windows = extract_patches(x, 16, stride=4)
    np.testing.assert_array_equal(windows, extract_patches(x[np.newaxis], (1, 16), stride=4))
    np.testing.assert_allclose(reconstruct_from_patches(windows, 900, 16, stride=4), x, atol=1e-15)
    drawn = random_patches([x, x[:100]], 16, 20, rng=1)
    np.testing.assert_array_equal(
        drawn, random_patches([x[np.newaxis], x[np.newaxis, :100]], (1, 16), 20, rng=1)
    )


def test_kernels_along_a_signal_are_those_of_an_image_of_one_row():
    kernels = RNG.standard_normal((2, 8, 3))
    along, rows = (
        ConvolutionalDictionary(kernels, 50, 2),
        ConvolutionalDictionary(kernels[:, None], (1, 50), 2),
    )
    np.testing.assert_array_equal(along.toarray(), rows.toarray())
    assert along.signal_shape == (1, 50, 3)
    signals = RNG.standard_normal((2, 150))
    problem = LassoProblem(along, signals, 0.5)
    dense = solve_active_set(LassoProblem(rows.toarray(), signals, 0.5))
    np.testing.assert_allclose(solve_active_set(problem).codes, dense.codes, atol=1e-10)


def test_a_proposed_stride_is_of_the_side_that_moves():
    with pytest.raises(ValueError, match=r"strides that fit are 1, 2, 3, 6, 7;"):
        ConvolutionalDictionary(np.ones((1, 8)), 50, 4)


@pytest.mark.parametrize("channels", [None, 2])
def test_a_signal_learns_and_codes_as_an_image_of_one_row(channels):
    x = signal() if channels is None else np.stack([signal(), -2 * signal()], axis=1)
    of_signal = learning(n_channels=channels).fit([x])
    of_image = learning(kernel_size=(1, 32), crop_size=(1, 512), n_channels=channels).fit([x[np.newaxis]])
    np.testing.assert_array_equal(of_signal.components_, of_image.components_[:, 0])
    assert of_signal.components_.shape == (3, 32, 2)[: 2 + bool(channels)]
    codes = of_signal.transform([x])
    np.testing.assert_array_equal(codes[0].toarray(), of_image.transform([x[np.newaxis]])[0].toarray())
    restored = of_signal.inverse_transform(codes, [x])[0]
    assert restored.shape == x.shape
    np.testing.assert_array_equal(restored, of_image.inverse_transform(codes, [x[np.newaxis]])[0][0])
    np.testing.assert_array_equal(of_signal.encode([x])[0].image, restored)
    assert of_signal.image_shape_ == (900,)
    assert of_signal.n_channels_ == (channels or 1)


def test_one_signal_several_and_a_table_of_them():
    x = signal()
    one, listed, table = (learning().fit(X) for X in (x, [x], x[np.newaxis]))
    np.testing.assert_array_equal(one.components_, listed.components_)
    np.testing.assert_array_equal(one.components_, table.components_)
    assert table.transform(np.stack([x, x])).shape == (2, len(table.get_feature_names_out()))
    assert table.inverse_transform(table.transform(x), x).shape == (1, 900)
    assert one.partial_fit(x).n_batches_seen_ > listed.n_batches_seen_
    lengths = learning().fit([x, x[:400]])
    assert lengths.image_shape_ is None
    assert [
        part.shape for part in lengths.inverse_transform(lengths.transform([x, x[:400]]), [x, x[:400]])
    ] == [
        (900,),
        (400,),
    ]
    with pytest.raises(
        ValueError, match=r"learned from \(signals of one dimension, one channel\); got images"
    ):
        one.transform([np.ones((40, 40))])
    with pytest.raises(ValueError, match="call fit to start anew"):
        one.partial_fit([np.eye(40)])
    with pytest.raises(ValueError, match=r"one colour image or several signals; got shape \(40, 30, 3\)"):
        learning(n_channels=3).fit(np.ones((40, 30, 3)))
    with pytest.raises(
        ValueError, match="got 32 columns in an image of 12: of signals with 12 channels pass n_chan"
    ):
        learning().fit([np.ones((900, 12))])


def test_integers_of_a_signal_are_no_brightness():
    counts = np.round(1000 * signal()).astype(np.int16)
    assert learning(alpha=100.0).fit(counts).score(counts) < 0.0
    prepared = prepare_image(counts, 32, background="none")
    np.testing.assert_array_equal(prepared.restore(prepared.signal), counts)


def test_a_signal_is_padded_along_itself_alone():
    prepared = prepare_image(signal(), 32, stride=5, margin=10)
    assert prepared.prepared_shape[0] == 1
    assert prepared.prepared_shape[1] >= 920
    assert prepared.dictionary(np.ones((2, 32))).image_shape == prepared.prepared_shape
    np.testing.assert_allclose(prepared.restore(prepared.detail), signal(), atol=1e-14)


def test_images_of_other_channels():
    spectra = RNG.random((2, 20, 20, 5))
    of_five = learning(kernel_size=6, n_channels=5, max_iter=1).fit(spectra)
    assert of_five.components_.shape == (3, 6, 6, 5)
    assert of_five.inverse_transform(of_five.transform(spectra), spectra).shape == spectra.shape


@pytest.mark.parametrize(
    ("kernel_size", "images", "expected"),
    [
        (8, [np.eye(90)], (64, 64)),
        (64, [np.eye(90)], (90, 90)),
        ((1, 64), [np.ones((1, 900))], (1, 256)),
        (64, [signal()], (1, 512)),
        (100, [signal()], (1, 800)),
    ],
)
def test_crops_hold_some_kernels(kernel_size, images, expected):
    """A kernel as long as the crops had one position in each, and was learned without its neighbours."""
    estimator = learning(kernel_size=kernel_size)
    form, arrays = estimator._details(images)[1], images
    crop = estimator._crops(form, estimator._details(images)[0])["crop_size"]
    shape = arrays[0].shape if arrays[0].ndim == 2 else (1, *arrays[0].shape)
    assert crop_shape(shape, crop, form.size("kernel_size", kernel_size), 1) == expected


def test_crops_of_one_position_are_said():
    with pytest.warns(UserWarning, match="crop_size 32 has one position of a kernel"):
        learning(crop_size=32).fit(signal())


def test_a_signal_is_denoised():
    x, noise = signal(), 0.2 * RNG.standard_normal(900)
    waves = np.cos(np.pi * np.outer(np.arange(32), np.arange(32) + 0.5) / 32)
    waves /= np.linalg.norm(waves, axis=1, keepdims=True)
    result = denoise(x + noise, waves, patch_size=32, noise_level=0.2)
    assert result.image.shape == (900,)
    assert np.square(result.image - x).mean() < 0.6 * np.square(noise).mean()


def test_curves_are_drawn_as_curves():
    estimator = learning().fit(signal())
    figure, axes = plt.subplots(1, 4)
    estimator.learner_.plot(ax=axes[0])
    coded = estimator.encode(signal())[0]
    coded.plot(ax=axes[1])
    coded.prepared.plot(ax=axes[2])
    plot_atoms(RNG.standard_normal((5, 20, 2)), curves=True, columns=2, ax=axes[3])
    assert not any(ax.images for ax in axes)
    assert len(axes[3].lines) == 2, "a line for each channel"
    lines = axes[0].lines[0].get_xydata().reshape(3, 33, 2)[:, :-1]
    for atom, drawn in zip(estimator.components_, lines, strict=True):
        assert np.corrcoef(atom, drawn[:, 1])[0, 1] > 1 - 1e-12
    np.testing.assert_array_equal(axes[1].lines[0].get_ydata(), coded.image)
    with pytest.raises(ValueError, match="patch_size must be None for curves; got 4"):
        plot_atoms(np.ones((2, 4)), 4, curves=True)
    plt.close(figure)

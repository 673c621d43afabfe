"""Images to patches and back: channels, patches, whitening, cosine atoms, pixels and prepared images."""

# ruff: noqa: E501 - a case a line reads better

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.fft import dctn
from scipy.ndimage import gaussian_filter
from sklearn.feature_extraction.image import extract_patches_2d

from dictlearn import (
    ConvolutionalDictionaryLearning,
    as_pixels,
    denoise,
    extract_patches,
    join_channels,
    normalise,
    overcomplete_dct,
    prepare_image,
    random_patches,
    reconstruct_from_patches,
    remove_mean,
    split_channels,
    whiten,
)
from tests.dictlearn.refused import each_refused
from tests.tiers import examples

RNG = np.random.default_rng(0)
GREY = np.arange(12.0).reshape(3, 4)
IMAGE = np.zeros((10, 12))


# -- channels ------------------------------------------------------------------------------------


@pytest.mark.property
@examples(10)
@given(
    signals=arrays(
        np.float64,
        st.tuples(st.integers(1, 4), st.integers(1, 6)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_channels_of_signals(signals):
    """One channel of each entry is zero, and nothing is rounded; joining subtracts the channels."""
    split = split_channels(signals)
    np.testing.assert_array_equal(split, np.hstack([np.maximum(signals, 0.0), np.maximum(-signals, 0.0)]))
    assert not np.signbit(split).any()
    np.testing.assert_array_equal(join_channels(split), signals)
    assert join_channels([[3.0, 0.0, 1.0, 2.0]]).tolist() == [[2.0, -2.0]]


# -- patches -------------------------------------------------------------------------------------


@pytest.mark.property
@examples(15)
@given(
    grid=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    stride=st.integers(1, 6),
    seed=st.integers(0, 99),
    is_signal=st.booleans(),
)
def test_patches_are_those_of_scikit_learn_and_come_back(grid, size, stride, seed, is_signal):
    """Every `stride`-th patch is taken; a restored pixel is the mean over its patches."""
    rng = np.random.default_rng(seed)
    if is_signal:
        grid, size = (1, grid[1]), (1, size[1])
    stride = min(stride, *(size[1:] if is_signal else size))
    shape = tuple(part + stride * (n - 1) for part, n in zip(size, grid, strict=True))
    image = rng.normal(size=shape)
    image.flags.writeable = False
    theirs = extract_patches_2d(image, size).reshape(shape[0] - size[0] + 1, shape[1] - size[1] + 1, -1)
    patches = extract_patches(image, size, stride=stride)
    np.testing.assert_array_equal(patches, theirs[::stride, ::stride].reshape(-1, size[0] * size[1]))
    patches += rng.normal(size=patches.shape)  # the patches are a writable copy
    again = reconstruct_from_patches(patches, shape, size, stride=stride)
    total, count = np.zeros(shape), np.zeros(shape)
    for patch, (row, column) in zip(patches, product(range(grid[0]), range(grid[1])), strict=True):
        place = np.s_[row * stride : row * stride + size[0], column * stride : column * stride + size[1]]
        total[place] += patch.reshape(size)
        count[place] += 1
    np.testing.assert_allclose(again, total / count, rtol=0, atol=1e-13)
    if is_signal:
        of_signal = extract_patches(image[0], size[1], stride=stride)
        np.testing.assert_array_equal(of_signal, extract_patches(image, size, stride=stride))
        back = reconstruct_from_patches(patches, shape[1], size[1], stride=stride)
        np.testing.assert_array_equal(back, again[0])
    wide = np.pad(image, ((0, 0), (0, stride - 1)))  # what does not fit is left out
    np.testing.assert_array_equal(
        extract_patches(wide, size, stride=stride), extract_patches(image, size, stride=stride)
    )


@pytest.mark.property
@examples(20)
@given(
    patches=arrays(
        np.float64, st.tuples(st.integers(1, 5), st.integers(1, 9)), elements=st.floats(-1e307, 1e307)
    )
)
def test_norms_and_means_come_back(patches):
    normalised, norms = normalise(patches)
    np.testing.assert_allclose(np.linalg.norm(normalised, axis=1), patches.any(axis=1), rtol=1e-14)
    # Quotients below 1e-308 are multiples of the smallest number, and so are the norms.
    float64 = np.finfo(float)
    bound = 4 * float64.eps * np.abs(patches) + 4 * float64.smallest_subnormal * (1.0 + norms)
    assert (np.abs(normalised * norms - patches) <= bound).all()
    centred, means = remove_mean(patches)
    largest = np.abs(patches).max()
    expected = (patches / patches.shape[1]).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(means, expected, rtol=0, atol=1e-14 * largest)
    np.testing.assert_allclose(centred + means, patches, rtol=0, atol=1e-15 * largest)


def test_random_patches_are_patches_of_the_images_none_twice():
    images = [np.arange(30.0).reshape(5, 6), 100.0 + np.arange(12.0).reshape(3, 4)]
    everything = np.vstack([extract_patches(image, (2, 3)) for image in images])
    patches = random_patches(images, (2, 3), len(everything), rng=0)
    assert sorted(patches.tolist()) == sorted(everything.tolist())
    assert patches.tolist() != everything.tolist()
    np.testing.assert_array_equal(random_patches(images, (2, 3), 7, rng=0), patches[:7])
    rng = np.random.default_rng(0)
    first, second = (random_patches(images, (2, 3), 7, rng=rng) for _ in range(2))
    np.testing.assert_array_equal(first, patches[:7])
    assert (first != second).any()
    # In 1,500 draws each of the five places is drawn 300 times, with a deviation of 16.
    drawn = [
        int(random_patches([np.arange(2.0)[None], np.arange(2.0, 5.0)[None]], 1, 1, rng=rng)[0, 0])
        for _ in range(1500)
    ]
    assert np.abs(np.bincount(drawn, minlength=5) - 300).max() < 5 * 16
    signals = [np.arange(40.0), np.arange(30.0)]
    rows = random_patches([signal[None] for signal in signals], (1, 16), 20, rng=1)
    np.testing.assert_array_equal(random_patches(signals, 16, 20, rng=1), rows)


def test_flat_patches_are_left_out():
    image = np.full((40, 40), 7.0)
    image[25:30, 3:8] += np.random.default_rng(0).normal(size=(5, 5))
    contrast = np.linalg.norm(remove_mean(extract_patches(image, 4))[0], axis=1)
    least = np.sort(contrast)[-20]  # the bound itself is included
    patches = random_patches(image, 4, 20, rng=1, least_contrast=least)
    assert sorted(patches.tolist()) == sorted(extract_patches(image, 4)[contrast >= least].tolist())
    with pytest.raises(ValueError, match="n_patches must be at most 20"):
        random_patches(image, 4, 21, rng=1, least_contrast=least)


# -- whitening -----------------------------------------------------------------------------------


def cosine(height, width, down, across):
    """Return a wave with a mean of 5, with `down` periods along the height and `across` along the width."""
    row, column = np.mgrid[:height, :width]
    return 5.0 + np.cos(2.0 * np.pi * (down * row / height + across * column / width))


def test_whitening_weighs_waves_by_the_filter():
    # 3/24 and 5/25 cycles a pixel, sides even and odd; amplitudes as R(f) = f exp(-(f / f0)^4), 0.4 by default.
    waves = [cosine(24, 25, 3, 0), cosine(24, 25, 0, 5)]
    frequencies, image = np.array([3 / 24, 5 / 25]), 2.0 * waves[0] + 3.0 * waves[1]
    for cutoff, whitened in ((0.3, whiten(image, cutoff=0.3)), (0.4, whiten(image))):
        amplitudes = np.array([2.0, 3.0]) * frequencies * np.exp(-((frequencies / cutoff) ** 4))
        expected = amplitudes[0] * (waves[0] - 5.0) + amplitudes[1] * (waves[1] - 5.0)
        np.testing.assert_allclose(whitened, expected / np.sqrt(0.5 * (amplitudes**2).sum()), atol=1e-13)
    wave = cosine(16, 12, 2, -3)
    np.testing.assert_allclose(whiten(wave), np.sqrt(2.0) * (wave - 5.0), atol=1e-13)


@pytest.mark.parametrize("size", [1e-310, 1e307])
def test_whitening_does_not_see_the_unit(size):
    image = np.random.default_rng(0).uniform(-1.0, 1.0, size=(9, 14))
    whitened = whiten(image)
    assert abs(whitened.mean()) < 1e-15
    assert whitened.std() == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_allclose(whiten(size * image), whitened, atol=1e-11)  # 1e-310 has 13 digits


# -- cosine atoms --------------------------------------------------------------------------------


def test_a_complete_dictionary_is_the_orthonormal_dct():
    dictionary = overcomplete_dct(8, 64)
    signal = RNG.normal(size=(8, 8))
    expected = dctn(signal, norm="ortho")
    np.testing.assert_allclose((dictionary @ signal.ravel()).reshape(8, 8), expected, atol=1e-13)


@pytest.mark.parametrize(("patch_size", "n_atoms"), [(8, 81), ((4, 8), 64), ((5, 3), 100)])
def test_an_overcomplete_dictionary_is_of_waves_without_means(patch_size, n_atoms):
    """Each side has K waves cos(pi k (j + 1/2) / K), without mean and with unit norm."""
    sides, n_waves = np.broadcast_to(patch_size, 2), int(np.sqrt(n_atoms))
    along = []
    for side in sides:
        waves = np.cos(np.pi * np.outer(np.arange(n_waves), np.arange(side) + 0.5) / n_waves)
        waves[1:] -= waves[1:].mean(axis=1, keepdims=True)
        along.append(waves / np.linalg.norm(waves, axis=1, keepdims=True))
    np.testing.assert_allclose(overcomplete_dct(patch_size, n_atoms), np.kron(*along), atol=1e-13)


# -- pixels --------------------------------------------------------------------------------------


def test_integers_are_shares_of_white_and_floats_stay_what_they_are():
    for dtype, white in ((np.uint8, 255), (np.uint16, 65535), (bool, 1)):
        image = np.array([[0, 1], [white - 1, white]], dtype=dtype)
        np.testing.assert_array_equal(as_pixels(image), image.astype(float) / white)
    np.testing.assert_array_equal(as_pixels(np.float32([[-3.0, 1e6]])), [[-3.0, 1e6]])
    for channels in (1, 3):
        assert as_pixels(np.ones((3, 4, channels), dtype=np.uint8)).shape == (3, 4, channels)
    np.testing.assert_array_equal(as_pixels(np.ma.masked_array(GREY)), GREY)  # nothing is masked


# -- prepared images -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(17, 23), (16, 9, 3), (8, 6), (31, 8, 1), (40,)])
def test_padding_is_undone_to_the_last_bit(shape):
    image = RNG.integers(0, 256, shape).astype(np.uint8)
    is_signal = len(shape) == 1
    size = 6 if is_signal else (8, 6)
    plane = (1, *shape) if is_signal else shape
    for stride, margin in product((1, 3, 5), (0, 7)):
        prepared = prepare_image(image, size, stride=stride, margin=margin, background="none")
        restored = prepared.restore(prepared.signal)
        np.testing.assert_array_equal(restored, image if is_signal else as_pixels(image))
        # The padded size is the smallest that a grid of patches covers; a signal is padded only along its
        # length.
        prepared.dictionary(np.ones((2, *np.atleast_1d(size), *shape[2:])))
        larger = np.subtract(prepared.detail.shape[:2], plane[:2])[int(is_signal) :]
        assert (larger >= 2 * margin).all()
        assert (larger < 2 * margin + stride).all()
        assert not is_signal or len(prepared.detail) == 1


def test_padding_mirrors_the_image():
    image = RNG.random((9, 10))
    prepared = prepare_image(image, 4, stride=4, background="none")
    np.testing.assert_array_equal(prepared.detail, np.pad(image, ((1, 2), (1, 1)), mode="symmetric"))
    image = RNG.random((12, 8, 3))
    prepared = prepare_image(image, 4, stride=4, background="mean")
    np.testing.assert_array_equal(prepared.detail, image - image.mean(axis=(0, 1)))


def test_the_background_is_the_blurred_image_of_each_channel():
    image = RNG.random((20, 21, 3))
    prepared = prepare_image(image, 6, background=2.5)
    blurred = np.stack([gaussian_filter(image[..., c], 2.5) for c in range(3)], axis=-1)
    np.testing.assert_allclose(prepared.background, blurred, rtol=0, atol=1e-15)
    # The default deviation is half the longer side of a kernel.
    default = prepare_image(image, (4, 6)).background
    np.testing.assert_array_equal(default, prepare_image(image, 4, background=3.0).background)
    for kind in ("smooth", "mean"):
        flat = prepare_image(np.full((20, 21, 3), 0.1), 6, background=kind)
        np.testing.assert_array_equal(flat.signal, 0.0)
    restored = prepared.restore(prepared.signal)
    np.testing.assert_allclose(restored, image, rtol=0, atol=1e-15)
    for signal in (prepared.signal[0], prepared.detail, prepared.detail.tolist()):
        np.testing.assert_array_equal(prepared.restore(signal), restored)


# -- what is refused -----------------------------------------------------------------------------


def patches_of(image=IMAGE, patch_size=8, **options):
    return extract_patches(image, patch_size, **options)


def put_together(patches=IMAGE, image_shape=(10, 12), patch_size=2, **options):
    return reconstruct_from_patches(patches, image_shape, patch_size, **options)


def drawn(images=IMAGE, patch_size=8, n_patches=1, **options):
    return random_patches(images, patch_size, n_patches, **options)


def waves(patch_size=8, n_atoms=64):
    return overcomplete_dct(patch_size, n_atoms)


def prepared(**changes):
    return prepare_image(np.ones((10, 12)), **{"kernel_size": 4, **changes})


COLOUR = prepare_image(RNG.random((9, 10, 3)), 4, stride=3)
MASKED = [np.ma.masked_equal([[1.0, 9.0]], 9.0), np.ma.masked_equal(np.uint8([[1, 9]]), 9)]


@pytest.mark.parametrize(
    "shape", [(40, 50, 3), (40, 50, 4), (40, 50, 1), (20, 8, 500), (3, 40, 50), (2, 3, 40, 50)]
)
@pytest.mark.parametrize(
    "call",
    [
        lambda image: extract_patches(image, 4),
        lambda image: random_patches(image, 4, 5),
        lambda image: random_patches(image.tolist(), 4, 5),
        lambda image: random_patches([image], 4, 5),
        lambda image: denoise(image, np.eye(16), patch_size=4, noise_level=0.1),
    ],
)
def test_an_array_of_more_dimensions_is_no_grey_image(call, shape):
    """Neither colours nor trials are taken for several images; the advice does not average transparency."""
    with pytest.raises(
        ValueError, match=r"colour image .*image\[..., :3\].mean.*list\(images\).*trials\[:, k\]"
    ):
        call(np.zeros(shape))


def test_what_is_refused_can_be_done_as_the_message_says():
    image = RNG.random((20, 22, 4))
    assert extract_patches(image[..., :3].mean(axis=2), 4).shape == (17 * 19, 16)
    assert random_patches(list(RNG.random((5, 8, 9))), 8, 10).shape == (10, 64)
    trials = RNG.random((5, 3, 100))
    assert random_patches(list(trials[:, 1]), 30, 10).shape == (10, 30)
    signals = list(np.moveaxis(trials, 1, 2))
    learning = ConvolutionalDictionaryLearning(2, kernel_size=10, n_channels=3, random_state=0).fit(signals)
    assert learning.components_.shape == (2, 10, 3)
    for X, options in ((image, {"n_channels": None}), (trials, {"n_channels": 3})):
        with pytest.raises(ValueError, match="images"):
            learning.set_params(**options).fit(X)


@each_refused(
    (split_channels, ValueError, {"signals": [[1.0, 2.0], [[np.inf]]]}),
    (join_channels, ValueError, {"split": [[[1.0, 2.0, 3.0]], [1.0, 2.0]]}),
    (patches_of, ValueError, {"image": [IMAGE[0, 0], IMAGE * np.nan], "patch_size": [0, (2, 3, 4), (2, -3), 11], "stride": [0]}),
    (patches_of, TypeError, {"image": ["image"], "patch_size": [2.5, True]}),
    (put_together, ValueError, {"image_shape": [(10, 2, 3), (10, 0)], "patches": [IMAGE]}),
    (lambda: put_together(stride=2), ValueError, r"patches must have shape \(30, 4\)"),
    (lambda: put_together(np.zeros((8, 4)), (5, 8), stride=2), ValueError, "row 4 and column 0 of"),
    (lambda: put_together(np.zeros((2, 4)), (2, 5), stride=3), ValueError, "row 0 and column 2 of"),
    (drawn, ValueError, {"n_patches": [0, 16], "least_contrast": [-1.0], "patch_size": [11], "images": [[IMAGE, IMAGE[0]], IMAGE[0, 0], []]}),
    (drawn, TypeError, {"images": [["image"], iter([IMAGE])]}),
    (lambda: drawn([IMAGE, IMAGE * np.nan]), ValueError, r"images\[1\]"),
    (normalise, ValueError, {"patches": [IMAGE[0], IMAGE + np.inf]}),
    (lambda: normalise([[1.0, 1.0], [1.7e308, 1.7e308]]), ValueError, "norms .* patch 1"),
    (remove_mean, ValueError, {"patches": [IMAGE[0]]}),
    (whiten, ValueError, {"image": [IMAGE + 0.1, np.ones((1, 1)), IMAGE[0]]}),
    (lambda: whiten(IMAGE, cutoff=0.0), ValueError, "cutoff must be positive"),
    (waves, ValueError, {"n_atoms": [255, 49], "patch_size": [0]}),
    (waves, TypeError, {"n_atoms": [256.0], "patch_size": ["8"]}),
    (lambda: waves((4, 8), 36), ValueError, "n_atoms must be at least 64"),
    (as_pixels, TypeError, {"image": [np.ones((3, 4), dtype=np.int64), np.ones((3, 4), dtype=complex), [["a"]], *MASKED]}),
    (as_pixels, ValueError, {"image": [1.0, np.ones((2, 3, 4, 3)), [[1.0, np.inf]], np.ones((0, 4)), np.ones((0, 4), dtype=np.uint8)]}),
    (lambda: as_pixels(np.ones((3, 40, 50))), ValueError, "moveaxis"),
    (prepared, ValueError, {"kernel_size": [(4, 0)], "stride": [0], "margin": [-1], "background": ["blur", 0.0]}),
    (prepared, TypeError, {"kernel_size": ["4"], "background": [None]}),
    (lambda: prepared(kernel_size=11), ValueError, "11 rows"),
    (lambda: prepared().dictionary(np.ones((2, 5, 4))), ValueError, "kernels"),
    (COLOUR.dictionary, ValueError, {"kernels": [np.ones((2, 4, 4))]}),
    (COLOUR.restore, ValueError, {"signal": [np.ones(7), COLOUR.detail.transpose(1, 0, 2)[..., :2], COLOUR.signal.reshape(2, 150), np.full(300, np.nan)]}),
    (COLOUR.restore, TypeError, {"signal": [np.ma.masked_less(COLOUR.signal, 0.0)]}),
)  # fmt: skip
def test_what_is_refused_is_named(call, error, name):
    with pytest.raises(error, match=name):
        call()

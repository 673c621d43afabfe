"""Images to patches and back."""

# ruff: noqa: E501 - a case a line reads better

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dictlearn.images.patches import extract_patches, random_patches, reconstruct_from_patches
from dictlearn.images.preprocessing import normalise, remove_mean, whiten


def test_patches_side_by_side_are_the_blocks_of_the_image():
    image = np.arange(24.0).reshape(4, 6)
    patches = extract_patches(image, (2, 3), stride=2)
    # At stride 2 the columns 0-2 and 2-4: the fifth column is left out.
    assert patches.tolist() == [
        [0, 1, 2, 6, 7, 8],
        [2, 3, 4, 8, 9, 10],
        [12, 13, 14, 18, 19, 20],
        [14, 15, 16, 20, 21, 22],
    ]


def test_a_patch_as_large_as_the_image_is_the_image():
    image = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(extract_patches(image, (2, 3), stride=7), image.reshape(1, 6))


@given(
    grid=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    stride=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_round_trip(grid, size, stride, seed):
    stride = min(stride, *size)
    shape = tuple(part + stride * (n - 1) for part, n in zip(size, grid, strict=True))
    image = np.random.default_rng(seed).normal(size=shape)
    patches = extract_patches(image, size, stride=stride)
    assert patches.shape == (grid[0] * grid[1], size[0] * size[1])
    again = reconstruct_from_patches(patches, shape, size, stride=stride)
    # A mean of n <= 36 equal numbers: n - 1 additions and a division, each rounding by half an ulp.
    np.testing.assert_allclose(again, image, rtol=36 * np.finfo(float).eps)


def test_overlaps_are_averaged():
    # Three patches of two pixels over four: the inner pixels are seen twice.
    patches = np.array([[1.0, 2.0], [4.0, 5.0], [7.0, 8.0]])
    image = reconstruct_from_patches(patches, (1, 4), (1, 2))
    np.testing.assert_array_equal(image, [[1.0, 3.0, 6.0, 8.0]])


def test_patches_are_a_copy():
    image = np.zeros((2, 2))
    patches = extract_patches(image, 2)
    patches[:] = 1.0
    assert not image.any()


@pytest.mark.parametrize("kind", [np.float32, np.uint8, bool])
def test_any_real_type_and_order(kind):
    image = np.asfortranarray(np.arange(20).reshape(4, 5) % 2, dtype=kind)
    image.flags.writeable = False
    patches = extract_patches(image, 2)
    assert patches.dtype == np.float64
    np.testing.assert_array_equal(reconstruct_from_patches(patches, (4, 5), 2), image)


def test_means_come_back():
    patches = np.random.default_rng(0).normal(3.0, size=(7, 16))
    centred, means = remove_mean(patches)
    assert means.shape == (7, 1)
    np.testing.assert_allclose(centred.sum(axis=1), 0.0, atol=16 * 10 * np.finfo(float).eps)
    np.testing.assert_allclose(centred + means, patches, rtol=4 * np.finfo(float).eps, atol=1e-15)
    np.testing.assert_array_equal(remove_mean([[1.0, 3.0]])[0], [[-1.0, 1.0]])


@pytest.mark.parametrize("size", [1.0, 1e200, 1e-200, 1e-310, 1e308])
def test_norms_of_any_size(size):
    patches = np.array([[3.0, -4.0], [0.0, 0.0], [0.0, 0.1]]) * (size / 4.0)
    normalised, norms = normalise(patches)
    # Numbers near 1e-310 are multiples of 5e-324: 13 digits.
    np.testing.assert_allclose(normalised, [[0.6, -0.8], [0.0, 0.0], [0.0, 1.0]], rtol=1e-12)
    np.testing.assert_allclose(norms, np.array([[5.0], [0.0], [0.1]]) * (size / 4.0), rtol=1e-12)


@given(
    patches=arrays(
        np.float64, st.tuples(st.integers(1, 5), st.integers(1, 9)), elements=st.floats(-1e307, 1e307)
    )
)
def test_norms_come_back(patches):
    normalised, norms = normalise(patches)
    assert norms.shape == (len(patches), 1)
    lengths = np.linalg.norm(normalised, axis=1)
    np.testing.assert_allclose(lengths, patches.any(axis=1), rtol=1e-14)
    # A rounding each by norm, quotient and product; quotients below 1e-308 are multiples of the smallest
    # number, and so are the norms.
    float64 = np.finfo(float)
    bound = 4 * float64.eps * np.abs(patches) + 4 * float64.smallest_subnormal * (1.0 + norms)
    assert (np.abs(normalised * norms - patches) <= bound).all()


def cosine(height, width, down, across):
    """Return a wave with these numbers of periods down and across, and a mean of 5."""
    row, column = np.mgrid[:height, :width]
    return 5.0 + np.cos(2.0 * np.pi * (down * row / height + across * column / width))


def test_whitening_weighs_waves_by_the_filter():
    # 3/24 and 4/20 cycles a pixel, sides even and odd; amplitudes as R(f) = f exp(-(f / f0)^4).
    waves = [cosine(24, 25, 3, 0), cosine(24, 25, 0, 5)]
    frequencies = np.array([3 / 24, 5 / 25])
    whitened = whiten(2.0 * waves[0] + 3.0 * waves[1], cutoff=0.3)
    amplitudes = np.array([2.0, 3.0]) * frequencies * np.exp(-((frequencies / 0.3) ** 4))
    expected = amplitudes[0] * (waves[0] - 5.0) + amplitudes[1] * (waves[1] - 5.0)
    np.testing.assert_allclose(whitened, expected / np.sqrt(0.5 * (amplitudes**2).sum()), atol=1e-13)


def test_one_wave_whitens_to_itself():
    wave = cosine(16, 12, 2, -3)
    np.testing.assert_allclose(whiten(wave), np.sqrt(2.0) * (wave - 5.0), atol=1e-13)


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1e200, 1e307])
def test_whitening_does_not_see_the_unit(size):
    image = np.random.default_rng(0).uniform(-1.0, 1.0, size=(9, 14))
    whitened = whiten(image)
    assert abs(whitened.mean()) < 1e-15
    assert whitened.std() == pytest.approx(1.0, rel=1e-14)
    # 1e-310 has 13 digits.
    np.testing.assert_allclose(whiten(size * image), whitened, atol=1e-11)


def test_whitening_flattens_a_spectrum_of_one_over_f():
    rng = np.random.default_rng(0)
    frequency = np.hypot(np.fft.fftfreq(128)[:, np.newaxis], np.fft.rfftfreq(128))
    spectrum = np.fft.rfft2(rng.normal(size=(128, 128))) / np.maximum(frequency, 1 / 128)
    power = np.abs(np.fft.rfft2(whiten(np.fft.irfft2(spectrum)))) ** 2
    bands = [power[(frequency > low) & (frequency <= low + 0.05)].mean() for low in (0.01, 0.06, 0.11, 0.16)]
    # The filter itself falls by exp(-2 (0.19 / 0.4)^4), a tenth, to the middle of the last; each is a mean
    # of 70 or more exponential variables.
    assert max(bands) < 1.5 * min(bands)
    assert power[frequency > 0.6].mean() < 0.01 * min(bands)


def test_random_patches_are_patches_of_the_images_none_twice():
    images = [np.arange(30.0).reshape(5, 6), 100.0 + np.arange(12.0).reshape(3, 4)]
    everything = np.vstack([extract_patches(image, (2, 3)) for image in images])
    patches = random_patches(images, (2, 3), len(everything), rng=0)
    assert sorted(patches.tolist()) == sorted(everything.tolist())
    assert patches.tolist() != everything.tolist()
    few = random_patches(images, (2, 3), 7, rng=0)
    np.testing.assert_array_equal(few, patches[:7])


def test_all_places_are_equally_likely():
    # Places 0, 1 of one image and 2, 3, 4 of the other, 3000 times: 600 each, give or take 22.
    images = [np.array([[0.0, 1.0]]), np.array([[2.0, 3.0, 4.0]])]
    rng = np.random.default_rng(0)
    drawn = [int(random_patches(images, 1, 1, rng=rng)[0, 0]) for _ in range(3000)]
    assert np.abs(np.bincount(drawn, minlength=5) - 600).max() < 5 * 22


def test_random_patches_follow_the_generator():
    image = np.random.default_rng(0).normal(size=(20, 20))
    np.testing.assert_array_equal(random_patches(image, 4, 9, rng=3), random_patches(image, 4, 9, rng=3))
    rng = np.random.default_rng(3)
    first, second = random_patches(image, 4, 9, rng=rng), random_patches(image, 4, 9, rng=rng)
    np.testing.assert_array_equal(first, random_patches([image], 4, 9, rng=3))
    assert (first != second).any()
    assert random_patches(image, 4, 9).shape == (9, 16)


def test_flat_patches_are_left_out():
    rng = np.random.default_rng(0)
    image = np.full((40, 40), 7.0)
    image[25:30, 3:8] += rng.normal(size=(5, 5))
    contrast = np.linalg.norm(remove_mean(extract_patches(image, 4))[0], axis=1)
    # The last as a bound, itself included.
    least = np.sort(contrast)[-20]
    patches = random_patches(image, 4, 20, rng=1, least_contrast=least)
    eligible = extract_patches(image, 4)[contrast >= least]
    assert sorted(patches.tolist()) == sorted(eligible.tolist())
    sentence = r"n_patches must be at most 20, the places of contrast [\d.]+ or more; got 21"
    with pytest.raises(ValueError, match=sentence):
        random_patches(image, 4, 21, rng=1, least_contrast=least)


def test_images_may_come_from_files_and_in_any_type(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, size=(12, 15)).astype(np.uint8)
    np.save(tmp_path / "image.npy", image)
    mapped = np.load(tmp_path / "image.npy", mmap_mode="r")
    single = np.asfortranarray(image, dtype=np.float32)
    single.flags.writeable = False
    expected = random_patches(image, 3, 5, rng=0)
    for other in (mapped, single, image.tolist(), [mapped], (single,), image[np.newaxis]):
        np.testing.assert_array_equal(random_patches(other, 3, 5, rng=0), expected)
    for other in (mapped, single):
        np.testing.assert_array_equal(whiten(other), whiten(image))
        for ours, theirs in zip(normalise(other), normalise(image), strict=True):
            np.testing.assert_array_equal(ours, theirs)


IMAGE = np.zeros((10, 12))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: extract_patches("image", 8), TypeError, "image must be an array of real numbers"),
        (lambda: extract_patches(IMAGE[0], (8, 8)), TypeError, "patch_size must be an integer; got tuple"),
        (lambda: extract_patches(IMAGE[0, 0], 8), ValueError, r"image must be 2-D, \(height, width\) or \(length,\)"),
        (lambda: extract_patches(IMAGE * np.nan, 8), ValueError, "image must be finite"),
        (lambda: extract_patches(IMAGE, 0), ValueError, "patch_size must be positive; got 0"),
        (lambda: extract_patches(IMAGE, 2.5), TypeError, "patch_size must be an integer; got float"),
        (lambda: extract_patches(IMAGE, True), TypeError, "patch_size must be an integer; got bool"),
        (lambda: extract_patches(IMAGE, (2, 3, 4)), ValueError, "patch_size must be a pair .* got 3 of them"),
        (lambda: extract_patches(IMAGE, (2, -3)), ValueError, "patch_size must be positive; got -3"),
        (lambda: extract_patches(IMAGE, 11), ValueError, r"must fit into the image, \(10, 12\); got \(11, 11\)"),
        (lambda: extract_patches(IMAGE, 8, stride=0), ValueError, "stride must be positive; got 0"),
        (lambda: reconstruct_from_patches(IMAGE, (10, 2, 3), 2), ValueError, "image_shape must be a pair"),
        (lambda: reconstruct_from_patches(IMAGE, (10,), 2), ValueError, r"patches must have shape \(9, 2\)"),
        (lambda: reconstruct_from_patches(IMAGE, 10, 2), ValueError, r"patches must have shape \(9, 2\)"),
        (lambda: reconstruct_from_patches(IMAGE, (10, 0), 2), ValueError, "image_shape must be positive"),
        (lambda: reconstruct_from_patches(IMAGE, (1, 9), 2), ValueError, "patch_size must fit"),
        (lambda: reconstruct_from_patches(IMAGE, (10, 12), 2, stride=2), ValueError, r"patches must have shape \(30, 4\)"),
        (lambda: reconstruct_from_patches(np.zeros((8, 4)), (5, 8), 2, stride=2), ValueError, "every pixel; patches of 2 at stride 2 leave out row 4 of 5"),
        (lambda: reconstruct_from_patches(np.zeros((6, 4)), (4, 8), 2, stride=3), ValueError, r"patches must have shape \(3, 4\)"),
        (lambda: reconstruct_from_patches(np.zeros((2, 4)), (2, 5), 2, stride=3), ValueError, "every pixel; patches of 2 at stride 3 leave out column 2 of 5"),
        (lambda: random_patches(IMAGE, 8, 0), ValueError, "n_patches must be positive; got 0"),
        (lambda: random_patches(IMAGE, 8, 16), ValueError, "n_patches must be at most 15, .* got 16"),
        (lambda: random_patches(IMAGE, 8, 1, least_contrast=-1.0), ValueError, "least_contrast must not be"),
        (lambda: random_patches(IMAGE, 8, 1, least_contrast=0.1), ValueError, "at most 0, .* 0.1 or more"),
        (lambda: random_patches(IMAGE, 11, 1), ValueError, "patch_size must fit into the image"),
        (lambda: random_patches([IMAGE, IMAGE[0]], 8, 1), ValueError, "all be images, or all signals of one dimension"),
        (lambda: random_patches([IMAGE, IMAGE * np.nan], 8, 1), ValueError, r"images\[1\] must be finite"),
        (lambda: random_patches(IMAGE[0, 0], 8, 1), ValueError, "images must be 2-D"),
        (lambda: random_patches([], 8, 1), ValueError, "images must not be empty"),
        (lambda: random_patches(["image"], 8, 1), TypeError, "images must be an array of real numbers"),
        (lambda: random_patches(iter([IMAGE]), 8, 1), TypeError, "images must be an array of real numbers"),
        (lambda: normalise(IMAGE[0]), ValueError, "patches must be 2-D"),
        (lambda: normalise(IMAGE + np.inf), ValueError, "patches must be finite"),
        (lambda: normalise([[1.0, 1.0], [1.7e308, 1.7e308]]), ValueError, r"norms of at most 1.8e\+308; got more for patch 1"),
        (lambda: whiten(IMAGE + 0.1), ValueError, "image must not be constant; got 0.1 everywhere"),
        (lambda: whiten(np.ones((1, 1))), ValueError, "image must not be constant"),
        (lambda: whiten(IMAGE[0]), ValueError, "image must be 2-D"),
        (lambda: whiten(IMAGE, cutoff=0.0), ValueError, "cutoff must be positive; got 0.0"),
        (lambda: whiten(np.indices((8, 8)).sum(axis=0) % 2, cutoff=0.1), ValueError, "image must vary at frequencies about or below cutoff=0.1"),
        (lambda: remove_mean(IMAGE[0]), ValueError, "patches must be 2-D"),
        (lambda: remove_mean([["a"]]), TypeError, "patches must be an array of real numbers"),
    ],
)  # fmt: skip
def test_nonsense_is_named(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()

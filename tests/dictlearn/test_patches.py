"""Images to patches and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dictlearn import extract_patches, reconstruct_from_patches, remove_mean


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


IMAGE = np.zeros((10, 12))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: extract_patches("image", 8), TypeError, "image must be an array of real numbers"),
        (lambda: extract_patches(IMAGE[0], 8), ValueError, r"image must have shape \(any, any\)"),
        (lambda: extract_patches(IMAGE * np.nan, 8), ValueError, "image must be finite"),
        (lambda: extract_patches(IMAGE, 0), ValueError, "patch_size must be positive; got 0"),
        (lambda: extract_patches(IMAGE, 2.5), TypeError, "patch_size must be an integer; got float"),
        (lambda: extract_patches(IMAGE, True), TypeError, "patch_size must be an integer; got bool"),
        (lambda: extract_patches(IMAGE, (2, 3, 4)), ValueError, "patch_size must be a pair .* got 3 numbers"),
        (lambda: extract_patches(IMAGE, (2, -3)), ValueError, "patch_size must be positive; got -3"),
        (
            lambda: extract_patches(IMAGE, 11),
            ValueError,
            r"must fit into the image, \(10, 12\); got \(11, 11\)",
        ),
        (lambda: extract_patches(IMAGE, 8, stride=0), ValueError, "stride must be positive; got 0"),
        (lambda: reconstruct_from_patches(IMAGE, 10, 2), TypeError, "image_shape must be a pair"),
        (lambda: reconstruct_from_patches(IMAGE, (10, 0), 2), ValueError, "image_shape must be positive"),
        (lambda: reconstruct_from_patches(IMAGE, (1, 9), 2), ValueError, "patch_size must fit"),
        (
            lambda: reconstruct_from_patches(IMAGE, (10, 12), 2, stride=2),
            ValueError,
            r"patches must have shape \(30, 4\)",
        ),
        (
            lambda: reconstruct_from_patches(np.zeros((8, 4)), (5, 8), 2, stride=2),
            ValueError,
            "every pixel; patches of 2 at stride 2 leave out row 4 of 5",
        ),
        (
            lambda: reconstruct_from_patches(np.zeros((6, 4)), (4, 8), 2, stride=3),
            ValueError,
            r"patches must have shape \(3, 4\)",
        ),
        (
            lambda: reconstruct_from_patches(np.zeros((2, 4)), (2, 5), 2, stride=3),
            ValueError,
            "every pixel; patches of 2 at stride 3 leave out column 2 of 5",
        ),
        (lambda: remove_mean(IMAGE[0]), ValueError, "patches must have shape"),
        (lambda: remove_mean([["a"]]), TypeError, "patches must be an array of real numbers"),
    ],
)
def test_nonsense_is_named(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()

"""Images as they come."""

import numpy as np
import pytest

from dictlearn import as_pixels
from dictlearn.images.pixels import as_images

GREY = np.arange(12.0).reshape(3, 4)


def test_integers_are_shares_of_white():
    for dtype, white in ((np.uint8, 255), (np.uint16, 65535)):
        image = np.array([[0, 1], [white - 1, white]], dtype=dtype)
        expected = np.array([[0.0, 1.0 / white], [(white - 1) / white, 1.0]])
        np.testing.assert_array_equal(as_pixels(image), expected)
    np.testing.assert_array_equal(as_pixels(np.array([[True, False]])), [[1.0, 0.0]])


def test_floats_stay_what_they_are():
    image = np.array([[-3.0, 1e6]])
    np.testing.assert_array_equal(as_pixels(image), image)
    assert as_pixels(image.astype(np.float32)).dtype == np.float64
    assert as_pixels(np.ones((3, 4, 3), dtype=np.uint8)).shape == (3, 4, 3)
    assert as_pixels(np.ones((3, 4, 1))).shape == (3, 4, 1)
    assert as_pixels([[0.5, 1.0]]).shape == (1, 2)


def test_what_comes_in_is_not_changed():
    image = np.asfortranarray(GREY)
    image.flags.writeable = False
    np.testing.assert_array_equal(as_pixels(image), GREY)


@pytest.mark.parametrize(
    ("image", "error", "match"),
    [
        (np.ones((3, 4), dtype=np.int64), TypeError, "got int64: divide it by the value of white"),
        (np.ones((3, 4), dtype=np.int16), TypeError, "uint8, uint16, bool or float"),
        (np.ones((3, 4), dtype=complex), TypeError, "image must"),
        (np.array([["a"]]), TypeError, "image must"),
        (np.ma.masked_equal([[1.0, 9.0]], 9.0), TypeError, "masked entries; got 1 of them: fill in missing"),
        (np.ma.masked_equal(np.uint8([[1, 9]]), 9), TypeError, "image must not have masked entries"),
        (np.ones(()), ValueError, "1-D .* 2-D .* or 3-D .*; got shape"),
        (np.array([1.0, np.nan]), ValueError, "image must be finite"),
        (np.ones((2, 3, 4, 3)), ValueError, "2-D .* or 3-D"),
        (np.ones((3, 4, 4), dtype=np.uint8), ValueError, r"drop an alpha channel by image\[..., :3\]"),
        (np.ones((3, 4, 2)), ValueError, r"drop an alpha channel by image\[..., :1\]"),
        (np.ones((3, 40, 50)), ValueError, "move channels to the end by np.moveaxis"),
        (
            np.ones((30, 40, 7)),
            ValueError,
            r"1 or 3 channels, last; got shape \(30, 40, 7\): for other channels pass n_channels=7$",
        ),
        (np.array([[1.0, np.nan]]), ValueError, r"nan at \(0, 1\): fill in missing pixels first"),
        (np.array([[1.0, np.inf]]), ValueError, "finite"),
        (np.ones((0, 4)), ValueError, "image must"),
        (np.ones((0, 4), dtype=np.uint8), ValueError, "must not be empty"),
    ],
)
def test_what_is_no_image_is_refused(image, error, match):
    with pytest.raises(error, match=match):
        as_pixels(image)


def test_a_mask_without_masked_entries_is_none():
    np.testing.assert_array_equal(as_pixels(np.ma.masked_array(GREY)), GREY)


def test_several_images():
    assert [image.shape for image in as_images([GREY, GREY[:2]])] == [(3, 4), (2, 4)]
    assert [image.shape for image in as_images(np.ones((2, 5, 6, 3)))] == [(5, 6, 3)] * 2
    assert [image.shape for image in as_images(list(np.ones((4, 5, 3))))] == [(5, 3)] * 4
    for images, error, match in (
        (GREY[0, 0], TypeError, "must be a list of images"),
        ([GREY, GREY[0]], ValueError, "images must all be images, or all signals of one dimension; got both"),
        (7, TypeError, "must be a list of images"),
        ([], ValueError, "must not be empty"),
        ([GREY, np.ones((3, 4, 3))], ValueError, r"same number of channels; got .* for images\[1\]"),
        (
            np.ma.masked_less(np.arange(30.0).reshape(1, 5, 6), 3.0),
            TypeError,
            r"images\[0\] must not have masked",
        ),
        (
            np.ones((40, 30, 3)),
            ValueError,
            r"one colour image pass \[image\], for grey images list\(images\)",
        ),
        (np.ones(()), ValueError, "got a number"),
        (np.ones((40, 30, 4), dtype=np.uint8), ValueError, r"got shape \(40, 30, 4\): for one colour image"),
        ([GREY, np.full((3, 4), np.nan)], ValueError, r"images\[1\] must be finite"),
    ):
        with pytest.raises(error, match=match):
            as_images(images)

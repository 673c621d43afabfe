"""Images as they come: grey or colour, integers or floats, as arrays of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks

# Integers of these types are brightness from 0 to the largest of the type.
BRIGHTNESS = (np.uint8, np.uint16)
# Of an array whose last axis has no more, that axis may be channels.
MOST_CHANNELS = 4


def as_pixels(image: ArrayLike, *, name: str = "image") -> np.ndarray:
    """Return an image as floats.

    Integers of 8 and 16 bits are divided by the largest of their type, 255 and 65,535, so that they lie
    between 0 and 1; True is 1 and False 0.  Floats stay what they are, in any unit.

    Parameters
    ----------
    image : array_like, shape (height, width), (height, width, 1) or (height, width, 3)
        Grey or colour.
    name : str, default "image"
        Its name in messages.

    Returns
    -------
    ndarray of float64
        Of the same shape.

    Raises
    ------
    TypeError
        If it does not hold real numbers, has masked entries, or holds integers of which the largest is not
        known.
    ValueError
        If its shape is another, a value is not finite, or it has an alpha channel.
    """
    if np.ma.is_masked(image):
        raise TypeError(
            f"{name} must not have masked entries; got {int(np.ma.count_masked(image))} of them: fill in "
            "missing pixels first (image.filled(...))"
        )
    pixels = np.asarray(image)
    if pixels.dtype.kind in "iu" and pixels.dtype.type not in BRIGHTNESS:
        raise TypeError(
            f"{name} must have dtype uint8, uint16, bool or float; got {pixels.dtype}: divide it by "
            "the value of white"
        )
    if pixels.ndim not in (2, 3):
        raise ValueError(
            f"{name} must be 2-D (height, width) or 3-D (height, width, channels); got shape {pixels.shape}"
        )
    if pixels.ndim == 3 and pixels.shape[2] not in (1, 3):
        raise ValueError(f"{name} must have 1 or 3 channels, last; got shape {pixels.shape}{_remedy(pixels)}")
    if pixels.dtype.kind == "b":
        return pixels.astype(np.float64)
    if pixels.dtype.type in BRIGHTNESS:
        if not pixels.size:
            raise ValueError(f"{name} must not be empty; got shape {pixels.shape}")
        return pixels / float(np.iinfo(pixels.dtype).max)
    if pixels.dtype.kind == "f" and np.isnan(pixels).any():
        first = tuple(map(int, np.argwhere(np.isnan(pixels))[0]))
        raise ValueError(f"{name} must be finite; got nan at {first}: fill in missing pixels first")
    return checks.real_array(name, pixels, shape=(None,) * pixels.ndim, meaning="(height, width[, channels])")


def as_images(images: Any) -> list[np.ndarray]:
    """Return several images as floats, all grey or all colour; see `as_pixels`.

    Parameters
    ----------
    images : list or tuple of images, or ndarray, shape (n_images, height, width[, channels])
        A list may have images of any sizes.  An array of three dimensions has grey images; if its last one
        is 4 or less, it may be meant as one colour image, and is refused.

    Raises
    ------
    TypeError, ValueError
        If there is none, one is not an image, some are grey and others colour, or an array may be one colour
        image or several grey ones.
    """
    if not isinstance(images, (np.ndarray, list, tuple)):
        raise TypeError(f"images must be a list of images, or an array of them; got {type(images).__name__}")
    shape = getattr(images, "shape", None)
    if shape is not None and len(shape) < 3:
        raise ValueError(
            "images must be a list of images, or an array (n_images, height, width[, channels]); got shape "
            f"{shape}: for one image pass [image]"
        )
    if shape is not None and len(shape) == 3 and shape[2] <= MOST_CHANNELS:
        raise ValueError(
            "images must be a list where an array may be one colour image or several grey ones; got shape "
            f"{shape}: for one colour image pass [image], for grey images list(images)"
        )
    if not len(images):
        raise ValueError("images must not be empty; got none")
    arrays = [as_pixels(image, name=f"images[{k}]") for k, image in enumerate(images)]
    for k, array in enumerate(arrays):
        if array.shape[2:] != arrays[0].shape[2:]:
            raise ValueError(
                f"images must have the same number of channels; got shape {arrays[0].shape} for images[0] "
                f"and {array.shape} for images[{k}]"
            )
    return arrays


def _remedy(pixels: np.ndarray) -> str:
    """Return what to do about a number of channels that images do not have."""
    if pixels.shape[2] in (2, 4):
        return f": drop an alpha channel by image[..., :{pixels.shape[2] - 1}]"
    if pixels.shape[0] in (1, 3):
        return ": move channels to the end by np.moveaxis(image, 0, -1)"
    return ""

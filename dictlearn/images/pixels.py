"""Images and signals as they come: grey or colour, integers or floats, as arrays of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks

# Integers of these types are brightness from 0 to the largest of the type.
BRIGHTNESS = (np.uint8, np.uint16)
# Of an array whose last axis has no more, that axis may be channels.
MOST_CHANNELS = 4
SIGNAL = "(length, n_channels)"


def as_pixels(image: ArrayLike, *, n_channels: int | None = None, name: str = "image") -> np.ndarray:
    """Return an image as floats, and a signal of one dimension as an image of one row.

    Integers of 8 and 16 bits in an image are divided by the largest of their type, 255 and 65,535, so that
    they lie between 0 and 1; True is 1 and False 0.  Floats, and the numbers of a signal, stay what they
    are, in any unit.

    Parameters
    ----------
    image : array_like, shape (height, width), (height, width, 1), (height, width, 3) or (length,)
        Grey or colour, or a signal.
    n_channels : int, optional
        The last axis has so many channels, whatever they are: the image is (height, width, n_channels), or a
        signal (length, n_channels).  Without it an image has 1 or 3.
    name : str, default "image"
        Its name in messages.

    Returns
    -------
    ndarray of float64, shape (height, width[, channels])
        Of a signal, (1, length[, n_channels]).

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
    if is_signal(pixels, n_channels):
        shape, meaning = ((None,), "(length,)") if pixels.ndim == 1 else ((None, n_channels), SIGNAL)
        return checks.real_array(name, pixels, shape=shape, meaning=meaning)[np.newaxis]
    if pixels.dtype.kind in "iu" and pixels.dtype.type not in BRIGHTNESS:
        raise TypeError(
            f"{name} must have dtype uint8, uint16, bool or float; got {pixels.dtype}: divide it by "
            "the value of white"
        )
    _require_channels(pixels, n_channels, name)
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


def as_images(images: Any, *, n_channels: int | None = None) -> list[np.ndarray]:
    """Return several images, or several signals, as floats; see `as_pixels`."""
    if not isinstance(images, (np.ndarray, list, tuple)):
        raise TypeError(f"images must be a list of images, or an array of them; got {type(images).__name__}")
    shape = getattr(images, "shape", None)
    if shape is not None and is_signal(images, n_channels):
        images = [images]
    elif shape is not None and not shape:
        raise ValueError("images must be a list of images or signals, or an array of them; got a number")
    elif shape is not None and len(shape) == 3 and shape[2] <= MOST_CHANNELS:
        others = "grey images" if n_channels is None else "signals"
        raise ValueError(
            f"images must be a list where an array may be one colour image or several {others}; got shape "
            f"{shape}: for one colour image pass [image], for {others} list(images)"
        )
    if not len(images):
        raise ValueError("images must not be empty; got none")
    kinds = {is_signal(image, n_channels) for image in images}
    if len(kinds) > 1:
        raise ValueError("images must all be images, or all signals of one dimension; got both")
    arrays = [as_pixels(image, n_channels=n_channels, name=f"images[{k}]") for k, image in enumerate(images)]
    for k, array in enumerate(arrays):
        if array.shape[2:] != arrays[0].shape[2:]:
            raise ValueError(
                f"images must have the same number of channels; got shape {arrays[0].shape} for images[0] "
                f"and {array.shape} for images[{k}]"
            )
    return arrays


def is_signal(image: ArrayLike, n_channels: int | None) -> bool:
    """Return whether an array is a signal of one dimension, and no image: its shape says."""
    return np.ndim(image) == (1 if n_channels is None else 2)


def _require_channels(pixels: np.ndarray, n_channels: int | None, name: str) -> None:
    """Raise ValueError unless an image has the channels that are asked for, or that images have."""
    if n_channels is not None:
        if pixels.ndim != 3 or pixels.shape[2] != n_channels:
            raise ValueError(
                f"{name} must have shape (height, width, {n_channels}) or (length, {n_channels}); got shape "
                f"{pixels.shape}"
            )
    elif pixels.ndim not in (2, 3):
        raise ValueError(
            f"{name} must be 1-D (length,), 2-D (height, width) or 3-D (height, width, channels); got shape "
            f"{pixels.shape}"
        )
    elif pixels.ndim == 3 and pixels.shape[2] not in (1, 3):
        raise ValueError(f"{name} must have 1 or 3 channels, last; got shape {pixels.shape}{_remedy(pixels)}")


def _remedy(pixels: np.ndarray) -> str:
    """Return what to do about a number of channels that images do not have."""
    if pixels.shape[2] in (2, 4):
        channels = pixels.shape[2]
        return f": drop an alpha channel by image[..., :{channels - 1}], or pass n_channels={channels}"
    if pixels.shape[0] in (1, 3):
        return ": move channels to the end by np.moveaxis(image, 0, -1)"
    return f": for other channels pass n_channels={pixels.shape[2]}"

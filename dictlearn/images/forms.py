"""In which form images came: with two dimensions or one, and with which channels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.images.patches import as_size
from dictlearn.images.pixels import as_images, is_signal
from snn.base import checks

# Sides of crops by default, in pixels, and at least in kernels: so many that kernels have neighbours.
IMAGE_CROP = 64, 4
SIGNAL_CROP = 512, 8


class Form(NamedTuple):
    """What `as_images` makes of images or signals, arrays (height, width[, channels]), and the way back."""

    is_signal: bool
    n_channels: int | None
    channels: tuple[int, ...]

    def __str__(self) -> str:
        what = "signals of one dimension" if self.is_signal else "images"
        return what + (f" with {self.channels[0]} channels" if self.channels else ", one channel")

    def size(self, name: str, value: Any) -> tuple[int, int]:
        """Return a parameter, a side or a length, as (height, width)."""
        return as_size(name, value, 1 if self.is_signal else 2)

    def default_crop(self, kernel_size: tuple[int, int]) -> tuple[int, int]:
        """Return (rows, columns) of crops."""
        pixels, kernels = SIGNAL_CROP if self.is_signal else IMAGE_CROP
        height, width = (max(pixels, kernels * side) for side in kernel_size)
        return (1 if self.is_signal else height), width

    def as_kernels(
        self, name: str, value: ArrayLike, n_kernels: int, kernel_size: tuple[int, int]
    ) -> np.ndarray:
        """Return kernels (n_kernels, height, width[, channels]) of those in this form."""
        sides = "length" if self.is_signal else "height, width"
        kernels = checks.real_array(
            name,
            value,
            shape=(n_kernels, *kernel_size[self.is_signal :], *self.channels),
            meaning=f"(n_components, {sides}" + (", n_channels)" if self.channels else ")"),
        )
        return kernels.reshape(n_kernels, *kernel_size, *self.channels)

    def of_kernels(self, kernels: np.ndarray) -> np.ndarray:
        """Return kernels in this form."""
        return kernels[:, 0] if self.is_signal else kernels

    def as_it_came(self, image: np.ndarray) -> np.ndarray:
        """Return an array of `as_images` in this form."""
        return image[0] if self.is_signal else image


def form_of(images: Any, n_channels: int | None) -> tuple[Form, list[np.ndarray]]:
    """Return the form of some images or signals, and what `as_images` makes of them."""
    if n_channels is not None:
        n_channels = checks.positive_integer("n_channels", n_channels)
    arrays = as_images(images, n_channels=n_channels)
    is_one = hasattr(images, "shape") and is_signal(images, n_channels)
    return Form(is_one or is_signal(images[0], n_channels), n_channels, arrays[0].shape[2:]), arrays

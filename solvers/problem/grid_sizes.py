"""Which images a grid of kernels covers to their last pixel, and what to do about those it does not."""

from __future__ import annotations

import math


def require_grid(image_shape: tuple[int, int], kernel_shape: tuple[int, int], stride: int) -> None:
    """Raise ValueError unless kernels at steps of `stride` begin and end with the image."""
    require_room(image_shape, kernel_shape)
    beyond = [image - kernel for image, kernel in zip(image_shape, kernel_shape, strict=True)]
    for name, image, kernel, rest in zip(("rows", "columns"), image_shape, kernel_shape, beyond, strict=True):
        if rest % stride:
            strides = ", ".join(map(str, valid_strides(image_shape, kernel_shape)))
            smaller, larger = (
                valid_shape(image_shape, kernel_shape, stride, pad=pad) for pad in (False, True)
            )
            raise ValueError(
                f"stride must divide the {name} that the image has beyond a kernel, {image} - {kernel} = "
                f"{rest}; got {stride}: of {image_shape[0]} x {image_shape[1]} pixels, strides that fit are "
                f"{strides}; stride {stride} fits {smaller[0]} x {smaller[1]} (crop) and {larger[0]} x "
                f"{larger[1]} (pad), which dictlearn.prepare_image does"
            )


def require_room(
    image_shape: tuple[int, int],
    kernel_shape: tuple[int, int],
    *,
    name: str = "the image",
    hint: str = "",
) -> None:
    """Raise ValueError if a kernel is larger than the image."""
    for axis, image, kernel in zip(("rows", "columns"), image_shape, kernel_shape, strict=True):
        if kernel > image:
            raise ValueError(
                f"kernels must not be larger than {name}; got {kernel} {axis} in an image of {image}{hint}"
            )


def valid_strides(image_shape: tuple[int, int], kernel_shape: tuple[int, int]) -> list[int]:
    """Return the strides up to the kernel's shorter side at which kernels begin and end with the image.

    Larger ones, which leave pixels out, are not proposed.
    """
    beyond = math.gcd(*(image - kernel for image, kernel in zip(image_shape, kernel_shape, strict=True)))
    # The divisors of zero are all numbers.
    largest = min(
        (side for side, whole in zip(kernel_shape, image_shape, strict=True) if whole > side),
        default=min(kernel_shape),
    )
    return [stride for stride in range(1, largest + 1) if beyond % stride == 0]


def valid_shape(
    image_shape: tuple[int, int], kernel_shape: tuple[int, int], stride: int, *, pad: bool
) -> tuple[int, int]:
    """Return the nearest shape of an image that the grid covers: not smaller if `pad`, else not larger."""
    rows, columns = (
        kernel + ((image - kernel + (stride - 1 if pad else 0)) // stride) * stride
        for image, kernel in zip(image_shape, kernel_shape, strict=True)
    )
    return rows, columns

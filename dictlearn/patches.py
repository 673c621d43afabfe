"""Images to signals and back: square or oblong patches, one a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from snn import checks


def extract_patches(image: np.ndarray, patch_size: int | tuple[int, int], *, stride: int = 1) -> np.ndarray:
    """Cut an image into patches, one a row.

    Patches start at rows and columns 0, `stride`, 2 `stride`, ...; those that would reach past the
    edge are left out.

    Parameters
    ----------
    image : array_like, shape (height, width)
        One channel.
    patch_size : int or (int, int)
        Side of a square patch, or (height, width), in pixels.
    stride : int, default 1
        Distance between neighbouring patches, in pixels; the patch side for patches side by side.

    Returns
    -------
    ndarray, shape (n_patches, patch height * patch width)
        Row by row of the image, as are the pixels within a patch.  A copy.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value, or the patch is larger than the image.
    """
    image = checks.real_array("image", image, shape=(None, None), meaning="(height, width)")
    size = as_patch_size(patch_size)
    stride = checks.positive_integer("stride", stride)
    _require_fit(image.shape, size)
    windows = np.lib.stride_tricks.sliding_window_view(image, size)[::stride, ::stride]
    return windows.reshape(-1, size[0] * size[1]).copy()


def reconstruct_from_patches(
    patches: np.ndarray,
    image_shape: tuple[int, int],
    patch_size: int | tuple[int, int],
    *,
    stride: int = 1,
) -> np.ndarray:
    """Put patches back where `extract_patches` took them from, averaging where they overlap.

    Parameters
    ----------
    patches : array_like, shape (n_patches, patch height * patch width)
        In the order of `extract_patches`.
    image_shape : (int, int)
        Height and width of the image, in pixels.
    patch_size, stride
        As for `extract_patches`.

    Returns
    -------
    ndarray, shape image_shape

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value, or the patches leave a pixel uncovered.
    """
    shape = _pair("image_shape", image_shape)
    size = as_patch_size(patch_size)
    stride = checks.positive_integer("stride", stride)
    _require_fit(shape, size)
    rows, columns = ((whole - part) // stride + 1 for whole, part in zip(shape, size, strict=True))
    patches = checks.real_array(
        "patches",
        patches,
        shape=(rows * columns, size[0] * size[1]),
        meaning="(n_patches, patch height * patch width)",
    )
    for axis, (whole, part) in enumerate(zip(shape, size, strict=True)):
        _require_cover(("row", "column")[axis], whole, part, stride)

    grid = patches.reshape(rows, columns, *size)
    total = np.zeros(shape)
    count = np.zeros(shape)
    for row in range(size[0]):
        for column in range(size[1]):
            there = (
                slice(row, row + stride * (rows - 1) + 1, stride),
                slice(column, column + stride * (columns - 1) + 1, stride),
            )
            total[there] += grid[:, :, row, column]
            count[there] += 1.0
    return total / count


def remove_mean(patches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the patches without their means, and the means.

    Parameters
    ----------
    patches : array_like, shape (n_patches, n_pixels)

    Returns
    -------
    centred : ndarray, shape (n_patches, n_pixels)
        Every row sums to zero.
    means : ndarray, shape (n_patches, 1)
        ``centred + means`` is what came in.

    Raises
    ------
    TypeError, ValueError
        If `patches` is of the wrong kind or shape.
    """
    patches = checks.real_array("patches", patches, shape=(None, None), meaning="(n_patches, n_pixels)")
    means = patches.mean(axis=1, keepdims=True)
    return patches - means, means


def as_patch_size(value: Any) -> tuple[int, int]:
    """Return `value`, the side of a square or (height, width), as (height, width).

    Parameters
    ----------
    value : int or (int, int)

    Raises
    ------
    TypeError, ValueError
        If it is neither, or not positive.
    """
    if isinstance(value, (tuple, list)):
        return _pair("patch_size", value)
    side = checks.positive_integer("patch_size", value)
    return side, side


def _pair(name: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name} must be a pair (height, width); got {type(value).__name__}")
    if len(value) != 2:
        raise ValueError(f"{name} must be a pair (height, width); got {len(value)} numbers")
    return checks.positive_integer(name, value[0]), checks.positive_integer(name, value[1])


def _require_fit(image_shape: tuple[int, int], patch_size: tuple[int, int]) -> None:
    if patch_size[0] > image_shape[0] or patch_size[1] > image_shape[1]:
        raise ValueError(f"patch_size must fit into the image, {tuple(image_shape)}; got {patch_size}")


def _require_cover(axis: str, whole: int, part: int, stride: int) -> None:
    """Raise ValueError naming the first row or column of pixels that no patch covers."""
    uncovered = part if stride > part else (whole - part) // stride * stride + part
    if uncovered < whole:
        raise ValueError(
            f"patches must cover every pixel; patches of {part} at stride {stride} "
            f"leave out {axis} {uncovered} of {whole}"
        )

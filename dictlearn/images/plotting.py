"""Pictures of atoms and of images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dictlearn.images.patches import as_patch_size
from snn.base import checks
from snn.base.html import counted
from snn.drawing import current_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_atoms(
    dictionary: ArrayLike,
    patch_size: int | tuple[int, int],
    *,
    ax: Axes | None = None,
    columns: int | None = None,
) -> Axes:
    """Draw atoms as a mosaic of patches.

    Each is scaled by its own largest magnitude: white is positive, black negative, grey zero; of colour, in
    each channel.

    Parameters
    ----------
    dictionary : array_like, shape (n_atoms, height * width) or (n_atoms, height * width * 3)
        One atom a row; of colour, with the channels of a pixel one after the other.
    patch_size : int or (int, int)
        Side of a square patch, or (height, width), in pixels.
    ax : Axes, optional
        Where to draw; by default the current axes.
    columns : int, optional
        Atoms side by side; by default as many as make the mosaic about square.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind, shape or value.
    """
    height, width = as_patch_size(patch_size)
    n_pixels = height * width
    dictionary = checks.real_array(
        "dictionary", dictionary, shape=(None, None), meaning="(n_atoms, height * width[ * 3])"
    )
    n_atoms, n_features = dictionary.shape
    if n_features not in (n_pixels, 3 * n_pixels):
        raise ValueError(
            f"patch_size {patch_size} needs atoms of {n_pixels} numbers, or {3 * n_pixels} in colour; these "
            f"have {n_features}"
        )
    n_channels = n_features // n_pixels
    if columns is None:
        columns = math.ceil(math.sqrt(n_atoms * height / width))
    columns = min(checks.positive_integer("columns", columns), n_atoms)
    ax = current_axes(ax)
    rows = math.ceil(n_atoms / columns)
    largest = np.abs(dictionary).max(axis=1, keepdims=True)
    # One pixel of nothing between atoms, and none around them.
    tiles = np.full((rows * columns, height + 1, width + 1, n_channels), np.nan)
    scaled = dictionary / np.where(largest > 0.0, largest, 1.0)
    tiles[:n_atoms, :-1, :-1] = scaled.reshape(n_atoms, height, width, n_channels)
    mosaic = tiles.reshape(rows, columns, height + 1, width + 1, n_channels).swapaxes(1, 2)
    mosaic = mosaic.reshape(rows * (height + 1), columns * (width + 1), n_channels)[:-1, :-1]
    if n_channels == 3:
        shown = np.nan_to_num(0.5 + 0.5 * mosaic, nan=1.0)
    else:
        shown = np.ma.masked_invalid(mosaic[..., 0])
    ax.imshow(shown, cmap="gray", vmin=-1.0, vmax=1.0, interpolation="nearest")
    ax.set_title(counted(n_atoms, "atom"))
    ax.set_axis_off()
    return ax


def plot_image(image: ArrayLike, *, title: str = "", signed: bool = False, ax: Axes | None = None) -> Axes:
    """Draw a grey or a colour image.

    Parameters
    ----------
    image : array_like, shape (height, width), (height, width, 1) or (height, width, 3)
        Grey images are shown from their smallest value, black, to their largest; of colour, values are those
        of pixels from 0 to 1, or are divided by the largest if that is above 2.
    title : str, default ""
        Of the axes.
    signed : bool, default False
        Show zero as the middle grey, and the largest magnitude as black or white.
    ax : Axes, optional
        Where to draw; by default the current axes.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or shape.
    """
    meaning = "(height, width[, 1 or 3])"
    image = checks.real_array(
        "image", image, shape=(None,) * (3 if np.ndim(image) == 3 else 2), meaning=meaning
    )
    if image.shape[2:] not in ((), (1,), (3,)):
        raise ValueError(f"image must have 1 or 3 channels; got shape {image.shape}")
    signed = checks.flag("signed", signed)
    ax = current_axes(ax)
    largest = float(np.abs(image).max()) or 1.0
    if image.shape[2:] == (3,):
        shown = 0.5 + 0.5 * image / largest if signed else image / (largest if largest > 2.0 else 1.0)
        ax.imshow(np.clip(shown, 0.0, 1.0), interpolation="nearest")
    else:
        low, high = (-largest, largest) if signed else (float(image.min()), float(image.max()))
        ax.imshow(image.reshape(image.shape[:2]), cmap="gray", vmin=low, vmax=high, interpolation="nearest")
    ax.set_axis_off()
    ax.set_title(title)
    return ax

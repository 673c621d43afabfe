"""Patches of images and windows of long signals, one in each row, and the way back to images and signals."""

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from dictlearn.atoms import unit_norm
from dictlearn.images.frame import as_size
from dictlearn.images.preprocessing import remove_mean
from snn.base import checks

# Largest number of pixels of the patches that `random_patches` tests at a time: 32 MB of float64.
PIXELS_PER_BATCH = 2**22


def extract_patches(image: ArrayLike, patch_size: int | tuple[int, int], *, stride: int = 1) -> np.ndarray:
    """Cut an image into patches, or a signal of one dimension into windows, one in each row.

    Patches start at rows and columns 0, `stride`, 2 `stride`, ...; patches that would cross the edge
    are left out.

    Parameters
    ----------
    image : array_like, shape (height, width) or (length,)
        One channel.
    patch_size : int or (int, int)
        Side of a square patch, or (height, width), in pixels; for a signal, the length of a window.
    stride : int, default 1
        Distance between neighbouring patches, in pixels; with a stride equal to the patch's side, patches do
        not overlap.

    Returns
    -------
    ndarray, shape (n_patches, patch height * patch width)
        A copy; the patches of the image and the pixels of each patch are in row-major order.
    """
    size = as_size("patch_size", patch_size, is_signal=np.ndim(image) == 1)
    stride = checks.positive_integer("stride", stride)
    return windows_of(as_plane(image), size, stride).reshape(-1, size[0] * size[1]).copy()


def random_patches(
    images: ArrayLike | list[np.ndarray] | tuple[np.ndarray, ...],
    patch_size: int | tuple[int, int],
    n_patches: int,
    *,
    rng: int | np.random.Generator | None = None,
    least_contrast: float = 0.0,
) -> np.ndarray:
    """Draw patches from random places of one or several images, one in each row.

    All places of all images are equally likely, and no place is drawn twice.

    Parameters
    ----------
    images : array_like, shape (height, width) or (length,), or list of such arrays
        One image, or several images of any shapes; or one signal, or several signals of any lengths.  An
        array is one image or one signal.  If an array holds several images, pass ``list(images)``.
    patch_size : int or (int, int)
        Side of a square patch, or (height, width), in pixels; for signals, the length of a window.
    n_patches : int
        Number of patches.
    rng : int or Generator, optional
        Source of the random places and their order.
    least_contrast : float, default 0
        Least norm of a patch without its mean.  Dictionaries of photographs are better without patches of
        sky.

    Returns
    -------
    ndarray, shape (n_patches, patch height * patch width)
        The patches in random order.
    """
    planes, is_signal = _as_planes(images)
    size = as_size("patch_size", patch_size, is_signal=is_signal)
    n_patches = checks.positive_integer("n_patches", n_patches)
    least_contrast = checks.non_negative_number("least_contrast", least_contrast)
    views = [windows_of(plane, size) for plane in planes]
    ends = np.cumsum([view.shape[0] * view.shape[1] for view in views])
    # A permutation of all places needs as much memory as the images, but makes sure that the search ends.
    places = np.random.default_rng(rng).permutation(ends[-1])
    step = max(1, min(PIXELS_PER_BATCH // (size[0] * size[1]), 2 * n_patches + 100))
    patches = np.empty((min(n_patches, len(places)), size[0] * size[1]))
    n_drawn = start = 0
    while n_drawn < n_patches and start < len(places):
        candidates = _patches_at(views, ends, places[start : start + step])
        if least_contrast > 0.0:
            contrast = np.linalg.norm(remove_mean(candidates)[0], axis=1)
            candidates = candidates[contrast >= least_contrast]
        candidates = candidates[: n_patches - n_drawn]
        patches[n_drawn : n_drawn + len(candidates)] = candidates
        n_drawn += len(candidates)
        start += step
    if n_drawn < n_patches:
        raise ValueError(
            f"n_patches must be at most {n_drawn}, the places of contrast {least_contrast:g} or more; "
            f"got {n_patches}"
        )
    return patches


def reconstruct_from_patches(
    patches: ArrayLike,
    image_shape: int | tuple[int, int],
    patch_size: int | tuple[int, int],
    *,
    stride: int = 1,
) -> np.ndarray:
    """Return the image reconstructed from patches in the order of `extract_patches`; overlaps are averaged.

    Parameters
    ----------
    patches : array_like, shape (n_patches, patch height * patch width)
        The patches in the order of `extract_patches`.
    image_shape : (int, int) or int
        Height and width of the image, in pixels, or the length of the signal.
    patch_size, stride
        See `extract_patches`.
    """
    if np.shape(image_shape) == (1,):
        (image_shape,) = image_shape  # type: ignore[misc]
    is_signal = not isinstance(image_shape, (tuple, list))
    shape = as_size("image_shape", image_shape, is_signal=is_signal)
    size = as_size("patch_size", patch_size, is_signal=is_signal)
    stride = checks.positive_integer("stride", stride)
    total = np.zeros(shape)
    windows = windows_of(total, size, stride)
    patches = checks.real_array(
        "patches",
        patches,
        shape=(windows.shape[0] * windows.shape[1], size[0] * size[1]),
        meaning="(n_patches, patch height * patch width)",
    )
    add_patches(windows, patches)
    image = total / patch_counts(shape, size, stride)
    return image[0] if is_signal else image


def as_plane(image: ArrayLike, name: str = "image") -> np.ndarray:
    """Return a grey image, or a signal as an image of one row."""
    if np.ndim(image) > 2:
        raise ValueError(
            f"{name} must be 2-D, (height, width), or 1-D; got shape {np.shape(image)}: of a colour image "
            "pass a channel, image[..., k], or the mean of its colours, image[..., :3].mean(axis=2); of "
            "several images the list, list(images); of trials x channels x times list(trials[:, k])"
        )
    shape = (None,) if np.ndim(image) == 1 else (None, None)
    return np.atleast_2d(checks.real_array(name, image, shape=shape, meaning="(height, width) or (length,)"))


def windows_of(plane: np.ndarray, size: tuple[int, int], stride: int = 1) -> np.ndarray:
    """Return a view of all patches of an image, shape (rows, columns, patch height, patch width)."""
    if size[0] > plane.shape[0] or size[1] > plane.shape[1]:
        raise ValueError(
            f"patch_size must fit into the image, {plane.shape}; got {size}: choose a smaller one"
        )
    return sliding_window_view(plane, size, writeable=plane.flags.writeable)[::stride, ::stride]


def add_patches(windows: np.ndarray, patches: np.ndarray) -> None:
    """Add patches, one in each row, to the windows of an image, which may overlap."""
    patches = patches.reshape(windows.shape)
    for row, column in np.ndindex(windows.shape[2:]):
        windows[:, :, row, column] += patches[:, :, row, column]


def patch_counts(shape: tuple[int, int], size: tuple[int, int], stride: int) -> np.ndarray:
    """Return how many patches contain each pixel of an image; raise ValueError if a pixel is in none."""
    counts = np.zeros(shape)
    windows = windows_of(counts, size, stride)
    add_patches(windows, np.broadcast_to(1.0, windows.shape))
    if not counts.all():
        row, column = np.argwhere(counts == 0.0)[0].tolist()
        raise ValueError(
            f"stride must let patches of {size} cover every pixel; got {stride}, which leaves out row {row} "
            f"and column {column} of {shape}: choose a smaller one"
        )
    return counts


def _as_planes(value: Any) -> tuple[list[np.ndarray], bool]:
    """Return images or signals as a list of planes, and whether the planes are signals."""
    if not isinstance(value, (list, tuple)) or all(getattr(image, "ndim", 0) == 0 for image in value):
        return [as_plane(value, "images")], np.ndim(value) == 1
    planes = [as_plane(image, f"images[{k}]") for k, image in enumerate(value)]
    kinds = {np.ndim(image) == 1 for image in value}
    if len(kinds) > 1:
        raise ValueError("images must all be images, or all signals of one dimension; got both: call twice")
    return planes, kinds.pop()


def _patches_at(views: list[np.ndarray], ends: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return patches, shape (n_places, n_pixels); `places` are indices of positions in all images."""
    owners = np.searchsorted(ends, places, side="right")
    patches = np.empty((len(places), views[0].shape[2] * views[0].shape[3]))
    for k, view in enumerate(views):
        inside = owners == k
        rows, columns = np.divmod(places[inside] - (ends[k] - view.shape[0] * view.shape[1]), view.shape[1])
        patches[inside] = view[rows, columns].reshape(len(rows), patches.shape[1])
    return patches


def overcomplete_dct(patch_size: int | tuple[int, int], n_atoms: int) -> np.ndarray:
    """Return the overcomplete discrete cosine dictionary of image patches.

    An atom is the outer product of two of the n = sqrt(n_atoms) waves along the sides of the patch::

        w_k(x) = cos(pi k (x + 1/2) / n)    k = 0 .. n - 1, x = 0 .. side - 1

    The mean is subtracted from each wave except the constant wave, and all waves have unit norm.  If n equals
    both sides, the dictionary is the orthonormal DCT-II.

    Parameters
    ----------
    patch_size : int or (int, int)
        Side of a square patch, or (height, width), in pixels.
    n_atoms : int
        Number of atoms, the square of a whole number that is not less than either side.

    Returns
    -------
    ndarray, shape (n_atoms, height * width)
        Atoms of unit norm, which span all patches; row 0 is constant, and every other row sums to zero.
    """
    sides = as_size("patch_size", patch_size)
    n_atoms = checks.positive_integer("n_atoms", n_atoms)
    n_waves = math.isqrt(n_atoms)
    if n_waves**2 != n_atoms or n_waves < max(sides):
        raise ValueError(
            f"n_atoms must be at least {max(sides) ** 2}, the square of the longer side of the patch, and a "
            f"square; got {n_atoms}"
        )
    along = []
    for side in sides:
        waves = np.cos(np.pi / n_waves * np.outer(np.arange(n_waves), np.arange(side) + 0.5))
        waves[1:] -= waves[1:].mean(axis=1, keepdims=True)
        along.append(unit_norm(waves))
    return np.kron(*along)

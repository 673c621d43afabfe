"""Crops of images, in an order that depends on a seed alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.problem.grid_sizes import valid_shape


class Batch(NamedTuple):
    """Crops of one shape: (rows, columns), and of each crop its image and its upper left corner."""

    shape: tuple[int, int]
    places: list[tuple[int, int, int]]

    def of(self, images: list[np.ndarray]) -> np.ndarray:
        """Return the crops, shape (n_crops, rows, columns[, channels])."""
        rows, columns = self.shape
        return np.stack([images[n][top : top + rows, left : left + columns] for n, top, left in self.places])


def batches_of_crops(
    images: list[np.ndarray],
    crop_size: tuple[int, int],
    kernel_size: tuple[int, int],
    stride: int,
    *,
    batch_size: int,
    seed: int,
    number: int,
) -> list[Batch]:
    """Return which crops of images make the batches of one pass, in a random order.

    An image gives as many crops as cover its area, one at least, from places that are all equally likely.  A
    crop has the largest size up to `crop_size` that fits the image and that the grid of kernels covers.
    Every pass has as many batches.

    Shapes: images (height, width).
    """
    rng = np.random.default_rng([seed, number])
    corners: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for n, image in enumerate(images):
        shape = crop_shape(image.shape, crop_size, kernel_size, stride)
        count = max(1, round(image.shape[0] * image.shape[1] / (shape[0] * shape[1])))
        tops = rng.integers(image.shape[0] - shape[0] + 1, size=count)
        lefts = rng.integers(image.shape[1] - shape[1] + 1, size=count)
        corners.setdefault(shape, []).extend((n, *corner) for corner in zip(tops, lefts, strict=True))
    batches = []
    for shape, places in corners.items():
        order = rng.permutation(len(places))
        batches += [
            Batch(shape, [places[k] for k in order[first : first + batch_size]])
            for first in range(0, len(order), batch_size)
        ]
    return [batches[k] for k in rng.permutation(len(batches))]


def crop_shape(
    image_shape: tuple[int, ...], crop_size: tuple[int, int], kernel_size: tuple[int, int], stride: int
) -> tuple[int, int]:
    """Return (rows, columns) of the crops of an image."""
    largest = (min(image_shape[0], crop_size[0]), min(image_shape[1], crop_size[1]))
    return valid_shape(largest, kernel_size, stride, pad=False)

"""Convolutional dictionaries: a few kernels, each at every position of an image.

The module uses only NumPy and SciPy, like the certificates that use it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.describe import Described, number, size
from snn.base.value import Value, assign, cached_property
from solvers._kernels.precision import SMALLEST
from solvers.problem.atoms import Atoms, checked_squared_norms, inverse_norms

# There is a warning if the means of all kernels are below LEAST_MEAN times their norms, and local means of a
# signal have more than the share LARGEST_SLOW_SHARE of its energy.
LEAST_MEAN = 1e-2
LARGEST_SLOW_SHARE = 0.5
# Kernels count as equal if the cosine between them is closer to 1 than this rounding error.
EQUAL_KERNELS = 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class ConvolutionalDictionary(Value, Described):
    """A dictionary whose atoms are kernels at the positions of a grid over an image, or along a signal.

    A signal is an image.  Its features are the pixels, row by row; in a colour image, the channels of a pixel
    follow each other.  With p a position of the grid and k a kernel, a code a stands for the image::

        image = sum_p sum_k a_(p, k) kernel_k placed with its upper left corner at stride * p

    Atoms are ordered by (row of the position, column of the position, kernel).  A kernel of a colour image
    covers all channels, and has one coefficient at each position.  A signal of one dimension is an image of
    one row.  Nothing of size n_atoms times n_features is ever built.

    Parameters
    ----------
    kernels : array_like, shape (n_kernels, height, width[, n_channels]) or (n_kernels, length[, n_channels])
        Kernels may have any norm.  The codes of a kernel of zeros are zero.
    image_shape : (int, int) or int
        (rows, columns) of the image, or the length of a signal for kernels of shape (n_kernels, length[,
        n_channels]).  A signal and its kernels are stored as images of one row.
    stride : int
        Distance between neighbouring positions, in pixels.

    Notes
    -----
    If the stride is larger than the kernels, no atom covers the pixels between the kernels, so that no code
    changes the residual of these pixels.

    Pass the object to a `LassoProblem` as the `dictionary`.  Solvers that need an array of atoms raise an
    error; for small images, `toarray` returns such an array.
    """

    kernels: np.ndarray
    image_shape: tuple[int, int]
    stride: int

    if TYPE_CHECKING:  # the constructor accepts more types than the attributes have

        def __init__(self, kernels: ArrayLike, image_shape: int | tuple[int, int], stride: int) -> None: ...

    def _check(self) -> None:
        is_image = isinstance(self.image_shape, (tuple, list))
        sides, meaning = (2, "height, width") if is_image else (1, "length")
        shape = (None,) * min(max(np.ndim(self.kernels), 1 + sides), 2 + sides)
        meaning = f"(n_kernels, {meaning}[, n_channels])"
        kernels = checks.real_array("kernels", self.kernels, shape=shape, meaning=meaning)
        if is_image:
            image_shape = checks.integer_pair("image_shape", self.image_shape)
        else:
            image_shape = 1, checks.positive_integer("image_shape", self.image_shape)
            kernels = kernels[:, np.newaxis]
        stride = checks.positive_integer("stride", self.stride)
        require_grid(image_shape, kernels.shape[1:3], stride)
        assign(self, kernels=kernels, image_shape=image_shape, stride=stride)

    def _facts(self) -> dict[str, str]:
        return {
            "kernels": f"{number(self.n_kernels)} of {size(self.kernels.shape[1:])}",
            "image": f"{size(self.signal_shape)}, stride {self.stride}",
            "atoms": number(self.shape[0]),
            "features": number(self.shape[1]),
        }

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.kernels.shape[0]

    @property
    def n_channels(self) -> int:
        """Number of channels of a pixel; 1 for a grey image."""
        return self.kernels.shape[3] if self.kernels.ndim == 4 else 1

    @property
    def signal_shape(self) -> tuple[int, ...]:
        """The shape of an image as an array: (rows, columns), with the channels of colour kernels."""
        return *self.image_shape, *self.kernels.shape[3:]

    @property
    def grid_shape(self) -> tuple[int, int]:
        """(rows, columns) of the grid of positions."""
        sides = zip(self.image_shape, self.kernels.shape[1:3], strict=True)
        n_rows, n_columns = ((image - kernel) // self.stride + 1 for image, kernel in sides)
        return n_rows, n_columns

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        return math.prod(self.grid_shape)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_atoms, n_features), the shape of the array of atoms."""
        return self.n_positions * self.n_kernels, math.prod(self.signal_shape)

    def toarray(self) -> np.ndarray:
        """Return the atoms in full, shape (n_atoms, n_features), for small images."""
        return self._atoms.toarray()

    @cached_property
    def _atoms(self) -> ConvolutionalAtoms:
        return ConvolutionalAtoms(self.kernels, self.image_shape, self.stride)


class ConvolutionalAtoms(ConvolutionalDictionary, Atoms):
    """The atoms of a convolutional dictionary, with their products."""

    # Colour images are treated as grey images.  With the channels side by side, an image of C channels is a
    # grey image of C times the width, and kernels move by C times the stride in a row.

    # The kernels in the shapes (n_kernels, height, width * n_channels) and (n_kernels, n_values).
    kernel_planes: np.ndarray
    kernel_rows: np.ndarray
    squared_norms_of_kernels: np.ndarray
    # The shape of an image, (rows, columns * n_channels), and the steps between neighbouring positions.
    plane_shape: tuple[int, int]
    plane_strides: tuple[int, int]

    toarray = Atoms.toarray

    def _check(self) -> None:
        super()._check()
        kernel_rows = self.kernels.reshape(self.n_kernels, -1)
        squared_norms = checked_squared_norms("kernels", "kernel", kernel_rows)
        assign(
            self,
            kernel_planes=self.kernels.reshape(*self.kernels.shape[:2], -1),
            kernel_rows=kernel_rows,
            plane_shape=(self.image_shape[0], self.image_shape[1] * self.n_channels),
            plane_strides=(self.stride, self.stride * self.n_channels),
            squared_norms_of_kernels=squared_norms,
            squared_norms=np.tile(squared_norms, self.n_positions),
            features_of_atom=kernel_rows.shape[1],
        )

    def weighted_squared_norms(self, weights: np.ndarray) -> np.ndarray:
        return self._products(np.atleast_2d(weights).astype(np.float64), self.kernel_rows**2)

    def correlate(self, signals: np.ndarray) -> np.ndarray:
        return self._products(signals, self.kernel_rows)

    def _products(self, signals: np.ndarray, kernel_rows: np.ndarray) -> np.ndarray:
        """Return the inner products of signals with some kernels (rows) at all positions."""
        products = np.empty((len(signals), self.n_positions * len(kernel_rows)))
        for image, row in zip(signals.reshape(-1, *self.plane_shape), products, strict=True):
            # The axis of pixels comes first, so that long runs of memory are copied.  BLAS accepts a
            # transposed matrix without a copy.
            patches = self._placed(image).reshape(kernel_rows.shape[1], -1)
            np.matmul(patches.T, kernel_rows.T, out=row.reshape(self.n_positions, -1))
        return products

    def covered_norms(self, signals: np.ndarray) -> np.ndarray:
        patch = np.ones((1, self.features_of_atom))
        return np.sqrt(self._products(np.square(signals), patch).max(axis=1))

    def overlaps(self, codes: sparse.csr_array) -> np.ndarray:
        height, width = self.kernels.shape[1:3]
        n_positions = -(-height // self.stride) * -(-width // self.stride)
        position = codes.indices // self.n_kernels
        at_one_position = [
            np.bincount(position[start:stop]).max(initial=0)
            for start, stop in zip(codes.indptr[:-1], codes.indptr[1:], strict=True)
        ]
        return np.array(at_one_position) * n_positions

    def reconstruct(self, codes: np.ndarray | sparse.csr_array) -> np.ndarray:
        images = np.zeros((codes.shape[0], *self.plane_shape))
        for n, image in enumerate(images):
            code = codes[n] if isinstance(codes, np.ndarray) else codes[[n]].toarray()[0]
            self._add_overlapping(self.kernel_rows.T @ code.reshape(self.n_positions, -1).T, image)
        return images.reshape(len(images), -1)

    def take(self, atoms: np.ndarray) -> sparse.csr_array:
        position, kernel = np.divmod(atoms, self.n_kernels)
        row, column = np.divmod(position, self.grid_shape[1])
        height, width = self.kernel_planes.shape[1:]
        n_columns, (down, right) = self.plane_shape[1], self.plane_strides
        pixels = (n_columns * np.arange(height)[:, np.newaxis] + np.arange(width)).ravel()
        columns = (n_columns * down * row + right * column)[:, np.newaxis] + pixels
        starts = len(pixels) * np.arange(len(atoms) + 1)
        shape = len(atoms), self.shape[1]
        return sparse.csr_array((self.kernel_rows[kernel].ravel(), columns.ravel(), starts), shape)

    @cached_property
    def stencil(self) -> np.ndarray:
        """Inner products of overlapping kernels, shape (n_kernels, 2 r + 1, 2 c + 1, n_kernels)."""
        # The entry [k, r + i, c + j, l] is the product of kernel k with kernel l, whose position is i rows
        # and j columns further.  Kernels that are more than r rows or c columns apart do not overlap.
        n_kernels, height, width = self.kernel_planes.shape
        row_stride, column_stride = self.plane_strides
        reach_rows, reach_columns = (height - 1) // row_stride, (width - 1) // column_stride
        stencil = np.empty((n_kernels, 2 * reach_rows + 1, 2 * reach_columns + 1, n_kernels))
        for i in range(-reach_rows, reach_rows + 1):
            for j in range(-reach_columns, reach_columns + 1):
                own_rows, other_rows = _overlap(height, i * row_stride)
                own_columns, other_columns = _overlap(width, j * column_stride)
                own = self.kernel_planes[:, own_rows, own_columns].reshape(n_kernels, -1)
                other = self.kernel_planes[:, other_rows, other_columns].reshape(n_kernels, -1)
                stencil[:, reach_rows + i, reach_columns + j] = own @ other.T
        return checks.read_only(stencil)

    def complaint(self, signals: np.ndarray) -> str | None:
        # If atoms are equal except for a factor, codes are not unique.  If no kernel has a mean, slow changes
        # of an image are coded by many large coefficients of both signs, or not at all.
        if self._equal_kernels is not None:
            first, second = self._equal_kernels
            return (
                f"kernels {first} and {second} are equal but for a factor and a shift, so that codes may not "
                "be unique: leave one of them out"
            )
        # The mean of each channel of a kernel, in units of the norm.
        pixels = self.kernels.reshape(self.n_kernels, -1, self.n_channels)
        means = np.linalg.norm(pixels.sum(axis=1), axis=1) / np.sqrt(pixels.shape[1])
        if (means > LEAST_MEAN * np.sqrt(self.squared_norms_of_kernels)).any():
            return None
        from scipy.ndimage import uniform_filter  # imported here, because scipy.ndimage takes long to import

        images = signals.reshape(-1, *self.image_shape, self.n_channels)
        slow = uniform_filter(images, (0, *self.kernels.shape[1:3], 0))
        energies = np.maximum(np.einsum("nijc,nijc->n", images, images), SMALLEST)
        shares = np.einsum("nijc,nijc->n", slow, slow) / energies
        if shares.max() <= LARGEST_SLOW_SHARE:
            return None
        return (
            f"no kernel has a mean, but local means are {shares.max():.0%} of the energy of signal "
            f"{int(np.argmax(shares))}: subtract them (dictlearn.prepare_image, or "
            "scipy.ndimage.gaussian_filter), or add a constant kernel"
        )

    @cached_property
    def _equal_kernels(self) -> tuple[int, int] | None:
        """Two kernels, perhaps at neighbouring positions, that are equal except for a factor."""
        # A kernel of norm zero does not count as equal to another kernel.
        inverse = inverse_norms(self.squared_norms_of_kernels)
        cosines = np.abs(self.stencil) * inverse[:, np.newaxis, np.newaxis, np.newaxis] * inverse
        kernels, (_, rows, columns, _) = np.arange(self.n_kernels), cosines.shape
        cosines[kernels, rows // 2, columns // 2, kernels] = 0.0
        pairs = np.argwhere(cosines > 1.0 - EQUAL_KERNELS)
        return (int(pairs[0, 0]), int(pairs[0, 3])) if len(pairs) else None

    def _placed(
        self, image: np.ndarray, rows: slice = slice(0, None), columns: slice = slice(0, None)
    ) -> np.ndarray:
        """Return a view of the pixels under some rows and columns of the kernels, at all positions."""
        # The view has the shape (kernel rows, kernel columns, grid rows, grid columns), with channels side by
        # side.
        n_rows, n_columns = (
            len(range(*part.indices(side)))
            for part, side in zip((rows, columns), self.kernel_planes.shape[1:], strict=True)
        )
        down, right = image.strides
        row_stride, column_stride = self.plane_strides
        return as_strided(
            image[rows.start :, columns.start :],
            (n_rows, n_columns, *self.grid_shape),
            (down, right, row_stride * down, column_stride * right),
        )

    def _add_overlapping(self, patches: np.ndarray, image: np.ndarray) -> None:
        """Add patches, shape (values of a kernel, n_positions), to an image at their positions."""
        height, width = self.kernel_planes.shape[1:]
        row_stride, column_stride = self.plane_strides
        patches = patches.reshape(height, width, *self.grid_shape)
        # Patches are added in parts no larger than the stride, because the same part of patches at two
        # positions does not overlap.
        for i in range(0, height, row_stride):
            for j in range(0, width, column_stride):
                rows, columns = slice(i, i + row_stride), slice(j, j + column_stride)
                self._placed(image, rows, columns)[...] += patches[rows, columns]


def _overlap(side: int, shift: int) -> tuple[slice, slice]:
    """Return the overlap of an interval and the same interval shifted by `shift`, as slices of both."""
    return slice(max(shift, 0), min(side, side + shift)), slice(max(-shift, 0), min(side, side - shift))


def require_grid(image_shape: tuple[int, int], kernel_shape: tuple[int, int], stride: int) -> None:
    """Raise ValueError unless kernels at steps of `stride` cover the image to its end."""
    require_room(image_shape, kernel_shape)
    smaller, larger = (valid_shape(image_shape, kernel_shape, stride, pad=pad) for pad in (False, True))
    if tuple(image_shape) != smaller:
        (rows, columns), (height, width) = image_shape, kernel_shape
        raise ValueError(
            "stride must divide the rows and columns that the image has beyond a kernel, "
            f"{rows} - {height} and {columns} - {width}; got {stride}: crop the image to {smaller[0]} x "
            f"{smaller[1]} or pad it to {larger[0]} x {larger[1]} pixels with dictlearn.prepare_image"
        )


def require_room(
    image_shape: tuple[int, int], kernel_shape: tuple[int, int], *, name: str = "the image", hint: str = ""
) -> None:
    """Raise ValueError if a kernel is larger than the image."""
    for axis, image, kernel in zip(("rows", "columns"), image_shape, kernel_shape, strict=True):
        if kernel > image:
            raise ValueError(
                f"kernels must not be larger than {name}; got {kernel} {axis} in an image of {image}{hint}"
            )


def valid_shape(
    image_shape: tuple[int, int], kernel_shape: tuple[int, int], stride: int, *, pad: bool
) -> tuple[int, int]:
    """Return the nearest image shape that the grid covers, which is not smaller if `pad`, else not larger."""
    rows, columns = (
        kernel + ((image - kernel + (stride - 1 if pad else 0)) // stride) * stride
        for image, kernel in zip(image_shape, kernel_shape, strict=True)
    )
    return rows, columns

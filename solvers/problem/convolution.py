"""Convolutional dictionaries: a few kernels, each at every place of an image.

NumPy and SciPy only, like the certificates that use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.describe import number, size
from snn.base.value import cached_property
from solvers.problem.dictionary import Dictionary, inverse_norms
from solvers.problem.messages import checked_squared_norms

# A product of a code with the kernels goes through its non-zeros if they are fewer than one in so many.
DENSE_PART = 16
# Where kernels have no mean, by this share of their norms, and local means are more than this share of the
# energy of a signal, it is said.
LEAST_MEAN = 1e-2
LARGEST_SLOW_SHARE = 0.5
# Kernels are equal where the cosine between them differs from 1 by less than this: rounding.
EQUAL = 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class ConvolutionalDictionary(Dictionary):
    """A dictionary whose atoms are kernels at the places of a grid over an image, or along a signal.

    A signal is an image, its features the pixels row by row; of a colour image, the channels of a pixel one
    after the other.  With p a position of the grid and k a kernel, a code a is that of the image::

        image = sum_p sum_k a_(p, k) kernel_k placed with its upper left corner at stride * p

    Atoms are ordered by (row of the position, column of the position, kernel).  A kernel of a colour image
    has all channels, and one coefficient at each position.  A signal of one dimension is an image of one row.
    Nothing of size n_atoms times n_features is ever built.

    Parameters
    ----------
    kernels : array_like, shape (n_kernels, height, width[, n_channels]) or (n_kernels, length[, n_channels])
        Kernels of any norm.  The codes of one that is zero are zero.
    image_shape : (int, int) or int
        (rows, columns) of the image, or the length of a signal, which the kernels then have the shape of:
        kernels and `image_shape` are kept as those of an image of one row.
    stride : int
        Distance between neighbouring positions, in pixels.

    Notes
    -----
    With a stride larger than the kernels, pixels between them belong to no atom: they stay what they
    are in every residual.

    Colour needs no code of its own: with the channels side by side, an image of C channels is a grey one
    (`plane_shape`) of C times the width, and kernels (`kernel_planes`) move by C times the stride in a row.

    A `LassoProblem` takes it for a `dictionary`.  Solvers that need an array of atoms say so; `toarray`
    makes one for small images.
    """

    kernels: np.ndarray
    image_shape: tuple[int, int]
    stride: int

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(self, kernels: ArrayLike, image_shape: int | tuple[int, int], stride: int) -> None: ...

    def __post_init__(self) -> None:
        is_image = isinstance(self.image_shape, (tuple, list))
        sides, meaning = (2, "height, width") if is_image else (1, "length")
        n_dims = min(max(np.ndim(self.kernels), 1 + sides), 2 + sides)
        kernels = checks.real_array(
            "kernels",
            self.kernels,
            shape=(None,) * n_dims,
            meaning=f"(n_kernels, {meaning}[, n_channels])",
        )
        if is_image:
            image_shape = checks.integer_pair("image_shape", self.image_shape)
        else:
            image_shape = 1, checks.positive_integer("image_shape", self.image_shape)
            kernels = kernels[:, np.newaxis]
        stride = checks.positive_integer("stride", self.stride)
        require_grid(image_shape, kernels.shape[1:3], stride)
        if not kernels.any():
            raise ValueError("kernels must have one of positive norm; got zeros only")
        vars(self).update(kernels=checks.read_only(kernels), image_shape=image_shape, stride=stride)
        squared_norms = checked_squared_norms("kernels", "kernel", self.kernel_rows)
        vars(self).update(
            squared_norms=checks.read_only(np.tile(squared_norms, self.n_positions)),
            features_of_atom=self.kernel_rows.shape[1],
        )

    def _facts(self) -> dict[str, str]:
        return {
            "kernels": f"{number(self.n_kernels)} of {size(self.kernels.shape[1:])}",
            "image": f"{size(self.signal_shape)}, stride {self.stride}",
            **super()._facts(),
        }

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self.kernels.shape[0]

    @property
    def n_channels(self) -> int:
        """Channels of a pixel, 1 of a grey image."""
        return self.kernels.shape[3] if self.kernels.ndim == 4 else 1

    @property
    def signal_shape(self) -> tuple[int, ...]:
        """The shape of an image as an array: (rows, columns), with the channels of colour kernels."""
        return *self.image_shape, *self.kernels.shape[3:]

    @property
    def plane_shape(self) -> tuple[int, int]:
        """(rows, columns times channels): the image with its channels side by side."""
        return self.image_shape[0], self.image_shape[1] * self.n_channels

    @cached_property
    def kernel_planes(self) -> np.ndarray:
        """The kernels with their channels side by side, shape (n_kernels, height, width * n_channels)."""
        return self.kernels.reshape(*self.kernels.shape[:2], -1)

    @property
    def plane_strides(self) -> tuple[int, int]:
        """(rows, columns) from a position to the next in such an image."""
        return self.stride, self.stride * self.n_channels

    @property
    def grid_shape(self) -> tuple[int, int]:
        """(rows, columns) of the grid of positions."""
        sides = zip(self.image_shape, self.kernels.shape[1:3], strict=True)
        n_rows, n_columns = ((image - kernel) // self.stride + 1 for image, kernel in sides)
        return n_rows, n_columns

    @property
    def n_positions(self) -> int:
        """Number of positions."""
        n_rows, n_columns = self.grid_shape
        return n_rows * n_columns

    @property
    def shape(self) -> tuple[int, int]:
        """(n_atoms, n_features), as of an array of atoms."""
        return self.n_positions * self.n_kernels, self.plane_shape[0] * self.plane_shape[1]

    @cached_property
    def kernel_rows(self) -> np.ndarray:
        """The kernels, a row each, shape (n_kernels, height * width * n_channels)."""
        return self.kernels.reshape(self.n_kernels, -1)

    def weighted_squared_norms(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_j w_j d_ij^2 for each row of weights, shape (n_rows, n_atoms)."""
        squares = ConvolutionalDictionary(self.kernels**2, self.image_shape, self.stride)
        return squares.correlate(np.atleast_2d(weights).astype(np.float64))

    def normal_product(
        self, codes: np.ndarray, *, out: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Write codes @ D @ D.T to `out`, shape (n_signals, n_atoms), weights in between if there are any."""
        images = self.reconstruct(codes)
        if weights is not None:
            images *= weights
        self.correlate(images, out=out)

    def correlate(self, signals: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
        """Return the inner products of signals with all atoms, shape (n_signals, n_atoms), in `out` if given.

        The result for a signal does not depend on those beside it.
        """
        if out is None:
            out = np.empty((len(signals), self.shape[0]))
        n_pixels = self.kernel_rows.shape[1]
        for signal, correlations in zip(signals, out, strict=True):
            image = np.ascontiguousarray(signal).reshape(self.plane_shape)
            # Pixels before positions: long runs to copy, and BLAS takes either order.
            patches = self._placed(image, slice(0, None), slice(0, None)).reshape(n_pixels, -1)
            np.matmul(patches.T, self.kernel_rows.T, out=correlations.reshape(self.n_positions, -1))
        return out

    def covered_norms(self, signals: np.ndarray) -> np.ndarray:
        """Return the largest norm of a patch of each image that a kernel covers, shape (n_signals,)."""
        images = np.square(signals).reshape(-1, *self.plane_shape)
        sums = [self._placed(image, slice(0, None), slice(0, None)).sum(axis=(0, 1)) for image in images]
        return np.sqrt(np.max(sums, axis=(1, 2)))

    def overlaps(self, codes: sparse.csr_array) -> np.ndarray:
        """Return how many atoms of each code cover one pixel, or more, shape (n_signals,)."""
        height, width = self.kernels.shape[1:3]
        n_positions = -(-height // self.stride) * -(-width // self.stride)
        position = codes.indices // self.n_kernels
        at_one_position = [
            np.bincount(position[start:stop]).max(initial=0)
            for start, stop in zip(codes.indptr[:-1], codes.indptr[1:], strict=True)
        ]
        return np.array(at_one_position) * n_positions

    def reconstruct(self, codes: np.ndarray | sparse.csr_array) -> np.ndarray:
        """Return codes @ dictionary, shape (n_signals, n_features), of an array or of sorted compressed rows.

        The result for a code does not depend on those beside it.
        """
        images = np.zeros((codes.shape[0], self.shape[1]))
        for n, image in enumerate(images):
            if isinstance(codes, np.ndarray):
                atoms = np.flatnonzero(codes[n])
                values = codes[n, atoms]
            else:
                entries = slice(codes.indptr[n], codes.indptr[n + 1])
                atoms, values = codes.indices[entries], codes.data[entries]
            if DENSE_PART * len(atoms) > codes.shape[1]:
                code = np.zeros(codes.shape[1])
                code[atoms] = values
                patches = self.kernel_rows.T @ code.reshape(self.n_positions, -1).T
                self._add_overlapping(patches, image.reshape(self.plane_shape))
            else:
                image += self.take(atoms).T @ values
        return images

    def take(self, atoms: np.ndarray) -> sparse.csr_array:
        """Return some atoms as compressed rows, by their numbers, shape (n_chosen, n_features)."""
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
        """The inner products of kernels with those around, shape (n_kernels, 2 r + 1, 2 c + 1, n_kernels).

        ``[k, r + i, c + j, l]`` is that of kernel k at a position with kernel l at the position i rows and j
        columns further; beyond r rows or c columns kernels do not overlap.
        """
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
        """Return what is wrong with coding signals in this dictionary, in one sentence, or None."""
        # Atoms that are equal but for a factor make codes that are not unique.  Where no kernel has a mean,
        # slow changes of an image are coded by many large coefficients of both signs, or not at all.
        if self._equal_kernels is not None:
            first, second = self._equal_kernels
            return (
                f"kernels {first} and {second} are equal but for a factor and a shift, so that codes may not "
                "be unique: leave one of them out"
            )
        if self._has_mean:
            return None
        from scipy.ndimage import uniform_filter  # here, because it takes long to import

        images = signals.reshape(-1, *self.image_shape, self.n_channels)
        slow = uniform_filter(images, (0, *self.kernels.shape[1:3], 0))
        shares = np.einsum("nijc,nijc->n", slow, slow) / np.maximum(
            np.einsum("nijc,nijc->n", images, images), np.finfo(float).tiny
        )
        if shares.max() <= LARGEST_SLOW_SHARE:
            return None
        return (
            f"no kernel has a mean, but local means are {shares.max():.0%} of the energy of signal "
            f"{int(np.argmax(shares))}: subtract them (dictlearn.prepare_image, or "
            "scipy.ndimage.gaussian_filter), or add a constant kernel"
        )

    @cached_property
    def _has_mean(self) -> bool:
        """True if a channel of a kernel has a part that is constant, beyond `LEAST_MEAN` of the norm."""
        norms = np.sqrt(self.squared_norms[: self.n_kernels])
        pixels = self.kernels.reshape(self.n_kernels, -1, self.n_channels)
        sums = np.linalg.norm(pixels.sum(axis=1), axis=1) / np.sqrt(pixels.shape[1])
        return bool((sums > LEAST_MEAN * norms).any())

    @cached_property
    def _equal_kernels(self) -> tuple[int, int] | None:
        """Two kernels, perhaps at neighbouring positions, that are equal but for a factor."""
        # A kernel of norm zero is equal to none.
        inverse = inverse_norms(self.squared_norms[: self.n_kernels])
        stencil = self.stencil
        middle = np.array(stencil.shape[1:3]) // 2
        for kernel, products in enumerate(stencil):
            cosines = np.abs(products) * inverse[kernel] * inverse
            cosines[middle[0], middle[1], kernel] = 0.0
            if cosines.max() > 1.0 - EQUAL:
                return kernel, int(np.unravel_index(np.argmax(cosines), cosines.shape)[2])
        return None

    def toarray(self) -> np.ndarray:
        """Return the atoms in full, shape (n_atoms, n_features), for small images."""
        return self.take(np.arange(self.shape[0])).toarray()

    def _placed(self, image: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
        """Return the pixels of an image under some rows and columns of the kernels, a view.

        All have their channels side by side.  Shape (kernel rows, kernel columns, grid rows, grid columns).
        """
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
        """Add patches, shape (values of a kernel, n_positions), to an image, each at its place."""
        height, width = self.kernel_planes.shape[1:]
        row_stride, column_stride = self.plane_strides
        patches = patches.reshape(height, width, *self.grid_shape)
        # Parts of a side of at most the stride, which do not overlap with those of other positions.
        for i in range(0, height, row_stride):
            for j in range(0, width, column_stride):
                rows, columns = slice(i, i + row_stride), slice(j, j + column_stride)
                self._placed(image, rows, columns)[...] += patches[rows, columns]


def _overlap(side: int, shift: int) -> tuple[slice, slice]:
    """Return where two intervals of one length overlap, in the first and in the one `shift` further."""
    return slice(max(shift, 0), min(side, side + shift)), slice(max(-shift, 0), min(side, side - shift))


def require_grid(image_shape: tuple[int, int], kernel_shape: tuple[int, int], stride: int) -> None:
    """Raise ValueError unless kernels at steps of `stride` begin and end with the image."""
    require_room(image_shape, kernel_shape)
    smaller, larger = (valid_shape(image_shape, kernel_shape, stride, pad=pad) for pad in (False, True))
    for name, image, kernel, side in zip(
        ("rows", "columns"), image_shape, kernel_shape, smaller, strict=True
    ):
        if image != side:
            raise ValueError(
                f"stride must divide the {name} that the image has beyond a kernel, {image} - {kernel}; got "
                f"{stride}, which fits {smaller[0]} x {smaller[1]} (crop) and {larger[0]} x {larger[1]} "
                "pixels (pad); dictlearn.prepare_image does that"
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


def valid_shape(
    image_shape: tuple[int, int], kernel_shape: tuple[int, int], stride: int, *, pad: bool
) -> tuple[int, int]:
    """Return the nearest shape of an image that the grid covers: not smaller if `pad`, else not larger."""
    rows, columns = (
        kernel + ((image - kernel + (stride - 1 if pad else 0)) // stride) * stride
        for image, kernel in zip(image_shape, kernel_shape, strict=True)
    )
    return rows, columns

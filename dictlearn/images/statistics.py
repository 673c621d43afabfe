"""Sums over coded images, whose size does not depend on the number of images, and kernels that fit them best.

If the codes a of images x are fixed, the data term is a quadratic function of the kernels d::

    1/2 sum_x ||x - sum_p sum_k a_(p, k) d_k placed at p||^2 = 1/2 <d, A d> - <d, B> + const

    A[k, i, j, l] = sum_p a_(p, k) a_(p + (i, j), l)        codes with codes, at lags where kernels overlap
    B[k]          = sum_p a_(p, k) (pixels of x at p)       codes with images
    (A d)_k(u)    = sum_(i, j) sum_l A[k, i, j, l] d_l(u - stride (i, j))

The equation is exact, because all atoms lie within the image.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import sparse

from solvers.problem.convolutional_dictionary import ConvolutionalAtoms

# An eigenvalue of a kernel's block of A counts as zero if it is at most this share of the largest eigenvalue.
EIGENVALUE_ROUNDING = 1e-12
# Absolute tolerance of the multiplier in `minimised`, so small that only the relative tolerance counts.
TINY = 1e-300


class KernelStatistics:
    """The sums A (`lags`) and B (`correlations`) over all coded images."""

    # Shapes: lags (n_kernels, 2 r + 1, 2 c + 1, n_kernels), with the lag zero in the middle; correlations
    # (n_kernels, height * width, n_channels).

    def __init__(self, n_kernels: int, kernel_size: tuple[int, int], n_channels: int, stride: int) -> None:
        self.kernel_size = kernel_size
        self.stride = stride
        self.reach = (kernel_size[0] - 1) // stride, (kernel_size[1] - 1) // stride
        n_rows, n_columns = (2 * reach + 1 for reach in self.reach)
        self.lags = np.zeros((n_kernels, n_rows, n_columns, n_kernels))
        self.correlations = np.zeros((n_kernels, kernel_size[0] * kernel_size[1], n_channels))
        self._shifts = _shifts(kernel_size, self.reach, stride)

    @property
    def usage(self) -> np.ndarray:
        """The sum of the squares of the coefficients of each kernel, shape (n_kernels,)."""
        return np.einsum("kk->k", self.lags[:, self.reach[0], self.reach[1], :]).copy()

    def forget(self, factor: float) -> None:
        """Multiply the sums of earlier images by a factor."""
        self.lags *= factor
        self.correlations *= factor

    def add(self, dictionary: ConvolutionalAtoms, signals: np.ndarray, codes: sparse.csr_array) -> None:
        """Add images, shape (n_signals, n_features), and their codes."""
        self._add_lags(dictionary, codes)
        row_stride, column_stride = dictionary.plane_strides
        for n, signal in enumerate(signals):
            entries = slice(codes.indptr[n], codes.indptr[n + 1])
            position, kernel = np.divmod(codes.indices[entries], dictionary.n_kernels)
            used, row_of_entry = np.unique(position, return_inverse=True)
            row, column = np.divmod(used, dictionary.grid_shape[1])
            plane = signal.reshape(dictionary.plane_shape)
            windows = sliding_window_view(plane, dictionary.kernel_planes.shape[1:])
            patches = windows[row_stride * row, column_stride * column].reshape(
                len(used), windows.shape[2] * windows.shape[3]
            )
            shape = (dictionary.n_kernels, len(used))
            by_kernel = sparse.csr_array((codes.data[entries], (kernel, row_of_entry)), shape)
            self.correlations += (by_kernel @ patches).reshape(self.correlations.shape)

    def product(self, kernel: int, kernels: np.ndarray) -> np.ndarray:
        """Return the part of A d that belongs to one kernel, shape (height * width, n_channels)."""
        n_kernels, n_pixels, n_channels = kernels.shape
        by_lag = self.lags[kernel].reshape(-1, n_kernels) @ kernels.reshape(n_kernels, -1)
        shifted = np.zeros((len(by_lag), n_pixels + 1, n_channels))  # the last row is for pixels outside
        shifted[:, :-1] = by_lag.reshape(-1, n_pixels, n_channels)
        return shifted[np.arange(len(by_lag))[:, np.newaxis], self._shifts].sum(axis=0)

    def own_block(self, kernel: int) -> np.ndarray:
        """Return the block of A for the pixels of one kernel, which is the same for each channel."""
        n_pixels = self._shifts.shape[1]
        block = np.zeros((n_pixels, n_pixels + 1))  # the last column is for pixels outside
        block[np.arange(n_pixels), self._shifts] = self.lags[kernel, :, :, kernel].reshape(-1, 1)
        return block[:, :-1]

    def clear(self, kernel: int) -> None:
        """Set the sums of one kernel to zero."""
        self.lags[kernel] = 0.0
        self.lags[..., kernel] = 0.0
        self.correlations[kernel] = 0.0

    def _add_lags(self, dictionary: ConvolutionalAtoms, codes: sparse.csr_array) -> None:
        """Add products of codes with codes, one product of sparse matrices for each lag."""
        n_kernels = dictionary.n_kernels
        n_rows, n_columns = dictionary.grid_shape
        # Put the positions of all images in one sequence.  Zeros after each row and each image keep rows and
        # images apart at all lags.
        width = n_columns + self.reach[1]
        height = n_rows + self.reach[0]
        signal = np.repeat(np.arange(codes.shape[0]), np.diff(codes.indptr))
        position, kernel = np.divmod(codes.indices, n_kernels)
        row, column = np.divmod(position, n_columns)
        place = (signal * height + row) * width + column
        length = codes.shape[0] * height * width + self.reach[1]
        line = sparse.csr_array((codes.data, (place, kernel)), (length, n_kernels))
        middle_row, middle_column = self.reach
        for i in range(middle_row + 1):
            for j in range(-middle_column if i else 0, middle_column + 1):
                lag = i * width + j
                products = (line[: length - lag].T @ line[lag:]).toarray()
                self.lags[:, middle_row + i, middle_column + j, :] += products
                if lag:
                    self.lags[:, middle_row - i, middle_column - j, :] += products.T


def _shifts(kernel_size: tuple[int, int], reach: tuple[int, int], stride: int) -> np.ndarray:
    """Return the index of pixel u - stride * lag for each lag and u, or the number of pixels outside."""
    height, width = kernel_size
    rows = np.arange(height) - stride * np.arange(-reach[0], reach[0] + 1)[:, np.newaxis]
    columns = np.arange(width) - stride * np.arange(-reach[1], reach[1] + 1)[:, np.newaxis]
    rows, columns = rows[:, np.newaxis, :, np.newaxis], columns[np.newaxis, :, np.newaxis, :]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return np.where(inside, rows * width + columns, height * width).reshape(-1, height * width)


def improve_kernels(statistics: KernelStatistics, kernels: np.ndarray, n_sweeps: int) -> None:
    """Minimise the data term exactly over each used kernel in turn, with norms of at most one."""
    used = np.flatnonzero(statistics.usage > 0.0).tolist()
    for kernel in n_sweeps * used:
        block = statistics.own_block(kernel)
        others = statistics.product(kernel, kernels) - block @ kernels[kernel]
        wanted = statistics.correlations[kernel] - others
        if wanted.any():
            kernels[kernel] = minimised(block, wanted)


def minimised(block: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the minimum d of ``1/2 <d, block d> - <d, wanted>`` with a norm of at most one."""
    # In the basis of the block's eigenvectors, d is wanted / (eigenvalue + m).  The multiplier m is zero or
    # such that d has norm one.  Up to rounding, `wanted` lies in the range of the block.
    # Shapes: block (n_pixels, n_pixels); wanted (n_pixels, n_channels).
    from scipy.optimize import brentq  # imported here, because scipy.optimize is large

    # Division by a power of two causes no rounding, and it keeps squares in the range of floats.
    unit = -int(np.frexp(max(np.abs(block).max(), np.abs(wanted).max()))[1])
    eigenvalues, vectors = np.linalg.eigh(np.ldexp(block, unit))
    usable = eigenvalues > EIGENVALUE_ROUNDING * eigenvalues[-1]
    eigenvalues, vectors = eigenvalues[usable], vectors[:, usable]
    wanted = vectors.T @ np.ldexp(wanted, unit)
    squares = np.einsum("ij,ij->i", wanted, wanted)

    def excess(multiplier: float) -> float:
        """Return the norm of the kernel for this multiplier, minus one."""
        return float(np.sqrt((squares / (eigenvalues + multiplier) ** 2).sum())) - 1.0

    multiplier = brentq(excess, 0.0, 2.0 * np.sqrt(squares.sum()), xtol=TINY) if excess(0.0) > 0.0 else 0.0
    solution = vectors @ (wanted / (eigenvalues + multiplier)[:, np.newaxis])
    return solution / max(1.0, np.linalg.norm(solution))

"""Weights that are the same at every position of a grid."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn._kernels.convolution.grid import Stencil
from snn.base import checks
from snn.base.value import cached_property, checked
from snn.weights.protocol import Weights, same_type


@dataclass(frozen=True, eq=False, repr=False)
class StencilWeights(Weights):
    """Weights of a convolution: neurons lie on a grid of positions, with the same channels at each position.

    The weight from channel k at position p to channel l at position p + (i, j) is::

        values[k, r + i, c + j, l]

    for every p, and zero for positions that are more than r rows or c columns apart.  Targets beyond the grid
    do not exist.  Neurons are ordered by row, then column, then channel.

    Parameters
    ----------
    values : array_like, shape (n_channels, 2 r + 1, 2 c + 1, n_channels)
        Weights [source channel, row offset, column offset, target channel]; zero from a neuron to itself.
    grid_shape : (int, int)
        Numbers of rows and columns of the grid of positions.
    """

    values: np.ndarray = checked(
        checks.real_array,
        shape=(None,) * 4,
        meaning="(source channel, row offset, column offset, target channel)",
    )
    grid_shape: tuple[int, int] = checked(checks.integer_pair)

    if TYPE_CHECKING:  # the constructor accepts more types than the field has

        def __init__(self, values: ArrayLike, grid_shape: tuple[int, int]) -> None: ...

    def _check(self) -> None:
        n_channels, n_row_offsets, n_column_offsets, n_targets = self.values.shape
        if n_channels != n_targets:
            raise ValueError(
                "values must have equal numbers of source and target channels; got "
                f"{n_channels} and {n_targets}"
            )
        if n_row_offsets % 2 == 0 or n_column_offsets % 2 == 0:
            raise ValueError(
                "values must have odd numbers of row and column offsets, with offset 0 in the middle; got "
                f"{n_row_offsets} and {n_column_offsets}"
            )
        diagonal = self.values[:, n_row_offsets // 2, n_column_offsets // 2].diagonal()
        if diagonal.any():
            channel = int(np.flatnonzero(diagonal)[0])
            raise ValueError(
                "values must not connect a neuron to itself; got "
                f"{diagonal[channel]} for channel {channel} at offset 0: set it to 0"
            )

    @property
    def n_channels(self) -> int:
        """Number of channels at each position."""
        return self.values.shape[0]

    @property
    def reach(self) -> tuple[int, int]:
        """Numbers of rows and columns (r, c) that a spike reaches in each direction from its position."""
        return self.values.shape[1] // 2, self.values.shape[2] // 2

    @property
    def shape(self) -> tuple[int, int]:
        return (self.grid_shape[0] * self.grid_shape[1] * self.n_channels,) * 2

    @cached_property
    def kernel_form(self) -> Stencil:
        largest_value = float(np.abs(self.values).max()) or 1.0
        return Stencil(
            same_type(self.values, np.float64), largest_value, *self.grid_shape, self.n_channels, *self.reach
        )

    def tocsr(self) -> sparse.csr_array:
        n_positions = self.grid_shape[0] * self.grid_shape[1]
        positions = np.arange(n_positions).reshape(self.grid_shape)
        blocks = sparse.csr_array((n_positions * self.n_channels,) * 2)
        for i, j, sources, targets in self._offsets():
            moves = sparse.coo_array(
                (np.ones(positions[sources].size), (positions[sources].ravel(), positions[targets].ravel())),
                (n_positions, n_positions),
            )
            blocks = blocks + sparse.kron(moves, sparse.coo_array(self.values[:, i, j]), format="csr")
        matrix = sparse.csr_array(blocks)
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return matrix

    def transpose_product(self, amounts: np.ndarray) -> np.ndarray:
        sent = amounts.reshape(*amounts.shape[:-1], *self.grid_shape, self.n_channels)
        received = np.zeros(sent.shape)
        for i, j, sources, targets in self._offsets():
            received[..., targets[0], targets[1], :] += (
                sent[..., sources[0], sources[1], :] @ self.values[:, i, j]
            )
        return received.reshape(amounts.shape)

    def out_degrees(self, sources: np.ndarray) -> np.ndarray:
        position, channel = np.divmod(sources, self.n_channels)
        degrees = np.count_nonzero(self.values, axis=3)
        total = np.zeros(len(sources), dtype=np.int64)
        for i, j, inside, _ in self._offsets():
            reached = np.zeros(self.grid_shape, dtype=np.bool_)
            reached[inside] = True
            total += reached.ravel()[position] * degrees[channel, i, j]
        return total

    def _largest_magnitudes(self) -> np.ndarray:
        # The bound includes weights to positions beyond a small grid.
        return np.tile(np.abs(self.values).max(axis=(0, 1, 2)), self.grid_shape[0] * self.grid_shape[1])

    def _column(self, target: int, sources: np.ndarray) -> np.ndarray:
        layout = *self.grid_shape, self.n_channels
        row, column, channel = np.unravel_index(sources, layout)
        place = np.unravel_index(target, layout)
        i, j = place[0] - row + self.reach[0], place[1] - column + self.reach[1]
        n_rows, n_columns = self.values.shape[1:3]
        inside = (i >= 0) & (i < n_rows) & (j >= 0) & (j < n_columns)
        return np.where(inside, self.values[channel, i % n_rows, j % n_columns, place[2]], 0.0)

    def _offsets(self) -> Iterator[tuple[int, int, tuple[slice, ...], tuple[slice, ...]]]:
        """Yield (indices in `values`, slices of sources, slices of targets) for each offset."""
        for i, j in np.ndindex(self.values.shape[1:3]):
            shifts = i - self.reach[0], j - self.reach[1]
            if abs(shifts[0]) >= self.grid_shape[0] or abs(shifts[1]) >= self.grid_shape[1]:
                continue
            sources, targets = (
                tuple(
                    slice(max(sign * -shift, 0), side - max(sign * shift, 0))
                    for shift, side in zip(shifts, self.grid_shape, strict=True)
                )
                for sign in (1, -1)
            )
            yield i, j, sources, targets

"""Coordinate descent on a convolutional code, in the image: no entry of a Gram matrix is stored.

A code has a row for each position of the grid and a column for each kernel.  `image` is what the code leaves
of the signal.  At a position the pixels under the kernels are copied out, the coefficients there are
minimised over, one after the other, and the pixels are put back.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inner, uncounted
from solvers._kernels.dots import dot, minimised, subtract


class KernelGrid(NamedTuple):
    """The kernels and their grid, with work arrays."""

    n_rows: int
    n_columns: int
    reach_rows: int  # in which kernels overlap
    reach_columns: int
    row_stride: int
    column_stride: int
    height: int
    width: int
    kernels: np.ndarray  # shape (n_kernels, height * width)
    norms: np.ndarray  # shape (n_kernels,)
    pixels: np.ndarray  # their transpose
    gram: np.ndarray  # shape (n_kernels, n_kernels): inner products at one position
    patch: np.ndarray  # shape (height * width,), a work array
    correlations: np.ndarray  # shape (n_kernels,), a work array
    n_multiply_adds: np.ndarray  # one entry: so far


class GridProblem(NamedTuple):
    """What is minimised besides the image, a row for each position."""

    l1_weights: np.ndarray
    diagonal: np.ndarray  # ||d_i||^2 plus the curvature of the penalty
    positive: np.ndarray  # True for coefficients that must not be negative


# How often a sweep goes through the coefficients of a position, at most, before it moves on.
PASSES = 2


@partial(inner, fastmath={"contract"})
def _correlate(pixels, patch, correlations):
    for k in range(correlations.shape[0]):
        correlations[k] = 0.0
    for i in range(patch.shape[0]):
        for k in range(correlations.shape[0]):
            correlations[k] += patch[i] * pixels[i, k]


@inner
def _take(grid, position, image):
    top = grid.row_stride * (position // grid.n_columns)
    left = grid.column_stride * (position % grid.n_columns)
    for i in range(grid.height):
        for j in range(grid.width):
            grid.patch[i * grid.width + j] = image[top + i, left + j]


@inner
def _put(grid, position, image):
    top = grid.row_stride * (position // grid.n_columns)
    left = grid.column_stride * (position % grid.n_columns)
    for i in range(grid.height):
        for j in range(grid.width):
            image[top + i, left + j] = grid.patch[i * grid.width + j]


@inner
def _add_drift(grid, position, amount, drift):
    """Add what a position moved by to the drift of all positions in reach."""
    row, column = position // grid.n_columns, position % grid.n_columns
    left, right = max(column - grid.reach_columns, 0), min(column + grid.reach_columns + 1, grid.n_columns)
    for i in range(max(row - grid.reach_rows, 0), min(row + grid.reach_rows + 1, grid.n_rows)):
        for j in range(i * grid.n_columns + left, i * grid.n_columns + right):
            drift[j] += amount


@uncounted
def sweep(grid, problem, on_support, least_drift, backwards, code, image, drift):
    """Minimise over coefficients, position by position; return how many entered or left the support.

    on_support : whether only coefficients that are not zero are minimised over.
    drift : bounds how far the correlations at each position, of kernels of norm one, have moved since it was
        visited; where that is less than `least_drift`, it is passed over.
    """
    n_positions, n_kernels = code.shape
    correlations = grid.correlations
    n_pixels = grid.patch.shape[0]
    n_changes = n_products = 0
    for count in range(n_positions):
        position = n_positions - 1 - count if backwards else count
        if drift[position] < least_drift:
            continue
        drift[position] = 0.0
        is_taken = not on_support
        if is_taken:
            _take(grid, position, image)
            _correlate(grid.pixels, grid.patch, correlations)
            n_products += n_kernels * n_pixels
        amount = 0.0
        for _ in range(PASSES):
            n_moved = 0
            for k in range(n_kernels):
                old = code[position, k]
                if on_support:
                    if old == 0.0:
                        continue
                    if not is_taken:
                        _take(grid, position, image)
                        is_taken = True
                    correlations[k] = dot(grid.kernels[k], grid.patch)
                    n_products += n_pixels
                n_products += 1
                new = minimised(
                    grid.gram[k, k] * old + correlations[k],
                    problem.l1_weights[position, k],
                    problem.diagonal[position, k],
                    problem.positive[position, k],
                )
                if new != old:
                    if not on_support:
                        subtract(correlations, new - old, grid.gram[k])
                    subtract(grid.patch, new - old, grid.kernels[k])
                    code[position, k] = new
                    n_changes += (new == 0.0) != (old == 0.0)
                    amount += abs(new - old) * grid.norms[k]
                    n_moved += 1
            n_products += n_moved * (n_pixels if on_support else n_kernels + n_pixels)
            if n_moved == 0:
                break
        if amount > 0.0:
            _put(grid, position, image)
            _add_drift(grid, position, amount, drift)
    grid.n_multiply_adds[0] += n_products
    return n_changes

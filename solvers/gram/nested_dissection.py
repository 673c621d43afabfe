"""A Cholesky factorisation of a part of the Gram matrix of a convolutional dictionary.

Kernels overlap with those near by only, so that a strip of positions, as wide as kernels reach, parts the
grid into two sides with no entry of the matrix between them.  Each side is divided in the same way, down to
small rectangles.  Sides are eliminated before the strip between them, by dense products of matrices.  Of n
positions this takes n^(3/2) operations and n log n numbers; a matrix of a hundred thousand atoms is factored
in about a second.

References: George (1973), SIAM Journal on Numerical Analysis 10: nested dissection.  Duff and Reid
(1983), ACM Transactions on Mathematical Software 9: fronts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers._kernels import sparse_gram
from solvers._kernels.sparse_gram import GramPart
from solvers.workers.blas import load_scipy_linalg

# A rectangle with fewer members than this is not divided: `python -m tests.benchmarks convolution`.
LEAST_MEMBERS = 64


class Region(NamedTuple):
    """A rectangle of positions, and how it is divided."""

    own: np.ndarray
    """Positions eliminated here: the strip, or all."""
    border: np.ndarray
    """Positions around it that kernels reach, which are eliminated later."""
    n_divided: int
    """Regions before this one that are its sides: two, or none."""


def divide(grid_shape: tuple[int, int], reach: tuple[int, int], n_least: float) -> list[Region]:
    """Return the regions of a grid, sides before what divides them."""
    n_rows, n_columns = grid_shape
    reach_rows, reach_columns = reach
    numbers = np.arange(n_rows * n_columns).reshape(grid_shape)
    regions = []

    def visit(top: int, bottom: int, left: int, right: int) -> None:
        rows, columns = bottom - top, right - left
        is_tall = rows * max(reach_columns, 1) >= columns * max(reach_rows, 1)
        strip = reach_rows if is_tall else reach_columns
        is_divided = rows * columns > max(n_least, 1) and (rows if is_tall else columns) > 2 * strip
        own = numbers[top:bottom, left:right]
        if is_divided and is_tall:
            middle = (top + bottom - strip) // 2
            visit(top, middle, left, right)
            visit(middle + strip, bottom, left, right)
            own = numbers[middle : middle + strip, left:right]
        elif is_divided:
            middle = (left + right - strip) // 2
            visit(top, bottom, left, middle)
            visit(top, bottom, middle + strip, right)
            own = numbers[top:bottom, middle : middle + strip]
        above, below = max(top - reach_rows, 0), min(bottom + reach_rows, n_rows)
        before, behind = max(left - reach_columns, 0), min(right + reach_columns, n_columns)
        border = np.concatenate(
            [
                numbers[above:top, before:behind].ravel(),
                numbers[top:bottom, before:left].ravel(),
                numbers[top:bottom, right:behind].ravel(),
                numbers[bottom:below, before:behind].ravel(),
            ]
        )
        regions.append(Region(np.ascontiguousarray(own).ravel(), border, 2 * is_divided))

    visit(0, n_rows, 0, n_columns)
    return regions


class _Front(NamedTuple):
    """The rows of the factor of one region."""

    own: np.ndarray  # members
    border: np.ndarray  # members
    triangle: np.ndarray  # the factor of own x own, lower
    below: np.ndarray  # that of border x own


class Factor:
    """The factor of ``part + damping * diag(diagonal)``."""

    def __init__(self, part: GramPart, diagonal: np.ndarray, damping: float) -> None:
        load_scipy_linalg()
        from scipy.linalg.blas import dsyrk, dtrsm
        from scipy.linalg.lapack import dpotrf

        self._fronts: list[_Front] = []
        self.n_multiply_adds = 0  # of the factorisation, and of all solutions so far
        place = np.full(len(diagonal), -1)
        remainders: list[tuple[np.ndarray, np.ndarray]] = []
        for region in regions_of(part):
            own, border = (
                sparse_gram.members_at(part.first, positions) for positions in (region.own, region.border)
            )
            triangle = np.zeros((len(own), len(own)), order="F")
            below = np.zeros((len(border), len(own)), order="F")
            rest = np.zeros((len(border), len(border)), order="F")
            place[own], place[border] = np.arange(len(own)), np.arange(len(own), len(own) + len(border))
            sparse_gram.add_entries(part, region.own, damping, diagonal, place, triangle, below)
            for _ in range(region.n_divided):
                sparse_gram.add_remainder(*remainders.pop(), place, triangle, below, rest)
            place[own] = place[border] = -1
            if len(own):
                self.n_multiply_adds += _front_work(len(own), len(border))
                triangle, failed = dpotrf(triangle, lower=1, clean=0, overwrite_a=1)
                if failed:
                    raise np.linalg.LinAlgError("the matrix is not positive definite")
                if len(border):
                    below = dtrsm(1.0, triangle, below, side=1, lower=1, trans_a=1, overwrite_b=1)
                    rest = dsyrk(-1.0, below, beta=1.0, c=rest, lower=1, overwrite_c=1)
                self._fronts.append(_Front(own, border, triangle, below))
            remainders.append((rest, border))

    def solve(self, aim: np.ndarray) -> np.ndarray:
        """Return the solution of the equations."""
        from scipy.linalg.blas import dgemv, dtrsv

        solution = aim.copy()
        self.n_multiply_adds += sum(
            front.triangle.shape[0] * (front.triangle.shape[0] + 1) + 2 * front.below.size
            for front in self._fronts
        )
        for front in self._fronts:
            values = dtrsv(front.triangle, solution[front.own], lower=1)
            solution[front.own] = values
            if len(front.border):
                solution[front.border] -= dgemv(1.0, front.below, values)
        for front in reversed(self._fronts):
            values = solution[front.own]
            if len(front.border):
                values = values - dgemv(1.0, front.below, solution[front.border], trans=1)
            solution[front.own] = dtrsv(front.triangle, values, lower=1, trans=1)
        return solution


def _front_work(n_own: int, n_border: int) -> int:
    """Return the multiply-adds of one front: its triangle, the rows below it, and what they leave."""
    triangle = n_own * (n_own + 1) * (n_own + 2) // 6
    below = n_border * n_own * (n_own + 1) // 2
    return triangle + below + n_own * n_border * (n_border + 1) // 2


def regions_of(part: GramPart) -> list[Region]:
    """Return how the grid of a part is divided: down to `LEAST_MEMBERS` of evenly spread members."""
    n_positions = len(part.first) - 1
    n_members = max(len(part.pointers) - 1, 1)
    return divide(
        (part.n_rows, part.n_columns),
        (part.reach_rows, part.reach_columns),
        LEAST_MEMBERS * n_positions / n_members,
    )

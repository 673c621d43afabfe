"""A Cholesky factorisation of a part of the Gram matrix of a convolutional dictionary.

Kernels overlap only with nearby kernels.  A strip of positions as wide as the reach of kernels therefore
divides the grid into two sides, and the matrix has no entry between the sides.  Each side is divided in the
same way, down to small rectangles.  The two sides are eliminated before the strip that divides them, by dense
products of matrices.  For n positions, the factorisation takes about n^(3/2) operations and stores about n
log n numbers.  A matrix of a hundred thousand atoms is factored in about a second.

References: George (1973), SIAM Journal on Numerical Analysis 10: nested dissection.  Duff and Reid
(1983), ACM Transactions on Mathematical Software 9: fronts.
"""

from typing import NamedTuple

import numpy as np

from solvers._kernels.sweeps import GramPart, add_entries, add_remainder
from solvers.workers.blas import load_scipy_linalg

# A rectangle with fewer members is not divided.  `python -m tests.benchmarks convolution` measures this
# number.
LEAST_MEMBERS = 64


class _Front(NamedTuple):
    """The rows of the factor of one rectangle, or of the strip that divides it."""

    own: np.ndarray  # members that are eliminated with this front
    border: np.ndarray  # members around the rectangle within reach of kernels, which are eliminated later
    triangle: np.ndarray  # the lower triangle of the factor, rows and columns of `own`
    below: np.ndarray  # the rows of `border` and columns of `own` of the factor


class Factor:
    """The factor of ``part + damping * diag(diagonal)``."""

    def __init__(
        self, part: GramPart, diagonal: np.ndarray, damping: float, least_members: int = LEAST_MEMBERS
    ) -> None:
        load_scipy_linalg()
        self._part, self._diagonal, self._damping = part, diagonal, damping
        n_positions, n_members = part.n_rows * part.n_columns, len(diagonal)
        # A rectangle with more positions is divided.
        self._most_positions = max(least_members * n_positions / max(n_members, 1), 1)
        self._positions = np.arange(n_positions).reshape(part.n_rows, part.n_columns)
        self._is_eliminated = np.zeros(n_positions, dtype=np.bool_)
        self._place = np.full(n_members, -1)
        self._fronts: list[_Front] = []
        self.n_multiply_adds = 0  # multiply-adds of the factorisation and of all solutions so far
        self._eliminate(0, part.n_rows, 0, part.n_columns)

    def _eliminate(self, top: int, bottom: int, left: int, right: int) -> tuple[np.ndarray, np.ndarray]:
        """Eliminate a rectangle of positions; return the remainder for its border, and the border."""
        from scipy.linalg.blas import dsyrk, dtrsm
        from scipy.linalg.lapack import dpotrf

        part, place, positions = self._part, self._place, self._positions
        rows, columns = bottom - top, right - left
        is_tall = rows * max(part.reach_columns, 1) >= columns * max(part.reach_rows, 1)
        side, strip = (rows, part.reach_rows) if is_tall else (columns, part.reach_columns)
        chosen = positions[top:bottom, left:right]
        remainders: list[tuple[np.ndarray, np.ndarray]] = []
        if rows * columns > self._most_positions and side > 2 * strip:
            begin = (top if is_tall else left) + (side - strip) // 2
            end = begin + strip
            if is_tall:
                chosen = positions[begin:end, left:right]
                sides = (top, begin, left, right), (end, bottom, left, right)
            else:
                chosen = positions[top:bottom, begin:end]
                sides = (top, bottom, left, begin), (top, bottom, end, right)
            remainders = [self._eliminate(*rectangle) for rectangle in sides]
        chosen = np.ascontiguousarray(chosen).ravel()
        self._is_eliminated[chosen] = True
        reached_rows = slice(max(top - part.reach_rows, 0), bottom + part.reach_rows)
        reached_columns = slice(max(left - part.reach_columns, 0), right + part.reach_columns)
        reached = positions[reached_rows, reached_columns].ravel()
        own = _members_at(part.first, chosen)
        border = _members_at(part.first, reached[~self._is_eliminated[reached]])
        triangle = np.zeros((len(own), len(own)), order="F")
        below = np.zeros((len(border), len(own)), order="F")
        rest = np.zeros((len(border), len(border)), order="F")
        place[own], place[border] = np.arange(len(own)), np.arange(len(own), len(own) + len(border))
        add_entries(part, chosen, self._damping, self._diagonal, place, triangle, below)
        for remainder, members in remainders:
            add_remainder(remainder, members, place, triangle, below, rest)
        place[own] = place[border] = -1
        if len(own):
            n_own, n_border = len(own), len(border)
            # The first line counts the work for the triangle.  The second line counts the work for the rows
            # below the triangle, and for the remainder of these rows.
            self.n_multiply_adds += n_own * (n_own + 1) * (n_own + 2) // 6
            self.n_multiply_adds += n_border * n_own * (n_own + n_border + 2) // 2
            triangle, failed = dpotrf(triangle, lower=1, clean=0, overwrite_a=1)
            if failed:
                raise np.linalg.LinAlgError("the matrix is not positive definite")
            if n_border:
                below = dtrsm(1.0, triangle, below, side=1, lower=1, trans_a=1, overwrite_b=1)
                rest = dsyrk(-1.0, below, beta=1.0, c=rest, lower=1, overwrite_c=1)
            self._fronts.append(_Front(own, border, triangle, below))
        return rest, border

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


def _members_at(first: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the members at some positions, ordered by position."""
    counts = first[positions + 1] - first[positions]
    return np.repeat(first[positions + 1] - np.cumsum(counts), counts) + np.arange(counts.sum())

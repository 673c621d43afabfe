"""Exact descent over windows of a long signal, for a convolutional dictionary of one dimension.

The positions of the grid are cut into windows of equal length, at least twice as long as kernels overlap.
All windows have one Gram matrix, so with what the rest of the code leaves of the signal they are a batch for
the active-set method of an array of atoms, which finds their optimal coefficients.  Every other window is
solved at once: kernels of two of these do not overlap, and the objective falls.

Sweeps of coordinate descent need hundreds for what smooth kernels share among neighbours; a window takes a
fraction of a millisecond.  What windows share across their borders is left to the next windows, which are
shifted by half of one, and to the damped steps.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers._kernels.active_set import solve_active_sets
from solvers._kernels.batch import CompressedRows
from solvers._kernels.factor import Terms
from solvers.gram.compiled import codes_by_kernel
from solvers.problem.convolution import ConvolutionalDictionary
from solvers.problem.dictionary import inverse_norms
from solvers.problem.lasso import LassoProblem

# Positions of a window, a multiple of those that a kernel overlaps with on one side.
OVERLAPS = 2
# Most atoms of a window: their Gram matrix takes 134 MB.
MOST_ATOMS = 4096
# Shorter signals do not pay for the Gram matrix.
FEWEST_WINDOWS = 8
NO_CORRELATIONS = np.empty((0, 0))


class Windows:
    """The windows of the positions of one dictionary."""

    def __init__(self, window: ConvolutionalDictionary, problem: LassoProblem) -> None:
        n_atoms = len(window.squared_norms)
        rows = window.toarray()
        self.n_positions = window.n_positions
        self._gram = checks.read_only(rows @ rows.T)
        self._squared_norms = window.squared_norms
        # Without the correlations, which are those of what is left of the signal.
        self._terms = Terms(
            NO_CORRELATIONS,
            checks.read_only(problem.l1_weights[:n_atoms].copy()),
            checks.read_only(problem.curvatures[:n_atoms].copy()),
            inverse_norms(window.squared_norms),
            problem.positive,
        )

    def starts(self, offset: int, n_positions: int) -> tuple[np.ndarray, np.ndarray]:
        """Return where windows start that are solved at once, and then the others."""
        starts = np.arange(offset, n_positions - self.n_positions + 1, self.n_positions)
        return starts[::2], starts[1::2]

    def solve(self, starts: np.ndarray, code: np.ndarray, correlations: np.ndarray) -> int:
        """Minimise over all coefficients of some windows; return the multiply-adds.

        Shapes: code (n_positions, n_kernels); correlations (n_positions, n_kernels).
        """
        n_atoms = len(self._squared_norms)
        positions = starts[:, np.newaxis] + np.arange(self.n_positions)
        old = sparse.csr_array(code[positions].reshape(len(starts), n_atoms))
        drives = correlations[positions].reshape(len(starts), n_atoms)
        drives += old @ self._gram
        start = CompressedRows(
            old.indptr.astype(np.int32),
            old.indices.astype(np.int32),
            old.data * self._squared_norms[old.indices],
        )
        terms = self._terms._replace(correlations=checks.read_only(drives))
        found = codes_by_kernel(
            solve_active_sets, (self._gram,), terms, np.arange(len(starts)), start, max_rounds=None
        )
        code[positions] = found.codes.reshape(len(starts), self.n_positions, -1)
        return int(found.n_multiply_adds.sum()) + old.nnz * n_atoms


def windows_of(problem: LassoProblem, diagonal: np.ndarray) -> Windows | None:
    """Return the windows of a problem; None where they would not pay, or penalties differ among positions.

    Shapes: diagonal (n_positions, n_kernels).
    """
    dictionary = problem.dictionary
    assert isinstance(dictionary, ConvolutionalDictionary)
    height, length = dictionary.kernels.shape[1:3]
    if dictionary.grid_shape[0] > 1:
        return None
    n_positions = OVERLAPS * -(-length // dictionary.stride)
    n_atoms = n_positions * dictionary.n_kernels
    is_long = dictionary.n_positions >= FEWEST_WINDOWS * n_positions
    if not is_long or n_atoms > MOST_ATOMS or not problem.model.fits(8 * n_atoms**2):
        return None
    l1_weights = problem.l1_weights.reshape(diagonal.shape)
    if np.any(l1_weights != l1_weights[0]) or np.any(diagonal != diagonal[0]):
        return None
    shape = (height, (n_positions - 1) * dictionary.stride + length)
    return Windows(ConvolutionalDictionary(dictionary.kernels, shape, dictionary.stride), problem)

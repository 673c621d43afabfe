"""The equations of codes on their supports, for many signals."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers._kernels.factor import solve_on_supports
from solvers.problem.lasso import LassoProblem
from solvers.workers.blas import load_scipy_linalg

# Supports of more atoms are solved by LAPACK, one at a time.
MOST_ATOMS = 96
# In units of the norms, a solution so many times its right-hand side is that of dependent atoms.
LARGEST_GROWTH = 1e11


class Supports:
    """The atoms of each code, and the matrices ``K = D_S diag(w) D_S^T + diag m_S`` of their equations."""

    def __init__(self, problem: LassoProblem, pointers: np.ndarray, atoms: np.ndarray) -> None:
        self.problem = problem
        self.pointers = checks.read_only(pointers.astype(np.int64))
        self.atoms = checks.read_only(atoms.astype(np.int64))
        sizes = np.diff(self.pointers)
        self.signals = np.arange(problem.n_signals).repeat(sizes)
        self._sizes = sizes
        # The Gram matrix is used if it is there, or has fewer entries than all K together.
        self._has_gram = (
            problem.atoms.is_matrix
            and not problem.has_own_weights
            and (problem.has_gram or (problem.gram_fits and int(sizes @ sizes) > problem.n_atoms**2))
        )

    def rows(self, entries: np.ndarray) -> sparse.csr_array:
        """Return numbers of the entries as a matrix, shape (n_signals, n_atoms)."""
        shape = (self.problem.n_signals, self.problem.n_atoms)
        return sparse.csr_array((entries, self.atoms, self.pointers), shape=shape)

    def sums(self, entries: np.ndarray) -> np.ndarray:
        """Return the sums over signals of numbers of the entries, shape (n_atoms,)."""
        return np.bincount(self.atoms, entries, self.problem.n_atoms)

    def solve(self, entries: np.ndarray, norms: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return ``K^-1 x`` for numbers x of the entries; NaN where the atoms depend on each other."""
        solution = np.zeros(len(entries))
        is_small = self._sizes <= (MOST_ATOMS if self._has_gram else 0)
        small = np.flatnonzero(chosen & is_small)
        if self._has_gram and len(small):
            problem = self.problem
            solve_on_supports(
                problem.gram,
                problem.curvatures,
                self.pointers,
                self.atoms,
                checks.read_only(small),
                checks.read_only(np.ascontiguousarray(entries)),
                solution,
            )
        for signal in np.flatnonzero(chosen & ~is_small & (self._sizes > 0)):
            part = slice(self.pointers[signal], self.pointers[signal + 1])
            solution[part] = self._solved(int(signal), self.atoms[part], entries[part])
        has_entries = self._sizes > 0
        begins = self.pointers[:-1][has_entries]
        if len(begins):
            grown = np.maximum.reduceat(np.abs(solution * norms), begins)
            is_lost = ~(grown <= LARGEST_GROWTH * np.maximum.reduceat(np.abs(entries / norms), begins))
            if is_lost.any():
                solution[is_lost.repeat(self._sizes[has_entries])] = np.nan
        return solution

    def _solved(self, signal: int, atoms: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return ``K^-1 right`` of one signal."""
        problem = self.problem
        if not problem.atoms.is_matrix:
            return self._solved_by_sparse_factor(atoms, right)
        load_scipy_linalg()
        from scipy.linalg.lapack import dposv

        if self._has_gram:
            matrix = problem.gram[atoms[:, np.newaxis], atoms]
        else:
            rows = problem.atoms.take(atoms)
            weights = problem.feature_weights
            weighted = rows
            if weights is not None:
                weighted = rows * (weights if weights.ndim == 1 else weights[signal])
            matrix = weighted @ rows.T
        matrix[np.diag_indices(len(atoms))] += problem.curvatures[atoms]
        _, solution, status = dposv(matrix, right, lower=1, overwrite_a=1)
        return solution if status == 0 else np.full(len(right), np.nan)

    def _solved_by_sparse_factor(self, atoms: np.ndarray, right: np.ndarray) -> np.ndarray:
        load_scipy_linalg()
        from scipy.sparse.linalg import splu

        rows = self.problem.weighted.atoms.take(atoms)
        matrix = rows @ rows.T + sparse.diags_array(self.problem.curvatures[atoms])
        try:
            return splu(sparse.csc_array(matrix)).solve(right)
        except RuntimeError:  # exactly singular
            return np.full(len(right), np.nan)

"""The equations of codes on their supports, for many signals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers._kernels.derivatives import measure_on_supports, solve_on_supports
from solvers.problem.lasso import LassoProblem, seen_norms
from solvers.workers.blas import load_scipy_linalg

# Supports of more atoms are solved by LAPACK, one at a time.
MOST_ATOMS = 96
# In units of the norms, a solution so many times its right-hand side is that of dependent atoms.
LARGEST_GROWTH = 1e11


class Violations(NamedTuple):
    """How far codes are from their equations."""

    of_entries: np.ndarray
    """``d_i.(w r) - lambda_i sign(a_i) - m_i a_i``, shape (n_entries,)."""
    excess: np.ndarray
    """The largest ``(|d_i.(w r)| - lambda_i) / (||d_i|| ||s||)`` outside of each support."""
    atoms: np.ndarray
    """The atom of each `excess`."""


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

    def violations(self, signs: np.ndarray, entries: np.ndarray, residuals: np.ndarray | None) -> Violations:
        """Return how far codes are from their equations."""
        problem, n_signals = self.problem, self.problem.n_signals
        l1, curvatures = problem.l1_weights, problem.curvatures
        lengths = np.sqrt(2.0 * problem.energies)
        if residuals is None:
            found = Violations(
                np.empty(len(entries)), np.empty(n_signals), np.zeros(n_signals, dtype=np.int64)
            )
            measure_on_supports(
                problem.gram,
                problem.correlations,
                l1,
                curvatures,
                problem.weighted.atoms.norms,
                problem.is_positive,
                lengths,
                self.pointers,
                self.atoms,
                checks.read_only(np.ascontiguousarray(signs)),
                checks.read_only(np.ascontiguousarray(entries)),
                *found,
            )
            return found
        reach = problem.atoms.correlate(residuals)
        of_entries = reach[self.signals, self.atoms] - l1[self.atoms] * signs
        of_entries -= curvatures[self.atoms] * entries
        if not problem.is_positive:
            np.abs(reach, out=reach)
        reach -= l1
        norms = seen_norms(problem)
        reach /= np.where(norms > 0.0, norms, 1.0)
        reach /= np.where(lengths > 0.0, lengths, 1.0)[:, np.newaxis]
        reach[self.signals, self.atoms] = -np.inf
        reach[norms == 0.0] = -np.inf
        atoms = np.argmax(reach, axis=1)
        return Violations(of_entries, reach[np.arange(n_signals), atoms], atoms)

    @property
    def needs_residuals(self) -> bool:
        """False where the Gram matrix and the correlations of signals do."""
        return not self._has_gram

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

        matrix = sparse.csr_array(self.problem.weighted.atoms.gram_rows(atoms))[:, atoms]
        matrix = matrix + sparse.diags_array(self.problem.curvatures[atoms])
        try:
            return splu(sparse.csc_array(matrix)).solve(right)
        except RuntimeError:  # exactly singular
            return np.full(len(right), np.nan)

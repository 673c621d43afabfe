"""A dictionary of atoms most of whose entries are zero: compressed rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from snn.base import checks
from snn.base.html import memory
from snn.base.locks import cached_property
from solvers._kernels.precision import LONGEST_SUM, SMALLEST_SQUARED_NORM
from solvers.problem.compressed import checked_rows, squared_norms_of_compressed
from solvers.problem.matrix_dictionary import MatrixDictionary
from solvers.problem.rounding import high_part


class SparseDictionary(MatrixDictionary):
    """A sparse matrix of atoms, one a row.

    Shapes: matrix (n_atoms, n_features).
    """

    def __init__(self, matrix: Any) -> None:
        self._matrix = checked_rows("dictionary", matrix.tocsr(), meaning="(n_atoms, n_features)")
        self._squared_norms = checks.read_only(
            squared_norms_of_compressed("dictionary", "atom", self._matrix)
        )

    def _facts(self) -> dict[str, str]:
        facts = super()._facts()
        share = 100.0 * self._matrix.nnz / np.prod(self.shape, dtype=float)
        size = sum(part.nbytes for part in (self._matrix.data, self._matrix.indices, self._matrix.indptr))
        return {**facts, "atoms": f"{facts['atoms']}, sparse, {share:.2g} % of all entries, {memory(size)}"}

    @property
    def matrix(self) -> sparse.csr_array:
        """The atoms, one a row, shape (n_atoms, n_features)."""
        return self._matrix

    @property
    def array(self) -> np.ndarray:
        """Refused: it may be larger than memory."""
        raise TypeError(
            "problem must have a dense array of atoms for this solver; got sparse ones: pass "
            "dictionary.toarray() if it fits into memory; solve_active_set takes sparse ones"
        )

    def take(self, atoms: np.ndarray) -> np.ndarray:
        """Return some atoms in full, shape (n_chosen, n_features)."""
        return self._matrix[atoms].toarray()

    @cached_property
    def features_of_atom(self) -> int:
        """Entries of the atom that has most."""
        return max(int(np.diff(self._matrix.indptr).max()), 1)

    @cached_property
    def _parts(self) -> list[tuple[slice, sparse.csr_array]]:
        """The columns in parts of which no row has more entries than are added up together."""
        if self.features_of_atom <= LONGEST_SUM:
            return [(slice(None), self._matrix)]
        slices = [slice(begin, begin + LONGEST_SUM) for begin in range(0, self.shape[1], LONGEST_SUM)]
        return [(part, self._matrix[:, part]) for part in slices]

    def correlate(self, signals: np.ndarray) -> np.ndarray:
        """Return signals @ matrix.T, shape (n_signals, n_atoms), of an array or of compressed rows.

        One product a signal, so that none depends on the signals beside it.  Many features are added up in
        parts.
        """
        correlations, is_sparse = np.empty((signals.shape[0], self.shape[0])), sparse.issparse(signals)
        for k in range(signals.shape[0]):
            signal = sparse.csr_array(signals[[k]]).toarray()[0] if is_sparse else signals[k]
            (first, atoms), *others = self._parts
            correlations[k] = atoms @ signal[first]
            for part, atoms in others:
                correlations[k] += atoms @ signal[part]
        return correlations

    def largest_entries(self, atoms: np.ndarray) -> np.ndarray:
        """Return max_j |d_ij| of some atoms, shape (len(atoms),)."""
        return abs(self._matrix[atoms]).max(axis=1).toarray().ravel()

    def reconstruct_in_parts(
        self, codes: sparse.csr_array, high: np.ndarray, low: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return high @ high(D), and low @ D + high @ low(D), shape (n_signals, n_features) each."""
        used, columns = np.unique(codes.indices, return_inverse=True)
        shape = codes.shape[0], len(used)
        of_high, of_low = (sparse.csr_array((part, columns, codes.indptr), shape) for part in (high, low))
        atoms = self._matrix[used]
        largest = self.largest_entries(used).repeat(np.diff(atoms.indptr))
        kept, left = atoms.copy(), atoms.copy()
        kept.data = high_part(atoms.data, largest)
        left.data = atoms.data - kept.data
        rest = (of_low @ atoms).toarray()
        rest += (of_high @ left).toarray()
        return (of_high @ kept).toarray(), rest

    def reconstruct(self, codes: np.ndarray | sparse.csr_array) -> np.ndarray:
        """Return codes @ matrix, shape (n_signals, n_features)."""
        return (sparse.csr_array(codes) @ self._matrix).toarray()

    def gram(self) -> np.ndarray:
        """Return G = matrix @ matrix.T, shape (n_atoms, n_atoms), as an array."""
        return (self._matrix @ self._matrix.T).toarray()

    def gram_rows(self, atoms: np.ndarray) -> np.ndarray:
        """Return some rows of the Gram matrix, shape (len(atoms), n_atoms)."""
        return (self._matrix[atoms] @ self._matrix.T).toarray()

    def normal_product(
        self, codes: np.ndarray, *, out: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Write codes @ matrix @ matrix.T to `out`."""
        fits = (self._matrix.T @ codes.T).T
        if weights is not None:
            fits = fits * weights
        out[:] = (self._matrix @ fits.T).T

    def weighted(self, weights: np.ndarray) -> SparseDictionary:
        """Return the dictionary D diag(sqrt(w)) without features of weight zero, whose atoms may be zero."""
        counting = weights != 0
        if not counting.any():
            return SparseDictionary(sparse.csr_array((self.shape[0], 1)))
        matrix = self._matrix[:, counting]
        if weights.dtype != np.bool_:
            matrix.data *= np.sqrt(weights[counting])[matrix.indices]
        # As with an array, what is left of an atom may be next to nothing.
        row = np.arange(matrix.shape[0]).repeat(np.diff(matrix.indptr))
        with np.errstate(under="ignore"):
            lost = np.bincount(row, matrix.data**2, matrix.shape[0]) < SMALLEST_SQUARED_NORM
        matrix.data[lost[row]] = 0.0
        return SparseDictionary(matrix)

    def weighted_squared_norms(
        self, weights: np.ndarray, signals: np.ndarray, atoms: np.ndarray
    ) -> np.ndarray:
        """Return sum_j w_j d_ij^2 for pairs of a signal and an atom, shape (n_pairs,)."""
        rows = self._matrix[atoms]
        pair = np.arange(len(atoms)).repeat(np.diff(rows.indptr))
        counted = weights[rows.indices] if weights.ndim == 1 else weights[signals[pair], rows.indices]
        return np.bincount(pair, counted * rows.data**2, len(atoms))

    def correlate_squares(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_j w_j d_ij^2 for each row of weights, shape (n_rows, n_atoms)."""
        return (self._matrix.power(2) @ weights.T.astype(np.float64)).T

    def normalised(self, scale: float) -> SparseDictionary:
        """Return the dictionary of the atoms d_i / (||d_i|| scale)."""
        factors = 1.0 / (np.sqrt(self.positive_squared_norms) * scale)
        matrix = self._matrix.copy()
        matrix.data = matrix.data * factors.repeat(np.diff(matrix.indptr))
        return SparseDictionary(matrix)

    def toarray(self) -> np.ndarray:
        """Return the atoms in full, shape (n_atoms, n_features)."""
        return self._matrix.toarray()

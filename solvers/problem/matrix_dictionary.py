"""A dictionary that is a matrix, an array or sparse: what does not depend on which."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers.problem.dictionary import Dictionary

# From so many atoms on, only so many rows of a given Gram matrix are checked, or up to twice as many.
ALL_CHECKED = 512
CHECKED_ROWS = 64


class MatrixDictionary(Dictionary):
    """A matrix of atoms, one a row, of which rows and columns can be taken."""

    is_matrix = True
    _squared_norms: np.ndarray

    @property
    @abstractmethod
    def matrix(self) -> np.ndarray | sparse.csr_array:
        """The atoms, one a row, shape (n_atoms, n_features)."""

    @property
    def as_passed(self) -> np.ndarray | sparse.csr_array:
        """The matrix."""
        return self.matrix

    @property
    def shape(self) -> tuple[int, int]:
        """(n_atoms, n_features)."""
        return self.matrix.shape

    @property
    def squared_norms(self) -> np.ndarray:
        """||d_i||^2 of each atom, shape (n_atoms,)."""
        return self._squared_norms

    def checked_gram(self, value: Any) -> np.ndarray:
        """Return the Gram matrix that a caller passed, if it is that of the atoms.

        Its shape, type and rows are checked: all rows of fewer than 512, and else 64 to 127 that are evenly
        spread.  Each of them, times a fixed vector of numbers between 1/2 and 1, must be what the atoms give
        for that row.  That takes as long as to read the atoms once, and these rows; the whole of a large
        matrix takes longer to read than a problem to solve.  A change of an atom changes an entry in every
        row.  So the matrix of other atoms, of atoms in another order or in other units, one with another
        diagonal, or one of its triangles is refused.  A single wrong entry of a large matrix is refused if it
        is in one of those rows.  No certificate depends on this: none uses the matrix.
        """
        matrix = self.matrix
        n_atoms = matrix.shape[0]
        gram = checks.float_array("gram", value, shape=(n_atoms, n_atoms), meaning="(n_atoms, n_atoms)")
        norms = np.sqrt(self.squared_norms)
        # Errors count in units of the norms; for an atom of norm zero, which gives zeros, in the largest.
        units = np.where(norms > 0.0, norms, norms.max() or 1.0)
        rows = slice(None, None, 1 if n_atoms < ALL_CHECKED else n_atoms // CHECKED_ROWS)
        mixture = (0.75 + 0.25 * np.cos(np.arange(n_atoms))) / units
        with np.errstate(over="ignore", invalid="ignore"):
            differences = gram[rows] @ mixture - matrix[rows] @ (mixture @ matrix)
            diagonal = np.diagonal(gram)[rows] - self.squared_norms[rows]
            # A maximum of NumPy's is not a number where one of its arguments is not.
            worst = np.maximum(
                np.abs(diagonal / units[rows] ** 2).max(),
                np.abs(differences / units[rows]).max() / np.sqrt(n_atoms),
            )
        if not np.isfinite(worst):
            checks.require_finite("gram", gram)
        if not worst <= 1e-8:
            raise ValueError(
                f"gram must be dictionary @ dictionary.T; got a matrix that differs by about {worst:.2g} "
                "of it"
            )
        return gram

    def require_norms(self) -> None:
        """Raise ValueError if all atoms are zero."""
        if self.squared_norms.max() == 0.0:
            raise ValueError("dictionary must have an atom of positive norm; got zeros only")

    def covered_norms(self, signals: np.ndarray) -> np.ndarray:
        """Return the norms of signals, shape (n_signals,): an atom may cover all features."""
        return np.sqrt(np.einsum("ij,ij->i", signals, signals))

    def overlaps(self, codes: sparse.csr_array) -> np.ndarray:
        """Return the number of entries of each code, shape (n_signals,)."""
        return codes.indptr[1:] - codes.indptr[:-1]

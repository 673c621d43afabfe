"""A dictionary that is an array of atoms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.html import memory
from snn.base.locks import cached_property
from solvers._kernels.precision import LONGEST_SUM, SMALLEST_SQUARED_NORM
from solvers.problem.matrix_dictionary import MatrixDictionary
from solvers.problem.norms import squared_norms_of_rows
from solvers.problem.rounding import high_part

if TYPE_CHECKING:
    from solvers.problem.lasso import LassoModel

# Of a dictionary: 4 MB.
VALUES_AT_ONCE = 524_288
# Of atoms in single precision: 8 MB.
VALUES_PER_BLOCK = 2**21
# Norms are equal within this share of the largest.
EQUAL = 1e-6


class DenseDictionary(MatrixDictionary):
    """An array of atoms.

    Shapes: array (n_atoms, n_features).
    """

    def __init__(self, array: ArrayLike) -> None:
        self._array = checks.read_only(
            checks.float_array("dictionary", array, shape=(None, None), meaning="(n_atoms, n_features)")
        )
        self._squared_norms = checks.read_only(squared_norms_of_rows("dictionary", "atom", self._array))

    def _facts(self) -> dict[str, str]:
        facts = super()._facts()
        return {**facts, "atoms": f"{facts['atoms']}, {memory(self._array.nbytes)}"}

    @property
    def array(self) -> np.ndarray:
        """The atoms, one a row, shape (n_atoms, n_features)."""
        return self._array

    @property
    def matrix(self) -> np.ndarray:
        """The atoms, one a row, shape (n_atoms, n_features)."""
        return self._array

    @property
    def rows(self) -> np.ndarray:
        """The atoms, one a row, shape (n_atoms, n_features)."""
        return self._array

    def complaint(self, signals: np.ndarray) -> str | None:
        """Return in one sentence why the array seems to be transposed, or None.

        It is square, and its columns have one norm, but its rows, which are the atoms, several, none of them
        zero: columns of a matrix that says which features belong together have one norm, too.

        Shapes: signals (n_signals, n_features).
        """
        return self._transposed

    @cached_property
    def _transposed(self) -> str | None:
        array, of_rows = self._array, self._squared_norms
        if array.shape[0] != array.shape[1] or of_rows.min() == 0.0:
            return None
        if np.ptp(of_rows) <= 1000.0 * EQUAL * of_rows.max():
            return None
        of_columns = np.einsum("ij,ij->j", array, array)
        if np.ptp(of_columns) > EQUAL * of_columns.max():
            return None
        low, high = np.sqrt([of_rows.min(), of_rows.max()])
        return (
            "dictionary is square and its columns have one norm, but its rows, which are the atoms, have "
            f"norms from {low:.3g} to {high:.3g}: if atoms are columns, pass dictionary.T"
        )

    def gram(self) -> np.ndarray:
        """Return G = array @ array.T, shape (n_atoms, n_atoms)."""
        return self._array @ self._array.T

    def correlate(self, signals: np.ndarray) -> np.ndarray:
        """Return signals @ array.T, shape (n_signals, n_atoms), of an array or of compressed rows.

        One matrix-vector product a signal: a product of matrices rounds a row differently with the
        number of rows beside it, and a code must not depend on its batch mates.  All signals go through
        a large dictionary part by part, each of which stays in cache meanwhile.  Many features are added up
        in parts.
        """
        if sparse.issparse(signals):
            return signals @ self._array.T
        n_atoms, n_features = self.shape
        correlations = np.empty((len(signals), n_atoms))
        step = max(VALUES_AT_ONCE // n_features, 1)
        if n_atoms <= step and n_features <= LONGEST_SUM:
            np.matmul(signals[:, np.newaxis], self._array.T, out=correlations[:, np.newaxis])
            return correlations
        for first in range(0, n_atoms, step):
            atoms = self._array[first : first + step]
            target = correlations[:, np.newaxis, first : first + step]
            for begin in range(0, n_features, LONGEST_SUM):
                part = slice(begin, begin + LONGEST_SUM)
                if begin == 0:
                    np.matmul(signals[:, np.newaxis, part], atoms[:, part].T, out=target)
                else:
                    target += np.matmul(signals[:, np.newaxis, part], atoms[:, part].T)
        return correlations

    @property
    def features_of_atom(self) -> int:
        """All features."""
        return self.shape[1]

    def take(self, atoms: np.ndarray) -> np.ndarray:
        """Return some atoms, shape (n_chosen, n_features)."""
        return self._array[atoms]

    def largest_entries(self, atoms: np.ndarray) -> np.ndarray:
        """Return max_j |d_ij| of some atoms, shape (len(atoms),)."""
        rows = self._array[atoms]
        return np.maximum(rows.max(axis=1), -rows.min(axis=1))

    def reconstruct_in_parts(
        self, codes: sparse.csr_array, high: np.ndarray, low: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return high @ high(D), and low @ D + high @ low(D), shape (n_signals, n_features) each."""
        # Only rows that are used are read.
        used, columns = np.unique(codes.indices, return_inverse=True)
        shape = codes.shape[0], len(used)
        high, low = (sparse.csr_array((part, columns, codes.indptr), shape) for part in (high, low))
        atoms = self._array[used]
        kept = high_part(atoms, np.abs(atoms).max(axis=1, initial=0.0)[:, np.newaxis])
        rest = low @ atoms
        rest += high @ (atoms - kept)
        return high @ kept, rest

    def reconstruct(self, codes: np.ndarray | sparse.csr_array) -> np.ndarray:
        """Return codes @ array, shape (n_signals, n_features).

        Codes are sparse, and a sparse product adds up each row by itself, for the reason above.
        """
        return sparse.csr_array(codes) @ self._array

    def gram_rows(self, atoms: np.ndarray) -> np.ndarray:
        """Return some rows of the Gram matrix, shape (len(atoms), n_atoms)."""
        return self._array[atoms] @ self._array.T

    def gram_is_cheaper(self, n_products: int, *, at_hand: bool) -> bool:
        """Return True if so many products cost less with the Gram matrix than with the dictionary.

        Costs are counted in multiplications an atom.  The Gram matrix is symmetric, so that half of it has
        to be computed.
        """
        n_atoms, n_features = self.shape
        making = 0.0 if at_hand else 0.5 * n_atoms * n_features
        return n_products * n_atoms + making < n_products * 2.0 * n_features

    def normal_product(
        self, codes: np.ndarray, *, out: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Write codes @ array @ array.T to `out`; one product of matrices for all rows."""
        fits = sparse_product(codes, self._array)
        if weights is not None:
            fits *= weights
        np.matmul(fits, self._array.T, out=out)

    def weighted(self, weights: np.ndarray) -> DenseDictionary:
        """Return the dictionary D diag(sqrt(w)) without features of weight zero, whose atoms may be zero."""
        counting = weights != 0
        if not counting.any():
            return DenseDictionary(np.zeros((self.shape[0], 1)))
        array = self._array[:, counting]
        if weights.dtype != np.bool_:
            array *= np.sqrt(weights[counting])
        # What is left of an atom may be next to nothing.  Its correlations are, too, so that its code is zero
        # unless its penalty is as small; certificates know the atom itself.
        with np.errstate(under="ignore"):
            array[np.einsum("ij,ij->i", array, array) < SMALLEST_SQUARED_NORM] = 0.0
        return DenseDictionary(array)

    def weighted_squared_norms(
        self, weights: np.ndarray, signals: np.ndarray, atoms: np.ndarray
    ) -> np.ndarray:
        """Return sum_j w_j d_ij^2 for pairs of a signal and an atom, shape (n_pairs,)."""
        norms = np.empty(len(atoms))
        step = max(VALUES_AT_ONCE // self.shape[1], 1)
        for first in range(0, len(atoms), step):
            part = slice(first, first + step)
            array = self._array[atoms[part]]
            rows = weights[signals[part]] if weights.ndim == 2 else weights
            norms[part] = np.einsum("ij,ij->i", rows * array, array)
        return norms

    def correlate_squares(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_j w_j d_ij^2 for each row of weights, shape (n_rows, n_atoms)."""
        return weights @ np.square(self._array).T

    def normalised(self, scale: float) -> DenseDictionary:
        """Return the dictionary of the atoms d_i / (||d_i|| scale)."""
        return DenseDictionary(self._array / (np.sqrt(self.positive_squared_norms) * scale)[:, np.newaxis])

    def toarray(self) -> np.ndarray:
        """Return the array itself."""
        return self._array

    def _normal_step(self, signal: np.ndarray) -> np.ndarray:
        return self._array.T @ ((self._array @ signal) / self.positive_squared_norms)


class UnitAtoms:
    """The atoms of an array at norm one, in single precision, block by block."""

    def __init__(self, model: LassoModel) -> None:
        atoms = model.atoms
        self._array = atoms.array
        self._inverse_norms = np.divide(
            1.0, atoms.norms, out=np.zeros(len(atoms.norms)), where=atoms.norms > 0.0
        )
        self.shape = n_atoms, n_features = atoms.shape
        self._n_atoms_of_block = max(VALUES_PER_BLOCK // n_features, 16)
        self.n_bytes = 4 * n_atoms * n_features
        self._kept: np.ndarray | None = None
        if model.fits(self.n_bytes, share=0.5):
            kept = np.empty((n_atoms, n_features), dtype=np.float32)
            for first in range(0, n_atoms, self._n_atoms_of_block):
                self._convert(first, kept[first : first + self._n_atoms_of_block])
            self._kept = checks.read_only(kept)

    @property
    def is_kept(self) -> bool:
        """True if all blocks are in memory."""
        return self._kept is not None

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number of the first atom of each block, and its atoms; overwritten by the next."""
        n_atoms, n_features = self.shape
        step = self._n_atoms_of_block
        room = np.empty((min(step, n_atoms), n_features), np.float32) if self._kept is None else None
        for first in range(0, n_atoms, step):
            part = slice(first, min(first + step, n_atoms))
            if room is None:
                assert self._kept is not None
                yield first, self._kept[part]
                continue
            block = room[: part.stop - first]
            self._convert(first, block)
            yield first, block

    def in_full(self, atoms: np.ndarray) -> np.ndarray:
        """Return some atoms at norm one, in double precision."""
        return self._array[atoms] * self._inverse_norms[atoms, np.newaxis]

    def _convert(self, first: int, block: np.ndarray) -> None:
        part = slice(first, first + len(block))
        scale = self._inverse_norms[part, np.newaxis]
        np.multiply(self._array[part], scale, out=block, casting="same_kind")


def sparse_product(codes: np.ndarray, matrix: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return codes @ matrix; of a single sparse code, read only the rows of the matrix that it uses."""
    if len(codes) == 1:
        active = np.flatnonzero(codes[0])
        if 4 * len(active) < codes.shape[1]:
            return np.matmul(codes[:, active], matrix[active], out=out)
    return np.matmul(codes, matrix, out=out)

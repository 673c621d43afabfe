"""A dictionary that is a matrix of atoms: a dense array, or compressed rows if it is sparse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from snn._interrupts import float_errors
from snn.base import checks
from snn.base.describe import memory, number
from snn.base.value import assign, cached_property
from solvers._kernels.precision import LONGEST_SUM, SMALLEST_SQUARED_NORM
from solvers.problem.atoms import (
    Atoms,
    checked_squared_norms,
    compressed_rows,
    in_full,
    inverse_norms,
    squared_norms_of,
)
from solvers.problem.convolutional_dictionary import ConvolutionalDictionary

# Number of values in a part of a large dictionary.  A part takes 4 MB, and stays in cache while all signals
# are multiplied by its atoms.
VALUES_AT_ONCE = 524_288
# Number of values in a block of `UnitAtoms`.  A block takes 8 MB in single precision.
VALUES_PER_BLOCK = 2**21
# Norms count as equal if their differences are at most this share of the largest norm.
EQUAL_NORMS = 1e-6
# Advice in the error message for a dictionary that is not finite.
UNKNOWN = ": where features are unknown, pass a mask that is False there for every signal"
# If there are at least ALL_CHECKED atoms, CHECKED_ROWS rows of a given Gram matrix, or up to twice as many
# rows, are checked.
ALL_CHECKED = 512
CHECKED_ROWS = 64


class MatrixAtoms(Atoms):
    """A matrix with one atom per row, shape (n_atoms, n_features)."""

    is_matrix = True

    def __init__(self, matrix: Any, known: np.ndarray | None = None) -> None:
        meaning, rows = "(n_atoms, n_features)", None
        if sparse.issparse(matrix):
            given = matrix = matrix.tocsr()
            if known is not None:
                given, matrix = matrix.copy(), matrix.copy()
                matrix.data[~known.take(matrix.indices, mode="clip")] = 0
            matrix = compressed_rows("dictionary", matrix, meaning=meaning, hint=UNKNOWN)
            given = matrix if known is None else given
            # Largest number of nonzero entries of an atom.
            features_of_atom = max(int(np.diff(matrix.indptr).max()), 1)
        else:
            given = matrix = checks.read_only(
                checks.real_array("dictionary", matrix, shape=(None, None), meaning=meaning, finite=False)
            )
            if known is not None and known.shape == matrix.shape[1:]:
                matrix = checks.read_only(np.where(known, matrix, 0.0))
            else:
                known = None
            features_of_atom, rows = matrix.shape[1], matrix
        squared_norms = checked_squared_norms(
            "dictionary", "atom", matrix, hint=UNKNOWN, may_be_small=known is not None
        )
        assign(
            self,
            matrix=matrix,
            rows=rows,
            given=given,
            known=known,
            features_of_atom=features_of_atom,
            squared_norms=checks.read_only(squared_norms),
        )

    def _facts(self) -> dict[str, str]:
        (n_atoms, n_features), matrix = self.shape, self.matrix
        if self.rows is not None:
            size = memory(self.rows.nbytes)
        else:
            share = 100.0 * matrix.nnz / np.prod(self.shape, dtype=float)
            n_bytes = sum(part.nbytes for part in (matrix.data, matrix.indices, matrix.indptr))
            size = f"sparse, {share:.2g} % of all entries, {memory(n_bytes)}"
        return {"atoms": f"{number(n_atoms)}, {size}", "features": number(n_features)}

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    def complaint(self, signals: np.ndarray) -> str | None:
        return self._transposed

    @cached_property
    def _transposed(self) -> str | None:
        # A matrix of zeros and ones that assigns features to groups also has columns of equal norms.  A
        # matrix for groups also has rows of zeros.
        rows, of_rows = self.rows, self.squared_norms
        if rows is None or rows.shape[0] != rows.shape[1] or of_rows.min() == 0.0:
            return None
        of_columns = np.einsum("ij,ij->j", rows, rows)
        is_uneven = np.ptp(of_columns) > EQUAL_NORMS * of_columns.max()
        if is_uneven or np.ptp(of_rows) <= 1000.0 * EQUAL_NORMS * of_rows.max():
            return None
        low, high = np.sqrt([of_rows.min(), of_rows.max()])
        return (
            "dictionary is square and its columns have one norm, but its rows, which are the atoms, have "
            f"norms from {low:.3g} to {high:.3g}: if atoms are columns, pass dictionary.T"
        )

    def take(self, atoms: np.ndarray) -> np.ndarray:
        return in_full(self.matrix[atoms])

    def covered_norms(self, signals: np.ndarray) -> np.ndarray:
        return np.sqrt(np.einsum("ij,ij->i", signals, signals))

    def overlaps(self, codes: sparse.csr_array) -> np.ndarray:
        return codes.indptr[1:] - codes.indptr[:-1]

    def correlate(self, signals: np.ndarray | sparse.csr_array) -> np.ndarray:
        # Each signal is multiplied in a separate matrix-vector product.  In a product of matrices, the
        # rounding of a row depends on the number of rows, but the code of a signal must not depend on other
        # signals.  Sums over many features are added up in parts.
        if self.rows is None:
            correlations = np.zeros((signals.shape[0], self.shape[0]))
            for k in range(signals.shape[0]):
                features = signals[k] if isinstance(signals, np.ndarray) else signals[[k]].toarray()[0]
                for part, columns in self._parts:
                    correlations[k] += columns @ features[part]
            return correlations
        if sparse.issparse(signals):
            return signals @ self.rows.T
        n_atoms, n_features = self.shape
        # A large dictionary is processed in parts.  All signals are multiplied by one part, which stays in
        # cache, before the next part.
        step = max(VALUES_AT_ONCE // n_features, 1)
        if n_atoms <= step and n_features <= LONGEST_SUM:
            return np.matmul(signals[:, np.newaxis], self.rows.T)[:, 0]
        correlations = np.zeros((len(signals), n_atoms))
        for first in range(0, n_atoms, step):
            atoms = self.rows[first : first + step]
            target = correlations[:, np.newaxis, first : first + step]
            for begin in range(0, n_features, LONGEST_SUM):
                part = slice(begin, begin + LONGEST_SUM)
                target += np.matmul(signals[:, np.newaxis, part], atoms[:, part].T)
        return correlations

    @cached_property
    def _parts(self) -> list[tuple[slice, sparse.csr_array]]:
        """Slices of features with the sparse columns of each slice, at most LONGEST_SUM entries in a row."""
        if self.features_of_atom <= LONGEST_SUM:
            return [(slice(None), self.matrix)]
        slices = [slice(begin, begin + LONGEST_SUM) for begin in range(0, self.shape[1], LONGEST_SUM)]
        return [(part, self.matrix[:, part]) for part in slices]

    def weighted_squared_norms(self, weights: np.ndarray) -> np.ndarray:
        # Multiply by the roots first: the square of an entry may underflow although w_j d_ij^2 does not.
        roots = np.sqrt(np.atleast_2d(weights).astype(np.float64))
        with float_errors(under="ignore"):
            return np.array([squared_norms_of(self._times(row)) for row in roots])

    def _times(self, factors: np.ndarray) -> Any:
        product = self.matrix * factors[np.newaxis]
        return product if self.rows is not None else product.tocsr()

    def reconstruct(self, codes: np.ndarray | sparse.csr_array) -> np.ndarray:
        return in_full(sparse.csr_array(codes) @ self.matrix)

    def gram_rows(self, atoms: np.ndarray | slice) -> np.ndarray:
        return in_full(self.matrix[atoms] @ self.matrix.T)

    def normal_product(
        self, codes: np.ndarray, *, out: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        fits = codes @ self.matrix if self.rows is None else sparse_product(codes, self.rows)
        if weights is not None:
            fits *= weights
        if self.rows is None:
            out[:] = fits @ self.matrix.T
        else:
            np.matmul(fits, self.rows.T, out=out)

    def weighted(self, weights: np.ndarray) -> MatrixAtoms:
        known = weights != 0
        if not known.any():
            shape = self.shape[0], 1
            return MatrixAtoms(sparse.csr_array(shape) if self.rows is None else np.zeros(shape))
        # An atom whose known features have a tiny norm becomes zero.  The correlations of an atom with a tiny
        # norm are tiny, so that its code is zero unless its penalty is zero.  Certificates use the atom
        # itself.
        with float_errors(under="ignore"):
            matrix = self.matrix[:, known] * np.sqrt(weights[known].astype(np.float64))[np.newaxis]
            matrix = matrix if self.rows is not None else matrix.tocsr()
            is_left = squared_norms_of(matrix) >= SMALLEST_SQUARED_NORM
        return MatrixAtoms(matrix * is_left[:, np.newaxis])


class UnitAtoms:
    """The atoms of an array, scaled to norm one, in single precision, block by block."""

    def __init__(self, array: np.ndarray, squared_norms: np.ndarray, *, memory_limit: int) -> None:
        self._array, self._inverse_norms = array, inverse_norms(squared_norms)
        self.shape = n_atoms, n_features = array.shape
        self._n_atoms_of_block = max(VALUES_PER_BLOCK // n_features, 16)
        self._kept: np.ndarray | None = None
        # All blocks are kept in memory if they take no more than half the memory limit.
        self.is_kept = 8 * n_atoms * n_features <= memory_limit
        if self.is_kept:
            kept = np.empty((n_atoms, n_features), dtype=np.float32)
            for first in range(0, n_atoms, self._n_atoms_of_block):
                self._convert(first, kept[first : first + self._n_atoms_of_block])
            self._kept = checks.read_only(kept)

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the index of the first atom and the atoms of each block; the next block overwrites them."""
        n_atoms, n_features = self.shape
        step = self._n_atoms_of_block
        room = np.empty((0 if self.is_kept else min(step, n_atoms), n_features), np.float32)
        for first in range(0, n_atoms, step):
            part = slice(first, min(first + step, n_atoms))
            if self._kept is not None:
                block = self._kept[part]
            else:
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


def atoms_of(dictionary: Any, known: np.ndarray | None = None) -> Atoms:
    """Return the atoms of an array, a sparse matrix or a `ConvolutionalDictionary`."""
    if isinstance(dictionary, Atoms):
        return dictionary
    if isinstance(dictionary, ConvolutionalDictionary):
        return dictionary._atoms
    return MatrixAtoms(dictionary, known)


def checked_gram(atoms: Atoms, value: Any) -> np.ndarray:
    """Return the Gram matrix that a caller passed; refuse the Gram matrix of other atoms."""
    # No certificate depends on a Gram matrix that was passed.  All rows are checked if the matrix has fewer
    # than 512 rows, otherwise 64 to 127 rows, because reading all of a large matrix takes longer than solving
    # a problem.  A row times a fixed vector of numbers between 1/2 and 1 must equal the product that is
    # computed from the atoms.  A change of one atom changes an entry in every row.
    if not atoms.is_matrix:
        raise TypeError("gram must be None with a ConvolutionalDictionary; got a matrix: leave it out")
    matrix, n_atoms = atoms.matrix, atoms.shape[0]
    gram = checks.real_array(
        "gram", value, shape=(n_atoms, n_atoms), meaning="(n_atoms, n_atoms)", finite=False
    )
    # Errors are divided by norms of atoms.  The error of an atom of norm zero is divided by the largest norm.
    units = np.sqrt(atoms.positive_squared_norms)
    rows = slice(None, None, 1 if n_atoms < ALL_CHECKED else n_atoms // CHECKED_ROWS)
    mixture = (0.75 + 0.25 * np.cos(np.arange(n_atoms))) / units
    with float_errors(over="ignore", invalid="ignore"):
        differences = gram[rows] @ mixture - matrix[rows] @ (mixture @ matrix)
        diagonal = np.diagonal(gram)[rows] - atoms.squared_norms[rows]
        # `np.maximum` returns NaN if an argument is NaN.
        worst = np.maximum(
            np.abs(diagonal / atoms.positive_squared_norms[rows]).max(),
            np.abs(differences / units[rows]).max() / np.sqrt(n_atoms),
        )
    if not np.isfinite(worst):
        checks.require_finite("gram", gram)
    if not worst <= 1e-8:
        raise ValueError(
            f"gram must be dictionary @ dictionary.T; got a matrix with the relative error {worst:.2g}"
        )
    return checks.read_only(gram)


def sparse_product(codes: np.ndarray, matrix: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return codes @ matrix; for a single sparse code, read only the rows of the matrix that are used."""
    if len(codes) == 1:
        active = np.flatnonzero(codes[0])
        if 4 * len(active) < codes.shape[1]:
            return np.matmul(codes[:, active], matrix[active], out=out)
    return np.matmul(codes, matrix, out=out)

"""The interface of a dictionary's atoms: the products that problems and solvers need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value, cached_property
from solvers._kernels.precision import SMALLEST_SQUARED_NORM
from solvers.workers.blas import load_scipy_linalg

# Largest number of atoms or features for which LAPACK computes the largest eigenvalue directly.
MOST_FOR_DIRECT_EIGENVALUES = 64
# Relative accuracy of the largest eigenvalue by Lanczos's method.
ACCURACY = 1e-3


class Atoms(Value, Described, ABC):
    """A matrix D of atoms d_i, one per row; a product with a row does not depend on the other rows."""

    # True for `MatrixAtoms`, which have rows, columns and a Gram matrix.
    is_matrix = False
    # Only `MatrixAtoms` have the matrices `matrix` and `given`.  `matrix` is D with zeros in features that
    # are unknown for all signals, and `given` is D as the caller passed it.
    matrix: Any
    given: Any
    # The array of atoms that compiled kernels read, or None if they cannot read the atoms.
    rows: np.ndarray | None = None
    # ||d_i||^2 of each atom, shape (n_atoms,).
    squared_norms: np.ndarray
    # Features that are known for at least one signal, or None for all.  A `matrix` is zero in unknown
    # features.
    known: np.ndarray | None = None
    # Number of features that an atom covers.
    features_of_atom: int

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n_atoms, n_features)."""

    @cached_property
    def norms(self) -> np.ndarray:
        """||d_i|| of each atom, shape (n_atoms,)."""
        return checks.read_only(np.sqrt(self.squared_norms))

    @cached_property
    def positive_squared_norms(self) -> np.ndarray:
        """||d_i||^2 as divisors, where the largest squared norm, or 1, replaces zeros.  Shape (n_atoms,)."""
        squared_norms = self.squared_norms
        return checks.read_only(np.where(squared_norms > 0.0, squared_norms, squared_norms.max() or 1.0))

    @abstractmethod
    def complaint(self, signals: np.ndarray) -> str | None:
        """Return a sentence that says why the dictionary does not suit the signals, or None."""

    @abstractmethod
    def correlate(self, signals: np.ndarray) -> np.ndarray:
        """Return signals @ D.T, shape (n_signals, n_atoms)."""

    @abstractmethod
    def covered_norms(self, signals: np.ndarray) -> np.ndarray:
        """Return, for each signal, the largest norm of the features that one atom covers, (n_signals,)."""

    @abstractmethod
    def overlaps(self, codes: sparse.csr_array) -> np.ndarray:
        """Return upper bounds on how many atoms of a code cover the same feature, shape (n_signals,)."""

    @abstractmethod
    def reconstruct(self, codes: np.ndarray | sparse.csr_array) -> np.ndarray:
        """Return codes @ D, shape (n_signals, n_features)."""

    @abstractmethod
    def take(self, atoms: np.ndarray) -> Any:
        """Return some atoms by their indices, shape (n_chosen, n_features): an array, or compressed rows."""

    def toarray(self) -> np.ndarray:
        """Return the atoms in full, shape (n_atoms, n_features)."""
        return in_full(self.take(np.arange(self.shape[0])))

    def normal_product(
        self, codes: np.ndarray, *, out: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Write (w * (codes @ D)) @ D.T to `out`; the rounding of a row may depend on the other rows."""
        fits = self.reconstruct(codes)
        if weights is not None:
            fits *= weights
        out[:] = self.correlate(fits)

    def weighted(self, weights: np.ndarray) -> Atoms:
        """Return D diag(sqrt(w)) without features of weight zero; some atoms may become zero."""
        raise TypeError(
            "problem must have an array of atoms for this solver if features are masked or weighted; "
            "got a ConvolutionalDictionary: pass method='fista', or dictionary.toarray()"
        )

    @abstractmethod
    def weighted_squared_norms(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_j w_j d_ij^2 for each row of weights, shape (n_rows, n_atoms)."""

    @property
    def array(self) -> np.ndarray:
        """The dense array of atoms, for solvers that need an array; TypeError for other kinds of atoms."""
        if self.rows is None:
            kind = "sparse ones" if self.is_matrix else "a ConvolutionalDictionary"
            raise TypeError(
                f"problem must have a dense array of atoms for this solver; got {kind}: pass "
                "dictionary.toarray() if it fits into memory"
            )
        return self.rows

    def gram_rows(self, atoms: np.ndarray | slice) -> np.ndarray:
        """Return some rows of the Gram matrix D @ D.T, shape (n_chosen, n_atoms)."""
        return self.array[atoms] @ self.array.T

    def largest_eigenvalue(self) -> float:
        """Return L, the largest eigenvalue of the Gram matrix of atoms at norm one, or slightly more."""
        n_atoms, n_features = self.shape
        if min(n_atoms, n_features) <= MOST_FOR_DIRECT_EIGENVALUES:
            atoms = self.toarray() / np.sqrt(self.positive_squared_norms)[:, np.newaxis]
            square = atoms @ atoms.T if n_atoms <= n_features else atoms.T @ atoms
            return float(np.linalg.eigvalsh(square)[-1])

        load_scipy_linalg()
        from scipy.sparse.linalg import LinearOperator, eigsh

        def product(features: np.ndarray) -> np.ndarray:
            return self.reconstruct(self.correlate(features.reshape(1, -1)) / self.positive_squared_norms)[0]

        # The start vector is fixed; the relative error of the value is below ACCURACY.
        operator = LinearOperator((n_features, n_features), matvec=product, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(n_features)
        value = eigsh(operator, k=1, tol=ACCURACY, v0=start, return_eigenvectors=False)[0]
        return float(value) * (1.0 + ACCURACY)


def in_full(matrix: np.ndarray | sparse.csr_array) -> np.ndarray:
    """Return a dense or sparse matrix as an array; an array is returned as it is."""
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def inverse_norms(squared_norms: np.ndarray) -> np.ndarray:
    """Return 1 / ||d_i|| of each atom; 0 for an atom of norm zero."""
    norms = np.sqrt(squared_norms)
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)


def compressed_rows(name: str, value: Any, *, meaning: str, hint: str = "") -> sparse.csr_array:
    """Return a read-only float64 copy of compressed rows, with unique, sorted, nonzero entries."""
    kind = type(value).__name__
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers; got dtype {value.dtype}")
    if value.ndim != 2:
        raise ValueError(f"{name} must be 2-D, {meaning}; got shape {value.shape}")
    if 0 in value.shape:
        raise ValueError(f"{name} must not be empty; got shape {value.shape}")
    try:
        rows = sparse.csr_array(
            (value.data.astype(np.float64), value.indices.copy(), value.indptr.copy()), value.shape
        )
        rows.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name} must be valid compressed rows; got a {kind}, but {error}") from None
    rows.sum_duplicates()
    rows.eliminate_zeros()
    lost = np.flatnonzero(~np.isfinite(rows.data))
    if len(lost):
        row = int(np.searchsorted(rows.indptr, lost[0], side="right")) - 1
        raise ValueError(
            f"{name} must be finite; got {rows.data[lost[0]]} at [{row}, {rows.indices[lost[0]]}]{hint}"
        )
    for array in (rows.data, rows.indices, rows.indptr):
        array.flags.writeable = False
    return rows


def squared_norms_of(rows: np.ndarray | sparse.csr_array) -> np.ndarray:
    """Return the squared norm of each row; `einsum` is used because it does not warn of overflow."""
    if isinstance(rows, np.ndarray):
        return np.einsum("ij,ij->i", rows, rows)
    number = np.arange(rows.shape[0]).repeat(np.diff(rows.indptr))
    return np.bincount(number, np.einsum("i,i->i", rows.data, rows.data), rows.shape[0])


def checked_squared_norms(
    name: str, row: str, rows: Any, *, hint: str = "", may_be_small: bool = False
) -> np.ndarray:
    """Return the squared norm of each row; refuse values that are not finite, and norms out of range."""
    # With `may_be_small`, smaller nonzero squared norms are returned as SMALLEST_SQUARED_NORM.
    squared_norms = squared_norms_of(rows)
    # The comparison is False if a norm is NaN.
    if squared_norms.min() >= SMALLEST_SQUARED_NORM and squared_norms.max() < np.inf:
        return squared_norms
    if isinstance(rows, np.ndarray) and not np.isfinite(squared_norms).all():
        checks.require_finite(name, rows, hint=hint)
    lost = ~(squared_norms >= SMALLEST_SQUARED_NORM) | np.isinf(squared_norms)
    small = np.flatnonzero(lost)
    lost[small] = np.diff(rows.indptr)[small] > 0 if sparse.issparse(rows) else rows[small].any(axis=1)
    if may_be_small:
        squared_norms[lost] = np.maximum(squared_norms[lost], SMALLEST_SQUARED_NORM)
        lost &= np.isinf(squared_norms)
    if lost.any():
        first = int(np.argmax(lost))
        raise ValueError(
            f"{name} must have rows of squared norm between {SMALLEST_SQUARED_NORM:.1g} and "
            f"{np.finfo(float).max:.1g}; got {squared_norms[first]:.3g} for {row} {first}: rescale"
        )
    return squared_norms

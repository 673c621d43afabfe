"""What a problem and its solvers ask of a dictionary, whatever its form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from snn.base import checks
from snn.base.describe import Described, number
from snn.base.value import Value, cached_property
from solvers.workers.blas import load_scipy_linalg

# Up to this number of atoms or features the largest eigenvalue is computed directly.
MOST_FOR_DIRECT_EIGENVALUES = 64


class Dictionary(Value, Described, ABC):
    """A matrix D of atoms d_i, one a row, by the products that solvers need."""

    # Products of a row do not depend on the rows beside it, except in `normal_product`.

    is_matrix = False
    """Whether this is a `MatrixDictionary`, of which rows and columns can be taken, with a Gram matrix."""
    rows: np.ndarray | None = None
    """The array of atoms that kernels read, or None if they have no kernel for this dictionary."""
    squared_norms: np.ndarray
    """||d_i||^2 of each atom, shape (n_atoms,)."""
    features_of_atom: int
    """Number of features that an atom covers."""

    if TYPE_CHECKING:  # of a `MatrixDictionary` alone
        matrix: Any

        def gram_rows(self, atoms: np.ndarray) -> np.ndarray: ...  # noqa: D102

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n_atoms, n_features)."""

    @cached_property
    def norms(self) -> np.ndarray:
        """||d_i|| of each atom, shape (n_atoms,)."""
        return checks.read_only(np.sqrt(self.squared_norms))

    @cached_property
    def largest_norm(self) -> float:
        """The norm of the longest atom."""
        return float(self.norms.max())

    @cached_property
    def positive_squared_norms(self) -> np.ndarray:
        """||d_i||^2; for an atom of norm zero, to divide by, the largest of them, or 1.  Shape (n_atoms,)."""
        squared_norms = self.squared_norms
        if squared_norms.min() > 0.0:
            return squared_norms
        largest = squared_norms.max() or 1.0
        return checks.read_only(np.where(squared_norms > 0.0, squared_norms, largest))

    @abstractmethod
    def complaint(self, signals: np.ndarray) -> str | None:
        """Return what is wrong with coding signals in this dictionary, in one sentence, or None."""

    @abstractmethod
    def correlate(self, signals: np.ndarray) -> np.ndarray:
        """Return signals @ D.T, shape (n_signals, n_atoms)."""

    @abstractmethod
    def covered_norms(self, signals: np.ndarray) -> np.ndarray:
        """Return the largest norm of the features of each signal that one atom covers, shape (n_signals,)."""

    @abstractmethod
    def overlaps(self, codes: sparse.csr_array) -> np.ndarray:
        """Return how many atoms of each code cover one feature, or more, shape (n_signals,)."""

    @abstractmethod
    def reconstruct(self, codes: np.ndarray | sparse.csr_array) -> np.ndarray:
        """Return codes @ D, shape (n_signals, n_features)."""

    @abstractmethod
    def take(self, atoms: np.ndarray) -> Any:
        """Return some atoms by their numbers, shape (n_chosen, n_features): an array, or compressed rows."""

    @abstractmethod
    def normal_product(
        self, codes: np.ndarray, *, out: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Write (w * (codes @ D)) @ D.T to `out`, shape (n_signals, n_atoms), as fast as possible."""

    def weighted(self, weights: np.ndarray) -> Dictionary:
        """Return the dictionary D diag(sqrt(w)) without features of weight zero, whose atoms may be zero."""
        raise TypeError(
            "problem must have an array of atoms for this solver where features are masked or weighted; got "
            f"a {type(self).__name__}: methods of solvers.METHODS with takes.weights_with_convolution take it"
        )

    @abstractmethod
    def weighted_squared_norms(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_j w_j d_ij^2 for each row of weights, shape (n_rows, n_atoms)."""

    @abstractmethod
    def toarray(self) -> np.ndarray:
        """Return the atoms in full, shape (n_atoms, n_features)."""

    def _facts(self) -> dict[str, str]:
        n_atoms, n_features = self.shape
        return {"atoms": number(n_atoms), "features": number(n_features)}

    @property
    def array(self) -> np.ndarray:
        """The array of atoms, for solvers that cannot do without; others may not fit into memory in full."""
        if self.rows is None:
            kind = "sparse ones" if self.is_matrix else f"a {type(self).__name__}"
            raise TypeError(
                f"problem must have a dense array of atoms for this solver; got {kind}: pass "
                "dictionary.toarray() if it fits into memory"
            )
        return self.rows

    def gram(self) -> np.ndarray:
        """Return G = D @ D.T, shape (n_atoms, n_atoms)."""
        return self.array @ self.array.T

    def checked_gram(self, value: Any) -> np.ndarray:
        """Return the Gram matrix that a caller passed."""
        raise TypeError(f"gram must be None with a {type(self).__name__}, which is used without one")

    def largest_eigenvalue(self) -> float:
        """Return L, the largest eigenvalue of the Gram matrix of the atoms at norm one, or a little more."""
        n_atoms, n_features = self.shape
        if min(n_atoms, n_features) <= MOST_FOR_DIRECT_EIGENVALUES:
            atoms = self.toarray() / np.sqrt(self.positive_squared_norms)[:, np.newaxis]
            square = atoms @ atoms.T if n_atoms <= n_features else atoms.T @ atoms
            return float(np.linalg.eigvalsh(square)[-1])

        # Lanczos from a vector that is the same every time; the value is off by less than `accuracy` of it.
        accuracy = 1e-3
        load_scipy_linalg()
        from scipy.sparse.linalg import LinearOperator, eigsh

        operator = LinearOperator((n_features, n_features), matvec=self._normal_step, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(n_features)
        value = eigsh(operator, k=1, tol=accuracy, v0=start, return_eigenvectors=False)[0]
        return float(value) * (1.0 + accuracy)

    def _normal_step(self, signal: np.ndarray) -> np.ndarray:
        """Return the sum over atoms of ``d_i (d_i . signal) / ||d_i||^2``."""
        return self.reconstruct(self.correlate(signal.reshape(1, -1)) / self.positive_squared_norms)[0]


def inverse_norms(squared_norms: np.ndarray) -> np.ndarray:
    """Return 1 / ||d_i|| of each atom; 0 for an atom of norm zero."""
    norms = np.sqrt(squared_norms)
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)

"""What a problem and its solvers ask of a dictionary, whatever its form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from snn.base import checks
from snn.base.html import Described, number
from snn.base.locks import cached_property
from snn.base.unchanging import Unchanging
from solvers.workers.blas import load_scipy_linalg

# Up to so many atoms or features the largest eigenvalue is computed directly.
MOST_FOR_DIRECT_EIGENVALUES = 64


class Dictionary(Unchanging, Described, ABC):
    """A matrix D of atoms d_i, one a row, by the products that solvers need.

    A new form of dictionary is a subclass.  Products of a row do not depend on the rows beside it, except for
    those of `normal_product`.
    """

    is_matrix = False
    """Whether rows and columns can be taken of it, and it has a Gram matrix: an array, or a sparse one."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n_atoms, n_features)."""

    @property
    @abstractmethod
    def squared_norms(self) -> np.ndarray:
        """||d_i||^2 of each atom, shape (n_atoms,)."""

    @cached_property
    def norms(self) -> np.ndarray:
        """||d_i|| of each atom, shape (n_atoms,)."""
        return checks.read_only(np.sqrt(self.squared_norms))

    @cached_property
    def largest_norm(self) -> float:
        """The norm of the longest atom."""
        return float(self.norms.max())

    @property
    def rows(self) -> np.ndarray | None:
        """The array of atoms that kernels read, or None if they have no kernel for this dictionary."""
        return None

    @cached_property
    def positive_squared_norms(self) -> np.ndarray:
        """||d_i||^2; for an atom of norm zero, to divide by, the largest of them.  Shape (n_atoms,).

        Where a mask leaves nothing of any atom, they are all 1.
        """
        squared_norms = self.squared_norms
        if squared_norms.min() > 0.0:
            return squared_norms
        largest = squared_norms.max() or 1.0
        return checks.read_only(np.where(squared_norms > 0.0, squared_norms, largest))

    @abstractmethod
    def require_norms(self) -> None:
        """Raise ValueError if all atoms are zero, or if floating point cannot hold a squared norm."""

    def complaint(self, signals: np.ndarray) -> str | None:
        """Return what is wrong with coding signals in this dictionary, in one sentence, or None."""
        return None

    @abstractmethod
    def correlate(self, signals: np.ndarray) -> np.ndarray:
        """Return signals @ D.T, shape (n_signals, n_atoms)."""

    @property
    @abstractmethod
    def features_of_atom(self) -> int:
        """How many features an atom covers."""

    @abstractmethod
    def covered_norms(self, signals: np.ndarray) -> np.ndarray:
        """Return the largest norm of the features of each signal that one atom covers, shape (n_signals,)."""

    @abstractmethod
    def overlaps(self, codes: sparse.csr_array) -> np.ndarray:
        """Return how many atoms of each code cover one feature, or more, shape (n_signals,)."""

    @abstractmethod
    def largest_entries(self, atoms: np.ndarray) -> np.ndarray:
        """Return max_j |d_ij| of some atoms, shape (len(atoms),)."""

    @abstractmethod
    def reconstruct_in_parts(
        self, codes: sparse.csr_array, high: np.ndarray, low: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return high @ high(D), and low @ D + high @ low(D), shape (n_signals, n_features) each.

        D is the sum of high(D), of `KEPT_BITS` bits beside the largest entry of each atom, and of low(D).

        Parameters
        ----------
        codes : scipy.sparse.csr_array, shape (n_signals, n_atoms)
            Which entries of a code are not zero.
        high, low : ndarray, shape (n_entries,)
            These entries in two parts.
        """

    @abstractmethod
    def reconstruct(self, codes: np.ndarray | sparse.csr_array) -> np.ndarray:
        """Return codes @ D, shape (n_signals, n_features)."""

    @abstractmethod
    def gram_rows(self, atoms: np.ndarray) -> np.ndarray | sparse.csr_array:
        """Return some rows of the Gram matrix D @ D.T, shape (len(atoms), n_atoms)."""

    @abstractmethod
    def normal_product(
        self, codes: np.ndarray, *, out: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Write codes @ D @ D.T to `out`, shape (n_signals, n_atoms), as fast as possible.

        With `weights` of features, shape (n_signals, n_features), it is (w * (codes @ D)) @ D.T.
        """

    def weighted(self, weights: np.ndarray) -> Dictionary:
        """Return the dictionary D diag(sqrt(w)) without features of weight zero, whose atoms may be zero.

        Parameters
        ----------
        weights : ndarray of bool or float64, shape (n_features,)

        Raises
        ------
        TypeError
            If the dictionary is not an array.
        """
        self.refuse_weights()

    def refuse_weights(self) -> NoReturn:
        """Raise TypeError: a solver cannot take a mask with this dictionary."""
        raise TypeError(
            "problem must have an array of atoms for this solver where features are masked or weighted; got "
            f"a {type(self).__name__}: methods of solvers.METHODS with takes.weights_with_convolution take it"
        )

    @abstractmethod
    def weighted_squared_norms(
        self, weights: np.ndarray, signals: np.ndarray, atoms: np.ndarray
    ) -> np.ndarray:
        """Return sum_j w_j d_ij^2 for pairs of a signal and an atom, shape (n_pairs,).

        Parameters
        ----------
        weights : ndarray of bool or float64, shape (n_features,) or (n_signals, n_features)
            Those of each signal, or of all.
        signals, atoms : ndarray of int, shape (n_pairs,)
            The pairs, in the order of the signals.
        """

    @abstractmethod
    def normalised(self, scale: float) -> Dictionary:
        """Return the dictionary of the atoms d_i / (||d_i|| scale); an atom of norm zero stays zero."""

    @abstractmethod
    def toarray(self) -> np.ndarray:
        """Return the atoms in full, shape (n_atoms, n_features)."""

    def _facts(self) -> dict[str, str]:
        n_atoms, n_features = self.shape
        return {"atoms": number(n_atoms), "features": number(n_features)}

    @property
    def as_passed(self) -> Any:
        """The dictionary as the caller of a problem passed it."""
        return self

    @property
    def array(self) -> np.ndarray:
        """The array of atoms, for solvers that cannot do without.

        Raises
        ------
        TypeError
            If the dictionary is not an array.
        """
        self._refuse()

    @property
    def matrix(self) -> np.ndarray | sparse.csr_array:
        """The atoms, one a row, where this `is_matrix`.

        Raises
        ------
        TypeError
            Where it is not.
        """
        self._refuse()

    def take(self, atoms: np.ndarray) -> np.ndarray:
        """Return some atoms in full, shape (n_chosen, n_features), where this `is_matrix`.

        Parameters
        ----------
        atoms : ndarray of int or bool
            Their numbers, or which.
        """
        self._refuse()

    def correlate_squares(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_j w_j d_ij^2 for rows of weights, shape (n_rows, n_atoms), where this `is_matrix`."""
        self._refuse()

    def gram(self) -> np.ndarray:
        """Return G = D @ D.T, shape (n_atoms, n_atoms).

        Raises
        ------
        TypeError
            If the dictionary is not an array.
        """
        self._refuse()

    def checked_gram(self, value: Any) -> np.ndarray:
        """Return the Gram matrix that a caller passed.

        Raises
        ------
        TypeError, ValueError
            If it is another matrix, or the dictionary is used without one.
        """
        raise TypeError(f"gram must be None with a {type(self).__name__}, which is used without one")

    def gram_is_cheaper(self, n_products: int, *, at_hand: bool) -> bool:
        """Return True if so many products cost less with the Gram matrix than with the dictionary.

        `at_hand` says that the Gram matrix need not be computed for them.
        """
        return False

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

    def _refuse(self) -> NoReturn:
        raise TypeError(
            f"problem must have an array of atoms for this solver; got a {type(self).__name__}: for a small "
            "image, pass its toarray()"
        )

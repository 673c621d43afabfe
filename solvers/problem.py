"""The LASSO as a problem: signals, a dictionary, a penalty."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from snn import checks
from solvers.convolution import ConvolutionalDictionary

# Smaller squared norms are refused: relative to them, duality gaps would sink into denormal numbers.
SMALLEST_SQUARED_NORM = np.finfo(float).tiny / np.finfo(float).eps
# Of a dictionary: 4 MB.
VALUES_AT_ONCE = 524_288


@dataclass(frozen=True, eq=False, init=False)
class LassoProblem:
    """Sparse coding of signals in a dictionary with an l1 penalty.

    For each signal s (a row of `signals`), with the atoms d_i (the rows of `dictionary`), find the
    code a that minimises::

        E(a) = 1/2 ||s - sum_i a_i d_i||^2 + sum_i lambda_i |a_i|

    over all a (LASSO), or, with ``positive=True``, over a >= 0 (CLASSO).  Nothing is divided by the
    number of features.

    Parameters
    ----------
    dictionary : array_like, shape (n_atoms, n_features), or ConvolutionalDictionary
        Atoms of any norm but zero.
    signals : array_like, shape (n_signals, n_features)
        One signal a row; for a single signal pass ``signal[np.newaxis]``.
    penalty : float or array_like, shape (n_atoms,)
        lambda, positive; one number for all atoms, or one each.
    positive : bool, default False
        Whether codes must not be negative.
    gram : array_like, shape (n_atoms, n_atoms), optional
        ``dictionary @ dictionary.T``, where it is at hand already; otherwise computed when a solver
        asks for it.  A convolutional dictionary has none.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers, or a convolutional dictionary comes with a `gram`.
    ValueError
        If shapes do not fit, a number is not finite, a penalty is not positive, an atom is zero, the
        squared norm of a non-zero atom or signal overflows or is below 1e-292, or `gram` is not the
        dictionary's.

    Notes
    -----
    Arrays are float64, in C order and read-only once they are in; those that fit already are not
    copied.
    """

    dictionary: np.ndarray | ConvolutionalDictionary
    signals: np.ndarray
    penalty: np.ndarray
    positive: bool
    squared_norms: np.ndarray
    """||d_i||^2, shape (n_atoms,)."""
    energies: np.ndarray
    """1/2 ||s||^2, shape (n_signals,): the objective of the zero code, and the scale of `tol`."""

    def __init__(
        self,
        dictionary: np.ndarray | ConvolutionalDictionary,
        signals: np.ndarray,
        penalty: float | np.ndarray,
        *,
        positive: bool = False,
        gram: np.ndarray | None = None,
    ) -> None:
        if isinstance(dictionary, ConvolutionalDictionary):
            if gram is not None:
                raise TypeError("gram must be None with a ConvolutionalDictionary, which is used without one")
            _squared_norms("dictionary", "kernel", dictionary.kernel_rows)
            squared_norms = dictionary.squared_norms
        else:
            dictionary = checks.read_only(
                checks.real_array(
                    "dictionary", dictionary, shape=(None, None), meaning="(n_atoms, n_features)"
                )
            )
            squared_norms = _squared_norms("dictionary", "atom", dictionary)
        signals = checks.real_array("signals", signals, shape=(None, None), meaning="(n_signals, n_features)")
        n_atoms, n_features = dictionary.shape
        if signals.shape[1] != n_features:
            raise ValueError(f"dictionary has {n_features} features but signals have {signals.shape[1]}")
        if squared_norms.min() == 0.0:
            atom = int(np.argmin(squared_norms))
            raise ValueError(f"dictionary must have atoms of positive norm; got zeros for atom {atom}")
        energies = 0.5 * _squared_norms("signals", "signal", signals)
        penalty = checks.positive_array("penalty", penalty, n_atoms, meaning="one penalty an atom")
        self.__dict__["dictionary"] = dictionary
        for name, array in (
            ("signals", signals),
            ("penalty", penalty),
            ("squared_norms", squared_norms),
            ("energies", energies),
        ):
            self.__dict__[name] = checks.read_only(array)
        self.__dict__["positive"] = checks.flag("positive", positive)
        if gram is not None:
            self.__dict__["gram"] = checks.read_only(_checked_gram(gram, dictionary, squared_norms))

    @cached_property
    def gram(self) -> np.ndarray:
        """G = dictionary @ dictionary.T, shape (n_atoms, n_atoms).

        Raises
        ------
        TypeError
            If the dictionary is convolutional: its `gram_rows` and `stencil` say the same.
        """
        dense_dictionary(self)
        return checks.read_only(self.dictionary @ self.dictionary.T)

    @property
    def has_gram(self) -> bool:
        """Whether the Gram matrix was given or has been computed."""
        return "gram" in self.__dict__

    def gram_rows(self, atoms: np.ndarray) -> np.ndarray:
        """Return rows of the Gram matrix, shape (len(atoms), n_atoms)."""
        return self.dictionary[atoms] @ self.dictionary.T

    @property
    def n_signals(self) -> int:
        """Number of signals."""
        return self.signals.shape[0]

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return self.dictionary.shape[0]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.dictionary.shape[1]

    @property
    def l1_weights(self) -> np.ndarray:
        """Penalty of each |a_i|, shape (n_atoms,)."""
        return self.penalty

    @cached_property
    def curvatures(self) -> np.ndarray:
        """Quadratic penalty of each atom, 1/2 curvature_i a_i^2, shape (n_atoms,): zero for the LASSO."""
        return checks.read_only(np.zeros(self.n_atoms))

    @cached_property
    def correlations(self) -> np.ndarray:
        """b = signals @ dictionary.T, shape (n_signals, n_atoms)."""
        return checks.read_only(self.correlate(self.signals))

    def correlate(self, signals: np.ndarray) -> np.ndarray:
        """Return the inner products of signals with all atoms, shape (n_signals, n_atoms).

        One matrix-vector product a signal: a product of matrices rounds a row differently with the
        number of rows beside it, and a code must not depend on its batch mates.  All signals go through
        a large dictionary part by part, each of which stays in cache meanwhile.
        """
        if isinstance(self.dictionary, ConvolutionalDictionary):
            return self.dictionary.correlate(signals)
        correlations = np.empty((len(signals), self.n_atoms))
        step = max(VALUES_AT_ONCE // self.n_features, 1)
        for first in range(0, self.n_atoms, step):
            atoms = self.dictionary[first : first + step]
            np.matmul(
                signals[:, np.newaxis, :], atoms.T, out=correlations[:, np.newaxis, first : first + step]
            )
        return correlations

    def reconstruct(self, codes: np.ndarray) -> np.ndarray:
        """Return codes @ dictionary, shape (n_signals, n_features).

        Codes are sparse, and a sparse product adds up each row by itself, for the reason above.
        """
        if isinstance(self.dictionary, ConvolutionalDictionary):
            return self.dictionary.reconstruct(codes)
        if not isinstance(codes, sparse.csr_array):
            codes = sparse.csr_array(codes)
        return codes @ self.dictionary

    def subset(self, which: np.ndarray | slice) -> LassoProblem:
        """Return the problem of some of the signals; the dictionary is shared, not checked again.

        Parameters
        ----------
        which : slice, or array_like of int or bool
            As NumPy selects rows; at least one.

        Raises
        ------
        ValueError
            If it selects a single row by a bare number, or none.
        """
        if np.ndim(self.energies[which]) != 1 or not len(self.energies[which]):
            raise ValueError(f"which must select one or more signals by a slice or a list; got {which!r}")
        problem = object.__new__(LassoProblem)
        problem.__dict__.update(self.__dict__)
        for name in ("signals", "energies", "correlations"):
            if name in self.__dict__:
                chosen = np.ascontiguousarray(self.__dict__[name][which])
                problem.__dict__[name] = checks.read_only(chosen)
        return problem


def dense_dictionary(problem: LassoProblem) -> np.ndarray:
    """Return the array of atoms of a problem, for solvers that cannot do without.

    Raises
    ------
    TypeError
        If the dictionary is convolutional.
    """
    if isinstance(problem.dictionary, ConvolutionalDictionary):
        raise TypeError(
            "problem must have an array of atoms for this solver; got a ConvolutionalDictionary: for a small "
            "image, pass its toarray()"
        )
    return problem.dictionary


def _squared_norms(name: str, row: str, array: np.ndarray) -> np.ndarray:
    """Return the squared norm of each row; refuse those that floating point cannot hold."""
    with np.errstate(over="ignore", under="ignore"):
        squared_norms = np.einsum("ij,ij->i", array, array)
    lost = (squared_norms < SMALLEST_SQUARED_NORM) & array.any(axis=1)
    if lost.any() or not np.isfinite(squared_norms).all():
        first = int(np.argmax(lost | ~np.isfinite(squared_norms)))
        raise ValueError(
            f"{name} must have rows of squared norm between {SMALLEST_SQUARED_NORM:.1g} and "
            f"{np.finfo(float).max:.1g}; got {squared_norms[first]:.3g} for {row} {first}: rescale"
        )
    return squared_norms


def _checked_gram(value: np.ndarray, dictionary: np.ndarray, squared_norms: np.ndarray) -> np.ndarray:
    n_atoms = len(dictionary)
    gram = checks.real_array("gram", value, shape=(n_atoms, n_atoms), meaning="(n_atoms, n_atoms)")
    # The diagonal, and one combination of the columns, scaled to atoms of norm one: O(n_atoms^2), never
    # the product.
    norms = np.sqrt(squared_norms)
    mixture = np.cos(np.arange(n_atoms)) / norms
    errors = np.abs(gram @ mixture - dictionary @ (dictionary.T @ mixture)) / norms
    worst = max(
        float(np.abs(np.diagonal(gram) / squared_norms - 1.0).max()), float(errors.max()) / np.sqrt(n_atoms)
    )
    if not worst <= 1e-8:
        raise ValueError(
            f"gram must be dictionary @ dictionary.T; got a matrix that differs by about {worst:.2g} of it"
        )
    return gram

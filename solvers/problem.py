"""The LASSO as a problem: signals, a dictionary, a penalty."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from snn import checks
from solvers.convolution import ConvolutionalDictionary
from solvers.dictionaries import Dictionary, dictionary_of, squared_norms_of_rows
from solvers.penalties import penalty_of
from solvers.penalty import Penalty

Made = TypeVar("Made")


class ProblemSetup:
    """Dictionary and penalty of problems, checked, and what solvers compute of these alone.

    Parameters
    ----------
    dictionary, penalty, positive, gram
        As of `LassoProblem`, with the same errors.

    Attributes
    ----------
    atoms : Dictionary
        The dictionary by its products.
    penalty : Penalty
        With one number an atom.
    positive : bool
        Whether codes must not be negative.
    """

    def __init__(
        self,
        dictionary: np.ndarray | ConvolutionalDictionary,
        penalty: float | np.ndarray | Penalty,
        *,
        positive: bool,
        gram: np.ndarray | None = None,
    ) -> None:
        self.atoms = dictionary_of(dictionary)
        self.atoms.require_norms()
        self.penalty = penalty_of(penalty, self.atoms.squared_norms)
        self.positive = checks.flag("positive", positive)
        self._gram = None if gram is None else checks.read_only(self.atoms.checked_gram(gram))
        self._kept: dict[Callable, Any] = {}

    @property
    def gram(self) -> np.ndarray:
        """G = dictionary @ dictionary.T; computed once.

        Raises
        ------
        TypeError
            If the dictionary is convolutional.
        """
        if self._gram is None:
            self._gram = checks.read_only(self.atoms.gram())
        return self._gram

    @property
    def has_gram(self) -> bool:
        """True if the Gram matrix was given or has been computed."""
        return self._gram is not None

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return self.atoms.shape[0]

    @property
    def squared_norms(self) -> np.ndarray:
        """||d_i||^2, shape (n_atoms,)."""
        return self.atoms.squared_norms

    @property
    def curvatures(self) -> np.ndarray:
        """m, the quadratic penalty that adds to the diagonal of the Gram matrix, shape (n_atoms,)."""
        return self.penalty.curvatures

    def copy(self) -> ProblemSetup:
        """Return a setup that knows what this one does; what is computed later is its own."""
        other = copy(self)
        other._kept = dict(self._kept)
        return other

    def with_penalty(self, penalty: float | np.ndarray | Penalty) -> ProblemSetup:
        """Return a setup with another penalty, and the Gram matrix if there is one.

        Parameters
        ----------
        penalty : float, array_like of shape (n_atoms,), or Penalty
            As of `LassoProblem`.
        """
        other = self.copy()
        other.penalty = penalty_of(penalty, self.squared_norms)
        other._kept = {}
        return other

    def once(self, make: Callable[[ProblemSetup], Made]) -> Made:
        """Return what `make` returns of this setup; it is called once, and what it makes is kept.

        Parameters
        ----------
        make : callable
            A function of a module.
        """
        if make not in self._kept:
            self._kept[make] = make(self)
        return self._kept[make]


@dataclass(frozen=True, eq=False, init=False)
class LassoProblem:
    """Sparse coding of signals in a dictionary with an l1 penalty, or with that of the elastic net.

    For each signal s (a row of `signals`), with the atoms d_i (the rows of `dictionary`), find the
    code a that minimises::

        E(a) = 1/2 ||s - sum_i a_i d_i||^2 + sum_i lambda_i |a_i| + sum_i m_i / 2 a_i^2

    over all a (LASSO), or, with ``positive=True``, over a >= 0 (CLASSO).  The last term is that of an
    `ElasticNet`.  Nothing is divided by the number of features.

    Parameters
    ----------
    dictionary : array_like, shape (n_atoms, n_features), or ConvolutionalDictionary
        Atoms of any norm.  The code of an atom of norm zero is zero; one at least must not be.
    signals : array_like, shape (n_signals, n_features)
        One signal a row; for a single signal pass ``signal[np.newaxis]``.
    penalty : float, array_like of shape (n_atoms,), or Penalty
        lambda, positive; one number for all atoms, or one each: the weights of an `L1`.  Otherwise an
        `ElasticNet`, or an `L1` itself.
    positive : bool, default False
        Whether codes must not be negative.
    gram : array_like, shape (n_atoms, n_atoms), optional
        ``dictionary @ dictionary.T``, if it is at hand; otherwise computed when a solver needs it.  Of
        one of 512 atoms or more only some rows are checked; no certificate uses it.  A convolutional
        dictionary has none.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers, or a convolutional dictionary comes with a `gram`.
    ValueError
        If shapes do not fit, a number is not finite, a penalty is not positive or does not fit the atoms
        (`ElasticNet`), all atoms are zero, the
        squared norm of a non-zero atom or signal overflows or is below 1e-292, or `gram` is not the
        dictionary's.

    Notes
    -----
    Arrays are float64, in C order and read-only once they are in; those that fit already are not
    copied.
    """

    dictionary: np.ndarray | ConvolutionalDictionary
    """What the caller passed: the array of atoms, or the convolutional dictionary."""
    signals: np.ndarray
    penalty: Penalty
    """An `L1` or another penalty object, with one number an atom."""
    positive: bool
    atoms: Dictionary = field(repr=False)
    """The dictionary by its products: a `DenseDictionary` of the array, or the convolutional one itself."""
    energies: np.ndarray
    """1/2 ||s||^2, shape (n_signals,): the objective of the zero code, and the scale of `tol`."""
    setup: ProblemSetup = field(repr=False)
    """Dictionary and penalty, with what was computed of them; other problems may share it."""

    def __init__(
        self,
        dictionary: np.ndarray | ConvolutionalDictionary,
        signals: np.ndarray,
        penalty: float | np.ndarray | Penalty,
        *,
        positive: bool = False,
        gram: np.ndarray | None = None,
    ) -> None:
        self._fill(ProblemSetup(dictionary, penalty, positive=positive, gram=gram), signals)

    @classmethod
    def of_setup(cls, setup: ProblemSetup, signals: np.ndarray) -> LassoProblem:
        """Return the problem of signals in a dictionary that was checked before.

        Parameters
        ----------
        setup : ProblemSetup
            Dictionary and penalty.
        signals : array_like, shape (n_signals, n_features)
            The signals.

        Raises
        ------
        TypeError, ValueError
            As `LassoProblem`.
        """
        problem = object.__new__(cls)
        problem._fill(setup, signals)
        return problem

    def _fill(self, setup: ProblemSetup, signals: np.ndarray) -> None:
        signals = checks.float_array(
            "signals", signals, shape=(None, None), meaning="(n_signals, n_features)"
        )
        n_features = setup.atoms.shape[1]
        if signals.shape[1] != n_features:
            raise ValueError(f"dictionary has {n_features} features but signals have {signals.shape[1]}")
        energies = 0.5 * squared_norms_of_rows("signals", "signal", signals)
        self._set(setup, checks.read_only(signals), checks.read_only(energies))

    def _set(self, setup: ProblemSetup, signals: np.ndarray, energies: np.ndarray) -> None:
        """Set the attributes of a problem that is being made."""
        # Past the check of a frozen dataclass, once for all.
        vars(self).update(
            setup=setup,
            dictionary=setup.atoms.as_passed,
            signals=signals,
            penalty=setup.penalty,
            positive=setup.positive,
            atoms=setup.atoms,
            energies=energies,
        )

    @property
    def squared_norms(self) -> np.ndarray:
        """||d_i||^2, shape (n_atoms,)."""
        return self.atoms.squared_norms

    @property
    def l1_weights(self) -> np.ndarray:
        """lambda, the weight of ``|a_i|``, shape (n_atoms,)."""
        return self.penalty.l1_weights

    @property
    def curvatures(self) -> np.ndarray:
        """m, the quadratic penalty that adds to the diagonal of the Gram matrix, shape (n_atoms,)."""
        return self.penalty.curvatures

    @property
    def gram(self) -> np.ndarray:
        """G = dictionary @ dictionary.T, shape (n_atoms, n_atoms), without the penalty's curvatures.

        Raises
        ------
        TypeError
            If the dictionary is convolutional: its `gram_rows` and `stencil` say the same.
        """
        return self.setup.gram

    @property
    def has_gram(self) -> bool:
        """True if the Gram matrix was given or has been computed."""
        return self.setup.has_gram

    def gram_rows(self, atoms: np.ndarray) -> np.ndarray | sparse.csr_array:
        """Return rows of the Gram matrix, shape (len(atoms), n_atoms).

        Raises
        ------
        TypeError, ValueError
            If `atoms` is not a list of numbers from 0 to n_atoms - 1.
        """
        numbers = np.asarray(atoms)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise TypeError(f"atoms must be an array of integers; got dtype {numbers.dtype}")
        if numbers.ndim != 1:
            raise ValueError(f"atoms must be 1-D, one number a row; got shape {numbers.shape}")
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < self.n_atoms):
            wrong = numbers[(numbers < 0) | (numbers >= self.n_atoms)][0]
            raise ValueError(f"atoms must lie in [0, {self.n_atoms}); got {wrong}")
        return self.atoms.gram_rows(numbers.astype(np.int64, copy=False))

    @property
    def n_signals(self) -> int:
        """Number of signals."""
        return self.signals.shape[0]

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return self.atoms.shape[0]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.atoms.shape[1]

    @cached_property
    def correlations(self) -> np.ndarray:
        """b = signals @ dictionary.T, shape (n_signals, n_atoms)."""
        return checks.read_only(self.correlate(self.signals))

    def correlate(self, signals: np.ndarray) -> np.ndarray:
        """Return the inner products of signals with all atoms, shape (n_signals, n_atoms).

        The result for a signal does not depend on those beside it.

        Raises
        ------
        ValueError
            If `signals` does not have the shape (n_signals, n_features).
        """
        signals = np.asarray(signals, dtype=np.float64)
        _require_rows("signals", signals, self.n_features, "for one signal pass signal[np.newaxis]")
        return self.atoms.correlate(signals)

    def reconstruct(self, codes: np.ndarray | sparse.csr_array) -> np.ndarray:
        """Return codes @ dictionary, shape (n_signals, n_features).

        The result for a code does not depend on those beside it.

        Raises
        ------
        ValueError
            If `codes` does not have the shape (n_signals, n_atoms).
        """
        _require_rows("codes", codes, self.n_atoms, "for one code pass code[np.newaxis]")
        return self.atoms.reconstruct(codes)

    def with_signals(self, signals: np.ndarray) -> LassoProblem:
        """Return the problem of other signals; dictionary and penalty are shared, not checked again.

        Parameters
        ----------
        signals : array_like, shape (n_signals, n_features)
            One signal a row.

        Raises
        ------
        TypeError, ValueError
            As the problem does for its signals.
        """
        return LassoProblem.of_setup(self.setup.copy(), signals)

    def with_penalty(self, penalty: float | np.ndarray | Penalty) -> LassoProblem:
        """Return the problem with another penalty; all else is shared, not checked again.

        Parameters
        ----------
        penalty : float, array_like of shape (n_atoms,), or Penalty
            As that of the problem.

        Raises
        ------
        TypeError, ValueError
            As the problem does for its penalty.
        """
        setup = self.setup.with_penalty(penalty)
        other = object.__new__(LassoProblem)
        other._set(setup, self.signals, self.energies)
        if "correlations" in vars(self):
            vars(other).update(correlations=self.correlations)
        return other

    def _sharing(self, signals: np.ndarray, energies: np.ndarray) -> LassoProblem:
        """Return the problem of other signals, with what was computed of the dictionary so far."""
        other = object.__new__(LassoProblem)
        # What is computed for one of them later is not for the other, so that both can be timed.
        other._set(self.setup.copy(), signals, energies)
        return other

    def subset(self, which: np.ndarray | slice) -> LassoProblem:
        """Return the problem of some of the signals; the dictionary is shared, not checked again.

        Parameters
        ----------
        which : slice, or array_like of int or bool
            As NumPy selects rows; at least one.

        Raises
        ------
        TypeError
            If it is neither a slice nor an array of integers or bools.
        ValueError
            If it selects a signal that does not exist, a single row by a bare number, or none.
        """
        if not isinstance(which, slice):
            which = self._selection(which)
        energies = self.energies[which]
        if not len(energies):
            raise ValueError(f"which must select one or more signals by a slice or a list; got {which!r}")
        part = self._sharing(_rows(self.signals, which), _rows(self.energies, which))
        if "correlations" in vars(self):
            vars(part).update(correlations=_rows(self.correlations, which))
        return part

    def _selection(self, which: np.ndarray) -> np.ndarray:
        """Return the numbers or the mask of signals that `which` is, checked."""
        selection = np.asarray(which)
        if selection.size and selection.dtype.kind not in "iub":
            raise TypeError(f"which must be a slice, or an array of integers or bools; got {which!r}")
        if selection.ndim != 1 or not selection.size:
            raise ValueError(f"which must select one or more signals by a slice or a list; got {which!r}")
        if selection.dtype.kind == "b":
            if len(selection) != self.n_signals:
                raise ValueError(
                    f"which must have one bool for each of the {self.n_signals} signals; got {len(selection)}"
                )
        elif not (-self.n_signals <= selection.min() and selection.max() < self.n_signals):
            outside = (selection < -self.n_signals) | (selection >= self.n_signals)
            raise ValueError(
                f"which must select among {self.n_signals} signals, counted from 0; "
                f"got {selection[outside][0]}"
            )
        return selection


def _rows(array: np.ndarray, which: np.ndarray | slice) -> np.ndarray:
    return checks.read_only(np.ascontiguousarray(array[which]))


def _require_rows(name: str, array: np.ndarray | sparse.csr_array, length: int, hint: str) -> None:
    """Raise ValueError unless `array` has rows of some length."""
    shape = np.shape(array)
    if len(shape) != 2 or shape[1] != length:
        raise ValueError(f"{name} must be 2-D, with rows of {length} numbers; got shape {shape}: {hint}")

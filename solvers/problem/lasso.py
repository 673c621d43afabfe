"""The LASSO as a problem: signals, a dictionary, a penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.html import Described, number, value_range
from snn.base.locks import cached_property
from snn.base.unchanging import Unchanging
from solvers.problem.convolution import ConvolutionalDictionary
from solvers.problem.dictionary import Dictionary
from solvers.problem.model import CodingModel
from solvers.problem.penalty import ElasticNet
from solvers.problem.signals import Signals, checked_signals

# Products of numbers that a description may take: some milliseconds.
CHEAP = 2**22


@dataclass(frozen=True, eq=False, init=False, repr=False)
class LassoProblem(Unchanging, Described):
    """Sparse coding of signals in a dictionary with an l1 penalty, or with that of the elastic net.

    For each signal s (a row of `signals`), with the atoms d_i (the rows of `dictionary`), find the
    code a that minimises::

        E(a) = 1/2 ||s - sum_i a_i d_i||^2 + sum_i lambda_i |a_i| + sum_i m_i / 2 a_i^2

    over all a (LASSO), or, with ``positive=True``, over a >= 0 (CLASSO).  The last term is that of an
    `ElasticNet`.  Nothing is divided by the number of features.  With a `mask`, or with weights w >= 0 of
    features, the first term is ``1/2 sum_j w_j (s_j - sum_i a_i d_ij)^2``.

    Parameters
    ----------
    dictionary : array_like or sparse matrix, shape (n_atoms, n_features), or ConvolutionalDictionary
        Atoms of any norm.  The code of an atom of norm zero is zero; one at least must not be.  Sparse arrays
        and matrices of SciPy, in any format, stay sparse; where solvers need products of all atoms with each
        other, those are an array.  "coordinate_descent" refuses them.
    signals : array_like or compressed rows, shape (n_signals, n_features)
        One signal a row; for a single signal pass ``signal[np.newaxis]``.  CSR arrays and matrices of SciPy
        are made dense for few signals at a time only.
    penalty : float, array_like of shape (n_atoms,), or ElasticNet
        lambda, not negative; one number for all atoms, or one each; or an `ElasticNet`.  Zero for
        all atoms is (non-negative) least squares, zero for some is an intercept, or atoms that are known to
        be there.
    positive : bool, default False
        Whether codes must not be negative.
    gram : array_like, shape (n_atoms, n_atoms), optional
        ``dictionary @ dictionary.T``, if it is at hand; otherwise computed when a solver needs it.  Of
        one of 512 atoms or more only some rows are checked; no certificate uses it.  A convolutional
        dictionary has none.
    mask : array_like of bool, shape (n_features,) or (n_signals, n_features), optional
        True where a feature is known.  Where it is False, signals do not count, and may be NaN.
    feature_weights : array_like, shape (n_features,) or (n_signals, n_features), optional
        w, each 0 or from 1e-60 to 1e60; a mask is weights of 1 and 0.

    Raises
    ------
    TypeError
        If an argument does not hold real numbers, a mask does not hold bools, a convolutional dictionary
        comes with a `gram` or sparse signals, or sparse signals come with weights.
    ValueError
        If shapes do not fit, a number is not finite, a penalty is negative, zero with a convolutional
        dictionary, or does not fit the atoms (`ElasticNet`), all atoms are zero, the
        squared norm of a non-zero atom or signal overflows or is below 1e-292, or `gram` is not the
        dictionary's.

    Notes
    -----
    Arrays are float64, in C order and read-only once they are in; those that fit already are not
    copied.
    """

    dictionary: np.ndarray | sparse.csr_array | ConvolutionalDictionary
    """What the caller passed: the array of atoms, sparse ones as compressed rows, or the convolutional
    dictionary."""
    signals: np.ndarray | sparse.csr_array
    """Zero where a feature does not count; compressed rows if such were passed."""
    penalty: ElasticNet
    """The penalty, with two numbers an atom."""
    positive: bool
    atoms: Dictionary
    """The dictionary by its products: a `DenseDictionary` of the array, a `SparseDictionary`, or the
    convolutional one itself."""
    energies: np.ndarray
    """1/2 ||s||^2, or 1/2 sum_j w_j s_j^2, shape (n_signals,): the objective of the zero code, and the scale
    of `tol`."""
    feature_weights: np.ndarray | None
    """w, as bools where it is a mask; shape (n_features,) or (n_signals, n_features)."""
    model: CodingModel
    """Dictionary and penalty, with what was computed of them; other problems may share it."""

    def __init__(
        self,
        dictionary: ArrayLike | ConvolutionalDictionary,
        signals: ArrayLike,
        penalty: float | ArrayLike | ElasticNet,
        *,
        positive: bool = False,
        gram: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        feature_weights: ArrayLike | None = None,
    ) -> None:
        model = CodingModel(dictionary, penalty, positive=positive, gram=gram)
        self._fill(model, checked_signals(signals, model.atoms, mask=mask, weights=feature_weights))

    @classmethod
    def of_model(
        cls,
        model: CodingModel,
        signals: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        feature_weights: ArrayLike | None = None,
    ) -> LassoProblem:
        """Return the problem of signals in a dictionary that was checked before.

        Parameters
        ----------
        model : CodingModel
            Dictionary and penalty.
        signals : array_like or compressed rows, shape (n_signals, n_features)
            The signals.
        mask, feature_weights : array_like, optional
            As of `LassoProblem`; by default those of the model.

        Raises
        ------
        TypeError, ValueError
            As `LassoProblem`.
        """
        problem = object.__new__(cls)
        shared = model.feature_weights
        problem._fill(
            model, checked_signals(signals, model.atoms, mask=mask, weights=feature_weights, shared=shared)
        )
        return problem

    def _facts(self) -> dict[str, str]:
        model = self.model._facts()
        facts = {"signals": f"{number(self.n_signals)}{', sparse' if sparse.issparse(self.signals) else ''}"}
        for name, fact in model.items():
            facts[name] = fact
            if name == "penalty" and self._is_cheap:
                facts["penalty / maximum"] = value_range(self._penalty_shares())
        weights = self.feature_weights
        if weights is not None and weights.ndim == 2:
            known = ""
            if weights.size <= CHEAP:
                share = np.count_nonzero(weights) / weights.size
                known = f", {100.0 * share:.3g} % of all features known"
            kind = "mask" if weights.dtype == np.bool_ else "feature weights"
            facts[kind] = f"one for each signal{known}"
        return facts

    @property
    def _is_cheap(self) -> bool:
        """True if the correlations are small, and known or soon computed."""
        n_products = self.n_signals * self.n_atoms
        if "correlations" not in vars(self):
            n_products *= self.atoms.features_of_atom
        return n_products <= CHEAP

    def _penalty_shares(self) -> np.ndarray:
        """Return the penalty as a share of that at which the code is zero, of each signal that has one."""
        multiples = self.zero_code_multiples()
        return 1.0 / multiples[multiples > 0.0]

    def _fill(self, model: CodingModel, signals: Signals) -> None:
        weights = signals.weights
        if weights is not None and weights.ndim == 1 and weights is not model.feature_weights:
            model = model.with_weights(weights)
        self._set(model, *signals)

    def _set(
        self,
        model: CodingModel,
        signals: np.ndarray | sparse.csr_array,
        weights: np.ndarray | None,
        energies: np.ndarray,
    ) -> None:
        """Set the attributes of a problem that is being made."""
        # Past the check of a frozen dataclass, once for all.
        vars(self).update(
            model=model,
            dictionary=model.atoms.as_passed,
            signals=signals,
            penalty=model.penalty,
            positive=model.positive,
            atoms=model.atoms,
            energies=energies,
            feature_weights=weights,
        )

    @property
    def mask(self) -> np.ndarray | None:
        """True where a feature counts, of the shape of `feature_weights`; None if all do."""
        return None if self.feature_weights is None else checks.read_only(self.feature_weights != 0)

    @property
    def has_own_weights(self) -> bool:
        """True if each signal has weights of features of its own."""
        return self.feature_weights is not None and self.feature_weights.ndim == 2

    @property
    def squared_norms(self) -> np.ndarray:
        """||d_i||^2 of all features, whatever their weights, shape (n_atoms,)."""
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

        With weights of features it is D diag(w) D^T.

        Raises
        ------
        TypeError
            If the dictionary is convolutional: its `gram_rows` and `stencil` say the same.  Or if each signal
            has weights of its own.
        """
        return self.weighted_model.gram

    @property
    def weighted_model(self) -> CodingModel:
        """The model of the atoms as all signals see them: of D diag(sqrt(w)), or of D itself without weights.

        Raises
        ------
        TypeError
            If each signal has weights of its own, or a convolutional dictionary comes with weights.
        """
        if self.has_own_weights:
            raise TypeError(
                "problem must have one mask for all signals to have a Gram matrix; got one for each signal: "
                "pass a mask of shape (n_features,)"
            )
        return self.model.weighted

    def ordinary(self) -> LassoProblem:
        """Return the problem without weights that has the same codes: of D diag(sqrt(w)) and sqrt(w) s.

        Features of weight zero are left out.  Without weights it is the problem itself; sparse signals become
        an array.

        Raises
        ------
        TypeError
            As `weighted_model`.
        """
        weights, signals = self.feature_weights, self.dense_signals()
        if weights is None:
            return self if signals is self.signals else LassoProblem.of_model(self.model, signals)
        model, known = self.weighted_model, weights != 0
        if not known.any():
            # A single feature, in which all are zero.
            return LassoProblem.of_model(model, np.zeros((self.n_signals, 1)))
        signals = signals[:, known]
        if weights.dtype != np.bool_:
            signals = signals * np.sqrt(weights[known])
        return LassoProblem.of_model(model, signals)

    def require_no_weights(self) -> None:
        """Raise ValueError if there are weights of features, those of a mask among them."""
        if self.feature_weights is not None:
            raise ValueError(
                "problem must have no mask and no feature_weights here; got some: where all signals share "
                "them, pass problem.ordinary(), of the features that count"
            )

    @property
    def has_gram(self) -> bool:
        """True if the Gram matrix was given or has been computed."""
        if self.feature_weights is None:
            return self.model.has_gram
        return not self.has_own_weights and self.model.weighted_has_gram

    @property
    def has_correlations(self) -> bool:
        """True if the correlations have been computed."""
        return "correlations" in vars(self)

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
        return self.weighted_model.atoms.gram_rows(numbers.astype(np.int64, copy=False))

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
        """b = (w * signals) @ dictionary.T, shape (n_signals, n_atoms)."""
        return checks.read_only(self._correlations())

    def _correlations(self) -> np.ndarray:
        signals = self.signals
        if self.feature_weights is not None and self.feature_weights.dtype != np.bool_:
            signals = signals * self.feature_weights
        return self.atoms.correlate(signals)

    def zero_code_multiples(self) -> np.ndarray:
        """Return the smallest multiple of the penalty at which each code is zero, shape (n_signals,).

        It is infinite where the signal pulls an atom without penalty.  Correlations that are not known are
        computed for as many signals at a time as the memory limit allows, and not kept.
        """
        known = self.correlations if self.has_correlations else None
        step = self.n_signals
        if known is None:
            step = max(min(step, self.model.memory.limit // (16 * self.n_atoms)), 1)
        multiples = np.empty(self.n_signals)
        for first in range(0, self.n_signals, step):
            block = slice(first, first + step)
            part = self if step == self.n_signals else self.subset(block)
            reach = part._correlations() if known is None else known
            multiples[block] = self.penalty.maximum(reach if self.positive else np.abs(reach))
        return multiples

    def dense_signals(self) -> np.ndarray:
        """Return the signals as an array; of sparse ones a copy, which takes few of them at a time."""
        if not isinstance(self.signals, np.ndarray):
            return checks.read_only(self.signals.toarray())
        return self.signals

    def correlate(self, signals: np.ndarray) -> np.ndarray:
        """Return the inner products of signals with all atoms, without weights, shape (n_signals, n_atoms).

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
        """Return codes @ dictionary, shape (n_signals, n_features), features that are missing among them.

        The result for a code does not depend on those beside it.

        Raises
        ------
        ValueError
            If `codes` does not have the shape (n_signals, n_atoms).
        """
        _require_rows("codes", codes, self.n_atoms, "for one code pass code[np.newaxis]")
        return self.atoms.reconstruct(codes)

    def with_signals(
        self,
        signals: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        feature_weights: ArrayLike | None = None,
    ) -> LassoProblem:
        """Return the problem of other signals; dictionary and penalty are shared, not checked again.

        Parameters
        ----------
        signals : array_like or compressed rows, shape (n_signals, n_features)
            One signal a row.
        mask, feature_weights : array_like, optional
            As of the problem.  By default those that it has for all signals; those of each signal are not
            passed on.

        Raises
        ------
        TypeError, ValueError
            As the problem does for its signals.
        """
        model = self.model.copy()
        model.is_prepared = True
        return LassoProblem.of_model(model, signals, mask=mask, feature_weights=feature_weights)

    def with_penalty(self, penalty: float | ArrayLike | ElasticNet) -> LassoProblem:
        """Return the problem with another penalty; all else is shared, not checked again.

        Parameters
        ----------
        penalty : float, array_like of shape (n_atoms,), or ElasticNet
            As that of the problem.

        Raises
        ------
        TypeError, ValueError
            As the problem does for its penalty.
        """
        model = self.model.with_penalty(penalty)
        other = object.__new__(LassoProblem)
        other._set(model, self.signals, self.feature_weights, self.energies)
        if self.has_correlations:
            vars(other).update(correlations=self.correlations)
        return other

    def prepared(self) -> LassoProblem:
        """Return the problem as one of several that come after each other, as those of a `PreparedLasso`."""
        model = self.model.copy()
        model.is_prepared = True
        other = object.__new__(LassoProblem)
        other._set(model, self.signals, self.feature_weights, self.energies)
        if self.has_correlations:
            vars(other).update(correlations=self.correlations)
        return other

    def subset(self, which: ArrayLike | Sequence[int] | slice) -> LassoProblem:
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
        part = object.__new__(LassoProblem)
        weights = _rows(self.feature_weights, which) if self.has_own_weights else self.feature_weights
        # What is computed for one of them later is not for the other, so that both can be timed.
        part._set(self.model.copy(), _rows(self.signals, which), weights, _rows(energies, slice(None)))
        if self.has_correlations:
            vars(part).update(correlations=_rows(self.correlations, which))
        return part

    def _selection(self, which: ArrayLike | Sequence[int]) -> np.ndarray:
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


def _rows(array: np.ndarray | sparse.csr_array, which: np.ndarray | slice) -> np.ndarray | sparse.csr_array:
    if sparse.issparse(array):
        return array[which]
    return checks.read_only(np.ascontiguousarray(array[which]))


def _require_rows(name: str, array: np.ndarray | sparse.csr_array, length: int, hint: str) -> None:
    """Raise ValueError unless `array` has rows of some length."""
    shape = np.shape(array)
    if len(shape) != 2 or shape[1] != length:
        raise ValueError(f"{name} must be 2-D, with rows of {length} numbers; got shape {shape}: {hint}")

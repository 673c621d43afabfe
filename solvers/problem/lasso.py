"""The LASSO: a model, of a dictionary and a penalty, and problems, which are a model with signals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.describe import Described, memory, number, value_range
from snn.base.locks import cached_property
from snn.base.value import Value
from solvers.problem.convolution import ConvolutionalDictionary
from solvers.problem.dictionary import Dictionary
from solvers.problem.matrix import UnitAtoms, dictionary_of
from solvers.problem.penalty import ElasticNet, penalty_of
from solvers.problem.signals import checked_signals, feature_weights, require_weighted_norms

# Products of numbers that a description may take: some milliseconds.
CHEAP = 2**22
DEFAULT_MEMORY_LIMIT = 2**30

Made = TypeVar("Made")


class memory_limit:
    """Say how much memory solvers may take for what they compute of a dictionary; 1 GiB by default.

    The limit holds for problems that are made from now on, in all threads, and stays with them; used in a
    ``with`` statement, for those that are made within.  It is compared with the size of a Gram matrix before
    one is computed, 8 n_atoms^2 bytes.  Where that is larger, methods that can do without take the dictionary
    in its place, in single precision with certified bounds on the errors, and batches of signals as large as
    the limit allows; the others raise MemoryError and name those that can.  Dictionaries, signals, results
    and a Gram matrix that is given are not counted.

    Parameters
    ----------
    n_bytes : float
        The limit in bytes, positive: ``4e9`` are 4 GB.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import LassoProblem, memory_limit
    >>> with memory_limit(4e9):
    ...     problem = LassoProblem(np.eye(3), [[1.0, 0.0, 2.0]], 0.5)
    """

    _in_force: ClassVar[memory_limit | None] = None

    def __init__(self, n_bytes: float) -> None:
        self._n_bytes = int(checks.positive_number("n_bytes", n_bytes))
        self._set()

    def __enter__(self) -> memory_limit:
        if memory_limit._in_force is not self:  # used once more
            self._set()
        return self

    def __exit__(self, *error: object) -> None:
        memory_limit._in_force = self._before

    def _set(self) -> None:
        self._before, memory_limit._in_force = memory_limit._in_force, self


class LassoModel(Value, Described):
    """A dictionary and a penalty, checked once, with what solvers compute of them.

    A `LassoProblem` checks its dictionary, and solvers compute norms, a Gram matrix or an eigenvalue of it.
    Where signals come one at a time, that takes longer than to solve for them.  Problems of one model share
    all of it.

    Parameters
    ----------
    dictionary : array_like or sparse matrix, shape (n_atoms, n_features), or ConvolutionalDictionary
        The atoms.
    penalty : float, array_like of shape (n_atoms,), or ElasticNet
        As of `LassoProblem`.
    positive : bool or array_like of bool, shape (n_atoms,), default False
        Whether codes must not be negative; for all atoms, or for each.
    gram : array_like, shape (n_atoms, n_atoms), optional
        ``dictionary @ dictionary.T``, if it is at hand.  Otherwise it is computed here for an array of atoms,
        8 n_atoms^2 bytes; where that is more than the `memory_limit`, the atoms are converted to single
        precision instead, 4 n_atoms n_features bytes, unless half the limit is less than that.
    mask, feature_weights : array_like, shape (n_features,), optional
        As of `LassoProblem`, for all signals to come; the Gram matrix computed here is then D diag(w) D^T.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import LassoModel, solve_active_set
    >>> model = LassoModel(np.eye(3), 0.5)
    >>> for signal in np.array([[2.0, 0.1, -1.0], [0.0, 1.0, 0.0]]):
    ...     print(solve_active_set(model.with_signals(signal[np.newaxis])).codes[0])
    [ 1.5  0.  -0.5]
    [0.  0.5 0. ]
    """

    atoms: Dictionary
    """The dictionary by its products."""
    penalty: ElasticNet
    """The penalty, with two numbers an atom."""
    positive: np.ndarray
    """True for atoms whose codes must not be negative, shape (n_atoms,)."""
    is_positive: bool
    """True if no code may be negative."""
    has_mixed_signs: bool
    """True if codes of some atoms, but not of all, must not be negative."""
    feature_weights: np.ndarray | None
    """w of all signals, as bools where it is a mask, shape (n_features,)."""
    is_prepared: bool
    """Whether several problems are solved with it, one after the other."""
    memory_limit: int
    """What solvers may take for what they compute of the dictionary, in bytes."""

    def __init__(
        self,
        dictionary: ArrayLike | ConvolutionalDictionary,
        penalty: float | ArrayLike | ElasticNet,
        *,
        positive: bool | ArrayLike = False,
        gram: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        feature_weights: ArrayLike | None = None,
    ) -> None:
        self._set(dictionary, penalty, positive, gram, mask, feature_weights)
        self.is_prepared = True
        # Computed now, not with the first signal.
        if self.atoms.is_matrix:
            if self.weighted.has_gram or self.gram_fits:
                _ = self.weighted.gram
            elif self.atoms.rows is not None:
                self.once(UnitAtoms, whatever_penalty=True)

    @classmethod
    def _unprepared(cls, *arguments: Any) -> LassoModel:
        """Return a model of which nothing is computed before a solver asks for it."""
        model = object.__new__(cls)
        model._set(*arguments)
        return model

    def _set(
        self, dictionary: Any, penalty: Any, positive: Any, gram: Any, mask: Any = None, weights: Any = None
    ) -> None:
        self.atoms = dictionary_of(dictionary)
        self.atoms.require_norms()
        self.penalty = self._checked_penalty(penalty)
        self.positive = _checked_signs(positive, self.n_atoms)
        self.is_positive = bool(self.positive.all())
        self.has_mixed_signs = not self.is_positive and bool(self.positive.any())
        self._gram = None if gram is None else checks.read_only(self.atoms.checked_gram(gram))
        self.feature_weights = feature_weights(mask, weights, n_features=self.atoms.shape[1])
        if self.feature_weights is not None:
            require_weighted_norms(self.atoms, self.feature_weights)
        self.is_prepared = False
        limit = memory_limit._in_force
        self.memory_limit = DEFAULT_MEMORY_LIMIT if limit is None else limit._n_bytes
        self._weighted: LassoModel | None = None
        # What was made of all of it, and of what is there whatever the penalty.
        self._kept: dict[Callable[..., Any], Any] = {}
        self._kept_of_atoms: dict[Callable[..., Any], Any] = {}

    def _checked_penalty(self, penalty: float | ArrayLike | ElasticNet) -> ElasticNet:
        checked = penalty_of(penalty, self.squared_norms)
        if not self.atoms.is_matrix and checked.has_zeros:
            raise ValueError(
                f"penalty must be positive for a {type(self.atoms).__name__}; got 0 for atom "
                f"{int(np.argmin(checked.l1_weights))}: pass a small one"
            )
        return checked

    def _facts(self) -> dict[str, str]:
        penalty = value_range(self.penalty.l1_weights)
        if self.curvatures.any():
            penalty += f", quadratic {value_range(self.curvatures)}"
        facts = {
            **self.atoms._facts(),
            "penalty": penalty,
            "codes": self._signs,
        }
        if self.feature_weights is not None:
            facts["mask" if self.feature_weights.dtype == np.bool_ else "feature weights"] = (
                f"one for all signals, {int(np.count_nonzero(self.feature_weights)):,} of "
                f"{self.feature_weights.size:,} features known"
            )
        if self.has_gram or (self._weighted is not None and self._weighted.has_gram):
            facts["Gram matrix"] = memory(8 * self.n_atoms**2)
        elif self.atoms.is_matrix and not self.gram_fits:
            facts["Gram matrix"] = (
                f"none: {memory(8 * self.n_atoms**2)} exceed the memory limit of {memory(self.memory_limit)}"
            )
        return facts

    @property
    def _signs(self) -> str:
        if self.has_mixed_signs:
            return f"not negative for {np.count_nonzero(self.positive):,} of {self.n_atoms:,} atoms"
        return "not negative" if self.is_positive else "of any sign"

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

    @property
    def gram(self) -> np.ndarray:
        """G = dictionary @ dictionary.T, whatever the weights of features; computed once."""
        if self._gram is None:
            if self.atoms.is_matrix and not self.gram_fits:
                raise MemoryError(
                    f"the Gram matrix of {self.n_atoms:,} atoms takes {memory(8 * self.n_atoms**2)}, and "
                    f"memory_limit allows {memory(self.memory_limit)}: use solve_active_set or solve_fista, "
                    "which do without it, pass gram, or raise the limit for problems made after that, with "
                    f"solvers.memory_limit({8.08 * self.n_atoms**2:.3g})"
                )
            self._gram = checks.read_only(self.atoms.gram())
        return self._gram

    @property
    def has_gram(self) -> bool:
        """True if the Gram matrix was given or has been computed."""
        return self._gram is not None

    @property
    def gram_fits(self) -> bool:
        """True if the Gram matrix is no larger than the memory limit."""
        return self.fits(8 * self.n_atoms**2)

    def fits(self, n_bytes: int, *, share: float = 1.0) -> bool:
        """Return whether an amount of memory is within a share of the limit."""
        return n_bytes <= share * self.memory_limit

    @property
    def weighted(self) -> LassoModel:
        """The model of D diag(sqrt(w)), without features of weight zero, made once; atoms may be zero."""
        if self.feature_weights is None:
            return self
        if self._weighted is None:
            atoms = self.atoms.weighted(self.feature_weights)
            self._weighted = self._with(
                atoms=atoms, feature_weights=None, _weighted=None, _gram=None, _kept={}, _kept_of_atoms={}
            )
        return self._weighted

    def with_signals(
        self,
        signals: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        feature_weights: ArrayLike | None = None,
    ) -> LassoProblem:
        """Return the problem of some signals; nothing but the signals is checked.

        Parameters
        ----------
        signals : array_like or compressed rows, shape (n_signals, n_features)
            One signal a row; for a single signal pass ``signal[np.newaxis]``.
        mask, feature_weights : array_like, optional
            As of `LassoProblem`, in the place of those that hold for all signals.
        """
        values, weights, energies = checked_signals(
            signals, self.atoms, mask=mask, weights=feature_weights, shared=self.feature_weights
        )
        model, own_weights = self, None
        if weights is not None and weights is not self.feature_weights:
            if weights.ndim == 1:
                model = self._with(feature_weights=weights, _weighted=None)
            else:
                own_weights = weights
        return LassoProblem._of(model, values, own_weights, energies)

    def with_penalty(self, penalty: float | ArrayLike | ElasticNet) -> LassoModel:
        """Return the model with another penalty; all else is shared, not checked again.

        Parameters
        ----------
        penalty : float, array_like of shape (n_atoms,), or ElasticNet
            As of `LassoProblem`.
        """
        changes = {"penalty": self._checked_penalty(penalty), "_kept": {}}
        weighted = self._weighted and self._weighted._with(**changes)
        return self._with(**changes, _weighted=weighted)

    def copy(self, *, is_prepared: bool | None = None) -> LassoModel:
        """Return a model that knows what this one does; what is computed later is its own."""
        return self._with(is_prepared=self.is_prepared if is_prepared is None else is_prepared)

    def _with(self, **changes: Any) -> LassoModel:
        other = copy(self)
        vars(other).update(
            _kept=dict(self._kept),
            _kept_of_atoms=dict(self._kept_of_atoms),
            _weighted=self._weighted and self._weighted.copy(),
        )
        vars(other).update(changes)
        return other

    def has_made(self, make: Callable[[LassoModel], Any]) -> bool:
        """Return True if `once` has been asked for what `make` returns."""
        return make in self._kept or make in self._kept_of_atoms

    def once(self, make: Callable[[LassoModel], Made], *, whatever_penalty: bool = False) -> Made:
        """Return what `make` returns of this model; it is called once, and what it makes is kept."""
        kept = self._kept_of_atoms if whatever_penalty else self._kept
        if make not in kept:
            kept[make] = make(self)
        return kept[make]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class LassoProblem(Value, Described):
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
    positive : bool or array_like of bool, shape (n_atoms,), default False
        Whether codes must not be negative; for all atoms, or for each.
    gram : array_like, shape (n_atoms, n_atoms), optional
        ``dictionary @ dictionary.T``, if it is at hand; otherwise computed when a solver needs it.  Of
        one of 512 atoms or more only some rows are checked; no certificate uses it.  A convolutional
        dictionary has none.
    mask : array_like of bool, shape (n_features,) or (n_signals, n_features), optional
        True where a feature is known.  Where it is False, signals do not count, and may be NaN.
    feature_weights : array_like, shape (n_features,) or (n_signals, n_features), optional
        w, each 0 or from 1e-60 to 1e60; a mask is weights of 1 and 0.

    Notes
    -----
    Arrays are float64, in C order and read-only once they are in; those that fit already are not
    copied.  Squared norms of atoms and signals are zero or at least 1e-292.
    """

    model: LassoModel
    """Dictionary and penalty, with what was computed of them; other problems may share it."""
    signals: np.ndarray | sparse.csr_array
    """Zero where a feature does not count; compressed rows if such were passed."""
    own_weights: np.ndarray | None
    """w of each signal, shape (n_signals, n_features), where it is not the model's."""
    energies: np.ndarray
    """1/2 ||s||^2, or 1/2 sum_j w_j s_j^2, shape (n_signals,): the objective of the zero code, and the scale
    of `tol`."""

    def __init__(
        self,
        dictionary: ArrayLike | ConvolutionalDictionary,
        signals: ArrayLike,
        penalty: float | ArrayLike | ElasticNet,
        *,
        positive: bool | ArrayLike = False,
        gram: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        feature_weights: ArrayLike | None = None,
    ) -> None:
        model = LassoModel._unprepared(dictionary, penalty, positive, gram)
        vars(self).update(vars(model.with_signals(signals, mask=mask, feature_weights=feature_weights)))

    @classmethod
    def _of(
        cls,
        model: LassoModel,
        signals: np.ndarray | sparse.csr_array,
        own_weights: np.ndarray | None,
        energies: np.ndarray,
    ) -> LassoProblem:
        """Return the problem of signals that were checked."""
        problem = object.__new__(cls)
        # Past the check of a frozen dataclass, once for all.
        vars(problem).update(model=model, signals=signals, own_weights=own_weights, energies=energies)
        return problem

    def _facts(self) -> dict[str, str]:
        facts = {"signals": f"{number(self.n_signals)}{', sparse' if sparse.issparse(self.signals) else ''}"}
        for name, fact in self.model._facts().items():
            facts[name] = fact
            if name == "penalty" and self._is_cheap:
                multiples = self.zero_code_multiples()
                facts["penalty / maximum"] = value_range(1.0 / multiples[multiples > 0.0])
        weights = self.own_weights
        if weights is not None:
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
        if not self.has_correlations:
            n_products *= self.atoms.features_of_atom
        return n_products <= CHEAP

    @property
    def atoms(self) -> Dictionary:
        """The dictionary by its products; a convolutional one is itself."""
        return self.model.atoms

    @property
    def dictionary(self) -> Any:
        """The array of atoms, sparse ones as compressed rows, or the convolutional dictionary."""
        return self.atoms.matrix if self.atoms.is_matrix else self.atoms

    @property
    def penalty(self) -> ElasticNet:
        """The penalty, with two numbers an atom."""
        return self.model.penalty

    @property
    def positive(self) -> np.ndarray:
        """True for atoms whose codes must not be negative, shape (n_atoms,)."""
        return self.model.positive

    @property
    def is_positive(self) -> bool:
        """True if no code may be negative."""
        return self.model.is_positive

    @property
    def feature_weights(self) -> np.ndarray | None:
        """w, as bools where it is a mask; shape (n_features,) or (n_signals, n_features)."""
        return self.model.feature_weights if self.own_weights is None else self.own_weights

    @property
    def mask(self) -> np.ndarray | None:
        """True where a feature counts, of the shape of `feature_weights`; None if all do."""
        return None if self.feature_weights is None else checks.read_only(self.feature_weights != 0)

    @property
    def has_own_weights(self) -> bool:
        """True if each signal has weights of features of its own."""
        return self.own_weights is not None

    @property
    def squared_norms(self) -> np.ndarray:
        """||d_i||^2 of all features, whatever their weights, shape (n_atoms,)."""
        return self.model.atoms.squared_norms

    @property
    def l1_weights(self) -> np.ndarray:
        """lambda, the weight of ``|a_i|``, shape (n_atoms,)."""
        return self.model.penalty.l1_weights

    @property
    def curvatures(self) -> np.ndarray:
        """m, the quadratic penalty that adds to the diagonal of the Gram matrix, shape (n_atoms,)."""
        return self.model.penalty.curvatures

    @property
    def n_signals(self) -> int:
        """Number of signals."""
        return self.signals.shape[0]

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return self.model.atoms.shape[0]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.model.atoms.shape[1]

    @property
    def gram(self) -> np.ndarray:
        """G = dictionary @ dictionary.T, shape (n_atoms, n_atoms), without the penalty's curvatures.

        With weights of features for all signals it is D diag(w) D^T.  A convolutional dictionary has none:
        its `gram_rows` and `stencil` say the same.
        """
        return self.weighted_model.gram

    @property
    def has_gram(self) -> bool:
        """True if the Gram matrix was given or has been computed."""
        if self.own_weights is not None:
            return False
        model = self.model if self.model.feature_weights is None else self.model._weighted
        return model is not None and model.has_gram

    @property
    def weighted_model(self) -> LassoModel:
        """The model of the atoms as all signals see them: of D diag(sqrt(w)), without weights of D itself."""
        if self.own_weights is not None:
            raise TypeError(
                "problem must have one mask for all signals to have a Gram matrix; got one for each signal: "
                "pass a mask of shape (n_features,)"
            )
        return self.model.weighted

    def ordinary(self) -> LassoProblem:
        """Return the problem without weights that has the same codes: of D diag(sqrt(w)) and sqrt(w) s.

        Features of weight zero are left out.  Without weights it is the problem itself; sparse signals become
        an array.
        """
        weights, signals = self.feature_weights, self.dense_signals()
        if weights is None:
            return self if signals is self.signals else self.model.with_signals(signals)
        model, known = self.weighted_model, weights != 0
        if not known.any():
            # A single feature, in which all are zero.
            return model.with_signals(np.zeros((self.n_signals, 1)))
        signals = signals[:, known]
        if weights.dtype != np.bool_:
            signals = signals * np.sqrt(weights[known])
        return model.with_signals(signals)

    def require_no_weights(self) -> None:
        """Raise ValueError if there are weights of features, those of a mask among them."""
        if self.feature_weights is not None:
            raise ValueError(
                "problem must have no mask and no feature_weights here; got some: where all signals share "
                "them, pass problem.ordinary(), of the features that count"
            )

    def gram_rows(self, atoms: np.ndarray) -> np.ndarray | sparse.csr_array:
        """Return rows of the Gram matrix, shape (len(atoms), n_atoms)."""
        numbers = np.asarray(atoms)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise TypeError(f"atoms must be an array of integers; got dtype {numbers.dtype}")
        if numbers.ndim != 1:
            raise ValueError(f"atoms must be 1-D, one number a row; got shape {numbers.shape}")
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < self.n_atoms):
            wrong = numbers[(numbers < 0) | (numbers >= self.n_atoms)][0]
            raise ValueError(f"atoms must lie in [0, {self.n_atoms}); got {wrong}")
        return self.weighted_model.atoms.gram_rows(numbers.astype(np.int64, copy=False))

    @cached_property
    def correlations(self) -> np.ndarray:
        """b = (w * signals) @ dictionary.T, shape (n_signals, n_atoms)."""
        return checks.read_only(self._correlations())

    def _correlations(self) -> np.ndarray:
        signals, weights = self.signals, self.feature_weights
        if weights is not None and weights.dtype != np.bool_:
            signals = signals * weights
        return self.atoms.correlate(signals)

    @property
    def has_correlations(self) -> bool:
        """True if the correlations have been computed."""
        return "correlations" in vars(self)

    def zero_code_multiples(self) -> np.ndarray:
        """Return the smallest multiple of the penalty at which each code is zero, shape (n_signals,).

        It is infinite where the signal pulls an atom without penalty.  Correlations that are not known are
        computed for as many signals at a time as the memory limit allows, and not kept.
        """
        known = self.correlations if self.has_correlations else None
        step = self.n_signals
        if known is None:
            step = max(min(step, self.model.memory_limit // (16 * self.n_atoms)), 1)
        multiples = np.empty(self.n_signals)
        for first in range(0, self.n_signals, step):
            block = slice(first, first + step)
            part = self if step == self.n_signals else self.subset(block)
            reach = part._correlations() if known is None else known
            multiples[block] = self.penalty.maximum(reach if self.is_positive else np.abs(reach))
        return multiples

    def dense_signals(self) -> np.ndarray:
        """Return the signals as an array; of sparse ones a copy, which takes few of them at a time."""
        if not isinstance(self.signals, np.ndarray):
            return checks.read_only(self.signals.toarray())
        return self.signals

    def correlate(self, signals: np.ndarray) -> np.ndarray:
        """Return the inner products of signals with all atoms, without weights, shape (n_signals, n_atoms).

        The result for a signal does not depend on those beside it.
        """
        signals = np.asarray(signals, dtype=np.float64)
        _require_rows("signals", signals, self.n_features, "for one signal pass signal[np.newaxis]")
        return self.atoms.correlate(signals)

    def reconstruct(self, codes: np.ndarray | sparse.csr_array) -> np.ndarray:
        """Return codes @ dictionary, shape (n_signals, n_features), features that are missing among them.

        The result for a code does not depend on those beside it.
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
        """
        model = self.model.copy(is_prepared=True)
        return model.with_signals(signals, mask=mask, feature_weights=feature_weights)

    def with_penalty(self, penalty: float | ArrayLike | ElasticNet) -> LassoProblem:
        """Return the problem with another penalty; all else is shared, not checked again.

        Parameters
        ----------
        penalty : float, array_like of shape (n_atoms,), or ElasticNet
            As that of the problem.
        """
        return self._with_model(self.model.with_penalty(penalty))

    def prepared(self) -> LassoProblem:
        """Return the problem as one of several that are solved one after the other."""
        return self._with_model(self.model.copy(is_prepared=True))

    def _with_model(self, model: LassoModel) -> LassoProblem:
        other = LassoProblem._of(model, self.signals, self.own_weights, self.energies)
        if self.has_correlations:
            vars(other).update(correlations=self.correlations)
        return other

    def subset(self, which: ArrayLike | Sequence[int] | slice) -> LassoProblem:
        """Return the problem of some of the signals; the dictionary is shared, not checked again.

        Parameters
        ----------
        which : slice, or array_like of int or bool
            As NumPy selects rows; at least one.
        """
        if not isinstance(which, slice):
            which = self._selection(which)
        energies = self.energies[which]
        if not len(energies):
            raise ValueError(f"which must select one or more signals by a slice or a list; got {which!r}")
        own_weights = None if self.own_weights is None else _rows(self.own_weights, which)
        # What is computed for one of them later is not for the other, so that both can be timed.
        model = self.model.copy()
        part = LassoProblem._of(model, _rows(self.signals, which), own_weights, _rows(energies, slice(None)))
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


def groups_of(problem: LassoProblem) -> list[np.ndarray]:
    """Return the signals of each mask, or row of weights, in the order in which masks first appear."""
    weights = problem.own_weights
    assert weights is not None
    rows = np.packbits(weights, axis=1) if weights.dtype == np.bool_ else weights
    rows = np.ascontiguousarray(rows)
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    group = rank[group.ravel()]
    order = np.argsort(group, kind="stable")
    return np.split(order, np.cumsum(np.bincount(group))[:-1])


def with_shared_mask(problem: LassoProblem) -> LassoProblem:
    """Return the problem of signals whose masks are equal, with one mask for all of them."""
    assert problem.own_weights is not None
    weights = problem.own_weights[0]
    name = "mask" if weights.dtype == np.bool_ else "feature_weights"
    return problem.with_signals(problem.signals, **{name: weights})


def seen_norms(problem: LassoProblem) -> np.ndarray:
    """Return the norms of the atoms as each signal sees them, shape (n_signals, n_atoms)."""
    if problem.own_weights is not None:
        return np.sqrt(problem.atoms.correlate_squares(problem.own_weights))
    return np.broadcast_to(problem.weighted_model.atoms.norms, (problem.n_signals, problem.n_atoms))


def _checked_signs(value: Any, n_atoms: int) -> np.ndarray:
    """Return True for each atom whose codes must not be negative."""
    signs = np.asarray(value) if isinstance(value, (np.ndarray, list, tuple)) else None
    if signs is None or not signs.ndim:
        signs = np.full(n_atoms, checks.flag("positive", value))
    elif signs.dtype != np.bool_:
        raise TypeError(f"positive must be a bool, or an array of bools; got dtype {signs.dtype}")
    elif signs.shape != (n_atoms,):
        raise ValueError(f"positive must have shape ({n_atoms},), a bool an atom; got shape {signs.shape}")
    return checks.read_only(signs.copy() if signs is value else signs)


def _rows(array: np.ndarray | sparse.csr_array, which: np.ndarray | slice) -> np.ndarray | sparse.csr_array:
    if sparse.issparse(array):
        return array[which]
    return checks.read_only(np.ascontiguousarray(array[which]))


def _require_rows(name: str, array: np.ndarray | sparse.csr_array, length: int, hint: str) -> None:
    """Raise ValueError unless `array` has rows of some length."""
    shape = np.shape(array)
    if len(shape) != 2 or shape[1] != length:
        raise ValueError(f"{name} must be 2-D, with rows of {length} numbers; got shape {shape}: {hint}")

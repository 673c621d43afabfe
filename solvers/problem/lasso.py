"""The LASSO: models (a dictionary and a penalty), and problems (a model with signals)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.describe import Described, memory, number, value_range
from snn.base.value import Value, assign, cached_property, replaced
from solvers.problem.atoms import Atoms, in_full
from solvers.problem.convolutional_dictionary import ConvolutionalDictionary
from solvers.problem.matrix import UnitAtoms, atoms_of, checked_gram
from solvers.problem.memory import memory_limit
from solvers.problem.penalty import ElasticNet, Penalty, checked_penalty, largest_ratio
from solvers.problem.signals import checked_signals, checked_weights, known_features
from solvers.problem.statistics import FromStatistics

# Largest number of multiply-adds for the description of a problem, about a few milliseconds of work.
CHEAP = 2**22

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, init=False, repr=False)
class LassoModel(Value, Described):
    """A dictionary and a penalty, checked once, with everything that solvers compute from them.

    A `LassoProblem` checks its dictionary, and solvers compute norms, a Gram matrix or an eigenvalue.  If
    signals come one at a time, these computations take longer than coding.  Problems of one model share these
    results.

    Parameters
    ----------
    dictionary, penalty, positive
        See `LassoProblem`.
    gram : array_like, shape (n_atoms, n_atoms), optional
        ``dictionary @ dictionary.T``, if it is known.  Otherwise the model computes this matrix, which takes
        8 n_atoms^2 bytes.  If this matrix exceeds the `memory_limit`, the model instead keeps a copy of a
        dense array of atoms in single precision, unless the 4 n_atoms n_features bytes of this copy exceed
        half the limit.
    mask, feature_weights : array_like, shape (n_features,), optional
        See `LassoProblem`.  The mask or weights of a model hold for all signals, and its Gram matrix is D
        diag(w) D^T.

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

    # The dictionary: an array of atoms, compressed rows, or a convolutional dictionary.
    dictionary: Any
    # The dictionary with its products.
    atoms: Atoms
    # The l1 weight and the curvature of each atom, and whether the codes of the atom must not be negative.
    penalty: Penalty
    # The weights w of features, which are bools if they are a mask.  The shape of the weights is
    # (n_features,), or for a problem also (n_signals, n_features).
    feature_weights: np.ndarray | None
    # True if more problems with the same dictionary are expected.
    more_follow: bool
    # Largest number of bytes of results that solvers compute from the dictionary.
    memory_limit: int
    # Results that `cached` keeps: results for this penalty, and results for any penalty (with the shared
    # weights of features).
    _cache: dict[Callable[..., Any], Any]
    _cache_of_atoms: dict[Callable[..., Any], Any]

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
        shared = checked_weights(mask, feature_weights, n_features=self.n_features, atoms=self.atoms)
        assign(self, feature_weights=shared, more_follow=True)
        # Compute the products now, so that the first signal does not have to wait for them.
        if self.atoms.is_matrix:
            if self.gram_fits:
                _ = self.gram
            elif self.atoms.rows is not None:
                self.cached(unit_atoms_of, any_penalty=True)

    def _set(self, dictionary: Any, penalty: Any, positive: Any, gram: Any, mask: Any, weights: Any) -> None:
        atoms = atoms_of(dictionary, known_features(mask, weights))
        if not (atoms.squared_norms.any() or atoms.known is not None):
            raise ValueError("dictionary must have an atom of positive norm; got zeros only")
        assign(
            self,
            dictionary=atoms.given if atoms.is_matrix else dictionary,
            atoms=atoms,
            penalty=checked_penalty(penalty, atoms, positive),
            feature_weights=None,
            more_follow=False,
            memory_limit=memory_limit._in_force._n_bytes,
            _cache={},
            _cache_of_atoms={},
        )
        # A Gram matrix that was passed does not contain the weights of features.
        if gram is not None and atoms.known is None:
            gram = checked_gram(atoms, gram)
            if mask is None and weights is None:
                self._cache_of_atoms[_gram] = gram

    def _facts(self) -> dict[str, str]:
        weights, facts = self.feature_weights, {**self.atoms._facts()}
        facts["penalty"] = value_range(self.l1_weights)
        if not self.penalty.is_flat:
            facts["penalty"] += f", quadratic {value_range(self.curvatures)}"
        facts["codes"] = "not negative" if self.penalty.is_positive else "of any sign"
        if self.penalty.has_mixed_signs:
            facts["codes"] = f"not negative for {np.count_nonzero(self.positive):,} atoms"
        if weights is not None:
            known = f"{100.0 * np.count_nonzero(weights) / weights.size:.3g} % of features known"
            whose = "one for all signals" if weights.ndim == 1 else "one for each signal"
            facts["mask" if weights.dtype == np.bool_ else "feature weights"] = f"{whose}, {known}"
        if self.has_gram:
            facts["Gram matrix"] = memory(8 * self.n_atoms**2)
        elif self.atoms.is_matrix and not self.gram_fits:
            facts["Gram matrix"] = (
                f"none: {memory(8 * self.n_atoms**2)} exceed the memory limit of {memory(self.memory_limit)}"
            )
        return facts

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return self.atoms.shape[0]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.atoms.shape[1]

    @property
    def l1_weights(self) -> np.ndarray:
        """lambda, the weight of ``|a_i|``, shape (n_atoms,)."""
        return self.penalty.l1

    @property
    def curvatures(self) -> np.ndarray:
        """m, the quadratic penalty, which is added to the diagonal of the Gram matrix, shape (n_atoms,)."""
        return self.penalty.l2

    @property
    def positive(self) -> np.ndarray:
        """True for atoms whose codes must not be negative, shape (n_atoms,)."""
        return self.penalty.positive

    @property
    def has_own_weights(self) -> bool:
        """True if each signal has its own weights of features."""
        return self.feature_weights is not None and self.feature_weights.ndim == 2

    @property
    def seen_atoms(self) -> Atoms:
        """D diag(sqrt(w)), the atoms with the weights of all signals, computed once; some atoms may be zero.

        Features of weight zero are left out.  Without weights, the result is the atoms themselves.
        """
        if self.feature_weights is None:
            return self.atoms
        if self.has_own_weights:
            raise TypeError(
                "problem must have one mask for all signals to have a Gram matrix; got one for each signal: "
                "pass a mask of shape (n_features,)"
            )
        return self.cached(_seen_atoms, any_penalty=True)

    @property
    def gram(self) -> np.ndarray:
        """G = D @ D.T, or D diag(w) D^T with weights of all signals, shape (n_atoms, n_atoms).

        The Gram matrix is computed once, without curvatures.  A convolutional dictionary has no Gram matrix.
        """
        if self.seen_atoms.is_matrix and not self.gram_fits:
            raise MemoryError(
                f"the Gram matrix of {self.n_atoms:,} atoms takes {memory(8 * self.n_atoms**2)}, and "
                f"memory_limit allows {memory(self.memory_limit)}: use solve_active_set or solve_fista, "
                "which do not need it, pass gram, or raise the limit for problems made afterwards, with "
                f"solvers.memory_limit({8.08 * self.n_atoms**2:.3g})"
            )
        return self.cached(_gram, any_penalty=True)

    @property
    def has_gram(self) -> bool:
        """True if the Gram matrix was given or has been computed."""
        return _gram in self._cache_of_atoms and not self.has_own_weights

    @property
    def gram_fits(self) -> bool:
        """True if the Gram matrix is known, or takes no more bytes than the memory limit."""
        return self.has_gram or 8 * self.n_atoms**2 <= self.memory_limit

    @property
    def model(self) -> LassoModel:
        """The model without the signals; the model and the problem share the results that either computes."""
        shared = None if self.has_own_weights else self.feature_weights
        without = ("signals", "energies", "correlations")
        return replaced(self, LassoModel, feature_weights=shared, without=without)

    def with_signals(
        self, signals: ArrayLike, *, mask: ArrayLike | None = None, feature_weights: ArrayLike | None = None
    ) -> LassoProblem:
        """Return the problem of some signals; everything else is shared and not checked again.

        Parameters
        ----------
        signals : array_like or compressed rows, shape (n_signals, n_features)
            One signal per row; for a single signal pass ``signal[np.newaxis]``.
        mask, feature_weights : array_like, optional
            See `LassoProblem`.  The given mask or weights replace the mask or weights of the model.
        """
        problem = replaced(self, LassoProblem, more_follow=True, without=("correlations",))
        problem._set_signals(signals, mask, feature_weights)
        return problem

    def with_penalty(self, penalty: float | ArrayLike | ElasticNet) -> Self:
        """Return the model, or the problem, with another penalty; everything else is shared.

        Parameters
        ----------
        penalty : float, array_like of shape (n_atoms,), or ElasticNet
            See `LassoProblem`.
        """
        return self._changed(penalty=checked_penalty(penalty, self.atoms, self.positive), _cache={})

    def _with_penalty(self, penalty: Penalty) -> Self:
        """Return a copy with another, checked penalty, which shares the results that depend only on atoms."""
        return self._changed(penalty=penalty, _cache={}, _cache_of_atoms=self._cache_of_atoms)

    def with_more_to_follow(self) -> Self:
        """Return a copy that is marked as the first of several problems, which share results."""
        return self._changed(more_follow=True, _cache_of_atoms=self._cache_of_atoms)

    def _changed(self, **changes: Any) -> Self:
        """Return a changed copy, which keeps all results computed so far."""
        caches = {"_cache": dict(self._cache), "_cache_of_atoms": dict(self._cache_of_atoms)}
        return replaced(self, **{**caches, **changes})

    def cached(self, compute: Callable[[LassoModel], Result], *, any_penalty: bool = False) -> Result:
        """Return `compute(self)`, which is computed once and kept for this penalty or for any penalty."""
        cache = self._cache_of_atoms if any_penalty else self._cache
        if compute not in cache:
            cache[compute] = compute(self)
        return cache[compute]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class LassoProblem(FromStatistics, LassoModel):
    """Sparse coding of signals in a dictionary with an l1 penalty or an elastic net.

    For each signal s (a row of `signals`), with the atoms d_i (the rows of `dictionary`), find the
    code a that minimises::

        E(a) = 1/2 ||s - sum_i a_i d_i||^2 + sum_i lambda_i |a_i| + sum_i m_i / 2 a_i^2

    over all a (LASSO), or, with ``positive=True``, over a >= 0 (CLASSO).  The last term is zero unless the
    penalty is an `ElasticNet`.  Nothing is divided by the number of features.  With a `mask`, or with weights
    w >= 0 of features, the first term is ``1/2 sum_j w_j (s_j - sum_i a_i d_ij)^2``.

    Parameters
    ----------
    dictionary : array_like or sparse matrix, shape (n_atoms, n_features), or ConvolutionalDictionary
        Atoms may have any norm, but at least one atom must not be zero.  The code of an atom of norm zero is
        zero.  Sparse arrays and matrices of SciPy, in any format, stay sparse.  The Gram matrix of a sparse
        dictionary is a dense array.  "coordinate_descent" refuses sparse dictionaries.
    signals : array_like or compressed rows, shape (n_signals, n_features)
        One signal per row; for a single signal pass ``signal[np.newaxis]``.  CSR arrays and matrices of SciPy
        are made dense only for a few signals at a time.
    penalty : float, array_like of shape (n_atoms,), or ElasticNet
        lambda >= 0, as one number for all atoms, or as one number for each atom; or an `ElasticNet`.  A
        penalty of zero for all atoms is (non-negative) least squares.  A penalty of zero for some atoms suits
        an intercept, or atoms that are known to be present.
    positive : bool or array_like of bool, shape (n_atoms,), default False
        Whether codes must not be negative: one bool for all atoms, or one bool for each atom.
    gram : array_like, shape (n_atoms, n_atoms), optional
        ``dictionary @ dictionary.T``, if it is known; otherwise a solver computes it when needed.  With 512
        atoms or more, only some rows of this matrix are checked.  Certificates and convolutional dictionaries
        do not use this matrix.
    mask : array_like of bool, shape (n_features,) or (n_signals, n_features), optional
        True if a feature is known.  Unknown features of signals do not count, and may be NaN.  Features of
        atoms that are unknown for all signals may be NaN, too.
    feature_weights : array_like, shape (n_features,) or (n_signals, n_features), optional
        The weights w, each of which is 0 or from 1e-60 to 1e60.  A mask is equivalent to weights of 1 and 0.
        With weights, `tol` is relative to the energy ``1/2 sum_j w_j s_j^2``, most of which may come from a
        few large weights.

    Notes
    -----
    The arrays of a problem are float64, in C order and read-only.  An array with these properties is not
    copied.
    Squared norms of atoms and signals are zero or at least 1e-292.
    """

    # The signals, with zeros in features that do not count.  The signals are compressed rows if the caller
    # passed such rows.
    signals: np.ndarray | sparse.csr_array
    # 1/2 ||s||^2, or 1/2 sum_j w_j s_j^2, shape (n_signals,): the objective of a zero code, and the unit of
    # `tol`.
    energies: np.ndarray

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
        self._set(dictionary, penalty, positive, gram, mask, feature_weights)
        self._set_signals(signals, mask, feature_weights)

    def _set_signals(self, signals: Any, mask: Any, feature_weights: Any) -> None:
        shared = None if self.has_own_weights else self.feature_weights
        given = shared if mask is None and feature_weights is None else feature_weights
        self._see(known_features(mask, given))
        values, weights, energies = checked_signals(signals, self.atoms, mask, feature_weights, shared)
        assign(self, signals=values, feature_weights=weights, energies=energies)
        if shared is not (None if self.has_own_weights else weights):
            assign(self, _cache={}, _cache_of_atoms=cached_for_any_weights(self))

    def _see(self, known: np.ndarray | None) -> None:
        """Set a matrix of atoms to zero in features that are unknown for all signals."""
        before = self.atoms.known
        is_equal = known is before if known is None or before is None else np.array_equal(known, before)
        if self.atoms.is_matrix and not is_equal:
            atoms = atoms_of(self.dictionary, known)
            penalty = checked_penalty(self.penalty, atoms, self.positive)
            assign(self, atoms=atoms, penalty=penalty, _cache={}, _cache_of_atoms={})

    def _facts(self) -> dict[str, str]:
        kind = ", sparse" if sparse.issparse(self.signals) else ""
        facts = {"signals": f"{number(self.n_signals)}{kind}", **super()._facts()}
        n_products = self.n_signals * self.n_atoms * self.atoms.features_of_atom
        if "correlations" in vars(self) or n_products <= CHEAP:
            multiples = zero_code_multiples(self)
            facts["penalty / maximum"] = value_range(1.0 / multiples[multiples > 0.0])
        return facts

    @property
    def n_signals(self) -> int:
        """Number of signals."""
        return self.signals.shape[0]

    def ordinary(self) -> LassoProblem:
        """Return the unweighted problem of D diag(sqrt(w)) and sqrt(w) s, which has the same codes.

        Features of weight zero are left out.  Without weights, the result is the problem itself with dense
        signals.
        """
        weights, signals = self.feature_weights, self.dense_signals()
        if weights is None:
            return self if signals is self.signals else self.with_signals(signals)
        atoms, known = self.seen_atoms, weights != 0
        # If no feature is known, use a single feature in which all signals are zero.
        seen = signals[:, known] * np.sqrt(weights[known]) if known.any() else np.zeros((self.n_signals, 1))
        entries = {"dictionary": atoms.matrix, "atoms": atoms, "feature_weights": None}
        return self.model._changed(**entries, _cache={}, _cache_of_atoms={}).with_signals(seen)

    @cached_property
    def correlations(self) -> np.ndarray:
        """b = (w * signals) @ dictionary.T, shape (n_signals, n_atoms)."""
        return checks.read_only(self._correlations())

    def _correlations(self) -> np.ndarray:
        signals, weights = self.signals, self.feature_weights
        if weights is not None and weights.dtype != np.bool_:
            signals = signals * weights
        return self.atoms.correlate(signals)

    def dense_signals(self) -> np.ndarray:
        """Return the signals as a dense array; with sparse signals, call this method on small subsets."""
        if not isinstance(self.signals, np.ndarray):
            return checks.read_only(self.signals.toarray())
        return self.signals

    def reconstruct(self, codes: np.ndarray | sparse.csr_array) -> np.ndarray:
        """Return codes @ dictionary, shape (n_signals, n_features), with unknown features.

        The result for a code does not depend on the other codes.
        """
        shape = np.shape(codes)
        if len(shape) != 2 or shape[1] != self.n_atoms:
            raise ValueError(
                f"codes must be 2-D, with rows of {self.n_atoms} numbers; got shape {shape}: for one code "
                "pass code[np.newaxis]"
            )
        if not self.atoms.is_matrix:
            return self.atoms.reconstruct(codes)
        return in_full(sparse.csr_array(codes) @ self.dictionary)

    def subset(self, which: ArrayLike | slice) -> LassoProblem:
        """Return the problem of some of the signals; the dictionary is shared and not checked again.

        Parameters
        ----------
        which : slice, or array_like of int or bool
            One or more signals, selected like rows of a NumPy array.
        """
        if not isinstance(which, slice):
            which = np.asarray(which, dtype=None if np.size(which) else int)  # NumPy converts [] to floats
            if which.dtype.kind not in "iub":
                raise TypeError(f"which must be a slice, or an array of integers or bools; got {which!r:.60}")
        try:
            energies = self.energies[which]
        except IndexError as error:
            raise ValueError(
                f"which must select among {self.n_signals} signals; got {which!r:.60}: {error}"
            ) from None
        if energies.ndim != 1 or not len(energies):
            raise ValueError(f"which must select one or more signals by a slice or a list; got {which!r:.60}")
        # The copy does not share results that are computed later, so that solvers on the copy can be timed.
        part = self._changed()
        # Read attributes of the copy, because another thread may compute correlations of the original
        # meanwhile.
        names = ("signals", "correlations", "feature_weights")[: 3 if self.has_own_weights else 2]
        rows = {name: _rows(vars(part)[name], which) for name in names if name in vars(part)}
        if self.penalty.is_stack:
            rows.update(penalty=self.penalty.rows(which), _cache={})
        return assign(part, energies=_rows(energies, slice(None)), **rows)


def in_blocks(problem: LassoProblem, size: int) -> Iterator[tuple[slice, LassoProblem]]:
    """Yield (slice, problem) for each block of `size` signals."""
    size = max(size, 1)
    for first in range(0, problem.n_signals, size):
        block = slice(first, first + size)
        yield block, problem if size >= problem.n_signals else problem.subset(block)


def zero_code_multiples(problem: LassoProblem) -> np.ndarray:
    """Return the smallest multiple of the penalty at which each code is zero, or inf, (n_signals,)."""
    # Unknown correlations are computed in blocks that fit into memory, and are not kept.
    is_known, penalty = "correlations" in vars(problem), problem.penalty
    parts = in_blocks(problem, problem.memory_limit // (16 * problem.n_atoms))
    correlations = (part.correlations if is_known else part._correlations() for _, part in parts)
    return np.concatenate([largest_ratio(penalty.reach(block), penalty.l1) for block in correlations])


def _seen_atoms(model: LassoModel) -> Atoms:
    assert model.feature_weights is not None
    return model.atoms.weighted(model.feature_weights)


def unit_atoms_of(model: LassoModel) -> UnitAtoms:
    """Return the atoms at norm one, in single precision; `LassoModel.cached` keeps them."""
    atoms = model.atoms
    return UnitAtoms(atoms.array, atoms.squared_norms, memory_limit=model.memory_limit)


def _gram(model: LassoModel) -> np.ndarray:
    return checks.read_only(model.seen_atoms.gram_rows(slice(None)))


def cached_for_any_weights(model: LassoModel) -> dict[Callable[..., Any], Any]:
    """Return the cached results of the atoms that do not depend on weights of features."""
    return {key: result for key, result in dict(model._cache_of_atoms).items() if key is unit_atoms_of}


def _rows(array: Any, which: np.ndarray | slice) -> Any:
    rows = array[which]
    return rows if sparse.issparse(rows) else checks.read_only(np.ascontiguousarray(rows))

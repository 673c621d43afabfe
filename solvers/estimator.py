"""Sparse coding by spikes as a scikit-learn transformer; checks of the input `X` of all estimators."""

from __future__ import annotations

import copy
import numbers
from dataclasses import KW_ONLY, dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, validate_data

from snn import __version__
from snn._interrupts import float_errors
from snn.base import checks
from snn.base.value import take_over
from solvers.methods.active_set import ActiveSet
from solvers.methods.method import Method, named_method, solve
from solvers.plan import most_on_demand
from solvers.problem.lasso import LassoModel, LassoProblem
from solvers.problem.matrix import atoms_of
from solvers.problem.memory import memory_limit
from solvers.problem.penalty import ElasticNet, penalty_of
from solvers.problem.signals import known_features
from solvers.results.result import SparseCodingResult
from solvers.studies.held_out import held_out_score

# Types of floats that are kept.  Arrays of all other types are converted to float64.
FLOATS = (np.float64, np.float32)
# For each estimator: the model of the last call, the number of signals coded with the model's dictionary,
# and, if they were numbers, the penalty and `positive`.  Pickles and clones do not contain this record.
_kept: WeakKeyDictionary[BaseEstimator, tuple[LassoModel, int, Any]] = WeakKeyDictionary()


class Versioned:
    """Estimators whose pickles contain the version that made them."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_version": __version__}  # type: ignore[dict-item]

    def __setstate__(self, state: dict[str, Any]) -> None:
        version = state.get("_version", "of an earlier version")
        if version != __version__:
            checks.warn_caller(
                f"{type(self).__name__} was pickled by sparsespike {version} and is loaded by {__version__}: "
                "fit it again, or load it with that version",
                UserWarning,
            )
        super().__setstate__({name: state[name] for name in state if name != "_version"})  # type: ignore[misc]


class Coder(Versioned, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The base of estimators that code signals; a subclass has the coding problem and the parameters."""

    # The method of coding, and the name of the parameter that is the penalty.
    _method: str | Method = "active_set_from_spikes"
    _coding_penalty = "alpha"

    def transform(self, X: ArrayLike, y: None = None) -> np.ndarray:
        """Return the codes of signals, shape (n_signals, n_atoms); float32 for float32 signals."""
        signals = self._input(X)
        return self._encode(signals).codes.astype(signals.dtype)

    def encode(self, X: ArrayLike) -> SparseCodingResult:
        """Return the codes of signals with their certificates, in float64: the result of the method."""
        return self._encode(self._input(X))

    def _input(self, X: ArrayLike) -> Any:
        return checked_input(self, X, reset=False)

    def _encode(self, signals: np.ndarray) -> SparseCodingResult:
        problem = self._problem(signals)
        with checks.called(penalty=self._coding_penalty):
            return solve(problem, named_method(self._method), tol=self.tol, n_jobs=self.n_jobs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = nan_is_missing(self.missing_values)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(eq=False, repr=False)
class SpikingSparseCoder(Coder):
    """A coder of signals in a fixed dictionary, by default with a spiking network.

    Each code minimises ``1/2 ||signal - code @ dictionary||^2 + alpha ||code||_1``, to within the duality gap
    that `tol` allows.  If `alpha` is an `ElasticNet`, the penalty of the `ElasticNet` replaces ``alpha
    ||code||_1``.  The dictionary is a parameter, so that nothing is learned.

    Parameters
    ----------
    dictionary : array_like or sparse matrix, shape (n_atoms, n_features)
        Atoms of any norm; at least one must not be zero.  The code of an atom of norm zero is zero.
    alpha : float, array_like of shape (n_atoms,), or ElasticNet
        The penalty, positive.
    positive : bool or array_like of bool, shape (n_atoms,), default False
        Whether codes must not be negative: one bool for all atoms, or one for each.
    method : str or Method, default "active_set_from_spikes"
        The name of a method in `solvers.METHODS`, or a `Method` with its options.  By default, an active-set
        method corrects the result of a short run of the network.  "active_set" finds the same codes without
        spikes, 1.6 to 4 times as fast; "spiking" uses only spikes.
    tol : float, optional
        Largest duality gap, as a share of 1/2 ||signal||^2.  The default is 1e-6 for methods that end with
        an active set, otherwise 1e-3.
    missing_values : float, optional
        The value of missing entries of signals, such as `np.nan`.  The objective then depends only on the
        known entries.  By default no entry is missing, and NaN is an error.
    n_jobs : int, optional
        See `solve`.

    Attributes
    ----------
    n_features_in_ : int
        Number of features of the signals seen by `fit`.

    Notes
    -----
    `X` is an array or compressed rows, shape (n_signals, n_features).  What a call computes from the
    dictionary is kept for later calls with an equal dictionary, so that signals may come one by one.
    Computations are in float64.  `transform` rounds codes of float32 signals to float32; `encode` does not.

    Examples
    --------
    >>> import numpy as np
    >>> coder = SpikingSparseCoder(np.eye(3), alpha=0.5)
    >>> coder.transform(np.array([[2.0, 0.1, -1.0]]))
    array([[ 1.5,  0. , -0.5]])
    """

    dictionary: ArrayLike
    _: KW_ONLY
    alpha: float | ArrayLike | ElasticNet
    positive: bool | ArrayLike = False
    method: str | Method = "active_set_from_spikes"
    tol: float | None = None
    missing_values: float | None = None
    n_jobs: int | None = None

    def fit(self, X: ArrayLike, y: None = None) -> SpikingSparseCoder:
        """Check the parameters, and that signals fit the dictionary; nothing is learned."""
        named_method(self.method)
        if self.tol is not None:
            checks.positive_number("tol", self.tol)
        checks.worker_count("n_jobs", self.n_jobs)
        new = copy.copy(self)
        self._problem(checked_input(new, X, reset=True))
        take_fitted(self, new)
        return self

    def problem(self, X: ArrayLike) -> LassoProblem:
        """Return the problem of coding signals, for any solver, `path` or `compare`."""
        return self._problem(self._input(X))

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Return the signals of codes, codes @ dictionary; float32 for float32 codes."""
        atoms = atoms_of(self.dictionary)
        codes = checked_codes(X, atoms.shape[0])
        return atoms.reconstruct(codes.astype(np.float64, copy=False)).astype(codes.dtype, copy=False)

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Return a score, at most 1, of predicting a fifth of the features from codes of the other features.

        The score is the share of the signals' energy that is predicted (`held_out_score`).  Unlike the
        objective, scores can be compared between values of `alpha`, as `GridSearchCV` does.

        `solve_active_set` computes the codes, which are optimal to rounding, and warns if a gap exceeds
        `tol` or 1e-6.  So a search over `tol` or `method` finds equal scores."""
        tol = ActiveSet.usual_tol if self.tol is None else self.tol
        return held_out_score(self.problem(X), tol=tol, n_jobs=self.n_jobs)

    @property
    def _n_features_out(self) -> int:
        return atoms_of(self.dictionary).shape[0]

    @property
    def _method(self) -> str | Method:  # type: ignore[override]
        return self.method

    def _problem(self, signals: np.ndarray) -> LassoProblem:
        mask = known_entries(signals, self.missing_values)
        return coding_problem(self, self.dictionary, signals, mask, penalty="alpha", positive=self.positive)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def coding_problem(
    estimator: BaseEstimator,
    dictionary: Any,
    signals: np.ndarray,
    mask: np.ndarray | None,
    *,
    penalty: str,
    positive: Any,
) -> LassoProblem:
    """Return the problem of coding signals, with the model of the last call if its dictionary is the same."""
    model, n_coded, before = _kept.get(estimator, (None, 0, None))
    if model is not None and not (
        model.memory_limit == memory_limit._in_force._n_bytes and _equals(dictionary, model.dictionary)
    ):
        model = None
    atoms = atoms_of(dictionary, known_features(mask, None)) if model is None else model.atoms
    if atoms.shape[1] != signals.shape[1]:
        raise ValueError(
            "Dictionary and X have different numbers of features: X must have the "
            f"{atoms.shape[1]} of the dictionary; got shape {signals.shape}"
        )
    alpha = getattr(estimator, penalty)
    # Numbers are not checked again, because they cannot have changed.
    given = (alpha, positive) if isinstance(alpha, float) and isinstance(positive, bool) else None
    if model is None or given is None or given != before:
        checked = penalty_of(alpha, atoms.squared_norms, positive, name=penalty)
        model = model and model._with_penalty(checked)
    if model is None:
        # Copy the array, because the caller may change it later.
        copied = atoms.given.copy() if atoms.is_matrix else dictionary
        problem, n_coded = LassoProblem(copied, signals, checked, positive=positive, mask=mask), 0
        model = problem.model
    else:
        if n_coded > most_on_demand(model.n_atoms) and model.atoms.is_matrix and model.gram_fits:
            _ = model.gram  # faster than coding as many signals again without the Gram matrix
        problem = model.with_signals(signals, mask=mask)
        model = model if problem.atoms is model.atoms else problem.model
    _kept[estimator] = model, n_coded + problem.n_signals, given
    return problem


def _equals(dictionary: Any, kept: Any) -> bool:
    """Return whether a dense or sparse array equals a dictionary that was checked."""
    if type(dictionary) is type(kept) is np.ndarray:
        return dictionary.dtype.kind in "fiu" and np.array_equal(dictionary, kept)
    is_sparse = sparse.issparse(dictionary) and sparse.issparse(kept) and dictionary.shape == kept.shape
    return is_sparse and dictionary.dtype.kind in "fiu" and (dictionary != kept).nnz == 0


def checked_input(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return `X` as a dense or sparse array of floats, with NaN only if NaN marks a missing entry."""
    _require_unmasked(
        X, "if they are missing, pass X.filled(np.nan) to an estimator with missing_values=np.nan"
    )
    finite = "allow-nan" if nan_is_missing(estimator.missing_values) else True
    # Skip the checks of scikit-learn if possible: they take as long as coding one row.
    if not reset and type(X) is np.ndarray and X.dtype in FLOATS and X.ndim == 2 and 0 not in X.shape:
        is_right = vars(estimator).get("n_features_in_", X.shape[1]) == X.shape[1]
        if is_right and "feature_names_in_" not in vars(estimator) and np.isfinite(X).all():
            return X
    try:
        return validate_data(
            estimator, X, reset=reset, dtype=FLOATS, ensure_all_finite=finite, accept_sparse="csr"
        )
    except (TypeError, ValueError) as error:
        if "'NAType'" in str(error):
            raise TypeError('X must not contain pandas.NA; got some: pass X.astype("Float64")') from None
        # Replace scikit-learn's message, which recommends imputation.
        if "X contains NaN" not in str(error):
            raise
    dense = " and pass X.toarray()" if sparse.issparse(X) else ""
    raise ValueError(f"Input X contains NaN: set missing_values=np.nan{dense} if NaN means not known")


def nan_is_missing(missing_values: float | None) -> bool:
    """Return whether NaN stands for a missing entry."""
    if missing_values is None:
        return False
    if isinstance(missing_values, (bool, np.bool_)) or not isinstance(missing_values, numbers.Real):
        raise TypeError(
            f"missing_values must be None, np.nan or a number; got {type(missing_values).__name__}"
        )
    return bool(np.isnan(missing_values))


def known_entries(array: Any, missing_values: float | None) -> np.ndarray | None:
    """Return a mask of the entries that are not missing, or None if all are known."""
    if missing_values is None:
        return None
    if sparse.issparse(array):
        if missing_values != 0 and known_entries(array.data, missing_values) is None:
            return None
        raise TypeError("X must be dense if entries are missing; got a sparse array: pass X.toarray()")
    if nan_is_missing(missing_values):
        known = ~np.isnan(array)
    else:
        # Compare in the type of `array`: the double 0.1 is not a float32 number.
        with float_errors(over="ignore"):
            known = array != array.dtype.type(missing_values)
    return None if known.all() else known


def checked_codes(X: Any, n_atoms: int) -> np.ndarray:
    """Return codes, the `X` of `inverse_transform`, as a float64 or float32 array."""
    _require_unmasked(X, "if these are zeros, pass X.filled(0.0)")
    codes = check_array(X, dtype=FLOATS)
    if codes.shape[1] != n_atoms:
        raise ValueError(f"X must have one column for each of {n_atoms} atoms; got shape {codes.shape}")
    return codes


def take_fitted(estimator: BaseEstimator, fitted: BaseEstimator) -> None:
    """Give an estimator all fitted attributes of its copy at once, so that Ctrl-C cannot separate them."""
    parameters = {name: vars(estimator)[name] for name in estimator.get_params(deep=False)}
    take_over(estimator, {**vars(fitted), **parameters})


def _require_unmasked(X: Any, remedy: str) -> None:
    rows = X if isinstance(X, (list, tuple)) else (X,)
    if any(np.ma.is_masked(row) for row in rows):
        raise TypeError(f"X must not have masked entries; got some: {remedy}")

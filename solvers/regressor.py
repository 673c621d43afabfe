"""Linear regression with the LASSO or the elastic net, as scikit-learn estimators."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import check_cv
from sklearn.utils import Tags
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from snn.base import checks
from solvers.estimator import Versioned, take_fitted
from solvers.methods.method import Method, named_method, solve
from solvers.problem.atoms import in_full, squared_norms_of
from solvers.problem.lasso import LassoProblem
from solvers.problem.messages import IllPosedWarning
from solvers.problem.penalty import ElasticNet, checked_signs, weights_of_codes
from solvers.studies.path import default_multiples, path

# Sums over a training set are the sums over all data minus those over the fold.  A difference that is smaller
# than this share of the sum over all data has lost too many digits.
LEAST_LEFT = 1e-6
# Terms of sparse coding, and the terms of regression that replace them in error messages.
WORDS = {"an atom": "a variable", "atom": "variable", "atoms": "variables", "a feature": "an observation"}
WORDS |= {"features": "observations", "signal": "target", "row": "column", "rows": "columns"}
WORDS |= {"the dictionary": "X", "dictionary": "X"}


@contextmanager
def worded(where: str = "") -> Iterator[None]:
    """Replace terms of sparse coding in error messages of a `with` block, and append `where`."""
    names = {"penalty": "alpha", "l1": "alpha", "l2": "alpha", "signals": "y", "problem": "X"}
    try:
        with checks.called(**names, n_multiples="alphas", smallest="eps"):
            yield
    except (TypeError, ValueError) as error:
        message = re.sub(rf"\b({'|'.join(WORDS)})\b", lambda word: WORDS[word[0]], str(error)) + where
        if message == str(error):
            raise
        raise type(error)(message) from None


class Design(NamedTuple):
    """A regression as sparse coding: variables are atoms, targets are signals."""

    make: Callable[..., LassoProblem]  # returns the problem with a penalty and signs
    used: np.ndarray  # indices of the variables that are not constant, in the order of the atoms
    means: np.ndarray  # the means that were subtracted, one for each variable
    target_means: np.ndarray
    weight: float  # the sum of the weights of observations
    has_free: bool = False  # whether the last atom is the intercept

    def coefficients(self, codes: Any) -> tuple[Any, np.ndarray]:
        """Return the coefficients of the variables that are not constant, and the intercepts."""
        variables, rest = codes[:, : len(self.used)], codes[:, len(self.used) :]
        return variables, self.target_means - variables @ self.means[self.used] + rest.sum(axis=1)


@dataclass(eq=False, repr=False, kw_only=True)
class Regression(Versioned, RegressorMixin, BaseEstimator):
    """The base class of regressions: all parameters except the penalty, the solution, and predictions."""

    l1_ratio: float = 1.0
    positive: bool | ArrayLike = False
    penalty_factors: ArrayLike | None = None
    fit_intercept: bool = True
    method: str | Method = "active_set"
    tol: float | None = None

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the predictions, shape (n_observations,) or (n_observations, n_targets)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def _problem(self, design: Design, alpha: float) -> LassoProblem:
        n_variables, used, free = len(design.means), design.used, np.zeros(int(design.has_free))
        scale = np.full(n_variables, alpha * design.weight)
        if self.penalty_factors is not None:
            scale *= weights_of_codes("penalty_factors", self.penalty_factors, n_variables)
        l1_ratio = checks.positive_number("l1_ratio", self.l1_ratio, zero=True)
        if l1_ratio > 1.0:
            raise ValueError(f"l1_ratio must be from 0, ridge regression, to 1, the LASSO; got {l1_ratio}")
        l1, l2 = (np.append(share * scale[used], free) for share in (l1_ratio, 1.0 - l1_ratio))
        positive = np.append(checked_signs(self.positive, n_variables)[used], free > 0.0)
        method = named_method(self.method)
        if design.has_free and "signed_zero_penalties" not in method.takes:
            raise ValueError(
                f"X must be dense for {method.name} with fit_intercept=True; got a sparse X: pass X.toarray()"
            )
        return design.make(ElasticNet(l1, l2), positive=positive)

    @worded()
    def _solve(self, design: Design, alpha: float, *, is_single: bool) -> None:
        """Fit the coefficients of one target or several, and certify them."""
        n_targets, used = len(design.target_means), design.used
        codes, gaps, self.n_iter_ = np.zeros((n_targets, len(used))), np.zeros(n_targets), 0
        if len(used):
            problem = self._problem(design, alpha)
            with checks.without_warnings(IllPosedWarning):
                result = solve(problem, named_method(self.method), tol=self.tol)
            codes, gaps = result.codes, result.duality_gap / design.weight
            self.n_iter_ = int(result.n_steps.max())
        coefficients = np.zeros((n_targets, len(design.means)))
        coefficients[:, used], intercepts = design.coefficients(codes)
        target: Any = 0 if is_single else slice(None)
        self.coef_, self.intercept_ = coefficients[target], intercepts[target]
        self.duality_gap_ = gaps[target]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = isinstance(self, LassoRegressor)
        return tags


@dataclass(eq=False, repr=False)
class LassoRegressor(Regression):
    """A linear model fitted by the LASSO; `alpha` is in the unit of scikit-learn's `Lasso`.

    With n observations, targets y and an intercept c that has no penalty, the model minimises::

        1 / (2 n) ||y - X a - c||^2 + alpha sum_i f_i (l1_ratio |a_i| + (1 - l1_ratio) / 2 a_i^2)

    The objective of `LassoProblem` is n times as large.  The same penalty is therefore ``n * alpha`` for
    `LassoProblem` and `SpikingSparseCoder`.

    Parameters
    ----------
    alpha : float, default 1.0
        The penalty.  Zero is least squares, whose solution must be unique.
    l1_ratio : float, default 1.0
        The share of the l1 penalty: 1 is the LASSO, 0 is ridge regression, a number between them is an
        elastic net.
    positive : bool or array_like of bool, shape (n_variables,), default False
        Whether coefficients must not be negative: one bool for all variables, or one for each.
    penalty_factors : array_like, shape (n_variables,), optional
        f, a factor on the penalty of each variable, not negative; zero keeps a variable in the model.  The
        factors are used unchanged, whereas glmnet divides them by their mean.
    fit_intercept : bool, default True
        Whether the model has an intercept.  All variables of a dense X are centred.  A variable of a sparse X
        is centred only if its mean exceeds its standard deviation, because then it has few zeros.  For the
        other variables, a variable of ones without a penalty is added.  Centring and the variable of ones
        give the same result, except for rounding.
    method : str or Method, default "active_set"
        The name of a method in `solvers.METHODS`, or a `Method` with its options.
    tol : float, optional
        Largest duality gap, as a share of the objective at zero coefficients; by default
        `Method.usual_tol`.  The active set is exact to rounding with any `tol`.

    Attributes
    ----------
    coef_ : ndarray, shape (n_variables,) or (n_targets, n_variables)
        The coefficients.  A y with one column counts as a single target.
    intercept_ : float or ndarray, shape (n_targets,)
        The intercept; zero if `fit_intercept` is False.
    duality_gap_ : float or ndarray, shape (n_targets,)
        Upper bound on the model's objective minus the minimum, from a certificate that uses no solver.
    n_iter_ : int
        Number of steps of the method, for the target that needed the most steps.
    n_features_in_ : int
        Number of variables.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> model = LassoRegressor(alpha=0.25).fit(X, [1.0, 3.0, 5.0, 7.0])
    >>> print(model.coef_.round(6), model.intercept_.round(6), model.duality_gap_ < 1e-12)
    [1.8 0. ] 1.3 True
    """

    alpha: float = 1.0
    _: KW_ONLY

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model; `sample_weight` is the weight of each observation, and n is the sum of weights."""
        new = copy.copy(self)
        X, y, weights = checked_data(new, X, y, sample_weight, multi_output=True)
        alpha = checks.positive_number("alpha", self.alpha, zero=True)
        new._solve(
            design_of(X, y, weights, self.fit_intercept), alpha, is_single=y.ndim == 1 or y.shape[1] == 1
        )
        take_fitted(self, new)
        return self


@dataclass(eq=False, repr=False)
class LassoRegressorCV(Regression):
    """A `LassoRegressor` whose `alpha` is chosen by cross-validation, as scikit-learn's `LassoCV` does.

    The chosen penalty has the least mean squared error on the observations that the folds leave out.  The
    model is then fitted to all observations, and certified.

    Parameters
    ----------
    alphas : int or array_like, default 100
        The penalties, or their number.  By default, penalties have equal ratios, and the largest is the least
        penalty at which all coefficients are zero.
    eps : float, default 1e-3
        The smallest penalty as a share of the largest, if `alphas` is a number.
    cv : int, splitter or iterable, optional
        The folds, in any form that scikit-learn's estimators accept; by default five folds.
    one_standard_error : bool, default False
        Choose the largest penalty whose mean error is at most one standard error (over the folds) above the
        least mean error.
    l1_ratio, positive, penalty_factors, fit_intercept, method, tol
        See `LassoRegressor`.

    Attributes
    ----------
    alpha_ : float
        The chosen penalty.
    alphas_ : ndarray, shape (n_alphas,)
        The penalties, the largest first.
    mse_path_ : ndarray, shape (n_alphas, n_folds)
        Mean squared error of the observations that each fold leaves out.
    coef_, intercept_, duality_gap_, n_iter_, n_features_in_
        See `LassoRegressor`.

    Notes
    -----
    With more than two observations per variable, a fold is solved from sums over its observations.  These
    sums are the sums over all observations minus the sums over the observations left out.  Errors of
    prediction are computed from the data.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> model = LassoRegressorCV().fit(*load_diabetes(return_X_y=True))
    >>> print(round(model.alpha_, 5), model.mse_path_.shape, model.duality_gap_ < 1e-9)
    0.00375 (100, 5) True
    """

    alphas: int | ArrayLike = 100
    _: KW_ONLY
    eps: float = 1e-3
    cv: Any = None
    one_standard_error: bool = False

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the penalty and fit the model; `sample_weight` is the weight of each observation."""
        new = copy.copy(self)
        X, y, weights = checked_data(new, X, y, sample_weight)
        one_standard_error = checks.flag("one_standard_error", self.one_standard_error)
        design = design_of(X, y, weights, self.fit_intercept)
        new.alphas_ = new._checked_alphas(design)
        folds = list(check_cv(self.cv).split(X, y))
        counts = np.ones(len(y)) if weights is None else weights
        if not folds or not all(counts[rows].any() for fold in folds for rows in fold):
            raise ValueError(
                "cv must have folds, each with observations of positive weight to fit and to leave out; got "
                f"{len(folds)} folds"
            )
        new.mse_path_ = np.column_stack(list(new._errors(X, y, weights, folds)))
        means = new.mse_path_.mean(axis=1)
        chosen = int(means.argmin())
        if one_standard_error:
            deviation = new.mse_path_[chosen].std(ddof=min(1, len(folds) - 1)) / np.sqrt(len(folds))
            chosen = int(np.argmax(means <= means[chosen] + deviation))
        new.alpha_ = float(new.alphas_[chosen])
        new._solve(design, new.alpha_, is_single=True)
        take_fitted(self, new)
        return self

    @worded()
    def _checked_alphas(self, design: Design) -> np.ndarray:
        """Return the penalties, the largest first."""
        alphas: Any = self.alphas
        if np.ndim(alphas):
            return np.unique(checks.positive_array("alphas", alphas))[::-1]
        problem = LassoProblem([[1.0]], [[0.0]], 1.0)  # if all variables are constant, all codes are zero
        if len(design.used):
            problem = self._problem(design, 1.0)
            if not problem.l1_weights.any():
                raise ValueError(
                    "alphas must be an array of penalties if no variable has an l1 penalty; got the number "
                    f"{alphas}"
                )
        return default_multiples(problem, alphas, self.eps, largest=1.0)

    def _errors(
        self, X: Any, y: np.ndarray, weights: np.ndarray | None, folds: list[Any]
    ) -> Iterator[np.ndarray]:
        """For each fold, yield the mean squared errors at all penalties on the observations left out."""
        # Statistics save time if X has over twice as many entries as the Gram matrix (if dense, for n > 2 p).
        has_statistics = X.size > 2 * X.shape[1] ** 2
        statistics = Statistics(X, y, weights, self.fit_intercept) if has_statistics else None
        for k, (train, test) in enumerate(folds):
            kept = None if weights is None else weights[train]
            design = None if statistics is None else statistics.design(train, test)
            problem = None
            with worded(f"; in fold {k} of cv"):
                if design is not None:
                    with suppress(ValueError):  # if the sums are too inexact, the data are used instead
                        problem = self._problem(design, 1.0)
                if design is None or problem is None:
                    design = design_of(X[train], y[train], kept, self.fit_intercept)
                    problem = self._problem(design, 1.0) if len(design.used) else None
                codes: Any = sparse.csr_array((len(self.alphas_), len(design.used)))
                if problem is not None:
                    tol = 1e-6 if self.tol is None else self.tol
                    with checks.without_warnings(IllPosedWarning):
                        results = path(problem, self.alphas_, method=self.method, tol=tol).results
                    codes = sparse.vstack([result.sparse_codes for result in results], format="csr")
            coefficients, intercepts = design.coefficients(codes)
            rows = X[test] if len(design.used) == X.shape[1] else X[test][:, design.used]
            coefficients = coefficients.T if sparse.issparse(rows) else coefficients.toarray().T
            squares = np.square(y[test, np.newaxis] - in_full(rows @ coefficients) - intercepts)
            yield np.average(squares, axis=0, weights=None if weights is None else weights[test])


class Statistics:
    """Sums over observations of all products of two of the variables, the target and the constant 1."""

    def __init__(self, X: Any, y: np.ndarray, weights: np.ndarray | None, with_intercept: bool) -> None:
        self._with_intercept = with_intercept
        roots = np.ones((len(y), 1)) if weights is None else np.sqrt(weights)[:, np.newaxis]
        # The data are centred before they are summed, so that sums of squares lose no digits.
        self._means = np.append(np.zeros(X.shape[1]), y.mean() if with_intercept else 0.0)
        last = np.column_stack([y - self._means[-1], np.ones(len(y))]) * roots
        if sparse.issparse(X):
            if with_intercept:
                X, self._means[:-1] = without_offsets(X, weights)
            self._rows = sparse.hstack([sparse.diags_array(roots[:, 0]) @ X, last], format="csr")
        else:
            if with_intercept:
                self._means[:-1] = X.mean(axis=0)
            self._rows = np.column_stack([(X - self._means[:-1]) * roots, last])
        self._whole = in_full(self._rows.T @ self._rows)

    def design(self, train: np.ndarray, test: np.ndarray) -> Design | None:
        """Return the regression of training data, or None if its statistics have lost digits."""
        is_rest = (np.bincount(np.append(train, test), minlength=self._rows.shape[0]) == 1).all()
        rows = self._rows[test if is_rest else train]
        sums = in_full(rows.T @ rows)
        sums = self._whole - sums if is_rest else sums
        weight, means = sums[-1, -1], sums[-1, :-1] / sums[-1, -1]
        if self._with_intercept:
            sums = sums - weight * np.outer(np.append(means, 1.0), np.append(means, 1.0))
        else:
            means = np.zeros_like(means)
        if not (sums.diagonal()[:-1] > LEAST_LEFT * self._whole.diagonal()[:-1]).all():
            return None
        make = partial(LassoProblem.from_statistics, sums[:-2, :-2], sums[-2, :-2], sums[-2, -2])
        means = self._means + means
        return Design(make, np.arange(len(means) - 1), means[:-1], means[-1:], weight)


def design_of(X: Any, y: np.ndarray, weights: np.ndarray | None, with_intercept: bool) -> Design:
    """Return the regression of data; observations of weight zero are left out."""
    if weights is not None and not weights.all():
        kept = weights > 0.0
        X, y, weights = X[kept], y[kept], weights[kept]
    weight, roots = (float(len(y)), 1.0) if weights is None else (float(weights.sum()), np.sqrt(weights))
    targets, is_sparse = y.reshape(len(y), -1), sparse.issparse(X)
    means, target_means = np.zeros(X.shape[1]), np.zeros(targets.shape[1])
    if with_intercept:
        target_means = np.average(targets, axis=0, weights=weights)
    signals = np.ascontiguousarray((targets - target_means).T) * roots
    if is_sparse:
        if with_intercept:
            X, means = without_offsets(X, weights)
        atoms = X.T.tocsr() if weights is None else (X.T @ sparse.diags_array(roots)).tocsr()
    else:
        atoms = np.array(X.T, order="C")
        if with_intercept:
            # A constant variable becomes exactly zero.
            means = np.average(X, axis=0, weights=weights)
            means = np.where(np.ptp(X, axis=0) == 0.0, X[0], means)
            atoms -= means[:, np.newaxis]
        atoms *= roots
    used = np.flatnonzero(squared_norms_of(atoms) > 0.0)
    atoms = atoms if len(used) == len(means) else atoms[used]
    has_free = is_sparse and with_intercept and len(used) > 0
    if has_free:
        atoms = sparse.vstack([atoms, np.broadcast_to(roots, (1, len(y)))], format="csr")
    return Design(partial(LassoProblem, atoms, signals), used, means, target_means, weight, has_free)


def without_offsets(X: Any, weights: np.ndarray | None) -> tuple[Any, np.ndarray]:
    """Centre the columns of a sparse X whose mean exceeds the deviation; return X and the means."""
    # At most half of the entries of such a column are zero (Cauchy-Schwarz inequality), so that a centred
    # column has at most twice as many entries.  Columns that are not centred are far from a multiple of the
    # column of ones, so that no digits are lost.
    shares = np.ones(X.shape[0]) if weights is None else weights
    shares = shares / shares.sum()
    means, least, most = X.T @ shares, *(in_full(of(axis=0)).ravel() for of in (X.min, X.max))
    means = np.where(2.0 * means**2 > X.multiply(X).T @ shares, means, 0.0)
    means = np.where(least == most, least, means)  # a constant column becomes exactly zero
    ones = sparse.csr_array(np.ones((X.shape[0], 1)))
    return sparse.csr_array(X) - ones @ sparse.csr_array(means[np.newaxis]), means


def checked_data(
    estimator: Regression, X: Any, y: Any, sample_weight: Any, **rules: Any
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Check variables, targets and weights of observations as scikit-learn does, and return them."""
    estimator.fit_intercept = checks.flag("fit_intercept", estimator.fit_intercept)
    X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, **rules)
    y = y.astype(np.float64, copy=False)
    if sample_weight is None:
        return X, y, None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if not weights.any() or weights.min() < 0.0:
        raise ValueError(f"sample_weight must be at least 0, and positive somewhere; got {weights.min()}")
    return X, y, weights

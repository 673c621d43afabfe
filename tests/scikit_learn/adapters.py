"""The names of `sklearn.decomposition`, with our classes behind them.

The adapters only translate arguments.  An argument without a counterpart raises `NotOffered`.  Arguments that
change how scikit-learn works, but not the result (`fit_algorithm`, `shuffle`), are ignored.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from dictlearn import SpikingDictionaryLearning
from solvers import SpikingSparseCoder
from solvers.methods import ActiveSetFromSpikes, Stages

# Algorithms of scikit-learn for the LASSO.  Our solvers are exact, so they ignore the choice of an algorithm.
LASSO = ("lasso_lars", "lasso_cd")


class NotOffered(Exception):
    """An option of scikit-learn that our classes do not have."""


def _require_lasso(algorithm: str) -> None:
    if algorithm not in LASSO:
        raise NotOffered(f"codes are those of the LASSO; got {algorithm!r}")


def _update_dict(*_args: object, **_keywords: object) -> None:
    raise NotOffered("no update of a dictionary by block coordinate descent")


class SparseCoder(SpikingSparseCoder):
    tol, missing_values = None, None

    def __init__(
        self,
        dictionary,
        *,
        transform_algorithm="lasso_cd",  # scikit-learn's default is "omp"
        transform_n_nonzero_coefs=None,
        transform_alpha=None,
        split_sign=False,
        n_jobs=None,
        positive_code=False,
        transform_max_iter=None,
    ):
        self.dictionary = dictionary
        self.transform_algorithm = transform_algorithm
        self.transform_n_nonzero_coefs = transform_n_nonzero_coefs
        self.transform_alpha = transform_alpha
        self.split_sign = split_sign
        self.n_jobs = n_jobs
        self.positive_code = positive_code
        self.transform_max_iter = transform_max_iter

    def transform(self, X, y=None):
        _require_lasso(self.transform_algorithm)
        return super().transform(X)

    alpha = property(lambda self: 1.0 if self.transform_alpha is None else self.transform_alpha)
    positive = property(lambda self: self.positive_code)
    # The active-set method takes no limit of iterations, so a limit selects a spiking method.
    method = property(
        lambda self: (
            ActiveSetFromSpikes() if self.transform_max_iter is None else Stages(self.transform_max_iter)
        )
    )


class DictionaryLearning(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    batch_size = 32
    DEFAULTS: ClassVar = {
        "alpha": 1,
        "max_iter": 10,  # as ours: passes through the signals
        "fit_algorithm": "lars",
        "transform_algorithm": "lasso_cd",
        "dict_init": None,
        "n_jobs": None,
        "positive_code": False,
        "positive_dict": False,
        "random_state": None,
        "transform_alpha": None,
        "verbose": False,
    }

    def __init__(self, n_components=None, **parameters):
        self.n_components = n_components
        self._names = ["n_components", *self.DEFAULTS, *parameters]
        for name, value in {**self.DEFAULTS, **parameters}.items():
            setattr(self, name, value)

    def get_params(self, deep=True):
        return {name: getattr(self, name) for name in self._names}

    def _ours(self, n_features):
        return SpikingDictionaryLearning(
            n_features if self.n_components is None else self.n_components,
            alpha=self.alpha,
            max_iter=self.max_iter,
            batch_size=self.batch_size,
            transform_alpha=self.transform_alpha,
            positive_code=self.positive_code,
            positive_dict=self.positive_dict,
            dict_init=self.dict_init,
            progress=bool(self.verbose),
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def fit(self, X, y=None):
        self.ours_ = self._ours(np.shape(X)[1]).fit(X)
        return self

    def partial_fit(self, X, y=None):
        if not hasattr(self, "ours_"):
            self.ours_ = self._ours(np.shape(X)[1])
        self.ours_.partial_fit(X)
        return self

    def transform(self, X):
        _require_lasso(self.transform_algorithm)
        return self.ours_.transform(X)

    def inverse_transform(self, X):
        return self.ours_.inverse_transform(X)

    components_ = property(lambda self: self.ours_.components_)
    n_iter_ = property(lambda self: self.ours_.n_iter_)
    n_features_in_ = property(lambda self: self.ours_.n_features_in_)
    _n_features_out = property(lambda self: len(self.ours_.components_))


class MiniBatchDictionaryLearning(DictionaryLearning):
    batch_size = 256


def sparse_encode(
    X, dictionary, *, algorithm="lasso_lars", n_nonzero_coefs=None, alpha=None, n_jobs=None, positive=False
):
    _require_lasso(algorithm)
    alpha = 1.0 if alpha is None else alpha
    coder = SpikingSparseCoder(dictionary, alpha=alpha, positive=positive, n_jobs=n_jobs)
    return coder.fit_transform(X)


def dict_learning(X, n_components, *, alpha, method="lars", positive_code=False, **parameters):
    learning = DictionaryLearning(
        n_components, alpha=alpha, fit_algorithm=method, positive_code=positive_code, **parameters
    )
    codes = learning.fit_transform(X)
    return codes, learning.components_, learning.ours_.learner_.history["objective"]


def dict_learning_online(
    X, n_components=2, *, alpha=1, method="lars", return_code=True, positive_code=False, **parameters
):
    learning = MiniBatchDictionaryLearning(
        n_components, alpha=alpha, fit_algorithm=method, positive_code=positive_code, **parameters
    ).fit(X)
    return (learning.transform(X), learning.components_) if return_code else learning.components_

"""Sparse coding by spikes as a scikit-learn transformer."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, validate_data

from solvers.dictionaries import dictionary_of
from solvers.penalties import penalty_of
from solvers.penalty import Penalty
from solvers.problem import LassoProblem
from solvers.result import SparseCodingResult
from solvers.spiking import solve_spiking


class SpikingSparseCoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Code signals in a fixed dictionary with a spiking network.

    Each code minimises ``1/2 ||signal - code @ dictionary||^2 + alpha ||code||_1``, to within the
    duality gap that `tol` allows; with an `ElasticNet` for `alpha` its penalty takes the place of the last
    term.  The dictionary is given, so there is nothing to fit.

    Parameters
    ----------
    dictionary : array_like, shape (n_atoms, n_features)
        Atoms of any norm.  The code of an atom of norm zero is zero; one at least must not be.
    alpha : float, array_like of shape (n_atoms,), or Penalty
        The penalty, positive; or an `ElasticNet` or `L1`.
    positive : bool, default False
        Whether codes must not be negative.
    readout : {"smooth", "rate", "current"}, default "smooth"
        How codes are read out of the network, without `polish`; see `solve_spiking`.
    refine : bool, default True
        Whether codes read through the smooth window are refined, without `polish`; see `solve_spiking`.
    polish : bool, default True
        Whether an active-set method corrects what a short run of the network finds; see `solve_spiking`.
    tol : float, default 1e-6
        Largest duality gap, as a share of 1/2 ||signal||^2.
    n_jobs : int, optional
        Number of joblib workers.

    Attributes
    ----------
    n_features_in_ : int
        Number of features of the signals seen by `fit`.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475.

    Examples
    --------
    >>> import numpy as np
    >>> coder = SpikingSparseCoder(np.eye(3), alpha=0.5)
    >>> coder.transform(np.array([[2.0, 0.1, -1.0]]))
    array([[ 1.5,  0. , -0.5]])
    """

    def __init__(
        self,
        dictionary: np.ndarray,
        *,
        alpha: float | np.ndarray | Penalty,
        positive: bool = False,
        readout: str = "smooth",
        refine: bool = True,
        polish: bool = True,
        tol: float = 1e-6,
        n_jobs: int | None = None,
    ) -> None:
        self.dictionary = dictionary
        self.alpha = alpha
        self.positive = positive
        self.readout = readout
        self.refine = refine
        self.polish = polish
        self.tol = tol
        self.n_jobs = n_jobs

    def fit(self, X: np.ndarray, y: None = None) -> SpikingSparseCoder:
        """Check the parameters and that signals fit the dictionary; nothing is learned.

        Parameters
        ----------
        X : array_like, shape (n_signals, n_features)
        y : ignored
        """
        signals = validate_data(self, X, dtype=np.float64)
        self._problem(signals)
        return self

    def transform(self, X: np.ndarray, y: None = None) -> np.ndarray:
        """Return the codes of signals, shape (n_signals, n_atoms).

        Parameters
        ----------
        X : array_like, shape (n_signals, n_features)
        y : ignored
        """
        return np.array(self.encode(X).codes)

    def encode(self, X: np.ndarray) -> SparseCodingResult:
        """Return the codes of signals with their certificates: the result of `solve_spiking`.

        Parameters
        ----------
        X : array_like, shape (n_signals, n_features)
        """
        problem = self._problem(validate_data(self, X, reset=False, dtype=np.float64))
        return solve_spiking(
            problem,
            tol=self.tol,
            readout=self.readout,
            refine=self.refine,
            polish=self.polish,
            n_jobs=self.n_jobs,
        )

    def inverse_transform(self, X: np.ndarray) -> np.ndarray:
        """Return the signals of codes, codes @ dictionary.

        Parameters
        ----------
        X : array_like, shape (n_signals, n_atoms)
        """
        codes = check_array(X)
        dictionary = check_array(self.dictionary, dtype=np.float64)
        if codes.shape[1] != len(dictionary):
            raise ValueError(f"dictionary has {len(dictionary)} atoms but codes have {codes.shape[1]}")
        return codes @ dictionary

    def score(self, X: np.ndarray, y: None = None) -> float:
        """Return minus the mean objective over the signals: the larger, the better.

        Parameters
        ----------
        X : array_like, shape (n_signals, n_features)
        y : ignored
        """
        return -float(self.encode(X).objective.mean())

    @property
    def _n_features_out(self) -> int:
        return np.shape(self.dictionary)[0]

    def _problem(self, signals: np.ndarray) -> LassoProblem:
        atoms = dictionary_of(self.dictionary)
        atoms.require_norms()
        penalty = penalty_of(self.alpha, atoms.squared_norms, name="alpha")
        return LassoProblem(self.dictionary, signals, penalty, positive=self.positive)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

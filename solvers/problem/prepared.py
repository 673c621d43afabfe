"""One dictionary and one penalty, prepared for many signals that come one after the other."""

from __future__ import annotations

from numpy.typing import ArrayLike

from snn.base.html import Described
from solvers.problem.convolution import ConvolutionalDictionary
from solvers.problem.lasso import LassoProblem
from solvers.problem.model import CodingModel
from solvers.problem.penalty import ElasticNet
from solvers.problem.screening import UnitAtoms


class PreparedLasso(Described):
    """A dictionary and a penalty, checked once, with what every solver would compute of them anew.

    A `LassoProblem` checks its dictionary, and solvers compute norms, a Gram matrix or an eigenvalue of it.
    Where signals come one at a time, that takes longer than to solve for them.  Problems that are made here
    share it.

    Parameters
    ----------
    dictionary : array_like or sparse matrix, shape (n_atoms, n_features), or ConvolutionalDictionary
        The atoms.
    penalty : float, array_like of shape (n_atoms,), or ElasticNet
        As of `LassoProblem`.
    positive : bool, default False
        Whether codes must not be negative.
    gram : array_like, shape (n_atoms, n_atoms), optional
        ``dictionary @ dictionary.T``, if it is at hand.  Otherwise it is computed here for an array of atoms,
        8 n_atoms^2 bytes; where that is more than the `memory_limit`, the atoms are converted to single
        precision instead, 4 n_atoms n_features bytes, unless half the limit is less than that.
    mask, feature_weights : array_like, shape (n_features,), optional
        As of `LassoProblem`, for all signals to come; the Gram matrix computed here is then D diag(w) D^T.

    Attributes
    ----------
    model : CodingModel
        What the problems share.

    Raises
    ------
    TypeError, ValueError
        As `LassoProblem`.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import PreparedLasso, solve_active_set
    >>> prepared = PreparedLasso(np.eye(3), 0.5)
    >>> for signal in np.array([[2.0, 0.1, -1.0], [0.0, 1.0, 0.0]]):
    ...     print(solve_active_set(prepared.with_signals(signal[np.newaxis])).codes[0])
    [ 1.5  0.  -0.5]
    [0.  0.5 0. ]
    """

    def __init__(
        self,
        dictionary: ArrayLike | ConvolutionalDictionary,
        penalty: float | ArrayLike | ElasticNet,
        *,
        positive: bool = False,
        gram: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        feature_weights: ArrayLike | None = None,
    ) -> None:
        self.model = CodingModel(
            dictionary, penalty, positive=positive, gram=gram, mask=mask, weights=feature_weights
        )
        self.model.is_prepared = True
        # Computed now, not with the first signal.
        if not self.model.atoms.is_matrix:
            return
        if self.model.weighted.has_gram or self.model.gram_fits:
            _ = self.model.weighted.gram
        elif self.model.atoms.rows is not None:
            self.model.once(UnitAtoms, whatever_penalty=True)

    def _facts(self) -> dict[str, str]:
        return dict(self.model._facts())

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

        Raises
        ------
        TypeError, ValueError
            If they do not hold finite real numbers, or do not fit the dictionary.
        """
        return LassoProblem.of_model(self.model, signals, mask=mask, feature_weights=feature_weights)

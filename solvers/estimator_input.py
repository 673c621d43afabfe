"""What estimators do with their input `X`: the checks of scikit-learn, and those that it leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

# Other kinds of numbers become the first of them.
FLOATS = (np.float64, np.float32)


def checked_input(estimator: BaseEstimator, X: Any, *, reset: bool, **checks: Any) -> np.ndarray:
    """Return `X` as a float64 or float32 array, by the rules of scikit-learn; masked entries are an error.

    Parameters
    ----------
    estimator : BaseEstimator
        Whose method was called.
    X : array_like, shape (n_signals, n_features)
        What it was called with.
    reset : bool
        Whether the estimator takes the number and names of features from `X`, or checks them.
    **checks
        Further arguments of `sklearn.utils.validation.validate_data`.

    Raises
    ------
    TypeError
        If entries are masked: scikit-learn would take the numbers under the mask.
    ValueError, TypeError
        As scikit-learn says.
    """
    _require_unmasked(estimator, X)
    return validate_data(estimator, X, reset=reset, dtype=FLOATS, **checks)


def checked_codes(X: Any, n_atoms: int) -> np.ndarray:
    """Return codes, the `X` of `inverse_transform`, as a float64 or float32 array.

    Parameters
    ----------
    X : array_like, shape (n_signals, n_atoms)
        What the method was called with.
    n_atoms : int
        Number of atoms of the dictionary.
    """
    codes = check_array(X, dtype=FLOATS)
    if codes.shape[1] != n_atoms:
        raise ValueError(f"X must have one column for each of {n_atoms} atoms; got shape {codes.shape}")
    return codes


def _require_unmasked(estimator: BaseEstimator, X: Any) -> None:
    rows = X if isinstance(X, (list, tuple)) else (X,)
    if any(np.ma.is_masked(row) for row in rows):
        can_be_missing = "missing_values" in estimator.get_params(deep=False)
        remedy = "X.filled(np.nan) with missing_values=np.nan" if can_be_missing else "X.filled(value)"
        raise TypeError(f"X must not have masked entries; pass {remedy}")

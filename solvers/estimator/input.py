"""The input `X` of estimators: the checks of scikit-learn, and those that it leaves out."""

import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

# Other kinds of numbers become the first of them.
FLOATS = (np.float64, np.float32)
# Attributes that `checked_input` takes from an input.
OF_INPUT = ("n_features_in_", "feature_names_in_")


def checked_input(estimator: BaseEstimator, X: Any, *, reset: bool, accept_sparse: bool = False) -> Any:
    """Return `X` as a float64 or float32 array, with NaN only where that is its `missing_values`."""
    _require_unmasked(
        X,
        "if they are missing, pass X.filled(np.nan) to an estimator with missing_values=np.nan",
    )
    finite = "allow-nan" if nan_is_missing(estimator.missing_values) else True
    try:
        return validate_data(
            estimator,
            X,
            reset=reset,
            dtype=FLOATS,
            ensure_all_finite=finite,
            accept_sparse="csr" if accept_sparse else False,
        )
    except ValueError as error:
        # Else scikit-learn recommends to fill in what is missing.
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
        raise TypeError("X must be a dense array where entries are missing; pass X.toarray()")
    if nan_is_missing(missing_values):
        known = ~np.isnan(array)
    else:
        # As `array` has it: 0.1 in double precision is no number of float32.
        with np.errstate(over="ignore"):
            known = array != array.dtype.type(missing_values)
    return None if known.all() else known


def checked_codes(X: Any, n_atoms: int) -> np.ndarray:
    """Return codes, the `X` of `inverse_transform`, as a float64 or float32 array."""
    _require_unmasked(X, "if these are zeros, pass X.filled(0.0)")
    codes = check_array(X, dtype=FLOATS)
    if codes.shape[1] != n_atoms:
        raise ValueError(f"X must have one column for each of {n_atoms} atoms; got shape {codes.shape}")
    return codes


@contextmanager
def input_restored(estimator: BaseEstimator, *, unless_new: str | None = None) -> Iterator[None]:
    """Take back what a fit took from its input if an error ends it; what an earlier fit took stays."""
    state = vars(estimator)
    before = {name: state[name] for name in OF_INPUT if name in state}
    learned = state.get(unless_new)
    try:
        yield
    except BaseException:
        if state.get(unless_new) is learned:
            for name in OF_INPUT:
                state.pop(name, None)
            state.update(before)
        raise


def _require_unmasked(X: Any, remedy: str) -> None:
    rows = X if isinstance(X, (list, tuple)) else (X,)
    if any(np.ma.is_masked(row) for row in rows):
        raise TypeError(f"X must not have masked entries; {remedy}")

"""The signals of a problem as they are accepted, and how much each of their features counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers.problem.dictionary import Dictionary
from solvers.problem.messages import checked_squared_norms, compressed_rows

# Of a weight that is not zero, so that neither it nor its root nor its product with a residual is lost.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-60, 1e60


class Signals(NamedTuple):
    """Signals that were checked."""

    values: np.ndarray | sparse.csr_array
    """Shape (n_signals, n_features); zero where a feature does not count."""
    weights: np.ndarray | None
    """Those of the features: see `feature_weights`."""
    energies: np.ndarray
    """1/2 sum_j w_j s_j^2, shape (n_signals,)."""


def feature_weights(
    mask: Any, weights: Any, *, n_features: int, n_signals: int | None = None
) -> np.ndarray | None:
    """Return the weights w of features in E = 1/2 sum_j w_j (s_j - (aD)_j)^2 + ..., or None."""
    if mask is None and weights is None:
        return None
    if mask is not None and weights is not None:
        raise ValueError(
            "mask must be None with feature_weights; got both: pass weights of 0 where a feature is missing"
        )
    if mask is not None:
        array = _bools(mask)
        _require_shape("mask", array, n_features, n_signals)
        return checks.read_only(np.array(array, order="C"))
    array = np.array(_numbers(weights), dtype=np.float64, order="C")
    _require_shape("feature_weights", array, n_features, n_signals)
    wrong = ~((array == 0.0) | ((array >= SMALLEST_WEIGHT) & (array <= LARGEST_WEIGHT)))
    if wrong.any():
        where = np.argwhere(wrong)[0]
        raise ValueError(
            f"feature_weights must be 0, or from {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}; got "
            f"{array[tuple(where)]} at [{', '.join(str(int(i)) for i in where)}]"
        )
    return checks.read_only(array + 0.0)  # no negative zeros: equal weights have equal bits


def require_weighted_norms(atoms: Dictionary, weights: np.ndarray) -> None:
    """Raise ValueError if the squared norm of an atom overflows with weights of features."""
    with np.errstate(over="ignore"):
        if weights.dtype == np.bool_ or np.isfinite(weights.max() * atoms.squared_norms.max()):
            return
        every = np.arange(atoms.shape[0])
        for row in np.atleast_2d(weights):
            lost = ~np.isfinite(atoms.weighted_squared_norms(row, np.zeros_like(every), every))
            if lost.any():
                raise ValueError(
                    "feature_weights must leave the squared norm of each atom, the sum of w_j d_ij^2, in "
                    f"the range of floats; got inf for atom {int(np.argmax(lost))}: divide them, or the "
                    "dictionary"
                )


def _require_weighted_signals(values: np.ndarray, weights: np.ndarray) -> None:
    """Raise ValueError if the squared norm of a weighted signal overflows, of which certificates are made."""
    with np.errstate(over="ignore"):
        weighted = weights * values
        lost = ~np.isfinite(np.einsum("ij,ij->i", weighted, weighted))
    if lost.any():
        raise ValueError(
            "feature_weights must leave the squared norm of each signal times its weights, the sum of "
            f"(w_j s_j)^2, in the range of floats; got inf for signal {int(np.argmax(lost))}: divide them, "
            "or the signals"
        )


def _bools(mask: Any) -> np.ndarray:
    if sparse.issparse(mask) or np.ma.isMaskedArray(mask):
        raise TypeError(f"mask must be a dense array of bools; got a {type(mask).__name__}")
    try:
        array = np.asarray(mask)
    except ValueError:
        raise TypeError(f"mask must be an array of bools; got {type(mask).__name__}") from None
    if array.dtype != np.bool_:
        raise TypeError(
            f"mask must be an array of bools, True where a feature is known; got dtype {array.dtype}"
        )
    return array


def _numbers(weights: Any) -> np.ndarray:
    if sparse.issparse(weights) or np.ma.isMaskedArray(weights):
        raise TypeError(f"feature_weights must be a dense array of numbers; got a {type(weights).__name__}")
    try:
        array = np.asarray(weights)
    except ValueError:
        kind = type(weights).__name__
        raise TypeError(f"feature_weights must be an array of numbers; got {kind}") from None
    if array.dtype.kind not in "fiu":
        hint = ": pass it as mask" if array.dtype == np.bool_ else ""
        raise TypeError(f"feature_weights must be an array of real numbers; got dtype {array.dtype}{hint}")
    return array


def _transposed(atoms: Dictionary, shape: tuple[int, ...]) -> str:
    """Return what to do if the atoms are columns, as the variables of a regression."""
    n_atoms, n_features = atoms.shape
    if shape == (n_features, 1) != (1, 1):
        return "; signals are rows: pass signals.T"
    is_column = shape[-1:] == (n_atoms,) != (n_features,)
    return "; atoms are rows: for a regression pass X.T" if is_column else ""


def _require_shape(name: str, array: np.ndarray, n_features: int, n_signals: int | None) -> None:
    if array.shape == (n_features,) or (n_signals is not None and array.shape == (n_signals, n_features)):
        return
    rule = f"({n_features},), one for all signals"
    if n_signals is not None:
        rule += f", or ({n_signals}, {n_features}), a row for each signal"
    raise ValueError(f"{name} must have shape {rule}; got shape {array.shape}")


def checked_signals(
    signals: Any,
    atoms: Dictionary,
    *,
    mask: Any = None,
    weights: Any = None,
    shared: np.ndarray | None = None,
) -> Signals:
    """Return the signals that a caller passed.

    Shapes: signals (n_signals, n_features); shared (n_features,).
    """
    if np.ma.is_masked(signals):
        raise TypeError(
            "signals must not be a masked array; pass its data, and mask=~numpy.ma.getmaskarray(signals): "
            "True is a feature that is known"
        )
    is_sparse = sparse.issparse(signals)
    if is_sparse:
        values = _compressed(signals, atoms)
    else:
        one = "; for one signal pass signal[np.newaxis]" if np.ndim(signals) == 1 else ""
        meaning = f"(n_signals, n_features){one}{_transposed(atoms, np.shape(signals))}"
        values = checks.float_array("signals", signals, shape=(None, None), meaning=meaning)
    n_signals, n_features = values.shape
    if n_features != atoms.shape[1]:
        raise ValueError(
            f"dictionary has {atoms.shape[1]} features but signals have {n_features}"
            + _transposed(atoms, values.shape)
        )
    weights = feature_weights(mask, weights, n_features=n_features, n_signals=n_signals)
    if weights is None:
        weights = shared
    else:
        require_weighted_norms(atoms, weights)
    if is_sparse:
        if weights is not None:
            raise TypeError(
                "signals must be a dense array with mask or feature_weights; got a "
                f"{type(signals).__name__}: what it does not store is zero, not missing; pass "
                "signals.toarray()"
            )
        energies = 0.5 * checked_squared_norms("signals", "signal", values)
        return Signals(values, None, checks.read_only(energies))
    hint = ": for features that are missing, pass mask="
    weighted = values
    if weights is not None:
        hint = " where it counts: mask is False, or the weight 0, where a feature is missing"
        weighted = values = np.where(weights != 0, values, 0.0)
        if weights.dtype != np.bool_:
            checks.require_finite("signals", values, hint=hint)
            _require_weighted_signals(values, weights)
            weighted = np.sqrt(weights) * values
    energies = 0.5 * checked_squared_norms("signals", "signal", weighted, hint=hint)
    return Signals(checks.read_only(values), weights, checks.read_only(energies))


def _compressed(signals: Any, atoms: Dictionary) -> sparse.csr_array:
    """Return a copy with each entry that is not zero once, in order, as float64."""
    kind = type(signals).__name__
    if signals.format != "csr":
        raise TypeError(
            f"signals must be an array, or compressed rows (CSR); got a {kind}: pass signals.tocsr()"
        )
    if not atoms.is_matrix:
        raise TypeError(
            f"signals must be a dense array with a {type(atoms).__name__}; got a {kind}: pass "
            "signals.toarray()"
        )
    hint = ": for features that are missing, pass a dense array and mask="
    return compressed_rows("signals", signals, meaning="(n_signals, n_features)", hint=hint)

"""The signals of a problem as they are accepted, and how much each of their features counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers.problem.atoms import Atoms, checked_squared_norms, compressed_rows

# Of a weight that is not zero, so that neither it nor its root nor its product with a residual is lost.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-60, 1e60


class Signals(NamedTuple):
    """Signals that were checked."""

    values: np.ndarray | sparse.csr_array
    """Shape (n_signals, n_features); zero where a feature does not count."""
    weights: np.ndarray | None
    """The weights of features: see `feature_weights`."""
    energies: np.ndarray
    """1/2 sum_j w_j s_j^2, shape (n_signals,)."""


def feature_weights(
    mask: Any, weights: Any, *, n_features: int, n_signals: int | None = None
) -> np.ndarray | None:
    """Return w of features, in E = 1/2 sum_j w_j (s_j - (aD)_j)^2 + ..., as bools of a mask, or None."""
    if mask is None and weights is None:
        return None
    if mask is not None and weights is not None:
        raise ValueError(
            "mask must be None with feature_weights; got both: pass weights of 0 where a feature is missing"
        )
    if weights is None:
        name, value, kinds, rule = "mask", mask, "b", "bools, True where a feature is known"
    else:
        name, value, kinds, rule = "feature_weights", weights, "fiu", "real numbers; pass bools as mask"
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in kinds or np.ma.isMaskedArray(value):
        got = f"{type(value).__name__} of dtype {array.dtype}"
        raise TypeError(f"{name} must be a dense array of {rule}; got {got}")
    if array.shape != (n_features,) and (n_signals is None or array.shape != (n_signals, n_features)):
        each = "" if n_signals is None else f", or ({n_signals}, {n_features}), a row for each signal"
        raise ValueError(
            f"{name} must have shape ({n_features},), one for all signals{each}; got shape {array.shape}"
        )
    if name == "mask":
        return checks.read_only(np.array(array, order="C"))
    array = np.array(array, dtype=np.float64, order="C") + 0.0  # no negative zeros: equal weights, equal bits
    wrong = ~((array == 0.0) | ((array >= SMALLEST_WEIGHT) & (array <= LARGEST_WEIGHT)))
    if wrong.any():
        where = np.argwhere(wrong)[0].tolist()
        raise ValueError(
            f"{name} must be 0, or from {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}; got {array[wrong][0]} at "
            f"{where}"
        )
    return checks.read_only(array)


def require_weighted_norms(atoms: Atoms, weights: np.ndarray) -> None:
    """Raise ValueError if the squared norm of an atom overflows with weights of features."""
    with np.errstate(over="ignore"):
        if weights.dtype == np.bool_ or np.isfinite(weights.max() * atoms.squared_norms.max()):
            return
        norms = atoms.weighted_squared_norms(weights).max(axis=0)
        _require_in_range("each atom, the sum of w_j d_ij^2", "atom", norms, "dictionary")


def _require_in_range(sums: str, row: str, squared_norms: np.ndarray, what: str) -> None:
    lost = ~np.isfinite(squared_norms)
    if lost.any():
        raise ValueError(
            f"feature_weights must leave the squared norm of {sums}, in the range of floats; got inf for "
            f"{row} {int(np.argmax(lost))}: divide them, or the {what}"
        )


def _transposed(atoms: Atoms, shape: tuple[int, ...]) -> str:
    """Return what to do if the atoms are columns, as the variables of a regression."""
    n_atoms, n_features = atoms.shape
    if shape == (n_features, 1) != (1, 1):
        return "; signals are rows: pass signals.T"
    is_column = shape[-1:] == (n_atoms,) != (n_features,)
    return "; atoms are rows: for a regression pass X.T" if is_column else ""


def checked_signals(
    signals: Any,
    atoms: Atoms,
    *,
    mask: Any = None,
    weights: Any = None,
    shared: np.ndarray | None = None,
) -> Signals:
    """Return signals, checked; `shared` are weights of features that hold unless others are given."""
    # Shapes: signals (n_signals, n_features); shared (n_features,).
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
        values = checks.real_array("signals", signals, shape=(None, None), meaning=meaning, finite=False)
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
    hint, weighted = ": for features that are missing, pass mask=", values
    if weights is not None:
        if is_sparse:
            raise TypeError(
                "signals must be a dense array with mask or feature_weights; got a "
                f"{type(signals).__name__}: what it does not store is zero, not missing; pass "
                "signals.toarray()"
            )
        hint = " where it counts: mask is False, or the weight 0, where a feature is missing"
        weighted = values = np.where(weights != 0, values, 0.0)
        if weights.dtype != np.bool_:
            checks.require_finite("signals", values, hint=hint)
            weighted = np.sqrt(weights) * values
            with np.errstate(over="ignore"):
                norms = np.square(weights * values).sum(axis=1)
            _require_in_range(
                "each signal times its weights, the sum of (w_j s_j)^2", "signal", norms, "signals"
            )
    energies = 0.5 * checked_squared_norms("signals", "signal", weighted, hint=hint)
    return Signals(values if is_sparse else checks.read_only(values), weights, checks.read_only(energies))


def _compressed(signals: Any, atoms: Atoms) -> sparse.csr_array:
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

"""Checks of signals, masks and weights of features."""

from typing import Any

import numpy as np
from scipy import sparse

from snn._interrupts import float_errors
from snn.base import checks
from solvers.problem.atoms import Atoms, checked_squared_norms, compressed_rows

# Range of the nonzero weights of features.  The root of a weight in this range, and the product of the weight
# with a residual, neither underflow nor overflow.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-60, 1e60


def known_features(mask: Any, weights: Any) -> np.ndarray | None:
    """Return True for features that are known for a signal, or None if all are; arguments are not checked."""
    if mask is None and weights is None:
        return None
    try:
        known = np.asarray(weights if mask is None else mask) != 0
    except ValueError:
        return None
    known = known.any(axis=0) if known.ndim == 2 else known
    return None if known.all() else known


def checked_weights(
    mask: Any, weights: Any, *, n_features: int, n_signals: int | None = None, atoms: Atoms | None = None
) -> np.ndarray | None:
    """Return the weights w of features, as bools if they are a mask; None if there are no weights."""
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
        array = np.array(value, order="C")
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
    if name == "feature_weights":
        array = array.astype(np.float64) + 0.0  # no negative zeros, so that equal weights have equal bits
        wrong = ~((array == 0.0) | ((array >= SMALLEST_WEIGHT) & (array <= LARGEST_WEIGHT)))
        if wrong.any():
            where = np.argwhere(wrong)[0].tolist()
            raise ValueError(
                f"{name} must be 0, or from {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}; got {array[wrong][0]} "
                f"at {where}"
            )
        with float_errors(over="ignore"):
            if atoms is not None and np.isinf(array.max() * atoms.squared_norms.max()):
                norms = atoms.weighted_squared_norms(array).max(axis=0)
                _require_finite_norms("each atom, the sum of w_j d_ij^2", "atom", norms)
    return checks.read_only(array)


def checked_signals(
    signals: Any, atoms: Atoms, mask: Any, weights: Any, shared: np.ndarray | None
) -> tuple[np.ndarray | sparse.csr_array, np.ndarray | None, np.ndarray]:
    """Return signals (zero in features that do not count), weights (by default `shared`) and energies."""
    kind = type(signals).__name__
    if np.ma.is_masked(signals):
        raise TypeError(
            "signals must not have masked entries; got a masked array: pass its data, and "
            "mask=~numpy.ma.getmaskarray(signals), which is True for a known feature"
        )
    is_sparse = sparse.issparse(signals)
    if is_sparse:
        if signals.format != "csr":
            raise TypeError(
                f"signals must be an array, or compressed rows (CSR); got a {kind}: pass signals.tocsr()"
            )
        if not atoms.is_matrix:
            raise TypeError(
                f"signals must be a dense array with a ConvolutionalDictionary; got a {kind}: pass "
                "signals.toarray()"
            )
        hint = ": for features that are missing, pass a dense array and mask="
        values = compressed_rows("signals", signals, meaning="(n_signals, n_features)", hint=hint)
    else:
        one = "; for one signal pass np.atleast_2d(signal)" if np.ndim(signals) == 1 else ""
        meaning = f"(n_signals, n_features){one}{_transposed(atoms, np.shape(signals))}"
        rows = atoms.rows
        if rows is not None and rows.shape == 2 * np.shape(signals)[:1] and np.allclose(rows, rows.T):
            meaning += "; for a Gram matrix with correlations call LassoProblem.from_statistics"
        values = checks.real_array("signals", signals, shape=(None, None), meaning=meaning, finite=False)
    n_signals, n_features = values.shape
    if n_features != atoms.shape[1]:
        raise ValueError(
            f"signals must have {atoms.shape[1]} features, as atoms have; got {n_features}"
            + _transposed(atoms, values.shape)
        )
    weights = checked_weights(mask, weights, n_features=n_features, n_signals=n_signals, atoms=atoms)
    weights = shared if weights is None else weights
    hint, weighted = ": for features that are missing, pass mask=", values
    if weights is not None:
        if is_sparse:
            raise TypeError(
                f"signals must be a dense array with mask or feature_weights; got a {kind}: what it does not "
                "store is zero, not missing; pass signals.toarray()"
            )
        hint = " where it counts: mask is False, or the weight 0, where a feature is missing"
        weighted = values = np.where(weights != 0, values, 0.0)
        if weights.dtype != np.bool_:
            checks.require_finite("signals", values, hint=hint)
            weighted = np.sqrt(weights) * values
            with float_errors(over="ignore"):
                norms = np.square(weights * values).sum(axis=1)
            _require_finite_norms("each signal times its weights, the sum of (w_j s_j)^2", "signal", norms)
    energies = 0.5 * checked_squared_norms("signals", "signal", weighted, hint=hint)
    return values if is_sparse else checks.read_only(values), weights, checks.read_only(energies)


def _require_finite_norms(sums: str, row: str, squared_norms: np.ndarray) -> None:
    if np.isinf(squared_norms).any():
        raise ValueError(
            f"feature_weights must leave the squared norm of {sums}, in the range of floats; got inf for "
            f"{row} {int(np.argmax(squared_norms))}: divide them, or the {row}s"
        )


def _transposed(atoms: Atoms, shape: tuple[int, ...]) -> str:
    """Return a hint for errors if the atoms are columns, like the variables of a regression."""
    n_atoms, n_features = atoms.shape
    if shape == (n_features, 1) != (1, 1):
        return "; signals are rows: pass signals.T"
    is_column = shape[-1:] == (n_atoms,) != (n_features,)
    return "; atoms are rows: for a regression pass X.T" if is_column else ""

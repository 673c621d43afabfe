"""Checks of signals to learn from, and warnings of signals that can hardly be learned from."""

import math

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from solvers.problem.messages import IllPosedWarning
from solvers.problem.signals import checked_weights

# A single signal of fewer may well have most of the energy.
SIGNALS_TO_COMPARE = 10
# With at least this number of signals, a mean with more than this share of their energy makes all atoms
# alike: digits have .69, photographs .74.
SIGNALS_WITH_MEAN, LARGEST_SHARE_OF_MEAN = 200, 0.85
# Objectives, which are sums of squares, stay in the range of floats.
SMALLEST_NORM, LARGEST_NORM = 1e-150, 1e150


def checked_signals(
    signals: ArrayLike,
    n_inputs: int | None,
    mask: ArrayLike | None = None,
    *,
    first: int = 0,
    signed: bool = False,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return signals, shape (n_signals, n_inputs), and a mask of their shape or None, having checked both."""
    signals = checks.real_array(
        "signals", signals, shape=(None, n_inputs), meaning="(n_signals, n_inputs)", finite=False
    )
    if mask is None:
        hint = ": if it is missing, pass mask=~np.isnan(signals)" if np.isnan(signals).any() else ""
        checks.require_finite("signals", signals, hint=hint, first=first)
        least = signals.min()
    else:
        n_signals, n_features = signals.shape
        known = checked_weights(mask, None, n_features=n_features, n_signals=n_signals)
        assert known is not None
        mask = np.broadcast_to(known, signals.shape)
        wrong = np.argwhere(mask & ~np.isfinite(signals))
        if len(wrong):
            row, column = wrong[0]
            raise ValueError(
                f"signals must be finite where mask is True; got {signals[row, column]} at "
                f"[{first + row}, {column}]"
            )
        least = signals.min(where=mask, initial=np.inf)
    if least < 0.0 and not signed:
        raise ValueError(
            "signals must not be negative (split them into + and - channels, or learn atoms of either sign: "
            f"positive_atoms=False); got {least}"
        )
    return signals, mask


def scale_to(amplitude: float, largest: float, energy: float) -> float:
    """Return `amplitude` over the root mean square norm, whose square is `energy` in units of `largest`^2."""
    if largest == 0.0:
        raise ValueError("signals must not all be zero: there is nothing to learn")
    norm = largest * float(np.sqrt(energy))
    if not SMALLEST_NORM <= norm <= LARGEST_NORM:
        raise ValueError(
            f"signals must have a root mean square norm between {SMALLEST_NORM:g} and {LARGEST_NORM:g}, so "
            f"that objectives are in the range of floats; got {norm:.3g}: change their unit"
        )
    return amplitude / norm


def warn_if_ill_scaled(name: str, signals: np.ndarray) -> None:
    """Warn if one of many signals, or their mean, has most of the energy; `name` is the caller's for them."""
    # The network's unit is the root mean square norm: beside one that dominates, others hardly make it spike.
    # With a large mean all atoms resemble the mean and each other, and the network may run away.
    scaled = signals / (np.abs(signals).max() or 1.0)  # squares of large numbers leave the range of floats
    energies = np.einsum("ij,ij->i", scaled, scaled)
    if np.count_nonzero(energies) < SIGNALS_TO_COMPARE:
        return
    worst = int(np.argmax(energies))
    if energies[worst] > 0.5 * energies.sum():
        others = np.median(np.sqrt(energies[energies > 0.0]))
        checks.warn_caller(
            f"{name}[{worst}] has more energy than all other signals together, a norm of "
            f"{math.sqrt(energies[worst]) / others:.3g} times the median: remove it, or bring "
            "signals to unit norm (dictlearn.normalise)",
            IllPosedWarning,
        )
        return
    mean = scaled.mean(axis=0)
    share = len(scaled) * float(mean @ mean) / float(energies.sum())
    if len(scaled) >= SIGNALS_WITH_MEAN and share > LARGEST_SHARE_OF_MEAN:
        checks.warn_caller(
            f"{name} has an offset: its mean has {100.0 * share:.0f} % of the energy, so that all atoms will "
            f"resemble it, and learning may run away: subtract it, {name} - {name}.mean(axis=0), and learn "
            "atoms of either sign",
            IllPosedWarning,
        )

"""Checks of the signals from which dictionaries are learned."""

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from solvers.problem.signals import checked_weights


def checked_signals(
    signals: ArrayLike,
    n_inputs: int | None,
    mask: ArrayLike | None = None,
    *,
    first: int = 0,
    signed: bool = False,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Check and return signals, shape (n_signals, n_inputs), and a mask of the same shape, or None."""
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
            f"signals must not be negative; got {least}: split them into + and - channels, or learn atoms of "
            "either sign (positive_atoms=False)"
        )
    return signals, mask

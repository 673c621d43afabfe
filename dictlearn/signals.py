"""What learners require of signals."""

from __future__ import annotations

import numpy as np

from snn import checks


def checked_signals(signals: np.ndarray, n_inputs: int | None) -> np.ndarray:
    """Return signals as a float array, shape (n_signals, n_inputs), having checked their signs.

    Parameters
    ----------
    signals : array_like
        The value to check.
    n_inputs : int or None
        How many features they must have, if known.
    """
    signals = checks.real_array("signals", signals, shape=(None, n_inputs), meaning="(n_signals, n_inputs)")
    if signals.min() < 0.0:
        raise ValueError(
            f"signals must not be negative (split them into + and - channels); got {signals.min()}"
        )
    return signals


def amplitude_scale(signals: np.ndarray, amplitude: float) -> float:
    """Return the factor that brings the root mean square norm of signals to `amplitude`.

    Parameters
    ----------
    signals : ndarray, shape (n_signals, n_inputs)
        Not all zero.
    amplitude : float
        Positive.
    """
    largest = float(signals.max())
    if largest == 0.0:
        raise ValueError("signals must not all be zero: there is nothing to learn")
    # Divided first, because squares of very large or small numbers leave the range of floats.
    norm = largest * float(np.sqrt(np.mean(((signals / largest) ** 2).sum(axis=1))))
    return amplitude / norm

"""Signed signals for neurons without sign: a positive and a negative channel."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks


def split_channels(signals: ArrayLike) -> np.ndarray:
    """Return the positive and the negative part of each signal, ``[max(x, 0), max(-x, 0)]``.

    Parameters
    ----------
    signals : array_like, shape (n_signals, n_features)

    Returns
    -------
    ndarray, shape (n_signals, 2 * n_features)
        Not negative; each signal has the norm it had.

    Raises
    ------
    TypeError, ValueError
        If `signals` is of the wrong kind or shape.
    """
    signals = checks.real_array("signals", signals, shape=(None, None), meaning="(n_signals, n_features)")
    # Not np.maximum, which may keep the sign of a zero.
    return np.hstack([np.where(signals > 0.0, signals, 0.0), np.where(signals < 0.0, -signals, 0.0)])


def join_channels(split: ArrayLike) -> np.ndarray:
    """Return the positive channel minus the negative one, the inverse of `split_channels`.

    Parameters
    ----------
    split : array_like, shape (n_signals, 2 * n_features)
        Signals, or atoms, one in each row; both channels of a feature may be non-zero.

    Returns
    -------
    ndarray, shape (n_signals, n_features)

    Raises
    ------
    TypeError, ValueError
        If `split` is of the wrong kind or shape, or has an odd number of columns.
    """
    split = checks.real_array("split", split, shape=(None, None), meaning="(n_signals, 2 * n_features)")
    if split.shape[1] % 2:
        raise ValueError(f"split must have two columns a feature; got {split.shape[1]} columns")
    n_features = split.shape[1] // 2
    return split[:, :n_features] - split[:, n_features:]

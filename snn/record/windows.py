"""The smooth window, and the moments of spike times that it is read from."""

from __future__ import annotations

import numpy as np

POWERS = (2, 3, 4)
LONGEST_WINDOW = 1e75
"""In synaptic time constants: beyond, the fourth power of a time may leave the range of numbers."""


def window_moments(times: np.ndarray, neurons: np.ndarray, n_neurons: int) -> np.ndarray:
    """Return the sums of t^2, t^3 and t^4 over the spike times of each neuron, shape (n_neurons, 3)."""
    sums = [np.bincount(neurons, weights=times**power, minlength=n_neurons) for power in POWERS]
    return np.stack(sums, axis=-1)


def smooth_rate_of_moments(moments: np.ndarray, duration: float | np.ndarray) -> np.ndarray:
    """Return the rates of neurons through the smooth window, from the moments of their spike times.

    With M_p the sum of t^p over a neuron's spikes and T the duration (docs/theory.md, section 4)::

        a = 1/T sum_k w(t_k / T) = 30/T (M_2 / T^2 - 2 M_3 / T^3 + M_4 / T^4)      w(s) = 30 s^2 (1 - s)^2

    Parameters
    ----------
    moments : ndarray, shape (..., n_neurons, 3)
        M_2, M_3 and M_4 of each neuron, of times since the window began.
    duration : float or ndarray, shape (...)
        The length of the window, positive.

    Returns
    -------
    ndarray, shape (..., n_neurons)

    Raises
    ------
    ValueError
        If shapes do not fit, or a duration is not positive or is beyond 1e75.
    """
    moments = np.asarray(moments, dtype=np.float64)
    duration = np.asarray(duration, dtype=np.float64)
    if moments.ndim < 2 or moments.shape[-1] != len(POWERS):
        raise ValueError(f"moments must have shape (..., n_neurons, 3); got shape {moments.shape}")
    if duration.shape not in ((), moments.shape[:-2]):
        raise ValueError(
            f"duration must be a number, or one for each run of moments, shape {moments.shape[:-2]}; got "
            f"shape {duration.shape}"
        )
    if not ((duration > 0.0) & (duration <= LONGEST_WINDOW)).all():
        raise ValueError(f"duration must be positive and at most {LONGEST_WINDOW:g}; got {duration}")
    length = duration[..., np.newaxis]
    second, third, fourth = (moments[..., k] / length**power for k, power in enumerate(POWERS))
    return 30.0 / length * (second - 2.0 * third + fourth)

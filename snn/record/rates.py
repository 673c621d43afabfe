"""Read-outs: from spikes to rates.

All of them tend to the same limit.  They differ in how fast, and in the entries that are exactly zero.
"""

from __future__ import annotations

import numpy as np

from snn.base import checks
from snn.record.result import SimulationResult, SpikeTrain, require_record
from snn.record.windows import smooth_rate_of_moments, window_moments

__all__ = [
    "exponential_rate",
    "rate_curve",
    "smooth_rate",
    "smooth_rate_of_moments",
    "spike_rate",
    "thresholded_average_current",
]


def spike_rate(spikes: SpikeTrain, *, start: float | None = None, stop: float | None = None) -> np.ndarray:
    """Return spikes per unit of time in (start, stop], shape (n_neurons,).

    From the beginning of the run the error falls like 1/t, and every early spike counts.  Over a later
    interval, neurons that fired only early are exactly zero.

    Parameters
    ----------
    spikes : SpikeTrain
        Recorded spikes.
    start, stop : float, optional
        The interval; by default the whole record.

    Raises
    ------
    TypeError, ValueError
        If the interval is empty or not within the record.
    """
    start, stop = _interval(spikes, start, stop)
    # A spike at the very start of the record belongs to it.
    first = None if start == spikes.start else start
    return spikes.counts(start=first, stop=stop) / (stop - start)


def smooth_rate(spikes: SpikeTrain, *, start: float | None = None, stop: float | None = None) -> np.ndarray:
    """Return the rates in (start, stop] through a smooth window, shape (n_neurons,).

    With T = stop - start::

        a_i = 1/T sum_k w((t_ik - start) / T)        w(s) = 30 s^2 (1 - s)^2

    Each spike counts by a bump that rises from zero and falls to zero without an edge.  The first transient
    of a network is forgotten, and where its potentials have bounded primitives the error falls like 1/T^2
    (docs/theory.md, section 4), not like 1/T as that of `spike_rate`.

    Parameters
    ----------
    spikes : SpikeTrain
        Recorded spikes.
    start, stop : float, optional
        The interval; by default the whole record.

    Raises
    ------
    TypeError, ValueError
        If the interval is empty or not within the record.
    """
    start, stop = _interval(spikes, start, stop)
    first, last = np.searchsorted(spikes.times, [start, stop], side="right")
    moments = window_moments(spikes.times[first:last] - start, spikes.neurons[first:last], spikes.n_neurons)
    return smooth_rate_of_moments(moments, stop - start)


def rate_curve(spikes: SpikeTrain, times: np.ndarray, *, start: float | None = None) -> np.ndarray:
    """Return the rates over (start, t] for each t in `times`, shape (n_times, n_neurons).

    Parameters
    ----------
    spikes : SpikeTrain
        Recorded spikes.
    times : array_like, shape (n_times,)
        Ends of the intervals, not decreasing, within the record.
    start : float, optional
        Where all intervals begin; by default where the record does.

    Raises
    ------
    TypeError, ValueError
        If the times decrease, or an interval is empty or not within the record.
    """
    start, _ = _interval(spikes, start, None)
    times = checks.real_array("times", times, shape=(None,), meaning="ends of the intervals")
    if (np.diff(times) < 0.0).any() or times[0] <= start or times[-1] > spikes.stop:
        raise ValueError(
            f"times must not decrease and lie in ({start}, {spikes.stop}]; got {times[0]} to {times[-1]}"
        )
    # A spike at the very start of the record belongs to it.
    counts = spikes.cumulative_counts(times, start=None if start == spikes.start else start)
    return counts / (times - start)[:, np.newaxis]


def thresholded_average_current(result: SimulationResult) -> np.ndarray:
    """Return max(u, 0) / theta, shape (n_neurons,), with u the average soma current of the run.

    The sparsest read-out: neurons whose drive is negative on average are exactly zero, whatever they
    fired at first.  It differs from the rate by at most C / t (Tang, Lin and Davies, equation 8).

    Parameters
    ----------
    result : SimulationResult
        Of any run; no spikes need be recorded.

    Raises
    ------
    TypeError
        If `result` is of another kind.
    """
    checks.instance_of("result", result, SimulationResult)
    return np.maximum(result.average_soma_current, 0.0) / result.network.firing_threshold


def exponential_rate(spikes: SpikeTrain, *, time_constant: float, stop: float | None = None) -> np.ndarray:
    """Return the exponentially weighted rate at `stop`, shape (n_neurons,).

    With T the time constant and t0 the start of the record::

        a_i = sum_k e^-(stop - t_ik)/T / (T (1 - e^-(stop - t0)/T))

    The denominator is the weight of the whole record, so that a regular spike train shows its rate at once.
    It forgets early spikes, and it does not converge: its error stays of the order of 1 / T.

    Parameters
    ----------
    spikes : SpikeTrain
        Recorded spikes.
    time_constant : float
        T, in synaptic time constants; positive.
    stop : float, optional
        When to read; by default at the end of the record.

    Raises
    ------
    TypeError, ValueError
        If `stop` is not within the record, or the time constant not positive.
    """
    start, stop = _interval(spikes, None, stop)
    time_constant = checks.positive_number("time_constant", time_constant)
    last = np.searchsorted(spikes.times, stop, side="right")
    kernel = np.exp((spikes.times[:last] - stop) / time_constant)
    weighted = np.bincount(spikes.neurons[:last], weights=kernel, minlength=spikes.n_neurons)
    return weighted / (-time_constant * np.expm1((start - stop) / time_constant))


def _interval(spikes: SpikeTrain, start: float | None, stop: float | None) -> tuple[float, float]:
    require_record(spikes)
    start = spikes.start if start is None else checks.real_number("start", start)
    stop = spikes.stop if stop is None else checks.real_number("stop", stop)
    if not spikes.start <= start < stop <= spikes.stop:
        raise ValueError(
            f"start and stop must be an interval in [{spikes.start}, {spikes.stop}]; got {start} and {stop}"
        )
    return start, stop

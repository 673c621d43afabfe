"""Spike trains, and the spike rates that are read from them.

All kinds of rates tend to the same limit.  Rates of different kinds differ in the speed of convergence, and
in the neurons whose rates are exactly zero.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.archive import Entry, Saved
from snn.base.describe import Drawn
from snn.base.value import Value, assign, checked

POWERS = (2, 3, 4)  # powers of spike times in the moments of a smooth rate
TIME_ROUNDING = 1e-9  # relative rounding error of computed times, such as sums t += dt
# Length of the longest smooth window, in synaptic time constants: the fourth power of a time must be finite.
LONGEST_SMOOTH_WINDOW = 1e75


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SpikeTrain(Value, Saved, Drawn):
    """The spikes of n neurons in an interval of time.

    `save` writes a train to a file, and `load` reads it.

    Parameters
    ----------
    times : array_like, shape (n_spikes,)
        Spike times, in synaptic time constants, not decreasing.
    neurons : array_like of int, shape (n_spikes,)
        The neuron that fired each spike.
    n_neurons : int
        Number of neurons of the network.
    start, stop : float
        The interval that was recorded.
    departures : str, default ""
        Names of the deviations of the neurons from the equations of `SpikingNetwork`, e.g. "leak, delays".
        With deviations, potentials and currents cannot be rebuilt from the spikes.
    """

    times: np.ndarray
    neurons: np.ndarray
    n_neurons: int = checked(checks.positive_integer)
    start: float = checked(checks.real_number)
    stop: float = checked(checks.real_number)
    departures: str = ""

    _shown: ClassVar = ("times", "n_neurons", "start", "stop")
    _schema: ClassVar = {
        "times": Entry("f", ("spikes",)),
        "neurons": Entry("i", ("spikes",)),
        "n_neurons": Entry("i", ()),
        "start": Entry("f", ()),
        "stop": Entry("f", ()),
        "departures": Entry("U", ()),
    }

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            *,
            times: ArrayLike,
            neurons: ArrayLike,
            n_neurons: int,
            start: float,
            stop: float,
            departures: str = "",
        ) -> None: ...

    def _check(self) -> None:
        checks.refuse_units("times", self.times)
        times, neurons, start, stop = np.asarray(self.times), np.asarray(self.neurons), self.start, self.stop
        if times.size and times.dtype.kind not in "fiu":
            raise TypeError(f"times must be an array of real numbers; got dtype {times.dtype}")
        if neurons.size and neurons.dtype.kind not in "iu":
            raise TypeError(f"neurons must be an array of integers; got dtype {neurons.dtype}")
        if times.ndim != 1 or neurons.shape != times.shape:
            raise ValueError(
                "times and neurons must be 1-D and equally long; got shapes "
                f"{times.shape} and {neurons.shape}"
            )
        if stop < start:
            raise ValueError(f"stop must not be before start; got {stop} and {start}")
        times = np.ascontiguousarray(times, dtype=np.float64)
        neurons = np.ascontiguousarray(neurons, dtype=np.int64)
        if len(times):
            if not (times[:-1] <= times[1:]).all() or not (start <= times[0] and times[-1] <= stop):
                raise ValueError(
                    f"times must not decrease and lie in [start, stop] = [{start}, {stop}]; got times from "
                    f"{times.min()} to {times.max()}"
                )
            if neurons.min() < 0 or neurons.max() >= self.n_neurons:
                raise ValueError(
                    f"neurons must lie in [0, {self.n_neurons}); got {neurons.min()} to {neurons.max()}"
                )
        assign(self, times=times, neurons=neurons)

    @classmethod
    def poisson(
        cls, rates: ArrayLike, edges: ArrayLike, *, rng: int | np.random.Generator = 0
    ) -> "SpikeTrain":
        """Return independent Poisson processes, one for each neuron, with constant rates in each bin of time.

        Parameters
        ----------
        rates : array_like, shape (n_neurons,) or (n_bins, n_neurons)
            Expected spikes of each neuron per unit of time; one row for each bin if there are several bins.
        edges : array_like, shape (n_bins + 1,)
            Times at which bins begin and end; ``[start, stop]`` for rates that do not change.
        rng : int or numpy.random.Generator, default 0
            Seed or generator of the random numbers.
        """
        edges = _checked_edges(edges)
        rates = np.atleast_2d(checks.real_array("rates", rates, shape=None))
        if len(rates) != len(edges) - 1 or rates.ndim > 2:
            raise ValueError(
                f"rates must have a row for each of {len(edges) - 1} bins; got shape {rates.shape}"
            )
        if (rates < 0.0).any():
            raise ValueError(f"rates must not be negative; got {rates.min()}")
        generator = np.random.default_rng(rng)
        counts = generator.poisson(rates * np.diff(edges)[:, np.newaxis])
        bins, neurons = (
            np.repeat(index, counts.ravel()) for index in map(np.ravel, np.indices(counts.shape))
        )
        # `random` draws from [0, 1), so spikes lie in (edge, next edge], as bins do.
        times = edges[bins + 1] - generator.random(len(bins)) * np.diff(edges)[bins]
        return cls._sorted(times, neurons, n_neurons=rates.shape[1], start=edges[0], stop=edges[-1])

    @classmethod
    def merged(cls, trains: Iterable["SpikeTrain"]) -> "SpikeTrain":
        """Return all spikes of several trains of the same neurons, in the order of time.

        Parameters
        ----------
        trains : iterable of SpikeTrain
            One or more trains, such as parts of a run, that together record one interval without a gap.
        """
        parts = sorted((require_record("trains", train) for train in trains), key=lambda train: train.start)
        if not parts or any(part.n_neurons != parts[0].n_neurons for part in parts):
            numbers = sorted({part.n_neurons for part in parts})
            raise ValueError(f"trains must be one or more, with equal n_neurons; got n_neurons {numbers}")
        ends = np.maximum.accumulate([part.stop for part in parts])
        for end, part in zip(ends, parts[1:], strict=False):
            if part.start > end:
                raise ValueError(
                    f"trains must leave no gap; got no train that records from {end} to {part.start}"
                )
        times = np.concatenate([part.times for part in parts])
        neurons = np.concatenate([part.neurons for part in parts])
        names = [name for part in parts for name in part.departures.split(", ") if name]
        start, n_neurons, departures = parts[0].start, parts[0].n_neurons, ", ".join(dict.fromkeys(names))
        return cls._sorted(
            times, neurons, n_neurons=n_neurons, start=start, stop=ends[-1], departures=departures
        )

    @classmethod
    def _sorted(cls, times: np.ndarray, neurons: np.ndarray, **fields: Any) -> "SpikeTrain":
        order = np.argsort(times, kind="stable")
        return cls(times=times[order], neurons=neurons[order], **fields)

    def __len__(self) -> int:
        return len(self.times)

    def of(self, neuron: int) -> np.ndarray:
        """Return the spike times of one neuron."""
        return self.times[self.neurons == checks.integer("neuron", neuron, 0, self.n_neurons - 1)]

    def counts(self, *, start: float | None = None, stop: float | None = None) -> np.ndarray:
        """Return how often each neuron fired in (start, stop], shape (n_neurons,).

        A spike on an edge, such as the spikes of a clock, counts in the interval that ends at the edge;
        `numpy.histogram` counts it in the next interval.  A spike at the very start of the record counts in
        the interval that begins there.
        """
        if start is None and stop is None:
            return np.bincount(self.neurons, minlength=self.n_neurons)
        return self.binned(self._interval(start, stop))[0]

    def binned(self, edges: ArrayLike) -> np.ndarray:
        """Return how often each neuron fired in each bin, shape (n_bins, n_neurons).

        Bin k is (edges[k], edges[k + 1]], like the interval of `counts`.  A spike that is later than an edge
        by less than 1e-9 of the edge is on the edge, because sums such as ``t += dt`` are rounded.

        Parameters
        ----------
        edges : array_like, shape (n_bins + 1,)
            Edges of the bins, increasing, within the record.
        """
        edges = _checked_edges(edges)
        room = TIME_ROUNDING * np.abs(edges)
        with checks.called(times="edges"):
            checked_times(edges, self.start - room[0], self.stop + room[-1])
        first = None if edges[0] <= self.start else edges[0] + room[0]
        return interval_counts(self, (edges + room)[1:], start=first)

    def time_slice(self, start: float | None = None, stop: float | None = None) -> "SpikeTrain":
        """Return the part of the record in (start, stop]; its spikes are the spikes that `counts` counts."""
        start, stop = self._interval(start, stop)
        ends = np.array([start, stop])
        first, last = np.searchsorted(self.times, ends + TIME_ROUNDING * np.abs(ends), side="right")
        part = slice(0 if start == self.start else first, last)
        times = np.minimum(self.times[part], stop)
        return replace(self, times=times, neurons=self.neurons[part], start=start, stop=stop)

    def time_shift(self, shift: float) -> "SpikeTrain":
        """Return the record with all times later by `shift`, or earlier if `shift` is negative."""
        shift = checks.real_number("shift", shift)
        return replace(self, times=self.times + shift, start=self.start + shift, stop=self.stop + shift)

    def intervals(self) -> list[np.ndarray]:
        """Return the times between successive spikes, one array for each neuron."""
        return [np.diff(times) for times in self._of_each()]

    def _of_each(self) -> list[np.ndarray]:
        """Return the spike times, one array for each neuron."""
        order = np.argsort(self.neurons, kind="stable")
        return np.split(
            self.times[order], np.cumsum(np.bincount(self.neurons, minlength=self.n_neurons))[:-1]
        )

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with a row for each spike and columns ``time`` and ``neuron``."""
        return checks.installed("pandas", extra="test").DataFrame(
            {"time": self.times, "neuron": self.neurons}
        )

    def to_neo(self, time_constant: float, units: str = "ms") -> list[Any]:
        """Return a `neo.SpikeTrain` for each neuron, for Elephant and other programs that analyse spikes.

        Parameters
        ----------
        time_constant : float
            The synaptic time constant, in `units`.
        units : str, default "ms"
            The unit of the times.
        """
        scale = checks.positive_number("time_constant", time_constant)
        neo = checks.installed("neo", extra="peers")
        limits = {"t_start": self.start * scale, "t_stop": self.stop * scale, "units": units}
        trains = enumerate(self._of_each())
        return [neo.SpikeTrain(times * scale, name=f"neuron {i}", neuron=i, **limits) for i, times in trains]

    def rate(self, *, start: float | None = None, stop: float | None = None) -> np.ndarray:
        """Return spikes per unit of time in (start, stop], shape (n_neurons,).

        If the interval begins with the run, the error falls like 1/t, and the first spikes of the run are
        included.  If the interval begins later, a neuron that fired only before the interval has the rate
        zero.

        Parameters
        ----------
        start, stop : float, optional
            The interval; by default the whole record.
        """
        start, stop = self._interval(start, stop)
        return self.rate_curve([stop], start=start)[0]

    def rate_curve(self, times: ArrayLike, *, start: float | None = None) -> np.ndarray:
        """Return the rates over (start, t] for each t in `times`, shape (n_times, n_neurons).

        Parameters
        ----------
        times : array_like, shape (n_times,)
            Ends of the intervals, not decreasing, within the record.
        start : float, optional
            Time at which all intervals begin; by default the start of the record.
        """
        start, _ = self._interval(start, None)
        times = checked_times(times, start, self.stop, after_start=True)
        # A spike at the very start of the record counts.
        counts = cumulative_counts(self, times, start=None if start == self.start else start)
        return counts / (times - start)[:, np.newaxis]

    def smooth_rate(self, *, start: float | None = None, stop: float | None = None) -> np.ndarray:
        """Return the spike rates in (start, stop], weighted by a smooth window, shape (n_neurons,).

        With T = stop - start::

            a_i = 1/T sum_k w((t_ik - start) / T)        w(s) = 30 s^2 (1 - s)^2

        The window gives little weight to the first transient of a network.  If the network's potentials have
        bounded primitives, the error falls like 1/T^2, and the error of `rate` falls like 1/T
        (docs/theory.md, section 4).

        Parameters
        ----------
        start, stop : float, optional
            The interval; by default the whole record.
        """
        start, stop = self._interval(start, stop)
        first, last = np.searchsorted(self.times, [start, stop], side="right")
        times, neurons = self.times[first:last] - start, self.neurons[first:last]
        sums = [np.bincount(neurons, times**power, minlength=self.n_neurons) for power in POWERS]
        return smooth_rate_of_moments(np.stack(sums, axis=-1), stop - start)

    def _interval(self, start: float | None, stop: float | None) -> tuple[float, float]:
        start = self.start if start is None else checks.real_number("start", start)
        stop = self.stop if stop is None else checks.real_number("stop", stop)
        if not self.start <= start < stop <= self.stop:
            raise ValueError(
                f"start and stop must be an interval in [{self.start}, {self.stop}]; got {start} and {stop}"
            )
        return start, stop


def require_record(name: str, spikes: Any) -> SpikeTrain:
    """Return recorded spikes; otherwise raise TypeError, which says where a run has its spikes."""
    hint = ""
    if spikes is None or getattr(spikes, "spikes", spikes) is None:
        hint = ": run the network with record_spikes=True, and pass run.spikes"
    elif hasattr(spikes, "spikes"):
        hint = ": pass run.spikes"
    return checks.instance_of(name, spikes, SpikeTrain, hint=hint)


def checked_times(
    times: ArrayLike, start: float = -np.inf, stop: float = np.inf, *, after_start: bool = False
) -> np.ndarray:
    """Return times that do not decrease and lie in [start, stop], or in (start, stop]."""
    times = checks.real_array("times", times, shape=(None,))
    is_before = times[0] <= start if after_start else times[0] < start
    if is_before or times[-1] > stop or (np.diff(times) < 0.0).any():
        interval = f"{'(' if after_start else '['}{start}, {stop}]"
        raise ValueError(
            f"times must not decrease and lie in {interval}; got times from {times[0]} to {times[-1]}"
        )
    return times


def _checked_edges(edges: ArrayLike) -> np.ndarray:
    """Return the edges of one or more bins, or raise an error."""
    edges = checks.real_array("edges", edges, shape=(None,), meaning="one more than the number of bins")
    if len(edges) < 2 or not (edges[:-1] < edges[1:]).all():
        raise ValueError(f"edges must be at least two increasing numbers; got {edges!s:.60}")
    return edges


def cumulative_counts(spikes: SpikeTrain, times: np.ndarray, **options: Any) -> np.ndarray:
    """Return how often each neuron fired in (start, t] for each t, shape (n_times, n_neurons)."""
    return np.cumsum(interval_counts(spikes, times, **options), axis=0)


def interval_counts(
    spikes: SpikeTrain, times: np.ndarray, *, start: float | None = None, amounts: np.ndarray | None = None
) -> np.ndarray:
    """Return how often each neuron fired between successive times, from `start` on."""
    # Without `start`, the first count contains all spikes up to the first time.  With `amounts`, each spike
    # adds its amount to a count, otherwise 1.
    first = 0 if start is None else np.searchsorted(spikes.times, start, side="right")
    edges = np.concatenate([[first], np.searchsorted(spikes.times, times, side="right")])
    counts = np.empty((len(times), spikes.n_neurons), dtype=np.int64 if amounts is None else np.float64)
    for row, (begin, end) in enumerate(pairwise(edges)):
        weights = None if amounts is None else amounts[begin:end]
        counts[row] = np.bincount(spikes.neurons[begin:end], weights, spikes.n_neurons)
    return counts


def smooth_rate_of_moments(moments: np.ndarray, duration: float | np.ndarray) -> np.ndarray:
    """Return smooth rates from sums of t^2, t^3 and t^4, shape (..., n_neurons, 3), and durations, (...)."""
    # With M_p the sum of t^p over a neuron's spikes and T the duration (docs/theory.md, section 4):
    #     a = 1/T sum_k w(t_k / T) = 30/T (M_2 / T^2 - 2 M_3 / T^3 + M_4 / T^4)      w(s) = 30 s^2 (1 - s)^2
    duration = np.asarray(duration, dtype=np.float64)
    if not ((duration > 0.0) & (duration <= LONGEST_SMOOTH_WINDOW)).all():
        raise ValueError(f"duration must be positive and at most {LONGEST_SMOOTH_WINDOW:g}; got {duration}")
    length = duration[..., np.newaxis]
    second, third, fourth = (moments[..., k] / length**power for k, power in enumerate(POWERS))
    return 30.0 / length * (second - 2.0 * third + fourth)

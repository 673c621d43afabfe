"""Changes from outside while a network runs: of its drive, and by input spikes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value
from snn.network import SpikingNetwork
from snn.record.spikes import SpikeTrain, require_record
from snn.weights.sparse import checked_rows

CURRENT, DRIVE = "current", "drive"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Stimulus(Value, Described):
    """Changes from outside while a network runs: a drive that changes, and input spikes.

    The drive is constant between the times at which it changes.  An input spike of source k adds row k of the
    weights, at its time, to one of these::

        onto="current"    the synaptic currents: it falls as e^-t, as what spikes of the network bring
        onto="drive"      the drive: it stays

    Parameters
    ----------
    drive_times : array_like, shape (n_changes,), optional
        When the drive changes, in the time of the run; increasing.  Before the first, it is the soma bias.
    drive : array_like, shape (n_changes, n_neurons), optional
        The drive from each of these times on, in place of the soma bias.
    spikes : SpikeTrain, optional
        Input spikes; its neurons are the sources.
    weights : array_like or scipy.sparse matrix, shape (n_sources, n_neurons), optional
        What an input spike of each source adds.  A positive weight excites.
    onto : {"current", "drive"}, default "current"
        What it is added to.

    Attributes
    ----------
    n_neurons : int
        Neurons of the network that it is for.

    Notes
    -----
    Changes move currents and drives, and no potential.  A neuron that reaches its threshold in the instant of
    a change fires in that instant, before the change.  The order of changes in one instant does not matter.

    Examples
    --------
    >>> from snn import SpikingNetwork, simulate
    >>> network = SpikingNetwork(np.zeros((1, 1)), [0.5])
    >>> stimulus = Stimulus(drive_times=[1.0], drive=[[1.0]])
    >>> simulate(network, 2.0, stimulus=stimulus, record_spikes=True).spikes.times
    array([1.5])
    """

    drive_times: np.ndarray | None = None
    drive: np.ndarray | None = None
    spikes: SpikeTrain | None = None
    weights: Any = None  # an array, or a csr_array, once it is in
    onto: str = CURRENT

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(
            self,
            *,
            drive_times: ArrayLike | None = None,
            drive: ArrayLike | None = None,
            spikes: SpikeTrain | None = None,
            weights: ArrayLike | sparse.sparray | sparse.spmatrix | None = None,
            onto: str = CURRENT,
        ) -> None: ...

    def __post_init__(self) -> None:
        for one, other in (("drive_times", "drive"), ("spikes", "weights")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                missing, given = (one, other) if getattr(self, one) is None else (other, one)
                raise ValueError(f"{missing} must be given with {given}; got None")
        if self.drive is None and self.spikes is None:
            raise ValueError("a Stimulus must have drive_times and drive, or spikes and weights; got neither")
        checks.one_of("onto", self.onto, (CURRENT, DRIVE))
        n_neurons = None
        if self.drive is not None:
            n_neurons = self._check_drive()
        if self.spikes is not None:
            self._check_weights(n_neurons)

    def _check_drive(self) -> int:
        times = checks.real_array("drive_times", self.drive_times, shape=(None,), meaning="one a change")
        meaning = "one row a change, one column a neuron"
        drive = checks.real_array("drive", self.drive, shape=(len(times), None), meaning=meaning)
        if not (times[:-1] < times[1:]).all():
            raise ValueError(
                f"drive_times must increase; got {times[1:][np.diff(times) <= 0.0][0]} after "
                f"{times[:-1][np.diff(times) <= 0.0][0]}"
            )
        if self.spikes is not None and self.onto == DRIVE:
            raise ValueError(
                "onto must be 'current' where drive is given, which says the whole drive; got 'drive'"
            )
        object.__setattr__(self, "drive_times", checks.read_only(times))
        object.__setattr__(self, "drive", checks.read_only(drive))
        return drive.shape[1]

    def _check_weights(self, n_neurons: int | None) -> None:
        require_record(self.spikes)
        assert self.spikes is not None
        shape = self.spikes.n_neurons, n_neurons
        weights = self.weights
        if sparse.issparse(weights):
            weights = checked_rows("weights", weights)
            if weights.shape[0] != shape[0] or n_neurons not in (None, weights.shape[1]):
                raise ValueError(
                    f"weights must have shape ({shape[0]}, {n_neurons or 'any'}), one row a source; got "
                    f"shape {weights.shape}"
                )
        else:
            meaning = "one row a source, one column a neuron"
            weights = checks.read_only(checks.real_array("weights", weights, shape=shape, meaning=meaning))
        object.__setattr__(self, "weights", weights)

    @property
    def n_neurons(self) -> int:
        """Neurons of the network that it is for."""
        amounts = self.weights if self.drive is None else self.drive
        assert amounts is not None
        return amounts.shape[1]

    @property
    def times(self) -> np.ndarray:
        """The times of all changes, in the order in which they are made."""
        parts = [self.drive_times, None if self.spikes is None else self.spikes.times]
        return np.sort(np.concatenate([part for part in parts if part is not None]))

    def between(self, start: float, stop: float) -> Stimulus:
        """Return the changes with start <= time < stop, for a run of that part of the time.

        The drive that holds at `start` is not a part of them: see `drive_at`.

        Parameters
        ----------
        start, stop : float
            The part; `stop` may be infinite.
        """
        start = checks.real_number("start", start)
        stop = np.inf if stop == np.inf else checks.real_number("stop", stop)
        if stop < start:
            raise ValueError(f"stop must not be before start; got {stop} and {start}")
        changes: dict[str, np.ndarray] = {}
        train = None
        if self.drive_times is not None and self.drive is not None:
            first, last = np.searchsorted(self.drive_times, [start, stop])
            if first < last:
                changes = {"drive_times": self.drive_times[first:last], "drive": self.drive[first:last]}
        if self.spikes is not None:
            first, last = np.searchsorted(self.spikes.times, [start, stop])
            end = max(self.spikes.stop, start) if stop == np.inf else stop
            train = SpikeTrain(
                times=self.spikes.times[first:last],
                neurons=self.spikes.neurons[first:last],
                n_neurons=self.spikes.n_neurons,
                start=start,
                stop=end,
            )
        if not changes and train is None:
            raise ValueError(f"start and stop must be around a change of the drive; got {start} and {stop}")
        return Stimulus(spikes=train, weights=self.weights, onto=self.onto, **changes)

    def drive_at(self, times: ArrayLike, soma_bias: ArrayLike) -> np.ndarray:
        """Return the drive just after each time, shape (n_times, n_neurons).

        Parameters
        ----------
        times : array_like, shape (n_times,)
            Not decreasing.
        soma_bias : array_like, shape (n_neurons,)
            The drive before all changes.
        """
        times, bias = self._checked(times, soma_bias)
        if self.drive is not None and self.drive_times is not None:
            rows = np.concatenate([bias[np.newaxis], self.drive])
            return rows[np.searchsorted(self.drive_times, times, side="right")]
        if self.spikes is None or self.onto == CURRENT:
            return np.tile(bias, (len(times), 1))
        return bias + self.spikes.cumulative_counts(times) @ self.weights

    def average_drive(self, start: float, stop: float, soma_bias: ArrayLike) -> np.ndarray:
        """Return the mean of the drive from `start` to `stop`, shape (n_neurons,).

        Parameters
        ----------
        start, stop : float
            The interval, not empty.
        soma_bias
            As for `drive_at`.
        """
        start, stop = checks.real_number("start", start), checks.real_number("stop", stop)
        if not start < stop:
            raise ValueError(f"stop must be after start; got {stop} and {start}")
        return self.drive_charge(np.array([start, stop]), soma_bias)[1] / (stop - start)

    def drive_charge(self, times: ArrayLike, soma_bias: ArrayLike) -> np.ndarray:
        """Return the integral of the drive from the first time to each time, shape (n_times, n_neurons).

        Parameters
        ----------
        times, soma_bias
            As for `drive_at`.
        """
        times, bias = self._checked(times, soma_bias)
        charge = np.zeros((len(times), len(bias)))
        drive = self.drive_at(times, bias)
        for row, (before, time) in enumerate(pairwise(times.tolist()), start=1):
            part = charge[row - 1] + drive[row - 1] * (time - before)
            if self.drive is not None and self.drive_times is not None:
                first, last = np.searchsorted(self.drive_times, [before, time], side="right")
                levels = np.concatenate([drive[row - 1][np.newaxis], self.drive[first:last]])
                part += (time - self.drive_times[first:last]) @ np.diff(levels, axis=0)
            elif self.spikes is not None and self.onto == DRIVE:
                first, last = np.searchsorted(self.spikes.times, [before, time], side="right")
                left = time - self.spikes.times[first:last]
                sources = self.spikes.neurons[first:last]
                part += np.bincount(sources, weights=left, minlength=self.spikes.n_neurons) @ self.weights
            charge[row] = part
        return charge

    def n_deliveries(self) -> int:
        """Return how often an input spike reaches a neuron by a weight that is not zero."""
        if self.spikes is None:
            return 0
        targets = np.bincount((self.weights != 0).nonzero()[0], minlength=self.spikes.n_neurons)
        return int(self.spikes.counts() @ targets)

    def _checked(self, times: ArrayLike, soma_bias: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        times = checks.real_array("times", times, shape=(None,))
        if (np.diff(times) < 0.0).any():
            raise ValueError("times must not decrease")
        return times, checks.real_array("soma_bias", soma_bias, shape=(self.n_neurons,))


def require_fitting(stimulus: Stimulus, network: SpikingNetwork) -> None:
    """Raise an error unless a stimulus is one for a network."""
    checks.instance_of("stimulus", stimulus, Stimulus)
    if stimulus.n_neurons != network.n_neurons:
        raise ValueError(
            f"stimulus is for {stimulus.n_neurons} neurons but the network has {network.n_neurons}"
        )


def largest_magnitudes(stimulus: Stimulus) -> np.ndarray:
    """Return the largest drive, or weight, that each neuron gets at once, shape (n_neurons,)."""
    largest = np.zeros(stimulus.n_neurons)
    if stimulus.drive is not None:
        largest = np.abs(stimulus.drive).max(axis=0)
    if sparse.issparse(stimulus.weights):
        largest = np.maximum(largest, abs(stimulus.weights).max(axis=0).toarray().ravel())
    elif stimulus.weights is not None:
        largest = np.maximum(largest, np.abs(stimulus.weights).max(axis=0))
    return largest


def excitation(stimulus: Stimulus, duration: float, soma_bias: np.ndarray) -> np.ndarray:
    """Return a bound on the charge that drive and input spikes bring to each neuron, shape (n_neurons,)."""
    drive = soma_bias
    if stimulus.drive is not None:
        drive = np.maximum(drive, stimulus.drive.max(axis=0))
    charge = np.maximum(drive, 0.0) * duration
    if stimulus.spikes is None:
        return charge
    is_sparse = sparse.issparse(stimulus.weights)
    excites = stimulus.weights.maximum(0.0) if is_sparse else np.maximum(stimulus.weights, 0.0)
    lasting = duration if stimulus.onto == DRIVE else 1.0
    return charge + lasting * (stimulus.spikes.counts() @ excites)

"""Changes from outside while a network runs: changes of its drive, and input spikes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value, checked
from snn.network import SpikingNetwork
from snn.record.spikes import SpikeTrain, checked_times, cumulative_counts, require_record
from snn.weights.sparse import checked_rows

ONTO_CURRENT, ONTO_DRIVE = "current", "drive"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Stimulus(Value, Described):
    """Changes from outside while a network runs: a drive that changes, and input spikes.

    The drive is constant between its changes.  At the time of an input spike of source k, row k of the
    weights is added to one of these quantities::

        onto="current"    the synaptic currents, which decay as e^-t, like currents of spikes of the network
        onto="drive"      the drive, which keeps the change

    Parameters
    ----------
    drive_times : array_like, shape (n_changes,), optional
        Times of the changes of the drive, in the time of the run; increasing.  Before the first change, the
        drive is the soma bias.
    drive : array_like, shape (n_changes, n_neurons), optional
        Row k is the drive from ``drive_times[k]`` on.  It replaces the soma bias.
    spikes : SpikeTrain, optional
        Input spikes; the neurons of this train are the sources.
    weights : array_like or scipy.sparse matrix, shape (n_sources, n_neurons), optional
        Effect of an input spike of each source on each neuron.  A positive weight excites.
    onto : {"current", "drive"}, default "current"
        Quantity to which the weights of an input spike are added.

    Notes
    -----
    A change affects currents or drives, not potentials.  A neuron that reaches its threshold at the instant
    of a change fires before the change.  The order of changes at one instant does not matter.

    Examples
    --------
    >>> from snn import SpikingNetwork, simulate
    >>> network = SpikingNetwork(np.zeros((1, 1)), [0.5])
    >>> stimulus = Stimulus(drive_times=[1.0], drive=[[1.0]])
    >>> simulate(network, 2.0, stimulus=stimulus, record_spikes=True).spikes.times
    array([1.5])
    """

    drive_times: np.ndarray | None = checked(
        checks.real_array, shape=(None,), meaning="one for each change", default=None
    )
    drive: np.ndarray | None = checked(
        checks.real_array, shape=(None, None), meaning="(change, neuron)", default=None
    )
    spikes: SpikeTrain | None = checked(require_record, default=None)
    weights: Any = checked(checked_rows, default=None)  # becomes a csr_array
    onto: str = checked(checks.one_of, (ONTO_CURRENT, ONTO_DRIVE), default=ONTO_CURRENT)

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            *,
            drive_times: ArrayLike | None = None,
            drive: ArrayLike | None = None,
            spikes: SpikeTrain | None = None,
            weights: ArrayLike | sparse.sparray | sparse.spmatrix | None = None,
            onto: str = ONTO_CURRENT,
        ) -> None: ...

    def _check(self) -> None:
        for name, partner in (("drive_times", "drive"), ("spikes", "weights")):
            if (getattr(self, name) is None) != (getattr(self, partner) is None):
                missing, passed = (name, partner) if getattr(self, name) is None else (partner, name)
                raise ValueError(f"{missing} must be passed together with {passed}; got None")
        times, drive = self.drive_times, self.drive
        if times is None and self.spikes is None:
            raise ValueError("a Stimulus must have drive_times and drive, or spikes and weights; got neither")
        if times is not None and drive is not None:
            if len(times) != len(drive):
                raise ValueError(
                    f"drive must have one row for each of {len(times)} changes; got {len(drive)}"
                )
            if not (times[:-1] < times[1:]).all():
                first = int(np.argmax(np.diff(times) <= 0.0))
                raise ValueError(f"drive_times must increase; got {times[first + 1]} after {times[first]}")
            if self.spikes is not None and self.onto == ONTO_DRIVE:
                raise ValueError(
                    "onto must be 'current' if drive is passed, since drive sets the whole drive; got 'drive'"
                )
        if self.spikes is not None:
            shape = self.spikes.n_neurons, self.weights.shape[1] if drive is None else drive.shape[1]
            if self.weights.shape != shape:
                raise ValueError(
                    f"weights must have shape {shape}, (source, neuron); got shape {self.weights.shape}"
                )

    @property
    def n_neurons(self) -> int:
        """Number of neurons of a network that fits this stimulus."""
        amounts: Any = self.weights if self.drive is None else self.drive
        return amounts.shape[1]

    @property
    def times(self) -> np.ndarray:
        """Times of all changes, sorted."""
        parts = [self.drive_times, None if self.spikes is None else self.spikes.times]
        return np.sort(np.concatenate([part for part in parts if part is not None]))

    def between(self, start: float, stop: float) -> Stimulus:
        """Return the changes with start <= time < stop, for a run over this interval.

        The result does not contain the drive before its first change; `drive_at` returns that drive.

        Parameters
        ----------
        start, stop : float
            The interval; `stop` may be infinite.
        """
        start = checks.real_number("start", start)
        stop = np.inf if stop == np.inf else checks.real_number("stop", stop)
        if stop < start:
            raise ValueError(f"stop must not be before start; got {stop} and {start}")
        changes: dict[str, Any] = {"weights": self.weights, "onto": self.onto}
        if self.drive_times is not None and self.drive is not None:
            part = slice(*np.searchsorted(self.drive_times, [start, stop]))
            if part.start < part.stop:
                changes.update(drive_times=self.drive_times[part], drive=self.drive[part])
        if (spikes := self.spikes) is not None:
            part = slice(*np.searchsorted(spikes.times, [start, stop]))
            changes["spikes"] = replace(
                spikes,
                times=spikes.times[part],
                neurons=spikes.neurons[part],
                start=start,
                stop=max(spikes.stop, start) if stop == np.inf else stop,
            )
        if len(changes) == 2:
            raise ValueError(
                "start and stop must have a change of the drive between them, if there are no input spikes; "
                f"got {start} and {stop}"
            )
        return Stimulus(**changes)

    def drive_at(self, times: ArrayLike, soma_bias: ArrayLike) -> np.ndarray:
        """Return the drive just after each time, shape (n_times, n_neurons).

        Parameters
        ----------
        times : array_like, shape (n_times,)
            Times, not decreasing.
        soma_bias : array_like, shape (n_neurons,)
            The drive before all changes.
        """
        times = checked_times(times)
        bias = checks.real_array("soma_bias", soma_bias, shape=(self.n_neurons,))
        if self.drive is not None and self.drive_times is not None:
            rows = np.concatenate([bias[np.newaxis], self.drive])
            return rows[np.searchsorted(self.drive_times, times, side="right")]
        if self.spikes is None or self.onto == ONTO_CURRENT:
            return np.tile(bias, (len(times), 1))
        return bias + cumulative_counts(self.spikes, times) @ self.weights


def drive_charge(stimulus: Stimulus | None, times: np.ndarray, soma_bias: np.ndarray) -> np.ndarray:
    """Return the integral of the drive from the first time to each time, shape (n_times, n_neurons)."""
    elapsed = (times - times[0])[:, np.newaxis]
    if stimulus is None:
        return elapsed * soma_bias
    charge = elapsed * stimulus.drive_at(times[:1], soma_bias)
    if stimulus.drive is not None and stimulus.drive_times is not None:
        later = stimulus.drive_times > times[0]
        steps = np.diff(stimulus.drive, axis=0, prepend=soma_bias[np.newaxis])[later]
        return charge + np.maximum(times[:, np.newaxis] - stimulus.drive_times[later], 0.0) @ steps
    spikes = stimulus.spikes
    if spikes is None or stimulus.onto == ONTO_CURRENT:
        return charge
    # A spike at t_k changes the drive by its weights, so it has brought weights times (t - t_k) until time t.
    counts, sums = (
        cumulative_counts(spikes, times, start=times[0], amounts=amounts)
        for amounts in (None, spikes.times - times[0])
    )
    return charge + (elapsed * counts - sums) @ stimulus.weights


def n_deliveries(stimulus: Stimulus | None) -> int:
    """Return the number of deliveries of input spikes to neurons through non-zero weights."""
    if stimulus is None or stimulus.spikes is None:
        return 0
    return int(stimulus.spikes.counts() @ np.diff(stimulus.weights.indptr))


def require_fitting(
    stimulus: Stimulus, network: SpikingNetwork, start: float = -np.inf, stop: float = np.inf
) -> None:
    """Raise an error unless a stimulus fits a network, and its changes lie between `start` and `stop`."""
    checks.instance_of("stimulus", stimulus, Stimulus)
    if stimulus.n_neurons != network.n_neurons:
        raise ValueError(
            f"stimulus must be for the {network.n_neurons} neurons of the network; got a stimulus for "
            f"{stimulus.n_neurons}"
        )
    times = stimulus.times
    if len(times) and not start <= times[0] <= times[-1] <= stop:
        raise ValueError(
            f"stimulus must have its changes in the time of the run, from {start} to {stop}; got changes "
            f"from {times[0]} to {times[-1]}: call stimulus.between to cut it"
        )
    largest = np.zeros(network.n_neurons)
    if stimulus.drive is not None:
        largest = np.abs(stimulus.drive).max(axis=0)
    if stimulus.spikes is not None:
        np.maximum.at(largest, stimulus.weights.indices, np.abs(stimulus.weights.data))
    checks.require_ratio("drives and weights of stimulus", largest, network.firing_threshold)


def excitation(stimulus: Stimulus, duration: float, soma_bias: np.ndarray) -> np.ndarray:
    """Return an upper bound on the charge of drive and input spikes for each neuron, shape (n_neurons,)."""
    drive = soma_bias
    if stimulus.drive is not None:
        drive = np.maximum(drive, stimulus.drive.max(axis=0))
    charge = np.maximum(drive, 0.0) * duration
    if stimulus.spikes is None:
        return charge
    excites = stimulus.weights * (stimulus.weights > 0.0)
    return charge + (duration if stimulus.onto == ONTO_DRIVE else 1.0) * (stimulus.spikes.counts() @ excites)

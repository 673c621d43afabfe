"""Potentials, currents and charges at any time, rebuilt in closed form from recorded spikes.

This module does not integrate: each number is a formula of the model, evaluated on the spike train.  The
formulas are therefore an independent check of the simulators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.describe import Drawn
from snn.base.value import Value, assign, checked
from snn.network import NetworkState, SpikingNetwork, starting_state
from snn.record.spikes import SpikeTrain, checked_times, cumulative_counts, require_record
from snn.record.stimulus import ONTO_CURRENT, Stimulus, drive_charge, require_fitting

# Largest relative difference between the threshold and the sum of the charges of a spike in an exact run.
LARGEST_MISMATCH = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class Record(Value, Drawn):
    """A network and its recorded spikes, from which potentials and currents are rebuilt at any time.

    ``run.record`` is the record of a run.  The neurons must follow the equations of `SpikingNetwork`: spikes
    of neurons with, for example, a leak, delays or Euler's steps are refused.

    Parameters
    ----------
    network : SpikingNetwork
        The network that ran.
    spikes : SpikeTrain
        Spikes of the network, recorded by ``simulate(..., record_spikes=True)``.
    state : NetworkState, optional
        State in which the run started; by default rest at time 0.
    stimulus : Stimulus, optional
        Input from outside during the run.
    """

    network: SpikingNetwork = checked(checks.instance_of, SpikingNetwork)
    spikes: SpikeTrain = checked(require_record)
    state: NetworkState = None  # type: ignore[assignment]  # becomes a state
    stimulus: Stimulus | None = None

    def _check(self) -> None:
        network, spikes = self.network, self.spikes
        if spikes.n_neurons != network.n_neurons:
            raise ValueError(
                f"spikes must be of the {network.n_neurons} neurons of the network; got spikes of "
                f"{spikes.n_neurons} neurons"
            )
        if spikes.departures:
            raise ValueError(
                "spikes must come from neurons that follow the equations of SpikingNetwork, which rebuild "
                f"potentials; got neurons with {spikes.departures}: pass potential_times to simulate"
            )
        state = starting_state(network, self.state)
        if state.time != spikes.start:
            raise ValueError(
                f"state must be of time {spikes.start}, at which the spikes start; got a state of time "
                f"{state.time}: pass the state from which the run started"
            )
        assign(self, state=state)
        if self.stimulus is not None:
            require_fitting(self.stimulus, network)

    def current(self, times: ArrayLike) -> np.ndarray:
        """Return the soma current mu(t) just after each time, shape (n_times, n_neurons).

        ``mu(t) = beta + h(0) e^-t + sum over spikes at t_k <= t of W[source] e^-(t - t_k)``.  With a
        stimulus, beta is the drive at time t, and the sum includes input spikes onto the current.

        Parameters
        ----------
        times : array_like, shape (n_times,)
            Times within the record, not decreasing.
        """
        times = checked_times(times, self.spikes.start, self.spikes.stop)
        bias = self.network.soma_bias
        drive = bias if self.stimulus is None else self.stimulus.drive_at(times, bias)
        initial = np.exp(self.spikes.start - times)[:, np.newaxis] * self.state.synaptic_current
        return drive + initial + self._received(times, _decayed)

    def potential(self, times: ArrayLike) -> np.ndarray:
        """Return the membrane potential v(t) just after each time, shape (n_times, n_neurons).

        ``v(t) = v(0) + integral of mu - theta n(t)``, with n(t) the number of spikes of a neuron until t.

        Parameters
        ----------
        times
            See `current`.
        """
        times = checked_times(times, self.spikes.start, self.spikes.stop)
        removed = self.network.firing_threshold * cumulative_counts(self.spikes, times)
        return self.state.membrane_potential + self._charge(times) - removed

    def average_current(self, times: ArrayLike) -> np.ndarray:
        """Return u(t), the mean of mu from the start of the record to t, shape (n_times, n_neurons).

        Parameters
        ----------
        times
            Times after the start of the record, not decreasing.
        """
        start, stop = self.spikes.start, self.spikes.stop
        times = checked_times(times, start, stop, after_start=True)
        return self._charge(times) / (times - start)[:, np.newaxis]

    def explain(self, k: int) -> SpikeExplanation:
        """Return the charges that caused a recorded spike.

        If neuron i was last reset at t0 and fired at t, a spike of source j at time s brought the charge::

            W_ji (e^-(max(t0, s) - s) - e^-(t - s))        s < t

        The bias brought ``beta_i (t - t0)``, and the current h_i of the initial state, at time t1, brought
        ``h_i (e^-(t0 - t1) - e^-(t - t1))``.  If the neuron was not reset before, t0 is t1, and the initial
        potential is one of the charges.  With a stimulus, the drive at each time replaces the bias, and input
        spikes onto the current have the same equation as spikes.

        Parameters
        ----------
        k : int
            Index of the spike in the record; a negative index counts from the end.
        """
        network, spikes, state = self.network, self.spikes, self.state
        k = checks.integer("k", k)
        if not -len(spikes) <= k < len(spikes):
            raise ValueError(f"k must be the index of one of the {len(spikes)} spikes; got {k}")
        k %= len(spikes)
        neuron, time = int(spikes.neurons[k]), float(spikes.times[k])
        earlier = np.flatnonzero(spikes.neurons[:k] == neuron)
        since = float(spikes.times[earlier[-1]]) if len(earlier) else spikes.start
        amounts = _charges_per_weight(spikes, k, since, time)
        fired = np.flatnonzero(amounts)
        source_charge = np.zeros(network.n_neurons)
        source_charge[fired] = amounts[fired] * network.weights._column(neuron, fired)
        drive = drive_charge(self.stimulus, np.array([since, time]), network.soma_bias)
        charges = {"bias": drive[1, neuron]}
        if not len(earlier):
            charges["initial potential"] = state.membrane_potential[neuron]
        if state.synaptic_current[neuron]:
            decrease = _decrease(since - spikes.start, time - since)
            charges["initial current"] = state.synaptic_current[neuron] * decrease
        if self.stimulus is not None and self._inputs is not None:
            n_inputs = int(np.searchsorted(self._inputs.times, time))
            inputs = _charges_per_weight(self._inputs, n_inputs, since, time)
            charges["input spikes"] = (inputs @ self.stimulus.weights)[neuron]
        explanation = SpikeExplanation(
            spike=k,
            neuron=neuron,
            time=time,
            since=since,
            firing_threshold=float(network.firing_threshold[neuron]),
            charges={name: float(charge) for name, charge in charges.items()},
            source_charge=source_charge,
        )
        threshold = explanation.firing_threshold
        parts = np.concatenate([list(charges.values()), source_charge])
        if not abs(parts.sum() - threshold) <= LARGEST_MISMATCH * (threshold + np.abs(parts).sum()):
            raise ValueError(
                "spikes must come from an exact run of this network from this state; got charges that add up "
                f"to {parts.sum():.6g}, not to the threshold {threshold:.6g} of neuron {neuron}"
            )
        return explanation

    @property
    def _inputs(self) -> SpikeTrain | None:
        """Input spikes that change the current, or None."""
        stimulus = self.stimulus
        return stimulus.spikes if stimulus is not None and stimulus.onto == ONTO_CURRENT else None

    def _charge(self, times: np.ndarray) -> np.ndarray:
        """Return the integral of mu: beta t + h(0) (1 - e^-t) + W^T (sum of 1 - e^-(t - t_k))."""
        since_start = np.concatenate([[self.spikes.start], times])
        drive = drive_charge(self.stimulus, since_start, self.network.soma_bias)[1:]
        current = np.expm1(self.spikes.start - times)[:, np.newaxis] * self.state.synaptic_current
        return drive - current + self._received(times, lambda *by: cumulative_counts(*by) - _decayed(*by))

    def _received(self, times: np.ndarray, kernel: Callable[[SpikeTrain, np.ndarray], np.ndarray]) -> Any:
        """Return, for each time and neuron, the weighted sum of a kernel over all spikes until that time."""
        received = self.network.weights.transpose_product(kernel(self.spikes, times))
        if self.stimulus is None or self._inputs is None:
            return received
        return received + kernel(self._inputs, times) @ self.stimulus.weights


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SpikeExplanation(Value, Drawn):
    """The charges that brought a neuron from its last reset to its threshold; they add up to the threshold.

    Attributes
    ----------
    spike, neuron, time : int, int, float
        Index of the spike in the record, the neuron that fired, and the time.
    since : float
        Time of the last reset of the neuron, or the start of the record if it did not fire before.
    firing_threshold : float
        The threshold of the neuron.
    charges : dict of str to float
        "bias" is the charge of the drive.  "initial potential" is present if the neuron did not fire before,
        "initial current" if it is not zero, and "input spikes" if the stimulus has some onto the current.
    source_charge : ndarray, shape (n_neurons,)
        Charge that this neuron received from the recorded spikes of each neuron.
    """

    spike: int
    neuron: int
    time: float
    since: float
    firing_threshold: float
    charges: dict[str, float]
    source_charge: np.ndarray

    _shown: ClassVar = ("neuron", "time", "since", "source_charge", "firing_threshold")

    def parts(self, n_sources: int = 5) -> list[tuple[str, float]]:
        """Return (name, charge) pairs; one pair has the sum of all but the largest `n_sources` sources."""
        parts = list(self.charges.items())
        n_sources = checks.positive_integer("n_sources", n_sources)
        largest = np.argsort(-np.abs(self.source_charge), kind="stable")[:n_sources]
        largest = largest[self.source_charge[largest] != 0.0]
        parts += [(f"spikes of neuron {i}", float(self.source_charge[i])) for i in largest]
        n_others = np.count_nonzero(self.source_charge) - len(largest)
        if n_others:
            rest = float(np.delete(self.source_charge, largest).sum())
            parts.append((f"spikes of {n_others} other neuron{'s' if n_others > 1 else ''}", rest))
        return parts

    def __str__(self) -> str:
        beginning = "the start of the record" if "initial potential" in self.charges else "its reset"
        title = (
            f"Neuron {self.neuron} fired at {self.time:.6g} (spike {self.spike}); since {beginning} at "
            f"{self.since:.6g}:"
        )
        parts = [*self.parts(), ("threshold", self.firing_threshold)]
        width = max(len(name) for name, _ in parts)
        return "\n".join([title, *(f"  {name:<{width}}  {charge:+.6g}" for name, charge in parts)])


def _charges_per_weight(spikes: SpikeTrain, n_spikes: int, since: float, until: float) -> np.ndarray:
    """Return the charge per weight that the first `n_spikes` of each source bring between two times."""
    times, sources = spikes.times[:n_spikes], spikes.neurons[:n_spikes]
    # A spike before `since` is counted from `since` on, and a later spike from the time of the spike on.
    amounts = _decrease(np.maximum(since - times, 0.0), until - np.maximum(times, since))
    return np.bincount(sources, weights=amounts, minlength=spikes.n_neurons)


def _decrease(age: Any, interval: Any) -> Any:
    """Return e^-age - e^-(age + interval): the area under a unit current of this age over an interval."""
    return -np.exp(-age) * np.expm1(-interval)


def _decayed(spikes: SpikeTrain, times: np.ndarray) -> np.ndarray:
    """Return the sums of e^-(t - t_k) over all spikes until t, shape (n_times, n_neurons)."""
    decayed = np.zeros((len(times), spikes.n_neurons))
    edges = np.searchsorted(spikes.times, times, side="right")
    before, first = times[0], 0
    for row, (time, last) in enumerate(zip(times, edges.tolist(), strict=True)):
        new = np.exp(spikes.times[first:last] - time)
        decayed[row] = np.bincount(spikes.neurons[first:last], new, spikes.n_neurons)
        if row:
            decayed[row] += np.exp(before - time) * decayed[row - 1]
        before, first = time, last
    return decayed

"""Potentials, currents and charges at any time, rebuilt in closed form from recorded spikes.

Nothing here integrates: each number is the formula of the model evaluated on the spike train.  It is also an
independent check of the simulators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.describe import Drawn, number
from snn.base.value import Value
from snn.network import NetworkState, SpikingNetwork
from snn.record.spikes import SpikeTrain, require_record
from snn.record.stimulus import CURRENT, Stimulus, require_fitting

LARGEST_MISMATCH = 1e-6
"""Charges that miss the threshold by more than this part of their sum are not those of an exact run."""
SOURCES_IN_TEXT = 5


@dataclass(frozen=True, eq=False, repr=False)
class Record(Drawn):
    """A network and its recorded spikes, from which potentials and currents are rebuilt at any time.

    ``run.record`` is the record of a run.  Neurons that departed from the equations of `SpikingNetwork`, by a
    leak, delays or Euler's steps for example, are refused.

    Parameters
    ----------
    network : SpikingNetwork
        The network that ran.
    spikes : SpikeTrain
        Its spikes, of ``simulate(..., record_spikes=True)``.
    state : NetworkState, optional
        Where the run started; by default at rest at time 0.
    stimulus : Stimulus, optional
        What reached the network from outside.

    References
    ----------
    Lin and Tang (2018), arXiv:1805.08952, equations 1-5.
    """

    network: SpikingNetwork
    spikes: SpikeTrain
    state: NetworkState | None = None
    stimulus: Stimulus | None = None

    def __post_init__(self) -> None:
        checks.instance_of("network", self.network, SpikingNetwork)
        require_record(self.spikes)
        n_neurons, spikes = self.network.n_neurons, self.spikes
        if spikes.n_neurons != n_neurons:
            raise ValueError(f"spikes are of {spikes.n_neurons} neurons but the network has {n_neurons}")
        if spikes.departures:
            raise ValueError(
                "spikes must be of neurons that follow the equations of SpikingNetwork, by which potentials "
                f"are rebuilt; got neurons with {spikes.departures}: end the run at the time wanted, and "
                "read its state"
            )
        state = NetworkState.at_rest(n_neurons) if self.state is None else self.state
        checks.instance_of("state", state, NetworkState)
        if state.n_neurons != n_neurons:
            raise ValueError(f"state has {state.n_neurons} neurons but the network has {n_neurons}")
        if state.time != spikes.start:
            raise ValueError(
                f"state is of time {state.time} but the spikes start at time {spikes.start}: pass the state "
                "that the run started from"
            )
        object.__setattr__(self, "state", state)
        if self.stimulus is not None:
            require_fitting(self.stimulus, self.network)

    def current(self, times: ArrayLike) -> np.ndarray:
        """Return the soma current mu(t) just after each time, shape (n_times, n_neurons).

        ``mu(t) = beta + h(0) e^-t + sum over spikes at t_k <= t of W[source] e^-(t - t_k)``, with the drive
        of that time and the sum over input spikes too, where there is a stimulus.

        Parameters
        ----------
        times : array_like, shape (n_times,)
            Not decreasing, within the record.
        """
        times, state = self._checked(times), self._state
        decayed, _ = _filtered_counts(self.spikes, times)
        initial = np.exp(self.spikes.start - times)[:, np.newaxis] * state.synaptic_current
        current = initial + self.network.weights.transpose_product(decayed)
        if self.stimulus is None:
            return current + self.network.soma_bias
        if self._inputs is not None:
            current += _filtered_counts(self._inputs, times)[0] @ self.stimulus.weights
        return current + self.stimulus.drive_at(times, self.network.soma_bias)

    def potential(self, times: ArrayLike) -> np.ndarray:
        """Return the membrane potential v(t) just after each time, shape (n_times, n_neurons).

        ``v(t) = v(0) + integral of mu - theta n(t)``, with n(t) the spikes of each neuron by t.

        Parameters
        ----------
        times : array_like, shape (n_times,)
            Not decreasing, within the record.
        """
        times = self._checked(times)
        removed = self.network.firing_threshold * self.spikes.cumulative_counts(times)
        return self._state.membrane_potential + self._charge(times) - removed

    def average_current(self, times: ArrayLike) -> np.ndarray:
        """Return u(t), the mean of mu from the start of the record to t, shape (n_times, n_neurons).

        Parameters
        ----------
        times : array_like, shape (n_times,)
            Not decreasing, within the record, after its start.
        """
        times = self._checked(times)
        elapsed = (times - self.spikes.start)[:, np.newaxis]
        if (elapsed <= 0.0).any():
            raise ValueError(
                f"times must lie after the start of the record, {self.spikes.start}; got {times[0]}"
            )
        return self._charge(times) / elapsed

    def explain(self, k: int) -> SpikeExplanation:
        """Return why a recorded spike was fired.

        With neuron i reset at t0 and its spike at t, a spike of source j at time s brought the charge::

            W_ji (e^-(max(t0, s) - s) - e^-(t - s))        s < t

        the bias brought ``beta_i (t - t0)``, and the current h_i of the initial state, at time t1, brought
        ``h_i (e^-(t0 - t1) - e^-(t - t1))``.  Before the first reset of the neuron t0 is t1, and the initial
        potential counts too.  With a stimulus the bias is the drive of each time, and an input spike brought
        what a spike does.

        Parameters
        ----------
        k : int
            Index of the spike in the record; a negative one counts from its end.
        """
        network, spikes, state = self.network, self.spikes, self._state
        k = checks.integer("k", k)
        if not -len(spikes) <= k < len(spikes):
            raise ValueError(f"k must be the index of one of the {len(spikes)} spikes; got {k}")
        k %= len(spikes)
        neuron, time = int(spikes.neurons[k]), float(spikes.times[k])
        own = np.flatnonzero(spikes.neurons[:k] == neuron)
        since = float(spikes.times[own[-1]]) if len(own) else spikes.start
        amounts = _charges_per_weight(spikes, k, since, time)
        fired = np.flatnonzero(amounts)
        source_charge = np.zeros(network.n_neurons)
        source_charge[fired] = amounts[fired] * network.weights.column(neuron, fired)
        bias_charge, input_charge = network.soma_bias[neuron] * (time - since), 0.0
        if self.stimulus is not None:
            bias_charge = self.stimulus.drive_charge([since, time], network.soma_bias)[1, neuron]
            if self._inputs is not None:
                n_inputs = int(np.searchsorted(self._inputs.times, time))
                of_inputs = _charges_per_weight(self._inputs, n_inputs, since, time)
                input_charge = (of_inputs @ self.stimulus.weights)[neuron]
        decrease = float(_decrease(np.array(since - spikes.start), np.array(time - since)))
        explanation = SpikeExplanation(
            spike=k,
            neuron=neuron,
            time=time,
            since=since,
            was_reset=len(own) > 0,
            firing_threshold=float(network.firing_threshold[neuron]),
            initial_potential=0.0 if len(own) else float(state.membrane_potential[neuron]),
            initial_current_charge=float(state.synaptic_current[neuron]) * decrease,
            bias_charge=float(bias_charge),
            source_charge=source_charge,
            input_charge=float(input_charge),
        )
        threshold = explanation.firing_threshold
        size = threshold + sum(abs(charge) for _, charge in explanation.parts(network.n_neurons))
        if not abs(explanation.total - threshold) <= LARGEST_MISMATCH * size:
            raise ValueError(
                "spikes must be those of an exact run of this network from this state; got charges that add "
                f"up to {explanation.total:.6g}, not to the threshold {threshold:.6g} of neuron {neuron}"
            )
        return explanation

    @property
    def _state(self) -> NetworkState:
        assert self.state is not None
        return self.state

    @property
    def _inputs(self) -> SpikeTrain | None:
        """Input spikes onto the current."""
        is_current = self.stimulus is not None and self.stimulus.onto == CURRENT
        return self.stimulus.spikes if self.stimulus is not None and is_current else None

    def _charge(self, times: np.ndarray) -> np.ndarray:
        """Return the integral of mu: beta t + h(0) (1 - e^-t) + W^T (sum of 1 - e^-(t - t_k))."""
        network, start = self.network, self.spikes.start
        elapsed = (times - start)[:, np.newaxis]
        _, risen = _filtered_counts(self.spikes, times)
        initial = -np.expm1(-elapsed) * self._state.synaptic_current
        charge = initial + network.weights.transpose_product(risen)
        if self.stimulus is None:
            return charge + network.soma_bias * elapsed
        if self._inputs is not None:
            charge += _filtered_counts(self._inputs, times)[1] @ self.stimulus.weights
        ends = np.concatenate([[start], times])
        return charge + self.stimulus.drive_charge(ends, network.soma_bias)[1:]

    def _checked(self, times: ArrayLike) -> np.ndarray:
        times = checks.real_array("times", times, shape=(None,), meaning="one row of the trace each")
        start, stop = self.spikes.start, self.spikes.stop
        if (np.diff(times) < 0.0).any() or times[0] < start or times[-1] > stop:
            raise ValueError(
                f"times must not decrease and lie in [{start}, {stop}]; got {times[0]} to {times[-1]}"
            )
        return times

    def _facts(self) -> dict[str, str]:
        return self.spikes._facts()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SpikeExplanation(Value, Drawn):
    """The charges that brought one neuron from its last reset to its threshold, to which they add up.

    Attributes
    ----------
    spike : int
        Index of the spike in the record.
    neuron : int
        The neuron that fired.
    time : float
        When it fired.
    since : float
        Time of its last reset, or the start of the record if it did not fire before.
    was_reset : bool
        True if `since` is a reset.
    firing_threshold : float
        The threshold of the neuron.
    initial_potential : float
        Its potential at the start of the record; 0 after a reset.
    initial_current_charge : float
        Charge of the synaptic current that was there at the start of the record.
    bias_charge : float
        Charge of its drive: of the soma bias, or of the drive of a stimulus.
    source_charge : ndarray, shape (n_neurons,)
        Charge of the recorded spikes of each neuron.
    input_charge : float
        Charge of input spikes onto the current.
    """

    spike: int
    neuron: int
    time: float
    since: float
    was_reset: bool
    firing_threshold: float
    initial_potential: float
    initial_current_charge: float
    bias_charge: float
    source_charge: np.ndarray
    input_charge: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all charges: the firing threshold, to rounding."""
        state = self.initial_potential + self.initial_current_charge
        return float(state + self.bias_charge + self.source_charge.sum() + self.input_charge)

    def largest_sources(self, n_sources: int = SOURCES_IN_TEXT) -> np.ndarray:
        """Return the neurons with the largest absolute charge, at most `n_sources`, none without charge."""
        n_sources = checks.positive_integer("n_sources", n_sources)
        order = np.argsort(-np.abs(self.source_charge), kind="stable")[:n_sources]
        return order[self.source_charge[order] != 0.0]

    def parts(self, n_sources: int = SOURCES_IN_TEXT) -> list[tuple[str, float]]:
        """Return the name and charge of each part; sources beyond the largest `n_sources` share one."""
        parts = [("bias", self.bias_charge)]
        if not self.was_reset:
            parts.append(("initial potential", self.initial_potential))
        if self.initial_current_charge:
            parts.append(("initial current", self.initial_current_charge))
        if self.input_charge:
            parts.append(("input spikes", self.input_charge))
        largest = self.largest_sources(n_sources)
        parts += [(f"spikes of neuron {i}", float(self.source_charge[i])) for i in largest]
        n_others = np.count_nonzero(self.source_charge) - len(largest)
        if n_others:
            rest = float(np.delete(self.source_charge, largest).sum())
            parts.append((f"spikes of {n_others} other neuron{'s' if n_others > 1 else ''}", rest))
        return parts

    def _facts(self) -> dict[str, str]:
        beginning = "reset" if self.was_reset else "start of the record"
        return {
            "neuron": number(self.neuron),
            "fired at": f"{self.time:.6g}, spike {self.spike:,}",
            "since": f"{beginning} at {self.since:.6g}",
            **{name: f"{charge:+.4g}" for name, charge in self.parts()},
            "threshold": number(self.firing_threshold),
        }

    def __str__(self) -> str:
        beginning = "its reset" if self.was_reset else "the start of the record"
        title = (
            f"Neuron {self.neuron} fired at {self.time:.6g} (spike {self.spike}); since {beginning} at "
            f"{self.since:.6g}:"
        )
        parts = [*self.parts(), ("threshold", self.firing_threshold)]
        width = max(len(name) for name, _ in parts)
        return "\n".join([title, *(f"  {name:<{width}}  {charge:+.6g}" for name, charge in parts)])


def _charges_per_weight(spikes: SpikeTrain, n_spikes: int, since: float, until: float) -> np.ndarray:
    """Return the charge that the first spikes of each source bring between two times, a unit of weight."""
    times, sources = spikes.times[:n_spikes], spikes.neurons[:n_spikes]
    # Spikes before the reset count from there on, later ones from their own time on.
    amounts = _decrease(np.maximum(since - times, 0.0), until - np.maximum(times, since))
    return np.bincount(sources, weights=amounts, minlength=spikes.n_neurons)


def _decrease(age: np.ndarray, interval: np.ndarray) -> np.ndarray:
    """Return e^-age - e^-(age + interval): the area under a current of that age over an interval."""
    return -np.exp(-age) * np.expm1(-interval)


def _filtered_counts(spikes: SpikeTrain, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sums over the spikes by t of e^-(t - t_k) and of 1 - e^-(t - t_k), a neuron a column."""
    shape = (len(times), spikes.n_neurons)
    decayed, risen = np.zeros(shape), np.zeros(shape)
    edges = np.searchsorted(spikes.times, times, side="right")
    previous_time, previous_edge = times[0], 0
    for row, (time, edge) in enumerate(zip(times, edges.tolist(), strict=True)):
        decay = np.exp(previous_time - time)
        ages = time - spikes.times[previous_edge:edge]
        neurons = spikes.neurons[previous_edge:edge]
        if row:
            decayed[row] = decayed[row - 1] * decay
            risen[row] = risen[row - 1] - np.expm1(previous_time - time) * decayed[row - 1]
        decayed[row] += np.bincount(neurons, weights=np.exp(-ages), minlength=spikes.n_neurons)
        risen[row] += np.bincount(neurons, weights=-np.expm1(-ages), minlength=spikes.n_neurons)
        previous_time, previous_edge = time, edge
    return decayed, risen

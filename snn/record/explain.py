"""Why a neuron fired: the charge of everything that acted on it since its last reset."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from snn.base import checks
from snn.base.drawn import Drawn
from snn.base.html import number
from snn.network import SpikingNetwork
from snn.record.result import SpikeTrain, require_perfect_record
from snn.record.stimulus import CURRENT, Stimulus, require_fitting
from snn.state import NetworkState

LARGEST_MISMATCH = 1e-6
"""Charges that miss the threshold by more than this part of their sum are not those of an exact run."""
SOURCES_IN_TEXT = 5


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SpikeExplanation(Drawn):
    """What brought one neuron from its last reset to its threshold.

    All charges add up to the firing threshold.

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

    def __post_init__(self) -> None:
        checks.freeze_arrays(self)

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


def explain(
    network: SpikingNetwork,
    spikes: SpikeTrain,
    k: int,
    *,
    state: NetworkState | None = None,
    stimulus: Stimulus | None = None,
) -> SpikeExplanation:
    """Return why a recorded spike was fired.

    With neuron i reset at t0 and its spike at t, a spike of source j at time s brought the charge::

        W_ji (e^-(max(t0, s) - s) - e^-(t - s))        s < t

    the bias brought ``beta_i (t - t0)``, and the current h_i of the initial state, at time t1, brought
    ``h_i (e^-(t0 - t1) - e^-(t - t1))``.  Before the first reset of the neuron t0 is t1, and the initial
    potential counts too.  With a stimulus the bias is the drive of each time, and an input spike brought what
    a spike does.

    Parameters
    ----------
    network : SpikingNetwork
        The network that ran.
    spikes : SpikeTrain
        Its spikes from `state` on, of ``simulate(..., record_spikes=True)``.
    k : int
        Index of the spike in the record; a negative one counts from its end.
    state : NetworkState, optional
        Where the run started; by default at rest.
    stimulus : Stimulus, optional
        What reached the network from outside: that of the run.

    Returns
    -------
    SpikeExplanation

    References
    ----------
    Lin and Tang (2018), arXiv:1805.08952, equations 1-5.
    """
    checks.instance_of("network", network, SpikingNetwork)
    require_perfect_record(spikes, network)
    k = checks.integer("k", k)
    if not -len(spikes) <= k < len(spikes):
        raise ValueError(f"k must be the index of one of the {len(spikes)} spikes; got {k}")
    k %= len(spikes)
    state = _initial_state(network, spikes, state)

    neuron, time = int(spikes.neurons[k]), float(spikes.times[k])
    own = np.flatnonzero(spikes.neurons[:k] == neuron)
    since = float(spikes.times[own[-1]]) if len(own) else spikes.start

    # Spikes before the reset count from there on, those after it from their own time on.
    times, sources = spikes.times[:k], spikes.neurons[:k]
    before = np.maximum(since - times, 0.0)
    charge_per_weight = _decrease(before, time - np.maximum(times, since))
    amounts = np.bincount(sources, weights=charge_per_weight, minlength=network.n_neurons)
    fired = np.flatnonzero(amounts)
    source_charge = np.zeros(network.n_neurons)
    source_charge[fired] = amounts[fired] * network.weights.column(neuron, fired)
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
        bias_charge=float(network.soma_bias[neuron]) * (time - since),
        source_charge=source_charge,
    )
    if stimulus is not None:
        explanation = _with_stimulus(explanation, network, stimulus)
    _require_threshold(explanation)
    return explanation


def _with_stimulus(
    explanation: SpikeExplanation, network: SpikingNetwork, stimulus: Stimulus
) -> SpikeExplanation:
    """Return an explanation with the charges of what came from outside."""
    require_fitting(stimulus, network)
    neuron, since, time = explanation.neuron, explanation.since, explanation.time
    of_drive = stimulus.drive_charge([since, time], network.soma_bias)[1, neuron]
    of_inputs, spikes = 0.0, stimulus.spikes
    if spikes is not None and stimulus.onto == CURRENT:
        until = int(np.searchsorted(spikes.times, time))
        times, sources = spikes.times[:until], spikes.neurons[:until]
        amounts = _decrease(np.maximum(since - times, 0.0), time - np.maximum(times, since))
        charges = np.bincount(sources, weights=amounts, minlength=spikes.n_neurons) @ stimulus.weights
        of_inputs = charges[neuron]
    return replace(explanation, bias_charge=float(of_drive), input_charge=float(of_inputs))


def _decrease(age: np.ndarray, interval: np.ndarray) -> np.ndarray:
    """Return e^-age - e^-(age + interval): the area under a current of that age over an interval."""
    return -np.exp(-age) * np.expm1(-interval)


def _initial_state(network: SpikingNetwork, spikes: SpikeTrain, state: NetworkState | None) -> NetworkState:
    if state is None:
        rest = NetworkState.at_rest(network.n_neurons)
        if spikes.start != rest.time:
            raise ValueError(
                f"spikes start at time {spikes.start}, not at 0: pass the state that the run started from"
            )
        return rest
    checks.instance_of("state", state, NetworkState)
    if state.n_neurons != network.n_neurons:
        raise ValueError(f"state has {state.n_neurons} neurons but the network has {network.n_neurons}")
    if state.time != spikes.start:
        raise ValueError(f"state is of time {state.time} but the spikes start at time {spikes.start}")
    return state


def _require_threshold(explanation: SpikeExplanation) -> None:
    threshold = explanation.firing_threshold
    size = (
        threshold
        + abs(explanation.initial_potential)
        + abs(explanation.initial_current_charge)
        + abs(explanation.bias_charge)
        + float(np.abs(explanation.source_charge).sum())
        + abs(explanation.input_charge)
    )
    if not abs(explanation.total - threshold) <= LARGEST_MISMATCH * size:
        raise ValueError(
            "spikes must be those of an exact run of this network from this state; got charges that add up "
            f"to {explanation.total:.6g}, not to the threshold {threshold:.6g} of neuron {explanation.neuron}"
        )

"""Phases: runs of the two-phase network, and what its neurons observe of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from dictlearn.two_phase._kernels import updates
from dictlearn.two_phase.layers import Layers, Population, difference, of_first, total
from dictlearn.two_phase.synapses import Synapses
from snn.base import checks
from snn.base.drawn import Drawn
from snn.base.html import number, value_range
from snn.run.run import Run, Time
from snn.state import NetworkState
from snn.weights import SegmentedWeights

# A signal may have this many times the spikes of the inputs without feedback and of the coding neuron that
# they excite most, in each phase; the least is for short phases.
SPIKES_ALLOWED = 20.0
LEAST_SPIKES_ALLOWED = 2_000
# Expected of one signal in a phase.  Learning uses some hundreds, long runs some hundred thousands; these
# would take from ten seconds to minutes for each signal.
MOST_SPIKES_EXPECTED = 1e7
# Infinite drives are counted as this: infinity times a weight of zero would not be a number.
LARGEST_DRIVE = 1e300
# Drive of an input neuron that must stay silent: no feedback that the spikes allowed can bring outweighs it.
SILENCING_DRIVE = -(2.0**40)


class RunawayFeedbackError(RuntimeError):
    """Feedback excited the network more than thresholds and lateral inhibition took away."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Phase(Drawn):
    """What neurons can observe of themselves over one phase; one row for each signal.

    A pair of neurons has one column.

    Attributes
    ----------
    duration : float
        T, in synaptic time constants.
    n_spikes : ndarray of int, shape (n_signals,)
        Spikes of all neurons.
    input_rate, coding_rate : ndarray, shapes (n_signals, n_inputs), (n_signals, n_atoms)
        b and a: spikes per unit of time; of a pair, those of the first neuron less those of the second.
    input_current, coding_current : ndarray, of the same shapes
        v and u: average soma currents.  Of a pair of inputs, that of the first neuron; the second has the
        opposite.  Of a pair of coding neurons, what the first receives and the second with the opposite sign:
        without the penalty, and without what they give each other.
    coding_trace : ndarray, shape (n_signals, n_atoms)
        Average of the filtered spikes of the coding neurons, what their synapses passed on: the rate, except
        for what was in flight at the start and at the end of the phase.
    """

    duration: float
    n_spikes: np.ndarray
    input_rate: np.ndarray
    coding_rate: np.ndarray
    input_current: np.ndarray
    coding_current: np.ndarray
    coding_trace: np.ndarray

    def __post_init__(self) -> None:
        checks.freeze_arrays(self)

    def _facts(self) -> dict[str, str]:
        return {
            "duration": f"{self.duration:g} synaptic time constants",
            "signals": number(len(self.coding_rate)),
            "input neurons": f"{number(self.input_rate.shape[1])}, rates {value_range(self.input_rate)}",
            "coding neurons": f"{number(self.coding_rate.shape[1])}, rates {value_range(self.coding_rate)}",
            "spikes": number(int(self.n_spikes.sum())),
        }


class _Network(NamedTuple):
    """As much of a `SpikingNetwork` as a run needs."""

    weights: SegmentedWeights
    firing_threshold: np.ndarray

    @property
    def n_neurons(self) -> int:
        return len(self.firing_threshold)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Task:
    """What all pieces of a batch have in common."""

    networks: Sequence[_Network]
    gammas: Sequence[float]
    layers: Layers
    feedback_rows: np.ndarray
    duration: float
    initial_potential: float
    how: Time[Any]


class _Runaway(NamedTuple):
    """The first signal of a piece that had more spikes than allowed, and how many of each neuron."""

    phase: int
    signal: int
    spike_counts: np.ndarray


class _Piece(NamedTuple):
    """What came of a piece of a batch."""

    observed: list[tuple[np.ndarray, ...]]
    """For each phase counts, average currents and average filtered spikes."""
    runaway: _Runaway | None = None


def run_phases(
    synapses: Synapses,
    drives: np.ndarray,
    *,
    mask: np.ndarray | None = None,
    gammas: Sequence[float],
    duration: float,
    initial_potential: float,
    how: Time[Any],
    n_pieces: int = 1,
    executor: Executor | None = None,
    first: int = 0,
) -> list[Phase]:
    """Run copies of the network through phases of equal duration, all states kept in between.

    Shapes: drives (n_signals, n_neurons); mask (n_signals, n_inputs).
    """
    allowed = _spikes_allowed(synapses, drives, duration, first)
    layers = synapses.layers(predicted=mask is not None)
    thresholds, n_inputs = layers.thresholds(synapses.lateral), synapses.n_inputs
    drives = layers.drives(drives[:, :n_inputs], drives[:, n_inputs:])
    if mask is not None:
        # Weights are those of all signals together, so that an unknown input needs a neuron of its own.
        # Of the two neurons of an input one is silent, and what it would observe is not read.
        for known, predicted in zip(layers.inputs, layers.predictions, strict=True):
            drives[:, known.neurons][~mask] = SILENCING_DRIVE
            drives[:, predicted.neurons][mask] = SILENCING_DRIVE
    networks = [_Network(synapses.weights(gamma, predicted=mask is not None), thresholds) for gamma in gammas]
    task = _Task(
        networks=networks,
        gammas=gammas,
        layers=layers,
        feedback_rows=synapses.feedback_rows,
        duration=duration,
        initial_potential=initial_potential,
        how=how,
    )
    # Interleaved, because neighbours are alike: signals first, then probes, and the probes are quick.
    n_pieces = min(n_pieces, len(drives))
    pieces = [np.arange(piece, len(drives), n_pieces) for piece in range(n_pieces)]
    outcomes = _run_pieces(task, [(drives[piece], allowed[piece]) for piece in pieces], executor)
    runaways = [
        (outcome.runaway.phase, int(piece[outcome.runaway.signal]))
        for piece, outcome in zip(pieces, outcomes, strict=True)
        if outcome.runaway is not None
    ]
    if runaways:
        # Run the first such signal alone: the error does not depend on the pieces.
        *_, signal = min(runaways)
        runaway = _run_piece(task, drives[[signal]], allowed[[signal]], Event()).runaway
        assert runaway is not None
        raise RunawayFeedbackError(_describe(layers, runaway.spike_counts, allowed[signal]))
    order = np.argsort(np.concatenate(pieces))
    phases = []
    for pieces_of_phase in zip(*(outcome.observed for outcome in outcomes), strict=True):
        observed = (
            arrays[0] if n_pieces == 1 else np.concatenate(arrays)[order]
            for arrays in zip(*pieces_of_phase, strict=True)
        )
        phases.append(_phase(layers, thresholds, *observed, mask=mask, duration=duration))
    return phases


def _phase(
    layers: Layers,
    thresholds: np.ndarray,
    counts: np.ndarray,
    currents: np.ndarray,
    traces: np.ndarray,
    *,
    mask: np.ndarray | None,
    duration: float,
) -> Phase:
    """Return what neurons observed, with one column for a pair and one neuron for an input."""

    def of_inputs(
        read: Callable[[Sequence[Population], np.ndarray], np.ndarray], observed: np.ndarray
    ) -> np.ndarray:
        known = read(layers.inputs, observed)
        return known if mask is None else np.where(mask, known, read(layers.predictions, observed))

    coding = layers.coding
    coding_trace = difference(coding, traces)
    if len(coding) == 1:
        coding_current = of_first(coding, currents)
    else:
        # Each neuron of a pair excites the other by the threshold: what both receive is without that.
        own = thresholds[coding[0].neurons]
        coding_current = 0.5 * (difference(coding, currents) + own * coding_trace)
    return Phase(
        duration=duration,
        n_spikes=total(coding, counts).sum(axis=1) + of_inputs(total, counts).sum(axis=1),
        input_rate=of_inputs(difference, counts) / duration,
        coding_rate=difference(coding, counts) / duration,
        input_current=of_inputs(of_first, currents),
        coding_current=coding_current,
        coding_trace=coding_trace,
    )


def join_phases(parts: Sequence[Sequence[Phase]]) -> list[Phase]:
    """Return the phases of all rows together, from those of consecutive parts."""
    joined = []
    for phases in zip(*parts, strict=True):
        names = [name for name in vars(phases[0]) if name != "duration"]
        arrays = {name: np.concatenate([getattr(phase, name) for phase in phases]) for name in names}
        joined.append(Phase(duration=phases[0].duration, **arrays))
    return joined


def _spikes_allowed(synapses: Synapses, drives: np.ndarray, duration: float, first: int) -> np.ndarray:
    """Return how many spikes each signal may have in a phase; raise ValueError if one is far too large."""
    n_inputs, thresholds = synapses.n_inputs, np.diagonal(synapses.lateral)
    with np.errstate(over="ignore"):
        signals = np.clip(drives[:, :n_inputs], -LARGEST_DRIVE, LARGEST_DRIVE)
        probes = np.clip(drives[:, n_inputs:], 0.0, LARGEST_DRIVE)
        # Coding neurons without inhibition; they matter where atoms are small.
        excitation = probes + np.abs(signals @ synapses.feedforward_rows)
        by_coding = (excitation / thresholds).max(axis=1)
        expected = (np.abs(signals).sum(axis=1) + by_coding) * duration
    too_many = ~(expected <= MOST_SPIKES_EXPECTED)
    if too_many.any():
        # Name the first such signal: the error is the same when a batch is run in parts.
        signal = int(np.argmax(too_many))
        raise ValueError(
            f"signals must be small enough for at most {MOST_SPIKES_EXPECTED:,.0f} spikes of one signal in a "
            f"phase; got one that would cause about {expected[signal]:.2g}, signal {first + signal} of this "
            "batch: divide the signals, or start learning anew with them, which sets their scale"
        )
    return SPIKES_ALLOWED * expected + LEAST_SPIKES_ALLOWED


def _describe(layers: Layers, counts: np.ndarray, allowed: float) -> str:
    """Return the sentence of a RunawayFeedbackError."""
    of_inputs, of_coding = total(layers.inputs, counts), total(layers.coding, counts)
    if layers.predictions:
        of_inputs = of_inputs + total(layers.predictions, counts)
    busiest, coding = int(np.argmax(of_inputs)), int(np.argmax(of_coding))
    neuron = (
        f"coding neuron {coding}" if of_coding[coding] > of_inputs[busiest] else f"input neuron {busiest}"
    )
    return (
        f"the network ran away: more than {allowed:,.0f} spikes of one signal in a phase, most of them of "
        f"{neuron}: feedback excites more than thresholds and inhibition take away; a smaller kappa, smaller "
        "steps (a smaller gain, or smaller batches) or a shorter time_step helps"
    )


def _run_pieces(
    task: _Task, pieces: Sequence[tuple[np.ndarray, np.ndarray]], executor: Executor | None
) -> list[_Piece]:
    """Run all pieces, in the threads of an executor if there is one and they are several."""
    stop = Event()
    if executor is None or len(pieces) == 1:
        return [_run_piece(task, *piece, stop) for piece in pieces]
    futures = [executor.submit(_run_piece, task, *piece, stop) for piece in pieces]
    try:
        return [future.result() for future in futures]
    except BaseException:
        stop.set()
        for future in futures:
            future.cancel()
        raise


def _run_piece(task: _Task, drives: np.ndarray, allowed: np.ndarray, stop: Event) -> _Piece:
    """Run some signals through all phases, or until one runs away.

    Copies are advanced one after the other, and each one's spikes are its own: so the first that runs away
    does not depend on which others there are.
    """
    layers, before = task.layers, task.gammas[0]
    end = task.how.end_of(task.duration)
    observed: list[tuple[np.ndarray, ...]] = []
    state: NetworkState | Run = NetworkState(
        membrane_potential=task.initial_potential * task.networks[0].firing_threshold,
        synaptic_current=np.zeros(drives.shape[1]),
    )
    for phase, (network, gamma) in enumerate(zip(task.networks, task.gammas, strict=True)):
        if phase > 0 and len(layers.inputs) == 2:
            forget_debt(state.membrane_potential, layers)
        run = task.how.start(network, (1.0 - gamma) * drives, state, filter_spikes=True)
        if gamma != before:
            # Feedback acts on the filtered spikes, so that a change of gamma acts at once.  (That of inputs
            # which carry predictions has not changed.)
            filtered = np.ascontiguousarray(difference(layers.coding, run.filtered_spikes))
            for inputs in layers.inputs:
                updates.add_combinations(
                    run.synaptic_current[:, inputs.neurons],
                    filtered,
                    inputs.sign * (gamma - before),
                    task.feedback_rows,
                )
            before = gamma
        trace = np.copy(run.filtered_spikes)
        run.advance(end, stop_when=partial(_is_over, run, allowed, stop))
        runaways = np.flatnonzero(run.spike_counts.sum(axis=1) > allowed)
        if len(runaways):
            signal = int(runaways[0])
            return _Piece(observed, _Runaway(phase, signal, run.spike_counts[signal]))
        counts = run.spike_counts
        traces = run.gain * (counts + (trace - run.filtered_spikes)) / task.duration
        observed.append((counts, run.charge / task.duration, traces))
        state = run
    return _Piece(observed)


def forget_debt(membrane_potential: np.ndarray, layers: Layers) -> None:
    """Raise the negative potentials of pairs of input neurons to zero, in place.

    While one neuron of a pair fires, the potential of the other falls.  Where the next phase changes the sign
    of what both receive, that neuron would be silent for as long again.
    """
    potentials = membrane_potential[:, : layers.n_input_neurons]
    np.maximum(potentials, 0.0, out=potentials)


def _is_over(run: Run, allowed: np.ndarray, stop: Event) -> bool:
    """Return whether a copy has more spikes than allowed; CancelledError if the run is to stop."""
    if stop.is_set():
        raise CancelledError
    return bool((run.spike_counts.sum(axis=1) > allowed).any())

"""Phases: runs of the two-phase network, and what its neurons observe of them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from dictlearn.two_phase._kernels import updates
from dictlearn.two_phase.synapses import Synapses, firing_thresholds
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

    Attributes
    ----------
    duration : float
        T, in synaptic time constants.
    input_rate, coding_rate : ndarray, shapes (n_signals, n_inputs), (n_signals, n_atoms)
        b and a: spikes per unit of time.
    input_current, coding_current : ndarray, of the same shapes
        v and u: average soma currents.
    coding_trace : ndarray, shape (n_signals, n_atoms)
        Average of the filtered spikes of the coding neurons, what their synapses passed on: the rate, except
        for what was in flight at the start and at the end of the phase.
    """

    duration: float
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

    @property
    def n_spikes(self) -> np.ndarray:
        """Spikes of all neurons, shape (n_signals,)."""
        spikes = (self.input_rate.sum(axis=1) + self.coding_rate.sum(axis=1)) * self.duration
        return np.rint(spikes).astype(np.int64)


class _Layers(NamedTuple):
    """As much of a `SpikingNetwork` as a run needs."""

    weights: SegmentedWeights
    firing_threshold: np.ndarray

    @property
    def n_neurons(self) -> int:
        return len(self.firing_threshold)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Task:
    """What all pieces of a batch have in common."""

    layers: Sequence[_Layers]
    gammas: Sequence[float]
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

    Parameters
    ----------
    synapses : Synapses
        The weights.
    drives : ndarray, shape (n_signals, n_neurons)
        The soma bias at gamma = 0, inputs first; 0 for inputs that are unknown.
    mask : ndarray of bool, shape (n_signals, n_inputs), optional
        True where an input is known.  The neuron of any other gets feedback of strength 1 in all phases: it
        carries what the network predicts.
    gammas : sequence of float
        Strength of the feedback in each phase, for inputs that are known.
    duration, initial_potential
        As for `TwoPhaseNetwork.run`.
    how : Time
        How its runs pass time.
    n_pieces, executor
        Into how many pieces to divide the signals, and what runs the pieces side by side.  After Ctrl-C its
        threads stop within a few tenths of a second.
    first : int, default 0
        Which signal of its batch the first of these is, for errors.

    Raises
    ------
    ValueError
        If a signal is so large that it would cause more than MOST_SPIKES_EXPECTED spikes.
    RunawayFeedbackError
        If a phase has more spikes than anything but a runaway could cause.
    """
    thresholds = firing_thresholds(synapses.lateral, synapses.n_inputs)
    allowed = _spikes_allowed(synapses, thresholds, drives, duration, first)
    n_inputs, n_neurons = synapses.n_inputs, len(thresholds)
    inputs, coding = slice(0, n_inputs), slice(n_inputs, n_neurons)
    predicted = slice(n_neurons, None)
    if mask is not None:
        # Weights are those of all signals together, so that an unknown input needs a neuron of its own.
        # Of the two neurons of an input one is silent, and what it would observe is not read.
        drives = np.hstack([drives, np.where(mask, SILENCING_DRIVE, 0.0)])
        drives[:, inputs][~mask] = SILENCING_DRIVE
        thresholds = np.concatenate([thresholds, thresholds[inputs]])
    task = _Task(
        layers=[_Layers(synapses.weights(gamma, predicted=mask is not None), thresholds) for gamma in gammas],
        gammas=gammas,
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
        counts = runaway.spike_counts
        if mask is not None:
            counts = np.concatenate([counts[inputs] + counts[predicted], counts[coding]])
        raise RunawayFeedbackError(_describe(counts, allowed[signal], n_inputs))
    order = np.argsort(np.concatenate(pieces))

    def of_inputs(observed: np.ndarray) -> np.ndarray:
        if mask is None:
            return observed[:, inputs]
        return np.where(mask, observed[:, inputs], observed[:, predicted])

    phases = []
    for pieces_of_phase in zip(*(outcome.observed for outcome in outcomes), strict=True):
        counts, currents, traces = (
            arrays[0] if n_pieces == 1 else np.concatenate(arrays)[order]
            for arrays in zip(*pieces_of_phase, strict=True)
        )
        phases.append(
            Phase(
                duration=duration,
                input_rate=of_inputs(counts) / duration,
                coding_rate=counts[:, coding] / duration,
                input_current=of_inputs(currents),
                coding_current=currents[:, coding],
                coding_trace=traces[:, coding],
            )
        )
    return phases


def join_phases(parts: Sequence[Sequence[Phase]]) -> list[Phase]:
    """Return the phases of all rows together, from those of consecutive parts.

    Parameters
    ----------
    parts : sequence of sequence of Phase
        Of each part its phases, from `run_phases`.
    """
    joined = []
    for phases in zip(*parts, strict=True):
        names = [name for name in vars(phases[0]) if name != "duration"]
        arrays = {name: np.concatenate([getattr(phase, name) for phase in phases]) for name in names}
        joined.append(Phase(duration=phases[0].duration, **arrays))
    return joined


def _spikes_allowed(
    synapses: Synapses, thresholds: np.ndarray, drives: np.ndarray, duration: float, first: int
) -> np.ndarray:
    """Return how many spikes each signal may have in a phase; raise ValueError if one is far too large."""
    n_inputs = synapses.n_inputs
    with np.errstate(over="ignore"):
        charge = np.clip(drives, 0.0, LARGEST_DRIVE)
        # Coding neurons without inhibition; they matter where atoms are small.
        excitation = charge[:, n_inputs:] + charge[:, :n_inputs] @ synapses.feedforward_rows
        by_coding = (excitation / thresholds[n_inputs:]).max(axis=1)
        expected = (charge[:, :n_inputs].sum(axis=1) + by_coding) * duration
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


def _describe(counts: np.ndarray, allowed: float, n_inputs: int) -> str:
    """Return the sentence of a RunawayFeedbackError."""
    busiest = int(np.argmax(counts))
    neuron = f"coding neuron {busiest - n_inputs}" if busiest >= n_inputs else f"input neuron {busiest}"
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
    n_atoms, n_inputs = task.feedback_rows.shape
    before = task.gammas[0]
    end = task.how.end_of(task.duration)
    observed: list[tuple[np.ndarray, ...]] = []
    state: NetworkState | Run = NetworkState(
        membrane_potential=task.initial_potential * task.layers[0].firing_threshold,
        synaptic_current=np.zeros(drives.shape[1]),
    )
    for phase, (layer, gamma) in enumerate(zip(task.layers, task.gammas, strict=True)):
        run = task.how.start(layer, (1.0 - gamma) * drives, state, filter_spikes=True)
        if gamma != before:
            # Feedback acts on the filtered spikes, so that a change of gamma acts at once.  (That of inputs
            # which carry predictions has not changed.)
            updates.add_combinations(
                run.synaptic_current[:, :n_inputs],
                run.filtered_spikes[:, n_inputs : n_inputs + n_atoms],
                gamma - before,
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


def _is_over(run: Run, allowed: np.ndarray, stop: Event) -> bool:
    """Return whether a copy has more spikes than allowed; CancelledError if the run is to stop."""
    if stop.is_set():
        raise CancelledError
    return bool((run.spike_counts.sum(axis=1) > allowed).any())

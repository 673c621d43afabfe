"""Runs of the two-phase network, phase after phase, and the observations of its neurons."""

from _thread import start_new_thread
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import ThreadingBackend, get_active_backend

from dictlearn.two_phase._kernels import graded, updates
from dictlearn.two_phase.layers import Layers, Population, difference, of_first, total
from dictlearn.two_phase.synapses import LEAST_THRESHOLD, Synapses
from snn._kernels.real_neurons import CHUNK
from snn.base import checks
from snn.base.describe import Drawn
from snn.base.value import Value
from snn.network import NetworkState
from snn.run.real import charge_of_step, new_workspace
from snn.run.run import UPDATES_PER_CALL, Run
from snn.run.start import start_run
from snn.run.time import Clock, Time, end_of
from snn.weights import Segments

Result = TypeVar("Result")

# Number of spikes allowed for a signal in a phase: LEAST_SPIKES_ALLOWED plus SPIKES_ALLOWED times the
# expected number, which counts the inputs without feedback and the coding neuron that they excite most.
SPIKES_ALLOWED = 20.0
LEAST_SPIKES_ALLOWED = 2_000
# Largest expected number of spikes of one signal in a phase.  Learning takes hundreds of spikes for each
# signal, and long runs take hundreds of thousands.  Ten million spikes would take from ten seconds to minutes
# for each signal.
MOST_SPIKES_EXPECTED = 1e7
# On a clock, the number of neurons, over all signals, must be at least this number for each thread.  With
# fewer neurons, threads mostly wait.
NEURONS_PER_THREAD = 2**15
# Drive of a neuron that must stay silent.  The feedback of all allowed spikes cannot outweigh this drive.
SILENCING_DRIVE = -(2.0**40)
# Stop signal of a run in one piece.  This signal is never set, because the only piece has no other piece that
# can fail.
UNSET = Event()


class RunawayFeedbackError(RuntimeError):
    """The error of a runaway: feedback excited the network more than thresholds and inhibition took away."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Phase(Value, Drawn):
    """Observations of the neurons in one phase: one row for each signal, one column for each input or atom.

    Attributes
    ----------
    duration : float
        Duration T of the phase, in synaptic time constants.
    n_spikes : ndarray of int, shape (n_signals,)
        Number of spikes of all neurons.
    input_rate, coding_rate : ndarray, shapes (n_signals, n_inputs), (n_signals, n_atoms)
        Rates b and a in spikes per unit of time; for a pair, the first neuron's rate minus the second's.
    input_current, coding_current : ndarray, of the same shapes
        Average soma currents v and u.  The current of a pair of inputs is the current of its first neuron.
        The current of a pair of coding neurons is the current that both neurons receive with opposite signs.
        The penalty and the effect of the two neurons on each other are excluded.
    coding_trace : ndarray, shape (n_signals, n_atoms)
        Average of the filtered spikes that the synapses of the coding neurons passed on.  A trace differs
        from the rate by the charge that is in the synapses at the start and at the end of the phase.
    """

    duration: float
    n_spikes: np.ndarray
    input_rate: np.ndarray
    coding_rate: np.ndarray
    input_current: np.ndarray
    coding_current: np.ndarray
    coding_trace: np.ndarray


class _Network(NamedTuple):
    """The attributes of a `SpikingNetwork` that a run reads."""

    weights: Segments
    firing_threshold: np.ndarray

    @property
    def n_neurons(self) -> int:
        return len(self.firing_threshold)


class _Refused(Exception):
    """The error of a signal that is too large or spikes too often; only the smallest `order` is raised."""

    def __init__(self, order: tuple[int, int], error: Exception) -> None:
        super().__init__()
        self.order, self.error = order, error


def run_phases(
    synapses: Synapses,
    signals: np.ndarray,
    coding: np.ndarray,
    *,
    mask: np.ndarray | None = None,
    gammas: tuple[float, float],
    duration: float,
    initial_potential: float,
    time: Time,
    n_threads: int = 1,
    numbers: np.ndarray | None = None,
) -> list[Phase]:
    """Run a copy of the network for each signal through two phases, and keep all states between them."""
    # `signals` drives the inputs and `coding` drives the coding neurons, both at gamma = 0.  Error messages
    # call signals by their entries in `numbers`.
    layers = Layers(synapses.n_inputs, synapses.n_atoms, synapses.signs, mask is not None)
    thresholds, end = layers.thresholds(synapses.lateral_rows), end_of(time, duration)

    def run_piece(
        rows: np.ndarray, stop: Event, signals: np.ndarray, coding: np.ndarray, *masks: np.ndarray
    ) -> list[np.ndarray]:
        """Return counts, average currents and traces of both phases."""
        _, allowed = _driven(synapses, signals, coding, 1.0, duration, rows, numbers)
        drives = layers.drives(signals, coding)
        for mask in masks:
            # All signals share the same weights, so an unknown input needs a separate neuron.  One of these
            # two neurons is silent, and the observations of the silent neuron are not read.
            for known, predicted in zip(layers.inputs, layers.predictions, strict=True):
                drives[:, known.neurons][~mask] = SILENCING_DRIVE
                drives[:, predicted.neurons][mask] = SILENCING_DRIVE
        observed: list[np.ndarray] = []
        before, filtered = gammas[0], np.zeros((len(rows), layers.n_neurons))
        state: NetworkState | Run = NetworkState(
            membrane_potential=initial_potential * thresholds, synaptic_current=np.zeros(layers.n_neurons)
        )
        for phase, gamma in enumerate(gammas):
            if phase > 0 and len(layers.inputs) == 2:
                forget_debt(state.membrane_potential, layers)
            network = _Network(synapses.weights(layers, gamma), thresholds)
            run = start_run(time, network, (1.0 - gamma) * drives, state, filter_spikes=True)
            if gamma != before:
                # Feedback multiplies the filtered spikes, so a change of gamma changes the currents at once.
                passed = np.ascontiguousarray(difference(layers.coding, filtered))
                for inputs in layers.inputs:
                    current, factor = run.synaptic_current[:, inputs.neurons], inputs.sign * (gamma - before)
                    updates.add_combinations(current, passed, factor, synapses.feedback_rows)
                before = gamma
            counts = _advanced(run, layers, phase, end, allowed, rows, stop)
            after = run.filtered_spikes
            traces = run.gain * (counts + (filtered - after)) / duration
            observed += [counts, run.charge / duration, traces]
            state, filtered = run, after
        return observed

    arrays = (signals, coding) if mask is None else (signals, coding, mask)
    observed = _in_pieces(run_piece, arrays, n_threads)
    return [
        _phase(layers, observed[first : first + 3], thresholds, mask=mask, duration=duration)
        for first in (0, 3)
    ]


def run_graded(
    synapses: Synapses,
    signals: np.ndarray,
    coding: np.ndarray,
    *,
    kappa: float,
    duration: float,
    time: Time,
    n_threads: int,
    numbers: np.ndarray,
    mask: np.ndarray | None = None,
    neurons_per_thread: int = NEURONS_PER_THREAD,
    updates_per_call: int = UPDATES_PER_CALL,
) -> list[np.ndarray]:
    """Run a copy of the network with graded inputs for each signal; both phases have feedback."""
    # `synapses.closed_rows` must be computed for `kappa`.  A mask needs a clock.  For each signal, the result
    # has the number of spikes and, for the second phase, whether each coding neuron fired, its filtered
    # spikes, g_D and g_H.
    layers = synapses.graded_layers
    assert synapses.closed_rows is not None
    thresholds = layers.thresholds(synapses.closed_rows)
    lowest = int(np.argmin(thresholds))
    if thresholds[lowest] <= 0.0:
        raise RunawayFeedbackError(
            f"the network ran away: after a spike of coding neuron {lowest}, the inputs return at least as "
            "much charge to it as its threshold takes; a smaller kappa or smaller learning steps help"
        )
    end = end_of(time, duration)
    # Sums run in the order of the neurons; sums by BLAS would depend on the number of rows.
    weights = kappa, synapses.feedback_rows, synapses.lateral_rows, synapses.closed_rows.reshape(-1)

    def run_piece(
        rows: np.ndarray, stop: Event, signals: np.ndarray, coding: np.ndarray, *masks: np.ndarray
    ) -> list[np.ndarray]:
        drives, allowed = _driven(synapses, signals, coding, 1.0 - kappa, duration, rows, numbers)
        fired, codes = np.empty(coding.shape, dtype=np.bool_), np.empty(coding.shape)
        observed = fired, codes, np.empty(signals.shape), np.empty(coding.shape)
        if isinstance(time, Clock):
            unseen = _unseen(synapses, kappa, thresholds, *masks)
            observation = *unseen, signals, *observed, duration, *weights
            budget = max(1, updates_per_call // drives.shape[1])
            n_spikes = _on_clock(
                time, layers, end, thresholds, drives, allowed, rows, stop, budget, observation
            )
            return [n_spikes, *observed]
        network = _Network(synapses.weights(layers, kappa), thresholds)
        run = start_run(time, network, drives, filter_spikes=True)
        # A row without a signal has only a probe, and skips the first phase.
        settles = signals.any(axis=1)
        settled = _advanced(run, layers, 0, end, allowed, rows, stop, active=np.flatnonzero(settles))
        filtered, until = run.filtered_spikes, np.where(settles, 2.0 * end, end)
        counts = _advanced(run, layers, 1, until, allowed, rows, stop, settled)
        filtered -= run.filtered_spikes
        updates.observe(counts, filtered, signals, *observed, 1.0 / duration, *weights)
        return [run.spike_counts.sum(axis=1), *observed]

    if isinstance(time, Clock):
        n_threads = max(1, min(n_threads, len(signals) * layers.n_neurons // neurons_per_thread))
    arrays = (signals, coding) if mask is None else (signals, coding, mask)
    return _in_pieces(run_piece, arrays, n_threads)


def _unseen(
    synapses: Synapses, kappa: float, thresholds: np.ndarray, known: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    """Return masks, and the arguments from which a kernel computes (1 - kappa) F M B of masked rows."""
    n_atoms, n_inputs, forward = synapses.n_atoms, synapses.n_inputs, synapses.feedforward_rows
    if known is None:
        return np.empty((0, n_inputs), dtype=np.bool_), *np.empty((2, 0, 0)), forward, np.empty(0)
    n_known, rest = known.sum(axis=1), 1.0 - kappa
    # M selects the known inputs.  If less than half of the inputs are known, kernels sum over the known
    # inputs.  Otherwise kernels subtract the sum over the unknown inputs from F B = (H - closed) / kappa.
    of_lateral = np.where(2 * n_known < n_inputs, 0.0, rest / kappa)
    shares = np.column_stack([-of_lateral, of_lateral, np.where(of_lateral > 0.0, -rest, rest)])
    levels = np.zeros((len(known), n_atoms))
    updates.add_combinations(levels, known.astype(np.float64), rest, forward * synapses.feedback_rows.T)
    np.maximum(levels, rest * LEAST_THRESHOLD / n_inputs * np.maximum(n_known, 1)[:, np.newaxis], out=levels)
    shares[n_known == n_inputs], levels[n_known == n_inputs] = (1.0, 0.0, -rest), thresholds[:n_atoms]
    return known, shares, levels, forward, np.empty(n_atoms**2)


def _on_clock(
    clock: Clock,
    layers: Layers,
    end: float,
    thresholds: np.ndarray,
    drives: np.ndarray,
    allowed: np.ndarray,
    rows: np.ndarray,
    stop: Event,
    budget: int,
    observation: tuple[Any, ...],
) -> np.ndarray:
    """Run signals through both phases and set what neurons observe; return the spikes of each signal."""
    n_rows, n_neurons = drives.shape
    n_spikes, place = np.empty(n_rows, dtype=np.int64), np.zeros(graded.PLACE_SIZE, dtype=np.int64)
    numbers = np.zeros((graded.N_FLOATS, n_neurons))
    integers = np.zeros((graded.N_INTEGERS, n_neurons + CHUNK), dtype=np.int64)
    integers[graded.ROW_OF, : layers.n_atoms] = np.arange(layers.n_atoms)
    neuron: Any = clock.neuron
    step, charge, subtracts = clock.time_step, charge_of_step(clock), neuron.reset == "subtract"
    workspace, cross = new_workspace(thresholds), thresholds[layers.n_atoms :].copy()
    while place[graded.ROW] < n_rows:
        if stop.is_set():
            raise CancelledError
        if not graded.run_rows(
            place, budget, round(end / step), step, charge, subtracts, drives, allowed,
            n_spikes, numbers, integers, workspace, cross, *observation,
        ):  # fmt: skip
            k = place[graded.ROW]
            counts = integers[graded.COUNTS] - integers[graded.SETTLED_COUNTS]
            raise _ran_away(layers, 0, rows[k], counts, allowed[k])
    return n_spikes


def _advanced(
    run: Run,
    layers: Layers,
    phase: int,
    end: float | np.ndarray,
    allowed: np.ndarray,
    rows: np.ndarray,
    stop: Event,
    before: np.ndarray | None = None,
    active: np.ndarray | None = None,
) -> np.ndarray:
    """Advance a run to the end of a phase; return the spike count of each neuron minus `before`."""
    most = allowed if before is None else allowed + before.sum(axis=1)

    def are_too_many() -> np.ndarray:
        if stop.is_set():
            raise CancelledError
        return run.spike_counts.sum(axis=1) > most

    run.advance(end, active=active, stop_when=lambda: bool(are_too_many().any()))
    counts = run.spike_counts.copy() if before is None else run.spike_counts - before
    if (over := are_too_many()).any():
        # Copies of the network run one after the other, so that the first runaway does not depend on later
        # copies.
        k = int(np.argmax(over))
        raise _ran_away(layers, phase, rows[k], counts[k], allowed[k])
    return counts


def _in_pieces(
    run_piece: Callable[..., list[np.ndarray]], arrays: Sequence[np.ndarray], n_threads: int
) -> list[np.ndarray]:
    """Run pieces of the rows in threads; return arrays of all rows, or raise the first bad row's error."""
    # Signals come before probes, which are quick.  Each piece gets interleaved rows, so that all pieces take
    # about the same time.
    n_rows = len(arrays[0])
    n_pieces = min(n_threads, n_rows)
    stop = Event() if n_pieces > 1 else UNSET
    pieces = [np.arange(piece, n_rows, n_pieces) for piece in range(n_pieces)]

    def outcome(rows: np.ndarray) -> list[np.ndarray] | _Refused:
        try:
            return run_piece(rows, stop, *(each if len(rows) == n_rows else each[rows] for each in arrays))
        except _Refused as refused:
            return refused

    outcomes: list[Any] = in_threads(outcome, pieces, stop) if n_pieces > 1 else [outcome(pieces[0])]
    refused = [each.order for each in outcomes if isinstance(each, _Refused)]
    if refused:
        # Run the refused signal again by itself, so that the error does not depend on the pieces.
        refusal: Any = outcome(np.array([min(refused)[1]]))
        raise refusal.error
    if n_pieces == 1:
        return list(outcomes[0])
    order = np.argsort(np.concatenate(pieces))
    return [np.concatenate(parts)[order] for parts in zip(*outcomes, strict=True)]


def _phase(
    layers: Layers,
    observed: list[np.ndarray],
    thresholds: np.ndarray,
    *,
    mask: np.ndarray | None,
    duration: float,
) -> Phase:
    """Return the observations of one phase, with one column for each pair of neurons."""

    def of_inputs(
        read: Callable[[Sequence[Population], np.ndarray], np.ndarray], observed: np.ndarray
    ) -> np.ndarray:
        known = read(layers.inputs, observed)
        return known if mask is None else np.where(mask, known, read(layers.predictions, observed))

    coding, (counts, currents, traces) = layers.coding, observed
    coding_trace = difference(coding, traces)
    if len(coding) == 1:
        coding_current = of_first(coding, currents)
    else:
        # Each spike of a neuron excites the other neuron of its pair by the threshold; subtract this effect.
        heights = thresholds[coding[0].neurons]
        coding_current = 0.5 * (difference(coding, currents) + heights * coding_trace)
    return Phase(
        duration=duration,
        n_spikes=total(coding, counts).sum(axis=1) + of_inputs(total, counts).sum(axis=1),
        input_rate=of_inputs(difference, counts) / duration,
        coding_rate=difference(coding, counts) / duration,
        input_current=of_inputs(of_first, currents),
        coding_current=coding_current,
        coding_trace=coding_trace,
    )


def forget_debt(membrane_potential: np.ndarray, layers: Layers) -> None:
    """Raise the negative potentials of pairs of input neurons to zero, in place."""
    # While one neuron of a pair fires, the potential of the other neuron falls.  If the sign of their input
    # changes in the next phase, the other neuron would stay silent until its potential has risen again.
    for inputs in (*layers.inputs, *layers.predictions):
        potentials = membrane_potential[:, inputs.neurons]
        np.maximum(potentials, 0.0, out=potentials)


def _driven(
    synapses: Synapses,
    signals: np.ndarray,
    coding: np.ndarray,
    share: float,
    duration: float,
    rows: np.ndarray,
    numbers: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the drives ``share (F x + coding)``, and the number of spikes allowed for each signal."""
    drives = np.empty((len(signals), synapses.n_atoms * (1 if synapses.signs.positive_code else 2)))
    expected, forward = np.empty(len(signals)), synapses.feedforward_rows
    updates.drive(drives, expected, signals, coding, forward, synapses.thresholds, share, duration)
    too_many = ~(expected <= MOST_SPIKES_EXPECTED)
    if too_many.any():
        k = int(np.argmax(too_many))
        row = int(rows[k])
        error = ValueError(
            f"signals must be small enough for at most {MOST_SPIKES_EXPECTED:,.0f} spikes of one signal in a "
            f"phase; got one that would cause about {expected[k]:.2g}, signal "
            f"{row if numbers is None else numbers[row]} of this batch: divide the signals, or start "
            "learning anew with them, which sets their scale"
        )
        raise _Refused((-1, row), error)
    return drives, SPIKES_ALLOWED * expected + LEAST_SPIKES_ALLOWED


def _ran_away(layers: Layers, phase: int, row: int, counts: np.ndarray, allowed: float) -> _Refused:
    """Return the error of a signal that has too many spikes in a phase."""
    of_coding = total(layers.coding, counts)
    of_inputs = sum(
        (total(inputs, counts) for inputs in (layers.inputs, layers.predictions) if inputs), np.zeros(1)
    )
    busiest, coding = int(np.argmax(of_inputs)), int(np.argmax(of_coding))
    neuron = (
        f"coding neuron {coding}" if of_coding[coding] > of_inputs[busiest] else f"input neuron {busiest}"
    )
    error = RunawayFeedbackError(
        f"the network ran away: more than {allowed:,.0f} spikes of one signal in a phase, most of them of "
        f"{neuron}: feedback excites more than thresholds and inhibition take away; a smaller kappa, smaller "
        "learning steps (a smaller gain, or smaller batches) or a clock with a shorter time_step helps"
    )
    return _Refused((phase, int(row)), error)


def in_threads(call: Callable[[Any], Result], pieces: Sequence[Any], stop: Event) -> list[Result]:
    """Call a function for each piece, with a thread for every piece but the first; return the results."""
    # An error in the calling thread, for example Ctrl-C, sets `stop`, so that the other threads end soon.
    # The calling thread does not wait for the other threads.
    results: SimpleQueue[tuple[int, Result | None, BaseException | None]] = SimpleQueue()

    def work(k: int) -> None:
        try:
            results.put((k, call(pieces[k]), None))
        except BaseException as error:
            results.put((k, None, error))

    try:
        for k in range(1, len(pieces)):
            # Do not use `threading.Thread`, because Ctrl-C while a thread starts would leave its lock locked
            # forever.
            start_new_thread(work, (k,))
        outcomes: dict[int, Any] = {0: call(pieces[0])}
        while len(outcomes) < len(pieces):
            k, result, error = results.get()
            if error is not None:
                raise error
            outcomes[k] = result
    except BaseException:
        stop.set()
        raise
    return [outcomes[k] for k in range(len(pieces))]


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads for an `n_jobs` with scikit-learn's meaning."""
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    backend, _ = get_active_backend()
    # Backends of clusters, which are not joblib's own, count workers elsewhere, but threads run here.
    if type(backend).__module__ != ThreadingBackend.__module__:
        return 1 if n_jobs is None else ThreadingBackend().effective_n_jobs(n_jobs)
    return effective_n_jobs(n_jobs)

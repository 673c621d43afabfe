"""The weights of the two-phase network as it runs and learns: in one place, changed in place."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dictlearn import _kernels
from snn import Block, BlockWeights, checks
from snn.clock_driven import ClockDrivenRun
from snn.event_driven import EventDrivenRun
from snn.state import NetworkState
from snn.weights import SegmentedWeights

# A phase ends in an error after so many times the spikes of the inputs without feedback and of the coding
# neuron that they excite most; the least is for short phases.
SPIKES_ALLOWED = 20.0
LEAST_SPIKES_ALLOWED = 2_000


class RunawayFeedbackError(RuntimeError):
    """Feedback excited the network more than thresholds and lateral inhibition took away."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Phase:
    """What neurons can see of themselves over one phase; a row a signal.

    Attributes
    ----------
    duration : float
        T, in synaptic time constants.
    input_rate, coding_rate : ndarray, shapes (n_signals, n_inputs), (n_signals, n_atoms)
        b and a: spikes per unit of time.
    input_current, coding_current : ndarray, of the same shapes
        v and u: average soma currents.
    input_rise, coding_rise : ndarray, of the same shapes
        By how much potentials changed over the phase, spikes apart.
    coding_trace : ndarray, shape (n_signals, n_atoms)
        Average of the filtered spikes of the coding neurons, what their synapses passed on: the rate, but
        for what the phase found in flight at its start and left at its end.
    """

    duration: float
    input_rate: np.ndarray
    coding_rate: np.ndarray
    input_current: np.ndarray
    coding_current: np.ndarray
    input_rise: np.ndarray
    coding_rise: np.ndarray
    coding_trace: np.ndarray

    def __post_init__(self) -> None:
        checks.freeze_arrays(self)

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


def blocks(
    feedforward: np.ndarray, feedback: np.ndarray, lateral: np.ndarray, *, gamma: float = 1.0
) -> tuple[Block, ...]:
    """Return the weights as blocks of a network with its inputs first: F, H, and at last, if any, gamma B.

    Parameters
    ----------
    feedforward, feedback, lateral : ndarray, shapes (n_atoms, n_inputs), (n_inputs, n_atoms), (n_atoms, n_atoms)
        F, B and H.
    gamma : float, default 1.0
        Strength of the feedback.
    """  # noqa: E501
    n_inputs = feedforward.shape[1]
    forward = (
        Block(first_source=0, first_target=n_inputs, values=feedforward.T),
        Block(first_source=n_inputs, first_target=n_inputs, values=lateral.T, factor=-1.0),
    )
    if gamma == 0.0:
        return forward
    return (*forward, Block(first_source=n_inputs, first_target=0, values=feedback.T, factor=gamma))


def firing_thresholds(lateral: np.ndarray, n_inputs: int) -> np.ndarray:
    """Return the thresholds of all neurons, inputs first: 1, and the diagonal of H.

    Parameters
    ----------
    lateral : ndarray, shape (n_atoms, n_atoms)
        H.
    n_inputs : int
        M.
    """
    return np.concatenate([np.ones(n_inputs), np.diagonal(lateral)])


class Synapses:
    """F, B and H, a row a source as spikes need them, in one array that runs read and learning changes.

    Parameters
    ----------
    feedforward, feedback, lateral : ndarray, shapes (n_atoms, n_inputs), (n_inputs, n_atoms), (n_atoms, n_atoms)
        F, B and H; copied.
    """  # noqa: E501

    def __init__(self, feedforward: np.ndarray, feedback: np.ndarray, lateral: np.ndarray) -> None:
        n_atoms, n_inputs = feedforward.shape
        self.n_inputs, self.n_atoms = n_inputs, n_atoms
        all_blocks = blocks(feedforward, feedback, lateral)
        full = BlockWeights(n_neurons=n_inputs + n_atoms, blocks=all_blocks).segments
        self._values = full.values
        ends = np.cumsum([block.values.size for block in all_blocks])
        self._full = full
        self._is_feedback = full.offsets >= ends[1]
        self.feedforward_rows = self._values[: ends[0]].reshape(n_inputs, n_atoms)
        self.lateral_rows = self._values[ends[0] : ends[1]].reshape(n_atoms, n_atoms)
        self.feedback_rows = self._values[ends[1] :].reshape(n_atoms, n_inputs)

    def __reduce__(self) -> tuple:
        # The rows are views of one array, which a copy or a pickle would tear apart.
        return Synapses, (self.feedforward, self.feedback, self.lateral)

    @property
    def feedforward(self) -> np.ndarray:
        """F, shape (n_atoms, n_inputs), a view."""
        return self.feedforward_rows.T

    @property
    def feedback(self) -> np.ndarray:
        """B, shape (n_inputs, n_atoms), a view."""
        return self.feedback_rows.T

    @property
    def lateral(self) -> np.ndarray:
        """H, shape (n_atoms, n_atoms), a view."""
        return self.lateral_rows.T

    def weights(self, gamma: float) -> SegmentedWeights:
        """Return the weights with feedback of strength gamma; they follow what learning changes."""
        full = self._full
        # Without feedback coding spikes need not touch the inputs at all.
        lengths = np.where(self._is_feedback, 0, full.lengths) if gamma == 0.0 else full.lengths
        factors = np.where(self._is_feedback, gamma, full.factors)
        return SegmentedWeights(
            full.n_neurons, full.starts, full.targets, lengths, full.offsets, factors, full.values
        )

    def run(
        self,
        drives: np.ndarray,
        *,
        gammas: Sequence[float],
        duration: float,
        initial_potential: float,
        time_step: float | None,
        n_pieces: int = 1,
        executor: Executor | None = None,
    ) -> list[Phase]:
        """Run copies of the network through phases of equal duration, all states kept in between.

        The arguments of `TwoPhaseNetwork.run`; `drives`, shape (n_signals, n_neurons), is the soma bias at
        gamma = 0, inputs first; `gammas` the strength of the feedback in each phase.  Pieces of the
        signals run side by side in the executor's threads.

        Raises
        ------
        RunawayFeedbackError
            If a phase has more spikes than anything but a runaway could cause.
        """
        thresholds = firing_thresholds(self.lateral, self.n_inputs)
        layers = [_Layers(self.weights(gamma), thresholds) for gamma in gammas]
        # Interleaved, because neighbours are alike: signals first, then probes, and the probes are quick.
        n_pieces = min(n_pieces, len(drives))
        pieces = [drives[first::n_pieces] for first in range(n_pieces)]
        order = np.argsort(np.concatenate([np.arange(k, len(drives), n_pieces) for k in range(n_pieces)]))
        arguments = (
            layers,
            self.feedforward_rows,
            self.feedback_rows,
            gammas,
            duration,
            initial_potential,
            time_step,
        )
        if executor is None or len(pieces) == 1:
            outcomes = [_run_piece(piece, *arguments) for piece in pieces]
        else:
            outcomes = list(executor.map(lambda piece: _run_piece(piece, *arguments), pieces))
        return [
            self._phase(duration, *(np.concatenate(arrays)[order] for arrays in zip(*phase, strict=True)))
            for phase in zip(*outcomes, strict=True)
        ]

    def _phase(
        self, duration: float, counts: np.ndarray, currents: np.ndarray, rises: np.ndarray, traces: np.ndarray
    ) -> Phase:
        inputs, coding = slice(0, self.n_inputs), slice(self.n_inputs, None)
        return Phase(
            duration=duration,
            input_rate=counts[:, inputs] / duration,
            coding_rate=counts[:, coding] / duration,
            input_current=currents[:, inputs],
            coding_current=currents[:, coding],
            input_rise=rises[:, inputs],
            coding_rise=rises[:, coding],
            coding_trace=traces[:, coding],
        )


def _run_piece(
    drives: np.ndarray,
    layers: list[_Layers],
    feedforward_rows: np.ndarray,
    feedback_rows: np.ndarray,
    gammas: Sequence[float],
    duration: float,
    initial_potential: float,
    time_step: float | None,
) -> list[tuple[np.ndarray, ...]]:
    """Return for each phase counts, average currents, rises and average filtered spikes."""
    n_inputs = feedback_rows.shape[1]
    before = gammas[0]
    charge = np.maximum(drives, 0.0)
    # What coding neurons without inhibition would do counts where atoms are small.
    excitation = charge[:, n_inputs:] + charge[:, :n_inputs] @ feedforward_rows
    expected = charge[:, :n_inputs].sum(axis=1) + (excitation / layers[0].firing_threshold[n_inputs:]).max(
        axis=1
    )
    limits = SPIKES_ALLOWED * expected * duration + LEAST_SPIKES_ALLOWED
    seen: list[tuple[np.ndarray, ...]] = []
    run: NetworkState | EventDrivenRun | ClockDrivenRun = NetworkState(
        membrane_potential=initial_potential * layers[0].firing_threshold,
        synaptic_current=np.zeros(drives.shape[1]),
    )
    for layer, gamma in zip(layers, gammas, strict=True):
        drive = (1.0 - gamma) * drives
        if time_step is None:
            run = EventDrivenRun(layer, drive, run, filter_spikes=True)
        else:
            run = ClockDrivenRun(layer, drive, time_step=time_step, state=run)
        if gamma != before:
            # Feedback acts on the filtered spikes, so that a change of gamma is felt at once.
            _kernels.add_combinations(
                run.synaptic_current[:, :n_inputs],
                run.filtered_spikes[:, n_inputs:],
                gamma - before,
                feedback_rows,
            )
            before = gamma
        potential, trace = run.membrane_potential.copy(), np.copy(run.filtered_spikes)
        run.advance(
            duration if time_step is None else round(duration / time_step), max_spikes=int(limits.sum())
        )
        counts = run.spike_counts
        # Signal by signal, so that it does not matter which are run together.  Where the sum of the limits
        # stopped the run, some signal is beyond its own.
        beyond = counts.sum(axis=1) - limits
        if beyond.max() > 0.0:
            worst = int(np.argmax(beyond))
            busiest = int(np.argmax(counts[worst]))
            neuron = (
                f"coding neuron {busiest - n_inputs}" if busiest >= n_inputs else f"input neuron {busiest}"
            )
            raise RunawayFeedbackError(
                f"the network ran away: more than {limits[worst]:,.0f} spikes of one signal in a phase, most "
                f"of them of {neuron}: feedback excites more than thresholds and inhibition take away"
            )
        rise = run.membrane_potential - potential
        lost = trace - run.filtered_spikes
        if time_step is None:
            charge = layer.firing_threshold * counts + rise
            traces = (counts + lost) / duration
        else:
            charge = run.charge
            # The sum over the steps of a trace that fades by e^-dt a step and gains 1 a spike.
            traces = (counts + lost) * (time_step / -np.expm1(-time_step)) / duration
        seen.append((counts, charge / duration, rise, traces))
    return seen

"""Codes by spikes alone, read through a smooth window, stage by stage."""

from __future__ import annotations

import numpy as np

from snn.digital import DigitalNetwork
from snn.digital.run import DigitalRun
from snn.run.clocked import ClockDrivenRun
from snn.run.exact import EventDrivenRun
from snn.weights.protocol import KernelForm
from solvers._kernels.refinement import (
    DONE,
    GOES_ON,
    LOOK,
    STAGE_ENDED,
    Codes,
    Drives,
    Problem,
    Work,
    begin,
    go_on,
    look_at,
)
from solvers.problem.lasso import LassoProblem
from solvers.spiking.network import LassoNetwork

# Beside the gap wanted: what a look takes for it, so that rounding does not undo it.
SAFELY = 1.0 - 1e-9
# In units of the largest drive: neurons driven downwards by more are as silent with this.
LOWEST_DIGITAL_DRIVE = 4.0


class RefinedCodes:
    """The networks of a batch of signals, and the best codes read out of them so far.

    A stage of a signal is a run of its network from potentials at half their thresholds.  Where codes are
    refined, a stage ends when the gap is a seventh of what it was.  The next one is driven by what the code,
    drawn a little towards zero, leaves of the signal, and its spikes are worth as much less.

    Parameters
    ----------
    problem : LassoProblem
        The problem of these signals.
    network : LassoNetwork
        Its network.
    tol : float
        Gap wanted, in units of the energies.
    max_duration : float
        Longest time of all stages of a signal together.
    refine : bool
        Whether there is more than one stage.
    time_step : float, optional
        Run on a clock of this step, which keeps charge, and not from event to event.
    digital : DigitalNetwork, optional
        Run these integers, on their clock.
    start : ndarray, shape (n_signals, n_atoms), optional
        Codes to start from; by default zero.
    record_spikes : bool, default False
        Keep the spikes of the last `advance`.

    Attributes
    ----------
    codes : ndarray, shape (n_signals, n_atoms)
        The best codes so far.
    offset : ndarray, shape (n_signals, n_atoms)
        What the network of this stage does not code.
    last_spikes : tuple of ndarray
        What the run returned at the last `advance`: times since the stage began and neurons, of all signals.
    look_times : ndarray, shape (n_signals,)
        When the network of each signal was looked at last, since its stage began.
    active : ndarray of int
        Signals that are not done.
    run : EventDrivenRun, ClockDrivenRun or DigitalRun
        The networks.
    """

    def __init__(
        self,
        problem: LassoProblem,
        network: LassoNetwork,
        *,
        tol: float,
        max_duration: float,
        refine: bool,
        time_step: float | None = None,
        digital: DigitalNetwork | None = None,
        start: np.ndarray | None = None,
        record_spikes: bool = False,
    ) -> None:
        n_signals, n_atoms = problem.n_signals, problem.n_atoms
        self._problem = Problem(
            problem.correlations,
            problem.l1_weights,
            network.gram.diagonal,
            problem.energies,
            problem.positive,
            network.gram.group_length,
        )
        self._inhibition = network.gram.weights(positive=True)
        self._max_duration, self._refine = max_duration, refine
        self._looks = np.zeros(n_signals, dtype=LOOK)
        self._looks["target"] = SAFELY * tol * problem.energies
        offset, best, before = np.zeros((3, n_signals, n_atoms))
        self._codes = Codes(offset, best, before, width=np.ones((n_signals, n_atoms)))
        if start is not None:
            self._codes.best[:] = start
            network.gram.store(np.flatnonzero(start.any(axis=0)))
        self._work = Work(*np.empty((4, n_atoms)))
        self._soma_bias = np.zeros((n_signals, network.n_neurons))
        self._n_steps_before = np.zeros(n_signals, dtype=np.int64)
        self._time_step = time_step if digital is None else digital.time_step
        self.run: EventDrivenRun | ClockDrivenRun | DigitalRun
        if digital is not None:
            self.run = DigitalRun(
                digital, self._soma_bias, window_moments=True, lowest_drive=LOWEST_DIGITAL_DRIVE
            )
        elif time_step is None:
            self.run = EventDrivenRun(network, self._soma_bias, window_moments=True, gives_up=True)
        else:
            self.run = ClockDrivenRun(network, self._soma_bias, time_step=time_step, window_moments=True)
        self._drives = Drives(self._soma_bias, self.run.membrane_potential)
        begin(
            self._weights(), self._problem, max_duration, self._looks, self._codes, self._drives, self._work
        )
        self.codes, self.offset = self._codes.best, self._codes.offset
        self._records_spikes = record_spikes
        self.last_spikes: tuple[np.ndarray, ...] = ()
        self.look_times = np.zeros(n_signals)
        self.active = np.arange(n_signals)
        self._go_on()

    @property
    def duration(self) -> np.ndarray:
        """Simulated time of each signal, of all stages."""
        return self._looks["duration"]

    @property
    def n_multiply_adds(self) -> np.ndarray:
        """Of reading codes out, of their gaps, and of setting up stages."""
        return self._looks["n_multiply_adds"]

    @property
    def n_steps(self) -> np.ndarray:
        """Steps of the clock of each signal, of all stages; 0 of exact runs."""
        if isinstance(self.run, EventDrivenRun):
            return self._n_steps_before
        return self._n_steps_before + self.run.steps

    @property
    def scale(self) -> np.ndarray:
        """The value of a code for one unit of spike rate, in the last stage."""
        return np.where(self._looks["scale"] > 0.0, self._looks["scale"], 1.0)

    @property
    def gaps(self) -> np.ndarray:
        """Duality gap of the best code of each signal so far."""
        return self._looks["gap"]

    def is_lost(self, signals: np.ndarray) -> np.ndarray:
        """Return of which of some signals the networks cannot go on."""
        if isinstance(self.run, DigitalRun):
            return self.run.runs_away(signals)
        if isinstance(self.run, EventDrivenRun):
            return self.run.is_lost[signals]
        return np.zeros(len(signals), dtype=np.bool_)

    @property
    def n_stages(self) -> np.ndarray:
        """Stages of each signal."""
        return self._looks["n_stages"]

    def advance(self, *, max_spikes: int | None = None) -> None:
        """Advance the networks that are not done until each is looked at.

        A network whose spikes have come to `max_spikes`, if that is given, is looked at there, and is done.
        """
        if max_spikes is None:
            self._advance_to_looks()
        else:
            self._advance_within(max_spikes)
        is_lost = self.is_lost(self.active)
        lost, others = self.active[is_lost], self.active
        if len(lost):
            others = self.active[~is_lost]
            if isinstance(self.run, EventDrivenRun):
                # They are where they were given up, before their looks.
                self._looks["stop"][lost] = self.run.time[lost]
        times = self.look_times = self._looks["stop"].copy()
        self._look_at(others, refine=self._refine)
        if len(lost):
            # No stage brings more there.
            self._look_at(lost, refine=False)
            self._end(lost, times)
        if max_spikes is not None:
            self._end(self.active[self.run.spike_counts[self.active].sum(axis=1) >= max_spikes], times)
        self._go_on()

    def can_improve(self, signals: np.ndarray) -> np.ndarray:
        """Return which of some signals have time left, and a network that can go on."""
        return (self.duration[signals] < self._max_duration) & ~self.is_lost(signals)

    def _look_at(self, signals: np.ndarray, *, refine: bool) -> None:
        arrays = self._looks, self._codes, self._drives, self._work
        look_at(
            self._weights(), self._problem, signals, self.run.window_moments, self._max_duration, refine,
            *arrays,
        )  # fmt: skip

    def _end(self, signals: np.ndarray, times: np.ndarray) -> None:
        """End some signals after a look at these times of their stages."""
        look = self._looks[signals]
        # The time of a stage is counted when the stage ends.
        look["duration"] += np.where(look["status"] == GOES_ON, times[signals], 0.0)
        look["status"] = DONE
        self._looks[signals] = look

    def _advance_to_looks(self) -> None:
        until = self._looks["stop"]
        if self._time_step is not None:
            # A look need not be at the end of a step: nothing is delivered before the next.
            until = np.floor(until / self._time_step).astype(np.int64)
        self.last_spikes = self.run.advance(until, active=self.active, record_spikes=self._records_spikes)
        if isinstance(self.run, ClockDrivenRun):
            is_late = self.run.membrane_potential[self.active] > self.run.network.firing_threshold
            if is_late.any():
                raise ValueError(
                    f"time_step must be shorter for these atoms; got {self._time_step}, with which the "
                    "network runs away: docs/theory.md, section 7.2"
                )

    def _advance_within(self, max_spikes: int) -> None:
        """Advance each network to its next look, or to the spike at which it has so many."""
        assert isinstance(self.run, EventDrivenRun)
        for signal in self.active:
            left = max_spikes - int(self.run.spike_counts[signal].sum())
            one = np.array([signal])
            self.run.advance(self._looks["stop"], active=one, max_spikes=left - 1, one_by_one=True)
            if self.run.n_emitted >= left:
                self._looks["stop"][signal] = self.run.time[signal]

    def tighten(self, signals: np.ndarray) -> None:
        """Go on with signals that were done, whose gaps are not what they seemed."""
        arrays = self._looks, self._codes, self._drives, self._work
        go_on(self._weights(), self._problem, signals, self._max_duration, self._refine, *arrays)
        self.active = signals
        self._go_on()

    def _weights(self) -> KernelForm:
        """The weights between the positive neurons of all atoms, as they are now."""
        return self._inhibition.kernel_form()

    def _go_on(self) -> None:
        status = self._looks["status"][self.active]
        restarting = self.active[status == STAGE_ENDED]
        if len(restarting):
            if not isinstance(self.run, EventDrivenRun):
                self._n_steps_before[restarting] += self.run.steps[restarting]
            self.run.restart(restarting)
        self.active = self.active[status != DONE]

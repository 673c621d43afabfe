"""Codes by spikes alone, read through a smooth window, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from snn._kernels.run_state import new_records
from snn.base import checks
from snn.run.exact import Exact, ExactRun
from snn.run.run import NO_SPIKES, Run, Time
from solvers._kernels.refinement import (
    DONE,
    FEW_SPIKES,
    FEW_STEPS,
    GOES_ON,
    LOOK,
    STAGE_ENDED,
    Drives,
    Looking,
    Problem,
    StageCodes,
    Work,
    look_at,
    resume,
)
from solvers.problem.lasso import LassoModel, LassoProblem
from solvers.results.codes import BestCodes, Found
from solvers.spiking.network import LassoNetwork
from solvers.spiking.runs import figures_of

# Aim slightly below the wanted gap, so that rounding cannot undo it.
SAFELY = 1.0 - 1e-9
EXACT_TIME = Exact()


class RefinedCodes:
    """The networks of a batch of signals, and the best codes read out of them so far."""

    # A stage of a signal is a run of its network from potentials at half their thresholds.  Where codes are
    # refined, a stage ends when the gap has fallen as far as the pace says, or after a while.  The offset of
    # the next one is the code drawn a little towards zero; the rest of the signal drives the network, and
    # spikes are worth as much less.  It starts with the synaptic currents of the rates that the offset lacks,
    # and so goes on where the one before ended.  Where the gap falls slowly, it starts further on in the
    # direction of the move: with the momentum of the accelerated gradient method (docs/theory.md, 4.2).

    def __init__(
        self,
        problem: LassoProblem,
        network: LassoNetwork,
        *,
        how: Time[Any] = EXACT_TIME,
        tol: float,
        max_duration: float,
        refine: bool = True,
        start: np.ndarray | None = None,  # (n_signals, n_atoms)
        record_spikes: bool = False,
    ) -> None:
        n_signals, n_atoms = problem.n_signals, problem.n_atoms
        self.network, self._inhibition = network, network.gram.weights(positive=True)
        self._pace = FEW_SPIKES if how.time_step is None or how.is_digital else FEW_STEPS
        self._looks = new_records(n_signals, LOOK)
        self._codes = StageCodes(*np.zeros((5, n_signals, n_atoms)))
        # The best codes; where this stage started; the part of it that its network does not code.
        self.codes, self.origin, self.offset = self._codes.best, self._codes.origin, self._codes.offset
        if start is not None:
            self.codes[:] = start
            network.gram.store(np.flatnonzero(start.any(axis=0)))
        self._work = Work(*np.empty((4, n_atoms)))
        self._soma_bias = np.zeros((n_signals, network.n_neurons))
        self.run: Run = how.start(network, self._soma_bias, window_moments=True, gives_up=True)
        self._drives = Drives(self._soma_bias, self.run.membrane_potential, self.run.synaptic_current)
        self._records_spikes = record_spikes
        self._set(problem, tol, max_duration, refine)

    def renew(self, problem: LassoProblem, *, tol: float, max_duration: float, refine: bool) -> None:
        """Begin again in exact time, from zero, with other signals of the same model; as many."""
        assert isinstance(self.run, ExactRun)
        # All zero, as new ones: to write the fields of a record one by one takes longer.
        self._looks.view(np.uint8).fill(0)
        self.codes.fill(0.0)
        self._soma_bias.fill(0.0)
        self.run.renew()
        self._set(problem, tol, max_duration, refine)

    def _set(self, problem: LassoProblem, tol: float, max_duration: float, refine: bool) -> None:
        # Machine code is called again with these: arrays are always of one type.
        correlations, energies = (
            checks.read_only(np.ascontiguousarray(values, dtype=np.float64))
            for values in (problem.correlations, problem.energies)
        )
        self._problem = Problem(
            correlations,
            problem.l1_weights,
            self.network.gram.diagonal,
            energies,
            problem.positive,
            problem.penalty.has_zeros,
            self.network.neurons,
        )
        self._max_duration, self._refine = float(max_duration), refine
        self._looks["target"] = SAFELY * tol * energies
        # Until gaps are measured.
        self._looks["gap"] = energies
        # Spikes of the last `advance`, and the times of the last looks, since stages began.
        self.last_spikes, self.look_times = NO_SPIKES, np.zeros(len(energies))
        # Signals that are not done.
        self.active = np.arange(len(energies))
        self._is_new = True

    @property
    def duration(self) -> np.ndarray:
        """Simulated time of each signal, of all stages."""
        return self._looks["duration"]

    @property
    def n_multiply_adds(self) -> np.ndarray:
        """Multiply-adds of read-outs, of their gaps, and of the beginnings of stages."""
        return self._looks["n_multiply_adds"]

    @property
    def scale(self) -> np.ndarray:
        """The value of a code for one unit of spike rate, in the last stage."""
        return np.where(self._looks["scale"] > 0.0, self._looks["scale"], 1.0)

    @property
    def gaps(self) -> np.ndarray:
        """Duality gap of the best code of each signal so far."""
        return self._looks["gap"]

    @property
    def n_stages(self) -> np.ndarray:
        """Stages of each signal."""
        return self._looks["n_stages"]

    def begin(self) -> None:
        """Measure the codes that signals start from, and set up the stages of those not good enough.

        To advance does it, too.
        """
        if self._is_new:
            self._is_new = False
            look_at(self._looking(), self.active)
            self._go_on()

    def advance(self, *, max_spikes: int | None = None) -> None:
        """Advance the networks that are not done until each is looked at.

        A network whose spikes have come to `max_spikes`, if that is given, is looked at there, and is done.
        """
        self.begin()
        if max_spikes is None:
            self._advance_to_looks()
        else:
            self._advance_within(max_spikes)
        is_lost = self.run.is_lost[self.active]
        lost, others = self.active[is_lost], self.active[~is_lost] if is_lost.any() else self.active
        times = self.look_times = self._stops_of_lost(lost)
        look_at(self._looking(), others)
        self._end_lost(lost, times)
        if max_spikes is not None:
            self._end(self.active[self.run.spike_counts[self.active].sum(axis=1) >= max_spikes], times)
        self._go_on()

    def advance_to_ends(self, after_each_call: Callable[[], object] | None = None) -> None:
        """Advance the networks that are not done until all are."""
        # The looks are within the calls of the kernel, unless spikes are recorded.
        if self._records_spikes:
            while len(self.active):
                self.advance()
                if after_each_call is not None:
                    after_each_call()
            return
        self._is_new = False
        self.run.advance_through(self._looking, self.active, after_each_call=after_each_call)
        lost = self.active[self.run.is_lost[self.active]]
        self._end_lost(lost, self._stops_of_lost(lost))
        self._go_on()

    def search(
        self, best: BestCodes, *, max_spikes: int | None = None, is_late: Callable[[], bool] | None = None
    ) -> Iterator[Found]:
        """Yield codes of the active signals when the looks say that they are good enough, or at their ends.

        With `max_spikes` or `is_late`, signals that have as many spikes end, and all when it is late.
        """
        signals = best.active
        if self._is_new:
            self.active = signals
        while len(signals):
            if max_spikes is None and is_late is None:
                self.advance_to_ends(lambda: best.report(self.gaps))
            while len(self.active):
                self.advance(max_spikes=max_spikes)
                if is_late is not None and is_late():
                    break
            yield signals, self.codes[signals]
            signals = best.missed(signals)
            signals = signals[self.can_improve(signals)]
            if max_spikes is not None:
                signals = signals[self.run.spike_counts[signals].sum(axis=1) < max_spikes]
            if is_late is not None and is_late():
                return
            # The certificate of a gap may differ from the gap by correlations, by rounding.
            self.resume(signals)
            # Where no neuron is driven, only rounding is left.
            signals = self.active

    def can_improve(self, signals: np.ndarray) -> np.ndarray:
        """Return which of some signals have time left, and a network that can go on."""
        return (self.duration[signals] < self._max_duration) & ~self.run.is_lost[signals]

    def figures(self, counts: sparse.csr_array | None = None) -> dict[str, Any]:
        """Return the activity of the networks, the `info` of codes; `counts` are in the order of results."""
        figures = {"n_stages": self.n_stages.copy(), "duration": self.duration.copy(), "scale": self.scale}
        return figures_of(self.run, self.network, counts, **figures)

    def _looking(self, *, refine: bool | None = None) -> Looking:
        """Return the record that kernels look by, with the weights as they are now."""
        return Looking(
            self._inhibition.kernel_form(),
            self._problem,
            self._pace,
            self._max_duration,
            self._refine if refine is None else refine,
            self._looks,
            self._codes,
            self._drives,
            self.run.window_moments,
            self.run.current_per_rate,
            self._work,
        )

    def _stops_of_lost(self, lost: np.ndarray) -> np.ndarray:
        """Return when all signals are to be looked at: some lost ones where they were given up, a step or
        more before their looks."""
        stops = self._looks["stop"]
        if len(lost):
            stop, time = stops[lost], self.run.time[lost]
            stops[lost] = np.where(time + self.run.time_step <= stop, time, stop)
        return stops.copy()

    def _end_lost(self, lost: np.ndarray, times: np.ndarray) -> None:
        if len(lost):
            # No stage brings more there.
            look_at(self._looking(refine=False), lost)
            self._end(lost, times)

    def _end(self, signals: np.ndarray, times: np.ndarray) -> None:
        """End some signals after a look at these times of their stages."""
        look = self._looks[signals]
        # The time of a stage is counted when the stage ends.
        look["duration"] += np.where(look["status"] == GOES_ON, times[signals], 0.0)
        look["status"] = DONE
        self._looks[signals] = look

    def _advance_to_looks(self) -> None:
        # A look need not be at the end of a step: nothing is delivered before the next.
        self.last_spikes = self.run.advance(
            self._looks["stop"], active=self.active, record=self._records_spikes
        )
        self.run.require_valid()

    def _advance_within(self, max_spikes: int) -> None:
        """Advance each network to its next look, or to the spike with which it reaches the limit."""
        for signal in self.active:
            left = max_spikes - int(self.run.spike_counts[signal].sum())
            one = np.array([signal])
            self.run.advance(self._looks["stop"], active=one, max_spikes=left - 1)
            if self.run.n_emitted >= left:
                self._looks["stop"][signal] = self.run.time[signal]

    def resume(self, signals: np.ndarray) -> None:
        """Go on with signals that were done, whose gaps are not what they seemed."""
        resume(self._looking(), signals)
        self.active = signals
        self._go_on()

    def _go_on(self) -> None:
        status = self._looks["status"][self.active]
        restarting = self.active[status == STAGE_ENDED]
        if len(restarting):
            self.run.restart(restarting)
        self.active = self.active[status != DONE]


class IdleCodes:
    """Networks of single signals of a model, each lent to one thread at a time: `LassoModel.once`.

    To make a network takes longer than to solve a small problem.
    """

    def __init__(self, model: LassoModel | None = None) -> None:
        self._idle: list[RefinedCodes] = []

    def __reduce__(self) -> tuple[Any, ...]:
        # Elsewhere networks are made anew, where they are needed.
        return IdleCodes, ()

    def solve(self, problem: LassoProblem, **options: Any) -> RefinedCodes:
        """Return the refined codes of a problem of one signal; give them back when they are read."""
        try:
            refined = self._idle.pop()
        except IndexError:
            refined = RefinedCodes(problem, LassoNetwork.of(problem), **options)
        else:
            refined.renew(problem, **options)
        refined.advance_to_ends()
        return refined

    def give_back(self, refined: RefinedCodes) -> None:
        """Take back the codes that `solve` has returned."""
        self._idle.append(refined)

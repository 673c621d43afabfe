"""Codes by spikes alone, read through a smooth window, stage by stage."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from snn._kernels.run_state import new_records
from snn.base import checks
from snn.run.exact import ExactRun
from snn.run.time import Exact, is_digital
from solvers._kernels.refinement import (
    BEST,
    DONE,
    FEW_SPIKES,
    FEW_STEPS,
    GOES_ON,
    LOOK,
    STAGE_ENDED,
    Looking,
    Problem,
    look_at,
    resume,
)
from solvers.problem.lasso import LassoModel, LassoProblem
from solvers.results.codes import READ_OUT, BestCodes, Found
from solvers.spiking.network import LassoNetwork, finish

# Aim slightly below the wanted gap, so that rounding cannot undo it.
SAFELY = 1.0 - 1e-9


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
        tol: float,
        max_duration: float,
        refine: bool = True,
        start: np.ndarray | None = None,  # (n_signals, n_atoms)
    ) -> None:
        n_signals, n_atoms = problem.n_signals, problem.n_atoms
        self.network, self._inhibition = network, network.gram.weights(positive=True)
        in_few_spikes = isinstance(network.how, Exact) or is_digital(network.how)
        self._pace = FEW_SPIKES if in_few_spikes else FEW_STEPS
        # Last look at each signal, and its codes, the best one among them.
        self.looks = new_records(n_signals, LOOK)
        self.stage = np.zeros((5, n_signals, n_atoms))
        self.codes = self.stage[BEST]
        if start is not None:
            self.codes[:] = start
            network.gram.store(np.flatnonzero(start.any(axis=0)))
        self._memory = np.empty((4, n_atoms))
        self._soma_bias = np.zeros((n_signals, network.n_neurons))
        self.run = network.start(self._soma_bias, window_moments=True)
        self._set(problem, tol, max_duration, refine)

    def renew(self, problem: LassoProblem, *, tol: float, max_duration: float, refine: bool) -> None:
        """Begin again in exact time, from zero, with other signals of the same model; as many."""
        assert isinstance(self.run, ExactRun)
        # All zero, as new ones: to write the fields of a record one by one takes longer.
        self.looks.view(np.uint8).fill(0)
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
        self.looks["target"] = SAFELY * tol * energies
        # Until gaps are measured.
        self.looks["gap"] = energies
        # Signals that are not done.
        self.active = np.arange(len(energies))

    def advance(self, *, once: bool = False) -> None:
        """Advance the networks that are not done to their ends, or `once`, each to its next look.

        The first look of all is at the code that a signal starts from.
        """
        self.run.advance_through(partial(self._looking, once=once), self.active)
        self._end(self.active[self.run.is_lost[self.active]])

    def search(
        self, best: BestCodes, *, max_spikes: float = np.inf, deadline: float = np.inf
    ) -> Iterator[Found]:
        """Yield codes of the active signals when the looks say that they are good enough, or at their ends.

        Signals end that have `max_spikes`, and all of them when `time.perf_counter` comes to the deadline.
        """
        signals = self.active = best.active
        once = min(max_spikes, deadline) < np.inf
        if once:
            self.advance(once=True)
        while len(signals):
            while len(self.active):
                if max_spikes < np.inf:
                    self._advance_within(int(max_spikes))
                self.advance(once=once)
                if time.perf_counter() >= deadline:
                    break
            yield signals, self.codes[signals]
            signals = best.missed(signals)
            signals = signals[self.can_improve(signals)]
            signals = signals[self.run.spike_counts[signals].sum(axis=1) < max_spikes]
            if not len(signals) or time.perf_counter() >= deadline:
                break
            # The certificate of a gap may differ from the gap by correlations, by rounding: go on.
            resume(self._looking(), signals)
            status = self.looks["status"][signals]
            self.run.restart(signals[status == STAGE_ENDED])
            # Where no neuron is driven, only rounding is left.
            signals = self.active = signals[status != DONE]
        finish(best, self.run, self.network, **self.figures())
        best.work[READ_OUT] += self.looks["n_multiply_adds"]

    def can_improve(self, signals: np.ndarray) -> np.ndarray:
        """Return which of some signals have time left, and a network that can go on."""
        return (self.looks["duration"][signals] < self._max_duration) & ~self.run.is_lost[signals]

    def figures(self) -> dict[str, np.ndarray]:
        """Return the figures of the stages of each signal, for the `info` of codes."""
        figures = {name: self.looks[name].copy() for name in ("n_stages", "duration", "scale")}
        # Where no neuron was driven, any would do.
        figures["scale"][figures["scale"] == 0.0] = 1.0
        return figures

    def _looking(self, *, refine: bool | None = None, once: bool = False) -> Looking:
        """Return the record that kernels look by, with the weights as they are now."""
        return Looking(
            self._inhibition.kernel_form,
            self._problem,
            *self._pace,
            self._max_duration,
            self._refine if refine is None else refine,
            once,
            self.looks,
            self.stage,
            self._soma_bias,
            self.run.membrane_potential,
            self.run.synaptic_current,
            self.run.window_moments,
            self.run.current_per_rate,
            self._memory,
        )

    def _end(self, signals: np.ndarray) -> None:
        """End some signals with a look at their networks where they are, and forget those that are done."""
        if len(signals):
            # They may be a step or more before their looks.
            looks, time = self.looks[signals], self.run.time[signals]
            stops = np.where(time + self.run.time_step <= looks["stop"], time, looks["stop"])
            self.looks["stop"][signals] = stops
            # No stage brings more there.
            look_at(self._looking(refine=False), signals)
            looks = self.looks[signals]
            # The time of a stage is counted when the stage ends.
            looks["duration"] += np.where(looks["status"] == GOES_ON, stops, 0.0)
            looks["status"] = DONE
            self.looks[signals] = looks
        self.active = self.active[self.looks["status"][self.active] != DONE]

    def _advance_within(self, max_spikes: int) -> None:
        """Advance each network to its next look, and end those that have as many spikes by then."""
        counts = self.run.spike_counts
        for signal in self.active:
            left = max_spikes - int(counts[signal].sum())
            self.run.advance(self.looks["stop"], active=np.array([signal]), max_spikes=left - 1)
        self._end(self.active[counts[self.active].sum(axis=1) >= max_spikes])


class IdleCodes(list[RefinedCodes]):
    """Networks of single signals of a model, each lent to one thread at a time: `LassoModel.once`.

    To make a network takes longer than to solve a small problem.
    """

    def __init__(self, model: LassoModel | None = None) -> None:
        super().__init__()

    def __reduce__(self) -> tuple[Any, ...]:
        # Elsewhere networks are made anew, where they are needed.
        return IdleCodes, ()

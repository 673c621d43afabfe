"""The code of one signal while its network runs: every spike, and the certified gap at many times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from snn import SpikeTrain
from snn.run.run import Spikes
from solvers import LassoProblem, duality_gap, solve_active_set
from solvers._kernels.refinement import OFFSET
from solvers.problem_network import LassoNetwork, RefinedCodes
from solvers.results.codes import BestCodes


@dataclass(frozen=True, eq=False, kw_only=True)
class Stage:
    """One run of the network: the code that it starts from, and the spikes that code the remainder.

    A stage begins at the time `start`.  The code is `offset` plus `scale` times the rates of its spikes.
    Times of spikes count from `start`.  Neuron k has atom k, and neuron n_atoms + k the negative of atom k.
    """

    start: float
    offset: np.ndarray
    scale: float
    spikes: SpikeTrain

    def code(self, time: float) -> np.ndarray:
        """Return the code at a time after the start of the stage, read through the smooth window."""
        rates = self.spikes.smooth_rate(stop=min(time, self.spikes.stop))
        if len(rates) > len(self.offset):
            rates = np.subtract(*np.split(rates, 2))
        return self.offset + self.scale * rates


@dataclass(frozen=True, eq=False, kw_only=True)
class CodeHistory:
    """The code of one signal while its network runs, with its certificate at each time.

    `times` run from 0 to the end of the last stage, closer together at first: t_k = t_end (k / (n - 1))^2.
    `codes`, shape (n_times, n_atoms), has the best code so far; the last code is that of `solve_spiking`.
    `duality_gap` bounds E(a) - min E of each code, by `solvers.certificate.optimality`.
    """

    problem: LassoProblem
    stages: tuple[Stage, ...]
    times: np.ndarray
    codes: np.ndarray
    duality_gap: np.ndarray

    @cached_property
    def spikes(self) -> SpikeTrain:
        """The spikes of all stages, with neurons numbered as in `Stage`."""
        times = np.concatenate([stage.start + stage.spikes.times for stage in self.stages])
        stop = float(self.times[-1])
        return SpikeTrain(
            times=np.minimum(times, stop),  # rounding may bring times beyond `stop`
            neurons=np.concatenate([stage.spikes.neurons for stage in self.stages]),
            n_neurons=self.stages[0].spikes.n_neurons,
            start=0.0,
            stop=stop,
        )

    @property
    def n_spikes(self) -> np.ndarray:
        """The number of spikes up to each time, shape (n_times,)."""
        return np.searchsorted(self.spikes.times, self.times, side="right")

    @property
    def relative_gap(self) -> np.ndarray:
        """duality_gap / (1/2 ||signal||^2) at each time, shape (n_times,)."""
        return self.duality_gap / self.problem.energies[0]

    @cached_property
    def optimum(self) -> np.ndarray:
        """The optimal code, by `solve_active_set`, shape (n_atoms,)."""
        return solve_active_set(self.problem, start=self.codes[-1:]).codes[0]


def code_history(
    problem: LassoProblem, signal: int = 0, *, tol: float = 1e-3, n_times: int = 100
) -> CodeHistory:
    """Solve for one signal as `solve_spiking` does, and keep every spike and the code at `n_times` times.

    Examples
    --------
    >>> import numpy as np
    >>> from examples._history import code_history
    >>> from solvers import LassoProblem
    >>> history = code_history(LassoProblem(np.eye(2), [[2.0, 0.1]], 0.5), tol=1e-6)
    >>> history.codes[[0, -1]].round(3)
    array([[0. , 0. ],
           [1.5, 0. ]])
    >>> bool(history.relative_gap[-1] <= 1e-6)
    True
    """
    problem = problem.subset([signal])
    stages, looks = _refined_run(problem, tol)
    times = np.linspace(0.0, 1.0, n_times) ** 2 * (stages[-1].start + stages[-1].spikes.stop)
    codes = np.array([code for _, code in looks] + [_read(stages, time, problem.n_atoms) for time in times])
    gaps = duality_gap(problem.subset(np.zeros(len(codes), dtype=np.int64)), codes)
    # Keep the best code so far among the solver's codes and the codes at `times`.  In a tie, keep the
    # solver's code.  Leave out codes at `times` that are as good as the solver's last code or better.
    order = np.argsort([*(time for time, _ in looks), *times], kind="stable")
    read = len(looks) + np.arange(n_times)
    better = read[1:][gaps[read[1:]] <= gaps[len(looks) - 1]]
    compared = gaps.copy()
    compared[better] = np.inf
    compared = compared[order]
    is_best = compared <= np.minimum.accumulate(compared)
    best = order[np.maximum.accumulate(np.where(is_best, np.arange(len(order)), 0))]
    chosen = best[np.argsort(order)[read]]
    return CodeHistory(
        problem=problem, stages=stages, times=times, codes=codes[chosen], duality_gap=gaps[chosen]
    )


class _Look(NamedTuple):
    """The record of one look: the `time` since the stage began, and the `spikes` since the last look."""

    stage: int
    offset: np.ndarray
    scale: float
    time: float
    spikes: Spikes
    best: np.ndarray


class _RecordedCodes(RefinedCodes):
    """`RefinedCodes` of one signal, with a record of every look."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seen: list[_Look] = []

    def advance(self, **options: Any) -> None:
        if not self.looks["n_stages"][0]:
            super().advance(one_look=True)
        while len(self.active):
            look, offset = self.looks[0].copy(), self.stage_codes[OFFSET, 0].copy()
            spikes = self.run.advance(self.looks["stop"], active=self.active, record=True)
            super().advance(one_look=True)
            values = (offset, look["scale"], look["stop"], spikes, self.best_codes[0].copy())
            self.seen.append(_Look(int(look["n_stages"]), *values))


def _refined_run(
    problem: LassoProblem, tol: float
) -> tuple[tuple[Stage, ...], list[tuple[float, np.ndarray]]]:
    """Return the stages of `solve_spiking`, and the time and the best code at each look of the solver."""
    network = LassoNetwork(problem, on_demand=True)
    recorded = _RecordedCodes(problem, network, tol=tol, max_duration=10_000.0, refine=True)
    best = BestCodes(problem, tol)
    best.keep(recorded.search(best))
    place = network.in_network_order(np.arange(network.n_neurons))
    stages: list[Stage] = []
    looks: list[tuple[float, np.ndarray]] = []
    start = 0.0
    for stage in range(1, recorded.seen[-1].stage + 1):
        of_stage = [look for look in recorded.seen if look.stage == stage]
        spikes = SpikeTrain(
            times=np.concatenate([look.spikes.times for look in of_stage]),
            neurons=place[np.concatenate([look.spikes.neurons for look in of_stage])],
            n_neurons=network.n_neurons,
            start=0.0,
            stop=of_stage[-1].time,
        )
        offset, scale = of_stage[0].offset, of_stage[0].scale
        stages.append(Stage(start=start, offset=offset, scale=scale, spikes=spikes))
        looks += [(start + look.time, look.best) for look in of_stage]
        start += of_stage[-1].time
    return tuple(stages), looks


def _read(stages: tuple[Stage, ...], time: float, n_atoms: int) -> np.ndarray:
    """Return the code at a time; at time 0 the code is zero."""
    begun = [stage for stage in stages if stage.start < time]
    return begun[-1].code(time - begun[-1].start) if begun else np.zeros(n_atoms)

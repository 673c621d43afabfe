"""The code of one signal while its network runs: every spike, and the certified gap at many times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from snn import SpikeTrain, simulate
from snn.base import checks
from snn.base.describe import Described, counted, number
from snn.base.value import Value
from snn.run.run import Spikes
from solvers._kernels.refinement import OFFSET, ORIGIN
from solvers.certificate.optimality import measure
from solvers.methods import solve_active_set
from solvers.methods.method import solve
from solvers.methods.spiking import Rates
from solvers.problem.lasso import LassoProblem, with_shared_mask
from solvers.results.codes import BestCodes
from solvers.spiking.network import LassoNetwork
from solvers.spiking.stages import RefinedCodes

RATES_BY_READOUT = {"smooth": SpikeTrain.smooth_rate, "rate": SpikeTrain.rate}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Stage(Value, Described):
    """One run of the network: what it does not code, and the spikes that code the rest.

    Attributes
    ----------
    start : float
        Time at which it begins.
    origin : ndarray, shape (n_atoms,)
        The code that the network starts with: its currents are those of rates (origin - offset) / scale.
    offset : ndarray, shape (n_atoms,)
        The code to which the rates are added.
    scale : float
        The value of a code for one unit of spike rate.
    spikes : SpikeTrain
        Its spikes, in its own time, neurons in the order of results.
    """

    start: float
    origin: np.ndarray
    offset: np.ndarray
    scale: float
    spikes: SpikeTrain

    def _facts(self) -> dict[str, str]:
        duration = self.spikes.stop - self.spikes.start
        return {
            "start": f"{number(float(self.start))} synaptic time constants",
            "duration": f"{number(float(duration))} synaptic time constants",
            "spikes": number(len(self.spikes)),
            "offset": f"{number(int(np.count_nonzero(self.offset)))} of {counted(len(self.offset), 'atom')}",
            "scale": number(float(self.scale)),
        }

    def code(self, time: float, *, readout: str, positive: bool) -> np.ndarray:
        """Return the code read out at a time of this stage, shape (n_atoms,).

        Parameters
        ----------
        time : float
            Since the stage began, positive.
        readout : str
            A key of `RATES_BY_READOUT`.
        positive : bool
            Whether there is one neuron for each atom, and not two.
        """
        rates = RATES_BY_READOUT[readout](self.spikes, stop=time)
        return self.offset + self.scale * (rates if positive else np.subtract(*np.split(rates, 2)))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CodeHistory(Value, Described):
    """The code of one signal while its network runs, with its certificate at each time.

    Attributes
    ----------
    problem : LassoProblem
        The problem of this signal alone.
    readout : str
        How the codes are read out of the spikes.
    stages : tuple of Stage
        The runs of the network, one after the other; none if the zero code is good enough.
    times : ndarray, shape (n_times,)
        From 0 to the end of the last stage, in synaptic time constants, closer together at first:
        t_k = t_end (k / (n_times - 1))^2.
    codes : ndarray, shape (n_times, n_atoms)
        The code at each time: with "smooth" the best one so far, with "rate" the spike rates since 0.  The
        last is the code of `solve_spiking`, even if a better one was read in between.
    objective : ndarray, shape (n_times,)
        E(a) of each code.
    duality_gap : ndarray, shape (n_times,)
        Upper bound on E(a) - min E of each code, by `solvers.certificate.optimality`.

    See Also
    --------
    code_history : Makes one.
    """

    problem: LassoProblem
    readout: str
    stages: tuple[Stage, ...]
    times: np.ndarray
    codes: np.ndarray
    objective: np.ndarray
    duality_gap: np.ndarray

    def _facts(self) -> dict[str, str]:
        n_atoms = self.codes.shape[1]
        n_spikes = sum(len(stage.spikes) for stage in self.stages)
        return {
            "readout": self.readout,
            "spikes": f"{number(n_spikes)} in {counted(len(self.stages), 'stage')}",
            "duration": f"{number(float(self.times[-1]))} synaptic time constants",
            "times": number(len(self.times)),
            "atoms": f"{number(int(np.count_nonzero(self.codes[-1])))} of {number(n_atoms)} at the end",
            "certified gap": f"{number(float(self.relative_gap[-1]))} of 1/2 ||signal||² at the end",
        }

    @cached_property
    def spikes(self) -> SpikeTrain:
        """All spikes, of one stage after the other; neurons in the order of results."""
        n_neurons = self.problem.n_atoms if self.problem.is_positive else 2 * self.problem.n_atoms
        parts = [(stage.start + stage.spikes.times, stage.spikes.neurons) for stage in self.stages]
        times, neurons = map(np.concatenate, zip(*parts, strict=True)) if parts else ((), ())
        stop = float(self.times[-1])
        # Where a stage begins is a rounded sum.
        return SpikeTrain(
            times=np.minimum(times, stop), neurons=neurons, n_neurons=n_neurons, start=0.0, stop=stop
        )

    @property
    def n_spikes(self) -> np.ndarray:
        """Spikes by each time, shape (n_times,)."""
        return np.searchsorted(self.spikes.times, self.times, side="right")

    @property
    def relative_gap(self) -> np.ndarray:
        """duality_gap / (1/2 ||signal||^2) at each time, shape (n_times,); zero for a signal that is zero."""
        energy = self.problem.energies[0]
        return self.duality_gap / energy if energy > 0.0 else np.zeros_like(self.duality_gap)

    @cached_property
    def optimum(self) -> np.ndarray:
        """The optimal code, by `solve_active_set`, shape (n_atoms,)."""
        return checks.read_only(solve_active_set(self.problem, start=self.codes[-1:]).codes[0])


def code_history(
    problem: LassoProblem,
    signal: int = 0,
    *,
    tol: float = 1e-3,
    max_duration: float = 10_000.0,
    readout: str = "smooth",
    refine: bool = True,
    n_times: int = 100,
) -> CodeHistory:
    """Solve for one signal as `solve_spiking` does, and keep every spike and the code at many times.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    signal : int, default 0
        Which of its signals.
    tol, max_duration, refine
        As of `solve_spiking`.
    readout : {"smooth", "rate"}, default "smooth"
        As of `solve_spiking`: stage by stage through the smooth window, or the plain rates of one run.
    n_times : int, default 100
        At how many times the code is read and certified, the beginning and the end among them.

    Returns
    -------
    CodeHistory

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or value.

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
    checks.instance_of("problem", problem, LassoProblem)
    signal = checks.index("signal", signal, problem.n_signals)
    tol = checks.positive_number("tol", tol)
    max_duration = checks.positive_number("max_duration", max_duration)
    readout = checks.one_of("readout", readout, tuple(RATES_BY_READOUT))
    refine = checks.flag("refine", refine)
    n_times = checks.positive_integer("n_times", n_times)
    if n_times < 2:
        raise ValueError("n_times must be at least 2, for the beginning and the end; got 1")

    one = problem.subset([signal])
    if one.has_own_weights:
        one = with_shared_mask(one)
    looks: list[tuple[float, np.ndarray]] = []
    if readout == "rate":
        stages = _plain_run(one, tol, max_duration)
    else:
        stages, looks = _refined_run(one, tol, max_duration, refine)
    times = np.linspace(0.0, 1.0, n_times) ** 2 * (
        stages[-1].start + stages[-1].spikes.stop if stages else 0.0
    )
    codes = np.array([code for _, code in looks] + [_read(stages, time, readout, one) for time in times])
    figures = measure(one.subset(np.zeros(len(codes), dtype=np.int64)), codes)
    chosen = len(looks) + np.arange(n_times)
    if readout == "smooth":
        # The best so far, of what the solver read and of what is read here; the solver's where they tie, and
        # nothing better than its last.
        order = np.argsort([*(time for time, _ in looks), *times], kind="stable")
        gaps = figures.duality_gap.copy()
        if looks:
            read = chosen[1:]
            gaps[read[gaps[read] <= gaps[len(looks) - 1]]] = np.inf
        gaps = gaps[order]
        is_best = gaps <= np.minimum.accumulate(gaps)
        best = order[np.maximum.accumulate(np.where(is_best, np.arange(len(order)), 0))]
        chosen = best[np.argsort(order)[chosen]]
    return CodeHistory(
        problem=one,
        readout=readout,
        stages=stages,
        times=times,
        codes=codes[chosen],
        objective=figures.objective[chosen],
        duality_gap=figures.duality_gap[chosen],
    )


def _plain_run(problem: LassoProblem, tol: float, max_duration: float) -> tuple[Stage, ...]:
    """Return the run that `solve_spiking` reads as rates, with its spikes."""
    result = solve(problem, Rates(max_duration), tol=tol)
    scale, duration = float(result.scale[0]), float(result.duration[0])
    network = _solver_network(problem)
    spikes = simulate(network.driven(problem, 0, scale=scale), duration, record_spikes=True).spikes
    assert spikes is not None  # they are recorded
    ordered = _in_result_order(spikes.times, spikes.neurons, duration, network)
    nothing = np.zeros(problem.n_atoms)
    return (Stage(start=0.0, origin=nothing, offset=nothing, scale=scale, spikes=ordered),)


def _solver_network(problem: LassoProblem) -> LassoNetwork:
    """Return the network that `solve_spiking` runs for this signal alone."""
    return LassoNetwork.of(problem, on_demand=True)


def _refined_run(
    problem: LassoProblem, tol: float, max_duration: float, refine: bool
) -> tuple[tuple[Stage, ...], list[tuple[float, np.ndarray]]]:
    """Return the stages of `solve_spiking`, and the time of each of its looks with its best code then."""
    network = _solver_network(problem)
    recorded = _RecordedCodes(problem, network, tol=tol, max_duration=max_duration, refine=refine)
    best = BestCodes(problem, tol)
    best.keep(recorded.search(best))
    stages: list[Stage] = []
    looks: list[tuple[float, np.ndarray]] = []
    start = 0.0
    for stage in range(1, recorded.seen[-1].stage + 1 if recorded.seen else 1):
        own = [look for look in recorded.seen if look.stage == stage]
        times = np.concatenate([look.spikes.times for look in own])
        neurons = np.concatenate([look.spikes.neurons for look in own])
        spikes = _in_result_order(times, neurons, own[-1].time, network)
        stages.append(
            Stage(start=start, origin=own[0].origin, offset=own[0].offset, scale=own[0].scale, spikes=spikes)
        )
        looks += [(start + look.time, look.best) for look in own]
        start += own[-1].time
    return tuple(stages), looks


class _Look(NamedTuple):
    stage: int
    """From 1."""
    origin: np.ndarray
    offset: np.ndarray
    scale: float
    time: float
    """Since the stage began."""
    spikes: Spikes
    """Since the look before."""
    best: np.ndarray
    """The best code so far."""


class _RecordedCodes(RefinedCodes):
    """As `RefinedCodes`, of one signal, with all that was seen at each look."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seen: list[_Look] = []

    def advance(self, **options: Any) -> None:
        if not self.looks["n_stages"][0]:
            super().advance(once=True)
        while len(self.active):
            look, stage = self.looks[0].copy(), self.stage
            codes = stage[ORIGIN, 0].copy(), stage[OFFSET, 0].copy()
            spikes = self.run.advance(self.looks["stop"], active=self.active, record=True)
            super().advance(once=True)
            self.seen.append(
                _Look(
                    int(look["n_stages"]), *codes, look["scale"], look["stop"], spikes, self.codes[0].copy()
                )
            )


def _in_result_order(
    times: np.ndarray, neurons: np.ndarray, stop: float, network: LassoNetwork
) -> SpikeTrain:
    """Return the spikes of a stage, with neurons in the order of results."""
    place = network.in_network_order(np.arange(network.n_neurons))
    return SpikeTrain(times=times, neurons=place[neurons], n_neurons=network.n_neurons, start=0.0, stop=stop)


def _read(stages: tuple[Stage, ...], time: float, readout: str, problem: LassoProblem) -> np.ndarray:
    """Return the code read at a time; zero at the beginning."""
    begun = [stage for stage in stages if stage.start < time]
    if not begun:
        return np.zeros(problem.n_atoms)
    stage = begun[-1]
    return stage.code(
        min(time - stage.start, stage.spikes.stop), readout=readout, positive=problem.is_positive
    )

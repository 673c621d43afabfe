"""The LASSO solved by a digital core, which receives commands and returns the spikes of its network."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from snn._kernels.stepped import last_step
from snn.base import checks
from snn.digital import Action, DigitalNetwork
from snn.digital.digital_network import require_in_potential
from snn.run.integers import IntegersOnClock
from snn.run.time import Clock, require_digital
from solvers._kernels.refinement import DONE
from solvers.methods.method import solve
from solvers.methods.spiking import QUARTER_STEPS, Stages
from solvers.problem.lasso import LassoProblem
from solvers.problem_network import RefinedCodes, SpikingCodingResult
from solvers.results.codes import BestCodes, Found
from solvers.results.result import Start

Core = Callable[[Sequence[tuple[Action, int, int]]], ArrayLike]


class CoreCodes(RefinedCodes):
    """The networks and codes of `RefinedCodes`; a core runs the networks one after the other."""

    run: IntegersOnClock

    def __init__(self, core: Core, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._core = core

    def advance(self, *, one_look: bool = False) -> None:
        """Run the network of each active signal through all of its stages, one network after the other."""
        assert not one_look  # the core would have to keep several networks
        for signal in self.active:
            while self.looks["status"][signal] != DONE:
                self._run_core(int(signal))
                # The network is at its stop already, so that this call reads out the network without a
                # further step.
                self.run.advance_through(partial(self._looking, one_look=True), np.array([signal]))
        self._end(self.active[:0])

    def _run_core(self, signal: int) -> None:
        """Let the core run a signal's network until the next read-out, and take the core's spikes."""
        run = self.run
        first, last = int(run.n_steps[signal]), last_step(self.looks["stop"][signal], run.time_step)
        if last <= first:
            return
        commands = [] if first else self._loading(signal)
        rows: Any = self._core([*commands, (Action.RUN, 0, last - first)])
        is_silent = hasattr(rows, "__len__") and not len(rows)
        spikes = np.empty((0, 3)) if is_silent else checks.real_array("core's spikes", rows, shape=(None, 3))
        n_neurons, largest = run.integers.n_neurons, run.integers.format.largest_message
        is_possible = np.zeros(len(spikes), dtype=np.bool_)
        is_possible[np.unique(spikes[:, :2], axis=0, return_index=True)[1]] = True
        is_inside = (spikes >= (first + 1, 0, 1)) & (spikes <= (last, n_neurons - 1, largest))
        is_possible &= (is_inside & (spikes == np.rint(spikes))).all(axis=1)
        if not is_possible.all():
            raise ValueError(
                f"core must return rows (step, neuron, message), with steps {first + 1} to {last}, neurons "
                f"below {n_neurons} and messages 1 to {largest}, a neuron at most once in a step; got "
                f"{spikes[~is_possible][0].tolist()}"
            )
        steps, neurons, messages = spikes.T.astype(np.int64)
        run.take_spikes(signal, last, steps, neurons, messages)

    def _loading(self, signal: int) -> list[tuple[Action, int, int]]:
        """Return the commands that load the drives and the state at the beginning of a stage."""
        neurons = self.run.neurons
        require_in_potential("drives of core", neurons.drive[signal], self.run.integers)
        loads = (
            (Action.DRIVE, neurons.drive),
            (Action.POTENTIAL, neurons.potential),
            (Action.CURRENT, neurons.current),
        )
        return [(Action.REST, 0, 0)] + [
            (action, neuron, value)
            for action, values in loads
            for neuron, value in enumerate(values[signal].tolist())
            if value or action == Action.DRIVE
        ]


@dataclass(frozen=True)
class OnCore(Stages):
    """The method `Stages`, with a core that runs the network instead of the simulator."""

    core: Core | None = None

    def search(self, best: BestCodes, prepared: Any) -> Iterator[Found]:
        """Yield the best codes; the `info` has no "saturations", which a core does not count."""
        yield from super().search(best, prepared)
        del best.info["saturations"]

    def _refined(self, *args: Any, **options: Any) -> RefinedCodes:
        assert self.core is not None
        return CoreCodes(self.core, *args, **options)


def core_network(problem: LassoProblem, time: Clock = QUARTER_STEPS) -> DigitalNetwork:
    """Return the network that codes all signals of a problem, as `solve_digital` runs it, for a core.

    Parameters
    ----------
    problem : LassoProblem
        The problem; only its atoms, its penalty and its signs matter.
    time : Clock, optional
        The clock, with a `DigitalFormat`; by default that of `solve_digital`.

    Returns
    -------
    DigitalNetwork
        The network, without drives.
    """
    checks.instance_of("problem", problem, LassoProblem)
    fitted = Stages(time=_digital(time)).prepare(problem).time
    assert isinstance(fitted, Clock)
    assert isinstance(fitted.neuron, DigitalNetwork)
    return fitted.neuron


def solve_on_core(
    problem: LassoProblem,
    core: Core,
    *,
    start: Start = None,
    tol: float | None = None,
    progress: bool = False,
    max_duration: float = 10_000.0,
    time: Clock = QUARTER_STEPS,
) -> SpikingCodingResult:
    """Solve a LASSO as `solve_digital` does, with the spikes of a digital core, in gates or in a simulator.

    The core runs `core_network(problem, time)`.  For each stage, the core receives REST, the drives, all
    potentials and currents that are not zero, and RUN.  Codes are computed from the spikes that the core
    returns, and certified.  A core that follows docs/hardware.md returns the same spikes as the network of
    `solve_digital`, so that the codes are equal, too.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    core : callable
        A function that executes a list of commands (action, neuron, value), and returns the spikes of all RUN
        commands as rows (step, neuron, message).  An example is `snn.hardware.SimulatedCore`.
        `snn.digital.Action` names the actions.
    start, tol, progress
        See `solve`.
    max_duration, time
        See `solve_digital`.

    Returns
    -------
    SpikingCodingResult
        Certified codes.  The ``info`` has no "saturations", because a core does not report registers that
        were too narrow.  A network that runs away is stopped only after `max_duration`.
    """
    if not callable(core):
        raise TypeError(f"core must be a callable that takes commands; got {type(core).__name__}")
    method = OnCore(max_duration, _digital(time), core)
    return solve(problem, method, start=start, tol=tol, n_jobs=1, progress=progress)


def _digital(time: Clock) -> Clock:
    """Return the clock of a core, or raise an error."""
    require_digital("time", time)
    if time.imperfections is not None:
        raise ValueError("time must have no imperfections for a core, which has none; got some")
    return time

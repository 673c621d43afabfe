"""The LASSO solved by spikes, in exact time, on a clock, or in integers."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from snn.base import checks
from snn.base.value import assign
from snn.digital import DigitalFormat
from snn.record.spikes import smooth_rate_of_moments
from snn.run.simulate import EXACT_TIME
from snn.run.start import start_run
from snn.run.time import Clock, Exact, Time, is_digital, require_digital, require_time
from solvers import plan
from solvers._kernels.refinement import HEAD_START, PRODUCTS_OF_RATE
from solvers.methods.method import Method, documented, solve
from solvers.problem.lasso import LassoProblem
from solvers.problem_network import LassoNetwork, RefinedCodes, SpikingCodingResult, code_of_one, finish
from solvers.results.codes import (
    AT_PRECISION,
    METHOD,
    POLISH,
    READ_OUT,
    BestCodes,
    Codes,
    Found,
    Status,
    as_sparse,
    rows_of,
)
from solvers.results.result import Start
from solvers.workers.blas import one_blas_thread

# Time of the first read-out of rates and average currents, in synaptic time constants, and the number of
# read-outs per doubling of time.  Read-outs at 2, 2.8, 4, 5.7, ... make a run at most 1.41 times too long.
FIRST_READ, READS_PER_DOUBLING = 2.0, 2
# Simulated time before the active-set method starts, in synaptic time constants.  After this time, the
# active-set method corrects the support with less work than further spikes.
POLISH_TIME = 2.0
# If the active-set method fails, it starts again after a simulated time that is POLISH_GROWTH times as long,
# until this time exceeds LAST_POLISH_TIME synaptic time constants.  It can fail if atoms are nearly
# dependent.
LAST_POLISH_TIME = 500.0
POLISH_GROWTH = 4.0
# The most negative drive of integer neurons, in units of the largest drive.  Lower drives are clipped,
# because such a neuron is silent anyway.
LOWEST_DRIVE = 4.0
# Multiply-adds per neuron of a read-out of currents.
PRODUCTS_OF_CURRENT = 2
QUARTER_STEPS = Clock(0.25, DigitalFormat())


@dataclass(frozen=True)
class SpikingMethod(Method):
    """Codes read out of a network of spiking neurons.

    Parameters
    ----------
    max_duration : float, default 10000
        Simulated time, in synaptic time constants, after which the network is stopped.
    time : Exact or Clock, default Exact()
        How the network is simulated: event by event (`Exact`), or in steps (`Clock`).
    """

    max_duration: float = 10_000.0
    time: Time = EXACT_TIME

    takes: ClassVar[tuple[str, ...]] = ("convolution", "mixed_signs", "zero_penalties", "own_weights")
    steps = "spikes"
    result = SpikingCodingResult
    # Whether the neurons compute with integers; None if `time` decides.
    _integers: ClassVar[bool | None] = False

    def __post_init__(self) -> None:
        checks.positive_number("max_duration", self.max_duration)
        require_time("time", self.time)
        if self._integers is not None and is_digital(self.time) != self._integers:
            wanted = "a Clock with a DigitalFormat" if self._integers else "Exact or a Clock of real numbers"
            raise TypeError(f"time must be {wanted} for {self.name}; got {self.time}")
        if is_digital(self.time):
            # All signals share one network, whose weights are rounded once.
            takes = tuple(name for name in self.takes if name not in ("zero_penalties", "own_weights"))
            name, finest_tol = self.name.replace("spiking", "digital"), max(self.finest_tol, 1e-3)
            assign(self, name=name, takes=takes, finest_tol=finest_tol)
        if self.max_duration < self.time.time_step:
            raise ValueError(
                f"max_duration must be at least a step, {self.time.time_step:g}; got {self.max_duration:g}"
            )

    def reason(self, status: Status) -> str:
        """Return the reason why signals missed `tol`, with a remedy, as a part of the warning."""
        if status != Status.RAN_AWAY:
            return super().reason(status)
        remedy = "use a shorter time_step, or, in integers, more weight bits"
        if isinstance(self.time, Exact):
            remedy = "scale the atoms to one norm, and their penalties with them"
        return f"before their networks ran away: {remedy}"

    def prepare(self, problem: LassoProblem) -> LassoNetwork:
        """Return the network of all signals; integer weights are rounded only once, here."""
        time = self.time
        if isinstance(time, Clock) and isinstance(time.neuron, DigitalFormat):
            lowest = time.neuron.lowest_drive or LOWEST_DRIVE
            time = replace(time, neuron=replace(time.neuron, lowest_drive=lowest))
        return LassoNetwork(problem, on_demand=not is_digital(self.time), time=time)


@dataclass(frozen=True)
class Stages(SpikingMethod):
    """Use a network of spiking neurons stage by stage, with one (positive) or two neurons for each atom.

    The network `lasso_network` runs until the codes read out of it satisfy::

        duality_gap <= tol * 1/2 ||signal||^2

    Codes are read from the rates and from the currents of neurons, and the code with the smaller gap counts.
    The rate is a = 1/t sum_k 30 s_k^2 (1 - s_k)^2 with s_k = t_k / t: the weight of a spike rises and falls
    smoothly over the run.  The thresholded current at the rates a is max(beta + W^T a, 0) / theta.

    A stage ends when the gap has fallen to 1/5 of the gap at its beginning (1/7 on a clock of real numbers).
    The first stage takes at most 48 synaptic time constants, and a later stage 24 or, after repeated stages
    without progress, longer.  In the next stage, the network is driven by the residual of the code, after the
    code has been drawn a little towards zero.  One spike then stands for a smaller value, and the new rates
    are added to the code, so that the gap falls exponentially with the number of spikes.  If atoms are
    similar, a stage reduces the gap less.  Stages then use the momentum of the accelerated gradient method.

    Signal and penalty are first divided by a `scale`, and codes are multiplied by `scale`.  The `scale` is
    chosen so that the busiest neuron, without input from other neurons, would fire once in one or two
    synaptic time constants.  So neither the codes nor the number of spikes depend on the unit of the signals.
    If a start is worse than the zero code, the signal starts from zero.

    Parameters
    ----------
    max_duration : float, default 10000
        Simulated time of all stages, in synaptic time constants, after which the network is stopped.
    time : Clock, optional
        How the network is simulated.  `Exact()`, the default, simulates event by event.  A `Clock` simulates
        step by step, as a chip does: with real numbers, with `Imperfections` (docs/imperfect_neurons.md), or
        with the integers of a `DigitalFormat`.  `solve_digital` uses integers with steps of 1/4 by default.
        On a clock, the network fires about as many spikes as in exact time.  A step is too long, and rates
        oscillate, if the Gram matrix of a code's atoms has an eigenvalue of 2 / (1 - e^-time_step) or more
        (docs/theory.md, section 7).

    Notes
    -----
    The gap is certified for the true problem in float64, and does not depend on errors of neurons.  The
    residual that drives the next stage is computed outside of the network, so that stages correct the errors
    of rounded weights and of imperfect neurons.  `OneWindow` and `DigitalOneWindow` run the network once.

    A network is stopped early if it fires about 10,000,000 spikes at once.  Such bursts may happen if the
    norms of atoms differ by many orders of magnitude.

    For a single signal in a large dictionary, only the rows of the Gram matrix of atoms that fire are
    computed, unless the problem already has the matrix or the network runs on a clock.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475: the network, Theorem 2 (convergence), section 4
    (read-outs of rates and currents).  The smooth window and refinement: docs/theory.md, section 4.
    """

    name = "spiking"
    takes = ("start", *SpikingMethod.takes)
    finest_tol = 1e-6
    _integers: ClassVar[bool | None] = None
    _refine: ClassVar[bool] = True

    def search(self, best: BestCodes, prepared: LassoNetwork) -> Iterator[Found]:
        """Yield the best codes that are read from the network."""
        first = None
        if best.start is not None:
            best.fall_back()
            first = best.values.toarray()
        refined = self._refined(
            best.problem,
            prepared.of_batch(best.problem),
            tol=best.tol,
            max_duration=self.max_duration,
            refine=self._refine,
            start=first,
        )
        yield from refined.search(best)

    def _refined(self, *args: Any, **options: Any) -> RefinedCodes:
        """Return the networks of a batch of signals."""
        return RefinedCodes(*args, **options)

    def solve_alone(self, problem: LassoProblem, start: Codes | None, tol: float) -> Codes | None:
        """Return the code of a single signal from a reused network; None if `search` may do better."""
        if start is not None or not isinstance(self.time, Exact) or not self.time.screening:
            return None
        with one_blas_thread():
            return code_of_one(problem, tol=tol, max_duration=self.max_duration, refine=self._refine)


@documented(Stages)
def solve_spiking(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    max_duration: float = 10_000.0,
    time: Time = EXACT_TIME,
) -> SpikingCodingResult:
    """Solve a LASSO with a network of one (positive) or two spiking neurons for each atom."""
    return solve(problem, Stages(max_duration, time), start=start, tol=tol, n_jobs=n_jobs, progress=progress)


@documented(Stages)
def solve_digital(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    max_duration: float = 10_000.0,
    time: Time = QUARTER_STEPS,
) -> SpikingCodingResult:
    """Solve a LASSO with a network of one (positive) or two digital neurons for each atom."""
    require_digital("time", time)
    return solve(problem, Stages(max_duration, time), start=start, tol=tol, n_jobs=n_jobs, progress=progress)


class OneWindow(Stages):
    """Codes read through a smooth window over one run.  The gap falls like 1 / t^2 in the time t."""

    name = "spiking_one_window"
    finest_tol = 1e-3
    _integers = False
    _refine = False


class BatchRun:
    """A run of the networks of a batch of signals; potentials start at `head_start` times the threshold."""

    def __init__(
        self,
        problem: LassoProblem,
        network: LassoNetwork,
        *,
        rate: float = 1.0,
        head_start: float = 0.0,
        window_moments: bool = False,
    ) -> None:
        self.network = network
        drives, self.scale = network.scaled_drives(problem, rate)
        options: Any = {"window_moments": window_moments, "burst_limit": plan.COSTS.burst}
        self.run = start_run(network.time, network, drives, **options)
        if head_start > 0.0:
            self.run.membrane_potential[:] = head_start * network.firing_threshold
            self.run.restart(np.arange(problem.n_signals))
        # Neurons of zero atoms have potentials from rounding, which must not become codes.
        self._zero_atoms = np.flatnonzero(problem.seen_atoms.squared_norms == 0.0)
        # Times of the last read-outs of currents, and the integrals of all soma currents until then (eq 4).
        self._charges = [(self.run.time.copy(), self.run.charge)]

    def codes_of(self, rates: np.ndarray, signals: np.ndarray) -> np.ndarray:
        """Return the codes of some signals from the rates of their neurons."""
        return self.network.signed(rates) * self.scale[signals, np.newaxis]

    def codes_of_currents(self, signals: np.ndarray, n_looks: int) -> np.ndarray:
        """Return codes: thresholded currents, averaged since the start or the last `n_looks` read-outs."""
        now = self.run.time.copy(), self.run.charge
        self._charges = [*self._charges, now][-1 - n_looks :]
        (begin, before), (end, charge) = self._charges[0], now
        average = np.zeros((len(signals), self.network.n_neurons))
        # No time has passed for a network that was lost at the very start of the interval.
        elapsed = (end - begin)[signals, np.newaxis]
        np.divide(charge[signals] - before[signals], elapsed, out=average, where=elapsed > 0.0)
        codes = self.codes_of(np.maximum(average, 0.0) / self.network.firing_threshold, signals)
        codes[:, self._zero_atoms] = 0.0
        return codes

    def average_currents(self) -> sparse.csr_array:
        """Return, for each signal, the average currents of the atoms that fired, in units of correlations."""
        charges = np.where(self.run.spike_counts > 0, np.maximum(self.run.charge, 0.0), 0.0)
        currents = as_sparse(self.network.signed(charges))
        currents.data *= (self.scale / self.run.time).repeat(np.diff(currents.indptr))
        return currents

    def finish(self, best: BestCodes) -> None:
        """Write the spike counts, durations and scales of the networks to the best codes."""
        n_stages, duration = np.ones_like(self.scale, dtype=np.int64), self.run.time.copy()
        finish(best, self.run, self.network, n_stages=n_stages, duration=duration, scale=self.scale)


class OneRun(SpikingMethod):
    """Codes read out of one run at growing times, until their gaps are small enough."""

    finest_tol = 1e-2
    # Multiply-adds of a read-out, for each neuron.
    _products_per_neuron: ClassVar[int] = 1
    # Keyword arguments for `BatchRun`.
    _run_options: ClassVar[dict[str, Any]] = {}

    @abstractmethod
    def _read(self, batch: BatchRun, signals: np.ndarray) -> np.ndarray:
        """Return the codes of some signals, read from the present states of their networks."""

    def search(self, best: BestCodes, prepared: LassoNetwork) -> Iterator[Found]:
        """Yield codes that are read from the network at growing times."""
        network, signals, end = prepared.of_batch(best.problem), best.active, 0.0
        batch = BatchRun(best.problem, network, **self._run_options)
        for look in count():
            if not len(signals) or end >= self.max_duration:
                break
            end = max(FIRST_READ * 2.0 ** (look / READS_PER_DOUBLING), self.time.time_step)
            batch.run.advance(min(end, self.max_duration), active=signals)
            best.work[READ_OUT][signals] += self._products_per_neuron * network.n_neurons
            yield signals, self._read(batch, signals)
            signals = best.active[~batch.run.is_lost[best.active]]
        batch.finish(best)
        if not is_digital(self.time):
            best.info["average_currents"] = batch.average_currents()


class Rates(OneRun):
    """Codes that are the spike rates a = n / t since the start of the run.  The gap falls like 1 / t."""

    name = "spiking_rate"

    def _read(self, batch: BatchRun, signals: np.ndarray) -> np.ndarray:
        return batch.codes_of(batch.run.spike_counts[signals] / batch.run.time[signals, np.newaxis], signals)


class AverageCurrents(OneRun):
    """The thresholded average current, max(u, 0) / theta, over the second half of the elapsed time."""

    name = "spiking_current"
    _products_per_neuron = PRODUCTS_OF_CURRENT

    def _read(self, batch: BatchRun, signals: np.ndarray) -> np.ndarray:
        return batch.codes_of_currents(signals, READS_PER_DOUBLING)


@dataclass(frozen=True)
class DigitalOneWindow(OneRun):
    """Codes of digital neurons, read through a smooth window over one run.

    Only the network computes these codes, so that rounded weights leave a gap at any duration.

    Parameters
    ----------
    max_duration : float, default 10000
        Simulated time, in synaptic time constants, after which the network is stopped; at least one step.
    time : Clock, default Clock(0.25, DigitalFormat())
        The clock: the length of a step, and the widths and rounding of integers.
    """

    time: Time = QUARTER_STEPS

    name = "digital_one_window"
    _integers = True
    _products_per_neuron = PRODUCTS_OF_RATE
    # At half a spike per time constant, a neuron rarely reaches its threshold twice in a step.
    _run_options: ClassVar[dict[str, Any]] = {"rate": 0.5, "head_start": HEAD_START, "window_moments": True}

    def _read(self, batch: BatchRun, signals: np.ndarray) -> np.ndarray:
        run = batch.run
        return batch.codes_of(smooth_rate_of_moments(run.window_moments[signals], run.time[signals]), signals)


class ActiveSetFromSpikes(SpikingMethod):
    """The active-set method, started from the atoms whose neurons fired.

    The network runs only for a short time, from potentials at half their thresholds.  Codes are optimal to
    rounding for any `tol`, unless the atoms are so nearly dependent that double precision cannot solve the
    optimality equations.  For nearly dependent atoms, the result is the best code found, which may have been
    read from currents.  `n_corrections` in the `info` of the result counts the atoms that the method had to
    correct.
    """

    name = "active_set_from_spikes"
    usual_tol = 1e-6
    finest_tol = 1e-10

    def search(self, best: BestCodes, prepared: LassoNetwork) -> Iterator[Found]:
        """Run the network until its support is nearly optimal, and yield codes of the active-set method."""
        problem, network = best.problem, prepared.of_batch(best.problem)
        batch = BatchRun(problem, network, head_start=HEAD_START)
        best.work[READ_OUT] += 0
        signals, end = best.active, min(POLISH_TIME, self.max_duration)
        while len(signals):
            batch.run.advance(end, active=signals)
            currents = batch.average_currents()
            solved = network.products.optimal_codes(problem, signals, rows_of(currents))
            solved.work[POLISH] = solved.work.pop(METHOD)
            yield signals, solved
            behind = best.active
            if not len(behind):
                break
            # Read out only these signals, so that a code does not depend on other signals of the batch.
            best.work[READ_OUT][behind] += PRODUCTS_OF_CURRENT * network.n_neurons
            yield behind, batch.codes_of_currents(behind, 1)
            # On a nearly singular support, the method may fail to end; more spikes then give another support.
            # If the method ended at its precision, the gap is only rounding, and more spikes do not help.
            has_ended = solved.status == AT_PRECISION
            goes_on = np.isin(signals, best.active) & ~has_ended & ~batch.run.is_lost[signals]
            signals = signals[goes_on] if end < min(self.max_duration, LAST_POLISH_TIME) else signals[:0]
            end = min(POLISH_GROWTH * end, self.max_duration)
        batch.finish(best)
        best.info["average_currents"] = currents

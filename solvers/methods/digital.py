"""The LASSO solved by digital neurons, in integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from snn import OperationCounts
from snn.base import checks
from snn.base.html import value_range
from snn.base.locks import cached_property
from snn.digital import Digital, DigitalFormat, DigitalNetwork, ImperfectDigital
from snn.digital.run import DigitalRun, Integers
from snn.record.windows import smooth_rate_of_moments
from snn.run.imperfect import Imperfections
from solvers._kernels.batch import scaled_drive
from solvers._kernels.refinement import PRODUCTS_OF_RATE
from solvers.methods.method import REFUSED, Method, Takes, solve
from solvers.methods.spiking import HEAD_START
from solvers.problem.lasso import LassoProblem
from solvers.results.best_codes import BestCodes
from solvers.results.operations import CERTIFICATE, READ_OUT, OperationLedger, ledger_of
from solvers.results.result import SparseCodingResult
from solvers.results.solved import Solved
from solvers.results.start import StartPoint
from solvers.spiking.batches import run_until_certified, sparse_counts
from solvers.spiking.network import LassoNetwork, signed
from solvers.spiking.stages import RefinedCodes
from solvers.workers.spread import batch_slices

# Without refinement the network is looked at when it has run for this time, and for so many times as long.
FIRST_LOOK = 12.0
LOOK_GROWTH = math.sqrt(2.0)
# Rate of the busiest neuron, driven alone, so that a neuron rarely wants to fire twice in a step.
RATE_PER_DRIVE = 0.5
# In units of the largest drive.  More negative drives are clipped to this; the neuron is silent anyway.
LOWEST_DRIVE = 4.0
QUARTER_STEPS = Digital(0.25, lowest_drive=LOWEST_DRIVE)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DigitalCodingResult(SparseCodingResult):
    """As `SparseCodingResult`, with what the digital network did.

    Attributes
    ----------
    readout : str
        How codes are read out of the network.
    n_stages : ndarray of int, shape (n_signals,)
        Runs of the network, one after the other.
    sparse_spike_counts : scipy.sparse.csr_array of int, shape (n_signals, n_neurons)
        How often each neuron fired; with two neurons for each atom, those of all positive neurons come first.
    n_clock_steps : ndarray of int, shape (n_signals,)
        Steps of the network, of all stages.
    scale : ndarray, shape (n_signals,)
        The value of a code for one unit of spike rate, in the last stage.
    saturations : ndarray of int, shape (n_signals, 4)
        How often a register of a neuron was too narrow in a step: potential below, potential above, current,
        message.  Potentials of neurons that are not in the code come to the lower end, and stay there.
    ran_away : ndarray of bool, shape (n_signals,)
        Whether the network was stopped because its potentials ran up to the end of their registers.
    network : DigitalNetwork
        The integers; their drive is zero, since each signal has its own.
    """

    readout: str
    n_stages: np.ndarray
    sparse_spike_counts: sparse.csr_array
    n_clock_steps: np.ndarray
    scale: np.ndarray
    saturations: np.ndarray
    ran_away: np.ndarray
    network: DigitalNetwork

    @property
    def duration(self) -> np.ndarray:
        """Simulated time of each signal, of all stages, in synaptic time constants, shape (n_signals,)."""
        return self.n_clock_steps * self.network.time_step

    def _facts(self) -> dict[str, str]:
        return {
            **super()._facts(),
            "read-out": self.readout,
            "duration": f"{value_range(self.duration)} synaptic time constants",
            "weights": f"{self.network.format.weights.bits} bits",
            "ran away": f"{int(np.count_nonzero(self.ran_away)):,} of {len(self.ran_away):,}",
        }

    @cached_property
    def operations(self) -> OperationLedger:
        """What each signal took, part by part: the network, and what was computed beside it.

        A weight that is rounded to zero is none: no message is delivered by it.
        """
        # Spikes are counted in the order of results.
        order = LassoNetwork.of(self.problem).in_result_order(np.arange(self.network.n_neurons))
        counts = OperationCounts.of_clock(
            n_neurons=self.network.n_neurons,
            spikes=self.n_steps,
            synaptic_operations=self.sparse_spike_counts @ self.network.out_degree[order],
            n_steps=self.n_clock_steps,
        )
        assert self.work is not None
        return ledger_of(self.work, network=counts)


def solve_digital(
    problem: LassoProblem,
    format: DigitalFormat | None = None,
    *,
    tol: float = 1e-3,
    time_step: float = 0.25,
    threshold: int | None = None,
    max_duration: float = 10_000.0,
    readout: str = "smooth",
    refine: bool = True,
    imperfections: Imperfections | None = None,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> DigitalCodingResult:
    """Solve a LASSO with a network of digital neurons, one (positive) or two for each atom.

    The network `lasso_network` is made of integers (`DigitalNetwork`), and runs until the codes read out of
    it satisfy::

        duality_gap <= tol * 1/2 ||signal||^2

    The gap is that of the true problem, in float64: what rounding of weights, drives and potentials does to
    an answer is in it.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    format : DigitalFormat, optional
        Widths and rounding; by default those of `DigitalFormat`, Loihi's widths.
    tol : float, default 1e-3
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.
    time_step : float, default 0.25
        Length of a step, in synaptic time constants.
    threshold : int, optional
        The largest firing threshold, in units of the potential; as of `DigitalNetwork.of`.
    max_duration : float, default 10000
        Simulated time, in synaptic time constants, after which the network is stopped; at least a step.
    readout : {"smooth", "rate"}, default "smooth"
        How codes are read out of spikes: each counts by a smooth bump over the run, as of `solve_spiking`, or
        all count the same.  "rate" comes without refinement alone.
    refine : bool, default True
        Start the network again, stage by stage, driven by what the code so far leaves of the signal, with
        spikes worth as much less, as `solve_spiking` does.  What is left of the signal is computed in
        float64, outside of the network.  So errors of the weights are corrected by the next stage.
        Without it codes are what the network alone says, and rounded weights leave a gap that no time closes.
    imperfections : Imperfections, optional
        Run a network of imperfect neurons (docs/imperfect_neurons.md).
    rng : int, Generator or None, default None
        For weights that are rounded stochastically, once for each network.
    n_jobs : int, optional
        Signals are spread over so many joblib workers.  None is one, unless a `joblib.parallel_config` says
        otherwise; -1 is one for each processor.  The result does not depend on their number.
    progress : bool, default False
        Show a progress bar, in signals.

    Returns
    -------
    DigitalCodingResult
        Its `n_steps` are messages sent.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a signal does not reach `tol` by `max_duration`.  Its code is the best one read out by then, with
        its true gap.
    """
    format = DigitalFormat() if format is None else format
    options: dict[str, Any] = {"threshold": threshold, "rng": rng, "lowest_drive": LOWEST_DRIVE}
    if imperfections is None:
        how = Digital(time_step, format, **options)
    else:
        how = ImperfectDigital(time_step, format, imperfections=imperfections, **options)
    readout = checks.one_of("readout", readout, tuple(OF_ONE_RUN))
    refine = checks.flag("refine", refine)
    if refine and readout == "rate":
        raise ValueError(
            "refine must be False with readout='rate': stages are read through the smooth window"
        )
    kind = DigitalStages if refine else OF_ONE_RUN[readout]
    return solve(problem, kind(max_duration, how), tol=tol, n_jobs=n_jobs, progress=progress)


class _Digital(NamedTuple):
    """What all signals share."""

    network: LassoNetwork
    how: Integers


@dataclass(frozen=True)
class DigitalMethod(Method[DigitalCodingResult]):
    """Codes read out of a network of digital neurons.

    Parameters
    ----------
    max_duration : float, default 10000
        Simulated time, in synaptic time constants, after which the network is stopped.
    how : Digital
        Length of a step, widths and rounding; by default those of `solve_digital`.
    """

    max_duration: float = 10_000.0
    how: Digital = QUARTER_STEPS

    name = "digital"
    # The weights of one network are rounded.
    takes = Takes(convolution=True, own_weights=REFUSED)
    steps = "spikes"
    finest_tol = 1e-3
    result = DigitalCodingResult
    readout: ClassVar[str]

    def __post_init__(self) -> None:
        checks.positive_number("max_duration", self.max_duration)
        checks.instance_of("how", self.how, Digital)
        step = self.how.time_step
        if self.max_duration < step:
            raise ValueError(
                f"max_duration must be at least one time_step, {step:g}; got {self.max_duration:g}"
            )

    def limit(self, stopped: np.ndarray | None) -> str:
        """Return the time, and how many networks ran away before."""
        limit = f"max_duration={self.max_duration:g}"
        if stopped is None or not stopped.any():
            return limit
        return (
            f"{limit} (the networks of {int(stopped.sum())} ran away and were stopped before: use more "
            "weight bits or a shorter time_step)"
        )

    def prepare(self, problem: LassoProblem) -> _Digital:
        """Return the network, and its integers."""
        network = LassoNetwork.of(problem)
        return _Digital(network, self.how.prepare(network))

    def batches(self, problem: LassoProblem, prepared: _Digital, n_workers: int) -> list[slice]:
        """Return as many signals as have their neurons in memory close by."""
        return batch_slices(problem.n_signals, prepared.network.n_neurons, n_workers)

    def shared_fields(self, problem: LassoProblem, prepared: _Digital) -> dict[str, Any]:
        """Return the read-out and the integers."""
        return {"readout": self.readout, "network": prepared.how.network}


class DigitalStages(DigitalMethod):
    """Codes read through a smooth window, and refined stage by stage: `solve_digital`."""

    readout = "smooth"

    def solve(
        self, problem: LassoProblem, prepared: _Digital, start: StartPoint | None, tol: float
    ) -> Solved:
        """Run stage after stage until the codes are good enough."""
        best = BestCodes(problem)
        refined = RefinedCodes(
            problem,
            prepared.network,
            how=prepared.how,
            tol=tol,
            max_duration=self.max_duration,
            refine=True,
        )
        run_until_certified(refined, best, tol=tol)
        n_stages, n_read_out = refined.n_stages.copy(), refined.n_multiply_adds.copy()
        return _solved(best, prepared.network, refined.run, refined.scale, n_stages, n_read_out)


class DigitalOneWindow(DigitalMethod):
    """Codes read through a smooth window over one run: `solve_digital` with ``refine=False``."""

    name = "digital_one_window"
    finest_tol = 1e-2
    readout = "smooth"

    def solve(
        self, problem: LassoProblem, prepared: _Digital, start: StartPoint | None, tol: float
    ) -> Solved:
        """Run once, and look at the codes as time goes on; only certificates are computed outside."""
        network, how = prepared
        n_signals = problem.n_signals
        soma_bias, scale = np.empty((n_signals, network.n_neurons)), np.empty(n_signals)
        scaled_drive(
            problem.correlations,
            problem.l1_weights,
            network.gram.diagonal,
            problem.positive,
            soma_bias,
            scale,
        )
        scale /= RATE_PER_DRIVE
        soma_bias *= RATE_PER_DRIVE
        soma_bias = network.in_network_order(soma_bias)
        run = how.start(network, soma_bias, window_moments=self.readout == "smooth")
        run.membrane_potential[:] = HEAD_START * network.firing_threshold
        active = np.arange(n_signals)
        run.restart(active)
        best = BestCodes(problem)
        # What a network that runs away says is worse than nothing.
        best.put(active, np.zeros((n_signals, problem.n_atoms)), if_better=False)
        active = active[best.missed(active, tol)]
        n_read_out = np.zeros(n_signals, dtype=np.int64)
        products = PRODUCTS_OF_RATE if self.readout == "smooth" else 1
        n_steps, last = 0, int(self.max_duration / run.time_step)
        wanted = FIRST_LOOK / run.time_step
        while len(active) and n_steps < last:
            n_steps = min(max(round(wanted), n_steps + 1), last)
            wanted *= LOOK_GROWTH
            time = n_steps * run.time_step
            run.advance(time, active=active)
            n_read_out[active] += products * network.n_neurons
            if self.readout == "smooth":
                rates = smooth_rate_of_moments(run.window_moments[active], time)
            else:
                rates = run.messages[active] * how.network.message_value / time
            rates = network.in_result_order(rates)
            codes = signed(rates, positive=network.positive) * scale[active, np.newaxis]
            best.put(active, codes, if_better=True)
            active = active[best.missed(active, tol) & ~run.is_lost[active]]
        return _solved(best, network, run, scale, np.ones(n_signals, dtype=np.int64), n_read_out)


class DigitalRates(DigitalOneWindow):
    """Messages per unit of time since the start: `solve_digital` with ``readout="rate"``."""

    name = "digital_rate"
    readout = "rate"


OF_ONE_RUN: dict[str, type[DigitalOneWindow]] = {
    method.readout: method for method in (DigitalOneWindow, DigitalRates)
}
"""The methods that run the network once, by their read-outs."""


def _solved(
    best: BestCodes,
    network: LassoNetwork,
    run: DigitalRun,
    scale: np.ndarray,
    n_stages: np.ndarray,
    n_read_out: np.ndarray,
) -> Solved:
    signal_fields = {
        "n_stages": n_stages,
        "sparse_spike_counts": sparse_counts(network, run.spike_counts),
        "n_clock_steps": run.total_steps,
        "scale": scale,
        "saturations": run.overflows.sum(axis=1),
        "ran_away": run.is_lost,
    }
    work = {READ_OUT: n_read_out, CERTIFICATE: best.n_multiply_adds}
    n_spikes = run.spike_counts.sum(axis=1)
    return Solved(best.codes, n_spikes, work, best.optimality, run.is_lost, signal_fields)

"""The LASSO solved by spikes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from snn import OperationCounts
from snn.base import checks
from snn.base.html import value_range
from snn.base.locks import cached_property
from snn.digital import Digital
from snn.run.exact import Exact
from snn.run.imperfect import Imperfections, clock_of
from snn.run.run import Run, Time
from solvers._kernels.batch import CompressedRows
from solvers._kernels.one_signal import read_and_certify
from solvers._kernels.refinement import FEW_SPIKES, FEW_STEPS
from solvers.certificate.compiled import certify, optimality_of
from solvers.certificate.optimality import Optimality
from solvers.gram.gram import uses_full_gram
from solvers.methods.method import NOT_NEGATIVE, Method, Takes, solve
from solvers.problem.lasso import LassoProblem, groups_of, with_shared_mask
from solvers.results.best_codes import BestCodes
from solvers.results.operations import (
    CERTIFICATE,
    GRAM,
    POLISH,
    READ_OUT,
    OperationLedger,
    certificate_work,
    ledger_of,
)
from solvers.results.result import SparseCodingResult, as_sparse, compressed_rows
from solvers.results.solved import Solved
from solvers.results.start import Start, StartPoint
from solvers.spiking.alone import EXACT_TIME, CodesAlone
from solvers.spiking.batches import BatchRun, run_until_certified, sparse_counts
from solvers.spiking.network import LassoNetwork, spike_rates
from solvers.spiking.stages import RefinedCodes
from solvers.workers.blas import one_blas_thread
from solvers.workers.spread import batch_slices

# Rates and average currents are read out at 2, 2.8, 4, 5.7 ... synaptic time constants: no run is more than
# 1.41 times too long.
FIRST_CHECK = 2.0
CHECKS_PER_DOUBLING = 2
# With polish, potentials start at this share of their thresholds, so that neurons that will fire soon fire
# before the run ends.
HEAD_START = 0.5
# Simulated time before the active-set method, in synaptic time constants.  After it, it is cheaper to let the
# method correct the support than to go on spiking.
POLISH_TIME = 2.0
# Where the method does not end, it starts again from runs that are POLISH_GROWTH times as long, up to this
# time, in synaptic time constants.  Only nearly dependent atoms come that far.
LAST_POLISH_TIME = 500.0
POLISH_GROWTH = 4.0
ONLY = np.zeros(1, dtype=np.int64)
"""The only signal of a problem."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SpikingCodingResult(SparseCodingResult):
    """As `SparseCodingResult`, with what the network did, and what the active-set method did.

    Attributes
    ----------
    readout : str
        How codes are read out of the network.
    polished : ndarray of bool, shape (n_signals,)
        Whether the code is that of the active-set method, and not the read-out of the network.
    n_corrections : ndarray of int, shape (n_signals,)
        Atoms that the active-set method removed from, or added to, the support that the spikes found; 0 where
        the code is not polished.
    n_stages : ndarray of int, shape (n_signals,)
        Runs of the network, one after the other: 1 unless codes were refined, and 0 where the start, or zero,
        was good enough.
    sparse_spike_counts : scipy.sparse.csr_array of int, shape (n_signals, n_neurons)
        Spikes of each neuron.  Where codes may be negative, those of all positive neurons come before those
        of all negative ones.
    sparse_average_currents : scipy.sparse.csr_array, shape (n_signals, n_atoms), or None
        Average soma currents of the neurons that fired, in units of correlations.  Negative averages are set
        to zero.  The start potential is included.  With two neurons for each atom it is the positive one's
        minus the negative one's.  None for the smooth read-out, because its stages have different scales.
    duration : ndarray, shape (n_signals,)
        Simulated time, of all stages, in synaptic time constants.
    scale : ndarray, shape (n_signals,)
        The value of a code for one unit of spike rate, in the last stage: the network ran on the signal
        divided by this.
    n_clock_steps : ndarray of int, shape (n_signals,), or None
        Steps of the clock, of all stages; None of exact runs.
    """

    readout: str
    polished: np.ndarray
    n_corrections: np.ndarray
    n_stages: np.ndarray
    sparse_spike_counts: sparse.csr_array
    duration: np.ndarray
    scale: np.ndarray
    n_clock_steps: np.ndarray | None = None

    @cached_property
    def spike_counts(self) -> np.ndarray:
        """The spike counts as a dense array, shape (n_signals, n_neurons)."""
        return checks.read_only(self.sparse_spike_counts.toarray())

    @cached_property
    def operations(self) -> OperationLedger:
        """What each signal took, part by part: the network, and what was computed beside it."""
        counts = self.sparse_spike_counts
        common: dict[str, Any] = {
            "n_neurons": counts.shape[1],
            "spikes": self.n_steps,
            "synaptic_operations": _synaptic_operations(self.problem, counts),
        }
        if self.n_clock_steps is None:
            network = OperationCounts.of_exact_run(**common, duration=self.duration)
        else:
            network = OperationCounts.of_clock(**common, n_steps=self.n_clock_steps)
        assert self.work is not None
        return ledger_of(self.work, network=network)

    @cached_property
    def rate_duality_gap(self) -> np.ndarray:
        """Duality gap of the plain spike rates, shape (n_signals,); NaN where there were several stages.

        After a `start` the rates code only what it leaves of the signal, and their gap says nothing.
        """
        # Without a stage there are no spikes, in no time.
        duration = np.where(self.n_stages > 0, self.duration, 1.0)
        rates = spike_rates(self.spike_counts, duration, self.scale, positive=self.problem.positive)
        gaps = certify(self.problem, as_sparse(rates)).duality_gap
        return checks.read_only(np.where(self.n_stages > 1, np.nan, gaps))

    def _facts(self) -> dict[str, str]:
        return {
            **super()._facts(),
            "read-out": self.readout,
            "duration": f"{value_range(self.duration)} synaptic time constants",
            "polished": f"{int(np.count_nonzero(self.polished)):,} of {len(self.polished):,}",
        }


def _synaptic_operations(problem: LassoProblem, spike_counts: sparse.csr_array) -> np.ndarray:
    """Return how many times a spike reached a target, shape (n_signals,)."""
    if problem.has_own_weights:
        operations = np.empty(problem.n_signals, dtype=np.int64)
        for group in groups_of(problem):
            shared = with_shared_mask(problem.subset(group))
            operations[group] = _synaptic_operations(shared, spike_counts[group])
        return operations
    network = LassoNetwork.of(problem, on_demand=True)
    fired = np.unique(spike_counts.indices)
    degrees = np.zeros(network.n_neurons, dtype=np.int64)
    degrees[fired] = network.out_degrees(fired)
    return spike_counts @ degrees


def solve_spiking(
    problem: LassoProblem,
    *,
    start: Start = None,
    tol: float = 1e-3,
    max_duration: float = 10_000.0,
    time_step: float | None = None,
    imperfections: Imperfections | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> SpikingCodingResult:
    """Solve a LASSO with a network of spiking neurons, one (positive) or two for each atom.

    The network `lasso_network` runs, exactly and event by event, until the codes read out of it satisfy::

        duality_gap <= tol * 1/2 ||signal||^2

    Each spike counts by a bump that rises and falls smoothly over the run, a = 1/t sum_k 30 s_k^2 (1 - s_k)^2
    with s_k = t_k / t; or the code is the thresholded current that these rates cause, max(beta + W^T a, 0) /
    theta, whichever has the smaller gap.  When the gap is 1/5 of its value, on a clock 1/7, or after 24 time
    constants, a new stage starts on the residual of the code (drawn a little towards zero).  One spike then
    stands for a smaller value, and the new rates are added to the code: the gap falls exponentially with the
    number of spikes.  Where atoms are alike, stages gain less, and start with the momentum of the accelerated
    gradient method.

    Other ways to read spikes are methods with names, ``solve(problem, METHODS["spiking_rate"])``: plain
    rates, "spiking_current", "spiking_one_window", and "active_set_from_spikes".

    Signal and penalty are first divided by a `scale` at which the busiest neuron alone would fire once in one
    or two synaptic time constants; codes are multiplied by it.  So neither the codes nor the number of spikes
    depend on the unit of the signals.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    start : array_like or scipy.sparse.csr_array of shape (n_signals, n_atoms), or result, optional
        Where to start: codes, or the result of a solver.  The network then codes what these codes, drawn a
        little towards zero, leave of the signal.  If the start is worse than the zero code, the signal starts
        from zero.  By default all do.
    tol : float, default 1e-3
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.
    max_duration : float, default 10000
        Simulated time, in synaptic time constants, after which the network is stopped.
    time_step : float, optional
        Run the network on a clock of this step that keeps charge (`simulate_clocked`), as a chip would, and
        not from event to event.  The gap is certified all the same, and steps of 1/4 take about as many
        spikes.  Where the atoms of a code have a Gram matrix with an eigenvalue of 2 / (1 - e^-time_step) or
        more, a step is too long: rates swing (docs/theory.md, section 7).
    imperfections : Imperfections, optional
        With a `time_step`: run a network of imperfect neurons.  Stages repair much of what they get wrong
        (docs/imperfect_neurons.md).
    n_jobs : int, optional
        Signals are spread over so many joblib workers.  None is one, unless a `joblib.parallel_config` says
        otherwise; -1 is one for each processor.  The result does not depend on their number.
    progress : bool, default False
        Show a progress bar, in signals.

    Returns
    -------
    SpikingCodingResult

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a signal does not reach `tol` by `max_duration`.  Its code is the best one read out by then,
        with its true gap.  A network is stopped early if about
        10,000,000 spikes come at once, as may happen where norms of atoms differ by many orders of magnitude.
        The code read then is kept only if it is better.

    Notes
    -----
    For a single signal in a large dictionary the Gram matrix is not computed, unless the problem has it
    already or there is a `time_step`: only the rows of atoms that fire are.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475: the network, Theorem 2 (convergence), section 4
    (read-outs of rates and currents).  The smooth window and refinement: docs/theory.md, section 4.
    """
    if imperfections is not None and time_step is None:
        raise ValueError(
            "imperfections must come with a time_step: exact runs have perfect neurons; got None"
        )
    method = Stages(max_duration, EXACT_TIME if time_step is None else clock_of(time_step, imperfections))
    return solve(problem, method, start=start, tol=tol, n_jobs=n_jobs, progress=progress)


@dataclass(frozen=True)
class SpikingMethod(Method[SpikingCodingResult]):
    """Codes read out of a network of spiking neurons.

    Parameters
    ----------
    max_duration : float, default 10000
        Simulated time, in synaptic time constants, after which the network is stopped.

    Attributes
    ----------
    readout : str
        How codes are read out.
    """

    max_duration: float = 10_000.0

    takes = Takes(convolution=True, zero_penalties=NOT_NEGATIVE)
    steps = "spikes"
    result = SpikingCodingResult
    readout: ClassVar[str]

    def __post_init__(self) -> None:
        checks.positive_number("max_duration", self.max_duration)

    def limit(self, stopped: np.ndarray | None) -> str:
        """Return the time, and how many networks were stopped before."""
        limit = f"max_duration={self.max_duration:g}"
        if stopped is None or not stopped.any():
            return limit
        return (
            f"{limit} (the networks of {int(stopped.sum())} were stopped before, because one spike "
            "caused millions: scale the atoms to one norm, and their penalties with them)"
        )

    def prepare(self, problem: LassoProblem) -> LassoNetwork:
        """Return the network of all signals."""
        return LassoNetwork.of(problem, on_demand=True)

    def of_batch(self, prepared: LassoNetwork, problem: LassoProblem) -> LassoNetwork:
        """Return the network of a batch."""
        return prepared.of_batch(problem)

    def batches(self, problem: LassoProblem, prepared: LassoNetwork, n_workers: int) -> list[slice]:
        """Return as many signals as have their neurons in memory close by."""
        return batch_slices(problem.n_signals, prepared.n_neurons, n_workers)

    def shared_fields(self, problem: LassoProblem, prepared: LassoNetwork) -> dict[str, Any]:
        """Return the read-out."""
        return {"readout": self.readout}


@dataclass(frozen=True)
class Stages(SpikingMethod):
    """Codes read through a smooth window, and refined stage by stage: `solve_spiking`.

    Parameters
    ----------
    max_duration : float, default 10000
        Simulated time of all stages, in synaptic time constants, after which the network is stopped.
    how : Time, default Exact()
        How the network runs: `Exact`, or on a `Clock`.  `DigitalStages` runs in integers.
    """

    how: Time[Run] = EXACT_TIME

    name = "spiking"
    takes = Takes(start=True, convolution=True, zero_penalties=NOT_NEGATIVE)
    finest_tol = 1e-6
    readout = "smooth"
    refine: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.instance_of("how", self.how, Time)
        if isinstance(self.how, Digital):
            raise TypeError(
                "how must be Exact, a Clock or a Time of your own; got Digital: use DigitalStages"
            )

    def solve(
        self, problem: LassoProblem, prepared: LassoNetwork, start: StartPoint | None, tol: float
    ) -> Solved:
        """Return the best codes read out."""
        best = BestCodes(problem)
        first = None
        if start is not None:
            signals = np.arange(problem.n_signals)
            best.put(signals, sparse.csr_array(start.codes.shape), if_better=False)
            best.put(signals, start.codes, if_better=True)
            first = best.codes.toarray()
        refined = RefinedCodes(
            problem,
            prepared,
            how=self.how,
            tol=tol,
            max_duration=self.max_duration,
            refine=self.refine,
            pace=FEW_SPIKES if self.how.time_step is None else FEW_STEPS,
            start=first,
        )
        run_until_certified(refined, best, tol=tol)
        counts = sparse_counts(prepared, refined.run.spike_counts)
        return _solved(prepared, refined, best.codes, best.optimality, best.n_multiply_adds, counts)

    @one_blas_thread()
    def solve_alone(self, problem: LassoProblem, start: StartPoint | None, tol: float) -> Solved | None:
        """Return the code of a single signal, by a network that is used again; None if that does not do.

        Code and certificate are those of `solve`.
        """
        if start is not None or not isinstance(self.how, Exact) or not self.how.screening:
            return None
        if problem.atoms.rows is None or problem.feature_weights is not None or problem.penalty.has_zeros:
            return None
        if not uses_full_gram(problem) or not (problem.has_gram or problem.model.gram_fits):
            return None
        alone = problem.model.once(CodesAlone)
        network, refined = alone.solve(problem, tol=tol, max_duration=self.max_duration, refine=self.refine)
        figures = np.empty((3, 1))
        atoms, values, neurons, counts = read_and_certify(
            problem.atoms.rows,
            problem.atoms.norms,
            problem.l1_weights,
            problem.curvatures,
            problem.positive,
            problem.dense_signals(),
            refined.codes,
            refined.run.spike_counts,
            figures[:, 0],
        )
        solved, codes = None, _one_row(problem.n_atoms, atoms, values)
        optimality = optimality_of(problem, codes, figures)
        if optimality.duality_gap[0] <= tol * problem.energies[0] or not refined.can_improve(ONLY).any():
            solved = _solved(
                network,
                refined,
                codes,
                optimality,
                np.array([certificate_work(problem, len(atoms))]),
                _one_row(network.n_neurons, neurons, counts),
            )
        alone.give_back(network, refined)
        return solved


def _one_row(n_columns: int, columns: np.ndarray, values: np.ndarray) -> sparse.csr_array:
    pointers = np.array([0, len(columns)], dtype=np.int32)
    return compressed_rows((1, n_columns), CompressedRows(pointers, columns, values))


def _solved(
    network: LassoNetwork,
    refined: RefinedCodes[Any],
    codes: sparse.csr_array,
    optimality: Optimality,
    n_products: np.ndarray,
    counts: sparse.csr_array,
) -> Solved:
    """Return what is said of codes read out in stages.

    n_products : the multiply-adds of certificates
    counts : spikes of each neuron, in the order of results
    """
    run, n_signals = refined.run, len(refined.codes)
    signal_fields = {
        "polished": np.zeros(n_signals, dtype=np.bool_),
        "n_corrections": np.zeros(n_signals, dtype=np.int64),
        "n_stages": refined.n_stages.copy(),
        "sparse_spike_counts": counts,
        "duration": refined.duration.copy(),
        "scale": refined.scale,
    }
    if run.total_steps is not None:
        signal_fields["n_clock_steps"] = run.total_steps
    work = {
        READ_OUT: refined.n_multiply_adds.copy(),
        GRAM: np.full(n_signals, network.gram.n_multiply_adds),
        CERTIFICATE: n_products,
    }
    return Solved(codes, run.spike_counts.sum(axis=1), work, optimality, run.is_lost.copy(), signal_fields)


class OneWindow(Stages):
    """Codes read through a smooth window over one run; their gaps fall like 1 / t^2."""

    name = "spiking_one_window"
    finest_tol = 1e-3
    refine = False


class OneRun(SpikingMethod):
    """Codes read out of one run, at times that grow, until they are good enough."""

    finest_tol = 1e-2
    products_per_neuron: ClassVar[int] = 1
    """Multiply-adds of reading out."""

    def begin(self, batch: BatchRun) -> Any:
        """Return what `read` remembers from one call to the next."""

    @abstractmethod
    def read(self, batch: BatchRun, signals: np.ndarray, memory: Any) -> np.ndarray:
        """Return the codes of some signals now, shape (len(signals), n_atoms).

        Parameters
        ----------
        batch : BatchRun
            The networks.
        signals : ndarray of int
            Which signals.
        memory : object
            From `begin`.
        """

    def solve(
        self, problem: LassoProblem, prepared: LassoNetwork, start: StartPoint | None, tol: float
    ) -> Solved:
        """Return the codes read out last."""
        batch = BatchRun(problem, prepared)
        memory = self.begin(batch)
        best = BestCodes(problem)
        n_read_out = np.zeros(problem.n_signals, dtype=np.int64)
        active = np.arange(problem.n_signals)
        check = 0
        while len(active):
            time = min(FIRST_CHECK * 2.0 ** (check / CHECKS_PER_DOUBLING), self.max_duration)
            batch.advance(active, time)
            n_read_out[active] += self.products_per_neuron * prepared.n_neurons
            codes = self.read(batch, active, memory)
            is_lost = batch.run.is_lost[active]
            if is_lost.any() and not best.has_codes:
                best.put(active, np.zeros_like(codes), if_better=False)
            # What is read out in the middle of a burst may be worse than the code before.
            best.put(active, codes, if_better=is_lost)
            goes_on = best.missed(active, tol) & ~is_lost
            active = active[goes_on] if time < self.max_duration else active[:0]
            check += 1
        work = {
            READ_OUT: n_read_out,
            POLISH: np.zeros_like(n_read_out),
            GRAM: np.full(problem.n_signals, prepared.gram.n_multiply_adds),
            CERTIFICATE: best.n_multiply_adds,
        }
        signal_fields = batch.signal_fields(batch.average_currents())
        n_spikes = batch.run.spike_counts.sum(axis=1)
        return Solved(best.codes, n_spikes, work, best.optimality, batch.run.is_lost, signal_fields)


class Rates(OneRun):
    """Spikes per unit of time since the start, a = n / t; their gaps fall like 1 / t."""

    name = "spiking_rate"
    readout = "rate"

    def read(self, batch: BatchRun, signals: np.ndarray, memory: Any) -> np.ndarray:
        """Return the rates."""
        return batch.rates(signals)


class AverageCurrents(OneRun):
    """The thresholded average current, max(u, 0) / theta, over the second half of the time so far.

    Sparser than rates, and much closer to the optimum at the same time.
    """

    name = "spiking_current"
    readout = "current"
    products_per_neuron = 2

    def begin(self, batch: BatchRun) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return times and charges of the last reads; the oldest was taken at half of the present time."""
        return [batch.charge()] * CHECKS_PER_DOUBLING

    def read(self, batch: BatchRun, signals: np.ndarray, memory: Any) -> np.ndarray:
        """Return the average currents since half the time."""
        memory.append(batch.charge())
        return batch.codes_between(memory.pop(0), memory[-1], signals)


class ActiveSetFromSpikes(SpikingMethod):
    """The active-set method, from atoms whose neurons fired.

    The network runs for a short time only, from potentials at half their thresholds.  The codes are optimal
    to rounding whatever `tol`, unless the atoms are so nearly dependent that double precision cannot solve
    the optimality equations; then the best code met is kept, the read-out among them.  `polished`,
    `n_corrections` and `rate_duality_gap` of the result say how much of the work the network did.
    """

    name = "active_set_from_spikes"
    usual_tol = 1e-6
    finest_tol = 1e-10
    # Of signals that the method does not solve.
    readout = "current"

    def limit(self, stopped: np.ndarray | None) -> str:
        """Return the precision."""
        return "the precision of the active-set method"

    def solve(
        self, problem: LassoProblem, prepared: LassoNetwork, start: StartPoint | None, tol: float
    ) -> Solved:
        """Run until the support is nearly right, and correct it by the active-set method."""
        batch = BatchRun(problem, prepared, head_start=HEAD_START)
        before = batch.charge()
        best = BestCodes(problem)
        polished = np.zeros(problem.n_signals, dtype=np.bool_)
        n_corrections, n_products, n_gram_products, n_read_out = np.zeros(
            (4, problem.n_signals), dtype=np.int64
        )
        active = np.arange(problem.n_signals)
        time = min(POLISH_TIME, self.max_duration)
        while len(active):
            batch.advance(active, time)
            currents = batch.average_currents()
            solved = prepared.gram.optimal_codes(problem, active, currents)
            n_products[active] += solved.n_multiply_adds
            n_gram_products[active] += solved.n_gram_multiply_adds
            kept = best.put(active, solved.codes, if_better=True, optimality=solved.optimality)
            polished[active[kept]] = True
            n_corrections[active[kept]] = solved.n_corrections[kept]
            missed = best.missed(active, tol)
            # On a support that is close to singular the equations may lead astray: keep what is best.
            if missed.any():
                # Read out only these signals: a code does not depend on what else is in the batch.
                behind = active[missed]
                n_read_out[behind] += AverageCurrents.products_per_neuron * prepared.n_neurons
                before, begin = batch.charge(), before
                read_out = batch.codes_between(begin, before, behind)
                for codes in (read_out, np.zeros_like(read_out)):
                    kept = best.put(behind, codes, if_better=True)
                    polished[behind[kept]] = False
                    n_corrections[behind[kept]] = 0
                missed = best.missed(active, tol)
            # Where the method ended, only rounding is left, and no spike can improve on it.
            goes_on = missed & ~solved.ended & ~batch.run.is_lost[active]
            active = active[goes_on] if time < min(self.max_duration, LAST_POLISH_TIME) else active[:0]
            time = min(POLISH_GROWTH * time, self.max_duration)
        n_rows = np.full(problem.n_signals, prepared.gram.n_multiply_adds)
        work = {
            READ_OUT: n_read_out,
            POLISH: n_products,
            GRAM: n_rows + n_gram_products,
            CERTIFICATE: best.n_multiply_adds,
        }
        signal_fields = {
            **batch.signal_fields(currents),
            "polished": polished,
            "n_corrections": n_corrections,
        }
        n_spikes = batch.run.spike_counts.sum(axis=1)
        return Solved(best.codes, n_spikes, work, best.optimality, signal_fields=signal_fields)

"""The LASSO solved by spikes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse

from snn import OperationCounts
from snn.base import checks
from snn.base.html import value_range
from snn.run.clocked import time_of
from solvers._kernels.batch import CompressedRows
from solvers.certificate.compiled import certify
from solvers.gram.gram import gram_of
from solvers.methods.masks import solve_groups
from solvers.problem.conditioning import warn_if_ill_posed
from solvers.problem.lasso import LassoProblem
from solvers.problem.masks import groups_of, with_shared_mask
from solvers.results.joining import joined
from solvers.results.operations import OperationLedger, Work, ledger_of
from solvers.results.result import SparseCodingResult, as_sparse, certified_result, compressed_rows
from solvers.results.start import Start, start_codes
from solvers.spiking.batches import Outcome, polish_batch, read_batch, read_smooth_batch
from solvers.spiking.network import LassoNetwork, spike_rates
from solvers.workers.progress import progress_bar
from solvers.workers.spread import batch_slices, spread

READOUTS = ("smooth", "rate", "current")


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
    spikes : CompressedRows
        The entries of `sparse_spike_counts`.
    currents : CompressedRows or None
        The entries of `sparse_average_currents`.
    duration : ndarray, shape (n_signals,)
        Simulated time, of all stages, in synaptic time constants.
    scale : ndarray, shape (n_signals,)
        The value of a code for one unit of spike rate, in the last stage: the network ran on the signal
        divided by this.
    n_clock_steps : ndarray of int, shape (n_signals,), or None
        Steps of the clock, of all stages; None of exact runs.
    problem : LassoProblem
        What was solved.
    """

    readout: str
    polished: np.ndarray
    n_corrections: np.ndarray
    n_stages: np.ndarray
    spikes: CompressedRows
    currents: CompressedRows | None
    duration: np.ndarray
    scale: np.ndarray
    n_clock_steps: np.ndarray | None
    problem: LassoProblem

    STEPS: ClassVar[str] = "spikes"

    @cached_property
    def sparse_spike_counts(self) -> sparse.csr_array:
        """Spikes of each neuron, shape (n_signals, n_neurons).

        Where codes may be negative, those of all positive neurons come before those of all negative ones.
        """
        n_neurons = self.problem.n_atoms if self.problem.positive else 2 * self.problem.n_atoms
        return compressed_rows((self.problem.n_signals, n_neurons), self.spikes)

    @cached_property
    def sparse_average_currents(self) -> sparse.csr_array | None:
        """Average soma currents of the neurons that fired, times `scale`, shape (n_signals, n_atoms).

        Where an average is negative it counts as zero, and the potential at the start counts as current.
        With two neurons for each atom it is the positive one's minus the negative one's.  None if codes were
        read through a smooth window, of stages that differ in scale.
        """
        if self.currents is None:
            return None
        return compressed_rows((self.problem.n_signals, self.problem.n_atoms), self.currents)

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

    def start_currents(self, squared_norms: np.ndarray) -> sparse.csr_array:
        """Return what `solve_active_set` starts from: the average currents of the neurons that fired, or
        ||d_i||^2 a_i.

        Parameters
        ----------
        squared_norms : ndarray, shape (n_atoms,)
            ||d_i||^2.
        """
        if self.currents is None:
            return super().start_currents(squared_norms)
        return self.sparse_average_currents


def _synaptic_operations(problem: LassoProblem, spike_counts: sparse.csr_array) -> np.ndarray:
    """Return how many times a spike reached a target, shape (n_signals,)."""
    if problem.has_own_weights:
        operations = np.empty(problem.n_signals, dtype=np.int64)
        for group in groups_of(problem):
            shared = with_shared_mask(problem.subset(group))
            operations[group] = _synaptic_operations(shared, spike_counts[group])
        return operations
    network = LassoNetwork(gram_of(problem, on_demand=True), positive=problem.positive)
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
    readout: str = "smooth",
    refine: bool = True,
    polish: bool = False,
    time_step: float | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> SpikingCodingResult:
    """Solve a LASSO with a network of spiking neurons, one (positive) or two for each atom.

    The network `lasso_network` runs, exactly and event by event, until the codes read out of it satisfy::

        duality_gap <= tol * 1/2 ||signal||^2

    Signal and penalty are first divided by a `scale` at which the busiest neuron alone would fire once in one
    or two synaptic time constants; codes are multiplied by it.  So neither the codes nor the number of spikes
    depend on the unit of the signals.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    start : array_like or scipy.sparse.csr_array of shape (n_signals, n_atoms), or result, optional
        Where to start: codes, or the result of a solver, for the smooth read-out.  The network then codes
        what these codes, drawn a little towards zero, leave of the signal.  A signal of which they are worse
        than zero starts from zero, as all do by default.
    tol : float, default 1e-3
        See above; the same for every solver.
    max_duration : float, default 10000
        Simulated time, in synaptic time constants, after which the network is stopped.
    readout : {"smooth", "rate", "current"}, default "smooth"
        How codes are read out of the network.

        - "smooth": each spike counts by a bump that rises and falls smoothly over the run,
          a = 1/t sum_k 30 s_k^2 (1 - s_k)^2 with s_k = t_k / t; or the thresholded current that these rates
          cause, max(beta + W^T a, 0) / theta, whichever has the smaller gap.  Without `refine` the gap falls
          like 1 / t^2.
        - "rate": spikes per unit of time since the start, a = n / t.  Its gap falls like 1 / t.
        - "current": the thresholded average current, max(u, 0) / theta, over the second half of the
          time so far (with `polish`, over the last three quarters).  Sparser, and much closer to the optimum
          at the same time.
    refine : bool, default True
        With the smooth read-out, and as soon as the gap has fallen to a seventh: start the network again,
        driven by what the code, drawn a little towards zero, leaves of the signal, with spikes worth as much
        less; its rates are added to that code.  Each such stage gains a factor of ten or more for about as
        many spikes as the first: the gap falls exponentially with the number of spikes.
    polish : bool, default False
        Run the network for a short time only, from potentials at half their thresholds, and solve from there
        with the method of `solve_active_set`: the atoms whose neurons fired are the first support.  The codes
        are optimal to rounding whatever `tol`, unless the atoms are so nearly dependent that double precision
        cannot solve the optimality equations; then the best code met is kept, the read-out among them.
        `polished`, `n_corrections` and `rate_duality_gap` of the result say how much of the work the network
        did.
    time_step : float, optional
        Run the network on a clock of this step that keeps charge (`simulate_clocked`), as a chip would, and
        not from event to event; with the smooth read-out alone.  The gap is certified all the same, and steps
        of 1/4 take about as many spikes.  Where the atoms of a code have a Gram matrix with an eigenvalue of
        2 / (1 - e^-time_step) or more, a step is too long: rates swing (docs/theory.md, section 7).
    n_jobs : int, optional
        Signals are spread over so many joblib workers, threads unless a `joblib.parallel_config` says
        otherwise.  The result does not depend on their number.
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    SpikingCodingResult

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or value, or there is a `start` and another read-out, or `polish`.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If a signal does not reach `tol` by `max_duration`.  Its code is the best one read out by then
        (with "rate" and "current", the last one), with its true gap.  A network is stopped before if it
        fires about 10,000,000 times at once, as it may where norms of atoms differ by many orders of
        magnitude; a code of its last, shorter interval counts only where it is better than the one before.

    Notes
    -----
    For a single signal in a large dictionary the Gram matrix is not computed, unless the problem has it
    already or there is a `time_step`: only the rows of atoms that fire, or that `polish` adds, are.  With a
    convolutional dictionary `polish` computes the entries between atoms that may be active.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475: the network, Theorem 2 (convergence), section 4
    (read-outs "rate" and "current").  The smooth window and refinement: docs/theory.md, section 4.
    """
    checks.instance_of("problem", problem, LassoProblem)
    tol = checks.positive_number("tol", tol)
    max_duration = checks.positive_number("max_duration", max_duration)
    readout = checks.one_of("readout", readout, READOUTS)
    refine = checks.flag("refine", refine)
    polish = checks.flag("polish", polish)
    how = time_of(time_step)
    if time_step is not None and (polish or readout != "smooth"):
        raise ValueError(
            f"time_step must come with readout='smooth' and polish=False; got {readout!r} and {polish}"
        )
    n_jobs = checks.worker_count("n_jobs", n_jobs)
    progress = checks.flag("progress", progress)
    warn_if_ill_posed(problem)
    codes_at_start = start_codes(problem, start)
    if codes_at_start is not None and (polish or readout != "smooth"):
        raise ValueError(
            'start must be None unless codes are read out "smooth" and not polished; got a start with '
            f"readout={readout!r}, polish={polish}: solve_active_set takes any start"
        )

    limit = "the precision of the active-set method" if polish else f"max_duration={max_duration:g}"
    if problem.has_own_weights:
        solve_mask = partial(
            solve_spiking,
            tol=tol,
            max_duration=max_duration,
            readout=readout,
            refine=refine,
            polish=polish,
            time_step=time_step,
        )
        return solve_groups(
            solve_mask, problem, start=codes_at_start, n_jobs=n_jobs, progress=progress, limit=limit
        )
    network = LassoNetwork(gram_of(problem, on_demand=True), positive=problem.positive)
    n_workers = effective_n_jobs(n_jobs) if problem.n_signals > 1 else 1
    parts = batch_slices(problem.n_signals, network.n_neurons, n_workers)
    problems = [problem.subset(part) for part in parts] if len(parts) > 1 else [problem]
    batches: Sequence[Any] = problems
    solve: Callable[..., Outcome]
    if polish:
        solve = polish_batch
    elif readout == "smooth":
        starts = [None if codes_at_start is None else codes_at_start[part] for part in parts]
        batches = list(zip(problems, starts, strict=True))
        solve = partial(read_smooth_batch, refine=refine, how=how)
    else:
        solve = partial(read_batch, readout=readout)
    solve = partial(solve, network=network, tol=tol, max_duration=max_duration)
    with progress_bar(len(batches), unit="batch", description="spiking", shown=progress) as bar:
        outcome = joined(spread(solve, batches, n_jobs, n_workers, bar, common=problem.setup))
    if outcome.is_lost.any() and not polish:
        limit += (
            f" (the networks of {int(outcome.is_lost.sum())} were stopped before, because one spike "
            "caused millions: scale the atoms to one norm, and their penalties with them)"
        )
    return certified_result(
        problem,
        outcome.codes,
        method="active_set_from_spikes" if polish else "spiking",
        tol=tol,
        n_steps=outcome.n_spikes,
        limit=limit,
        optimality=outcome.optimality,
        kind=SpikingCodingResult,
        work=Work(outcome.multiply_adds),
        readout=readout,
        polished=outcome.polished,
        n_corrections=outcome.n_corrections,
        n_stages=outcome.n_stages,
        spikes=outcome.spikes,
        currents=outcome.currents,
        duration=outcome.duration,
        scale=outcome.scale,
        n_clock_steps=outcome.n_clock_steps,
        problem=problem,
    )

"""The spiking network of a LASSO: its construction, the codes of its spikes, and figures of its runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from snn import OperationCounts, SpikingNetwork
from snn._kernels.run_state import new_records
from snn.base import checks
from snn.base.value import cached_property
from snn.run.exact import ExactRun
from snn.run.integers import IntegersOnClock
from snn.run.run import Run
from snn.run.simulate import EXACT_TIME
from snn.run.start import fitted, start_run
from snn.run.stepped import SteppedRun
from snn.run.time import Exact, Time, is_digital
from solvers import plan
from solvers._kernels.certificate import read_and_certify
from solvers._kernels.refinement import (
    BARRED,
    BEST,
    DONE,
    FEW_SPIKES,
    FEW_STEPS,
    GOES_ON,
    LOOK,
    RATE_PER_DRIVE,
    STAGE_ENDED,
    Equations,
    Looking,
    look_at,
    resume,
)
from solvers.certificate.compiled import penalised_atoms
from solvers.gram.atom_products import AtomProducts, SharedProducts, products_of
from solvers.problem.lasso import LassoModel, LassoProblem
from solvers.problem.parts import in_groups, with_shared_mask
from solvers.results.codes import (
    AT_LIMIT,
    GRAM,
    NETWORK,
    RAN_AWAY,
    READ_OUT,
    BestCodes,
    Codes,
    Found,
    as_sparse,
    code_of_kernel,
    one_row,
)
from solvers.results.result import SparseCodingResult

# Factor on the target gap, so that rounding cannot lift the gap above `tol`.
SAFELY = 1.0 - 1e-9


def lasso_network(problem: LassoProblem, signal: int = 0, *, scale: float = 1.0) -> SpikingNetwork:
    """Return the spiking network whose rates, times `scale`, tend to the code of one signal.

    With G the Gram matrix, b the correlations of the signal and gamma the curvatures of the penalty (zero
    unless it has a quadratic term), one neuron for each atom solves the CLASSO::

        W = -(G - diag G)        beta = (b - lambda) / scale        theta = diag G + gamma

    The LASSO has two neurons for each atom, a positive and a negative one, which is the same network for the
    dictionary [D, -D].  The lateral currents of the two neurons differ only in sign (`DenseRows.sign_pairs`).
    Neuron i < n_atoms is the positive neuron of atom i, and neuron n_atoms + i its negative neuron.

    The weights of a convolutional dictionary are the same at every position (`StencilWeights`).  The neurons
    of this network are ordered by position.  At each position, the positive neurons of all kernels come
    first, followed by the negative neurons if codes may be negative.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    signal : int, default 0
        The index of the signal that drives the network.
    scale : float, default 1.0
        The value of a code for one unit of spike rate; a smaller scale causes more spikes.

    References
    ----------
    Tang, Lin and Davies (2017), arXiv:1705.05475, equations 5-7.
    """
    checks.instance_of("problem", problem, LassoProblem)
    signal = checks.integer("signal", signal, 0, problem.n_signals - 1)
    if problem.has_own_weights:
        problem, signal = with_shared_mask(problem.subset([signal])), 0
    scale = checks.positive_number("scale", scale)
    network = LassoNetwork(problem)
    drives = network.drives(problem.subset([signal]))[0] / scale
    return SpikingNetwork(network.weights, drives, network.firing_threshold)


class LassoNetwork:
    """The network of all signals of a problem, without drives, and its `time` (exact, or a clock)."""

    def __init__(
        self,
        problem: LassoProblem,
        *,
        products: AtomProducts | None = None,
        on_demand: bool = False,
        time: Time = EXACT_TIME,
    ) -> None:
        products = products_of(problem, on_demand=on_demand) if products is None else products
        self.products, self._positive = products, problem.positive
        is_positive, n_atoms = problem.penalty.is_positive, problem.n_atoms
        self.weights = products.weights(positive=is_positive)
        self.n_neurons = n_atoms if is_positive else 2 * n_atoms
        # In the network, the positive neurons of a group of atoms come before its negative neurons.  In
        # results, all positive neurons come before all negative neurons.  `in_result_order` has the neuron at
        # each position of a result.
        groups = np.arange(self.n_neurons).reshape(-1, self.n_neurons // n_atoms, products.group_length)
        self.in_result_order = np.swapaxes(groups, 0, 1).ravel()
        # The positive neuron of each atom, and the negative one, -1 if there is none.
        self.neurons = np.full((2, n_atoms), -1)
        self.neurons.ravel()[: self.n_neurons] = self.in_result_order
        self.firing_threshold = self.in_network_order(np.tile(products.diagonal, self.n_neurons // n_atoms))
        # Integer weights are rounded here, only once.
        self.time = fitted(time, self)

    def of_batch(self, problem: LassoProblem) -> LassoNetwork:
        """Return the network for a batch of signals, which do not share rows on demand with other batches."""
        if not isinstance(self.products, SharedProducts):
            return self
        return LassoNetwork(problem, products=self.products.of_batch(problem), time=self.time)

    def drives(self, problem: LassoProblem) -> np.ndarray:
        """Return the drives of neurons at scale 1, b - lambda and -b - lambda, a row for each signal."""
        drives = problem.correlations - problem.l1_weights
        if self.n_neurons > problem.n_atoms:
            largest = np.sqrt(2.0 * problem.energies[:, np.newaxis] * self.products.diagonal)
            barred = np.where(self._positive, BARRED * largest, 0.0)
            drives = np.concatenate([drives, -problem.correlations - problem.l1_weights - barred], axis=1)
        return self.in_network_order(drives)

    def scaled_drives(self, problem: LassoProblem, rate: float) -> tuple[np.ndarray, np.ndarray]:
        """Return drives and scales of codes, so that the busiest neuron without input fires at `rate`."""
        drives = self.drives(problem)
        largest = (drives / self.firing_threshold).max(axis=1)
        # The value of a code for one unit of spike rate.
        scale = np.where(largest > 0.0, largest, 1.0) / rate
        drives /= scale[:, np.newaxis]
        return drives, scale

    def signed(self, values: np.ndarray) -> np.ndarray:
        """Return a = a+ - a-, a value per atom, from values of neurons in the order of the network."""
        positive, negative = values[:, self.neurons[0]], values[:, self.neurons[1]]
        return positive - np.where(self._positive, 0.0, negative)

    def in_network_order(self, values: np.ndarray) -> np.ndarray:
        """Return values in the order of the network from values of all positive, then negative neurons."""
        ordered = np.empty_like(values)
        ordered[..., self.in_result_order] = values
        return ordered


class RefinedCodes:
    """The networks of a batch of signals, and the best codes read out of them so far."""

    # A look at a network reads a code, measures the gap of the code, and may begin the next stage.  See
    # `solvers._kernels.refinement`, and docs/theory.md, section 4.2, for the equations.

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
        self.network, self._inhibition = network, network.products.weights(positive=True)
        in_few_spikes = isinstance(network.time, Exact) or is_digital(network.time)
        self._pace = FEW_SPIKES if in_few_spikes else FEW_STEPS
        # `looks` has the state of each signal after its last look.  `stage_codes` has five codes of each
        # signal, and one of them is the best code so far.
        self.looks = new_records(n_signals, LOOK)
        self.stage_codes = np.zeros((5, n_signals, n_atoms))
        self.best_codes = self.stage_codes[BEST]
        if start is not None:
            self.best_codes[:] = start
            self._inhibition.compute_rows(np.flatnonzero(start.any(axis=0)))
        self._memory = np.empty((4, n_atoms))
        self._soma_bias = np.zeros((n_signals, network.n_neurons))
        if is_digital(network.time):
            # Each stage has its own drives; the run warns here if they do not fit into the integers.
            self._soma_bias[:], _ = network.scaled_drives(problem, RATE_PER_DRIVE)
        self.run = start_run(
            network.time, network, self._soma_bias, window_moments=True, burst_limit=plan.COSTS.burst
        )
        self._set(problem, tol, max_duration, refine)

    def renew(self, problem: LassoProblem, *, tol: float, max_duration: float, refine: bool) -> None:
        """Restart from zero with as many other signals of the same model; exact time only."""
        assert isinstance(self.run, ExactRun)
        # Set all bytes to zero, as in new records: this is faster than setting the fields one by one.
        self.looks.view(np.uint8).fill(0)
        self.best_codes.fill(0.0)
        self._soma_bias.fill(0.0)
        self.run.renew()
        self._set(problem, tol, max_duration, refine)

    def _set(self, problem: LassoProblem, tol: float, max_duration: float, refine: bool) -> None:
        # The arrays always have the same type, so that the kernels are compiled only once.
        correlations, energies = (
            checks.read_only(np.ascontiguousarray(values, dtype=np.float64))
            for values in (problem.correlations, problem.energies)
        )
        self._equations = Equations(
            correlations,
            problem.l1_weights,
            self.network.products.diagonal,
            energies,
            problem.positive,
            problem.penalty.has_zeros,
            self.network.neurons,
        )
        self._max_duration, self._refine = float(max_duration), refine
        self.looks["target"] = SAFELY * tol * energies
        # Until gaps are measured, the energy is an upper bound.
        self.looks["gap"] = energies
        # The indices of the signals that are not done.
        self.active = np.arange(len(energies))

    def advance(self, *, one_look: bool = False) -> None:
        """Run the active networks to their ends or, with `one_look`, to their next read-outs."""
        # The first look measures the gap of the code from which a signal starts.
        self.run.advance_through(partial(self._looking, one_look=one_look), self.active)
        self._end(self.active[self.run.is_lost[self.active]])

    def search(
        self, best: BestCodes, *, max_spikes: float = np.inf, deadline: float = np.inf
    ) -> Iterator[Found]:
        """Yield codes of active signals when their estimated gaps reach the target, or their networks end."""
        # A signal ends at `max_spikes` spikes; all signals end when `time.perf_counter` reaches the deadline.
        signals = self.active = best.active
        one_look = min(max_spikes, deadline) < np.inf
        if one_look:
            self.advance(one_look=True)
        while len(signals):
            while len(self.active):
                if max_spikes < np.inf:
                    self._advance_within(int(max_spikes))
                self.advance(one_look=one_look)
                if time.perf_counter() >= deadline:
                    break
            yield signals, self.best_codes[signals]
            signals = best.missed(signals)
            signals = signals[self.can_improve(signals)]
            signals = signals[self.run.spike_counts[signals].sum(axis=1) < max_spikes]
            if not len(signals) or time.perf_counter() >= deadline:
                break
            # Continue, because rounding may make the certified gap larger than the gap computed from
            # correlations.
            resume(self._looking(), signals)
            status = self.looks["status"][signals]
            self.run.restart(signals[status == STAGE_ENDED])
            # If no neuron is driven, only rounding is left.
            signals = self.active = signals[status != DONE]
        finish(best, self.run, self.network, **self.figures())
        best.work[READ_OUT] += self.looks["n_multiply_adds"]

    def can_improve(self, signals: np.ndarray) -> np.ndarray:
        """Return which of some signals have simulated time left, and a network that can continue."""
        return (self.looks["duration"][signals] < self._max_duration) & ~self.run.is_lost[signals]

    def figures(self) -> dict[str, np.ndarray]:
        """Return the figures of the stages of each signal, for the `info` of codes."""
        figures = {name: self.looks[name].copy() for name in ("n_stages", "duration", "scale")}
        # If no neuron was driven, the scale is zero.  Report 1.0 instead, because this scale has no effect.
        figures["scale"][figures["scale"] == 0.0] = 1.0
        return figures

    def _looking(self, *, refine: bool | None = None, one_look: bool = False) -> Looking:
        """Return the argument of the kernels of `solvers._kernels.refinement`, with the present weights."""
        return Looking(
            self._inhibition.kernel_form,
            self._equations,
            *self._pace,
            self._max_duration,
            self._refine if refine is None else refine,
            one_look,
            self.looks,
            self.stage_codes,
            self._soma_bias,
            self.run.membrane_potential,
            self.run.synaptic_current,
            self.run.window_moments,
            self.run.current_per_rate,
            self._memory,
        )

    def _end(self, signals: np.ndarray) -> None:
        """Read out the networks of some signals now, and end them; remove finished signals from `active`."""
        if len(signals):
            # A network that ends early is at least a step before its next look.
            looks, time = self.looks[signals], self.run.time[signals]
            stops = np.where(time + self.run.time_step <= looks["stop"], time, looks["stop"])
            self.looks["stop"][signals] = stops
            # Without refinement, the read-out does not begin a new stage.
            look_at(self._looking(refine=False), signals)
            looks = self.looks[signals]
            # The time of a stage is counted when the stage ends.
            looks["duration"] += np.where(looks["status"] == GOES_ON, stops, 0.0)
            looks["status"] = DONE
            self.looks[signals] = looks
        self.active = self.active[self.looks["status"][self.active] != DONE]

    def _advance_within(self, max_spikes: int) -> None:
        """Run each network to its next read-out; end networks that reach `max_spikes` before that time."""
        counts = self.run.spike_counts
        for signal in self.active:
            left = max_spikes - int(counts[signal].sum())
            self.run.advance(self.looks["stop"], active=np.array([signal]), max_spikes=left - 1)
        self._end(self.active[counts[self.active].sum(axis=1) >= max_spikes])


class IdleCodes(list[RefinedCodes]):
    """Idle networks of single signals, each lent to one thread at a time; `LassoModel.cached` keeps them."""

    # Networks are reused because making one takes longer than solving a small problem.

    def __init__(self, model: LassoModel | None = None) -> None:
        super().__init__()

    def __reduce__(self) -> tuple[Any, ...]:
        # Other processes make their own networks when they need them.
        return IdleCodes, ()


def code_of_one(problem: LassoProblem, *, tol: float, max_duration: float, refine: bool) -> Codes | None:
    """Return the code of a single signal by a reused network; None if further looks can improve it."""
    idle = problem.cached(IdleCodes)
    options: dict[str, Any] = {"tol": tol, "max_duration": max_duration, "refine": refine}
    refined: RefinedCodes | None = None
    with suppress(IndexError):  # another thread may take the last network
        refined = idle.pop() if idle else None  # the condition avoids an error in the traceback of Ctrl-C
    if refined is None:
        refined = RefinedCodes(problem, LassoNetwork(problem), **options)
    else:
        refined.renew(problem, **options)
    refined.advance()
    figures = np.empty((3, 1))
    atoms, values = np.empty(problem.n_atoms, dtype=np.int32), np.empty(problem.n_atoms)
    signals, codes = problem.dense_signals(), refined.best_codes
    size = read_and_certify(penalised_atoms(problem), signals, codes, atoms, values, figures[:, 0])
    counts = refined.run.spike_counts[0]
    fired = np.flatnonzero(counts)
    found = code_of_kernel(problem, atoms[:size], values[:size], figures, np.array([counts.sum()]))
    found.work = {
        READ_OUT: refined.looks["n_multiply_adds"].copy(),
        GRAM: np.array([refined.network.products.n_multiply_adds]),
    }
    spikes = one_row(len(counts), fired.astype(np.int32), counts[fired])
    found.status = np.where(refined.run.is_lost, RAN_AWAY, AT_LIMIT)
    found.info = figures_of(refined.run, refined.network, spikes, **refined.figures())
    is_final = found.reach(problem, tol) or not refined.can_improve(np.array([0])).any()
    idle.append(refined)
    return found if is_final else None


def finish(best: BestCodes, run: Run, network: LassoNetwork, **figures: Any) -> None:
    """Write the spike counts, status and figures of the networks of a batch to its best codes."""
    best.steps = run.spike_counts.sum(axis=1)
    best.status[run.is_lost] = RAN_AWAY
    best.info |= figures_of(run, network, **figures)
    if not isinstance(run, IntegersOnClock):
        best.work[GRAM] += network.products.n_multiply_adds


def figures_of(
    run: Run, network: LassoNetwork, spike_counts: sparse.csr_array | None = None, **figures: Any
) -> dict[str, Any]:
    """Return the figures of the networks of a batch, as the `info` of codes."""
    if spike_counts is None:
        spike_counts = as_sparse(run.spike_counts[:, network.in_result_order])
    figures["spike_counts"] = spike_counts
    if isinstance(run, SteppedRun):
        figures["n_clock_steps"] = run.total_steps
        if isinstance(run, IntegersOnClock):
            figures["duration"] = run.total_steps * run.time_step
            figures["saturations"] = run.neurons.overflows.sum(axis=1)
            figures["ran_away"] = run.is_lost.copy()
            figures["network"] = run.integers
    return figures


class SpikingCodingResult(SparseCodingResult):
    """The `SparseCodingResult` of a spiking network; `info` has figures of the network's activity."""

    @cached_property
    def spike_counts(self) -> np.ndarray:
        """Spikes of each neuron, shape (n_signals, n_neurons); positive neurons before negative ones."""
        return checks.read_only(self.info["spike_counts"].toarray())

    def _network_operations(self) -> dict[str, OperationCounts]:
        counts, n_clock_steps = self.info["spike_counts"], self.info.get("n_clock_steps")
        run = OperationCounts(
            spikes=self.n_steps,
            synaptic_operations=_synaptic_operations(self.problem, counts, self.info.get("network")),
            neuron_updates=0 if n_clock_steps is None else counts.shape[1] * n_clock_steps,
            neuron_time=counts.shape[1] * self.info["duration"] if n_clock_steps is None else 0.0,
        )
        return {NETWORK: run}


def _synaptic_operations(
    problem: LassoProblem, spike_counts: sparse.csr_array, integers: Any = None
) -> np.ndarray:
    """Return how many targets all spikes reached; a weight that is rounded to zero has no target."""
    if problem.has_own_weights:
        operations = np.empty(problem.n_signals, dtype=np.int64)
        for group, shared in in_groups(problem):
            operations[group] = _synaptic_operations(shared, spike_counts[group])
        return operations
    network = LassoNetwork(problem, on_demand=integers is None)
    fired = np.unique(spike_counts.indices)
    neurons = network.in_result_order[fired]
    degrees = np.zeros(network.n_neurons, dtype=np.int64)
    degrees[fired] = (
        network.weights.out_degrees(neurons) if integers is None else integers.out_degree[neurons]
    )
    return spike_counts @ degrees

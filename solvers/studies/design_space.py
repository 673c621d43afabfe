"""The choice of digital formats, time steps and lanes of a core: costs, and gaps of the codes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from tqdm import tqdm

from snn import Clock
from snn.base import checks
from snn.base.describe import Drawn
from snn.base.value import Value
from snn.digital import DigitalFormat
from solvers.methods.spiking import solve_digital
from solvers.problem.lasso import LassoProblem
from solvers.problem_network import LassoNetwork, SpikingCodingResult

if TYPE_CHECKING:
    from snn.hardware.layout import CoreLayout

DESIGN_COSTS = ("gap", "cycles", "memory_bits", "multipliers", "energy")
DESIGN_RECORD = np.dtype(
    [
        *(("format", "i8"), ("time_step", "f8"), ("lanes", "i8"), ("converged", "?"), ("gap", "f8")),
        *(("cycles", "f8"), ("largest_cycles", "i8"), ("memory_bits", "i8")),
        *(("multipliers", "i8"), ("energy", "f8")),
    ]
)
# Energy per bit in picojoules, from Horowitz (2014) for 45 nm: reading 64 bits from a memory of 8 kilobytes
# takes 10 pJ, a sum of 32 bits 0.1 pJ, and a product of 32 bits 3.1 pJ.  For 8 bits, these numbers give 0.025
# pJ for a sum and 0.19 pJ for a product; Horowitz has 0.03 pJ and 0.2 pJ.
MEMORY_BIT, SUM_BIT, PRODUCT_BIT = 10.0 / 64, 0.1 / 32, 3.1 / 32**2


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DesignSpace(Value, Drawn):
    """The designs of `design_space`.

    Attributes
    ----------
    formats : tuple of DigitalFormat
        The formats; ``table["format"]`` has an index of this tuple.
    table : ndarray of records, shape (n_designs,)
        A record of each design: ``format``, ``time_step``, ``lanes``; ``converged``, whether every signal
        reached `tol`; ``gap``, the largest of ``duality_gap / (1/2 ||signal||^2)``; ``cycles`` and ``energy``
        (picojoules) of the core's runs, means over the signals; ``largest_cycles``, the cycles of the signal
        that takes the most; ``memory_bits`` and ``multipliers``.
    front : ndarray of int
        Indices of the designs that no other design beats, sorted by gap.  A design beats another design if it
        is better in gap, cycles, memory bits, multipliers or energy, and worse in none of them.
    """

    formats: tuple[DigitalFormat, ...]
    table: np.ndarray
    front: np.ndarray

    _shown: ClassVar = ("table", "front")


def design_space(
    problem: LassoProblem,
    formats: Sequence[DigitalFormat],
    steps: Sequence[float],
    lanes: Sequence[int],
    *,
    tol: float = 1e-2,
    max_duration: float = 500.0,
    progress: bool = False,
) -> DesignSpace:
    """Solve a problem with every digital format and time step; compute the costs of cores with these lanes.

    `solve_digital` runs once for each format and step, because lanes change only the costs.  This function
    needs ``sparsespike[hardware]``.

    Parameters
    ----------
    problem : LassoProblem
        The problem, in which all signals must have the same network.
    formats : sequence of DigitalFormat
        The formats.  Messages may have several bits, but must not be graded.
    steps : sequence of float
        Time steps, in synaptic time constants.
    lanes : sequence of int
        Lanes of the core (docs/hardware.md), powers of two.
    tol : float, default 1e-2
        A signal has converged if ``duality_gap <= tol * 1/2 ||signal||^2``.
    max_duration : float, default 500
        Simulated time of a signal, in synaptic time constants.
    progress : bool, default False
        Show a progress bar.

    Notes
    -----
    Cycles are counted for the steps and the spikes of all stages, as if no two neurons fired in the same
    step.  So the number of cycles is slightly too large, and the error grows with the number of lanes.
    Commands before a run are not counted.  Energy is an estimate, not a measurement.  The estimate is the
    number of bits that are read, written, added and multiplied, times the energy per bit in Horowitz (2014)
    for 45 nm and memories of 8 kilobytes.  Clocks and leakage are not included.

    References
    ----------
    Horowitz (2014), "Computing's energy problem (and what we can do about it)", IEEE ISSCC, Figure 1.1.9.
    """
    checks.instance_of("problem", problem, LassoProblem)
    for name, values in (("formats", formats), ("steps", steps), ("lanes", lanes)):
        if np.ndim(values) != 1 or not len(values):  # type: ignore[arg-type]
            raise ValueError(f"{name} must be a sequence with at least one entry; got {values!r}")
    for form in formats:
        if checks.instance_of("an entry of formats", form, DigitalFormat).graded:
            raise ValueError("formats must not be graded: counts of graded messages are not spikes of a core")
    # Imported here because Amaranth is an optional dependency.
    from snn.hardware.layout import CoreLayout

    order, designs = LassoNetwork(problem).in_result_order, []
    runs = [(k, step) for k in range(len(formats)) for step in steps]
    for k, step in tqdm(runs, disable=not checks.flag("progress", progress)):
        # No warnings are needed, because the table says which designs miss `tol`.
        with checks.without_warnings():
            clock = Clock(step, formats[k])
            result = solve_digital(problem, time=clock, tol=tol, max_duration=max_duration)
        spikes = np.empty(result.spike_counts.shape, dtype=np.int64)
        spikes[:, order] = result.spike_counts
        gap = float(result.relative_gap.max())
        for n_lanes in lanes:
            layout = CoreLayout(result.info["network"], lanes=n_lanes)
            cycles, energy = _runs(layout, result, spikes)
            counts = cycles.mean(), cycles.max(), layout.memory_bits, layout.multipliers
            designs.append((k, step, n_lanes, result.converged, gap, *counts, energy))
    table = np.array(designs, dtype=DESIGN_RECORD)
    costs = np.column_stack([table[name] for name in DESIGN_COSTS]).astype(np.float64)
    beaten = [((costs <= cost).all(axis=1) & (costs < cost).any(axis=1)).any() for cost in costs]
    front = np.flatnonzero(~np.array(beaten) & np.isfinite(costs[:, 0]))
    front = front[np.argsort(table["gap"][front], kind="stable")]
    return DesignSpace(formats=tuple(formats), table=checks.read_only(table), front=checks.read_only(front))


def _runs(layout: "CoreLayout", result: SpikingCodingResult, spikes: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the cycles of the runs of each signal, and the mean energy of a signal in picojoules."""
    form, (n_signals, n_neurons), n_steps = layout.network.format, spikes.shape, result.info["n_clock_steps"]
    neurons = [np.repeat(np.arange(n_neurons), counts) for counts in spikes]
    cycles = np.array([layout.cycles(*run) for run in zip(n_steps.tolist(), neurons, strict=True)])
    cycles += (result.info["n_stages"] - 1) * layout.cycles(0, neurons[0][:0])
    pending = layout.pending_bits
    # A step reads and writes the potential, the current and the pending input, and reads the drive.
    moved = 3 * form.potential_bits + 2 * form.current_bits + 2 * pending
    added = 2 * form.potential_bits + form.current_bits
    update = MEMORY_BIT * moved + SUM_BIT * added + PRODUCT_BIT * form.current_bits * (form.decay_bits + 1)
    delivery = MEMORY_BIT * (form.weights.bits + 2 * pending) + SUM_BIT * pending
    if form.message_bits > 1:
        delivery += PRODUCT_BIT * form.weights.bits * form.message_bits
    n_deliveries = int(np.diff(layout.rows) @ spikes.sum(axis=0)) * layout.lanes
    energy = int(n_steps.sum()) * layout.n_groups * layout.lanes * update + n_deliveries * delivery
    return cycles, energy / n_signals

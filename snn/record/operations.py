"""Counts of the operations of a run, with the definitions of NeuroBench, and an estimate of their energy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import assign

Count: TypeAlias = int | np.ndarray

# Relative rounding error of simulated time: a smaller excess over whole steps does not count as a step.
STEP_ROUNDING = 1e-12

LOIHI = {"synaptic_operations": 23.6, "neuron_updates": 81.0}
"""Costs in picojoules of a synaptic operation (minimum) and of the update of an active neuron, at 0.75 V in
14 nm: Davies et al. (2018), IEEE Micro 38(1), Table 2.  The costs exclude the routing of spikes, static
power, input and output."""
ARITHMETIC_45NM = {"multiply_adds": 4.6}
"""Cost in picojoules of a product and a sum of 32-bit floating-point numbers: Horowitz (2014), IEEE ISSCC,
Figure 1.1.9.  The cost excludes memory, which may take a hundred times as much, instructions and static
power."""
PRICED = ("synaptic_operations", "neuron_updates", "multiply_adds")  # names that a table of costs may have


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OperationCounts(Described):
    """Numbers of operations of a network or of a program, for one signal or for several signals.

    Counts can be added: ``first + second``, or ``sum(many)``.  The counts are operations of the network, not
    instructions of this simulator.  Each count is an integer, or an array with one entry for each signal.

    Attributes
    ----------
    spikes : int or ndarray
        Spikes of all neurons.
    synaptic_operations : int or ndarray
        Deliveries of a spike to a target through a non-zero weight; NeuroBench calls them effective ACs.
    neuron_updates : int or ndarray
        Number of neurons times number of clock steps.  An exact run has no steps, and therefore no updates.
    multiply_adds : int or ndarray
        Products added to a sum, except products with a known zero; NeuroBench calls them effective MACs.
    neuron_time : float or ndarray
        Number of neurons times simulated time, for exact runs.

    References
    ----------
    Yik et al. (2025), Nature Communications 16: NeuroBench.
    """

    spikes: Count = 0
    synaptic_operations: Count = 0
    neuron_updates: Count = 0
    multiply_adds: Count = 0
    neuron_time: float | np.ndarray = 0.0

    _shown: ClassVar = ("spikes", "synaptic_operations", "neuron_updates", "multiply_adds")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            array, is_time = np.asarray(value), name == "neuron_time"
            if array.dtype.kind not in ("fiu" if is_time else "iu"):
                kind = "real numbers" if is_time else "integers"
                raise TypeError(f"{name} must be made of {kind}; got {value!r}")
            if not (array >= 0).all():
                raise ValueError(f"{name} must not be negative; got {array.min()}")
            array = array.astype(np.float64 if is_time else np.int64)
            assign(self, **{name: checks.read_only(array) if array.ndim else array.item()})

    def __add__(self, other: OperationCounts) -> OperationCounts:
        if not isinstance(other, OperationCounts):
            return NotImplemented
        return OperationCounts(**{name: count + getattr(other, name) for name, count in vars(self).items()})

    def __radd__(self, other: int) -> OperationCounts:
        # `sum` starts from 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def total(self) -> OperationCounts:
        """Return the sum of the counts over all signals."""
        return OperationCounts(**{name: np.sum(count).item() for name, count in vars(self).items()})

    def on_clock(self, time_step: float) -> OperationCounts:
        """Return the counts that a clock would have for the simulated time and spikes of exact runs.

        A clock updates every neuron at each step.  The number of updates is rounded up.

        Parameters
        ----------
        time_step : float
            Length of a step, in synaptic time constants.  Section 7 of docs/theory.md says which steps give
            codes that are as good as in exact time.
        """
        time_step = checks.positive_number("time_step", time_step)
        if np.any(np.logical_and(self.neuron_time, self.neuron_updates)):
            raise ValueError(
                f"neuron_updates must be zero if neuron_time is not, as in an exact run; got "
                f"{np.max(self.neuron_updates)}: call on_clock on exact runs before adding runs on a clock"
            )
        updates = np.ceil(np.asarray(self.neuron_time) / time_step * (1.0 - STEP_ROUNDING)).astype(np.int64)
        return replace(self, neuron_updates=self.neuron_updates + updates, neuron_time=0.0)


def energy_estimate(counts: OperationCounts, costs: Mapping[str, float] = LOIHI) -> np.ndarray | float:
    """Return an estimate of the energy of operations, in picojoules: the sum of each count times its cost.

    An estimate excludes everything that the table of costs excludes.  Estimates can compare algorithms, but
    cannot predict the energy of a device that was not measured.

    Parameters
    ----------
    counts : OperationCounts
        The operations.  For an exact run, pass ``counts.on_clock(time_step)`` if neuron updates have a cost.
    costs : mapping of str to float, default LOIHI
        Picojoules of "synaptic_operations", "neuron_updates" and "multiply_adds", for all nonzero counts.
    """
    hint = ": pass run.operations, or one part of a ledger"
    checks.instance_of("counts", counts, OperationCounts, hint=hint)
    checks.instance_of("costs", costs, Mapping)
    for name, cost in costs.items():
        checks.non_negative_number(f"costs[{checks.one_of('a name in costs', name, PRICED)!r}]", cost)
    if "neuron_updates" in costs and np.any(counts.neuron_time):
        raise ValueError(
            "counts must have steps of a clock, since costs has neuron_updates; got counts of an exact run: "
            "pass counts.on_clock(time_step)"
        )
    for name in PRICED:
        if name not in costs and np.any(getattr(counts, name)):
            raise ValueError(f"costs must have {name}, which were counted; got {', '.join(costs)}")
    return sum((cost * getattr(counts, name) for name, cost in costs.items()), start=0.0)

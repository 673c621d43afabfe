"""Energy, estimated: counts of operations times what a table says that each takes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from snn.base import checks
from snn.record.operations import OperationCounts, require_counts

LOIHI = {"synaptic_operations": 23.6, "neuron_updates": 81.0}
"""Picojoules, Davies et al. (2018), IEEE Micro 38(1), Table 2: a synaptic operation at least, and the update
of an active neuron, at 0.75 V in 14 nm.  Left out: routing of spikes, static power, input and output."""
ARITHMETIC_45NM = {"multiply_adds": 4.6}
"""Picojoules, Horowitz (2014), IEEE ISSCC, Figure 1.1.9: a product and a sum of 32-bit floating-point
numbers.  Left out: memory, which may take a hundred times as much, instructions, static power."""
PRICED = ("synaptic_operations", "neuron_updates", "multiply_adds")


def energy_estimate(counts: OperationCounts, costs: Mapping[str, float] = LOIHI) -> np.ndarray | float:
    """Return an estimate of the energy that operations take, in picojoules: each count times its cost.

    An estimate leaves out what the table leaves out.  It compares algorithms, and says nothing of a device
    that was not measured.

    Parameters
    ----------
    counts : OperationCounts
        What is done; of an exact run ``counts.on_clock(time_step)``, if updates of neurons have a cost.
    costs : mapping of str to float, default LOIHI
        Picojoules of "synaptic_operations", "neuron_updates" and "multiply_adds", as far as they are counted.
    """
    require_counts(counts)
    checks.instance_of("costs", costs, Mapping)
    for name, cost in costs.items():
        checks.non_negative_number(f"costs[{checks.one_of('a name in costs', name, PRICED)!r}]", cost)
    if "neuron_updates" in costs and np.any(counts.neuron_time):
        raise ValueError(
            "counts must have steps of a clock, since costs has one for updates of neurons; got those of an "
            "exact run: pass counts.on_clock(time_step)"
        )
    for name in PRICED:
        if name not in costs and np.any(getattr(counts, name)):
            raise ValueError(f"costs must have {name}, which were counted; got {', '.join(costs)}")
    return sum((cost * getattr(counts, name) for name, cost in costs.items()), start=0.0)

"""Energy, estimated: counts of operations times what a table says that each takes.

An estimate leaves out what the table leaves out.  It compares algorithms, and says nothing of a device that
was not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from snn.base import checks
from snn.base.drawn import Drawn
from snn.record.operations import OperationCounts, require_counts

PRICED = ("synaptic_operation", "neuron_update", "multiply_add")
UNITS = ((1e12, "J"), (1e9, "mJ"), (1e6, "uJ"), (1e3, "nJ"), (1.0, "pJ"))
"""Picojoules in a unit, and its name."""


@dataclass(frozen=True, kw_only=True)
class EnergyCosts:
    """What operations take on a machine, in picojoules; None for what it has no figure for.

    Parameters
    ----------
    name : str
        Name of the table.
    synaptic_operation, neuron_update, multiply_add : float, optional
        Energy of each, in picojoules.
    source : str, default ""
        Where the figures are from, and what they leave out.

    Raises
    ------
    TypeError, ValueError
        If a cost is not a number, or is negative.
    """

    name: str
    synaptic_operation: float | None = None
    neuron_update: float | None = None
    multiply_add: float | None = None
    source: str = ""

    def __post_init__(self) -> None:
        checks.instance_of("name", self.name, str)
        checks.instance_of("source", self.source, str)
        for name in PRICED:
            cost = getattr(self, name)
            if cost is not None:
                object.__setattr__(self, name, checks.non_negative_number(name, cost))


LOIHI = EnergyCosts(
    name="Loihi",
    synaptic_operation=23.6,
    neuron_update=81.0,
    source=(
        "Davies et al. (2018), IEEE Micro 38(1), Table 2: a synaptic operation at least, and the update of "
        "an active neuron, at 0.75 V in 14 nm. Left out: routing of spikes, static power, input and output."
    ),
)
"""The published figures of Loihi, as an example of a table."""

ARITHMETIC_45NM = EnergyCosts(
    name="float32 arithmetic, 45 nm",
    multiply_add=4.6,
    source=(
        "Horowitz (2014), IEEE ISSCC, Figure 1.1.9: 3.7 pJ for a product and 0.9 pJ for a sum of 32-bit "
        "floating-point numbers. Left out: memory (10 pJ from 8 kB of cache, 1.3 to 2.6 nJ from DRAM, for "
        "64 bits), instructions (some 70 pJ each), static power."
    ),
)
"""Arithmetic alone, on a processor: a lower bound of what multiply-adds take there."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class EnergyEstimate(Drawn):
    """An estimate of energy, and the table that it is based on.

    Attributes
    ----------
    picojoules : float or ndarray
        The estimate, of each signal where the counts are of several.
    costs : EnergyCosts
        The table.
    parts : mapping of str to (float or ndarray)
        What each kind of operation takes of it, in picojoules, by the names of the table.
    """

    picojoules: float | np.ndarray
    costs: EnergyCosts
    parts: Mapping[str, float | np.ndarray]

    @property
    def unit(self) -> tuple[float, str]:
        """The unit that fits the estimate of all signals together: picojoules in it, and its name."""
        picojoules = float(np.sum(self.picojoules))
        return next((each for each in UNITS if picojoules >= each[0]), UNITS[-1])

    def __str__(self) -> str:
        picojoules, unit = self.unit
        return f"estimate: {float(np.sum(self.picojoules)) / picojoules:.3g} {unit} ({self.costs.name})"

    def _facts(self) -> dict[str, str]:
        picojoules, unit = self.unit
        amounts = {"estimate": self.picojoules, **{f"{name}s": part for name, part in self.parts.items()}}
        facts = {
            name.replace("_", " "): f"{float(np.sum(amount)) / picojoules:.3g} {unit}"
            for name, amount in amounts.items()
        }
        return {"estimate": facts.pop("estimate"), "costs": self.costs.name, **facts}


def energy_estimate(counts: OperationCounts, *, costs: EnergyCosts = LOIHI) -> EnergyEstimate:
    """Return an estimate of the energy that operations take: each count times its cost.

    Parameters
    ----------
    counts : OperationCounts
        What is done.
    costs : EnergyCosts, default LOIHI
        What each operation takes.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If the table has no cost for an operation that was counted, or the counts are of an exact run, which
        has no steps at which a chip updates its neurons, and the table has a cost for these.
    """
    require_counts(counts)
    checks.instance_of("costs", costs, EnergyCosts)
    if costs.neuron_update is not None and np.any(counts.neuron_time):
        raise ValueError(
            f"counts must have steps of a clock, since {costs.name} has a cost for updates of neurons; got "
            "those of an exact run: pass counts.on_clock(time_step)"
        )
    parts = {}
    for name in PRICED:
        count, cost = getattr(counts, f"{name}s"), getattr(costs, name)
        if cost is not None:
            parts[name] = cost * count
        elif np.any(count):
            raise ValueError(
                f"costs must have a cost for {name}s, of which there are {np.sum(count):,}; {costs.name} has "
                "none: pass another table, or those of the counts that it is for"
            )
    return EnergyEstimate(picojoules=sum(parts.values(), start=0.0), costs=costs, parts=parts)

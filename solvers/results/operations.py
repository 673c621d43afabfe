"""The cost of a solver's answer in operations, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from snn import OperationCounts
from snn.base import checks
from snn.base.describe import Drawn, counted
from solvers.problem.lasso import LassoProblem

DRIVE, GRAM, NETWORK, READ_OUT, METHOD, POLISH, START, CERTIFICATE = PARTS = (
    "drive",
    "gram",
    "network",
    "read-out",
    "method",
    "polish",
    "start",
    "certificate",
)
"""The purposes of operations; docs/operations.md says what is counted in each part."""

EXACT, AT_MOST = "exact", "at most"
SIGNS = {EXACT: "", AT_MOST: "<= "}


class OperationLedger(Drawn, dict[str, OperationCounts]):
    """The operations of a solver by their purpose: counts by the names of parts.

    Counts are arrays of one entry a signal.  The Gram matrix, which many signals share, is not counted, but
    where it is computed for one signal alone.

    Parameters
    ----------
    parts : mapping of str to OperationCounts
        Of some of these names: "drive" (correlations of the signals with the atoms), "gram" (entries of the
        Gram matrix computed for one signal alone), "network" (the spiking network), "read-out" (codes read
        from spikes, their gaps, and the drives of later stages), "method" (any other solver), "polish" (the
        active-set method after spikes), "start" (the start of a stream), "certificate".
    bound : {"exact", "at most"}, default "exact"
        Whether counts of the method are exact, or bounds where a library hides them.
    """

    def __init__(self, parts: Mapping[str, OperationCounts], *, bound: str = EXACT) -> None:
        super().__init__({name: parts[name] for name in PARTS if name in parts})
        self.bound = bound

    def _facts(self) -> dict[str, str]:
        return {"counts": self.bound, **{name: _described(counts.total()) for name, counts in self.items()}}

    def counts(self, *names: str) -> OperationCounts:
        """Return the counts of some parts together, or of all; parts that are missing count as zero."""
        for name in names:
            checks.one_of("name", name, PARTS)
        return sum((self[name] for name in names or self if name in self), OperationCounts())

    def without(self, *names: str) -> OperationCounts:
        """Return the counts of all parts but some: ``without("certificate")`` compares methods."""
        for name in names:
            checks.one_of("name", name, PARTS)
        left = [name for name in PARTS if name not in names]
        return self.counts(*left) if left else OperationCounts()


def added(ledgers: Sequence[OperationLedger], *, once: str) -> OperationLedger:
    """Return the sum of the ledgers of one solver, part by part; the part `once` is the same in all."""
    names = {name for ledger in ledgers for name in ledger if name != once}
    parts = {name: sum((ledger.counts(name) for ledger in ledgers), OperationCounts()) for name in names}
    return OperationLedger(parts | {once: ledgers[0][once]}, bound=ledgers[0].bound)


def drive_work(problem: LassoProblem) -> int:
    """Return the multiply-adds of the correlations of one signal with all atoms."""
    return problem.n_atoms * problem.atoms.features_of_atom


def certificate_work(problem: LassoProblem, support_size: Any) -> Any:
    """Return the multiply-adds of a certificate for each size of a support, an int or an array.

    The residual is computed from parts that are exact and a rest, three products for each; then come its
    correlations with all atoms, and two inner products.
    """
    if type(support_size) is not int:
        # Pointers of sparse codes have 32 bits, and products of their differences would, too.
        support_size = np.asarray(support_size, dtype=np.int64)
    n_covered = problem.atoms.features_of_atom
    return (3 * support_size + problem.n_atoms) * n_covered + 2 * problem.n_features


def _described(counts: OperationCounts) -> str:
    totals: dict[str, Any] = {
        "spike": counts.spikes,
        "synaptic operation": counts.synaptic_operations,
        "neuron update": counts.neuron_updates,
        "multiply-add": counts.multiply_adds,
    }
    return ", ".join(counted(total, name) for name, total in totals.items() if total) or "nothing"

"""One signal after the other, with memory that is used again: small problems are mostly Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from snn.base import checks
from snn.run.exact import Exact, ExactRun
from snn.run.run import NO_SPIKES
from solvers.problem.lasso import LassoModel, LassoProblem
from solvers.spiking.network import LassoNetwork
from solvers.spiking.stages import RefinedCodes

EXACT_TIME = Exact()


class CodesAgain(RefinedCodes[ExactRun]):
    """As `RefinedCodes` in exact time; other signals of the same model may follow."""

    def renew(self, problem: LassoProblem, *, tol: float, max_duration: float, refine: bool) -> None:
        """Begin again, from zero, with other signals of the same model; as many."""
        # Machine code is called with these as with those before.
        correlations, energies = (
            checks.read_only(np.ascontiguousarray(values, dtype=np.float64))
            for values in (problem.correlations, problem.energies)
        )
        self._problem = self._problem._replace(correlations=correlations, energies=energies)
        self._max_duration, self._refine = float(max_duration), refine
        # All zero, as new ones: to write the fields of a record one by one takes longer.
        self._looks.view(np.uint8).fill(0)
        self._set_targets(problem.energies, tol)
        self.codes.fill(0.0)
        self._soma_bias.fill(0.0)
        self.run.renew()
        self.last_spikes = NO_SPIKES
        self.look_times.fill(0.0)
        self.active = np.arange(problem.n_signals)
        self._is_new = True


class CodesAlone:
    """The networks of single signals of a model, each lent to one thread at a time: `LassoModel.once`."""

    def __init__(self, model: LassoModel) -> None:
        self._idle: list[tuple[LassoNetwork, CodesAgain]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        # Elsewhere networks are made anew, where they are needed.
        return CodesAlone, (None,)

    def solve(
        self, problem: LassoProblem, *, tol: float, max_duration: float, refine: bool
    ) -> tuple[LassoNetwork, CodesAgain]:
        """Return the network of a problem of one signal, and its codes; give them back when they are read."""
        options: dict[str, Any] = {"tol": tol, "max_duration": max_duration, "refine": refine}
        try:
            network, refined = self._idle.pop()
        except IndexError:
            network = LassoNetwork.of(problem)
            refined = CodesAgain(problem, network, how=EXACT_TIME, **options)
        else:
            refined.renew(problem, **options)
        refined.advance_to_ends()
        return network, refined

    def give_back(self, network: LassoNetwork, refined: CodesAgain) -> None:
        """Take back what `solve` has returned."""
        self._idle.append((network, refined))

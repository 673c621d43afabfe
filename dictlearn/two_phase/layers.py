"""The neurons of a two-phase network, their connections, and which numbers may be negative.

A neuron's rate is not negative.  A number of either sign has a pair of neurons: the second receives what the
first does with the opposite sign, sends with the opposite sign, and shares its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from snn.base import checks
from snn.base.value import cached_property
from snn.weights import Connection

# F, H and B, in the order in which `Synapses` holds them.
FEEDFORWARD, LATERAL, FEEDBACK = range(3)


class Signs(NamedTuple):
    """Which numbers of a two-phase network must not be negative: atoms (F, B and H), codes, signals."""

    positive_atoms: bool = True
    positive_code: bool = True
    positive_signals: bool = True

    @classmethod
    def checked(cls, positive_atoms: bool, positive_code: bool, positive_signals: bool) -> Signs:
        """Return checked flags; signals may be negative wherever atoms or codes may be."""
        atoms = checks.flag("positive_atoms", positive_atoms)
        code = checks.flag("positive_code", positive_code)
        return cls(atoms, code, checks.flag("positive_signals", positive_signals) and atoms and code)

    @property
    def signed_inputs(self) -> bool:
        """Whether signals may be negative."""
        return not self.positive_signals

    @property
    def least_weight(self) -> float:
        """The smallest weight that learning may make."""
        return 0.0 if self.positive_atoms else -np.inf

    def __str__(self) -> str:
        """Return all flags with their names."""
        return ", ".join(f"{name}={value}" for name, value in self._asdict().items())


class Population(NamedTuple):
    """Consecutive neurons, one for each input or atom."""

    first: int
    size: int
    # Multiplies all that they receive and send: -1 for the second neurons of pairs.
    sign: float

    @property
    def neurons(self) -> slice:
        """The indices of the neurons."""
        return slice(self.first, self.first + self.size)


@dataclass(frozen=True)
class Layers:
    """The populations of a two-phase network: inputs first, then coding neurons, then predictions."""

    n_inputs: int
    n_atoms: int
    signs: Signs
    # Whether each input has further neurons with feedback of strength 1, for samples where it is unknown.
    predicted: bool = False
    # Whether inputs pass their currents on and do not fire: then only coding neurons are simulated.
    graded: bool = False

    @cached_property
    def inputs(self) -> list[Population]:
        """One population of input neurons, or two; none that are graded."""
        if self.graded:
            return []
        return _populations(0, self.n_inputs, pairs=self.signs.signed_inputs)

    @cached_property
    def coding(self) -> list[Population]:
        """One population of coding neurons, or two."""
        return _populations(_end(self.inputs), self.n_atoms, pairs=not self.signs.positive_code)

    @cached_property
    def predictions(self) -> list[Population]:
        """Like `inputs`, for the third layer."""
        if not self.predicted:
            return []
        return _populations(_end(self.coding), self.n_inputs, pairs=self.signs.signed_inputs)

    @property
    def n_input_neurons(self) -> int:
        """Neurons of the first layer."""
        return _end(self.inputs)

    @property
    def n_neurons(self) -> int:
        """Neurons of all layers."""
        return _end(self.predictions or self.coding)

    def connections(self, gamma: float, offsets: Sequence[int]) -> list[Connection]:
        """Return the connections at feedback gamma, of F, H and B in one array, each from an offset on."""
        found = []
        for coding in self.coding:
            for source in (*self.inputs, *self.predictions):
                found.append((FEEDFORWARD, source, coding, source.sign * coding.sign))
            found += [(LATERAL, source, coding, -source.sign * coding.sign) for source in self.coding]
            for strength, targets in ((gamma, self.inputs), (1.0, self.predictions)):
                if strength != 0.0:
                    found += [(FEEDBACK, coding, t, strength * coding.sign * t.sign) for t in targets]
        return [
            Connection(source.first, target.first, (source.size, target.size), offsets[matrix], factor)
            for matrix, source, target, factor in found
        ]

    def drives(self, signals: np.ndarray, coding: np.ndarray) -> np.ndarray:
        """Return the drive of each neuron, one row for each signal; 0 for predictions."""
        drives = np.zeros((len(signals), self.n_neurons))
        for population in self.inputs:
            drives[:, population.neurons] = signals if population.sign > 0.0 else -signals
        for population in self.coding:
            drives[:, population.neurons] = coding if population.sign > 0.0 else -np.abs(coding)
        return drives

    def thresholds(self, lateral: np.ndarray) -> np.ndarray:
        """Return the thresholds of all neurons: of inputs 1, of coding neurons the diagonal of H."""
        thresholds = np.ones(self.n_neurons)
        for population in self.coding:
            thresholds[population.neurons] = lateral.diagonal()
        return thresholds


def of_first(populations: Sequence[Population], values: np.ndarray) -> np.ndarray:
    """Return the values of the first population; a second one has the opposite."""
    return values[:, populations[0].neurons]


def difference(populations: Sequence[Population], values: np.ndarray) -> np.ndarray:
    """Return the values of the first population, less the values of the second if there is one."""
    first, *second = (values[:, population.neurons] for population in populations)
    return first - second[0] if second else first


def total(populations: Sequence[Population], values: np.ndarray) -> np.ndarray:
    """Return the values of the first population, plus the values of the second if there is one."""
    first, *second = (values[..., population.neurons] for population in populations)
    return first + second[0] if second else first


def _populations(first: int, size: int, *, pairs: bool) -> list[Population]:
    one, other = Population(first, size, 1.0), Population(first + size, size, -1.0)
    return [one, other] if pairs else [one]


def _end(populations: Sequence[Population]) -> int:
    return populations[-1].neurons.stop if populations else 0

"""The neurons of a two-phase network, their connections, and which numbers may be negative.

A neuron's rate is not negative, so a pair of neurons represents a number of either sign.  Both neurons have
the same weights, but everything that the second neuron receives and sends has the opposite sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from snn.base import checks
from snn.base.value import cached_property
from snn.weights import Connection

# Indices of the matrices F, H and B in the order in which `Synapses` stores them.
FEEDFORWARD, LATERAL, FEEDBACK = range(3)


class Signs(NamedTuple):
    """Flags that say whether atoms (F, B and H), codes and signals must not be negative."""

    positive_atoms: bool = True
    positive_code: bool = True
    positive_signals: bool = True

    @classmethod
    def checked(cls, positive_atoms: bool, positive_code: bool, positive_signals: bool) -> Signs:
        """Return the checked flags; if atoms or codes may be negative, signals may be negative too."""
        atoms = checks.flag("positive_atoms", positive_atoms)
        code = checks.flag("positive_code", positive_code)
        return cls(atoms, code, checks.flag("positive_signals", positive_signals) and atoms and code)

    @property
    def least_weight(self) -> float:
        """The lower bound of all weights during learning."""
        return 0.0 if self.positive_atoms else -np.inf

    def __str__(self) -> str:
        """Return the names and values of the flags as text."""
        return ", ".join(f"{name}={value}" for name, value in self._asdict().items())


class Population(NamedTuple):
    """Consecutive neurons, one for each input or atom."""

    first: int
    size: int
    # Factor of everything that the neurons receive and send: 1, or -1 for the second neurons of pairs.
    sign: float

    @property
    def neurons(self) -> slice:
        """The indices of the neurons."""
        return slice(self.first, self.first + self.size)


@dataclass(frozen=True)
class Layers:
    """The populations of a two-phase network: inputs, coding neurons, and neurons that predict inputs."""

    n_inputs: int
    n_atoms: int
    signs: Signs
    # If True, each input also has neurons that predict the input by feedback of strength 1, for samples that
    # lack the input.
    predicted: bool = False
    # If True, inputs pass their currents on and do not fire, so that only coding neurons are simulated.
    graded: bool = False

    @cached_property
    def inputs(self) -> list[Population]:
        """One or two populations of input neurons; none if inputs are graded."""
        if self.graded:
            return []
        return _populations(0, self.n_inputs, pairs=not self.signs.positive_signals)

    @cached_property
    def coding(self) -> list[Population]:
        """One or two populations of coding neurons."""
        return _populations(_end(self.inputs), self.n_atoms, pairs=not self.signs.positive_code)

    @cached_property
    def predictions(self) -> list[Population]:
        """The populations of the third layer, which predicts unknown inputs: one, two (for pairs) or none."""
        if not self.predicted:
            return []
        return _populations(_end(self.coding), self.n_inputs, pairs=not self.signs.positive_signals)

    @property
    def n_neurons(self) -> int:
        """Number of neurons of all layers."""
        return _end(self.predictions or self.coding)

    def connections(self, gamma: float, offsets: Sequence[int]) -> list[Connection]:
        """Return the connections at feedback gamma; F, H and B begin at `offsets` in the array of weights."""
        links = []
        for coding in self.coding:
            for source in (*self.inputs, *self.predictions):
                links.append((FEEDFORWARD, source, coding, source.sign * coding.sign))
            links += [(LATERAL, source, coding, -source.sign * coding.sign) for source in self.coding]
            for strength, targets in ((gamma, self.inputs), (1.0, self.predictions)):
                if strength != 0.0:
                    links += [(FEEDBACK, coding, t, strength * coding.sign * t.sign) for t in targets]
        return [
            Connection(source.first, target.first, (source.size, target.size), offsets[matrix], factor)
            for matrix, source, target, factor in links
        ]

    def drives(self, signals: np.ndarray, coding: np.ndarray) -> np.ndarray:
        """Return drives of all neurons, a row for each signal; neurons that predict inputs have no drive."""
        drives = np.zeros((len(signals), self.n_neurons))
        for population in self.inputs:
            drives[:, population.neurons] = signals if population.sign > 0.0 else -signals
        for population in self.coding:
            drives[:, population.neurons] = coding if population.sign > 0.0 else -np.abs(coding)
        return drives

    def thresholds(self, lateral: np.ndarray) -> np.ndarray:
        """Return the thresholds of all neurons: the diagonal of H for coding neurons, 1 for all others."""
        thresholds = np.ones(self.n_neurons)
        for population in self.coding:
            thresholds[population.neurons] = lateral.diagonal()
        return thresholds


def of_first(populations: Sequence[Population], values: np.ndarray) -> np.ndarray:
    """Return the values of the first population; a second population has the opposite values."""
    return values[:, populations[0].neurons]


def difference(populations: Sequence[Population], values: np.ndarray) -> np.ndarray:
    """Return the values of the first population, minus the values of the second if there is one."""
    first, *second = (values[:, population.neurons] for population in populations)
    return first - second[0] if second else first


def total(populations: Sequence[Population], values: np.ndarray) -> np.ndarray:
    """Return the values of the first population, plus the values of the second if there is one."""
    first, *second = (values[..., population.neurons] for population in populations)
    return first + second[0] if second else first


def _populations(first: int, size: int, *, pairs: bool) -> list[Population]:
    populations = [Population(first, size, 1.0), Population(first + size, size, -1.0)]
    return populations if pairs else populations[:1]


def _end(populations: Sequence[Population]) -> int:
    return populations[-1].neurons.stop if populations else 0

"""The weights of the two-phase network as it runs and learns: in one array, changed in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from dictlearn.two_phase.layers import Layers, Signs
from snn import Block
from snn.weights import SegmentedWeights
from snn.weights.blocks import segments_of

# Of coding neurons that learn, in units of the target, 1: a threshold at zero would mean endless spikes.
LEAST_THRESHOLD = 0.05


def blocks(
    layers: Layers, feedforward: np.ndarray, feedback: np.ndarray, lateral: np.ndarray, *, gamma: float
) -> tuple[Block, ...]:
    """Return F, H and, unless gamma is 0, gamma B as blocks of a network."""
    rows = [np.ascontiguousarray(matrix.T) for matrix in (feedforward, lateral, feedback)]
    return tuple(
        Block(first_source=source.first, first_target=target.first, values=rows[matrix], factor=factor)
        for matrix, source, target, factor in layers.connections(gamma)
    )


class Synapses:
    """F, B and H, one row for each source as spikes need them, in one array that runs read and learning changes.

    Neurons of a pair share it.
    """  # noqa: E501

    def __init__(
        self, feedforward: np.ndarray, feedback: np.ndarray, lateral: np.ndarray, signs: Signs
    ) -> None:
        n_atoms, n_inputs = feedforward.shape
        self.n_inputs, self.n_atoms, self.signs = n_inputs, n_atoms, signs
        self._values = np.concatenate([matrix.T.ravel() for matrix in (feedforward, lateral, feedback)])
        self._offsets = (0, n_inputs * n_atoms, (n_inputs + n_atoms) * n_atoms)
        _, second, third = self._offsets
        self.feedforward_rows = self._values[:second].reshape(n_inputs, n_atoms)
        self.lateral_rows = self._values[second:third].reshape(n_atoms, n_atoms)
        self.feedback_rows = self._values[third:].reshape(n_atoms, n_inputs)
        self._weights: dict[tuple[float, bool], SegmentedWeights] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # The rows are views of one array, which a copy or a pickle would tear apart.
        return Synapses, (self.feedforward, self.feedback, self.lateral, self.signs)

    @property
    def feedforward(self) -> np.ndarray:
        """F, shape (n_atoms, n_inputs), a view."""
        return self.feedforward_rows.T

    @property
    def feedback(self) -> np.ndarray:
        """B, shape (n_inputs, n_atoms), a view."""
        return self.feedback_rows.T

    @property
    def lateral(self) -> np.ndarray:
        """H, shape (n_atoms, n_atoms), a view."""
        return self.lateral_rows.T

    def replace(self, atom: int, pattern: np.ndarray) -> None:
        """Make an atom another one, consistently: `pattern` has its weights in both directions."""
        self.feedforward_rows[:, atom] = pattern
        self.feedback_rows[atom] = pattern
        self.lateral_rows[:, atom] = self.feedback_rows @ self.feedforward_rows[:, atom]
        self.lateral_rows[atom] = self.feedback_rows[atom] @ self.feedforward_rows

    def layers(self, *, predicted: bool = False) -> Layers:
        """Return the populations of the network; those that carry predictions if they are asked for."""
        return Layers(self.n_inputs, self.n_atoms, self.signs, predicted)

    def weights(self, gamma: float, *, predicted: bool = False) -> SegmentedWeights:
        """Return the weights with feedback of strength gamma; they follow what learning changes.

        If `predicted`, as many neurons as those of the inputs follow those of the network, with the same
        weights and feedback of strength 1 whatever gamma is.
        """
        key = gamma, predicted
        if key not in self._weights:
            layers = self.layers(predicted=predicted)
            # Connections share weights: each is there once.
            connections = layers.connections_in(gamma, self._offsets)
            self._weights[key] = segments_of(layers.n_neurons, connections, self._values)
        return self._weights[key]

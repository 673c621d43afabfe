"""The weights of the two-phase network as it runs and learns: in one array, changed in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from snn import Block, BlockWeights
from snn.weights import SegmentedWeights

# Of coding neurons that learn, in units of the target, 1: a threshold at zero would mean endless spikes.
LEAST_THRESHOLD = 0.05


def blocks(
    feedforward: np.ndarray, feedback: np.ndarray, lateral: np.ndarray, *, gamma: float = 1.0
) -> tuple[Block, ...]:
    """Return F, H and, unless gamma is 0, gamma B as blocks of a network with its inputs first."""
    n_inputs = feedforward.shape[1]
    forward = (
        Block(first_source=0, first_target=n_inputs, values=feedforward.T),
        Block(first_source=n_inputs, first_target=n_inputs, values=lateral.T, factor=-1.0),
    )
    if gamma == 0.0:
        return forward
    return (*forward, Block(first_source=n_inputs, first_target=0, values=feedback.T, factor=gamma))


def firing_thresholds(lateral: np.ndarray, n_inputs: int) -> np.ndarray:
    """Return the thresholds of all neurons, inputs first: 1, and the diagonal of H."""
    return np.concatenate([np.ones(n_inputs), np.diagonal(lateral)])


class Synapses:
    """F, B and H, one row for each source as spikes need them, in one array that runs read and learning changes.

    Parameters
    ----------
    feedforward, feedback, lateral : ndarray, shapes (n_atoms, n_inputs), (n_inputs, n_atoms), (n_atoms, n_atoms)
        F, B and H; copied.
    """  # noqa: E501

    def __init__(self, feedforward: np.ndarray, feedback: np.ndarray, lateral: np.ndarray) -> None:
        n_atoms, n_inputs = feedforward.shape
        self.n_inputs, self.n_atoms = n_inputs, n_atoms
        all_blocks = blocks(feedforward, feedback, lateral)
        full = BlockWeights(n_neurons=n_inputs + n_atoms, blocks=all_blocks).segments
        self._values = full.values
        ends = np.cumsum([block.values.size for block in all_blocks])
        self._full = full
        self._is_feedback = full.offsets >= ends[1]
        self.feedforward_rows = self._values[: ends[0]].reshape(n_inputs, n_atoms)
        self.lateral_rows = self._values[ends[0] : ends[1]].reshape(n_atoms, n_atoms)
        self.feedback_rows = self._values[ends[1] :].reshape(n_atoms, n_inputs)

    def __reduce__(self) -> tuple[Any, ...]:
        # The rows are views of one array, which a copy or a pickle would tear apart.
        return Synapses, (self.feedforward, self.feedback, self.lateral)

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

    def weights(self, gamma: float, *, predicted: bool = False) -> SegmentedWeights:
        """Return the weights with feedback of strength gamma; they follow what learning changes.

        If `predicted`, M more neurons follow those of the network: one for each input, with the same weights
        and feedback of strength 1 whatever gamma is.
        """
        full = self._full
        # Without feedback coding spikes need not touch the inputs at all.
        lengths = np.where(self._is_feedback, 0, full.lengths) if gamma == 0.0 else full.lengths
        factors = np.where(self._is_feedback, gamma, full.factors)
        columns = (full.targets, lengths, full.offsets, factors)
        if not predicted:
            return SegmentedWeights(full.n_neurons, full.starts, *columns, full.values)
        # Segments share weights: what an input sends, and what it receives, is there once.
        of_feedback = np.flatnonzero(self._is_feedback)
        sources = np.repeat(np.arange(full.n_neurons), np.diff(full.starts))
        from_inputs = np.flatnonzero(sources < self.n_inputs)
        sources = np.concatenate([sources, sources[of_feedback], sources[from_inputs] + full.n_neurons])
        targets, lengths, offsets, factors = (
            np.concatenate([every, feedback, every[from_inputs]])
            for every, feedback in zip(
                columns,
                (
                    full.targets[of_feedback] + full.n_neurons,
                    full.lengths[of_feedback],
                    full.offsets[of_feedback],
                    np.ones(len(of_feedback)),
                ),
                strict=True,
            )
        )
        order = np.argsort(sources, kind="stable")
        n_neurons = full.n_neurons + self.n_inputs
        starts = np.searchsorted(sources[order], np.arange(n_neurons + 1))
        return SegmentedWeights(
            n_neurons, starts, targets[order], lengths[order], offsets[order], factors[order], full.values
        )

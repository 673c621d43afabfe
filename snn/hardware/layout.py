"""Contents and widths of the memories of a core: plain integers, without a hardware language."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value, checked
from snn.digital.format import DigitalFormat
from snn.digital.network import DigitalNetwork

MOST_LANES = 256
LARGEST_MEMORY = 2**22
"""Words of the largest memory of a lane."""


@dataclass(frozen=True, eq=False, repr=False)
class CoreLayout(Value, Described):
    """The memories of a core that runs one network.

    Neuron i is in group i // lanes, and in lane i % lanes.  A row, the weights of one source, is a list of
    words: a word has a weight for each neuron of one group.

    Parameters
    ----------
    network : DigitalNetwork
        The network.
    lanes : int, default 1
        Neurons of a group, which are updated in one cycle: a power of two.
    compressed : bool, optional
        Whether words whose weights are all zero are left out; a memory then says the group of each word.
        Otherwise a row has a word for every group, in order.  By default, what takes fewer bits.

    Attributes
    ----------
    words : ndarray of int, shape (n_words, lanes)
        The mantissas of the weights, row after row.
    word_groups : ndarray of int, shape (n_words,)
        The group of each word.
    rows : ndarray of int, shape (n_neurons + 1,)
        The words of neuron j are ``words[rows[j] : rows[j + 1]]``.
    drive : ndarray of int, shape (n_neurons,)
        What is added to each potential in a step.
    """

    network: DigitalNetwork = checked(checks.instance_of, DigitalNetwork)
    lanes: int = checked(checks.positive_integer, default=1)
    compressed: bool = checked(checks.flag, default=None)
    words: np.ndarray = field(init=False)
    word_groups: np.ndarray = field(init=False)
    rows: np.ndarray = field(init=False)
    drive: np.ndarray = field(init=False)

    _shown: ClassVar = ("lanes", "n_groups", "words", "compressed")

    def _check(self) -> None:
        network, lanes, n_groups = self.network, self.lanes, self.n_groups
        if lanes & (lanes - 1) or lanes > MOST_LANES:
            raise ValueError(f"lanes must be a power of two, at most {MOST_LANES}; got {lanes}")
        if not network.weights.mantissas.any():
            raise ValueError("network must have a weight that is not zero, to be a core; got none")
        sources = np.repeat(np.arange(network.n_neurons), np.diff(network.starts))
        kept = network.weights.mantissas != 0
        sources, targets = sources[kept], network.targets[kept]
        # Words that are not all zero; a row of all words has one for each group.
        places = sources * n_groups + targets // lanes
        positions, n_all = np.unique(places), network.n_neurons * n_groups
        compressed = self.compressed
        if compressed is None:
            word_bits = lanes * network.format.weights.bits
            compressed = len(positions) * (word_bits + (n_groups - 1).bit_length()) < n_all * word_bits
        if not compressed:
            positions = np.arange(n_all)
        largest = max(len(positions), self.n_slots * n_groups)
        if largest > LARGEST_MEMORY:
            raise ValueError(f"network must need at most 2^22 words in a memory of a core; got {largest:,}")
        words = np.zeros((len(positions), lanes), dtype=np.int64)
        words[np.searchsorted(positions, places), targets % lanes] = network.weights.mantissas[kept]
        amounts, half = network.drive(network.network.soma_bias), 2 ** (self.format.potential_bits - 1)
        drive = amounts.mantissas << amounts.exponent
        if drive.min() < -half or drive.max() >= half:
            raise ValueError(
                f"drive of network must fit into the {self.format.potential_bits} bits of the potential; got "
                f"{drive.min()} to {drive.max()}"
            )
        rows = np.searchsorted(positions, np.arange(network.n_neurons + 1) * n_groups)
        vars(self).update(compressed=compressed, words=words, word_groups=positions % n_groups, rows=rows)
        vars(self)["drive"] = drive

    @property
    def format(self) -> DigitalFormat:
        """Widths and rounding."""
        return self.network.format

    @property
    def n_groups(self) -> int:
        """Groups of neurons.  Where the last one is not full, neurons that never fire fill it."""
        return -(-self.network.n_neurons // self.lanes)

    @property
    def n_slots(self) -> int:
        """Steps for which arriving input is kept: the longest delay, and one."""
        return int(self.network.delays.max()) + 1

    @property
    def weight_range(self) -> range:
        """Mantissas of the weights."""
        return range(self.format.weights.smallest, self.format.weights.largest + 1)

    @property
    def pending_range(self) -> range:
        """Sums of weights times messages that can reach a neuron in one step."""
        sums = np.zeros((2, self.n_groups, self.lanes), dtype=np.int64)
        np.add.at(sums[0], self.word_groups, np.minimum(self.words, 0))
        np.add.at(sums[1], self.word_groups, np.maximum(self.words, 0))
        most = self.format.largest_message
        return range(int(sums.min()) * most, int(sums.max()) * most + 1)

    def of_lane(self, values: np.ndarray, lane: int, filler: int = 0) -> list[int]:
        """Return the numbers of the neurons of a lane, with a filler where the last group is not full."""
        padded = np.full(self.n_groups * self.lanes, filler, dtype=np.int64)
        padded[: len(values)] = values
        return padded[lane :: self.lanes].tolist()

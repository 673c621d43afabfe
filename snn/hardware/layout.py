"""Contents and widths of the memories of a core: plain integers, without a hardware language."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snn.base import checks
from snn.base.describe import Described, memory, number
from snn.base.value import Value
from snn.digital.format import DigitalFormat
from snn.digital.network import DigitalNetwork

MOST_LANES = 256
LARGEST_MEMORY = 2**22
"""Words of the largest memory of a lane."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CoreLayout(Value, Described):
    """The memories of a core that runs one network; `CoreLayout.of` makes it.

    Neuron i is in group i // lanes, and in lane i % lanes.  A row, the weights of one source, is a list of
    words: a word has a weight for each neuron of one group.

    Attributes
    ----------
    network : DigitalNetwork
        The network.
    lanes : int
        Neurons of a group: they are updated in one cycle.
    compressed : bool
        Whether words whose weights are all zero are left out; a memory then says the group of each word.
        Otherwise a row has a word for every group, in order.
    words : ndarray of int, shape (n_words, lanes)
        The mantissas of the weights, row after row.
    word_groups : ndarray of int, shape (n_words,)
        The group of each word.
    rows : ndarray of int, shape (n_neurons + 1,)
        The words of neuron j are ``words[rows[j] : rows[j + 1]]``.
    drive : ndarray of int, shape (n_neurons,)
        What is added to each potential in a step.
    """

    network: DigitalNetwork
    lanes: int
    compressed: bool
    words: np.ndarray
    word_groups: np.ndarray
    rows: np.ndarray
    drive: np.ndarray

    @classmethod
    def of(cls, network: DigitalNetwork, *, lanes: int = 1, compressed: bool | None = None) -> CoreLayout:
        """Lay out the memories of a core.

        Parameters
        ----------
        network : DigitalNetwork
            The network.
        lanes : int, default 1
            Neurons that are updated in one cycle: a power of two.
        compressed : bool, optional
            Whether words of zeros are left out of rows; by default if that takes fewer bits.
        """
        checks.instance_of("network", network, DigitalNetwork)
        lanes = checks.positive_integer("lanes", lanes)
        if lanes & (lanes - 1):
            raise ValueError(f"lanes must be a power of two; got {lanes}")
        if lanes > MOST_LANES:
            raise ValueError(f"lanes must be at most {MOST_LANES}, which cores were tried with; got {lanes}")
        if not network.weights.mantissas.any():
            raise ValueError("network must have a weight that is not zero, to be a core; got none")
        n_groups = -(-network.n_neurons // lanes)
        sources = np.repeat(np.arange(network.n_neurons), np.diff(network.starts))
        kept = network.weights.mantissas != 0
        sources, targets = sources[kept], network.targets[kept]
        # Words that are not all zero; a row of all words has one for each group.
        places = sources * n_groups + targets // lanes
        positions, n_all = np.unique(places), network.n_neurons * n_groups
        if compressed is None:
            word_bits = lanes * network.format.weights.bits
            compressed = len(positions) * (word_bits + (n_groups - 1).bit_length()) < n_all * word_bits
        if not checks.flag("compressed", compressed):
            positions = np.arange(n_all)
        largest = max(len(positions), (int(network.delays.max()) + 1) * n_groups)
        if largest > LARGEST_MEMORY:
            raise ValueError(f"network must need at most 2^22 words in a memory of a core; got {largest:,}")
        words = np.zeros((len(positions), lanes), dtype=np.int64)
        words[np.searchsorted(positions, places), targets % lanes] = network.weights.mantissas[kept]
        drive = network.drive(network.network.soma_bias)
        made = cls(
            network=network,
            lanes=lanes,
            compressed=compressed,
            words=words,
            word_groups=positions % n_groups,
            rows=np.searchsorted(positions, np.arange(network.n_neurons + 1) * n_groups),
            drive=drive.mantissas << drive.exponent,
        )
        half = 2 ** (network.format.potential_bits - 1)
        if made.drive.min() < -half or made.drive.max() >= half:
            raise ValueError(
                f"drive of network must fit into the {network.format.potential_bits} bits of the potential; "
                f"got {made.drive.min()} to {made.drive.max()}"
            )
        return made

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
        # At least a bit, also where all weights are zero.
        return range(int(sums.min()) * most, max(int(sums.max()) * most, 1) + 1)

    @property
    def memory_bits(self) -> dict[str, int]:
        """Bits of each kind of memory, all lanes together."""
        neurons, form = self.n_groups * self.lanes, self.format
        index_bits = (self.n_groups - 1).bit_length()
        pending_bits = max(abs(self.pending_range.start), self.pending_range.stop).bit_length() + 1
        return {
            "weights": self.words.size * form.weights.bits,
            "groups of words": len(self.words) * index_bits if self.compressed else 0,
            "rows": self.network.n_neurons * 2 * len(self.words).bit_length(),
            "potentials": neurons * form.potential_bits,
            "currents": neurons * form.current_bits,
            "drives": neurons * form.potential_bits,
            "pending input": self.n_slots * neurons * pending_bits,
        }

    def by_group(self, values: np.ndarray, filler: int = 0) -> np.ndarray:
        """Return a number of each neuron, group by group, shape (n_groups, lanes).

        Parameters
        ----------
        values : ndarray of int, shape (n_neurons,)
            The numbers.
        filler : int, default 0
            The number of the neurons that fill the last group.
        """
        padded = np.full(self.n_groups * self.lanes, filler, dtype=np.int64)
        padded[: len(values)] = values
        return padded.reshape(self.n_groups, self.lanes)

    def _facts(self) -> dict[str, str]:
        return {
            "neurons": number(self.network.n_neurons),
            "lanes": number(self.lanes),
            "weights": f"{number(len(self.words))} words{', compressed' if self.compressed else ''}",
            "memory": memory(sum(self.memory_bits.values()) // 8),
        }

"""The memories of a core in gates."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value, assign, checked
from snn.digital.digital_network import DigitalNetwork, integer_drive

MOST_LANES = 256
LARGEST_MEMORY = 2**22  # words of the largest memory of a lane


@dataclass(frozen=True, eq=False, repr=False)
class CoreLayout(Value, Described):
    """The memories of a core that runs one network, in plain integers."""

    # Neuron i is in group i // lanes, and in lane i % lanes.  A row, the weights of one source, is a list of
    # words: a word has a weight for each neuron of one group.
    network: DigitalNetwork = checked(checks.instance_of, DigitalNetwork)
    # Neurons of a group, which are updated in one cycle: a power of two.
    lanes: int = checked(checks.positive_integer, default=1)
    # Whether words whose weights are all zero are left out; a memory then says the group of each word.  By
    # default, what takes fewer bits.
    compressed: bool = checked(checks.flag, default=None)
    words: np.ndarray = field(init=False)  # mantissas of the weights, row after row, shape (n_words, lanes)
    word_groups: np.ndarray = field(init=False)  # the group of each word
    rows: np.ndarray = field(init=False)  # words of neuron j: words[rows[j] : rows[j + 1]]
    drive: np.ndarray = field(init=False)  # what is added to each potential in a step

    _shown: ClassVar = ("lanes", "n_groups", "words", "compressed")

    def _check(self) -> None:
        network, lanes, n_groups = self.network, self.lanes, self.n_groups
        if lanes & (lanes - 1) or lanes > MOST_LANES:
            raise ValueError(f"lanes must be a power of two, at most {MOST_LANES}; got {lanes}")
        starts, all_targets, mantissas, _ = network.synapses
        if not mantissas.any():
            raise ValueError("network must have a weight that is not zero, to be a core; got none")
        sources = np.repeat(np.arange(network.n_neurons), np.diff(starts))
        kept = mantissas != 0
        sources, targets = sources[kept], all_targets[kept]
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
        words[np.searchsorted(positions, places), targets % lanes] = mantissas[kept]
        amounts = integer_drive(network, network.network.soma_bias)
        half = 2 ** (network.format.potential_bits - 1)
        drive = amounts.values << amounts.exponent
        if drive.min() < -half or drive.max() >= half:
            raise ValueError(
                f"drive of network must fit into the {network.format.potential_bits} bits of the potential; "
                f"got {drive.min()} to {drive.max()}"
            )
        rows = np.searchsorted(positions, np.arange(network.n_neurons + 1) * n_groups)
        groups = positions % n_groups
        assign(self, compressed=compressed, words=words, word_groups=groups, rows=rows, drive=drive)

    @property
    def n_groups(self) -> int:
        """Groups of neurons.  Where the last one is not full, neurons that never fire fill it."""
        return -(-self.network.n_neurons // self.lanes)

    @property
    def n_slots(self) -> int:
        """Steps for which arriving input is kept: the longest delay, and one."""
        return int(self.network.synapses.delays.max()) + 1

    @property
    def pending_range(self) -> range:
        """Sums of weights times messages that can reach a neuron in one step."""
        sums = np.zeros((2, self.n_groups, self.lanes), dtype=np.int64)
        np.add.at(sums[0], self.word_groups, np.minimum(self.words, 0))
        np.add.at(sums[1], self.word_groups, np.maximum(self.words, 0))
        most = self.network.format.largest_message
        return range(int(sums.min()) * most, int(sums.max()) * most + 1)

    def of_lane(self, values: np.ndarray, lane: int, filler: int = 0) -> list[int]:
        """Return the numbers of the neurons of a lane, with a filler where the last group is not full."""
        padded = np.full(self.n_groups * self.lanes, filler, dtype=np.int64)
        padded[: len(values)] = values
        return padded[lane :: self.lanes].tolist()

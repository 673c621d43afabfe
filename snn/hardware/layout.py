"""The memories of a core in gates."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value, assign, checked
from snn.digital.command import Action
from snn.digital.digital_network import DigitalNetwork, integer_drive
from snn.hardware.capacity import Capacity

MOST_LANES = 256
LARGEST_MEMORY = 2**22  # words of the largest memory of a lane


def drive_of(network: DigitalNetwork) -> np.ndarray:
    """Return what is added to each potential in a step."""
    amounts, bits = integer_drive(network, network.network.soma_bias), network.format.potential_bits
    drive = amounts.values << amounts.exponent
    if drive.min() < -(2 ** (bits - 1)) or drive.max() >= 2 ** (bits - 1):
        raise ValueError(
            f"drive of network must fit into the {bits} bits of the potential; got {drive.min()} to "
            f"{drive.max()}"
        )
    return drive


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
    # Which networks can be written to the core; the network is what it holds at first.
    capacity: Capacity | None = checked(checks.instance_of, Capacity, default=None)
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
        if self.capacity is not None:
            self.require(network)
            if self.compressed:
                raise ValueError("compressed must not be True for a core with a capacity; leave it out")
        elif not mantissas.any():
            raise ValueError("network must have a weight that is not zero, to be a core; got none")
        sources = np.repeat(np.arange(network.n_neurons), np.diff(starts))
        kept = mantissas != 0
        sources, targets = sources[kept], all_targets[kept]
        # Words that are not all zero; a row of all words has one for each group.
        places = sources * n_groups + targets // lanes
        positions, n_all = np.unique(places), network.n_neurons * n_groups
        compressed = self.compressed if self.capacity is None else False
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
        rows = np.searchsorted(positions, np.arange(network.n_neurons + 1) * n_groups)
        groups = positions % n_groups
        assign(self, compressed=compressed, words=words, word_groups=groups, rows=rows)
        assign(self, drive=drive_of(network))

    def require(self, network: DigitalNetwork) -> None:
        """Raise ValueError if the core cannot hold a network."""
        held, n, (least, most) = self.network, network.n_neurons, self.exponents
        if network.rules._replace(exponent=held.rules.exponent) != held.rules:
            raise ValueError("network must have the format and the time step of the network of the core")
        if n > held.n_neurons:
            raise ValueError(f"network must have at most the {held.n_neurons} neurons of the core; got {n}")
        if (network.synapses.delays != held.synapses.delays[:n]).any():
            raise ValueError("delays of network must be those of the network of the core")
        weights, exponent = network.synapses.weights, network.rules.exponent
        if not least <= exponent <= most:
            raise ValueError(f"exponent of weights must be from {least} to {most}; got {exponent}")
        form, sums = held.format.weights, np.bincount(network.synapses.targets, np.abs(weights), minlength=1)
        if weights.min(initial=0) < form.smallest or weights.max(initial=0) > form.largest:
            raise ValueError(f"weights must have mantissas from {form.smallest} to {form.largest}")
        if sums.max() > self.largest_sum:
            raise ValueError(
                f"weights that lead to a neuron must sum to at most {self.largest_sum}; got {sums.max():.0f}"
            )

    def commands(self, network: DigitalNetwork) -> list[tuple[Action, int, int]]:
        """Return the commands (action, neuron, value) that write a network to a core with a capacity.

        They go between REST and RUN.  Neurons beyond those of the network are silent.
        """
        if self.capacity is None:
            raise ValueError("network can be written to a core with a capacity only: pass one to to_verilog")
        self.require(network)
        n, n_core = network.n_neurons, self.network.n_neurons
        weights = np.zeros((n_core, n_core), dtype=np.int64)
        sources = np.repeat(np.arange(n), np.diff(network.synapses.starts))
        weights[sources, network.synapses.targets] = network.synapses.weights
        thresholds = np.pad(network.firing_threshold, (0, n_core - n), constant_values=self.thresholds[1])
        drive = np.pad(drive_of(network), (0, n_core - n))
        commands = [(Action.EXPONENT, 0, network.rules.exponent)]
        for action, values in (Action.THRESHOLD, thresholds), (Action.DRIVE, drive):
            commands += [(action, neuron, value) for neuron, value in enumerate(values.tolist())]
        for source, row in enumerate(weights.tolist()):
            commands.append((Action.ROW, source, 0))
            commands += [(Action.WEIGHT, neuron, value) for neuron, value in enumerate(row)]
        return commands

    @property
    def n_groups(self) -> int:
        """Groups of neurons.  Where the last one is not full, neurons that never fire fill it."""
        return -(-self.network.n_neurons // self.lanes)

    @property
    def n_slots(self) -> int:
        """Steps for which arriving input is kept: the longest delay, and one."""
        return int(self.network.synapses.delays.max()) + 1

    @property
    def exponents(self) -> tuple[int, int]:
        """The smallest and the largest exponent of weights."""
        if self.capacity is not None:
            return self.capacity.least_exponent, self.capacity.largest_exponent
        return (self.network.rules.exponent,) * 2

    @property
    def thresholds(self) -> tuple[int, int]:
        """The smallest and the largest threshold; a graded message of a smaller one would say nothing."""
        if self.capacity is not None:
            return 2**self.network.rules.message_shift, 2 ** (self.network.format.potential_bits - 1) - 1
        return int(self.network.firing_threshold.min()), int(self.network.firing_threshold.max())

    @property
    def largest_sum(self) -> int:
        """The largest sum of sizes of weights that can lead to a neuron of a core with a capacity."""
        form = self.network.format.weights
        most = self.network.n_neurons * max(-form.smallest, form.largest)
        return min(most, (self.capacity and self.capacity.largest_sum) or most)

    @property
    def pending_range(self) -> range:
        """Sums of weights times messages that can reach a neuron in one step."""
        most = self.network.format.largest_message
        if self.capacity is not None:
            return range(-self.largest_sum * most, self.largest_sum * most + 1)
        sums = np.zeros((2, self.n_groups, self.lanes), dtype=np.int64)
        np.add.at(sums[0], self.word_groups, np.minimum(self.words, 0))
        np.add.at(sums[1], self.word_groups, np.maximum(self.words, 0))
        return range(int(sums.min()) * most, int(sums.max()) * most + 1)

    def of_lane(self, values: np.ndarray, lane: int, filler: int = 0) -> list[int]:
        """Return the numbers of the neurons of a lane, with a filler where the last group is not full."""
        padded = np.full(self.n_groups * self.lanes, filler, dtype=np.int64)
        padded[: len(values)] = values
        return padded[lane :: self.lanes].tolist()

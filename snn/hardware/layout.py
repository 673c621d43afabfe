"""The memories of a core in gates."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value, assign, checked
from snn.digital.command import Action
from snn.digital.digital_network import DigitalNetwork, integer_drive, require_in_potential
from snn.hardware.capacity import Capacity

MOST_LANES = 256
LARGEST_MEMORY = 2**22  # words of the largest memory of a lane
MULTIPLIER_BITS = 18  # of the multipliers of an FPGA, signed


@dataclass(frozen=True, eq=False, repr=False)
class CoreLayout(Value, Described):
    """The memories of a core that runs one network, in plain integers: what `to_verilog` returns.

    Its costs are `memory_bits`, `multipliers` and `cycles`; `commands` write another network or other drives.

    Parameters
    ----------
    network : DigitalNetwork
        The network.
    lanes : int, default 1
        Number of neurons of a group, which are updated in one cycle: a power of two.
    compressed : bool, optional
        Whether words whose weights are all zero are left out; a memory then stores the group of each word.
        By default, the form that needs fewer bits.
    part : (int, int), optional
        (first, last): the core has neurons first to last - 1, by default all; the others are inputs.  Neuron
        or input k of the core is neuron (first + k) mod n_neurons of the network.
    capacity : Capacity, optional
        Which networks can be written to the core, in place of `network`.
    readable : bool, default False
        Whether READ is a command.
    """

    # Neuron i is in group i // lanes, and in lane i % lanes.  A row is the weights of one source, as a list
    # of words.  A word has a weight for each neuron of one group.
    network: DigitalNetwork = checked(checks.instance_of, DigitalNetwork)
    lanes: int = checked(checks.positive_integer, default=1)
    compressed: bool = checked(checks.flag, default=None)
    part: tuple[int, int] | None = None
    capacity: Capacity | None = checked(checks.instance_of, Capacity, default=None)
    readable: bool = checked(checks.flag, default=False)
    first: int = field(init=False)  # the neuron of the network that is neuron 0 of the core
    n_neurons: int = field(init=False)  # neurons of the core
    words: np.ndarray = field(init=False)  # mantissas of the weights, row after row, shape (n_words, lanes)
    word_groups: np.ndarray = field(init=False)  # the group of each word
    rows: np.ndarray = field(init=False)  # words of neuron j: words[rows[j] : rows[j + 1]]
    drive: np.ndarray = field(init=False)  # what is added to each potential in a step

    _shown: ClassVar = ("lanes", "n_groups", "words", "compressed")

    def _check(self) -> None:
        network, lanes = self.network, self.lanes
        part = (0, network.n_neurons) if self.part is None else self.part
        if not isinstance(part, tuple) or len(part) != 2:
            raise TypeError(f"part must be two neurons of network, (first, last); got {part!r}")
        first, last = (checks.integer("part", number, 0, network.n_neurons) for number in part)
        if first >= last:
            raise ValueError(f"part must be (first, last) with first < last; got {part}")
        assign(self, first=first, n_neurons=last - first)
        n_groups = self.n_groups
        if lanes & (lanes - 1) or lanes > MOST_LANES:
            raise ValueError(f"lanes must be a power of two, at most {MOST_LANES}; got {lanes}")
        starts, all_targets, mantissas, _ = network.synapses
        if self.capacity is not None:
            if self.part is not None:
                raise ValueError("part must be left out for a core with a capacity: it has all neurons")
            self.require(network)
            if self.compressed:
                raise ValueError("compressed must not be True for a core with a capacity; leave it out")
        sources = np.repeat(np.arange(network.n_neurons), np.diff(starts))
        sources, targets = ((neurons - self.first) % network.n_neurons for neurons in (sources, all_targets))
        kept = (mantissas != 0) & (targets < self.n_neurons)
        if self.capacity is None and not kept.any():
            raise ValueError("network must have a weight that is not zero, to be a core; got none")
        sources, targets = sources[kept], targets[kept]
        # Positions of the words that have a weight.  A row that is not compressed has a word for each group.
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
        assign(self, drive=self._drive_of(network))

    def _drive_of(self, network: DigitalNetwork) -> np.ndarray:
        """Return what is added to each potential of the core in a step."""
        amounts = integer_drive(network, network.network.soma_bias)
        drive = self.of_part(amounts.values << amounts.exponent)[: self.n_neurons]
        require_in_potential("drive of network", drive, network)
        return drive

    def require(self, network: DigitalNetwork) -> None:
        """Raise ValueError if the core cannot hold a network."""
        held, n, form = self.network, network.n_neurons, self.network.format.weights
        for name, core_has, got in zip(held.rules._fields, held.rules, network.rules, strict=True):
            # The gates do not depend on how drives were rounded.
            if core_has != got and name != "exponent" and "drive" not in name:
                raise ValueError(f"rules.{name} of network must be that of the core, {core_has}; got {got}")
        if n > held.n_neurons:
            raise ValueError(f"network must have at most the {held.n_neurons} neurons of the core; got {n}")
        if (network.synapses.delays != held.synapses.delays[:n]).any():
            raise ValueError("delays of network must be those of the network of the core")
        if self.capacity is None:
            numbers = ((*it.synapses, it.firing_threshold, it.rules.exponent) for it in (network, held))
            if not all(map(np.array_equal, *numbers)):
                raise ValueError("network must differ from the core's in drives only, without a capacity")
            return
        weights, sums = network.synapses.weights, np.zeros(n, dtype=np.int64)
        np.add.at(sums, network.synapses.targets, np.abs(weights))
        exponents = np.full(int(weights.any()), network.rules.exponent)
        for name, values, (least, most) in (
            ("exponent of weights, as in FixedPoint(bits=8, exponent=...),", exponents, self.exponents),
            ("thresholds of network", network.firing_threshold, self.thresholds),
            ("mantissas of weights", weights, (form.smallest, form.largest)),
            ("sums of the weights that lead to a neuron", sums, (0, self.largest_sum)),
        ):
            if len(values) and not least <= values.min() <= values.max() <= most:
                raise ValueError(f"{name} must be in [{least}, {most}]; got {values.min()} to {values.max()}")

    def commands(self, network: DigitalNetwork) -> list[tuple[Action, int, int]]:
        """Return the commands (action, neuron, value) that write a network to the core, between REST and RUN.

        Without a capacity these are drives only; with one, neurons beyond those of the network are silent.
        """
        self.require(network)
        n, n_core = network.n_neurons, self.network.n_neurons
        if self.capacity is None:
            drives = enumerate(self._drive_of(network).tolist())
            return [(Action.DRIVE, neuron, drive) for neuron, drive in drives]
        weights = np.zeros((n_core, n_core), dtype=np.int64)
        sources = np.repeat(np.arange(n), np.diff(network.synapses.starts))
        weights[sources, network.synapses.targets] = network.synapses.weights
        thresholds = np.pad(network.firing_threshold, (0, n_core - n), constant_values=self.thresholds[1])
        drive = np.pad(self._drive_of(network), (0, n_core - n))
        commands = [(Action.EXPONENT, 0, self.exponent_of(network))]
        for action, values in (Action.THRESHOLD, thresholds), (Action.DRIVE, drive):
            commands += [(action, neuron, value) for neuron, value in enumerate(values.tolist())]
        for source, row in enumerate(weights.tolist()):
            commands.append((Action.ROW, source, 0))
            commands += [(Action.WEIGHT, neuron, value) for neuron, value in enumerate(row)]
        return commands

    @property
    def n_groups(self) -> int:
        """Number of groups of neurons; neurons that never fire fill the last group."""
        return -(-self.n_neurons // self.lanes)

    @property
    def firing_threshold(self) -> np.ndarray:
        """Thresholds of the neurons of the core."""
        return self.of_part(self.network.firing_threshold)[: self.n_neurons]

    def of_part(self, values: np.ndarray) -> np.ndarray:
        """Return values of all neurons in the order of the core: first its neurons, then its inputs."""
        return np.roll(values, -self.first)

    @property
    def n_slots(self) -> int:
        """Number of steps for which pending input is stored: the longest delay plus one."""
        return int(self.network.synapses.delays.max()) + 1

    @property
    def exponents(self) -> tuple[int, int]:
        """The smallest and the largest exponent of weights."""
        if self.capacity is not None:
            return self.capacity.least_exponent, self.capacity.largest_exponent
        return (self.network.rules.exponent,) * 2

    def exponent_of(self, network: DigitalNetwork) -> int:
        """Return the exponent of a network in the core: the nearest one in range if it has no weights."""
        return min(max(network.rules.exponent, self.exponents[0]), self.exponents[1])

    @property
    def thresholds(self) -> tuple[int, int]:
        """The smallest and the largest threshold; below the smallest one, a graded message would be 0."""
        if self.capacity is not None:
            return 2**self.network.rules.message_shift, 2 ** (self.network.format.potential_bits - 1) - 1
        return int(self.firing_threshold.min()), int(self.firing_threshold.max())

    @property
    def largest_sum(self) -> int:
        """The largest sum of the magnitudes of the weights that lead to a neuron, with a capacity."""
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

    @property
    def pending_bits(self) -> int:
        """Number of bits of a sum in `pending_range`."""
        sums = self.pending_range
        return max(-sums.start - 1, sums.stop - 1).bit_length() + (sums.start < 0)

    @property
    def message_cycles(self) -> int:
        """Number of cycles to compute a message: one if it is graded, otherwise one for each bit."""
        form = self.network.format
        # No message has more bits than the largest potential / the smallest threshold.
        largest = 2 ** (form.potential_bits - 1) // self.thresholds[0]
        return 1 if form.graded else min(form.message_bits, largest.bit_length())

    @property
    def memory_bits(self) -> int:
        """Bits of all memories: registers, pending input, weights, rows, and the queue of groups."""
        form, n_words, n_neurons = self.network.format, len(self.words), self.network.n_neurons
        group_bits, slot_bits = (max(self.n_groups, 2) - 1).bit_length(), (self.n_slots - 1).bit_length()
        least, most = self.thresholds
        of_group = 2 * form.potential_bits + form.current_bits
        of_group += most.bit_length() * (most > least)
        of_lane = max(self.n_groups, 2) * of_group + (self.n_slots << group_bits) * self.pending_bits
        of_word = self.lanes * form.weights.bits + self.compressed * group_bits
        of_row = 2 * n_words.bit_length() + slot_bits
        queue = max(self.n_groups, 2) * (group_bits + self.lanes * form.message_bits)
        return self.lanes * of_lane + max(n_words, 2) * of_word + max(n_neurons, 2) * of_row + queue

    @property
    def multipliers(self) -> int:
        """Number of multipliers of 18 bits, for the decay and for weights times messages of several bits."""
        form = self.network.format
        decay = multipliers_of(form.current_bits, form.decay_bits + 1)
        delivery = multipliers_of(form.weights.bits, form.message_bits + 1) if form.message_bits > 1 else 0
        return self.lanes * (decay + delivery)

    def cycles(self, n_steps: int, neurons: np.ndarray, steps: np.ndarray | None = None) -> int:
        """Return the cycles of a RUN with spikes of these neurons in these steps.

        Without `steps` the cycles are an upper bound, as if each spike were the only one of its step.
        """
        sweep = self.n_groups + 5 + self.message_cycles
        groups, n_firing = neurons // self.lanes, len(neurons)
        n_alone = int((groups == self.n_groups - 1).sum())
        if steps is not None:
            firing = np.unique(np.stack([steps, groups]), axis=1)
            _, firsts, n_each = np.unique(firing[0], return_index=True, return_counts=True)
            n_firing = firing.shape[1]
            n_alone = int(((n_each == 1) & (firing[1, firsts] == self.n_groups - 1)).sum())
        return int(
            2 + n_steps * sweep + np.diff(self.rows)[neurons].sum() + 3 * len(neurons) + n_firing + n_alone
        )

    def of_lane(self, values: np.ndarray, lane: int, filler: int = 0) -> list[int]:
        """Return the values of the neurons of a lane, with a filler for missing neurons of the last group."""
        padded = np.full(self.n_groups * self.lanes, filler, dtype=np.int64)
        padded[: len(values)] = values
        return padded[lane :: self.lanes].tolist()


def multipliers_of(first_bits: int, second_bits: int) -> int:
    """Return how many multipliers the product of two signed numbers takes."""
    return -(-first_bits // MULTIPLIER_BITS) * -(-second_bits // MULTIPLIER_BITS)

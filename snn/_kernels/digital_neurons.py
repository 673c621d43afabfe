"""Neurons on a clock whose states are integers."""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import callable_in_kernels, inner, record
from snn._kernels.stepped import ClockNeurons, restart_steps

TRUNCATE, FLOOR, NEAREST = 0, 1, 2  # roundings of numbers and of quotients of integers
# Columns of `overflows`, which counts the steps in which a register was too narrow.
LOW_POTENTIAL, HIGH_POTENTIAL, NARROW_CURRENT, NARROW_MESSAGE = 0, 1, 2, 3


class Rules(NamedTuple):
    """The record for kernels of the numbers of a `DigitalFormat`, such as its decay and exponents."""

    kept: int  # 2^k - delta, the part of a current that remains after a step, in units of 2^-k
    leak: int  # the part of a potential that leaks in a step, in units of 2^-k
    decay_bits: int  # k
    decay_rounding: int
    exponent: int  # exponent of the weights
    input_rounding: int
    least_potential: int
    largest_potential: int
    potential_wraps: bool
    least_current: int
    largest_current: int
    current_wraps: bool
    largest_message: int
    is_graded: bool
    message_shift: int
    subtract: bool
    least_drive: float  # smallest mantissa of a drive, a whole number
    largest_drive: float  # largest mantissa of a drive, a whole number
    drive_exponent: int  # exponent of the drives of all copies; -1 if each copy has its own exponent
    drive_rounding: int
    lowest_drive: float  # drives are raised to at least -lowest_drive times the largest drive of the copy


class _DigitalNeurons(NamedTuple):
    # A step, with x the messages that arrive:
    #     v <- end(v + b + u)                   end: saturate or wrap at the width of the register
    #     v >= theta:  it sends m, and v is reset
    #     u <- end(round(u (2^k - delta) / 2^k) + round(2^e sum_j w_j x_j))
    # Imperfect neurons first lose round(v leak / 2^k) and gain a rounded normal number; the v of a refractory
    # neuron stays.  No number overflows, because `DigitalNetwork.of` proves that sums stay below 2^62.

    faults: tuple
    rules: Rules
    threshold: np.ndarray
    values: np.ndarray  # number of spikes that one unit of a message means; only the moments need `values`
    drive: np.ndarray
    potential: np.ndarray
    current: np.ndarray
    messages: np.ndarray
    removed: np.ndarray  # charge of all messages of each neuron, in units of the potential
    overflows: np.ndarray  # shape (n_copies, n_neurons, 4): steps in which a register was too narrow
    # Drives, potentials and currents in the units of the real network.
    bias: np.ndarray
    real_potential: np.ndarray
    real_current: np.ndarray
    drive_unit: float  # how many units a drive of 1 adds to a potential in a step
    unit: float
    current_unit: float


@record
class DigitalNeurons(_DigitalNeurons, ClockNeurons):
    """Digital neurons: registers of any width are held in integers of 64 bits."""

    __slots__ = ()

    def leave(self, k):
        for i in range(self.bias.shape[1]):
            self.real_potential[k, i] = self.potential[k, i] * self.unit
            self.real_current[k, i] = self.current[k, i] * self.current_unit

    def integrate_step(self, copies, k, step):
        self.faults.disturb(self, k, step)
        rules, drive, fired, overflows = self.rules, self.drive[k], copies.fired, self.overflows[k]
        threshold, potential, current = self.threshold, self.potential[k], self.current[k]
        n_fired = 0
        for i in range(drive.shape[0]):
            u = current[i]
            v = potential[i] + drive[i] + u
            if v < rules.least_potential or v > rules.largest_potential:
                overflows[i, LOW_POTENTIAL if v < rules.least_potential else HIGH_POTENTIAL] += 1
                v = _in_register(v, rules.least_potential, rules.largest_potential, rules.potential_wraps)
            potential[i] = v
            if u != 0:
                current[i] = rounded_quotient(u * rules.kept, rules.decay_bits, rules.decay_rounding)
            if v >= threshold[i]:
                fired[n_fired] = i
                n_fired += 1
        return self.faults.n_free(k, fired, n_fired)

    def fire(self, k, neuron):
        rules, potential, threshold = self.rules, self.potential[k, neuron], self.threshold[neuron]
        message = potential >> rules.message_shift if rules.is_graded else potential // threshold
        if message > rules.largest_message:
            # A message of one bit only says that the neuron fired, so the message is never too narrow.
            if rules.largest_message > 1 or rules.is_graded:
                self.overflows[k, neuron, NARROW_MESSAGE] += 1
            message = rules.largest_message
        said = message << rules.message_shift if rules.is_graded else message * threshold
        self.potential[k, neuron] = potential - said if rules.subtract else 0
        self.removed[k, neuron] += said
        self.messages[k, neuron] += message
        return 1, message, message * self.values[neuron]

    def arrive(self, copies, k, slot):
        rules, current, arriving = self.rules, self.current[k], copies.pending[k, slot]
        for i in range(arriving.shape[0]):
            x = arriving[i]
            if x == 0:
                continue
            arriving[i] = 0
            if rules.exponent >= 0:
                x <<= rules.exponent
            else:
                x = rounded_quotient(x, -rules.exponent, rules.input_rounding)
            u = current[i] + x
            if u < rules.least_current or u > rules.largest_current:
                self.overflows[k, i, NARROW_CURRENT] += 1
                u = _in_register(u, rules.least_current, rules.largest_current, rules.current_wraps)
            current[i] = u

    def is_lost(self, states, k):
        # If more than one potential per step is too high on average, more charge arrives than spikes remove.
        n_overflows = 0
        for i in range(self.bias.shape[1]):
            n_overflows += self.overflows[k, i, HIGH_POTENTIAL]
        return n_overflows > states.steps[k] + states.steps_before[k]

    def take_input(self, states, stops, change, k):
        # The messages that were due at the end of the last step have arrived, and their slot is empty.
        stops.add_amounts(change, states.pending[k, states.steps[k] % states.pending.shape[1]])

    def take_changes(self, states, k):
        self.arrive(states, k, states.steps[k] % states.pending.shape[1])
        self.round_drive(k)
        self.leave(k)

    def show(self, k, seen):
        for i in range(seen.shape[0]):
            seen[i] = self.real_potential[k, i]

    def restart(self, states, k):
        restart_steps(states, k)
        self.faults.clear(k)
        rules = self.rules
        for i in range(self.bias.shape[1]):
            self.removed[k, i] = 0
            potential = np.rint(self.real_potential[k, i] / self.unit)
            self.potential[k, i] = int(min(max(potential, rules.least_potential), rules.largest_potential))
            current = np.rint(self.real_current[k, i] / self.current_unit)
            self.current[k, i] = int(min(max(current, rules.least_current), rules.largest_current))
        self.round_drive(k)
        self.leave(k)

    def round_drive(self, k):
        """Round the drive of a copy, as `snn.digital.digital_network.integer_drive` does."""
        rules, real = self.rules, self.bias[k]
        largest = smallest = real[0]
        for i in range(real.shape[0]):
            largest, smallest = max(largest, real[i]), min(smallest, real[i])
        lowest = -rules.lowest_drive * max(largest, 0.0) if rules.lowest_drive < math.inf else -math.inf
        exponent = rules.drive_exponent
        if exponent < 0:
            exponent = 0
            if largest > 0.0 and rules.largest_drive > 0.0:
                exponent = max(exponent, least_exponent(largest * self.drive_unit, rules.largest_drive))
            smallest = max(smallest, lowest)
            if smallest < 0.0 and rules.least_drive < 0.0:
                exponent = max(exponent, least_exponent(smallest * self.drive_unit, rules.least_drive))
        scale = math.ldexp(1.0, -exponent)
        for i in range(real.shape[0]):
            amount = max(real[i], lowest) * self.drive_unit * scale
            if rules.drive_rounding == NEAREST:
                amount = np.rint(amount)
            elif rules.drive_rounding == FLOOR:
                amount = np.floor(amount)
            else:
                amount = np.trunc(amount)
            self.drive[k, i] = int(min(max(amount, rules.least_drive), rules.largest_drive)) << exponent


@inner
def rounded_quotient(number, shift, rounding):
    """Return number / 2^shift, rounded; shift >= 0."""
    if shift == 0:
        return number
    if rounding == FLOOR:
        return number >> shift
    size = -number if number < 0 else number
    if rounding == NEAREST:
        size += 1 << (shift - 1)
    size >>= shift
    return -size if number < 0 else size


@inner
def _in_register(number, least, largest, wraps):
    """Return a number as a register holds it: limited to the range, or wrapped by the length of the range."""
    # The length of the range is a power of two.
    if wraps:
        return ((number - least) & (largest - least)) + least
    return min(max(number, least), largest)


@callable_in_kernels
def least_exponent(extreme, end):
    """Return the smallest exponent at which |extreme| / 2^exponent is at most |end|."""
    fraction, power = math.frexp(abs(extreme))
    end_fraction, end_power = math.frexp(abs(end))
    return power - end_power + (fraction > end_fraction)

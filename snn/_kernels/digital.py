"""The compiled part of the emulator of digital neurons: integers of 64 bits that hold narrower ones.

One step of a neuron with bias b, potential v, current u and arriving messages x, all integers::

    v <- end(v + b + u)                   end: saturate or wrap at the width of the register
    v >= theta:  it sends m, and v is reset
    u <- end(round(u (2^k - delta) / 2^k) + round(2^e sum_j w_j x_j))

Messages sent in a step with delay d are among the x of d steps later.  Nothing here overflows: whoever
makes the arrays has proved that sums stay below 2^62.  The moments of spike times, which a read-out uses and
no neuron sees, are floats.
"""

from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inner, kernel_of, uncounted

TRUNCATE, FLOOR, NEAREST = 0, 1, 2
"""How quotients are rounded."""

LOW_POTENTIAL, HIGH_POTENTIAL, CURRENT, MESSAGE = 0, 1, 2, 3
"""Columns of the counts of registers that were too narrow."""


class Network(NamedTuple):
    """What all copies have in common."""

    threshold: np.ndarray
    mantissas: np.ndarray
    targets: np.ndarray
    starts: np.ndarray
    """Targets and weights of neuron j: entries starts[j] to starts[j + 1]."""
    delays: np.ndarray
    values: np.ndarray
    """Spikes that one unit of a message stands for, as floats: for the moments alone."""


class Rules(NamedTuple):
    """How a step is done."""

    kept: int
    """2^k - delta."""
    decay_bits: int
    decay_rounding: int
    exponent: int
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
    time_step: float


class Copies(NamedTuple):
    """Copies of a network: a row for each copy."""

    bias: np.ndarray
    potential: np.ndarray
    current: np.ndarray
    pending: np.ndarray
    """Shape (n_copies, n_slots, n_neurons): what arrives at the end of step s is in slot s modulo n_slots."""
    steps: np.ndarray
    """Shape (n_copies,): steps so far."""
    spike_counts: np.ndarray
    """How often each neuron sent a message."""
    messages: np.ndarray
    """The sum of these messages."""
    overflows: np.ndarray
    """Shape (n_copies, n_neurons, 4): steps in which a register was too narrow."""
    moments: np.ndarray
    """Shape (n_copies, n_neurons, 3), or of size zero."""


class Spikes(NamedTuple):
    """Recorded messages, one entry each."""

    steps: np.ndarray
    neurons: np.ndarray
    messages: np.ndarray


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
    """Return a number as a register holds it: the nearest end, or modulo its range, a power of two."""
    if wraps:
        return ((number - least) & (largest - least)) + least
    return min(max(number, least), largest)


@inner
def integrate(copies, k, network, rules, fired):
    """Advance potentials by bias and current, decay currents; list the neurons that fire, return how many."""
    bias, potential, current, overflows = (
        copies.bias[k],
        copies.potential[k],
        copies.current[k],
        copies.overflows[k],
    )
    n_fired = 0
    for i in range(bias.shape[0]):
        u = current[i]
        v = potential[i] + bias[i] + u
        if v < rules.least_potential or v > rules.largest_potential:
            overflows[i, LOW_POTENTIAL if v < rules.least_potential else HIGH_POTENTIAL] += 1
            v = _in_register(v, rules.least_potential, rules.largest_potential, rules.potential_wraps)
        potential[i] = v
        if u != 0:
            current[i] = rounded_quotient(u * rules.kept, rules.decay_bits, rules.decay_rounding)
        if v >= network.threshold[i]:
            fired[n_fired] = i
            n_fired += 1
    return n_fired


@inner
def _message(potential, threshold, rules, overflows):
    """Return what a neuron that fires sends, and what it says of the potential."""
    message = potential >> rules.message_shift if rules.is_graded else potential // threshold
    # With one bit and a reset to zero, a spike is all that there is to say.
    if message > rules.largest_message:
        if rules.largest_message > 1 or rules.is_graded:
            overflows[MESSAGE] += 1
        message = rules.largest_message
    said = message << rules.message_shift if rules.is_graded else message * threshold
    return message, said


@inner
def fire(network, rules, copies, k, j, step, spikes, n_spikes):
    """Reset a neuron that fires, count its message, and record it if spikes are recorded; return it."""
    message, said = _message(copies.potential[k, j], network.threshold[j], rules, copies.overflows[k, j])
    copies.potential[k, j] = copies.potential[k, j] - said if rules.subtract else 0
    copies.spike_counts[k, j] += 1
    copies.messages[k, j] += message
    if copies.moments.shape[0] > 0:
        time = step * rules.time_step
        weight = message * network.values[j] * time * time
        copies.moments[k, j, 0] += weight
        copies.moments[k, j, 1] += weight * time
        copies.moments[k, j, 2] += weight * time * time
    if spikes.steps.shape[0] > 0:
        spikes.steps[n_spikes] = step
        spikes.neurons[n_spikes] = j
        spikes.messages[n_spikes] = message
    return message


@inner
def arrive(copies, k, slot, rules):
    """Add to the currents what arrives at the end of a step."""
    arriving, current, overflows = copies.pending[k, slot], copies.current[k], copies.overflows[k]
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
            overflows[i, CURRENT] += 1
            u = _in_register(u, rules.least_current, rules.largest_current, rules.current_wraps)
        current[i] = u


arrive_kernel = kernel_of(arrive)
"""For what arrives between two steps."""


@uncounted
def advance(network, rules, copies, active, first, stop_steps, max_steps, max_spikes, fired, is_due, spikes):
    """Run the copies active[first:] to their `stop_steps`; return where to go on, and the messages sent."""
    # It ends early after `max_steps` steps or `max_spikes` messages.  `spikes` has room for as many more as
    # there are neurons, or for none.  `fired` and `is_due`, a flag for each copy and slot, are memory.
    n_slots = copies.pending.shape[1]
    n_steps = 0
    n_spikes = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        step = copies.steps[k]
        while step < stop_steps[k] and n_steps < max_steps and n_spikes < max_spikes:
            n_steps += 1
            step += 1
            n_fired = integrate(copies, k, network, rules, fired)
            for f in range(n_fired):
                j = fired[f]
                message = fire(network, rules, copies, k, j, step, spikes, n_spikes)
                n_spikes += 1
                slot = (step + network.delays[j]) % n_slots
                is_due[k, slot] = True
                arriving = copies.pending[k, slot]
                for entry in range(network.starts[j], network.starts[j + 1]):
                    arriving[network.targets[entry]] += network.mantissas[entry] * message
            slot = step % n_slots
            if is_due[k, slot]:
                arrive(copies, k, slot, rules)
                is_due[k, slot] = False
        copies.steps[k] = step
        if step < stop_steps[k]:
            return position, n_spikes
    return active.shape[0], n_spikes

"""The neurons of a clock: real numbers or integers, perfect or not; and what `stepped` does with each.

Rows of arrays are copies, and columns neurons.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import implements, inner, resolved_by_record
from snn._kernels.random_numbers import fill_normals, n_that_arrive
from snn._kernels.run_state import restart_copy
from snn._kernels.stepped import (
    CURRENT,
    POTENTIAL,
    RISE,
    THRESHOLD,
    arrive,
    enter,
    fire,
    integrate_step,
    leave,
    n_that_reach,
    restart_steps,
)
from snn._kernels.stops import add_amounts, is_lost, take_changes, take_input

GROUP = 32  # the workspace is filled up to a multiple of this number with neurons that never fire
ONE_NEURON = 2**32  # what a neuron that fires adds to a sum, besides its index
MOST_AT_ONCE = 1024.0  # spikes of one neuron in one step; charge beyond that is left for the next step
MOST_GROWTH = 1e50  # traces are rescaled before e^t goes out of range

TRUNCATE, FLOOR, NEAREST = 0, 1, 2  # how integers and their quotients are rounded
# Columns of the counts of registers that were too narrow.
LOW_POTENTIAL, HIGH_POTENTIAL, NARROW_CURRENT, NARROW_MESSAGE = 0, 1, 2, 3


class NoFaults(NamedTuple):
    """Neurons are perfect."""

    refractory_steps: int


class Faults(NamedTuple):
    """Imperfections of neurons."""

    # A step of a real one, with x a standard normal number:
    #     refractory:  v stays, and the charge that arrives is refused
    #     otherwise:   v <- keep v + rise beta + arrival h + noise theta x
    # The charge of a step is dt beta + charge h; the part that the potential does not get is leaked.

    refractory_steps: int
    noise: float  # standard deviation of what noise adds to a potential in a step, in thresholds
    lost: float  # probability that a spike reaches no target
    key: int
    keep: float  # of integers the leak is in their rules
    charge: float
    waiting: np.ndarray  # steps until a neuron integrates again
    n_lost: np.ndarray
    normals: np.ndarray  # memory of a number for each neuron
    # Charge of real neurons, of none where they are integers.
    leaked: np.ndarray
    refused: np.ndarray
    kicks: np.ndarray


class RealNeurons(NamedTuple):
    """Neurons in real numbers."""

    # A step of a perfect one with bias beta, potential v and current h:
    #     v <- v + rise beta + arrival h    rise dt; arrival 1 - e^-dt: exact; dt: Euler, v + dt (beta + h)
    #     h <- decay h                      decay e^-dt
    # It reads four numbers of each neuron and writes two, and takes as long as the first-level cache needs
    # for that, 0.2 ns a neuron.  So charge and filtered spikes are updated at spikes only, no flags are
    # stored, and the copy that runs is held in a workspace aligned to cache lines.

    faults: tuple
    rise: float
    arrival: float
    decay: float
    subtract: bool  # whether a spike takes the threshold from the potential, or all of it
    bias: np.ndarray
    potential: np.ndarray
    current: np.ndarray
    removed: np.ndarray  # what resets took from the potential
    trace: np.ndarray  # filtered spikes times `growth`: a spike changes one entry
    growth: np.ndarray  # shape (n_copies,): a step multiplies it by e^dt
    step_growth: float
    workspace: np.ndarray  # shape (4, n_neurons filled up)


class Rules(NamedTuple):
    """The integers of a format."""

    kept: int  # 2^k - delta
    leak: int  # in 2^-k of a potential
    decay_bits: int  # k
    decay_rounding: int
    exponent: int  # of the weights
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
    least_drive: float  # mantissas of the drive, whole numbers
    largest_drive: float
    drive_exponent: int  # of all drives, -1 if each has its own
    drive_rounding: int
    lowest_drive: float  # in units of the largest drive: more negative ones are raised to minus this


class DigitalNeurons(NamedTuple):
    """Neurons in integers of 64 bits that hold narrower ones."""

    # A step, with x the messages that arrive:
    #     v <- end(v + b + u)                   end: saturate or wrap at the width of the register
    #     v >= theta:  it sends m, and v is reset
    #     u <- end(round(u (2^k - delta) / 2^k) + round(2^e sum_j w_j x_j))
    # Imperfect ones first lose round(v leak / 2^k) and gain a rounded normal number; v of refractory ones
    # stays.  Nothing here overflows: who makes the arrays has proved that sums stay below 2^62.

    faults: tuple
    rules: Rules
    threshold: np.ndarray
    values: np.ndarray  # spikes that one unit of a message stands for: for the moments alone
    drive: np.ndarray
    potential: np.ndarray
    current: np.ndarray
    messages: np.ndarray
    removed: np.ndarray  # what messages say, in units of the potential
    overflows: np.ndarray  # shape (n_copies, n_neurons, 4): steps in which a register was too narrow
    # Drives, potentials and currents in the units of the real network.
    bias: np.ndarray
    real_potential: np.ndarray
    real_current: np.ndarray
    drive_unit: float  # in a step a drive adds so many units to a potential
    unit: float
    current_unit: float


# Faults.


@implements(n_that_reach, Faults)
def n_not_lost(faults, k, neuron, step, count):
    faults.waiting[k, neuron] = faults.refractory_steps
    n_arrived = n_that_arrive(faults.key, step, neuron, count, faults.lost)
    faults.n_lost[k, neuron] += count - n_arrived
    return n_arrived


@resolved_by_record
def restart_faults(faults, k):
    """Let no neuron be refractory."""


@implements(restart_faults, Faults)
def restart_all_faults(faults, k):
    for i in range(faults.waiting.shape[1]):
        faults.waiting[k, i] = faults.n_lost[k, i] = 0
    for i in range(faults.leaked.shape[1]):
        faults.leaked[k, i] = faults.refused[k, i] = faults.kicks[k, i] = 0.0


# Neurons in real numbers.


@implements(enter, RealNeurons)
def enter_workspace(neurons, k):
    bias, potential, current, workspace = (
        neurons.bias[k], neurons.potential[k], neurons.current[k], neurons.workspace,
    )  # fmt: skip
    for i in range(bias.shape[0]):
        workspace[POTENTIAL, i] = potential[i]
        workspace[CURRENT, i] = current[i]
        workspace[RISE, i] = bias[i] * neurons.rise


@implements(leave, RealNeurons)
def leave_workspace(neurons, k):
    potential, current, workspace = neurons.potential[k], neurons.current[k], neurons.workspace
    for i in range(potential.shape[0]):
        potential[i] = workspace[POTENTIAL, i]
        current[i] = workspace[CURRENT, i]


@inner
def _integrate(rise, threshold, potential, current, arrival, decay):
    """Advance potentials and currents; return the sum of ONE_NEURON + i over all i that fire."""
    # The sum says whether no neuron fires, one, and which, or several: most steps need no more than that.
    fired_sum = 0
    for i in range(potential.shape[0]):
        h = current[i]
        v = potential[i] + (rise[i] + h * arrival)
        potential[i] = v
        current[i] = h * decay
        fired_sum += ONE_NEURON + i if v >= threshold[i] else 0
    return fired_sum


@inner
def _sum_of_fired(threshold, potential):
    fired_sum = 0
    for i in range(potential.shape[0]):
        fired_sum += ONE_NEURON + i if potential[i] >= threshold[i] else 0
    return fired_sum


@resolved_by_record
def advance_all(faults, neurons, copies, k, step):
    """Advance the neurons in the workspace by a step; list those that fire, return how many do."""
    workspace, fired = neurons.workspace, copies.fired
    threshold, potential = workspace[THRESHOLD], workspace[POTENTIAL]
    fired_sum = _integrate(
        workspace[RISE], threshold, potential, workspace[CURRENT], neurons.arrival, neurons.decay
    )
    if fired_sum < 2 * ONE_NEURON:
        fired[0] = fired_sum - ONE_NEURON
        return int(fired_sum > 0)
    n_fired = 0
    for first in range(0, potential.shape[0], GROUP):
        fired_sum = _sum_of_fired(threshold[first : first + GROUP], potential[first : first + GROUP])
        if fired_sum < 2 * ONE_NEURON:
            fired[n_fired] = first + fired_sum - ONE_NEURON
            n_fired += fired_sum > 0
            continue
        for i in range(first, first + GROUP):
            if potential[i] >= threshold[i]:
                fired[n_fired] = i
                n_fired += 1
    return n_fired


@implements(advance_all, Faults)
def advance_imperfect(faults, neurons, copies, k, step):
    workspace, bias, waiting = neurons.workspace, neurons.bias[k], faults.waiting[k]
    leaked, refused, kicks = faults.leaked[k], faults.refused[k], faults.kicks[k]
    if faults.noise > 0.0:
        fill_normals(faults.key, step, faults.normals)
    n_fired = 0
    for i in range(bias.shape[0]):
        h, threshold = workspace[CURRENT, i], workspace[THRESHOLD, i]
        workspace[CURRENT, i] = h * neurons.decay
        charge = bias[i] * copies.time_step + h * faults.charge
        if waiting[i] > 0:
            waiting[i] -= 1
            refused[i] += charge
            continue
        before = workspace[POTENTIAL, i]
        v = faults.keep * before + (workspace[RISE, i] + h * neurons.arrival)
        if faults.keep != 1.0:
            leaked[i] += charge - (v - before)
        if faults.noise > 0.0:
            kick = faults.noise * threshold * faults.normals[i]
            kicks[i] += kick
            v += kick
        workspace[POTENTIAL, i] = v
        if v >= threshold:
            copies.fired[n_fired] = i
            n_fired += 1
    return n_fired


@implements(integrate_step, RealNeurons)
def integrate_real(neurons, copies, k, step):
    growth, trace = neurons.growth[k] * neurons.step_growth, neurons.trace
    if growth > MOST_GROWTH:
        for i in range(trace.shape[1]):
            trace[k, i] /= growth
        growth = 1.0
    neurons.growth[k] = growth
    return advance_all(neurons.faults, neurons, copies, k, step)


@implements(fire, RealNeurons)
def fire_real(neurons, k, neuron):
    potential, threshold = neurons.workspace[POTENTIAL, neuron], neurons.workspace[THRESHOLD, neuron]
    times = 1.0
    # A refractory neuron has to wait for its next spike.
    if neurons.subtract and potential >= 2.0 * threshold and neurons.faults.refractory_steps == 0:
        times = min(math.floor(potential / threshold), MOST_AT_ONCE)
    taken = times * threshold if neurons.subtract else potential
    neurons.workspace[POTENTIAL, neuron] = potential - taken
    neurons.removed[k, neuron] += taken
    neurons.trace[k, neuron] += times * neurons.growth[k]
    return int(times), 1.0, times


@implements(arrive, RealNeurons)
def arrive_real(neurons, copies, k, slot):
    current, arriving = neurons.workspace[CURRENT], copies.pending[k, slot]
    for i in range(arriving.shape[0]):
        current[i] += arriving[i]
        arriving[i] = 0.0


@implements(is_lost, RealNeurons)
def is_late(neurons, copies, k):
    potential, threshold, n_above = neurons.potential[k], neurons.workspace[THRESHOLD], 0
    for i in range(potential.shape[0]):
        n_above += potential[i] > threshold[i]
    # Refractory neurons cannot keep up sooner; their copies are not lost.
    return n_above > 0 and neurons.faults.refractory_steps == 0


@implements(restart_copy, RealNeurons)
def restart_real(neurons, copies, k):
    restart_steps(copies, k)
    restart_faults(neurons.faults, k)
    for i in range(neurons.bias.shape[1]):
        neurons.removed[k, i] = neurons.trace[k, i] = 0.0
    neurons.growth[k] = 1.0


# Neurons in integers.


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
    """Return the number as a register holds it: the nearest end of the range, or modulo its length."""
    # The length is a power of two.
    if wraps:
        return ((number - least) & (largest - least)) + least
    return min(max(number, least), largest)


@resolved_by_record
def disturb(faults, neurons, k, step):
    """Change potentials before their bias and current come."""


@implements(disturb, Faults)
def disturb_by_faults(faults, neurons, k, step):
    rules, potential, waiting = neurons.rules, neurons.potential[k], faults.waiting[k]
    if faults.noise > 0.0:
        fill_normals(faults.key, step, faults.normals)
    for i in range(potential.shape[0]):
        v = potential[i]
        if waiting[i] > 0:
            # Its step leaves it where it was.
            potential[i] = v - neurons.drive[k, i] - neurons.current[k, i]
            continue
        v -= rounded_quotient(v * rules.leak, rules.decay_bits, rules.decay_rounding)
        if faults.noise > 0.0:
            v += int(np.rint(faults.noise * neurons.threshold[i] * faults.normals[i]))
        potential[i] = v


@resolved_by_record
def n_free(faults, k, fired, n_fired):
    """Keep those neurons that fire which are not refractory, and count down; return how many these are."""
    return n_fired


@implements(n_free, Faults)
def n_not_waiting(faults, k, fired, n_fired):
    waiting, n_going = faults.waiting[k], 0
    for f in range(n_fired):
        if waiting[fired[f]] == 0:
            fired[n_going] = fired[f]
            n_going += 1
    for i in range(waiting.shape[0]):
        if waiting[i] > 0:
            waiting[i] -= 1
    return n_going


@implements(integrate_step, DigitalNeurons)
def integrate_digital(neurons, copies, k, step):
    disturb(neurons.faults, neurons, k, step)
    rules, drive, fired, overflows = neurons.rules, neurons.drive[k], copies.fired, neurons.overflows[k]
    threshold, potential, current = neurons.threshold, neurons.potential[k], neurons.current[k]
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
    return n_free(neurons.faults, k, fired, n_fired)


@implements(fire, DigitalNeurons)
def fire_digital(neurons, k, neuron):
    rules, potential, threshold = neurons.rules, neurons.potential[k, neuron], neurons.threshold[neuron]
    message = potential >> rules.message_shift if rules.is_graded else potential // threshold
    if message > rules.largest_message:
        # With one bit and a reset to zero, a spike is all that there is to say.
        if rules.largest_message > 1 or rules.is_graded:
            neurons.overflows[k, neuron, NARROW_MESSAGE] += 1
        message = rules.largest_message
    said = message << rules.message_shift if rules.is_graded else message * threshold
    neurons.potential[k, neuron] = potential - said if rules.subtract else 0
    neurons.removed[k, neuron] += said
    neurons.messages[k, neuron] += message
    return 1, message, message * neurons.values[neuron]


@implements(arrive, DigitalNeurons)
def arrive_digital(neurons, copies, k, slot):
    rules, current, arriving = neurons.rules, neurons.current[k], copies.pending[k, slot]
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
            neurons.overflows[k, i, NARROW_CURRENT] += 1
            u = _in_register(u, rules.least_current, rules.largest_current, rules.current_wraps)
        current[i] = u


@implements(leave, DigitalNeurons)
def leave_digital(neurons, k):
    for i in range(neurons.bias.shape[1]):
        neurons.real_potential[k, i] = neurons.potential[k, i] * neurons.unit
        neurons.real_current[k, i] = neurons.current[k, i] * neurons.current_unit


@implements(is_lost, DigitalNeurons)
def has_run_away(neurons, copies, k):
    # More charge arrives than spikes take away: on average one potential is at its upper end in every step.
    n_overflows = 0
    for i in range(neurons.bias.shape[1]):
        n_overflows += neurons.overflows[k, i, HIGH_POTENTIAL]
    return n_overflows > copies.steps[k] + copies.steps_before[k]


@implements(take_input, DigitalNeurons)
def take_input_message(neurons, copies, stops, change, k):
    # The messages that were due at the end of the last step have arrived, and their slot is empty.
    add_amounts(stops, change, copies.pending[k, copies.steps[k] % copies.pending.shape[1]])


@implements(take_changes, DigitalNeurons)
def round_changes(neurons, copies, k):
    arrive(neurons, copies, k, copies.steps[k] % copies.pending.shape[1])
    round_drive(neurons, k)
    leave(neurons, k)


@inner
def _least_exponent(extreme, end):
    """Return the smallest exponent with which `extreme` / 2^exponent is not beyond `end`, of one sign."""
    fraction, power = math.frexp(abs(extreme))
    end_fraction, end_power = math.frexp(abs(end))
    return power - end_power + (fraction > end_fraction)


@inner
def round_drive(neurons, k):
    """Round the drive of a copy, as `snn.digital.network.integer_drive`."""
    rules, real = neurons.rules, neurons.bias[k]
    largest = smallest = real[0]
    for i in range(real.shape[0]):
        largest, smallest = max(largest, real[i]), min(smallest, real[i])
    lowest = -rules.lowest_drive * max(largest, 0.0) if rules.lowest_drive < math.inf else -math.inf
    exponent = rules.drive_exponent
    if exponent < 0:
        exponent = 0
        if largest > 0.0 and rules.largest_drive > 0.0:
            exponent = max(exponent, _least_exponent(largest * neurons.drive_unit, rules.largest_drive))
        smallest = max(smallest, lowest)
        if smallest < 0.0 and rules.least_drive < 0.0:
            exponent = max(exponent, _least_exponent(smallest * neurons.drive_unit, rules.least_drive))
    scale = math.ldexp(1.0, -exponent)
    for i in range(real.shape[0]):
        amount = max(real[i], lowest) * neurons.drive_unit * scale
        if rules.drive_rounding == NEAREST:
            amount = np.rint(amount)
        elif rules.drive_rounding == FLOOR:
            amount = np.floor(amount)
        else:
            amount = np.trunc(amount)
        neurons.drive[k, i] = int(min(max(amount, rules.least_drive), rules.largest_drive)) << exponent


@implements(restart_copy, DigitalNeurons)
def restart_digital(neurons, copies, k):
    restart_steps(copies, k)
    restart_faults(neurons.faults, k)
    rules = neurons.rules
    for i in range(neurons.bias.shape[1]):
        neurons.removed[k, i] = 0
        potential = np.rint(neurons.real_potential[k, i] / neurons.unit)
        neurons.potential[k, i] = int(min(max(potential, rules.least_potential), rules.largest_potential))
        current = np.rint(neurons.real_current[k, i] / neurons.current_unit)
        neurons.current[k, i] = int(min(max(current, rules.least_current), rules.largest_current))
    round_drive(neurons, k)
    leave(neurons, k)

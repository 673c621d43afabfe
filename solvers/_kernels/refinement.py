"""The stages of a spiking solver, which reads codes from spikes, and starts each stage from such a code.

A look is a time at which the simulator stops the network of a signal and calls `Looking.go_on`.  The whole
loop is::

    begin at the best code                                   _begin_at_best, _begin_stage
    repeat, at each look:                                    look_at_one
        read the code of the rates, and one Jacobi step      _read_codes
        keep the code with the smallest gap                  _measure
        end,            if its gap is small enough, or the time is over
        begin a stage,  if the gap has fallen, or the stage is long enough
                        extrapolate, set offset and drive    _next_stage: _move_on, _begin_stage
        or look again,  at twice the time

A code is the offset of its stage plus the rates of spikes in this stage, read through a smooth window.  Gaps
are computed from correlations with the residual, ``b - (G + M) a`` with M the curvatures of the penalty, so
that a gap is accurate to the rounding of the energy.  The method certifies the final code from the signal.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inlined, inner, record, uncounted
from snn._kernels.delivery import Form
from solvers._kernels.dots import copy, minimised

# Time of the first look at a stage, in synaptic time constants.
FIRST_LOOK = 12.0
# Time of a look, divided by the time of the previous look at the same stage.
LOOK_GROWTH = 2.0
# Initial rate of the busiest neuron, without input from other neurons, in stages that start from zero.
RATE_PER_DRIVE = 0.5
# Potentials at the start of a stage, in units of the threshold.  0.5 is the mean of random potentials.  With
# this head start, neurons that would fire soon do fire before a short run ends.
HEAD_START = 0.5
# From the second stage on, a neuron with a negative drive starts lower by LAG times that drive, so that the
# simulator rarely examines it.
LAG = 4.0
# A stage uses no momentum if the previous stage reduced the gap to this share or less.
FAST = 0.5
# The longest duration of the first stage and of later stages, in synaptic time constants.
FIRST_LIMIT, LIMIT = 48.0, 24.0
# After PATIENCE stages without a better code, stages may be LONGER times as long, up to LAST_LIMIT synaptic
# time constants.
PATIENCE, LONGER, LAST_LIMIT = 12, 2.0, 4096.0
# The offset of an atom is closer to zero than its code by MARGIN times the largest entry of the Jacobi step
# (in the first stage, FIRST_MARGIN times), plus the expected move of the atom, which is unknown in the first
# stage.
FIRST_MARGIN, MARGIN = 2.0, 1.0
# A code is astray if its gap exceeds this multiple of the best gap.  After a code that is astray, the next
# stage starts from the best code without momentum.  If the code of the next stage is astray, too, the stage
# after the next starts from rest.
ASTRAY = 8.0
# After LOST stages without a better code, the multiple is ASTRAY_IF_LOST.
LOST, ASTRAY_IF_LOST = 8, 4.0
# If the code of an atom must not be negative, the l1 weight of its negative neuron is larger by this multiple
# of ||d_i|| ||s||.  No correlation exceeds this weight, so that the neuron is silent at the optimum.  The
# solver does not read the spikes of the neuron.
BARRED = 2.0
# In stages that start from rest, MARGIN grows by this factor after each stage without a better code.
WIDER = 3.0

# Multiply-adds of a gap for each atom, once the currents are known: one for the correlation of the atom with
# the residual, four for terms of sums.
PRODUCTS_OF_GAP = 5
# Multiply-adds for reading the rate of a neuron through the window.
PRODUCTS_OF_RATE = 3

# Outcomes of a look; NEW stands for a signal without a look.
NEW, GOES_ON, STAGE_ENDED, DONE = 0, 1, 2, 3

# The state of each signal.
LOOK = np.dtype(
    [
        ("stop", np.float64),  # time of the next look, since the beginning of the stage
        ("limit", np.float64),  # largest duration of the stage
        ("scale", np.float64),  # the value of a code for one unit of spike rate
        ("target", np.float64),  # the gap to reach
        ("gap", np.float64),  # gap of the best code so far
        ("gap_before", np.float64),  # gap of the best code when the stage began
        ("step", np.float64),  # largest entry of the Jacobi step at the stage's start, or 0 if unknown
        ("momentum", np.float64),  # t_k of the accelerated gradient method
        ("duration", np.float64),  # simulated time of the stages that ended
        ("n_stages", np.int64),
        ("n_failed", np.int64),  # number of consecutive stages without a better code
        ("n_multiply_adds", np.int64),  # multiply-adds of looks and of the beginnings of stages
        ("n_astray", np.int64),  # number of consecutive stages whose codes were astray
        ("status", np.int64),
    ],
    align=True,
)

# (rate, enough) of `Looking`: the rate of the busiest neuron in stages that start from a code, and the share
# to which the gap has to fall before a stage ends.  FEW_SPIKES is for integer arithmetic and for exact spike
# times, where the cost is the number of spikes.
FEW_SPIKES = 0.3, 0.2
# FEW_STEPS is for clocks with real numbers, where the cost is the number of steps.  FEW_STEPS saves an eighth
# of the steps on patches of images, and a quarter of the steps with similar atoms.
FEW_STEPS = 0.4, 0.15

# The five codes of a stage: the part of the origin that the network does not code; the best code so far; the
# origin of the stage; the end of the previous stage; and how far the previous stage moved its origin.
OFFSET, BEST, ORIGIN, BEFORE, MOVED = range(5)
# The rows of `Looking.memory`.
CODE, CURRENTS, STEPPED, STEPPED_CURRENTS = range(4)


class Equations(NamedTuple):
    """The optimality equations of signals, with a row of correlations and an energy for each signal."""

    correlations: np.ndarray
    l1_weights: np.ndarray
    diagonal: np.ndarray  # the firing thresholds: squared norms plus the curvatures of the penalty
    energies: np.ndarray
    positive: np.ndarray  # True for atoms whose codes must not be negative
    has_zeros: bool  # whether an atom has no l1 weight
    # Shape (2, n_atoms): the positive and the negative neuron of each atom, or -1.
    neurons: np.ndarray


@record
class Looking(NamedTuple):
    """Signals, their codes and their looks, which are the stops of a run (`snn._kernels.stops`)."""

    form: Form  # the weights of the positive neurons, one neuron for each atom
    equations: Equations
    rate: float  # `FEW_SPIKES` explains `rate` and `enough`
    enough: float
    max_duration: float
    refine: bool
    one_look: bool  # whether copies stop after a look
    looks: np.ndarray  # a record of type `LOOK` for each signal
    stage_codes: np.ndarray  # shape (5, n_signals, n_atoms): OFFSET, BEST, ORIGIN, BEFORE, MOVED
    # Drives and states of neurons at the start of a stage, a row for each signal.
    soma_bias: np.ndarray
    potential: np.ndarray
    current: np.ndarray
    moments: np.ndarray  # moments of the spike times since the stage began
    current_per_rate: float  # synaptic current at the start of a step, per unit of current at constant rates
    memory: np.ndarray  # shape (4, n_atoms)

    def stop_of(self, k):
        """Return the time of the next look at the network of signal k."""
        return self.looks[k].stop

    def go_on(self, neurons, states, k):
        """Look at the network of signal k; return whether the network goes on, and the work in spikes."""
        look = self.looks[k]
        n_before = look.n_multiply_adds
        if look.status == NEW:
            # The initial code of a signal may already reach the target.
            look.gap = math.inf
            _measure(self, k, self.stage_codes[BEST, k], self.memory[CURRENTS])
            look.status = STAGE_ENDED if look.gap > look.target and _begin_at_best(self, k) else DONE
        elif neurons.is_lost(states, k):
            return False, 0
        else:
            look_at_one(self, k)
        if look.status == STAGE_ENDED:
            neurons.restart(states, k)
        is_going = look.status != DONE and not self.one_look
        return is_going, (look.n_multiply_adds - n_before) // self.memory.shape[1]


@inner
def _caused_currents(form, code, currents):
    """Write W^T a, the currents of constant rates a."""
    # Return whether all rows of weights that are needed are stored, and the multiply-adds.
    n_multiply_adds = 0
    for i in range(currents.shape[0]):
        currents[i] = 0.0
    for i in range(code.shape[0]):
        if code[i] != 0.0:
            if not form.row_is_there(i):
                return False, n_multiply_adds
            n_multiply_adds += form.add_weights(currents, i, code[i])
    return True, n_multiply_adds


@partial(inner, fastmath={"reassoc", "contract", "nsz"})
def _gap(equations, k, code, currents):
    """Return the duality gap of a code, from its currents W^T a."""
    correlations, l1_weights, positive = equations.correlations[k], equations.l1_weights, equations.positive
    squared_residual = along_signal = 2.0 * equations.energies[k]
    cost = fitted = largest = 0.0
    for i in range(code.shape[0]):
        b, a = correlations[i], code[i]
        left = b - equations.diagonal[i] * a + currents[i]
        along_signal -= b * a
        squared_residual -= a * (b + left)
        cost += l1_weights[i] * abs(a)
        fitted += a * left
        largest = max(largest, (left if positive[i] else abs(left)) / l1_weights[i])
    best_multiple = along_signal / squared_residual if squared_residual > 0.0 else 1.0
    kappa = min(max(best_multiple, 0.0), 1.0 / largest if largest > 0.0 else math.inf)
    return 0.5 * (1.0 - kappa) ** 2 * max(squared_residual, 0.0) + cost - kappa * fitted


@inlined
def _stepped(equations, k, i, currents):
    """Return entry i of the Jacobi step T(b + W^T a) / theta, from the currents W^T a."""
    return minimised(
        equations.correlations[k, i] + currents[i], equations.l1_weights[i], equations.diagonal[i],
        equations.positive[i],
    )  # fmt: skip


@inner
def _estimated_gap(equations, k, code, currents):
    """Return an estimate of the gap; if l1 weights are zero, `_gap` would use the dual point zero."""
    # The estimate assumes orthogonal atoms.  Only certificates decide whether a code is good enough.
    gap = 0.0
    for i in range(code.shape[0]):
        change = code[i] - _stepped(equations, k, i, currents)
        gap += 0.5 * equations.diagonal[i] * change * change
    return gap


@inner
def _measure(looking, k, code, currents):
    """Write the currents of a code, and keep the code if it is the best so far."""
    # Return the gap of the code, or an estimate of the gap; infinity if rows of weights are missing.
    look, best = looking.looks[k], looking.stage_codes[BEST, k]
    is_known, n_multiply_adds = _caused_currents(looking.form, code, currents)
    look.n_multiply_adds += n_multiply_adds
    if not is_known:
        return math.inf
    look.n_multiply_adds += PRODUCTS_OF_GAP * code.shape[0]
    if looking.equations.has_zeros:
        gap = _estimated_gap(looking.equations, k, code, currents)
    else:
        gap = _gap(looking.equations, k, code, currents)
    if gap < look.gap:
        look.gap = gap
        copy(best, code)
    return gap


@inner
def _read_rates(moments, time, scale, equations, offset, code):
    """Write a code: the offset plus the rates, read through a smooth window over the whole stage."""
    positive, neurons = equations.positive, equations.neurons
    square = time * time
    second = 30.0 * scale / (square * time)
    third, fourth = -2.0 * second / time, second / square
    for i in range(code.shape[0]):
        # A spike at the very end of the window contributes only rounding, which must not be negative.
        m = moments[neurons[0, i]]
        rate = max(second * m[0] + third * m[1] + fourth * m[2], 0.0)
        if not positive[i]:
            m = moments[neurons[1, i]]
            rate -= max(second * m[0] + third * m[1] + fourth * m[2], 0.0)
        code[i] = offset[i] + rate


@inner
def _start_network(looking, k, code, code_currents, rate):
    """Write drive and state of the network of a stage; return the scale, or 0 if no neuron is driven."""
    # The network codes the part of the signal that the offset does not code.  The network starts in the state
    # in which its rates have the value ``code - offset``.  At the returned scale, the busiest neuron starts
    # with `rate`.
    equations, look = looking.equations, looking.looks[k]
    diagonal, l1_weights, neurons = equations.diagonal, equations.l1_weights, equations.neurons
    offset, offset_currents = looking.stage_codes[OFFSET, k], looking.memory[STEPPED_CURRENTS]
    soma_bias, potential, current = looking.soma_bias[k], looking.potential[k], looking.current[k]
    largest = 0.0
    for i in range(offset.shape[0]):
        left = equations.correlations[k, i] - diagonal[i] * offset[i] + offset_currents[i]
        carried = code_currents[i] - offset_currents[i]
        neuron, negative = neurons[0, i], neurons[1, i]
        soma_bias[neuron], current[neuron] = left - l1_weights[i], carried
        largest = max(largest, (soma_bias[neuron] + carried) / diagonal[i], abs(code[i] - offset[i]))
        if negative >= 0:
            soma_bias[negative], current[negative] = -left - l1_weights[i], -carried
            if equations.positive[i]:
                soma_bias[negative] -= BARRED * math.sqrt(2.0 * equations.energies[k] * diagonal[i])
            largest = max(largest, (soma_bias[negative] - carried) / diagonal[i])
    scale = largest / rate
    if scale > 0.0:
        unit = 1.0 / scale
        lag = LAG if look.n_stages > 1 else 0.0
        for sign in range(soma_bias.shape[0] // diagonal.shape[0]):
            for i in range(diagonal.shape[0]):
                neuron = neurons[sign, i]
                bias, carried = unit * soma_bias[neuron], unit * current[neuron]
                potential[neuron] = HEAD_START * diagonal[i] + lag * min(bias + carried, 0.0)
                soma_bias[neuron], current[neuron] = bias, carried * looking.current_per_rate
    return scale


@inner
def _move_on(codes, k, end, look, is_accelerated):
    """Set the start of the next stage to the end of this stage, extrapolated by momentum."""
    # The momentum is that of the accelerated gradient method, and restarts when the code turns back.  The
    # momentum changes no sign of a coefficient, and brings no atom into the code.
    origin, before, moved = codes[ORIGIN, k], codes[BEFORE, k], codes[MOVED, k]
    along = 0.0
    for i in range(end.shape[0]):
        along += (origin[i] - end[i]) * (end[i] - before[i])
        # An atom that was not in the code has no rate to lose.
        moved[i] = abs(end[i] - origin[i]) if origin[i] != 0.0 else 0.0
    if not is_accelerated or along > 0.0:
        look.momentum = 1.0
    later = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * look.momentum * look.momentum))
    share = (look.momentum - 1.0) / later
    look.momentum = later
    for i in range(end.shape[0]):
        value = end[i] + share * (end[i] - before[i])
        origin[i] = value if value * end[i] > 0.0 else 0.0
        before[i] = end[i]


@inner
def _begin_stage(looking, k):
    """Set the offset and the network of the next stage; return whether a neuron is driven."""
    form, equations, look = looking.form, looking.equations, looking.looks[k]
    codes = looking.stage_codes
    origin, offset, moved = codes[ORIGIN, k], codes[OFFSET, k], codes[MOVED, k]
    currents, offset_currents = looking.memory[CURRENTS], looking.memory[STEPPED_CURRENTS]
    look.n_multiply_adds += _caused_currents(form, origin, currents)[1]
    step = 0.0
    n_used = 0
    for i in range(origin.shape[0]):
        step = max(step, abs(origin[i] - _stepped(equations, k, i, currents)))
        n_used += origin[i] != 0.0
    share = min(step / look.step, 1.0) if look.step > 0.0 else 1.0
    look.step = step
    look.gap_before = look.gap
    look.stop = min(FIRST_LOOK, looking.max_duration - look.duration)
    look.n_stages += 1
    # After codes that are astray, stages start alternately from the best code and from rest.
    is_carried = look.n_astray == 0 or look.n_astray % 2 == 1
    margin = (FIRST_MARGIN if look.n_stages == 1 else MARGIN) * step
    # The margin of stages that start from rest grows, because otherwise each of these stages would repeat the
    # previous stage.
    if not is_carried:
        margin *= WIDER**look.n_failed
    # The offset is the code, drawn towards zero by the margin and by a share of the last moves.
    for i in range(origin.shape[0]):
        left = abs(origin[i]) - margin - share * moved[i]
        offset[i] = math.copysign(left, origin[i]) if left > 0.0 else 0.0
    look.n_multiply_adds += _caused_currents(form, offset, offset_currents)[1] + origin.shape[0]
    rate = looking.rate if n_used > 0 else RATE_PER_DRIVE
    look.scale = 0.0
    if not is_carried:
        look.scale = _start_network(looking, k, offset, offset_currents, rate)
    if look.scale > 0.0:
        copy(origin, offset)
    else:
        look.scale = _start_network(looking, k, origin, currents, rate)
    return look.scale > 0.0


@inner
def _begin_at_best(looking, k):
    """Set up a stage that starts from the best code."""
    look, codes = looking.looks[k], looking.stage_codes
    for i in range(codes.shape[2]):
        codes[ORIGIN, k, i] = codes[BEFORE, k, i] = codes[BEST, k, i]
        codes[MOVED, k, i] = 0.0
    look.momentum = 1.0
    look.step = 0.0
    look.n_astray = 0
    look.limit = FIRST_LIMIT if look.n_stages == 0 else LIMIT
    return _begin_stage(looking, k)


@inner
def _read_codes(looking, k):
    """Read a code from spikes; measure this code and one Jacobi step from it; return the code's gap."""
    equations, memory, look, moments = looking.equations, looking.memory, looking.looks[k], looking.moments[k]
    code, stepped = memory[CODE], memory[STEPPED]
    _read_rates(moments, look.stop, look.scale, equations, looking.stage_codes[OFFSET, k], code)
    look.n_multiply_adds += PRODUCTS_OF_RATE * moments.shape[0]
    gap = _measure(looking, k, code, memory[CURRENTS])
    if look.gap > look.target:
        for i in range(code.shape[0]):
            stepped[i] = _stepped(equations, k, i, memory[CURRENTS])
        _measure(looking, k, stepped, memory[STEPPED_CURRENTS])
    return gap


@inner
def _next_stage(looking, k, gap):
    """Begin the next stage from the code of this stage, whose gap is `gap`, or from the best code."""
    # Return whether a neuron is driven.
    look = looking.looks[k]
    look.duration += look.stop
    if look.n_stages == 1:
        look.limit = LIMIT
    look.n_failed = 0 if look.gap < look.gap_before else look.n_failed + 1
    if look.n_failed == PATIENCE:
        look.limit = min(LONGER * look.limit, LAST_LIMIT)
        look.n_failed = 0
    largest_gap = (ASTRAY if look.n_failed < LOST else ASTRAY_IF_LOST) * look.gap
    look.n_astray = 0 if gap <= largest_gap else look.n_astray + 1
    is_accelerated = look.n_astray == 0 and look.gap > FAST * look.gap_before
    end = looking.memory[CODE] if is_accelerated else looking.stage_codes[BEST, k]
    _move_on(looking.stage_codes, k, end, look, is_accelerated)
    return _begin_stage(looking, k)


@inner
def look_at_one(looking, k):
    """Look at the network of signal k at time `stop`; end the run, begin a stage, or set the next look."""
    look = looking.looks[k]
    time = look.stop
    gap = _read_codes(looking, k)
    time_left = looking.max_duration - look.duration
    # The time is compared with `time_left`, because the sum of both durations may be rounded to less than the
    # maximum.
    is_over = time >= time_left
    has_fallen = look.gap <= looking.enough * look.gap_before
    if look.gap <= look.target or is_over:
        look.status = DONE
        look.duration = looking.max_duration if is_over else look.duration + time
    elif looking.refine and (has_fallen or time >= look.limit):
        look.status = STAGE_ENDED if _next_stage(looking, k, gap) else DONE
    else:
        look.status = GOES_ON
        look.stop = min(time * LOOK_GROWTH, time_left)
        if looking.refine:
            look.stop = min(look.stop, look.limit)


@uncounted
def look_at(looking, signals):
    """Look at the networks of some signals, each at its time `stop`, and set their status."""
    for position in range(signals.shape[0]):
        look_at_one(looking, signals[position])


@uncounted
def resume(looking, signals):
    """Reopen finished signals whose true gap was larger than the estimate; halve their target."""
    for position in range(signals.shape[0]):
        k = signals[position]
        look = looking.looks[k]
        look.target = 0.5 * min(look.target, look.gap)
        # A signal that was done before its first stage has no stage to continue.
        if looking.refine or look.n_stages == 0:
            look.status = STAGE_ENDED if _begin_at_best(looking, k) else DONE
        else:
            look.duration -= look.stop
            look.stop = min(look.stop * LOOK_GROWTH, looking.max_duration - look.duration)
            look.status = GOES_ON

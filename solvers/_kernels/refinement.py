"""Codes read through a smooth window, their gaps, and what the network is to code next.

One look at the network of a signal: its rates through the window are added to the code that it started from
(the offset), the duality gap follows from one product with the Gram matrix, and so does the thresholded
current that these rates cause, the second code.  Everything is computed from correlations,
``b - (G + M) a`` with M the curvatures of the penalty, so a gap is right to rounding of the energy; who
returns a code has it certified from the signal itself.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inlined, inner, uncounted
from snn._kernels.currents import add_weights
from snn._kernels.delivery import row_is_there
from solvers._kernels.coordinate import minimised

FIRST_LOOK = 12.0
"""Time of the first look at a stage, in synaptic time constants."""
LOOK_GROWTH = 1.7
"""Each look is so many times as late as the one before."""
RATE_PER_DRIVE = 0.5
"""Rate of the busiest neuron, driven alone."""
HEAD_START = 0.5
"""Potentials at first, in thresholds: at random they would be so on average."""
LAG = 4.0
"""From the second stage on, neurons that are not driven start as far below that as their drive leads in this
time: they would be there, and the simulator need not look at them."""
ENOUGH = 0.15
"""A stage ends when the gap has fallen to this part of what it was."""
SOME = 0.5
"""A part of it that counts as progress."""
FIRST_LIMIT, LIMIT_GROWTH, LAST_LIMIT = 120.0, 2.0, 4096.0
"""The longest stage; it grows where stages end without enough progress."""
WIDER, NARROWER = 4.0, 0.5
"""What the margin of an atom is multiplied by after a stage in which its neuron is silent, or is not."""
LEAST_MARGIN, MARGIN_ON_FAILURE, LARGEST_CONDITION = 2.0, 3.0, 1e3
"""Offsets stay behind the code by so many of its Jacobi steps at least; by more after a stage that failed;
and by no more than so many times the least where the steps before were too short."""

PRODUCTS_OF_GAP = 5
"""Multiply-adds of a gap for each atom, once its currents are known: one makes its correlation with the
residual, four are terms of sums."""
PRODUCTS_OF_RATE = 3
"""Multiply-adds of the rate of a neuron, read through the window."""

MOST_ATTEMPTS = 64
"""Margins tried until a network is driven."""

GOES_ON, STAGE_ENDED, DONE = 0, 1, 2
"""What a look found."""

LOOK = np.dtype(
    [
        ("stop", np.float64),  # when the network is looked at next, since the stage began
        ("limit", np.float64),  # when the stage ends at last
        ("scale", np.float64),  # the value of a code for one unit of spike rate
        ("target", np.float64),  # the gap wanted
        ("gap", np.float64),  # that of the best code so far
        ("gap_before", np.float64),  # the same when the stage began
        ("step", np.float64),  # the Jacobi step from the best code, 0 before there is one
        ("margin", np.float64),  # in such steps
        ("duration", np.float64),  # simulated time of the stages that ended
        ("n_stages", np.int64),
        ("n_multiply_adds", np.int64),  # of looks, and of what sets up stages
        ("status", np.int64),
    ],
    align=True,
)
"""What is kept of each signal."""


class Problem(NamedTuple):
    """What is solved: a row of correlations and an energy for each signal."""

    correlations: np.ndarray
    l1_weights: np.ndarray
    diagonal: np.ndarray
    """The squared norms plus the curvatures of the penalty: the firing thresholds."""
    energies: np.ndarray
    positive: bool
    has_zeros: bool
    """Whether an atom has no l1 weight."""
    group_length: int
    """Neurons are in groups: positive ones of so many atoms, then, unless `positive`, negative ones."""


class Codes(NamedTuple):
    """Codes of each signal, a row each."""

    offset: np.ndarray
    """What the network of this stage does not code."""
    best: np.ndarray
    before: np.ndarray
    """The best when the stage began."""
    width: np.ndarray
    """How many times wider than others the margin of an atom is."""


class Drives(NamedTuple):
    """What the network of each signal starts from, a row each."""

    soma_bias: np.ndarray
    potential: np.ndarray


class Work(NamedTuple):
    """Memory of a number for each atom."""

    code: np.ndarray
    currents: np.ndarray
    stepped: np.ndarray
    stepped_currents: np.ndarray


@inner
def caused_currents(form, code, currents):
    """Write W^T a, the currents that constant rates cause.

    Return whether all rows of weights are there, and the multiply-adds.
    """
    n_multiply_adds = 0
    for i in range(currents.shape[0]):
        currents[i] = 0.0
    for i in range(code.shape[0]):
        if code[i] != 0.0:
            if not row_is_there(form, i):
                return False, n_multiply_adds
            own = currents[i]
            n_multiply_adds += add_weights(form, currents, i, code[i])
            currents[i] = own
    return True, n_multiply_adds


@partial(inner, fastmath={"reassoc", "contract", "nsz"})
def gap_of(correlations, l1_weights, diagonal, positive, energy, code, currents):
    """Return the duality gap of a code, from the currents that it causes."""
    squared_residual = along_signal = 2.0 * energy
    cost = fitted = largest = 0.0
    for i in range(code.shape[0]):
        b, a = correlations[i], code[i]
        left = b - diagonal[i] * a + currents[i]
        along_signal -= b * a
        squared_residual -= a * (b + left)
        cost += l1_weights[i] * abs(a)
        fitted += a * left
        largest = max(largest, (left if positive else abs(left)) / l1_weights[i])
    best_multiple = along_signal / squared_residual if squared_residual > 0.0 else 1.0
    kappa = min(max(best_multiple, 0.0), 1.0 / largest if largest > 0.0 else math.inf)
    return 0.5 * (1.0 - kappa) ** 2 * max(squared_residual, 0.0) + cost - kappa * fitted


@inner
def estimated_gap(correlations, l1_weights, diagonal, positive, energy, code, currents):
    """Return an estimate of the gap where l1 weights are zero, and `gap_of` is that of the dual point zero.

    It is the gap of atoms that do not depend on each other; certificates decide.
    """
    gap = 0.0
    for i in range(code.shape[0]):
        a = code[i]
        stepped = minimised(correlations[i] + currents[i], l1_weights[i], diagonal[i], positive)
        gap += 0.5 * diagonal[i] * (a - stepped) * (a - stepped)
    return gap


@inner
def measured_gap(problem, k, code, currents):
    """Return the gap of a code of a signal, or an estimate of it."""
    arguments = (
        problem.correlations[k], problem.l1_weights, problem.diagonal, problem.positive,
        problem.energies[k], code, currents,
    )  # fmt: skip
    if problem.has_zeros:
        return estimated_gap(*arguments)
    return gap_of(*arguments)


@inner
def current_code(correlations, l1_weights, diagonal, positive, currents, code):
    """Write T(b + W^T a) / theta, the code of the currents that rates a cause: a Jacobi step from a."""
    for i in range(code.shape[0]):
        code[i] = minimised(correlations[i] + currents[i], l1_weights[i], diagonal[i], positive)


@inner
def largest_difference(first, second):
    """Return the largest difference between two codes."""
    largest = 0.0
    for i in range(first.shape[0]):
        largest = max(largest, abs(first[i] - second[i]))
    return largest


@inlined
def neurons_of(atom, group_length, positive):
    """Return the positive neuron of an atom; its negative one comes `group_length` later."""
    return atom if positive else atom + atom // group_length * group_length


@inner
def read_rates(moments, time, scale, group_length, positive, offset, code):
    """Write the offset plus the rates of a stage, through the smooth window over all of it."""
    square = time * time
    second = 30.0 * scale / (square * time)
    third, fourth = -2.0 * second / time, second / square
    for i in range(code.shape[0]):
        # Of a spike at the very end of the window only rounding is left, which must not be negative.
        m = moments[neurons_of(i, group_length, positive)]
        rate = max(second * m[0] + third * m[1] + fourth * m[2], 0.0)
        if not positive:
            m = moments[neurons_of(i, group_length, positive) + group_length]
            rate -= max(second * m[0] + third * m[1] + fourth * m[2], 0.0)
        code[i] = offset[i] + rate


@inlined
def is_suppressed(i, problem, moments, potential, offset):
    """Return whether an atom has an offset that is too large: its neuron has not fired, and is driven away
    from its threshold."""
    if offset[i] == 0.0:
        return False
    neuron = neurons_of(i, problem.group_length, problem.positive)
    if offset[i] < 0.0:
        neuron += problem.group_length
    return moments[neuron, 0] == 0.0 and potential[neuron] < 0.0


@inner
def n_suppressed(problem, moments, potential, offset):
    """Return how many atoms have offsets that are too large."""
    count = 0
    for i in range(offset.shape[0]):
        count += is_suppressed(i, problem, moments, potential, offset)
    return count


@inner
def widen(problem, moments, potential, has_progress, offset, width):
    """Widen the margins of atoms whose offsets are too large; after progress, narrow those of others.

    Without progress narrower margins would bring the same offsets again.
    """
    for i in range(offset.shape[0]):
        if is_suppressed(i, problem, moments, potential, offset):
            width[i] *= WIDER
        elif has_progress:
            width[i] = max(1.0, NARROWER * width[i])


@inner
def set_offset(code, margin, width, offset):
    """Write the code, drawn towards zero by margins; entries of less than two margins become zero."""
    for i in range(code.shape[0]):
        size, own = abs(code[i]), margin * width[i]
        offset[i] = math.copysign(size - own, code[i]) if size > 2.0 * own else 0.0


@inner
def drive_of(correlations, l1_weights, diagonal, group_length, positive, offset, currents, soma_bias):
    """Write the drive of a network that codes what the offset leaves; return its scale, 0 if none is
    driven."""
    largest = 0.0
    for i in range(offset.shape[0]):
        left = correlations[i] - diagonal[i] * offset[i] + currents[i]
        neuron = neurons_of(i, group_length, positive)
        soma_bias[neuron] = left - l1_weights[i]
        if left - l1_weights[i] > largest * diagonal[i]:
            largest = (left - l1_weights[i]) / diagonal[i]
        if not positive:
            soma_bias[neuron + group_length] = -left - l1_weights[i]
            if -left - l1_weights[i] > largest * diagonal[i]:
                largest = (-left - l1_weights[i]) / diagonal[i]
    scale = largest / RATE_PER_DRIVE
    if scale > 0.0:
        for i in range(soma_bias.shape[0]):
            soma_bias[i] /= scale
    return scale


@inner
def set_potentials(problem, n_stages, soma_bias, potential):
    """Write where the neurons of a stage start."""
    lag = LAG if n_stages > 1 else 0.0
    diagonal, group_length, positive = problem.diagonal, problem.group_length, problem.positive
    for i in range(diagonal.shape[0]):
        start = HEAD_START * diagonal[i]
        neuron = neurons_of(i, group_length, positive)
        potential[neuron] = start + lag * min(soma_bias[neuron], 0.0)
        if not positive:
            neuron += group_length
            potential[neuron] = start + lag * min(soma_bias[neuron], 0.0)


@inlined
def keep_if_better(look, gap, code, best):
    """Keep a code if its gap is less than that of the best."""
    if gap < look.gap:
        look.gap = gap
        for i in range(code.shape[0]):
            best[i] = code[i]


@inner
def begin_stage(form, problem, k, look, codes, max_duration, drives, work):
    """Set the offset of the next stage behind the best code, and the drive of its network; return whether
    one is driven.

    If none is though the code is not good enough, offsets are too large: they are drawn back.
    """
    b, l1_weights, diagonal = problem.correlations[k], problem.l1_weights, problem.diagonal
    positive = problem.positive
    best, before, offset, width = codes.best[k], codes.before[k], codes.offset[k], codes.width[k]
    look.n_multiply_adds += caused_currents(form, best, work.currents)[1]
    current_code(b, l1_weights, diagonal, positive, work.currents, work.code)
    step = largest_difference(best, work.code)
    has_progress = look.gap <= SOME * look.gap_before
    if look.n_stages > 0 and has_progress and look.step > 0.0:
        # How much further than its Jacobi step the code before was from where it came.
        condition = min(max(largest_difference(best, before) / look.step, 1.0), LARGEST_CONDITION)
        look.margin = LEAST_MARGIN * condition
    elif look.stop >= LAST_LIMIT:
        look.margin *= MARGIN_ON_FAILURE
    look.step = step
    look.gap_before = look.gap
    look.stop = min(FIRST_LOOK, max_duration - look.duration)
    look.n_stages += 1
    for i in range(best.shape[0]):
        before[i] = best[i]
    for _ in range(MOST_ATTEMPTS):
        set_offset(best, look.margin * step, width, offset)
        look.n_multiply_adds += caused_currents(form, offset, work.currents)[1] + best.shape[0]
        look.scale = drive_of(
            b,
            l1_weights,
            diagonal,
            problem.group_length,
            positive,
            offset,
            work.currents,
            drives.soma_bias[k],
        )
        if look.scale > 0.0:
            set_potentials(problem, look.n_stages, drives.soma_bias[k], drives.potential[k])
            return True
        look.margin *= MARGIN_ON_FAILURE
    return False


@uncounted
def begin(form, problem, max_duration, looks, codes, drives, work):
    """Measure the codes that all signals start from, and set up the first stage of those not good enough."""
    for k in range(looks.shape[0]):
        look = looks[k]
        look.limit = FIRST_LIMIT
        look.margin = LEAST_MARGIN
        look.n_multiply_adds = caused_currents(form, codes.best[k], work.currents)[1]
        look.n_multiply_adds += PRODUCTS_OF_GAP * codes.best.shape[1]
        look.gap = measured_gap(problem, k, codes.best[k], work.currents)
        look.status = DONE
        if look.gap > look.target and begin_stage(form, problem, k, look, codes, max_duration, drives, work):
            look.status = STAGE_ENDED


@inner
def stage_ends(look, problem, moments, potential, offset):
    """Return whether to go on from the best code: the gap has fallen far enough, or will not for long."""
    if look.gap <= ENOUGH * look.gap_before:
        return True
    # A neuron that is silent because its offset is too large will stay so.
    patience = 2.0 if look.gap <= SOME * look.gap_before else 4.0
    if look.stop >= patience * FIRST_LOOK and n_suppressed(problem, moments, potential, offset) > 0:
        return True
    if look.stop < look.limit:
        return False
    is_last = look.limit >= LAST_LIMIT
    look.limit = min(LIMIT_GROWTH * look.limit, LAST_LIMIT)
    return is_last or look.gap <= SOME * look.gap_before


@uncounted
def look_at(form, problem, signals, moments, max_duration, refine, looks, codes, drives, work):
    """Look at the networks of some signals, each at its time `stop`, and say how to go on.

    form : the weights of the positive neurons alone, one for each atom
    moments : of the spike times of all neurons since the stage began
    drives : written where a stage begins
    """
    l1_weights, diagonal, positive = problem.l1_weights, problem.diagonal, problem.positive
    for position in range(signals.shape[0]):
        k = signals[position]
        look, best, offset = looks[k], codes.best[k], codes.offset[k]
        b, time = problem.correlations[k], look.stop
        read_rates(moments[k], time, look.scale, problem.group_length, positive, offset, work.code)
        look.n_multiply_adds += caused_currents(form, work.code, work.currents)[1]
        look.n_multiply_adds += PRODUCTS_OF_GAP * best.shape[0] + PRODUCTS_OF_RATE * moments.shape[1]
        gap = measured_gap(problem, k, work.code, work.currents)
        keep_if_better(look, gap, work.code, best)
        if look.gap > look.target:
            current_code(b, l1_weights, diagonal, positive, work.currents, work.stepped)
            is_known, n_multiply_adds = caused_currents(form, work.stepped, work.stepped_currents)
            look.n_multiply_adds += n_multiply_adds
            if is_known:
                look.n_multiply_adds += PRODUCTS_OF_GAP * best.shape[0]
                gap = measured_gap(problem, k, work.stepped, work.stepped_currents)
                keep_if_better(look, gap, work.stepped, best)
        # The last look is at this difference; the sum may round to less than the duration.
        is_over = time >= max_duration - look.duration
        has_ended = look.gap <= look.target or is_over
        look.status = DONE if has_ended else GOES_ON
        if not has_ended and refine and stage_ends(look, problem, moments[k], drives.potential[k], offset):
            look.duration += time
            has_progress = look.gap <= SOME * look.gap_before
            widen(problem, moments[k], drives.potential[k], has_progress, offset, codes.width[k])
            is_driven = begin_stage(form, problem, k, look, codes, max_duration, drives, work)
            look.status = STAGE_ENDED if is_driven else DONE
        elif has_ended:
            look.duration = max_duration if is_over else look.duration + time
        else:
            look.stop = min(time * LOOK_GROWTH, max_duration - look.duration)
            if refine:
                look.stop = min(look.stop, look.limit)


@uncounted
def go_on(form, problem, signals, max_duration, refine, looks, codes, drives, work):
    """Go on with signals that were done, whose gaps are not what they seemed, for at most half of those."""
    for position in range(signals.shape[0]):
        k = signals[position]
        look = looks[k]
        look.target = 0.5 * min(look.target, look.gap)
        # A signal that was done before its first stage has none to go on with.
        if refine or look.n_stages == 0:
            is_driven = begin_stage(form, problem, k, look, codes, max_duration, drives, work)
            look.status = STAGE_ENDED if is_driven else DONE
        else:
            look.duration -= look.stop
            look.stop = min(look.stop * LOOK_GROWTH, max_duration - look.duration)
            look.status = GOES_ON

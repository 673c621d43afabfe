"""Runs with graded inputs on a clock: both phases of each row of a batch, and what its neurons observe."""

import math
from typing import NamedTuple

import numpy as np

from dictlearn.two_phase._kernels.updates import observe_row
from snn._kernels.compiling import record, uncounted
from snn._kernels.faults import NoFaults
from snn._kernels.real_neurons import RealNeurons
from snn._kernels.rows import Rows
from snn._kernels.stepped import Copies, MessageLog, advance_copies

# Rows of memory for the neurons of one row of a batch: floats and integers.
N_FLOATS, N_INTEGERS = 7, 4
BIAS, POTENTIAL, CURRENT, REMOVED, TRACE, SETTLED, GROWTH = range(N_FLOATS)
COUNTS, SETTLED_COUNTS, FIRED, ROW_OF = range(N_INTEGERS)
# Where a run is: the row of the batch, its phase, its spikes, and the steps of the row; the rest is 0.
PLACE_SIZE = 6
ROW, PHASE, N_SPIKES, STEPS, STEPS_BEFORE, COPY = range(PLACE_SIZE)
NOT_BEGUN, SETTLING, OBSERVED = range(3)
# Moments, and slots of what is on its way, that perfect neurons do not have.
NOTHING = np.empty((1, 0, 0)), np.empty((1, 0), dtype=np.bool_)


@record
class End(NamedTuple):
    """The time at which copies stop, and stay."""

    time: float

    def stop_of(self, k):
        """Return when copy k stops."""
        return self.time

    def go_on(self, neurons, states, k):
        """Return whether copy k goes on, and the work done."""
        return False, 0


@uncounted
def run_rows(
    place, budget, end, step, charge, subtracts, drives, allowed, n_spikes, numbers, integers, workspace,
    cross, nothing, is_nothing, signals, fired, codes, g_d, g_h, duration, kappa, feedback, lateral, closed,
):  # fmt: skip
    """Go on with rows until all are done or the budget is spent; return False at one with too many spikes."""
    # The budget is in steps and spikes.  The memory of one row serves all, one after the other.
    n_neurons, n_atoms, decay = drives.shape[1], feedback.shape[0], math.exp(-step)
    growth, counts, settled = numbers[GROWTH], integers[COUNTS], numbers[SETTLED]
    active, steps, none = place[COPY : COPY + 1], place[STEPS : STEPS + 1], place[:0]
    neurons = RealNeurons(
        NoFaults(0), step, charge, decay, subtracts, numbers[BIAS : BIAS + 1],
        numbers[POTENTIAL : POTENTIAL + 1], numbers[CURRENT : CURRENT + 1], numbers[REMOVED : REMOVED + 1],
        numbers[TRACE : TRACE + 1], growth, 1.0 / decay, workspace,
    )  # fmt: skip
    copies = Copies(
        step, steps, place[STEPS_BEFORE : STEPS_BEFORE + 1], integers[COUNTS : COUNTS + 1], nothing[:0],
        nothing, is_nothing, integers[FIRED],
    )  # fmt: skip
    for i in range(n_atoms):
        integers[ROW_OF, i] = i
    synapses, log = Rows(closed, integers[ROW_OF, :n_atoms], -1.0, cross), MessageLog(none, none, none)
    share = charge / -math.expm1(-step) / duration
    while place[ROW] < drives.shape[0] and budget > 0:
        k = place[ROW]
        settles = False
        for i in range(signals.shape[1]):
            settles |= signals[k, i] != 0.0
        if place[PHASE] == NOT_BEGUN:
            # Without a signal nobody but a probe fires: there is nothing to settle.
            place[PHASE] = SETTLING if settles else OBSERVED
            place[N_SPIKES] = steps[0] = 0
            growth[0] = 1.0
            for i in range(n_neurons):
                numbers[BIAS, i] = drives[k, i]
                counts[i] = integers[SETTLED_COUNTS, i] = 0
                numbers[POTENTIAL, i] = numbers[CURRENT, i] = numbers[TRACE, i] = settled[i] = 0.0
        until = End(2.0 * end if settles and place[PHASE] == OBSERVED else end)
        before, most = steps[0], int(allowed[k]) + 1 - place[N_SPIKES]
        is_at_end, n_new, _ = advance_copies(
            neurons, synapses, copies, active, 0, until, budget, min(budget, most), log
        )
        budget -= steps[0] - before + n_new
        place[N_SPIKES] += n_new
        if place[N_SPIKES] > allowed[k]:
            return False
        if is_at_end == 0:
            continue
        if place[PHASE] == SETTLING:
            place[PHASE], place[N_SPIKES] = OBSERVED, 0
            for i in range(n_neurons):
                integers[SETTLED_COUNTS, i], settled[i] = counts[i], numbers[TRACE, i] / growth[0]
            continue
        n_spikes[k] = 0
        for i in range(n_neurons):
            n_spikes[k] += counts[i]
            counts[i] -= integers[SETTLED_COUNTS, i]
            settled[i] -= numbers[TRACE, i] / growth[0]
        observe_row(
            k, counts[:n_neurons], settled, signals, fired, codes, g_d, g_h, share, kappa, feedback, lateral,
            closed,
        )  # fmt: skip
        place[ROW], place[PHASE] = k + 1, NOT_BEGUN
    return True

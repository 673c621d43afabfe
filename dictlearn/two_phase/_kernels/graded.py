"""Runs of both phases with graded inputs on a clock, row by row, and the observations of neurons."""

import math
from typing import NamedTuple

import numpy as np

from dictlearn.two_phase._kernels.updates import observe_row
from snn._kernels.compiling import inner, uncounted
from snn._kernels.delivery import add_scaled
from snn._kernels.faults import NoFaults
from snn._kernels.real_neurons import CURRENT_ROW, POTENTIAL_ROW, RISE_ROW, THRESHOLD_ROW, RealNeurons
from snn._kernels.rows import Rows

# Number of float arrays, and number of integer arrays, that the neurons of one row need besides the
# workspace.
N_FLOATS, N_INTEGERS = 4, 4
REMOVED, FILTERED, SETTLED, GROWTH = range(N_FLOATS)
COUNTS, SETTLED_COUNTS, FIRED, ROW_OF = range(N_INTEGERS)
# Position of a run: the row of the batch, its phase, and the numbers of spikes and steps in this phase.
PLACE_SIZE = 4
ROW, PHASE, N_SPIKES, STEP = range(PLACE_SIZE)
NOT_BEGUN, SETTLING, OBSERVED = range(3)


class Listed(NamedTuple):
    """The memory in which `integrate_step` lists the neurons that fire in a step."""

    fired: np.ndarray


@uncounted
def run_rows(
    place, budget, n_steps, step, charge, subtracts, drives, allowed, n_spikes, numbers, integers, workspace,
    cross, known, shares, thresholds, forward, masked, signals, fired, codes, g_d, g_h, duration, kappa,
    feedback, lateral, closed,
):  # fmt: skip
    """Advance rows until all are done or the budget is spent; return False if a row has too many spikes."""
    # Each step and each spike uses one unit of the budget.  Rows use the same memory one after the other.
    n_neurons, n_atoms, decay = drives.shape[1], feedback.shape[0], math.exp(-step)
    growth, settled, counts = numbers[GROWTH], numbers[SETTLED], integers[COUNTS]
    listed = Listed(integers[FIRED])
    # The neurons' state stays in the workspace, so that no kernel copies a state.
    removed, trace = numbers[REMOVED : REMOVED + 1], numbers[FILTERED : FILTERED + 1]
    neurons = RealNeurons(
        NoFaults(0), step, charge, decay, subtracts, removed, removed, removed, removed, trace, growth,
        1.0 / decay, workspace,
    )  # fmt: skip
    row_of, is_masked = integers[ROW_OF, :n_atoms], known.shape[0] > 0
    synapses = Rows(masked if is_masked else closed, row_of, -1.0, cross)
    share = charge / -math.expm1(-step) / duration
    while place[ROW] < drives.shape[0] and budget > 0:
        k = place[ROW]
        if place[PHASE] == NOT_BEGUN:
            # A row without a signal has only a probe, and skips the first phase.
            place[PHASE], place[N_SPIKES], place[STEP] = OBSERVED, 0, 0
            for i in range(signals.shape[1]):
                if signals[k, i] != 0.0:
                    place[PHASE] = SETTLING
            growth[0] = 1.0
            if is_masked:
                for i in range(n_neurons):
                    workspace[THRESHOLD_ROW, i] = thresholds[k, i % n_atoms]
                for i in range(cross.shape[0]):
                    cross[i] = thresholds[k, i]
                row_of[:] = -1
            for i in range(n_neurons):
                workspace[RISE_ROW, i] = drives[k, i] * step
                workspace[POTENTIAL_ROW, i] = workspace[CURRENT_ROW, i] = trace[0, i] = settled[i] = 0.0
                counts[i] = integers[SETTLED_COUNTS, i] = 0
        now, n_now = place[STEP], place[N_SPIKES]
        while now < n_steps and budget > 0 and n_now <= allowed[k]:
            now += 1
            budget -= 1
            for f in range(neurons.integrate_step(listed, 0, now)):
                neuron = listed.fired[f]
                count, _, _ = neurons.fire(0, neuron)
                j = neuron % n_atoms
                if row_of[j] < 0:
                    row = slice(n_atoms * j, n_atoms * (j + 1))
                    set_row(masked[row], shares[k], known[k], forward, feedback[j], lateral[j], closed[row])
                    row_of[j] = j
                neurons.receive(synapses, neuron, count)
                counts[neuron] += count
                n_now += count
                budget -= count
        place[STEP], place[N_SPIKES] = now, n_now
        if n_now > allowed[k]:
            return False
        if now == n_steps and place[PHASE] == SETTLING:
            place[PHASE], place[N_SPIKES], place[STEP] = OBSERVED, 0, 0
            for i in range(n_neurons):
                integers[SETTLED_COUNTS, i], settled[i] = counts[i], trace[0, i] / growth[0]
        elif now == n_steps:
            n_spikes[k] = 0
            for i in range(n_neurons):
                n_spikes[k] += counts[i]
                counts[i] -= integers[SETTLED_COUNTS, i]
                settled[i] -= trace[0, i] / growth[0]
            observe_row(
                k, counts[:n_neurons], settled, signals, fired, codes, g_d, g_h, share, kappa, feedback,
                lateral, closed,
            )  # fmt: skip
            for i in range(known.shape[1] if is_masked else 0):
                g_d[k, i] *= known[k, i]
            place[ROW], place[PHASE] = k + 1, NOT_BEGUN
    return True


@inner
def set_row(row, shares, known, forward, feedback, lateral, closed):
    """Set the weights from one neuron: its rows of `closed`, of H and of F B, times `shares` and added up."""
    # F B is summed over the known inputs if shares[2] > 0, otherwise over the unknown inputs.
    for i in range(row.shape[0]):
        row[i] = shares[0] * closed[i] + shares[1] * lateral[i]
    for i in range(known.shape[0]):
        if known[i] == (shares[2] > 0.0):
            add_scaled(row, forward[i], shares[2] * feedback[i])

"""Neurons on a clock whose states are real numbers, without imperfections; `faults` adds imperfections."""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inner, record
from snn._kernels.stepped import ClockNeurons, restart_steps

# Rows of the workspace.  RISE_ROW says how far the bias of a neuron raises its potential in a step.
POTENTIAL_ROW, CURRENT_ROW, RISE_ROW, THRESHOLD_ROW = 0, 1, 2, 3
CHUNK = 32  # the workspace has a multiple of CHUNK neurons; the additional neurons never fire
ONE_NEURON = 2**32  # each neuron that fires adds this number and its index to a sum (`_integrate`)
MOST_AT_ONCE = 1024.0  # most spikes of one neuron in one step; the remaining charge stays for the next step
LARGEST_TRACE_GROWTH = 1e50  # largest e^t before traces are rescaled, far below the largest float


class _RealNeurons(NamedTuple):
    # A step of a perfect neuron with bias beta, potential v and current h:
    #     v <- v + rise beta + arrival h    rise = dt; arrival = 1 - e^-dt (exact), or dt (Euler's step)
    #     h <- decay h                      decay = e^-dt
    # A step reads four numbers per neuron and writes two.  The speed of the first-level cache limits a step,
    # which takes 0.2 ns per neuron.  To move less data, charge and filtered spikes are updated only at
    # spikes, no flags are stored, and the running copy is kept in a workspace aligned to cache lines.

    faults: tuple
    rise: float
    arrival: float
    decay: float
    subtract: bool  # True: a spike subtracts the threshold from the potential; False: a spike sets it to zero
    bias: np.ndarray
    potential: np.ndarray
    current: np.ndarray
    removed: np.ndarray  # charge that resets took from the potential
    trace: np.ndarray  # filtered spikes times `growth`, so that a spike changes only one entry
    growth: np.ndarray  # shape (n_copies,): e^t, which a step multiplies by `step_growth`
    step_growth: float  # e^dt
    workspace: np.ndarray  # the running copy, shape (4, n_neurons with padding)


@record
class RealNeurons(_RealNeurons, ClockNeurons):
    """Neurons whose states are real numbers."""

    __slots__ = ()

    def enter(self, k):
        bias, potential, current = self.bias[k], self.potential[k], self.current[k]
        for i in range(bias.shape[0]):
            self.workspace[POTENTIAL_ROW, i] = potential[i]
            self.workspace[CURRENT_ROW, i] = current[i]
            self.workspace[RISE_ROW, i] = bias[i] * self.rise

    def leave(self, k):
        potential, current, workspace = self.potential[k], self.current[k], self.workspace
        for i in range(potential.shape[0]):
            potential[i] = workspace[POTENTIAL_ROW, i]
            current[i] = workspace[CURRENT_ROW, i]

    def integrate_step(self, copies, k, step):
        growth, trace = self.growth[k] * self.step_growth, self.trace
        if growth > LARGEST_TRACE_GROWTH:
            for i in range(trace.shape[1]):
                trace[k, i] /= growth
            growth = 1.0
        self.growth[k] = growth
        return self.faults.advance_real(self, copies, k, step)

    def advance_perfect(self, copies):
        """Advance perfect neurons in the workspace; list the neurons that fire, and return their number."""
        workspace, fired = self.workspace, copies.fired
        threshold, potential = workspace[THRESHOLD_ROW], workspace[POTENTIAL_ROW]
        fired_sum = _integrate(
            workspace[RISE_ROW], threshold, potential, workspace[CURRENT_ROW], self.arrival, self.decay
        )
        if fired_sum < 2 * ONE_NEURON:
            fired[0] = fired_sum - ONE_NEURON
            return int(fired_sum > 0)
        n_fired = 0
        for first in range(0, potential.shape[0], CHUNK):
            fired_sum = _sum_of_fired(threshold[first : first + CHUNK], potential[first : first + CHUNK])
            if fired_sum < 2 * ONE_NEURON:
                fired[n_fired] = first + fired_sum - ONE_NEURON
                n_fired += fired_sum > 0
                continue
            for i in range(first, first + CHUNK):
                if potential[i] >= threshold[i]:
                    fired[n_fired] = i
                    n_fired += 1
        return n_fired

    def fire(self, k, neuron):
        potential, threshold = self.workspace[POTENTIAL_ROW, neuron], self.workspace[THRESHOLD_ROW, neuron]
        times = 1.0
        # A neuron with a refractory time fires at most once in a step.
        if self.subtract and potential >= 2.0 * threshold and self.faults.refractory_steps == 0:
            times = min(math.floor(potential / threshold), MOST_AT_ONCE)
        taken = times * threshold if self.subtract else potential
        self.workspace[POTENTIAL_ROW, neuron] = potential - taken
        self.removed[k, neuron] += taken
        self.trace[k, neuron] += times * self.growth[k]
        return int(times), 1.0, times

    def arrive(self, copies, k, slot):
        current, arriving = self.workspace[CURRENT_ROW], copies.pending[k, slot]
        for i in range(self.bias.shape[1]):
            current[i] += arriving[i]
            arriving[i] = 0.0
        self.faults.take_further(k, arriving)

    def is_lost(self, states, k):
        potential, threshold, n_above = self.potential[k], self.workspace[THRESHOLD_ROW], 0
        for i in range(potential.shape[0]):
            n_above += potential[i] > threshold[i]
        # Refractory neurons and neurons with raised thresholds may be above `threshold` although no copy is
        # lost.
        return n_above > 0 and self.faults.keeps_up()

    def restart(self, states, k):
        restart_steps(states, k)
        self.faults.clear(k)
        for i in range(self.bias.shape[1]):
            self.removed[k, i] = self.trace[k, i] = 0.0
        self.growth[k] = 1.0

    def receive(self, form, source, count):
        """Add the weights of a source to the currents in the workspace."""
        form.add_weights(self.workspace[CURRENT_ROW], source, count)


@inner
def _integrate(rise, threshold, potential, current, arrival, decay):
    """Advance potentials and currents; return the sum of ONE_NEURON + i over all i that fire."""
    # The sum tells whether no neuron, one neuron or several neurons fire.  If one neuron fires, the sum also
    # has its index.  In most steps at most one neuron fires, and no further pass is needed.
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

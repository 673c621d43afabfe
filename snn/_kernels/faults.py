"""Imperfections of neurons on a clock, for `real_neurons` and `digital_neurons`."""

from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import record
from snn._kernels.digital_neurons import rounded_quotient
from snn._kernels.random_numbers import fill_normals, n_that_arrive
from snn._kernels.real_neurons import CURRENT_ROW, POTENTIAL_ROW, RISE_ROW, THRESHOLD_ROW


@record
class NoFaults(NamedTuple):
    """The absence of imperfections; the docstrings of the methods also describe the methods of `Faults`."""

    refractory_steps: int

    def keeps_up(self):
        """Return whether a potential above its threshold after a step means that the copy is lost."""
        return True

    def clear(self, k):
        """End all refractory times of copy k, and set its counts to zero."""
        return

    def take_further(self, k, arriving):
        """Add the arriving charge of further time constants to their currents, and clear this charge."""
        return

    def n_that_reach(self, k, neuron, step, count):
        """Return how many of the `count` spikes of a neuron reach its targets."""
        return count

    def advance_real(self, neurons, copies, k, step):
        """Advance `RealNeurons` by a step; list the neurons that fire, and return their number."""
        return neurons.advance_perfect(copies)

    def disturb(self, neurons, k, step):
        """Apply leak, noise and floor to integer potentials, before drive and current are added."""
        return

    def n_free(self, k, fired, n_fired):
        """Remove refractory neurons from a list, shorten all waiting times, and return the list's length."""
        return n_fired


@record
class Faults(NamedTuple):
    """Imperfections of neurons."""

    # A step of a real neuron, with x a standard normal number:
    #     refractory:  v stays, and the charge that arrives is refused
    #     otherwise:   v <- keep v + rise beta + arrival h + noise theta x
    # The charge of a step is dt beta + charge h.  Charge that does not reach the potential has leaked.

    refractory_steps: int  # number of steps after a spike in which a neuron does not integrate
    noise: float  # standard deviation of the noise of a potential in one step, in thresholds
    floor: float  # the lowest potential, in thresholds
    lost: float  # probability that a spike reaches no target
    key: int  # key of the random numbers
    waiting: np.ndarray  # number of steps until each neuron integrates again
    n_lost: np.ndarray  # number of spikes of each neuron that reached no target
    normals: np.ndarray  # memory of one random number for each neuron
    # Sums of the charge of real neurons; empty arrays for neurons in integers.
    leaked: np.ndarray
    refused: np.ndarray
    kicks: np.ndarray  # charge that noise and the floor have added
    threshold: np.ndarray  # thresholds before any spike has raised them
    # Only real neurons have the following fields.
    keep: float = 1.0  # factor of potentials in a step; neurons in integers have their leak in `Rules`
    charge: float = 0.0  # charge of a step for one unit of current at the beginning of the step
    raised: np.ndarray = np.empty((1, 0))  # amounts by which spikes have raised thresholds, or an empty array
    raise_by: float = 0.0  # amount by which one spike raises a threshold, in thresholds
    stays: float = 1.0  # the part of `raised` that remains after a step
    # Currents of further time constants, shape (n_copies, n_kinds, n_neurons), and constants of each kind.
    currents: np.ndarray = np.empty((1, 0, 0))
    decays: np.ndarray = np.empty(0)
    arrivals: np.ndarray = np.empty(0)
    charges: np.ndarray = np.empty(0)

    def keeps_up(self):
        return self.refractory_steps == 0 and self.raised.shape[1] == 0

    def clear(self, k):
        for i in range(self.waiting.shape[1]):
            self.waiting[k, i] = self.n_lost[k, i] = 0
        for i in range(self.leaked.shape[1]):
            self.leaked[k, i] = self.refused[k, i] = self.kicks[k, i] = 0.0

    def n_that_reach(self, k, neuron, step, count):
        self.waiting[k, neuron] = self.refractory_steps
        n_arrived = n_that_arrive(self.key, step, neuron, count, self.lost)
        self.n_lost[k, neuron] += count - n_arrived
        if self.raised.shape[1] > 0:
            self.raised[k, neuron] += count * self.raise_by * self.threshold[neuron]
        return n_arrived

    def take_further(self, k, arriving):
        n_kinds, n_neurons = self.currents.shape[1:]
        for kind in range(n_kinds):
            for i in range(n_neurons):
                place = (kind + 1) * n_neurons + i
                self.currents[k, kind, i] += arriving[place]
                arriving[place] = 0.0

    def advance_real(self, neurons, copies, k, step):
        workspace, bias, waiting = neurons.workspace, neurons.bias[k], self.waiting[k]
        leaked, refused, kicks = self.leaked[k], self.refused[k], self.kicks[k]
        if self.noise > 0.0:
            fill_normals(self.key, step, self.normals)
        n_fired = 0
        for i in range(bias.shape[0]):
            h, threshold = workspace[CURRENT_ROW, i], self.threshold[i]
            workspace[CURRENT_ROW, i] = h * neurons.decay
            charge = bias[i] * copies.time_step + h * self.charge
            rise = workspace[RISE_ROW, i] + h * neurons.arrival
            for kind in range(self.decays.shape[0]):
                h = self.currents[k, kind, i]
                self.currents[k, kind, i] = h * self.decays[kind]
                charge += h * self.charges[kind]
                rise += h * self.arrivals[kind]
            if self.raised.shape[1] > 0:
                self.raised[k, i] *= self.stays
                threshold += self.raised[k, i]
                workspace[THRESHOLD_ROW, i] = threshold
            if waiting[i] > 0:
                waiting[i] -= 1
                refused[i] += charge
                continue
            before = workspace[POTENTIAL_ROW, i]
            v = self.keep * before + rise
            if self.keep != 1.0:
                leaked[i] += charge - (v - before)
            if self.noise > 0.0:
                kick = self.noise * self.threshold[i] * self.normals[i]
                kicks[i] += kick
                v += kick
            lowest = self.floor * self.threshold[i]
            if v < lowest:
                kicks[i] += lowest - v
                v = lowest
            workspace[POTENTIAL_ROW, i] = v
            if v >= threshold:
                copies.fired[n_fired] = i
                n_fired += 1
        return n_fired

    def disturb(self, neurons, k, step):
        rules, potential, waiting = neurons.rules, neurons.potential[k], self.waiting[k]
        if self.noise > 0.0:
            fill_normals(self.key, step, self.normals)
        for i in range(potential.shape[0]):
            v = potential[i]
            if waiting[i] > 0:
                # The step adds drive and current next, which brings the potential back to its present value.
                potential[i] = v - neurons.drive[k, i] - neurons.current[k, i]
                continue
            v -= rounded_quotient(v * rules.leak, rules.decay_bits, rules.decay_rounding)
            if self.noise > 0.0:
                v += int(np.rint(self.noise * neurons.threshold[i] * self.normals[i]))
            if self.floor > -np.inf:
                v = max(v, int(np.rint(self.floor * neurons.threshold[i])))
            potential[i] = v

    def n_free(self, k, fired, n_fired):
        waiting, n_going = self.waiting[k], 0
        for f in range(n_fired):
            if waiting[fired[f]] == 0:
                fired[n_going] = fired[f]
                n_going += 1
        for i in range(waiting.shape[0]):
            if waiting[i] > 0:
                waiting[i] -= 1
        return n_going

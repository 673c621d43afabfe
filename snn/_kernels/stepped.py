"""The loop over the steps of a clock, which advances copies of a network one by one until a budget is spent.

In each step, all neurons integrate, the neurons at or above their thresholds fire, and the charge that
arrives at the end of the step is added to the synaptic currents.  One loop serves all kinds of neurons
(`ClockNeurons`) and all kinds of synapses: forms of weights, `DelayedSources` and `DelayedSynapses` have the
method `send`.
"""

import math
from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inlined, inner, record, uncounted
from snn._kernels.delivery import Form
from snn._kernels.neuron import add_to_moments
from snn._kernels.sparse_rows import CompressedRows
from snn._kernels.stops import StoppedNeurons


class Copies(NamedTuple):
    """The state of the copies of a network, for any kind of neurons: one row for each copy."""

    time_step: float
    steps: np.ndarray  # shape (n_copies,): number of steps since the last restart
    # Shape (n_copies,): number of steps before the last restart, so that random numbers do not repeat.
    steps_before: np.ndarray
    spike_counts: np.ndarray
    moments: np.ndarray  # moments of spike times of each neuron (`neuron.add_to_moments`), or an empty array
    # Shape (n_copies, n_slots, n_kinds * n_neurons), ordered by kinds of currents: slot s modulo n_slots has
    # the charge that arrives at the end of step s.
    pending: np.ndarray
    is_due: np.ndarray  # shape (n_copies, n_slots): whether a slot has any charge
    fired: np.ndarray  # work array of the neurons that fire in a step


@record
class DelayedSources(NamedTuple):
    """A form of weights with one delay for each source."""

    form: Form
    delays: np.ndarray  # delay of each source in whole steps, shape (n_neurons,)
    first: np.ndarray  # for each source, the place in a slot where the currents of its kind begin

    def send(self, neurons, copies, k, neuron, step, message):
        slot = (step + self.delays[neuron]) % copies.pending.shape[1]
        copies.is_due[k, slot] = True
        self.form.add_weights(copies.pending[k, slot, self.first[neuron] :], neuron, message)


@record
class DelayedSynapses(NamedTuple):
    """Compressed rows with one delay for each weight."""

    form: CompressedRows
    delays: np.ndarray  # delay of each weight in whole steps, shape (n_weights,)
    first: np.ndarray

    def send(self, neurons, copies, k, neuron, step, message):
        form, n_slots = self.form, copies.pending.shape[1]
        for entry in range(form.starts[neuron], form.starts[neuron + 1]):
            slot = (step + self.delays[entry]) % n_slots
            copies.is_due[k, slot] = True
            copies.pending[k, slot, self.first[neuron] + form.targets[entry]] += form.weights[entry] * message


class MessageLog(NamedTuple):
    """Recorded spikes: the step, the neuron, and the number in the message of each spike."""

    steps: np.ndarray
    neurons: np.ndarray
    messages: np.ndarray


class ClockNeurons(StoppedNeurons):
    """The neurons of all copies of a run on a clock; arrays have one row for each copy."""

    # The field `faults`, a `NoFaults` or `Faults`, says which spikes are lost.  If synapses may have no
    # delays, the neurons also have the method `receive(form, source, count)`, which adds weights of a source.

    __slots__ = ()

    def enter(self, k):
        """Write the state of copy k to the workspace, if there is one."""
        return

    @abstractmethod
    def leave(self, k):
        """Write the state of copy k back to its row of the arrays, which are read between calls."""

    @abstractmethod
    def integrate_step(self, copies, k, step):
        """Advance copy k by a step without resets; list the neurons that fire, and return their number."""

    @abstractmethod
    def fire(self, k, neuron):
        """Reset a neuron that fires; return (number of spikes, message of a spike, weight in the moments)."""

    @abstractmethod
    def arrive(self, copies, k, slot):
        """Add the charge of a slot to the currents of copy k."""


@inner
def restart_steps(copies, k):
    """Set the clock, moments and pending charge of a copy to time zero; keep its spike counts."""
    copies.steps_before[k] += copies.steps[k]
    copies.steps[k] = 0
    for i in range(copies.moments.shape[1]):
        for p in range(copies.moments.shape[2]):
            copies.moments[k, i, p] = 0.0
    for slot in range(copies.pending.shape[1]):
        copies.is_due[k, slot] = False
        for i in range(copies.pending.shape[2]):
            copies.pending[k, slot, i] = 0


@inlined
def last_step(time, time_step):
    """Return the last step that ends by a time."""
    # By rounding, (n * time_step) / time_step may be a little below n.
    steps = math.floor(time / time_step)
    return int(steps) + ((steps + 1.0) * time_step <= time)


@uncounted
def advance(neurons, synapses, copies, active, first, stops, max_steps, max_spikes, spikes):
    """Advance the copies active[first:] past all their stops; return (position, spikes, entries recorded)."""
    # The next call begins at `position` in `active`.  The loop returns early after `max_steps` steps or
    # `max_spikes` spikes.  A step is not split, so `spikes` needs room for n_neurons entries beyond
    # `max_spikes`, unless `spikes` is empty.
    n_slots = copies.is_due.shape[1]
    n_steps = n_spikes = n_recorded = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        is_going = True
        while is_going:
            stop = last_step(stops.stop_of(k), copies.time_step)
            step, before = copies.steps[k], copies.steps_before[k]
            if step < stop:
                neurons.enter(k)
                while step < stop and n_steps < max_steps and n_spikes < max_spikes:
                    n_steps += 1
                    step += 1
                    n_fired = neurons.integrate_step(copies, k, before + step)
                    for f in range(n_fired):
                        neuron = copies.fired[f]
                        count, message, weight = neurons.fire(k, neuron)
                        copies.spike_counts[k, neuron] += count
                        n_spikes += count
                        if spikes.steps.shape[0] > 0:
                            spikes.steps[n_recorded] = step
                            spikes.neurons[n_recorded] = neuron
                            spikes.messages[n_recorded] = int(count * message)
                            n_recorded += 1
                        if copies.moments.shape[0] > 0:
                            add_to_moments(copies.moments, k, neuron, step * copies.time_step, weight)
                        n_sent = neurons.faults.n_that_reach(k, neuron, before + step, count)
                        if n_sent > 0:
                            synapses.send(neurons, copies, k, neuron, step, n_sent * message)
                    if n_slots > 0:
                        slot = step % n_slots
                        if copies.is_due[k, slot]:
                            neurons.arrive(copies, k, slot)
                            copies.is_due[k, slot] = False
                neurons.leave(k)
                copies.steps[k] = step
                if step < stop:
                    return position, n_spikes, n_recorded
            is_going, n_done = stops.go_on(neurons, copies, k)
            n_steps += n_done
    return active.shape[0], n_spikes, n_recorded

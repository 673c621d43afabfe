"""Records of the times at which copies stop, and of the actions at a stop, such as `Stops`."""

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import record

# Kinds of actions: three changes, and SHOW_POTENTIALS, which copies potentials and changes nothing.
SET_DRIVE, ADD_TO_DRIVE, ADD_TO_CURRENT, SHOW_POTENTIALS = 0, 1, 2, 3

# The stop of one copy: the end of its run, and the position of its next change.
STOP = np.dtype([("end", np.float64), ("position", np.int64)], align=True)
# A change from outside has an instant, a kind, and the amounts from `first` to before `last`.  For
# SHOW_POTENTIALS, `first` is the row of `Stops.seen`.
CHANGE = np.dtype(
    [("instant", np.float64), ("kind", np.int64), ("first", np.int64), ("last", np.int64)], align=True
)


class StoppedNeurons:
    """The neurons of a run; the argument `states` is an array of `RUN_STATE`, or a `stepped.Copies`."""

    __slots__ = ()

    @abstractmethod
    def restart(self, states, k):
        """Restart copy k at time zero with its present potentials and currents; keep its counts of spikes."""

    def is_lost(self, states, k):
        """Return whether copy k runs away; always False in exact time, where `advance` stops such copies."""
        return False

    def take_input(self, states, stops, change, k):
        """Add an input spike to the currents of copy k."""
        stops.add_amounts(change, self.current[k])

    def take_changes(self, states, k):
        """Adapt copy k to changed currents and drives: convert numbers, or raise potentials to a floor."""
        return

    def show(self, k, seen):
        """Write the potentials of copy k to `seen`."""
        for i in range(seen.shape[0]):
            seen[i] = self.potential[k, i]


@record
class Stops(NamedTuple):
    """The times at which copies end, and the changes before the ends, which are the same for all copies."""

    copies: np.ndarray  # one `STOP` for each copy
    changes: np.ndarray  # the `CHANGE` records in the order of time; the last record has the instant inf
    targets: np.ndarray  # for each amount, the neuron whose drive or current it changes
    amounts: np.ndarray
    seen: np.ndarray  # potentials of the only copy, with one row for each SHOW_POTENTIALS

    def add_amounts(self, change, numbers):
        """Add the amounts of a change to the numbers of its targets."""
        for entry in range(change.first, change.last):
            numbers[self.targets[entry]] += self.amounts[entry]

    def stop_of(self, k):
        """Return the time of the next stop of copy k."""
        copy = self.copies[k]
        return min(self.changes[copy.position].instant, copy.end)

    def go_on(self, neurons, states, k):
        """Make the changes at a stop of copy k; return (whether the copy goes on, work in spikes)."""
        copy = self.copies[k]
        now = self.changes[copy.position].instant
        if now > copy.end:
            return False, 0
        n_changes = 0
        while (
            self.changes[copy.position].instant == now and self.changes[copy.position].kind != SHOW_POTENTIALS
        ):
            change = self.changes[copy.position]
            copy.position += 1
            n_changes += 1
            if change.kind == ADD_TO_CURRENT:
                neurons.take_input(states, self, change, k)
                continue
            if change.kind == SET_DRIVE:
                for i in range(neurons.bias.shape[1]):
                    neurons.bias[k, i] = 0.0
            self.add_amounts(change, neurons.bias[k])
        if n_changes > 0:
            neurons.take_changes(states, k)
        while self.changes[copy.position].instant == now:  # at one instant, SHOW_POTENTIALS comes last
            neurons.show(k, self.seen[self.changes[copy.position].first])
            copy.position += 1
            n_changes += 1
        return True, n_changes

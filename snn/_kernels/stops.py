"""Where copies stop, and what is done there: `Stops`, or another record with `stop_of` and `go_on`."""

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import record

SET_DRIVE, ADD_TO_DRIVE, ADD_TO_CURRENT, SHOW_POTENTIALS = 0, 1, 2, 3  # kinds of changes; the last is none

# Of a copy: its end, and its next change.
STOP = np.dtype([("end", np.float64), ("position", np.int64)], align=True)
# A change from outside: when and of which kind it is; its amounts are those from `first` to before `last`.
# With SHOW_POTENTIALS `first` is the row of `Stops.seen`.
CHANGE = np.dtype(
    [("instant", np.float64), ("kind", np.int64), ("first", np.int64), ("last", np.int64)], align=True
)


class StoppedNeurons:
    """The neurons of a run; `states` are those of its copies: `RUN_STATE` records, or `stepped.Copies`."""

    __slots__ = ()

    @abstractmethod
    def restart(self, states, k):
        """Start copy k again at time zero, from its potentials and currents; spikes go on being counted."""

    def is_lost(self, states, k):
        """Return whether copy k runs away; copies in exact time are given up before they stop."""
        return False

    def take_input(self, states, stops, change, k):
        """Take an input spike of copy k."""
        stops.add_amounts(change, self.current[k])

    def take_changes(self, states, k):
        """Take changed currents and drives of copy k, if its neurons work with other numbers."""
        return

    def show(self, k, seen):
        """Write the potentials of copy k."""
        for i in range(seen.shape[0]):
            seen[i] = self.potential[k, i]


@record
class Stops(NamedTuple):
    """When copies stop, and stay; and changes from outside on the way, which all copies make."""

    copies: np.ndarray  # `STOP` of each
    changes: np.ndarray  # `CHANGE` of each, in order, and one that never comes
    targets: np.ndarray  # the neuron of each amount
    amounts: np.ndarray
    seen: np.ndarray  # potentials of the only copy at looks, a row each

    def add_amounts(self, change, numbers):
        """Add the amounts of a change to the numbers of its targets."""
        for entry in range(change.first, change.last):
            numbers[self.targets[entry]] += self.amounts[entry]

    def stop_of(self, k):
        """Return when copy k stops next."""
        copy = self.copies[k]
        return min(self.changes[copy.position].instant, copy.end)

    def go_on(self, neurons, states, k):
        """Do what is due at a stop of copy k; return whether it goes on, and the work done, in spikes."""
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
        while self.changes[copy.position].instant == now:  # looks come after changes
            neurons.show(k, self.seen[self.changes[copy.position].first])
            copy.position += 1
            n_changes += 1
        return True, n_changes

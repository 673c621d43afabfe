"""Where copies stop, and what is done there before they go on: another record makes another kernel."""

from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inner, resolved_by_record

SET_DRIVE, ADD_TO_DRIVE, ADD_TO_CURRENT = 0, 1, 2  # kinds of changes

STOP = np.dtype(
    [("end", np.float64), ("position", np.int64)], align=True
)  # of a copy: its end, and its next change
# A change from outside: when and of which kind it is; its amounts are those from `first` to before `last`.
CHANGE = np.dtype(
    [("instant", np.float64), ("kind", np.int64), ("first", np.int64), ("last", np.int64)], align=True
)


class Stops(NamedTuple):
    """When copies stop, and stay; and changes from outside on the way, which all copies make."""

    copies: np.ndarray  # `STOP` of each
    changes: np.ndarray  # `CHANGE` of each, in order, and one that never comes
    targets: np.ndarray  # the neuron of each amount
    amounts: np.ndarray


@inner
def add_amounts(stops, change, numbers):
    """Add the amounts of a change to the numbers of its targets."""
    for entry in range(change.first, change.last):
        numbers[stops.targets[entry]] += stops.amounts[entry]


@resolved_by_record
def take_input(neurons, states, stops, change, k):
    """Take an input spike of copy k."""
    add_amounts(stops, change, neurons.current[k])


@resolved_by_record
def take_changes(neurons, states, k):
    """Take inputs and the drive of copy k, where neurons hold other numbers."""


@resolved_by_record
def is_lost(neurons, states, k):
    """Whether copy k runs away; copies in exact time are given up before they stop."""
    return False


@resolved_by_record
def stop_of(stops, k):
    """Return when copy k stops next."""
    copy = stops.copies[k]
    return min(stops.changes[copy.position].instant, copy.end)


@resolved_by_record
def go_on(stops, neurons, states, k):
    """Do what is due where copy k has stopped; return whether it goes on, and the work done, in spikes."""
    copy = stops.copies[k]
    now = stops.changes[copy.position].instant
    if now > copy.end:
        return False, 0
    n_changes = 0
    while stops.changes[copy.position].instant == now:
        change = stops.changes[copy.position]
        copy.position += 1
        n_changes += 1
        if change.kind == ADD_TO_CURRENT:
            take_input(neurons, states, stops, change, k)
            continue
        if change.kind == SET_DRIVE:
            for i in range(neurons.bias.shape[1]):
                neurons.bias[k, i] = 0.0
        add_amounts(stops, change, neurons.bias[k])
    take_changes(neurons, states, k)
    return True, n_changes

"""Where copies stop, and what is done there before they go on: another record makes another kernel."""

from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import inner, resolved_by_record

DRIVE, SPIKES = 0, 1  # columns of `Stops.changes`


class Stops(NamedTuple):
    """The times at which copies stop, and stay; and changes from outside on the way, at `instants`."""

    times: np.ndarray  # shape (n_copies,)
    position: np.ndarray  # shape (n_copies,): the next change of each copy
    instants: np.ndarray  # shape (n_changes,), increasing; all copies make all changes
    # Shape (n_changes + 1, 2): the row of `drives` that holds from change m on, -1 where the drive stays; and
    # where its spikes begin in `sources`.
    changes: np.ndarray
    drives: np.ndarray
    soma_bias: np.ndarray  # shape (n_copies, n_neurons): the drives of the copies, which changes write
    sources: np.ndarray
    is_onto_drive: bool  # whether a spike adds its weights to the drive, and not to the synaptic currents
    starts: np.ndarray  # the weights of source j are weights[starts[j] : starts[j + 1]]
    targets: np.ndarray
    weights: np.ndarray


@inner
def add_spikes(stops, m, amounts):
    """Add what the spikes of change m bring to the numbers of all neurons."""
    for spike in range(stops.changes[m, SPIKES], stops.changes[m + 1, SPIKES]):
        source = stops.sources[spike]
        for entry in range(stops.starts[source], stops.starts[source + 1]):
            amounts[stops.targets[entry]] += stops.weights[entry]


@resolved_by_record
def take_spikes(neurons, states, stops, m, k):
    """Add what the spikes of change m bring to the synaptic currents of copy k."""
    add_spikes(stops, m, neurons.current[k])


@resolved_by_record
def take_drive(neurons, k):
    """Take the drive of copy k as it is now, where that is another number to the neurons."""


@resolved_by_record
def is_lost(neurons, states, k):
    """Whether copy k runs away; copies in exact time are given up before they stop."""
    return False


@resolved_by_record
def stop_of(stops, k):
    """Return when copy k stops next."""
    m = stops.position[k]
    return stops.instants[m] if m < stops.instants.shape[0] else stops.times[k]


@resolved_by_record
def go_on(stops, neurons, states, k):
    """Do what is due where copy k has stopped; return whether it goes on to another stop, and the work that
    this took, in spikes."""
    m = stops.position[k]
    if m == stops.instants.shape[0]:
        return False, 0
    stops.position[k] = m + 1
    row = stops.changes[m, DRIVE]
    if row >= 0:
        for i in range(stops.soma_bias.shape[1]):
            stops.soma_bias[k, i] = stops.drives[row, i]
    n_spikes = stops.changes[m + 1, SPIKES] - stops.changes[m, SPIKES]
    if stops.is_onto_drive:
        add_spikes(stops, m, stops.soma_bias[k])
    elif n_spikes > 0:
        take_spikes(neurons, states, stops, m, k)
    if row >= 0 or stops.is_onto_drive:
        take_drive(neurons, k)
    return True, 1 + n_spikes

"""Where copies stop, and what is done there before they go on: another record makes another kernel."""

from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import resolved_by_record


class StopTimes(NamedTuple):
    """The times at which copies stop, and stay."""

    times: np.ndarray


@resolved_by_record
def stop_of(stops, k):
    """Return when copy k stops next."""
    return stops.times[k]


@resolved_by_record
def go_on(stops, neurons, states, k):
    """Do what is due where copy k has stopped; return whether it goes on to another stop, and the work that
    this took, in spikes."""
    return False, 0

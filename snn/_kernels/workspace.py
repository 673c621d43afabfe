"""The memory that event loops work in, allocated once a run and cut up at each call; and how they are run."""

import mmap
from typing import NamedTuple

import numpy as np

from snn._kernels.candidates import CANDIDATE_ROWS, Windows
from snn._kernels.compiling import record
from snn._kernels.event_loop import MOST_EVENTS_PER_WINDOW, integrate_windows
from snn._kernels.run_state import SpikeLog

LARGE = 2**19  # numbers from which on an array is large to NumPy, 4 MB


class Settings(NamedTuple):
    """Plan of a run: it changes spikes by rounding alone."""

    room: int  # neurons of the largest active set; 0 to integrate all
    most_events: int  # spikes of an interval with an active set
    events_in_place: int  # spikes of one without, or of an epoch of a grid
    n_wanted: float  # spikes wanted in a window, where all neurons are integrated
    n_sums: int  # targets of which sums over sources are needed: neurons of a sign pair share theirs
    sums_at_once: int  # how many of these are worked on together
    cost_in_place: float  # nanoseconds of a spike while all neurons are integrated
    cost_of_source: float  # nanoseconds of a source of an interval for the neurons that are screened


def overshoot(n_neurons, settings):
    """Return how many spikes more than it was asked for a call may emit: intervals are never split."""
    longest = settings.most_events if settings.room > 0 else settings.events_in_place
    return longest + MOST_EVENTS_PER_WINDOW + n_neurons


@record
class Work(NamedTuple):
    """Work arrays of one call, which integrates all neurons."""

    bias: np.ndarray
    threshold: np.ndarray
    windows: Windows
    log: SpikeLog

    def integrate(self, form, group, drift, state, remaining, settings):
        """Integrate neurons for the time that remains or less; return (time that passed, spikes, windows)."""
        elapsed, state.window, n_new, n_windows, state.missing = integrate_windows(
            form, group, remaining, state.window, settings.events_in_place, settings.n_wanted, self.windows,
            self.log,
        )  # fmt: skip
        return elapsed, n_new, n_windows


@record
class Memory(NamedTuple):
    """Memory of a run in which all neurons are integrated."""

    floats: np.ndarray
    integers: np.ndarray
    flags: np.ndarray
    candidates: np.ndarray

    def work_of(self, n):
        """Return the work arrays of a call for n neurons: their `integrate` says how these are integrated."""
        floats, integers = self.floats, self.integers
        return Work(
            bias=floats[:n],
            threshold=floats[n : 2 * n],
            windows=Windows(
                excess=floats[2 * n : 3 * n],
                may_fire=self.flags,
                neurons=integers[:n],
                column_of=integers[n : 2 * n],
                candidates=self.candidates,
                crossing=floats[3 * n : 4 * n],
                exact_at=integers[2 * n : 3 * n],
                tied=integers[3 * n : 4 * n],
                touched=integers[4 * n : 5 * n],
                n_touched=integers[5 * n : 5 * n + 1],
            ),
            log=SpikeLog(times=floats[4 * n :], neurons=integers[5 * n + 1 :]),
        )


def new_memory(n_neurons, settings):
    """Return memory for one network of a run; the system provides what is touched of it."""
    n_log = overshoot(n_neurons, settings)
    return Memory(
        new_floats(4 * n_neurons + n_log),
        np.empty(5 * n_neurons + 1 + n_log, dtype=np.int64),
        np.empty((n_neurons + 7) // 8 * 8, dtype=np.bool_),
        np.empty((CANDIDATE_ROWS, n_neurons)),
    )


def new_floats(size):
    """Return this many floats of memory; the system provides what is touched of it."""
    if size < LARGE:
        return np.empty(size)
    # Not by NumPy, which asks for pages of 2 MB where an array is large: touching one clears it all.
    return np.frombuffer(mmap.mmap(-1, 8 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

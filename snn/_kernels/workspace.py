"""Memory and settings of event loops; a run allocates its memory once, and each call divides this memory."""

import mmap
from typing import NamedTuple

import numpy as np

from snn._kernels.candidates import CANDIDATE_ROWS, Windows
from snn._kernels.compiling import record
from snn._kernels.event_loop import MOST_EVENTS_PER_WINDOW, integrate_windows
from snn._kernels.run_state import SpikeLog

LARGE = 2**19  # size in floats (4 MB) of the smallest array for which NumPy requests pages of 2 MB


class Settings(NamedTuple):
    """The settings of the event loops of a run.  Different settings change spikes only by rounding."""

    room: int  # largest number of neurons of an active set; 0: all neurons are integrated
    most_events: int  # most spikes of an interval with an active set
    events_in_place: int  # most spikes of an interval without an active set, or of an epoch of a grid
    n_wanted: float  # target number of spikes per window when all neurons are integrated
    n_sums: int  # number of targets with sums over sources; the two neurons of a sign pair share their sums
    sums_at_once: int  # number of targets whose sums are updated together
    cost_in_place: float  # nanoseconds per spike when all neurons are integrated
    cost_of_source: float  # nanoseconds of screening per source of an interval


def overshoot(n_neurons, settings):
    """Return how many spikes a call may emit beyond its budget, because intervals are not split."""
    longest = settings.most_events if settings.room > 0 else settings.events_in_place
    return longest + MOST_EVENTS_PER_WINDOW + n_neurons


@record
class Work(NamedTuple):
    """Work arrays of one call that integrates all neurons in place."""

    bias: np.ndarray
    threshold: np.ndarray
    windows: Windows
    log: SpikeLog

    def integrate(self, form, group, drift, state, remaining, settings):
        """Integrate the neurons for the remaining time or less; return (elapsed time, spikes, windows)."""
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
        """Return the work arrays of a call for n neurons, with the `integrate` that uses them."""
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
    """Return memory for one copy of a network; untouched parts take no physical memory."""
    n_log = overshoot(n_neurons, settings)
    return Memory(
        new_floats(4 * n_neurons + n_log),
        np.empty(5 * n_neurons + 1 + n_log, dtype=np.int64),
        np.empty((n_neurons + 7) // 8 * 8, dtype=np.bool_),
        np.empty((CANDIDATE_ROWS, n_neurons)),
    )


def new_floats(size):
    """Return an array of floats; untouched parts take no physical memory."""
    if size < LARGE:
        return np.empty(size)
    # For large arrays, NumPy requests pages of 2 MB, and the first touch of a page clears the whole page.
    return np.frombuffer(mmap.mmap(-1, 8 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

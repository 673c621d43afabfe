"""The memory that event loops work in: allocated once a run, and cut up at each call."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from snn._kernels.active_set import OWN_ROWS, Active, most_events, most_members
from snn._kernels.candidates import CANDIDATE_ROWS, Windows
from snn._kernels.compiling import compiled, merged
from snn._kernels.event_loop import MOST_EVENTS_PER_WINDOW
from snn._kernels.rows import SUMS_IN_CACHE, TOGETHER
from snn._kernels.screening import Log, Screened, Sources

DENSE_IN_PLACE, SPARSE_IN_PLACE, NEURONS_PER_SPARSE = 32, 128, 16
"""Spikes of an interval in which all neurons are integrated: few, where many neurons drop out soon; more,
where weights are sparse, one for so many neurons, since planning costs as much as some spikes."""
LEAST_WANTED, NEURONS_PER_WANTED = 8, 200
"""Spikes wanted in a window: opening and closing one costs the more the more neurons there are."""
WANTED_IN_STEP = 0.75
"""The same where a run pauses after a spike: less than one; more than half, so that empty windows grow."""


class Settings(NamedTuple):
    """How a network is run: none of it changes its spikes but by rounding."""

    room: int
    """Neurons of the largest active set; 0 to integrate all."""
    most_events: int
    """Spikes of an interval with an active set."""
    events_in_place: int
    """Spikes of one without."""
    n_wanted: float
    """Spikes wanted in a window, where all neurons are integrated."""
    targets_per_source: float


@lru_cache(maxsize=64)
def settings_of(n_neurons, targets_per_source, *, screening):
    """Return the settings for a network whose spikes have so many targets."""
    in_place, n_wanted = DENSE_IN_PLACE, max(LEAST_WANTED, n_neurons // NEURONS_PER_WANTED)
    if targets_per_source < n_neurons - 1:
        in_place = max(SPARSE_IN_PLACE, n_neurons // NEURONS_PER_SPARSE)
        n_wanted = max(n_wanted, round(n_neurons / max(targets_per_source, 1.0)))
    return Settings(
        room=most_members(n_neurons) if screening else 0,
        most_events=most_events(n_neurons),
        events_in_place=in_place,
        n_wanted=float(min(n_wanted, MOST_EVENTS_PER_WINDOW // 2)),
        targets_per_source=float(targets_per_source),
    )


def single_step(settings):
    """Return settings with which a run pauses after the next spike, and those of the same instant."""
    return settings._replace(room=0, events_in_place=1, n_wanted=WANTED_IN_STEP)


def overshoot(n_neurons, settings):
    """Return how many spikes more than it was asked for a call may emit: intervals are never split."""
    longest = settings.most_events if settings.room > 0 else settings.events_in_place
    return longest + MOST_EVENTS_PER_WINDOW + n_neurons


LARGE = 2**19
"""Numbers from which on an array is large to NumPy, 4 MB."""


class Memory(NamedTuple):
    """What is cut up."""

    floats: np.ndarray
    integers: np.ndarray
    flags: np.ndarray
    used: np.ndarray
    """How much of each of these is cut off already."""
    rows: np.ndarray
    """By itself, since it may be large and little of it touched."""


FLOATS, INTEGERS, FLAGS = 0, 1, 2
"""Entries of `Memory.used`."""


class Work(NamedTuple):
    """Work arrays of one call."""

    bias: np.ndarray
    threshold: np.ndarray
    windows: Windows
    active: Active
    is_active: np.ndarray
    sources: Sources
    screened: Screened
    log: Log
    most_events: int


def new_memory(form, n_neurons, settings):
    """Return memory for networks of so many neurons; the system provides what is touched of it."""
    floats, integers, flags, rows = _sizes(n_neurons, settings)
    return Memory(
        new_floats(floats),
        np.empty(integers, dtype=np.int64),
        np.empty(flags, dtype=np.bool_),
        np.empty(3, dtype=np.int64),
        new_floats(rows),
    )


def new_floats(size):
    """Return so many floats of memory; the system provides what is touched of it."""
    return np.empty(size) if size < LARGE else _allocate(size)


def new_integers(size):
    """Return so many integers of memory, as `new_floats` does."""
    return new_floats(size).view(np.int64)


@lru_cache(maxsize=64)
def _sizes(n_neurons, settings):
    room, log = settings.room, overshoot(n_neurons, settings)
    floats = (4 + CANDIDATE_ROWS) * n_neurons + 3 * log
    integers = 5 * n_neurons + 1 + log
    if room > 0:
        n_sums = max(n_neurons, SUMS_IN_CACHE)
        floats += 2 * n_neurons + OWN_ROWS * room + 4 * (room + TOGETHER) + 3 * n_sums
        integers += 2 * room + 1 + 2 * (room + TOGETHER)
    return floats, integers, 3 * n_neurons + 8, room * room


@compiled
def _allocate(size):
    # Not by NumPy, which asks for pages of 2 MB where an array is large: touching one clears it all.
    return np.empty(size)


@merged
def _take(memory, used, which, size):
    first = used[which]
    used[which] += size
    return memory[first : first + size]


@merged
def cut_up(memory, n_neurons, settings):
    """Return the work arrays that lie in some memory; where nothing is screened, most are empty."""
    n, m = n_neurons, settings.room
    is_screened = m > 0
    n_log = (settings.most_events if is_screened else settings.events_in_place) + MOST_EVENTS_PER_WINDOW + n
    n_sources = m + TOGETHER if is_screened else 0
    n_screened = n if is_screened else 0
    n_sums = max(n, SUMS_IN_CACHE) if is_screened else 0
    floats, integers, flags, used = memory.floats, memory.integers, memory.flags, memory.used
    for which in range(used.shape[0]):
        used[which] = 0
    return Work(
        bias=_take(floats, used, FLOATS, n),
        threshold=_take(floats, used, FLOATS, n),
        windows=Windows(
            excess=_take(floats, used, FLOATS, n),
            may_fire=_take(flags, used, FLAGS, (n + 7) // 8 * 8),
            neurons=_take(integers, used, INTEGERS, n),
            column_of=_take(integers, used, INTEGERS, n),
            candidates=_take(floats, used, FLOATS, CANDIDATE_ROWS * n).reshape(CANDIDATE_ROWS, n),
            crossing=_take(floats, used, FLOATS, n),
            exact_at=_take(integers, used, INTEGERS, n),
            tied=_take(integers, used, INTEGERS, n),
            touched=_take(integers, used, INTEGERS, n),
            n_touched=_take(integers, used, INTEGERS, 1),
        ),
        active=Active(
            members=_take(integers, used, INTEGERS, m),
            own=_take(floats, used, FLOATS, OWN_ROWS * m).reshape(OWN_ROWS, m),
            slots=_take(integers, used, INTEGERS, m),
            rows=memory.rows,
            n_slots=_take(integers, used, INTEGERS, 1 if is_screened else 0),
        ),
        is_active=_take(flags, used, FLAGS, n_screened),
        sources=Sources(
            members=_take(integers, used, INTEGERS, n_sources),
            rows=_take(integers, used, INTEGERS, n_sources),
            sums=_take(floats, used, FLOATS, 4 * n_sources).reshape(4, n_sources),
        ),
        screened=Screened(
            potential=_take(floats, used, FLOATS, n_screened),
            current=_take(floats, used, FLOATS, n_screened),
            is_violator=_take(flags, used, FLAGS, n_screened),
            sums=_take(floats, used, FLOATS, 3 * n_sums).reshape(3, n_sums),
        ),
        log=Log(
            times=_take(floats, used, FLOATS, n_log),
            neurons=_take(integers, used, INTEGERS, n_log),
            totals=_take(floats, used, FLOATS, n_log),
            traces=_take(floats, used, FLOATS, n_log),
        ),
        most_events=settings.most_events,
    )

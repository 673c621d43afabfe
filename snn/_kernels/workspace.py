"""The memory that event loops work in: allocated once a run, and cut up at each call."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from snn._kernels.active_set import OWN_ROWS, Active, most_events, most_members
from snn._kernels.candidates import CANDIDATE_ROWS, Windows
from snn._kernels.compiling import compiled, merged
from snn._kernels.event_loop import MOST_EVENTS_PER_WINDOW, Log
from snn._kernels.rows import SUMS_IN_CACHE, TOGETHER
from snn._kernels.screening import Screened, Sources

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
    """What is cut up where all neurons are integrated."""

    floats: np.ndarray
    integers: np.ndarray
    flags: np.ndarray
    candidates: np.ndarray


class ScreeningMemory(NamedTuple):
    """What is cut up besides where there is an active set.  Little of `rows` may be touched."""

    floats: np.ndarray
    integers: np.ndarray
    flags: np.ndarray
    own: np.ndarray
    rows: np.ndarray
    source_sums: np.ndarray
    target_sums: np.ndarray


class Work(NamedTuple):
    """Work arrays of one call."""

    bias: np.ndarray
    threshold: np.ndarray
    windows: Windows
    log: Log


class ScreeningWork(NamedTuple):
    """Those of one with an active set."""

    bias: np.ndarray
    threshold: np.ndarray
    windows: Windows
    log: Log
    active: Active
    is_active: np.ndarray
    sources: Sources
    screened: Screened
    most_events: int


def new_memory(form, n_neurons, settings):
    """Return memory for one network of a run, and for its active set, None without one."""
    # The system provides what is touched of it.
    n, n_log = n_neurons, overshoot(n_neurons, settings)
    memory = Memory(
        new_floats(4 * n + n_log),
        np.empty(5 * n + 1 + n_log, dtype=np.int64),
        np.empty((n + 7) // 8 * 8, dtype=np.bool_),
        np.empty((CANDIDATE_ROWS, n)),
    )
    m = settings.room
    if m == 0:
        return memory, None
    n_sources = m + TOGETHER
    return memory, ScreeningMemory(
        new_floats(2 * n + 2 * n_log), np.empty(2 * m + 1 + 2 * n_sources, dtype=np.int64),
        np.empty(2 * n, dtype=np.bool_), np.empty((OWN_ROWS, m)), new_floats(m * m),
        np.empty((4, n_sources)), np.empty((3, max(n, SUMS_IN_CACHE))),
    )  # fmt: skip


def new_floats(size):
    """Return so many floats of memory; the system provides what is touched of it."""
    return np.empty(size) if size < LARGE else _allocate(size)


def new_integers(size):
    """Return so many integers of memory, as `new_floats` does."""
    return new_floats(size).view(np.int64)


@compiled
def _allocate(size):
    # Not by NumPy, which asks for pages of 2 MB where an array is large: touching one clears it all.
    return np.empty(size)


@merged
def cut_up(memory, n, settings):
    """Return the work arrays of n neurons, all of which are integrated."""
    floats, integers = memory.floats, memory.integers
    n_log = settings.events_in_place + MOST_EVENTS_PER_WINDOW + n
    return Work(
        bias=floats[:n],
        threshold=floats[n : 2 * n],
        windows=Windows(
            excess=floats[2 * n : 3 * n],
            may_fire=memory.flags,
            neurons=integers[:n],
            column_of=integers[n : 2 * n],
            candidates=memory.candidates,
            crossing=floats[3 * n : 4 * n],
            exact_at=integers[2 * n : 3 * n],
            tied=integers[3 * n : 4 * n],
            touched=integers[4 * n : 5 * n],
            n_touched=integers[5 * n : 5 * n + 1],
        ),
        log=Log(times=floats[4 * n : 4 * n + n_log], neurons=integers[5 * n + 1 : 5 * n + 1 + n_log]),
    )


@merged
def cut_up_for_screening(memory, more, n, settings):
    """Return the work arrays of n neurons that have an active set."""
    n_log = settings.most_events + MOST_EVENTS_PER_WINDOW + n
    work = cut_up(memory, n, settings)
    m = settings.room
    n_sources = m + TOGETHER
    floats, integers, flags = more.floats, more.integers, more.flags
    return ScreeningWork(
        bias=work.bias,
        threshold=work.threshold,
        windows=work.windows,
        log=Log(
            times=memory.floats[4 * n : 4 * n + n_log],
            neurons=memory.integers[5 * n + 1 : 5 * n + 1 + n_log],
        ),
        active=Active(
            members=integers[:m],
            own=more.own,
            slots=integers[m : 2 * m],
            rows=more.rows,
            n_slots=integers[2 * m : 2 * m + 1],
        ),
        is_active=flags[:n],
        sources=Sources(
            members=integers[2 * m + 1 : 2 * m + 1 + n_sources],
            rows=integers[2 * m + 1 + n_sources :],
            sums=more.source_sums,
            totals=floats[2 * n : 2 * n + n_log],
            traces=floats[2 * n + n_log :],
        ),
        screened=Screened(
            potential=floats[:n],
            current=floats[n : 2 * n],
            is_violator=flags[n:],
            sums=more.target_sums,
        ),
        most_events=settings.most_events,
    )

"""The time of a run, and how a call to a kernel ends."""

from snn._kernels.compiling import compiled

PAUSED = 0
"""The event budget is spent; call again with the same arrays."""
REACHED = 1
"""Every network asked for stands at the stop time."""
MISSING_ROW = 2
"""A row of the weights is asked for; store it, and call again."""

# Columns of the `clock` array, one row a network.  Time is a sum of millions of small intervals,
# so its rounding error is carried along (two-sum); the horizon is how far the search for the next
# spike looks at first, kept so that pausing changes no bit of the result.
TIME, TIME_ERROR, HORIZON = 0, 1, 2
# For the lazy kernel: its last span, by how much potentials may be expected to leave their chords in the
# next, how many spikes there were in a unit of time, and how many neurons they came from.
SPAN, MARGIN, RATE, SOURCES = 3, 4, 5, 6
# And what it did: time that it ran lazily, neurons whose bound failed, spans that were run again; and the
# row of weights that it waits for, -1 for none.
LAZY_TIME, SUSPECTS, REDONE, MISSING = 7, 8, 9, 10
CLOCK_COLUMNS = 11

SHORTEST_HORIZON = 1e-290
"""Horizons are doubled and halved, and must never be zero."""

MOST_EVENTS_PER_WINDOW = 512
"""Spikes in one window, apart from those that share the time of the last."""


@compiled
def advance_clock(clock, interval):
    """Add `interval` to the compensated time."""
    time = clock[TIME]
    addend = interval + clock[TIME_ERROR]
    total = time + addend
    clock[TIME_ERROR] = addend - (total - time) if time >= addend else time - (total - addend)
    clock[TIME] = total


@compiled
def remaining_time(clock, stop_time):
    return (stop_time - clock[TIME]) - clock[TIME_ERROR]

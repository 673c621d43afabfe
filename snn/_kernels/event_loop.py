"""The event loop, which integrates a group of neurons from spike to spike, window by window.

One loop serves all forms of weights: the type of the record of weights selects the methods at compile time
(`delivery`).  The same loop serves a whole network and the active set of a network.
"""

import math

from snn._kernels.candidates import (
    close_window,
    find_tied,
    first_to_cross,
    moment_at,
    open_window,
    renew_bounds,
    reset_tied,
)
from snn._kernels.compiling import inlined, inner
from snn._kernels.neuron import coast, quiet_time_of
from snn._kernels.run_state import LONGEST_WINDOW, SHORTEST_WINDOW

MOST_EVENTS_PER_WINDOW = 512  # most spikes in one window; the spikes of one instant may exceed this number
# If a window renews more than LEAST_RENEWED + RENEWED_PER_NEURON * n_neurons bounds of candidates, the next
# window is shorter.  Renewing a bound costs about twenty times as much as opening a window for a neuron.  In
# a long window, all strongly inhibited neurons are candidates, and every spike renews their bounds.
LEAST_RENEWED, RENEWED_PER_NEURON = 16.0, 0.1


@inlined
def missing_row(form, n_tied, windows):
    """Return a neuron that fires although its row of weights has not been computed, or -1."""
    missing = -1
    for c in range(n_tied):
        source = windows.neurons[windows.tied[c]]
        if not form.row_is_there(source):
            missing = source
    return missing


@inner
def integrate_windows(form, group, interval, window, most_events, n_wanted, windows, log):
    """Integrate a group for `interval`; return (elapsed time, window, spikes, windows, missing)."""
    # The length of a window is chosen for `n_wanted` spikes; after twice this number, the window ends early.
    # The loop returns at the end of the interval, after a window with which `most_events` spikes or windows
    # are reached, or before a spike of a neuron without a row of weights.  `missing` is such a neuron, or -1.
    for k in range(windows.exact_at.shape[0]):
        windows.exact_at[k] = 0
    windows.n_touched[0] = 0
    most_renewed = LEAST_RENEWED + RENEWED_PER_NEURON * group.bias.shape[0]
    instant = n_events = n_windows = 0
    missing = -1
    elapsed = 0.0
    while True:
        remaining = interval - elapsed
        if remaining <= 0.0 or n_events >= most_events or n_windows >= most_events or missing >= 0:
            return elapsed, window, n_events, n_windows, missing
        n_windows += 1
        length = min(window, remaining)
        n_candidates = open_window(group, length, windows)
        is_quiet = n_candidates == 0
        quiet = quiet_time_of(group, length) if is_quiet or length >= LONGEST_WINDOW else 0.0
        if is_quiet or quiet > length:
            # No neuron can fire in the window or before the time `quiet`.
            length = max(length, min(quiet, remaining))
            coast(group, length)
            elapsed = interval if length == remaining else elapsed + length
            window = max(window, min(2.0 * length, LONGEST_WINDOW))
            continue
        end_fade = math.exp(-length)
        moment = moment_at(0.0, end_fade)
        renew_bounds(n_candidates, moment, windows)
        instant += 1
        n_before = n_events
        most_in_window = n_events + int(2.0 * n_wanted)
        while n_events < most_in_window:
            column = first_to_cross(n_candidates, moment, length, end_fade, instant, windows)
            if column < 0:
                break
            then = moment_at(windows.crossing[column], end_fade)
            n_tied = find_tied(column, n_candidates, moment, then.fade, length, instant, windows)
            missing = missing_row(form, n_tied, windows)
            if missing >= 0:
                break
            moment = then
            reset_tied(n_tied, windows)
            for c in range(n_tied):
                source = windows.tied[c]
                log.times[n_events] = elapsed + moment.now
                log.neurons[n_events] = source
                n_events += 1
                n_candidates = form.deliver(source, moment, length, group, windows, n_candidates)
            instant = form.renew(n_candidates, moment, instant, windows)
        is_crowded = n_events >= most_in_window
        closing = moment.now if is_crowded or missing >= 0 else length
        close_window(n_candidates, closing, length, group, windows)
        elapsed = interval if closing == remaining else elapsed + closing
        if missing < 0 and is_crowded:
            window = max(0.5 * length, SHORTEST_WINDOW)
        elif missing < 0 and length >= window:
            n_new = n_events - n_before
            growth = min(n_wanted / (n_new + 0.5), most_renewed / (n_candidates * (n_new + 1)))
            growth = min(max(growth, 0.5), 2.0)
            window = min(length * growth, LONGEST_WINDOW)

"""The watched neurons, run by themselves.

Either they are copied out, and rows of their own weights are gathered when a source first fires; or all are
watched where they are, and rows of the weights are read in place.  Windows and candidates are those of
`candidates`.

The weights are `factor` times a matrix whose diagonal is not looked at, and of which those rows are stored
that `row_of` says, -1 standing for the others.  Where there are two neurons a row, they are mirrored pairs:
neuron i < n the positive half of pair i, neuron n + i its negative half; weights between halves of opposite
signs have the opposite sign, and those of one pair meet by `exchange` alone.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.candidates import (
    ARRIVING,
    close_window,
    deliver,
    find_candidates,
    first_candidates,
    leave_window,
    next_horizon,
    next_to_fire,
    open_window,
    renew_bounds,
    reset_fired,
)
from snn._kernels.compiling import inlined, uncounted


class Watched(NamedTuple):
    """The watched neurons of a span, copied out."""

    members: np.ndarray
    """Their indices, in order."""
    own: np.ndarray
    """Rows BIAS, THRESHOLD, POTENTIAL, CURRENT, BEFORE; a column each."""
    slots: np.ndarray
    """Which of the gathered rows holds the weights of each, -1 for none."""
    rows: np.ndarray


# Rows of `Watched.own`, the last to remember the potential before.
OWN_BIAS, OWN_THRESHOLD, OWN_POTENTIAL, OWN_CURRENT, OWN_BEFORE = 0, 1, 2, 3, 4
OWN_ROWS = 5


@uncounted
def _gather(weights, row_of, factor, exchange, source, members, n_members, rows, offset):
    """Copy the weights from `source` to the members, its own zero, to `rows` from `offset` on."""
    n_rows = row_of.shape[0]
    source_row = source if source < n_rows else source - n_rows
    stored = weights[row_of[source_row]]
    for k in range(n_members):
        target = members[k]
        target_row = target if target < n_rows else target - n_rows
        if target_row == source_row:
            weight = 0.0 if target == source else exchange[source_row]
        else:
            weight = factor * stored[target_row]
            if (source < n_rows) != (target < n_rows):
                weight = -weight
        rows[offset + k] = weight


@inlined
def _deliver_in_place(
    values, row_of, factor, exchange, source, to_foreseen, to_current, length, n_candidates, bias, threshold,
    excess, current, neurons, candidates,
):  # fmt: skip
    """Deliver one spike by a row of the weights as it stands; return the number of candidates."""
    n_neurons = bias.shape[0]
    n_rows = row_of.shape[0]
    row = source if source < n_rows else source - n_rows
    signed = factor if source < n_rows else -factor
    offset = row_of[row] * n_rows
    for k in range(n_candidates):
        i = neurons[k]
        place = i if i < n_rows else i - n_rows
        weight = signed * values[np.uint64(offset + place)]
        weight = weight if i < n_rows else -weight
        if place == row:
            weight = 0.0 if i == source else exchange[row]
        candidates[ARRIVING, k] += weight
    for first in range(0, n_neurons, n_rows):
        # The diagonal of the matrix is nobody's weight.
        own = first + row
        own_excess = excess[own]
        own_current = current[own]
        reached = deliver(
            excess, current, first, n_rows, values, offset, signed * to_foreseen, signed * to_current
        )
        excess[own] = own_excess
        current[own] = own_current
        if own != source and own_excess > -math.inf:
            excess[own] += to_foreseen * exchange[row]
            current[own] += to_current * exchange[row]
            reached |= excess[own] >= 0.0
        if reached:
            n_candidates = find_candidates(
                first, first + n_rows, length, n_candidates, bias, threshold, excess, current, neurons,
                candidates,
            )  # fmt: skip
        signed = -signed
    return n_candidates


@uncounted
def run_watched(
    in_place, weights, values, row_of, factor, exchange, watched, bias, threshold, potential, current,
    horizon, span, most_events, events_per_window, windows, log_times, log_neurons,
):  # fmt: skip
    """Run the watched neurons for `span`; return (time that passed, horizon, spikes, rows gathered, missing).

    In place, all neurons are watched, and rows read from `values`; otherwise rows are gathered.
    Returns before the end of the span after `most_events` spikes, and before the first whose row is not
    stored: `missing` is that row, otherwise -1.
    """
    excess, may_fire, neurons, candidates, crossing, settled, tied = windows
    ordered = crossing.view(np.int64)
    members, _, slots, rows = watched
    stamp = 0
    for k in range(settled.shape[0]):
        settled[k] = 0
    n_neurons = threshold.shape[0]
    n_rows = row_of.shape[0]
    missing = -1
    n_slots = 0
    n_events = 0
    elapsed = 0.0
    while True:
        remaining = span - elapsed
        if remaining <= 0.0 or n_events >= most_events or missing >= 0:
            return elapsed, horizon, n_events, n_slots, missing
        length = min(horizon, remaining)
        open_window(bias, threshold, potential, current, length, excess, may_fire)
        rise = -math.expm1(-length)
        end_fade = math.exp(-length)
        now = 0.0
        fade = 1.0
        rest = fade - end_fade
        n_candidates = first_candidates(
            bias, threshold, potential, current, rise, excess, may_fire, neurons, candidates
        )
        renew_bounds(candidates, n_candidates, crossing, 0.0, 0.0, now, fade, rest)
        stamp += 1
        n_before = n_events
        most_in_window = n_events + 2 * events_per_window
        while n_events < most_in_window:
            n_tied = next_to_fire(
                candidates, n_candidates, crossing, ordered, settled, stamp, tied, now, fade, rest, length
            )
            if n_tied == 0:
                break
            for c in range(n_tied):
                source = neurons[tied[c]] if in_place else members[neurons[tied[c]]]
                row = source if source < n_rows else source - n_rows
                if row_of[row] < 0:
                    missing = row
            if missing >= 0:
                break
            now = crossing[tied[0]]
            growth = math.exp(now)
            fade = 1.0 / growth
            rest = fade - end_fade
            to_foreseen = 1.0 - end_fade * growth
            reset_fired(n_tied, tied, neurons, candidates)
            for c in range(n_tied):
                source = tied[c]
                log_times[n_events] = elapsed + now
                log_neurons[n_events] = source
                n_events += 1
                if in_place:
                    n_candidates = _deliver_in_place(
                        values, row_of, factor, exchange, source, to_foreseen, growth, length, n_candidates,
                        bias, threshold, excess, current, neurons, candidates,
                    )  # fmt: skip
                    continue
                if slots[source] < 0:
                    slots[source] = n_slots
                    _gather(
                        weights, row_of, factor, exchange, members[source], members, n_neurons, rows,
                        n_slots * n_neurons,
                    )  # fmt: skip
                    n_slots += 1
                offset = slots[source] * n_neurons
                for k in range(n_candidates):
                    candidates[ARRIVING, k] += rows[np.uint64(offset + neurons[k])]
                if deliver(excess, current, 0, n_neurons, rows, offset, to_foreseen, growth):
                    n_candidates = find_candidates(
                        0, n_neurons, length, n_candidates, bias, threshold, excess, current, neurons,
                        candidates,
                    )  # fmt: skip
            renew_bounds(candidates, n_candidates, crossing, to_foreseen, growth, now, fade, rest)
            stamp += 1
        leave_window(n_candidates, bias, threshold, length, excess, current, neurons, candidates)

        crowded = n_events >= most_in_window
        closing = now if crowded or missing >= 0 else length
        close_window(bias, threshold, potential, current, closing, length, excess)
        elapsed = span if closing == remaining else elapsed + closing
        if missing < 0:
            horizon = next_horizon(horizon, length, crowded, n_events - n_before, events_per_window)

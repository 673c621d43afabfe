"""What Python calls: copies of a network, one after the other, to a stop time or until the budget is
spent."""

import numpy as np

from snn._kernels import compressed_rows, rows, segments  # noqa: F401 - implementations of `delivery`
from snn._kernels.compiling import inner, resolved_by_record, uncounted
from snn._kernels.event_loop import run
from snn._kernels.neuron import Group
from snn._kernels.run_state import (
    BURST,
    MISSING_ROW,
    PAUSED,
    REACHED,
    advance_time,
    begin,
    note_burst,
    note_spike,
    remaining_time,
)
from snn._kernels.stops import go_on, stop_of
from snn._kernels.workspace import cut_up


@resolved_by_record
def integrate(work, form, group, drift, state, remaining, settings):
    """Integrate neurons for the time that remains or less; return (time that passed, spikes, windows)."""
    elapsed, state.window, n_new, n_windows, state.missing = run(
        form, group, remaining, state.window, settings.events_in_place, settings.n_wanted, work.windows,
        work.log,
    )  # fmt: skip
    return elapsed, n_new, n_windows


@inner
def advance_one(form, neurons, k, group, drift, state, settings, stop_time, budget, work, spikes, n_events):
    """Advance copy k; return (status, spikes so far, budget left).  A window costs as much as a spike."""
    while True:
        if budget <= 0:
            return PAUSED, n_events, budget
        remaining = remaining_time(state, stop_time)
        if remaining <= 0.0:
            return REACHED, n_events, budget
        elapsed, n_new, n_windows = integrate(work, form, group, drift, state, remaining, settings)
        if not elapsed < np.inf:
            # Numbers have left their range, and there is no going on.
            elapsed = remaining
            state.burst = np.inf
        if elapsed > 0.0:
            state.rate = n_new / elapsed
        for event in range(n_new):
            now = state.time + (work.log.times[event] + state.time_error)
            note_spike(neurons, k, work.log.neurons[event], now, spikes, n_events)
            n_events += 1
        budget -= n_new + n_windows
        advance_time(state, elapsed, stop_time, elapsed == remaining)
        if note_burst(state, n_new, elapsed):
            return BURST, n_events, budget
        if state.missing >= 0:
            return MISSING_ROW, n_events, budget


@uncounted
def advance(form, neurons, states, settings, memory, active, first, stops, budget, spikes):
    """Advance the copies active[first:] until they stay; return (status, where in `active` to go on, spikes).

    Parameters
    ----------
    form : one of the records of `forms`
    neurons : run_state.Neurons
    states : array of run_state.RUN_STATE, shape (n_copies,)
    settings : workspace.Settings
    memory : workspace.Memory
    active : array of int
    first : int
    stops : stops.StopTimes, or another record that has `stop_of` and `go_on`
    budget : int
        Spikes, windows and work at stops, in spikes, after which the run pauses, between two intervals.
    spikes : run_state.Spikes
        Of size zero, or with room for `workspace.overshoot` more than the budget.
    """
    work = cut_up(memory, neurons.threshold.shape[0], settings)
    return advance_each(form, neurons, states, settings, work, active, first, stops, budget, spikes)


@inner
def advance_each(form, neurons, states, settings, work, active, first, stops, budget, spikes):
    """As `advance`, in given work arrays, which say whether there is an active set."""
    n_neurons = neurons.threshold.shape[0]
    # Copies that may be written, as those of an active set may: a kernel is compiled for either.
    for i in range(n_neurons):
        work.threshold[i] = neurons.threshold[i]
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        is_going = True
        while is_going:
            for i in range(n_neurons):
                work.bias[i] = neurons.bias[k, i]
            if states[k].window == 0.0:
                begin(work.bias, work.threshold, states[k])
            group = Group(work.bias, work.threshold, neurons.potential[k], neurons.current[k])
            status, n_events, budget = advance_one(
                form, neurons, k, group, neurons.drift[k], states[k], settings, stop_of(stops, k), budget,
                work, spikes, n_events,
            )  # fmt: skip
            if status != REACHED:
                return status, position, n_events
            is_going, n_done = go_on(stops, neurons, states, k)
            budget -= n_done
    return REACHED, active.shape[0], n_events

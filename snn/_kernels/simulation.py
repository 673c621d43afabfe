"""The kernel `advance`, which advances copies of a network one by one, and the settings of event loops."""

from functools import lru_cache

import numpy as np
from numba import config

from snn._kernels import workspace
from snn._kernels.active_neurons import (
    EVENTS_PER_NEURON,
    FEWEST_SCREENED,
    LARGEST_PART,
    LEAST_EVENTS,
    LEAST_WANTED,
    MOST_EVENTS,
    MOST_MEMBERS,
    new_screening_memory,
)
from snn._kernels.compiling import uncounted
from snn._kernels.convolution.grid import Stencil, new_grid_memory
from snn._kernels.convolution.loop import LEAST_EVENTS_PER_EPOCH, Grid
from snn._kernels.event_loop import MOST_EVENTS_PER_WINDOW
from snn._kernels.neuron import Group
from snn._kernels.rows import SUMS_IN_CACHE, Rows
from snn._kernels.run_state import (
    BURST,
    MISSING_ROW,
    PAUSED,
    REACHED,
    SHORTEST_WINDOW,
    advance_time,
    drop_negligible,
    note_spike,
)
from snn._kernels.sparse_rows import CompressedRows, Segments
from snn._kernels.workspace import Settings

# An interval without an active set ends after a number of spikes, so that an active set can be tried.  For
# dense weights, this number is DENSE_IN_PLACE.  For sparse weights, planning costs more than a spike, so the
# number is the larger of SPARSE_IN_PLACE and n_neurons / NEURONS_PER_SPARSE.
DENSE_IN_PLACE, SPARSE_IN_PLACE, NEURONS_PER_SPARSE = 32, 128, 16
# Target number of spikes per window: at least n_neurons / NEURONS_PER_WANTED, since the cost of opening and
# closing a window grows with the number of neurons.
NEURONS_PER_WANTED = 200
# Target number of spikes per window if a run pauses after each spike: below 1, so that a window ends at the
# first spike, and above 1/2, so that empty windows grow.
WANTED_IN_STEP = 0.75

# Costs in nanoseconds, from which intervals are planned: of one target of a spike if all neurons are
# integrated, and of one source in one sum over sources.  `python -m tests.benchmarks simulate` shows the
# effect of COSTS_OF_FORMS.
COSTS_OF_FORMS = {Rows: (0.3, 0.4), Segments: (0.3, 0.4), CompressedRows: (3.0, 3.0), Stencil: (0.3, 0.4)}
# Further costs of CompressedRows in nanoseconds: of one neuron in one window, and of one pair of spikes in
# one window.
COST_OF_WINDOW, COST_OF_CANDIDATE = 2.0, 1.0


def settings_of(form, n_neurons, *, screening):
    """Return the settings for a network with the weights `form`."""
    n_sums = form.row_of.shape[0] if isinstance(form, Rows) else n_neurons
    return _settings_of(type(form), n_neurons, n_sums, form.targets_per_source(n_neurons), screening)


@lru_cache(maxsize=64)
def _settings_of(kind, n_neurons, n_sums, n_targets, screening):
    in_place, n_wanted = DENSE_IN_PLACE, max(LEAST_WANTED, n_neurons // NEURONS_PER_WANTED)
    if n_targets < n_neurons - 1:
        in_place = max(SPARSE_IN_PLACE, n_neurons // NEURONS_PER_SPARSE)
        n_wanted = max(n_wanted, round(n_neurons / max(n_targets, 1.0)))
    n_wanted = float(min(n_wanted, MOST_EVENTS_PER_WINDOW // 2))
    cost_in_place, cost_of_source = COSTS_OF_FORMS[kind]
    cost_in_place *= n_targets
    if kind is CompressedRows:
        cost_in_place += COST_OF_WINDOW * n_neurons / n_wanted + COST_OF_CANDIDATE * n_wanted
    has_active_set = screening and kind is not Stencil and n_neurons >= FEWEST_SCREENED
    return Settings(
        room=min(n_neurons // LARGEST_PART, MOST_MEMBERS) if has_active_set else 0,
        most_events=min(max(EVENTS_PER_NEURON * n_neurons, LEAST_EVENTS), MOST_EVENTS),
        events_in_place=max(LEAST_EVENTS_PER_EPOCH, n_neurons // 4) if kind is Stencil else in_place,
        n_wanted=n_wanted,
        n_sums=n_sums,
        sums_at_once=min(SUMS_IN_CACHE, n_sums) if kind is Rows else n_sums,
        cost_in_place=cost_in_place,
        cost_of_source=cost_of_source * min(n_targets, n_sums),
    )


def single_step(settings):
    """Return settings that pause a run after the spikes of one instant."""
    return settings._replace(room=0, events_in_place=1, n_wanted=WANTED_IN_STEP)


def new_memory(form, n_neurons, settings):
    """Return memory that all copies of a network use, one by one."""
    if isinstance(form, Stencil):
        return Grid(*new_grid_memory(form, n_neurons, settings))
    memory = workspace.new_memory(n_neurons, settings)
    return new_screening_memory(memory, n_neurons, settings) if settings.room > 0 else memory


@uncounted
def advance(form, neurons, states, settings, memory, active, first, stops, budget, spikes):
    """Advance the copies active[first:] past all their stops; return (status, position, spikes)."""
    # The next call begins at `position` in `active`.  The run pauses between two intervals when the sum of
    # spikes, windows and work at stops exceeds the budget.  `spikes` is empty or has room for
    # `workspace.overshoot` spikes beyond the budget.
    n_neurons = neurons.threshold.shape[0]
    work = memory.work_of(n_neurons)
    # Thresholds are copied to a writable array, because one compiled loop serves the whole network and active
    # sets, whose thresholds are writable.
    for i in range(n_neurons):
        work.threshold[i] = neurons.threshold[i]
    n_events = 0
    for position in range(first, active.shape[0]):
        k = active[position]
        state, drift = states[k], neurons.drift[k]
        is_going = True
        while is_going:
            for i in range(n_neurons):
                work.bias[i] = neurons.bias[k, i]
            if state.window == 0.0:
                # Guess the first window from the drive, and the margin from the thresholds.
                driven = mean = 0.0
                for i in range(n_neurons):
                    driven += max(work.bias[i], 0.0) / work.threshold[i]
                    mean += work.threshold[i] / n_neurons
                state.window = max(2.0 / max(driven, 2.0), SHORTEST_WINDOW)
                state.margin = max(state.margin, mean)
                state.missing = -1
                drop_negligible(neurons.current[k])
            group = Group(work.bias, work.threshold, neurons.potential[k], neurons.current[k])
            stop_time = stops.stop_of(k)
            while True:
                if budget <= 0:
                    return PAUSED, position, n_events
                remaining = (stop_time - state.time) - state.time_error
                if remaining <= 0.0:
                    break
                elapsed, n_new, n_windows = work.integrate(form, group, drift, state, remaining, settings)
                if not elapsed < np.inf:
                    # Numbers are out of range, so the copy cannot continue.
                    elapsed = remaining
                    state.burst = np.inf
                if elapsed > 0.0:
                    state.rate = n_new / elapsed
                for event in range(n_new):
                    now = state.time + (work.log.times[event] + state.time_error)
                    note_spike(neurons, k, work.log.neurons[event], now, spikes, n_events)
                    n_events += 1
                budget -= n_new + n_windows
                if elapsed == remaining:
                    state.time, state.time_error = stop_time, 0.0
                else:
                    advance_time(state, elapsed)
                state.burst = max(state.burst + n_new - state.burst_rate * elapsed, 0.0)
                if state.burst > state.largest_burst:
                    return BURST, position, n_events
                if state.missing >= 0:
                    return MISSING_ROW, position, n_events
            drop_negligible(neurons.current[k])
            is_going, n_done = stops.go_on(neurons, states, k)
            budget -= n_done
    return REACHED, active.shape[0], n_events


if config.DISABLE_JIT:  # for debugging: kernels divide by zero on purpose, because a branch would cost more
    advance = np.errstate(all="ignore")(advance)

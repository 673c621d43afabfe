"""The active set: the few neurons that can fire are integrated spike by spike, other neurons are screened.

Time is cut into intervals.  At the beginning of an interval, the neurons that may fire in the interval are
chosen as the active set.  Copies of the active neurons go through the event loop as if there were no other
neurons.  When an active neuron first fires, its weights to all active neurons are gathered.  Then all other
neurons are advanced to the end of the interval, source by source, and `screening` proves that none of these
neurons fires.  If a neuron does cross its threshold, this neuron joins the active set, and the interval is
run again.  The state of the neurons is written only when `screening` has found no further spike.

The active set is a guess, and a wrong guess cannot make a result wrong.  The chosen neurons would come near
their thresholds if their soma currents stayed at the mean of the last interval (`drift`).  If nearly
all neurons may fire, as at the beginning of a run, all neurons are integrated in place.
"""

import math
from typing import NamedTuple

import numpy as np

from snn._kernels.candidates import ARRIVING, Windows, add_to_range, find_candidates
from snn._kernels.compiling import inner, record
from snn._kernels.delivery import ScreenedForm
from snn._kernels.event_loop import MOST_EVENTS_PER_WINDOW, integrate_windows
from snn._kernels.neuron import Group
from snn._kernels.rows import SOURCES_TOGETHER
from snn._kernels.run_state import SpikeLog
from snn._kernels.screening import (
    COST_OF_NEURON,
    COST_OF_SPIKE,
    Screened,
    Sources,
    bulge_of,
    find_firing,
    screen,
    summarise,
)
from snn._kernels.workspace import Memory, new_floats, overshoot

MOST_MEMBERS = 4096  # most neurons of an active set, whose weights then take 128 MB
FEWEST_SCREENED = 64  # fewest neurons of a network with an active set; smaller networks integrate all neurons
LARGEST_PART = 2  # an active set has at most n_neurons / LARGEST_PART neurons
MOST_RUNS = 5  # most runs of one interval; a run may add only one neuron to the active set
# The target number of spikes per window is CANDIDATES_WANTED / n_active, and at least LEAST_WANTED.
LEAST_WANTED, CANDIDATES_WANTED = 8, 384

# Rough costs in nanoseconds, from which intervals are planned: of one gathered weight, and of one spike for
# each member of the active set.  `screening` has further costs.
COST_OF_GATHERING, COST_OF_MEMBER = 1.5, 0.3
# An interval is at most MOST_GROWTH times the last interval, or SHARE_OF_PAST of the elapsed time.
MOST_GROWTH, SHARE_OF_PAST = 2.0, 0.5
# If at most SETTLED_PART of the neurons are active, an interval may be MOST_SHARE_OF_PAST times the elapsed
# time.  While many neurons are near their thresholds, their drifts change, so long intervals have violators.
MOST_SHARE_OF_PAST, SETTLED_PART = 2.0, 1 / 32
LENGTHS_COMPARED = 4  # number of lengths that are tried for an interval
# The margin is at least MARGIN_KEPT times the previous margin, because short intervals have small deviations.
MARGIN_KEPT = 0.9
SHARE_OF_UPDATES = 0.05  # part of the time of an interval for work that does not grow with its spikes
# An interval has memory for EVENTS_PER_NEURON * n_neurons spikes, at least for LEAST_EVENTS and at most for
# MOST_EVENTS spikes.  An interval is planned to fill at most half of this memory.
EVENTS_PER_NEURON, LEAST_EVENTS, MOST_EVENTS = 8, 1024, 65_536


class Active(NamedTuple):
    """Copies of the members of the active set, and of the weights between them."""

    members: np.ndarray  # indices of the active neurons, sorted
    own: np.ndarray  # one column for each member, with the rows OWN_BIAS to OWN_BEFORE
    slots: np.ndarray  # for each member, the slot of its weights in `rows`, or -1
    rows: np.ndarray  # gathered weights; a slot has n_members weights
    n_slots: np.ndarray  # number of used slots; an array of one number


# Rows of `Active.own`; OWN_BEFORE is the potential at the beginning of the interval.
OWN_BIAS, OWN_THRESHOLD, OWN_POTENTIAL, OWN_CURRENT, OWN_BEFORE = 0, 1, 2, 3, 4
OWN_ROWS = 5


@record
class ScreeningWork(NamedTuple):
    """Work arrays of one call with an active set."""

    bias: np.ndarray
    threshold: np.ndarray
    windows: Windows
    log: SpikeLog
    active: Active
    is_active: np.ndarray
    sources: Sources
    screened: Screened

    def integrate(self, form, group, drift, state, remaining, settings):
        interval = plan(group, drift, state, remaining, settings, self)
        if interval > 0.0:
            elapsed, n_new, n_windows = integrate_active(form, group, drift, state, interval, settings, self)
            if elapsed >= 0.0:
                return elapsed, n_new, n_windows
        # Keep the numbers by which an active set is chosen: mean soma currents, and how many neurons fired.
        before, log, marks = self.screened.potential, self.log, self.windows.exact_at
        n_neurons = group.threshold.shape[0]
        for i in range(n_neurons):
            before[i] = group.potential[i]
        elapsed, state.window, n_new, n_windows, state.missing = integrate_windows(
            form, group, remaining, state.window, settings.events_in_place, settings.n_wanted, self.windows,
            log,
        )  # fmt: skip
        if elapsed == 0.0:
            return elapsed, n_new, n_windows
        for i in range(n_neurons):
            drift[i] = (group.potential[i] - before[i]) / elapsed
        n_sources = 0
        for event in range(n_new):
            marks[log.neurons[event]] = -1
        for event in range(n_new):
            neuron = log.neurons[event]
            drift[neuron] += group.threshold[neuron] / elapsed
            n_sources -= marks[neuron]
            marks[neuron] = 0
        state.interval = elapsed
        state.n_sources = n_sources
        return elapsed, n_new, n_windows


@record
class ScreeningMemory(NamedTuple):
    """Memory of a run with an active set; often only a small part of `rows` is ever touched."""

    in_place: Memory
    floats: np.ndarray
    integers: np.ndarray
    flags: np.ndarray
    own: np.ndarray
    rows: np.ndarray
    source_sums: np.ndarray
    target_sums: np.ndarray

    def work_of(self, n):
        in_place = self.in_place.work_of(n)
        floats, integers, flags = self.floats, self.integers, self.flags
        m, n_sources = self.own.shape[1], self.source_sums.shape[1]
        n_log = in_place.log.times.shape[0]
        return ScreeningWork(
            bias=in_place.bias,
            threshold=in_place.threshold,
            windows=in_place.windows,
            log=in_place.log,
            active=Active(
                members=integers[:m],
                own=self.own,
                slots=integers[m : 2 * m],
                rows=self.rows,
                n_slots=integers[2 * m : 2 * m + 1],
            ),
            is_active=flags[:n],
            sources=Sources(
                members=integers[2 * m + 1 : 2 * m + 1 + n_sources],
                rows=integers[2 * m + 1 + n_sources :],
                sums=self.source_sums,
                totals=floats[2 * n : 2 * n + n_log],
                traces=floats[2 * n + n_log :],
            ),
            screened=Screened(
                potential=floats[:n], current=floats[n : 2 * n], is_violator=flags[n:], sums=self.target_sums
            ),
        )


def new_screening_memory(in_place, n_neurons, settings):
    """Return memory for one copy of a network and for its active set."""
    m, n_log = settings.room, overshoot(n_neurons, settings)
    n_sources = m + SOURCES_TOGETHER
    return ScreeningMemory(
        in_place,
        floats=new_floats(2 * n_neurons + 2 * n_log),
        integers=np.empty(2 * m + 1 + 2 * n_sources, dtype=np.int64),
        flags=np.empty(2 * n_neurons, dtype=np.bool_),
        own=np.empty((OWN_ROWS, m)),
        rows=new_floats(m * m),
        source_sums=np.empty((4, n_sources)),
        target_sums=np.empty((3, settings.sums_at_once)),
    )


@record
class Gathered(NamedTuple):
    """The weights within an active set; a row is gathered from the form when its source first fires."""

    form: ScreenedForm
    active: Active

    renew = ScreenedForm.renew  # type: ignore[misc]

    def row_is_there(self, source):
        return self.form.row_is_there(self.active.members[source])

    def deliver(self, source, moment, length, group, windows, n_candidates):
        active = self.active
        n_members = group.bias.shape[0]
        if active.slots[source] < 0:
            slot = active.n_slots[0]
            active.slots[source] = slot
            active.n_slots[0] = slot + 1
            first = slot * n_members
            self.form.gather(active.members[source], active.members, n_members, active.rows, first)
        offset = active.slots[source] * n_members
        for k in range(n_candidates):
            windows.candidates[ARRIVING, k] += active.rows[np.uint64(offset + windows.neurons[k])]
        if add_to_range(
            windows, group.current, 0, n_members, active.rows, offset, moment.to_end, moment.growth
        ):  # fmt: skip
            n_candidates = find_candidates(0, n_members, length, n_candidates, group, windows)
        return n_candidates


@inner
def choose(group, drift, interval, margin, n_sums, is_active):
    """Mark the neurons that may come near their thresholds within the interval; return their number."""
    # Both neurons of a sign pair are marked, because `ScreenedForm.add_sources` is wrong for the weight
    # between the two neurons of a pair.
    n_neurons = group.threshold.shape[0]
    rise = -math.expm1(-interval)
    bulge = bulge_of(rise, interval)
    for k in range(n_neurons):
        i = np.uint64(k)
        reach = group.potential[i] + max(drift[i], 0.0) * interval + max(group.current[i], 0.0) * bulge
        is_active[i] = reach >= group.threshold[i] - margin
    for first in range(n_sums, n_neurons, n_sums):
        for k in range(n_sums):
            near = is_active[k] | is_active[first + k]
            is_active[k] = near
            is_active[first + k] = near
    n_active = np.int64(0)
    for k in range(n_neurons):
        n_active += is_active[np.uint64(k)]
    return n_active


@inner
def plan(group, drift, state, remaining, settings, work):
    """Choose the interval of least cost, and mark its active set; return the length, or 0 to use no set."""
    n_neurons = group.threshold.shape[0]
    rate = state.rate
    if rate == 0.0 or settings.room == 0:
        return 0.0
    fixed = settings.cost_of_source * state.n_sources + COST_OF_NEURON * n_neurons
    n_events = min(fixed / (SHARE_OF_UPDATES * COST_OF_SPIKE), 0.5 * settings.most_events)
    safe = max(MOST_GROWTH * state.interval, SHARE_OF_PAST * state.time)
    interval = min(n_events / rate, max(safe, MOST_SHARE_OF_PAST * state.time), remaining)
    # `least` is the least cost per unit of time so far.  First, this is the cost of integrating all neurons.
    least = rate * settings.cost_in_place
    best = marked = 0.0
    for _ in range(LENGTHS_COMPARED):
        if fixed >= least * interval:
            break
        n_active = choose(group, drift, interval, state.margin, settings.n_sums, work.is_active)
        marked = interval
        cost = fixed + n_active * (rate * interval * COST_OF_MEMBER + state.n_sources * COST_OF_GATHERING)
        most = settings.room if interval <= safe else min(settings.room, SETTLED_PART * n_neurons)
        if n_active <= most and cost < least * interval:
            least = cost / interval
            best = interval
        interval = safe if 0.5 * interval < safe < interval else 0.5 * interval
    if best > 0.0 and best != marked:
        choose(group, drift, best, state.margin, settings.n_sums, work.is_active)
    return best


@inner
def copy_active(group, is_active, active):
    """Copy the active set to `active`; return its number of neurons, even if `active` is too small."""
    n_active = 0
    for i in range(group.threshold.shape[0]):
        if is_active[i] and n_active < active.slots.shape[0]:
            active.members[n_active] = i
            active.slots[n_active] = -1
            active.own[OWN_BIAS, n_active] = group.bias[i]
            active.own[OWN_THRESHOLD, n_active] = group.threshold[i]
            active.own[OWN_POTENTIAL, n_active] = group.potential[i]
            active.own[OWN_CURRENT, n_active] = group.current[i]
            active.own[OWN_BEFORE, n_active] = group.potential[i]
        n_active += is_active[i]
    active.n_slots[0] = 0
    return n_active


@inner
def take_over(group, drift, elapsed, active, n_active, screened, log, n_events):
    """Write the state and the drift after an interval; replace places in the active set by neurons."""
    for i in range(group.threshold.shape[0]):
        drift[i] = (screened.potential[i] - group.potential[i]) / elapsed
        group.potential[i] = screened.potential[i]
        group.current[i] = screened.current[i]
    for k in range(n_active):
        i = active.members[k]
        drift[i] = (active.own[OWN_POTENTIAL, k] - active.own[OWN_BEFORE, k]) / elapsed
        group.potential[i] = active.own[OWN_POTENTIAL, k]
        group.current[i] = active.own[OWN_CURRENT, k]
    for event in range(n_events):
        neuron = active.members[log.neurons[event]]
        log.neurons[event] = neuron
        drift[neuron] += group.threshold[neuron] / elapsed


@inner
def integrate_active(form, group, drift, state, interval, settings, work):
    """Run the active set, then screen the other neurons; return (elapsed time, spikes, windows)."""
    # If there are too many active neurons, if the interval was run too often, or if no time would pass, the
    # elapsed time is -1, and the state of the neurons does not change.
    active, sources, screened, log = work.active, work.sources, work.screened, work.log
    n_neurons = group.threshold.shape[0]
    next_interval = interval
    n_runs = 0
    while True:
        n_runs += 1
        n_active = copy_active(group, work.is_active, active)
        if n_active > active.slots.shape[0] or n_runs > MOST_RUNS:
            state.interval = 0.25 * interval
            return -1.0, 0, 0
        n_wanted = max(LEAST_WANTED, CANDIDATES_WANTED // max(n_active, 1))
        n_wanted = float(min(n_wanted, MOST_EVENTS_PER_WINDOW // 2))
        own = active.own
        members = Group(
            own[OWN_BIAS, :n_active], own[OWN_THRESHOLD, :n_active], own[OWN_POTENTIAL, :n_active],
            own[OWN_CURRENT, :n_active],
        )  # fmt: skip
        elapsed, window, n_new, n_windows, missing = integrate_windows(
            Gathered(form, active),
            members,
            interval,
            state.window,
            settings.most_events,
            n_wanted,
            work.windows,
            log,
        )
        state.missing = active.members[missing] if missing >= 0 else -1
        if elapsed == 0.0:
            return -1.0, 0, 0
        n_slots = active.n_slots[0]
        summarise(log, n_new, elapsed, active.slots, n_slots, sources)
        n_sources = form.note_rows(active, sources, n_slots)
        n_violators, margin = screen(
            form, group, work.is_active, elapsed, sources, n_sources, settings, screened
        )
        state.margin = max(margin, MARGIN_KEPT * state.margin)
        if n_violators == 0:
            break
        again = n_new * COST_OF_SPIKE + COST_OF_NEURON * n_neurons
        again += n_slots * settings.cost_of_source
        n_more = find_firing(
            form, group, elapsed, work.is_active, active, sources, screened, log, n_new, n_slots, again,
            settings.n_sums,
        )  # fmt: skip
        if n_more == 0:
            break
        next_interval = 0.5 * interval
    state.interval = next_interval
    state.window = window
    state.n_sources = n_slots
    state.screened_time += elapsed
    take_over(group, drift, elapsed, active, n_active, screened, log, n_new)
    return elapsed, n_new, n_windows

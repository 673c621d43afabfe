"""What Python calls for large networks: as `simulation`, with an active set where that pays."""

from snn._kernels.active_set import integrate_active, plan
from snn._kernels.compiling import implements, inner, uncounted
from snn._kernels.event_loop import run
from snn._kernels.simulation import advance_each, integrate
from snn._kernels.workspace import ScreeningWork, cut_up_for_screening


@implements(integrate, ScreeningWork)
def integrate_some(work, form, group, drift, state, remaining, settings):
    interval = plan(form, group, drift, state, remaining, settings, work)
    if interval > 0.0:
        elapsed, n_new, n_windows = integrate_active(form, group, drift, state, interval, settings, work)
        if elapsed >= 0.0:
            return elapsed, n_new, n_windows
    return integrate_all(form, group, drift, state, remaining, settings, work)


@inner
def integrate_all(form, group, drift, state, remaining, settings, work):
    """Integrate all neurons in place, and note what the choice of an active set needs; return as
    `integrate`."""
    before, log, marks = work.screened.potential, work.log, work.windows.exact_at
    n_neurons = group.threshold.shape[0]
    for i in range(n_neurons):
        before[i] = group.potential[i]
    elapsed, state.window, n_new, n_windows, state.missing = run(
        form, group, remaining, state.window, settings.events_in_place, settings.n_wanted, work.windows, log
    )
    if elapsed == 0.0:
        return elapsed, n_new, n_windows
    # Mean soma currents, and how many neurons fired.
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


@uncounted
def advance(form, neurons, states, settings, memory, more, active, first, stops, budget, spikes):
    """As `simulation.advance`; `more` is a `workspace.ScreeningMemory`."""
    work = cut_up_for_screening(memory, more, neurons.threshold.shape[0], settings)
    return advance_each(form, neurons, states, settings, work, active, first, stops, budget, spikes)

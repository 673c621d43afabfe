"""Runs with a stimulus, change by change, by simulators that know nothing of one."""

from __future__ import annotations

import numpy as np

from snn import NetworkState
from tests.reference.plain_simulator import simulate_plainly


def random_stimulus(rng, n_neurons, start, stop, *, n_sources=3, n_spikes=40, strength=0.6):
    """Return the arguments of a `Stimulus` with changes at both ends of a run, and some at one time."""
    times = np.sort(np.concatenate([[start, start, stop], rng.uniform(start, stop, n_spikes)]))
    times[5:8] = times[5]
    drive_times = np.unique(np.concatenate([[start, times[5], stop], rng.uniform(start, stop, 4)]))
    return {
        "drive_times": drive_times,
        "drive": rng.uniform(-0.4, 1.4, (len(drive_times), n_neurons)),
        "times": times,
        "sources": rng.integers(0, n_sources, len(times)),
        "weights": strength * rng.standard_normal((n_sources, n_neurons)),
    }


def simulate_by_hand(weights, network, duration, parts, *, state=None, onto="current"):
    """Return (times, neurons, potential, current): the plain simulator, stopped at every change.

    `parts` are those of `random_stimulus`, any pair of which may be left out.
    """
    n = network.n_neurons
    if state is None:
        state = NetworkState.at_rest(n)
    now, end = state.time, state.time + duration
    potential, current = state.membrane_potential.copy(), state.synaptic_current.copy()
    drive = network.soma_bias.copy()
    changes = [(time, 0, row) for row, time in enumerate(parts.get("drive_times", ()))]
    changes += [
        (time, 1, source)
        for time, source in zip(parts.get("times", ()), parts.get("sources", ()), strict=True)
    ]
    times, neurons = [], []
    for time, kind, which in [*sorted(changes), (end, 2, 0)]:
        if time > now:
            here = NetworkState(membrane_potential=potential, synaptic_current=current)
            part = simulate_plainly(weights, drive, network.firing_threshold, time - now, state=here)
            times.append(now + part.times)
            neurons.append(part.neurons)
            potential, current = part.membrane_potential, part.synaptic_current
            now = time
        if kind == 0:
            drive = parts["drive"][which].copy()
        elif kind == 1 and onto == "current":
            current = current + parts["weights"][which]
        elif kind == 1:
            drive = drive + parts["weights"][which]
    return np.concatenate(times), np.concatenate(neurons), potential, current

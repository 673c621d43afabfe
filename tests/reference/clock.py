"""The clocked simulator's slow twin: its rules written out, one neuron after the other."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class ClockedRun(NamedTuple):
    """What happened, and the state at the end; steps count from 1."""

    steps: np.ndarray
    neurons: np.ndarray
    membrane_potential: np.ndarray
    synaptic_current: np.ndarray
    charge: np.ndarray


def simulate_slowly(
    weights, bias, threshold, n_steps, time_step, *, integration, reset, membrane_potential, synaptic_current,
    drives=None, inputs=None,
) -> ClockedRun:  # fmt: skip
    """Run a network with dense weights[source, target] on a clock.

    `drives` and `inputs` say by the number of a step, 0 before the first, which drive holds after it, and
    what is added to the currents at its end.
    """
    n_neurons = len(bias)
    drives, inputs = drives or {}, inputs or {}
    bias = drives.get(0, bias)
    synaptic_current = [
        h + x for h, x in zip(synaptic_current, inputs.get(0, [0.0] * n_neurons), strict=True)
    ]
    v, h = list(membrane_potential), list(synaptic_current)
    charge = [0.0] * n_neurons
    steps, neurons = [], []
    fading = math.exp(-time_step)
    for step in range(1, n_steps + 1):
        spikes = [0] * n_neurons
        for i in range(n_neurons):
            if integration == "exact":
                brought = bias[i] * time_step + h[i] * -math.expm1(-time_step)
            else:
                brought = (bias[i] + h[i]) * time_step
            charge[i] += brought
            v[i] += brought
            if reset == "zero" and v[i] >= threshold[i]:
                spikes[i], v[i] = 1, 0.0
            while v[i] >= threshold[i]:
                spikes[i], v[i] = spikes[i] + 1, v[i] - threshold[i]
        for i in range(n_neurons):
            h[i] = h[i] * fading + sum(spikes[j] * weights[j][i] for j in range(n_neurons) if j != i)
            steps += [step] * spikes[i]
            neurons += [i] * spikes[i]
        bias = drives.get(step, bias)
        h = [h[i] + x for i, x in enumerate(inputs.get(step, [0.0] * n_neurons))]
    return ClockedRun(np.array(steps), np.array(neurons), np.array(v), np.array(h), np.array(charge))

"""The compiled part of the clocked simulator; nothing here calls, or is called by, the event kernels."""

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def _clock_membranes(
    bias, threshold, potential, current, spike_counts, charge, time_step, subtract, fired, record, step,
    n_events, spike_steps, spike_neurons,
):  # fmt: skip
    """Integrate one step from the currents at its start, and find who fires at its end."""
    n_fired = 0
    for i in range(potential.shape[0]):
        addend = (bias[i] + current[i]) * time_step
        charge[i] += addend
        potential[i] += addend
        if potential[i] >= threshold[i]:
            potential[i] = potential[i] - threshold[i] if subtract else 0.0
            spike_counts[i] += 1
            fired[n_fired] = i
            if record:
                spike_steps[n_events + n_fired] = step
                spike_neurons[n_events + n_fired] = i
            n_fired += 1
    return n_fired


@njit(cache=True, nogil=True, error_model="numpy")
def step_dense(
    weights, factor, mirrored, exchange_weights, bias, threshold, potential, current, spike_counts, charge,
    first_step, stop_step, time_step, subtract, max_events, record, spike_steps, spike_neurons,
):  # fmt: skip
    """Run clock steps first_step .. stop_step - 1; return (next step, number of spikes).

    Returns early once max_events spikes have been emitted.  With `mirrored`, the weights are the
    lateral weights of pairs, delivered with both signs.
    """
    fired = np.empty(potential.shape[0], dtype=np.int64)
    decay = math.exp(-time_step)
    n_rows = weights.shape[0]
    n_events = 0
    for step in range(first_step, stop_step):
        if n_events >= max_events:
            return step, n_events
        n_fired = _clock_membranes(
            bias, threshold, potential, current, spike_counts, charge, time_step, subtract, fired, record,
            step, n_events, spike_steps, spike_neurons,
        )  # fmt: skip
        n_events += n_fired
        for i in range(current.shape[0]):
            current[i] *= decay
        for k in range(n_fired):
            neuron = fired[k]
            own_current = current[neuron]
            if not mirrored:
                row = weights[neuron]
                for i in range(n_rows):
                    current[i] += factor * row[i]
                current[neuron] = own_current
                continue
            pair = neuron % n_rows
            other = (neuron + n_rows) % (2 * n_rows)
            other_current = current[other]
            signed_factor = factor if neuron < n_rows else -factor
            row = weights[pair]
            for i in range(n_rows):
                current[i] += signed_factor * row[i]
                current[n_rows + i] -= signed_factor * row[i]
            current[neuron] = own_current
            current[other] = other_current + exchange_weights[pair]
    return stop_step, n_events


@njit(cache=True, nogil=True, error_model="numpy")
def step_sparse(
    row_starts, targets, weights, bias, threshold, potential, current, spike_counts, charge, first_step,
    stop_step, time_step, subtract, max_events, record, spike_steps, spike_neurons,
):  # fmt: skip
    """As `step_dense`, for weights in compressed sparse rows."""
    fired = np.empty(potential.shape[0], dtype=np.int64)
    decay = math.exp(-time_step)
    n_events = 0
    for step in range(first_step, stop_step):
        if n_events >= max_events:
            return step, n_events
        n_fired = _clock_membranes(
            bias, threshold, potential, current, spike_counts, charge, time_step, subtract, fired, record,
            step, n_events, spike_steps, spike_neurons,
        )  # fmt: skip
        n_events += n_fired
        for i in range(current.shape[0]):
            current[i] *= decay
        for k in range(n_fired):
            neuron = fired[k]
            for entry in range(row_starts[neuron], row_starts[neuron + 1]):
                current[targets[entry]] += weights[entry]
    return stop_step, n_events

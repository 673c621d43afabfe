"""Imperfect neurons' slow twins: their rules written out, one neuron and one synapse after the other.

Nothing is shared with the product but its `Imperfections`, of which numbers are read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tests.reference.digital import in_register, quotient


def philox(counter, key):
    """Philox4x32-10 in Python's integers: the four words of a counter, under the two of a key."""
    counter, key = list(counter), list(key)
    for _ in range(10):
        high, low = divmod(0xD2511F53 * counter[0], 2**32)
        other_high, other_low = divmod(0xCD9E8D57 * counter[2], 2**32)
        counter = [other_high ^ counter[1] ^ key[0], other_low, high ^ counter[3] ^ key[1], low]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return counter


def uniforms(seed, step, place, purpose):
    """Return two numbers with 53 bits, the first of them in the middle between two multiples of 2^-53."""
    words = philox((step % 2**32, step // 2**32, place, purpose), (seed % 2**32, seed // 2**32))
    first, second = words[0] * 2**32 + words[1], words[2] * 2**32 + words[3]
    return (first // 2**11 + 0.5) / 2**53, (second // 2**11) / 2**53


def normal(seed, step, neuron):
    radius, angle = uniforms(seed, step, neuron // 2, 0)
    turn = math.sin if neuron % 2 else math.cos
    return math.sqrt(-2.0 * math.log(radius)) * turn(2.0 * math.pi * angle)


def n_lost(imperfections, step, neuron, n_sent):
    """Return how many of the spikes of a neuron in a step are lost."""
    draws = [uniforms(imperfections.seed, step, neuron, 1 + k)[0] for k in range(n_sent)]
    return sum(draw < imperfections.lost_spikes for draw in draws)


def whole_steps(time, time_step):
    return math.ceil(time / time_step - 1e-6)


def delay_of(imperfections, source, target, time_step):
    delays = imperfections.delays
    time = delays[()] if delays.ndim == 0 else delays[source] if delays.ndim == 1 else delays[source, target]
    return whole_steps(time, time_step)


class ImperfectRun(NamedTuple):
    """What happened, and the state at the end; steps count from 1."""

    steps: np.ndarray
    neurons: np.ndarray
    membrane_potential: np.ndarray
    synaptic_current: np.ndarray
    charge: np.ndarray


def simulate_slowly(network, imperfections, n_steps, time_step, *, integration, reset) -> ImperfectRun:
    """Run a network that has its mismatch already, from rest, by the equations of one step.

    Potentials are integrated in 2,000 parts of a step by the midpoint rule, unless it is Euler's.
    """
    weights, bias, threshold = network.weights.toarray(), network.soma_bias, network.firing_threshold
    n_neurons = len(bias)
    leak, refractory_steps = imperfections.leak, whole_steps(imperfections.refractory_time, time_step)
    v, h, charge = [0.0] * n_neurons, [0.0] * n_neurons, [0.0] * n_neurons
    free_at, due = [1] * n_neurons, {}
    steps, neurons = [], []
    spread = time_step if leak == 0.0 else (1.0 - math.exp(-2.0 * leak * time_step)) / (2.0 * leak)
    n_parts = 2_000
    middles = (np.arange(n_parts) + 0.5) * (time_step / n_parts)
    for step in range(1, n_steps + 1):
        fired = []
        for i in range(n_neurons):
            if integration == "exact":
                # v' = mu - l v: what comes at time t leaks until the end of the step.
                currents = bias[i] + h[i] * np.exp(-middles)
                brought = currents.mean() * time_step
                kept = (currents * np.exp(-leak * (time_step - middles))).mean() * time_step
                left = v[i] * math.exp(-leak * time_step)
            else:
                brought = kept = (bias[i] + h[i]) * time_step
                left = v[i] * (1.0 - leak * time_step)
            charge[i] += brought
            if step < free_at[i]:
                continue
            v[i] = left + kept
            if imperfections.potential_noise > 0.0:
                size = imperfections.potential_noise * math.sqrt(spread) * threshold[i]
                v[i] += size * normal(imperfections.seed, step, i)
            n_spikes = 0
            if v[i] >= threshold[i]:
                n_spikes = math.floor(v[i] / threshold[i])
                if reset == "zero" or refractory_steps > 0:
                    n_spikes = 1
                v[i] = 0.0 if reset == "zero" else v[i] - n_spikes * threshold[i]
                free_at[i] = step + 1 + refractory_steps
                fired.append((i, n_spikes))
        h = [current * math.exp(-time_step) for current in h]
        for j, n_spikes in fired:
            steps += [step] * n_spikes
            neurons += [j] * n_spikes
            n_arrived = n_spikes - n_lost(imperfections, step, j, n_spikes)
            for i in range(n_neurons):
                arrival = step + delay_of(imperfections, j, i, time_step)
                due.setdefault(arrival, np.zeros(n_neurons))[i] += n_arrived * weights[j, i]
        h = [current + amount for current, amount in zip(h, due.pop(step, np.zeros(n_neurons)), strict=True)]
    return ImperfectRun(np.array(steps), np.array(neurons), np.array(v), np.array(h), np.array(charge))


class ImperfectDigitalRun(NamedTuple):
    """What happened, and the state at the end; a message is (step, neuron, number), steps count from 1."""

    messages: list
    potential: list
    current: list
    overflows: list


def simulate_integers_slowly(network, imperfections, n_steps) -> ImperfectDigitalRun:
    """Run a DigitalNetwork, which has its mismatch already, from rest."""
    fmt, n, step_length = network.format, network.n_neurons, network.time_step
    threshold = network.firing_threshold.tolist()
    drive = network.drive(network.network.soma_bias)
    bias = [int(m) * 2**drive.exponent for m in drive.mantissas]
    leak = round(2**fmt.decay_bits * (1.0 - math.exp(-imperfections.leak * step_length)))
    refractory_steps = whole_steps(imperfections.refractory_time, step_length)
    v, u, free_at, due = [0] * n, [0] * n, [1] * n, {}
    messages, overflows = [], [[0, 0, 0, 0] for _ in range(n)]
    limit = 2**fmt.message_bits - 1
    for step in range(1, n_steps + 1):
        for i in range(n):
            arrived = u[i]
            u[i] = quotient(u[i] * (2**fmt.decay_bits - network.decay), fmt.decay_bits, fmt.decay_rounding)
            if step < free_at[i]:
                continue
            v[i] -= quotient(v[i] * leak, fmt.decay_bits, fmt.decay_rounding)
            if imperfections.potential_noise > 0.0:
                size = imperfections.potential_noise * math.sqrt(step_length) * threshold[i]
                v[i] += round(size * normal(imperfections.seed, step, i))
            v[i], side = in_register(v[i] + bias[i] + arrived, fmt.potential_bits, fmt.potential_overflow)
            overflows[i][0] += side < 0
            overflows[i][1] += side > 0
            if v[i] < threshold[i]:
                continue
            unit = 2**network.message_shift if fmt.graded else threshold[i]
            number = v[i] // unit
            if number > limit:
                overflows[i][3] += fmt.graded or limit > 1
                number = limit
            v[i] = v[i] - number * unit if fmt.reset == "subtract" else 0
            free_at[i] = step + 1 + refractory_steps
            messages.append((step, i, number))
            if n_lost(imperfections, step, i, 1):
                continue
            for entry in range(network.starts[i], network.starts[i + 1]):
                target = int(network.targets[entry])
                delay = delay_of(imperfections, i, target, step_length) + int(network.delays[i])
                arriving = due.setdefault(step + delay, [0] * n)
                arriving[target] += int(network.weights.mantissas[entry]) * number
        for i, amount in enumerate(due.pop(step, [0] * n)):
            amount = quotient(amount, -network.weights.exponent, fmt.input_rounding)
            u[i], side = in_register(u[i] + amount, fmt.current_bits, fmt.current_overflow)
            overflows[i][2] += side != 0
    return ImperfectDigitalRun(messages, v, u, overflows)

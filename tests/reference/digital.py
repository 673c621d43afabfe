"""The slow twin of digital runs, in Python's integers, one neuron after the other; random digital networks.

The twin shares no code with the product; it reads the numbers of a format, a network and imperfections.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from snn import Clock, Imperfections, SimulationResult, SpikingNetwork, simulate
from snn.digital import DigitalFormat, DigitalNetwork, FixedPoint
from snn.digital.digital_network import integer_drive
from tests.reference.clock import delay_of, n_lost, normal, whole_steps


def in_integers(network: DigitalNetwork, n_steps, **options) -> SimulationResult:
    """Run a DigitalNetwork with the product."""
    step = network.time_step
    return simulate(network.network, n_steps * step, Clock(step, network), **options)


QUOTIENTS = ["truncate", "floor", "nearest"]


class DigitalRun(NamedTuple):
    """Events and the final state; a message is (step, neuron, number), and steps count from 1."""

    messages: list
    potential: list
    current: list
    overflows: list


def quotient(number, shift, rounding):
    exact = Fraction(number, 2**shift) if shift >= 0 else Fraction(number * 2**-shift)
    if rounding == "floor":
        return math.floor(exact)
    if rounding == "truncate":
        return math.trunc(exact)
    return math.floor(exact + Fraction(1, 2)) if exact >= 0 else -math.floor(-exact + Fraction(1, 2))


def in_register(number, bits, overflow):
    """Return what a register holds of a number, and -1, 0 or 1 for a number below, in or above the range."""
    least, largest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if least <= number <= largest:
        return number, 0
    side = -1 if number < least else 1
    if overflow == "saturate":
        return (least if side < 0 else largest), side
    return (number - least) % 2**bits + least, side


def integers_of(drive):
    return [int(m) * 2**drive.exponent for m in drive.values]


def simulate_slowly(network, n_steps, *, imperfections=None, drives=None, inputs=None) -> DigitalRun:
    """Run a DigitalNetwork, whose weights and thresholds include mismatch, from rest.

    `drives` and `inputs` are dicts by step, counted from 1: the drive after the step, and the sums of weights
    that arrive at the end of the step, after the weights of the network.
    """
    fmt, rows, n, step_length = network.format, network.synapses, network.n_neurons, network.time_step
    given = imperfections or Imperfections()
    threshold, exponent = network.firing_threshold.tolist(), network.rules.exponent
    bias = integers_of(integer_drive(network, network.network.soma_bias))
    leak = round(2**fmt.decay_bits * (1.0 - math.exp(-given.leak * step_length)))
    refractory_steps = whole_steps(given.refractory_time, step_length)
    v, u, free_at, due = [0] * n, [0] * n, [1] * n, {}
    messages, overflows = [], [[0, 0, 0, 0] for _ in range(n)]
    limit = 2**fmt.message_bits - 1

    def arrive(amounts):
        for i, amount in enumerate(amounts):
            amount = quotient(int(amount), -exponent, fmt.input_rounding)
            u[i], side = in_register(u[i] + amount, fmt.current_bits, fmt.current_overflow)
            overflows[i][2] += side != 0

    for step in range(1, n_steps + 1):
        for i in range(n):
            arrived = u[i]
            u[i] = quotient(u[i] * network.rules.kept, fmt.decay_bits, fmt.decay_rounding)
            if step < free_at[i]:
                continue
            v[i] -= quotient(v[i] * leak, fmt.decay_bits, fmt.decay_rounding)
            if given.potential_noise > 0.0:
                size = given.potential_noise * math.sqrt(step_length) * threshold[i]
                v[i] += round(size * normal(given.seed, step, i))
            if given.potential_floor is not None:
                v[i] = max(v[i], round(given.potential_floor * threshold[i]))
            v[i], side = in_register(v[i] + bias[i] + arrived, fmt.potential_bits, fmt.potential_overflow)
            overflows[i][0] += side < 0
            overflows[i][1] += side > 0
            if v[i] < threshold[i]:
                continue
            unit = 2**network.rules.message_shift if fmt.graded else threshold[i]
            number = v[i] // unit
            if number > limit:
                overflows[i][3] += fmt.graded or limit > 1
                number = limit
            v[i] = v[i] - number * unit if fmt.reset == "subtract" else 0
            free_at[i] = step + 1 + refractory_steps
            messages.append((step, i, number))
            if n_lost(given, step, i, 1):
                continue
            for entry in range(rows.starts[i], rows.starts[i + 1]):
                target = int(rows.targets[entry])
                delay = delay_of(given, i, target, step_length) + int(rows.delays[i])
                arriving = due.setdefault(step + delay, [0] * n)
                arriving[target] += int(rows.weights[entry]) * number
        arrive(due.pop(step, [0] * n))
        arrive((inputs or {}).get(step, [0] * n))
        bias = (drives or {}).get(step, bias)
    return DigitalRun(messages, v, u, overflows)


def random_format(rng):
    graded = bool(rng.integers(2))
    reset = str(rng.choice(["subtract", "zero"]))
    message_bits = int(rng.choice([4, 6, 8, 16])) if graded else int(rng.choice([1, 2, 4, 8, 12]))
    return DigitalFormat(
        weights=FixedPoint(
            bits=int(rng.integers(2, 13)),
            exponent=None if rng.integers(2) else int(rng.integers(-6, 7)),
            rounding=str(rng.choice(["nearest", "floor", "truncate", "stochastic"])),
        ),
        bias=FixedPoint(bits=int(rng.integers(2, 14))),
        potential_bits=int(rng.choice([2, 4, 6, 8, 12, 16, 24, 40, 50])),
        current_bits=int(rng.choice([2, 4, 8, 12, 24, 48])),
        potential_overflow=str(rng.choice(["saturate", "saturate", "wrap"])),
        current_overflow=str(rng.choice(["saturate", "wrap"])),
        decay_bits=int(rng.choice([4, 8, 12, 14])),
        decay_rounding=str(rng.choice(QUOTIENTS)),
        input_rounding=str(rng.choice(QUOTIENTS)),
        message_bits=1 if reset == "zero" and not graded else message_bits,
        graded=graded,
        reset=reset,
        delay=int(rng.integers(0, 4)),
        lowest_drive=rng.choice([None, 0.5, 2.0]),
        seed=int(rng.integers(2**40)),
    )


def random_digital(rng, n_neurons=None):
    """Return a random network with numbers of any size, in a random format that can represent the network."""
    while True:
        n = int(rng.integers(1, 7)) if n_neurons is None else n_neurons
        weights = rng.standard_normal((n, n)) * rng.choice([0.0, 0.3, 3.0], (n, n)) * (1.0 - np.eye(n))
        bias = rng.standard_normal(n) * rng.choice([0.2, 2.0, 20.0])
        network = SpikingNetwork(weights, bias, rng.uniform(0.5, 1.0, n))
        delays = rng.integers(0, 5, n) if rng.integers(2) else None
        step = float(rng.choice([0.1, 0.25, 0.5, 1.0, 3.0]))
        try:
            made = DigitalNetwork.of(network, random_format(rng), time_step=step, delays=delays)
            integer_drive(made, bias)
            return made
        except ValueError:  # some formats refuse a network
            continue

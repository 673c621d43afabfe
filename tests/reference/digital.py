"""The digital emulator's slow twin: Python's integers, one neuron after the other, nothing shared with it."""

from __future__ import annotations

from fractions import Fraction
from math import floor, trunc
from typing import NamedTuple


class DigitalRun(NamedTuple):
    """What happened, and the state at the end; a message is (step, neuron, number), steps count from 1."""

    messages: list
    potential: list
    current: list
    overflows: list


def quotient(number, shift, rounding):
    exact = Fraction(number, 2**shift) if shift >= 0 else Fraction(number * 2**-shift)
    if rounding == "floor":
        return floor(exact)
    if rounding == "truncate":
        return trunc(exact)
    return floor(exact + Fraction(1, 2)) if exact >= 0 else -floor(-exact + Fraction(1, 2))


def in_register(number, bits, overflow):
    """The number as a register of this width holds it, and whether it was too narrow: -1, 0 or 1."""
    least, largest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if least <= number <= largest:
        return number, 0
    side = -1 if number < least else 1
    if overflow == "saturate":
        return (least if side < 0 else largest), side
    return (number - least) % 2**bits + least, side


def simulate_slowly(
    fmt, weights, exponent, bias, threshold, decay, delays, message_shift, n_steps, *, start=None,
    drives=None, inputs=None,
) -> DigitalRun:  # fmt: skip
    """Run integers weights[source][target]; `fmt` is a DigitalFormat, of which only names are read.

    `drives` and `inputs` say by the number of a step, from 1 on, which drive holds after it, and which sums
    of weights arrive at its end after those of the network.
    """
    n = len(bias)
    v, u = ([0] * n, [0] * n) if start is None else (list(start[0]), list(start[1]))
    due = {}
    messages, overflows = [], [[0, 0, 0, 0] for _ in range(n)]
    limit = 2**fmt.message_bits - 1
    for step in range(1, n_steps + 1):
        for i in range(n):
            v[i], side = in_register(v[i] + bias[i] + u[i], fmt.potential_bits, fmt.potential_overflow)
            overflows[i][0] += side < 0
            overflows[i][1] += side > 0
            u[i] = quotient(u[i] * (2**fmt.decay_bits - decay), fmt.decay_bits, fmt.decay_rounding)
            if v[i] < threshold[i]:
                continue
            unit = 2**message_shift if fmt.graded else threshold[i]
            number = v[i] // unit
            if number > limit:
                overflows[i][3] += fmt.graded or limit > 1
                number = limit
            v[i] = v[i] - number * unit if fmt.reset == "subtract" else 0
            messages.append((step, i, number))
            arriving = due.setdefault(step + delays[i], [0] * n)
            for target in range(n):
                if target != i:
                    arriving[target] += weights[i][target] * number
        for i, amount in enumerate(due.pop(step, [0] * n)):
            amount = quotient(amount, -exponent, fmt.input_rounding)
            u[i], side = in_register(u[i] + amount, fmt.current_bits, fmt.current_overflow)
            overflows[i][2] += side != 0
        for i, amount in enumerate((inputs or {}).get(step, [0] * n)):
            amount = quotient(int(amount), -exponent, fmt.input_rounding)
            u[i], side = in_register(u[i] + amount, fmt.current_bits, fmt.current_overflow)
            overflows[i][2] += side != 0
        bias = (drives or {}).get(step, bias)
    return DigitalRun(messages, v, u, overflows)

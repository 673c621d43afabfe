"""The numbers of a digital neuron: fixed point, widths, rounding, and overflow."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from snn._interrupts import float_errors
from snn._kernels.digital_neurons import least_exponent
from snn.base import checks
from snn.base.checks import read_only
from snn.base.value import Value, checked

# Most bits of a mantissa: mantissas, and differences of them, are then exact in float64.
MOST_BITS = 52
# Largest size of an exponent: mantissas times the power of two stay in the range of float64.
LARGEST_EXPONENT = 900
OVERFLOWS = ("saturate", "wrap")
QUOTIENT_ROUNDINGS = ("truncate", "floor", "nearest")
# Most bits of a register, so that its values are exact in float64, and of a current times its decay.
MOST_REGISTER_BITS = 50
MOST_CURRENT_AND_DECAY_BITS = 62
MOST_MESSAGE_BITS = 32
MOST_DELAY = 4096  # steps
# The default threshold leaves these bits of a potential: room for -8 to 8 thresholds.
BITS_ABOVE_THRESHOLD = 4
# In synaptic time constants; the changes of a shorter step would be lost in rounding.
SHORTEST_STEP = 2.0**-40
# In synaptic time constants.  Longer steps cause a warning: usually they are in a different unit of time.
LONGEST_STEP = 1.0


@dataclass(frozen=True, kw_only=True)
class FixedPoint(Value):
    """A format of numbers: value = mantissa * 2^exponent, with integer mantissas of `bits` bits.

    ::

        "signed"            -2^(bits - 1) <= mantissa <= 2^(bits - 1) - 1
        "non-negative"                  0 <= mantissa <= 2^bits - 1
        "non-positive"   -(2^bits - 1) <= mantissa <= 0

    Numbers beyond the range of mantissas saturate: they become the nearest end of the range.

    Parameters
    ----------
    bits : int
        Bits of a mantissa, including its sign: 1 to 52, and at least 2 for "signed".
    exponent : int, optional
        The power of two of all mantissas.  By default it depends on the numbers: the smallest exponent at
        which all of them are in range (0 if all are zero).
    sign : {"signed", "non-negative", "non-positive"}, default "signed"
        The range of mantissas, above.
    rounding : {"nearest", "floor", "truncate", "stochastic"}, default "nearest"
        How a number is rounded to a mantissa:

        - "nearest": the nearest one; a tie goes to the even one;
        - "floor": the one below, towards minus infinity, as an arithmetic shift to the right does;
        - "truncate": the one towards zero;
        - "stochastic": the one above with a probability equal to the distance from the one below, so that
          its mean is the number.
    """

    bits: int = checked(checks.integer)
    exponent: int | None = checked(checks.integer, -LARGEST_EXPONENT, LARGEST_EXPONENT, default=None)
    sign: str = checked(checks.one_of, ("signed", "non-negative", "non-positive"), default="signed")
    rounding: str = checked(checks.one_of, ("nearest", "floor", "truncate", "stochastic"), default="nearest")

    def _check(self) -> None:
        least = 2 if self.sign == "signed" else 1
        checks.integer(f"bits of {self.sign} mantissas", self.bits, least, MOST_BITS)

    @property
    def smallest(self) -> int:
        """The smallest mantissa."""
        return -self.largest - 1 if self.sign == "signed" else self.largest + 1 - 2**self.bits

    @property
    def largest(self) -> int:
        """The largest mantissa."""
        bits = {"signed": self.bits - 1, "non-negative": self.bits, "non-positive": 0}[self.sign]
        return 2**bits - 1


class Mantissas(NamedTuple):
    """Rounded numbers: ``values * 2.0**exponent``."""

    values: np.ndarray  # int64, read-only
    exponent: int
    n_saturated: int  # numbers that were beyond the range of mantissas


def exponent_for(format: FixedPoint, values: np.ndarray) -> int:
    """Return the exponent of a format, or the smallest one at which no finite value saturates."""
    # Numbers of the wrong sign saturate with every exponent, and do not count.
    if format.exponent is not None:
        return format.exponent
    exponents = [
        least_exponent(float(extreme), end)
        for extreme, end in (
            (values.max(initial=0.0), format.largest),
            (values.min(initial=0.0), format.smallest),
        )
        if extreme * end > 0
    ]
    exponent = max(exponents, default=0)
    if abs(exponent) > LARGEST_EXPONENT:
        raise ValueError(
            f"values must need an exponent in [-{LARGEST_EXPONENT}, {LARGEST_EXPONENT}]; got numbers "
            f"that need {exponent}: divide them by a scale"
        )
    return exponent


def mantissas_of(
    format: FixedPoint, values: np.ndarray, *, rng: int | np.random.Generator | None = None
) -> Mantissas:
    """Round finite values to a format; stochastic rounding draws its random numbers in C order."""
    exponent, rounded = exponent_for(format, values), np.empty_like(values, order="C")
    n_saturated = _round(format, values, exponent, rng, rounded)
    return Mantissas(read_only(rounded.astype(np.int64)), exponent, n_saturated)


def round_in_place(
    format: FixedPoint,
    values: np.ndarray,
    *,
    exponent: int | None = None,
    rng: int | np.random.Generator | None = None,
) -> int:
    """Round finite floats to numbers of a format, which stay floats; return how many saturated."""
    if exponent is None:
        exponent = exponent_for(format, values)
    n_saturated = _round(format, values, exponent, rng, values)
    np.multiply(values, 2.0**exponent, out=values)
    return n_saturated


def _round(
    format: FixedPoint,
    values: np.ndarray,
    exponent: int,
    rng: int | np.random.Generator | None,
    out: np.ndarray,
) -> int:
    """Write mantissas, as floats, to `out`, which may be `values`; return how many numbers saturated."""
    with float_errors(over="ignore"):  # infinite products saturate below
        np.multiply(values, 2.0**-exponent, out=out)
    if format.rounding == "stochastic":
        below = np.floor(out)
        # The difference is exact: it is 0 for a number that is a mantissa, so the number does not change.
        with float_errors(invalid="ignore"):
            out -= below
        out[...] = below + (np.random.default_rng(rng).random(out.shape) < out)
    else:
        {"nearest": np.rint, "floor": np.floor, "truncate": np.trunc}[format.rounding](out, out=out)
    n_saturated = np.count_nonzero((out < format.smallest) | (out > format.largest))
    if n_saturated:
        np.clip(out, format.smallest, format.largest, out=out)
    out += 0.0  # no negative zeros
    return int(n_saturated)


def checked_step(time_step: float, *, warn: bool = True) -> float:
    """Return a time step on which a clock can run; warn of one longer than a synaptic time constant."""
    time_step = checks.positive_number("time_step", time_step)
    if time_step < SHORTEST_STEP:
        raise ValueError(f"time_step must be at least 2^-40, where rounding is small; got {time_step}")
    if warn and time_step > LONGEST_STEP:
        checks.warn_caller(
            f"time_step is {time_step:g} synaptic time constants, which are the unit of time: in so long a "
            "step neurons fire together that would inhibit each other, and rates may swing without end; with "
            "1/4 or less they follow the exact network (docs/theory.md, section 7.2)",
            UserWarning,
        )
    return time_step


@dataclass(frozen=True, kw_only=True)
class DigitalFormat(Value):
    """The integers of a digital neuron, and how they are rounded.

    One step does, in this order and for all neurons at once::

        1.  v <- end(v + bias + u)                    end: saturate, or wrap around, at the register's width
        2.  if v >= threshold: send m = min(floor(v / threshold), 2^message_bits - 1)
            and v <- v - m threshold                  (reset "zero": v <- 0)
            graded: m = min(floor(v / 2^shift), 2^message_bits - 1), and v <- v - 2^shift m
        3.  u <- end(round(u (2^k - delta) / 2^k) + round(2^exponent sum_j weights_ji m_j))

    with the m_j sent in this step, or `delay` steps before (`DigitalNetwork` has the integers).  With wide
    registers and many bits these are the steps of a `Clock` of real numbers, divided by the `unit` of
    potentials.  Loihi has the same order; there, decay and input of step 3 are the first two operations of
    the next step.  The weights of input spikes have the bits, the exponent and the rounding of the network's
    weights, but they are rounded to nearest if the network's weights are rounded stochastically.  Their sum
    in a step is rounded as the sum of rule 3, and added to u after that rule.

    The default is a neuron of Loihi's widths that keeps its charge: a spike takes the threshold from the
    potential.  ``reset="zero", current_overflow="wrap"`` is what Lava's model of that chip does.

    Parameters
    ----------
    weights : FixedPoint, default 8 bits, signed
        Mantissas of the weights, with one exponent for all.
    bias : FixedPoint, default 13 bits, signed
        Mantissas of the drive.  The exponent, given or chosen, is at least 0: a drive is a whole number of
        units of the potential.
    potential_bits, current_bits : int, default 24
        Width of the membrane potential and of the synaptic current, signed: -2^(bits - 1) to
        2^(bits - 1) - 1.  At most 50.
    potential_overflow, current_overflow : {"saturate", "wrap"}, default "saturate"
        Result for a number beyond this range: the nearest end, or the number modulo 2^bits.
    decay_bits : int, default 12
        A current u decays in a step to ``u (2^decay_bits - delta) / 2^decay_bits``, rounded; delta is a whole
        number.  At most 62 together with `current_bits`.
    decay_rounding : {"truncate", "floor", "nearest"}, default "truncate"
        Rounding of that quotient: towards zero, as Loihi does; towards minus infinity, as an arithmetic
        shift does; or to the nearest whole number, and halves away from zero.
    input_rounding : {"floor", "truncate", "nearest"}, default "floor"
        Rounding of the sum of all that reaches a neuron in a step, if the exponent of the weights is
        negative; "floor" is the shift of Lava's connections.
    message_bits : int, default 1
        Width of the message of a neuron that fires, not negative.  A neuron fires at most 2^bits - 1 times in
        a step, so with one bit at most once.
    graded : bool, default False
        A message is not a number of spikes but the potential, without its low bits if the potential is wider
        than the message.  Such a spike stands for ``potential / threshold`` spikes.
    reset : {"subtract", "zero"}, default "subtract"
        The potential of a neuron after it fired: reduced by its message, or zero.
    delay : int, default 0
        Whole steps that a spike takes after the step in which it is sent; at most 4096.
    threshold : int, optional
        The largest firing threshold, in units of the potential; by default 2^(potential_bits - 4), which
        leaves room for potentials of eight thresholds, up and down.
    lowest_drive : float, optional
        Drives below minus this number times the largest drive are raised to that limit.  Low drives take
        bits from the others, because all mantissas have one exponent.  By default there is no limit.
    seed : int, default 0
        Seed of the stochastic rounding of weights.

    References
    ----------
    Davies et al. (2018), Loihi: a neuromorphic manycore processor with on-chip learning, IEEE Micro 38.
    """

    weights: FixedPoint = checked(checks.instance_of, FixedPoint, default=FixedPoint(bits=8))
    bias: FixedPoint = checked(checks.instance_of, FixedPoint, default=FixedPoint(bits=13))
    potential_bits: int = checked(checks.integer, 2, MOST_REGISTER_BITS, default=24)
    current_bits: int = checked(checks.integer, 2, MOST_REGISTER_BITS, default=24)
    potential_overflow: str = checked(checks.one_of, OVERFLOWS, default="saturate")
    current_overflow: str = checked(checks.one_of, OVERFLOWS, default="saturate")
    decay_bits: int = checked(checks.integer, 1, MOST_CURRENT_AND_DECAY_BITS - 2, default=12)
    decay_rounding: str = checked(checks.one_of, QUOTIENT_ROUNDINGS, default="truncate")
    input_rounding: str = checked(checks.one_of, QUOTIENT_ROUNDINGS, default="floor")
    message_bits: int = checked(checks.integer, 1, MOST_MESSAGE_BITS, default=1)
    graded: bool = checked(checks.flag, default=False)
    reset: str = checked(checks.one_of, ("subtract", "zero"), default="subtract")
    delay: int = checked(checks.integer, 0, MOST_DELAY, default=0)
    threshold: int | None = checked(checks.positive_integer, default=None)
    lowest_drive: float | None = checked(checks.positive_number, default=None)
    seed: int = checked(checks.non_negative_integer, default=0)

    def _check(self) -> None:
        if self.threshold is not None and self.threshold >= 2 ** (self.potential_bits - 1):
            raise ValueError(
                f"threshold must be less than 2^{self.potential_bits - 1}, where potentials of "
                f"{self.potential_bits} bits end; got {self.threshold}"
            )
        if self.current_bits + self.decay_bits > MOST_CURRENT_AND_DECAY_BITS:
            raise ValueError(
                f"current_bits and decay_bits must be at most {MOST_CURRENT_AND_DECAY_BITS} together, or a "
                f"product could overflow; got {self.current_bits} and {self.decay_bits}"
            )
        if self.reset == "zero" and self.message_bits > 1 and not self.graded:
            raise ValueError(
                "message_bits must be 1 with reset='zero', unless messages are graded: a neuron that is "
                f"reset fires once; got {self.message_bits}"
            )
        if self.bias.exponent is not None and self.bias.exponent < 0:
            raise ValueError(
                f"the exponent of bias must be at least 0, a whole number of units of the potential; got "
                f"{self.bias.exponent}"
            )
        if self.bias.exponent is not None and self.bias.bits + self.bias.exponent > MOST_REGISTER_BITS:
            raise ValueError(
                f"bits and exponent of bias must be at most {MOST_REGISTER_BITS} together; got "
                f"{self.bias.bits} and {self.bias.exponent}"
            )
        if self.bias.rounding == "stochastic":
            raise ValueError(
                "rounding of bias must not be 'stochastic': a drive is rounded when a run starts, and runs "
                "are deterministic"
            )

    @property
    def largest_message(self) -> int:
        """The largest message."""
        return 2**self.message_bits - 1

"""What the integers of a digital neuron are: widths, rounding, and what happens at their ends."""

from __future__ import annotations

from dataclasses import dataclass

from snn.base import checks
from snn.base.caller_warnings import warn_caller
from snn.base.value import Value, checked
from snn.digital.fixed_point import FixedPoint

OVERFLOWS = ("saturate", "wrap")
RESETS = ("subtract", "zero")
QUOTIENT_ROUNDINGS = ("truncate", "floor", "nearest")
# Registers are exact as floats times a unit, and a current times a decay factor stays below 2^63.
MOST_REGISTER_BITS = 50
MOST_CURRENT_AND_DECAY_BITS = 62
MOST_MESSAGE_BITS = 32
MOST_DELAY = 4096
# Of the bits of a potential, those above the threshold unless it is given: room for -8 to 8 thresholds.
BITS_ABOVE_THRESHOLD = 4
# With shorter steps, the change in one step is lost in rounding.
SHORTEST_STEP = 2.0**-40
# In synaptic time constants; a longer one is most often a mistake about the unit of time.
LONGEST_STEP = 1.0


def checked_step(time_step: float, *, warn: bool = True) -> float:
    """Return a time step on which a clock can run; warn of one longer than a synaptic time constant."""
    time_step = checks.positive_number("time_step", time_step)
    if time_step < SHORTEST_STEP:
        raise ValueError(f"time_step must be at least 2^-40, where rounding is small; got {time_step}")
    if warn and time_step > LONGEST_STEP:
        warn_caller(
            f"time_step is {time_step:g} synaptic time constants, which are the unit of time: in so long a "
            "step neurons fire together that would inhibit each other, and rates may swing without end; with "
            "1/4 or less they follow the exact network (docs/theory.md, section 7.2)",
            UserWarning,
        )
    return time_step


def _checked_width(name: str, value: int, least: int, most: int) -> int:
    """Return a whole number within a range."""
    number = checks.integer(name, value)
    if not least <= number <= most:
        raise ValueError(f"{name} must lie in [{least}, {most}]; got {number}")
    return number


@dataclass(frozen=True, kw_only=True)
class DigitalFormat(Value):
    """The integers of a digital neuron, and how they are rounded.

    One step does, in this order and for all neurons at once::

        1.  v <- end(v + bias + u)                    end: saturate, or wrap around, at the register's width
        2.  where v >= threshold: send m = min(floor(v / threshold), 2^message_bits - 1)
            and v <- v - m threshold                  (reset "zero": v <- 0)
            graded: m = min(floor(v / 2^shift), 2^message_bits - 1), and v <- v - 2^shift m
        3.  u <- end(round(u (2^k - delta) / 2^k) + round(2^exponent sum_j weights_ji m_j))

    with the m_j sent in this step, or `delay` steps before (`DigitalNetwork` has the integers).  With wide
    registers and many bits these are the steps of a `Clock` of real numbers, divided by the `unit` of
    potentials.  The order is that of Loihi's neurons: decay and input of step 3 are there the first two
    operations of the next step.  The weights of input spikes have the bits, the exponent and the rounding of
    those of the network, but are rounded to nearest where these are stochastically; their sum in a step is
    added to u after rule 3, rounded as the sum there.

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
        What becomes of a number beyond these ends: the end, or the number modulo 2^bits.
    decay_bits : int, default 12
        A current u decays in a step to ``u (2^decay_bits - delta) / 2^decay_bits``, rounded; delta is a whole
        number.  At most 62 together with `current_bits`.
    decay_rounding : {"truncate", "floor", "nearest"}, default "truncate"
        How that quotient is rounded: towards zero, as Loihi does; towards minus infinity, as an arithmetic
        shift does; or to the nearest whole number, and halves away from zero.
    input_rounding : {"floor", "truncate", "nearest"}, default "floor"
        How the sum of all that reaches a neuron in a step is rounded where the exponent of the weights is
        negative; "floor" is the shift of Lava's connections.
    message_bits : int, default 1
        Width of the message of a neuron that fires, not negative.  A neuron fires at most 2^bits - 1 times in
        a step: with one bit, once.
    graded : bool, default False
        A message is not a number of spikes but the potential itself, of which low bits are left out
        where it is wider than the message.  Such a spike stands for ``potential / threshold`` spikes.
    reset : {"subtract", "zero"}, default "subtract"
        What remains in the potential of a neuron that fires: what its message did not say, or nothing.
    delay : int, default 0
        Whole steps that a spike takes besides the one in which it is sent; at most 4096.
    threshold : int, optional
        The largest firing threshold, in units of the potential; by default 2^(potential_bits - 4), which
        leaves room for potentials of eight thresholds, up and down.
    lowest_drive : float, optional
        Drives below minus so many times the largest are raised to that.  They would take the bits of the
        others: mantissas have one exponent.  By default they are not.
    seed : int, default 0
        For weights that are rounded stochastically.

    References
    ----------
    Davies et al. (2018), Loihi: a neuromorphic manycore processor with on-chip learning, IEEE Micro 38.
    """

    weights: FixedPoint = checked(checks.instance_of, FixedPoint, default_factory=lambda: FixedPoint(bits=8))
    bias: FixedPoint = checked(checks.instance_of, FixedPoint, default_factory=lambda: FixedPoint(bits=13))
    potential_bits: int = checked(_checked_width, 2, MOST_REGISTER_BITS, default=24)
    current_bits: int = checked(_checked_width, 2, MOST_REGISTER_BITS, default=24)
    potential_overflow: str = checked(checks.one_of, OVERFLOWS, default="saturate")
    current_overflow: str = checked(checks.one_of, OVERFLOWS, default="saturate")
    decay_bits: int = checked(_checked_width, 1, MOST_CURRENT_AND_DECAY_BITS - 2, default=12)
    decay_rounding: str = checked(checks.one_of, QUOTIENT_ROUNDINGS, default="truncate")
    input_rounding: str = checked(checks.one_of, QUOTIENT_ROUNDINGS, default="floor")
    message_bits: int = checked(_checked_width, 1, MOST_MESSAGE_BITS, default=1)
    graded: bool = checked(checks.flag, default=False)
    reset: str = checked(checks.one_of, RESETS, default="subtract")
    delay: int = checked(_checked_width, 0, MOST_DELAY, default=0)
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

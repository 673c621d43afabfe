"""What the integers of a digital neuron are: widths, rounding, and what happens at their ends."""

from __future__ import annotations

from dataclasses import dataclass

from snn.base import checks
from snn.base.value import Value, checked
from snn.digital.fixed_point import FixedPoint

OVERFLOWS = ("saturate", "wrap")
RESETS = ("subtract", "zero")
QUOTIENT_ROUNDINGS = ("truncate", "floor", "nearest")
# Sums of a few registers, and a current times a decay factor, stay below 2^63.
MOST_REGISTER_BITS = 56
MOST_CURRENT_AND_DECAY_BITS = 62
MOST_MESSAGE_BITS = 32
MOST_DELAY = 4096


def _checked_width(name: str, value: int, least: int, most: int) -> int:
    """Return a whole number within a range."""
    number = checks.integer(name, value)
    if not least <= number <= most:
        raise ValueError(f"{name} must lie in [{least}, {most}]; got {number}")
    return number


@dataclass(frozen=True, kw_only=True)
class DigitalFormat(Value):
    """The integers of a digital neuron, and how they are rounded.

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
        2^(bits - 1) - 1.  At most 56.
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

    def _check(self) -> None:
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

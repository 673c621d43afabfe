"""The networks that can be written to a core."""

from dataclasses import dataclass

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value, checked


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Capacity(Value, Described):
    """The networks that commands can write to a core.

    The number of neurons, the format, the time step and the delays are those of the network from which the
    core is made.  The weights of that network may all be zero.

    Parameters
    ----------
    least_exponent, largest_exponent : int
        Range of the exponent of weights: ``rules.exponent`` of a `DigitalNetwork`.
    largest_sum : int, optional
        Largest sum of the sizes of the mantissas of the weights that lead to one neuron.  By default, the
        largest possible sum.
    """

    least_exponent: int = checked(checks.integer)
    largest_exponent: int = checked(checks.integer)
    largest_sum: int | None = checked(checks.positive_integer, default=None)

    def _check(self) -> None:
        if self.least_exponent > self.largest_exponent:
            raise ValueError(
                f"largest_exponent must be at least least_exponent, {self.least_exponent}; got "
                f"{self.largest_exponent}"
            )

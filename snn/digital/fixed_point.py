"""Fixed-point numbers: integer mantissas of a given width, with one power of two for all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.describe import Described
from snn.base.value import Value, checked

SIGNS = ("signed", "non-negative", "non-positive")
ROUNDINGS = ("nearest", "floor", "truncate", "stochastic")
# Mantissas are exact as float64, and so are their differences.
MOST_BITS = 52
# Powers of two, and mantissas times them, stay in the range of float64.
LARGEST_EXPONENT = 900


@dataclass(frozen=True, kw_only=True)
class FixedPoint(Value):
    """A format of numbers: value = mantissa * 2^exponent, with integer mantissas of `bits` bits.

    ::

        "signed"            -2^(bits - 1) <= mantissa <= 2^(bits - 1) - 1
        "non-negative"                  0 <= mantissa <= 2^bits - 1
        "non-positive"   -(2^bits - 1) <= mantissa <= 0

    Numbers beyond the range of mantissas saturate: they become the nearest end of it.

    Parameters
    ----------
    bits : int
        Bits of a mantissa, its sign included; 1 to 52, and "signed" at least 2.
    exponent : int, optional
        The power of two of all mantissas.  By default it is chosen for the numbers given: the smallest with
        which none of them is beyond the range (0 where all are zero).
    sign : {"signed", "non-negative", "non-positive"}, default "signed"
        Which mantissas there are.
    rounding : {"nearest", "floor", "truncate", "stochastic"}, default "nearest"
        To which mantissa a number goes:

        - "nearest": the nearest one, of two the even one;
        - "floor": the one below, towards minus infinity, as an arithmetic shift to the right does;
        - "truncate": the one towards zero;
        - "stochastic": the one above with a probability equal to the distance from the one below, so that
          its mean is the number.
    """

    bits: int = checked(checks.positive_integer)
    exponent: int | None = checked(checks.integer, default=None)
    sign: str = checked(checks.one_of, SIGNS, default="signed")
    rounding: str = checked(checks.one_of, ROUNDINGS, default="nearest")

    def _check(self) -> None:
        least = 2 if self.sign == "signed" else 1
        if not least <= self.bits <= MOST_BITS:
            raise ValueError(
                f"bits must lie in [{least}, {MOST_BITS}] for {self.sign} mantissas; got {self.bits}"
            )
        if self.exponent is not None and abs(self.exponent) > LARGEST_EXPONENT:
            raise ValueError(
                f"exponent must lie in [-{LARGEST_EXPONENT}, {LARGEST_EXPONENT}]; got {self.exponent}"
            )

    @property
    def smallest(self) -> int:
        """The smallest mantissa."""
        return {"signed": -(2 ** (self.bits - 1)), "non-negative": 0, "non-positive": 1 - 2**self.bits}[
            self.sign
        ]

    @property
    def largest(self) -> int:
        """The largest mantissa."""
        return {"signed": 2 ** (self.bits - 1) - 1, "non-negative": 2**self.bits - 1, "non-positive": 0}[
            self.sign
        ]

    def exponent_for(self, values: np.ndarray) -> int:
        """Return the exponent for `values`: the given one, or the smallest with which none is beyond the
        range.

        Of numbers with the wrong sign, which are beyond the range whatever the exponent, nothing is asked.

        Parameters
        ----------
        values : ndarray of float, any shape
            Finite.
        """
        if self.exponent is not None:
            return self.exponent
        exponents = [
            _least_exponent(float(extreme), end)
            for extreme, end in ((values.max(), self.largest), (values.min(), self.smallest))
            if extreme * end > 0
        ]
        exponent = max(exponents, default=0)
        if abs(exponent) > LARGEST_EXPONENT:
            raise ValueError(
                f"values must need an exponent in [-{LARGEST_EXPONENT}, {LARGEST_EXPONENT}]; got numbers "
                f"that need {exponent}: divide them by a scale"
            )
        return exponent

    def quantise(self, values: ArrayLike, *, rng: int | np.random.Generator | None = None) -> FixedPointArray:
        """Return the numbers of this format that `values` are rounded to.

        Parameters
        ----------
        values : array_like of float, at least one number
            What to round; finite.
        rng : int, Generator or None, default None
            As for `numpy.random.default_rng`, for stochastic rounding: one random number is drawn for each
            value, in C order.

        Returns
        -------
        FixedPointArray
        """
        array = checks.real_array("values", values, shape=(None,) * np.ndim(values))
        exponent = self.exponent_for(array)
        rounded, n_saturated = self._mantissas(array, exponent, rng, np.empty_like(array))
        return FixedPointArray(
            mantissas=rounded.astype(np.int64), exponent=exponent, n_saturated=n_saturated, format=self
        )

    def round_in_place(
        self,
        values: np.ndarray,
        *,
        exponent: int | None = None,
        rng: int | np.random.Generator | None = None,
    ) -> int:
        """Round an array of floats to numbers of this format; return how many of them saturated.

        For weights that are kept as floats and are changed again and again.

        Parameters
        ----------
        values : ndarray of float64
            Finite; overwritten, and not checked.
        exponent : int, optional
            The exponent, by default that of `exponent_for`.
        rng : int, Generator or None, default None
            As for `quantise`.
        """
        if exponent is None:
            exponent = self.exponent_for(values)
        _, n_saturated = self._mantissas(values, exponent, rng, values)
        np.multiply(values, 2.0**exponent, out=values)
        return n_saturated

    def _mantissas(
        self,
        values: np.ndarray,
        exponent: int,
        rng: int | np.random.Generator | None,
        out: np.ndarray,
    ) -> tuple[np.ndarray, int]:
        """Write mantissas, as floats, to `out`, which may be `values`; return it, and how many saturated."""
        with np.errstate(over="ignore"):  # what is then infinite saturates
            np.multiply(values, 2.0**-exponent, out=out)
        if self.rounding == "stochastic":
            below = np.floor(out)
            # The difference is exact; a number that is a mantissa already stays.
            with np.errstate(invalid="ignore"):
                out -= below
            out[...] = below + (np.random.default_rng(rng).random(out.shape) < out)
        else:
            {"nearest": np.rint, "floor": np.floor, "truncate": np.trunc}[self.rounding](out, out=out)
        n_saturated = np.count_nonzero((out < self.smallest) | (out > self.largest))
        if n_saturated:
            np.clip(out, self.smallest, self.largest, out=out)
        out += 0.0  # no negative zeros
        return out, int(n_saturated)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FixedPointArray(Value, Described):
    """Fixed-point numbers: ``mantissas * 2.0**exponent``.

    Attributes
    ----------
    mantissas : ndarray of int64
        The mantissas, read-only.
    exponent : int
        The power of two of all of them.
    n_saturated : int
        How many numbers were beyond the range of mantissas when they were rounded.
    format : FixedPoint
        What they were rounded to.
    """

    mantissas: np.ndarray
    exponent: int
    n_saturated: int
    format: FixedPoint = field(repr=False)

    def to_float(self) -> np.ndarray:
        """Return the numbers as float64; exact."""
        return self.mantissas * 2.0**self.exponent


def _least_exponent(extreme: float, end: int) -> int:
    """Return the smallest exponent with which `extreme` / 2^exponent is not beyond `end`, of one sign."""
    size, bound = abs(extreme), abs(end)
    fraction, power = math.frexp(size)
    bound_fraction, bound_power = math.frexp(bound)
    return power - bound_power + (fraction > bound_fraction)

"""What codes are worth, in exact arithmetic: a judge that shares no code with the library.

Floating-point numbers are integers times powers of two.  Sums and products of them are computed in Python's
integers, and quotients in fractions, so that nothing is rounded.  The definitions are those of
docs/theory.md, section 8: the objective, and the duality gap along the residual, (17) to (17d).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tests.reference.rationals import ExactProblem, rational

DIGITS = 53


@dataclass(frozen=True, eq=False)
class Numbers:
    """An array of numbers ``integers * 2^exponent``."""

    integers: np.ndarray
    exponent: int

    @classmethod
    def of(cls, values: np.ndarray) -> Numbers:
        """Take floats for the numbers that they are."""
        mantissa, exponents = np.frexp(np.asarray(values, dtype=np.float64))
        integers = np.ldexp(mantissa, DIGITS).astype(np.int64)
        exponents = exponents.astype(np.int64) - DIGITS
        lowest = int(exponents[integers != 0].min()) if integers.any() else 0
        shifts = np.where(integers != 0, exponents - lowest, 0)
        return cls(np.left_shift(integers.astype(object), shifts.astype(object)), lowest)

    def __matmul__(self, other: Numbers) -> Numbers:
        return Numbers(np.dot(self.integers, other.integers), self.exponent + other.exponent)

    def __mul__(self, other: Numbers) -> Numbers:
        return Numbers(self.integers * other.integers, self.exponent + other.exponent)

    def __sub__(self, other: Numbers) -> Numbers:
        lowest = min(self.exponent, other.exponent)
        return Numbers(self.at(lowest) - other.at(lowest), lowest)

    def at(self, exponent: int) -> np.ndarray:
        """The integers at another exponent, which is not larger."""
        return np.left_shift(self.integers, self.exponent - exponent)

    def fractions(self) -> list[Fraction]:
        """The numbers one by one."""
        return [_power(int(integer), self.exponent) for integer in np.atleast_1d(self.integers)]

    def fraction(self) -> Fraction:
        """The only number."""
        (number,) = self.fractions()
        return number


def _power(integer: int, exponent: int) -> Fraction:
    return Fraction(integer << exponent) if exponent >= 0 else Fraction(integer, 1 << -exponent)


@dataclass(frozen=True, eq=False, kw_only=True)
class Verdict:
    """The exact figures of one code."""

    energy: Fraction
    """1/2 sum_j w_j s_j^2, the objective of the zero code."""
    objective: Fraction
    terms: Fraction
    """Not below the norm of any sum of terms a_i sqrt(w) d_i."""
    gap: Fraction
    """The smallest one of all multiples of the residual, never below the distance to the optimum."""


class Judge:
    """Signals, atoms and penalty as the caller passed them.

    Parameters
    ----------
    atoms : ndarray, shape (n_atoms, n_features)
        Of a convolutional dictionary in full (`placed`).
    signals : ndarray, shape (n_signals, n_features)
        Whatever where a weight is zero.
    l1, l2 : ndarray, shape (n_atoms,)
        The penalty ``l1_i |a_i| + l2_i / 2 a_i^2``.
    weights : ndarray, shape (n_signals, n_features)
        Of features; ones without any.
    positive : bool
        Whether codes must not be negative.
    """

    def __init__(
        self,
        atoms: np.ndarray,
        signals: np.ndarray,
        l1: np.ndarray,
        l2: np.ndarray,
        weights: np.ndarray,
        *,
        positive: bool,
    ) -> None:
        self.array = atoms
        self.atoms = Numbers.of(atoms)
        self.signals = np.where(weights != 0, signals, 0.0)
        self.weights = np.asarray(weights, dtype=np.float64)
        self.largest = np.abs(atoms).max(axis=1)
        self.l1 = Numbers.of(l1).fractions()
        self.l2 = Numbers.of(l2).fractions()
        self.positive = positive

    def judge(self, code: np.ndarray, signal: int) -> Verdict:
        """Return what the code of a signal is worth."""
        s, w, a = (Numbers.of(x) for x in (self.signals[signal], self.weights[signal], code))
        r = s - a @ self.atoms
        weighted = w * r
        squared = (r @ weighted).fraction()  # sum_j w_j r_j^2
        along = (s @ weighted).fraction()  # sum_j w_j s_j r_j
        pulls = (self.atoms @ weighted).fractions()
        costs = sum(
            l1 * abs(x) + l2 * x * x / 2
            for x, l1, l2 in zip(a.fractions(), self.l1, self.l2, strict=True)
            if x
        )
        objective = squared / 2 + costs
        w_root = Fraction(float(np.sqrt(self.weights[signal].max() * len(s.integers))))
        return Verdict(
            energy=(s @ (w * s)).fraction() / 2,
            objective=objective,
            terms=Fraction(float(np.abs(code) @ self.largest)) * w_root,
            gap=objective - self._largest_dual(along, squared, pulls),
        )

    def distance(self, code: np.ndarray, signal: int) -> Fraction:
        """Return how far the objective of a code is from the smallest, or a number below that."""
        exact = ExactProblem.of(
            self.array,
            self.signals[signal],
            self.weights[signal],
            self.l1,
            self.l2,
            positive=self.positive,
        )
        a = rational(code)
        return exact.objective(a) - exact.optimum(code, or_best=True)

    def has_small_penalty(self, signal: int) -> bool:
        """Return whether certificates may correct their dual point, which are then not along the residual."""
        w = self.weights[signal]
        length = np.sqrt(np.sum(w * self.signals[signal] ** 2))
        norms = np.sqrt(np.sum(self.array**2, axis=1))
        return any(
            not l2 and norm > 0.0 and l1 <= Fraction(1.01e-6) * Fraction(norm) * Fraction(length)
            for l1, l2, norm in zip(self.l1, self.l2, norms, strict=True)
        )

    def _largest_dual(self, along: Fraction, squared: Fraction, pulls: list[Fraction]) -> Fraction:
        """Return the largest dual objective (17a) of the points kappa r, kappa >= 0.

        It is concave in kappa.  Its derivative (17d) is linear between the kinks l1 / pull of atoms that
        have a quadratic penalty; atoms without one end the range where their correlation reaches l1.
        """
        if not squared or along <= 0:
            return Fraction(0)
        reach = [x if self.positive else abs(x) for x in pulls]
        multiple = along / squared
        kinks = []
        for x, l1, l2 in zip(reach, self.l1, self.l2, strict=True):
            if x > 0 and not l2:
                multiple = min(multiple, l1 / x)
            elif x > 0:
                kinks.append((l1 / x, x, l2))
        kinks = sorted(kink for kink in kinks if kink[0] < multiple)
        # From kink to kink, until the derivative would be zero before the next one.
        constant, slope = along, squared
        passed = []
        for place, x, l2 in kinks:
            if constant <= slope * place:
                break
            constant += x * x * place / l2
            slope += x * x / l2
            passed.append((place, x, l2))
        multiple = min(multiple, constant / slope)
        conjugates = sum((x * (multiple - place)) ** 2 / (2 * l2) for place, x, l2 in passed)
        return multiple * along - multiple * multiple * squared / 2 - conjugates


def placed(kernels: np.ndarray, image_shape: tuple[int, int], stride: int) -> np.ndarray:
    """Return every kernel at every position of an image, shape (n_positions * n_kernels, n_features)."""
    height, width = kernels.shape[1:3]
    atoms = []
    for row in range(0, image_shape[0] - height + 1, stride):
        for column in range(0, image_shape[1] - width + 1, stride):
            for kernel in kernels:
                image = np.zeros((*image_shape, *kernels.shape[3:]))
                image[row : row + height, column : column + width] = kernel
                atoms.append(image.ravel())
    return np.array(atoms)

"""What solvers and certificates ask of a penalty, and what penalties have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np

from snn.base import checks
from solvers._kernels.precision import SMALLEST


class Penalty(ABC):
    """What solvers and certificates ask of a penalty.

    A new penalty is a subclass, and no solver has to know it.  Before `bound_to`, its parameters are what the
    caller passed.  Afterwards they are arrays, one number an atom, and the other methods can be called.
    These work element by element and broadcast with the parameters, unless they say otherwise.

    Solvers that work with a matrix or a network read `l1_weights` and `curvatures` alone, and refuse a
    penalty that is not an elastic net.  It needs a method that takes any penalty (`Takes.any_penalty`), by
    its `proximal_step`: `Takes.any_penalty`.  Such a penalty overrides `maximum` and the violations.
    """

    is_elastic_net = False
    """True if ``h_i(a) = l_i |a| + m_i / 2 a^2``, and `l1_weights` and `curvatures` say all."""

    @property
    @abstractmethod
    def l1_weights(self) -> np.ndarray:
        """The weight of |a_i|, shape (n_atoms,)."""

    @property
    @abstractmethod
    def curvatures(self) -> np.ndarray:
        """The quadratic penalty m_i of ``m_i / 2 a_i^2``, shape (n_atoms,): it adds to ||d_i||^2."""

    @cached_property
    def has_zeros(self) -> bool:
        """True if an atom has no l1 weight."""
        return not self.l1_weights.all()

    @cached_property
    def least_weight(self) -> float:
        """The smallest l1 weight."""
        return float(self.l1_weights.min())

    @property
    def is_free(self) -> np.ndarray:
        """True for atoms without any penalty, shape (n_atoms,)."""
        return (self.l1_weights == 0.0) & (self.curvatures == 0.0)

    @abstractmethod
    def bound_to(self, squared_norms: np.ndarray) -> Self:
        """Return the penalty with one number an atom, for atoms of these squared norms.

        Raises
        ------
        ValueError
            If an array has another length, or a number is too small or too large for its atom.
        """

    @abstractmethod
    def at(self, atoms: np.ndarray) -> Self:
        """Return the penalty of the atoms with these numbers, which may be named more than once."""

    @abstractmethod
    def rescaled(self, units: np.ndarray, objective_unit: float) -> Self:
        """Return the penalty of the code ``units * a``, divided by `objective_unit`."""

    @abstractmethod
    def value(self, codes: np.ndarray) -> np.ndarray:
        """Return h_i(a_i)."""

    @abstractmethod
    def proximal_step(self, points: np.ndarray, *, positive: bool, out: np.ndarray) -> None:
        """Write argmin over a of ``1/2 (a - point)^2 + h_i(a)`` to `out`."""

    def maximum(self, reach: np.ndarray) -> np.ndarray:
        """Return the smallest factor of this penalty at which each code is zero, shape (n_signals,).

        `reach` is that of the signals, shape (n_signals, n_atoms).  It is infinite where an atom without an
        l1 weight has some.
        """
        return largest_ratio(reach, self.l1_weights, 0.0)

    @abstractmethod
    def dual_multiple(
        self, reach: np.ndarray, along_signal: np.ndarray, squared_residual: np.ndarray
    ) -> np.ndarray:
        """Return kappa, the best multiple of each residual for a dual point, shape (n_signals,).

        It maximises the dual objective ``kappa s.r - 1/2 kappa^2 ||r||^2 - sum_i h_i*(kappa d_i.r)`` over
        kappa >= 0.  The result for a signal does not depend on those beside it.  The dual objective is finite
        at kappa without rounding, too.

        Parameters
        ----------
        reach : ndarray, shape (n_signals, n_atoms)
            That of the residuals; for a certificate the largest that it can be.
        along_signal, squared_residual : ndarray, shape (n_signals,)
            s.r and ||r||^2.
        """

    @abstractmethod
    def slack(
        self,
        codes: np.ndarray,
        correlations: np.ndarray,
        multiples: np.ndarray,
        *,
        positive: bool,
        errors: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """Return ``h_i(a) + h_i*(x) - a x`` at x = multiple * correlation, without a negative term.

        With `errors`, bounds on those of the correlations, it is the largest value for correlations as far
        away, rounded up.  An error is at least 8 times the rounding of its correlation.
        """

    @abstractmethod
    def conjugate(
        self, reach: np.ndarray, multiples: np.ndarray, *, without: np.ndarray
    ) -> np.ndarray | float:
        """Return ``sum_i h_i*(multiple * reach_i)``, shape (n_signals,), or 0.0 if it is always zero.

        Parameters
        ----------
        reach : ndarray, shape (n_signals, n_atoms)
            For a certificate the largest that it can be.
        multiples : ndarray, shape (n_signals,)
        without : ndarray of int
            Places in `reach`, counted row by row, that are left out of the sums.
        """

    def violation(
        self, codes: np.ndarray, correlations: np.ndarray, squared_norms: np.ndarray, *, positive: bool
    ) -> np.ndarray:
        """Return ``|(||d_i||^2 + m_i) a_i - T(||d_i||^2 a_i + d_i.r, l_i)|``, in units of correlations.

        That is how far each coefficient is from a fixed point of its proximal step, times ||d_i||^2 + m_i.
        For an atom of norm zero without curvature every step leads to zero, and it is l_i unless a_i is.
        """
        stepped = squared_norms * codes + correlations
        thresholded = stepped - np.minimum(stepped, self.l1_weights)
        if not positive:
            thresholded += np.minimum(stepped + self.l1_weights, 0.0)
        diagonal = squared_norms + self.curvatures
        flat = np.where(codes == 0.0, 0.0, self.l1_weights)
        return np.where(diagonal > 0.0, np.abs(diagonal * codes - thresholded), flat)

    def violation_at_zero(self, reach: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        """Return `violation` of coefficients that are zero in `out`; negative where there is none."""
        return np.subtract(reach, self.l1_weights, out=out)


def refuse_subclass(kind: type) -> NoReturn:
    """Raise TypeError: solvers read the parameters of this class, and would miss what a subclass changes."""
    raise TypeError(
        f"{kind.__name__} must not be subclassed, since solvers read its parameters alone: subclass Penalty"
    )


def bound(parameter: float | np.ndarray) -> np.ndarray:
    """Return a parameter of a penalty that is bound to atoms: an array."""
    assert isinstance(parameter, np.ndarray)
    return parameter


def one_or_each(name: str, value: Any) -> float | np.ndarray:
    """Return a finite number, or a read-only array of them."""
    if checks.is_one_number(value):
        return checks.real_number(name, value)
    meaning = "one number an atom, or a single number"
    return checks.read_only(checks.real_array(name, value, shape=(None,), meaning=meaning))


def require_not_negative(name: str, value: float | np.ndarray) -> None:
    """Raise ValueError naming the first number that is negative."""
    if np.min(value) < 0.0:
        raise ValueError(f"{name} must not be negative; got {first_wrong(value, np.less(value, 0.0))}")


def first_wrong(value: float | np.ndarray, wrong: np.ndarray) -> str:
    """Return the first wrong number, and where it is, for a message."""
    if not isinstance(value, np.ndarray):
        return f"{value}"
    place = int(np.argmax(wrong))
    return f"{value[place]} at [{place}]"


def each(name: str, value: float | np.ndarray, n_atoms: int) -> np.ndarray:
    """Return one number an atom."""
    if not isinstance(value, np.ndarray):
        return checks.read_only(np.full(n_atoms, value))
    if len(value) != n_atoms:
        raise ValueError(f"{name} must have shape ({n_atoms},), one number an atom; got shape {value.shape}")
    # As all that kernels only read: they are compiled once.
    return checks.read_only(value)


def largest_ratio(reach: np.ndarray, weights: np.ndarray, initial: float) -> np.ndarray:
    """Return the largest reach_i / weight_i of each row, or `initial`; x / 0 is infinite where x > 0."""
    if weights.all():
        return (reach / weights).max(axis=1, initial=initial)
    ratios = np.where(reach > 0.0, np.inf, 0.0)
    np.divide(reach, weights, out=ratios, where=weights > 0.0)
    return ratios.max(axis=1, initial=initial)


def unconstrained_multiple(along_signal: np.ndarray, squared_residual: np.ndarray) -> np.ndarray:
    """Return the kappa >= 0 that maximises ``kappa s.r - 1/2 kappa^2 ||r||^2``."""
    # Where the residual is zero, so is every multiple of it.
    return np.maximum(along_signal / np.maximum(squared_residual, SMALLEST), 0.0)


def clipped(points: np.ndarray, weights: np.ndarray, positive: bool) -> np.ndarray:
    """Return x - T(x)."""
    return np.minimum(points, weights) if positive else np.clip(points, -weights, weights)


def threshold(points: np.ndarray, weights: np.ndarray, positive: bool, out: np.ndarray) -> None:
    """Write the soft threshold T(x) to `out`."""
    if positive:
        np.subtract(points, weights, out=out)
        np.maximum(out, 0.0, out=out)
    else:
        np.clip(points, -weights, weights, out=out)
        np.subtract(points, out, out=out)

"""Penalties: what a code costs besides the residual it leaves.

A penalty is a sum over atoms, h(a) = sum_i h_i(a_i), and one class says all that solvers and certificates
ask of it.  With the soft threshold T and l the weight of |a_i|::

                 h_i(a)                       conjugate h_i*(x) = max over a of a x - h_i(a)
    L1           l |a|                        0 where |x| <= l, else infinite
    ElasticNet   l |a| + m / 2 a^2            T(x, l)^2 / (2 m)

Where codes must not be negative, |x| is replaced by x and T is one-sided.

Correlations are passed with their signs.  `reach` is how far each can pull its atom away from zero: its
absolute value, or the correlation itself where codes must not be negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from snn.base import checks
from snn.base.unchanging import Unchanging
from solvers._kernels.precision import SMALLEST, UNIT_ROUNDOFF, WITHIN
from solvers.problem.penalty import (
    Penalty,
    bound,
    clipped,
    each,
    largest_ratio,
    one_or_each,
    refuse_subclass,
    require_not_negative,
    threshold,
    unconstrained_multiple,
)

# Of ||d_i||^2: a smaller quadratic penalty is lost in the rounding of correlations.
LEAST_CURVATURE = 1e-15


@dataclass(frozen=True, eq=False)
class L1(Unchanging, Penalty):
    """The penalty of the LASSO, ``sum_i l_i |a_i|``.

    Parameters
    ----------
    weights : float or array_like, shape (n_atoms,)
        l, not negative; one number for all atoms, or one each.

    Raises
    ------
    TypeError, ValueError
        If `weights` does not hold real numbers, or one is not finite or negative.
    """

    weights: float | np.ndarray

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(self, weights: ArrayLike) -> None: ...

    is_elastic_net = True

    def __init_subclass__(cls) -> None:
        refuse_subclass(L1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", one_or_each("weights", self.weights))
        require_not_negative("weights", self.weights)

    @classmethod
    def _of(cls, weights: np.ndarray) -> L1:
        """Return the penalty of an array that was checked before; takes ownership of it."""
        penalty = object.__new__(cls)
        object.__setattr__(penalty, "weights", weights)
        return penalty

    @property
    def l1_weights(self) -> np.ndarray:
        """The weight of ``|a_i|``, shape (n_atoms,)."""
        return bound(self.weights)

    @cached_property
    def curvatures(self) -> np.ndarray:
        """Zeros, shape (n_atoms,)."""
        return checks.read_only(np.zeros(len(self.l1_weights)))

    def bound_to(self, squared_norms: np.ndarray) -> L1:
        """See `Penalty`."""
        return L1._of(each("weights", self.weights, len(squared_norms)))

    def at(self, atoms: np.ndarray) -> L1:
        """See `Penalty`."""
        return L1._of(self.l1_weights.take(atoms))

    def rescaled(self, units: np.ndarray, objective_unit: float) -> L1:
        """See `Penalty`."""
        return L1._of(self.weights / (units * objective_unit))

    def value(self, codes: np.ndarray) -> np.ndarray:
        """See `Penalty`."""
        return np.abs(codes) * self.weights

    def proximal_step(self, points: np.ndarray, *, positive: bool, out: np.ndarray) -> None:
        """See `Penalty`."""
        threshold(points, self.l1_weights, positive, out)

    def dual_multiple(
        self, reach: np.ndarray, along_signal: np.ndarray, squared_residual: np.ndarray
    ) -> np.ndarray:
        """See `Penalty`; the dual objective is finite where no correlation exceeds its weight."""
        unconstrained = unconstrained_multiple(along_signal, squared_residual)
        return np.minimum(unconstrained, WITHIN / np.maximum(self.maximum(reach), SMALLEST))

    def slack(
        self,
        codes: np.ndarray,
        correlations: np.ndarray,
        multiples: np.ndarray,
        *,
        positive: bool,
        errors: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """See `Penalty`: ``|a| (l -+ x)``."""
        along = np.where(codes < 0.0, -correlations, correlations)
        return np.abs(codes) * np.maximum(self.weights - multiples * (along - errors), 0.0)

    def conjugate(self, reach: np.ndarray, multiples: np.ndarray, *, without: np.ndarray) -> float:
        """See `Penalty`: zero for every point that `dual_multiple` allows."""
        return 0.0


@dataclass(frozen=True, eq=False)
class ElasticNet(Unchanging, Penalty):
    """The penalty of the elastic net, ``sum_i l1_i |a_i| + l2_i / 2 a_i^2``.

    Codes are then those of the LASSO with the dictionary [D, sqrt(diag l2)] and signals with as many zeros
    behind them: atoms that resemble each other share what one of them would take.

    Parameters
    ----------
    l1 : float or array_like, shape (n_atoms,)
        Not negative; one number for all atoms, or one each.  Zero is ridge regression.
    l2 : float or array_like, shape (n_atoms,)
        Not negative; zero is the LASSO.

    Raises
    ------
    TypeError, ValueError
        If an argument does not hold real numbers, or one is not finite or negative.

    Notes
    -----
    scikit-learn's `ElasticNet(alpha, l1_ratio)` minimises E / n_features with
    ``alpha = (l1 + l2) / n_features`` and ``l1_ratio = l1 / (l1 + l2)``.

    References
    ----------
    Zou and Hastie (2005), Journal of the Royal Statistical Society B 67, section 2 and Lemma 1.
    """

    l1: float | np.ndarray
    l2: float | np.ndarray

    if TYPE_CHECKING:  # what is accepted is more than what is kept

        def __init__(self, l1: ArrayLike, l2: ArrayLike) -> None: ...

    is_elastic_net = True

    def __init_subclass__(cls) -> None:
        refuse_subclass(ElasticNet)

    def __post_init__(self) -> None:
        for name in ("l1", "l2"):
            object.__setattr__(self, name, one_or_each(name, getattr(self, name)))
            require_not_negative(name, getattr(self, name))

    @classmethod
    def _of(cls, l1: np.ndarray, l2: np.ndarray) -> ElasticNet:
        """Return the penalty of two arrays that were checked before; takes ownership of them."""
        penalty = object.__new__(cls)
        object.__setattr__(penalty, "l1", l1)
        object.__setattr__(penalty, "l2", l2)
        return penalty

    @property
    def l1_weights(self) -> np.ndarray:
        """The weight of ``|a_i|``, shape (n_atoms,)."""
        return bound(self.l1)

    @property
    def curvatures(self) -> np.ndarray:
        """The quadratic penalty m_i of ``m_i / 2 a_i^2``, shape (n_atoms,)."""
        return bound(self.l2)

    def bound_to(self, squared_norms: np.ndarray) -> ElasticNet:
        """See `Penalty`."""
        n_atoms = len(squared_norms)
        l1, l2 = each("l1", self.l1, n_atoms), each("l2", self.l2, n_atoms)
        with np.errstate(over="ignore"):
            lost = (l2 > 0.0) & (l2 < LEAST_CURVATURE * squared_norms) | ~np.isfinite(squared_norms + l2)
        if lost.any():
            atom = int(np.argmax(lost))
            raise ValueError(
                f"l2 must be 0 or at least {LEAST_CURVATURE:g} ||d_i||^2, and their sum finite; "
                f"got {l2[atom]:g} for atom {atom} with ||d_i||^2 = {squared_norms[atom]:.3g}: pass 0 there, "
                "or rescale"
            )
        return ElasticNet._of(l1, l2)

    def at(self, atoms: np.ndarray) -> ElasticNet:
        """See `Penalty`."""
        return ElasticNet._of(self.l1_weights.take(atoms), self.curvatures.take(atoms))

    def rescaled(self, units: np.ndarray, objective_unit: float) -> ElasticNet:
        """See `Penalty`."""
        return ElasticNet._of(self.l1 / (units * objective_unit), self.l2 / units / (units * objective_unit))

    def value(self, codes: np.ndarray) -> np.ndarray:
        """See `Penalty`."""
        return np.abs(codes) * self.l1 + 0.5 * self.l2 * codes * codes

    def proximal_step(self, points: np.ndarray, *, positive: bool, out: np.ndarray) -> None:
        """See `Penalty`: ``T(point, l1) / (1 + l2)``."""
        threshold(points, self.l1_weights, positive, out)
        out /= 1.0 + self.l2

    def dual_multiple(
        self, reach: np.ndarray, along_signal: np.ndarray, squared_residual: np.ndarray
    ) -> np.ndarray:
        """See `Penalty`.

        The slope of the dual objective in kappa is piecewise linear and falls ever faster,
        ``s.r - kappa ||r||^2 - sum over kappa > k_i of (kappa - k_i) (d_i.r)^2 / l2_i`` with
        ``k_i = l1_i / |d_i.r|``.  Newton's method starts at the zero without the sum and descends to the
        zero, in at most as many steps as there are atoms beyond their k_i.
        """
        multiple = unconstrained_multiple(along_signal, squared_residual)
        l1, l2 = self.l1_weights, self.curvatures
        flat = l2 == 0.0
        if flat.any():
            largest = largest_ratio(reach[:, flat], l1[flat], SMALLEST)
            multiple = np.minimum(multiple, WITHIN / largest)
        signal, atom = np.nonzero((multiple[:, np.newaxis] * reach > l1) & ~flat)
        pull = reach[signal, atom]
        start = l1[atom] / pull
        slope = (pull / np.sqrt(l2[atom])) ** 2
        n_beyond = -1
        while True:
            beyond = multiple[signal] > start
            # Atoms only ever leave, so that an equal number is the same set.
            if np.count_nonzero(beyond) in (0, n_beyond):
                return multiple
            n_beyond = int(np.count_nonzero(beyond))
            slopes = np.where(beyond, slope, 0.0)
            along = along_signal + np.bincount(signal, slopes * start, len(reach))
            across = squared_residual + np.bincount(signal, slopes, len(reach))
            multiple = np.minimum(multiple, unconstrained_multiple(along, across))

    def slack(
        self,
        codes: np.ndarray,
        correlations: np.ndarray,
        multiples: np.ndarray,
        *,
        positive: bool,
        errors: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """See `Penalty`.

        With e = T(x, l1), ``|a| (l1 -+ (x - e)) + (l2 a - e)^2 / (2 l2)``; where l2 is zero, as `L1`.  It is
        convex in x, and thus largest at one of the ends of the range of x.
        """
        low = self._slack_at(codes, multiples * (correlations - errors), positive)
        return np.maximum(low, self._slack_at(codes, multiples * (correlations + errors), positive))

    def _slack_at(self, codes: np.ndarray, points: np.ndarray, positive: bool) -> np.ndarray:
        within = np.where(self.l2 == 0.0, points, clipped(points, self.l1_weights, positive))
        along = np.where(codes < 0.0, -within, within)
        pull, excess = self.l2 * codes, points - within
        distance = np.abs(pull - excess) + (4.0 * UNIT_ROUNDOFF) * (np.abs(pull) + np.abs(excess))
        return np.abs(codes) * np.maximum(self.l1 - along, 0.0) + 0.5 * (distance / self._roots) ** 2

    def conjugate(self, reach: np.ndarray, multiples: np.ndarray, *, without: np.ndarray) -> np.ndarray:
        """See `Penalty`."""
        excess = np.maximum(multiples[:, np.newaxis] * reach - self.l1, 0.0)
        excess[:, self.l2 == 0.0] = 0.0
        excess.put(without, 0.0)
        excess /= self._roots
        return 0.5 * np.einsum("ij,ij->i", excess, excess)

    @property
    def _roots(self) -> np.ndarray:
        """sqrt(l2), 1 where that is zero."""
        return np.where(self.l2 == 0.0, 1.0, np.sqrt(self.l2))


def penalty_of(value: Any, squared_norms: np.ndarray, *, name: str = "penalty") -> Penalty:
    """Return the penalty that a problem with atoms of these squared norms has.

    Parameters
    ----------
    value : Penalty, float or array_like, shape (n_atoms,)
        Numbers are the weights of `L1`.
    squared_norms : ndarray, shape (n_atoms,)
    name : str, default "penalty"
        What the caller calls it, for messages.

    Raises
    ------
    TypeError, ValueError
        If `value` is none of these, or does not fit the atoms.
    """
    if isinstance(value, Penalty):
        return value.bound_to(squared_norms)
    weights = checks.non_negative_array(name, value, len(squared_norms), meaning="one penalty an atom")
    return L1(weights).bound_to(squared_norms)

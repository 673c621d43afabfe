"""The penalty: the part of the objective that does not depend on the residual.

The penalty is a sum over atoms of h_i(a_i).  With the soft threshold T, h_i and its conjugate are::

    h_i(a) = l |a| + m / 2 a^2        h_i*(x) = max over a of a x - h_i(a) = T(x, l)^2 / (2 m)

If m is zero, as in the LASSO, the conjugate is 0 for |x| <= l, otherwise infinite.  If the code of an atom
must not be negative, h_i is infinite below zero, |x| is replaced by x, and T is one-sided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn._interrupts import float_errors
from snn.base import checks
from snn.base.value import Value, assign, cached_property, checked
from solvers._kernels.precision import SMALLEST, UNIT_ROUNDOFF, WITHIN
from solvers.problem.atoms import Atoms

# Least quadratic penalty, as a share of ||d_i||^2.  A smaller penalty is lost in the rounding of
# correlations.
LEAST_CURVATURE = 1e-15


def weights_of_codes(name: str, value: Any, n_atoms: int | None = None) -> np.ndarray:
    """Return the weights of a penalty as numbers or arrays; refuse negative weights."""
    try:
        return checks.positive_array(name, value, n_atoms, zero=True)
    except ValueError as error:
        if "got inf" not in str(error):
            raise
        raise ValueError(f"{error}: to leave an atom out, remove its row from the dictionary") from None


@dataclass(frozen=True, eq=False)
class ElasticNet(Value):
    """The penalty of the elastic net, ``sum_i l1_i |a_i| + l2_i / 2 a_i^2``.

    Codes with this penalty solve the LASSO with the dictionary [D, sqrt(diag l2)] and with n_atoms zeros
    appended to each signal.  Similar atoms share a coefficient that the LASSO would give to a single atom.

    Parameters
    ----------
    l1 : float or array_like, shape (n_atoms,)
        The weights of ``|a_i|``, not negative: one number for all atoms, or one number for each atom.
        ``l1 = 0`` is ridge regression.
    l2 : float or array_like, shape (n_atoms,), default 0.0
        The weights of ``a_i^2 / 2``, not negative.  ``l2 = 0`` is the LASSO.

    Notes
    -----
    scikit-learn's `ElasticNet(alpha, l1_ratio)` minimises E / n_features with
    ``alpha = (l1 + l2) / n_features`` and ``l1_ratio = l1 / (l1 + l2)``.

    References
    ----------
    Zou and Hastie (2005), Journal of the Royal Statistical Society B 67, section 2 and Lemma 1.
    """

    l1: Any = checked(weights_of_codes)
    l2: Any = checked(weights_of_codes, default=0.0)

    if TYPE_CHECKING:  # the attributes are numbers or read-only arrays

        def __init__(self, l1: ArrayLike, l2: ArrayLike = 0.0) -> None: ...


class Penalty(ElasticNet):
    """The penalty of a problem: arrays with an entry for each atom."""

    # True for atoms whose codes must not be negative, shape (n_atoms,).
    positive: np.ndarray

    # Methods work element by element and broadcast, unless their docstrings say otherwise.

    def __init__(self, l1: np.ndarray, l2: np.ndarray, positive: np.ndarray) -> None:
        # The arrays are not copied.
        assign(self, l1=l1, l2=l2, positive=positive)

    @cached_property
    def is_positive(self) -> bool:
        """True if no code may be negative."""
        return bool(self.positive.all())

    @cached_property
    def has_mixed_signs(self) -> bool:
        """True if codes of some atoms, but not of all atoms, must not be negative."""
        return not self.is_positive and bool(self.positive.any())

    @cached_property
    def is_flat(self) -> bool:
        """True if no atom has a quadratic penalty, as in the LASSO."""
        return not self.l2.any()

    @cached_property
    def has_zeros(self) -> bool:
        """True if an atom has no l1 weight."""
        return not self.l1.all()

    @property
    def is_free(self) -> np.ndarray:
        """True for atoms without any penalty whose codes may have either sign, shape (n_atoms,)."""
        return (self.l1 == 0.0) & (self.l2 == 0.0) & ~self.positive

    @cached_property
    def _lowest(self) -> np.ndarray:
        """The lowest correlation at which a code is zero, shape (n_atoms,)."""
        return np.where(self.positive, -np.inf, -self.l1)

    @cached_property
    def limits(self) -> np.ndarray:
        """The limits on correlations of dual points: l1 weights, or infinity for positive l2 weights."""
        return self.l1 if self.is_flat else np.where(self.l2 == 0.0, self.l1, np.inf)

    def at(self, atoms: np.ndarray) -> Penalty:
        """Return the penalty of some atoms by their indices; an index may occur more than once."""
        return Penalty(self.l1.take(atoms), self.l2.take(atoms), self.positive.take(atoms))

    @staticmethod
    def stack(penalties: Sequence[Penalty], n_signals: int) -> Penalty:
        """Return one penalty with `n_signals` equal rows for each of the penalties, for certificates."""
        arrays = zip(*((each.l1, each.l2, each.positive) for each in penalties), strict=True)
        return Penalty(*(np.repeat(rows, n_signals, axis=0) for rows in arrays))

    @property
    def is_stack(self) -> bool:
        """True if each code has a penalty of its own."""
        return self.l1.ndim == 2

    def rows(self, which: Any) -> Penalty:
        """Return the penalties of some rows as a stack, or the penalty of one row."""
        return Penalty(self.l1[which], self.l2[which], self.positive[which])

    def of_entries(self, codes: sparse.csr_array) -> Penalty:
        """Return the penalty of each stored entry of the codes, in the order of the entries."""
        if not self.is_stack:
            return self.at(codes.indices)
        rows = np.arange(codes.shape[0]).repeat(np.diff(codes.indptr))
        return self.at(rows * codes.shape[1] + codes.indices)

    def rescaled(self, units: np.ndarray | float, objective_unit: float) -> Penalty:
        """Return the penalty of the code ``units * a``, divided by `objective_unit`."""
        with float_errors(over="ignore"):
            weights = self.l1 / (units * objective_unit), self.l2 / units / (units * objective_unit)
        # Kernels get only read-only arrays, so that they are compiled for one type of array.
        l1, l2 = checks.read_only(np.minimum(weights, np.finfo(np.float64).max))
        return Penalty(l1, l2, self.positive)

    def value(self, codes: np.ndarray) -> np.ndarray:
        """Return h_i(a_i), the penalty of each entry of the codes."""
        return np.abs(codes) * self.l1 + 0.5 * self.l2 * codes * codes

    def reach(self, correlations: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
        """Return how far each correlation can pull its code from zero; `out` may be overwritten."""
        if self.is_positive:
            return correlations
        if not self.positive.any():
            return np.abs(correlations, out=out)
        return np.where(self.positive, correlations, np.abs(correlations))

    def _clipped(self, points: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return x - T(x), the points clipped to the interval in which codes are zero."""
        return np.clip(points, self._lowest, self.l1, out=out)

    def proximal_step(self, points: np.ndarray, *, out: np.ndarray) -> None:
        """Write argmin over a of ``1/2 (a - point)^2 + h_i(a)``, ``T(point, l1) / (1 + l2)``, to `out`."""
        np.subtract(points, self._clipped(points, out), out=out)
        if not self.is_flat:
            out /= 1.0 + self.l2

    def dual_multiple(
        self, reach: np.ndarray, along_signal: np.ndarray, squared_residual: np.ndarray
    ) -> np.ndarray:
        """Return kappa, the best multiple of each residual for a dual point, shape (n_signals,)."""
        # kappa >= 0 maximises the dual objective:
        # ``kappa s.r - 1/2 kappa^2 ||r||^2 - sum_i h_i*(kappa d_i.r)``.  In spite of rounding, the exact dual
        # objective is finite at kappa.  The result for a signal does not depend on other signals.
        # reach : shape (n_signals, n_atoms), for a certificate an upper bound.
        # along_signal, squared_residual : s.r and ||r||^2, shape (n_signals,).
        multiple = unconstrained_multiple(along_signal, squared_residual)
        multiple = np.minimum(multiple, WITHIN / np.maximum(largest_ratio(reach, self.limits), SMALLEST))
        if self.is_flat:
            return multiple
        # The slope in kappa is piecewise linear, and falls ever faster:
        # ``s.r - kappa ||r||^2 - sum over kappa > k_i of (kappa - k_i) (d_i.r)^2 / l2_i`` with
        # ``k_i = l1_i / |d_i.r|``.  Newton's method starts at the zero of the slope without the sum, and
        # descends to the zero of the slope in at most one step for each atom with kappa > k_i.
        beyond = (multiple[:, np.newaxis] * reach > self.l1) & (self.l2 > 0.0)
        row = np.nonzero(beyond)[0]
        l1, l2 = (np.broadcast_to(weights, reach.shape)[beyond] for weights in (self.l1, self.l2))
        pull = reach[beyond]
        start = l1 / pull
        slope = (pull / np.sqrt(l2)) ** 2
        n_beyond = -1
        while True:
            beyond = multiple[row] > start
            # Atoms only leave the set `beyond`, so that the set is unchanged if its size is unchanged.
            if np.count_nonzero(beyond) in (0, n_beyond):
                return multiple
            n_beyond = int(np.count_nonzero(beyond))
            slopes = np.where(beyond, slope, 0.0)
            along = along_signal + np.bincount(row, slopes * start, len(reach))
            across = squared_residual + np.bincount(row, slopes, len(reach))
            multiple = np.minimum(multiple, unconstrained_multiple(along, across))

    def slack(
        self,
        codes: np.ndarray,
        correlations: np.ndarray,
        multiples: np.ndarray,
        *,
        errors: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """Return ``h_i(a) + h_i*(x) - a x`` at x = multiple * correlation, without a negative term."""
        # `errors` are bounds on the errors of the correlations.  The result is the largest value for any
        # correlation within its error, rounded up.  An error must be at least 8 roundings of its correlation.
        # With e = T(x, l1), the value is |a| (l1 -+ (x - e)) + (l2 a - e)^2 / (2 l2), or |a| (l1 -+ x) if l2
        # is zero.  The value is convex in x, and thus largest at one of the ends of the range of x.
        if self.is_flat:
            along = np.where(codes < 0.0, -correlations, correlations)
            return np.abs(codes) * np.maximum(self.l1 - multiples * (along - errors), 0.0)
        low = self._slack_at(codes, multiples * (correlations - errors))
        return np.maximum(low, self._slack_at(codes, multiples * (correlations + errors)))

    def _slack_at(self, codes: np.ndarray, points: np.ndarray) -> np.ndarray:
        within = np.where(self.l2 == 0.0, points, self._clipped(points))
        along = np.where(codes < 0.0, -within, within)
        pull, excess = self.l2 * codes, points - within
        distance = np.abs(pull - excess) + (4.0 * UNIT_ROUNDOFF) * (np.abs(pull) + np.abs(excess))
        return np.abs(codes) * np.maximum(self.l1 - along, 0.0) + 0.5 * (distance / self._roots) ** 2

    def conjugate(
        self, reach: np.ndarray, multiples: np.ndarray, *, without: np.ndarray
    ) -> np.ndarray | float:
        """Return ``sum_i h_i*(multiple * reach_i)``, shape (n_signals,), or 0.0 if it is always zero."""
        # The sums leave out the entries whose indices in the flattened `reach` are in `without`.
        if self.is_flat:
            return 0.0
        excess = np.maximum(multiples[:, np.newaxis] * reach - self.l1, 0.0)
        np.copyto(excess, 0.0, where=self.l2 == 0.0)
        excess.put(without, 0.0)
        excess /= self._roots
        return 0.5 * np.einsum("ij,ij->i", excess, excess)

    @property
    def _roots(self) -> np.ndarray:
        return np.where(self.l2 == 0.0, 1.0, np.sqrt(self.l2))

    def violation(self, codes: np.ndarray, correlations: np.ndarray, squared_norms: np.ndarray) -> np.ndarray:
        """Return ``|(||d_i||^2 + m_i) a_i - T(||d_i||^2 a_i + d_i.r, l_i)|``, in units of correlations."""
        # The violation is the distance of a coefficient from a fixed point of its proximal step, times
        # ||d_i||^2 + m_i.  For an atom of norm zero without curvature, the violation of a nonzero coefficient
        # is l_i.
        stepped = squared_norms * codes + correlations
        diagonal = squared_norms + self.l2
        flat = np.where(codes == 0.0, 0.0, self.l1)
        return np.where(diagonal > 0.0, np.abs(diagonal * codes - (stepped - self._clipped(stepped))), flat)


def penalty_of(
    value: Any, squared_norms: np.ndarray, positive: Any = False, *, name: str = "penalty"
) -> Penalty:
    """Return the penalty of a problem whose atoms have the given squared norms."""
    is_net, n_atoms = isinstance(value, ElasticNet), len(squared_norms)
    name, l1 = ("l1", value.l1) if is_net else (name, value)
    # `penalty_max` of one signal returns an array of shape (1,).
    if not is_net and isinstance(l1, np.ndarray) and l1.shape == (1,):
        l1 = l1[0]
    # Kernels get only read-only arrays, so that they are compiled for one type of array.
    l1 = checks.read_only(weights_of_codes(name, l1, n_atoms))
    l2 = checks.read_only(weights_of_codes("l2", value.l2, n_atoms) if is_net else np.zeros(n_atoms))
    lost = l2 > 0.0
    if lost.any():
        with float_errors(over="ignore"):
            lost &= (l2 < LEAST_CURVATURE * squared_norms) | ~np.isfinite(squared_norms + l2)
    if lost.any():
        atom = int(np.argmax(lost))
        raise ValueError(
            f"l2 must be 0 or at least {LEAST_CURVATURE:g} ||d_i||^2, with a finite sum of both; "
            f"got {l2[atom]:g} for atom {atom} with ||d_i||^2 = {squared_norms[atom]:.3g}: pass 0 there, "
            "or rescale"
        )
    return Penalty(l1, l2, checked_signs(positive, n_atoms))


def checked_penalty(penalty: Any, atoms: Atoms, positive: Any) -> Penalty:
    """Return the penalty of a problem with the given atoms."""
    checked = penalty_of(penalty, atoms.squared_norms, positive)
    if not atoms.is_matrix and checked.has_zeros:
        raise ValueError(
            "penalty must be positive for a ConvolutionalDictionary; got 0 for atom "
            f"{int(np.argmin(checked.l1))}: pass a small positive number"
        )
    return checked


def checked_signs(value: Any, n_atoms: int) -> np.ndarray:
    """Return True for atoms whose codes must not be negative, shape (n_atoms,)."""
    if not np.ndim(value):
        return checks.read_only(np.full(n_atoms, checks.flag("positive", value)))
    signs = np.array(value)
    if signs.dtype != np.bool_:
        raise TypeError(f"positive must be a bool, or an array of bools; got dtype {signs.dtype}")
    if signs.shape != (n_atoms,):
        raise ValueError(
            f"positive must have shape ({n_atoms},), a bool for each atom; got shape {signs.shape}"
        )
    return checks.read_only(signs)


def largest_ratio(reach: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the largest reach_i / weight_i of each row, at least 0; x / 0 is infinite for x > 0."""
    if weights.all():
        return (reach / weights).max(axis=1, initial=0.0)
    ratios = np.where(reach > 0.0, np.inf, 0.0)
    np.divide(reach, weights, out=ratios, where=weights > 0.0)
    return ratios.max(axis=1, initial=0.0)


def unconstrained_multiple(along_signal: np.ndarray, squared_residual: np.ndarray) -> np.ndarray:
    """Return the kappa >= 0 that maximises ``kappa s.r - 1/2 kappa^2 ||r||^2``."""
    # If the residual is zero, all multiples of the residual are zero.
    return np.maximum(along_signal / np.maximum(squared_residual, SMALLEST), 0.0)

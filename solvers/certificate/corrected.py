"""Gaps at corrected dual points, which certify codes if penalties are zero or tiny.

If a penalty is zero, or as small as the rounding of a correlation, the dual point of
`solvers.certificate.optimality` is close to zero, and the gap at this point proves nothing.  Instead, a small
vector c is added to the residual r, so that r + c is a dual point (`docs/theory.md`, section 8, *Penalties of
zero*).  The gap depends only on bounds on the norm of c and on the correlations of atoms with c.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from snn._interrupts import float_errors
from solvers._kernels.precision import QUANTUM, SLACK, SMALLEST, SMALLEST_NORM, gamma, operations_of_sum
from solvers.certificate.lines import CONE_ROUNDING, Lines, lines_of, nearest_of_hull
from solvers.certificate.residuals import Correlated, correlated_residuals
from solvers.problem.lasso import LassoModel, LassoProblem, in_blocks
from solvers.problem.parts import in_groups, seen_features, seen_norms
from solvers.workers.blas import one_blas_thread

# Number of values of codes, or of signals, that are measured together, with a few buffers of 8 MB.
BLOCK_ENTRIES = 2**20
# A gap is corrected if it exceeds the share CERTAIN of the energy and a penalty is below SMALL ||d_i|| ||s||.
CERTAIN = 1e-13
SMALL = 1e-6
# Largest number of atoms for which one bound on the eigenvalues of the whole Gram matrix is used for all
# signals.
MOST_SHARED = 512
# The dual point may be scaled back if correlations exceed their penalties by at most this share.
MOST_SCALED = 1e-3
# If atoms cancel each other in a sum, a penalty below LINE ||d_i|| ||s|| counts as zero.
LINE = 1e-12
# Largest number of rounds of a correction.  Each round adds the constraints that the previous round violated.
MOST_ROUNDS = 8

# A correction c is stored as a bound on ||c||, with a bound on |d_i.c| for each atom.  The bound on |d_i.c|
# leaves out the part that takes a correlation back to its penalty.
Correction = tuple[float, np.ndarray]
NONE: Correction = (np.inf, np.zeros(1))
# The effect of a correction c: a bound on ||c||, the reach of the corrected correlations, bounds on |d_i.c|.
Change = tuple[float, np.ndarray, np.ndarray]


def corrected_gaps(
    problem: LassoProblem, codes: sparse.csr_array, gaps: np.ndarray, products: Correlated | None = None
) -> np.ndarray:
    """Return `gaps` of codes, or smaller gaps from corrected dual points."""
    # `gaps` are the gaps at multiples of the residuals.  If a penalty is zero, gaps at multiples of the
    # residuals prove nothing and are replaced.  All gaps pass through this function, which returns no NaN.
    penalty, energies = problem.penalty, problem.energies
    has_zeros = penalty.has_zeros and not penalty.limits.all()
    # Return early, because the rest of the function takes a tenth of the time of a small problem.
    if len(gaps) == 1 and gaps[0] <= CERTAIN * energies[0] and not has_zeros:
        return gaps
    gaps = np.fmin(gaps, np.inf)
    is_open = np.full(problem.n_signals, problem.atoms.is_matrix)
    if has_zeros:
        gaps[is_open] = np.inf
    else:
        largest = 1.0 if problem.feature_weights is None else np.sqrt(problem.feature_weights.max(axis=-1))
        is_small = problem.cached(_least_weight) <= SMALL * largest * np.sqrt(2.0 * energies)
        is_open &= is_small & (gaps > CERTAIN * energies)
    signals = np.flatnonzero(is_open)
    if not len(signals):
        return gaps
    codes_of_part, products_of_part = codes, products
    small = problem if len(signals) == problem.n_signals else problem.subset(signals)
    with one_blas_thread(), float_errors(over="ignore", invalid="ignore"):
        for group, same in in_groups(small):
            for block, part in in_blocks(same, BLOCK_ENTRIES // max(problem.n_atoms, problem.n_features)):
                which = signals[group[block]]
                if part is not problem:
                    codes_of_part, products_of_part = codes[which], products and products.of(which)
                gaps[which] = np.fmin(gaps[which], _gaps(part, codes_of_part, products_of_part))
    return gaps


def probable_shift(matrix: np.ndarray) -> float:
    """Return a lower bound, up to rounding, on all eigenvalues; LinAlgError if some are not positive."""
    inverse = np.linalg.inv(np.linalg.cholesky(matrix))
    # The sum of all inverse eigenvalues exceeds the inverse of the smallest eigenvalue.  The result is a
    # power of two, so that its bits hardly depend on the threads of BLAS.
    return float(2.0 ** np.floor(np.log2(0.5 / np.einsum("ij,ij->", inverse, inverse))))


def least_eigenvalue(atoms: np.ndarray) -> float:
    """Return a lower bound on the smallest eigenvalue of the Gram matrix of atoms at norm one, or zero."""
    # A successful Cholesky factorisation proves the bound, rounding included.
    # Rump (2006), BIT Numerical Mathematics 46, section 2.
    n, n_features = atoms.shape
    if n == 0:
        return 1.0
    norms = np.sqrt(np.einsum("ij,ij->i", atoms, atoms))
    if n > n_features or norms.min() < SMALLEST_NORM:
        return 0.0
    units = atoms / norms[:, np.newaxis]
    gram = units @ units.T
    try:
        shift = probable_shift(gram)
        gram[np.diag_indices(n)] -= shift
        np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return 0.0
    # Bounds on the rounding of the entries, and of the factorisation of a matrix with a trace of at most n.
    rounding = n * (gamma(n_features + 8) + gamma(n + 2))
    return max(shift - rounding, 0.0)


def signal_of_dependent_atoms(problem: LassoProblem) -> int | None:
    """Return a signal for which the linear independence of the `is_free` atoms cannot be proved, or None."""
    if not problem.penalty.is_free.any():
        return None
    for group, same in in_groups(problem):
        if same.cached(_least_eigenvalue_of_free_atoms) == 0.0:
            return int(group[0])
    return None


def _least_eigenvalue_of_free_atoms(model: LassoModel) -> float:
    return least_eigenvalue(model.seen_atoms.take(model.penalty.is_free & (model.atoms.norms > 0.0)))


def _least_eigenvalue_of_all_atoms(model: LassoModel) -> float:
    is_few = model.n_atoms <= MOST_SHARED
    return least_eigenvalue(model.seen_atoms.take(model.atoms.norms > 0.0)) if is_few else 0.0


def _least_weight(model: LassoModel) -> np.ndarray:
    """Return, for each penalty, the smallest l_i / ||d_i|| of atoms without a quadratic penalty."""
    with float_errors(all="ignore"):
        return (model.penalty.limits / model.atoms.norms).min(axis=-1)


def _no_lines(model: LassoModel) -> dict[bytes, Lines]:
    """Return an empty cache of lines, whose keys are masks of the atoms of the cone."""
    return {}


def _gaps(problem: LassoProblem, codes: sparse.csr_array, products: Correlated | None) -> np.ndarray:
    """Return, for each code, the smaller of the gaps at the corrected residual and at the dual point 0."""
    residuals, correlations = products or correlated_residuals(problem, codes)
    # An atom that is zero in all known features has the norm 0 here, and correlations of exactly 0.
    norms = seen_norms(problem)[0].copy()
    if (is_faint := (norms > 0.0) & (norms <= SMALLEST_NORM)).any():
        largest = np.abs(seen_features(problem, problem.atoms.take(is_faint))).max(axis=1, initial=SMALLEST)
        norms[is_faint] = SLACK * np.sqrt(problem.n_features) * largest
    errors = residuals.correlation_errors[:, np.newaxis] * norms
    errors += (norms > 0.0) * problem.n_features * QUANTUM
    reach, pulls = problem.penalty.reach(correlations) + errors, np.abs(correlations) + errors
    lost = (problem.n_features + problem.n_atoms) * QUANTUM
    residual_norms = np.sqrt(residuals.squared_norms + lost) + residuals.errors
    zeros = np.zeros(problem.n_signals)
    at_zero = gaps_at(problem, codes, correlations, errors, reach, zeros, residual_norms)

    none, penalty = np.zeros(problem.n_atoms, dtype=np.bool_), problem.penalty
    points = _Point(problem, problem.seen_atoms.take, norms, reach, pulls, residual_norms, none)
    shared = problem.cached(_least_eigenvalue_of_all_atoms, any_penalty=True)
    if shared > 0.0:
        correction_norms, changes = points.of_all_atoms(shared)
    else:
        correction_norms, changes = zeros + np.inf, np.zeros(codes.shape)
        for k in np.flatnonzero(~(at_zero <= CERTAIN * problem.energies)):
            own = problem._with_penalty(penalty.rows(k)) if penalty.is_stack else problem
            point = replace(
                points, problem=own, reach=reach[k], pulls=pulls[k], residual_norm=residual_norms[k]
            )
            correction_norms[k], changes[k] = point.correction(
                residuals.weighted[k], residuals.correlation_errors[k], np.sqrt(2.0 * problem.energies[k])
            )
    errors += changes
    reach += changes
    at_corrected = gaps_at(problem, codes, correlations, errors, reach, zeros + 1.0, correction_norms)
    return np.fmin(np.where(np.isfinite(reach).all(axis=1), at_corrected, np.inf), at_zero)


def gaps_at(
    problem: LassoProblem,
    codes: sparse.csr_array,
    correlations: np.ndarray,
    errors: np.ndarray,
    reach: np.ndarray,
    multiples: np.ndarray,
    distances: np.ndarray,
) -> np.ndarray:
    """Return the gaps of codes at dual points z near multiples of the residuals r, rounded up."""
    # Arrays of shape (n_signals, n_atoms): `correlations` are d_i.r, `errors` are bounds on the differences
    # between d_i.z / multiple and d_i.r, and `reach` is the reach of d_i.z / multiple.
    # `distances` are upper bounds on ||r - z||.
    n_signals, n_atoms = codes.shape
    n_entries = np.diff(codes.indptr)
    row = np.arange(n_signals).repeat(n_entries)
    place = row * n_atoms + codes.indices
    slacks = problem.penalty.of_entries(codes).slack(
        codes.data, correlations.take(place), multiples.take(row), errors=errors.take(place)
    )
    conjugates = problem.penalty.conjugate(reach, multiples, without=place)
    gaps = 0.5 * distances**2 + np.bincount(row, slacks, n_signals) + conjugates
    gaps += (problem.n_features + n_atoms) * QUANTUM
    gaps *= 1.0 + gamma(operations_of_sum(problem.n_features) + n_atoms)
    # If the signal and its code are zero, the gap is exactly zero.
    gaps[(problem.energies == 0.0) & (n_entries == 0)] = 0.0
    return gaps


@dataclass(eq=False)
class _Point:
    """One residual, or several residuals as rows, with the data for correcting residuals to dual points."""

    problem: LassoProblem
    # A function that returns atoms by their indices, in the weighted features, and the norms of all atoms.
    take: Callable[[np.ndarray], np.ndarray]
    norms: np.ndarray
    # Upper bounds on correlations, including rounding: `reach` bounds their values in the directions that the
    # penalty limits, and `pulls` bounds their absolute values.
    reach: np.ndarray
    pulls: np.ndarray
    residual_norm: Any
    # True for the atoms that span lines.
    basis: np.ndarray

    def __post_init__(self) -> None:
        self.up = 1.0 + gamma(self.problem.n_atoms + operations_of_sum(self.problem.n_features))
        # Atoms whose correlations have limits, and the amounts by which correlations exceed these limits.
        self.l1 = self.problem.l1_weights
        self.is_limited = (self.problem.curvatures == 0.0) & (self.norms > 0.0)
        self.excess = np.where(self.is_limited, np.maximum(self.reach - self.l1, 0.0), 0.0)
        self.excess[..., self.basis] = (self.pulls + self.l1)[..., self.basis]

    def of_all_atoms(self, eigenvalue: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the corrections of all residuals in the span of all atoms, which must be independent."""
        norm = self._norm(self.excess, eigenvalue)
        return norm, np.where(self.is_limited, 0.0, self.up * norm[:, np.newaxis] * self.norms)

    def correction(self, residual: np.ndarray, error: float, signal_norm: float) -> Correction:
        """Return the best correction of one residual, or `NONE`."""
        if not np.isfinite(self.pulls).all():
            return NONE
        first = self._corrected(self._in_span)
        if first[0] <= CONE_ROUNDING * self.residual_norm:
            return first
        # Atoms of tiny norm are not part of lines.
        model, norms, reach = self.problem, self.norms.copy(), self.reach.copy()
        is_free = self.is_limited & (norms > SMALLEST_NORM) & (self.l1 <= LINE * norms * signal_norm)
        kept, key = model.cached(_no_lines), is_free.tobytes()
        if key not in kept:
            kept[key] = lines_of(model, np.flatnonzero(is_free))
        basis, others, rests, rooms = kept[key]
        if not len(basis):
            return first if first is not NONE else self._corrected(self._along)
        # The atoms of lines that are not in the basis are replaced by their remainders.
        atoms = model.seen_atoms.toarray().copy()
        atoms[others] = seen_features(model, rests)
        lengths = np.maximum(np.linalg.norm(atoms[others], axis=1), SMALLEST_NORM)
        norms[others] = np.where(rests.any(axis=1), lengths, 0.0)
        at, errors = rests @ residual + rooms, self.up * (len(basis) + 1) * error * norms[others]
        reach[others] = np.where(model.positive[others], at, np.abs(at)) + errors
        is_basis = np.isin(np.arange(model.n_atoms), basis)
        point = replace(self, take=atoms.__getitem__, norms=norms, reach=reach, basis=is_basis)
        second = point._corrected(point._in_span)
        norm, changes = second if second is not NONE else point._corrected(point._along)
        if norm >= first[0]:
            return first
        changes[basis] = point.excess[basis]
        changes[others] += self.pulls[others] + np.abs(at) + errors - rooms
        return norm, self.up * changes

    def _norm(self, excess: np.ndarray, eigenvalue: float) -> Any:
        """Return a bound on the norm of a vector that changes the correlations of independent atoms."""
        relative = np.divide(excess, self.norms, out=np.zeros_like(excess), where=excess > 0.0)
        np.maximum(relative, SMALLEST_NORM, out=relative, where=excess > 0.0)  # squares then do not underflow
        return self.up * np.sqrt(np.einsum("...i,...i->...", relative, relative) / eigenvalue)

    def _corrected(self, change_of: Callable[[np.ndarray], Change | None]) -> Correction:
        """Return a correction that violates no constraint, or `NONE`."""
        up, l1 = self.up, self.l1
        # First try to correct every excess.  Then leave tiny excesses to scaling, because their atoms may be
        # dependent.
        for most in (0.0, MOST_SCALED):
            members = (self.excess > most * l1) | self.basis
            for _ in range(MOST_ROUNDS):
                change = change_of(members)
                if change is None:
                    break
                norm, after, changes = change
                beyond = np.where(self.is_limited & ~members, after - l1, 0.0)
                violated = ~(beyond <= most * l1)
                if not violated.any():
                    share = up * np.divide(beyond, l1, out=np.zeros_like(l1), where=beyond > 0.0).max()
                    return up * (norm + share * self.residual_norm), up * (changes + share * self.pulls)
                members |= violated
        return NONE

    def _in_span(self, members: np.ndarray) -> Change | None:
        """Return a correction in the span of some atoms, or None if these atoms depend on each other."""
        is_few = np.count_nonzero(members) <= self.problem.n_features
        eigenvalue = least_eigenvalue(self.take(members)) if is_few else 0.0
        if eigenvalue == 0.0:
            return None
        norm = self._norm(np.where(members, self.excess, 0.0), eigenvalue)
        changes = np.where(members, 0.0, self.up * norm * self.norms)
        return norm, self.reach + changes, changes

    def _along(self, members: np.ndarray) -> Change | None:
        """Return a correction along a direction that lowers all violated correlations, or None."""
        # A correction along a direction serves dependent (for example equal) atoms of positive codes.  The
        # direction is orthogonal to the lines.
        norms, basis, up, model = self.norms, self.basis, self.up, self.problem
        atoms, violated = self.take(np.arange(model.n_atoms)), members & ~basis
        eigenvalue = least_eigenvalue(atoms[basis])
        if eigenvalue == 0.0 or not model.positive.any():
            return None
        across = np.linalg.qr(atoms[basis].T)[0]
        units = atoms[violated] / norms[violated, np.newaxis]
        units -= units @ across @ across.T
        weights, distance = nearest_of_hull(units)
        if not CONE_ROUNDING < distance < np.inf:
            return None
        direction = weights @ units
        length = float(np.linalg.norm(direction))
        products = atoms @ direction
        # For atoms of tiny norm, the bound is the product of the norms.
        errors = np.where(norms > SMALLEST_NORM, gamma(model.n_features + 8), 1.0) * length * norms
        errors += up * norms * self._norm(np.where(basis, np.abs(products) + errors, 0.0), eigenvalue)
        # If the code of an atom may have either sign, its correlation is limited from both sides.
        low = np.where(model.positive, products, -np.abs(products)) - errors
        if not (low[violated] > 0.0).all():
            return None
        eta = self._norm(np.where(basis, self.excess, 0.0), eigenvalue)
        size = up * float(((self.excess + eta * norms)[violated] / low[violated]).max())
        turned = size * low - (up - 1.0) * np.abs(size * low)
        changes = eta * norms + size * (np.abs(products) + errors)
        return eta + size * length, self.reach + up * eta * norms - turned, changes

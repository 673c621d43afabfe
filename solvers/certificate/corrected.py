"""Gaps at dual points that are corrected: what certifies codes where penalties are zero or tiny.

Where a penalty is zero, or as small as the rounding of a correlation, the multiple of the residual that
`solvers.certificate.optimality` takes is close to zero and proves nothing.  Here a small vector c is added to
the residual r, so that r + c is a dual point (`docs/theory.md`, section 8, *Penalties of zero*); bounds on
the norm of c and on its correlations are enough.
"""

import numpy as np
from scipy import sparse

from snn._interrupts import float_errors
from solvers._kernels.precision import QUANTUM, SMALLEST_NORM, gamma, operations_of_sum
from solvers.certificate.lines import ROUNDING, Lines, lines_of, nearest_of_hull
from solvers.certificate.residuals import Products, products_of
from solvers.problem.lasso import LassoModel, LassoProblem, in_blocks
from solvers.problem.parts import in_groups, seen_norms
from solvers.workers.blas import one_blas_thread

# Gaps above this share of the energy are corrected where a penalty is below SMALL ||d_i|| ||s||.
CERTAIN = 1e-13
SMALL = 1e-6
# Up to so many atoms one bound on eigenvalues is computed for all signals.
MOST_SHARED = 512
# Codes measured together.
BLOCK_ENTRIES = 2**20
# Where a correlation exceeds its penalty by less than this share of it, the dual point may be scaled back.
MOST_SCALED = 1e-3
# A penalty below LINE ||d_i|| ||s|| is none where atoms cancel each other.
LINE = 1e-12
# Times that a correction may violate further constraints before it is given up.
MOST_ROUNDS = 8


# For a correction c: a bound on ||c||, and on |d_i.c| of each atom beside the part that takes a correlation
# back to its penalty.
Correction = tuple[float, np.ndarray | float]
NONE: Correction = (np.inf, 0.0)


def corrected_gaps(
    problem: LassoProblem, codes: sparse.csr_array, gaps: np.ndarray, products: Products | None = None
) -> np.ndarray:
    """Return the gaps of codes, or smaller ones that corrections of the dual points prove."""
    # Those that are passed are at multiples of the residuals; where an l1 weight is zero, they are no proof,
    # and are replaced.  All gaps come through here, and none leaves that is not a number.
    penalty, energies = problem.penalty, problem.energies
    # The lines below take a tenth of the time of a small problem.
    if len(gaps) == 1 and gaps[0] <= CERTAIN * energies[0] and not penalty.has_zeros:
        return gaps
    gaps = np.fmin(gaps, np.inf)
    if not problem.atoms.is_matrix:
        return gaps
    if penalty.has_zeros:
        signals = np.arange(problem.n_signals)
    else:
        is_small = problem.once(_least_weight) <= SMALL * np.sqrt(2.0 * energies)
        signals = np.flatnonzero(is_small & ~(gaps <= CERTAIN * energies))
    if not len(signals):
        return gaps
    if penalty.has_zeros:
        gaps[:] = np.inf
    some, own = codes, products
    small = problem if len(signals) == problem.n_signals else problem.subset(signals)
    with one_blas_thread(), float_errors(over="ignore", invalid="ignore"):
        for group, same in in_groups(small):
            for block, part in in_blocks(same, BLOCK_ENTRIES // max(problem.n_atoms, problem.n_features)):
                which = signals[group[block]]
                if part is not problem:
                    some, own = codes[which], products and products.of(which)
                gaps[which] = np.fmin(gaps[which], _gaps(part, some, own))
    return gaps


def least_eigenvalue(atoms: np.ndarray) -> float:
    """Return a lower bound on the smallest eigenvalue of the Gram matrix of atoms at norm one, or zero."""
    # A Cholesky factorisation that succeeds proves it, rounding included.
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
        inverse = np.linalg.inv(np.linalg.cholesky(gram))
        # The sum of the inverse eigenvalues is above that of the smallest.  A power of two has few bits to
        # depend on threads of BLAS.
        shift = 2.0 ** np.floor(np.log2(0.5 / np.einsum("ij,ij->", inverse, inverse)))
        gram[np.diag_indices(n)] -= shift
        np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return 0.0
    # Rounding of the entries, and of the factorisation of a matrix whose trace is n at most.
    rounding = n * (gamma(n_features + 8) + gamma(n + 2))
    return max(float(shift) - rounding, 0.0)


def signal_of_dependent_atoms(problem: LassoProblem) -> int | None:
    """Return a signal for which `is_free` atoms are not, far enough to prove it, linearly independent."""
    if not problem.penalty.is_free.any():
        return None
    for group, same in in_groups(problem):
        if same.once(_least_eigenvalue_of_free_atoms) == 0.0:
            return int(group[0])
    return None


def _least_eigenvalue_of_free_atoms(model: LassoModel) -> float:
    return _least_eigenvalue_of(model, model.penalty.is_free)


def _least_eigenvalue_of_all_atoms(model: LassoModel) -> float:
    if model.n_atoms > MOST_SHARED:
        return 0.0
    return _least_eigenvalue_of(model, np.ones(model.n_atoms, dtype=np.bool_))


def _least_eigenvalue_of(model: LassoModel, which: np.ndarray) -> float:
    """Return `least_eigenvalue` of some atoms as signals see them, without those that are not seen."""
    return least_eigenvalue(model.seen_atoms.take(which & (model.atoms.norms > 0.0)))


def _least_weight(model: LassoModel) -> np.ndarray:
    """Return the smallest l_i / ||d_i|| of atoms that have no quadratic penalty, of each penalty."""
    with float_errors(all="ignore"):
        return (model.penalty.limits / model.atoms.norms).min(axis=-1)


def _no_lines(model: LassoModel) -> dict[bytes, Lines | None]:
    """Return where lines are kept, by the atoms of the cone."""
    return {}


def _gaps(problem: LassoProblem, codes: sparse.csr_array, products: Products | None) -> np.ndarray:
    """Return the smaller of the gaps at the corrected residual and at the dual point zero."""
    penalty = problem.penalty
    residuals, correlations = products or products_of(problem, codes)
    # Nothing is rounded of atoms that are not seen.
    norms = seen_norms(problem)
    errors = residuals.correlation_errors[:, np.newaxis] * norms

    n_signals, n_atoms = codes.shape
    lost = (problem.n_features + n_atoms) * QUANTUM
    residual_norms = np.sqrt(residuals.squared_norms + lost) + residuals.errors
    correction_norms = np.empty(n_signals)
    changes = np.empty((n_signals, n_atoms))
    reach = penalty.reach(correlations) + errors
    for k in range(n_signals):
        own = problem._at(penalty.rows(k)) if penalty.is_stack else problem
        point = _Point(own, norms[0], reach[k], np.abs(correlations[k]) + errors[k], residual_norms[k])
        correction_norms[k], changes[k] = point.correction(
            residuals.weighted[k], residuals.correlation_errors[k], problem.energies[k]
        )
    errors += changes
    reach += changes
    is_finite = np.isfinite(reach).all(axis=1)
    multiples = np.ones(n_signals)
    at_corrected = gaps_at(problem, codes, correlations, errors, reach, multiples, correction_norms)
    signal = np.arange(n_signals).repeat(np.diff(codes.indptr))
    costs = np.bincount(signal, penalty.of_entries(codes).value(codes.data), n_signals)
    up = 1.0 + gamma(operations_of_sum(problem.n_features) + n_atoms)
    at_zero = up * (0.5 * residual_norms**2 + costs + lost)
    return np.fmin(np.where(is_finite, at_corrected, np.inf), at_zero)


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
    # Correlations of r with the atoms, bounds on how far those of z / multiple differ from them, and how far
    # these may reach, shape (n_signals, n_atoms); distances are not below ||r - z||.
    n_signals, n_atoms = codes.shape
    n_entries = np.diff(codes.indptr)
    signal = np.arange(n_signals).repeat(n_entries)
    place = signal * n_atoms + codes.indices
    slacks = problem.penalty.of_entries(codes).slack(
        codes.data, correlations.take(place), multiples.take(signal), errors=errors.take(place)
    )
    conjugates = problem.penalty.conjugate(reach, multiples, without=place)
    gaps = 0.5 * distances**2 + np.bincount(signal, slacks, n_signals) + conjugates
    gaps += (problem.n_features + n_atoms) * QUANTUM
    gaps *= 1.0 + gamma(operations_of_sum(problem.n_features) + n_atoms)
    # Nothing is rounded where signal and code are zero.
    gaps[(problem.energies == 0.0) & (n_entries == 0)] = 0.0
    return gaps


class _Point:
    """A residual of one signal that is corrected so that it is a dual point."""

    def __init__(
        self,
        problem: LassoProblem,
        norms: np.ndarray,
        reach: np.ndarray,
        pulls: np.ndarray,
        residual_norm: float,
    ) -> None:
        # norms : as the signal sees atoms.
        # reach : as of the penalty; pulls : of both signs.  Bounds on rounding are part of them.
        self.problem, self.reach, self.pulls, self.residual_norm = problem, reach, pulls, residual_norm
        self.norms, self.l1 = norms, problem.l1_weights
        # Atoms that correlations limit, and by how much those have to change.
        self.is_limited = (problem.curvatures == 0.0) & (self.norms > 0.0)
        self.excess = np.where(self.is_limited, np.maximum(reach - self.l1, 0.0), 0.0)
        self.basis = np.zeros(problem.n_atoms, dtype=np.bool_)
        self.up = 1.0 + gamma(problem.n_atoms + operations_of_sum(problem.n_features))

    def correction(self, residual: np.ndarray, error: float, energy: float) -> Correction:
        """Return the correction, or none."""
        shared = self.problem.once(_least_eigenvalue_of_all_atoms, whatever_penalty=True)
        if shared > 0.0:
            norm = self._norm(self.excess, shared)
            return norm, np.where(self.is_limited, 0.0, self.up * norm * self.norms)
        if not np.isfinite(self.pulls).all():
            return NONE
        found = self._of_independent_atoms()
        if found is not NONE:
            return found
        # Of faint atoms no combination is computed.
        is_free = self.is_limited & (self.l1 <= LINE * self.norms * np.sqrt(2.0 * energy))
        is_free &= self.problem.seen_atoms.norms > 0.0
        kept, key = self.problem.once(_no_lines), is_free.tobytes()
        if key not in kept:
            kept[key] = lines_of(self.problem, np.flatnonzero(is_free)) if is_free.any() else None
        lines = kept[key]
        if lines is None or not len(lines.basis):
            return self._along_one_direction()
        self.basis[lines.basis] = True
        self.is_limited[lines.others] = False
        self.excess[lines.others] = 0.0
        self.excess[self.basis] = self.pulls[self.basis]
        found = self._of_independent_atoms()
        norm, changes = found if found is not NONE else self._along_one_direction()
        if norm == np.inf:
            return NONE
        # What is left of the others has to be a dual point, too.
        at = lines.rests @ residual
        weights = self.problem.feature_weights
        seen = lines.rests if weights is None else lines.rests * np.sqrt(weights)
        some = lines.rests.any(axis=1)
        lengths = np.maximum(np.linalg.norm(seen, axis=1), SMALLEST_NORM)
        errors = self.up * ((len(lines.basis) + 1) * error + norm) * lengths
        at, errors = np.where(some, at, 0.0), np.where(some, errors, 0.0)
        others = lines.others
        if not (np.where(self.problem.positive[others], at, np.abs(at)) + errors <= self.l1[others]).all():
            return NONE
        changes = np.array(changes)
        changes[self.basis] = self.pulls[self.basis]
        changes[others] = self.up * (self.pulls[others] + np.abs(at) + errors)
        return norm, changes

    def _norm(self, excess: np.ndarray, eigenvalue: float) -> float:
        """Return a bound on the norm of what changes correlations of independent atoms."""
        relative = np.divide(excess, self.norms, out=np.zeros_like(excess), where=excess > 0.0)
        return self.up * float(np.sqrt(relative @ relative / eigenvalue))

    def _of_independent_atoms(self) -> Correction:
        """Return a correction in the span of independent atoms, or none."""
        up, norms, reach, l1 = self.up, self.norms, self.reach, self.l1
        # Excesses that are rounding alone may be scaled back, with all the rest, and so may be dependent.
        for most in (0.0, MOST_SCALED):
            members = (self.excess > most * l1) | self.basis
            for _ in range(MOST_ROUNDS):
                eigenvalue = 0.0
                if np.count_nonzero(members) <= self.problem.n_features:
                    eigenvalue = least_eigenvalue(self.problem.seen_atoms.take(members))
                if eigenvalue == 0.0:
                    break
                norm = self._norm(np.where(members, self.excess, 0.0), eigenvalue)
                changes = np.where(members, 0.0, up * norm * norms)
                beyond = np.where(self.is_limited & ~members, reach + changes - l1, 0.0)
                violated = beyond > most * l1
                if not violated.any():
                    beyond = np.divide(beyond, l1, out=np.zeros_like(l1), where=beyond > 0.0)
                    share = up * float(beyond.max())
                    return up * (norm + share * self.residual_norm), up * (changes + share * reach)
                members |= violated
        return NONE

    def _along_one_direction(self) -> Correction:
        """Return a correction along one direction from which all violated constraints turn away, or none."""
        # It serves dependent atoms, such as equal ones, where codes must not be negative.  The direction is
        # orthogonal to lines.
        if not self.problem.positive.any():
            return NONE
        norms, basis, is_limited, up = self.norms, self.basis, self.is_limited, self.up
        atoms = self.problem.seen_atoms.toarray()
        across, eigenvalue = np.linalg.qr(atoms[basis].T)[0], least_eigenvalue(atoms[basis])
        if eigenvalue == 0.0:
            return NONE
        eta = self._norm(np.where(basis, self.excess, 0.0), eigenvalue)
        violated = (self.excess > 0.0) & ~basis
        # Of faint atoms nothing is computed.
        relative = np.where(self.problem.seen_atoms.norms > 0.0, gamma(self.problem.n_features + 8), 1.0)
        for _ in range(MOST_ROUNDS):
            units = atoms[violated] / norms[violated, np.newaxis]
            units -= units @ across @ across.T
            weights, distance = nearest_of_hull(units)
            if not ROUNDING < distance < np.inf:
                return NONE
            direction = weights @ units
            length = float(np.linalg.norm(direction))
            products = atoms @ direction
            errors = relative * length * norms
            tilt = self._norm(np.where(basis, np.abs(products) + errors, 0.0), eigenvalue)
            errors += up * tilt * norms
            # Codes that may have either sign are bound from both sides.
            low = np.where(self.problem.positive, products, -np.abs(products)) - errors
            if not (low[violated] > 0.0).all():
                return NONE
            size = up * float(((self.excess + eta * norms)[violated] / low[violated]).max())
            turned = size * low - (up - 1.0) * np.abs(size * low)
            after = self.reach + up * eta * norms - turned - self.l1
            after = is_limited & ~violated & ~basis & ~(after <= 0.0)
            if not after.any():
                return up * (eta + size * length), up * (eta * norms + size * (np.abs(products) + errors))
            violated |= after
        return NONE

"""Gaps at dual points that are corrected: what certifies codes where penalties are zero or tiny.

Where a penalty is zero, or as small as the rounding of a correlation, the multiple of the residual that
`solvers.certificate.optimality` takes is close to zero and proves nothing.  Here a small vector c is added to
the residual r, so that r + c is a dual point (`docs/theory.md`, section 8, *Penalties of zero*); bounds on
the norm of c and on its correlations are enough.
"""

import numpy as np
from scipy import sparse

from solvers._kernels.precision import QUANTUM, gamma, operations_of_sum
from solvers.certificate.residuals import correlations_of, residuals_of
from solvers.problem.lasso import LassoModel, LassoProblem, at_penalty_of, groups_of, seen_norms
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
# Times that a correction may violate further constraints before it is given up.
MOST_ROUNDS = 8


# For a correction c: a bound on ||c||, and on |d_i.c| of each atom beside the part that takes a correlation
# back to its penalty.
Correction = tuple[float, np.ndarray | float]
NONE: Correction = (np.inf, 0.0)


def corrected_gaps(problem: LassoProblem, codes: sparse.csr_array, gaps: np.ndarray) -> np.ndarray:
    """Return the gaps of codes, or smaller ones that corrections of the dual points prove."""
    # Those that are passed are at multiples of the residuals; where an l1 weight is zero, they are no proof,
    # and are replaced.
    penalty, energies = problem.penalty, problem.energies
    if not problem.atoms.is_matrix:
        return gaps
    if penalty.has_zeros:
        signals = np.arange(problem.n_signals)
    else:
        # The lines below take a tenth of the time of a small problem.
        if len(gaps) == 1 and gaps[0] <= CERTAIN * energies[0]:
            return gaps
        is_small = problem.once(_least_weight) <= SMALL * np.sqrt(2.0 * energies)
        signals = np.flatnonzero(is_small & ~(gaps <= CERTAIN * energies))
    if not len(signals):
        return gaps
    size = max(1, BLOCK_ENTRIES // max(problem.n_atoms, problem.n_features))
    blocks = [signals[first : first + size] for first in range(0, len(signals), size)]
    with one_blas_thread():
        found = np.concatenate([_gaps(problem.subset(block), codes[block]) for block in blocks])
    corrected = gaps.copy()
    corrected[signals] = found if penalty.has_zeros else np.fmin(gaps[signals], found)
    return corrected


def least_eigenvalue(atoms: np.ndarray) -> float:
    """Return a lower bound on the smallest eigenvalue of the Gram matrix of atoms at norm one, or zero."""
    # Atoms of norm zero are left out.
    # A Cholesky factorisation that succeeds proves it, rounding included.
    # Rump (2006), BIT Numerical Mathematics 46, section 2.
    atoms = atoms[atoms.any(axis=1)]
    n, n_features = atoms.shape
    if n == 0:
        return 1.0
    if n > n_features:
        return 0.0
    units = atoms / np.sqrt(np.einsum("ij,ij->i", atoms, atoms))[:, np.newaxis]
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
    if not problem.has_own_weights:
        return None if problem.once(_least_eigenvalue_of_free_atoms) > 0.0 else 0
    for group in groups_of(problem):
        if least_eigenvalue(_seen_atoms(problem, int(group[0]), problem.penalty.is_free)) == 0.0:
            return int(group[0])
    return None


def _least_eigenvalue_of_free_atoms(model: LassoModel) -> float:
    return least_eigenvalue(model.seen_atoms.take(model.penalty.is_free))


def _least_eigenvalue_of_all_atoms(model: LassoModel) -> float:
    return least_eigenvalue(model.seen_atoms.toarray()) if model.n_atoms <= MOST_SHARED else 0.0


def _least_weight(model: LassoModel) -> np.ndarray:
    """Return the smallest l_i / ||d_i|| of atoms that have no quadratic penalty, of each penalty."""
    with np.errstate(divide="ignore"):
        return (model.penalty.limits / model.atoms.norms).min(axis=-1)


def _gaps(problem: LassoProblem, codes: sparse.csr_array) -> np.ndarray:
    """Return the smaller of the gaps at the corrected residual and at the dual point zero."""
    penalty = problem.penalty
    signals, weights = problem.dense_signals(), problem.feature_weights
    residuals = residuals_of(problem.atoms, signals, codes, weights, together=penalty.is_stack)
    correlations = correlations_of(problem.atoms, residuals.weighted, together=penalty.is_stack)
    norms = seen_norms(problem)
    # Nothing is rounded of atoms that no feature sees.
    errors = residuals.correlation_errors[:, np.newaxis] * np.where(norms > 0.0, problem.atoms.norms, 0.0)

    n_signals, n_atoms = codes.shape
    shared = 0.0
    if not problem.has_own_weights:
        shared = problem.once(_least_eigenvalue_of_all_atoms, whatever_penalty=True)
    lost = (problem.n_features + n_atoms) * QUANTUM
    residual_norms = np.sqrt(residuals.squared_norms + lost) + residuals.errors
    correction_norms = np.empty(n_signals)
    changes = np.empty((n_signals, n_atoms))
    reach = penalty.reach(correlations) + errors
    for k, seen in enumerate(np.broadcast_to(norms, codes.shape)):
        correction_norms[k], changes[k] = _correction(
            at_penalty_of(problem, k), k, reach[k], seen, shared, residual_norms[k]
        )
    errors += changes
    reach += changes
    multiples = np.ones(n_signals)
    at_corrected = gaps_at(problem, codes, correlations, errors, reach, multiples, correction_norms)
    signal = np.arange(n_signals).repeat(np.diff(codes.indptr))
    costs = np.bincount(signal, penalty.of_entries(codes).value(codes.data), n_signals)
    up = 1.0 + gamma(operations_of_sum(problem.n_features) + n_atoms)
    return np.minimum(at_corrected, up * (0.5 * residual_norms**2 + costs + lost))


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


def _correction(
    problem: LassoProblem,
    signal: int,
    reach: np.ndarray,
    norms: np.ndarray,
    shared: float,
    residual_norm: float,
) -> Correction:
    """Return the correction that makes a residual a dual point, or none."""
    l1 = problem.l1_weights
    is_limited = (problem.curvatures == 0.0) & (norms > 0.0)
    excess = np.where(is_limited, np.maximum(reach - l1, 0.0), 0.0)
    relative = np.divide(excess, norms, out=np.zeros_like(norms), where=norms > 0.0)
    up = 1.0 + gamma(problem.n_atoms + operations_of_sum(problem.n_features))
    if shared > 0.0:
        norm = up * float(np.sqrt(relative @ relative / shared))
        return norm, np.where(is_limited, 0.0, up * norm * norms)
    # Excesses that are rounding alone may be scaled back, with all the rest, and so may be dependent.
    for most in (0.0, MOST_SCALED):
        members = excess > most * l1
        for _ in range(MOST_ROUNDS):
            eigenvalue = 0.0
            if np.count_nonzero(members) <= problem.n_features:
                eigenvalue = least_eigenvalue(_seen_atoms(problem, signal, members))
            if eigenvalue == 0.0:
                break
            there = relative[members]
            norm = up * float(np.sqrt(there @ there / eigenvalue))
            changes = np.where(members, 0.0, up * norm * norms)
            beyond = np.where(is_limited & ~members, reach + changes - l1, 0.0)
            violated = beyond > most * l1
            if not violated.any():
                beyond = np.divide(beyond, l1, out=np.zeros_like(l1), where=beyond > 0.0)
                share = up * float(beyond.max())
                return up * (norm + share * residual_norm), up * (changes + share * reach)
            members |= violated
    return _common_direction(problem, signal, reach, norms, excess) if problem.positive.any() else NONE


def _common_direction(
    problem: LassoProblem, signal: int, reach: np.ndarray, norms: np.ndarray, excess: np.ndarray
) -> Correction:
    """Return a correction along one direction from which all violated constraints turn away, or none."""
    # It serves dependent atoms, such as equal ones, where codes must not be negative.
    is_violated = excess > 0.0
    atoms = _seen_atoms(problem, signal, np.ones(problem.n_atoms, dtype=np.bool_))
    units = atoms[is_violated] / norms[is_violated, np.newaxis]
    direction = np.linalg.lstsq(units, np.ones(len(units)), rcond=None)[0]
    length = float(np.linalg.norm(direction))
    products = atoms @ direction
    errors = gamma(problem.n_features + 8) * length * norms
    # Codes that may have either sign are bound from both sides.
    low = np.where(problem.positive, products, -np.abs(products)) - errors
    if not (low[is_violated] > 0.0).all():
        return NONE
    up = 1.0 + gamma(operations_of_sum(problem.n_features))
    size = up * float((excess[is_violated] / low[is_violated]).max())
    is_limited = (problem.curvatures == 0.0) & (norms > 0.0)
    after = np.where(is_limited & ~is_violated, reach - size * low - problem.l1_weights, 0.0)
    if after.max() > 0.0:
        return NONE
    return up * size * length, up * size * (np.abs(products) + errors)


def _seen_atoms(problem: LassoProblem, signal: int, which: np.ndarray) -> np.ndarray:
    """Return some atoms as a signal sees them: times the square roots of the weights of its features."""
    atoms = problem.atoms.take(which)
    weights = problem.feature_weights
    if weights is None:
        return atoms
    return atoms * np.sqrt(weights if weights.ndim == 1 else weights[signal])

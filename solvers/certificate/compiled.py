"""Certificates from compiled code, for arrays of atoms."""

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers._kernels.certificate import DUALITY_GAP, PenalisedAtoms, RowEntries, measure_codes, new_work
from solvers._kernels.precision import SMALLEST, gamma
from solvers.certificate.corrected import BLOCK_ENTRIES, corrected_gaps
from solvers.certificate.optimality import Optimality, measure
from solvers.plan import screens_certificates
from solvers.problem.largest import Largest, largest_ratios, norms_of
from solvers.problem.lasso import LassoProblem, in_blocks, unit_atoms_of
from solvers.problem.parts import seen_norms

NO_ROWS, NO_NORMS = checks.read_only(np.empty((0, 0))), checks.read_only(np.empty(0))
# Number of codes that are screened together, and number of atoms that are listed for each code in addition to
# its support.
SCREENED_TOGETHER = 512
LISTED = 64


def certificates_of(problem: LassoProblem, codes: sparse.csr_array) -> Optimality:
    """Return the certificates of a solver's codes, which equal `optimality.measure` up to rounding."""
    # For an array of atoms, compiled code is thirty times as fast for one signal and 256 atoms.
    if problem.atoms.rows is None:
        return measure(problem, codes)
    if screens_certificates(problem):
        return certify_screened(problem, codes)
    return optimality_of(problem, codes, _figures_of(problem, codes))


def optimality_of(problem: LassoProblem, codes: sparse.csr_array, figures: np.ndarray) -> Optimality:
    """Return certificates from the figures of a kernel, shape (3, n_signals); the gaps are corrected."""
    figures[DUALITY_GAP] = corrected_gaps(problem, codes, figures[DUALITY_GAP])
    return Optimality(*figures)


def penalised_atoms(problem: LassoProblem) -> PenalisedAtoms:
    """Return the array of atoms and the penalty of a problem in the form that kernels need."""
    # Kernels divide by the l1 weights of atoms without a curvature.  If a weight is zero, `corrected_gaps`
    # replaces the gaps.
    penalty, atoms = problem.penalty, problem.atoms
    norms = atoms.norms if problem.feature_weights is None else _norms(problem)
    l1_weights = penalty.l1
    if penalty.has_zeros:
        l1_weights = checks.read_only(np.where(penalty.limits == 0.0, SMALLEST, l1_weights))
    return PenalisedAtoms(atoms.array, norms, l1_weights, penalty.l2, penalty.positive)


def _figures_of(problem: LassoProblem, codes: sparse.csr_array) -> np.ndarray:
    """Return the figures of codes from all atoms, with a column for each code."""
    atoms = penalised_atoms(problem)
    pointers, columns = _indices(codes.indptr), _indices(codes.indices)
    # Sparse signals and masks are made dense for a few signals at a time.
    is_large = sparse.issparse(problem.signals) or problem.has_own_weights
    size = BLOCK_ENTRIES // problem.n_features if is_large else problem.n_signals
    blocks = [
        _measured(part, atoms, RowEntries(pointers[block.start : block.stop + 1], columns, codes.data))
        for block, part in in_blocks(problem, size)
    ]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)


def _measured(problem: LassoProblem, atoms: PenalisedAtoms, codes: RowEntries) -> np.ndarray:
    """Return the figures of codes."""
    figures, work = np.empty((3, problem.n_signals)), new_work(problem.n_features, len(atoms.array))
    codes = RowEntries(checks.read_only(codes.pointers), codes.columns, checks.read_only(codes.values))
    measure_codes(atoms, problem.dense_signals(), _weights(problem), codes, work, figures)
    return figures


def certify_screened(problem: LassoProblem, codes: sparse.csr_array) -> Optimality:
    """Return the same as `certificates_of`, with one product in single precision for all residuals."""
    # The figures depend only on the correlations of the atoms of a code, and of the atoms that violate their
    # conditions or come closest to a violation.  The product, with bounds on its errors, excludes most atoms.
    # The kernel then measures the code in the dictionary of the few atoms that remain, or in the whole
    # dictionary if too many remain.
    blocks = in_blocks(problem, SCREENED_TOGETHER)
    figures = [_screened(part, codes[block], LISTED)[0] for block, part in blocks]
    return optimality_of(problem, codes, np.concatenate(figures, axis=1))


def certify_and_list(
    problem: LassoProblem, codes: sparse.csr_array, n_listed: int
) -> tuple[Optimality, Largest]:
    """Return the result of `certify_screened` with one product, and the atoms of largest correlations."""
    figures, largest = _screened(problem, codes, n_listed)
    return optimality_of(problem, codes, figures), largest


@np.errstate(over="ignore", invalid="ignore")
def _screened(problem: LassoProblem, codes: sparse.csr_array, n_listed: int) -> tuple[np.ndarray, Largest]:
    """Return the figures of some codes, and the atoms that correlate most with their residuals."""
    figures = np.empty((3, problem.n_signals))
    _norms(problem)  # computes the norms of atoms once for all parts
    signals, weights = problem.dense_signals(), _weights(problem)
    # The residuals times the weights of features, and bounds on the norms of their errors.
    pulls = signals - codes @ problem.atoms.array
    n_entries = np.diff(codes.indptr).astype(np.int64)
    row = np.arange(len(pulls)).repeat(n_entries)
    sizes = np.bincount(row, np.abs(codes.data) * problem.atoms.norms[codes.indices], len(pulls))
    pull_errors = gamma(n_entries + 2) * (norms_of(signals) + sizes)
    if len(weights):
        pulls, pull_errors = pulls * weights, pull_errors * weights.max(axis=1)
    factors = problem.atoms.norms / problem.l1_weights
    n_listed += int(n_entries.max())
    unit_atoms = problem.cached(unit_atoms_of, any_penalty=True)
    largest = largest_ratios(unit_atoms, factors, pulls, n_listed, positive=problem.positive)
    largest = largest._replace(errors=pull_errors * factors.max() + largest.errors)
    is_curved, is_uniform = not problem.penalty.is_flat, bool(np.ptp(problem.l1_weights) == 0.0)
    for k in range(problem.n_signals):
        ratios = largest.ratios[k, : largest.counts[k]]
        others, error = largest.others[k], largest.errors[k]
        # Atoms with ratios up to `least` are left out, because none of them has the largest ratio or the
        # largest violation.
        least = ratios.max() - 3.0 * error
        if is_curved or not is_uniform:
            least = min(least, 1.0 - 2.0 * error)
        if is_curved:
            least = min(least, others)
        part = problem.subset(slice(k, k + 1))
        if others <= least:
            entries = slice(codes.indptr[k], codes.indptr[k + 1])
            columns = codes.indices[entries]
            atoms = np.unique(np.concatenate([columns, largest.atoms[k, : len(ratios)][ratios > least]]))
            if not is_curved or _adds_nothing(part, pulls[k], atoms, least + error):
                figures[:, k] = _figures_of_few(part, atoms, columns, codes.data[entries])
                continue
        figures[:, k] = _figures_of(part, codes[[k]])[:, 0]
    return figures, largest


def _adds_nothing(problem: LassoProblem, pull: np.ndarray, atoms: np.ndarray, ratio: float) -> bool:
    """Return True if atoms outside `atoms`, with ratios up to `ratio`, add nothing to the dual objective."""
    # An atom adds nothing if its correlation with the best multiple of the residual is below its penalty.
    residual, weights = pull, _weights(problem)
    if len(weights):
        residual = np.divide(pull, weights[0], out=np.zeros_like(pull), where=weights[0] > 0.0)
    penalty = problem.penalty.at(atoms)
    reach = penalty.reach(problem.atoms.array[atoms] @ pull)[np.newaxis]
    multiple = penalty.dual_multiple(reach, problem.dense_signals() @ pull, residual[np.newaxis] @ pull)
    return ratio <= 0.0 or bool(multiple[0] * ratio < 1.0 - 1e-9)


def _figures_of_few(
    problem: LassoProblem, atoms: np.ndarray, columns: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Return the figures of the code of one signal in the dictionary of some atoms, in increasing order."""
    norms = NO_NORMS if problem.has_own_weights else _norms(problem)[atoms]
    penalty = problem.penalty.at(atoms)
    arrays = problem.atoms.array[atoms], norms, penalty.l1, penalty.l2, penalty.positive
    few = PenalisedAtoms(*map(checks.read_only, arrays))
    pointers = np.array([0, len(columns)], dtype=np.int32)
    columns = checks.read_only(np.searchsorted(atoms, columns).astype(np.int32))
    return _measured(problem, few, RowEntries(pointers, columns, values))[:, 0]


def _weights(problem: LassoProblem) -> np.ndarray:
    """Return the weights of features as floats: a row for each signal, one row for all, or no row."""
    if problem.feature_weights is None:
        return NO_ROWS
    return checks.read_only(np.atleast_2d(problem.feature_weights).astype(np.float64, copy=False))


def _norms(problem: LassoProblem) -> np.ndarray:
    """Return the norms of atoms in the weighted features; `NO_NORMS` if signals have different weights."""
    return NO_NORMS if problem.has_own_weights else checks.read_only(seen_norms(problem)[0])


def _indices(array: np.ndarray) -> np.ndarray:
    """Return indices as int32 or int64, so that few kernels are compiled."""
    return checks.read_only(array.astype(np.int64) if array.dtype != np.int32 else array)

"""Certificates from compiled code, where there is some."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from snn.base import checks
from solvers._kernels.certificate import DUALITY_GAP, KKT_VIOLATION, OBJECTIVE, measure_codes
from solvers._kernels.precision import SMALLEST
from solvers.certificate.corrected import corrected_gaps
from solvers.certificate.optimality import BLOCK_ENTRIES, Optimality, measure
from solvers.problem.lasso import LassoProblem

NO_ROWS = checks.read_only(np.empty((0, 0)))


def certify(problem: LassoProblem, codes: sparse.csr_array) -> Optimality:
    """Return what `solvers.certificate.optimality.measure` says of codes that a solver has found, sooner.

    The figures agree to rounding, and tests compare them.  An array of atoms has compiled code, unless the
    penalty has a form of its own.  It is faster for any number of signals: thirty times for one signal and
    256 atoms, where NumPy's time is spent between its calls.

    Parameters
    ----------
    problem : LassoProblem
        The problem.
    codes : scipy.sparse.csr_array, shape (n_signals, n_atoms)
        The entries that are not zero, each once; not negative where the problem is `positive`.
    """
    penalty, rows = problem.penalty, problem.atoms.rows
    if rows is None or not penalty.is_elastic_net:
        return measure(problem, codes)
    # Kernels divide by weights, and what they say of the gap is replaced where one is zero.
    l1_weights = penalty.l1_weights
    if penalty.has_zeros:
        l1_weights = checks.read_only(np.maximum(l1_weights, SMALLEST))
    blocks = []
    pointers, columns = _indices(codes.indptr), _indices(codes.indices)
    # Sparse signals, and masks, take their full size for a few signals at a time.
    step = problem.n_signals
    if sparse.issparse(problem.signals) or problem.has_own_weights:
        step = max(1, BLOCK_ENTRIES // problem.n_features)
    for first in range(0, problem.n_signals, step):
        block = slice(first, first + step)
        part = problem if step >= problem.n_signals else problem.subset(block)
        blocks.append(np.empty((3, part.n_signals)))
        measure_codes(
            rows,
            problem.atoms.norms,
            l1_weights,
            penalty.curvatures,
            problem.positive,
            part.dense_signals(),
            _weights(part),
            checks.read_only(pointers[first : first + part.n_signals + 1]),
            columns,
            checks.read_only(codes.data),
            blocks[-1],
        )
    figures = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
    return Optimality(
        objective=figures[OBJECTIVE],
        duality_gap=corrected_gaps(problem, codes, figures[DUALITY_GAP]),
        kkt_violation=figures[KKT_VIOLATION],
    )


def _weights(problem: LassoProblem) -> np.ndarray:
    """Return the weights of features as numbers, a row for each signal or one for all; no row without any."""
    if problem.feature_weights is None:
        return NO_ROWS
    return checks.read_only(np.atleast_2d(problem.feature_weights).astype(np.float64, copy=False))


def _indices(array: np.ndarray) -> np.ndarray:
    """Return indices of one type, whatever SciPy chose, so that one kernel takes them."""
    return checks.read_only(array.astype(np.int64) if array.dtype != np.int32 else array)

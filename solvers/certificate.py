"""Certificates from compiled code, where there is some."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from snn import checks
from solvers._kernels.certificate import DUALITY_GAP, KKT_VIOLATION, OBJECTIVE, measure_codes
from solvers.optimality import Optimality, measure
from solvers.problem import LassoProblem


def certify(problem: LassoProblem, codes: sparse.csr_array) -> Optimality:
    """Return what `solvers.optimality.measure` says of codes that a solver has found, sooner.

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
    figures = np.empty((3, problem.n_signals))
    measure_codes(
        rows,
        problem.atoms.norms,
        penalty.l1_weights,
        penalty.curvatures,
        problem.positive,
        problem.signals,
        _indices(codes.indptr),
        _indices(codes.indices),
        checks.read_only(codes.data),
        figures,
    )
    return Optimality(
        objective=figures[OBJECTIVE],
        duality_gap=figures[DUALITY_GAP],
        kkt_violation=figures[KKT_VIOLATION],
    )


def _indices(array: np.ndarray) -> np.ndarray:
    """Return indices of one type, whatever SciPy chose, so that one kernel takes them."""
    return checks.read_only(array.astype(np.int64) if array.dtype != np.int32 else array)

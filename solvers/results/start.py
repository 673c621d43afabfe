"""Where a solver starts: codes, or the result of another solver."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from solvers.problem.lasso import LassoProblem
from solvers.results.result import SparseCodingResult, as_sparse

Start: TypeAlias = ArrayLike | sparse.csr_array | SparseCodingResult | None
"""What solvers take as `start`; None is the zero code."""


def start_codes(problem: LassoProblem, start: Start) -> sparse.csr_array | None:
    """Return the codes of a start with their non-zero entries alone, in order and each once.

    Those of atoms of norm zero are left out.

    Parameters
    ----------
    problem : LassoProblem
        The problem that is solved.
    start : array_like or scipy.sparse.csr_array of shape (n_signals, n_atoms), result, or None
        What the caller of a solver passed.

    Returns
    -------
    scipy.sparse.csr_array, shape (n_signals, n_atoms), or None
        Of float64 numbers; None without a start.

    Raises
    ------
    TypeError, ValueError
        If it is of the wrong kind or shape, not finite, or negative where codes must not be.
    """
    if start is None:
        return None
    shape = (problem.n_signals, problem.n_atoms)
    if isinstance(start, SparseCodingResult):
        codes = start.sparse_codes
    elif not sparse.issparse(start):
        codes = as_sparse(checks.real_array("start", start, shape=shape, meaning="(n_signals, n_atoms)"))
    elif not isinstance(start, sparse.csr_array):
        raise TypeError(
            f"start must be an array, a csr_array or a result; got a {type(start).__name__}: "
            "pass csr_array(start)"
        )
    elif start.dtype.kind not in "fiub":
        raise TypeError(f"start must hold real numbers; got dtype {start.dtype}")
    else:
        codes = start.astype(np.float64)
        checks.require_finite("start", codes.data)
        codes.sum_duplicates()
        codes.eliminate_zeros()
    if codes.shape != shape:
        raise ValueError(f"start must have shape {shape}, (n_signals, n_atoms); got shape {codes.shape}")
    of_zero_atoms = problem.squared_norms[codes.indices] == 0.0
    if of_zero_atoms.any():
        # They change nothing but the penalty.
        codes = codes.copy()
        codes.data[of_zero_atoms] = 0.0
        codes.eliminate_zeros()
    if problem.positive and codes.data.min(initial=0.0) < 0.0:
        raise ValueError(f"start must not be negative for a positive problem; got {codes.data.min()}")
    return codes

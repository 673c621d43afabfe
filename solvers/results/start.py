"""Where a solver starts: codes, or the result of another solver."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from snn.base import checks
from solvers._kernels.batch import CompressedRows
from solvers.problem.lasso import LassoProblem
from solvers.results.result import SparseCodingResult, as_sparse

Start: TypeAlias = ArrayLike | sparse.csr_array | SparseCodingResult | None
"""What solvers take as `start`; None is the zero code."""

NO_ATOMS, NO_CURRENTS = np.empty(0, dtype=np.int32), np.empty(0)


class StartPoint(NamedTuple):
    """Where the signals of a problem start.

    Attributes
    ----------
    codes : csr_array, shape (n_signals, n_atoms)
        The non-zero entries, in order and each once; none of an atom of norm zero.
    average_currents : csr_array, shape (n_signals, n_atoms), optional
        Average currents of the neurons that fired, where spikes found the codes.
    """

    codes: sparse.csr_array
    average_currents: sparse.csr_array | None = None

    def at(self, signals: slice | np.ndarray) -> StartPoint:
        """Return where some signals start.

        Parameters
        ----------
        signals : slice, or ndarray of int
            Which signals.
        """
        currents = self.average_currents
        return StartPoint(self.codes[signals], None if currents is None else currents[signals])

    def currents(self, squared_norms: np.ndarray) -> CompressedRows:
        """Return what the active-set method starts from: average currents, or ||d_i||^2 a_i.

        Parameters
        ----------
        squared_norms : ndarray, shape (n_atoms,)
            ||d_i||^2.
        """
        if self.average_currents is not None:
            rows = self.average_currents
            data = rows.data.copy()
        else:
            rows = self.codes
            data = rows.data * squared_norms[rows.indices]
        # Of one type whatever came in, so that kernels are compiled once.
        return CompressedRows(rows.indptr.astype(np.int32), rows.indices.astype(np.int32), data)


def no_currents(n_signals: int) -> CompressedRows:
    """Return what the active-set method starts from where there is no start."""
    return CompressedRows(np.zeros(n_signals + 1, dtype=np.int32), NO_ATOMS, NO_CURRENTS)


def start_point(problem: LassoProblem, start: Start) -> StartPoint | None:
    """Return where the signals of a problem start; None without a start.

    Shapes: start (n_signals, n_atoms).
    """
    if start is None:
        return None
    shape = (problem.n_signals, problem.n_atoms)
    currents = None
    if isinstance(start, SparseCodingResult):
        codes, currents = start.sparse_codes, start.sparse_average_currents
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
    return StartPoint(codes, currents)

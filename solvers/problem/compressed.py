"""Compressed rows of SciPy, as signals or as atoms, as they are accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from solvers.problem.norms import require_squared_norms


def checked_rows(name: str, value: Any, *, meaning: str, hint: str = "") -> sparse.csr_array:
    """Return a read-only copy with each entry that is not zero once, in order, as float64."""
    kind = type(value).__name__
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers; got dtype {value.dtype}")
    if value.ndim != 2:
        raise ValueError(f"{name} must be 2-D, {meaning}; got shape {value.shape}")
    if 0 in value.shape:
        raise ValueError(f"{name} must not be empty; got shape {value.shape}")
    try:
        rows = sparse.csr_array(
            (value.data.astype(np.float64), value.indices.copy(), value.indptr.copy()), value.shape
        )
        rows.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name} must be valid compressed rows; got a {kind} of which {error}") from None
    rows.sum_duplicates()
    rows.eliminate_zeros()
    lost = np.flatnonzero(~np.isfinite(rows.data))
    if len(lost):
        row = int(np.searchsorted(rows.indptr, lost[0], side="right")) - 1
        raise ValueError(
            f"{name} must be finite; got {rows.data[lost[0]]} at [{row}, {rows.indices[lost[0]]}]{hint}"
        )
    for array in (rows.data, rows.indices, rows.indptr):
        array.flags.writeable = False
    return rows


def squared_norms_of_compressed(name: str, row: str, rows: sparse.csr_array) -> np.ndarray:
    """Return the squared norm of each row; refuse one that floating point cannot hold."""
    number = np.arange(rows.shape[0]).repeat(np.diff(rows.indptr))
    with np.errstate(over="ignore", under="ignore"):
        squared_norms = np.bincount(number, rows.data * rows.data, rows.shape[0])
    require_squared_norms(name, row, squared_norms, np.diff(rows.indptr) > 0)
    return squared_norms

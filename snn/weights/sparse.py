"""Weights in compressed rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from snn._kernels.sparse_rows import CompressedRows
from snn.base import checks
from snn.base.value import cached_property, checked
from snn.weights.protocol import Weights, require_zero_diagonal, same_type


def checked_rows(name: str, value: Any) -> sparse.csr_array:
    """Return a read-only copy of a matrix in compressed rows, sorted and without zeros."""
    if not sparse.issparse(value):
        value = sparse.csr_array(
            checks.real_array(name, value, shape=(None, None), meaning="(source, target)")
        )
    if value.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be a matrix of real numbers; got dtype {value.dtype}")
    if value.ndim != 2:
        raise ValueError(f"{name} must be 2-D, (source, target); got shape {value.shape}")
    _require_valid_indices(name, value)
    # Kernels take 64-bit indices.  If the indices of the matrix have 64 bits, SciPy's matrix and the kernels
    # share its arrays.
    rows = sparse.csr_array(value, dtype=np.float64)
    matrix = sparse.csr_array(
        (rows.data.copy(), rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), shape=value.shape
    )
    _require_valid_indices(name, matrix)
    matrix.sum_duplicates()
    matrix.sort_indices()
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"{name} must be finite; got {matrix.data[~np.isfinite(matrix.data)][0]}")
    matrix.eliminate_zeros()
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    return matrix


def _require_valid_indices(name: str, value: sparse.spmatrix | sparse.sparray) -> None:
    """Raise ValueError if a matrix has indices outside its shape; SciPy does not check them."""
    try:
        # A new container is checked, because the check may replace the arrays of a container.
        if value.format == "coo":
            sparse.coo_array((value.data, (value.row, value.col)), value.shape)
        elif hasattr(value, "check_format"):
            type(value)(value, copy=False).check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"{name} must have valid indices, within its shape {value.shape}; got a {value.format} matrix "
            f"with the fault {error}"
        ) from None


@dataclass(frozen=True, eq=False, repr=False)
class SparseWeights(Weights):
    """Weights that are mostly zero, as a copy of a SciPy matrix ``[source, target]`` with a zero diagonal."""

    matrix: sparse.csr_array = checked(checked_rows)

    def _check(self) -> None:
        require_zero_diagonal("matrix", self.matrix)

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @cached_property
    def kernel_form(self) -> CompressedRows:
        return CompressedRows(
            same_type(self.matrix.indptr, np.int64),
            same_type(self.matrix.indices, np.int64),
            same_type(self.matrix.data, np.float64),
        )

    def tocsr(self) -> sparse.csr_array:
        """Return the matrix, without a copy; its arrays are read-only."""
        return self.matrix

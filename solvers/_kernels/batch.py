"""Compressed rows, and the code of one signal read and certified in one call."""

from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import compiled, inner, kernel_of
from solvers._kernels.certificate import NO_WEIGHTS, certify, new_work


class CompressedRows(NamedTuple):
    """The non-zero entries of a matrix; those of row k are number pointers[k] up to pointers[k + 1]."""

    pointers: np.ndarray  # int32, as `columns`
    columns: np.ndarray  # in order, none twice in a row
    values: np.ndarray


@partial(inner, _nrt=True)
def entries_of(rows, pointers):
    """Return the entries that are not zero, row by row, and their columns; write where each row begins."""
    n_rows, n_columns = rows.shape
    pointers[0] = 0
    for k in range(n_rows):
        count = 0
        for i in range(n_columns):
            count += rows[k, i] != 0
        pointers[k + 1] = pointers[k] + count
    values = np.empty(pointers[n_rows], rows.dtype)
    columns = np.empty(pointers[n_rows], pointers.dtype)
    place = 0
    for k in range(n_rows):
        for i in range(n_columns):
            if rows[k, i] != 0:
                values[place] = rows[k, i]
                columns[place] = i
                place += 1
    return values, columns


nonzero_entries = kernel_of(entries_of, _nrt=True)


@compiled
def read_and_certify(array, norms, l1_weights, curvatures, positive, signals, codes, spike_counts, figures):
    """Return the atoms and values of the code of one signal, and the neurons that fired and how often; write
    objective, duality gap and KKT violation to `figures`."""
    pointers = np.empty(2, np.int32)
    counts, neurons = entries_of(spike_counts, pointers)
    values, atoms = entries_of(codes, pointers)
    n_atoms, n_features = array.shape
    certify(
        array, norms, l1_weights, curvatures, positive, signals[0], NO_WEIGHTS, atoms, values,
        new_work(n_features, n_atoms), figures,
    )  # fmt: skip
    return atoms, values, neurons, counts

"""What is done to each signal of a batch before its network runs, and after its code is read out."""

import numpy as np

from snn._kernels.compiling import compiled


@compiled
def scaled_drive(correlations, penalty, squared_norms, positive, soma_bias, scale):
    """Write the drive of each network, beta = (+-b - lambda) / scale, and the scales.

    A scale is the largest rate that a neuron's drive would cause alone, 1 where nobody is driven.
    """
    n_signals, n_atoms = correlations.shape
    for k in range(n_signals):
        largest = 0.0
        sign = 1.0
        for first in range(0, n_atoms if positive else 2 * n_atoms, n_atoms):
            for i in range(n_atoms):
                bias = sign * correlations[k, i] - penalty[i]
                soma_bias[k, first + i] = bias
                if bias > largest * squared_norms[i]:
                    largest = bias / squared_norms[i]
            sign = -1.0
        scale[k] = largest if largest > 0.0 else 1.0
        for i in range(soma_bias.shape[1]):
            soma_bias[k, i] /= scale[k]


@compiled
def nonzero_entries(rows, starts):
    """Return the entries that are not zero, row by row, and their columns; set where each row begins."""
    n_rows, n_columns = rows.shape
    starts[0] = 0
    for k in range(n_rows):
        count = 0
        for i in range(n_columns):
            count += rows[k, i] != 0
        starts[k + 1] = starts[k] + count
    values = np.empty(starts[n_rows], rows.dtype)
    columns = np.empty(starts[n_rows], starts.dtype)
    place = 0
    for k in range(n_rows):
        for i in range(n_columns):
            if rows[k, i] != 0:
                values[place] = rows[k, i]
                columns[place] = i
                place += 1
    return values, columns

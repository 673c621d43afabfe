"""What is done to each signal of a batch before its network runs, and after."""

from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import compiled, inner
from solvers._kernels.certificate import NO_WEIGHTS, certify, new_work


class CompressedRows(NamedTuple):
    """The non-zero entries of a matrix; those of row k are number pointers[k] up to pointers[k + 1]."""

    pointers: np.ndarray  # int32, as `columns`
    columns: np.ndarray  # in order, none twice in a row
    values: np.ndarray


@compiled
def scaled_drive(correlations, l1_weights, diagonal, positive, soma_bias, scale):
    """Write the drive of each network, beta = (+-b - lambda) / scale, and the scales.

    A scale is the largest rate that the drive of a neuron alone would cause, 1 where no neuron is driven.
    `diagonal` are the thresholds of the neurons of atoms.
    """
    n_signals, n_atoms = correlations.shape
    for k in range(n_signals):
        largest = 0.0
        sign = 1.0
        for first in range(0, n_atoms if positive else 2 * n_atoms, n_atoms):
            for i in range(n_atoms):
                bias = sign * correlations[k, i] - l1_weights[i]
                soma_bias[k, first + i] = bias
                if bias > largest * diagonal[i]:
                    largest = bias / diagonal[i]
            sign = -1.0
        scale[k] = largest if largest > 0.0 else 1.0
        for i in range(soma_bias.shape[1]):
            soma_bias[k, i] /= scale[k]


@compiled
def average_currents(spike_counts, potential, threshold, factors, group_length, positive):
    """Return the average currents of the atoms that fired, compressed rows: (pointers, atoms, currents).

    The charge of a neuron that fired is ``threshold * spikes + potential``, the integral of its soma current,
    where that is positive, and else 0.  The charge of an atom is that of its positive neuron minus that of
    its negative neuron.  Its average current is the charge times the signal's entry of `factors`.

    Neurons are in groups: the positive neurons of `group_length` atoms, then, unless `positive`, the negative
    neurons of the same atoms.
    """
    n_signals, n_neurons = spike_counts.shape
    n_signs = 1 if positive else 2
    pointers = np.empty(n_signals + 1, np.int32)
    pointers[0] = 0
    capacity = 0
    for k in range(n_signals):
        for i in range(n_neurons):
            capacity += spike_counts[k, i] > 0
    atoms = np.empty(capacity, np.int32)
    currents = np.empty(capacity)
    count = 0
    for k in range(n_signals):
        fired = spike_counts[k]
        remaining = potential[k]
        factor = factors[k]
        for group in range(n_neurons // (n_signs * group_length)):
            for i in range(group * n_signs * group_length, (group * n_signs + 1) * group_length):
                charge = 0.0
                if fired[i] > 0:
                    charge = max(threshold[i] * fired[i] + remaining[i], 0.0)
                if not positive:
                    j = i + group_length
                    if fired[j] > 0:
                        charge -= max(threshold[j] * fired[j] + remaining[j], 0.0)
                if charge != 0.0:
                    atoms[count] = i - group * (n_signs - 1) * group_length
                    currents[count] = charge * factor
                    count += 1
        pointers[k + 1] = count
    return pointers, atoms[:count].copy(), currents[:count].copy()


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


@compiled
def nonzero_entries(rows, pointers):
    """As `entries_of`, for Python to call."""
    return entries_of(rows, pointers)


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

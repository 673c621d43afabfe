"""Products with codes, nearly all of whose entries are zero, and the changes of weights by them.

Sums run over signals and atoms in the order of their indices, so that a signal's result does not depend on
which others are in its batch.
"""

import numpy as np

from snn._kernels.compiling import compiled


@compiled
def add_combinations(total, codes, factor, rows):
    """Add factor codes @ rows to total."""
    for k in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            amount = factor * codes[k, j]
            if amount != 0.0:
                for i in range(rows.shape[1]):
                    total[k, i] += amount * rows[j, i]


@compiled
def add_products(total, signals, rows):
    """Add signals @ rows to total, where many of the numbers of the signals are not zero."""
    n_sources = rows.shape[0]
    n_fours = n_sources - n_sources % 4
    # Four sources at a time, whose rows all signals use while they are in the cache.
    for j in range(0, n_fours, 4):
        for k in range(signals.shape[0]):
            x = signals[k, j], signals[k, j + 1], signals[k, j + 2], signals[k, j + 3]
            if x != (0.0, 0.0, 0.0, 0.0):
                for i in range(rows.shape[1]):
                    total[k, i] += (x[0] * rows[j, i] + x[1] * rows[j + 1, i]) + (
                        x[2] * rows[j + 2, i] + x[3] * rows[j + 3, i]
                    )
    for j in range(n_fours, n_sources):
        for k in range(signals.shape[0]):
            for i in range(rows.shape[1]):
                total[k, i] += signals[k, j] * rows[j, i]


@compiled
def drive(drives, coding, thresholds, share):
    """Make F x, in the first columns, share (F x + coding), in the second neurons of pairs its opposite.

    Return for each signal the most spikes of a neuron in a unit of time, without inhibition.
    """
    n_atoms = coding.shape[1]
    most = np.zeros(drives.shape[0])
    for k in range(drives.shape[0]):
        for i in range(n_atoms):
            excitation, own = drives[k, i], coding[k, i]
            # Rarely divided.
            if max(own, 0.0) + abs(excitation) > most[k] * thresholds[i]:
                most[k] = (max(own, 0.0) + abs(excitation)) / thresholds[i]
            drives[k, i] = share * (own + excitation)
            if drives.shape[1] > n_atoms:
                drives[k, n_atoms + i] = share * (-abs(own) - excitation)
    return most


@compiled
def change_rows(rows, chosen, keep, changes, least):
    """Set the chosen rows to max(keep rows - changes, least); keep has a number for each row, chosen or not.

    Eight entries of each at a time: rows may be columns in memory.
    """
    for first in range(0, rows.shape[1], 8):
        for k in range(len(chosen)):
            j = chosen[k]
            for i in range(first, min(first + 8, rows.shape[1])):
                rows[j, i] = max(keep[j] * rows[j, i] - changes[k, i], least)


@compiled
def is_transpose(matrix, other):
    """Return whether a matrix is the transpose of another, eight rows at a time, which are in the cache."""
    for first in range(0, matrix.shape[0], 8):
        for i in range(matrix.shape[1]):
            for j in range(first, min(first + 8, matrix.shape[0])):
                if matrix[j, i] != other[i, j]:
                    return False
    return True


@compiled
def add_symmetric(total, lower, rows):
    """Set total to the sum of rows and a symmetric matrix, whose lower half may stand in total already."""
    # Eight columns at a time, whose entries on both sides of the diagonal are in the cache.
    for first in range(0, rows.shape[0], 8):
        for i in range(first, rows.shape[0]):
            for j in range(first, min(first + 8, i + 1)):
                entry = lower[i, j]
                total[i, j] = rows[i, j] + entry
                total[j, i] = rows[j, i] + entry

"""Products with codes, nearly all of whose entries are zero, and the changes of weights by them.

Sums run over signals and atoms in the order of their indices, so that a signal's result does not depend on
which others are in its batch.
"""

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
    """Add signals @ rows to total, where most of the numbers of the signals are not zero."""
    n_sources = rows.shape[0]
    n_fours = n_sources - n_sources % 4
    for k in range(signals.shape[0]):
        # Four at a time: total is read and written a fourth as often.
        for j in range(0, n_fours, 4):
            x = signals[k, j], signals[k, j + 1], signals[k, j + 2], signals[k, j + 3]
            for i in range(rows.shape[1]):
                total[k, i] += (x[0] * rows[j, i] + x[1] * rows[j + 1, i]) + (
                    x[2] * rows[j + 2, i] + x[3] * rows[j + 3, i]
                )
        for j in range(n_fours, n_sources):
            for i in range(rows.shape[1]):
                total[k, i] += signals[k, j] * rows[j, i]


@compiled
def change_rows(rows, keep, codes, values, least):
    """Set rows to max(keep rows - codes^T values, least); keep has one number for each row."""
    for j in range(rows.shape[0]):
        changed = keep[j] != 1.0
        if changed:
            for i in range(rows.shape[1]):
                rows[j, i] *= keep[j]
        for k in range(codes.shape[0]):
            amount = codes[k, j]
            if amount != 0.0:
                changed = True
                for i in range(rows.shape[1]):
                    rows[j, i] -= amount * values[k, i]
        if changed:
            for i in range(rows.shape[1]):
                rows[j, i] = max(rows[j, i], least)

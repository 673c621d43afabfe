"""Products of sparse codes, and the changes of weights that codes cause.

Sums run over signals and atoms in the order of their indices.  Therefore the result for one signal does not
depend on the other signals of its batch.
"""

import math

import numpy as np

from snn._kernels.compiling import inner, uncounted
from snn._kernels.delivery import add_scaled


@uncounted
def add_combinations(total, codes, factor, rows):
    """Add ``factor * codes @ rows`` to the array `total`."""
    for k in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            amount = factor * codes[k, j]
            if amount != 0.0:
                for i in range(rows.shape[1]):
                    total[k, i] += amount * rows[j, i]


@inner
def add_products(total, signals, rows):
    """Add ``signals @ rows`` to the array `total`; signals may be dense."""
    n_sources = rows.shape[0]
    n_fours = n_sources - n_sources % 4
    # Take four sources at a time, so that all signals use four rows while these rows are in the cache.
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


@uncounted
def drive(drives, expected, signals, coding, rows, thresholds, share, duration):
    """Set drives to ``share (F x + coding)``; for the second neurons of pairs, F x has the opposite sign."""
    # Set `expected` to the number of spikes of the inputs and of the most excited neuron without inhibition.
    n_atoms = coding.shape[1]
    for k in range(signals.shape[0]):
        for i in range(n_atoms):
            drives[k, i] = 0.0
    add_products(drives, signals, rows)
    for k in range(signals.shape[0]):
        most = 0.0
        for i in range(n_atoms):
            excitation, bias = drives[k, i], coding[k, i]
            # Compare products instead of quotients, so that divisions are rare.
            if max(bias, 0.0) + abs(excitation) > most * thresholds[i]:
                most = (max(bias, 0.0) + abs(excitation)) / thresholds[i]
            drives[k, i] = share * (bias + excitation)
            if drives.shape[1] > n_atoms:
                drives[k, n_atoms + i] = share * (-abs(bias) - excitation)
        for j in range(signals.shape[1]):
            most += abs(signals[k, j])
        expected[k] = most * duration


@inner
def observe_row(
    k, counts, remaining, signals, fired, codes, g_d, g_h, share, kappa, feedback, lateral, closed
):  # fmt: skip
    """Set `fired`, the codes ``share (counts + remaining)``, g_D and g_H of one row."""
    # kappa F B equals lateral - closed, so that no product of F and B is computed.
    n_neurons, n_atoms = counts.shape[0], feedback.shape[0]
    for i in range(g_d.shape[1]):
        g_d[k, i] = -kappa * signals[k, i]
    for i in range(n_atoms):
        g_h[k, i] = 0.0
    for j in range(n_atoms):
        n_spikes, code = counts[j], counts[j] + remaining[j]
        if n_neurons > n_atoms:
            n_spikes -= counts[n_atoms + j]
            code -= counts[n_atoms + j] + remaining[n_atoms + j]
        elif code < 0.0:
            code = 0.0  # a negative code is a rounding error
        code *= share
        fired[k, j], codes[k, j] = n_spikes != 0, code
        if code != 0.0:
            add_scaled(g_d[k], feedback[j], kappa * code)
            add_scaled(g_h[k], closed[n_atoms * j : n_atoms * (j + 1)], code)
            add_scaled(g_h[k], lateral[j], (kappa - 1.0) * code)


@uncounted
def observe(counts, remaining, signals, fired, codes, g_d, g_h, share, kappa, feedback, lateral, closed):
    """Set what neurons observe in all rows of a batch."""
    for k in range(counts.shape[0]):
        observe_row(
            k, counts[k], remaining[k], signals, fired, codes, g_d, g_h, share, kappa, feedback, lateral,
            closed,
        )  # fmt: skip


@uncounted
def add_figures(sums, n_signals, codes, g_d, norms, n_spikes, penalties, kappa, scale):
    """Add a batch to the sums for the next history entry; return the sum of objectives."""
    objective = 0.0
    for k in range(n_signals):
        # By equation 9, ||B a - x||^2 is ||g_D||^2 / kappa^2.  If g_D comes from spike counts, the codes a
        # are rates.
        squares = 0.0
        for j in range(g_d.shape[1]):
            squares += g_d[k, j] * g_d[k, j]
        squares /= kappa * kappa
        objective += 0.5 * squares
        for i in range(codes.shape[1]):
            objective += abs(codes[k, i]) * penalties[i]
            sums[2] += codes[k, i] != 0.0
        if norms[k] > 0.0:
            sums[4] += math.sqrt(squares) / norms[k]
            sums[5] += 1.0
    for k in range(n_spikes.shape[0]):
        sums[3] += n_spikes[k]
    objective /= scale * scale
    sums[0] += n_signals
    sums[1] += objective
    return objective


@uncounted
def count_fired(fired, n_signals, now, probed, n_fired, last_fired, last_compared):
    """Count the signals for which each neuron fired; set its times of the last signal and spike to `now`."""
    for k in range(fired.shape[0]):
        for i in range(fired.shape[1]):
            if fired[k, i]:
                last_compared[i] = now
                if k < n_signals:
                    n_fired[i] += 1
                    last_fired[i] = now
    for i in probed:
        last_compared[i] = now


@uncounted
def bound(values, least, thresholds, least_threshold):
    """Raise thresholds to at least `least_threshold`; return whether weights are finite and >= `least`."""
    # The limit 1e150 keeps squares of weights in the range of floats.
    is_possible = True
    for k in range(values.shape[0]):
        is_possible &= (abs(values[k]) < 1e150) & (values[k] >= least)
    for i in range(thresholds.shape[0]):
        if thresholds[i] < least_threshold:
            thresholds[i] = least_threshold
    return is_possible


@uncounted
def sums_by_atom(
    sums, products, codes, known_share, g_d, g_h, forward, lateral, kappa, current, follows
):  # fmt: skip
    """Set `sums` over a batch for each atom, and set `products` to codes.T @ g_D, (n_atoms, n_inputs)."""
    # Rows 0 to 3 of `sums` are sums over signals.  Rows 0 and 1 sum a_i^2 and |a_i| sum_j |a_j|, times the
    # known share.  Row 2 sums a_i rho_i = -a_i F_i . g_D / kappa, and row 3 sums a_i^2 ||g_D||^2 / kappa^2.
    # If H follows F B, rows 4 and 5 are sums of |g_H| and kappa |H a| over signals and probes.
    n_atoms, n_inputs = products.shape
    for k in range(codes.shape[0]):
        size = squares = 0.0
        for i in range(n_atoms):
            size += abs(codes[k, i])
            current[i] = 0.0
        if k < g_d.shape[0]:
            for j in range(n_inputs):
                squares += g_d[k, j] * g_d[k, j]
            squares /= kappa * kappa
        for i in range(n_atoms):
            code = codes[k, i]
            if code != 0.0 and k < g_d.shape[0]:
                sums[0, i] += known_share[k] * code * code
                sums[1, i] += known_share[k] * size * abs(code)
                sums[3, i] += code * code * squares
                add_scaled(products[i], g_d[k], code)
            if code != 0.0 and follows:
                add_scaled(current, lateral[i], code)
        if follows:
            for i in range(n_atoms):
                sums[4, i] += abs(g_h[k, i])
                sums[5, i] += kappa * abs(current[i])
    for start in range(0, n_inputs, 8):
        for i in range(n_atoms):
            if sums[0, i] > 0.0:
                for j in range(start, min(start + 8, n_inputs)):
                    sums[2, i] -= forward[np.uint64(j), np.uint64(i)] * products[i, np.uint64(j)] / kappa


@uncounted
def usage_steps(
    factors, keep, sums, usage, movement, held, follows, energy, kappa, first_movement, reach, initial, gain,
    caution,
):  # fmt: skip
    """Set eta / kappa of each used atom, and the share of each atom that decay leaves; increase `usage`."""
    # `sums` is the result of `sums_by_atom`.  This kernel divides the first row of `sums` by the mean energy.
    for i in range(usage.shape[0]):
        sums[0, i] /= energy
        used, together = sums[0, i], sums[1, i] / energy
        usage[i] += used
        if follows:
            # The mismatch |g_H| of a neuron as a share of its lateral currents, kappa |H a|.
            mismatch = min(sums[4, i] / sums[5, i], 1.0) if sums[5, i] > 0.0 else 0.0
            bound = (1.0 - mismatch) * used + caution / gain * mismatch * together
            step = 1.0 / (math.sqrt(first_movement + movement[i]) / reach + bound) / energy
        else:
            step = gain / (initial + usage[i] + caution * together) / energy
        step /= 1.0 + held[i] * step * energy
        keep[i] = min(max(1.0 - step * sums[2, i], 0.0), 1.0)
        factors[i] = step / kappa if used > 0.0 else 0.0


@uncounted
def change_atoms(forward, feedback, products, factors, keep, least):
    """Set the weights of changing atoms to ``max(keep * weights - factors * products, least)``."""
    n_atoms, n_inputs = products.shape
    for start in range(0, n_inputs, 8):
        for i in range(n_atoms):
            if factors[i] != 0.0 or keep[i] != 1.0:
                for j in range(start, min(start + 8, n_inputs)):
                    atom, source = np.uint64(i), np.uint64(j)
                    change = factors[i] * products[atom, source]
                    forward[source, atom] = max(keep[i] * forward[source, atom] - change, least)
                    feedback[atom, source] = max(keep[i] * feedback[atom, source] - change, least)


@uncounted
def solve(products, values):
    """Solve the positive definite system ``products X = values`` in place; return whether X is finite."""
    # `products` = U^T D U is overwritten with D U in its upper triangle.
    n_rows = products.shape[0]
    for k in range(n_rows):
        row, pivot = products[k], products[k, k]
        for m in range(k + 1, n_rows):
            if row[m] != 0.0:
                add_scaled(products[m, m:], row[m:], -row[m] / pivot)
                add_scaled(values[m], values[k], -row[m] / pivot)
    is_finite = True
    for k in range(n_rows - 1, -1, -1):
        row, pivot = products[k], products[k, k]
        for m in range(k + 1, n_rows):
            if row[m] != 0.0:
                add_scaled(values[k], values[m], -row[m])
        for i in range(values.shape[1]):
            values[k, i] /= pivot
            is_finite &= abs(values[k, i]) < np.inf
    return is_finite


@uncounted
def add_normalised(products, right, codes, values, ridge):
    """Add the upper half of A^T L^2 A + ridge I, and A^T L^2 V (codes A, inverse norms L, values V)."""
    for k in range(codes.shape[0]):
        squares = 0.0
        for i in range(codes.shape[1]):
            squares += codes[k, i] * codes[k, i]
        for i in range(codes.shape[1]):
            if codes[k, i] != 0.0 and squares > 0.0:
                share = codes[k, i] / squares
                for j in range(i, codes.shape[1]):
                    products[i, j] += share * codes[k, j]
                for j in range(values.shape[1]):
                    right[i, j] += share * values[k, j]
    for i in range(codes.shape[1]):
        products[i, i] += ridge


@uncounted
def change_rows(rows, are_columns, codes, values, keep, least, changes, is_changing):
    """Set rows of atoms with codes or decay to ``max(keep * rows - codes.T @ values, least)``."""
    # If `are_columns`, atoms are the columns of `rows`.  `changes` is memory for eight atoms at a time.
    n_atoms, n_others = codes.shape[1], values.shape[1]
    for first in range(0, n_atoms, 8):
        last = min(first + 8, n_atoms)
        for j in range(first, last):
            is_changing[j - first] = keep[j] != 1.0
            for i in range(n_others):
                changes[j - first, i] = 0.0
        for k in range(codes.shape[0]):
            for j in range(first, last):
                amount = codes[k, j]
                if amount != 0.0:
                    is_changing[j - first] = True
                    add_scaled(changes[j - first], values[k], amount)
        for start in range(0, n_others, 8):
            for j in range(first, last):
                if is_changing[j - first]:
                    for i in range(start, min(start + 8, n_others)):
                        # Unsigned indices are faster than signed indices.
                        place = (np.uint64(i), np.uint64(j)) if are_columns else (np.uint64(j), np.uint64(i))
                        rows[place] = max(keep[j] * rows[place] - changes[j - first, np.uint64(i)], least)


@uncounted
def average_rows(average, averaged, spread, rows, used, averaging, lets_go, least_distance, rise):
    """Move the average of each used atom towards its row, and update its usual squared distance, `spread`."""
    # If the squared distance is `lets_go` times the usual squared distance, half of the averaged usage is
    # forgotten.
    for j in range(rows.shape[0]):
        if averaged[j] == 0.0:  # the atom was never used, or it begins anew
            for i in range(rows.shape[1]):
                average[j, i] = rows[j, i]
        if used[j] == 0.0:
            continue
        distance = 0.0
        for i in range(rows.shape[1]):
            distance += (rows[j, i] - average[j, i]) ** 2
        averaged[j] += used[j]
        is_known = spread[j] > 0.0
        if is_known and distance > max(lets_go * spread[j], least_distance):
            averaged[j] *= 0.5
        share = min(averaging * used[j] / averaged[j], 1.0)
        for i in range(rows.shape[1]):
            average[j, i] += share * (rows[j, i] - average[j, i])
        spread[j] += share * (rise if is_known and distance > spread[j] else 1.0) * (distance - spread[j])


@uncounted
def is_transpose(matrix, other):
    """Return whether a matrix is the transpose of another; compare a few rows and columns at a time."""
    is_same = True
    for first in range(0, matrix.shape[0], 16):
        for begin in range(0, matrix.shape[1], 8):
            for j in range(first, min(first + 16, matrix.shape[0])):
                for i in range(begin, min(begin + 8, matrix.shape[1])):
                    is_same &= matrix[np.uint64(j), np.uint64(i)] == other[np.uint64(i), np.uint64(j)]
    return is_same


@uncounted
def close_columns(closed, lateral, product, first, gamma):
    """Set columns of `closed`, and rows with the same indices, to lateral - gamma F B for a symmetric F B."""
    # `product` has the entries of F B on and below the diagonal, in the columns from `first` on.
    n_rows, n_columns = product.shape
    # Process 32 rows of the product at a time, because these rows stay in the cache.
    for begin in range(0, n_rows, 32):
        for i in range(begin, min(begin + 32, n_rows)):
            for j in range(min(i + 1, n_columns)):
                place = np.uint64(first + i), np.uint64(first + j)
                closed[place] = lateral[place] - gamma * product[i, j]
        for j in range(min(begin + 32, n_columns)):
            for i in range(max(begin, j + 1), min(begin + 32, n_rows)):
                place = np.uint64(first + j), np.uint64(first + i)
                closed[place] = lateral[place] - gamma * product[np.uint64(i), j]

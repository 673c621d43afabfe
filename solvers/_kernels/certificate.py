"""Objective, duality gap and KKT violation of codes in an array of atoms.

This module computes the figures of `solvers.certificate.optimality` in compiled loops.
`solvers.certificate.optimality` and `solvers.certificate.residuals` explain the equations and the bounds on
rounding, which are the same here.  The kernels read only the signals, the weights of features, the atoms with
their penalties, and the codes: neither a Gram matrix nor any other result of a solver.  The module also has
the kernels that turn arrays of codes into compressed rows.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import callable_in_kernels, compiled, inner, uncounted
from solvers._kernels.dots import (
    copy,
    correlate,
    long_dot,
    minimised,
    weighted_square,
    write_weighted_squares,
)
from solvers._kernels.precision import (
    EXACT_BITS,
    KEPT_BITS,
    LARGEST,
    QUANTUM,
    SLACK,
    SMALLEST,
    SMALLEST_NORM,
    SMALLEST_SQUARED_NORM,
    UNIT_ROUNDOFF,
    WITHIN,
    gamma,
    operations_of_sum,
)

# The rows of an array of figures of merit.
OBJECTIVE, DUALITY_GAP, KKT_VIOLATION = range(3)


NO_WEIGHTS = np.empty(0)

_gamma, _sum_operations = inner(gamma), inner(operations_of_sum)


class RowEntries(NamedTuple):
    """The nonzero entries of a matrix; row k has the entries pointers[k] up to pointers[k + 1]."""

    pointers: np.ndarray  # of type int32, like `columns`
    columns: np.ndarray  # in increasing order within a row
    values: np.ndarray


@compiled
def count_entries(rows, pointers):
    """Write the pointers of `RowEntries`: where the nonzero entries of each row begin."""
    n_rows, n_columns = rows.shape
    pointers[0] = 0
    for k in range(n_rows):
        count = 0
        for i in range(n_columns):
            count += rows[k, i] != 0
        pointers[k + 1] = pointers[k] + count


@inner
def write_entries(rows, columns, values):
    """Write the nonzero entries, row by row, and their columns; return the number of entries."""
    place = 0
    for k in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            if rows[k, i] != 0:
                values[place] = rows[k, i]
                columns[place] = i
                place += 1
    return place


read_entries = compiled(write_entries)


class PenalisedAtoms(NamedTuple):
    """An array of atoms, their norms in the weighted features, and their penalty."""

    array: np.ndarray
    norms: np.ndarray  # empty if each signal has its own weights of features
    l1_weights: np.ndarray
    curvatures: np.ndarray
    positive: np.ndarray  # True for atoms whose codes must not be negative


class Work(NamedTuple):
    """Work arrays: the first three have an entry for each feature, all others have one for each atom."""

    residual: np.ndarray
    exact: np.ndarray  # used again for the residual times the weights
    rest: np.ndarray
    correlations: np.ndarray
    reach: np.ndarray
    # The next two arrays have values for the entries of a code.
    entry_correlations: np.ndarray
    exponents: np.ndarray  # exponents e: the largest entry of an atom lies in [2^(e-1), 2^e)
    norms: np.ndarray  # norms of atoms in the weighted features of a signal


@callable_in_kernels
def new_work(n_features, n_atoms):
    return Work(
        np.empty(n_features), np.empty(n_features), np.empty(n_features), np.empty(n_atoms),
        np.empty(n_atoms), np.empty(n_atoms), np.empty(n_atoms, np.int64), np.empty(n_atoms),
    )  # fmt: skip


@partial(inner, fastmath={"contract"})
def _add_split(exact, rest, row, magic, high, low):
    """Add (high + low) row to two sums: an exact sum, and a sum of remainders."""
    for j in range(row.shape[0]):
        # Round row[j] to a multiple of the last binary digit of `magic`, which is a power of two.
        kept = (row[j] + magic) - magic
        exact[j] += high * kept
        rest[j] += high * (row[j] - kept) + low * row[j]


@partial(inner, fastmath={"nnan", "nsz"})
def _largest_number(row):
    largest = 0.0
    for j in range(row.shape[0]):
        largest = max(largest, abs(row[j]))
    return largest


@partial(inner, fastmath={"nnan", "nsz"})
def _largest_known_number(row, weights):
    largest = 0.0
    for j in range(row.shape[0]):
        largest = max(largest, abs(row[j]) if weights[j] > 0.0 else 0.0)
    return largest


@inner
def _write_seen_norms(array, weights, norms):
    """Write the norms of atoms in weighted features, which `solvers.problem.parts.seen_norms` defines."""
    write_weighted_squares(array, weights, norms)
    for i in range(norms.shape[0]):
        if norms[i] < SMALLEST_SQUARED_NORM and _largest_known_number(array[i], weights) > 0.0:
            norms[i] = SMALLEST_SQUARED_NORM
    for i in range(norms.shape[0]):
        norms[i] = math.sqrt(norms[i])


@inner
def _write_residual(array, features, weights, columns, values, work):
    """Write s - a D; return a bound on the error of each entry, except the rounding of the entry itself."""
    n_terms = columns.shape[0]
    exact, rest, residual = work.exact, work.rest, work.residual
    n_features = features.shape[0]
    exact[:] = rest[:] = 0.0
    largest = -(2**30)
    for k in range(n_terms):
        row = array[columns[k]]
        largest_number = _largest_known_number(row, weights) if weights.shape[0] > 0 else _largest_number(row)
        work.exponents[k] = math.frexp(largest_number)[1]
        largest = max(largest, math.frexp(values[k])[1] + int(work.exponents[k]))
    carry = math.frexp(float(n_terms))[1]
    largest_rest = 0.0
    for k in range(n_terms):
        exponent = int(work.exponents[k])  # converted to an int of Python if the function is not compiled
        unit = largest + carry + 1 - EXACT_BITS - exponent + KEPT_BITS
        high = math.ldexp(np.rint(math.ldexp(values[k], -unit)), unit)
        low = values[k] - high
        magic = math.ldexp(1.5, 52 + exponent - KEPT_BITS)
        _add_split(exact, rest, array[columns[k]], magic, high, low)
        term = math.ldexp(abs(high), exponent - KEPT_BITS) + math.ldexp(abs(low), exponent)
        largest_rest = max(largest_rest, term)
    for j in range(n_features):
        residual[j] = (features[j] - exact[j]) - rest[j]
    relative = SLACK * UNIT_ROUNDOFF
    return relative * (2.0 * n_terms + 4.0) * n_terms * largest_rest + n_terms * QUANTUM


@inner
def _weigh(residual, weights, weighted):
    """Write weights times a residual, and zero the residual at zero weights; return the largest weight."""
    largest = 0.0
    for j in range(residual.shape[0]):
        if weights[j] == 0.0:
            residual[j] = 0.0
        weighted[j] = weights[j] * residual[j]
        largest = max(largest, weights[j])
    return largest


@inner
def _objective(squared, l1_weights, curvatures, columns, values):
    """Return the objective of a code whose residual has the squared norm `squared`."""
    objective = 0.5 * squared
    for k in range(columns.shape[0]):
        size = abs(values[k])
        objective += size * l1_weights[columns[k]] + 0.5 * curvatures[columns[k]] * size * size
    return objective


@partial(inner, fastmath={"nnan", "nsz", "contract"})
def _write_reach(atoms, norms, correlations, error, reach):
    """Write the `reach` of each correlation: its largest possible value, including its error."""
    # Return the largest reach / l1 weight of atoms without a curvature, the largest excess over an l1 weight,
    # and the number of atoms with a curvature.
    l1_weights, curvatures, positive = atoms.l1_weights, atoms.curvatures, atoms.positive
    ratio = violation = 0.0
    n_curved = 0
    for i in range(reach.shape[0]):
        pull = correlations[i] if positive[i] else abs(correlations[i])
        reach[i] = pull + error * norms[i]
        ratio = max(ratio, reach[i] / l1_weights[i] if curvatures[i] == 0.0 else 0.0)
        violation = max(violation, pull - l1_weights[i])
        n_curved += curvatures[i] > 0.0
    return ratio, violation, n_curved


@inner
def _add_reach_of_code(atoms, weights, columns, values, work, error, ratio, violation):
    """Write the reach of the atoms of a code; return the ratio and the violation of all atoms."""
    array, norms, reach = atoms.array, work.norms, work.reach
    for k in range(columns.shape[0]):
        i = columns[k]
        positive, correlation = atoms.positive[i], work.entry_correlations[k]
        weight, curvature = atoms.l1_weights[i], atoms.curvatures[i]
        reach[i] = (correlation if positive else abs(correlation)) + error * norms[i]
        if curvature == 0.0:
            ratio = max(ratio, reach[i] / weight)
        has_weights = weights.shape[0] > 0
        squared_norm = weighted_square(array[i], weights) if has_weights else norms[i] * norms[i]
        stepped = squared_norm * values[k] + correlation
        thresholded = minimised(stepped, weight, 1.0, positive)
        if squared_norm + curvature > 0.0:
            violation = max(violation, abs((squared_norm + curvature) * values[k] - thresholded))
        elif values[k] != 0.0:
            violation = max(violation, weight)
    return ratio, violation


@inner
def _slack_at(code, point, weight, curvature, positive):
    """Return ``h(a) + h*(x) - a x`` for one entry of a code, rounded up."""
    along = -point if code < 0.0 else point
    if curvature == 0.0:
        return abs(code) * max(weight - along, 0.0)
    within = min(point, weight) if positive else min(max(point, -weight), weight)
    along = -within if code < 0.0 else within
    pull = curvature * code
    excess = point - within
    distance = abs(pull - excess) + 4.0 * UNIT_ROUNDOFF * (abs(pull) + abs(excess))
    distance /= math.sqrt(curvature)
    return abs(code) * max(weight - along, 0.0) + 0.5 * distance * distance


@inner
def _slacks(multiple, error, atoms, columns, values, work):
    """Return the sum of the slacks of a code's atoms at a multiple of its residual, rounded up."""
    l1_weights, curvatures, positive = atoms.l1_weights, atoms.curvatures, atoms.positive
    correlations = work.entry_correlations
    slacks = 0.0
    for k in range(columns.shape[0]):
        i = columns[k]
        distance = error * work.norms[i]
        low = multiple * (correlations[k] - distance)
        high = multiple * (correlations[k] + distance)
        slacks += max(
            _slack_at(values[k], low, l1_weights[i], curvatures[i], positive[i]),
            _slack_at(values[k], high, l1_weights[i], curvatures[i], positive[i]),
        )
    return slacks


@inner
def _conjugates(multiple, reach, l1_weights, curvatures, columns):
    """Return the sum of the conjugates of curved atoms outside the code; `_slacks` has atoms of the code."""
    conjugates = 0.0
    for k in range(columns.shape[0]):
        reach[columns[k]] = 0.0
    for i in range(reach.shape[0]):
        excess = multiple * reach[i] - l1_weights[i]
        if curvatures[i] > 0.0 and excess > 0.0:
            excess /= math.sqrt(curvatures[i])
            conjugates += 0.5 * excess * excess
    return conjugates


@inner
def _curved_multiple(multiple, along, squared, reach, l1_weights, curvatures):
    """Return the best multiple for atoms with curvatures; Newton's method approaches it from above."""
    n_beyond = -1
    while True:
        count = 0
        numerator = along
        denominator = squared
        for i in range(reach.shape[0]):
            if curvatures[i] > 0.0 and multiple * reach[i] > l1_weights[i]:
                start = l1_weights[i] / reach[i]
                if multiple > start:
                    root = reach[i] / math.sqrt(curvatures[i])
                    count += 1
                    numerator += root * root * start
                    denominator += root * root
        if count == 0 or count == n_beyond:
            return multiple
        n_beyond = count
        multiple = min(multiple, max(numerator / max(denominator, SMALLEST), 0.0))


@inner
def measure_code(atoms, features, weights, columns, values, work, figures):
    """Write objective, duality gap and KKT violation of the code of one signal to `figures`."""
    # weights : the weights w of features (ones and zeros for a mask), or `NO_WEIGHTS`.
    # columns, values : the unique entries of the code, sorted by atom.
    # work : `work.norms` has the norms of the atoms in the weighted features.
    array, l1_weights, curvatures = atoms.array, atoms.l1_weights, atoms.curvatures
    (n_atoms, n_features), n_entries = array.shape, columns.shape[0]
    residual, correlations = work.residual, work.correlations
    reach, of_entries = work.reach, work.entry_correlations
    rest_error = _write_residual(array, features, weights, columns, values, work)
    has_weights, weighted, largest_weight = weights.shape[0] > 0, residual, 1.0
    if has_weights:
        weighted = work.exact
        largest_weight = _weigh(residual, weights, weighted)
    squared = long_dot(residual, weighted)
    along = long_dot(features, weighted)
    norm = math.sqrt(squared)
    objective = _objective(squared, l1_weights, curvatures, columns, values)
    # If the objective overflows, all figures stay infinite, because further sums might be NaN.
    figures[:] = math.inf
    if not objective < math.inf:
        return
    figures[OBJECTIVE] = objective
    if norm >= LARGEST * 2.0**-512 and norm * _largest_number(work.norms) >= LARGEST:
        return
    # A product with a weight is one more operation.
    n_operations = _sum_operations(n_features)
    error = _gamma(n_operations + (3 if has_weights else 2)) * norm
    error += SLACK * math.sqrt(n_features * largest_weight) * rest_error
    error += n_features * QUANTUM / SMALLEST_NORM

    correlate(array, weighted, correlations)
    # Atoms of the code are left out at first, and `_add_reach_of_code` adds these atoms.
    for k in range(n_entries):
        of_entries[k], correlations[columns[k]] = correlations[columns[k]], 0.0
    ratio, violation, n_curved = _write_reach(atoms, work.norms, correlations, error, reach)
    ratio, figures[KKT_VIOLATION] = _add_reach_of_code(
        atoms, weights, columns, values, work, error, ratio, violation
    )
    if n_entries == 0 and squared == 0.0:
        figures[DUALITY_GAP] = 0.0
        return

    multiple = min(max(along / max(squared, SMALLEST), 0.0), WITHIN / max(ratio, SMALLEST))
    conjugates = 0.0
    if n_curved > 0:
        multiple = _curved_multiple(multiple, along, squared, reach, l1_weights, curvatures)
        conjugates = _conjugates(multiple, reach, l1_weights, curvatures, columns)
    slacks = _slacks(multiple, error, atoms, columns, values, work)
    lost = (n_features + n_atoms) * QUANTUM
    residual_norm = math.sqrt(squared + lost)
    residual_norm += SLACK * UNIT_ROUNDOFF * 2.0 * norm
    residual_norm += math.sqrt(n_features * largest_weight) * rest_error
    residual_norm *= 1.0 - multiple
    gap = 0.5 * residual_norm * residual_norm + slacks + conjugates + lost
    figures[DUALITY_GAP] = gap * (1.0 + _gamma(n_operations + n_atoms))


@uncounted
def measure_codes(atoms, signals, weights, codes, work, figures):
    """Write objective, duality gap and KKT violation of each code to a column of `figures`."""
    # weights : the weights of features, with a row for each signal, one row for all signals, or no row.
    # codes : `RowEntries` with unique entries, sorted by atom.
    copy(work.norms[: atoms.norms.shape[0]], atoms.norms)
    for k in range(signals.shape[0]):
        entries = slice(codes.pointers[k], codes.pointers[k + 1])
        weights_of_signal = NO_WEIGHTS
        if weights.shape[0] > 0:
            weights_of_signal = weights[min(k, weights.shape[0] - 1)]
        if atoms.norms.shape[0] == 0:
            _write_seen_norms(atoms.array, weights_of_signal, work.norms)
        columns, values = codes.columns[entries], codes.values[entries]
        measure_code(atoms, signals[k], weights_of_signal, columns, values, work, figures[:, k])


@partial(inner, _nrt=True)
def read_and_measure(atoms, signals, codes, columns, values, figures):
    """Write the entries and the figures of one signal's code; return the number of entries."""
    size, (n_atoms, n_features) = write_entries(codes, columns, values), atoms.array.shape
    work = new_work(n_features, n_atoms)
    copy(work.norms, atoms.norms)
    measure_code(atoms, signals[0], NO_WEIGHTS, columns[:size], values[:size], work, figures)
    return size


read_and_certify = compiled(read_and_measure)

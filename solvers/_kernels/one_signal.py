"""One signal from its correlations to certified codes, in one call."""

from functools import partial

import numpy as np

from snn._kernels.compiling import compiled, inner
from solvers._kernels.active_set import solve_each
from solvers._kernels.batch import CompressedRows
from solvers._kernels.certificate import NO_WEIGHTS, certify, new_work
from solvers._kernels.factor import Terms
from solvers._kernels.products import GramMatrix

# Entries of `report`: after the figures of the certificate, the columns of `active_set`.
N_FIGURES = 3
N_REPORTED = 7


@partial(inner, _nrt=True)
def nonzero(row):
    """Return the columns and values of the entries of a row that are not zero."""
    n_entries = 0
    for i in range(row.shape[0]):
        n_entries += row[i] != 0
    columns, values = np.empty(n_entries, np.int32), np.empty(n_entries, row.dtype)
    place = 0
    for i in range(row.shape[0]):
        if row[i] != 0:
            columns[place] = i
            values[place] = row[i]
            place += 1
    return columns, values


@compiled
def read_and_certify(array, norms, l1_weights, curvatures, positive, signals, codes, spike_counts, figures):
    """Return the atoms and values of the code of one signal, and the neurons that fired and how often; write
    objective, duality gap and KKT violation to `figures`."""
    atoms, values = nonzero(codes[0])
    neurons, counts = nonzero(spike_counts[0])
    n_atoms, n_features = array.shape
    certify(
        array, norms, l1_weights, curvatures, positive, signals[0], NO_WEIGHTS, atoms, values,
        new_work(n_features, n_atoms), figures,
    )  # fmt: skip
    return atoms, values, neurons, counts


@compiled
def solve_and_certify(
    array, gram, norms, l1_weights, curvatures, positive, signals, correlations, start_atoms, start_currents,
    max_rounds, report,
):  # fmt: skip
    """Return the atoms and values of the optimal code of one signal; write what is known of it to `report`.

    array, gram, norms : the atoms, their Gram matrix, and ||d_i||.
    signals, correlations : one row each.
    start_atoms, start_currents : what the method starts from, as `active_set.solve_active_sets`.
    report : objective, duality gap and KKT violation; corrections, rounds, and whether the method
        ended, multiply-adds.
    """
    n_atoms, n_features = array.shape
    inverse_norms = np.zeros(n_atoms)
    for i in range(n_atoms):
        if norms[i] > 0.0:
            inverse_norms[i] = 1.0 / norms[i]
    pointers = np.zeros(2, np.int32)
    pointers[1] = start_atoms.shape[0]
    code = np.zeros((1, n_atoms))
    counts = np.zeros((1, N_REPORTED - N_FIGURES), np.int64)
    terms = Terms(correlations, l1_weights, curvatures, inverse_norms, positive)
    start = CompressedRows(pointers, start_atoms, start_currents)
    solve_each(GramMatrix(gram), terms, np.zeros(1, np.int64), start, max_rounds, code, counts)
    atoms, values = nonzero(code[0])
    certify(
        array, norms, l1_weights, curvatures, positive, signals[0], NO_WEIGHTS, atoms, values,
        new_work(n_features, n_atoms), report[:N_FIGURES],
    )  # fmt: skip
    for k in range(N_REPORTED - N_FIGURES):
        report[N_FIGURES + k] = counts[0, k]
    return atoms, values

"""Where the active-set method takes inner products of atoms from: a Gram matrix, or the atoms themselves.

Which implementation runs is resolved when a kernel is compiled, by the type of the record.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import implements, inner, resolved_by_record
from solvers._kernels.dots import copy, correlate, dot, four_dots, subtract


class GramMatrix(NamedTuple):
    """All inner products of atoms."""

    gram: np.ndarray


class WeightedAtoms(NamedTuple):
    """Atoms whose features have weights of their own for each signal: no product serves two signals."""

    array: np.ndarray  # shape (n_atoms, n_features)
    signals: np.ndarray  # shape (n_signals, n_features)
    weights: np.ndarray  # shape (n_signals, n_features)
    row: np.ndarray  # work array, one entry a feature


@resolved_by_record
def write_products(atoms, signal, atom, work, n_members):
    """Write the inner products of an atom with the members of W, and behind them that with itself."""


@resolved_by_record
def write_residuals(atoms, signal, work, size, correlations, residual):
    """Write the correlations of all atoms with the residual of x to `residual`."""


@partial(inner, fastmath={"contract"})
def _subtract_four(target, factors, first, second, third, fourth):
    for i in range(target.shape[0]):
        target[i] -= (
            factors[0] * first[i] + factors[1] * second[i] + factors[2] * third[i] + factors[3] * fourth[i]
        )


@inner
def _subtract_rows(rows, work, size, target):
    """Subtract the rows of the atoms in S, times their values, from `target`."""
    factors = work.residual
    for k in range(size):
        factors[k] = work.sign[k] * work.value[k]
    work.n_multiply_adds[0] += size * target.shape[0]
    whole = size - size % 4
    # Four rows at a time, so that `target` is read and written a quarter as often.
    for k in range(0, whole, 4):
        _subtract_four(
            target,
            factors[k : k + 4],
            rows[work.atoms[work.active[k]]],
            rows[work.atoms[work.active[k + 1]]],
            rows[work.atoms[work.active[k + 2]]],
            rows[work.atoms[work.active[k + 3]]],
        )
    for k in range(whole, size):
        subtract(target, factors[k], rows[work.atoms[work.active[k]]])


@implements(write_products, GramMatrix)
def products_from_matrix(atoms, signal, atom, work, n_members):
    row = atoms.gram[atom]
    members, products = work.atoms, work.gram[n_members]
    for k in range(n_members):
        products[k] = row[members[k]]
    products[n_members] = row[atom]


@implements(write_residuals, GramMatrix)
def residuals_from_matrix(atoms, signal, work, size, correlations, residual):
    copy(residual, correlations)
    _subtract_rows(atoms.gram, work, size, residual)


@implements(write_products, WeightedAtoms)
def products_of_atoms(atoms, signal, atom, work, n_members):
    array, row = atoms.array, atoms.row
    members, products = work.atoms, work.gram[n_members]
    work.n_multiply_adds[0] += (n_members + 2) * row.shape[0]
    weights = atoms.weights[signal]
    for j in range(row.shape[0]):
        row[j] = weights[j] * array[atom, j]
    whole = n_members - n_members % 4
    for k in range(0, whole, 4):
        four = four_dots(
            array[members[k]], array[members[k + 1]], array[members[k + 2]], array[members[k + 3]], row
        )
        for i in range(4):
            products[k + i] = four[i]
    for k in range(whole, n_members):
        products[k] = dot(array[members[k]], row)
    products[n_members] = dot(array[atom], row)


@implements(write_residuals, WeightedAtoms)
def residuals_of_atoms(atoms, signal, work, size, correlations, residual):
    array, row = atoms.array, atoms.row
    if size == 0:
        copy(residual, correlations)
        return
    copy(row, atoms.signals[signal])
    _subtract_rows(array, work, size, row)
    weights = atoms.weights[signal]
    for j in range(row.shape[0]):
        row[j] = weights[j] * row[j] if weights[j] > 0.0 else 0.0
    work.n_multiply_adds[0] += (array.shape[0] + 1) * row.shape[0]
    correlate(array, row, residual)

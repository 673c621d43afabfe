"""Products of atoms, from a Gram matrix or from atoms of which each signal sees other features."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from snn._kernels.compiling import implements, inner, resolved_by_record
from solvers._kernels.dots import copy, correlate, dot, subtract, write_weighted_squares
from solvers._kernels.precision import SMALLEST_SQUARED_NORM


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
def write_inverse_norms(atoms, signal, inverse_norms):
    """Write 1 / ||d_i|| of atoms as a signal sees them, if signals differ; return the multiply-adds."""
    return 0


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
    row, products = atoms.gram[atom], work.gram[n_members]
    for k in range(n_members):
        products[k] = row[work.atoms[k]]
    products[n_members] = row[atom]


@implements(write_residuals, GramMatrix)
def residuals_from_matrix(atoms, signal, work, size, correlations, residual):
    copy(residual, correlations)
    _subtract_rows(atoms.gram, work, size, residual)


@implements(write_products, WeightedAtoms)
def products_of_atoms(atoms, signal, atom, work, n_members):
    array, row, products = atoms.array, atoms.row, work.gram[n_members]
    work.n_multiply_adds[0] += (n_members + 2) * row.shape[0]
    for j in range(row.shape[0]):
        row[j] = atoms.weights[signal, j] * array[atom, j]
    for k in range(n_members):
        products[k] = dot(array[work.atoms[k]], row)
    products[n_members] = dot(array[atom], row)


@implements(write_inverse_norms, WeightedAtoms)
def inverse_norms_of_atoms(atoms, signal, inverse_norms):
    write_weighted_squares(atoms.array, atoms.weights[signal], inverse_norms)
    for i in range(inverse_norms.shape[0]):
        # Next to nothing of an atom is nothing.
        squared_norm = inverse_norms[i] if inverse_norms[i] >= SMALLEST_SQUARED_NORM else math.inf
        inverse_norms[i] = 1.0 / math.sqrt(squared_norm)
    return 2 * atoms.array.size


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
